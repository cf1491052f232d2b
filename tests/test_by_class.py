"""Amounts whose range goes by another attribute: what is read, counted and charged, releases, and what is refused."""

import contextlib
import hashlib
import io
import itertools
import json
import math
import sqlite3
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from designs import of_sectors
from fitnoise.engines import engine_check, open_counter, statements
from fitnoise.engines.dialects import Dialect
from fitnoise.interfaces.render import document
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel.codings import (
    MAX_RANGES,
    MAX_STEPS_FROM_ZERO,
    CodingWithMissing,
    Steps,
)
from fitnoise.kernel.counting import trial
from fitnoise.kernel.counting._base import ProgressFilter
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.domain import axis_key
from fitnoise.kernel.order import Order
from fitnoise.kernel.units import NO_PATTERN, DataSource, OutsideDomain, PrivacyUnit, RecordBound
from fitnoise.messages import english, rule_messages
from fitnoise.planning.examples import examples
from fitnoise.reading.registry import registry_record
from fitnoise.request.attributes import attribute_document
from laws.counting import leaks_nothing
from laws.releases import released
from records import Records
from refused import refused
from test_amounts import moments, shift
from test_databases import DUCKDB, in_duckdb

DROP = OutsideDomain.DROP

HIGHS = {"small": 2, "middle": 20, "large": 100, "none": 4}
SIZE = fn.Categorical(["small", "middle", "large"], missing={"none": ["?"]}, if_outside="drop")
SALES = fn.Amount(0, fn.ByAttribute("size", HIGHS), missing={"gone": [-9]}, if_missing="gone", valid=(-500, 500))
DOMAIN = fn.Domain(sales=SALES, size=SIZE, sex=fn.Categorical(["f", "m"]))
SOURCES = [name for name in zoo.COUNTERS if not name.startswith("histogram") and name != "csv lake"]
"""All except one that has the first column in names of folders, which hold texts."""


def step_of(high, x):
    """Return the step, with fractions: of the steps of the smallest range, two, the nearest, half-way the larger."""
    return math.floor(min(max(Fraction(x), 0), high) / Fraction(high, 2) + Fraction(1, 2))


# --- what is declared -----------------------------------------------------------------------------------------------


def test_a_number_is_read_in_the_range_of_its_class():
    read = DOMAIN.cells
    assert [read({"sales": x, "size": "large", "sex": "f"})["sales"] for x in (-1, 24.9, 25, 74.9, 75, 1000)] == [
        0, 0, 1, 1, 2, None
    ]  # fmt: skip
    assert [read({"sales": 1.9, "size": s, "sex": "f"})["sales"] for s in (*HIGHS, "?", "x", None)] == [
        2, 0, 0, None, 1, None, None
    ]  # fmt: skip
    assert read({"sales": "-9", "size": "small"}) == {"sales": 3, "size": 0, "sex": None}
    assert (DOMAIN["sales"].size, DOMAIN["sales"].steps, DOMAIN["sales"].range_attribute) == (3, (2,), "size")
    assert english(*rule_messages(DOMAIN["sales"].coding_rules)) == (
        "the range depends on size; values outside it count as its ends; small: 0 to 2 in steps of 1; "
        "middle: 0 to 20 in steps of 10; large: 0 to 100 in steps of 50; none: 0 to 4 in steps of 2; "
        "codes of missing values are read as such"
    )
    assert [DOMAIN["sales"].largest(None), DOMAIN["sales"].upper_limit(None)] == [100, 2]
    with pytest.raises(AssertionError):
        DOMAIN["sales"].cell(1)  # it cannot be read alone


