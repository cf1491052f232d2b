"""Counting against an independent reading of the same records, from every kind of source, and what it must refuse."""

import contextlib
import csv
import datetime
import gzip
import io
import math
import os
import sys
import tempfile
import traceback
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.errors import DataError
from fitnoise.kernel.counting import (
    Counter,
    DuckCounter,
    HistogramCounter,
    Tally,
    duck,
    files,
    frames,
    open_counter,
    sources,
)
from fitnoise.kernel.domain import Attribute
from fitnoise.kernel.units import DataSource, OutsideDomain

SECRET = "Xk7secret"  # noqa: S105 - a value that no message may repeat
DROP, REFUSE = OutsideDomain.DROP, OutsideDomain.REFUSE
UGLY = "select * from \"people\"; drop table 'people' -- ü, ;|"
QUOTED = "ü'\";--\n,|"

DOMAIN = fn.Domain(
    sex=fn.Categorical(["f", "m", QUOTED], column=UGLY),
    region=fn.Categorical({17: "west", 1: "north", -3: "south"}),
    owner=fn.Categorical([True, False], column="OWNER"),
    age=fn.Ordered(0, 5, clip=True),
    kids=fn.Ordered(-1, 3),
    income=fn.Binned([-10.5, 0, 2.5, 1000]),
    unused=fn.Ordered(0, 1),
)
USED = [a for a in DOMAIN if a != "unused"]
MARGINS = [(), ("sex",), ("kids", "sex"), ("income", "owner", "region"), ("age",), tuple(USED)]

