"""Nonnegative, consistent integer tables, made from the unbiased tables of a release. Post-processing without cost.

1. *Nonnegative*: among all consistent tables with nonnegative atoms (:mod:`fitnoise.reading.table_overlap`), the tables
   nearest to the noisy ones, t̂, in the metric of the noise. With V the covariance of all numbers and D the matrix from
   numbers to atoms, they are the tables t with

       t = t̂ + V Dᵀλ,     λ ≥ 0,     D t ≥ 0,     λᵀD t = 0,

   These conditions prove that no other such tables are nearer. The document holds λ, so anyone can check them. Rules
   of order (:mod:`fitnoise.reading.table_order`) are further rows of D; V is block diagonal over releases. Numbers
   that public totals give have no noise, so V leaves them as they are, and their multipliers are 0.
2. *Integer*: an integer close to each number, with the least squared distance for which the tables agree on all their
   shared sums. They agree on those of public totals, too.

The cost is bias: small numbers are pushed up, and where tables share many sums with them, large numbers change too.
fitnoise simulates the bias around the published tables, without data. The intervals stay those of the unbiased numbers.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast, final

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import describe_value, is_integer
from fitnoise.kernel.designs._base import NoiseSource
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.documents import parse
from fitnoise.mechanisms.rebuilding import RebuiltTables, SectorTables
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.messages import document as message_document
from fitnoise.planning.files import read_text
from fitnoise.reading.contradictions import OrderedNumbers, refuse_contradicted_order
from fitnoise.reading.derived_tables import DerivedTables
from fitnoise.reading.linear_forms import AnswerSource, Forms, refuse_shared_noise
from fitnoise.reading.refusals import (
    UNMADE,
    UNREAD,
    repeated_release,
    repeated_table,
    unknown_table,
)
from fitnoise.reading.release import Release, release_identity
from fitnoise.reading.release_files import complete_columns, csv_text, stub_columns
from fitnoise.reading.table_order import OrderedTable, OrderRule, check_tables, parse_rules
from fitnoise.reading.table_overlap import Sums, TableOverlap
from fitnoise.request.arguments import checked, refuse_unless_fit
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import Table, Workload, list_names, slug
from fitnoise.solving.fixed_random import FixedGenerator
from fitnoise.solving.nearest_integers import (
    MAX_DISTANCE,
    FixedSums,
    SharedSums,
    SumConstraints,
    UnsolvedError,
    adjacent,
    check_adjacent,
)
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
        index: The index of the part of a release among the parts that are simulated jointly.
    """

    def __init__(self, number: int, index: int = 0) -> None:
        # No simulation draws 2⁴⁰ numbers, so no two simulations use a number of the other. Starts are below 2⁶³.
        self._fixed = FixedGenerator((number + MAX_SIMULATIONS * index) % 2**23 << 40)

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
        source: The noisy answers of the part.
        names: The names of the tables in their part.
        prefix: A text before each name among the tables of several releases.
        ordered: The tables of rules of order, by their names in the part.

    Raises:
        ReleaseError: Some tables do not show counts.
    """

    def __init__(
        self,
        source: AnswerSource,
        names: Sequence[str],
        prefix: str = "",
        ordered: Collection[str] = (),
    ) -> None:
        part, rebuilt = source.with_measured_design, source.rebuilt
        workload, self._source = part.publication.workload, source
        self.part, self.names, self.noisy = part, tuple(prefix + name for name in names), rebuilt
        self.prefix = prefix
        self.numbers = [workload.number(name) for name in names]
        public = part.publication.public_attributes
        totals = None if public is None else Table("", public, workload.tables[0].target)
        self._totals = rebuilt.totals
        self.shared = TableOverlap.from_tables(workload.domain, [workload[name] for name in names], totals)
        self.largest = [self.numbers[i] for i in self.shared.largest]
        # The tables whose numbers appear in D: the largest, and those of rules.
        self.constrained = [*self.largest, *(n for n in map(workload.number, ordered) if n not in self.largest)]
        self._atom_matrices = {self.numbers[i]: self.shared.atoms(i) for i in self.shared.largest}
        self._shapes = {n: workload[name].shape(workload.domain) for n, name in zip(self.numbers, names, strict=True)}
        variances = {n: part.table_variances(workload.tables[n].name).ravel() for n in self.largest}
        # Units for atoms, called standard errors here: with them, D V Dᵀ has a diagonal of about 1. They leave the
        # covariances of a table's numbers out. Any positive units are right: λ and D t change in inverse ratio.
        atom_variances = [x if (a := self._atom_matrices[n]) is None else abs(a) @ x for n, x in variances.items()]
        self._ends = np.cumsum([len(x) for x in atom_variances])[:-1]
        self._errors = _units(np.concatenate(atom_variances))
        # What remains of noise in numbers of the totals is the rounding of floats.
        by_number = {} if public is None else dict(zip(self.numbers, names, strict=True))
        self._without_noise = {n: part.table_variances(name) == 0 for n, name in by_number.items()}
        # each multiplication by the covariance visits the same sectors and makes the same sums
        self._routes: rebuilding.RouteCache = {}
        self._sums: dict[tuple[int, Sums], sp.csr_array] = {}
        self._stacks = [which for which, _ in SectorTables(part, {}).stacks(self.constrained)]

    def ordered_table(self, name: str) -> OrderedTable:
        """Return a table of a rule of order."""
        workload, i = self.part.publication.workload, self.names.index(name)
        has_total = i in self.shared.having.get(frozenset(), [])
        total = self.shared.summed(i, frozenset()).toarray().ravel() if has_total else None
        return OrderedTable(workload.tables[self.numbers[i]], workload.domain, self.prefix, total)

    def published(self, name: str) -> Forms:
        """Return a form for each unbiased number of a table."""
        return self._source.numbers(name.removeprefix(self.prefix))

    @cached_property
    def estimates(self) -> Tables:
        """The unbiased tables; numbers that public totals give are integers."""
        tables = _tables(self.noisy, self.numbers)
        return {n: np.where(exact, np.rint(tables[n]), tables[n]) for n, exact in self._without_noise.items()} or tables

    def changes(self, rebuilt: RebuiltTables) -> Tables:
        """Return changes of all tables, from those of the estimates of sectors."""
        tables = _tables(rebuilt, self.numbers)
        return {n: np.where(exact, 0.0, tables[n]) for n, exact in self._without_noise.items()} or tables

    def atoms(self, tables: Tables) -> Floats:
        """Return D t, the atoms of the largest tables as one vector, in standard errors."""
        parts = []
        for n in self.largest:
            atom_matrix = self._atom_matrices[n]
            parts.append(tables[n].ravel() if atom_matrix is None else atom_matrix @ tables[n].ravel())
        return np.asarray(np.concatenate(parts) / self._errors)

    @property
    def size(self) -> int:
        """The number of atoms of the largest tables."""
        return len(self._errors)

    def adjoint(self, multipliers: Floats) -> Tables:
        """Return Dᵀλ by table, for λ in standard errors; 0 for tables of rules that are not among the largest."""
        parts = dict(zip(self.largest, np.split(multipliers / self._errors, self._ends), strict=True))
        out = {n: np.zeros(self._shapes[n]) for n in self.constrained if n not in parts}
        for n, x in parts.items():
            atom_matrix = self._atom_matrices[n]
            out[n] = (x if atom_matrix is None else atom_matrix.T @ x).reshape(self._shapes[n])
        return out

    def apply_covariance(self, adjoint: Tables) -> SectorTables:
        """Return V Dᵀλ as tables, from Dᵀλ by table."""
        stacks = ((which, np.stack([adjoint[n] for n in which.tolist()])) for which in self._stacks)
        thetas = self.part.estimation.apply_covariance(rebuilding.gathered(self.part, stacks, self._routes))
        return SectorTables(self.part, thetas, self._routes)

    def rebuild(self, rebuilt: RebuiltTables) -> Tables:
        """Return the tables in D, from the estimates of sectors."""
        return _tables(rebuilt, self.constrained)

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
            _fill(view, stated[name])  # a view of the vector
        return _check_movable(out, self._errors)

    # --- integers -----------------------------------------------------------------------------------

    @cached_property
    def sums(self) -> SumConstraints:
        """The sums that integer tables must preserve."""
        zero_blocks: list[dict[int, sp.csr_array]] = []
        fixed_blocks, totals = list[dict[int, sp.csr_array]](), [np.zeros(0)]
        for key, i, j in self.shared.links():
            if j == self.shared.public:
                fixed_blocks.append({i: self._summed(i, key)})
                totals.append(self.totals(key))
            else:
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
        fixed = self._rows(fixed_blocks), np.concatenate(totals)
        return SumConstraints(preserved, at_least, close, lambda: self._common(repeated), fixed)

    def totals(self, key: Sums) -> Floats:
        """Return the public totals of some sums."""
        return np.asarray(self._summed(cast(int, self.shared.public), key) @ cast(Floats, self._totals).ravel())

    def public_sums(self, name: str) -> FixedSums | None:
        """Return the finest sums of a table that public totals give, as rows and values; None if they give none."""
        i = self.names.index(name)
        key = self.shared.public_sums(i)
        return None if key is None else (self._summed(i, key), self.totals(key))

    def _summed(self, i: int, key: Sums) -> sp.csr_array:
        if (i, key) not in self._sums:
            self._sums[i, key] = self.shared.summed(i, key)
        return self._sums[i, key]

    def _common(self, repeated: sp.csr_array) -> SharedSums:
        """Return the shared sums of tables, as sums of each table's numbers."""
        keys = self.shared.common
        having = [(key, [i for i in self.shared.having[key] if i != self.shared.public]) for key in keys]
        one = [{tables[0]: self._summed(tables[0], key)} for key, tables in having]
        all_sums = [{i: self._summed(i, key)} for key, tables in having for i in tables]
        sizes = [math.prod(p.size for _, p in key) for key, _ in having]
        starts = np.cumsum([0, *sizes])
        which = [np.arange(n) + start for n, start, group in zip(sizes, starts, having, strict=False) for _ in group[1]]
        nested = [{i: merged, j: sp.csr_array(-sp.eye_array(sizes[j]))} for i, j, merged in self.shared.nested()]
        positions = np.concatenate([np.zeros(0, dtype=np.intp), *which])
        nothing = sp.csr_array((0, sum(sizes)))
        which_fixed = [k for k, key in enumerate(keys) if self.shared.public in self.shared.having[key]]
        values = np.concatenate([np.zeros(0), *(self.totals(keys[k]) for k in which_fixed)])
        ones = _blocks([{k: sp.eye_array(sizes[k], format="csr")} for k in which_fixed], sizes)
        return SharedSums(
            self._rows(one), _blocks(nested, sizes), self._rows(all_sums), positions, repeated, nothing, (ones, values)
        )

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

    def draw(self, number: int, index: int) -> RebuiltTables:
        """Return simulated noise of the tables, by the number of the simulation and the index among joint parts."""
        parts = self.part.publication.unit.parts
        strategy = self.part.strategy if parts == 1 else self.part.strategy.scaled_by(parts)
        # answers of 0 with noise are the noise alone
        silent = tuple(np.zeros(n, dtype=np.int64) for n in self.part.estimation.lengths)
        return RebuiltTables(self.part, strategy.draw(silent, cast(NoiseSource, _SimulatedNoise(number, index))))


