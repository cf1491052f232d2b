"""Nested places: how they are read, planned by levels, counted and released."""

import itertools
import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from dense import (
    cell_order,
    numbers_by_least_squares,
    pair_costs,
    pair_law,
    rebuilt_tables,
    strategy_matrix,
    workload_matrix,
    workload_variances,
)
from fitnoise.engines import open_counter
from fitnoise.errors import (
    PlanError,
)
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.comparisons import separate_budgets
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel.domain import HierarchyShare
from fitnoise.kernel.places import RegularTree
from fitnoise.kernel.units import DataSource
from fitnoise.mechanisms.gaussian import budgets
from fitnoise.mechanisms.gaussian import levels as level_plans
from fitnoise.mechanisms.gaussian import places as by_place_plans
from fitnoise.mechanisms.gaussian import planning as gaussian_planning
from fitnoise.messages import english
from fitnoise.planning import what_if
from fitnoise.planning.comparison import compare
from fitnoise.request.attributes import attribute_document
from fitnoise.request.documents import Spec
from fitnoise.request.known_totals import parse_totals
from fitnoise.request.targets import z_score
from fitnoise.request.workloads import exchangeable_attributes, uneven_levels
from fitnoise.solving import budgets as best_budgets
from fitnoise.solving import trees, weighted_trees
from fitnoise.solving.certificates import Evidence, lower_bound
from fitnoise.solving.sectors import decompose
from laws.counting import HistogramCounter
from laws.plans import check_mechanism, status_of
from laws.releases import measured, released
from refused import refused
from replayed_noise import Replay
from tolerances import EXACT, GAP, LOOSE

TWO = fn.Ordered(0, 1)
TREE = fn.Hierarchy(["state", "county", "tract"], [("b", "b1", 3), ("a", "a1", 2), ("b", "b2", 1), ("a", "a2", 9)])


def planned(branching, levels, *tables, **attributes):
    domain = fn.Domain(geo=zoo.places(*branching, levels=levels), **attributes)
    return fn.plan(fn.Workload(domain, list(tables)), gap=GAP)


# --- what a tree is ---------------------------------------------------------------------------------------


def test_places_are_grouped_in_the_order_of_their_first_appearance():
    assert TREE.places == (("b", "b1", 3), ("b", "b2", 1), ("a", "a1", 2), ("a", "a2", 9))
    domain = fn.Domain(geo=TREE, sex=fn.Ordered(0, 1))
    assert (list(domain), domain.shape) == (["geo", "sex"], (4, 2))
    assert domain["state"].values == ("b", "a")
    assert domain["tract"].values == domain["geo"].values == (3, 1, 2, 9)
    assert [domain["state"].cell(x) for x in (3, 1, 2, "9", 4)] == [0, 0, 1, 1, None]
    assert [domain["state"].position(x) for x in "ba"] == [0, 1]
    assert (domain.column("county"), domain.column("geo")) == ("geo", "geo")
    assert fn.Domain(geo=fn.Hierarchy(["u", "v"], [(1, 2)], column="GEOID")).column("u") == "GEOID"
    assert "county" in domain
    assert "county in state" not in domain  # which only a design may count by
    assert domain.sizes == {
        "geo": 4, "state": 2, "county": 4, "tract": 4, "county in state": 2, "tract in state": 2, "tract in county": 1,
        "sex": 2,
    }  # fmt: skip


def test_the_leaves_may_be_called_as_the_hierarchy():
    domain = fn.Domain(county=fn.Hierarchy(["state", "county"], [("x", 1), ("y", 2), ("y", 3)]))
    assert domain.sizes == {"county": 3, "state": 2}
    assert fn.plan(fn.Workload(domain, [fn.table("county", margin=5), fn.table("state", margin=3)])).gap < 1e-5


def test_a_level_is_laid_out_along_the_levels_above_it():
    domain = fn.Domain(geo=zoo.places(2, 3, 2), sex=fn.Ordered(0, 1))
    regions, districts, tracts = "region", "district in region", "tract in district"
    assert domain.axes.counting_axes(("sex", regions)) == ((("sex",), ("sex",)), (("region",), ("region",)))
    assert domain.axes.counting_axes((districts, "sex")) == (
        (("district",), (regions, districts)),
        (("sex",), ("sex",)),
    )
    assert domain.axes.counting_axes((regions, districts, tracts)) == ((("tract",), (regions, districts, tracts)),)
    assert domain.axes.counting_axes((tracts,)) == ((("tract",), ("district", tracts)),)
    for odd in ((districts, "tract in region"), ("geo", districts), ("tract in region", "district")):
        with refused("domain.shares-not-nested"):
            domain.axes.counting_axes(odd)
    uneven = fn.Domain(
        geo=fn.Hierarchy(list("abc"), [(1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 3, 4), (2, 4, 5), (2, 4, 6)])
    )
    assert "c in b" not in uneven.sizes
    with refused("domain.shares-not-nested"):
        uneven.axes.counting_axes(("b in a", "c in a"))
    with refused("domain.unknown-attribute"):
        domain.axes.counting_axes(("nowhere",))
    assert HierarchyShare("geo", ("u", "v"), 0, 1, 3).size == 3


ROWS = [("a", "a1"), ("a", "a2")]

BAD = {
    "no levels": (lambda: fn.Hierarchy([], ROWS), "domain.levels-invalid"),
    "one level": (lambda: fn.Hierarchy(["state"], [("a",)]), "domain.levels-invalid"),
    "a text": (lambda: fn.Hierarchy("ab", ROWS), "domain.levels-invalid"),
    "a level without a name": (lambda: fn.Hierarchy(["state", ""], ROWS), "domain.levels-invalid"),
    "a level twice": (lambda: fn.Hierarchy(["state", "state"], ROWS), "domain.name-repeated"),
    "no places": (lambda: fn.Hierarchy(["state", "county"], []), "domain.places-empty"),
    "a short row": (lambda: fn.Hierarchy(["state", "county"], [("a",)]), "domain.place-row-invalid"),
    "a row of text": (lambda: fn.Hierarchy(["state", "county"], ["ab"]), "domain.place-row-invalid"),
    "no list of places": (lambda: fn.Hierarchy(["state", "county"]), "domain.places-not-given"),
    "a list and a file": (
        lambda: fn.Hierarchy(["state", "county"], ROWS, file="x.csv"),
        "domain.places-in-several-ways",
    ),
    "no name of a file": (lambda: fn.Hierarchy(["state", "county"], file=3), "domain.wrong-type"),
    "no parent": (
        lambda: fn.Hierarchy(["state", "county"], [*ROWS, ("", "b1")]),
        "domain.place-code-missing",
    ),
    "no code": (
        lambda: fn.Hierarchy(["state", "county"], [("a", None)]),
        "domain.place-code-missing",
    ),
    "two parents": (
        lambda: fn.Hierarchy(["state", "county"], [*ROWS, ("b", "a1")]),
        "domain.place-in-two-places",
    ),
    "a leaf twice": (lambda: fn.Hierarchy(["state", "county"], [*ROWS, ROWS[0]]), "domain.place-repeated"),
    "mixed codes": (lambda: fn.Hierarchy(["state", "county"], [("a", 1), ("a", "2")]), "domain.codes-of-several-types"),
    "true and one": (lambda: fn.Hierarchy(["state", "county"], [(True, 1), (1, 2)]), "domain.codes-of-several-types"),
    "a column": (lambda: fn.Hierarchy(["state", "county"], ROWS, column=""), "domain.column-invalid"),
    "two forms": (lambda: fn.Hierarchy(["u", "v"], ROWS, children=[2, 3]), "domain.places-in-several-ways"),
    "three forms": (lambda: fn.Hierarchy(["u", "v"], ROWS, file="x", children=[2, 3]), "domain.places-in-several-ways"),
    "one number": (lambda: fn.Hierarchy.regular(state=3), "domain.levels-invalid"),
    "no number": (fn.Hierarchy.regular, "domain.levels-invalid"),
    "a number too many": (lambda: fn.Hierarchy(["u", "v"], children=[1, 2, 3]), "domain.children-invalid"),
    "no list of numbers": (lambda: fn.Hierarchy(["u", "v"], children=6), "domain.children-invalid"),
    "a text of numbers": (lambda: fn.Hierarchy(["u", "v"], children="23"), "domain.children-invalid"),
    "no places of a level": (
        lambda: fn.Hierarchy.regular(state=3, county=0),
        "domain.children-number-invalid",
    ),
    "half a place": (lambda: fn.Hierarchy.regular(state=1.5, county=2), "domain.children-number-invalid"),
    "a place or none": (lambda: fn.Hierarchy.regular(state=2, county=True), "domain.children-number-invalid"),
    "a level twice by number": (
        lambda: fn.Hierarchy.regular({"state": 2}, state=2, county=3),
        "domain.levels-repeated",
    ),
    "two levels of one name": (lambda: fn.Hierarchy(["u", "u"], children=[2, 3]), "domain.name-repeated"),
    "numbers that are no mapping": (lambda: fn.Hierarchy.regular([2, 3]), "domain.wrong-type"),
    "too many places": (
        lambda: fn.Hierarchy.regular(state=10**4, county=10**3 + 1),
        "domain.too-many-places",
    ),
    "more places than are written": (lambda: fn.Hierarchy.regular(u=10**5000, v=10**5000), "domain.too-many-places"),
    "no such place by number": (lambda: fn.Hierarchy.regular(u=2, v=2).position("13"), "domain.unknown-value"),
    "no such place": (lambda: TREE.position("x"), "domain.unknown-value"),
    "a place of another kind": (lambda: TREE.position("3"), "domain.unknown-value"),
    "no such place above": (lambda: fn.Domain(geo=TREE)["state"].position("c"), "domain.unknown-value"),
    "a level and an attribute": (
        lambda: fn.Domain(geo=TREE, state=fn.Ordered(0, 1)),
        "domain.attribute-name-repeated",
    ),
    "a level and another case": (lambda: fn.Domain(State=fn.Ordered(0, 1), geo=TREE), "domain.attribute-name-repeated"),
    "a level above called as the hierarchy": (lambda: fn.Domain(state=TREE), "domain.attribute-name-repeated"),
    "a level called as a column of tables": (
        lambda: fn.Domain(geo=fn.Hierarchy(["moe", "county"], ROWS)),
        "domain.attribute-name-reserved",
    ),
    "a level called as the end of an interval": (
        lambda: fn.Domain(geo=fn.Hierarchy(["Low", "county"], ROWS)),
        "domain.attribute-name-derived",
    ),
    "a share called as an attribute": (
        lambda: fn.Domain({"geo": TREE, "county in state": fn.Ordered(0, 1)}),
        "domain.attribute-name-repeated",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_trees_that_are_none_are_refused_by_name(name):
    make, message = BAD[name]
    with refused(message):
        make()


def plainly(rows):
    """The rows of a tree in order, or the code of the first fault, row by row."""
    ranks = [{code: i for i, code in enumerate(dict.fromkeys(column))} for column in zip(*rows, strict=True)]
    for depth in (1, 2):
        parents = {}
        for row in rows:
            parent = parents.setdefault(row[depth], row[depth - 1])
            if parent != row[depth - 1]:
                return "domain.place-in-two-places"
    ordered = sorted(rows, key=lambda row: [rank[code] for rank, code in zip(ranks, row, strict=True)])
    twice = [one for one, other in itertools.pairwise(ordered) if one == other]
    return "domain.place-repeated" if twice else tuple(ordered)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=9),
    st.booleans(),
    st.booleans(),
)
def test_a_tree_is_what_its_rows_say_one_by_one(rows, has_unique_codes, numpy):
    """Places come in the order of their first appearance, together; errors name the first wrong one."""
    rows = [(a, 10 * a + b, 1000 * a + 100 * b + c) for a, b, c in rows] if has_unique_codes else rows
    expected, places = plainly(rows), np.array(rows) if numpy else rows
    if isinstance(expected, str):
        with refused(expected):
            fn.Hierarchy(LEVELS, places)
        return
    tree = fn.Hierarchy(LEVELS, places)
    assert tree.places == expected
    for depth, view in enumerate(tree.views):
        assert view.values == tuple(dict.fromkeys(row[depth] for row in expected))
        assert [view.cell(row[-1]) for row in expected] == [view.position(row[depth]) for row in expected]


