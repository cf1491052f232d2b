"""Tables state the records that they do not count; these are the ones not counted, value by value."""

import contextlib
import itertools
import json
import re
from dataclasses import replace

import numpy as np
import openpyxl
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from dense import merging, table_matrix
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.exports.export import FORMATS, export
from fitnoise.interfaces.pages import fragments
from fitnoise.messages import translator
from fitnoise.reading.layouts import layout
from fitnoise.request.attributes import Binned, Ordered
from fitnoise.request.coverage import list_values, uncounted
from fitnoise.request.views import Sum
from fitnoise.request.workloads import Family
from fitnoise_studio.planner import proof
from laws.reports import in_words

TREE = fn.Hierarchy(["state", "county"], [(s, f"{s}{i}") for s in "abc" for i in range(12)])
WIDE = fn.Domain(
    age=fn.Ordered(0, 20, missing={"unknown": [99]}, if_missing="unknown"),
    debt=fn.Ordered(-5, 5),
    pay=fn.Binned([10, 20, 30.5, 40]),
    job=fn.Categorical([f"j{i}" for i in range(16)]),
    geo=TREE,
)
VIEWS = {
    "groups with gaps": {"groups": {"age": {"young": [1, 4], "one": 9, "some": {"values": [12, 14, 16]}}}},
    "groups of all": {"groups": {"age": {"young": [0, 14], "old": [15, 20]}}},
    "groups, and missing ones": {"groups": {"age": {"young": [0, 14]}}, "missing": True},
    "a group of missing ones": {"groups": {"age": {"x": {"values": ["unknown", 0]}}}},
    "every second value": {"groups": {"age": {"even": {"values": list(range(0, 21, 2))}}}},
    "ranges": {"ranges": {"age": [(0, 3), (2, 5), (19, 19)]}},
    "all ranges": {"ranges": "debt"},
    "negative numbers": {"ranges": {"debt": [(0, 1)]}},
    "cumulative": {"cumulative": "age"},
    "prefix, and missing ones": {"cumulative": "age", "missing": True},
    "changes": {"change": {"age": 2}},
    "changes over most": {"change": {"age": 13}},
    "averages": {"average": {"age": 3}},
    "to date": {"to_date": {"age": 4}},
    "a sum": {"sum": "age"},
    "counts of values": {"count": "age"},
    "bins": {"groups": {"pay": {"x": ["10 to under 20", "20 to under 30.5"]}}},
    "bins at the ends": {"groups": {"pay": {"x": {"values": ["under 10", "40 or more"]}}}},
    "ranges of bins": {"ranges": {"pay": [("40 or more", "40 or more")]}},
    "few codes": {"groups": {"job": {"x": [f"j{i}" for i in range(9)]}}},
    "nine codes left": {"groups": {"job": {"x": [f"j{i}" for i in range(7)]}}},
    "many codes left": {"groups": {"job": {"x": ["j3"]}}},
    "places of a level": {"groups": {"state": {"x": ["b"]}}},
    "places of the last level": {"groups": {"county": {"x": ["a1", "b1"]}}},
    "two attributes": {"groups": {"job": {"x": ["j1"]}, "age": {"y": [3, 4]}}, "ranges": {"pay": [("under 10",) * 2]}},
}


LONG = ("many codes left", "places of the last level", "two attributes", "every second value")
"""Those that leave out more than is listed."""


def tables_of(workload):
    """The tables, and one of each pattern."""
    return [p[0] if isinstance(p, Family) else p for p in workload.tables.parts]


def named_cells(attribute, pieces):
    """The cells that a list of values means, read as a person reads it."""
    cells, labels = [], [str(x) for x in attribute.values]
    for piece in pieces:
        run = re.fullmatch(r"(-?\d+)(?:–| – )(-?\d+)", piece)
        if run and isinstance(attribute, Ordered):
            cells += range(attribute.own_position(int(run[1])), attribute.own_position(int(run[2])) + 1)
        elif isinstance(attribute, Binned) and piece not in attribute.missing_cells:
            below = re.fullmatch(r"under (.*)", piece)
            from_to = re.fullmatch(r"(.*) to under (.*)|(.*) or more", piece)
            low = -np.inf if below else float(from_to[1] or from_to[3])
            high = float(below[1]) if below else float(from_to[2] or "inf")
            edges = [-np.inf, *attribute.cuts, np.inf]
            cells += [i for i in range(len(edges) - 1) if low <= edges[i] and edges[i + 1] <= high]
        else:
            cells.append(labels.index(piece))
    return cells


