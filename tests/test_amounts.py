"""Amounts: what is read and counted of them, what a record costs at every step, plans, releases and what is refused."""

import contextlib
import itertools
import json
import math
import re
import sqlite3
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import fitnoise as fn
import zoo
from designs import of_sectors, unit_cost, unit_profile
from fitnoise import data
from fitnoise.engines import engine_check, open_counter, statements
from fitnoise.engines.dialects import Dialect
from fitnoise.interfaces.pages import fragments, notebook
from fitnoise.interfaces.render import document
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel import measure as measuring
from fitnoise.kernel import noise
from fitnoise.kernel.codings import DROPPED, OUTSIDE, REFUSED, Steps
from fitnoise.kernel.counting import Counter, Tally, trial
from fitnoise.kernel.counting._base import ProgressFilter
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.designs.margins import MAX_NOISE_SCALE, MeasuredMargin, PureStrategy
from fitnoise.kernel.designs.products import Factor, ProductStrategy
from fitnoise.kernel.order import ENOUGH, Order
from fitnoise.kernel.units import Adjacency, DataSource, Neighbours, OutsideDomain, Pattern, PrivacyUnit
from fitnoise.messages import Message, english, rule_messages, translator
from fitnoise.planning.accounting import Curve, ReleasedCharge
from fitnoise.reading import expressions
from fitnoise.reading.combining import check_tables
from fitnoise.reading.layouts import layout
from fitnoise.request.attributes import attribute_document
from fitnoise.request.documents import Spec
from fitnoise.request.table_section import TableSpec
from fitnoise.request.views import EACH, NonMissing
from laws.counting import leaks_nothing
from laws.designs import check_design
from laws.plans import check_accuracy, check_part, check_price, check_variances, planned_quickly, status_of
from laws.releases import by_command, released
from laws.reports import in_words
from records import Records, Sample
from refused import refused
from replayed_noise import Replay, of_many_releases
from test_databases import DUCKDB, in_duckdb
from tolerances import SIGNIFICANCE, as_often_as

PAY = fn.Amount(0, 1000, step=10, missing={"none": ["N"], "unknown": [-9]}, if_missing="unknown", if_outside="none")
DOMAIN = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=PAY)
TOPS = replace(PAY, ceilings=[200, 500])


MEANS = Message("report.section.means")


def coded(attribute):
    """Return the coding of an attribute in English."""
    return english(*rule_messages(attribute.coding_rules))


def moments(domain, cells, margin):
    """Return, by the definition, 1 − j at the first knot, and at each other the part that j has passed."""
    out = np.zeros([domain[a].size for a in margin], dtype=object)
    records = len(next(iter(cells.values())))
    for record in zip(*(cells[a].tolist() for a in margin), strict=True) if margin else [()] * records:
        parts = []
        for a, code in zip(margin, record, strict=True):
            pieces = domain.steps.get(a, ())
            if not pieces or code > sum(pieces):
                parts.append([(code - sum(pieces) + len(pieces), 1)])
            else:
                before = [sum(pieces[:s]) for s in range(len(pieces) + 1)]
                passed = [len(range(x, min(code, y))) for x, y in itertools.pairwise(before)]
                parts.append([(0, 1 - code), *enumerate(passed, 1)])
        for ends in itertools.product(*parts):
            out[tuple(cell for cell, _ in ends)] += math.prod(weight for _, weight in ends)
    return out


# --- the step of a number -------------------------------------------------------------------------------------------


def test_a_number_is_read_as_its_nearest_step_after_it_is_cut():
    read = fn.Amount(-5, 5, step=2.5).cell
    assert [read(x) for x in (-6, -5, -3.76, -3.75, -1.25, 0, 3.74, 3.75, 5, 1e308, -1e308)] == [
        0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 0
    ]  # fmt: skip
    assert [read(x) for x in (None, "", "x", math.nan, math.inf, -math.inf, "1e400")] == [None] * 7
    cents = fn.Amount(0, 100, step=0.01)
    assert [cents.cell(x) for x in ("1.005", 0.015, "99.995", 0.004999, " 7 ", "+3", "-0", True)] == [
        100, 2, 10000, 0, 700, 300, 0, None
    ]  # fmt: skip


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6), st.integers(0, 4), st.integers(1, 500), st.floats())
@example(0, 1, 2, 10000, 1.005)
def test_steps_are_the_nearest_ones_and_within_the_range(low, stride, digits, max_steps, x):
    unit = Fraction(1, 10**digits)
    steps = Steps(low * unit, (low + max_steps * stride) * unit, stride * unit)
    assert steps.max_step == max_steps
    assert [steps.cell(float(steps.low + j * steps.step)) for j in (0, 1, max_steps)] == [0, 1, max_steps]
    j = steps.cell(x)
    if not math.isfinite(x):
        assert j is None
        return
    assert 0 <= j <= max_steps
    cut = min(max(Fraction(x), steps.low), steps.high)
    assert abs(cut - (steps.low + j * steps.step)) <= steps.step * (Fraction(1, 2) + Fraction(1, 2**20))


def test_only_numbers_that_are_valid_are_amounts():
    pay = fn.Amount(0, 100, valid=(-50, 10**6), missing={"unknown": [9_999_999]}, if_missing="unknown")
    cells = [pay.cell(x) for x in (-51, -50, 150, 10**6, 1_000_001, 9_999_999, "9999999.0", None)]
    assert cells == [None, 0, 100, 100, None, 101, 101, 101]
    assert (pay.size, pay.own_size, pay.coding.size, pay.steps) == (3, 2, 102, (100,))
    assert pay.values == (0, 100, "unknown")
    assert pay.position("unknown") == 2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: fn.Amount(0, 10, step=3), ("domain.amount-steps-invalid", "domain.ceilings-invalid")),
        (lambda: fn.Amount(0, 2**31), "domain.amount-steps-invalid"),
        (lambda: fn.Amount(5, 5), "domain.amount-range-empty"),
        (lambda: fn.Amount(0, 5, step=0), "domain.amount-range-empty"),
        (lambda: fn.Amount(0, 5, step=-1), "domain.amount-range-empty"),
        (lambda: fn.Amount(0, math.inf), "domain.amount-number-invalid"),
        (lambda: fn.Amount(True, 5), "domain.amount-number-invalid"),
        (lambda: fn.Amount("0", 5), "domain.amount-number-invalid"),
        (lambda: fn.Amount(0, 1e17, step=1e10), "domain.amount-too-fine"),
        (lambda: fn.Amount(0, 1, step=1e-16), "domain.too-many-decimals"),
        (lambda: fn.Amount(0, 5, valid=(1, 9)), "domain.valid-excludes-range"),
        (lambda: fn.Amount(0, 5, valid=7), "domain.valid-not-a-pair"),
        (lambda: fn.Amount(0, 5, valid=(0, 1, 2)), "domain.valid-not-a-pair"),
        (lambda: fn.Amount(0, 5, column=""), "domain.column-invalid"),
        (lambda: fn.Amount(0, 5, ceilings=[2, 2]), "domain.ceilings-invalid"),
        (lambda: fn.Amount(0, 5, ceilings=[5]), "domain.ceilings-invalid"),
        (lambda: fn.Amount(0, 5, ceilings=[0, 3]), "domain.ceilings-invalid"),
        (lambda: fn.Amount(0, 5, ceilings=[2.5]), ("domain.amount-steps-invalid", "domain.ceilings-invalid")),
        (lambda: fn.Amount(0, 5, ceilings=[math.nan]), "domain.amount-number-invalid"),
        (lambda: fn.Amount(0, 5, ceilings=3), "domain.ceilings-not-a-list"),
        (lambda: TOPS.upper_limit(300), "domain.ceiling-not-declared"),
        (lambda: TOPS.upper_limit(True), "domain.ceiling-not-declared"),
        (lambda: fn.Amount(0, 5, missing={"unknown": [3]}), "domain.missing-code-is-value"),
        (lambda: fn.Amount(0, 5, missing={"4": [-9]}), "domain.missing-cell-ambiguous"),
        (lambda: PAY.position(500), "domain.amount-by-value"),
    ],
)
def test_amounts_that_cannot_be_are_refused(make, why):
    with refused(why):
        make()


def test_equal_amounts_have_equal_documents():
    assert fn.Amount(0, 1.0) == fn.Amount(0.0, 1)
    assert attribute_document(fn.Amount(0, 1.0)) == attribute_document(fn.Amount(0, 1))
    ones = [fn.Amount(0, 1), fn.Amount(0, 2), fn.Amount(0, 1, step=0.5), fn.Amount(0, 1, valid=(0, 1)), PAY, TOPS]
    assert len({json.dumps(attribute_document(a)) for a in ones}) == len(set(map(repr, ones))) == len(ones)
    assert coded(fn.Amount(-1, 0.5, step=0.25)) == "below -1 as -1, above 0.5 as 0.5; in steps of 0.25"
    assert coded(PAY).endswith("; codes of missing values are read as such")
    assert fn.Amount(0, 1, step=0.5, ceilings=()) == fn.Amount(0, 1, step=0.5)
    assert "ceilings" not in attribute_document(PAY)
    assert fn.Amount(np.int64(0), np.float64(2.5), step=0.5).declared()["high"] == 2.5


# --- counting -------------------------------------------------------------------------------------------------------

SAMPLE = Sample(PAY, "double", [[0.0, 4.9, 5.0, 999.0, 1e9, "7.5"], [-1.0, 500.0]], ["x", -9.0, None, math.nan, "N"])
OTHER = Sample(fn.Ordered(0, 2), "int16", [[0], [1], [2]], [3, None])
SOURCES = [name for name in zoo.COUNTERS if not name.startswith("histogram")]


def test_amounts_with_ceilings_have_a_cell_for_every_knot():
    assert (TOPS.size, TOPS.own_size, TOPS.coding.size, TOPS.steps) == (6, 4, 103, (20, 30, 50))
    assert TOPS.values == (0, 200, 500, 1000, "none", "unknown")
    assert TOPS.position("unknown") == 5
    assert [TOPS.cell(x) for x in (199, 201, 499, 1e9, "N", -9)] == [PAY.cell(x) for x in (199, 201, 499, 1e9, "N", -9)]
    assert [TOPS.upper_limit(x) for x in (None, 200, 500.0, np.int64(1000))] == [1000, 200, 500, 1000]
    assert fn.Amount(-1, 1, step=0.25, ceilings=[-0.5, 0]).own_values == (-1, -0.5, 0, 1)


