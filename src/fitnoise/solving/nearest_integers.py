"""Integers next to numbers that add up, which add up as well: controlled rounding (Cox 1987), as a program.

**Statement.** Among all integers n ≥ 0 with E n = 0 and L n ≥ 0, the program finds those of least squared distance from
the given numbers. Fixed sums keep their values, and further sums go to the floor or the ceiling of theirs. It first
tries the floor or the ceiling of each number. If no such integers exist, it tries up to `MAX_DISTANCE` from the floors.
E and L have integer entries.

**Method.** Many tables with common sums make one program, which can take hours. 45 tables of pairs of attributes took
24 s, 190 more than 300 s. The module therefore rounds the common sums of large programs first. It then rounds every
table separately, with these sums fixed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp
from scipy import optimize
from scipy.sparse.csgraph import connected_components

from fitnoise.kernel.arrays import Floats, Indices, Integers
from fitnoise.messages import Message, Value, ValueKind

INTEGER_TOLERANCE = 1e-7
"""The amount by which a number can be below an integer and count as this integer."""

SOLVED = 1e-5
"""The squared distance up to which a solver's result is the least: the solver ends at a gap of 1e-6."""

ROUNDED = 1e-7
"""The further squared distance allowed for each number: another machine computes other last digits of its value."""

NUMBERS_PER_PROGRAM = 5_000
"""The number of numbers and rows that are solved together, if they share no sums: each start of the solver takes time.
"""

MAX_CONNECTED_NUMBERS = 3_000
"""The largest number of numbers and rows that share sums and are solved together."""

MAX_DISTANCE = 3
"""The largest distance from the floors that the program tries, if there are no integers within one of the numbers."""

_OPTIMAL, _OUT_OF_TIME, _INFEASIBLE = 0, 1, 2
"""SciPy's statuses of a program that was solved, of one whose time ended, and of one without a solution."""


class UnsolvedError(Exception):
    """A solver ended, in most cases at its time limit, and did not show whether there are integers."""


FixedSums = tuple[sp.csr_array, Floats]
"""Rows, and the values of their sums: integers."""


@final
@dataclass(frozen=True, eq=False)
class SharedSums:
    """The sums that tables have in common.

    in_one_table: Each sum from the numbers of one table that has it, (C, N).
    nested: Rows that are 0 on these sums, (rows, C).
    in_all_tables: The sums from the numbers of all tables that have them, (rows, N).
    which: The sum that each of these rows is, (rows,).
    zero_rows: Rows that are 0 on the numbers of one table, (rows, N).
    nonnegative: Rows that are at least 0 on these sums, (rows, C).
    fixed: Rows on these sums with fixed values, and these, or None.
    """

    in_one_table: sp.csr_array
    nested: sp.csr_array
    in_all_tables: sp.csr_array
    which: Indices
    zero_rows: sp.csr_array
    nonnegative: sp.csr_array
    fixed: FixedSums | None = None


@final
@dataclass(frozen=True, eq=False)
class SumConstraints:
    """The sums that integers must keep.

    zero: E, (rows, N).
    nonnegative: L, (rows, N).
    within_one: Rows whose sums go to the floor or the ceiling of their values.
    common: A function that returns the sums by which tables are separated; None if they are never separated.
    fixed: Rows with fixed sums, and these, or None.
    """

    zero: sp.csr_array
    nonnegative: sp.csr_array
    within_one: sp.csr_array
    common: Callable[[], SharedSums] | None = None
    fixed: FixedSums | None = None


SumLimits = Sequence[tuple[sp.csr_array, Floats | float, Floats | float]]
"""Rows, and the ends of their sums."""


