"""Public totals of releases as exact linear equations for the unknowns of sectors. No data.

x are the counts over the structured cells in a sector S, and θ_S = B x its unknowns. A file of totals by attributes F
with S ⊆ F gives C x = c. Here C adds up the structured cells of each cell of F. x° is the solution of least norm, and
P projects on the rows of C. Every other solution is x° + (I − P) z. So

    θ_S = B x° + E φ_S,     B (I − P) = E R,

with independent rows R and independent unknowns φ_S. Nothing else follows about θ_S from the totals. Files of several
releases give the equations of all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import scipy.linalg as sl

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.mechanisms.rebuilding import centred
from fitnoise.reading.impossible_cells import independent_rows, restricted_lift
from fitnoise.reading.linear_forms import AnswerSource
from fitnoise.request.domain import Domain
from fitnoise.request.impossible_rules import Mask
from fitnoise.solving.sectors import Decomposition, public_cells

UNCOMBINED = "Nothing was combined."

ROUNDING = 1e-9
"""The part of the largest number up to which two numbers that differ by rounding are equal."""


@final
@dataclass(frozen=True, eq=False)
class ExactTotals:
    """The number of records by some attributes, as a file states it.

    attributes: The attributes; empty for the number of all records.
    numbers: The number of records by their values, one axis for each.
    """

    attributes: tuple[str, ...]
    numbers: Floats

    def summed(self, attributes: Sequence[str]) -> Floats:
        """Return the numbers by some of the attributes, one axis for each."""
        others = [i for i, a in enumerate(self.attributes) if a not in attributes]
        order = [self.attributes.index(a) for a in attributes]
        return np.asarray(self.numbers.transpose(order + others).sum(axis=tuple(range(len(order), self.numbers.ndim))))


def totals_of(source: AnswerSource) -> tuple[ExactTotals, ...]:
    """Return the public totals of a release, one or none."""
    attributes, numbers = source.part.publication.public_attributes, source.rebuilt.totals
    return () if attributes is None or numbers is None else (ExactTotals(attributes, numbers),)


def distinct_totals(sources: Sequence[AnswerSource], domain: Domain) -> tuple[ExactTotals, ...]:
    """Return the public totals of releases of the same records, without those that follow from others.

    Raises:
        ReleaseError: Two files state different numbers of the same records.
    """
    stated = [x for source in sources for x in totals_of(source)]
    for one, other in itertools.combinations(stated, 2):
        shared = [a for a in one.attributes if a in other.attributes]
        numbers, others = one.summed(shared), other.summed(shared)
        if (numbers != others).any():
            cell = tuple(np.argwhere(numbers != others)[0].tolist())
            values = zip(shared, cell, strict=True)
            name = ", ".join(f"{a} = {domain[a].cell_names[i]!r}" for a, i in values) or "all records"
            raise contradicting_totals(f"One has {numbers[cell]:.0f} and the other {others[cell]:.0f} for {name}.")
    stated.sort(key=lambda x: -len(x.attributes))
    independent: list[ExactTotals] = []
    for x in stated:
        if not any(set(x.attributes) <= set(y.attributes) for y in independent):
            independent.append(x)
    return tuple(independent)


def contradicting_totals(fault: str) -> ReleaseError:
    """Return the error for public totals of releases that cannot all be right."""
    return ReleaseError(
        "public-totals-contradict",
        f"The public totals of these releases contradict each other. {fault}",
        "Releases of the same records have the same totals.",
        "Leave out the release with the wrong file.",
        UNCOMBINED,
    )


@final
@dataclass(frozen=True, eq=False)
class Solutions:
    """All solutions of the equations for a sector.

    point: One of them, θ° = B x°, (n_a for a in S…, k).
    factors: E, (k, unknowns that remain).
    sizes: The ℓ2 norms of the rows of B, and of those of B (I − P) that remain.
    """

    point: Floats
    factors: Floats
    sizes: tuple[Floats, Floats]

    def lift(self, lift: Floats) -> Floats:
        """Return L E, (rows, unknowns that remain), for L, (rows, k). Rows that follow from totals are exactly 0."""
        return restricted_lift(lift, self.factors, *self.sizes)


@final
@dataclass(frozen=True, eq=False)
class TotalsEquations:
    """The equations of public totals for the sectors of some tables.

    domain: The domain of the tables.
    decomposition: Their sectors.
    totals: The public totals.
    possible: True for each structured cell in which a record can be, (n_o,).
    """

    domain: Domain
    decomposition: Decomposition
    totals: Sequence[ExactTotals]
    possible: Mask

    @cached_property
    def _places(self) -> list[Indices]:
        """For each file, the cell of its structured attributes for each possible structured cell."""
        d = self.decomposition
        cells = [public_cells(self.domain, d.exchangeable, d.structured, x.attributes) for x in self.totals]
        return [np.array(x.places, dtype=np.intp)[self.possible] for x in cells]

    @cached_property
    def _directions(self) -> dict[tuple[int, tuple[int, ...]], tuple[Floats, tuple[Floats, Floats]]]:
        return {}

    def solutions(self, number: int, s: int) -> Solutions | None:
        """Return all solutions for a sector; None if no file has all its attributes.

        Args:
            number: The number of the group.
            s: The sector in the group.

        Raises:
            ReleaseError: There is no solution.
        """
        d, group = self.decomposition, self.decomposition.groups[number]
        names = [d.exchangeable[a] for a in group.attributes[s].tolist()]
        files = tuple(i for i, x in enumerate(self.totals) if set(names) <= set(x.attributes))
        if not files:
            return None
        basis, values = group.basis[:, self.possible].astype(np.float64), [self._sums(i, names) for i in files]
        if len(files) == 1:
            places, sums = self._places[files[0]], values[0]
            counts = np.bincount(places, minlength=sums.shape[-1])
            # Means of whole numbers that are equal have no rounding errors.
            means = np.stack([np.bincount(places, row, len(counts)) for row in basis]) / np.maximum(counts, 1)
            rest, point, errors = (
                basis - means[:, places],
                (sums / np.maximum(counts, 1))[..., places],
                sums * (counts == 0),
            )
        else:
            sums = np.concatenate(values, axis=-1)
            rows = np.concatenate(
                [np.arange(x.shape[-1])[:, None] == self._places[i] for i, x in zip(files, values, strict=True)]
            ).astype(np.float64)
            span, point = sl.orth(rows.T), sums @ np.linalg.pinv(rows).T
            rest, errors = basis - basis @ span @ span.T, point @ rows.T - sums
            rest[np.abs(rest) <= ROUNDING * np.abs(basis).max()] = 0
        if np.abs(errors).max(initial=0) > ROUNDING * max(x.numbers.sum() for x in self.totals):
            raise contradicting_totals("Together, or with the rules about impossible cells, no records can have them.")
        if (number, files) not in self._directions:
            chosen, factors = independent_rows(rest)
            self._directions[number, files] = factors, (_norms(basis), _norms(rest[chosen]))
        return Solutions(point @ basis.T, *self._directions[number, files])

    def _sums(self, i: int, names: Sequence[str]) -> Floats:
        """Return the part of a file that varies along a sector's attributes, (n_a…, cells of structured attributes)."""
        totals, free = self.totals[i], self.decomposition.exchangeable
        inner = [a for a in totals.attributes if a not in free]
        sums = totals.summed([*names, *inner])
        return centred(sums.reshape(*sums.shape[: len(names)], -1))


def _norms(rows: Floats) -> Floats:
    return np.asarray(np.sqrt((rows * rows).sum(axis=1)))
