"""Codes have the same columns, values and types in every format of tables, for every kind of attribute."""

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path

import openpyxl
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from fitnoise.interfaces.exports.sdmx import ids
from fitnoise.interfaces.render import printable
from laws.releases import answered

R_SOURCES = sorted((Path(__file__).parent.parent / "r" / "R").glob("*.R"))

R_SCRIPT = """
library(jsonlite); library(tibble)
for (file in commandArgs(TRUE)[-1]) source(file)
tables <- read_release(commandArgs(TRUE)[1])$tables
text <- function(x) if (is.character(x)) x else format(x, scientific = FALSE, trim = TRUE, digits = 16)
column <- function(x) list(type = typeof(x), values = text(x))
read <- lapply(tables, function(x) lapply(x[!names(x) %in% c("value", "std_error", "moe")], column))
cat(toJSON(read, auto_unbox = FALSE))
"""

FURTHER = {
    "zeros": fn.Categorical({"06": "California", "6": "6", "10": "=Delaware"}),
    "repeated": fn.Categorical({1: "Washington", 2: "Washington", 30_000_000_000: "far"}),
    "labels like codes": fn.Categorical({1: "1", 2: "two"}),
    "labels like codes, with missing ones": fn.Categorical({1: "1", 2: "two"}, missing={"gone": [9]}),
    "named places": fn.Hierarchy(
        ["land", "town"], [(1, "06"), (1, "07"), (2, "8")], names={"land": ["N", "S"], "town": ["x", "x", "7"]}
    ),
}

LEFT_OUT = ("level", "months")
"""Kinds that no domain declares alone, and a kind of the tests."""


def attributes():
    sampled = {name: x.attribute for name, x in zoo.ATTRIBUTES.items() if x.attribute.kind not in LEFT_OUT}
    numbered = fn.Hierarchy(["a", "b", "c"], [(True, 1, 30), (True, 2, 10), (False, 0, 20)])
    return {f"x{i}": x for i, x in enumerate((*sampled.values(), numbered, *FURTHER.values()))}


@pytest.fixture(scope="module")
def release():
    domain = fn.Domain(attributes())
    names = [x for home in domain for x in domain[home].levels or (home,)]
    return answered(fn.plan(fn.Workload(domain, [fn.table(x, margin=5) for x in names]), gap=0.5))


def codes_of(release, name):
    """Return the column of codes of a table, NAME_code or without one that of the labels, its codes and its names."""
    domain = release.plan.publication.domain
    (stub,) = release.plan.publication.workload[name].stubs(domain)
    column = f"{name}_code" if f"{name}_code" in stub else name
    return column, [*stub[column]], f"{name}_name" in stub


def from_csv(path, column):
    with path.open(encoding="utf-8", newline="") as file:
        return [row[column].removeprefix("'") for row in csv.DictReader(file)]


def files_of(folder, name):
    return [folder / kind / "tables" / f"{name}.csv" for kind in ("release", "package")]


@pytest.fixture(scope="module")
def folder(release, tmp_path_factory):
    base = tmp_path_factory.mktemp("codes")
    release.write(base / "release")
    fn.export(release, base / "package", sdmx=True)
    fn.export(release, base / "tables.xlsx")
    return base


@pytest.fixture(scope="module")
def in_r(folder):
    """The columns of every table as R reads them; None without R."""
    if os.environ.get("FITNOISE_R") != "required" and shutil.which("Rscript") is None:
        return None
    script = folder / "read.R"
    script.write_text(R_SCRIPT, encoding="utf-8")
    command = ["Rscript", str(script), str(folder / "release"), *map(str, R_SOURCES)]
    done = subprocess.run(
        command, check=False, capture_output=True, encoding="utf-8", env=os.environ | {"LC_ALL": "C.UTF-8"}
    )
    if done.returncode != 0 and os.environ.get("FITNOISE_R") != "required":
        return None  # R without the packages that reading needs
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_codes_are_equal_in_every_format(release, folder, in_r):
    described = json.loads((folder / "package" / "datapackage.json").read_text(encoding="utf-8"))
    types = {x["name"]: {f["name"]: f["type"] for f in x["schema"]["fields"]} for x in described["resources"]}
    sheets = openpyxl.load_workbook(folder / "tables.xlsx").worksheets[1:]
    kinds = set()
    for (name, frame), sheet in zip(release.items(), sheets, strict=True):
        column, codes, has_names = codes_of(release, name)
        texts, are_integers = [*map(str, codes)], {type(x) for x in codes} == {int}
        kinds.add((column == name, has_names, are_integers))
        # frames and Parquet files keep the type; a category for missing values makes texts of all codes
        expected = codes if len({type(x) for x in codes}) == 1 else texts
        parquet = pd.read_parquet(folder / "release" / "tables" / f"{name}.parquet")
        for each in (frame, parquet):
            assert each[column].tolist() == expected
            assert {type(x) for x in each[column].tolist()} == {type(x) for x in expected}
        for file in files_of(folder, name):
            assert from_csv(file, column) == texts, file
        assert types[name][column] == ("integer" if are_integers else "string")
        with (folder / "package" / "sdmx" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            dimensions = [row[3] for row in csv.reader(file)][1:]
        assert dimensions == [*ids(texts)]
        head = [x.value for x in sheet[4]]
        has_column = f"{name}: code" in head
        assert has_column == (column != name or has_names)
        cells = [
            row[head.index(f"{name}: code" if has_column else name)] for row in sheet.iter_rows(5, values_only=True)
        ]
        in_sheet = codes if are_integers else [printable(x) for x in texts]
        assert ["" if x is None else x for x in cells[: len(texts)]] == in_sheet
        assert {type(x) for x in cells[: len(texts)]} <= {type(x) for x in in_sheet} | {type(None)}
        if in_r is not None:
            read = in_r[name][column]
            assert read["values"] == texts
            assert read["type"][0] in (("integer", "double") if are_integers else ("character",))
    # labels with and without codes, places with names, whole numbers and texts
    assert {
        (True, False, True),
        (True, False, False),
        (False, False, True),
        (False, False, False),
        (True, True, True),
    } <= kinds


def test_totals_stand_next_to_integers(tmp_path):
    domain = fn.Domain({"size": fn.Ordered(-1, 0), "sex": fn.Categorical({1: "f", 2: "m"})})
    release = answered(fn.plan(fn.Workload(domain, [fn.table("size", "sex", margin=5)]), gap=0.5))
    sheet = openpyxl.load_workbook(fn.export(release, tmp_path / "a.xlsx", totals=True)).worksheets[1]
    assert [sheet[f"A{i}"].value for i in (5, 6, 7)] == [-1, 0, "Total"]
    release = answered(fn.plan(fn.Workload(domain, [fn.table("sex", margin=5)]), gap=0.5))
    path = fn.export(release, tmp_path / "b.xlsx", totals=True)
    sheet = openpyxl.load_workbook(path).worksheets[1]
    assert [[sheet[f"{c}{i}"].value for c in "AB"] for i in (5, 6, 7)] == [["f", 1], ["m", 2], ["Total", None]]
    assert fn.verify_export(release, path)