def adjacent(values: Floats, sums: SumConstraints, seconds: float) -> Integers | None:
    """Return integers next to values ≥ 0 with E v = 0 and L v ≥ 0, (N,); None if the solver shows that none exist.

    Raises:
        UnsolvedError: The solver found none in time, and did not show that none exist.

    **Guarantees**
        * The integers satisfy E n = 0, L n ≥ 0 and n ≥ 0, and have the fixed sums, exactly.
    """
    until, limits = time.monotonic() + seconds, _base_limits(values, sums)
    common = _common(sums)
    if common is not None:
        coarse = _rounded(*_coarse(values, common), until)
        integers = None if coarse is None else _rounded(values, _fine(common, coarse, limits), until)
        if integers is not None:
            return integers
    # The rounded common sums may leave a table without integers that all numbers together still have.
    return _rounded(values, [(sums.zero, 0.0, 0.0), *limits], until)


def check_adjacent(values: Floats, stated: Integers, sums: SumConstraints, seconds: float) -> Message | None:
    """Return the reason why integers are not those that :func:`adjacent` defines, or None if they are.

    The function solves the program again, and trusts the solver on its least distance. It compares no integers: two
    solvers can find different ones at equal distance.

    Args:
        values: The numbers before rounding, (N,).
        stated: The integers; E n = 0, L n ≥ 0, n ≥ 0 and the fixed sums were checked before.
        sums: The sums that the integers must keep.
        seconds: The time in seconds after which the check gives up, and returns this as the reason.

    **Guarantees**
        * None means that every number is the floor or the ceiling of its value, or the solver finds no such
          numbers. In that case each number is at most `MAX_DISTANCE` from the floor of its value.
        * None means that the squared distance is the least that the solver finds, up to `allowance`. For numbers
          that are rounded in steps, this holds for each step.
    """
    try:
        return _check_sums(values, stated, sums, time.monotonic() + seconds)
    except UnsolvedError:
        return Message("report.fault.rounding_time")


def _check_sums(values: Floats, stated: Integers, sums: SumConstraints, until: float) -> Message | None:
    """Return the reason why integers are not those that :func:`adjacent` defines, or None if they are.

    Raises:
        UnsolvedError: A program was not solved by the time `until`.
    """
    limits = _base_limits(values, sums)
    all_limits: SumLimits = [(sums.zero, 0.0, 0.0), *limits]
    common = _common(sums)
    if common is None:
        return _check(values, all_limits, stated, until)
    # The integers of the first step are not stored: the sums of the stated integers must be these.
    coarse_stated = np.rint(common.in_one_table @ stated).astype(np.int64)
    problem = _check(*_coarse(values, common), coarse_stated, until) or _check(
        values, _fine(common, coarse_stated, limits), stated, until
    )
    if problem is None:
        return None
    coarse = _rounded(*_coarse(values, common), until)
    # Only where rounding in steps fails does `adjacent` solve one program for all numbers.
    if coarse is not None and _rounded(values, _fine(common, coarse, limits), until) is not None:
        return problem
    return _check(values, all_limits, stated, until)


def allowance(numbers: int) -> float:
    """Return the allowed difference of two solvers' squared distances: their gap, and last digits of the values."""
    return SOLVED + ROUNDED * numbers


def _base_limits(values: Floats, sums: SumConstraints) -> SumLimits:
    """Return the rows that integers keep in any case."""
    nearest_sums = sums.within_one @ values
    return [
        (sums.nonnegative, 0.0, np.inf),
        (sums.within_one, np.floor(nearest_sums + INTEGER_TOLERANCE), np.ceil(nearest_sums - INTEGER_TOLERANCE)),
        *_fixed_limits(sums.fixed),
    ]


def _fixed_limits(fixed: FixedSums | None) -> SumLimits:
    """Return the rows of fixed sums, with their values as both ends."""
    return [] if fixed is None else [(fixed[0], fixed[1], fixed[1])]


def _common(sums: SumConstraints) -> SharedSums | None:
    """Return the common sums if they are rounded before the tables; None for few numbers."""
    rows = [sums.zero, sums.nonnegative, *(rows for rows, _, _ in _fixed_limits(sums.fixed))]
    large = sums.common is not None and _largest(_stacked(*rows)) > MAX_CONNECTED_NUMBERS
    return sums.common() if sums.common is not None and large else None


