"""Rules of order between integer tables: no number of a table is larger than a multiple of another table's."""

import contextlib
import html
import json
import zipfile
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import fitnoise as fn
from fitnoise.messages import catalogue, english
from fitnoise.reading import contradictions
from fitnoise.reading import integer_tables as making
from fitnoise.reading.table_order import OrderRule, parse_rules
from fitnoise.solving import nearest_integers as rounding
from fitnoise.solving.nearest_integers import adjacent, check_adjacent
from laws.plans import planned_quickly
from laws.releases import by_command, measured
from refused import refused
from replayed_noise import FreshNoise, Replay, of_many_releases
from tolerances import SIGNIFICANCE

pytestmark = pytest.mark.usefixtures("one_duckdb")

BLOCKS = fn.Domain(block=fn.Categorical([f"b{i:02d}" for i in range(40)]))
"""The domain of a town of 40 blocks."""

HOMES = np.bincount(np.random.default_rng(1).integers(0, 30, 120), minlength=40)
"""120 homes in 30 of the blocks."""

PEOPLE = 2 * HOMES

RULES = ("homes: block <= people: block", "people: block <= 10 * homes: block")


@cache
def town_plan():
    return fn.plan(fn.Workload(BLOCKS, [fn.table("block", margin=5)]))


def released(plan, counts, seed):
    return fn.Release(plan, measured(plan, counts, Replay(seed)).answers[0])


def town(seed):
    """Return two releases of the town: of its homes and of its people."""
    plan = town_plan()
    return {"homes": released(plan, HOMES, 2 * seed + 1), "people": released(plan, PEOPLE, 2 * seed + 2)}


def values(tables, name, column="value"):
    return tables[name][column].to_numpy()


def constraints(blocks):
    """Return D written out for the two rules: homes and people are not negative, homes ≤ people ≤ 10 homes."""
    one, nothing = np.eye(blocks), np.zeros((blocks, blocks))
    return np.block([[one, nothing], [nothing, one], [-one, one], [10 * one, -one]])


