"""Amounts of persons that are added up: what becomes of their records on every engine, and what a person can move."""

import hashlib
import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from engines import ENGINES, SLOW
from fitnoise.engines import engine_check, open_counter, sql, statements
from fitnoise.engines.dialects import DIALECTS, SPARK
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.codings import MAX_STEPS_FROM_ZERO, Codes, CodingWithMissing, Steps
from fitnoise.kernel.counting.persons import PersonSelector
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.units import NO_PATTERN, DataSource, Pattern, RecordBound
from fitnoise.messages import Message, english
from fitnoise.reading.description import bound_on_records, merged_records
from fitnoise.reading.registry import as_yaml, registry_record
from laws.counting import DROP, REFUSE, leaks_nothing, same_counts
from laws.reports import check_no_sentences, in_words
from records import Records
from refused import refused
from replayed_noise import Replay
from test_amounts import moments, shift
from test_order import SECTORS, order
from test_persons import FEW, HASHED, SOURCES, by_source, in_pattern, tried
from test_persons import untried as untried

ADD, REPLACE = fn.Neighbours

DOMAIN = fn.Domain(
    shop=fn.Categorical(["a", "b"]),
    age=fn.Ordered(0, 1, missing={"not stated": [-1]}),
    turnover=fn.Amount(-2, 30, step=0.5, ceilings=[10], missing={"none": [-9], "kept": [99]}, if_missing="none"),
    fee=fn.Amount(2, 8, valid=(-100, 1000), missing={"waived": [0]}),
)
STORED = fn.Domain({**{a: DOMAIN[a] for a in DOMAIN}, "person": fn.Categorical(["p"])})
KINDS = {"shop": "string", "age": "int64", "turnover": "double", "fee": "int64", "person": "string"}
MARGINS = [tuple(DOMAIN), ("shop",), ("turnover",), ("fee", "age"), ()]

TURNOVERS = (
    *(0.0, 0.25, 0.24, -0.25, -0.5, 1.75, 4.0, 12.5, 29.75, 30.0, 31.0, -2.0, -3.0, -7.25),
    *(None, -9.0, 99.0, 1e308, -1e308, 2.0**30, -(2.0**31)),
)
"""Rounded either way, beyond the range, no amount, and cut far beyond it."""

FEES = (0, 1, 2, 3, 8, 9, -50, 1000)

BOTH, ONE = ("fee", "turnover"), ("turnover",)

WAYS = [
    (1, NO_PATTERN, BOTH),
    (10**12, NO_PATTERN, ONE),
    (3, NO_PATTERN, BOTH),
    (3, Pattern(("shop",)), ONE),
    (2, Pattern(("age",), (("shop", 2),), fixed=("shop",)), BOTH),
]


def record(rng):
    values = "ab"[rng.integers(2)], int(rng.integers(-1, 2)), TURNOVERS[rng.integers(len(TURNOVERS))]
    return *values, FEES[rng.integers(len(FEES))]


def people(n, seed=3):
    rng = np.random.default_rng(seed)
    names = (FEW[i % len(FEW)] + (str(i) if i >= len(FEW) else "") for i in range(n))
    return [(*record(rng), name) for i, name in enumerate(names) for _ in range(60 if i == 0 else rng.integers(1, 9))]


def stored(rows):
    columns = zip(*rows, strict=True) if rows else [[] for _ in STORED]
    return Records(STORED, {a: list(c) for a, c in zip(STORED, columns, strict=True)}, KINDS)


def counter(source, rows, folder, max_records, pattern=NO_PATTERN, merge=BOTH, *, drop=True):
    made_source = zoo.COUNTERS[source]
    where = DataSource(table=made_source.table, outside_domain=DROP if drop else REFUSE)
    return open_counter(
        made_source.make(stored(rows), folder), DOMAIN.axes, where, RecordBound("person", max_records, pattern, merge)
    )


@lru_cache(maxsize=None, typed=True)
def record_cells(*values):
    return tuple(DOMAIN[a].cell(v) for a, v in zip(DOMAIN, values, strict=True))


