"""Long tables are written, read and rebuilt in parts: the same numbers and files as at once, in little memory."""

import itertools
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.gaussian import levels, places
from fitnoise.mechanisms.numbers import on_distinct
from fitnoise.messages import english
from fitnoise.reading import parquet, release_files
from fitnoise.reading.release import _PlaceColumn
from fitnoise.reading.release_files import (
    JoinedColumn,
    LabelColumn,
    NumberColumn,
    complete_columns,
    csv_text,
    write_parquet,
)
from refused import refused

TREE = fn.Hierarchy(("state", "county"), [(f"{i}", f"{i}-{j}") for i in range(4) for j in range(2 + i % 2)])
DOMAIN = fn.Domain(geo=TREE, sex=fn.Ordered(0, 1), age=fn.Ordered(0, 4))
WORKLOADS = {
    "by place": [fn.table("county", "age", "sex", margin=50), fn.table("state", "age", margin=20), fn.table(margin=9)],
    "by level": [fn.table("county", "age", "sex", margin=50), fn.table("county", margin=50)],
    "by sector": [fn.table("sex", "age", margin=50), fn.table("age", margin=20)],
    "by structure": [fn.table("sex", cumulative="age", margin=50)],
}


def released(name, seed=3):
    """Return a release of made-up answers."""
    plan = fn.plan(fn.Workload(DOMAIN, WORKLOADS[name]))
    draw = np.random.default_rng(seed)
    return fn.Release(plan, [draw.integers(-500, 500, n) for p in plan.groups for n in p.strategy.lengths])


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- columns ------------------------------------------------------------------------------------------------------


def check_column(column, complete, rows):
    """Any consecutive rows of a column are those of the complete column."""
    assert (len(column), column.dtype) == (len(complete), complete.dtype)
    assert column[:].tolist() == complete.tolist()
    part = column[rows]
    assert (part.dtype, part.tolist()) == (complete.dtype, complete[rows].tolist())


slices = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda x: slice(*sorted(x)))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 3), slices)
def test_rows_of_labels_are_those_of_the_complete_column(labels, each, times, rows):
    values = np.array(labels)
    check_column(LabelColumn(values, each, len(labels) * each * times), np.tile(np.repeat(values, each), times), rows)


@given(st.permutations(range(3)), st.sets(st.integers(0, 2)), slices)
def test_rows_of_numbers_are_those_of_the_complete_column_in_any_layout(order, repeated, rows):
    shape = [1 if i in repeated else n for i, n in enumerate((2, 3, 4))]
    numbers = np.broadcast_to(np.random.default_rng(1).normal(size=shape), (2, 3, 4)).transpose(order)
    check_column(NumberColumn(numbers), numbers.ravel(), rows)
    roots = on_distinct(np.exp, numbers)
    check_column(NumberColumn(roots), np.exp(numbers).ravel(), rows)
    assert all(mine == 0 for mine, its in zip(roots.strides, numbers.strides, strict=True) if its == 0)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.booleans(), slices)
def test_rows_of_joined_arrays_are_those_of_all_arrays(lengths, wide, rows):
    arrays = [np.arange(n, dtype=object if wide else np.int64) for n in lengths]
    check_column(JoinedColumn(arrays), np.concatenate(arrays).astype(np.int64), rows)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), slices)
def test_rows_of_places_are_those_of_all_answers(sizes, rows):
    starts = np.cumsum([0, *sizes])
    check_column(_PlaceColumn(starts, is_row=False), np.repeat(np.arange(len(sizes)), sizes), rows)
    check_column(_PlaceColumn(starts, is_row=True), np.concatenate([np.arange(n) for n in sizes]), rows)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_tables_rebuilt_in_parts_have_the_same_numbers(name, monkeypatch):
    """Detects a part that is left out, added twice, or put into another place."""
    at_once = dict(released(name).frames())
    for size in (1, 3, 20):
        monkeypatch.setattr(levels, "NUMBERS_PER_BATCH", size)
        monkeypatch.setattr(places, "NUMBERS_PER_BATCH", size)
        monkeypatch.setattr(rebuilding, "NUMBERS_PER_BLOCK", size)
        release = released(name)
        for table, frame in release.frames():
            np.testing.assert_allclose(frame["value"], at_once[table]["value"], rtol=1e-12, atol=1e-12)
            assert frame.drop(columns="value").equals(at_once[table].drop(columns="value"))
            assert release[table].equals(frame)


@pytest.mark.parametrize("name", WORKLOADS)
def test_files_of_several_row_groups_are_verified_and_read(name, monkeypatch, tmp_path):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 8)
    monkeypatch.setattr(release_files, "CSV_ROWS_PER_WRITE", 4)
    release, folder = released(name), tmp_path / "r"
    release.write(folder)
    assert fn.verify(folder).ok
    assert fn.Release.read(folder) == release
    assert contents(fn.Release.read(folder).write(tmp_path / "again")) == contents(folder)


