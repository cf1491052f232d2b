"""Tables 2–11 and Figures 1–3 of the fit-for-use paper, with the results of fitnoise.

Run: python benchmarks/reproduce_fit_for_use.py -o FOLDER

Writes each table as Markdown and CSV, each figure as Markdown, CSV and, with Matplotlib, PNG into FOLDER, and prints
the Markdown. Without -o it only prints. --only 4 10 F2 makes some; --largest 1024 --seconds-per-solve 600 is the
complete range of the paper, and takes hours, nearly all of them SM-II's.

The paper gives every mechanism the privacy cost of SM-II and prints the ratio of its worst variance to its target. It
is the mechanism's Δ² over SM-II's (Theorem 5). Here each Δ² is over that of a certified plan of fitnoise, in the
column `ours`. Its distance from the bound is stated as the gap. SM-II runs with the settings of its authors' program,
in the basis the paper names, with the Hessian as printed and with the correct one. --soft-max-seeds 0 leaves it out.
Random workloads are drawn from seeds 0, 1, …: the median, and the least and greatest in brackets. A solve that hits the
time limit is marked "over S s". SM-II is then shown as far as it had come, and others are not shown. Plans of fitnoise
have no limit.

Source: Xiao, Ding, Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear queries, PVLDB
14(10), 2021, section 7. What differs, and why: docs/mathematics/fit_for_use.md.
"""

import argparse
import contextlib
import csv
import importlib.util
import math
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from baselines import gradient_descent, interior_point

import fitnoise as fn
from fitnoise.errors import GapNotReached
from fitnoise.interfaces import plots
from fitnoise.kernel import privacy
from fitnoise.request.publication import Goal, Objective
from fitnoise_lab import baselines, gallery, soft_max
from fitnoise_lab.soft_max import AlgorithmVariant, Hessian, SoftMaxStatus
from fitnoise_lab.strategies import branching_factor

# --- what the paper prints ---------------------------------------------------------------------------------------

RATIOS = ("IP", "HM", "CA", "wCA-I", "wCA-II", "SM-II")
SIZES = (64, 128, 256, 512, 1024)


def _rows(keys, *rows):
    return {key: dict(zip(RATIOS, row, strict=True)) for key, row in zip(keys, rows, strict=True)}


PRINTED = {
    2: {
        d: {"interior point": v, "SM-II": v}
        for d, v in zip((2, 4, 8, 16, 64), (1.33, 1.76, 2.28, 2.91, 4.46), strict=True)
    },
    3: {
        2: {"GD": 7.02, "SM-II": 0.027},
        4: {"GD": 44.90, "SM-II": 0.055},
        8: {"GD": 198.52, "SM-II": 0.053},
        16: {"GD": 264.36, "SM-II": 0.058},
    },
    4: _rows(["PL94"], (36.56, 13.93, 3.99, 3.99, 3.99, 1.0)),
    5: _rows(
        SIZES,
        (10.63, 2.84, 1.27, 1.27, 1.27, 1.0),
        (17.45, 3.48, 1.25, 1.25, 1.25, 1.0),
        (28.43, 3.90, 1.29, 1.29, 1.29, 1.0),
        (47.36, 4.68, 1.23, 1.23, 1.23, 1.0),
        (77.26, 5.42, 1.24, 1.24, 1.24, 1.0),
    ),
    6: _rows(
        SIZES,
        (16.04, 4.63, 2.53, 1.62, 1.98, 1.0),
        (21.28, 5.87, 2.14, 1.49, 1.75, 1.0),
        (41.76, 6.05, 1.91, 1.45, 1.69, 1.0),
        (71.51, 7.35, 1.80, 1.46, 1.52, 1.0),
        (109.34, 7.68, 1.69, 1.43, 1.49, 1.0),
    ),
    7: _rows(
        SIZES,
        (1.14, 2.29, 1.14, 1.14, 1.14, 1.0),
        (1.14, 2.29, 1.07, 1.07, 1.07, 1.0),
        (1.14, 3.39, 1.06, 1.06, 1.06, 1.0),
        (1.15, 3.40, 1.05, 1.05, 1.05, 1.0),
        (1.15, 3.41, 1.04, 1.04, 1.04, 1.0),
    ),
    8: _rows(
        SIZES,
        (2.58, 7.44, 2.43, 1.15, 1.61, 1.0),
        (2.82, 8.28, 2.58, 1.18, 1.72, 1.0),
        (2.82, 8.36, 2.58, 1.17, 1.70, 1.0),
        (2.79, 8.27, 2.51, 1.16, 1.68, 1.0),
        (2.76, 8.17, 2.49, 1.16, 1.67, 1.0),
    ),
    9: _rows(["AGE"], (32.49, 6.2, 1.58, 1.58, 1.58, 1.0)),
    10: _rows(
        range(2, 17, 2),
        (1.82, 3.02, 1.14, 1.14, 1.14, 1.0),
        (4.55, 10.28, 1.42, 1.42, 1.42, 1.0),
        (8.6, 21.38, 1.66, 1.66, 1.66, 1.0),
        (14.03, 36.72, 1.88, 1.88, 1.88, 1.0),
        (20.84, 56.23, 2.08, 2.08, 2.08, 1.0),
        (28.76, 78.96, 2.25, 2.25, 2.25, 1.0),
        (38.17, 106.22, 2.41, 2.41, 2.41, 1.0),
        (48.85, 137.41, 2.57, 2.57, 2.57, 1.0),
    ),
    11: _rows(
        SIZES,
        (3.51, 9.59, 1.31, 1.31, 1.31, 1.0),
        (4.16, 11.16, 1.31, 1.31, 1.31, 1.0),
        (4.28, 12.60, 1.19, 1.19, 1.19, 1.0),
        (3.62, 10.46, 1.12, 1.12, 1.12, 1.0),
        (3.50, 10.05, 1.07, 1.07, 1.07, 1.0),
    ),
}
"""Printed values by table, row and column. Table 2 prints Δ², Table 3 seconds, the others variance over target."""

