"""Plans of several parts: tables of any mechanism and questions, measured once and charged as one."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from refused import refused

pytestmark = pytest.mark.usefixtures("one_duckdb")

DOMAIN = fn.Domain(a=fn.Categorical(["x", "y", "z"]), b=fn.Ordered(0, 5))
COUNTS = np.arange(18).reshape(3, 6) % 4
MEDIAN = fn.FiniteQuery.median("median", "b", people=50, epsilon=Fraction(1, 2))


def tables(*table_list, **options):
    return fn.Publication(fn.Workload(DOMAIN, list(table_list)), **options)


def both():
    pure = tables(fn.table("b", margin=9, name="by b"), privacy="pure")
    budget = fn.Budget(epsilon=1.0, delta=1e-6)
    small = tables(fn.table("a", margin=9, name="few"), small_database=fn.SmallDatabase(50), budget=budget)
    main_tables = [fn.table("a", "b", margin=15), fn.table("a", cumulative="b", margin=30)]
    return tables(*main_tables, further_tables=(pure, small), questions=(MEDIAN,))


@pytest.fixture(scope="module")
def plan():
    return fn.plan(both())


def test_every_part_is_planned_by_its_own_mechanism(plan):
    assert [p.mechanism.name for p in plan.groups] == ["fit-for-use", "pure-fit-for-use", "projection"]
    assert [q.summary.name for q in plan.questions] == ["median"]
    assert [t.name for p in plan.groups for t in p.tables] == ["a by b", "a by b cumulative", "by b", "few"]
    for part in plan.groups:
        assert 0 < part.bound <= part.objective_value
        separate = fn.plan(part.publication)
        assert (separate.table_part.exact_cost, separate.bound) == (part.exact_cost, part.bound)


def test_what_is_charged_is_the_sum_of_the_parts(plan, tmp_path):
    losses = [p.loss for p in plan.groups]
    assert plan.loss == sum(losses[1:], losses[0]) + plan.order.losses[-1]
    assert plan.loss.epsilon is None
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        released = fn.release(plan, COUNTS, ledger=ledger)
        assert Fraction(released.charge.rho) >= plan.loss.rho
        assert released.charge.rho - plan.loss.rho < Fraction(1, 2**64)
        entry, _ = ledger.entries()
        assert set(entry.detail) >= {"sectors", "margins", "questions", "profile"}


def test_several_parts_are_written_read_and_verified(plan, tmp_path):
    parsed = fn.Plan.from_json(plan.to_json())
    assert parsed.hash == plan.hash
    released = fn.release(plan, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "release")
    assert fn.verify(tmp_path / "release").ok
    read = fn.Release.read(tmp_path / "release")
    assert read == released
    assert list(read) == ["a by b", "a by b cumulative", "by b", "few"]
    for name in read:
        assert read[name].equals(released[name])
    assert read.finite["median"] == released.finite["median"]
    assert list(read["few"]) == ["a", "biased_value", "simulated_rmse", "unbiased_value", "std_error", "moe"]
    assert read.histogram["synthetic_records"].sum() <= 50 * (1 + 1e-9)


def test_an_altered_part_is_refused(plan):
    text = plan.to_json()
    one, second = (str(p.exact_cost) for p in plan.groups[:2])
    for cost in (one, second):
        with refused("plan.integers-of-another-cost"):
            fn.Plan.from_json(text.replace(f'"{cost}"', '"1/7"', 1))
    with refused("plan.unknown-mechanism"):
        fn.Plan.from_json(text.replace('"mechanism":"projection","strategy"', '"mechanism":"staircase","strategy"'))


def test_numbers_of_one_kind_of_noise_are_added_up_with_an_error(plan, tmp_path):
    released = fn.release(plan, COUNTS, ledger=tmp_path / "ledger.db")
    single = released.sum("a by b", a="x"), released.sum("few", a="x")
    joint = released.estimate({"a by b": np.ones((3, 6)), "few": np.ones(3)})
    assert joint.std_error == pytest.approx(np.hypot(released.sum("a by b").std_error, released.sum("few").std_error))
    assert all(s.moe == pytest.approx(1.959963984540054 * s.std_error) for s in (*single, joint))
    both = released.estimate({"a by b": np.ones((3, 6)), "by b": np.ones(6)})
    assert both.std_error == pytest.approx(np.hypot(released.sum("a by b").std_error, released.sum("by b").std_error))
    assert both.moe == pytest.approx(sum(released.sum(x, confidence=0.975).moe for x in ("a by b", "by b")))


def test_plans_are_equal_if_their_hashes_are(plan):
    read = fn.Plan.from_json(plan.to_json())
    other = fn.plan(plan.groups[0].publication)
    assert (read == plan, hash(read) == hash(plan), {read, plan, other}) == (True, True, {plan, other})
    assert (plan == other, plan == plan.hash) == (False, False)


def test_properties_of_one_part_are_refused_for_several(plan):
    for ask in ("bound", "gap", "table_part"):
        with refused("plan.several-parts"):
            getattr(plan, ask)


def test_questions_without_tables_are_a_plan(tmp_path):
    plan = fn.plan(fn.Workload(DOMAIN, []), questions=[MEDIAN])
    assert (plan.loss.epsilon, plan.loss.rho) == (Fraction(1, 2), Fraction(1, 8))
    released = fn.release(plan, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "release")
    assert released.charge.epsilon == Fraction(1, 2)
    assert fn.verify(tmp_path / "release").ok
    assert sorted(p.name for p in (tmp_path / "release").iterdir()) == [
        "finite.csv", "finite.parquet", "plan.json", "release.json", "tables",
    ]  # fmt: skip
    assert fn.Release.read(tmp_path / "release").finite == released.finite


def test_a_specification_says_it(plan):
    text = fn.Spec.from_publication(both()).to_toml()
    assert text.count("[[further_tables]]") == 2
    parsed = fn.Spec.from_toml(text).publication()
    assert parsed == both()
    single = 'questions = [{name = "n", query = "count", people = 9, epsilon = 1}]\n[domain.a]\ntype = "categorical"\n'
    assert not fn.Spec.from_toml(single + 'codes = ["x"]').publication().groups


def test_a_cap_is_for_all_parts(plan):
    publication = replace(both(), cap=fn.Budget(rho=plan.groups[0].exact_rho * 2))
    with refused("plan.questions-exceed-cap"):
        fn.plan(publication)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (tables, "spec.nothing-to-publish"),
        (lambda: tables(questions=(MEDIAN,), further_tables=(tables(fn.table("b", margin=1)),)), "spec.tables-missing"),
        (lambda: tables(questions=(MEDIAN,), budget=fn.Budget(rho=1)), "spec.tables-missing"),
        (lambda: tables(fn.table("b", margin=1), further_tables=(tables(fn.table("b", margin=2)),)), "spec.name-twice"),
        (
            lambda: tables(
                fn.table("b", margin=1, name="a b"), further_tables=(tables(fn.table("b", margin=2, name="A_b")),)
            ),
            "workload.file-name-twice",
        ),
        (
            lambda: tables(
                fn.table("b", margin=1), further_tables=(tables(fn.table("a", margin=2), questions=(MEDIAN,)),)
            ),
            "spec.part-with-shared-settings",
        ),
        (
            lambda: tables(
                fn.table("b", margin=1),
                further_tables=(tables(fn.table("a", margin=2), source=fn.DataSource("other")),),
            ),
            "spec.parts-of-different-records",
        ),
        (
            lambda: tables(fn.table("b", margin=1), privacy="auto", further_tables=(tables(fn.table("a", margin=2)),)),
            "spec.parts-free-or-auto",
        ),
        (lambda: tables(fn.table("b", margin=1, name="median"), questions=(MEDIAN,)), "spec.name-twice"),
    ],
)
def test_incompatible_parts_are_refused(make, code):
    with refused(code):
        make()
