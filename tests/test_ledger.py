"""The ledger: what it says and refuses, its file; tampering, races, crashes and failing disks.

What it comes to after any sequence of caps and charges is tested in `test_ledger_steps.py`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import fitnoise.kernel.ledger as room
from charges import loss
from fitnoise.errors import BudgetExceeded, LedgerError
from fitnoise.kernel.ledger import (
    GENESIS,
    Account,
    DrawnPeriod,
    Ledger,
    LedgerEntry,
    Price,
    Quote,
    rules,
    sqlite,
)
from fitnoise.kernel.ledger.entries import digest_columns, find_price
from fitnoise.kernel.ledger.refusals import format_rho
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.privacy import HALF_PI, pure_mu_squared
from fitnoise.kernel.profiles import ChargedPlan, Profile, ceil_dyadic
from fitnoise.kernel.units import Neighbours, PrivacyUnit
from refused import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ADD, REPLACE = Neighbours
SURVEY = Account("survey", PrivacyUnit())
PERSON = Account("survey", PrivacyUnit("person", 3))
SWAP = Account("survey", PrivacyUnit("record", 1, REPLACE))
CENSUS = Account("recensement de la Réunion, 東京", PrivacyUnit("household", 1, REPLACE))
UNIT = Fraction(1, 2**64)
NOTHING = ("ledger.cap-not-a-fraction", "ledger.cost-out-of-range", "ledger.loss-costs-invalid")

rationals = st.builds(Fraction, st.integers(1, 10**30), st.integers(1, 10**30))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of five entries: a cap, two charges, a refusal, a charge."""
    path = tmp_path / "ledger.db"
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(1), reason="board of 1 May")
        ledger.charge(SURVEY, loss(Fraction(1, 2)), {"plan": "a" * 64, "sectors": ["1/3", "1/6"]})
        ledger.charge(CENSUS, loss(Fraction(1, 3)), {})
        with pytest.raises(BudgetExceeded):
            ledger.charge(SURVEY, loss(Fraction(3, 4)), {"plan": "b" * 64})
        ledger.charge(SURVEY, loss(Fraction(1, 4)), {"plan": "c" * 64})
    return path


def raw(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def tamper(path: Path, *statements: str) -> None:
    """Change a ledger as someone with write access and a little knowledge can, without a trace in the triggers."""
    with raw(path) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
        for _, sql in triggers:
            db.execute(sql)


# --- Rounding ---------------------------------------------------------------------------------------------


@given(rationals, st.integers(0, 100))
def test_ceil_dyadic_rounds_up_by_less_than_one_step_and_once(rho: Fraction, bits: int) -> None:
    rounded = ceil_dyadic(rho, bits)
    assert rho <= rounded < rho + Fraction(1, 2**bits)
    assert (rounded * 2**bits).denominator == 1
    assert ceil_dyadic(rounded, bits) == rounded


@given(rationals, rationals)
def test_ceil_dyadic_is_monotone_and_never_undercharges_a_sum(a: Fraction, b: Fraction) -> None:
    assert (ceil_dyadic(a) <= ceil_dyadic(b)) or a > b
    assert ceil_dyadic(a) + ceil_dyadic(b) >= ceil_dyadic(a + b)


@pytest.mark.parametrize("rho", [0.5, float("nan"), float("inf"), 1, True, "1/2"])
def test_only_a_fraction_is_an_exact_cost(rho: Any) -> None:
    with Ledger(":memory:") as ledger:
        for ask in (
            lambda: ceil_dyadic(rho),
            lambda: ledger.quote(SURVEY, loss(rho)),
            lambda: ledger.charge(SURVEY, loss(rho), {}),
            lambda: ledger.set_cap(SURVEY, rho),
        ):
            with refused("ledger.cap-not-a-fraction", "ledger.cost-not-a-fraction", "ledger.loss-costs-invalid"):
                ask()
        assert ledger.entries() == []


@pytest.mark.no_cover
@given(rho=st.fractions(min_value=Fraction(1, 10**6), max_value=5))
def test_what_a_plan_costs_is_a_cap_that_admits_it_once(rho: Fraction) -> None:
    """Caps round as charges do."""
    with Ledger(":memory:") as ledger:
        cap = ledger.set_cap(SURVEY, rho)
        assert rho <= cap.rho == ceil_dyadic(rho) < rho + UNIT
        assert ledger.charge(SURVEY, loss(rho), {}).rho == cap.rho
        assert ledger.balance(SURVEY).remaining == 0
        with pytest.raises(BudgetExceeded):
            ledger.charge(SURVEY, loss(Fraction(1, 10**18)), {})


def test_a_cost_that_is_negative_zero_or_endless_is_refused() -> None:
    endless = Fraction(10**400)
    with Ledger(":memory:") as ledger:
        for rho in (Fraction(-1), -UNIT / 2, endless):
            for ask in (
                lambda account, rho: ledger.quote(account, loss(rho)),
                ledger.set_cap,
                lambda account, rho: ledger.charge(account, loss(rho), {}),
            ):
                with refused(NOTHING):
                    ask(SURVEY, rho)
        with refused("ledger.cost-out-of-range"):
            ledger.set_cap(SURVEY, epsilon=1 / endless)  # one on ε is written as it is, and this one is too long
        with refused("ledger.charge-of-nothing"):
            ledger.charge(SURVEY, loss(Fraction(0)), {})
        assert ledger.entries() == []
        assert ledger.charge(SURVEY, loss(1 / endless), {}).rho == UNIT  # a cost is rounded up first


# --- What it says of charges ------------------------------------------------------------------------------

P, Q, R, S = (letter * 64 for letter in "pqrs")
EIGHTH = 2**61  # of the units of a profile


def ages(*eighths: int) -> Profile:
    """A profile over ages, in eighths."""
    return Profile((("age", len(eighths)),), tuple(e * EIGHTH for e in eighths))


def spend(ledger: Ledger, plan: str, profile: Profile, *given_plans: str, account: Account = SURVEY) -> LedgerEntry:
    return ledger.charge(account, loss(profile.largest, profile=profile), {"plan": plan}, composed_with=given_plans)


def pure(ledger: Ledger, epsilon: Fraction) -> LedgerEntry:
    return ledger.charge(SURVEY, loss(epsilon**2 / 2, epsilon=epsilon), {})


YOUNG, OLD, LEVEL = ages(4, 1, 1), ages(1, 1, 4), ages(2, 2, 2)


def test_a_balance_is_what_a_charge_of_nothing_would_do() -> None:
    with Ledger(":memory:") as ledger:
        pure(ledger, Fraction(1, 2))
        for cap in ({"rho": Fraction(1, 8)}, {"epsilon": Fraction(1, 2)}):
            ledger.set_cap(SURVEY, **cap)
            balance = ledger.balance(SURVEY)
            assert (balance.rho, balance.increase, balance.spent, balance.remaining) == (0, 0, Fraction(1, 8), 0)
            assert balance.fits  # to the last


def test_every_entry_names_the_one_before(path: Path) -> None:
    with Ledger(path) as ledger:
        entries = ledger.entries()
        assert [e.previous for e in entries] == [GENESIS, *(e.digest for e in entries[:-1])]
        assert ledger.head() == (5, entries[-1].digest)


def test_a_quote_says_all_there_is_with_a_cap_and_without() -> None:
    half, eighth = Fraction(1, 2), Fraction(1, 8)
    with Ledger(":memory:") as ledger:
        pure(ledger, half)
        price = loss(half, epsilon=Fraction(1))
        expected: dict[str, Any] = {
            "account": SURVEY,
            "rho": half,
            "spent": eighth,
            "increase": half,
            "epsilon_spent": half,
            "mu_squared_spent": ceil_dyadic(pure_mu_squared(half)),
        }
        assert ledger.quote(SURVEY, price) == Quote(**expected, cap=None, remaining=None, fits=True)
        ledger.set_cap(SURVEY, half)
        assert ledger.quote(SURVEY, price) == Quote(
            **expected, cap=half, remaining=half - eighth, fits=False, further_releases=0
        )
        ledger.set_cap(SURVEY, epsilon=Fraction(3, 2))
        capped = {
            "cap": Fraction(9, 8),
            "epsilon_cap": Fraction(3, 2),
            "remaining": half,
            "fits": True,
            "further_releases": 1,
        }
        assert ledger.quote(SURVEY, price) == Quote(**expected, **capped)
        ledger.set_cap(SURVEY, half)
        ledger.charge(SURVEY, loss(eighth), {})
        ledger.set_cap(SURVEY, epsilon=Fraction(3, 2))
        quote = ledger.quote(SURVEY, price)
        assert (quote.epsilon_spent, quote.remaining, quote.fits) == (None, 0, False)


def test_what_is_spent_may_grow_by_so_much_and_no_more() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        cost = loss(OLD.largest, profile=OLD)
        grows = ledger.quote(SURVEY, cost, composed_with=[P]).increase
        assert grows == Fraction(1, 8)
        with refused("ledger.free-plan-costs"):
            ledger.charge(SURVEY, cost, {"plan": Q}, composed_with=[P], at_most=grows - UNIT)
        assert len(ledger.entries()) == 1
        ledger.charge(SURVEY, cost, {"plan": Q}, composed_with=[P], at_most=grows)
        assert ledger.balance(SURVEY).spent == Fraction(5, 8)


def test_a_cap_keeps_its_reason_and_its_epsilon_and_nothing_else() -> None:
    zero = Fraction(0)
    with Ledger(":memory:") as ledger:
        caps = [
            ledger.set_cap(SURVEY, zero),
            ledger.set_cap(SURVEY, zero, reason="board"),
            ledger.set_cap(CENSUS, epsilon=zero),
            ledger.set_cap(CENSUS, epsilon=Fraction(1, 3), reason="board"),
        ]
        details = [{}, {"reason": "board"}, {"epsilon": "0"}, {"reason": "board", "epsilon": "1/3"}]
        assert [dict(e.detail) for e in caps] == details
        assert (ledger.entries(), ledger.entries(SURVEY), ledger.entries(CENSUS)) == (caps, caps[:2], caps[2:])
        with refused("ledger.cap-not-a-fraction"):
            ledger.set_cap(SURVEY, epsilon=-UNIT)


def test_nothing_is_composed_with_a_plan_released_twice() -> None:
    with Ledger(":memory:") as ledger:
        for _ in range(2):
            spend(ledger, P, YOUNG)
        with refused("ledger.composed-plan-released-again"):
            spend(ledger, Q, OLD, P)
        spend(ledger, P, YOUNG, account=CENSUS)
        spend(ledger, Q, OLD, P, account=CENSUS)  # of another account, once


def test_where_nothing_may_be_spent_or_is_left_a_refusal_says_so() -> None:
    with Ledger(":memory:") as ledger:
        for cap, charged in ((Fraction(0), ()), (Fraction(1, 4), (Fraction(1, 4),))):
            ledger.set_cap(CENSUS, cap)
            for rho in charged:
                ledger.charge(CENSUS, loss(rho), {})
            error = refusal(lambda: ledger.charge(CENSUS, loss(Fraction(1, 2)), {}))
            for text in ("remaining ρ = 0 ", f"spent ρ is {cap}", f"cap is {cap}", "is 1/2 too large"):
                assert text in str(error)
            assert "same records" not in str(error)


def test_charges_on_the_same_records_have_their_profiles() -> None:
    with Ledger(":memory:") as ledger:
        with refused("ledger.releases-not-on-same-records"):
            ledger.charged(SURVEY)
        spend(ledger, P, YOUNG)
        spend(ledger, S, LEVEL, account=CENSUS)
        assert ledger.charged(SURVEY) == [ChargedPlan(P, YOUNG)]
        assert ledger.charged(CENSUS) == [ChargedPlan(S, LEVEL)]
        spend(ledger, Q, OLD)
        with refused("ledger.releases-not-on-same-records"):
            ledger.charged(SURVEY)
        spend(ledger, R, LEVEL, P, Q)
        assert ledger.charged(SURVEY) == [ChargedPlan(P, YOUNG), ChargedPlan(Q, OLD), ChargedPlan(R, LEVEL)]


@pytest.mark.parametrize("detail", [{}, {"plan": 7}, {"plan": None}])
def test_a_charge_without_a_plan_is_refused(detail: dict[str, Any]) -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(YOUNG.largest, profile=YOUNG), detail)
        with refused("ledger.entry-without-plan"):
            ledger.charged(SURVEY)
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1, 2)), {"plan": P})
        with refused("ledger.entry-without-profile"):
            ledger.charged(SURVEY)