def projected(point):
    """Return the point nearest to another one with D t ≥ 0, by the non-negative least squares of its dual."""
    rows = constraints(len(point) // 2)
    multipliers = optimize.nnls(rows.T, -point)[0]
    return point + rows.T @ multipliers


# --- the nearest tables ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_impossible_place_is_left_in_a_hundred_releases():
    """Without the rules, some of the 40 places are impossible in every release."""
    impossible, unruled = [], []
    for seed in range(100):
        releases = town(seed)
        for rules, counts in ((RULES, impossible), ((), unruled)):
            tables = fn.make_integer_tables(releases, at_most=rules, simulations=0)
            assert tables.check() is None
            assert tables.residual <= 1e-9
            homes, people = values(tables, "homes: block"), values(tables, "people: block")
            counts.append(int(((homes > people) | (people > 10 * homes)).sum()))
    assert sum(impossible) == 0
    assert min(unruled) > 0


@pytest.mark.parametrize("seed", range(3))
def test_tables_before_rounding_are_the_nearest_that_follow_the_rules(seed):
    """The document has λ ≥ 0, in standard errors. With V = σ², t = t̂ + V Dᵀλ, D t ≥ 0 and λᵀ D t = 0, to 1e-9."""
    releases = town(seed)
    tables = fn.make_integer_tables(releases, at_most=RULES, simulations=0)
    noisy = np.concatenate([releases[name]["block"]["value"] for name in ("homes", "people")])
    t = np.concatenate([tables.nearest(f"{name}: block") for name in ("homes", "people")])
    document, variance = tables.document(), town_plan().table_part.table_variances("block").ravel()
    parts = [filled(entry) for entry in (*document["tables"], *document["at_most"])]
    sigma = np.sqrt(np.concatenate([variance, variance, variance + variance, variance + 100 * variance]))
    multipliers, rows = np.concatenate(parts) / sigma, constraints(40)
    assert multipliers.min() >= 0
    assert t == pytest.approx(noisy + np.tile(variance, 2) * (rows.T @ multipliers), abs=1e-9)
    assert (rows @ t).min() >= -1e-8
    assert np.abs(np.minimum(multipliers * sigma, rows @ t / sigma)).max() <= 1e-9
    assert t == pytest.approx(projected(noisy), abs=1e-7)


def filled(entry):
    multipliers = np.zeros(40)
    multipliers[entry["at"]] = entry["multipliers"]
    return multipliers


def test_bias_is_simulated_with_the_rules():
    """Against projections by another solver, of other noise: a wrong bias by 0.25 records would be noticed."""
    tables = fn.make_integer_tables(town(1), at_most=RULES)
    truth = np.concatenate([tables.nearest(f"{name}: block") for name in ("homes", "people")])
    draw, sigma = np.random.default_rng(7), float(np.sqrt(town_plan().table_part.table_variances("block").max()))
    errors = np.array([projected(truth + draw.normal(0, sigma, 80)) - truth for _ in range(400)])
    stated = np.concatenate([values(tables, f"{name}: block", "simulated_bias") for name in ("homes", "people")])
    rmse = np.concatenate([values(tables, f"{name}: block", "simulated_rmse") for name in ("homes", "people")])
    assert np.abs(stated - errors.mean(axis=0)).max() < 5 * sigma * np.sqrt(1 / 200 + 1 / 400)
    assert stated.mean() == pytest.approx(errors.mean(), abs=0.1)
    assert rmse.mean() == pytest.approx(np.sqrt((errors**2).mean(axis=0)).mean(), rel=0.1)
    free = fn.make_integer_tables(town(1))
    assert np.abs(stated - np.concatenate([values(free, n, "simulated_bias") for n in free])).max() > 0.2


def test_intervals_stay_those_of_the_unbiased_numbers():
    free, ruled = (fn.make_integer_tables(town(1), at_most=rules, simulations=0) for rules in ((), RULES))
    for name in ruled:
        assert all(np.array_equal(x, y) for x, y in zip(free.unbiased(name), ruled.unbiased(name), strict=True))
        inside = (values(free, name, "low") <= values(ruled, name)) & (
            values(ruled, name) <= values(free, name, "high")
        )
        for column in ("low", "high"):
            assert np.array_equal(values(free, name, column)[inside], values(ruled, name, column)[inside])
        assert (values(ruled, name, "low") <= values(ruled, name)).all()


def test_noise_of_two_releases_is_simulated_independently():
    scales, sizes = np.array([3.0]), np.array([100_000])
    one, other = (making._SimulatedNoise(0, index).discrete_gaussians(scales, sizes) for index in (0, 1))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.02
    last = making._SimulatedNoise(making.MAX_SIMULATIONS - 1, 900).discrete_gaussians(scales, sizes)
    assert last.std() == pytest.approx(3, rel=0.02)


def test_without_rules_several_releases_give_the_tables_of_each():
    releases = town(2)
    tables = fn.make_integer_tables(releases, simulations=3)
    assert list(tables) == ["homes: block", "people: block"]
    for name, release in releases.items():
        single = fn.make_integer_tables(release, simulations=3)["block"]
        assert tables[f"{name}: block"].equals(single)


MOVES = fn.Domain(
    home=fn.Categorical(["north", "south"]), work=fn.Categorical(["north", "south"]), sex=fn.Categorical(["f", "m"])
)


def test_a_rule_can_order_tables_of_one_release():
    """Also a table that another one contains: D has its numbers in addition to the atoms of the larger table."""
    plan = fn.plan(
        fn.Workload(MOVES, [fn.table("home", margin=9), fn.table("work", "sex", margin=9), fn.table("work", margin=9)])
    )
    counts = np.zeros((2, 2, 2), dtype=int)
    counts[:, 0, :] = [[40, 50], [45, 45]]
    release = released(plan, counts, 6)
    tables = fn.make_integer_tables(release, at_most="work <= 2 * home", simulations=2)
    assert tables.check() is None
    assert tables.check_rounded() is None
    assert tables.residual <= 1e-9
    assert (values(tables, "work") <= 2 * values(tables, "home")).all()
    assert values(tables, "work").sum() == values(tables, "home").sum() == values(tables, "work by sex").sum()
    free = fn.make_integer_tables(release, simulations=0)
    assert (values(free, "work") > 2 * values(free, "home")).any()


AGES = fn.Domain(age=fn.Ordered(0, 3), old=fn.Ordered(0, 3), sex=fn.Categorical(["f", "m"]))


def ages(*tables):
    plan = fn.plan(fn.Workload(AGES, list(tables)))
    return released(plan, np.full(AGES.shape, 9), 3)


@pytest.mark.parametrize(
    "other",
    [
        fn.table("age", name="other", margin=9),
        fn.table(to_date={"age": 3}, name="other", margin=9),
    ],
)
def test_cumulative_tables_are_not_compared_with_others(other):
    """Equal labels, and other counts: the rule would make nearly all numbers 0."""
    release = ages(fn.table(cumulative="age", name="all", margin=9), other)
    for rule in ("all <= other", "other <= all", "other <= 3 * all"):
        with refused("release.order-of-different-views", key=rule) as caught:
            fn.make_integer_tables(release, at_most=rule, simulations=0)
        assert "have equal labels with different meanings." in str(caught.value)
    # of two releases, too
    with refused("release.order-of-different-views"):
        fn.make_integer_tables({"a": release, "b": ages(other)}, at_most="a: all <= b: other", simulations=0)


def test_groups_of_single_values_are_compared_with_values():
    groups = fn.table(groups={"sex": {"f": "f", "m": "m"}}, name="groups", margin=9)
    both = {"a": ages(fn.table("sex", margin=9)), "b": ages(groups, fn.table("old", margin=9))}
    assert fn.make_integer_tables(both, at_most="a: sex <= 2 * b: groups", simulations=0).check() is None


def test_equal_totals_of_one_release_are_not_ordered():
    """The total of both tables is the number of records, so the rule would force all numbers to be equal."""
    release = ages(
        *(fn.table(x, margin=9) for x in ("age", "old")),
        *(fn.table(x, "sex", margin=9) for x in ("age", "old")),
        *(fn.table("sex", cumulative=x, name=f"{x} until", margin=9) for x in ("age", "old")),
        *(fn.table(cumulative=x, name=f"{x} by then", margin=9) for x in ("age", "old")),
    )
    for rule in ("age <= old", "age by sex <= old by sex", "age until <= old until"):
        with refused("release.order-of-equal-totals", key="at_most"):
            fn.make_integer_tables(release, at_most=rule, simulations=0)
    # cumulative numbers may be ordered: they are equal at the last value only
    tables = fn.make_integer_tables(release, at_most="age by then <= old by then", simulations=0)
    assert tables.check() is None
    assert (values(tables, "age by then") <= values(tables, "old by then")).all()
    other = {"one": release, "two": ages(fn.table("age", margin=9))}
    chain = ["one: age <= two: age", "two: age <= one: old"]
    with refused("release.order-of-equal-totals") as caught:
        fn.make_integer_tables(other, at_most=chain, simulations=0)
    assert str(caught.value) == (
        "at_most: By the rule one: age <= two: age <= one: old, no number of 'one: age' exceeds that of 'one: old'. "
        "Both are tables of one release with the same total, so the rule forces their numbers to be equal. Remove the "
        "rule, or compare tables of different records. No table was made."
    )
    assert fn.make_integer_tables(other, at_most=[chain[0], "two: age <= 2 * one: old"], simulations=0).check() is None


# --- rules that published numbers contradict ------------------------------------------------------------------------


def town_of(homes, people, seed, plan=None):
    source, plan = FreshNoise(seed), plan or town_plan()
    counts = {"homes": homes, "people": people}
    return {name: fn.Release(plan, measured(plan, x, source).answers[0]) for name, x in counts.items()}


def test_a_false_order_is_refused_with_its_numbers():
    releases = town_of(np.where(np.arange(40) < 3, 700, 20), np.full(40, 300), 1)
    with refused("release.order-contradicted", key="at_most") as caught:
        fn.make_integer_tables(releases, at_most=RULES[0], simulations=0)
    excess = releases["homes"]["block"].value - releases["people"]["block"].value
    worst, moe = int(excess.argmax()), releases["homes"]["block"].moe.max() * np.sqrt(2)
    assert str(caught.value) == (
        f"at_most: The published numbers contradict the rule '{RULES[0]}': for block b{worst:02d}, they exceed it by "
        f"{excess.max():.1f} ± {moe:.1f}. 3 of 40 numbers lie outside their joint intervals. Right rules are refused "
        "for at most 1 of 1,000 releases. Correct or remove the rule. No table was made."
    )
    # the factor counts, and the other rule is right
    with refused("release.order-contradicted"):
        fn.make_integer_tables(releases, at_most="homes: block <= 2 * people: block", simulations=0)
    assert fn.make_integer_tables(releases, at_most="homes: block <= 3 * people: block", simulations=0).check() is None


def test_small_contradictions_of_order_are_found_in_the_sum():
    """Each block has five homes too many: 1.4 standard errors of the difference, and 9 of the sum."""
    with refused("release.order-contradicted") as caught:
        fn.make_integer_tables(town_of(np.full(40, 15), np.full(40, 10), 4), at_most=RULES[0], simulations=0)
    assert ": added up, they exceed it by " in str(caught.value)


def test_an_order_of_single_numbers_is_judged():
    plan = fn.plan(fn.Workload(BLOCKS, [fn.table(name="all", margin=5)]))
    with refused("release.order-contradicted") as caught:
        fn.make_integer_tables(
            town_of(np.full(40, 9), np.full(40, 2), 4, plan), at_most="homes: all <= people: all", simulations=0
        )
    assert "for the only number, they exceed it by " in str(caught.value)


@pytest.mark.parametrize("privacy", [None, "pure"])
def test_right_orders_are_refused_as_rarely_as_stated(privacy):
    """At equality in every block, where a wrong refusal is likeliest. 20,000 releases detect errors wrong by a twelfth.

    At 0.1 %, they detect a share of 0.3 %.
    """
    plan = town_plan() if privacy is None else planned_quickly(town_plan().publication.workload)
    normal, count, outside = privacy is None, 20_000, []

    def excesses(source, further_homes=0):
        homes, people = (fn.Release(plan, measured(plan, x, source).answers[0]) for x in (HOMES + further_homes, HOMES))
        return homes._sources[0].numbers("block").plus(people._sources[0].numbers("block").scale(-1.0))

    def steps(forms):
        total = contradictions._steps(forms.combined(sp.csr_array(np.ones((1, 40)))))
        return np.append(contradictions._steps(forms), total)

    values = of_many_releases(lambda source: steps(excesses(source)), count, FreshNoise(7))
    assert np.abs((values**2).mean(axis=0) - 1).max() < 5 * np.sqrt(5 / count)
    for probability in (0.5, 0.1, contradictions.REFUSED):
        limit = contradictions.largest_error(41, probability, normal=normal)
        assert (values.max(axis=1) > limit).sum() <= stats.binom.isf(SIGNIFICANCE, count, probability)
    # what is refused is what lies outside: from no block with homes too many to all with some
    for seed in range(50):
        forms = excesses(FreshNoise(seed), np.where(np.arange(40) < seed, 8, 0))
        outside.append(bool(steps(forms).max() > contradictions.largest_error(41, 1e-3, normal=normal)))
        with refused("release.order-contradicted") if outside[-1] else contextlib.nullcontext():
            nothing = sp.csr_array((0, 40))
            ordered = contradictions.OrderedNumbers("rule", forms, [""] * 40, 0.95, nothing)
            contradictions.refuse_contradicted_order([ordered])
    assert 10 < sum(outside) < 40


# --- integers -------------------------------------------------------------------------------------------


@cache
def eight_blocks(rules):
    """The tables of 8 blocks with their totals, jointly."""
    domain = fn.Domain(block=fn.Categorical(list("abcdefgh")))
    plan = fn.plan(fn.Workload(domain, [fn.table("block", margin=5), fn.table(name="all", margin=5)]))
    releases = {f"{name}: ": released(plan, np.ones(8, dtype=int), i) for i, name in enumerate(("homes", "people"))}
    names = [prefix + name for prefix, release in releases.items() for name in release]
    (space,) = making._spaces(releases, names, parse_rules(rules, names))
    return space


def linear_program(space, point):
    """Return a corner that is next to a point, from the linear program of the rounding."""
    limits = rounding._base_limits(point, space.sums)
    low = np.floor(point + 1e-9)
    rows = [(space.sums.zero, 0.0, 0.0), *limits]
    result = optimize.milp(
        1 - 2 * (point - low),
        constraints=[optimize.LinearConstraint(a, lo, hi) for a, lo, hi in rows if a.shape[0]],
        bounds=optimize.Bounds(low, low + 1),
    )
    return result.x


@pytest.mark.parametrize(("factor", "is_integer"), [(0, True), (3, False)])
def test_linear_programs_end_in_integers_for_order_only(factor, is_integer):
    """300 of 300, since the rows are totally unimodular. A factor needs an integer program."""
    rules = (RULES[0], *([f"people: block <= {factor} * homes: block"] if factor else []))
    space, fractions = eight_blocks(rules), 0
    for seed in range(300):
        draw = np.random.default_rng(seed)
        homes = draw.uniform(0, 3, 8)
        people = np.clip(homes + draw.exponential(1, 8), homes, (factor or 99) * homes)
        point = np.concatenate([homes, [homes.sum()], people, [people.sum()]])
        corner = linear_program(space, point)
        assert corner is not None
        fractions += np.abs(corner - np.rint(corner)).max() > 1e-6
    assert (fractions == 0) == is_integer


@pytest.mark.parametrize("factor", [1, 3])
def test_integers_follow_rules_and_keep_sums(factor):
    space = eight_blocks((RULES[0], "people: block <= 3 * homes: block")[: 1 + (factor > 1)])
    for seed in range(20):
        draw = np.random.default_rng(seed)
        homes = draw.uniform(0, 3, 8)
        people = np.clip(homes + draw.exponential(1, 8), homes, 3 * homes)
        point = np.concatenate([homes, [homes.sum()], people, [people.sum()]])
        integers = adjacent(point, space.sums, 20.0)
        assert space.satisfies(integers)
        assert space.follows_order(integers)
        assert (integers[:8] <= integers[9:17]).all()
        assert integers[:8].sum() == integers[8]
        assert abs(integers[8] - homes.sum()) < 1
        assert check_adjacent(point, integers, space.sums, 20.0) is None


def test_of_many_numbers_shared_sums_follow_the_rules_first(monkeypatch):
    """The shared sums follow the rules, too, so the tables that are rounded after them can follow the rules."""
    domains = [
        fn.Domain(block=fn.Categorical(list("abcdefgh")), **{name: fn.Categorical(["x", "y"])})
        for name in ("tenure", "sex")
    ]
    releases = {}
    for i, (name, domain) in enumerate(zip(("homes", "people"), domains, strict=True)):
        plan = fn.plan(fn.Workload(domain, [fn.table(*domain, margin=5), fn.table("block", margin=5)]))
        counts = np.random.default_rng(3).poisson(1 + i, domain.shape)
        releases[name] = released(plan, counts, i)
    at_once = fn.make_integer_tables(releases, at_most=RULES[0], simulations=0)
    calls = []
    monkeypatch.setattr(rounding, "MAX_CONNECTED_NUMBERS", 4)
    monkeypatch.setattr(rounding, "_rounded", lambda *x, inner=rounding._rounded: calls.append(len(x[0])) or inner(*x))
    in_steps = fn.make_integer_tables(releases, at_most=RULES[0], simulations=0)
    assert len(calls) == 2  # the shared sums, then all numbers: no third program for all numbers at once
    (part,) = in_steps._parts
    common = part.space.sums.common()
    assert common.nonnegative.shape == (9, common.in_one_table.shape[0])
    assert in_steps.check() is None
    assert in_steps.check_rounded() is None
    assert at_once.check() is None
    assert (values(in_steps, "homes: block") <= values(in_steps, "people: block")).all()


# --- what is refused ------------------------------------------------------------------------------------


NAMES = ["homes: block", "people: block", "a <= b", "10 * a", "b"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("homes: block <= people: block", OrderRule("homes: block", "people: block")),
        ("  people: block<=10*homes: block ", OrderRule("people: block", "homes: block", 10)),
        ("a <= b <= b", OrderRule("a <= b", "b")),
        ("b <= 10 * a", OrderRule("b", "10 * a")),
        ("b <= 3 * 10 * a", OrderRule("b", "10 * a", 3)),
        ("b <= 2 * a <= b", OrderRule("b", "a <= b", 2)),
    ],
)
def test_rules_are_read_by_the_names_of_tables(text, rule):
    assert parse_rules([text], NAMES) == (rule,)
    assert parse_rules([str(rule), text], NAMES) == (rule,)