def test_places_from_a_file(tmp_path):
    file = tmp_path / "places.csv"
    file.write_text("county,name,state\n001,One,7\n002,Two,7\n003,Three,8\n", encoding="utf-8-sig")
    read = fn.Hierarchy.from_file(file, ["state", "county"], column="geoid")
    assert read == fn.Hierarchy(["state", "county"], [(7, "001"), (7, "002"), (8, "003")], column="geoid")
    with refused("domain.places-file-columns"):
        fn.Hierarchy.from_file(file, ["state", "tract"])
    with refused("domain.csv-file-unreadable"):
        fn.Hierarchy.from_file(tmp_path / "none.csv", ["state", "county"])
    assert read == fn.Hierarchy(["state", "county"], file=file, column="geoid")
    assert read == fn.Hierarchy(["state", "county"], file=str(file), column="geoid")
    file.write_text("state,county\n7,001\n,002\n")
    with refused("domain.place-code-missing"):
        fn.Hierarchy.from_file(file, ["state", "county"])


def test_places_from_a_frame():
    levels, rows = ["state", "county"], [(7, "001"), (7, "002"), (8, "003")]
    geo = fn.Hierarchy(levels, rows)
    frame = pd.DataFrame({"county": ["001", "002", "003"], "name": list("abc"), "state": [7, 7, 8]}, index=[5, 6, 7])
    assert geo == fn.Hierarchy(levels, frame)
    assert geo == fn.Hierarchy(levels, frame.astype({"county": "category"}))
    assert geo == fn.Hierarchy(levels, pl.DataFrame(frame.to_dict("list")))
    with refused("domain.place-code-missing"):
        fn.Hierarchy(levels, frame.assign(state=[7, None, 8]))  # floats, one of them NaN
    with refused("domain.codes-of-several-types"):
        fn.Hierarchy(levels, frame.assign(state=[7.0, 7.0, 8.0]))
    for columns, number in ((["county"], 0), (["state", "county", "state"], 2)):
        with refused("domain.places-frame-columns") as caught:
            fn.Hierarchy(levels, frame[columns])
        assert f"It has {number} columns named 'state', and needs exactly one." in str(caught.value)


# --- trees by numbers -------------------------------------------------------------------------------------


def test_places_by_numbers_have_codes_that_contain_the_places_above():
    """Numbered from 1 within the place above, in as many digits as the last one needs."""
    geo = fn.Hierarchy.regular(state=2, county=10, column="fips")
    assert geo.places == tuple((f"{i}", f"{i}{j:02}") for i in (1, 2) for j in range(1, 11))
    assert (geo.levels, geo.children, geo.column) == (("state", "county"), (2, 10), "fips")
    assert geo.position("210") == 19
    assert [geo.cell(x) for x in ("101", "210", 210, "211", "2", None)] == [0, 19, 19, None, None, None]
    assert fn.Domain(geo=geo)["state"].position("2") == fn.Domain(geo=geo)["state"].cell("201") == 1
    many = fn.Hierarchy.regular(state=51, county=62)
    assert (many.values[0], many.values[6 * 62 + 30], many.values[-1]) == ("0101", "0731", "5162")
    assert fn.Hierarchy.regular({"a state": np.int64(2)}, column=None, x=1).places == (("1", "11"), ("2", "21"))
    assert fn.Hierarchy.regular(u=10**4, v=10**3).size == 10**7


def test_a_tree_by_numbers_equals_only_those_of_the_same_numbers():
    """A hierarchy that lists the same places is another declaration, with another document: plans of both differ."""
    geo = fn.Hierarchy.regular(state=2, county=3)
    same = fn.Hierarchy(["state", "county"], children=np.array([2, 3]))
    assert (geo, hash(geo), geo.children) == (same, hash(same), same.children)
    assert TREE.children is None
    others = [
        fn.Hierarchy.regular(state=3, county=2),
        fn.Hierarchy.regular(state=2, town=3),
        fn.Hierarchy.regular(state=2, county=3, column="fips"),
        fn.Hierarchy(geo.levels, geo.places),
    ]
    documents = {json.dumps(attribute_document(x)) for x in (geo, same, *others)}
    assert all(geo != x for x in others)
    assert len(documents) == 1 + len(others)
    assert attribute_document(geo) == {
        "type": "hierarchy",
        "levels": ["state", "county"],
        "children": [2, 3],
        "column": None,
    }


@pytest.mark.parametrize("branching", [(2, 3), (3, 1, 2), (1, 1), (1, 4, 2, 10)], ids=str)
def test_what_arithmetic_says_of_a_tree_is_what_its_rows_say(branching):
    levels = list("abcd")[: len(branching)]
    numbers = fn.Hierarchy(levels, children=branching)
    rows = fn.Hierarchy(levels, numbers.places)
    one, other = fn.Domain(geo=numbers), fn.Domain(geo=rows)
    assert one.sizes == other.sizes
    pairs = list(itertools.combinations_with_replacement(range(len(levels)), 2))
    for upper, lower in pairs:
        np.testing.assert_array_equal(numbers.tree.above(upper, lower), rows.tree.above(upper, lower))
        assert numbers.tree.children_per_place(upper, lower) == rows.tree.children_per_place(upper, lower)
    for view, same in zip(numbers.views, rows.views, strict=True):
        assert (view.values, view.size, view.steps) == (same.values, same.size, same.steps)
        assert (view.coding.codes, view.coding.shared) == (same.coding.codes, same.coding.shared)
        assert (view.drops(by_default=True), view.drops(by_default=False)) == (True, False)
    axes = [*levels, *(f"{lower} in {upper}" for upper, lower in itertools.combinations(levels, 2))]
    for names in [(), ("geo",), *itertools.combinations(axes, 1), *itertools.combinations(axes, 2)]:
        assert one.axes.max_cells_sharing("geo", names) == other.axes.max_cells_sharing("geo", names)


TWICE = {
    "all levels": [
        fn.table("sex", variance=9),
        fn.table("state", "sex", variance=5),
        fn.table("county", variance=4),
        fn.table("tract", variance=1),
    ],
    "with structure": [fn.table("state", cumulative="age", variance=3), fn.table("county", "age", variance=4)],
    "by place": [
        fn.table("state", variance=fn.ByAttribute("state", {"2": 1}, default=3)),
        fn.table("county", variance=2),
    ],
    "recoded": [fn.table(groups={"tract": {"some": ["111", "232"], "one": ["121"]}}, variance=2)],
}
PUBLIC = fn.KnownTotals((), "Register", "these data")
UNITS = {
    "add or remove": {},
    "replace": {"neighbours": fn.Neighbours.REPLACE_ONE},
    "once per place": {"max_records": 3, "once_per": ("geo",)},
}


@pytest.mark.no_cover
@pytest.mark.parametrize(("tables", "unit"), [*itertools.product(TWICE, UNITS), ("by place", "by level")])
def test_a_tree_by_numbers_is_planned_counted_and_released_as_its_rows_are(tables, unit, request):
    if unit == "by level":
        request.getfixturevalue("by_level")
    numbers = fn.Hierarchy.regular(state=2, county=3, tract=2)
    rows = fn.Hierarchy(numbers.levels, numbers.places)
    domains = [fn.Domain(geo=geo, sex=TWO, age=fn.Ordered(0, 3)) for geo in (numbers, rows)]
    public = PUBLIC if unit == "replace" else None
    one, other = (
        fn.plan(fn.Workload(d, TWICE[tables]), unit=fn.PrivacyUnit("person", **UNITS.get(unit, {})), public=public)
        for d in domains
    )
    documents = [json.loads(plan.to_json()) for plan in (one, other)]
    declarations = [x["spec"]["domain"].pop("geo") for x in documents]
    assert [set(x) - {"type", "levels", "column"} for x in declarations] == [{"children"}, {"places"}]
    assert documents[0] == documents[1]
    assert (one.table_part.exact_cost, one.bound, one.gap) == (other.table_part.exact_cost, other.bound, other.gap)
    parsed = fn.Plan.from_json(one.to_json())
    assert (parsed.hash, parsed.publication) == (one.hash, one.publication)

    rng = np.random.default_rng(4)
    counts = rng.integers(0, 5, size=domains[0].shape)
    answers = [measured(plan, counts, Replay(5)).answers[0] for plan in (one, other)]
    for x, y in zip(*answers, strict=True):
        np.testing.assert_array_equal(x, y)
    cells = np.argwhere(counts >= 0).repeat(counts.ravel(), axis=0)
    frame = pd.DataFrame({"geo": np.array(numbers.values)[cells[:, 0]], "sex": cells[:, 1], "age": cells[:, 2]})
    margins = [("state",), ("county", "sex"), ("geo", "age"), ("tract",)]
    tallies = [open_counter(frame, d.axes, DataSource()).count(margins) for d in domains]
    for m in margins:
        np.testing.assert_array_equal(tallies[0][m], tallies[1][m])
    totals = None if public is None else parse_totals("t.csv", f"number\n{counts.sum()}\n", public, domains[0])
    releases = [fn.Release(p, y, public_totals=totals) for p, y in zip((one, other), answers, strict=True)]
    for name in releases[0]:
        pd.testing.assert_frame_equal(releases[0][name], releases[1][name])
    if tables == "all levels":
        union = [x.count(area=["12", "231"]) for x in releases]
        assert (union[0].value, union[0].std_error) == (union[1].value, union[1].std_error)


