"""Nonnegative, consistent integer tables, made from the unbiased tables of a release. Post-processing without cost.

1. *Nonnegative*: among all consistent tables with nonnegative atoms (:mod:`fitnoise.reading.table_overlap`), the tables
   nearest to the noisy ones, t̂, in the metric of the noise. With V the covariance of all numbers and D the matrix from
   numbers to atoms, they are the tables t with

       t = t̂ + V Dᵀλ,     λ ≥ 0,     D t ≥ 0,     λᵀD t = 0,

   These conditions prove that no other such tables are nearer. The document holds λ, so anyone can check them.
2. *Integer*: an integer close to each number, with the least squared distance for which the tables agree on all their
   shared sums.

The cost is bias: small numbers are pushed up, and where tables share many sums with them, large numbers change too.
fitnoise simulates the bias around the published tables, without data. The intervals stay those of the unbiased numbers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast, final

import numpy as np
import pandas as pd
import scipy.sparse as sp

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.arrays import Floats, Integers, answers_digest
from fitnoise.kernel.checks import is_integer
from fitnoise.kernel.designs._base import NoiseSource
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.documents import parse
from fitnoise.mechanisms.estimation import SectorIndex
from fitnoise.mechanisms.rebuilding import RebuiltTables, SectorTables
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reading.derived_tables import DerivedTables
from fitnoise.reading.labelled_numbers import RowLabels
from fitnoise.reading.refusals import UNMADE, UNREAD, repeated_table, unknown_table
from fitnoise.reading.release import Release
from fitnoise.reading.release_files import csv_text, read_text
from fitnoise.reading.table_overlap import LeafPartition, TableOverlap
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import list_names
from fitnoise.solving.fixed_random import FixedGenerator
from fitnoise.solving.nearest_integers import MAX_DISTANCE, SharedSums, SumConstraints, adjacent, check_adjacent
from fitnoise.solving.nonnegative import nearest

FORMAT = 1
"""The version of the written document."""

DESCRIPTION = "whole.json"

SIMULATIONS = 200
"""The default number of simulations of the noise, for few numbers."""

FEW_SIMULATIONS = 20
"""The default number of simulations for many numbers."""

MANY_NUMBERS = 20_000
"""The largest count of numbers that is few."""

MAX_SIMULATIONS = 10_000
"""The largest number of simulations; a larger one is refused."""

MAX_INTEGER_TABLES = 5_000
"""The largest number of tables that are made integer jointly."""

TOLERANCE = 1e-10
"""The largest residual of the proof, in standard errors."""

PROOF_TOLERANCE = 1e-9
"""The largest residual when another machine checks the proof, in standard errors."""

SIMULATION_TOLERANCE = 1e-3
"""The largest residual for simulated tables, in standard errors."""

RESIMULATION_TOLERANCE = 0.01
"""Allowed difference of two simulations of one error, in records and relative: iterations can end differently."""

DENSE = 2_000
"""The largest number of atoms whose covariances are written as a matrix, for many multiplications."""

STEPS = 20_000
"""The largest number of multiplications by the covariance."""

MAX_SECONDS_PER_PART = 300.0
"""The time limit of the search for integers, for each part of a release."""

SIMULATED = ("simulated_bias", "simulated_rmse")


@final
class _SimulatedNoise:
    """Reproducible noise for simulations, close to the laws of a release's noise. It protects no one.

    Args:
        number: The number of the simulation, from 0.
    """

    def __init__(self, number: int) -> None:
        # no simulation draws 2⁴⁰ numbers, so no two simulations use a number of the other
        self._fixed = FixedGenerator(number << 40)

    def discrete_gaussians(self, scales: Floats, sizes: Integers) -> Integers:
        """Return rounded normal numbers."""
        samples = self._fixed.normal(0.0, 1.0, size=(int(sizes.sum()),))
        return np.rint(samples * np.repeat(scales, sizes)).astype(np.int64)

    def discrete_laplaces(self, scales: Floats, sizes: Integers) -> Integers:
        """Return differences of geometric numbers."""
        # ⌊−s·ln U⌋ is geometric with ratio e^(−1/s); from 2⁻⁵⁴ on, because U = 0 has no logarithm
        log_uniforms = np.log(self._fixed.uniform(2.0**-54, 1.0, size=(2, int(sizes.sum()))))
        one, other = np.floor(-log_uniforms * np.repeat(scales, sizes)).astype(np.int64)
        return np.asarray(one - other)


Tables = dict[int, Floats]
"""Tables by index in the workload."""


@final
class _TableSpace:
    """Some tables of a part of a release, with their shared sums.

    Args:
        part: The part, with its design.
        rebuilt: The noisy tables of the part.
        names: The names of the tables.

    Raises:
        ReleaseError: Some tables do not show counts.
    """

    def __init__(self, part: TablePart, rebuilt: RebuiltTables, names: Sequence[str]) -> None:
        workload = part.publication.workload
        self.part, self.names, self.noisy = part, tuple(names), rebuilt
        self.numbers = [workload.number(name) for name in names]
        self.shared = TableOverlap.from_tables(workload.domain, [workload[name] for name in names])
        self.largest = [self.numbers[i] for i in self.shared.largest]
        self._atom_matrices = {self.numbers[i]: self.shared.atoms(i) for i in self.shared.largest}
        self._shapes = {n: workload[name].shape(workload.domain) for n, name in zip(self.numbers, names, strict=True)}
        variances = {n: part.table_variances(workload.tables[n].name).ravel() for n in self.largest}
        # Units for atoms, called standard errors here: with them, D V Dᵀ has a diagonal of about 1. They leave the
        # covariances of a table's numbers out. Any positive units are right: λ and D t change in inverse ratio.
        atom_variances = [x if (a := self._atom_matrices[n]) is None else abs(a) @ x for n, x in variances.items()]
        self._ends = np.cumsum([len(x) for x in atom_variances])[:-1]
        self._errors = np.sqrt(np.concatenate(atom_variances))
        # each multiplication by the covariance visits the same sectors and makes the same sums
        self._routes: rebuilding.RouteCache = {}
        self._sums: dict[tuple[int, frozenset[tuple[str, LeafPartition]]], sp.csr_array] = {}
        self._stacks = [which for which, _ in SectorTables(part, {}).stacks(self.largest)]

    @cached_property
    def estimates(self) -> Tables:
        """The unbiased tables."""
        return self.tables(self.noisy)

    def tables(self, rebuilt: RebuiltTables) -> Tables:
        """Return all tables, from the estimates of sectors."""
        return _tables(rebuilt, self.numbers)

    def atoms(self, tables: Tables) -> Floats:
        """Return D t, the atoms of the largest tables as one vector, in standard errors."""
        parts = []
        for n in self.largest:
            atom_matrix = self._atom_matrices[n]
            parts.append(tables[n].ravel() if atom_matrix is None else atom_matrix @ tables[n].ravel())
        return np.asarray(np.concatenate(parts) / self._errors)

    def apply_covariance(self, multipliers: Floats) -> Mapping[SectorIndex, Floats]:
        """Return V Dᵀλ of each sector, for λ in standard errors."""
        parts = dict(zip(self.largest, np.split(multipliers / self._errors, self._ends), strict=True))
        adjoints: Tables = {}
        for n, x in parts.items():
            atom_matrix = self._atom_matrices[n]
            adjoints[n] = (x if atom_matrix is None else atom_matrix.T @ x).reshape(self._shapes[n])
        stacks = ((which, np.stack([adjoints[n] for n in which.tolist()])) for which in self._stacks)
        return self.part.estimation.apply_covariance(rebuilding.gathered(self.part, stacks, self._routes))

    def _sector_tables(self, multipliers: Floats) -> SectorTables:
        return SectorTables(self.part, self.apply_covariance(multipliers), self._routes)

    def apply_normal_matrix(self, multipliers: Floats) -> Floats:
        """Return D V Dᵀλ."""
        return self.atoms(_tables(self._sector_tables(multipliers), self.largest))

    def tables_at(self, multipliers: Floats) -> Tables:
        """Return the tables t̂ + V Dᵀλ."""
        step = self.tables(self._sector_tables(multipliers))
        return {n: x + step[n] for n, x in self.estimates.items()}

    def residual(self, multipliers: Floats, tables: Tables) -> float:
        """Return the largest `abs(min(λ, D t))`, in standard errors: 0 if the multipliers prove the tables nearest.

        multipliers: λ, (atoms,), in standard errors.
        tables: t = t̂ + V Dᵀλ, by index.
        """
        return float(np.abs(np.minimum(multipliers, self.atoms(tables))).max())

    def by_table(self, multipliers: Floats) -> dict[str, Floats]:
        """Return the multipliers by the names of the largest tables."""
        names = dict(zip(self.numbers, self.names, strict=True))
        parts = np.split(multipliers, self._ends)
        return {names[n]: x for n, x in zip(self.largest, parts, strict=True)}

    def multipliers(self, stated: Mapping[str, Any]) -> Floats:
        """Return the multipliers of all largest tables as one vector, from a document that has them by table.

        A document has the positions of the multipliers above 0 (`at`), and these (`multipliers`).

        Raises:
            KeyError: The document lacks a table.
            ValueError: A position is out of range, a multiplier is not above 0, or has no position.
        """
        out = np.zeros(len(self._errors))
        for name, view in self.by_table(out).items():
            index, values = _numbers(stated[name]["at"], int), _numbers(stated[name]["multipliers"], float)
            # 0 is never written, so that equal multipliers have one document
            if len(index) != len(values) or not ((index >= 0) & (index < len(view))).all() or not (values > 0).all():
                raise ValueError(f"multipliers of {name!r}")
            view[index] = values  # a view of the vector
        return out

    # --- integers -----------------------------------------------------------------------------------

    @cached_property
    def sums(self) -> SumConstraints:
        """The sums that integer tables must preserve."""
        zero_blocks: list[dict[int, sp.csr_array]] = []
        for key, i, j in self.shared.links():
            zero_blocks.append({i: self._summed(i, key), j: -self._summed(j, key)})
        repeated_blocks = [{i: x} for i in range(len(self.numbers)) for x in self.shared.repeated(i)]
        atoms = ((i, self.shared.atoms(i)) for i in range(len(self.numbers)))
        # the total: of many numbers it is left out, because one row over all would make one problem of all tables
        few = len(self.flat(self.estimates)) <= MANY_NUMBERS
        everyone = [i for i in self.shared.having.get(frozenset(), []) if i in self.shared.largest][: int(few)]
        close_blocks = [{i: self.shared.summed(i, frozenset())} for i in everyone]
        bounded_blocks = [{i: x} for i, x in atoms if x is not None]
        preserved, at_least, close, repeated = (
            self._rows(x) for x in ([*zero_blocks, *repeated_blocks], bounded_blocks, close_blocks, repeated_blocks)
        )
        return SumConstraints(preserved, at_least, close, lambda: self._common(repeated))

    def _summed(self, i: int, key: frozenset[tuple[str, LeafPartition]]) -> sp.csr_array:
        if (i, key) not in self._sums:
            self._sums[i, key] = self.shared.summed(i, key)
        return self._sums[i, key]

    def _common(self, repeated: sp.csr_array) -> SharedSums:
        """Return the shared sums of tables, as sums of each table's numbers."""
        having = [(key, self.shared.having[key]) for key in self.shared.common]
        one = [{tables[0]: self._summed(tables[0], key)} for key, tables in having]
        all_sums = [{i: self._summed(i, key)} for key, tables in having for i in tables]
        sizes = [math.prod(p.size for _, p in key) for key, _ in having]
        starts = np.cumsum([0, *sizes])
        which = [np.arange(n) + start for n, start, group in zip(sizes, starts, having, strict=False) for _ in group[1]]
        nested = [{i: merged, j: sp.csr_array(-sp.eye_array(sizes[j]))} for i, j, merged in self.shared.nested()]
        positions = np.concatenate([np.zeros(0, dtype=np.intp), *which])
        return SharedSums(self._rows(one), _blocks(nested, sizes), self._rows(all_sums), positions, repeated)

    def _rows(self, blocks: Sequence[Mapping[int, sp.csr_array]]) -> sp.csr_array:
        return _blocks(blocks, [math.prod(self._shapes[n]) for n in self.numbers])

    def flat(self, tables: Mapping[int, Floats | Integers]) -> Any:
        """Return all numbers, table by table."""
        return np.concatenate([tables[n].ravel() for n in self.numbers])

    def split(self, numbers: Any) -> dict[str, Any]:
        """Return the tables by name, each in its shape."""
        ends = np.cumsum([math.prod(self._shapes[n]) for n in self.numbers])[:-1]
        parts = zip(self.names, self.numbers, np.split(numbers, ends), strict=True)
        return {name: x.reshape(self._shapes[n]) for name, n, x in parts}

    def satisfies(self, integers: Integers) -> bool:
        """Return True if integers are nonnegative, add up and agree."""
        n = integers.astype(np.float64)  # exact below 2⁵³, and sums of integers then, too
        return bool((n >= 0).all() and (self.sums.zero @ n == 0).all() and (self.sums.nonnegative @ n >= 0).all())

    # --- the cost -----------------------------------------------------------------------------------

    def _build_operator(self) -> Callable[[Floats], Floats]:
        """Return the function `apply_normal_matrix`, as a matrix product where the matrix is small."""
        n = len(self._errors)
        if n > DENSE:
            return self.apply_normal_matrix
        # a simulation multiplies often: n products make the matrix once for all of them
        matrix = np.stack([self.apply_normal_matrix(unit) for unit in np.eye(n)])
        return matrix.__matmul__

    def simulated(self, tables: Tables, simulations: int) -> tuple[Floats, Floats]:
        """Return bias and root mean squared error of every number, if the truth were these tables, from fixed draws.

        Without simulations both are empty.
        """
        point, nothing = self.atoms(tables), np.zeros(len(self.flat(tables)) if simulations else 0)
        total, squares, times = nothing, nothing, self._build_operator() if simulations else self.apply_normal_matrix
        parts = self.part.publication.unit.parts
        strategy = self.part.strategy if parts == 1 else self.part.strategy.scaled_by(parts)
        for number in range(simulations):
            # answers of 0 with noise are the noise alone
            silent = tuple(np.zeros(n, dtype=np.int64) for n in self.part.estimation.lengths)
            noise = RebuiltTables(self.part, strategy.draw(silent, cast(NoiseSource, _SimulatedNoise(number))))
            off = self.tables(noise)
            solution = nearest(times, point + self.atoms(off), SIMULATION_TOLERANCE, STEPS)
            step = self.tables(self._sector_tables(solution.values))
            # the nearest tables to truth + noise are truth + noise + V Dᵀλ: this is their error, before rounding
            error = self.flat({n: x + step[n] for n, x in off.items()})
            total, squares = total + error, squares + error**2
        return total / max(simulations, 1), np.sqrt(squares / max(simulations, 1))


