"""Rebuilding of consistent tables and exact covariances from noisy answers.

This module only post-processes. It cannot see data: it imports neither `measure` nor `counting`, and takes a part of a
plan and a vector of noisy integers.

    θ_S                                                 sector estimates, by the `estimation` of the strategy.

    table A = Σ_{S⊆A} L_{A,S} θ_S / Π_{a∈A∖S} n_a       L_{A,S}: the lift. Common margins agree by construction.

    cov(f, h) = Σ_S ⟨p_S(f), (cov(θ) p(h))_S⟩               for any linear combinations f, h of published numbers.

A table needs the sectors of its own attributes and no others. Sectors and tables of equal shape are handled as stacks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast, final

import numpy as np

from fitnoise.algebra import rules
from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Exact, Floats, Indices, equal_rows
from fitnoise.kernel.designs._base import PublicCells
from fitnoise.mechanisms.estimation import AxisEstimation, SectorIndex, SectorTablesPart
from fitnoise.mechanisms.numbers import with_sums
from fitnoise.request.workloads import list_names
from fitnoise.solving.sectors import Members, TableGroup

NUMBERS_PER_BATCH = 2**22
"""Largest number of values in one stack of rebuilt tables."""


NUMBERS_PER_BLOCK = 2**18
"""The number of values of a stack to which parts are added at once: their product takes as much memory again."""


Route = tuple[int, Members, Sequence[tuple[tuple[int, ...], Indices, Indices]]]
"""A group of sectors, and the position of some tables in them (`_pairs`)."""

RouteCache = dict[tuple[int, bytes], list[Route]]
"""Cached routes of tables, by the first table of their group and their indices in it."""


def answers_of_another_plan() -> ReleaseError:
    """Return the error for noisy answers that do not belong to a plan."""
    return ReleaseError(
        "answers-of-another-plan",
        "The noisy answers are not those of this plan.",
        "A plan needs one answer for each of its rows.",
        "Use the plan and the answers of one release.",
        "Nothing was rebuilt.",
    )


class RebuiltTables:
    """Sector estimates, and the tables that follow from them.

    Args:
        part: The tables and their design.
        answers: The noisy answers as drawn: one vector of integers per group of sectors, sector after sector. They
            count parts of a record if the unit has shares.
        totals: The public totals, if the plan has some: the number of records by their attributes.

    Raises:
        ReleaseError: The answers do not belong to the plan.

    **Guarantees**
        * Each number is an unbiased estimate of the true count. Its variance is the one the plan states, or less, by
          the discreteness of the noise.
        * Sums of two tables over their common margins agree, up to floating point.
        * Work and memory for a table depend on that table and its margins, not on other tables or on the domain.
    """

    _totals: Floats | None = None

    def __init__(self, part: SectorTablesPart, answers: Sequence[Exact], totals: Floats | None = None) -> None:
        self.part, self._totals = part, totals
        self._estimation = part.estimation
        if tuple(len(y) for y in answers) != self._estimation.lengths:
            raise answers_of_another_plan()
        parts = part.publication.unit.parts
        # With one part the integers stay as drawn; otherwise each record counts `parts` in them.
        self._answers = tuple(answers) if parts == 1 else tuple(y.astype(np.float64) / parts for y in answers)

    @property
    def totals(self) -> Floats | None:
        """The public totals, if the plan has some."""
        return self._totals

    def estimates(self, group: int, sectors: Indices) -> Floats:
        """Return θ_S of the given sectors of a group, all of the same sizes, (K, n_a for a in S…, k).

        In sectors of public attributes, it is that of the basis less its means over the public cells. The totals give
        the difference.
        """
        thetas = self._estimation.estimates(self._answers, group, sectors)
        sector_group = self.part.decomposition.groups[group]
        if self._totals is not None and self.part.decomposition.public_places(sector_group) is not None:
            for i, axes in enumerate(sector_group.attributes[sectors].tolist()):
                thetas[i] -= centred(self._spread_totals(axes, self._totals) @ sector_group.basis.T)
        return thetas

    def table(self, name: str) -> Floats:
        """Return one table, in its shape.

        Raises:
            WorkloadError: There is no such table.
        """
        d, workload = self.part.decomposition, self.part.publication.workload
        number = workload.number(name)
        if not d.blocks:
            group, i = d.group_of(number)
            return np.asarray(self._stack(group, np.array([i]))[0])
        # A number of no block is 0, because no record can have its values.
        out = np.zeros(workload.tables[number].shape(workload.domain))
        for t, index in d.parts_of(number):
            group, i = d.group_of(t)
            out[index] = self._stack(group, np.array([i]))[0]
        return out

    def stacks(self, among: Collection[int] | None = None) -> Iterator[tuple[Indices, Floats]]:
        """Yield all tables, or those with an index in `among`, as indices (T,) and a stack (T, shape of the table…)."""
        if self.part.decomposition.blocks:
            names = self.part.publication.workload.tables.names
            for t in range(len(names)) if among is None else among:
                yield np.array([t]), self.table(names[t])[None]
            return
        for group in self.part.decomposition.tables:
            rows = np.arange(len(group.tables)) if among is None else np.flatnonzero(np.isin(group.tables, list(among)))
            sizes = np.array(self.part.decomposition.sizes)[group.axes[rows]]
            for shape, which in equal_rows(sizes):
                here = rows[which]
                # One stack of all tables of a group can exceed the memory.
                step = max(1, NUMBERS_PER_BATCH // (math.prod(shape) * group.variances.shape[1]))
                for i in range(0, len(here), step):
                    batch = here[i : i + step]
                    yield group.tables[batch], self._stack(group, batch)

    def _routes(self, group: TableGroup, here: Indices) -> Iterable[Route]:
        return _routes(self.part, group, here)

    def _stack(self, group: TableGroup, here: Indices) -> Floats:
        """Return some tables of one group, all of the same sizes, in their shape."""
        d = self.part.decomposition
        sizes = [d.sizes[a] for a in group.axes[here[0]]]
        total = np.zeros((len(here), *sizes, group.variances.shape[1]))
        if self._totals is not None:
            for i, axes in enumerate(group.axes[here].tolist()):
                total[i] += group.answers(self._spread_totals(axes, self._totals))
        for number, members, pairs in self._routes(group, here):
            for axes, tables, sectors in pairs:
                inner = members.answers(self.estimates(number, sectors))
                # From the order of the sector's attributes to that of the table's axes.
                order = np.argsort(axes)
                ordered = inner.transpose([0, *(1 + order), inner.ndim - 1])
                shared_axes = sorted(axes)
                lengths = [n if a in shared_axes else 1 for a, n in enumerate(sizes)]
                shares = _shares(self.part, group, here[tables], shared_axes)
                _add(total, tables, ordered.reshape(len(tables), *lengths, -1), shares)
        for axis, view in enumerate(group.views):
            if view is not None:
                total = np.moveaxis(view.mv(np.moveaxis(total, 1 + axis, 0)), 0, 1 + axis)
        rebuilt = group.columns(total.reshape(*total.shape[:-1], *group.inner_shape))
        if self._totals is not None:
            for i, number in enumerate(group.tables[here].tolist()):
                self._set_public(number, rebuilt[i, ...])
        return rebuilt

    def _spread_totals(self, axes: Sequence[int], totals: Floats) -> Floats:
        """Return the public totals by some axes and the structured cells, in equal shares for all other values.

        Returns:
            The totals, (n_a for a in axes…, n_o).
        """
        d = self.part.decomposition
        names = [d.exchangeable[a] for a in axes]
        public = self.part.publication.public_attributes or ()
        inner = [i for i, a in enumerate(public) if a not in d.exchangeable]
        shared = [public.index(a) for a in names if a in public]
        others = [i for i in range(totals.ndim) if i not in (*shared, *inner)]
        summed = totals.transpose([*shared, *inner, *others]).sum(
            axis=tuple(range(totals.ndim - len(others), totals.ndim))
        )
        shape = [d.sizes[a] for a in axes]
        lengths = [n if a in public else 1 for a, n in zip(names, shape, strict=True)]
        shares = math.prod(n for a, n in zip(names, shape, strict=True) if a not in public)
        places = np.array(cast("PublicCells", d.public).places)
        by_cell = summed.reshape(*lengths, -1)[..., places] / (shares * np.bincount(places)[places])
        return np.broadcast_to(by_cell, (*shape, d.cells))

    def with_sums(self, table: int) -> Floats:
        """Return a table with the sums along each column, where those that follow from public totals are exact.

        Args:
            table: The index of the table.
        """
        numbers = self.table(self.part.publication.workload.tables[table].name)
        out = with_sums(numbers, numbers.ndim)
        self._set_public(table, out)
        return out

    def _set_public(self, table: int, numbers: Floats) -> None:
        """Set the numbers of a table, with or without sums along columns, that follow from public totals.

        In sums whose noise cancels, rounding errors would remain.
        """
        workload, public = self.part.publication.workload, self.part.publication.public_attributes or ()
        stated = workload.tables[table]
        # Sums of amounts weigh other attributes by steps, and the rows of a matrix have no attributes.
        if self._totals is None or stated.matrix is not None or stated.weights(workload.domain):
            return
        exact = self._totals.sum(axis=tuple(i for i, a in enumerate(public) if a not in stated.attributes))
        shared = [a for a in public if a in stated.attributes]
        exact = exact.transpose([shared.index(a) for a in stated.attributes if a in public])
        places: list[Indices] = []
        for axis, (a, length) in enumerate(zip(stated.attributes, numbers.shape, strict=True)):
            view = stated.view(a).operator(workload.domain[a])
            if a in public:
                places.append(np.arange(length))
                displayed = with_sums(view.mv(np.moveaxis(exact, axis, 0)), 1)[:length]
            else:
                # A row that counts every value equally.
                rows = with_sums(rules.dense(view), 1)[:length]
                constant = np.flatnonzero((rows == rows[:, :1]).all(axis=1))
                places.append(constant)
                displayed = np.multiply.outer(rows[constant, 0], exact)
            exact = np.moveaxis(displayed, 0, axis)
        numbers[np.ix_(*places)] = exact


@final
class SectorTables(RebuiltTables):
    """Tables that given sector values determine.

    Args:
        part: The tables and their sectors.
        thetas: The values of each sector, (n_a for a in S…, k); absent sectors are 0.
        known_sectors: A cache of routes, for repeated use with the same tables.
    """

    def __init__(
        self, part: SectorTablesPart, thetas: Mapping[SectorIndex, Floats], known_sectors: RouteCache | None = None
    ) -> None:
        self.part, self._thetas, self._route_cache = part, thetas, known_sectors

    def _routes(self, group: TableGroup, here: Indices) -> Iterable[Route]:
        return _routes(self.part, group, here, self._route_cache)

    def estimates(self, group: int, sectors: Indices) -> Floats:
        """Return θ_S of the given sectors of a group, all of the same sizes, (K, n_a for a in S…, k)."""
        sector_group = self.part.decomposition.groups[group]
        # An absent sector has the value 0, so its tables need no special case.
        nothing = np.zeros((*sector_group.sizes[sectors[0]].tolist(), len(sector_group.basis)))
        return np.stack([self._thetas.get((group, s), nothing) for s in sectors.tolist()])


def _add(total: Floats, tables: Indices, parts: Floats, shares: Floats) -> None:
    """Add parts times shares to some tables, in rows along their first axis, so that memory stays small.

    total: The tables, (T, axes…, m).
    tables: The indices of different tables.
    parts: The parts for these, (len(tables), axes…, m), where an axis of length 1 stands for equal parts.
    shares: The shares, a number or (len(tables), axes…, 1), where an axis of length 1 stands for equal shares.
    """
    rows = total.shape[1]
    step = max(1, NUMBERS_PER_BLOCK * rows // max(1, total.size))
    for i in range(0, rows, step):
        here = slice(i, i + step)
        part, weight = (x[:, here] if x.ndim == total.ndim and x.shape[1] > 1 else x for x in (parts, shares))
        total[tables, here] += part * weight


def _shares(part: SectorTablesPart, group: TableGroup, here: Indices, kept_attributes: Sequence[int]) -> Floats:
    """Return the weights that split sums over the other axes among their values: Π 1/n, or Π w by axis."""
    others = [i for i in range(group.axes.shape[1]) if i not in kept_attributes]
    if not group.views:
        return np.array(1 / math.prod(part.decomposition.sizes[a] for a in group.axes[here[0]][others]))
    estimation = cast(AxisEstimation, part.estimation)
    out: Floats = np.ones((len(here), *(1,) * (group.axes.shape[1] + 1)))
    for i in others:
        w = np.stack([estimation.value_weights(int(a)) for a in group.axes[here, i]])
        out = out * w.reshape(len(here), *(w.shape[1] if i == j else 1 for j in range(group.axes.shape[1])), 1)
    return out


def _reaching(part: SectorTablesPart, group: TableGroup) -> Iterator[tuple[int, Members]]:
    """Yield the index of every group of sectors that a group of tables reaches, with the relation of the two."""
    d = part.decomposition
    number = next(i for i, g in enumerate(d.tables) if g is group)
    for i, sectors in enumerate(d.groups):
        for m in sectors.members:
            if m.tables == number:
                yield i, m


def _routes(
    part: SectorTablesPart, group: TableGroup, here: Indices, known_sectors: RouteCache | None = None
) -> Iterable[Route]:
    """Return the positions of some tables of one group, all of the same sizes, in all sectors that they reach."""
    routes = (
        (number, members, _pairs(part, group, here, number, members)) for number, members in _reaching(part, group)
    )
    if known_sectors is None:
        return ((number, members, list(pairs)) for number, members, pairs in routes)
    # The routes depend on the workload alone, and the first table identifies its group.
    key = int(group.tables[0]), here.tobytes()
    if key not in known_sectors:
        known_sectors[key] = [(number, members, list(pairs)) for number, members, pairs in routes]
    return known_sectors[key]


def _pairs(
    part: SectorTablesPart, group: TableGroup, here: Indices, number: int, members: Members
) -> Iterator[tuple[tuple[int, ...], Indices, Indices]]:
    """Yield the sectors of some tables in one group of sectors, by their axes in the tables.

    Yields:
        The axis of the table for each attribute of the sector, in the sector's order; places in `here`; sectors.
    """
    chosen = members.by_table[here]
    tables = np.repeat(np.arange(len(here)), np.diff(chosen.indptr))
    sectors = np.asarray(chosen.indices, dtype=np.intp)
    attributes = part.decomposition.groups[number].attributes[sectors]
    same = group.axes[here][tables][:, None, :] == attributes[:, :, None]
    axes = same.argmax(axis=2) if attributes.size else attributes
    for pattern, rows in equal_rows(axes):
        yield pattern, tables[rows], sectors[rows]


def coefficients(part: SectorTablesPart, name: str, values: Floats) -> Floats:
    """Check the coefficients of a table's numbers, and return them as floats.

    Args:
        part: The tables.
        name: The name of the table.
        values: One coefficient for each number, in the table's shape.

    Raises:
        ReleaseError: There is no such table, or the coefficients have another shape or are not finite.
    """
    workload = part.publication.workload
    if name not in workload.tables.numbered:
        raise ReleaseError(
            "coefficients-for-unknown-table",
            f"There is no table {name!r}.",
            f"The release has {list_names(workload.tables.names)}.",
            "Name one of these tables.",
            "Nothing was computed.",
        )
    numbers = np.asarray(values, dtype=np.float64)
    expected = workload[name].shape(workload.domain)
    if numbers.shape != expected or not np.isfinite(numbers).all():
        raise ReleaseError(
            "coefficients-shape",
            f"The coefficients of table {name!r} have the shape {numbers.shape}, or a coefficient that is not finite.",
            f"A table of the shape {expected} needs a coefficient for each of its numbers.",
            "Give finite coefficients of that shape.",
            "Nothing was computed.",
        )
    return numbers


def adjoint(part: SectorTablesPart, combination: Mapping[str, Floats]) -> dict[SectorIndex, Floats]:
    """Return p_S(f) = C_S Lᵀf for the combination f = Σ_A ⟨f_A, table_A⟩, so that f is Σ_S ⟨p_S, θ_S⟩.

    C_S subtracts the mean along each attribute of S. It is left out for tables by axis.

    Args:
        part: The tables and their design.
        combination: A coefficient for each number of some tables, in the table's shape.

    Raises:
        ReleaseError: A table is unknown, or its coefficients have another shape or are not finite.
    """
    d, workload = part.decomposition, part.publication.workload
    out: dict[SectorIndex, Floats] = {}
    for name, values in combination.items():
        number, own_numbers = workload.number(name), coefficients(part, name, values)
        for t, index in d.parts_of(number):
            group, i = d.group_of(t)
            _pull(part, group, np.array([i]), own_numbers[index][None], out)
    return _finished(part, out)


def gathered(
    part: SectorTablesPart, stacks: Iterable[tuple[Indices, Floats]], known_sectors: RouteCache | None = None
) -> dict[SectorIndex, Floats]:
    """Return `adjoint` for many tables.

    stacks: Indices of tables of one group, with their coefficients, as `RebuiltTables.stacks` yields them.
    known_sectors: A cache of routes, for repeated use with the same tables.
    """
    out: dict[SectorIndex, Floats] = {}
    d = part.decomposition
    for which, stack in stacks:
        if d.blocks:
            for t, index in d.parts_of(int(which[0])):
                group, i = d.group_of(t)
                _pull(part, group, np.array([i]), stack[0][index][None], out, known_sectors)
            continue
        places = [part.decomposition.group_of(t) for t in which.tolist()]
        here = np.array([i for _, i in places])
        _pull(part, places[0][0], here, stack, out, known_sectors)
    return _finished(part, out)


def _pull(
    part: SectorTablesPart,
    group: TableGroup,
    here: Indices,
    stack: Floats,
    out: dict[SectorIndex, Floats],
    known_sectors: RouteCache | None = None,
) -> None:
    """Add the part of each sector in combinations of some tables of one group, all of the same sizes, to `out`."""
    sizes = [part.decomposition.sizes[a] for a in group.axes[here[0]]]
    views = group.views or (None,) * len(sizes)
    lengths = [n if view is None else view.shape[0] for n, view in zip(sizes, views, strict=True)]
    arranged = np.stack([group.split_axes(x, lengths) for x in stack])
    for axis, view in enumerate(views, 1):
        if view is not None:
            arranged = np.moveaxis(view.rmv(np.moveaxis(arranged, axis, 0)), 0, axis)
    for group_index, members, pairs in _routes(part, group, here, known_sectors):
        for axes, tables, sectors in pairs:
            away = tuple(1 + a for a in range(len(sizes)) if a not in axes)
            summed = (arranged[tables] * _shares(part, group, here[tables], sorted(axes))).sum(axis=away)
            # The inverse of the order in `_stack`: from the table's axes back to the order of the sector.
            order = 1 + np.argsort(np.argsort(axes))
            thetas = members.adjoint(summed.transpose([0, *order, summed.ndim - 1]))
            for s, x in zip(sectors.tolist(), thetas, strict=True):
                out[group_index, s] = out[group_index, s] + x if (group_index, s) in out else x


def _finished(part: SectorTablesPart, out: dict[SectorIndex, Floats]) -> dict[SectorIndex, Floats]:
    # θ_S sums to 0 along each attribute of S, so only the centred part of its weights counts. By axis it need not.
    by_axis = any(g.views for g in part.decomposition.tables)
    return out if by_axis else {key: centred(total) for key, total in out.items()}


def centred(x: Floats) -> Floats:
    """Return x minus its means along every axis but the last."""
    for axis in range(x.ndim - 1):
        x = x - x.mean(axis=axis, keepdims=True)
    return x


def covariance(part: SectorTablesPart, f: Mapping[str, Floats], h: Mapping[str, Floats]) -> float:
    """Return the covariance of two combinations in people², for continuous noise of the design.

    cov(f, f) bounds the variance under discrete noise.
    """
    # Both sides of a variance have one adjoint, the longer part of the work.
    adjoint_f = adjoint(part, f)
    return part.estimation.covariance(adjoint_f, adjoint_f if h is f else adjoint(part, h))