def test_of_ranges_in_order_and_by_name_the_documents_are_the_same():
    by_name = fn.Domain(
        a=fn.Amount(fn.ByAttribute("b", {2: -3, 1: -1}), fn.ByAttribute("b", [2, 6], None)), b=fn.Ordered(1, 2)
    )
    listed = fn.Domain(
        a=fn.Amount(fn.ByAttribute("b", [-1, -3]), fn.ByAttribute("b", {"1": 2}, default=6)), b=fn.Ordered(1, 2)
    )
    assert by_name == listed
    assert by_name["a"].exact == listed["a"].exact
    document = attribute_document(by_name["a"])
    assert document["low"] == {"by": "b", "values": [-1.0, -3.0]}
    assert document["high"] == {"by": "b", "values": [2.0, 6.0]}
    assert by_name["a"].own_values == (-1, 2)
    other = fn.Domain(a=fn.Amount(fn.ByAttribute("b", [-1, -3]), fn.ByAttribute("b", [3, 9])), b=fn.Ordered(1, 2))
    assert attribute_document(other["a"]) != document


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: fn.Domain(a=SALES), "domain.range-attribute-invalid"),
        (lambda: fn.Domain(a=SALES, size=fn.Amount(0, 1)), "domain.range-attribute-invalid"),
        (lambda: fn.Domain(size=SALES), "domain.range-attribute-invalid"),
        (lambda: fn.Domain(a=SALES, size=fn.Categorical(["small"])), "domain.by-value-unknown"),
        (
            lambda: fn.Domain(a=fn.Amount(0, fn.ByAttribute("b", {"1": 3})), b=fn.Ordered(1, 3)),
            "domain.by-value-incomplete",
        ),
        (
            lambda: fn.Domain(a=fn.Amount(0, fn.ByAttribute("b", [3])), b=fn.Ordered(1, 3)),
            "domain.by-value-count",
        ),
        (lambda: fn.Amount(fn.ByAttribute("a", [1]), fn.ByAttribute("b", [3])), "domain.range-by-two-attributes"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [3, 6]), ceilings=[1]), "domain.ceilings-with-classes"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [3, 0])), "domain.class-range-empty"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [3, 6]), step=-1), "domain.class-range-empty"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [3, "x"])), "domain.amount-number-invalid"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [3, 10])), "domain.class-steps-invalid"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [3, 5]), step=2), "domain.class-steps-invalid"),
        (lambda: fn.Amount(1, fn.ByAttribute("a", [3, 5])), "domain.class-starts-differ"),
        (lambda: fn.Amount(fn.ByAttribute("a", [0.5, 1]), fn.ByAttribute("a", [2.5, 5])), "domain.class-starts-differ"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [3, 600]), valid=(0, 500)), "domain.class-steps-invalid"),
        (lambda: fn.Amount(0, fn.ByAttribute("a", [*range(1, MAX_RANGES + 2)])), "domain.too-many-ranges"),
        (
            lambda: fn.Amount(0, fn.ByAttribute("a", [3, 600]), missing={"none": [300]}),
            "domain.missing-code-is-value",
        ),
        (
            lambda: Steps(Fraction(0), Fraction(2), Fraction(1), attribute="a", classes=(one_range(3),)),
            "domain.class-steps-differ",
        ),
        (
            lambda: Steps(Fraction(1), Fraction(4), Fraction(1), attribute="a", classes=(one_range(3),)),
            "domain.class-steps-differ",
        ),
        (
            lambda: Steps(
                Fraction(0), Fraction(3), Fraction(1), attribute="a", classes=(one_range(3, (Fraction(1),)),)
            ),
            "domain.class-range-invalid",
        ),
        (lambda: DOMAIN["sales"].upper_limit(2), "domain.ceiling-not-declared"),
        (lambda: fn.ByAttribute("a", {1: 2, "1": 3}), "workload.by-value-repeated"),
    ],
)
def test_ranges_that_cannot_be_are_refused(make, why):
    with refused(why):
        make()


def test_a_ceiling_of_a_range_by_class_is_refused_without_offering_one():
    with refused("domain.ceiling-not-declared") as caught:
        DOMAIN["sales"].upper_limit(DOMAIN["sales"].upper_limit(None))
    assert "has no ceilings. Remove the ceiling, or declare one range for all." in str(caught.value)


def one_range(max_steps, ceilings=()):
    return Steps(Fraction(0), Fraction(max_steps), Fraction(1), ceilings=ceilings)


def test_a_hundred_different_ranges_may_be():
    several = fn.Domain(a=fn.Amount(0, fn.ByAttribute("b", [*range(1, 101)] * 2)), b=fn.Ordered(1, 200))
    assert len(several["a"].coding.ranges) == MAX_RANGES
    assert sorted(c for _, cells in several["a"].coding.ranges for c in cells) == list(range(200))


def test_codes_of_missing_values_next_to_ends_that_no_double_equals():
    """0.3 and 0.1 differ from the doubles that stand for them; a code is compared with the decimals."""
    domain = fn.Domain(
        a=fn.Amount(0, fn.ByAttribute("b", [0.3, 0.6]), step=0.1, missing={"gone": [-9, 1]}, if_missing="gone"),
        b=fn.Ordered(0, 1),
        c=fn.Amount(0.1, 10.1, missing={"gone": [0, 11]}),
    )
    assert [domain.cells({"a": x, "b": 1, "c": y}) for x, y in ((1, 0), (0.6, 10.1), (None, 0.1))] == [
        {"a": 4, "b": 1, "c": 11}, {"a": 3, "b": 1, "c": 10}, {"a": 4, "b": 1, "c": 0}
    ]  # fmt: skip
    for code in (1, 10):
        with refused("domain.missing-code-is-value"):
            fn.Amount(0.1, 10.1, missing={"gone": [code]})


