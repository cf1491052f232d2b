"""The ledger: its laws, its guarantees one by one; tampering, races, crashes and failing disks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from fractions import Fraction
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
from fitnoise.kernel.ledger import GENESIS, Account, Entry, Ledger, ceil_dyadic
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.profiles import Profile, joint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SURVEY = Account("survey", "one record, add-or-remove-one")
CENSUS = Account("recensement de la Réunion, 東京", "one household, replace-one")
UNIT = Fraction(1, 2**64)
NOTHING = "nothing was charged"

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
    """What someone with write access and a little knowledge does: no trace is left in the triggers."""
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


@pytest.mark.parametrize("rho", [0.5, float("nan"), float("inf"), 1, True, "1/2", None])
def test_only_a_fraction_is_an_exact_cost(rho: Any) -> None:
    with Ledger(":memory:") as ledger:
        for ask in (
            lambda: ceil_dyadic(rho),
            lambda: ledger.quote(SURVEY, loss(rho)),
            lambda: ledger.charge(SURVEY, loss(rho), {}),
            lambda: ledger.set_cap(SURVEY, rho),
        ):
            with pytest.raises(LedgerError, match=r"must be a Fraction.*nothing was charged"):
                ask()
        assert ledger.entries() == []


def test_a_cost_that_is_negative_zero_or_endless_is_refused() -> None:
    endless = Fraction(10**400)
    with Ledger(":memory:") as ledger:
        for rho in (Fraction(-1), -UNIT / 2, endless):
            for ask in (ledger.quote, ledger.set_cap, lambda account, rho: ledger.charge(account, loss(rho), {})):
                with pytest.raises(LedgerError, match=NOTHING):
                    ask(SURVEY, rho)
        with pytest.raises(LedgerError, match=NOTHING):
            ledger.set_cap(SURVEY, 1 / endless)  # a cap is written as it is, and this one is too long
        with pytest.raises(LedgerError, match=r"must be positive"):
            ledger.charge(SURVEY, loss(Fraction(0)), {})
        assert ledger.entries() == []
        assert ledger.charge(SURVEY, loss(1 / endless), {}).rho == UNIT  # a cost is rounded up first


# --- Laws of the balance ----------------------------------------------------------------------------------

operations = st.lists(
    st.tuples(
        st.sampled_from([SURVEY, CENSUS]),
        st.sampled_from(["cap", "charge"]),
        st.builds(Fraction, st.integers(1, 20), st.integers(1, 20)),
    ),
    max_size=12,
)


@given(operations)
@settings(deadline=None)
def test_a_ledger_is_the_fold_of_its_entries(steps: list[tuple[Account, str, Fraction]]) -> None:
    spent = {SURVEY: Fraction(0), CENSUS: Fraction(0)}
    cap: dict[Account, Fraction] = {}
    with Ledger(":memory:") as ledger:
        for account, kind, rho in steps:
            quote = ledger.quote(account, loss(rho))
            if kind == "cap":
                assert ledger.set_cap(account, rho).rho == rho
                cap[account] = rho
            elif account in cap and spent[account] + ceil_dyadic(rho) > cap[account]:
                assert not quote.fits
                with pytest.raises(BudgetExceeded):
                    ledger.charge(account, loss(rho), {})
            else:
                assert quote.fits
                entry = ledger.charge(account, loss(rho), {})
                assert entry.rho == quote.rho == ceil_dyadic(rho)
                spent[account] += entry.rho
                assert account not in cap or spent[account] <= cap[account]
            balance = ledger.balance(account)
            assert balance.spent == spent[account]
            assert balance.cap == cap.get(account)
            left = None if account not in cap else max(cap[account] - spent[account], Fraction(0))
            assert balance.remaining == left
        assert ledger.verify(expected_head=ledger.head()) == len(steps)
        assert ledger.accounts() == list(dict.fromkeys(account for account, _, _ in steps))
        entries = ledger.entries()
        assert [(e.account, e.kind.replace("refusal", "charge")) for e in entries] == [s[:2] for s in steps]
        assert [e for e in entries if e.account == SURVEY] == ledger.entries(SURVEY)
        for account in (SURVEY, CENSUS):
            charges = [e.rho for e in entries if e.account == account and e.kind == "charge"]
            assert sum(charges, Fraction(0)) == spent[account]


def test_a_quote_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    with Ledger(path) as ledger:
        assert ledger.quote(SURVEY, loss(Fraction(1, 4))).fits
        assert not ledger.quote(SURVEY, loss(Fraction(1, 4) + UNIT)).fits
        assert ledger.quote(Account("new", "one record"), loss(Fraction(10**6))).fits  # no cap, no limit
        ledger.balance(SURVEY)
        ledger.verify()
    assert path.read_bytes() == before


def test_the_last_of_the_budget_can_be_spent_and_not_one_step_more() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1, 2))
        ledger.charge(SURVEY, loss(Fraction(1, 2) - UNIT), {})
        ledger.charge(SURVEY, loss(UNIT / 3), {})
        assert ledger.balance(SURVEY).remaining == 0
        with pytest.raises(BudgetExceeded):
            ledger.charge(SURVEY, loss(UNIT / 3), {})


def test_a_cap_is_kept_as_given_so_a_cost_that_rounds_above_it_is_refused() -> None:
    third = Fraction(1, 3)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, third)
        assert ledger.balance(SURVEY).cap == third
        with pytest.raises(BudgetExceeded, match=r"rounded up"):
            ledger.charge(SURVEY, loss(third), {})
        ledger.charge(SURVEY, loss(ceil_dyadic(third) - UNIT), {})  # `remaining` rounded down: the largest that fits


def test_a_cap_is_appended_and_may_fall_below_what_is_spent() -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1, 2)), {})  # before any cap
        ledger.set_cap(SURVEY, Fraction(1))
        entry = ledger.set_cap(SURVEY, Fraction(1, 4), reason="décision du 3 mai")
        assert entry.detail == {"reason": "décision du 3 mai"}
        balance = ledger.balance(SURVEY)
        assert (balance.spent, balance.cap, balance.remaining) == (
            Fraction(1, 2),
            Fraction(1, 4),
            Fraction(0),
        )
        assert not balance.fits
        with pytest.raises(BudgetExceeded):
            ledger.charge(SURVEY, loss(UNIT), {})
        ledger.set_cap(SURVEY, Fraction(0))
        assert [e.kind for e in ledger.entries()] == ["charge", "cap", "cap", "refusal", "cap"]


def test_a_refusal_is_recorded_says_why_and_costs_nothing() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(1, 8))
        with pytest.raises(BudgetExceeded) as caught:
            ledger.charge(SURVEY, loss(Fraction(1, 4)), {"plan": "abc"})
        for words in ("ρ = 1/4", "ρ = 1/8", "'survey'", "one record", "entry 2", NOTHING, "draw no noise"):
            assert words in str(caught.value)
        refusal = ledger.entries()[-1]
        assert (refusal.kind, refusal.rho, refusal.detail) == ("refusal", Fraction(1, 4), {"plan": "abc"})
        assert ledger.balance(SURVEY).spent == 0


# --- On the same records ----------------------------------------------------------------------------------

P, Q, R, S = (letter * 64 for letter in "pqrs")
EIGHTH = 2**61  # of the units of a profile


def ages(*eighths: int) -> Profile:
    """A profile over ages, in eighths."""
    return Profile((("age", len(eighths)),), tuple(e * EIGHTH for e in eighths))


def sexes(*eighths: int) -> Profile:
    return Profile((("sex", len(eighths)),), tuple(e * EIGHTH for e in eighths))


def spend(ledger: Ledger, plan: str, profile: Profile, *beside: str, account: Account = SURVEY) -> Entry:
    return ledger.charge(account, loss(profile.largest, profile=profile), {"plan": plan}, beside=beside)


def spent(ledger: Ledger, account: Account = SURVEY) -> Fraction:
    """In eighths."""
    return ledger.balance(account).spent * 8


YOUNG, OLD, LEVEL = ages(4, 1, 1), ages(1, 1, 4), ages(2, 2, 2)


def test_beside_each_other_only_the_dearest_cell_is_paid() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        quote = ledger.quote(SURVEY, loss(OLD.largest, profile=OLD), beside=[P])
        assert (quote.rho * 8, quote.increase * 8, quote.spent * 8) == (4, 1, 4)
        entry = spend(ledger, Q, OLD, P)
        assert (entry.rho, entry.profile, entry.beside) == (OLD.largest, OLD, (P,))
        assert entry.detail == {"plan": Q, "profile": OLD.document(), "beside": [P]}
        assert spent(ledger) == 5
        spend(ledger, R, ages(0, 2, 0), Q)  # beside Q, hence beside P
        assert spent(ledger) == 5
        spend(ledger, S, OLD)  # nothing is promised of this one
        assert spent(ledger) == 9


def test_a_charge_joins_every_group_that_holds_a_plan_it_names() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD)
        assert spent(ledger) == 8
        quote = ledger.quote(SURVEY, loss(LEVEL.largest, profile=LEVEL), beside=(P, Q))
        assert (quote.rho * 8, quote.increase * 8) == (2, -1)  # they were the same records all along: 7, and not 10
        spend(ledger, R, LEVEL, P, Q)
        assert spent(ledger) == 7
        spend(ledger, S, sexes(1, 0), R)
        assert spent(ledger) == 8  # another attribute: some record lies in the dearest cell of both


def test_a_plan_released_twice_is_no_plan_to_stand_beside() -> None:
    """Whether both releases were of the same records nobody knows; what stood beside the first stays as it is."""
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD, P)
        assert spent(ledger) == 5
        spend(ledger, P, YOUNG)
        assert spent(ledger) == 9  # measured again, and nothing promised
        with pytest.raises(LedgerError, match=rf"released 2 times.*{NOTHING}"):
            spend(ledger, R, OLD, P)
        spend(ledger, R, OLD, Q)
        assert spent(ledger) == 13  # 1 + 4 + 4, and the second release of P
        assert ledger.verify() == 4


def test_what_was_charged_on_the_same_records_can_be_asked_for() -> None:
    with Ledger(":memory:") as ledger:
        with pytest.raises(LedgerError, match=rf"has 0 releases.*{NOTHING}"):
            ledger.charged(SURVEY)
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD, P)
        assert [(c.plan, c.profile) for c in ledger.charged(SURVEY)] == [(P, YOUNG), (Q, OLD)]
        spend(ledger, R, OLD)
        with pytest.raises(LedgerError, match=rf"has 2 releases, or groups.*not promised.*{NOTHING}"):
            ledger.charged(SURVEY)


def test_a_charge_that_would_raise_what_is_spent_can_be_ruled_out() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        before = ledger.entries()
        with pytest.raises(LedgerError, match=rf"would grow by ρ = 1/8, not by 0 at most.*{NOTHING}"):
            ledger.charge(SURVEY, loss(OLD.largest, profile=OLD), {"plan": Q}, beside=[P], at_most=Fraction(0))
        assert ledger.entries() == before
        ledger.charge(SURVEY, loss(OLD.largest, profile=OLD), {"plan": Q}, beside=[P], at_most=Fraction(1, 8))
        assert spent(ledger) == 5


def test_a_level_profile_saves_nothing_and_none_costs_more_than_its_sum() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, Profile((), (4 * EIGHTH,)), P)
        assert spent(ledger) == 8


plans = st.sampled_from([P, Q, R])
eighths = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


@given(st.lists(st.tuples(plans, eighths, st.lists(plans, max_size=2)), max_size=9))
@settings(deadline=None)
def test_spent_is_the_sum_over_groups_of_their_joint_cost(steps: list[tuple[str, list[int], list[str]]]) -> None:
    group: dict[int, int] = {}  # of each charge: the first charge of its group
    made: list[tuple[str, Profile]] = []
    with Ledger(":memory:") as ledger:
        for plan, costs, beside in steps:
            profile = ages(*costs)
            if not all([p for p, _ in made].count(name) == 1 for name in beside):
                with pytest.raises(LedgerError, match=NOTHING):
                    spend(ledger, plan, profile, *beside)
                continue
            before = ledger.quote(SURVEY, loss(profile.largest, profile=profile), beside=beside)
            spend(ledger, plan, profile, *beside)
            united = {group[i] for i, (p, _) in enumerate(made) if p in beside}
            group = {i: len(made) if g in united else g for i, g in group.items()} | {len(made): len(made)}
            made.append((plan, profile))
            total = sum(
                (joint(p for i, (_, p) in enumerate(made) if group[i] == g) for g in set(group.values())), Fraction(0)
            )
            assert ledger.balance(SURVEY).spent == before.spent + before.increase == total
            assert total <= sum((p.largest for _, p in made), Fraction(0))
            assert total >= max(p.largest for _, p in made)
        assert ledger.verify() == len(made)


def test_what_fits_beside_others_fits_to_the_last_step() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, Fraction(5, 8))
        spend(ledger, P, YOUNG)
        with pytest.raises(BudgetExceeded):
            spend(ledger, Q, OLD)  # 8 without the promise
        above = Profile(OLD.axes, (EIGHTH + 1, *OLD.values[1:]))  # dearer in a cell that is not its own dearest
        assert above.largest == OLD.largest
        with pytest.raises(BudgetExceeded, match=r"ρ = 1/2 \(about 0\.125 more beside.*is about 5\.42101e-20 too much"):
            spend(ledger, Q, above, P)
        refusal = ledger.entries()[-1]
        assert (refusal.kind, refusal.rho, refusal.profile, refusal.beside) == ("refusal", above.largest, above, (P,))
        with pytest.raises(LedgerError, match="no charge of"):
            spend(ledger, R, LEVEL, Q)  # a refusal is no release
        spend(ledger, Q, OLD, P)
        balance = ledger.balance(SURVEY)
        assert (balance.spent, balance.remaining, balance.fits) == (Fraction(5, 8), 0, True)
        spend(ledger, R, ages(0, 2, 0), P)  # where there is room, for nothing
        with pytest.raises(BudgetExceeded, match=r"\(1/8 more beside"):
            spend(ledger, S, ages(0, 2, 0), P)
        ledger.set_cap(SURVEY, Fraction(1, 2))
        with pytest.raises(BudgetExceeded, match=r"\(0 more beside.*it is 1/8 too much"):
            spend(ledger, S, ages(0, 1, 0), P)


def test_a_promise_can_bring_what_is_spent_below_the_cap() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD)
        ledger.set_cap(SURVEY, Fraction(3, 4))
        assert not ledger.balance(SURVEY).fits
        with pytest.raises(BudgetExceeded, match=r"\(1/8 less beside.*it is 1/8 too much"):
            spend(ledger, R, LEVEL, P, Q)
        spend(ledger, R, ages(0, 1, 0), P, Q)
        assert spent(ledger) == 5


def test_what_cannot_stand_beside_is_refused_and_not_recorded() -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        spend(ledger, Q, OLD, account=CENSUS)
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {"plan": R})
        ledger.charge(SURVEY, loss(Fraction(1, 8)), {})
        before = ledger.entries()
        for beside, words in [
            ([Q], rf"no charge of 'survey' .* for the plan '{Q}"),  # of another account
            ([P, S], rf"no charge of 'survey' .* for the plan '{S}"),
            ([R], r"nothing can stand beside entry 3: it has no profile"),
            ([P, R], r"nothing can stand beside entry 3"),
            ([P[:12]], r"no charge of"),
            ([""], r"is named by its hash"),
            ([None], r"is named by its hash"),
            ([[P]], r"is named by its hash"),
            (P, r"are a list of their hashes"),
            (None, r"are a list of their hashes"),
            ({P: P}, r"are a list of their hashes"),
        ]:
            many: Any = beside
            for ask in (
                lambda many: ledger.quote(SURVEY, loss(OLD.largest, profile=OLD), beside=many),
                lambda many: ledger.charge(SURVEY, loss(OLD.largest, profile=OLD), {"plan": S}, beside=many),
            ):
                with pytest.raises(LedgerError, match=rf"{words}.*{NOTHING}"):
                    ask(many)
        with pytest.raises(LedgerError, match=rf"needs a profile.*{NOTHING}"):
            ledger.charge(SURVEY, loss(OLD.largest), {"plan": S}, beside=[P])
        with pytest.raises(LedgerError, match=rf"'age' the sizes.*{NOTHING}"):
            spend(ledger, S, ages(1, 1), P)
        assert ledger.entries() == before


@pytest.mark.parametrize("wrong", [Fraction(1, 2), 0.5, YOUNG, YOUNG.document(), None])
def test_only_a_loss_is_charged(wrong: Any) -> None:
    with Ledger(":memory:") as ledger:
        for ask in (lambda: ledger.quote(SURVEY, wrong), lambda: ledger.charge(SURVEY, wrong, {})):
            with pytest.raises(LedgerError, match=rf"is not a Loss.*{NOTHING}"):
                ask()
        assert ledger.entries() == []


def test_a_charge_is_rounded_up() -> None:
    with Ledger(":memory:") as ledger:
        assert ledger.entries() == []
        assert ledger.charge(SURVEY, Loss.concentrated(Fraction(1, 2) - UNIT / 3), {}).rho == Fraction(1, 2)
        cells = [x - UNIT / 3 for x in (Fraction(1, 4), Fraction(1, 2))]
        entry = ledger.charge(SURVEY, Loss.of_cells((("age", 2),), cells), {})
        assert entry.profile == Profile.of((("age", 2),), [Fraction(1, 4), Fraction(1, 2)])


@pytest.mark.parametrize("detail", [{"profile": YOUNG.document()}, {"beside": [P]}, {"beside": None}])
def test_only_the_ledger_writes_profiles_and_promises(detail: dict[str, Any]) -> None:
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        with pytest.raises(LedgerError, match=rf"are for the ledger to write.*{NOTHING}"):
            ledger.charge(SURVEY, loss(Fraction(1, 2)), detail)
        assert ledger.verify() == 1


# --- Names and details ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", " ", " survey", "survey ", "two\nlines", "nul\0", "lone \ud800", "e\u0301 not NFC", 7, None, b"x"],
)
def test_an_account_needs_two_honest_names(name: Any) -> None:
    for names in ((name, "one record"), ("survey", name)):
        with pytest.raises(LedgerError, match=r"cannot name an account"):
            Account(*names)


@pytest.mark.parametrize("account", ["survey", ("survey", "one record"), None])
def test_only_an_account_has_a_balance(account: Any) -> None:
    with Ledger(":memory:") as ledger:
        for ask in (
            lambda: ledger.quote(account, loss(Fraction(1))),
            lambda: ledger.set_cap(account, Fraction(1)),
            lambda: ledger.charge(account, loss(Fraction(1)), {}),
        ):
            with pytest.raises(LedgerError, match=r"is not an Account"):
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
        with pytest.raises(LedgerError, match=r"a detail must be a JSON object.*nothing was charged"):
            ledger.charge(SURVEY, loss(Fraction(1)), detail)
        assert ledger.entries() == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text().filter(lambda key: key not in {"profile", "beside", "epsilon"}), json_values, max_size=3)
)
@settings(deadline=None, max_examples=50)
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
    with pytest.raises(LedgerError, match=r"there is no entry of kind"):
        Entry(1, kind, SURVEY, rho, "2025-01-01T00:00:00+00:00", {}, GENESIS, GENESIS)


# --- The file ---------------------------------------------------------------------------------------------


def test_the_ledger_remembers_over_reopening(path: Path) -> None:
    with Ledger(path) as ledger:
        entries = ledger.entries()
        head = ledger.head()
        assert ledger.accounts() == [SURVEY, CENSUS]
    assert [e.sequence for e in entries] == [1, 2, 3, 4, 5]
    assert [e.kind for e in entries] == ["cap", "charge", "charge", "refusal", "charge"]
    assert entries[2].account == CENSUS
    assert entries[2].rho == ceil_dyadic(Fraction(1, 3))
    with Ledger(str(path)) as ledger:
        assert ledger.entries() == entries
        assert ledger.balance(SURVEY).spent == Fraction(3, 4)
        assert ledger.verify(expected_head=head) == 5
        now = datetime.fromisoformat(ledger.charge(SURVEY, loss(UNIT), {}).time)
    assert now.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=1)
    assert now.microsecond == 0


def test_anyone_can_recompute_the_chain_from_the_bare_columns(path: Path) -> None:
    names = ["sequence", "kind", "source", "unit", "rho", "time", "detail", "previous"]
    previous = GENESIS
    with raw(path) as db:
        for *columns, digest in db.execute("SELECT * FROM entries ORDER BY sequence"):
            text = json.dumps(dict(zip(names, columns, strict=True)), sort_keys=True, separators=(",", ":"))
            assert columns[-1] == previous
            assert sha256(text.encode("ascii")).hexdigest() == digest
            previous = digest


def test_a_new_ledger_is_empty_one_file_and_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "grand livre #1?%41 é.db"
    with Ledger(path) as ledger:
        assert ledger.head() == (0, GENESIS)
        assert (ledger.verify(), ledger.entries(), ledger.accounts()) == (0, [], [])
        ledger.charge(SURVEY, loss(Fraction(1)), {})
        assert ledger._db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_ledger_in_memory_is_forgotten() -> None:
    with Ledger(":memory:") as ledger:
        ledger.charge(SURVEY, loss(Fraction(1)), {})
        assert ledger.verify() == 1
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
    ("write", "words"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text("id,age\n1,34\n" * 1000), "not a ledger"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(4080)), "ledger"),
        (write_other_database, "another database"),
        (lambda path: write_format(path, 3), "format 3, this fitnoise reads format 2"),
        (lambda path: write_format(path, 1), "format 1, this fitnoise reads format 2: use the fitnoise that wrote it"),
    ],
)
def test_what_is_no_ledger_is_refused_and_left_alone(
    tmp_path: Path, write: Callable[[Path], object], words: str
) -> None:
    path = tmp_path / "file"
    write(path)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=rf"{words}.*{NOTHING}"):
        Ledger(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_a_dangling_link_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="is not a file"):
        Ledger(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere" / "ledger.db")
    with pytest.raises(LedgerError, match="is not a file"):
        Ledger(link)
    with pytest.raises(LedgerError, match=r"folder .*nowhere.* does not exist"):
        Ledger(tmp_path / "nowhere" / "ledger.db")
    assert list(tmp_path.iterdir()) == [link]


def test_a_file_system_that_cannot_link_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hardlink_to(self: Path, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    with pytest.raises(LedgerError, match="Operation not permitted"):
        Ledger(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_left_in_another_journal_mode_is_one_file_again(path: Path) -> None:
    with raw(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        assert path.with_name("ledger.db-wal").exists() or db.execute("SELECT 1 FROM entries")
    with Ledger(path) as ledger:
        ledger.charge(SURVEY, loss(UNIT), {})
        assert [p.name for p in path.parent.iterdir()] == ["ledger.db"]
        assert ledger._db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


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
            with pytest.raises(LedgerError, match=rf"read-only.*{NOTHING}"):
                ask(SURVEY, UNIT)
    assert path.read_bytes() == before


def test_a_full_disk_charges_nothing(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger._db.execute("PRAGMA max_page_count = 3")
        with pytest.raises(LedgerError, match=rf"disk is full.*{NOTHING}"):
            ledger.charge(SURVEY, loss(UNIT), {"plan": "x" * 20_000})
        assert ledger.verify() == 5


def test_a_replaced_or_deleted_file_is_noticed(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with Ledger(path) as ledger:
        shutil.copy(path, copy)
        copy.replace(path)  # a backup put back under the feet of a running process
        for ask in (ledger.verify, lambda: ledger.charge(SURVEY, loss(UNIT), {})):
            with pytest.raises(LedgerError, match=rf"was replaced.*{NOTHING}"):
                ask()
    with Ledger(path) as ledger:
        path.unlink()
        with pytest.raises(LedgerError, match=rf"No such file.*{NOTHING}"):
            ledger.charge(SURVEY, loss(UNIT), {})
    assert not path.exists()


def test_a_closed_ledger_answers_nothing(path: Path) -> None:
    ledger = Ledger(path)
    ledger.close()
    ledger.close()
    for ask in (ledger.entries, lambda: ledger.charge(SURVEY, loss(UNIT), {})):
        with pytest.raises(LedgerError, match=rf"closed.*{NOTHING}"):
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
        assert [NOTHING in str(error) and "another thread" in str(error) for error in caught] == [True, True]
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
    ("change", "words"),
    [
        *(
            (f"UPDATE entries SET {column} = {value} WHERE sequence = 2", "entry 2 was changed")
            for column, value in [
                ("kind", "'refusal'"),
                ("source", "'survey2'"),
                ("unit", "'one household'"),
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
                "entry 2 is not what a ledger writes",
            )
            for column, value in [
                ("kind", "'gift'"),
                ("kind", "x'00'"),
                ("source", "''"),
                ("source", "CAST(x'ff' AS TEXT)"),
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
        ("UPDATE entries SET previous = digest WHERE sequence = 2", "entry 2 does not follow"),
        ("DELETE FROM entries WHERE sequence = 3", "entry 3 is missing"),
        ("DELETE FROM entries WHERE sequence = 1", "entry 1 is missing"),
        ("UPDATE entries SET sequence = -1 WHERE sequence = 4", "entry 1 is missing"),
    ],
)
def test_a_changed_or_missing_entry_is_named(path: Path, change: str, words: str) -> None:
    tamper(path, change)
    with pytest.raises(LedgerError, match=rf"{words}.*{NOTHING}"):
        Ledger(path)


def test_reordered_entries_are_named(path: Path) -> None:
    swap = ((2, 99), (3, 2), (99, 3))
    tamper(path, *(f"UPDATE entries SET sequence = {b} WHERE sequence = {a}" for a, b in swap))
    with pytest.raises(LedgerError, match="entry 2 does not follow"):
        Ledger(path)


def test_a_well_chained_forgery_of_what_no_ledger_writes_is_named(path: Path) -> None:
    with raw(path) as db:
        (last,) = db.execute("SELECT digest FROM entries WHERE sequence = 5").fetchone()
        columns = (6, "charge", SURVEY.source, SURVEY.unit, "-1/2", "2025-01-01T00:00:00+00:00", "{}", last)
        row = (*columns, room._digest(columns))
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    with pytest.raises(LedgerError, match="entry 6 is not what a ledger writes"):
        Ledger(path)


def forged(path: Path, kind: str, rho: str, detail: str) -> None:
    """Append a row that is chained well, whatever it says."""
    with raw(path) as db:
        last, digest = db.execute("SELECT sequence, digest FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
        columns = (last + 1, kind, SURVEY.source, SURVEY.unit, rho, "2025-01-01T00:00:00+00:00", detail, digest)
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*columns, room._digest(columns)))


def written(profile: object = YOUNG.document(), **more: object) -> str:
    return json.dumps({"plan": Q, "profile": profile, **more})


@pytest.mark.parametrize(
    ("kind", "rho", "detail"),
    [
        ("charge", "1/4", written()),  # dearer than it says
        ("charge", "1", written()),
        ("refusal", "1/4", written()),
        ("charge", f"{10**400 * 2**64 + 1}/{2**64}", written()),
        ("charge", "1/2", written(None)),
        ("charge", "1/2", written([])),
        ("charge", "1/2", written({**YOUNG.document(), "values": [4.0 * EIGHTH, 0, 0]})),
        ("charge", "1/2", written({**YOUNG.document(), "values": [4 * EIGHTH, -1, 0]})),
        ("charge", "1/2", written({**YOUNG.document(), "values": [4 * EIGHTH]})),
        ("cap", "1/2", written()),
        ("cap", "1/2", json.dumps({"beside": []})),
        ("charge", "1/2", written(beside=[])),
        ("charge", "1/2", written(beside=None)),
        ("charge", "1/2", written(beside=P)),
        ("charge", "1/2", written(beside={P: 1})),
        ("charge", "1/2", written(beside=[1])),
        ("charge", "1/2", written(beside=[S])),  # never charged
        ("refusal", "1/2", written(beside=[S])),
        ("charge", "1/2", written(beside=[P, "a" * 64])),  # without a profile
        ("charge", "1/2", json.dumps({"plan": Q, "beside": [P]})),
        ("charge", "1/2", "[]"),
        ("charge", "1/2", "7"),
        ("charge", "1/2", "[" * 100_000),
    ],
)
def test_a_well_chained_profile_or_promise_that_no_ledger_writes_is_named(
    path: Path, kind: str, rho: str, detail: str
) -> None:
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(8))
        spend(ledger, P, YOUNG)
    forged(path, kind, rho, detail)
    with pytest.raises(LedgerError, match="entry 8 is not what a ledger writes"):
        Ledger(path)


def test_what_a_ledger_writes_could_have_been_written_by_hand(path: Path) -> None:
    """The rows above differ from these in nothing but what they are refused for."""
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(8))
        spend(ledger, P, YOUNG)
    forged(path, "charge", "1/2", written(beside=[P]))
    forged(path, "refusal", "1/2", written(beside=[P, Q]))
    with Ledger(path) as ledger:
        assert ledger.balance(SURVEY).spent == Fraction(3, 4) + 1


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
    tamper(copy, f"""UPDATE entries SET detail = replace(detail, '"beside":["{P}"],', '') WHERE sequence = 8""")
    for file in (path, copy):
        with pytest.raises(LedgerError, match="entry 8 was changed"):
            Ledger(file)


def test_a_ledger_from_before_profiles_reads_as_it_did(path: Path) -> None:
    """Its charges have none: they are groups of their own, and nothing can stand beside them."""
    with Ledger(path) as ledger:
        assert {(e.profile, e.beside) for e in ledger.entries()} == {(None, ())}
        assert ledger.balance(SURVEY).spent == Fraction(3, 4)
        with pytest.raises(LedgerError, match="nothing can stand beside entry 2"):
            spend(ledger, P, ages(1, 0, 0), "a" * 64)
        spend(ledger, P, ages(1, 0, 0))
        spend(ledger, Q, ages(0, 1, 0), P)
        assert ledger.balance(SURVEY).spent == Fraction(7, 8)


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
    with pytest.raises(LedgerError, match="its table or its triggers"):
        Ledger(path)


def test_tampering_while_the_ledger_is_open_is_noticed_by_the_next_call(path: Path) -> None:
    with Ledger(path) as ledger:
        tamper(path, "UPDATE entries SET rho = '1/8' WHERE sequence = 2")
        for ask in (ledger.head, lambda: ledger.balance(SURVEY), lambda: ledger.charge(SURVEY, loss(UNIT), {})):
            with pytest.raises(LedgerError, match=rf"entry 2 was changed.*{NOTHING}"):
                ask()


def test_a_tail_cut_off_is_seen_by_who_saw_it_or_wrote_the_head_down(path: Path) -> None:
    with Ledger(path) as ledger:
        head = ledger.head()
        tamper(path, "DELETE FROM entries WHERE sequence = 5")
        with pytest.raises(LedgerError, match=r"entry 5 .* tail was cut off"):
            ledger.charge(SURVEY, loss(UNIT), {})
    with Ledger(path) as ledger:  # the honest limit of a chain: nothing in the file tells
        assert ledger.verify() == 4
        with pytest.raises(LedgerError, match=r"entry 5 .* tail was cut off"):
            ledger.verify(expected_head=head)
        ledger.charge(SURVEY, loss(UNIT), {})
        with pytest.raises(LedgerError, match=r"entry 5 .* rewritten"):
            ledger.verify(expected_head=head)
        with pytest.raises(LedgerError, match="entry -1"):
            ledger.verify(expected_head=(-1, GENESIS))


def test_the_chain_passes_through_every_head_it_ever_had(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        heads = [ledger.head()]
        for _ in range(4):
            entry = ledger.charge(SURVEY, loss(Fraction(1)), {})
            heads.append(ledger.head())
            assert heads[-1] == (entry.sequence, entry.digest)
        assert {ledger.verify(expected_head=head) for head in heads} == {4}


@given(st.integers(0, 8191), st.integers(1, 255))
@example(4100, 1)  # the count of cells in the page of entries: one less hides the last entry
@example(18, 3)  # the journal mode
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def pure(ledger: Ledger, epsilon: Fraction, account: Account = SURVEY, **detail: Any) -> Entry:
    return ledger.charge(account, loss(epsilon**2 / 2, epsilon=epsilon), detail)


def test_a_pure_charge_states_its_epsilon_and_its_rho_follows() -> None:
    third = Fraction(1, 3)
    with Ledger(":memory:") as ledger:
        quote = ledger.quote(SURVEY, loss(third**2 / 2, epsilon=third))
        entry = pure(ledger, third, plan=P)
        assert entry.epsilon == third
        assert entry.rho == quote.rho == ceil_dyadic(Fraction(1, 18))
        assert entry.detail == {"plan": P, "epsilon": "1/3"}
        assert (entry.profile, entry.beside) == (None, ())
        assert ledger.entries() == [entry]
        assert (quote.epsilon_spent, quote.epsilon_cap) == (0, None)
        pure(ledger, Fraction(2))
        balance = ledger.balance(SURVEY)
        assert (balance.epsilon_spent, balance.epsilon_cap) == (Fraction(7, 3), None)
        assert (balance.spent, balance.cap, balance.fits) == (entry.rho + 2, None, True)


def test_without_a_cap_on_epsilon_rho_adds_whatever_was_promised() -> None:
    """ε of one half and ρ of one eighth are the same charge there; Σ ε is known while all charges have one."""
    half, eighth = Fraction(1, 2), Fraction(1, 8)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, eighth * 3)
        pure(ledger, half)
        assert ledger.balance(SURVEY).epsilon_spent == half
        entry = ledger.charge(SURVEY, loss(eighth), {})
        assert entry.epsilon is None
        balance = ledger.balance(SURVEY)
        assert (balance.spent, balance.epsilon_spent, balance.epsilon_cap) == (2 * eighth, None, None)
        pure(ledger, half)
        with pytest.raises(BudgetExceeded, match=r"ρ = 1/8 does not fit into the ρ = 0 "):
            pure(ledger, half)
        assert ledger.entries()[-1].epsilon == half  # a refusal says which ε was refused
        assert ledger.balance(SURVEY).spent == 3 * eighth


def test_the_last_of_a_pure_budget_can_be_spent_and_nothing_more() -> None:
    """ε is exact and not rounded: a third three times is one."""
    third = Fraction(1, 3)
    with Ledger(":memory:") as ledger:
        entry = ledger.set_cap(SURVEY, epsilon=Fraction(1), reason="board of 1 May")
        assert (entry.kind, entry.rho, entry.epsilon) == ("cap", Fraction(1, 2), Fraction(1))
        assert entry.detail == {"reason": "board of 1 May", "epsilon": "1"}
        for _ in range(3):
            assert ledger.quote(SURVEY, loss(third**2 / 2, epsilon=third)).fits
            pure(ledger, third)
        balance = ledger.balance(SURVEY)
        assert (balance.epsilon_spent, balance.epsilon_cap, balance.fits) == (1, 1, True)
        least = Fraction(1, 10**200)
        assert not ledger.quote(SURVEY, loss(least**2 / 2, epsilon=least)).fits
        with pytest.raises(BudgetExceeded):
            pure(ledger, least)
        assert ledger.balance(SURVEY).epsilon_spent == 1


def test_epsilons_add_and_not_their_squares() -> None:
    """Two halves are one, although their ρ are only half of what the cap implies: pure ε does not add as ρ does."""
    half = Fraction(1, 2)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(1))
        pure(ledger, half)
        pure(ledger, half)
        balance = ledger.balance(SURVEY)
        assert (balance.spent, balance.cap, balance.remaining) == (Fraction(1, 4), Fraction(1, 2), 0)
        with pytest.raises(BudgetExceeded):
            pure(ledger, Fraction(1, 100))


def test_what_has_a_delta_never_fits_under_a_cap_on_epsilon() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(10**6))
        assert not ledger.quote(SURVEY, loss(UNIT)).fits
        with pytest.raises(BudgetExceeded) as caught:
            ledger.charge(SURVEY, loss(UNIT), {"plan": P})
        for words in ("'survey'", "one record", "is pure, ε = 1000000", "has a δ", "privacy = 'pure'", "entry 2"):
            assert words in str(caught.value)
        assert str(caught.value).endswith("entry 2 remembers it; nothing was charged, draw no noise")
        with pytest.raises(BudgetExceeded, match="has a δ"):
            spend(ledger, P, YOUNG)
        assert [(e.kind, e.epsilon) for e in ledger.entries()] == [("cap", 10**6), ("refusal", None), ("refusal", None)]
        pure(ledger, Fraction(10**6))  # what was refused was not spent


def test_after_a_charge_with_a_delta_no_epsilon_bounds_the_account() -> None:
    with Ledger(":memory:") as ledger:
        pure(ledger, Fraction(1))
        ledger.charge(SURVEY, loss(UNIT), {})
        pure(ledger, Fraction(1), CENSUS)
        ledger.set_cap(SURVEY, epsilon=Fraction(9))
        ledger.set_cap(CENSUS, epsilon=Fraction(9))
        balance = ledger.balance(SURVEY)
        assert (balance.epsilon_spent, balance.epsilon_cap, balance.fits) == (None, 9, False)
        with pytest.raises(BudgetExceeded) as caught:
            pure(ledger, Fraction(1, 9))
        for words in ("is pure, ε = 9", "charges before it are not", "no ε bounds them all", "a cap on ρ", NOTHING):
            assert words in str(caught.value)
        pure(ledger, Fraction(1), CENSUS)  # another account
        assert ledger.balance(CENSUS).epsilon_spent == 2
        ledger.set_cap(SURVEY, Fraction(2))  # another promise, and it can be kept
        pure(ledger, Fraction(1, 9))


def test_a_refused_epsilon_is_told_with_what_is_spent() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(1, 2))
        pure(ledger, Fraction(1, 3))
        with pytest.raises(BudgetExceeded) as caught:
            pure(ledger, Fraction(1, 4), plan=P)
        for words in ("ε = 1/4", "1/3 of 1/2 are spent", "'survey'", "one record", "entry 3", NOTHING, "draw no noise"):
            assert words in str(caught.value)
        refusal = ledger.entries()[-1]
        assert (refusal.kind, refusal.epsilon, refusal.rho) == ("refusal", Fraction(1, 4), Fraction(1, 32))
        assert refusal.detail == {"plan": P, "epsilon": "1/4"}
        with pytest.raises(BudgetExceeded, match=r"ε = about 0\.333333 does not fit"):
            pure(ledger, Fraction(10**6, 3 * 10**6 - 1))


def test_the_last_cap_is_the_one_in_force_whichever_it_is_about() -> None:
    with Ledger(":memory:") as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(1))
        pure(ledger, Fraction(1, 2))
        ledger.set_cap(SURVEY, Fraction(1, 4))
        balance = ledger.balance(SURVEY)
        assert (balance.epsilon_cap, balance.cap, balance.remaining) == (None, Fraction(1, 4), Fraction(1, 8))
        assert balance.epsilon_spent == Fraction(1, 2)
        ledger.set_cap(SURVEY, epsilon=Fraction(1, 4))  # below what is spent
        assert not ledger.balance(SURVEY).fits
        with pytest.raises(BudgetExceeded, match=r"1/2 of 1/4 are spent"):
            pure(ledger, Fraction(1, 10**9))
        ledger.set_cap(SURVEY, epsilon=Fraction(0))
        assert ledger.balance(SURVEY).epsilon_cap == 0
        assert not ledger.balance(SURVEY).fits
        assert ledger.balance(CENSUS).epsilon_cap is None


epsilons = st.builds(Fraction, st.integers(1, 12), st.integers(1, 12))
pure_steps = st.lists(
    st.tuples(
        st.sampled_from([SURVEY, CENSUS]),
        st.sampled_from(["cap", "epsilon cap", "charge", "pure charge", "pure charge"]),
        epsilons,
    ),
    max_size=14,
)


@given(pure_steps)
@example([(SURVEY, "epsilon cap", Fraction(1)), *[(SURVEY, "pure charge", Fraction(1, 3))] * 4])
@example([(SURVEY, "charge", Fraction(1)), (SURVEY, "epsilon cap", Fraction(9)), (SURVEY, "pure charge", Fraction(1))])
@settings(deadline=None)
def test_under_a_cap_on_epsilon_their_sum_never_exceeds_it(steps: list[tuple[Account, str, Fraction]]) -> None:
    """The constitution's point 8, over any sequence: only pure charges fit, and Σ ε ≤ cap after each of them."""
    charges: dict[Account, list[tuple[Fraction, Fraction | None]]] = {SURVEY: [], CENSUS: []}
    caps: dict[Account, tuple[str, Fraction]] = {}
    with Ledger(":memory:") as ledger:
        for account, kind, x in steps:
            if kind == "cap":
                ledger.set_cap(account, x)
                caps[account] = "rho", x
            elif kind == "epsilon cap":
                ledger.set_cap(account, epsilon=x)
                caps[account] = "epsilon", x
            else:
                epsilon = x if kind == "pure charge" else None
                rho = x if epsilon is None else x**2 / 2
                cost, before = ceil_dyadic(rho), charges[account]
                about, limit = caps.get(account, ("none", Fraction(0)))
                spent = sum((r for r, _ in before), Fraction(0))
                if about == "epsilon":
                    known = [e for _, e in before if e is not None]
                    allowed = epsilon is not None and len(known) == len(before) and sum(known) + epsilon <= limit
                else:
                    allowed = about == "none" or spent + cost <= limit
                quote = ledger.quote(account, loss(rho, epsilon=epsilon))
                assert (quote.fits, quote.rho, quote.increase) == (allowed, cost, cost)
                if allowed:
                    entry = ledger.charge(account, loss(rho, epsilon=epsilon), {})
                    assert (entry.rho, entry.epsilon) == (cost, epsilon)
                    before.append((cost, epsilon))
                    assert about != "epsilon" or sum(e or limit + 1 for _, e in before) <= limit
                else:
                    with pytest.raises(BudgetExceeded, match=NOTHING):
                        ledger.charge(account, loss(rho, epsilon=epsilon), {})
            balance = ledger.balance(account)
            exact = [e for _, e in charges[account] if e is not None]
            pure_only = len(exact) == len(charges[account])
            assert balance.epsilon_spent == (sum(exact, Fraction(0)) if pure_only else None)
            assert balance.spent == sum((r for r, _ in charges[account]), Fraction(0))
            about, limit = caps.get(account, ("none", Fraction(0)))
            assert balance.epsilon_cap == (limit if about == "epsilon" else None)
            assert balance.cap == {"none": None, "rho": limit, "epsilon": limit**2 / 2}[about]
            if about == "epsilon":  # the largest pure charge that fits
                left = max(limit - sum(exact, Fraction(0)), Fraction(0)) if pure_only else Fraction(0)
                assert balance.remaining == left**2 / 2
                assert balance.fits == (pure_only and sum(exact, Fraction(0)) <= limit)
            if balance.epsilon_spent is not None:  # what pure ε implies is never less than what is charged as ρ
                assert balance.spent <= balance.epsilon_spent**2 / 2 + len(exact) * UNIT
        assert ledger.verify(expected_head=ledger.head()) == len(steps)
        entries = ledger.entries()
        kinds = [k.replace("epsilon cap", "cap").replace("pure charge", "charge") for _, k, _ in steps]
        assert [e.kind.replace("refusal", "charge") for e in entries] == kinds
        assert [e.epsilon for e in entries] == [x if k in ("epsilon cap", "pure charge") else None for _, k, x in steps]