INSIDE = {
    "sex": ["f", "m", QUOTED],
    "region": [17, 1, -3],
    "owner": [True, False],
    "age": [-math.pi // 1, -1e300, 0.0, 2.0, 5.0, 6.0, 2.0**53 + 2, 1e300],
    "kids": [-1, 0, 3],
    "income": [-1e9, -10.500001, -10.5, -10.4, -0.0, 0.0, 2.4999, 2.5, 999.9, 1000.0, 1e300],
}
OUTSIDE = {
    "sex": [None, "F", " f", "", SECRET],
    "region": [None, 2, 3, -17],
    "owner": [None],
    "age": [None, math.nan, math.inf, -math.inf, 3.5, -0.5, 5.0000001],
    "kids": [None, -2, 4, 2**53 + 1, -(2**62)],
    "income": [None, math.nan, math.inf, -math.inf],
}


def people(n=300, *, spoilt=0.1, seed=5):
    """n records by column, as plain Python values; None is missing."""
    rng = np.random.default_rng(seed)

    def pick(a):
        values = OUTSIDE[a] if rng.random() < spoilt else INSIDE[a]
        return values[rng.integers(len(values))]

    columns = {a: [pick(a) for _ in range(n)] for a in USED}
    return {DOMAIN.column(a): columns[a] for a in USED} | {"unused": [None] * n}


def place(attribute, value):
    """The cell of one value, or −1: the declared meaning, in plain Python."""
    if value is None:
        return -1
    if isinstance(attribute, fn.Categorical):
        return list(attribute.codes).index(value) if value in attribute.codes else -1
    if not math.isfinite(value):
        return -1
    if isinstance(attribute, fn.Binned):
        return sum(value >= cut for cut in attribute.cuts)
    if value != math.floor(value):
        return -1
    if attribute.clip:
        value = min(max(value, attribute.low), attribute.high)
    return int(value) - attribute.low if attribute.low <= value <= attribute.high else -1


def cells(columns, used=USED):
    return {a: np.array([place(DOMAIN[a], v) for v in columns[DOMAIN.column(a)]], dtype=int) for a in used}


def expected(columns, margins, used=USED):
    """Counts of the records whose used values are all inside."""
    where = cells(columns, used)
    inside = np.all([where[a] >= 0 for a in used], axis=0)
    out = {}
    for m in margins:
        shape = tuple(DOMAIN[a].size for a in m)
        flat = np.zeros(inside.sum(), dtype=int)
        for a in m:
            flat = flat * DOMAIN[a].size + where[a][inside]
        out[m] = np.bincount(flat, minlength=math.prod(shape)).reshape(shape)
    return out


def same(got, wanted):
    assert got.keys() == wanted.keys()
    for m, table in wanted.items():
        assert got[m].dtype == np.int64
        np.testing.assert_array_equal(got[m], table)


@pytest.fixture(scope="module")
def started():
    with sources.engine() as connection:
        connection.execute("SET threads = 1")
        yield connection


@pytest.fixture
def real_engine():
    """For tests that start and stop engines as users do."""


@pytest.fixture(autouse=True)
def one_engine(request, started, monkeypatch):
    """Starting an engine takes ten times longer than counting a few records: most tests share one."""

    @contextlib.contextmanager
    def engine(_=None):
        try:
            yield started
        finally:
            started.execute("DETACH DATABASE IF EXISTS source")

    if "real_engine" not in request.fixturenames:
        for room in (duck, files, frames):
            monkeypatch.setattr(room, "engine", engine)


# --- the same records from every kind of source -------------------------------------------------------

TYPES = {
    DOMAIN.column(a): t
    for a, t in zip(DOMAIN, ["string", "int16", "bool", "double", "int64", "double", "int8"], strict=True)
}  # fmt: skip


def arrow(columns):
    return pa.table({c: pa.array(v, pa.type_for_alias(TYPES[c])) for c, v in columns.items()})


def text(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def csv_text(columns, delimiter=",", end="\n", quoting=csv.QUOTE_MINIMAL):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(columns)
    writer.writerows([text(v) for v in row] for row in zip(*columns.values(), strict=True))
    return out.getvalue()


def halves(columns):
    n = len(columns["unused"]) // 3
    return [{c: v[:n] for c, v in columns.items()}, {c: v[n:] for c, v in columns.items()}]


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def csv_file(name, **dialect):
    def make(columns, folder):
        content = csv_text(columns, **dialect).encode()
        return written(folder / name, gzip.compress(content) if name.endswith(".gz") else content)

    return make


def csv_glob(columns, folder):
    for i, half in enumerate(halves(columns)):
        written(folder / f"part {i}" / "it's; [1].csv", csv_text(half))
    written(folder / "part 0" / "it's; 1.csv", "not,to,be,read\n")
    return folder / "part ?" / "it's; [[]1].csv"


def parquet(columns, folder):
    path = folder / 'it\'s "ü"; 100% [a] b?.parquet'
    pq.write_table(arrow(columns), path)
    pq.write_table(arrow({c: [] for c in columns}), folder / 'it\'s "ü"; 100% a b?.parquet')
    return str(path)


def parquet_glob(columns, folder):
    for i, half in enumerate(halves(columns)):
        pq.write_table(arrow(half), folder / f"part-{i}.parquet")
    return folder / "part-*.parquet"


def parquet_hive(columns, folder):
    """A path that looks like a partition must not overwrite the column of the file."""
    (folder / "kids=1" / "income=2").mkdir(parents=True)
    pq.write_table(arrow(columns), folder / "kids=1" / "income=2" / "people.pq")
    return folder / "kids=1" / "income=2" / "people.pq"


def database(table, schema=None):
    def make(columns, folder):
        path = folder / 'it\'s; "ü".duckdb'
        with duckdb.connect(path) as db:
            db.register("frame", arrow(columns))
            where = '"main"' if schema is None else f'"{schema}"'
            db.execute(f"CREATE SCHEMA IF NOT EXISTS {where}")
            db.execute(f'CREATE TABLE {where}."{table.replace(chr(34), chr(34) * 2)}" AS SELECT * FROM frame')
            db.execute("CREATE TABLE decoy AS SELECT * FROM frame LIMIT 3")
        return path

    make.table = table if schema is None else f"{schema}.{table}"
    return make


def pandas(**dtypes):
    """The records as pandas holds them, some columns with other dtypes."""

    def make(columns, folder):
        frame = arrow(columns).to_pandas(integer_object_nulls=True)
        index = np.zeros(len(frame), dtype=int)  # not even unique: the index is nothing that is counted
        typed = {
            DOMAIN.column(a): pd.Series(columns[DOMAIN.column(a)], dtype=dtype or object) for a, dtype in dtypes.items()
        }
        return frame.assign(**typed).set_axis(index, axis=0)

    return make


def category(a):
    def make(columns, folder):
        frame = pandas()(columns, folder)
        values = pd.Series([None if v != v else v for v in columns[DOMAIN.column(a)]], dtype=object, index=frame.index)  # noqa: PLR0124
        frame[DOMAIN.column(a)] = pd.Categorical(values.infer_objects())
        return frame

    return make


TEXT = "str" if pd.__version__ >= "3" else "string[python]"  # what pandas makes of text on its own


class Stream:
    """An Arrow stream and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def dictionary(columns, folder):
    table = arrow(columns)
    return pa.table(
        {c: table[c].dictionary_encode() if c in (UGLY, "region") else table[c] for c in table.column_names}
    )


SOURCES = {
    "csv": csv_file("people.csv"),
    "csv, all quoted, returns": csv_file("people.CSV", quoting=csv.QUOTE_ALL, end="\r\n"),
    "csv, semicolons": csv_file("it's \"ü\"; 100%*.csv", delimiter=";"),
    "csv.gz in folders like columns": csv_file("kids=1/income=2/people.csv.gz"),
    "tsv": csv_file("people.tsv", delimiter="\t"),
    "txt": csv_file("people.v2.txt", delimiter="|", quoting=csv.QUOTE_NONNUMERIC),
    "csv pattern": csv_glob,
    "parquet": parquet,
    "parquet pattern": parquet_glob,
    "parquet in folders like columns": parquet_hive,
    "duckdb": database("people"),
    "duckdb, ugly table": database('select "1"; -- .x'),
    "duckdb, schema": database("people", "census of 2014"),
    "duckdb, dots": database("people.v2", "a.b"),
    "arrow table": lambda columns, _: arrow(columns),
    "arrow batch": lambda columns, _: arrow(columns).combine_chunks().to_batches()[0],
    "arrow dictionary": dictionary,
    "arrow stream": lambda columns, _: Stream(arrow(columns)),
    "polars": lambda columns, _: pl.from_arrow(arrow(columns)),
    "polars categorical": lambda columns, _: pl.from_arrow(arrow(columns)).cast({UGLY: pl.Categorical}),
    "polars enum": lambda columns, _: pl.from_arrow(arrow(columns)).cast(
        {UGLY: pl.Enum(sorted({v for v in columns[UGLY] if v is not None}))}
    ),
    "pandas": pandas(region="Int64", owner="boolean", kids="Int64"),
    "pandas objects": pandas(**dict.fromkeys(USED, None)),
    "pandas str": pandas(sex=TEXT, region="Int16", owner="boolean", kids="Int64"),
    "pandas string": pandas(sex="string", region="Float64", owner="boolean", age="Float64", kids="Int64"),
    "pandas arrow": pandas(
        sex=pd.ArrowDtype(pa.string()), region=pd.ArrowDtype(pa.int8()), owner=pd.ArrowDtype(pa.bool_()),
        kids=pd.ArrowDtype(pa.decimal128(38, 4)),
    ),
    **{f"pandas category of {a}": category(a) for a in USED},
}  # fmt: skip


@pytest.mark.usefixtures("real_engine")
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_counts_the_same_records(kind, tmp_path):
    columns = people()
    make = SOURCES[kind]
    source = DataSource(table=getattr(make, "table", None), outside_domain=DROP)
    data = make(columns, tmp_path)
    counter = open_counter(data, DOMAIN, source)
    counter.check(USED)
    wanted = expected(columns, MARGINS)
    assert 100 < wanted[()] < 250
    same(counter.count(MARGINS), wanted)

    # and, where they are not left out, tells how many are outside, and nothing else of them
    strict = open_counter(data, DOMAIN, replace(source, outside_domain=REFUSE))
    with pytest.raises(DataError) as caught:
        strict.count(MARGINS)
    numbers = ", ".join(
        f"{DOMAIN.column(a)!r} {(where < 0).sum()} (attribute {a!r})" for a, where in cells(columns).items()
    )
    assert f"in column {numbers}. Correct" in str(caught.value)
    assert "nothing was charged" in str(caught.value)
    leaks_nothing(caught.value)


@pytest.mark.parametrize("policy", OutsideDomain)
@pytest.mark.parametrize("seed", range(3))
def test_clean_records_are_counted_whatever_the_policy(policy, seed):
    columns = people(spoilt=0, seed=seed)
    wanted = expected(columns, MARGINS)
    assert wanted[()] == 300
    same(DuckCounter.from_frame(arrow(columns), DOMAIN, DataSource(outside_domain=policy)).count(MARGINS), wanted)


def test_a_histogram_counts_as_the_records_do():
    columns = people()
    whole = expected(columns, [tuple(USED)])[tuple(USED)]
    domain = fn.Domain({a: DOMAIN[a] for a in USED})
    for counts in (whole, whole.ravel(), whole.astype(np.uint8), whole.astype(">i4")):
        counter = open_counter(counts, domain, DataSource())
        counter.check(USED)
        same(counter.count(MARGINS), expected(columns, MARGINS))


def test_a_histogram_is_read_once():
    counts = np.arange(3)
    counter = open_counter(counts, fn.Domain(a=fn.Ordered(0, 2)), DataSource())
    counts[:] = 7
    same(counter.count([("a",)]), {("a",): np.arange(3)})


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (np.array([1.0, 2, 3]), "float64"),
        (np.array([True, False, True]), "bool"),
        (np.array([1, 2, 3], dtype=object), "object"),
        (np.array([1, 2]), r"\(3,\)"),
        (np.array([[1], [2], [3]]), r"\(3, 1\)"),
        (np.array([1, 2, -987]), "negative"),
        (np.array([2**63, 2**63, 5], dtype=np.uint64), "2\\^62"),
        (np.array([2**61, 2**61, 0]), "2\\^62"),
        (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), "masked"),
    ],
)
def test_what_is_no_histogram_is_refused(counts, words):
    with pytest.raises(DataError, match=words) as caught:
        open_counter(counts, fn.Domain(a=fn.Ordered(0, 2)), DataSource())
    assert "Nothing was measured" in str(caught.value)
    assert "987" not in str(caught.value)


def test_a_histogram_may_hold_almost_2_to_the_62_records():
    counts = np.array([2**61, 2**61 - 1, 0])
    assert open_counter(counts, fn.Domain(a=fn.Ordered(0, 2)), DataSource()).count([()])[()] == 2**62 - 1


def test_a_counter_is_its_own_counter():
    counter = HistogramCounter(np.ones(2, dtype=int), fn.Domain(a=fn.Ordered(0, 1)))
    assert open_counter(counter, DOMAIN, DataSource()) is counter


# --- meanings -----------------------------------------------------------------------------------------


def count_text(attribute, values, *, policy=REFUSE, header="x"):
    """Counts of one CSV column, written as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "x.csv", "x,y\n" + "".join(f"{v},\n" for v in values))
        return (
            DuckCounter.from_path(path, fn.Domain(x=attribute), DataSource(outside_domain=policy))
            .count([("x",)])[("x",)]
            .tolist()
        )


def count_object(attribute, values, *, policy=REFUSE):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    return (
        DuckCounter.from_frame(frame, fn.Domain(x=attribute), DataSource(outside_domain=policy))
        .count([("x",)])[("x",)]
        .tolist()
    )


def test_whole_number_codes_are_compared_as_numbers():
    codes = fn.Categorical([1, 20, -3])
    assert count_text(codes, ["1", "01", "1.0", " 1 ", "1e0", "+1", "20", "2e1", "-3", '"-3.00"']) == [6, 2, 2]
    assert count_object(codes, ["1", 1, 1.0, Decimal("1.00"), np.int8(1), np.float32(20), "020", -3]) == [5, 2, 1]
    assert count_text(codes, ["1", "1.5", "one", "true", "", "1 0", "0x1"], policy=DROP) == [1, 0, 0]
    assert count_object(codes, [1, 1.5, True, None, "x", b"1", math.nan, pd.NA, pd.NaT], policy=DROP) == [1, 0, 0]


def test_text_codes_are_compared_to_the_letter():
    codes = fn.Categorical(["1", "a", "A", " a"])
    assert count_text(codes, ["1", "a", "A", " a", "a", "01", "1.0", "á", "a "], policy=DROP) == [1, 2, 1, 1]
    assert count_object(codes, ["1", 1, 1.0, True, "a", b"a", ["a"], "A"], policy=DROP) == [2, 1, 1, 0]
    frame = pl.DataFrame({"x": [1, 2, 1]})  # a whole number is also its decimal text
    counter = DuckCounter.from_frame(frame, fn.Domain(x=fn.Categorical(["2", "1"])), DataSource())
    assert counter.count([("x",)])[("x",)].tolist() == [1, 2]


def test_composed_and_decomposed_letters_are_different_codes():
    assert count_text(fn.Categorical(["\u00e9", "e\u0301"]), ["\u00e9", "e\u0301", "e\u0301"]) == [1, 2]


def test_truth_values_in_text():
    codes = fn.Categorical([False, True])
    assert count_text(codes, ["true", "TRUE", "t", "Yes", "y", "1", " true ", "f", "False", "no", "N", "0"]) == [5, 7]
    assert count_text(codes, ["on", "2", "1.0", "", "null", "wahr"], policy=DROP) == [0, 0]
    assert count_object(codes, [True, np.False_, "false", 1, 0]) == [3, 2]
    assert count_text(fn.Categorical({True: "yes"}), ["1", "0"], policy=DROP) == [1]


def test_empty_text_is_missing_in_csv_unless_it_is_a_code():
    assert count_text(fn.Categorical(["a"]), ["a", "", '""'], policy=DROP) == [1]
    assert count_text(fn.Categorical(["a", ""]), ["a", "", '""']) == [1, 2]
    frame = pa.table({"x": ["", None, "a"]})
    counter = DuckCounter.from_frame(frame, fn.Domain(x=fn.Categorical(["a", ""])), DataSource(outside_domain=DROP))
    assert counter.count([("x",)])[("x",)].tolist() == [1, 1]
    assert count_text(fn.Ordered(0, 1), ["", "1"], policy=DROP) == [0, 1]


def test_words_for_missing_are_text_like_any_other():
    assert count_text(fn.Categorical(["NULL", "NA", "nan"]), ["NULL", "NA", "nan", "NULL"]) == [2, 1, 1]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8, unique=True))
