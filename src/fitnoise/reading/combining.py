"""Several releases of the same records as one estimate of least variance. Post-processing only.

An attribute is exchangeable in the union of the tables if all tables show it value by value, in one form. In addition,
no release may treat it as structured. All other attributes are structured. Within a sector S, every release r has
information about the same unknowns θ_S over the joint structured cells. Each of its tables A ⊇ S contributes the part
that varies along S only: the sums over A∖S, centred along every attribute of S. The statistic t_r has these parts of
linearly independent rows of all tables. With n_a values of attribute a, and J the matrix of ones,

    t_r = L_r θ_S + noise of covariance (⊗_{a∈S} (I − J/n_a)) ⊗ V_r.

Any statistic that is invariant under exchange of an attribute's values has this form. For the same reason the noise of
different sectors is uncorrelated (Schur's lemma). So information adds up, sector by sector, and generalised least
squares is

    M_S = Σ_r L_rᵀ V_r⁻¹ L_r,   θ̂_S = M_S⁻¹ Σ_r L_rᵀ V_r⁻¹ t_r,   cov θ̂_S = (⊗ (I − J/n_a)) ⊗ M_S⁻¹.

Rules may state joint structured cells in which no record is. They are one more source, which is exact. It leaves
θ_S = E_S φ_S for independent unknowns φ_S (`restricted`), and the same formulas hold with L_r E_S for L_r. Public
totals are another exact source. They leave θ_S = θ° + E_S φ_S (`exact_totals`), and L_r θ° is subtracted from t_r. A
release knows its own totals without noise. So of its rows, those count that are independent given these totals.

The result is rebuilt, queried and shown like the sectors of one release. For noise that is not normal, intervals use
every single noise (`CombinedSource.traced`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
import scipy.linalg as sl
import scipy.sparse as sp

from fitnoise.errors import DomainError, ReleaseError, WorkloadError
from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.domain import JointAxis
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.documents import parse
from fitnoise.mechanisms.estimation import SectorIndex
from fitnoise.mechanisms.gaussian.estimate import apply_covariance, covariance
from fitnoise.mechanisms.numbers import TableNumbers, WeightedSums, by_sector, sums_by_sector
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.messages import Message, Value, ValueKind, english
from fitnoise.messages import document as message_document
from fitnoise.planning.files import read_text
from fitnoise.planning.joint_axes import with_joint_axes
from fitnoise.reading.contradictions import Distance, refuse_contradicted
from fitnoise.reading.derived_tables import DerivedTables, Texts
from fitnoise.reading.description import public_totals, statistic, universe_messages
from fitnoise.reading.estimates import Estimate, Estimates, added
from fitnoise.reading.exact_totals import ExactTotals, Solutions, TotalsEquations, distinct_totals, totals_of
from fitnoise.reading.impossible_cells import (
    MAX_DENSE_RULE_CELLS,
    ImpossibleCells,
    independent_rows,
    restricted,
)
from fitnoise.reading.labelled_numbers import RowLabels
from fitnoise.reading.linear_forms import AnswerSource, Forms, refuse_shared_noise
from fitnoise.reading.means import file_stubs, mean_columns
from fitnoise.reading.question_methods import QuestionMixin
from fitnoise.reading.questions import ReaderQuestion
from fitnoise.reading.refusals import UNREAD, no_means, repeated_release
from fitnoise.reading.release import Release, release_identity, superseded_pairs
from fitnoise.reading.release_files import complete_columns, csv_text, number_columns, stub_frame
from fitnoise.reading.rule_certificates import rule_certificate
from fitnoise.request.arguments import checked
from fitnoise.request.attributes import Attribute
from fitnoise.request.coverage import ValueList
from fitnoise.request.domain import Domain
from fitnoise.request.impossible_rules import Mask
from fitnoise.request.joint_axes import classes_along, has_all_values, used_joint_axes
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import (
    Table,
    Workload,
    counts_by_class,
    exchangeable_attributes,
    list_names,
    slug,
    used_attributes,
)
from fitnoise.solving.certificates import Certificate
from fitnoise.solving.class_sectors import decompose_by_class
from fitnoise.solving.sectors import Decomposition, SectorGroup, decompose

FORMAT = 1
"""The version of the written document."""

UNCOMBINED = "Nothing was combined."

DESCRIPTION = "combination.json"

MAX_COMBINED_ROWS = 4_096
"""The largest number of independent rows of a sector's structured cells in one release.

