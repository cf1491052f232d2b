"""The workloads of the zoo as problems of several kinds, and evidence for them."""

from functools import cache

import numpy as np
import pytest

from fitnoise.mechanisms.gaussian.formulation import AllPairs, Formulation
from fitnoise.request.known_totals import KnownTotals
from fitnoise.solving import sectors
from fitnoise.solving.certificates import Evidence, ObjectiveTerms
from zoo.workloads import WORKLOADS

OBJECTIVES = ("targets", "total error", "hybrid", "budgets", "pairs", "pairs or alone", "structure", "pairs, structure")
"""Kinds of problem: what is minimised, over which neighbours, with tables as matrices or by structure."""


def terms(d, kind):
    """Return the objective of a kind of problem; weights and budgets differ between numbers and between cells."""
    m = len(d.variances)
    if kind == "total error":
        return ObjectiveTerms(weights=1 + np.arange(m) % 5 / 2)
    if kind == "hybrid":
        return ObjectiveTerms(weights=(1 + np.arange(m) % 5 / 2) / d.variances, trade=0.3)
    if kind == "budgets":
        return ObjectiveTerms(relative=1 / (1 + np.arange(d.cells) % 3), factor=4)
    return ObjectiveTerms(allows_add_or_remove=kind == "pairs or alone")


@cache
def formulation(name, kind="targets"):
    """A workload of the zoo as a problem of one of the kinds; the same one for all that look at it."""
    with pytest.MonkeyPatch.context() as patch:
        if "structure" in kind:
            patch.setattr(sectors, "MAX_ROWS_PER_CELL", 0)
        # Where records are replaced, their number is public. These two tables have nothing else.
        is_known = kind.startswith("pairs") and "alone" not in kind and name not in ("total", "one cell")
        public = KnownTotals((), "Register") if is_known else None
        d = sectors.decompose(WORKLOADS[name](), public=public)
    return Formulation(d, terms(d, kind), pairs=all_pairs(d, kind))


def all_pairs(d, kind):
    return AllPairs(d, ObjectiveTerms(allows_add_or_remove="alone" in kind)) if "pairs" in kind else None


def evidence(form, kind, p, q):
    """Weights of a problem of one of the kinds, as evidence."""
    d = form.decomposition
    weights = q[:0] if kind == "total error" else form.unfold(q)
    return all_pairs(d, kind).evidence(p, weights) if "pairs" in kind else Evidence(p, weights)
