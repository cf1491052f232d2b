"""How far sums of a release's noise reach: half-widths for combinations of several linear forms, row by row.

Intervals of other statistics are made of these: of all values whose linear hypothesis they do not reject.
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
from fitnoise.mechanisms.numbers import Numbers
from fitnoise.reading.forms import Forms, Source, apart
from fitnoise.request.targets import checked_confidence, z_score


class Law(Protocol):
    """Of q forms a row, f_1 … f_q."""

    @property
    def normal(self) -> bool:
        """Whether their noise is as good as jointly normal."""

    @property
    def slack(self) -> float:
        """By what part half-widths may be larger than the least ones."""

    @property
    def covariances(self) -> Floats:
        """Of the forms of each row, (J, q, q)."""

    def half_widths(self, factors: Floats, confidence: float) -> Floats:
        """Each m with P(|noise of Σ r_k f_k| ≤ m) ≥ confidence, (J,), for fixed factors r (J, q)."""


def law(*forms: Forms) -> Law:
    """What is known of some forms, row by row.

    Raises:
        ReleaseError: some are of a combination of releases, and others of a release that is in it.
    """
    sources = {s for f in forms for s in f.sources}
    apart(sources)
    return Normal(forms) if all(s.normal for s in sources) else LaplaceSums(forms)


def level(confidence: float, numbers: int, *, normal: bool, simultaneous: bool) -> float:
    """The confidence of each interval, that all of them hold at once with `confidence`.

    Šidák (1967): |Z_1| ≤ c_1, …, |Z_n| ≤ c_n hold together at least as often as if jointly normal Z were independent,
    so γ^(1/n) each will do, of forms and of ratios, whose tests are of forms. Of other noise 1 − (1 − γ)/n
    (Bonferroni), and of tests that are not two-sided ones of centred normal noise.
    """
    gamma = checked_confidence(confidence)
    if not simultaneous or numbers < 2:
        return gamma
    return gamma ** (1 / numbers) if normal else 1 - (1 - gamma) / numbers


def _covariances(forms: Sequence[Forms]) -> Floats:
    out = np.empty((forms[0].length, len(forms), len(forms)))
    for i, f in enumerate(forms):
        for j, h in enumerate(forms[: i + 1]):
            out[:, i, j] = out[:, j, i] = f.covariances(h)
        out[:, i, i] = np.maximum(out[:, i, i], 0.0)
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
        """Of the forms of each row, (J, q, q)."""
        return _covariances(self.forms)

    def half_widths(self, factors: Floats, confidence: float) -> Floats:
        """Normal quantiles times the standard error."""
        variances = np.einsum("ji,jik,jk->j", factors, self.covariances, factors)
        return np.asarray(z_score(confidence) * np.sqrt(np.maximum(variances, 0.0)))


@final
@dataclass(frozen=True, eq=False)
class Alike:
    """Rows whose forms have the same noises, moved.

    rows: which. normal: covariances of what is normal in the forms, (q, q). sums: for each pure source the coefficients
    of single noises in the forms, (q, D), and how many noises have each of these, (D,).
    """

    rows: Indices
    normal: Floats
    sums: Sequence[tuple[Floats, Floats]]


@final
@dataclass(frozen=True, eq=False)
class LaplaceSums:
    """Sums of independent discrete Laplace noises of pure parts, with normal noise of others beside them or without.

    P(|X₁ + … + X_n| > m₁ + … + m_n) ≤ Σ P(|X_i| > m_i), so that with several kinds each X_i has the confidence
    1 − (1 − γ)/n (Bonferroni): one for every pure part, and one for all that is normal.

    Rows that differ only in which values of exchangeable attributes they are about have the same noises, moved: one of
    them is looked at for all.
    """

    forms: Sequence[Forms]
    normal = False

    @property
    def slack(self) -> float:
        """As `laplace_sums.half_width` has it."""
        return laplace_sums.TOLERANCE + laplace_sums.LATTICE / min(self._scales)

    @cached_property
    def covariances(self) -> Floats:
        """Of the forms of each row, (J, q, q)."""
        return _covariances(self.forms)

    @cached_property
    def _origins(self) -> tuple[list[Source], list[Source]]:
        """Those of normal noise, and the others."""
        found = dict.fromkeys(s for f in self.forms for own in f.sources for s in own.parts)
        return [s for s in found if s.normal], [s for s in found if not s.normal]

    @cached_property
    def _scales(self) -> list[float]:
        return [single_noises(s, {})[1] for s in self._origins[1]]

    @cached_property
    def _alike(self) -> list[Alike]:
        kinds: dict[object, list[int]] = {}
        for row in range(self.forms[0].length):
            kinds.setdefault(self._kind(row), []).append(row)
        return [self._of(np.array(rows)) for rows in kinds.values()]

    def _of(self, rows: Indices) -> Alike:
        own, (normal, pure) = [form.tensors(int(rows[0])) for form in self.forms], self._origins
        varied = np.zeros((len(own), len(own)))
        for s in normal:
            varied += [[rebuilding.covariance(s.part, f.get(s, {}), h.get(s, {})) for h in own] for f in own]
        sums = []
        for s in pure:
            noises = np.stack([single_noises(s, f.get(s, {}))[0] for f in own])
            columns, counts = np.unique(noises, axis=1, return_counts=True)
            sums.append((columns, counts.astype(np.float64)))
        return Alike(rows, varied, sums)

    def _kind(self, row: int) -> object:
        """Equal for rows that are alike: exchangeable values are named in the order of their appearance."""
        named: dict[tuple[Source, int, int], int] = {}
        out: list[object] = []
        for k, form in enumerate(self.forms):
            for source, table, at, factors in form.entries(row):
                own = Numbers(source.part, table, at)
                axes = {a: v.tolist() for a, v in own.axes.items()}
                for i, (inner, factor) in enumerate(zip(own.inner.tolist(), factors.tolist(), strict=True)):
                    seen = ((source, a, v[i]) for a, v in axes.items())
                    places = [x[2] if x[2] < 0 else named.setdefault(x, len(named)) for x in seen]
                    out.append((k, source, table, inner, factor, *places))
        return tuple(out)

    def half_widths(self, factors: Floats, confidence: float) -> Floats:
        """From exact sums of Laplace noise, and normal quantiles for what is normal."""
        out, (normal, pure) = np.empty(len(factors)), self._origins
        each = level(confidence, len(pure) + bool(normal), normal=False, simultaneous=True)
        for alike in self._alike:
            own = factors[alike.rows]
            variances = np.einsum("ji,ik,jk->j", own, alike.normal, own)
            out[alike.rows] = z_score(each) * np.sqrt(np.maximum(variances, 0.0))
            for (columns, counts), scale in zip(alike.sums, self._scales, strict=True):
                out[alike.rows] += laplace_sums.half_width(own @ columns, scale, each, counts)
        return out


def single_noises(source: Source, tensors: Mapping[str, Floats]) -> tuple[Floats, float]:
    """The coefficient of every single noise of a pure part in a combination of its tables' numbers, and their scale."""
    part = source.measured
    found = part.mechanism.single(part, rebuilding.pulled(part, tensors))
    assert found is not None  # noqa: S101 - the noise is not normal
    return found
