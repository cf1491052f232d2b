from laws import check_mechanism, check_plan


def test_plan_laws(any_plan):
    check_plan(any_plan)


def test_mechanism_laws(any_plan, rng):
    check_mechanism(any_plan, rng)