The covariances of all pairs of these rows are computed.
"""

PAIRS_PER_BATCH = 2**20
"""The largest number of pairs of rows whose forms are held at once."""

FILE_ROUNDING = 1.1e-6
"""The absolute tolerance between numbers in a file and recomputed ones: 1.1 units of the last of six decimals."""

RELATIVE_ROUNDING = 1e-9
"""The relative tolerance in addition to `FILE_ROUNDING`."""


@final
@dataclass(frozen=True, eq=False)
class SectorInformation:
    """The information in one release about a sector: t = L θ + noise of covariance V.

    source: The answers of one part of the release.
    rows: For each entry of t a pair: the index of its table in the union, and that of its structured row there.
    adjoint_answers: V⁻¹ L, (rows, k), for k unknowns θ at each combination of the sector's values.
    """

    source: AnswerSource
    rows: Sequence[tuple[int, int]]
    adjoint_answers: Floats


@final
@dataclass(frozen=True, eq=False)
class TableUnion:
    """The tables of several releases as one set.

    workload: The union: all their tables, those of equal statistics once.
    decomposition: The sectors of the union.
    where: For each pair of a source and a table of the union that the source has, the table's index in the source.
    classes: For attributes with classes of values, the class of each value; the decomposition then numbers blocks of
        tables.

    Except for `name`, the methods take tables by the numbers of the decomposition: blocks, if there are classes.
    """

    workload: Workload
    decomposition: Decomposition
    where: Mapping[tuple[AnswerSource, int], int]
    classes: Mapping[str, Indices]

    def number(self, table: int) -> int:
        """Return the number of a table in the workload of the union."""
        return self.decomposition.blocks[table].table if self.decomposition.blocks else table

    def columns(self, table: int) -> tuple[Indices, ...]:
        """Return the positions of a table or a block in each column of the table."""
        if self.decomposition.blocks:
            return self.decomposition.blocks[table].columns
        return tuple(map(np.arange, self.workload.tables[table].shape(self.workload.domain)))

    def has(self, source: AnswerSource, table: int) -> bool:
        """Return True if a source has a table of the union."""
        return (source, self.number(table)) in self.where

    def axes(self, table: int) -> list[int]:
        """Return the exchangeable axes of a table of the union, each by its index in `decomposition.sizes`."""
        group, i = self.decomposition.group_of(table)
        return [int(a) for a in group.axes[i]]

    def sizes(self, table: int) -> list[int]:
        """Return the number of values of each exchangeable axis of a table of the union, in the order of `axes`."""
        return [self.decomposition.sizes[a] for a in self.axes(table)]

    def name(self, source: AnswerSource, table: int) -> str:
        """Return the name that a table of the union, by its number there, has in a source."""
        return source.part.publication.workload.tables[self.where[source, table]].name

    def along_columns(self, source: AnswerSource, table: int) -> Floats:
        """Return a source's estimates of a table of the union, (values of each axis…, structured rows)."""
        group, _ = self.decomposition.group_of(table)
        numbers = source.rebuilt.table(self.name(source, self.number(table)))[np.ix_(*self.columns(table))]
        return group.split_axes(numbers, self.sizes(table))

    def forms(self, source: AnswerSource, sector: Sequence[int], rows: Sequence[tuple[int, int]]) -> Forms:
        """Return a form for each row: its part that varies along a sector, first value less second of each attribute.

        Args:
            source: The answers from which the forms are made.
            sector: The axes of the sector.
            rows: Table and structured row of each form, by index in the union.
        """
        rows_by_table: dict[int, list[tuple[int, Indices, Floats]]] = {}
        for j, (table, row) in enumerate(rows):
            number = self.where[source, self.number(table)]
            rows_by_table.setdefault(number, []).append((j, *self._row(table, sector, row)))
        pieces = {}
        for number, entries in rows_by_table.items():
            which = np.repeat([j for j, _, _ in entries], [len(positions) for _, positions, _ in entries])
            positions, factors = (np.concatenate([e[k] for e in entries]) for k in (1, 2))
            shape = (len(rows), math.prod(source.shape(number)))
            pieces[source, number] = sp.csr_array((factors, (which, positions)), shape=shape)
        return Forms(len(rows), pieces)

    def _row(self, table: int, sector: Sequence[int], row: int) -> tuple[Indices, Floats]:
        """Return a form's positions in a table in the order of `AnswerSource.shape`, and its factors there."""
        (group, _), axes = self.decomposition.group_of(table), self.axes(table)
        lengths = [*self.sizes(table), *group.inner_shape]
        inside = np.unravel_index(row, group.inner_shape) if group.inner_shape else ()

        def entries_along(dim: int) -> tuple[Indices, Floats]:
            if dim >= len(axes):
                return np.array([inside[dim - len(axes)]]), np.ones(1)
            if axes[dim] in sector:
                return np.array([0, 1]), np.array([1.0, -1.0])
            return np.arange(lengths[dim]), np.ones(lengths[dim])

        where, factors = np.zeros(1, dtype=np.intp), np.ones(1)
        spans = itertools.pairwise(np.cumsum([0, *group.spans]).tolist())
        shape = self.workload.tables[self.number(table)].shape(self.workload.domain)
        for (start, stop), positions, rows in zip(spans, self.columns(table), shape, strict=True):
            dims = group.transpose[start:stop]
            block, block_factors = np.zeros(1, dtype=np.intp), np.ones(1)
            if len(positions) == rows and all(x < len(axes) and axes[x] not in sector for x in dims):
                block = np.array([rows])  # a column outside the sector: its sum, one number, stands after its rows
            else:
                for x in dims:
                    axis_rows, axis_factors = entries_along(x)
                    block = np.add.outer(block * lengths[x], axis_rows).ravel()
                    block_factors = np.multiply.outer(block_factors, axis_factors).ravel()
                block = positions[block]
            # a column is one longer than its rows, by their sum
            where = np.add.outer(where * (rows + 1), block).ravel()
            factors = np.multiply.outer(factors, block_factors).ravel()
        return where, factors


@final
@dataclass(frozen=True, eq=False)
class JointEstimation:
    """The estimates of sectors from all releases jointly.

    whiteners: By group of K sectors, W with W Wᵀ = M_S⁻¹ for each sector, (K, k, k).
    thetas: By sector, θ̂_S, (n_a for a in S…, k).
    lengths: Empty: the estimates are made of `thetas`, and not of answers that a caller gives.
    """

    whiteners: list[Floats]
    thetas: Mapping[SectorIndex, Floats]
    lengths: tuple[int, ...] = ()

    def estimates(self, answers: Sequence[Exact], group: int, sectors: Indices) -> Floats:
        """Return θ̂_S of some sectors of a group, all of equal sizes, (K, n_a for a in S…, k)."""
        del answers  # `thetas` were estimated from the answers of all releases
        return np.stack([self.thetas[group, s] for s in sectors.tolist()])

    def covariance(self, f: Mapping[SectorIndex, Floats], h: Mapping[SectorIndex, Floats]) -> float:
        """Return the covariance of two combinations: by sector, a factor for each entry of θ̂_S."""
        return covariance(self.whiteners, f, h)

    def apply_covariance(self, f: Mapping[SectorIndex, Floats]) -> dict[SectorIndex, Floats]:
        """Return cov(θ) f, the covariances of the estimates with Σ ⟨f_S, θ_S⟩, for the sectors in f; f_S is centred."""
        return apply_covariance(self.whiteners, f)


@final
@dataclass(frozen=True, eq=False)
class JointTables:
    """The tables of several releases, with their joint estimation."""

    publication: Publication
    decomposition: Decomposition
    estimation: JointEstimation


