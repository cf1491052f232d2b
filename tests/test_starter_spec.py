"""Starter specifications: after the marked lines are completed they can be planned, and nothing is filled in."""

import json
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.errors import DomainError, FitnoiseError
from fitnoise.request.attributes import FILL_IN_MARK, KINDS, AttributeSection
from fitnoise.request.documents import load_spec
from fitnoise.request.starter_spec import begun
from laws.releases import by_command

NAMES = {"sex": "categorical", "age": "ordered", "in come": "binned", "geo é's": "hierarchy", "pay": "amount"}
PLACES = "state,county,tract\nn,n1,t1\nn,n2,t2\ns,s1,t3\n"


def is_marked(line):
    return f"# {FILL_IN_MARK}" in line


def is_example(line):
    return line.startswith("# ") and " = " in line and line.count("#") == 2


def completed(text, lines=is_marked):
    """Return the text with the marked lines completed by their examples."""
    return "".join(x.removeprefix("# ") if lines(x) else x for x in text.splitlines(keepends=True))


@pytest.fixture
def planned(tmp_path):
    (tmp_path / "places.csv").write_text(PLACES, encoding="utf-8")

    def plan(text):
        (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
        return fn.plan(load_spec(tmp_path / "spec.toml"))

    return plan


def test_every_kind_of_attribute_can_be_begun_with():
    assert sorted(NAMES.values()) == sorted(KINDS)


@pytest.mark.parametrize("member", ["meaning", "starter_keys", "build"])
def test_a_kind_without_a_member_is_a_type_error_when_it_is_defined(member):
    members = {"meaning": "", "starter_keys": {}, "build": lambda self, folder: None, "__module__": __name__}
    with pytest.raises(TypeError, match=f"The class Other lacks {member}\\.$"):
        type(AttributeSection)("Other", (AttributeSection,), {name: x for name, x in members.items() if name != member})


def test_with_what_is_marked_it_can_be_planned_for(planned):
    plan = planned(completed(begun(NAMES)))
    assert list(plan.publication.workload.domain)[:3] == ["sex", "age", "in come"]
    assert plan.publication.workload.domain.steps == {"pay": (200_000,)}
    assert len(plan.table_part.tables) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_one(planned, name):
    """Those that are not marked too."""
    text = begun({name: NAMES[name], "other": "ordered"})
    assert planned(completed(text, is_example)).publication.source.name == "survey-2026"


def test_without_one_of_them_it_is_refused(planned):
    text = begun(NAMES)
    marked = [x for x in text.splitlines() if is_marked(x)]
    assert len(marked) == 10
    for marked_line in marked:
        with pytest.raises(FitnoiseError):
            planned(
                completed(text, lambda line, marked_line=marked_line: is_marked(line) and line.strip() != marked_line)
            )


def test_amounts_without_other_attributes_have_only_sums(planned):
    (summary,) = planned(completed(begun({"pay": "amount"}))).summaries
    assert (summary.name, summary.numbers) == ("pay sum", 1)


def sections(text):
    """Return the commented sections of a starter specification, without their marks."""
    blocks = [x.splitlines() for x in text.split("\n\n") if x.startswith("# [")]
    return ["\n".join(line.removeprefix("# ") for line in block) for block in blocks]


def test_the_question_is_one(planned):
    text = begun({"sex": "categorical"})
    (question,) = (x for x in sections(text) if 'name = "how many"' in x)
    plan = planned(completed(text) + question)
    assert [q.summary.name for q in plan.questions] == ["how many"]


def test_a_rule_and_public_totals_are_shown_as_comments(planned):
    """Each with the keys that can be planned once its values are stated, and none for attributes that are missing."""
    text = begun({"sex": "categorical", "in come": "categorical"})
    stated = tomllib.loads(completed(text))
    rule, totals = (next(x for x in sections(text) if x.startswith(f"[[{key}]]")) for key in ("impossible", "public"))
    for name in ("sex", "in come"):
        rule = rule.replace("VALUE", stated["domain"][name]["codes"][0], 1)
    (stated_rule,) = planned(f"{completed(text)}\n{rule}").publication.domain.rules
    assert stated_rule.document == {"in come": "a", "sex": "a"}
    assert planned(f"{completed(text)}\n{totals}").publication.public.attributes == ("sex",)
    assert [x in begun({"pay": "amount"}) for x in ("[[impossible]]", "[[public]]")] == [False, False]


def test_numbers_without_a_public_source_can_be_requested_first(planned):
    """In a specification of its own; each answer costs as much as the comment says."""
    text = begun(NAMES | {" o'f it ": "amount"})
    start = re.sub("^# (id|source|unit) ", r"\1 ", text[text.index("[data]") : text.index("[accuracy]")], flags=re.M)
    proposed = [x for x in sections(text) if any(key in x for key in ("quantile", "left_out", "cuts"))]
    plan = planned("\n".join([start, *proposed]))
    assert [(q.summary.name, q.summary.question) for q in plan.questions] == [
        ("the pay of 99 in 100", "quantile"),
        ("the  o'f it  of 99 in 100", "quantile"),
        ("units with more", "left_out"),
    ]
    assert [x.column for x in plan.publication.workload.domain.values()] == ["pay", " o'f it "]
    assert float(plan.rho) == pytest.approx(3 * 0.005, rel=1e-9)
    assert "0.1 costs rho = 0.005" in text


def test_without_an_amount_no_quantile_is_proposed():
    text = begun({"sex": "categorical"})
    assert ("quantile" in text, "left_out" in text) == (False, True)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=9), st.sampled_from(["ordered", "binned", "amount"]), min_size=1, max_size=3))
def test_any_names_that_attributes_may_have(attributes):
    try:
        text = begun(attributes)
    except DomainError:
        return
    assert list(tomllib.loads(completed(text))["domain"]) == list(attributes)


def test_the_command_writes_it_once(tmp_path, capfdbinary):
    by_command("new", "sex", "age=ordered")
    assert capfdbinary.readouterr().out.decode() == begun({"sex": "categorical", "age": "ordered"})
    by_command("new", "sex", "--json")
    assert json.loads(capfdbinary.readouterr().out) == {"specification": begun({"sex": "categorical"})}
    file = tmp_path / "spec.toml"
    by_command("new", "sex", "age=ordered", "-o", str(file))
    assert file.read_text(encoding="utf-8") == begun({"sex": "categorical", "age": "ordered"})
    by_command("new", "age", "-o", str(file))
    assert "Nothing was written. [release.place-exists]" in capfdbinary.readouterr().err.decode()
    assert file.read_text(encoding="utf-8") == begun({"sex": "categorical", "age": "ordered"})


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("age", "age=ordered"), "'age' is named twice"),
        (("age=number",), "There is no type 'number'"),
        (("std_error",), "[domain.attribute-name-reserved]"),
        (("",), "[domain.attribute-name-invalid]"),
        ((), "No attribute is named."),
    ],
)
def test_an_impossible_starter_specification_is_refused(names, text, tmp_path, capsys):
    file = tmp_path / "spec.toml"
    by_command("new", *names, "-o", str(file))
    assert text in capsys.readouterr().err
    assert not file.exists()
