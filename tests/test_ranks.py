"""Medians and quantiles by ranks: their scores, their chances, and how far off they can be, over small databases."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.kernel.designs import ranks as kernel_ranks
from fitnoise.kernel.designs.questions import MAX_QUANTILE_DENOMINATOR
from fitnoise.kernel.designs.ranks import ROW_SUM, RankScores
from fitnoise.kernel.exact_powers import log_above
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms import finite
from fitnoise.mechanisms.finite import documents
from fitnoise.request.finite_queries import FiniteQuery
from refused import refused

SHARES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 3)]
REPLACE = Adjacency(fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE))


def all_databases(values, people):
    """Return all databases of at most `people` records, as the number of records at each value."""
    return [x for x in itertools.product(range(people + 1), repeat=values) if sum(x) <= people]


def neighbours(x, replaces):
    """Yield the numbers of records after one record more, or after the replacement of one record."""
    for i in range(len(x)):
        increased = [c + (k == i) for k, c in enumerate(x)]
        if not replaces:
            yield increased
        for j in range(len(x)) if replaces else ():
            if j != i and increased[j]:
                yield [c - (k == j) for k, c in enumerate(increased)]


def rank_mechanism(values=5, people=6, portion=Fraction(1, 2), epsilon=Fraction(3), replaces=False):
    ranks = RankScores(portion, people, replaces)
    return finite.by_ranks(finite.complete(values), epsilon, ranks)


@pytest.mark.parametrize("portion", SHARES)
def test_scores_are_records_that_lack(portion):
    """A value lacks nothing iff it is a quantile, and otherwise parts of a record on one side."""
    ranks = RankScores(portion, 5, replaces=False)
    for x in all_databases(4, 5):
        n, scores = sum(x), ranks.scores(x)
        for v, u in enumerate(scores):
            below, upto = sum(x[:v]), sum(x[: v + 1])
            assert (
                Fraction(u, portion.denominator)
                == max(0, below - portion * n, portion * n - upto)
                <= Fraction(ranks.largest, portion.denominator)
            )
        assert scores[next(v for v in range(4) if sum(x[: v + 1]) >= portion * n)] == 0


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("portion", SHARES)
def test_one_record_moves_a_score_by_a_step_and_sometimes_by_all_of_it(portion, replaces):
    ranks = RankScores(portion, 5, replaces)
    moves = {
        abs(a - b)
        for x in all_databases(4, 4)
        for y in neighbours(x, replaces)
        for a, b in zip(ranks.scores(x), ranks.scores(y), strict=True)
    }
    assert max(moves) == ranks.step


def test_where_many_agree_the_median_is_published_all_but_surely():
    """A bound on mechanisms that see only the true answer is 0.031 there: they cannot distinguish it from any other."""
    domain = fn.Domain(age=fn.Ordered(0, 85))
    query = FiniteQuery.median("usual age", "age", people=1000, epsilon=1)
    (by_rank,) = [q.mechanism for q in fn.plan(fn.Workload(domain, []), questions=[query]).questions]
    (with_prior,) = [
        q.summary for q in fn.plan(fn.Workload(domain, []), questions=[replace(query, prior=(1 / 86,) * 86)]).questions
    ]
    ages = np.full(86, 10)
    ages[[0, 40, 85]] += [78, 34, 28]  # 478 are younger, 44 are 40, and 478 are older
    index = by_rank.index_of(ages.tolist())
    assert query.in_domain(domain).answer(domain.axes, Adjacency(), [ages]) == 40
    assert with_prior.hit_rate < 0.031
    assert by_rank.row(index)[40] > (1 - 7e-10) * ROW_SUM


@pytest.mark.parametrize("portion", SHARES)
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(3)])
def test_the_margin_holds_for_all_data_and_is_attained_by_some(portion, epsilon):
    people, missed = 6, Fraction(1, 5)
    mechanism = rank_mechanism(4, people, portion, epsilon)
    margin = finite.rank_margin(mechanism, 0.8) * portion.denominator

    def tail_mass(x, k):
        scores, row = mechanism.ranks.scores(x), mechanism.row(mechanism.index_of(x))
        return Fraction(sum(w for u, w in zip(scores, row, strict=True) if u > k), ROW_SUM)

    assert max(tail_mass(x, margin) for x in all_databases(4, people)) <= missed
    largest = max(p := portion.numerator, portion.denominator - p)
    smaller = max(
        k for k in range(-1, int(margin)) if (k + 1) % largest == 0
    )  # one less than a score of all at one end
    assert margin == 0 or max(tail_mass(x, smaller) for x in all_databases(4, people)) > missed * (
        1 - Fraction(1, 2**60)
    )


def test_a_row_has_one_sum_and_falls_as_scores_rise():
    mechanism = rank_mechanism()
    for x in all_databases(5, 3):
        scores = mechanism.index_of(x)
        row = mechanism.row(scores)
        assert sum(row) == ROW_SUM
        best = row[scores.index(0)]
        for level, weight in zip(scores, row, strict=True):
            assert 0 < weight <= best
            fraction = Fraction(weight * mechanism.levels[0], best * mechanism.levels[level])
            assert abs(fraction - 1) < Fraction(1, 2**100)


def test_levels_end_where_they_fall_no_more(monkeypatch):
    """A value further off than the last level has the probability of the last level."""
    monkeypatch.setattr(kernel_ranks, "LEVELS_LIMIT", 20)
    mechanism = rank_mechanism(people=10**6, epsilon=Fraction(50))
    assert mechanism.levels[-1] == 1
    assert mechanism.index_of([10**6, 0, 0, 0, 0])[1:] == (len(mechanism.levels) - 1,) * 4


def test_it_is_proven_to_the_last_digit():
    """The cost of an answer is that of two steps and of rounding rows to integers; no lower cost is accepted."""
    mechanism = rank_mechanism()
    smallest, m = ROW_SUM // (5 * mechanism.levels[0]), 5
    rounding = log_above(Fraction(smallest + m, smallest - 1))
    cost = 2 * mechanism.ranks.step * log_above(1 / mechanism.alpha) + rounding
    assert replace(mechanism, epsilon=cost).log_ratio() == cost
    with refused("plan.ranks-above-epsilon"):
        replace(mechanism, epsilon=cost - Fraction(1, 2**400))
    other = finite.complete(5)
    assert mechanism.on_graph(other).graph is other


def test_an_unproven_or_ambiguous_mechanism_is_refused(monkeypatch):
    mechanism = rank_mechanism()
    with refused("plan.ranks-above-epsilon"):
        replace(mechanism, epsilon=mechanism.epsilon * Fraction(999_999, 1_000_000))
    with refused("plan.ranks-above-epsilon"):
        replace(mechanism, ranks=replace(mechanism.ranks, replaces=True))
    with refused("plan.alpha-out-of-range"):
        replace(mechanism, alpha=Fraction(1, 3))
    monkeypatch.setattr(kernel_ranks, "LEVELS_LIMIT", 100)
    assert len(rank_mechanism(people=99, epsilon=Fraction(1, 1000)).levels) == 100
    with refused("plan.epsilon-too-small-for-ranks"):
        rank_mechanism(people=100, epsilon=Fraction(1, 1000))
    monkeypatch.setattr(kernel_ranks, "VALUES_LIMIT", 5)
    assert rank_mechanism().outputs == 5
    monkeypatch.setattr(kernel_ranks, "VALUES_LIMIT", 4)
    with refused("plan.quantile-too-many-values"):
        rank_mechanism()


def test_shares_are_fractions_and_a_float_is_the_nearest():
    ask = {"people": 9, "epsilon": 1}
    assert FiniteQuery.quantile("q", "a", quantile=0.9, **ask).quantile_share == Fraction(9, 10)
    fractions = Fraction(0), Fraction(1), Fraction(1, MAX_QUANTILE_DENOMINATOR + 1)
    for portion in (0, 1, 0.0, 0.9999, -0.5, float("nan"), *fractions, None, True, "1/2"):
        with refused("workload.quantile-share-out-of-range"):
            FiniteQuery.quantile("q", "a", quantile=portion, **ask)
    with refused("workload.quantile-of-other-question"):
        FiniteQuery.median("q", "a", quantile_share=Fraction(1, 2), **ask)


SPEC = """
[domain.age]
type = "ordered"
low = 0
high = 9

