"""Figures 1–4, Table 1, Theorems 5.22–6.30 and Programs 5.1–5.3 of the matrix mechanism paper, with our results.

Run: python benchmarks/reproduce_matrix_mechanism.py -o FOLDER

Writes each item as Markdown and CSV, that of Theorem 6.30 also as PNG where Matplotlib is installed, into FOLDER, and
prints the Markdown. Without -o it only prints. --only F4 6.30 makes some; --largest 64 makes smaller ones. All errors
are at ε = 1. The programs need cvxpy and clarabel, which are for development only.

Source: Li, Hay, Rastogi, Miklau, McGregor: Optimizing linear counting queries under differential privacy, PODS 2010,
full version. What differs, and why: docs/mathematics/matrix_mechanism.md.
"""

import argparse
import collections
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from reproduce_fit_for_use import draw, integer, write

import fitnoise as fn
from fitnoise.algebra import operators as op
from fitnoise.mechanisms.laplace.hierarchies import hierarchy
from fitnoise.request import curves
from fitnoise.request.publication import Goal, Objective
from fitnoise_lab import strategies
from fitnoise_lab.rotation import minimum_sensitivity

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
MAKE = {"I": strategies.identity, "H": hierarchy, "Y": strategies.haar}
GRAMS = {"prefixes": lambda n: strategies.profile(op.Prefix(n)), "ranges": strategies.all_ranges_gram}


def sizes(options, max_size=1024):
    return [n for n in SIZES if n <= min(options.largest, max_size)] or [4]


# --- the L2 approximation, by our planner ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class L2Optimum:
    """The solution of Problem 5.19: min ‖A‖₂² tr(W (AᵀA)⁻¹ Wᵀ).

    value: reached.
    bound: certified from below.
    profile: AᵀA of the optimum, its largest diagonal entry 1, (n, n).
    """

    value: float
    bound: float
    profile: np.ndarray


def l2_optimum(gram, gap=1e-7):
    """Return the Gaussian plan of least total error; the privacy cost changes its covariance only by a factor."""
    spectrum = strategies.spectrum(gram)
    nonzero = spectrum.values > 1e-12 * spectrum.values[-1]
    root = np.sqrt(spectrum.values[nonzero])[:, None] * spectrum.vectors.T[nonzero]
    plan = fn.plan(fn.matrix_workload(root, variances=1.0), objective=Objective(Goal.TOTAL_ERROR), gap=gap)
    (sector,) = plan.table_part.strategy.sectors
    a = np.asarray(sector.rows, dtype=float)
    shape = a.T @ a
    shape /= shape.diagonal().max()
    value = float(np.trace(np.linalg.pinv(shape, hermitian=True) @ gram))
    return L2Optimum(value, value / (1 + plan.gap), shape)


def upper_root(profile):
    """The upper triangular A with AᵀA the profile."""
    return np.linalg.cholesky(profile).T


def symmetric_root(profile):
    spectrum = strategies.spectrum(profile)
    return (spectrum.vectors * np.sqrt(spectrum.values)) @ spectrum.vectors.T


# --- the programs, by semidefinite programming -------------------------------------------------------------------


def program_5_2(w):
    """The value of Program 5.2 for a regular W, and its X: min tr X⁻¹ subject to (WᵀXW)_ii ≤ 1."""
    import cvxpy as cp

    n = len(w)
    both = cp.Variable((2 * n, 2 * n), PSD=True)
    x = both[:n, :n]
    problem = cp.Problem(cp.Minimize(cp.trace(both[n:, n:])), [both[:n, n:] == np.eye(n), cp.diag(w.T @ x @ w) <= 1])
    problem.solve(solver="CLARABEL")
    return float(problem.value), x.value


@dataclass(frozen=True, eq=False)
class Iterated:
    """The end of a convex iteration.

    strategy: A.
    residual: the sum of the eigenvalues of [I A; Aᵀ Z] that the rank constraint sets to 0.
    inaccurate: number of solves that the solver reported as inaccurate.
    """

    strategy: np.ndarray
    residual: float
    inaccurate: int