FLOATS = [0.5, 1, True, "1/2", float("nan")]


@pytest.mark.parametrize("epsilon", [*FLOATS, Fraction(-1, 2)])
def test_what_is_no_epsilon_is_no_loss(epsilon: Any) -> None:
    with pytest.raises(LedgerError, match=rf"a cost must be a Fraction.*{NOTHING}"):
        Loss.of_epsilon(epsilon, by_cell=False)


@pytest.mark.parametrize("epsilon", [*FLOATS, Fraction(-1, 2), Fraction(-1, 10**300)])
def test_a_cap_on_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    with Ledger(":memory:") as ledger:
        with pytest.raises(LedgerError, match=rf"cap on ε must be a Fraction of at least 0.*{NOTHING}"):
            ledger.set_cap(SURVEY, epsilon=epsilon)
        with pytest.raises(LedgerError, match=rf"one on ρ or one on ε: give one of the two.*{NOTHING}"):
            ledger.set_cap(SURVEY, Fraction(1), epsilon=epsilon)
        with pytest.raises(LedgerError, match=rf"must be a Fraction, not None.*{NOTHING}"):
            ledger.set_cap(SURVEY)
        assert ledger.entries() == []


def test_an_epsilon_too_long_to_be_written_is_refused() -> None:
    """As for ρ; its square has twice the digits, and a charge rounds that, so the ε itself is what must be short."""
    tiny, large = 1 / Fraction(2**1001), Fraction(2**600)
    fine = 1 / Fraction(2**999)
    with Ledger(":memory:") as ledger:
        with pytest.raises(LedgerError, match=rf"ε must be a ratio of integers of at most 1000 bits.*{NOTHING}"):
            ledger.charge(SURVEY, loss(UNIT, epsilon=tiny), {})
        with pytest.raises(LedgerError, match=rf"ρ must be at least 0 .* at most 1000 bits.*{NOTHING}"):
            pure(ledger, large)
        for cap in (tiny, large, fine):
            with pytest.raises(LedgerError, match=rf"at most 1000 bits.*{NOTHING}"):
                ledger.set_cap(SURVEY, epsilon=cap)
        assert ledger.entries() == []
        entry = ledger.charge(SURVEY, loss(UNIT, epsilon=fine), {})
        assert ledger.entries() == [entry]
        assert entry.epsilon == fine


