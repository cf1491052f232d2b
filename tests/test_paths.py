"""Paths of data: folders as writers of many files make them, lists, and files that would count a record twice."""

import os
import re
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.engines import open_counter
from fitnoise.engines.paths import find
from fitnoise.interfaces.cli import _run
from fitnoise.kernel.units import DataSource, RecordBound
from laws.counting import DROP
from records import write_file
from refused import refused

DOMAIN = fn.Domain(
    year=fn.Ordered(2019, 2024), sex=fn.Categorical(["F", "M"]), place=fn.Categorical(["a/b", "", "x y", "é=1"])
)
X = fn.Domain(x=fn.Ordered(0, 9))


def counts(data, domain, *names, policy=DROP, bound=None):
    return open_counter(data, domain.axes, DataSource(outside_domain=policy), bound).count([names])[names]


def people(n=2000, seed=3):
    rng = np.random.default_rng(seed)
    years, sexes, places = (rng.choice(DOMAIN[a].values, n) for a in DOMAIN)
    return pd.DataFrame({"year": years.astype(int), "sex": sexes, "place": places})


def truth(frame, *names):
    out = np.zeros([len(DOMAIN[a].values) for a in names], dtype=np.int64)
    for row in frame[list(names)].itertuples(index=False):
        out[tuple(DOMAIN[a].cell(v) for a, v in zip(names, row, strict=True))] += 1
    return out


def refusal(data, code):
    with refused(code) as caught:
        open_counter(data, X.axes, DataSource())
    return str(caught.value)


@pytest.mark.no_cover
@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("keys", [["year"], ["sex", "year"], ["place", "year", "sex"]])
def test_what_a_writer_of_many_files_wrote(form, keys, tmp_path):
    """Arrow writes places as a%2Fb and %C3%A9%3D1; of columns in folders nothing is left in the files."""
    frame = people()
    if form == "csv" or "place" in keys:  # Arrow writes no empty text into the name of a folder
        frame = frame[frame["place"] != ""]
    table = pa.Table.from_pandas(frame.assign(other=1), preserve_index=False)
    folders = ds.partitioning(pa.schema([table.schema.field(k) for k in keys]), flavor="hive")
    ds.write_dataset(table, tmp_path / "lake", format=form, partitioning=folders)
    write_file(tmp_path / "lake" / "_SUCCESS", "")
    write_file(tmp_path / "lake" / "_temporary" / "0" / f"part.{form}", "nothing like it\n")
    write_file(tmp_path / "lake" / f".part-0.{form}.crc", "crc")
    for names in [("year",), ("year", "place"), ("sex", "place", "year")]:
        assert (counts(tmp_path / "lake", DOMAIN, *names) == truth(frame, *names)).all()
    all_files = [str(p) for p in (tmp_path / "lake").rglob(f"part*.{form}") if "_temporary" not in p.parts]
    with refused("data.column-missing"):  # of files named one by one, no folder is a column
        counts(all_files, DOMAIN, keys[0])


def test_columns_in_folders_are_read_as_csv_is(tmp_path):
    for text in ("2020", "02021", " 2022 ", "2023.0", "2024.5", "soon", "__HIVE_DEFAULT_PARTITION__"):
        write_file(tmp_path / f"year={text}" / "p.csv", "sex,place\nF,x y\n")
    assert counts(tmp_path, DOMAIN, "year").tolist() == [0, 1, 1, 1, 1, 0]
    with refused("data.records-outside-domain"):
        counts(tmp_path, DOMAIN, "year", policy=DataSource().outside_domain)


