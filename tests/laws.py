"""Laws: what every member of a zoo must obey. A new member costs a line in zoo.py."""

from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from dense import cell_order, strategy_matrix, workload_matrix, workload_variances
from fitnoise import measure as measuring
from fitnoise import noise, reconstruct, rules
from fitnoise.certificates import lower_bound
from fitnoise.counting import HistogramCounter
from fitnoise.plans import Plan
from tolerances import EXACT, GAP, LOOSE


def check_operator(a, rng):
    """Adjoint, linearity, dense agreement, norms, Gram: on vectors and on several columns at once."""
    m, n = a.shape
    x, x2, y = rng.normal(size=n), rng.normal(size=n), rng.normal(size=m)
    matrix = rules.dense(a)
    assert matrix.shape == (m, n)
    np.testing.assert_allclose(a.mv(x), matrix @ x, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(a.mv(2 * x - x2), 2 * a.mv(x) - a.mv(x2), rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(y @ a.mv(x), a.rmv(y) @ x, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(a.T.mv(y), matrix.T @ y, rtol=EXACT, atol=EXACT)
    assert a.T.shape == (n, m)
    np.testing.assert_array_equal(a.T.T.mv(x), a.mv(x))
    columns = rng.normal(size=(n, 3))
    np.testing.assert_allclose(a.mv(columns), matrix @ columns, rtol=EXACT, atol=EXACT)
    rows = rng.normal(size=(m, 2))
    np.testing.assert_allclose(a.rmv(rows), matrix.T @ rows, rtol=EXACT, atol=EXACT)
    for operator, form in ((a, matrix), (a.T, matrix.T)):
        np.testing.assert_allclose(rules.dense(operator), form, rtol=EXACT)
        np.testing.assert_allclose(rules.gram(operator), form.T @ form, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(rules.column_norms(operator), (form**2).sum(axis=0), rtol=EXACT)
        np.testing.assert_allclose(rules.row_norms(operator), (form**2).sum(axis=1), rtol=EXACT)


def check_plan(plan, gap=GAP):
    """Certificate, targets, exact price and document, against dense matrices."""
    d, workload = plan.decomposition, plan.publication.workload
    unit = plan.publication.unit
    assert 0 < plan.bound <= plan.cost_squared <= plan.bound * (1 + gap)
    assert plan.gap == pytest.approx(plan.cost_squared / plan.bound - 1, abs=1e-15)
    assert (plan.variances <= d.variances * plan.relaxation * (1 + 1e-15)).all()
    if plan.publication.budget is None:
        assert plan.relaxation <= 1
    else:
        assert plan.exact_rho <= plan.publication.budget.as_rho()
        assert plan.rho == pytest.approx(float(plan.publication.budget.as_rho()), rel=1e-8)
    assert plan.exact_rho == plan.exact_cost / 2
    assert Fraction(plan.rho) >= plan.exact_rho
    assert plan.mu**2 == pytest.approx(plan.cost_squared, rel=EXACT)
    assert sum(t.price for t in plan.tables) == pytest.approx(1)

    again = Plan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert (again.hash, again.exact_cost, again.bound) == (plan.hash, plan.exact_cost, plan.bound)
    assert again.publication == plan.publication or workload.tables[0].matrix is not None

    # the exact price is the largest squared column norm of the integer strategy, equal for all exchangeable values
    rows, scales = strategy_matrix(plan)
    assert len(rows) == plan.answers
    by_scale = {s: (rows[scales == s] ** 2).sum(axis=0) for s in set(scales.tolist())}
    cells = rows.shape[1]
    profile = [sum(Fraction(int(sq[i])) / Fraction(s) ** 2 for s, sq in by_scale.items()) for i in range(cells)]
    assert max(profile) * unit.cost_factor() == plan.exact_cost
    copies = cells // d.cells
    for z in range(copies):
        assert tuple(profile[z * d.cells : (z + 1) * d.cells]) == plan.strategy.profile()

    # achieved variances are those of generalised least squares with the same measurements
    W = workload_matrix(workload).astype(float)
    merge = cell_order(plan)
    W_cells = W @ merge.T / merge.sum(axis=1)  # every table is constant on the cells merged
    precision = (rows / scales[:, None]).astype(float)
    covariance = np.linalg.pinv(precision.T @ precision, rcond=1e-11, hermitian=True)
    gls = np.einsum("ij,jk,ik->i", W_cells, covariance, W_cells)
    stated = np.concatenate([plan.table_variances(t.name).ravel() for t in workload.tables])
    np.testing.assert_allclose(stated, gls, rtol=1e-5 if d.query_shift else LOOSE)
    assert (stated <= workload_variances(workload) * plan.relaxation * (1 + 1e-12)).all()

    # the bound is the dense dual bound at the same weights, spread evenly over exchangeable values
    p, q = plan.weights
    p, q = p / p.sum(), q / q.sum()
    spread = np.tile(p, copies) / copies
    numbers = []
    for t, layout in zip(workload.tables, d.layouts, strict=True):
        shape = (*(d.sizes[a] for a in layout.axes), *layout.inner_shape)
        outer = int(np.prod(shape[: len(layout.axes)], dtype=int))
        inner = q[layout.rows].reshape(layout.inner_shape) / outer
        numbers.append(np.broadcast_to(inner, shape).transpose(layout.transpose).ravel())
        assert t.shape(workload.domain) == tuple(np.array(shape)[list(layout.transpose)])
    scaled = np.sqrt(np.concatenate(numbers) / workload_variances(workload))[:, None] * W_cells * np.sqrt(spread)
    nuclear = np.linalg.svd(scaled, compute_uv=False).sum()
    add_remove = lower_bound(d, p, q, fn.Neighbours.ADD_OR_REMOVE_ONE)
    assert add_remove == pytest.approx(nuclear**2, rel=1e-6 if d.query_shift else LOOSE)


class Replayed:
    """The noise door, replayed: the same draws for every run, recorded."""

    def __init__(self, seed=None):
        self.seed = seed

    def __call__(self, scale, size):
        if self.seed is None:
            return np.zeros(size, dtype=np.int64)
        rng = np.random.default_rng([self.seed, size, int(scale * 1024) % 2**31])
        return np.rint(rng.normal(0, scale, size)).astype(np.int64)


def measured(plan, counts, monkeypatch, seed=None):
    monkeypatch.setattr(noise, "discrete_gaussian", Replayed(seed))
    with fn.Ledger(":memory:") as ledger:
        return measuring.measure(plan, HistogramCounter(counts, plan.publication.workload.domain), ledger)


def released(plan, data, **more):
    """A release charged to a ledger that is forgotten afterwards: for tests only."""
    with fn.Ledger(":memory:") as ledger:
        return fn.release(plan, data, ledger=ledger, **more)


def check_mechanism(plan, rng, monkeypatch):
    """Exact transforms, neighbours, unbiased consistent tables, exact covariances."""
    workload = plan.publication.workload
    domain = workload.domain
    counts = rng.integers(0, 50, size=domain.shape)
    quiet = measured(plan, counts, monkeypatch)
    shift = plan.decomposition.query_shift

    # without noise, every table is the truth
    truth = workload_matrix(workload) @ counts.ravel()
    rebuilt = reconstruct.tables(plan, quiet.answers)
    flat = np.concatenate([rebuilt[t.name].ravel() for t in workload.tables])
    np.testing.assert_allclose(flat, truth, atol=LOOSE * max(1, np.abs(truth).max()) + shift * counts.sum())

    # a record more moves the answers by exactly the profile of its cell, and by no more than what is charged
    rows, scales = strategy_matrix(plan)
    merge = cell_order(plan)
    profile = plan.strategy.profile()
    one_record = plan.strategy.cost_squared(fn.Neighbours.ADD_OR_REMOVE_ONE)
    for cell in rng.choice(domain.size, size=min(5, domain.size), replace=False):
        more = counts.copy()
        more.flat[cell] += 1
        other = measured(plan, more, monkeypatch)
        moved = Fraction(0)
        for s, y, y2 in zip(plan.strategy.sectors, quiet.answers, other.answers, strict=True):
            moved += sum(Fraction(int(b) - int(a)) ** 2 for a, b in zip(y, y2, strict=True)) / Fraction(s.scale) ** 2
        place = int(np.flatnonzero(merge[:, cell])[0])
        assert moved == profile[place % plan.decomposition.cells] <= one_record
    # the transforms are the dense integer strategy
    exact = rows @ (merge @ counts.ravel()).astype(object)
    assert [int(x) for y in quiet.answers for x in y] == [int(x) for x in exact]

    # replayed noise is added as it is
    noisy = measured(plan, counts, monkeypatch, seed=3)
    replay = Replayed(3)
    for s, y, z in zip(plan.strategy.sectors, quiet.answers, noisy.answers, strict=True):
        assert [int(b) - int(a) for a, b in zip(y, z, strict=True)] == replay(s.scale, s.answers).tolist()

    # any linear combinations have the covariance of the dense computation
    combos = []
    for _ in range(2):
        names = rng.choice(len(workload.tables), size=min(2, len(workload.tables)), replace=False)
        combos.append({workload.tables[i].name: rng.normal(size=workload.tables[i].shape(domain)) for i in names})
    W = workload_matrix(workload).astype(float) @ merge.T / merge.sum(axis=1)
    precision = (rows / scales[:, None]).astype(float)
    covariance = np.linalg.pinv(precision.T @ precision, rcond=1e-11, hermitian=True)
    vectors = [
        np.concatenate([np.ravel(c.get(t.name, np.zeros(t.shape(domain)))) for t in workload.tables]) @ W
        for c in combos
    ]
    expected = vectors[0] @ covariance @ vectors[1]
    size = np.sqrt((vectors[0] @ covariance @ vectors[0]) * (vectors[1] @ covariance @ vectors[1]))
    assert reconstruct.covariance(plan, *combos) == pytest.approx(expected, abs=1e-5 * size)