def test_a_pure_charge_has_no_profile_and_stands_beside_nothing() -> None:
    half = Fraction(1, 2)
    with Ledger(":memory:") as ledger:
        spend(ledger, P, YOUNG)
        pure(ledger, half, plan=Q)
        before = ledger.entries()
        asked = Loss.of_epsilon(half, by_cell=True)
        assert asked.profile is None
        for ask in (ledger.quote, lambda account, cost, **more: ledger.charge(account, cost, {"plan": R}, **more)):
            with pytest.raises(LedgerError, match=rf"needs a profile.*{NOTHING}"):
                ask(SURVEY, asked, beside=[P])
        with pytest.raises(LedgerError, match=rf"nothing can stand beside entry 2: it has no profile.*{NOTHING}"):
            spend(ledger, R, OLD, Q)
        assert ledger.entries() == before


def test_only_the_ledger_writes_an_epsilon() -> None:
    with Ledger(":memory:") as ledger:
        for detail in ({"epsilon": "1/2"}, {"epsilon": None}):
            with pytest.raises(LedgerError, match=rf'"epsilon" in a detail are for the ledger to write.*{NOTHING}'):
                ledger.charge(SURVEY, loss(Fraction(1, 8)), detail)
            with pytest.raises(LedgerError, match=rf'"epsilon" in a detail are for the ledger to write.*{NOTHING}'):
                ledger.charge(SURVEY, loss(Fraction(1, 8), epsilon=Fraction(1, 2)), detail)
        assert ledger.entries() == []


