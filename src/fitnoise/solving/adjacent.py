"""Whole numbers next to numbers that add up, which add up as well: controlled rounding (Cox 1987), as a program.

Of all whole numbers n with E n = 0 and L n ≥ 0 those are looked for whose squared distance from the numbers given is
least: first the floor or the ceiling of each, and where there are none such, up to three away. E and L are of whole
numbers.

Many tables that have sums in common make one program that may take hours: 45 tables of pairs of attributes took 24 s,
190 more than 300. So of large ones the sums in common are rounded first, and then every table for itself, with these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse as sp
from scipy import optimize
from scipy.sparse.csgraph import connected_components

from fitnoise.kernel.arrays import Floats, Indices, Integers

NEARLY = 1e-7
"""By how much a number may be below a whole one and count as it."""

GAP = 1e-4
"""Relative gap up to which a distance counts as the least."""

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
    until, near = time.monotonic() + seconds, sums.near @ values
    kept: Kept = [(sums.least, 0.0, np.inf), (sums.near, np.floor(near + NEARLY), np.ceil(near - NEARLY))]
    if sums.common is not None and _largest(_stacked(sums.zero, sums.least)) > JOINTLY:
        common = sums.common()
        coarse = _rounded(np.maximum(common.one @ values, 0.0), [(common.nested, 0.0, 0.0)], until)
        if coarse is not None:
            held = coarse[common.which].astype(np.float64)
            found = _rounded(values, [(common.every, held, held), (common.within, 0.0, 0.0), *kept], until)
            if found is not None:
                return found
    return _rounded(values, [(sums.zero, 0.0, 0.0), *kept], until)


def _stacked(*rows: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.vstack(rows, format="csr"))


def _rounded(values: Floats, kept: Kept, until: float) -> Integers | None:
    """Whole numbers next to values, with sums between ends; None where none are found in time."""
    low = np.floor(values + NEARLY)
    part = np.clip(values - low, 0.0, 1.0)
    out = np.rint(values).astype(np.int64)
    every = _stacked(*(rows for rows, _, _ in kept))
    heights = [rows.shape[0] for rows, _, _ in kept]
    floor = np.concatenate([np.broadcast_to(x, n) for n, (_, x, _) in zip(heights, kept, strict=True)])
    ceiling = np.concatenate([np.broadcast_to(x, n) for n, (_, _, x) in zip(heights, kept, strict=True)])
    for rows, here in _components(every):
        own = sp.csr_array(every[rows][:, here])
        start = own @ low[here]
        moved = _moved(own, (floor[rows] - start, ceiling[rows] - start), low[here], part[here], until)
        if moved is None:
            return None
        out[here] = (low[here] + moved).astype(np.int64)
    return out


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


def _moved(own: sp.csr_array, ends: tuple[Floats, Floats], low: Floats, part: Floats, until: float) -> Floats | None:
    """By how much numbers go up from their floors: by one or not; and otherwise further, or down.

    Steps cost what they add to the squared distance.
    """
    n = len(low)
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
            constraints=optimize.LinearConstraint(sp.csr_array(own @ steps), *ends),
            options={"time_limit": left, "mip_rel_gap": GAP},
        )
        if found.x is not None:
            return np.asarray(steps @ np.rint(found.x))
    return None
