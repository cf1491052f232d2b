"""Laws of pairs of records for tables by axis: products, and a mixture over the attributes in which two records differ.

**Symbols** (others as in :mod:`fitnoise.solving.cores`).

| letter | meaning |
|---|---|
| Q_a, P_a | a symmetric law of two values of attribute a, (n', n'); the diagonal matrix of its margin p_a |
| D, λ_D | a set of attributes, and its weight; the weights have mass 1 |
| K_a | P_a^−½ Q_a P_a^−½; √p_a is its eigenvector of eigenvalue 1 |
| L_a, κ_a(e) | a basis of eigenvectors of K_a, the first √p_a; the eigenvalue of e |
| π_a, κ_a(π) | I − L_a L_aᵀ, and the one eigenvalue of K_a there |
| δ | the probability that two records differ |

**Statement.** Draw D from λ. Draw two values of each attribute in D from Q_a. Draw one value of each other attribute
from p_a, for both records. Then δ = 1 − Σ_D λ_D Π_{a∈D} tr Q_a. For a set H of attributes, and eigenvectors e_a of the
others, let

    γ_H(e) = 2 Σ_D λ_D (1 − Π_{a∈D∩H} κ_a(π) Π_{a∈D∖H} κ_a(e_a)).

Multiply each column e of the stack of H by γ_H(e)^½. Then Δ² ≥ (Σ_H ‖stack of H‖_*)²/δ.

**Proof.** A pair costs at most Δ², and two equal records cost 0. So tr(X C) ≤ δ Δ² for the measured precision X, with

    C = P^½ Γ P^½,    P = ⊗ P_a,    Γ = 2 Σ_D λ_D (I − ⊗_{a∈D} K_a ⊗_{a∉D} I).

As for the moment of p, it follows that δ Δ² ≥ ‖M Γ^½‖_*². All K_a leave L_a and its complement invariant. So Γ has the
eigenvalue γ_H(e) on every product of π_a for a ∈ H and of vectors e_a for a ∉ H. Take the Y_t of
:mod:`fitnoise.solving.cores`, with Z_H the polar factor of the stack with multiplied columns. Then tr(Y_tᵀ M_t Γ^½)
sums the traces of the multiplied stacks. ∎

**From any law to one that fits a core.** Let Q be any symmetric law. K' = L (LᵀKL) Lᵀ + κ(π) π has the eigenvector √p,
and κ(π) keeps the trace. P^½ K' P^½ may have entries below 0. So a mixture with p pᵀ, the least that has none, takes
its place. All eigenvalues but the first are then multiplied by one number. If L has all columns, nothing changes. One
κ(π) for the complement of L makes every factor exact: no rule about the signs of products of several κ is needed.

**A mixture of row weights.** A table may be stated several times, with q and θ of its own each time. The Gram matrices
add, so the weights of its rows are a mixture of products. Full cores lose nothing by that.

**Exchangeable attributes.** Q_a is uniform over pairs of different values: κ_a(π) = −1/(n − 1).

**Attributes of many values.** Q_a = (1 + η) p pᵀ − η P, with η the least p/(1 − p), has κ = −η outside √p. Every basis
is invariant, and a plan stores no matrix.

**Trust.** Weights can make the bound weak, never wrong. An allowance for rounding is taken from every γ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving.certificates import EPS

MAX_LAW_VALUES = 128
"""The largest number of values of an attribute whose law of pairs is a matrix of its own."""

MAX_DIFFERENCES = 1024
"""The largest number of kinds of sets D. Above it, the only set is that of all attributes."""


def differences(counts: Sequence[int]) -> Indices:
    """Return the kinds of sets D: the number of differing attributes of every kind, (types, kinds)."""
    if math.prod(n + 1 for n in counts) > MAX_DIFFERENCES:
        return np.array([list(counts)], dtype=np.intp)
    types = [d for d in itertools.product(*(range(n + 1) for n in counts)) if any(d)]
    return np.array(types, dtype=np.intp).reshape(len(types), len(counts))


def has_matrix(size: int) -> bool:
    """Return True if the law of an attribute with this number of values is a matrix of its own."""
    return size <= MAX_LAW_VALUES


def _eta(p: Floats) -> float:
    """Return η of an attribute of many values."""
    # A factor below the least quotient keeps the diagonal of the law at least 0 in spite of rounding.
    return float((p / np.maximum(1 - p, EPS)).min()) * (1 - 1e-9)


@final
@dataclass(frozen=True, eq=False)
class LawCore:
    """A law that leaves a core invariant.

    basis: L_a, (n', r).
    values: The eigenvalue of each column; the first is 1.
    outside: The eigenvalue outside L_a.
    agreement: tr Q, the probability that the two values are equal.
    """

    basis: Floats
    values: Floats
    outside: float
    agreement: float


@final
@dataclass(frozen=True, eq=False)
class PairLaws:
    """Q by kind, and λ by kind of D.

    axes: The number of attributes of every kind.
    laws: Q of every kind, (n', n'); empty for exchangeable kinds and those of many values.
    margins: p of every kind, (n',); for exchangeable kinds (n',) with equal entries.
    type_weights: λ, (types,), of mass 1. All sets D of one type have equal weights.
    exchangeable: True for each exchangeable kind.
    """

    axes: tuple[int, ...]
    laws: tuple[Floats, ...]
    margins: tuple[Floats, ...]
    type_weights: Floats
    exchangeable: tuple[bool, ...]

    @cached_property
    def types(self) -> Indices:
        """The kinds of sets D, (types, kinds)."""
        return differences(self.axes)

    @cached_property
    def allowance(self) -> float:
        """The rounding of γ that is taken from it: that of the eigenvalues of all attributes."""
        return 64 * EPS * sum(n * max(len(p), 4) for n, p in zip(self.axes, self.margins, strict=True))

    def core(self, kind: int, basis: Floats) -> LawCore:
        """Return the law of a kind that leaves a basis invariant, and is closest to its own.

        basis: Orthonormal columns, the first √p, (n', r); for exchangeable kinds (1, 1).
        """
        p, q = self.margins[kind], self.laws[kind]
        n, r = len(p), basis.shape[1]
        if self.exchangeable[kind]:
            return LawCore(basis, np.ones(1), -1 / (n - 1), 0.0)
        if not q.size:
            eta = _eta(p)
            return LawCore(basis, np.append(1.0, np.full(r - 1, -eta)), -eta, (1 + eta) * float(p @ p) - eta)
        root = np.sqrt(p)
        kernel = q / np.outer(root, root)
        inner = basis[:, 1:].T @ kernel @ basis[:, 1:]
        values, turn = np.linalg.eigh((inner + inner.T) / 2)
        basis = np.column_stack([basis[:, 0], basis[:, 1:] @ turn])
        outside = 0.0 if r == n else float(np.trace(kernel) - 1 - values.sum()) / (n - r)
        values = np.append(1.0, values)
        law = (basis * (values - outside)) @ basis.T + outside * np.eye(n)
        # A law has no negative entry. Next to √p√pᵀ, whose entries are positive, the others shrink until none is.
        min_ratio = float((law / np.outer(root, root)).min()) - 1e-9
        factor = 1 / (1 - min_ratio) if min_ratio < 0 else 1.0
        values[1:] *= factor
        equal = (1 - factor) * float(p @ p) + factor * float(np.diag(law) @ p)
        return LawCore(basis, values, factor * outside, equal)

    def chances(self, attributes: Sequence[int], differing: Sequence[int]) -> Floats:
        """Return, for each type of D, the probability that it has some attributes and none of some others, (types,).

        attributes: The kinds of all of these attributes.
        differing: The kinds of those in D.
        """
        key = tuple(sorted(attributes)), tuple(sorted(differing))
        if key not in self._chances:
            out = np.ones(len(self.types))
            for k in set(attributes):
                n, s, f = self.axes[k], attributes.count(k), differing.count(k)
                # D has d of the n attributes of this kind, and all sets of d are equally likely.
                by_count = [
                    math.comb(n - s, d - f) / math.comb(n, d) if f <= d <= n - s + f else 0.0 for d in range(n + 1)
                ]
                out = out * np.array(by_count)[self.types[:, k]]
            self._chances[key] = out
        return self._chances[key]

    @cached_property
    def _chances(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], Floats]:
        """The results of `chances`, by its arguments."""
        return {}