PRINTED_TOTALS = {"4": {"PL94": 2.07}, "9": {"AGE": 1.07}, "10": {"t = 16": 1.34}}
"""Total error of SM-II over that of CA at one privacy cost, by table and row, from the text of the paper."""

# --- the mechanisms ----------------------------------------------------------------------------------------------

SOFT_MAX = {"SM-II, printed": Hessian.PRINTED, "SM-II, correct": Hessian.CORRECT}
WEIGHTED = {"wCA-I": "CA, 1/c²", "wCA-II": "CA, 1/c"}
"""Weights that agree with Tables 6 and 8. In the paper's text wCA-I is 1/c, here column wCA-II, and wCA-II is 1/√c."""
COMPARED = ("IP", "HM", "CA", "wCA-I", "wCA-II")
IN_CSV = ("GM", "HM, Gaussian rule", "HM, Laplace rule", "CA, 1/√c")
"""Not in the paper's tables, or not surely: noise on queries, other trees, wCA-II by its words."""
CONIC = 16
"""Cells above which the semidefinite program, which cannot be stopped from here, is not solved."""


def hierarchical(w, c):
    """The tree of two levels below its root, which agrees with what the paper prints for ranges and marginals."""
    return baselines.hierarchical(w, c, max(2, math.ceil(math.sqrt(w.shape[1]))))


def solve_near_optimum(solved):
    """Return the plan with a gap of 1e-7, or of 1e-6 if the rounding to integers leaves no smaller gap."""
    try:
        return solved(1e-7)
    except GapNotReached:
        return solved(1e-6)


POWERS = {"CA": 0.0, "CA, 1/√c": 0.5, "CA, 1/c": 1.0, "CA, 1/c²": 2.0}
TOTALS = {
    name: lambda w, c, power=power: solve_near_optimum(lambda gap: baselines.total_error(w, c, power, gap))
    for name, power in POWERS.items()
}
DENSE = {
    "IP": baselines.input_perturbation,
    "GM": baselines.gaussian,
    "HM": hierarchical,
    "HM, Gaussian rule": baselines.hierarchical,
    "HM, Laplace rule": lambda w, c: baselines.hierarchical(w, c, branching_factor(w.shape[1], laplace=True)),
    "interior point": interior_point,
    "GD": lambda w, c: gradient_descent(w, c).mechanism,
} | TOTALS


