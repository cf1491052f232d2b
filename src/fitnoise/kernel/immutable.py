"""Objects that cannot change after they were checked, of the kernel's own classes. Part of the trust kernel.

A price is computed from an object and charged before the object is used again. It is right only if nothing replaces a
method of the object and nothing changes the object meanwhile. A subclass can do the first, a list or an array that
can be written to the second. So the walk below accepts exact types only.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeVar, final

import numpy as np

K = TypeVar("K")
V = TypeVar("V")

VALUE_TYPES: Final = frozenset(
    {type(None), bool, int, float, str, bytes, Fraction, date, range, type, np.str_, np.float64}
)  # names and numbers that come out of NumPy's arrays among them
"""Types of values that have no parts and cannot change."""


@final
class FixedMapping(Mapping[K, V]):
    """A mapping that cannot change: a copy of what it was made of. Equal to any mapping with the same items."""

    __slots__ = ("_items",)

    _items: dict[K, V]

    def __init__(self, items: Mapping[K, V]) -> None:
        object.__setattr__(self, "_items", dict(items))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: this mapping does not change.")

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __or__(self, other: Mapping[K, V]) -> dict[K, V]:
        return {**self._items, **other}

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedMapping, (dict(self._items),)


def is_of_kernel(kind: type) -> bool:
    """Return True for a class that a module of the kernel defines under this name."""
    is_inside = kind.__module__.startswith("fitnoise.kernel.")
    # A foreign class can claim a module of the kernel as its own. Only the object under that name there counts.
    return is_inside and vars(sys.modules[kind.__module__]).get(kind.__qualname__) is kind


def changeable(value: Any) -> str | None:
    """Return the name of the first type inside a value that can change or is foreign to the kernel, or `None`.

    The walk accepts plain values (`VALUE_TYPES`), tuples, a :class:`FixedMapping`, arrays that cannot be written to,
    and the kernel's frozen dataclasses and enumerations. Everything inside them must be accepted too. The objects in an
    array must be whole numbers of Python.

    **Guarantees**
        * The walk refuses a subclass of an accepted type, unless the kernel defines the subclass.
        * The walk looks at the fields of an object, and not at the values of its cached properties.
    """
    # Ids stay valid during the walk, because `value` keeps all parts alive.
    waiting, seen = [value], {id(value)}
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is np.ndarray:
            # The types of an object array are compared exactly: a subclass of int can replace its arithmetic.
            if item.flags.writeable or not (item.dtype.kind in "biuf" or {int} >= set(map(type, item.flat))):
                return "ndarray"
        elif kind is tuple or is_of_kernel(kind):
            if not (issubclass(kind, (tuple, Enum, FixedMapping)) or _is_frozen(kind)):
                return kind.__name__
            inner = [x for x in _parts(item) if id(x) not in seen]
            seen.update(map(id, inner))
            waiting += inner
        elif kind not in VALUE_TYPES:
            return kind.__name__
    return None


def _is_frozen(kind: type) -> bool:
    return is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _parts(item: Any) -> Iterator[Any]:
    """Yield the parts of a collection or an object that are not plain; of many rows of plain values, none."""
    if isinstance(item, Enum):
        return
    if isinstance(item, FixedMapping):
        parts: Collection[Any] = (*item, *item.values())
    elif isinstance(item, tuple):
        parts = item
    elif "__dataclass_fields__" in vars(type(item)):
        # Fields are read by name: a frozen dataclass with cached properties has their values in `vars` too.
        parts = [getattr(item, f.name) for f in fields(item)]
    else:
        # A subclass that is no dataclass itself (`LeafCodes`) can hold more than the inherited fields.
        parts = [x for name, x in vars(item).items() if not isinstance(getattr(type(item), name, 0), cached_property)]
    kinds = set(map(type, parts))
    # One pass over the types, without a Python loop: a list of places can have millions of rows.
    if kinds == {tuple} and set(map(type, chain.from_iterable(parts))) <= VALUE_TYPES:
        return
    if not kinds <= VALUE_TYPES:
        yield from (x for x in parts if type(x) not in VALUE_TYPES)
