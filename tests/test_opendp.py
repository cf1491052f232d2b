"""Plans as measurements of OpenDP: the map, the two accountants, and the metrics."""

import sys
from fractions import Fraction

import opendp.prelude as dp
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.errors import FitnoiseError, PlanError, ReleaseError
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.opendp import make_measurement

SEXES = ["f", "m"]
PEOPLE = pd.DataFrame({"sex": SEXES * 50, "person": range(100)})
REPLACED = fn.Neighbours.REPLACE_ONE

UNITS = {
    "record": fn.PrivacyUnit(),
    "person": fn.PrivacyUnit("person"),
    "replaced record": fn.PrivacyUnit(neighbours=REPLACED),
    "three records": fn.PrivacyUnit("person", 3),
    "three replaced records": fn.PrivacyUnit("person", 3, REPLACED),
    "id": fn.PrivacyUnit("person", 2, id="person"),
    "shares": fn.PrivacyUnit("person", id="person", count="shares"),
    "once per sex": fn.PrivacyUnit("person", 2, once_per=("sex",)),
}


@pytest.fixture(autouse=True)
def features():
    """Enable the features for one test, so that no other test depends on them."""
    dp.enable_features("contrib", "honest-but-curious")
    yield
    dp.disable_features("honest-but-curious")


def planned(unit=None, margin=5, **settings):
    workload = fn.Workload(fn.Domain(sex=fn.Categorical(SEXES)), [fn.table("sex", margin=margin)])
    if unit == UNITS["replaced record"] and settings.get("privacy") != "pure":
        settings["public"] = fn.KnownTotals((), "Register")
    return fn.plan(workload, unit=unit, source=fn.DataSource("people"), **settings)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "budget.sqlite"


def charges(file):
    """Return the exact ρ of each charge of a ledger; none if there is no ledger."""
    if not file.exists():
        return []
    with fn.Ledger(file) as book:
        return [Fraction(x.rho) for x in book.entries() if x.kind == "charge"]


PRIVACIES = [(unit, "zcdp") for unit in UNITS] + [("record", "pure"), ("replaced record", "pure"), ("id", "pure")]


@pytest.mark.parametrize(("unit", "privacy"), PRIVACIES)
def test_the_map_is_never_below_the_charge(unit, privacy, file, tmp_path):
    plan, totals = planned(UNITS[unit], privacy=privacy), {}
    if plan.publication.public is not None:
        (tmp_path / "number.csv").write_text("number\n100\n")
        sentence = "The numbers in number.csv were public before and were not computed from these data."
        totals = {"public": tmp_path / "number.csv", "public_confirm": sentence}
    measurement = make_measurement(plan, ledger=file, **totals)
    assert isinstance(measurement(PEOPLE), fn.Release)
    (charged,) = charges(file)
    assert 0 <= Fraction(measurement.map(1)) - charged <= charged / 2**50
    assert measurement.map(0) == 0
    for times in (1, 2, 3, 1000):
        exact = times**2 * plan.loss.rho
        assert 0 <= Fraction(measurement.map(times)) - exact <= exact / 2**50 + Fraction(1, 2**64)


@pytest.mark.parametrize("unit", ["record", "three records", "three replaced records"])
def test_a_group_costs_what_the_kernel_computes_for_its_records(unit, file):
    """A group of k units of g records is a unit of k g records, whose price follows from the integers.

    Single replaced records are left out: a unit of several could also add records, which their metric excludes.
    """
    plan, records = planned(UNITS[unit]), UNITS[unit].max_records
    measurement = make_measurement(plan, ledger=file)
    for times in (1, 2, 7):
        group = fn.PrivacyUnit("group", times * records, UNITS[unit].neighbours)
        assert 0 <= Fraction(measurement.map(times)) - plan.order.cost(group).rho <= plan.loss.rho / 2**40


@pytest.mark.parametrize(
    ("unit", "metric"),
    [
        ("record", "SymmetricDistance()"),
        ("person", "SymmetricDistance()"),
        ("replaced record", "ChangeOneDistance()"),
        ("three records", "changed units: one person (at most 3 records), add-or-remove-one"),
        ("id", "changed units: one person (by 'person'), add-or-remove-one"),
    ],
)
def test_the_metric_names_the_unit(unit, metric, file):
    measurement = make_measurement(planned(UNITS[unit]), ledger=file)
    assert metric in str(measurement.input_metric)
    assert measurement.output_measure == dp.zero_concentrated_divergence()


@pytest.mark.parametrize("distance", [-1, 0.5, True, "1", None])
def test_a_distance_that_is_no_count_is_refused(distance, file):
    measurement = make_measurement(planned(UNITS["id"]), ledger=file)
    with pytest.raises(dp.OpenDPException, match="is the number of changed units of the kind: one person"):
        measurement.map(distance)
    assert charges(file) == []


def test_a_context_and_the_ledger_charge_each_release(file):
    """Two plans of one source share a context; a refusal of either accountant releases nothing."""
    costly, other = planned(margin=5), planned(margin=10)
    measurements = [make_measurement(plan, ledger=file) for plan in (costly, other)]
    space = measurements[0].input_space
    assert space == measurements[1].input_space
    total = 2 * costly.rho + other.rho
    context = dp.Context.compositor(
        data=PEOPLE,
        privacy_unit=(space[1], 1),
        privacy_loss=dp.loss_of(rho=total * 1.01),
        domain=space[0],
    )
    releases = [context(m) for m in (measurements[0], measurements[1], measurements[0])]
    assert [list(x) for x in releases] == [["sex"]] * 3
    assert releases[0].entry != releases[2].entry  # a draw of its own for each call
    assert charges(file) == [ceil_dyadic(plan.loss.rho) for plan in (costly, other, costly)]
    assert context.current_privacy_loss() >= total
    with fn.Ledger(file) as book:
        book.set_cap(costly.order.account, sum(charges(file)), reason="no more")
    wide = dp.Context.compositor(
        data=PEOPLE, privacy_unit=(space[1], 1), privacy_loss=dp.loss_of(rho=1.0), domain=space[0]
    )
    with pytest.raises(dp.OpenDPException, match="does not fit into"):
        wide(measurements[0])
    assert len(charges(file)) == 3


