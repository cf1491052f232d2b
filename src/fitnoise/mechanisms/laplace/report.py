"""The report's sections on Laplace noise on tables."""

from __future__ import annotations

import math

from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.solving.certificates import Certificate


def proof(certificate: Certificate, *, are_separated: bool) -> Section:
    """Return the section on the value and the bound of linear mechanisms with Laplace noise.

    are_separated: True if an assumption separates records of one unit.
    """
    values = (
        Value("objective_value", certificate.value, ValueKind.OPTIMUM),
        Value("bound", certificate.bound, ValueKind.OPTIMUM),
        Value("gap", certificate.gap, ValueKind.GAP),
    )
    ratio = Value("ratio", certificate.value / certificate.bound, ValueKind.FACTOR)
    min_epsilon = Value("least", math.sqrt(2 * certificate.bound), ValueKind.NUMBER)
    limits = [Message("report.proof.laplace_nearest")]
    if are_separated:
        limits.append(Message("report.proof.laplace_pattern"))
    bound = Message("report.proof.laplace", (*values, ratio, min_epsilon))
    return Section(Message("report.section.proof"), (bound, *limits), values)


def min_cost(text: str, minimum: float | None, epsilon: float) -> Message:
    """Return a statement on the least ε of pure mechanisms, and its ratio to the ε of the plan."""
    min_epsilon = Value("least", minimum, ValueKind.COST)
    return Message(text, (min_epsilon, Value("times", epsilon / minimum if minimum else None, ValueKind.FACTOR)))