def test_on_the_same_records_only_the_costliest_cell_is_charged() -> None:
    def spent() -> Fraction:
        return ledger.balance(SURVEY).spent * 8

    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD)
        assert spent() == 8  # nothing is promised
        quote = ledger.quote(SURVEY, loss(LEVEL.largest, profile=LEVEL), composed_with=[P, Q])
        assert (quote.rho * 8, quote.increase * 8) == (2, -1)
        spend(ledger, R, LEVEL, P, Q)
        assert spent() == 7  # they were the same records all along, and no record is young and old
        spend(ledger, S, ages(0, 2, 0), R)  # on the records of R, hence of P and Q
        assert spent() == 7


def test_whoever_is_protected_pays_for_every_release() -> None:
    """A unit is charged its stated cost, or else the least bound from stated costs; worked out in eighths."""
    with Ledger(":memory:") as ledger:

        def spent() -> list[Fraction | None]:
            return [None if (x := ledger.balance(a).spent) is None else 8 * x for a in (SURVEY, PERSON, SWAP)]

        ledger.charge(SURVEY, loss(Fraction(1, 8)), {})
        assert spent() == [1, 9, 4]  # one record; three; one that goes and one that comes
        ledger.charge(PERSON, loss(Fraction(1, 2)), {})
        assert spent() == [1 + 4, 9 + 4, 4 + 16]
        ledger.charge(PERSON, loss(Fraction(1, 2)), {}, also={SURVEY: loss(Fraction(1, 8))})
        assert spent() == [5 + 1, 13 + 4, 20 + 4]
        stated = {SURVEY: loss(Fraction(5)), SWAP: loss(Fraction(9))}
        ledger.charge(SWAP, loss(Fraction(1, 8)), {}, also=stated)
        assert spent() == [6 + 40, 17 + 360, 24 + 1]
        ledger.charge(SWAP, loss(Fraction(1, 8)), {})
        assert spent() == [None, None, 26]  # the cost of a replacement gives no bound on that of a new record
        unknown = Account("survey", PrivacyUnit("household", id="house"))
        assert [e.price(unknown) for e in ledger.entries()] == [None] * 5
        assert "∞" in format_rho(ledger.balance(unknown).spent)
        assert (ledger.balance(SURVEY).remaining, ledger.balance(SURVEY).fits) == (None, True)


@pytest.mark.parametrize(("declared", "other"), [(PERSON, SURVEY), (SURVEY, PERSON)], ids=["its own", "another's"])
def test_a_larger_promise_of_the_same_unit_is_the_safe_one(declared: Account, other: Account) -> None:
    """A person of three records has three, for any account and any charge that declared it; a record is one."""
    one = Account("survey", PrivacyUnit("person"))
    price = {PERSON: loss(Fraction(9, 8)), SURVEY: loss(Fraction(1, 8))}
    with Ledger(":memory:") as ledger:
        ledger.charge(declared, price[declared], {}, also={other: price[other]})
        assert [ledger.balance(a).spent for a in (one, SURVEY)] == [Fraction(9, 8), Fraction(1, 8)]


def test_of_whom_an_id_counts_what_one_record_costs_says_nothing() -> None:
    """Many records of a person may count: only the cost of another charge by the id bounds it, and no promise."""
    by_id, swap, other = (
        Account("survey", PrivacyUnit("person", 1, relation, name))
        for name, relation in (("id", ADD), ("id", REPLACE), ("house", ADD))
    )
    with Ledger(":memory:") as ledger:
        ledger.charge(by_id, loss(Fraction(1, 8)), {}, also={SURVEY: loss(Fraction(1, 100))})
        assert [ledger.balance(a).spent for a in (by_id, swap, other)] == [Fraction(1, 8), Fraction(1, 2), None]
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {}, also={PERSON: loss(Fraction(9, 8))})
        assert [ledger.balance(a).spent for a in (by_id, other)] == [None, None]


@pytest.mark.parametrize("index", [0, 1])
def test_of_bounds_with_the_same_rho_the_smallest_epsilon_and_mu_hold(index: int) -> None:
    units = [Account("survey", PrivacyUnit(name)) for name in ("person", "household")]
    declared, half = units[index], Fraction(1, 2)
    pure = [Price(half, None, Fraction(2)), Price(half, None, Fraction(1))]
    mu = [Price(half, None, None, Fraction(x, 4), Fraction(2)) for x in (4, 3)]
    for prices in (pure, mu, [Price(half), Price(half)]):
        stated = {units[i]: prices[i] for i in (index, 1 - index)}
        assert find_price(declared, stated, SURVEY) == prices[1]


def test_pure_prices_with_profiles_add_up_in_mu_where_no_rate_is_stated() -> None:
    one = Price(YOUNG.largest, YOUNG, Fraction(1))
    assert rules._join_mu_squared([one, one]) == 2 * ceil_dyadic(pure_mu_squared(Fraction(1)))


def test_the_rest_of_a_cap_on_epsilon_is_stated_in_rho() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(1, 2))
        assert (ledger.balance(SURVEY).remaining, ledger.balance(SURVEY).further_releases) == (Fraction(1, 8), 0)


def test_accounts_are_those_of_units_that_charges_state_and_not_of_what_was_refused() -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {}, also={PERSON: loss(Fraction(9, 8))})
        ledger.set_cap(SURVEY, Fraction(1, 8))
        refusal(lambda: ledger.charge(SURVEY, loss(Fraction(1, 8)), {}, also={SWAP: loss(Fraction(1, 8))}))
        assert ledger.accounts() == [SURVEY, PERSON]


def test_what_is_admitted_charges_nothing_and_what_is_not_is_remembered() -> None:
    eighth = Fraction(1, 8)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, 2 * eighth)
        ledger.set_cap(PERSON, 9 * eighth)
        ledger.admit(SURVEY, loss(eighth), {"plan": P})
        ledger.admit(SURVEY, loss(2 * eighth), {}, also={PERSON: loss(9 * eighth)}, at_most=2 * eighth)
        assert len(ledger.entries()) == 2
        with refused("ledger.free-plan-costs"):
            ledger.admit(SURVEY, loss(eighth), {}, at_most=eighth / 2)
        with refused("ledger.detail-has-own-keys"):
            ledger.admit(SURVEY, loss(eighth), {"units": {}})
        with refused("ledger.composed-plan-not-charged"):
            ledger.admit(SURVEY, loss(YOUNG.largest, profile=YOUNG), {}, composed_with=[P])
        assert len(ledger.entries()) == 2
        error = refusal(lambda: ledger.admit(SURVEY, loss(3 * eighth), {"plan": P}, also={PERSON: loss(eighth)}))
        assert error.code == "ledger.over-cap"
        assert "ρ = 3/8" in error.given
        entry = ledger.entries()[-1]
        assert (entry.kind, entry.account, entry.rho) == ("refusal", SURVEY, 3 * eighth)
        assert entry.detail == {"plan": P, "units": [{"unit": PERSON.document, "rho": "1/8"}]}
        error = refusal(lambda: ledger.admit(SURVEY, loss(eighth), {}, also={PERSON: loss(10 * eighth)}))
        assert error.code == "ledger.over-cap"
        assert f"{PERSON.source!r} ({PERSON.sentence})" in error.given
        assert ledger.balance(SURVEY).spent == ledger.balance(PERSON).spent == 0


def test_a_series_that_was_refused_was_not_begun() -> None:
    period = DrawnPeriod(1, "0" * 64)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1, 8))
        for request in (period, DrawnPeriod(2, "0" * 64)):  # the refusal does not show the next draw
            refusal(
                lambda request=request: ledger.charge(SURVEY, loss(Fraction(1, 4)), {"plan": P}, drawn_period=request)
            )
        assert ledger.series(SURVEY, P) == []
        with refused("ledger.series-not-in-turn"):
            ledger.period(SURVEY, P, DrawnPeriod(2, "0" * 64))
        ledger.set_cap(SURVEY, Fraction(1))
        entry = ledger.charge(SURVEY, loss(Fraction(1, 4)), {"plan": P}, drawn_period=period)
        assert ledger.series(SURVEY, P) == [entry]


def test_an_addition_to_an_unbounded_cost_is_unbounded() -> None:
    """Not even where it is stated what it costs that unit alone."""
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {})
        spend(ledger, P, YOUNG, account=SWAP)
        ledger.set_cap(SURVEY, Fraction(9))
        also = {SURVEY: loss(OLD.largest, profile=OLD)}
        error = refusal(
            lambda: ledger.charge(SWAP, loss(OLD.largest, profile=OLD), {"plan": Q}, also=also, composed_with=[P])
        )
        assert error.code == "ledger.cost-unbounded"
        assert f"{SURVEY.source!r} ({SURVEY.sentence})" in error.given


def test_groups_of_a_name_cost_every_unit_of_it_what_is_known() -> None:
    half = Fraction(1, 2)
    with Ledger(":memory:") as ledger:
        one, two = spend(ledger, P, YOUNG), spend(ledger, Q, OLD, P)
        spend(ledger, R, LEVEL, account=CENSUS)
        three, four = ledger.charge(PERSON, loss(half), {"plan": S}), pure(ledger, half)
        ledger.set_cap(SURVEY, Fraction(0))
        refusal(lambda: ledger.charge(SURVEY, loss(half), {}))
        groups = ledger.groups(SURVEY)
        assert [g.entries for g in groups] == [(one, two), (three,), (four,)]
        assert [g.rho(SURVEY) for g in groups] == [Fraction(5, 8), half, Fraction(1, 8)]
        assert [g.rho(PERSON) for g in groups] == [9 * half + 9 * half, half, Fraction(9, 8)]
        assert [g.mu_squared(SURVEY) for g in groups] == [None, None, ceil_dyadic(pure_mu_squared(half))]
        assert groups[2].mu_squared(PERSON) == 9 * groups[2].mu_squared(SURVEY)


def test_as_many_charges_fit_as_fit_under_every_cap_of_the_name() -> None:
    with Ledger(":memory:") as ledger:
        quote = partial(ledger.quote, SURVEY, loss(Fraction(1, 8)), also={PERSON: loss(Fraction(1, 2))})
        assert quote().further_releases is None
        for account, number in ((SURVEY, 9), (PERSON, 2)):
            ledger.set_cap(account, Fraction(9, 8))
            assert quote().further_releases == number


def test_changes_one_after_the_other_cost_their_square_and_rounding_once() -> None:
    """k²ρ, kε, k²μ²; where ε is known no more than half its square, which is rounded up once."""
    fifth, rho = Fraction(1, 5), ceil_dyadic(Fraction(1, 50))
    twice = Price(rho, epsilon=fifth).repeated(2)
    assert twice == Price(ceil_dyadic(Fraction(2, 25)), epsilon=2 * fifth)
    assert twice.rho < 4 * rho
    quarter = Fraction(1, 4)
    assert Price(quarter, epsilon=Fraction(1)).repeated(3) == Price(9 * quarter, epsilon=Fraction(3))
    assert Price(quarter, LEVEL, None, quarter, Fraction(2)).repeated(3) == Price(
        9 * quarter, None, None, 9 * quarter, Fraction(2)
    )


@pytest.mark.parametrize("wrong", [1, None, 0.5, ["1"]])
def test_a_number_of_a_price_is_a_text(wrong: Any) -> None:
    for document in ({"rho": wrong}, {"rho": "1", "epsilon": wrong}):
        with refused("ledger.number-not-readable"):
            Price.parse(document)


def test_mu_is_as_stated_or_as_epsilon_implies_it() -> None:
    half = Fraction(1, 2)
    assert Price(half).known_mu_squared is None
    assert Price(half, epsilon=Fraction(1)).known_mu_squared == ceil_dyadic(pure_mu_squared(Fraction(1)))
    for epsilon in (None, Fraction(1)):
        assert Price(half, None, epsilon, half, Fraction(1)).known_mu_squared == half