def counted(table, domain):
    """Return a mask (cells,) of the cells that some row counts; a sum also counts records that add 0."""
    summed = [a for a, view in table.views if isinstance(view, Sum)]
    if table.matrix is not None or not summed:
        return table_matrix(table, domain).any(axis=0)
    rest = [(a, view) for a, view in table.views if a not in summed]
    attributes = tuple(a for a in table.attributes if a not in summed)
    there = (
        table_matrix(replace(table, attributes=attributes, views=tuple(rest)), domain).any(axis=0).reshape(domain.shape)
    )
    for axis, (a, attribute) in enumerate(domain.items()):
        has_value = np.arange(attribute.size) < (attribute.own_size if a in summed else attribute.size)
        there = there & has_value.reshape([-1 if i == axis else 1 for i in range(len(domain))])
    return there.ravel()


def counted_by_text(table, domain):
    """Return a mask (cells,) of the cells that the text does not exclude, and True if it names all it excludes."""
    there, exact = np.ones(domain.shape, dtype=bool), True
    for gap in uncounted(table, domain):
        exact &= gap.omitted_count == 0
        if table.matrix is not None and len(domain) > 1:
            pairs = [tuple(map(str, pair)) for pair in itertools.product(*(a.values for a in domain.values()))]
            missing_cells = np.isin([" × ".join(pair) for pair in pairs], gap.pieces)
            assert missing_cells.sum() == len(gap.pieces)
            there &= ~missing_cells.reshape(domain.shape)
            continue
        home, attribute = domain.attribute_of(gap.name), domain[gap.name]
        cells = named_cells(attribute, gap.pieces)
        assert len(set(cells)) == len(cells)
        assert (
            len(cells) + gap.omitted_count == len(table.left_out(domain).get(gap.name, ())) or table.matrix is not None
        )
        missing_cells = merging(domain, home, gap.name)[cells].any(axis=0)
        axis = list(domain).index(home)
        there &= ~missing_cells.reshape([-1 if i == axis else 1 for i in range(len(domain))])
    return there.ravel(), exact


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_the_text_excludes_exactly_the_cells_that_no_row_counts(name):
    """Exactly complementary, over every cell of the domain."""
    workload = zoo.WORKLOADS[name]()
    for table in tables_of(workload):
        there, exact = counted_by_text(table, workload.domain)
        if workload.domain.size < 10_000:
            assert exact
            np.testing.assert_array_equal(there, counted(table, workload.domain))


@pytest.mark.parametrize("name", VIEWS)
def test_every_kind_of_view_says_what_it_does_not_count(name):
    table = fn.table(**VIEWS[name], margin=5)
    homes = {WIDE.attribute_of(a) for a in table.attributes}
    domain = fn.Domain({a: WIDE[a] for a in WIDE if a in homes})
    fn.Workload(domain, [table])
    there, exact = counted_by_text(table, domain)
    by_rows = counted(table, domain)
    assert exact == (
        name not in ("many codes left", "places of the last level", "two attributes", "every second value")
    )
    assert not (by_rows & ~there).any()
    if exact:
        np.testing.assert_array_equal(there, by_rows)


