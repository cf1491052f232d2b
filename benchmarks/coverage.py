"""Coverage of intervals over real releases.

The numbers are shares, differences of shares and of counts, growth, means, quantiles and integers. Others are sums,
weighted sums, means and rates of amounts. The releases are Gaussian, pure, and two combined into one estimate.

    python benchmarks/coverage.py [--releases 10000] [--of counts amounts] [--privacy zcdp]

Data are small and fixed. The sampler of real releases draws new noise for every release. The first releases are
measured, charged and evaluated one by one. The same code computes the same intervals of the others together, and the
benchmark compares the two where both exist. Nominal is 95 % everywhere. A share of 0.05 is known to ± 0.0043 (two
standard errors of 10,000 releases).
"""

import argparse

import numpy as np
import pandas as pd

import fitnoise as fn
from fitnoise.engines import open_counter
from fitnoise.engines.histogram import HistogramCounter
from fitnoise.kernel import noise
from fitnoise.kernel.counting import Tally
from fitnoise.kernel.measure import measure
from fitnoise.reading.estimates import Estimates
from fitnoise.reading.integer_tables import possible
from fitnoise.reading.labelled_numbers import RowLabels
from fitnoise.reading.laws import level
from fitnoise.reading.quantiles import Quantiles, confidence_set
from fitnoise.reading.ratios import Ratios
from fitnoise.reading.release import Release

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--releases", type=int, default=10_000)
parser.add_argument("--privacy", choices=["zcdp", "pure"], action="append")
parser.add_argument("--of", choices=["counts", "amounts"], nargs="+", default=["counts", "amounts"])
parser.add_argument("--only", default="", help="what begins so; two Gaussian ratios take minutes")

SEPARATE_RELEASES = 2
"""Number of releases that are made and evaluated one by one."""

FEW = 20
"""Pure releases of which both ends of ratios are found."""

SHARES = {
    name: tuple(map(int, name.split()[0].split("/")))
    for name in (
        *("650/1600", "30/200", "3/40", "0/40", "3/12", "0/3", "1/1", "300/900", "60/200", "20/100", "10/40", "30/60"),
        *("3/20", "3/20 elsewhere", "5/60", "0/20"),
    )
}
COMPARED = [
    ("650/1600", "30/200"),
    ("3/40", "3/12"),
    ("650/1600", "300/900"),
    ("60/200", "20/100"),
    ("10/40", "30/60"),
    ("3/20", "3/20 elsewhere"),
]
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
    areas = np.array([(yes, total - yes) for yes, total in SHARES.values()] + [(0, 0)])
    ages = np.stack([draw.multinomial(n, np.linspace(2, 1, 86) / np.linspace(2, 1, 86).sum()) for n in AGED.values()])
    areas[-1] = (20_000, ages.sum() - areas.sum() - 20_000)
    ends = [np.cumsum(x.ravel()) for x in (areas, ages)]
    cuts = np.unique(np.concatenate([[0], *ends]))
    places = [np.searchsorted(e, cuts[:-1], side="right") for e in ends]
    counts = np.zeros((areas.size, ages.size), dtype=np.int64)
    np.add.at(counts, tuple(places), np.diff(cuts))
    return counts.reshape(DOMAIN.shape)


def numbers_of_releases(release, other):
    """Return by name the numbers from a release, and one from this and another release."""
    shares = release.count(kind="yes", by="area") / release.count(by="area")
    growth = other.count(kind="yes", by="area") / release.count(kind="yes", by="area")
    out = {f"share {a}": shares[a] for a in SHARES}
    out |= {f"difference of shares {a}, {b}": shares[a] - shares[b] for a, b in COMPARED}
    out["ratio of shares 650/1600, 30/200"] = shares["650/1600"] / shares["30/200"]
    out["share 650/1600 times 60/200"] = shares["650/1600"] * shares["60/200"]
    out["index of 650/1600 by 30/200, 60/200 by 20/100"] = (
        shares["650/1600"] / shares["30/200"] + shares["60/200"] / shares["20/100"]
    ) / 2
    out["growth of 650"] = growth["650/1600"] - 1
    out["growth of 3"] = growth["3/40"] - 1
    for g in AGED:
        out[f"mean age, {AGED[g]:,}"] = release.mean("age", group=g)
        for q in (0.1, 0.5, 0.9):
            out[f"age at {q}, {AGED[g]:,}"] = release.quantile("age", q, group=g)
    out["count 3"] = release.count(kind="yes", area="3/40")
    yes = release.count(kind="yes", by="area")
    out["difference of counts 650, 30"] = yes["650/1600"] - yes["30/200"]
    out["change of 650"] = other.count(kind="yes", area="650/1600") - yes["650/1600"]
    return out