def _coarse(values: Floats, common: SharedSums) -> tuple[Floats, SumLimits]:
    """Return the common sums, and the rows that they keep."""
    constraints: SumLimits = [
        (common.nested, 0.0, 0.0),
        (common.nonnegative, 0.0, np.inf),
        *_fixed_limits(common.fixed),
    ]
    return np.maximum(common.in_one_table @ values, 0.0), constraints


def _fine(common: SharedSums, coarse: Integers, constraints: SumLimits) -> SumLimits:
    """Return the rows that all numbers keep, given the common sums."""
    held = coarse[common.which].astype(np.float64)
    return [(common.in_all_tables, held, held), (common.zero_rows, 0.0, 0.0), *constraints]


def _stacked(*rows: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.vstack(rows, format="csr"))


def _rounded(values: Floats, constraints: SumLimits, until: float) -> Integers | None:
    """Return integers next to values, with sums between ends; None if the solver shows that none exist."""
    # A number in no sum goes to its nearest integer. The parts below overwrite all others.
    out = np.rint(values).astype(np.int64)
    for part in _parts(values, constraints):
        moves = _rounding_moves(part, until)
        if moves is None:
            return None
        out[part.here] = (part.low + moves[0]).astype(np.int64)
    return out


def _check(values: Floats, constraints: SumLimits, stated: Integers, until: float) -> Message | None:
    """Return the reason why numbers are not the result of `_rounded`, or None if they are."""
    is_single = np.ones(len(values), dtype=bool)
    for part in _parts(values, constraints):
        is_single[part.here] = False
        steps = stated[part.here] - part.low
        sums = part.rows @ steps
        if not ((sums >= part.ends[0]) & (sums <= part.ends[1])).all():
            return Message("report.fault.rounded_sum")
        moves = _rounding_moves(part, until)
        if moves is None:
            return Message("report.fault.rounding_none")
        best, further = moves
        low_step, high_step = (-MAX_DISTANCE, MAX_DISTANCE) if further else (0, 1)
        if not ((steps >= low_step) & (steps <= high_step)).all():
            return Message("report.fault.rounded_step")
        longer = part.distance(steps) - part.distance(best)
        if longer > allowance(len(steps)):
            return Message("report.fault.rounding", (Value("difference", longer, ValueKind.PEOPLE),))
    if is_single.any() and np.abs(stated - values)[is_single].max() > 0.5 + INTEGER_TOLERANCE:
        return Message("report.fault.rounded_single")
    return None


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """Numbers that share sums.

    here: Their positions among all numbers.
    rows: The matrix of their sums: one row for each sum, one column for each number.
    low: Their floors.
    part: The distance of each from its floor, 0 to 1.
    ends: For each row, the smallest and the largest allowed sum of steps. A step is an integer less the floor, of any
        size and sign.
    """

    here: Indices
    rows: sp.csr_array
    low: Floats
    part: Floats
    ends: tuple[Floats, Floats]

    def distance(self, steps: Floats) -> float:
        """Return the squared distance between the values and the integers that lie `steps` above the floors."""
        return float(((steps - self.part) ** 2).sum())


def _parts(values: Floats, constraints: SumLimits) -> Iterator[_Part]:
    """Yield the numbers that are in some sum, in parts that share no sums."""
    low = np.floor(values + INTEGER_TOLERANCE)
    part = np.clip(values - low, 0.0, 1.0)
    all_rows = _stacked(*(rows for rows, _, _ in constraints))
    heights = [rows.shape[0] for rows, _, _ in constraints]
    floor = np.concatenate([np.broadcast_to(x, n) for n, (_, x, _) in zip(heights, constraints, strict=True)])
    ceiling = np.concatenate([np.broadcast_to(x, n) for n, (_, _, x) in zip(heights, constraints, strict=True)])
    for rows, here in _components(all_rows):
        part_rows = sp.csr_array(all_rows[rows][:, here])
        start = part_rows @ low[here]
        yield _Part(here, part_rows, low[here], part[here], (floor[rows] - start, ceiling[rows] - start))


