"""How often intervals hold, over real releases: shares, differences of shares, growth, means, quantiles, whole numbers.

    python benchmarks/coverage.py [--releases 10000]

Data are small and fixed; noise is drawn by the sampler that protects people, for every release anew. The first releases
are measured, charged and asked one by one; of the others the same intervals are computed together, by the same code,
and where both are there they are compared. Nominal is 95 % everywhere. A share of 0.05 is known to ± 0.0043 (two
standard errors of 10,000 releases).
"""

import argparse

import numpy as np

import fitnoise as fn
from fitnoise.kernel import noise
from fitnoise.kernel.counting import HistogramCounter, Tally
from fitnoise.kernel.measure import measure
from fitnoise.reading.estimates import Estimates, Ratios, Rows
from fitnoise.reading.quantiles import Quantiles, kept
from fitnoise.reading.release import Release
from fitnoise.reading.whole import possible

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--releases", type=int, default=10_000)
parser.add_argument("--privacy", choices=["zcdp", "pure"], action="append")

ALONE = 2
"""Releases that are made and asked one by one."""

FEW = 20
"""Pure releases of which both ends of ratios are found."""

SHARES = {"a": (650, 1600), "b": (30, 200), "c": (3, 40), "d": (0, 40), "e": (3, 12), "f": (0, 3), "g": (1, 1)}
AGED = {"many": 54_617, "some": 1_092, "few": 36}
DOMAIN = fn.Domain(
    area=fn.Categorical([*SHARES, "rest"]),
    kind=fn.Categorical(["yes", "no"]),
    group=fn.Categorical(list(AGED)),
    age=fn.Ordered(0, 85),
)


def people(seed):
    """A histogram with these shares and ages, otherwise any: margins are filled from the north-west corner."""
    draw = np.random.default_rng(seed)
    areas = np.array([(yes, of - yes) for yes, of in SHARES.values()] + [(0, 0)])
    ages = np.stack([draw.multinomial(n, np.linspace(2, 1, 86) / np.linspace(2, 1, 86).sum()) for n in AGED.values()])
    areas[-1] = (20_000, ages.sum() - areas.sum() - 20_000)
    ends = [np.cumsum(x.ravel()) for x in (areas, ages)]
    cuts = np.unique(np.concatenate([[0], *ends]))
    places = [np.searchsorted(e, cuts[:-1], side="right") for e in ends]
    counts = np.zeros((areas.size, ages.size), dtype=np.int64)
    np.add.at(counts, tuple(places), np.diff(cuts))
    return counts.reshape(DOMAIN.shape)


def asked(release, other):
    """By name what is asked of a release, and one of it and another."""
    share = release.count(kind="yes", by="area") / release.count(by="area")
    more = other.count(kind="yes", by="area") / release.count(kind="yes", by="area")
    out = {f"share {SHARES[a][0]}/{SHARES[a][1]}": share[a] for a in SHARES}
    out["difference of shares 650/1600, 30/200"] = share["a"] - share["b"]
    out["difference of shares 3/40, 3/12"] = share["c"] - share["e"]
    out["ratio of shares 650/1600, 30/200"] = share["a"] / share["b"]
    out["growth of 650"] = more["a"] - 1
    out["growth of 3"] = more["c"] - 1
    for g in AGED:
        out[f"mean age, {AGED[g]:,}"] = release.mean("age", group=g)
        for q in (0.1, 0.5, 0.9):
            out[f"age at {q}, {AGED[g]:,}"] = release.quantile("age", q, group=g)
    out["count 3"] = release.count(kind="yes", area="c")
    return out


def truths(counts, later):
    def value(own):
        by_area = own.sum(axis=(2, 3))
        return by_area[:, 0], by_area.sum(axis=1)

    (yes, n), (then, _) = value(counts), value(later)
    with np.errstate(all="ignore"):
        share = yes / n
    out = [*share[:-1], share[0] - share[1], share[2] - share[4], share[0] / share[1]]
    out += [then[0] / yes[0] - 1, then[2] / yes[2] - 1]
    for own in counts.sum(axis=(0, 1)):
        out.append(own @ np.arange(86) / own.sum())
        out += [int(np.argmax(np.cumsum(own) >= q * own.sum())) for q in (0.1, 0.5, 0.9)]
    return [*out, yes[2]]


def repeated(found, values, n):
    """What was asked of one release as asked of n, whose forms have these values; and its interval."""
    rows = Rows({"release": tuple(range(n))}, {"release": "release"})
    if isinstance(found, Quantiles):
        widths = found._law.half_widths(np.ones((86, 1)), 0.95)
        return kept(values(found._tested), np.broadcast_to(widths, (n, 86)))
    if isinstance(found, Estimates):
        moe = found.moe(0.95)
        value = values(found._forms)[:, 0]
        return value - moe, value + moe
    own = [found] if isinstance(found, Ratios) else [found._one, found._other]
    many = []
    for ratio in own:
        taken = ratio._taken(rows, np.zeros(n, dtype=np.intp))
        taken.__dict__["_values"] = tuple(values(f)[:, 0] for f in ratio._parts)
        many.append(taken)
    if not isinstance(found, Ratios):
        found = type(found)(*many, rows, divided=found._divided, line=(found._factor, found._shift))
    else:
        (found,) = many
    return found.interval(0.95)


