"""The laws of plans and of mechanisms, against dense matrices."""

import contextlib
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import fitnoise as fn
from dense import (
    cell_order,
    dense_bound,
    layouts,
    numbers_by_least_squares,
    pair_costs,
    rebuilt_tables,
    shared_out,
    split,
    strategy_matrix,
    workload_matrix,
    workload_variances,
)
from fitnoise import messages
from fitnoise.kernel.designs.margins import NOISE_VARIANCE, PureStrategy
from fitnoise.kernel.designs.products import ProductStrategy
from fitnoise.kernel.designs.trees import TreeStrategy
from fitnoise.mechanisms import rebuilding as reconstruct
from fitnoise.mechanisms._base import UNBIASED
from fitnoise.mechanisms.laplace import planning as pure_planning
from fitnoise.planning.plan import Plan
from fitnoise.request.publication import Goal
from fitnoise.request.targets import TargetKind
from fitnoise.solving import p_identity
from fitnoise.solving.certificates import lower_bound
from laws.designs import same
from laws.releases import measured
from replayed_noise import Replay, law
from tolerances import EXACT, GAP, LOOSE


def check_plan(plan, gap=GAP):
    """Certificate, targets, exact price and document, against dense matrices."""
    d, publication = plan.table_part.decomposition, plan.publication
    workload, budget, objective = publication.workload, publication.budget, publication.objective
    assert 0 < plan.bound <= plan.table_part.objective_value <= plan.bound * (1 + gap)
    assert plan.gap == pytest.approx(plan.table_part.objective_value / plan.bound - 1, abs=1e-15)
    if objective.goal is not Goal.TOTAL_ERROR:
        assert (plan.table_part.variances <= d.variances * plan.table_part.relaxation * (1 + 1e-15)).all()
    if budget is None:
        assert plan.table_part.relaxation <= 1
    elif budget.pure is not None:
        assert budget.pure * (1 - Fraction(1, 2**30)) <= plan.loss.epsilon <= budget.pure
    else:
        assert plan.loss.rho <= plan.table_part.exact_weighted_cost / 2 <= budget.gaussian_rho
        assert float(plan.table_part.exact_weighted_cost / 2) == pytest.approx(float(budget.gaussian_rho), rel=1e-8)
        assert budget.epsilon is None or plan.epsilon(budget.delta) <= budget.epsilon * (1 + EXACT)
    assert plan.loss.rho <= plan.table_part.exact_cost / 2
    assert Fraction(plan.rho) >= plan.loss.rho
    if plan.loss.epsilon is None:
        assert plan.loss.rho == plan.table_part.exact_cost / 2
        assert plan.loss_summary.mu**2 == pytest.approx(float(plan.table_part.exact_cost), rel=EXACT)
    else:
        assert plan.loss.epsilon**2 == plan.table_part.exact_cost
        assert Fraction(plan.epsilon()) >= plan.loss.epsilon
        assert special.ndtr(-plan.loss_summary.mu / 2) >= special.expit(-plan.epsilon()) * (1 - EXACT)
        assert plan.loss_summary.mu**2 <= math.pi * plan.rho * (1 + EXACT)
    prices = sum(t.price for t in plan.table_part.tables)
    assert 0 <= prices <= 1 if objective.goal is Goal.HYBRID else prices == pytest.approx(1)

    parsed = Plan.from_json(plan.to_json())
    assert parsed.to_json() == plan.to_json()
    assert (parsed.hash, parsed.table_part.exact_cost, parsed.bound) == (
        plan.hash,
        plan.table_part.exact_cost,
        plan.bound,
    )
    assert parsed.publication == publication or workload.tables[0].matrix is not None

    check_price(plan)
    check_accuracy(plan)

    # the bound is the dense dual bound at the same weights, spread evenly over exchangeable values
    proven = lower_bound(d, plan.table_part.evidence, plan.table_part.terms)
    assert plan.bound == pytest.approx(proven / (1 if budget is None else plan.table_part.relaxation), rel=EXACT)
    squared = plan.table_part.evidence.pairs is not None or any(
        not isinstance(x.queries, np.ndarray) for x in layouts(d)
    )
    rounding = 1e-6 if d.query_shift or squared else LOOSE
    assert proven == pytest.approx(dense_bound(plan, plan.table_part.evidence, plan.table_part.terms), rel=rounding)


