"""Shares of a cap: commands that set and show them, releases that are charged to them, and caps that are raised."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fitnoise as fn
from fitnoise.interfaces.cli import main
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.publishing import read_period
from laws.releases import output_of_command
from refused import refused
from test_logs import PLAN, SERIES, save_inputs

ACCOUNT = PLAN.order.account
COST = ceil_dyadic(PLAN.loss.rho)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_inputs()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command, and return its output, or the document of its error."""
    return partial(output_of_command, capsys)


def open_account(run: Any, cap: Fraction = 4 * COST, north: Fraction = 2 * COST, south: Fraction = 3 * COST) -> Any:
    return run(f"ledger open l.db --rho {cap} --plan plan.json --share north={north} --share south={south}")


def test_teams_share_a_cap_by_commands(run: Any) -> None:
    document = open_account(run)
    assert [(x["share"], x["cap"] > 0) for x in document["shares"]] == [("north", True), ("south", True)]
    assert [(x["kind"], x["share"]) for x in document["entries"]] == [("cap", None), ("cap", "north"), ("cap", "south")]
    assert document["balances"][0]["share"] is None
    (exceeding,) = document["exceeding_shares"]
    assert (exceeding["sum"], exceeding["limit"]) == (pytest.approx(5 * float(COST)), pytest.approx(4 * float(COST)))

    release = "release plan.json people.csv --ledger l.db --again"
    assert run(f"{release} -o a", 7)["code"] == "ledger.share-not-named"
    assert run(f"{release} -o a --share west", 7)["code"] == "ledger.share-not-named"
    assert not Path("a").exists()
    for folder in "ab":
        receipt = run(f"{release} -o {folder} --share north")
    assert receipt["share"]["share"] == "north"
    assert (receipt["share"]["remaining"], receipt["balance"]["share"]) == (0, None)
    assert "share 'north'" in run(f"{release} -o c --share north", 5)["message"]
    assert run("ledger show l.db --plan plan.json --share north")["plan"]["more"] == 0
    assert run("ledger show l.db --plan plan.json --share south")["plan"]["more"] == 2
    planned = run("ledger show l.db --plan plan.json --plan plan.json --plan plan.json --share south")["planned"]
    assert [x["fits"] for x in planned["charges"]] == [True, True, False]
    assert run("ledger show l.db --plan plan.json --plan plan.json", 7)["code"] == "ledger.share-not-named"
    # a public release names no share, which is the publisher's own affair
    assert b"north" not in b"".join(path.read_bytes() for path in Path("a").rglob("*.*"))

    document = run(f"ledger cap l.db --plan plan.json --share north={5 * COST} --reason spring")
    assert [x["share"] for x in document["entries"] if x["kind"] == "cap"] == [None, "north", "south", "north"]
    run(f"{release} -o c --share north")
    assert run("verify c --ledger l.db")["ok"]


def test_shares_are_in_the_measure_of_the_cap(run: Any) -> None:
    run("ledger open l.db --epsilon 2 --plan plan.json --share north=1/2")
    run("ledger open m.db --mu 2 --plan plan.json --share north=3 --share south=1")
    run("ledger cap m.db --plan plan.json --share east=1/2")
    with fn.Ledger("l.db") as ledger:
        assert [e.limit for e in ledger.entries()] == [("epsilon", 2), ("epsilon", Fraction(1, 2))]
    with fn.Ledger("m.db") as ledger:
        assert [e.limit[1] for e in ledger.entries()] == [4, 9, 1, Fraction(1, 4)]
        assert {e.limit[0] for e in ledger.entries()} == {"mu_squared"}
    (exceeding,) = run("ledger show m.db")["exceeding_shares"]
    assert (exceeding["sum"], exceeding["limit"]) == (10.25, 4)
    assert "exceeding_shares" not in run("ledger show l.db")


@pytest.mark.parametrize(
    ("shares", "code", "text"),
    [
        ("--share north", 2, "It needs a name and a cap"),
        ("--share =1", 2, "It needs a name and a cap"),
        ("--share north=1 --share north=2", 2, "has a cap already"),
        ("--share north=-1", 3, "spec.not-an-exact-number"),
        ("--share north=", 3, "spec.not-an-exact-number"),
        ("--share north=1/10 --share North=1/10", 7, "The caps before and that of the share 'north' are set"),
    ],
)
def test_wrong_shares_are_refused_in_words(run: Any, shares: str, code: int, text: str) -> None:
    error = run(f"ledger open l.db --rho 1 --plan plan.json {shares}", code)
    assert text in error["code"] + error["message"]
    assert Path("l.db").exists() is (code == 7)


