"""Proposals of releases, and the second person who approves them: what is written, compared, charged and printed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fitnoise as fn
from fitnoise import proposals, publishing
from fitnoise.interfaces.cli import main
from fitnoise.kernel.ledger import LedgerEntry
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.proposals import Proposal, person
from laws.releases import output_of_command
from refused import refused
from test_known_totals import PLAN as PLAN_OF_TOTALS
from test_known_totals import SENTENCE, TEXT, TOTALS
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


def charges() -> list[LedgerEntry]:
    """Return the charges of the ledger."""
    with fn.Ledger("l.db") as ledger:
        return [e for e in ledger.entries() if e.kind == "charge"]


def files() -> dict[str, bytes]:
    """Return all files below the current folder, with their content."""
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


def proposed(**options: Any) -> Path:
    """Write the proposal of a release by Ada."""
    return fn.propose(PLAN, "people.csv", "p.json", **{"ledger": "l.db", "directory": "r", "by": "ada"} | options)


def approve(**options: Any) -> fn.Release:
    """Release what was proposed, as Ben."""
    usual = {"ledger": "l.db", "directory": "r", "approve": "p.json", "by": "ben"}
    return fn.release(PLAN, "people.csv", **usual | options)


RELEASE = "release plan.json people.csv --ledger l.db -o r"


def test_one_person_proposes_and_another_approves(run: Any) -> None:
    printed = run(f"{RELEASE} --propose p.json --by ada")
    assert not Path("l.db").exists()
    assert not Path("r").exists()
    stated = json.loads(Path("p.json").read_text())
    assert {key: printed[key] for key in stated.keys() - {"fitnoise_proposal"}} == {
        key: x for key, x in stated.items() if key != "fitnoise_proposal"
    }
    release = stated["release"]
    assert (release["plan"], release["rho_exact"], release["account"]) == (PLAN.hash, str(COST), "people")
    assert (release["data"], release["directory"]) == ([str(Path("people.csv").absolute())], str(Path("r").absolute()))
    assert (stated["ledger"]["sequence"], stated["ledger"]["spent"], stated["ledger"]["fits"]) == (0, 0, True)
    assert stated["ledger"]["spent_after"] == pytest.approx(float(COST))

    receipt = run(f"{RELEASE} --approve p.json --by ben")
    digest = hashlib.sha256(Path("p.json").read_bytes()).hexdigest()
    approval = {"proposed_by": "ada", "approved_by": "ben", "proposal": digest}
    assert receipt["approval"] == approval
    (entry,) = charges()
    assert {key: entry.detail[key] for key in approval} == approval
    (row, _) = run("ledger show l.db")["entries"]
    assert {key: row[key] for key in approval} == approval
    assert run("verify r --ledger l.db")["ok"]
    # the names of staff are the publisher's own affair
    assert not any(name in b"".join(path.read_bytes() for path in Path("r").rglob("*.*")) for name in (b"ada", b"ben"))


def test_people_read_a_proposal_and_an_approval(capsys: pytest.CaptureFixture[str]) -> None:
    main([*RELEASE.split(), "--propose", "p.json", "--by", "ada"])
    text = " ".join(capsys.readouterr().out.split())
    assert f"ada proposes to release plan {PLAN.hash[:12]} of people (one record, add-or-remove-one)" in text
    assert "nothing is charged, and no data were read" in text
    assert "--approve p.json" in text
    main([*RELEASE.split(), "--approve", "p.json", "--by", "ben"])
    digest = hashlib.sha256(Path("p.json").read_bytes()).hexdigest()
    sentence = f"ada proposed this release, and ben approved it (proposal {digest[:12]})"
    assert sentence in capsys.readouterr().out
    main(["ledger", "cap", "l.db", "--rho", "1", "--plan", "plan.json", "--approval", "required"])
    text = capsys.readouterr().out
    assert "charge, proposed by ada and approved by ben" in text
    assert "cap; approval required from here on" in text
    assert "each charge of people needs the approval of a second person" in text
    main(["ledger", "cap", "l.db", "--rho", "1", "--plan", "plan.json", "--approval", "none"])
    text = capsys.readouterr().out
    assert "cap; no approval required from here on" in text
    assert "needs the approval" not in text


def test_a_proposal_opens_no_data_and_writes_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: Any, **__: Any) -> None:
        raise AssertionError

    fn.release(PLAN, "people.csv", ledger="l.db", directory="first")
    monkeypatch.setattr(publishing, "open_counter", opened)
    Path("people.csv").unlink()
    before = files()
    proposed(again=True, directory="r")
    assert {path: content for path, content in files().items() if path != "p.json"} == before
    stated = Proposal.read(Path("p.json"))
    assert stated.ledger["spent"] == pytest.approx(float(COST))
    assert stated.ledger["spent_after"] == pytest.approx(2 * float(COST))
    with fn.Ledger("l.db") as ledger:
        assert stated.head == ledger.head()


def test_data_are_named_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(data: Any) -> Any:
        Path("p.json").unlink(missing_ok=True)
        fn.propose(PLAN, data, "p.json", ledger="l.db", by="ada")
        return Proposal.read(Path("p.json")).release["data"]

    monkeypatch.setenv("CENSUS_URL", "postgresql://ada:Xk7secret@db/people")
    assert names("env:CENSUS_URL") == ["env:CENSUS_URL"]
    assert names("env:ABSENT") == ["env:ABSENT"]
    assert names("spark:people") == ["spark:people"]
    assert names("mysql+pymysql://ada@db/people") == ["mysql+pymysql://ada@db/people"]
    assert names("s3://ada:Xk7secret@people") == ["s3://…"]
    assert names(["a.csv", Path("b/*.csv")]) == [str(Path(x).absolute()) for x in ("a.csv", "b/*.csv")]
    assert names(np.array([7919, 104_729])) == ["ndarray"]
    assert names([["red", "blue"], ["green", "red"]]) == names(["red", 7]) == ["list"]  # may be records
    with refused("data.database-url-with-password"):
        names("mysql+pymysql://ada:Xk7secret@db/people")
    assert not Path("p.json").exists()


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"directory": "elsewhere"}, "directory"),
        ({"directory": None}, "directory"),
        ({"tables": []}, "written"),
        ({"tables": ["colour"]}, "written"),
        ({"table": "people"}, "table"),
        ({"share": "north"}, "share"),
        ({"again": True, "share": "north"}, "share, again"),
        ({"ledger": "other.db"}, "ledger"),
    ],
)
def test_a_release_that_differs_from_its_proposal_is_refused(options: dict[str, Any], names: str) -> None:
    proposed()
    before = files()
    with refused("release.differs-from-proposal", key="approve") as raised:
        approve(**options)
    assert raised.value.given == f"The call differs from the proposal in: {names}."
    assert raised.value.outcome == "Nothing was measured and nothing was charged."
    assert files() == before
    approve()  # the very release is approved all the same


def test_another_plan_or_other_data_are_refused() -> None:
    proposed()
    other = fn.plan(
        fn.Workload(PLAN.publication.domain, [fn.table("colour", margin=30)]), source=PLAN.publication.source
    )
    options: dict[str, Any] = {"ledger": "l.db", "directory": "r", "approve": "p.json", "by": "ben"}
    Path("others.csv").write_text("colour\nred\n")
    for plan, data, names in (
        (PLAN, "others.csv", "data"),
        (PLAN, ["people.csv", "others.csv"], "data"),
        (PLAN, np.array([1, 2]), "data"),
        (other, "people.csv", "plan, plan_text, rho, rho_exact"),
    ):
        with refused("release.differs-from-proposal") as raised:
            fn.release(plan, data, **options)
        assert raised.value.given == f"The call differs from the proposal in: {names}."
    with pytest.raises(fn.FitnoiseError):
        fn.release(fn.plan(PLAN.publication.workload, source=fn.DataSource("others")), "people.csv", **options)
    assert not Path("l.db").exists()


@pytest.mark.parametrize("name", ["ada", "Ada", " ada".strip(), "аda"])  # the last with a Cyrillic a
def test_the_proposer_approves_nothing(name: str) -> None:
    proposed()
    with refused("release.approved-by-proposer", key="by"):
        approve(by=name)
    assert not Path("l.db").exists()


def test_without_a_name_it_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals.getpass, "getuser", lambda: "ada")
    proposed(by=None)
    with refused("release.approved-by-proposer"):
        approve(by=None)
    monkeypatch.setattr(proposals.getpass, "getuser", lambda: "ben")
    approve(by=None)
    (entry,) = charges()
    assert (entry.detail["proposed_by"], entry.detail["approved_by"]) == ("ada", "ben")


@pytest.mark.parametrize("name", ["", " ada", "a\nda", "a\u0308da"])
def test_a_name_is_printable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("release.person-without-name", key="by"):
        person(name)

    def unknown() -> str:
        raise KeyError

    monkeypatch.setattr(proposals.getpass, "getuser", unknown)
    with refused("release.person-without-name", key="by"):
        person(None)


def changed(change: Callable[[dict[str, Any]], object]) -> None:
    """Change the document of the proposal, and write it as fitnoise does."""
    document = json.loads(Path("p.json").read_text())
    change(document)
    Path("p.json").write_text(json.dumps(document, indent=2) + "\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("time"),
        lambda d: d.update(more=1),
        lambda d: d.update(fitnoise_proposal=2),
        lambda d: d.update(proposed_by=""),
        lambda d: d.update(release=[]),
        lambda d: d["ledger"].update(sequence=-1),
        lambda d: d["ledger"].update(sequence=True),
        lambda d: d["ledger"].update(digest="0"),
        lambda d: d["ledger"].update(cap=float("inf")),
        lambda d: d.update(ledger=7),
    ],
)
def test_a_text_that_fitnoise_did_not_write_is_no_proposal(change: Callable[[dict[str, Any]], object]) -> None:
    proposed()
    changed(change)
    with refused("release.file-is-no-proposal", key="approve"):
        approve()


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", "[" * 100_000, "\ufeff{}"])
def test_any_other_file_is_no_proposal(text: str) -> None:
    Path("p.json").write_text(text)
    with refused("release.file-is-no-proposal"):
        approve()
    proposed_text = Path("q.json")
    fn.propose(PLAN, "people.csv", proposed_text, ledger="l.db", directory="r", by="ada")
    Path("p.json").write_text(proposed_text.read_text() + " ")  # another text would be a proposal to charge again
    with refused("release.file-is-no-proposal"):
        approve()


def test_a_changed_price_is_not_approved() -> None:
    proposed()
    changed(lambda d: d["release"].update(rho=0.001, rho_exact="1/1000", more=1))
    with refused("release.differs-from-proposal") as raised:
        approve()
    assert raised.value.given.endswith(" rho, rho_exact, more.")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda d: d.update(release=dict(reversed(d["release"].items()))), "the order of its keys"),
        (lambda d: d["release"].update(again=1), "again"),
    ],
)
def test_a_proposal_in_another_text_is_not_charged_again(change: Callable[[dict[str, Any]], object], name: str) -> None:
    proposed(again=True)
    approve(again=True)
    Path("r").rename("kept")
    changed(change)
    with refused("release.differs-from-proposal") as raised:
        approve(again=True)
    assert raised.value.given == f"The call differs from the proposal in: {name}."
    assert len(charges()) == 1


def test_a_proposal_is_charged_once() -> None:
    for is_repeat in (False, True):
        Path("p.json").unlink(missing_ok=True)
        proposed(again=is_repeat)
        approve(again=is_repeat)
        approve(again=is_repeat)  # in its place, and left as it is
        Path("r").rename(f"kept-{is_repeat}")
        with refused("ledger.proposal-charged-before" if is_repeat else "ledger.released-before"):
            approve(again=is_repeat)
        assert len(charges()) == 1 + is_repeat
        assert not Path("r").exists()


def test_a_proposal_belongs_to_its_ledger() -> None:
    fn.release(PLAN, "people.csv", ledger="l.db", directory="first")
    proposed(again=True)
    Path("l.db").rename("old.db")
    with refused("ledger.file-missing"):
        approve(again=True)
    fn.release(PLAN, "people.csv", ledger="l.db", directory="other")
    with refused("ledger.head-not-found"):
        approve(again=True)
    Path("old.db").replace("l.db")
    fn.release(PLAN, "people.csv", ledger="l.db", directory="second", again=True)  # the ledger may grow meanwhile
    approve(again=True)
    assert [("proposal" in e.detail) for e in charges()] == [False, False, True]


def test_a_proposal_is_a_new_file() -> None:
    proposed()
    text = Path("p.json").read_bytes()
    with refused("release.place-exists"):
        proposed()
    with refused("release.folder-not-writable"):
        fn.propose(PLAN, "people.csv", "absent/p.json", ledger="l.db", by="ada")
    assert Path("p.json").read_bytes() == text
    proposal = Proposal.read(Path("p.json"))
    with refused("release.place-exists"):  # one that came meanwhile
        proposal.write(Path("p.json"))
    with refused("release.place-not-writable"):
        proposal.write(Path("absent/p.json"))


def test_a_name_belongs_to_a_proposal(run: Any) -> None:
    with refused("release.name-without-proposal", key="by"):
        fn.release(PLAN, "people.csv", ledger="l.db", by="ben")
    assert "Give one of them" in run(f"{RELEASE} --propose p.json --approve p.json", 2)["message"]
    assert not Path("p.json").exists()


@pytest.mark.parametrize("moment", ["draw", "write"])
def test_a_release_whose_process_ended_is_finished_under_its_proposal(moment: str) -> None:
    """Draws: the answers are not stored yet. Writes: they are."""

    def killed(*_: Any, **__: Any) -> None:
        raise RuntimeError

    proposed()
    fn.propose(PLAN, "people.csv", "q.json", ledger="l.db", directory="r", by="eve")
    location = "fitnoise.kernel.noise.discrete_gaussians" if moment == "draw" else "fitnoise.publishing._released"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(location, killed)
        with pytest.raises(RuntimeError):
            approve()
    assert len(charges()) == 1
    with refused("ledger.charged-under-other-proposal", key="approve") as raised:
        fn.release(PLAN, "people.csv", ledger="l.db", directory="r")
    assert raised.value.action == "Repeat the command that approved it."
    with refused("ledger.charged-under-other-proposal"):
        approve(approve="q.json")
    approve(by="cleo")  # any other person may finish it
    (entry,) = charges()
    assert entry.detail["approved_by"] == "ben"
    assert Path("r/release.json").is_file()


def test_an_unfinished_charge_without_a_proposal_is_finished_without_one() -> None:
    with fn.Ledger("l.db") as ledger:
        ledger.charge(ACCOUNT, PLAN.order.ledger_loss(), PLAN.order.detail() | {"salt": "0" * 32})
    proposed()
    with refused("ledger.charged-under-other-proposal") as raised:
        approve()
    assert raised.value.action == "Repeat the command without --approve."
    fn.release(PLAN, "people.csv", ledger="l.db", directory="r")
    with refused("release.place-exists"):  # that release is not the approved one
        approve()


def test_where_approval_is_required_only_approved_releases_are_charged(run: Any) -> None:
    document = run("ledger open l.db --rho 0.1 --plan plan.json --share north=0.05 --approval required")
    assert [x["approval"] for x in document["entries"]] == [True, None]
    assert document["approvals"] == [{"source": "people"}]
    assert run(f"{RELEASE} --share north", 7)["code"] == "ledger.charge-not-approved"
    planned = run("ledger show l.db --plan plan.json --plan plan.json --share north")["planned"]
    assert [x["fits"] for x in planned["charges"]] == [True, True]
    with fn.Ledger("l.db") as ledger:
        assert len(ledger.entries()) == 2
    proposed(share="north")
    approve(share="north")
    run("ledger cap l.db --plan plan.json --share north=0.04 --approval none")
    run("release plan.json people.csv --ledger l.db -o s --share north --again")
    run("ledger cap l.db --plan plan.json --rho 0.1 --approval required")
    assert run("release plan.json people.csv --ledger l.db -o t --share north --again", 7)["code"] == (
        "ledger.charge-not-approved"
    )


@pytest.mark.parametrize("value", [7, True, ["x"], {"a": 1}, "", "a\x1b[31m"])
def test_where_none_is_required_a_charge_may_state_anything(value: Any, run: Any) -> None:
    detail = PLAN.order.detail() | {"salt": "0" * 32, "proposal": value, "approval": True, "approved_by": value}
    with fn.Ledger("l.db") as ledger:
        ledger.charge(ACCOUNT, PLAN.order.ledger_loss(), detail)
    document = run("ledger show l.db")
    assert [x["approval"] for x in document["entries"]] == [None]
    assert "approvals" not in document
    error = run(RELEASE, 7)
    assert error["code"] == "ledger.charged-under-other-proposal"
    assert error["message"].isprintable()


def test_a_charge_over_the_cap_leaves_its_proposal_unused(run: Any) -> None:
    run(f"ledger open l.db --rho {COST / 2} --plan plan.json")
    assert run(f"{RELEASE} --propose p.json --by ada")["ledger"]["fits"] is False
    assert run(f"{RELEASE} --approve p.json --by ben", 5)["code"] == "ledger.over-cap"
    run(f"ledger cap l.db --rho {COST} --plan plan.json")
    run(f"{RELEASE} --approve p.json --by ben")
    assert len(charges()) == 1


def test_the_proposal_of_a_series_covers_all_its_periods() -> None:
    options: dict[str, Any] = {"ledger": "l.db", "series": "s"}
    with fn.Ledger("l.db") as ledger:
        ledger.set_cap(SERIES.order.account, 2 * ceil_dyadic(SERIES.loss.rho), approval=True)
    fn.propose(SERIES, "months.csv", "p.json", period=1, directory="a", by="ada", **options)
    assert Proposal.read(Path("p.json")).release["period"] == 1
    with refused("ledger.charge-not-approved"):
        fn.release(SERIES, "months.csv", period=1, directory="a", **options)
    fn.release(SERIES, "months.csv", period=1, directory="a", approve="p.json", by="ben", **options)
    with refused("release.proposal-of-later-period", key="period"):
        fn.release(SERIES, "months.csv", period=2, directory="b", approve="p.json", by="ben", **options)
    with refused("release.proposal-of-later-period"):
        fn.propose(SERIES, "months.csv", "q.json", period=2, directory="b", by="ada", **options)
    fn.release(SERIES, "months.csv", period=2, directory="b", **options)
    assert len(charges()) == 1


def test_a_first_period_whose_process_ended_is_finished_under_its_proposal() -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise RuntimeError

    options: dict[str, Any] = {"ledger": "l.db", "series": "s", "period": 1, "directory": "a"}
    fn.propose(SERIES, "months.csv", "p.json", by="ada", **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publishing, "_series_release", killed)
        with pytest.raises(RuntimeError):
            fn.release(SERIES, "months.csv", approve="p.json", by="ben", **options)
    with refused("ledger.charged-under-other-proposal"):
        fn.release(SERIES, "months.csv", **options)
    fn.release(SERIES, "months.csv", approve="p.json", by="ben", **options)
    assert len(charges()) == 1


def test_a_correction_is_approved_with_its_reason() -> None:
    fn.release(PLAN, "people.csv", ledger="l.db", directory="old")
    options = {"supersedes": "old", "reason": "a late file"}
    with refused("ledger.file-missing"):
        proposed(ledger="absent.db", **options)
    proposed(**options)
    with refused("release.differs-from-proposal") as raised:
        approve(**options | {"reason": "another reason"})
    assert raised.value.given.endswith(" supersedes.")
    approve(**options)
    assert charges()[1].detail["supersedes"] == charges()[0].digest


def race(act: str) -> list[int]:
    """Run a command of fitnoise in several processes at the same moment, and return their exit codes."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "fitnoise", *act.split(), "--by", name],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in ("ben", "cleo", "dora")
    ]
    return [racer.wait(120) for racer in racers]


