from dataclasses import replace

import pytest

import fitnoise as fn
from fitnoise.mechanisms import _base
from fitnoise.mechanisms.projection.mechanism import PROJECTION
from fitnoise.mechanisms.registry import PLANNERS
from laws.plans import check_answer, check_mechanism, check_plan
from zoo import QUESTIONS, REQUESTS


def test_plan_laws(any_plan):
    check_plan(any_plan)


def test_mechanism_laws(any_plan, rng):
    check_mechanism(any_plan, rng)


def test_every_mechanism_has_a_request():
    assert list(REQUESTS) == list(PLANNERS)


def test_every_mechanism_keeps_its_promises(any_request, rng):
    name, plan = any_request
    assert plan.mechanism == name
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