@given(st.lists(st.text("ab<=* 1:", min_size=1).map(str.strip).filter(bool), min_size=2, unique=True), st.data())
def test_a_rule_is_read_as_it_is_written(names, data):
    """Detects a text that is read as another rule of the same tables and factor."""
    one, other = data.draw(st.permutations(names))[:2]
    rule = OrderRule(one, other, data.draw(st.integers(1, 10**6)))
    (read,) = parse_rules([str(rule)], names)
    assert str(read) == str(rule)


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("homes: block", "release.not-an-order-rule"),
        ([3], "release.not-an-order-rule"),
        ("homes: block >= people: block", "release.not-an-order-rule"),
        ("homes: block <= people", "release.unknown-table"),
        ("block <= people: block", "release.unknown-table"),
        *(
            (f"people: block <= {factor} * homes: block", "release.wrong-factor-of-order")
            for factor in ("0", "-1", "2.5", "1e3", "", "x", "1000001", "٣")
        ),
        (["homes: block <= people: block", "people: block <= homes: block"], "release.order-in-circle"),
        ("homes: block <= homes: block", "release.order-in-circle"),
        ("homes: block <= people: block + people: block", "release.unknown-table"),
        ("homes: block <= people: block <=", "release.unknown-table"),
        ("<= people: block", "release.unknown-table"),
    ],
)
def test_wrong_rules_are_refused_in_words(rules, code):
    with refused(code):
        fn.make_integer_tables(town(1), at_most=rules, simulations=0)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            "homes: block <= people: block * 2",
            "has a factor behind its second table. The factor stands before the table. Write 'homes: block <= 2 * ",
        ),
        (
            "2 * homes: block <= people: block",
            "has a factor at its first table. Only the second table has a factor. Write 'homes: block <= people: b",
        ),
        (
            "homes: block * 2 <= people: block",
            "Write 'homes: block <= people: block', which holds if this rule does.",
        ),
        (
            "0.5 * homes: block <= people: block",
            "Only the second table has a factor. Write a factor before the second table.",
        ),
        (
            "homes: block <= people: block <= homes: block",
            "has 2 signs <=. A rule compares two tables. Write 2 rules: 'homes: block <= people: block', 'people",
        ),
        ("homes: block >= people: block", "Exchange the two tables, and write <=."),
    ],
)
def test_a_rule_of_another_form_is_refused_with_the_right_one(rule, text):
    with refused("release.not-an-order-rule", key="at_most") as caught:
        fn.make_integer_tables(town(1), at_most=rule, simulations=0)
    assert text in str(caught.value)