@example([5e-324, 1.7976931348623157e308, 0.1, -0.1])
def test_a_bin_starts_at_its_cut(numbers):
    cuts = sorted({x + 0.0 for x in numbers})
    attribute = fn.Binned(cuts)
    values = [*cuts, *(math.nextafter(c, -math.inf) for c in cuts), 0.0, -0.0]
    values = [v for v in values if math.isfinite(v)]
    wanted = np.bincount([attribute.position(v) for v in values], minlength=attribute.size).tolist()
    assert count_text(attribute, map(repr, values)) == wanted
    assert count_object(attribute, values) == wanted
    frame = pa.table({"x": values})
    assert (
        DuckCounter.from_frame(frame, fn.Domain(x=attribute), DataSource()).count([("x",)])[("x",)].tolist() == wanted
    )


def test_single_precision_is_taken_at_its_exact_value():
    frame = pd.DataFrame({"x": np.array([0.1, 0.25, 16777217], dtype=np.float32)})  # 0.1f is a little above 0.1
    counter = DuckCounter.from_frame(frame, fn.Domain(x=fn.Binned([0.1, 0.25, 16777217])), DataSource())
    assert counter.count([("x",)])[("x",)].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("make", [lambda v: pa.array(v, pa.decimal128(38, 3)), lambda v: pa.array(map(float, v))])
def test_decimals_and_fractions_are_numbers(make):
    frame = pa.table({"x": make([Decimal("-1.500"), Decimal("-1.000"), Decimal("2.000"), Decimal("2.001")])})
    counter = DuckCounter.from_frame(frame, fn.Domain(x=fn.Ordered(-1, 2)), DataSource(outside_domain=DROP))
    assert counter.count([("x",)])[("x",)].tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("edge", [2**53 - 1, -(2**53) + 1, 0])
def test_ranges_at_the_edge_of_exact_numbers(edge):
    values = [edge, edge - 1, edge + 1, edge - 2, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, -(2**63), 2**63 - 1]
    for clip in (False, True):
        attribute = fn.Ordered(edge - (edge > 0), edge + (edge <= 0), clip=clip)
        wanted = np.bincount([w for v in values if (w := place(attribute, v)) >= 0], minlength=2).tolist()
        for frame in (
            pa.table({"x": pa.array(values, pa.int64())}),
            pa.table({"x": pa.array(values, pa.decimal128(38, 0))}),
        ):
            counter = DuckCounter.from_frame(frame, fn.Domain(x=attribute), DataSource(outside_domain=DROP))
            assert counter.count([("x",)])[("x",)].tolist() == wanted
        assert count_object(attribute, values, policy=DROP) == wanted


def test_a_column_may_serve_several_attributes():
    domain = fn.Domain(
        sharp=fn.Ordered(0, 3, column="x"),
        rough=fn.Binned([1.5], column="x"),
        word=fn.Categorical(["0", "1", "2", "3"], column="x"),
    )
    for frame in (pa.table({"x": [0, 1, 3, 3]}), pd.DataFrame({"x": pd.Series([0, "1", "3", 3.0], dtype=object)})):
        counter = DuckCounter.from_frame(frame, domain, DataSource(outside_domain=DROP))
        counts = counter.count([("rough", "sharp")])
        assert counts["rough", "sharp"].tolist() == [[1, 1, 0, 0], [0, 0, 0, 2]]
    with pytest.raises(DataError, match=r"'x' 1 \(attribute 'word'\)"):
        DuckCounter.from_frame(frame, domain, DataSource()).count([("rough",), ("word",)])