def test_pure_charges_are_pure_for_every_unit() -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1, 2), epsilon=Fraction(1)), {})
        assert [ledger.balance(a).epsilon_spent for a in (SURVEY, PERSON, SWAP)] == [1, 3, 2]
        assert ledger.balance(PERSON).spent == Fraction(9, 2)
        ledger.set_cap(PERSON, epsilon=Fraction(5))
        assert not ledger.quote(SURVEY, loss(Fraction(1, 2), epsilon=Fraction(1))).fits
        error = refusal(lambda: ledger.charge(SURVEY, loss(Fraction(1, 2), epsilon=Fraction(1)), {}))
        assert error.code == "ledger.over-epsilon-cap"
        assert all(text in str(error) for text in ("ε = 3", "spent ε is 3", "cap is 5", "'survey' (one person"))
        two = {PERSON: loss(Fraction(2), epsilon=Fraction(2))}
        assert ledger.charge(SURVEY, loss(Fraction(1, 2), epsilon=Fraction(1)), {}, also=two).kind == "charge"
        assert ledger.balance(PERSON).epsilon_spent == 5


def test_short_fractions_are_printed_exactly_and_long_ones_to_six_digits() -> None:
    texts = {None: "∞", Fraction(7): "7", Fraction(1, 1000): "1/1000", Fraction(2, 3 * 2**64): "about 3.61401e-20"}
    assert {x: format_rho(x) for x in texts} == texts


@pytest.mark.parametrize("short", [0, 1])
def test_a_cap_holds_for_every_release_under_whichever_unit(short: int) -> None:
    """To the last bit; the refusal names whose cap it is, and nothing was charged to anyone."""
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1))
        ledger.set_cap(SWAP, Fraction(100))
        ledger.set_cap(SURVEY, Fraction(5) - short * UNIT)
        prices = {SURVEY: loss(Fraction(5))}
        assert ledger.quote(SWAP, loss(Fraction(1, 8)), also=prices).fits is not bool(short)
        if short:
            error = refusal(lambda: ledger.charge(SWAP, loss(Fraction(1, 8)), {}, also=prices))
            assert error.code == "ledger.over-cap"
            assert "ρ = 5" in error.given
            assert f"{SURVEY.source!r} ({SURVEY.sentence})" in error.given
        else:
            ledger.charge(SWAP, loss(Fraction(1, 8)), {}, also=prices)
        assert ledger.balance(SURVEY).spent == 5 * (1 - short)
        error = refusal(lambda: ledger.charge(SWAP, loss(Fraction(1, 8)), {}))
        assert error.code == "ledger.cost-unbounded"
        assert f"{SURVEY.source!r} ({SURVEY.sentence})" in error.given


def test_a_unit_next_to_a_cap_needs_its_own_cap() -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {})
        ledger.charge(SWAP, loss(Fraction(1, 8)), {}, also={SURVEY: loss(Fraction(1, 8))})  # nothing has a cap
        ledger.set_cap(SURVEY, Fraction(1))
        for attempt in (ledger.quote, partial(ledger.charge, detail={})):
            with refused("ledger.account-beside-cap"):
                attempt(PERSON, loss(Fraction(1, 8)))
        assert len(ledger.entries()) == 3
        assert ledger.balance(PERSON).spent == Fraction(18, 8)
        ledger.set_cap(PERSON, Fraction(19, 8))
        assert ledger.charge(PERSON, loss(Fraction(1, 8)), {}).kind == "charge"


def test_a_promise_about_other_cells_is_another_account_and_the_refusal_says_of_which() -> None:
    """It names the cells for accounts with equal sentences; if units differ, it does not mention cells."""
    unit = PrivacyUnit("person", 3, once_per=["month", "ward"])
    cells = [(("month", m * 64), ("ward", w * 64)) for m, w in ("aa", "ba", "ab", "bb")]
    accounts = [Account("survey", unit, x) for x in cells]
    with Ledger(":memory:") as ledger:
        ledger.set_cap(accounts[0], Fraction(1))
        for other, names in zip(accounts[1:], ("'month'", "'ward'", "'month' and 'ward'"), strict=True):
            with refused("ledger.account-beside-cap") as caught:
                ledger.charge(other, loss(Fraction(1, 8)), {})
            assert caught.value.given.endswith(f", which promises other cells of {names}.")
        for other in (PERSON, Account("survey", PrivacyUnit("person", 3, fixed=["month"]), cells[1][:1])):
            with refused("ledger.account-beside-cap"):
                ledger.charge(other, loss(Fraction(1, 8)), {})
        ledger.set_cap(accounts[1], Fraction(1))
        entry = ledger.charge(accounts[1], loss(Fraction(1, 16)), {})
        assert (entry.price(accounts[0]).rho, ledger.balance(accounts[0]).spent) == (9 * entry.rho, 9 * entry.rho)
        assert ledger.accounts() == accounts[:2]
        error = refusal(lambda: ledger.charge(accounts[1], loss(Fraction(1, 16)), {}))
        assert error.code == "ledger.over-cap"
        assert f"'survey' ({accounts[0].sentence})" in error.given


def test_what_others_pay_is_stated_of_accounts_of_the_name() -> None:
    with Ledger(":memory:") as ledger:
        for also in ({CENSUS: loss(Fraction(1))}, {SWAP: loss(Fraction(1)), CENSUS: loss(Fraction(1))}):
            with refused("ledger.price-of-another-source"):
                ledger.charge(SURVEY, loss(Fraction(1)), {}, also=also)
        for also in ({"one record, replace-one": loss(Fraction(1))}, {None: loss(Fraction(1))}):
            with refused("ledger.not-an-account"):
                ledger.charge(SURVEY, loss(Fraction(1)), {}, also=also)
        ledger.charge(SURVEY, loss(Fraction(1)), {}, also={SURVEY: loss(Fraction(5)), SWAP: loss(Fraction(2))})
        (entry,) = ledger.entries()
        assert entry.prices == {SURVEY: Price(Fraction(1)), SWAP: Price(Fraction(2))}
        assert entry.detail == {"units": [{"unit": SWAP.document, "rho": "2"}]}


def test_a_unit_for_which_nothing_bounds_the_past_is_not_opened() -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SWAP, loss(Fraction(1, 8)), {})
        with refused("ledger.cap-never-fits"):
            ledger.set_cap(SURVEY, Fraction(1))
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {})  # nothing has a cap, and so nothing is refused
        ledger.set_cap(SURVEY, Fraction(1))  # the source has charges: a cap closes it
        assert ledger.balance(SURVEY).remaining == 0
        error = refusal(lambda: ledger.charge(SURVEY, loss(Fraction(1, 8)), {}))
        assert error.code == "ledger.spent-unbounded"
        assert "'survey'" in error.given


def test_on_the_same_records_another_unit_pays_its_own_costliest_cell() -> None:
    """If all charges on the same records state cells for it; else the sum."""
    thrice = {PERSON: loss(Fraction(9, 2), profile=ages(36, 9, 9))}
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(YOUNG.largest, profile=YOUNG), {"plan": P}, also=thrice)
        old = {PERSON: loss(Fraction(9, 2), profile=ages(9, 9, 36))}
        charge = partial(ledger.charge, SURVEY, loss(OLD.largest, profile=OLD), {"plan": Q}, composed_with=[P])
        ledger.set_cap(PERSON, Fraction(45, 8))
        assert refusal(charge).code == "ledger.over-cap"  # 36 + 36
        charge(also=old)
        assert [8 * ledger.balance(a).spent for a in (SURVEY, PERSON)] == [5, 45]
        ledger.charge(Account("homes", SURVEY.unit), loss(YOUNG.largest, profile=YOUNG), {"plan": P})
        assert 8 * ledger.balance(PERSON).spent == 45


def refusal(charge: Callable[[], LedgerEntry | None]) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as caught:
        charge()
    assert re.search(r" Entry \d+ records this refusal\.$", caught.value.action)
    assert caught.value.outcome == "Nothing was charged and nothing was released."
    return caught.value


def test_a_refusal_states_the_request_and_the_rest() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1, 8))
        error = refusal(lambda: ledger.charge(SURVEY, loss(Fraction(1, 4)), {}))
        assert error.code == "ledger.over-cap"
        for text in ("ρ = 1/4", "ρ = 1/8", "'survey'", "one record", "spent ρ is 0", "cap is 1/8", "Entry 2"):
            assert text in str(error)


def test_a_refusal_with_composed_plans_states_the_increase() -> None:
    above = Profile(OLD.axes, (EIGHTH + 1, *OLD.values[1:]))  # more expensive in a cell that is not its own costliest
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD)
        for eighths, profile, plans, pattern in [
            (9, above, [P], r"ρ = 1/2 \(about 0\.125 more .*is about 5\.42101e-20 too large"),
            (7, ages(0, 1, 0), [P], r"\(0 more .*is 1/8 too large"),
            (6, LEVEL, [P, Q], r"\(1/8 less .*is 1/8 too large"),
        ]:
            ledger.set_cap(SURVEY, Fraction(eighths, 8))
            charge = partial(spend, ledger, R, profile, *plans)
            assert re.search(pattern, str(refusal(charge)))
        with refused("ledger.free-plan-costs"):
            ledger.charge(SURVEY, loss(OLD.largest, profile=OLD), {}, composed_with=[P], at_most=Fraction(0))


def test_a_refusal_under_a_pure_cap_says_what_is_not_pure() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(1, 2))
        pure(ledger, Fraction(1, 3))
        error = refusal(lambda: pure(ledger, Fraction(1, 4)))
        assert error.code == "ledger.over-epsilon-cap"
        for text in ("ε = 1/4", "spent ε is 1/3", "cap is 1/2", "'survey'", "one record", "Entry 3"):
            assert text in str(error)
        assert "ε = about 0.333333 " in refusal(lambda: pure(ledger, Fraction(10**6, 3 * 10**6 - 1))).given
        error = refusal(lambda: ledger.charge(SURVEY, loss(UNIT), {}))
        assert error.code == "ledger.cap-is-pure"
        for text in ("ε = 1/2", "δ", "privacy = 'pure'", "a cap on ρ", "another promise", "Entry 5"):
            assert text in str(error)
        ledger.set_cap(SURVEY, Fraction(1))
        ledger.charge(SURVEY, loss(UNIT), {})
        ledger.set_cap(SURVEY, epsilon=Fraction(9))
        error = refusal(lambda: pure(ledger, Fraction(1, 9)))
        assert error.code == "ledger.spent-not-pure"
        assert "ε = 9" in error.given


def test_an_invalid_composition_is_refused_and_not_recorded() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD, account=CENSUS)
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {"plan": R})
        before = ledger.entries()
        for plans, code in [
            ([P, S], "ledger.composed-plan-not-charged"),
            ([P, R], "ledger.entry-without-profile"),
            ([P[:12]], "ledger.composed-plan-not-charged"),
            ([""], "ledger.composed-plans-not-hashes"),
            ([None], "ledger.composed-plans-not-hashes"),
            ([[P]], "ledger.composed-plans-not-hashes"),
            (P, "ledger.composed-plans-not-a-list"),
            (None, "ledger.composed-plans-not-a-list"),
            ({P: P}, "ledger.composed-plans-not-a-list"),
        ]:
            many: Any = plans
            for ask in (
                lambda many: ledger.quote(SURVEY, loss(OLD.largest, profile=OLD), composed_with=many),
                lambda many: ledger.charge(SURVEY, loss(OLD.largest, profile=OLD), {"plan": S}, composed_with=many),
            ):
                with refused(code):
                    ask(many)
        with refused("ledger.composed-plans-need-profile"):
            ledger.charge(SURVEY, loss(OLD.largest), {"plan": S}, composed_with=[P])
        with refused("ledger.profile-sizes-differ"):
            spend(ledger, S, ages(1, 1), P)
        assert ledger.entries() == before


