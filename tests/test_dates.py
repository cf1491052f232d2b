"""Values derived from dates by the calendar; all engines that count records agree."""

import contextlib
import datetime
import itertools
import sqlite3
from calendar import isleap
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from engines import ENGINES, POSTGRESQL
from fitnoise.engines import duck, engine_check, open_counter, sql
from fitnoise.engines.databases import database
from fitnoise.engines.dialects import DIALECTS
from fitnoise.engines.spark import in_spark
from fitnoise.engines.statements import Field, prepared
from fitnoise.kernel.conditions import conditions
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.dates import DateField, DatePart, read
from fitnoise.kernel.domain import axis_key
from fitnoise.kernel.units import DataSource, RecordBound
from fitnoise.messages import english
from fitnoise.reading.description import condition_message
from fitnoise.request.documents import Spec
from laws.counting import DROP, leaks_nothing, same_counts
from records import Records, Sample
from refused import SECRET, refused
from test_databases import DUCKDB, GOLDEN_FILES, in_duckdb, post  # noqa: F401 - a fixture

AGE = {"age_on": "2023-02-28"}
READS = ["year", "quarter", "month", "weekday", "hour", AGE, {"age_on": "2024-02-29"}]

TEXTS = [
    "2000-02-29", "2000-02-28", "2000-03-01", "2023-02-28", "2023-03-01", "2024-02-29", "2024-03-01", "0001-01-01",
    "9999-12-31", "1900-03-01", "1899-12-31", " 2001-01-01 ", "2001-01-01 00:00", "2001-01-01T23:59",
    "2001-01-01 07:59:59",
    "2001-01-01 23:59:59.999999", "2001-01-01 24:00", "2001-01-01 07:60", "2001-01-01 7:00", "2001-01-01 07:00+01",
    "2001-01-01 07:00:00Z", "1900-02-29", "2001-02-29", "2001-13-01", "2001-00-01", "2001-01-32", "2001-1-1",
    "20010101", "01.01.2001", "2001-01-01x", "0000-01-01", "-2001-01-01", "12001-01-01", "", " ", "x", None, SECRET,
    "infinity", "now", "today", "epoch", "\uff12001-01-01", "2001-01-01 07:00:61",
]  # fmt: skip

KINDS = {
    "codes": lambda **options: fn.Categorical([1, 4, 7, 12, 23, 2000, 2001], column="d", **options),
    "range": lambda **options: fn.Ordered(-1, 30, column="d", **options),
    "clipped": lambda **options: fn.Ordered(0, 22, True, "d", **options),
    "bins": lambda **options: fn.Binned([1, 4.5, 22, 1900, 2001], column="d", **options),
    "missing dates": lambda **options: fn.Ordered(
        1, 22, True, "d", missing={"absent": [], "other": [23]}, if_missing="absent", if_outside="other", **options
    ),
    "codes of missing dates": lambda **options: fn.Categorical(
        [1, 2, 4], column="d", missing={"a": [7, 22]}, if_missing="a", **options
    ),
    "bins, missing dates": lambda **options: fn.Binned(
        [1, 22], column="d", missing={"a": []}, if_outside="a", **options
    ),
}


def expected_counts(attribute, values):
    counts = np.zeros(attribute.size, dtype=np.int64)
    for cell in map(attribute.cell, values):
        counts[cell if cell is not None else 0] += cell is not None
    return {("x",): counts}


def counts(data, attribute, **source):
    domain = fn.Domain(x=attribute)
    return open_counter(data, domain.axes, DataSource(outside_domain=DROP, **source)).count([("x",)])


@pytest.fixture
def stamps():
    days = [datetime.datetime(y, m, d, h, 59, 59) for y, m, d, h in DAYS]  # noqa: DTZ001 - without a zone
    return [*days, None]


DAYS = [
    (2000, 2, 29, 0), (2000, 2, 28, 1), (2000, 3, 1, 22), (2023, 2, 28, 23), (2023, 3, 1, 12), (2024, 2, 29, 4),
    (1970, 1, 1, 0), (1969, 12, 31, 7), (2001, 4, 1, 7), (2022, 9, 30, 23), (2001, 1, 1, 0),
]  # fmt: skip


# --- the calendar -----------------------------------------------------------------------------------------------------