@pytest.mark.no_cover
@settings(max_examples=25)
@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("AB c"), st.integers(0, 9)), min_size=1))
def test_wherever_the_writer_puts_a_record_it_counts_once(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("lake")
    for (p, q), n in Counter((p, q) for p, q, _ in rows).items():
        values = [x for a, b, x in rows if (a, b) == (p, q)]
        leaf = folder / f"p={p}" / f"q={q}"
        leaf.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": values[: n // 2]}, schema=pa.schema([("x", pa.int64())])), leaf / "1.parquet")
        pq.write_table(pa.table({"x": values[n // 2 :]}, schema=pa.schema([("x", pa.int64())])), leaf / "2.parquet")
    domain = fn.Domain(p=fn.Categorical([*"abc"]), q=fn.Categorical([*"AB c"]), x=fn.Ordered(0, 9))
    expected = np.zeros((3, 4, 10), dtype=int)
    for p, q, x in rows:
        expected["abc".index(p), "AB c".index(q), x] += 1
    assert (counts(folder, domain, "p", "q", "x") == expected).all()


def test_lists_of_files_patterns_and_folders(tmp_path, monkeypatch):
    a = write_file(tmp_path / "a.csv", "x\n1\n2\n")
    write_file(tmp_path / "b" / "1.csv", "x\n3\n")
    write_file(tmp_path / "b" / "below" / "2.csv", "x\n4\n")
    write_file(tmp_path / "c-1.csv", "x\n5\n")
    data = [a, str(tmp_path / "b"), tmp_path / "c-?.csv"]
    assert counts(data, X, "x").tolist() == [0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert counts(tuple(data[:1]), X, "x").sum() == 2
    assert find(data).what == "the files 'a.csv' and 2 more"
    assert find(a).what == "the file 'a.csv'"
    monkeypatch.chdir(tmp_path / "b")
    assert find(".").what == "the files 'b'"
    assert counts(".", X, "x").sum() == 2


def test_a_person_may_lie_in_several_folders(tmp_path):
    """And her id may be the name of a folder."""
    for who, values in {"7": "3\n4\n5", "8": "3"}.items():
        write_file(tmp_path / f"who={who}" / "p.csv", f"x\n{values}\n")
    assert counts(tmp_path, X, "x", bound=RecordBound("who", 1)).sum() == 2
    assert counts(tmp_path, X, "x", bound=RecordBound("who", 2)).sum() == 3


def test_no_file_counts_twice(tmp_path):
    a = write_file(tmp_path / "lake" / "a.csv", "x\n1\n")
    assert refusal([a, a], "data.file-given-twice")
    assert refusal([tmp_path / "lake", a], "data.file-given-twice")
    os.link(a, tmp_path / "lake" / "b.csv")
    assert refusal(tmp_path / "lake", "data.file-given-twice")
    (tmp_path / "lake" / "b.csv").unlink()
    (tmp_path / "lake" / "c.csv").symlink_to(a)
    assert refusal(tmp_path / "lake", "data.file-given-twice")
    assert refusal(tmp_path / "lake" / "*.csv", "data.file-given-twice")


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"_delta_log/0.json": "", "a.csv": "x\n1\n"}, "data.folder-with-log"),
        ({"y=1/.hoodie/t": "", "y=1/a.csv": "x\n1\n"}, "data.folder-with-log"),
        ({"a.csv": "x\n1\n", "b.parquet": ""}, "data.files-of-several-formats"),
        ({"a.csv": "x\n1\n", "read me.md": ""}, "data.data-format-unknown"),
        ({"_SUCCESS": "", ".a.csv": "x\n1\n"}, "data.data-file-missing"),
        ({"y=1/a.csv": "x\n1\n", "b.csv": "x\n1\n"}, "data.folders-with-other-columns"),
        ({"y=1/a.csv": "x\n1\n", "z=1/b.csv": "x\n1\n"}, "data.folders-with-other-columns"),
        ({"y=1/z=1/a.csv": "x\n1\n", "z=2/y=1/b.csv": "x\n1\n"}, "data.folders-with-other-columns"),
        ({"y=1/a.csv": "x\n1\n", "y=2/b.csv": "x,w\n1,1\n"}, "data.files-with-other-columns"),
        ({"y=1/Y=2/a.csv": "x\n1\n"}, "data.folder-columns-nested"),
        ({"x=1/a.csv": "x\n1\n"}, "data.folder-column-repeated"),
        ({"X=1/a.csv": "x\n1\n"}, "data.folder-column-repeated"),
        ({"a?b=1/a.csv": "x\n1\n"}, "data.folder-names-unreadable"),
    ],
)
def test_folders_that_are_refused(files, code, tmp_path):
    for name, text in files.items():
        write_file(tmp_path / "lake" / name, text)
    assert str(tmp_path) not in refusal(tmp_path / "lake", code)


def test_a_link_to_another_folder_and_one_that_cannot_be_listed(tmp_path, monkeypatch):
    write_file(tmp_path / "elsewhere" / "a.csv", "x\n1\n")
    write_file(tmp_path / "lake" / "b.csv", "x\n1\n")
    (tmp_path / "lake" / "more").symlink_to(tmp_path / "elsewhere")
    refusal(tmp_path / "lake", "data.folder-is-a-link")
    (tmp_path / "lake" / "more").unlink()
    (tmp_path / "lake" / "shut").mkdir()
    listed = os.scandir

    def scandir(folder):
        if str(folder).endswith("shut"):
            raise PermissionError("Xk7secret")
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert "secret" not in refusal(tmp_path / "lake", "data.folder-unreadable")


def test_files_of_a_table_with_a_log_are_refused_however_they_are_named(tmp_path, monkeypatch):
    """Detects a record that was replaced, and counts in addition to its replacement."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    file = write_file(tmp_path / "t" / "y=1" / "a.csv", "x\n1\n")
    for data in ("t", "t/y=1", "t/*/*.csv", file, [file], "t/y=1/a.csv", tmp_path):
        refusal(data, "data.folder-with-log")
    (tmp_path / "t" / "_delta_log").rmdir()
    assert counts("t", fn.Domain(x=fn.Ordered(0, 1)), "x").tolist() == [0, 1]


def test_a_column_may_have_a_name_that_marks_begin_with(tmp_path):
    """Folders as Spark writes them. Detects records that are left out without a message."""
    for year in (1, 2):
        write_file(tmp_path / "lake" / f"_year={year}" / "a.csv", "x\n1\n")
    write_file(tmp_path / "lake" / "_temporary" / "a.csv", "not,to,be,read\n")
    assert counts(tmp_path / "lake", fn.Domain(_year=fn.Ordered(1, 3)), "_year").tolist() == [1, 1, 0]


def test_what_is_no_file_in_a_folder_is_refused(tmp_path):
    write_file(tmp_path / "lake" / "a.csv", "x\n1\n")
    (tmp_path / "lake" / "b.csv").symlink_to(tmp_path / "gone.csv")
    refusal(tmp_path / "lake", "data.entry-not-a-file")
    (tmp_path / "lake" / "b.csv").unlink()
    os.mkfifo(tmp_path / "lake" / "c.csv")
    refusal(tmp_path / "lake", "data.entry-not-a-file")


def test_lists_that_are_no_files(tmp_path):
    a = write_file(tmp_path / "a.csv", "x\n1\n")
    refusal([], "data.data-list-empty")
    assert "secret" not in refusal([a, "Xk7secret"], "data.data-file-missing")
    refusal([a, "s3://bucket/b.csv"], "data.data-over-network")
    with refused("data.data-of-unknown-kind"):
        open_counter([a, 7], X.axes, DataSource())


def test_from_the_command_line(tmp_path, capsys):
    """A folder, or several files, as a shell writes out a pattern."""
    specification = write_file(
        tmp_path / "s.toml",
        '[data]\nsource = "lake"\n[domain.year]\ntype = "ordered"\nlow = 2020\nhigh = 2021\n'
        '[domain.x]\ntype = "ordered"\nlow = 0\nhigh = 9\n[[tables]]\nattributes = ["year"]\nmargin = 0.01\n',
    )
    for year in (2020, 2021):
        write_file(tmp_path / "lake" / f"year={year}" / "a.csv", "x\n" + "1\n" * (year - 2000))
    plan, book = str(tmp_path / "plan.json"), str(tmp_path / "L.sqlite")
    assert _run(["plan", str(specification), "-o", plan]) == 0
    assert _run(["release", plan, str(tmp_path / "lake"), "--ledger", book, "-o", str(tmp_path / "r")]) == 0
    table = (tmp_path / "r" / "tables" / "year.csv").read_text()
    assert [round(float(v)) for v in re.findall(r"^\d+,([^,]+),", table, re.MULTILINE)] == [20, 21]
    files = [str(write_file(tmp_path / f"{i}.csv", f"year,x\n2020,{i}\n")) for i in range(3)]
    assert _run(["release", plan, *files, "--ledger", book, "-o", str(tmp_path / "r2"), "--again"]) == 0
    table = (tmp_path / "r2" / "tables" / "year.csv").read_text()
    assert [round(float(v)) for v in re.findall(r"^\d+,([^,]+),", table, re.MULTILINE)] == [3, 0]
    assert _run(["release", plan, "--ledger", book, "-o", str(tmp_path / "r3")]) == 2
    assert "DATA" in capsys.readouterr().err