@lru_cache(maxsize=None, typed=True)
def steps(a, value):
    """Code an amount in integer steps from zero, half-way the larger, cut to 2^31 of them, with fractions."""
    n = math.floor(Fraction(value) / Fraction(DOMAIN[a].step) + Fraction(1, 2))
    return min(max(n, -(2**31)), 2**31)


def merged_cells(rows, merge):
    """Return the cells of each person's records, equal ones merged: an independent implementation of the rule."""
    groups_of = {}
    for *values, person in rows:
        cells = record_cells(*values)
        if None in cells or person in (None, ""):
            continue
        key, sums = list(cells), []
        for i, a in enumerate(DOMAIN):
            if a in merge and cells[i] <= DOMAIN[a].exact.max_step:
                key[i] = None
                sums.append(steps(a, values[i]))
        groups_of.setdefault(str(person), {}).setdefault(tuple(key), []).append(sums)
    cells_of = {}
    for person, groups in groups_of.items():
        cells_of[person] = []
        for key, sums in groups.items():
            totals = [sum(column) for column in zip(*sums, strict=True)]
            cells = []
            for c, a in zip(key, DOMAIN, strict=True):
                if c is None:
                    low, high = (int(x / DOMAIN[a].step) for x in (DOMAIN[a].low, DOMAIN[a].high))
                    cells.append(min(max(totals.pop(0), low), high) - low)
                else:
                    cells.append(c)
            cells_of[person] += [tuple(cells)] * (1 if merge else len(sums))
    return cells_of


def counted_records(rows, max_records, pattern=NO_PATTERN, merge=BOTH):
    """Return the counted records of each person, record by record."""
    counted = {}
    for person, records in merged_cells(rows, merge).items():
        texts = [("".join(f"{c + 1}/" for c in cells) + person, cells) for cells in records]
        line = sorted((hashlib.md5(text.encode()).hexdigest(), cells) for text, cells in texts)  # noqa: S324
        counted[person] = in_pattern([cells for _, cells in line], pattern, DOMAIN)[:max_records]
    return counted


def tables(cells):
    columns = {a: np.array([c[i] for c in cells], dtype=int) for i, a in enumerate(DOMAIN)}
    return {m: moments(DOMAIN, columns, m).astype(np.int64) for m in MARGINS}


def everybody(all_records):
    return [cells for records in all_records.values() for cells in records]


# --- what becomes of records ----------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize(("source", "max_records", "pattern", "merge"), by_source(SOURCES, *WAYS))
def test_every_source_adds_up_the_same_amounts_of_each_person(source, max_records, pattern, merge, tmp_path, untried):
    rows = people(20)
    expected = tables(everybody(counted_records(rows, max_records, pattern, merge)))
    assert expected[()] < sum(map(len, merged_cells(rows, ()).values()))
    for drop in (True, False):
        inside = rows if drop else [r for r in rows if r[3] not in {-50, 1000} or r[2] is None]
        opened = counter(source, inside, tmp_path, max_records, pattern, merge, drop=drop)
        opened.check(["shop"])
        assert opened.bound == RecordBound("person", max_records, pattern, merge)
        expected = tables(everybody(counted_records(inside, max_records, pattern, merge)))
        same_counts(opened.count(MARGINS), expected)
        same_counts(opened.count([("turnover",)]), {("turnover",): expected["turnover",]})


