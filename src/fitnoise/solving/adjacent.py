"""Whole numbers next to numbers that add up, which add up as well: controlled rounding (Cox 1987), as a program.

Of all whole numbers n with E n = 0 and L n ≥ 0 those are looked for whose squared distance from the numbers given is
least: first the floor or the ceiling of each, and where there are none such, up to three away. E and L are of whole
numbers.

Many tables that have sums in common make one program that may take hours: 45 tables of pairs of attributes took 24 s,
190 more than 300. So of large ones the sums in common are rounded first, and then every table for itself, with these.
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

NEARLY = 1e-7
"""By how much a number may be below a whole one and count as it."""

SOLVED = 1e-5
"""Squared distance up to which a solver's is the least: it ends at a gap of 1e-6."""

ROUNDED = 1e-7
"""Squared distance allowed in addition for each number: another machine computes the last digits of its value."""

TOGETHER = 5_000
"""Numbers and rows that are solved for at once, where they have nothing to do with others: to begin takes time too."""

JOINTLY = 3_000
"""Numbers and rows that all have to do with each other and are solved for at once."""

REACH = 3
"""How far whole numbers are looked for, where there are none within one."""


@final
@dataclass(frozen=True, eq=False)
class Common:
    """Sums that tables have in common.

    one: of the numbers of one table that has them, (C, N). nested: what is 0 of them, (rows, C). every: of the numbers
    of all tables that have them, (rows, N). which: what sum each of these is, (rows,).
    within: what is 0 of the numbers of one table, (rows, N).
    """

    one: sp.csr_array
    nested: sp.csr_array
    every: sp.csr_array
    which: Indices
    within: sp.csr_array


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """What whole numbers must keep. zero: E, (rows, N). least: L, (rows, N). near: rows whose sums stay within one.

    common: makes the sums by which tables are told apart.
    """

    zero: sp.csr_array
    least: sp.csr_array
    near: sp.csr_array
    common: Callable[[], Common] | None = None


Kept = Sequence[tuple[sp.csr_array, Floats | float, Floats | float]]
"""Rows, and the ends of their sums."""


def adjacent(values: Floats, sums: Sums, seconds: float) -> Integers | None:
    """Whole numbers next to values ≥ 0 for which E v = 0 and L v ≥ 0, (N,); None where none are found in time.

    **Guarantees**
        * E n = 0, L n ≥ 0 and n ≥ 0, exactly.
    """
    until, kept = time.monotonic() + seconds, _kept(values, sums)
    common = _common(sums)
    if common is not None:
        coarse = _rounded(*_coarse(values, common), until)
        found = None if coarse is None else _rounded(values, _fine(common, coarse, kept), until)
        if found is not None:
            return found
    return _rounded(values, [(sums.zero, 0.0, 0.0), *kept], until)


def check_adjacent(values: Floats, stated: Integers, sums: Sums, seconds: float) -> str | None:
    """Return why whole numbers are not those that :func:`adjacent` defines, or None if they are.

    The program is solved again, and the solver is believed on its least distance. No whole numbers are compared: two
    solvers may find different ones at the same distance.

    Args:
        values: The numbers before rounding, (N,).
        stated: The whole numbers; E n = 0, L n ≥ 0 and n ≥ 0 were looked at before.
        sums: E and L.
        seconds: Time after which the check gives up, and says so.

    **Guarantees**
        * None means that every number is the floor or the ceiling of its value, unless the solver finds no such
          numbers; then it is at most `REACH` away;
        * and that the squared distance is the least that the solver finds, up to `allowance`. Of numbers that are
          rounded in steps that holds of each step.
    """
    until, kept = time.monotonic() + seconds, _kept(values, sums)
    together: Kept = [(sums.zero, 0.0, 0.0), *kept]
    common = _common(sums)
    if common is None:
        return _check(values, together, stated, until)
    own = np.rint(common.one @ stated).astype(np.int64)
    problem = _check(*_coarse(values, common), own, until) or _check(values, _fine(common, own, kept), stated, until)
    if problem is None:
        return None
    coarse = _rounded(*_coarse(values, common), until)
    if coarse is not None and _rounded(values, _fine(common, coarse, kept), until) is not None:
        return problem
    return _check(values, together, stated, until)


def allowance(numbers: int) -> float:
    """Difference in squared distance allowed between two solvers: their gap, and the last digits of the values."""
    return SOLVED + ROUNDED * numbers


def _kept(values: Floats, sums: Sums) -> Kept:
    """The rows that whole numbers keep in any case."""
    near = sums.near @ values
    return [(sums.least, 0.0, np.inf), (sums.near, np.floor(near + NEARLY), np.ceil(near - NEARLY))]


def _common(sums: Sums) -> Common | None:
    """The sums in common, where these are rounded first, and every table after that; None of few numbers."""
    large = sums.common is not None and _largest(_stacked(sums.zero, sums.least)) > JOINTLY
    return sums.common() if sums.common is not None and large else None


def _coarse(values: Floats, common: Common) -> tuple[Floats, Kept]:
    """The sums in common, and the rows that they keep."""
    return np.maximum(common.one @ values, 0.0), [(common.nested, 0.0, 0.0)]


def _fine(common: Common, coarse: Integers, kept: Kept) -> Kept:
    """The rows that all numbers keep, given the sums in common."""
    held = coarse[common.which].astype(np.float64)
    return [(common.every, held, held), (common.within, 0.0, 0.0), *kept]


def _stacked(*rows: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.vstack(rows, format="csr"))