def test_a_margin_asked_for_twice_is_counted_once():
    frame = pa.table({"a": [0, 1, 7]})
    counter = DuckCounter.from_frame(frame, fn.Domain(a=fn.Ordered(0, 1)), DataSource())
    with pytest.raises(DataError, match="'a' 1 "):
        counter.count([("a",), ("a",)])


def test_drop_leaves_a_record_out_of_every_table_and_ignores_unused_attributes():
    frame = pa.table({"a": [0, 1, None, 1], "b": [0, 7, 0, 1], "c": [None, None, None, None]})
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1), c=fn.Ordered(0, 1))
    counter = DuckCounter.from_frame(frame, domain, DataSource(outside_domain=DROP))
    same(
        counter.count([("a",), ("b",), ()]),
        {("a",): [1, 1] @ np.eye(2, dtype=int), ("b",): np.array([1, 1]), (): np.array(2)},
    )
    same(counter.count([("a",)]), {("a",): np.array([1, 2])})
    for whole in (frame, frame.to_pandas(), pl.from_arrow(frame)):
        same(DuckCounter.from_frame(whole, domain, DataSource()).count([()]), {(): np.array(4)})
    same(counter.count([]), {})
    counter.check(["a", "b"])
    counter.check([])


def test_attributes_of_one_value():
    domain = fn.Domain(a=fn.Categorical(["only"]), b=fn.Ordered(4, 4, clip=True))
    counter = DuckCounter.from_frame(pa.table({"a": ["only"] * 3, "b": [1, 4, 9]}), domain, DataSource())
    same(counter.count([("b", "a"), ("a",)]), {("b", "a"): np.array([[3]]), ("a",): np.array([3])})


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow table", "polars", "pandas", "pandas objects", "pandas str"])
@pytest.mark.parametrize("policy", OutsideDomain)
def test_no_records_are_zero_counts(kind, policy, tmp_path):
    columns = people(0)
    counter = open_counter(SOURCES[kind](columns, tmp_path), DOMAIN, DataSource(outside_domain=policy))
    counter.check(USED)
    same(counter.count(MARGINS), expected(columns, MARGINS))
    same(counter.count(MARGINS[1:]), expected(columns, MARGINS[1:]))


@pytest.mark.parametrize("n", [40, 130])
def test_many_attributes_keep_their_margins_apart(n, rng):
    x = rng.integers(0, 2, size=(50, n))
    domain = fn.Domain({f"q{i}": fn.Ordered(0, 1) if i % 8 else fn.Categorical([0, 1]) for i in range(n)})
    pairs = [(f"q{i}", f"q{(i + j) % n}") for i in range(n) for j in (1, 21)]
    frame = pd.DataFrame(x, columns=list(domain))
    counts = DuckCounter.from_frame(frame, domain, DataSource()).count([*pairs, *pairs, ("q0",), ()])
    assert counts[()] == 50
    assert counts["q0",].tolist() == [50 - x[:, 0].sum(), x[:, 0].sum()]
    for a, b in pairs:
        wanted = np.zeros((2, 2), dtype=int)
        np.add.at(wanted, (frame[a], frame[b]), 1)
        np.testing.assert_array_equal(counts[a, b], wanted)


def test_margins_are_summed_down_from_the_smallest_that_holds_them():
    columns = people(spoilt=0)
    got = expected(columns, MARGINS)
    for wanted in [
        ("owner",),
        ("region", "income"),
        ("sex", "kids"),
        (),
        ("age", "kids", "sex"),
        ("kids", "sex", "age"),
    ]:
        np.testing.assert_array_equal(Tally(got)[wanted], expected(columns, [wanted])[wanted])


# --- the neighbour law --------------------------------------------------------------------------------

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 4),
    st.integers(),
    st.floats(),
    st.sampled_from([0.5, 1.0, 3.5, "1", "a", "true", "", " 1 ", "nan", b"a", Decimal("2.5"), Decimal("sNaN"), pd.NA]),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.dates(),
    st.just([1]),
)
READINGS = [
    fn.Categorical(["1", "a", "true", "", "A"]),
    fn.Categorical([1, 2, 3]),
    fn.Categorical([True, False]),
    fn.Ordered(0, 3),
    fn.Ordered(0, 3, clip=True),
    fn.Binned([0.5, 2]),
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ANYTHING, max_size=6), ANYTHING, st.sampled_from(READINGS))
@example([1] * 3, 3.5, READINGS[3])
@example([1, 2, 3.5], "x", READINGS[3])
@example([True, True], 7, READINGS[2])
@example(["a", "b"], 1, READINGS[0])
def test_one_record_more_adds_its_own_cell_whatever_it_holds(records, more, attribute):
    """Columns of Python objects, whose type an engine would guess from a sample."""

    def count(values):
        return np.array(count_object(attribute, values, policy=DROP))

    alone = count([more])
    assert sorted(alone)[:-1] == [0] * (attribute.size - 1)
    assert alone.max() <= 1
    np.testing.assert_array_equal(count([*records, more]), count(records) + alone)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=5), max_size=3),
    st.sampled_from(READINGS),
)
@example(["1", "1\n", '"', ","], READINGS[0])
def test_a_csv_line_has_the_same_cell_alone_as_beside_others(values, attribute):
    quoted = ['"' + v.replace('"', '""') + '"' for v in values]
    apart = [count_text(attribute, [v], policy=DROP) for v in quoted]
    together = np.array(count_text(attribute, quoted, policy=DROP))
    np.testing.assert_array_equal(together, sum(map(np.array, apart), np.zeros_like(together)))


def test_one_record_more_adds_one_to_every_margin(tmp_path):
    columns = people(40, spoilt=0)
    more = people(40, spoilt=0.05, seed=1)
    before = expected(columns, MARGINS)
    for i in range(8):
        neighbour = {c: v + more[c][i : i + 1] for c, v in columns.items()}
        path = written(tmp_path / "people.csv", csv_text(neighbour))
        after = open_counter(path, DOMAIN, DataSource(outside_domain=DROP)).count(MARGINS)
        moved = {m: (after[m] - before[m]) for m in MARGINS}
        inside = all(place(DOMAIN[a], more[DOMAIN.column(a)][i]) >= 0 for a in USED)
        for difference in moved.values():
            assert difference.min() >= 0
            assert difference.sum() == inside


@pytest.mark.usefixtures("real_engine")
def test_a_collation_of_the_data_does_not_count_a_record_twice(tmp_path):
    path = tmp_path / "people.duckdb"
    with duckdb.connect(path) as db:
        db.execute("CREATE TABLE people (x VARCHAR COLLATE NOCASE)")
        db.execute("INSERT INTO people VALUES ('a'), ('A'), ('a')")
    domain = fn.Domain(x=fn.Categorical(["A", "a"]))
    counter = DuckCounter.from_path(path, domain, DataSource(table="people"))
    assert counter.count([("x",)])[("x",)].tolist() == [1, 2]


# --- columns ------------------------------------------------------------------------------------------


def one(frame, column, source=None):
    domain = fn.Domain(x=fn.Ordered(0, 9, column=column))
    counter = open_counter(frame, domain, source or DataSource())
    counter.check(["x"])
    counts = counter.count([("x",)])[("x",)]
    assert counts.sum() == 1
    return counts.argmax()


