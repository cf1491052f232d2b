"""Any size of domain: patterns of tables, sectors by the hundred thousand, and the same laws as for the smallest."""

import math
import subprocess
import sys
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fitnoise as fn
import zoo
from dense import sectors_of
from fitnoise.engines import open_counter
from fitnoise.kernel import measure as measuring
from fitnoise.kernel import noise
from fitnoise.kernel.designs import linear
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.mechanisms import rebuilding as reconstruct
from fitnoise.mechanisms.gaussian import formulation
from fitnoise.mechanisms.gaussian.equitable_partitions import EquitablePartition
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.solving import lexicographic, sectors, solver
from fitnoise.solving.certificates import ObjectiveTerms
from fitnoise.solving.sectors import decompose
from laws.plans import check_mechanism, check_plan
from refused import refused
from replayed_noise import Replay
from tolerances import SIGNIFICANCE

GAP = 1e-6


def cube(attributes, size, orders, **target):
    """Return all tables of n attributes of one size, up to an order."""
    domain = fn.Domain({f"a{i}": fn.Ordered(0, size - 1) for i in range(attributes)})
    return fn.Workload(domain, [fn.all_tables(k, list(domain), **target) for k in orders])


def written_out(workload):
    """Return these tables one by one."""
    return fn.Workload(workload.domain, list(workload.tables), workload.confidence)


# --- known optima ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variances", "optimum"), [([1] * 8, 3.41822980), (None, 1.72269526)], ids=["uniform", "one to six"]
)
def test_marginals_of_3_by_4_by_5(variances, optimum):
    """All marginals except the total and the full table, to variance 1 … 6 in turn; with unit targets all of them."""
    domain = fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 3), c=fn.Ordered(0, 4))
    names = list(domain)
    if variances is None:
        parts = [fn.all_tables(1, names, variance=[1, 2, 3]), fn.all_tables(2, names, variance=[4, 5, 6])]
    else:
        parts = [fn.all_tables(1, names, variance=1), fn.all_tables(2, names, variance=1)]
    plan = fn.plan(fn.Workload(domain, parts), gap=GAP)
    assert plan.bound <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= float(plan.table_part.exact_cost) <= optimum * (1 + GAP)


def test_the_cube_of_16():
    plan = fn.plan(cube(3, 16, (1, 2), variance=1), gap=GAP)
    assert plan.bound <= 5.17893474 * (1 + 1e-8)
    assert 5.17893474 * (1 - 1e-8) <= float(plan.table_part.exact_cost) <= 5.17893474 * (1 + GAP)


# --- patterns are their tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["patterns", "uneven patterns", "patterns and structure"])
def test_a_pattern_plans_as_its_tables_written_out(name):
    joint, single = (fn.plan(w, gap=1e-8) for w in (zoo.WORKLOADS[name](), written_out(zoo.WORKLOADS[name]())))
    assert joint.bound == pytest.approx(single.bound, rel=3e-8)
    assert joint.table_part.decomposition.variances.tolist() == single.table_part.decomposition.variances.tolist()
    assert [t.name for t in joint.table_part.tables] == [t.name for t in single.table_part.tables]
    workload = joint.publication.workload
    for table in workload.tables:
        variances = joint.table_part.table_variances(table.name)
        np.testing.assert_allclose(variances, single.table_part.table_variances(table.name), rtol=1e-3)
        assert (variances <= table.variances(workload.domain, workload.confidence)).all()


@st.composite
def families(draw):
    """Draw small domains and random patterns over them, some with a prefix or a target by value."""
    names = list("pqrs")[: draw(st.integers(2, 4))]
    domain = fn.Domain({a: fn.Ordered(0, draw(st.integers(0, 2))) for a in names})
    parts = []
    for i in range(draw(st.integers(1, 3))):
        axis = draw(st.sampled_from([None, *names]))
        among = draw(st.permutations([a for a in names if a != axis]))
        order = draw(st.integers(1, len(among)))
        count = math.comb(len(among), order)
        targets = draw(st.sampled_from(["one", "each", "size", "by"]))
        variance = {
            "one": 2.0,
            "each": draw(st.lists(st.floats(0.5, 9), min_size=count, max_size=count)),
            "size": fn.ByTableSize(1.5, 0.7, least=2),
            "by": 3.0 if axis is None else fn.ByAttribute(axis, [1.0 + j for j in range(domain[axis].size)]),
        }[targets]
        view = {"cumulative": axis} if axis is not None and draw(st.booleans()) else {}
        attributes = [] if axis is None or view else [axis]
        parts.append(fn.all_tables(order, among, *attributes, **view, variance=variance, name=f"part {i}"))
    return fn.Workload(domain, parts)


