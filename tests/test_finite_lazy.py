"""Mechanisms without a table: the laws of small ones in fractions, proofs that refuse, draws, and large ones."""

import contextlib
import itertools
import math
import random
from collections import defaultdict
from fractions import Fraction
from functools import partial, reduce

import numpy as np
import pytest
from scipy import stats

from fitnoise.errors import PlanError
from fitnoise.kernel import choices, noise
from fitnoise.kernel.designs import implicit_mechanisms as room
from fitnoise.kernel.designs.graphs import Box
from fitnoise.kernel.exact_powers import exp_below, exp_bounds
from fitnoise.mechanisms.finite import (
    Decision,
    ImplicitMechanism,
    QueryGraph,
    Verdict,
    bundle,
    complete,
    disjoint_counts,
    from_integers,
    geometric,
    independent_counts,
    lazy_tight_constraints,
    path,
    product,
    staircase,
    sum_query,
    tight_constraints,
    uniform,
)
from fitnoise.mechanisms.finite import box as box_room
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.similarity import weighting
from refused import refused
from tolerances import EXACT, SIGNIFICANCE

by_distance = partial(noise.choose, choices.by_distance)

SMALL = [  # a graph, ε; with ends that meet, steps longer than the box, unlike steps, one result
    (path(1), 1),
    (path(2), Fraction(1, 2)),
    (path(30), 0.3),
    (sum_query(2, 2), 1.5),
    (sum_query(6, 2), 0.7),
    (sum_query(1, 4), 0.2),
    (sum_query(8, 5), 1),
    (sum_query(4, 3), Fraction(7, 2)),
    (sum_query(3, 7), 40),
    (independent_counts(3, 4), 1.3),
    (independent_counts(1, 1, 1), 0.5),
    (independent_counts(2, 2, 2), 2.9),
    (bundle(sum_query(3, 2), path(5)), 2),
    (bundle(sum_query(5, 2)), 1),
]
IDS = [f"{g.structure.shape}-{g.structure.steps}" for g, _ in SMALL]


def place_of(mechanism, i):
    return tuple(int(x) for x in np.unravel_index(i, mechanism.weights.shape))


def row_of(mechanism, i):
    """Unnormalised P(o | i) in fractions, from the graph's distances: shares nothing with the proof."""
    powers = [mechanism.alpha**d for d in range(mechanism.graph.n + 1)]
    distances = mechanism.graph.structure.distances_from(np.array([i]))[0].astype(int)
    return [powers[d] * z for d, z in zip(distances.tolist(), mechanism.weights.ravel().tolist(), strict=True)]


def exact_ratio(mechanism):
    rows = []
    for i in range(mechanism.graph.n):
        row = row_of(mechanism, i)
        total = sum(row)
        rows.append([w / total for w in row])
    worst = Fraction(1)
    for i, j in mechanism.graph.edges.tolist():
        for a, b in zip(rows[i], rows[j], strict=True):
            assert (a == 0) == (b == 0)
            if a:
                worst = max(worst, a / b, b / a)
    return worst


def probabilities(mechanism):
    rows = [row_of(mechanism, i) for i in range(mechanism.graph.n)]
    return np.array([[float(w / sum(row)) for w in row] for row in rows])


def at_least(x, ratio):
    """Return True if e^x ≥ ratio is proven, for x ≥ 0."""
    return exp_bounds(x, 300)[0] >= ratio * 2**300


def mechanism_of(graph, epsilon, alpha, weights):
    return ImplicitMechanism(graph, Fraction(epsilon), "given", Fraction(alpha), np.asarray(weights))


