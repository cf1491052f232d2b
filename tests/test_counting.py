"""Counting against an independent reading of the same records, from every kind of source, and what it must refuse."""

import contextlib
import csv
import datetime
import gzip
import io
import itertools
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from decimal import Decimal
from functools import partial
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
import zoo
from engines import ENGINES, SLOW
from fitnoise.engines import DuckCounter, duck, open_counter, sources
from fitnoise.errors import DataError
from fitnoise.kernel.codings import DROPPED, OUTSIDE
from fitnoise.kernel.counting import Counter, Tally, joint_counts
from fitnoise.kernel.units import DataSource
from laws.counting import DROP, REFUSE, HistogramCounter, check_counter, counted, in_cells, leaks_nothing, same_counts
from records import Records, Sample, csv_text, write_file
from refused import SECRET, refused

NAMES = {
    "sex": "texts",
    "region": "whole numbers",
    "owner": "truth",
    "age": "clipped",
    "kids": "range",
    "income": "bins",
    "hours": "range, missing ones in cells",
    "status": "texts, others dropped",
}
SAMPLES = {a: zoo.ATTRIBUTES[name] for a, name in NAMES.items()}
DOMAIN = fn.Domain({**{a: s.attribute for a, s in SAMPLES.items()}, "unused": fn.Ordered(0, 1)})
MARGINS = [(), ("sex",), ("kids", "sex"), ("income", "owner", "region"), ("age",), tuple(NAMES)]
OTHER = Sample(fn.Ordered(0, 2), "int16", [[0], [1], [2]], [3, None])


def people(n=300, *, spoilt=0.1, seed=5, source=zoo.COUNTERS["arrow table"]):
    """n records as a source holds them, some values of which are outside."""
    rng = np.random.default_rng(seed)

    def pick(sample):
        held = source.held(sample, sample.values)
        inside = [v for v in held if sample.attribute.cell(v) is not None]
        outside = [v for v in held if sample.attribute.cell(v) is None] or inside
        return [(x := outside if rng.random() < spoilt else inside)[rng.integers(len(x))] for _ in range(n)]

    return Records(DOMAIN, {a: pick(s) for a, s in SAMPLES.items()}, {a: s.kind for a, s in SAMPLES.items()})


def with_other(source, attribute, values):
    """Records with these values of an attribute, as far as the source holds them, and with another attribute."""
    sample = zoo.ATTRIBUTES[attribute]
    domain = fn.Domain({"x": sample.attribute, "beside": OTHER.attribute, "unused": fn.Ordered(0, 1)})
    held = source.held(sample, values)
    others = source.held(OTHER, OTHER.values)
    cycled_values = [others[i % len(others)] for i in range(len(held))]
    return Records(domain, {"x": held, "beside": cycled_values}, {"x": sample.kind, "beside": OTHER.kind})


@pytest.fixture
def real_engine():
    """For tests that start and stop engines as users do."""


@pytest.fixture(autouse=True)
def share_one_engine(request):
    if "real_engine" not in request.fixturenames:
        request.getfixturevalue("one_engine")


# --- the law ------------------------------------------------------------------------------------------------


def side_by_side(source, attributes):
    """Every value of these attributes that the source holds, each in a record whose other values are inside."""
    listed = {f"x{i}": zoo.ATTRIBUTES[a] for i, a in enumerate(attributes)} | {"beside": OTHER}
    held = {a: source.held(sample, sample.values) for a, sample in listed.items()}
    inside = {a: [v for v in held[a] if listed[a].attribute.cell(v) is not None] for a in listed}
    columns = {a: [] for a in listed if inside[a]}
    for a, b in itertools.product(columns, columns):
        columns[b] += held[a] if a == b else [inside[b][0]] * len(held[a])
    domain = fn.Domain({a: listed[a].attribute for a in columns})
    return Records(domain, columns, {a: listed[a].kind for a in columns})


def select_rows(records, rows):
    return replace(
        records,
        values={a: [v for v, is_kept in zip(x, rows, strict=True) if is_kept] for a, x in records.values.items()},
    )


HISTOGRAMS = [c for c in zoo.COUNTERS if c.startswith("histogram")]
"""They have a place for every cell of the domain."""

FOLDERS = [
    "texts that look like others", "empty text", "texts of whole numbers", "whole numbers", "truth", "clipped", "bins",
    "range, missing ones in cells", "texts, missing ones in cells", "range, absent ones dropped",
]  # fmt: skip
"""Samples that are tried as values in names of folders, if there is one column."""


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
@pytest.mark.parametrize("become", ["longer", "touched", "another", "gone"])
def test_files_that_change_while_they_are_counted_are_refused(name, become, tmp_path, monkeypatch):
    frame, path = pd.DataFrame({"x": [0, 1, 1]}), tmp_path / name
    write = partial(frame.to_csv, index=False) if name.endswith("csv") else frame.to_parquet
    write(path)
    counter = open_counter(path, fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource("s"))
    assert counter.count([("x",)])["x",].tolist() == [1, 2]
    stat = path.stat()

    def then_change():
        if become == "longer":
            path.write_bytes(path.read_bytes() + b"0\n")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        elif become == "touched":
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        elif become == "another":
            path.rename(tmp_path / "old")
            write(path)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        else:
            path.unlink()

    count = DuckCounter._counted
    monkeypatch.setattr(DuckCounter, "_counted", lambda *a, **b: (count(*a, **b), then_change())[0])
    with refused("data.data-changed-while-read"):
        counter.count([("x",)])


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("counter", "attributes"),
    [(c, [*zoo.ATTRIBUTES]) for c in zoo.COUNTERS if c not in HISTOGRAMS]
    + [(c, [a]) for c in HISTOGRAMS for a in zoo.ATTRIBUTES]
    + [("csv lake", [a]) for a in FOLDERS],
    ids=lambda x: x if isinstance(x, str) else x[0] if len(x) == 1 else "all",
)
def test_every_counter_counts_every_attribute_as_declared(counter, attributes, tmp_path):
    """All values to refuse are reported; without them, each of the others is in its cell."""
    source = zoo.COUNTERS[counter]
    records = side_by_side(source, attributes)
    domain, cells = records.domain, in_cells(records)
    margins = [*((a,) for a in cells), (), tuple(cells)[-1:-3:-1]]
    data_by_rows = {}

    def counting(is_kept, policy):
        if (rows := is_kept.tobytes()) not in data_by_rows:
            (folder := tmp_path / str(len(data_by_rows))).mkdir()
            data_by_rows[rows] = source.make(select_rows(records, is_kept), folder)
        counter = open_counter(data_by_rows[rows], domain.axes, DataSource(table=source.table, outside_domain=policy))
        counter.check(margins[0])
        return counter

    for policy in (DROP, REFUSE):
        dropped_codes = {DROPPED, OUTSIDE} if policy is DROP else {DROPPED}
        gone = np.any([np.isin(c, list(dropped_codes)) for c in cells.values()], axis=0)
        bad = {a: n for a in domain if (n := int((cells[a][~gone] < 0).sum()))}
        if bad:
            with pytest.raises(DataError) as caught:
                counting(np.ones(len(records), dtype=bool), policy).count(margins)
            where = ", ".join(f"{n} in the column {domain.column(a)!r} (attribute {a!r})" for a, n in bad.items())
            assert caught.value.code == "data.records-outside-domain"
            assert caught.value.given.endswith(f"outside the domain: {where}.")
            leaks_nothing(caught.value)
        fine = np.all([c >= 0 for c in cells.values()], axis=0)
        inside = {a: c[fine] for a, c in cells.items()}
        same_counts(counting(fine | gone, policy).count(margins), counted(domain, inside, margins))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("counter", "way"),
    [(c, "as it is") for c in zoo.COUNTERS]
    + [(c, "codes joined, by sevens") for c in zoo.COUNTERS if c not in ENGINES or c == "sqlite"],  # others do not read
)
def test_every_counter_counts_attributes_jointly(counter, way, tmp_path, monkeypatch):
    """And two of them alone, others with each counter."""
    source = zoo.COUNTERS[counter]
    if way != "as it is":
        monkeypatch.setattr(duck, "_MAX_CODES_IN_CASE", 0)
        monkeypatch.setattr(joint_counts, "BATCH_BYTES", 7 * 2 * len(NAMES))
    start = 2 * [*zoo.COUNTERS].index(counter)
    by_one = [[*NAMES][i % len(NAMES)] for i in (start, start + 1)] if way == "as it is" and counter not in SLOW else []
    check_counter(source, people(source=source), tmp_path, by_one_attributes=by_one)