def truths(counts, later):
    """Return the true values of the numbers, in their order."""
    shares = {a: yes / total for a, (yes, total) in SHARES.items()}
    yes, then = (
        dict(zip(DOMAIN["area"].values, x.sum(axis=(2, 3))[:, 0].tolist(), strict=True)) for x in (counts, later)
    )
    out = [*shares.values(), *(shares[a] - shares[b] for a, b in COMPARED), shares["650/1600"] / shares["30/200"]]
    out.append(shares["650/1600"] * shares["60/200"])
    out.append((shares["650/1600"] / shares["30/200"] + shares["60/200"] / shares["20/100"]) / 2)
    out += [then[a] / yes[a] - 1 for a in ("650/1600", "3/40")]
    for age_counts in counts.sum(axis=(0, 1)):
        out.append(age_counts @ np.arange(86) / age_counts.sum())
        out += [int(np.argmax(np.cumsum(age_counts) >= q * age_counts.sum())) for q in (0.1, 0.5, 0.9)]
    return [*out, yes["3/40"], yes["650/1600"] - yes["30/200"], then["650/1600"] - yes["650/1600"]]


# --- two releases of the same records ---------------------------------------------------------------------


def numbers_of_combination(release, other):
    """Return by name the numbers from the combination of two releases of the same records."""
    both = fn.combine(release, other, same_records=True)
    shares = both.count(kind="yes", by="area") / both.count(by="area")
    return {
        "count 3": both.count(kind="yes", area="3/40"),
        **{f"share {a}": shares[a] for a in ("650/1600", "3/40", "0/3")},
        "difference of shares 650/1600, 30/200": shares["650/1600"] - shares["30/200"],
    }


def truths_of_both(counts, _):
    """Return the true values of the numbers, in their order."""
    shares = {a: yes / total for a, (yes, total) in SHARES.items()}
    return [3, shares["650/1600"], shares["3/40"], shares["0/3"], shares["650/1600"] - shares["30/200"]]


# --- amounts --------------------------------------------------------------------------------------------

EMPLOYEES = {"many": 4_000, "some": 400, "few": 40}
PAY, HOURS = fn.Amount(0, 200_000, step=100), fn.Amount(0, 60, step=0.5)
AMOUNTS = fn.Domain(group=fn.Categorical(list(EMPLOYEES)), pay=PAY, hours=HOURS)


def amount_records(seed):
    """Return records with incomes, some beyond the range, and hours that correlate with them."""
    draw = np.random.default_rng(seed)
    group = np.repeat(list(EMPLOYEES), list(EMPLOYEES.values()))
    pay = draw.lognormal(10.3, 1, len(group)).round(2)
    return pd.DataFrame(
        {"group": group, "pay": pay, "hours": np.clip(pay / 2_000 + draw.normal(0, 8, len(group)), 0, 90)}
    )


def numbers_of_amounts(release, other):
    """Return by name the numbers from a release, and one from this and another release."""
    out = {}
    for g, n in EMPLOYEES.items():
        out[f"sum of pay, {n:,}"] = release.total("pay", group=g)
        out[f"mean pay, {n:,}"] = release.mean("pay", group=g)
        out[f"pay per hour, {n:,}"] = release.total("pay", group=g) / release.total("hours", group=g)
        out[f"growth of pay, {n:,}"] = other.total("pay", group=g) / release.total("pay", group=g) - 1
        out[f"sum of hours times pay, {n:,}"] = release.total(["hours", "pay"], group=g)
    return out


