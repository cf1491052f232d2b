"""Bounds of exponentials and logarithms, against decimals of many digits: what proofs of finite mechanisms rest on."""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from fitnoise.kernel import exact_powers
from fitnoise.kernel.exact_powers import (
    MAX_EPSILON,
    MIN_EPSILON,
    alpha_above,
    exp_below,
    exp_bounds,
    log_above,
    rational,
)
from refused import refused

DIGITS = decimal.Context(prec=120)
CERTAIN = Fraction(1, 10**100)
"""Largest relative error of the oracle."""


def exponential(x):
    return Fraction(DIGITS.exp(DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))))


def logarithm(x):
    return Fraction(DIGITS.ln(DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator))))


@pytest.mark.parametrize(("guard", "max_distance"), [(exact_powers._GUARD, 1), (0, 30), (-2, math.inf)])
def test_bounds_hold_the_exponential(monkeypatch, rng, guard, max_distance):
    """Without guard bits every rounding shows in the result: one in the wrong direction would show too."""
    monkeypatch.setattr(exact_powers, "_GUARD", guard)
    for _ in range(700):
        bits = int(rng.integers(4, 120))
        x = Fraction(int(rng.integers(0, 2**30)), int(rng.integers(1, 2 ** int(rng.integers(1, 31)))))
        x = x if x < 60 and rng.random() < 0.5 else x % int(rng.choice([1, 2, 51]))
        low, high = exp_bounds(x, bits)
        true = exponential(x) * 2**bits
        assert low <= true * (1 + CERTAIN)
        assert high >= true * (1 - CERTAIN)
        assert 0 <= high - low <= max_distance
    assert exp_bounds(Fraction(0), 40)[0] == 2**40


@pytest.mark.parametrize("epsilon", [MIN_EPSILON, Fraction(1, 3), Fraction(1), Fraction(29, 4), MAX_EPSILON])
def test_alpha_is_the_smallest_of_its_digits_that_is_not_below(epsilon):
    """64 bits behind the first."""
    below = exponential(epsilon)
    digits = 64 + (math.floor(below * 2**192)).bit_length() - 192
    assert alpha_above(epsilon) == Fraction(math.ceil(2**digits / below), 2**digits) < 1
    assert exp_below(epsilon) <= below
    assert below - exp_below(epsilon) < Fraction(1, 2**190)


def test_alpha_is_no_less_also_where_every_rounding_shows(monkeypatch, rng):
    """The test uses only as many digits of the exponential as are returned."""
    monkeypatch.setattr(exact_powers, "_WORK", 64)
    for epsilon in rng.uniform(0.001, 50, 100):
        x = Fraction(float(epsilon))
        assert alpha_above(x) * exponential(x) >= 1 - CERTAIN


def test_powers_fall_by_what_is_rounded_up():
    assert list(itertools.islice(exact_powers.falling(Fraction(2, 3), 4), 6)) == [16, 11, 8, 6, 4, 3]
    assert next(exact_powers.falling(Fraction(1, 2))) == 2**exact_powers.ALPHA_POWER_BITS


@pytest.mark.parametrize(
    "ratio",
    [
        Fraction(1),
        1 + Fraction(1, 10**30),
        Fraction(3, 2),
        Fraction(2),
        Fraction(7, 2),
        Fraction(10) ** 400,  # no float
        *(Fraction(k * 10**300 + 1, 10**300) for k in range(3, 20)),  # two logarithms cancel: a guess may be too low
    ],
)
def test_a_logarithm_is_no_less_and_hardly_more(ratio):
    bound, true = log_above(ratio), logarithm(ratio) if ratio != 1 else Fraction(0)
    assert bound >= true * (1 - CERTAIN)
    assert bound - true <= true / 10**15 + Fraction(math.log(ratio.denominator)) / 10**15
    assert exp_below(bound) >= ratio


def test_epsilon_is_accepted_unchanged_between_its_limits():
    assert (rational(2.0**-20), rational(MIN_EPSILON), rational(50), rational(50.0)) == (
        MIN_EPSILON, MIN_EPSILON, 50, 50,
    )  # fmt: skip
    assert rational(0.1) == Fraction(0.1)
    for epsilon in (MIN_EPSILON - Fraction(1, 2**80), 50 + Fraction(1, 2**80), True, "1", None, math.nan):
        with refused("workload.epsilon-not-a-number", "workload.epsilon-out-of-range"):
            rational(epsilon)
