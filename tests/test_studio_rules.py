"""Rules about impossible records and public totals in the studio: forms and documents, both ways; and the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitnoise_studio import forms, rule_forms
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.folder import publication_of
from refused import refused
from studios import SPEC, filled, opened

DOCUMENT = forms.parse(SPEC)


def form_of(fields):
    """The form that a page sends with these fields."""
    pairs = [("outside", fields.treatment)]
    for i, rule in enumerate(fields.rules):
        pairs.append((f"rule.{i}", "file" if rule is None else "form"))
        for j, x in enumerate(rule or ()):
            texts = {"column": x.column, "comparison": x.comparison, "value": x.value}
            pairs += [(f"{key}.{i}.{j}", text) for key, text in texts.items()]
    state = {None: "file", True: "yes", False: "no"}[fields.has_totals]
    totals = [("public", state), ("source", fields.source), ("origin", fields.origin)]
    return SubmittedForm([*pairs, *totals, *(("by", x) for x in fields.totals)])


def condition(column, value, comparison="values"):
    return rule_forms.RuleCondition(column, comparison, value)


TEXTS = st.lists(
    st.sampled_from(["n", "s", '"1"', '"a, b"', "7", "true", "North"]), min_size=1, max_size=3, unique=True
)


@st.composite
def stated_rules(draw):
    """A rule on both columns, as a form can hold it."""
    bounds = draw(st.lists(st.sampled_from(rule_forms.COMPARISONS[1:]), max_size=2, unique=True))
    ages = [condition("age", str(draw(st.integers(0, 3))), x) for x in bounds] or [
        condition("age", ", ".join(draw(TEXTS)))
    ]
    return (condition("area", ", ".join(draw(TEXTS))), *ages)


@given(st.lists(stated_rules(), max_size=3, unique=True), st.sampled_from(rule_forms.TREATMENTS))
def test_rules_come_back_from_the_document(rules, treatment):
    fields = rule_forms.RuleFields(tuple(rules), treatment)
    document = rule_forms.with_rules(DOCUMENT, form_of(fields))
    read = rule_forms.rule_fields(forms.parse(forms.write(document)))
    # TOML writes values before tables, so the columns of a rule may change their order.
    assert [sorted(map(str, x)) for x in read.rules] == [sorted(map(str, x)) for x in fields.rules]
    assert (read.treatment, rule_forms.rule_fields(document)) == (treatment, fields)
    assert rule_forms.with_rules(document, form_of(fields)) == document
    assert rule_forms.with_rules(document, form_of(rule_forms.RuleFields())) == DOCUMENT


@pytest.mark.parametrize(
    ("rule", "stated"),
    [
        ((condition("area", "n"), condition("age", "1", "at_most")), {"area": "n", "age": {"at_most": 1}}),
        (
            (condition("area", "n, North"), condition("age", "1, 2")),
            {"area": ["n", "North"], "age": {"values": [1, 2]}},
        ),
        (
            (condition("age", "1", "at_least"), condition("area", '"1"'), condition("age", "2.5", "below")),
            {"age": {"at_least": 1, "below": 2.5}, "area": "1"},
        ),
    ],
)
def test_a_rule_has_the_keys_of_a_specification(rule, stated):
    document = rule_forms.with_rules(DOCUMENT, form_of(rule_forms.RuleFields((rule,))))
    assert document["impossible"] == [stated]


def test_a_rule_of_a_form_is_planned(tmp_path):
    fields = rule_forms.RuleFields(((condition("area", "North"), condition("age", "0, 1")),), "drop")
    document = rule_forms.with_rules(DOCUMENT, form_of(fields))
    publication = publication_of(forms.write(document), tmp_path)
    (rule,) = publication.domain.rules
    assert rule.document == {"age": {"values": [0, 1]}, "area": "North"}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ((condition("area", "n"),), "spec.form-rule-single-column"),
        ((condition("area", "n"), condition("", "1")), "spec.form-rule-column-missing"),
        ((condition("area", "n"), condition("sex", "1")), "spec.form-rule-column-missing"),
        ((condition("area", "n"), condition("age", " , ")), "spec.form-rule-value-missing"),
        ((condition("area", "n"), condition("age", "old", "above")), "spec.form-number-invalid"),
        ((condition("area", "n"), condition("age", "1", "near")), "spec.form-choice-invalid"),
        ((condition("area", "n"), condition("area", "s"), condition("age", "1")), "spec.form-rule-column-twice"),
        (
            (condition("area", "n"), condition("age", "1", "above"), condition("age", "2", "above")),
            "spec.form-rule-column-twice",
        ),
    ],
)
def test_a_rule_that_says_too_little_is_refused(rule, code):
    with refused(code):
        rule_forms.with_rules(DOCUMENT, form_of(rule_forms.RuleFields((rule,))))


UNSHOWN = """
[[impossible]]
area = "n"
age = { at_most = 1, values = [1] }