@pytest.mark.no_cover
@pytest.mark.parametrize("counter", zoo.COUNTERS)
def test_no_records_are_zero_counts(counter, tmp_path):
    source = zoo.COUNTERS[counter]
    check_counter(source, people(0, source=source), tmp_path, by_one_attributes=["sex"] if counter not in SLOW else [])


ANYTHING = st.one_of(
    st.booleans(),
    st.integers(-2, 20),
    st.integers(),
    st.floats(),
    st.floats(width=32),
    st.decimals(places=3),
    st.fractions(),
    st.complex_numbers(),
    st.text("0123456789._eE+- \t\n\v\f", max_size=7),
    st.text(),
    st.binary(max_size=2),
    st.dates(),
    st.lists(st.integers(), max_size=1),
)


@pytest.mark.no_cover
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.slow
@given(
    st.sampled_from([*zoo.COUNTERS]),
    st.sampled_from([*zoo.ATTRIBUTES]),
    st.lists(ANYTHING, max_size=8),
    st.lists(st.integers(0, 200), max_size=8),
)
@example("pandas objects", "range", [1, 1, 1, 3.5, "x"], [])
@example("pandas objects", "truth", [True, True, 7], [])
@example("pandas objects", "texts", ["f", "m", 1], [])
@example("csv", "texts that look like others", ["1", "1\n", '"', ",", "\0"], [])
@example("txt", "range", ["1\n", "|", '"1"', "\n"], [0])
def test_every_counter_counts_whatever_values_as_declared(counter, attribute, values, places):
    """Detects a value that is read otherwise than declared, alone or because of its neighbours: by a guessed type."""
    source, listed = zoo.COUNTERS[counter], zoo.ATTRIBUTES[attribute].values
    values += [listed[i % len(listed)] for i in places]
    with tempfile.TemporaryDirectory() as folder:
        check_counter(source, with_other(source, attribute, values), Path(folder))


@pytest.mark.no_cover
@settings(max_examples=200)
@given(st.sampled_from([*zoo.ATTRIBUTES]), ANYTHING)
def test_every_value_has_a_cell_or_none(attribute, value):
    a = zoo.ATTRIBUTES[attribute].attribute
    cell = a.cell(value)
    assert cell is None or (type(cell) is int and 0 <= cell < a.size)


# --- histograms ---------------------------------------------------------------------------------------------


def test_a_histogram_is_read_once():
    counts = np.arange(3)
    counter = open_counter(counts, fn.Domain(a=fn.Ordered(0, 2)).axes, DataSource())
    counts[:] = 7
    same_counts(counter.count([("a",)]), {("a",): np.arange(3)})


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        (np.array([1.0, 2, 3]), "data.counts-not-integers"),
        (np.array([True, False, True]), "data.counts-not-integers"),
        (np.array([1, 2, 3], dtype=object), "data.counts-not-integers"),
        (np.array([1, 2]), "data.counts-of-wrong-shape"),
        (np.array([[1], [2], [3]]), "data.counts-of-wrong-shape"),
        (np.array([1, 2, -987]), "data.counts-negative"),
        (np.array([2**63, 2**63, 5], dtype=np.uint64), "data.counts-above-max-records"),
        (np.array([2**61, 2**61, 0]), "data.counts-above-max-records"),
        (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), "data.counts-masked"),
    ],
)
def test_what_is_no_histogram_is_refused(counts, code):
    with refused(code) as caught:
        open_counter(counts, fn.Domain(a=fn.Ordered(0, 2)).axes, DataSource())
    assert "Nothing was measured" in str(caught.value)
    assert "987" not in str(caught.value)


def test_a_histogram_may_hold_almost_2_to_the_62_records():
    counts = np.array([2**61, 2**61 - 1, 0])
    domain = fn.Domain(a=fn.Ordered(0, 2))
    assert open_counter(counts, domain.axes, DataSource(max_records=2**62)).count([()])[()] == 2**62 - 1
    assert HistogramCounter(counts, domain.axes).count([()])[()] == 2**62 - 1


@pytest.mark.parametrize("max_records", [1, 5, 2**40])
def test_an_array_of_more_records_than_are_declared_is_refused(max_records):
    """The public bound decides it alone, and the error does not contain the number of records."""
    domain, source = fn.Domain(a=fn.Ordered(0, 2)), DataSource(max_records=max_records)
    assert open_counter(np.array([max_records - 1, 0, 1]), domain.axes, source).count([()])[()] == max_records
    with refused("data.counts-above-max-records") as caught:
        open_counter(np.array([max_records - 1, 2, 5]), domain.axes, source)
    assert f"{max_records + 6:,}" not in str(caught.value)


def test_a_counter_is_its_own_counter():
    counter = HistogramCounter(np.ones(2, dtype=int), fn.Domain(a=fn.Ordered(0, 1)).axes)
    assert open_counter(counter, DOMAIN.axes, DataSource()) is counter


# --- what no zoo has -----------------------------------------------------------------------------------------