def test_no_plan_lists_the_places_of_a_tree_by_numbers(monkeypatch):
    """Nor its document, its reading and its report: codes are made where records are counted and tables written."""

    def listed(tree):
        raise AssertionError("the places were listed")

    monkeypatch.setattr(RegularTree, "codes", property(listed))
    domain = fn.Domain(geo=fn.Hierarchy.regular(state=3, county=4, tract=2), sex=TWO)
    levels = ("state", "county", "tract")
    tables = [fn.table("sex", variance=9), *(fn.table(x, "sex", variance=3) for x in levels)]
    tables += [fn.table("county", variance=2)]
    plan = fn.plan(fn.Workload(domain, tables), unit=fn.PrivacyUnit("person", 2, once_per=("geo",)))
    parsed = fn.Plan.from_json(plan.to_json())
    assert (parsed.hash, parsed.gap, parsed.rho) == (plan.hash, plan.gap, plan.rho)
    assert [x["places"] for x in document(plan_report(parsed))["levels"]] == [1, 3, 12, 24]
    assert lines(plan_report(parsed))
    with pytest.raises(AssertionError, match="were listed"):
        assert domain["county"].values


BLOCKS = """
import sys, time
import fitnoise as fn
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.plans import plan_report
from peak import peak_memory

begun = time.process_time()
geo = fn.Hierarchy.regular(state=51, county=62, tract=27, group=3, block=23)
domain = fn.Domain(geo=geo, race=fn.Ordered(0, 6), sex=fn.Ordered(0, 1))
shown = [(), *((x,) for x in geo.levels)]
tables = [fn.table(*x, "race", "sex", margin=m) for x, m in zip(shown, (300, 100, 60, 40, 40, 30), strict=True)]
plan = fn.plan(fn.Workload(domain, tables))
text = plan.to_json()
again = fn.Plan.from_json(text)
assert again.hash == plan.hash and again.gap == plan.gap
assert any("block" in line for line in lines(plan_report(again)))
print(geo.size, plan.rho, len(text), time.process_time() - begun, peak_memory())
"""


@pytest.mark.no_cover
def test_blocks_in_the_numbers_of_the_united_states_are_planned_in_half_a_gigabyte():
    """A hierarchy of 5,890,806 places: planned, written, read and described, without a list of them."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    assert done.returncode == 0, done.stderr[-2000:]
    leaves, rho, size, seconds, peak = map(float, done.stdout.split())
    assert leaves == 5_890_806
    assert rho == pytest.approx(0.00439947, rel=1e-5)
    assert size < 20_000
    assert seconds < 30
    assert peak < 500


# --- counting ---------------------------------------------------------------------------------------------


def test_levels_counted_from_codes_of_leaves_equal_those_from_counts():
    domain = fn.Domain(geo=zoo.UNEVEN, sex=fn.Ordered(0, 1))
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, size=domain.shape)
    cells = np.argwhere(counts >= 0).repeat(counts.ravel(), axis=0)
    frame = pd.DataFrame({"fips": [zoo.UNEVEN.values[i] for i in cells[:, 0]], "sex": cells[:, 1]})
    margins = [("state",), ("state", "sex"), ("county", "sex"), ("state", "county"), ("sex", "geo")]
    from_counts = HistogramCounter(counts, domain.axes).count(margins)
    from_records = open_counter(frame, domain.axes, DataSource()).count(margins)
    for m in margins:
        np.testing.assert_array_equal(from_counts[m], from_records[m])
    np.testing.assert_array_equal(
        from_counts["state", "sex"], [counts[:1].sum(0), counts[1:3].sum(0), counts[3:].sum(0)]
    )
    assert from_counts["state", "county"][1].tolist() == [0, *counts[1:3].sum(1).tolist(), 0, 0, 0]


# --- planning ---------------------------------------------------------------------------------------------


def moe(x):
    return (x / 1.959963984540054) ** 2


def geography(counties, gap=GAP):
    a = ("age", "sex")
    tables = [fn.table(*a, margin=100), fn.table("state", *a, margin=50), fn.table("county", margin=20)]
    tables.append(fn.table("county", *a, margin=30))
    rows = [(i, f"{i}-{j}") for i, n in enumerate(counties) for j in range(n)]
    geo = fn.Hierarchy(["state", "county"], rows)
    return fn.plan(fn.Workload(fn.Domain(geo=geo, age=fn.Ordered(0, 9), sex=fn.Ordered(0, 1)), tables), gap=gap)


@pytest.mark.parametrize(
    ("branching", "rho"), [((5, 10), 0.00711269), ((20, 20), 0.00737076), ((51, 20), 0.00741171)], ids=str
)
def test_states_of_equally_many_counties(branching, rho):
    plan = geography([branching[1]] * branching[0])
    assert plan.rho == pytest.approx(rho, rel=2 * GAP)
    assert plan.gap <= GAP


@pytest.mark.slow
def test_states_of_different_numbers_of_counties():
    assert geography([1, 2, 4, 8, 12, 20, 30, 45]).rho == pytest.approx(0.0073535, rel=1e-5)


def test_a_total_and_its_leaves():
    """ρ = n/(n + 1) where all variances are 1."""
    plan = planned((5, 1), ("u", "v"), fn.table(variance=1), fn.table("u", variance=1), fn.table("v", variance=2))
    assert plan.rho == pytest.approx(5 / 6, rel=GAP)


def test_a_total_and_leaves_of_different_variances():
    """Places with an only child each are their children."""
    levels = ("u", "v")
    targets = fn.ByAttribute("u", [1.0, 4.0, 16.0])
    plan = planned((3, 1), levels, fn.table(variance=1), fn.table("u", variance=targets))
    assert plan.rho == pytest.approx(0.67838596, rel=GAP)


@pytest.mark.parametrize(
    ("margins", "rho"), [((300, 100, 60, 40, 40, 30), 0.00439947), ((40,) * 6, 0.00633244)], ids=("falling", "alike")
)
def test_blocks_in_the_numbers_of_the_united_states(margins, rho):
    """A level of a regular tree is planned as an attribute of its places' shares, so that no leaf is ever listed."""
    shares = {"state": 51, "county": 62, "tract": 27, "group": 3, "block": 23}
    assert math.prod(shares.values()) == 5_890_806
    domain = fn.Domain({**{a: fn.Ordered(1, n) for a, n in shares.items()}, "race": fn.Ordered(0, 6), "b": TWO})
    tables = [fn.table(*list(shares)[:i], "race", "b", margin=m) for i, m in enumerate(margins)]
    assert fn.plan(fn.Workload(domain, tables), gap=GAP).rho == pytest.approx(rho, rel=2 * GAP)
    small = fn.Domain(geo=zoo.places(2, 3, 2), b=TWO)
    levels = fn.Workload(small, [fn.table(*a, "b", variance=1) for a in ((), ("region",), ("district",), ("tract",))])
    assert exchangeable_attributes(levels)[0] == ["region", "district in region", "tract in district", "b"]


def test_a_binary_tree_of_ten_levels():
    levels = [f"level {i}" for i in range(1, 11)]
    plan = planned((2,) * 10, levels, fn.table(variance=1), *(fn.table(x, variance=1) for x in levels))
    assert plan.rho == pytest.approx(13 / 6, rel=GAP)


@pytest.mark.slow
def test_prefixes_by_nation_and_state_with_counties():
    rows = [(i, f"{i}-{j}") for i in range(51) for j in range(62)]
    geo = fn.Hierarchy(["state", "county"], rows)
    domain = fn.Domain(geo=geo, sex=fn.Ordered(0, 1), age=fn.Ordered(0, 85))
    tables = [fn.table("sex", cumulative="age", margin=300), fn.table("state", "sex", cumulative="age", margin=100)]
    tables += [fn.table("county", "sex", "age", margin=60), fn.table("county", margin=40)]
    plan = fn.plan(fn.Workload(domain, tables), gap=GAP)
    assert plan.rho == pytest.approx(0.0026763570, rel=GAP)


SMALL = {  # how many places each has; variances by level, from the top; ρ of the optimum
    "states of 1 2 4 counties": ([1, 2, 4], (4, 2, 1), 0.57142857),
    "tracts": ([[1, 2], [3], [2, 2, 4]], (9, 4, 2, 1), 0.57142856),
    "tracts, all equal": ([[1, 2], [3], [2, 2, 4]], (1, 1, 1, 1), 1.12957133),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_uneven_trees(name):
    shape, variances, rho = SMALL[name]
    deep = isinstance(shape[0], list)
    rows = []
    for i, state in enumerate(shape):
        for j, n in enumerate(state if deep else [state]):
            rows += [((i, f"{i}-{j}", f"{i}-{j}-{k}") if deep else (i, f"{i}-{k}")) for k in range(n)]
    levels = ["state", "county", "tract"][: len(variances) - 1]
    tables = [fn.table(variance=variances[0])]
    tables += [fn.table(x, variance=v) for x, v in zip(levels, variances[1:], strict=True)]
    plan = fn.plan(fn.Workload(fn.Domain(geo=fn.Hierarchy(levels, rows)), tables), gap=GAP)
    assert plan.rho == pytest.approx(rho, rel=2 * GAP)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=3), st.data())
def test_levels_of_regular_trees_cost_what_their_queries_cost_as_a_matrix(branching, data):
    """Levels as exchangeable attributes, and all queries of all cells as one sector: the same optimum."""
    levels = ["u", "v", "w"][: len(branching)]
    domain = fn.Domain(b=fn.Ordered(0, 1), geo=zoo.places(*branching, levels=levels))
    attribute_sets = data.draw(
        st.lists(st.sampled_from([(), ("b",), *((x,) for x in levels), ("b", levels[-1])]), min_size=1)
    )
    tables = [fn.table(*x, variance=1 + i, name=f"table {i}") for i, x in enumerate(attribute_sets)]
    workload = fn.Workload(domain, tables)
    assert exchangeable_attributes(workload)[1] == []
    plan = fn.plan(workload, gap=GAP)
    c = workload_variances(workload)
    same = fn.plan(fn.matrix_workload(workload_matrix(workload), variances=c), gap=GAP)
    assert plan.rho == pytest.approx(same.rho, rel=2 * GAP)


def test_what_is_exchangeable_of_a_hierarchy():
    regular = fn.Domain(geo=zoo.places(2, 3, 2), b=fn.Ordered(0, 1))

    def axes(domain, *tables):
        return exchangeable_attributes(fn.Workload(domain, list(tables)))

    region, tract = fn.table("region", margin=5), fn.table("tract", "b", margin=5)
    assert axes(regular, region, tract) == (["region", "tract in region", "b"], [])
    assert axes(regular, tract, fn.table("district", margin=3)) == (["district", "tract in district", "b"], [])
    assert axes(regular, tract) == (["tract", "b"], [])
    assert axes(regular, region, fn.table("geo", margin=3)) == (["region", "tract in region"], [])
    by_value = fn.table("region", margin=fn.ByAttribute("region", {"a": 1}, default=2), name="by value")
    assert axes(regular, by_value, tract) == (["b"], ["geo"])
    uneven = fn.Domain(geo=zoo.UNEVEN)
    assert axes(uneven, fn.table("county", margin=5)) == (["county"], [])
    assert axes(uneven, fn.table("state", margin=5)) == (["state"], [])
    assert axes(uneven, fn.table("state", margin=5), fn.table("county", margin=5)) == ([], ["geo"])
    deep = fn.Domain(geo=fn.Hierarchy(list("uvw"), [(1, 1, 1), (2, 2, 2), (2, 3, 3), (2, 3, 4)]))
    assert axes(deep, fn.table("u", margin=5), fn.table("v", margin=5)) == ([], ["v"])


