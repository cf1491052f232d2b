"""Notation of the values of an attribute: one notation has one meaning, in every place that names values."""

import json
import re
import tomllib

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.reading.expressions import ask
from fitnoise.request.documents import Spec
from fitnoise.request.finite_queries import FiniteQuery
from fitnoise.request.selections import Form, Selection
from fitnoise.request.toml_text import toml_text
from fitnoise_studio import forms
from refused import refused

AGE = fn.Ordered(0, 20, missing={"unknown": [99]}, if_missing="unknown")
PAY = fn.Binned([10, 20, 30])
SEX = fn.Categorical(["f", "m", "x"])
WORK = fn.Categorical([0, 1, 2, 14])
DOMAIN = fn.Domain(age=AGE, pay=PAY, sex=SEX, work=WORK)
SPEC = """
[domain.age]
type = "ordered"
low = 0
high = 20

[domain.sex]
type = "categorical"
codes = ["f", "m", "x"]
"""

NOTATIONS = {
    "one": (AGE, 14, [14]),
    "a pair": (AGE, [0, 14], range(15)),
    "a pair of one value": (AGE, [14, 14], [14]),
    "a tuple": (AGE, (0, 14), range(15)),
    "an array": (AGE, np.array([0, 14]), range(15)),
    "a range in words": (AGE, {"first": 0, "last": np.int64(14)}, range(15)),
    "single values": (AGE, {"values": [0, 14]}, [0, 14]),
    "single values, and a missing cell": (AGE, {"values": ["unknown", 14]}, [21, 14]),
    "a range of Python": (AGE, range(0, 15, 7), [0, 7, 14]),
    "a missing cell": (AGE, "unknown", [21]),
    "bins": (PAY, ["under 10", "20 to under 30"], range(3)),
    "codes": (SEX, ["f", "x"], [0, 2]),
    "a tuple of codes": (SEX, ("f", "x"), [0, 2]),
    "many codes": (SEX, ["x", "f", "m"], [2, 0, 1]),
    "codes that are numbers": (WORK, [0, 14], [0, 3]),
    "codes in words": (WORK, {"values": [0, 14]}, [0, 3]),
}


@pytest.mark.parametrize("name", NOTATIONS)
def test_one_notation_has_one_meaning(name):
    attribute, notation, cells = NOTATIONS[name]
    selection = Selection.parse(notation)
    assert selection.cells(attribute) == tuple(cells)
    parsed = json.loads(json.dumps(selection.document))
    assert Selection.parse(parsed) == Selection.parse(selection) == selection


