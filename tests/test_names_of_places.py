"""Names of places next to their codes: in files, frames, answers, exports and plans."""

import csv
import io
import json

import numpy as np
import openpyxl
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.reading.layouts import layout
from fitnoise_check import __main__ as checker
from laws.releases import check_further_columns, released
from refused import refused

ROWS = [("01", "001", "a"), ("01", "002", "b"), ("02", "001x", "c"), ("02", "003", "d")]
PLACES = pd.DataFrame(ROWS, columns=["state", "county", "tract"]).assign(
    county_name=["Kent", "Washington", "Washington", "Polk"], state_name=["North", "North", "South", "South"], size=1
)
NAMES = {"state": ("North", "South"), "county": ("Kent", "Washington", "Washington", "Polk")}
GEO = fn.Hierarchy(["state", "county", "tract"], PLACES)
DOMAIN = fn.Domain(geo=GEO, sex=fn.Categorical(["f", "m"]))
TABLES = [fn.table("county", "sex", margin=2), fn.table("state", margin=2), fn.table("tract", margin=2)]


@pytest.fixture(scope="module")
def plan():
    return fn.plan(fn.Workload(DOMAIN, TABLES), gap=1e-2)


@pytest.fixture(scope="module")
def release(plan):
    return released(plan, np.full(DOMAIN.shape, 20))


def test_names_have_one_meaning_from_a_frame_a_file_and_python(tmp_path):
    PLACES.to_csv(tmp_path / "places.csv", index=False)
    levels = GEO.levels
    assert dict(GEO.names) == NAMES
    assert fn.Hierarchy(levels, file=tmp_path / "places.csv") == GEO
    assert fn.Hierarchy.from_file(tmp_path / "places.csv", levels) == GEO
    by_code = {level: dict(zip(PLACES[level], PLACES[f"{level}_name"], strict=True)) for level in NAMES}
    assert fn.Hierarchy(levels, ROWS, names=by_code) == GEO
    assert fn.Hierarchy(levels, ROWS, names=NAMES) == GEO
    assert fn.Hierarchy(levels, ROWS) != GEO
    other = fn.Hierarchy(levels, PLACES, names={"state": ["N", "S"]})  # stated names come before those of the frame
    assert dict(other.names) == {**NAMES, "state": ("N", "S")}
    # a level is not the column of names of another
    assert fn.Hierarchy(["county", "county_name"], [("a", "b")]).names == ()
    assert fn.Hierarchy(["county", "county_name"], pd.DataFrame({"county": ["a"], "county_name": ["b"]})).names == ()
    numbers = fn.Hierarchy.regular(state=2, county=3)
    assert fn.Hierarchy(numbers.levels, children=[2, 3], names={"state": ["N", "S"]}).names == (("state", ("N", "S")),)


def test_places_in_any_order_keep_their_names():
    mixed = PLACES.iloc[[3, 0, 2, 1]]
    tree = fn.Hierarchy(GEO.levels, mixed)
    county = tree.views[1]
    assert dict(zip(county.values, county.names, strict=True)) == dict(
        zip(PLACES["county"], PLACES["county_name"], strict=True)
    )


def test_tables_and_answers_show_names(release, tmp_path):
    for name, frame in release.frames():
        check_further_columns(frame, release.plan.publication.workload[name], DOMAIN)
    table = release["county by sex"]
    assert list(table)[:3] == ["county", "county_name", "sex"]
    assert list(release["tract"])[:2] == ["tract", "value"]
    answer = release.count(by=["county", "sex"])
    pd.testing.assert_frame_equal(answer.frame()[["county", "county_name"]], table[["county", "county_name"]])
    assert "county_name" in repr(answer)
    chosen = answer[["001x", "003"], "f"].frame()
    assert chosen[["county", "county_name"]].to_numpy().tolist() == [["001x", "Washington"], ["003", "Polk"]]
    folder = release.write(tmp_path / "release")
    assert fn.verify(folder).ok
    head, *rows = csv.reader(io.StringIO((folder / "tables" / "state.csv").read_text()))
    assert [head[:2], *(row[:2] for row in rows)] == [["state", "state_name"], ["01", "North"], ["02", "South"]]
    read = fn.Release.read(folder)
    assert read.plan.publication.domain["geo"] == GEO
    assert checker.main(str(folder / "plan.json")) == 0


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ({"state": "North"}, "It is the name of '01'. Places of the level 'state' are given by their codes."),
        ({"county": "Washington"}, "It is the name of ['002', '001x']. Places of the level 'county'"),
        ({"tract": "North"}, "It must be a place of the level 'tract'."),
    ],
)
def test_a_name_for_a_code_is_refused_with_the_code(release, condition, sentence):
    with refused("release.wrong-selection") as raised:
        release.count(condition)
    assert sentence in str(raised.value)