def test_requests_that_hierarchies_refuse():
    domain = fn.Domain(geo=zoo.places(2, 3, levels=["state", "county"]), b=fn.Ordered(0, 1))
    for ask in (
        lambda: fn.table("state", "county", margin=5),
        lambda: fn.all_tables(2, ["state", "b", "county"], margin=5),
        lambda: fn.all_tables(1, ["b", "state"], "county", margin=5),
    ):
        with refused("workload.two-levels"):
            fn.Workload(domain, [ask()])
    assert fn.Workload(domain, [fn.all_tables(1, ["state", "county"], margin=5)])
    with refused("workload.cumulative-needs-order"):
        fn.Workload(domain, [fn.table(cumulative="county", margin=5)])
    tables = fn.Workload(domain, [fn.table("state", margin=5)])
    with refused("spec.cell-budgets-by-level"):
        fn.Publication(tables, cell_budgets=fn.CellBudgets(("state",), (1, 0.5)))


def test_a_record_that_moves_costs_what_it_moves_of_all_that_is_measured():
    domain = fn.Domain(geo=zoo.places(2, 3, levels=["state", "county"]))
    tables = [fn.table(variance=3), fn.table("state", variance=2), fn.table("county", variance=1)]
    unit = fn.PrivacyUnit("person", neighbours=fn.Neighbours.REPLACE_ONE)
    plan = fn.plan(fn.Publication(fn.Workload(domain, tables), unit=unit, public=PUBLIC), gap=1e-4)
    rows, scales = strategy_matrix(plan)
    each = (rows / scales[:, None]).astype(float)
    distances = (
        each[:, :, None] - each[:, None, :]
    )  # the total, which no record moves, is large: a Gram matrix would lose digits
    assert float(plan.table_part.exact_cost) == pytest.approx((distances**2).sum(axis=0).max(), rel=EXACT)
    assert plan.gap <= 1e-4


# --- levels of many places, of which some have more than others -------------------------------------------


@pytest.fixture
def by_level(monkeypatch):
    """Trees of any size are planned by level: small ones, which dense algebra can check."""
    monkeypatch.setattr(gaussian_planning, "MAX_DENSE_LEAVES", 0)
    monkeypatch.setattr(gaussian_planning, "MAX_DENSE_LEAVES_SLOW", 0)
    monkeypatch.setattr(gaussian_planning, "SIMPLE_LEVELS_GAP", math.inf)


@pytest.fixture
def by_class(by_level, monkeypatch):
    """Plan with scales by class of place and weighted sums, for any small gain."""
    monkeypatch.setattr(gaussian_planning, "SIMPLE_LEVELS_GAP", -1.0)
    monkeypatch.setattr(weighted_trees, "STEPS", 3)


def check_by_level(plan, rng):
    """Price, estimates and accuracy against dense algebra over all cells; and the bound."""
    workload, part = plan.publication.workload, plan.table_part
    check_mechanism(plan, rng)
    rows, scales = strategy_matrix(plan)
    rows = rows @ cell_order(plan).astype(object)  # of the cells of the domain
    each = sum((rows[scales == s] ** 2).sum(axis=0) / Fraction(s) ** 2 for s in set(scales.tolist()))
    cost = plan.table_part.exact_cost / plan.publication.unit.cost_factor()
    if plan.order.mechanism == "fit-for-use-by-level":
        assert set(each.tolist()) == {cost}  # every record has the same cost
    else:  # scales are rounded up where they are many
        assert max(each.tolist()) <= cost <= max(each.tolist()) * (1 + Fraction(1, 2**80))
    information = (rows / scales[:, None]).astype(float)
    distance = pair_costs(information.T @ information).max()
    assert distance <= float(part.strategy.cost_squared(fn.Neighbours.REPLACE_ONE)) * (1 + LOOSE)

    noisy = measured(plan, rng.integers(0, 50, size=workload.domain.shape), Replay(5)).answers[0]
    tables = rebuilt_tables(plan, noisy)
    flat = np.concatenate([tables[t.name].ravel() for t in workload.tables])
    best = numbers_by_least_squares(plan) @ (np.concatenate(noisy) / scales).astype(float)
    np.testing.assert_allclose(flat, best, atol=LOOSE * max(1, np.abs(best).max()))
    stated = np.concatenate([plan.table_part.table_variances(t.name).ravel() for t in workload.tables])
    assert (stated <= workload_variances(workload) * part.relaxation * (1 + EXACT)).all()
    margins = np.concatenate([plan.table_part.table_margins(t.name, 0.9).ravel() for t in workload.tables])
    np.testing.assert_allclose(margins, z_score(0.9) * np.sqrt(stated), rtol=EXACT)

    # the bound is below the dense one at the same weights, and close to it: hence one for all mechanisms
    level_problem = level_plans.problem(plan.publication, part.decomposition)
    d = decompose(workload)
    counted = level_problem.tree.counts
    p = (part.evidence.cells / counted[-1])[level_problem.tree.class_of[-1]]
    q = [
        (x / counted[k])[level_problem.tree.class_of[k]]
        for k, x in zip(level_problem.level, level_problem.split(part.evidence.numbers), strict=True)
    ]
    weights = np.empty(d.rows)
    for t, table_weight in enumerate(q):
        weights[d.layout(t).rows] = table_weight
    assert p.shape == (d.cells,)
    dense = lower_bound(d, Evidence(p, weights), part.terms) / (
        1 if plan.publication.budget is None else part.relaxation
    )
    assert dense * (1 - 1e-5) <= part.bound <= dense


LEVELS = ["state", "county", "tract"]


def uneven(shape, names=LEVELS):
    """A tree from nested lists: numbers are how many leaves."""
    rows = []

    def walk(prefix, x, depth):
        if depth == len(names):
            rows.append(prefix)
            return
        for i, below in enumerate(x if isinstance(x, list) else [None] * x):
            walk((*prefix, f"{prefix[-1] if prefix else ''}-{i}"), below, depth + 1)

    walk((), shape, 0)
    return fn.Hierarchy(names, rows)


@st.composite
def uneven_workloads(draw):
    shape = draw(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3))
    geo = uneven(shape)
    others = draw(st.sampled_from([{}, {"b": fn.Ordered(0, 1)}, {"b": fn.Ordered(0, 1), "c": fn.Ordered(0, 2)}]))
    after = draw(st.booleans())
    domain = fn.Domain({"geo": geo, **others} if after else {**others, "geo": geo})
    level, subsets = st.sampled_from(["", *LEVELS, "geo"]), st.sets(st.sampled_from([*others, ""]))
    chosen = draw(st.lists(st.tuples(level, subsets), min_size=1, max_size=5, unique_by=repr))
    names = [draw(st.permutations(sorted({level, *subsets} - {""}))) for level, subsets in chosen]
    variances = [draw(st.integers(1, 30)) for _ in chosen]
    for i, (level, _) in enumerate(chosen):
        if level and draw(st.booleans()):  # every place its own target
            values = draw(st.lists(st.sampled_from([1, 3, 30, 400]), min_size=len(domain[level].values)))
            variances[i] = fn.ByAttribute(level, values[: len(domain[level].values)])
    tables = [fn.table(*x, variance=v, name=f"t{i}") for i, (x, v) in enumerate(zip(names, variances, strict=True))]
    return fn.Workload(domain, tables)


@pytest.mark.no_cover
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(uneven_workloads(), st.integers(0, 2**32))
def test_levels_of_uneven_trees_against_dense_algebra(by_class, workload, seed):
    """The less costly one of one scale a level and scales by class, never more than noise on every number."""
    assume(uneven_levels(workload))
    plan = fn.plan(workload)
    assert plan.order.mechanism in ("fit-for-use-by-level", "fit-for-use-by-place")
    assert plan.rho <= plan.table_part.separate_rho * (1 + 1e-8)
    check_by_level(plan, np.random.default_rng(seed))
    best = fn.plan(fn.matrix_workload(workload_matrix(workload), variances=workload_variances(workload)), gap=GAP)
    assert plan.bound <= float(best.table_part.exact_cost) * (1 + LOOSE)  # of all mechanisms
    assert plan.table_part.exact_cost >= best.bound * (1 - LOOSE)


def proven_densely(plan):
    """Return the bound from the plan's dual weights for replaced records, by dense algebra over all cells."""
    workload, evidence = plan.publication.workload, plan.table_part.evidence
    domain, level_problem = workload.domain, plan.table_part.estimation.problem
    levels = [a for a in uneven_levels(workload) if domain.sizes[a] > 1]
    lies = domain["geo"].tree.above(domain.depth(levels[-1])) if levels else np.zeros(domain["geo"].size, dtype=int)
    evenly = np.equal.outer(np.arange(lies.max() + 1), lies) / np.bincount(lies)[:, None]
    attributes = [
        a for a in domain if a != "geo" and domain[a].size > 1 and any(a in t.attributes for t in workload.tables)
    ]
    subsets = [set(x) for n in range(len(attributes) + 1) for x in itertools.combinations(attributes, n)]

    def over_cells(places, kinds):
        """Add the values of attributes, by kind: independent, all equal, or different in a set and in nothing else."""
        out = np.zeros((domain.size, domain.size))
        for weight, differing in zip(kinds, [None, *subsets], strict=True):
            product = np.ones((1, 1))
            for a, n in zip(domain, domain.shape, strict=True):
                equal = np.eye(n) / n if differing is not None else np.full((n, n), 1 / n**2)
                different = (1 - np.eye(n)) / max(n * (n - 1), 1)
                values = different if differing is not None and a in differing else equal
                product = np.kron(product, evenly.T @ places @ evenly if a == "geo" else values)
            out += weight * product
        return out

    p, meeting, one_leaf = pair_law(level_problem, evidence)
    pair_weights = over_cells(np.diag(p), one_leaf) + sum(over_cells(x, kinds) for kinds, x in meeting)
    moment = np.diag(pair_weights.sum(axis=0) + pair_weights.sum(axis=1)) - pair_weights - pair_weights.T
    shares, q = level_problem.split(evidence.numbers / evidence.numbers.sum()), []
    for t, level, x in zip(workload.tables, level_problem.level.tolist(), shares, strict=True):
        each = (x / level_problem.tree.counts[level])[level_problem.tree.class_of[level]]
        dimensions = [len(each) if domain.attribute_of(a) == "geo" and len(each) > 1 else 1 for a in t.attributes]
        shape = t.shape(domain)
        q.append(np.broadcast_to(each.reshape(dimensions), shape).ravel() * len(each) / math.prod(shape))
    rows = workload_matrix(workload).astype(float) * np.sqrt(np.concatenate(q) / workload_variances(workload))[:, None]
    values, vectors = np.linalg.eigh(moment)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return np.linalg.svd(rows @ root, compute_uv=False).sum() ** 2


