"""Non-negative integer tables that add up."""

import itertools
import json
import math
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import optimize

import fitnoise as fn
import zoo
from dense import table_matrix, workload_matrix
from fitnoise.mechanisms import rebuilding
from fitnoise.messages import english
from fitnoise.planning.files import read_text
from fitnoise.reading import integer_tables as making
from fitnoise.reading.integer_tables import possible
from fitnoise.solving import nearest_integers as rounding
from fitnoise.solving.nearest_integers import SumConstraints, UnsolvedError, adjacent, check_adjacent
from fitnoise.solving.nonnegative import nearest
from laws.plans import planned_quickly
from laws.releases import by_command, measured
from refused import refused
from replayed_noise import Replay
from test_combining import numbers
from tolerances import EXACT, LOOSE

pytestmark = pytest.mark.usefixtures("one_duckdb")

REFUSED = {"pivoted basis": "have in common", "missing values": "have in common"}
"""Workloads whose groups overlap, and do not show their common part."""

COUNTED = [
    name
    for name, make in zoo.WORKLOADS.items()
    if make().tables[0].matrix is None and name not in {*REFUSED, "amounts", "ceilings", "ranges by class", "changes"}
]


LARGE = {"many places": zoo.many_places, "many cells": zoo.many_cells}
"""Those that are planned by level and by axis."""


@cache
def noisy(name, privacy):
    """A release of a workload of the zoo, of data that are mostly empty."""
    workload = LARGE.get(name, zoo.WORKLOADS.get(name))()
    plan = fn.plan(workload) if privacy == "zcdp" else planned_quickly(workload)
    draw = np.random.default_rng(3)
    counts = draw.poisson(1.5 * draw.integers(0, 2, workload.domain.shape))
    return fn.Release(plan, measured(plan, counts, Replay(5)).answers[0])


def written_out(workload, tables):
    return np.concatenate([np.ravel(tables[name]) for name in workload.tables.names])


PURE = ("marginals", "uneven patterns", "regular tree", "missing values by value", "columns out of order")
"""Those that are planned for pure noise as well."""

BOTH = [*((name, "zcdp") for name in COUNTED), *((name, "pure") for name in PURE)]


@pytest.mark.parametrize(("name", "privacy"), BOTH)
def test_integer_tables_keep_their_guarantees(name, privacy):
    """Over the zoo: proven nearest, integer, not negative, made of one vector of counts as tables, in their margins.

    Tables that are M x for one vector x agree on all that they share, and their prefixes do not fall. The matrices here
    share no code with the package.
    """
    release = noisy(name, privacy)
    integers, workload = fn.make_integer_tables(release, simulations=1), release.plan.publication.workload
    assert integers.check() is None
    assert integers.residual <= 1e-9
    values = written_out(workload, {name: frame["value"] for name, frame in integers.items()})
    assert values.dtype == np.int64
    assert values.min() >= 0
    matrix = workload_matrix(workload).astype(float)
    x = np.linalg.lstsq(matrix, values, rcond=None)[0]
    assert matrix @ x == pytest.approx(values, abs=1e-6)
    for table in workload.tables:
        table_rows = table_matrix(table, workload.domain)
        parts = np.unique(table_rows[:, table_rows.any(axis=0)], axis=1)  # the groups it distinguishes, each 0 or more
        if np.linalg.matrix_rank(parts) == parts.shape[1]:
            atoms = np.linalg.lstsq(parts, np.ravel(integers[table.name]["value"]), rcond=None)[0]
            assert atoms == pytest.approx(np.rint(atoms), abs=1e-6)
            assert atoms.min() > -1e-6
    for name_shown, frame in integers.items():
        truth = np.arange(0, 60)[:, None]
        unbiased = release[name_shown]
        inside = np.abs(truth - unbiased["value"].to_numpy()) <= unbiased["moe"].to_numpy()
        contains = (frame["low"].to_numpy() <= truth) & (truth <= frame["high"].to_numpy())
        assert (contains | ~inside).all()
        assert ((frame["low"] <= frame["value"]) & (frame["value"] <= frame["high"])).all()


