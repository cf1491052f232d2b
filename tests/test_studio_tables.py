"""The builder of one table: fields and keys, bands, and the empty table that it shows."""

import re
import tomllib
from html.parser import HTMLParser

import hypothesis.strategies as st
import pytest
from hypothesis import given

import fitnoise as fn
from fitnoise.reading.layouts import empty_table, layout, publication_of
from fitnoise_studio import forms, table_forms
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.state import Studio
from refused import refused
from studios import filled, opened
from test_pages import small, summed

SPEC = """[data]
source = "people"

[privacy]
unit = "person"

[domain.area]
type = "categorical"
codes = [1, 2, 3]
labels = ["North", "South", "West"]
missing = { unknown = [9, 99] }

[domain.sex]
type = "categorical"
codes = ["m", "f"]

[domain.age]
type = "ordered"
low = 0
high = 90
clip = true

[domain.size]
type = "ordered"
low = 1
high = 30

[domain.rent]
type = "binned"
cuts = [500, 1_000]

[domain.income]
type = "amount"
low = 0
high = 1_000
ceilings = [500]

[domain.later]
type = "categorical"

[domain.tree]
type = "hierarchy"
levels = ["state", "county"]
children = [2, 2]

[[tables]]
name = "ages"
attributes = ["age", "sex"]
groups = { age = { young = [0, 17], old = { first = 18, last = 90 } } }
margin = 20
confidence = 0.9

[[tables]]
attributes = ["area"]
change = "age"
margin = 3
"""


@pytest.fixture
def document():
    return forms.parse(SPEC)


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(Studio, "wish_price", lambda self: None)
    with opened(filled(tmp_path / "f", SPEC), monkeypatch) as opened_client:
        yield opened_client


def table_from(document, **fields):
    """The table that a form adds."""
    submitted = SubmittedForm([(key.replace("_", "."), value) for key, value in {"number": "5", **fields}.items()])
    return forms.value_at(table_forms.with_table(document, submitted), ("tables",))[-1]


def test_a_table_is_kept_in_the_keys_of_a_specification(document):
    assert table_from(document, show_0="area") == {"attributes": ["area"], "margin": 5}
    assert table_from(document, show_0="area", show_1="age", view_1="cumulative") == {
        "attributes": ["area"],
        "cumulative": "age",
        "margin": 5,
    }
    # All columns are listed where those by value do not come first; the place of a column is that of a report.
    assert table_from(document, show_0="age", view_0="ranges", show_1="sex", show_2="area") == {
        "attributes": ["area", "age", "sex"],
        "ranges": "age",
        "margin": 5,
    }
    bands = {"of_0": "age", "band_0_0": "", "first_0_0": "0", "last_0_0": "17", "band_0_1": "old", "first_0_1": "18"}
    assert table_from(
        document, show_0="age", view_0="groups", **bands, last_0_1="90", missing="1", kind="std_error"
    ) == {
        "groups": {"age": {"0–17": {"first": 0, "last": 17}, "old": {"first": 18, "last": 90}}},
        "missing": True,
        "std_error": 5,
    }
    assert table_from(document, show_0="area", view_0="groups", of_0="area", groups_0="coast = 1, 3\r\nelse = 2") == {
        "groups": {"area": {"coast": [1, 3], "else": [2]}},
        "margin": 5,
    }
    assert table_from(document, show_0="county", pattern="pairs", name=" x ") == {
        "name": "x",
        "pattern": "pairs",
        "attributes": ["county"],
        "margin": 5,
    }
    two = table_from(document, show_0="age", view_0="cumulative", show_1="size", view_1="cumulative")
    assert two["cumulative"] == ["age", "size"]
    two = table_from(document, show_0="age", view_0="ranges", show_1="size", view_1="ranges")
    assert two["ranges"] == {"age": "all", "size": "all"}