@pytest.mark.no_cover
@pytest.mark.slow
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(uneven_workloads(), st.integers(0, 2**32))
def test_replaced_records_of_uneven_trees_against_dense_algebra(by_class, workload, seed):
    """No pair of cells costs more than is charged, and the weights prove what is stated, of all mechanisms."""
    assume(uneven_levels(workload))
    assume(np.ptp(workload_matrix(workload), axis=1).any())  # no replacement changes the total alone
    plan = fn.plan(workload, unit=fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE))
    assert plan.order.mechanism in ("fit-for-use-by-level", "fit-for-use-by-place")
    check_mechanism(plan, np.random.default_rng(seed))
    rows, scales = strategy_matrix(plan)
    rows = rows @ cell_order(plan).astype(object)
    information = (rows / scales[:, None]).astype(float)
    assert pair_costs(information.T @ information).max() <= float(plan.table_part.exact_cost) * (1 + LOOSE)
    assert plan.bound <= proven_densely(plan) * (1 + LOOSE)
    assert plan.bound <= float(plan.table_part.exact_cost)
    best = fn.matrix_workload(workload_matrix(workload), variances=workload_variances(workload))
    best = fn.plan(best, unit=plan.publication.unit, gap=1e-3, public=PUBLIC)
    assert plan.bound <= float(best.table_part.exact_cost) * (1 + LOOSE)
    assert plan.table_part.exact_cost >= best.bound * (1 - LOOSE)


def test_levels_of_little_information_need_no_noise_that_cannot_be_drawn(by_class, rng):
    """The smallest places determine all: sums of those above have weights near 0, against 48 bits of k."""
    domain = fn.Domain(b=fn.Ordered(0, 1), geo=uneven([[1, 3], [1]]))
    tables = [fn.table(variance=1), fn.table("b", "state", variance=1)]
    tables += [fn.table(a, variance=fn.ByAttribute(a, [1] * n)) for a, n in (("county", 3), ("state", 2))]
    tables += [fn.table("b", "tract", variance=fn.ByAttribute("tract", [1, 1, 1, 400, 1]))]
    plan = fn.plan(fn.Workload(domain, tables))
    assert plan.order.mechanism == "fit-for-use-by-place"
    assert plan.gap < 1e-2
    check_by_level(plan, rng)


def test_weights_of_places_known_from_others_stay_above_rounding(by_class, rng):
    """Two of three tracts may be 20 times as wide: their information goes to 0, and its slope was only rounding."""
    places = uneven([[1], [1, 1, 3], [3]])
    domain = fn.Domain(b=fn.Ordered(0, 1), c=fn.Ordered(0, 2), geo=places)
    tables = [fn.table(variance=2), fn.table("b", "c", "county", variance=6), fn.table("state", variance=1)]
    tables += [fn.table("b", "tract", variance=fn.ByAttribute("tract", [1] * 7 + [400] * 2))]
    tables += [fn.table("tract", variance=fn.ByAttribute("tract", [1] * 8 + [30]))]
    plan = fn.plan(fn.Workload(domain, tables))
    assert plan.order.mechanism == "fit-for-use-by-place"
    assert plan.rho < plan.table_part.separate_rho
    check_by_level(plan, rng)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "options",
    [{"budget": fn.Budget(rho=0.02)}, {"unit": fn.PrivacyUnit("person", 3)}, {"epsilon": 1.0, "delta": 1e-6}],
    ids=str,
)
def test_levels_of_uneven_trees_with_further_options(by_level, options, rng):
    a = ("b", "c")
    domain = fn.Domain(b=fn.Ordered(0, 1), geo=uneven([[1, 3], [2], [3, 1, 2]]), c=fn.Ordered(0, 2))
    tables = [fn.table(*a, margin=9), fn.table("county", "b", margin=4), fn.table("tract", margin=3)]
    tables += [fn.all_tables(1, a, "state", margin=7)]
    plan = fn.plan(fn.Workload(domain, tables), **options)
    assert plan.order.mechanism in ("fit-for-use-by-level", "fit-for-use-by-place")
    check_by_level(plan, rng)
    if "unit" not in options:
        assert plan.rho == pytest.approx(float(plan.publication.budget.gaussian_rho), rel=1e-6)
    else:
        base = fn.plan(fn.Workload(domain, tables))
        assert (plan.table_part.exact_cost, plan.bound) == (
            9 * base.table_part.exact_cost,
            pytest.approx(9 * base.bound),
        )
    assert sum(t.price for t in plan.table_part.tables) == pytest.approx(1)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", SMALL)
def test_small_uneven_trees_by_level(by_level, name, monkeypatch):
    """The optimum of all mechanisms lies between the bound and what weights cost: one a level, and those of classes."""
    shape, variances, rho = SMALL[name]
    names = LEVELS[-len(variances) + 1 :]
    tables = [fn.table(variance=variances[0])]
    tables += [fn.table(x, variance=v) for x, v in zip(names, variances[1:], strict=True)]
    plan = fn.plan(fn.Workload(fn.Domain(geo=uneven(shape, names)), tables))
    assert rho * 0.999 <= plan.bound / 2 <= rho * (1 + LOOSE)
    assert rho * (1 - LOOSE) <= plan.rho <= rho * 1.08
    monkeypatch.setattr(gaussian_planning, "SIMPLE_LEVELS_GAP", 0.0)
    assert rho * (1 - LOOSE) <= fn.plan(plan.publication).rho <= min(rho * 1.0025, plan.rho)


COUNTED = np.array([1, 2, 5, 5, 30, 31, 60, 61, 90])
"""Counties of some states."""


def by_place(county):
    geo = uneven(COUNTED.tolist(), LEVELS[:2])
    domain = fn.Domain(geo=geo, sex=fn.Ordered(0, 1))
    tables = [fn.table("sex", margin=200), fn.table("state", "sex", margin=60)]
    return fn.Workload(domain, [*tables, fn.table("county", margin=county), fn.table("county", "sex", margin=50)])


@pytest.mark.no_cover
def test_targets_that_vary_by_place():
    geo = by_place(5).domain["geo"]
    size = dict(zip([row[1] for row in geo.places], COUNTED[geo.tree.above(0)].tolist(), strict=True))
    targets = {code: 10.0 if n < 10 else 25.0 if n < 60 else 40.0 for code, n in size.items()}
    plan = fn.plan(by_place(fn.ByAttribute("county", targets)))
    assert plan.order.mechanism in ("fit-for-use-by-level", "fit-for-use-by-place")
    assert [len(x) for x in plan.table_part.estimation.problem.tree.counts] == [1, 8, 8]  # two states are equal
    margins = plan.group("county").table_margins("county", 0.95)
    assert (margins <= np.array(list(targets.values())) * (1 + EXACT)).all()
    loose, tight = (fn.plan(by_place(m)) for m in (25.0, 10.0))
    assert loose.rho < plan.rho <= tight.rho * (1 + GAP)
    assert loose.bound <= plan.bound <= tight.bound * (1 + 1e-3)
    assert plan.bound < tight.bound * 0.999  # what is proven is of the targets as they are
    (county,) = (t for t in plan.table_part.tables if t.name == "county")
    assert (english(county.target), county.target_moe) == ("±10 to 40", pytest.approx(10))
    assert county.achieved_moe <= 10
    assert plan.groups[0].separate_rho == pytest.approx(tight.groups[0].separate_rho)
    assert fn.Plan.from_json(plan.to_json()).bound == plan.bound
    same = fn.plan(by_place(fn.ByAttribute("county", {"-0-0": 10.0}, default=10.0)))
    assert (same.rho, same.bound) == (tight.rho, tight.bound)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ('{ by = "county", file = "places.csv", column = "moe" }', None),
        ('{ by = "county", file = "places.csv", column = "size", values = { s = 30, l = 12.5 } }', None),
        (
            '{ by = "county", file = "places.csv", column = "size", values = { s = 30 } }',
            "workload.target-class-missing",
        ),
        ('{ by = "county", file = "places.csv" }', "spec.several-problems"),
        ('{ by = "county" }', "spec.several-problems"),
        (
            '{ by = "county", file = "x.csv", column = "m", values = [1] }',
            "spec.several-problems",
        ),
        ('{ by = "county", file = "none.csv", column = "moe" }', "workload.csv-file-unreadable"),
    ],
)
def test_targets_in_a_column_of_the_places_file(tmp_path, target, message):
    (tmp_path / "places.csv").write_text("state,county,size,moe\na,1,s,30\na,2,l,12.5\nb,3,l,12.5\n")
    text = f"""
domain.geo = {{ type = "hierarchy", file = "places.csv", levels = ["state", "county"] }}
[[tables]]
attributes = ["county"]
margin = {target}
[[further_tables]]
[[further_tables.tables]]
name = "more"
attributes = ["county"]
margin = {target}
"""
    if message is not None:
        with refused(message):
            Spec.from_toml(text).publication(tmp_path)
        return
    publication = Spec.from_toml(text).publication(tmp_path)
    for group in (publication, *publication.further_tables):
        assert group.workload.tables[0].target.number == fn.ByAttribute("county", {"1": 30.0, "2": 12.5, "3": 12.5})
    rewritten = Spec.from_publication(publication)  # in which nothing is in files
    assert rewritten.publication(None).workload.tables[0].target == publication.workload.tables[0].target
    with refused("spec.file-folder-unknown"):
        Spec.from_toml(text).publication(None)


def test_separate_targets_by_place_cost_that_of_the_costliest_record():
    """Places with tight targets on one level have loose ones on the other: no record is charged for both."""
    geo = uneven([3, 90, 70], LEVELS[:2])
    state = fn.ByAttribute("state", [1.0, 100.0, 100.0])
    county = fn.ByAttribute("county", np.where(geo.tree.above(0) == 0, 100.0, 1.0).tolist())
    tables = [fn.table("state", variance=state), fn.table("county", variance=county)]
    plan = fn.plan(fn.Workload(fn.Domain(geo=geo), tables), gap=1e-2)
    assert plan.groups[0].separate_rho == pytest.approx(1.01 / 2 / plan.groups[0].relaxation)
    assert plan.rho < plan.groups[0].separate_rho  # one scale a level would pay for both, half as much again
    with refused("workload.by-value-unknown"):
        fn.plan(by_place(fn.ByAttribute("county", {"nowhere": 3.0}, default=10.0)))
    with refused("workload.by-value-incomplete"):
        fn.plan(by_place(fn.ByAttribute("county", {"-1-0": 3.0})))


RNG = random.Random(1)  # noqa: S311
COUNTIES = [RNG.randint(3, 100) for _ in range(51)]