def count_text(attribute, values, *, policy=REFUSE, header="x"):
    """Counts of one CSV column, written as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_file(Path(folder) / "x.csv", "x,y\n" + "".join(f"{v},\n" for v in values))
        return (
            DuckCounter.from_path(path, fn.Domain(x=attribute).axes, DataSource(outside_domain=policy))
            .count([("x",)])[("x",)]
            .tolist()
        )


def count_object(attribute, values, *, policy=REFUSE):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    return (
        DuckCounter.from_frame(frame, fn.Domain(x=attribute).axes, DataSource(outside_domain=policy))
        .count([("x",)])[("x",)]
        .tolist()
    )


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8, unique=True))
@example([5e-324, 1.7976931348623157e308, 0.1, -0.1])
def test_a_bin_starts_at_its_cut(numbers):
    cuts = sorted({x + 0.0 for x in numbers})
    attribute = fn.Binned(cuts)
    values = [*cuts, *(math.nextafter(c, -math.inf) for c in cuts), 0.0, -0.0]
    values = [v for v in values if math.isfinite(v)]
    expected = np.bincount([attribute.cell(v) for v in values], minlength=attribute.size).tolist()
    assert count_text(attribute, map(repr, values)) == expected
    assert count_object(attribute, values) == expected
    frame = pa.table({"x": values})
    assert (
        DuckCounter.from_frame(frame, fn.Domain(x=attribute).axes, DataSource()).count([("x",)])[("x",)].tolist()
        == expected
    )


def test_a_column_may_serve_several_attributes():
    domain = fn.Domain(
        sharp=fn.Ordered(0, 3, column="x"),
        rough=fn.Binned([1.5], column="x"),
        word=fn.Categorical(["0", "1", "2", "3"], column="x", if_missing="refuse", if_outside="refuse"),
    )
    for frame in (pa.table({"x": [0, 1, 3, 3]}), pd.DataFrame({"x": pd.Series([0, "1", "3", 3.0], dtype=object)})):
        counter = DuckCounter.from_frame(frame, domain.axes, DataSource(outside_domain=DROP))
        counts = counter.count([("rough", "sharp")])
        assert counts["rough", "sharp"].tolist() == [[1, 1, 0, 0], [0, 0, 0, 2]]
    with refused("data.records-outside-domain"):
        DuckCounter.from_frame(frame, domain.axes, DataSource()).count([("rough",), ("word",)])


def test_a_margin_requested_twice_is_counted_once():
    frame = pa.table({"a": [0, 1, 7]})
    counter = DuckCounter.from_frame(frame, fn.Domain(a=fn.Ordered(0, 1)).axes, DataSource())
    with refused("data.records-outside-domain"):
        counter.count([("a",), ("a",)])


def test_drop_leaves_a_record_out_of_every_table():
    """Records count by all attributes of the domain, so that one table more changes no other table's truth."""
    frame = pa.table({"a": [0, 1, None, 1], "b": [0, 7, 0, 1], "c": [0, 0, 0, 0]})
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1), c=fn.Ordered(0, 1))
    counter = DuckCounter.from_frame(frame, domain.axes, DataSource(outside_domain=DROP))
    same_counts(
        counter.count([("a",), ("b",), ()]),
        {("a",): [1, 1] @ np.eye(2, dtype=int), ("b",): np.array([1, 1]), (): np.array(2)},
    )
    same_counts(counter.count([("a",)]), {("a",): np.array([1, 1])})
    same_counts(counter.count([()]), {(): np.array(2)})
    for source in (frame, frame.to_pandas(), pl.from_arrow(frame)):
        same_counts(DuckCounter.from_frame(source, domain.axes, DataSource()).count([()]), {(): np.array(4)})
    same_counts(counter.count([]), {})
    counter.check(["a", "b"])
    counter.check([])


@pytest.mark.parametrize("n", [40, 130])
def test_many_attributes_keep_their_margins_separate(n, rng):
    x = rng.integers(0, 2, size=(50, n))
    domain = fn.Domain({f"q{i}": fn.Ordered(0, 1) if i % 8 else fn.Categorical([0, 1]) for i in range(n)})
    pairs = [(f"q{i}", f"q{(i + j) % n}") for i in range(n) for j in (1, 21)]
    frame = pd.DataFrame(x, columns=list(domain))
    counts = DuckCounter.from_frame(frame, domain.axes, DataSource()).count([*pairs, *pairs, ("q0",), ()])
    assert counts[()] == 50
    assert counts["q0",].tolist() == [50 - x[:, 0].sum(), x[:, 0].sum()]
    for a, b in pairs:
        expected = np.zeros((2, 2), dtype=int)
        np.add.at(expected, (frame[a], frame[b]), 1)
        np.testing.assert_array_equal(counts[a, b], expected)


def test_margins_are_summed_down_from_the_smallest_that_holds_them():
    cells = in_cells(people(spoilt=0))
    tally = Tally(counted(DOMAIN, cells, MARGINS))
    for margin in [
        ("owner",),
        ("region", "income"),
        ("sex", "kids"),
        (),
        ("age", "kids", "sex"),
        ("kids", "sex", "age"),
    ]:
        np.testing.assert_array_equal(tally[margin], counted(DOMAIN, cells, [margin])[margin])


@pytest.mark.usefixtures("real_engine")
def test_a_collation_of_the_data_does_not_count_a_record_twice(tmp_path):
    path = tmp_path / "people.duckdb"
    with duckdb.connect(path) as db:
        db.execute("CREATE TABLE people (x VARCHAR COLLATE NOCASE)")
        db.execute("INSERT INTO people VALUES ('a'), ('A'), ('a')")
    domain = fn.Domain(x=fn.Categorical(["A", "a"]))
    counter = DuckCounter.from_path(path, domain.axes, DataSource(table="people"))
    assert counter.count([("x",)])[("x",)].tolist() == [1, 2]


# --- columns ------------------------------------------------------------------------------------------


def one(frame, column, source=None):
    domain = fn.Domain(x=fn.Ordered(0, 9, column=column))
    counter = open_counter(frame, domain.axes, source or DataSource())
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
        return write_file(folder / "x.csv", ",".join(names) + "\n" + ",".join(str(i) for i in range(len(names))) + "\n")
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
    with refused("data.column-ambiguous"):
        one(names("AGE", "b", "Age"), "age")


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "polars"])
def test_columns_of_one_name_are_refused_only_where_they_are_needed(kind, tmp_path):
    assert one(frame_or_file(kind, ["a", "z", "z", "b"], tmp_path), "b") == 3
    with refused("data.column-ambiguous"):
        one(frame_or_file(kind, ["a", "z", "z", "b"], tmp_path), "z")


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_column_is_named_with_those_there_are(kind, tmp_path):
    data = frame_or_file(kind, ["b", "a"], tmp_path)
    domain = fn.Domain(a=fn.Ordered(0, 9), age=fn.Ordered(0, 9, column="years"))
    counter = open_counter(data, domain.axes, DataSource())
    counter.check(["a"])
    with refused("data.column-missing"):
        counter.check(["a", "age"])


def test_columns_inside_columns_of_parquet_are_not_columns(tmp_path):
    inner = pa.array([[{"x": 5, "z": {"x": [6]}}]])
    pq.write_table(
        pa.table({"a": inner, "m": pa.array([[("x", 7)]], pa.map_(pa.string(), pa.int64())), "x": [8]}),
        tmp_path / "x.parquet",
    )
    assert one(tmp_path / "x.parquet", "x") == 8
    with refused("data.column-missing"):
        one(tmp_path / "x.parquet", "z")