@pytest.mark.parametrize("wrong", [Fraction(1, 2), 0.5, YOUNG, YOUNG.document(), None])
def test_only_a_loss_is_charged(wrong: Any) -> None:
    with Ledger(":memory:") as ledger:
        for ask in (lambda: ledger.quote(SURVEY, wrong), lambda: ledger.charge(SURVEY, wrong, {})):
            with refused("ledger.cost-not-a-loss"):
                ask()
        assert ledger.entries() == []


@pytest.mark.parametrize(
    "detail",
    [
        {"profile": YOUNG.document()},
        {"composed_with": [P]},
        {"composed_with": None},
        {"epsilon": "1"},
        {"epsilon": None},
        {"mu_squared": "1"},
        {"mu_rate": "2"},
        {"units": {}},
    ],
)
def test_only_the_ledger_writes_profiles_and_promises(detail: dict[str, Any]) -> None:
    with Ledger(":memory:") as ledger:
        for cost in (loss(Fraction(1, 2)), loss(Fraction(1, 2), epsilon=Fraction(1))):
            with refused("ledger.detail-has-own-keys"):
                ledger.charge(SURVEY, cost, detail)
        assert ledger.entries() == []


# --- Names and details ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", " ", " survey", "survey ", "two\nlines", "nul\0", "lone \ud800", "e\u0301 not NFC", 7, None, b"x"],
)
def test_an_account_needs_an_honest_name(name: Any) -> None:
    with refused("ledger.account-name-invalid"):
        Account(name, PrivacyUnit())


@pytest.mark.parametrize("account", ["survey", ("survey", "one record"), None])
def test_only_an_account_has_a_balance(account: Any) -> None:
    with Ledger(":memory:") as ledger:
        for ask in (
            lambda: ledger.quote(account, loss(Fraction(1))),
            lambda: ledger.set_cap(account, Fraction(1)),
            lambda: ledger.charge(account, loss(Fraction(1)), {}),
        ):
            with refused("ledger.not-an-account"):
                ask()


def circular() -> dict[str, Any]:
    detail: dict[str, Any] = {}
    detail["itself"] = detail
    return detail


def deep() -> dict[str, Any]:
    detail: dict[str, Any] = {}
    for _ in range(100_000):
        detail = {"in": detail}
    return detail


@pytest.mark.parametrize(
    "detail",
    [
        {"rho": 0.5},
        {"in": [{"a": [1.0]}]},
        {"rho": float("nan")},
        {"rho": float("inf")},
        {"rho": Fraction(1, 2)},
        {"pair": (1, 2)},
        {1: "a key that is no text"},
        {"bytes": b"x"},
        {"set": {1}},
        {"too long": 10**5000},
        [("a", 1)],
        [1],
        7,
        None,
        "text",
        circular(),
        deep(),
    ],
    ids=lambda detail: type(detail).__name__,
)
def test_a_detail_that_json_does_not_keep_exactly_is_refused(detail: Any) -> None:
    with Ledger(":memory:") as ledger:
        with refused("ledger.detail-not-json"):
            ledger.charge(SURVEY, loss(Fraction(1)), detail)
        assert ledger.entries() == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.no_cover
@given(
    st.dictionaries(
        st.text().filter(lambda key: key not in {"profile", "composed_with", "epsilon"}), json_values, max_size=3
    )
)
@settings(max_examples=50)
def test_a_detail_comes_back_as_it_was_given(detail: dict[str, Any]) -> None:
    with Ledger(":memory:") as ledger:
        entry = ledger.charge(SURVEY, loss(Fraction(1)), MappingProxyType(detail))
        assert entry.detail == detail
        assert ledger.entries() == [entry]


def test_an_entry_is_frozen_and_its_detail_is_a_copy() -> None:
    given_detail = {"sectors": ["1/2"]}
    with Ledger(":memory:") as ledger:
        entry = ledger.charge(SURVEY, loss(Fraction(1)), given_detail)
        given_detail["sectors"].append("1/3")
        assert ledger.entries()[0].detail == {"sectors": ["1/2"]}
        with pytest.raises(FrozenInstanceError):
            entry.rho = Fraction(0)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "rho"),
    [("gift", Fraction(1)), ("charge", Fraction(0)), ("charge", Fraction(1, 3)), ("cap", Fraction(-1))],
)
def test_there_is_no_entry_that_no_ledger_writes(kind: str, rho: Fraction) -> None:
    with refused("ledger.entry-kind-or-cost-invalid"):
        LedgerEntry(1, kind, SURVEY, rho, "2025-01-01T00:00:00+00:00", {}, GENESIS, GENESIS)


# --- The file ---------------------------------------------------------------------------------------------


def test_an_entry_says_when_it_was_written() -> None:
    before = datetime.now(UTC)
    with Ledger(":memory:") as ledger:
        moment = datetime.fromisoformat(ledger.charge(SURVEY, loss(UNIT), {}).time)
    assert moment.utcoffset() == timedelta(0)
    assert before.replace(microsecond=0) <= moment <= datetime.now(UTC)
    assert moment.microsecond == 0


def test_anyone_can_recompute_the_chain_from_the_bare_columns(path: Path) -> None:
    names = ["sequence", "kind", "source", "unit", "rho", "time", "detail", "previous"]
    previous = GENESIS
    with raw(path) as db:
        for *columns, digest in db.execute("SELECT * FROM entries ORDER BY sequence"):
            text = json.dumps(dict(zip(names, columns, strict=True)), sort_keys=True, separators=(",", ":"))
            assert columns[-1] == previous
            assert sha256(text.encode("ascii")).hexdigest() == digest
            previous = digest


@pytest.mark.parametrize(
    "twin",
    [
        Account("Survey", SURVEY.unit),
        Account("ѕurvеу", SURVEY.unit),
        Account("survey", PrivacyUnit("Record")),
        Account("survey", PrivacyUnit("RECORD", 3, REPLACE)),
        Account(CENSUS.source.upper(), PrivacyUnit("person", 1, REPLACE)),
        Account(CENSUS.source, PrivacyUnit("hοusehold")),
    ],
)
def test_a_name_that_reads_like_one_that_is_there_opens_no_second_budget(path: Path, twin: Account) -> None:
    with Ledger(path) as ledger:
        head = ledger.head()
        for attempt in (
            lambda: ledger.quote(twin, loss(Fraction(1))),
            lambda: ledger.charge(twin, loss(Fraction(1)), {}),
            lambda: ledger.set_cap(twin, Fraction(1)),
        ):
            with refused("ledger.account-looks-alike"):
                attempt()
        assert ledger.head() == head
        ledger.set_cap(Account("surveys", SURVEY.unit), Fraction(1))


def test_twins_that_are_there_stay_two_accounts(path: Path) -> None:
    """A ledger of before names were compared is read, and goes on under both names; a third is refused."""
    twin = Account("SURVEY", SURVEY.unit)
    with pytest.MonkeyPatch.context() as patch, Ledger(path) as ledger:
        patch.setattr(rules, "_refuse_twin", lambda *_: None)
        ledger.charge(twin, loss(Fraction(1, 8)), {})
    with Ledger(path) as ledger:
        assert [ledger.balance(a).spent for a in (SURVEY, twin)] == [Fraction(3, 4), Fraction(1, 8)]
        ledger.charge(twin, loss(Fraction(1, 8)), {})
        with refused("ledger.account-looks-alike"):
            ledger.charge(Account("SurveY", SURVEY.unit), loss(Fraction(1, 8)), {})


def test_a_new_ledger_is_empty_in_one_private_file(tmp_path: Path) -> None:
    path = tmp_path / "grand livre #1?%41 é.db"
    with Ledger(path) as ledger:
        assert ledger.head() == (0, GENESIS)
        assert (ledger.verify(), ledger.entries(), ledger.accounts()) == (0, [], [])
        ledger.charge(SURVEY, loss(Fraction(1)), {})
        assert ledger._store._db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_in_memory_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1)), {})
        assert (ledger.verify(), ledger.file) == (1, None)
    with Ledger(":memory:") as ledger:
        assert ledger.verify() == 0
    assert not Path(":memory:").exists()


def test_a_ledger_follows_its_file_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger("ledger.db") as ledger:
        monkeypatch.chdir("/")
        ledger.charge(SURVEY, loss(Fraction(1)), {})
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.verify() == 1


def write_other_database(path: Path) -> None:
    with raw(path) as db:
        db.execute("CREATE TABLE entries (x)")