@pytest.mark.no_cover
def test_counties_of_51_uneven_states(tmp_path):
    plan = geography(COUNTIES, None)
    assert 0.00753 <= plan.bound / 2 <= 0.0075418 <= plan.rho <= 0.00758
    assert plan.gap <= 5e-3
    assert plan.table_part.relaxation <= 1
    assert plan.table_part.noisy_answers == 22 * (
        1 + len(COUNTIES) + sum(COUNTIES)
    )  # of age and sex 1, 10, 1 and 10 rows
    assert fn.Plan.from_json(plan.to_json()).bound == plan.bound

    places = plan.publication.domain["geo"]
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"geo": rng.choice(places.values, 3000), "age": 3, "sex": rng.integers(0, 2, 3000)})
    fn.release(plan, people, ledger=tmp_path / "ledger.db", directory=tmp_path / "out", tables=["county", "age by sex"])
    assert all(check.holds for check in fn.verify(tmp_path / "out").checks)
    release = fn.Release.read(tmp_path / "out")
    counties, states = release["county by age by sex"], release["state by age by sex"]
    assert len(set(states["std_error"].round(9))) > 10  # states with more counties have more noise
    counties_by_state = counties.assign(state=[str(x).split("-")[0] for x in counties["county"]])
    counties_by_state = counties_by_state.groupby(["state", "age", "sex"], sort=False)["value"].sum()
    np.testing.assert_allclose(counties_by_state, states["value"], atol=LOOSE)
    np.testing.assert_allclose(
        counties.groupby("county", sort=False)["value"].sum(), release["county"]["value"], atol=1e-6
    )
    island = release.sum("county by age by sex", state=7, age=3, sex=1)
    assert island.std_error == pytest.approx(states.query("state == 7 and age == 3 and sex == 1")["std_error"].item())
    district = release.sum("county", county=["0-1", "0-2", "5-0"])
    county_errors = [release.sum("county", county=x).std_error for x in ("0-1", "0-2", "5-0")]
    assert district.std_error == pytest.approx(math.hypot(*county_errors), rel=0.01)  # states add little here


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3), st.integers(0, 2**32))
def test_classes_of_places_and_what_weights_move(shape, seed):
    """Variances by class are those of every place, and their slopes are differences of them."""
    tree = uneven(shape).tree
    sizes = [len(x) for x in tree.codes]
    above = [np.zeros(sizes[0], dtype=np.intp), tree.above(0, 1), tree.above(1, 2)]
    classes = trees.TreeQuotient.from_parents(above)
    weights = np.random.default_rng(seed).uniform(0.1, 3, 4)
    sums = [
        np.ones((1, sizes[2])),
        *(np.equal.outer(np.arange(n), tree.above(k)).astype(float) for k, n in enumerate(sizes)),
    ]
    inverse = np.linalg.inv(sum(w * u.T @ u for w, u in zip(weights, sums, strict=True)))
    values, slopes = classes.slopes(weights)
    for level, u in enumerate(sums):
        np.testing.assert_allclose(values[level][classes.class_of[level]], np.diag(u @ inverse @ u.T), rtol=EXACT)
        for i, other in enumerate(sums):
            expected = -((u @ inverse @ other.T) ** 2).sum(axis=1)
            np.testing.assert_allclose(slopes[level][i][classes.class_of[level]], expected, rtol=LOOSE, atol=EXACT)
    counts = [np.bincount(x) for x in classes.class_of]
    assert [x.sum() for x in counts] == [1, *sizes]
    np.testing.assert_array_equal(counts[2], counts[1][classes.above[1]] * classes.copies[1])


def united_states(*, groups=False):
    """Places in the numbers of the United States, made up, with tables of every level: the plan, and the places."""
    rng = np.random.default_rng(0)

    def below(n, places, sigma):
        weights = rng.lognormal(0, sigma, places)
        return np.repeat(np.arange(places), np.maximum(1, np.round(weights / weights.sum() * n)).astype(int))

    state = below(3143, 51, 0.8)
    county = below(84_000, len(state), 1.2)
    rows = [(int(state[c]), int(c), i) for i, c in enumerate(county)]
    levels, attributes = LEVELS[:3], ("age", "race", "sex")
    tables = [
        fn.table(*attributes, margin=300),
        fn.table("state", *attributes, margin=100),
        fn.table("county", margin=30),
    ]
    tables += [fn.table("county", "age", "sex", margin=60), fn.table("county", "race", margin=50)]
    tables += [fn.table("tract", *x, margin=m) for *x, m in ((60,), ("sex", 60), ("race", 80), ("age", "sex", 90))]
    if groups:
        tract = np.repeat(np.arange(len(rows)), rng.integers(1, 6, len(rows)))
        rows, levels = [(*rows[t], i) for i, t in enumerate(tract.tolist())], (*levels, "group")
        tables += [fn.table("group", margin=60), fn.table("group", "race", margin=120)]
    domain = fn.Domain(
        geo=fn.Hierarchy(levels, rows), sex=fn.Ordered(0, 1), age=fn.Ordered(0, 17), race=fn.Ordered(0, 6)
    )
    return fn.plan(fn.Workload(domain, tables)), len(rows)


@pytest.mark.slow
def test_tracts_in_the_numbers_of_the_united_states():
    plan, places = united_states()
    level_problem = plan.table_part.estimation.problem
    assert (places, sum(map(len, level_problem.tree.counts)), len(level_problem.sectors)) == (84_016, 3_276, 5)
    assert plan.bound / 2 >= 0.0044982
    assert plan.gap <= 5e-3


@pytest.mark.slow
def test_block_groups_in_the_numbers_of_the_united_states():
    plan, places = united_states(groups=True)
    level_problem = plan.table_part.estimation.problem
    assert (places, sum(map(len, level_problem.tree.counts)), len(level_problem.sectors)) == (251_976, 28_756, 5)
    assert plan.bound / 2 >= 0.00488
    assert plan.gap <= 1e-2


@pytest.mark.parametrize("variances", [(1e-4, 1, 1e6), (1e6, 1, 1e-4), (1, 1e8, 1), (1e10, 1, 1e10)], ids=str)
def test_levels_with_very_different_targets(variances):
    domain = fn.Domain(geo=uneven([3 * i + 1 for i in range(12)], LEVELS[:2]), b=fn.Ordered(0, 2))
    nation, state, county = variances
    tables = [
        fn.table("b", variance=nation),
        fn.table("state", variance=state),
        fn.table("county", "b", variance=county),
    ]
    plan = fn.plan(fn.Workload(domain, tables))
    assert (plan.order.mechanism, plan.table_part.relaxation <= 1) == ("fit-for-use-by-level", True)
    assert plan.gap <= 1e-3  # one level decides


BY_HAND = {  # ρ of fitnoise; extra cost of separate tables, and of budgets by the targets, equal and the best
    (300, 100, 30, None): (0.0021877, 1.073, 1.038, 2.787, 1.0),
    (100, 100, 100, None): (0.00055054, 1.047, 1.026, 1.026, 1.0),
    (50, 50, 30, 20): (0.0079858, 1.061, 1.032, 2.234, 1.0004),
}


@pytest.mark.parametrize("is_uniform", [True, False], ids=["as sectors", "by level"])
@pytest.mark.parametrize("margins", BY_HAND)
def test_what_budgets_by_hand_cost(by_level, margins, is_uniform):
    """51 states of 20 counties, as in the design's table."""
    nation, state, county, county_total = margins
    geo, a = uneven([20] * 51, LEVELS[:2]), ("age", "sex")
    tables = [fn.table(*a, margin=nation), fn.table("state", *a, margin=state)]
    tables += [
        fn.table(
            "county", *a, margin=county if is_uniform else fn.ByAttribute("county", {"-0-0": county}, default=county)
        )
    ]
    tables += [] if county_total is None else [fn.table("county", margin=county_total)]
    domain = fn.Domain(geo=geo, age=fn.Ordered(0, 9), sex=fn.Ordered(0, 1))
    plan = fn.plan(fn.Workload(domain, tables)).groups[0]
    assert plan.mechanism.name == ("fit-for-use" if is_uniform else "fit-for-use-by-level")
    rho, *times = BY_HAND[margins]
    assert plan.rho == pytest.approx(rho, rel=1e-4)
    assert [x / plan.rho for x in budgets.separate_budgets_rho(plan).values()] == pytest.approx(times, rel=1e-3)


@pytest.mark.parametrize("limit", [0, 128], ids=["by level", "together"])
@pytest.mark.parametrize("counties", [[[1, 3], [2]], [[2, 2], [2, 2]]], ids=["uneven", "regular"])
def test_budgets_by_hand_are_those_of_independent_noise(by_level, monkeypatch, counties, limit):
    """Against dense algebra: a row for each number, with noise of its own."""
    monkeypatch.setattr(gaussian_planning, "MAX_DENSE_LEAVES", limit)
    domain = fn.Domain(geo=uneven(counties, LEVELS), b=fn.Ordered(0, 2))
    tables = [fn.table("county", "b", variance=3), fn.table("tract", variance=2), fn.table("b", variance=5)]
    workload = fn.Workload(domain, tables)
    plan = fn.plan(workload).groups[0]
    rows, variances = workload_matrix(workload).astype(float), workload_variances(workload)
    separate, shares, equal, best = budgets.separate_budgets_rho(plan).values()
    assert separate == pytest.approx((1 / 3 + 1 / 2 + 1 / 5) / 2, rel=1e-6)

    def spent(precision):
        information = rows.T @ (rows * precision[:, None])
        achieved = np.diag(rows @ np.linalg.pinv(information) @ rows.T)
        return information.diagonal().max() * (achieved / variances).max() / 2

    assert shares == pytest.approx(spent(1 / variances), rel=LOOSE)
    assert equal == pytest.approx(spent(np.ones(len(variances))), rel=LOOSE)
    each = [
        np.repeat(x, [math.prod(t.shape(domain)) for t in tables])
        for x in itertools.product(np.geomspace(0.05, 1, 9), repeat=3)
    ]
    assert plan.bound / 2 * (1 - LOOSE) <= best <= min(map(spent, each)) * (1 + 1e-4)


def test_budgets_by_hand_are_of_one_tree_shown_value_by_value(monkeypatch):
    geo, b = zoo.places(2, 3, levels=["state", "county"]), fn.Ordered(0, 2)
    tables = [fn.table("state", "b", variance=3), fn.table("county", variance=2)]
    workload = fn.Workload(fn.Domain(geo=geo, b=b), tables)

    def ways(workload, **options):
        return list(budgets.separate_budgets_rho(fn.plan(fn.Publication(workload, **options)).table_part))

    budgets_rho = ways(workload)
    assert budgets_rho == [
        "tables on their own",
        "budgets by the targets, then least squares",
        "budgets equal, then least squares",
        "budgets the best there are, then least squares",
    ]
    assert ways(workload, objective=fn.Objective("total-error")) == []
    assert ways(workload, unit=fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE), public=PUBLIC) == []
    assert ways(workload, unit=fn.PrivacyUnit("person", 2, once_per=["b"])) == budgets_rho[:1]
    assert ways(fn.Workload(workload.domain, tables[:1])) == []  # one level
    other = fn.Domain(geo=geo, b=b, home=zoo.places(2, 2, levels=["u", "v"]))
    assert ways(fn.Workload(other, [*tables, fn.table("v", variance=2)])) == []
    assert ways(fn.Workload(workload.domain, [*tables, fn.table(cumulative="b", variance=2)])) == []
    monkeypatch.setattr(best_budgets, "MAX_TABLES", 1)
    assert ways(workload) == budgets_rho[:3]


