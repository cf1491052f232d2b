"""Amounts: their knots and steps, and their cells within cuts of one column: section 2 of docs/plan_format.md."""

from fractions import Fraction as Q
from itertools import accumulate, pairwise
from math import floor, inf, nextafter

import numpy as np

from fitnoise_check.exact import class_of, need


def ranges(a):
    """Return low, high and step of an amount for every class, exactly: section 2."""
    ends = [x["values"] if isinstance(x, dict) else [x] for x in (a["low"], a["high"])]
    many = max(map(len, ends))
    pairs = [tuple(Q(str(x)) for x in pair) for pair in zip(*(x * (many // len(x)) for x in ends), strict=True)]
    steps = min(high - low for low, high in pairs) / Q(str(a.get("step", 1)))
    return [(low, high, (high - low) / steps) for low, high in pairs]


def knots(a):
    """Return the knots of an amount, exactly; in steps if there are several ranges: section 2."""
    if not class_of(a):
        return [Q(str(x)) for x in (a["low"], *a.get("ceilings", ()), a["high"])]
    steps = {(low / step, high / step) for low, high, step in ranges(a)}
    need(len(steps) == 1, "the ranges of an amount by class differ in steps")
    return list(*steps)


def steps_of(a):
    """Return the number of steps from each knot of an amount to the next: section 2."""
    t = knots(a)
    return [int((y - x) / Q(str(1 if class_of(a) else a.get("step", 1)))) for x, y in pairwise(t)]


def between_knots(measured, grid):
    """Check that measured integers stay integers at every step of an amount: section 2."""
    gaps = {i: grid.gaps(a) for i, a in enumerate(grid.axes, 1)}
    for matrix in measured if any(map(any, gaps.values())) else ():
        rows = matrix.reshape(-1, *grid.shape)
        for i, gap in gaps.items():
            for s in (s for s in range(len(gap), 0, -1) if gap[s - 1]):
                rise = rows.take([s], i) - rows.take([s - 1], i)
                need(not (rise % gap[s - 1]).any(), "a measured number is not an integer between two knots")
                parts = rows.take(range(s), i), rise // gap[s - 1], rows.take(range(s + 1, rows.shape[i]), i)
                rows = np.concatenate(parts, i)


def cells_within_cuts(name, amount, spec):
    """Return the cells of cuts, each with the steps between which an amount of the column lies there: section 2."""
    cuts, a = spec["domain"][name], spec["domain"][amount]
    is_read = cuts["type"] == "binned" and "date_part" not in cuts
    need(is_read and a["type"] == "amount", "a joint axis has an amount, and no cuts of the same numbers")
    need(cuts.get("column", name) == a.get("column", amount), "cuts and an amount of a joint axis have two columns")
    privacy = spec.get("privacy", {})
    merged = {x for u in (privacy, *privacy.get("other_units", ())) for x in u.get("sum_within_unit", ())}
    need(amount not in merged and not class_of(a), "an amount of a joint axis is added up, or has ranges by class")
    low, high, step = ranges(a)[0]
    passed = [0, *accumulate(steps_of(a))]

    def step_of(x):
        """Return the step of a number, by the operations of section 2 in double precision."""
        unit = next(10**k for k in range(16) if not any((y * 10**k) % 1 for y in (low, high, step)))
        start = float((low - step / 2) * unit)
        j = floor((min(max(x, float(low)), float(high)) * float(unit) - start) / float(step * unit))
        return min(max(j, 0), passed[-1])

    points = [-inf, *map(float, cuts["cuts"]), inf]
    ends = [(step_of(x), step_of(nextafter(y, -inf))) for x, y in pairwise(points)]
    ends += [(0, passed[-1])] * len(cuts.get("missing", ()))
    last = range(passed[-1] + 1, passed[-1] + 1 + len(a.get("missing", ())))
    return [[b, j] for b, (u, v) in enumerate(ends) for j in sorted({u, v, *(t for t in passed if u < t < v), *last})]


def at_steps(a, steps):
    """Return the part of each cell of an amount, knots and missing values, in records at these steps: section 2."""
    passed = [0, *accumulate(steps_of(a))]
    further = [j - passed[-1] for j in range(passed[-1] + 1, passed[-1] + 1 + len(a.get("missing", ())))]
    rows = [np.interp(np.minimum(steps, passed[-1]), passed, x) * (steps <= passed[-1]) for x in np.eye(len(passed))]
    return np.array([*rows, *(np.equal(steps, passed[-1] + m) for m in further)], dtype=float)