@pytest.mark.no_cover
@pytest.mark.parametrize("amount", [PAY, TOPS], ids=["two ends", "ceilings"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_sums_up_amounts_as_declared(source, amount, tmp_path, one_engine):
    source = zoo.COUNTERS[source]
    domain = fn.Domain({"x": amount, "beside": OTHER.attribute})
    held = source.held(SAMPLE, SAMPLE.values * 3)
    others = source.held(OTHER, OTHER.values)
    values = {"x": held, "beside": [others[i % len(others)] for i in range(len(held))]}
    records = Records(domain, values, {"x": "double", "beside": "int16"})
    counter = open_counter(
        source.make(records, tmp_path), domain.axes, DataSource(table=source.table, outside_domain=OutsideDomain.DROP)
    )
    check_moments(counter, domain, values)


def check_moments(counter, domain, values):
    cells = {a: np.array([domain[a].coding.cell_of(v) for v in values[a]]) for a in values}
    is_counted = np.all([~np.isin(c, [DROPPED, OUTSIDE, REFUSED]) for c in cells.values()], axis=0)
    inside = {a: c[is_counted] for a, c in cells.items()}
    names = list(domain)
    margins = [m for k in range(len(names) + 1) for m in itertools.permutations(names, k)]
    for requests in [margins, *([m] for m in margins)]:
        for m, table in counter.count(requests).items():
            assert table.dtype == np.int64
            assert np.array_equal(table, moments(domain, inside, m))


FRAME = pd.DataFrame(
    {
        "x": [3.4, 9.0, -1.0, None, 2.6, 7.0, 1.5],
        "y": [1, 2, 3, 4, 5, 6, 7.5],
        "sex": ["f", "m", "f", "m", "f", "m", "f"],
    }
)
TWO = fn.Domain(
    sex=fn.Categorical(["f", "m"]),
    x=fn.Amount(0, 8, missing={"gone": []}, if_missing="gone", valid=(-1, 9)),
    y=fn.Amount(2, 7, step=0.5, ceilings=[4.5]),
)


def test_products_of_amounts_are_counted_and_add_up_to_the_records(one_engine):
    values = {a: FRAME[a].where(FRAME[a].notna(), None).tolist() for a in TWO}
    counter = open_counter(FRAME, TWO.axes, DataSource())
    check_moments(counter, TWO, values)
    table = counter.count([("x", "y")])["x", "y"]
    assert table.sum() == len(FRAME)
    j = [3, 8, 0, None, 3, 7, 2]
    k = [0, 0, 2, 4, 6, 8, 10]
    assert table[1, 1] == sum(a * min(b, 5) for a, b in zip(j, k, strict=True) if a is not None)
    assert table[1, 2] == sum(a * max(b - 5, 0) for a, b in zip(j, k, strict=True) if a is not None)
    assert table[2].tolist() == [1 - 4, 4, 0]


def test_the_first_records_of_a_person_are_the_same_wherever_amounts_are_summed(one_engine, tmp_path):
    frame = FRAME.assign(who=["a", "a", "b", "b", "a", "c", "c"])
    unit = PrivacyUnit("person", 2, id="who")
    path = tmp_path / "people.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        frame.to_sql("people", db, index=False)
    tallies = [
        open_counter(x, TWO.axes, DataSource(table="people"), unit.bound).count([("sex", "x")]) for x in (frame, path)
    ]
    assert np.array_equal(*(x["sex", "x"] for x in tallies))
    assert tallies[0]["sex", "x"].sum() == 6


@pytest.mark.no_cover
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("sets", [True, False])
def test_statements_of_databases_sum_amounts_as_declared(sets, persons, monkeypatch):
    d = replace(DUCKDB, sets=sets, bytes="octet_length({c})", digest="md5({x})")
    rows = enumerate(FRAME.itertuples(index=False))
    rows_text = ", ".join(f"({'NULL' if x != x else x}, {y}, '{sex}', 'p{i}')" for i, (x, y, sex) in rows)  # noqa: PLR0124
    relation = f"(SELECT * FROM (VALUES {rows_text}) AS t(x, y, sex, who))"
    kinds = {"sex": ColumnKind.TEXT, "x": ColumnKind.DECIMAL, "y": ColumnKind.DOUBLE}
    fields = {a: statements.Field(TWO[a].coding, k, f"source.{a}") for a, k in kinds.items()}
    person = statements.PersonColumn(ColumnKind.TEXT, "source.who", list(TWO), 1) if persons else None
    if persons:
        monkeypatch.setattr(statements, "MAX_RANGE_CELLS", 5)

    class SetCounter(Counter):
        drops = False

        def check(self, attributes):
            pass

        def count(self, margins, progress=None):
            result = statements.count(
                in_duckdb(), d, relation, fields, margins, ProgressFilter(None), drop=True, person=person
            )
            return result[0]

    check_moments(SetCounter(), TWO, {a: FRAME[a].where(FRAME[a].notna(), None).tolist() for a in TWO})


def test_amounts_of_integers_are_read_in_statements():
    domain = fn.Domain(n=fn.Amount(-3, 7, step=2.5, valid=(-4, 100), missing={"none": [-9]}, if_outside="none"))
    values = [-9, -4, -3, -2, -1, 0, 1, 2, 3, 6, 7, 99, 101]
    relation = f"(SELECT * FROM (VALUES {', '.join(f'({n})' for n in values)}) AS t(n))"
    fields = {"n": statements.Field(domain["n"].coding, ColumnKind.INTEGER, "source.n")}
    counts, _ = statements.count(in_duckdb(), DUCKDB, relation, fields, [("n",)], ProgressFilter(None), drop=True)
    cells = {"n": np.array([domain["n"].coding.cell_of(v) for v in values])}
    assert np.array_equal(counts["n",], moments(domain, cells, ("n",)))


@pytest.mark.slow
def test_an_engine_is_tried_on_amounts_before_it_sums_them(monkeypatch):
    engine_check.refuse_unless_right(in_duckdb(), DUCKDB, "the database", drop=True, amounts=True)
    steps_sql = Dialect._steps
    monkeypatch.setattr(Dialect, "_steps", lambda d, *args: steps_sql(d, *args).replace("FLOOR", "CEIL"))
    monkeypatch.setattr(trial, "CODINGS", {"words": trial.CODINGS["words"]})  # the complete trial includes these
    with refused("data.database-answer-invalid") as caught:
        engine_check.refuse_unless_right(in_duckdb(), DUCKDB, "the database", drop=True, amounts=True)
    assert "counted" in str(caught.value) or "counts" in str(caught.value)


def test_arrays_of_counts_reveal_no_amounts():
    with refused("data.counts-without-amounts") as caught:
        open_counter(np.ones((2, 4), dtype=int), DOMAIN.axes, DataSource())
    leaks_nothing(caught.value)


# --- what a record costs --------------------------------------------------------------------------------------------


class CodeCounter(Counter):
    """Counts of records that are given by their codes; by the definition, and wrapped as a counter's are."""

    drops = False

    def __init__(self, domain, records):
        self.domain, self.records = domain, records

    def check(self, attributes):
        pass

    def count(self, margins, progress=None):
        cells = {a: np.array([r[i] for r in self.records], dtype=int) for i, a in enumerate(self.domain)}
        return {m: moments(self.domain, cells, m).astype(np.int64) for m in margins}


def answers(design, domain, records, declared=2**40):
    tally = Tally(CodeCounter(domain, records).count(list(design.margins())))
    return np.concatenate([y.astype(object) for y in design.exact_answers(tally, Adjacency(), declared)])


def random_design(rng, steps, extra=0, sizes=(2, 3)):
    """Draw a design over exchangeable attributes and amounts, with cells without a knot for the first; and its domain.

    steps: of each amount K, or how many there are from each knot to the next.
    """
    steps = [k if isinstance(k, tuple) else (k,) for k in steps]
    names = [f"p{i}" for i in range(len(steps))]
    width = [len(k) + 1 + (extra if i == 0 else 0) for i, k in enumerate(steps)]
    basis = []
    for _ in range(len(steps) + 1):
        row = rng.integers(-5, 6, (1,) * len(steps)) * np.ones(width, dtype=int)
        for axis, pieces in enumerate(steps):
            factors = rng.integers(-9, 10, width[axis])
            factors[: len(pieces) + 1] = np.cumsum([rng.integers(-3, 4), *(k * rng.integers(-2, 3) for k in pieces)])
            row = row + factors.reshape([-1 if i == axis else 1 for i in range(len(steps))])
        basis.append(row.ravel())
    k = len(basis)
    cells = CellStructure(
        tuple((f"a{i}", n) for i, n in enumerate(sizes)),
        tuple(zip(names, width, strict=True)),
        tuple(zip(names, steps, strict=True)),
    )
    sectors = {
        s: (np.tril(rng.integers(-4, 5, (k, k)), -1) + np.diag(rng.integers(1, 5, k)), 2.0 ** int(rng.integers(0, 3)))
        for s in [(0,), (1,)]
    }
    both = {(0, 1): (np.eye(k, dtype=int), 4.0)}
    design = of_sectors(cells, (basis, sectors), (basis, both))
    domain = fn.Domain(
        {f"a{i}": fn.Ordered(1, n) for i, n in enumerate(sizes)}
        | {
            a: fn.Amount(
                0,
                sum(pieces),
                ceilings=np.cumsum(pieces)[:-1].tolist(),
                missing={f"m{i}": [-1 - i] for i in range(n - len(pieces) - 1)} or None,
            )
            for a, pieces, n in zip(names, steps, width, strict=True)
        }
    )
    return design, domain


def shift(design, domain, added, fewer=()):
    """The squared distance, in units of the noise, of data that differ by these records."""
    scales = np.repeat([Fraction(s) for s in design.scales.tolist()], design.portions)
    background = [(0,) * len(domain)] * 3
    one, other = (answers(design, domain, [*background, *x]) for x in (added, fewer))
    return sum((Fraction(int(a - b)) / s) ** 2 for a, b, s in zip(one, other, scales, strict=True))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("steps", "extra"),
    [((5,), 0), ((3,), 2), ((1,), 0), ((2, 3), 1), (((2, 3),), 1), (((1, 4, 2),), 0), (((2, 2), 3), 1)],
)
def test_no_step_costs_more_than_a_knot(steps, extra, rng):
    """Detects a price that holds at the knots only: of one record, of two of one unit, of one that is replaced."""
    design, domain = random_design(rng, steps, extra)
    design.check(domain.sizes, domain.steps)
    codes = [range(domain[a].coding.size) for a in domain.steps]
    records = [(z, w, *j) for z in (0, 1) for w in (0, 2) for j in itertools.product(*codes)]
    one = {r: shift(design, domain, [r]) for r in records}
    assert max(one.values()) == design.cost_squared(Neighbours.ADD_OR_REMOVE_ONE)
    knots = [{*np.cumsum((0, *pieces)).tolist()} for pieces in domain.steps.values()]
    ends = [r for r in records if all(j in t or j > max(t) for j, t in zip(r[2:], knots, strict=True))]
    assert max(one.values()) == max(one[r] for r in ends)
    loss = design.loss(Adjacency())
    assert loss.axes == design.structure.structured
    assert 2 * loss.rho == max(one.values())
    sample = [records[i] for i in rng.integers(len(records), size=5)] + ends[:4]
    pairs = list(itertools.product(sample, sample))
    two = unit_cost(design, Adjacency(PrivacyUnit("person", 2)))
    assert all(shift(design, domain, pair) <= two for pair in pairs)
    assert two == 4 * max(one.values())
    replaced = design.cost_squared(Neighbours.REPLACE_ONE)
    assert all(shift(design, domain, [r], [s]) <= replaced for r, s in pairs)


@pytest.mark.parametrize("steps", [4, (1, 3), (2, 1, 1)])
def test_records_of_one_unit_in_different_places_cost_max_at_knots(steps, rng):
    """Once per value of another attribute: each record has an amount of its own."""
    design, domain = random_design(rng, (steps,), sizes=(3, 2))
    knots = {*np.cumsum((0, *domain["p0"].steps)).tolist()}
    adjacency = domain.axes.adjacency(DataSource(), PrivacyUnit("person", 2, once_per=("a0",)))
    price = max(unit_profile(design, adjacency))
    assert price < 4 * max(design.profile())
    steps = range(5)
    pairs = [
        [(0, z, j), (1, w, k)] for z, w, j, k in itertools.product((0, 1), (0, 1), steps, steps)
    ]  # the same wherever they lie
    costs = [shift(design, domain, pair) for pair in pairs]
    assert max(costs) <= price
    inner = [x for x, pair in zip(costs, pairs, strict=True) if {pair[0][2], pair[1][2]} <= knots]
    assert max(costs) == max(inner)


def test_answers_are_the_same_in_wide_and_in_narrow_integers(rng):
    design, domain = random_design(rng, (7,), 1)
    records = [(int(rng.integers(2)), int(rng.integers(3)), int(rng.integers(9))) for _ in range(40)]
    narrow = answers(design, domain, records)
    assert np.array_equal(narrow, answers(design, domain, records, declared=2**62))


@pytest.mark.parametrize("steps", [6, (1, 3, 2)])
def test_several_releases_cost_jointly_no_more_than_their_knots(steps, rng):
    one, domain = random_design(rng, (steps,))
    another, _ = random_design(rng, (steps,))
    loss = one.loss(Adjacency()) + another.loss(Adjacency())
    records = [(z, w, j) for z in (0, 1) for w in (0, 1) for j in range(7)]
    joint_costs = [shift(one, domain, [r]) + shift(another, domain, [r]) for r in records]
    assert max(joint_costs) == 2 * loss.rho


def test_designs_that_are_not_integer_between_the_ends_are_refused(rng):
    cells = CellStructure((), (("p", 2),), (("p", (3,)),))
    of_sectors(cells, ([[1, 4]], {(): ([[1]], 1.0)}))
    with refused("plan.sector-misfits-domain"):
        of_sectors(cells, ([[1, 4, 7]], {(): ([[1]], 1.0)}))
    for row in ([0, 1], [1, 3], [0, 2]):
        with refused("plan.amount-rows-not-whole"):
            of_sectors(cells, ([row], {(): ([[1]], 1.0)}))
    knots = CellStructure((), (("p", 4),), (("p", (3, 2)),))  # and a cell without a knot
    of_sectors(knots, ([[1, 4, 2, 5]], {(): ([[1]], 1.0)}))
    for row in ([1, 3, 5, 0], [1, 4, 5, 0], [1, 5, 6, 0]):
        with refused("plan.amount-rows-not-whole"):
            of_sectors(knots, ([row], {(): ([[1]], 1.0)}))
    halves = CellStructure((), (("p", 2), ("q", 2)), (("p", (2,)), ("q", (2,))))
    with refused("plan.amount-rows-not-whole"):
        of_sectors(halves, ([[0, 0, 0, 2]], {(): ([[1]], 1.0)}))  # ½ where both are half-way
    of_sectors(halves, ([[0, 0, 0, 4]], {(): ([[1]], 1.0)}))
    single = CellStructure((), (("p", 3),), (("p", (1, 1)),))
    with refused("plan.amount-rows-too-large"):
        of_sectors(single, ([[-(2**61), 2**61, -(2**61)]], {(): ([[1]], 1.0)}))  # J_2 times −3 · 2⁶¹


def test_designs_are_for_the_steps_of_the_domain_and_no_others(rng):
    design, domain = random_design(rng, (4,))
    sizes = domain.sizes
    for steps in ({}, {"p0": (2,)}, {"p0": (2, 2)}, {"p0": (4,), "a0": (1,)}):
        with refused("plan.made-for-another-domain"):
            design.check(sizes, steps)
    without_steps = of_sectors(CellStructure((), (("p0", 2),)), ([[1, 5]], {(): ([[1]], 1.0)}))
    with refused("plan.made-for-another-domain"):
        without_steps.check(sizes, domain.steps)
    wrong = ((("p0", (0,)),), (("p0", ()),), (("p0", (1, 2)),), (("a", (3,)),), (("p0", (3,)),) * 2, (("z", (3,)),))
    for steps in wrong:
        with refused("plan.design-amounts-misfit"):
            CellStructure((("a", 2),), (("p0", 2),), steps)
    with refused("plan.amounts-not-supported"):
        ProductStrategy(design.structure, (Factor(None),) * 3, ())
    pure = PureStrategy(design.structure, (MeasuredMargin((), np.ones((1, 2), dtype=np.int64)),), 1.0)
    pure.check(sizes, domain.steps)
    for steps in ({}, {"p0": (2,)}):
        with refused("plan.made-for-another-domain"):
            pure.check(sizes, steps)


# --- the same of pure noise -----------------------------------------------------------------------------------------


def pure(rng, steps, extra=0, sizes=(2, 3), rows=2, scale=8.0):
    """Draw margins over exchangeable attributes and amounts, with integer values between knots; and the domain.

    steps: of each amount how many there are from each knot to the next.
    extra: cells of the first without a knot.
    """
    like, domain = random_design(rng, steps, extra, sizes)
    measured = []
    for attributes in [(), (0,), (0, 1)]:
        queries = rng.integers(-3, 4, (rows, *like.structure.shape))
        for axis, pieces in enumerate(domain.steps.values(), 1):
            by_code = np.moveaxis(queries, axis, 0)
            by_code[1 : len(pieces) + 1] *= np.array(pieces).reshape(-1, *(1,) * (by_code.ndim - 1))
            by_code[: len(pieces) + 1] = by_code[: len(pieces) + 1].cumsum(axis=0)
        queries = queries.reshape(rows, -1)
        queries[:, 0] += ~queries.any(axis=1)
        queries += (queries[:, :1] == 0) & ~queries.any(axis=1, keepdims=True)
        measured.append(MeasuredMargin(attributes, queries))
    return PureStrategy(like.structure, tuple(measured), scale), domain


def answer_changes(design, domain, added, fewer=()):
    """Return the change of each answer for data that differ by these records."""
    background = [(0,) * len(domain)] * 3
    one, other = (answers(design, domain, [*background, *x]) for x in (added, fewer))
    return np.abs(one - other)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("steps", "extra"), [((3,), 1), ((1,), 0), ((2, 3), 0), (((1, 2),), 1), (((2, 1), 2), 1), ((2, 1, 2), 0)]
)
def test_no_step_costs_more_pure_noise_than_a_knot(steps, extra, rng):
    """Detects a price that holds at the knots only: of one record, of one that is replaced, of several of one unit."""
    for _ in range(4):
        design, domain = pure(rng, steps, extra)
        design.check(domain.sizes, domain.steps)
        codes = [range(domain[a].coding.size) for a in domain.steps]
        records = [(z, w, *j) for z in (0, 1) for w in (0, 2) for j in itertools.product(*codes)]
        each = {r: answer_changes(design, domain, [r]) for r in records}
        loss = design.loss(Adjacency())
        assert max(sum(x) for x in each.values()) == design.step(Neighbours.ADD_OR_REMOVE_ONE) == 8 * loss.epsilon
        assert max(sum(x**2) for x in each.values()) == 2 * 64 * loss.rho
        assert max(x**2 for x in (sum(x) for x in each.values())) == 64 * max(design.profile())
        sample = [records[i] for i in rng.integers(len(records), size=40)]
        swaps = [answer_changes(design, domain, [r], [s]) for r, s in zip(sample[:20], sample[20:], strict=True)]
        adjacency = Adjacency(PrivacyUnit("person", 1, Neighbours.REPLACE_ONE))
        assert max(sum(x) for x in swaps) <= design.step(Neighbours.REPLACE_ONE) == 8 * design.loss(adjacency).epsilon
        assert max(sum(x**2) for x in swaps) <= 2 * 64 * design.loss(adjacency).rho
        pairs = [answer_changes(design, domain, pair) for pair in zip(sample[:20], sample[20:], strict=True)]
        two = design.loss(Adjacency(PrivacyUnit("person", 2)))
        assert max(sum(x) for x in pairs) <= 8 * two.epsilon == 2 * 8 * loss.epsilon
        assert max(sum(x**2) for x in pairs) <= 2 * 64 * two.rho


