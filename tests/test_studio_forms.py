"""Forms and documents: what a page shows it gives back, what it does not show it leaves, what is wrong it refuses."""

import re
import tomllib
from html.parser import HTMLParser

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fitnoise import data
from fitnoise.interfaces.wording import wording
from fitnoise.messages import translator
from fitnoise.request.documents import Spec
from fitnoise_studio import forms, table_forms
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.folder import DraftChanged
from fitnoise_studio.refusals import Refused, refused_at
from fitnoise_studio.state import Studio
from fitnoise_studio.workers import QuestionReplaced
from refused import refused
from studios import SPEC, base_of, filled, opened

RICH = """title = "x"
privacy = "pure"
mechanism = "unbiased"
budget = { epsilon = "1/3" }

[data]
source = "s"
where = { year = 2024 }

[domain.code]
type = "categorical"
codes = ["1", 1, "01", "a = b", " x ", "", true, "true", 'quo"te', "u\\u202e"]
labels = ["one", "1", "a = b", " y ", "e", "f", "g", "h", "i\\"", "j"]
missing = { unknown = ["9", 9], "not asked" = [] }

[domain.size]
type = "binned"
cuts = [1.5, 20, 1e20]

[domain.income]
type = "amount"
low = 0.0
high = 1000.5
step = 0.5

[domain.geo]
type = "hierarchy"
levels = ["state", "county"]
places = [["a", "b"], ["a", "c"]]

[[tables]]
attributes = ["code"]
margin = { by = "code", values = [1, 2], default = 3 }

[[tables]]
pattern = "pairs"
std_error = 2.5
confidence = 0.9

[[questions]]
name = "q"
"""


AMOUNTS = """[data]
source = "till"

[privacy]
unit = "customer"
id = "card"
sum_within_unit = [ "tips", "turnover" ]

[domain.size]
type = "categorical"
codes = ["small", "large"]

[domain.turnover]
type = "amount"
low = 0
high = 500
step = 0.5
ceilings = [50, 100.0, 250]

[domain.tips]
type = "amount"
low = 0
high = { by = "size", values = { small = 1_000, large = 50_000 } }
ceilings = { by = "size", values = { small = [100] } }

[domain.points]
type = "ordered"
low = 0
high = 10

[[tables]]
sum = "turnover"
ceiling = 50
margin = 1_000

[[tables]]
mean = "points"
reference = 100
margin = 1
"""
"""Some of which forms show, and some of which they have no field for."""


