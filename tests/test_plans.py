import pytest

import fitnoise as fn
from fitnoise.mechanisms.registry import MECHANISMS
from laws.plans import check_answer, check_mechanism, check_plan
from zoo import QUESTIONS, REQUESTS


def test_plan_laws(any_plan):
    check_plan(any_plan)


def test_mechanism_laws(any_plan, rng):
    check_mechanism(any_plan, rng)


def test_every_mechanism_has_a_request():
    assert list(REQUESTS) == list(MECHANISMS)


def test_every_mechanism_keeps_its_promises(any_request, rng):
    name, plan = any_request
    assert plan.mechanism == name
    check_mechanism(plan, rng)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("unit", [fn.PrivacyUnit(), fn.PrivacyUnit("person", 2, fn.Neighbours.REPLACE_ONE)], ids=str)
def test_answers_to_questions_keep_their_promises(name, unit):
    domain, query = QUESTIONS[name]
    plan = fn.plan(fn.Publication(fn.Workload(domain, []), unit, questions=(query,)))
    (part,) = plan.questions
    check_answer(part)