@given(st.dates(), st.dates())
def test_an_age_is_the_number_of_birthdays(born, on):
    """Counted one by one: a person born on 29 February has a birthday on 1 March in years without that day."""
    got = DateField(DatePart.AGE, on).number(born)
    if born > on:
        assert got == np.inf
        return

    def birthday(year):
        gone = (born.month, born.day) == (2, 29) and not isleap(year)
        return datetime.date(year, 3, 1) if gone else born.replace(year=year)

    assert got == sum(birthday(y) <= on for y in range(born.year + 1, on.year + 1))


@given(st.dates())
def test_parts_are_those_of_the_calendar(day):
    assert DateField(DatePart.YEAR).number(day) == day.year
    assert DateField(DatePart.MONTH).number(str(day)) == day.month
    assert DateField(DatePart.QUARTER).number(day) == 1 + (day.month - 1) // 3
    assert DateField(DatePart.WEEKDAY).number(day) == day.weekday() + 1
    assert DateField(DatePart.HOUR).number(f"{day} 07:59") == 7
    assert DateField(DatePart.HOUR).number(day) == np.inf


@pytest.mark.parametrize(
    ("born", "on", "age"),
    [
        ("2000-02-29", "2001-02-28", 0), ("2000-02-29", "2001-03-01", 1), ("2000-02-29", "2004-02-28", 3),
        ("2000-02-29", "2004-02-29", 4), ("2000-12-31", "2001-12-30", 0), ("2000-12-31", "2001-12-31", 1),
        ("2024-12-31", "2024-12-31", 0), ("2025-01-01", "2024-12-31", np.inf), ("", "2024-12-31", None),
    ],
)  # fmt: skip
def test_ages_at_the_ends_of_years_and_of_february(born, on, age):
    assert read({"age_on": on}).number(born) == age


# --- the law: all engines agree -------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", ["csv", "tsv", "csv lake", "parquet", "duckdb", "arrow table", "polars",
                                    "pandas objects", "pandas str", "excel", "sqlite"])  # fmt: skip
def test_every_source_reads_texts_as_declared(source, kind, tmp_path, one_engine):
    source_case = zoo.COUNTERS[source]
    sample = Sample(fn.Categorical(["-"], column="d"), "string", [], [])
    held = [x for x in source_case.held(sample, TEXTS) if source != "excel" or x is None or x.strip()]
    records = Records(
        fn.Domain(x=sample.attribute, y=fn.Ordered(0, 1)),
        {"x": held, "y": [0] * len(held)},
        {"x": "string", "y": "int16"},
    )
    data = source_case.make(records, tmp_path)
    # a folder for each text takes most of the time, and no kind reads its name otherwise: each kind reads one part
    parts = READS if source != "csv lake" else [READS[[*KINDS].index(kind)]]
    for part in parts:
        attribute = KINDS[kind](date_part=part)
        same_counts(counts(data, attribute, table=source_case.table), expected_counts(attribute, held))


@pytest.mark.no_cover
@pytest.mark.parametrize("part", READS)
@pytest.mark.parametrize("kind", KINDS)
def test_types_of_dates_are_read_as_the_dates_are(kind, part, stamps, tmp_path, one_engine):
    attribute = KINDS[kind](date_part=part)
    want = expected_counts(attribute, stamps)
    for unit in ("s", "ms", "us", "ns"):
        same_counts(counts(pa.table({"d": pa.array(stamps, pa.timestamp(unit))}), attribute), want)
    same_counts(counts(pd.DataFrame({"d": pd.Series(stamps, dtype="datetime64[us]")}), attribute), want)
    same_counts(counts(pd.DataFrame({"d": pd.Series(stamps, dtype=object)}), attribute), want)
    days = [None if x is None else x.date() for x in stamps]
    typed = [pa.table({"d": pa.array(days, t)}) for t in (pa.date32(), pa.date64())]
    if part == "hour":
        with refused("data.column-of-wrong-type"):
            counts(typed[0], attribute)
        return
    for data in (*typed, pd.DataFrame({"d": pd.Series(days, dtype=object)})):
        same_counts(counts(data, attribute), expected_counts(attribute, days))


SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""The number of units in a second."""


def _arrow(numbers, unit, _):
    return pa.table({"d": pa.array(numbers, pa.int64()).cast(pa.timestamp(unit))})


def _parquet(numbers, unit, folder):
    path = folder / f"{unit}.parquet"
    pq.write_table(_arrow(numbers, unit, folder), path, version="2.6")
    return path


FROM_NUMBERS = {
    "arrow": _arrow,
    "parquet": _parquet,
    "polars": lambda numbers, unit, _: pl.DataFrame({"d": pl.Series(numbers, dtype=pl.Int64).cast(pl.Datetime(unit))}),
    "pandas": lambda numbers, unit, _: pd.DataFrame({"d": np.array(numbers, dtype=f"datetime64[{unit}]")}),
    "pandas objects": lambda numbers, unit, _: pd.DataFrame(
        {"d": pd.Series([pd.Timestamp(n, unit=unit) for n in numbers], dtype=object)}
    ),
}
"""Times by their numbers, of units since 1970, in what is counted."""


def moments():
    """Units, and numbers of them from 1700 to 2200, many of them close to a midnight or an hour."""
    limit = 86_400 * 84_000

    def offsets(unit):
        n = SECOND[unit]
        offset = st.builds(
            lambda count, step, rest: count * step * n + rest,
            st.integers(-1500, 1500),
            st.sampled_from([3600, 86_400, 86_400 * 28]),
            st.sampled_from([-1000, -999, -501, -500, -499, -1, 0, 1, 499, 500, 999]),
        )
        return st.tuples(
            st.just(unit), st.lists(st.one_of(offset, st.integers(-limit * n, limit * n)), min_size=1, max_size=9)
        )

    return st.sampled_from([*SECOND]).flatmap(offsets)


def day_of(number, unit):
    """In Python's integers: the day in which a moment lies, whether before 1970 or after."""
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=number // (86_400 * SECOND[unit]))