@dataclass(frozen=True)
class Case:
    """One row of a table.

    draw: seed ↦ W, c.
    basis: of :func:`soft_max.bases`, or "workload" for B = W.
    printed: by column.
    tables: the same workload as tables, for fitnoise and CA.
    random: True if the seed matters.
    always: True for all sizes, despite --largest.
    """

    label: str
    d: int
    draw: Callable
    basis: str
    printed: dict
    tables: Callable | None = None
    random: bool = False
    always: bool = False


@dataclass(frozen=True)
class Table:
    """A table, or a figure with something to solve. quantity: what is printed. axis_label: the axis of a figure."""

    key: str
    title: str
    note: str
    cases: Callable
    mechanisms: tuple = (*COMPARED, *SOFT_MAX)
    extra: tuple = IN_CSV
    quantity: str = "variance ratio"
    axis_label: str = ""


@dataclass
class MechanismResults:
    """One mechanism's Δ² and seconds, a number per seed, and how many solves hit the limit."""

    costs: list = field(default_factory=list)
    ratios: list = field(default_factory=list)
    seconds: list = field(default_factory=list)
    over_limit: int = 0

    def values_of(self, quantity):
        return {"variance ratio": self.ratios, "Δ²": self.costs, "seconds": self.seconds}[quantity]


@contextlib.contextmanager
def limit(seconds):
    """Raise TimeoutError after these seconds, as soon as Python has its turn; without the signal there is no limit."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def factors(w, basis):
    """B and L."""
    if basis == "workload":
        return np.asarray(w, dtype=float), np.eye(len(w))
    return getattr(soft_max.bases(w), basis)


def total_error_of_tables(workload):
    """Δ² of CA for tables of unit targets, by sectors."""
    plan = solve_near_optimum(lambda gap: fn.plan(workload, objective=Objective(Goal.TOTAL_ERROR), gap=gap))
    return float(plan.table_part.exact_cost) * float(plan.table_part.variances.max())


def cost(name, case, w, c, seconds):
    """Δ² of one mechanism, and whether it hit the limit; None where it is not tried or has nothing to show."""
    if name in SOFT_MAX:
        solution = soft_max.solve(
            *factors(w, case.basis), c, hessian=SOFT_MAX[name], reading=AlgorithmVariant.CODE, max_seconds=seconds
        )
        return solution.cost_squared, solution.ending is SoftMaxStatus.TIME
    if name == "interior point" and (case.d > CONIC or not importlib.util.find_spec("cvxpy")):
        return None, False
    try:
        with limit(seconds):
            if name == "CA" and case.tables:
                return total_error_of_tables(case.tables()), False
            return DENSE[WEIGHTED.get(name, name)](w, c).cost, False
    except TimeoutError:
        return None, True


def in_total_error(case):
    """Return the sum of variances of fitnoise over that of CA, both at one privacy cost."""
    w, c = case.draw(0)
    workload = case.tables() if case.tables else fn.matrix_workload(w, variances=c)
    plans = (
        fn.plan(workload),
        solve_near_optimum(lambda gap: fn.plan(workload, objective=Objective(Goal.TOTAL_ERROR), gap=gap)),
    )
    parts = (p.table_part for p in plans)
    ours, optimum = (float(p.variances @ p.decomposition.numbers_per_row) * float(p.exact_cost) for p in parts)
    return ours / optimum


def tried(name, case, seed, options):
    """Above --largest only what is quick; SM-II for the first seeds only."""
    large = case.d > options.largest and not case.always
    if name in SOFT_MAX:
        return not large and seed < options.soft_max_seeds
    quick = name in ("IP", "GM") or (name.startswith("CA") and (case.tables or case.d <= 256))
    return not large or quick or (name in WEIGHTED and case.d <= 256)


def solve(case, names, options):
    """Solve one row: return name ↦ Found with `ours`, the median of the certified bounds, and the largest gap."""
    results, bounds, gaps = {"ours": MechanismResults()} | {name: MechanismResults() for name in names}, [], []
    for seed in range(options.seeds if case.random else 1):
        w, c = case.draw(seed)
        begun = time.perf_counter()
        plan = fn.plan(case.tables() if case.tables else fn.matrix_workload(w, variances=c))
        best = float(plan.table_part.exact_cost)
        bounds.append(plan.bound)
        gaps.append(plan.gap)
        _keep(results["ours"], best, best, time.perf_counter() - begun)
        for name in names:
            if name.startswith(("wCA", "CA, ")) and np.ptp(c) == 0:
                results[name] = results["CA"]
                continue
            if not tried(name, case, seed, options):
                continue
            begun = time.perf_counter()
            value, over_limit = cost(name, case, w, c, options.seconds_per_solve)
            results[name].over_limit += over_limit
            if value is not None:
                _keep(results[name], value, best, time.perf_counter() - begun)
    return results, statistics.median(bounds), max(gaps)


def _keep(results, value, best, seconds):
    results.costs.append(value)
    results.ratios.append(value / best)
    results.seconds.append(seconds)


# --- the tables --------------------------------------------------------------------------------------------------


def fit(sizes, largest):
    """The paper's sizes up to the largest; the largest alone where there are none."""
    return [n for n in sizes if n <= largest] or [largest]