def write_format(path: Path, version: int) -> None:
    Ledger(path).close()
    with raw(path) as db:
        db.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (lambda path: path.write_bytes(b""), "ledger.file-empty"),
        (lambda path: path.write_text("id,age\n1,34\n" * 1000), "ledger.not-a-ledger"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(4080)), "ledger.not-a-ledger"),
        (write_other_database, "ledger.not-a-ledger"),
        *(
            (
                partial(write_format, version=version),
                "ledger.format-unknown",
            )
            for version in (1, 2, 3, 4, 5, 6, 8)
        ),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_and_unchanged(
    tmp_path: Path, write: Callable[[Path], object], code: str
) -> None:
    path = tmp_path / "file"
    write(path)
    before = path.read_bytes()
    with refused(code):
        Ledger(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_says_which_ledger_it_is_of(path: Path) -> None:
    for location, text in ((path, str(path)), (":memory:", "in memory")):
        ledger = Ledger(location)
        ledger.close()
        with refused("ledger.ledger-unusable") as caught:
            ledger.head()
        assert text in str(caught.value)


def test_a_file_larger_than_any_ledger_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(2**30)
    with refused("ledger.file-too-large"):
        Ledger(path)


def test_a_ledger_may_be_as_large_as_it_may_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MAX_BYTES", path.stat().st_size)
    Ledger(path).close()
    monkeypatch.setattr(sqlite, "MAX_BYTES", path.stat().st_size - 1)
    with refused("ledger.file-too-large"):
        Ledger(path)


def test_another_process_may_remove_the_name_under_which_a_ledger_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens the ledger as soon as it is linked, and takes the other name for a leftover."""

    def hardlink_to(self: Path, target: str) -> None:
        os.link(target, self)
        Path(target).unlink()

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.verify() == 0
    assert [x.name for x in tmp_path.iterdir()] == ["ledger.db"]


def test_whoever_stops_while_making_a_ledger_leaves_one_that_the_next_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made in its own folder, wherever temporary files go, under a name by which it is known for a leftover."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))

    def stopped(self: Path, *, missing_ok: bool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as before:
        before.setattr(Path, "unlink", stopped)
        with pytest.raises(KeyboardInterrupt):
            Ledger(tmp_path / "ledger.db")
    assert len(list(tmp_path.iterdir())) == 2
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.verify() == 0
    assert [x.name for x in tmp_path.iterdir()] == ["ledger.db"]


def test_a_name_that_was_left_of_making_a_ledger_is_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is of a killed process, or of another one between two looks. Other files with such names stay."""
    linked, other = (path.with_name(f".{path.name}.unfinished-{end}") for end in ("abcd1234", "wxyz_789"))
    linked.hardlink_to(path)
    other.write_text("another file")
    Ledger(path).close()
    assert (linked.exists(), other.exists()) == (False, True)

    def samefile(self: Path, _: Path) -> bool:
        linked.unlink(missing_ok=True)
        raise FileNotFoundError(2, "No such file or directory")

    linked.hardlink_to(path)
    monkeypatch.setattr(Path, "samefile", samefile)
    Ledger(path).close()


def test_a_folder_a_dangling_link_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with refused("ledger.not-a-file"):
        Ledger(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere" / "ledger.db")
    with refused("ledger.not-a-file"):
        Ledger(link)
    with refused("ledger.folder-missing"):
        Ledger(tmp_path / "nowhere" / "ledger.db")
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_that_cannot_link_is_refused_in_words_and_left_empty(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """FAT, SMB, FUSE and mounts of object stores answer so. A ledger that is there already opens."""

    def hardlink_to(self: Path, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    (folder := tmp_path / "share").mkdir()
    with refused("ledger.hard-link-refused") as caught:
        Ledger(folder / "ledger.db")
    assert caught.value.outcome == "Nothing was charged and nothing was changed."
    assert list(folder.iterdir()) == []
    Ledger(path).close()


def test_a_ledger_left_in_another_journal_mode_is_one_file_again(path: Path) -> None:
    with raw(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        assert path.with_name("ledger.db-wal").exists() or db.execute("SELECT 1 FROM entries")
    with Ledger(path) as ledger:
        ledger.charge(SURVEY, loss(UNIT), {})
        assert [p.name for p in path.parent.iterdir()] == ["ledger.db"]
        assert ledger._store._db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_read_only_ledger_can_be_read_and_not_charged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect: Callable[..., sqlite3.Connection] = (
        sqlite3.connect
    )  # file permissions would not stop a test that runs as root

    def read_only(target: str, **options: Any) -> sqlite3.Connection:
        return connect(target.replace("mode=rw", "mode=ro"), **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    before = path.read_bytes()
    with Ledger(path) as ledger:
        assert ledger.verify() == 5
        assert ledger.balance(SURVEY).remaining == Fraction(1, 4)
        for ask in (ledger.set_cap, lambda account, rho: ledger.charge(account, loss(rho), {})):
            with refused("ledger.read-only"):
                ask(SURVEY, UNIT)
    assert path.read_bytes() == before


def test_a_full_disk_charges_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger._store._db.execute("PRAGMA max_page_count = 3")
        with refused("ledger.disk-full"):
            ledger.charge(SURVEY, loss(UNIT), {"plan": "x" * 20_000})
        assert ledger.verify() == 5


def test_a_replaced_or_deleted_file_is_noticed(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with Ledger(path) as ledger:
        shutil.copy(path, copy)
        copy.replace(path)  # a backup put back under the feet of a running process
        for ask in (ledger.verify, lambda: ledger.charge(SURVEY, loss(UNIT), {})):
            with refused("ledger.file-replaced"):
                ask()
    with Ledger(path) as ledger:
        path.unlink()
        with refused("ledger.ledger-unusable"):
            ledger.charge(SURVEY, loss(UNIT), {})
    assert not path.exists()


@pytest.mark.parametrize(("after", "code"), [("INSERT", "file-replaced"), ("COMMIT", "replaced-while-writing")])
def test_a_file_replaced_between_opening_and_commit_is_noticed(
    path: Path, tmp_path: Path, after: str, code: str
) -> None:
    """Nothing is drawn after it: what was charged to a file that is gone was not charged."""
    copy, aside = tmp_path / "copy.db", tmp_path / "aside.db"
    shutil.copy(path, copy)

    def swap() -> None:
        path.rename(aside)
        copy.rename(path)

    failure = pytest.raises(LedgerError)
    with Ledger(path) as ledger, interposed(ledger, after, "after", swap), failure as caught:
        ledger.charge(SURVEY, loss(UNIT), {})
    assert caught.value.code == f"ledger.{code}"
    assert ("nothing" in str(caught.value)) == (after == "INSERT")  # of what is written it does not say so
    with Ledger(path) as ledger, Ledger(aside) as original:
        assert (ledger.verify(), original.verify()) == (5, 5 if after == "INSERT" else 6)


def test_a_ledger_with_two_names_is_refused(path: Path, tmp_path: Path) -> None:
    """Two names are two journals, and a budget that each name counts for itself after a crash."""
    other = tmp_path / f".{path.name}.elsewhere"
    with Ledger(path) as ledger:
        other.hardlink_to(path)
        for ask in (ledger.verify, lambda: ledger.charge(SURVEY, loss(UNIT), {}), lambda: Ledger(other)):
            with refused("ledger.file-has-several-names"):
                ask()
        other.unlink()
        assert ledger.verify() == 5


def test_a_closed_ledger_answers_nothing(path: Path) -> None:
    ledger = Ledger(path)
    ledger.close()
    ledger.close()
    for ask in (ledger.entries, lambda: ledger.charge(SURVEY, loss(UNIT), {})):
        with refused("ledger.ledger-unusable"):
            ask()


def test_a_ledger_belongs_to_the_thread_and_process_that_opened_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[Exception] = []

    def charge() -> None:
        try:
            ledger.charge(SURVEY, loss(UNIT), {})
        except LedgerError as error:
            caught.append(error)

    with Ledger(path) as ledger:
        thread = threading.Thread(target=charge)
        thread.start()
        thread.join()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)  # what a forked child sees
            charge()
        assert [error.code for error in caught] == ["ledger.opened-elsewhere"] * 2
        assert ledger.verify() == 5


# --- Tampering --------------------------------------------------------------------------------------------


COPIED = "kind, source, unit, rho, time, detail, previous, digest"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET rho = '1/8' WHERE sequence = 2",
        "DELETE FROM entries WHERE sequence = 5",
        "DELETE FROM entries",
        f"INSERT OR REPLACE INTO entries SELECT 2, {COPIED} FROM entries WHERE sequence = 3",
        "REPLACE INTO entries SELECT * FROM entries WHERE sequence = 5",
        f"INSERT INTO entries SELECT 7, {COPIED} FROM entries WHERE sequence = 5",
        f"INSERT INTO entries SELECT 0, {COPIED} FROM entries WHERE sequence = 5",
        "UPDATE OR REPLACE entries SET sequence = 1 WHERE sequence = 2",
    ],
)
def test_sql_cannot_alter_an_entry(path: Path, statement: str) -> None:
    before = path.read_bytes()
    with raw(path) as db, pytest.raises(sqlite3.IntegrityError, match="a ledger entry"):
        db.execute(statement)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "code"),
    [
        *(
            (f"UPDATE entries SET {column} = {value} WHERE sequence = 2", "ledger.entry-changed")
            for column, value in [
                ("kind", "'refusal'"),
                ("source", "'survey2'"),
                ("unit", f"'{PERSON.key}'"),
                ("rho", "'1/8'"),
                ("rho", "'2/4'"),
                ("time", "'1999-12-31T23:59:59+00:00'"),
                ("detail", "'{}'"),
                ("detail", "detail || ' '"),
                ("digest", "lower(hex(randomblob(32)))"),
                ("digest", "CAST(x'ff' AS TEXT)"),
            ]
        ),
        *(
            (
                f"UPDATE entries SET {column} = {value} WHERE sequence = 2",
                "ledger.entry-invalid",
            )
            for column, value in [
                ("kind", "'gift'"),
                ("kind", "x'00'"),
                ("source", "''"),
                ("source", "CAST(x'ff' AS TEXT)"),
                ("unit", "'one record, add-or-remove-one'"),
                ("unit", "'null'"),
                ("unit", "unit || ' '"),
                ("unit", "x'00'"),
                ("rho", "'-1/2'"),
                ("rho", "'1/3'"),
                ("rho", "'1/0'"),
                ("rho", "'1/2/3'"),
                ("rho", "'0.5'"),
                ("rho", "'1e999999999'"),
                ("rho", "x'31'"),
                ("time", "x'00'"),
                ("detail", "'{'"),
            ]
        ),
        ("UPDATE entries SET previous = digest WHERE sequence = 2", "ledger.entry-not-chained"),
        ("DELETE FROM entries WHERE sequence = 3", "ledger.entry-missing"),
        ("DELETE FROM entries WHERE sequence = 1", "ledger.entry-missing"),
        ("UPDATE entries SET sequence = -1 WHERE sequence = 4", "ledger.entry-missing"),
    ],
)
def test_a_changed_or_missing_entry_is_named(path: Path, change: str, code: str) -> None:
    tamper(path, change)
    with refused(code):
        Ledger(path)


def test_reordered_entries_are_named(path: Path) -> None:
    swap = ((2, 99), (3, 2), (99, 3))
    tamper(path, *(f"UPDATE entries SET sequence = {b} WHERE sequence = {a}" for a, b in swap))
    with refused("ledger.entry-not-chained"):
        Ledger(path)


def forged(path: Path, kind: str, rho: str, detail: str) -> None:
    """Append a row that is chained well, with any contents."""
    with raw(path) as db:
        last, digest = db.execute("SELECT sequence, digest FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
        columns = (last + 1, kind, SURVEY.source, SURVEY.key, rho, "2025-01-01T00:00:00+00:00", detail, digest)
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*columns, digest_columns(columns)))


def detail_text(profile: object = YOUNG.document(), **extra: object) -> str:
    return json.dumps({"plan": Q, "profile": profile, **extra})


def units_detail(price: dict[str, object], unit: object = PERSON.document) -> str:
    return json.dumps({"units": [{"unit": unit, **price}]})


def pure_detail(epsilon: object, **extra: object) -> str:
    return json.dumps({"epsilon": epsilon, **extra})


@pytest.mark.parametrize(
    ("kind", "rho", "detail"),
    [
        ("charge", "-1/2", "{}"),
        ("charge", "1/2", json.dumps({"share": ["team"]})),
        ("cap", "1/2", json.dumps({"share": " team"})),
        ("cap", "1/2", json.dumps({"share": None})),
        ("charge", "1/4", detail_text()),  # more expensive than stated
        ("charge", "1", detail_text()),
        ("refusal", "1/4", detail_text()),
        ("refusal", "0", "{}"),
        ("refusal", "1/3", "{}"),
        ("period", "1", json.dumps({"plan": "a" * 64, "series": {"period": 1, "frozen": "0" * 64}})),
        ("period", "0", "{}"),
        ("period", "0", json.dumps({"plan": "a" * 64})),
        ("charge", f"{10**400 * 2**64 + 1}/{2**64}", detail_text()),
        ("charge", "1/2", detail_text(None)),
        ("charge", "1/2", detail_text([])),
        ("charge", "1/2", detail_text({**YOUNG.document(), "values": [4.0 * EIGHTH, 0, 0]})),
        ("charge", "1/2", detail_text({**YOUNG.document(), "values": [4 * EIGHTH, -1, 0]})),
        ("charge", "1/2", detail_text({**YOUNG.document(), "values": [4 * EIGHTH]})),
        ("cap", "1/2", detail_text()),
        ("cap", "1/2", json.dumps({"composed_with": []})),
        ("charge", "1/2", detail_text(composed_with=[])),
        ("charge", "1/2", detail_text(composed_with=None)),
        ("charge", "1/2", detail_text(composed_with=P)),
        ("charge", "1/2", detail_text(composed_with={P: 1})),
        ("charge", "1/2", detail_text(composed_with=[1])),
        ("charge", "1/2", detail_text(composed_with=[S])),  # never charged
        ("refusal", "1/2", detail_text(composed_with=[S])),
        ("charge", "1/2", detail_text(composed_with=[P, "a" * 64])),  # without a profile
        ("charge", "1/2", json.dumps({"plan": Q, "composed_with": [P]})),
        *(("charge", "1/2", json.dumps({"units": units})) for units in (None, {}, [], [None], [{"rho": "1/2"}])),
        *(("charge", "1/2", units_detail({"rho": "1/2"}, unit)) for unit in (SURVEY.document, SURVEY.key, None)),
        *(
            ("charge", "1/2", units_detail(price))
            for price in ({}, {"rho": "1/3"}, {"rho": "2/4"}, {"rho": "-1"}, {"rho": 1}, {"rho": None})
        ),
        ("charge", "1/2", units_detail({"rho": "1/2", "epsilon": "1/2"})),
        ("charge", "1/2", units_detail({"rho": "1", "profile": YOUNG.document()})),
        ("charge", "1/2", units_detail({"rho": "1/2", "delta": "1"})),
        ("charge", "1/2", units_detail({"rho": "1/2"}, {**PERSON.document, "name": " "})),
        ("charge", "1/2", units_detail({"rho": "1/2"}, {**PERSON.document, "id": "house"})),
        ("charge", "1/2", json.dumps({"units": [{"unit": PERSON.document, "rho": "1/2"}] * 2})),
        ("cap", "1/2", units_detail({"rho": "1/2"})),
        ("charge", "1/2", "[]"),
        ("charge", "1/2", "7"),
        ("charge", "1/2", "[" * 100_000),
        *(("charge", "1/8", pure_detail(x)) for x in ("1/4", "-1/2", "2/4", "0.5", " 1/2", "1/0", "1/2/1", "", None)),
        ("charge", "1/2", pure_detail(1)),
        ("charge", "1/8", pure_detail(["1/2"])),
        ("charge", f"{2**63 + 1}/{2**64}", pure_detail("1")),  # rounded up once too often
        ("refusal", "1/8", pure_detail("1/4")),
        ("cap", "1/8", pure_detail("1/4")),
        ("cap", "1/8", pure_detail(None)),
        ("cap", str(ceil_dyadic(Fraction(1, 18))), pure_detail("1/3")),  # a cap is not rounded
        ("charge", "1/18", pure_detail("1/3")),  # and a charge is
        ("charge", "1/2", pure_detail("1/2", plan=Q, profile=YOUNG.document())),
        ("charge", "1/4", pure_detail("1", plan=Q, profile=YOUNG.document())),
        ("charge", "1/2", json.dumps({"mu_squared": "1"})),
        ("charge", "1/2", json.dumps({"mu_rate": "2"})),
        ("charge", "1/2", json.dumps({"mu_squared": "1", "mu_rate": "1"})),
        ("charge", "1/2", json.dumps({"mu_squared": "1/3", "mu_rate": "2"})),  # not rounded
        ("charge", "1/2", json.dumps({"mu_squared": "1/2", "mu_rate": "0"})),
        ("charge", "1/2", json.dumps({"mu_squared": "-1", "mu_rate": "2"})),
        ("charge", "1/2", json.dumps({"mu_squared": 1, "mu_rate": "2"})),
        ("cap", "1/2", json.dumps({"mu_squared": "2"})),
        ("cap", "1/2", json.dumps({"mu_squared": "1", "epsilon": "1"})),
        ("cap", "1/2", json.dumps({"mu_squared": "1", "mu_rate": "2"})),
    ],
)
def test_a_well_chained_entry_that_no_ledger_writes_is_named(path: Path, kind: str, rho: str, detail: str) -> None:
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(8))
        spend(ledger, P, YOUNG)
    forged(path, kind, rho, detail)
    with refused("ledger.entry-invalid"):
        Ledger(path)


