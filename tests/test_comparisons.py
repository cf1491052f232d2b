"""Differences and ratios of two ratios: what they are, and how often their intervals hold."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fitnoise as fn
from fitnoise.reading import expressions
from fitnoise.reading.ratio_intervals import inverted
from fitnoise.reading.ratios import CombinedRatios, ComparedRatios, Ratios
from fitnoise.reading.similar_tests import BOX_ERROR_SHARE, difference, product, quotient, ranges
from fitnoise.request.targets import z_score
from laws.plans import planned_quickly
from laws.releases import released
from refused import refused
from tolerances import EXACT, SIGNIFICANCE

DOMAIN = fn.Domain(sex=fn.Categorical(["f", "m"]), state=fn.Categorical(["A", "B", "C"]), age=fn.Ordered(0, 5))
TABLES = [fn.table("state", "sex", margin=4), fn.table("sex", "age", margin=5)]
COUNTS = np.random.default_rng(7).integers(10, 60, DOMAIN.shape)


@cache
def release_of(privacy="gaussian"):
    return released((fn.plan if privacy == "gaussian" else planned_quickly)(fn.Workload(DOMAIN, TABLES)), COUNTS)


def women_ratio(release, state, sex="f"):
    return release.count(state=state, sex=sex) / release.count(state=state)


# --- interval arithmetic --------------------------------------------------------------------------------


def test_ranges_hold_all_that_is_made_of_the_intervals_and_end_there(rng):
    for _ in range(500):
        p, r = (np.sort(rng.normal(0, 2, 2)) for _ in range(2))
        if rng.random() < 0.3:
            p, r = np.abs(p[::-1]), np.abs(r[::-1])
            p, r = np.sort(p), np.sort(r)
        x, y = np.meshgrid(np.linspace(*p, 41), np.linspace(*r, 40))
        low, high = difference(*p, *r)
        assert [low, high] == pytest.approx([(x - y).min(), (x - y).max()])
        low, high = product(*p, *r)
        assert low <= (x * y).min() + EXACT
        assert [low, high] == pytest.approx([min(a * b for a in p for b in r), max(a * b for a in p for b in r)])
        assert (x * y).max() - EXACT <= high
        low, high = quotient(*p, *r)
        made_of = x / y
        assert low <= made_of.min() + EXACT
        assert made_of.max() - EXACT <= high
        if (r > 0).all() or (r < 0).all():
            assert [low, high] == pytest.approx([made_of.min(), made_of.max()])
        else:
            assert (low, high) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("p", "r", "expected"),
    [
        ((0.2, 0.4), (0, 0.5), (0.4, math.inf)),
        ((0, 0.4), (0, 0.5), (0, math.inf)),
        ((0, 0), (0, 0.5), (0, 0)),
        ((-1, 2), (0, 1), (-math.inf, math.inf)),
        ((1, 2), (-2, 0), (-math.inf, -0.5)),
        ((1, 2), (4, math.inf), (0, 0.5)),
        ((1, math.inf), (1, 2), (0.5, math.inf)),
        ((-math.inf, math.inf), (1, 2), (-math.inf, math.inf)),
        ((1, 2), (-math.inf, math.inf), (-math.inf, math.inf)),
        ((1, 2), (0, 0), (-math.inf, math.inf)),
    ],
)
def test_open_ends_stay_open(p, r, expected):
    assert quotient(*map(np.float64, (*p, *r))) == expected


# --- coverage -------------------------------------------------------------------------------------------

COVARIANCE = np.array([[7.65**2, 0.47 * 7.65**2], [0.47 * 7.65**2, 10.52**2]])
HARD = [
    ((650, 1600), (300, 900)),
    ((60, 200), (20, 100)),
    ((10, 40), (30, 60)),
    ((3, 20), (3, 20)),
    ((0, 3), (1, 1)),
    ((0, 40), (40, 40)),
]
N = 20_000
Z = z_score(0.951)


def accepted(values, covariance, p, r, divided):
    """Return the test of both ratios by its definition: values (…, 4), p and r of the same shape."""
    a, b = values[..., 0::2], values[..., 1::2]
    ratios = np.stack(np.broadcast_arrays(p, r), axis=-1)
    residuals = a - ratios * b
    rows = np.zeros((*ratios.shape[:-1], 2, 4))
    rows[..., 0, 0] = rows[..., 1, 2] = 1
    rows[..., 0, 1], rows[..., 1, 3] = -ratios[..., 0], -ratios[..., 1]
    variances = rows @ covariance @ rows.swapaxes(-1, -2)
    with_b = rows @ covariance[:, 1::2]
    adjusted = b - np.einsum("...ik,...i->...k", with_b, np.linalg.solve(variances, residuals[..., None])[..., 0])
    slopes = (
        np.stack([1 / ratios[..., 1], -ratios[..., 0] / ratios[..., 1] ** 2], axis=-1)
        if divided
        else np.array([1.0, -1.0])
    )
    weights = slopes / adjusted
    varied = np.einsum("...i,...ij,...j->...", weights, variances, weights)
    return np.abs((weights * residuals).sum(axis=-1)) <= Z * np.sqrt(varied)


def boxes(values, confidence=(1 - 0.05 * BOX_ERROR_SHARE) ** 0.5):
    class Normal:
        normal, slack = True, 0.0
        covariances = np.broadcast_to(COVARIANCE, (len(values), 2, 2))

    ends = np.zeros(len(values)), np.ones(len(values))
    one, other = (inverted(Normal(), tuple(values[:, k : k + 2].T), ends, confidence)[:2] for k in (0, 2))
    return (*one, *other)


@pytest.mark.parametrize("correlation", [0.0, 0.9, -0.9])
@pytest.mark.parametrize(("one", "other"), HARD)
def test_the_test_of_two_ratios_has_its_level_for_any_counts_and_correlation(one, other, correlation, rng):
    """20,000 draws: detects a coverage of 94.2 %."""
    covariance = np.kron([[1, correlation], [correlation, 1]], COVARIANCE)
    draws = rng.multivariate_normal([*one, *other], covariance, N)
    p, r = one[0] / one[1], other[0] / other[1]
    low, high, other_low, other_high = boxes(draws)
    both = (low <= p) & (p <= high) & (other_low <= r) & (r <= other_high)
    for divided in (False, True) if r else (False,):
        inside = both & accepted(draws, covariance, p, r, divided)
        assert stats.binom.cdf(inside.sum(), N, 0.95) > SIGNIFICANCE


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_ranges_are_those_of_all_that_the_test_accepts(correlation, divided, rng):
    covariance = np.kron([[1, correlation], [correlation, 1]], COVARIANCE)
    for one, other in HARD:
        draws = rng.multivariate_normal([*one, *other], covariance, 2)
        box = boxes(draws)
        low, high = ranges(draws, np.broadcast_to(covariance, (2, 4, 4)), box, Z, divided=divided)
        for j in range(2):
            p, r = (np.linspace(box[k][j], box[k + 1][j], 201) for k in (0, 2))
            p, r = p[:, None], np.where(divided & (r == 0), 1e-9, r)
            which = accepted(draws[j], covariance, p, r, divided)
            made_of = (p / r if divided else p - r)[which]
            assert low[j] <= made_of.min(initial=math.inf)
            assert made_of.max(initial=-math.inf) <= high[j]
            if made_of.size and np.isfinite(high[j]) and made_of.max() < 10:
                ends = np.array([low[j] - made_of.min(), high[j] - made_of.max()])
                assert np.abs(ends).max() <= 0.04 * (1 + np.ptp(made_of))  # of the grid, and 1/500 outward


def test_ranges_reach_to_infinity_only_where_a_number_may_be_0():
    values = np.array([[600.0, 200, 300, 100], [600, 3, 300, 100], [600, 200, 300, 3], [0, 0, 300, 100]])
    covariances, infinity = np.broadcast_to(9 * np.eye(4), (4, 4, 4)), math.inf
    box = [
        np.array(x)
        for x in (
            [2.8, 0, 2.8, -infinity],
            [3.2, infinity, 3.2, infinity],
            [2.5, 2.5, 0, 2.5],
            [3.5, 3.5, infinity, 3.5],
        )
    ]
    low, high = ranges(values, covariances, tuple(box), 2.0, divided=False)
    assert np.isfinite(low).tolist() == [True, True, False, False]
    assert np.isfinite(high).tolist() == [True, False, True, False]
    low, high = ranges(values, covariances, tuple(box), 2.0, divided=True)
    assert np.isfinite(low).tolist() == [True, True, True, False]
    assert np.isfinite(high).tolist() == [True, False, True, False]
    for one, other, expected in ((0.75, 0.5, 1.5), (0.0, 0.5, 0), (0.0, 0.0, 0)):
        limits = [np.full(1, x) for x in (one, one, other, other)]
        assert (
            ranges(np.array([[3.0, 4, 1, 2]]), np.zeros((1, 4, 4)), tuple(limits), 2.0, divided=True) == (expected,) * 2
        )


def test_what_takes_too_many_rectangles_is_a_little_too_wide(monkeypatch, rng):
    covariances = np.broadcast_to(np.kron(np.eye(2), COVARIANCE), (1, 4, 4))
    draws = rng.multivariate_normal([60, 200, 20, 100], covariances[0], 1)
    low, high = ranges(draws, covariances, boxes(draws), Z, divided=False)
    monkeypatch.setattr("fitnoise.reading.similar_tests.MAX_RECTANGLES", 8)
    wide = ranges(draws, covariances, boxes(draws), Z, divided=False)
    assert wide[0] < low < high < wide[1]


# --- of releases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_both_ratios_are_in_their_intervals_at_once(privacy):
    p, r = women_ratio(release_of(privacy), "A"), women_ratio(release_of(privacy), "B")
    (a, b), (c, d) = p.interval(0.975), r.interval(0.975)
    change, ratio = p - r, p / r
    assert isinstance(change, ComparedRatios)
    assert change.value == p.value - r.value
    assert ratio.value == p.value / r.value
    if privacy == "pure":
        assert change.interval() == pytest.approx((a - d, b - c))
        assert ratio.interval() == pytest.approx((a / d, b / c))
    else:
        for comparison, box in ((change, (a - d, b - c)), (ratio, (a / d, b / c))):
            low, high = comparison.interval()
            assert box[0] < low < comparison.value < high < box[1]
    assert change.interval(0.5)[1] < change.interval()[1] < change.interval(0.99)[1]
    transformed = (1000 * (1 - ratio) / 2).frame().iloc[0]
    assert list(transformed) == pytest.approx([500 * (1 - x) for x in (ratio.value, *ratio.interval()[::-1])])
    assert (change.summary, ratio.summary) == ("1 difference of ratios", "1 ratio of ratios")


def test_complete_tables_are_compared():
    release = release_of()
    women, men = (release.count(by="state", sex=x) / release.count(sex=x) for x in ("f", "m"))
    differences = women - men
    assert differences.labels == {"state": ("A", "B", "C")}
    frame, wider = differences.frame(), differences.frame(simultaneous=True)
    assert list(frame.columns) == ["state", "value", "low", "high"]
    assert (wider["low"] < frame["low"]).all()
    assert (frame["low"] < frame["value"]).all()
    np.testing.assert_allclose(wider["high"], differences.interval(1 - 0.05 / 3)[1])
    assert len(differences) == 3
    crossed = release.count(by="state", sex="f") / release.count(by="state") - release.count(sex="f") / release.count()
    assert crossed.frame()["state"].tolist() == ["A", "B", "C"]


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_parts_of_one_total_are_one_ratio_again(privacy):
    release = release_of(privacy)
    women, men, both = release.count(state="A", sex="f"), release.count(state="A", sex="m"), release.count(state="A")
    change, same = women / both - men / both, (women - men) / both
    assert isinstance(change, Ratios)
    assert change.value == pytest.approx(float(same.value))
    assert change.interval() == pytest.approx(same.interval())
    assert (change._possible[0], change._possible[1]) == (-1, 1)
    box = [x.interval(0.97468) for x in (women / both, men / both)]
    assert change.interval()[1] - change.interval()[0] < sum(high - low for low, high in box)
    ratio = (100 * women / both) / (men / both)
    assert isinstance(ratio, Ratios)
    assert ratio.interval() == pytest.approx(tuple(100 * x for x in (women / men).interval()))
    assert isinstance((women / both + 1) / (men / both), ComparedRatios)
    shifted = 3 * (women / both) + 1 - (2 - men / both)
    assert isinstance(shifted, Ratios)
    assert shifted.value == pytest.approx(float((3 * women + men).value / both.value) - 1)
    assert (shifted._possible[0], shifted._possible[1]) == (0, 4)
    assert (0 * (women / both)).interval() == (0, 0)
    assert (0 * (women / both) - men / both).interval() == pytest.approx(
        tuple(-x for x in (men / both).interval()[::-1])
    )


def test_releases_with_different_kinds_of_noise_are_compared():
    p, r = women_ratio(release_of(), "A"), women_ratio(release_of("pure"), "A")
    (a, b), (c, d) = p.interval(0.975), r.interval(0.975)
    assert (p - r).interval() == pytest.approx((a - d, b - c))
    assert (p - r).universe == "what was computed of several counts"
    means = [release_of(x).mean("age", sex="f") for x in ("gaussian", "pure")]
    assert (means[0] - means[1]).universe == "records with sex f"
    assert (means[0] - release_of().mean("age", sex="m")).universe == "records with sex f, and records with sex m"


def test_what_cannot_be_compared_is_refused():
    release = release_of()
    p, n = women_ratio(release, "A"), release.count(state="A")
    change = p - women_ratio(release, "B")
    for code, wrong in [
        ("release.division-by-zero", lambda: change / 0),
        ("release.factor-not-finite", lambda: change * -(10**400)),
        ("release.factor-not-finite", lambda: change * math.inf),
        ("release.product-of-estimates", lambda: n * n),
        ("release.power-of-estimates", lambda: n**2),
        ("release.power-of-estimates", lambda: p**2),
        ("release.number-divided-by-estimate", lambda: 5 / n),
        ("release.number-divided-by-estimate", lambda: np.float64(5) / n),
        ("release.number-divided-by-ratio", lambda: 5 / p),
        ("release.number-added-to-estimate", lambda: n + 5),
        ("release.number-added-to-estimate", lambda: 5 + n),
        ("release.number-added-to-estimate", lambda: n - 5),
        ("release.number-added-to-estimate", lambda: 5 - n),
        ("release.ratio-added-to-estimate", lambda: n - p),
        ("release.ratio-added-to-estimate", lambda: n + change),
        ("release.estimate-divided-by-ratio", lambda: n / p),
        ("release.product-of-estimates", lambda: n * p),
        ("release.ratio-with-counts", lambda: p * n),
        ("release.ratio-with-counts", lambda: change + n),
        ("release.ratio-with-counts", lambda: p - release.quantile("age", 0.5)),
    ]:
        with refused(code):
            wrong()
    for wrong in (
        lambda: p * "a",
        lambda: "a" / p,
        lambda: n + "a",
        lambda: "a" - n,
        lambda: "a" / n,
        lambda: n * None,
    ):
        with pytest.raises(TypeError):
            wrong()


def test_estimates_add_up_and_numbers_of_numpy_multiply_them():
    release = release_of()
    n = release.count(by="state")
    assert sum([n["A"], n["B"]]).value == pytest.approx((n["A"] + n["B"]).value)
    assert (np.float64(2) * n).value == pytest.approx(2 * n.value)
    assert (np.int64(2) * (n / release.count())).value == pytest.approx(2 * (n / release.count()).value)


# --- of more than two ratios ----------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_an_index_is_in_the_range_of_ratios_that_are_all_in_their_intervals(privacy):
    """Detects levels for fewer ratios than there are, and ends of another range."""
    release = release_of(privacy)
    parts = [women_ratio(release, state) for state in "ABC"]
    index = (0.5 * (parts[0] / parts[1]) + 0.5 * (parts[2] + 1) - parts[1]) * 100
    assert isinstance(index, CombinedRatios)
    a, b, c = (x.value for x in parts)
    assert index.value == pytest.approx(100 * (0.5 * a / b + 0.5 * (c + 1) - b))
    each = 0.95**0.25 if privacy == "gaussian" else 1 - 0.05 / 4
    (a, b), (c, d), (e, f) = (x.interval(each) for x in parts)
    assert index.interval() == pytest.approx(
        (100 * (0.5 * a / d + 0.5 * (e + 1) - d), 100 * (0.5 * b / c + 0.5 * (f + 1) - c))
    )
    assert (-index).interval() == pytest.approx(tuple(-x for x in index.interval()[::-1]))
    assert (0 * index + 3).interval() == (3, 3)
    times = parts[0] * parts[1]
    (a, b), (c, d) = (x.interval(0.95**0.5 if privacy == "gaussian" else 0.975) for x in parts[:2])
    assert times.interval() == pytest.approx((a * c, b * d))
    doubled = parts[0] * (0 * parts[1] + 2)
    assert doubled.interval() == pytest.approx(tuple(2 * x for x in parts[0].interval()))
    assert (index.summary, index.universe) == ("1 number made of ratios", "what was computed of several counts")


def test_indices_are_distinguished_by_their_ratios():
    release = release_of()
    by_state = release.count(by="state", sex="f") / release.count(by="state")
    overall = release.count(sex="f") / release.count()
    index = by_state * overall / (by_state - overall)
    assert index.labels == {"state": ("A", "B", "C")}
    assert list(index.frame().columns) == ["state", "value", "low", "high"]
    one, all_of_them = index["B"], index.frame()
    assert list(one.interval()) == pytest.approx([*all_of_them[["low", "high"]].iloc[1]])
    gap = by_state / overall - by_state * 0
    assert gap[["A", "C"]].value == pytest.approx(np.asarray(gap.value)[[0, 2]])
    at_once = index.frame(simultaneous=True)
    assert (at_once["low"] <= all_of_them["low"]).all()
    low, high = index.interval(0.95 ** (1 / 3))
    assert list(at_once["low"]) == pytest.approx(list(low))
    assert list(at_once["high"]) == pytest.approx(list(high))
    nothing = (by_state["A"] - by_state["A"]) * 1
    assert math.isnan((by_state["B"] * overall / nothing).value)
    answer = expressions.ask('(count(sex="f") / count()) * (count(state="A") / count()) + 1', release)
    assert answer.interval() == pytest.approx((overall * (release.count(state="A") / release.count()) + 1).interval())
    assert (overall + by_state["A"]).interval() == pytest.approx((overall - -by_state["A"]).interval())


@pytest.mark.slow
@pytest.mark.usefixtures("rehearsed_once")
def test_indices_hold_as_often_as_they_say():
    """200 releases of three ratios, one of them of few: detects a box that misses more often than 5 %, at 1e-6."""
    shares = [COUNTS[0, k].sum() / COUNTS[:, k].sum() for k in range(3)]
    true = shares[0] / shares[1] * shares[2]
    plan, held = fn.plan(fn.Workload(DOMAIN, TABLES[:1])), 0
    for _ in range(200):
        release = released(plan, COUNTS)
        low, high = (women_ratio(release, "A") / women_ratio(release, "B") * women_ratio(release, "C")).interval()
        held += low <= true <= high
    assert held >= stats.binom(200, 0.95).ppf(SIGNIFICANCE)
