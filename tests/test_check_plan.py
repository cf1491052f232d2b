"""The program that checks a plan without fitnoise agrees with it, and notices what is altered."""

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

import fitnoise as fn
import fitnoise_check
import zoo
from designs import attributes_of, cells_over, of_products
from fitnoise.errors import FitnoiseError
from fitnoise.kernel.designs import clusters, products
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.designs.margins import PureStrategy
from fitnoise.kernel.designs.products import ProductStrategy
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms.documents import (
    claim_document,
    margins_document,
    products_document,
    proofs_document,
    sectors_document,
    trees_document,
)
from fitnoise.mechanisms.finite import documents
from fitnoise.mechanisms.gaussian import planning
from fitnoise.request.documents import Spec
from fitnoise.solving import witnesses
from fitnoise.solving.witnesses import claimed
from fitnoise_check import answers as check_answers
from fitnoise_check import cells as check_cells
from fitnoise_check import places as check_places
from fitnoise_check import plan as checker
from fitnoise_check import products as check_products
from laws.documents import alterations, places, put
from laws.plans import planned_quickly

SAMPLES = Path(__file__).parent / "data" / "stored" / "plans"
PROGRAMS = sorted(Path(fitnoise_check.__file__).parent.glob("*.py"))
RIGHT, WRONG, UNKNOWN = 0, 1, 2
LINES = 200


@pytest.fixture
def verdict(tmp_path, capsys):
    """The exit status for a plan's text or document, and what is printed."""

    def check(plan, *names):
        path = tmp_path / "plan.json"
        path.write_text(plan if isinstance(plan, str) else json.dumps(plan), encoding="utf-8")
        status = checker.main(str(path), *names)
        return status, capsys.readouterr().out

    return check


