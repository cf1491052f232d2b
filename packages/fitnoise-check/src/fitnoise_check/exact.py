"""Checks and numbers that all modules share."""

from fractions import Fraction as Q
from itertools import combinations
from math import frexp, lcm

import numpy as np


class Wrong(Exception):
    """A number of the plan is not as the plan states it."""


class Unknown(Exception):
    """This program cannot compute the number."""


def need(true, what, kind=Wrong):
    """Raise an exception unless something is true."""
    if not true:
        raise kind(what)


def integer_matrix(rows):
    """Return a matrix of Python's integers, which never overflow."""
    need(all(type(x) is int for row in rows for x in row), "a design is made of whole numbers")
    return np.array(rows, dtype=object).reshape(len(rows), -1)


def class_of(a):
    """Return the attribute on which the range of an amount depends, or None for one range: section 2."""
    return next((x["by"] for x in (a.get("high"), a.get("low")) if isinstance(x, dict)), None)


def subsets(items):
    """Return all subsets."""
    return (frozenset(x) for k in range(len(items) + 1) for x in combinations(items, k))


def inverse_squares(scales):
    """Return a unit, and in it 1/s² of noise scales: exact, or rounded up where there are more than 64."""
    values = {text: Q(text) for text in scales}
    need(min(values.values()) > 0, "a noise scale is above 0")
    unit = lcm(*(s.numerator**2 for s in values.values()))
    if len(set(values.values())) > 64:
        unit = 2 ** max(0, 2 * frexp(max(values.values()))[1] + 96)
    return unit, {text: -(-unit * s.denominator**2 // s.numerator**2) for text, s in values.items()}