@pytest.mark.no_cover
@pytest.mark.parametrize("source", SOURCES)
def test_records_outside_are_reported_one_by_one_and_added_to_nothing(source, tmp_path, untried):
    rows = [r for r in people(9) if r[3] not in {-50, 1000}]
    odd = [("a", 0, 1.0, 2, None)] * 5 + [("x", 1, 4.0, 2, "p7")] * 30 + [("a", 1, 4.0, 5000, "p7")] * 3
    same_counts(counter(source, odd + rows, tmp_path, 3).count(MARGINS), tables(everybody(counted_records(rows, 3))))
    for margins in ([("age",)], MARGINS):
        with refused("data.records-without-id") as caught:
            counter(source, rows + odd, tmp_path, 3, drop=False).count(margins)
        leaks_nothing(caught.value)
    with refused("data.records-outside-domain"):
        counter(source, rows + odd[5:], tmp_path, 3, drop=False).count([("age",)])


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("source", "max_records", "pattern", "merge"),
    by_source(SOURCES, (1, NO_PATTERN, BOTH), (2, Pattern(("shop",)), ONE)),
)
def test_of_whom_records_are_left_out_goes_by_what_they_become(source, max_records, pattern, merge, tmp_path, untried):
    rows = people(20)
    counted, all_of_them = counted_records(rows, max_records, pattern, merge), merged_cells(rows, merge)
    expected = sum(len(counted[p]) < len(all_of_them[p]) for p in counted)
    assert 0 < expected < len(counted)
    assert counter(source, rows, tmp_path, max_records, pattern, merge).left_out() == expected


VALUES = st.tuples(st.sampled_from("ab"), st.integers(-1, 1), st.sampled_from(TURNOVERS), st.sampled_from(FEES))


@pytest.mark.no_cover
@given(st.lists(st.tuples(VALUES, st.sampled_from(FEW[:4])), max_size=30), st.sampled_from(WAYS), st.randoms())
def test_whatever_the_records_are_each_of_a_person_becomes_what_is_declared(drawn_rows, way, shuffled):
    """In any order, and in as many pieces; who has one record keeps it as it is."""
    max_records, pattern, merge = way
    rows = [(*values, person) for values, person in drawn_rows]
    codings = {a: DOMAIN[a].coding.uncut() if a in merge else DOMAIN[a].coding for a in DOMAIN}
    persons = PersonSelector(max_records, tuple(DOMAIN), pattern, {a: DOMAIN[a].coding for a in merge})
    rearranged = list(rows)
    shuffled.shuffle(rearranged)
    for *values, person in rearranged:
        cells = tuple(codings[a].cell(v) for a, v in zip(DOMAIN, values, strict=True))
        if None not in cells:
            persons.add([person.encode()], [cells])
    result = Counter()
    for cells, n in (x for part in persons.iter_counted() for x in part):
        result[cells] += n
    assert result == Counter(everybody(counted_records(rows, max_records, pattern, merge)))
    singles = [r for r in rows if [x[4] for x in rows].count(r[4]) == 1]
    assert counted_records(singles, max_records, pattern, merge) == counted_records(singles, max_records, pattern, ())


@given(st.floats(), st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.integers(1, 500), st.integers(0, 4))
def test_an_amount_that_is_cut_afterwards_is_what_it_is_cut_before(x, low, size, stride, digits):
    """Detects other rounding where amounts are added up: of one record the sum is itself."""
    step = Fraction(stride, 10**digits)
    coding = Steps(low * step, (low + size + 1) * step, step)
    wide_coding = coding.uncut()
    assert (wide_coding.size, wide_coding.max_step) == (2 * MAX_STEPS_FROM_ZERO + 1, 2 * MAX_STEPS_FROM_ZERO)
    for value in (x, float(coding.low), float(coding.high + step / 2), 1e308, -1e308):
        cell, wide = coding.cell(value), wide_coding.cell(value)
        assert (cell is None) == (wide is None)
        if wide is not None:
            assert 0 <= wide < wide_coding.size
            assert cell == min(max(wide - MAX_STEPS_FROM_ZERO - low, 0), coding.max_step)
    assert [wide_coding.cell(float(n * step)) for n in (-MAX_STEPS_FROM_ZERO, 0, MAX_STEPS_FROM_ZERO)] == [
        0,
        MAX_STEPS_FROM_ZERO,
        2 * MAX_STEPS_FROM_ZERO,
    ]


