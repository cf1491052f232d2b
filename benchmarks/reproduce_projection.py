"""Compare the accuracy of the projection mechanism with others: the table of docs/mathematics/projection.md.

Run: python benchmarks/reproduce_projection.py -o FOLDER

Prints a Markdown table for each workload; with -o it also writes them, and all numbers as CSV, into FOLDER. Without -o
nothing is written. --workloads ranges --sizes 50 200 --runs 4 makes less. Use one BLAS thread: OPENBLAS_NUM_THREADS=1.

Errors are mean squared errors per query, in squared counts, at ε = 1, δ = 1e-6, with the standard error over the runs.
Noise is for neighbours that differ by one record, added or removed, as in the paper. The number of records n is public
to all mechanisms. Noise that is added once has the exact multiplier of the Gaussian curve
(`fitnoise.kernel.privacy`), unless the line says otherwise. All mechanisms of
one run see the same database and the same standard normal numbers.

| line | what it is |
|---|---|
| uniform guess | every cell has n/N records; reads no data |
| each query alone | independent noise on every query; exact, no runs |
| plain, equal noise | the Ky Fan design of k = 1, unbiased; exact, no runs |
| plain, least variance | the design of k = r, unbiased, the best of its kind; exact, no runs |
| paper, its constant | k = ⌊ε n⌋, the first k directions kept, the others projected on the hull of ±columns |
| paper, exact constant | the same with the exact multiplier |
| paper's k, on the hull | its noise, exact multiplier, all directions projected |
| paper's k, on histograms | the same on {A x: x ≥ 0, Σx = n} |
| equal noise, on histograms | k = 1, all directions projected |
| least variance, on histograms | k = r, all directions projected |
| fitnoise, k chosen | k by simulation on public histograms, all directions projected |
| fitnoise, k and temperature chosen | the entropic estimate too |
| MWEM | exponential mechanism, Gaussian noise, multiplicative weights; best of --rounds *in hindsight* |
| PGM, equal noise | with --pgm: mbi's mirror descent on the same noisy answers as k = 1 |
| PGM, our k | with --pgm: the same on the noise of the k that was chosen |

MWEM takes the best of all its numbers of rounds, and for tables of both kinds of question. No publisher could choose so
well. Its ρ is the largest that zero-concentrated privacy converts to (ε, δ); half goes to selection.

Source: A. Nikolov, "An improved private mechanism for small databases", ICALP 2015; M. Hardt, K. Ligett, F. McSherry,
"A simple and practical algorithm for differentially private data release", NIPS 2012; R. McKenna, D. Sheldon, G.
Miklau, "Graphical-model based estimation and inference for differential privacy", ICML 2019. What was found:
docs/mathematics/projection.md.
"""

import argparse
import dataclasses
import functools
import gzip
import itertools
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from reproduce_fit_for_use import integer, write

from fitnoise import data
from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection import simulation as small
from fitnoise.mechanisms.projection.regions import entropic, project, split_project
from fitnoise.request import curves
from fitnoise.request.publication import Setting
from fitnoise.solving.ky_fan import ky_fan_design
from fitnoise_lab.nikolov import paper_multiplier

EPSILON, DELTA = 1.0, 1e-6
SIZES = (50, 200, 1000, 2000)
ROUNDS = (3, 5, 10, 20, 40)
PASSES = 10
"""Times that multiplicative weights go through all measurements, after each new one."""
PGM_STEPS = 1000
"""The default of mbi."""

# --- workloads ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Workload:
    """Queries with entries 0 and 1.

    rows: R (r, N) with RᵀR = AᵀA.
    m: queries.
    answers: x ↦ A x.
    rows_of: the rows of A of given numbers.
    tables: lists of queries of which a record is in one at most, one list a table; none where there are no tables.
    draw: n and a generator to a histogram (N,).
    title: for the tables.
    """

    title: str
    rows: np.ndarray
    m: int
    answers: Callable
    rows_of: Callable
    tables: tuple
    draw: Callable
    designs: dict = field(default_factory=dict)

    @property
    def cells(self):
        return self.rows.shape[1]

    def design(self, k, tolerance=1e-6):
        key = min(k, len(self.rows)), tolerance
        if key not in self.designs:
            self.designs[key] = ky_fan_design(self.rows, k, tolerance=tolerance)
        return self.designs[key]

    def candidates(self, ks):
        """Return the designs of `small.candidate_designs`, from a cache."""
        designs = [self.design(k, small.COMPARISON_GAP) for k in ks]
        return tuple(design for i, design in enumerate(designs) if design.spikes or not i)