@pytest.mark.parametrize(("name", "privacy"), [*BOTH, *((name, "zcdp") for name in (*LARGE, "random signs"))])
def test_what_sectors_move_by_is_their_covariance(name, privacy):
    """The covariance of two combinations is ⟨h, V f⟩. Many tables mapped at once equal each mapped alone."""
    source = noisy(name, privacy)._sources[0]
    part, draw = source.part, np.random.default_rng(1)
    workload = part.publication.workload
    f, h = ({t.name: draw.normal(size=t.shape(workload.domain)) for t in workload.tables} for _ in range(2))
    adjoint, stored = rebuilding.adjoint(part, f), {}
    for _ in range(2):
        stacks = []
        for which, _ in source.rebuilt.stacks():
            stacks.append((which, np.stack([f[workload.tables[t].name] for t in which.tolist()])))
        gathered = rebuilding.gathered(part, stacks, stored)
        assert gathered.keys() == adjoint.keys()
        assert all(gathered[k] == pytest.approx(x, rel=EXACT, abs=EXACT) for k, x in adjoint.items())
    applied = rebuilding.SectorTables(part, part.estimation.apply_covariance(adjoint))
    product = sum(float((x * applied.table(name)).sum()) for name, x in h.items())
    assert product == pytest.approx(rebuilding.covariance(part, f, h), rel=LOOSE, abs=LOOSE)


DOMAIN = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 4), job=fn.Categorical(["none", "some", "many"]))
TABLES = [
    fn.table("sex", "job", margin=4),
    fn.table("sex", cumulative="age", margin=6),
    fn.table(groups={"age": {"young": [0, 1], "old": [3, 4]}}, margin=5),
]
COUNTS = np.random.default_rng(2).poisson(0.7, DOMAIN.shape)