def test_before_it_is_in_a_domain_an_amount_has_its_cells_and_no_ranges():
    amount = fn.Amount(0, fn.ByAttribute("size", {"small": 1}), missing={"gone": [-9]})
    assert (amount.size, amount.range_attribute, amount.values) == (3, "size", (0, 1, "gone"))
    assert fn.Ordered(0, 3).coding.for_class(7) == fn.Ordered(0, 3).coding


# --- counting -------------------------------------------------------------------------------------------------------

VALUES = (0.0, 0.9, 1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 9.9, 10.0, 25.0, 74.9, 75.0, 400.0, -3.0, -9.0, 501.0, None, 1e308)


def people(sizes=("small", "middle", "large", "?", "other")):
    rows = [(x, size, "fm"[i % 2]) for i, (x, size) in enumerate(itertools.product(VALUES, sizes))]
    return {a: list(column) for a, column in zip(("sales", "size", "sex"), zip(*rows, strict=True), strict=True)}


def inside_cells(domain, values):
    """The cells of the records that are inside, by the definition."""
    columns = {domain.column(a): values[a] for a in values}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    row_cells = [cells for cells in map(domain.cells, rows) if None not in cells.values()]
    return {a: np.array([cells[a] for cells in row_cells], dtype=int) for a in domain}


def check(counter, domain, values):
    """Check all margins in one count, and each set of attributes in a count of its own."""
    margins = [m for k in range(len(domain) + 1) for m in itertools.permutations(domain, k)]
    inside = inside_cells(domain, values)
    for requests in [margins, *([m] for m in {frozenset(m): m for m in margins}.values())]:
        for m, table in counter.count(requests).items():
            assert np.array_equal(table, moments(domain, inside, m)), m


def test_the_definition_is_that_of_fractions():
    values = people()
    inside = inside_cells(DOMAIN, values)
    expected = []
    for x, size in zip(values["sales"], values["size"], strict=True):
        if size != "other" and (x is None or abs(x) <= 500):
            expected.append(3 if x in {None, -9.0} else step_of(HIGHS["none" if size == "?" else size], x))
    assert inside["sales"].tolist() == expected


@pytest.mark.no_cover
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_reads_amounts_in_the_range_of_their_class(source, tmp_path, one_engine):
    counter = zoo.COUNTERS[source]
    values = people()
    records = Records(DOMAIN, values, {"sales": "double", "size": "string", "sex": "string"})
    where = DataSource(table=counter.table, outside_domain=DROP)
    check(open_counter(counter.make(records, tmp_path), DOMAIN.axes, where), DOMAIN, values)


CLASSES = {
    "whole numbers": (fn.Ordered(0, 3), [0, 1, 2, 3, 4, None], [2, 20, 100, 4]),
    "many integer codes": (fn.Categorical([*range(70)]), [0, 1, 69, 70], [2] * 30 + [20] * 39 + [100]),
    "many texts": (fn.Categorical([f"c{i}" for i in range(70)]), ["c0", "c69", "x"], [2] * 30 + [20] * 39 + [100]),
    "truth": (fn.Categorical([True, False]), [True, False, None], [2, 20]),
    "bins of the amount": (fn.Binned([1, 10], column="sales"), None, [2, 20, 100]),
    "one range": (fn.Ordered(0, 1), [0, 1, 2], [2, 2]),
    "the year of a date": (
        fn.Ordered(2020, 2022, date_part="year"),
        ["2020-05-01", "2022-12-31", "1999-01-01"],
        [2, 20, 4],
    ),
    "looked up": (
        fn.Categorical(["s", "l"], lookup={"A": "s", "B": "s", "C": "l"}),
        ["A", "B", "C", "D"],
        [2, 20],
    ),
}


