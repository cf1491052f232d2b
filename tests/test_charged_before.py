"""A plan file that states a higher charge than is proven today is read, and charged what it states, everywhere.

The sample was planned and released before the dearest of too many sets of months was found: it was charged a bound.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.errors import PlanError
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel.profiles import ceil_dyadic

SAMPLE = Path(__file__).parent / "data" / "charged_before"
TEXT = (SAMPLE / "release" / "plan.json").read_bytes().decode()
STATED = Fraction(json.loads(TEXT)["cost"]["cost_squared"])


@pytest.fixture(scope="module")
def plan():
    return fn.Plan.from_json(TEXT)


def stating(cost, text=TEXT):
    document = json.loads(text)
    document["cost"]["cost_squared"] = cost
    return json.dumps(document, separators=(",", ":")) + "\n"


def test_it_is_read_as_it_is(plan):
    (part,) = plan.groups
    assert plan.to_json() == TEXT
    assert part.own_loss.rho * 2 < STATED * Fraction(92, 100)
    assert part.stated == plan.exact_cost == STATED
    assert plan.exact_rho == plan.order.loss.rho == STATED / 2
    assert plan.gap == pytest.approx(float(STATED) / plan.bound - 1, rel=1e-9)
    told = " ".join(x for s in plan_report(plan).sections for x in s.sentences)
    assert "a plan made anew of these integers is charged" in told


def test_its_release_is_verified():
    found = fn.verify(SAMPLE / "release")
    assert found.ok, found
    assert "made when less was known" in found.checks[0].found


def test_it_is_charged_what_it_states(plan, tmp_path):
    """Not what is proven today: the ledger, the release and the plan say one thing."""
    data = pd.DataFrame({"month": np.arange(1, 25)})
    made = fn.release(plan, data, ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "release")
    with fn.Ledger(tmp_path / "ledger.sqlite") as ledger:
        entry, _ = ledger.entries()
        assert entry.rho == ceil_dyadic(STATED / 2)
        assert fn.verify(tmp_path / "release", ledger=ledger).ok
    assert json.loads((tmp_path / "release" / "release.json").read_text())["charge"]["rho"] == str(STATED / 2)
    assert fn.Release.read(tmp_path / "release") == made


def test_one_that_states_less_than_is_proven_is_refused(plan):
    (part,) = plan.groups
    own = part.own_loss.cost_squared
    assert fn.Plan.from_json(stating(str(own))).groups[0].stated is None
    assert fn.Plan.from_json(stating(str(own + Fraction(1, 2**90)))).exact_cost > own
    for less in (own - Fraction(1, 2**90), own / 2, Fraction(0)):
        with pytest.raises(PlanError, match="do not cost what it says"):
            fn.Plan.from_json(stating(str(less)))


@pytest.mark.parametrize("text", ["inf", "1e9999999", "0.4", "1/0", "-1/3", "+1/2", " 1/2", "1_0", "٣", "nan", ""])
def test_what_is_no_fraction_is_refused(text):
    with pytest.raises(PlanError, match="do not cost what it says"):
        fn.Plan.from_json(stating(text))


@pytest.mark.parametrize("text", ["2/4", "07", "4/2"])
def test_a_fraction_is_stated_in_lowest_terms(text):
    with pytest.raises(PlanError, match=r"otherwise on cost\.cost_squared"):
        fn.Plan.from_json(stating(text))


@pytest.mark.parametrize("more", [{}, {"privacy": "pure", "unit": fn.PrivacyUnit("person", 2, once_per=["a"])}])
def test_without_a_pattern_and_of_pure_noise_the_charge_is_exact(more):
    domain = fn.Domain(a=fn.Categorical(["x", "y", "z"]), b=fn.Ordered(0, 3))
    other = fn.plan(fn.Workload(domain, [fn.table("a", "b", margin=10), fn.table("a", margin=12)]), **more)
    with pytest.raises(PlanError, match="do not cost what it says"):
        fn.Plan.from_json(stating(str(other.exact_cost + 1), other.to_json()))