def test_a_share_needs_a_cap_of_which_it_is_a_part(run: Any) -> None:
    run("release plan.json people.csv --ledger l.db -o a")
    message = run("ledger cap l.db --plan plan.json --share north=1", 2)["message"]
    assert "has no cap" in message
    assert "Nothing was changed." in message
    with fn.Ledger("l.db") as ledger:
        assert [e.kind for e in ledger.entries()] == ["charge", "answers"]


def test_a_release_is_finished_under_the_share_that_it_was_charged_to() -> None:
    with fn.Ledger("l.db") as ledger:
        for name in ("north", "south"):
            ledger.set_cap(ACCOUNT, COST, share=name)
        detail = PLAN.order.detail() | {"salt": "0" * 32, "share": "north"}
        ledger.charge(ACCOUNT, PLAN.order.ledger_loss(), detail)  # and the process ended
    with refused("ledger.charged-to-other-share", key="share"):
        fn.release(PLAN, "people.csv", ledger="l.db", directory="a", share="south")
    fn.release(PLAN, "people.csv", ledger="l.db", directory="a")
    with fn.Ledger("l.db") as ledger:
        assert [e.kind for e in ledger.entries()] == ["cap", "cap", "charge", "answers"]
        assert [ledger.balance(ACCOUNT, name).spent == COST for name in ("north", "south")] == [True, False]


def test_a_series_is_charged_to_one_share(run: Any) -> None:
    account, cost = SERIES.order.account, ceil_dyadic(SERIES.loss.rho)
    with fn.Ledger("l.db") as ledger:
        ledger.set_cap(account, 9 * cost)
        for name in ("north", "south"):
            ledger.set_cap(account, 2 * cost, share=name)
    release = "release series.json months.csv --ledger l.db --series s"
    assert run(f"{release} --period 1 -o a", 7)["code"] == "ledger.share-not-named"
    run(f"{release} --period 1 -o a --share north")
    assert run(f"{release} --period 2 -o b --share south", 7)["code"] == "ledger.charged-to-other-share"
    run(f"{release} --period 2 -o b")
    with fn.Ledger("l.db") as ledger:
        assert [ledger.balance(account, name).spent == cost for name in ("north", "south")] == [True, False]
    for answers in Path("s").glob("0002-*.drawn"):
        answers.unlink()
    read_period(SERIES, 2, ledger="l.db", series="s", directory="c", redraw=True)
    for answers in Path("s").glob("0002-*.drawn"):
        answers.unlink()
    run("series write series.json --period 2 --series s --ledger l.db -o d --redraw --share south")
    with fn.Ledger("l.db") as ledger:
        charged = [e.detail["share"] for e in ledger.entries() if e.kind == "charge"]
    assert charged == ["north", "north", "south"]


def test_a_first_period_drawn_again_for_another_share_leaves_the_series_to_its_share() -> None:
    account = SERIES.order.account
    with fn.Ledger("l.db") as ledger:
        for name in ("north", "south"):
            ledger.set_cap(account, Fraction(1), share=name)
    fn.release(SERIES, "months.csv", ledger="l.db", series="s", period=1, directory="a", share="north")
    for period, part in ((1, "south"), (2, None)):
        if period == 2:
            with refused("ledger.charged-to-other-share", key="share"):
                fn.release(SERIES, "months.csv", ledger="l.db", series="s", period=2, directory="b", share="south")
            fn.release(SERIES, "months.csv", ledger="l.db", series="s", period=2, directory="b", share="north")
        for answers in Path("s").glob(f"{period:04}-*.drawn"):
            answers.unlink()
        read_period(SERIES, period, ledger="l.db", series="s", redraw=True, share=part)
    with fn.Ledger("l.db") as ledger:
        assert [e.detail["share"] for e in ledger.entries() if e.kind == "charge"] == ["north", "south", "north"]


def test_a_cap_that_is_raised_bounds_no_total(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    document = run("ledger open l.db --rho 0.1 --plan plan.json --share north=0.1")
    assert "renewals" not in document
    assert "renewals" not in run("ledger cap l.db --rho 0.05 --plan plan.json --share north=0.2")  # lowered
    run("ledger cap l.db --rho 0.10 --plan plan.json")
    (renewal,) = run("ledger cap l.db --rho 0.15 --plan plan.json")["renewals"]
    assert (renewal["first"], renewal["last"], renewal["rise"], renewal["total"]) == (0.1, 0.15, 0.05, 0.35)
    main(["ledger", "show", "l.db"])
    assert "bounds no total. After 4 more rises like the last, of rho 0.0500000, it is rho 0.3500000" in " ".join(
        capsys.readouterr().out.split()
    )
    run("ledger cap l.db --epsilon 1 --plan plan.json")
    (renewal,) = run("ledger cap l.db --epsilon 3 --plan plan.json")["renewals"]
    assert (renewal["first"], renewal["last"], renewal["total"]) == (1, 3, 11)  # of caps in the measure of the last