class Fields(HTMLParser):
    """The fields that a browser would send from every form of a page, by its address."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.forms, self.form, self.area, self.select = {}, None, None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "form":
            action = re.sub("^/[0-9a-f]{64}/", "/", attributes["action"])  # as it is called below the root
            self.form = self.forms.setdefault(action, [])
        elif tag == "input":
            self.input(attributes)
        elif tag == "textarea":
            self.area = [attributes["name"], ""]
        elif tag == "select":
            self.select = [attributes["name"], None]
        elif tag == "option" and self.select is not None and (self.select[1] is None or "selected" in attributes):
            self.select[1] = attributes["value"]

    def input(self, attributes):
        if (
            self.form is not None
            and "name" in attributes
            and (attributes.get("type") not in ("checkbox", "radio") or "checked" in attributes)
        ):
            self.form.append((attributes["name"], attributes.get("value", "on")))

    def handle_data(self, text):
        if self.area is not None:
            self.area[1] += text

    def handle_endtag(self, tag):
        if tag == "form":
            self.form = None
        elif tag == "textarea":
            self.form.append((self.area[0], self.area[1].removeprefix("\n").replace("\n", "\r\n")))
            self.area = None
        elif tag == "select":
            if self.form is not None and self.select[1] is not None:
                self.form.append(tuple(self.select))
            self.select = None


def given_back(client):
    """Post what every form of the pages shows, as a browser would."""
    document = client.studio.document()
    built = [i for i, x in enumerate(forms.tables_of(document)) if table_forms.table_fields(document, x) is not None]
    for path in ("/protect", "/describe", "/tables", *(f"/tables/{i}" for i in built), "/file"):
        for action, fields in Fields(client.page(path)).forms.items():
            changes = action in ("/protect", "/describe", "/tables", "/file") or re.fullmatch(r"/tables/\d+", action)
            if changes and ("token", client.session.token(action)) in fields:
                sent = {}
                for name, value in [*fields, ("base", base_of(client))]:
                    sent.setdefault(name, []).append(value)
                reply = client.http.post(action, data=sent, headers={"x-studio": "1"})
                assert reply.status_code in (200, 204), (action, reply.text)
                yield action


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(Studio, "wish_price", lambda self: None)
    monkeypatch.setattr(Studio, "price", lambda self: None)


@pytest.mark.parametrize("which", ["spec", "rich", "amounts", "demo"])
def test_what_pages_show_they_give_back(tmp_path, monkeypatch, quiet, which):
    """Not a letter of the file changes."""
    demo = data.path(data.DEMO).read_text(encoding="utf-8")
    text = {"spec": SPEC, "rich": RICH, "amounts": AMOUNTS, "demo": demo}[which]
    with opened(filled(tmp_path / "f", text), monkeypatch) as client:
        actions = [*given_back(client)]
        assert {"/protect", "/tables", "/file", "/describe"} <= {*actions}
        assert client.folder.text() == text
        assert not client.folder.drafted()


def test_what_pages_show_of_the_zoo_they_give_back(any_plan, tmp_path, monkeypatch, quiet):
    text = Spec.from_publication(any_plan.publication).to_toml()
    with opened(filled(tmp_path / "f", text), monkeypatch) as client:
        assert [*given_back(client)]
        assert client.folder.text() == text


CODES = st.lists(st.one_of(st.integers(-(10**15), 10**15), st.booleans(), st.text(max_size=8)), max_size=6)


@given(codes=CODES, labelled=st.booleans(), labels=st.lists(st.text(max_size=8), min_size=6, max_size=6))
def test_codes_that_are_pasted_are_read_as_they_are_shown(codes, labelled, labels):
    codes_of = {"codes": codes} | ({"labels": labels[: len(codes)]} if labelled and codes else {})
    text = forms.codes_text(codes_of)
    codes_read, labels_read = forms._listed(text)
    assert [(type(x), x) for x in codes_read] == [(type(x), x) for x in codes]
    assert labels_read == codes_of.get("labels")


@given(st.dictionaries(st.text(min_size=1, max_size=6), CODES, max_size=3))
def test_missing_values_are_read_as_they_are_shown(missing):
    assert forms.parse_categories(forms.missing_text({"missing": missing})) == missing


def test_codes_as_people_write_them():
    assert forms._listed("a\n b \n\n1 \n01\n") == (["a", "b", 1, "01"], None)
    assert forms._listed('1 = one\n"1" = "a = b"') == ([1, "1"], ["one", "a = b"])
    assert forms.parse_categories("unknown = 9, 99\nno = x") == {"unknown": [9, 99], "no": ["x"]}
    with refused("spec.form-labels-incomplete"):
        forms._listed("a = x\nb")
    with refused("spec.form-categories-line-invalid"):
        forms.parse_categories("unknown")


def empty():
    return forms.parse(SPEC)


def test_forms_store_their_input():
    form = SubmittedForm(
        [("privacy.unit", "household"), ("privacy.max_records", "4"), ("privacy.id", " hh "), ("cap.kind", "rho")]
    )
    form.update({"cap": "1/28", "data.outside_domain": "drop", "privacy.delta": "1e-9", "data.max_records": "1000"})
    draft = forms.protect(empty(), form)
    assert draft["privacy"] == {
        "unit": "household",
        "max_records": 4,
        "id": "hh",
        "delta": 1e-9,
        "cap": {"rho": "1/28"},
    }
    assert draft["data"] == {"source": "people", "outside_domain": "drop", "max_records": 1000}
    changed = forms.protect(draft, SubmittedForm([("cap.kind", ""), ("cap", ""), ("privacy.id", "")]))
    assert "cap" not in changed["privacy"]
    assert "id" not in changed["privacy"]
    attributes = forms.add_attribute(empty(), "sex", "categorical")
    sex = forms.describe(attributes, "sex", SubmittedForm([("codes", "1 = f\r\n2 = m"), ("missing", "unknown = 9")]))
    assert sex["domain"]["sex"] == {
        "type": "categorical",
        "codes": [1, 2],
        "labels": ["f", "m"],
        "missing": {"unknown": [9]},
    }
    filed = forms.describe(sex, "sex", SubmittedForm(), ["codes.csv"])
    assert filed["domain"]["sex"]["codes_file"] == "codes.csv"
    with refused("spec.form-codes-twice"):
        forms.describe(sex, "sex", SubmittedForm([("codes", "new")]), ["codes.csv"])
    assert "codes" not in filed["domain"]["sex"]
    for kind, sent, meant in (
        (
            "ordered",
            [("low", "0"), ("high", "99"), ("is_clip", "1"), ("clip", "1")],
            {"low": 0, "high": 99, "clip": True},
        ),
        ("binned", [("cuts", "20, 40;65.5")], {"cuts": [20.0, 40.0, 65.5]}),
        ("amount", [("low", "0"), ("high", "1e5"), ("step", "0.5")], {"low": 0.0, "high": 1e5, "step": 0.5}),
        ("hierarchy", [("levels", "state, county")], {"levels": ["state", "county"]}),
    ):
        described = forms.describe(forms.add_attribute(empty(), "x", kind), "x", SubmittedForm(sent))
        assert described["domain"]["x"] == {"type": kind, **meant}
    tree = forms.describe(forms.add_attribute(empty(), "x", "hierarchy"), "x", SubmittedForm([("children", "51, 62")]))
    assert tree["domain"]["x"] == {"type": "hierarchy", "children": [51, 62]}
    assert forms.fields_of(tree["domain"]["x"])["children"] == "51, 62"
    assert forms.describe(tree, "x", SubmittedForm([("children", "51, 62"), ("levels", "")])) == forms.describe(
        tree, "x", SubmittedForm()
    )
    filed = forms.describe(tree, "x", SubmittedForm([("children", "51, 62")]), ["p.csv"])
    assert filed["domain"]["x"] == {"type": "hierarchy", "file": "p.csv"}
    assert forms.describe(filed, "x", SubmittedForm([("children", "2,3")]))["domain"]["x"] == {
        "type": "hierarchy",
        "children": [2, 3],
    }
    assert forms.describe(filed, "x", SubmittedForm([("children", "")])) == filed
    assert forms.describe(tree, "x", SubmittedForm([("children", "")]))["domain"]["x"] == {"type": "hierarchy"}
    with refused("spec.form-places-twice"):
        forms.describe(tree, "x", SubmittedForm([("children", "2, 3")]), ["p.csv"])
    with refused("spec.form-integer-invalid"):
        forms.describe(tree, "x", SubmittedForm([("children", "2, x")]))
    assert forms.describe(forms.add_attribute(empty(), "x", "hierarchy"), "x", SubmittedForm(), ["p.csv"])["domain"][
        "x"
    ]["file"] == ("p.csv")
    tables = forms.margins(empty(), SubmittedForm([("number.0", "7"), ("kind.1", "variance"), ("number.1", "2.5")]))[
        "tables"
    ]
    assert (tables[0]["margin"], tables[1].get("margin"), tables[1]["variance"]) == (7, None, 2.5)
    assert [t["margin"] for t in forms.remove_table(empty(), "0")["tables"]] == [9.5]
    budget = forms.margins(empty(), SubmittedForm([("budget.kind", "mu"), ("budget", "0.5"), ("accuracy.gap", "")]))
    assert budget["budget"] == {"mu": 0.5}
    assert "budget" not in forms.margins(budget, SubmittedForm([("budget.kind", ""), ("budget", "0.5")]))
    assert "gap" not in budget["accuracy"]


def till():
    return forms.parse(AMOUNTS)


def test_amounts_to_add_up_are_declared_and_taken_back():
    extended = forms.protect(till(), SubmittedForm([("is_sum_within_unit", "1"), ("sum_within_unit", "turnover")]))
    assert extended["privacy"] == {"unit": "customer", "id": "card", "sum_within_unit": ["turnover"]}
    none = forms.protect(till(), SubmittedForm([("is_sum_within_unit", "1")]))
    assert none["privacy"] == {"unit": "customer", "id": "card"}
    changed = forms.protect(
        none, SubmittedForm([("is_sum_within_unit", "1"), ("sum_within_unit", "tips"), ("sum_within_unit", "turnover")])
    )
    assert changed["privacy"]["sum_within_unit"] == ["turnover", "tips"]
    assert (
        forms.protect(till(), SubmittedForm([("privacy.unit", "customer")])) == till()
    )  # a form without them says nothing
    remaining = forms.describe_all(till(), SubmittedForm([("remove", "2")]), {})
    assert forms.merge_of(remaining) == (["turnover", "tips"], ["tips", "turnover"])  # so that it can be taken back
    assert forms.merge_of(empty()) == ([], [])
    for rule in ("turnover", [1], {"a": 1}):
        odd = {**till(), "privacy": {"sum_within_unit": rule}}
        assert forms.merge_of(odd) is None
        assert forms.protect(odd, SubmittedForm([("is_sum_within_unit", "1"), ("sum_within_unit", "tips")])) == odd


def test_ceilings_are_declared_and_taken_back():
    amount = forms.describe(till(), "turnover", SubmittedForm([("ceilings", "50; 100 250, 300.5")]))["domain"][
        "turnover"
    ]
    assert amount["ceilings"] == [50, 100, 250, 300.5]
    assert forms.ceilings_text(amount) == "50, 100, 250, 300.5"
    assert (
        "ceilings" not in forms.describe(till(), "turnover", SubmittedForm([("ceilings", " ")]))["domain"]["turnover"]
    )
    for invalid in ({"ceilings": 3}, {"ceilings": ["a"]}, {"ceilings": [True]}, {"ceilings": {"size": {}}}):
        assert forms.fields_of({"type": "amount", **invalid})["ceilings"] is None
    with refused("spec.form-number-invalid"):
        forms.describe(till(), "turnover", SubmittedForm([("ceilings", "50, 5k")]))


def test_a_rule_has_no_field_and_stays(tmp_path, monkeypatch, quiet):
    """A range for each class, together with numbers of the same attribute that do have one."""
    sent = [("low", "5"), ("high", "7"), ("ceilings", "6"), ("step", "0.5")]
    draft = forms.describe(till(), "tips", SubmittedForm(sent))["domain"]["tips"]
    assert draft == {**till()["domain"]["tips"], "low": 5, "step": 0.5}
    ruled = {"domain": {"x": {"type": "ordered", "low": [1], "high": 3}}}
    assert forms.describe(ruled, "x", SubmittedForm([("low", "2"), ("high", "4")]))["domain"]["x"] == {
        "type": "ordered",
        "low": [1],
        "high": 4,
    }
    with opened(filled(tmp_path / "f", AMOUNTS), monkeypatch) as client:
        names = [name for name, _ in Fields(client.page("/describe")).forms["/describe"]]
        assert [x for x in names if x.startswith("2.")] == [
            "2.of",
            "2.type",
            "2.low",
            "2.step",
            "2.missing",
            "2.column",
        ]


def test_columns_that_tables_show_and_sum():
    assert forms.summed_of(till()) == ["turnover", "tips", "points"]
    assert forms.shown_of(till()) == ["size", "points"]
    assert forms.shown_of(tomllib.loads(RICH)) == ["code", "size", "geo", "state", "county"]


@pytest.mark.parametrize(
    ("change", "fields", "code"),
    [
        (forms.protect, [("privacy.max_records", "many")], "spec.form-integer-invalid"),
        (forms.protect, [("privacy.delta", "-1")], "spec.form-number-not-positive"),
        (forms.protect, [("privacy.delta", "nan")], "spec.form-number-not-positive"),
        (forms.protect, [("privacy.neighbours", "x")], "spec.form-choice-invalid"),
        (forms.protect, [("cap.kind", "x"), ("cap", "1")], "spec.form-choice-invalid"),
        (forms.protect, [("cap.kind", "rho"), ("cap", "x")], "spec.not-an-exact-number"),
        (forms.margins, [("budget.kind", ""), ("budget", "0.5")], "spec.form-measure-missing"),
        (forms.protect, [("cap.kind", "mu"), ("cap", "1/2")], "spec.form-mu-not-decimal"),
        (forms.margins, [("number.0", "0")], "spec.form-number-not-positive"),
        (forms.margins, [("number.0", "1" + "0" * 400)], "spec.form-number-not-positive"),
        (forms.margins, [("number.0", "3"), ("kind.0", "x")], "spec.form-target-unknown"),
        (forms.protect, [("is_sum_within_unit", "1"), ("sum_within_unit", "age")], "spec.form-sum-within-unit-unknown"),
    ],
)
def test_what_is_wrong_is_refused(change, fields, code):
    before = empty()
    with refused(code) as error:
        change(before, SubmittedForm(fields))
    assert error.value.outcome == "Nothing was changed."
    assert before == empty()


def test_what_is_not_there_is_refused():
    with refused("spec.form-attribute-exists"):
        forms.add_attribute(empty(), "area", "ordered")
    with refused("spec.form-type-unknown"):
        forms.add_attribute(empty(), "x", "blob")
    with refused("domain.attribute-name-invalid") as error:
        forms.add_attribute(empty(), "", "ordered")
    assert error.value.outcome == "Nothing was changed."
    for number in ("2", "-1", "x", "9" * 20):
        with refused("spec.form-entry-missing"):
            forms.remove_table(empty(), number)
        with refused("spec.form-entry-missing"):
            forms.describe_all(empty(), SubmittedForm([("remove", number)]), {})
    with refused("spec.not-toml"):
        forms.parse("a = ")
    with refused("spec.draft-key-not-a-table"):
        forms.protect({"privacy": 3}, SubmittedForm([("privacy.unit", "x")]))
    with refused("spec.draft-key-not-a-table"):
        forms.add_attribute({"domain": 3}, "x", "ordered")
    with refused("spec.draft-attribute-not-a-table"):
        forms.describe({"domain": {"x": 3}}, "x", SubmittedForm())


def test_every_refused_value_of_a_form_is_named_with_its_field():
    fields = [
        ("privacy.max_records", "many"),
        ("privacy.delta", "x"),
        ("cap.kind", ""),
        ("cap", "5"),
        ("title", "kept"),
    ]
    with pytest.raises(Refused) as caught:
        forms.protect(empty(), SubmittedForm(fields))
    assert [*caught.value.errors] == ["privacy.max_records", "privacy.delta", "cap.kind"]
    assert caught.value.code == "spec.form-integer-invalid"
    assert str(caught.value.errors["privacy.max_records"]) == str(caught.value)
    with pytest.raises(Refused) as caught:
        forms.margins(
            {"tables": [{"margin": 3}, {"margin": 4}]}, SubmittedForm([("number.0", "x"), ("kind.1", "best")])
        )
    assert [*caught.value.errors] == ["number.0"]
    with pytest.raises(Refused) as caught:
        forms.margins({"tables": [{"margin": 3}]}, SubmittedForm([("number.0", "4"), ("kind.0", "best")]))
    assert [*caught.value.errors] == ["kind.0"]
    form = [("show.0", "zz"), ("show.1", "yy"), ("pattern", "all"), ("told", "sum"), ("ceiling", "x")]
    with pytest.raises(Refused) as caught:
        table_forms.with_table(empty(), SubmittedForm(form))
    assert [*caught.value.errors] == ["pattern", "show.0", "show.1", "amount", "ceiling", "number"]


@pytest.mark.parametrize(
    "error",
    [
        DraftChanged("changed", "Another tab came first.", "", "Reload the page.", "Nothing was changed."),
        QuestionReplaced("replaced", "A later change came first.", "", "Reload the page.", "Nothing was changed."),
        KeyError("x"),
    ],
)
def test_an_error_about_the_draft_is_at_no_field(error):
    with pytest.raises(type(error)) as caught, refused_at("x"):
        raise error
    assert caught.value is error


WRONG = {
    "a date": ("spec.draft-date-among-codes", "[domain.x]\ntype = 'categorical'\ncodes = [1979-05-27]"),
    "a time": ("spec.draft-date-among-codes", "[domain.x]\nmissing = { x = [07:32:00] }"),
    "a long number": ("spec.draft-integer-too-long", f"budget = {{ rho = {'9' * 400} }}"),
    "a long number of base 16": ("spec.draft-integer-too-long", f"[[tables]]\nmargin = 0x{'f' * 5000}"),
    "deep tables": ("spec.draft-too-deep", "a." * 3000 + "a = 1"),
    "deep lists": ("spec.draft-too-deep", f"a = {'[' * 51}{']' * 51}"),
    "a null character": ("spec.draft-text-with-null", "[domain.x]\ntype = 'categorical'\ncodes_file = \"a\\u0000\""),
}


@pytest.mark.parametrize(("code", "text"), WRONG.values(), ids=WRONG)
def test_a_draft_that_cannot_be_shown_is_refused(tmp_path, monkeypatch, quiet, code, text):
    """The page that would take it refuses it, and so do all pages if another program has written it."""
    with refused(code) as error:
        forms.parse(text)
    assert error.value.outcome == "Nothing was changed."
    with opened(filled(tmp_path / "f"), monkeypatch) as client:
        answer = client.post("/file", text=text)
        assert (answer.status_code, "Nothing was changed" in answer.text) == (422, True)
        assert not client.folder.drafted()
        (client.folder.root / "spec.toml").write_text(text)
        for path in ("/protect", "/describe", "/tables"):
            assert client.get(path).status_code == 422
            assert client.post(path).status_code == 422
        assert client.get("/file").status_code == client.get("/prove").status_code == 200
        assert client.post("/file", text=SPEC).status_code == 200


def test_what_is_not_deep_nor_long_nor_a_code_is_taken():
    assert forms.parse(f"a = {'9' * 18}\nb = {'[' * 49}{']' * 49}\n[data]\nwhere = {{ day = 2024-01-01 }}")
    with refused("spec.draft-integer-too-long"):
        forms.write(forms.describe(empty(), "age", SubmittedForm([("missing", f"u = [{10**18}]")])))


def test_tables_are_called_by_what_they_show():
    def label(table, language="en"):
        return forms.table_words(table, translator(language))

    assert [label(t) for t in tomllib.loads(RICH)["tables"]] == [
        "Records by code",
        "Records by all pairs of attributes",
    ]
    assert [label(t) for t in empty()["tables"]] == ["Records by area", "Records by area and age (cumulative)"]
    assert label({"attributes": ["area", "age"], "groups": {"age": {"young": 1}}}) == "Records by area and age (groups)"
    assert label({"attributes": 3, "ranges": {"age": "all"}, "sum": "x"}) == "Sum of x by 3 and age (ranges)"
    assert label({"attributes": ["a", "b", "c"], "average": {"c": 3}}) == "Records by a, b and c (average of 3)"
    assert label({"sum": ["x", "y"], "ceiling": 50.0}) == "Sum of min(x, 50) × min(y, 50)"
    assert label({"mean": "x", "attributes": ["x", "a"], "reference": 9}) == "Mean of x by a"
    assert (label({}), label(7), label({"pattern": 7})) == ("All records", "?", "Records by all: 7")
    assert (label({}, "de"), label({"cumulative": "age"}, "de")) == ("Alle Fälle", "Fälle nach age (kumuliert)")


@pytest.mark.parametrize(
    ("privacy", "people"),
    [
        ({"unit": "person", "max_records": 1}, True),
        ({"unit": "Person"}, True),
        ({"unit": "person", "max_records": 2, "id": "id"}, False),
        ({"unit": "person", "max_records": 0}, False),
        ({"unit": "person", "id": "id", "count": "shares"}, False),
        ({"unit": "household"}, False),
        ({}, False),
    ],
)
def test_people_are_counted_where_a_person_has_one_record(privacy, people):
    """The declared unit says so, in a draft and in its publication; a person with several records counts in records."""
    document = {**empty(), "privacy": privacy}
    assert forms.people_are_counted(document) == people
    if privacy.get("max_records") != 0:
        stated = Spec.from_toml(forms.write({**document, "data": {"source": "a"}})).publication()
        texts = wording("en", [stated])
        assert texts.translate("page.table.records") == ("people" if people else "records")
        assert texts.table("area") == ("People by area" if people else "Records by area")


@pytest.mark.parametrize(
    ("table", "meaning"),
    [
        ({"margin": 15}, (200, 15)),
        ({"margin": 20}, (200, 20)),
        ({"margin": 21}, (500, 21)),
        ({"margin": 0.05}, (0.5, 0.05)),
        ({"std_error": 15}, None),
        ({"margin": 15, "sum": "income"}, None),
        ({"margin": {"by": "area"}}, None),
        ({"margin": -1}, None),
        ("no table", None),
    ],
)
def test_a_margin_is_explained_by_a_count_of_which_it_is_a_tenth_at_most(table, meaning):
    assert forms.meaning_of(table) == (None if meaning is None else pytest.approx(meaning))


@pytest.mark.parametrize(
    ("privacy", "rows"),
    [
        ({}, "once"),
        ({"max_records": 1}, "once"),
        ({"max_records": 0}, ""),
        ({"max_records": 3}, "many"),
        ({"id": "person"}, "many"),
    ],
)
def test_the_rows_of_a_unit_are_once_or_many(privacy, rows):
    assert forms.rows_of({"privacy": privacy}) == rows


def test_a_unit_that_is_there_once_has_no_id_and_one_record():
    document = {"privacy": {"id": "person", "max_records": 3, "unit": "person"}}
    form = SubmittedForm([("rows", "once"), ("privacy.id", "person"), ("privacy.max_records", "3")])
    assert forms.rows_of(forms.protect(document, form)) == "once"
    assert forms.protect(document, SubmittedForm([("rows", "many")])) == document


def test_a_page_does_not_go_on_without_the_rows_of_a_unit():
    """The starter specification leaves the number open; a change that is only applied needs no answer."""
    assert forms.protect({}, SubmittedForm([("data.source", "a")])) == {"data": {"source": "a"}}
    starter = {"privacy": {"max_records": 0}}
    for chosen, field in (([], "rows"), ([("rows", "many")], "privacy.max_records")):
        with refused("spec.form-rows-not-chosen") as caught:
            forms.protect(starter, SubmittedForm([("next", "tables"), *chosen]))
        assert [*caught.value.errors] == [field]
    document = forms.protect(starter, SubmittedForm([("rows", "once"), ("next", "tables")]))
    assert document["privacy"]["max_records"] == 1


def test_settings_are_counted_that_a_document_states():
    assert forms.number_stated({}) == 0
    assert forms.number_stated({"privacy": {"delta": 1e-9, "cap": {"rho": 1}}, "data": {"source": "a"}}) == 2


@pytest.mark.parametrize(
    ("accuracy", "level"),
    [({}, 0.95), ({"confidence": 0.9}, 0.9), ({"confidence": "x"}, None), ({"confidence": 2}, None)],
)
def test_the_confidence_of_margins(accuracy, level):
    assert forms.confidence_of({"accuracy": accuracy}) == level


def described(keys, *fields, files=(), language="en"):
    """The keys of an attribute after a form."""
    document = {"language": language, "domain": {"x": keys}}
    return forms.describe(document, "x", SubmittedForm([(str(k), str(v)) for k, v in fields]), files)["domain"]["x"]


CODED = {"type": "categorical", "codes": [1, "1"], "labels": ["one", "text"]}


def rows_of_codes(*rows, languages="en"):
    """The fields of codes with labels, as a form has them."""
    fields = [("languages", languages)]
    for j, (code, *labels) in enumerate(rows):
        fields += [(f"code.{j}", code)]
        fields += [(f"label.{j}.{x}", label) for x, label in zip(languages.split(","), labels, strict=True)]
    return fields


def test_codes_and_labels_are_in_rows():
    fields = forms.fields_of(CODED)
    assert fields["rows"] == [("1", {"en": "one"}), ('"1"', {"en": "text"})]
    assert described(CODED, *rows_of_codes(("1", "one"), ('"1"', "text"), ("", ""))) == CODED
    changed = described(CODED, *rows_of_codes(("1", "a = b"), ("", ""), ("x", '"q"')))
    assert changed == {"type": "categorical", "codes": [1, "x"], "labels": ["a = b", "q"]}
    assert described(CODED, *rows_of_codes(("1", ""), ("2", ""))) == {"type": "categorical", "codes": [1, 2]}
    assert described(CODED, *rows_of_codes(), ("paste", "5 = five\r\n6 = six")) == {
        "type": "categorical",
        "codes": [5, 6],
        "labels": ["five", "six"],
    }
    assert described(CODED, *rows_of_codes(("1", "one")), ("paste", "5 = five"))["labels"] == ["one", "five"]
    # True and 1 are different codes, although Python calls them equal.
    assert described({"type": "categorical", "codes": [1]}, *rows_of_codes(("true", "")))["codes"] == [True]
    file = described(CODED, *rows_of_codes(("1", "one"), ('"1"', "text")), files=["c.csv"])
    assert file == {"type": "categorical", "codes_file": "c.csv"}
    assert described(file, *rows_of_codes()) == file
    assert described(file, *rows_of_codes(("a", ""))) == {"type": "categorical", "codes": ["a"]}
    many = {"type": "categorical", "codes": [*range(forms.MAX_CODE_ROWS + 1)]}
    assert forms.fields_of(many)["rows"] is None
    assert forms.fields_of(many)["codes"].startswith("0\n1\n")


def test_labels_are_in_several_languages():
    two = {**CODED, "labels": {"en": ["one", "text"], "de": ["eins", "Text"]}}
    fields = forms.fields_of(two)
    assert (fields["languages"], fields["codes"]) == (["en", "de"], None)
    sent = rows_of_codes(("1", "one", "eins"), ('"1"', "text", "Text"), languages="en,de")
    assert described(two, *sent) == two
    assert described(CODED, *sent) == two
    sent = rows_of_codes(("1", "one", ""), ('"1"', "text", ""), languages="en,de")
    assert described(CODED, *sent) == CODED
    assert described(two, *sent)["labels"] == {"en": ["one", "text"]}
    form = SubmittedForm([*rows_of_codes(("1", "one")), ("further", "de")])
    chosen = forms.submitted_attribute(CODED, form, "en")
    assert chosen["languages"] == ["en", "de"]
    assert chosen["rows"] == [("1", {"en": "one", "de": ""})]
    for odd in ({"labels": {"en": ["one"]}}, {"labels": ["one"]}, {"codes": 5}):
        assert forms.fields_of({**CODED, **odd})["rows"] is None


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        (rows_of_codes(("", "one")), "form-code-missing", "code.0"),
        (rows_of_codes(("1", "one"), ("2", "")), "form-label-missing", "label.1.en"),
        (rows_of_codes(('"', "one")), "form-quotes-invalid", "code.0"),
        ([*rows_of_codes(("1", "one")), ("paste", "5")], "form-labels-incomplete", "paste"),
        ([*rows_of_codes(), ("paste", "5 = a\n6")], "form-labels-incomplete", "paste"),
        ([("type", "blob")], "form-choice-invalid", "type"),
    ],
)
def test_wrong_codes_are_refused_at_their_fields(fields, code, field):
    with refused("spec." + code) as error:
        described(CODED, *fields)
    assert [*error.value.errors] == [field]


def test_an_attribute_of_another_kind_keeps_its_column_and_missing_values():
    keys = {**CODED, "column": "c", "missing": {"no": [9]}, "lookup_file": "l.csv"}
    assert forms.fields_of(keys)["unshown"] == ["lookup_file"]
    assert described(keys, ("type", "ordered"), ("low", "0"), ("high", "5")) == {
        "type": "ordered",
        "column": "c",
        "missing": {"no": [9]},
        "low": 0,
        "high": 5,
    }
    assert described(keys, ("type", "hierarchy")) == {"type": "hierarchy", "column": "c"}
    fields = forms.submitted_attribute(keys, SubmittedForm([("type", "binned"), ("column", "d")]), "en", "cuts.ages")
    assert (fields["type"], fields["column"], fields["cuts"], fields["missing"]) == ("binned", "d", "15, 65", "no = 9")


def test_a_choice_keeps_what_a_form_holds():
    form = SubmittedForm([*rows_of_codes(("1", "one")), ("paste", "5 = five\r\n6 = six")])
    pasted = forms.submitted_attribute(CODED, form, "en", "paste")
    assert pasted["rows"] == [("1", {"en": "one"}), ("5", {"en": "five"}), ("6", {"en": "six"})]
    assert pasted["paste"] == ""
    wrong = SubmittedForm([*rows_of_codes(("1", "one")), ("paste", "5 = five\r\n6")])
    assert forms.submitted_attribute(CODED, wrong, "en", "paste")["paste"] == "5 = five\n6"
    assert forms.submitted_attribute(CODED, form, "en", "row")["is_row_added"]
    number = forms.submitted_attribute({"type": "ordered"}, SubmittedForm([("is_clip", "1"), ("high", "x")]), "en")
    assert (number["clip"], number["high"], number["low"]) == (False, "x", "")
    assert forms.submitted_attribute(5, SubmittedForm(), "en")["type"] == "?"


def test_all_attributes_are_set_or_none():
    draft = forms.parse(RICH)
    fields = [("1.cuts", "1, x"), ("2.low", "y"), ("2.high", "5"), ("name", "size"), ("type", "ordered")]
    with pytest.raises(Refused) as caught:
        forms.describe_all(draft, SubmittedForm(fields), {})
    assert [*caught.value.errors] == ["1.cuts", "2.low", "name"]
    fields = [("1.cuts", "1, 2"), ("2.high", "5"), ("remove", "0"), ("name", "new"), ("type", "ordered")]
    out = forms.describe_all(draft, SubmittedForm(fields), {})["domain"]
    assert [*out] == ["size", "income", "geo", "new"]
    assert (out["size"]["cuts"], out["income"]["high"]) == ([1.0, 2.0], 5.0)
    with refused("domain.attribute-name-invalid"):
        forms.describe_all(draft, SubmittedForm([("add", "1")]), {})
    for fields in ([("0.of", "geo"), ("0.low", "3")], [("0.of", "geo"), ("remove", "0")]):
        with refused("spec.form-columns-changed"):  # another tab removed a column
            forms.describe_all(draft, SubmittedForm(fields), {})
    odd = {"domain": {"x": 5, "y": CODED}}
    assert forms.describe_all(odd, SubmittedForm([("0.low", "3")]), {}) == odd