def test_a_table_that_is_not_made_is_named():
    with refused("release.ordered-table-not-made") as caught:
        fn.make_integer_tables(town(1), "homes: block", at_most=RULES[0], simulations=0)
    assert str(caught.value) == (
        "at_most: The rule 'homes: block <= people: block' names the table 'people: block', which is not among the "
        "tables to make. A rule joins tables that are made together. Name 'people: block' among the tables, too, or "
        "remove the rule. No table was made."
    )
    with refused("release.ordered-table-not-made") as caught:
        fn.make_integer_tables(town(1), "people: block", at_most="homes: block <= 3 * people: block", simulations=0)
    assert "Name 'homes: block' among the tables" in str(caught.value)


def test_releases_in_a_list_and_one_release_twice_are_named():
    releases = town(1)
    with refused("release.releases-without-names", key="release") as caught:
        fn.make_integer_tables(list(releases.values()), simulations=0)
    assert "The value of release is a list of 2. Each of several releases has a name" in str(caught.value)
    with refused("release.repeated-release") as caught:
        fn.make_integer_tables({"homes": releases["homes"], "people": releases["homes"]}, simulations=0)
    assert "The names 'homes' and 'people' stand for one release." in str(caught.value)


def test_a_circle_is_named():
    with pytest.raises(fn.FitnoiseError) as caught:
        fn.make_integer_tables(
            town(1), at_most=["homes: block <= people: block", "people: block <= homes: block"], simulations=0
        )
    assert str(caught.value) == (
        "at_most: The rules form a circle: homes: block <= people: block <= homes: block. Such rules force these "
        "tables to be equal. Remove a rule of the circle, or publish one table. No table was made."
    )
    circle = [OrderRule("a", "b"), OrderRule("b", "c", 2), OrderRule("c", "a")]
    assert parse_rules(map(str, circle), ["a", "b", "c"]) == tuple(circle)