def in_row_space(gram):
    """R with RᵀR = AᵀA, of full row rank."""
    values, vectors = np.linalg.eigh(gram)
    nonzero = values > 1e-10 * values[-1]
    return np.sqrt(values[nonzero])[:, None] * vectors.T[nonzero]


def explicit(title, a, tables, draw):
    a = a.astype(float)
    return Workload(title, in_row_space(a.T @ a), len(a), a.__matmul__, a.__getitem__, tables, draw)


def yes_or_no(d):
    """All cells of d yes-or-no attributes (2^d, d), the last attribute fastest."""
    return np.array(list(itertools.product((0, 1), repeat=d)))


@functools.cache
def records():
    """The packaged tax units as ten yes-or-no attributes (103589, 10); the first eight are used for d = 8."""
    with gzip.open(data.path(data.CPS), "rt", encoding="utf-8") as file:
        _, status, age, kids, wages, selfemp = np.loadtxt(file, delimiter=",", skiprows=1, dtype=int).T
    columns = (
        status == 2, age >= 35, age >= 65, kids >= 1, wages >= 1, wages >= 3, wages >= 5, selfemp == 1, status == 1,
        age >= 50,
    )  # fmt: skip
    return np.array(columns).T


def tax_units(d, n, rng):
    """The histogram of n of the packaged tax units, drawn without replacement."""
    sample = rng.choice(records(), size=n, replace=False, axis=0)[:, :d]
    return np.bincount(sample @ (1 << np.arange(d)[::-1]), minlength=2**d).astype(float)


def marginals(d):
    cells, rows, tables = yes_or_no(d), [], []
    for width in (1, 2, 3):
        for attributes in itertools.combinations(range(d), width):
            tables.append(np.arange(len(rows), len(rows) + 2**width))
            rows += [(cells[:, attributes] == values).all(axis=1) for values in yes_or_no(width)]
    title = f"All cells of up to three of {d} yes-or-no attributes, tax units"
    return explicit(title, np.array(rows), tuple(tables), functools.partial(tax_units, d))


def conjunctions(d=10):
    cells = yes_or_no(d)
    attribute_sets = [s for width in (1, 2, 3) for s in itertools.combinations(range(d), width)]
    rows = np.array([cells[:, s].all(axis=1) for s in attribute_sets])
    return explicit(f"Up to three of {d} attributes all yes, tax units", rows, (), functools.partial(tax_units, d))


def three_bumps(cells, n, rng):
    """N records of a mixture of three normal laws, at random places and of random widths and shares."""
    kind = rng.choice(3, size=n, p=rng.dirichlet(np.ones(3)))
    means, deviations = rng.uniform(0, cells, 3), rng.uniform(cells / 50, cells / 8, 3)
    places = np.clip(np.floor(rng.normal(means[kind], deviations[kind])), 0, cells - 1)
    return np.bincount(places.astype(int), minlength=cells).astype(float)


def ranges(n=256):
    starts, last = np.triu_indices(n)
    i = np.arange(n)
    gram = (np.minimum.outer(i, i) + 1.0) * (n - np.maximum.outer(i, i))

    def answers(x):
        sums = np.append(0.0, np.cumsum(x))
        return sums[last + 1] - sums[starts]

    def rows_of(indices):
        return ((starts[indices, None] <= i) & (i <= last[indices, None])).astype(float)

    draw = functools.partial(three_bumps, n)
    return Workload(
        f"All ranges of {n} cells, three bumps", in_row_space(gram), len(starts), answers, rows_of, (), draw
    )


