"""Half-widths of the noise of combinations of several linear forms, row by row.

The intervals of other statistics use them: an interval has all values whose linear hypothesis is not rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.laplace import laplace_sums
from fitnoise.mechanisms.numbers import TableNumbers
from fitnoise.reading.linear_forms import AnswerSource, Forms, refuse_shared_noise
from fitnoise.request.targets import checked_confidence, z_score


class Law(Protocol):
    """The law of the noise of q forms a row, f_1 … f_q, in J rows."""

    @property
    def normal(self) -> bool:
        """True if their noise is treated as jointly normal."""

    @property
    def slack(self) -> float:
        """The largest relative excess of half-widths over the least ones."""

    @property
    def covariances(self) -> Floats:
        """The covariances of the forms of each row, (J, q, q)."""

    def half_widths(self, factors: Floats, confidence: float) -> Floats:
        """Return each m with P(|noise of Σ r_k f_k| ≤ m) ≥ confidence, (J,), for fixed factors r (J, q)."""


def law(*forms: Forms) -> Law:
    """Return the joint law of the noise of some forms in each row.

    Raises:
        ReleaseError: Some forms are from a combination of releases, and others from a release in it. Or they are from
            two periods of one series.
    """
    sources = {s for f in forms for s in f.sources}
    refuse_shared_noise(sources)
    return Normal(forms) if all(s.normal for s in sources) else LaplaceSums(forms)


def level(confidence: float, numbers: int, *, normal: bool, simultaneous: bool) -> float:
    """Return the confidence of each interval: `confidence` itself, or if `simultaneous` one for which all hold at once.

    For normal noise the level is γ^(1/n) (Šidák), and otherwise 1 − (1 − γ)/n (Bonferroni). Bonferroni's is also the
    level for tests that are not two-sided tests of centred normal noise.

    Args:
        confidence: γ, the confidence of one interval, or of all jointly if `simultaneous`.
        numbers: n, the number of intervals or tests.
        normal: True for two-sided tests of centred normal noise.
        simultaneous: True if all hold at once.

    Raises:
        WorkloadError: The confidence is not in (0, 1).
    """
    gamma = checked_confidence(confidence)
    if not simultaneous or numbers < 2:
        return gamma
    # Šidák (1967): |Z_1| ≤ c_1, …, |Z_n| ≤ c_n hold jointly with at least the probability for independent normal Z. So
    # γ^(1/n) for each is enough, for forms and for ratios, whose tests are tests of forms.
    return gamma ** (1 / numbers) if normal else 1 - (1 - gamma) / numbers


def _covariances(forms: Sequence[Forms]) -> Floats:
    out = np.empty((forms[0].length, len(forms), len(forms)))
    for i, f in enumerate(forms):
        for j, h in enumerate(forms[: i + 1]):
            out[:, i, j] = out[:, j, i] = f.covariances(h)
        out[:, i, i] = np.maximum(out[:, i, i], 0.0)  # rounding can put a variance of 0 below 0
    return out


@final
@dataclass(frozen=True, eq=False)
class Normal:
    """Jointly normal noise."""

    forms: Sequence[Forms]
    normal = True
    slack = 0.0

    @cached_property
    def covariances(self) -> Floats:
        """The covariances of the forms of each row, (J, q, q)."""
        return _covariances(self.forms)

    def half_widths(self, factors: Floats, confidence: float) -> Floats:
        """Return normal quantiles times the standard error."""
        variances = np.einsum("ji,jik,jk->j", factors, self.covariances, factors)
        return np.asarray(z_score(confidence) * np.sqrt(np.maximum(variances, 0.0)))


@final
@dataclass(frozen=True, eq=False)
class IdenticalNoiseLaw:
    """Rows whose forms have equal noise, except for an exchange of values.

    rows: The indices of the rows.
    normal: The covariances of the normal noise in the forms, (q, q).
    sums: For each pure source, the coefficients of single noises in the forms, (q, D), and the number of noises with
    each of these, (D,).
    """

    rows: Indices
    normal: Floats
    sums: Sequence[tuple[Floats, Floats]]


@final
@dataclass(frozen=True, eq=False)
class LaplaceSums:
    """Sums of independent discrete Laplace noises of pure parts, with or without normal noise of other parts.

    Rows that differ only in the values of exchangeable attributes have equal noise, except for an exchange of values.
    One of them is computed for all.
    """

    forms: Sequence[Forms]
    normal = False

    @property
    def slack(self) -> float:
        """The slack of `laplace_sums.half_width`."""
        return laplace_sums.HALF_WIDTH_TOLERANCE + laplace_sums.LATTICE / min(self._scales)

    @cached_property
    def covariances(self) -> Floats:
        """The covariances of the forms of each row, (J, q, q)."""
        return _covariances(self.forms)

    @cached_property
    def _origins(self) -> tuple[list[AnswerSource], list[AnswerSource]]:
        """The sources of normal noise, and the other sources."""
        sources = dict.fromkeys(s for f in self.forms for source in f.sources for s in source.parts)
        return [s for s in sources if s.normal], [s for s in sources if not s.normal]

    @cached_property
    def _scales(self) -> list[float]:
        return [single_noises(s, {})[1] for s in self._origins[1]]  # one scale for all combinations of a part

    @cached_property
    def _identical_laws(self) -> list[IdenticalNoiseLaw]:
        """The rows in groups of equal noise, each with the noise of its forms."""
        kinds: dict[object, list[int]] = {}
        for row in range(self.forms[0].length):
            # a law of Laplace sums takes long to compute, and rows that differ only by an exchange of values share it
            kinds.setdefault(self._kind(row), []).append(row)
        return [self._law_of_rows(np.array(rows)) for rows in kinds.values()]

    def _law_of_rows(self, rows: Indices) -> IdenticalNoiseLaw:
        """Return the noise of rows of equal noise, computed for the first of them."""
        tensors, (normal, pure) = [form.tensors(int(rows[0])) for form in self.forms], self._origins
        varied = np.zeros((len(tensors), len(tensors)))
        for s in normal:
            varied += [[rebuilding.covariance(s.part, f.get(s, {}), h.get(s, {})) for h in tensors] for f in tensors]
        sums = []
        for s in pure:
            # noises of equal coefficients have one law: a large table has few distinct columns
            noises = np.stack([single_noises(s, f.get(s, {}))[0] for f in tensors])
            columns, counts = np.unique(noises, axis=1, return_counts=True)
            sums.append((columns, counts.astype(np.float64)))
        return IdenticalNoiseLaw(rows, varied, sums)

    def _kind(self, row: int) -> object:
        """Return a key that is equal for rows with equal noise: it numbers exchangeable values by appearance."""
        numbering: dict[tuple[AnswerSource, int, int], int] = {}
        out: list[object] = []
        for k, form in enumerate(self.forms):
            for source, table, indices, factors in form.entries(row):
                for positions, numbers in TableNumbers(source.part, table, indices).blocks():
                    axes = {a: v.tolist() for a, v in numbers.axes.items()}
                    pairs = zip(numbers.inner.tolist(), factors[positions].tolist(), strict=True)
                    for i, (inner, factor) in enumerate(pairs):
                        seen = ((source, a, v[i]) for a, v in axes.items())
                        # −1 is a sum over all values, which no exchange of values changes
                        places = [x[2] if x[2] < 0 else numbering.setdefault(x, len(numbering)) for x in seen]
                        out.append((k, source, numbers.table, inner, factor, *places))
        return tuple(out)

    def half_widths(self, factors: Floats, confidence: float) -> Floats:
        """Return half-widths from exact sums of Laplace noise, and from normal quantiles for normal noise."""
        out, (normal, pure) = np.empty(len(factors)), self._origins
        # one kind of noise for every pure part, one for all normal noise: each has its part of the allowed error, since
        # P(|X₁ + … + X_n| > m₁ + … + m_n) ≤ Σ P(|X_i| > m_i)
        each = level(confidence, len(pure) + bool(normal), normal=False, simultaneous=True)
        for noise_law in self._identical_laws:
            row_factors = factors[noise_law.rows]
            variances = np.einsum("ji,ik,jk->j", row_factors, noise_law.normal, row_factors)
            out[noise_law.rows] = z_score(each) * np.sqrt(np.maximum(variances, 0.0))
            for (columns, counts), scale in zip(noise_law.sums, self._scales, strict=True):
                out[noise_law.rows] += laplace_sums.half_width(row_factors @ columns, scale, each, counts)
        return out


def single_noises(source: AnswerSource, tensors: Mapping[str, Floats]) -> tuple[Floats, float]:
    """Return the coefficients of a pure part's single noises in a combination of its numbers, and their scale.

    Args:
        source: The answers of the part.
        tensors: By table, a coefficient for each of its numbers, in the table's shape.
    """
    part = source.with_measured_design
    noises = part.errors.noise_coefficients(rebuilding.adjoint(part, tensors))
    assert noises is not None  # noqa: S101 - the noise is not normal
    return noises