def _blocks(blocks: Sequence[Mapping[int, sp.csr_array]], widths: Sequence[int]) -> sp.csr_array:
    """Return the rows of all blocks, one below the other, over several vectors side by side.

    blocks: For each block, its matrix for each vector, by the vector's index; 0 for the other vectors.
    widths: The length of each vector.
    """
    starts = np.cumsum([0, *widths])
    nothing = np.zeros(0, dtype=np.int64)
    data, row, column, height = [np.zeros(0)], [nothing], [nothing], 0
    for block in blocks:
        for i, x in block.items():
            triplets = x.tocoo()
            data.append(triplets.data)
            row.append(height + triplets.row.astype(np.int64))
            column.append(starts[i] + triplets.col.astype(np.int64))
        height += next(iter(block.values())).shape[0]
    entries = np.concatenate(data), (np.concatenate(row), np.concatenate(column))
    return sp.csr_array(entries, shape=(height, int(starts[-1])))


def _tables(rebuilt: RebuiltTables, among: Sequence[int]) -> Tables:
    stacks = rebuilt.stacks(among)
    return {n: x for which, stack in stacks for n, x in zip(which.tolist(), stack, strict=True)}


@final
@dataclass(frozen=True, eq=False)
class _IntegerPart:
    """The integer tables of one part: all numbers, table by table.

    multipliers: λ ≥ 0, (atoms,), in standard errors.
    nearest: t, the nonnegative tables nearest to the noisy ones, (numbers,).
    integers: The integers close to t, (numbers,).
    bias, rmse: The simulated errors, (numbers,), or empty arrays without simulations.
    """

    space: _TableSpace
    multipliers: Floats
    nearest: Floats
    integers: Integers
    bias: Floats
    rmse: Floats