def test_numbers_as_column_names_of_pandas():
    assert one(pd.DataFrame([[5, 7]], columns=[0, 1]), "1") == 7
    with refused("data.column-ambiguous"):
        one(pd.DataFrame([[5, 7]], columns=["1", 1]), "1")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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
        path = write_file(Path(folder) / "x.csv", ("\ufeff" if mark else "") + content)
        marked = set("".join(names)) & set(',;\t|"\n') if mark else set()  # engines may trip over a mark before quotes
        with contextlib.nullcontext() if not marked else contextlib.suppress(DataError):
            counts = open_counter(path, domain.axes, DataSource()).count([(a,) for a in domain])
            assert [c.tolist() for c in counts.values()] == np.eye(10, dtype=int)[: len(names)].tolist()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_of_csv(end, last, tmp_path):
    path = write_file(tmp_path / "x.csv", end.join(["x,y", "1,", "1,2"]) + (end if last else ""))
    assert open_counter(path, fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource()).count([("x",)])[("x",)].tolist() == [
        0,
        2,
    ]


def test_a_mark_before_a_quoted_header_loses_no_record(tmp_path):
    path = write_file(tmp_path / "x.csv", '\ufeff"x, in thousands","y"\n7,2\n')
    assert one(path, "x, in thousands") == 7
    path = write_file(tmp_path / "x.csv", '\ufeff",","x"\n1,2\n')  # of which DuckDB finds none, up to 2.0 at least
    with refused("data.csv-header-ambiguous"):
        one(path, "x")


@pytest.mark.parametrize(
    "header", [("SECRET", "1", "Smith"), ("sex", "1", "Smith"), ("age", "f", "Smith"), ("Smith", "", "1")]
)
def test_an_error_about_columns_tells_nothing_of_a_first_line_that_may_be_a_record(header, tmp_path):
    path = write_file(tmp_path / "x.csv", f"{','.join(header)}\nm,2,Jones\n")
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 3), other=fn.Ordered(0, 1))
    with refused("data.column-missing") as caught:
        open_counter(path, domain.axes, DataSource()).count([("sex", "age")])
    message = str(caught.value)
    assert not any(value in message for value in {"SECRET", "Smith", "Jones", "'1'", "'f'"} - {"sex", "age"})
    in_domain = [c for c in header if c in domain]
    assert (f"only '{in_domain[0]}' of the domain" if in_domain else "no column of the domain") in message


def test_a_blank_line_is_a_missing_value_where_there_is_one_column(tmp_path):
    path = write_file(tmp_path / "x.csv", "x\n1\n\n1\n")
    with refused("data.records-outside-domain"):
        open_counter(path, fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource()).count([("x",)])


ENUM = f"ENUM('{SECRET}')"
WRONG = {
    "fractions for text": (pa.table({"x": [1.5]}), fn.Categorical(["1.5"]), "DOUBLE.*needs texts"),
    "truth for text": (pa.table({"x": [True]}), fn.Categorical(["true"]), "BOOLEAN.*needs texts"),
    "truth for numbers": (pa.table({"x": [True]}), fn.Ordered(0, 1), "BOOLEAN.*needs numbers"),
    "numbers for truth": (pa.table({"x": [1]}), fn.Categorical([True]), "BIGINT.*needs true/false"),
    "lists": (pa.table({"x": [[1]]}), fn.Ordered(0, 1), "LIST.*needs numbers"),
    "structs": (pa.table({"x": [{"SECRETFIELD": 1}]}), fn.Ordered(0, 1), r"STRUCT\."),
    "bytes": (pa.table({"x": [b"a"]}), fn.Categorical(["a"]), "BLOB"),
    "days": (pa.table({"x": [datetime.date(2020, 1, 1)]}), fn.Categorical(["2020-01-01"]), "DATE"),
    "times in pandas": (pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}), fn.Ordered(0, 1), "TIMESTAMP"),
    "categories in pandas": (pd.DataFrame({"x": pd.Categorical([1])}), fn.Categorical([True]), "BIGINT"),
    "decimals in lists": ("CREATE TABLE t (x DECIMAL(10, 2)[])", fn.Ordered(0, 1), "LIST"),
    "arrays": ("CREATE TABLE t (x INTEGER[3])", fn.Ordered(0, 1), "LIST"),
    "enumerations in lists": (f"CREATE TABLE t (x {ENUM}[])", fn.Categorical(["a"]), "LIST"),
    "enumerations": (f"CREATE TABLE t (x {ENUM})", fn.Ordered(0, 1), r"ENUM\. "),
    "unions": ("CREATE TABLE t (x UNION(a INTEGER))", fn.Ordered(0, 1), r"UNION\. "),
    "times with zones": ("CREATE TABLE t (x TIMESTAMPTZ)", fn.Ordered(0, 1), r"TIMESTAMP WITH TIME ZONE\. "),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_column_of_the_wrong_type_is_refused_before_records_are_read(kind, tmp_path):
    data, attribute, pattern = WRONG[kind]
    if isinstance(data, str):
        with duckdb.connect(tmp_path / "x.duckdb") as db:
            db.execute(data)
        data = tmp_path / "x.duckdb"
    counter = open_counter(data, fn.Domain(x=attribute, y=fn.Ordered(0, 1)).axes, DataSource(table="t"))
    for act in (lambda: counter.check(["x"]), lambda: counter.count([("x",)])):
        with refused("data.column-of-wrong-type") as caught:
            act()
        assert re.search(pattern, str(caught.value))
        assert "SECRET" not in str(caught.value).upper()


@pytest.mark.parametrize("frame", [pa.table, pl.DataFrame, pd.DataFrame], ids=["arrow", "polars", "pandas"])
@pytest.mark.parametrize("attribute", [fn.Ordered(0, 7), fn.Binned([1, 7]), fn.Categorical([1, 7])], ids=str)
def test_numbers_are_read_from_texts_of_a_frame_as_from_a_csv_file(frame, attribute):
    texts = ["1", "07", " 7 ", "1,5", "0x1", "1e0", "", SECRET]
    counter = open_counter(frame({"x": texts}), fn.Domain(x=attribute).axes, DataSource(outside_domain=DROP))
    cells = [c for c in map(attribute.cell, texts) if c is not None]
    assert counter.count([("x",)])["x",].tolist() == np.bincount(cells, minlength=attribute.size).tolist()


MONTHS = pd.period_range("2024-01", periods=2, freq="M")

