"""The report's sections on Laplace noise on tables."""

from __future__ import annotations

import math

from fitnoise.messages import Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.solving.certificates import Certificate


def proof(certificate: Certificate, *, are_separated: bool) -> Section:
    """Return the section on the value and the bound of linear mechanisms with Laplace noise.

    are_separated: True if an assumption separates records of one unit.
    """
    sentence = (
        "epsilon^2/2 = {value}, {ratio} times a bound: no linear mechanism with Laplace noise has these variances "
        "below epsilon = {least}"
    )
    gains = ("(where noise is pure, what keeps records of one unit apart saves nothing: their costs add up)",)
    return Section(
        "proof",
        (sentence, "(how near to that any pure mechanism can come is not known)", *(gains if are_separated else ())),
        (
            Value("value", certificate.value, ValueKind.OPTIMUM),
            Value("bound", certificate.bound, ValueKind.OPTIMUM),
            Value("gap", certificate.gap, ValueKind.GAP),
            Value("ratio", certificate.value / certificate.bound, ValueKind.FACTOR, spoken=True),
            Value("least", math.sqrt(2 * certificate.bound), ValueKind.NUMBER, spoken=True),
        ),
    )


def unbiased(minimum: float, epsilon: float) -> Section:
    """Return the section on the least ε of any unbiased pure mechanism. epsilon: The ε of the plan."""
    sentence = (
        "no unbiased pure mechanism, linear or not, has these variances below epsilon = {pure_least}; this one takes "
        "{times} times that"
    )
    values = (
        Value("unbiased_bound", minimum),
        Value("pure_least", minimum, ValueKind.COST, spoken=True),
        Value("times", epsilon / minimum, ValueKind.FACTOR, spoken=True),
    )
    return Section("unbiased", (sentence,), values)
