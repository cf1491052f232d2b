"""The queries and targets of tables: section 8 of docs/plan_format.md."""

from itertools import combinations, product
from math import log, prod
from statistics import NormalDist

import numpy as np

from fitnoise_check.amounts import at_steps, knots, ranges
from fitnoise_check.answers import cell_of, selected
from fitnoise_check.exact import Unknown, class_of, need

TUPLE_SIZES = {"singles": 1, "pairs": 2, "triples": 3}
SPANS = {
    "cumulative": lambda n, k: [(0, i + 1) for i in range(n)],
    "ranges": lambda n, k: combinations(range(n + 1), 2),
    "change": lambda n, k: [(i, i + 1) for i in range(n - k)],
    "average": lambda n, k: [(i, i + k) for i in range(n - k + 1)],
    "to_date": lambda n, k: [(i - i % k, i + 1) for i in range(n)],
}
KINDS = ("margin", "std_error", "variance", "max_deviation", "relative_std_error")


class Table:
    """A table, or one block of a table: its exchangeable attributes, its queries R of structured cells, its targets.

    A block shows the values of one class of each attribute that has classes.
    """

    def __init__(self, t, names, x, grid, confidence, block):
        self.free, axes = grid.shown_axes(names)
        shown_classes = [(a, f"{a} in class {k}") for a, k in block.items()]
        self.free |= {axis for _, axis in shown_classes if axis in grid.classes}
        views = {
            name: np.array([grid.joint[a][name]]) == block[name] if name in block else view(t, name, a, grid)
            for a, names_here in axes.items()
            for name in names_here
        }
        rows = {a: np.ones((1, grid.size[a])) for a in axes}
        for a, name in ((a, name) for a, names_here in axes.items() for name in names_here):
            # Attributes of one joint axis multiply, cell by cell.
            rows[a] = (rows[a][:, None] * views[name][None]).reshape(-1, grid.size[a])
        for d in (grid.domain[a] for a in t.get("sum", ())):
            if class_of(d):
                rows[class_of(d)] = rows[class_of(d)] * [float(step) for _, _, step in ranges(d)]
        self.queries = np.ones((1, 1))
        for a in grid.axes:
            self.queries = np.kron(self.queries, rows[a])
        if "matrix" in t:
            self.queries = np.array(t["matrix"], dtype=float)
            views = {x["by"] if isinstance(x, dict) else "query": self.queries}
        self.cells = prod(grid.size[a] for a in self.free)
        if isinstance(x, dict) and "by" in x:
            order = [-1 if name == x["by"] else 1 for name in views]
            x = np.broadcast_to(np.reshape(row_targets(x, t, grid), order), [len(r) for r in views.values()]).ravel()
        of_blocks = prod(grid.size[a] for a in block) / prod(grid.size.get(axis, 1) for _, axis in shown_classes)
        numbers = round(self.cells * len(self.queries) * of_blocks)
        self.targets = np.zeros(len(self.queries)) + variance(t, x, numbers, confidence)
        if "mean" in t:
            self.targets *= (t["reference"] / (grid.domain[t["mean"]]["high"] - grid.domain[t["mean"]]["low"])) ** 2


