"""The values that count as a number or a name, for all functions that take one."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fitnoise.kernel.checks import (
    are_confusable,
    checked_integer,
    checked_positive,
    is_integer,
    is_name,
    is_plain,
    is_real,
)
from fitnoise.kernel.units import Account, DataSource, Neighbours, PrivacyUnit
from fitnoise.request.publication import Budget, SmallDatabase
from fitnoise.request.targets import Target, TargetKind
from refused import refused

INTEGERS = [0, -3, 10**30, np.int8(5), np.uint64(2**63)]
REAL = [*INTEGERS, 0.5, -math.inf, math.nan, np.float32(1.5), np.longdouble(2)]
NEITHER = [True, np.True_, "1", None, 1j, [1], np.array([1]), Decimal(1), Fraction(1), object()]


def test_integers_are_those_of_python_and_numpy():
    assert all(is_integer(x) for x in INTEGERS)
    assert not any(is_integer(x) for x in [*NEITHER, *REAL[len(INTEGERS) :]])


def test_reals_are_integers_and_floats():
    assert all(is_real(x) for x in REAL)
    assert not any(is_real(x) for x in NEITHER)


def test_plain_numbers_are_those_that_documents_hold():
    """A value that is stored unchanged must be plain, or writing it would fail much later."""
    assert all(is_plain(x) for x in (0, -3, 0.5, math.nan))
    assert not any(is_plain(x) for x in [*NEITHER, np.int64(5), np.float32(0.5)])
    for wrong in (np.int64(5), np.float32(0.5)):
        with refused("spec.cost-not-positive"):
            Budget(rho=wrong)
        with refused("spec.small-number-unusable"):
            SmallDatabase(wrong)
    with refused("spec.temperature-out-of-range"):
        SmallDatabase(50, temperature=np.float32(0.01))
    assert type(Target(TargetKind.MARGIN, 3, np.float32(0.5)).confidence) is float


@pytest.mark.parametrize("wrong", [*NEITHER, *REAL[len(INTEGERS) :], 1, 0, -3])
def test_a_value_that_is_no_integer_or_too_small_is_named(wrong):
    with refused("workload.not-a-whole-number") as caught:
        checked_integer("steps", wrong, 2)
    assert caught.value.given == f"The value of steps is {wrong!r}."
    assert type(checked_integer("steps", np.int16(2), 2)) is int


@pytest.mark.parametrize("wrong", [*NEITHER, 0, -1.0, math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_positive_or_not_finite_is_named(wrong):
    with refused("workload.not-a-positive-number") as caught:
        checked_positive("scale", wrong)
    assert caught.value.given == f"The value of scale is {wrong!r}."
    assert checked_positive("scale", np.float32(0.5)) == 0.5


@pytest.mark.parametrize("name", ["", " a", "a ", "a\n", "a\tb", "e\u0301", "\u200b", None, 3, b"a"])
def test_names_have_one_spelling(name):
    """Detects names that look equal or empty, under which budgets would be added separately."""
    assert not is_name(name)
    for cls in (DataSource, PrivacyUnit):
        with refused("spec.source-name-invalid", "spec.unit-name-invalid"):
            cls(name)
    assert is_name("\u00e9 b")


TWINS = [
    "People",
    "PEOPLE",
    "peоple",
    "рeoplе",
    "ΡEΟΡLΕ",
    "ｐｅｏｐｌｅ",
    "peop\ufe0fle",
    "people\u3164",
    "peop1e",
    "pe0p1e",
    "peopIe",
    "pe0ple",
    "рe0pIе",
]


@pytest.mark.parametrize("twin", ["he11o", "heIIo", "he1Io", "hel|o"])
def test_several_digits_within_a_word_are_letters_too(twin):
    assert are_confusable("hello", twin)
    assert are_confusable("schools", "sch00ls")
    assert not are_confusable("hello", "he2lo")


@pytest.mark.parametrize("twin", TWINS)
def test_names_that_are_read_as_one_are_confusable(twin):
    """Detects a second budget under the same name: by case, Cyrillic or Greek letters, width, digits within a
    word, or what is not seen.
    """
    assert is_name(twin)
    assert are_confusable(twin, "people")
    assert are_confusable("people", twin)
    assert not are_confusable(twin, "peoples")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("survey 2024-25", "survey  2024\u201325", True),  # two spaces, an en dash
        ("l\u2019emploi", "l'emploi", True),
        ("ПЕРЕПИСЬ", "перепись", True),
        ("ΝΗΣΟΣ", "νησος", True),  # the case of a script that is not Latin, though its letters look like it
        ("wave1", "wave2", False),
        ("wave1", "wavel", False),
        ("wave I", "wave l", False),
        ("2010", "2OlO", False),
        ("DISTRICT 10", "district 10", True),
        ("pêche", "péché", False),
        ("person", "persons", False),
        ("東京", "東", False),
    ],
)
def test_names_that_are_read_as_different_are_not_confusable(one, other, same):
    assert are_confusable(one, other) is same


@pytest.mark.parametrize("records", [2.5, True, "3", None, np.int64(3), 0])
def test_bounds_on_records_are_integers(records):
    with refused("spec.max-records-invalid"):
        DataSource(max_records=records)
    with refused("spec.max-records-per-unit-invalid"):
        PrivacyUnit(max_records=records)


NAMES = st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs")), min_size=1, max_size=12).filter(is_name)


@given(name=NAMES, records=st.integers(1, 10**12), relation=st.sampled_from(Neighbours))
@example("record", 1, Neighbours.REPLACE_ONE)
@example("person (at most 2 records)", 1, Neighbours.REPLACE_ONE)
def test_a_unit_is_read_from_the_document_of_its_account(name, records, relation):
    unit = PrivacyUnit(name, records, relation)
    assert str(unit) == unit.describe() == unit.account
    account = Account("homes", unit)
    assert Account.parse("homes", json.loads(account.key)) == account
    assert (account.unit, account.sentence) == (unit, unit.account)
