"""The walk finds objects that can change, or are foreign to the kernel, at any depth."""

import copy
import pickle
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.kernel.designs.graphs import LabelTuples
from fitnoise.kernel.immutable import FixedMapping, changeable, is_of_kernel
from fitnoise.kernel.order import CostLimit
from fitnoise.kernel.units import Neighbours

OPEN, CLOSED, BIG = np.arange(3), np.arange(3), np.array([2**70, 1], dtype=object)
for array in (CLOSED, BIG):
    array.setflags(write=False)
MIXED = np.array([2**70, 1.5], dtype=object)
MIXED.setflags(write=False)
TEXTS = np.array(["a"])
TEXTS.setflags(write=False)


class Number(Fraction):
    """A number that may say anything."""


class Day(date):
    """A day of another library."""


@dataclass(frozen=True)
class Stranger:
    """Not of the kernel."""

    x: int = 1


@dataclass
class Loose:
    """A class of the kernel that is not frozen."""

    x: int = 1


class Undecorated:
    """A class of the kernel that is no dataclass."""

    def __init__(self):
        self.x = 1


def copied(x):
    """Return a deep copy, and one that went through pickle."""
    return copy.deepcopy(x), pickle.loads(pickle.dumps(x))  # noqa: S301 - just written


GOOD = {
    "plain": (None, True, 1, 1.5, "a", b"a", Fraction(1, 2), range(3), int),
    "of NumPy": (np.str_("a"), np.float64(1.5), fn.Domain({np.str_("a"): fn.Categorical([np.int8(1)])}).axes),
    "rows": ((1, "a"), (2, "b")),
    "rows of more": ((1, (2, (CLOSED,))), (3,)),
    "arrays": (CLOSED, BIG),
    "mapping": FixedMapping({"a": (CLOSED,), ("b", 1): 2}),
    "enumeration": (Neighbours.REPLACE_ONE,),
    "dataclass": CostLimit("cap", Fraction(1)),
    "no dataclass": LabelTuples([("a", "b"), (1, 2)]),
    "levels": fn.Domain(place=fn.Hierarchy(["a", "b"], [("x", "y"), ("x", "z")])).axes,
    "listed by numbers": fn.Domain(place=fn.Hierarchy.regular(a=10, b=100_000)).axes,
    "missing": fn.Domain(age=fn.Ordered(0, 9, missing={"none": [-1]}), pay=fn.Amount(0, 9)).axes,
    "unit": fn.PrivacyUnit("person", 2, per_value={"month": 3}),
    "numbers of NumPy by value": fn.Domain(
        k=fn.Categorical(["a", "b"]),
        listed=fn.Amount(0, fn.ByAttribute("k", np.array([100, 200]))),
        named=fn.Amount(
            fn.ByAttribute("k", {"a": np.int64(-3)}, np.float32(-1.5)), fn.ByAttribute("k", [6, np.int8(3)]), step=0.5
        ),
    ).axes,
    "day of a subclass": (
        fn.DataSource(where={"born": {"below": Day(2024, 1, 1)}}),
        fn.Domain(age=fn.Ordered(0, 9, date_part={"age_on": Day(2024, 1, 1)})).axes,
    ),
}

BAD = {
    "list": ((1, [2]), "list"),
    "dict": ({}, "dict"),
    "set": (frozenset(), "frozenset"),
    "array": (((1, OPEN),), "ndarray"),
    "array of others": (MIXED, "ndarray"),
    "array of texts": (TEXTS, "ndarray"),
    "subclass": (Number(1), "Number"),
    "stranger": ((1, (Stranger(),)), "Stranger"),
    "stranger in a mapping": (FixedMapping({1: Stranger()}), "Stranger"),
    "stranger as a key": (FixedMapping({Stranger(): 1}), "Stranger"),
    "in a dataclass": (CostLimit("cap", Fraction(1), designs=(0,)), None),
    "number of NumPy that is no float": (np.float32(1.5), "float32"),
    "function": (len, "builtin_function_or_method"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_cannot_change_is_accepted(name):
    assert changeable(GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_what_can_change_or_is_a_strangers_is_named(name):
    value, kind = BAD[name]
    assert changeable(value) == kind


@pytest.mark.parametrize("kind", [Loose, Undecorated])
def test_a_class_of_the_kernel_that_is_not_frozen_is_named(kind, monkeypatch):
    monkeypatch.setattr(f"fitnoise.kernel.immutable.{kind.__name__}", kind, raising=False)
    monkeypatch.setattr(kind, "__module__", "fitnoise.kernel.immutable")
    assert is_of_kernel(kind)
    assert changeable((kind(),)) == kind.__name__


@pytest.mark.parametrize("name", ["Stranger", "FixedMapping"])
def test_a_class_is_not_of_the_kernel_because_it_says_so(name):
    assert is_of_kernel(FixedMapping)
    assert not is_of_kernel(Stranger)
    assert not is_of_kernel(type(name, (), {"__module__": "fitnoise.kernel.immutable"}))


def test_kept_values_are_not_looked_at_nor_made():
    """The walk does not list the ten million codes of a regular tree."""
    domain = fn.Domain(place=fn.Hierarchy.regular(a=10, b=100_000)).axes
    domain["a"].coding.__dict__["shared"] = [1, 2]
    assert changeable(domain) is None
    assert "codes" not in vars(domain["place"].tree)


def test_a_fixed_mapping_is_a_mapping_that_does_not_change():
    source = {"a": 1, "b": 2}
    fixed = FixedMapping(source)
    source["c"] = 3
    assert dict(fixed) == {"a": 1, "b": 2} == fixed
    assert fixed == {"b": 2, "a": 1}
    assert (fixed["b"], len(fixed), list(fixed), "c" in fixed, repr(fixed)) == (
        2,
        2,
        ["a", "b"],
        False,
        "{'a': 1, 'b': 2}",
    )
    assert fixed | {"b": 5} == {"a": 1, "b": 5}
    with pytest.raises(AttributeError, match="_items cannot be set"):
        fixed._items = {}
    for other in copied(fixed):
        assert type(other) is FixedMapping
        assert other == fixed


def test_a_copy_of_a_tree_cannot_be_written_to_either():
    domain = fn.Domain(place=fn.Hierarchy(["a", "b"], [("x", "y"), ("x", "z")])).axes
    for other in copied(domain):
        assert other == domain
        assert changeable(other) is None