def view(t, name, axis, grid):
    """Return the rows that a table shows of an attribute or level, over the cells of an axis."""
    d, n, axis_of = grid.domain[name], grid.size[name], np.eye(grid.size[name])
    columns = grid.joint.get(axis)
    axis = next(x for x in columns if grid.home[x] == grid.home[name]) if columns else axis
    if "rows" in d:  # the place in which each cell of the axis lies
        above = {row[grid.depth[axis]]: row[grid.depth[name]] for row in d["rows"]}
        codes = grid.domain[axis]["codes"]
        axis_of = np.array([[above[code] == own_code for code in codes] for own_code in d["codes"]], dtype=float)
    if columns:  # of each joint cell
        is_amount = d.get("type") == "amount"
        axis_of = at_steps(d, np.array(columns[axis])) if is_amount else axis_of[:, columns[axis]]
    missing = list(d.get("missing", ()))
    valued = n - len(missing)
    shows = next((v for v in SPANS if name in t.get(v, ())), None)
    if shows:
        k = t[shows][name] if isinstance(t[shows], dict) else None  # a view without values lists its attributes
        spans = [(cell_of(d, i), cell_of(d, j) + 1) for i, j in k] if isinstance(k, list) else SPANS[shows](valued, k)
        rows = np.array([[i <= o < j for o in range(valued)] for i, j in spans], dtype=float)
        rows = np.eye(valued)[k:] - rows if shows == "change" else rows / (k if shows == "average" else 1)
    elif name in t.get("groups", {}):
        cells = [selected(d, group) for group in t["groups"][name].values()]
        cells = [{valued + missing.index(c[1]) if isinstance(c, tuple) else c for c in group} for group in cells]
        rows = np.array([[o in group for o in range(n)] for group in cells], dtype=float)
    elif name in t.get("count", ()):
        rows = np.ones((1, valued))
    elif name in t.get("sum", ()):
        each = list(map(float, knots(d))) if d["type"] == "amount" else range(d["low"], d["high"] + 1)
        rows = np.minimum(each, t.get("ceiling", np.inf))[None]
    elif name == t.get("mean"):
        part = np.array([(x - d["low"]) / (d["high"] - d["low"]) for x in map(float, knots(d))])
        rows = np.vstack([1 - part, part])
    else:
        return axis_of
    rows = np.hstack([rows, np.zeros((len(rows), n - rows.shape[1]))])
    missing_rows = [o for o in range(valued, n) if t.get("missing") and not rows[:, o].any()]
    return np.vstack([rows, np.eye(n)[missing_rows]]) @ axis_of


def row_targets(x, t, grid):
    """Return a target for every row along an attribute."""
    if isinstance(x["values"], list):
        return x["values"]
    d, name = grid.domain[x["by"]], x["by"]
    recoded = t.get("groups", {}).get(name)
    is_plain = "codes" in d and name not in [x for view in SPANS for x in t.get(view, ())]
    need(is_plain or recoded, "targets are named by numbers or ranges", Unknown)
    labels = d.get("labels") or ()
    is_distinct = labels and len(set(labels)) == len(labels)
    recoded = [*(recoded or (labels if is_distinct else d["codes"])), *d.get("missing", ())]
    return [x["values"].get(str(v), x.get("default")) for v in recoded]


def variance(t, x, many, confidence):
    """Return the variance that a target requests: section 8."""
    kind, sure = next(k for k in KINDS if k in t), t.get("confidence", confidence)
    if isinstance(x, dict):
        x = x["coefficient"] * many ** x["power"]
        x = min(max(x, t[kind].get("least", 0)), t[kind].get("most", np.inf))
    if kind == "relative_std_error":
        reference = t["reference"]
        return (np.asarray(x) * (reference["total"] / many if isinstance(reference, dict) else reference)) ** 2
    if kind == "max_deviation":
        return (np.asarray(x) / -NormalDist().inv_cdf(-np.expm1(log(sure) / many) / 2)) ** 2
    by_kind = {"variance": lambda x: x, "std_error": lambda x: x**2}
    return by_kind.get(kind, lambda x: (x / NormalDist().inv_cdf((1 + sure) / 2)) ** 2)(np.asarray(x, dtype=float))


def tables_of(request, spec, grid):
    """Yield all tables; a pattern yields each of its tables."""
    sure = spec.get("accuracy", {}).get("confidence", 0.95)
    sure = sure if request is spec else request.get("confidence", sure)
    for t in request["tables"]:
        kind = next(k for k in KINDS if k in t)
        sets = (
            list(combinations(t["pattern_attributes"], TUPLE_SIZES.get(t["pattern"], t["pattern"])))
            if "pattern" in t
            else [()]
        )
        each = t[kind] if isinstance(t[kind], list) else [t[kind]] * len(sets)
        for extra, x in zip(sets, each, strict=True):
            names = [*t.get("attributes", ()), *extra]
            rows = {a: row for axis in grid.axes for a, row in grid.classed.get(axis, {}).items()}
            classed = [a for a in (*extra, *t.get("attributes", ())) if a in rows]
            for block in product(*(range(max(rows[a]) + 1) for a in classed)):
                table = Table(t, names, x, grid, sure, dict(zip(classed, block, strict=True)))
                if table.queries.any() or not classed:
                    yield table
