"""The registered zoo: every operator, workload, kind of problem and design that the laws are checked on."""

import calendar
import csv
import datetime
import itertools
import json
import math
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fitnoise as fn
from designs import answer, cells_over, of_margins, of_products, of_sectors, of_trees, ranked, with_steps
from engines import ENGINES
from fitnoise.algebra import operators as op
from fitnoise.errors import ReleaseError
from fitnoise.kernel.codings import Range
from fitnoise.kernel.designs.questions import FiniteQuery
from fitnoise.kernel.domain import Attribute, attribute_document
from fitnoise.kernel.profiles import Profile
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms import finite
from fitnoise.mechanisms.gaussian.formulation import AllPairs, Formulation
from fitnoise.reading.verification import check_description
from fitnoise.request.documents import Spec
from fitnoise.solving import sectors
from fitnoise.solving.certificates import Evidence, ObjectiveTerms
from records import (
    DECIMAL,
    QUOTED,
    SECRET,
    TEXT,
    UGLY,
    Sample,
    Source,
    Stream,
    batch,
    cells,
    csv_file,
    csv_lake,
    csv_parts,
    database,
    dictionary,
    excel,
    histogram,
    names_of_folders,
    nullable,
    objects,
    pandas,
    parquet,
    parquet_like_columns,
    parquet_parts,
    polars,
    sliced,
    texts,
    typed,
)

RNG = np.random.default_rng(20)

OPERATORS = {
    "dense integers": op.Dense(RNG.integers(-3, 4, size=(4, 5))),
    "dense reals": op.Dense(RNG.normal(size=(3, 6))),
    "identity": op.Identity(5),
    "identity of one": op.Identity(1),
    "total": op.Total(4),
    "prefix": op.Prefix(6),
    "intervals": op.Intervals(5, ((0, 4), (2, 2), (1, 3), (1, 3))),
    "groups": op.Groups(6, ((0, 3), (1, 2, 5), (3,))),
    "averages": op.Averages(6, ((0, 2), (1, 3), (4, 4), (1, 3))),
    "differences": op.Differences(6, ((2, 0), (4, 2), (5, 4), (4, 2))),
    "kronecker": op.Kronecker((op.Prefix(3), op.Total(2), op.Identity(2))),
    "kronecker of one": op.Kronecker((op.Prefix(3),)),
    "stack": op.Stack((op.Identity(4), op.Total(4), op.Prefix(4))),
    "scaled": op.Scaled(op.Intervals(4, ((0, 1), (2, 3))), np.array([0.5, 3.0])),
    "transpose": op.Transpose(op.Prefix(4)),
    "nested": op.Kronecker((op.Stack((op.Total(3), op.Identity(3))), op.Scaled(op.Prefix(2), np.array([1.0, 2.0])))),
}


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
    """sectors_measured: optimum 2.130793; replace-one after rounding 4.73521."""
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


_DEFICIENT = RNG.integers(-2, 3, size=(6, 2)) @ RNG.integers(-2, 3, size=(2, 5))
_REAL = RNG.normal(size=(5, 3)) @ RNG.normal(size=(3, 7))

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
    "patterns beside structure": patterns_and_structure,
    "regular tree": regular_tree,
    "tree by numbers": tree_by_numbers,
    "coarse tree": coarse_tree,
    "uneven tree": uneven_tree,
    "tree beside structure": tree_and_structure,
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
    "random signs": matrix(RNG.choice([-1, 1], size=(9, 6))),
    "integers of low rank": matrix(_DEFICIENT),
    "reals of low rank": matrix(_REAL),
    "reals of full rank": matrix(RNG.normal(size=(7, 4)), 2.0),
    "dyadic reals": matrix(np.array([[0.5, 0.25, 0], [0.5, 0.25, 1.0], [0, 0, 2.0]])),
    "zero and equal columns": matrix(np.array([[1, 0, 1, 0, 2], [1, 0, 1, 1, 0], [2, 0, 2, 1, 2]])),
    "duplicate queries": matrix(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]]), [1, 2, 3]),
    "one query": matrix(np.array([[3, 0, -1]])),
    "one cell": matrix(np.array([[1]])),
}

OBJECTIVES = ("targets", "total error", "hybrid", "budgets", "pairs", "pairs or alone", "structure", "pairs, structure")
"""Kinds of problem: what is minimised, over which neighbours, with tables as matrices or by structure."""


def terms(d, kind):
    """Return the objective of a kind of problem; weights and budgets differ between numbers and between cells."""
    m = len(d.variances)
    if kind == "total error":
        return ObjectiveTerms(weights=1 + np.arange(m) % 5 / 2)
    if kind == "hybrid":
        return ObjectiveTerms(weights=(1 + np.arange(m) % 5 / 2) / d.variances, trade=0.3)
    if kind == "budgets":
        return ObjectiveTerms(relative=1 / (1 + np.arange(d.cells) % 3), factor=4)
    return ObjectiveTerms(allows_add_or_remove=kind == "pairs or alone")


@cache
def formulation(name, kind="targets"):
    """A workload of the zoo as a problem of one of the kinds; the same one for all that look at it."""
    with pytest.MonkeyPatch.context() as patch:
        if "structure" in kind:
            patch.setattr(sectors, "MAX_ROWS_PER_CELL", 0)
        d = sectors.decompose(WORKLOADS[name]())
    return Formulation(d, terms(d, kind), pairs=all_pairs(d, kind))