def unit(w):
    return w, np.ones(len(w))


def prefixes(number):
    def cases(largest):
        for d in fit(PRINTED[number], largest):
            yield Case(f"d = {d}", d, lambda _, d=d: unit(gallery.prefix(d)), "workload", PRINTED[number].get(d, {}))

    return cases


def single(number, label, make, d):
    def cases(_):
        yield Case(label, d, lambda _: unit(make()), "upper", PRINTED[number][label], always=True)

    return cases


def random_table(number, basis, **kinds):
    """Random workloads, a row for each size and kind; the printed values stand at the first."""

    def cases(largest):
        for d in fit(SIZES, largest):
            for i, (kind, make) in enumerate(kinds.items()):
                label = f"d = {d}" + (f", {kind.replace('_', ' ')}" if len(kinds) > 1 else "")
                printed = {} if i else PRINTED[number].get(d, {})
                yield Case(label, d, lambda s, d=d, m=make: m(d, np.random.default_rng(s)), basis, printed, random=True)

    return cases


def ranges(d, rng):
    return unit(gallery.random_ranges(d, 2 * d, rng))


def ranges_and_targets(d, rng):
    return gallery.random_ranges(d, 2 * d, rng), gallery.random_targets(2 * d, rng)


def signs(heads):
    return lambda d, rng: unit(gallery.random_signs(d, 2 * d, rng, heads=heads))


def signs_and_targets(heads, *, integers):
    return lambda d, rng: (
        gallery.random_signs(d, 2 * d, rng, heads=heads),
        gallery.random_targets(2 * d, rng, is_integer=integers),
    )


