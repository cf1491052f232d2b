"""A promise binds its cells: what is promised of `month` holds for the cells that were declared, and for no others."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.kernel.domain import axis_key, cell_key
from fitnoise.kernel.ledger import Account, Ledger
from fitnoise.kernel.order import account
from fitnoise.kernel.profiles import ceil_dyadic
from refused import refused

ONCE = fn.PrivacyUnit("person", 12, once_per=["month"])
WARD = fn.Categorical([f"w{i}" for i in range(5)])
OTHERS = {
    "quarters": fn.Binned([4, 7, 10]),
    "clipped": fn.Ordered(1, 2, clip=True),
    "another column": fn.Ordered(1, 12, column="visited"),
}


def planned(month, unit=ONCE, *tables, **options):
    tables = tables or (fn.table("ward", margin=20),)
    return fn.plan(fn.Workload(fn.Domain(month=month, ward=WARD), list(tables)), unit=unit, **options)


def released(plan, ledger, **options):
    return fn.release(
        plan, np.zeros(plan.publication.workload.domain.shape, dtype=int), ledger=ledger, **options
    ).charge


@pytest.fixture(scope="module")
def months():
    return planned(fn.Ordered(1, 12))


@pytest.fixture(scope="module")
def others():
    return {name: planned(month) for name, month in OTHERS.items()}


# --- the ledger -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OTHERS)
def test_one_release_passes_under_a_cap_whatever_month_is_made_to_mean(months, others, name):
    """A person with one record in each of twelve months moves twelve of one ward: g², by which one release is all.

    Charged to one account by its sentence, 35 releases of clipped months passed, and the person's loss was ρ = 24.2.
    """
    capped, plan = months.order.account, others[name]
    cap = ceil_dyadic(months.loss.rho)
    assert float(cap) == pytest.approx(0.6915, abs=5e-5)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(capped, cap)
        with refused("ledger.account-beside-cap"):
            ledger.quote(plan.order.account, plan.order.ledger_loss())
        ledger.set_cap(plan.order.account, Fraction(1000))
        charge = partial(ledger.charge, plan.order.account, plan.order.ledger_loss(), {"plan": plan.hash})
        charge(also=plan.order.losses_of_units(ledger.accounts()))
        for _ in range(3):
            with refused("ledger.over-cap"):
                charge(also=plan.order.losses_of_units(ledger.accounts()))
        assert sum(e.kind == "charge" for e in ledger.entries()) == 1
        passed = {"quarters": 8, "clipped": 35, "another column": 1}[name]  # as many as their own prices leave room for
        assert cap // ceil_dyadic(plan.loss.rho) == passed
        assert float(35 * months.loss.rho) == pytest.approx(24.2, abs=5e-3)
        assert ledger.balance(capped).spent == cap
        assert ledger.balance(plan.order.account).spent == ceil_dyadic(plan.loss.rho) <= cap


def test_a_release_charges_a_promise_about_other_cells_what_records_anywhere_cost(months, others, tmp_path):
    """Stated by the release; and a bound that is no less of one that was there before the account."""
    undivided = ceil_dyadic(planned(fn.Ordered(1, 12), fn.PrivacyUnit("person", 12)).loss.rho)
    assert undivided == ceil_dyadic(9 * others["quarters"].loss.rho)
    with Ledger(tmp_path / "ledger.db") as ledger:
        one = released(months, ledger)
        assert list(one.prices) == [months.order.account]
        second = released(others["quarters"], ledger)
        assert list(second.prices) == [others["quarters"].order.account, months.order.account]
        assert second.price(months.order.account).rho == undivided
        assert one.price(others["quarters"].order.account).rho == 144 * one.rho >= undivided
        assert released(months, ledger, again=True).price(others["quarters"].order.account).rho == undivided
        spent = [ledger.balance(a).spent for a in ledger.accounts()]
        assert spent == [2 * one.rho + undivided, 144 * one.rho + second.rho + undivided]


def test_what_keeps_to_its_promise_adds_up_in_one_account(months):
    """This holds for any other contents of the plans, names of cells, and counted records."""
    labelled = planned(fn.Ordered(1, 12), ONCE, fn.table("month", margin=30))
    filtered = planned(fn.Ordered(1, 12), source=fn.DataSource(where={"year": 2024}, outside_domain="drop"))
    assert {p.order.account for p in (months, labelled, filtered)} == {months.order.account}
    with Ledger(":memory:") as ledger:
        for plan in (months, labelled, months):
            ledger.charge(plan.order.account, plan.order.ledger_loss(), {"plan": plan.hash})
        spent = 2 * ceil_dyadic(months.loss.rho) + ceil_dyadic(labelled.loss.rho)
        assert ledger.balance(months.order.account).spent == spent


def test_a_release_is_composed_with_none_under_another_promise(months, others, tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        released(months, ledger)
        domain = fn.Domain(month=OTHERS["quarters"], ward=WARD)
        publication = fn.Publication(
            fn.Workload(domain, [fn.table("ward", margin=20)]), ONCE, composed_with=(months.hash,)
        )
        plan = fn.plan(publication)
        with refused("ledger.composed-plan-not-charged"):
            released(plan, ledger)
        assert [e.kind for e in ledger.entries()] == ["charge", "answers"]


# --- the key ----------------------------------------------------------------------------------------------

DATES = {"date_part": "month", "column": "day"}
CODES = [str(i) for i in range(1, 13)]
LOOKED_UP = {i: CODES[(i - 1) // 2] for i in range(1, 25)}

ATTRIBUTES = {
    "as it is": fn.Ordered(1, 12),
    "from 0": fn.Ordered(0, 12),
    "to 11": fn.Ordered(1, 11),
    "clipped": fn.Ordered(1, 12, clip=True),
    "another column": fn.Ordered(1, 12, column="visited"),
    "read off a date": fn.Ordered(1, 12, **DATES),
    "another part": fn.Ordered(1, 12, **{**DATES, "date_part": "quarter"}),
    "an age": fn.Ordered(1, 12, column="day", date_part={"age_on": "2024-01-01"}),
    "an age on another day": fn.Ordered(1, 12, column="day", date_part={"age_on": "2024-01-02"}),
    "a missing value": fn.Ordered(1, 12, missing={"unknown": [99]}),
    "another missing value": fn.Ordered(1, 12, missing={"unknown": [98]}),
    "two cells": fn.Ordered(1, 12, missing={"unknown": [99], "refused": [98]}),
    "in another order": fn.Ordered(1, 12, missing={"refused": [98], "unknown": [99]}),
    "what is absent": fn.Ordered(1, 12, missing={"unknown": [99], "refused": [98]}, if_missing="unknown"),
    "elsewhere": fn.Ordered(1, 12, missing={"unknown": [99], "refused": [98]}, if_missing="refused"),
    "what is outside": fn.Ordered(1, 12, missing={"unknown": [99], "refused": [98]}, if_outside="unknown"),
    "absent dropped": fn.Ordered(1, 12, if_missing="drop"),
    "outside dropped": fn.Ordered(1, 12, if_outside="drop"),
    "outside refused": fn.Ordered(1, 12, if_outside="refuse"),
    "bins": fn.Binned(list(range(2, 13))),
    "other bins": fn.Binned([4, 7, 10]),
    "integer codes": fn.Categorical(list(range(1, 13))),
    "codes backwards": fn.Categorical(list(range(12, 0, -1))),
    "texts": fn.Categorical(CODES),
    "a lookup": fn.Categorical(CODES, lookup=LOOKED_UP),
    "another lookup": fn.Categorical(CODES, lookup={**LOOKED_UP, 24: "1"}),
    "places": fn.Hierarchy(["quarter", "month"], [(q, f"{q}{m}") for q in "abcd" for m in "123"]),
    "other places": fn.Hierarchy(["quarter", "month"], [(q, f"{q}{m}") for q in "abcd" for m in "124"]),
}
PATTERNS = ({"once_per": ["month"]}, {"per_value": {"month": 2}}, {"separation": {"month": 2}}, {"fixed": ["month"]})


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_two_definitions_of_an_attribute_are_two_accounts(pattern):
    unit = fn.PrivacyUnit("person", 12, **pattern)
    accounts = [account(fn.DataSource(), unit, fn.Domain(month=a, ward=WARD).axes) for a in ATTRIBUTES.values()]
    assert {a.unit for a in accounts} == {unit}
    for one, other in itertools.combinations(range(len(accounts)), 2):
        names = list(ATTRIBUTES)
        assert accounts[one] != accounts[other], (names[one], names[other])
        assert accounts[one].sentence != accounts[other].sentence


def test_two_definitions_of_an_attribute_are_two_axes():
    """Costs are added up cell by cell where the keys of attributes are equal, and there alone."""
    keys = [axis_key(fn.Domain(month=a, ward=WARD).axes, "month") for a in ATTRIBUTES.values()]
    assert len(set(keys)) == len(keys)


def test_levels_of_one_name_in_two_columns_are_two_axes(tmp_path):
    """A person who lives north and works south is charged for both: 0.0384, and not the larger of them."""
    places = [(region, f"{region}{i}") for region in "ns" for i in range(3)]
    with Ledger(tmp_path / "ledger.db") as ledger:
        before: tuple[str, ...] = ()
        for home, region in (("home", "n"), ("work", "s")):
            domain = fn.Domain({home: fn.Hierarchy(["region", "town"], places), "ward": WARD})
            table = fn.table("ward", groups={"region": {"own": [region]}}, margin=10)
            plan = fn.plan(fn.Publication(fn.Workload(domain, [table]), composed_with=before))
            entry = released(plan, ledger)
            ((key, size),) = entry.profile.axes
            assert (key.partition(":")[0], size) == ("region", 2)
            before = (plan.hash,)
        assert ledger.balance(plan.order.account).spent == 2 * entry.rho
        assert float(2 * entry.rho) == pytest.approx(0.0384, abs=5e-5)


def test_how_cells_are_called_is_no_part_of_a_promise():
    """A publisher who corrects a misspelt label keeps the account, and the axis of its profiles."""
    pairs = [
        (fn.Categorical({1: "Janaury", 2: "February"}), fn.Categorical({1: "January", 2: "February"})),
        (fn.Categorical({1: "one", 2: "two"}), fn.Categorical([1, 2])),
        (
            fn.Ordered(1, 12, missing={"unknwon": [99], "refused": [98]}, if_missing="unknwon", if_outside="refused"),
            fn.Ordered(1, 12, missing={"unknown": [99], "no": [98]}, if_missing="unknown", if_outside="no"),
        ),
    ]
    for pair in pairs:
        one, other = (fn.Domain(month=a) for a in pair)
        assert cell_key(one.axes, "month") == cell_key(other.axes, "month")
        assert axis_key(one.axes, "month") == axis_key(other.axes, "month")
    without_column, with_column = (fn.Domain(month=fn.Ordered(1, 12, column=c)) for c in (None, "month"))
    assert (cell_key(without_column.axes, "month"), axis_key(without_column.axes, "month")) == (
        cell_key(with_column.axes, "month"),
        axis_key(with_column.axes, "month"),
    )


def test_names_are_distinguished_from_their_definitions():
    """A name may hold a colon; the same cells under two names are two promises; others of the domain are none."""
    colons = {"a:b": fn.Ordered(1, 12, column="m"), "a": fn.Ordered(1, 12, column="m"), "c": WARD}
    keys = [
        account(fn.DataSource(), fn.PrivacyUnit("person", 2, once_per=[x]), fn.Domain(colons).axes).key for x in colons
    ]
    assert len(set(keys)) == 3
    both = [fn.PrivacyUnit("person", 2, once_per=x) for x in (["a", "c"], ["c", "a"])]
    assert len({account(fn.DataSource(), u, fn.Domain(colons).axes) for u in both}) == 1
    fewer = fn.Domain({x: colons[x] for x in ("c", "a")})
    assert account(fn.DataSource(), both[0], fewer.axes) == account(fn.DataSource(), both[1], fn.Domain(colons).axes)


def test_accounts_are_equal_where_their_keys_are_whatever_their_cells_are_listed_in():
    cells = [["ward", "a" * 64], ["month", "b" * 64]]
    unit = replace(ONCE, per_value={"ward": 2})
    listed, paired = Account("s", unit, cells), Account("s", unit, tuple(map(tuple, cells[::-1])))
    assert listed == paired == Account.parse("s", listed.document)
    assert (hash(listed), listed.key) == (hash(paired), paired.key)
    cells[0][1] = "c" * 64
    assert listed == paired


def test_what_is_enforced_by_an_id_and_what_is_not_about_cells_is_one_account_for_all():
    """With an id each plan enforces its own pattern, and is priced by it: of the account nothing is promised."""
    for unit in (replace(ONCE, id="pid"), fn.PrivacyUnit("person", 12), fn.PrivacyUnit()):
        accounts = {account(fn.DataSource(), unit, fn.Domain(month=a, ward=WARD).axes) for a in ATTRIBUTES.values()}
        assert accounts == {Account("default", unit)}


def test_further_units_are_bound_likewise(months):
    """If records of these persons are replaced, the pattern is not used for their own plan, either."""
    swap = replace(ONCE, neighbours=fn.Neighbours.REPLACE_ONE)
    plans = [planned(month, other_units=[swap]) for month in (fn.Ordered(1, 12), *OTHERS.values())]
    costs = [plan.order.losses_of_units(()) for plan in plans]
    assert len({a for cost in costs for a in cost}) == len(plans)
    for plan, cost in zip(plans, costs, strict=True):
        (loss,) = cost.values()
        assert loss.rho == plan.order.cost(replace(swap, once_per=())).rho == plan.other_losses[0][1].rho


def test_an_unknown_promise_of_a_name_costs_more_and_never_less(months, others):
    """For every pair of definitions, the other account is charged the cost of any records of this number."""
    plans = [months, *others.values()]
    for one, other in itertools.permutations(plans, 2):
        charges = one.order.losses_of_units([other.order.account])[other.order.account]
        assert charges.rho == months.loss.rho >= one.loss.rho
