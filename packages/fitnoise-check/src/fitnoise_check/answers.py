"""Check the costs of questions with finitely many answers: section 7 of docs/plan_format.md."""

from decimal import Decimal, localcontext
from fractions import Fraction as Q
from itertools import pairwise
from math import comb

import numpy as np

from fitnoise_check.exact import Unknown, need

FORMULAS = {"staircase", "geometric", "randomised-response"}
BITS = 512


def exp_below(x):
    """Return a fraction below e^x, by less than a part of 10^-90."""
    with localcontext(prec=100):
        return Q((Decimal(x.numerator) / x.denominator).exp()) * (1 - Q(1, 10**90))


def log_above(x):
    """Return a fraction above log x, by less than 10^-80."""
    with localcontext(prec=100):
        return Q((Decimal(x.numerator) / x.denominator).ln()) + Q(1, 10**80)


def unrun(runs):
    """Return the numbers that are written as runs of equal ones."""
    return np.array([int(x) for x, n in runs for _ in range(n)], dtype=object)


def cell_of(a, value):
    """Return the cell that a value of an attribute means: a code, label, number, bin or cell for missing values."""
    if value in a.get("missing", {}):
        return "missing", value
    if "cuts" in a:
        text = [str(int(x)) if x == int(x) and abs(x) < 2**53 else repr(float(x)) for x in a["cuts"]]
        middle = [f"{one} to under {next_one}" for one, next_one in pairwise(text)]
        bins = [f"under {text[0]}", *middle, f"{text[-1]} or more"]
        need(value in bins, "a condition names a bin that the attribute does not have")
        return bins.index(value)
    if "codes" in a:
        pairs = list(enumerate(zip(a["codes"], a.get("labels") or a["codes"], strict=True)))
        matches = {i for i, (code, _) in pairs if value == code and type(value) is type(code)}
        matches = matches or {i for i, (_, label) in pairs if value == label}
        need(len(matches) == 1, "a condition is about a value that the domain does not have, or has several times")
        return matches.pop()
    return value - a["low"] if "low" in a else value


def selected(a, condition):
    """Return the cells that one value, a range with both ends, or several values mean: section 2."""
    if isinstance(condition, dict) and "values" in condition:
        return {cell_of(a, v) for v in condition["values"]}
    ends = [condition["first"], condition["last"]] if isinstance(condition, dict) else condition
    if not isinstance(ends, list):
        return {cell_of(a, ends)}
    if "codes" in a:
        need(ends is condition, "a range is given for an attribute without an order")
        return {cell_of(a, v) for v in ends}
    need(len(ends) == 2, "a list does not have the two ends of a range")
    start, last = (cell_of(a, v) for v in ends)
    need(isinstance(start, int) and isinstance(last, int) and start <= last, "a range has not two cells in order")
    return set(range(start, last + 1))


