"""The workloads of the zoo, and a publication for each mechanism for tables."""

import numpy as np

import fitnoise as fn
from zoo.arrays import FULL_RANK_REALS, LOW_RANK_INTEGERS, LOW_RANK_REALS, SIGNS


def lower(n):
    return np.tril(np.ones((n, n), dtype=int))


def _three():
    return fn.Domain(a=fn.Categorical(["x", "y", "z"]), b=fn.Categorical([1, 2, 3, 4]), c=fn.Categorical([True, False]))


def _reference(sizes, cells):
    names = "abc"[: len(sizes)]
    attributes = {n: fn.Categorical(list(range(k))) for n, k in zip(names, sizes, strict=True)}
    return fn.Domain(**attributes, o=fn.Ordered(0, cells - 1))


def _with_missing():
    return fn.Domain(
        sex=fn.Categorical(["f", "m"], missing={"none": [""]}, if_missing="none", if_outside="none"),
        age=fn.Ordered(0, 3, clip=True, missing={"not applicable": ["N"], "unknown": [-9]}, if_missing="unknown"),
    )


def five_cells():
    """Tables with the optimum 2.130793; under replace-one neighbours their plan of 20 bits costs 4.73521."""
    groups = {"o": {"low": [0, 1], "high": [2, 4]}}
    return fn.Workload(
        _reference((3, 4, 2), 5),
        [
            fn.table("a", cumulative="o", variance=fn.ByAttribute("o", [4, 3, 5, 6, 2])),
            fn.table("b", variance=2),
            fn.table("a", "b", variance=1.5),
            fn.table("b", "o", variance=3),
            fn.table("a", "b", "c", groups=groups, variance=fn.ByAttribute("o", [6, 7])),
            fn.table("c", groups=groups, variance=fn.ByAttribute("o", {"low": 3, "high": 9})),
            fn.table(ranges={"o": [(1, 2)]}, variance=1),
        ],
    )


def seven_cells():
    c = np.random.default_rng(0).uniform(1, 5, 7)
    return fn.Workload(
        _reference((3, 4), 7),
        [
            fn.table("a", cumulative="o", variance=fn.ByAttribute("o", c)),
            fn.table("b", variance=2),
            fn.table("a", "b", variance=1.5),
            fn.table("b", "o", variance=3),
        ],
    )


def crossed():
    """Two structured attributes that never meet in one table, and an exchangeable one that meets both."""
    domain = fn.Domain(
        income=fn.Binned([10, 20, 40]), sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 4), unused=fn.Ordered(1, 2)
    )
    return fn.Workload(
        domain,
        [
            fn.table("sex", cumulative="age", std_error=1.5),
            fn.table(cumulative="income", margin=4),
            fn.table("sex", "income", relative_std_error=0.1, reference=30),
            fn.table("age", max_deviation=9, confidence=0.9),
        ],
        confidence=0.9,
    )


def all_ranges():
    """Return a table with enough ranges to keep its structure, and tables that do not, in sectors of both kinds."""
    domain = fn.Domain(a=fn.Categorical(["x", "y"]), o=fn.Ordered(0, 22))
    return fn.Workload(
        domain,
        [
            fn.table("a", ranges="o", variance=9),
            fn.table("a", cumulative="o", variance=fn.ByAttribute("o", list(range(2, 25)))),
            fn.table(ranges="o", variance=fn.ByAttribute("o", list(range(30, 306)))),
            fn.table("a", variance=2),
        ],
    )


def patterns():
    """All singles and pairs of attributes of one size: tables and sectors that cannot be distinguished."""
    domain = fn.Domain({a: fn.Ordered(0, 2) for a in "abcd"})
    return fn.Workload(
        domain, [fn.all_tables(1, ["a", "b", "c"], variance=2), fn.all_tables(2, list("abcd"), margin=5)]
    )


def uneven_patterns():
    """Targets one by one, by size and by a public total, on attributes of several sizes, one of a single value."""
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 2), c=fn.Ordered(1, 1), d=fn.Categorical(["x", "y"]))
    return fn.Workload(
        domain,
        [
            fn.all_tables(2, ["d", "b", "a", "c"], variance=[1, 2, 3, 4, 5, 6]),
            fn.all_tables(1, ["a", "b"], margin=fn.ByTableSize(4, 0.5, most=6)),
            fn.table(relative_std_error=0.1, reference=fn.PublicTotal(50)),
            fn.all_tables(3, ["a", "b", "d"], relative_std_error=0.5, reference=fn.PublicTotal(120), name="whole"),
        ],
    )