def cell_budgets(plan):
    """r of every cell (exchangeable…, structured…)."""
    domain, budgets = plan.publication.workload.domain, plan.publication.cell_budgets
    r = np.ones(domain.shape)
    if budgets is not None:
        for index in np.ndindex(*domain.shape):
            here = [(index[list(domain).index(a)], domain[a].size) for a in budgets.attributes]
            r[index] = budgets.values[int(np.ravel_multi_index([x for x, _ in here], [n for _, n in here]))]
    merge = cell_order(plan)
    return merge @ r.ravel() / merge.sum(axis=1)


def check_price(plan):
    """The exact price is what the columns of the integer strategy say, equal for all exchangeable values."""
    d, unit = plan.table_part.decomposition, plan.publication.unit
    rows, scales = strategy_matrix(plan)
    assert len(rows) == plan.table_part.noisy_answers
    if isinstance(plan.table_part.strategy, PureStrategy):
        check_pure_price(plan, rows)
        return
    by_scale = {s: rows[scales == s] for s in set(scales.tolist())}
    cells = rows.shape[1]
    parts = [(1 / Fraction(s) ** 2, (x**2).sum(axis=0)) for s, x in by_scale.items()]
    profile = [sum(f * int(squares[i]) for f, squares in parts) for i in range(cells)]
    for z in range(cells // d.cells):
        assert tuple(profile[z * d.cells : (z + 1) * d.cells]) == plan.table_part.strategy.profile()
    step = max(profile)
    if unit.neighbours is fn.Neighbours.REPLACE_ONE:
        multiple = math.lcm(*((1 / Fraction(s) ** 2).denominator for s in by_scale))
        gram = sum(int(multiple / Fraction(s) ** 2) * (x.T @ x) for s, x in by_scale.items())
        has_replacements = plan.publication.source.drops or unit.max_records > 1
        step = max(Fraction(int(pair_costs(gram).max()), multiple), step if has_replacements else 0)
    assert step * unit.cost_factor() == plan.table_part.exact_cost
    r = cell_budgets(plan)
    if plan.publication.cell_budgets is None:
        assert plan.table_part.terms.relative is None
        assert plan.table_part.exact_weighted_cost == plan.table_part.exact_cost
    else:
        np.testing.assert_array_equal(np.tile(plan.table_part.terms.relative, cells // d.cells), r)
        counted = [(x, Fraction(y)) for x, y in zip(profile, r, strict=True) if x > 0]
        assert plan.table_part.exact_weighted_cost == max(x / y for x, y in counted) * unit.cost_factor()


def check_pure_price(plan, rows):
    """ε is the largest ℓ1 distance of columns over the scale, ρ half the largest squared ℓ2 distance; both exact."""
    d, unit, rate = plan.table_part.decomposition, plan.publication.unit, 1 / Fraction(plan.table_part.strategy.scale)
    sums = [int(x) for x in np.abs(rows).sum(axis=0)]
    for z in range(len(sums) // d.cells):
        assert [(x * rate) ** 2 for x in sums[z * d.cells : (z + 1) * d.cells]] == list(
            plan.table_part.strategy.profile()
        )
    step = max(sums)
    assert plan.table_part.strategy.step(fn.Neighbours.ADD_OR_REMOVE_ONE) == step
    distance = max(int(np.abs(a - b).sum()) for a in rows.T for b in rows.T)
    assert plan.table_part.strategy.step(fn.Neighbours.REPLACE_ONE) == distance
    if unit.neighbours is fn.Neighbours.REPLACE_ONE:
        step = max(distance, step if plan.publication.source.drops or unit.max_records > 1 else 0)
    assert plan.loss.epsilon == step * rate * unit.max_records
    gram = rows.T @ rows
    square = int(gram.diagonal().max())
    if unit.neighbours is fn.Neighbours.REPLACE_ONE:
        both = int(pair_costs(gram).max())
        square = max(both, square if plan.publication.source.drops or unit.max_records > 1 else 0)
    assert square * (rate * unit.max_records) ** 2 / 2 == plan.loss.rho


def check_accuracy(plan):
    """Achieved variances are those of generalised least squares with the same measurements, and add up as stated."""
    publication, c = plan.publication, workload_variances(plan.publication.workload)
    stated = check_variances(plan)
    goal, terms = publication.objective.goal, plan.table_part.terms
    assert terms.factor == publication.unit.cost_factor()
    value = float(plan.table_part.exact_weighted_cost)
    pure = isinstance(plan.table_part.strategy, PureStrategy)
    if pure:
        value /= NOISE_VARIANCE
    if goal is Goal.FIT_FOR_USE:
        assert terms.weights is terms.trade is None
    else:
        omega = publication.objective.weights.for_targets(c)
        np.testing.assert_allclose(shared_out(plan, terms.weights), omega, rtol=EXACT)
        assert terms.trade == publication.objective.total_error_weight
        value += (terms.trade or 0) * float(omega @ stated)
    assert plan.table_part.objective_value == pytest.approx(value, rel=EXACT)
    if goal is Goal.TOTAL_ERROR:
        assert omega @ stated == pytest.approx(omega @ c * plan.table_part.relaxation, rel=EXACT)
    else:
        assert (stated <= c * plan.table_part.relaxation * (1 + 1e-12)).all()
        has_plain_margins = [
            t.target.kind in (TargetKind.MARGIN, TargetKind.MAX_DEVIATION) for t in publication.workload.tables
        ]
        if pure and any(has_plain_margins):
            assert (stated / c).max() <= plan.table_part.relaxation * (1 + EXACT)
        else:
            assert (stated / c).max() == pytest.approx(plan.table_part.relaxation, rel=EXACT)


def check_variances(plan):
    """The variances that are stated, number by number: those of generalised least squares."""
    gls = (numbers_by_least_squares(plan) ** 2).sum(axis=1)
    stated = np.concatenate([plan.table_part.table_variances(t.name).ravel() for t in plan.publication.workload.tables])
    # A number that follows from public totals has no error, except for rounding.
    tolerance = 1e-5 if plan.table_part.decomposition.query_shift else LOOSE
    np.testing.assert_allclose(stated, gls, rtol=tolerance, atol=1e-20 * gls.max())
    return stated


@contextlib.contextmanager
def hardly_searched():
    """Plans for pure noise are made in a fraction of the time, and are none the less private or proven."""
    with pytest.MonkeyPatch.context() as here:
        here.setattr(pure_planning, "KIND_STARTS", 1)
        here.setattr(p_identity, "SCREENING", 5)
        here.setattr(p_identity, "SHARPNESS", p_identity.SHARPNESS[-2:])
        yield


def planned_quickly(workload, **options):
    """Return a plan for pure noise after a short search, for laws that hold for any plan."""
    with hardly_searched():
        return fn.plan(workload, privacy="pure", **options)


def check_mechanism(plan, rng):
    """Exact transforms, neighbours, unbiased consistent tables, exact covariances; where values are biased it says so.

    Of tables of one part, answered by any mechanism.
    """
    workload = plan.publication.workload
    domain = workload.domain
    counts = rng.integers(0, 50, size=domain.shape)
    for size in plan.table_part.sizes:
        counts = rng.multinomial(size.records - 1, np.full(domain.size, 1 / domain.size)).reshape(domain.shape)
    check_variances(plan)
    check_part(plan.table_part)
    quiet = measured(plan, counts, Replay())
    shift = plan.table_part.decomposition.query_shift

    # without noise, every table is the truth
    truth = workload_matrix(workload) @ counts.ravel()
    rebuilt = rebuilt_tables(plan, quiet.answers[0], counts.sum())
    flat = np.concatenate([rebuilt[t.name].ravel() for t in workload.tables])
    np.testing.assert_allclose(flat, truth, atol=LOOSE * max(1, np.abs(truth).max()) + shift * counts.sum())

    # a record more moves the answers by exactly the profile of its cell, and by no more than what is charged
    rows, _ = strategy_matrix(plan)
    merge = cell_order(plan)
    profile = plan.table_part.strategy.profile()
    one_record = max(profile)
    scales = plan.table_part.strategy.scales
    for cell in rng.choice(domain.size, size=min(5, domain.size), replace=False):
        one_more = counts.copy()
        one_more.flat[cell] += 1
        other = measured(plan, one_more, Replay())
        distance = Fraction(0)
        power = 1 if isinstance(plan.table_part.strategy, PureStrategy) else 2
        for s, y, y2 in zip(scales, split(plan, quiet.answers[0]), split(plan, other.answers[0]), strict=True):
            distance += (
                sum(Fraction(abs(int(b) - int(a))) ** power for a, b in zip(y, y2, strict=True)) / Fraction(s) ** power
            )
        distance = distance ** (2 // power)
        cell_index = int(np.flatnonzero(merge[:, cell])[0])
        if isinstance(
            plan.table_part.strategy, (ProductStrategy, TreeStrategy)
        ):  # their loss counts every record as the costliest
            assert distance <= one_record
        else:
            assert distance == profile[cell_index % plan.table_part.decomposition.cells] <= one_record
    # the transforms are the dense integer strategy
    exact = rows @ (merge @ counts.ravel()).astype(object)
    assert [int(x) for y in quiet.answers[0] for x in y] == [int(x) for x in exact]

    # replayed noise is added as it is
    replay = Replay(3)
    noisy = measured(plan, counts, replay)
    pairs = zip(quiet.answers[0], noisy.answers[0], strict=True)
    assert [int(b) - int(a) for y, z in pairs for a, b in zip(y, z, strict=True)] == replay.drawn

    # any linear combinations have the covariance of the dense computation
    combos = []
    for _ in range(2):
        names = rng.choice(len(workload.tables), size=min(2, len(workload.tables)), replace=False)
        combos.append({workload.tables[i].name: rng.normal(size=workload.tables[i].shape(domain)) for i in names})
    W = numbers_by_least_squares(plan)
    f, h = (
        np.concatenate([np.ravel(c.get(t.name, np.zeros(t.shape(domain)))) for t in workload.tables]) @ W
        for c in combos
    )
    expected, size = f @ h, np.sqrt((f @ f) * (h @ h))
    assert reconstruct.covariance(plan.table_part, *combos) == pytest.approx(expected, abs=1e-5 * size)

    # biased numbers come in addition to the unbiased ones, and are declared as biased
    biased = plan.table_part.estimator and plan.table_part.estimator.rebuild(noisy.answers[0])
    says = plan.table_part.descriptions.describe_bias()
    stated = messages.english(*says).split()
    assert (biased is None) == (says == (UNBIASED,)) == ("biased" not in stated)


def check_part(part):
    """No value is below the bound that is proven, both are recomputed, and a part that is written is read back."""
    assert 0 < part.bound <= part.objective_value
    assert part.certificate == part.proof.certificate()
    assert part.loss == part.design.loss(part.publication.adjacency)
    assert not part.publication.budget or part.exact_weighted_cost / 2 <= part.publication.budget.gaussian_rho
    document = json.loads(json.dumps(part.document()))
    parsed = type(part).read(part.mechanism, part.publication, document)
    assert parsed.document() == document
    assert same(parsed.design, part.design)


def check_answer(part):
    """Check a question: its stated cost, which is at most the requested one, and its hit rate from all outputs."""
    assert part.exact_epsilon == part.design.loss(part.publication.adjacency).epsilon <= part.query.epsilon
    parsed = type(part).read(part.publication, part.query, json.loads(json.dumps(part.document())))
    assert (parsed.document(), parsed.summary) == (part.document(), part.summary)
    if part.summary.rank_moe is not None:
        check_ranks(part)
        return
    rows = []
    for result in part.mechanism.graph.results:
        replay = Replay()
        part.design.draw((np.atleast_1d(part.mechanism.index_of(result)),), replay)
        (drawn_law,) = replay.laws
        row = law(*drawn_law)
        rows.append([Fraction(x) / sum(row) for x in row])
    right = sum(max(column) for column in zip(*rows, strict=True)) / len(rows)
    assert part.summary.hit_rate == pytest.approx(float(right), rel=EXACT)


def check_ranks(part):
    """Check that the margin of ranks holds for every database of at most the declared number of records."""
    mechanism, summary = part.mechanism, part.summary
    assert (summary.hit_rate, summary.mae, summary.rmse, summary.moe, summary.leakage) == (None,) * 5
    for x in itertools.product(range(part.query.people + 1), repeat=mechanism.graph.n):
        replay = Replay()
        part.design.draw((np.array(mechanism.index_of(x)),), replay)
        (drawn_law,) = replay.laws
        n, upto = sum(x), np.cumsum(x)
        row = law(*drawn_law)
        target_rank = part.query.terms.quantile_level * n
        distances = [max(int(c) - count - target_rank, target_rank - int(c)) for c, count in zip(upto, x, strict=True)]
        hits = sum(w for d, w in zip(distances, row, strict=True) if d <= summary.rank_moe)
        assert n > part.query.people or hits >= summary.confidence * sum(row)


def status_of(plan):
    """Return the ids of the status of a plan or a part, without the prefix that they share."""
    return [message.id.removeprefix("report.status.") for message in plan.table_part.status]
