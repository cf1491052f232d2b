"""Records that stream: from every source, by ones and by sevens, with progress reports, in little memory."""

import itertools
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from fitnoise.engines import DuckCounter, duck, open_counter, sources, streams
from fitnoise.engines.streams import iter_batches
from fitnoise.engines.windows import Window
from fitnoise.errors import DataError
from fitnoise.kernel.codings import DROPPED, OUTSIDE, REFUSED, Codes, CodingWithMissing, Cuts, Range, Steps
from fitnoise.kernel.counting import joint_counts, margins
from fitnoise.kernel.units import DataSource
from laws.counting import DROP, REFUSE, HistogramCounter, counted, in_cells, same_counts
from records import Stream, sliced
from refused import refused
from test_counting import DOMAIN, MARGINS, open_files, people


def grid(n, attributes, rng, missing=0.0):
    """A domain of several sizes, by attribute the cell of every record (−1 where it is outside), and all as a frame."""
    sizes = [2, 10, 3, 1, 5, 300][:attributes] + [2] * max(0, attributes - 6)
    domain = fn.Domain(
        {f"q{i}": fn.Ordered(0, s - 1) if i % 2 else fn.Categorical(range(s)) for i, s in enumerate(sizes)}
    )
    where = np.stack([rng.integers(0, s, n) for s in sizes], axis=1)
    where[rng.random(where.shape) < missing] = -1
    values = np.where(where >= 0, where, rng.choice([-7, 10**6], where.shape))
    frame = pd.DataFrame({a: pd.array(values[:, i], dtype="Int64") for i, a in enumerate(domain)})
    frame = frame.mask(pd.DataFrame((where < 0) & (rng.random(where.shape) < 0.5), columns=list(domain)))
    return domain, dict(zip(domain, where.T, strict=True)), frame


@pytest.mark.no_cover
@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 0.02, 0.5]), st.integers(1, 3), st.sampled_from([1, 7, 2**20]))
def test_all_sets_of_twelve_attributes_are_counted_of_the_records_inside(seed, missing, width, batch):
    """Drop, over all margins of a width, with missing and undeclared values. Detects a record in some margins only."""
    rng = np.random.default_rng(seed)
    domain, where, frame = grid(60, 12, rng, missing)
    margins = list(itertools.combinations(domain, width))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_counts, "BATCH_BYTES", batch * 2 * 12)
        frame = Stream(sliced(pa.Table.from_pandas(frame, preserve_index=False), batch))
        got = DuckCounter.from_frame(frame, domain.axes, DataSource(outside_domain=DROP)).count(margins)
    same_counts(got, counted(domain, where, margins))


FORMS = {
    "csv": lambda frame, path: frame.to_csv(path / "x.csv", index=False) or path / "x.csv",
    "parquet": lambda frame, path: frame.to_parquet(path / "x.parquet") or path / "x.parquet",
    "pandas": lambda frame, _: frame,
    "arrow": lambda frame, _: pa.Table.from_pandas(frame, preserve_index=False),
    "polars": lambda frame, _: pl.from_pandas(frame),
    "stream": lambda frame, _: Stream(pa.Table.from_pandas(frame, preserve_index=False)),
}


def database(frame, path):
    with duckdb.connect(path / "x.duckdb") as db:
        db.register("frame", frame)
        db.execute("CREATE TABLE t AS SELECT * FROM frame")
    return path / "x.duckdb"


FORMS["duckdb"] = database


@pytest.mark.no_cover
@pytest.mark.parametrize("form", FORMS)
def test_all_pairs_of_a_hundred_columns(form, tmp_path, rng):
    """4,950 margins, with and without records outside. Detects anything that gives way under many columns."""
    margins = []
    for missing in (0, 0.0002):
        domain, where, frame = grid(4000, 100, rng, missing)
        margins = list(itertools.combinations(domain, 2))
        folder = tmp_path / str(missing)
        folder.mkdir()
        data = FORMS[form](frame, folder)
        counter = open_counter(data, domain.axes, DataSource(table="t", outside_domain=DROP))
        same_counts(counter.count(margins), counted(domain, where, margins))
    strict = open_counter(data, domain.axes, DataSource(table="t"))
    bad = {a: n for a, cells in where.items() if (n := (cells < 0).sum())}
    numbers = ", ".join(f"{n} in the column {a!r} (attribute {a!r})" for a, n in bad.items())
    assert len(bad) > 20
    with pytest.raises(DataError) as caught:
        strict.count(margins)
    assert caught.value.code == "data.records-outside-domain"
    assert caught.value.given.endswith(f"outside the domain: {numbers}.")