def test_amounts_with_special_cells_are_added_up_with_the_same_cells():
    coding = CodingWithMissing(
        Steps(Fraction(0), Fraction(5), Fraction(1), (-20.0, 99.0)), ((-3,), ()), absent=7, outside=-2
    )
    wide_coding = coding.uncut()
    last = 2 * MAX_STEPS_FROM_ZERO
    assert [wide_coding.cell_of(x) for x in (-3, None, 100, 99, -20)] == [
        last + 1,
        last + 2,
        -2,
        MAX_STEPS_FROM_ZERO + 99,
        MAX_STEPS_FROM_ZERO - 20,
    ]


@pytest.mark.parametrize(
    ("coding", "code"),
    [
        (Codes((1, 2)), "domain.sum-within-unit-not-amount"),
        (Steps(Fraction(1, 4), Fraction(9, 4), Fraction(1, 2)), "domain.sum-within-unit-range-invalid"),
        (Steps(Fraction(2**31 - 1), Fraction(2**31 + 1), Fraction(1)), "domain.sum-within-unit-range-invalid"),
        (Steps(-Fraction(2**31 + 1), Fraction(-(2**31)), Fraction(1)), "domain.sum-within-unit-range-invalid"),
    ],
)
def test_an_amount_that_is_not_in_integer_steps_is_refused(coding, code):
    with refused(code):
        coding.uncut()


def test_sums_of_any_number_of_records_are_exact():
    """10^15 records of 2^31 steps less as many: nothing wraps, and nothing depends on the order."""
    coding = DOMAIN["turnover"].coding
    persons = PersonSelector(1, ("shop", "turnover"), NO_PATTERN, {"turnover": coding})
    persons._records.update(
        {(b"p", (0, 2 * MAX_STEPS_FROM_ZERO)): 10**15, (b"p", (0, 0)): 10**15, (b"p", (0, MAX_STEPS_FROM_ZERO + 7)): 1}
    )
    assert list(persons.iter_counted()) == [[((0, 7 + 4), 1)]]
    persons._records.update({(b"p", (0, 2 * MAX_STEPS_FROM_ZERO)): 1})
    assert list(persons.iter_counted()) == [[((0, 64), 1)]]


LONG = f"SELECT {{}} FROM (SELECT {2**62} AS x UNION ALL SELECT {2**62} UNION ALL SELECT {2**62 + 1}) n"


@pytest.mark.parametrize("engine", [e for e in ENGINES if e not in {"sqlite", "spark"}])
def test_engines_add_up_above_64_bits(engine, tmp_path):
    opened = zoo.COUNTERS[engine].make(stored(people(1)), tmp_path)
    opened = opened if isinstance(opened, sa.Engine) else sa.create_engine(opened, poolclass=sa.NullPool)
    with opened.begin() as db:
        d = DIALECTS[db.dialect.name]
        total = db.exec_driver_sql(LONG.format(d.digits.format(x=f"{d.added.format(x='x')} - {2**62}"))).scalar()
    assert int(total) == 2**63 + 1


def test_engines_whose_sums_are_of_64_bits_add_up_longer_numbers():
    sums = {d.name: d.added for d in (*DIALECTS.values(), SPARK) if d.digest}
    longer = {"clickhouse": "sum(toInt128({x}))", "bigquery": "SUM(CAST({x} AS NUMERIC))"}
    decimal = ("snowflake", "trino", "databricks", "spark")
    longer |= dict.fromkeys(decimal, "SUM(CAST({x} AS DECIMAL(19, 0)))")
    assert sums == longer | dict.fromkeys(("postgresql", "mysql", "mariadb"), "SUM({x})")


# --- the trial ------------------------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("kind", [ColumnKind.TEXT, ColumnKind.INTEGER])
@pytest.mark.parametrize("sets", [True, False])
def test_an_engine_that_adds_up_as_declared_is_admitted(sets, kind, drop):
    for pattern in (NO_PATTERN, Pattern(("shop",)), Pattern(fixed=("shop",))):
        tried(replace(HASHED, sets=sets), kind, drop=drop, pattern=pattern, uncounted=True, merge=True)