LABELS = fn.Domain(block=fn.Categorical(["a", "b"]), sex=fn.Categorical(["f", "m"]), income=fn.Amount(0, 100))


@pytest.mark.parametrize(
    ("smaller", "code"),
    [
        (fn.table("block", "sex", name="t", margin=9), "release.order-of-different-labels"),
        (fn.table("sex", name="t", margin=9), "release.order-of-different-labels"),
        (fn.table("block", name="t", sum="income", margin=900), "release.integer-table-of-sums"),
        (fn.table("block", name="t", mean="income", margin=900, reference=9), "release.integer-table-of-sums"),
    ],
)
def test_tables_that_no_rule_can_order_are_refused(smaller, code):
    plan = fn.plan(fn.Workload(LABELS, [smaller, fn.table("block", margin=9)]))
    with refused(code):
        fn.make_integer_tables(released(plan, np.zeros((2, 2, 2), dtype=int), 1), at_most="t <= block")


def test_explicit_queries_are_refused():
    plan = fn.plan(fn.matrix_workload(np.eye(2), margins=9.0, name="t"))
    with refused("release.integer-table-of-queries"):
        fn.make_integer_tables(released(plan, np.zeros(2, dtype=int), 1), at_most="t <= 2 * t")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda x: {"homes": x["homes"], "people": 3}, "release.wrong-type"),
        (lambda x: {" ": x["homes"]}, "release.release-without-name"),
        (lambda x: {1: x["homes"]}, "release.release-without-name"),
        (lambda x: {"homes": x["homes"], "people": x["homes"]}, "release.repeated-release"),
        (lambda x: {"homes": x["homes"], "Homes": x["people"]}, "release.tables-of-one-file"),
        (lambda x: {}, "release.no-tables-named"),
        (lambda x: list(x.values()), "release.releases-without-names"),
        (lambda x: tuple(x.values()), "release.releases-without-names"),
        (lambda x: 3, "release.wrong-type"),
    ],
)
def test_wrong_releases_are_refused_in_words(change, code):
    with refused(code):
        fn.make_integer_tables(change(town(1)), simulations=0)