def convex_iteration(problem, direction, lifted, strategy, start, *, steps):
    """Dattorro's: minimise objective + ⟨[I A; Aᵀ Z], U⟩, then U the projector on its n least eigenvectors, in turn."""
    n, inaccurate = start.shape[1], 0
    held = np.block([[np.eye(len(start)), start], [start.T, start.T @ start]])
    for _ in range(steps):
        smallest = np.linalg.eigh(held)[1][:, :n]
        direction.value = smallest @ smallest.T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate": counted instead
            problem.solve(solver="CLARABEL")
        inaccurate += problem.status != "optimal"
        held = lifted.value
    return Iterated(strategy.value, float(np.linalg.eigvalsh(held)[:n].sum()), inaccurate)


def lifted_matrix(m, n):
    """[I A; Aᵀ Z] ⪰ 0 as a variable, its A and Z, the constraint on its corner, and the parameter U."""
    import cvxpy as cp

    both = cp.Variable((m + n, m + n), PSD=True)
    return both, both[:m, m:], both[m:, m:], [both[:m, :m] == np.eye(m)], cp.Parameter((m + n, m + n), PSD=True)


def program_5_1(w, start, *, weight, steps=20):
    """Program 5.1 for a regular W: the n constraints are one, with tr U for u₁ + … + u_n."""
    import cvxpy as cp

    m, n = start.shape
    both, a, z, constraints, direction = lifted_matrix(m, n)
    inverse = np.linalg.inv(w)
    u = cp.Variable((n, n), symmetric=True)
    large = cp.bmat(
        [
            [2 * np.eye(m), -a @ inverse, np.zeros((m, n))],
            [-(a @ inverse).T, inverse.T @ z @ inverse, np.eye(n)],
            [np.zeros((n, m)), np.eye(n), u],
        ]
    )
    constraints += [(large + large.T) / 2 >> 0, cp.sum(cp.abs(a), axis=0) <= 1]
    scaled = weight * np.trace(w.T @ w) / n
    problem = cp.Problem(cp.Minimize(cp.trace(u) + scaled * cp.trace(both @ direction)), constraints)
    return convex_iteration(problem, direction, both, a, start, steps=steps)


def program_5_3(profile, start, *, weight, steps=20):
    """Program 5.3: the least r with columns of L1 norm at most r, Z held at the profile."""
    import cvxpy as cp

    both, a, z, constraints, direction = lifted_matrix(*start.shape)
    r = cp.Variable()
    constraints += [z == profile, cp.sum(cp.abs(a), axis=0) <= r]
    problem = cp.Problem(cp.Minimize(r + weight * cp.trace(both @ direction)), constraints)
    return convex_iteration(problem, direction, both, a, start, steps=steps)


def turned(profile, rng):
    """A strategy of this profile by a random rotation."""
    n = len(profile)
    return strategies.spectrum(profile).strategy(np.linalg.qr(rng.normal(size=(n, n)))[0])


def made_exact(a, profile):
    """The strategy of exactly this profile nearest to A: the polar factor of A times the symmetric root."""
    root = symmetric_root(profile)
    u, _, v = np.linalg.svd(a @ root)
    return u @ v @ root


# --- the items ---------------------------------------------------------------------------------------------------

FIGURE_4 = {
    "H'": np.array(
        [
            [-math.sqrt(7) / 2] * 4,
            [math.sqrt(3) / 2] * 2 + [-math.sqrt(3) / 2] * 2,
            [-math.sqrt(0.5), math.sqrt(0.5), 0, 0],
            [0, 0, -math.sqrt(0.5), math.sqrt(0.5)],
        ]
    ),
    "Y'": np.kron(np.eye(2), [[math.sqrt(3), 1 / math.sqrt(3)], [0, math.sqrt(8 / 3)]]),
}
"""The exact matrices that the paper prints to two decimals."""


def figure_1(_):
    for name, a in ({f"{k}₄": f(4) for k, f in MAKE.items()} | FIGURE_4).items():
        yield {
            "strategy": name,
            "sensitivity": strategies.sensitivity(a),
            "its L2 norm": strategies.sensitivity(a, 2),
            "one cell": strategies.query_error(a, [1, 0, 0, 0]),
            "all cells": strategies.query_error(a, [1, 1, 1, 1]),
            "10 ranges": strategies.range_errors(a).total,
            "4 prefixes": strategies.total_error(a, op.Prefix(4)),
            "16 0-1 queries": float(strategies.predicate_errors(a).total),
        }


def figure_2(_):
    for name, factor in (("I", 1), ("H", 21), ("Y", 4)):
        for cell, row in enumerate(factor * strategies.reconstruction(MAKE[name](4))):
            yield {"strategy": f"{name}₄", "cell": cell + 1, "times": factor, "coefficients": numbers(row)}