def zipf(cells, n, rng):
    """N records, the i-th likeliest of the cells with probability in proportion to i^−1.2."""
    weights = np.arange(1, cells + 1) ** -1.2
    return rng.multinomial(n, rng.permutation(weights / weights.sum())).astype(float)


def coins(m=2000, cells=512):
    rows = np.random.default_rng(512).random((m, cells)) < 0.5
    return explicit(f"{m} random subsets of {cells} cells, Zipf", rows, (), functools.partial(zipf, cells))


WORKLOADS = {
    "marginals-8": lambda: marginals(8),
    "marginals-10": lambda: marginals(10),
    "ranges": ranges,
    "conjunctions": conjunctions,
    "random": coins,
}

# --- multiplicative weights --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """The cost of one round of MWEM: epsilon of the exponential mechanism, sigma of the Gaussian noise."""

    epsilon: float
    sigma: float

    @property
    def rho(self):
        """ε²/8 + 1/(2σ²): an exponential mechanism of ε is ε²/8-concentrated (Cesar, Rogers 2021)."""
        return self.epsilon**2 / 8 + 1 / (2 * self.sigma**2)


def divided(rho, rounds):
    """Return the cost of each round, half of it for selection; all rounds together cost at most ρ."""
    each = rho / rounds * (1 - 1e-12)
    return Round(2 * math.sqrt(each), 1 / math.sqrt(each))


def mwem(workload, questions, x, rounds, rho, rng):
    """Return a histogram (N,) by multiplicative weights.

    A question is a list of queries with each record in at most one. So noise σ on all of them is for sensitivity 1. The
    score has sensitivity 1 too: it is the sum of the errors, less the sum to expect from the noise. Each question is
    used once.
    """
    n, spend = float(x.sum()), divided(rho, rounds)
    sizes = np.array([len(question) for question in questions])
    order, starts = np.concatenate(questions), np.append(0, np.cumsum(sizes)[:-1])
    bias = math.sqrt(2 / math.pi) * spend.sigma * sizes
    guess, truth = np.full(workload.cells, n / workload.cells), workload.answers(x)
    is_open, measured = np.ones(len(questions), dtype=bool), []
    for _ in range(min(rounds, len(questions))):
        scores = np.add.reduceat(np.abs(truth - workload.answers(guess))[order], starts) - bias
        chosen = int(np.argmax(np.where(is_open, spend.epsilon / 2 * scores + rng.gumbel(size=len(scores)), -math.inf)))
        is_open[chosen] = False
        question = questions[chosen]
        measured.append((workload.rows_of(question), truth[question] + spend.sigma * rng.normal(size=len(question))))
        for _ in range(PASSES):
            for rows, noisy in measured:
                steps = rows.T @ (noisy - rows @ guess) / (2 * n)
                guess = guess * np.exp(np.minimum(steps, 50))
                guess *= n / guess.sum()
    return guess


# --- the mechanisms of one run -----------------------------------------------------------------------------------


def shaped(design, z):
    """Σ^½ z (r,), of covariance Σ."""
    return design.basis @ (np.sqrt(design.variances) * (design.basis.T @ z))