def test_a_pure_charge_can_be_ruled_out_by_what_it_adds() -> None:
    half = Fraction(1, 2)
    with Ledger(":memory:") as ledger:
        with pytest.raises(LedgerError, match=rf"would grow by ρ = 1/8, not by 1/9 at most.*{NOTHING}"):
            ledger.charge(SURVEY, loss(half**2 / 2, epsilon=half), {}, at_most=Fraction(1, 9))
        assert ledger.charge(SURVEY, loss(half**2 / 2, epsilon=half), {}, at_most=Fraction(1, 8)).epsilon == half


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            """UPDATE entries SET detail = replace(detail, '"1/2"', '"1/4"') WHERE sequence = 2""",
            "is not what a ledger",
        ),
        ("""UPDATE entries SET detail = '{}' WHERE sequence = 2""", "entry 2 was changed"),
        (
            """UPDATE entries SET detail = replace(detail, '"1/2"', '"2/4"') WHERE sequence = 2""",
            "is not what a ledger",
        ),
        ("""UPDATE entries SET detail = '{"epsilon":"1/2","plan":"q"}' WHERE sequence = 2""", "entry 2 was changed"),
        ("""UPDATE entries SET detail = '{}' WHERE sequence = 1""", "entry 1 was changed"),  # a cap on ρ instead
        ("""UPDATE entries SET detail = '{"epsilon":"2"}', rho = '2' WHERE sequence = 1""", "entry 1 was changed"),
        (
            """UPDATE entries SET detail = '{"epsilon":"1/4"}', rho = '1/32' WHERE sequence = 2""",
            "entry 2 was changed",
        ),
    ],
)
def test_an_altered_epsilon_is_named(tmp_path: Path, change: str, words: str) -> None:
    path = tmp_path / "pure.db"
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, epsilon=Fraction(1))
        pure(ledger, Fraction(1, 2))
        pure(ledger, Fraction(1, 2))
    tamper(path, change)
    with pytest.raises(LedgerError, match=rf"{words}.*{NOTHING}"):
        Ledger(path)