FRAMES = {
    "pandas": lambda names: pd.DataFrame([range(len(names))], columns=names),
    "arrow": lambda names: pa.table([[i] for i in range(len(names))], names=names),
    "polars": lambda names: pl.DataFrame([[i] for i in range(len(names))], schema=names),
}


def frame_or_file(kind, names, folder):
    if kind in FRAMES:
        return FRAMES[kind](names)
    if kind == "csv":
        return written(folder / "x.csv", ",".join(names) + "\n" + ",".join(str(i) for i in range(len(names))) + "\n")
    pq.write_table(FRAMES["arrow"](names), folder / "x.parquet")
    return folder / "x.parquet"


KINDS = [*FRAMES, "csv", "parquet"]


@pytest.mark.parametrize("kind", KINDS)
def test_capitals_of_a_column_matter_only_where_several_match(kind, tmp_path):
    def names(*columns):
        return frame_or_file(kind, list(columns), tmp_path)

    assert one(names("Age", "AGE_1", "b"), "age") == 0
    assert one(names("b", "Ünder"), "üNDER") == 1
    assert one(names("Age", "age", "AGE"), "age") == 1  # the exact one
    assert one(names("age_1", "Age", "x"), "age_1") == 0  # an engine that renames doubles would not confuse this
    with pytest.raises(
        DataError, match=r"2 columns called 'age' \(capitals aside\).*cannot be told.*Nothing was counted"
    ):
        one(names("AGE", "b", "Age"), "age")


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "polars"])
def test_columns_of_one_name_are_refused_only_where_they_are_needed(kind, tmp_path):
    assert one(frame_or_file(kind, ["a", "z", "z", "b"], tmp_path), "b") == 3
    with pytest.raises(DataError, match="2 columns called 'z'"):
        one(frame_or_file(kind, ["a", "z", "z", "b"], tmp_path), "z")


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_column_is_named_with_those_there_are(kind, tmp_path):
    data = frame_or_file(kind, ["b", "a"], tmp_path)
    domain = fn.Domain(a=fn.Ordered(0, 9), age=fn.Ordered(0, 9, column="years"))
    counter = open_counter(data, domain, DataSource())
    counter.check(["a"])
    with pytest.raises(
        DataError, match=r"no column 'years', which attribute 'age' needs; it has \['a', 'b'\].*Nothing was counted"
    ):
        counter.check(["a", "age"])


def test_a_first_line_that_is_a_record_is_not_repeated(tmp_path):
    path = written(tmp_path / "x.csv", f"{SECRET},3,3\nmore,4,4\n")
    counter = open_counter(path, fn.Domain(name=fn.Ordered(0, 1), age=fn.Ordered(0, 9)), DataSource())
    with pytest.raises(DataError, match="is that a header line") as caught:
        counter.check(["age"])
    assert SECRET not in str(caught.value)


def test_columns_inside_columns_of_parquet_are_not_columns(tmp_path):
    inner = pa.array([[{"x": 5, "z": {"x": [6]}}]])
    pq.write_table(
        pa.table({"a": inner, "m": pa.array([[("x", 7)]], pa.map_(pa.string(), pa.int64())), "x": [8]}),
        tmp_path / "x.parquet",
    )
    assert one(tmp_path / "x.parquet", "x") == 8
    with pytest.raises(DataError, match=r"it has \['a', 'm', 'x'\]"):
        one(tmp_path / "x.parquet", "z")


def test_numbers_as_column_names_of_pandas():
    assert one(pd.DataFrame([[5, 7]], columns=[0, 1]), "1") == 7
    with pytest.raises(DataError, match="2 columns called '1'"):
        one(pd.DataFrame([[5, 7]], columns=["1", 1]), "1")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\1\r\ufeff"), min_size=1, max_size=6),
        min_size=1, max_size=4, unique_by=str.casefold,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.booleans(),
)  # fmt: skip
@example(["a;b", "c|d|e", "f\tg"], "\n", csv.QUOTE_ALL, False)
@example(['"', "'; DROP TABLE people; --", "\n\n", ","], "\n", csv.QUOTE_MINIMAL, False)
@example(["a", "b c", "ü"], "\r\n", csv.QUOTE_ALL, True)
@example([",", "0"], "\n", csv.QUOTE_ALL, True)
def test_any_header_of_a_csv_file_is_understood(names, end, quoting, mark):
    assume(quoting == csv.QUOTE_ALL or not (set("".join(names)) & set(";\t|") or any(not n.strip() for n in names)))
    assume(end == "\n" or not any("\n" in n for n in names))
    columns = {n: [str(i)] for i, n in enumerate(names)}
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 9, column=n) for i, n in enumerate(names)})
    with tempfile.TemporaryDirectory() as folder:
        content = csv_text(columns, end=end, quoting=quoting)
        path = written(Path(folder) / "x.csv", ("\ufeff" if mark else "") + content)
        marked = set("".join(names)) & set(',;\t|"\n') if mark else set()  # engines may trip over a mark before quotes
        with contextlib.nullcontext() if not marked else contextlib.suppress(DataError):
            counts = open_counter(path, domain, DataSource()).count([(a,) for a in domain])
            assert [c.tolist() for c in counts.values()] == np.eye(10, dtype=int)[: len(names)].tolist()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_of_csv(end, last, tmp_path):
    path = written(tmp_path / "x.csv", end.join(["x,y", "1,", "1,2"]) + (end if last else ""))
    assert open_counter(path, fn.Domain(x=fn.Ordered(0, 1)), DataSource()).count([("x",)])[("x",)].tolist() == [0, 2]


def test_a_mark_before_a_quoted_header_loses_no_record(tmp_path):
    path = written(tmp_path / "x.csv", '\ufeff"x, in thousands","y"\n7,2\n')
    assert one(path, "x, in thousands") == 7
    path = written(tmp_path / "x.csv", '\ufeff",","x"\n1,2\n')  # of which DuckDB finds none, up to 2.0 at least
    with pytest.raises(DataError, match="byte-order mark"):
        one(path, "x")


def test_a_blank_line_is_a_missing_value_where_there_is_one_column(tmp_path):
    path = written(tmp_path / "x.csv", "x\n1\n\n1\n")
    with pytest.raises(DataError, match="'x' 1 "):
        open_counter(path, fn.Domain(x=fn.Ordered(0, 1)), DataSource()).count([("x",)])