@pytest.mark.parametrize("steps", [(2,), ((1, 2),), (2, 1)])
def test_replacing_costs_max_at_knots(steps, rng):
    """Every record in the place of every other one: j by j′, here and elsewhere."""
    design, domain = pure(rng, steps)
    codes = [range(domain[a].coding.size) for a in domain.steps]
    records = [(z, w, *j) for z in (0, 1) for w in (0, 2) for j in itertools.product(*codes)]
    changes = [answer_changes(design, domain, [r], [s]) for r in records[: len(records) // 4] for s in records]
    assert max(sum(x) for x in changes) == design.step(Neighbours.REPLACE_ONE)
    assert max(sum(x**2) for x in changes) <= design.step_squared(Neighbours.REPLACE_ONE)


def test_several_pure_releases_cost_jointly_no_more_than_their_knots(rng):
    one, domain = pure(rng, ((2, 3),))
    another, _ = pure(rng, ((2, 3),))
    loss = one.loss(Adjacency()) + another.loss(Adjacency())
    records = [(z, w, j) for z in (0, 1) for w in (0, 1) for j in range(6)]
    joint_changes = [[np.concatenate([answer_changes(x, domain, [r]) for x in (one, another)])] for r in records]
    assert max(sum(x**2) for (x,) in joint_changes) == 2 * 64 * loss.rho
    assert max(sum(x) for (x,) in joint_changes) <= 8 * loss.epsilon


@pytest.mark.parametrize("row", [[0, 1, 0], [1, 3, 7], [2, 0, 0]])
def test_margins_that_are_not_integer_between_the_ends_are_refused_at_once(row):
    cells = CellStructure((("a", 2),), (("p", 3),), (("p", (3,)),))
    for rows in ([[1, 4, 2]], [[1, 4, 2], [5, 5, 1], [3, 0, 0]]):
        PureStrategy(cells, (MeasuredMargin((), np.array(rows)),), 1.0)
        with refused("plan.amount-rows-not-whole"):
            PureStrategy(cells, (MeasuredMargin((), np.array(rows)), MeasuredMargin((0,), np.array([row]))), 1.0)
    halves = CellStructure((), (("p", 2), ("q", 2)), (("p", (2,)), ("q", (2,))))
    with refused("plan.amount-rows-not-whole"):
        PureStrategy(halves, (MeasuredMargin((), np.array([[0, 0, 0, 2]])),), 1.0)
    PureStrategy(halves, (MeasuredMargin((), np.array([[0, 0, 0, 4]])),), 1.0)


def test_pure_answers_are_the_same_in_wide_and_in_narrow_integers(rng):
    """Also where what is added up on the way is beyond 64 bits, and the answer is not."""
    design, domain = pure(rng, ((3, 2), 4), 1)
    codes = [range(domain[a].coding.size) for a in domain.steps]
    records = [(int(rng.integers(2)), int(rng.integers(3)), *(int(rng.choice(c)) for c in codes)) for _ in range(40)]
    assert np.array_equal(answers(design, domain, records), answers(design, domain, records, declared=2**62))
    steps, many = 2**20, 100
    large = CellStructure((), (("p0", 2),), (("p0", (steps,)),))
    wide = PureStrategy(large, (MeasuredMargin((), np.array([[2**39, 0], [-(2**39), 2**39]])),), 2.0**20)
    domain, records_at = fn.Domain(p0=fn.Amount(0, steps)), [(steps - 1,)] * many
    assert many * 2**39 * steps > 2**64
    assert wide.magnitude(2**20) < 2**62
    for declared in (2**20, 2**40):
        sums = wide.exact_answers(Tally(CodeCounter(domain, records_at).count([("p0",)])), Adjacency(), declared)[0]
        assert sums.dtype == (np.int64 if declared == 2**20 else object)
        assert sums.tolist() == [many * 2**19, many * (2**39 - 2**20)]


def exact_delta(moves, scale, epsilon):
    """δ at ε of independent discrete Laplace numbers that move so far: all outcomes that matter, in doubles."""
    k = np.arange(-int(40 * scale), int(40 * scale) + 1)
    losses, chances = np.zeros(1), np.ones(1)
    for s in moves:
        p, loss = math.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale), (np.abs(k - s) - np.abs(k)) / scale
        losses, chances = np.add.outer(losses, loss).ravel(), np.multiply.outer(chances, p).ravel()
        losses, where = np.unique(np.round(losses * scale), return_inverse=True)
        losses, chances = losses / scale, np.bincount(where.ravel(), chances)
    return float(chances @ np.maximum(-np.expm1(epsilon - losses), 0))


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        ((("p", (4,)),), [[4, 0], [0, 4], [1, 1]]),
        ((("p", (4,)),), [[8, 4], [0, 8], [3, -1], [2, -2]]),
        ((("p", (2, 3)),), [[2, 0, 3], [0, 2, 5], [1, 3, 3]]),
        ((("p", (2,)), ("q", (2,))), [[4, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4], [2, 2, 0, 0]]),
    ],
)
def test_every_record_between_the_knots_is_below_the_laws(steps, rows):
    """Detects a curve that is above the one of records at knots, and not above that of all others."""
    scale, cells = 4.0, CellStructure((), tuple((a, len(k) + 1) for a, k in steps), steps)
    design = PureStrategy(cells, (MeasuredMargin((), np.array(rows)),), scale)
    domain = fn.Domain({a: fn.Amount(0, sum(k), ceilings=np.cumsum(k)[:-1].tolist()) for a, k in steps})
    laws = design.laws(Adjacency())
    joint = Curve((ReleasedCharge(tables=(tuple(map(tuple, laws)),)),))
    assert {sum(n for _, n in law) for law in laws} == {len(rows)}  # also those that do not move at the knot
    for record in itertools.product(*(range(sum(k) + 1) for _, k in steps)):
        moves = answer_changes(design, domain, [record])
        for epsilon in np.linspace(0, float(design.loss(Adjacency()).epsilon), 9):
            assert exact_delta([int(x) for x in moves if x], scale, epsilon) * (1 - 1e-9) <= joint.delta(epsilon)
    rounding = Fraction(len(rows), 64)
    assert max(sum(e * n for e, n in law) for law in laws) <= design.loss(Adjacency()).epsilon + rounding


def test_between_two_knots_no_delta_exceeds_that_of_the_costlier_one(rng):
    """The law holds for discrete noise itself, not only for its bound: many ε, numbers that rise, fall and pass 0."""
    for _ in range(150):
        low, rise, steps = rng.integers(-6, 9, 3), rng.integers(-4, 5, 3), int(rng.integers(2, 5))
        values = [np.abs(low + j * rise) for j in range(steps + 1)]
        for epsilon in rng.uniform(-1, 4, 3):
            deltas = [exact_delta(x[x > 0].tolist(), 4.0, epsilon) for x in values]
            assert max(deltas) <= max(deltas[0], deltas[-1]) * (1 + 1e-9) + 1e-12


def test_both_ends_of_a_range_are_stated_as_one_number_that_moves():
    """Noise on each of them costs the same as noise on one count, except in cells that change nothing."""
    cells = CellStructure((("a", 3),), (("p", 3),), (("p", (5,)),))
    design = PureStrategy(cells, (MeasuredMargin((0,), np.array([[5, 0, 0], [0, 5, 0], [0, 0, 5], [2, 2, 0]])),), 8.0)
    rounding = Fraction(1, 256)
    laws = [(rounding, 2), (Fraction(2, 8) + rounding, 1), (Fraction(5, 8) + rounding, 1)]
    assert design.laws(Adjacency()) == [laws]
    assert PureStrategy(replace(cells, steps=()), design.measured, 8.0).laws(Adjacency()) == [laws[1:]]


def test_questions_with_finitely_many_answers_are_of_other_attributes():
    for where, good in (({"sex": ["f"]}, True), ({"pay": ["none"]}, False)):
        answer = AnswerDesign(
            fn.FiniteQuery.count("q", people=3, epsilon=1, where=where).in_domain(DOMAIN), DOMAIN.axes, None
        )
        with contextlib.nullcontext() if good else refused("plan.question-about-amount"):
            answer.check(DOMAIN.sizes, DOMAIN.steps)
    with refused("plan.made-for-another-domain"):
        answer.check(DOMAIN.sizes, {})


def order(design, domain, **options):
    return Order(domain.axes, DataSource(), PrivacyUnit(), (design,), "0" * 64, "fit-for-use", **options)


def test_patterns_in_amounts_have_no_price(rng):
    design, domain = random_design(rng, (4,))
    order(design, domain)
    for pattern in (Pattern(once_per=("p0",)), Pattern(per_value=(("p0", 1),)), Pattern(fixed=("p0",))):
        with refused("plan.pattern-with-amount"):
            order(design, domain, units=(PrivacyUnit("person", 2, Neighbours.ADD_OR_REMOVE_ONE, None, *pattern),))


@pytest.mark.parametrize("steps", [(4,), ((3, 1),), (2, 2)])
@pytest.mark.parametrize(("declared", "limit"), [(2**62, 2**60 - 1), (2**40, 2**40), (5, 5)])
def test_more_records_than_are_declared_are_refused_where_amounts_are_summed(rng, steps, declared, limit):
    """In 4 steps, sums of 2⁶⁰ records wrap, for any declared bound; the other attributes do not matter."""
    design, domain = random_design(rng, steps)
    bounded = replace(order(design, domain), source=DataSource(max_records=declared))
    assert bounded.max_records() == limit

    class Many(CodeCounter):
        def count(self, margins, progress=None):
            counts = {m: np.zeros(tuple(self.domain[a].size for a in m), dtype=np.int64) for m in margins}
            for x in counts.values():
                x.flat[0] = self.records
            return counts

    with fn.Ledger(":memory:") as ledger:
        with refused("data.more-records-than-counted") as caught:
            measuring.measure(bounded, Many(domain, limit + 1), ledger)
        assert not ledger.entries()
        measuring.measure(bounded, Many(domain, limit), ledger, noise=Replay())
    assert f"{limit + 1:,}" not in str(caught.value)
    leaks_nothing(caught.value)