def figure_3(_):
    for name, factor in (("I", 1), ("H", 21), ("Y", 8)):
        for cell, row in enumerate(factor * np.linalg.inv(strategies.profile(MAKE[name](4)))):
            yield {"strategy": f"{name}₄", "row": cell + 1, "times": factor, "(AᵀA)⁻¹": numbers(row)}


def numbers(row):
    return " ".join(str(round(float(x))) for x in row)


def figure_4(options):
    for (name, a), printed in zip(FIGURE_4.items(), (2.896, 2.210), strict=True):
        original = MAKE[name[0]](4)
        solution = minimum_sensitivity(original, np.random.default_rng(0), starts=options.starts)
        yield {
            "strategy": name,
            "of the profile of": f"{name[0]}₄",
            "same profile": str(strategies.profile_equivalent(a, original)),
            "printed": printed,
            "sensitivity": strategies.sensitivity(a),
            "least found": solution.sensitivity,
            "bound": solution.bound,
        }


def table_1(options):
    for n in sizes(options, 256):
        for name in ("H", "Y"):
            values = np.rint(strategies.spectrum(strategies.profile(MAKE[name](n))).values).astype(int)
            counted = collections.Counter(values.tolist())
            yield {"n": n, "strategy": name, "eigenvalue: times": ", ".join(f"{v}: {k}" for v, k in counted.items())}


def theorem_6_29(options):
    for n in sizes(options):
        y, h = (strategies.coarse_root(strategies.profile(MAKE[name](n))) for name in ("Y", "H"))
        ratios = (y**2).sum(axis=1) / (h**2).sum(axis=1)  # rows are orthogonal: squared norms are eigenvalues
        yield {"n": n, "least": ratios.min(), "n/(2n − 1)": n / (2 * n - 1), "greatest": ratios.max()}


def theorem_6_30(options):
    for n in sizes(options):
        for name, make in MAKE.items():
            a = make(n)
            errors = strategies.range_errors(a)
            yield {
                "n": n,
                "strategy": name,
                "largest, ranges": errors.maximum,
                "at": "–".join(str(x) for x in errors.worst),
                "total, ranges": errors.total,
                "largest, 0-1": strategies.maximum_predicate_error(a),
                "mean, 0-1": strategies.predicate_errors(a).mean,
            }


def theorem_5_22(_):
    for epsilon, delta in ((0.1, 1e-6), (0.5, 1e-6), (1, 1e-3), (1, 1e-6), (1, 1e-9), (5, 1e-6)):
        paper, exact = 2 * math.sqrt(2 * math.log(2 / delta)) / epsilon, 1 / curves.gaussian_mu(epsilon, delta)
        yield {
            "ε": epsilon,
            "δ": f"{delta:g}",
            "σ, paper": paper,
            "σ, exact": exact,
            "variance, paper over exact": (paper / exact) ** 2,
            "Laplace is better below a ratio of": (exact * epsilon) ** 2 / 2,
        }


def l2_approximation(options):
    """Program 5.2: X of the correct reading from the planner's profile K, K = WᵀXW; then X as if it were AᵀA."""
    for name, gram in GRAMS.items():
        for n in sizes(options, 16):
            g = gram(n)
            w = np.tril(np.ones((n, n))) if name == "prefixes" else symmetric_root(g)
            solution = l2_optimum(g)
            inverse = np.linalg.inv(w)
            x = inverse.T @ solution.profile @ inverse
            literal = x.diagonal().max() * float(np.trace(np.linalg.inv(x) @ g))
            a = upper_root(solution.profile)
            yield {
                "workload": f"{name} {n}",
                "optimum": solution.value,
                "bound": solution.bound,
                "tr X⁻¹": float(np.trace(np.linalg.inv(x))),
                "X read as AᵀA": literal,
                "times too large": literal / solution.value,
                "error of the triangular root": strategies.total_error(a, gram=g),
            }


def singular_value_bound(options):
    for name, gram in GRAMS.items():
        for n in sizes(options, 64):
            g = gram(n)
            bound = strategies.singular_value_bound(gram=g)
            yield {
                "workload": f"{name} {n}",
                "lower": bound.lower,
                "2 × L2 optimum": 2 * l2_optimum(g).value,
                "error": strategies.total_error(bound.strategy, gram=g),
                "augmented": strategies.total_error(strategies.augment(bound.strategy), gram=g),
                "upper": bound.upper,
            }


