"""Workbooks, LaTeX and data packages have the numbers of the release in full; and their texts are texts."""

import contextlib
import csv
import hashlib
import io
import itertools
import json
import re
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpyxl
import pytest

import fitnoise as fn
from fitnoise.errors import ReleaseError
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.exports import export, latex, manifests
from fitnoise.interfaces.exports.export import FORMATS
from fitnoise.interfaces.exports.manifests import CLAIMS, manifest_place
from fitnoise.interfaces.exports.workbooks import workbook
from fitnoise.interfaces.wording import wording
from fitnoise.messages import english, translator
from fitnoise.reading import verification
from fitnoise.reading.layouts import layout
from fitnoise.reading.release_files import to_json
from fitnoise.reading.verification import UNCHECKED
from laws.releases import answered, by_command
from refused import refused
from test_pages import DERIVED, RULE, demo, small

HOSTILE = "=1+1|'\"<&\\_{}%$#^~"


def hostile():
    domain = fn.Domain({"@a": fn.Categorical({"=x": HOSTILE, "y": "+2", "z": "-3"}), "b": fn.Ordered(0, 9)})
    tables = [fn.table("@a", "b", margin=4, name=f"[{HOSTILE}]:*?/"), fn.table("@a", margin=3, name="=2+2")]
    return answered(fn.plan(fn.Workload(domain, tables), title=HOSTILE, gap=1e-3), 10**6)


def in_files(values):
    """Numbers with the six decimals of CSV files."""
    return [[float(f"{x:.6f}") for x in row] for row in values]


def test_a_workbook_does_not_depend_on_the_last_bits():
    release = small()
    table = layout(release, next(iter(release)), totals=True)
    shifted = replace(table, values=np.nextafter(table.values, np.inf), margins=np.nextafter(table.margins, 0))
    assert not np.array_equal(shifted.values, table.values)
    books = [workbook(release, [x], translator("en"), None) for x in (table, shifted)]
    assert books[0] == books[1]


def test_a_workbook_has_every_number(tmp_path):
    release = small()
    book = openpyxl.load_workbook(fn.export(release, tmp_path / "a.xlsx", totals=True, bands=RULE))
    front, *sheets = book.worksheets
    assert [front["A1"].value, len(sheets)] == ["People", len(release)]
    assert [front.cell(3 + i, 1).hyperlink.location for i in range(len(sheets))] == [f"'{s.title}'!A1" for s in sheets]
    for sheet, name in zip(sheets, release, strict=True):
        table = layout(release, name, totals=True, bands=RULE)
        # a column of labels, and one of codes where labels are not codes
        stubs, shape = (
            sum(1 + any(x.code for x in column) for column in zip(*table.rows, strict=True)),
            table.values.shape,
        )
        cells = np.array(
            [[sheet.cell(5 + i, 1 + k).value for k in range(stubs + 3 * shape[1])] for i in range(shape[0])]
        )
        assert cells[:, stubs::3].astype(float).tolist() == in_files(table.values)
        assert cells[:, stubs + 1 :: 3].astype(float).tolist() == in_files(table.margins)
        assert set(cells[:, stubs + 2 :: 3].ravel()) <= {"†", "‡", None}
        assert [str(x) for x in cells[:, 0]] == [r[0].text or "Total" for r in table.rows] if stubs else True
        last = [sheet.cell(6 + shape[0] + k, 1).value for k in range(3)]
        assert re.match("Universe: (all records of default|records of default. Not counted: [a-z]+ )", last[0])
        assert release.plan.hash[:12] in last[1]
        assert "more than 10" in last[2]