def test_a_value_that_is_no_number_is_outside_and_stops_nothing(tmp_path):
    """Detects casts that the engine moves into the reading of a CSV file, where they fail (DuckDB 2.0.0)."""
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + ":,:,:\n" * 3 + "1,1,1\n")
    domain = fn.Domain(a=fn.Ordered(0, 3), b=fn.Binned([0.5]), c=fn.Categorical([1]))
    for used in [("a",), ("b",), ("c",), ("a", "b", "c")]:
        assert open_counter(path, domain.axes, DataSource(outside_domain=DROP)).count([used])[used].sum() == 1
        with refused("data.records-outside-domain"):
            open_counter(path, domain.axes, DataSource()).count([used])


@pytest.mark.no_cover
@pytest.mark.parametrize("size", [2, 64, 65, 2**15, 2**15 + 1, 2**16 + 1])
@pytest.mark.parametrize("is_numeric", [True, False])
def test_long_code_lists(size, is_numeric, rng):
    """Around every size at which codes or cells are handled differently; zero with a sign is zero."""
    codes = [int(x) for x in rng.permutation(size) - size // 2]
    domain = fn.Domain(x=fn.Categorical(codes if is_numeric else [f"code {c}" for c in codes]))
    values = [0, codes[0], codes[-1], codes[-1], size]
    column = [-0.0, *map(float, values[1:])] if is_numeric else [f"code {v}" for v in values]
    counter = DuckCounter.from_frame(pa.table({"x": column}), domain.axes, DataSource(outside_domain=DROP))
    expected = np.bincount([codes.index(v) for v in values[:-1]], minlength=size)
    np.testing.assert_array_equal(counter.count([("x",)])["x",], expected)


# --- values looked up without the engine -------------------------------------------------------------------

WINDOWS = {
    "range": Range(0, 9),
    "range below zero": Range(-300, 7),
    "range wider than a byte": Range(0, 300),
    "range wider than two": Range(0, 40_000),
    "clipped": Range(5, 260, clip=True),
    "codes": Codes((7, -3, 500, 0)),
    "codes that share cells": Codes((1, 2, 3, 9), (0, 1, 0, 1)),
    "cuts": Cuts((-2.5, 0.0, 3.0, 18.5)),
    "one cut": Cuts((0.5,)),
    "range, missing": CodingWithMissing(Range(0, 3), ((-9, 99), (-8,)), absent=5, outside=REFUSED),
    "clipped, missing": CodingWithMissing(Range(0, 120, clip=True), ((999, -1),), absent=DROPPED, outside=121),
    "codes, missing": CodingWithMissing(Codes((1, 2)), ((), (-7,)), absent=2, outside=OUTSIDE),
    "cuts, missing": CodingWithMissing(Cuts((18.0, 65.0)), ((-1, 999, "x"),), absent=3),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8"])
def test_integers_are_looked_up_as_declared(name, kind, rng):
    """This also holds at both ends of every integer, and for any content in place of a missing number."""
    coding, ends = WINDOWS[name], np.iinfo(kind)
    window = Window.from_coding(coding)
    small = [x for x in range(-320, 1010) if ends.min <= x <= ends.max]
    numbers = np.array([*small, ends.min, ends.min + 1, ends.max - 1, ends.max], dtype=kind)
    expected = np.array([coding.cell_of(x) for x in numbers])
    np.testing.assert_array_equal(window.cells_of(numbers, None), expected)
    missing = rng.random(len(numbers)) < 0.3
    np.testing.assert_array_equal(window.cells_of(numbers, missing), np.where(missing, coding.cell_of(None), expected))
    inside = numbers[expected >= 0]
    np.testing.assert_array_equal(window.cells_of(inside, None), expected[expected >= 0])
    assert len(window.cells_of(numbers[:0], None)) == 0


@pytest.mark.parametrize(
    "coding",
    [
        Codes(("a", "b")),
        Codes((True, False)),
        Range(0, 2**20),
        Cuts((0.0, 1e18)),
        Codes((0, 2**40)),
        CodingWithMissing(Range(0, 9), ((2**40,),)),
        Steps(Fraction(0), Fraction(10), Fraction(1)),
    ],
)
def test_what_is_not_looked_up(coding):
    assert Window.from_coding(coding) is None


DTYPES = {
    "TINYINT": "i1",
    "UTINYINT": "u1",
    "SMALLINT": "i2",
    "USMALLINT": "u2",
    "INTEGER": "i4",
    "UINTEGER": "u4",
    "BIGINT": "i8",
}


@pytest.mark.parametrize("kind", DTYPES)
def test_columns_are_handed_over_as_they_are(kind):
    """Every integer, at its ends, with and without missing ones, in pieces; all properties of the streams agree."""
    info = np.iinfo(DTYPES[kind])
    values = [int(info.min), 1, None, int(info.max), None, 5, 100]
    with duckdb.connect() as db:
        rows = ", ".join(f"({i}, {'NULL' if x is None else x})" for i, x in enumerate(values))
        relation = db.sql(f"SELECT v::{kind} AS v, i::SMALLINT AS i FROM (VALUES {rows}) t(i, v) ORDER BY i")
        got, many, numbers = [], [], []
        for ((v, missing), (i, none)), n in iter_batches(relation, 3):
            assert (none, v.dtype.str[1:]) == (None, DTYPES[kind])
            got += [None if m else int(x) for x, m in zip(v, missing, strict=True)]
            many.append(n)
            numbers += i.tolist()
            with pytest.raises(ValueError, match="read-only"):
                v[0] = 0
        assert (got, many, numbers) == (values, [3, 3, 1], list(range(7)))
        assert list(iter_batches(db.sql(f"SELECT 1::{kind} AS v WHERE false"), 3)) == []
    assert len(streams._view(None, 0)) == 0  # a stream may report no numbers


def test_errors_in_streamed_columns_keep_their_class():
    with duckdb.connect() as db:
        relation = db.sql("SELECT (CASE WHEN i < 299999 THEN 1 ELSE error('no') END)::INT AS v FROM range(300000) t(i)")
        with pytest.raises(duckdb.Error, match="no"):
            list(iter_batches(relation, 1000))
    assert type(streams._error(b"Out of Memory Error: x")) is duckdb.OutOfMemoryException
    assert type(streams._error(b"Input/output error")) is duckdb.Error


@pytest.mark.parametrize("wide", [0, 64])
@pytest.mark.parametrize("policy", [DROP, REFUSE])
def test_wide_records_come_in_frames_with_the_same_counts(wide, policy, monkeypatch, rng):
    monkeypatch.setattr(duck, "_MAX_ARRAY_COLUMNS", wide)
    domain, where, frame = grid(5000, 6, rng, 0.1 if policy is DROP else 0)
    margins = list(itertools.combinations(domain, 2))
    counter = DuckCounter.from_frame(frame, domain.axes, DataSource(outside_domain=policy))
    same_counts(counter.count(margins), counted(domain, where, margins))


# --- how far it is ---------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("policy", [DROP, REFUSE])
@pytest.mark.parametrize("form", FORMS)
def test_how_far_the_counting_is_rises_to_one(form, policy, tmp_path, monkeypatch, rng):
    """Detects a fraction that falls, exceeds 1, claims the end early or never, or changes the counts."""
    monkeypatch.setattr(duck, "_BATCH_BYTES", 1)
    monkeypatch.setattr(joint_counts, "BATCH_BYTES", 2**16)
    domain, where, frame = grid(30_000, 8, rng, 0.1 if policy is DROP else 0)
    margins = list(itertools.combinations(domain, 2))
    counter = open_counter(FORMS[form](frame, tmp_path), domain.axes, DataSource(table="t", outside_domain=policy))
    fractions = []
    same_counts(counter.count(margins, progress=fractions.append), counted(domain, where, margins))
    assert fractions[-1] == 1
    assert all(a < b for a, b in itertools.pairwise(fractions))
    assert fractions[0] > 0
    assert len(fractions) <= 100
    has_total = form not in ("csv", "stream")  # how many records there are
    assert not has_total or len(fractions) > 15
    assert not has_total or fractions[0] < 0.1


@pytest.mark.parametrize("form", FORMS)
def test_how_many_records_there_are_is_known_without_reading_them_or_not_at_all(form, tmp_path, rng):
    """Detects a second pass over the records for the sake of a progress bar."""
    domain, _, frame = grid(50, 2, rng)
    records = open_counter(FORMS[form](frame, tmp_path), domain.axes, DataSource(table="t"))._records
    with sources.engine() as connection:
        records.relation(connection, sources.ColumnRequest([0, 1]))
        assert records.known_size(connection) == (None if form in ("csv", "stream") else 50)


def test_how_far_a_histogram_is():
    domain = fn.Domain({a: fn.Ordered(0, 1) for a in "abcde"})
    margins = list(itertools.combinations(domain, 2))
    fractions = []
    counter = HistogramCounter(np.ones(domain.shape, dtype=int), domain.axes)
    same_counts(counter.count(margins, fractions.append), {m: np.full((2, 2), 8) for m in margins})
    assert fractions == [*(i / 10 for i in range(1, 10)), 0.99, 1.0]
    assert counter.count([], fractions.append) == {}


def test_counts_of_a_histogram_are_not_the_histogram():
    counter = HistogramCounter(np.arange(3), fn.Domain(a=fn.Ordered(0, 2)).axes)
    counter.count([("a",)])["a",][:] = 7
    same_counts(counter.count([("a",)]), {("a",): np.arange(3)})


class Stop(Exception):
    pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
def test_a_progress_callback_may_stop_the_counting(error, tmp_path):
    """Detects an exception of the caller that is swallowed or reworded, and an engine left running."""
    data = zoo.COUNTERS["parquet"].make(people(spoilt=0), tmp_path)
    counter = open_counter(data, DOMAIN.axes, DataSource())

    def stop(_):
        raise error("enough")

    with pytest.raises(error, match="enough"):
        counter.count(MARGINS, stop)
    assert open_files(tmp_path) == []
    same_counts(counter.count(MARGINS), counted(DOMAIN, in_cells(people(spoilt=0)), MARGINS))


# --- memory ----------------------------------------------------------------------------------------------


def test_counts_that_cannot_be_held_are_refused_before_a_record_is_read(monkeypatch):
    class Unread:
        schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])

        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError

    domain = fn.Domain(x=fn.Ordered(0, 9_999_999), y=fn.Ordered(0, 9_999_999))
    counters = [open_counter(Unread(), domain.axes, DataSource())]
    monkeypatch.setattr(margins, "physical_memory", lambda: 10**9)
    small = fn.Domain(x=fn.Ordered(0, 9), y=fn.Ordered(0, 9))
    histogram = HistogramCounter(np.ones((10, 10), dtype=int), small.axes)
    with refused("data.counts-exceed-memory"):
        counters[0].count([("x", "y")])
    monkeypatch.setattr(margins, "physical_memory", lambda: 799)
    with refused("data.counts-exceed-memory"):
        histogram.count([("x", "y")])
    assert histogram.count([("x",)])["x",].sum() == 100