ENUM = f"ENUM('{SECRET}')"
WRONG = {
    "text for numbers": (pa.table({"x": [SECRET]}), fn.Ordered(0, 1), "VARCHAR.*needs numbers"),
    "text for bins": (pl.DataFrame({"x": ["1"]}), fn.Binned([1]), "VARCHAR.*needs numbers"),
    "text for number codes": (pa.table({"x": ["1"]}), fn.Categorical([1]), "VARCHAR.*needs numbers"),
    "fractions for text": (pa.table({"x": [1.5]}), fn.Categorical(["1.5"]), "DOUBLE.*needs texts"),
    "truth for text": (pa.table({"x": [True]}), fn.Categorical(["true"]), "BOOLEAN.*needs texts"),
    "truth for numbers": (pa.table({"x": [True]}), fn.Ordered(0, 1), "BOOLEAN.*needs numbers"),
    "numbers for truth": (pa.table({"x": [1]}), fn.Categorical([True]), "BIGINT.*needs true/false"),
    "lists": (pa.table({"x": [[1]]}), fn.Ordered(0, 1), "LIST.*needs numbers"),
    "structs": (pa.table({"x": [{"SECRETFIELD": 1}]}), fn.Ordered(0, 1), "STRUCT;"),
    "bytes": (pa.table({"x": [b"a"]}), fn.Categorical(["a"]), "BLOB"),
    "days": (pa.table({"x": [datetime.date(2020, 1, 1)]}), fn.Categorical(["2020-01-01"]), "DATE"),
    "times in pandas": (pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}), fn.Ordered(0, 1), "TIMESTAMP"),
    "categories in pandas": (pd.DataFrame({"x": pd.Categorical([1])}), fn.Categorical([True]), "BIGINT"),
    "decimals in lists": ("CREATE TABLE t (x DECIMAL(10, 2)[])", fn.Ordered(0, 1), "LIST"),
    "arrays": ("CREATE TABLE t (x INTEGER[3])", fn.Ordered(0, 1), "LIST"),
    "enumerations in lists": (f"CREATE TABLE t (x {ENUM}[])", fn.Categorical(["a"]), "LIST"),
    "enumerations": (f"CREATE TABLE t (x {ENUM})", fn.Ordered(0, 1), "ENUM; "),
    "unions": ("CREATE TABLE t (x UNION(a INTEGER))", fn.Ordered(0, 1), "UNION; "),
    "times with zones": ("CREATE TABLE t (x TIMESTAMPTZ)", fn.Ordered(0, 1), "TIMESTAMP WITH TIME ZONE; "),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_column_of_the_wrong_type_is_refused_before_records_are_read(kind, tmp_path):
    data, attribute, words = WRONG[kind]
    if isinstance(data, str):
        with duckdb.connect(tmp_path / "x.duckdb") as db:
            db.execute(data)
        data = tmp_path / "x.duckdb"
    counter = open_counter(data, fn.Domain(x=attribute, y=fn.Ordered(0, 1)), DataSource(table="t"))
    for act in (lambda: counter.check(["x"]), lambda: counter.count([("x",)])):
        with pytest.raises(DataError, match=f"column 'x' .*{words}") as caught:
            act()
        assert "SECRET" not in str(caught.value).upper()


def test_enumerations_and_unique_ids_are_text(tmp_path):
    with duckdb.connect(tmp_path / "x.ddb") as db:
        db.execute(
            "CREATE TABLE t AS SELECT 'b'::ENUM('a', 'b') AS x, '5D2B1C1E-7B7D-4D1F-9B39-4A3A4A1C2D3E'::UUID AS y"
        )
    domain = fn.Domain(x=fn.Categorical(["a", "b"]), y=fn.Categorical(["5d2b1c1e-7b7d-4d1f-9b39-4a3a4a1c2d3e"]))
    counter = open_counter(tmp_path / "x.ddb", domain, DataSource(table="T"))
    assert counter.count([("x", "y")])["x", "y"].tolist() == [[0], [1]]


def test_a_column_without_a_value_has_no_wrong_type():
    frame = pa.table({"x": pa.nulls(3)})
    engine_knows_nothing = duckdb.__version__ >= "2"  # before, such a column was one of whole numbers
    for attribute in READINGS if engine_knows_nothing else READINGS[:2]:
        counter = DuckCounter.from_frame(frame, fn.Domain(x=attribute), DataSource(outside_domain=DROP))
        assert counter.count([("x",)])[("x",)].sum() == 0


def test_an_attribute_of_a_new_kind_is_refused():
    class Fuzzy(Attribute):
        column = None
        values = ("a",)
        ordered = False

        def position(self, value):
            return 0

    with pytest.raises(DataError, match="Fuzzy cannot be counted"):
        DuckCounter.from_frame(pa.table({"x": [1]}), fn.Domain(x=Fuzzy()), DataSource()).count([("x",)])


# --- what fails, fails without a word of the data ------------------------------------------------------


def leaks_nothing(error):
    assert "nothing was" in str(error).lower()
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert error.__context__ is None  # stronger than a context that is suppressed: nobody who walks the chain finds it


class Broken:
    """A stream that fails in the middle of the records, quoting one."""

    schema = pa.schema([("x", pa.int64())])

    def __init__(self, *, late):
        self.late = late

    def __arrow_c_stream__(self, requested_schema=None):
        if not self.late:
            raise RuntimeError(SECRET)

        def batches():
            yield pa.record_batch([pa.array([1])], schema=self.schema)
            raise RuntimeError(SECRET)

        return pa.RecordBatchReader.from_batches(self.schema, batches()).__arrow_c_stream__(requested_schema)


class Nameless(Broken):
    schema = None


def parquet_bytes():
    table = pa.table({"x": pa.array(range(5000)), "name": [SECRET] * 5000})
    out = io.BytesIO()
    pq.write_table(table, out, compression="none")
    return out.getvalue()


def damaged(start, stop):
    content = bytearray(parquet_bytes())
    content[start:stop] = bytes(255 - b for b in content[start:stop])
    return bytes(content)


BROKEN = {
    "line too short": ("x.csv", f"x,y,name\n1,2,a\n1,{SECRET}\n"),
    "line too long": ("x.csv", f"x,y,name\n1,2,a\n1,2,{SECRET},4\n"),
    "open quote": ("x.csv", f'x,name\n1,"{SECRET}\n2,3\n'),
    "text after a quote": ("x.csv", f'x,name\n1,"{SECRET}"a\n2,3\n'),
    "not UTF-8": ("x.csv", f"x,name\n1,{SECRET}\n2,".encode() + b"\xff\xfe\n"),
    "UTF-16": ("x.csv", f"x,name\n1,{SECRET}\n".encode("utf-16")),
    "mixed line ends": ("x.csv", f"x,name\n1,{SECRET}\r\n2,a\n"),
    "not compressed": ("x.csv.gz", f"x,name\n1,{SECRET}\n"),
    "cut off": ("x.csv.gz", gzip.compress(f"x,name\n1,{SECRET}\n".encode() * 9000)[:-40]),
    "header too long": ("x.csv", f'"{SECRET * 20000}",x\n1,2\n'),
    "huge line": ("x.csv", f"x,name\n1,{SECRET * 400_000}\n"),
    "empty csv": ("x.csv", ""),
    "blank first line": ("x.csv", f"\nx,y\n1,{SECRET}\n"),
    "blank first line, returns": ("x.csv", f"\rx,y\r1,{SECRET}\r"),
    "lines within names, other ends": ("x.csv", f'"x","a\nb"\r\n1,{SECRET}\r\n'),
    "empty parquet": ("x.parquet", b""),
    "csv called parquet": ("x.parquet", f"x,name\n1,{SECRET}\n"),
    "damaged parquet": ("x.parquet", damaged(4, 3000)),
    "damaged footer": ("x.parquet", damaged(-200, -8)),
    "cut parquet": ("x.parquet", parquet_bytes()[:-100]),
    "csv called duckdb": ("x.duckdb", f"x,name\n1,{SECRET}\n" * 2000),
    "empty duckdb": ("x.duckdb", b""),
    "unknown form": ("x.xlsx", SECRET),
    "no form": ("data", SECRET),
    "compressed parquet": ("x.parquet.gz", gzip.compress(parquet_bytes())),
    "unchecked compression": ("x.csv.zst", gzip.compress(b"x\n1\n")),
    "only compressed": ("x.gz", gzip.compress(b"x\n1\n")),
    "failing stream": (None, lambda: Broken(late=True)),
    "refusing stream": (None, lambda: Broken(late=False)),
    "nameless refusing stream": (None, lambda: Nameless(late=False)),
    "no frame": (None, lambda: [SECRET]),
    "no data": (None, lambda: None),
    "complex numbers": (None, lambda: pd.DataFrame({"x": [1j]})),
    "sparse numbers": (None, lambda: pd.DataFrame({"x": pd.arrays.SparseArray([0, 1])})),
    "objects in polars": (None, lambda: pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)})),
    "a reader": (None, lambda: pa.table({"x": [1], "name": [SECRET]}).to_reader()),
    "a lazy frame": (None, lambda: pl.DataFrame({"x": [1]}).lazy()),
}