def patterns_and_structure():
    """Return two ordered attributes that meet in one table, and others; a pattern runs over one of the two."""
    domain = fn.Domain(
        a=fn.Ordered(0, 1), o=fn.Ordered(0, 2), b=fn.Ordered(0, 1), r=fn.Ordered(0, 1), c=fn.Ordered(0, 1)
    )
    return fn.Workload(
        domain,
        [
            fn.all_tables(2, ["c", "o", "a", "b"], variance=3),
            fn.all_tables(1, ["a", "b", "c"], cumulative="o", variance=fn.ByAttribute("o", [2, 3, 4])),
            fn.all_tables(1, ["b", "c"], "a", cumulative="r", variance=[5, 7]),
            fn.table(cumulative=["o", "r"], variance=4),
        ],
    )


def places(*branching, levels=("region", "district", "tract")):
    """Return a regular tree with the given numbers of regions, districts a region and tracts a district."""
    rows = [()]
    for n in branching:
        rows = [(*row, "".join((*row[-1:], "abcdefgh"[i]))) for row in rows for i in range(n)]
    return fn.Hierarchy(levels, rows)


UNEVEN = fn.Hierarchy(
    ["state", "county"],
    [("x", "x1"), ("y", "y1"), ("y", "y2"), ("z", "z1"), ("z", "z2"), ("z", "z3")],
    column="fips",
)


def regular_tree():
    """Return tables of all levels, some with an attribute; places with two values have a centring of one row."""
    domain = fn.Domain(a=fn.Ordered(0, 2), geo=places(2, 3, 2))
    return fn.Workload(
        domain,
        [
            fn.table("a", variance=9),
            fn.table("region", "a", variance=5),
            fn.table("a", "district", variance=4),
            fn.table("tract", variance=1),
        ],
    )


def tree_by_numbers():
    """Two of three levels of a tree that lists no place; and a level of one place, which is the one above."""
    domain = fn.Domain(geo=fn.Hierarchy.regular(region=2, district=3, tract=1, column="code"), b=fn.Ordered(0, 1))
    return fn.Workload(domain, [fn.table("region", "b", variance=3), fn.table("tract", variance=2)])


def coarse_tree():
    """Two of three levels: districts have different numbers of tracts, and regions equally many."""
    rows = [("p", "p1", 1), ("p", "p1", 2), ("p", "p2", 3), ("q", "q1", 4), ("q", "q2", 5), ("q", "q2", 6)]
    domain = fn.Domain(geo=fn.Hierarchy(["region", "district", "tract"], rows), b=fn.Ordered(0, 1))
    return fn.Workload(domain, [fn.table("b", "geo", margin=5), fn.all_tables(1, ["region", "b"], variance=[2, 3])])


def uneven_tree():
    """Places of different numbers of places, and an only child: one structured attribute."""
    domain = fn.Domain(geo=UNEVEN, b=fn.Ordered(0, 1))
    return fn.Workload(
        domain,
        [
            fn.table(variance=9),
            fn.table("b", "state", variance=fn.ByAttribute("state", {"y": 2}, default=4)),
            fn.table("county", variance=1),
            fn.table(groups={"state": {"both": ["x", "z"], "y": ["y"]}}, variance=3),
        ],
    )


def many_places(*, has_targets=False):
    """Counties that are planned by level: as many as that takes, in states of different numbers of them.

    has_targets: whether those of one state have a target of their own, for which they are planned by place.
    """
    rows = [(i, f"{i}-{j}") for i, n in enumerate((1, 40, 90)) for j in range(n)]
    domain = fn.Domain(b=fn.Ordered(0, 1), geo=fn.Hierarchy(["state", "county"], rows))
    tables = [fn.table("state", "b", variance=2), fn.table("county", "b", variance=4), fn.table("county", variance=3)]
    if has_targets:
        tight = fn.ByAttribute("county", {f"1-{j}": 2.0 for j in range(40)}, default=50.0)
        tables[2] = fn.table("county", variance=tight)
    return fn.Workload(domain, tables)


def many_cells():
    """Two ordered attributes that are planned in product form: as many joint cells as that takes."""
    domain = fn.Domain(b=fn.Ordered(0, 1), o=fn.Ordered(0, 32), u=fn.Ordered(0, 39))
    tables = [
        fn.table(cumulative=["o", "u"], variance=4),
        fn.table("b", variance=2),
        fn.table(cumulative="u", variance=9),
    ]
    return fn.Workload(domain, tables)


