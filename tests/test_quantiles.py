"""Quantiles and means of a release: what they are, and how often their intervals hold."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fitnoise as fn
from fitnoise.messages import english, rule_messages
from fitnoise.reading import quantiles
from fitnoise.reading.laws import law, single_noises
from fitnoise.reading.quantiles import confidence_set, find_first
from laws.plans import planned_quickly
from laws.releases import released
from refused import refused
from tolerances import SIGNIFICANCE, as_often_as

AGES = 12
DOMAIN = fn.Domain(
    sex=fn.Categorical(["f", "m"]),
    age=fn.Ordered(0, AGES - 1, missing={"unknown": [-9]}, if_missing="unknown"),
    pay=fn.Binned([1000, 2000, 4000]),
)
TABLES = [fn.table("sex", cumulative="age", margin=4), fn.table("sex", "pay", margin=3), fn.table("age", margin=5)]
COUNTS = np.random.default_rng(6).integers(0, 9, DOMAIN.shape)
PROMISES = ["gaussian", "pure"]


@cache
def plan(privacy):
    return (fn.plan if privacy == "gaussian" else planned_quickly)(fn.Workload(DOMAIN, TABLES))


@cache
def released_counts(privacy="gaussian"):
    return released(plan(privacy), COUNTS)


@pytest.fixture
def quiet(without_noise):
    """A release without noise."""
    return released(plan("gaussian"), COUNTS)


def truth(counts, q):
    """The first place at which counts have a part of all, and a record, exactly."""
    cumulated = np.cumsum(counts)
    return next(t for t, x in enumerate(cumulated.tolist()) if x >= max(Fraction(str(q)) * int(cumulated[-1]), 1))


@pytest.mark.parametrize("q", [0, 0.013, 0.27, 0.49, 0.77, 0.99, 1])  # 0.5 is 105 of 210 exactly: rounding decides
def test_quantiles_are_those_of_the_records(quiet, q):
    ages = COUNTS.sum(axis=2)[:, :AGES]
    quantile = quiet.quantile("age", q, by="sex")
    assert quantile.labels == {"sex": ("f", "m")}
    assert quantile.value.tolist() == [truth(x, q) for x in ages]
    frame = quantile.frame()
    assert list(frame.columns) == ["sex", "value", "low", "high"]
    assert frame["value"].dtype == np.int64
    assert (frame["low"] <= frame["value"]).all()
    assert (frame["value"] <= frame["high"]).all()
    assert quiet.quantile("age", q).value == truth(ages.sum(axis=0), q)
    assert quiet.quantile("age", q, sex="m", age=(3, 7)).value == 3 + truth(ages[1, 3:8], q)
    assert (
        quiet.quantile("age", q, {"age": {"values": [2, 5, 9]}}).value
        == [2, 5, 9][truth(ages.sum(axis=0)[[2, 5, 9]], q)]
    )
    bins = DOMAIN["pay"].values
    pay = quiet.quantile("pay", q, by="sex")
    assert pay.value.tolist() == [bins[truth(x, q)] for x in COUNTS.sum(axis=1)]
    assert pay.frame()["low"].isin(bins).all()


def test_the_universe_of_a_quantile_is_stated():
    assert released_counts().quantile("age", 0.5).universe == "all records but those with age unknown"
    assert released_counts().quantile("age", 0.5, sex="f").universe == "records with sex f but those with age unknown"
    assert released_counts().quantile("age", 0.5, age=(1, 5)).universe == "records with age 1–5"
    assert released_counts().quantile("pay", 0.5).universe == "all records"
    assert released_counts().quantile("age", 0.25, by="sex").summary == "2 quantiles at 0.25 by sex"
    assert released_counts().quantile("age", 0.5).summary == "1 quantile at 0.5"


@pytest.mark.parametrize("privacy", PROMISES)
def test_intervals_are_wider_jointly_and_at_higher_confidence(privacy):
    quantile = released_counts(privacy).quantile("age", 0.5, by="sex")
    (low, high), (lower, higher) = quantile.interval(), quantile.interval(simultaneous=True)
    assert (lower <= low).all()
    assert (high <= higher).all()
    separate = quantile.interval(0.975)  # Bonferroni: two at 97.5 % are both right 95 % of the time
    assert [x.tolist() for x in separate] == [lower.tolist(), higher.tolist()]
    lowest, highest = quantile.interval(1 - 1e-9)
    assert ((lowest <= lower) & (higher <= highest)).all()
    for gamma in (0.01, 0.5, 0.999):
        frame = quantile.frame(gamma)
        assert (frame["low"] <= frame["value"]).all()
        assert (frame["value"] <= frame["high"]).all()


# --- coverage -------------------------------------------------------------------------------------------

FALLING = [30, 80, 120, 160, 150, 130, 120, 100, 60, 30, 15, 5]
TRUE = {
    "many": (np.array(FALLING), 0.5),
    "low end": (np.array(FALLING), 0.1),
    "high end": (np.array(FALLING), 0.9),
    "few": (np.array([0, 1, 0, 2, 3, 1, 0, 1, 0, 0, 1, 0]), 0.5),
    "one": (np.array([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]), 0.5),
    "a gap where half is reached": (np.array([500, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 500]), 0.5),
    "all at the end": (np.array([0] * 11 + [40]), 0.5),
    "reached exactly": (np.array([0, 0, 0, 0, 0, 1000, 1000, 0, 0, 0, 0, 0]), 0.5),
}
SHARP = "reached exactly"
"""One hypothesis holds only just: its test errs as often as it may, and the other never."""


def factors(law):
    """The coefficients of independent noises in the tests of one quantile, and a function that draws these noises."""
    if law.normal:
        n = len(law.forms[0].values())
        rows = np.arange(n)
        cov = np.array([law.forms[0].take(np.full(n, i)).covariances(law.forms[0].take(rows)) for i in rows])
        values, vectors = np.linalg.eigh(cov)
        return vectors * np.sqrt(np.maximum(values, 0)), lambda rng, shape: rng.standard_normal(shape)
    (source,), (form,) = law.forms[0].sources, law.forms
    noises = np.array([single_noises(source, form.tensors(i).get(source, {}))[0] for i in range(form.length)])
    p = -np.expm1(-1 / law._scales[0])
    return noises, lambda rng, shape: (rng.geometric(p, shape) - rng.geometric(p, shape)).astype(float)


@pytest.mark.parametrize("privacy", PROMISES)
@pytest.mark.parametrize("case", TRUE)
def test_intervals_hold_whatever_the_counts(privacy, case, rng):
    """20,000 draws: detects a coverage of 94.2 %, and in the sharp case one that is not 97.5 % ± 0.7 %."""
    counts, q = TRUE[case]
    quantile = released_counts(privacy).quantile("age", q, sex="f")
    widths = quantile._law.half_widths(np.ones((AGES, 1)), 0.95)
    mixing, draw = factors(quantile._law)
    np.testing.assert_allclose(np.sqrt((mixing**2).sum(axis=1) * draw(rng, (20_000, 1)).var()), widths / 1.96, rtol=0.2)
    cumulated = np.cumsum(counts)
    tested = cumulated - q * cumulated[-1] + draw(rng, (20_000, mixing.shape[1])) @ mixing.T
    low, high = confidence_set(tested[:, None], np.broadcast_to(widths, tested[:, None].shape))
    inside = (low <= truth(counts, q)) & (truth(counts, q) <= high)
    assert stats.binom.cdf(inside.sum(), 20_000, 0.95) > SIGNIFICANCE
    if case == SHARP:
        assert as_often_as(inside, 0.975, slack=0.001)


SEVERAL = (0.0, 0.1, 0.49, 0.5, 0.9, 1.0)


@pytest.mark.parametrize("privacy", PROMISES)
@pytest.mark.parametrize("case", TRUE)
def test_intervals_of_several_quantiles_hold_and_never_decrease(privacy, case, rng):
    """20,000 draws: each interval holds in at least 95 % of them, and all hold in at least 95 % if simultaneous."""
    counts = TRUE[case][0]
    quantile = released_counts(privacy).quantile("age", SEVERAL, sex="f")
    mixing, draw = factors(quantile._law)
    cumulated, exact = np.cumsum(counts), [truth(counts, q) for q in SEVERAL]
    true = np.concatenate([cumulated - q * cumulated[-1] for q in SEVERAL])
    shape = (20_000, len(SEVERAL), AGES)
    tested = (true + draw(rng, (20_000, mixing.shape[1])) @ mixing.T).reshape(shape)
    for confidence in (0.95, 1 - 0.05 / len(SEVERAL)):
        widths = quantile._law.half_widths(np.ones((len(true), 1)), confidence).reshape(shape[1:])
        low, high = confidence_set(tested, np.broadcast_to(widths, shape))
        inside = (low <= exact) & (exact <= high)
        assert (stats.binom.cdf(inside.sum(axis=0), 20_000, 0.95) > SIGNIFICANCE / len(SEVERAL)).all()
        assert (low <= high).all()
        assert all((np.diff(ends, axis=1) >= 0).all() for ends in (low, high))
    assert stats.binom.cdf(inside.all(axis=1).sum(), 20_000, 0.95) > SIGNIFICANCE


@pytest.mark.parametrize("privacy", PROMISES)
def test_several_quantiles_equal_single_ones(privacy):
    release = released_counts(privacy)
    several = release.quantile("age", SEVERAL, by="sex")
    assert several.labels == {"sex": ("f", "m"), "quantile": SEVERAL}
    assert several.summary == "12 quantiles at 0, 0.1, 0.49, 0.5, 0.9, 1 by sex"
    single = [release.quantile("age", q, by="sex") for q in SEVERAL]
    # the records are many, so ends need no widening
    assert several.value.tolist() == np.stack([x.value for x in single], axis=1).tolist()
    for mine, theirs in zip(several.interval(), zip(*(x.interval() for x in single), strict=True), strict=True):
        assert mine.tolist() == np.stack(theirs, axis=1).tolist()
    # Bonferroni: twelve at 1 − 5 %/12 are right at once 95 % of the time
    for mine, theirs in zip(several.interval(simultaneous=True), several.interval(1 - 0.05 / 12), strict=True):
        assert mine.tolist() == theirs.tolist()
    frame = release.quantile("age", [0.25, 0.75]).frame()
    assert list(frame.columns) == ["quantile", "value", "low", "high"]
    assert frame["quantile"].tolist() == [0.25, 0.75]
    assert release.quantile("age", np.array([0.25]), sex="f").value.shape == (1,)


def test_several_quantiles_never_decrease_in_small_groups(rng):
    """Noise above the counts, so that estimates of all records are negative, too."""
    small, negative = fn.plan(fn.Workload(DOMAIN, [fn.table("sex", cumulative="age", margin=12)])), 0
    for _ in range(40):
        release = released(small, rng.integers(0, 2, DOMAIN.shape) * rng.integers(0, 2, (2, 1, 1)))
        several = release.quantile("age", SEVERAL, by="sex")
        (low, high), value = several.interval(), several.value
        assert all((np.diff(x, axis=1) >= 0).all() for x in (low, value, high))
        assert ((low <= value) & (value <= high)).all()
        negative += (release.count(by="sex", age=(0, AGES - 1)).value < 0).sum()
    assert negative


def test_ends_that_cross_are_widened(rng):
    tested, widths = rng.normal(0, 2, (500, 3, 6)), rng.uniform(0, 2, (500, 3, 6))
    (low, high), crossed = confidence_set(tested, widths), 0
    single = [confidence_set(tested[:, i : i + 1], widths[:, i : i + 1]) for i in range(3)]
    for ends, several, contains in zip(
        zip(*single, strict=True), (low, high), (np.less_equal, np.greater_equal), strict=True
    ):
        each = np.concatenate(ends, axis=1)
        assert contains(several, each).all()
        assert (np.diff(several, axis=1) >= 0).all()
        rising = (np.diff(each, axis=1) >= 0).all(axis=1)
        assert (several[rising] == each[rising]).all()
        crossed += (~rising).sum()
    assert crossed > 100


def test_minimum_and_maximum_are_known_where_enough_records_are_outside(quiet):
    ages = COUNTS.sum(axis=(0, 2))[:AGES]
    smallest, largest = quiet.quantile("age", 0), quiet.quantile("age", 1)
    below = [quiet.count(age=(0, t)) for t in range(AGES)]
    above = [quiet.count(age=(t, AGES - 1)) for t in range(AGES)]
    # without noise, the inner ends are where the numbers of records up to them, or from them on, exceed their margins
    enough, enough_above = ([x.value > x.moe() for x in numbers] for numbers in (below, above))
    assert smallest.interval() == (0, enough.index(True))
    assert largest.interval() == (max(t for t in range(AGES) if enough_above[t]), AGES - 1)
    there = np.flatnonzero(ages)
    assert (smallest.value, largest.value) == (there[0], there[-1])


def test_what_is_kept_is_every_candidate_that_is_not_rejected(rng):
    for _ in range(300):
        n = int(rng.integers(1, 8))
        tested, widths = rng.normal(0, 2, (1, 1, n)), rng.uniform(0, 2, (1, 1, n))
        enough = [t == n - 1 or tested[0, 0, t] >= -widths[0, 0, t] for t in range(n)]
        below = [t == 0 or tested[0, 0, t - 1] <= widths[0, 0, t - 1] for t in range(n)]
        those = [t for t in range(n) if enough[t] and below[t]]
        low, high = confidence_set(tested, widths)
        assert (low[0], high[0]) == (those[0], those[-1])


def test_counts_that_fall_are_made_to_rise():
    falling = np.array([[10.0, -4, 0, 14]])  # 10, 6, 6, 20: three times 7⅓
    assert find_first(falling, np.array([0.3, 0.45])).tolist() == [[0, 3]]
    assert find_first(np.array([[1.0, 1, 1, 1], [4, 0, 0, 0]]), np.array([0.5])).tolist() == [[1], [0]]
    assert find_first(np.array([[-1.0, -1, -1, -1]]), np.array([0, 0.5, 1])).tolist() == [[3, 3, 3]]
    assert find_first(np.array([[0.0, 0, 3, 0]]), np.array([0, 1])).tolist() == [[2, 2]]
    assert find_first(np.array([[2.0, 0, 0, -3]]), np.array([0, 0.5, 1])).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda r: r.quantile("sex", 0.5), "release.attribute-without-order"),
        (lambda r: r.quantile("height", 0.5), "release.unknown-attribute"),
        (lambda r: r.quantile("age", 0.5, by="age"), "release.repeated-attribute"),
        (lambda r: r.quantile("age", 0.5, by="pay"), "release.attributes-not-crossed"),
        (lambda r: r.quantile("age", 0.5, age="unknown"), "release.only-missing-values-chosen"),
        (lambda r: r.quantile("age", 50), "release.wrong-quantile"),
        (lambda r: r.quantile("age", True), "release.wrong-quantile"),
        (lambda r: r.quantile("age", "half"), "release.wrong-quantile"),
        (lambda r: r.quantile("age", -0.1), "release.wrong-quantile"),
        (lambda r: r.quantile("age", []), "release.wrong-quantile"),
        (lambda r: r.quantile("age", [0.5, True]), "release.wrong-quantile"),
        (lambda r: r.quantile("age", [0.5, 0.5]), "release.wrong-quantile"),
        (lambda r: r.quantile("age", [0.9, 0.5]), "release.wrong-quantile"),
        (lambda r: r.quantile("age", float("nan")), "release.wrong-quantile"),
        (lambda r: r.quantile("age", 0.5, by=3), "release.attribute-not-named"),
    ],
)
def test_what_is_no_quantile_is_refused(ask, code):
    with refused(code):
        ask(released_counts())


def test_a_confidence_is_a_part_and_long_attributes_are_refused(monkeypatch):
    with refused("workload.confidence-out-of-range"):
        released_counts().quantile("age", 0.5).interval(95)
    monkeypatch.setattr(quantiles, "MAX_CUMULATED_NUMBERS", 100)
    with refused("release.too-many-cumulated"):
        released_counts().quantile("age", 0.5)


# --- means ----------------------------------------------------------------------------------------------


def test_means_are_those_of_the_records(quiet):
    ages, values = COUNTS.sum(axis=2)[:, :AGES], np.arange(AGES)
    mean = quiet.mean("age", by="sex")
    np.testing.assert_allclose(mean.value, ages @ values / ages.sum(axis=1), rtol=1e-9)
    assert list(mean.frame().columns) == ["sex", "value", "low", "high", "is_significant"]
    assert quiet.mean("age").value == pytest.approx(ages.sum(axis=0) @ values / ages.sum())
    part = quiet.mean("age", sex="m", age=(3, 7))
    assert part.value == pytest.approx(ages[1, 3:8] @ values[3:8] / ages[1, 3:8].sum())
    assert part._possible == (3, 7)
    assert quiet.mean("age", {"age": 4}).interval() == pytest.approx((4, 4))
    assert quiet.mean("age", {"age": 0}).interval() == pytest.approx((0, 0))
    assert mean["m"].value == mean.value[1]


@pytest.mark.parametrize("privacy", PROMISES)
def test_a_mean_is_the_ratio_of_a_sum_and_a_count(privacy):
    release = released_counts(privacy)
    each, low, high = release.count(by="age", age=(0, AGES - 1)), *release.mean("age").interval()
    total = each[0] * 0
    for age in range(AGES):
        total = total + age * each[age]
    ratio = total / release.count(age=(0, AGES - 1))
    assert ratio.interval() == pytest.approx((low, high), rel=1e-3)
    assert release.mean("age").value == pytest.approx(ratio.value)
    assert low < ratio.value < high


def test_the_universe_of_a_mean_is_stated():
    assert released_counts().mean("age", by="sex")["f"].universe == "all records but those with age unknown"
    assert (2 * released_counts().mean("age", sex="m")).universe == "records with sex m but those with age unknown"
    assert (
        released_counts().count(sex="m") / released_counts().count()
    ).universe == "what was computed of several counts"
    domain = fn.Domain(age=fn.Ordered(0, 3, clip=True))
    clipped = released(fn.plan(fn.Workload(domain, [fn.table("age", margin=3)])), np.arange(4))
    assert clipped.mean("age").universe == f"all records (age: {english(*rule_messages(domain['age'].coding_rules))})"


@pytest.mark.parametrize("privacy", PROMISES)
@pytest.mark.parametrize("case", TRUE)
def test_true_means_are_rejected_as_rarely_as_promised(privacy, case, rng):
    """20,000 draws of the test of the true mean, which decides whether it is in the interval."""
    counts, values = TRUE[case][0], np.arange(AGES)
    estimate = released_counts(privacy).mean("age", sex="f")
    mean = counts @ values / counts.sum()
    tested = estimate._parts[0].plus(estimate._parts[1].scale(-mean))
    mixing, draw = factors(law(tested))
    errors = draw(rng, (20_000, mixing.shape[1])) @ mixing[0]
    width = estimate._law.half_widths(np.array([[1.0, -mean]]), 0.95)[0]
    assert as_often_as((np.abs(errors) <= width)[:, None], 0.95, slack=0.001)


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda r: r.mean("sex"), "release.attribute-not-numeric"),
        (lambda r: r.mean("pay"), "release.attribute-not-numeric"),
        (lambda r: r.mean("height"), "release.attribute-not-numeric"),
        (lambda r: r.mean(["age"]), "release.attribute-not-named"),
        (lambda r: r.mean("age", by="pay"), "release.attributes-not-crossed"),
        (lambda r: r.mean("age", age="unknown"), "release.only-missing-values-chosen"),
    ],
)
def test_what_is_no_mean_is_refused(ask, code):
    with refused(code):
        ask(released_counts())