@pytest.mark.parametrize(
    ("language", "universe", "margin"),
    [
        ("en", "Universe: ", "10\u202f%"),
        ("de", "Grundgesamtheit: ", "10\u202f%"),
        ("fr", "Univers\u00a0: ", "10\u202f%"),
        ("es", "Universo: ", "10\u202f%"),
        ("it", "Universo: ", "10\u202f%"),
    ],
)
def test_workbooks_and_latex_are_in_every_language(tmp_path, language, universe, margin):
    """Detects spaces of numbers and punctuation that a file spells out, and files that hide the lack of a review."""
    release = DERIVED["combination"]()
    path = fn.export(release, tmp_path / "a.xlsx", language=language, bands=RULE)
    front, sheet, *_ = openpyxl.load_workbook(path).worksheets
    notes = [x for (x,) in sheet.iter_rows(min_col=1, max_col=1, values_only=True) if x]
    assert sum(x.startswith(universe) for x in notes) == 1
    assert margin in notes[-1]
    assert not any("\\" in x for x in notes)
    text = fn.export(release, tmp_path / "a.tex", language=language, bands=RULE).read_text(encoding="utf-8")
    sentence = translator(language).unreviewed
    assert front["A2"].value == sentence
    assert sentence is None or f"% {latex.escaped(sentence)}\n" in text
    assert fn.verify_export(release, path)


def test_a_workbook_holds_no_formula(tmp_path):
    release = hostile()
    path = fn.export(release, tmp_path / "a.xlsx", language="de")
    with zipfile.ZipFile(path) as parts:
        assert not [n for n in parts.namelist() if b"<f>" in parts.read(n) or b"<f " in parts.read(n)]
    _, sheet, second = openpyxl.load_workbook(path).worksheets
    assert second["A1"].value == "=2+2"
    assert [second.cell(5 + i, 1).value for i in range(3)] == [HOSTILE, "+2", "-3"]
    assert second["B5"].value == "=x"
    assert len(sheet.title) <= 31


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_made_of_releases_is_exported(tmp_path, name):
    tables = DERIVED[name]()
    table = layout(tables, next(iter(tables)))
    sheet = openpyxl.load_workbook(fn.export(tables, tmp_path / "a.xlsx", bands=RULE)).worksheets[1]
    each = 3 if table.ends is None else 4
    stubs, shape = 2 * len(table.stubs), table.values.shape
    cells = np.array(
        [[sheet.cell(5 + i, 1 + k).value for k in range(stubs + each * shape[1])] for i in range(shape[0])]
    )
    bounds = [table.margins] if table.ends is None else list(table.ends)
    for k, numbers in enumerate([table.values, *bounds]):
        assert cells[:, stubs + k :: each].astype(float).tolist() == in_files(numbers)
    text = fn.export(tables, tmp_path / "a.tex").read_text(encoding="utf-8")
    assert all(r.plan.hash in text for r in tables.releases)
    assert ("–" in text) == (table.ends is not None)
    package = fn.export(tables, tmp_path / "package", bands=RULE)
    document = json.loads((package / "datapackage.json").read_text(encoding="utf-8"))
    for resource, expected in zip(document["resources"], tables.values(), strict=True):
        with (package / resource["path"]).open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == [f["name"] for f in resource["schema"]["fields"]] == [*expected.columns, "reliability"]
        assert [float(row["value"]) for row in rows] == pytest.approx(expected["value"].to_numpy(), abs=1e-6)
    charged = document.get("releases") or [document["privacy"]]
    assert [x["plan"] for x in charged] == [r.plan.hash for r in tables.releases]


@pytest.mark.parametrize("ending", FORMATS)
def test_what_is_exported_is_the_same_whenever_it_is(tmp_path, ending):
    places = [fn.export(small(), tmp_path / folder / f"a{ending}") for folder in map(_folder_maker(tmp_path), "xy")]
    assert places[0].read_bytes() == places[1].read_bytes()


def _folder_maker(tmp_path):
    def make(name):
        (tmp_path / name).mkdir()
        return name

    return make