@pytest.mark.usefixtures("real_engine")  # some files leave nothing of the engine that meets them
@pytest.mark.parametrize("kind", BROKEN)
def test_what_cannot_be_read_is_refused_without_quoting_it(kind, tmp_path):
    name, content = BROKEN[kind]
    data = content() if name is None else written(tmp_path / name, content)
    domain = fn.Domain(x=fn.Ordered(0, 9999))
    with pytest.raises(DataError) as caught:
        open_counter(data, domain, DataSource(table="people", outside_domain=DROP)).count([("x",)])
    leaks_nothing(caught.value)


def test_half_a_letter_is_no_code_and_is_not_quoted():
    frame = pd.DataFrame({"x": pd.Series([SECRET + "\udc80", "a"], dtype=object)})
    counter = DuckCounter.from_frame(frame, fn.Domain(x=fn.Categorical(["a"])), DataSource())
    with pytest.raises(DataError) as caught:  # outside the domain, or more than the engine can take
        counter.count([("x",)])
    leaks_nothing(caught.value)


@pytest.mark.usefixtures("real_engine")
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_flipped_byte_of_a_parquet_file_is_an_error_or_harmless(compression, tmp_path, rng):
    table = pa.table({"x": rng.integers(0, 5, 500), "name": [SECRET] * 500})
    pq.write_table(table, tmp_path / "x.parquet", compression=compression)
    whole = (tmp_path / "x.parquet").read_bytes()
    domain = fn.Domain(x=fn.Ordered(0, 4))
    for at in rng.choice(len(whole), size=12):
        content = bytearray(whole)
        content[at] ^= 1 << rng.integers(8)
        path = written(tmp_path / "y.parquet", bytes(content))
        try:
            counts = open_counter(path, domain, DataSource(outside_domain=DROP)).count([("x",)])[("x",)]
        except DataError as error:
            leaks_nothing(error)
        else:
            assert counts.sum() <= 500


def test_a_flipped_bit_of_a_compressed_file_is_an_error(tmp_path, rng):
    """The engine alone reads a quarter of them as other records, without an error."""
    whole = gzip.compress(csv_text({"x": [str(i) for i in rng.integers(0, 5, 500)]}).encode(), mtime=0)
    domain = fn.Domain(x=fn.Ordered(0, 4))
    for at in rng.choice(np.arange(10, len(whole)), size=20):
        content = bytearray(whole)
        content[at] ^= 1 << rng.integers(8)
        with pytest.raises(DataError, match="cannot be read as CSV"):
            open_counter(written(tmp_path / "x.csv.gz", bytes(content)), domain, DataSource())


@pytest.mark.usefixtures("real_engine")
def test_the_line_of_a_broken_csv_is_told(tmp_path):
    path = written(tmp_path / "x.csv", "x,y\n" + "1,2\n" * 20 + f"{SECRET}\n" + "1,2\n")
    with pytest.raises(DataError, match=r"InvalidInputException at line 22\); look for a line with"):
        open_counter(path, fn.Domain(x=fn.Ordered(0, 1)), DataSource()).count([("x",)])


def test_no_file_a_directory_and_other_things_are_refused(tmp_path):
    written(tmp_path / "x.parquet" / "part.parquet", parquet_bytes())
    written(tmp_path / "a.duckdb", "")
    written(tmp_path / "b.duckdb", "")
    domain = fn.Domain(x=fn.Ordered(0, 9999))
    for data, words in {
        tmp_path / "none.csv": "there is no data file 'none.csv'",
        tmp_path / "none*.csv": r"there is no data file 'none\*.csv'",
        tmp_path / "x.parquet": r"'x.parquet' is a directory; give a file or a pattern such as x.parquet/\*",
        tmp_path / "*.duckdb": "matches 2 DuckDB files",
        "https://example.org/people.csv": "there is no data file",
        "s3://bucket/*.parquet": "there is no data file",
        7: "got int",
        DOMAIN: "got Domain",
    }.items():
        with pytest.raises(DataError, match=f"{words}.*Nothing was read") as caught:
            open_counter(data, domain, DataSource())
        assert str(tmp_path) not in str(caught.value)


def test_a_pattern_matches_files_and_no_directories(tmp_path):
    (tmp_path / "a.csv").mkdir()
    written(tmp_path / "b" / "c" / "d.csv", "x\n5\n")
    written(tmp_path / "b.csv", "x\n5\n")
    assert one(tmp_path / "?.csv", "x") == 5
    assert one(tmp_path / "b" / "**" / "*.csv", "x") == 5


def test_what_to_do_about_sources_that_cannot_be_counted(tmp_path):
    domain = fn.Domain(x=fn.Ordered(0, 9))
    for data, words in [
        (pl.DataFrame({"x": [1]}).lazy(), "collect it first"),
        (pa.table({"x": [1]}).to_reader(), r"read it into a table first \(read_all\)"),
        (written(tmp_path / "a.csv", ""), "has no header line"),
        (written(tmp_path / "b.csv", "\nx\n1\n"), "has no header line"),
        (written(tmp_path / "c.csv", "  \nx\n1\n"), "has no header line"),
    ]:
        with pytest.raises(DataError, match=f"{words}.*Nothing was read"):
            open_counter(data, domain, DataSource())


def test_files_of_a_pattern_must_be_alike(tmp_path):
    """An engine would cast 3.5 to the integer 4 of the first file, or take columns in another order."""
    domain = fn.Domain(x=fn.Ordered(0, 9))
    for name, a, b in [
        ("types", {"x": [1], "y": [2]}, {"x": [3.5], "y": [2]}),
        ("order", {"x": [1], "y": [2]}, {"y": [1], "x": [2]}),
        ("names", {"x": [1]}, {"y": [1]}),
        ("number", {"x": [1]}, {"x": [1], "y": [1]}),
    ]:
        for i, columns in enumerate((a, b)):
            (tmp_path / name).mkdir(exist_ok=True)
            pq.write_table(pa.table(columns), tmp_path / name / f"{i}.parquet")
            written(tmp_path / name / f"{i}.csv", csv_text(columns))
        for form in ("parquet", "csv"):
            if (name, form) == ("types", "csv"):
                continue
            with pytest.raises(DataError, match=rf"not alike: '1.{form}'"):
                open_counter(tmp_path / name / f"*.{form}", domain, DataSource())


