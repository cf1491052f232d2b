"""What release.json says."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

from fitnoise.mechanisms.summaries import FiniteSummary
from fitnoise.planning.plan import Plan
from fitnoise.request.documents import Spec
from fitnoise.request.workloads import AtMost, Table

FORMAT = 2
"""Version of the release directory."""


def describe(plan: Plan, written: Sequence[str]) -> dict[str, Any]:
    """What release.json says: made from the plan and the names of the tables that have files."""
    publication = plan.publication
    unit = publication.unit
    every = len(written) == sum(len(p.workload.tables) for p in publication.groups)
    return {
        "fitnoise_release": FORMAT,
        "title": publication.title,
        "plan": plan.hash,
        **_said(plan, [p.mechanism.describe(p) for p in plan.groups], "mechanism"),
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
            for s, part in zip(
                plan.summaries, (x for p in plan.groups for x in p.publication.workload.tables.parts), strict=True
            )
        ],
        **({"finite": [_describe_finite(s) for s in plan.finite_summaries]} if plan.finite else {}),
        "written": "all" if every else list(written),
        **_said(plan, [p.mechanism.words(p) for p in plan.groups], "values"),
        "spec": Spec.of(publication).document(),
        "versions": {name: metadata.version(name) for name in ("fitnoise", "numpy", "duckdb")},
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


def _said(plan: Plan, each: list[Any], key: str) -> dict[str, Any]:
    """What is said of the tables: once where they are of one part, else part by part; nothing without tables."""
    if not each:
        return {}
    return {key: each[0]} if len(plan.groups) == 1 else {f"{key}s" if key == "mechanism" else key: each}


def _explain_columns(table: Table) -> dict[str, str]:
    views = dict(table.views)
    return {
        a: "counts records with at most this value" if isinstance(views.get(a), AtMost) else views[a].word
        for a in table.attributes
        if a in views
    }