MEASURE = """
import itertools, json, os, sys, time
import fitnoise as fn
from fitnoise.engines import DuckCounter
from fitnoise.kernel.units import DataSource
from peak import peak_memory
if hasattr(os, "sched_setaffinity"):  # the engine wants memory for every core
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
domain = fn.Domain({f"q{i}": fn.Binned([1e18, 2e18, 4e18]) for i in range(20)})
counter = DuckCounter.from_path(sys.argv[1], domain.axes, DataSource(), memory_limit=sys.argv[2])
counter.check(list(domain))
before = peak_memory()
counts = counter.count(list(itertools.combinations(domain, 2)))
after = peak_memory()
print(json.dumps({"megabytes": after - before, "first": counts["q0", "q1"].tolist()}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit was measured on Linux")
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_file_many_times_larger_than_the_memory_is_counted_in_it(form, tmp_path):
    """All pairs of a file three times larger than what the engine may use. Detects records that pile up anywhere: in
    the engine, on their way out of it, or in the tables.
    """
    path = tmp_path / f"big.{form}"
    with duckdb.connect() as db:
        columns = ", ".join(f"(hash(i * 20 + {j}) >> 1)::BIGINT AS q{j}" for j in range(20))
        db.execute(
            f"COPY (SELECT {columns} FROM range({3_200_000 if form == 'parquet' else 1_300_000}) AS t(i)) TO '{path}'"
        )
        read = f"SELECT q0, q1 FROM '{path}'"
        bins = "CASE WHEN {0} < 1e18 THEN 0 WHEN {0} < 2e18 THEN 1 WHEN {0} < 4e18 THEN 2 ELSE 3 END"
        rows = db.execute(
            f"SELECT {bins.format('q0')} AS a, {bins.format('q1')} AS b, count(*) FROM ({read}) GROUP BY a, b"
        ).fetchall()
    assert path.stat().st_size > 500e6
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), "160MB"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    assert not process.returncode, process.stderr
    result = json.loads(process.stdout)
    expected = np.zeros((4, 4), dtype=int)
    for a, b, n in rows:
        expected[a, b] = n
    assert result["first"] == expected.tolist()
    assert result["megabytes"] < 350  # 160 of the engine, 64 of cells and as much again to put them together, buffers
