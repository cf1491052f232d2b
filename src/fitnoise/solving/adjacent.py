"""Whole numbers next to numbers that add up, which add up as well: controlled rounding (Cox 1987), as a program.

Of all whole numbers n with E n = 0 and L n ≥ 0 those are looked for whose squared distance from the numbers given is
least: first the floor or the ceiling of each, and where there are none such, up to three away. E and L are of whole
numbers.
"""

from __future__ import annotations

import time
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

REACH = 3
"""How far whole numbers are looked for, where there are none within one."""


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """What whole numbers must keep. zero: E, (rows, N). least: L, (rows, N). near: rows whose sums stay within one."""

    zero: sp.csr_array
    least: sp.csr_array
    near: sp.csr_array


def adjacent(values: Floats, sums: Sums, seconds: float) -> Integers | None:
    """Whole numbers next to values ≥ 0 for which E v = 0 and L v ≥ 0, (N,); None where none are found in time.

    **Guarantees**
        * E n = 0, L n ≥ 0 and n ≥ 0, exactly.
    """
    low = np.floor(values + NEARLY)
    part = np.clip(values - low, 0.0, 1.0)
    out, until = np.rint(values).astype(np.int64), time.monotonic() + seconds
    every = sp.csr_array(sp.vstack([sums.zero, sums.least, sums.near], format="csr"))
    kinds = np.repeat([0, 1, 2], [sums.zero.shape[0], sums.least.shape[0], sums.near.shape[0]])
    for rows, here in _components(every):
        own = sp.csr_array(every[rows][:, here])
        start, total = own @ low[here], own @ values[here]
        kind = kinds[rows]
        floor = np.choose(kind, [0.0 * total, 0.0 * total, np.floor(total + NEARLY)]) - start
        ceiling = np.choose(kind, [0.0 * total, np.full_like(total, np.inf), np.ceil(total - NEARLY)]) - start
        moved = _moved(own, (floor, ceiling), low[here], part[here], until)
        if moved is None:
            return None
        out[here] = (low[here] + moved).astype(np.int64)
    return out


def _components(every: sp.csr_array) -> list[tuple[Indices, Indices]]:
    """Rows and numbers that have to do with each other, those of few such together."""
    m, n = every.shape
    entries = every.tocoo()
    graph = sp.coo_array((np.ones(entries.nnz), (entries.row, m + entries.col)), shape=(m + n, m + n))
    count, label = connected_components(graph, directed=False)
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
