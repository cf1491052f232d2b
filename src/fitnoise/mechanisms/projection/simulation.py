"""Choice of noise and estimate for small databases, without data: by simulation of both on public histograms.

A database of at most n records is measured as R x + w, w ~ N(0, s² Σ). Here Σ is the Ky Fan design of index k.
The answers are the nearest that some database of n records gives, or those of an entropic estimate of some temperature
τ. k = 1 is equal noise in all directions, and k = r the least total variance. Neither is best for n below a few times
r, and nor is the source's k = ⌊ε n⌋. So the module chooses k and τ by simulation on public histograms, with
pseudo-random numbers of a fixed generator. It reads no data, and the choice has no privacy cost.

**Symbols.** All quantities are in row space.

| letter | meaning |
|---|---|
| R (r, N) | factor with the Gram matrix AᵀA of the m queries A (m, N); b_e are its columns |
| s | noise multiplier, the standard deviation of noise at sensitivity 1: s² = 1/(2ρ), or 1/μ² |
| σ₁ ≥ σ₂ ≥ … | eigenvalues of Σ |
| Π_j | projector on the first j eigenvectors of Σ |

A mean squared error per query is a squared distance in row space over m. Errors are in people², their roots in people.

**Statement.** Let z be the nearest answers in a convex set L that holds the true answers y. With x² = 𝔼‖z − y‖²,
v = (I − Π_j) w, H = 𝔼‖Π_j w‖² = s² Σ_{i≤j} σ_i and W = 𝔼 max_{l∈L} vᵀl, for every j,

    x ≤ (H^½ + (H + 4 W)^½)/2.

If the first j directions stay unchanged and the others are projected, x² ≤ H + W.

**Proof.** (z − y)ᵀ(z − y − w) ≤ 0, so for every j

    ‖z − y‖² ≤ (Π_j w)ᵀ(z − y) + vᵀ(z − y) ≤ ‖Π_j w‖ ‖z − y‖ + max_{l∈L} vᵀl − vᵀy.

vᵀy is 0 in expectation, so x² ≤ H^½ x + W, which is the statement. ∎

**Source.** A. Nikolov, "An improved private mechanism for small databases", ICALP 2015, Algorithm 1, Lemma 3.0.2 and
Theorem 2.1. The bound without a split, the public simulation and the choice are this project's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from fitnoise.algebra.backends import one_thread
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import checked_integer, checked_positive
from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection.regions import Estimator, entropy_weight
from fitnoise.messages import Content, Message, Value, ValueKind
from fitnoise.reporting import ReportColumn, ReportTable, aligned
from fitnoise.request.publication import MAX_TEMPERATURE, Setting
from fitnoise.solving.fixed_random import FixedGenerator
from fitnoise.solving.ky_fan import KyFanDesign, ky_fan_design
from fitnoise.solving.statuses import status_message

KINDS = ("uniform", "Dirichlet 0.2", "Dirichlet 0.02", "few cells")
"""Kinds of public histograms, from flat to spiked."""

# On the other kind the uniform guess is poor at any n, so a comparison with it says nothing.
FLAT_KINDS = KINDS[:3]
"""Kinds that fill many cells."""

KIND_HEADINGS = {
    "uniform": Message("report.heading.kind_uniform"),
    "few cells": Message("report.heading.kind_few_cells"),
    **{
        f"Dirichlet {alpha:g}": Message("report.heading.kind_dirichlet", (Value("alpha", alpha, ValueKind.NUMBER),))
        for alpha in (0.2, 0.02)
    },
}
"""The headings of the kinds."""

SPIKE_CELLS = (1, 4, 16, 64)
"""Numbers of drawn cells of the last kind, one number for each histogram."""

DRAWS = len(SPIKE_CELLS)
"""Number of histograms of each of the four kinds."""

# The smallest positive one is needed from a thousand records on.
TEMPERATURES = (0.0, 0.01, 0.03, 0.1)
"""Temperatures τ in the comparison."""

# The simulated error changes by about as much as the gap.
COMPARISON_GAP = 1e-4
"""Gap of designs that are only compared."""

UNIFORM_ERROR_FRACTION = 0.8
"""Ratio to the error of the uniform guess above which the noise gains too little for its privacy cost."""

ESTIMATE_TOLERANCE = 1e-4
"""Squared distance of a simulated estimate from the exact one, over the expected squared length of the noise."""

# The streams do not overlap, since each needs fewer than 2⁴⁰ numbers.
NOISES, HISTOGRAMS = 2**40, 0
"""Starts of the two number streams."""

FIRST_INDEX = 5
"""Least k above 1 in the comparison; the next ones are twice as large each."""

# --- public histograms --------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class PublicHistogram:
    """A histogram that anyone can draw.

    kind: One of KINDS.
    draw: Its number among those of its kind, from 0.
    counts: x ≥ 0, (N,), integers, Σx = n.
    """

    kind: str
    draw: int
    counts: Floats

    @property
    def name(self) -> str:
        """The kind, and the number counted from 1."""
        return f"{self.kind}, {self.draw + 1}"


def public_histograms(cells: int, size: int) -> tuple[PublicHistogram, ...]:
    """Return DRAWS histograms of n records on N cells for each of the KINDS, the same in every call.

    The draws come from fixed pseudorandom numbers, never from data.

    | kind | records |
    |---|---|
    | uniform | n, each in a cell that is drawn uniformly |
    | Dirichlet α | n, each in cell e with probability p_e, p drawn from the symmetric Dirichlet law of parameter α |
    | few cells | n, spread evenly over k cells that are drawn with repetition; each of the DRAWS has another k |

    Args:
        cells: N, at least 1.
        size: n, at least 1.

    Raises:
        WorkloadError: `cells` or `size` is not an integer of at least 1.

    **Guarantees**
        * The counts are integers of sum n, equal in every call.
    """
    n_cells, n = checked_integer("cells", cells), checked_integer("size", size)
    rng = FixedGenerator(HISTOGRAMS)
    histograms = []
    for kind in KINDS:
        for draw in range(DRAWS):
            if kind == "few cells":
                places = rng.integers(0, n_cells, (SPIKE_CELLS[draw],))
                records = places[np.arange(n) % len(places)]
            elif kind == "uniform":
                records = rng.integers(0, n_cells, (n,))
            else:
                records = _sample_cells(_dirichlet(rng, n_cells, float(kind.split()[1])), rng.uniform(0, 1, (n,)))
            histograms.append(PublicHistogram(kind, draw, np.bincount(records, minlength=n_cells).astype(np.float64)))
    return tuple(histograms)


def _dirichlet(rng: FixedGenerator, cells: int, alpha: float) -> Floats:
    """Return a draw of the symmetric Dirichlet law of parameter α: weights of sum 1, (N,)."""
    # Never 0, whose logarithm is infinite.
    u = rng.uniform(2.0**-54, 1.0, (2, cells))
    # Gamma(α) is Gamma(1 + α) U^(1/α). In logarithms, as it underflows for small α.
    logs = np.log(gammaincinv(1 + alpha, u[0])) + np.log(u[1]) / alpha
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _sample_cells(weights: Floats, uniform: Floats) -> NDArray[np.int64]:
    """Return the cell of each record, by inversion."""
    # The rounded sum of the weights can be below a drawn number close to 1.
    return np.minimum(np.searchsorted(np.cumsum(weights), uniform, side="right"), len(weights) - 1)


# --- candidates ---------------------------------------------------------------------------------------------------


def indices(rank: int, cells: int, size: int, multiplier: float) -> tuple[int, ...]:
    """Return the k to compare: 1, then 5, 10, 20, … up to 2 n √(2 ln 2N)/s, and r.

    At that limit the two terms of Lemma 3.0.2 are equal for a flat Σ. It is ⌊ε n⌋ of the source without its constants,
    and simulation prefers smaller k. Numbers above 0.8 r are left out, since they are close to r.

    Args:
        rank: r, at least 1.
        cells: N, the number of cells.
        size: n, the number of records.
        multiplier: s, the noise multiplier.

    Raises:
        WorkloadError: `rank`, `cells` or `size` is not an integer of at least 1, or `multiplier` is not positive and
            finite.
    """
    r, n, s = checked_integer("rank", rank), checked_integer("size", size), _multiplier(multiplier)
    limit = min(0.8 * r, 2 * n * _root_log(2 * checked_integer("cells", cells)) / s)
    chosen, k = [1], FIRST_INDEX
    while k <= limit:
        chosen.append(k)
        k *= 2
    return tuple(chosen) if r == 1 else (*chosen, r)


def candidate_designs(rows: Floats, ks: Sequence[int]) -> tuple[KyFanDesign, ...]:
    """Return the Ky Fan designs of some indices, accurate enough to compare. Solve the chosen one again at 1e-6.

    A design after the first that has no spikes is left out: it is equal noise in all directions, that of k = 1.

    Args:
        rows: R, (r, N).
        ks: Indices, rising from 1, as from :func:`indices`.

    Raises:
        WorkloadError: An argument is refused as in `ky_fan_design`.
        PlanError: The solver fails as in `ky_fan_design`.
    """
    with one_thread():
        designs = [ky_fan_design(rows, k, tolerance=COMPARISON_GAP) for k in ks]
    return tuple(design for i, design in enumerate(designs) if design.spikes or not i)


def penalty(rows: Floats, design: KyFanDesign, multiplier: float, temperature: float) -> float:
    """Return λ = τ s mean_e (b_eᵀ Σ b_e)^½, the weight of the entropy relative to half a squared distance; in people².

    s (b_eᵀ Σ b_e)^½ is the standard deviation of b_eᵀ w, the noise in the slope at cell e.

    Raises:
        WorkloadError: τ is not from 0 to MAX_TEMPERATURE, or s is not positive.
    """
    _warm(temperature)
    return entropy_weight(rows, _multiplier(multiplier) * design.factor, temperature)


# --- proven bounds ------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Bounds:
    """Upper bounds of the expected mean squared error per query of the nearest answers, for any database allowed.

    region: The set of the projection.
    index, spikes: k and t of the design.
    head: s² Σ_{i≤j} σ_i/m for j = 0, …, r, (r + 1,), the error of the first j directions if they stay unchanged.
    split: Bound for the estimate that keeps them and projects the others, (r + 1,).
    unsplit: Bounds for the estimate that projects all, (r + 1,). Each is valid, since that estimate has no split.
    """

    region: Region
    index: int
    spikes: int
    head: Floats
    split: Floats
    unsplit: Floats

    @property
    def lemma(self) -> float:
        """The bound of Lemma 3.0.2, with the split at k, the index of the design."""
        return float(self.split[self.index])

    @property
    def at_spikes(self) -> float:
        """The bound with the split at the spikes."""
        return float(self.split[self.spikes])

    @property
    def best(self) -> float:
        """The least bound for the estimate that projects all."""
        return float(self.unsplit.min())


def bounds(
    design: KyFanDesign, rows: Floats, size: int, multiplier: float, m: int, region: Region = Region.AT_MOST
) -> Bounds:
    """Return the bounds of Lemma 3.0.2 for every split, and without one.

    With H_j = s² Σ_{i≤j} σ_i and W_j = n s max_e (b_eᵀ (I − Π_j) Σ b_e)^½ √(2 ln M),

        split at j:   (H_j + W_j)/m,
        no split:     (H_j^½ + (H_j + 4 W_j)^½)²/4m, for every j.

    W_j is at least the expected largest product of the region with the noise outside the first j directions. M is the
    number of Gaussians in that maximum: N + 1 for AT_MOST, with 0 among them, N for EXACTLY, and 2N for HULL.

    Args:
        design: The design with the covariance Σ.
        rows: R, (r, N).
        size: n, the number of records.
        multiplier: s, the noise multiplier.
        m: The number of queries.
        region: The set of the projection.

    Raises:
        WorkloadError: A number is not positive.

    **Guarantees**
        * Each bound is at least the expected mean squared error of its estimate, up to rounding, for every database of
          the region: the nearest answers (τ = 0), all projected, or projected off the first j directions.
        * The bounds do not cover an entropic estimate, which has no such bound here.
        * All directions after the spikes have equal variance in Σ; a split takes them in the order of the basis.
        * `unsplit` at j = r is the error of the noise itself, s² tr Σ/m: a projection never increases it.

    **Source.** Lemma 3.0.2, whose 4 W is W here. The other regions, and the bound without a split, are this project's.
    """
    n, s = checked_integer("size", size), _multiplier(multiplier)
    queries, region = checked_integer("m", m), Region(region)
    cells = rows.shape[1]
    count = {Region.AT_MOST: cells + 1, Region.EXACTLY: cells, Region.HULL: 2 * cells}[region]
    contributions = design.variances[:, None] * (design.basis.T @ rows) ** 2
    # From the end: row j is the largest b_eᵀ (I − Π_j) Σ b_e over all cells e.
    tails = np.cumsum(contributions[::-1], axis=0)[::-1].max(axis=1)
    width = n * s * _root_log(count) * np.sqrt(np.append(tails, 0.0))
    head = s**2 * np.append(0.0, np.cumsum(design.variances))
    unsplit = (np.sqrt(head) + np.sqrt(head + 4 * width)) ** 2 / 4
    return Bounds(region, design.index, design.spikes, head / queries, (head + width) / queries, unsplit / queries)


# --- simulation ---------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SettingComparison:
    """Simulated errors of every setting on every kind of histogram.

    m, rank, size, multiplier, region: The arguments of the simulation.
    kinds: Kinds of histograms, (h,).
    settings: The settings, (c,).
    errors: Mean squared error per query, (c, h).
    deviations: Their standard errors, (c, h).
    samples: Number of simulated databases for each error.
    guesses: Errors of the uniform guess A (n/N) 1, which reads no data, (h,).
    unprojected: s² tr Σ/m of each setting, before projection, (c,).
    bounds: Bounds of the design of each setting, (c,).
    """

    m: int
    rank: int
    size: int
    multiplier: float
    region: Region
    kinds: tuple[str, ...]
    settings: tuple[Setting, ...]
    errors: Floats
    deviations: Floats
    samples: int
    guesses: Floats
    unprojected: Floats
    bounds: tuple[Bounds, ...]

    @property
    def regrets(self) -> Floats:
        """Error over the least error on that kind of histogram, at least 1 (c, h)."""
        min_errors = self.errors.min(axis=0)
        # Where the least error is 0, a setting of error 0 has no regret, and any other an infinite one.
        limit = np.where(self.errors > 0, math.inf, 1.0)
        return np.asarray(np.divide(self.errors, min_errors, out=limit, where=min_errors > 0))


def simulate(
    rows: Floats,
    m: int,
    designs: Sequence[KyFanDesign],
    size: int,
    multiplier: float,
    temperatures: Sequence[float] = TEMPERATURES,
    region: Region = Region.AT_MOST,
    repeats: int = 1,
) -> SettingComparison:
    """Measure public histograms with every design, estimate at every temperature, and average the squared errors.

    The noise is s Σ^½ z, Σ^½ the symmetric root, with the same standard normal z (r,) for all settings. Common noise
    makes differences between settings more precise than the single errors. All histograms have n records. If n is only
    a bound, nearest answers are at least about as accurate for smaller databases, and warm estimates less accurate.

    Args:
        rows: R, (r, N).
        m: The number of queries.
        designs: One design for each Ky Fan index k, for these rows; Σ is its covariance.
        size: n, the number of records.
        multiplier: s, the noise multiplier.
        temperatures: τ, from 0 (nearest answers) to MAX_TEMPERATURE (above 0, warm estimates); only 0 on HULL.
        region: The set of the projection.
        repeats: Number of noises for each histogram.

    Raises:
        WorkloadError: There is no design or temperature, τ is out of range, or a number is not positive. It is also
            raised for τ > 0 on HULL, and for a design of other queries.

    **Guarantees**
        * The function reads no data. With one version of NumPy and SciPy, the comparison is the same every time.
        * Every setting uses the same histograms and the same z.
    """
    region = Region(region)
    if not designs or not temperatures:
        raise WorkloadError(
            "comparison-without-settings",
            "The comparison has no design, or no temperature.",
            "",
            "Give at least one design and one temperature.",
            "Nothing was simulated.",
        )
    queries = checked_integer("m", m)
    settings = [(design, temperature) for design in designs for temperature in temperatures]
    squares: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    guesses: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with one_thread():
        ways = [_PreparedSetting(rows, design, size, multiplier, t, region) for design, t in settings]
        flat = rows.mean(axis=1) * size
        for histogram, truth, z in _databases(rows, size, repeats):
            squares[histogram.kind].append([float((way.error(truth, z) ** 2).sum()) for way in ways])
            guesses[histogram.kind].append(float(((truth - flat) ** 2).sum()))
    all_errors = np.array([squares[kind] for kind in KINDS]) / queries  # (h, samples, c)
    samples = all_errors.shape[1]
    return SettingComparison(
        m=queries,
        rank=designs[0].rank,
        size=size,
        multiplier=multiplier,
        region=region,
        kinds=KINDS,
        settings=tuple(Setting(design.index, t) for design, t in settings),
        errors=all_errors.mean(axis=1).T,
        deviations=all_errors.std(axis=1, ddof=1).T / math.sqrt(samples),
        samples=samples,
        guesses=np.array([np.mean(guesses[kind]) for kind in KINDS]) / queries,
        unprojected=np.array([multiplier**2 * float(design.variances.sum()) / queries for design, _ in settings]),
        bounds=tuple(bounds(design, rows, size, multiplier, queries, region) for design, _ in settings),
    )


def error_samples(
    rows: Floats,
    design: KyFanDesign,
    size: int,
    multiplier: float,
    temperature: float,
    region: Region = Region.AT_MOST,
    repeats: int = 8,
    head: Floats | None = None,
) -> dict[str, Floats]:
    """Return estimate less truth in row space (samples, r), for each kind of public histograms.

    The root mean squares of these errors, lifted to the queries, guide the reader of the released numbers. They are no
    guarantee.

    Args:
        rows: R, (r, N).
        design: The design with the covariance Σ.
        size: n, the number of records.
        multiplier: s, the noise multiplier.
        temperature: τ, the amount of entropy; 0 for the nearest answers.
        region: The set of the projection.
        repeats: Number of noises for each histogram.
        head: Orthonormal directions (r, k) that stay as measured. The others are projected on the hull, as in Algorithm
            1, for any region and temperature. None for no such directions.

    Raises:
        WorkloadError: An argument is refused as in :func:`simulate`, or the head is not orthonormal.

    **Guarantees**
        * The function reads no data, and returns the same numbers every time, as :func:`simulate` does.
    """
    errors: dict[str, list[Floats]] = {kind: [] for kind in KINDS}
    with one_thread():
        way = _PreparedSetting(rows, design, size, multiplier, temperature, region, head)
        for histogram, truth, z in _databases(rows, size, repeats):
            errors[histogram.kind].append(way.error(truth, z))
    return {kind: np.array(samples) for kind, samples in errors.items()}


def _databases(rows: Floats, size: int, repeats: int) -> Iterator[tuple[PublicHistogram, Floats, Floats]]:
    """Yield every public histogram `repeats` times, with its answers (r,) and a new standard normal z (r,)."""
    rng = FixedGenerator(NOISES)
    for histogram in public_histograms(rows.shape[1], size):
        truth = rows @ histogram.counts
        for _ in range(checked_integer("repeats", repeats)):
            yield histogram, truth, rng.normal(0.0, 1.0, (len(rows),))


@final
class _PreparedSetting:
    """One setting, with its noise and its estimate."""

    def __init__(
        self,
        rows: Floats,
        design: KyFanDesign,
        size: int,
        multiplier: float,
        temperature: float,
        region: Region,
        head: Floats | None = None,
    ) -> None:
        region = Region(region)
        if temperature and region is Region.HULL:
            raise WorkloadError(
                "temperature-on-hull",
                "The temperature is above 0, and the region is the hull.",
                "The entropic estimate has weights x ≥ 0, which the hull of ±columns does not have.",
                "Give the temperature 0, or another region.",
                "Nothing was simulated.",
            )
        if design.basis.shape[0] != len(rows):
            raise WorkloadError(
                "design-row-count",
                f"The design has {design.basis.shape[0]} rows, and the queries have {len(rows)}.",
                "",
                "Give the design of these queries.",
                "Nothing was simulated.",
            )
        weight = penalty(rows, design, multiplier, temperature)
        self.estimate = Estimator(rows, checked_integer("size", size), region, weight, head)
        self.root = multiplier * np.sqrt(design.variances)
        self.basis = design.basis
        self.enough = ESTIMATE_TOLERANCE * float((self.root**2).sum())

    def noise(self, z: Floats) -> Floats:
        """Return w = s Σ^½ z (r,)."""
        return np.asarray(self.basis @ (self.root * (self.basis.T @ z)))

    def error(self, truth: Floats, z: Floats) -> Floats:
        """Return estimate less truth (r,)."""
        noisy = truth + self.noise(z)
        # The squared distance of entropic answers is at most twice the gap.
        tolerance = self.enough / 2 if self.estimate.weight else self.enough
        _, answers = self.estimate(noisy, tolerance)
        return np.asarray(answers - truth)


# --- choice -------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SettingChoice:
    """The chosen setting, and the comparison behind the choice.

    setting: The chosen k and temperature τ.
    position: Its index in the comparison.
    regret: Its largest regret over kinds of histograms.
    warnings: Messages; possibly none.
    """

    comparison: SettingComparison
    setting: Setting
    position: int
    regret: float
    warnings: tuple[Message, ...]

    @property
    def errors(self) -> Floats:
        """Its simulated mean squared error per query on each kind of histogram (h,)."""
        return np.asarray(self.comparison.errors[self.position])

    @property
    def bounds(self) -> Bounds:
        """The proven bounds for its noise, at temperature 0."""
        return self.comparison.bounds[self.position]

    def table(self) -> str:
        """Return the comparison as lines of text, with a mark at the chosen line."""
        return "\n".join(aligned(self.compared()))

    def compared(self) -> ReportTable:
        """Return the comparison, a row for each setting: mean squared errors per query in people².

        A warm setting has no bound.
        """
        c = self.comparison
        columns = (
            ReportColumn("chosen", "", spoken=True),
            ReportColumn("index", Message("report.heading.index"), ValueKind.COUNT),
            ReportColumn("spikes", Message("report.heading.spikes"), ValueKind.COUNT, spoken=True),
            ReportColumn("temperature", Message("report.heading.temperature"), ValueKind.NUMBER),
            ReportColumn("errors"),
            *(ReportColumn(kind, KIND_HEADINGS[kind], ValueKind.SIMULATED, spoken=True) for kind in c.kinds),
            ReportColumn("regret", Message("report.heading.regret"), ValueKind.RATIO, spoken=True),
            ReportColumn("plain", Message("report.heading.unprojected"), ValueKind.PEOPLE, spoken=True),
            ReportColumn("bound", Message("report.heading.bound"), ValueKind.PEOPLE, spoken=True),
            ReportColumn("split at k", Message("report.heading.split_at_index"), ValueKind.PEOPLE, spoken=True),
            ReportColumn("split at t", Message("report.heading.split_at_spikes"), ValueKind.PEOPLE, spoken=True),
        )
        guess = ("", "", "", Message("report.label.uniform_guess"), None, *c.guesses.tolist(), *[None] * 5)
        return ReportTable("settings", columns, tuple(map(self._row, range(len(c.settings)))), foot=(guess,))

    def _row(self, i: int) -> tuple[Content, ...]:
        c, setting, proven = self.comparison, self.comparison.settings[i], self.comparison.bounds[i]
        mark, regret, errors = "*" if i == self.position else "", float(c.regrets[i].max()), c.errors[i].tolist()
        head = (mark, setting.index, proven.spikes, setting.temperature, dict(zip(c.kinds, errors, strict=True)))
        bounds = (None,) * 3 if setting.temperature else (proven.best, proven.lemma, proven.at_spikes)
        tail = (regret if math.isfinite(regret) else None, float(c.unprojected[i]), *bounds)
        return (*head, *zip(errors, c.deviations[i].tolist(), strict=True), *tail)


def choose(comparison: SettingComparison) -> SettingChoice:
    """Return the setting of least largest regret over the kinds of histograms; the first of equals.

    The regret of a setting on a kind of histogram is its simulated error over the least simulated error of any setting
    on that kind. A warning states one of these:

        * The noise gains nothing: on no kind of FLAT_KINDS is the error below UNIFORM_ERROR_FRACTION times that of the
          uniform guess.
        * The kinds of FLAT_KINDS without a gain, if the error is below that limit on some other kind of FLAT_KINDS.
        * k ≥ r is the plain mechanism of least total variance, before projection.

    Args:
        comparison: The result of :func:`simulate`.

    **Guarantees**
        * The choice is a function of the comparison, hence of no data.
    """
    worst = comparison.regrets.max(axis=1)
    position = int(np.argmin(worst))
    setting, regret = comparison.settings[position], float(worst[position])
    return SettingChoice(comparison, setting, position, regret, tuple(_warnings(comparison, position)))


def _warnings(comparison: SettingComparison, position: int) -> Iterator[Message]:
    errors = dict(zip(comparison.kinds, comparison.errors[position], strict=True))
    guess = dict(zip(comparison.kinds, comparison.guesses, strict=True))
    without_gain = [kind for kind in FLAT_KINDS if errors[kind] >= UNIFORM_ERROR_FRACTION * guess[kind]]
    simulated = {"limit": UNIFORM_ERROR_FRACTION, "size": comparison.size}
    # One warning in place of one for each kind.
    if len(without_gain) == len(FLAT_KINDS):
        yield status_message("report.status.near_all", **simulated)
        yield status_message("report.status.near_all_advice")
        without_gain = []
    for kind in without_gain:
        _, _, alpha = kind.partition(" ")
        if alpha:
            yield status_message("report.status.near_dirichlet", alpha=float(alpha), **simulated)
        else:
            yield status_message("report.status.near_uniform", **simulated)
    if comparison.settings[position].index >= comparison.rank:
        yield status_message("report.status.rank", rank=comparison.rank)


# --- the mechanism as printed -------------------------------------------------------------------------------------


def paper_index(epsilon: float | Fraction, size: int) -> int:
    """Return k = ⌊ε n⌋ of Algorithm 1; a float counts as the decimal that it prints as.

    Raises:
        WorkloadError: ε is not positive and finite, n is not an integer of at least 1, or ε n < 1.

    **Source.** Algorithm 1.
    """
    n = checked_integer("size", size)
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise WorkloadError(
            "paper-epsilon-out-of-range",
            f"ε is {epsilon!r}.",
            "",
            "Give a positive finite ε.",
            "Nothing was planned.",
        )
    # 0.3 as a float is below 3/10, so that ⌊ε n⌋ of the float would be 2 for n = 10.
    exact = epsilon if isinstance(epsilon, Fraction) else Fraction(repr(float(epsilon)))
    k = math.floor(exact * n)
    if k == 0:
        raise WorkloadError(
            "paper-index-zero",
            f"⌊ε n⌋ is 0 for ε = {float(epsilon):g} and {n} records.",
            "The printed mechanism is not defined there, and its noise is as large as the answers.",
            "Answer uniformly, which reads no data, or spend more.",
            "Nothing was planned.",
        )
    return k


# --- refused arguments --------------------------------------------------------------------------------------------


def _multiplier(s: float) -> float:
    return checked_positive("the noise multiplier", s)


def _warm(temperature: float) -> None:
    if not 0 <= temperature <= MAX_TEMPERATURE:
        raise WorkloadError(
            "temperature-out-of-range",
            f"The temperature is {temperature!r}.",
            f"Above {MAX_TEMPERATURE:g}, the estimate smooths too much.",
            f"Give a temperature from 0 to {MAX_TEMPERATURE:g}.",
            "Nothing was planned.",
        )


def _root_log(count: int) -> float:
    """Return √(2 ln count)."""
    return math.sqrt(2 * math.log(count))
