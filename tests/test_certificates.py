import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
from conftest import zoo_plan
from dense import workload_matrix, workload_variances
from fitnoise.certificates import Certificate, lower_bound
from fitnoise.errors import PlanError

ADD = fn.Neighbours.ADD_OR_REMOVE_ONE
REPLACE = fn.Neighbours.REPLACE_ONE
NAMES = ["five structured cells", "crossed", "prefix", "reals of low rank", "marginals", "one cell"]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NAMES), st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 10.0]))
def test_any_weights_prove_a_true_bound(name, seed, spread):
    """Whatever the weights, the bound is below what the integer strategy costs (for either relation)."""
    plan = zoo_plan(name)
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(plan.decomposition.cells, spread))
    q = rng.dirichlet(np.full(len(plan.decomposition.variances), spread))
    assert lower_bound(plan.decomposition, p, q, ADD) <= plan.cost_squared
    assert lower_bound(plan.decomposition, p, q, REPLACE) <= float(plan.strategy.cost_squared(REPLACE))


def test_the_bound_can_be_weak_but_the_best_weights_are_not():
    plan = zoo_plan("prefix")
    p, q = plan.weights
    n = len(p)
    uniform = lower_bound(plan.decomposition, np.full(n, 1 / n), np.full(len(q), 1 / len(q)), ADD)
    assert uniform < 0.999 * plan.cost_squared
    assert lower_bound(plan.decomposition, p, q, ADD) > (1 - 1e-6) * plan.cost_squared


def test_replace_one_is_the_dense_average_over_pairs(rng):
    """C = Σ_ij π_ij (e_i − e_j)(e_i − e_j)ᵀ over records that differ in every exchangeable attribute."""
    plan = zoo_plan("five structured cells")
    d, w = plan.decomposition, plan.publication.workload
    p, q = rng.dirichlet(np.ones(d.cells)), rng.dirichlet(np.ones(len(d.variances)))
    differ = np.ones((1, 1))
    for n in d.sizes:
        differ = np.kron(differ, (1 - np.eye(n)) / (n * (n - 1)))
    pairs = np.kron(differ, np.outer(p, p))
    assert pairs.sum() == pytest.approx(1)
    moment = np.diag(pairs.sum(axis=0) + pairs.sum(axis=1)) - pairs - pairs.T
    values, vectors = np.linalg.eigh(moment)
    root = vectors * np.sqrt(np.maximum(values, 0))
    each = np.concatenate(
        [
            np.broadcast_to(
                q[x.rows].reshape(x.inner_shape) / d.table_cells(t), (*(d.sizes[a] for a in x.axes), *x.inner_shape)
            )
            .transpose(x.transpose)
            .ravel()
            for t, x in enumerate(d.layouts)
        ]
    )
    scaled = np.sqrt(each / workload_variances(w))[:, None] * workload_matrix(w)
    expected = np.linalg.svd(scaled @ root, compute_uv=False).sum() ** 2
    assert lower_bound(d, p, q, REPLACE) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("bad", ["negative", "nan", "zero", "short"])
def test_weights_that_are_no_weights_prove_nothing(which, bad):
    plan = zoo_plan("prefix")
    weights = [w.copy() for w in plan.weights]
    w = weights[which]
    if bad == "negative":
        w[0] = -1e-9
    elif bad == "nan":
        w[0] = np.nan
    elif bad == "zero":
        w[:] = 0
    else:
        weights[which] = w[1:]
    with pytest.raises(PlanError, match=f"dual weights {'pq'[which]} must be"):
        lower_bound(plan.decomposition, *weights, ADD)


def test_a_certificate_cannot_claim_to_beat_its_bound():
    assert Certificate(2.0, 1.0).gap == 1.0
    assert Certificate(1.0, 1.0 + 1e-12).gap == 0.0
    for value, bound in ((1.0, 1.1), (1.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)):
        with pytest.raises(PlanError, match="0 < bound ≤ value"):
            Certificate(value, bound)


def test_cancellation_does_not_raise_the_bound_for_replace_one():
    """A total is free under replace-one; what rounding leaves of it must not count, however unequal the targets."""
    w = fn.matrix_workload(np.array([[1, 1, 1], [1, 0, 0]]), variances=[1e-22, 1e10])
    d = fn.plan(fn.matrix_workload(np.array([[1, 1, 1], [1, 0, 0]]), variances=1)).decomposition
    d = dataclasses.replace(
        d, layouts=tuple(dataclasses.replace(x, variances=w.tables[0].variances(w.domain, 0.95)) for x in d.layouts)
    )
    assert lower_bound(d, np.full(3, 1 / 3), np.full(2, 0.5), REPLACE) <= 1e-10
