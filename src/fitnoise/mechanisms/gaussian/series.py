"""Tables that are released period by period: bases in order of time, and the estimates after a number of periods.

Tables show the periods value by value, or as totals up to each period. They can also show changes and averages, if
other tables show each period. So the answers of a sector span (all periods) ⊗ U, with one U for every period.

**Statement.** The rows of the periods up to t determine all numbers about these periods, with the covariance of the
complete strategy. Later rows are on later periods too, and revise nothing.

**Proof.** Write the sector over a basis of U in the first period, then in the second, and so on. Then Σ_S⁻¹ = AᵀA with
A lower triangular, whose rows touch no later part. ∎
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact
from fitnoise.kernel.designs._base import Answers, CellStructure
from fitnoise.kernel.designs.sectors import Strategy, StrategyGroup
from fitnoise.mechanisms.gaussian.mechanism import GAUSSIAN
from fitnoise.mechanisms.tables import TablePart
from fitnoise.request.attributes import Categorical, Ordered
from fitnoise.request.domain import Domain
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import Workload
from fitnoise.solving.sectors import Decomposition, decompose, integer_basis
from fitnoise.solving.witnesses import claimed


def in_time(publication: Publication, decomposition: Decomposition) -> Decomposition:
    """Return a workload in sectors, over bases in order of time if it is a series; others unchanged.

    Raises:
        PlanError: In some sector, the tables determine a period only through its differences from others.
    """
    if publication.series is None:
        return decomposition
    period_of_cell = _period_of_cells(decomposition.cell_structure, publication.series)
    known_rows: list[NDArray[np.int64]] = []
    for g in decomposition.groups:
        _refuse_relative(publication, g.basis, period_of_cell)
        _own_rows(g.basis, period_of_cell, known_rows)
    bases = [_in_order(_own_rows(g.basis, period_of_cell, known_rows), period_of_cell) for g in decomposition.groups]
    return decompose(publication.workload, bases, separate=publication.structured_attributes)


def _refuse_relative(publication: Publication, basis: NDArray[np.int64], period_of_cell: NDArray[np.intp]) -> None:
    """Raise PlanError unless the rows that span a basis determine each period separately."""
    periods = int(period_of_cell.max()) + 1
    blocks = np.concatenate([basis[:, period_of_cell == t] for t in range(periods)])
    # Rows that determine each period span one copy of a single period's space for each of them.
    if len(basis) < periods * len(integer_basis(blocks)):
        raise PlanError(
            "period-not-determined",
            f"The series {publication.series!r} has changes or averages, and the tables do not determine "
            "each period separately.",
            "A published period is never revised.",
            "Add a table of the same numbers: value by value, or as totals (cumulative or to_date), with any margin.",
            "No plan was made.",
            place="series",
        )


def _own_rows(
    basis: NDArray[np.int64], period_of_cell: NDArray[np.intp], known_rows: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return the rows of a basis on the cells of one period, (rows, cells of a period): the same for every period.

    These are the rows in `known_rows` that span the same space, if there are some. Otherwise the new rows are added to
    `known_rows`. Sectors that differ only by tables without rows in the first periods then form one group in these
    periods.
    """
    # All periods have the same space (`_refuse_relative`), so the first stands for all.
    new_rows = integer_basis(basis[:, period_of_cell == 0])
    for rows in known_rows:
        if rows.shape == new_rows.shape and len(integer_basis(np.concatenate([rows, new_rows]))) == len(new_rows):
            return rows
    known_rows.append(new_rows)
    return new_rows


def _period_of_cells(structure: CellStructure, attribute: str) -> NDArray[np.intp]:
    """Return the period of every structured cell, from 0."""
    return np.asarray(np.indices(structure.shape)[[a for a, _ in structure.structured].index(attribute)].ravel())