FLAWS = {
    "largest": {"added": "MAX({x})"},
    "one of each": {"added": "SUM(DISTINCT {x})"},
    "means": {"added": "AVG({x})"},
    "two by two": {"int64": "CAST(({x}) // 2 * 2 AS BIGINT)"},
    "other ids": {"person_key": "lower(CAST({c} AS VARCHAR))"},
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_an_engine_that_adds_up_otherwise_is_not_admitted(flaw):
    with refused("data.engine-bounds-differently") as caught:
        tried(replace(HASHED, **FLAWS[flaw]), merge=True)
    leaks_nothing(caught.value)


def test_an_engine_that_adds_up_nothing_is_not_admitted(monkeypatch):
    monkeypatch.setattr(engine_check, "replace", lambda person, **_: person)
    with refused("data.engine-bounds-differently"):
        tried(HASHED, merge=True)


@pytest.mark.no_cover
@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_are_tried_with_sums_before_they_count(engine, tmp_path, monkeypatch):
    merges = []

    def asking(*arguments, **how):
        merges.append(how["merge"])
        engine_check.refuse_unless_bounded(*arguments, **how)

    monkeypatch.setattr(sql, "refuse_unless_bounded", asking)
    rows = [r for r in people(3) if r[3] not in {-50, 1000}]
    opened = counter(engine, rows, tmp_path, 3, drop=False)
    same_counts(opened.count([()]), {(): tables(everybody(counted_records(rows, 3)))[()]})
    assert opened.left_out() >= 0
    assert merges == [True, True]


# --- what a person can move: the audit of neighbours ----------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("source", "max_records", "pattern", "merge"),
    by_source(["csv", "pandas objects", *ENGINES], WAYS[0], WAYS[2], WAYS[4]),
)
def test_a_person_moves_what_so_many_records_move_and_nobody_else_s(
    source, max_records, pattern, merge, tmp_path, untried
):
    """Persons come, go and become others, with hostile ids; the rest in another order."""
    rng, rows = np.random.default_rng(5), people(20, seed=8)
    full = counter(source, rows, tmp_path, max_records, pattern, merge).count(MARGINS)
    for person in (FEW[0], FEW[1], FEW[8]) if source not in SLOW else (FEW[0],):
        others = [x for x in rows if x[4] != person]
        less = counter(source, [others[i] for i in rng.permutation(len(others))], tmp_path, max_records, pattern, merge)
        less = less.count(MARGINS)
        counted = counted_records([x for x in rows if x[4] == person], max_records, pattern, merge)[person]
        assert 0 < len(counted) <= max_records
        same_counts({m: full[m] - less[m] for m in MARGINS}, tables(counted))
        replaced = [(*record(rng), person) for _ in range(int(rng.integers(1, 100)))]
        rearranged = [(others + replaced)[i] for i in rng.permutation(len(others) + len(replaced))]
        now = counter(source, rearranged, tmp_path, max_records, pattern, merge).count(MARGINS)
        same_counts(
            {m: now[m] - less[m] for m in MARGINS},
            tables(everybody(counted_records(replaced, max_records, pattern, merge))),
        )


@pytest.mark.no_cover
@pytest.mark.parametrize("merge", [ONE, BOTH])
@pytest.mark.parametrize("pattern", [NO_PATTERN, Pattern(("shop",)), Pattern(per_value=(("age", 2),)), WAYS[4][1]])
def test_a_record_more_moves_as_many_records_of_its_person_as_others_pay_for(pattern, merge):
    rng, largest = np.random.default_rng(2), 0
    unit = fn.PrivacyUnit("person", 3, ADD, "person", *pattern, sum_within_unit=merge)
    charged = DOMAIN.axes.adjacency(DataSource(outside_domain=DROP), unit).for_unit(fn.PrivacyUnit()).records
    for _ in range(400):
        records = [(*record(rng), "p") for _ in range(int(rng.integers(1, 12)))]
        before, after = (
            Counter(counted_records(x, 3, pattern, merge).get("p", ()))
            for x in (records, [*records, (*record(rng), "p")])
        )
        largest = max(largest, (after - before).total(), (before - after).total())
    assert 0 < largest <= charged


