"""A few people by area and age, with which the command line and the studio are tried."""

AREAS = """
[domain.area]
type = "categorical"
codes = ["n", "s"]
labels = ["North", "South"]

[domain.age]
type = "ordered"
low = 0
high = 3

[[tables]]
attributes = ["area"]
margin = 4
"""
"""The part of a specification with the attributes and a first table."""

DATA = "area,age\n" + "n,1\n" * 40 + "s,3\n" * 20