def _rounded(values: Floats, kept: Kept, until: float) -> Integers | None:
    """Whole numbers next to values, with sums between ends; None where none are found in time."""
    out = np.rint(values).astype(np.int64)
    for part in _parts(values, kept):
        found = _moved(part, until)
        if found is None:
            return None
        out[part.here] = (part.low + found[0]).astype(np.int64)
    return out


def _check(values: Floats, kept: Kept, stated: Integers, until: float) -> str | None:
    """Return why numbers are not what `_rounded` looks for, or None if they are."""
    alone = np.ones(len(values), dtype=bool)
    for part in _parts(values, kept):
        alone[part.here] = False
        steps = stated[part.here] - part.low
        sums = part.own @ steps
        if not ((sums >= part.ends[0]) & (sums <= part.ends[1])).all():
            return "a sum of whole numbers is further from that of the nearest tables than it must be"
        found = _moved(part, until)
        if found is None:
            return "the rounding was not solved again in time, so that it is not known whether it is the nearest"
        best, further = found
        least, most = (-REACH, REACH) if further else (0, 1)
        if not ((steps >= least) & (steps <= most)).all():
            return "a number is not next to that of the nearest tables, and there are such that add up"
        longer = part.distance(steps) - part.distance(best)
        if longer > allowance(len(steps)):
            return f"other whole numbers that add up are nearer: by {longer:.3g} in squared distance"
    if alone.any() and np.abs(stated - values)[alone].max() > 0.5 + NEARLY:
        return "a number that is in no sum is not the nearest whole one"
    return None


@final
@dataclass(frozen=True, eq=False)
class _Part:
    """Numbers that have to do with each other. here: their places. own: rows of their sums. low: their floors.

    part: how far each is above its floor, 0 to 1. ends: of the sums of steps from the floors.
    """

    here: Indices
    own: sp.csr_array
    low: Floats
    part: Floats
    ends: tuple[Floats, Floats]

    def distance(self, steps: Floats) -> float:
        """Squared distance between the values and whole numbers that lie `steps` above the floors."""
        return float(((steps - self.part) ** 2).sum())


def _parts(values: Floats, kept: Kept) -> Iterator[_Part]:
    """The numbers that are in some sum, taken apart where they have nothing to do with each other."""
    low = np.floor(values + NEARLY)
    part = np.clip(values - low, 0.0, 1.0)
    every = _stacked(*(rows for rows, _, _ in kept))
    heights = [rows.shape[0] for rows, _, _ in kept]
    floor = np.concatenate([np.broadcast_to(x, n) for n, (_, x, _) in zip(heights, kept, strict=True)])
    ceiling = np.concatenate([np.broadcast_to(x, n) for n, (_, _, x) in zip(heights, kept, strict=True)])
    for rows, here in _components(every):
        own = sp.csr_array(every[rows][:, here])
        start = own @ low[here]
        yield _Part(here, own, low[here], part[here], (floor[rows] - start, ceiling[rows] - start))


def _largest(every: sp.csr_array) -> int:
    """How many rows and numbers have to do with each other at most."""
    return int(np.bincount(_labels(every)).max(initial=0))


def _labels(every: sp.csr_array) -> Indices:
    """What belongs together: rows, then numbers."""
    m, n = every.shape
    entries = every.tocoo()
    graph = sp.coo_array((np.ones(entries.nnz), (entries.row, m + entries.col)), shape=(m + n, m + n))
    return np.asarray(connected_components(graph, directed=False)[1])


def _components(every: sp.csr_array) -> list[tuple[Indices, Indices]]:
    """Rows and numbers that have to do with each other, those of few such together."""
    m, label = every.shape[0], _labels(every)
    count = int(label.max(initial=-1)) + 1
    order = np.argsort(label, kind="stable")
    held = np.bincount(label, minlength=count)
    kept = np.bincount(label[:m], minlength=count) > 0  # of numbers in no row the nearest whole ones are taken
    order, ends = order[kept[label[order]]], np.cumsum(held[kept])
    batch = (ends - held[kept]) // TOGETHER
    cuts = ends[:-1][np.diff(batch) > 0]
    return [(x[x < m], x[x >= m] - m) for x in np.split(order, cuts)] if len(order) else []


def _moved(numbers: _Part, until: float) -> tuple[Floats, bool] | None:
    """By how much numbers go up from their floors: by one or not; and otherwise further, or down. And whether they did.

    Steps cost what they add to the squared distance.
    """
    low, part, n = numbers.low, numbers.part, len(numbers.low)
    one = sp.eye_array(n, format="csr")
    ways = [(one, 1 - 2 * part, np.ones(n))]
    further = [(one, k - 2 * part, np.ones(n)) for k in (3, 5)]
    further += [(-one, 2 * k + 1 + 2 * part, np.clip(low - k, 0, 1)) for k in range(REACH)]
    for more in ([], further):
        ways += more
        steps = sp.csr_array(sp.hstack([x for x, _, _ in ways], format="csr"))
        left = until - time.monotonic()
        if left <= 0:
            return None
        found = optimize.milp(
            np.concatenate([cost for _, cost, _ in ways]),
            integrality=np.ones(steps.shape[1], dtype=np.int64),
            bounds=optimize.Bounds(0, np.concatenate([most for _, _, most in ways])),
            constraints=optimize.LinearConstraint(sp.csr_array(numbers.own @ steps), *numbers.ends),
            options={"time_limit": left, "mip_rel_gap": 0.0},
        )
        if found.x is not None:
            return np.asarray(steps @ np.rint(found.x)), bool(more)
    return None