SUMS = fn.Workload(
    DOMAIN,
    [
        fn.table("shop", margin=20),
        fn.table("shop", sum="turnover", margin=400),
        fn.table(sum="turnover", ceiling=10, margin=200),
        fn.table("age", sum="fee", margin=300),
    ],
)


@pytest.mark.no_cover
@pytest.mark.parametrize("max_records", [1, 3])
def test_no_person_moves_what_is_measured_by_more_than_is_charged(max_records, tmp_path):
    """On neighbouring data, with the same draws, for any records: nothing public differs."""
    unit = fn.PrivacyUnit("person", max_records, id="person", sum_within_unit=BOTH)
    plan = fn.plan(SUMS, unit=unit, source=DataSource(outside_domain=DROP), gap=1e-3)
    without = fn.plan(SUMS, unit=replace(unit, sum_within_unit=()), source=DataSource(outside_domain=DROP), gap=1e-3)
    assert plan.loss.rho == without.loss.rho
    (design,) = plan.order.designs
    scales = np.repeat([Fraction(s) for s in design.scales.tolist()], design.portions)
    rng, charged, max_shift = np.random.default_rng(6), 2 * plan.loss.rho, 0

    def measured(rows):
        frame = pd.DataFrame(rows, columns=list(STORED))
        opened = open_counter(frame, DOMAIN.axes, DataSource(outside_domain=DROP), unit.bound)
        source = Replay(1)
        with fn.Ledger(":memory:") as ledger:
            (answers,) = measuring.measure(plan.order, opened, ledger, noise=source).answers
        return np.concatenate(answers) if isinstance(answers, list | tuple) else answers, source

    rest = people(8)
    base, silent = measured(rest)
    for _ in range(12):
        records = [(*record(rng), "someone") for _ in range(int(rng.integers(1, 40)))]
        shifted, noise_source = measured([*records, *rest])
        assert (noise_source.requests, noise_source.drawn) == (silent.requests, silent.drawn)
        shift_size = sum((Fraction(int(a - b)) / s) ** 2 for a, b, s in zip(shifted, base, scales, strict=True))
        counted = everybody(counted_records(records, max_records))
        assert shift_size == shift(design, DOMAIN, counted) <= charged
        max_shift = max(max_shift, shift_size)
    assert max_shift > charged / 20
    top = [("a", 0, 30.0, 8, "someone")] * 50
    assert everybody(counted_records(top, max_records)) == [(0, 0, 64, 6)]


# --- what goes with it, and what does not -----------------------------------------------------------------------------

BY_ID = fn.PrivacyUnit("customer", id="card", sum_within_unit=["turnover", "fee"])


def test_a_unit_says_what_is_added_up():
    sentence = "records of one customer that agree in all else become one, with their fee, turnover added up"
    assert BY_ID.sum_within_unit == BOTH
    assert english(*merged_records(BY_ID)) == sentence
    assert BY_ID.bound == RecordBound("card", 1, NO_PATTERN, BOTH)
    text = """one customer (at most 1 record, enforced by column 'card', with "fee" and "turnover" added up), add-"""
    assert BY_ID.describe() == str(BY_ID) == f"{text}or-remove-one"
    bound = english(*bound_on_records(BY_ID, Message("report.records.unknown_left_out")))
    assert f"by the column 'card'; {sentence}; for a customer with more, a rule chooses" in bound
    unmerged = replace(BY_ID, sum_within_unit=())
    assert merged_records(unmerged) == ()
    assert BY_ID.account == unmerged.account == replace(BY_ID, max_records=12).account


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"sum_within_unit": ["pay"]}, "spec.sum-within-unit-needs-id"),
        ({"sum_within_unit": ["pay"], "name": "person"}, "spec.sum-within-unit-needs-id"),
        ({"sum_within_unit": ["pay", "pay"], "id": "pid", "name": "person"}, "spec.unit-attributes-invalid"),
        ({"sum_within_unit": "pay", "id": "pid", "name": "person"}, "spec.unit-attributes-invalid"),
        ({"sum_within_unit": [7], "id": "pid", "name": "person"}, "spec.unit-attributes-invalid"),
        (
            {"sum_within_unit": ["pay"], "id": "pid", "name": "person", "count": "shares"},
            "spec.shares-with-sum-within-unit",
        ),
    ],
)
def test_a_unit_that_cannot_add_up_an_attribute_is_refused(arguments, code):
    with refused(code):
        fn.PrivacyUnit(**arguments)