@pytest.mark.slow
@settings(max_examples=30)
@given(families(), st.integers(0, 2**16))
def test_any_small_pattern_obeys_the_laws(workload, seed):
    """Against dense matrices over the whole domain: bound, price, variances, transforms, covariances."""
    plan = fn.plan(workload, gap=GAP)
    check_plan(plan)
    check_mechanism(plan, np.random.default_rng(seed))
    single = decompose(written_out(workload))
    joint = decompose(workload)
    assert [s.attributes for s in sectors_of(joint)] == [s.attributes for s in sectors_of(single)]
    assert [s.members for s in sectors_of(joint)] == [s.members for s in sectors_of(single)]
    np.testing.assert_array_equal(joint.variances, single.variances)


# --- sectors that cannot be distinguished are solved for once ----------------------------------------------------


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_classes_are_equitable(name):
    """Every sector of a class has equally many tables of each class, and every table equally many sectors of each."""
    d = decompose(zoo.WORKLOADS[name]())
    partition = EquitablePartition.from_decomposition(d, None)
    for i, group in enumerate(d.groups):
        for m in group.members:
            rows, columns = partition.sectors[i], partition.tables[m.tables]
            dense = m.incidence.toarray()
            by_row = np.array([dense[:, columns.class_of == c].sum(axis=1) for c in range(len(columns))])
            by_column = np.array([dense[rows.class_of == r].sum(axis=0) for r in range(len(rows))])
            for r in range(len(rows)):
                assert (np.ptp(by_row[:, rows.class_of == r], axis=1) == 0).all()
            for c in range(len(columns)):
                assert (np.ptp(by_column[:, columns.class_of == c], axis=1) == 0).all()
    for g, classes in zip(d.tables, partition.tables, strict=True):
        for c in range(len(classes)):
            assert (np.ptp(g.variances[classes.class_of == c], axis=0) == 0).all()


def test_equal_targets_leave_as_many_classes_as_orders():
    d = decompose(cube(7, 4, (1, 2, 3), variance=2))
    partition = EquitablePartition.from_decomposition(d, None)
    assert [len(c) for c in partition.tables] == [1, 1, 1]
    assert [len(c) for c in partition.sectors] == [1, 1, 1, 1]
    assert len(partition.counts) == 3
    assert partition.counts.tolist() == [7, 21, 35]


@pytest.mark.parametrize("name", ["patterns", "uneven patterns", "patterns and structure", "marginals", "crossed"])
def test_classes_change_the_size_of_the_problem_and_not_its_optimum(name, monkeypatch):
    d = decompose(zoo.WORKLOADS[name]())
    short = solver.solve(Formulation(d, ObjectiveTerms()).problem, gap=1e-10)
    monkeypatch.setattr(EquitablePartition, "from_decomposition", lambda d, *_: EquitablePartition.none(d))
    separate = solver.solve(Formulation(d, ObjectiveTerms()).problem, gap=1e-10)
    assert short.lower == pytest.approx(separate.upper, rel=1e-9)


# --- exact prices of many noise scales ---------------------------------------------------------------------------


def test_with_many_noise_scales_the_price_is_rounded_up_by_next_to_nothing(monkeypatch):
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 1 + i % 3) for i in range(14)})
    variances = np.random.default_rng(4).uniform(1, 10, math.comb(14, 2))
    plan = fn.plan(fn.Workload(domain, [fn.all_tables(2, list(domain), variance=variances)]))
    scales = {x for g in plan.table_part.strategy.groups for x in g.scales.tolist()}
    assert len(scales) > linear.EXACT_SCALES
    stated = plan.table_part.strategy.profile()
    monkeypatch.setattr(linear, "EXACT_SCALES", 10**6)
    fresh = Strategy(plan.table_part.strategy.structure, plan.table_part.strategy.groups)
    for up, exact in zip(stated, fresh.profile(), strict=True):
        assert exact <= up <= exact * (1 + Fraction(1, 2**80))
        assert up.denominator.bit_length() < 300 < exact.denominator.bit_length()
    assert all(x <= y for x, y in zip(fresh.group_costs, plan.table_part.strategy.group_costs, strict=True))