def all_pairs(d, kind):
    return AllPairs(d, allows_add_or_remove="alone" in kind) if "pairs" in kind else None


def evidence(form, kind, p, q):
    """Weights of a problem of one of the kinds, as evidence."""
    d = form.decomposition
    weights = q[:0] if kind == "total error" else form.unfold(q)
    return all_pairs(d, kind).evidence(p, weights) if "pairs" in kind else Evidence(p, weights)


# --- designs ------------------------------------------------------------------------------------------------------

_ADD, _REPLACE = fn.Neighbours

ADJACENCIES = {
    "add or remove": Adjacency(),
    "add or remove, dropped": Adjacency(drops=True),
    "add or remove 2": Adjacency(fn.PrivacyUnit("person", 2)),
    "add or remove 3": Adjacency(fn.PrivacyUnit("person", 3)),
    "replace": Adjacency(fn.PrivacyUnit("person", 1, _REPLACE)),
    "replace, dropped": Adjacency(fn.PrivacyUnit("person", 1, _REPLACE), drops=True),
    "replace 2": Adjacency(fn.PrivacyUnit("person", 2, _REPLACE)),
    "replace 3": Adjacency(fn.PrivacyUnit("person", 3, _REPLACE)),
    "add or remove 3, once per a0": Adjacency(fn.PrivacyUnit("person", 3, once_per=["a0"])),
    "add or remove 3, once per o": Adjacency(fn.PrivacyUnit("person", 3, once_per=["o"])),
    "add or remove 3, 2 for each a0": Adjacency(fn.PrivacyUnit("person", 3, per_value={"a0": 2})),
    "add or remove 2, apart in o, alike in a0": Adjacency(
        fn.PrivacyUnit("person", 2, separation={"o": 2}, fixed=["a0"])
    ),
    "replace 2, once per a0 and o": Adjacency(fn.PrivacyUnit("person", 2, _REPLACE, once_per=["a0", "o"])),
}