def test_what_a_ledger_writes_could_have_been_written_by_hand(path: Path) -> None:
    """The rows above differ from these in nothing but what they are refused for."""
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(8))
        spend(ledger, P, YOUNG)
    forged(path, "charge", "1/2", detail_text(composed_with=[P]))
    forged(path, "refusal", "1/2", detail_text(composed_with=[P, Q]))
    forged(path, "charge", "1/8", pure_detail("1/2"))
    forged(path, "charge", str(ceil_dyadic(Fraction(1, 18))), pure_detail("1/3"))
    forged(path, "refusal", "1/8", pure_detail("1/2"))
    forged(path, "cap", "1/18", pure_detail("1/3"))
    forged(path, "cap", "0", pure_detail("0"))
    with Ledger(path) as ledger:
        assert [str(e.epsilon) for e in ledger.entries()[9:]] == ["1/2", "1/3", "1/2", "1/3", "0"]
        balance = ledger.balance(SURVEY)
    assert (balance.spent, balance.epsilon_cap) == (
        Fraction(3, 4) + 1 + Fraction(1, 8) + ceil_dyadic(Fraction(1, 18)),
        0,
    )


@pytest.mark.parametrize("change", ["1152921504606846976,", "2305843009213693953,"])
def test_a_changed_profile_or_promise_is_named(path: Path, change: str) -> None:
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(8))
        spend(ledger, P, ages(4, 1, 1))
        spend(ledger, Q, ages(1, 1, 4), P)
        assert "2305843009213693952," in json.dumps(ledger.entries()[-1].detail)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    tamper(path, f"UPDATE entries SET detail = replace(detail, '2305843009213693952,', '{change}') WHERE sequence = 8")
    tamper(copy, f"""UPDATE entries SET detail = replace(detail, '"composed_with":["{P}"],', '') WHERE sequence = 8""")
    for file in (path, copy):
        with refused("ledger.entry-changed"):
            Ledger(file)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER entries_keep",
        "CREATE TRIGGER hush AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE sequence = 1; END",
        "CREATE TABLE notes (text)",
    ],
)
def test_a_ledger_with_other_tables_or_triggers_is_refused(path: Path, statement: str) -> None:
    with raw(path) as db:
        db.execute(statement)
    with refused("ledger.schema-altered"):
        Ledger(path)


def test_tampering_while_the_ledger_is_open_is_noticed_by_the_next_call(path: Path) -> None:
    with Ledger(path) as ledger:
        tamper(path, "UPDATE entries SET rho = '1/8' WHERE sequence = 2")
        for ask in (ledger.head, lambda: ledger.balance(SURVEY), lambda: ledger.charge(SURVEY, loss(UNIT), {})):
            with refused("ledger.entry-changed"):
                ask()


def test_a_tail_cut_off_is_seen_by_who_saw_it_or_wrote_the_head_down(path: Path) -> None:
    with Ledger(path) as ledger:
        head = ledger.head()
        tamper(path, "DELETE FROM entries WHERE sequence = 5")
        with refused("ledger.head-not-found"):
            ledger.charge(SURVEY, loss(UNIT), {})
    with Ledger(path) as ledger:  # the limit of a chain: nothing in the file shows it
        assert ledger.verify() == 4
        with refused("ledger.head-not-found"):
            ledger.verify(expected_head=head)
        ledger.charge(SURVEY, loss(UNIT), {})
        with refused("ledger.head-not-found"):
            ledger.verify(expected_head=head)
        with refused("ledger.head-not-found"):
            ledger.verify(expected_head=(-1, GENESIS))


@given(st.integers(0, 8191), st.integers(1, 255))
@example(4100, 1)  # the count of cells in the page of entries: one less hides the last entry
@example(18, 3)  # the journal mode
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_one_damaged_byte_is_refused_or_changes_nothing(path: Path, position: int, mask: int) -> None:
    with Ledger(path) as ledger:
        entries = ledger.entries()
    damaged = path.with_name("damaged.db")
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    damaged.write_bytes(content)
    for suffix in ("-wal", "-shm"):
        damaged.with_name(damaged.name + suffix).unlink(missing_ok=True)
    with suppress(LedgerError), Ledger(damaged) as ledger:
        assert ledger.entries() == entries


# --- Pure promises ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 1, True, "1/2", float("nan"), Fraction(-1, 2), Fraction(-1, 10**300)])
def test_a_cap_on_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    with Ledger(":memory:") as ledger:
        with refused("ledger.cap-not-a-fraction"):
            ledger.set_cap(SURVEY, epsilon=epsilon)
        with refused("ledger.cap-not-a-fraction"):
            ledger.set_cap(SURVEY, mu_squared=epsilon)
        for caps in ({"rho": Fraction(1)}, {"mu_squared": Fraction(1)}, {"rho": None, "epsilon": None}):
            with refused("ledger.cap-kind-not-single"):
                ledger.set_cap(SURVEY, **{"epsilon": epsilon} | caps)
        assert ledger.entries() == []


def test_an_epsilon_too_long_to_be_written_is_refused() -> None:
    """This is as for ρ; its square has twice the digits, and a charge rounds that, so the ε itself must be short."""
    tiny, large = 1 / Fraction(2**1001), Fraction(2**600)
    fine = 1 / Fraction(2**999)
    with Ledger(":memory:") as ledger:
        with refused("ledger.epsilon-too-long"):
            ledger.charge(SURVEY, loss(UNIT, epsilon=tiny), {})
        with refused("ledger.cost-out-of-range"):
            pure(ledger, large)
        for cap in (tiny, large, fine):
            with refused("ledger.cost-out-of-range"):
                ledger.set_cap(SURVEY, epsilon=cap)
        assert ledger.entries() == []
        entry = ledger.charge(SURVEY, loss(UNIT, epsilon=fine), {})
        assert ledger.entries() == [entry]
        assert entry.epsilon == fine


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (
            """UPDATE entries SET detail = replace(detail, '"1/2"', '"1/4"') WHERE sequence = 2""",
            "ledger.entry-invalid",
        ),
        ("""UPDATE entries SET detail = '{}' WHERE sequence = 2""", "ledger.entry-changed"),
        (
            """UPDATE entries SET detail = replace(detail, '"1/2"', '"2/4"') WHERE sequence = 2""",
            "ledger.entry-invalid",
        ),
        ("""UPDATE entries SET detail = '{"epsilon":"1/2","plan":"q"}' WHERE sequence = 2""", "ledger.entry-changed"),
        ("""UPDATE entries SET detail = '{}' WHERE sequence = 1""", "ledger.entry-changed"),  # a cap on ρ instead
        ("""UPDATE entries SET detail = '{"epsilon":"2"}', rho = '2' WHERE sequence = 1""", "ledger.entry-changed"),
        (
            """UPDATE entries SET detail = '{"epsilon":"1/4"}', rho = '1/32' WHERE sequence = 2""",
            "ledger.entry-changed",
        ),
    ],
)
def test_an_altered_epsilon_is_named(tmp_path: Path, change: str, code: str) -> None:
    path = tmp_path / "pure.db"
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(1))
        pure(ledger, Fraction(1, 2))
        pure(ledger, Fraction(1, 2))
    tamper(path, change)
    with refused(code):
        Ledger(path)


def test_the_constitution_promises_pure_charges() -> None:
    assert "8. **A pure promise stays pure.**" in (room.__doc__ or "")


# --- Other processes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_busy_ledger_is_a_clear_error(path: Path, lock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.05)
    with Ledger(path) as ledger, raw(path) as other:
        other.execute(lock)
        for ask in (ledger.set_cap, lambda account, rho: ledger.charge(account, loss(rho), {})):
            with refused("ledger.ledger-busy"):
                ask(SURVEY, UNIT)
        if lock == "BEGIN EXCLUSIVE":
            with refused("ledger.ledger-busy"):
                Ledger(path)
        other.execute("ROLLBACK")
        assert ledger.charge(SURVEY, loss(UNIT), {}).sequence == 6


def test_a_reader_that_does_not_finish_stops_the_commit_and_nothing_is_charged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.05)
    with Ledger(path) as ledger, raw(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM entries").fetchone()
        with refused("ledger.ledger-busy"):
            ledger.charge(SURVEY, loss(UNIT), {})
        reader.execute("ROLLBACK")
        assert ledger.verify() == 5
        assert ledger.charge(SURVEY, loss(UNIT), {}).sequence == 6


class Interposed:
    """A connection on which ``act`` is called just before or just after a statement."""

    def __init__(self, db: sqlite3.Connection, statement: str, when: str, act: Callable[[], None]) -> None:
        self.db, self.statement, self.when, self.act = db, statement, when, act

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        chosen = sql.startswith(self.statement)
        if chosen and self.when == "before":
            self.act()
        cursor = self.db.execute(sql, *parameters)
        if chosen and self.when == "after":
            self.act()
        return cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)


@contextmanager
def interposed(ledger: Ledger, statement: str, when: str, act: Callable[[], None]) -> Iterator[None]:
    db = ledger._store._db  # type: ignore[attr-defined]
    ledger._store._db = Interposed(db, statement, when, act)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        ledger._store._db = db  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("when", "code", "recorded"), [("before", "ledger-unusable", 5), ("after", "writing-unknown", 6)]
)
def test_a_disk_that_fails_while_committing(path: Path, when: str, code: str, recorded: int) -> None:
    def fail() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with Ledger(path) as ledger:
        with interposed(ledger, "COMMIT", when, fail), pytest.raises(LedgerError) as caught:
            ledger.charge(SURVEY, loss(UNIT), {})
        assert caught.value.code == f"ledger.{code}"
        assert "disk I/O error" in caught.value.given
        assert ("charged nothing" in str(caught.value)) == (recorded == 5)
        assert ledger.verify() == recorded


