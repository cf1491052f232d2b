"""Rules of order between tables: no number of one is larger than a multiple of the other's with the same labels.

A rule is a text, `homes: block <= people: block` or `people: block <= 10 * homes: block`. It is a fact that the
publisher states. No plan, no privacy cost and no interval uses it; only integer tables follow it.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from fitnoise.errors import ReleaseError
from fitnoise.reading.refusals import UNMADE, unknown_table

MAX_FACTOR = 1_000_000
"""The largest factor of a rule: products with integers of tables stay exact."""

LabelsOf = Callable[[str], Sequence[Sequence[object]]]
"""A function that returns the labels of each column of a table, by the table's name."""


@final
@dataclass(frozen=True)
class OrderRule:
    """A rule that each number of a table is at most a multiple of the number with the same labels in another table.

    smaller: The name of the table with the smaller numbers.
    larger: The name of the table with the larger numbers.
    factor: The multiple, an integer from 1 to `MAX_FACTOR`.
    """

    smaller: str
    larger: str
    factor: int = 1

    def __str__(self) -> str:
        multiple = "" if self.factor == 1 else f"{self.factor} * "
        return f"{self.smaller} <= {multiple}{self.larger}"


def parse_rules(texts: Iterable[object], names: Sequence[str]) -> tuple[OrderRule, ...]:
    """Return rules from their texts, each once.

    Args:
        texts: The rules as texts.
        names: The names of the tables that are made integer.

    Raises:
        ReleaseError: A text is not a rule, or names an unknown table. Or a factor is not an integer from 1 to
            1,000,000, or rules in a circle force tables to be equal.
    """
    rules = tuple(dict.fromkeys(_parsed(text, names) for text in texts))
    _refuse_circles(rules)
    return rules


def check_labels(rules: Iterable[OrderRule], labels_of: LabelsOf) -> None:
    """Raise ReleaseError if the two tables of a rule have different labels.

    Args:
        rules: The rules.
        labels_of: The labels of each table.
    """
    for rule in rules:
        if list(map(tuple, labels_of(rule.smaller))) != list(map(tuple, labels_of(rule.larger))):
            raise ReleaseError(
                "order-of-different-labels",
                f"The tables {rule.smaller!r} and {rule.larger!r} have different labels.",
                "A rule compares the numbers of two tables that have the same labels.",
                "Show both tables by the same attributes, in one order and with the same values.",
                UNMADE,
                place=str(rule),
            )


def _parsed(text: object, names: Sequence[str]) -> OrderRule:
    """Return a rule from its text."""
    sides = [(text[: m.start()], text[m.end() :]) for m in re.finditer("<=", text)] if isinstance(text, str) else []
    if not sides:
        raise ReleaseError(
            "not-an-order-rule",
            f"{text!r} is not a rule of order." if isinstance(text, str) else "A rule of order is not a text.",
            "A rule has the form 'TABLE <= TABLE' or 'TABLE <= 10 * TABLE', with names of tables.",
            "Write it in this form.",
            UNMADE,
            place="at_most",
        )
    # Names of tables may contain the signs of a rule: every way to read the text is tried, the written form first.
    rules = [rule for smaller, other in sides for rule in _readings(smaller.strip(), other.strip(), names)]
    for rule in sorted(rules, key=lambda rule: str(rule) != text):
        return rule
    smaller, other = (side.strip() for side in sides[0])
    factor, _, larger = (x.strip() for x in other.rpartition("*"))
    unknown = next((name for name in (smaller, larger) if name not in names), None)
    if unknown is not None:
        raise unknown_table(unknown, names, UNMADE)
    raise ReleaseError(
        "wrong-factor-of-order",
        f"The factor of the rule {text!r} is {factor!r}.",
        f"It must be an integer from 1 to {MAX_FACTOR:,}.",
        "Choose such a factor.",
        UNMADE,
        place="at_most",
    )


def _readings(smaller: str, other: str, names: Sequence[str]) -> Iterator[OrderRule]:
    """Yield the rules with known tables that a text can be, split at one of its signs."""
    factor, _, larger = (x.strip() for x in other.partition("*"))
    if smaller in names and other in names:
        yield OrderRule(smaller, other)
    if smaller in names and larger in names and re.fullmatch("[0-9]{1,7}", factor) and 1 <= int(factor) <= MAX_FACTOR:
        yield OrderRule(smaller, larger, int(factor))


def _refuse_circles(rules: Sequence[OrderRule]) -> None:
    """Raise an error for rules that force tables to be equal."""
    graph: dict[str, list[str]] = {}
    for rule in rules:
        if rule.factor == 1:
            graph.setdefault(rule.smaller, []).append(rule.larger)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        circle = " <= ".join(reversed(error.args[1]))
        raise ReleaseError(
            "order-in-circle",
            f"The rules form a circle: {circle}.",
            "Such rules force these tables to be equal.",
            "Remove a rule of the circle, or publish one table.",
            UNMADE,
            place="at_most",
        ) from None
