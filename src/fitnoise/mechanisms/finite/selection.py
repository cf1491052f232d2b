"""The choice of the mechanism for a question, without data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, final

import numpy as np

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.questions import Mechanism, graph_of
from fitnoise.kernel.exact_powers import DENSE_LIMIT
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms.finite.accuracy import points
from fitnoise.mechanisms.finite.box import clamped_staircase, lazy_tight_constraints
from fitnoise.mechanisms.finite.optimal import MechanismChoice, best_mechanism
from fitnoise.mechanisms.finite.priors import checked_prior, uniform
from fitnoise.mechanisms.finite.ranks import by_ranks
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.request.domain import Domain
from fitnoise.request.finite_queries import Aim, FiniteQuery

# Below the ε of tight constraints, a residual column has the best hit rate, with rare large errors.
MAX_HIT_RATE_LOSS = 0.02
"""Part of the best hit rate that may be lost for a smaller mean squared error."""

# Above it, mechanisms that take minutes are left out.
MAX_RESULTS_ALL_TRIED = 800
"""Most results for which all mechanisms are compared."""


@final
@dataclass(frozen=True, eq=False)
class ChosenMechanism:
    """A mechanism for a question, and the comparison behind it.

    mechanism: Its answers are the best guesses for its outputs under the prior.
    reasons: The reason for the choice.
    choice: The comparison; None if there are too many results, or if the mechanism uses more than the true answer.
    """

    mechanism: Mechanism
    reasons: tuple[Message, ...]
    choice: MechanismChoice | None


def choose(query: FiniteQuery, domain: Domain, adjacency: Adjacency) -> ChosenMechanism:
    """Choose the mechanism for a question, with the best guesses for its outputs. Reads no data; always the same.

    Medians and quantiles are answered by ranks, unless the question has a prior or another aim than the hit rate. All
    other mechanisms use the true answer alone.

    Raises:
        WorkloadError: The question, or its prior, cannot be used.
        PlanError: No mechanism exists.
    """
    question = query.in_domain(domain)
    ranks = question.ranks(adjacency)
    if ranks is not None and query.prior is None and query.aim is Aim.HIT_RATE:
        ranked = (Message("report.finite.ranks"),)
        return ChosenMechanism(
            by_ranks(query.graph(domain, adjacency), question.record_epsilon(adjacency), ranks), ranked, None
        )
    return _chosen(question.shape(domain.axes, adjacency), question.record_epsilon(adjacency), query.prior, query.aim)


# Questions can differ by name alone, and a comparison can take minutes.
@lru_cache(maxsize=32)
def _chosen(shape: tuple[Any, ...], epsilon: Fraction, prior: tuple[float, ...] | None, aim: Aim) -> ChosenMechanism:
    graph = graph_of(shape)
    if graph.n > DENSE_LIMIT:
        if prior is not None or aim is not Aim.HIT_RATE:
            raise WorkloadError(
                "prior-needs-fewer-results",
                f"The question has {graph.n:,} results, and a prior or an aim other than the hit rate is set.",
                f"A prior and such an aim need at most {DENSE_LIMIT:,} results.",
                "Remove the prior and the aim, or choose a coarser question.",
                "Nothing was planned.",
            )
        return _without_table(graph, epsilon)
    pi = uniform(graph) if prior is None else checked_prior(graph.n, prior)
    x = points(graph.results)
    gain = None
    if aim is not Aim.HIT_RATE:
        if x is None:
            raise WorkloadError(
                "aim-needs-numbers",
                "The aim is about errors, and the results are not numbers.",
                "",
                "Use the hit rate as the aim.",
                "Nothing was planned.",
            )
        away = np.abs(x[:, None, :] - x[None, :, :])
        gain = -(away if aim is Aim.MEAN_ABSOLUTE_ERROR else away**2).sum(axis=2)
    choice = best_mechanism(
        graph, epsilon, pi, gain, slow_limit=MAX_RESULTS_ALL_TRIED, slack=MAX_HIT_RATE_LOSS if gain is None else 0.0
    )
    # The outputs of the chosen mechanism are read as the best guesses under the prior.
    read = FiniteMechanism(
        graph, choice.mechanism.epsilon, choice.mechanism.family, choice.mechanism.weights, choice.guesses
    )
    return ChosenMechanism(read, (choice.reason,), choice)


def _without_table(graph: QueryGraph, epsilon: Fraction) -> ChosenMechanism:
    try:
        reason = Message("report.finite.tight_constraints")
        return ChosenMechanism(lazy_tight_constraints(graph, epsilon), (reason,), None)
    except PlanError as error:
        # It exists for every ε, so the question has an answer where tight constraints have none.
        noise = clamped_staircase(graph, epsilon)
        size = Value("results", graph.n, ValueKind.COUNT)
        failed = Message("report.finite.error", (Value("error", error.given),))
        return ChosenMechanism(noise, (Message("report.finite.staircase", (size,)), failed), None)