@final
class IntegerTables(DerivedTables):
    """Consistent tables of nonnegative integers, by name. :func:`make_integer_tables` makes them.

    A table has the columns of its labels, and the columns

        value            an integer number of records, close to the nearest nonnegative consistent tables
        low, high        integers, the interval of the unbiased number cut to possible values
        simulated_bias   the mean of such values less the true number, in records, before rounding, simulated
        simulated_rmse   the root mean squared error, in records, before rounding, simulated

    Without simulations the last two are absent.

    **Guarantees**
        * in each part of the release (`further_tables` in its plan makes several), any two tables agree exactly on
          their shared sums. No number is negative, and the columns for "at most" never decrease. Not guaranteed: some
          set of records may not exist that has all these tables;
        * the exact number, of the records as they were read, is from `low` to `high` with at least the confidence of
          the table. The exact number is a nonnegative integer, so the cut of the unbiased number's interval to such
          numbers loses nothing. If necessary, fitnoise widens the interval so that it holds `value`. Shares need not be
          integers: for them the ends are the next integers outside the unbiased interval, from 0 on;
        * `residual` is at most 1e-9: before rounding, the tables are the nearest ones in the metric of the noise;
        * values are biased; `count` and the other questions of a release never use them;
        * `value` is a rounding by :mod:`fitnoise.solving.nearest_integers`. No other integers that are considered there
          have a smaller squared distance, as far as the solver (HiGHS) proves it;
        * the tables depend on published numbers only. One version of SciPy always gives equal tables, if its search
          ends within the time limit. Another version may choose other integers of equal squared distance.
    """

    description = DESCRIPTION
    kind = "integer_tables"

    def __init__(self, release: Release, parts: Sequence[_IntegerPart], simulations: int) -> None:
        self.releases, self._parts, self.simulations = (release,), tuple(parts), simulations
        self._part_by_table = {name: m for m in parts for name in m.space.names}

    @property
    def release(self) -> Release:
        """The release of the tables."""
        return self.releases[0]

    def publication(self, name: str) -> Publication:
        """Return the publication of a table, with its domain.

        Args:
            name: The name of the table.
        """
        return self.release.plan.group(name).publication

    @cached_property
    def residual(self) -> float:
        """The recomputed distance of the proofs from exact ones: the largest `abs(min(λ, D t))`, in standard errors."""
        return max(m.space.residual(m.multipliers, m.space.tables_at(m.multipliers)) for m in self._parts)

    @property
    def reach(self) -> float:
        """The largest distance of an integer from the nearest tables, in records.

        It is below 1 for adjacent integers, and below `MAX_DISTANCE` + 1 for all.
        """
        return max(float(np.abs(m.integers - m.nearest).max()) for m in self._parts)

    def nearest(self, name: str) -> Floats:
        """Return a table before rounding, in its shape: the nearest consistent nonnegative one.

        Args:
            name: The name of the table.

        Raises:
            ReleaseError: There is no such table.
        """
        values: Floats = self._split(name, "nearest")
        return values

    def unbiased(self, name: str) -> tuple[Floats, Floats]:
        """Return the unbiased numbers of a table and their margins, each in its shape.

        Args:
            name: The name of the table.

        Raises:
            KeyError: There is no such table.
        """
        space = self._part_by_table[name].space
        number = space.part.publication.workload.number(name)
        return space.estimates[number], np.asarray(space.part.table_margins(name))

    def _split(self, name: str, what: str) -> Any:
        if name not in self._part_by_table:
            raise unknown_table(name, list(self), UNREAD)
        part = self._part_by_table[name]
        return part.space.split(getattr(part, what))[name]

    def check(self) -> Message | None:
        """Return the first fault of the proof, of the sums, and of the distance from the nearest tables; None if none.

        Rounding and simulations have checks of their own, which take longer.
        """
        if not self.residual <= PROOF_TOLERANCE:  # refuses a residual that is no number, too
            return Message("report.fault.multipliers", (Value("residual", self.residual, ValueKind.GAP),))
        if not all(m.space.satisfies(m.integers) for m in self._parts):
            return Message("report.fault.sums")
        reach = Value("reach", self.reach, ValueKind.PEOPLE)
        # Rounding counts its steps from the floors, and a number lies less than 1 above its floor.
        return None if self.reach < MAX_DISTANCE + 1 else Message("report.fault.far", (reach,))

    def check_rounded(self) -> Message | None:
        """Return the fault of integers that are not the defined rounding, or None; the solver runs again."""
        for part in self._parts:
            problem = check_adjacent(part.nearest, part.integers, part.space.sums, MAX_SECONDS_PER_PART)
            if problem is not None:
                return problem
        return None

    def check_simulated(self) -> Message | None:
        """Return the fault of the simulated columns, or None; they are simulated again for this."""
        for part in self._parts:
            tables = part.space.tables_at(part.multipliers)
            for stated, simulated in zip(
                (part.bias, part.rmse), part.space.simulated(tables, self.simulations), strict=True
            ):
                off = np.abs(stated - simulated)
                if not (off <= RESIMULATION_TOLERANCE * (1 + part.rmse)).all():
                    difference = Value("difference", float(off.max()), ValueKind.PEOPLE)
                    return Message("report.fault.simulation", (difference,))
        return None

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._part_by_table:
            raise KeyError(f"there is no integer table {name!r}; there are {list_names(list(self))}")
        part = self._part_by_table[name]
        workload, value = part.space.part.publication.workload, self._split(name, "integers")
        parts = part.space.part.publication.unit.parts
        low, high = (x.astype(np.int64) for x in possible(*self.unbiased(name), value, is_integer=parts == 1))
        data = {"value": value, "low": low, "high": high}
        if self.simulations:
            data |= {column: self._split(name, x) for column, x in zip(SIMULATED, ("bias", "rmse"), strict=True)}
        labels = workload[name].labels(workload.domain)
        return RowLabels(labels, {}).frame(data) if labels else pd.DataFrame({k: np.ravel(x) for k, x in data.items()})

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.release if name in self._part_by_table)

    def __len__(self) -> int:
        return len(self._part_by_table)

    def __repr__(self) -> str:
        return f"<Integer tables, {len(self)}: {list_names(list(self))}>"

    # --- on disk ------------------------------------------------------------------------------------

    def csv(self, name: str) -> str:
        """Return a table as a CSV file.

        Args:
            name: The name of the table.

        Raises:
            KeyError: There is no such table.
        """
        return csv_text(self[name], fixed=SIMULATED)

    def document(self) -> dict[str, Any]:
        """Return the content of `whole.json`: the release, and the proof of the tables."""
        tables = []
        for name in self:
            part = self._part_by_table[name]
            entry = {"name": name, "values": self._split(name, "integers").ravel().tolist()}
            multipliers = part.space.by_table(part.multipliers).get(name)
            if multipliers is not None:
                positions = np.flatnonzero(multipliers)
                entry |= {"at": positions.tolist(), "multipliers": multipliers[positions].tolist()}
            if self.simulations:
                entry |= {
                    c: self._split(name, x).ravel().tolist() for c, x in zip(SIMULATED, ("bias", "rmse"), strict=True)
                }
            tables.append(entry)
        identity = {"plan": self.release.plan.hash, "answers": answers_digest(self.release.answers)}
        return {"fitnoise_whole": FORMAT, **identity, "simulations": self.simulations, "tables": tables}