UNREAD = {
    "periods": (pd.Series(MONTHS), r"period\[M\].*Convert with \.dt\.to_timestamp\(\)"),
    "categories of periods": (pd.Series(MONTHS).astype("category"), r"Convert with \.dt\.to_timestamp\(\)"),
    "intervals": (pd.Series(pd.interval_range(0, 2)), r"interval.*Convert to numbers"),
    "sparse": (pd.Series(pd.arrays.SparseArray([2024, 2025])), r"Sparse.*Convert with \.sparse\.to_dense\(\)"),
    "complex": (pd.Series([1j, 2j]), "complex128.*Convert to numbers"),
    "complex of half the bytes": (pd.Series([1j, 2j], dtype="complex64"), "complex64.*Convert to numbers"),
}


@pytest.mark.parametrize("kind", UNREAD)
@pytest.mark.parametrize("attribute", [fn.Ordered(2020, 2030, date_part="year"), fn.Categorical(["2024-01"])], ids=str)
def test_a_type_of_pandas_that_is_not_read_is_refused_by_name_with_the_conversion(kind, attribute):
    column, pattern = UNREAD[kind]
    counter = open_counter(
        pd.DataFrame({"y": [0, 1], "x": column}), fn.Domain(x=attribute, y=fn.Ordered(0, 1)).axes, DataSource()
    )
    for act in (lambda: counter.check(["x"]), lambda: counter.count([("y", "x")])):
        with refused("data.pandas-type-not-read") as caught:
            act()
        assert re.search(pattern, str(caught.value))
    assert counter.count([("y",)])["y",].tolist() == [1, 1]  # another column is counted


@pytest.mark.no_cover
@pytest.mark.parametrize("digits", [20, 50, 76])
def test_long_decimals_of_arrow_are_refused_by_name(digits):
    table = pa.table({"x": pa.array([Decimal(1)], pa.decimal256(digits, 3)), "y": [1]})
    counter = open_counter(table, fn.Domain(x=fn.Ordered(0, 1), y=fn.Ordered(0, 1)).axes, DataSource())
    for act in (lambda: counter.check(["x"]), lambda: counter.count([("x", "y")])):
        with refused("data.arrow-type-not-read", key="x") as caught:
            act()
        assert f"decimal256({digits}, 3)" in str(caught.value)
    assert counter.count([("y",)])["y",].tolist() == [0, 1]


@pytest.mark.no_cover
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32"])
def test_a_csv_file_in_another_encoding_is_refused_by_name(encoding, packed, tmp_path):
    content = "x,name\n1,ü\n".encode(encoding)
    path = write_file(tmp_path / ("x.csv.gz" if packed else "x.csv"), gzip.compress(content) if packed else content)
    with refused("data.csv-encoding-not-read") as caught:
        open_counter(path, fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource())
    assert f"encoded in {encoding}." in str(caught.value)


def test_converted_columns_of_pandas_are_counted():
    frame = pd.DataFrame({"x": pd.Series(MONTHS).dt.to_timestamp(), "y": pd.arrays.SparseArray([0, 1])})
    frame["y"] = frame["y"].sparse.to_dense()
    counter = open_counter(
        frame, fn.Domain(x=fn.Ordered(2023, 2024, date_part="year"), y=fn.Ordered(0, 1)).axes, DataSource()
    )
    assert counter.count([("x", "y")])["x", "y"].tolist() == [[0, 0], [1, 1]]


def test_enumerations_and_unique_ids_are_text(tmp_path):
    with duckdb.connect(tmp_path / "x.ddb") as db:
        db.execute(
            "CREATE TABLE t AS SELECT 'b'::ENUM('a', 'b') AS x, '5D2B1C1E-7B7D-4D1F-9B39-4A3A4A1C2D3E'::UUID AS y"
        )
    domain = fn.Domain(x=fn.Categorical(["a", "b"]), y=fn.Categorical(["5d2b1c1e-7b7d-4d1f-9b39-4a3a4a1c2d3e"]))
    counter = open_counter(tmp_path / "x.ddb", domain.axes, DataSource(table="T"))
    assert counter.count([("x", "y")])["x", "y"].tolist() == [[0], [1]]


def test_a_column_without_a_value_has_no_wrong_type():
    engine_knows_nothing = duckdb.__version__ >= "2"  # before, such a column was one of whole numbers
    for sample in SAMPLES.values():
        if engine_knows_nothing or sample.kind == "int64":
            domain = fn.Domain(x=sample.attribute)
            frame = pa.table({domain.column("x"): pa.nulls(3)})
            counter = DuckCounter.from_frame(frame, domain.axes, DataSource(outside_domain=DROP))
            assert counter.count([("x",)])[("x",)].sum() == (0 if sample.attribute.cell(None) is None else 3)


# --- what fails, fails without a word of the data ------------------------------------------------------


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


@pytest.mark.no_cover
@pytest.mark.usefixtures("real_engine")  # some files leave nothing of the engine that meets them
@pytest.mark.parametrize("kind", BROKEN)
def test_what_cannot_be_read_is_refused_without_quoting_it(kind, tmp_path):
    name, content = BROKEN[kind]
    data = content() if name is None else write_file(tmp_path / name, content)
    domain = fn.Domain(x=fn.Ordered(0, 9999))
    with pytest.raises(DataError) as caught:
        open_counter(data, domain.axes, DataSource(table="people", outside_domain=DROP)).count([("x",)])
    leaks_nothing(caught.value)


@pytest.mark.no_cover
@pytest.mark.usefixtures("real_engine")
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_flipped_byte_of_a_parquet_file_is_an_error_or_harmless(compression, tmp_path, rng):
    table = pa.table({"x": rng.integers(0, 5, 500), "name": [SECRET] * 500})
    pq.write_table(table, tmp_path / "x.parquet", compression=compression)
    content_before = (tmp_path / "x.parquet").read_bytes()
    domain = fn.Domain(x=fn.Ordered(0, 4))
    for index in rng.choice(len(content_before), size=12):
        content = bytearray(content_before)
        content[index] ^= 1 << rng.integers(8)
        path = write_file(tmp_path / "y.parquet", bytes(content))
        try:
            counts = open_counter(path, domain.axes, DataSource(outside_domain=DROP)).count([("x",)])[("x",)]
        except DataError as error:
            leaks_nothing(error)
        else:
            assert counts.sum() <= 500


def test_a_flipped_bit_of_a_compressed_file_is_an_error(tmp_path, rng):
    """The engine alone reads a quarter of them as other records, without an error."""
    content_before = gzip.compress(csv_text({"x": [str(i) for i in rng.integers(0, 5, 500)]}).encode(), mtime=0)
    domain = fn.Domain(x=fn.Ordered(0, 4))
    for index in rng.choice(np.arange(10, len(content_before)), size=20):
        content = bytearray(content_before)
        content[index] ^= 1 << rng.integers(8)
        with refused("data.data-file-not-read"):
            open_counter(write_file(tmp_path / "x.csv.gz", bytes(content)), domain.axes, DataSource())


@pytest.mark.usefixtures("real_engine")
def test_the_line_of_a_broken_csv_is_reported(tmp_path):
    path = write_file(tmp_path / "x.csv", "x,y\n" + "1,2\n" * 20 + f"{SECRET}\n" + "1,2\n")
    with refused("data.data-file-not-read"):
        open_counter(path, fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource()).count([("x",)])