def sample(name):
    return json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_it_is_short_and_needs_nothing_but_numpy(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    own_modules = {"fitnoise_check", *(f"fitnoise_check.{path.stem}" for path in PROGRAMS)}
    assert imported <= {*sys.stdlib_module_names, "numpy", *own_modules}
    assert len(text.splitlines()) <= LINES


# --- right ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(SAMPLES.iterdir()), ids=lambda path: path.stem)
def test_stored_plans_are_right(verdict, path):
    status, lines = verdict(path.read_text(encoding="utf-8"))
    assert status == RIGHT, lines
    assert lines.count("charge as stated") == 1


def test_shares_of_records_cost_one_record(verdict):
    unit = fn.PrivacyUnit("person", id="pid", count="shares")
    plan = fn.plan(zoo.WORKLOADS["crossed"](), unit=unit)
    status, lines = verdict(plan.to_json())
    assert status == RIGHT, lines
    assert lines.count("charge as stated") == 1
    assert plan.table_part.exact_cost == fn.plan(zoo.WORKLOADS["crossed"]()).table_part.exact_cost


@pytest.mark.parametrize("name", ["amounts", "ceilings"])
def test_what_is_added_up_before_costs_nothing_more(verdict, name):
    unit = fn.PrivacyUnit("person", id="pid", sum_within_unit=["pay"])
    plan, without = (
        fn.plan(zoo.WORKLOADS[name](), unit=u, gap=1e-2) for u in (unit, replace(unit, sum_within_unit=()))
    )
    document = json.loads(plan.to_json())
    assert document["spec"]["privacy"].pop("sum_within_unit") == ["pay"]
    assert "sum_within_unit" not in json.loads(without.to_json())["spec"]["privacy"]
    assert plan.table_part.exact_cost == without.table_part.exact_cost
    for text in (plan.to_json(), without.to_json()):
        status, lines = verdict(text)
        assert status == RIGHT, lines
        assert lines.count("charge as stated") == 1


@pytest.mark.parametrize("neighbours", fn.Neighbours)
def test_of_how_many_records_are_left_out_costs_a_person_her_own_epsilon(verdict, neighbours):
    """However many records of one are counted: she moves it by one. What costs more than it says is noticed."""
    question = fn.FiniteQuery.left_out("more", people=20, epsilon=1)
    unit = fn.PrivacyUnit("person", 3, neighbours, id="pid")
    plan = fn.plan(fn.Publication(zoo.WORKLOADS["prefix"](), unit, questions=(question,)))
    text = plan.to_json()
    assert verdict(text)[0] == RIGHT, verdict(text)[1]
    document = json.loads(text)
    assert document["spec"]["questions"][0]["epsilon"] == "1"
    document["spec"]["questions"][0]["epsilon"] = "99/100"
    status, lines = verdict(json.dumps(document))
    assert status != RIGHT
    assert "'more' is not answered privately" in lines


def test_plans_of_the_zoo_are_right_and_so_are_their_bounds(verdict, any_plan):
    status, lines = verdict(any_plan.to_json())
    assert status == RIGHT, lines
    assert "bound as stated" in lines


def test_plans_of_every_mechanism_are_right(verdict, any_request):
    _, plan = any_request
    status, lines = verdict(plan.to_json())
    assert status == RIGHT, lines
    assert ("bound as stated" in lines) == (plan.order.mechanism in ("fit-for-use", "pure-fit-for-use"))


def test_plans_of_joint_bases_are_right(verdict, monkeypatch):
    """Two attributes by value and by prefix; detects a scale that is not charged."""
    monkeypatch.setattr(planning, "MAX_DENSE_CELLS", 0)
    domain = fn.Domain(o=fn.Ordered(0, 4), u=fn.Ordered(0, 3))
    tables = [fn.table("o", cumulative="u", margin=3), fn.table("u", cumulative="o", margin=4)]
    plan = fn.plan(fn.Workload(domain, tables))
    assert plan.table_part.strategy.joint
    document = json.loads(plan.to_json())
    assert verdict(plan.to_json())[0] == RIGHT
    for change in (lambda s: s[1:], lambda s: [*s, s[-1]], lambda s: [*s[:-1], "1024"]):
        altered = json.loads(json.dumps(document))
        last = altered["tables"][0]["strategy"]["sets"][-1]
        last["scales"] = change(last["scales"])
        assert verdict(altered)[0] == WRONG


def test_a_plan_of_several_parts_is_right_part_by_part(verdict):
    document = zoo.DOCUMENTS["plan, several parts"].build()
    status, lines = verdict(document)
    assert status == RIGHT, lines
    assert lines.count("charge as stated") == len(document["tables"]) == 3
    for part in document["tables"]:
        altered = json.loads(json.dumps(document))
        cost = altered["tables"][document["tables"].index(part)]["cost"]
        cost["cost_squared"] = str(Fraction(cost["cost_squared"]) * (1 - Fraction(1, 2**80)))
        assert verdict(altered)[0] == WRONG


@pytest.mark.parametrize("tables", [{"prefix": 1}, {"month": 1, "prefix": 4}, {"prefix": 1, "most": 18}], ids=str)
def test_charges_of_series_too_long_to_enumerate_are_proven_by_their_witnesses(verdict, tables):
    tables_of_series = [fn.table("month", std_error=1)] if "month" in tables else []
    tables_of_series += [fn.table(cumulative="month", std_error=tables["prefix"])]
    domain, unit = (
        fn.Domain(month=fn.Ordered(1, 22)),
        fn.PrivacyUnit("person", tables.get("most", 22), once_per=["month"]),
    )
    plan = json.loads(fn.plan(fn.Workload(domain, tables_of_series), unit=unit).to_json())
    status, lines = verdict(serialised(plan))
    assert (status, "bound as stated" in lines) == (RIGHT, True), lines
    assert ("claim" in plan["tables"][0]["cost"]) == ("month" not in tables)
    refuse_other_prices(verdict, plan)


def serialised(plan):
    return json.dumps(plan, separators=(",", ":")) + "\n"


def refuse_other_prices(verdict, plan):
    """A price that is not the claimed one is wrong, and so is a claim below what its witness proves."""
    table = ("tables", 0)
    for times in (1 - 1e-5, 1 + 1e-5):
        stated = str(Fraction(plan["tables"][0]["cost"]["cost_squared"]) * Fraction(times))
        assert verdict(serialised(put(plan, (*table, "cost", "cost_squared"), stated)))[0] == WRONG
    claim = plan["tables"][0]["cost"].get("claim")
    if claim is None:  # the bound by different cells is as small
        return
    less = str(int(claim["groups"][0]["at"]) * 99999 // 100000)
    status, lines = verdict(serialised(put(plan, (*table, "cost", "claim", "groups", 0, "at"), less)))
    assert (status, "not proven" in lines) == (WRONG, True), lines


@pytest.mark.parametrize("moves", [False, True])
def test_less_than_replaced_sets_of_records_cost_is_wrong(verdict, moves):
    """Detects a price of replaced records that is not four times that of their claim."""
    domain = fn.Domain(month=fn.Ordered(1, 6 if moves else 22), region=fn.Categorical(["a", "b"]))
    requested = [fn.table("month", "region", std_error=2), fn.table("region", change="month", std_error=1)]
    requested = requested if moves else [fn.table("month", std_error=1), fn.table(cumulative="month", std_error=10)]
    unit = fn.PrivacyUnit("person", 6, once_per=["month"], neighbours=fn.Neighbours.REPLACE_ONE)
    plan = json.loads(fn.plan(fn.Workload(domain, requested), unit=unit).to_json())
    status, lines = verdict(serialised(plan))
    assert (status, "charge as stated" in lines) == (RIGHT, True), lines
    refuse_other_prices(verdict, plan)


@pytest.mark.slow
def test_charge_of_too_many_sets_of_months_is_wrong_for_more_records(verdict):
    document = sample("many_months")
    assert verdict(put(document, ("spec", "privacy", "max_records"), 11))[0] == WRONG


@pytest.mark.parametrize("axis", ["levels", "prefix"])
@pytest.mark.parametrize(
    "pattern",
    [
        {"max_records": 3, "fixed": ["place"], "once_per": ["month"]},
        {"max_records": 2, "once_per": ["place"]},
        {"max_records": 3, "per_value": {"place": 2}},
        {"neighbours": fn.Neighbours.REPLACE_ONE},
    ],
    ids=str,
)
def test_patterns_among_places_go_by_the_levels_that_are_measured(verdict, pattern, axis):
    places = [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")]
    domain = fn.Domain(place=fn.Hierarchy(["state", "county"], places), month=fn.Ordered(1, 3))
    joint_table = (
        fn.table("state", "month", std_error=2)
        if axis == "levels"
        else fn.table("state", cumulative="month", std_error=2)
    )
    tables = [joint_table, fn.table("county", std_error=4)] if "once_per" in pattern else [joint_table]
    public = fn.KnownTotals((), "Register", "these data") if "neighbours" in pattern else None
    unit = fn.PrivacyUnit("person", **pattern)
    plan = json.loads(fn.plan(fn.Workload(domain, tables), unit=unit, public=public).to_json())
    status, lines = verdict(plan)
    assert status == RIGHT, lines
    assert (
        verdict(put(plan, ("tables", 0, "cost", "cost_squared"), lowered(plan["tables"][0]["cost"]["cost_squared"])))[0]
        == WRONG
    )


def test_plans_of_places_by_numbers_are_right_whatever_their_number(verdict, monkeypatch):
    """No place of 5,890,806 is listed, nor for a pattern among them."""
    geo = fn.Hierarchy.regular(state=51, county=62, tract=27, group=3, block=23)
    domain = fn.Domain(geo=geo, sex=fn.Ordered(0, 1))
    tables = [fn.table("sex", margin=300), *(fn.table(x, "sex", margin=30) for x in geo.levels)]
    with monkeypatch.context() as here:
        here.setattr(check_cells, "rows_of", None)
        for unit in (fn.PrivacyUnit("person"), fn.PrivacyUnit("person", 3, once_per=("geo",))):
            unit_tables = tables if unit.max_records == 1 else tables[1:3]
            plan = json.loads(fn.plan(fn.Workload(domain, unit_tables), unit=unit).to_json())
            status, lines = verdict(plan)
            assert status == RIGHT, lines
            assert ("bound as stated" in lines) == (unit.max_records == 1)
            assert (
                verdict(
                    put(plan, ("tables", 0, "cost", "cost_squared"), lowered(plan["tables"][0]["cost"]["cost_squared"]))
                )[0]
                == WRONG
            )


@pytest.mark.parametrize(
    "tables",
    [
        [fn.table("state", cumulative="age", margin=4), fn.table("county", "age", margin=3)],
        [fn.table(groups={"county": {"some": ["101", "210"], "one": ["105"]}}, margin=3)],
        [fn.table("county", margin=fn.ByAttribute("county", {"101": 2.0}, default=9.0))],
    ],
    ids=["with structure", "recoded", "by place"],
)
@pytest.mark.parametrize("limit", [128, 0], ids=["together", "by level"])
def test_plans_that_name_places_by_numbers_are_right(verdict, tables, limit, monkeypatch):
    monkeypatch.setattr(planning, "MAX_DENSE_LEAVES", limit)
    domain = fn.Domain(geo=fn.Hierarchy.regular(state=2, county=10), age=fn.Ordered(0, 2))
    status, lines = verdict(fn.plan(fn.Workload(domain, tables)).to_json())
    assert status == RIGHT, lines
    assert ("bound as stated" in lines) == ("tables by fit-for-use:" in lines)


def tables_of_amounts():
    domain = fn.Domain(
        sex=fn.Categorical(["f", "m"]),
        kids=fn.Ordered(0, 2),
        hours=fn.Amount(-1, 4.5, step=0.5, missing={"gone": []}, if_missing="gone"),
        pay=fn.Amount(0, 30, ceilings=[8, 20]),
    )
    tables = [
        fn.table("sex", margin=4),
        fn.table("sex", sum=["hours", "pay"], margin=90),
        fn.table("sex", mean="pay", margin=2, reference=40),
        *(fn.table("sex", sum="pay", ceiling=t, margin=t) for t in (8, 20, 30)),
        fn.table(cumulative="kids", sum="hours", margin=fn.ByAttribute("kids", [9, 8, 7])),
        fn.table(sum="kids", std_error=3),
    ]
    return fn.Workload(domain, tables)


@pytest.fixture(scope="module")
def with_amounts():
    return fn.plan(tables_of_amounts(), gap=1e-6).to_json()


@pytest.fixture(scope="module")
def pure_with_amounts():
    return planned_quickly(tables_of_amounts()).to_json()


def test_plans_of_amounts_are_right_and_integer_between_the_knots(verdict, with_amounts):
    status, lines = verdict(with_amounts)
    assert status == RIGHT, lines
    assert "bound as stated" in lines
    document = json.loads(with_amounts)
    for name, step in (("hours", 0.55), ("pay", 0.7), ("pay", 1 / 64)):
        altered = put(document, ("spec", "domain", name, "step"), step)
        status, lines = verdict(altered)
        assert (status, "between two knots" in lines) == (WRONG, True), step


def test_pure_plans_of_amounts_are_right_and_integer_between_the_knots(verdict, pure_with_amounts):
    status, lines = verdict(pure_with_amounts)
    assert status == RIGHT, lines
    assert "bound as stated" in lines
    document = json.loads(pure_with_amounts)
    for name, step in (("hours", 0.55), ("pay", 0.7)):
        altered = put(document, ("spec", "domain", name, "step"), step)
        status, lines = verdict(altered)
        assert (status, "between two knots" in lines) == (WRONG, True), step
    rows = [
        (m, r)
        for m, measured in enumerate(document["tables"][0]["strategy"]["margins"])
        for r in range(len(measured["rows"]))
    ]
    for m, r in rows:
        (low, *_), (value, *_) = document["tables"][0]["strategy"]["margins"][m]["rows"][r]
        status, lines = verdict(put(document, ("tables", 0, "strategy", "margins", m, "rows", r, 1, 0), value + 1))
        assert (status, "between two knots" in lines) == (WRONG, True), (m, r, low)


WRITE = {Strategy: sectors_document, PureStrategy: margins_document, ProductStrategy: products_document}
ADJACENCIES = {
    **zoo.ADJACENCIES,
    "or of a day": Adjacency(fn.PrivacyUnit("person", 5, per_value={"o": 2}, fixed=["a0"])),
    "or three of each value": Adjacency(fn.PrivacyUnit("person", 7, per_value={"a0": 3})),
    "or several of each value": Adjacency(fn.PrivacyUnit("person", 5, per_value={"a0": 2, "a1": 3})),
}


@pytest.mark.parametrize("name", [*zoo.TABLES, *zoo.PRODUCTS])
def test_designs_cost_what_the_kernel_says(name):
    design = (zoo.TABLES | zoo.PRODUCTS)[name]
    domain = attributes_of(design)
    strategy, axes = json.loads(json.dumps(WRITE[type(design)](design))), [a for a, _ in design.structure.structured]
    tables = [fn.table(*(a for a in domain if a != "unused"), margin=3)]
    checked = 0
    for adjacency in ADJACENCIES.values():
        if adjacency.unit.pattern.names <= set(domain):
            source = fn.DataSource(outside_domain="drop" if adjacency.drops else "refuse")
            publication = fn.Publication(fn.Workload(domain, tables), adjacency.unit, source)
            priced = claimed(design, publication.adjacency)
            spec = json.loads(json.dumps(Spec.from_publication(publication).document()))
            size = check_cells.cells_of(spec["domain"]) | dict(design.structure.structured)  # of amounts their knots
            unit = checker.Unit(spec, size)
            if isinstance(design, ProductStrategy):
                cost = check_products.axis_by_axis(strategy, size, unit)
            elif isinstance(design, PureStrategy):
                cost = checker.margins(strategy, size, axes, unit)
            else:
                grid = check_cells.Grid(strategy, spec, spec, size)
                grid.axes, grid.free = axes, [a for a, _ in design.structure.exchangeable]
                claim = priced.claim and [
                    claim_document(priced.claim),
                    proofs_document(priced.claim, design.structure.names),
                ]
                claim = json.loads(json.dumps(claim)) or [None, []]
                cost = checker.Sectors(strategy, size, grid).cost(grid.unit(unit), *claim)
            assert cost == priced.loss(publication.adjacency).cost_squared, adjacency
            checked += 1
    assert checked >= 8


@pytest.mark.parametrize("cells", [10**7, 20])
@pytest.mark.parametrize("rounds", [40, 1])
@pytest.mark.parametrize("design", [zoo.DISAGREEING, zoo.CHAINED], ids=["disagreeing", "chained"])
def test_products_with_a_scale_for_every_row_cost_what_the_kernel_says(monkeypatch, design, cells, rounds):
    """All joint cells, the claim that as many rounds of the search find, or the sum of maxima."""
    for where in (clusters, check_products):
        monkeypatch.setattr(where, "MAX_JOINT_CELLS", cells)
    monkeypatch.setattr(witnesses, "BALANCING_ROUNDS", rounds)
    unclaimed = replace(design)
    priced = claimed(unclaimed, zoo.ADJACENCIES["add or remove"])
    assert (priced.claim is not None) == (cells == 20 and design is zoo.DISAGREEING)
    strategy, names = json.loads(json.dumps(products_document(unclaimed))), design.structure.names
    unit, size = SimpleNamespace(replaces=False, alone=True, records=2), dict.fromkeys(names, 3)
    assert check_products.axis_by_axis(strategy, size, unit) == 4 * unclaimed.max_record_cost
    if priced.claim is None:
        return
    stated = json.loads(json.dumps([claim_document(priced.claim), proofs_document(priced.claim, names)]))
    assert check_products.axis_by_axis(strategy, size, unit, *stated) == 4 * priced.max_record_cost
    for wrong in (replace(priced.claim, bound=priced.claim.bound - 1), *wrong_claims(priced.claim)):
        assert not wrong.proves(priced.costs_by_set(), priced.sizes)
        stated = json.loads(json.dumps([claim_document(wrong), proofs_document(wrong, names)]))
        with pytest.raises((checker.Wrong, ValueError, IndexError)):
            check_products.axis_by_axis(strategy, size, unit, *stated)


def wrong_claims(claim):
    """A claim of any cost, with levels that wrap around in 64 bits, other homes and short lists."""
    claim = replace(claim, bound=2**100)
    (row, *rows), *rest = claim.levels
    for first_row in ((2**63, *row[1:]), (row[0] + 1, *row[1:]), row[:1]):
        yield replace(claim, levels=((first_row, *rows), *rest))
    yield replace(claim, levels=tuple(rest))
    yield replace(claim, homes=(0,) * len(claim.homes))
    yield replace(claim, homes=claim.homes[::-1])
    yield replace(claim, homes=claim.homes[1:])
    yield replace(claim, clusters=claim.clusters[1:])


@pytest.mark.parametrize("choices", [1024, 8, 1])
def test_products_are_charged_for_replaced_records_as_the_kernel_says(monkeypatch, choices):
    """The charge is computed by attribute, by factor, or set by set."""
    monkeypatch.setattr(products, "MAX_CHOICES", choices)
    monkeypatch.setattr(check_products, "MAX_CHOICES", choices)
    rows, sets = [[1, 2, -1], [0, 3, 1]], {(0, 1): (2, 3), (0, 2): (1, 16), (1, 3): (3, 4), (2, 3): (1, 5)}
    for factors in ((rows, rows, rows, None), (rows, None, None, [[1, 0, 0]])):
        design = of_products(cells_over((3, 3, 3, 3)), factors, {(): (3, 5)}, {(0,): (1, 4), (3,): (5, 8.5)}, sets)
        strategy = json.loads(json.dumps(products_document(design)))
        size = dict.fromkeys(design.structure.names, 3)
        unit = SimpleNamespace(replaces=True, alone=False, records=1)
        assert check_products.axis_by_axis(strategy, size, unit) == design.cost_squared(fn.Neighbours.REPLACE_ONE)


def test_places_cost_what_the_kernel_says():
    design = zoo.TREES["a tree and an attribute"]
    rows = [("x", "1"), ("x", "2"), ("x", "3"), ("y", "4")]
    domain = fn.Domain(a0=fn.Ordered(0, 2), geo=fn.Hierarchy(["a1", "a2"], rows))
    strategy = json.loads(json.dumps(trees_document(design)))
    for adjacency in (zoo.ADJACENCIES[x] for x in ("add or remove", "add or remove 3", "replace", "replace 2")):
        source = fn.DataSource(outside_domain="drop" if adjacency.drops else "refuse")
        publication = fn.Publication(fn.Workload(domain, [fn.table("a2", "a0", margin=3)]), adjacency.unit, source)
        spec = json.loads(json.dumps(Spec.from_publication(publication).document()))
        size = check_cells.cells_of(spec["domain"])
        cost = check_places.by_place(strategy, spec, size, checker.Unit(spec, size))
        assert cost == design.loss(publication.adjacency).cost_squared
        other = {**strategy, "levels": [strategy["levels"][0], {**strategy["levels"][1], "in_each": [2, 2]}]}
        with pytest.raises(checker.Wrong, match="not that of the domain"):
            check_places.by_place(other, spec, size, checker.Unit(spec, size))


ANSWERS = {name: make for name, make in zoo.DESIGNS.items() if name not in zoo.TABLES}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("kind", ["add or remove 3", "replace"])
def test_answers_are_private_and_no_more_so_than_they_are(name, kind):
    """At an ε that is less by a thousandth they are not, unless there is something to spare."""
    adjacency = zoo.ADJACENCIES[kind]
    try:
        design = ANSWERS[name](adjacency)
    except FitnoiseError:  # its family has none for neighbours of this kind
        return
    assert isinstance(design, AnswerDesign)
    domain, query = ANSWERS[name].stated
    publication = fn.Publication(fn.Workload(domain, []), adjacency.unit, questions=(query,))
    spec = json.loads(json.dumps(Spec.from_publication(publication).document()))
    size = check_cells.cells_of(spec["domain"])
    unit, question = checker.Unit(spec, size), spec["questions"][0]
    document = json.loads(json.dumps(documents.document(design.mechanism)))
    assert ("formula" if document["form"] == "formula" else "proven") in check_answers.check(
        question, document, spec, size, unit
    )
    epsilon = design.mechanism.log_ratio() * adjacency.records * Fraction(999, 1000)
    if document["form"] != "formula":
        with pytest.raises(checker.Wrong, match="not answered privately"):
            check_answers.check(question | {"epsilon": str(epsilon)}, document, spec, size, unit)


# --- altered --------------------------------------------------------------------------------------------------------


def lowered(text):
    """Return a value that is a little less; no float distinguishes the two."""
    return str(Fraction(text) * (1 - Fraction(1, 2**80)))


ALTERED = {
    "a charge that is a little lower": ("gaussian", ("tables", 0, "cost", "cost_squared"), lowered),
    "a charge of pure tables": ("pure", ("tables", 0, "cost", "cost_squared"), lowered),
    "fewer records of a unit": ("drop", ("spec", "privacy", "max_records"), lambda _: 2),
    "records that come and go": ("replace_one", ("spec", "privacy", "neighbours"), lambda _: "add-or-remove-one"),
    "more records of a unit": ("drop", ("spec", "privacy", "max_records"), lambda x: x + 1),
    "more noise": ("wide_integers", ("tables", 0, "strategy", 0, "scales", 0), lambda x: f"{2 * int(x.split('/')[0])}"),
    "a bound that is higher": ("prefixes", ("tables", 0, "cost", "bound"), lambda x: x * 1.001),
    "a bound that is lower": ("prefixes", ("tables", 0, "cost", "bound"), lambda x: x / 1.001),
    "a target that is not met": ("prefixes", ("spec", "tables", 1, "margin"), lambda x: x * 0.999),
    "weights that prove less": ("prefixes", ("tables", 0, "weights", "cells", 0), lambda x: x * 2),
    "an answer of understated cost": ("pure_finite", ("spec", "questions", 0, "epsilon"), lambda _: "33/100"),
    "an answer without a table": ("large_finite", ("spec", "questions", 0, "epsilon"), lambda _: "299/100"),
    "an answer with added noise": ("large_finite", ("spec", "questions", 2, "epsilon"), lambda _: "33/100"),
    "a part without a whole number": ("matrix", ("tables", 0, "strategy", 0, "basis", 0, 0), float),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_is_altered_is_noticed(verdict, what):
    name, path, alter = ALTERED[what]
    document = sample(name)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    status, lines = verdict(
        put(document, path, alter(inner.get(path[-1]) if isinstance(inner, dict) else inner[path[-1]]))
    )
    assert status == WRONG
    assert "NOT RIGHT" in lines


@pytest.mark.parametrize("cell", [True, 1.0, "1", None])
def test_a_joint_cell_is_made_of_integers(verdict, cell):
    """A `true` and a 1.0 of JSON equal 1 in Python, and are no cells."""
    domain = fn.Domain(age=fn.Categorical(["child", "adult"]), marital=fn.Categorical(["single", "married"]))
    ruled = domain.without(age="child", marital="married")
    plan = fn.plan(fn.Workload(ruled, [fn.table("age", "marital", std_error=1), fn.table("age", std_error=1)]))
    document = json.loads(plan.to_json())
    path = ("joint_axes", 0, "cells", 1, 0)
    assert verdict(put(document, path, 1))[0] == RIGHT
    status, lines = verdict(put(document, path, cell))
    assert status == WRONG
    assert "NOT RIGHT: a joint cell is made of whole numbers" in lines


DESIGNS = ("pure", "matrix", "free", "women", "replace_two", "drop", "wide_integers", "old")


@pytest.mark.parametrize("name", DESIGNS)
def test_every_altered_integer_of_a_design_is_noticed_unless_the_charge_stays_right(verdict, name):
    """Then fitnoise reads the plan too: it is another plan by its SHA-256, and costs the stated amount."""
    document, noticed, others = sample(name), 0, 0
    for path, value in places(document["tables"][0]["strategy"]):
        if type(value) is int:
            altered = put(document, ("tables", 0, "strategy", *path), value + 1)
            text = json.dumps(altered, separators=(",", ":")) + "\n"
            if verdict(text)[0] == RIGHT:
                fn.Plan.from_json(text)
                others += 1
            else:
                noticed += 1
    assert noticed > others


AT_ODDS = {
    f"plan.{x}"
    for x in ("integers-of-another-cost", "ratio-above-epsilon", "alpha-above-epsilon", "ranks-above-epsilon")
}


@pytest.mark.parametrize("name", ["replace_two", "pure"])
def test_nothing_is_called_right_that_fitnoise_finds_at_odds(verdict, name):
    document = sample(name)
    for kind, altered in alterations(document):
        try:
            fn.Plan.from_json(json.dumps(altered))
        except FitnoiseError as error:
            odd = error.code in AT_ODDS
            assert not odd or verdict(altered)[0] != RIGHT, kind


# --- as a program -------------------------------------------------------------------------------------------------


def test_a_plan_that_was_named_by_its_hash_is_that_plan(verdict):
    text = (SAMPLES / "women.json").read_text(encoding="utf-8")
    plan_hash = fn.Plan.from_json(text).hash
    status, lines = verdict(text, plan_hash)
    assert status == RIGHT
    assert f"SHA-256 {plan_hash}" in lines
    assert verdict(text + " ", plan_hash)[0] == WRONG


def test_unknown_documents_are_reported_as_unknown(verdict):
    version = put(sample("women"), ("fitnoise_plan",), 3)
    assert verdict(version)[0] == UNKNOWN
    many = put(
        sample("drop"), ("spec", "privacy"), {"unit": "visit", "max_records": 10**9, "per_value": {"age": 10**8}}
    )
    status, lines = verdict(many)
    assert status == UNKNOWN
    assert "cannot say: records of a unit keep to a pattern" in lines
    status, lines = verdict(put(sample("women"), ("spec", "domain", "age", "type"), "angle"))
    assert status == UNKNOWN
    assert "cannot say: the cells of 'age', of type 'angle'" in lines


@pytest.mark.parametrize("text", ["{}", "[]", '{"fitnoise_plan": 4}', '{"fitnoise_plan": 4, "spec": {"domain": {}}}'])
def test_what_is_no_plan_is_not_right(verdict, text):
    assert verdict(text)[0] == WRONG


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    assert checker.main(str(tmp_path / "no.json")) == UNKNOWN
    assert "no.json" in capsys.readouterr().out


def test_it_runs_by_itself(tmp_path):
    """From any folder, without fitnoise."""
    shutil.copytree(PROGRAMS[0].parent, tmp_path / "fitnoise_check")
    command = [sys.executable, "-E", "-m", "fitnoise_check", str(SAMPLES / "large_finite.json")]
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8", cwd=tmp_path)
    assert done.returncode == RIGHT, done.stderr
    # A command without a plan has found nothing wrong.
    assert subprocess.run(command[:-1], check=False, capture_output=True, cwd=tmp_path).returncode == UNKNOWN
    assert "question 'many ages': proven from its integers" in done.stdout