def test_tables_show_sums_means_and_medians(document):
    assert table_from(document, told="sum", amount="income", ceiling="500", show_0="sex") == {
        "attributes": ["sex"],
        "sum": "income",
        "ceiling": 500,
        "margin": 5,
    }
    assert table_from(document, told="mean", amount="income", reference="2e3") == {
        "mean": "income",
        "reference": 2000,
        "margin": 5,
    }
    assert table_from(document, told="count", amount="income") == {"count": "income", "margin": 5}
    assert table_from(document, kind="relative_std_error", reference="100") == {
        "reference": 100,
        "relative_std_error": 5,
    }
    median = table_from(document, told="median", amount="age", show_0="area", show_1="sex")
    assert median == {"attributes": ["age", "area", "sex"], "cumulative": "age", "margin": 5}
    assert table_from(document, told="median", amount="age", show_0="age") == {"attributes": ["age"], "margin": 5}
    assert table_forms.amounts_of(document, "sum") == ["income", "age", "size"]
    assert table_forms.amounts_of(document, "mean") == ["income"]
    assert table_forms.amounts_of(document, "median") == ["age", "size", "rent"]


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"show_0": "x"}, "form-attribute-unknown", "show.0"),
        ({"show_0": "area", "show_1": "area"}, "form-attribute-twice", "show.1"),
        ({"show_0": "area", "view_0": "cumulative"}, "form-view-unknown", "view.0"),
        ({"show_0": "age", "view_0": "groups"}, "form-bands-missing", "view.0"),
        ({"show_0": "area", "view_0": "groups"}, "form-group-empty", "groups.0"),
        (
            {"show_0": "area", "view_0": "groups", "of_0": "area", "groups_0": "a"},
            "form-categories-line-invalid",
            "groups.0",
        ),
        ({"pattern": "fours"}, "form-choice-invalid", "pattern"),
        ({"number": ""}, "form-number-not-positive", "number"),
        ({"kind": "x"}, "form-choice-invalid", "kind"),
        ({"told": "most"}, "form-choice-invalid", "told"),
        ({"told": "sum"}, "form-amount-missing", "amount"),
        ({"told": "sum", "amount": "sex"}, "form-amount-missing", "amount"),
        ({"told": "sum", "amount": "income", "ceiling": "x"}, "form-number-invalid", "ceiling"),
        ({"told": "mean", "amount": "income", "reference": ""}, "form-number-not-positive", "reference"),
        ({"told": "median", "amount": "income"}, "form-median-without-order", "amount"),
        (
            {"told": "median", "amount": "age", "show_0": "age", "view_0": "ranges"},
            "form-median-of-groups",
            "amount",
        ),
    ],
)
def test_what_is_wrong_is_refused_at_its_field(document, fields, code, field):
    with refused("spec." + code) as error:
        table_from(document, **fields)
    assert field in error.value.errors
    assert document == forms.parse(SPEC)


@pytest.mark.parametrize(
    ("bands", "code", "field"),
    [
        ([("a", "0", "x")], "form-integer-invalid", "last.0.0"),
        ([("a", "0", "91")], "form-band-outside", "last.0.0"),
        ([("a", "9", "5")], "form-band-reversed", "last.0.0"),
        ([("a", "0", "5"), ("a", "6", "9")], "form-band-twice", "band.0.1"),
        ([("a", "0", "5"), ("b", "5", "9")], "form-bands-overlap", "first.0.1"),
    ],
)
def test_bands_are_refused_at_their_fields(document, bands, code, field):
    rows = {f"{key}_0_{j}": x for j, band in enumerate(bands) for key, x in zip(BAND, band, strict=True)}
    with refused("spec." + code) as error:
        table_from(document, show_0="age", view_0="groups", of_0="age", **rows)
    assert [*error.value.errors] == [field]


BAND = ("band", "first", "last")