@pytest.mark.parametrize(
    ("kind", "rho", "detail"),
    [
        ("charge", "1/8", {"epsilon": "1/4"}),
        ("charge", "1/8", {"epsilon": "-1/2"}),
        ("charge", "1/8", {"epsilon": "2/4"}),
        ("charge", "1/8", {"epsilon": "0.5"}),
        ("charge", "1/8", {"epsilon": " 1/2"}),
        ("charge", "1/8", {"epsilon": "1/0"}),
        ("charge", "1/8", {"epsilon": "1/2/1"}),
        ("charge", "1/8", {"epsilon": ""}),
        ("charge", "1/8", {"epsilon": None}),
        ("charge", "1/2", {"epsilon": 1}),
        ("charge", "1/8", {"epsilon": ["1/2"]}),
        ("charge", f"{2**63 + 1}/{2**64}", {"epsilon": "1"}),  # rounded up once too often
        ("refusal", "1/8", {"epsilon": "1/4"}),
        ("cap", "1/8", {"epsilon": "1/4"}),
        ("cap", "1/8", {"epsilon": None}),
        ("cap", str(ceil_dyadic(Fraction(1, 18))), {"epsilon": "1/3"}),  # a cap is not rounded
        ("charge", "1/18", {"epsilon": "1/3"}),  # and a charge is
        ("charge", "1/2", {"epsilon": "1", "plan": Q, "profile": YOUNG.document()}),
        ("charge", "1/2", {"epsilon": "1", "plan": Q, "profile": YOUNG.document(), "beside": [P]}),
    ],
)
def test_a_well_chained_epsilon_that_no_ledger_writes_is_named(
    path: Path, kind: str, rho: str, detail: dict[str, Any]
) -> None:
    with Ledger(path) as ledger:
        ledger.set_cap(SURVEY, Fraction(8))
        spend(ledger, P, YOUNG)
    forged(path, kind, rho, json.dumps(detail))
    with pytest.raises(LedgerError, match="entry 8 is not what a ledger writes"):
        Ledger(path)