@pytest.mark.parametrize("statement", ["BEGIN", "SELECT * FROM entries", "INSERT", "COMMIT"])
def test_an_interrupt_before_the_commit_charges_nothing(path: Path, statement: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with Ledger(path) as ledger:
        with interposed(ledger, statement, "before", interrupt), pytest.raises(KeyboardInterrupt):
            ledger.charge(SURVEY, loss(UNIT), {})
        assert ledger.verify() == 5
        assert ledger.charge(SURVEY, loss(UNIT), {}).sequence == 6


PRELUDE = """
import sys, types
package = types.ModuleType("fitnoise")  # without its __init__: what a child imports, it waits for
package.__path__ = [sys.argv.pop(1)]
sys.modules["fitnoise"] = package
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of its own that runs the script, and is waited for by ``communicate``."""
    command = [sys.executable, "-c", PRELUDE + script, str(Path(room.__file__).parents[2]), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


RACER = """
import sys
from fractions import Fraction
from fitnoise.errors import BudgetExceeded
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account, PrivacyUnit
print("ready", flush=True)
for line in sys.stdin:
    with Ledger(line.rstrip()) as ledger:
        try:
            ledger.charge(Account("survey", PrivacyUnit()), Loss.concentrated(Fraction(1, 4)), {})
            print("charged", flush=True)
        except BudgetExceeded:
            print("refused", flush=True)
"""
RACERS = 8


@pytest.fixture(scope="module")
def race() -> Iterator[Callable[[Path], list[str]]]:
    """Eight processes that charge 1/4 to the same file at the same moment, and what each one says."""
    racers = [start(RACER) for _ in range(RACERS)]

    def run(path: Path) -> list[str]:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{path}\n")
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.flush()
        return [racer.stdout.readline().strip() for racer in racers if racer.stdout]

    assert {racer.stdout.readline().strip() for racer in racers if racer.stdout} == {"ready"}
    yield run
    for racer in racers:
        racer.communicate()
        assert racer.returncode == 0


@pytest.mark.no_cover
@pytest.mark.parametrize("winners", [1, 3])
@pytest.mark.parametrize("attempt", range(3))
def test_a_race_for_the_last_of_the_budget_has_as_many_winners_as_it_pays_for(
    tmp_path: Path, race: Callable[[Path], list[str]], winners: int, attempt: int
) -> None:
    path = tmp_path / f"race {attempt}.db"
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(winners, 4) + Fraction(1, 5))
        assert sorted(race(path)) == ["charged"] * winners + ["refused"] * (RACERS - winners)
        assert ledger.balance(SURVEY).spent == Fraction(winners, 4)
        assert ledger.verify() == 1 + RACERS


@pytest.mark.parametrize("attempt", range(3))
def test_processes_that_create_the_same_file_at_once_share_one_good_ledger(
    tmp_path: Path, race: Callable[[Path], list[str]], attempt: int
) -> None:
    path = tmp_path / f"new {attempt}.db"
    assert race(path) == ["charged"] * RACERS
    with Ledger(path) as ledger:
        assert ledger.verify() == RACERS
        assert ledger.balance(SURVEY).spent == Fraction(RACERS, 4)
    assert list(tmp_path.iterdir()) == [path]


# --- Crashes ----------------------------------------------------------------------------------------------

CRASHER = """
import os, signal, sys
from fractions import Fraction
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account, PrivacyUnit

path, statement, when, cache, size = sys.argv[1:]

class Deadly:
    def __init__(self, db):
        self.db = db
    def execute(self, sql, *parameters):
        chosen = sql.startswith(statement)
        if chosen and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        cursor = self.db.execute(sql, *parameters)
        if chosen and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor
    def __getattr__(self, name):
        return getattr(self.db, name)

ledger = Ledger(path)
ledger._store._db.execute(f"PRAGMA cache_size={cache}")
ledger._store._db = Deadly(ledger._store._db)
account = Account("survey", PrivacyUnit())
ledger.charge(account, Loss.concentrated(Fraction(1, 8)), {"plan": "x" * int(size)})
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_process_killed_around_a_charge_leaves_all_of_it_or_nothing(path: Path, tmp_path: Path) -> None:
    points = [
        (statement, when, cache, size, 6 if (statement, when) == ("COMMIT", "after") else 5)
        for statement in ("BEGIN", "SELECT * FROM entries", "INSERT", "COMMIT")
        for when in ("before", "after")
        # An entry far larger than the cache reaches the file before the commit: the journal must undo that.
        for cache, size in ((-2000, 10), (1, 300_000))
    ]
    runs = []
    for number, (statement, when, cache, size, expected) in enumerate(points):
        copy = tmp_path / f"{number}.db"
        shutil.copy(path, copy)
        runs.append((copy, start(CRASHER, str(copy), statement, when, str(cache), str(size)), expected))
    undone = 0
    for copy, process, expected in runs:
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        journal = copy.with_name(copy.name + "-journal")
        undone += journal.exists() and journal.read_bytes()[:8] == b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
        with Ledger(copy) as ledger:
            assert ledger.verify() == expected
            assert ledger.balance(SURVEY).spent == Fraction(3, 4) + Fraction(expected - 5, 8)
            assert ledger.charge(SURVEY, loss(UNIT), {}).sequence == expected + 1
        assert not journal.exists()
    assert undone >= 2  # the test did meet half-written files


CREATOR = """
import os, pathlib, signal, sys
from fitnoise.kernel.ledger import Ledger

path, when = sys.argv[1:]
link = pathlib.Path.hardlink_to

def hardlink_to(self, target):
    if when == "after":
        link(self, target)
    os.kill(os.getpid(), signal.SIGKILL)

pathlib.Path.hardlink_to = hardlink_to
Ledger(path)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_while_creating_leaves_a_complete_ledger_or_none(tmp_path: Path, when: str) -> None:
    path = tmp_path / "ledger.db"
    process = start(CREATOR, str(path), when)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert path.exists() == (when == "after")
    with Ledger(path) as ledger:
        assert ledger.verify() == 0
        ledger.charge(SURVEY, loss(UNIT), {})
    assert path.stat().st_nlink == 1  # the name it was made under is gone


SPENDER = """
import sys
from fractions import Fraction
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account, PrivacyUnit
with Ledger(sys.argv[1]) as ledger:
    while True:
        entry = ledger.charge(Account("survey", PrivacyUnit()), Loss.concentrated(Fraction(1, 8)), {"plan": "x" * 6000})
        print(entry.sequence, flush=True)
"""


@pytest.mark.no_cover
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_process_killed_at_any_moment_forgets_no_charge_it_made(tmp_path: Path) -> None:
    runs = [(tmp_path / f"{number}.db", start(SPENDER, str(tmp_path / f"{number}.db"))) for number in range(6)]
    for number, (path, process) in enumerate(runs):
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(3 * number + 1)]
        process.kill()
        acknowledged += process.stdout.read().split()
        process.communicate()
        with Ledger(path) as ledger:
            recorded = ledger.verify()
            assert int(acknowledged[-1]) <= recorded <= int(acknowledged[-1]) + 1
            assert ledger.balance(SURVEY).spent == Fraction(recorded, 8)


# --- μ² ---------------------------------------------------------------------------------------------------

FINE = Fraction(1, 2**20)


def gaussian(rho: Fraction, *eighths: int) -> Loss:
    """Return the loss of Gaussian noise on a fine lattice, by age if eighths are given."""
    if not eighths:
        return Loss.concentrated(rho, FINE)
    return Loss.of_cells((("age", len(eighths)),), [Fraction(x, 8) for x in eighths], FINE)


def test_under_a_cap_on_mu_it_is_mu_squared_that_adds_up() -> None:
    half, rate = Fraction(1, 2), 2 / (1 - 4 * FINE)
    with Ledger(":memory:") as ledger:
        cap = ledger.set_cap(SURVEY, mu_squared=Fraction(3), reason="board")
        assert (cap.rho, cap.mu_squared, cap.epsilon) == (Fraction(3, 2), 3, None)
        assert dict(cap.detail) == {"mu_squared": "3", "reason": "board"}
        entry = ledger.charge(SURVEY, gaussian(half), {})
        assert entry.mu_squared == ceil_dyadic(rate * half) > 1
        pure = ledger.charge(SURVEY, Loss.of_epsilon(half, by_cell=True), {})
        assert pure.mu_squared == ceil_dyadic(pure_mu_squared(half)) <= ceil_dyadic(HALF_PI * half**2)
        balance = ledger.balance(SURVEY)
        assert balance.mu_squared_spent == entry.mu_squared + pure.mu_squared
        assert (balance.remaining, balance.mu_squared_cap) == ((3 - balance.mu_squared_spent) / 2, 3)
        price = gaussian(half)
        assert (ledger.quote(SURVEY, price).fits, ledger.quote(SURVEY, price).further_releases) == (True, 1)
        ledger.charge(SURVEY, price, {})
        error = refusal(lambda: ledger.charge(SURVEY, price, {}))
        assert error.code == "ledger.over-mu-cap"
        assert all(text in str(error) for text in ("μ² = about 1 ", "spent μ² is about 2.38925", "cap is 3"))
        ledger.set_cap(SURVEY, Fraction(9))  # another account: no cap on μ² applies to it
        assert ledger.balance(SURVEY).mu_squared_cap is None
        ledger.charge(SURVEY, loss(half), {})  # of a lattice that is not known
        ledger.set_cap(SURVEY, mu_squared=Fraction(99))
        assert ledger.balance(SURVEY).mu_squared_spent is None
        error = refusal(lambda: ledger.charge(SURVEY, price, {}))
        assert error.code == "ledger.mu-unknown"
        assert "μ² of an earlier charge" in error.given
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, mu_squared=Fraction(99))
        error = refusal(lambda: ledger.charge(SURVEY, loss(half), {}))
        assert error.code == "ledger.mu-unknown"
        assert "μ² of this release" in error.given
        assert f"{SURVEY.source!r} ({SURVEY.sentence})" in error.given


def test_on_the_same_records_mu_squared_is_that_of_the_costliest_cell() -> None:
    """Or, together with pure charges, the sum, if it is less than π times the joint ρ."""
    rate = 2 / (1 - 4 * FINE)
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, gaussian(Fraction(1, 2), 4, 1, 1), {"plan": P})
        ledger.charge(SURVEY, gaussian(Fraction(1, 2), 1, 1, 4), {"plan": Q}, composed_with=[P])
        spent = ledger.balance(SURVEY).mu_squared_spent
        assert 0 <= spent - rate * Fraction(5, 8) < 4 * UNIT
        cells = [Fraction(0), Fraction(1, 8), Fraction(0)]
        numbers = Loss.of_epsilon(Fraction(1), by_cell=True, axes=(("age", 3),), implied=cells)
        ledger.charge(SURVEY, numbers, {"plan": R}, composed_with=[P])
        both = ledger.balance(SURVEY).mu_squared_spent
        assert ledger.balance(SURVEY).spent == Fraction(5, 8)
        assert 0 <= both - 2 * HALF_PI * Fraction(5, 8) < 8 * UNIT  # less than twice 1, and π/8


def test_other_units_pay_mu_squared_likewise() -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, gaussian(Fraction(1, 8)), {}, also={SWAP: gaussian(Fraction(3, 8))})
        (entry,) = ledger.entries()
        assert entry.price(SWAP).mu_squared == ceil_dyadic(Fraction(3, 4) / (1 - 4 * FINE))
        assert entry.price(PERSON).mu_squared == 9 * entry.mu_squared
        ledger.set_cap(PERSON, mu_squared=9 * entry.mu_squared)
        assert ledger.balance(PERSON).remaining == 0
        assert "μ²" in refusal(lambda: ledger.charge(SURVEY, gaussian(UNIT), {})).given


def test_two_units_of_one_charge_that_look_equal_are_refused() -> None:
    twin = Account("survey", PrivacyUnit("pers0n", 3))
    with Ledger(":memory:") as ledger:
        with refused("ledger.units-look-alike"):
            ledger.charge(PERSON, gaussian(Fraction(1)), {}, also={twin: gaussian(Fraction(1))})
        assert ledger.entries() == []


# --- Shares of a cap --------------------------------------------------------------------------------------


def to_share(ledger: Ledger, part: str | None, rho: Fraction = Fraction(1, 8)) -> LedgerEntry:
    return ledger.charge(SURVEY, loss(rho), {} if part is None else {"share": part})