[[questions]]
name = "old"
query = "quantile"
attribute = "age"
quantile = 0.9
people = 60
epsilon = "1/2"

[[questions]]
name = "half"
query = "median"
attribute = "age"
people = 60
epsilon = "1/2"
"""


def test_a_quantile_is_planned_released_and_verified(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC, encoding="utf-8")
    plan = fn.plan(fn.load_spec(path))
    old, half = [q.summary for q in plan.questions]
    assert (old.family, old.hit_rate, old.moe) == ("ranks", None, None)
    assert [q.summary for q in fn.Plan.from_json(plan.to_json()).questions] == [old, half]
    counts = np.full(10, 6)
    released = fn.release(plan, counts, ledger=tmp_path / "ledger.db", directory=tmp_path / "release")
    assert released.charge.epsilon == 1
    assert fn.verify(tmp_path / "release").ok
    assert released.finite["old"].rank_moe == old.rank_moe > 0
    header, line, _ = (tmp_path / "release" / "finite.csv").read_text(encoding="utf-8").splitlines()
    assert header == "question,part,value,moe,hit_rate,rank_moe"
    assert line == f"old,1,{released.finite['old'].value},,,{old.rank_moe:.15g}"
    with refused("workload.ranks-without-accuracy"):
        released.posterior("old")


def test_a_prior_of_the_answer_asks_for_a_mechanism_of_the_answer():
    domain = fn.Domain(age=fn.Ordered(0, 3))
    query = FiniteQuery.median("half", "age", people=9, epsilon=2)
    for other in (replace(query, prior=(0.1, 0.2, 0.3, 0.4)), replace(query, aim=finite.Aim.MEAN_ABSOLUTE_ERROR)):
        (summary,) = [q.summary for q in fn.plan(fn.Workload(domain, []), questions=[other]).questions]
        assert summary.rank_moe is None
        assert summary.hit_rate > 0.25
    document = {"family": "ranks", "form": "ranks", "alpha": "1/2"}
    with refused("plan.ranks-need-quantile"):
        documents.read(finite.complete(4), Fraction(2), document)