def test_tables_of_a_duckdb_file_are_named_where_one_is_needed(tmp_path):
    path = tmp_path / "x.duckdb"
    with duckdb.connect(path) as db:
        db.execute("CREATE SCHEMA s; CREATE TABLE t (x INTEGER); CREATE TABLE s.u (x INTEGER)")
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("CREATE VIEW v AS SELECT t.x FROM t, t AS again")
    domain = fn.Domain(x=fn.Ordered(0, 1))
    for table in (None, "v", "u", "s.t", 't"; DROP TABLE t; --', "x.t"):
        with pytest.raises(DataError, match=r"\['main.t', 's.u', 't'\].*Nothing was read"):
            open_counter(path, domain, DataSource(table=table))
    for table in ("t", "main.t", "T", "MAIN.t"):
        same(open_counter(path, domain, DataSource(table=table)).count([("x",)]), {("x",): np.array([0, 1])})


# --- once, alone, and without a trace --------------------------------------------------------------------


@pytest.mark.usefixtures("real_engine")
def test_the_records_are_read_once_for_all_margins():
    given = []

    class Counting:
        """A stream that remembers what it has handed out."""

        def __arrow_c_stream__(self, requested_schema=None):
            table = arrow(people(spoilt=0))

            def batches():
                for batch in table.to_batches(max_chunksize=100):
                    given.append(batch.num_rows)
                    yield batch

            return pa.RecordBatchReader.from_batches(table.schema, batches()).__arrow_c_stream__(requested_schema)

    counter = open_counter(Counting(), DOMAIN, DataSource())
    counter.check(USED)
    assert given == []
    same(counter.count(MARGINS), expected(people(spoilt=0), MARGINS))
    assert given == [100, 100, 100]


def test_only_the_columns_of_used_attributes_are_read():
    class Picky:
        """A frame that must be asked for what is needed."""

        schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
        asked = ()

        def select(self, names):
            Picky.asked = names
            return pa.table({n: [1] for n in names})

        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError

    counter = open_counter(Picky(), fn.Domain(x=fn.Ordered(0, 1), y=fn.Ordered(0, 1)), DataSource())
    assert counter.count([("y",)])["y",].tolist() == [0, 1]
    assert Picky.asked == ["y"]


@pytest.mark.usefixtures("real_engine")
def test_the_engine_is_alone():
    people = pd.DataFrame({"x": [1]})  # noqa: F841 - what must not be found
    with sources.engine() as db:
        for setting in ("autoinstall_known_extensions", "autoload_known_extensions", "allow_persistent_secrets"):
            assert db.execute(f"SELECT current_setting('{setting}')").fetchone() == (False,)
        with pytest.raises(duckdb.CatalogException):
            db.execute("SELECT * FROM people")
        with pytest.raises(duckdb.Error):
            db.execute("SELECT * FROM 'https://127.0.0.1:1/x.parquet'")
        (folder,) = db.execute("SELECT current_setting('temp_directory')").fetchone()
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        inside = db
    assert not Path(folder).exists()
    with pytest.raises(duckdb.ConnectionException):
        inside.execute("SELECT 1")


def open_files(folder):
    return [p for p in Path("/proc/self/fd").iterdir() if os.path.realpath(p).startswith(str(folder))]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize("spoilt", [0, 0.1])
@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb", "csv pattern"])
@pytest.mark.usefixtures("real_engine")
def test_nothing_stays_open_or_lies_about(kind, spoilt, tmp_path, monkeypatch):
    (tmp_path / "spill").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))
    monkeypatch.chdir(tmp_path)
    data = SOURCES[kind](people(spoilt=spoilt), tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    counter = open_counter(data, DOMAIN, DataSource(table="people"))
    assert open_files(tmp_path) == []
    counter.check(USED)
    assert open_files(tmp_path) == []
    if spoilt:
        with pytest.raises(DataError):
            counter.count(MARGINS)
    else:
        counter.count(MARGINS)
    assert open_files(tmp_path) == []
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert list((tmp_path / "spill").iterdir()) == []
    if kind == "duckdb":  # neither locked nor changed, while the counter still lives
        with duckdb.connect(data) as db:
            db.execute("DROP TABLE decoy")


@pytest.mark.usefixtures("real_engine")
def test_a_duckdb_file_with_a_log_is_read_as_it_stands_and_left_alone(tmp_path):
    """What a crash leaves behind: records that are only in the write-ahead log."""
    path, copy = tmp_path / "x.duckdb", tmp_path / "y.duckdb"
    with duckdb.connect(path) as db:
        db.execute("SET wal_autocheckpoint = '1TB'")
        db.execute("PRAGMA disable_checkpoint_on_shutdown")
        db.execute("CREATE TABLE t AS SELECT 1 AS x FROM range(5)")
        for suffix in ("", ".wal"):
            written(Path(f"{copy}{suffix}"), Path(f"{path}{suffix}").read_bytes())
    before = {p: p.read_bytes() for p in (copy, Path(f"{copy}.wal"))}
    counts = open_counter(copy, fn.Domain(x=fn.Ordered(0, 1)), DataSource(table="t")).count([("x",)])
    same(counts, {("x",): np.array([0, 5])})
    assert {p: p.read_bytes() for p in before} == before


@pytest.mark.usefixtures("real_engine")
def test_a_database_held_by_another_is_refused(tmp_path):
    data = SOURCES["duckdb"](people(), tmp_path)
    with duckdb.connect(data), pytest.raises(DataError, match="held open by another program") as caught:
        open_counter(data, DOMAIN, DataSource(table="people"))
    leaks_nothing(caught.value)


def test_every_counter_is_a_counter():
    assert issubclass(DuckCounter, Counter)
    assert issubclass(HistogramCounter, Counter)


@pytest.mark.usefixtures("real_engine")
def test_too_little_memory_is_told(tmp_path):
    data = SOURCES["parquet"](people(), tmp_path)
    counter = DuckCounter.from_path(data, DOMAIN, DataSource(), memory_limit="100KB")
    with pytest.raises(DataError, match=r"OutOfMemoryException\); allow more memory") as caught:
        counter.count(MARGINS)
    leaks_nothing(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("real_engine")
def test_five_million_records_are_counted_out_of_core(tmp_path):
    path = tmp_path / "big.parquet"
    n, wide = 5_000_000, 300_000
    with duckdb.connect() as db:
        db.execute(
            f"COPY (SELECT (i * 7919) % {wide} AS place, chr(97 + (i % 26)::INTEGER) AS letter, i % 1000 / 4 AS amount "
            f"FROM range({n}) AS t(i)) TO '{path}'"
        )
    letters = [chr(97 + i) for i in range(26)]
    domain = fn.Domain(place=fn.Ordered(0, wide - 1), letter=fn.Categorical(letters), amount=fn.Binned([50, 100.25]))
    counter = DuckCounter.from_path(path, domain, DataSource(), memory_limit="100MB")
    counts = counter.count([("place",), ("letter", "amount"), ("place", "amount")])
    i = np.arange(n)
    place, bins = (i * 7919) % wide, np.searchsorted([50, 100.25], i % 1000 / 4, side="right")
    np.testing.assert_array_equal(counts["place",], np.bincount(place, minlength=wide))
    np.testing.assert_array_equal(counts["letter", "amount"].ravel(), np.bincount(i % 26 * 3 + bins, minlength=78))
    np.testing.assert_array_equal(counts["place", "amount"].ravel(), np.bincount(place * 3 + bins, minlength=3 * wide))
