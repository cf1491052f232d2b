import json
from dataclasses import replace

import pytest

import fitnoise as fn
from designs import remade
from fitnoise.mechanisms import _base
from fitnoise.mechanisms.projection.mechanism import PROJECTION
from fitnoise.mechanisms.registry import PLANNERS, planner_by_name, unsuitable
from fitnoise.messages import LANGUAGES, Message, translator
from fitnoise.planning.plan import Plan
from fitnoise.request.documents import Spec
from laws.plans import check_answer, check_mechanism, check_plan
from refused import refused
from zoo import QUESTIONS, REQUESTS


def test_plan_laws(any_plan):
    check_plan(any_plan)


def test_mechanism_laws(any_plan, rng):
    check_mechanism(any_plan, rng)


def test_every_mechanism_has_a_request():
    assert sorted(REQUESTS) == sorted(x.mechanism.name for x in PLANNERS)


@pytest.mark.parametrize("planner", PLANNERS, ids=lambda x: x.mechanism.name)
def test_planner_of_the_list_satisfies_its_protocols(planner):
    """It supports a request of its own, and states each reason against others in every language."""
    assert isinstance(planner, _base.Planner)
    assert isinstance(planner.mechanism, _base.TableMechanism)
    assert isinstance(planner.mechanism.codec, _base.Codec)
    assert planner.supports(REQUESTS[planner.mechanism.name]()) is None
    for request in (make() for make in REQUESTS.values()):
        reason = planner.supports(request)
        assert reason is None or all(translator(language).write(reason) for language in LANGUAGES)
        is_listed = planner.mechanism.name in unsuitable(request)
        assert is_listed == (reason is not None and planner.mechanism.privacy is request.privacy)


PLACES = fn.Domain(g=fn.Hierarchy(["a", "b"], [(1, 1), (2, 2), (2, 3)]), o=fn.Ordered(0, 3), x=fn.Amount(0, 8, step=1))
PATTERN = {"unit": fn.PrivacyUnit("person", 2, id="id", once_per=["o"])}
BUDGETS = {"cell_budgets": fn.CellBudgets(("o",), (1.0, 1.0, 1.0, 0.5))}
TOTAL_ERROR = {"objective": fn.Objective("total-error")}
BY_VALUE = fn.ByAttribute("o", (1.0, 1.0, 1.0, 2.0))


@pytest.mark.parametrize(
    ("name", "reason", "table", "settings"),
    [
        ("fit-for-use-by-level", "goal", fn.table("b", variance=1), TOTAL_ERROR),
        ("fit-for-use-by-level", "cell_budgets", fn.table("b", variance=1), BUDGETS),
        ("fit-for-use-by-level", "levels", fn.table("o", variance=1), {}),
        ("fit-for-use-by-level", "series", fn.table("b", "o", variance=1), {"series": "o"}),
        ("fit-for-use-by-axis", "series", fn.table("b", "o", variance=1), {"series": "o"}),
        ("fit-for-use-by-axis", "pattern", fn.table("b", variance=1), PATTERN),
        ("fit-for-use-by-axis", "amounts", fn.table("o", sum="x", variance=1), {}),
        (
            "fit-for-use-by-axis",
            "varying_targets",
            fn.table("o", variance=BY_VALUE),
            TOTAL_ERROR,
        ),
        ("fit-for-use", "privacy", fn.table("o", variance=1), {"privacy": "pure"}),
        ("projection", "no_small_database", fn.table("o", variance=1), {}),
    ],
)
def test_planner_that_does_not_suit_states_the_reason(name, reason, table, settings):
    planner = planner_by_name(name)
    message = planner.supports(fn.Publication(fn.Workload(PLACES, [table]), **settings))
    assert message is not None
    assert message.id == f"report.unsuitable.{reason}"


def test_file_holds_an_equal_plan(any_plan, tmp_path):
    file = any_plan.save(tmp_path / "plan.json")
    loaded_plan = fn.Plan.load(file)
    assert file.read_bytes().decode() == any_plan.to_json()
    assert (loaded_plan, hash(loaded_plan)) == (any_plan, hash(any_plan))
    assert {any_plan: 1}[loaded_plan] == 1


def test_file_of_a_plan_replaces_plans_only(tmp_path):
    """An equal plan made again is an equal key, and another plan is not."""
    plan, same, other = (fn.plan(fn.Workload(PLACES, [fn.table("o", margin=x)])) for x in (4, 4, 5))
    assert (plan == same, plan == other, hash(plan) == hash(same)) == (True, False, True)
    file = plan.save(str(tmp_path / "plan.json"))
    assert fn.Plan.load(other.save(file)) == other
    file.write_text("data")
    with refused("release.file-is-no-plan"):
        plan.save(file)
    with refused("release.file-is-no-plan"):
        plan.save(tmp_path)
    with refused("release.place-not-writable"):
        plan.save(tmp_path / "absent" / "plan.json")
    assert (file.read_text(), [*tmp_path.iterdir()]) == ("data", [file])
    for wrong, code in ((file, "plan.plan-not-json"), (tmp_path / "absent", "release.file-not-readable")):
        with refused(code):
            fn.Plan.load(wrong)


