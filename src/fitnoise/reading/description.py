"""What release.json says."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np

from fitnoise.kernel.designs.margins import PureStrategy
from fitnoise.mechanisms.gaussian import report as gaussian
from fitnoise.mechanisms.projection import report as projection
from fitnoise.planning.documents import scales_document
from fitnoise.planning.plan import Plan
from fitnoise.planning.summaries import FiniteSummary
from fitnoise.request.documents import Spec
from fitnoise.request.workloads import AtMost, Table

FORMAT = 2
"""Version of the release directory."""


def describe(plan: Plan, written: Sequence[str]) -> dict[str, Any]:
    """What release.json says: made from the plan and the names of the tables that have files."""
    publication = plan.publication
    unit = publication.unit
    every = len(written) == len(publication.workload.tables)
    return {
        "fitnoise_release": FORMAT,
        "title": publication.title,
        "plan": plan.hash,
        "mechanism": _describe_noise(plan),
        "charge": {
            "rho": str(plan.exact_rho),
            **({} if plan.exact_epsilon is None else {"pure_epsilon": str(plan.exact_epsilon)}),
            "mu": plan.mu,
            "delta": publication.delta,
            "epsilon": plan.epsilon(),
            "epsilon_nominal": plan.epsilon(nominal=True),
            "source": publication.source.name,
            "privacy_unit": unit.describe(),
        },
        "tables": [
            {
                "name": s.name,
                "tables": s.tables,
                "columns": _explain_columns(part if isinstance(part, Table) else part.template),
                "numbers": s.numbers,
                "target": s.target,
                "confidence": s.confidence,
                "achieved_moe": s.achieved_moe,
            }
            for s, part in zip(plan.parts, publication.workload.tables.parts, strict=True)
        ],
        **({"finite": [_describe_finite(s) for s in plan.finite_summaries]} if plan.finite else {}),
        "written": "all" if every else list(written),
        "values": gaussian.UNBIASED if publication.small is None else projection.values(publication.small),
        "spec": Spec.of(publication).document(),
        "versions": {name: metadata.version(name) for name in ("fitnoise", "opendp", "numpy", "duckdb")},
    }


def _describe_finite(s: FiniteSummary) -> dict[str, Any]:
    return {
        "name": s.name,
        "query": s.question,
        "mechanism": s.family,
        "results": s.results,
        "pure_epsilon": s.epsilon,
        "hit_rate": s.hit_rate,
        "mae": s.mae,
        "rmse": s.rmse,
        "moe": s.moe,
        "confidence": s.confidence,
        "leakage_bits": s.leakage,
    }


def _describe_noise(plan: Plan) -> dict[str, Any]:
    names = np.array(plan.decomposition.exchangeable, dtype=object)
    small, setting = plan.publication.small, plan.setting
    known: dict[str, Any] = {}
    if small is not None and setting is not None:
        known = {
            "size": small.size,
            "region": small.region.value,
            "index": setting.index,
            "temperature": setting.temperature,
            "variant": small.variant.value,
        }
    if isinstance(plan.strategy, PureStrategy):
        return {
            "name": plan.mechanism,
            "noise": "independent discrete Laplace on integers",
            "scale": scales_document(np.array([plan.strategy.scale]))[0],
            "margins": [
                {"attributes": [str(names[a]) for a in m.attributes], "answers": n}
                for m, n in zip(plan.strategy.asked, plan.strategy.lengths, strict=True)
            ],
        }
    return {
        "name": plan.mechanism,
        **known,
        "noise": "independent discrete Gaussian on integers",
        "scales": [
            {
                "attributes": names[g.attributes].tolist(),
                "answers": g.answers.tolist(),
                "scales": scales_document(g.scales),
            }
            for g in plan.strategy.groups
        ],
    }


def _explain_columns(table: Table) -> dict[str, str]:
    views = dict(table.views)
    return {
        a: "counts records with at most this value" if isinstance(views.get(a), AtMost) else views[a].word
        for a in table.attributes
        if a in views
    }