@cache
def small(privacy="zcdp"):
    workload = fn.Workload(DOMAIN, TABLES)
    plan = fn.plan(workload) if privacy == "zcdp" else planned_quickly(workload)
    return fn.Release(plan, measured(plan, COUNTS, Replay(2)).answers[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    small().write(path / "release")
    fn.make_integer_tables(small(), simulations=2).write(path / "whole")
    return path


@pytest.mark.parametrize("privacy", ["zcdp", "pure"])
def test_the_nearest_tables_are_those_of_least_squares_written_out(privacy):
    """The reference is SLSQP over all numbers with the dense covariance; bounds at 0 are worked out directly."""
    release = small(privacy)
    integers = fn.make_integer_tables(release, simulations=0)
    forms = numbers(release._sources[0])
    n = forms.length
    i, j = np.indices((n, n)).reshape(2, -1)
    covariance = forms.take(i).covariances(forms.take(j)).reshape(n, n)
    values, vectors = np.linalg.eigh(covariance)
    factor = vectors[:, values > 1e-9 * values.max()] * np.sqrt(values[values > 1e-9 * values.max()])
    atoms = np.vstack([np.eye(6, n), *(np.diff(np.eye(5, n, 6 + 5 * k), axis=0, prepend=0) for k in range(2))])
    atoms = np.vstack([atoms, np.eye(2, n, 16)])
    noisy = forms.values()
    assert (atoms @ noisy).min() < 0
    solved = optimize.minimize(
        lambda w: w @ w / 2,
        np.zeros(factor.shape[1]),
        jac=lambda w: w,
        constraints={"type": "ineq", "fun": lambda w: atoms @ (noisy + factor @ w), "jac": lambda _: atoms @ factor},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    nearest_numbers = np.concatenate([integers.nearest(name).ravel() for name in release])
    assert nearest_numbers == pytest.approx(noisy + factor @ solved.x, abs=1e-4)


def test_what_is_never_negative_stays_as_it_is():
    plan = small().plan
    release = fn.Release(plan, measured(plan, COUNTS + 500, Replay(2)).answers[0])
    integers = fn.make_integer_tables(release, simulations=0)
    assert not any("at" in x and x["at"] for x in integers.document()["tables"])
    for name in release:
        assert integers.nearest(name).ravel() == pytest.approx(release[name]["value"].to_numpy(), abs=1e-9)
        assert "simulated_bias" not in integers[name]
    assert integers.reach < 1


def test_bias_is_that_of_a_cut_normal_number():
    """One number, truly 0, of noise σ: cut at 0 it is σ/√(2π) too large on average, and σ/√2 off."""
    domain = fn.Domain(a=fn.Categorical(["x", "y"]))
    plan = fn.plan(fn.Workload(domain, [fn.table("a", std_error=20)]))
    release = fn.Release(plan, [np.zeros(n, dtype=np.int64) for n in plan.table_part.strategy.lengths])
    frame = fn.make_integer_tables(release, simulations=400)["a"]
    error = 20 / math.sqrt(400)
    assert (np.abs(frame["simulated_bias"] - 20 / math.sqrt(2 * math.pi)) < 5 * error).all()
    assert (np.abs(frame["simulated_rmse"] - 20 / math.sqrt(2)) < 5 * error).all()
    pure = planned_quickly(fn.Workload(domain, [fn.table("a", std_error=20)]))
    frame = fn.make_integer_tables(
        fn.Release(pure, [np.zeros(n, np.int64) for n in pure.table_part.strategy.lengths]), simulations=400
    )["a"]
    assert (np.abs(frame["simulated_rmse"] - 20 / math.sqrt(2)) < 8 * error).all()


def test_it_is_the_same_every_time():
    one, other = (fn.make_integer_tables(small(), simulations=3) for _ in range(2))
    assert one.document() == other.document()
    assert list(one) == list(small())
    assert len(one) == 3
    assert repr(one) == "<Integer tables, 3: ['sex by job', 'sex by age cumulative', 'age groups']>"


def test_some_tables_are_made_integers_separately():
    integers = fn.make_integer_tables(small(), "sex by job", simulations=0)
    assert list(integers) == ["sex by job"]
    with pytest.raises(KeyError, match="there is no integer table 'age groups'"):
        integers["age groups"]
    with refused("release.unknown-table"):
        integers.nearest("age groups")


@pytest.mark.parametrize("name", LARGE)
def test_tables_planned_by_level_and_by_axis_are_made_integers(name):
    integers = fn.make_integer_tables(noisy(name, "zcdp"), simulations=1)
    assert integers.check() is None
    assert integers.reach < 1
    assert all((frame["value"] >= 0).all() for frame in integers.values())


def test_of_a_small_database_the_unbiased_numbers_are_made_integers():
    workload = fn.Workload(DOMAIN, [fn.table("sex", "job", margin=9)])
    plan = fn.plan(workload, small_database=fn.SmallDatabase(60), budget=fn.Budget(epsilon=1.0, delta=1e-6))
    release = fn.Release(plan, measured(plan, np.minimum(COUNTS, 1), Replay(2)).answers[0])
    integers = fn.make_integer_tables(release, simulations=2)
    assert integers.check() is None
    noisy = release["sex by job"]
    middle = (integers["sex by job"]["low"] + integers["sex by job"]["high"]) / 2
    wide = noisy["unbiased_value"] > noisy["moe"] + 1
    assert (np.abs(middle - noisy["unbiased_value"])[wide] <= 1).all()


def test_each_part_of_a_release_is_made_integers():
    one, other = (fn.Workload(DOMAIN, [fn.table(name, margin=8)]) for name in ("sex", "job"))
    plan = fn.plan(fn.Publication(one, further_tables=(fn.Publication(other),)))
    answers = [x for part in measured(plan, COUNTS, Replay(2)).answers for x in part]
    integers = fn.make_integer_tables(fn.Release(plan, answers), simulations=1)
    assert list(integers) == ["sex", "job"]
    assert integers.check() is None


def test_an_interval_is_cut_to_what_is_possible_and_holds_the_count():
    value, moe, held = np.array([2.4, -9.0, 3.0, 0.2]), np.array([1.0, 2.0, 0.5, 9.0]), np.array([2, 0, 5, 0])
    low, high = possible(value, moe, held, is_integer=True)
    assert low.tolist() == [2, 0, 3, 0]
    assert high.tolist() == [3, 0, 5, 9]
    low, high = possible(value, moe, held, is_integer=False)
    assert low.tolist() == [1, 0, 2, 0]
    assert high.tolist() == [4, 0, 5, 10]


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
def test_groups_of_unknown_overlap_are_refused(name):
    with refused("release.integer-table-of-overlaps"):
        fn.make_integer_tables(noisy(name, "zcdp"))


def test_what_is_no_count_is_refused():
    with refused("release.integer-table-of-queries") as raised:
        fn.make_integer_tables(noisy("prefix", "zcdp"))
    assert "Use another release." in str(raised.value)
    for name, error_code in (
        ("a by month change", "release.integer-table-of-changes"),
        ("a by o cumulative by month average 3", "release.integer-table-of-averages"),
    ):
        with refused(error_code):
            fn.make_integer_tables(noisy("changes", "zcdp"), [name])
    assert fn.make_integer_tables(noisy("changes", "zcdp"), ["a by month to date 2"], simulations=0).check() is None
    domain = fn.Domain(a=fn.Categorical(["x", "y"]), income=fn.Amount(0, 10, step=1))
    workload = fn.Workload(domain, [fn.table("a", margin=5), fn.table("a", sum="income", margin=50)])
    plan = fn.plan(workload)
    release = fn.Release(plan, [np.zeros(n, dtype=np.int64) for n in plan.table_part.strategy.lengths])
    for names in (None, "a by income sum"):
        with refused("release.integer-table-of-sums") as raised:
            fn.make_integer_tables(release, names)
        assert "Name only ['a']." in str(raised.value)
    assert list(fn.make_integer_tables(release, ["a"], simulations=0)) == ["a"]


@pytest.mark.parametrize(
    ("release", "options", "error_code"),
    [
        ("nothing", {}, "release.wrong-type"),
        (None, {"tables": "job"}, "release.unknown-table"),
        (None, {"tables": ["sex by job", "sex by job"]}, "release.repeated-table"),
        (None, {"tables": []}, "release.no-tables-named"),
        (None, {"simulations": -1}, "release.wrong-number-of-simulations"),
        (None, {"simulations": 2.5}, "release.wrong-type"),
        (None, {"simulations": True}, "release.wrong-type"),
    ],
)
def test_bad_input_is_refused_in_words(release, options, error_code):
    with refused(error_code):
        fn.make_integer_tables(release or small(), **options)


def test_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(making, "MAX_INTEGER_TABLES", 2)
    with refused("release.too-many-integer-tables"):
        fn.make_integer_tables(small())
    monkeypatch.undo()
    monkeypatch.setattr(making, "STEPS", 14)
    with refused("release.nearest-tables-not-found"):
        fn.make_integer_tables(small())
    monkeypatch.undo()
    monkeypatch.setattr(making, "MAX_SECONDS_PER_PART", 0.0)
    with refused("release.integers-not-found") as caught:
        fn.make_integer_tables(small())
    assert "in 0 seconds. It did not show that there are none." in str(caught.value)
    monkeypatch.undo()
    monkeypatch.setattr(making, "adjacent", lambda *_: None)
    with refused("release.integers-do-not-exist") as caught:
        fn.make_integer_tables(small())
    assert "seconds" not in str(caught.value)


# --- solvers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 60])
def test_nearest_points_meet_their_conditions(n):
    """Singular and far from round covariances too; ends where it may go no further, and says how far it is."""
    draw = np.random.default_rng(n)
    for rank in (max(1, n // 2), 2 * n):
        factor = draw.normal(size=(n, rank)) * 10.0 ** draw.uniform(-2, 0, size=rank)
        factor /= np.linalg.norm(factor, axis=1)[:, None]
        matrix = factor @ factor.T
        start = factor @ draw.normal(size=rank) * 5 + draw.exponential(size=n)
        result = nearest(matrix.__matmul__, start, 1e-10, 20_000)
        assert result.point == pytest.approx(start + matrix @ result.values, abs=1e-8)
        assert result.values.min() >= 0
        assert np.abs(np.minimum(result.values, result.point)).max() <= 1e-9
    hard = -np.ones(60)
    assert nearest(np.diag(np.geomspace(1e-6, 1, 60)).__matmul__, hard, 1e-12, 30).max_violation > 1e-12


def rows(*entries):
    return sp.csr_array(np.array(entries, dtype=float).reshape(len(entries), -1))


def test_numbers_move_further_only_where_they_must(monkeypatch):
    nothing = sp.csr_array((0, 3))
    free = SumConstraints(nothing, nothing, nothing)
    assert adjacent(np.array([0.4, 1.6, 2.0]), free, 9.0).tolist() == [0, 2, 2]
    halves = SumConstraints(rows([1, 1, -1]), nothing, nothing)
    assert adjacent(np.array([0.6, 0.6, 1.2]), halves, 9.0).tolist() in ([1, 0, 1], [0, 1, 1])
    loose_sum = SumConstraints(nothing, nothing, rows([1, 1, 1]))
    assert adjacent(np.array([0.4, 0.4, 0.4]), loose_sum, 9.0).sum() in (1, 2)
    chained = SumConstraints(rows([1, 1, -1]), rows([0, 2, -1]), nothing)
    assert adjacent(np.array([0.6, 0.6, 1.2]), chained, 9.0).tolist() == [0, 1, 1]
    further = SumConstraints(rows([5, 0, -1]), nothing, nothing)  # neither 0 nor 1 is a fifth of 2 or 3
    assert adjacent(np.array([0.45, 0.0, 2.25]), further, 9.0).tolist() == [0, 0, 0]
    assert adjacent(np.array([0.55, 0.0, 2.75]), further, 9.0).tolist() == [1, 0, 5]
    never = SumConstraints(rows([9, 0, -1]), nothing, nothing)
    assert adjacent(np.array([5 / 9, 0.0, 5.0]), never, 9.0) is None
    monkeypatch.setattr(rounding, "MAX_DISTANCE", 5)
    assert adjacent(np.array([5 / 9, 0.0, 5.0]), never, 9.0).tolist() == [0, 0, 0]
    with pytest.raises(UnsolvedError):
        adjacent(np.array([0.6, 0.6, 1.2]), halves, 0.0)


def test_integers_that_do_not_exist_have_an_error_of_their_own():
    """Three numbers of equal size cannot be next to their values: the solver shows it long before its time ends."""
    nothing = sp.csr_array((0, 3))
    never, values = SumConstraints(rows([9, 0, -1]), nothing, nothing), np.array([5 / 9, 0.0, 5.0])
    stated = np.array([0, 0, 0])
    assert adjacent(values, never, 9.0) is None
    fault = check_adjacent(np.array([5 / 9, 0.0, 5.0]), np.array([1, 0, 9]), never, 9.0)
    assert fault is not None
    assert fault.id == "report.fault.rounding_none"
    late = check_adjacent(values, stated, never, 0.0)
    assert late is not None
    assert late.id == "report.fault.rounding_time"


@pytest.mark.parametrize("status", [1, 3, 4])
def test_integers_of_a_program_that_was_not_solved_are_not_taken(status, monkeypatch):
    """Detects steps of a solver that ran out of time, which need not be the nearest ones."""
    nothing = sp.csr_array((0, 3))
    halves = SumConstraints(rows([1, 1, -1]), nothing, nothing)
    values, solve = np.array([0.6, 0.6, 1.2]), rounding.optimize.milp
    assert adjacent(values, halves, 9.0) is not None

    def unsolved(*arguments, **keywords):
        result = solve(*arguments, **keywords)
        result.status = status
        return result

    monkeypatch.setattr(rounding.optimize, "milp", unsolved)
    with pytest.raises(UnsolvedError):
        adjacent(values, halves, 9.0)
    assert "not solved again in time" in english(check_adjacent(values, np.array([1, 0, 1]), halves, 9.0))


def test_integers_up_to_three_below_a_floor_pass_the_check():
    nothing = sp.csr_array((0, 3))
    sevenths = SumConstraints(rows([7, 0, -1]), nothing, nothing)
    assert adjacent(np.array([0.45, 0.0, 3.15]), sevenths, 9.0).tolist() == [0, 0, 0]  # 3.15 moves, and its floor is 3
    integers = fn.make_integer_tables(small(), simulations=0)
    (part,) = integers._parts
    for distance, fault in ((3.15, None), (4 - 2e-7, None), (4.0, "report.fault.far")):
        shifted = making.IntegerTables({"": integers.release}, [replace(part, nearest=part.integers + distance)], 0)
        result = shifted.check()
        assert (result and result.id) == fault, distance


def test_what_the_rounding_does_not_define_is_named():
    nothing = sp.csr_array((0, 3))
    values = np.array([0.6, 0.6, 1.2])
    halves = SumConstraints(rows([1, 1, -1]), nothing, nothing)
    for stated in ([1, 0, 1], [0, 1, 1]):
        assert check_adjacent(values, np.array(stated), halves, 9.0) is None
    assert "nearer: by 0.4" in english(check_adjacent(values, np.array([1, 1, 2]), halves, 9.0))
    assert "next to that" in english(check_adjacent(values, np.array([0, 0, 0]), halves, 9.0))
    assert "in no sum" in english(
        check_adjacent(values, np.array([1, 1, 2]), SumConstraints(nothing, nothing, nothing), 9.0)
    )
    loose_sum = SumConstraints(nothing, nothing, rows([1, 1, 1]))
    assert "further from that" in english(check_adjacent(values, np.array([1, 1, 2]), loose_sum, 9.0))
    further = SumConstraints(rows([5, 0, -1]), nothing, nothing)
    assert check_adjacent(np.array([0.45, 0.0, 2.25]), np.array([0, 0, 0]), further, 9.0) is None
    assert "nearer" in english(check_adjacent(np.array([0.45, 0.0, 2.25]), np.array([1, 0, 5]), further, 9.0))


def test_what_has_nothing_to_do_with_each_other_is_rounded_in_batches(monkeypatch):
    pairs = sp.csr_array(sp.kron(sp.eye_array(40), np.array([[1, 1, -1]]), format="csr"))
    nothing = sp.csr_array((0, 121))
    sums = SumConstraints(sp.csr_array(sp.hstack([pairs, sp.csr_array((40, 1))])), nothing, nothing)
    halves = np.random.default_rng(4).uniform(0, 3, size=(40, 2))
    values = np.append(np.column_stack([halves, halves.sum(axis=1)]).ravel(), 0.7)
    results = []
    for batch in (1, 7, 5_000):
        monkeypatch.setattr(rounding, "NUMBERS_PER_PROGRAM", batch)
        results.append(adjacent(values, sums, 9.0))
        assert (pairs @ results[-1][:120] == 0).all()
        assert results[-1][120] == 1
    distance = [((x - values) ** 2).sum() for x in results]
    assert distance == pytest.approx([distance[0]] * 3, rel=1e-3)


@pytest.mark.parametrize("tables", ["pairs", "ordered"])
def test_of_many_tables_the_sums_in_common_are_rounded_first(tables, monkeypatch):
    names = {f"a{i}": fn.Ordered(1, 4) for i in range(5)}
    tables_shown = [fn.table(*two, margin=6) for two in itertools.combinations(names, 2)]
    if tables == "ordered":
        tables_shown += [
            fn.table("a0", cumulative="a1", margin=5),
            fn.table(groups={"a0": {"low": (1, 2), "high": (3, 4)}}, margin=5),
        ]
    plan = fn.plan(fn.Workload(fn.Domain(names), tables_shown))
    silent = tuple(np.zeros(n, dtype=np.int64) for n in plan.table_part.estimation.lengths)
    release = fn.Release(plan, list(plan.table_part.strategy.draw(silent, making._SimulatedNoise(3))))
    (space,) = making._spaces({"": release}, list(release))
    target = space.flat(
        space.tables_at(nearest(space.apply_normal_matrix, space.atoms(space.estimates), 1e-10, 20_000).values)
    )
    at_once = adjacent(target, space.sums, 60.0)
    calls_made, rounded = [], rounding._rounded
    monkeypatch.setattr(rounding, "MAX_CONNECTED_NUMBERS", 10)
    monkeypatch.setattr(rounding, "_rounded", lambda *inputs: calls_made.append(rounded(*inputs)) or calls_made[-1])
    in_steps = adjacent(target, space.sums, 60.0)
    assert len(calls_made) == 2  # sums, and with them all tables
    assert space.satisfies(at_once)
    assert space.satisfies(in_steps)
    one, other = (((x - target) ** 2).sum() for x in (at_once, in_steps))
    assert one - rounding.allowance(len(target)) <= other < 1.5 * one
    monkeypatch.setattr(rounding, "_rounded", rounded)
    assert check_adjacent(target, in_steps, space.sums, 60.0) is None
    problem = check_adjacent(target, at_once, space.sums, 60.0)
    if problem is None:
        assert other == pytest.approx(one, abs=rounding.allowance(len(target)))
    else:
        assert "nearer" in english(problem)
    for failed in (1, 2):  # no sums, or no tables with them: then all at once
        calls = iter(range(1, 4))

        def tried(*arguments, calls=calls, failed=failed):
            return None if next(calls) == failed else rounded(*arguments)

        monkeypatch.setattr(rounding, "_rounded", tried)
        assert ((adjacent(target, space.sums, 60.0) - target) ** 2).sum() == pytest.approx(one, rel=1e-9)
        fresh_calls = iter(range(1, 4))  # the check finds out that there was no other way
        monkeypatch.setattr(rounding, "_rounded", partial(tried, calls=fresh_calls))
        assert check_adjacent(target, at_once, space.sums, 60.0) is None


def test_no_other_integers_are_accepted(monkeypatch):
    """Every way to move one, two or four numbers that still add up: none but those of equal distance."""
    release = small()
    (space,) = making._spaces({"": release}, list(release))
    target = space.flat(
        space.tables_at(nearest(space.apply_normal_matrix, space.atoms(space.estimates), 1e-10, 20_000).values)
    )
    integers = adjacent(target, space.sums, 60.0)
    assert check_adjacent(target, integers, space.sums, 60.0) is None
    cells = workload_matrix(release.plan.publication.workload).astype(int).T  # what a record in each cell adds
    moves = [cells[i] - cells[j] for i in range(len(cells)) for j in range(i)] + [*cells]
    tried = 0
    for move in np.unique(moves, axis=0):
        for k in (-3, -2, -1, 1, 2, 3):
            other = integers + k * move
            if space.satisfies(other) and np.abs(other - target).max() <= rounding.MAX_DISTANCE:
                tried += 1
                excess = ((other - target) ** 2).sum() - ((integers - target) ** 2).sum()
                problem = check_adjacent(target, other, space.sums, 60.0)
                assert problem is not None or excess <= rounding.allowance(len(target)), (k, excess)
    assert tried > 50
    assert "not solved again in time" in english(check_adjacent(target, integers, space.sums, 0.0))
    monkeypatch.setattr(rounding, "_rounding_moves", lambda *_: None)
    assert "no integers add up" in english(check_adjacent(target, integers, space.sums, 60.0))


def test_many_numbers_are_simulated_less_often(monkeypatch):
    monkeypatch.setattr(making, "MANY_NUMBERS", 0)
    integers = fn.make_integer_tables(small())
    assert integers.simulations == making.FEW_SIMULATIONS == 20
    assert integers.check() is None


# --- on disk --------------------------------------------------------------------------------------------


def test_what_is_written_is_verified(folder):
    checked = fn.verify(folder / "release", integers=folder / "whole")
    assert checked.ok
    claims = [english(c.claim) for c in checked.checks][-5:]
    assert claims == [
        "the integer tables are of this release",
        "no non-negative tables are nearer, and the numbers add up",
        "no other integers that add up are nearer",
        "simulation gives the stated errors again",
        "the files are those of the integer tables",
    ]
    stored = making.read_integer_tables(fn.Release.read(folder / "release"), folder / "whole")
    computed = fn.make_integer_tables(fn.Release.read(folder / "release"), simulations=2)
    assert all(stored[name].equals(computed[name]) for name in computed)
    assert {p.name for p in (folder / "whole").iterdir()} == {
        "whole.json",
        "sex_by_job.csv",
        "sex_by_age_cumulative.csv",
        "age_groups.csv",
    }
    head = read_text(folder / "whole" / "sex_by_job.csv").splitlines()[0]
    assert head == "sex,job,value,low,high,simulated_bias,simulated_rmse"


def alter_entry(key, change):
    def alter(document):
        table = next(x for x in document["tables"] if x.get(key))
        table[key][0] = change(table[key][0])

    return alter


ALTERED = {
    "a multiplier": (alter_entry("multipliers", lambda x: 1.001 * x), "tables are nearer", "off by"),
    "a negative multiplier": (alter_entry("multipliers", lambda x: -x), "of this release", "does not describe"),
    "a place": (alter_entry("at", lambda x: 10**6), "of this release", "does not describe"),
    "a number": (alter_entry("values", lambda x: x + 1), "tables are nearer", "do not add up"),
    "a fraction": (alter_entry("values", lambda x: x + 0.5), "of this release", "does not describe"),
    "a truth value": (alter_entry("values", lambda x: True), "of this release", "does not describe"),
    "a text": (alter_entry("simulated_bias", lambda x: "0"), "of this release", "does not describe"),
    "no number": (alter_entry("simulated_bias", lambda x: math.nan), "of this release", "does not describe"),
    "a bias": (alter_entry("simulated_bias", lambda x: x + 1), "stated errors", "differs by 1"),
    "an error": (alter_entry("simulated_rmse", lambda x: x + 1), "stated errors", "differs by"),
    "another plan": (lambda x: x["releases"][0].update(plan="0" * 64), "of this release", "another release"),
    "other answers": (lambda x: x["releases"][0].update(answers="0" * 64), "of this release", "another release"),
    "another version": (lambda x: x.update(fitnoise_whole=2), "of this release", "another version"),
    "too many simulations": (lambda x: x.update(simulations=10**9), "of this release", "does not describe"),
    "no tables": (lambda x: x.update(tables=[]), "of this release", "no tables"),
    "a table twice": (lambda x: x["tables"].append(x["tables"][0]), "of this release", "does not describe"),
    "a list": (lambda x: x.update(tables=3), "of this release", "does not describe"),
    "a table less": (lambda x: x["tables"].pop(), "files", "not expected: 'age_groups.csv'"),
    "too few numbers": (lambda x: x["tables"][0]["values"].pop(), "of this release", "does not describe"),
    "more words": (lambda x: x.update(more=1), "files", "'whole.json' says something else"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_was_altered_is_noticed(what, folder):
    alter, claim, text_found = ALTERED[what]
    file = folder / "whole" / "whole.json"
    text = read_text(file)
    document = json.loads(text)
    alter(document)
    try:
        file.write_text(json.dumps(document, indent=1) + "\n")
        wrong = [c for c in fn.verify(folder / "release", integers=folder / "whole").checks if not c.holds]
    finally:
        file.write_text(text)
    assert any(claim in english(c.claim) and text_found in english(c.finding) for c in wrong), wrong


def test_other_files_are_noticed(folder):
    file = folder / "whole" / "age_groups.csv"
    text = read_text(file)
    file.write_text(text.replace("young", "Young"))
    assert not fn.verify(folder / "release", integers=folder / "whole").ok
    file.write_text(text)
    other = folder / "whole" / "other.csv"
    other.write_text(text)
    checked = fn.verify(folder / "release", integers=folder / "whole")
    other.unlink()
    assert "not expected: 'other.csv'" in english(checked.checks[-1].finding)
    file.rename(folder / "elsewhere.csv")
    file.symlink_to(folder / "elsewhere.csv")
    checked = fn.verify(folder / "release", integers=folder / "whole")
    assert "links: 'age_groups.csv'" in english(checked.checks[-1].finding)
    file.unlink()
    (folder / "elsewhere.csv").rename(file)
    assert not fn.verify(folder / "release", integers=folder / "nowhere").ok
    with refused("release.plan-in-place-of-release"):
        fn.verify(folder / "release" / "plan.json", integers=folder / "whole")


def test_a_command_makes_and_checks_them(folder, capsys):
    path = folder / "by command"
    by_command("integers", str(folder / "release"), "sex by job", "-o", str(path), "--simulations", "1")
    assert "6 numbers in one table\n" in capsys.readouterr().out
    by_command("verify", str(folder / "release"), "--integers", str(path), "--json")
    assert json.loads(capsys.readouterr().out)["ok"] is True
    by_command("integers", str(folder / "release"), "-o", str(folder / "release" / "whole"))
    assert "[release.place-inside-release]" in capsys.readouterr().err
    with refused("release.place-exists"):
        fn.make_integer_tables(fn.Release.read(folder / "release"), simulations=0).write(path)