def possible(value: Floats, moe: Floats, held: Integers, *, is_integer: bool) -> tuple[Floats, Floats]:
    """Return integer ends of the nonnegative numbers within moe of a value, widened to include `held`.

    held: The published integers.
    is_integer: True if the numbers are integers, as counts of records are; shares of records are not.
    """
    # an integer that is at least value − moe is at least the next integer above it; a share may lie between the two
    at_low, at_high = (np.ceil, np.floor) if is_integer else (np.floor, np.ceil)
    low, high = np.maximum(at_low(value - moe), 0.0), at_high(value + moe)
    return np.minimum(low, held), np.maximum(high, held)


@checked(ReleaseError, "Nothing was computed.")
def make_integer_tables(
    release: Release, tables: str | Iterable[str] | None = None, *, simulations: int | None = None
) -> IntegerTables:
    """Make consistent tables of nonnegative integers from the tables of a release. Costs no privacy.

    Args:
        release: The release of the tables.
        tables: The names of tables to make integer jointly; default all. Not possible are tables of sums of amounts, of
            explicit queries, and of overlapping groups whose intersections are not shown.
        simulations: The number of simulations of the noise, for the stated bias and error of each number; 0 states
            none. The default is 200, or 20 for more than 20,000 numbers. Simulations take most of the time.

    Raises:
        ReleaseError: A table is unknown, is named twice or is not of counts. Or there are no tables or more than 5,000,
            or the number of simulations is not from 0 to 10,000. Or the nearest tables were not found in 20,000 steps,
            or the solver found no integers in five minutes for a part of the release.

    **Guarantees**
        The result keeps the guarantees of :class:`IntegerTables`.

    Example:
        `fn.make_integer_tables(release)["state by status"]`;
        `fn.make_integer_tables(release).write("integer_tables")`
    """
    if simulations is not None and not 0 <= simulations <= MAX_SIMULATIONS:
        raise ReleaseError(
            "wrong-number-of-simulations",
            f"The number of simulations is {simulations!r}.",
            f"It must be from 0 to {MAX_SIMULATIONS:,}.",
            "Choose a number in this range.",
            UNMADE,
            place="simulations",
        )
    spaces = _spaces(release, _check_names(release, tables))
    few = sum(len(s.flat(s.estimates)) for s in spaces) <= MANY_NUMBERS
    often = simulations if simulations is not None else SIMULATIONS if few else FEW_SIMULATIONS
    return IntegerTables(release, [_make_part(s, int(often)) for s in spaces], int(often))


