"""Files of statistical programs and spreadsheets, written by a library of others, against the declared meaning."""

import builtins
import datetime
import re
import zipfile

import openpyxl
import pandas as pd
import pyreadstat
import pytest

import fitnoise as fn
import zoo
from fitnoise.engines import open_counter
from fitnoise.kernel.units import DataSource, RecordBound
from laws.counting import DROP, check_counter
from records import WRITERS, Records, program, write_file
from refused import refused

pytestmark = pytest.mark.usefixtures("one_engine")

X = fn.Domain(x=fn.Ordered(0, 9))
SIMPLE = [name for name, sample in zoo.ATTRIBUTES.items() if sample.attribute.column is None and sample.kind != "bool"]
"""Programs take no names of columns with spaces, and have no truth values."""


def count(data, attribute, *, table=None, bound=None, policy=DROP):
    domain = fn.Domain(x=attribute)
    source = DataSource(table=table, outside_domain=policy)
    return open_counter(data, domain.axes, source, bound).count([("x",)])[("x",)].tolist()


@pytest.fixture
def sheet(tmp_path):
    """A workbook of sheets by name, each of lines."""

    def make(path="x.xlsx", **sheets):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, lines in sheets.items():
            rows = book.create_sheet(title)
            for line in lines:
                rows.append(line)
        book.save(tmp_path / path)
        return tmp_path / path

    return make


@pytest.mark.parametrize("attribute", SIMPLE)
@pytest.mark.parametrize("ending", [x if x == "sav" else pytest.param(x, marks=pytest.mark.no_cover) for x in WRITERS])
def test_every_attribute_counts_as_declared(ending, attribute, tmp_path, one_duckdb):
    source, sample = program(ending), zoo.ATTRIBUTES[attribute]
    held = source.held(sample, sample.values)
    if ending == "por":  # of which each letter is a byte
        held = [v for v in held if not isinstance(v, str) or v.isascii()]
    domain = fn.Domain(X=sample.attribute, Y=fn.Ordered(0, 1))
    records = Records(domain, {"X": held, "Y": [0, 1] * len(held)}, {"X": sample.kind, "Y": "int16"})
    records.values["Y"] = records.values["Y"][: len(held)]
    check_counter(source, records, tmp_path)


def test_what_users_of_spss_declare_missing_is_the_code_it_is(tmp_path):
    """And labels of values are not applied."""
    frame = pd.DataFrame({"x": [1.0, 2.0, -9.0, None]})
    path = str(tmp_path / "x.sav")
    pyreadstat.write_sav(frame, path, missing_ranges={"x": [-9]}, variable_value_labels={"x": {1: "yes", 2: "no"}})
    assert count(path, fn.Categorical([1, 2, -9])) == [1, 1, 1]
    assert count(path, fn.Categorical(["1", "2", "yes"])) == [1, 1, 0]


def test_persons_in_files_of_programs(tmp_path):
    """A whole number is an id, though the program has no whole numbers; one with a point is not."""
    path = str(tmp_path / "x.dta")
    pyreadstat.write_dta(pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "who": [7.0, 7.0, 8.0, 7.5]}), path)
    assert sum(count(path, X["x"], bound=RecordBound("who", 1))) == 2
    with refused("data.records-without-id"):
        count(path, X["x"], bound=RecordBound("who", 1), policy=DataSource().outside_domain)


def test_sheets(sheet):
    path = sheet(people=[["x", "y"], [1, "a"], [2.0, None], [None, None], [None, "b"], ["3"]], other=[["x"], [5]])
    assert count(path, X["x"], table="people") == [0, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert count(path, X["x"], table="other") == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    with refused("data.records-outside-domain"):  # a line without any value is no record
        count(path, X["x"], table="people", policy=DataSource().outside_domain)
    for table in (None, "none"):
        with refused("data.sheet-not-found"):
            count(path, X["x"], table=table)
    assert count(sheet(only=[["x"], [True], [datetime.date(2020, 1, 1)], [4]]), X["x"])[4] == 1


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([["x", "y"], [1, 2], ["=A2+1", 2]], "data.sheet-with-formula"),
        ([["x", "y"], [1, 2], [1, "=SUM(A:A)"]], "data.sheet-with-formula"),
        ([["=A2"], [1]], "data.sheet-with-formula"),
        ([], "data.sheet-header-missing"),
        ([[None, None], ["x"], [1]], "data.sheet-header-missing"),
        ([["x"], [1, 2]], "data.sheet-columns-without-name"),
        ([["x", "X"], [1, 2]], None),
        ([["Xk7secret"], [1]], "data.column-missing"),
    ],
)
def test_sheets_that_are_refused(sheet, lines, code):
    path = sheet(people=lines)
    if code is None:  # a name that is exact is the one that is meant
        assert count(path, X["x"])[1] == 1
        return
    with refused(code) as caught:
        count(path, X["x"])
    assert "secret" not in str(caught.value)


def test_a_sheet_is_read_to_its_end_whatever_its_file_says(sheet, tmp_path):
    """Detects records that are left out: some programs write where a sheet ends, and are wrong."""
    path = sheet(only=[["x", "y"], [1, 5], [1, 6], [0, 7]])
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "short.xlsx", "w") as new:
        for name in old.namelist():
            content, times = re.subn(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:A2"', old.read(name))
            assert times == name.endswith("sheet1.xml")
            new.writestr(name, content)
    for file in (path, tmp_path / "short.xlsx"):
        assert count(file, fn.Ordered(0, 1, column="x")) == [1, 2]
        assert count(file, fn.Ordered(5, 7, column="y")) == [1, 1, 1]


def test_errors_of_a_sheet_are_missing_values(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["x"])
    book.active.append(["#N/A"])
    book.active.append([3])
    assert book.active["A2"].data_type == "e"
    book.save(tmp_path / "x.xlsx")
    assert count(tmp_path / "x.xlsx", fn.Categorical(["#N/A", "3"])) == [0, 1]


@pytest.mark.parametrize("ending", [*WRITERS, "sas7bdat", "zsav", "xlsx", "xlsm"])
def test_files_that_are_something_else(ending, tmp_path):
    path = write_file(tmp_path / f"a.{ending}", "x\nXk7secret\n")
    with refused("data.data-file-not-read") as caught:
        count(path, X["x"])
    assert "secret" not in str(caught.value)
    write_file(tmp_path / f"b.{ending}", "x")
    with refused("data.files-not-readable-together"):
        count(tmp_path / f"?.{ending}", X["x"])


@pytest.mark.parametrize(("ending", "library"), [("sav", "pyreadstat"), ("xlsx", "openpyxl")])
def test_without_the_library(ending, library, tmp_path, monkeypatch):
    original = builtins.__import__
    monkeypatch.delitem(__import__("sys").modules, library)

    def without(name, *rest):
        if name.partition(".")[0] == library:
            raise ImportError
        return original(name, *rest)

    monkeypatch.setattr("importlib.import_module", without)
    with refused("data.reader-missing"):
        count(write_file(tmp_path / f"a.{ending}", "x"), X["x"])