@final
class _JointSpace:
    """Parts of releases whose tables are made integer jointly, with the rules of order between their tables.

    Tables of several parts are lists with the tables of each part.

    Args:
        spaces: The tables of each part. Without rules one part is alone.
        rules: The rules between their tables.
    """

    def __init__(self, spaces: Sequence[_TableSpace], rules: Sequence[OrderRule]) -> None:
        self.spaces, self.rules = tuple(spaces), tuple(rules)
        self.names = tuple(name for space in spaces for name in space.names)
        self._places = {name: (k, n) for k, s in enumerate(spaces) for name, n in zip(s.names, s.numbers, strict=True)}
        self._pairs = [(self._places[r.smaller], self._places[r.larger], float(r.factor)) for r in rules]
        # Covariances of two tables of one part are left out, as for atoms: any positive units are right.
        self._errors = [_units(self._variances(a) + factor**2 * self._variances(b)) for a, b, factor in self._pairs]
        self._ends = np.cumsum([*(s.size for s in spaces), *map(len, self._errors)])[:-1]

    def _variances(self, position: tuple[int, int]) -> Floats:
        part = self.spaces[position[0]].part
        return part.table_variances(part.publication.workload.tables[position[1]].name).ravel()

    def part_of(self, name: str) -> tuple[_TableSpace, int]:
        """Return the tables of the part that has a table, and the index of the table there."""
        k, number = self._places[name]
        return self.spaces[k], number

    @cached_property
    def estimates(self) -> list[Tables]:
        """The unbiased tables."""
        return [s.estimates for s in self.spaces]

    def atoms(self, tables: Sequence[Tables]) -> Floats:
        """Return D t in standard errors: the atoms of the largest tables, then the differences of each rule."""
        parts = [s.atoms(x) for s, x in zip(self.spaces, tables, strict=True)]
        for ((i, n), (j, m), factor), errors in zip(self._pairs, self._errors, strict=True):
            parts.append((factor * tables[j][m].ravel() - tables[i][n].ravel()) / errors)
        return np.concatenate(parts)

    def _steps(self, multipliers: Floats) -> list[SectorTables]:
        """Return V Dᵀλ as tables of each part."""
        parts, pieces = len(self.spaces), np.split(multipliers, self._ends)
        adjoints = [s.adjoint(x) for s, x in zip(self.spaces, pieces[:parts], strict=True)]
        for pair, errors, x in zip(self._pairs, self._errors, pieces[parts:], strict=True):
            for (k, n), factor in ((pair[0], -1.0), (pair[1], pair[2])):
                adjoints[k][n] = adjoints[k][n] + factor * (x / errors).reshape(adjoints[k][n].shape)
        return [s.apply_covariance(x) for s, x in zip(self.spaces, adjoints, strict=True)]

    def apply_normal_matrix(self, multipliers: Floats) -> Floats:
        """Return D V Dᵀλ."""
        steps = zip(self.spaces, self._steps(multipliers), strict=True)
        return self.atoms([s.rebuild(x) for s, x in steps])

    def moves(self, multipliers: Floats) -> list[Tables]:
        """Return V Dᵀλ as all tables."""
        return [s.changes(x) for s, x in zip(self.spaces, self._steps(multipliers), strict=True)]

    def tables_at(self, multipliers: Floats) -> list[Tables]:
        """Return the tables t̂ + V Dᵀλ."""
        return _sum_of_tables(self.estimates, self.moves(multipliers))

    def residual(self, multipliers: Floats, tables: Sequence[Tables]) -> float:
        """Return the largest `abs(min(λ, D t))`, in standard errors: 0 if the multipliers prove the tables nearest.

        multipliers: λ, (atoms,), in standard errors.
        tables: t = t̂ + V Dᵀλ.
        """
        return float(np.abs(np.minimum(multipliers, self.atoms(tables))).max(initial=0.0))

    def by_table(self, multipliers: Floats) -> dict[str, Floats]:
        """Return the multipliers by the names of the largest tables."""
        pieces = zip(self.spaces, np.split(multipliers, self._ends)[: len(self.spaces)], strict=True)
        return {name: x for space, piece in pieces for name, x in space.by_table(piece).items()}

    def by_rule(self, multipliers: Floats) -> dict[OrderRule, Floats]:
        """Return the multipliers by rule."""
        return dict(zip(self.rules, np.split(multipliers, self._ends)[len(self.spaces) :], strict=True))

    def multipliers(self, by_name: Mapping[str, Any], by_rule: Mapping[OrderRule, Any]) -> Floats:
        """Return all multipliers as one vector, from a document that has them by table and by rule.

        Raises:
            KeyError: The document lacks a table.
            ValueError: A position is out of range, a multiplier is not above 0, or has no position.
        """
        out = [s.multipliers(by_name) for s in self.spaces]
        for rule, errors in zip(self.rules, self._errors, strict=True):
            out.append(np.zeros(len(errors)))
            _fill(out[-1], by_rule[rule])
            _check_movable(out[-1], errors)
        return np.concatenate(out)

    # --- integers -----------------------------------------------------------------------------------

    @cached_property
    def order(self) -> sp.csr_array:
        """The rows that are at least 0 by the rules, over all numbers."""
        widths = [x.size for x in self.split(self.flat(self.estimates)).values()]
        rows = ((self.names.index(r.smaller), self.names.index(r.larger), r.factor) for r in self.rules)
        return _blocks([_order_block(i, j, factor, widths[i]) for i, j, factor in rows], widths)

    @cached_property
    def sums(self) -> SumConstraints:
        """The sums that integer tables must preserve, with the rules of order."""
        each = [s.sums for s in self.spaces]
        at_least = sp.csr_array(sp.vstack([_diagonal([x.nonnegative for x in each]), self.order], format="csr"))
        zero, close = _diagonal([x.zero for x in each]), _diagonal([x.within_one for x in each])
        return SumConstraints(zero, at_least, close, self._common, self.fixed)

    @cached_property
    def fixed(self) -> FixedSums:
        """The sums that public totals give."""
        return _fixed_diagonal([s.sums.fixed for s in self.spaces])

    def _common(self) -> SharedSums:
        """Return the shared sums of the tables of each part."""
        each = [s.sums.common() for s in self.spaces if s.sums.common is not None]
        starts = np.cumsum([0, *(x.in_one_table.shape[0] for x in each)])
        return SharedSums(
            _diagonal([x.in_one_table for x in each]),
            _diagonal([x.nested for x in each]),
            _diagonal([x.in_all_tables for x in each]),
            np.concatenate([x.which + start for x, start in zip(each, starts, strict=False)]),
            _diagonal([x.zero_rows for x in each]),
            self._order_of_sums(),
            _fixed_diagonal([x.fixed for x in each]),
        )

    def _order_of_sums(self) -> sp.csr_array:
        """Return the rows that are at least 0 by the rules, over the shared sums of all parts."""
        sums = [(k, key) for k, s in enumerate(self.spaces) for key in s.shared.common]
        position = {x: i for i, x in enumerate(sums)}
        widths = [math.prod(p.size for _, p in key) for _, key in sums]
        blocks = []
        for (i, n), (j, m), factor in self._pairs:
            for key in (key for k, key in sums if k == i and (j, key) in position):
                ends = (i, n), (j, m)
                if i != j and all(
                    self.spaces[k].numbers.index(t) in self.spaces[k].shared.having[key] for k, t in ends
                ):
                    smaller, larger = position[i, key], position[j, key]
                    blocks.append(_order_block(smaller, larger, factor, widths[smaller]))
        return _blocks(blocks, widths)

    def flat(self, tables: Sequence[Mapping[int, Floats | Integers]]) -> Any:
        """Return all numbers, table by table."""
        return np.concatenate([s.flat(x) for s, x in zip(self.spaces, tables, strict=True)])

    def split(self, numbers: Any) -> dict[str, Any]:
        """Return the tables by name, each in its shape."""
        ends = np.cumsum([len(s.flat(s.estimates)) for s in self.spaces])[:-1]
        pieces = zip(self.spaces, np.split(numbers, ends), strict=True)
        return {name: x for space, piece in pieces for name, x in space.split(piece).items()}

    def satisfies(self, integers: Integers) -> bool:
        """Return True if integers are nonnegative, add up and agree."""
        n = integers.astype(np.float64)  # exact below 2⁵³, and sums of integers then, too
        at_least = self.sums.nonnegative[: self.sums.nonnegative.shape[0] - self.order.shape[0]]
        fixed, totals = self.fixed
        adds_up = (self.sums.zero @ n == 0).all() and (fixed @ n == totals).all()
        return bool((n >= 0).all() and adds_up and (at_least @ n >= 0).all())

    def follows_order(self, integers: Integers) -> bool:
        """Return True if integers follow the rules of order."""
        return bool((self.order @ integers.astype(np.float64) >= 0).all())

    # --- the cost -----------------------------------------------------------------------------------

    def _build_operator(self) -> Callable[[Floats], Floats]:
        """Return the function `apply_normal_matrix`, as a matrix product where the matrix is small."""
        n = sum(s.size for s in self.spaces) + sum(map(len, self._errors))
        if not 0 < n <= DENSE:
            return self.apply_normal_matrix
        # a simulation multiplies often: n products make the matrix once for all of them
        matrix = np.stack([self.apply_normal_matrix(unit) for unit in np.eye(n)])
        return matrix.__matmul__

    def simulated(self, tables: Sequence[Tables], simulations: int) -> tuple[Floats, Floats]:
        """Return bias and root mean squared error of every number, if the truth were these tables, from fixed draws.

        Without simulations both are empty.
        """
        point, nothing = self.atoms(tables), np.zeros(len(self.flat(tables)) if simulations else 0)
        total, squares, times = nothing, nothing, self._build_operator() if simulations else self.apply_normal_matrix
        for number in range(simulations):
            off = [s.changes(s.draw(number, index)) for index, s in enumerate(self.spaces)]
            solution = nearest(times, point + self.atoms(off), SIMULATION_TOLERANCE, STEPS)
            # the nearest tables to truth + noise are truth + noise + V Dᵀλ: this is their error, before rounding
            error = self.flat(_sum_of_tables(off, self.moves(solution.values)))
            total, squares = total + error, squares + error**2
        return total / max(simulations, 1), np.sqrt(squares / max(simulations, 1))