def test_an_epsilon_that_a_ledger_writes_could_have_been_written_by_hand(path: Path) -> None:
    """The rows above differ from these in nothing but what they are refused for."""
    forged(path, "charge", "1/8", json.dumps({"epsilon": "1/2"}))
    forged(path, "charge", str(ceil_dyadic(Fraction(1, 18))), json.dumps({"epsilon": "1/3"}))
    forged(path, "refusal", "1/8", json.dumps({"epsilon": "1/2"}))
    forged(path, "cap", "1/18", json.dumps({"epsilon": "1/3"}))
    forged(path, "cap", "0", json.dumps({"epsilon": "0"}))
    with Ledger(path) as ledger:
        written_by_hand = [str(e.epsilon) for e in ledger.entries()[5:]]
        assert written_by_hand == ["1/2", "1/3", "1/2", "1/3", "0"]
        assert ledger.balance(SURVEY).epsilon_cap == 0


def test_charges_of_rho_alone_stay_what_they_were(path: Path) -> None:
    """Under a cap on ε nothing more fits into their account, and into others it does."""
    with Ledger(path) as ledger:
        assert {e.epsilon for e in ledger.entries()} == {None}
        before = ledger.balance(SURVEY)
        assert (before.spent, before.cap, before.epsilon_spent, before.epsilon_cap) == (Fraction(3, 4), 1, None, None)
        pure(ledger, Fraction(1, 2))
        assert ledger.balance(SURVEY).spent == Fraction(7, 8)
        ledger.set_cap(SURVEY, epsilon=Fraction(100))
        with pytest.raises(BudgetExceeded, match="charges before it are not"):
            pure(ledger, Fraction(1, 2))
        fresh = Account("fresh", SURVEY.unit)
        ledger.set_cap(fresh, epsilon=Fraction(1))
        pure(ledger, Fraction(1), fresh)