@pytest.mark.no_cover
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments(), st.integers(0, 8))
@example(("ns", [1_706_745_599_999_999_999, -1, -(10**9), 86_399_999_999_999, -86_400 * 10**9 - 1, 0]), 0)
def test_a_moment_lies_in_the_day_and_the_hour_that_have_begun(tmp_path, one_engine, moment, i):
    """For every unit, source and century: never in the next day, even if that is nearer."""
    unit, numbers = moment
    bound = day_of(numbers[i % len(numbers)], unit)
    days = [day_of(n, unit) for n in numbers]
    hours = [n // (3600 * SECOND[unit]) % 24 for n in numbers]
    wants = {
        "year": [x.year for x in days],
        "month": [x.month for x in days],
        "weekday": [x.isoweekday() for x in days],
        "hour": hours,
    }
    domain = fn.Domain({part: fn.Ordered(0, 2300, column="d", date_part=part) for part in wants})
    for source, make in FROM_NUMBERS.items():
        if (source, unit) == ("polars", "s"):  # which has no such unit
            continue
        data = make(numbers, unit, tmp_path)
        got = open_counter(data, domain.axes, DataSource()).count([(part,) for part in wants])
        for part, want in wants.items():
            np.testing.assert_array_equal(got[part,], np.bincount(want, minlength=2301), err_msg=part)
        for where, matches in (
            ({"at_most": bound}, sum(x <= bound for x in days)),
            ({"below": bound}, sum(x < bound for x in days)),
            (bound, sum(x == bound for x in days)),
        ):
            assert open_counter(data, domain.axes, DataSource(where={"d": where})).count([()])[()] == matches


@pytest.mark.parametrize("source", FROM_NUMBERS)
def test_the_last_nanosecond_of_january_is_in_january(source, tmp_path):
    """DuckDB alone rounds it to the next microsecond, and so to February."""
    data = FROM_NUMBERS[source]([pd.Timestamp("2024-01-31 23:59:59.999999999").value], "ns", tmp_path)
    domain = fn.Domain(
        m=fn.Ordered(1, 12, column="d", date_part="month"), h=fn.Ordered(0, 23, column="d", date_part="hour")
    )
    got = open_counter(data, domain.axes, DataSource(where={"d": {"at_most": datetime.date(2024, 1, 31)}})).count(
        [("m",), ("h",)]
    )
    assert (got["m",][0], got["h",][23]) == (1, 1)


def test_times_outside_the_calendar_are_outside(one_engine):
    """Seconds and milliseconds of 64 bits reach further than any date does: no error, and no cell."""
    attribute = KINDS["missing dates"](date_part="year")
    for unit in ("s", "ms"):
        extreme = pa.table({"d": pa.array([0, 10**15, -(10**15), None], pa.int64()).cast(pa.timestamp(unit))})
        times = [datetime.datetime(1970, 1, 1), "x", "x", None]  # noqa: DTZ001
        same_counts(counts(extreme, attribute), expected_counts(attribute, times))


def test_times_of_the_old_type_of_parquet_are_read_as_others_are(tmp_path):
    path = tmp_path / "old.parquet"
    table = pa.table({"d": pa.array([-1, -1001, 86_399_999_999_999], pa.timestamp("ns"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    domain = fn.Domain(
        y=fn.Ordered(1969, 1970, column="d", date_part="year"), h=fn.Ordered(0, 23, column="d", date_part="hour")
    )
    got = open_counter(path, domain.axes, DataSource()).count([("y",), ("h",)])
    assert (got["y",].tolist(), got["h",][23]) == ([2, 1], 3)


DATE_TYPES = ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "VARCHAR"]


@pytest.mark.parametrize("part", [*READS, "day"])
@pytest.mark.parametrize("kind", DATE_TYPES)
def test_the_engine_for_files_is_tried_with_known_dates(kind, part, monkeypatch):
    """Also one that rounds, as the engine itself does of nanoseconds."""
    date_field = DateField(DatePart.DAY) if part == "day" else read(part)
    if kind == "DATE" and part == "hour":
        return
    tried = (kind, duck._ColumnContents.ELSE, False, int, date_field)
    with duck.engine() as connection:
        monkeypatch.setattr(duck, "_RIGHT", set())
        duck._refuse_unless_right(connection, tried)
        assert {tried} == duck._RIGHT
        right = duck._derived
        later = {"VARCHAR": "people.k0 || 'x'", "DATE": "people.k0 + 40"}.get(kind, "people.k0 + INTERVAL 43 MINUTE")
        flaws = [lambda read, column, kind: right(read, f"({later})", kind)]
        flaws += [lambda read, column, kind: right(read, column, "TIMESTAMP")] if kind == "TIMESTAMP_NS" else []
        for flaw in flaws:
            monkeypatch.setattr(duck, "_derived", flaw)
            monkeypatch.setattr(duck, "_RIGHT", set())
            with refused("data.engine-codes-differently") as caught:
                duck._refuse_unless_right(connection, tried)
            leaks_nothing(caught.value)
            assert set() == duck._RIGHT


@pytest.mark.no_cover
def test_infinite_and_early_dates_of_duckdb_are_outside(tmp_path):
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE people AS SELECT unnest([DATE 'infinity', DATE '-infinity', DATE '0044-03-15 (BC)', "
                   "DATE '12000-01-01', DATE '2001-01-01', NULL]) AS d")  # fmt: skip
        db.execute("CREATE TABLE times AS SELECT CAST(d AS TIMESTAMP) AS d FROM people")
    for part in READS:
        attribute = KINDS["missing dates"](date_part=part)
        good = [datetime.datetime(2001, 1, 1), None, *["x"] * 4]  # noqa: DTZ001 - without a zone
        same_counts(counts(path, attribute, table="times"), expected_counts(attribute, good))
        if part != "hour":
            same_counts(counts(path, attribute, table="people"), expected_counts(attribute, good))


@pytest.mark.no_cover
@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "sqlite"])
def test_every_engine_reads_and_compares_dates_as_declared(engine, stamps, tmp_path, monkeypatch):
    """And is tried with known dates first. An hour is read where there are times without a zone."""
    monkeypatch.setattr(sql, "refuse_unless_right", lambda *_, **__: None)
    days, source_case = [None if x is None else x.date() for x in stamps], ENGINES[engine]
    early = [datetime.date(1900, 3, 1), datetime.date(2100, 2, 28)]
    dates = {"people": [*days, *early], "times": [*stamps, None, None]}
    data = {k: dated(source_case, {"d": v, "y": [0] * len(v)}, tmp_path) for k, v in dates.items()}
    timed = engine != "clickhouse"  # all of whose times have a zone
    for kind, part in itertools.product(["codes", "missing dates", "bins, missing dates"], READS):
        attribute = KINDS[kind](date_part=part)
        if part != "hour":
            same_counts(
                counts(data["people"], attribute, table=source_case.table), expected_counts(attribute, dates["people"])
            )
        if timed:
            same_counts(
                counts(data["times"], attribute, table=source_case.table), expected_counts(attribute, dates["times"])
            )
    for where, (k, values) in itertools.product(CONDITIONS, dates.items()):
        source = DataSource(table=source_case.table, where={"d": where})
        if k == "people" or timed:
            got = open_counter(data[k], fn.Domain(y=fn.Ordered(0, 1)).axes, source).count([("y",)])
            assert got["y",].tolist() == [meets(where, values), 0]
    wrong = [("people", "hour")] if timed else [("people", "hour"), ("times", "hour"), ("times", "month")]
    for k, part in wrong:
        with refused("data.column-of-wrong-type") as caught:
            counts(data[k], KINDS["range"](date_part=part), table=source_case.table)
        leaks_nothing(caught.value)


@pytest.mark.no_cover
@pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform")
@pytest.mark.parametrize("kind", KINDS)
def test_dates_of_postgresql(kind, post, one_engine):  # noqa: F811 - a fixture
    days = ", ".join(f"('{y:04}-{m:02}-{d:02} {h:02}:59:59')" for y, m, d, h in DAYS)
    odd = "('infinity'), ('-infinity'), ('0044-03-15 BC'), ('12000-01-01'), (NULL)"
    url = post(
        "CREATE TABLE times (d TIMESTAMP, z TIMESTAMPTZ, t TEXT)",
        f"INSERT INTO times (d) VALUES {days}, {odd}",
        "CREATE TABLE people AS SELECT CAST(d AS DATE) AS d FROM times",
    )
    values = [*(datetime.datetime(*x, 59, 59) for x in DAYS), *["x"] * 4, None]  # noqa: DTZ001 - without a zone
    for part in READS:
        attribute = KINDS[kind](date_part=part)
        same_counts(counts(url, attribute, table="times"), expected_counts(attribute, values))
        if part != "hour":
            same_counts(counts(url, attribute, table="people"), expected_counts(attribute, values))
    with refused("data.column-of-wrong-type") as caught:
        counts(url, fn.Ordered(0, 9, column="z", date_part="month"), table="times")
    leaks_nothing(caught.value)
    with refused("data.column-of-wrong-type"):
        counts(url, fn.Ordered(0, 9, column="d", date_part="hour"), table="people")


def test_dates_of_sqlite_are_texts(tmp_path):
    path = tmp_path / "x.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE people (d DATE, s DATETIME, t TEXT, n INTEGER)")
        db.execute("INSERT INTO people VALUES ('2001-04-01', '2001-04-01 07:00:00', '2001-04-01T07:00', 3)")
        db.execute("INSERT INTO people VALUES (20010401, x'00ff', 7.5, NULL)")
        db.commit()
    for column in "dst":
        assert counts(path, fn.Ordered(1, 9, column=column, date_part="month"), table="people")["x",].tolist()[3] == 1
    with refused("data.column-of-wrong-type"):
        counts(path, fn.Ordered(1, 9, column="n", date_part="month"), table="people")


def test_columns_without_dates_or_with_a_zone_are_refused():
    instant = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    for value in (1, 1.5, True, instant, [1], datetime.time(1)):
        with refused("data.column-of-wrong-type") as caught:
            counts(pa.table({"d": [value]}), KINDS["range"](date_part="month"))
        leaks_nothing(caught.value)


# --- conditions on dates ----------------------------------------------------------------------------------------------

CONDITIONS = [
    {"at_least": "2000-02-29", "below": "2001-01-01"},
    {"above": datetime.date(2001, 1, 1)},
    {"at_most": "2001-01-01"},
    {"above": "1999-12-31", "at_most": "9999-12-31"},
    datetime.date(2001, 1, 1),
]
TRAPS = [
    "2001-01-01\x00", "\x002001-01-01", "2001-01-01 07:00:00.", "2001-01-01 07:00:00.1234567890",
    "2001-01-01 07:00:00.1x", "2001-01-01 0\u0661:00", "2001-01-01  07:00", "2001-01-01 ", "\t2001-01-01\n",
    "\xa02001-01-01", "2001-01-01 07", "2001-01-01 07:", "2001-01-01 07:00:", "2001-01-01T07:00:00.123456789",
    "2001-01-01 25:00", "2001-01-01\u00e9", "2001-04-31", "2100-02-29",
]  # fmt: skip


def meets(where, values):
    """Return the number of these records that meet the condition, by the meaning of `Condition`."""
    (condition,) = conditions({"d": where})
    return sum(condition.coding.cell(condition.read.number(v)) is not None for v in values)


@pytest.mark.parametrize("source", ["csv", "parquet", "duckdb", "arrow table", "pandas objects", "excel", "sqlite"])
def test_every_source_compares_dates_as_declared(source, tmp_path, one_engine):
    source_case = zoo.COUNTERS[source]
    sample = Sample(fn.Categorical(["-"], column="d"), "string", [], [])
    values = [x for x in TEXTS + ([] if source == "excel" else TRAPS) if source != "csv" or "\x00" not in (x or "")]
    held = [x for x in source_case.held(sample, values) if source != "excel" or x is None or x.strip()]
    domain = fn.Domain(x=sample.attribute, y=fn.Ordered(0, 1))
    records = Records(domain, {"x": held, "y": [0] * len(held)}, {"x": "string", "y": "int16"})
    data = source_case.make(records, tmp_path)
    for where in CONDITIONS:
        data_source = DataSource(table=source_case.table, where={"d": where})
        got = open_counter(data, fn.Domain(y=fn.Ordered(0, 1)).axes, data_source).count([("y",)])
        assert got["y",].tolist() == [meets(where, held), 0]
        assert 0 < got["y",][0] < len(held)


@pytest.mark.parametrize("where", CONDITIONS)
def test_types_of_dates_are_compared_as_the_dates_are(where, stamps, tmp_path, one_engine):
    domain = fn.Domain(y=fn.Ordered(0, 1))
    days = [None if x is None else x.date() for x in stamps]
    expected_counts = meets(where, stamps)
    assert expected_counts == meets(where, days)
    frames = [
        pa.table({"d": pa.array(stamps, pa.timestamp(u)), "y": [0] * len(stamps)}) for u in ("s", "ms", "us", "ns")
    ]
    frames += [pa.table({"d": pa.array(days, t), "y": [0] * len(days)}) for t in (pa.date32(), pa.date64())]
    frames += [pd.DataFrame({"d": pd.Series(x, dtype=object), "y": 0}) for x in (days, stamps)]
    for data in frames:
        got = open_counter(data, domain.axes, DataSource(where={"d": where})).count([("y",)])
        assert got["y",].tolist() == [expected_counts, 0]


@pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform")
def test_dates_of_postgresql_are_compared(post, one_engine):  # noqa: F811 - a fixture
    days = ", ".join(f"('{y:04}-{m:02}-{d:02} {h:02}:59:59', 0)" for y, m, d, h in DAYS)
    odd = "('infinity', 0), ('-infinity', 0), ('0044-03-15 BC', 0), ('12000-01-01', 0), (NULL, 0)"
    url = post(
        "CREATE TABLE times (d TIMESTAMP, y INT, t TEXT, z TIMESTAMPTZ)",
        f"INSERT INTO times (d, y) VALUES {days}, {odd}",
        "CREATE TABLE people AS SELECT CAST(d AS DATE) AS d, y FROM times",
    )
    domain = fn.Domain(y=fn.Ordered(0, 1))
    for where in CONDITIONS:
        expected_counts = meets(where, [datetime.datetime(*x, 59, 59) for x in DAYS])  # noqa: DTZ001 - without a zone
        for table in ("people", "times"):
            got = open_counter(url, domain.axes, DataSource(table=table, where={"d": where})).count([("y",)])
            assert got["y",].tolist() == [expected_counts, 0]
    with refused("data.condition-column-of-wrong-type"):
        open_counter(url, domain.axes, DataSource(table="times", where={"z": {"above": "2001-01-01"}}))


def test_columns_that_hold_no_dates_meet_no_condition_on_them():
    for value in (1, 1.5, True):
        with refused("data.condition-column-of-wrong-type"):
            counts(pa.table({"d": [value], "x": [1]}), fn.Ordered(0, 1), where={"d": {"above": "2001-01-01"}})


def test_conditions_on_dates_have_one_form():
    one = DataSource(where={"d": {"at_least": datetime.date(2024, 1, 1), "below": "2025-01-01"}})
    assert one == DataSource(where={"d": {"at_least": "2024-01-01", "below": datetime.date(2025, 1, 1)}})
    (condition,) = one.conditions
    assert english(condition_message(condition)) == "'d' is at least 2024-01-01 and below 2025-01-01"
    assert condition.document == {"at_least": "2024-01-01", "below": "2025-01-01"}
    assert DataSource(where={"d": datetime.date(2024, 1, 1)}).conditions[0].document == {
        "at_least": "2024-01-01",
        "at_most": "2024-01-01",
    }
    text = SPEC + '\n[data]\nwhere = { seen = { at_least = 2024-01-01, below = "2025-01-01" }, born = 2000-02-29 }\n'
    publication = Spec.from_toml(text).publication()
    assert Spec.from_publication(publication).publication() == publication
    assert [c.column for c in publication.source.conditions] == ["born", "seen"]
    for wrong in (
        {"at_least": "2024-01-01", "below": 2025},
        {"at_least": "2024-01-01", "below": "2024-01-01"},
        {"at_least": "2024-02-30"},
        datetime.datetime(2024, 1, 1),  # noqa: DTZ001 - without a zone
        [datetime.date(2024, 1, 1)],
    ):
        with refused(
            "spec.condition-bound-invalid",
            "spec.condition-bounds-mixed",
            "spec.condition-value-invalid",
            "spec.condition-values-invalid",
        ):
            DataSource(where={"d": wrong})


# --- with conditions and persons ------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("source", ["csv", "duckdb", "arrow table", *ENGINES])
def test_persons_and_conditions_over_what_is_read(source, tmp_path, one_engine, monkeypatch):
    """Neighbours: a person comes, goes, has other dates, becomes another; at most g records move, and no other's."""
    monkeypatch.setattr("fitnoise.engines.sql.refuse_unless_bounded", lambda *_, **__: None)
    source_case, rng = zoo.COUNTERS[source], np.random.default_rng(1)
    domain = fn.Domain(
        x=fn.Ordered(0, 23, column="d", date_part=AGE), w=fn.Ordered(1, 7, column="d", date_part="weekday")
    )
    margins = [("x", "w"), ("w",), ()]

    def row(person):
        day = datetime.date(2000, 1, 1) + datetime.timedelta(days=int(rng.integers(0, 10000)))
        return day, person, int(rng.integers(2))

    def counted(rows, max_records=2):
        days, persons, keep = zip(*rows, strict=True)
        if source in ("csv", "sqlite"):
            days = [str(d) for d in days]
        columns = {"d": pa.array(days), "person": pa.array(persons), "keep": pa.array(keep)}
        data = hold(source, columns, tmp_path)
        data_source = DataSource(table=source_case.table, outside_domain=DROP, where={"keep": 1})
        return open_counter(data, domain.axes, data_source, RecordBound("person", max_records)).count(margins)

    rows = [row(f"p{i % 9}") for i in range(40)]
    for person in ("p0", "p5"):
        others = [r for r in rows if r[1] != person]
        less = counted(others[::-1])
        for replacement in ([r for r in rows if r[1] == person], [row(person) for _ in range(30)], [row("new")] * 5):
            now = counted(replacement + others)
            inside = sum(keep and domain["x"].cell(d) is not None for d, _, keep in replacement)
            for m in margins:
                gained = now[m] - less[m]
                assert (gained >= 0).all()
                assert gained.sum() == min(2, inside)


def hold(source, columns, folder):
    """A table with these columns, of dates as the source has them."""
    held = pa.table(columns)
    if source == "arrow table":
        return held
    if source == "csv":
        held.to_pandas().to_csv(folder / "x.csv", index=False)
        return folder / "x.csv"
    if source == "duckdb":
        (folder / "x.duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(folder / "x.duckdb")) as db:
            db.execute("CREATE TABLE people AS SELECT * FROM held")
        return folder / "x.duckdb"
    return dated(ENGINES[source], columns, folder)


def dated(source_case, columns, folder):
    """Return the data that a source writes from columns of dates, times, texts and whole numbers."""
    kinds = {
        a: str(pa.array(v).type).replace("date32[day]", "date32").replace("int64", "int16") for a, v in columns.items()
    }
    values = {a: pa.array(v).to_pylist() for a, v in columns.items()}
    return source_case.make(Records(fn.Domain({a: fn.Ordered(0, 1) for a in columns}), values, kinds), folder)


# --- statements and the trial -----------------------------------------------------------------------------------------


def golden(name):
    d = DIALECTS[name]
    column = f"source.{d.quoted('born')}"
    fields = {str(part): Field(fn.Ordered(0, 9).coding, ColumnKind.STAMP, column, read(part)) for part in READS}
    return prepared(d, d.quoted("people"), [], fields, None)[0].replace(" AS v", " AS\nv") + "\n"


@pytest.mark.parametrize("name", DIALECTS)
def test_dates_are_read_as_a_person_has_read(name):
    """Write them again with `python tests/test_dates.py`, and read what changed."""
    assert (GOLDEN_FILES / f"{name}, dates.sql").read_text(encoding="utf-8") == golden(name)


@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "sqlite"])
def test_every_engine_is_tried_with_known_dates(engine, tmp_path):
    data = dated(ENGINES[engine], {"y": [0]}, tmp_path)
    where = in_spark(data) if engine == "spark" else database(data)
    with where.session(ENGINES[engine].table) as session:
        for part in [*READS, "day"]:
            date_field = DateField(DatePart.DAY) if part == "day" else read(part)
            for timed in [True] * (engine != "clickhouse") + [False] * (part != "hour"):
                engine_check.refuse_unless_dated(
                    session.fetch, session.dialect, "the database", date_field, timed=timed
                )


@pytest.mark.no_cover
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("part", [*READS, "day"])
def test_engines_are_tried_with_known_dates(part, timed):
    if part == "hour" and not timed:
        return
    date_field = DateField(DatePart.DAY) if part == "day" else read(part)
    engine_check.refuse_unless_dated(in_duckdb(), DUCKDB, "the database", date_field, timed=timed)
    flaws = [replace(DUCKDB, part="EXTRACT({p} FROM {c} + INTERVAL 1 DAY)", hour="EXTRACT(HOUR FROM {c}) + 1")]
    flaws += [] if part == "hour" else [replace(DUCKDB, part="EXTRACT({p} FROM {c}) % 28")]
    for flaw in flaws:
        with refused("data.engine-reads-dates-differently") as caught:
            engine_check.refuse_unless_dated(in_duckdb(), flaw, "the database", date_field, timed=timed)
        leaks_nothing(caught.value)


# --- statements about dates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    ["age_on", "day", "decade", "Year", 7, {}, {"age_on": "2024-02-30"}, {"age_on": "2024-1-1"}, {"age_on": None},
     {"age_on": "2024-12-31", "year": 1}, {"year": "2024-01-01"}, ["year"], {"age_on": datetime.datetime(2024, 1, 1)}],  # noqa: DTZ001
)  # fmt: skip
def test_what_is_read_off_no_date_is_refused(rule):
    with refused("domain.date-part-invalid"):
        fn.Ordered(0, 9, date_part=rule)