def truths_of_amounts(people, later):
    """Return the true values of the numbers in their order, for amounts as they are coded."""

    def coded(frame, name, amount):
        return np.floor(frame[name].clip(amount.low, amount.high) / amount.step + 0.5) * amount.step

    out = []
    for g in EMPLOYEES:
        (pay, hours), (then, _) = (
            [coded(x[x["group"] == g], name, amount) for name, amount in (("pay", PAY), ("hours", HOURS))]
            for x in (people, later)
        )
        out += [pay.sum(), pay.mean(), pay.sum() / hours.sum(), then.sum() / pay.sum() - 1, hours @ pay]
    return out


# --- intervals of many releases -------------------------------------------------------------------------


def repeated(number, values, n, confidence=0.95):
    """Return a number of one release for n releases, whose forms have these values, and its interval."""
    rows = RowLabels({"release": tuple(range(n))}, {"release": "release"})
    if isinstance(number, Quantiles):
        widths = number._law.half_widths(np.ones((86, 1)), confidence)
        return confidence_set(values(number._tested), np.broadcast_to(widths, (n, 86)))
    if isinstance(number, Estimates):
        moe = number.moe(confidence)
        value = values(number._forms)[:, 0]
        return value - moe, value + moe
    many = number._taken(rows, np.zeros(n, dtype=np.intp))
    for one, ratio in zip(many._leaves, number._leaves, strict=True):
        one.__dict__["_values"] = tuple(values(f)[:, 0] for f in ratio._parts)
    return many.interval(confidence)


def accepted(ratio, values, exactly, confidence=0.95):
    """Return True for each release whose interval of a ratio contains the true ratio, by the test behind the interval.

    The ends of intervals of pure releases take long to find, and the test of one value does not. Several ratios are
    accepted if each of them is.
    """
    if not isinstance(ratio, Ratios):
        leaf_level = level(confidence, len(ratio._leaves), normal=False, simultaneous=True)
        return np.all([accepted(x, values, exactly, leaf_level) for x in ratio._leaves], axis=0)
    a, b = (values(f)[:, 0] for f in ratio._parts)
    top, bottom = (exactly(f)[0, 0] for f in ratio._parts)
    moe = ratio._law.half_widths(np.array([[1.0, -top / bottom]]), confidence)
    return np.abs(a - top / bottom * b) <= moe * (1 + 2 * ratio._law.slack)


def by_test(name, number, true, values, exactly):
    """Return the share of accepted ratios of pure releases, and the median width of some intervals."""
    inside = accepted(number, values, exactly)
    low, high = repeated(number, lambda form: values(form)[:FEW], FEW)
    bound_mark = "" if isinstance(number, Ratios) else "≥ "
    held = (low <= true + 1e-9) & (true - 1e-9 <= high)
    if (inside[:FEW] & ~held).any():
        raise SystemExit(f"{name}: its test accepts what is not in the interval")
    return f"{bound_mark}{inside.mean():.4f} | {np.median(high - low):.4g}"