def test_a_band_within_a_total_is_taken(document):
    rows = {"band_0_0": "all", "first_0_0": "0", "last_0_0": "90", "band_0_1": "old", "first_0_1": "65"}
    table = table_from(document, show_0="age", view_0="groups", of_0="age", **rows, last_0_1="90")
    assert [*table["groups"]["age"]] == ["all", "old"]


def test_bands_of_another_column_are_left_behind(document):
    """They belong to the column for which the page showed them."""
    form = [("show.0", "size"), ("view.0", "groups"), ("of.0", "age"), ("band.0.0", "a"), ("first.0.0", "0")]
    fields = table_forms.submitted_fields(SubmittedForm(form))
    assert fields.columns[0].bands == ()
    (column,) = table_forms.acted(document, fields, "choice").columns
    assert (column.bands[0].lowest, column.bands[-1].highest) == ("1", "30")


def test_bands_of_an_earlier_table_are_proposed_first(document):
    fields = table_forms.TableFields((table_forms.ShownColumn("age", "groups"),))
    (column,) = table_forms.acted(document, fields, "choice").columns
    assert [x.label for x in column.bands] == ["young", "old"]
    (column,) = table_forms.acted(document, fields, "preset.0.ten").columns
    assert [x.label for x in column.bands][::9] == ["0–9", "90+"]


@given(low=st.integers(-500, 500), count=st.integers(1, 3000), clip=st.booleans())
def test_proposed_bands_have_each_value_once(low, count, clip):
    high = low + count - 1
    draft = {"domain": {"x": {"type": "ordered", "low": low, "high": high, "clip": clip}}}
    presets = table_forms.presets_of(draft, "x")
    assert presets
    for bands in presets.values():
        values = [i for x in bands for i in range(int(x.lowest), int(x.highest) + 1)]
        assert values == [*range(low, high + 1)]
        assert len({x.label for x in bands}) == len(bands) <= table_forms.MAX_BANDS
        column = table_forms.ShownColumn("x", "groups", bands=bands)
        assert table_forms._complete(draft, column) == [("x", low, high)]
        assert table_forms._complete(draft, table_forms.replace(column, bands=bands[1:])) == []


def test_ages_are_proposed_for_ages_only(document):
    assert [x.label for x in table_forms.presets_of(document, "age")["ages"]] == ["0–14", "15–64", "65+"]
    assert "ages" not in table_forms.presets_of(document, "size")
    assert table_forms.presets_of(document, "area") == {}


def test_a_table_of_the_file_has_no_fields(document):
    of_file = document["tables"][1]
    assert table_forms.table_fields(document, of_file) is None
    assert table_forms.keys_of_file(of_file) == ["change"]
    for change in (
        {"margin": {"by": "age"}},
        {"sum": ["income"]},
        {"sum": "income", "mean": "income"},
        {"ranges": {"age": [[0, 5]]}},
        {"groups": {"age": {"a": "b"}}},
        {"groups": {"age": {}}},
        {"groups": {"rent": {"a": "b"}}},
        {"groups": {"sex": {"a": [1.5]}}},
        {"attributes": ["area", "gone"]},
        {"attributes": "area"},
        {"attributes": ["area", "area"]},
        {"reference": {"total": 5}},
        {"pattern": 4},
        {"name": 7},
        {"missing": 1},
    ):
        odd = {"attributes": ["area"], "margin": 5} | change
        assert table_forms.table_fields(document, odd) is None, change
        assert table_forms.keys_of_file(odd)
    assert table_forms.table_fields(document, 7) is None
    with refused("spec.draft-table-of-file"):
        table_forms.with_table(document, SubmittedForm([("number", "5")]), "1")
    with refused("spec.form-entry-missing"):
        table_forms.with_table(document, SubmittedForm([("number", "5")]), "7")
    with refused("spec.draft-tables-not-a-list"):
        table_forms.with_table({"tables": 3}, SubmittedForm([("number", "5")]))


