"""How far sums of a release's noise reach: half-widths for combinations of several linear forms, row by row.

Intervals of other statistics are made of these: of all values whose linear hypothesis they do not reject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final

import numpy as np

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.laplace import laplace_sums
from fitnoise.mechanisms.numbers import Numbers
from fitnoise.reading.forms import Forms, Source
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
        ReleaseError: noises of which no sum has an interval of proven coverage.
    """
    sources = tuple(dict.fromkeys(s for f in forms for s in f.sources))
    if all(s.part.mechanism.normal for s in sources):
        return Normal(forms)
    if len(sources) > 1:
        raise ReleaseError(
            "the numbers come from parts or releases with different kinds of noise, and no interval of proven coverage "
            "is known for what is made of both; ask for the numbers of each on their own."
        )
    return LaplaceSums(forms, sources[0])


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
class LaplaceSums:
    """Sums of independent discrete Laplace noises of one pure part.

    Rows that differ only in which values of exchangeable attributes they are about have the same noises, moved: one of
    them is looked at for all.
    """

    forms: Sequence[Forms]
    source: Source
    normal = False

    @property
    def slack(self) -> float:
        """As `laplace_sums.half_width` has it."""
        return laplace_sums.TOLERANCE + laplace_sums.LATTICE / self._scale

    @cached_property
    def covariances(self) -> Floats:
        """Of the forms of each row, (J, q, q)."""
        return _covariances(self.forms)

    @cached_property
    def _scale(self) -> float:
        return self._single({})[1]

    @cached_property
    def _alike(self) -> list[tuple[Indices, Floats, Floats]]:
        """Rows that are alike; coefficients of single noises in their forms, (q, D); how many have each of these."""
        kinds: dict[object, list[int]] = {}
        for row in range(self.forms[0].length):
            kinds.setdefault(self._kind(row), []).append(row)
        out = []
        for rows in kinds.values():
            own = np.stack([self._noises(f, rows[0]) for f in self.forms])
            columns, counts = np.unique(own, axis=1, return_counts=True)
            out.append((np.array(rows), columns, counts.astype(np.float64)))
        return out

    def _kind(self, row: int) -> object:
        """Equal for rows that are alike: exchangeable values are named in the order of their appearance."""
        named: dict[tuple[int, int], int] = {}
        out: list[object] = []
        for k, form in enumerate(self.forms):
            for source, table, at, factors in form.entries(row):
                own = Numbers(source.part, table, at)
                axes = {a: v.tolist() for a, v in own.axes.items()}
                for i, (inner, factor) in enumerate(zip(own.inner.tolist(), factors.tolist(), strict=True)):
                    seen = ((a, v[i]) for a, v in axes.items())
                    places = [x[1] if x[1] < 0 else named.setdefault(x, len(named)) for x in seen]
                    out.append((k, table, inner, factor, *places))
        return tuple(out)

    def _single(self, tensors: Mapping[str, Floats]) -> tuple[Floats, float]:
        part = self.source.part
        found = part.mechanism.single(part, rebuilding.pulled(part, tensors))
        assert found is not None  # noqa: S101 - the noise is not normal
        return found

    def _noises(self, form: Forms, row: int) -> Floats:
        return self._single(form.tensors(row).get(self.source, {}))[0]

    def half_widths(self, factors: Floats, confidence: float) -> Floats:
        """From exact sums of Laplace noise."""
        out = np.empty(len(factors))
        for rows, columns, counts in self._alike:
            out[rows] = laplace_sums.half_width(factors[rows] @ columns, self._scale, confidence, counts)
        return out