def test_the_constitution_promises_pure_charges() -> None:
    assert "8. **A pure promise is kept pure.**" in (room.__doc__ or "")


# --- Other processes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_busy_ledger_is_a_clear_error(path: Path, lock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_BUSY_SECONDS", 0.05)
    with Ledger(path) as ledger, raw(path) as other:
        other.execute(lock)
        for ask in (ledger.set_cap, lambda account, rho: ledger.charge(account, loss(rho), {})):
            with pytest.raises(LedgerError, match=rf"another process holds it.*{NOTHING}"):
                ask(SURVEY, UNIT)
        if lock == "BEGIN EXCLUSIVE":
            with pytest.raises(LedgerError, match="another process holds it"):
                Ledger(path)
        other.execute("ROLLBACK")
        assert ledger.charge(SURVEY, loss(UNIT), {}).sequence == 6


def test_a_reader_that_does_not_finish_stops_the_commit_and_nothing_is_charged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_BUSY_SECONDS", 0.05)
    with Ledger(path) as ledger, raw(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM entries").fetchone()
        with pytest.raises(LedgerError, match=rf"another process holds it.*{NOTHING}"):
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
    db = ledger._db
    ledger._db = Interposed(db, statement, when, act)  # type: ignore[assignment]
    try:
        yield
    finally:
        ledger._db = db


@pytest.mark.parametrize(
    ("when", "words", "recorded"), [("before", NOTHING, 5), ("after", "unknown: draw no noise", 6)]
)
def test_a_disk_that_fails_while_committing(path: Path, when: str, words: str, recorded: int) -> None:
    def fail() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with Ledger(path) as ledger:
        with (
            interposed(ledger, "COMMIT", when, fail),
            pytest.raises(LedgerError, match=f"disk I/O error.*{words}") as caught,
        ):
            ledger.charge(SURVEY, loss(UNIT), {})
        assert (NOTHING in str(caught.value)) == (recorded == 5)
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
    command = [sys.executable, "-c", PRELUDE + script, str(Path(room.__file__).parents[1]), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


RACER = """
import sys
from fractions import Fraction
from fitnoise.errors import BudgetExceeded
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account
print("ready", flush=True)
for line in sys.stdin:
    with Ledger(line.rstrip()) as ledger:
        try:
            ledger.charge(Account("survey", "one record, add-or-remove-one"), Loss.concentrated(Fraction(1, 4)), {})
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
from fitnoise.kernel.units import Account

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
ledger._db.execute(f"PRAGMA cache_size={cache}")
ledger._db = Deadly(ledger._db)
account = Account("survey", "one record, add-or-remove-one")
ledger.charge(account, Loss.concentrated(Fraction(1, 8)), {"plan": "x" * int(size)})
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_process_killed_around_a_charge_leaves_it_whole_or_absent(path: Path, tmp_path: Path) -> None:
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
def test_a_process_killed_while_creating_leaves_a_whole_ledger_or_none(tmp_path: Path, when: str) -> None:
    path = tmp_path / "ledger.db"
    process = start(CREATOR, str(path), when)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert path.exists() == (when == "after")
    with Ledger(path) as ledger:
        assert ledger.verify() == 0
        ledger.charge(SURVEY, loss(UNIT), {})


SPENDER = """
import sys
from fractions import Fraction
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account
with Ledger(sys.argv[1]) as ledger:
    while True:
        entry = ledger.charge(Account("survey", "one record"), Loss.concentrated(Fraction(1, 8)), {"plan": "x" * 6000})
        print(entry.sequence, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_process_killed_at_any_moment_forgets_no_charge_it_made(tmp_path: Path) -> None:
    runs = [(tmp_path / f"{number}.db", start(SPENDER, str(tmp_path / f"{number}.db"))) for number in range(6)]
    for number, (path, process) in enumerate(runs):
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(number + 1)]
        time.sleep(0.003 * number)
        process.kill()
        acknowledged += process.stdout.read().split()
        process.communicate()
        with Ledger(path) as ledger:
            recorded = ledger.verify()
            assert int(acknowledged[-1]) <= recorded <= int(acknowledged[-1]) + 1
            assert ledger.balance(Account("survey", "one record")).spent == Fraction(recorded, 8)