@pytest.mark.parametrize("merge", [("shop",), ("pay",), ("turnover", "age")])
def test_nothing_but_amounts_of_the_domain_is_added_up(merge):
    with refused("data.sum-within-unit-attribute-not-amount"):
        open_counter(
            pd.DataFrame({"person": ["p"]}), DOMAIN.axes, DataSource(), RecordBound("person", 2, NO_PATTERN, merge)
        )
    with refused("spec.sum-within-unit-needs-amount"):
        fn.Publication(SUMS, fn.PrivacyUnit("person", id="person", sum_within_unit=merge))
    with refused("plan.sum-within-unit-unknown-amount"):
        order(SECTORS, unit=fn.PrivacyUnit("person", id="person", sum_within_unit=merge))


def test_ranges_of_added_amounts_are_integer_steps_from_zero():
    domain = fn.Domain(pay=fn.Amount(0.25, 10.25, step=0.5))
    unit = fn.PrivacyUnit("person", id="person", sum_within_unit=["pay"])
    with refused("spec.sum-within-unit-amount-unusable"):
        fn.Publication(fn.Workload(domain, [fn.table(sum="pay", margin=50)]), unit)
    with refused("data.sum-within-unit-amount-range-invalid"):
        open_counter(pd.DataFrame({"person": ["p"], "pay": [1.0]}), domain.axes, DataSource(), unit.bound)


def test_units_that_are_other_persons_pay_as_if_nothing_were_added_up():
    original, other = (
        order(SECTORS, unit=fn.PrivacyUnit("person", 2, id="pid")),
        fn.PrivacyUnit("home", id="h", sum_within_unit=["x"]),
    )
    assert original.adjacency.for_unit(other) is original.adjacency.for_unit(replace(other, sum_within_unit=())) is None
    promised = fn.PrivacyUnit("home", 3)
    assert (
        original.adjacency.for_unit(other, promised)
        == original.adjacency.for_unit(replace(other, sum_within_unit=()), promised)
        is not None
    )


def test_further_units_of_the_same_name_add_up_the_same():
    unit = fn.PrivacyUnit("person", id="person", sum_within_unit=["turnover"])
    fn.Publication(SUMS, unit, other_units=(replace(unit, neighbours=REPLACE),))
    with refused("spec.units-look-alike"):
        fn.Publication(SUMS, unit, other_units=(replace(unit, neighbours=REPLACE, sum_within_unit=()),))


# --- from a specification to a release --------------------------------------------------------------------------------

SPEC = """
[data]
source = "till"

[privacy]
unit = "customer"
id = "card"
sum_within_unit = ["turnover"]

[domain.shop]
type = "categorical"
codes = ["a", "b"]

[domain.turnover]
type = "amount"
low = 0
high = 1000

[[tables]]
attributes = ["shop"]
margin = 10

[[tables]]
attributes = ["shop"]
sum = "turnover"
margin = 5000

[[privacy.other_units]]
unit = "customer"
max_records = 1
neighbours = "replace-one"
"""


@pytest.fixture(scope="module")
def plan():
    return fn.plan(fn.Spec.from_toml(SPEC).publication(), gap=1e-3)


def transactions():
    """400 customers with five purchases each of 30 in one shop, and one with 9,000 of 1."""
    cards = np.repeat([f"c{i}" for i in range(400)], 5)
    rows = pd.DataFrame({"card": cards, "shop": np.repeat(["a", "b"], 1000), "turnover": 30.0})
    return pd.concat([rows, pd.DataFrame({"card": ["busy"] * 9000, "shop": "a", "turnover": 1.0})])