def test_an_unknown_name_is_refused_with_the_levels(release):
    for ask in (lambda: release.count(stat="01"), lambda: release.count(by="stat"), lambda: release.count(having="x")):
        with refused("release.unknown-attribute") as raised:
            ask()
        assert "['geo', 'state', 'county', 'tract', 'sex']" in str(raised.value)


def test_exports_describe_names(release, tmp_path):
    package = fn.export(release, tmp_path / "package")
    described = json.loads((package / "datapackage.json").read_text(encoding="utf-8"))
    fields = {x["name"]: x for resource in described["resources"] for x in resource["schema"]["fields"]}
    assert fields["county_name"]["description"] == "Name of the place of county."
    assert set(fields["county_name"]["constraints"]["enum"]) == set(NAMES["county"])
    assert fn.verify_export(release, package)


def test_reports_and_workbooks_show_names_with_codes(release, tmp_path):
    laid = layout(release, "county by sex")
    kent, washington = (x for (x,) in laid.rows[:2])
    assert (kent.text, kent.code, kent.is_repeated) == ("Kent", "001", False)
    assert (washington.text, washington.code, washington.is_repeated) == ("Washington", "002", True)
    assert [x.code for (x,) in layout(release, "tract").rows] == [""] * 4  # places without names
    fn.report(release, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'Kent&nbsp;<span class="code">001</span>' in page.replace("\xa0", "&nbsp;")
    sheet = openpyxl.load_workbook(fn.export(release, tmp_path / "a.xlsx")).worksheets[1]
    assert [[x.value for x in row[:2]] for row in sheet.iter_rows(min_row=5)][:3] == [
        ["Kent", "001"],
        ["Washington (002)", "002"],
        ["Washington (001x)", "001x"],
    ]


def test_a_plan_and_a_specification_keep_names(plan, tmp_path):
    assert json.loads(plan.to_json())["spec"]["domain"]["geo"]["names"] == {k: list(x) for k, x in NAMES.items()}
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    PLACES.to_csv(tmp_path / "places.csv", index=False)
    (tmp_path / "spec.toml").write_text(
        """[data]
source = "x"
[privacy]
unit = "person"
[domain.geo]
type = "hierarchy"
levels = ["state", "county", "tract"]
file = "places.csv"
[[tables]]
attributes = ["county"]
margin = 3
"""
    )
    assert fn.load_spec(tmp_path / "spec.toml").domain["geo"] == GEO


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: fn.Hierarchy(GEO.levels, ROWS, names={"town": ["a"]}), "domain.names-of-places"),
        (lambda: fn.Hierarchy(GEO.levels, ROWS, names={"state": ["a"]}), "domain.names-of-places"),
        (lambda: fn.Hierarchy(GEO.levels, ROWS, names={"state": ["a", ""]}), "domain.names-of-places"),
        (lambda: fn.Hierarchy(GEO.levels, ROWS, names={"state": {"01": "a", "03": "b"}}), "domain.names-of-places"),
        (lambda: fn.Hierarchy(GEO.levels, PLACES.assign(state_name=["a", "b", "c", "c"])), "domain.place-of-two-names"),
        (
            lambda: fn.Hierarchy(GEO.levels, PLACES.assign(county_name=["a", None, "c", "c"])),
            "domain.text-column-incomplete",
        ),
        (
            lambda: fn.Domain(geo=GEO, county_name=fn.Categorical(["a"])),
            "domain.attribute-name-of-further-column",
        ),
    ],
)
def test_wrong_names_are_refused(make, code):
    with refused(code):
        make()
