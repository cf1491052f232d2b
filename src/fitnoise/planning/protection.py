"""Warnings about plans that protect almost no one.

The measure is the best guess (:func:`fitnoise.kernel.losses.best_guess`). It is the probability that an attacker who
knows everything else guesses which of two neighbouring databases was released. A warning refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from fitnoise.kernel.units import Neighbours
from fitnoise.messages import Value, ValueKind
from fitnoise.planning.plan import Plan
from fitnoise.reporting import Section

ALMOST_CERTAIN_GUESS = 0.99
"""The best guess above which a warning is due: wrong less than once in 100 cases, where a coin is wrong 50 times."""

PRESENCE = (
    "Warning: this plan protects almost no one: whether one {unit} is in the data can be guessed right in up to "
    "{guess} of cases"
)

RECORDS = (
    "Warning: this plan protects almost no one: which of two possible answers one {unit} gave can be guessed right in "
    "up to {guess} of cases"
)


def warnings(plan: Plan) -> Iterator[Section]:
    """Yield a warning for each unit of a plan whose best guess is above `ALMOST_CERTAIN_GUESS`.

    Args:
        plan: The plan; the function checks all its units.

    Returns:
        Sections of one sentence each; empty if every best guess is at most `ALMOST_CERTAIN_GUESS`.
    """
    for unit, loss in ((plan.publication.unit, plan.loss), *plan.other_losses):
        if loss.best_guess > ALMOST_CERTAIN_GUESS:
            sentence = RECORDS if unit.neighbours is Neighbours.REPLACE_ONE else PRESENCE
            name = Value("unit", unit.name, spoken=True)
            yield Section("", (sentence,), (name, Value("guess", loss.best_guess, ValueKind.CHANCE, spoken=True)))


def warning_words(plan: Plan) -> list[str]:
    """Return the warnings of :func:`warnings` as finished sentences, for documents.

    Args:
        plan: The plan.
    """
    return [sentence for section in warnings(plan) for sentence in section.words]
