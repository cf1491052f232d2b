"""Compute the joint cost of several releases on the same records, from public integers. Part of the trust kernel.

| symbol | meaning |
|---|---|
| v, e_i | change of the counts; that of one record in cell i |
| X_k | quadratic form of release k, a Gaussian release of linear functions of the counts x |
| q_k(v)² = vᵀ X_k v | squared distance at which release k sees the change v, in units of the noise: 2ρ of this change |

**Statement.** For add-or-remove-one neighbours, Δ² = 2ρ of release k is that of the costliest cell, max_i q_k(e_i)².
Releases on the *same* x are one release with X = Σ_k X_k. So Δ² of all is max_i Σ_k q_k(e_i)²: at most the sum of the
single Δ², and less where these peak in different cells. A :class:`Profile` stores ρ, half of these squares.

A unit of up to g records moves v = ±(e_i1 + … + e_im), m ≤ g. q(v) ≤ m max_i q(e_i) by the triangle inequality, so the
unit costs at most g² times as much. Moreover, q(v)² is at most the mean of m² q(e_i)² over its records. The same holds
with smaller charges, for records that differ in some attribute. A profile is a function of cells whose mean over the
records of a unit is at least the cost of the unit. Such means add.

Releases need not be chosen in advance. For each fixed pair of neighbours their costs add, even if each is chosen after
seeing those before it. This is a privacy filter for that pair (Feldman and Zrnic 2021). :func:`joint` bounds the
largest total over all pairs.

**Condition.** x must be the same counts, cell by cell: the statement is wrong for a record that lies in different cells
in two releases. So attributes are matched by a key that stands for their complete definition. Two keys are two axes,
even of one column. Their product contains every cell a record can lie in, and the maximum over it is an upper bound.

The mean is over the counted records of a unit, so all releases must count the same ones. Releases that may leave out
different records of a unit share no key (:func:`fitnoise.kernel.domain.axis_key`), and their largest values add up.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import LedgerError

FRACTION_BITS = 64
"""The number of binary digits after the point: values are multiples of 2^−FRACTION_BITS."""

MAX_CELLS = 2**20
"""The largest number of joint cells that one array adds up (about 0.1 s and 0.1 GB); above it, the result is an upper
bound.
"""

_Axes = tuple[str, ...]  # keys in increasing order

_Factors = dict[_Axes, NDArray[Any]]  # Python integers, one dimension per axis: a sum of functions of some axes


def steps_above(rho: Fraction, bits: int = FRACTION_BITS) -> int:
    """Return ⌈ρ·2^bits⌉, the least number of steps of 2^−bits that is at least ρ."""
    return -(-(rho.numerator << bits) // rho.denominator)


def ceil_dyadic(rho: Fraction, bits: int = FRACTION_BITS) -> Fraction:
    """Return the least multiple of 2^−bits that is at least ρ: ⌈ρ·2^bits⌉ / 2^bits.

    Raises:
        LedgerError: ρ is not a ``Fraction``. A float is refused, because its value before rounding is unknown.

    **Guarantees**: ρ ≤ result < ρ + 2^−bits. A multiple of 2^−bits is returned unchanged. The result is monotone in ρ.
    """
    if not isinstance(rho, Fraction):
        raise LedgerError(
            "cost-not-a-fraction",
            f"A cost is {reprlib.repr(rho)}, which is not a Fraction.",
            "Only exact costs are charged.",
            "Give the cost as a Fraction.",
            "Nothing was charged and nothing was changed.",
        )
    return Fraction(steps_above(rho, bits), 1 << bits)


@final
@dataclass(frozen=True)
class Profile:
    """The cost of one unit in each joint cell of some attributes.

    A unit with records in several cells costs at most the mean of their values.

    Attributes:
        axes: The (key, size) of each attribute, no key twice.
        values: Upper bounds on ρ of a unit with all records in that cell, in units of 2⁻⁶⁴, rounded up; C order, length
            Π sizes.

    Raises:
        LedgerError: An argument has another form, such as a float.
    """

    axes: tuple[tuple[str, int], ...]
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        pairs = isinstance(self.axes, tuple) and all(isinstance(a, tuple) and len(a) == 2 for a in self.axes)
        if not pairs or not all(type(key) is str and type(n) is int and n > 0 for key, n in self.axes):
            raise LedgerError(
                "profile-axes-invalid",
                "The axes of a profile are not pairs of a key and a size of at least 1.",
                "",
                "Give one such pair for each axis.",
                "Nothing was charged.",
            )
        if len({key for key, _ in self.axes}) != len(self.axes):
            raise LedgerError(
                "profile-axis-twice",
                "A profile names one axis twice.",
                "",
                "Name each axis once.",
                "Nothing was charged.",
            )
        if not isinstance(self.values, tuple) or not all(type(v) is int and v >= 0 for v in self.values):
            raise LedgerError(
                "profile-values-invalid",
                "The values of a profile are not a tuple of Python integers of at least 0.",
                "The values are in units of 2⁻⁶⁴.",
                "Give a tuple of such integers.",
                "Nothing was charged.",
            )
        stop = len(self.values) + 1  # A product above it is not computed.
        if len(self.values) != reduce(lambda cells, axis: min(cells * axis[1], stop), self.axes, 1):
            raise LedgerError(
                "profile-values-misfit-axes",
                "A profile does not have one value for each joint cell of its axes.",
                "",
                "Give one value for each joint cell.",
                "Nothing was charged.",
            )

    @classmethod
    def from_rho(cls, axes: Iterable[tuple[str, int]], rho: Iterable[Fraction]) -> Self:
        """Return a profile with the exact ρ of each cell rounded up to a multiple of 2⁻⁶⁴.

        Raises:
            LedgerError: A cost is not a Fraction of at least 0, or the costs do not fit the axes.

        **Guarantees**: Every value is at least its ρ, and `largest` is the largest ρ rounded up.
        """
        exact = tuple(rho)
        if not all(isinstance(r, Fraction) and r >= 0 for r in exact):
            raise LedgerError(
                "profile-costs-invalid",
                "The costs of a profile are not all Fractions of at least 0.",
                "Only exact costs are charged.",
                "Give each cost as a Fraction.",
                "Nothing was charged.",
            )
        return cls(tuple(axes), tuple(steps_above(r) for r in exact))

    @cached_property
    def largest(self) -> Fraction:
        """The cost of a release with this profile by itself."""
        return Fraction(max(self.values), 1 << FRACTION_BITS)

    def document(self) -> dict[str, Any]:
        """Return plain JSON values, with integers of any length."""
        return {"axes": [[key, n] for key, n in self.axes], "values": list(self.values)}

    @classmethod
    def parse(cls, document: object) -> Self:
        """Return the profile of a document; only the output of `document` is accepted.

        Raises:
            LedgerError: The document does not have the form that `document` writes.
        """
        has_keys = isinstance(document, Mapping) and document.keys() == {"axes", "values"}
        # A ledger is a file that others can edit, so nothing about the form of the document is assumed.
        parts = (document["axes"], document["values"]) if isinstance(document, Mapping) and has_keys else (None, None)
        axes, values = parts
        if not isinstance(axes, list) or not isinstance(values, list) or not all(isinstance(a, list) for a in axes):
            raise LedgerError(
                "profile-not-readable",
                "A profile is not two lists with the keys axes and values.",
                "",
                "Give a profile as fitnoise writes it.",
                "Nothing was charged.",
            )
        return cls(tuple(tuple(a) for a in axes), tuple(values))


@final
@dataclass(frozen=True)
class ChargedPlan:
    """A plan that was charged: its hash, and its profile, the cost for one unit in each cell."""

    plan: str
    profile: Profile


def joint(profiles: Iterable[Profile], *, max_cells: int = MAX_CELLS) -> Fraction:
    """Return ρ of all releases on the same records: the maximum over the joint cells of all axes of Σ_k values_k.

    Axes are maximised out one by one. All functions of an axis are added up before its maximum is taken, which is
    exact. Where a sum would need more than `max_cells` cells, it is split into several parts, and the maximum of each
    part is taken.

    Args:
        profiles: The profiles of the releases; without any, the cost is 0.
        max_cells: The largest number of joint cells of one array, for the sum of several profiles.

    Raises:
        LedgerError: Two profiles give one key different sizes, so their cells differ.

    **Guarantees**
        * The result is exact while no sum needs more than `max_cells` cells. It is always at least the exact maximum,
          hence at least every `largest`, and at most the sum of all `largest`.
        * The result, and its exactness, do not depend on the order of profiles or axes.
        * The result does not fall if none of the values falls.
    """
    listed = list(profiles)
    sizes: dict[str, int] = {}
    for key, n in (axis for p in listed for axis in p.axes):
        if sizes.setdefault(key, n) != n:
            raise LedgerError(
                "profile-sizes-differ",
                f"Two profiles give the axis {key!r} the sizes {sizes[key]} and {n}.",
                "Profiles with different sizes have different cells.",
                "Compose only releases with the same cells of this axis.",
                "Nothing was charged.",
            )
    # Python integers: sums of values in units of 2⁻⁶⁴ exceed 64 bits.
    factors: _Factors = {(): np.array(0, dtype=object)}
    for p in listed:
        _include(factors, *_factor(p))
    axes = {key for key, n in sizes.items() if n > 1}
    while axes:
        ranked = {a: [f for f in factors if a in f] for a in axes}
        # An axis of one function goes first: its maximum is exact, and makes later sums smaller.
        # The order of axes depends on keys and sizes alone, so the result does not depend on the order of profiles.
        axis = min(axes, key=lambda a: (len(ranked[a]) > 1, _cells(_union(ranked[a]), sizes), a))
        axes.remove(axis)
        # max(a + b) ≤ max a + max b: one part gives the exact maximum, and several parts an upper bound.
        for part in _parts(ranked[axis], sizes, max_cells):
            union = _union(part)
            total = _added([(f, factors.pop(f)) for f in part], union, sizes)
            _include(factors, tuple(a for a in union if a != axis), total.max(axis=union.index(axis)))
    return Fraction(int(factors[()].item()), 1 << FRACTION_BITS)


def _factor(p: Profile) -> tuple[_Axes, NDArray[Any]]:
    """Return the values of a profile over its axes of two cells or more, in increasing order of their keys."""
    # An axis of one cell distinguishes no records.
    axes = [(key, n) for key, n in p.axes if n > 1]
    values = np.array(p.values, dtype=object).reshape([n for _, n in axes])
    order = sorted(range(len(axes)), key=lambda i: axes[i][0])
    return tuple(axes[i][0] for i in order), values.transpose(order)


def _include(factors: _Factors, axes: _Axes, values: object) -> None:
    """Add a function to a sum of functions, in place."""
    factors[axes] = np.asarray(factors[axes] + values if axes in factors else values, dtype=object)


def _added(terms: list[tuple[_Axes, NDArray[Any]]], union: _Axes, sizes: Mapping[str, int]) -> NDArray[Any]:
    """Return the sum of functions, each given with its axes, as an array with one axis for each of `union`."""
    shaped = [values.reshape([sizes[a] if a in axes else 1 for a in union]) for axes, values in terms]
    return np.asarray(reduce(np.add, shaped), dtype=object)


def _parts(bucket: list[_Axes], sizes: Mapping[str, int], max_cells: int) -> list[list[_Axes]]:
    """Return groups of functions whose sums fit into `max_cells`: largest first, each in the first group with room.

    The groups do not depend on the values.
    """
    parts: list[list[_Axes]] = []
    for axes in sorted(bucket, key=lambda f: (-_cells(f, sizes), f)):
        part = next((p for p in parts if _cells(_union([*p, axes]), sizes) <= max_cells), None)
        if part is None:
            parts.append([axes])
        else:
            part.append(axes)
    return parts


def _union(factors: list[_Axes]) -> _Axes:
    return tuple(sorted({a for axes in factors for a in axes}))


def _cells(axes: _Axes, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[a] for a in axes)
