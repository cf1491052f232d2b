"""Questions to a release by menus: the choices of a domain, and the formula of a chosen question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from fitnoise.errors import ReleaseError
from fitnoise.request.domain import Domain
from fitnoise_studio.access import SubmittedForm

MAX_VALUES = 200
"""The largest number of values of an attribute that a menu lists; for more, a reader writes the formula."""

MEASURES = ("number", "share")
"""The measures of records; those of an attribute have its place after a point, as in `mean.2`."""


SIDES = ("that", "among")
"""The sides of a question: the records of the measure, and the records among which they are."""

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


def formula(domain: Domain, form: SubmittedForm) -> str:
    """Return the formula of the question that a form chooses: of one release, or its change since another.

    Of several conditions on one attribute, a record meets one; of conditions on different attributes, it meets all.

    Raises:
        ReleaseError: The form names a measure or a condition that the menus do not have, or a share has no condition.
            Or no record meets the conditions of both sides, or a change of a median is chosen.
    """
    listed = {x.key: x for x in conditions(domain)}
    measure, keys = form.get("measure", ""), [[x for x in form.all(side) if x] for side in SIDES]
    chosen = dict(measures(domain))
    if measure not in (*MEASURES, *chosen) or any(x not in listed for side in keys for x in side):
        raise ReleaseError(
            "question-not-listed",
            "The question is not one of the menus.",
            "",
            "Reload the page, and choose from the menus.",
            "Nothing was computed.",
        )
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
    if form.get("since") and measure.startswith("median"):
        raise ReleaseError(
            "change-of-median",
            "The question asks for the change of a median.",
            "fitnoise computes changes of numbers, shares and means.",
            "Choose one of these, or ask each release for its median.",
            "Nothing was computed.",
        )
    function = measure.partition(".")[0].replace("number", "count")

    def format_measure(release: str) -> str:
        if measure == "share":
            return f"{_call(release + 'count', None, both)} / {_call(release + 'count', None, among)}"
        return _call(release + function, chosen.get(measure), both)

    return f"{format_measure('')} - {format_measure('other.')}" if form.get("since") else format_measure("")


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