def tree_and_structure():
    domain = fn.Domain(b=fn.Ordered(0, 1), geo=places(2, 3, levels=["state", "county"]), o=fn.Ordered(0, 3))
    return fn.Workload(
        domain,
        [
            fn.table("b", cumulative="o", variance=6),
            fn.table("state", cumulative="o", variance=fn.ByAttribute("o", [2, 3, 4, 5])),
            fn.table("o", "county", "b", variance=3),
            fn.all_tables(2, ["b", "county"], "o", variance=9, name="all"),
        ],
    )


def changes():
    """Months that follow one another, by value, as changes, seasonal differences, averages and seasons to date."""
    months = [f"m{i}" for i in range(5)]
    domain = fn.Domain(month=fn.Categorical(months, missing={"none": [""]}), a=fn.Ordered(0, 2), o=fn.Ordered(0, 1))
    return fn.Workload(
        domain,
        [
            fn.table("a", change="month", variance=3),
            fn.table("o", change={"month": 3}, variance=fn.ByAttribute("month", [4, 5])),
            fn.table("a", average={"month": 3}, cumulative="o", variance=2),
            fn.all_tables(1, ["a"], to_date={"month": 2}, variance=9),
        ],
    )


def amounts():
    """Counts, sums, sums of products and means of two amounts, one of which is missing for some records."""
    domain = fn.Domain(
        sex=fn.Categorical(["f", "m"]),
        weight=fn.Amount(1, 9, step=2),
        pay=fn.Amount(-20, 40, step=10, missing={"none": ["N"]}, if_missing="none", if_outside="none"),
        age=fn.Ordered(0, 3),
    )
    return fn.Workload(
        domain,
        [
            fn.table("sex", cumulative="age", variance=3),
            fn.table("sex", sum="pay", variance=900),
            fn.table("sex", count="pay", variance=4),
            fn.table(sum=["weight", "pay"], variance=40_000),
            fn.table("age", sum="weight", variance=fn.ByAttribute("age", [90, 90, 50, 200])),
            fn.table("sex", mean="pay", variance=25, reference=30),
        ],
    )


def ceilings():
    """Return sums of two amounts up to several ceilings, counts, a mean and a product; some records have no pay."""
    domain = fn.Domain(
        sex=fn.Categorical(["f", "m"]),
        hours=fn.Amount(0, 4, step=2, ceilings=[2]),
        pay=fn.Amount(
            -20, 60, step=10, ceilings=[10, 20], missing={"none": ["N"]}, if_missing="none", if_outside="none"
        ),
        age=fn.Ordered(0, 1),
    )
    tops = {10: 900, 20: 2_000, 60: 9_000}
    return fn.Workload(
        domain,
        [
            fn.table("sex", variance=3),
            *(fn.table("sex", sum="pay", ceiling=t, variance=c) for t, c in tops.items()),
            fn.table("age", sum="hours", ceiling=2, variance=4),
            fn.table(sum=["hours", "pay"], variance=20_000),
            fn.table("sex", mean="pay", variance=60, reference=30),
        ],
    )


def by_class():
    """Return sums of amounts whose ranges depend on size, some of them missing.

    The tables are by size, by ranges of the amount, and by neither.
    """
    domain = fn.Domain(
        sex=fn.Categorical(["f", "m"]),
        sales=fn.Amount(0, fn.ByAttribute("size", {"s": 2, "m": 20, "l": 100, "none": 4}), step=1),
        hours=fn.Amount(1, 3),
        gain=fn.Amount(
            fn.ByAttribute("size", [-1, -4, -4, -1]),
            fn.ByAttribute("size", [2, 8, 8, 2]),
            step=0.5,
            missing={"no": ["N"]},
            if_missing="no",
        ),
        size=fn.Categorical(["s", "m", "l"], missing={"none": [""]}, if_missing="none"),
    )
    return fn.Workload(
        domain,
        [
            fn.table("size", margin=5),
            fn.table("size", sum="sales", std_error=fn.ByAttribute("size", [2, 20, 100, 4])),
            fn.table("sex", sum="sales", margin=300),
            fn.table(groups={"size": {"small": ["s", "none"], "all": ["s", "m", "l"]}}, sum="gain", margin=9),
            fn.table(sum=["hours", "gain"], margin=50),
            fn.table(count="gain", margin=9),
        ],
    )


def matrix(w, c=1.0):
    return lambda: fn.matrix_workload(w, variances=c)