@pytest.mark.parametrize(("steps", "times", "limit"), [(2**30, 1, 2**32 - 1), (2**30, 2, 2**31 - 1), (2**20, 1, 2**40)])
def test_how_many_records_are_summed_exactly_is_decided_while_planning(rng, steps, times, limit):
    """The steps and the public bound decide it alone; a stated bound that fits is enough for any steps."""
    design, domain = random_design(rng, (steps,))
    plan_order = order(design, domain)
    if limit >= ENOUGH:
        assert plan_order.max_records(times) == limit
    else:
        with refused("plan.too-many-records-for-amounts"):
            plan_order.max_records(times)
    stated = replace(plan_order, source=DataSource(max_records=2**20))
    assert stated.max_records(times) == 2**20


def test_a_plan_of_products_needs_a_public_bound_that_fits():
    domain = fn.Domain(pay=fn.Amount(0, 2**20), weight=fn.Amount(0, 2**15))
    table, limit = fn.table(sum=["pay", "weight"], variance=2**70), 2**27 - 1
    with refused("plan.too-many-records-for-amounts"):
        planned(domain, table)
    assert planned(domain, table, source=DataSource(max_records=limit)).order.max_records() == limit


def test_sums_of_products_of_amounts_are_refused_while_planning_unless_few_records_are_declared(rng):
    design, domain = random_design(rng, (2**20, 2**20))
    few = (2**62 - 1) // 2**40
    with refused("plan.too-many-records-for-amounts"):
        order(design, domain)
    bounded = Order(domain.axes, DataSource(max_records=few), PrivacyUnit(), (design,), "0" * 64, "fit-for-use")
    assert bounded.max_records() == few
    with refused("plan.too-many-records-for-amounts"):
        replace(bounded, source=DataSource(max_records=few + 1))


# --- plans ----------------------------------------------------------------------------------------------------------


def planned(domain, *tables, gap=1e-6, **options):
    return fn.plan(fn.Publication(fn.Workload(domain, tables), **options), gap=gap)


STATES = {"state": fn.Categorical(range(51)), "sex": fn.Categorical([1, 2])}


@pytest.mark.parametrize(("kappa", "rho"), [(5, 0.076829), (25, 0.0030732), (50, 0.0010244), (100, 0.00081951)])
def test_counts_and_sums_in_one_plan_cost_what_was_computed_for_them(kappa, rho):
    domain = fn.Domain(**STATES, pay=fn.Amount(0, 200_000, step=100))
    plan = planned(
        domain,
        fn.table("state", "sex", margin=50),
        fn.table("state", "sex", sum="pay", margin=kappa * 200_000),
    )
    assert float(plan.rho) == pytest.approx(rho, rel=1e-4)
    assert plan.gap <= 1e-6
    (amount,) = document(plan_report(plan))["amounts"]
    assert amount["largest"] == 200_000
    assert amount["asked_kappa"] == pytest.approx(kappa)
    assert amount["achieved_kappa"] == pytest.approx(kappa, rel=1e-4)


@pytest.mark.parametrize(("low", "cost"), [(-1, 2), (-0.5, 1.6), (0, 4 / 3), (0.5, 1.142857)])
def test_the_range_decides_the_cost_of_a_sum_next_to_a_count(low, cost):
    domain = fn.Domain(pay=fn.Amount(low, 1, step=0.25))
    plan = planned(domain, fn.table(variance=1), fn.table(sum="pay", variance=1))
    assert float(plan.table_part.exact_cost) == pytest.approx(cost, rel=1e-5)


@pytest.mark.parametrize(("count", "total"), [(1, 4), (1, 0.5), (1, 0.25), (4, 1)])
def test_one_amount_from_zero_costs_as_in_closed_form(count, total):
    domain = fn.Domain(pay=fn.Amount(0, 64))
    plan = planned(domain, fn.table(variance=count), fn.table(sum="pay", variance=total * 64**2))
    closed = 1 / total if count >= 2 * total else 4 * total / (count * (4 * total - count))
    assert float(plan.table_part.exact_cost) == pytest.approx(closed, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 2**24, 2**30])
def test_many_steps_leave_the_gap_small(steps):
    plan = planned(fn.Domain(pay=fn.Amount(0, steps)), fn.table(variance=1), fn.table(sum="pay", variance=steps**2))
    assert plan.gap <= 1e-6
    (group,) = plan.groups[0].strategy.groups
    assert group.basis.tolist() == [[1, 1], [-steps, steps]]


@pytest.mark.parametrize(("amounts", "cost"), [(2, 5 / 3), (4, 7 / 3), (8, 11 / 3)])
def test_several_amounts_share_what_they_cost(amounts, cost):
    domain = fn.Domain({f"p{i}": fn.Amount(0, 10 * (i + 1)) for i in range(amounts)})
    tables = [fn.table(sum=f"p{i}", variance=100 * (i + 1) ** 2) for i in range(amounts)]
    plan = planned(domain, fn.table(variance=1), *tables, gap=None)
    assert float(plan.table_part.exact_cost) == pytest.approx(cost, rel=1e-4)
    assert {len(m) for m in plan.groups[0].design.margins()} <= {0, 1}  # no joint cells of amounts are counted


def test_errors_about_too_many_amounts_name_a_remedy_that_works():
    """No table shows an amount value by value, so the advice for other attributes does not apply."""
    domain = fn.Domain({f"p{i}": fn.Amount(0, 10) for i in range(15)})
    tables = [fn.table(sum=name, margin=5) for name in domain]
    with refused("workload.too-many-joint-cells"):
        planned(domain, *tables)
    with refused("workload.too-many-cells-for-laplace"):
        planned_pure(domain, *tables[:13])
    head, *others = (fn.Workload(domain, tables[i : i + 5]) for i in (0, 5, 10))
    plan = fn.plan(fn.Publication(head, further_tables=[fn.Publication(w) for w in others]))
    assert len(plan.groups) == 3


def test_a_weighted_sum_is_a_product_and_costs_less_than_a_new_amount():
    domain = fn.Domain(weight=fn.Amount(0, 50), pay=fn.Amount(0, 20))
    three = [
        fn.table(variance=1),
        fn.table(sum="weight", variance=2500),
        fn.table(sum=["weight", "pay"], variance=10**6),
    ]
    plan = planned(domain, *three)
    assert float(plan.table_part.exact_cost) == pytest.approx(1.5705, abs=1e-4)
    assert ("weight", "pay") in plan.groups[0].design.margins()


def test_counts_of_those_with_an_amount_next_to_all_and_their_sum():
    pay = fn.Amount(0, 20, missing={"unknown": [-9]}, if_missing="unknown")
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=pay)
    both = [fn.table("sex", variance=1), fn.table("sex", sum="pay", variance=400)]
    assert float(planned(domain, *both).table_part.exact_cost) == pytest.approx(4 / 3, abs=1e-4)
    with_counts = [*both, fn.table("sex", count="pay", variance=1)]
    assert float(planned(domain, *with_counts).table_part.exact_cost) == pytest.approx(1.5705, abs=1e-4)


def test_those_with_an_amount_are_counted(without_noise):
    pay = fn.Amount(0, 20, missing={"unknown": [-9]}, if_missing="unknown")
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=pay)
    plan = planned(domain, fn.table("sex", variance=1), fn.table("sex", count="pay", variance=1))
    people = pd.DataFrame({"sex": [*"ffmmmm"], "pay": [3, -9, 20, 700, None, 0]})
    release = released(plan, people)
    assert release["sex by pay count"]["value"].tolist() == pytest.approx([1, 3], abs=1e-9)
    assert release["sex"]["value"].tolist() == pytest.approx([2, 4], abs=1e-9)
    assert set(release["sex by pay count"]["pay"]) == {"count"}
    assert TableSpec.document_of(plan.publication.workload["sex by pay count"])["count"] == ["pay"]
    assert release.sum("sex by pay count").value == pytest.approx(4, abs=1e-9)
    laid = layout(release, "sex by pay count")
    assert [h.view for h in (*laid.stubs, laid.across)] == [EACH, NonMissing()]


def test_the_mean_of_so_many_records_costs_what_both_ends_do():
    domain = fn.Domain(pay=fn.Amount(1000, 5000, step=10))
    z = 1.959963984540054
    plan = planned(domain, fn.table(mean="pay", margin=50, reference=2000))
    assert float(plan.table_part.exact_cost) == pytest.approx((z * 4000 / (50 * 2000)) ** 2, rel=1e-5)
    (summary,) = plan.summaries
    assert english(summary.target) == "±50"
    assert summary.achieved_moe == pytest.approx(50, rel=1e-6)
    count = fn.table(margin=math.sqrt(2) * 50 * 2000 / 4000)
    both = planned(domain, fn.table(mean="pay", margin=50, reference=2000), count)
    assert float(both.table_part.exact_cost) == pytest.approx(float(plan.table_part.exact_cost), rel=1e-5)


@pytest.mark.parametrize("amounts", [1, 2, 4, 6])
def test_means_cost_less_than_twice_their_root(amounts):
    domain = fn.Domain({f"p{i}": fn.Amount(0, 10) for i in range(amounts)})
    means = [fn.table(mean=f"p{i}", margin=1.959963984540054, reference=10) for i in range(amounts)]
    assert float(planned(domain, *means).table_part.exact_cost) == pytest.approx(
        (1 + math.sqrt(amounts)) ** 2 / 4, rel=1e-5
    )


@pytest.mark.no_cover
@pytest.mark.parametrize(("kappa", "rho"), [(15, 0.002815), (60, 0.000135)])
def test_sums_next_to_the_demo_cost_a_third_and_a_quarter_of_separate_ones(kappa, rho):
    spec = fn.load_spec(data.path(data.DEMO))
    domain = fn.Domain({**spec.domain, "pay": fn.Amount(0, 200_000, step=100)})
    sums = fn.table("state", "status", sum="pay", margin=kappa * 200_000)
    base, both = (planned(domain, *spec.workload.tables, *added, gap=1e-5) for added in ((), (sums,)))
    assert float(both.rho - base.rho) == pytest.approx(rho, abs=2e-6)
    assert float(both.rho - base.rho) < (1.959963984540054 / kappa) ** 2 / 2 / 3 * 1.02


@pytest.mark.parametrize(("cells", "rows", "increase"), [(1, False, 0.00026), (5, False, 0.00026), (5, True, 0.00030)])
def test_cells_for_missing_ages_cost_the_demo_next_to_nothing(cells, rows, increase):
    spec = fn.load_spec(data.path(data.DEMO))
    age = fn.Ordered(0, 85, missing={f"m{i}": [1000 + i] for i in range(cells)})
    tables = [
        replace(t, views=tuple((a, replace(view, missing=True)) for a, view in t.views)) if rows else t
        for t in spec.workload.tables
    ]
    plan = planned(fn.Domain({**spec.domain, "age": age}), *tables, gap=1e-5)
    assert float(plan.rho) / 0.0356209 - 1 == pytest.approx(increase, abs=5e-5)


def test_ranges_by_class_are_prepared_and_cost_as_one_class_does():
    """And one range for all of them as much as the largest asks of the smallest."""
    size = fn.Categorical(["small", "middle", "large", "huge"])
    by_class = planned(fn.Domain(size=size, part=fn.Amount(0, 1, step=0.001)), fn.table("size", sum="part", variance=1))
    assert float(by_class.table_part.exact_cost) == pytest.approx(1, rel=1e-5)
    targets = fn.ByAttribute("size", [1, 100, 10_000, 10**6])
    one = planned(fn.Domain(size=size, turnover=fn.Amount(0, 1000)), fn.table("size", sum="turnover", variance=targets))
    assert float(one.table_part.exact_cost) == pytest.approx(10**6, rel=1e-5)


def up_to(tops, margin=1):
    """An amount with these ceilings, and its sums up to each, as accurate in records at the ceiling."""
    amount = fn.Amount(0, tops[-1], ceilings=tops[:-1])
    return amount, [fn.table(sum="pay", ceiling=t, variance=(margin * t) ** 2) for t in tops]


@pytest.mark.parametrize(
    ("tops", "sums_cost", "joint_cost"),
    [(3, 1.2591, 1.50899), (6, 1.5265, 1.71598), (7, 1.5991, 1.77537), (10, 1.7869, 1.93385)],
)
def test_doubling_ceilings_cost_what_was_computed_for_them(tops, sums_cost, joint_cost):
    """Times one sum, without and with a count as accurate; several amounts of one column cost more (below)."""
    amount, sums = up_to([2**i for i in range(tops)])
    plans = [planned(fn.Domain(pay=amount), *counts, *sums) for counts in ((), (fn.table(variance=1),))]
    assert [float(x.table_part.exact_cost) for x in plans] == pytest.approx([sums_cost, joint_cost], abs=1e-4)
    assert max(x.gap for x in plans) <= 1e-6


def test_ceilings_that_no_table_asks_for_cost_nothing():
    tables = [fn.table(variance=1), fn.table(sum="pay", variance=64**2), fn.table(mean="pay", variance=1, reference=64)]
    without, with_tops = (planned(fn.Domain(pay=fn.Amount(0, 64, ceilings=t)), *tables) for t in ((), (7, 10)))
    assert float(with_tops.table_part.exact_cost) == pytest.approx(float(without.table_part.exact_cost), rel=1e-5)