@pytest.mark.usefixtures("real_engine")
def test_a_quoted_text_that_several_readers_meet_is_read_by_one(tmp_path):
    """They start eight million bytes from one another; each must find a record. Progress still only rises."""
    note = '"' + "1,2\n" * 25_000 + '"'
    path = write_file(
        tmp_path / "x.csv", "x,y\n" + f"0,{'z' * 9000}\n" * 883 + f"1,{note}\n" + f"2,{'z' * 9000}\n" * 1500
    )
    fractions = []
    counts = open_counter(path, fn.Domain(x=fn.Ordered(0, 2)).axes, DataSource()).count([("x",)], fractions.append)
    assert counts[("x",)].tolist() == [883, 1, 1500]
    assert fractions == sorted(fractions)


def test_what_may_be_wrong_with_a_csv_file_names_the_longest_record_that_is_read(tmp_path):
    path = write_file(tmp_path / "x.csv", "x,y\n0,a\n1,b\n" + '1,"' + "1,2\n" * 600_000 + '"\n')
    with refused("data.data-file-not-read"):
        open_counter(path, fn.Domain(x=fn.Ordered(0, 2)).axes, DataSource()).count([("x",)])


def tabled(path, columns, *statements_after):
    """A DuckDB file with the table t."""
    with duckdb.connect(str(path)) as connection:
        for statement in (
            *statements_after,
            f"CREATE TABLE t ({columns})",
            "INSERT INTO t (x) VALUES ('1'), ('2'), (' 2 '), ('no')",
        ):
            connection.execute(statement)
    return path


@pytest.mark.parametrize(
    ("attribute", "counts"),
    [
        (fn.Categorical([1, 2]), [1, 2]),
        (fn.Ordered(0, 2), [0, 1, 2]),
        (fn.Binned([2]), [1, 2]),
        (fn.Categorical([True, False]), [1, 1]),
        (fn.Categorical(["2", " 2 "]), [1, 1]),
    ],
)
def test_text_in_a_table_is_read_like_that_of_a_csv_file(attribute, counts, tmp_path):
    texts = write_file(tmp_path / "t.csv", "x\n1\n2\n 2 \nno\n")
    table = tabled(tmp_path / "t.duckdb", "x VARCHAR")
    for data in (texts, table):
        source = DataSource(table="t", outside_domain=DROP)
        assert open_counter(data, fn.Domain(x=attribute).axes, source).count([("x",)])[("x",)].tolist() == counts


MOVING = ["random()", "CAST(epoch_ms(CAST(now() AS TIMESTAMP)) AS DOUBLE)", "main.random() + 1", "epoch(age(d))"]


@pytest.mark.parametrize("formula", MOVING)
def test_a_generated_column_that_may_be_another_each_time_is_refused(formula, tmp_path):
    columns = f"x VARCHAR, d TIMESTAMP, y DOUBLE AS ({formula}), z BIGINT AS (length(x) * 1)"
    path, source = tabled(tmp_path / "t.duckdb", columns), DataSource(table="t", outside_domain=DROP)
    with refused("data.column-generated"):
        open_counter(path, fn.Domain(y=fn.Ordered(0, 1)).axes, source).check(["y"])
    domain = fn.Domain(z=fn.Ordered(1, 3))
    assert open_counter(path, domain.axes, source).count([("z",)])[("z",)].tolist() == [2, 1, 1]


def test_no_file_and_other_things_are_refused(tmp_path):
    write_file(tmp_path / "a.duckdb", "")
    write_file(tmp_path / "b.duckdb", "")
    domain = fn.Domain(x=fn.Ordered(0, 9999))
    for data, code in {
        tmp_path / "none.csv": "data.data-file-missing",
        tmp_path / "none*.csv": "data.data-file-missing",
        tmp_path / "*.duckdb": "data.files-not-readable-together",
        "https://example.org/people.csv": "data.data-over-network",
        "s3://bucket/*.parquet": "data.data-over-network",
        Path("s3://bucket/people.csv"): "data.data-over-network",  # as the command line gives it
        duckdb.sql("SELECT 1 AS x"): "data.duckdb-relation-foreign",
        7: "data.data-of-unknown-kind",
        DOMAIN: "data.data-of-unknown-kind",
    }.items():
        with refused(code) as caught:
            open_counter(data, domain.axes, DataSource())
        assert str(tmp_path) not in str(caught.value)


def test_a_pattern_matches_files_and_no_directories(tmp_path):
    (tmp_path / "a.csv").mkdir()
    write_file(tmp_path / "b" / "c" / "d.csv", "x\n5\n")
    write_file(tmp_path / "b.csv", "x\n5\n")
    assert one(tmp_path / "?.csv", "x") == 5
    assert one(tmp_path / "b" / "**" / "*.csv", "x") == 5


def test_what_to_do_about_sources_that_cannot_be_counted(tmp_path):
    domain = fn.Domain(x=fn.Ordered(0, 9))
    for data, code in [
        (pl.DataFrame({"x": [1]}).lazy(), "data.frame-not-collected"),
        (pa.table({"x": [1]}).to_reader(), "data.frame-read-once"),
        (write_file(tmp_path / "a.csv", ""), "data.csv-header-missing"),
        (write_file(tmp_path / "b.csv", "\nx\n1\n"), "data.csv-header-missing"),
        (write_file(tmp_path / "c.csv", "  \nx\n1\n"), "data.csv-header-missing"),
    ]:
        with refused(code):
            open_counter(data, domain.axes, DataSource())


@pytest.mark.no_cover
@pytest.mark.parametrize("attribute", [fn.Binned([10, 20]), fn.Ordered(0, 2, clip=True), fn.Categorical([0, 1, 2])])
@pytest.mark.parametrize("others", [[], [2.0], [2.0, 30.0], [30.0], [5.0]])
def test_what_a_file_says_of_all_its_numbers_decides_nothing(attribute, others, tmp_path):
    """Its least and its largest leave out NaN: one record more would decide what a thousand others count as."""
    table = pa.table({"x": pa.array([math.nan] * 1000 + others, pa.float64(), from_pandas=False)})
    for dictionary in (True, False):
        path = tmp_path / "x.parquet"
        pq.write_table(table, path, use_dictionary=dictionary)
        for policy in (DROP, REFUSE):
            counter, same = (
                open_counter(data, fn.Domain(x=attribute).axes, DataSource(outside_domain=policy))
                for data in (path, table)
            )
            if policy is REFUSE:
                with refused("data.records-outside-domain"):
                    counter.count([("x",)])
            else:
                expected = [sum(attribute.cell(v) == i for v in others) for i in range(attribute.size)]
                assert counter.count([("x",)])[("x",)].tolist() == same.count([("x",)])[("x",)].tolist() == expected