def test_of_several_approvals_at_once_one_is_charged() -> None:
    proposed()
    codes = race(f"{RELEASE} --approve p.json")
    assert 0 in codes  # the others are refused, or find the release in its place
    (entry,) = charges()
    assert entry.detail["approved_by"] in ("ben", "cleo", "dora")
    assert {*codes} <= {0, 7, 8}


def test_public_totals_are_part_of_a_proposal() -> None:
    Path("totals.csv").write_text(TEXT)
    options: dict[str, Any] = {"ledger": "l.db", "directory": "r", "public": "totals.csv"}
    with refused("release.public-not-confirmed"):
        fn.propose(PLAN_OF_TOTALS, "people.csv", "p.json", by="ada", **options)
    fn.propose(PLAN_OF_TOTALS, "people.csv", "p.json", by="ada", public_confirm=SENTENCE, **options)
    stated = Proposal.read(Path("p.json")).release["public"]
    assert stated == {"public_totals": hashlib.sha256(TEXT.encode()).hexdigest(), "confirmed": SENTENCE}
    Path("totals.csv").write_text(TEXT.replace(f"{TOTALS[0]},", f"{TOTALS[0] + 4},"))
    with refused("release.differs-from-proposal") as raised:
        fn.release(PLAN_OF_TOTALS, "people.csv", approve="p.json", by="ben", public_confirm=SENTENCE, **options)
    assert raised.value.given.endswith(" public.")
    assert not Path("l.db").exists()