[[impossible]]
area = ["n"]
age = 3

[[possible]]
file = "pairs.csv"
"""


def test_what_only_the_file_can_say_is_one_line_and_stays():
    document = forms.parse(SPEC + UNSHOWN)
    fields = rule_forms.rule_fields(document)
    shown_rule = (condition("area", "n"), condition("age", "3"))
    assert fields.rules == (None, shown_rule)
    assert [x.split()[0] for x in rule_forms.entries_of_file(document)] == ["[[impossible]]", "[[possible]]"]
    assert rule_forms.with_rules(document, form_of(fields)) == document
    changed = rule_forms.with_rules(document, form_of(rule_forms.acted(fields, "drop.1")))
    assert changed["impossible"] == document["impossible"][:1]
    assert changed["possible"] == document["possible"]
    many = {**DOCUMENT, "public": [{"by": [], "source": "x"}, {"by": ["area"], "source": "y"}]}
    assert rule_forms.rule_fields(many).has_totals is None
    assert rule_forms.with_rules(many, form_of(rule_forms.rule_fields(many))) == many


def test_public_totals_have_a_source_and_those_of_these_data_weaken_the_promise():
    fields = rule_forms.RuleFields(has_totals=True, totals=("area",), source="Register, 1 January")
    document = rule_forms.with_rules(DOCUMENT, form_of(fields))
    assert document["public"] == [{"by": ["area"], "source": "Register, 1 January"}]
    assert rule_forms.rule_fields(document) == fields
    here = rule_forms.replace(fields, origin="these data")
    weaker = rule_forms.with_rules(document, form_of(here))
    assert weaker["public"] == [{"by": ["area"], "source": "Register, 1 January", "origin": "these data"}]
    assert weaker["privacy"]["within"] == ["area"]
    assert rule_forms.rule_fields(weaker) == here
    assert rule_forms.with_rules(weaker, form_of(fields)) == document
    assert rule_forms.with_rules(weaker, form_of(rule_forms.RuleFields())) == DOCUMENT
    for wrong, code in (
        ({"source": ""}, "spec.form-totals-source-missing"),
        ({"totals": ("income",)}, "spec.form-totals-column-unknown"),
        ({"origin": "there"}, "spec.form-choice-invalid"),
    ):
        with refused(code):
            rule_forms.with_rules(DOCUMENT, form_of(rule_forms.replace(fields, **wrong)))


def test_the_page_adds_rules_and_keeps_what_is_written(tmp_path, monkeypatch):
    with opened(filled(tmp_path / "x"), monkeypatch) as client:
        assert "/rules" in client.page("/describe")
        page = client.post("/rules", again="rule").text
        assert page.count("data-focus") == 1
        fields = {"rule.0": "form", "column.0.0": "area", "comparison.0.0": "values", "value.0.0": "North"}
        further = {"column.0.1": "age", "comparison.0.1": "at_most", "value.0.1": "old"}
        page = client.post("/rules", {**fields, **further, "again": "condition.0"}).text
        assert 'value="North"' in page
        assert 'name="column.0.2"' in page
        before = client.folder.text()
        refusal = client.post("/rules", {**fields, **further, "public": "no"})
        assert (refusal.status_code, 'data-field="value.0.1"' in refusal.text) == (422, True)
        assert client.folder.text() == before
        assert client.post("/rules", {**fields, **further, "value.0.1": "1", "public": "no"}).status_code == 200
        assert client.studio.document()["impossible"] == [{"area": "North", "age": {"at_most": 1}}]
        assert 'value="North"' in client.page("/rules")