def test_numbers_are_read_off_dates_and_nothing_else():
    for codes in (["1"], [True]):
        with refused("domain.date-part-needs-whole-numbers"):
            fn.Categorical(codes, date_part="month")
    one, two = (
        fn.Ordered(0, 9, date_part={"age_on": datetime.date(2024, 12, 31)}),
        fn.Ordered(0, 9, date_part={"age_on": "2024-12-31"}),
    )
    assert one == two != fn.Ordered(0, 9)
    keys = {
        axis_key(fn.Domain(x=a).axes, "x") for a in (one, two, fn.Ordered(0, 9), fn.Ordered(0, 9, date_part="month"))
    }
    assert len(keys) == 3  # what is read off dates is another axis of a ledger's


SPEC = """
[domain.age]
type = "ordered"
low = 0
high = 85
clip = true
column = "birth_date"
date_part = { age_on = "2024-12-31" }

[domain.month]
type = "categorical"
codes = [1, 2, 3]
column = "seen"
date_part = "month"

[domain.year]
type = "binned"
cuts = [2020]
column = "seen"
date_part = "year"

[[tables]]
attributes = ["age"]
margin = 5
"""


def test_a_specification_and_python_say_the_same():
    publication = Spec.from_toml(SPEC).publication()
    domain = publication.workload.domain
    assert domain["age"] == fn.Ordered(0, 85, True, "birth_date", date_part={"age_on": "2024-12-31"})
    assert domain["month"] == fn.Categorical([1, 2, 3], column="seen", date_part="month")
    assert domain["year"] == fn.Binned([2020], column="seen", date_part="year")
    assert Spec.from_publication(publication).publication() == publication
    assert Spec.from_toml(Spec.from_publication(publication).to_toml()).publication() == publication
    assert Spec.from_toml(SPEC.replace('"2024-12-31"', "2024-12-31")).publication() == publication
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"2024-12-31"', '"31.12.2024"', "domain.date-part-invalid"),
        ("[1, 2, 3]", '["1"]', "domain.date-part-needs-whole-numbers"),
    ],
)
def test_errors_about_bad_date_specifications_name_the_place(old, new, code):
    with refused(code):
        Spec.from_toml(SPEC.replace(old, new)).publication()


if __name__ == "__main__":
    for listed in DIALECTS:
        (GOLDEN_FILES / f"{listed}, dates.sql").write_text(golden(listed), encoding="utf-8")
