"""Public totals, and the attributes that they are by: sections 2, 4 and 8 of docs/plan_format.md."""

from math import prod

import numpy as np

from fitnoise_check.exact import class_of, need


def is_exchangeable(name, spec, request):
    """Return True if tables show an attribute by value, with one target, and no other attribute of its joint axis."""
    tables, joint = request["tables"], [names for names, _ in spec.get("joint", {}).values() if name in names]
    for t in tables:
        views = [x for k, x in t.items() if k not in ("attributes", "pattern_attributes", "name")]
        views += [x for several in views if isinstance(several, list) for x in several]
        if any(name in x or x.get("by") == name for x in views if isinstance(x, dict)):
            return False
        if any(name in (x, *(x if isinstance(x, list) else ())) for x in views):
            return False
        if any(class_of(spec["domain"][a]) == name for a in t.get("sum", ())):
            return False
    used = {a for t in tables for k in ("attributes", "pattern_attributes") for a in t.get(k, ())}
    return name in used and not any(len(used & {*names}) > 1 for names in joint)


def public_cells(grid, sector):
    """Return the cell with a public total of every structured cell; None for a sector of other attributes."""
    if grid.public is None or not sector <= grid.public:
        return None
    places = grid.positions()
    need(grid.public <= {*grid.free, *places}, "the public totals are not by shown attributes")
    rows = [np.zeros(prod(grid.shape), dtype=int), *(places[a] for a in sorted(grid.public - {*grid.free}))]
    return np.unique(np.array(rows), axis=1, return_inverse=True)[1].ravel()


def check_rows(rows, cells):
    """Check that no row measures public totals: it keeps no sign on the cells of one, and is not 0."""
    for f in () if cells is None else {*cells.tolist()}:
        here = rows[:, cells == f]
        need((here.min(axis=1) <= 0).all() and (here.max(axis=1) >= 0).all(), "a row measures public totals")
    need(cells is None or (rows != 0).any(axis=1).all(), "a row measures public totals")


def without_means(rows, cells):
    """Return rows less their means over the cells of each public total."""
    out = rows.copy()
    for f in () if cells is None else {*cells.tolist()}:
        out[:, cells == f] -= rows[:, cells == f].mean(axis=1, keepdims=True)
    return out


def within_totals(root, cells):
    """Return the root of the covariance within the cells of each public total, from a diagonal root of weights."""
    out = root
    for f in () if cells is None else {*cells.tolist()}:
        roots = root.diagonal() * (cells == f)
        out = out - np.outer(roots**2, roots) / max(roots @ roots, 1e-300)
    return out
