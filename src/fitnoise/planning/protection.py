"""Warnings about plans that protect almost no one.

The measure is the best guess (:func:`fitnoise.request.curves.best_guess`). It is the probability that an attacker who
knows everything else guesses which of two neighbouring databases was released. A warning refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from fitnoise.kernel.units import Neighbours
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.plan import Plan

ALMOST_CERTAIN_GUESS = 0.99
"""The best guess above which a warning is due: wrong less than once in 100 cases, where a coin is wrong 50 times."""


def warnings(plan: Plan) -> Iterator[Message]:
    """Yield a warning for each unit of a plan whose best guess is above `ALMOST_CERTAIN_GUESS`.

    Args:
        plan: The plan; the function checks all its units.

    Returns:
        One message for each such unit; empty if every best guess is at most `ALMOST_CERTAIN_GUESS`.
    """
    for unit, summary in plan.unit_summaries:
        if summary.best_guess > ALMOST_CERTAIN_GUESS:
            # Replaced records are present in both databases: the attacker guesses an answer, not the presence.
            replaced = unit.neighbours is Neighbours.REPLACE_ONE
            values = (Value("unit", unit.name), Value("guess", summary.best_guess, ValueKind.PROBABILITY))
            yield Message("report.protected.answer" if replaced else "report.protected.presence", values)