@dataclass(frozen=True, eq=False)
class Cell:
    """A workload and a size, and what was decided without data.

    multiplier: s.
    nearest, warm: settings chosen among temperature 0, and among all.
    paper: index as printed.
    """

    workload: Workload
    size: int
    multiplier: float
    nearest: Setting
    warm: Setting
    paper: int

    def projected(self, k, truth, z, region=Region.EXACTLY):
        """Squared error per query of the design of index k, all directions projected."""
        design, rows = self.workload.design(k), self.workload.rows
        noisy = truth + self.multiplier * shaped(design, z)
        enough = small.ESTIMATE_TOLERANCE * self.multiplier**2 * float(design.variances.sum())
        answers = project(rows, noisy, self.size, region, tolerance=enough).answers
        return self.error(answers, truth)

    def chosen(self, setting, truth, z):
        """Squared error per query of a setting."""
        if setting.temperature == 0:
            return self.projected(setting.index, truth, z)
        design, rows = self.workload.design(setting.index), self.workload.rows
        noisy = truth + self.multiplier * shaped(design, z)
        enough = small.ESTIMATE_TOLERANCE * self.multiplier**2 * float(design.variances.sum()) / 2
        weight = small.penalty(rows, design, self.multiplier, setting.temperature)
        return self.error(entropic(rows, noisy, self.size, weight, tolerance=enough).answers, truth)

    def printed(self, multiplier, truth, z):
        """Squared error per query of Algorithm 1, with the design of Theorem 4.2."""
        design, rows = self.workload.design(self.paper), self.workload.rows
        noisy = truth + multiplier * shaped(design, z)
        enough = small.ESTIMATE_TOLERANCE * multiplier**2 * float(design.variances.sum())
        head = design.basis[:, : self.paper]
        return self.error(split_project(rows, noisy, self.size, head, tolerance=enough).answers, truth)

    def graphical(self, setting, truth, z):
        """Squared error per query of mbi's estimate from the noise of a setting."""
        design = self.workload.design(setting.index)
        x = mirror_descent(self.workload.rows, truth + self.multiplier * shaped(design, z), self.size)
        return self.error(self.workload.rows @ x, truth)

    def error(self, answers, truth):
        return float(((answers - truth) ** 2).sum()) / self.workload.m


@functools.cache
def _loss(length, cells):
    """Half a squared distance as mbi wants it, one function for each shape, so that it is compiled once."""
    from mbi import MarginalLossFn

    attributes = tuple(range(cells.bit_length() - 1))

    def loss(marginals, measurement):
        rows, noisy = measurement
        residual = rows @ marginals.project(attributes).datavector() - noisy
        return 0.5 * residual @ residual

    return lambda rows, noisy, bend: MarginalLossFn([attributes], loss, (rows, noisy), bend)


def mirror_descent(rows, noisy, size):
    """The histogram of Private-PGM, whose graph is complete for three-way marginals: one clique of all attributes."""
    import jax
    import mbi

    jax.config.update("jax_enable_x64", val=True)
    d = rows.shape[1].bit_length() - 1
    domain = mbi.Domain(tuple(range(d)), (2,) * d)
    loss = _loss(*rows.shape)(rows, noisy, float(np.linalg.norm(rows, 2)) ** 2)
    model = mbi.estimation.MirrorDescent().estimate(domain, loss, known_total=float(size), iters=PGM_STEPS)
    return np.asarray(model.project(tuple(range(d))).datavector(), dtype=float)


def at_temperature_0(comparison):
    """The part of a comparison without entropic estimates."""
    indices = [i for i, setting in enumerate(comparison.settings) if setting.temperature == 0]
    return dataclasses.replace(
        comparison,
        settings=tuple(comparison.settings[i] for i in indices),
        errors=comparison.errors[indices],
        deviations=comparison.deviations[indices],
        unprojected=comparison.unprojected[indices],
        bounds=tuple(comparison.bounds[i] for i in indices),
    )


def decided(workload, size):
    """Return a cell of the table: the settings that are chosen for a size without data."""
    s = 1 / curves.gaussian_mu(EPSILON, DELTA)
    designs = workload.candidates(small.indices(len(workload.rows), workload.cells, size, s))
    comparison = small.simulate(workload.rows, workload.m, designs, size, s, small.TEMPERATURES, Region.EXACTLY)
    nearest, warm = small.choose(at_temperature_0(comparison)), small.choose(comparison)
    paper = min(small.paper_index(EPSILON, size), len(workload.rows))
    return Cell(workload, size, s, nearest.setting, warm.setting, paper)


def hindsight(cell, runs):
    """The setting of least error on the databases of the table, its error, and that of the choice on the same runs."""
    workload, n = cell.workload, cell.size
    ks = small.indices(len(workload.rows), workload.cells, n, cell.multiplier)
    settings = [Setting(d.index, t) for d in workload.candidates(ks) for t in small.TEMPERATURES]
    errors = np.zeros(len(settings))
    for run in range(runs):
        rng = np.random.default_rng([n, run])
        truth, z = workload.rows @ workload.draw(n, rng), rng.normal(size=len(workload.rows))
        errors += [cell.chosen(setting, truth, z) / runs for setting in settings]
    best = int(np.argmin(errors))
    return settings[best], float(errors[best]), float(errors[settings.index(cell.warm)])