def wrelated(d, rng):
    return unit(gallery.wrelated(d, d // 2, d // 2, rng))


def cubes(_):
    for t, printed in PRINTED[10].items():
        sizes = (t, t, t)
        yield Case(
            f"t = {t}",
            t**3,
            lambda _, sizes=sizes: unit(gallery.marginals(sizes)),
            "identity",
            printed,
            tables=lambda sizes=sizes: gallery.marginal_tables(sizes),
        )


def identity_and_sum(d, k):
    return gallery.identity_and_sum(d), np.append(np.ones(d), float(k))


def by_size(largest):
    for d in fit((4, 8, 16, 32, 64, 128, 256, 512, 1024), largest):
        yield Case(f"d = {d}", d, lambda _, d=d: identity_and_sum(d, 4), "identity", {})


def by_target(_):
    for k in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        yield Case(f"k = {k}", 256, lambda _, k=k: identity_and_sum(256, k), "identity", {})


TABLES = [
    Table(
        "2",
        "Privacy cost on prefixes",
        "What the paper calls privacy cost here is Δ², the square of its Δ; SM-II agrees with the optimum because B = "
        "W, as in its authors' program (in the basis I it stops 3 % above it for 64 cells).",
        prefixes(2),
        ("interior point", *SOFT_MAX),
        (),
        "Δ²",
    ),
    Table(
        "3",
        "Seconds on prefixes",
        "Other machines and other stopping rules: the paper does not print the tolerances of its gradient descent "
        "(GD), so that only the order of the columns can be compared.",
        prefixes(3),
        ("GD", *SOFT_MAX),
        (),
        "seconds",
    ),
    Table(
        "4",
        "PL94, unit targets, B = U",
        "IP costs 126, so that the printed 36.56 implies Δ² = 3.446 for SM-II, 14 % above the certified optimum: the "
        "ratios of IP and CA are too small by that much. SM-II as printed takes 10 minutes to come near it. No tree we "
        "tried gives what is printed for HM. GM, which the paper leaves out as always worse than CA, costs 4.",
        single(4, "PL94", gallery.pl94, 252),
    ),
    Table(
        "5",
        "Random ranges, unit targets, B = U",
        "The paper's seeds are unknown: its single draw is to be compared with our range.",
        random_table(5, "upper", ranges=ranges),
    ),
    Table(
        "6",
        "Random ranges, random targets, B = U",
        "wCA-I and wCA-II are 1/c² and 1/c here, which agree with the print: the queries were divided by c and √c, not "
        "their squared errors; with the weights as worded, 1/c and 1/√c, they would be worse.",
        random_table(6, "upper", ranges=ranges_and_targets),
    ),
    Table(
        "7",
        "Random signs, unit targets, B = I",
        "The print agrees with fair coins; with P(heads) = 0.2, as section 7.5 says, the ratios are larger. CA at d = "
        "64, printed as 1.14, is at the upper end of what fair coins give. HM at d = 64 and 128 is printed as twice "
        "IP, a tree of one level below its root, which is the Laplace rule of the CSV.",
        random_table(7, "identity", fair_coins=signs(0.5), heads_20_percent=signs(0.2)),
    ),
    Table(
        "8",
        "Random signs, random targets, B = I",
        "The print agrees with fair coins and integer targets 1 … 10, not with P(heads) = 0.2 and U(1, 10); wCA-I and "
        "wCA-II are 1/c² and 1/c, as in Table 6.",
        random_table(
            8,
            "identity",
            fair_coins_and_whole_targets=signs_and_targets(0.5, integers=True),
            as_worded=signs_and_targets(0.2, integers=False),
        ),
    ),
    Table(
        "9",
        "Age pyramids, unit targets, B = U",
        "IP costs 232, so that the printed 32.49 implies Δ² = 7.141 for SM-II, 0.4 % above the certified optimum. CA's "
        "1.58 implies Δ² = 11.28; the least total error has 12.56, where all adults are the worst number. No tree we "
        "tried gives what is printed for HM.",
        single(9, "AGE", gallery.age_pyramids, 232),
    ),
    Table(
        "10",
        "One-way and two-way marginals of three attributes, unit targets, B = I",
        "IP costs t², so that the printed ratios imply where SM-II stopped, 0.7 to 1.6 % above the certified optimum: "
        "those of IP are too small by that much. Those of CA imply a Δ² up to 7 % above that of the least total error "
        "found here. No tree we tried gives what is printed for HM at t = 2. fitnoise and CA are by sectors; HM and "
        "SM-II are run up to --largest cells.",
        cubes,
    ),
    Table(
        "11",
        "WRelated, unit targets, B = I",
        "The paper's seeds are unknown: its single draw is to be compared with our range. At d = 64 its IP and HM lie "
        "below that range, as they would if SM-II had stopped above the optimum: with B = I, of twice the rank, it "
        "does here.",
        random_table(11, "identity", gaussian=wrelated),
    ),
    Table(
        "F2",
        "Identity and a sum of target k = 4, by the number of cells d",
        "The paper draws this figure and prints no numbers. From d = 16 on weights make the worst variance larger: by "
        "their words (1/c, 1/√c) as by what the tables agree with (1/c², 1/c).",
        by_size,
        ("CA", "wCA-I", "wCA-II", *SOFT_MAX),
        ("CA, 1/√c",),
        axis_label="d",
    ),
    Table(
        "F3",
        "Identity and a sum of target k, d = 256",
        "The paper draws this figure and prints no numbers. At k = 256 weights help. SM-II runs from --largest 256 on.",
        by_target,
        ("CA", "wCA-I", "wCA-II", *SOFT_MAX),
        ("CA, 1/√c",),
        axis_label="k",
    ),
]
ORDER = [*(str(i) for i in range(2, 12)), "F1", "F2", "F3"]

COLUMNS = ("table", "case", "d", "mechanism", "quantity", "printed", "found", "low", "high", "draws", "over_limit")
COLUMNS += ("cost_squared", "bound", "gap", "total_error")


def make(table, options):
    """The rows of the CSV, and the Markdown."""
    names = ("ours", *table.mechanisms)
    totals = PRINTED_TOTALS.get(table.key)
    extra_column = " total error, fitnoise over CA |" if totals else ""
    head = "fitnoise, s (Δ², gap)" if table.quantity == "seconds" else "fitnoise: Δ² (gap)"
    lines = [
        f"| | | {head} | {' | '.join(table.mechanisms)} |{extra_column}",
        "|---" * (len(names) + 2 + bool(extra_column)) + "|",
    ]
    rows = []
    for case in table.cases(options.largest):
        results, *proof = solve(case, (*table.mechanisms, *table.extra), options)
        total = in_total_error(case) if totals else None
        if case.printed:
            total_cell = f" {totals.get(case.label, '–')} |" if totals else ""
            lines.append(
                f"| {case.label} | paper | {implied(case, results)} | {printed_cells(table, case)} |{total_cell}"
            )
        cells = [cell_text(results[name], table.quantity, options) for name in table.mechanisms]
        total_cell = f" {total:.3f} |" if totals else ""
        lines.append(
            f"| {case.label} | found | {ours(results['ours'], proof[1], table)} | {' | '.join(cells)} |{total_cell}"
        )
        rows += [row(table, case, name, results[name], [*proof, total if name == "ours" else None]) for name in results]
    return rows, lines


def row(table, case, name, results, proof):
    values = results.values_of(table.quantity)
    middle = [statistics.median(values), min(values), max(values)] if values else [None] * 3
    price = statistics.median(results.costs) if results.costs else None
    printed = case.printed.get("SM-II" if name == "SM-II, printed" else name)
    values = [table.key, case.label, case.d, name, table.quantity, printed, *middle, len(values), results.over_limit]
    return dict(zip(COLUMNS, [*values, price, *proof], strict=True))


def implied(case, results):
    """Δ² of the paper's SM-II, from what it prints for IP."""
    if case.random or "IP" not in case.printed:
        return "–"
    return f"Δ² = {results['IP'].costs[0] / case.printed['IP']:.3f} implied"


def printed_cells(table, case):
    names = {"SM-II, printed": "SM-II"}
    digits = "g" if table.quantity == "seconds" else ".2f"
    values = [case.printed.get(names.get(name, name)) for name in table.mechanisms]
    return " | ".join("–" if x is None else f"{x:{digits}}" for x in values)


def ours(results, gap, table):
    proof = f"{gap:.0e}"
    if table.quantity == "seconds":
        return f"{results.seconds[0]:.3f} s ({results.costs[0]:.4f}, {proof})"
    return f"{median_and_range(results.costs, 4)} ({proof})"


def cell_text(results, quantity, options):
    """A cell: median [least, greatest]."""
    values, marks = results.values_of(quantity), []
    if results.over_limit:
        several = f"{results.over_limit} " if results.over_limit > 1 or len(values) > 1 else ""
        marks.append(f"{several}over {options.seconds_per_solve:g} s")
    if not values:
        return ", ".join(marks) or "–"
    return ", ".join([median_and_range(values, {"seconds": 3, "Δ²": 4}.get(quantity, 3)), *marks])


def median_and_range(values, digits):
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


# --- the figures -------------------------------------------------------------------------------------------------

DELTAS = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Δ of Figure 1. The paper names 0.2; the others it only draws."""
MIN_DELTA = 1e-12
"""Lower end of the axis of Figure 1."""


def curves():
    """Figure 1: the least δ for each ε and Δ (Corollary 1)."""
    rows = []
    for epsilon in np.linspace(0, 4, 41):
        rows.append({"epsilon": float(epsilon)} | {f"Δ = {m:g}": privacy.gaussian_delta(m, epsilon) for m in DELTAS})
    lines = [f"| {' | '.join(['ε', *list(rows[0])[1:]])} |", "|---" * (len(DELTAS) + 1) + "|"]
    lines += ["| " + " | ".join(f"{r[name]:.3g}" for name in rows[0]) + " |" for r in rows[::5]]
    return rows, lines


def short_number(x, _):
    return f"{x:g}"


def draw(path, title, x_label, y_label, lines, ticks=()):
    """Write a figure of named lines (xs, ys), where Matplotlib is installed; with ticks, the x axis is logarithmic."""
    if not importlib.util.find_spec("matplotlib"):
        return
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    with style.context(["default", plots.STYLE]):
        figure = Figure(figsize=(7.0, 5.2), layout="constrained")
        axes = figure.add_subplot(title=title, xlabel=x_label, ylabel=y_label, yscale="log")
        kinds = zip(plots.COLOURS, plots.MARKERS, strict=True)
        for (name, (xs, ys)), (colour, marker), dash in zip(lines.items(), kinds, plots.DASHES * 2, strict=False):
            axes.plot(xs, ys, label=name, color=colour, marker=marker if len(xs) < 20 else None, linestyle=dash)
        if ticks:
            axes.set_xscale("log")
            axes.set_xticks(ticks, [short_number(x, None) for x in ticks])
            axes.minorticks_off()
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(short_number)
        else:
            axes.set_ylim(MIN_DELTA, 1)
        axes.legend()
    plots.save(figure, path, replace=True)


def draw_rows(path, table, rows):
    """Figures 2 and 3: ratios against d or k."""
    lines = {}
    for r in rows:
        if r["found"] is not None:
            xs, ys = lines.setdefault(r["mechanism"], ([], []))
            xs.append(float(r["case"].split(" = ")[1]))
            ys.append(r["found"])
    draw(
        path, table.title, table.axis_label, "Worst variance over target, at our privacy cost", lines, lines["ours"][0]
    )


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)


def produce(key, options):
    """Make one table or figure, print it and write its files."""
    if key == "F1":
        rows, lines = curves()
        title, note = "δ of a Gaussian mechanism by ε and Δ", "The paper draws this figure and names only Δ = 0.2."
    else:
        table = next(t for t in TABLES if t.key == key)
        rows, lines = make(table, options)
        title, note = table.title, table.note
    kind, number = ("Figure", key[1:]) if key.startswith("F") else ("Table", key)
    draws = max((r["draws"] for r in rows), default=1) if key != "F1" else 1
    if draws > 1:
        fewer = min(draws, options.soft_max_seeds)
        note += f" Found: median [least, greatest] of {draws} draws, for SM-II of {fewer or 'none'}."
    text = "\n".join([f"### {kind} {number}. {title}", "", *lines, "", note, ""])
    print(text, flush=True)
    if options.output is None:
        return
    options.output.mkdir(parents=True, exist_ok=True)
    stem = options.output / f"{kind.lower()}_{int(number):02d}"
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
    write(stem.with_suffix(".csv"), rows)
    picture = stem.with_suffix(".png")
    if key == "F1":
        lines = {name: ([r["epsilon"] for r in rows], [r[name] for r in rows]) for name in list(rows[0])[1:]}
        draw(picture, title, "ε", "δ", lines)
    elif kind == "Figure":
        draw_rows(picture, table, rows)


def integer(text, minimum=1):
    value = int(text)
    if value < minimum:
        raise argparse.ArgumentTypeError(f"at least {minimum} is needed; got {value}")
    return value


def number(text):
    return integer(text, 0)


def positive(text):
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a positive number is needed; got {value}")
    return value


def main(arguments=None):
    parser = argparse.ArgumentParser(description="The tables and figures of the fit-for-use paper, and fitnoise's.")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="where to write; default: only print")
    parser.add_argument("--only", nargs="+", choices=ORDER, default=ORDER, metavar="TABLE", help=" ".join(ORDER))
    parser.add_argument("--largest", type=integer, default=128, metavar="D", help="cells of the largest, default 128")
    parser.add_argument("--seeds", type=integer, default=10, metavar="N", help="draws of a random workload, default 10")
    parser.add_argument("--soft-max-seeds", type=number, default=3, metavar="N", help="of them for SM-II, default 3")
    parser.add_argument("--seconds-per-solve", type=positive, default=5.0, metavar="S", help="limit, default 5")
    options = parser.parse_args(arguments)
    for key in ORDER:
        if key in options.only:
            produce(key, options)


if __name__ == "__main__":
    main()
