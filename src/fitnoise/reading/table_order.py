"""Rules of order between tables: no number of one is larger than a multiple of the other's with the same labels.

A rule is a text, `homes: block <= people: block` or `people: block <= 10 * homes: block`. It is a fact that the
publisher states. No plan, no privacy cost and no interval uses it; only integer tables follow it. Rules are refused if
they force tables to be equal: in a circle, or if tables of one release have the same total and one order.
"""

from __future__ import annotations

import graphlib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.reading.refusals import UNMADE, unknown_table
from fitnoise.request.domain import Domain
from fitnoise.request.workloads import Table

MAX_FACTOR = 1_000_000
"""The largest factor of a rule: products with integers of tables stay exact."""


@final
@dataclass(frozen=True)
class OrderedTable:
    """A table of a rule of order, with its release.

    table: The table.
    domain: Its domain.
    release: The text before the names of the tables of its release.
    total: The weight of each number in the number of all counted records; None if the numbers do not give it.
    """

    table: Table
    domain: Domain
    release: str
    total: Floats | None

    @property
    def labels(self) -> list[tuple[object, ...]]:
        """The labels of each column."""
        return [*map(tuple, self.table.labels(self.domain).values())]

    @property
    def columns(self) -> list[tuple[object, ...]]:
        """The meanings of the labels of each column; empty where labels name the counted values."""
        views = map(self.table.view, self.table.attributes)
        return [() if v.heading_text is None else (v.heading_text, *v.text_values) for v in views]

    def has_total_of(self, other: OrderedTable) -> bool:
        """Return True if the total of both is one number that adds up several of their numbers, with equal weights."""
        if self.release != other.release or self.total is None or other.total is None:
            return False
        weights = self.total
        return bool(np.array_equal(weights, other.total) and (np.count_nonzero(weights) > 1 or weights.size == 1))


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


def parse_rules(
    texts: Iterable[object], names: Sequence[str], available: Collection[str] = ()
) -> tuple[OrderRule, ...]:
    """Return rules from their texts, each once.

    Args:
        texts: The rules as texts.
        names: The names of the tables that are made integer.
        available: The names of all tables of the releases.

    Raises:
        ReleaseError: A text is not a rule, or names an unknown table or one that is not made integer. Or a factor is
            not an integer from 1 to 1,000,000 before the second table. Or rules in a circle force tables to be equal.
    """
    rules = tuple(dict.fromkeys(_parsed(text, names, available) for text in texts))
    _refuse_circles(rules)
    return rules


def check_tables(rules: Sequence[OrderRule], table_of: Callable[[str], OrderedTable]) -> None:
    """Raise ReleaseError if the two tables of a rule have different rows, or rules force tables to be equal.

    Args:
        rules: The rules.
        table_of: A function that returns a table by its name.
    """
    for rule in rules:
        smaller, larger = table_of(rule.smaller), table_of(rule.larger)
        if smaller.labels != larger.labels:
            raise ReleaseError(
                "order-of-different-labels",
                f"The tables {rule.smaller!r} and {rule.larger!r} have different labels.",
                "A rule compares the numbers of two tables that have the same labels.",
                "Show both tables by the same attributes, in one order and with the same values.",
                UNMADE,
                place=str(rule),
            )
        if smaller.columns != larger.columns:
            raise ReleaseError(
                "order-of-different-views",
                f"The tables {rule.smaller!r} and {rule.larger!r} have equal labels with different meanings.",
                "A rule cannot compare cumulative numbers with others, or sums to date over different periods.",
                "Name two tables that show each attribute in the same way.",
                UNMADE,
                place=str(rule),
            )
    for path in _paths(rules):
        if table_of(path[0]).has_total_of(table_of(path[-1])):
            raise ReleaseError(
                "order-of-equal-totals",
                f"By the rule {' <= '.join(path)}, no number of {path[0]!r} exceeds that of {path[-1]!r}.",
                "Both are tables of one release with the same total, so the rule forces their numbers to be equal.",
                "Remove the rule, or compare tables of different records.",
                UNMADE,
                place="at_most",
            )