@pytest.mark.no_cover
@pytest.mark.parametrize(("source", "name"), [*itertools.product(["frame", "csv", "sqlite"], CLASSES)])
def test_classes_of_every_kind(name, source, tmp_path, one_engine):
    attribute, held, highs = CLASSES[name]
    domain = fn.Domain(
        size=attribute, sales=fn.Amount(0, fn.ByAttribute("size", highs), missing={"gone": [-9]}, if_missing="gone")
    )
    if held is None:
        values = {"sales": [x for x in VALUES if x is not None]}
        values["size"] = values["sales"]
    else:
        pairs = list(itertools.product(VALUES, held))
        values = {"sales": [x for x, _ in pairs], "size": [s for _, s in pairs]}
    frame = pd.DataFrame({domain.column(a): values[a] for a in values})
    if name == "whole numbers" and source == "frame":
        frame["size"] = frame["size"].astype("Int64")
    path = {"frame": frame, "csv": tmp_path / "x.csv", "sqlite": tmp_path / "x.sqlite"}[source]
    if source == "csv":
        frame.to_csv(path, index=False)
    elif source == "sqlite":
        with contextlib.closing(sqlite3.connect(path)) as db:
            frame.to_sql("people", db, index=False, dtype={"size": "BOOLEAN"} if name == "truth" else None)
    counter = open_counter(path, domain.axes, DataSource(table="people", outside_domain=DROP))
    counter.check(["sales"])
    check(counter, domain, values)


@pytest.mark.no_cover
@pytest.mark.parametrize("highs", [[2, 2, 2], [2, 20, 2]])
@pytest.mark.parametrize("codes", [[1, 2], [*range(1, 71)]])
@pytest.mark.parametrize("missing", [None, {"none": [-9]}])
def test_classes_that_are_looked_up_here_are_looked_at_there_where_ranges_differ(highs, codes, missing, one_engine):
    """Detects lists of codes that the engine is given, and that no statement calls by name."""
    size = fn.Categorical(codes, missing=missing)
    class_highs = [*highs[:1], *[highs[1]] * (size.size - 2), highs[2]]
    domain = fn.Domain(size=size, sales=fn.Amount(0, fn.ByAttribute("size", class_highs)))
    values = {"size": [1, 2, codes[-1], -9, 99], "sales": [1.0, 2.0, 20.0, 1.0, 1.0]}
    counter = open_counter(pd.DataFrame(values), domain.axes, DataSource(outside_domain=DROP))
    check(counter, domain, values)


def test_classes_are_read_where_no_table_shows_them(one_engine):
    """Detects amounts whose class is read only if its margin is requested."""
    values = people(("small", "large"))
    counter = open_counter(pd.DataFrame(values), DOMAIN.axes, DataSource(outside_domain=DROP))
    counts = counter.count([("sales",)])["sales",]
    assert np.array_equal(counts, moments(DOMAIN, inside_cells(DOMAIN, values), ("sales",)))


def test_a_class_outside_the_domain_is_reported_and_the_amount_is_not(one_engine):
    domain = fn.Domain(sales=fn.Amount(0, fn.ByAttribute("size", [2, 20])), size=fn.Categorical(["s", "m"]))
    frame = pd.DataFrame({"sales": [1.0, 5.0, 7.0], "size": ["s", "Xk7secret", "m"]})
    with refused("data.records-outside-domain") as caught:
        open_counter(frame, domain.axes, DataSource()).count([("sales",)])
    assert "'sales'" not in str(caught.value)
    leaks_nothing(caught.value)
    with refused("data.column-missing"):
        open_counter(frame[["sales"]], domain.axes, DataSource()).check(["sales"])


@pytest.mark.parametrize("max_records", [1, 3])
@pytest.mark.parametrize("merge", [(), ("sales",)])
@pytest.mark.parametrize("source", ["frame", "sqlite"])
def test_records_of_a_person_are_chosen_and_added_up_in_steps_of_their_class(
    source, merge, max_records, tmp_path, one_engine
):
    rng = np.random.default_rng(3)
    n = 120
    sizes = np.array(["small", "middle", "large", "?"])[rng.integers(4, size=n)]
    frame = pd.DataFrame(
        {
            "sales": np.where(rng.random(n) < 0.1, -9.0, np.round(rng.normal(10, 30, n), 1)),
            "size": sizes,
            "sex": np.array(["f", "m"])[rng.integers(2, size=n)],
            "who": [f"p{i % 6}" for i in range(n)],
        }
    )
    path = tmp_path / "x.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        frame.to_sql("people", db, index=False)
    counter = open_counter(
        frame if source == "frame" else path,
        DOMAIN.axes,
        DataSource(table="people", outside_domain=DROP),
        RecordBound("who", max_records, NO_PATTERN, merge),
    )
    expected = of_persons(frame, merge, max_records)
    for m in [("sales", "size", "sex"), ("sales",), ("size",), ()]:
        assert np.array_equal(counter.count([m])[m], moments(DOMAIN, expected, m))