# --- measuring and rebuilding without arrays over the domain -------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    """All pairs of 30 attributes of mixed sizes: 10^17 cells."""
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 1 + i % 5) for i in range(30)})
    return fn.plan(fn.Workload(domain, [fn.all_tables(k, list(domain), std_error=4 * k) for k in (1, 2)]), gap=GAP)


def measured(plan, frame, **options):
    counter = open_counter(frame, plan.publication.workload.domain.axes, fn.DataSource())
    with fn.Ledger(":memory:") as ledger:
        return measuring.measure(plan.order, counter, ledger, **options)


def people(domain, count, rng):
    return pd.DataFrame({a: rng.integers(0, domain[a].size, count) for a in domain})


def test_every_table_of_a_wide_domain_is_rebuilt_without_noise(wide, rng):
    domain = wide.publication.workload.domain
    frame = people(domain, 500, rng)
    measurement = measured(wide, frame, noise=Replay())
    rebuilt = reconstruct.RebuiltTables(wide.table_part, measurement.answers[0])
    for name in ("a3", "a0 by a1", "a7 by a29", "a28 by a29"):
        attributes = wide.publication.workload[name].attributes
        truth = np.zeros([domain[a].size for a in attributes])
        np.add.at(truth, tuple(frame[a].to_numpy() for a in attributes), 1)
        np.testing.assert_allclose(rebuilt.table(name), truth, atol=1e-9 * len(frame))
    by_number = {int(t): x for which, stack in rebuilt.stacks() for t, x in zip(which, stack, strict=True)}
    assert sorted(by_number) == list(range(len(wide.publication.workload.tables)))
    for t in (0, 29, 30, 200, 464):
        np.testing.assert_array_equal(by_number[t], rebuilt.table(wide.publication.workload.tables[t].name))


def test_tables_agree_on_what_they_share(wide, rng):
    domain = wide.publication.workload.domain
    frame = people(domain, 2000, rng)
    measurement = measured(wide, frame)
    rebuilt = reconstruct.RebuiltTables(wide.table_part, measurement.answers[0])
    for a, b in combinations(("a4", "a11", "a23"), 2):
        both = rebuilt.table(f"{a} by {b}")
        np.testing.assert_allclose(both.sum(axis=1), rebuilt.table(a), atol=1e-9 * len(frame))
        np.testing.assert_allclose(both.sum(axis=0), rebuilt.table(b), atol=1e-9 * len(frame))
        assert both.sum() == pytest.approx(rebuilt.table("a0").sum(), abs=1e-9 * len(frame))


def test_one_record_moves_the_answers_by_its_price(wide, rng):
    """Neighbours, through the complete counting pipeline; the price of these scales is rounded up by 2⁻⁸⁰ at most."""
    frame = people(wide.publication.workload.domain, 50, rng)
    one, other = (measured(wide, f, noise=Replay()).answers[0] for f in (frame, frame.iloc[1:]))
    shift = Fraction(0)
    for g, y, z in zip(wide.table_part.strategy.groups, one, other, strict=True):
        starts = np.cumsum(g.answers) - g.answers
        squares = np.add.reduceat((y - z).astype(object) ** 2, starts)
        shift += sum(Fraction(int(x)) / Fraction(s) ** 2 for x, s in zip(squares, g.scales.tolist(), strict=True))
    assert shift <= wide.table_part.exact_cost <= shift * (1 + Fraction(1, 2**80))


