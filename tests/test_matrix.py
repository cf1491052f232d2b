"""Pure planning: values known from elsewhere, laws of any optimum, and the choice between pure and Gaussian noise."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fitnoise as fn
from designs import remade
from fitnoise.errors import PlanError, SpecError
from fitnoise.mechanisms.laplace import planning as matrix
from fitnoise.mechanisms.laplace.hierarchies import hierarchy
from fitnoise.messages import english
from fitnoise.request.curves import gaussian_mu
from fitnoise.solving.fixed_random import FixedGenerator, scrambled
from fitnoise.solving.sectors import decompose
from fitnoise_lab import gallery
from laws.plans import status_of
from refused import refused
from tolerances import EXACT, SIGNIFICANCE

SLACK = 1.01
"""The values below are the best known, not optima: a search may end this much above."""

TOTAL = fn.Objective(fn.Goal.TOTAL_ERROR)
WORST = fn.Objective()
DELTA = 1e-6
THRESHOLD = 1 / (2 * gaussian_mu(1.0, DELTA) ** 2)
"""8.92: a pure plan this near to its bound is as accurate at ε = 1 as any Gaussian noise could be at (1, δ)."""


def ordered(n, *tables):
    return fn.Workload(fn.Domain(o=fn.Ordered(0, n - 1)), list(tables))


def prefix(n, variance=1.0):
    return ordered(n, fn.table(cumulative="o", variance=variance))


def ranges(n):
    return ordered(n, fn.table(ranges="o", variance=1.0))


def searched(workload, objective=WORST, **options):
    return matrix.search(fn.Publication(workload, privacy="pure", objective=objective, **options))


@cache
def search_line(name, goal):
    """The search for one line of the tables below."""
    return searched(*(LINES[name, goal][:1]), goal)


LINES = {
    # workload, best known ratio to a certified lower bound
    ("prefix 16", TOTAL): (prefix(16), 2.31704),
    ("prefix 64", TOTAL): (prefix(64), 3.21186),
    ("ranges 16", TOTAL): (ranges(16), 1.97512),
    ("ranges 64", TOTAL): (ranges(64), 2.90834),
    ("prefix 16", WORST): (prefix(16), 2.63369),
    ("prefix 64", WORST): (prefix(64), 3.45862),
    ("ranges 32", WORST): (ranges(32), 3.0574),
    ("cells and sum 64", WORST): (
        fn.matrix_workload(gallery.identity_and_sum(64), variances=[1.0] * 65), 2.00403
    ),
    ("4 x 4 x 4", TOTAL): (gallery.marginal_tables((4, 4, 4)), 2.194),
    ("3 x 4 x 5", TOTAL): (gallery.marginal_tables((3, 4, 5)), 2.140),
    ("16 x 16 x 16", TOTAL): (gallery.marginal_tables((16, 16, 16)), 3.316),
    ("2^4", TOTAL): (gallery.marginal_tables((2,) * 4), 1.833),
    ("2^6", TOTAL): (gallery.marginal_tables((2,) * 6), 4.132),
    ("4 x 4 x 4", WORST): (gallery.marginal_tables((4, 4, 4)), 16 / 3.471896),
    ("3 x 4 x 5", WORST): (gallery.marginal_tables((3, 4, 5)), 14.54814 / 3.418230),
    ("16 x 16 x 16", WORST): (gallery.marginal_tables((16, 16, 16)), 31.22294 / 5.178935),
    ("2^4", WORST): (gallery.marginal_tables((2,) * 4), 8 / 2.890968),
    ("2^6", WORST): (gallery.marginal_tables((2,) * 6), 30 / 4.603292),
}  # fmt: skip


# --- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "goal"), LINES, ids=lambda x: x if isinstance(x, str) else x.goal.value)
def test_the_best_strategies_known_are_found(name, goal):
    result = search_line(name, goal)
    assert 1 <= result.part.ratio <= LINES[name, goal][1] * SLACK
    assert result.part.bound <= result.part.objective_value
    assert result.part.relaxation <= 1 + EXACT


@pytest.mark.parametrize(("name", "goal", "promised"), [("prefix 64", TOTAL, 3.25), ("prefix 64", WORST, 3.50)])
def test_what_is_promised_of_prefixes(name, goal, promised):
    assert search_line(name, goal).part.ratio <= promised


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "goal", "best", "promised"),
    [
        (256, TOTAL, 4.21039, 4.26),
        (256, WORST, 4.410, 4.46),
    ],
    ids=["total", "worst"],
)
def test_long_prefixes_keep_their_promise_and_beat_any_gaussian_noise(n, goal, best, promised):
    result = searched(prefix(n), goal)
    assert result.part.ratio <= min(best * SLACK, promised)
    assert result.part.ratio < THRESHOLD
    assert result.candidates[0].family == "cells and sums"


def test_a_single_sum_needs_no_more_than_its_own_noise():
    """If the bound is half the cost of Laplace noise of this variance, the ratio is 1 by the choice of units."""
    result = searched(ordered(5, fn.table(variance=1.0)))
    assert result.part.ratio == pytest.approx(1, rel=1e-3)
    assert result.part.epsilon() == pytest.approx(math.sqrt(2), rel=1e-6)


# --- families ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "goal"), LINES, ids=lambda x: x if isinstance(x, str) else x.goal.value)
def test_plan_has_the_lowest_cost_of_all_tried(name, goal):
    result = search_line(name, goal)
    best = result.candidates[0]
    assert (best.epsilon, best.ratio) == (result.part.epsilon(), result.part.ratio)
    assert result.part.status[0].id == matrix.FAMILIES[best.family]
    epsilons = [c.epsilon for c in result.candidates]
    assert epsilons == sorted(epsilons)
    assert "every cell on its own" in {c.family for c in result.candidates}
    assert len({c.family for c in result.candidates}) == len(result.candidates)
    for c in result.candidates:
        assert c.ratio == pytest.approx(result.part.ratio * (c.epsilon / best.epsilon) ** 2)
        assert c.answers > 0
        assert c.seconds >= 0


def dense_epsilon(a, w, goal):
    """ε of least squares from Laplace noise on the queries a, by the formula: variance 2 (|a|₁/ε)² w (aᵀa)⁻¹ wᵀ."""
    rows = np.einsum("ij,jk,ik->i", w, np.linalg.inv(a.T @ a), w)
    return np.abs(a).sum(axis=0).max() * math.sqrt(2 * (rows.max() if goal is WORST else rows.mean()))


QUERIES = {
    "prefix 16": gallery.prefix(16),
    "prefix 64": gallery.prefix(64),
    "ranges 16": np.array([np.isin(np.arange(16), np.arange(i, j + 1)) for i in range(16) for j in range(i, 16)]),
}


@pytest.mark.parametrize("goal", [TOTAL, WORST], ids=["total", "worst"])
@pytest.mark.parametrize("name", QUERIES)
def test_cells_and_hierarchies_cost_what_linear_algebra_says(name, goal):
    w = QUERIES[name].astype(float)
    n = w.shape[1]
    result = search_line(name, goal) if (name, goal) in LINES else searched(ranges(n), goal)
    by_name = {c.family: c.epsilon for c in result.candidates}
    assert by_name["every cell on its own"] == pytest.approx(dense_epsilon(np.eye(n), w, goal), rel=1e-5)
    trees = [hierarchy(n, b).astype(float) for b in matrix.BRANCHES if b < n]
    best = min(dense_epsilon(a, w, goal) for t in trees for a in (t, t[1:]))
    # cells below the largest cost are raised to it, so it may be better than the tree itself
    assert by_name["best hierarchy"] <= best * (1 + 1e-5)
    assert by_name["best hierarchy"] >= 0.8 * best
    assert result.part.epsilon() <= min(best, dense_epsilon(np.eye(n), w, goal)) * (1 + 1e-5)


@pytest.mark.parametrize(("name", "goal"), [("prefix 64", TOTAL), ("prefix 64", WORST), ("ranges 64", TOTAL)])
def test_every_cell_has_the_largest_cost(name, goal):
    """Rounding to integers leaves some cells below the largest cost; they are raised for nothing."""
    assert len(set(search_line(name, goal).part.strategy.profile())) == 1


def test_marginals_are_answered_from_weighted_margins():
    """3 x 4 x 5, the worst number: pairs alone, with weights 0.398, 0.388 and 0.214, and no cell of all three."""
    plan = search_line("3 x 4 x 5", WORST).part
    sums = {m.attributes: int(m.column_sums.max()) for m in plan.strategy.measured}
    assert set(sums) == {(0, 1), (0, 2), (1, 2)}
    total = sum(sums.values())
    assert {b: round(x / total, 3) for b, x in sums.items()} == {
        (0, 1): pytest.approx(0.398, abs=2e-3), (0, 2): pytest.approx(0.388, abs=2e-3),
        (1, 2): pytest.approx(0.214, abs=2e-3),
    }  # fmt: skip


def test_what_is_tried_depends_on_the_tables():
    def families(workload):
        return {c.family for c in searched(workload).candidates}

    cells, tree, sums = "every cell on its own", "best hierarchy", "cells and sums"
    assert families(ordered(1, fn.table("o", margin=1))) == {cells}
    assert families(ordered(2, fn.table(cumulative="o", variance=1))) == {cells, sums}
    assert families(ordered(5, fn.table(cumulative="o", variance=1))) == {cells, sums, tree}
    assert families(ordered(5, fn.table("o", variance=1))) == {cells, "margins"}
    domain = fn.Domain(o=fn.Ordered(0, 4), c=fn.Categorical(["x", "y"]))
    mixed = fn.Workload(domain, [fn.table("c", cumulative="o", variance=1)])
    assert families(mixed) == {f"{sums} by margin"}
    exhaustive = matrix.search(fn.Publication(mixed, privacy="pure"), all_families=True)
    assert {c.family for c in exhaustive.candidates} == {cells, sums, tree, f"{sums} by margin"}
    assert exhaustive.part.epsilon() == pytest.approx(searched(mixed).part.epsilon(), rel=1e-3)
    two = fn.Workload(
        fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 2)), [fn.table(cumulative=["a", "b"], variance=1)]
    )  # no order of all cells
    assert families(two) == {cells, sums}


# --- laws of any optimum ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 9, 16])
def test_asking_twice_changes_nothing(n):
    """Worst case: the same question needs the same accuracy."""
    repeated = ordered(n, fn.table(cumulative="o", variance=1.0), fn.table(cumulative="o", variance=1.0, name="again"))
    assert searched(repeated).part.epsilon() == pytest.approx(searched(prefix(n)).part.epsilon(), rel=1e-3)


def test_asking_twice_for_marginals_changes_nothing():
    domain = fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 3))
    once = [fn.table("a", variance=1.0), fn.table("a", "b", variance=3.0)]
    twice = [*once, fn.table("a", variance=1.0, name="again")]
    epsilon, repeated_epsilon = (searched(fn.Workload(domain, tables)).part.epsilon() for tables in (once, twice))
    assert repeated_epsilon == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("goal", [TOTAL, WORST], ids=["total", "worst"])
@pytest.mark.parametrize("factor", [4.0, 1 / 9])
def test_epsilon_is_the_inverse_of_the_requested_standard_errors(goal, factor):
    plan = searched(prefix(16, factor), goal).part
    assert plan.epsilon() * math.sqrt(factor) == pytest.approx(search_line("prefix 16", goal).part.epsilon(), rel=1e-5)
    assert plan.ratio == pytest.approx(search_line("prefix 16", goal).part.ratio, rel=1e-3)


@pytest.mark.parametrize("goal", [TOTAL, WORST], ids=["total", "worst"])
@pytest.mark.parametrize("n", [4, 8, 12])
def test_cells_that_no_query_distinguishes_cost_nothing(n, goal):
    few = searched(prefix(n), goal).part
    steps = fn.table(ranges={"o": [(0, 4 * i + 3) for i in range(n)]}, variance=1.0)
    many = searched(ordered(4 * n, steps), goal).part
    assert many.epsilon() == pytest.approx(few.epsilon(), rel=1e-3)
    assert sum(many.strategy.lengths) == sum(few.strategy.lengths)


@pytest.mark.parametrize("case", range(3))
def test_domains_are_reduced_without_loss(case, rng):
    """Columns repeated, in any order, and columns of nothing."""
    queries = rng.integers(-2, 3, size=(6, 5))
    queries[:, 0] = rng.permutation([1, 1, -1, 1, 2, 1])
    variances = rng.uniform(1, 4, 6).tolist()
    which = rng.permutation([0, 0, 1, 1, 1, 2, 3, 3, 4, 5, 5])
    wide = np.column_stack([queries, np.zeros(6, dtype=np.int64)])[:, which]
    small = fn.plan(fn.matrix_workload(queries, variances=variances), privacy="pure")
    large = fn.plan(fn.matrix_workload(wide, variances=variances), privacy="pure")
    assert large.epsilon() == pytest.approx(small.epsilon(), rel=SLACK - 1)  # searched from other starts
    assert large.bound == pytest.approx(small.bound, rel=1e-3)


def test_a_looser_target_never_costs_more():
    tables = [fn.table(cumulative="o", variance=1.0), fn.table("o", variance=0.5)]
    looser = [tables[0], fn.table("o", variance=0.7)]
    strict, loose = (searched(ordered(8, *t)).part for t in (tables, looser))
    assert loose.epsilon() <= strict.epsilon() * SLACK
    assert loose.bound <= strict.bound * (1 + 2e-4)


@pytest.mark.parametrize("margin", [1, 2, 3, 0.5, 1024])
@pytest.mark.parametrize("confidence", [0.3, 0.9, 0.95, 0.9999])
def test_margins_take_the_tails_of_laplace_noise_into_account(margin, confidence):
    """One count at 95 %: −ln(0.05) = 3.00 scales, and not 1.96 · √2 = 2.77; integer margins lie on the lattice."""
    plan = fn.plan(fn.Workload(fn.Domain(o=fn.Ordered(0, 2)), [fn.table(margin=margin)], confidence), privacy="pure")
    variance = math.sqrt(2) * stats.norm.isf((1 - confidence) / 2)  # and no variance is above its target either
    needed = max(-math.log1p(-confidence), variance) / margin
    assert needed * (1 - 1e-6) <= plan.epsilon() <= needed * (1 + 1e-4)
    assert plan.group("total").table_margins("total") <= margin
    assert plan.table_part.variances <= (margin / (variance / math.sqrt(2))) ** 2 * (1 + EXACT)


@pytest.mark.parametrize("neighbours", list(fn.Neighbours))
def test_progress_tells_the_epsilon_reached(neighbours):
    """Also if two strategies tie: those of replaced records are tried with raised cells and without."""
    reports = []
    unit = fn.PrivacyUnit(neighbours=neighbours)
    publication = fn.Publication(prefix(8), privacy="pure", unit=unit)
    plan = matrix.search(publication, progress=lambda i, e: reports.append((i, e))).part
    steps, epsilons = zip(*reports, strict=True)
    assert list(steps) == sorted(set(steps))
    assert list(epsilons) == sorted(epsilons, reverse=True)
    assert epsilons[-1] == pytest.approx(plan.epsilon(), rel=1e-5)


@pytest.mark.parametrize("attributes", [[], ["s"]])
def test_a_search_that_is_left_early_has_what_was_found_and_its_proof(attributes, monkeypatch):
    """However long it was: at once, it is noise on every cell; what is found in no time is no worse."""
    domain = fn.Domain(o=fn.Ordered(0, 7), s=fn.Ordered(0, 1))
    workload = fn.Workload(domain, [fn.table(*attributes, cumulative="o", variance=1.0), fn.table("o", variance=1.0)])
    full = fn.plan(workload, privacy="pure")
    early = fn.plan(workload, privacy="pure", seconds=1e-9)
    assert status_of(early) == ["family_cells", "search_time", "bound_gap"]
    assert "search_time" not in status_of(full)
    assert early.table_part.bound == full.table_part.bound
    assert early.table_part.variances.max() <= 1
    assert early.epsilon() > full.epsilon()
    limits_reached = iter([False] * 3)
    monkeypatch.setattr(matrix.p_identity.TimeLimit, "is_over", property(lambda _: next(limits_reached, True)))
    partial_plan = fn.plan(workload, privacy="pure", seconds=9)
    assert "the search ended after 9 s" in english(*partial_plan.table_part.status)
    assert full.epsilon() * (1 - EXACT) <= partial_plan.epsilon() <= early.epsilon() * (1 + EXACT)


def test_weights_of_kinds_of_queries_take_no_longer_than_they_may():
    publication = fn.Publication(
        fn.Workload(
            fn.Domain(o=fn.Ordered(0, 3), s=fn.Ordered(0, 1)),
            [fn.table("s", cumulative="o", variance=1.0), fn.table("s", variance=1.0)],
        ),
        privacy="pure",
    )
    d = decompose(publication.workload)
    at_once = matrix._MarginProblem(d, None, clock=matrix.p_identity.TimeLimit(1e-9)).by_margin()
    assert at_once is not None
    price = sum(float(np.abs(a).sum(axis=0).max()) for a in at_once.values())
    assert price == pytest.approx(1, rel=1e-6)


def test_what_has_an_optimum_is_not_left_early():
    with refused("plan.seconds-with-gaussian-noise"):
        fn.plan(prefix(4), seconds=1)
    with refused("workload.not-a-positive-number"):
        fn.plan(prefix(4), privacy="pure", seconds=0)


def test_more_answers_than_can_be_held_are_refused_with_what_to_do(monkeypatch):
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 9) for i in range(8)})
    all_cells = fn.Workload(domain, [fn.table(*domain, variance=1.0)])
    with refused("workload.too-many-answers-for-laplace"):
        fn.plan(all_cells, privacy="pure")
    domain = fn.Domain(**{f"a{i}": fn.Ordered(0, 9) for i in range(7)}, o=fn.Ordered(0, 9))
    structured = fn.Workload(domain, [fn.table(*[a for a in domain if a != "o"], cumulative="o", variance=1.0)])
    with refused("workload.too-many-answers-for-laplace"):
        fn.plan(structured, privacy="pure")
    monkeypatch.setattr(matrix, "MAX_ANSWERS", 12)
    with refused("workload.too-many-answers-for-laplace"):
        fn.plan(gallery.marginal_tables((4, 4), orders=(2,)), privacy="pure")
    result = searched(gallery.marginal_tables((4, 4), orders=(1,)))  # pairs would be too many, singles are not
    assert [c.family for c in result.candidates] == ["margins"]
    assert sum(result.part.strategy.lengths) == 8


# --- numbers that look drawn ------------------------------------------------------------------------------


def test_fixed_numbers_are_always_the_same():
    one, second = FixedGenerator(), FixedGenerator()
    assert (one.uniform(0, 1, (3, 4)) == second.uniform(0, 1, (3, 4))).all()
    assert (one.normal(1, 2, (5,)) == second.normal(1, 2, (5,))).all()
    assert (one.integers(0, 9, (5,)) == second.integers(0, 9, (5,))).all()
    joint, parts = FixedGenerator(), FixedGenerator()
    assert (joint.uniform(0, 1, (6,)) == np.concatenate([parts.uniform(0, 1, (k,)) for k in (1, 3, 2)])).all()
    assert (joint.uniform(0, 1, (2, 3)).ravel() == parts.uniform(0, 1, (6,))).all()
    assert joint.uniform(0, 1, (0, 3)).shape == (0, 3)


def test_fixed_numbers_are_those_of_splitmix():
    """Published first outputs for the seeds 0 and 1."""
    outputs = [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1]
    assert scrambled(np.arange(2)).tolist() == outputs
    assert FixedGenerator().uniform(0, 1, (2,)).tolist() == [(w >> 11) * 2.0**-53 for w in outputs]
    assert FixedGenerator().integers(0, 10, (2,)).tolist() == [8, 5]


def test_fixed_numbers_do_not_repeat_themselves():
    numbers = FixedGenerator().uniform(0, 1, (1 << 16,))
    assert len(np.unique(numbers)) == len(numbers)


def evenly(counts):
    """Return the p-value of a chi-square test that all of these counts are equally likely."""
    return stats.chisquare(np.ravel(counts)).pvalue


def test_fixed_numbers_are_uniform():
    rng = FixedGenerator()
    numbers = rng.uniform(-3, 5, (1 << 17,))
    assert -3 <= numbers.min() <= numbers.max() < 5
    fractions = (numbers + 3) / 8
    assert evenly(np.bincount((fractions * 256).astype(int), minlength=256)) > SIGNIFICANCE
    pairs = np.histogram2d(fractions[::2], fractions[1::2], bins=16, range=[[0, 1], [0, 1]])[0]
    assert evenly(pairs) > SIGNIFICANCE
    low_bits = (fractions * 2.0**40 % 64).astype(int)
    assert evenly(np.bincount(low_bits, minlength=64)) > SIGNIFICANCE


def test_fixed_integers_are_uniform_and_in_range():
    rng = FixedGenerator()
    numbers = rng.integers(-2, 8, (1 << 17,))
    assert numbers.dtype == np.int64
    assert (numbers.min(), numbers.max()) == (-2, 7)
    assert evenly(np.bincount(numbers + 2)) > SIGNIFICANCE
    assert (rng.integers(3, 4, (50,)) == 3).all()


def test_fixed_normal_numbers_are_normal():
    numbers = FixedGenerator().normal(2, 3, (1 << 17,))
    assert np.isfinite(numbers).all()
    fractions = stats.norm.cdf((numbers - 2) / 3)
    assert evenly(np.bincount((fractions * 256).astype(int), minlength=256)) > SIGNIFICANCE


# --- pure or Gaussian -------------------------------------------------------------------------------------


def spent(workload, goal=WORST, epsilon=1.0, delta=DELTA, **options):
    budget = fn.Budget(epsilon=epsilon, delta=delta)
    return fn.Publication(workload, privacy="auto", objective=goal, budget=budget, **options)


def pure_wins(workload, goal):
    comparison = fn.compare(spent(workload, goal))
    kinds = [a.privacy for a in comparison.alternatives]
    assert kinds[0] is comparison.plan.publication.privacy is fn.Privacy.PURE
    assert comparison.plan.table_part.ratio < THRESHOLD
    gaussian = next(a for a in comparison.alternatives if a.privacy is fn.Privacy.ZCDP)
    # what the ratios say: pure noise at ε = 1 is this much better than continuous Gaussian noise at μ(1, δ) ...
    ahead = math.sqrt(THRESHOLD / comparison.plan.table_part.ratio)
    assert gaussian.error >= comparison.alternatives[0].error * ahead * (1 - 1e-3)
    # ... and discrete Gaussian noise by the optimal conversion of its ρ costs at most a tenth on top
    assert gaussian.error <= comparison.alternatives[0].error * ahead * 1.1
    return comparison


@pytest.mark.parametrize("goal", [TOTAL, WORST], ids=["total", "worst"])
@pytest.mark.parametrize("n", [4, 16, 64])
@pytest.mark.parametrize("shape", [prefix, ranges])
def test_pure_noise_is_the_better_one_for_intervals(shape, n, goal):
    pure_wins(shape(n), goal)


@pytest.mark.slow
@pytest.mark.parametrize("goal", [TOTAL, WORST], ids=["total", "worst"])
def test_pure_noise_is_the_better_one_for_many_prefixes(goal):
    pure_wins(prefix(256), goal)


@pytest.mark.slow
def test_pure_noise_is_the_better_one_for_many_ranges():
    pure_wins(ranges(256), TOTAL)


def test_delta_decides():
    """A pure ε is large if the δ next to it is 0.3."""
    publication = spent(prefix(8), delta=0.3)
    assert fn.plan(publication).publication.privacy is fn.Privacy.ZCDP
    assert fn.plan(replace(publication, budget=fn.Budget(epsilon=1, delta=1e-9))).publication.privacy is fn.Privacy.PURE


def test_the_delta_of_a_budget_is_the_one_that_counts():
    comparison = fn.compare(spent(prefix(8), delta=1e-12, title="twelve"))
    assert comparison.plan.publication.delta == DELTA
    line = next(a for a in comparison.alternatives if a.privacy is fn.Privacy.ZCDP)
    assert line.epsilon == pytest.approx(1.0, rel=3e-6)
    assert "Gaussian noise at delta = 1e-12 would take" in english(*comparison.plan.table_part.status)
    at_six = next(a for a in fn.compare(spent(prefix(8))).alternatives if a.privacy is fn.Privacy.ZCDP)
    assert line.error > 1.3 * at_six.error


def test_a_choice_is_the_plan_that_either_promise_would_get():
    """Except for the words of its status."""
    workload = prefix(8)
    for delta, privacy, budget in (
        (1e-6, "pure", fn.Budget(epsilon=1)),
        (0.3, "zcdp", fn.Budget(epsilon=1.0, delta=0.3)),
    ):
        chosen = fn.plan(workload, privacy="auto", epsilon=1.0, delta=delta)
        separate = fn.plan(workload, privacy=privacy, budget=budget, delta=delta)
        assert chosen.publication == separate.publication
        assert remade(chosen, status=separate.table_part.status).hash == separate.hash
        assert fn.Plan.from_json(chosen.to_json()).publication == chosen.publication


CAPS = [
    # δ of ε, the cap as a multiple of ε of the better noise, its own δ, which noise is better, which keeps the cap
    (1e-6, 1.01, 1e-6, "pure", "pure"),
    (0.3, 1.01, 0.3, "zcdp", "zcdp"),
    (0.3, 2.9, 1e-9, "zcdp", "pure"),
    (1e-6, 0.99, 1e-6, "pure", None),
    (0.3, 0.99, 0.3, "zcdp", None),
]


@pytest.mark.parametrize(("delta", "fraction", "cap_delta", "better", "chosen"), CAPS)
def test_a_cap_refuses_only_what_exceeds_it(delta, fraction, cap_delta, better, chosen):
    """With a cap, the noise that keeps it is taken although the other would not."""
    workload = prefix(8)
    comparison = fn.compare(workload, delta=delta)
    assert comparison.alternatives[0].privacy == better
    limit = comparison.alternatives[0].epsilon * fraction
    publication = fn.Publication(workload, privacy="auto", delta=delta, cap=fn.Budget(epsilon=limit, delta=cap_delta))
    if chosen is None:
        with refused("plan.no-noise-within-cap"):
            fn.plan(publication)
        return
    capped = fn.plan(publication)
    assert capped.publication.privacy == chosen
    assert capped.publication.cap == (fn.Budget(epsilon=limit) if chosen == "pure" else publication.cap)
    assert {"pure": "Gaussian noise at delta", "zcdp": "pure noise"}[chosen] in english(*capped.table_part.status)
    assert fn.Plan.from_json(capped.to_json()).publication == capped.publication


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({"budget": fn.Budget(rho=1)}, SpecError, "spec.auto-needs-epsilon"),
        ({"cap": fn.Budget(mu=1)}, SpecError, "spec.auto-needs-epsilon"),
        ({"budget": fn.Budget(epsilon=1)}, SpecError, "spec.pure-limit-needs-pure"),
        ({"cap": fn.Budget(epsilon=1)}, SpecError, "spec.pure-limit-needs-pure"),
        ({"objective": fn.Objective("hybrid", total_error_weight=1.0)}, SpecError, "spec.zcdp-only"),
        ({"cell_budgets": fn.CellBudgets(("o",), (1, 0.5))}, SpecError, "spec.zcdp-only"),
        ({"refine": True}, PlanError, "plan.refine-without-zcdp"),
        ({"gap": 1e-3}, PlanError, "plan.refine-without-zcdp"),
    ],
)
def test_an_invalid_argument_of_a_choice_is_refused(arguments, error, why):
    with refused(why):
        fn.plan(ordered(2, fn.table("o", margin=1)), privacy="auto", **arguments)


def test_a_publication_says_all_there_is_to_say():
    publication = fn.Publication(prefix(3), privacy="pure")
    for arguments in (
        {"privacy": "pure"},
        {"epsilon": 1},
        {"delta": 1e-5},
        {"title": "x"},
        {"cap": fn.Budget(epsilon=1)},
    ):
        with refused("plan.publication-with-arguments"):
            fn.plan(publication, **arguments)
    with refused("plan.publication-with-arguments"):
        fn.compare(publication, epsilon=1)