def _make_part(space: _TableSpace, simulations: int) -> _IntegerPart:
    solution = nearest(space.apply_normal_matrix, space.atoms(space.estimates), TOLERANCE, STEPS)
    tables = space.tables_at(solution.values)
    nearest_values = space.flat(tables)
    # checked as anyone will check it: the search itself may have ended above its own tolerance
    if not space.residual(solution.values, tables) <= PROOF_TOLERANCE:
        raise ReleaseError(
            "nearest-tables-not-found",
            f"The nearest tables were not found in {STEPS:,} steps.",
            "",
            "Name fewer tables.",
            UNMADE,
        )
    numbers = adjacent(nearest_values, space.sums, MAX_SECONDS_PER_PART)
    if numbers is None:
        raise ReleaseError(
            "integers-not-found",
            f"No whole numbers that add up were found in {MAX_SECONDS_PER_PART:.0f} seconds.",
            f"They must be next to the nearest tables, or up to {MAX_DISTANCE} from the floors of their numbers.",
            "Name fewer tables.",
            UNMADE,
        )
    return _IntegerPart(space, solution.values, nearest_values, numbers, *space.simulated(tables, simulations))


def _check_names(release: Release, tables: str | Iterable[str] | None) -> list[str]:
    available = list(release)
    names = available if tables is None else [tables] if isinstance(tables, str) else list(tables)
    for name in names:
        if name not in release:
            raise unknown_table(name, available, UNMADE)
    if len(set(names)) < len(names):
        raise repeated_table(UNMADE)
    if not names:
        raise ReleaseError(
            "no-tables-named",
            "There are no tables to make integer tables of.",
            "",
            "Name one table or more of the release." if available else "Use a release that has tables.",
            UNMADE,
        )
    if len(names) > MAX_INTEGER_TABLES:
        raise ReleaseError(
            "too-many-integer-tables",
            f"{len(names):,} tables are to be made integer tables.",
            f"At most {MAX_INTEGER_TABLES:,} are made at once.",
            "Name fewer tables.",
            UNMADE,
        )
    return names