def test_levels_of_many_places_are_compared_and_changed_in_what_if():
    both = compare(zoo.many_places())
    assert [(a.privacy.value, a.family) for a in both.alternatives] == [("zcdp", "levels and sectors")]
    assert "pure_not_searched" in status_of(both.plan)
    assert both.total_error is None
    (ways,) = separate_budgets(both).tables
    rhos = [row[1] for row in ways.rows]
    assert [row[2] for row in ways.rows] == [x / both.gaussian.rho for x in rhos]
    assert rhos[0] == both.gaussian.separate_rho
    assert min(rhos) > both.plan.rho
    loose = fn.plan(what_if.scale_margins(fn.Publication(zoo.many_places()), {"county": 2.0}))
    assert loose.rho < both.plan.rho
    assert fn.plan(fn.Publication(zoo.many_places()), start=loose).hash == fn.plan(zoo.many_places()).hash


@pytest.mark.no_cover
def test_what_is_not_planned_by_level():
    few, many = geography([3, 40], 1e-2), {"geo": uneven([[50, 1], [99]], LEVELS)}
    assert few.order.mechanism == "fit-for-use"
    tables = [fn.table("state", margin=20), fn.table("county", margin=20), fn.table("tract", margin=9)]
    workload = fn.Workload(fn.Domain(many), tables)
    with refused("plan.gaussian-plan-exceeds-cap"):
        fn.plan(workload, cap=fn.Budget(rho=1e-5))
    assert fn.plan(workload).order.mechanism == "fit-for-use-by-level"
    wide = fn.Workload(fn.Domain(geo=uneven([[900, 1], [400]], LEVELS)), tables)
    with refused("plan.gap-not-reached"):
        fn.plan(wide, gap=1e-6)
    with refused("plan.refine-by-level"):
        fn.plan(wide, refine=True)
    several = fn.Workload(fn.Domain(geo=uneven([[1900, 1], [400]], LEVELS)), tables)
    with refused("workload.too-many-places-in-levels"):
        fn.plan(several, objective=fn.Objective("total-error"))
    prefix = fn.Domain(geo=uneven([[200, 1], [99]], LEVELS), age=fn.Ordered(0, 85))
    tables.append(fn.table("state", cumulative="age", margin=50))
    with refused("workload.too-many-joint-cells"):
        fn.plan(fn.Workload(prefix, tables), unit=fn.PrivacyUnit("person", max_records=3, once_per=["age"]))


def with_part(document, **keys):
    """Return the document of a plan with other values for these keys of its only part."""
    return document | {"tables": [document["tables"][0] | keys]}


def test_plans_by_level_that_are_none(by_level):
    domain = fn.Domain(geo=uneven([[1, 3], [2]], LEVELS))
    plan = fn.plan(fn.Workload(domain, [fn.table("county", variance=3), fn.table("tract", variance=2)]))
    document = json.loads(plan.to_json())
    with pytest.raises(PlanError):
        fn.Plan.from_json(json.dumps(with_part(document, mechanism="fit-for-use")))
    regular = fn.Domain(geo=zoo.places(2, 3, levels=LEVELS[:2]))
    other = json.loads(fn.plan(fn.Workload(regular, [fn.table("county", variance=3)])).to_json())
    with refused("plan.levels-without-tree"):
        fn.Plan.from_json(json.dumps(with_part(other, mechanism=plan.order.mechanism)))
    for name, weights in (("cells", [1.0]), ("numbers", [-1.0, *document["tables"][0]["weights"]["numbers"][1:]])):
        odd = with_part(document, weights=document["tables"][0]["weights"] | {name: weights})
        with refused("plan.tree-weights-unusable"):
            _ = fn.Plan.from_json(json.dumps(odd)).bound
    for name, size in (("cells", 1.7e308), ("numbers", 1e300)):
        weights = [size, *[1e-300] * (len(document["tables"][0]["weights"][name]) - 1)]
        weights = [size] * len(weights) if name == "cells" else weights
        odd = with_part(document, weights=document["tables"][0]["weights"] | {name: weights})
        with refused("plan.tree-weights-unusable"):
            _ = fn.Plan.from_json(json.dumps(odd)).bound


SWAP = fn.PrivacyUnit("person", neighbours=fn.Neighbours.REPLACE_ONE)


@pytest.mark.slow
def test_replaced_records_of_many_places():
    """Within a tenth if there are many, and nearer the more similar they are; together if there are few."""
    tree = uneven([[30, 1, 2], [40], [1, 1, 80, 20, 9], [200, 300, 60], [700, 500]])
    domain = fn.Domain(geo=tree, sex=fn.Ordered(0, 1), age=fn.Ordered(0, 4))
    tables = [fn.table("age", "sex", margin=60), fn.table("state", "age", "sex", margin=50)]
    tables += [fn.table("county", "sex", margin=30), fn.table("tract", margin=20)]
    plan = fn.plan(fn.Workload(domain, tables), unit=SWAP)
    assert plan.order.mechanism == "fit-for-use-by-level"
    assert plan.gap < 0.1
    added = fn.plan(fn.Workload(domain, tables))
    assert (
        1.8 * added.bound < plan.bound <= float(plan.table_part.exact_cost) < 2.2 * float(added.table_part.exact_cost)
    )
    assert fn.plan(fn.Workload(domain, tables), unit=replace(SWAP, max_records=3)).rho == pytest.approx(9 * plan.rho)
    few = fn.Workload(fn.Domain(geo=uneven([[3, 1], [2]]), sex=TWO), tables[2:])
    few = fn.plan(few, unit=SWAP, public=PUBLIC)
    assert few.order.mechanism == "fit-for-use"
    assert few.gap < GAP


def test_replaced_records_of_places_with_targets_of_their_own(by_level):
    geo = uneven([3, 9, 14, 5, 8, 2, 11, 6, 6, 7, 10, 4], LEVELS[:2])
    targets = fn.ByAttribute("county", {row[1]: 10.0 for row in geo.places[::3]}, default=25.0)
    tables = [
        fn.table("sex", margin=60),
        fn.table("state", "sex", margin=40),
        fn.table("county", "sex", margin=targets),
    ]
    plan = fn.plan(fn.Workload(fn.Domain(geo=geo, sex=TWO), tables), unit=SWAP)
    assert plan.order.mechanism == "fit-for-use-by-place"
    assert plan.gap < 0.1
    parsed = fn.Plan.from_json(plan.to_json())
    assert (parsed.bound, parsed.table_part.exact_cost) == (plan.bound, plan.table_part.exact_cost)


def test_kinds_of_replaced_records_that_prove_nothing(by_level):
    domain = fn.Domain(geo=uneven([[1, 3], [2]], LEVELS), b=fn.Ordered(0, 2))
    tables = [fn.table("county", "b", variance=3), fn.table("tract", variance=2)]
    swapped, added = (json.loads(fn.plan(fn.Workload(domain, tables), unit=u).to_json()) for u in (SWAP, None))
    assert len(swapped["tables"][0]["weights"]["kinds"]) == 3 * 3  # for the top, counties, and one tract
    assert not {"kinds", "meetings"} & {*added["tables"][0]["weights"]}
    for plan_document, kinds in (
        (swapped, None),
        (swapped, [1.0]),
        (swapped, [*[1.0] * 8, -1.0]),
        (swapped, [*[1.0] * 8, 0.0]),
        (added, [1.0]),
    ):
        weights = plan_document["tables"][0]["weights"] | {"kinds": kinds}
        odd = with_part(plan_document, weights={k: v for k, v in weights.items() if v is not None})
        with refused("plan.neighbour-weights-unusable"):
            _ = fn.Plan.from_json(json.dumps(odd)).bound


@pytest.mark.no_cover
def test_kinds_of_replaced_records_prove_no_more_where_they_are_the_smallest_doubles(by_level):
    """Detects shares rounded to integer units of 5e-324, 2.67 of which are 3: more was proven than is true."""
    geo, four = uneven([[30, 10, 20], [25, 40, 3], [12, 50]], LEVELS), fn.Ordered(0, 3)
    domain = fn.Domain(geo=geo, b=four, c=four)
    tables = [fn.table("county", "b", "c", variance=3), fn.table("tract", variance=3)]
    plan = json.loads(fn.plan(fn.Workload(domain, tables), unit=SWAP).to_json())
    bounds = []
    for kinds in ([1.0] * 15, [5e-324] * 15):
        odd = with_part(plan, weights=plan["tables"][0]["weights"] | {"kinds": kinds})
        bounds.append(fn.Plan.from_json(json.dumps(odd)).bound)
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-9)


@pytest.mark.slow
def test_where_one_weight_a_level_is_costly_places_are_planned_jointly():
    """Places of one, two and four places each, one target at every level: some 10 % more expensive by level."""
    few = random.Random(3)  # noqa: S311 - a tree
    tree = [[[few.choice([1, 2, 4]) for _ in range(few.choice([1, 2, 4]))] for _ in range(3)] for _ in range(10)]
    levels = ["state", "county", "tract", "block"]
    workload = fn.Workload(fn.Domain(geo=uneven(tree, levels)), [fn.table(*a, variance=1) for a in [(), *zip(levels)]])
    publication = fn.Publication(workload)
    assert level_plans.deepest_level_size(publication) > gaussian_planning.MAX_DENSE_LEAVES
    by_level_plan = gaussian_planning._by_level(publication, 1e-2, math.inf, refine=False)
    assert by_level_plan.gap > 0.05
    for gap in (None, 1e-2):
        plan = fn.plan(workload, gap=gap)
        assert plan.order.mechanism == "fit-for-use"
        assert plan.rho < by_level_plan.rho / 1.05
    assert fn.plan(workload, gap=0.2).order.mechanism == "fit-for-use-by-level"


def test_too_many_different_places_are_refused(by_class, monkeypatch):
    monkeypatch.setattr(by_place_plans, "MAX_CLASSES", 10)
    geo = uneven([3, 2], LEVELS[:2])
    tables = [fn.table("county", variance=fn.ByAttribute("county", [1.0, 2.0, 3.0, 4.0, 5.0]))]
    domain = fn.Domain(geo=geo)
    assert fn.plan(fn.Workload(domain, [*tables, fn.table("state", variance=2)])).gap < 0.1
    monkeypatch.setattr(by_place_plans, "MAX_CLASSES", 7)
    with refused("workload.too-many-place-classes"):
        fn.plan(fn.Workload(domain, [*tables, fn.table("state", variance=2)]))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, classes=(*s.classes[:2], np.where(s.classes[2] == 1, 0, s.classes[2]))),
        lambda s: replace(s, groups=s.groups[:-1]),
        lambda s: replace(s, above=(s.above[0], np.sort(np.resize(np.arange(2), len(s.above[1]))))),
    ],
)
def test_plans_by_place_that_measure_something_else_are_refused(change):
    plan = fn.plan(zoo.REQUESTS["fit-for-use-by-place"]())
    (part,) = plan.groups
    assert part.mechanism.name == "fit-for-use-by-place"
    with pytest.raises(PlanError):
        replace(part, strategy=change(part.strategy))