class DrawnReleases:
    """Many releases of two plans, of which the first are real: their answers, and those without noise."""

    def __init__(self, plans, real, data, counters, releases):
        self.plans, self.answers, self.silent = plans, [], []
        for i, (plan, counter, x) in enumerate(zip(plans, counters, data, strict=True)):
            records = len(x) if isinstance(x, pd.DataFrame) else int(x.sum())
            tally = Tally(counter.count(list(plan.table_part.strategy.margins())), None)
            exact = plan.table_part.strategy.exact_answers(tally, plan.order.adjacency, records)
            self.silent.append(np.concatenate(exact).astype(np.float64)[None])
            draws = (
                plan.table_part.strategy.draw(tuple(y.copy() for y in exact), noise)
                for _ in range(releases - SEPARATE_RELEASES)
            )
            all_answers = [*(pair[i].answers for pair in real), *draws]
            self.answers.append(np.stack([np.concatenate(y).astype(np.float64) for y in all_answers]))
        self.digests = [release._sources[0].digest for release in real[0]]
        self.units = {}

    def exactly(self, form):
        """Values without noise, (1, rows)."""
        return self.values(form, self.silent)

    def values(self, form, answers=None):
        """Values of the rows of forms of one real pair, in all of them: (releases, rows)."""
        answers = self.answers if answers is None else answers
        out = np.zeros((len(answers[0]), form.length))
        if any(source.digest not in self.digests for source in form.sources):  # of a combination
            for row in range(form.length):
                for source, tensors in form.tensors(row).items():
                    for part_form in (source.form(name, x) for name, x in tensors.items()):
                        out[:, [row]] += self.values(part_form, answers)
            return out
        for (source, table), x in form.pieces.items():
            i = self.digests.index(source.digest)
            if (i, table) not in self.units:
                self.units[i, table] = linear(self.plans[i], table)
            out += answers[i] @ (x @ self.units[i, table]).T
        return out


def run(privacy, releases, name_start, plans, data, counters, get_numbers, truths):
    """Print how often each interval holds, of releases of two plans."""
    two = list(zip(plans, counters, strict=True))
    with fn.Ledger(":memory:") as ledger:
        real = [[Release(p, measure(p.order, c, ledger).answers[0]) for p, c in two] for _ in range(SEPARATE_RELEASES)]
    simulated = DrawnReleases(plans, real, data, counters, releases)
    values, exactly = simulated.values, simulated.exactly
    singles = [get_numbers(*r) for r in real]
    requested = [
        (*x, true) for x, true in zip(singles[0].items(), truths(*data), strict=True) if x[0].startswith(name_start)
    ]
    if not requested:
        return
    print(f"\n{privacy}, {releases:,} releases: ρ = {' and '.join(f'{p.rho:.4g}' for p in dict.fromkeys(plans))}\n")
    normal = all(p.groups[0].intervals.normal for p in plans)
    print("| statistic | truth | coverage | median width |\n|---|---|---|---|")
    for name, number, true in requested:
        if not normal and not isinstance(number, (Estimates, Quantiles)):
            print(f"| {name} | {true:.4g} | {by_test(name, number, true, values, exactly)} |", flush=True)
            continue
        low, high = repeated(number, values, releases)
        for i in range(SEPARATE_RELEASES):
            single_interval = singles[i][name].interval(0.95)
            if not np.allclose([low[i], high[i]], np.ravel(single_interval), rtol=1e-6, atol=1e-6):
                raise SystemExit(f"{name}: {single_interval} alone, {(low[i], high[i])} together")
        inside = ((low - 1e-9 <= true) & (true <= high + 1e-9)).mean()
        print(f"| {name} | {true:.4g} | {inside:.4f} | {np.median(high - low):.4g} |", flush=True)
        if isinstance(number, Estimates) and name.startswith("count"):
            value = (low + high) / 2
            cut = possible(value, (high - low) / 2, np.maximum(np.rint(value), 0).astype(np.int64), is_integer=True)
            inside = ((cut[0] <= true) & (true <= cut[1])).mean()
            print(f"| the same, integers | {true:.4g} | {inside:.4f} | {np.median(cut[1] - cut[0]):.4g} |", flush=True)
    joint_quantiles([x for x in requested if isinstance(x[1], Quantiles) and " 0.5," in x[0]], real, values, releases)
    joint_shares(
        [number for name, number, _ in requested if isinstance(number, Ratios) and name.startswith("share")],
        values,
        exactly,
        releases,
    )


def joint_shares(shares, values, exactly, releases):
    """Print how often the intervals of all shares hold at once."""
    if not shares:
        return
    joint_level = level(0.95, len(shares), normal=shares[0]._law.normal, simultaneous=True)
    if shares[0]._law.normal:
        truths = [exactly(x._parts[0])[0, 0] / exactly(x._parts[1])[0, 0] for x in shares]
        ends = [repeated(x, values, releases, joint_level) for x in shares]
        held = [(low - 1e-9 <= true) & (true <= high + 1e-9) for (low, high), true in zip(ends, truths, strict=True)]
    else:
        held = [accepted(x, values, exactly, joint_level) for x in shares]
    print(f"| all {len(shares)} shares at once | | {np.all(held, axis=0).mean():.4f} | |", flush=True)