def _largest(matrix: sp.csr_array) -> int:
    """Return the largest number of rows and numbers together in one connected part."""
    return int(np.bincount(_labels(matrix)).max(initial=0))


def _labels(matrix: sp.csr_array) -> Indices:
    """Return the label of the connected part of each row, then of each number."""
    m, n = matrix.shape
    entries = matrix.tocoo()
    graph = sp.coo_array((np.ones(entries.nnz), (entries.row, m + entries.col)), shape=(m + n, m + n))
    return np.asarray(connected_components(graph, directed=False)[1])


def _components(matrix: sp.csr_array) -> list[tuple[Indices, Indices]]:
    """Return rows and numbers that share sums; small parts are joined."""
    m, label = matrix.shape[0], _labels(matrix)
    count = int(label.max(initial=-1)) + 1
    order = np.argsort(label, kind="stable")
    held = np.bincount(label, minlength=count)
    has_rows = np.bincount(label[:m], minlength=count) > 0  # each number in no row goes to its nearest integer
    order, ends = order[has_rows[label[order]]], np.cumsum(held[has_rows])
    batch = (ends - held[has_rows]) // NUMBERS_PER_PROGRAM
    cuts = ends[:-1][np.diff(batch) > 0]
    return [(x[x < m], x[x >= m] - m) for x in np.split(order, cuts)] if len(order) else []


def _rounding_moves(numbers: _Part, until: float) -> tuple[Floats, bool] | None:
    """Return the steps of numbers from their floors, and True if some step is not 0 or 1.

    Each step costs its contribution to the squared distance. Steps other than 0 and 1 are tried only if these fail.
    None if the solver shows that no steps keep the sums.

    Raises:
        UnsolvedError: The solver does not find the nearest steps by the time `until`, or ends for another reason.
    """
    low, part, n = numbers.low, numbers.part, len(numbers.low)
    one = sp.eye_array(n, format="csr")
    # The step from k to k + 1 above the floor adds 2k + 1 − 2·part to the squared distance, and the step from −k down
    # adds 2k + 1 + 2·part. These costs rise with k, so the program takes the steps of a number in order.
    ways = [(one, 1 - 2 * part, np.ones(n))]
    further = [(one, k - 2 * part, np.ones(n)) for k in (3, 5)]
    # No number goes below 0.
    further += [(-one, 2 * k + 1 + 2 * part, np.clip(low - k, 0, 1)) for k in range(MAX_DISTANCE)]
    for extra in ([], further):
        ways += extra
        steps = sp.csr_array(sp.hstack([x for x, _, _ in ways], format="csr"))
        seconds_left = until - time.monotonic()
        if seconds_left <= 0:
            raise UnsolvedError
        result = optimize.milp(
            np.concatenate([cost for _, cost, _ in ways]),
            integrality=np.ones(steps.shape[1], dtype=np.int64),
            bounds=optimize.Bounds(0, np.concatenate([max_steps for _, _, max_steps in ways])),
            constraints=optimize.LinearConstraint(sp.csr_array(numbers.rows @ steps), *numbers.ends),
            options={"time_limit": seconds_left, "mip_rel_gap": 0.0},
        )
        if result.status == _OPTIMAL and result.x is not None:
            return np.asarray(steps @ np.rint(result.x)), bool(extra)
        # Steps found until then need not be the nearest ones, and nothing shows that further steps are needed.
        if result.status == _OUT_OF_TIME:
            raise UnsolvedError
    if result.status != _INFEASIBLE:
        raise UnsolvedError
    return None