def _not_a_rule(fault: str, needed: str, action: str) -> ReleaseError:
    """Return the error for a text that is not a rule."""
    return ReleaseError("not-an-order-rule", fault, needed, action, UNMADE, place="at_most")


_FORM = "A rule has the form 'TABLE <= TABLE' or 'TABLE <= 10 * TABLE', with names of tables."


def _parsed(text: object, names: Sequence[str], available: Collection[str]) -> OrderRule:
    """Return a rule from its text."""
    if not isinstance(text, str):
        raise _not_a_rule("A rule of order is not a text.", _FORM, "Write it in this form.")
    sides = [(text[: m.start()].strip(), text[m.end() :].strip()) for m in re.finditer("<=", text)]
    if not sides:
        action = "Exchange the two tables, and write <=." if ">=" in text else "Write it in this form."
        raise _not_a_rule(f"{text!r} is not a rule of order.", _FORM, action)
    # Names of tables may contain the signs of a rule: every way to read the text is tried, the written form first.
    rules = [rule for smaller, other in sides for rule in _readings(smaller, other, names)]
    for rule in sorted(rules, key=lambda rule: str(rule) != text):
        return rule
    everything = [*names, *available]
    for rule in (rule for smaller, other in sides for rule in _readings(smaller, other, everything)):
        name = rule.smaller if rule.smaller not in names else rule.larger
        raise ReleaseError(
            "ordered-table-not-made",
            f"The rule {text!r} names the table {name!r}, which is not among the tables to make.",
            "A rule joins tables that are made together.",
            f"Name {name!r} among the tables, too, or remove the rule.",
            UNMADE,
            place="at_most",
        )
    pieces = [piece.strip() for piece in text.split("<=")]
    if len(pieces) > 2 and all(pieces):
        each = [f"{one} <= {other}" for one, other in itertools.pairwise(pieces)]
        raise _not_a_rule(
            f"The rule {text!r} has {len(pieces) - 1} signs <=.",
            "A rule compares two tables.",
            f"Write {len(each)} rules: {', '.join(map(repr, each))}.",
        )
    smaller, other = sides[0]
    front, _, rest = (x.strip() for x in smaller.partition("*"))
    if rest not in everything:  # the factor may stand behind the table
        rest, _, front = (x.strip() for x in smaller.rpartition("*"))
    if smaller not in everything and rest in everything:
        weaker = f"{rest} <= {other}"
        raise _not_a_rule(
            f"The rule {text!r} has a factor at its first table.",
            "Only the second table has a factor.",
            f"Write {weaker!r}, which holds if this rule does."
            if re.fullmatch("[1-9][0-9]*", front)
            else "Write a factor before the second table.",
        )
    table, _, back = (x.strip() for x in other.rpartition("*"))
    if other not in everything and table in everything:
        raise _not_a_rule(
            f"The rule {text!r} has a factor behind its second table.",
            "The factor stands before the table.",
            f"Write {f'{smaller} <= {back} * {table}'!r}.",
        )
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
    try:
        graphlib.TopologicalSorter(_graph(rules)).prepare()
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


def _graph(rules: Iterable[OrderRule]) -> dict[str, list[str]]:
    """Return for each table those that are at least as large by a rule without a factor."""
    graph: dict[str, list[str]] = {}
    for rule in rules:
        if rule.factor == 1:
            graph.setdefault(rule.smaller, []).append(rule.larger)
    return graph


def _paths(rules: Iterable[OrderRule]) -> Iterator[tuple[str, ...]]:
    """Yield a chain of rules without factors for each pair of tables that rules order. The rules have no circle."""
    graph = _graph(rules)
    for start in graph:
        seen, waiting = {start}, list[tuple[str, ...]]([(start,)])
        for path in waiting:  # the list grows meanwhile
            for name in graph.get(path[-1], []):
                if name not in seen:
                    seen.add(name)
                    waiting.append((*path, name))
                    yield waiting[-1]