def rotations(options):
    for n in sizes(options, 16):
        for name in ("H", "Y"):
            a = MAKE[name](n)
            g, levels = strategies.profile(a), range(n.bit_length())
            closed = [strategies.sensitivity(strategies.coarse_root(g, r)) for r in levels]
            begun = time.perf_counter()
            solution = minimum_sensitivity(a, np.random.default_rng(0), starts=options.starts)
            yield {
                "profile of": f"{name}, n = {n}",
                "sensitivity": strategies.sensitivity(a),
                "closed form": min(closed),
                "r": int(np.argmin(closed)),
                "least found": solution.sensitivity,
                "L2 norm": solution.bound,
                "seconds": time.perf_counter() - begun,
            }


def pipeline(options):
    """The paper's way: a profile by an approximation, then a rotation. As multiples of twice the L2 optimum."""
    for name, gram in GRAMS.items():
        for n in sizes(options, 16):
            g = gram(n)
            solution, rng = l2_optimum(g), np.random.default_rng(0)
            svb = strategies.singular_value_bound(gram=g).strategy
            strategies_of = {
                "L2": upper_root(solution.profile),
                "L2, rotated": minimum_sensitivity(upper_root(solution.profile), rng, starts=options.starts).strategy,
                "singular values": svb,
                "singular values, rotated": minimum_sensitivity(svb, rng, starts=options.starts).strategy,
                "best tree": strategies.best_tree(gram=g).matrix,
                "identity": strategies.identity(n),
            }
            errors = {key: strategies.total_error(a, gram=g) / (2 * solution.value) for key, a in strategies_of.items()}
            yield {"workload": f"{name} {n}"} | errors


def program_1(options):
    for name, gram in GRAMS.items():
        for n in (2, 3, 4):
            g = gram(n)
            w = np.tril(np.ones((n, n))) if name == "prefixes" else symmetric_root(g)
            for weight in (1, 10, 100):
                start = turned(np.eye(n), np.random.default_rng(0))
                start /= strategies.sensitivity(start)
                solution = program_5_1(w, start, weight=weight, steps=options.steps)
                yield {
                    "workload": f"{name} {n}",
                    "weight": weight,
                    "start": strategies.total_error(start, gram=g),
                    "error of A": error_or_none(solution.strategy, g),
                    "identity": strategies.total_error(strategies.identity(n), gram=g),
                    "rank residual": solution.residual,
                    "inaccurate solves": solution.inaccurate,
                }


def error_or_none(a, g):
    """Return the total error of A, or None if A is numerically singular."""
    values = np.linalg.svd(a, compute_uv=False)
    return strategies.total_error(a, gram=g) if values[-1] > 1e-5 * values[0] else None


def program_3(options):
    for name, best_known in (("H", (1 + math.sqrt(7)) / math.sqrt(2)), ("Y", 2.0)):
        g = strategies.profile(MAKE[name](4)).astype(float)
        for weight in (1, 3, 10):
            start = turned(g, np.random.default_rng(0))
            solution = program_5_3(g, start, weight=weight, steps=options.steps)
            yield {
                "profile of": f"{name}₄",
                "weight": weight,
                "start": strategies.sensitivity(start),
                "nearest of the profile": strategies.sensitivity(made_exact(solution.strategy, g)),
                "least known": best_known,
                "rank residual": solution.residual,
                "inaccurate solves": solution.inaccurate,
            }


@dataclass(frozen=True)
class Item:
    """One table of the output. rows: options ↦ dictionaries, all with the same keys."""

    key: str
    title: str
    note: str
    rows: Callable