def test_latex_has_as_many_cells_as_columns_in_every_row(tmp_path):
    for release in (small(), hostile(), demo()):
        path = fn.export(release, tmp_path / f"{len(release)}.tex", totals=True, bands=RULE)
        text = re.sub(r"^%.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        depth = 0
        for c in re.sub(r"\\[\\{}$&#_%,]", "", text):
            depth += {"{": 1, "}": -1}.get(c, 0)
            assert depth >= 0
        assert depth == 0
        for name, body in zip(
            release, re.findall(r"\\begin\{longtable\}(.*?)\\end\{longtable\}", text, re.DOTALL), strict=True
        ):
            table = layout(release, name, totals=True, bands=RULE)
            columns = max(1, len(table.stubs)) + 2 * len(table.columns)
            _, rows = body.split("\\midrule\\endhead\n")
            lines = rows.split("\\bottomrule")[0].strip().split("\n")
            assert len(lines) == len(table.rows)
            assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {columns - 1}
            assert all(line.endswith("\\\\") for line in lines)


@pytest.mark.parametrize(("language", "word"), [("en", "Untitled"), ("de", "Ohne Titel")])
def test_every_output_has_a_word_for_a_missing_title(tmp_path, language, word):
    """Detects an output that begins with an empty title."""
    workload = fn.Workload(fn.Domain(a=fn.Categorical(["x", "y"])), [fn.table("a", margin=4)])
    tables = answered(fn.plan(workload))
    text = fn.export(tables, tmp_path / "a.tex", language=language).read_text(encoding="utf-8")
    assert text.startswith(f"% {word}: fitnoise ")
    book = openpyxl.load_workbook(fn.export(tables, tmp_path / "a.xlsx", language=language))
    assert (book.worksheets[0].cell(1, 1).value, book.properties.title) == (word, word)
    for what in (tables, tables.plan, fn.make_integer_tables(tables, simulations=0)):
        page = fn.report(what, tmp_path / f"{type(what).__name__}.html", language=language).read_text(encoding="utf-8")
        assert f"<title>{word}" in page
        assert f"<h1>{word}" in page
    package = fn.export(tables, tmp_path / "package") / "datapackage.json"
    assert json.loads(package.read_text(encoding="utf-8"))["title"] == "Untitled"


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def derived_folder(tmp_path_factory):
    """A release in a folder, with integer tables, a combination with rules, and a file."""
    folder = tmp_path_factory.mktemp("made")
    domain = fn.Domain(a=fn.Categorical(["x", "y"]), b=fn.Categorical(["s", "t"]))
    release = answered(fn.plan(fn.Workload(domain, [fn.table("a", "b", margin=4)])), 20)
    release.write(folder / "release")
    fn.make_integer_tables(release, simulations=0).write(folder / "integers")
    fn.given(release, impossible=[{"a": "x", "b": "s"}]).write(folder / "given")
    fn.export(release, folder / "tables.tex")
    fn.export(release, folder / "package")
    (folder / "rules.toml").write_text('[[impossible]]\na = "x"\nb = "s"\n', encoding="utf-8")
    (folder / "file").write_text("mine", encoding="utf-8")
    return folder


COMMANDS = {
    "integers": ("integers", "release", "-o"),
    "combine": ("combine", "release", "--impossible", "rules.toml", "-o"),
    "report": ("write", "report", "release", "--integers", "integers", "-o"),
    "export": ("write", "export", "release", "--integers", "integers", "-o"),
    "microdata": ("write", "microdata", "release", "--integers", "integers", "-o"),
}
REFUSED_PLACES = {
    "none/a.html": ("integers combine report", "folder-not-writable"),
    "none/a.HTML": ("integers combine report", "folder-not-writable"),
    "none/a.xlsx": ("integers combine export", "folder-not-writable"),
    "none/a.Tex": ("integers combine export", "folder-not-writable"),
    "none/a.csv": ("microdata", "folder-not-writable"),
    "tables.tex": ("integers combine export", "place-exists"),
    "file": ("integers combine export", "place-exists"),
    "integers": ("combine", "place-exists"),
    "file/a": ("integers combine export", "place-not-writable"),
    "release/a": ("integers combine export", "place-inside-release"),
    "integers/a.html": ("report", "place-inside-release"),
    "integers/a.parquet": ("microdata", "place-inside-release"),
}


@pytest.mark.parametrize("output", REFUSED_PLACES)
def test_a_place_is_checked_before_anything_is_computed(derived_folder, output, monkeypatch, capsys):
    """Detects a command that reads, solves or searches, and only then finds that it cannot write."""
    monkeypatch.chdir(derived_folder)
    names, code = REFUSED_PLACES[output]
    for name in names.split():
        with monkeypatch.context() as computing:
            if code != "place-inside-release" or name == "microdata":
                computing.delattr("fitnoise.reading.release.Release.read")
            by_command(*COMMANDS[name], output)
        error = capsys.readouterr().err
        assert f"[release.{code}]" in error
        if code == "place-inside-release":
            assert f"Choose a place outside {output.split('/')[0]!r}." in error


def test_a_folder_that_can_be_made_is_accepted(derived_folder, tmp_path, monkeypatch):
    """Detects a check that refuses what writing accepts: missing parents, and an empty folder."""
    monkeypatch.chdir(derived_folder)
    (tmp_path / "empty").mkdir()
    for output in (tmp_path / "empty", tmp_path / "new" / "deep"):
        by_command("integers", "release", "-o", str(output), "--simulations", "0")
        assert (output / "whole.json").is_file()


MISPLACED = {
    ("release/plan.json", "ask"): ("ask", "release/plan.json", "count()"),
    ("release/release.json", "integers"): ("integers", "release/release.json", "-o", "new"),
    ("integers/whole.json", "verify"): ("verify", "release", "--integers", "integers/whole.json"),
    ("integers/whole.json", "write"): (
        "write",
        "report",
        "release",
        "--integers",
        "integers/whole.json",
        "-o",
        "a.html",
    ),
    ("given/combination.json", "verify"): ("verify", "release", "--combination", "given/combination.json"),
    ("tables.tex.manifest.json", "verify"): ("verify", "release", "--export", "tables.tex.manifest.json"),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_a_document_in_place_of_what_it_describes_is_named(derived_folder, case, monkeypatch, capsys):
    """An error names the folder or the file to give."""
    monkeypatch.chdir(derived_folder)
    by_command(*MISPLACED[case])
    out, error = capsys.readouterr()
    document, _ = case
    right = document.removesuffix(".manifest.json") if document.endswith("manifest.json") else document.split("/")[0]
    assert f"Give {'the folder ' if '/' in document else ''}{right!r}." in out + error


def test_a_file_that_is_no_folder_is_named(derived_folder, monkeypatch, capsys):
    monkeypatch.chdir(derived_folder)
    by_command("verify", "release", "--integers", "file")
    assert "'file' is a file. It must be a folder with the file 'whole.json'." in capsys.readouterr().out


@pytest.mark.parametrize("name", ["A.TEX", "A.Xlsx"])
def test_endings_of_exports_may_have_capitals(derived_folder, tmp_path, name):
    release = fn.Release.read(derived_folder / "release")
    raw = fn.export(release, tmp_path / name).read_bytes()
    assert raw == fn.export(release, tmp_path / name.lower()).read_bytes()
    assert fn.verify_export(release, tmp_path / name).ok
    assert fn.report(release, tmp_path / "A.HTML").read_bytes() == fn.report(release, tmp_path / "a.html").read_bytes()


def test_latex_takes_every_letter_for_itself():
    assert latex.escaped(HOSTILE) == (
        r"=1+1\textbar{}'\textquotedbl{}\textless{}\&\textbackslash{}\_\{\}\%\$\#\textasciicircum{}\textasciitilde{}"
    )
    assert latex.escaped("−5\u202f%\x07") == r"$-$5\,\%\textbackslash{}x07"


def test_a_data_package_says_what_its_columns_hold(tmp_path):
    for i, release in enumerate((small(), hostile(), demo())):
        folder = fn.export(release, tmp_path / f"package{i}", bands=RULE, licence="CC-BY-4.0")
        content = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
        assert (content["licenses"], content["privacy"]["plan"]) == ([{"name": "CC-BY-4.0"}], release.plan.hash)
        assert re.fullmatch(r"[a-z0-9._-]+", content["name"])
        title = wording("en", [release.plan.publication]).table
        assert [r["title"] for r in content["resources"]] == list(map(title, release))
        for resource in content["resources"]:
            raw = (folder / resource["path"]).read_bytes()
            assert (len(raw), "sha256:" + hashlib.sha256(raw).hexdigest()) == (resource["bytes"], resource["hash"])
            head, *rows = csv.reader(io.StringIO(raw.decode()))
            fields = resource["schema"]["fields"]
            assert [f["name"] for f in fields] == [h.removeprefix("'") for h in head]
            for field, column in zip(fields, zip(*rows, strict=True), strict=True):
                if field["name"].endswith(("_from", "_to")):
                    assert np.isfinite([float(x) for x in column if x]).all()
                    assert "" in column
                elif field["type"] == "number":
                    assert np.isfinite([float(x) for x in column]).all()
                elif field["name"] != "reliability":
                    categories = field["constraints"]["enum"]
                    assert {int(x) if field["type"] == "integer" else x for x in column} == {*categories}
                else:
                    assert {*column} <= {"reliable", "use with care", "too wide"}
            assert re.search("Universe: (all records|records) of", resource["description"])
    described = {f["name"]: f for r in content["resources"] for f in r["schema"]["fields"]}
    assert described["status_code"] == {
        "name": "status_code",
        "type": "integer",
        "description": "Code of status in the data; of a category for missing values, its name.",
        "constraints": {"enum": [1, 2, 3, 4]},
    }
    assert described["status"]["constraints"]["enum"] == ["single", "joint", "separate", "head"]
    assert "age" in described
    assert "age_code" not in described


def test_a_package_of_a_small_database_says_that_it_is_biased(tmp_path):
    workload = fn.Workload(fn.Domain(a=fn.Categorical(["x", "y"])), [fn.table("a", margin=4)])
    budget = fn.Budget(epsilon=1, delta=1e-6)
    plan = fn.plan(workload, small_database=fn.SmallDatabase(40, index=2, temperature=0.03), budget=budget)
    release = answered(plan)
    folder = fn.export(release, tmp_path / "p", bands=RULE)
    (resource,) = json.loads((folder / "datapackage.json").read_text())["resources"]
    assert "biased" in resource["description"]
    names = ["a", "biased_value", "simulated_rmse", "unbiased_value", "std_error", "moe"]
    assert [f["name"] for f in resource["schema"]["fields"]] == names
    assert "biased" in fn.export(release, tmp_path / "p.tex", bands=RULE).read_text(encoding="utf-8")


def test_tables_are_exported_by_command(tmp_path, capsys):
    folder = small().write(tmp_path / "r")
    by_command(
        "write",
        "export",
        str(folder),
        "-o",
        str(tmp_path / "a.tex"),
        "--table",
        "all",
        "--reliability-bands",
        "5,20",
        "--json",
    )
    assert json.loads(capsys.readouterr().out) == {"plan": small().plan.hash, "file": str(tmp_path / "a.tex")}
    by_command("write", "export", str(folder), "-o", str(tmp_path / "p"), "--licence", "CC0-1.0")
    assert sorted(p.name for p in (tmp_path / "p").iterdir()) == ["datapackage.json", "manifest.json", "tables"]
    assert "wrote" in capsys.readouterr().err


# --- manifests ------------------------------------------------------------------------------------------


PLACES = {"workbook": "a.xlsx", "latex": "a.tex", "package": "a"}
"""A name for each format: each format needs one."""
OPTIONS = {
    name: {"language": "de", "bands": RULE, "totals": True}
    if Path(name).suffix
    else {"bands": RULE, "licence": "CC0-1.0"}
    for name in PLACES.values()
}
"""For each place all options that its format uses."""


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("folder", {"language": "de"}),
        ("folder", {"totals": True}),
        *((f"t{ending}", {"licence": "CC0-1.0"}) for ending in FORMATS),
    ],
)
def test_an_option_that_a_format_does_not_use_is_refused(name, option, tmp_path, capsys):
    release = small()
    with refused("release.export-option-unused", key=next(iter(option))):
        fn.export(release, tmp_path / name, **option)
    folder = release.write(tmp_path / "release")
    arguments = [f"--{key}" if value is True else f"--{key}={value}" for key, value in option.items()]
    assert main_code(["write", "export", str(folder), "-o", str(tmp_path / name), *arguments]) == ReleaseError.exit_code
    assert "export-option-unused" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def main_code(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def test_every_format_has_a_name_here():
    assert [Path(name).suffix for name in PLACES.values()] == [*FORMATS, ""]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A release, and its exports, each in a folder of its own with its manifest."""
    folder = tmp_path_factory.mktemp("exported")
    small().write(folder / "release")
    for kind, name in PLACES.items():
        (folder / kind).mkdir()
        fn.export(small(), folder / kind / name, **OPTIONS[name])
    return folder


@pytest.fixture
def a_copy(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copy", symlinks=True)


def wrong(what, path):
    """The claims that do not hold."""
    return {english(c.claim): english(c.finding) for c in fn.verify_export(what, path).checks if not c.holds}


FILES, SOURCE, REBUILT = map(english, CLAIMS)


@pytest.mark.parametrize("kind", PLACES)
def test_an_export_is_verified_by_its_manifest(kind, a_copy):
    checked = fn.verify_export(small(), a_copy / kind / PLACES[kind])
    assert [c.claim for c in checked.checks] == list(CLAIMS)
    assert checked.ok


@pytest.mark.parametrize("kind", PLACES)
def test_every_altered_byte_of_an_export_is_noticed(kind, a_copy):
    """With the manifest as it was, and with one that has the hash of the altered file."""
    path = a_copy / kind / PLACES[kind]
    manifest = manifest_place(path)
    text = manifest.read_text()
    files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file() and p != manifest]
    for file in files:
        raw = file.read_bytes()
        for position in (0, len(raw) // 2, len(raw) - 1):
            other = raw[:position] + bytes([raw[position] ^ 1]) + raw[position + 1 :]
            file.write_bytes(other)
            assert wrong(small(), path) == {FILES: f"{file.relative_to(manifest.parent).as_posix()!r} has another hash"}
            manifest.write_text(text.replace(hashlib.sha256(raw).hexdigest(), hashlib.sha256(other).hexdigest()))
            assert wrong(small(), path) == {REBUILT: "it differs"}
            manifest.write_text(text)
        file.write_bytes(raw)
    assert not wrong(small(), path)


STATED = {
    "another plan": (lambda d: d["releases"][0].update(plan="0" * 64), SOURCE, "another release"),
    "other answers": (lambda d: d["releases"][0].update(answers="0" * 64), SOURCE, "another release"),
    "another entry": (lambda d: d["releases"][0].update(ledger={"sequence": 1, "digest": "0" * 64}), SOURCE, "another"),
    "more releases": (lambda d: d["releases"].append(d["releases"][0]), SOURCE, "another release"),
    "other tables": (lambda d: d.update(of="integer_tables"), SOURCE, "other tables"),
    "another language": (lambda d: d["options"].update(language="en", totals=False), REBUILT, "it differs"),
    "no such language": (lambda d: d["options"].update(language="pt"), REBUILT, "Choose en, de, es, fr or it"),
    "no such table": (lambda d: d["options"]["tables"].append("none"), REBUILT, "There is no table 'none'"),
    "a table less": (lambda d: d["options"]["tables"].pop(), REBUILT, "it differs"),
    "tables as a text": (lambda d: d["options"].update(tables="all"), FILES, "does not describe an export"),
    "other bands": (lambda d: d["options"].update(bands=[0.3, 0.1]), FILES, "bands of reliability"),
    "no bands": (lambda d: d["options"].update(bands=3), FILES, "does not describe an export"),
    "another word": (lambda d: d["options"].update(more=1), FILES, "does not describe an export"),
    "a file more": (lambda d: d["files"].append({"path": "b", "bytes": 0, "sha256": ""}), FILES, "missing: 'b'"),
    "a file above": (lambda d: d["files"][0].update(path="../a"), FILES, "'../a'"),
    "a file twice": (lambda d: d["files"].append(d["files"][0]), FILES, "does not describe an export"),
    "no file": (lambda d: d.update(files=[]), FILES, "not expected"),
    "sampling errors of no table": (
        lambda d: d["options"].update(sampling_errors={"none": [1.0]}),
        REBUILT,
        "There is no table 'none'",
    ),
    "sampling errors of a wrong number": (
        lambda d: d["options"].update(sampling_errors={d["options"]["tables"][0]: [1.0] * 7}),
        REBUILT,
        "not one for each",
    ),
    "sampling errors below 0": (
        lambda d: d["options"].update(sampling_errors={d["options"]["tables"][0]: [-1.0]}),
        REBUILT,
        "not one for each",
    ),
    "no sampling errors": (lambda d: d["options"].update(sampling_errors=None), REBUILT, "not one for each"),
    "another version": (lambda d: d.update(fitnoise_export=4), FILES, "has version 4"),
    "a version of no number": (lambda d: d.update(fitnoise_export=True), FILES, "does not describe an export"),
    "a key less": (lambda d: d.pop("versions"), FILES, "does not describe an export"),
    "a list": (lambda d: d.update(options=[]), FILES, "does not describe an export"),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("what", STATED)
def test_a_manifest_that_says_otherwise_is_noticed(what, kind, a_copy):
    change, claim, text = STATED[what]
    path = a_copy / kind / PLACES[kind]
    document = json.loads(manifest_place(path).read_text())
    change(document)
    manifest_place(path).write_text(to_json(document))
    faults = wrong(small(), path)
    if kind == "package" and what == "another language":  # a package is in English, and has no totals
        assert faults == {REBUILT: "it differs"} or not faults
        return
    assert list(faults) == [claim]
    assert text in faults[claim]


def test_files_that_are_missing_unlisted_or_links_are_noticed(a_copy):
    path = a_copy / "package" / "a"
    (path / "more.csv").write_text("")
    assert wrong(small(), path) == {FILES: "not expected: 'more.csv'"}
    (path / "more.csv").rename(path / "tables" / "more.csv")
    assert wrong(small(), path) == {FILES: "not expected: 'tables/more.csv'"}
    (path / "tables" / "more.csv").unlink()
    (path / "datapackage.json").rename(a_copy / "elsewhere")
    assert wrong(small(), path) == {FILES: "missing: 'datapackage.json'"}
    (path / "datapackage.json").symlink_to(a_copy / "elsewhere")
    assert "links: 'datapackage.json'" in wrong(small(), path)[FILES]
    (path / "manifest.json").unlink()
    assert "missing or unreadable" in wrong(small(), path)[FILES]
    other = a_copy / "latex" / "a.tex"
    manifest_place(other).write_text("[" * 10**5)
    assert "does not describe an export" in wrong(small(), other)[FILES]
    assert list(wrong(small(), a_copy / "nothing.xlsx")) == [FILES]


def test_another_version_of_what_writes_workbooks_is_named(a_copy, monkeypatch):
    path = a_copy / "workbook" / "a.xlsx"
    manifest = manifest_place(path)
    document = json.loads(manifest.read_text())
    version = document["versions"]["xlsxwriter"]
    document["versions"]["xlsxwriter"] = "0.1"
    manifest.write_text(to_json(document))
    assert fn.verify_export(small(), path).ok  # who wrote it is the maker's word
    path.write_bytes(path.read_bytes() + b" ")
    document["files"][0] |= {
        "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()
    }  # fmt: skip
    manifest.write_text(to_json(document))
    assert wrong(small(), path) == {REBUILT: f"it differs; xlsxwriter 0.1 wrote it, and this is {version}"}
    document["versions"].pop("xlsxwriter")
    manifest.write_text(to_json(document))
    assert "xlsxwriter of no stated version wrote it" in wrong(small(), path)[REBUILT]

    def unreadable(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(manifests, "_sha256", unreadable)
    assert wrong(small(), path) == {FILES: "a file of the export cannot be read (Input/output error)"}


def test_an_export_of_combined_tables_matches_only_them(exported, tmp_path):
    for i, build in enumerate(DERIVED.values()):
        tables = build()
        for name in PLACES.values():
            path = fn.export(tables, tmp_path / f"{i}{name}")
            assert fn.verify_export(tables, path).ok
            assert list(wrong(small(), path)) == [SOURCE]
    assert list(wrong(tables, exported / "latex" / "a.tex")) == [SOURCE]


def test_every_export_and_report_of_a_command_is_checked_and_named(exported, tmp_path, capsys):
    release, report_file = str(exported / "release"), fn.report(small(), tmp_path / "r.html")
    good = [exported / kind / name for kind, name in PLACES.items()]
    for bad in itertools.product([False, True], repeat=2):
        # the file at fault comes first, where another would have replaced it
        exports = [exported / "absent.xlsx"] * bad[0] + good
        reports = [exported / "absent.html"] * bad[1] + [report_file]
        options = [["--export", str(x)] for x in exports] + [["--report", str(x)] for x in reports]
        with pytest.raises(SystemExit) if any(bad) else contextlib.nullcontext():
            main(["verify", release, *itertools.chain(*options), "--json"])
        output = json.loads(capsys.readouterr().out)
        files_held = [
            (c["finding"]["values"]["file"], c["holds"]) for c in output["checks"] if "file" in c["finding"]["values"]
        ]
        expected = [(str(x), x == report_file) for x in reports]
        expected += [(str(x), x in good) for x in exports for _ in (CLAIMS if x in good else [0])]
        assert files_held == expected
        assert output["ok"] == (not any(bad))
        assert not {english(verification.EXPORT), english(verification.REPORT)} & {*output["unchecked"]}
        checked = fn.verify_export(small(), *exports)
        assert checked.ok == (not bad[0])
        assert [english(c.finding) for c in checked.checks] == [
            c["finding"]["text"] for c in output["checks"][-len(checked.checks) :]
        ]


def test_exports_are_verified_by_command_and_what_is_not_is_named(exported, tmp_path, capsys):
    release = str(exported / "release")
    by_command("verify", release, "--export", str(exported / "workbook" / "a.xlsx"), "--json")
    output = json.loads(capsys.readouterr().out)
    assert output["ok"]
    assert [c["claim"]["id"] for c in output["checks"]][-3:] == [claim.id for claim in CLAIMS]
    assert output["unchecked"] == [english(x) for x in UNCHECKED if x != verification.EXPORT]
    assert fn.verify(exported / "release").unchecked == UNCHECKED
    assert fn.verify(exported / "release" / "plan.json").unchecked == ()
    other = shutil.copytree(exported / "package" / "a", tmp_path / "a")
    (other / "datapackage.json").write_text("{}")
    by_command("verify", release, "--export", str(other))
    assert "'datapackage.json' has another hash" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (
            ReleaseError("disk-full", "The disk is full.", "", "Free space.", "Nothing was exported."),
            refused("release.disk-full"),
        ),
        (KeyboardInterrupt(), pytest.raises(KeyboardInterrupt)),
    ],
)
def test_a_manifest_that_cannot_be_written_leaves_no_file(error, raised, tmp_path, monkeypatch):
    replace = export.replace_file

    def full(path, raw):
        if path.name.endswith(".manifest.json"):
            raise error
        replace(path, raw)

    monkeypatch.setattr(export, "replace_file", full)
    with raised:
        fn.export(small(), tmp_path / "a.tex")
    assert list(tmp_path.iterdir()) == []


def test_errors_of_exports(tmp_path, monkeypatch):
    release, path = small(), tmp_path / "a.tex"
    path.write_text("mine")
    wrong = [
        ({"path": path}, "release.place-exists"),
        ({"path": tmp_path / "a.csv"}, "release.unknown-export-format"),
        ({"tables": ["none"]}, "release.unknown-table"),
        ({"tables": ["all", "all"]}, "release.repeated-table"),
        ({"language": "pt"}, "release.unknown-language"),
        *(({"path": tmp_path / "p", "licence": x}, "release.unknown-licence") for x in ("CC0", "", "ftp://a.example")),
    ]
    for options, code in wrong:
        with refused(code):
            fn.export(release, **{"path": tmp_path / "b.xlsx"} | options)
    monkeypatch.setattr(export, "MAX_EXPORTED_NUMBERS", 10)
    with refused("release.too-many-numbers"):
        fn.export(release, tmp_path / "b.xlsx")
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with refused("release.package-missing"):
        fn.export(release, tmp_path / "b.xlsx", tables="all")
    (tmp_path / "c.tex.manifest.json").write_text("mine")
    with refused("release.place-exists"):
        fn.export(release, tmp_path / "c.tex")
    (tmp_path / "c.tex.manifest.json").unlink()
    assert [p.name for p in tmp_path.iterdir()] == ["a.tex"]
    assert path.read_text() == "mine"