def _units(variances: Floats) -> Floats:
    """Return the units of atoms or differences: standard errors, or infinity for those that no noise moves."""
    return np.where(variances > 0, np.sqrt(variances), np.inf)


def _check_movable(multipliers: Floats, units: Floats) -> Floats:
    """Return the multipliers; raise ValueError if some are of numbers that no noise moves."""
    if multipliers[np.isinf(units)].any():
        raise ValueError("multipliers of numbers without noise")
    return multipliers


def _sum_of_tables(one: Sequence[Tables], other: Sequence[Tables]) -> list[Tables]:
    return [{n: x + b[n] for n, x in a.items()} for a, b in zip(one, other, strict=True)]


def _fill(multipliers: Floats, stated: Mapping[str, Any]) -> None:
    """Write the stated multipliers into an array of zeros; raise ValueError for others than a document may have."""
    index, values = _numbers(stated["at"], int), _numbers(stated["multipliers"], float)
    # 0 is never written, so that equal multipliers have one document
    if len(index) != len(values) or not ((index >= 0) & (index < len(multipliers))).all() or not (values > 0).all():
        raise ValueError("multipliers")
    multipliers[index] = values


def _stated(multipliers: Floats) -> dict[str, Any]:
    """Return the multipliers above 0 with their positions, as a document has them."""
    positions = np.flatnonzero(multipliers)
    return {"at": positions.tolist(), "multipliers": multipliers[positions].tolist()}