def test_a_refusal_of_opendp_returns_no_release(file):
    """Some compositors of OpenDP call the measurement before they refuse its result; the ledger keeps such a charge."""
    measurement = make_measurement(planned(), ledger=file)
    space, measure, cost = measurement.input_space, dp.zero_concentrated_divergence(), measurement.map(1)
    compositor = dp.c.make_adaptive_composition(*space, measure, d_in=1, d_mids=[cost / 2])(PEOPLE)
    with pytest.raises(dp.OpenDPException, match="insufficient budget"):
        compositor(measurement)
    assert charges(file) == []
    odometer = dp.c.make_fully_adaptive_composition(*space, measure)
    limited = dp.c.make_privacy_filter(odometer, d_in=1, d_out=cost * 1.5)(PEOPLE)
    limited(measurement)
    with pytest.raises(dp.OpenDPException, match="would exceed"):
        limited(measurement)
    assert len(charges(file)) == 2


def test_compositors_and_odometers_take_the_measurement(file):
    plan = planned()
    measurement = make_measurement(plan, ledger=file)
    space, measure = measurement.input_space, dp.zero_concentrated_divergence()
    both = dp.c.make_composition([measurement, measurement])
    assert both.map(1) >= 2 * plan.rho
    assert [list(x) for x in both(PEOPLE)] == [["sex"]] * 2
    answer = dp.c.make_adaptive_composition(*space, measure, d_in=1, d_mids=[measurement.map(1)])(PEOPLE)
    assert list(answer(measurement)) == ["sex"]
    odometer = dp.c.make_fully_adaptive_composition(*space, measure)(PEOPLE)
    assert list(odometer(measurement)) == ["sex"]
    assert odometer.privacy_loss(1) == measurement.map(1)
    assert odometer.privacy_loss(2) == measurement.map(2)
    assert len(charges(file)) == 4


def test_measurements_of_other_sources_or_units_do_not_compose(file):
    workload = fn.Workload(fn.Domain(sex=fn.Categorical(SEXES)), [fn.table("sex", margin=5)])
    elsewhere = fn.plan(workload, source=fn.DataSource("others"))
    ours = make_measurement(planned(), ledger=file)
    for plan in (elsewhere, planned(UNITS["id"])):
        with pytest.raises(dp.OpenDPException, match="must be the same"):
            dp.c.make_composition([ours, make_measurement(plan, ledger=file)])


def test_measurements_of_opendp_compose_with_a_plan(file):
    plan = planned()
    measurement = make_measurement(plan, ledger=file)
    column = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    sexes = dp.t.make_user_transformation(*measurement.input_space, *column, lambda x: x["sex"].tolist(), lambda d: d)
    counts = dp.t.make_count_by_categories(*column, SEXES, MO=dp.L2Distance[float], null_category=False)
    both = dp.c.make_composition([measurement, sexes >> counts >> dp.m.then_gaussian(10.0)])
    release, numbers = both(PEOPLE)
    assert (list(release), len(numbers)) == (["sex"], 2)
    assert both.map(1) >= plan.rho + 0.005


@pytest.mark.parametrize("form", [str, lambda path: path, lambda path: [str(path)]])
def test_the_data_may_be_files(form, file, tmp_path):
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    release = make_measurement(planned(margin=0.5), ledger=file)(form(tmp_path / "people.csv"))
    assert release["sex"]["value"].tolist() == pytest.approx([50, 50], abs=3)


def test_an_error_of_the_data_charges_nothing(file):
    measurement = make_measurement(planned(), ledger=file)
    with pytest.raises(dp.OpenDPException, match=r"sex"):
        measurement(pd.DataFrame({"sex": ["x"]}))
    assert charges(file) == []


def test_a_series_is_refused(file):
    months = fn.Domain(month=fn.Categorical(["1", "2"]))
    plan = fn.plan(fn.Workload(months, [fn.table("month", margin=5)]), series="month", source=fn.DataSource("people"))
    with pytest.raises(PlanError) as refused:
        make_measurement(plan, ledger=file)
    assert refused.value.code == "plan.measurement-of-series"


def test_a_missing_package_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ReleaseError, match=r"fitnoise\[opendp\]") as refused:
        make_measurement(planned(), ledger=file)
    assert refused.value.code == "release.package-missing"


def test_the_features_are_enabled_by_the_caller(file):
    dp.disable_features("honest-but-curious")
    with pytest.raises(dp.OpenDPException, match="honest-but-curious"):
        make_measurement(planned(), ledger=file)


def test_a_ledger_in_memory_and_an_argument_that_is_no_plan_are_refused():
    with pytest.raises(dp.OpenDPException, match="in memory"):
        make_measurement(planned(), ledger=":memory:")(PEOPLE)
    with pytest.raises(FitnoiseError) as refused:
        make_measurement("plan.json", ledger="budget.sqlite")
    assert refused.value.code == "release.wrong-type"
