"""Weigh the kinds of sets of records of one unit, for a bound with given weights of cells and numbers.

Kind k has m records that differ in some exchangeable attributes, with equal or with independent other values. F_kS is
its mean cost in sector S relative to one record (:class:`DistinctRecords`), and c_S the norm of S for single records.
With weights λ of sum 1, ν = Σ_S c_S √f_S, f_S = Σ_k λ_k F_kS, is concave in λ.

**Method.** λ_k ← λ_k Σ_S c_S F_kS/(√f_S ν) keeps the sum of the weights, and does not lower ν.

**Trust.** The weights only choose an evidence: :func:`lower_bound` proves its bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fitnoise.solving.certificates import DistinctRecords, Evidence, ObjectiveTerms, sector_norms
from fitnoise.solving.sectors import Decomposition

STEPS = 1000
"""The number of steps in which weights rise or fall."""

MAX_SIZES = 128
"""The largest number of sizes of sets that are weighed, from single records to the largest sets."""

MIN_WEIGHT = 1e-6
"""The least weight of a kind in the evidence, of 1 in all: kinds of less weight are left out."""

MIN_COST = float(np.finfo(np.float64).tiny)


def weigh_kinds(d: Decomposition, evidence: Evidence, terms: ObjectiveTerms, distinct: DistinctRecords) -> Evidence:
    """Return the evidence with weights of the kinds that prove more with its other weights.

    Args:
        d: The problem.
        evidence: Weights of the cells and the numbers.
        terms: The quantity that is minimised.
        distinct: The attributes in which the records of a unit differ.
    """
    sizes = np.unique(np.linspace(1, distinct.max_records, MAX_SIZES).round().astype(int)).tolist()
    kinds = [(m, is_equal) for m in sizes for is_equal in (True, False)]
    norms = np.concatenate(sector_norms(d, evidence, terms))
    costs = np.array([np.concatenate([distinct.factors(((*kind, 1.0),), g) for g in d.groups]) for kind in kinds])
    weights = np.full(len(kinds), 1 / len(kinds))
    for _ in range(STEPS):
        weights = weights * (costs @ (norms / np.sqrt(np.maximum(weights @ costs, MIN_COST))))
        weights /= weights.sum()
    chosen = tuple((*kind, float(x)) for kind, x in zip(kinds, weights, strict=True) if x >= MIN_WEIGHT)
    return replace(evidence, distinct_weights=chosen)