# --- on disk and on pages -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The two releases, and integer tables that a command made of them."""
    path = tmp_path_factory.mktemp("ordered")
    for name, release in town(1).items():
        release.write(path / name)
    rules = [x for rule in RULES for x in ("--at-most", rule)]
    by_command(
        *("integers", str(path / "homes"), "--with-release", str(path / "people"), *rules),
        *("-o", str(path / "integers"), "--simulations", "2"),
    )
    return path


def verified(folder, others=("people",)):
    return fn.verify(folder / "homes", integers=folder / "integers", with_releases=[folder / x for x in others])


def test_what_a_command_makes_is_verified(folder):
    checked = verified(folder)
    assert checked.ok, [c for c in checked.checks if not c.holds]
    claims = {english(c.claim): english(c.finding) for c in checked.checks}
    assert claims["the numbers follow the stated rules of order"] == "rules: 2; the publisher confirms them"
    assert "no non-negative tables that follow the rules are nearer, and the numbers add up" in claims
    assert "no other integers that add up and follow the rules are nearer" in claims
    assert "people: the noisy answers are the plan's, unaltered" in claims
    assert {p.name for p in (folder / "integers").iterdir()} == {"whole.json", "homes_block.csv", "people_block.csv"}
    stored = making.read_integer_tables(
        fn.Release.read(folder / "people"), folder / "integers", [fn.Release.read(folder / "homes")]
    )
    computed = fn.make_integer_tables(town(1), at_most=RULES, simulations=2)
    assert stored.at_most == computed.at_most == list(RULES)
    assert stored.document() == computed.document()
    assert all(stored[name].equals(computed[name]) for name in computed)


