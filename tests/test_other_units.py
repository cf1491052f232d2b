"""Several units at once: one measurement, one exact price for each, all charged or none."""

import json
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.kernel import noise
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.messages import document, english
from fitnoise.reading.description import unit_and_bound, unit_message
from fitnoise.request.curves import epsilon_at
from fitnoise.request.documents import Spec
from fitnoise.request.finite_queries import FiniteQuery
from refused import refused

pytestmark = pytest.mark.usefixtures("one_duckdb")

DOMAIN = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 4))
TABLES = [fn.table("sex", margin=9), fn.table(cumulative="age", margin=20)]
PERSON, HOUSEHOLD = fn.PrivacyUnit("person", 3), fn.PrivacyUnit("household", 15)
SWAP = fn.PrivacyUnit("person", 3, fn.Neighbours.REPLACE_ONE)
COUNTS = np.arange(10).reshape(2, 5)


def planned(*others, unit=PERSON, **options):
    return fn.plan(fn.Workload(DOMAIN, TABLES), unit=unit, other_units=others, **options)


@pytest.fixture(scope="module")
def plan():
    return planned(HOUSEHOLD, SWAP)


def account(unit, source="default"):
    return fn.Account(source, unit)


def test_a_household_of_h_persons_pays_h_squared_times_rho_and_h_times_mu_and_epsilon(plan):
    (_, household), (_, swap) = plan.other_losses
    assert household.rho == 25 * plan.loss.rho
    assert plan.unit_summaries[1][1].mu == pytest.approx(5 * plan.loss_summary.mu, rel=1e-12)
    assert plan.loss.rho < swap.rho <= 4 * plan.loss.rho
    pure = planned(HOUSEHOLD, privacy="pure")
    ((_, loss),) = pure.other_losses
    assert (loss.epsilon, loss.rho) == (5 * pure.loss.epsilon, 25 * pure.loss.rho)


def test_without_other_units_no_text_mentions_them():
    separate = planned()
    assert separate.other_losses == ()
    assert "other_units" not in json.loads(separate.to_json())["spec"]["privacy"]


@pytest.mark.parametrize(
    ("also", "unit"),
    [
        ("persons = 5", HOUSEHOLD),
        ("max_records = 15", HOUSEHOLD),
        ('persons = 2\nneighbours = "replace-one"', fn.PrivacyUnit("household", 6, fn.Neighbours.REPLACE_ONE)),
    ],
)
def test_a_specification_names_them(tmp_path, also, unit):
    path = tmp_path / "spec.toml"
    path.write_text(
        f'[privacy]\nunit = "person"\nmax_records = 3\n[[privacy.other_units]]\nunit = "household"\n{also}\n'
        '[domain.sex]\ntype = "categorical"\ncodes = ["f", "m"]\n[[tables]]\nattributes = ["sex"]\nmargin = 9.0\n'
    )
    publication = fn.load_spec(path)
    assert publication.other_units == (unit,)
    assert Spec.from_publication(publication).publication() == publication


@pytest.mark.parametrize(
    ("also", "code"),
    [
        ('unit = "household"', "spec.further-unit-size"),
        ('unit = "household"\npersons = 5\nmax_records = 9', "spec.further-unit-size"),
        ('unit = "household"\npersons = 0', "spec.persons-too-few"),
        ('unit = "household"\npersons = 1000000000000', "spec.max-records-per-unit-invalid"),
        ('unit = "person"\npersons = 1', "spec.unit-twice"),
        ('unit = "Person"\npersons = 1', "spec.units-look-alike"),
        ('unit = "person"\nmax_records = 4', "spec.units-look-alike"),
        ('unit = "household"\npersons = 5\nsize = 4', "spec.unknown-key"),
    ],
)
def test_what_is_no_other_unit_is_refused(tmp_path, also, code):
    path = tmp_path / "spec.toml"
    path.write_text(
        f'[privacy]\nunit = "person"\nmax_records = 3\n[[privacy.other_units]]\n{also}\n'
        '[domain.sex]\ntype = "categorical"\ncodes = ["f", "m"]\n[[tables]]\nattributes = ["sex"]\nmargin = 9.0\n'
    )
    with refused(code):
        fn.load_spec(path)


def test_other_units_are_units_and_stated_once():
    with refused("spec.wrong-type"):
        planned("household")
    one = fn.Publication(fn.Workload(DOMAIN, TABLES[:1]), PERSON)
    second = fn.Publication(fn.Workload(DOMAIN, TABLES[1:]), PERSON, other_units=(HOUSEHOLD,))
    with refused("spec.part-with-shared-settings"):
        fn.Publication(one.workload, PERSON, further_tables=(second,))


