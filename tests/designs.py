"""Attributes without names of their own, for designs made by hand."""

from fitnoise.kernel.designs._base import Cells


def over(sizes, cells):
    """So many values of exchangeable attributes a0, a1, …, and so many structured cells."""
    return Cells(tuple((f"a{i}", n) for i, n in enumerate(sizes)), (("o", cells),))
