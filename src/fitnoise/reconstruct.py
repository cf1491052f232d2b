"""Rebuilding: from noisy answers to consistent tables and exact covariances. Post-processing only.

This room cannot see data: it imports neither `measure` nor `counting`, and takes a plan and a vector of noisy integers.

    θ_S = (⊗ H_aᵀ/g_a ⊗ A_S⁻¹) y_S                      sector estimates
    table A = Σ_{S⊆A} lift of θ_S, / Π_{a∈A∖S} n_a, L_{A,S}    so common margins of tables agree by construction
    cov(f, h) = Σ_S ⟨u_S(f), u_S(h)⟩                        for any linear combinations f, h of published numbers
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fitnoise.errors import ReleaseError
from fitnoise.plans import Plan
from fitnoise.sectors import Floats
from fitnoise.strategy import Integers, axis_rows, uncentre, whitener


def estimates(plan: Plan, answers: Sequence[Integers]) -> list[Floats]:
    """Sector estimates θ_S, each of shape (n_a for a in S…, k).

    Raises:
        ReleaseError: answers that are not the plan's.
    """
    sectors = plan.strategy.sectors
    if [len(y) for y in answers] != [s.answers for s in sectors]:
        raise ReleaseError("the noisy answers are not those of this plan; nothing was rebuilt.")
    out = []
    for s, y in zip(sectors, answers, strict=True):
        shape = [*(axis_rows(n) for n in s.sizes), len(s.basis)]
        theta = np.asarray(y, dtype=np.float64).reshape(shape) @ s.inverse.T
        for axis, n in enumerate(s.sizes):
            theta = uncentre(theta, axis, n)
        out.append(theta)
    return out


def tables(plan: Plan, answers: Sequence[Integers]) -> dict[str, Floats]:
    """Every table of the plan, in the table's shape.

    **Guarantees**
        * each number is an unbiased estimate of the true count, with the variance the plan states (or less, by the
          discreteness of the noise);
        * sums of two tables over what they share agree, up to floating point.
    """
    d = plan.decomposition
    theta = estimates(plan, answers)
    out = {}
    for t, (table, layout) in enumerate(zip(plan.publication.workload.tables, d.layouts, strict=True)):
        shape = tuple(d.sizes[a] for a in layout.axes)
        total = np.zeros((*shape, len(layout.variances)))
        for sector, estimate in zip(d.sectors, theta, strict=True):
            if t not in sector.members:
                continue
            inner = sector.answers(t, estimate)
            total += _lift(inner, sector.attributes, layout.axes, shape)
        full = total.reshape(shape + layout.inner_shape)
        out[table.name] = full.transpose(layout.transpose)
    return out


def _lift(inner: Floats, attributes: tuple[int, ...], axes: tuple[int, ...], shape: tuple[int, ...]) -> Floats:
    """Spread a sector's share evenly over the table's other exchangeable axes."""
    present = [a for a in axes if a in attributes]
    ordered = inner.transpose([*(attributes.index(a) for a in present), inner.ndim - 1])
    expanded = ordered.reshape(
        [n if a in attributes else 1 for a, n in zip(axes, shape, strict=True)] + [inner.shape[-1]]
    )
    rest = math.prod(n for a, n in zip(axes, shape, strict=True) if a not in attributes)
    return expanded / rest


def pull_back(plan: Plan, combination: Mapping[str, Floats]) -> list[Floats]:
    """u_S(f) for the combination f = Σ_A ⟨f_A, table_A⟩: one tensor per sector, with cov(f, h) = Σ_S ⟨u_S(f), u_S(h)⟩.

    Args:
        plan: the plan.
        combination: for some of the tables, a coefficient for each of its numbers, in the table's shape.

    Raises:
        ReleaseError: an unknown table or coefficients of another shape.
    """
    d = plan.decomposition
    workload = plan.publication.workload
    names = [t.name for t in workload.tables]
    arranged: dict[int, Floats] = {}
    for name, given in combination.items():
        if name not in names:
            raise ReleaseError(f"no table {name!r}; the release has {names}.")
        t = names.index(name)
        layout = d.layouts[t]
        outer = tuple(d.sizes[a] for a in layout.axes)
        coefficients = np.asarray(given, dtype=np.float64)
        expected = workload.tables[t].shape(workload.domain)
        if coefficients.shape != expected or not np.isfinite(coefficients).all():
            raise ReleaseError(
                f"table {name!r} needs finite coefficients of shape {expected}; got {coefficients.shape}."
            )
        back = np.argsort(layout.transpose)
        arranged[t] = coefficients.transpose(back).reshape(*outer, -1)
    out = []
    for sector, measured in zip(d.sectors, plan.strategy.sectors, strict=True):
        total = np.zeros((*sector.sizes, len(sector.basis)))
        for t in sector.members:
            if t not in arranged:
                continue
            axes = d.layouts[t].axes
            away = tuple(i for i, a in enumerate(axes) if a not in sector.attributes)
            summed = arranged[t].sum(axis=away) / math.prod(d.sizes[axes[i]] for i in away)
            present = [a for a in axes if a in sector.attributes]
            ordered = summed.transpose([*(present.index(a) for a in sector.attributes), summed.ndim - 1])
            total += sector.pulled(t, ordered) @ whitener(measured)
        for axis in range(len(sector.sizes)):
            total = total - total.mean(axis=axis, keepdims=True)
        out.append(total)
    return out


def covariance(plan: Plan, f: Mapping[str, Floats], h: Mapping[str, Floats]) -> float:
    """Covariance of two combinations in people², exact for Gaussian noise; cov(f, f) bounds the discrete noise's."""
    pairs = zip(pull_back(plan, f), pull_back(plan, h), strict=True)
    return float(sum((u * v).sum() for u, v in pairs))