def _diagonal(matrices: Sequence[sp.csr_array]) -> sp.csr_array:
    """Return matrices along a diagonal."""
    return _blocks([{i: x} for i, x in enumerate(matrices)], [x.shape[1] for x in matrices])


def _fixed_diagonal(each: Sequence[FixedSums | None]) -> FixedSums:
    """Return fixed sums of vectors side by side."""
    stated = [x for x in each if x is not None]
    return _diagonal([rows for rows, _ in stated]), np.concatenate([values for _, values in stated])


def _order_block(smaller: int, larger: int, factor: float, width: int) -> dict[int, sp.csr_array]:
    """Return the rows factor · y − x of a rule, by the positions of the vectors x and y, (width,) each."""
    one = sp.eye_array(width, format="csr")
    return {smaller: sp.csr_array(-one), larger: sp.csr_array(factor * one)}


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
    """The integer tables of one part, or of parts that rules of order join: all numbers, table by table.

    multipliers: λ ≥ 0, (atoms,), in standard errors.
    nearest: t, the nonnegative tables nearest to the noisy ones, (numbers,).
    integers: The integers close to t, (numbers,).
    bias, rmse: The simulated errors, (numbers,), or empty arrays without simulations.
    """

    space: _JointSpace
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
        * every number and sum that public totals give is as in their file, exactly;
        * every number follows the rules of order that were given, exactly;
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

    def __init__(self, releases: Mapping[str, Release], parts: Sequence[_IntegerPart], simulations: int) -> None:
        # by the text before the names of their tables
        self._prefixed = dict(releases)
        self.releases, self._parts, self.simulations = tuple(releases.values()), tuple(parts), simulations
        self._part_by_table = {name: m for m in parts for name in m.space.names}

    @property
    def release(self) -> Release:
        """The release of the tables; of several releases, the first."""
        return self.releases[0]

    @property
    def at_most(self) -> list[str]:
        """The rules of order that the tables follow."""
        return [str(rule) for rule in self._rules]

    @cached_property
    def _rules(self) -> list[OrderRule]:
        return [rule for m in self._parts for rule in m.space.rules]

    def origin(self, name: str) -> tuple[Release, str]:
        """Return the release that a table is made from, and the name of the table there.

        Args:
            name: The name of the table.
        """
        return _origin(self._prefixed, name)

    def publication(self, name: str) -> Publication:
        """Return the publication of a table, with its domain.

        Args:
            name: The name of the table.
        """
        release, own_name = self.origin(name)
        publication = release.plan.group(own_name).publication
        if own_name == name:
            return publication
        table = replace(publication.workload[own_name], name=name)
        workload = Workload(publication.domain, [table], publication.workload.confidence)
        return Publication(
            workload, publication.unit, publication.source, title=publication.title, series=publication.series
        )

    def remarks(self, name: str) -> tuple[Message, ...]:
        """Return the sentences on rules of order and the numbers that they moved; none for a table without rules.

        Args:
            name: The name of the table.
        """
        rules = self._part_by_table[name].space.rules
        if not any(name in (r.smaller, r.larger) for r in rules):
            return ()
        return self._order_messages(rules)

    def all_remarks(self) -> tuple[Message, ...]:
        """Return the sentences for each group of tables that rules of order join."""
        return tuple(x for m in self._parts if m.space.rules for x in self._order_messages(m.space.rules))

    def has_rules(self, name: str) -> bool:
        """Return True if rules of order restrict the tables of the part that has a table.

        Args:
            name: The name of the table.
        """
        return bool(self._part_by_table[name].space.rules)

    def _order_messages(self, rules: Sequence[OrderRule]) -> tuple[Message, ...]:
        names = dict.fromkeys(name for rule in rules for name in (rule.smaller, rule.larger))
        values = (Value("ordered", list(names)),)
        stated = Message("report.integers.rules", (Value("rules", list(map(str, rules))),))
        if self.simulations:
            return stated, Message("report.integers.ordered_simulated", values)
        return stated, Message("report.integers.ordered", values)

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
        space, number = self._part_by_table[name].space.part_of(name)
        return space.estimates[number], np.asarray(space.part.table_margins(self.origin(name)[1]))

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
        if problem := self.check_order():
            return problem
        reach = Value("reach", self.reach, ValueKind.PEOPLE)
        # Rounding counts its steps from the floors, and a number lies less than 1 above its floor.
        return None if self.reach < MAX_DISTANCE + 1 else Message("report.fault.far", (reach,))

    def check_order(self) -> Message | None:
        """Return the fault of numbers that do not follow the rules of order, or None."""
        follow = all(m.space.follows_order(m.integers) for m in self._parts)
        return None if follow else Message("report.fault.order")

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
        publication, value = (
            self._part_by_table[name].space.part_of(name)[0].part.publication,
            self._split(name, "integers"),
        )
        workload, parts = publication.workload, publication.unit.parts
        low, high = (x.astype(np.int64) for x in possible(*self.unbiased(name), value, is_integer=parts == 1))
        data = {"value": value, "low": low, "high": high}
        if self.simulations:
            data |= {column: self._split(name, x) for column, x in zip(SIMULATED, ("bias", "rmse"), strict=True)}
        stubs = complete_columns(stub_columns(workload[self.origin(name)[1]].stubs(workload.domain)))
        return pd.DataFrame({**stubs, **{column: np.ravel(x) for column, x in data.items()}})

    def __iter__(self) -> Iterator[str]:
        names = (prefix + name for prefix, release in self._prefixed.items() for name in release)
        return (name for name in names if name in self._part_by_table)

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
        """Return the content of `whole.json`: the releases, the rules of order, and the proof of the tables."""
        tables = []
        for name in self:
            part = self._part_by_table[name]
            entry = {"name": name, "values": self._split(name, "integers").ravel().tolist()}
            multipliers = part.space.by_table(part.multipliers).get(name)
            if multipliers is not None:
                entry |= _stated(multipliers)
            if self.simulations:
                entry |= {
                    c: self._split(name, x).ravel().tolist() for c, x in zip(SIMULATED, ("bias", "rmse"), strict=True)
                }
            tables.append(entry)
        releases = [{"prefix": prefix, **release_identity(release)} for prefix, release in self._prefixed.items()]
        rules = [
            {"rule": str(rule), **_stated(x)} for m in self._parts for rule, x in m.space.by_rule(m.multipliers).items()
        ]
        remarks = [message_document(x) for x in self.all_remarks()]
        return {
            "fitnoise_whole": FORMAT,
            "releases": releases,
            "simulations": self.simulations,
            "at_most": rules,
            "remarks": remarks,
            "tables": tables,
        }