UNEVEN = fn.Workload(PLACES, [fn.table("a", variance=2), fn.table("b", "o", variance=3)])
GAUSSIAN = ["fit-for-use", "fit-for-use-by-axis", "fit-for-use-by-level", "fit-for-use-by-place"]


def test_mechanisms_that_are_named_answer_the_same_tables():
    plans = [fn.plan(UNEVEN, mechanism=name) for name in GAUSSIAN]
    assert [p.table_part.mechanism.name for p in plans] == GAUSSIAN
    assert max(p.bound for p in plans) <= min(p.table_part.objective_value for p in plans)
    for name, p in zip(GAUSSIAN, plans, strict=True):
        part = p.table_part
        assert (part.variances <= part.decomposition.variances * (1 + 1e-15)).all()
        document = json.loads(p.to_json())
        assert document["spec"]["mechanism"] == name
        assert Plan.from_json(p.to_json()).hash == p.hash
        other = GAUSSIAN[GAUSSIAN.index(name) - 1]
        with refused("plan.mechanism-does-not-suit"):
            remade(p, publication=replace(p.publication, mechanism=other))
    pattern = planner_by_name("fit-for-use-by-place").supports(fn.Publication(UNEVEN, **PATTERN))
    assert pattern == Message("report.unsuitable.pattern")
    assert fn.plan(UNEVEN, mechanism="pure-fit-for-use", privacy="pure").table_part.mechanism.name == "pure-fit-for-use"


def test_tables_without_a_named_mechanism_have_no_such_key():
    plan = fn.plan(UNEVEN)
    assert "mechanism" not in json.loads(plan.to_json())["spec"]


def test_mechanism_that_cannot_answer_the_tables_is_refused():
    with refused("plan.unknown-mechanism") as caught:
        fn.plan(UNEVEN, mechanism="magic")
    assert all(repr(x.mechanism.name) in caught.value.needed for x in PLANNERS)
    with refused("plan.mechanism-does-not-suit") as caught:
        fn.plan(UNEVEN, mechanism="projection")
    assert caught.value.given.endswith("the specification has no size of a small database.")
    for name in GAUSSIAN:
        with refused("plan.seconds-with-gaussian-noise"):
            fn.plan(UNEVEN, mechanism=name, seconds=1)
    varying = fn.table("b", variance=fn.ByAttribute("b", {1: 2.0}, default=5.0))
    with refused("plan.levels-with-varying-targets"):
        fn.plan(fn.Workload(PLACES, [varying, fn.table("a", variance=2)]), mechanism="fit-for-use-by-level")


def test_mechanism_is_named_for_tables_with_one_kind_of_noise():
    with refused("spec.mechanism-with-auto"):
        fn.Publication(UNEVEN, privacy="auto", mechanism="fit-for-use")
    query = next(iter(QUESTIONS.values()))
    with refused("spec.tables-missing"):
        fn.Publication(fn.Workload(query[0], []), questions=(query[1],), mechanism="fit-for-use")
    small = REQUESTS["projection"]()
    assert replace(small, mechanism="projection") == small
    publication = fn.Publication(UNEVEN, mechanism="fit-for-use-by-axis")
    assert fn.compare(publication).gaussian.mechanism.name == "fit-for-use"


def test_further_tables_name_a_mechanism_of_their_own():
    further = fn.Publication(fn.Workload(PLACES, [fn.table("o", variance=9)]), mechanism="fit-for-use-by-axis")
    publication = fn.Publication(UNEVEN, further_tables=(further,))
    assert Spec.from_publication(publication).publication() == publication
    assert [g.mechanism.name for g in fn.plan(publication).groups] == ["fit-for-use", "fit-for-use-by-axis"]


def test_every_mechanism_keeps_its_promises(any_request, rng):
    name, plan = any_request
    assert plan.order.mechanism == name
    check_mechanism(plan, rng)


@pytest.mark.parametrize(
    ("task", "protocol", "member"),
    [
        ("errors", _base.TableErrors, "covariance"),
        ("proof", _base.Proof, "certificate"),
        ("intervals", _base.Intervals, "half_widths"),
        ("descriptions", _base.Descriptions, "describe_noise"),
        ("estimator", _base.BiasedEstimator, "rebuild"),
    ],
)
def test_mechanism_lacking_a_member_is_refused(task, protocol, member):
    with pytest.raises(TypeError, match=member):
        protocol(None)
    with pytest.raises(TypeError, match=member):
        replace(PROJECTION, **{task: protocol})
    with pytest.raises(TypeError, match="read"):
        _base.Codec()
    with pytest.raises(TypeError, match="plan"):
        _base.Planner()


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("unit", [fn.PrivacyUnit(), fn.PrivacyUnit("person", 2, fn.Neighbours.REPLACE_ONE)], ids=str)
def test_answers_to_questions_keep_their_promises(name, unit):
    domain, query = QUESTIONS[name]
    plan = fn.plan(fn.Publication(fn.Workload(domain, []), unit, questions=(query,)))
    (part,) = plan.questions
    check_answer(part)