def test_a_share_has_its_own_cap_under_that_of_the_account() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(4, 8))
        ledger.set_cap(SURVEY, Fraction(3, 8), share="north", reason="board of 2 May")
        entry = ledger.set_cap(SURVEY, Fraction(2, 8), share="south")
        assert (entry.kind, entry.detail, entry.limit) == ("cap", {"share": "south"}, ("rho", Fraction(1, 4)))
        assert ledger.entries()[1].detail == {"share": "north", "reason": "board of 2 May"}
        assert ledger.balance(SURVEY).cap == Fraction(4, 8)  # no cap of a share replaces it
        for _ in range(2):
            assert to_share(ledger, "south").detail == {"share": "south"}
        with refused("ledger.over-cap") as raised:
            to_share(ledger, "south")
        assert "(one record, add-or-remove-one), share 'south'." in raised.value.given
        assert (ledger.entries()[-1].kind, ledger.entries()[-1].detail) == ("refusal", {"share": "south"})
        for _ in range(2):
            to_share(ledger, "north")
        with refused("ledger.over-cap") as raised:  # north has 1/8 left, and the account nothing
            to_share(ledger, "north")
        assert "share" not in raised.value.given
        spent = [ledger.balance(SURVEY, x) for x in (None, "north", "south", "west")]
        assert [(x.share, x.spent, x.cap, x.remaining) for x in spent] == [
            (None, Fraction(4, 8), Fraction(4, 8), 0),
            ("north", Fraction(2, 8), Fraction(3, 8), Fraction(1, 8)),
            ("south", Fraction(2, 8), Fraction(2, 8), 0),
            ("west", 0, None, None),
        ]
        ledger.set_cap(SURVEY, Fraction(0), share="north")  # closes it; what was spent stays
        quote = ledger.quote(SURVEY, loss(UNIT), share="north")
        assert (quote.fits, quote.further_releases) == (False, 0)
        ledger.set_cap(SURVEY, Fraction(1))
        assert [ledger.quote(SURVEY, loss(UNIT), share=x).fits for x in (None, "north", "west")] == [True, False, True]


@pytest.mark.parametrize("part", [None, "west", "", ["north"], 3])
def test_where_there_are_shares_each_charge_names_one(part: Any) -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(PERSON, Fraction(1), share="north")  # of another unit of this source, and without another cap
        ledger.set_cap(SURVEY, Fraction(1))
        for act in (ledger.charge, ledger.admit):
            with refused("ledger.share-not-named"):
                act(SURVEY, loss(UNIT), {} if part is None else {"share": part}, also={PERSON: loss(UNIT)})
        ledger.charge(SURVEY, loss(UNIT), {"share": "north"}, also={PERSON: loss(UNIT)})
        assert [e.kind for e in ledger.entries()] == ["cap", "cap", "charge"]
        ledger.charge(CENSUS, loss(UNIT), {})
        with refused("ledger.share-not-named"):
            ledger.charge(CENSUS, loss(UNIT), {"share": "north"})


@pytest.mark.parametrize("name", ["", " north", "no\nrth", "no\u0308rd", 7, b"north"])
def test_the_name_of_a_share_is_printable(name: Any) -> None:
    with Ledger(":memory:") as ledger, refused("ledger.share-without-name"):
        ledger.set_cap(SURVEY, Fraction(1), share=name)


def test_shares_of_one_source_have_names_that_no_one_confuses() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1), share="north")
        ledger.set_cap(SURVEY, Fraction(2), share="north")
        for twin in ("North", "nоrth"):  # with a Cyrillic o
            with refused("ledger.share-looks-alike"):
                ledger.set_cap(SURVEY, Fraction(1), share=twin)
        ledger.set_cap(CENSUS, Fraction(1), share="North")


def test_a_charge_to_a_share_counts_under_the_caps_of_this_share_for_every_unit() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1), share="north")
        ledger.set_cap(PERSON, Fraction(1), share="north")
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {"share": "north"}, also={PERSON: loss(Fraction(7, 8))})
        with refused("ledger.over-cap"):
            ledger.charge(SURVEY, loss(Fraction(1, 8)), {"share": "north"}, also={PERSON: loss(Fraction(2, 8))})
        assert [ledger.balance(a, "north").spent for a in (SURVEY, PERSON)] == [Fraction(1, 8), Fraction(7, 8)]


def test_on_the_same_records_a_share_pays_for_its_own_charges() -> None:
    def charge(plan: str, part: str, profile: Profile, *plans: str) -> None:
        ledger.charge(
            SURVEY, loss(profile.largest, profile=profile), {"plan": plan, "share": part}, composed_with=plans
        )

    with Ledger(":memory:") as ledger:
        for part in ("north", "south"):
            ledger.set_cap(SURVEY, Fraction(1), share=part)
        charge(P, "north", YOUNG)
        charge(Q, "south", OLD, P)
        charge(R, "north", OLD, P, Q)
        eighths = [8 * (ledger.balance(SURVEY, x).spent or 0) for x in (None, "north", "south")]
        assert eighths == [9, 5, 4]  # ages (6, 3, 9) of all, (5, 2, 5) of north, and (1, 1, 4) of south


def test_shares_limit_pure_epsilon_and_mu_as_caps_do() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(2))
        ledger.set_cap(SURVEY, epsilon=Fraction(1), share="north")
        ledger.set_cap(SURVEY, mu_squared=Fraction(1, 2), share="south")
        half = loss(Fraction(1, 8), epsilon=Fraction(1, 2))
        for _ in range(2):
            ledger.charge(SURVEY, half, {"share": "north"})
        with refused("ledger.over-epsilon-cap"):
            ledger.charge(SURVEY, half, {"share": "north"})
        with refused("ledger.over-mu-cap") as raised:
            for _ in range(2):
                ledger.charge(SURVEY, half, {"share": "south"})
        assert "share 'south'" in raised.value.given


shares = st.sampled_from(["north", "south", "west"])
eighths = st.integers(1, 5).map(lambda n: Fraction(n, 8))
steps = st.one_of(
    st.tuples(st.just("cap"), st.none() | shares, st.just(Fraction(0)) | eighths),
    st.tuples(st.just("charge"), st.none() | shares, eighths),
    st.tuples(st.just("charge"), shares, eighths),
)


@settings(deadline=None)
@given(st.lists(steps, max_size=12))
def test_a_share_only_refuses_more(many: list[tuple[str, str | None, Fraction]]) -> None:
    caps: dict[str | None, Fraction] = {}
    spent = dict.fromkeys((None, "north", "south", "west"), Fraction(0))
    with Ledger(":memory:") as ledger:
        for act, part, size in many:
            existing = caps.keys() - {None}
            if act == "cap":
                ledger.set_cap(SURVEY, size, share=part)
                caps[part] = size
            elif part not in (existing or {None}):
                with refused("ledger.share-not-named"):
                    to_share(ledger, part, size)
            elif any(x in caps and spent[x] + size > caps[x] for x in (None, part)):
                with refused("ledger.over-cap"):
                    to_share(ledger, part, size)
            else:
                to_share(ledger, part, size)
                for each in {None, part}:
                    spent[each] += size
            assert {x: ledger.balance(SURVEY, x).spent for x in spent} == spent
            assert {x: ledger.balance(SURVEY, x).cap for x in caps} == caps


# --- approvals --------------------------------------------------------------------------------------------


def approved(number: int = 1, **others: Any) -> dict[str, Any]:
    """Return the detail of a charge that a second person approved."""
    return {"proposal": f"{number:064}", "proposed_by": "ada", "approved_by": "ben"} | others


@pytest.mark.parametrize(
    "detail",
    [
        {},
        {"proposal": "0" * 64},
        {"proposed_by": "ada", "approved_by": "ben"},
        approved(proposal="0" * 63),
        approved(proposal=7),
        approved(approved_by="ada"),
        approved(approved_by="Ada"),
        approved(approved_by="аda"),  # with a Cyrillic a
        approved(approved_by=""),
        approved(proposed_by=None),
        approved(proposed_by=["ada"]),
    ],
)
def test_where_approval_is_required_each_charge_names_a_proposal_and_two_persons(detail: dict[str, Any]) -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1))
        ledger.charge(SURVEY, loss(UNIT), {"plan": P})
        ledger.set_cap(PERSON, Fraction(1), approval=True)  # for all units of this source
        for act in (ledger.charge, ledger.admit):
            with refused("ledger.charge-not-approved"):
                act(SURVEY, loss(UNIT), detail, also={PERSON: loss(UNIT)})
        ledger.charge(CENSUS, loss(UNIT), detail)  # another source
        ledger.admit(SURVEY, loss(UNIT), approved(2), also={PERSON: loss(UNIT)})
        entry = ledger.charge(SURVEY, loss(UNIT), approved(2), also={PERSON: loss(UNIT)})
        assert {key: entry.detail[key] for key in approved()} == approved(2)
        assert [e.kind for e in ledger.entries()] == ["cap", "charge", "cap", "charge", "charge"]


def test_the_last_cap_that_states_it_requires_approval_or_ends_this() -> None:
    with Ledger(":memory:") as ledger:
        for number, (approval, is_required) in enumerate(
            [(None, False), (True, True), (None, True), (False, False), (None, False), (True, True)]
        ):
            entry = ledger.set_cap(SURVEY, Fraction(1), approval=approval)
            assert entry.detail == ({} if approval is None else {"approval": approval})
            with refused("ledger.charge-not-approved") if is_required else nullcontext():
                ledger.charge(SURVEY, loss(UNIT), {})
            ledger.charge(SURVEY, loss(UNIT), approved(number))
        ledger.set_cap(SURVEY, Fraction(1), share="north", approval=False)
        ledger.charge(SURVEY, loss(UNIT), {"share": "north"})


@pytest.mark.parametrize("value", [None, 0, 1, "", "none", "required", [], {}])
def test_a_cap_that_states_anything_else_about_approval_ends_nothing(value: Any, tmp_path: Path) -> None:
    """Also a cap that another program wrote, with digests that are right."""
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.set_cap(SURVEY, Fraction(1), approval=True)
        if value not in ("", None):
            with refused("ledger.entry-invalid"):
                ledger.set_cap(SURVEY, Fraction(1), approval=value)
        with refused("ledger.charge-not-approved"):
            ledger.charge(SURVEY, loss(UNIT), {})
        ((*columns, _),) = [x for x in ledger._store.rows() if x[0] == 1]
    changed = [2, *columns[1:6], json.dumps({"approval": value}, separators=(",", ":")), ledger._seen[1]]
    with closing(sqlite3.connect(tmp_path / "l.db")) as db, db:
        db.execute("INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?)", (*changed, digest_columns(tuple(changed))))
    with refused("ledger.entry-invalid"):
        Ledger(tmp_path / "l.db")


def test_a_refused_charge_leaves_its_proposal_unused() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1, 8), approval=True)
        for act in (ledger.admit, ledger.charge):
            with refused("ledger.over-cap"):
                act(SURVEY, loss(Fraction(2, 8)), approved())
        ledger.set_cap(SURVEY, Fraction(2, 8))
        ledger.charge(SURVEY, loss(Fraction(2, 8)), approved())
        for act in (ledger.admit, ledger.charge):
            with refused("ledger.proposal-charged-before"):
                act(SURVEY, loss(UNIT), approved())
        assert [e.kind for e in ledger.entries()] == ["cap", "refusal", "refusal", "cap", "charge"]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([SURVEY, CENSUS]), st.none() | st.booleans(), st.none() | st.integers(1, 3)),
        max_size=12,
    )
)
def test_a_proposal_is_charged_once_in_a_ledger_required_or_not(
    many: list[tuple[Account, bool | None, int | None]],
) -> None:
    required: dict[Account, bool | None] = {}
    used = set[int]()
    with Ledger(":memory:") as ledger:
        for account, approval, number in many:
            if approval is not None:
                ledger.set_cap(account, Fraction(1), approval=approval)
                required[account] = approval
            if number is None and required.get(account):
                code = "ledger.charge-not-approved"
            else:
                code = "ledger.proposal-charged-before" if number in used else ""
            with refused(code) if code else nullcontext():
                ledger.charge(account, loss(UNIT), {} if number is None else approved(number))
                used |= {number} - {None}
        charged = [e.detail["proposal"] for e in ledger.entries() if e.kind == "charge" and "proposal" in e.detail]
        assert charged == list(dict.fromkeys(charged))
        assert {f"{n:064}" for n in used} == {*charged}