def _origin(prefixed: Mapping[str, Release], name: str) -> tuple[Release, str]:
    """Return the release of a table, and the name of the table there.

    prefixed: The releases by the texts before the names of their tables.

    Raises:
        ReleaseError: There is no such table.
    """
    for prefix, release in prefixed.items():
        own_name = name.removeprefix(prefix)
        if name.startswith(prefix) and own_name in release:
            return release, own_name
    raise unknown_table(name, [prefix + own_name for prefix, r in prefixed.items() for own_name in r], UNREAD)


def possible(value: Floats, moe: Floats, held: Integers, *, is_integer: bool) -> tuple[Floats, Floats]:
    """Return integer ends of the nonnegative numbers within moe of a value, widened to include `held`.

    held: The published integers.
    is_integer: True if the numbers are integers, as counts of records are; shares of records are not.
    """
    # an integer that is at least value − moe is at least the next integer above it; a share may lie between the two
    at_low, at_high = (np.ceil, np.floor) if is_integer else (np.floor, np.ceil)
    low, high = np.maximum(at_low(value - moe), 0.0), at_high(value + moe)
    return np.minimum(low, held), np.maximum(high, held)


@checked(ReleaseError, "Nothing was computed.", "tables", "at_most", "simulations")
def make_integer_tables(
    release: Release | dict[str, Release],
    tables: str | Iterable[str] | None = None,
    *,
    at_most: str | Iterable[str] = (),
    simulations: int | None = None,
) -> IntegerTables:
    """Make consistent tables of nonnegative integers from the tables of a release. Costs no privacy.

    Args:
        release: The release of the tables, or a dict of several releases by name. The name of a release is then put
            before the names of its tables, as in "homes: block".
        tables: The names of tables to make integer jointly; default all. Not possible are tables of sums of amounts, of
            explicit queries, and of overlapping groups whose intersections are not shown.
        at_most: Rules of order between tables with the same labels, such as "homes: block <= people: block" or "people:
            block <= 10 * homes: block". No number of the first table may exceed this multiple of the other number.
            fitnoise cannot prove that a rule is true. It refuses a rule that the published numbers contradict.
        simulations: The number of simulations of the noise, for the stated bias and error of each number; 0 states
            none. The default is 200, or 20 for more than 20,000 numbers. Simulations take most of the time.

    Raises:
        ReleaseError: A table is unknown, is named twice or is not of counts. Or there are no tables or more than 5,000,
            or the number of simulations is not from 0 to 10,000. Or a rule has another form, an unknown table, a factor
            that is not an integer from 1 to 1,000,000, or tables whose rows differ. Or rules force tables to be equal,
            or the published numbers contradict a rule, or two releases share their noise. Or the nearest tables were
            not found in 20,000 steps. Or the solver found no integers in five minutes for the tables of a part, or of
            parts that rules join.

    **Guarantees**
        * Right rules are refused with a probability of at most 1/1,000. The proof assumes only independent discrete
          noises of the stated scales (:mod:`fitnoise.reading.contradictions`).
        * The result keeps the guarantees of :class:`IntegerTables`.

    Example:
        `fn.make_integer_tables(release)["state by status"]`;
        `fn.make_integer_tables(release).write("integer_tables")`;
        `fn.make_integer_tables({"homes": homes, "people": people}, at_most=["homes: block <= people: block"])`
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
    _refuse_list(release)
    refuse_unless_fit([("release", release, Release | dict[str, Release])], ReleaseError, UNMADE)
    releases = _check_releases(release) if isinstance(release, dict) else {"": release}
    names = _check_names(releases, tables)
    available = [prefix + name for prefix, r in releases.items() for name in r]
    texts = [at_most] if isinstance(at_most, str) else at_most
    spaces = _spaces(releases, names, parse_rules(texts, names, available))
    few = sum(len(s.flat(s.estimates)) for s in spaces) <= MANY_NUMBERS
    often = simulations if simulations is not None else SIMULATIONS if few else FEW_SIMULATIONS
    return IntegerTables(releases, [_make_part(s, int(often)) for s in spaces], int(often))


def _make_part(space: _JointSpace, simulations: int) -> _IntegerPart:
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
    try:
        numbers = adjacent(nearest_values, space.sums, MAX_SECONDS_PER_PART)
    except UnsolvedError:
        raise ReleaseError(
            "integers-not-found",
            f"The solver found no whole numbers that add up in {MAX_SECONDS_PER_PART:.0f} seconds.",
            "It did not show that there are none.",
            "Name fewer tables.",
            UNMADE,
        ) from None
    if numbers is None:
        raise ReleaseError(
            "integers-do-not-exist",
            "The solver showed that no whole numbers add up so close to these tables.",
            f"Each number must be next to its nearest table, or up to {MAX_DISTANCE} from its floor.",
            f"Name {'fewer tables, or give fewer rules of order' if space.rules else 'fewer tables'}.",
            UNMADE,
        )
    return _IntegerPart(space, solution.values, nearest_values, numbers, *space.simulated(tables, simulations))


def _refuse_list(release: object) -> None:
    """Raise an error for several releases in a list, which gives them no names."""
    if isinstance(release, (list, tuple)):
        raise ReleaseError(
            "releases-without-names",
            f"The value of release is a {type(release).__name__} of {len(release)}.",
            "Each of several releases has a name, which stands before the names of its tables.",
            'Give a dict such as {"homes": homes, "people": people}.',
            UNMADE,
            place="release",
        )


def _check_releases(by_name: Mapping[str, Release]) -> dict[str, Release]:
    """Return releases by the texts before the names of their tables.

    Raises:
        ReleaseError: A name is empty or is not a text, or an object is not a release. Or two tables have one file name,
            or two releases share their noise.
    """
    for name, release in by_name.items():
        refuse_unless_fit([(f"the release {name!r}", release, Release)], ReleaseError, UNMADE)
        if not isinstance(name, str) or not name.strip():
            raise ReleaseError(
                "release-without-name",
                f"The name of a release is {describe_value(name)}.",
                "Each of several releases has a name that is not empty.",
                'Give a dict such as {"homes": homes, "people": people}.',
                UNMADE,
                place="release",
            )
    owners: dict[AnswerSource, str] = {}
    for name, release in by_name.items():
        for source in release._sources:
            if owners.setdefault(source, name) != name:
                raise repeated_release(
                    "Integer tables of several releases need different releases.",
                    UNMADE,
                    f"The names {owners[source]!r} and {name!r} stand for one release.",
                )
    refuse_shared_noise(list(owners))
    releases = {f"{name}: ": release for name, release in by_name.items()}
    files = [slug(prefix + name) for prefix, release in releases.items() for name in release]
    if len(set(files)) < len(files):
        raise ReleaseError(
            "tables-of-one-file",
            "Two tables of these releases would have one file name.",
            "The name of a release and the name of its table make the name of a file.",
            "Choose other names for the releases.",
            UNMADE,
            place="release",
        )
    return releases


def _check_names(releases: Mapping[str, Release], tables: str | Iterable[str] | None) -> list[str]:
    available = [prefix + name for prefix, release in releases.items() for name in release]
    names = available if tables is None else [tables] if isinstance(tables, str) else list(tables)
    there = set(available)
    for name in names:
        if name not in there:
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


def _spaces(
    releases: Mapping[str, Release], names: Sequence[str], rules: Sequence[OrderRule] = ()
) -> list[_JointSpace]:
    """Return the tables, part by part of the releases; parts that rules join are one."""
    ordered = {name for rule in rules for name in (rule.smaller, rule.larger)}
    spaces: list[_TableSpace] = []
    for prefix, release in releases.items():
        own_names = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        for source in release._sources:
            part_names = [n for n in own_names if n in source.part.publication.workload.tables.numbered]
            if part_names:
                in_rules = [n for n in part_names if prefix + n in ordered]
                try:
                    spaces.append(_TableSpace(source, part_names, prefix, in_rules))
                except ReleaseError as error:
                    possible_names = [p + n for p, r in releases.items() for n in r if _is_of_counts(r, n)]
                    action = f"Name only {list_names(possible_names)}." if possible_names else "Use another release."
                    raise error.with_action(action) from None
    index = {name: k for k, space in enumerate(spaces) for name in space.names}
    check_tables(rules, lambda name: spaces[index[name]].ordered_table(name))
    refuse_contradicted_order([_ordered_numbers(r, *(spaces[index[x]] for x in (r.smaller, r.larger))) for r in rules])
    joined = np.array([(index[r.smaller], index[r.larger]) for r in rules], dtype=np.intp).reshape(-1, 2).T
    graph = sp.coo_array((np.ones(joined.shape[1]), (joined[0], joined[1])), shape=(len(spaces),) * 2)
    labels = connected_components(graph, directed=False)[1]
    out = []
    for label in dict.fromkeys(labels.tolist()):
        members = [space for space, x in zip(spaces, labels.tolist(), strict=True) if x == label]
        here = {name for space in members for name in space.names}
        out.append(_JointSpace(members, [r for r in rules if r.smaller in here]))
    return out


def _is_of_counts(release: Release, name: str) -> bool:
    """Return True if an integer table can be made of a table."""
    workload = release.plan.group(name).publication.workload
    try:
        TableOverlap.from_tables(workload.domain, [workload[name]])
    except ReleaseError:
        return False
    return True


def _ordered_numbers(rule: OrderRule, smaller: _TableSpace, larger: _TableSpace) -> OrderedNumbers:
    """Return the published numbers of a rule."""
    table = smaller.ordered_table(rule.smaller).table
    workload = smaller.part.publication.workload
    columns = table.labels(workload.domain)
    rows = itertools.product(*columns.values())
    labels = [", ".join(f"{name} {x}" for name, x in zip(columns, row, strict=True)) for row in rows]
    excesses = smaller.published(rule.smaller).plus(larger.published(rule.larger).scale(-float(rule.factor)))
    public = _public_excesses(smaller.public_sums(rule.smaller), larger.public_sums(rule.larger), excesses.length)
    return OrderedNumbers(str(rule), excesses, labels, table.target.level(workload.confidence), public)


def _public_excesses(one: FixedSums | None, other: FixedSums | None, rows: int) -> sp.csr_array:
    """Return the sums of rows that the public totals of both tables of a rule give, (sums, rows)."""
    if one is None or other is None:
        return sp.csr_array((0, rows))
    stacked = sp.csr_array(sp.vstack([one[0], other[0]], format="csr"))
    sums = connected_components(stacked @ stacked.T, directed=False)[1]
    mine, theirs = np.split(sums, [one[0].shape[0]])
    sums_of_one, sums_of_other = (
        sp.csr_array((np.ones(len(x)), (x, np.arange(len(x)))), shape=(sums.max() + 1, len(x))) @ r
        for x, r in ((mine, one[0]), (theirs, other[0]))
    )
    # Only sums of the same rows are compared.
    same = np.flatnonzero(abs(sums_of_one - sums_of_other).sum(axis=1) == 0)
    return sp.csr_array(sums_of_one[same])


# --- checked by anyone ----------------------------------------------------------------------------------


def read_integer_tables(
    release: Release,
    directory: str | os.PathLike[str],
    others: Iterable[Release] = (),
    *,
    advice: str = "Give all of these releases.",
) -> IntegerTables:
    """Read the tables that :meth:`IntegerTables.write` wrote, as stated there, without solving.

    Args:
        release: A release from which the tables are made.
        directory: The folder of the tables.
        others: Further releases. The tables need those from which they are made.
        advice: Sentence that says what to do if a release is missing.

    Raises:
        ReleaseError: There are no such tables, or they are of other releases, or are not of this form.
    """
    text = read_text(Path(directory) / DESCRIPTION)
    try:
        return _parsed([release, *others], parse(text), advice)
    except (ValueError, TypeError, KeyError, OverflowError):
        raise ReleaseError(
            "integer-tables-damaged",
            f"{DESCRIPTION} does not describe integer tables.",
            "",
            "Bring the file back as it was written.",
            UNREAD,
            place=DESCRIPTION,
        ) from None


def _parsed(candidates: Sequence[Release], stated: Any, advice: str) -> IntegerTables:
    by_identity = {tuple(release_identity(r).values()): r for r in candidates}
    by_prefix = {x["prefix"]: by_identity.get((x["plan"], x["answers"])) for x in stated["releases"]}
    releases = {prefix: r for prefix, r in by_prefix.items() if r is not None}
    if (
        stated["fitnoise_whole"] != FORMAT
        or len(releases) < len(by_prefix)
        or all(r is not candidates[0] for r in releases.values())
    ):
        raise ReleaseError(
            "foreign-integer-tables",
            f"The integer tables are of {len(by_prefix)} releases, and not all of them are given."
            if 0 < len(releases) < len(by_prefix)
            else "The integer tables are of another release, or of another version.",
            "They need the releases that they were made of.",
            advice,
            UNREAD,
        )
    if len(by_prefix) < len(stated["releases"]) or any(type(prefix) is not str for prefix in by_prefix):
        raise ValueError
    if list(releases) != [""]:
        if not all(prefix.endswith(": ") for prefix in releases):
            raise ValueError
        releases = _check_releases({prefix.removesuffix(": "): r for prefix, r in releases.items()})
    simulations = stated["simulations"]
    if not (is_integer(simulations) and 0 <= simulations <= MAX_SIMULATIONS):
        raise ValueError
    by_name = {entry["name"]: entry for entry in stated["tables"]}
    if len(by_name) < len(stated["tables"]):
        raise ValueError
    parts, names = [], _check_names(releases, by_name)
    rules = parse_rules([entry["rule"] for entry in stated["at_most"]], names)
    if [str(rule) for rule in rules] != [entry["rule"] for entry in stated["at_most"]]:
        raise ValueError
    by_rule = dict(zip(rules, stated["at_most"], strict=True))
    for space in _spaces(releases, names, rules):
        multipliers = space.multipliers(by_name, by_rule)
        nearest_values = space.flat(space.tables_at(multipliers))
        columns = [("values", int), *((x, float) for x in SIMULATED if simulations)]
        arrays = [np.concatenate([_numbers(by_name[name][x], kind) for name in space.names]) for x, kind in columns]
        if any(len(x) != len(nearest_values) for x in arrays):
            raise ValueError("numbers of tables")
        nothing = np.zeros(0)
        bias, rmse = arrays[1:] or (nothing, nothing)
        parts.append(_IntegerPart(space, multipliers, nearest_values, arrays[0], bias, rmse))
    return IntegerTables(releases, parts, int(simulations))


def _numbers(stated: Any, kind: type) -> Any:
    """Return an array of finite numbers, or raise ValueError."""
    if not isinstance(stated, list) or not all(type(x) in (int, kind) for x in stated):
        raise ValueError("no list of numbers")
    out = np.array(stated, dtype=np.int64 if kind is int else np.float64)
    if not np.isfinite(out).all():
        raise ValueError("no finite numbers")
    return out