def test_a_unit_that_nothing_bounds_is_refused_before_any_data():
    """If the number of records is public, no unit can come or go."""
    query = FiniteQuery("women", QuestionKind.COUNT, people=9, epsilon=Fraction(1), where=((("sex", ("f",)),),))
    swap = fn.PrivacyUnit("record", 1, fn.Neighbours.REPLACE_ONE)
    with refused("plan.cost-of-unit-unbounded"):
        planned(fn.PrivacyUnit(), unit=swap, questions=[query], public=fn.KnownTotals((), "Register"))


def test_each_is_charged_on_its_own_account_or_none_is(plan, tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    (_, household), (_, swap) = plan.other_losses
    with fn.Ledger(path) as ledger:
        fn.release(plan, COUNTS, ledger=ledger)
        units = (PERSON, HOUSEHOLD, SWAP)
        assert ledger.accounts() == [account(u) for u in units]
        spent = [ledger.balance(account(u)).spent for u in units]
        assert spent == [ceil_dyadic(x) for x in (plan.loss.rho, household.rho, swap.rho)]
        ledger.set_cap(account(HOUSEHOLD), 2 * household.rho + Fraction(1, 10**6))
        fn.release(plan, COUNTS, ledger=ledger, again=True)
        before = [ledger.balance(account(u)).spent for u in units]
        monkeypatch.setattr(noise, "discrete_gaussians", None)  # no noise is drawn
        with refused("ledger.over-cap"):
            fn.release(plan, COUNTS, ledger=ledger, again=True)
        assert [ledger.balance(account(u)).spent for u in units] == before == [2 * x for x in spent]
        twin = planned(fn.PrivacyUnit("hоusehold", 15))
        with refused("ledger.account-looks-alike"):
            fn.release(twin, COUNTS, ledger=ledger)


def test_a_smaller_promise_of_the_same_unit_pays_what_the_larger_does(tmp_path):
    """Data that are declared to have households of fifteen records have them also where an account says six."""
    six = fn.PrivacyUnit("household", 6)
    plan = planned(HOUSEHOLD)
    ((_, loss),) = plan.other_losses
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        fn.release(planned(six), COUNTS, ledger=ledger)
        before = ledger.balance(account(six)).spent
        fn.release(plan, COUNTS, ledger=ledger)
        assert ledger.balance(account(six)).spent == before + ceil_dyadic(loss.rho)


def test_an_account_that_a_charge_opened_counts_what_came_before(tmp_path):
    """A household's account, opened by a release that names it, is charged the bound of earlier ones."""
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        fn.release(planned(), COUNTS, ledger=ledger)
        charged = ledger.balance(account(PERSON)).spent
        assert ledger.accounts() == [account(PERSON)]
        plan = planned(HOUSEHOLD)
        fn.release(plan, COUNTS, ledger=ledger)
        ((_, loss),) = plan.other_losses
        assert ledger.balance(account(HOUSEHOLD)).spent == 25 * charged + ceil_dyadic(loss.rho)


def test_a_release_states_what_each_unit_pays_and_is_verified(plan, tmp_path):
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        fn.release(plan, COUNTS, ledger=ledger, directory=tmp_path / "r")
        assert fn.verify(tmp_path / "r", ledger=ledger).ok
    path = tmp_path / "r" / "release.json"
    stated = json.loads(path.read_text())["charge"]["other_units"]
    assert [x["privacy_unit"] for x in stated] == [document(unit_message(x)) for x in (HOUSEHOLD, SWAP)]
    (_, household), _ = plan.other_losses
    assert (stated[0]["rho"], stated[0]["epsilon"]) == (str(household.rho), epsilon_at(household, 1e-6))
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace(stated[0]["rho"], stated[1]["rho"]))
    assert not fn.verify(tmp_path / "r").ok


def test_a_plan_shows_them_in_a_table(plan):
    from fitnoise.interfaces.render import lines
    from fitnoise.interfaces.reports.plans import plan_report

    text = "\n".join(lines(plan_report(plan)))
    assert "each unit is charged to its own account, all units or none" in text
    for unit in (PERSON, HOUSEHOLD, SWAP):
        assert english(*unit_and_bound(unit)) in text
    (_, household), _ = plan.other_losses
    assert f"{float(household.rho):.7f}" in text