@pytest.mark.no_cover
@pytest.mark.parametrize("sealed", [False, True])
def test_transactions_become_customers_in_a_release_that_verifies(plan, sealed, tmp_path, without_noise):
    publication = plan.publication
    assert fn.Spec.from_publication(publication).publication() == publication
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    assert json.loads(plan.to_json())["spec"]["privacy"]["sum_within_unit"] == ["turnover"]
    data = transactions()
    if sealed:
        data = fn.count(plan, data, tmp_path / "counts", unsealed=True)
    release = fn.release(plan, data, ledger=tmp_path / "l.db", directory=tmp_path / "r")
    np.testing.assert_allclose(release["shop"]["value"], [201, 200], rtol=1e-9)
    np.testing.assert_allclose(release["shop by turnover sum"]["value"], [200 * 150 + 1000, 200 * 150], rtol=1e-9)
    assert fn.verify(tmp_path / "r").ok
    document = json.loads((tmp_path / "r" / "release.json").read_text())
    sentence = "records of one customer that agree in all else become one, with their turnover added up"
    assert document["charge"]["privacy_unit"] == {"id": "report.unit.add_or_remove_one", "unit": "customer"}
    assert sentence in in_words(document["charge"]["records"])
    check_no_sentences(document)
    assert all(sentence in in_words(t["universe"][2]) for t in document["tables"])
    for report in (plan_report(plan), release_report(release)):
        assert sentence in "\n".join(lines(report))
    assert sentence[1:] in as_yaml(registry_record(release))
    german = "die in allem anderen übereinstimmen, werden einer; addiert werden ihre Werte von turnover"
    for source in (plan, release):
        for language, text in (("en", sentence), ("de", german)):
            page = fn.report(source, tmp_path / "page.html", language=language).read_text(encoding="utf-8")
            assert text in page
            (tmp_path / "page.html").unlink()
    with fn.Ledger(tmp_path / "l.db") as ledger:
        assert {a.sentence for a in ledger.accounts()} == {f"one customer (by 'card'), {n}" for n in fn.Neighbours}


def test_a_release_that_claims_other_sums_does_not_verify(plan, tmp_path):
    fn.release(plan, transactions(), ledger=tmp_path / "l.db", directory=tmp_path / "r")
    path = tmp_path / "r" / "release.json"
    text = path.read_text()
    for old, new in (
        ('"amounts": [\n     "turnover"', '"amounts": [\n     "shop"'),
        ("report.records.merged", "report.records.chosen"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        assert not fn.verify(tmp_path / "r").ok
    path.write_text(text)
    assert fn.verify(tmp_path / "r").ok


def test_data_that_are_counted_otherwise_than_was_planned_are_refused(plan, tmp_path):
    """Transactions instead of customers, and the reverse; nothing is charged."""
    unmerged = fn.plan(
        replace(plan.publication, unit=replace(plan.publication.unit, sum_within_unit=()), other_units=()), gap=1e-3
    )
    counts = [fn.count(p, transactions(), tmp_path / f"{i}", unsealed=True) for i, p in enumerate((plan, unmerged))]
    for p, data in ((plan, counts[1]), (unmerged, counts[0])):
        with refused("data.counts-of-another-plan"):
            fn.release(p, data, ledger=tmp_path / "l.db")
    opened = open_counter(
        transactions(), unmerged.publication.domain.axes, unmerged.publication.source, unmerged.order.unit.bound
    )
    with fn.Ledger(":memory:") as ledger, refused("data.bound-differs"):
        measuring.measure(plan.order, opened, ledger)


def test_cells_of_what_is_added_up_are_those_of_the_coding():
    fields = {"t": statements.Field(DOMAIN["turnover"].coding, ColumnKind.DOUBLE, "source.t")}
    read = statements.PersonColumn(ColumnKind.TEXT, "source.p", ("t",), 1, NO_PATTERN, ("t",)).read(fields)["t"]
    values = list(TURNOVERS)
    assert read.cells(values).tolist() == [DOMAIN["turnover"].coding.uncut().cell_of(v) for v in values]