TABLES = {
    "sectors of exchangeable attributes": of_sectors(
        cells_over((3, 2)),
        ([[1]], {(): ([[3]], 5)}),
        ([[2]], {(0,): ([[1]], 4), (1,): ([[-7]], 8.5)}),
        ([[1]], {(0, 1): ([[2]], 3)}),
    ),
    "sectors of structured attributes": of_sectors(
        cells_over((), 2, 3),
        (
            [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [1, 2, 0, 0, 0, -1]],
            {(): ([[3, 0, 1, 0], [0, 2, 0, -1], [1, 1, 1, 1], [0, 0, 0, 5]], 6.25)},
        ),
    ),
    "sectors of both": of_sectors(
        cells_over((3, 2), 2),
        ([[1, 1], [1, -2]], {(): ([[1, 2], [0, 1]], 4.5)}),
        ([[1, 0], [0, 1]], {(0,): ([[1, 0], [0, 3]], 7), (1,): ([[2, 1], [1, 1]], 3)}),
        ([[1, -1]], {(0, 1): ([[2]], 2)}),
    ),
    "sectors beside an attribute of one value": of_sectors(
        cells_over((1, 3), 2), ([[1, 0], [0, 1]], {(): ([[1, 1], [0, 2]], 4)}), ([[1, 2]], {(1,): ([[3]], 2)})
    ),
    "sectors of cells alike, and of none": of_sectors(cells_over((), 5), ([[1, 1, 0, 2, 2]], {(): ([[3]], 2)})),
    "the total": of_sectors(cells_over((2,), 2), ([[2, 2]], {(): ([[5]], 4)})),
    "sectors of integers beyond 64 bits": of_sectors(
        cells_over((3,), 2),
        ([[1, 0], [1, 1]], {(): ([[2**70, 1], [3, 2**66]], 2.0**55)}),
        ([[1, 1]], {(0,): ([[2**62]], 1024)}),
    ),
    "sectors of integers whose product is small": of_sectors(
        cells_over((), 2), ([[1, 1], [1, 1]], {(): ([[2**70, 1 - 2**70], [1, 0]], 2)})
    ),
    "sectors of integers below 62 bits": of_sectors(
        cells_over((4,), 2), ([[1, 0], [2**31, 1]], {(0,): ([[2**61, 7], [3, -(2**60)]], 0.75)})
    ),
    "margins of both": of_margins(
        cells_over((3, 2), 2), 8.0, ((), [[1, 2], [0, -3]]), ((0,), [[4, 0]]), ((0, 1), [[0, 5]])
    ),
    "margins of structured attributes": of_margins(
        cells_over((), 2, 3),
        6.25,
        ((), [[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [1, 0, 2, 1, 0, 2], [0, 0, 0, 0, 0, -7]]),
    ),
    "margins of exchangeable attributes": of_margins(cells_over((2, 3)), 0.75, ((0,), [[2]]), ((1,), [[-3], [1]])),
    "margins of an attribute of one value": of_margins(
        cells_over((1, 2), 2), 4.0, ((0,), [[1, 3]]), ((0, 1), [[2, 1]])
    ),
    "a margin that replacing does not move": of_margins(cells_over((), 2), 8.0, ((), [[2, 2]])),
    "margins of large integers": of_margins(
        cells_over((3,), 2), 2.0**44, ((), [[2**40 - 1, 1 - 2**40]]), ((0,), [[2**39, 3]])
    ),
    "margins of an amount": of_margins(
        with_steps(cells_over((2,), 3), o=(3,)),
        4.0,
        ((), [[2, -1, 5], [1, 4, 0]]),
        ((0,), [[0, 6, 1], [3, 0, 1], [-3, 3, 0]]),
    ),
    "margins of an amount with ceilings": of_margins(
        with_steps(cells_over((2,), 4), o=(2, 1)), 6.25, ((), [[1, 3, 0, 5], [2, 0, 1, 0]]), ((0,), [[-2, 2, 3, 0]])
    ),
    "margins of amounts beside others": of_margins(
        with_steps(cells_over((), 2, 2, 2), o1=(2,), o2=(3,)),
        8.0,
        ((), [[1, 4, 3, 12, 0, 3, 2, 5], [0, 6, 0, 6, 1, 1, 1, 1], [6, 0, 0, 0, 0, 0, 0, 0], [2, 2, 0, 0, 2, 2, 4, 4]]),
    ),
    "sparse margins": of_margins(
        cells_over((), 12), 4.0, ((), np.diag(np.arange(1, 13)) + 5 * np.eye(12, k=1, dtype=int))
    ),
    "dense margins": of_margins(cells_over((), 8), 4.0, ((), RNG.integers(1, 9, size=(6, 8)))),
}

PRODUCTS = {
    "products of factors": of_products(
        cells_over((3, 2, 2)),
        ([[1, 2, -1], [0, 3, 1]], [[2, -1]], None),
        {(): (3, 5)},
        {(0,): (1, 4), (2,): (5, 8.5)},
        {(0, 1): (2, 3), (1, 2): (1, 16)},
    ),
    "products of centrings": of_products(cells_over((4, 2)), (None, None), {(): (1, 4)}, {(0, 1): (7, 6.25)}),
    "a product with one value, and with all": of_products(
        cells_over((1, 3)), (None, [[1, 0, 0], [1, 1, 0], [1, 1, 1]]), {(1,): (1, 2)}
    ),
    "products beyond 64 bits": of_products(
        cells_over((2, 2)), ([[2**61, 1]], [[2**40, 7]]), {(): (1, 2.0**55)}, {(0, 1): (2**50, 1024)}
    ),
    "products of rows with scales of their own": of_products(
        cells_over((3, 2, 3)),
        ([[1, 2, -1], [0, 3, 1]], [[2, -1], [1, 1]], None),
        {(): (3, 5)},
        {(0,): (1, [4, 7.5]), (2,): (5, 8.5)},
        {(0, 1): (2, [3, 4, 5.25, 6]), (1, 2): (1, [16, 9])},
    ),
    "rows with scales of their own beyond 64 bits": of_products(
        cells_over((2, 2)),
        ([[2**61, 1], [1, 2**40]], [[2**40, 7]]),
        {(): (1, 2.0**55)},
        {(0, 1): (2**50, [1024, 2.0**54])},
    ),
    "products whose squares pass 64 bits": of_products(
        cells_over((2, 2)), ([[2**33, 3]], None), {(0,): (1, 1)}, {(0, 1): (1, 2)}
    ),
}
"""Designs of products: what they lose is proven for records that come or go, and bounded for those replaced."""

SCALES = [[3, 4, 5, 8], [9, 5, 4, 3], [4, 7, 3, 6], [5, 3, 8, 4], [8, 4, 3, 5], [3, 6, 4, 7]]
DISAGREEING = of_products(
    cells_over((3,) * 4),
    [[[1, 2, 4], [4, 3, 1]]] * 4,
    {(): (3, 5)},
    {(0,): (1, [5, 7])},
    {t: (2, scales) for t, scales in zip(itertools.combinations(range(4), 2), SCALES, strict=True)},
)
"""Pairs of four attributes with different costliest cells."""

CHAINED = of_products(
    cells_over((3,) * 3),
    [[[1, 2, 4], [4, 3, 1]]] * 3,
    {(0,): (1, [0.7, 2.1])},
    {(0, 1): (2, [3.3, 4.7, 5.1, 0.9])},
    {(0, 1, 2): (1, [1.1, 1.3, 1.7, 1.9, 2.3, 2.9, 3.1, 3.7])},
)
"""Sets of which each holds the one before, in numbers of many bits."""

TREES = {
    "a tree beside an attribute": of_trees(
        cells_over((3, 2, 4)),
        (1, 2),
        ([0, 0], [0, 0, 0, 1]),
        ([0, 1], [0, 0, 1, 2]),
        ((), 1, ([1, 2], [3, 1, 2]), {0: [2.0], 2: [1.0, 2.5, 3.0]}),
        ((0,), 2, ([5, 1], [1, 1, 1]), {1: [2.0, 4.0], 2: [8.0, 8.0, 9.0]}),
    ),
    "a tree of its top": of_trees(
        cells_over((3, 2)), (1,), ([0, 0],), ([0, 0],), ((), 1, (), {0: [3]}), ((0,), 3, (), {0: [7]})
    ),
    "a tree beyond 64 bits": of_trees(
        cells_over((2, 3)),
        (0, 1),
        ([0, 0], [0, 1, 1]),
        ([0, 1], [0, 1, 1]),
        ((), 2**40, ([2**30, 1], [2**61, 3]), {0: [2.0**55], 2: [1.0, 4.0]}),
    ),
    "a tree whose squares pass 64 bits": of_trees(
        cells_over((2,)), (0,), ([0, 0],), ([0, 1],), ((), 1, ([2**33, 3],), {0: [1.0], 1: [2.0, 5.0]})
    ),
}
"""Designs of nested places: what they lose is proven for records that come or go, and bounded for those replaced."""

_PEOPLE = fn.Domain(o=fn.Ordered(-1, 1), a=fn.Categorical(["x", "y"]))
_WORKERS = fn.Domain(a=fn.Categorical(["x", "y"]), o=fn.Ordered(2, 4))
_ASK = {"people": 3, "epsilon": 6}

QUESTIONS = {
    "count": (_PEOPLE, FiniteQuery.count("q", where={"a": "x"}, **_ASK)),
    "all": (_PEOPLE, FiniteQuery.count("q", **_ASK)),
    "independent counts": (_PEOPLE, FiniteQuery.counts("q", where=[{"a": "x"}, {"o": [0, 1]}], **_ASK)),
    "disjoint counts": (_PEOPLE, FiniteQuery.counts("q", where=[{"o": -1}, {"o": 1}], **_ASK)),
    "counts of everyone": (_PEOPLE, FiniteQuery.counts("q", where=[{"a": "x"}, {"a": "y"}], **_ASK)),
    "sum": (_PEOPLE, FiniteQuery.sum("q", "o", **_ASK)),
    "sum of some": (_WORKERS, FiniteQuery.sum("q", "o", where={"a": "x"}, **_ASK)),
    "sum above 0": (_WORKERS, FiniteQuery.sum("q", "o", **_ASK)),
    "median": (_PEOPLE, FiniteQuery.median("q", "o", **_ASK)),
    "median of some": (_WORKERS, FiniteQuery.median("q", "o", where={"a": ["y"]}, **_ASK)),
    "quantile": (_PEOPLE, FiniteQuery.quantile("q", "o", quantile=Fraction(2, 3), **_ASK)),
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

_BOXES = ("count", "all", "independent counts", "sum", "sum of some", "sum above 0")


def _best(make):
    """Return a function that gives the best mechanism on average if all results are equally likely."""
    return lambda graph, epsilon: make(graph, epsilon, finite.uniform(graph)).mechanism


FORMS = {  # what answers a question, and which of them
    "tight constraints": (finite.tight_constraints, QUESTIONS),
    "geometric noise": (finite.geometric, QUESTIONS),
    "residual column": (_best(finite.residual_column), ("sum", "disjoint counts")),
    "staircase noise": (finite.staircase, ("sum above 0",)),
    "randomised response": (finite.randomised_response, ("count", "median of some")),
    "distance kernel": (finite.distance_kernel, ("independent counts",)),
    "linear program": (_best(finite.optimal), ("sum of some", "median")),
    "tight constraints without a table": (finite.lazy_tight_constraints, _BOXES),
    "clamped noise": (finite.clamped_staircase, _BOXES),
}

DESIGNS = {name: lambda _, design=design: design for name, design in TABLES.items()} | {
    f"{q} by {form}": answer(*QUESTIONS[q], make) for form, (make, questions) in FORMS.items() for q in questions
}
DESIGNS |= {f"{q} by ranks": ranked(*QUESTIONS[q]) for q in ("median", "median of some", "quantile")}
"""Each by what neighbours are, of which the ε of an answer depends."""


# --- what is counted, and from where ----------------------------------------------------------------------


@dataclass(frozen=True)
class Months(Attribute):
    """A kind of attribute that no engine has heard of: it is coded like whole numbers."""

    kind = "months"
    column = None
    ordered = True
    coding = Range(1, 12)
    own_values = tuple(calendar.month_name)[1:]

    def declared(self):
        return {}

    def own_position(self, value):
        return self.own_values.index(value)


NAN, NEVER = math.nan, (None, math.nan, math.inf, -math.inf)
NO_NUMBER = [
    *NEVER, "", " ", "one", "true", "nan", "inf", "-Infinity", "1 0", "1,5", "0x1", "1e", "--1", "1_", "_1", "1__0",
    "1_0", "1_000", "-0_3", "1e1_0", "1._0", "+-1", "+-3", "-+1", "1e+-3", "1\u0662",
    "\xa01", "\u0661", "1e400", "1" * 400, True, b"1", [1], np.array([1]), object(), 1j, datetime.date(2020, 1, 1),
    np.datetime64("2020"), pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), 10**400, 10**5000,
    Fraction(10**400),
]  # fmt: skip
LONG = [f"code {i}" for i in range(100)]

ATTRIBUTES = {
    "texts": Sample(
        fn.Categorical(["f", "m", QUOTED], column=UGLY),
        "string",
        [["f"], ["m"], [QUOTED]],
        [None, "F", " f", "f ", "", SECRET, b"f", "\udc80", ["f"], object(), pd.NA],
    ),
    "texts that look like others": Sample(
        fn.Categorical(["1", "a", "A", " a", "\u00e9", "e\u0301", "NULL", "nan", "true", "1.5", "2020-01-01"]),
        "string",
        [["1", 1, np.int8(1), Decimal(1)], ["a"], ["A"], [" a"], ["\u00e9"], ["e\u0301"], ["NULL"], ["nan"],
         ["true", True, np.True_], ["1.5", 1.5, Decimal("1.5"), Fraction(3, 2), np.float32(1.5)], ["2020-01-01"]],
        [None, "01", "1.0", 1.0, "null", "NaN", NAN, Decimal("NaN"), False, datetime.date(2020, 1, 1), b"a", ["a"]],
    ),
    "empty text": Sample(fn.Categorical(["a", ""]), "string", [["a"], [""]], [None, " ", "A"]),
    "many texts": Sample(fn.Categorical(LONG), "string", [[c] for c in LONG], [None, "", "code 100", "Code 1"]),
    "texts of whole numbers": Sample(
        fn.Categorical(["1", "-3", "01", "9007199254740993"]),
        "int64",
        [["1", 1], ["-3", -3, np.int64(-3)], ["01"], [2**53 + 1, "9007199254740993"]],
        [None, 0, 3, 2**53, 2**53 + 2, "+1", " 1", 1.0, -3.0, True],
    ),
    "whole numbers": Sample(
        fn.Categorical({17: "west", 1: "north", -3: "south", 0: "sea"}),
        "int16",
        [[17, 17.0, "17"], [1, 1.0, "1", "01", "1.0", " 1 ", "\t1\v", "1e0", "+1", Decimal("1.00"),
          np.int8(1), np.float32(1), "0.1e1", "10E-1"],
         [-3, "-3.", "-3.00"], [0, 0.0, -0.0, "-0", ".0", "1e-400"]],
        [*NO_NUMBER, 2, 3, -17, 1.5, "1.5", "1.0000001", "west"],
    ),
    "whole numbers among fractions": Sample(
        fn.Categorical([20, 0, -1]), "double", [[20.0], [0.0, -0.0], [-1.0]], [*NEVER, 19.999, 20.5, 1e300]
    ),
    "many whole numbers": Sample(
        fn.Categorical(range(-50, 50)), "int64", [[c, str(c)] for c in range(-50, 50)], [None, 50, -51, 2**62, "a", 0.5]
    ),
    "truth": Sample(
        fn.Categorical([True, False], column="OWNER"),
        "bool",
        [[True, np.True_, "true", "TRUE", "t", "Yes", "y", "1", " true\t", 1],
         [False, np.False_, "f", "False", "no", "N", "0", 0]],
        [None, "", "on", "2", "1.0", 1.0, "null", "wahr", "\xa0true", "truefalse", NAN, b"true", pd.NA, -1],
    ),
    "only yes": Sample(fn.Categorical({True: "yes"}), "bool", [[True, "yes", "1"]], [None, False, "0", "oui"]),
    "range": Sample(
        fn.Ordered(-1, 3),
        "int64",
        [[-1, "-1", -1.0], [0, -0.0, "-0", "0e9"], [1, "01"], [2, Decimal("2.0")], [3, "3.", np.float32(3)]],
        [*NO_NUMBER, -2, 4, 2**53 + 1, -(2**62), 0.5, "0.5"],
    ),
    "clipped": Sample(
        fn.Ordered(0, 5, clip=True),
        "double",
        [[0.0, -4.0, -1e300, "-7", -(2**62)], [1.0], [2.0], [3.0], [4.0],
         [5.0, 6.0, 2.0**53 + 2, 1e300, "99", 10**300]],
        [*NO_NUMBER, 3.5, -0.5, 5.0000001, "5.5"],
    ),
    "edge of exact numbers": Sample(
        fn.Ordered(2**53 - 2, 2**53 - 1),
        "int64",
        [[2**53 - 2], [2**53 - 1]],
        [None, 2**53, 2**53 - 3, 2**53 + 1, 2**63 - 1],
    ),
    "other edge, clipped": Sample(
        fn.Ordered(-(2**53) + 1, -(2**53) + 2, clip=True),
        "int64",
        [[-(2**53) + 1, -(2**53), -(2**63)], [-(2**53) + 2, 0, 2**63 - 1]],
        [None, "0.5"],
    ),
    "unsigned": Sample(
        fn.Binned([2**63, 1.8e19]), "uint64", [[0, 2**63 - 513], [2**63, 2**63 - 512], [2**64 - 1]], [None]
    ),
    "decimals": Sample(
        fn.Ordered(-1, 2),
        DECIMAL,
        [[Decimal("-1.000"), Decimal("-1")], [Decimal("0.000")], [Decimal(1)], [Decimal("2.000")]],
        [None, Decimal("-1.500"), Decimal("2.001"), Decimal("1e30")],
    ),
    "bins": Sample(
        fn.Binned([-10.5, 0, 2.5, 1000]),
        "double",
        [[-1e9, -10.500001, "-1e300"], [-10.5, -10.4, "-10.5", -5e-324], [-0.0, 0.0, 2.4999, "-1e-400"],
         [2.5, 999.9, Decimal("2.50"), "0.25E1", Fraction(5, 2)], [1000.0, 1e300, 1000, 2**70]],
        NO_NUMBER,
    ),
    "bins of single precision": Sample(  # which has no 0.1, but a number a little above
        fn.Binned([0.1, 0.25, 16777217]),
        "float",
        [[0.0, 0.09], [float(np.float32(0.1)), np.float32(0.1)], [0.25, 16777216.0], [16777217.0, 16777218.0]],
        NEVER,
    ),
    "bins at the ends of numbers": Sample(
        fn.Binned([-1.7976931348623157e308, -5e-324, 0.0, 0.1, 1.7976931348623157e308]),
        "double",
        [[], [-1.7976931348623157e308, -1e-323], [-5e-324], [0.0, -0.0, 5e-324, 0.09999999999999999], [0.1, 1e308],
         [1.7976931348623157e308]],
        NEVER,
    ),
    "places": Sample(
        UNEVEN,
        "string",
        [["x1"], ["y1"], ["y2"], ["z1"], ["z2"], ["z3"]],
        [None, "", "x", "z", "X1", "x1 ", 1, b"x1"],
    ),
    "a level of places": Sample(
        fn.Domain(geo=UNEVEN)["state"], "string", [["x1"], ["y1", "y2"], ["z1", "z2", "z3"]], [None, "x", "z", "X1", 1]
    ),
    "places by numbers": Sample(
        fn.Hierarchy.regular(row=2, square=10),
        "string",
        [[f"{i}{j:02}"] for i in (1, 2) for j in range(1, 11)],
        [None, "", "1", "100", "111", "1001", " 101", 1.01, b"101"],
    ),
    "a level of places by numbers": Sample(
        fn.Domain(geo=fn.Hierarchy.regular(u=2, v=2))["u"],
        "string",
        [["11", 11, "12"], ["21", "22"]],
        [None, "1", "2", "13", "011", "11.0"],
    ),
    "a level of numbered places": Sample(
        fn.Domain(geo=fn.Hierarchy(["a", "b", "c"], [(True, 1, 30), (True, 2, 10), (False, 0, 20)]))["b"],
        "int64",
        [[30, 30.0, "30"], [10, "010"], [20]],
        [*NO_NUMBER, 1, 2, 0],
    ),
    "texts, looked up": Sample(
        fn.Categorical(
            {"w": "west", "e": "east"}, column="postcode", lookup={"2000": "w", "1000": "e", "01000": "w", QUOTED: "e"}
        ),
        "string",
        [["2000", 2000, "01000"], ["1000", 1000, QUOTED]],
        [None, "", "w", "e", "west", " 1000", "02000", 1000.0, SECRET],
    ),
    "numbers looked up, missing ones in cells": Sample(
        fn.Categorical(
            [True, False], lookup=[(1, True), (2, True), (3, False)], missing={"gone": [-9], "else": []},
            if_missing="gone", if_outside="else",
        ),
        "double",
        [[1.0, 2.0, "02"], [3.0], [-9.0, None, NAN, ""], [0.0, 4.0, 1.5, math.inf, "true", SECRET]],
        [],
    ),
    "one value": Sample(fn.Ordered(4, 4, clip=True), "int16", [[1, 4, 9]], [None, 4.5, "four"]),
    "range, missing ones in cells": Sample(
        fn.Ordered(0, 3, clip=True, missing={"not applicable": ["N"], "unknown": ["", -9]}, if_missing="unknown"),
        "double",
        [[0.0, -4.0, -8.0, "-7", -1e300], [1.0], [2.0, "2"], [3.0, 99.0, 1e300, "07"], ["N"],
         [-9.0, "-9", "-9.0", " -9 ", None, NAN, "", " ", "\t", ["N"], object(), pd.NA, b"N"]],
        [math.inf, -math.inf, "n", " N", "N ", 0.5, "0.5", -9.5, "one", "nan", "NULL", True, SECRET],
    ),
    "range, all in cells": Sample(
        fn.Ordered(-1, 3, missing={"gone": [], "else": [99]}, if_missing="gone", if_outside="else"),
        "int64",
        [[-1], [0], [1], [2], [3, "3.0"], [None, "", NAN], [99, 4, -2, 2**62, "x", "0.5", "1e400", math.inf]],
        [],
    ),
    "range, absent ones dropped": Sample(
        fn.Ordered(0, 2, if_missing="drop", if_outside="refuse"), "int16", [[0], [1], [2]], [None, "", NAN, 3, -1, "x"]
    ),
    "range, others dropped": Sample(
        fn.Ordered(0, 2, if_missing="refuse", if_outside="drop"), "float", [[0.0], [1.0], [2.0]],
        [None, "", NAN, 3.0, 0.5]
    ),
    "texts, missing ones in cells": Sample(
        fn.Categorical(
            ["f", "m"], missing={"neither": ["N", ""], "gone": [], "else": ["n"]}, if_missing="gone", if_outside="else"
        ),
        "string",
        [["f"], ["m"], ["N", ""], [None, NAN, pd.NA], ["n", "F", " f", " ", QUOTED, SECRET, True, 1.5]],
        [],
    ),
    "texts, others dropped": Sample(
        fn.Categorical(["f", " "], missing={"none": []}, if_missing="none", if_outside="drop"),
        "string",
        [["f"], [" "], [None, ""]],
        ["F", "  ", "\t", SECRET, 1],
    ),
    "texts of whole numbers, missing ones in a cell": Sample(
        fn.Categorical(["1", "-3"], missing={"none": ["-9", "x"], "gone": []}, if_missing="gone"),
        "int64",
        [["1", 1], ["-3", -3], ["-9", -9, "x"], [None, ""]],
        [0, 3, 9, "01", 1.0, -9.0, "-9.0", 2**62],
    ),
    "whole numbers, missing ones in cells": Sample(
        fn.Categorical({1: "yes", 0: "no"}, missing={"none": [9, -9, "N"], "else": []}, if_missing="none",
            if_outside="else"),
        "int16",
        [[1, "1.0"], [0, "-0"], [9, -9, "9.0", "N", None, "", NAN], [2, 8, "n", math.inf, 0.5]],
        [],
    ),
    "whole numbers among fractions, missing ones in a cell": Sample(
        fn.Categorical([20, 0], missing={"none": [-9]}, if_missing="none", if_outside="refuse"),
        "double",
        [[20.0], [0.0, -0.0], [-9.0, None, NAN]],
        [math.inf, -math.inf, 19.999, 1e300, sys.float_info.max],
    ),
    "truth, missing ones in a cell": Sample(
        fn.Categorical([True, False], missing={"none": ["9", "?"]}, if_missing="none", if_outside="drop"),
        "bool",
        [[True, "t"], [False, "0"], [None, "9", "?", "", " "]],
        ["?!", "2", " 9", -1],
    ),
    "bins, missing ones in a cell": Sample(
        fn.Binned([0, 10], missing={"none": [-9, "N"]}, if_missing="drop", if_outside="none"),
        "double",
        [[-1.0, -9.5, -8.0], [0.0, 9.5], [10.0, "1e3"], [-9.0, "-9", "N", math.inf, -math.inf, "n"]],
        [None, NAN, "", " "],
    ),
    "decimals, missing ones in a cell": Sample(
        fn.Ordered(-1, 2, missing={"none": [-9]}, if_missing="none"),
        DECIMAL,
        [[Decimal("-1.000")], [Decimal(0)], [Decimal(1)], [Decimal("2.000")],
         [Decimal("-9.000"), Decimal("NaN"), None]],
        [Decimal("0.500"), Decimal(3), Decimal("Infinity")],
    ),
    "a kind of the tests": Sample(Months(), "int16", [[m, str(m)] for m in range(1, 13)], [None, 0, 13, "May", 1.5]),
}  # fmt: skip
"""Every kind of attribute, with values of the data in each of its cells, and outside."""

COUNTERS = {
    "csv": csv_file("people.csv"),
    "csv, all quoted, returns": csv_file("people.CSV", quoting=csv.QUOTE_ALL, end="\r\n"),
    "csv, semicolons": csv_file('it\'s "ü"; 100%*.csv', delimiter=";"),
    "csv.gz in folders like columns": csv_file("1/2/people.csv.gz"),
    "tsv": csv_file("people.tsv", delimiter="\t"),
    "txt": csv_file("people.v2.txt", delimiter="|", quoting=csv.QUOTE_NONNUMERIC),
    "csv pattern": Source(csv_parts, texts),
    "csv lake": Source(csv_lake, names_of_folders),
    "parquet": Source(parquet, typed),
    "parquet pattern": Source(parquet_parts, typed),
    "parquet in folders like columns": Source(parquet_like_columns, typed),
    "duckdb": database("people"),
    "duckdb, ugly table": database('select "1"; -- .x'),
    "duckdb, schema": database("people", "census of 2014"),
    "duckdb, dots": database("people.v2", "a.b"),
    "excel": Source(excel, cells),
    "arrow table": Source(lambda records, _: records.arrow(), typed),
    "arrow table by ones": Source(lambda records, _: sliced(records.arrow(), 1), typed),
    "arrow batch": Source(batch, typed),
    "arrow dictionary": Source(dictionary, typed),
    "arrow stream": Source(lambda records, _: Stream(records.arrow()), typed),
    "arrow stream by sevens": Source(lambda records, _: Stream(sliced(records.arrow(), 7)), typed),
    "polars": polars(),
    "polars categorical": polars(lambda _: pl.Categorical),
    "polars enum": polars(pl.Enum),
    "pandas": pandas(),
    "pandas nullable": pandas(nullable),
    "pandas str": pandas(lambda kind: TEXT if kind == pa.string() else None),
    "pandas arrow": pandas(pd.ArrowDtype),
    "pandas category": pandas(lambda _: "category"),
    "pandas objects": pandas(lambda _: object, objects),
    "histogram": histogram(),
    "histogram in a row": histogram(np.ravel),
    "histogram of bytes": histogram(lambda counts: counts.astype(np.uint8)),
    "histogram of other ends": histogram(lambda counts: counts.astype(">i4")),
    **ENGINES,
}
"""Every kind of source that can be counted."""


# --- documents ----------------------------------------------------------------------------------------------------

STORED = Path(__file__).parent / "data" / "stored"


@dataclass(frozen=True)
class Document:
    """A kind of document: one of them, how it is read and written, and as `check_document`."""

    build: Callable[[], Any]
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    covered: Collection[tuple[str, ...]] = ()
    is_sole: bool = False


def _json(path):
    return lambda: json.loads(path.read_text(encoding="utf-8"))


def _plan(build):
    """Return a plan as a document. `verify` computes its bound again; reading the plan does not."""
    return Document(
        build,
        lambda d: fn.Plan.from_json(json.dumps(d)),
        lambda p: json.loads(p.to_json()),
        {("tables", "*", "cost", "bound")},
    )


_SAME_MEANING = (
    ("tables", "*", "name"),
    ("tables", "*", "pattern_attributes"),
    ("tables", "*", "attributes"),
    ("budget", "epsilon"),
)


def _spec(plan, covered=()):
    """A table is named and its attributes are listed where they follow, or not; an exact ε is a text.

    covered: leaves of this specification that follow from others, too.
    """
    return Document(
        lambda: plan()["spec"],
        lambda d: Spec.parse(d).publication(),
        lambda p: Spec.from_publication(p).document(),
        {(*prefix, *leaf) for prefix in ((), ("further_tables", "*")) for leaf in _SAME_MEANING} | {*covered},
    )


def _described(folder):
    """Return release.json as a document. Its folder implies all of it except the versions and the ledger entry."""

    text = (folder / "plan.json").read_text(encoding="utf-8")
    plan = fn.Plan.from_json(text)
    names = [name for part in plan.groups for name in part.publication.workload.tables.names]

    def verified(document):
        if wrong := check_description(plan, text, json.dumps(document, indent=1) + "\n", names):
            raise ReleaseError(
                "altered", f"The description was altered: {wrong}.", "", "Bring it back.", "Nothing was read."
            )
        return document

    covered = {("versions", package) for package in ("fitnoise", "numpy", "duckdb")}
    covered |= {("ledger",), ("ledger", "sequence"), ("ledger", "digest")}
    return Document(_json(folder / "release.json"), verified, lambda d: d, covered, is_sole=True)


def _attribute(attribute):
    def read(document):
        columns = {"attributes": ["a"]} if not attribute.steps else {"sum": "a"}
        spec = {"domain": {"a": document}, "tables": [{**columns, "margin": 5.0}]}
        return Spec.parse(spec).publication().domain["a"]

    return Document(lambda: attribute_document(attribute), read, attribute_document)


def _several_parts():
    """Tables of every mechanism, and a question."""
    domain = fn.Domain(a=fn.Categorical(["x", "y", "z"]), b=fn.Ordered(0, 5))

    def publish(*tables, **options):
        return fn.Publication(fn.Workload(domain, list(tables)), **options)

    pure = publish(fn.table("b", margin=9), privacy="pure")
    budget = fn.Budget(epsilon=1.0, delta=1e-6)
    small = publish(fn.table("a", margin=9, name="few"), small_database=fn.SmallDatabase(50), budget=budget)
    median = FiniteQuery.median("median", "b", people=9, epsilon=Fraction(1, 2))
    publication = publish(fn.table("a", "b", margin=15), further_tables=(pure, small), questions=(median,))
    return json.loads(fn.plan(publication).to_json())


def _pure_amounts():
    """Return counts, sums and a mean with Laplace noise; the values between knots are integers."""
    pay = fn.Amount(-2, 10, step=0.5, ceilings=[4], missing={"none": ["N"]}, if_missing="none")
    tables = [
        fn.table("sex", margin=9),
        fn.table("sex", sum="pay", ceiling=4, margin=40),
        fn.table(mean="pay", margin=2, reference=30),
    ]
    workload = fn.Workload(fn.Domain(sex=fn.Categorical(["f", "m"]), pay=pay), tables)
    return json.loads(fn.plan(workload, privacy="pure").to_json())


_ALTERED = (
    "many_scales", "projection_finite", "pure_replace_two", "free", "wide_integers", "gaussian", "hybrid",
    "large_finite", "women", "drop", "pure_finite", "matrix_of_reals", "prefixes", "budget_mu", "gaussian_finite",
)  # fmt: skip
"""Samples that together have leaves of every kind."""

_FOLLOWS = {"many_months": (("tables", "*", "attributes", "*"),)}
"""Leaves that follow from others in one sample: its only attribute has a prefix, which names it again."""

DOCUMENTS = {
    **{f"plan, {name}": _plan(_json(STORED / "plans" / f"{name}.json")) for name in _ALTERED},
    **{
        f"specification, {p.stem}": _spec(_json(p), _FOLLOWS.get(p.stem, ()))
        for p in sorted((STORED / "plans").iterdir())
    },
    "plan, several parts": _plan(_several_parts),
    "specification, several parts": _spec(_several_parts),
    "plan, pure amounts": _plan(_pure_amounts),
    **{f"description, {name}": _described(STORED / "releases" / name) for name in ("women", "pure_finite")},
    "categorical attribute": _attribute(fn.Categorical({"x": "X", "y": "Y"}, column="z")),
    "attribute of true and false": _attribute(fn.Categorical({True: "yes", False: "no"}, column="z")),
    "ordered attribute": _attribute(fn.Ordered(-1, 5, clip=True, column="z")),
    "binned attribute": _attribute(fn.Binned([0.5, 2, 10.0], column="z")),
    "attribute with missing values": _attribute(
        fn.Ordered(
            -1, 5, clip=True, missing={"none": [9, "N"], "else": []}, if_missing="none", if_outside="else", column="z"
        )
    ),
    "attribute whose values are dropped": _attribute(
        fn.Binned([0.5], column="z", if_missing="drop", if_outside="refuse")
    ),
    "amount": _attribute(
        fn.Amount(-1, 5.5, step=0.5, column="z", valid=(-10, 99), missing={"none": [9, "N"]}, if_missing="none")
    ),
    "hierarchy": _attribute(UNEVEN),
    "hierarchy by numbers": _attribute(fn.Hierarchy.regular(state=2, county=3, column="fips")),
    "profile": Document(
        lambda: Profile.from_rho([("k" * 64, 2)], [Fraction(1, 3), Fraction(2)]).document(),
        Profile.parse,
        Profile.document,
    ),
}
