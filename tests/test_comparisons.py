"""Differences and ratios of two ratios: what they are, and how often their intervals hold."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

import fitnoise as fn
from fitnoise.errors import ReleaseError
from fitnoise.reading.comparisons import ComparedRatios, difference, quotient
from fitnoise.reading.estimates import Ratios, Rows, inverted
from fitnoise.reading.laws import level
from fitnoise.request.targets import z_score
from laws import planned_quickly, released
from tolerances import EXACT, SIGNIFICANCE

DOMAIN = fn.Domain(sex=fn.Categorical(["f", "m"]), state=fn.Categorical(["A", "B", "C"]), age=fn.Ordered(0, 5))
TABLES = [fn.table("state", "sex", margin=4), fn.table("sex", "age", margin=5)]
COUNTS = np.random.default_rng(7).integers(10, 60, DOMAIN.shape)


@cache
def made(privacy="gaussian"):
    return released((fn.plan if privacy == "gaussian" else planned_quickly)(fn.Workload(DOMAIN, TABLES)), COUNTS)


def share(release, state, sex="f"):
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


class Normal:
    normal, slack = True, 0.0
    covariances = np.broadcast_to(COVARIANCE, (N, 2, 2))


class Drawn:
    """Many draws of one share."""

    confidence, universe, _law = 0.95, "drawn", Normal()

    def __init__(self, draws):
        self.values = draws

    def __len__(self):
        return N

    def interval(self, confidence):
        ends = np.zeros(N), np.ones(N)
        return inverted(self._law, self.values, ends, confidence)[:2]


@pytest.mark.parametrize("correlation", [0.0, 0.9, -0.9])
@pytest.mark.parametrize(("one", "other"), HARD)
def test_intervals_hold_for_any_counts_and_correlation(one, other, correlation, rng):
    """20,000 draws: detects a coverage of 94.2 %."""
    whole = np.kron([[1, correlation], [correlation, 1]], COVARIANCE)
    draws = rng.multivariate_normal([*one, *other], whole, N)
    shares = [Drawn(tuple(x.T)) for x in (draws[:, :2], draws[:, 2:])]
    p, r = one[0] / one[1], other[0] / other[1]
    for divided, true in ((False, p - r), (True, p / r if r else None)):
        if true is not None:
            low, high = ComparedRatios(*shares, Rows({}, {}), divided=divided).interval()
            inside = (low <= true + EXACT) & (true - EXACT <= high)
            assert stats.binom.cdf(inside.sum(), N, 0.95) > SIGNIFICANCE


# --- of releases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_both_ratios_are_in_their_intervals_at_once(privacy):
    p, r = share(made(privacy), "A"), share(made(privacy), "B")
    each = 0.95**0.5 if privacy == "gaussian" else 0.975
    (a, b), (c, d) = p.interval(each), r.interval(each)
    found, ratio = p - r, p / r
    assert isinstance(found, ComparedRatios)
    assert found.value == p.value - r.value
    assert found.interval() == pytest.approx((a - d, b - c))
    assert ratio.value == p.value / r.value
    assert ratio.interval() == pytest.approx((a / d, b / c))
    assert found.interval(0.5)[1] < found.interval()[1] < found.interval(0.99)[1]
    moved = (1000 * (1 - ratio) / 2).frame().iloc[0]
    assert list(moved) == pytest.approx([500 * (1 - x) for x in (ratio.value, *ratio.interval()[::-1])])
    assert (repr(found), repr(ratio)) == ("<1 difference of ratios>", "<1 ratio of ratios>")


def test_normal_noise_of_half_widths_is_that_of_two():
    assert z_score(level(0.95, 2, normal=True, simultaneous=True)) == pytest.approx(2.2365, abs=1e-4)


def test_whole_tables_are_compared():
    release = made()
    women, men = (release.count(by="state", sex=x) / release.count(sex=x) for x in ("f", "m"))
    found = women - men
    assert found.labels == {"state": ("A", "B", "C")}
    frame, wider = found.frame(), found.frame(simultaneous=True)
    assert list(frame.columns) == ["state", "value", "low", "high"]
    assert (wider["low"] < frame["low"]).all()
    assert (frame["low"] < frame["value"]).all()
    np.testing.assert_allclose(wider["high"], women.interval(0.95 ** (1 / 6))[1] - men.interval(0.95 ** (1 / 6))[0])
    assert len(found) == 3
    crossed = release.count(by="state", sex="f") / release.count(by="state") - release.count(sex="f") / release.count()
    assert crossed.frame()["state"].tolist() == ["A", "B", "C"]


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_parts_of_one_whole_are_one_ratio_again(privacy):
    release = made(privacy)
    women, men, both = release.count(state="A", sex="f"), release.count(state="A", sex="m"), release.count(state="A")
    found, same = women / both - men / both, (women - men) / both
    assert isinstance(found, Ratios)
    assert found.value == pytest.approx(float(same.value))
    assert found.interval() == pytest.approx(same.interval())
    assert (found._possible[0], found._possible[1]) == (-1, 1)
    box = [x.interval(0.97468) for x in (women / both, men / both)]
    assert found.interval()[1] - found.interval()[0] < sum(high - low for low, high in box)
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
        tuple(-x for x in (men / both).interval(0.95**0.5 if privacy == "gaussian" else 0.975)[::-1])
    )


def test_releases_with_different_kinds_of_noise_are_compared():
    p, r = share(made(), "A"), share(made("pure"), "A")
    (a, b), (c, d) = p.interval(0.975), r.interval(0.975)
    assert (p - r).interval() == pytest.approx((a - d, b - c))
    assert (p - r).universe == "what was computed of several counts"
    means = [made(x).mean("age", sex="f") for x in ("gaussian", "pure")]
    assert (means[0] - means[1]).universe == "records chosen by sex"


def test_what_cannot_be_compared_is_refused():
    p = share(made(), "A")
    found = p - share(made(), "B")
    for wrong in (lambda: p * p, lambda: p + p, lambda: found - p, lambda: p - found, lambda: found / found):
        with pytest.raises(TypeError):
            wrong()
    for words, wrong in [("not divided by 0", lambda: found / 0), ("finite", lambda: found * math.inf)]:
        with pytest.raises(ReleaseError, match=words):
            wrong()