@pytest.mark.parametrize("others", [(), ("homes",)])
def test_all_releases_are_needed(folder, others):
    checked = verified(folder, others)
    assert "of 2 releases, and not all of them are given" in english(checked.checks[-1].finding)
    other_tables = fn.make_integer_tables(town(1)["people"], simulations=0).write(folder / f"single {len(others)}")
    checked = fn.verify(folder / "homes", integers=other_tables, with_releases=[folder / "people"])
    assert "of another release" in english(checked.checks[-1].finding)


def shift(document, step):
    """Add a step to the number of people of a block with equal numbers of homes and people."""
    homes, people = (table["values"] for table in document["tables"])
    block = next(i for i in range(40) if homes[i] == people[i] > 0)
    people[block] += step


ALTERED = {
    "a number is moved down": (lambda x: shift(x, -1), "rules of order", "larger than a rule of order allows"),
    "a number is moved up": (lambda x: shift(x, 1), "integers that add up and follow the rules are nearer", ""),
    "a multiplier": (lambda x: x["at_most"][0]["multipliers"].__setitem__(0, 9.0), "the rules are nearer", "off by"),
    "a place": (lambda x: x["at_most"][0]["at"].__setitem__(0, 40), "of this release", "does not describe"),
    "another rule": (lambda x: x["at_most"][0].update(rule="people: block <= 9 * homes: block"), "nearer", "off by"),
    "a rule less": (lambda x: x["at_most"].pop(), "nearer", "off by"),
    "a rule twice": (lambda x: x["at_most"].append(x["at_most"][0]), "of this release", "does not describe"),
    "a rule of spaces": (lambda x: x["at_most"][0].update(rule=f" {RULES[0]}"), "of this release", "does not describe"),
    "no rule": (lambda x: x["at_most"][0].update(rule="x"), "of this release", "is not a rule of order"),
    "another sentence": (lambda x: x["remarks"][1].update(id="report.integers.ordered"), "files", "something else"),
    "another name": (lambda x: x["releases"][0].update(prefix="people: "), "of this release", "of another release"),
    "no name": (lambda x: x["releases"][0].update(prefix="homes"), "of this release", "does not describe"),
    "a number as name": (lambda x: x["releases"][0].update(prefix=3), "of this release", "does not describe"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_was_altered_is_noticed(what, folder):
    alter, claim, text = ALTERED[what]
    file = folder / "integers" / "whole.json"
    text_before = file.read_text(encoding="utf-8")
    document = json.loads(text_before)
    alter(document)
    try:
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        wrong = [c for c in verified(folder).checks if not c.holds]
    finally:
        file.write_text(text_before, encoding="utf-8")
    assert any(claim in english(c.claim) and text in english(c.finding) for c in wrong), wrong


SENTENCES = {
    language: catalogue(language)["report.integers.ordered_simulated"].format(ordered="homes: block, people: block")
    for language in ("en", "de")
}

STATED = {
    language: catalogue(language)["report.integers.rules"].format(rules=", ".join(RULES)) for language in ("en", "de")
}


def test_every_output_has_the_sentence(folder, tmp_path, capsys):
    """Each sentence is there with the names of the tables; the stored document has its id."""
    homes, people, integers = (str(folder / x) for x in ("homes", "people", "integers"))
    assert SENTENCES["en"] == (
        "homes: block, people: block were measured with noise and then moved to the nearest numbers that fit together. "
        "Small numbers are too large on average; the estimated bias is given with each. Do not add up many small "
        "numbers: ask the release for the sum."
    )
    stated = json.loads((folder / "integers" / "whole.json").read_text(encoding="utf-8"))
    assert STATED["en"] == (
        "The publisher states: homes: block <= people: block, people: block <= 10 * homes: block. fitnoise cannot "
        "prove this. The numbers follow it."
    )
    assert [x["id"] for x in stated["remarks"]] == ["report.integers.rules", "report.integers.ordered_simulated"]
    assert stated["remarks"][0]["rules"] == list(RULES)
    source = (homes, "--integers", integers, "--with-release", people)
    for language, sentence in SENTENCES.items():
        page = tmp_path / f"{language}.html"
        by_command("write", "report", *source, "-o", str(page), "--language", language)
        text = page.read_text(encoding="utf-8")
        assert text.count(sentence) == 3  # how to read the page, and below each table
        assert text.count(html.escape(STATED[language])) == 3
        assert catalogue(language)["page.integers.proof_ordered"] in text
        assert catalogue(language)["page.integers.proof"] not in text
        method = catalogue(language)["page.method.integers_ordered"]
        assert text.count(method[: method.index("{")]) == 2
        by_command("verify", *source, "--report", str(page))
        tex = tmp_path / f"{language}.tex"
        by_command("write", "export", *source, "-o", str(tex), "--language", language, "--totals")
        assert tex.read_text(encoding="utf-8").count(sentence) == 2
        assert tex.read_text(encoding="utf-8").count(method[: method.index("{")]) == 2
        by_command("verify", *source, "--export", str(tex))
    by_command("write", "export", *source, "-o", str(tmp_path / "package"))
    package = json.loads((tmp_path / "package" / "datapackage.json").read_text(encoding="utf-8"))
    assert all(x["description"].endswith(SENTENCES["en"]) for x in package["resources"])
    by_command("write", "export", *source, "-o", str(tmp_path / "tables.xlsx"))
    by_command("verify", *source, "--export", str(tmp_path / "tables.xlsx"))
    with zipfile.ZipFile(tmp_path / "tables.xlsx") as workbook:
        texts = workbook.read("xl/sharedStrings.xml").decode()
        assert SENTENCES["en"] in texts
        assert html.escape(STATED["en"], quote=False) in texts
    assert all(STATED["en"] in x["description"] for x in package["resources"])
    capsys.readouterr()
    by_command("integers", homes, "--with-release", people, "--at-most", RULES[0], "-o", str(tmp_path / "made"))
    printed = " ".join(capsys.readouterr().out.split())
    assert SENTENCES["en"] in printed
    assert f"The publisher states: {RULES[0]}. fitnoise cannot prove this. The numbers follow it." in printed
    assert "no non-negative tables that follow the rules are nearer" in printed
    assert "from the nearest non-negative tables that follow the rules" in printed
    tables = fn.make_integer_tables(town(1), at_most=RULES, simulations=0)
    assert "the estimated bias" not in english(*tables.all_remarks())
    assert "Small numbers are too large on average." in tables._repr_html_()
    assert fn.make_integer_tables(town(1), simulations=0).all_remarks() == ()


def test_a_table_without_a_rule_has_no_such_sentence():
    tables = fn.make_integer_tables({**town(1), "others": town(2)["homes"]}, at_most=RULES, simulations=0)
    assert [len(tables.remarks(name)) for name in tables] == [2, 2, 0]
    assert [tables.has_rules(name) for name in tables] == [True, True, False]
    assert tables.origin("others: block")[1] == "block"
    assert tables.publication("others: block").workload.tables.names == ["others: block"]
    with refused("release.unknown-table"):
        tables.origin("block")


def test_no_records_are_invented_from_several_releases():
    with refused("release.microdata-of-several-releases"):
        fn.microdata(fn.make_integer_tables(town(1), at_most=RULES, simulations=0), seconds=1)


def test_wrong_folders_are_refused_by_the_command(folder, tmp_path, capsys):
    town(2)["people"].write(tmp_path / "homes")
    options = ["--at-most", RULES[0], "-o", str(tmp_path / "made")]
    by_command("integers", str(folder / "homes"), "--with-release", str(tmp_path / "homes"), *options)
    assert "Two folders of releases have one name" in capsys.readouterr().err
    by_command("integers", str(folder / "homes"), "--with-release", str(folder / "homes"), *options)
    assert "The folder 'homes' is given twice. Give each release once." in capsys.readouterr().err
    inside = str(folder / "people" / "made")
    by_command("integers", str(folder / "homes"), "--with-release", str(folder / "people"), "-o", inside)
    assert "[release.place-inside-release]" in capsys.readouterr().err
    by_command("integers", str(folder / "homes"), "--at-most", "block <= 2.5 * block", "-o", str(tmp_path / "made"))
    assert "[release.wrong-factor-of-order]" in capsys.readouterr().err
    with refused("release.other-releases-without-tables"):
        fn.verify(folder / "homes", with_releases=[folder / "people"])