@final
@dataclass(frozen=True, eq=False)
class CombinedSource(AnswerSource):
    """The noisy answers of several parts as one source of numbers.

    union: The tables of all parts.
    sources: The answers of each part.
    pieces: Their information about every sector.
    """

    union: TableUnion
    sources: tuple[AnswerSource, ...]
    pieces: Mapping[SectorIndex, Sequence[SectorInformation]]

    @property
    def parts(self) -> tuple[AnswerSource, ...]:
        """The parts that are combined."""
        return self.sources

    @property
    def normal(self) -> bool:
        """True if the noise of all parts is treated as normal."""
        return all(s.normal for s in self.sources)

    def covariance(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return the covariances of pairs of its numbers, (P,), in products of their units: sector by sector."""
        return by_sector(left_numbers, right_numbers)

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return the covariances of sums of many numbers, one by one, (J,); None to use pairs."""
        return sums_by_sector(left_sums, right_sums, length)

    def traced(self, tensors: Mapping[str, Floats]) -> dict[AnswerSource, dict[str, Floats]]:
        """Return a combination of its numbers as combinations of its parts: by table a coefficient for each number."""
        d, union = self.part.decomposition, self.union
        by_table: dict[tuple[AnswerSource, int], Floats] = {}
        for (group, s), factors in rebuilding.adjoint(self.part, tensors).items():
            sector, whitener = d.groups[group].attributes[s].tolist(), self.part.estimation.whiteners[group][s]
            for piece in self.pieces[group, s]:
                # θ̂ = W Wᵀ Σ_r (V_r⁻¹ L_r)ᵀ t_r, so factors f of θ̂ are factors f W Wᵀ (V_r⁻¹ L_r)ᵀ of t_r
                answer_factors = factors @ whitener @ whitener.T @ piece.adjoint_answers.T
                for j, (table, row) in enumerate(piece.rows):
                    key, axes = (piece.source, table), union.axes(table)
                    if key not in by_table:
                        by_table[key] = np.zeros((*union.sizes(table), math.prod(d.group_of(table)[0].inner_shape)))
                    by_table[key][..., row] += _align_axes(answer_factors[..., j], sector, axes)
        out: dict[AnswerSource, dict[str, Floats]] = {}
        for (source, table), table_factors in by_table.items():
            layout, _ = d.group_of(table)
            numbers = table_factors.reshape(1, *union.sizes(table), *layout.inner_shape)
            tables, name = out.setdefault(source, {}), union.name(source, union.number(table))
            if name not in tables:
                tables[name] = np.zeros(union.workload.tables[union.number(table)].shape(union.workload.domain))
            tables[name][np.ix_(*union.columns(table))] = layout.columns(numbers)[0]
        return out


def _align_axes(x: Floats, sector: Sequence[int], axes: Sequence[int]) -> Floats:
    """Return x along a sector's attributes as an array along a table's axes, where all other axes have length 1."""
    shared_axes = [a for a in axes if a in sector]
    ordered = x.transpose([sector.index(a) for a in shared_axes])
    return ordered.reshape([ordered.shape[shared_axes.index(a)] if a in sector else 1 for a in axes])


def _varying(x: Floats, sector: Sequence[int], axes: Sequence[int]) -> Floats:
    """Return the part of a table (axes…, rows) that varies along a sector's attributes only, in their order."""
    summed = x.sum(axis=tuple(i for i, a in enumerate(axes) if a not in sector))
    shared_axes = [a for a in axes if a in sector]
    for axis in range(len(shared_axes)):
        # a part that is constant along an attribute belongs to the sector without the attribute
        summed = summed - summed.mean(axis=axis, keepdims=True)
    return np.asarray(summed.transpose([*(shared_axes.index(a) for a in sector), len(shared_axes)]))


# --- sector by sector -----------------------------------------------------------------------------------


def _joined(
    union: TableUnion, sources: Sequence[AnswerSource], totals: Sequence[ExactTotals]
) -> tuple[JointEstimation, dict[SectorIndex, list[SectorInformation]]]:
    """Return the least-squares estimates of all sectors, and the information of each source about every sector.

    totals: The public totals of all sources.

    Raises:
        ReleaseError: A source has more independent rows of a sector than are combined.
    """
    d, domain = union.decomposition, union.workload.domain
    all_cells = np.ones(d.cells, dtype=np.bool_)
    equations = TotalsEquations(domain, d, totals, all_cells)
    by_source = {source: TotalsEquations(domain, d, totals_of(source), all_cells) for source in sources}
    whiteners = [np.empty((len(g), len(g.basis), len(g.basis))) for g in d.groups]
    thetas: dict[SectorIndex, Floats] = {}
    pieces: dict[SectorIndex, list[SectorInformation]] = {}
    tables = {int(t) for g in d.tables for t in g.tables}
    values = {(x, t): union.along_columns(x, t) for x in sources for t in tables if union.has(x, t)}
    for (group, s), lifts in _iterate_sectors(d):
        sector, sector_pieces = d.groups[group].attributes[s].tolist(), list[SectorInformation]()
        k = len(d.groups[group].basis)
        information, seen = np.zeros((k, k)), np.zeros(k)
        for source in sources:
            if source_lifts := [(t, lift) for t, lift in lifts if union.has(source, t)]:
                piece, lift = _information(union, source, sector, source_lifts, by_source[source].solutions(group, s))
                varying = {t: _varying(values[source, t], sector, union.axes(t)) for t, _ in source_lifts}
                if not piece.rows:  # all follows from public totals
                    continue
                noisy = np.stack([varying[t][..., row] for t, row in piece.rows], axis=-1)
                information, seen = (information + lift.T @ piece.adjoint_answers, seen + noisy @ piece.adjoint_answers)
                sector_pieces.append(piece)
        solutions = equations.solutions(group, s)
        if solutions is not None:
            seen = seen - solutions.point @ information
            information = solutions.factors.T @ information @ solutions.factors
        # scaled for the same reason as the noise in `_information`
        sizes = np.sqrt(information.diagonal())
        triangle = np.linalg.cholesky(information / np.multiply.outer(sizes, sizes))
        # M = D T Tᵀ D with the triangle T and the sizes D, so W = D⁻¹ T⁻ᵀ
        whitener = sl.solve_triangular(triangle, np.eye(len(triangle)), lower=True).T / sizes[:, None]
        whiteners[group][s], theta = _within_totals(whitener, solutions)
        thetas[group, s] = seen @ whiteners[group][s] @ whiteners[group][s].T + theta
        pieces[group, s] = sector_pieces
    return JointEstimation(whiteners, thetas), pieces


def _within_totals(whitener: Floats, solutions: Solutions | None) -> tuple[Floats, Floats]:
    """Return W of all unknowns, (k, k), and the solution of the totals' equations to which noise is added.

    Public totals fix some unknowns: as many columns of W are 0.

    whitener: W of the unknowns that remain.
    solutions: The solutions for the sector (`TotalsEquations.solutions`).
    """
    if solutions is None:
        return whitener, np.zeros(())
    wide = np.pad(solutions.factors @ whitener, [(0, 0), (0, len(solutions.factors) - len(whitener))])
    return wide, solutions.point


def _within_rules(
    d: Decomposition,
    equations: TotalsEquations,
    estimation: JointEstimation,
    pieces: Mapping[SectorIndex, Sequence[SectorInformation]],
) -> tuple[Decomposition, JointEstimation, dict[SectorIndex, list[SectorInformation]], Distance]:
    """Return the estimates of sectors, and the information about them, if only some structured cells are possible.

    The last result is the distance of the estimates so far from those with the rules.

    equations: The equations of public totals over the possible structured cells. Their decomposition is replaced.
    """
    groups, whiteners = list[SectorGroup](), list[Floats]()
    remaining_groups = {number: (factors, group) for number, factors, group in restricted(d, equations.possible)}
    new = replace(d, groups=tuple(group for _, group in remaining_groups.values()))
    equations = replace(equations, decomposition=new)
    thetas: dict[SectorIndex, Floats] = {}
    remaining: dict[SectorIndex, list[SectorInformation]] = {}
    distance, without = Distance(), dict(enumerate(d.groups))
    for number, (factors, group) in remaining_groups.items():
        del without[number]
        here = np.empty((len(group), len(group.basis), len(group.basis)))
        for s in range(len(group)):
            key, inverse, unknowns = (len(groups), s), *_inverse(estimation.whiteners[number][s])
            solutions = equations.solutions(*key)
            free = factors if solutions is None else factors @ solutions.factors
            # M = W⁻ᵀ W⁻¹, so Eᵀ M E = Rᵀ R with the triangle R of W⁻¹ E = Q R, and the new W is R⁻¹
            columns, triangle = np.linalg.qr(inverse @ free)
            here[s], point = _within_totals(sl.solve_triangular(triangle, np.eye(len(triangle))), solutions)
            fixed = point @ factors.T if point.ndim else point
            whitened = (estimation.thetas[number, s] - fixed) @ inverse.T
            thetas[key] = whitened @ columns @ here[s][:, : len(triangle)].T + point
            residuals = whitened - whitened @ columns @ columns.T
            distance = distance.plus(_distance(d, group, s, residuals, unknowns - len(triangle)))
            remaining[key] = [replace(x, adjoint_answers=x.adjoint_answers @ factors) for x in pieces[number, s]]
        groups.append(group)
        whiteners.append(here)
    for number, group in without.items():
        for s in range(len(group)):
            inverse, unknowns = _inverse(estimation.whiteners[number][s])
            whitened = estimation.thetas[number, s] @ inverse.T
            distance = distance.plus(_distance(d, group, s, whitened, unknowns))
    return new, JointEstimation(whiteners, thetas), remaining, distance


def _inverse(whitener: Floats) -> tuple[Floats, int]:
    """Return W⁻¹, or with columns of 0 the inverse on the others, and the number of the others."""
    unknowns = int(whitener.any(axis=0).sum())
    inverse = np.linalg.inv(whitener) if unknowns == len(whitener) else np.linalg.pinv(whitener)
    return np.asarray(inverse), unknowns


def _distance(d: Decomposition, group: SectorGroup, s: int, residuals: Floats, unknowns: int) -> Distance:
    """Return the distance of a sector's estimates from rules.

    residuals: The whitened estimates less their projections to those that the rules allow.
    unknowns: The number of unknowns that the rules fix, for each combination of values.
    """
    # estimates are centred along each attribute of the sector
    combinations = math.prod(d.sizes[a] - 1 for a in group.attributes[s].tolist())
    return Distance(float((residuals**2).sum()), combinations * unknowns)


_Lifts = Sequence[tuple[int, Floats]]
"""Tables by index in the union, each with its matrix L, (structured rows of the table, k)."""


def _iterate_sectors(d: Decomposition) -> Iterator[tuple[SectorIndex, _Lifts]]:
    """Yield each sector, with the tables that reach it and their rows."""
    for number, group in enumerate(d.groups):
        # the answers to unit vectors are the columns of L
        lifted = [(m, m.answers(np.eye(len(group.basis))).T) for m in group.members]
        for s in range(len(group)):
            reaching = ((m, lift, m.incidence[[s]].indices.tolist()) for m, lift in lifted)
            yield (number, s), [(int(d.tables[m.tables].tables[t]), lift) for m, lift, here in reaching for t in here]


def _information(
    union: TableUnion,
    source: AnswerSource,
    sector: Sequence[int],
    lifts: _Lifts,
    solutions: Solutions | None,
) -> tuple[SectorInformation, Floats]:
    """Return the information of a source about a sector, and L, (rows, k).

    lifts: The tables of the source that reach the sector, by index in the union, each with its own L, (rows, k).
    solutions: The solutions of the equations of the source's public totals for the sector. Rows that are equal except
        for what the totals give have equal noise, and one of them stands for all.

    Raises:
        ReleaseError: There are more than MAX_COMBINED_ROWS independent rows.
    """
    rows = [(t, j) for t, lift in lifts for j in range(len(lift))]
    all_lifts = np.concatenate([lift for _, lift in lifts])
    chosen, _ = independent_rows(all_lifts if solutions is None else solutions.lift(all_lifts))
    if not len(chosen):
        return SectorInformation(source, [], all_lifts[:0]), all_lifts[:0]
    if len(chosen) > MAX_COMBINED_ROWS:
        raise ReleaseError(
            "too-many-joint-cells",
            f"A release has {len(chosen):,} joint cells of {list(union.decomposition.structured)}.",
            f"At most {MAX_COMBINED_ROWS:,} joint cells of one release are combined.",
            "Use the releases one by one, and rules on fewer attributes.",
            UNCOMBINED,
        )
    chosen_rows, lift = [rows[i] for i in chosen.tolist()], all_lifts[chosen]
    forms, (i, j) = union.forms(source, sector, chosen_rows), np.tril_indices(len(chosen_rows))
    # a form takes e₀ − e₁ along each attribute of the sector, and (e₀ − e₁)ᵀ(I − J/n)(e₀ − e₁) = 2
    noise = np.empty((len(chosen_rows), len(chosen_rows)))
    # in batches: the forms of all pairs at once would take gigabytes
    for batch in np.array_split(np.arange(len(i)), 1 + len(i) // PAIRS_PER_BATCH):
        x, y = i[batch], j[batch]
        noise[x, y] = noise[y, x] = forms.take(x).covariances(forms.take(y)) / 2 ** len(sector)
    # scaled to variances of 1, because counts and sums of large amounts differ by many powers of ten
    sizes = np.sqrt(noise.diagonal())
    factor = sl.cho_factor(noise / np.multiply.outer(sizes, sizes))
    return SectorInformation(source, chosen_rows, sl.cho_solve(factor, lift / sizes[:, None]) / sizes[:, None]), lift


# --- the union of tables --------------------------------------------------------------------------------


def _union_of_tables(
    releases: Sequence[Release], domain: Domain, impossible: ImpossibleCells | None = None
) -> tuple[Publication, TableUnion]:
    """Return all tables of some releases, with those that show the same statistics once.

    domain: The attributes of all releases.
    impossible: The rules about impossible cells. Attributes of rules that a table uses are structured.

    Raises:
        ReleaseError: A table has explicit queries about another domain, or the attributes or tables are too many.
    """
    leading, constrained = releases[0].plan.publication, () if impossible is None else impossible.attributes
    sources = [s for r in releases for s in r._sources]
    publications = [s.part.publication for s in sources]
    number: dict[object, int] = {}
    tables: list[Table] = []
    where: dict[tuple[AnswerSource, int], int] = {}
    names: set[str] = set()
    for source, publication in zip(sources, publications, strict=True):
        for i, t in enumerate(publication.workload.tables):
            key = (t.attributes, t.views, None if t.matrix is None else (t.matrix.shape, t.matrix.matrix.tobytes()))
            if t.matrix is not None and publication.workload.domain != domain:
                raise ReleaseError(
                    "queries-of-another-domain",
                    f"Table {t.name!r} has queries about all cells of its own domain.",
                    "The other releases have another domain.",
                    "Combine releases of one domain, or compare them (-, /).",
                    UNCOMBINED,
                )
            if key not in number:
                number[key] = len(tables)
                # by the names of files, since two names of tables can give one
                free = (n for n in itertools.chain([t.name], (f"{t.name} ({k})" for k in itertools.count(2))))
                name = next(n for n in free if slug(n) not in names)
                names.add(slug(name))
                tables.append(replace(t, name=name))
            # tables of one source are consistent: its second table of equal statistics adds nothing
            where.setdefault((source, number[key]), i)
    # the noise of a source may differ between the values of these attributes, so they are not exchangeable
    separate = {a for p in publications for t in p.workload.tables if (a := t.target.attribute) is not None}
    separate |= {a for p in publications for a in p.structured_attributes}
    try:
        publication = Publication(
            Workload(domain, tables, leading.confidence),
            replace(leading.unit, within=()),  # all numbers of the union count as measured
            leading.source,
            leading.delta,
            title=leading.title,
        )
        publication = publication.with_joint_axes(_joint_axes(publication, publications, separate, impossible))
        workload = publication.workload
        classes = {} if impossible is None else _classes(workload, sorted(separate), impossible)
        separate |= {a for a in used_attributes(workload) if domain.attribute_of(a) in constrained}
        if classes or counts_by_class(workload):
            decomposition = decompose_by_class(workload, classes, sorted(separate))
            classes |= classes_along(workload.domain, decomposition.structured, used_attributes(workload))
        else:
            decomposition = decompose(workload, separate=sorted(separate))
    except WorkloadError as error:
        if constrained:
            raise ReleaseError(
                "too-many-cells-with-rules",
                f"With rules on {list(constrained)}, these tables have too many joint cells.",
                error.given,
                "State rules on fewer attributes.",
                UNCOMBINED,
            ) from None
        raise ReleaseError(
            "too-many-tables-combined",
            "The tables of these releases are too many to combine.",
            error.given,
            _fewer_releases(releases, has_memory=error.code != "workload.too-little-memory"),
            UNCOMBINED,
        ) from None
    return publication, TableUnion(workload, decomposition, where, classes)


def _classes(workload: Workload, separate: Sequence[str], impossible: ImpossibleCells) -> dict[str, Indices]:
    """Return the classes of values of rules' attributes, if their joint cells are too many for one cell a value.

    An attribute has classes if the tables and the noise treat its values equally. A hierarchy has none.

    separate: The attributes whose values the noise of a source can treat differently.
    """
    has_matrix = any(t.matrix is not None for t in workload.tables)
    if impossible.possible.size <= MAX_DENSE_RULE_CELLS or has_matrix:
        return {}
    free, _ = exchangeable_attributes(workload, separate)
    return {a: impossible.classes(a) for a in free if a in impossible.attributes and workload.domain[a].tree is None}


def _fewer_releases(releases: Sequence[Release], *, has_memory: bool) -> str:
    """Return the advice for releases that cannot be combined: a corrected one adds nothing to its correction."""
    if superseded_pairs(releases):
        return "Use the release that supersedes the other, and leave out the superseded one."
    fewer = "Combine fewer releases, or use them one by one" if len(releases) > 2 else "Use the releases one by one"
    return f"{fewer}." if has_memory else f"{fewer}, or combine them on a machine with more memory."


def _joint_axes(
    union: Publication,
    publications: Sequence[Publication],
    separate: Collection[str],
    impossible: ImpossibleCells | None,
) -> tuple[JointAxis, ...]:
    """Return the joint axes of a union of tables: attributes that all releases with two of them count jointly.

    separate: The attributes whose values the noise of a source can treat differently.
    impossible: The rules about impossible cells, which divide classes of values.

    Raises:
        ReleaseError: A release counts attributes jointly, and the union cannot: their numbers depend on each other in
            this release alone.
    """

    def counted_jointly(publication: Publication) -> list[set[str]]:
        workload = publication.workload
        axes = workload.domain.axes
        return [{*axes.attributes_of(x.name)} for x in used_joint_axes(workload.domain, used_attributes(workload))]

    common_axes = []
    for listed in with_joint_axes(union).domain.axes.joint.values():
        one = listed if impossible is None else _divided(listed, impossible)
        homes = set(map(union.domain.attribute_of, one.names))
        has_free_classes = all(a not in separate for a, row in zip(one.names, one.classes, strict=True) if row)
        if has_free_classes and all(_has_cells(p, union.domain.with_joint_axes([one]), one) for p in publications):
            common_axes.append((one, homes))
    for names in (names for p in publications for names in counted_jointly(p)):
        if not any(names <= homes for _, homes in common_axes):
            raise ReleaseError(
                "attributes-not-joint-everywhere",
                f"Some of these tables count the attributes {sorted(names)} of one column jointly, and not all of them "
                "do.",
                "They are counted jointly if all releases have the same, few possible combinations of them.",
                "Combine releases that count these attributes in one way, or compare the releases (-, /).",
                UNCOMBINED,
            )
    return tuple(one for one, _ in common_axes)


def _has_cells(publication: Publication, domain: Domain, one: JointAxis) -> bool:
    """Return True if a release counts the attributes of a joint axis by these cells, as far as its tables show them.

    domain: The domain of the union, with the joint axis.
    """
    if one.name in domain.steps:
        # The column gives the cuts and the amount of each record, unless amounts are added up.
        return set(publication.unit.sum_within_unit).isdisjoint(one.names)
    used = used_attributes(publication.workload)
    homes = {publication.domain.attribute_of(a) for a in used}.intersection(domain.axes.attributes_of(one.name))
    names = [a for a in one.names if domain.attribute_of(a) in homes]
    if len(names) < 2:
        return all(has_all_values(domain, one, a) for a in names)
    for joint in used_joint_axes(publication.domain, used):
        if homes <= {*publication.domain.axes.attributes_of(joint.name)} and set(names) <= set(joint.names):
            has_classes = all(_divides(one, joint, a) for a in names)
            return has_classes and np.array_equal(_possible(domain, one, names), _possible(domain, joint, names))
    return False


def _divides(one: JointAxis, joint: JointAxis, name: str) -> bool:
    """Return True if each class of an attribute along one joint axis lies in a class along the other.

    The noise of a release is the same for all values of a class. So it is for a class within it.
    """
    row, other = (x.classes[x.names.index(name)] for x in (one, joint))
    return not row or len({*zip(row, other, strict=False)}) == max(row) + 1


def _possible(domain: Domain, one: JointAxis, names: Sequence[str]) -> Mask:
    """Return True for the combinations of values of some names of a joint axis that occur in its cells."""
    labels = [row or range(domain.sizes[a]) for a, row in zip(one.names, one.classes, strict=True)]
    by_class = np.zeros([max(row) + 1 for row in labels], dtype=bool)
    by_class[tuple(np.array(one.cells).T)] = True
    remaining_names = [a for a in one.names if a in names]
    by_value = by_class[np.ix_(*labels)]
    by_value = np.asarray(by_value.any(axis=tuple(i for i, a in enumerate(one.names) if a not in remaining_names)))
    return by_value.transpose([remaining_names.index(a) for a in names])


def _divided(one: JointAxis, impossible: ImpossibleCells) -> JointAxis:
    """Return a joint axis whose classes are divided into values that the rules treat in the same way."""
    rows: list[tuple[int, ...]] = []
    parts: list[Sequence[Sequence[int]]] = []
    for name, row, n in zip(one.names, one.classes, np.array(one.cells).max(axis=0) + 1, strict=True):
        pairs = [*zip(row, impossible.classes(name), strict=True)] if row and name in impossible.attributes else []
        order = {pair: k for k, pair in enumerate(dict.fromkeys(pairs))}
        rows.append(tuple(order[pair] for pair in pairs) or row)
        parts.append([[j for (k, _), j in order.items() if k == i] or [i] for i in range(n)])
    divided = (itertools.product(*(x[i] for x, i in zip(parts, cell, strict=True))) for cell in one.cells)
    return JointAxis(one.names, tuple(sorted(itertools.chain.from_iterable(divided))), tuple(rows))


def _domain(domains: Sequence[Domain]) -> Domain:
    """Return all attributes of some domains.

    Raises:
        ReleaseError: An attribute is not defined equally everywhere, or the attributes do not fit into one domain.
    """
    attributes: dict[str, Attribute] = {}
    for domain in domains:
        for name, attribute in domain.items():
            if attributes.setdefault(name, attribute) != attribute:
                raise ReleaseError(
                    "attribute-defined-differently",
                    f"These releases define {name!r} differently.",
                    "Only numbers of the same values are combined.",
                    "Compare the releases (-, /).",
                    UNCOMBINED,
                    place=name,
                )
    try:
        # A rule that not all releases state is left out: numbers of the others could be of impossible cells.
        common = [x for x in domains[0].rules if all(x in domain.rules for domain in domains)]
        return Domain(attributes).with_rules(common)
    except DomainError as error:
        raise ReleaseError(
            "attributes-do-not-fit",
            "The attributes of these releases do not fit into one domain.",
            error.given,
            "Compare the releases (-, /).",
            UNCOMBINED,
        ) from None


def _check_releases(releases: Sequence[Release]) -> None:
    """Raise ReleaseError unless all have tables and noise of their own, and state that they count the same records."""
    for r in releases:
        if not r.plan.groups:
            raise ReleaseError(
                "combined-without-tables",
                "A release has no tables.",
                "Answers to questions are not combined.",
                "Combine releases that have tables.",
                UNCOMBINED,
            )
    sources = [s for r in releases for s in r._sources]
    # one noise taken for two independent ones would halve the stated variance
    if len(set(sources)) < len(sources):
        raise repeated_release("A combination needs different releases.", UNCOMBINED)
    refuse_shared_noise(sources)
    one, *others = (r.plan.publication for r in releases)
    for other in others:
        for what, mine, theirs in _stated(one, other):
            if mine != theirs:
                raise ReleaseError(
                    "different-records",
                    f"These releases count different records: they differ in {what}.",
                    "Only releases of the same records are combined.",
                    "Compare the releases (-, /).",
                    UNCOMBINED,
                )


def _stated(publication: Publication, right: Publication) -> Iterator[tuple[str, object, object]]:
    """Yield the statements that determine which records are counted, as name and both values."""
    mine, theirs = publication.source, right.source
    yield "the source", (mine.name, mine.table, mine.population), (theirs.name, theirs.table, theirs.population)
    yield "the conditions that records meet", mine.where, theirs.where
    yield "the privacy unit", publication.unit, right.unit
    here, there = publication.workload.domain, right.workload.domain
    dropped = [{name: d[name] for name in d.drops(p.source.drops)} for d, p in ((here, publication), (there, right))]
    yield "the attributes for whose values records are left out", dropped[0], dropped[1]
    by_rule = [{*d.axes.rules.values()} if s.drops_by_rule else set() for d, s in ((here, mine), (there, theirs))]
    yield "the rules by which records are left out", by_rule[0], by_rule[1]
    if publication.unit.id is not None:  # the rule for a person's counted records depends on all attributes
        yield "the attributes, by which the records of a person are chosen", here, there


# --- the combination -------------------------------------------------------------------------------


@final
class Combination(DerivedTables, QuestionMixin):
    """Several releases of the same records as one: consistent tables by name, and answers to questions about them.

    :func:`combine` makes it, and with rules about impossible cells :func:`given`. It answers the questions that a
    release answers: `count`, `total`, `mean`, `quantile`, `estimate`.

    **Guarantees**
        * every value except a mean is unbiased. It has the least variance of all linear unbiased combinations of the
          releases' tables: no `std_error` is larger than in any single release;
        * `std_error` and `covariance` are exact for Gaussian noise of the stated scales, and at least those of the
          discrete noise. Each kind of noise enters by its variance;
        * intervals have at least their confidence. If all noise is Gaussian, they use its quantiles. If a release is
          pure, each kind of noise has a part of the allowed error (Bonferroni), and sums of Laplace noise are exact;
        * any two tables agree on their shared sums, up to floating point; combining charges nothing;
        * with public totals, these guarantees hold if the totals are right. The tables agree with the totals of every
          release, up to floating point;
        * with rules, these guarantees hold if no record in an impossible cell was counted (`assumptions`). Numbers of
          impossible cells alone are 0 ± 0.

    Source: generalised least squares (Aitken 1935), sector by sector.
    """

    description = DESCRIPTION
    kind = "combination"

    def __init__(self, releases: Sequence[Release], impossible: Sequence[Mapping[str, Any]] = ()) -> None:
        _check_releases(releases)
        sources = tuple(s for r in releases for s in r._sources)
        domain = _domain([s.part.publication.workload.domain for s in sources])
        # rules are read first: an error in them appears before the long computation
        parts = [x for s in sources for x in s.part.publication.workload.tables.parts]
        tables = [x if isinstance(x, Table) else x.template for x in parts]
        self._impossible = ImpossibleCells.from_rules(domain, impossible, tables) if impossible else None
        publication, union = _union_of_tables(releases, domain, self._impossible)
        totals = distinct_totals(sources, domain)
        if totals and union.classes:
            raise ReleaseError(
                "public-totals-with-classes",
                "A release has public totals, and the values of some attributes are combined by classes.",
                "With public totals each value is a cell of its own, also for rules: their attributes have at most "
                f"{MAX_DENSE_RULE_CELLS:,} joint cells.",
                "State rules on fewer attributes, or use the releases one by one.",
                UNCOMBINED,
            )
        estimation, pieces = _joined(union, sources, totals)
        names = [*(f"{s.digest} {s.part_index}" for s in sources), *map(ascii, self._rules)]
        digest = hashlib.sha256("\n".join(names).encode("ascii")).hexdigest()
        joint = JointTables(publication, union.decomposition, estimation)
        self.releases = tuple(releases)
        self._combined = CombinedSource(digest, 0, RebuiltTables(joint, ()), union, sources, pieces)
        # by the ranks with all rules at once: two rules can add information where neither alone does
        self._adds_information = False
        if self._impossible is not None:
            structured = union.decomposition.structured
            possible = self._impossible.possible_among(union.workload.domain, structured, union.classes)
            equations = TotalsEquations(union.workload.domain, union.decomposition, totals, possible)
            decomposition, estimation, pieces, distance = _within_rules(
                union.decomposition, equations, estimation, pieces
            )
            joint = JointTables(publication, decomposition, estimation)
            ruled = CombinedSource(digest, 0, RebuiltTables(joint, ()), union, sources, pieces)
            refuse_contradicted(self._combined, ruled, distance)
            self._combined, self._adds_information = ruled, distance.forms > 0

    @property
    def _rules(self) -> list[dict[str, Any]]:
        return [] if self._impossible is None else self._impossible.document

    @property
    def impossible(self) -> tuple[dict[str, Any], ...]:
        """The rules about impossible cells, for each attribute its values or bounds (:func:`fitnoise.given`)."""
        return tuple(self._rules)

    @property
    def impossible_values(self) -> tuple[tuple[ValueList, ...], ...]:
        """The values of each rule about impossible cells, by attribute; empty without rules."""
        return () if self._impossible is None else self._impossible.values

    @property
    def assumptions(self) -> tuple[Message, ...]:
        """The statements on which estimates with rules rest; empty without rules."""
        if self._impossible is None:
            return ()
        return (Message("report.given.assumed"), *([] if self._adds_information else [Message("report.given.nothing")]))

    @property
    def conditions(self) -> tuple[Message, ...]:
        """The statements on which the numbers rest: on the same records, on public totals, and on rules."""
        is_one = len(self.releases) == 1 and self._impossible is not None
        same = [] if is_one else [Message("report.combined.same_records")]
        totals = dict.fromkeys(x for r in self.releases for x in public_totals(r.plan))
        stated = (Message("report.universe.public", (Value("rule", x, ValueKind.MESSAGE),)) for x in totals)
        return (*self.all_remarks(), *same, *stated, *self.assumptions)

    @cached_property
    def certificate(self) -> Certificate | None:
        """Δ² = 2ρ of the release, and a bound on that of every Gaussian plan with the same targets and these rules.

        It takes seconds. None for several releases or parts, and where no bound is computed (`rule_certificate`).
        """
        if self._impossible is None or len(self._combined.sources) > 1:
            return None
        return rule_certificate(self._combined.sources[0].with_measured_design, self._impossible)

    def all_remarks(self) -> tuple[Message, ...]:
        """Return a warning for each release that supersedes another one of the combination."""
        return superseded_pairs(self.releases)

    @property
    def _sources(self) -> Sequence[AnswerSource]:
        return (self._combined,)

    @property
    def _workload(self) -> Workload:
        return self._combined.union.workload

    @property
    def _domain(self) -> Domain:
        return self._workload.domain

    @property
    def _confidence(self) -> float:
        return self._workload.confidence

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self:
            raise KeyError(f"no table {name!r}; there are {list_names(list(self))}")
        if self._workload[name].averaged is not None:
            frame = pd.DataFrame(complete_columns(mean_columns(self._combined, self._workload.number(name))))
            frame.attrs = self._attrs(name)
            return frame
        return self._counted(name)

    def counts_at_ends(self, name: str) -> pd.DataFrame:
        """Return the counts from which a table of means is made (:meth:`fitnoise.Release.counts_at_ends`).

        Args:
            name: The table of means.

        Raises:
            ReleaseError: There is no such table, or it is not of means.
        """
        if name not in self or self._workload[name].averaged is None:
            raise no_means(name)
        return self._counted(name)

    def _counted(self, name: str) -> pd.DataFrame:
        """Return a table with value, std_error and moe; for means, the counts of `counts_at_ends`."""
        table = self._workload[name]
        forms = self._combined.numbers(name)
        rows = RowLabels({"": tuple(range(forms.length))}, {"": ""})
        estimates = Estimates(forms, rows, self._confidence)
        frame = stub_frame(table.stubs(self._domain))
        frame["value"], frame["std_error"] = estimates.value, estimates.std_error
        frame["moe"] = estimates.moe(table.target.level(self._confidence))
        frame.attrs = self._attrs(name)
        return frame

    def _attrs(self, name: str) -> dict[Hashable | None, Any]:
        """Return the statistic of a table's numbers, its confidence and its universe, with the conditions."""
        table, (release, own_name) = self._workload[name], self._origins(name)[0]
        counted = universe_messages(release.plan, release.plan.group(own_name).publication.workload[own_name])
        return {
            "statistic": english(*statistic(table, self._domain)),
            "confidence": table.target.level(self._confidence),
            "universe": [*dict.fromkeys(map(english, (*counted, *self.conditions)))],
        }

    def _origins(self, name: str) -> list[tuple[Release, str]]:
        """Return the releases that have a table, each with the name of the table there."""
        union, number = self._combined.union, self._workload.number(name)
        return [(r, union.name(s, number)) for r in self.releases for s in r._sources if (s, number) in union.where]

    def __contains__(self, name: object) -> bool:
        return name in self._workload.tables.numbered

    def __iter__(self) -> Iterator[str]:
        return iter(self._workload.tables.names)

    def __len__(self) -> int:
        return len(self._workload.tables)

    def __repr__(self) -> str:
        n, rules = len(self.releases), len(self._rules)
        parts = [f"{n} releases" if n > 1 else "1 release", *([f"{rules} rules"] if rules > 1 else ["1 rule"] * rules)]
        head = f"Combination of {', '.join(parts)}, {len(self)} tables: {list_names(list(self))}"
        stated = " ".join(map(english, self.assumptions))
        return f"<{head}. {stated}>" if stated else f"<{head}>"

    def tables_by_release(self, name: str) -> list[pd.DataFrame]:
        """Return a table as it is in each release that has it; for means, the counts of `counts_at_ends`.

        Args:
            name: The name of the table in the combination.

        Raises:
            WorkloadError: There is no such table.
        """
        pairs = self._origins(name)
        if self._workload[name].averaged is not None:
            return [r.counts_at_ends(table_name) for r, table_name in pairs]
        return [r[table_name] for r, table_name in pairs]

    def publication(self, name: str) -> Publication:
        """Return the publication of the combination, which is the same for each of its tables.

        It has all tables and all attributes of the releases, and the unit, source, δ and title of the first.

        Args:
            name: The name of a table.

        Raises:
            KeyError: There is no such table.
        """
        if name not in self:
            raise KeyError(f"no table {name!r}; there are {list_names(list(self))}")
        publication: Publication = self._combined.part.publication
        return publication

    def csv(self, name: str) -> str:
        """Return a table as a CSV file.

        Args:
            name: The name of the table.

        Raises:
            KeyError: There is no such table.
        """
        return csv_text(self[name])

    def frames(self, name: str) -> dict[str, Callable[[], pd.DataFrame]]:
        """Return the files of a table: for the name of each CSV file a function that makes its frame.

        A table of means has a second file, with the counts of :meth:`counts_at_ends`.

        Args:
            name: The name of the table.

        Raises:
            WorkloadError: There is no such table.
        """
        files = (f"{file}.csv" for file in file_stubs(self._workload[name], self._domain))
        # a table without means has one file, and no use for the second function
        return dict(zip(files, (partial(self.__getitem__, name), partial(self._counted, name)), strict=False))

    def texts(self, name: str) -> Texts:
        """Return the files of a table: for each file name a function that makes its text.

        Args:
            name: The name of the table.

        Raises:
            WorkloadError: There is no such table.
        """
        return {file: partial(_csv, frame) for file, frame in self.frames(name).items()}

    def document(self) -> dict[str, Any]:
        """Return the content of combination.json: digests of plans and answers of the releases, tables, a statement."""
        identities = [release_identity(r) for r in self.releases]
        tables = [{"name": name, "file": f"{slug(name)}.csv", "numbers": len(self._counted(name))} for name in self]
        stated = [message_document(m) for m in (Message("report.combined.same_records"), *self.assumptions)]
        return {
            "fitnoise_combination": FORMAT,
            "releases": identities,
            "impossible": self._rules,
            "stated": stated,
            "tables": tables,
        }

    def estimate(self, combination: Mapping[str, Floats], confidence: float | None = None) -> Estimate:
        """Return any linear combination of the tables' numbers, with its error.

        Args:
            combination: For some tables, one coefficient for each number, in the table's shape.
            confidence: The confidence of the margin; default that of the first release.

        Raises:
            ReleaseError: A table is unknown, or its coefficients have another shape or are not finite.
            WorkloadError: The confidence is not in (0, 1).
        """
        parts = ((self._combined.form(name, x), self._workload[name], x) for name, x in combination.items())
        return added(parts, self._confidence).to_estimate(confidence)

    def _estimates(
        self, question: ReaderQuestion, among: Sequence[AnswerSource] | None = None, *, counts: bool = True
    ) -> Estimates:
        """Return the answers to a question; with rules, numbers of impossible cells alone are exactly 0."""
        estimates = super()._estimates(question, among, counts=counts)
        answered = estimates._question
        if self._impossible is None or answered is None:
            return estimates
        # rounding would leave about 1e-13 where rows cancel
        selection = sp.csr_array(sp.diags_array(self._impossible.may_count(answered).astype(np.float64)))
        selection.eliminate_zeros()
        stated = answered.summing((english(Message("report.given.condition")),))
        return Estimates(estimates._forms.combined(selection), estimates._rows, self._confidence, stated, counts=counts)


def records_not_stated(option: str, comparison: str) -> ReleaseError:
    """Return the error for releases to be combined without a statement that their records are the same.

    Args:
        option: Argument or option that makes the statement.
        comparison: Operators or command that compare releases.
    """
    return ReleaseError(
        "same-records-not-stated",
        f"{option} is not given.",
        "Only releases of the same records make one estimate, and no file can state this.",
        f"Give {option} where you know it, or compare the releases ({comparison}).",
        UNCOMBINED,
    )


def single_release(other: str, rules: str) -> ReleaseError:
    """Return the error for one release to be combined, without rules.

    Args:
        other: Another release and the statement about its records, as arguments or options.
        rules: Function or option that uses rules about impossible cells.
    """
    return ReleaseError(
        "combination-of-one-release",
        "One release is given.",
        "A combination needs another release of the same records, or rules about impossible cells.",
        f"Give {other}, or state rules ({rules}).",
        UNCOMBINED,
    )


@checked(ReleaseError, "Nothing was combined.")
def combine(release: Release, *others: Release, same_records: bool = False) -> Combination:
    """Combine several releases of the same records into one estimate of least variance. Measures and charges nothing.

    Args:
        release: A release.
        others: Further releases, such as free answers for the plan of `release`. fitnoise compares the statements about
            their records: source, conditions, privacy unit, values that leave records out, and every attribute that two
            releases share.
        same_records: True states that the data were the same each time. Only the publisher knows this; no file can
            state it.

    Raises:
        ReleaseError: `same_records` is not true, or one release is given without it. Or the releases state that
            they count different records, or define an attribute differently, or have explicit queries and different
            domains. Or a release is given twice or has no tables. Or two releases are periods of one series. Or
            their public totals contradict each other. Or their attributes do not fit into one domain, or they have too
            many tables. Or jointly they have too many joint cells of structured attributes (at most 20,000, of which
            one release may have 4,096).

    **Guarantees**
        The result keeps the guarantees of :class:`Combination`.

    Example:
        `fn.combine(release, other, same_records=True).count(status="joint", by="state").frame()`
    """
    if same_records is not True:
        if not others:
            raise single_release("another release with same_records=True", "fn.given")
        raise records_not_stated("same_records=True", "-, /")
    return Combination((release, *others))


# --- checked by anyone ----------------------------------------------------------------------------------


def read_combination(releases: Sequence[Release], directory: Path) -> Combination:
    """Read a combination from a folder, and recompute it from these releases in any order.

    Raises:
        ReleaseError: There is no combination. Or its document is damaged or altered, or is of another version or of
            other releases. Or as for :func:`combine`.
    """
    text = read_text(directory / DESCRIPTION)
    try:
        stated = parse(text)
        identities, version = [(x["plan"], x["answers"]) for x in stated["releases"]], stated["fitnoise_combination"]
        by_identity = {tuple(release_identity(r).values()): r for r in releases}
        rules = list(map(dict, stated["impossible"]))
        if version != FORMAT or len(identities) != len(releases) or set(identities) != by_identity.keys():
            raise ReleaseError(
                "foreign-combination",
                "The combination is of other releases, or of another version.",
                "It needs the releases that it was made of.",
                "Give all of its releases, and no others.",
                UNREAD,
            )
    except (ValueError, TypeError, KeyError):
        raise ReleaseError(
            "combination-damaged",
            f"{DESCRIPTION} does not describe a combination.",
            "",
            "Bring the file back as it was written.",
            UNREAD,
            place=DESCRIPTION,
        ) from None
    # in the order of the document, on which the tables' order and names depend
    combination = Combination([by_identity[x] for x in identities], rules)
    if stated != combination.document():
        raise ReleaseError(
            "combination-altered",
            f"{DESCRIPTION} does not describe the combination of these releases.",
            "",
            "Bring the file back as it was written.",
            UNREAD,
            place=DESCRIPTION,
        )
    return combination


def _csv(frame: Callable[[], pd.DataFrame]) -> str:
    """Return a table as a CSV file."""
    return csv_text(frame())


def check_tables(combination: Combination, directory: Path) -> Message | None:
    """Return the first fault of the files in a folder as those of a combination; None if there is no fault.

    The function recomputes the numbers, so the last of their digits may differ; everything else must be as written.

    Raises:
        ReleaseError: A file cannot be read.
        ValueError: A column of numbers has another text.
        IndexError: A row is too short.
    """

    def texts_of(name: str) -> Texts:
        return {file: partial(text, file, frame) for file, frame in combination.frames(name).items()}

    def text(file: str, frame: Callable[[], pd.DataFrame]) -> str:
        table = frame()
        lines = list(csv.reader(io.StringIO(read_text(directory / file))))
        for column in set(table.columns).intersection(number_columns(table)):
            position = list(table.columns).index(column)
            stated = np.array([float(line[position]) for line in lines[1:]])
            if (
                len(stated) == len(table)
                and (np.abs(stated - table[column]) <= FILE_ROUNDING + RELATIVE_ROUNDING * np.abs(table[column])).all()
            ):
                table[column] = stated  # so the comparison of the texts finds every other difference
        return csv_text(table)

    return combination.check_files(directory, texts_of)