def accepted(found, values, exactly, confidence=0.95):
    """Whether a ratio's interval has the true one in it, by the test that it is made of: of pure releases ends take
    long to find, and which values lie between them does not. Of two ratios whether both have: then theirs has, too.
    """
    if not isinstance(found, Ratios):
        return np.all([accepted(x, values, exactly, 0.975) for x in (found._one, found._other)], axis=0)
    a, b = (values(f)[:, 0] for f in found._parts)
    top, bottom = (exactly(f)[0, 0] for f in found._parts)
    moe = found._law.half_widths(np.array([[1.0, -top / bottom]]), confidence)
    return np.abs(a - top / bottom * b) <= moe * (1 + 2 * found._law.slack)


def by_test(name, found, values, exactly):
    """How often a ratio or two of pure releases are accepted, and the median width of some intervals."""
    inside = accepted(found, values, exactly)
    low, high = repeated(found, lambda form: values(form)[:FEW], FEW)
    if isinstance(found, Ratios):
        (top, bottom), least = (exactly(f)[0, 0] for f in found._parts), ""
        true = found._factor * top / bottom + found._shift
    else:
        (a, b, c, d), least = (exactly(f)[0, 0] for x in (found._one, found._other) for f in x._parts), "≥ "
        true = (a / b) / (c / d) if found._divided else a / b - c / d
    held = (low <= true + 1e-9) & (true - 1e-9 <= high)
    if (inside[:FEW] & ~held).any():
        raise SystemExit(f"{name}: its test accepts what is not in the interval")
    if isinstance(found, Ratios) and (held & ~inside[:FEW]).any():
        print(name, true, low[held & ~inside[:FEW]], high[held & ~inside[:FEW]])
    return f"{least}{inside.mean():.4f} | {np.median(high - low):.4g}"


def run(privacy, tables, releases):
    """Print how often each interval holds."""
    plan = fn.plan(fn.Workload(DOMAIN, tables), privacy=privacy)
    data = people(1), people(2)
    with fn.Ledger(":memory:") as ledger:
        counters = [HistogramCounter(x, DOMAIN) for x in data]
        real = [[Release(plan, measure(plan.order, c, ledger).answers[0]) for c in counters] for _ in range(ALONE)]
    answers, silent = [], []
    for i, counts in enumerate(data):
        exact = plan.strategy.exact(tally(plan, counts), plan.order.adjacency, int(counts.sum()))
        silent.append(np.concatenate(exact).astype(np.float64)[None])
        drawn = (plan.strategy.draw(tuple(y.copy() for y in exact), noise) for _ in range(releases - ALONE))
        made = [*(pair[i].answers for pair in real), *drawn]
        answers.append(np.stack([np.concatenate(y).astype(np.float64) for y in made]))
    digests = [release._sources[0].digest for release in real[0]]
    units = {}

    def exactly(form):
        return values(form, silent)

    def values(form, answers=answers):
        out = np.zeros((len(answers[0]), form.length))
        for (source, table), x in form.pieces.items():
            if table not in units:
                units[table] = linear(plan, table)
            out += answers[digests.index(source.digest)] @ (x @ units[table]).T
        return out

    print(f"\n{privacy}, {releases:,} releases: ρ = {plan.rho:.4g}\n")
    print("| statistic | truth | coverage | median width |\n|---|---|---|---|")
    singles = [asked(*r) for r in real]
    for (name, found), true in zip(singles[0].items(), truths(*data), strict=True):
        if privacy == "pure" and not isinstance(found, (Estimates, Quantiles)):
            print(f"| {name} | {true:.4g} | {by_test(name, found, values, exactly)} |", flush=True)
            continue
        low, high = repeated(found, values, releases)
        for i in range(ALONE):
            alone = singles[i][name].interval(0.95)
            if not np.allclose([low[i], high[i]], np.ravel(alone), rtol=1e-6, atol=1e-6):
                raise SystemExit(f"{name}: {alone} alone, {(low[i], high[i])} together")
        inside = ((low - 1e-9 <= true) & (true <= high + 1e-9)).mean()
        print(f"| {name} | {true:.4g} | {inside:.4f} | {np.median(high - low):.4g} |", flush=True)
        if isinstance(found, Estimates):
            value = (low + high) / 2
            cut = possible(value, (high - low) / 2, np.maximum(np.rint(value), 0).astype(np.int64))
            inside = ((cut[0] <= true) & (true <= cut[1])).mean()
            print(f"| the same, whole | {true:.4g} | {inside:.4f} | {np.median(cut[1] - cut[0]):.4g} |", flush=True)


def tally(plan, counts):
    """Counts as a design asks for them."""
    names = list(DOMAIN)
    margins = {}
    for m in plan.strategy.margins():
        own = [a for a in names if a in m]
        summed = counts.sum(axis=tuple(i for i, a in enumerate(names) if a not in m))
        margins[m] = summed.transpose([own.index(a) for a in m])
    return Tally(margins, None)


def linear(plan, table):
    """A table's numbers, with sums, as linear functions of the answers, (numbers, answers)."""
    lengths = plan.estimation.lengths
    columns = []
    for unit in np.eye(sum(lengths), dtype=np.int64):
        release = Release(plan, np.split(unit, np.cumsum(lengths)[:-1]))
        columns.append(release._sources[0].values(table))
    return np.stack(columns, axis=1)


if __name__ == "__main__":
    given = parser.parse_args()
    shown = [fn.table("area", "kind", margin=15), fn.table("group", prefix="age", margin=30)]
    for privacy in given.privacy or ("zcdp", "pure"):
        run(privacy, shown, given.releases)