@pytest.mark.parametrize("top", [2**24, 2**30])
def test_ceilings_of_many_steps_leave_the_gap_small(top):
    amount, sums = up_to([top // 4, top // 2, top])
    plan = planned(fn.Domain(pay=amount), fn.table(variance=1), *sums)
    assert plan.gap <= 1e-6
    assert float(plan.table_part.exact_cost) == pytest.approx(1.50899, abs=1e-4)


def test_steps_from_knot_to_knot_have_no_divisor_in_common():
    domain = fn.Domain(
        pay=fn.Amount(0, 2**30, ceilings=[2**29 - 1, 2**29 + 2**20 + 7]),
        more=fn.Amount(0, 2**30, ceilings=[2**29 - 1]),
    )
    assert planned(domain, fn.table(sum="pay", variance=2.0**60)).gap <= 1e-6
    with refused("workload.too-many-amount-steps"):
        planned(domain, fn.table(sum=["pay", "more"], variance=2.0**120))


def with_ceilings():
    """Sums up to ceilings with a count, a product and cells for missing values."""
    domain = fn.Domain(
        sex=fn.Categorical(["f", "m"]),
        hours=fn.Amount(0, 2, ceilings=[1]),
        pay=fn.Amount(-3, 6, ceilings=[-1, 2], missing={"none": [-9]}),
    )
    tables = [
        fn.table("sex", variance=8),
        fn.table("sex", sum="pay", ceiling=-1, variance=12),
        fn.table("sex", sum="pay", ceiling=2, variance=16),
        fn.table(sum=["hours", "pay"], variance=90),
    ]
    return fn.Workload(domain, tables)


def at_every_step(neighbours):
    """Return for these amounts each record in only one of two neighbouring databases, with its replacement."""
    records = [(z, w, j) for z in (0, 1) for w in range(3) for j in range(11)]
    if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
        return [([r], []) for r in records]
    few = [r for r in records if r[2] in {0, 1, 2, 4, 5, 9, 10}]
    return [([r], [s]) for r in few for s in records if r < s]


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_plans_with_ceilings_charge_the_costliest_step(neighbours):
    """Every j of the range, alone and replaced by every other, with a count, a product and cells for missing values."""
    workload = with_ceilings()
    public = fn.KnownTotals((), "Register", "these data") if neighbours is Neighbours.REPLACE_ONE else None
    plan = fn.plan(workload, unit=PrivacyUnit(neighbours=neighbours), gap=1e-3, public=public)
    design = plan.groups[0].design
    changes = [shift(design, workload.domain, added, fewer) for added, fewer in at_every_step(neighbours)]
    assert max(changes) == design.cost_squared(neighbours)
    assert 2 * plan.order.loss.rho >= max(changes)
    if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
        assert 2 * plan.order.loss.rho == max(changes)
    people = fn.plan(workload, unit=PrivacyUnit("person", 2, neighbours=neighbours), gap=1e-3)
    assert people.rho == pytest.approx(4 * plan.rho, rel=1e-2)


def test_prepared_columns_squares_and_products_cost_the_stated_amount():
    ceilings = fn.Domain({f"up to {x}": fn.Amount(0, x, column="pay") for x in (25, 50, 100)})
    sums = [fn.table(sum=f"up to {x}", variance=x**2) for x in (25, 50, 100)]
    assert float(planned(ceilings, *sums).table_part.exact_cost) == pytest.approx(1.8, rel=1e-5)
    count, pay = fn.table(variance=1), fn.table(sum="pay", variance=100**2)
    for other, high in (("square", 100**2), ("weighted", 5000)):
        domain = fn.Domain(pay=fn.Amount(0, 100), **{other: fn.Amount(0, high)})
        three = planned(domain, count, pay, fn.table(sum=other, variance=high**2))
        assert float(three.table_part.exact_cost) == pytest.approx(5 / 3, rel=1e-4)


def test_cells_for_missing_values_of_an_amount_add_no_cost():
    cells = fn.Amount(0, 8, missing={"a": ["A"], "b": ["B"]})
    tables = [fn.table(variance=1), fn.table(sum="pay", variance=64)]
    plan = planned(fn.Domain(pay=cells), *tables)
    assert float(plan.table_part.exact_cost) == pytest.approx(4 / 3, rel=1e-5)
    stated = [fn.table(groups={"pay": {"a": ["a"], "b": ["b"]}}, variance=1)]
    assert planned(fn.Domain(pay=cells), *tables, *stated).gap <= 1e-6


def test_integers_are_summed_without_ends():
    domain = fn.Domain(kids=fn.Ordered(0, 3, clip=True))
    plan = planned(domain, fn.table(sum="kids", variance=9))
    assert float(plan.table_part.exact_cost) == pytest.approx(1, rel=1e-5)
    with refused("workload.sum-always-zero"):
        fn.Workload(fn.Domain(kids=fn.Ordered(0, 0)), [fn.table(sum="kids", margin=1)])


@pytest.fixture(scope="module")
def plan():
    domain = fn.Domain(
        state=fn.Categorical(["a", "b", "c"]),
        age=fn.Ordered(0, 3),
        hours=fn.Amount(0, 60, step=0.5),
        pay=PAY,
    )
    tables = [
        fn.table("state", margin=20),
        fn.table("state", sum="pay", margin=5000),
        fn.table("state", sum="hours", margin=300),
        fn.table("state", mean="pay", margin=100, reference=200),
        fn.table(cumulative="age", sum="pay", margin=fn.ByAttribute("age", [5000, 5000, 5000, 9000])),
    ]
    return planned(domain, *tables)


def test_plans_of_amounts_keep_the_laws_of_plans(plan):
    check_price(plan)
    check_accuracy(plan)
    check_variances(plan)
    for part in plan.parts:
        check_part(part)
    parsed = fn.Plan.from_json(plan.to_json())
    assert parsed.hash == plan.hash
    assert parsed.rho == plan.rho
    assert parsed.groups[0].strategy.structure.steps == (("hours", (120,)), ("pay", (100,)))


def test_a_record_that_is_replaced_moves_no_more_than_is_charged():
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=fn.Amount(-4, 4))
    tables = [fn.table("sex", margin=9), fn.table("sex", sum="pay", margin=20)]
    unit, public = PrivacyUnit(neighbours=Neighbours.REPLACE_ONE), fn.KnownTotals((), "Register", "these data")
    plan = planned(domain, *tables, unit=unit, gap=1e-3, public=public)
    design = plan.groups[0].design
    codes = [(z, j) for z in (0, 1) for j in range(9)]
    changes = [shift(design, domain, [r], [s]) for r in codes for s in codes]
    assert max(changes) == design.cost_squared(Neighbours.REPLACE_ONE)


def test_the_remainder_of_an_amount_is_free_next_to_it():
    domain = fn.Domain(
        sex=fn.Categorical(["f", "m"]), pay=fn.Amount(0, 8, missing={"unknown": []}, if_missing="unknown")
    )
    plan = planned(domain, fn.table("sex", sum="pay", margin=100))
    free = fn.plan_free(fn.Workload(domain, [fn.table(groups={"pay": {"unknown": ["unknown"]}}, margin=10)]), plan)
    joint_loss = plan.order.loss + free.order.loss
    assert free.rho > 0
    assert joint_loss.rho == plan.order.loss.rho
    base_design, second = plan.groups[0].design, free.groups[0].design
    for record in itertools.product((0, 1), range(10)):
        assert shift(base_design, domain, [record]) + shift(second, domain, [record]) <= 2 * joint_loss.rho


# --- pure plans -----------------------------------------------------------------------------------------------------


def planned_pure(domain, *tables, **options):
    return fn.plan(fn.Publication(fn.Workload(domain, tables), privacy="pure", **options))


@pytest.mark.no_cover
@pytest.mark.parametrize("steps", [1, 2000, 2**30])
def test_pure_counts_and_sums_in_one_plan_cost_what_was_computed_for_them(steps):
    """51 × 2 of both, each with a standard error of 50, in records at the largest amount: noise on both ends."""
    domain = fn.Domain(**STATES, pay=fn.Amount(0, steps))
    count, total = fn.table("state", "sex", std_error=50), fn.table("state", "sex", sum="pay", std_error=50 * steps)
    joint = planned_pure(domain, count, total)
    separate = sum(float(planned_pure(domain, t).loss.epsilon) for t in (count, total))
    assert float(joint.loss.epsilon) == pytest.approx(0.04, rel=1e-4)
    assert separate == pytest.approx(0.05657, rel=1e-4)
    assert separate / float(joint.loss.epsilon) == pytest.approx(2**0.5, rel=1e-4)
    assert joint.table_part.relaxation <= 1 + 1e-9
    assert [m.attributes for m in joint.table_part.strategy.measured] == [(0, 1)]


def test_a_pure_mean_costs_what_both_ends_do():
    domain = fn.Domain(pay=fn.Amount(1000, 5000, step=10))
    mean = fn.table(mean="pay", variance=25, reference=800)  # either end to a standard error of 5 · 800/4000
    plan = planned_pure(domain, mean)
    assert float(plan.loss.epsilon) == pytest.approx(2**0.5, rel=1e-4)
    with_count = planned_pure(domain, mean, fn.table(variance=2))
    assert float(with_count.loss.epsilon) == pytest.approx(float(plan.loss.epsilon), rel=1e-4)


@pytest.mark.parametrize(("amounts", "cost"), [(2, 2 * 2**0.5), (3, 3 * (4 / 3) ** 0.5), (4, 20**0.5)])
def test_several_amounts_of_many_steps_are_measured_singly_with_their_rests(amounts, cost):
    """Products of steps leave no bits for joint cells. Planned separately, they cost (m + 1) √2."""
    domain = fn.Domain({f"p{i}": fn.Amount(0, 10**6) for i in range(amounts)})
    tables = [fn.table(sum=f"p{i}", variance=1e12) for i in range(amounts)]
    plan = planned_pure(domain, fn.table(variance=1), *tables)
    assert float(plan.loss.epsilon) == pytest.approx(cost, rel=1e-4)
    assert "family_request_sums" in status_of(plan)
    assert {len(m) for m in plan.table_part.design.margins()} <= {0, 1}  # no joint cells of amounts are counted


@pytest.mark.no_cover
def test_pure_amounts_of_few_steps_are_planned_as_their_ends_are():
    """Detects integers so coarse that they add cost: with one step, any integer is one between the ends too."""
    epsilons = []
    for steps in (1, 1000):
        domain = fn.Domain(state=fn.Categorical(range(4)), x=fn.Amount(0, steps), y=fn.Amount(0, steps))
        tables = [
            fn.table("state", variance=1),
            fn.table("state", sum="x", variance=2 * steps**2),
            fn.table(sum=["x", "y"], variance=3 * steps**4),
        ]
        epsilons.append(float(planned_pure(domain, *tables).loss.epsilon))
    assert epsilons[1] == pytest.approx(epsilons[0], rel=1e-3)


def test_products_of_too_many_steps_are_refused_with_what_to_do():
    domain = fn.Domain(x=fn.Amount(0, 2**20), y=fn.Amount(0, 2**20))
    with refused("workload.too-many-answers-for-laplace"):
        planned_pure(domain, fn.table(sum=["x", "y"], variance=2.0**80))


@pytest.mark.parametrize("options", [{"budget": fn.Budget(epsilon=1e-6)}, {"unit": PrivacyUnit("person", 1000)}])
def test_small_costs_leave_fewer_bits_and_the_noise_can_be_drawn(options):
    """The largest scale there is would not do for all the bits that steps take."""
    domain = fn.Domain(state=fn.Categorical(range(5)), pay=fn.Amount(0, 2**20))
    plan = planned_pure(
        domain, fn.table("state", margin=10**6), fn.table("state", sum="pay", margin=2.0**40), **options
    )
    check_price(plan)
    assert plan.table_part.strategy.scale <= MAX_NOISE_SCALE
    assert plan.table_part.ratio < 2


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_pure_plans_charge_the_costliest_step(neighbours):
    """Every j of the range, alone and replaced by every other, with a count, a product and cells for missing values."""
    workload = with_ceilings()
    plan = planned_quickly(workload, unit=PrivacyUnit(neighbours=neighbours))
    design, rate = plan.table_part.design, plan.table_part.design.rate
    changes = [answer_changes(design, workload.domain, added, fewer) for added, fewer in at_every_step(neighbours)]
    assert max(sum(x) for x in changes) * rate == plan.loss.epsilon == plan.order.loss.epsilon
    assert max(sum(x**2) for x in changes) * rate**2 <= 2 * plan.order.loss.rho
    people = planned_quickly(workload, unit=PrivacyUnit("person", 2, neighbours=neighbours))
    assert float(people.loss.epsilon) == pytest.approx(2 * float(plan.loss.epsilon), rel=1e-2)


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", ["add or remove", "add or remove 2", "replace", "replace, dropped"])
def test_pure_plans_of_amounts_obey_the_law_of_designs(neighbours, rng):
    """Databases of a record more, or another, at every step, replayed: ε, and ρ by cell, are what they differ by."""
    domain = fn.Domain(
        sex=fn.Categorical(["f", "m"]), hours=fn.Amount(0, 2), pay=fn.Amount(-2, 1, ceilings=[-1], missing={"?": [-9]})
    )
    tables = [
        fn.table("sex", variance=8),
        fn.table("sex", sum="pay", variance=16),
        fn.table(sum="pay", ceiling=-1, variance=12),
        fn.table(sum=["hours", "pay"], variance=20),
    ]
    design = planned_quickly(fn.Workload(domain, tables)).table_part.design
    check_design(design, zoo.ADJACENCIES[neighbours], rng)


def test_kinds_of_noise_are_compared_for_amounts_as_for_counts():
    domain = fn.Domain(state=fn.Categorical(range(5)), pay=fn.Amount(0, 2000), hours=fn.Amount(0, 60))
    tables = [fn.table("state", margin=20), fn.table("state", sum="pay", margin=30_000)]
    comparison = fn.compare(fn.Workload(domain, tables), all_families=True)
    assert {a.privacy for a in comparison.alternatives} == {fn.Privacy.PURE, fn.Privacy.ZCDP}
    assert comparison.plan.publication.privacy is fn.Privacy.PURE
    assert fn.plan(fn.Workload(domain, tables), privacy="auto").loss.epsilon == comparison.plan.loss.epsilon
    several = fn.compare(fn.Workload(domain, [*tables, fn.table("state", sum="hours", margin=900)]), all_families=True)
    pure_ones = {a.family for a in several.alternatives if a.privacy is fn.Privacy.PURE}
    assert {"every cell on its own", "cells and sums by margin", "cells and sums by request"} <= pure_ones


@pytest.mark.parametrize("row", [0, -1])
def test_pure_plans_that_are_not_integer_between_the_ends_are_not_read(pure_plan, row):
    document = json.loads(pure_plan.to_json())
    margin = document["tables"][0]["strategy"]["margins"][0]
    margin["rows"][row][1][0] += 1
    with refused("plan.amount-rows-not-whole"):
        fn.Plan.from_json(json.dumps(document))


@pytest.fixture(scope="module")
def pure_plan():
    domain = fn.Domain(state=fn.Categorical(["a", "b", "c"]), age=fn.Ordered(0, 3), pay=PAY)
    tables = [
        fn.table("state", margin=20),
        fn.table("state", sum="pay", margin=5000),
        fn.table("state", mean="pay", margin=100, reference=200),
        fn.table(cumulative="age", sum="pay", margin=fn.ByAttribute("age", [5000, 5000, 5000, 9000])),
    ]
    return planned_quickly(fn.Workload(domain, tables))


def test_pure_plans_of_amounts_keep_the_laws_of_plans(pure_plan):
    check_price(pure_plan)
    check_accuracy(pure_plan)
    check_variances(pure_plan)
    check_part(pure_plan.table_part)
    parsed = fn.Plan.from_json(pure_plan.to_json())
    assert (parsed.hash, parsed.loss.epsilon) == (pure_plan.hash, pure_plan.loss.epsilon)
    assert parsed.table_part.strategy.structure.steps == (("pay", (100,)),)
    for summary in pure_plan.summaries:
        assert summary.achieved_moe <= summary.target_moe * (1 + 1e-9)
    amounts = {x["table"]: x for x in document(plan_report(pure_plan))["amounts"]}
    assert amounts["state by pay sum"]["asked_kappa"] == pytest.approx(5)


@pytest.mark.no_cover
def test_without_noise_a_pure_release_says_the_truth_and_charges_its_epsilon(pure_plan, people, monkeypatch, tmp_path):
    monkeypatch.setattr(noise, "discrete_laplaces", Replay().discrete_laplaces)
    release = fn.release(pure_plan, people, ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "out")
    true = truth(people)
    by_state = true.groupby("state")
    np.testing.assert_allclose(release.total("pay", by="state").value, by_state["pay"].sum(), rtol=1e-9)
    np.testing.assert_allclose(release.mean("pay", by="state").value, by_state["pay"].mean(), rtol=1e-9)
    np.testing.assert_allclose(release.count(by="state").value, by_state.size(), rtol=1e-9)
    cumulated = true.groupby("age")["pay"].sum().cumsum()
    np.testing.assert_allclose(release["age cumulative by pay sum"]["value"], cumulated, rtol=1e-9)
    assert fn.verify(tmp_path / "out").ok
    assert fn.Release.read(tmp_path / "out") == release
    with fn.Ledger(tmp_path / "ledger.sqlite") as book:
        entry, _ = book.entries()
        assert entry.epsilon == pure_plan.loss.epsilon
        charge = ReleasedCharge.from_entry(entry, entry.account)
        assert charge.tables == (tuple(tuple(law) for law in pure_plan.table_part.design.laws(Adjacency())),)


@pytest.mark.no_cover
@pytest.mark.parametrize("table_releases", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_intervals_of_pure_sums_and_means_hold_as_often_as_they_say(pure_plan, people, table_releases, monkeypatch):
    """Independent releases with the real sampler: sums hold at the stated rate, means at least at that rate.

    Each test has significance 1e-6. With 20,000 releases it detects coverage of 95 % intervals of sums below 0.94.
    Intervals of means take longer: 8 releases detect that most do not hold, and 50 detect coverage below 0.75.
    """
    sampler = SimpleNamespace(discrete_laplaces=noise.discrete_laplaces)
    monkeypatch.setattr(noise, "discrete_laplaces", Replay().discrete_laplaces)
    measured_release, scale = released(pure_plan, people), pure_plan.table_part.strategy.scale

    def with_noise(source):
        sizes = np.array(pure_plan.table_part.strategy.lengths)
        draws = source.discrete_laplaces(np.full(len(sizes), scale), sizes)
        parts = np.split(draws, np.cumsum(sizes)[:-1])
        return fn.Release(pure_plan, [y + x for y, x in zip(measured_release.answers, parts, strict=True)])

    by_state, inside = truth(people).groupby("state")["pay"], []
    values = of_many_releases(lambda source: with_noise(source).total("pay", by="state").value, 20_000, sampler)
    width = measured_release.total("pay", by="state").moe()
    assert as_often_as(np.abs(values - by_state.sum().to_numpy()) <= width, 0.95, slack=1e-3)
    for _ in range(table_releases):
        low, high = with_noise(sampler).mean("pay", by="state").interval()
        inside.append((low <= by_state.mean().to_numpy()) & (by_state.mean().to_numpy() <= high))
    assert (stats.binom.cdf(np.sum(inside, axis=0), table_releases, 0.95) > SIGNIFICANCE).all()


# --- releases -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(7)
    n = 4000
    pay = np.round(rng.lognormal(5.5, 1, n), 2).astype(object)
    pay[:200], pay[200:300] = -9, None
    return pd.DataFrame(
        {
            "state": rng.choice(["a", "b", "c"], n),
            "age": rng.integers(0, 4, n),
            "hours": rng.uniform(0, 70, n),
            "pay": pd.Series(pay, dtype="float64"),
        }
    )


def truth(people):
    pay = people["pay"].clip(0, 1000)
    stated = people["pay"].notna() & (people["pay"] != -9)
    return people.assign(
        pay=(np.floor(pay / 10 + 0.5) * 10).where(stated),
        hours=np.floor(people["hours"].clip(0, 60) / 0.5 + 0.5) * 0.5,
        stated=stated,
    )


def test_without_noise_a_release_says_the_truth_in_steps(plan, people, without_noise):
    release, true = released(plan, people), truth(people)
    by_state = true.groupby("state")
    for name in ("pay", "hours"):
        frame = release[f"state by {name} sum"]
        assert list(frame[name]) == ["sum"] * 3
        np.testing.assert_allclose(frame["value"], by_state[name].sum(), rtol=1e-9)
        for total in (release.total(name, by="state"), expressions.ask(f"sum('{name}')", release, by=("state",))):
            np.testing.assert_allclose(total.value, by_state[name].sum(), rtol=1e-9)
    np.testing.assert_allclose(release.mean("pay", by="state").value, by_state["pay"].mean(), rtol=1e-9)
    np.testing.assert_allclose(release.mean("hours", by="state").value, by_state["hours"].mean(), rtol=1e-9)
    rate = release.total("pay", by="state") / release.total("hours", by="state")
    np.testing.assert_allclose(rate.value, by_state["pay"].sum() / by_state["hours"].sum(), rtol=1e-9)
    assert release.total("pay").value == pytest.approx(true["pay"].sum(), rel=1e-9)
    young = true[true["age"] <= 1]
    assert release.total("pay", age=(0, 1)).value == pytest.approx(young["pay"].sum(), rel=1e-9)
    np.testing.assert_allclose(
        release["age cumulative by pay sum"]["value"], true.groupby("age")["pay"].sum().cumsum(), rtol=1e-9
    )
    np.testing.assert_allclose(release["state by pay mean"]["value"], by_state["pay"].mean(), rtol=1e-9)
    ends = release.counts_at_ends("state by pay mean")
    assert list(ends["pay"][:2]) == [0, 1000]
    assert ends["value"][:2].sum() == pytest.approx(by_state["stated"].sum()["a"])


@pytest.mark.no_cover
def test_sums_up_to_each_ceiling_are_released_and_no_others(people, without_noise, tmp_path, capsys):
    """Also their means by the counts of who has pay; and files, reports and the command line say where it was cut."""
    domain = fn.Domain(state=fn.Categorical(["a", "b", "c"]), pay=replace(TOPS, missing=PAY.missing))
    tables = [
        fn.table("state", sum="pay", ceiling=200, margin=900),
        fn.table("state", sum="pay", margin=5000),
        fn.table("state", mean="pay", margin=100, reference=200),
    ]
    plan = planned(domain, *tables)
    release = fn.release(plan, people, ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "out")
    pay = truth(people)["pay"]
    for t in (200, 1000, None):
        true = pay.clip(upper=1000 if t is None else t).groupby(people["state"])
        mean = release.mean("pay", by="state", ceiling=t)
        total = release.total("pay", by="state", ceiling=t)
        np.testing.assert_allclose(total.value, true.sum(), rtol=1e-9)
        np.testing.assert_allclose(mean.value, true.mean(), rtol=1e-9)
        assert f"above {t or 1000} as {t or 1000}" in mean.universe
        assert mean.universe == total.universe == total["a"].universe.replace("records with state a", "all records")
    name = "state by pay sum up to 200"
    assert list(release[name]["pay"]) == ["sum up to 200"] * 3
    np.testing.assert_allclose(release[name]["value"], pay.clip(upper=200).groupby(people["state"]).sum(), rtol=1e-9)
    content = json.loads((tmp_path / "out" / "release.json").read_text())["tables"]
    cut = "below 0 as 0, above {0} as {0}; in steps of 10; codes of missing values are read as such"
    cuts = ["; ".join(in_words(t["coded"]["pay"])) for t in content]
    assert cuts == [cut.format(t) for t in (200, 1000, 1000)]
    assert fn.verify(tmp_path / "out").ok
    by_command("ask", str(tmp_path / "out"), 'total("pay", ceiling=200) / total("pay")')
    output = capsys.readouterr().out
    assert re.search(rf"{pay.clip(upper=200).sum() / pay.sum():.3f}", output)
    who = "all records but those with pay none, unknown"
    assert f"records    {who} (pay: {cut.format(200)}), over {who} (pay: {cut.format(1000)})\n" in output
    part = release.total("pay", state="a") / release.total("pay")
    assert part.universe == f"records with state a{who[11:]}, over {who} (pay: {cut.format(1000)})"
    ratio = release.total("pay") / (release.total("pay") + release.total("pay", state="a"))
    assert ratio.universe == f"{who} (pay: {cut.format(1000)}), over what was computed of several counts"
    page = layout(release, name)
    assert (page.summed, page.averaged) == (("min(pay, 200)",), None)
    text = fn.report(release, tmp_path / "page.html").read_text("utf-8")
    assert "Estimated sums: min(pay, 200). The margin of error of each number is ±" in text
    (content,) = [x for x in document(plan_report(plan))["amounts"] if x["table"] == name]
    assert (content["largest"], content["asked_kappa"]) == (200, pytest.approx(4.5))
    for ask, why in (
        (lambda: release.total("pay", ceiling=500), "release.rows-do-not-add-up"),
        (lambda: release.total("pay", ceiling=300), "release.unknown-ceiling"),
        (lambda: release.total(["pay", "pay"], ceiling=200), "release.wrong-attributes-of-sum"),
        (lambda: release.mean("state", ceiling=200), "release.attribute-not-numeric"),
    ):
        with refused(why):
            ask()


def test_ceilings_are_of_one_amount(without_noise):
    domain = fn.Domain(n=fn.Ordered(0, 3), pay=fn.Amount(0, 9, ceilings=[3]), hours=fn.Amount(0, 4))
    for request, why in (
        (lambda: fn.table(sum=["pay", "hours"], ceiling=3, margin=1), "workload.ceiling-needs-one-sum"),
        (lambda: fn.table(mean="pay", ceiling=3, margin=1, reference=5), "workload.ceiling-needs-one-sum"),
        (lambda: fn.table("n", ceiling=3, margin=1), "workload.ceiling-needs-one-sum"),
        (lambda: fn.table(sum="pay", ceiling=math.inf, margin=1), "workload.ceiling-not-finite"),
        (lambda: fn.table(sum="pay", ceiling="3", margin=1), "workload.ceiling-not-finite"),
        (lambda: fn.table(sum="pay", ceiling=4, margin=1), "domain.ceiling-not-declared"),
        (lambda: fn.table(sum="pay", ceiling=0, margin=1), "domain.ceiling-not-declared"),
        (lambda: fn.table(sum="n", ceiling=2, margin=1), "workload.ceiling-needs-amount"),
    ):
        with refused(why):
            fn.Workload(domain, [request()])
    release = released(
        planned(domain, fn.table(sum=["pay", "hours"], margin=9), fn.table("n", margin=9)),
        pd.DataFrame({"n": [1, 3], "pay": [2, 12], "hours": [3, 1]}),
    )
    assert release.total(["pay", "hours"]).value == pytest.approx(15)
    with refused("release.ceiling-of-product"):
        release.total(["pay", "hours"], ceiling=3)
    with refused("release.ceiling-without-amount"):
        release.total("n", ceiling=3)


def test_products_are_requested_by_both_names(without_noise):
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), weight=fn.Amount(1, 5, step=0.5), pay=PAY)
    tables = [fn.table("sex", sum=["weight", "pay"], margin=9), fn.table("sex", sum="weight", margin=9)]
    rng, sexes = np.random.default_rng(3), ["f", "m"]
    pay = pd.Series(rng.integers(0, 110, 300) * 10.0).mask(np.arange(300) < 20)
    records = pd.DataFrame({"sex": rng.choice(sexes, 300), "weight": rng.integers(1, 12, 300) / 2, "pay": pay})
    release, weight = released(planned(domain, *tables), records), records["weight"].clip(1, 5)
    product = (weight * records["pay"].clip(0, 1000)).groupby(records["sex"]).sum()
    product_sum = release.total(["pay", "weight"], by="sex")
    np.testing.assert_allclose(product_sum.value, product, rtol=1e-9)
    cut = f"(pay: {coded(PAY)}; weight: {coded(domain['weight'])})"
    assert product_sum.universe == f"all records but those with pay none, unknown {cut}"
    weighted = expressions.ask('total(["weight", "pay"], sex="m") / total("weight", sex="m")', release)
    assert weighted.value == pytest.approx(product["m"] / weight[records["sex"] == "m"].sum(), rel=1e-9)
    with refused("release.rows-do-not-add-up"):  # the weight of those with pay is not reported
        release.total("weight", having="pay")
    for wrong in (["pay", "pay"], [], ["pay", "sex"]):
        with refused("release.attribute-not-numeric", "release.wrong-attributes-of-sum"):
            release.total(wrong)