@pytest.mark.slow
def test_sums_over_tables_have_the_errors_stated(wide, rng):
    """200 releases of no data: detects a standard error off by a third, and a covariance off by three tenths."""
    count = 200
    domain = wide.publication.workload.domain
    f, h = (
        {name: rng.normal(size=wide.publication.workload[name].shape(domain)) for name in names}
        for names in (("a3 by a4", "a4", "a3 by a9"), ("a3", "a3 by a4", "a1 by a2"))
    )
    estimates = np.empty((count, 2))
    for i in range(count):
        answers = [noise.discrete_gaussians(g.scales, g.answers) for g in wide.table_part.strategy.groups]
        release = fn.Release(wide, answers)
        estimates[i] = release.estimate(f).value, release.estimate(h).value
    stated = np.array([[reconstruct.covariance(wide.table_part, x, y) for y in (f, h)] for x in (f, h)])
    white = np.linalg.solve(np.linalg.cholesky(stated), estimates.T)
    # Σ white² is χ² with count degrees of freedom for each, and their product has mean 0
    low, high = stats.chi2.ppf([SIGNIFICANCE / 6, 1 - SIGNIFICANCE / 6], count)
    assert low < (white[0] ** 2).sum() < high
    assert low < (white[1] ** 2).sum() < high
    assert abs((white[0] * white[1]).sum()) < -stats.norm.ppf(SIGNIFICANCE / 6) * math.sqrt(count)
    assert abs(white.mean(axis=1)).max() < -stats.norm.ppf(SIGNIFICANCE / 6) / math.sqrt(count)


# --- refused ------------------------------------------------------------------------------------------------------


def test_more_margins_than_can_be_planned_are_refused():
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 1) for i in range(30)})
    with refused("workload.too-many-margins"):
        fn.plan(fn.Workload(domain, [fn.table(*domain, variance=1)]))


def test_more_tables_than_can_be_planned_are_refused():
    with refused("workload.too-many-tables"):
        fn.all_tables(10, [f"a{i}" for i in range(100)], variance=1)


def test_replace_one_is_refused_for_too_many_margins(monkeypatch):
    monkeypatch.setattr(formulation, "MAX_PAIRED_SECTORS", 10)
    unit = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    public = fn.KnownTotals((), "Register", "these data")
    assert 0 < fn.plan(cube(3, 3, (2,), variance=1), unit=unit, public=public).gap < GAP
    with refused("workload.too-many-margins-to-replace-one"):
        fn.plan(cube(5, 3, (2,), variance=1), unit=unit, public=public)


def test_refinement_is_refused_for_too_many_margins(monkeypatch):
    monkeypatch.setattr(lexicographic, "MAX_SECTORS", 3)
    with refused("plan.refinement-too-large"):
        fn.plan(zoo.WORKLOADS["uneven patterns"](), refine=True)


def test_what_does_not_fit_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(sectors, "physical_memory", lambda: 9_000)
    with refused("workload.too-little-memory"):
        fn.plan(zoo.WORKLOADS["five structured cells"]())


# --- full size ----------------------------------------------------------------------------------------------------

FULL = """
import math, sys
import numpy as np
import fitnoise as fn
from peak import peak_memory

domain = fn.Domain({f"a{i}": fn.Ordered(0, 9) for i in range(100)})
rng = np.random.default_rng(1)
targets = {
    "random": lambda k: rng.uniform(1, 10, math.comb(100, k)),
    "by order": lambda k: fn.ByTableSize(1.0, 0.5),
}[sys.argv[1]]
plan = fn.plan(fn.Workload(domain, [fn.all_tables(k, list(domain), variance=targets(k)) for k in (1, 2, 3)]), gap=1e-6)
assert len(plan.table_part.tables) == 166_750
assert (plan.table_part.variances <= plan.table_part.decomposition.variances).all()
own = plan.table_part.summary(166_749)
assert own.name == "a97 by a98 by a99" and own.numbers == 1000
again = fn.Plan.from_json(plan.to_json())
assert again.hash == plan.hash and again.gap == plan.gap <= 1e-6
print(float(plan.table_part.exact_cost), plan.bound, peak_memory())
"""


@pytest.mark.slow
@pytest.mark.parametrize("targets", ["random", "by order"])
def test_all_triples_of_100_attributes_are_planned_and_certified(targets):
    """10^100 cells, 166,750 tables, 161.7 million numbers; with its document, within 1 GB and a half."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, targets], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cost, bound, peak = map(float, done.stdout.split())
    assert bound <= cost <= bound * (1 + GAP)
    assert peak < 1500