SHORT = {
    "groups with gaps": "age 0, 5–8, 10–11, 13, 15, 17–20, unknown",
    "groups of all": "age unknown",
    "groups, and missing ones": "age 15–20",
    "a group of missing ones": "age 1–20",
    "every second value": "age 1, 3, 5, 7, 9, 11, 13, 15, unknown, and 2 more",
    "negative numbers": "debt -5 – -1, 2–5",
    "changes over most": "age 8–12, unknown",
    "bins": "pay under 10, 30.5 or more",
    "bins at the ends": "pay 10 to under 40",
    "ranges of bins": "pay under 40",
    "nine codes left": "job j7, j8, j9, j10, j11, j12, j13, j14, j15",
    "many codes left": "job j0, j1, j2, j4, j5, j6, j7, j8, and 7 more",
    "places of a level": "state a, c",
}


@pytest.mark.parametrize("name", SHORT)
def test_lists_of_values_are_short(name):
    (gap,) = uncounted(fn.table(**VIEWS[name], margin=5), WIDE)
    assert gap.text == SHORT[name]


def test_all_bins_and_one_piece_too_many():
    assert list_values("pay", WIDE["pay"], range(5)).text == "pay all"
    assert list_values("job", WIDE["job"], range(3), max_pieces=2).items == ["j0", "j1", "j2"]
    assert list_values("job", WIDE["job"], range(4), max_pieces=2).items == ["j0", "j1", "and 2 more"]


def test_a_matrix_says_which_cells_no_query_is_about():
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Categorical(["x", "y"]))
    workload = fn.matrix_workload(np.array([[1, 0, -1, 0]]), variances=1, domain=domain)
    assert [x.text for x in uncounted(workload.tables[0], domain)] == ["a × b 0 × y, 1 × y"]
    wide = fn.matrix_workload(np.eye(1, 24, dtype=int), variances=1, domain=fn.Domain(a=fn.Ordered(0, 11), b=SEX))
    assert uncounted(wide.tables[0], wide.domain)[0].items[-1] == "and 15 more"
    line = fn.matrix_workload(np.array([[0, 1, 1, 0, 0]]), variances=1)
    assert [x.text for x in uncounted(line.tables[0], line.domain)] == ["cell 0, 3–4"]


SEX = fn.Categorical(["f", "m"])
SPEC = """
[data]
source = "people"

[domain.age]
type = "ordered"
low = 0
high = 20

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[[tables]]
attributes = ["sex"]
groups = { age = { baby = 0, "14-18" = [14, 18] } }
margin = 20
"""
EXCLUDED = "age 1–13, 19–20"


@pytest.fixture(scope="module")
def release_folder(tmp_path_factory):
    """A release of one table that leaves ages out, by the command line."""
    folder = tmp_path_factory.mktemp("universe")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    frame = pd.DataFrame({"age": [a % 21 for a in range(2100)], "sex": ["f", "m"] * 1050})
    frame.to_csv(folder / "people.csv", index=False)
    with contextlib.chdir(folder):
        by_command("plan", "spec.toml", "-o", "plan.json")
        by_command("release", "plan.json", "people.csv", "--ledger", "l.sqlite", "-o", "release")
    return folder


def by_command(*arguments):
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = end.code
    assert code == 0


def test_no_surface_says_that_all_records_are_counted(release_folder, capsys, monkeypatch):
    monkeypatch.chdir(release_folder)
    outputs = {}
    for name, arguments in {
        "plan": ("plan", "spec.toml"),
        "plan, as JSON": ("plan", "spec.toml", "--json"),
        "tables": ("tables", "release"),
        "a table": ("tables", "release", "sex by age groups"),
        "a table, as JSON": ("tables", "release", "sex by age groups", "--json"),
        "record": ("write", "record", "release"),
    }.items():
        by_command(*arguments)
        outputs[name] = "".join(capsys.readouterr())
    outputs["release.json"] = (release_folder / "release" / "release.json").read_text(encoding="utf-8")
    release = fn.Release.read(release_folder / "release")
    for name in (*FORMATS, "package"):
        path = "package" if name == "package" else f"t{name}"
        export(release, release_folder / path)
        if name == ".xlsx":
            book = openpyxl.load_workbook(release_folder / path)
            cells = (cell.value for sheet in book for row in sheet for cell in row)
            outputs[name] = " ".join(str(x) for x in cells if x is not None)
        else:
            file = release_folder / path / "datapackage.json" if name == "package" else release_folder / path
            outputs[name] = file.read_text(encoding="utf-8")
    by_command("write", "report", "release", "-o", "report.html")
    outputs["report"] = (release_folder / "report.html").read_text(encoding="utf-8")
    for name, text in outputs.items():
        text_shown = text.replace("\\u2013", "–")
        for values in ("1–13", "19–20"):
            assert values in text_shown, name
        assert "all records of people" not in text_shown, name
    stated = json.loads(outputs["release.json"])["tables"][0]
    assert stated["not_counted"] == {"age": ["1–13", "19–20"]}
    assert in_words(stated["universe"]) == ["counted: records of people", f"not counted: {EXCLUDED}"]
    assert fn.verify(release_folder / "release").ok