def test_files_of_a_pattern_must_have_equal_columns(tmp_path):
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
            write_file(tmp_path / name / f"{i}.csv", csv_text(columns))
        for form in ("parquet", "csv"):
            if (name, form) == ("types", "csv"):
                continue
            with refused("data.files-with-other-columns"):
                open_counter(tmp_path / name / f"*.{form}", domain.axes, DataSource())


INTEGERS = {
    "TINYINT": (False, 8), "SMALLINT": (False, 16), "INTEGER": (False, 32), "BIGINT": (False, 64),
    "HUGEINT": (False, 128),
    "UTINYINT": (True, 8), "USMALLINT": (True, 16), "UINTEGER": (True, 32), "UBIGINT": (True, 64),
    "UHUGEINT": (True, 128),
}  # fmt: skip
"""Types of integers: whether without a sign, and bits."""

RANGES = [(-100, 300), (0, 5), (2**53 - 3, 2**53 - 1), (1 - 2**53, 3 - 2**53), (-129, -127), (127, 128)]


@pytest.mark.no_cover
def test_integers_of_every_type_are_in_the_ranges_in_which_they_are(tmp_path, one_engine):
    """At the ends of each type, and of ranges beyond them; clipped and not: the counting of doubles is the same."""
    kinds = [(low, high, clip) for low, high in RANGES for clip in (False, True)]
    path = tmp_path / "integers.duckdb"
    held = {}
    with duckdb.connect(path) as db:
        for name, (unsigned, bits) in INTEGERS.items():
            low_end, high_end = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            numbers_near = [
                x + d for low, high, _ in kinds for x in (low, high, low_end, high_end, 0) for d in (-1, 0, 1)
            ]
            held[name] = sorted({x for x in numbers_near if low_end <= x <= high_end})
            db.execute(f"CREATE TABLE {name.lower()} (n {name})")
            db.execute(f"INSERT INTO {name.lower()} VALUES (NULL), " + ", ".join(f"({x})" for x in held[name]))
    for name, values in held.items():
        domain = fn.Domain({f"r{i}": fn.Ordered(*kind, "n", missing={"none": []}, if_missing="none", if_outside="none")
                            for i, kind in enumerate(kinds)})  # fmt: skip
        got = open_counter(path, domain.axes, DataSource(table=name.lower())).count([(a,) for a in domain])
        for a in domain:
            expected = np.bincount([domain[a].cell(x) for x in (None, *values)], minlength=domain[a].size)
            assert got[a,].tolist() == expected.tolist(), (name, a)


TYPES = {
    **dict.fromkeys(["TINYINT", "BIGINT", "HUGEINT", "UBIGINT", "UHUGEINT"], (int, str)),
    **dict.fromkeys(["FLOAT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(18,0)", "DECIMAL(18,18)"], (int,)),
    **dict.fromkeys(["DECIMAL(38,0)", "DECIMAL(38,37)"], (int,)),
    "BOOLEAN": (bool,),
    "VARCHAR": (str,),
    "untyped": (str, int, bool),
}  # fmt: skip


@pytest.mark.parametrize("kind", [str, int, bool])
@pytest.mark.parametrize("csv", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_the_engine_for_files_is_tried_with_known_values_of_every_type(name, csv, kind, monkeypatch):
    if kind not in TYPES[name] or (csv and name not in {"VARCHAR", "untyped"}):
        return
    held = (
        duck._ColumnContents.UNTYPED
        if name == "untyped"
        else duck._ColumnContents.INTEGER
        if name in duck._INT64_TYPES
        else duck._ColumnContents.ELSE
    )
    tried = ("VARCHAR" if name == "untyped" else name, held, csv, kind, None)
    with duck.engine() as connection:
        monkeypatch.setattr(duck, "_RIGHT", set())
        duck._refuse_unless_right(connection, tried)
        duck._refuse_unless_right(None, tried)  # not tried again
        right = duck._cell
        monkeypatch.setattr(duck, "_RIGHT", set())
        monkeypatch.setattr(
            duck, "_cell", lambda *args, **options: (f"abs({right(*args, **options)[0]})", right(*args, **options)[1])
        )
        with refused("data.engine-codes-differently") as caught:
            duck._refuse_unless_right(connection, tried)
    leaks_nothing(caught.value)


def test_an_engine_that_reads_grouped_digits_is_refused(monkeypatch):
    """DuckDB itself does so."""
    tried = "VARCHAR", duck._ColumnContents.UNTYPED, False, int, None
    with duck.engine() as connection:
        monkeypatch.setattr(duck, "_RIGHT", set())
        monkeypatch.setattr(duck, "_number", lambda column, _: f"try_cast({column} AS DOUBLE)")
        with refused("data.engine-codes-differently"):
            duck._refuse_unless_right(connection, tried)


LONG_NUMBERS = {
    "HUGEINT": 127, "DECIMAL(38,0)": 126, "DECIMAL(38,5)": 126, "DECIMAL(19,12)": 62, "DECIMAL(18,2)": 59, "BIGINT": 63,
}  # fmt: skip
"""Types, with the bits that they hold."""


@pytest.mark.no_cover
@settings(max_examples=200)
@given(st.sampled_from([*LONG_NUMBERS]), st.integers(-(2**127), 2**127), st.integers(0, 100))
@example("HUGEINT", -67400821175840092, 0)
@example("HUGEINT", 67400821175840092, 0)
@example("DECIMAL(38,0)", -53022990328863180, 0)
def test_numbers_of_many_digits_are_the_nearest_doubles(started, kind, n, shift):
    """The engine's own cast rounds numbers of more than 64 bits twice."""
    n = n if abs(n) < 2 ** LONG_NUMBERS[kind] and not shift else n >> max(shift, 128 - LONG_NUMBERS[kind])
    value = Decimal(f"{n}E-{kind.partition(',')[2].strip(')') or 0}")
    read = duck._read("people.k0", kind, int, None)
    held = f"SELECT CAST('{value:f}' AS {kind}) AS k0"
    assert started.execute(f"SELECT try_cast({read} AS DOUBLE) FROM ({held}) people").fetchall() == [(float(value),)]


def test_long_numbers_lie_in_the_bins_in_which_they_are(tmp_path):
    values = [-67400821175840092, 67400821175840092, 53022990328863180]
    with duckdb.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (x HUGEINT, y DECIMAL(38,0))")
        db.execute(f"INSERT INTO t VALUES {', '.join(f'({v}, {v})' for v in values)}")
    for a, value in itertools.product("xy", values):
        domain = fn.Domain({a: fn.Binned([float(value), math.nextafter(float(value), math.inf)])})
        got = open_counter(tmp_path / "x.duckdb", domain.axes, DataSource(table="t")).count([(a,)])[a,]
        assert got.tolist() == [sum(v < value for v in values), 1, sum(v > value for v in values)]


def test_tables_of_a_duckdb_file_are_named_where_one_is_needed(tmp_path):
    path = tmp_path / "x.duckdb"
    with duckdb.connect(path) as db:
        db.execute("CREATE SCHEMA s; CREATE TABLE t (x INTEGER); CREATE TABLE s.u (x INTEGER)")
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("CREATE VIEW v AS SELECT t.x FROM t, t AS again")
    domain = fn.Domain(x=fn.Ordered(0, 1))
    for table in (None, "v", "u", "s.t", 't"; DROP TABLE t; --', "x.t"):
        with refused("data.view-not-promised" if table == "v" else "data.duckdb-table-not-found"):
            open_counter(path, domain.axes, DataSource(table=table))
    for table in ("t", "main.t", "T", "MAIN.t"):
        same_counts(
            open_counter(path, domain.axes, DataSource(table=table)).count([("x",)]), {("x",): np.array([0, 1])}
        )


# --- once, alone, and without a trace --------------------------------------------------------------------


@pytest.mark.usefixtures("real_engine")
def test_the_records_are_read_once_for_all_margins():
    read_counts = []

    class Counting:
        """A stream that remembers what it has handed out."""

        def __arrow_c_stream__(self, requested_schema=None):
            table = people(spoilt=0).arrow()

            def batches():
                for batch in table.to_batches(max_chunksize=100):
                    read_counts.append(batch.num_rows)
                    yield batch

            return pa.RecordBatchReader.from_batches(table.schema, batches()).__arrow_c_stream__(requested_schema)

    counter = open_counter(Counting(), DOMAIN.axes, DataSource())
    counter.check(NAMES)
    assert read_counts == []
    same_counts(counter.count(MARGINS), counted(DOMAIN, in_cells(people(spoilt=0)), MARGINS))
    assert read_counts == [100, 100, 100]


def test_only_the_columns_of_used_attributes_are_read():
    class Picky:
        """A frame that gives only the columns it is called for."""

        schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
        selected = ()

        def select(self, names):
            Picky.selected = names
            return pa.table({n: [1] for n in names})

        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError

    counter = open_counter(Picky(), fn.Domain(x=fn.Ordered(0, 1), y=fn.Ordered(0, 1)).axes, DataSource())
    assert counter.count([("y",)])["y",].tolist() == [0, 1]
    assert Picky.selected == ["y"]


@pytest.mark.usefixtures("real_engine")
def test_the_engine_is_isolated():
    people = pd.DataFrame({"x": [1]})  # noqa: F841 - what must not be found
    with sources.engine() as db:
        for setting in ("autoinstall_known_extensions", "autoload_known_extensions", "allow_persistent_secrets"):
            assert db.execute(f"SELECT current_setting('{setting}')").fetchone() == (False,)
        with pytest.raises(duckdb.CatalogException):
            db.execute("SELECT * FROM people")
        with pytest.raises(duckdb.Error):
            db.execute("SELECT * FROM 'https://127.0.0.1:1/x.parquet'")
        assert db.execute("SELECT current_setting('temp_directory')").fetchone() == ("",)
        inside = db
    with pytest.raises(duckdb.ConnectionException):
        inside.execute("SELECT 1")


@pytest.mark.usefixtures("real_engine")
def test_records_that_do_not_fit_the_memory_are_not_put_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with sources.engine("50MB") as db:
        with pytest.raises(duckdb.OutOfMemoryException):
            db.execute(f"CREATE TEMP TABLE t AS SELECT i || repeat('{SECRET}', 10) AS x FROM range(1000000) AS r(i)")
        assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
import fitnoise as fn
from fitnoise.engines import open_counter

counter = open_counter(sys.argv[1], fn.Domain(x=fn.Ordered(0, 9)).axes, fn.DataSource())
counter.count([("x",)], lambda _: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_a_process_killed_while_it_counts_leaves_nothing_on_the_disk(tmp_path):
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT i % 10 AS x FROM range(300000) AS r(i)) TO '{tmp_path / 'people.parquet'}'")
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "people.parquet")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == ["people.parquet"]