WORKLOADS = {
    "marginals": lambda: fn.Workload(
        _three(), [fn.table("a", "b", margin=5), fn.table("b", "c", margin=3), fn.table("c", "a", margin=4)]
    ),
    "total": lambda: fn.Workload(_three(), [fn.table(margin=3)]),
    "one table": lambda: fn.Workload(_three(), [fn.table("c", "a", std_error=2)]),
    "binary": lambda: fn.Workload(
        fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1)), [fn.table("a", variance=1), fn.table("a", "b", variance=5)]
    ),
    "attribute of one value": lambda: fn.Workload(
        fn.Domain(a=fn.Categorical(["only"]), b=fn.Ordered(1, 3)),
        [fn.table("a", "b", margin=2), fn.table("a", margin=1)],
    ),
    "by value": lambda: fn.Workload(
        _three(),
        [
            fn.table("a", "b", margin=fn.ByAttribute("a", {"x": 2}, default=6)),
            fn.table("b", margin=1),
            fn.table("c", margin=9),
        ],
    ),
    "five structured cells": five_cells,
    "seven structured cells": seven_cells,
    "pivoted basis": lambda: fn.Workload(
        _reference((3, 2), 4),
        [
            fn.table("a", ranges={"o": [(0, 1), (1, 2)]}, variance=fn.ByAttribute("o", [2, 3])),
            fn.table("a", "b", ranges={"o": [(1, 3)]}, variance=4),
            fn.table("b", groups={"o": {"u": {"values": [0, 3]}, "v": {"values": [1, 3]}, "w": [2, 3]}}, variance=3),
        ],
    ),
    "crossed": crossed,
    "all ranges": all_ranges,
    "patterns": patterns,
    "uneven patterns": uneven_patterns,
    "patterns and structure": patterns_and_structure,
    "regular tree": regular_tree,
    "tree by numbers": tree_by_numbers,
    "coarse tree": coarse_tree,
    "uneven tree": uneven_tree,
    "tree and structure": tree_and_structure,
    "changes": changes,
    "amounts": amounts,
    "ceilings": ceilings,
    "ranges by class": by_class,
    "missing values": lambda: fn.Workload(
        _with_missing(),
        [
            fn.table("sex", cumulative="age", margin=4),
            fn.table(ranges={"age": [(0, 1), (1, 3)]}, missing=True, margin=3),
            fn.table("sex", groups={"age": {"young": [0, 1], "unknown or old": {"values": ["unknown", 3]}}}, margin=5),
            fn.table("age", margin=7),
            fn.table(margin=2),
        ],
    ),
    "missing values by value": lambda: fn.Workload(
        _with_missing(), [fn.table("age", "sex", margin=4), fn.table("age", margin=2), fn.table(margin=1)]
    ),
    "columns out of order": lambda: fn.Workload(
        fn.Domain(o=fn.Ordered(0, 2), a=fn.Ordered(0, 2), r=fn.Ordered(0, 3)),
        [
            fn.table("r", "a", "o", cumulative=["r"], margin=fn.ByAttribute("o", [1, 2, 3])),
            fn.table("a", ranges="r", margin=3),
        ],
    ),
    "prefix": matrix(lower(8)),
    "wide targets": matrix(lower(6), [1, 10, 100, 1000, 10_000, 100_000]),
    "identity and sum": matrix(np.vstack([np.eye(5, dtype=int), np.ones((1, 5), dtype=int)])),
    "random signs": matrix(SIGNS),
    "integers of low rank": matrix(LOW_RANK_INTEGERS),
    "reals of low rank": matrix(LOW_RANK_REALS),
    "reals of full rank": matrix(FULL_RANK_REALS, 2.0),
    "dyadic reals": matrix(np.array([[0.5, 0.25, 0], [0.5, 0.25, 1.0], [0, 0, 2.0]])),
    "zero and equal columns": matrix(np.array([[1, 0, 1, 0, 2], [1, 0, 1, 1, 0], [2, 0, 2, 1, 2]])),
    "duplicate queries": matrix(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]]), [1, 2, 3]),
    "one query": matrix(np.array([[3, 0, -1]])),
    "one cell": matrix(np.array([[1]])),
}

REQUESTS = {
    "fit-for-use": lambda: fn.Publication(WORKLOADS["crossed"]()),
    "fit-for-use-by-level": lambda: fn.Publication(many_places()),
    "fit-for-use-by-place": lambda: fn.Publication(many_places(has_targets=True)),
    "fit-for-use-by-axis": lambda: fn.Publication(many_cells()),
    "pure-fit-for-use": lambda: fn.Publication(WORKLOADS["marginals"](), privacy="pure"),
    "projection": lambda: fn.Publication(
        WORKLOADS["marginals"](), small_database=fn.SmallDatabase(40), budget=fn.Budget(epsilon=1.0, delta=1e-6)
    ),
}
"""A publication for each mechanism for tables, by the name of the mechanism."""