ITEMS = [
    Item(
        "F1",
        "Figure 1: the strategies and their errors",
        "I₄, H₄ and Y₄ of Figure 1, H' and Y' of Figure 4.",
        figure_1,
    ),
    Item("F2", "Figure 2: reconstruction matrices A⁺", "Multiplied by the number in the column before.", figure_2),
    Item("F3", "Figure 3: error profiles", "Multiplied by the number in the column before.", figure_3),
    Item(
        "F4",
        "Figure 4: less sensitive strategies of the same profile",
        "Neither is minimal: (1 + √7)/√2 and 2 are possible. Bound: the L2 norm, below which none goes.",
        figure_4,
    ),
    Item(
        "T1",
        "Table 1: eigenvalues of AᵀA",
        "2^j − 1 or 2^j, 2^(k − j) times each, and one of the sum. The least of Y is 2.",
        table_1,
    ),
    Item(
        "5.22",
        "Theorem 5.22: Gaussian noise for sensitivity 1",
        "Exact: the least σ that is (ε, δ)-DP. Last column: with the best pure strategy this factor above the lower "
        "bound (twice the L2 optimum, over ε²), both have the same total error; below it Laplace noise has less.",
        theorem_5_22,
    ),
    Item(
        "5.2",
        "Program 5.2: the L2 approximation",
        "In units of ‖A‖₂² tr(W (AᵀA)⁻¹Wᵀ), except for the last column, an error under pure DP. With AᵀA = WᵀXW the "
        "program's objective and constraint are the problem's; with AᵀA = X, as the text says, they are not.",
        l2_approximation,
    ),
    Item(
        "5.23",
        "Theorems 5.23–5.27: the singular value bound and augmentation",
        "Lower: n times less than upper, and a bound on every strategy.",
        singular_value_bound,
    ),
    Item("5.16", "Problem 5.16: the least sensitivity", "Closed form: coarse_root, at its best r.", rotations),
    Item(
        "5.16b",
        "Approximation, then rotation",
        "Total errors over the lower bound. What the paper proposes is dominated by the identity or a tree here.",
        pipeline,
    ),
    Item(
        "5.1",
        "Program 5.1 by convex iteration",
        "A demonstration. A rank residual that is not near 0 means that Z is not AᵀA, and what the program says of its "
        "own error is void; the error shown is that of A itself. – where A is singular.",
        program_1,
    ),
    Item(
        "5.3",
        "Program 5.3 by convex iteration",
        "A demonstration: little weight on the rank does not close the gap; much weight moves the start only slightly.",
        program_3,
    ),
    Item(
        "6.29",
        "Theorem 6.29: error of H over error of Y",
        "The paper: between 1/2 and 2. The least is n/(2n − 1).",
        theorem_6_29,
    ),
    Item(
        "6.30",
        "Theorem 6.30: largest, total and mean errors",
        "Exact, by closed forms; at: first cell of a worst range, and the cell after its last.",
        theorem_6_30,
    ),
]
ORDER = [item.key for item in ITEMS]


def cell(x):
    if x is None:
        return "–"
    if isinstance(x, (str, int, np.integer)):
        return str(x)
    return f"{x:.2e}" if 0 < abs(x) < 1e-3 else f"{x:.6f}"


def picture(path, title, rows):
    """Theorem 6.30: the largest errors against n."""
    lines = {}
    for row in rows:
        for column in ("largest, ranges", "largest, 0-1"):
            if row["strategy"] != "I" or column == "largest, ranges":
                name = f"{row['strategy']}, {column.split(', ')[1]}" if row["strategy"] != "I" else "I, both"
                xs, ys = lines.setdefault(name, ([], []))
                xs.append(row["n"])
                ys.append(row[column])
    draw(path, title, "n", "Largest error, ε = 1", lines, ticks=lines["I, both"][0])


def publish(item, rows, folder):
    """Print an item and write its Markdown and CSV. Return the place for its picture, or None without a folder."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    lines += ["| " + " | ".join(cell(row[name]) for name in rows[0]) + " |" for row in rows]
    text = "\n".join([f"### {item.title}", "", *lines, "", item.note, ""])
    print(text, flush=True)
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / ("item_" + item.key.replace(".", "_"))
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
    write(stem.with_suffix(".csv"), rows)
    return stem.with_suffix(".png")


def produce(item, options):
    """Make one item, print it and write its files."""
    rows = list(item.rows(options))
    path = publish(item, rows, options.output)
    if path is not None and item.key == "6.30":
        picture(path, "Largest errors of strategies, by cells", rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Results of the matrix mechanism paper, and of fitnoise.")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="where to write; default: only print")
    parser.add_argument("--only", nargs="+", choices=ORDER, default=ORDER, metavar="ITEM", help=" ".join(ORDER))
    parser.add_argument("--largest", type=integer, default=1024, metavar="N", help="cells of the largest, default 1024")
    parser.add_argument("--starts", type=integer, default=12, metavar="N", help="of each rotation, default 12")
    parser.add_argument("--steps", type=integer, default=20, metavar="N", help="of each convex iteration, default 20")
    options = parser.parse_args(arguments)
    for item in ITEMS:
        if item.key in options.only:
            produce(item, options)


if __name__ == "__main__":
    main()
