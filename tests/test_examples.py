"""Records to try a specification with, of all that may be declared."""

import csv
import io
import json

import numpy as np
import pytest

import fitnoise as fn
import zoo
from fitnoise.engines import open_counter
from fitnoise.planning.examples import examples
from fitnoise.request.documents import load_spec
from laws.releases import by_command
from refused import refused

SPEC = """
[data]
source = "survey"
where = { year = { at_least = 2020, below = 2025 }, status = ["a", "b"], day = { at_least = 2024-02-01 } }
[privacy]
unit = "person"
id = "person"
max_records = 2
cap = { rho = 1 }
[domain.sex]
type = "categorical"
codes = ["f", "m"]
missing = { unknown = ["9"], "not applicable" = [] }
if_missing = "unknown"
if_outside = "not applicable"
[domain.example]
type = "ordered"
low = 0
high = 3
missing = { unknown = [-9] }
[domain.aged]
type = "ordered"
low = 18
high = 80
clip = true
column = "born"
date_part = { age_on = "2024-02-29" }
missing = { unknown = [] }
if_missing = "unknown"
[domain.born]
type = "binned"
cuts = [1950, 1980]
date_part = "year"
missing = { unknown = [] }
if_missing = "unknown"
[domain.hour]
type = "binned"
cuts = [6, 12, 18]
column = "day"
date_part = "hour"
[domain.weekday]
type = "categorical"
codes = [1, 3, 7]
column = "day"
date_part = "weekday"
[domain.income]
type = "amount"
low = -100
high = 1000
step = 0.5
missing = { "not stated" = [9999] }
[domain.bracket]
type = "binned"
column = "income"
cuts = [0, 500]
[domain.place]
type = "hierarchy"
levels = ["state", "county"]
places = [["A", "A1"], ["A", "A2"], ["B", "B1"]]
[domain.region]
type = "categorical"
codes = ["n", "s"]
column = "postcode"
lookup = [["01", "n"], ["02", "n"], ["99", "s"]]
[[tables]]
attributes = ["sex", "state"]
margin = 9
[[tables]]
attributes = ["sex"]
sum = "income"
margin = 9000
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path / "spec.toml"


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_examples_are_counted_with_the_specification_they_are_of(spec, capsys, tmp_path):
    by_command("new", str(spec), "--example", "400")
    out, err = capsys.readouterr()
    assert err == ""
    (tmp_path / "example.csv").write_text(out, encoding="utf-8")
    plan = fn.plan(load_spec(spec))
    release = fn.release(plan, tmp_path / "example.csv", ledger=tmp_path / "ledger.sqlite")
    assert abs(release["sex by state"]["value"].sum() - 400) < 6 * 9 * 8**0.5


def test_every_cell_occurs_and_every_record_meets_the_conditions(spec):
    publication = load_spec(spec)
    records = rows(examples(publication, 600))
    assert list(records[0])[:3] == ["example_", "sex", "example"]  # which the specification reads itself
    assert [row["example_"] for row in records] == [str(i) for i in range(1, 601)]
    for name, a in publication.workload.domain.attributes:
        places = {a.cell(row[publication.workload.domain.column(name)]) for row in records}
        assert None not in places
        if not a.steps and name != "aged":  # ages and years of birth are of one date
            assert places == set(range(a.size))
        elif a.steps:
            assert sum(a.steps) + 1 in places
    assert {row["year"] for row in records} == {"2020", "2021", "2022", "2023", "2024"}
    assert {row["status"] for row in records} == {"a", "b"}
    assert min(row["day"] for row in records) >= "2024-02-01"
    assert len({row["person"] for row in records}) == 600


def test_examples_are_drawn_as_often_of_every_cell():
    domain = fn.Domain(a=fn.Categorical(list("abcd")), pay=fn.Amount(0, 100))
    records = rows(examples(fn.Publication(fn.Workload(domain, [fn.table("a", margin=9)])), 4000))
    assert next(iter(records[0])) == "example"
    for code in "abcd":
        assert abs(sum(row["a"] == code for row in records) - 1000) < 5 * 750**0.5
    pay = np.array([float(row["pay"]) for row in records])
    assert set(pay) == set(range(101))
    assert abs(pay.mean() - 50) < 5 * 29.2 / 4000**0.5


def test_examples_follow_from_the_specification_only(spec, capsys):
    by_command("new", str(spec), "--example", "20", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document == {"examples": examples(load_spec(spec), 20)}


@pytest.mark.parametrize("name", zoo.ATTRIBUTES)
def test_what_a_cell_may_hold_falls_into_it(name):
    a = zoo.ATTRIBUTES[name].attribute
    empty = [0] if name == "bins at the ends of numbers" else []  # below the least number
    assert [c for c in range(a.coding.size) if not a.examples(c)] == empty
    assert all(a.coding.cell_of(x) == c for c in range(a.coding.size) for x in a.examples(c))


@pytest.mark.parametrize("name", zoo.ATTRIBUTES)
def test_examples_of_every_kind_of_attribute_are_counted(name, tmp_path):
    domain = fn.Domain(x=zoo.ATTRIBUTES[name].attribute, y=fn.Ordered(0, 1))
    table = fn.table("y", margin=9)
    (tmp_path / "example.csv").write_text(
        examples(fn.Publication(fn.Workload(domain, [table])), 50), encoding="utf-8", newline=""
    )
    counter = open_counter(tmp_path / "example.csv", domain.axes, fn.DataSource(), None)
    assert sum(counter.count([("x", "y")])[("x", "y")].ravel()) == 50


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (fn.Ordered(5, 9, column="x"), {}),
        (fn.Ordered(0, 3, column="x"), {"x": {"above": 3}}),
        (fn.Ordered(2020, 2020, column="x", date_part="year"), {"x": {"below": "2019-01-01"}}),
    ],
)
def test_a_column_that_nobody_can_fill_is_refused(other, where, monkeypatch):
    monkeypatch.setattr("fitnoise.planning.examples.MAX_TRIES", 50)
    domain = fn.Domain(x=fn.Ordered(0, 3), y=other)
    publication = fn.Publication(fn.Workload(domain, [fn.table("y", margin=9)]), source=fn.DataSource(where=where))
    with refused("spec.no-example-for-column"):
        examples(publication, 5)


@pytest.mark.parametrize("specifications", [[], ["spec.toml", "other.toml"]])
def test_examples_are_of_one_specification(specifications, capsys):
    by_command("new", *specifications, "--example", "5")
    out, err = capsys.readouterr()
    assert out == ""
    assert f"--example is given with {len(specifications)} specifications. It needs one." in err