def of_persons(frame, merge, max_records):
    """An independent reading of the rule: in plain Python, with fractions."""
    people = {}
    for row in frame.to_dict("records"):
        size, sex = ["small", "middle", "large", "?"].index(row["size"]), "fm".index(row["sex"])
        high = list(HIGHS.values())[size]
        missing = row["sales"] == -9.0
        steps = math.floor(Fraction(row["sales"]) / Fraction(high, 2) + Fraction(1, 2))
        key = (missing, size, sex) if merge else (len(people.get(row["who"], {})), size, sex, missing)
        people.setdefault(row["who"], {}).setdefault(key, []).append(3 if missing else steps)
    out = []
    for who, groups in people.items():
        records = []
        for key, steps in groups.items():
            size, sex, missing = (key[1], key[2], key[0]) if merge else key[1:]
            records.append((3 if missing else min(max(sum(steps), 0), 2), size, sex))
        texts = ["".join(f"{c + 1}/" for c in cells) + who for cells in records]
        line = sorted(zip((hashlib.md5(x.encode()).hexdigest() for x in texts), records, strict=True))  # noqa: S324
        out += [cells for _, cells in line][:max_records]
    return {a: np.array([r[i] for r in out], dtype=int) for i, a in enumerate(DOMAIN)}


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("sets", [True, False])
def test_statements_of_databases_read_amounts_in_the_range_of_their_class(sets, persons):
    d = replace(DUCKDB, sets=sets, bytes="octet_length({c})", digest="md5({x})")
    values = people()
    rows = enumerate(zip(*values.values(), strict=True))
    values_text = ", ".join(f"({'NULL' if x is None else repr(x)}, '{s}', '{sex}', 'p{i}')" for i, (x, s, sex) in rows)
    relation = f"(SELECT * FROM (VALUES {values_text}) AS t(sales, size, sex, who))"
    kinds = {"sales": ColumnKind.DOUBLE, "size": ColumnKind.TEXT, "sex": ColumnKind.TEXT}
    fields = {a: statements.Field(DOMAIN[a].coding, k, f"source.{a}") for a, k in kinds.items()}
    person = (
        statements.PersonColumn(ColumnKind.TEXT, "source.who", list(DOMAIN), 1, merge=("sales",)) if persons else None
    )
    for m in [("sales", "size", "sex"), ("sales",)]:
        counted, _ = statements.count(
            in_duckdb(), d, relation, fields, [m], ProgressFilter(None), drop=True, person=person
        )
        assert np.array_equal(counted[m], moments(DOMAIN, inside_cells(DOMAIN, values), m))


@pytest.mark.parametrize("highs", [[2, 20, 4], [2, 2, 2]])
@pytest.mark.parametrize("sets", [True, False])
def test_statements_read_classes_off_dates_of_records_that_meet_conditions(sets, highs, one_engine):
    """Detects an invalid date that nevertheless has a class, and amounts read before what is read off is."""
    domain = fn.Domain(
        sales=fn.Amount(0, fn.ByAttribute("year", highs)),
        year=fn.Ordered(2020, 2021, date_part="year", missing={"none": []}, if_missing="none", column="day"),
    )
    days = (None, "2020-05-01", "2021-12-31", "1999-01-01")
    rows = list(itertools.product([x for x in VALUES if x is not None], days, "fm"))
    values = {a: list(column) for a, column in zip(("sales", "day", "sex"), zip(*rows, strict=True), strict=True)}
    source = DataSource(outside_domain=DROP, where={"sex": "f"})
    matching = inside_cells(domain, {"sales": values["sales"][::2], "year": values["day"][::2]})
    dates = {day: "NULL" if day is None else f"DATE '{day}'" for day in days}
    rows_text = ", ".join(f"({x!r}, {dates[day]}, '{sex}')" for x, day, sex in rows)
    relation = f"(SELECT * FROM (VALUES {rows_text}) AS t(sales, day, sex))"
    fields = {
        "sales": statements.Field(domain["sales"].coding, ColumnKind.DOUBLE, "source.sales"),
        "year": statements.Field(domain["year"].coding, ColumnKind.DATE, "source.day", domain["year"].derived),
    }
    conditions = [statements.Field(source.conditions[0].coding, ColumnKind.TEXT, "source.sex")]
    d, margins = replace(DUCKDB, sets=sets), [("sales",), ("year", "sales")]
    for applied, inside in ((conditions, matching), ([], {a: np.repeat(x, 2) for a, x in matching.items()})):
        prepared, rest, _ = statements.prepared(d, relation, applied, fields, None)
        counted, _ = statements.count(in_duckdb(), d, prepared, rest, margins, ProgressFilter(None), drop=True)
        for m in margins:
            assert np.array_equal(counted[m], moments(domain, inside, m))
    counts = open_counter(pd.DataFrame(values), domain.axes, source).count(margins)
    for m in margins:
        assert np.array_equal(counts[m], moments(domain, matching, m))


