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
    """Return the formula of the question that a form chooses.

    Raises:
        ReleaseError: The form names a measure or a condition that the menus do not have, or a share has no condition.
    """
    listed = {x.key: x for x in conditions(domain)}
    measure, keys = form.get("measure", ""), [form.get(x, "") for x in ("that", "among")]
    chosen = dict(measures(domain))
    if measure not in (*MEASURES, *chosen) or any(x and x not in listed for x in keys):
        raise ReleaseError(
            "question-not-listed",
            "The question is not one of the menus.",
            "",
            "Reload the page, and choose from the menus.",
            "Nothing was computed.",
        )
    that, among = [[listed[x]] if x else [] for x in keys]
    if measure == "share" and not that:
        raise ReleaseError(
            "share-without-condition",
            "The question asks for a share, and names no condition.",
            "A share is of the records that meet a condition.",
            "Choose the condition.",
            "Nothing was computed.",
        )
    if measure == "share":
        return f"{_call('count', None, [*that, *among])} / {_call('count', None, among)}"
    return _call(measure.partition(".")[0].replace("number", "count"), chosen.get(measure), [*that, *among])


def _call(function: str, attribute: str | None, listed: list[Condition]) -> str:
    """Return a call of a formula; names of attributes are texts in it, since they can be anything."""
    texts = [] if attribute is None else [json.dumps(attribute, ensure_ascii=False)]
    pairs = {x.name: x.literal for x in listed}
    if pairs:
        literals = (f"{json.dumps(k, ensure_ascii=False)}: {_literal(v)}" for k, v in pairs.items())
        texts.append("{" + ", ".join(literals) + "}")
    return f"{function}({', '.join(texts)})"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