class Graph:
    """The possible answers; `distances` gives the number of records that turn one answer into another."""

    def __init__(self, q, spec, size, unit):
        people, kind, self.shape, self.step = q["people"], q["query"], None, 1
        if kind in ("median", "quantile"):
            self.n = size[q["attribute"]]
        elif kind == "counts":
            many = len(q["where"])
            self.n, fine = comb(people + many, many), self.are_disjoint(q["where"], spec["domain"])
            if fine and self.n <= 4096:
                rows = [[]]
                for _ in range(many):
                    rows = [[*row, x] for row in rows for x in range(people - sum(row) + 1)]
                self.bins = np.array([[*row, people - sum(row)] for row in rows])
            else:
                self.shape, self.n = (people + 1,) * many, (people + 1) ** many
        else:
            a = spec["domain"][q["attribute"]] if kind == "sum" else {"low": 1, "high": 1}
            adds = [a["low"], a["high"], *([0] if q.get("where") is not None or unit.alone else [])]
            self.step = max(adds) - min(adds)
            self.shape, self.n = (people * self.step + 1,), people * self.step + 1

    def are_disjoint(self, where, domain):
        """Return True if no record meets two conditions."""
        conditions = [{a: selected(domain[a], values) for a, values in x.items()} for x in where]
        return all(any(not x[a] & y[a] for a in x if a in y) for i, x in enumerate(conditions) for y in conditions[:i])

    def distances(self, i):
        """Return the distances from answer i to all answers."""
        if self.shape is not None:
            coordinates = np.array(np.unravel_index(np.arange(self.n), self.shape))
            return (-(-abs(coordinates - coordinates[:, i : i + 1]) // self.step)).max(axis=0)
        return abs(self.bins - self.bins[i]).sum(axis=1) // 2 if hasattr(self, "bins") else np.arange(self.n) != i


def by_distance(graph, m, max_ratio):
    """Return True if a mechanism of the form `distance` is private: section 7."""
    values, columns = ([int(x) for x in m[k]] for k in ("values", "columns"))
    total, rest_column, steps, gathering = int(m["total"]), m["rest_to"], 0, []
    need(min(*values, *columns) >= 0 and len(columns) == graph.n, "probabilities are negative or too few")
    columns, held = np.array(columns, dtype=object), np.array(values, dtype=object)
    for i in range(graph.n):
        d = np.minimum(graph.distances(i), len(values) - 1)
        weights, steps = held[d] * columns, max(steps, d.max())
        gathering.append(total - weights.sum() + (weights[rest_column] if rest_column < graph.n else 0))
    need(min(gathering) >= 0, "a probability is negative")
    pairs = [(values[k], values[k + 1]) for k in range(steps)]
    pairs += [(gathering[i], gathering[j]) for i in range(graph.n) for j in np.flatnonzero(graph.distances(i) == 1)]
    return all(max(x) * max_ratio.denominator <= min(x) * max_ratio.numerator for x in pairs)


def by_rows(graph, m, max_ratio):
    """Return True if a mechanism of the form `rows` is private: section 7."""
    rows = [[int(x) for x in row] for row in m["rows"]]
    need(len(rows) == graph.n and min(map(min, rows)) >= 0, "probabilities are negative or too few")
    need(len({sum(r) for r in rows}) == 1, "rows of probabilities have different sums")
    neighbours = ((i, j) for i in range(graph.n) for j in np.flatnonzero(graph.distances(i) == 1))
    return all(
        x * max_ratio.denominator <= y * max_ratio.numerator
        for i, j in neighbours
        for x, y in zip(rows[i], rows[j], strict=True)
    )


def box(graph, m, max_ratio, alpha):
    """Return True if a mechanism of the form `box` is private: largest over least row sum, times 1/α."""
    layers, power, reach = [], 1 << BITS, max(-(-(n - 1) // graph.step) for n in graph.shape)
    while len(layers) < reach and power >> BITS - 160:
        layers.append(power)
        power = power * alpha.numerator // alpha.denominator
    need(len(layers) * graph.n <= 10**8, "a mechanism without a table is too large to be summed up here", Unknown)
    z = unrun(m["weights"]).reshape(graph.shape)
    need(z.min() >= 0, "a probability is negative")
    sums = np.full(graph.shape, power * z.sum() * alpha.denominator, dtype=object)
    for k, weight in enumerate(layers):
        inside = z
        for axis, n in enumerate(graph.shape):
            upto = np.concatenate([np.zeros_like(inside.take([0], axis)), inside.cumsum(axis)], axis)
            positions = np.arange(n)
            inside = upto.take(np.minimum(positions + k * graph.step, n - 1) + 1, axis)
            inside = inside - upto.take(np.maximum(positions - k * graph.step, 0), axis)
        sums = sums + inside * weight * (alpha.denominator - alpha.numerator)
    off = (len(layers) + 2 + (power if len(layers) < reach else 0)) * z.sum() * alpha.denominator
    min_sum, largest = int(sums.min() - off), int(sums.max() + off)
    return min_sum > 0 and Q(largest, min_sum) / alpha <= max_ratio


def ranks(graph, q, m, epsilon, unit):
    """Return True if a mechanism of the form `ranks` is private: section 7."""
    rank, alpha = Q(q.get("quantile", "1/2")), Q(m["alpha"])
    step = rank.denominator if unit.replaces else max(rank.numerator, rank.denominator - rank.numerator)
    min_weight = 2**256 // (graph.n * 2**96)
    return 2 * step * log_above(1 / alpha) + log_above(Q(min_weight + graph.n, min_weight - 1)) <= epsilon


def check(q, m, spec, size, unit):
    """Return the reason why an answer costs one unit at most its ε; raise Wrong where it costs more."""
    records = 1 if q["query"] == "left_out" else unit.records  # one person changes this number by at most one
    graph, epsilon, form = Graph(q, spec, size, unit), Q(q["epsilon"]) / records, m["form"]
    max_ratio, alpha = exp_below(epsilon), Q(m.get("alpha", 1))
    need(0 < alpha <= 1 and (form not in ("box", "clamped") or graph.shape), "the mechanism does not fit its question")
    if form == "formula":
        need(m["family"] in FORMULAS, "the family of a formula is unknown")
        return "private by its formula; the plan has no integers to check"
    if form == "distance":
        private = by_distance(graph, m, max_ratio)
    elif form == "rows":
        private = by_rows(graph, m, max_ratio)
    elif form == "ranks":
        private = q["query"] in ("median", "quantile") and ranks(graph, q, m, epsilon, unit)
    else:
        private = box(graph, m, max_ratio, alpha) if form == "box" else form == "clamped" and 1 / alpha <= max_ratio
    need(private, f"the question {q['name']!r} is not answered privately at its epsilon")
    return "proven from its integers"