def test_an_edited_table_keeps_what_no_form_shows(document):
    form = [("show.0", "age"), ("show.1", "sex"), ("number", "7")]
    after = table_forms.with_table(document, SubmittedForm(form), "0")["tables"]
    assert after == [{"attributes": ["age", "sex"], "margin": 7, "confidence": 0.9}, document["tables"][1]]
    assert table_forms.kept_keys(document["tables"][0]) == ["confidence"]


NAMES = ["area", "sex", "age", "size", "rent", "state"]


@st.composite
def tables(draw):
    """Fields of a table as a form can hold them."""
    document, columns = forms.parse(SPEC), []
    for position, name in enumerate(draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))):
        view = draw(st.sampled_from(table_forms.views_of(document, name)))
        columns.append(
            table_forms.ShownColumn(name, view, position, groups="a = 1\nb = 2" if name == "area" else "a = m")
        )
    columns = [
        x if x.view == "groups" and x.name in ("area", "sex") else table_forms.replace(x, groups="") for x in columns
    ]
    fields = table_forms.TableFields(
        tuple(sorted(columns, key=lambda x: (x.position < 2, x.position))),
        pattern=draw(st.sampled_from(["", "singles"])),
        missing=draw(st.booleans()),
        kind=draw(st.sampled_from(forms.TARGETS[:4])),
        number="7",
    )
    return table_forms.acted(document, fields, "choice")


@given(tables())
def test_fields_come_back_from_the_document(fields):
    document = forms.parse(SPEC)
    table = table_forms.table_of(document, fields)
    read = table_forms.table_fields(forms.parse(forms.write({**document, "tables": [table]})), table)
    assert read == fields


