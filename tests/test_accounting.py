"""All that an account released, as one curve: above the truth, near to it, and of what the ledger keeps."""

import itertools
import json
import math
import warnings
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
from designs import cells_over, of_margins
from fitnoise.kernel import privacy
from fitnoise.kernel.designs import margins
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.kernel.ledger import ChargeGroup, Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account, Adjacency
from fitnoise.planning import accounting
from fitnoise.planning.accounting import Curve, ReleasedCharge, curve
from fitnoise.request import curves
from fitnoise.request.curves import epsilon_at
from fitnoise.request.finite_queries import FiniteQuery
from laws.plans import planned_quickly
from refused import refused

RECORD = Account("default", fn.PrivacyUnit())

DEMO = ReleasedCharge(2 * Fraction(356209, 10**7) / (1 - 4 * privacy.MAX_PRECISION))
TEN = ReleasedCharge(tables=((((Fraction(1, 20), 10),),),))
TENTH = ReleasedCharge(answers=(Fraction(1, 10),))


def table(*laws):
    return ReleasedCharge(tables=(tuple(tuple((Fraction(e), n) for e, n in law) for law in laws),))


@pytest.mark.parametrize(
    ("released", "epsilon"),
    [
        ([DEMO] * 4, 2.422),
        ([DEMO] * 20, 5.985),
        ([DEMO, TEN], 1.3233),
        ([DEMO] * 4 + [TEN] * 4 + [TENTH] * 10, 3.214),
        ([TENTH] * 50, 3.173),
    ],
)
def test_known_values(released, epsilon):
    """The table of the design: each below what a sum of ρ, or of μ², promises."""
    joint = Curve(tuple(released))
    assert joint.epsilon(1e-6) == pytest.approx(epsilon, abs=6e-4)
    assert joint.delta(joint.epsilon(1e-6)) <= 1e-6
    mu_squared = sum(x.mu_squared for x in released)
    for x in released:
        mu_squared += sum(n * privacy.pure_mu_squared(e) for laws in x.tables for e, n in laws[0])
        mu_squared += sum(map(privacy.pure_mu_squared, x.answers))
    assert joint.epsilon(1e-6) <= curves.lattice_epsilon(math.sqrt(mu_squared) * (1 + 1e-12), 1e-6) * (1 + 1e-6)


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(4))
def test_it_is_near_what_another_accountant_says(seed):
    """Between the optimistic and the pessimistic estimate of privacy loss distributions, except for a grid's width."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rng = np.random.default_rng(seed)
    mu, each = float(rng.uniform(0.1, 1.5)), [float(x) for x in rng.uniform(0.02, 0.8, 3)]
    counts, answers = rng.integers(1, 6, 3).tolist(), [float(x) for x in rng.uniform(0.01, 0.6, 2)]

    def other(pessimistic):
        how = {"value_discretization_interval": 1e-4, "pessimistic_estimate": pessimistic}
        total = pld.from_gaussian_mechanism(1 / mu, **how)
        for e, n in zip(each, counts, strict=True):
            total = total.compose(pld.from_laplace_mechanism(1 / e, **how).self_compose(n))
        for e in answers:
            total = total.compose(pld.from_randomized_response(2 / (1 + math.exp(e)), 2, **how))
        return total

    above, below = other(pessimistic=True), other(pessimistic=False)
    law = tuple((Fraction(e), n) for e, n in zip(each, counts, strict=True))
    ours = Curve((ReleasedCharge(Fraction(mu) ** 2, ((law,),), tuple(map(Fraction, answers))),))
    for epsilon in (0.0, 0.3, 1.0, 2.0, 4.0):
        upper, lower = (x.get_delta_for_epsilon(epsilon) for x in (above, below))
        assert lower * (1 - 1e-6) - 1e-14 <= ours.delta(epsilon) <= upper * 1.001 + 1e-14


@pytest.mark.no_cover
@given(
    st.lists(st.fractions(Fraction(1, 50), 2, max_denominator=60), min_size=1, max_size=5),
    st.floats(0, 4),
)
def test_of_answers_it_is_above_every_outcome_added_up(epsilons, loss_bound):
    """Two answers each, true with odds e^ε: 2ⁿ outcomes in 50 digits."""
    with mpmath.workdps(50):
        delta = mpmath.mpf(0)
        truths = [1 / (1 + mpmath.exp(-mpmath.mpf(e.numerator) / e.denominator)) for e in epsilons]
        for outcome in itertools.product((True, False), repeat=len(epsilons)):
            p = mpmath.fprod(t if x else 1 - t for t, x in zip(truths, outcome, strict=True))
            q = mpmath.fprod(1 - t if x else t for t, x in zip(truths, outcome, strict=True))
            delta += max(p - mpmath.exp(loss_bound) * q, 0)
        delta_bound = Curve((ReleasedCharge(answers=tuple(epsilons)),)).delta(loss_bound)
        assert delta <= delta_bound <= delta + mpmath.mpf("5e-4")  # of a grid of 2⁻¹⁰


@pytest.mark.parametrize(("scale", "moves"), [(4.0, (1, 3)), (16.0, (1, 2, 5)), (3.5, (6, 1))])
def test_of_numbers_on_integers_it_is_above_their_exact_law(scale, moves):
    """Discrete Laplace noise, all outcomes that matter: the stored law is of continuous noise that costs no less."""
    rate = Fraction(1) / Fraction(scale)
    law = tuple((s * rate + rate**2 / 4, 1) for s in moves)
    joint = Curve((ReleasedCharge(tables=((law,),)),))
    k = np.arange(-int(40 * scale), int(40 * scale) + 1)
    exact = [math.tanh(0.5 / scale) * np.exp(-np.abs(k - s) / scale) for s in (0, *moves)]
    losses, chances = np.zeros(1), np.ones(1)
    for shifted in exact[1:]:
        loss, p = np.log(exact[0] / shifted), exact[0]
        losses, chances = np.add.outer(losses, loss).ravel(), np.multiply.outer(chances, p).ravel()
        losses, where = np.unique(np.round(losses * scale), return_inverse=True)
        losses, chances = losses / scale, np.bincount(where, chances)
    for epsilon in np.linspace(0, float(sum(moves)) / scale, 23):
        delta = float(chances @ np.maximum(-np.expm1(epsilon - losses), 0))
        assert delta * (1 - 1e-9) <= joint.delta(epsilon)
        assert joint.delta(epsilon) <= delta + len(moves) / scale**2 + 1e-3


@pytest.mark.no_cover
@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(st.fractions(Fraction(1, 9), 2), st.integers(1, 3)), min_size=1, max_size=4), max_size=3
    )
)
def test_of_several_units_the_curve_is_above_each(laws):
    joint = Curve((table(*laws),)) if laws else Curve(())
    for epsilon in (0.0, 0.4, 1.5, 5.0):
        single = [Curve((table(law),)).delta(epsilon) for law in laws]
        assert joint.delta(epsilon) >= max(single, default=0.0) * (1 - 1e-7)
        assert joint.delta(epsilon) <= max(single, default=0.0) * (1 + 1e-6) + 1e-9


def test_where_the_grid_is_coarse_or_losses_are_large_the_sums_say_less():
    """Numbers far smaller than its distance, and an ε beyond the numbers of a machine."""
    tiny = Fraction(1, 10**4)
    mu_squared, rho = 1000 * privacy.pure_mu_squared(tiny), 1000 * tiny**2 / 2
    by_law, with_sums = table([(tiny, 1000)]), replace(table([(tiny, 1000)]), total=(mu_squared, rho))
    assert Curve((with_sums,)).epsilon(1e-6) <= curves.zcdp_epsilon(rho, 1e-6) * (1 + 1e-8)
    assert Curve((with_sums,)).epsilon(1e-6) < 0.5 * Curve((by_law,)).epsilon(1e-6)
    huge = table([(800, 1)])
    assert (Curve((huge,)).delta(3.0), Curve((huge,)).delta(800.0)) == (1.0, 0.0)
    priced = replace(huge, total=(Fraction(4), Fraction(2)))
    assert Curve((priced, DEMO)).delta(3.0) == 1.0
    with_demo = replace(DEMO, total=(DEMO.mu_squared, DEMO.mu_squared / 2))
    assert Curve((priced, with_demo)).delta(3.0) < 1
    assert Curve((priced, with_demo)).epsilon(1e-13) < 40  # however small


def test_of_nothing_it_is_nothing():
    assert (Curve(()).delta(0.0), Curve(()).epsilon(1e-9)) == (0.0, 0.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon):
    with pytest.raises(ValueError, match="finite number of at least 0"):
        Curve((DEMO,)).delta(epsilon)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        Curve((DEMO,)).epsilon(delta)


def test_a_delta_below_what_is_resolved_is_refused():
    many = table([(1, 2)], [(Fraction(3, 2), 1)])
    with pytest.raises(ValueError, match="beyond what is resolved"):
        Curve((DEMO, many)).epsilon(1e-13)


# --- the laws of a design -----------------------------------------------------------------------------

ADD = Adjacency()


def check_laws(design):
    """Every cell is below one of the laws, in all numbers in order of size: these are returned."""
    laws = [sorted((e for e, n in law for _ in range(n)), reverse=True) for law in design.laws(ADD)]
    for column in np.abs(np.concatenate([m.rows for m in design.measured])).T:
        moves = sorted((int(s) * design.rate for s in column if s), reverse=True)
        assert any(len(moves) <= len(k) and all(a <= b for a, b in zip(moves, k, strict=False)) for k in laws)
    return laws


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any), min_size=1, max_size=4))
def test_every_cell_is_below_one_of_the_laws(rows):
    design = of_margins(cells_over((), 3), 8.0, ((), rows))
    laws = check_laws(design)
    for a, b in itertools.permutations(laws, 2):  # and none of them is below another
        assert len(a) > len(b) or any(x > y for x, y in zip(a, b, strict=False))
    assert max(sum(k) for k in laws) <= design.unit_epsilon(ADD) + len(rows) * (Fraction(1, 256) + Fraction(1, 2**48))


def test_many_laws_become_one_that_is_above_all(monkeypatch):
    design = of_margins(cells_over((), 3), 8.0, ((), [[3, 1, 2], [0, 2, 2]]))
    assert len(design.laws(ADD)) == 2
    monkeypatch.setattr(margins, "MAX_LEDGER_LAWS", 3)
    rounding = Fraction(1, 256)
    assert design.laws(ADD) == [[(2 * Fraction(1, 8) + rounding, 1), (3 * Fraction(1, 8) + rounding, 1)]]
    monkeypatch.setattr(margins, "MAX_ENTRIES", 6)
    assert len(design.laws(ADD)) == 1
    monkeypatch.setattr(margins, "MAX_ENTRIES", 5)
    assert design.laws(ADD) is None
    assert design.ledger_detail(ADD)["numbers"] == [None]


def test_laws_are_kept_up_to_the_largest_number(monkeypatch):
    """Two of 16 different moves each, of which none is above the other in all: a sixteenth of 32, and 32 numbers."""
    rows = np.array([[*range(1, 17)], [0, *range(1, 15), 17]]).T
    design = of_margins(cells_over((), 2), 8.0, ((), rows))
    for limit, count in ((32, 2), (31, 1)):
        monkeypatch.setattr(margins, "MAX_LEDGER_LAWS", limit)
        assert len(design.laws(ADD)) == count


def test_where_there_are_more_laws_than_may_be_no_cell_is_left_out(monkeypatch):
    """No cell is below another. Of 17 cells, 17 laws are kept; of 18, one law above all, and not 17."""
    monkeypatch.setattr(margins, "MAX_LEDGER_LAWS", 16 * 17)
    for cells, count in ((17, 17), (18, 1)):
        rows = np.array([[40 - k, k] for k in range(1, cells + 1)]).T
        assert len(check_laws(of_margins(cells_over((), cells), 8.0, ((), rows)))) == count


@pytest.mark.parametrize("unit", [fn.PrivacyUnit("person", 2), fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE)])
def test_of_several_records_no_law_is_stated(unit):
    assert of_margins(cells_over((), 2), 8.0, ((), [[1, 2]])).laws(Adjacency(unit)) is None


# --- of a ledger ------------------------------------------------------------------------------------------------

DOMAIN = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 7))
COUNTS = np.arange(16).reshape(2, 8)
TABLES = fn.Workload(DOMAIN, [fn.table("sex", margin=9), fn.table(cumulative="age", margin=12)])
QUESTION = FiniteQuery("women", QuestionKind.COUNT, people=200, epsilon=Fraction(1, 2), where=((("sex", ("f",)),),))


@pytest.fixture(scope="module")
def plans():
    return {
        "gaussian": fn.plan(TABLES),
        "pure": planned_quickly(TABLES),
        "both": fn.plan(TABLES, questions=[QUESTION]),
        "question": planned_quickly(TABLES, questions=[QUESTION]),
        "persons": planned_quickly(TABLES, unit=fn.PrivacyUnit("person", 2)),
    }


def charged(tmp_path, *plans):
    with Ledger(tmp_path / "ledger.db") as ledger:
        for plan in plans:
            fn.release(plan, COUNTS, ledger=ledger)
        return [e for e in ledger.entries() if e.kind == "charge"]


def single_groups(entries):
    return [ChargeGroup((entry,)) for entry in entries]


@pytest.mark.no_cover
def test_what_the_ledger_keeps_is_what_was_released(plans, tmp_path):
    released_plans = [plans[name] for name in ("gaussian", "pure", "both", "question")]
    entries = charged(tmp_path, *released_plans)
    gaussian, pure, both, question = (ReleasedCharge.from_entry(e, RECORD) for e in entries)
    assert [x.total for x in (gaussian, pure)] == [(e.mu_squared, e.rho) for e in entries[:2]]
    gaussian, pure, both, question = (replace(x, total=None) for x in (gaussian, pure, both, question))
    mu_squared = plans["gaussian"].loss.gaussian_mu_squared
    assert mu_squared <= gaussian.mu_squared <= mu_squared + Fraction(1, 2**64)
    assert (gaussian.tables, gaussian.answers) == ((), ())
    assert (pure.mu_squared, pure.answers, len(pure.tables)) == (0, (), 1)
    exact = plans["pure"].table_part.strategy.laws(ADD)
    assert [list(law) for law in pure.tables[0]] == exact
    assert (both.mu_squared, both.answers) == (
        gaussian.mu_squared,
        tuple(q.exact_epsilon for q in plans["both"].questions),
    )
    assert (question.tables, question.answers) == (
        pure.tables,
        tuple(q.exact_epsilon for q in plans["question"].questions),
    )
    joint = curve(single_groups(entries), RECORD)
    assert tuple(replace(x, total=None) for x in joint.released) == (gaussian, pure, both, question)
    loss_sum = sum((p.loss for p in released_plans), Loss.zero())
    assert 0 < joint.epsilon(1e-6) < epsilon_at(loss_sum, 1e-6)
    for plan, entry in zip(released_plans, entries, strict=True):  # alone, it is no more than what the plan says
        assert curve(single_groups([entry]), RECORD).epsilon(1e-6) <= plan.epsilon(1e-6) * (1 + 1e-4)


@pytest.mark.no_cover
def test_other_units_pay_what_is_known_of_them(plans, tmp_path):
    """The bound uses μ², or ε if that is lower; for persons nothing is known number by number."""
    entries = charged(tmp_path, plans["pure"], plans["gaussian"])
    household = Account("default", fn.PrivacyUnit("household", 3))
    pure, gaussian = (ReleasedCharge.from_entry(e, household) for e in entries)
    assert gaussian.mu_squared == entries[1].price(household).mu_squared == 9 * entries[1].mu_squared
    price = entries[0].price(household)
    assert pure == ReleasedCharge(price.mu_squared, total=(price.mu_squared, price.rho))
    (entry,) = charged(tmp_path / "..", plans["persons"])
    assert entry.detail["numbers"] == [None]
    assert ReleasedCharge.from_entry(entry, entry.account) == ReleasedCharge(
        entry.mu_squared, total=(entry.mu_squared, entry.rho)
    )


def test_one_number_that_is_pure_is_known_by_its_epsilon(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        entry = ledger.charge(RECORD, Loss.of_epsilon(Fraction(2), by_cell=True), {})
    assert ReleasedCharge.from_entry(entry, RECORD) == ReleasedCharge(
        answers=(Fraction(2),), total=(entry.mu_squared, entry.rho)
    )
    assert curve(single_groups([entry]), RECORD).delta(0.0) == pytest.approx(math.tanh(1), rel=1e-6)
    assert curve(single_groups([entry]), RECORD).epsilon(1e-12) <= 2 + 1e-3


@pytest.mark.no_cover
def test_what_says_only_rho_has_no_curve(plans, tmp_path):
    entries = charged(tmp_path, plans["gaussian"])
    with Ledger(tmp_path / "old.db") as ledger:
        ledger.charge(RECORD, Loss.concentrated(Fraction(1, 8)), {})
        entries += ledger.entries()
        assert curve(ledger.groups(Account("elsewhere", RECORD.unit)), RECORD).released == ()
    with refused("ledger.entry-without-curve"):
        curve(single_groups(entries), RECORD)


def test_what_is_on_the_same_records_is_added_up_by_cell(plans, tmp_path):
    """A free plan adds no cost to the curve and to ρ, also with a pure plan; on other records it does."""
    costly = fn.plan(fn.Workload(DOMAIN, [fn.table(groups={"sex": {"f": ["f"]}}, margin=4)]))
    free = fn.plan_free(fn.Workload(DOMAIN, [fn.table(groups={"sex": {"m": ["m"]}}, margin=9)]), costly)
    with Ledger(tmp_path / "ledger.db") as ledger:
        fn.release(plans["gaussian"], COUNTS, ledger=ledger)
        fn.release(costly, COUNTS, ledger=ledger)
        before = curve(ledger.groups(RECORD), RECORD)
        fn.release(free, COUNTS, ledger=ledger)
        groups, entries = ledger.groups(RECORD), [e for e in ledger.entries() if e.kind == "charge"]
        after, quote = curve(groups, RECORD), ledger.balance(RECORD)
    assert [tuple(e.sequence for e in g.entries) for g in groups] == [(1,), (3, 5)]
    assert sum(g.rho(RECORD) for g in groups) == quote.spent
    assert sum(g.mu_squared(RECORD) for g in groups) == quote.mu_squared_spent
    assert len(after.released) == len(before.released) == 2
    assert after.epsilon(1e-6) == pytest.approx(before.epsilon(1e-6), rel=1e-6)
    assert curve(single_groups(entries), RECORD).epsilon(1e-6) > 1.01 * before.epsilon(1e-6)


def test_joint_cost_bounds_sums_next_to_a_pure_plan(plans, tmp_path):
    composed = replace(plans["gaussian"].order, composed_with=(plans["pure"].hash,))
    with Ledger(tmp_path / "ledger.db") as ledger:
        fn.release(plans["pure"], COUNTS, ledger=ledger)
        ledger.charge(
            RECORD, composed.ledger_loss(), {"plan": plans["gaussian"].hash}, composed_with=composed.composed_with
        )
        (group,) = ledger.groups(RECORD)
        quote = ledger.balance(RECORD)
    one, other = curve([group], RECORD).released
    assert one.tables
    assert (one.total, other.total) == ((quote.mu_squared_spent, quote.spent), (0, 0))
    assert other.mu_squared == group.entries[1].mu_squared


def test_a_law_is_cut_where_it_is_negligible():
    """And what is cut off above is taken for certain."""
    total = accounting._response(1.0, 0.1).times(60)
    assert total.start > -60 * 10
    assert total.unbounded >= 0
    assert total.chances.sum() + total.unbounded == pytest.approx(1, abs=1e-12)
    assert json.dumps(total.start)  # a plain integer
