"""Queries with finitely many results: their graphs, and their mechanisms."""

from __future__ import annotations

from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.graphs import QueryGraph, complete, disjoint_counts, independent_counts
from fitnoise.kernel.designs.implicit_mechanisms import ImplicitMechanism
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.kernel.designs.ranks import RankMechanism, RankScores
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.box import clamped_staircase, lazy_tight_constraints
from fitnoise.mechanisms.finite.existence import (
    Decision,
    Threshold,
    Verdict,
    existence,
    paper_threshold,
    regular,
    threshold,
)
from fitnoise.mechanisms.finite.families import (
    distance_kernel,
    from_probabilities,
    geometric,
    randomised_response,
    staircase,
    tight_constraints,
)
from fitnoise.mechanisms.finite.graphs import (
    bundle,
    cycle,
    derive,
    from_edges,
    from_networkx,
    from_sparse,
    hamming,
    path,
    product,
    sum_query,
)
from fitnoise.mechanisms.finite.optimal import (
    MechanismCandidate,
    MechanismChoice,
    Optimum,
    best_mechanism,
    optimal,
    residual_column,
)
from fitnoise.mechanisms.finite.priors import (
    HitBound,
    NearestRegular,
    Regularity,
    Shortfall,
    corner_priors,
    database_leakage_bound,
    hit_bound,
    leakage_bound,
    leakage_capacity,
    nearest_regular,
    regular_leakage_bound,
    regularity,
    shortfall,
    uniform,
)
from fitnoise.mechanisms.finite.ranks import by_ranks, rank_margin
from fitnoise.mechanisms.finite.similarity import GraphWeighting, Similarity, exact_weighting, weighting
from fitnoise.mechanisms.finite.weight_rows import from_integers
from fitnoise.request.finite_queries import Aim, FiniteQuery

__all__ = [
    "Aim",
    "ClampedMechanism",
    "Decision",
    "FiniteMechanism",
    "FiniteQuery",
    "GraphWeighting",
    "HitBound",
    "ImplicitMechanism",
    "MechanismCandidate",
    "MechanismChoice",
    "NearestRegular",
    "Optimum",
    "QueryGraph",
    "QuestionKind",
    "RankMechanism",
    "RankScores",
    "Regularity",
    "Shortfall",
    "Similarity",
    "Threshold",
    "Verdict",
    "accuracy",
    "best_mechanism",
    "bundle",
    "by_ranks",
    "clamped_staircase",
    "complete",
    "corner_priors",
    "cycle",
    "database_leakage_bound",
    "derive",
    "disjoint_counts",
    "distance_kernel",
    "exact_weighting",
    "existence",
    "from_edges",
    "from_integers",
    "from_networkx",
    "from_probabilities",
    "from_sparse",
    "geometric",
    "hamming",
    "hit_bound",
    "independent_counts",
    "lazy_tight_constraints",
    "leakage_bound",
    "leakage_capacity",
    "nearest_regular",
    "optimal",
    "paper_threshold",
    "path",
    "product",
    "randomised_response",
    "rank_margin",
    "regular",
    "regular_leakage_bound",
    "regularity",
    "residual_column",
    "shortfall",
    "staircase",
    "sum_query",
    "threshold",
    "tight_constraints",
    "uniform",
    "weighting",
]