def _spaces(release: Release, names: Sequence[str]) -> list[_TableSpace]:
    """Return the tables, part by part of the release."""
    out = []
    for source in release._sources:
        part_names = [n for n in names if n in source.part.publication.workload.tables.numbered]
        if part_names:
            out.append(_TableSpace(source.with_measured_design, source.rebuilt, part_names))
    return out


# --- checked by anyone ----------------------------------------------------------------------------------


def read_integer_tables(release: Release, directory: str | os.PathLike[str]) -> IntegerTables:
    """Read the tables that :meth:`IntegerTables.write` wrote, as stated there, without solving.

    Raises:
        ReleaseError: There are no such tables, or they are of another release, or are not of this form.
    """
    text = read_text(Path(directory) / DESCRIPTION)
    try:
        return _parsed(release, parse(text))
    except (ValueError, TypeError, KeyError, OverflowError):
        raise ReleaseError(
            "integer-tables-damaged",
            f"{DESCRIPTION} does not describe integer tables.",
            "",
            "Bring the file back as it was written.",
            UNREAD,
            place=DESCRIPTION,
        ) from None


def _parsed(release: Release, stated: Any) -> IntegerTables:
    identity = {"fitnoise_whole": FORMAT, "plan": release.plan.hash, "answers": answers_digest(release.answers)}
    if any(stated[key] != value for key, value in identity.items()):
        raise ReleaseError(
            "foreign-integer-tables",
            "The integer tables are of another release, or of another version.",
            "They need the release that they were made of.",
            "Give this release.",
            UNREAD,
        )
    simulations = stated["simulations"]
    if not (is_integer(simulations) and 0 <= simulations <= MAX_SIMULATIONS):
        raise ValueError
    by_name = {entry["name"]: entry for entry in stated["tables"]}
    if len(by_name) < len(stated["tables"]):
        raise ValueError
    parts = []
    for space in _spaces(release, _check_names(release, by_name)):
        multipliers = space.multipliers(by_name)
        nearest_values = space.flat(space.tables_at(multipliers))
        columns = [("values", int), *((x, float) for x in SIMULATED if simulations)]
        arrays = [np.concatenate([_numbers(by_name[name][x], kind) for name in space.names]) for x, kind in columns]
        if any(len(x) != len(nearest_values) for x in arrays):
            raise ValueError("numbers of tables")
        nothing = np.zeros(0)
        bias, rmse = arrays[1:] or (nothing, nothing)
        parts.append(_IntegerPart(space, multipliers, nearest_values, arrays[0], bias, rmse))
    return IntegerTables(release, parts, int(simulations))


def _numbers(stated: Any, kind: type) -> Any:
    """Return an array of finite numbers, or raise ValueError."""
    if not isinstance(stated, list) or not all(type(x) in (int, kind) for x in stated):
        raise ValueError("no list of numbers")
    out = np.array(stated, dtype=np.int64 if kind is int else np.float64)
    if not np.isfinite(out).all():
        raise ValueError("no finite numbers")
    return out