def joint_quantiles(medians, real, values, releases):
    """Print how often the intervals of all medians hold at once."""
    if not medians:
        return
    joint_level = level(0.95, len(medians), normal=False, simultaneous=True)
    ends = [repeated(median, values, releases, joint_level) for _, median, _ in medians]
    for i in range(SEPARATE_RELEASES):
        single_interval = real[i][0].quantile("age", 0.5, by="group").interval(0.95, simultaneous=True)
        if not np.array_equal(np.transpose([(low[i], high[i]) for low, high in ends]), single_interval):
            raise SystemExit(f"all medians at once: {single_interval} alone, others together")
    held = [(low <= true) & (true <= high) for (low, high), (*_, true) in zip(ends, medians, strict=True)]
    print(f"| all {len(medians)} medians at once | | {np.all(held, axis=0).mean():.4f} | |", flush=True)


def linear(plan, table):
    """A table's numbers, with sums, as linear functions of the answers, (numbers, answers)."""
    lengths = plan.table_part.estimation.lengths
    columns = []
    for unit in np.eye(sum(lengths), dtype=np.int64):
        release = Release(plan, np.split(unit, np.cumsum(lengths)[:-1]))
        columns.append(release._sources[0].values(table))
    return np.stack(columns, axis=1)


def main(arguments):
    """Run the requested parts, for each kind of noise."""
    if "counts" in arguments.of:
        tables = [fn.table("area", "kind", margin=15), fn.table("group", cumulative="age", margin=30)]
        data = people(1), people(2)
        counters = [HistogramCounter(x, DOMAIN.axes) for x in data]
        kinds = arguments.privacy or ("zcdp", "pure")
        plans = {kind: fn.plan(fn.Workload(DOMAIN, tables), privacy=kind) for kind in kinds}
        for kind, plan in plans.items():
            run(
                kind,
                arguments.releases,
                arguments.table_part,
                [plan, plan],
                data,
                counters,
                numbers_of_releases,
                truths,
            )
        if len(plans) > 1:
            mixed = tuple(x for x in ("growth", "change") if x.startswith(arguments.table_part))
            run(
                "zcdp and pure",
                arguments.releases,
                mixed,
                [*plans.values()],
                data,
                counters,
                numbers_of_releases,
                truths,
            )
        if "zcdp" in plans:
            second_plan = fn.plan(
                fn.Workload(DOMAIN, [fn.table("area", "kind", margin=25), fn.table("area", margin=10)])
            )
            repeated_data = [data[0]] * 2, [counters[0]] * 2
            run(
                "combined",
                arguments.releases,
                arguments.table_part,
                [plans["zcdp"], second_plan],
                *repeated_data,
                numbers_of_combination,
                truths_of_both,
            )
    if "amounts" in arguments.of:
        tables = [
            fn.table("group", margin=15),
            fn.table("group", sum="pay", margin=15 * PAY.high),
            fn.table("group", sum="hours", margin=15 * HOURS.high),
            fn.table("group", sum=["hours", "pay"], margin=15 * HOURS.high * PAY.high),
        ]
        data = amount_records(1), amount_records(2)
        counters = [open_counter(x, AMOUNTS.axes, fn.DataSource(), None) for x in data]
        for kind in arguments.privacy or ("zcdp", "pure"):
            plans = [fn.plan(fn.Workload(AMOUNTS, tables), privacy=kind)] * 2
            numbers_and_truths = numbers_of_amounts, truths_of_amounts
            run(
                f"{kind}, amounts", arguments.releases, arguments.table_part, plans, data, counters, *numbers_and_truths
            )


if __name__ == "__main__":
    main(parser.parse_args())