def test_those_with_a_value_are_counted_by_its_name(without_noise):
    """Detects a weighted mean over the weights of those, too, who have no pay."""
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), weight=fn.Amount(0, 5, step=0.5), pay=PAY)
    records = {"sex": ["f", "f", "f", "m"], "weight": [1, 2, 4, 3], "pay": [100.0, 300.0, None, 500.0]}
    tables = [fn.table("sex", sum=["weight", "pay"], margin=9), fn.table("sex", sum="weight", count="pay", margin=9)]
    tables += [fn.table("sex", sum="weight", margin=9), fn.table("sex", count="pay", margin=9)]
    release = released(planned(domain, *tables, fn.table("sex", margin=9)), pd.DataFrame(records))
    np.testing.assert_allclose(release.count(by="sex", having="pay").value, [2, 1], rtol=1e-9)
    np.testing.assert_allclose(release.total("weight", by="sex", having=["pay", "weight"]).value, [3, 3], rtol=1e-9)
    np.testing.assert_allclose(release.total("weight", by="sex").value, [7, 3], rtol=1e-9)
    assert release.count(having="pay").universe == "all records but those with pay none, unknown"
    assert release.count(having="sex").value == pytest.approx(release.count(having=()).value) == pytest.approx(4)
    question = 'total(["weight", "pay"], sex="f") / total("weight", sex="f", having="pay")'
    assert expressions.ask(question, release).value == pytest.approx((100 + 600) / 3)
    for wrong, why in (("x", "release.unknown-attribute"), (3, "release.attribute-not-named")):
        for ask in (release.count, partial(release.total, "weight")):
            with refused(why):
                ask(having=wrong)


