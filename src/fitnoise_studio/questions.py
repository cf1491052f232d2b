"""Questions to a release by menus: their choices, examples, and the formulas and the title of a chosen question."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from fitnoise.errors import ReleaseError
from fitnoise.messages import Translator
from fitnoise.request.domain import Domain
from fitnoise.request.views import AtMost
from fitnoise.request.workloads import Table
from fitnoise_studio.access import SubmittedForm

MAX_VALUES = 200
"""The largest number of values of an attribute that a menu lists; for more, a reader writes the formula."""

MEASURES = ("number", "share")
"""The measures of records; those of an attribute have its place after a point, as in `mean.2`."""

SIDES = ("that", "among")
"""The sides of a question: the records of the measure, and the records among which they are."""

SECOND_SIDES = ("second_that", "second_among")
"""The sides of the second answer, which a comparison subtracts from the first."""

ADDED_MENU, COMPARED, NOT_COMPARED = "add-", "compare", "alone"
"""The buttons that change the menus: another condition of a side, a second answer, and none."""

MAX_CONDITIONS = 6
"""The largest number of menus for the conditions of one side."""


@final
@dataclass(frozen=True)
class Condition:
    """One condition of a menu: the attribute, its value as a literal, and the text of the value.

    key: The places of the attribute and of the value, as a form sends them.
    """

    key: str
    name: str
    literal: Any
    text: str


def conditions(domain: Domain) -> Iterator[Condition]:
    """Yield the conditions that a menu lists: an attribute has one of its values."""
    for i, name in enumerate(domain):
        attribute = domain[name]
        if name in domain.steps or attribute.levels or attribute.size > MAX_VALUES:
            continue
        # Of a label that two values share, only the codes are different.
        codes = attribute.label_codes if len(set(attribute.values)) < len(attribute.values) else ()
        for j, value in enumerate(attribute.values):
            yield Condition(f"{i}.{j}", name, codes[j] if codes else value, str(value))


def measures(domain: Domain) -> list[tuple[str, str]]:
    """Return the measures of attributes, each with its attribute: means of numbers, and medians of what is in order."""
    numeric = [(i, x) for i, x in enumerate(domain) if domain[x].is_numeric]
    medians = [(i, x) for i, x in numeric if x not in domain.steps]
    return [*((f"mean.{i}", x) for i, x in numeric), *((f"median.{i}", x) for i, x in medians)]


@final
@dataclass(frozen=True)
class Question:
    """A question by menus.

    measure: One of :data:`MEASURES`, or of :func:`measures`.
    sides: The keys of the conditions of each side, also the empty ones of menus without a choice.
    breakdown: The attribute that breaks the numbers down; empty for no attribute.
    since: The number of an earlier release whose numbers are subtracted; empty for none.
    is_comparison: True if a second answer is subtracted from the first.
    """

    measure: str
    sides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    breakdown: str = ""
    since: str = ""
    is_comparison: bool = False

    def keys(self, side: str) -> list[str]:
        """Return the chosen conditions of a side."""
        return [x for x in self.sides.get(side, ()) if x]

    def menus(self, side: str) -> tuple[str, ...]:
        """Return the key that each menu of a side shows; without a condition, one menu without a choice."""
        return self.sides.get(side, ()) or ("",)


def submitted_question(form: SubmittedForm) -> Question:
    """Return the question of a form, after the button that changes its menus."""
    action = form.get("again", "")
    sides = {x: tuple(form.all(x)) for x in (*SIDES, *SECOND_SIDES)}
    if (side := action.removeprefix(ADDED_MENU)) in sides:
        chosen = [x for x in sides[side] if x]
        sides[side] = (*chosen[: MAX_CONDITIONS - 1], "")
    is_comparison = action == COMPARED or (COMPARED in form and action != NOT_COMPARED)
    return Question(form.get("measure", ""), sides, form.get("by", ""), form.get("since", ""), is_comparison)


def examples(domain: Domain, tables: Iterable[Table]) -> list[Question]:
    """Return questions that these tables answer: the first of each measure, and a comparison, by names and labels."""
    values: dict[str, list[str]] = {}
    for condition in conditions(domain):
        values.setdefault(condition.name, []).append(condition.key)
    by_kind: dict[str, Question] = {}
    for table in tables:
        averaged = None if table.averaged is None else table.averaged[0]
        # Other views do not show every value, so a number of all records may not follow from the table.
        views = [(view, domain[x]) for x, view in table.views if x != averaged]
        if any(view.heading_text != AtMost.heading_text or view.left_out(attribute) for view, attribute in views):
            continue
        names = [x for x in table.attributes if x in values and x != averaged]
        if table.is_count and names:
            outer, inner = [*names, ""][:2]
            by_kind.setdefault("number", Question("number", breakdown=outer))
            if inner and len(values[outer]) > 1:
                that = (values[inner][0],)
                by_kind.setdefault("share", Question("share", {"that": that}, breakdown=outer))
                sides = {"that": that, "among": (values[outer][0],)}
                sides |= {"second_that": that, "second_among": (values[outer][1],)}
                by_kind.setdefault(COMPARED, Question("share", sides, is_comparison=True))
        for key, name in measures(domain):
            kind, rest = key.partition(".")[0], [x for x in names if x != name]
            if rest and (name == averaged and kind == "mean" if averaged else table.is_count and name in names):
                by_kind.setdefault(kind, Question(key, breakdown=rest[0]))
    return list(by_kind.values())


def example(domain: Domain, tables: Iterable[Table], index: str) -> Question:
    """Return an example by its number on the page. Raise ReleaseError for another number."""
    listed = examples(domain, tables)
    if index not in map(str, range(len(listed))):
        raise _not_listed()
    return listed[int(index)]


def _not_listed() -> ReleaseError:
    return ReleaseError(
        "question-not-listed",
        "The question is not one of the menus.",
        "",
        "Reload the page, and choose from the menus.",
        "Nothing was computed.",
    )


def formulas(domain: Domain, question: Question) -> list[str]:
    """Return the formula of a question; for a comparison those of both answers, and of the first minus the second.

    Raises:
        ReleaseError: As for :func:`formula`; or a comparison is of medians, or of an answer with itself.
    """
    minuend = formula(domain, question)
    if not question.is_comparison:
        return [minuend]
    subtrahend = formula(domain, question, SECOND_SIDES)
    if minuend == subtrahend:
        raise ReleaseError(
            "comparison-with-itself",
            "Both answers have the same conditions.",
            "A comparison is of two different answers.",
            "Change the conditions of the second answer.",
            "Nothing was computed.",
        )
    difference = f"{minuend} - ({subtrahend})" if question.since else f"{minuend} - {subtrahend}"
    return [minuend, subtrahend, difference]


def formula(domain: Domain, question: Question, sides: tuple[str, str] = SIDES) -> str:
    """Return the formula of one answer of a question: of one release, or its change since another.

    Of several conditions on one attribute, a record meets one; of conditions on different attributes, it meets all.

    Raises:
        ReleaseError: The question names a measure or a condition that the menus do not have, or a share has no
            condition. Or no record meets the conditions of both sides, or a difference of medians is chosen.
    """
    listed = {x.key: x for x in conditions(domain)}
    measure, keys = question.measure, [question.keys(side) for side in sides]
    chosen = dict(measures(domain))
    if measure not in (*MEASURES, *chosen) or any(x not in listed for side in keys for x in side):
        raise _not_listed()
    that, among = (_literals([listed[x] for x in side]) for side in keys)
    if measure == "share" and not that:
        raise ReleaseError(
            "share-without-condition",
            "The question asks for a share, and names no condition.",
            "A share is of the records that meet a condition.",
            "Choose the condition.",
            "Nothing was computed.",
        )
    both = that | among | {name: [x for x in that[name] if x in among[name]] for name in that if name in among}
    if not all(both.values()):
        name = next(name for name, literals in both.items() if not literals)
        raise ReleaseError(
            "conditions-exclude-each-other",
            f"No record meets the conditions on {name!r} of both sides.",
            "Both sides need a value in common.",
            "Change one of the conditions.",
            "Nothing was computed.",
        )
    if (question.since or question.is_comparison) and measure.startswith("median"):
        raise ReleaseError(
            "difference-of-medians",
            "The question asks for a change or a difference of medians.",
            "fitnoise computes these of numbers, shares and means.",
            "Choose one of these, or ask for each median alone.",
            "Nothing was computed.",
        )
    function = measure.partition(".")[0].replace("number", "count")

    def format_measure(release: str) -> str:
        if measure == "share":
            return f"{_call(release + 'count', None, both)} / {_call(release + 'count', None, among)}"
        return _call(release + function, chosen.get(measure), both)

    return f"{format_measure('')} - {format_measure('other.')}" if question.since else format_measure("")


TITLES = {
    "number": "studio.report.title_number",
    "share": "studio.report.title_share",
    "mean": "studio.report.title_mean",
    "median": "studio.report.title_median",
}
"""The id of the title of each measure."""


def title(domain: Domain, question: Question, language: Translator) -> str:
    """Return a question in words."""
    name = dict(measures(domain)).get(question.measure, "")
    text = language.translate(TITLES[question.measure.partition(".")[0]], name=name)
    shared, *further = stated_conditions(domain, question, language)
    text = f"{text} {shared}" if shared else text
    if question.is_comparison:
        text = language.translate("studio.report.title_compared", title=text, first=further[0], second=further[1])
    return (
        f"{text}, {language.translate('studio.report.title_by', name=question.breakdown)}"
        if question.breakdown
        else text
    )


def stated_conditions(domain: Domain, question: Question, language: Translator) -> tuple[str, str, str]:
    """Return in words the conditions of all answers, and for a comparison the further ones of the first and second."""
    listed = {x.key: x for x in conditions(domain)}

    def stated(side: str) -> str:
        texts: dict[str, list[str]] = {}
        for x in (listed[key] for key in question.keys(side)):
            texts.setdefault(x.name, []).append(language.label(x.name, x.text))
        pairs = ", ".join(f"{language.name(name)} = {' / '.join(dict.fromkeys(x))}" for name, x in texts.items())
        if not pairs:
            return ""
        text_id = "studio.report.title_that" if side.endswith("that") else "studio.report.title_among"
        return language.translate(text_id, conditions=pairs)

    sides = zip(SIDES, SECOND_SIDES, strict=True)
    pairs = [(stated(x), stated(y if question.is_comparison else x)) for x, y in sides]
    shared = " ".join(x for x, y in pairs if x and x == y)
    further = (" ".join(x[i] for x in pairs if x[i] and x[0] != x[1]) for i in range(2))
    minuend, subtrahend = (x or language.translate("page.table.all") for x in further)
    return shared, minuend, subtrahend


def _literals(listed: list[Condition]) -> dict[str, list[Any]]:
    """Return the values of each attribute, each once."""
    out: dict[str, list[Any]] = {}
    for x in listed:
        if x.literal not in out.setdefault(x.name, []):
            out[x.name].append(x.literal)
    return out


def _call(function: str, attribute: str | None, literals: dict[str, list[Any]]) -> str:
    """Return a call of a formula; names of attributes are texts in it, since they can be anything."""
    texts = [] if attribute is None else [json.dumps(attribute, ensure_ascii=False)]
    if literals:
        pairs = (f"{json.dumps(name, ensure_ascii=False)}: {_format_values(x)}" for name, x in literals.items())
        texts.append("{" + ", ".join(pairs) + "}")
    return f"{function}({', '.join(texts)})"


def _format_values(literals: list[Any]) -> str:
    """Return a value, or several values, as a formula writes them."""
    texts = [json.dumps(x, ensure_ascii=False) if isinstance(x, str) else repr(x) for x in literals]
    # A list of two numbers alone would be a range.
    return texts[0] if len(texts) == 1 else f'{{"values": [{", ".join(texts)}]}}'