def test_the_universe_is_translated_into_german(release_folder):
    release = fn.Release.read(release_folder / "release")
    laid = layout(release, "sex by age groups")
    english, german = (next(fragments.notes(laid, translator(code), release, None)) for code in ("en", "de"))
    assert english == f"Universe: records of people. Not counted: {EXCLUDED}."
    assert german == f"Grundgesamtheit: Fälle aus people. Nicht gezählt: {EXCLUDED}."
    values = list_values("job", WIDE["job"], range(1500 % 16, 16), max_pieces=2)
    assert fragments.listed(values, translator("de")) == "job j12, j13 und 2 weitere"


def test_the_studio_lists_the_values_next_to_the_proof(release_folder):
    plan = fn.Release.read(release_folder / "release").plan
    checks = fn.verify(release_folder / "release")
    for language, heading, name in (
        ("en", "Values not counted, by table", "Records by sex and age (groups)"),
        ("de", "Nicht gezählte Werte, je Tabelle", "Fälle nach sex und age (Gruppen)"),
    ):
        page = str(proof(plan, checks, language))
        assert f"<h3>{heading}</h3>" in page
        assert f"<li>{name}: {EXCLUDED}</li>" in page
    complete = fn.plan(fn.Workload(fn.Domain(sex=SEX), [fn.table("sex", margin=20)]))
    assert "not counted" not in str(proof(complete, checks, "en"))


def test_answers_say_which_records_they_are_of(release_folder):
    release = fn.Release.read(release_folder / "release")
    assert release.count(sex="f", age=(14, 18)).universe == "records with sex f; age 14–18"
    assert release.count(age=0).universe == "records with age 0"


def test_questions_say_which_values_do_not_meet_their_conditions(tmp_path, capsys, monkeypatch):
    questions = """
[[questions]]
name = "young women"
query = "count"
where = { age = [0, 14], sex = "f" }
people = 5
epsilon = 1

[[questions]]
name = "two"
query = "counts"
where = [{ age = { values = [0, 2] } }, { sex = ["m"] }]
people = 5
epsilon = 1

[[questions]]
name = "middle"
query = "median"
attribute = "age"
people = 5
epsilon = 1
"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC + questions, encoding="utf-8")
    by_command("plan", "spec.toml", "-o", "plan.json")
    output = capsys.readouterr().out
    for name, attribute, excluded in (
        ("young women", "age", "15–20"),
        ("young women", "sex", "m"),
        ("two 1", "age", "1, 3–20"),
        ("two 2", "sex", "f"),
    ):
        assert re.search(rf"^{name} +{attribute} +{excluded} ", output, re.MULTILINE), name
    plan = fn.Plan.from_json((tmp_path / "plan.json").read_text(encoding="utf-8"))
    frame = pd.DataFrame({"age": [3, 4], "sex": ["f", "m"]})
    fn.release(plan, frame, ledger=tmp_path / "l.sqlite", directory=tmp_path / "release")
    stated = json.loads((tmp_path / "release" / "release.json").read_text(encoding="utf-8"))["questions"]
    assert [x.get("not_counted") for x in stated] == [
        {"age": ["15–20"], "sex": ["m"]},
        [{"age": ["1", "3–20"]}, {"sex": ["f"]}],
        None,
    ]
    assert fn.verify(tmp_path / "release").ok