@pytest.mark.parametrize(("releases", "min_coverage"), [(6, 0.7), pytest.param(200, 0.915, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("one_engine", "counted_once", "rehearsed_once")
def test_intervals_of_sums_and_means_hold(plan, people, releases, min_coverage):
    """Detects coverage of 95 % intervals below `min_coverage`, at 1e-6; each release's 9 numbers are correlated."""
    by_state = truth(people).groupby("state")
    sums, means = by_state[["pay", "hours"]].sum().to_numpy().T, by_state["pay"].mean().to_numpy()
    hits, squares = [], []
    for _ in range(releases):
        release = released(plan, people)
        for name, true in zip(("pay", "hours"), sums, strict=True):
            estimate = release.total(name, by="state")
            hits.append(np.abs(estimate.value - true) <= estimate.moe())
            squares.append(((estimate.value - true) / estimate.std_error) ** 2)
        low, high = release.mean("pay", by="state").interval()
        hits.append((low <= means) & (means <= high))
    assert np.mean(hits) > min_coverage
    assert abs(np.mean(squares) - 1) < 8 / math.sqrt(6 * releases)


def test_attributes_say_whether_a_range_cuts_numbers_off():
    """Not where `valid` is the range itself: numbers beyond are outside then."""
    capped, exact = fn.Amount(0, 1000, step=100, valid=(-5, 2000)), fn.Amount(0, 1000, step=100, valid=(0, 1000))
    by_class = fn.Amount(0, fn.ByAttribute("size", [1, 10]), step=1, valid=(0, 10))
    assert (capped.is_capped, exact.is_capped, by_class.is_capped, fn.Amount(0, 5).is_capped) == (
        True,
        False,
        True,
        True,
    )
    assert (coded(exact), coded(capped)) == ("in steps of 100", "below 0 as 0, above 1000 as 1000; in steps of 100")
    top = fn.Amount(0, 1000, step=100, valid=(0, 1000), ceilings=[500])
    stated = english(*rule_messages(top.coding_rules_up_to(500)))
    assert stated == "below 0 as 0, above 500 as 500; in steps of 100"
    assert [fn.Ordered(0, 9, clip=x).is_capped for x in (True, False)] == [True, False]
    assert not fn.Categorical(["a"]).is_capped


def test_files_say_what_was_cut_and_who_is_not_counted_and_are_verified(plan, people, tmp_path, capsys):
    fn.release(plan, people, ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "out")
    assert fn.verify(tmp_path / "out").ok
    tables = json.loads((tmp_path / "out" / "release.json").read_text())["tables"]
    assert "; ".join(in_words(tables[1]["coded"]["pay"])) == coded(PAY)
    assert tables[1]["not_counted"] == {"pay": ["none", "unknown"]}
    assert tables[1]["columns"] == {"pay": {"id": "report.column.sum"}}
    assert tables[3]["columns"] == {
        "pay": {"id": "report.column.mean"},
        "value": {"id": "report.column.mean_value", "attribute": "pay"},
        "low": {"id": "report.column.mean_low"},
        "high": {"id": "report.column.mean_high"},
    }
    by_command("tables", str(tmp_path / "out"))
    assert re.search(r"state by pay mean: margins hold for 200 records; for four", capsys.readouterr().out)
    by_command("tables", str(tmp_path / "out"), "state by pay mean")
    assert capsys.readouterr().out.startswith("state,value,low,high\n")
    by_command("ask", str(tmp_path / "out"), 'total("pay") / total("hours")', "--by", "state")
    output = capsys.readouterr().out
    assert re.search(r"^a +[0-9.]+ ", output, re.MULTILINE)
    top, bottom = (f"({name}: {coded(plan.publication.workload.domain[name])})" for name in ("pay", "hours"))
    assert f"records    all records but those with pay none, unknown {top}, over all records {bottom}\n" in output


def test_readers_are_shown_sums_as_sums_and_means_as_means(plan, people, tmp_path):
    """Detects numbers of the ends of a range, or of records, where a reader looks for means and sums."""
    release = released(plan, people)
    pages = layout(release, "state by pay sum", totals=True, bands=fn.Bands(0.1, 0.3))
    assert ([h.name for h in pages.stubs], pages.across, pages.summed) == (["state"], None, ("pay",))
    assert pages.values[-1, 0] == pytest.approx(release.total("pay").value, rel=1e-9)
    assert pages.margins[-1, 0] == pytest.approx(release.total("pay").moe(), rel=1e-6)
    laid_out = layout(release, "state by pay mean", totals=True)
    each, overall = release.mean("pay", by="state"), release.mean("pay")
    for numbers, one in zip((laid_out.values, *laid_out.ends), (lambda x: x.value, *map(_end, (0, 1))), strict=True):
        assert numbers[:, 0] == pytest.approx([*one(each), one(overall)], rel=1e-9)
    assert (laid_out.margins >= np.abs(laid_out.values - np.array(laid_out.ends))).all()
    pd.testing.assert_frame_equal(release["state by pay mean"], each.frame()[["state", "value", "low", "high"]])
    for language, phrases in {
        "en": ("Estimated sums: pay. The margin of error", "Estimated means: pay.", "mean of pay", "for 200 records"),
        "de": (
            "Geschätzte Summen: pay. Die Fehlerspanne",
            "Geschätzte Mittelwerte: pay.",
            "Mittelwert von pay",
            "für 200 Fälle",
        ),
    }.items():
        text = fn.report(release, tmp_path / f"{language}.html", language=language, totals=True).read_text("utf-8")
        assert all(x in text for x in phrases)
        assert not re.search(r"<th[^>]*>\s*1000\s*</th>", text)  # an end of the range
    low, high = (float(x.replace(",", "")) for x in fragments.margin_text(laid_out, translator("en"), 0, 0).split("–"))
    assert low <= laid_out.ends[0][0, 0] < laid_out.ends[1][0, 0] <= high
    folder = fn.export(release, tmp_path / "package")
    resources = json.loads((folder / "datapackage.json").read_text("utf-8"))["resources"]
    fields = {r["name"]: {f["name"]: f.get("description", "") for f in r["schema"]["fields"]} for r in resources}
    assert list(fields["state_by_pay_mean"]) == ["state", "value", "low", "high"]
    assert "mean of pay" in fields["state_by_pay_mean"]["value"]
    assert "sum of hours" in fields["state_by_hours_sum"]["value"]
    assert "units of hours" in fields["state_by_hours_sum"]["moe"]
    assert "number of records" in fields["state"]["value"]
    pd.testing.assert_frame_equal(
        pd.read_csv(folder / "tables" / "state_by_pay_mean.csv"), release["state by pay mean"], atol=1e-6
    )
    sentence = english(*(m for s in plan_report(plan).sections if s.title == MEANS for m in s.messages))
    assert "state by pay mean: margins hold for 200 records" in sentence


def _end(i):
    return lambda estimates: estimates.interval()[i]


def test_means_are_in_a_notebook_where_they_are_too_many(monkeypatch):
    domain = fn.Domain(at=fn.Categorical(["a", "b"]), pay=fn.Amount(0, 5))
    tables = [fn.table("at", mean="pay", margin=5, reference=9)]
    release = released(planned(domain, *tables), pd.DataFrame({"at": ["a"], "pay": [1]}))
    assert "Estimated means: pay." in release._repr_html_()
    monkeypatch.setattr(notebook, "MAX_NUMBERS", 0)
    caption = "Estimates with intervals at 95\u202f% confidence: mean of pay; values of pay count below 0 as 0"
    assert caption in release._repr_html_()


def test_the_file_named_after_a_mean_holds_the_mean(plan, people, tmp_path):
    """And the counts of which it is random_design are in a file of their own, whose name says so; both are verified."""
    out = tmp_path / "out"
    fn.release(plan, people, ledger=tmp_path / "ledger.sqlite", directory=out)
    read = fn.Release.read(out)
    table = pd.read_csv(out / "tables" / "state_by_pay_mean.csv")
    assert list(table) == ["state", "value", "low", "high"]
    pd.testing.assert_frame_equal(table, read["state by pay mean"], atol=1e-6, rtol=0)
    pd.testing.assert_frame_equal(
        pd.read_parquet(out / "tables" / "state_by_pay_mean.parquet"), read["state by pay mean"]
    )
    low, high = read.mean("pay", by="state").interval()
    np.testing.assert_allclose((table["low"], table["high"]), (low, high), atol=1e-6)
    ends = pd.read_csv(out / "tables" / "state_by_pay_mean-counts_at_ends.csv")
    assert list(ends) == ["state", "pay", "value", "std_error", "moe"]
    pd.testing.assert_frame_equal(ends, read.counts_at_ends("state by pay mean"), atol=1e-6, rtol=0)
    counts = ends.pivot(index="state", columns="pay", values="value")
    sums = (counts * counts.columns.to_numpy()).sum(axis=1)
    made_of = (sums / counts.sum(axis=1)).to_numpy()
    np.testing.assert_allclose(table["value"], np.clip(made_of, table["low"], table["high"]), rtol=1e-4)
    assert {name: list(frame) for name, frame in read.frames()}["state by pay mean"] == list(table)
    for wrong in ("state", "no table"):
        with refused("release.no-table-of-means"):
            read.counts_at_ends(wrong)
    by_command("write", "tables", str(out), "--table", "state by pay mean", "-o", str(tmp_path / "written"))
    for name in ("state_by_pay_mean.csv", "state_by_pay_mean-counts_at_ends.csv"):
        assert (tmp_path / "written" / name).read_bytes() == (out / "tables" / name).read_bytes()


@pytest.mark.no_cover
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("file", ["state_by_pay_mean", "state_by_pay_mean-counts_at_ends"])
def test_files_of_means_are_recomputed_by_verification(plan, people, tmp_path, file, ending):
    """Detects a digit of either file that does not follow from the noisy answers, and a file that is missing."""
    out = tmp_path / "out"
    fn.release(plan, people, ledger=tmp_path / "ledger.sqlite", directory=out)
    assert fn.verify(out).ok
    path = out / "tables" / f"{file}.{ending}"
    table = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    table.loc[0, "value"] += 1e-3
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path, index=False)
    assert not fn.verify(out).ok
    path.unlink()
    (files,) = (c for c in fn.verify(out).checks if english(c.claim) == "its files are those of a release")
    assert f"missing: 'tables/{path.name}'" in english(files.finding)


@pytest.mark.parametrize(("releases", "min_coverage"), [(6, 0.7), pytest.param(200, 0.915, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("one_engine", "counted_once", "rehearsed_once")
def test_intervals_of_the_tables_of_means_hold(plan, people, releases, min_coverage):
    """Detects columns low and high of a table that do not cover the mean as often as they say, at 1e-6."""
    true, hits = truth(people).groupby("state")["pay"].mean().to_numpy(), []
    for _ in range(releases):
        table = released(plan, people)["state by pay mean"]
        hits.append((table["low"] <= true) & (true <= table["high"]))
    assert np.mean(hits) > min_coverage


def test_means_are_laid_out_next_to_any_other_table(without_noise, tmp_path):
    """Cumulated, of products of attributes, alone, combined; and sums and changes that may be negative."""
    domain = fn.Domain(month=fn.Ordered(1, 3), sex=fn.Categorical(["f", "m"]), gain=fn.Amount(-50, 50))
    tables = [
        fn.table("sex", cumulative="month", mean="gain", margin=5, reference=90),
        fn.table(mean="gain", margin=2, reference=90, name="all"),
        fn.table("month", sum="gain", margin=90),
    ]
    rng = np.random.default_rng(5)
    records = pd.DataFrame(
        {"month": rng.integers(1, 4, 90), "sex": rng.choice(["f", "m"], 90), "gain": rng.integers(-50, 20, 90)}
    )
    release = released(planned(domain, *tables, gap=1e-3), records)
    true = [
        [records[(records["month"] <= m) & records["sex"].isin(sexes)]["gain"].mean() for m in (1, 2, 3)]
        for sexes in (["f"], ["m"], ["f", "m"])
    ]
    combined = fn.combine(release, same_records=True)
    fn.combine(release, same_records=True).write(tmp_path / "combined")
    files = sorted(p.name for p in (tmp_path / "combined").glob("all*"))
    assert files == ["all-counts_at_ends.csv", "all.csv"]
    assert check_tables(combined, tmp_path / "combined") is None
    ends = tmp_path / "combined" / files[0]
    ends.write_text(ends.read_text().replace(",", ",1", 2))
    assert "all-counts_at_ends.csv" in english(check_tables(combined, tmp_path / "combined"))
    pd.testing.assert_frame_equal(combined.counts_at_ends("all"), release.counts_at_ends("all"))
    with refused("release.no-table-of-means"):
        combined.counts_at_ends("month by gain sum")
    for source in (release, combined):
        cumulated = layout(source, "sex by month cumulative by gain mean", totals=True)
        assert [x[0].text for x in cumulated.rows] == ["f", "m", None]
        assert [x.text for x in cumulated.columns] == ["1", "2", "3"]
        assert cumulated.values == pytest.approx(np.array(true), rel=1e-6)
        assert layout(source, "all").values == pytest.approx(records["gain"].mean(), rel=1e-6)
        assert list(source["all"]) == ["value", "low", "high"]
    losses = layout(release, "month by gain sum", bands=fn.Bands(9, 99))
    assert (losses.values < 0).all()
    assert {x.value for x in losses.bands.ravel()} == {"reliable"}
    lost = layout(release, "all", bands=fn.Bands(9, 99))
    assert lost.values[0, 0] < 0
    assert lost.bands[0, 0].value == "reliable"
    text = fn.report(release, tmp_path / "a.html", bands=fn.Bands(9, 99)).read_text("utf-8")
    assert "of the number without its sign" in text
    assert "margins of error of sums and means in the units of the summed values" in text
    with refused("release.unknown-table"):
        layout(release, "nothing")


def test_a_mean_with_only_a_sum_is_refused_with_advice():
    domain = fn.Domain(state=fn.Categorical(["a", "b"]), sex=fn.Categorical(["f", "m"]), pay=PAY)
    tables = [fn.table("state", "sex", sum="pay", margin=1e5), fn.table("state", mean="pay", margin=900, reference=500)]
    release = released(fn.plan(fn.Workload(domain, tables)), pd.DataFrame({"state": ["a"], "sex": ["f"], "pay": [100]}))
    assert release.mean("pay", by="state").value.shape == (2,)
    with refused("release.mean-without-count"):
        release.mean("pay", by=["state", "sex"])


def test_requests_for_amounts_without_an_answer_are_refused(plan, people):
    release = released(plan, people)
    for ask, why in (
        (lambda: release.count(by="pay"), "release.amount-as-attribute"),
        (lambda: release.count(pay=5), "release.amount-as-attribute"),
        (lambda: release.mean("state"), "release.attribute-not-numeric"),
        (lambda: release.total("nothing"), "release.attribute-not-numeric"),
        (lambda: release.total("hours", age=1), "release.attributes-not-crossed"),
        (lambda: release.quantile("pay", 0.5), "release.amount-as-attribute"),
    ):
        with refused(why):
            ask()


# --- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (lambda: fn.table("pay", margin=1), "workload.amount-by-value"),
        (lambda: fn.table(cumulative="pay", margin=1), ("domain.amount-by-value", "workload.cumulative-needs-order")),
        (lambda: fn.table(ranges="pay", margin=1), "workload.ranges-need-order"),
        (
            lambda: fn.table(groups={"pay": {"low": 0}}, margin=1),
            ("domain.amount-by-value", "workload.cumulative-needs-order"),
        ),
        (lambda: fn.table(sum="sex", margin=1), "workload.sum-needs-amount"),
        (lambda: fn.table(mean="sex", margin=1, reference=5), "workload.mean-needs-amount"),
        (lambda: fn.table(mean="pay", margin=1), "workload.mean-needs-reference"),
        (
            lambda: fn.table(change="sex", mean="pay", margin=1, reference=5),
            "workload.change-of-mean",
        ),
        (lambda: fn.table(mean="pay", margin=1, reference=fn.PublicTotal(5)), "workload.mean-needs-reference"),
        (lambda: fn.table(mean="pay", margin=1, reference=-3), "workload.mean-needs-reference"),
        (lambda: fn.table(mean=["pay"], margin=1, reference=3), "workload.wrong-type"),
        (lambda: fn.table(sum=[["pay"]], margin=1), "workload.attribute-name-not-text"),
        (lambda: fn.table(sum=[3], margin=1), "workload.attribute-name-not-text"),
        (lambda: fn.table("sex", sum="sex", margin=1), "workload.sum-needs-amount"),
        (lambda: fn.table(sum=["pay", "pay"], margin=1), "workload.attribute-twice"),
        (lambda: fn.table(sum="pay", mean="pay", margin=1, reference=2), "workload.sum-and-mean"),
        (lambda: fn.table(sum="hours", mean="pay", margin=1, reference=2), "workload.sum-and-mean"),
        (lambda: fn.table(sum="pay", margin=1, missing=True), "workload.missing-without-views"),
        (lambda: fn.all_tables(1, ["sex", "pay"], margin=1), "workload.amount-by-value"),
    ],
)
def test_tables_that_amounts_cannot_have_are_refused(table, why):
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=PAY, hours=fn.Amount(0, 5))
    with refused(why):
        fn.Workload(domain, [table()])


def test_all_tables_of_a_pattern_may_be_of_sums():
    domain = fn.Domain(a=fn.Categorical([1, 2]), b=fn.Categorical([1, 2, 3]), pay=fn.Amount(0, 5))
    sums = fn.all_tables(1, ["a", "b"], sum="pay", margin=[4, 5])
    means = fn.all_tables(1, ["a", "b"], mean="pay", margin=1, reference=10, name="means")
    plan = planned(domain, sums, means)
    assert [t.name for t in plan.publication.workload.tables][:2] == ["a by pay sum", "b by pay sum"]
    assert [s.achieved_moe <= s.target_moe * (1 + 1e-9) for s in plan.summaries] == [True, True]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"small_database": fn.SmallDatabase(100), "budget": fn.Budget(epsilon=1, delta=1e-6)}, "small database"),
        ({"unit": PrivacyUnit("person", 2, once_per=("pay",))}, "pattern"),
        ({"cell_budgets": fn.CellBudgets(("pay",), (1, 1, 1, 1))}, "cell budgets"),
        ({"questions": [fn.FiniteQuery.count("q", people=5, epsilon=1, where={"pay": ["none"]})]}, "question"),
    ],
)
def test_publications_refuse_what_is_not_done_with_amounts(options, why):
    with refused("spec.amount-unsupported"):
        fn.Publication(fn.Workload(DOMAIN, [fn.table(sum="pay", margin=9)]), **options)