def open_files(folder):
    return [p for p in Path("/proc/self/fd").iterdir() if os.path.realpath(p).startswith(str(folder))]


@pytest.mark.no_cover
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize("spoilt", [0, 0.1])
@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb", "csv pattern"])
@pytest.mark.usefixtures("real_engine")
def test_nothing_stays_open_or_lies_about(kind, spoilt, tmp_path, monkeypatch):
    (tmp_path / "spill").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))
    monkeypatch.chdir(tmp_path)
    source = zoo.COUNTERS[kind]
    data = source.make(people(spoilt=spoilt, source=source), tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    counter = open_counter(data, DOMAIN.axes, DataSource(table="people"))
    assert open_files(tmp_path) == []
    counter.check(NAMES)
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
def test_a_duckdb_file_with_a_log_is_read_as_it_stands_and_not_changed(tmp_path):
    """A crash leaves records that are only in the write-ahead log."""
    path, copy = tmp_path / "x.duckdb", tmp_path / "y.duckdb"
    with duckdb.connect(path) as db:
        db.execute("SET wal_autocheckpoint = '1TB'")
        db.execute("PRAGMA disable_checkpoint_on_shutdown")
        db.execute("CREATE TABLE t AS SELECT 1 AS x FROM range(5)")
        for suffix in ("", ".wal"):
            write_file(Path(f"{copy}{suffix}"), Path(f"{path}{suffix}").read_bytes())
    before = {p: p.read_bytes() for p in (copy, Path(f"{copy}.wal"))}
    counts = open_counter(copy, fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource(table="t")).count([("x",)])
    same_counts(counts, {("x",): np.array([0, 5])})
    assert {p: p.read_bytes() for p in before} == before


@pytest.mark.usefixtures("real_engine")
def test_a_database_held_by_another_is_refused(tmp_path):
    data = zoo.COUNTERS["duckdb"].make(people(), tmp_path)
    with duckdb.connect(data), refused("data.data-file-not-read") as caught:
        open_counter(data, DOMAIN.axes, DataSource(table="people"))
    leaks_nothing(caught.value)


def test_every_counter_is_a_counter():
    assert issubclass(DuckCounter, Counter)
    assert issubclass(HistogramCounter, Counter)


@pytest.mark.usefixtures("real_engine")
def test_too_little_memory_is_reported(tmp_path):
    data = zoo.COUNTERS["parquet"].make(people(), tmp_path)
    counter = DuckCounter.from_path(data, DOMAIN.axes, DataSource(), memory_limit="100KB")
    with refused("data.memory-exhausted") as caught:
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
    counter = DuckCounter.from_path(path, domain.axes, DataSource(), memory_limit="100MB")
    counts = counter.count([("place",), ("letter", "amount"), ("place", "amount")])
    i = np.arange(n)
    places, bins = (i * 7919) % wide, np.searchsorted([50, 100.25], i % 1000 / 4, side="right")
    np.testing.assert_array_equal(counts["place",], np.bincount(places, minlength=wide))
    np.testing.assert_array_equal(counts["letter", "amount"].ravel(), np.bincount(i % 26 * 3 + bins, minlength=78))
    np.testing.assert_array_equal(counts["place", "amount"].ravel(), np.bincount(places * 3 + bins, minlength=3 * wide))