def test_a_statement_grows_with_the_number_of_classes_and_not_with_its_square():
    """Detects classes that are looked up again for every range: ClickHouse takes statements of 256 KiB."""

    def length(classes):
        domain = fn.Domain(
            size=fn.Categorical([f"class {i:03}" for i in range(classes)]),
            sales=fn.Amount(0, fn.ByAttribute("size", [1000 + i for i in range(classes)]), step=1000),
        )
        fields = {
            "size": statements.Field(domain["size"].coding, ColumnKind.TEXT, "source.size"),
            "sales": statements.Field(domain["sales"].coding, ColumnKind.DOUBLE, "source.sales"),
        }
        return len(statements.statement(DUCKDB, "people", fields, [tuple(fields)], drop=True))

    assert length(MAX_RANGES) < 12 * length(MAX_RANGES // 10)


@pytest.mark.slow
def test_an_engine_is_tried_on_classes_before_it_sums_amounts(monkeypatch):
    """Detects an engine that reads all records in the range of the first class, or in those of others.

    The complete trial includes that of this coding.
    """
    monkeypatch.setattr(trial, "CODINGS", {"words": trial.CODINGS["words"]})
    monkeypatch.setattr(trial, "AMOUNTS", {name: trial.AMOUNTS[name] for name in ("class", "amount by class")})
    tried = partial(engine_check.refuse_unless_right, in_duckdb(), DUCKDB, "the database", drop=True, amounts=True)
    tried()
    key_by = Dialect.key_by
    for flaw in (
        lambda d, coding, kind, column, cell: d.key(coding.for_class(0), kind, column),
        lambda d, coding, kind, column, cell: key_by(d, coding, kind, column, f"({cell}) + 1"),
    ):
        monkeypatch.setattr(Dialect, "key_by", flaw)
        with refused("data.engine-counts-differently"):
            tried()


def test_amounts_are_added_up_in_steps_of_their_class():
    coding = DOMAIN["sales"].coding
    extended = coding.uncut()
    assert isinstance(extended, CodingWithMissing)
    for cell, high in enumerate(HIGHS.values()):
        assert extended.for_class(cell).cell(float(high)) == MAX_STEPS_FROM_ZERO + 2
        assert extended.for_class(cell).cell(-9.0) == 2 * MAX_STEPS_FROM_ZERO + 1
        assert coding.for_class(cell).cell(float(high)) == 2
    assert [cells for _, cells in extended.ranges] == [[0], [1], [2], [3]]


# --- what a record costs --------------------------------------------------------------------------------------------


def planned(tables, domain=DOMAIN, **options):
    return fn.plan(fn.Workload(domain, tables), gap=1e-6, **options)


def test_no_record_of_any_class_costs_more_than_its_ends():
    """Detects a price that holds at the ends of one class only: every step of every class, by replay."""
    plan = planned(
        [
            fn.table("size", sum="sales", std_error=fn.ByAttribute("size", HIGHS)),
            fn.table("sex", sum="sales", std_error=90),
            fn.table("size", margin=3),
        ]
    )
    (design,) = plan.order.designs
    records = [(j, size, sex) for j in range(4) for size in range(4) for sex in range(2)]
    domain = fn.Domain({a: DOMAIN[a] for a in DOMAIN})
    costs = {r: shift(design, domain, [r]) for r in records}
    assert max(costs.values()) == plan.table_part.exact_cost
    assert max(costs.values()) == max(x for (j, *_), x in costs.items() if j != 1)


def test_records_at_different_ends_by_the_classes_of_two_releases_pay_for_both():
    """Detects ranges that are taken for the same where their classes are others, in what releases cost together."""

    def order(sizes, row):
        domain = fn.Domain(sales=fn.Amount(0, fn.ByAttribute("size", [2, 20])), size=sizes)
        cells = CellStructure((), (("sales", 2), ("size", 2)), (("sales", (2,)),))
        strategy = of_sectors(cells, ([np.repeat(row, 2).tolist()], {(): ([[1]], 1)}))
        return Order(domain.axes, DataSource(), PrivacyUnit(), (strategy,), "0" * 64, "gaussian")

    one = order(fn.Categorical(["s", "l"]), [0, 2])
    for sizes in (
        fn.Categorical(["l", "s"]),
        fn.Categorical(["s", "l"], column="other"),
        fn.Categorical(["s", "l"], lookup={"s": "l", "l": "s"}),
        fn.Categorical(["s"], missing={"none": ["l"]}),
    ):
        other = order(sizes, [2, 0])
        record = {"sales": 2, "size": "s", "other": "l"}
        cost = Fraction(0)
        for release_order in (one, other):
            cells = release_order.domain.cells(record)
            cost += shift(*release_order.designs, release_order.domain, [tuple(cells.values())]) / 2
        assert (other.ledger_loss() + one.ledger_loss()).rho == 4 >= cost
        assert axis_key(other.domain, "sales") != axis_key(one.domain, "sales")
    swapped = order(fn.Categorical(["s", "l"]), [2, 0])
    assert (swapped.ledger_loss() + one.ledger_loss()).rho == 2
    assert axis_key(swapped.domain, "sales") == axis_key(one.domain, "sales")


CLASSES_OF_FIRMS = {"small": 1, "middle": 10, "large": 100, "huge": 1000}


def firms(high):
    return fn.Domain(turnover=fn.Amount(0, high, step=0.001), size=fn.Categorical(list(CLASSES_OF_FIRMS)))


def test_each_class_pays_for_its_own_range():
    """Four classes, each to one record at its own high: Δ² = 1; with one range 10⁶."""
    sums = fn.table("size", sum="turnover", std_error=fn.ByAttribute("size", CLASSES_OF_FIRMS))
    by_class = planned([sums], firms(fn.ByAttribute("size", CLASSES_OF_FIRMS)))
    assert float(by_class.table_part.exact_cost) == pytest.approx(1, abs=1e-4)
    one = planned([sums], firms(1000))
    assert float(one.table_part.exact_cost) == pytest.approx(1e6, rel=1e-4)
    total = planned([fn.table(sum="turnover", std_error=1000)], firms(fn.ByAttribute("size", CLASSES_OF_FIRMS)))
    assert float(total.table_part.exact_cost) == pytest.approx(1, abs=1e-4)


def test_interchangeable_classes_cost_the_same_as_one_range():
    sums = [fn.table("size", sum="turnover", margin=20), fn.table(sum="turnover", margin=9)]
    one, same = (planned([*sums, fn.table("size", margin=5)], firms(x)) for x in (50, fn.ByAttribute("size", [50] * 4)))
    assert float(same.table_part.exact_cost) == pytest.approx(float(one.table_part.exact_cost), rel=1e-5)


# --- plans and releases ---------------------------------------------------------------------------------------------


SPEC = """
[domain.size]
type = "categorical"
codes = ["small", "large"]
[domain.turnover]
type = "amount"
low = 0
high = { by = "size", values = { small = 1_000, large = 1_000_000 } }
missing = { "not stated" = [-1] }
if_missing = "not stated"
[[tables]]
attributes = ["size"]
sum = "turnover"
margin = { by = "size", values = { small = 20_000, large = 20_000_000 } }
[[tables]]
attributes = ["size"]
count = "turnover"
margin = 20
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path / "spec.toml"


def test_a_specification_says_ranges_by_class(spec):
    publication = fn.load_spec(spec)
    amount = publication.workload.domain["turnover"]
    assert amount.high == fn.ByAttribute("size", (1_000, 1_000_000))
    rows = document(plan_report(fn.plan(publication)))["amounts"]
    assert [(row["table"], row["largest"], row["asked_kappa"]) for row in rows] == [
        ("size by turnover sum: small", 1_000, pytest.approx(20)),
        ("size by turnover sum: large", 1_000_000, pytest.approx(20)),
    ]


def test_sums_and_means_by_class_of_a_release(spec, tmp_path):
    """Values, labels, words in every file; and all of it checked."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"size": rng.choice(["small", "large"], 5000, p=[0.8, 0.2])})
    high = frame["size"].map({"small": 1_000, "large": 1_000_000})
    frame["turnover"] = (high * rng.beta(1, 3, 5000) * 1.3).round(2)
    frame.loc[rng.random(5000) < 0.05, "turnover"] = np.nan
    release = fn.release(fn.plan(fn.load_spec(spec)), frame, ledger=tmp_path / "l.sqlite", directory=tmp_path / "out")
    assert fn.verify(tmp_path / "out").ok
    cut = np.minimum(frame["turnover"], high).groupby(frame["size"])
    sums = release.total("turnover", by="size").frame().set_index("size")
    for size in ("small", "large"):
        assert abs(sums.loc[size, "value"] - cut.sum()[size]) < 6 * sums.loc[size, "std_error"] + 1000
    means = release.mean("turnover", by="size").frame().set_index("size")
    assert ((means["low"] >= 0) & (means["high"] <= 1_000_000)).all()
    low, high = release.mean("turnover", size="large").interval(1 - 1e-9)
    assert low < cut.mean()["large"] < high
    total = release.total("turnover")
    assert total.value == pytest.approx(sums["value"].sum())
    stored = json.loads((tmp_path / "out" / "release.json").read_text(encoding="utf-8"))
    ranges = {"small": (0, 1000, 1), "large": (0, 1_000_000, 1000)}
    for table in stored["tables"]:
        coded = [x for x in table["coded"]["turnover"] if x["id"] == "report.coding.class"]
        assert {x["classes"]: (x["low"], x["high"], x["step"]) for x in coded} == ranges
    range_text = "small: 0 to 1000 in steps of 1; large: 0 to 1000000 in steps of 1000"
    assert range_text in str(registry_record(release))


def test_examples_are_of_the_range_of_their_class(spec):
    text = examples(fn.load_spec(spec), 300)
    rows = pd.read_csv(io.StringIO(text))
    assert rows.loc[rows["size"] == "small", "turnover"].max() <= 1_000
    assert rows.loc[rows["size"] == "large", "turnover"].max() > 500_000
    domain = fn.load_spec(spec).workload.domain
    assert all(None not in domain.cells(row).values() for row in rows.drop(columns="example").to_dict("records"))


def test_tables_of_means_by_class_are_refused_with_advice():
    with refused("workload.mean-of-ranges-by-class"):
        fn.Workload(DOMAIN, [fn.table("size", mean="sales", margin=3, reference=100)])


def test_a_series_whose_periods_are_the_classes_of_an_amount_is_refused_before_anything_is_drawn():
    """Detects one that is planned and drawn, and cannot be shown: of the first periods there are other ranges."""
    domain = fn.Domain(
        month=fn.Ordered(1, 3), sales=fn.Amount(0, fn.ByAttribute("month", [2, 2, 20]), if_missing="drop")
    )
    workload = fn.Workload(domain, [fn.table("month", margin=9)])
    with refused("spec.series-unsupported"):
        fn.plan(workload, series="month")


@pytest.mark.parametrize("highs", [[0.000007, 9_999_999_999_991, 1.000003], [0.000007, 99_999_999_991, 1]])
def test_ranges_that_differ_too_much_are_refused(highs):
    """Detects a bound that is above what a matrix of queries may hold, which says nothing of ranges."""
    domain = fn.Domain(a=fn.Amount(0, fn.ByAttribute("b", highs), step=0.000007), b=fn.Ordered(0, 2))
    with refused("workload.class-ranges-too-far-apart"):
        fn.plan(fn.Workload(domain, [fn.table(cumulative="b", sum="a", margin=9)]))


@pytest.mark.parametrize(("releases", "min_coverage"), [(6, 0.6), pytest.param(200, 0.9, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("one_engine", "counted_once", "rehearsed_once")
def test_intervals_of_sums_and_means_hold(releases, min_coverage):
    """Detects coverage of 95 % intervals below `min_coverage`, at 1e-6, and steps that are mistaken for one another."""
    rng = np.random.default_rng(5)
    highs = {"s": 100, "l": 10_000}
    domain = fn.Domain(x=fn.Amount(0, fn.ByAttribute("c", highs)), c=fn.Categorical(list(highs)))
    plan = planned(
        [fn.table("c", sum="x", margin=fn.ByAttribute("c", {"s": 400, "l": 40_000})), fn.table("c", margin=9)], domain
    )
    frame = pd.DataFrame({"c": np.repeat(["s", "l"], [300, 60]), "x": rng.integers(0, 101, 360)})
    frame.loc[frame["c"] == "l", "x"] *= 100
    truth, hits = frame.groupby("c")["x"], []
    for _ in range(releases):
        release = released(plan, frame)
        for estimate, true in ((release.total("x", by="c"), truth.sum()), (release.mean("x", by="c"), truth.mean())):
            low, high = estimate.interval()
            expected = true[estimate.frame()["c"]].to_numpy()
            hits.append((low <= expected) & (expected <= high))
    assert np.mean(hits) > min_coverage