def test_a_matrix_asks_nothing_of_amounts():
    with refused("workload.matrix-with-amounts"):
        fn.matrix_workload(np.ones((1, 8)), variances=1, domain=DOMAIN)


SPEC = """
[domain.state]
type = "categorical"
codes = ["a", "b"]

[domain.pay]
type = "amount"
low = 0
high = 1000.5
step = 0.5
ceilings = [250, 500.5]
valid = [-100, 1_000_000]
missing = { unknown = [-9] }
if_missing = "unknown"

[domain.hours]
type = "amount"
low = 0
high = 60

[[tables]]
attributes = ["state"]
sum = ["pay", "hours"]
margin = 9000

[[tables]]
attributes = ["state"]
mean = "pay"
margin = 10
reference = 500

[[tables]]
attributes = ["state"]
sum = "pay"
ceiling = 500.5
margin = 900

[[tables]]
pattern = "singles"
sum = "pay"
ceiling = 250
margin = 100
"""


def test_specifications_say_amounts_and_are_written_again():
    spec = Spec.from_toml(SPEC)
    publication = spec.publication()
    assert publication.domain["pay"] == fn.Amount(
        0,
        1000.5,
        step=0.5,
        valid=(-100, 1_000_000),
        ceilings=[250, 500.5],
        missing={"unknown": [-9]},
        if_missing="unknown",
    )
    tables = list(publication.workload.tables)
    assert [t.name for t in tables] == [
        "state by pay sum by hours sum",
        "state by pay mean",
        "state by pay sum up to 500.5",
        "state by pay sum up to 250",
    ]
    parsed = Spec.from_publication(publication).publication()
    assert parsed == publication
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("step = 0.5", "step = 0.4", "domain.amount-steps-invalid"),
        ("step = 0.5", 'step = 0.5\ndate_part = "year"', "spec.amount-with-date-part"),
        ("reference = 500", "", "workload.mean-needs-reference"),
        ("ceiling = 500.5", "ceiling = 500", "domain.ceiling-not-declared"),
        ("ceilings = [250, 500.5]", "ceilings = [500.5, 250]", "domain.ceilings-invalid"),
        ('sum = "pay"\nceiling = 250', "ceiling = 250", "workload.ceiling-needs-one-sum"),
        ('pattern = "singles"\nsum = "pay"\nceiling = 250', "matrix = [[1]]\nceiling = 250", "spec.matrix-with-views"),
    ],
)
def test_specifications_that_say_amounts_wrongly_are_refused(old, new, why):
    with refused(why):
        Spec.from_toml(SPEC.replace(old, new)).publication()


# --- contents of a release for any data ---------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.usefixtures("standing_still")
@pytest.mark.parametrize("how", ["cells", "dropped"])
def test_one_more_value_out_of_range_or_missing_changes_only_noisy_numbers(tmp_path, monkeypatch, capsys, how):
    """Clipping, missing cells and dropping leave no trace: no file and no message has a count of either."""
    cells = {"missing": {"unknown": [-9]}, "if_missing": "unknown", "if_outside": "unknown"}
    pay = fn.Amount(0, 1000, step=10, valid=(-50, 10**6), **(cells if how == "cells" else {"if_outside": "drop"}))
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=pay)
    tables = [fn.table("sex", margin=20), fn.table("sex", sum="pay", margin=9000)]
    tables += [fn.table("sex", count="pay", margin=20)] if how == "cells" else []
    plan = planned(domain, *tables, fn.table(mean="pay", margin=300, reference=100))
    people = pd.DataFrame({"sex": [*"ffmmmfmf"], "pay": [3.0, 20, 700, 0, 64, 999, 1000, 512]})
    extra_values = {"within": 500.0, "beyond high": 10.0**5, "below low": -3.0, "beyond valid": 10.0**7}
    if how == "cells":
        extra_values |= {"a code": -9.0, "absent": math.nan}
    files, outputs = {}, {}
    for name, value in extra_values.items():
        monkeypatch.setattr(noise, "discrete_gaussians", Replay(7).discrete_gaussians)
        data = people.assign(pay=[value, *people["pay"][1:]])
        released(plan, data, directory=tmp_path / name)
        files[name] = {f.relative_to(tmp_path / name): f.read_bytes() for f in (tmp_path / name).rglob("*.*")}
        outputs[name] = capsys.readouterr()
    expected = files["within"]
    assert {"release.json", "plan.json"} <= {f.name for f in expected}
    for name, contents in files.items():
        assert outputs[name] == outputs["within"]
        assert contents.keys() == expected.keys()
        different = {f for f in contents if contents[f] != expected[f]}
        assert all(f.name == "measurements.parquet" or f.parts[0] == "tables" for f in different), name
        for f in (f for f in different if f.suffix == ".csv"):
            one, other = (pd.read_csv(tmp_path / x / f) for x in ("within", name))
            changed = [c for c in one if not one[c].equals(other[c])]
            if "low" in one:  # the interval of a mean is computed from the answers
                assert "value" in changed
                assert set(changed) <= {"value", "low", "high"}
            else:
                assert changed == ["value"]
    for name in ("beyond high", "below low", "beyond valid"):  # which are others than what is compared with
        assert files[name] != expected