@pytest.mark.parametrize("basis", [-1, 2])
def test_plans_by_level_that_count_something_else_are_refused(by_level, basis):
    """Their cost is the same, and what is stated of their errors; but tables rebuilt from them would be wrong."""
    domain = fn.Domain(geo=uneven([[1, 3], [2]], LEVELS))
    plan = fn.plan(fn.Workload(domain, [fn.table("county", variance=3), fn.table("tract", variance=2)]))
    for i, group in enumerate(json.loads(plan.to_json())["tables"][0]["strategy"]):
        mixing = [[[m[0][0] // abs(basis)]] for m in group["mixing"]]
        document = json.loads(plan.to_json())
        document["tables"][0]["strategy"][i] |= {"basis": [[basis]], "mixing": mixing}
        with pytest.raises(PlanError):
            fn.Plan.from_json(json.dumps(document))


def test_plans_by_level_that_measure_a_margin_less_than_its_levels_are_refused(by_level):
    """If almost nothing of a margin were left, rounding would hide its variances."""
    domain = fn.Domain(geo=uneven([[1, 3], [2]], LEVELS))
    part = fn.plan(fn.Workload(domain, [fn.table("county", variance=3), fn.table("tract", variance=2)])).groups[0]
    groups = list(part.strategy.groups)
    (total,) = (i for i, g in enumerate(groups) if g.attributes.shape[1] == 0)
    groups[total] = replace(groups[total], scales=groups[total].scales * 1024)
    with refused("plan.level-margin-too-small"):
        replace(part, strategy=replace(part.strategy, groups=tuple(groups)))


# --- specifications and releases --------------------------------------------------------------------------

SPEC = """
[domain.geo]
type = "hierarchy"
levels = ["state", "county"]
file = "counties.csv"
column = "fips"

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[[tables]]
margin = 60.0

[[tables]]
attributes = ["county", "sex"]
margin = 20.0

[[tables]]
attributes = ["state"]
margin = 30.0

[[tables]]
pattern = "singles"
margin = 90.0
name = "every"

[[questions]]
name = "many"
query = "count"
people = 500
where = { state = ["RI"] }
epsilon = 0.5
"""


@pytest.mark.no_cover
def test_from_a_specification_to_a_verified_release(tmp_path):
    places = [("RI", f"44{i:03}") for i in (1, 3, 5)] + [("CT", f"09{i:03}") for i in (1, 3, 5)]
    pd.DataFrame(places, columns=["state", "county"]).to_csv(tmp_path / "counties.csv", index=False)
    (tmp_path / "spec.toml").write_text(SPEC)
    publication = fn.load_spec(tmp_path / "spec.toml")
    domain = publication.domain
    assert domain["geo"] == fn.Hierarchy(["state", "county"], places, column="fips")
    assert [t.attributes for t in publication.workload.tables] == [
        (),
        ("county", "sex"),
        ("state",),
        ("geo",),
        ("sex",),
    ]
    with refused("spec.file-folder-unknown"):
        Spec.from_toml(SPEC).publication()
    with refused("spec.places-source"):
        Spec.from_toml('[domain.geo]\ntype = "hierarchy"\nlevels = ["a", "b"]\n[[tables]]\nmargin = 1.0')
    numbers = '[domain.geo]\ntype = "hierarchy"\nlevels = ["a", "b"]\nchildren = {}\n{}[[tables]]\nmargin = 1.0'
    regular = Spec.from_toml(numbers.format([2, 3], "")).publication()
    assert regular.workload.domain["geo"] == fn.Hierarchy.regular(a=2, b=3)
    for wrong, suffix, code in (
        ("[2, 3]", 'file = "x.csv"\n', "spec.places-source"),
        ("[2, 3]", 'places = [["x", "y"]]\n', "spec.places-source"),
        ("[2]", "", "domain.children-invalid"),
        ("[2, 0]", "", "domain.children-number-invalid"),
    ):
        with refused(code):
            Spec.from_toml(numbers.format(wrong, suffix)).publication()
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    assert json.loads(plan.to_json())["spec"]["domain"]["geo"]["places"][0] == ["RI", "44001"]

    rng = np.random.default_rng(8)
    people = pd.DataFrame({"fips": rng.choice([p[1] for p in places], 400), "sex": rng.choice(["f", "m"], 400)})
    release = fn.release(plan, people, ledger=tmp_path / "ledger.db", directory=tmp_path / "out")
    fn.verify(tmp_path / "out")
    frame = release["county by sex"]
    assert list(frame.columns[:2]) == ["county", "sex"]
    assert frame["county"].tolist() == [p[1] for p in places for _ in range(2)]
    by_state = (
        frame.assign(state=frame["county"].map({c: s for s, c in places})).groupby("state", sort=False)["value"].sum()
    )
    np.testing.assert_allclose(by_state, release["state"]["value"], atol=LOOSE)  # levels agree
    island = release.sum("county by sex", state="RI")
    assert island == release.sum("county by sex", county=[c for s, c in places if s == "RI"])
    assert release.sum("county by sex", state="RI", county=["44001", "09003"]) == release.sum(
        "county by sex", county="44001"
    )
    for table, odd in (("state", "county"), ("county by sex", "tract"), ("every: sex", "state")):
        with refused("release.unknown-column"):
            release.sum(table, {odd: "RI"})
    with refused("release.unknown-label"):
        release.sum("county by sex", state="MA")
    assert island.value == pytest.approx(release["state"]["value"][0], abs=LOOSE)
    assert island.std_error == pytest.approx(release["state"]["std_error"][0], rel=LOOSE)
    both = release.sum("county by sex", county=["44001", "09003"])  # a union of leaves that is no place
    assert 0 < both.std_error < math.sqrt(2) * 20
    assert "many" in release.finite


def test_tables_are_split_by_the_places_above(tmp_path):
    """Each piece is the rows of one place, in their order; together they are the table."""
    domain = fn.Domain(geo=TREE, sex=TWO)
    tables = [fn.table("sex", "tract", variance=1), fn.table("county", variance=2), fn.table("sex", variance=3)]
    plan = fn.plan(fn.Workload(domain, tables))
    release = fn.release(plan, np.arange(8) * 100, ledger=tmp_path / "ledger.db", directory=tmp_path / "out")
    table = release["sex by tract"]
    pieces = dict(release.tables_by_place("sex by tract", "state"))
    assert list(pieces) == ["b", "a"]
    for piece, tracts in zip(pieces.values(), ((3, 1), (2, 9)), strict=True):
        pd.testing.assert_frame_equal(piece, table[table["tract"].isin(tracts)].reset_index(drop=True))
    assert [piece["county"].tolist() for _, piece in release.tables_by_place("county", "county")] == [
        ["b1"],
        ["b2"],
        ["a1"],
        ["a2"],
    ]
    for name, level in (("sex", "state"), ("county", "tract"), ("county", "sex"), ("county", "nowhere")):
        with refused("release.table-without-level"):
            list(release.tables_by_place(name, level))
    with pytest.raises(KeyError, match="no table 'x'"):
        list(release.tables_by_place("x", "state"))


def test_plans_say_what_each_level_promises_and_costs():
    sizes = fn.ByAttribute("tract", {3: 20, 1: 30, 2: 40, 9: 60})
    geo = {"geo": TREE, "sex": TWO}
    tables = [fn.table("sex", margin=60), fn.table("state", "sex", margin=50), fn.table("state", margin=40)]
    tables.append(fn.table("tract", margin=sizes))
    plan = fn.plan(fn.Workload(fn.Domain(geo), tables))
    levels = document(plan_report(plan))["levels"]
    assert [(x["level"], x["places"], x["tables"]) for x in levels] == [
        ("all places", 1, 1),
        ("state", 2, 2),
        ("tract", 4, 1),
    ]
    prices = [t.price for t in plan.summaries]
    assert [x["price"] for x in levels] == [prices[0], prices[1] + prices[2], prices[3]]
    assert sum(x["price"] for x in levels) == pytest.approx(1)
    margins = [plan.table_part.table_margins(t.name) for t in plan.summaries]
    assert [x["least_moe"] for x in levels] == pytest.approx([margins[0].min(), margins[2].max(), margins[3].min()])
    assert [x["most_moe"] for x in levels] == pytest.approx([margins[0].max(), margins[1].max(), margins[3].max()])
    text = "\n".join(lines(plan_report(plan)))
    assert "level of geo  places  tables  from ±   to ±  share of price" in text
    pairs = fn.all_tables(1, ["sex", "state"], margin=20)  # one pattern, of two levels
    of_one = fn.all_tables(2, ["sex", "b"], "county", margin=20)
    other = {**geo, "b": TWO}
    for further in ([pairs, fn.table("tract", margin=9)], [fn.table("tract", margin=9), fn.table("state", margin=9)]):
        assert "levels" not in document(plan_report(fn.plan(fn.Workload(fn.Domain(other), further))))
    levels = document(plan_report(fn.plan(fn.Workload(fn.Domain(other), [of_one, *tables]))))["levels"]
    assert [x["tables"] for x in levels] == [1, 2, 1, 1]
    one, second = (fn.Publication(fn.Workload(fn.Domain(geo), x)) for x in (tables[:3], tables[3:]))
    assert "levels" not in document(plan_report(fn.plan(replace(one, further_tables=(second,)))))


def test_an_uneven_tree_is_released_level_by_level():
    domain = fn.Domain(geo=zoo.UNEVEN)
    tables = [fn.table("state", variance=2), fn.table("county", variance=1)]
    plan = fn.plan(fn.Workload(domain, tables))
    counts = np.arange(6) * 1000
    release = released(plan, counts)
    np.testing.assert_allclose(release["state"]["value"], [0, 3000, 12000], atol=20)
    np.testing.assert_allclose(release["county"]["value"], counts, atol=20)
    assert release["county"]["county"].tolist() == list(zoo.UNEVEN.values)


def test_a_margin_among_different_ones_is_not_reported_as_that_of_all(tmp_path):
    """A table of margins from 20 to 60 was listed with ±20."""
    domain = fn.Domain(town=fn.Categorical(["a", "b"]))
    plan = fn.plan(fn.Workload(domain, [fn.table("town", margin=fn.ByAttribute("town", {"a": 20, "b": 60}))]))
    release = fn.release(plan, np.array([100, 200]), ledger=tmp_path / "ledger.db")
    listed = "\n".join(lines(release_report(release)))
    assert "±20 to 60" in listed
    assert "margin ± nearest to the target" in listed
    assert "widest ±" in listed
    assert f"{release['town']['moe'].max():.4g}" in listed