REFUSED = {
    "a list of one": (AGE, [3], "domain.range-not-a-pair"),
    "a longer list": (AGE, [0, 5, 14], "domain.range-not-a-pair"),
    "an empty list": (AGE, [], "domain.range-not-a-pair"),
    "bins, listed": (PAY, ["under 10"], "domain.range-not-a-pair"),
    "reversed": (AGE, [14, 0], "domain.range-ends-reversed"),
    "reversed, in words": (AGE, {"first": 14, "last": 0}, "domain.range-ends-reversed"),
    "half open": (AGE, [5, None], "domain.range-with-one-end"),
    "half open below": (AGE, (None, 5), "domain.range-with-one-end"),
    "outside": (AGE, [5, 21], "domain.unknown-value"),
    "below": (AGE, [-1, 5], "domain.unknown-value"),
    "half a year": (AGE, [0.5, 3], "domain.unknown-value"),
    "an end that is missing": (AGE, ["unknown", 3], "domain.range-of-missing-cell"),
    "numbers for bins": (PAY, [10, 20], "domain.unknown-value"),
    "a number for a bin": (PAY, 12.5, "domain.unknown-value"),
    "a range of codes": (SEX, {"first": "f", "last": "x"}, "domain.range-without-order"),
    "an unknown code": (SEX, ["f", "q"], "domain.unknown-value"),
    "one end": (AGE, {"first": 3}, "domain.selection-keys-invalid"),
    "other keys": (AGE, {"at_least": 3}, "domain.selection-keys-invalid"),
    "a value in words": (AGE, {"values": 3}, "domain.selection-keys-invalid"),
    "a text in words": (AGE, {"values": "unknown"}, "domain.selection-keys-invalid"),
    "too many keys": (AGE, {"values": [3], "first": 1}, "domain.selection-keys-invalid"),
    "a set": (AGE, {0, 14}, "domain.selection-is-a-set"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_misread_is_refused_in_words(name):
    attribute, notation, code = REFUSED[name]
    with refused(code):
        Selection.parse(notation).cells(attribute)


def test_ranges_are_distinguished_from_values_by_the_attribute():
    pair = Selection(Form.LIST, (0, 1))
    assert (pair.is_range(AGE), pair.is_range(SEX)) == (True, False)
    assert Selection.parse({"first": 0, "last": 1}).is_range(SEX)
    assert not Selection.parse({"values": [0, 1]}).is_range(AGE)


# --- everywhere the same ----------------------------------------------------------------------------------------------


PEOPLE = pd.DataFrame({"age": [a for a in range(21) for _ in range(10)]})
PEOPLE["sex"], PEOPLE["work"], PEOPLE["pay"] = "f", 0, 5


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Return ages 0 to 20, ten of each, with little noise."""
    domain = fn.Domain(age=fn.Ordered(0, 20), sex=SEX)
    tables = [
        fn.table("age", margin=0.01),
        fn.table(
            groups={"age": {"0-14": (0, 14), "both": {"values": [0, 14]}, "one": 14, "all": [0, 20]}}, margin=0.01
        ),
        fn.table(ranges={"age": [(0, 14)]}, margin=0.01),
        fn.table(change="age", margin=0.01, name="changes"),
    ]
    return fn.release(
        fn.plan(fn.Workload(domain, tables)), PEOPLE, ledger=tmp_path_factory.mktemp("counted") / "l.sqlite"
    )


def rounded(value):
    return round(float(value))


def test_a_pair_is_a_range_in_tables_sums_and_questions(counted):
    assert [rounded(x) for x in counted["age groups"]["value"]] == [150, 20, 10, 210]
    assert [rounded(x) for x in counted["age ranges"]["value"]] == [150]
    for pair in ((0, 14), [0, 14], {"first": 0, "last": 14}):
        assert rounded(counted.count(age=pair).value) == rounded(counted.sum("age", age=pair).value) == 150
    both = {"values": [0, 14]}
    assert rounded(counted.count(age=both).value) == rounded(counted.sum("age", age=both).value) == 20
    assert rounded(counted.count(age=14).value) == rounded(counted.sum("age", age=14).value) == 10
    assert rounded(counted.sum("changes", age=[1, 20]).value) == 0
    for text, number in (
        ("count(age=[0, 14])", 150),
        ("count(age=(0, 14))", 150),
        ('count(age={"values": [0, 14]})', 20),
    ):
        assert rounded(ask(text, counted).value) == number
    for ask_age in (counted.count, lambda **age: counted.sum("age", **age)):
        with refused("release.unknown-label", "release.wrong-selection"):
            ask_age(age=[0, 5, 14])
        with refused("release.unknown-label", "release.wrong-selection"):
            ask_age(age=(14, 0))
    assert rounded(counted.sum("age groups", age="0-14").value) == 150  # rows of groups are named by their labels


def test_a_pair_is_a_range_in_specifications_and_in_questions_with_finitely_many_answers():
    text = SPEC + "[[tables]]\ngroups = { age = { young = [0, 14], odd = { values = [1, 3] } } }\nmargin = 5\n"
    text += '[[questions]]\nname = "q"\nquery = "count"\nwhere = { age = [0, 14] }\npeople = 9\nepsilon = 1\n'
    publication = Spec.from_toml(text).publication()
    groups = publication.workload.tables[0].view("age").operator(publication.domain["age"]).groups
    assert groups == (tuple(range(15)), (1, 3))
    question = publication.questions[0]
    assert question == FiniteQuery.count("q", people=9, epsilon=1, where={"age": (0, 14)})
    assert [len(selection.cells(publication.domain["age"])) for _, selection in question.where[0]] == [15]
    parsed = Spec.from_publication(publication)
    assert parsed.publication() == publication == Spec.from_toml(parsed.to_toml()).publication()
    for bad, code in (
        ("[0, 5, 14]", "domain.range-not-a-pair"),
        ("[14, 0]", "domain.range-ends-reversed"),
        ("[3]", "domain.range-not-a-pair"),
    ):
        for key_text in ("groups = { age = { young = [0, 14]", "where = { age = [0, 14]"):
            with refused(code):
                Spec.from_toml(text.replace(key_text, key_text.replace("[0, 14]", bad))).publication()


def test_ranges_that_overlap_in_part_are_refused_and_totals_are_not():
    def groups(**groups_of_age):
        return fn.Workload(DOMAIN, [fn.table(groups={"age": groups_of_age}, margin=5)])

    groups(young=[0, 14], working=[15, 17], old=[18, 20], adult=[15, 20], everyone=[0, 20], again=[0, 20], one=3)
    groups(odd={"values": [1, 3]}, some=[2, 4], others={"values": [3, 4]})  # single values may overlap in any way
    for overlapping in ({"young": [0, 15], "old": [15, 20]}, {"old": [15, 20], "a": [3, 4], "young": [0, 15]}):
        with refused("workload.groups-overlap"):
            groups(**overlapping)
    with refused("workload.groups-overlap"):
        groups(a=[0, 20], b=[5, 8], c=[8, 9])


@pytest.mark.parametrize("ranges", [[0, 14], (0, 14), [[0, 14], [3]], [[0, 14], 3], [(0, 1, 2)]])
def test_ranges_are_a_list_of_pairs(ranges):
    with refused("workload.ranges-not-pairs"):
        fn.table(ranges={"age": ranges}, margin=5)


def test_ranges_that_end_before_they_begin_are_refused():
    with refused("domain.range-ends-reversed"):
        fn.Workload(DOMAIN, [fn.table(ranges={"age": [(14, 0)]}, margin=5)])


@pytest.mark.parametrize("group", [{"first": 3}, {"values": 3}, {0, 14}])
def test_groups_that_say_nothing_are_refused_by_name(group):
    with refused("workload.group-unusable"):
        fn.table(groups={"age": {"young": group}}, margin=5)


@pytest.mark.parametrize("values", [[2020, 2024], [1], (1, 2.0), [np.int64(3), 4]])
def test_a_list_of_numbers_in_a_condition_on_a_column_is_refused(values):
    """It is unknown if a column of numbers has an order."""
    with refused("spec.condition-numbers-ambiguous"):
        fn.DataSource(where={"year": values})


def test_a_condition_on_a_column_of_numbers_names_single_values_in_words():
    source = fn.DataSource(where={"year": {"values": [2024, 2020]}, "one": {"values": [3]}, "kind": ["b", "a"]})
    assert [c.document for c in source.conditions] == [["a", "b"], 3, {"values": [2020, 2024]}]
    assert fn.DataSource(where={c.column: c.document for c in source.conditions}) == source
    for bad in ({"values": 3}, {"values": [1], "below": 3}, {}):
        with refused("spec.condition-keys-invalid"):
            fn.DataSource(where={"year": bad})
    text = SPEC + '[data]\nwhere = { year = { values = [2020, 2024] } }\n[[tables]]\nattributes = ["sex"]\nmargin = 5\n'
    publication = Spec.from_toml(text).publication()
    assert publication.source.conditions[0].codes == (2020, 2024)
    assert Spec.from_toml(Spec.from_publication(publication).to_toml()).publication() == publication


def test_groups_keep_their_order_in_toml():
    groups = {"b": [0, 1], "odd": {"values": [1, 3]}, "a": 7, "last": {"first": 8, "last": 9}, 'q"': [4, 5]}
    document = {
        "title": "groups-0-",
        "tables": [{"groups": {"age": groups, "sex": {"x": ["f"]}}, "margin": 5.0}, {"groups": {"age": {"x": [0, 1]}}}],
        "further_tables": [{"tables": [{"groups": {"age": groups}}]}],
        "groups": 3,
    }
    text = toml_text(document)
    parsed = tomllib.loads(text)
    assert parsed == document
    for table in (parsed["tables"][0], parsed["further_tables"][0]["tables"][0]):
        assert list(table["groups"]["age"]) == list(groups)
    assert re.search("^groups = {", text, re.MULTILINE)


def test_the_studio_keeps_the_order_of_groups_when_it_writes_a_draft():
    text = SPEC + "[[tables]]\ngroups = { age = { b = [0, 1], odd = { values = [3, 5] }, a = 7 } }\nmargin = 5\n"
    rewritten = forms.write(forms.parse(text))
    assert list(tomllib.loads(rewritten)["tables"][0]["groups"]["age"]) == ["b", "odd", "a"]
    assert Spec.from_toml(rewritten).publication() == Spec.from_toml(text).publication()