class Cells(HTMLParser):
    """The rows of the table of a page: for each its cells, with what they are."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.rows, self.cell = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.cell = [tag, attributes.get("scope"), int(attributes.get("colspan", 1)), ""]
            self.rows[-1].append(self.cell)
        elif tag == "p":
            self.cell = None

    def handle_data(self, text):
        if self.cell is not None:
            self.cell[3] += re.sub(r"\s+", " ", text)


def preview_of(client, **fields):
    sent = {key.replace("_", "."): value for key, value in fields.items()}
    reply = client.post("/tables/new", {**sent, "again": "preview"})
    assert reply.status_code == 200
    assert not client.folder.drafted()
    return reply.text


def test_each_cell_of_a_preview_is_below_a_heading(client):
    """In each row a heading, and as many cells as there are columns."""
    page = preview_of(client, number="15", show_0="sex", show_1="age", view_1="groups", show_2="area")
    assert "The preview waits. The column &#39;age&#39; is shown in bands" in page
    bands = {"of_1": "age", "band_1_0": "a", "first_1_0": "0", "last_1_0": "17", "band_1_1": "b", "first_1_1": "18"}
    columns = {"show_0": "sex", "show_1": "age", "view_1": "groups", "show_2": "area", **bands}
    page = preview_of(client, number="15", **columns, last_1_1="90")
    top, headings, *rows = Cells(page).rows
    assert [x[3].strip() for x in top] == ["area, sex", "age"]
    assert [x[3].strip() for x in headings] == ["a", "b"]
    assert top[1][2] == len(headings)
    groups = [row for row in rows if row[0][1] == "rowgroup"]
    assert [row[0][3].strip() for row in groups] == ["North 1", "South 2", "West 3", "unknown"]
    for row in rows:
        assert row[0][0] == "th"
        if row[0][1] == "row":
            assert [x[3].strip() for x in row[1:]] == ["±15"] * len(headings)
        else:
            assert row[0][2] == 1 + len(headings)
    assert "16 numbers" in page
    assert "Every age from 0 to 90 is in exactly one band." in page
    assert "A count of 200 would be published as a number from 185 to 215" in page
    assert "Not counted in this table: age 80–90" in preview_of(client, number="15", **columns, last_1_1="79")


def test_a_preview_says_what_a_margin_means_and_waits_for_what_is_missing(client):
    summed_page = preview_of(client, told="sum", amount="income", number="300", show_0="sex")
    assert "Each sum would be published within 300 of the sum" in summed_page
    mean = {"told": "mean", "amount": "income", "number": "30", "show_0": "sex"}
    assert "The mean of" not in preview_of(client, **mean)
    assert "with four times as many people within 7.5" in preview_of(client, **mean, reference="2000")
    assert "The preview waits." in preview_of(client, show_0="later", number="3")
    assert "Choose the rows" in preview_of(client)
    assert "<td>…</td>" in preview_of(client, show_0="county", number="x")
    assert "The first of 5 tables" in preview_of(client, show_0="sex", pattern="singles", number="3")
    many = SPEC.replace("high = 30", "high = 10_000_000")
    client.post("/file", text=many)
    reply = client.post("/tables/new", {"show.0": "size", "number": "3", "again": "preview"})
    assert "An empty table is shown" not in reply.text
    assert "The table can be kept without this preview." in reply.text


def test_a_choice_brings_the_fields_that_it_needs_and_keeps_nothing(client):
    fields = {"show.0": "age", "view.0": "groups", "show.1": "", "number": "8", "again": "choice"}
    page = client.post("/tables/new", fields, base="0" * 64).text
    assert 'data-base="' + "0" * 64 in page  # that of the form: a change by another tab is still found
    assert 'value="young"' in page
    assert 'value="8"' in page
    swapped = client.post("/tables/0", {**fields, "again": "swap"}).text
    assert re.search(r'name="show.1" data-again>.*?value="age" selected', swapped)
    assert 'value="0–14"' in client.post("/tables/0", {**fields, "again": "preset.0.ages"}).text
    added = client.post("/tables/new", {**fields, "again": "band.0"}).text
    assert re.search(r'name="band.0.2" value="" autocomplete="off" data-focus', added)
    assert not client.folder.drafted()
    assert client.post("/tables/new", {"show.0": "sex", "number": "5"}).headers["x-go"] == "/tables"
    assert tomllib.loads(client.folder.text())["tables"][-1] == {"attributes": ["sex"], "margin": 5}


def test_a_table_is_opened_copied_and_left_to_the_file(client):
    page = client.page("/tables/0")
    assert 'name="number" value="20"' in page
    assert "Set in the file: confidence." in page
    assert 'action="' in client.page("/tables/new?like=0")
    assert 'value="young"' in client.page("/tables/new?like=0")
    listed = client.page("/tables")
    assert "Set in the file: change." in listed
    assert listed.count("/tables/0") > listed.count("/tables/1")
    assert client.get("/tables/1").status_code == client.get("/tables/9").status_code == 422


@pytest.mark.parametrize("make", [small, summed])
def test_an_empty_table_has_the_labels_of_a_published_one(make):
    release = make()
    for name in release:
        publication, published = publication_of(release, name), layout(release, name)
        empty = empty_table(publication, publication.workload[name], 10**6)
        assert (empty.rows, empty.columns) == (published.rows, published.columns)
        assert (empty.stubs, empty.across) == (published.stubs, published.across)
        assert empty.numbers == published.values.size
        assert empty.row_total == len(published.rows)


def test_a_kept_table_is_planned_as_its_preview_shows_it(document, tmp_path):
    bands = {f"{k}_1_{j}": v for j, x in enumerate(("0", "9"), 0) for k, v in (("first", x), ("last", x))}
    fields = {"show_0": "area", "show_1": "age", "view_1": "groups", "of_1": "age", "band_1_0": "", "band_1_1": ""}
    table = table_from(document, **fields, **bands)
    spec = {**document, "tables": [table], "privacy": {"unit": "person", "max_records": 1}}
    del spec["domain"]["later"]
    (tmp_path / "spec.toml").write_text(forms.write(spec))
    assert fn.load_spec(tmp_path / "spec.toml").workload.tables[0].shape(fn.load_spec(tmp_path / "spec.toml").domain)
