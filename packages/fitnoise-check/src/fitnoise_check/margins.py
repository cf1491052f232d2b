"""The cost of margins measured with Laplace noise: section 5 of docs/plan_format.md."""

from fractions import Fraction as Q
from math import prod

import numpy as np

from fitnoise_check.exact import integer_matrix


def dense(margin, cells):
    """Return the matrix of a margin, with a number for every structured cell: section 5."""
    rows = np.zeros((len(margin["rows"]), cells), dtype=object)
    for row, (where, values) in zip(rows, margin["rows"], strict=True):
        row[where] = integer_matrix([values])[0]
    return rows


def margins(strategy, size, axes, unit):
    """Return ε² of margins measured with Laplace noise: section 5."""
    one, two = 0, 0
    for m in strategy["margins"]:
        rows = dense(m, prod(size[a] for a in axes))
        column_sums = abs(rows).sum(axis=0)
        one += column_sums
        if unit.replaces:
            same = all(size[a] == 1 for a in m["attributes"])
            two += sum(abs(row[:, None] - row) for row in rows) if same else column_sums[:, None] + column_sums
    return (unit.records * max(max(one) if unit.alone else 0, np.max(two)) / Q(strategy["scale"])) ** 2