@dataclass(frozen=True)
class Result:
    """An error: its mean, and its standard error over the runs, or None if exact. note: the chosen setting.

    ratio: the mean over that of `OURS`. spread: its standard error, from differences of paired runs; None if exact.
    """

    mean: float
    deviation: float | None
    note: str = ""
    ratio: float | None = None
    ratio_error: float | None = None


OURS = "fitnoise, k and temperature chosen"
"""The line that others are compared with."""


def scatter(values):
    """The standard error of a mean; infinite for one value."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def averaged(values, ours, note=""):
    values, ours = np.asarray(values), np.asarray(ours)
    ratio = float(values.mean() / ours.mean())
    error = scatter(values - ratio * ours) / float(ours.mean())
    return Result(float(values.mean()), scatter(values), note, ratio, error)


def measured(cell, runs, rounds=ROUNDS, *, pgm=False):
    """All errors of a cell, by mechanism."""
    workload, n, s = cell.workload, cell.size, cell.multiplier
    rank = len(workload.rows)
    longest = float((workload.rows**2).sum(axis=0).max())
    errors = {}
    rho = curves.zcdp_rho(EPSILON, DELTA)
    singles = tuple(np.arange(workload.m)[:, None])
    kinds = {"": singles} | ({", tables": workload.tables} if workload.tables else {})
    for run in range(runs):
        rng = np.random.default_rng([n, run])
        x = workload.draw(n, rng)
        truth, z = workload.rows @ x, rng.normal(size=rank)
        one = {
            "uniform guess": cell.error(workload.rows.mean(axis=1) * n, truth),
            "paper, its constant": cell.printed(paper_multiplier(EPSILON, DELTA), truth, z),
            "paper, exact constant": cell.printed(s, truth, z),
            "paper's k, on the hull": cell.projected(cell.paper, truth, z, Region.HULL),
            "paper's k, on histograms": cell.projected(cell.paper, truth, z),
            "equal noise, on histograms": cell.projected(1, truth, z),
            "least variance, on histograms": cell.projected(rank, truth, z),
            "fitnoise, k chosen": cell.chosen(cell.nearest, truth, z),
            "fitnoise, k and temperature chosen": cell.chosen(cell.warm, truth, z),
        }
        for name, questions in kinds.items():
            for count in rounds:
                generator = np.random.default_rng([n, run, count])
                guess = mwem(workload, questions, x, count, rho, generator)
                one[f"MWEM {count}{name}"] = cell.error(workload.rows @ guess, truth)
        if pgm and workload.tables:
            one["PGM, equal noise"] = cell.graphical(Setting(1, 0.0), truth, z)
            one["PGM, our k"] = cell.graphical(cell.nearest, truth, z)
        for name, value in one.items():
            errors.setdefault(name, []).append(value)
    notes = {
        "fitnoise, k chosen": f"k = {cell.nearest.index}",
        "fitnoise, k and temperature chosen": f"k = {cell.warm.index}, τ = {cell.warm.temperature:g}",
        "paper's k, on the hull": f"k = {cell.paper}",
    }
    results = {name: averaged(values, errors[OURS], notes.get(name, "")) for name, values in errors.items()}
    best = min((name for name in results if name.startswith("MWEM")), key=lambda name: results[name].mean)
    results["MWEM"] = dataclasses.replace(results[best], note=f"T = {best.removeprefix('MWEM ')}")
    gaussian_errors = {k: s**2 * float(workload.design(k).variances.sum()) / workload.m for k in (1, rank)}
    gaussian_errors = {
        "each query alone": s**2 * longest,
        "plain, equal noise": gaussian_errors[1],
        "plain, least variance": gaussian_errors[rank],
    }
    results |= {name: Result(x, None, ratio=x / results[OURS].mean) for name, x in gaussian_errors.items()}
    return {name: results[name] for name in LINES if name in results}


LINES = (
    "uniform guess",
    "each query alone",
    "plain, equal noise",
    "plain, least variance",
    "paper, its constant",
    "paper, exact constant",
    "paper's k, on the hull",
    "paper's k, on histograms",
    "equal noise, on histograms",
    "least variance, on histograms",
    "fitnoise, k chosen",
    "fitnoise, k and temperature chosen",
    "MWEM",
    "PGM, equal noise",
    "PGM, our k",
)

# --- tables ------------------------------------------------------------------------------------------------------


def plain_number(x):
    """Three significant digits, without an exponent."""
    digits = max(0, 2 - math.floor(math.log10(abs(x)))) if x else 0
    return f"{round(x, 2 - math.floor(math.log10(abs(x)))) if x else 0:,.{min(digits, 3)}f}"


def result_text(result):
    """An error with its standard error and its note."""
    if result is None:
        return "–"
    text = plain_number(result.mean)
    if result.deviation is not None and math.isfinite(result.deviation):
        text += f" ± {result.deviation:.2g}" if result.deviation < 100 else f" ± {result.deviation:,.0f}"
    return text + (f" ({result.note})" if result.note else "")


def table(title, results):
    """Markdown: mechanisms down, numbers of records across."""
    sizes = list(results)
    names = [name for name in LINES if any(name in by_name for by_name in results.values())]
    lines = [f"### {title}", "", "| | " + " | ".join(f"n = {n}" for n in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    lines += ["| " + " | ".join([name, *(result_text(results[n].get(name)) for n in sizes)]) + " |" for name in names]
    return "\n".join([*lines, ""])


def flat(key, runs, results):
    """Rows for the CSV."""
    return [
        {
            "workload": key,
            "n": n,
            "mechanism": name,
            "mean squared error": result.mean,
            "standard error": result.deviation,
            "over fitnoise": result.ratio,
            "standard error of that": result.ratio_error,
            "runs": 0 if result.deviation is None else runs,
            "chosen": result.note,
        }
        for n, by_name in results.items()
        for name, result in by_name.items()
    ]


def produce(key, options):
    """Measure a workload, print it, and write its files."""
    start = time.perf_counter()
    workload, results = WORKLOADS[key](), {}
    for n in options.sizes:
        print(f"{key}, n = {n}: {time.perf_counter() - start:.0f} s so far", file=sys.stderr, flush=True)
        cell = decided(workload, n)
        if options.hindsight:
            best, min_error, chosen_error = hindsight(cell, options.runs)
            print(
                f"{key}, n = {n}: k = {best.index}, τ = {best.temperature:g} has {min_error:.4g}, "
                f"the choice {chosen_error:.4g}"
            )
            continue
        results[n] = measured(cell, options.runs, options.rounds, pgm=options.pgm)
    if options.hindsight:
        return results
    title = f"{workload.title}: m = {workload.m:,}, r = {len(workload.rows)}, N = {workload.cells:,}"
    text = table(title, results)
    print(text, flush=True)
    print(f"{key}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / f"projection_{key}.md").write_text(text, encoding="utf-8")
        write(options.output / f"projection_{key}.csv", flat(key, options.runs, results))
    return results


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Compare the projection mechanism for small databases with others.")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="where to write; default: only print")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="default: all")
    parser.add_argument("--sizes", nargs="+", type=integer, default=list(SIZES), metavar="N", help="numbers of records")
    parser.add_argument("--runs", type=integer, default=20, metavar="N", help="databases for each size, default 20")
    parser.add_argument("--rounds", nargs="+", type=integer, default=list(ROUNDS), metavar="T", help="of MWEM")
    parser.add_argument("--pgm", action="store_true", help="marginals by mbi too, which must be installed")
    parser.add_argument("--hindsight", action="store_true", help="only compare the choice with the best setting")
    options = parser.parse_args(arguments)
    for key in options.workloads:
        produce(key, options)


if __name__ == "__main__":
    main()