# --- Laws -------------------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize(("graph", "epsilon"), SMALL, ids=IDS)
def test_small_ones_are_private_in_fractions_and_what_the_table_says(graph, epsilon):
    mechanism = lazy_tight_constraints(graph, epsilon)
    worst = exact_ratio(mechanism)
    assert worst <= mechanism.largest_ratio <= exp_below(Fraction(epsilon))
    assert at_least(mechanism.log_ratio(), mechanism.largest_ratio)
    assert mechanism.log_ratio() <= mechanism.epsilon == Fraction(epsilon)
    table = tight_constraints(graph, epsilon)
    assert probabilities(mechanism) == pytest.approx(table.probabilities(), abs=1e-12, rel=0)
    assert accuracy(mechanism).hits() == pytest.approx(accuracy(table).hits(), abs=1e-12, rel=0)
    flat = uniform(graph)
    assert accuracy(mechanism).hit_rate(flat) == pytest.approx(accuracy(table).hit_rate(flat), abs=1e-12)
    prior = np.random.default_rng(3).dirichlet(np.ones(graph.n))
    assert accuracy(mechanism).hit_rate(prior) == pytest.approx(accuracy(table).hit_rate(prior), abs=1e-12)
    assert mechanism.outputs == graph.n
    spiked = np.eye(graph.n)[0] * 0.9 + 0.1 * prior
    for pi in (flat, prior, spiked, np.eye(graph.n)[0]):
        assert accuracy(mechanism).leakage(pi) == pytest.approx(accuracy(table).leakage(pi), abs=1e-10)
        for o in (0, graph.n // 2, graph.n - 1):
            assert accuracy(mechanism).posterior(pi, o) == pytest.approx(accuracy(table).posteriors(pi)[o], abs=1e-10)
    assert [mechanism.read(o) for o in range(graph.n)] == list(graph.results)
    if epsilon < 20:  # nothing is given away where α is not rounded much
        assert mechanism.log_ratio() >= mechanism.epsilon - Fraction(1, 2**40)
    if not isinstance(graph.results[0], tuple) or len(graph.structure.shape) > 1:
        assert accuracy(mechanism).absolute_errors() == pytest.approx(accuracy(table).absolute_errors(), abs=1e-10)
        assert accuracy(mechanism).squared_errors() == pytest.approx(accuracy(table).squared_errors(), abs=1e-10)
        assert accuracy(mechanism).mae(prior) == pytest.approx(accuracy(table).mae(prior), abs=1e-10)
        assert accuracy(mechanism).rmse(prior) == pytest.approx(accuracy(table).rmse(prior), abs=1e-6)


@pytest.mark.no_cover
@pytest.mark.parametrize(("graph", "epsilon"), SMALL, ids=IDS)
@pytest.mark.parametrize("bits", [1, 5, 30, 62])
def test_bounds_of_rows_hold_the_rows_of_any_weights(graph, epsilon, bits):
    rng = np.random.default_rng(bits)
    shape, steps = graph.structure.shape, graph.structure.steps
    box = Box(shape, tuple(min(v, max(s - 1, 1)) for v, s in zip(steps, shape, strict=True)))
    bits = min(bits, 60 - box.steps[0].bit_length()) if len(shape) == 1 else bits
    for alpha in (Fraction(int(2**62 * math.exp(-epsilon)) + 1, 2**62), Fraction(7, 8), Fraction(2**62 - 2**55, 2**62)):
        weights = rng.integers(0, 2**bits, shape) * (rng.random(shape) < 0.8)
        weights.flat[0] = 2**bits - 1
        if len(shape) == 1 and alpha > Fraction(4, 5) and bits > 50:
            weights >>= 10
        stand_in = type("", (), {"graph": graph, "alpha": alpha, "weights": weights})
        exact = [sum(row_of(stand_in, i)) for i in range(graph.n)]
        ways = [room.row_sums(box, alpha, weights), room.layers(box, alpha, weights)]
        for row_bounds in ways:
            unit = Fraction(2) ** row_bounds.unit
            values = row_bounds.values.ravel().tolist()
            assert all(abs(v - unit * e) <= row_bounds.off for v, e in zip(values, exact, strict=True))
            assert row_bounds.off <= (60 + 10 / (1 - alpha)) + 3 * 70 / -math.log(alpha)
            assert row_bounds.ratio_bound is None or row_bounds.ratio_bound >= max(exact) / min(exact)
        within_one = room.layers(box, alpha, weights, 1)
        for i in range(graph.n):
            here = np.array(place_of(stand_in, i))
            near_weight = sum(
                (
                    w
                    for o, w in enumerate(row_of(stand_in, i))
                    if np.abs(np.array(place_of(stand_in, o)) - here).max() <= 1
                ),
                Fraction(0),
            )
            assert (
                abs(within_one.values.ravel().tolist()[i] - near_weight * Fraction(2) ** within_one.unit)
                <= within_one.off
            )


def off_by(bounds, exact):
    """Return the largest exact distance of the numbers from the values they stand for, in their unit."""
    unit = Fraction(2) ** bounds.unit
    return max(abs(v - unit * e) for v, e in zip(bounds.values.ravel().tolist(), exact, strict=True))


def sums_right_of(alpha, weights, v):
    """Σ_{o > i} α^⌈(o − i)/v⌉ Z_o in fractions, term by term."""
    z = weights.tolist()
    return [sum((alpha ** -(-(o - i) // v) * z[o] for o in range(i + 1, len(z))), Fraction(0)) for i in range(len(z))]


@pytest.mark.no_cover
@pytest.mark.parametrize("alpha", [Fraction(1, 1024), Fraction(3, 4), Fraction(2**62 - 2**55 - 1, 2**62)], ids=float)
@pytest.mark.parametrize("v", [1, 3, 39])
@pytest.mark.parametrize(
    ("initial", "then"),
    [
        (np.copy, np.copy),
        (np.zeros_like, np.zeros_like),
        (lambda x: 0.9 * x, lambda x: 0.9 * x),
        (lambda x: 3 * x, lambda x: 3 * x),
        (np.copy, lambda x: np.full(len(x), 2.0**50)),
        (np.copy, lambda x: np.full(len(x), -(2.0**50))),
        (np.copy, lambda x: np.full(len(x), -1.7 * 2**62)),
        (np.copy, lambda x: np.where(np.arange(len(x)) % 2, 2.0**62, -(2.0**62))),
    ],
    ids=["right", "nothing", "less", "more", "down", "up", "far up", "to and fro"],
)
def test_how_sums_were_found_does_not_matter_to_their_bounds(monkeypatch, alpha, v, initial, then):
    box, solved = Box((40,), (v,)), room.discounted
    weights = np.random.default_rng(v).integers(2**55 - 2**51, 2**55, 40)
    weights[:20] >>= 20  # there is less on one side
    rounds = iter(())

    def solver(values, factor, step):
        return next(rounds)(solved(values, factor, step))

    def sums_by_rounds(find, sides):
        nonlocal rounds
        rounds = itertools.chain(*([initial, then, then] for _ in range(sides)), itertools.repeat(then))
        return find(box, alpha, weights if sides == 2 else side_weights)

    monkeypatch.setattr(room, "discounted", solver)
    error_of_sides = Fraction(0)
    for side_weights in (weights, weights[::-1]):
        side = sums_by_rounds(room.one_side, 1)
        assert off_by(side, sums_right_of(alpha, side_weights, v)) <= side.off
        error_of_sides += Fraction(side.off) / Fraction(2) ** side.unit
    row_bounds = sums_by_rounds(room.row_sums, 2)
    exact_sums = [sum(alpha ** -(-abs(o - i) // v) * z for o, z in enumerate(weights.tolist())) for i in range(40)]
    assert off_by(row_bounds, exact_sums) <= row_bounds.off
    assert (
        row_bounds.off >= error_of_sides * Fraction(2) ** row_bounds.unit
    )  # a sum may be off by as much as both of its parts


def test_layers_with_sums_above_64_bits_are_bounded():
    box, alpha = Box((90, 40), (1, 2)), Fraction(1, 2)
    weights = np.full(box.shape, 2**62 - 1)
    layers = room.layers(box, alpha, weights)
    row = [alpha ** max(i, -(-j // 2)) * (2**62 - 1) for i in range(90) for j in range(40)]
    assert abs(layers.values[0, 0] - sum(row) * Fraction(2) ** layers.unit) <= layers.off < 2**20
    assert layers.values.min() > 2**50


@pytest.mark.parametrize(
    ("shape", "steps", "alpha"),
    [
        ((90, 40), (1, 2), Fraction(15, 16)),  # sums of more than 62 bits
        ((2000, 3), (1, 1), Fraction(1, 2)),  # layers that are left out
        ((4, 5), (2, 1), Fraction(3, 4)),  # neither
        ((1, 1), (1, 1), Fraction(3, 4)),
    ],
)
def test_all_that_layers_cut_off_is_counted_and_little_more(shape, steps, alpha):
    box, z = Box(shape, steps), 2**62 - 1  # all that is cut off a weight is as large as it may be
    layers = room.layers(box, alpha, np.full(shape, z))
    for node in {(0, 0), tuple(s // 2 for s in shape)}:
        distances = box.distances_from(np.array([np.ravel_multi_index(node, shape)]))[0].astype(int)
        row = sum(int(k) * alpha**m * z for m, k in enumerate(np.bincount(distances)))
        assert abs(layers.values[node] - row * Fraction(2) ** layers.unit) <= layers.off
    last = max(-(-(s - 1) // v) for s, v in zip(shape, steps, strict=True))
    needed = Fraction(0)
    for m in range(last + 1):
        weight = alpha**m * (1 - alpha if m < last else 1)
        if alpha**m * box.n < Fraction(1, 2**62):
            break
        points = math.prod(min(2 * min(m * v, s - 1) + 1, s) for s, v in zip(shape, steps, strict=True))
        cut = max(0, (points * z).bit_length() - 62)
        needed += 3 + (weight * points * Fraction(2) ** (cut + layers.unit) if cut else 0)
    assert needed <= layers.off <= needed + m + 2  # three a layer, and the cut of Z at each of its points


@pytest.mark.parametrize("deep", [0, 5, 20])
def test_what_follows_the_last_layer_is_counted_wherever_that_is(monkeypatch, deep):
    monkeypatch.setattr(room, "_LAYER_CUTOFF_BITS", deep)
    box, alpha = Box((60, 2), (1, 1)), Fraction(1, 2)
    weights = np.random.default_rng(deep).integers(0, 2**40, box.shape)
    layers = room.layers(box, alpha, weights)
    exact = [
        sum(alpha ** max(abs(i - o), abs(j - p)) * int(z) for (o, p), z in np.ndenumerate(weights))
        for i, j in np.ndindex(*box.shape)
    ]
    assert 2 ** (55 - deep) < off_by(layers, exact) <= layers.off


@pytest.mark.parametrize("column", [[2**62 - 1, 2**62 - 1, 2], [1] * 40], ids=["together 64 bits", "ones"])
def test_bounds_hold_of_the_largest_sums_and_of_the_smallest_weights(column):
    alpha = Fraction(15, 16)
    layers = room.layers(Box((len(column), 1), (1, 1)), alpha, np.array(column)[:, None])
    exact = [sum(alpha ** abs(o - i) * z for o, z in enumerate(column)) for i in range(len(column))]
    assert off_by(layers, exact) <= layers.off < 200


@pytest.mark.parametrize("max_distance", [0, 1, 2, 3, 4, 5, 6, 100])
def test_only_what_is_within_so_many_units_is_summed(max_distance):
    box, alpha = Box((5, 4), (2, 1)), Fraction(2, 3)
    alpha = Fraction(int(alpha * 2**62), 2**62)
    weights = np.random.default_rng(max_distance).integers(0, 2**40, box.shape)
    layers = room.layers(box, alpha, weights, max_distance)
    exact = [
        sum(
            alpha ** max(-(-abs(i - o) // 2), abs(j - p)) * int(z)
            for (o, p), z in np.ndenumerate(weights)
            if max(abs(i - o), abs(j - p)) <= max_distance
        )
        for i, j in np.ndindex(*box.shape)
    ]
    assert off_by(layers, exact) <= layers.off < 30


def test_a_smallest_number_that_may_be_0_bounds_nothing():
    values = np.array([5, 2, 9])
    assert room.EnclosedIntegers(values, 1, 7).ratio_bound == 10
    assert room.EnclosedIntegers(values, 0, 7).ratio_bound == Fraction(9, 2)
    assert room.EnclosedIntegers(values, 2, 7).ratio_bound is None


@pytest.mark.parametrize("cut", [0, 1, 31])
def test_products_of_halves_are_exact(rng, cut):
    values = np.concatenate([rng.integers(0, 2**62, 1000), [0, 1, 2**31 - 1, 2**31, 2**62 - 1]]) >> cut
    for factor in (0, 1, 2**31 - 1, 2**31, 2**62 - 1, int(rng.integers(2**61, 2**62))):
        assert room._product(factor, values).tolist() == [factor * v >> 62 for v in values.tolist()]


@pytest.mark.no_cover
def test_changed_weights_are_proven_again_or_refused():
    mechanism = lazy_tight_constraints(sum_query(4, 5), 1)
    top = mechanism.max_weight
    seen = set()
    for i, up in itertools.product([0, 5, 10, 20], [2**5, 2**20, 2**40, 2**56]):
        weights = mechanism.weights.copy()
        weights[i] += up
        for epsilon in (Fraction(1), Fraction(2)):
            changed = None
            with contextlib.suppress(PlanError):
                changed = mechanism_of(mechanism.graph, epsilon, mechanism.alpha, weights)
            if changed is None:
                with refused("plan.ratio-above-epsilon"):
                    mechanism_of(mechanism.graph, epsilon, mechanism.alpha, weights)
                seen.add("refused")
                continue
            assert exact_ratio(changed) <= changed.largest_ratio <= exp_below(epsilon)
            assert at_least(changed.log_ratio(), changed.largest_ratio)
            if up >= 2**20:
                assert changed.log_ratio() > mechanism.log_ratio()
            if epsilon == 1:
                assert up < top * 2.0**-44
            seen.add("proven")
    assert seen == {"refused", "proven"}


def test_clipping_a_formal_solution_is_refused():
    graph = sum_query(150, 5)
    z = weighting(graph, 0.8).z
    clipped = np.rint(np.maximum(z, 0) * 2**50).astype(np.int64)
    with refused("plan.ratio-above-epsilon"):
        mechanism_of(graph, 0.8, Fraction(int(math.exp(-0.8) * 2**62), 2**62), clipped)


def test_alpha_is_refused_where_it_is_too_small():
    mechanism = lazy_tight_constraints(path(9), 1)
    with refused("plan.ratio-above-epsilon"):
        mechanism_of(mechanism.graph, 1, mechanism.alpha - Fraction(1, 2**40), mechanism.weights)
    assert mechanism_of(mechanism.graph, 1.1, mechanism.alpha, mechanism.weights).log_ratio() == mechanism.log_ratio()


def test_solutions_that_are_rough_are_refined(monkeypatch):
    graph, decision = sum_query(8, 5), box_room.existence(sum_query(8, 5), Fraction(1))
    rough = decision.weights * (1 + 1e-7 * np.sin(np.arange(graph.n)))
    monkeypatch.setattr(box_room, "existence", lambda *_: Decision(Verdict.YES, None, rough, 1e-6, "rough"))
    mechanism = lazy_tight_constraints(graph, 1)
    assert accuracy(mechanism).hits() == pytest.approx(decision.weights, abs=1e-12)
    monkeypatch.setattr(box_room, "_ROUNDS", 0)
    with refused("plan.ratio-above-epsilon"):
        lazy_tight_constraints(graph, 1)
    worse = np.where(np.arange(graph.n) == 5, -1e-9, decision.weights)
    monkeypatch.setattr(box_room, "existence", lambda *_: Decision(Verdict.YES, None, worse, 1e-10, "wrong"))
    with refused("plan.existence-contradicted"):
        lazy_tight_constraints(graph, 1)
    monkeypatch.setattr(box_room, "_ROUNDS", 1)
    formal = box_room.Similarity(graph, 0.8).solve(np.ones(graph.n))
    assert formal.min() < -0.01
    monkeypatch.setattr(box_room, "existence", lambda *_: Decision(Verdict.YES, None, np.maximum(formal, 0), 0, "lie"))
    with refused("plan.weight-close-to-zero"):
        lazy_tight_constraints(graph, 0.8)


# --- Refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("graph", "epsilon"), [(sum_query(150, 5), 0.96), (independent_counts(30, 30), 1.13)])
def test_there_is_none_below_the_threshold(graph, epsilon):
    with refused("plan.no-tight-constraints"):
        lazy_tight_constraints(graph, epsilon)
    above = lazy_tight_constraints(graph, epsilon + 0.01)
    assert above.weights.min() > 0


def test_existence_starts_where_it_starts():
    assert accuracy(lazy_tight_constraints(sum_query(150, 5), 0.968133485)).hits().min() > 0
    with refused("plan.no-tight-constraints"):
        lazy_tight_constraints(sum_query(150, 5), 0.968133484)


def test_what_is_undecided_is_not_made():
    with refused("plan.tight-constraints-undecided"):
        lazy_tight_constraints(sum_query(4000, 5), 0.3)


def test_a_refusal_without_weights_still_says_why(monkeypatch):
    monkeypatch.setattr(box_room, "existence", lambda *_: Decision(Verdict.NO, None, None, math.inf, "singular"))
    with refused("plan.no-tight-constraints"):
        lazy_tight_constraints(sum_query(2, 2), 1)


@pytest.mark.parametrize(
    "graph", [complete(4), product(path(3), path(3)), disjoint_counts(3, 2)], ids=["complete", "product", "simplex"]
)
def test_results_that_are_no_box_are_refused(graph):
    with refused("plan.results-not-a-box"):
        lazy_tight_constraints(graph, 1)


@pytest.mark.parametrize(
    ("graph", "epsilon", "why"),
    [
        (path(2**22 + 1), 1, "plan.too-many-results-without-table"),
        (independent_counts(200_000, 1), 0.001, "plan.too-many-sums"),
        (independent_counts(1500, 1500), 0.3, "plan.too-many-sums"),
        (sum_query(5000, 400), 9, "plan.results-times-steps-too-large"),
        (path(20_000), 2**-10, "plan.too-many-tries"),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_tried(graph, epsilon, why):
    with refused(why) as caught:
        lazy_tight_constraints(graph, epsilon)
    assert str(caught.value).endswith("No mechanism was made.")


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 51, "1", None, True])
def test_epsilon_needs_to_be_a_number_above_0(epsilon):
    with refused("workload.epsilon-not-a-number", "workload.epsilon-out-of-range"):
        lazy_tight_constraints(path(3), epsilon)


@pytest.mark.parametrize(
    ("alpha", "weights", "why"),
    [
        (Fraction(1, 3), [1, 1, 1], "plan.alpha-out-of-range"),
        (Fraction(0), [1, 1, 1], "plan.alpha-out-of-range"),
        (Fraction(1), [1, 1, 1], "plan.alpha-out-of-range"),
        (Fraction(1, 2), [1.0, 1.0, 1.0], "plan.weights-not-of-box"),
        (Fraction(1, 2), [1, 1], "plan.weights-not-of-box"),
        (Fraction(1, 2), [1, -1, 1], "plan.weights-not-of-box"),
        (Fraction(1, 2), [1, 2**62, 1], "plan.weights-not-of-box"),
        (Fraction(1, 2), [0, 0, 0], "plan.ratio-above-epsilon"),
        (Fraction(1, 2), [2**61, 2**62 - 1, 1], "plan.weight-rows-too-large"),
        (Fraction(2**62 - 2**32, 2**62), [2**61, 2**61, 2**61], "plan.weight-rows-too-large"),
    ],
)
def test_what_is_no_mechanism_is_refused(alpha, weights, why):
    with refused(why) as caught:
        mechanism_of(path(3), 1, alpha, np.array(weights))
    assert "o mechanism was made" in str(caught.value)


def test_weights_of_nothing_on_two_axes_are_refused():
    with refused("plan.ratio-above-epsilon"):
        mechanism_of(independent_counts(2, 2), 1, Fraction(1, 2), np.zeros(9, dtype=np.int64))


def test_what_never_occurs_says_nothing():
    mechanism = mechanism_of(path(4), 3, Fraction(1, 2), np.array([3, 0, 5, 4]))
    assert accuracy(mechanism).posterior(uniform(path(4)), 1).tolist() == [0.0] * 4
    assert accuracy(mechanism).posterior(uniform(path(4)), 0).sum() == pytest.approx(1)


def test_wide_steps_need_small_weights():
    with refused("plan.weight-sums-too-large"):
        mechanism_of(sum_query(2, 4), 1, Fraction(1, 2), np.full(9, 2**60))


@pytest.mark.parametrize(
    ("graph", "unknown"),
    [
        (sum_query(8, 5), [41, -1, "725", 2.5, math.inf, math.nan, None, (3,), [3]]),
        (independent_counts(4, 5), [(5, 0), (0, 6), (725, 725), 3, (1,), (1, 2, 3), "725", (1, "x"), ([], 1)]),
    ],
)
def test_an_unknown_result_is_refused_without_being_named(graph, unknown):
    mechanism = lazy_tight_constraints(graph, 2)
    for label in unknown:
        with refused("workload.unknown-result") as caught:
            mechanism.index_of(label)
        assert "725" not in str(caught.value)
        assert caught.value.__context__ is None


def test_places_and_labels_are_inverse():
    for graph, epsilon in [(sum_query(8, 5), 1), (independent_counts(3, 4), 1.3), (bundle(path(4)), 1)]:
        mechanism = lazy_tight_constraints(graph, epsilon)
        for i, label in enumerate(graph.results):
            node = mechanism.index_of(label)
            assert node == place_of(mechanism, i)
            assert mechanism.label(node) == label
        for nowhere in [(), (-1,) * len(node), (99,) * len(node), (*node, 0), mechanism.weights.shape]:
            with refused("workload.place-outside-box"):
                mechanism.label(nowhere)
    numbers = lazy_tight_constraints(sum_query(8, 5), 1)
    assert numbers.index_of(np.int64(7)) == numbers.index_of(7.0) == numbers.index_of(7) == (7,)
    pairs = lazy_tight_constraints(independent_counts(3, 4), 1.3)
    assert pairs.index_of((np.int32(2), 3.0)) == (2, 3)
    labelled = QueryGraph(("none", "one", "two"), Box((3,), (1,)))
    assert lazy_tight_constraints(labelled, 1).index_of("two") == (2,)


# --- Limits -----------------------------------------------------------------------------------------------


def test_alpha_is_no_finer_than_a_word_and_no_nearer_to_1_than_it_may_be(monkeypatch):
    max_alpha = 1 - Fraction(1, 2**40)
    for alpha in (Fraction(1, 2**62), max_alpha):
        assert room.checked_alpha(alpha) == alpha
    for alpha in (Fraction(1, 2**63), Fraction(2**62 + 1, 2**63), max_alpha + Fraction(1, 2**62)):
        with refused("plan.alpha-out-of-range"):
            room.checked_alpha(alpha)
    monkeypatch.setattr(room, "exp_bounds", lambda _, bits: (2 << bits, 3 << bits))  # e^ε is 2, if the worst is true
    assert room.alpha_just_above(Fraction(1)) == Fraction(1, 2)


def test_a_box_may_be_as_large_as_documented():
    assert room.checked_box(path(2**22), Fraction(1, 2)).n == 2**22
    assert room.checked_box(independent_counts(1023, 255), Fraction(15, 16)).n == 2**18  # 2²⁸ of results times layers
    for people in ((1024, 255), (1023, 256)):
        with refused("plan.too-many-sums"):
            room.checked_box(independent_counts(*people), Fraction(15, 16))


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (3, 4), (6, 1)])
def test_no_step_is_longer_than_its_axis_and_distances_are_the_same(shape):
    for steps in itertools.product([1, 2, 9], repeat=2):
        unchecked = Box(shape, steps)
        box = room.checked_box(QueryGraph(range(unchecked.n), unchecked), Fraction(1, 2))
        assert all(v <= max(s - 1, 1) for v, s in zip(box.steps, shape, strict=True))
        all_indices = np.arange(unchecked.n)
        assert np.array_equal(box.distances_from(all_indices), unchecked.distances_from(all_indices))


def test_a_thousand_tries_are_allowed_and_no_more():
    q = 2**9  # T = (2q − 1), in steps of 1; N / max Z is to be 1.023
    side, top = 1023 * q * q - 1000 * (q - 1) * q, 1000 * (q * q + (q - 1) ** 2)
    alpha = Fraction(q - 1, q)
    assert mechanism_of(path(3), 1, alpha, np.array([side, top, side])).tries == 1000
    with refused("plan.too-many-tries"):
        mechanism_of(path(3), 1, alpha, np.array([side - 1, top, side]))


@pytest.mark.parametrize(("graph", "epsilon"), SMALL, ids=IDS)
def test_tries_are_the_weight_of_all_integer_points_over_that_of_a_row(graph, epsilon):
    mechanism = lazy_tight_constraints(graph, epsilon)
    counts_within = [math.prod(2 * m * v + 1 for v in mechanism.steps) for m in range(1000)]
    points = [1, *(after - before for before, after in itertools.pairwise(counts_within))]
    total_weight = sum(float(mechanism.alpha) ** m * k for m, k in enumerate(points))
    min_row = min(sum(row_of(mechanism, i)) for i in range(graph.n))
    assert mechanism.tries == pytest.approx(total_weight * mechanism.max_weight / float(min_row), rel=1e-9)


def test_rows_are_even_where_that_is_proven(monkeypatch):
    uniform, uneven = (
        lazy_tight_constraints(path(9), 1),
        mechanism_of(path(4), 3, Fraction(1, 2), np.array([3, 0, 5, 4])),
    )
    assert uniform.is_constant_time
    assert not uneven.is_constant_time
    ratio_bound = uniform.bounds.ratio_bound
    monkeypatch.setattr(room, "MAX_ROW_SUM_RATIO", ratio_bound)
    assert uniform.is_constant_time
    monkeypatch.setattr(room, "MAX_ROW_SUM_RATIO", ratio_bound - Fraction(1, 2**100))
    assert not uniform.is_constant_time


def test_weights_are_held_in_64_bits_of_the_shape_of_the_box_and_cannot_be_changed():
    graph = independent_counts(1, 2)
    for kind in (np.uint8, np.int32, np.uint64, np.int64):
        source = np.ones(6, dtype=kind)
        mechanism = mechanism_of(graph, 40, Fraction(1, 2), source)
        source[:] = 0
        assert mechanism.weights.tolist() == [[1, 1, 1], [1, 1, 1]]
        assert mechanism.weights.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            mechanism.weights[0, 0] = 2


def test_on_another_graph_the_proof_is_another():
    mechanism = lazy_tight_constraints(path(9), 1)
    labelled = QueryGraph(tuple("abcdefghi"), Box((9,), (1,)))
    assert mechanism.on_graph(labelled).graph is labelled
    with refused("plan.ratio-above-epsilon"):
        mechanism.on_graph(sum_query(4, 2))


def test_what_is_no_graph_of_a_query_is_no_box():
    for other in (None, Box((3,), (1,)), type("", (), {"structure": Box((3,), (1,)), "n": 3})()):
        with refused("plan.results-not-a-box"):
            mechanism_of(other, 1, Fraction(1, 2), np.array([1, 1, 1]))


def test_rows_may_be_as_large_as_61_bits_hold():
    box, half = Box((2,), (1,)), Fraction(1, 2)
    with refused("plan.weight-rows-too-large"):
        room.one_side(box, half, np.array([2**61 - 2**59, 2**60]))  # 2⁵⁹ next to the largest of them: 2⁶¹
    side = room.one_side(box, half, np.array([2**61 - 2**59 - 2**10, 2**60]))
    assert off_by(side, [2**59, 0]) <= side.off < 10
    box, alpha, weights = Box((6,), (1,)), Fraction(7, 8), np.full(6, 3 << 57)
    side = room.one_side(box, alpha, weights)  # more than 2⁶⁰, which leaves no bit to spare
    assert off_by(side, sums_right_of(alpha, weights, 1)) <= side.off < 50


def test_labels_that_equal_integers_are_looked_up_as_these():
    for label, expected in ((np.int64(7), 7), (7.0, 7), ((np.int32(2), 3.0), (2, 3)), (2.5, 2.5), ("7", "7")):
        converted = room._as_python(label)
        assert (converted, repr(converted)) == (expected, repr(expected))


def test_an_output_is_the_place_that_the_noise_source_gives():
    mechanism = lazy_tight_constraints(independent_counts(3, 4), 1.3)
    same = type("", (), {"choose": staticmethod(lambda _, *law: law[-1])})  # the true law, for any law
    for node in np.ndindex(4, 5):
        assert 0 <= mechanism.draw_output(node, noise) < mechanism.outputs
        assert mechanism.read(mechanism.draw_output(node, same)) == mechanism.label(node)


# --- Drawing ----------------------------------------------------------------------------------------------

SAMPLED = [
    (path(6), 0.8, [(0,), (2,), (5,)]),
    (sum_query(6, 2), 0.7, [(0,), (1,), (6,), (12,)]),
    (sum_query(3, 5), 1.3, [(0,), (4,), (15,)]),
    (independent_counts(3, 4), 1.3, [(0, 0), (3, 0), (2, 2)]),
    (bundle(sum_query(2, 2), path(3)), 2.2, [(0, 0), (4, 2), (2, 1)]),
    (independent_counts(1, 1, 2), 1.5, [(0, 1, 2), (1, 1, 1)]),
]


def draws(mechanism, node, size):
    law = (mechanism.alpha, mechanism.steps, mechanism.weights, mechanism.max_weight, node)
    outputs = [by_distance(*law) for _ in range(size)]
    return np.bincount(
        [int(np.ravel_multi_index(o, mechanism.weights.shape)) for o in outputs], minlength=mechanism.outputs
    )


def fits(seen, expected):
    """The p-value of Pearson's statistic, cells of few expected put together with the last of the others."""
    is_large = expected >= 10
    if (~is_large).any():
        seen, expected = (np.append(x[is_large], x[~is_large].sum()) for x in (seen, expected))
        if expected[-1] < 10:
            seen, expected = (np.append(x[:-2], x[-2:].sum()) for x in (seen, expected))
    return stats.chisquare(seen, expected).pvalue


@pytest.mark.no_cover
@pytest.mark.parametrize(("graph", "epsilon", "places"), SAMPLED, ids=lambda x: str(x) if isinstance(x, list) else None)
def test_draws_have_the_exact_law(graph, epsilon, places):
    mechanism = lazy_tight_constraints(graph, epsilon)
    for node in places:
        row = row_of(mechanism, int(np.ravel_multi_index(node, mechanism.weights.shape)))
        expected = np.array([float(w / sum(row)) for w in row]) * 4_000
        seen = draws(mechanism, node, 4_000)
        assert fits(seen, expected) >= SIGNIFICANCE
        assert fits(np.roll(seen, 1), expected) < SIGNIFICANCE  # another law would be seen


def test_weights_of_nothing_are_never_drawn():
    mechanism = mechanism_of(path(4), 3, Fraction(1, 2), np.array([3, 0, 5, 4]))
    seen = draws(mechanism, (1,), 5000)
    assert seen[1] == 0
    row = row_of(mechanism, 1)
    assert fits(seen[[0, 2, 3]], np.array([float(row[o] / sum(row)) for o in (0, 2, 3)]) * 5000) >= SIGNIFICANCE


def tries_of(monkeypatch, mechanism, node, size):
    """Return the number of tries of each of some draws: every try draws one point, and compares one weight."""
    tries = []
    original = choices._uniform

    def counting(random_words, count):
        tries[-1] += count == mechanism.max_weight
        return original(random_words, count)

    monkeypatch.setattr(choices, "_uniform", counting)
    for _ in range(size):
        tries.append(0)
        by_distance(mechanism.alpha, mechanism.steps, mechanism.weights, mechanism.max_weight, node)
    monkeypatch.setattr(choices, "_uniform", original)
    return np.array(tries)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("graph", "epsilon", "places"),
    [(sum_query(20, 5), 1.0, [(0,), (5,), (50,)]), (independent_counts(6, 6), 1.2, [(0, 0), (1, 1), (3, 3)])],
)
def test_the_number_of_tries_is_the_same_everywhere(monkeypatch, graph, epsilon, places):
    mechanism = lazy_tight_constraints(graph, epsilon)
    success_probability = 1 / mechanism.tries
    cells = np.arange(1, 12)
    law = np.append(
        success_probability * (1 - success_probability) ** (cells[:-1] - 1),
        (1 - success_probability) ** (cells[-1] - 1),
    )
    for node in places:
        tries = np.minimum(tries_of(monkeypatch, mechanism, node, 5000), cells[-1])
        assert fits(np.bincount(tries, minlength=12)[1:], law * 5000) >= SIGNIFICANCE
    weights = mechanism.weights.copy()
    weights[: weights.shape[0] // 2] >>= 1  # rows of unlike sums would be seen
    uneven = mechanism_of(graph, 5, mechanism.alpha, weights)
    tries = np.minimum(tries_of(monkeypatch, uneven, places[0], 5000), cells[-1])
    assert fits(np.bincount(tries, minlength=12)[1:], law * 5000) < SIGNIFICANCE


@pytest.mark.parametrize(("v", "alpha"), [((1,), Fraction(1, 3)), ((5,), Fraction(3, 8)), ((2, 1), Fraction(1, 4))])
def test_the_mixture_of_step_one_is_the_law_of_boxes(v, alpha):
    # Σ over j in fractions, against α^m B_m / K.
    differences = room._differences(v)
    points = [math.prod(2 * m * s + 1 for s in v) for m in range(12)]
    assert all(c >= 0 for c in differences)
    assert points == [sum(c * math.comb(m, j) for j, c in enumerate(differences)) for m in range(12)]
    normalizer = sum(c * alpha**j / (1 - alpha) ** (j + 1) for j, c in enumerate(differences))
    for m, b in enumerate(points):
        probability = Fraction(0)
        for j, c in enumerate(differences[: m + 1]):
            weight = c * alpha**j / (1 - alpha) ** (j + 1) / normalizer
            probability += weight * math.comb(m, j) * alpha ** (m - j) * (1 - alpha) ** (j + 1)
        assert probability == alpha**m * b / normalizer


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 2**40 + 1])
def test_uniform_numbers_count_every_value_of_their_bits(count):
    bits = (count - 1).bit_length()
    if count == 1:
        assert choices._uniform(iter([]), 1) == 0
    elif bits < 8:
        for u in range(2**bits):
            word = u << (64 - bits) | 12345
            assert choices._uniform(iter([word, 0]), count) == (u if u < count else 0)
    else:
        refused = (2**64 - 1, 7 << 64 - bits)
        assert choices._uniform(iter(refused), count) == 7


def test_uniform_numbers_of_several_words():
    count = 3 << 70
    assert choices._uniform(iter([2**64 - 1, 5, 1 << 62, 1 << 56]), count) == ((1 << 62) * 2**64 + (1 << 56)) >> 56
    refused, taken = (2**63, 2**63), (2**63, 2**63 - 1)  # 65 bits: 2⁶⁴ + 1, and 2⁶⁴
    assert choices._uniform(iter([*refused, *taken]), 2**64 + 1) == 2**64
    assert choices._uniform(iter([7]), 2**64) == 7


def law_of_points(monkeypatch, alpha, axes, center, max_count):
    """Return exact P(m, x) of the points of step 2 for m up to `max_count`, from all paths of choices."""
    law, ways = defaultdict(Fraction), [()]
    while ways:
        way, taken, counts, probability = ways.pop(), [], [], Fraction(1)

        def choose(options, way=way, taken=taken):
            if len(taken) >= len(way):
                ways.extend((*taken, k) for k in range(1, options))
            taken.append(way[len(taken)] if len(taken) < len(way) else 0)
            return taken[-1]

        def uniform(_, count, choose=choose, counts=counts):
            nonlocal probability
            counts.append(count)
            probability /= count
            return choose(count if len(counts) == 1 or count <= 2 * max_count * axes[len(counts) - 2] + 1 else 1)

        def successes(_, p, q, choose=choose):
            nonlocal probability
            many = choose(max_count + 1)
            probability *= (1 - Fraction(p, q)) * Fraction(p, q) ** many
            return many

        monkeypatch.setattr(choices, "_uniform", uniform)
        monkeypatch.setattr(choices, "_successes", successes)
        x = next(choices._points(iter(()), alpha, list(axes), list(center)))
        wide = {Fraction(count - 1, 2 * v) for count, v in zip(counts[1:], axes, strict=True)}
        assert len(wide) == 1
        if (m := wide.pop()) <= max_count:
            law[m, *x] += probability
    return law


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("alpha", "axes", "center", "max_count"),
    [
        (Fraction(1, 3), (1,), (4,), 3),
        (Fraction(3, 5), (2,), (0,), 2),
        (Fraction(1, 4), (2, 1), (1, -3), 2),
        (Fraction(1, 2), (1, 2, 1), (0, 1, 2), 1),
    ],
)
def test_points_have_the_exact_law_of_their_distance(monkeypatch, alpha, axes, center, max_count):
    """α^m for each of the points within m, over the sum of all; as many of a distance as there are."""
    sums = [1 / (1 - alpha), alpha / (1 - alpha) ** 2, alpha * (1 + alpha) / (1 - alpha) ** 3]
    sums.append(alpha * (1 + 4 * alpha + alpha**2) / (1 - alpha) ** 4)  # of m^k α^m
    counts_within = reduce(
        np.polymul, [np.array([2 * v, 1], dtype=object) for v in axes]
    )  # points, as a polynomial of m
    normalizer = sum(c * s for c, s in zip(counts_within[::-1], sums, strict=False))
    law = law_of_points(monkeypatch, alpha, axes, center, max_count)
    cells = [
        (m, *x)
        for m in range(max_count + 1)
        for x in itertools.product(*(range(i - m * v, i + m * v + 1) for i, v in zip(center, axes, strict=True)))
    ]
    assert set(law) == set(cells)
    assert all(law[cell] == alpha ** cell[0] / normalizer for cell in cells)


def test_successes_are_counted_up_to_the_first_failure():
    quarter = [k << 62 for k in range(4)]
    assert choices._successes(iter([quarter[0], quarter[0], quarter[1]]), 1, 4) == 2
    assert choices._successes(iter([quarter[2], quarter[0], quarter[1], quarter[3]]), 3, 4) == 3
    assert choices._successes(iter([quarter[3]]), 3, 4) == 0


def test_a_point_is_taken_as_often_as_its_weight_says_and_never_outside(monkeypatch):
    weights, sure = np.array([[0, 3, 1], [2, 3, 0]]), (0, 1)
    for point, u in itertools.product(itertools.product(range(-2, 4), range(-2, 5)), range(3)):
        draw_counts = []
        monkeypatch.setattr(choices, "_points", lambda *_, point=point: iter([list(point), list(sure)]))
        monkeypatch.setattr(
            choices, "_uniform", lambda _, count, u=u, draw_counts=draw_counts: draw_counts.append(count) or u
        )
        inside = all(0 <= i < s for i, s in zip(point, weights.shape, strict=True))
        taken = inside and u < weights[point]
        assert by_distance(Fraction(1, 2), (1, 1), weights, 3, (0, 0)) == (point if taken else sure)
        assert draw_counts == [3] * (1 if taken else 2)  # as often, wherever the point is


def test_of_a_point_outside_the_weight_of_the_nearest_place_is_read(monkeypatch):
    monkeypatch.setattr(choices, "_uniform", lambda *_: 0)
    for node in np.ndindex(2, 3):
        weights = np.full((2, 3), 3)
        weights[node] = 4
        sure = (0, 1) if node == (0, 0) else (0, 0)
        for point in itertools.product(range(-2, 4), range(-2, 5)):
            monkeypatch.setattr(choices, "_points", lambda *_, point=point, sure=sure: iter([list(point), list(sure)]))
            read = tuple(np.clip(point, 0, (1, 2)).tolist()) == node
            with pytest.raises(ValueError, match="a weight is not from 0") if read else contextlib.nullcontext():
                by_distance(Fraction(1, 2), (1, 1), weights, 3, (0, 0))


def test_weights_of_no_more_than_one_will_do():
    outputs = {by_distance(Fraction(1, 2), (1,), np.array([1, 0, 1]), 1, (1,)) for _ in range(100)}
    assert outputs == {(0,), (2,)}  # one of them alone once in 10^29


def test_random_words_are_requested_again_in_every_draw(monkeypatch):
    word_counts = []
    original = noise._random_words
    monkeypatch.setattr(noise, "_random_words", lambda count: (word_counts.append(count), original(count))[1])
    mechanism = lazy_tight_constraints(path(3), 1)
    draws(mechanism, (1,), 10)
    assert len(word_counts) >= 10


def test_draws_are_fresh_whatever_the_seeds_of_other_generators():
    mechanism = lazy_tight_constraints(path(100), 0.05)
    samples = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        samples.append(
            [by_distance(mechanism.alpha, (1,), mechanism.weights, mechanism.max_weight, (50,)) for _ in range(40)]
        )
    assert samples[0] != samples[1]  # equal once in 10^50


@pytest.mark.parametrize(
    ("changed", "error", "why"),
    [
        ({"alpha": 0.5}, TypeError, "is a float"),
        ({"alpha": Fraction(0)}, ValueError, "not between 0 and 1"),
        ({"alpha": Fraction(1)}, ValueError, "not between 0 and 1"),
        ({"steps": (0,)}, ValueError, "below 1"),
        ({"steps": ()}, ValueError, "below 1"),
        ({"steps": (1, 1)}, ValueError, "equally many axes"),
        ({"steps": (1.0,)}, TypeError, "whole numbers"),
        ({"steps": (True,)}, TypeError, "whole numbers"),
        ({"point": (725,)}, ValueError, "not in the box"),
        ({"point": (-1,)}, ValueError, "not in the box"),
        ({"point": (3,)}, ValueError, "not in the box"),
        ({"point": (0, 725)}, ValueError, "equally many axes"),
        ({"point": (1.0,)}, TypeError, "whole numbers"),
        ({"weights": [1, 2, 3]}, TypeError, "int64"),
        ({"weights": np.array([1.0, 2, 3])}, TypeError, "int64"),
        ({"weights": np.array([725, 725, 725])}, ValueError, "a weight is not from 0"),
        ({"weights": np.array([-725, -725, -725])}, ValueError, "a weight is not from 0"),
        ({"top": 0}, ValueError, "below 1"),
        ({"top": 3.0}, TypeError, "whole number"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused_without_being_named(changed, error, why):
    arguments = {"alpha": Fraction(1, 2), "steps": (1,), "weights": np.array([1, 2, 3]), "top": 3, "point": (1,)}
    with pytest.raises(error, match=why) as caught:
        by_distance(*(arguments | changed).values())
    assert "no noise was drawn" in str(caught.value)
    assert "725" not in str(caught.value)


def test_numbers_of_numpy_will_do():
    output = by_distance(Fraction(1, 2), (np.int64(1),), np.array([0, 3, 0]), np.int64(3), (np.int64(0),))
    assert output == (1,)


@pytest.mark.parametrize(
    ("point", "end"), [((0, 0), (0, 0)), ((-1, 4), (0, 3)), ((5, -1), (4, 0)), ((4, 3), (4, 3)), ((-9, 9), (0, 3))]
)
def test_a_point_outside_the_box_is_clamped_to_its_nearest_end(monkeypatch, point, end):
    requests = []

    def points(random_words, *law):
        requests.append((0 <= next(random_words) < 2**64, *law))
        return iter([list(point)])

    monkeypatch.setattr(choices, "_points", points)
    assert noise.choose(choices.clamped, Fraction(1, 2), (1, 2), (5, 4), (3, 1)) == end
    assert requests == [(True, Fraction(1, 2), [1, 2], [3, 1])]


def test_without_randomness_nothing_is_drawn(monkeypatch):
    def fail(_):
        raise OSError("no entropy")

    monkeypatch.setattr(noise.os, "urandom", fail)
    with refused("fitnoise.noise-sampler-failed"):
        by_distance(Fraction(1, 2), (1,), np.array([1, 2, 3]), 3, (1,))


# --- Margins ----------------------------------------------------------------------------------------------


def brute(labels, table, guesses, confidence):
    """The least h by trying all of them, with sums rounded once."""
    x = np.array([r if isinstance(r, tuple) else (r,) for r in labels], dtype=float)
    away = np.abs(x[:, None, :] - x[guesses][None, :, :]).max(axis=2)
    for h in np.unique(away):
        if all(math.fsum(row[distances <= h]) >= confidence for row, distances in zip(table, away, strict=True)):
            return h
    return away.max()


CONFIDENCES = [1e-6, 0.1, 0.5, 0.8, 0.95, 0.999, 1 - 1e-9]


@pytest.mark.no_cover
@pytest.mark.parametrize(("graph", "epsilon"), SMALL, ids=IDS)
def test_margins_are_the_smallest(graph, epsilon):
    mechanism = lazy_tight_constraints(graph, epsilon)
    labels = [place_of(mechanism, i) for i in range(graph.n)]
    table = probabilities(mechanism)
    computed = [accuracy(mechanism).margin(c) for c in CONFIDENCES]
    assert computed == [brute(labels, table, np.arange(graph.n), c) for c in CONFIDENCES]
    assert all(isinstance(h, int) for h in computed)
    assert computed == sorted(computed)


@pytest.mark.parametrize(
    "mechanism",
    [
        tight_constraints(sum_query(6, 2), 0.7),
        geometric(sum_query(5, 3), 0.6),
        staircase(independent_counts(3, 4), 0.9),
        from_integers(path(3), 1, [[2, 1, 0, 4], [2, 1, 0, 4], [1, 2, 0, 4]], [0, 1, 0, 2]),
    ],
    ids=lambda m: m.family,
)
def test_margins_of_tables_are_the_smallest(mechanism):
    guesses = accuracy(mechanism).remap(np.random.default_rng(2).dirichlet(np.ones(mechanism.graph.n)))
    for x in (None, guesses):
        read = mechanism.answers if x is None else x
        table = mechanism.probabilities()
        for c in CONFIDENCES:
            assert accuracy(mechanism).margin(c, x) == brute(mechanism.graph.results, table[:, table.max(axis=0) > 0],
                                                     read[table.max(axis=0) > 0], c)  # fmt: skip


def test_a_coverage_that_only_just_is_or_is_not_enough():
    graph, exact = path(2), from_integers(path(2), 2, [[3, 1], [1, 3]])
    assert accuracy(exact).margin(0.75 - 1e-12) == 0
    assert accuracy(exact).margin(0.75) == accuracy(exact).margin(0.75 + 1e-12) == 1  # rounding is on the safe side
    lazy = mechanism_of(graph, 2, Fraction(1, 4), np.array([3, 3]))  # 4/5 and 1/5
    assert accuracy(lazy).margin(0.8 - 2e-12) == 0
    assert accuracy(lazy).margin(0.8) == 1


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 1.5, math.nan, "0.95", None, True])
def test_a_confidence_is_between_0_and_1(confidence):
    for mechanism in (tight_constraints(path(3), 1), lazy_tight_constraints(path(3), 1)):
        with refused("workload.confidence-out-of-range"):
            accuracy(mechanism).margin(confidence)


def test_margins_need_numbers():
    labelled = QueryGraph(("none", "one", "two"), Box((3,), (1,)))
    with refused("workload.errors-need-numbers"):
        accuracy(tight_constraints(labelled, 1)).margin(0.9)


@pytest.mark.no_cover
def test_margins_cover_what_is_drawn():
    # Where the margin is tightest, the share that it covers is a binomial draw with its probability.
    for graph, epsilon, node in [(sum_query(20, 5), 1.0, (50,)), (independent_counts(6, 6), 1.2, (3, 3))]:
        mechanism = lazy_tight_constraints(graph, epsilon)
        h = accuracy(mechanism).margin(0.9)
        seen = draws(mechanism, node, 10_000)
        away = [max(abs(a - b) for a, b in zip(place_of(mechanism, o), node, strict=True)) for o in range(graph.n)]
        covered = int(seen[np.array(away) <= h].sum())
        assert stats.binom.cdf(covered, 10_000, 0.9) >= SIGNIFICANCE


# --- Large ones -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "epsilon", "rate"),
    [
        (sum_query(200_000, 5), 1.0, 0.146633),
        (independent_counts(300, 300), 1.2, None),
    ],
    ids=["sum-5", "two counts"],
)
def test_a_million_results(graph, epsilon, rate):
    mechanism = lazy_tight_constraints(graph, epsilon)
    assert Fraction(epsilon) - Fraction(1, 10**12) <= mechanism.log_ratio() <= Fraction(epsilon)
    hits = accuracy(mechanism).hits().reshape(mechanism.weights.shape)
    if rate is not None:
        assert accuracy(mechanism).hit_rate(uniform(graph)) == pytest.approx(rate, abs=1e-5)
    assert np.abs(hits - np.flip(hits)).max() <= 1e-12
    middle = tuple(s // 2 for s in hits.shape)
    small = tight_constraints(sum_query(80, 5), 1.0) if rate else None
    if small is not None:
        assert hits[:40] == pytest.approx(
            accuracy(small).hits()[:40], abs=1e-11
        )  # away from the other end nothing changes
    assert mechanism.tries < 5
    margin = accuracy(mechanism).margin(0.95)
    outputs = [
        by_distance(mechanism.alpha, mechanism.steps, mechanism.weights, mechanism.max_weight, middle)
        for _ in range(2000)
    ]
    covered = sum(max(abs(a - b) for a, b in zip(o, middle, strict=True)) <= margin for o in outputs)
    assert stats.binom.cdf(covered, 2000, 0.95) >= SIGNIFICANCE


@pytest.mark.no_cover
def test_ten_thousand_results():
    mechanism = lazy_tight_constraints(sum_query(2000, 5), 1.0)
    assert 1 - Fraction(1, 10**12) <= mechanism.log_ratio() <= 1
    assert accuracy(mechanism).hits()[:12] == pytest.approx(
        [0.464873163, 0.397783567, 0.303462178, 0.195754272, 0.092752376, 0.011351149, 0.110055721, 0.181142948,
         0.207974209, 0.187149785, 0.129476722, 0.110227063], abs=1e-9,
    )  # fmt: skip
    alpha = math.exp(-1)
    bulk = (1 - alpha) / (1 - alpha + 10 * alpha)
    assert accuracy(mechanism).hits()[5000] == pytest.approx(bulk, rel=EXACT)  # the staircase of width 5
    for confidence in (0.5, 0.95, 0.999):
        assert accuracy(mechanism).margin(confidence) == accuracy(tight_constraints(sum_query(100, 5), 1)).margin(
            confidence
        )