def parquet_fault(folder):
    (check,) = [c for c in fn.verify(folder).checks if not c.holds]
    return english(check.finding)


def test_a_fault_in_any_row_group_is_found_and_states_the_largest_difference(monkeypatch, tmp_path):
    """Detects a comparison that ends with the first row group, or with the first fault."""
    monkeypatch.setattr(parquet, "GROUP_ROWS", 8)
    release, folder = released("by place"), tmp_path / "r"
    release.write(folder)
    path, columns = (
        folder / "tables" / "county_by_age_by_sex.parquet",
        complete_columns(dict(release.columns())["county by age by sex"]),
    )
    assert len(columns["value"]) > 24
    csv = path.with_suffix(".csv")
    for changes, text in (
        ({0: 1.0}, "up to 1"),
        ({0: 1.0, 12: 7.0}, "up to 7"),
        ({12: 7.0, 24: 2.0}, "up to 7"),
        ({len(columns["value"]) - 1: 3.0}, "up to 3"),
        ({0: 1.0, 12: math.nan}, "up to nan"),
    ):
        values = columns["value"].copy()
        values[list(changes)] += list(changes.values())
        altered = {**columns, "value": values}
        write_parquet(altered, path)
        csv.write_text(csv_text(altered), encoding="utf-8", newline="")
        assert text in parquet_fault(folder)
    labels = columns["county"].copy()
    labels[-1] = "0-0"
    write_parquet({**columns, "county": labels}, path)
    csv.write_text(csv_text({**columns, "county": labels}), encoding="utf-8", newline="")
    assert "other labels" in parquet_fault(folder)


@pytest.mark.parametrize("row", [0, 7, 8, 20, -1])
def test_a_csv_file_that_differs_in_any_row_group_is_found(row, monkeypatch, tmp_path):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 8)
    release, folder = released("by place"), tmp_path / "r"
    release.write(folder)
    path = folder / "tables" / "county_by_age_by_sex.csv"
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    del lines[range(1, len(lines))[row]]
    for other in ("".join(lines), text + "\n"):
        shutil.copytree(folder, tmp_path / "other")
        (tmp_path / "other" / "tables" / path.name).write_text(other, encoding="utf-8", newline="")
        assert "differs from its Parquet file" in parquet_fault(tmp_path / "other")
        shutil.rmtree(tmp_path / "other")


def test_row_groups_of_other_sizes_are_refused(monkeypatch, tmp_path):
    path, columns = tmp_path / "t.parquet", {"v": np.arange(20.0), "s": np.array([*"aabbc"] * 4, dtype=object)}
    for rows in (1, 5, 7, 20, 21):
        monkeypatch.setattr(parquet, "GROUP_ROWS", rows)
        write_parquet(columns, path)
        read = parquet.read(path, 20, 1)[0]
        assert all(read[name].tolist() == x.tolist() for name, x in columns.items())
        for other in (2, 6, 19):
            monkeypatch.setattr(parquet, "GROUP_ROWS", other)
            with refused("release.wrong-parquet-file"):
                parquet.read(path, 20, 1)


# --- memory -------------------------------------------------------------------------------------------------------

LONG = """
import sys
from pathlib import Path
import numpy as np
import fitnoise as fn
from peak import peak_memory

step, folder, counties = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
tree = fn.Hierarchy(("state", "county"), [(f"{int(i > counties // 2)}", f"{i:05}") for i in range(counties)])
domain = fn.Domain(geo=tree, age=fn.Ordered(0, 49), race=fn.Ordered(0, 19))
tables = [fn.table("state", "age", margin=90), fn.table("county", "age", "race", margin=90)]
if step == "write":
    plan = fn.plan(fn.Workload(domain, tables))
    release = fn.Release(plan, [np.arange(n) % 1000 for p in plan.groups for n in p.strategy.lengths])
    release.write(folder)
    print(release.plan.table_part.numbers, peak_memory())
else:
    assert fn.verify(folder).ok
    print(counties * 1000, peak_memory())
"""

BYTES_PER_NUMBER = 48
"""The largest rise of the peak of writing, or of verifying, for one more number.

It was 40 when it was measured.
"""


@pytest.mark.slow
@pytest.mark.no_cover
def test_memory_grows_with_the_numbers_and_not_with_the_columns(tmp_path):
    peaks = {}
    for counties, step in itertools.product((701, 2801), ("write", "verify")):
        done = subprocess.run(
            [sys.executable, "-c", LONG, step, str(tmp_path / str(counties)), str(counties)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        peaks[counties, step] = tuple(map(float, done.stdout.split()))
    for step in ("write", "verify"):
        (few, low), (many, high) = (peaks[counties, step] for counties in (701, 2801))
        assert many - few > 2e6
        assert (high - low) * 2**20 / (many - few) < BYTES_PER_NUMBER