def _in_order(rows: NDArray[np.int64], period_of_cell: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return a basis of all periods: for each period, in order of time, the rows on its cells and 0 on all others.

    Args:
        rows: The rows of one period on its cells, (rows, cells of a period).
        period_of_cell: The period of every structured cell, from 0, (cells,).

    Returns:
        int64 array of shape (periods · rows, cells).
    """
    periods = int(period_of_cell.max()) + 1
    out = np.zeros((periods, len(rows), len(period_of_cell)), dtype=np.int64)
    for t in range(periods):
        out[t][:, period_of_cell == t] = rows
    return out.reshape(-1, len(period_of_cell))


def last_periods(rows: Exact, period_of_cell: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the last period that each of some rows touches, from 0."""
    return np.asarray(np.where(rows != 0, period_of_cell, 0).max(axis=1))


def refuse_out_of_time(part: TablePart) -> None:
    """Raise PlanError unless the rows of the first periods of a series determine all their numbers."""
    if part.mechanism is not GAUSSIAN:
        raise PlanError(
            "series-without-sectors",
            "The tables of the series have another mechanism than Gaussian noise for each sector.",
            "The tables of a series need Gaussian noise for each sector.",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    period_of_cell = _period_of_cells(part.strategy.structure, str(part.publication.series))
    for g in part.strategy.groups:
        # With rows in order of time, a lower triangle uses no later period.
        if (np.diff(last_periods(g.basis, period_of_cell)) < 0).any() or np.triu(g.mixing != 0, 1).any():
            raise PlanError(
                "series-out-of-order",
                "The strategy of the series is not in the order of time.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )


def past(full_part: TablePart, publication: Publication, periods: int) -> TablePart:
    """Return the tables of a series after the given number of periods.

    full_part: The tables of all periods.
    publication: The publication, cut to these periods (:func:`cut`).
    periods: The number of periods.

    Raises:
        PlanError: The strategy measures the rows of a period differently in sectors of one group.
    """
    structure = GAUSSIAN.codec.cell_structure(publication)
    period_of_cell = _period_of_cells(full_part.strategy.structure, str(publication.series))
    here, groups = period_of_cell < periods, []
    sector_index = _sector_index(full_part.strategy)
    for needed in decompose(publication.workload, separate=publication.structured_attributes).groups:
        sectors = [sector_index[tuple(x)] for x in needed.attributes.tolist()]
        g = full_part.strategy.groups[sectors[0][0]]
        # Rows are in order of time, so those of the periods so far come first.
        k = int((last_periods(g.basis, period_of_cell) < periods).sum())
        pieces = [(full_part.strategy.groups[a], i) for a, i in sectors]
        if not all(np.array_equal(x.basis[:k], g.basis[:k]) for x, _ in pieces):
            raise PlanError(
                "period-measured-twice",
                "The strategy of the series measures the same of a period in different ways.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        # The mixing is lower triangular, so its leading block alone produced the first k answers.
        mixing, scales = np.stack([x.mixing[i, :k, :k] for x, i in pieces]), np.array([x.scales[i] for x, i in pieces])
        groups.append(StrategyGroup(needed.attributes, needed.sizes, g.basis[:k, here], mixing, scales))
    return replace(
        full_part,
        publication=publication,
        strategy=claimed(Strategy(structure, tuple(groups)), publication.adjacency),
        full_part=full_part,
    )


def _sector_index(strategy: Strategy) -> dict[tuple[int, ...], tuple[int, int]]:
    """Return the group of each sector, and its index there, by the sector's attributes."""
    return {
        tuple(attributes): (a, i)
        for a, g in enumerate(strategy.groups)
        for i, attributes in enumerate(g.attributes.tolist())
    }


def cut(publication: Publication, periods: int) -> Publication:
    """Return a publication of the first periods only, without tables that have no row in them, such as changes."""
    workload, name = publication.workload, str(publication.series)
    attributes: dict[str, Any] = {a: workload.domain[a] for a in workload.domain}
    # Changes and averages have no row before enough periods have passed.
    attributes[name] = truncated = _truncated_attribute(attributes[name], periods)
    tables = [t for t in workload.tables if t.view(name).labels(truncated)]
    return replace(publication, workload=Workload(Domain(attributes), tables, workload.confidence))


def _truncated_attribute(periods: Ordered | Categorical, count: int) -> Ordered | Categorical:
    """Return the attribute restricted to its first `count` periods."""
    if isinstance(periods, Ordered):
        return replace(periods, high=periods.low + count - 1)
    codes = periods.codes[:count]
    categories = codes if periods.labels is None else dict(zip(codes, periods.labels, strict=False))
    return Categorical(categories, column=periods.column, date_part=periods.date_part)


def joined(part: TablePart, by_period: Sequence[Answers]) -> list[Exact]:
    """Return the noisy answers of the tables after some periods, joined by sector from those of each period."""
    full_part = part.complete
    sector_index, out = _sector_index(full_part.strategy), []
    firsts = np.cumsum([0, *(len(g) for g in full_part.strategy.groups)])
    for g in part.strategy.groups:
        pieces = []
        for i, attributes in enumerate(g.attributes.tolist()):
            group, k = sector_index[tuple(attributes)]
            rows = int(g.answers[i]) // g.rank
            there = firsts[group] + k
            pieces.append(np.concatenate([answers[there].reshape(rows, -1) for answers in by_period], axis=1).ravel())
        out.append(np.concatenate(pieces))
    return out


def parted(part: TablePart, answers: Sequence[Exact], periods: int) -> list[list[Exact]]:
    """Return the noisy answers of each period, in the order of its design: the inverse of :func:`joined`.

    Args:
        part: The tables after some periods.
        answers: The noisy answers of its groups.
        periods: The number of periods.

    Returns:
        For each period an array for each sector with rows in it.
    """
    complete_strategy = part.complete.strategy
    period_of_cell = _period_of_cells(complete_strategy.structure, str(part.publication.series))
    sector_answers: dict[tuple[int, ...], Exact] = {}
    for g, values in zip(part.strategy.groups, answers, strict=True):
        pieces = np.split(values, np.cumsum(g.answers)[:-1])
        sector_answers |= {tuple(a): x.reshape(-1, g.rank) for a, x in zip(g.attributes.tolist(), pieces, strict=True)}
    out: list[list[Exact]] = [[] for _ in range(periods)]
    for g in complete_strategy.groups:
        last = last_periods(g.basis, period_of_cell)
        # Later periods have no answers yet, and their rows come last.
        last = last[last < periods]
        for attributes in g.attributes.tolist():
            for t in np.unique(last).tolist():
                out[t].append(sector_answers[tuple(attributes)][:, last == t].ravel())
    return out
