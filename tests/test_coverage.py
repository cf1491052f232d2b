"""Every interval we print, over many releases with the real sampler."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fitnoise as fn
import reference as ref
import zoo
from dense import rebuilt_releases
from fitnoise import data
from fitnoise.kernel import noise
from fitnoise.mechanisms import rebuilding as reconstruct
from fitnoise.request.documents import load_spec
from fitnoise.request.targets import z_score
from laws.releases import released
from tolerances import SIGNIFICANCE, as_often_as


def errors(plan, count):
    """Errors of `count` releases of empty data, per table, shape (count, …): estimates are linear in the counts."""
    draws = [
        noise.discrete_gaussians(np.tile(g.scales, count), np.tile(g.answers, count)).reshape(count, -1)
        for g in plan.table_part.strategy.groups
    ]
    return rebuilt_releases(plan, draws)


@pytest.mark.slow
def test_the_demo_s_margins_hold_95_percent_of_the_time():
    """1,000 releases of the demo. Detects a margin off by a few percent (coverage off by half a percent)."""
    plan = fn.plan(load_spec(data.path(data.DEMO)))
    for name, e in errors(plan, 1000).items():
        moe = z_score(0.95) * np.sqrt(plan.group(name).table_variances(name))
        inside = np.abs(e) <= moe
        coverage = inside.mean()
        # the variance of the mean coverage over releases, measured, gives the right allowance for correlation
        allowance = -stats.norm.ppf(SIGNIFICANCE / 2) * inside.reshape(1000, -1).mean(axis=1).std() / np.sqrt(1000)
        assert abs(coverage - 0.95) <= allowance, (name, coverage, allowance)
        assert allowance < 0.02
        variance = (e**2).mean(axis=0) / plan.group(name).table_variances(name)
        low, high = stats.chi2.ppf([SIGNIFICANCE / variance.size, 1 - SIGNIFICANCE / variance.size], 1000) / 1000
        assert low < variance.min() <= variance.max() < high
        bias = e.mean(axis=0) / np.sqrt(plan.group(name).table_variances(name) / 1000)
        assert np.abs(bias).max() < -stats.norm.ppf(SIGNIFICANCE / bias.size)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crossed", "five structured cells", "binary", "wide targets"])
def test_margins_variances_and_biases_of_the_zoo(name):
    """4,000 releases: detects a variance off by a sixth in any number, a bias of a twelfth of a standard error."""
    plan = fn.plan(zoo.WORKLOADS[name]())
    count = 4000
    for table, e in errors(plan, count).items():
        stated = plan.group(table).table_variances(table)
        ratio = (e**2).mean(axis=0) / stated
        low, high = stats.chi2.ppf([SIGNIFICANCE / ratio.size, 1 - SIGNIFICANCE / ratio.size], count) / count
        assert low < ratio.min() <= ratio.max() < high
        assert np.abs(e.mean(axis=0) / np.sqrt(stated / count)).max() < -stats.norm.ppf(SIGNIFICANCE / ratio.size)
        for gamma in (0.5, 0.95, 0.999):
            assert as_often_as(np.abs(e) <= z_score(gamma) * np.sqrt(stated), gamma)


@pytest.mark.slow
@pytest.mark.parametrize("margin", [0.999, 7.99])
def test_a_number_that_stands_on_a_single_draw_keeps_its_margin(margin):
    """60,000 draws: detects the 93.5 % of a lattice only four times finer than the margin's scale."""
    plan = fn.plan(fn.Workload(fn.Domain(a=fn.Ordered(0, 1)), [fn.table(margin=margin)]))
    (sector,) = plan.table_part.strategy.sectors
    coverage = (np.abs(noise.discrete_gaussian(sector.scale, 60_000)) <= margin * float(sector.mixing[0, 0])).mean()
    assert abs(coverage - 0.95) <= -stats.norm.ppf(SIGNIFICANCE / 2) * np.sqrt(0.95 * 0.05 / 60_000) < 0.005


@pytest.mark.slow
def test_max_deviation_bounds_complete_tables():
    """At least the promised share of releases has *every* number of the table within the bound."""
    domain = fn.Domain(a=fn.Ordered(0, 9), b=fn.Ordered(0, 4))
    plan = fn.plan(
        fn.Workload(domain, [fn.table("a", "b", max_deviation=12), fn.table(cumulative="a", max_deviation=20)])
    )
    for (name, e), bound in zip(errors(plan, 3000).items(), (12, 20), strict=True):
        held = int((np.abs(e).reshape(3000, -1).max(axis=1) <= bound).sum())
        assert stats.binom.cdf(held, 3000, 0.95) > SIGNIFICANCE, name


@pytest.mark.slow
def test_the_margin_of_any_sum_holds():
    """Estimates across tables: their exact covariance against 2,000 releases."""
    plan = fn.plan(zoo.crossed())
    rng = np.random.default_rng(1)
    shapes = {t.name: t.shape(plan.publication.workload.domain) for t in plan.publication.workload.tables}
    combos = [{n: rng.normal(size=s) for n, s in shapes.items()} for _ in range(5)]
    e = errors(plan, 2000)
    for f in combos:
        values = sum((e[n] * c).reshape(2000, -1).sum(axis=1) for n, c in f.items())
        ratio = (values**2).mean() / reconstruct.covariance(plan.table_part, f, f)
        low, high = stats.chi2.ppf([SIGNIFICANCE, 1 - SIGNIFICANCE], 2000) / 2000
        assert low < ratio < high


def test_a_wrong_margin_would_be_seen():
    """The coverage check rejects margins 5 % too narrow: it is able to fail."""
    rng = np.random.default_rng(0)
    inside = np.abs(rng.normal(size=(1000, 400))) <= 0.95 * z_score(0.95)
    allowance = -stats.norm.ppf(SIGNIFICANCE / 2) * inside.mean(axis=1).std() / np.sqrt(1000)
    assert abs(inside.mean() - 0.95) > allowance
    assert not as_often_as(inside.reshape(-1, 1), 0.95)


def test_few_misses_are_counted_exactly():
    """At 99.9 %, 4,000 trials have 15 misses once in 50,000 times; a normal approximation would refuse these."""
    inside = np.arange(4000)[:, None] >= np.array([0, 4, 15, 40])
    assert [as_often_as(inside[:, [i]], 0.999) for i in range(4)] == [True, True, True, False]


def test_the_demo_counts_its_real_records():
    """One release of the real data: every number within six standard errors of the truth."""
    plan = fn.plan(load_spec(data.path(data.DEMO)))
    release = released(plan, data.path(data.CPS))
    people = pd.read_csv(data.path(data.CPS))
    states = pd.read_csv(data.path(data.STATES)).set_index("code")["label"]
    truth = people.groupby([people["fips"].map(states), "wages"]).size()
    frame = release["state by wages"]
    labels = list(plan.publication.workload.domain["wages"].values)
    true = [truth.get((s, labels.index(w)), 0) for s, w in zip(frame["state"], frame["wages"], strict=True)]
    assert (np.abs(frame["value"] - true) <= 6 * frame["std_error"]).all()
    assert sum(true) == 103_589
    assert plan.rho == pytest.approx(fn.plan(ref.cps()).rho, rel=1e-6)
