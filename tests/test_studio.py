"""The studio: every state, every arrow that is forbidden, one truth, one release; pages say what the ledger says."""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from dataclasses import replace
from fractions import Fraction
from importlib import resources
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest
import uvicorn

import fitnoise as fn
from fitnoise import data
from fitnoise.errors import PlanError
from fitnoise.interfaces import commands
from fitnoise.interfaces.exports.export import FORMATS
from fitnoise.kernel.units import Account, PrivacyUnit
from fitnoise.messages import COMPLETE_LANGUAGES, ValueKind, translator
from fitnoise.planning.plan import Plan
from fitnoise.reading.expressions import ask
from fitnoise.reading.release import Release
from fitnoise.request.documents import Spec, json_schema
from fitnoise_studio import app, forms, planner, questions, releasing, serve, table_forms, workers
from fitnoise_studio import folder as folders
from fitnoise_studio import state as states
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.balances import balance_of
from fitnoise_studio.folder import Folder, publication_of
from fitnoise_studio.releasing import Releases
from refused import refused
from studios import SPEC, Here, base_of, filled, opened, public_totals_spec
from test_pages import HOSTILE, Page
from waiting import wait_until

TEMPLATES = Path(app.__file__).parent / "templates"


@pytest.fixture
def client(tmp_path, monkeypatch):
    with opened(filled(tmp_path / "f"), monkeypatch) as client_opened:
        yield client_opened


@pytest.fixture
def at_once(monkeypatch):
    """Releases in this process, done when they are started."""

    def start(self, number, intent):
        folder = self._places / number
        folder.mkdir()
        (folder / "intent.json").write_text(json.dumps(vars(intent)))
        releasing.run(self._folder.root, number, self._language)

    monkeypatch.setattr(Releases, "_start", start)


def state(client):
    return " ".join(Page(client.page("/ledger")).texts)


# --- states ----------------------------------------------------------------------------------------------------------


def test_the_path_from_a_description_to_a_question(client, at_once):
    """Describe, price, prove, release, report, ask; what is written is what commands would have written."""
    reply = client.post("/tables", {"number.0": "5"})
    assert reply.status_code == 200
    assert re.search(r"ρ = 0\.\d", reply.text)
    assert "Draft" in state(client)
    assert "not saved to spec.toml" in state(client)
    plan = client.certified()
    assert f"Certified {plan[:12]}" in state(client)
    assert client.post("/save").status_code == 200
    assert "as in spec.toml" in state(client)
    assert fn.plan(fn.load_spec(client.folder.root / "spec.toml")).hash == plan
    number = client.intend()
    assert client.post(f"/release/{number}", typed="people").headers["x-go"] == f"/release/{number}"
    page = " ".join(Page(client.page(f"/release/{number}")).texts)
    assert "Released: release The tables are written" in page
    assert "Entry 1 of the ledger has the charge." in page
    client.wait()
    page = " ".join(Page(client.page(f"/release/{number}")).texts)
    assert "Verified: 13 of 13 checks hold." in page
    assert re.search(r"people: ρ = 0\.\d+ spent, and no cap is set\.", page)
    release_path = client.folder.root / "release"
    with fn.Ledger(client.folder.root / "budget.sqlite") as ledger:
        assert fn.verify(release_path, ledger=ledger).ok
    release_number = client.number("release")
    report = client.page(f"/report/{release_number}")
    assert "North" in report
    answer = client.post(f"/report/{release_number}/ask", question="count() / 2", by="area")
    assert "South" in answer.text
    for kind, name in (
        ("html", "release-report.html"),
        ("xlsx", "release-tables.xlsx"),
        ("package", "release-package"),
    ):
        assert name in client.post(f"/report/{release_number}/write", kind=kind, language="de").text
        assert (client.folder.root / name).exists()
    ledger = " ".join(Page(client.page("/ledger")).texts)
    assert "people" in ledger
    assert "Charges without a release" not in ledger
    (release_path / "release.json").rename(release_path / "away")
    assert "Charges without a release in the folder: entries 1." in " ".join(Page(client.page("/ledger")).texts)


def test_the_page_of_a_release_offers_every_export():
    """The choices are those of the registry, a data package, a report and integer tables."""
    template = resources.files("fitnoise_studio").joinpath("templates", "studio_report.html").read_text("utf-8")
    files = {ending.removeprefix(".") for ending in FORMATS}
    assert set(re.findall(r'file\("(\w+)"', template)) == files | {"package", "html", "whole"}


def test_any_edit_leaves_the_certified_plan_behind(client, at_once):
    client.certified()
    number = client.intend()
    assert client.post("/tables", {"number.0": "5"}).status_code == 200
    assert client.folder.certified() is None
    refused = client.post(f"/release/{number}", typed="people")
    assert (refused.status_code, "on the page Prove" in refused.text) == (409, True)
    assert client.post("/release", data=client.number("people.csv"), out="r").status_code == 409
    assert "No plan is certified" in client.page("/release")
    assert not (client.folder.root / "budget.sqlite").exists()
    assert client.post("/discard").headers["x-go"] == "/describe"
    assert client.folder.certified() is not None  # the same text again, of which the plan is the same


def test_an_intent_is_used_once(client, at_once):
    client.certified()
    number = client.intend()
    for _ in range(3):
        assert client.post(f"/release/{number}", typed="people").headers["x-go"] == f"/release/{number}"
    with fn.Ledger(client.folder.root / "budget.sqlite") as ledger:
        assert [e.kind for e in ledger.entries()] == ["charge", "answers"]
    assert client.studio.releases.open_intent(number) is None


def test_incomplete_release_requests_are_refused(client, at_once):
    client.certified()
    people, spec = client.number("people.csv"), client.number("spec.toml")
    for fields, message in (
        ({"out": "r"}, "Choose the data"),
        ({"data": spec, "out": "r"}, "choose from the list"),
        ({"data": "999", "out": "r"}, "choose from the list"),
        ({"data": people, "out": "../r"}, "Choose another name"),
        ({"data": people, "out": "spec.toml"}, "exists already"),
        ({"data": people, "out": "r", "ledger": spec}, "choose from the list"),
    ):
        refused = client.post("/release", fields)
        assert (refused.status_code, message in refused.text) == (422, True), refused.text
    assert client.studio.releases.numbers() == []


def test_a_release_keeps_public_totals_that_the_operator_states(tmp_path, monkeypatch, at_once, capsys):
    """The file is chosen with the data, and the sentence about it comes before all else is confirmed."""
    root = filled(tmp_path / "x", public_totals_spec())
    register = root / "register.csv"
    register.write_text("area,number\nn,40\ns,20\n", encoding="utf-8")
    with opened(root, monkeypatch) as client:
        client.certified()
        fields = {"data": client.number("people.csv"), "out": "release"}
        assert 'name="totals"' in client.page("/release")
        for totals in ("", client.number("people.csv"), client.number("spec.toml")):
            refusal = client.post("/release", {**fields, "totals": totals})
            assert (refusal.status_code, 'data-field="totals"' in refusal.text) == (422, True)
        page = client.post("/release", {**fields, "totals": client.number("register.csv")}).text
        assert 'id="release-once"' not in page
        number = re.search(r'action="[^"]*/release/([0-9a-f]{32})/totals"', page)[1]
        sentence = "The numbers in register.csv were public before and were not computed from these data."
        assert sentence in page
        assert client.post(f"/release/{number}", typed="people").status_code == 422
        refusal = client.post(f"/release/{number}/totals", statement="They are public.")
        assert (refusal.status_code, 'data-field="statement"' in refusal.text) == (422, True)
        assert not (root / "budget.sqlite").exists()
        page = client.post(f"/release/{number}/totals", statement=sentence).text
        assert 'id="release-once"' in page
        assert sentence in page
        assert client.post(f"/release/{number}", typed="people").status_code == 204
        release = Release.read(root / "release")
        assert release.count(by=["area"]).frame()["value"].tolist() == [40, 20]
        with fn.Ledger(root / "budget.sqlite") as ledger:
            assert ledger.entries()[0].detail["confirmed"] == sentence
            assert fn.verify(root / "release", ledger=ledger).ok
        # A file that changes after the request is not the one that was stated.
        request = {
            **fields,
            "out": "later",
            "totals": client.number("register.csv"),
            "ledger": client.number("budget.sqlite"),
        }
        page = client.post("/release", request).text
        number = re.search(r'action="[^"]*/release/([0-9a-f]{32})/totals"', page)[1]
        client.post(f"/release/{number}/totals", statement=sentence)
        register.write_text("area,number\nn,41\ns,20\n", encoding="utf-8")
        assert client.post(f"/release/{number}", typed="people").status_code == 204
        assert "The file of public totals changed" in capsys.readouterr().out
        assert not (root / "later").exists()
        with fn.Ledger(root / "budget.sqlite") as ledger:
            assert [e.kind for e in ledger.entries()] == ["charge", "answers"]


def test_an_intent_is_bound_to_its_name_time_and_data(tmp_path, monkeypatch, at_once):
    now = [0.0]
    with opened(filled(tmp_path / "f"), monkeypatch, clock=lambda: now[0]) as client:
        client.certified()
        number = client.intend()
        for typed in ("", "People", "people "):
            refused = client.post(f"/release/{number}", typed=typed)
            assert (refused.status_code, "Type the name of the source" in refused.text) == (422, True)
        assert client.post("/release/" + "0" * 32, typed="people").status_code == 422
        now[0] += releasing.INTENT_LIFETIME_SECONDS
        refused = client.post(f"/release/{number}", typed="people")
        assert (refused.status_code, "was not requested in the last ten minutes" in refused.text) == (422, True)
        number = client.intend()
        (client.folder.root / "people.csv").write_text("area,age\nn,1\n")
        assert client.post(f"/release/{number}", typed="people").status_code == 204
        outcome = client.studio.releases.where(number)
        assert (outcome.state, outcome.has_ended, outcome.entry) == ("refused", True, None)
        assert not (client.folder.root / "release").exists()


def test_the_reason_of_a_refusal_is_printed_and_not_stored(tmp_path, monkeypatch, capsys, at_once):
    root = filled(tmp_path / "f")
    (root / "people.csv").write_text("area,age\nsecret,1\n")
    with opened(root, monkeypatch) as client:
        client.certified()
        number = client.intend()
        client.post(f"/release/{number}", typed="people")
        output = capsys.readouterr().out
        assert "records have missing values or values outside the domain" in output
        outcome = client.studio.releases.where(number)
        assert (outcome.state, outcome.has_ended, outcome.entry) == ("refused", True, None)
        client.studio.releases._texts[number] = output
        assert "Do not publish this." in client.page(f"/release/{number}")
        stored = "".join(p.read_text() for p in (client.folder.own / "releases" / number).iterdir())
        assert "outside" not in stored
        assert "DataError" not in stored
        assert str((root / "people.csv").stat().st_mtime_ns) not in stored


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", r"7 of \d+ records are left out of every table, .*by attribute or rule: area: 7\."),
        ("de", r"7 von \d+ Fällen sind aus allen Tabellen weggelassen, .*je Merkmal oder Regel: area: 7\."),
    ],
)
def test_the_number_of_dropped_records_is_printed_and_not_stored(
    tmp_path, monkeypatch, capsys, at_once, language, sentence
):
    root = filled(tmp_path / "f", SPEC.replace('source = "people"', 'source = "people"\noutside_domain = "drop"'))
    with (root / "people.csv").open("a") as file:
        file.write("elsewhere,1\n" * 7)
    with opened(root, monkeypatch, language=language) as client:
        client.certified()
        number = client.intend()
        client.post(f"/release/{number}", typed="people")
        output = capsys.readouterr().out
        assert re.fullmatch(sentence, output.strip())
        assert client.studio.releases.where(number).state == "released"
        client.studio.releases._texts[number] = output
        page = client.page(f"/release/{number}")
        assert translator(language).translate("studio.where.private") in page
        assert output.strip() in page
        stored = "".join(p.read_text() for p in (client.folder.own / "releases" / number).iterdir())
        assert output.strip() not in stored


def test_an_intent_is_bound_to_its_ledger_and_its_place(client, at_once, tmp_path):
    """The release uses the balance and the place that the page showed."""
    client.certified()
    root, book = client.folder.root, client.folder.root / "budget.sqlite"

    def refused(number, why):
        outcome = client.post(f"/release/{number}", typed="people")
        assert (outcome.status_code, why in outcome.text) == (409, True), outcome.text
        assert client.studio.releases.numbers() == []

    number = client.intend()
    plan = Plan.from_json((root / "plans" / f"{client.folder.certified()}.json").read_text())
    fn.release(plan, root / "people.csv", ledger=book)
    refused(number, "The ledger changed")  # it was not there
    number = client.intend(ledger=client.number("budget.sqlite"))
    fn.release(plan, root / "people.csv", ledger=book, again=True)
    refused(number, "The ledger changed")  # another charge
    number = client.intend(ledger=client.number("budget.sqlite"))
    book.unlink()
    fn.release(plan, root / "people.csv", ledger=book)
    refused(number, "The ledger changed")  # another ledger
    number = client.intend(ledger=client.number("budget.sqlite"))
    (tmp_path / "elsewhere").mkdir()
    (root / "release").symlink_to(tmp_path / "elsewhere")
    client.post(f"/release/{number}", typed="people")
    assert client.studio.releases.where(number).state == "refused"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_between_asking_and_releasing_nothing_may_change(tmp_path, monkeypatch):
    """The process looks again, before anything is read."""
    with opened(filled(tmp_path / "f"), monkeypatch) as client:
        monkeypatch.setattr(Releases, "_start", prepared)
        client.certified()
        root, number = client.folder.root, client.intend()
        client.post(f"/release/{number}", typed="people")
        plan = Plan.from_json((root / "plans" / f"{client.folder.certified()}.json").read_text())
        fn.release(plan, root / "people.csv", ledger=root / "budget.sqlite")
        releasing.run(root, number, "en")
        assert not (root / "release").exists()
        with fn.Ledger(root / "budget.sqlite") as ledger:
            assert [e.kind for e in ledger.entries()] == ["charge", "answers"]


def test_data_are_no_list_of_codes(tmp_path, monkeypatch, at_once):
    """The set of codes would be read off the data, and released."""
    spec = SPEC.replace('codes = ["n", "s"]\nlabels = ["North", "South"]', 'codes_file = "own.csv"')
    root = filled(tmp_path / "f", spec)
    (root / "own.csv").write_text("code\nn\ns\n")
    with opened(root, monkeypatch) as client:
        client.certified()
        (root / "again").mkdir()
        os.link(root / "own.csv", root / "again" / "other.csv")
        for name in ("own.csv", "again", "again/other.csv"):
            refused = client.post("/release", {"data": client.number(name), "out": "r"})
            assert (refused.status_code, "which is also among the data" in refused.text) == (422, True)
        assert client.post("/release", {"data": client.number("people.csv"), "out": "r"}).status_code == 200


def test_a_plan_is_kept_for_what_it_was_made_of(client, monkeypatch):
    """Detects a plan that is certified for another text, or for codes that were changed while they were read."""
    folder, text = client.folder, client.folder.text()
    request = {"text": text, "language": "en", "key": "of something else"}
    answer = planner.certify(request, lambda _: None, folder.root)
    assert folder.certified() == answer["plan"]
    read = publication_of

    def changed(text, root):
        (root / "c.csv").write_text("code\nn\ns\nw\n")
        return read(text, root)

    text = text.replace('codes = ["n", "s"]\nlabels = ["North", "South"]', 'codes_file = "c.csv"')
    (folder.root / "c.csv").write_text("code\nn\ns\n")
    monkeypatch.setattr(planner, "publication_of", changed)
    with refused("fitnoise.codes-file-changed"):
        planner.certify(request | {"text": text}, lambda _: None, folder.root)
    assert folder.certified() == answer["plan"]


def test_a_cap_is_confirmed_like_a_release(client, at_once):
    assert client.post("/ledger", ledger="0", account="0", cap="1", typed="people").status_code == 422
    client.certified()
    client.post(f"/release/{client.intend()}", typed="people")
    book = client.number("budget.sqlite")
    for fields in ({"typed": "x", "cap": "1"}, {"typed": "people", "cap": "x"}, {"account": "7", "cap": "1"}):
        assert client.post("/ledger", {"ledger": book, "account": "0", **fields}).status_code == 422
    assert client.post("/ledger", ledger=book, account="0", cap="1/2", typed="people").status_code == 204
    with fn.Ledger(client.folder.root / "budget.sqlite") as ledger:
        assert ledger.balance(ledger.accounts()[0]).cap == Fraction(1, 2)
        assert [e.kind for e in ledger.entries()] == ["charge", "answers", "cap"]
    page = client.post("/release", data=client.number("people.csv"), out="more", ledger=book).text
    assert re.search(r"ρ = 0\.2\d+ of 0\.5000000", page)
    assert "Entry 1 of the ledger charged this plan before." in page
    assert "Left after a release" in client.post("/tables", {"number.0": "6"}).text


def test_a_ledger_is_started_with_a_cap_for_the_account_of_the_plan(client, at_once):
    """Without a plan there is no account, and a refused form leaves no file; `fitnoise ledger open` does the same."""
    book = client.folder.root / "budget.sqlite"
    assert 'id="set-cap"' not in client.page("/ledger")
    client.certified()
    assert "people (one person (at most 1 record), add-or-remove-one)" in client.page("/ledger")
    for fields in ({"typed": "x", "cap": "1"}, {"typed": "people", "cap": "x"}, {"account": "1", "cap": "1"}):
        assert client.post("/ledger", {"account": "0", **fields}).status_code == 422
    assert not book.exists()
    assert client.post("/ledger", account="0", cap="1/1000", typed="people", reason="of the year").status_code == 204
    with fn.Ledger(book) as ledger:
        (account,) = ledger.accounts()
        (entry,) = ledger.entries()
        assert (account, ledger.balance(account).cap) == (entry.account, entry.rho)
        assert Fraction(1, 1000) <= entry.rho < Fraction(1, 1000) + Fraction(1, 2**64)
        assert entry.detail["reason"] == "of the year"
    number = client.intend()
    assert client.post(f"/release/{number}", typed="people").status_code == 204
    assert "Nothing was charged" in client.page(f"/release/{number}")
    # Of another unit, the ledger gets a second account.
    assert client.post("/protect", {"privacy.unit": "household"}).status_code == 200
    client.certified()
    assert "people (one household (at most 1 record), add-or-remove-one) – new account" in client.page("/ledger")
    assert client.post("/ledger", ledger="", account="1", cap="1", typed="people").status_code == 422
    book_number = client.number("budget.sqlite")
    assert client.post("/ledger", ledger=book_number, account="1", cap="1", typed="people").status_code == 204
    with fn.Ledger(book) as ledger:
        assert [a.unit.name for a in ledger.accounts()] == ["person", "household"]


def test_no_second_ledger_is_made_where_the_environment_names_one_on_a_server(client, at_once, monkeypatch):
    client.certified()
    monkeypatch.setenv("FITNOISE_LEDGER", "env:LEDGER_URL")
    release = {"data": client.number("people.csv"), "out": "release"}
    for page, fields in (("/release", release), ("/ledger", {"account": "0", "cap": "1", "typed": "people"})):
        reply = client.post(page, fields)
        assert (reply.status_code, "FITNOISE_LEDGER names a ledger on a server" in reply.text) == (422, True)
    assert client.folder.ledgers() == []
    monkeypatch.setenv("FITNOISE_LEDGER", "other.sqlite")
    assert client.post("/ledger", account="0", cap="1", typed="people").status_code == 204
    monkeypatch.setenv("FITNOISE_LEDGER", "env:LEDGER_URL")
    client.intend()  # a ledger of the folder, which is chosen


def test_shares_of_a_cap_are_on_the_page_and_a_release_to_none_is_refused(client, at_once, capsys):
    client.certified()
    client.post("/ledger", account="0", cap="1", typed="people")
    with fn.Ledger(client.folder.root / "budget.sqlite") as ledger:
        ledger.set_cap(ledger.accounts()[0], Fraction(1, 2), share="north")
    assert "Cap of the share north set to ρ = 0.5000000" in " ".join(Page(client.page("/ledger")).texts)
    number = client.intend()
    assert client.post(f"/release/{number}", typed="people").status_code == 204
    assert "The charge names no share, and the shares of 'people' are: 'north'." in capsys.readouterr().out
    assert "Nothing was charged" in client.page(f"/release/{number}")
    with fn.Ledger(client.folder.root / "budget.sqlite") as ledger:
        assert [e.kind for e in ledger.entries()] == ["cap", "cap"]


def test_two_tabs_do_not_undo_each_other(client):
    base = base_of(client)
    one = {"tab": "1", "base": base}
    assert client.post("/tables", {"number.0": "5", "turn": "1", **one}).status_code == 200
    assert client.post("/tables", {"number.0": "6", "turn": "3", **one}).status_code == 200  # it knows its own change
    assert client.post("/tables", {"number.0": "7", "turn": "2", **one}).status_code == 204  # an older one
    other = client.post("/tables", {"number.1": "8", "turn": "1", "tab": "2", "base": base})
    assert (other.status_code, "Another tab or program changed this draft" in other.text) == (409, True)
    assert [t["margin"] for t in tomllib.loads(client.folder.text())["tables"]] == [6, 9.5]
    assert client.post("/tables", {"number.1": "8", "turn": "2", "tab": "2"}).status_code == 200
    stale = client.post("/tables", {"number.0": "5", "turn": "4", **one})
    assert stale.status_code == 409


def test_differences_are_named_by_page_and_part():
    one = {"title": "a", "privacy": {"max_records": 1}, "data": {"max_records": 5}, "domain": {"x": {"codes": [1]}}}
    two = {**one, "privacy": {"max_records": 2}, "domain": {"x": {"codes": [1, 2]}, "y": 3}, "tables": [{"margin": 4}]}
    assert forms.differences(one, one, translator("en")) == []
    assert [x[:2] for x in forms.differences(one, two, translator("en"))] == [
        ("describe", "x"),
        ("protect", ""),
        ("describe", "y"),
        ("tables", f"1. {forms.table_words({'margin': 4}, translator('en'))}"),
    ]
    values = {x[:2]: x[2:] for x in forms.differences(one, two, translator("en"))}
    assert values["protect", ""] == ("Maximum records per unit: 1", "Maximum records per unit: 2")
    assert values["describe", "x"] == ("Code in the file: 1", "Code in the file: 1, 2")
    assert values["describe", "y"] == ("–", "3")
    assert [*values.values()][3] == ("–", "Margin of error: 4")


def test_differences_have_the_labels_of_forms_in_german():
    """Every label is in a template, keys that no form shows are on the page File, and kinds and bands are in words."""
    german = translator("de")
    one = {"data": {"max_records": 5}, "domain": {"x": {"type": "ordered"}}, "metadata": {"period": "2019"}}
    two = {
        "data": {"max_records": 6, "outside_domain": "drop"},
        "domain": {"x": {"type": "ordered", "clip": True}, "y": {"type": "binned", "cuts": [1, 2.5]}},
        "tables": [{"groups": {"x": {"young": {"first": 0, "last": 9}}}}],
    }
    settings = {x[:2]: x[2:] for x in forms.differences(one, two, german)}
    t = german.texts
    size, outside = t["studio.protect.size"], t["studio.protect.outside"]
    assert settings["protect", ""] == (f"{size}: 5", f"{size}: 6; {outside}: {t['studio.value.drop']}")
    assert settings["describe", "x"] == ("–", f"{t['studio.describe.clip']}: ✓")
    kind, cuts = t["studio.describe.type"], t["studio.describe.cuts"]
    assert settings["describe", "y"] == ("–", f"{kind}: {t['studio.kind.binned']}; {cuts}: 1, 2.5")
    bands = f"{t['studio.builder.groups']} x young"
    (table,) = (x for (page, _), x in settings.items() if page == "tables")
    assert table == ("–", f"{bands} {t['page.table.from']}: 0; {bands} {t['page.table.to']}: 9")
    assert settings["file", ""] == ("metadata period: 2019", "–")
    templates = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.html"))
    for labels in forms.LABELS.values():
        assert all(x == "δ" or f'"{x}"' in templates or x in forms.VALUE_TEXTS.values() for x in labels.values())
    spec = json_schema()["$defs"]
    keys = {key for kind in forms.KIND_TEXTS for key in spec[f"{kind.capitalize()}Spec"]["properties"]}
    assert keys - {*forms.LABELS["describe"]} <= {*forms._KEYS_OF_FILE, "valid"}
    assert {*table_forms._SHOWN_KEYS, *table_forms._KEPT_KEYS} <= {*forms.LABELS["tables"]}
    assert {path[-1] for path in forms.SETTINGS} <= {*forms.LABELS["protect"]}


def test_save_refuses_what_another_program_changed(client):
    client.post("/tables", {"number.0": "5"})
    (client.folder.root / "spec.toml").write_text(SPEC + "\n")
    refused = client.post("/save")
    assert (refused.status_code, "discard the draft" in refused.text) == (409, True)
    assert "Another program changed spec.toml" in client.page("/tables")


def test_a_draft_that_says_nothing_yet_says_what_is_missing(tmp_path, monkeypatch):
    with opened(filled(tmp_path / "f", None), monkeypatch) as client:
        assert re.search(r'name="privacy.unit" value=""', client.page("/protect"))
        assert re.search(r'name="privacy.max_records" value=""', client.page("/protect"))
        steps = [
            ("/describe", {"name": "area", "type": "categorical", "add": "1"}),
            ("/describe", {"0.languages": "en", "0.paste": "n = North\ns = South"}),
            ("/describe", {"name": "age", "type": "ordered"}),
            ("/describe", {"1.low": "0", "1.high": "3"}),
            ("/tables/new", {"show.0": "area", "number": "4"}),
            ("/tables/new", {"show.0": "area", "show.1": "age", "view.1": "cumulative", "number": "9.5"}),
        ]
        for path, fields in steps:
            assert client.post(path, fields).status_code in (200, 204)
        page = client.post("/tables").text
        assert "The name of the privacy unit is" in page
        client.post("/protect", {"privacy.unit": "person", "privacy.max_records": "1", "data.source": "people"})
        client.post("/protect", {"title": "People"})
        client.post("/tables", {"accuracy.gap": "1e-4"})
        plan = client.certified()
        assert plan == fn.plan(publication_of(SPEC, client.folder.root)).hash
        assert client.post("/describe", remove="1").status_code == 200
        assert client.post("/tables/1/remove").status_code == 200
        assert client.post("/describe", remove="7").status_code == 422
        assert client.get("/data?file=" + client.number("people.csv")).status_code == 200


def test_page_and_file_give_equal_plans(any_plan, tmp_path, monkeypatch):
    text = Spec.from_publication(any_plan.publication).to_toml()
    root = filled(tmp_path / "f", text)
    request = {"what": "certify", "text": text, "key": "k", "folder": str(root), "language": "en"}
    answer = planner.answered(request, lambda _: None)
    assert answer["kind"] == "done", answer
    assert answer["plan"] == fn.plan(fn.load_spec(root / "spec.toml")).hash


def test_a_draft_without_a_plan_says_that_nothing_was_planned(client):
    client.post("/file", text="[[tables]]\nattributes = ['age']\nmargin = 5\n")
    client.studio.price()
    page_text = " ".join(Page(client.page("/protect")).texts)
    assert "This cannot be planned yet: The key domain is missing. Add the key. Nothing was planned." in page_text


def test_a_draft_without_tables_has_no_price_and_no_mistake(client):
    client.post("/file", text="title = 'people'\n")
    client.studio.price()
    page_text = " ".join(Page(client.page("/protect")).texts)
    assert "No privacy cost yet. It appears with the first table" in page_text
    assert "cannot be planned" not in page_text


def test_steps_are_done_once_they_have_what_the_next_needs(client, at_once):
    def done():
        return set(re.findall(r"Step \d of 7: (\w+), done", client.page("/report")))

    assert done() == {"Data", "Describe", "Protect", "Tables"}
    client.certified()
    assert "Prove" in done()
    client.post(f"/release/{client.intend()}", typed="people")
    assert done() == {"Data", "Describe", "Protect", "Tables", "Prove", "Release"}
    client.post("/tables/0/remove")
    assert "Prove" not in done()
    for text in ("x = [", "[domain]\na = 5\nb = 'c'\n"):
        client.post("/file", text=text)
        assert "Step 7 of 7: Report, this step" in client.page("/report")
    assert done() == {"Data", "Release"}  # an attribute without keys is not described


def test_a_folder_is_walked_again_only_after_a_change(tmp_path, monkeypatch):
    """Changes of any inner folder are noticed at once; the changes of the test itself are made to seem old."""

    def age():
        for path in (tmp_path, *(p for p in tmp_path.rglob("*") if p.is_dir())):
            then = path.stat().st_mtime_ns - 10**11
            os.utime(path, ns=(then, then))

    walks, below = [], folders._below
    monkeypatch.setattr(folders, "_below", lambda root: walks.append(root) or below(root))
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    folder = Folder(tmp_path)
    assert folder.releases() == folder.releases() == []
    assert len(walks) == 2  # a change so recent may have another with the same time
    age()
    assert folder.releases() == folder.files(".csv") == folder.data() == folder.ledgers() == []
    assert len(walks) == 3
    (inner / "release.json").write_text("{}", encoding="utf-8")
    assert folder.releases() == ["one/two"]
    age()
    assert folder.releases() == folder.releases() == ["one/two"]
    assert len(walks) == 5
    shutil.rmtree(tmp_path / "one")
    assert folder.releases() == []


def test_columns_of_a_file_become_attributes_all_at_once(tmp_path, monkeypatch):
    """The page depends on the names of the columns: a file with every value changed gives the same page."""
    replies = []
    for i, rows in enumerate(("A,7,x", "B,9,y")):
        root = filled(tmp_path / str(i), "")
        (root / "people.csv").write_text(f"fips,age,person_id\n{rows}\n")
        with opened(root, monkeypatch) as client:
            number = client.number("people.csv")
            page = client.page(f"/data?file={number}")
            content = page[page.index('<div id="content"') : page.index("</main>")]
            replies.append(re.sub('(?:token" value|data-base|action|href)="[^"]*"', "", content))
            kinds = re.findall(r'name="kind\.(\d)".*?value="(\w+)" selected', page)
            assert kinds == [("0", "categorical"), ("1", "ordered"), ("2", "id")]
            ticked = {"use.0": "1", "name.0": "state", "kind.0": "categorical", "use.2": "1", "kind.2": "id"}
            for wrong in (
                {},
                ticked | {"use.1": "1", "name.1": "state", "kind.1": "ordered"},
                ticked | {"kind.0": "colour"},
            ):
                assert client.post("/data", wrong, file=number).status_code == 422
                assert not client.folder.drafted()
            assert client.post("/data", ticked, file="999").status_code == 422
            assert client.post("/data", ticked, file=number).headers["x-go"] == "/describe"
            document = client.studio.document()
            assert document["domain"] == {"state": {"type": "categorical", "column": "fips"}}
            assert document["privacy"]["id"] == "person_id"
            assert "fips" not in client.page(f"/data?file={number}")
    assert replies[0] == replies[1]


def test_the_first_page_is_of_data_until_there_are_attributes(tmp_path, monkeypatch):
    with opened(filled(tmp_path / "a", ""), monkeypatch) as client:
        assert "Which data are the tables about?" in client.page("/")
        assert "people.csv" in client.page("/data")
        assert "No privacy cost yet." in client.page("/data")
        (client.folder.root / "people.csv").unlink()
        assert "There are no data in this folder yet" in client.page("/data")
    with opened(filled(tmp_path / "b"), monkeypatch) as client:
        assert "What can each column contain?" in client.page("/")


def test_next_goes_on_only_once_the_form_is_accepted(client):
    assert client.post("/protect", {"privacy.unit": "household"}, next="tables").headers["x-go"] == "/tables"
    assert forms.value_at(client.studio.document(), ("privacy", "unit")) == "household"
    refused = client.post("/tables", {"number.0": "few"}, next="prove")
    assert (refused.status_code, "x-go" in refused.headers) == (422, False)
    assert client.post("/tables", {"number.0": "7"}, next="prove").headers["x-go"] == "/prove"
    assert client.studio.document()["tables"][0]["margin"] == 7


def rows(html):
    """Return the rows of the first table of a page: the text of each cell by the heading of its column."""
    table = re.search(r"<table>.*?</table>", html, re.DOTALL)[0]
    cells = [
        [" ".join(re.sub("<[^>]*>", "", x).split()) for x in re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr[^>]*>.*?</tr>", table, re.DOTALL)
    ]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def test_the_ledger_says_what_is_spent_and_left_and_why(client, at_once):
    """In words for each account; and in a table whose cells are read by their headings."""
    assert "No ledger in this folder yet" in client.page("/ledger")
    client.certified()
    client.post(f"/release/{client.intend()}", typed="people")
    assert re.search(r"ρ = 0\.\d+ spent, and no cap is set\.", client.page("/ledger"))
    book = client.number("budget.sqlite")
    client.post("/ledger", ledger=book, account="0", cap="1/2", typed="people", reason="of the year")
    page = client.page("/ledger")
    with fn.Ledger(client.folder.root / "budget.sqlite") as ledger:
        (account,) = ledger.accounts()
        spent = ledger.balance(account).spent
        times = [e.time[:16].replace("T", " ") for e in ledger.entries()]
    assert f"ρ = {float(spent):.7f} spent of the cap of 0.5000000. {float(1 - 2 * spent):.1%} is left." in page.replace(
        "\u202f%", "%"
    )
    assert "releases: 1" in page
    same = {"Account": "people"}
    assert rows(page) == [
        {
            "No.": "3",
            "Time (UTC)": times[2],
            **same,
            "What": "Cap set to ρ = 0.5000000",
            "Cost ρ": "–",
            "Release or reason": "of the year",
        },
        {
            "No.": "2",
            "Time (UTC)": times[1],
            **same,
            "What": "Answers recorded",
            "Cost ρ": "–",
            "Release or reason": "release",
        },
        {
            "No.": "1",
            "Time (UTC)": times[0],
            **same,
            "What": "Release",
            "Cost ρ": f"{float(spent):.7f}",
            "Release or reason": "release",
        },
    ]


@pytest.mark.parametrize(
    ("changes", "measure", "spent", "cap", "unspent"),
    [
        ({"spent": Fraction(1, 4)}, "ρ", 0.25, None, None),
        ({"spent": Fraction(1, 4), "cap": Fraction(1)}, "ρ", 0.25, 1, 0.75),
        ({"spent": Fraction(1, 4), "cap": Fraction(1, 8)}, "ρ", 0.25, 0.125, 0),
        ({"spent": None, "cap": Fraction(1)}, "ρ", None, 1, 0),
        ({"epsilon_spent": Fraction(1), "epsilon_cap": Fraction(4), "cap": Fraction(8)}, "ε", 1, 4, 0.75),
        ({"epsilon_spent": None, "epsilon_cap": Fraction(4), "cap": Fraction(8)}, "ε", None, 4, 0),
        ({"mu_squared_spent": Fraction(1), "mu_squared_cap": Fraction(4), "cap": Fraction(2)}, "μ", 1, 2, 0.75),
    ],
)
def test_a_balance_is_in_the_measure_of_its_cap(tmp_path, changes, measure, spent, cap, unspent):
    with fn.Ledger(tmp_path / "budget.sqlite") as ledger:
        empty = ledger.balance(Account("people", PrivacyUnit("person", max_records=1)))
    balance = balance_of(replace(empty, **changes), 2)
    assert (balance.name, balance.releases, balance.measure) == ("people", 2, measure)
    assert (balance.spent, balance.cap, balance.share_left) == (spent, cap, unspent)
    assert (balance.cap is None) == (balance.cap_guess is None)
    assert 0.5 <= balance.guess <= 1


@pytest.mark.parametrize(
    ("state", "charged", "stage", "expected"),
    [
        ("releasing", False, "", "now todo todo todo todo"),
        ("refused", False, "opening the data", "fail todo todo todo todo"),
        ("releasing", False, "counting", "done now todo todo todo"),
        ("releasing", True, "counting, charging and measuring", "done done done now todo"),
        ("releasing", True, "writing the tables", "done done done done now"),
        ("refused", False, "counting", "done fail todo todo todo"),
        ("failed", True, "writing the tables", "done done done done fail"),
        ("released", True, "writing the tables", "done done done done done"),
    ],
)
def test_the_stages_of_a_release_follow_the_ledger(state, charged, stage, expected):
    release_state = releasing.ReleaseState("", None, state, stage, object() if charged else None, False, "", False)
    assert " ".join(x for _, x in releasing.progress_of(release_state)) == expected


def test_a_file_that_lacks_columns_is_not_offered(client):
    """The first line decides, without regard to case; data without such a line are offered."""
    root = client.folder.root
    root.joinpath("other.csv").write_text("AREA,income\n1,2\n", encoding="utf-8")
    root.joinpath("upper.csv").write_text("Age,AREA\nx,y\n", encoding="utf-8")
    root.joinpath("some.sav").write_bytes(b"")
    client.certified()
    page = client.page("/release")
    texts = " ".join(Page(page).texts)
    assert "other.csv cannot be used: it lacks the columns age." in texts
    offered = re.findall(r'name="data" value="(\d+)"', page)
    assert {*offered} == {client.number(x) for x in ("people.csv", "upper.csv", "some.sav")}
    assert texts.count("has all 2 columns") == 2


@pytest.mark.parametrize(
    ("fields", "formula"),
    [
        ({"measure": "number"}, "count()"),
        ({"measure": "number", "that": "0.0"}, 'count({"area": "North"})'),
        ({"measure": "share", "that": "0.1"}, 'count({"area": "South"}) / count()'),
        (
            {"measure": "share", "that": "0.1", "among": "1.3"},
            'count({"area": "South", "age": 3}) / count({"age": 3})',
        ),
        ({"measure": "mean.1", "that": "0.0"}, 'mean("age", {"area": "North"})'),
        ({"measure": "median.1"}, 'median("age")'),
        ({"measure": "number", "that": "0.0 1.0 1.2 1.0"}, 'count({"area": "North", "age": {"values": [0, 2]}})'),
        (
            {"measure": "share", "that": "1.0 1.1", "among": "1.1 1.2 0.0"},
            'count({"age": 1, "area": "North"}) / count({"age": {"values": [1, 2]}, "area": "North"})',
        ),
        (
            {"measure": "number", "that": "0.0", "since": "3"},
            'count({"area": "North"}) - other.count({"area": "North"})',
        ),
        (
            {"measure": "share", "that": "0.0", "since": "3"},
            'count({"area": "North"}) / count() - other.count({"area": "North"}) / other.count()',
        ),
        ({"measure": "mean.1", "since": "3"}, 'mean("age") - other.mean("age")'),
    ],
)
def test_a_question_by_menus_is_a_formula(fields, formula):
    domain = publication_of(SPEC, Path()).domain
    assert questions.formula(domain, chosen_in_menus(fields)) == formula


def chosen_in_menus(fields):
    """The question of a form with each of its choices; a side of a question has several menus."""
    pairs = [(name, key) for name, keys in fields.items() for key in keys.split(" ")]
    return questions.submitted_question(SubmittedForm(pairs))


def test_a_menu_distinguishes_values_of_one_label():
    domain = fn.Domain({"a 'b'": fn.Categorical({1: "same", 2: "same", 3: "other"}), "many": fn.Ordered(0, 999)})
    listed = list(questions.conditions(domain))
    assert [(x.key, x.literal, x.text) for x in listed] == [
        ("0.0", 1, "same"),
        ("0.1", 2, "same"),
        ("0.2", 3, "other"),
    ]
    question = chosen_in_menus({"measure": "number", "that": "0.1"})
    assert questions.formula(domain, question) == """count({"a 'b'": 2})"""


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"measure": "size"}, "release.question-not-listed"),
        ({"measure": "mean.9"}, "release.question-not-listed"),
        ({"measure": "number", "that": "0.7"}, "release.question-not-listed"),
        ({"measure": "share"}, "release.share-without-condition"),
        ({"measure": "number", "that": "0.0 0.7"}, "release.question-not-listed"),
        ({"measure": "share", "that": "0.0", "among": "0.1"}, "release.conditions-exclude-each-other"),
        ({"measure": "median.1", "since": "3"}, "release.difference-of-medians"),
    ],
)
def test_questions_that_no_menu_has_are_refused(fields, code):
    with refused(code):
        questions.formula(publication_of(SPEC, Path()).domain, chosen_in_menus(fields))


def test_an_empty_page_of_tables_offers_patterns_with_their_sizes(tmp_path, monkeypatch):
    """Each has the tables and the numbers that it states."""
    pair = SPEC[: SPEC.index("[[tables]]")]
    spec, stated = f'{pair}\n[domain.sex]\ntype = "categorical"\ncodes = ["f", "m"]\n', {}
    for name in ("alone", "first", "pairs"):
        with opened(filled(tmp_path / name, spec), monkeypatch) as client:
            page = client.page("/tables")
            sizes = re.findall(r'<p>Tables: ([\d,]+), numbers: ([\d,]+)</p>.*?value="(\w+)"><button', page, re.DOTALL)
            assert client.post("/tables/pattern", pattern=name).status_code == 200
            workload = publication_of(client.folder.text(), client.folder.root).workload
            numbers = sum(math.prod(x.shape(workload.domain)) for x in workload.tables)
            stated[name] = {key: (tables, n) for tables, n, key in sizes}[name]
            assert stated[name] == (str(len(workload.tables)), f"{numbers:,}")
            assert "or start from a pattern" not in client.page("/tables").lower()
            assert client.post("/tables/pattern", pattern="all").status_code == 422
    assert stated == {"alone": ("3", "8"), "first": ("2", "12"), "pairs": ("3", "20")}
    with opened(filled(tmp_path / "two", pair), monkeypatch) as client:
        assert re.findall(r'name="pattern" value="(\w+)"', client.page("/tables")) == ["alone", "first"]
    undescribed = spec.replace('codes = ["n", "s"]', "")
    with opened(filled(tmp_path / "new", undescribed), monkeypatch) as client:
        assert "/tables/pattern" not in client.page("/tables")


def test_a_card_has_the_share_of_its_table_in_the_cost(client, at_once):
    client.post("/tables", {"number.0": "9"})
    plan = fn.plan(fn.load_spec(client.folder.root / "spec.toml"))
    page = client.page("/tables")
    marks = re.findall(r'id="share\.(\w+)" class="cost-share" data-part><p class="k">Share of the cost', page)
    assert marks == forms.marks_of(client.studio.document())
    assert [f"{x.numbers} numbers" in page for x in plan.summaries] == [True, True]
    shares = [float(x) for x in re.findall(r'<p class="v">([\d.]+)\u202f?%</p><svg class="rest"', page)]
    assert sum(shares) == pytest.approx(100, abs=0.11)
    client.post("/tables", {"number.0": "1e300"})
    assert "Share of the cost" not in client.page("/tables")


def test_a_table_that_is_built_shows_other_margins_and_those_of_its_totals(client, at_once):
    """Nothing of the form is kept; margins of totals are those that a release will state."""
    draft_text = client.folder.text()
    fields = {"told": "", "show.0": "area", "show.1": "age", "view.1": "", "kind": "margin", "number": "5"}
    assert client.post("/tables/new", {**fields, "number": "x", "sweep": "1"}).status_code == 422
    assert 'id="jobs"' in client.post("/tables/new", {**fields, "sweep": "1"}).text
    assert client.wait().state == "done", client.wait().text
    assert client.folder.text() == draft_text
    job = client.studio.jobs.all[-1]
    assert job.html in client.page("/tables/new")
    assert job.html not in client.page("/tables/0") + client.page("/price")
    plan = fn.plan(publication_of(job.question["text"], client.folder.root))
    release = fn.release(plan, client.folder.root / "people.csv", ledger=client.folder.root / "other.sqlite")
    expected = {x: release.count(by=[x] if x else []).frame()["moe"].max() for x in ("area", "age", "")}
    table_index = len(plan.summaries) - 1
    assert dict(planner.margins_of_totals(plan, table_index)) == pytest.approx(expected)
    assert f"all people: ±{expected['']:.4g}" in job.html


BOUNDED = {
    "one record": SPEC,
    "an id": SPEC.replace("max_records = 1", 'id = "pid"\nmax_records = 6'),
    "a pattern": SPEC.replace("max_records = 1", 'id = "pid"\nmax_records = 3\nonce_per = ["age"]'),
    "a cap below the price": SPEC.replace("max_records = 1", "max_records = 1\ncap = { rho = 1e-9 }"),
    "a budget": SPEC.replace("[[tables]]", "[budget]\nrho = 0.5\n\n[[tables]]", 1),
    "pure": SPEC[: SPEC.index("[[tables]]  # by age")]
    .replace("max_records = 1", 'max_records = 2\ndefinition = "pure"')
    .replace("gap = 1e-4\n", ""),
}


@pytest.mark.parametrize("text", BOUNDED.values(), ids=BOUNDED)
def test_costs_of_other_numbers_of_records_are_those_of_drafts_that_state_them(text, tmp_path):
    """The table is read by its headings. Its figures are of plans of the library, and at the foot of such drafts."""
    common = {"folder": str(tmp_path), "language": "en"}
    present = publication_of(text, tmp_path).unit.max_records
    html = planner.answered({"what": "bounds", "text": text, **common}, lambda _: None)["html"]
    table = {x.pop("Records, at most").removesuffix(" now"): x for x in rows(html)}
    assert [*table] == [str(n) for n in sorted({1, 2, 3, 4, present})]
    assert re.search(r'<tr class="sum"><th scope="row">(\d+) <small>now', html)[1] == str(present)
    for number, row in table.items():
        document = forms.parse(text)
        document["privacy"] |= {"max_records": int(number)}
        document["privacy"].pop("cap", None)
        stated = forms.write(document)
        plan = fn.plan(planner._live({"text": stated}, tmp_path))
        bar = planner.answered({"what": "price", "text": stated, **common}, lambda _: None)["parts"]["price"]
        measure, cost = ("ρ", plan.rho) if plan.loss.epsilon is None else ("ε", plan.epsilon())
        expected = {
            f"Cost {measure}": f"{cost:.{planner.proven(plan)}g}",
            "Best guess": f"{100 * plan.loss_summary.best_guess:.2f} %",
        }
        assert f"{measure} = {expected[f'Cost {measure}']}</p>" in bar
        assert f'<p class="v">{expected["Best guess"]}</p>' in " ".join(bar.split())
        if "[budget]" in text:
            factor = max(s.achieved_moe / s.target_moe for s in plan.summaries)
            expected["margins ×"] = translator("en").kind(ValueKind.FACTOR, factor)
        assert row == expected


def test_a_number_of_records_that_cannot_be_planned_has_its_reason_once(tmp_path, monkeypatch):
    """Without a plan of the present number there are no costs; shares of units have one cost."""
    question = {"what": "bounds", "text": SPEC, "folder": str(tmp_path), "language": "en"}
    plan_tables, limit = planner.make_plan, 2

    def make_plan(publication, **options):
        if publication.unit.max_records > limit:
            raise PlanError("out-of-reach", "The targets are out of reach.", "", "Ease them.", "Nothing was planned.")
        return plan_tables(publication, **options)

    monkeypatch.setattr(planner, "make_plan", make_plan)
    html = planner.answered(question, lambda _: None)["html"]
    assert [x["Cost ρ"] == "–" for x in rows(html)] == [False, False, True, True]
    assert [x["Best guess"] == "–" for x in rows(html)] == [False, False, True, True]
    assert html.count("The targets are out of reach. Ease them. Nothing was planned.") == 1
    limit = 0
    assert planner.answered(question, lambda _: None)["kind"] == "refused"
    shares = SPEC.replace("max_records = 1", 'id = "pid"\ncount = "shares"')
    html = planner.answered({**question, "text": shares}, lambda _: None)["html"]
    assert "<table" not in html
    assert "Shares count all records of a unit, at the cost of one record." in html


def bounds_part(client):
    return str(client.studio.parts("protect")["bounds"])


def test_costs_of_other_numbers_of_records_are_of_the_draft_or_marked_as_earlier(client, monkeypatch):
    """They come after the price, without a question to the reader; a newer question goes first."""
    answered, held, questions_sent = client.studio.planner.ask, threading.Event(), []
    held.set()

    def ask_planner(after=None, **question):
        questions_sent.append(question["what"])
        if question["what"] == "bounds":
            assert held.wait(60)
            if questions_sent.count("bounds") == 1:
                raise workers.newer_question()
        return answered(**question)

    monkeypatch.setattr(client.studio.planner, "ask", ask_planner)
    client.studio.price()
    assert "Planning …" in bounds_part(client)
    wait_until(lambda: "<table" in bounds_part(client))
    assert questions_sent == ["price", "bounds", "bounds"]
    first_rows = rows(bounds_part(client))
    assert "aria-busy" not in bounds_part(client)
    assert bounds_part(client) in client.page("/protect")
    held.clear()
    client.post("/tables", {"number.0": "5"})
    assert 'aria-busy="true"' in bounds_part(client)
    assert "Planning …" in bounds_part(client)
    assert rows(bounds_part(client)) == first_rows
    held.set()
    wait_until(lambda: "aria-busy" not in bounds_part(client))
    cost = rows(bounds_part(client))[0]["Cost ρ"]
    assert cost != first_rows[0]["Cost ρ"]
    assert f"ρ = {cost}</p>" in client.studio.price_parts()["price"]
    assert questions_sent == ["price", "bounds", "bounds", "price", "bounds"]
    client.post("/file", text=SPEC.replace("max_records = 1", "max_records = 0"))
    client.studio.price()
    wait_until(lambda: "Planning" not in bounds_part(client))
    assert "<table" not in bounds_part(client)
    assert "Nothing was planned." in bounds_part(client)
    client.post("/file", text=SPEC[: SPEC.index("[[tables]]")])
    assert "There is no cost yet, because the draft has no table." in bounds_part(client)
    assert "<table" not in bounds_part(client)


def test_a_question_after_a_number_does_not_replace_a_newer_one():
    worker = workers.Worker()
    with refused("fitnoise.newer-question"):
        worker.ask(after=worker.newest - 1, what="bounds")
    assert worker.pid is None


def test_a_question_has_more_conditions_and_a_release_before(client, at_once):
    """A button adds a menu and keeps the others; the change since another release names that release."""
    client.certified()
    client.post(f"/release/{client.intend()}", typed="people")
    path = f"/report/{client.number('release')}"
    assert 'name="since"' not in client.page(path)
    client.post(f"/release/{client.intend(out='later')}", typed="people")
    assert 'name="since"' in client.page(path)
    fields = [("measure", "number"), *(("that", key) for key in ("0.1", "", "1.3"))]
    menus = client.http.post(
        f"{path}/ask",
        content=urlencode([("token", client.session.token(f"{path}/ask")), *fields, ("again", "add-that")]),
        headers={"x-studio": "1", "content-type": "application/x-www-form-urlencoded"},
    ).text
    assert [x in menus for x in ('value="0.1" selected', 'value="1.3" selected')] == [True, True]
    assert menus.count('name="that"') == 3
    assert "data-focus" in menus.rpartition('name="that"')[2].partition(">")[0]
    earlier, later = (Release.read(client.folder.root / x) for x in ("release", "later"))
    answer = client.post(f"{path}/ask", measure="number", that="0.0", since=client.number("later")).text
    (row,) = ask('count(area="North") - other.count(area="North")', earlier, later).frame().to_dict("records")
    printed = re.search(r'<p class="v">([−\d.]+) ± ([\d.]+)</p>', answer).groups()
    assert [float(x.replace("−", "-")) for x in printed] == pytest.approx([row["value"], row["moe"]], abs=0.051)
    assert "This release minus later." in answer
    assert client.post(f"{path}/ask", measure="number", since=client.number("release")).status_code == 422
    values = questions.formula(
        earlier.plan.publication.domain, chosen_in_menus({"measure": "number", "that": "1.3 1.0"})
    )
    added = sum(ask(f"count(age={age})", earlier).frame()["value"][0] for age in (0, 3))
    assert ask(values, earlier).frame()["value"][0] == pytest.approx(added)


def test_an_answer_is_a_number_with_its_margin_in_words_and_a_table(client, at_once):
    """The table is read by its headings; a formula that is written goes before the menus."""
    client.certified()
    client.post(f"/release/{client.intend()}", typed="people")
    path = f"/report/{client.number('release')}"
    release = Release.read(client.folder.root / "release")
    number = client.post(f"{path}/ask", measure="number", that="0.0", among="", by="").text
    answer = ask('count(area="North")', release).frame()
    (value, margin) = (f"{answer[x][0]:,.1f}" for x in ("value", "moe"))
    assert f'<p class="v">{value} ± {margin}</p>' in " ".join(number.split())
    assert f'aria-label="Estimate {value}, interval' in number
    assert "The exact number is from" in number
    by_age = client.post(f"{path}/ask", measure="share", that="0.0", among="", by="age").text
    expected = ask('count(area="North") / count()', release, by=["age"]).frame()
    assert [x["age"] for x in rows(by_age)] == [str(x) for x in expected["age"]]
    assert "The exact number is from" not in by_age
    by_formula = client.post(f"{path}/ask", measure="share", that="", among="", by="", question="count() / 2").text
    assert "count() / 2" in by_formula
    refusal = client.post(f"{path}/ask", measure="share", that="", among="", by="")
    assert refusal.status_code == 422
    assert 'data-field="measure"' in refusal.text


def test_jobs_queue_and_are_shown(client):
    assert client.post("/kinds").status_code == 200
    assert client.wait().state == "done"
    assert client.post("/sweep", place="1").status_code == 200
    assert client.wait().state == "done"
    assert client.post("/sweep", place="9").status_code == 200
    assert client.wait().state == "refused"
    assert "zcdp" in " ".join(Page(client.page("/prove")).texts)
    text = " ".join(Page(client.page("/price")).texts)
    assert "each row is a separate plan" in text
    assert "The plan has no such table" in text
    assert client.post("/jobs/1/stop").status_code == 200


def test_integer_tables_are_made_as_a_job_next_to_the_release(client, at_once, monkeypatch):
    client.certified()
    client.post(f"/release/{client.intend()}", typed="people")
    number = client.number("release")
    assert client.post(f"/report/{number}/write", kind="whole").status_code == 200
    assert client.wait().state == "done", client.wait().text
    assert "release-whole" in client.page(f"/report/{number}")
    assert fn.verify(client.folder.root / "release", integers=client.folder.root / "release-whole").ok
    assert "Job 1" not in client.page(f"/report/{number}")  # that of the plan

    def stopped(step):
        raise planner.PlanningInterrupted

    request = {"what": "whole", "release": "release", "out": "other", "language": "en", "folder": client.folder.root}
    with pytest.raises(planner.PlanningInterrupted):
        planner.answered(request, stopped)
    assert not (client.folder.root / "other").exists()


@pytest.mark.parametrize(("promise", "has_curve"), [("zcdp", True), ("pure", False)])
def test_a_proof_draws_its_curve_where_there_is_one(tmp_path, monkeypatch, promise, has_curve):
    text = SPEC.replace('unit = "person"', f'unit = "person"\ndefinition = "{promise}"').replace("gap = 1e-4", "")
    with opened(filled(tmp_path / "f", text), monkeypatch) as client:
        client.certified()
        page = Page(client.page("/prove"))
        assert ("polyline" in page.tags) == has_curve
        assert ("ε at other δ" in page.texts) == has_curve


def test_a_proof_shows_what_is_free_next_to_it(client):
    """Detects a page that says nothing of what older people leave, who are in none but the first table."""
    text = SPEC.replace('cumulative = "age"\nmargin = 9.5', "groups = { age = { young = 0 } }\nmargin = 2")
    client.post("/file", text=text)
    client.certified()
    page_text = " ".join(Page(client.page("/prove")).texts)
    assert "Further queries at no cost" in page_text
    assert "3 of 4 values of age have charged but unused privacy" in page_text


def test_a_plan_of_an_earlier_server_is_verified_again(tmp_path, monkeypatch):
    root = filled(tmp_path / "f")
    with opened(root, monkeypatch) as client:
        plan = client.certified()
    with opened(root, monkeypatch) as client:
        client.page("/prove")
        assert client.wait().question["what"] == "show"
        assert plan in client.page("/prove")
        client.page("/prove")
        assert len(client.studio.jobs.all) == 1


# --- what others may have written ------------------------------------------------------------------------------------


def test_hostile_names_stay_texts(tmp_path, monkeypatch, at_once):
    label = json.dumps(HOSTILE)
    text = (
        f"title = {label}\n[domain.\"<b>&\"]\ntype = 'categorical'\ncodes = [{label}]\n"
        f'[[tables]]\nattributes = ["<b>&"]\nmargin = 3\nname = {label}\n'
    )
    root = filled(tmp_path / "f", text)
    name = "<img src=x onerror=alert(1)>.csv"
    (root / name).write_text("x\n1\n")
    (root / "r").mkdir()
    (root / "r" / "release.json").write_text("{}")
    with opened(root, monkeypatch) as client:
        client.certified()
        pages = [client.page(f"/{x}") for x in states.PAGES]
        pages += [client.page(f"/data?file={client.number(name)}"), client.post("/tables").text]
        pages.append(client.get(f"/report/{client.number('r')}").text)
        for text in pages:
            page = Page(text)
            assert "img" not in page.tags
            assert page.tags.count("script") == ("script" in page.tags)
            assert not [x for x, _ in page.attributes if x.startswith("on") or x == "style"]


@pytest.mark.slow
def test_fuzzed_forms_are_answered(client, at_once):
    fuzzed(client, 100)


def fuzzed(client, count):
    """Every error of a form is one of fitnoise: the client raises the error of a handler. Benchmarks send 10,000."""
    rng = random.Random(20)  # noqa: S311 - of a test
    names = ["number.0", "kind.0", "privacy.unit", "privacy.max_records", "codes", "low", "cuts", "missing", "levels"]
    names += ["text", "name", "type", "data", "out", "ledger", "typed", "place", "question", "by", "cap", "cap.kind"]
    names += [
        "budget",
        "budget.kind",
        "show",
        "cumulative",
        "pattern",
        "told",
        "amount",
        "ceiling",
        "reference",
        "ceilings",
        "is_sum_within_unit",
        "sum_within_unit",
        "number",
        "file",
        "accuracy.gap",
        "turn",
        "tab",
        "base",
    ]
    values = [
        "",
        "0",
        "1",
        "-1",
        "1e309",
        "nan",
        "x" * 5000,
        "sum",
        "\0",
        "\u202e",
        '"',
        "a = b",
        "[[",
        "é",
        "pairs",
        "area",
    ]
    values += ["rho", "1/0", "1/28", "categorical", "ordered", "count()", "{", "'''", SPEC, "domain = 3", "tables = 7"]
    values += ['"\\ud800"', "a = [null]", "a = [[1]]", 'a = ["\\ud800"]', "unknown = 9", '"a', "= 1", "1e5", "0.5"]
    values += ["[domain.x]\ntype=3", "[[tables]]\nattributes=3\nmargin='x'", "privacy = 'pure'", "9" * 400, "people"]
    paths = [*app.FORM_HANDLERS]
    paths.remove("/quit")
    for _ in range(count):
        path = re.sub(r"\{\w+\}", lambda _: str(rng.randrange(4)), rng.choice(paths))
        sent = {rng.choice(names): rng.choice(values) for _ in range(rng.randrange(5))}
        token = {"token": client.session.token(path), "base": base_of(client)}
        reply = client.http.post(path, data={**token, **sent}, headers={"x-studio": "1"})
        assert reply.status_code in (200, 204, 409, 422), (path, sent)
        page = client.get(f"/{rng.choice(states.PAGES)}")
        assert page.status_code in (200, 422)
        if rng.random() < 0.1:
            client.folder.discard()


def test_an_error_of_another_library_is_reported_without_its_text(client, monkeypatch):
    def fail(*arguments):
        raise ValueError("secret")

    monkeypatch.setattr(client.studio.folder, "key", fail)
    for reply in (client.http.get("/protect"), client.post("/tables", {"number.0": "5"})):
        assert reply.status_code == 500
        assert "error inside fitnoise (ValueError)" in reply.text
        assert "secret" not in reply.text
        assert "Traceback" not in reply.text
    assert 'id="alert"' in client.post("/tables", {"number.0": "6"}).text  # the script shows it


def test_no_place_of_an_address_is_more_than_a_text(client):
    long = "9" * 5000
    for path in ("/jobs/{}/stop", "/tables/{}", "/tables/{}/remove", "/release/{}", "/report/{}/ask"):
        for segment in (long, "x", "-1", "%00", "\u0663"):
            assert client.post(path.format(segment)).status_code in (200, 403, 422), (path, segment)  # no token for %00
    for path in (f"/report/{long}", f"/release/{long}", f"/ledger?ledger={long}", f"/data?file={long}"):
        assert client.get(path).status_code in (200, 422)


# --- processes -------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlencode
from fitnoise_studio import releasing

real = releasing.release

def run(root, number, at):
    def release(*given, progress, **more):
        def stage(name):
            progress(name)
            if name == at:
                os.kill(os.getpid(), signal.SIGKILL)
        done = real(*given, progress=stage, **more)
        if at == "done":
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    releasing.release = release
    releasing.run(Path(root), number, "en")
    os._exit(0)

for line in sys.stdin:
    child = os.fork()
    if not child:
        run(*line.rstrip("\\n").split("\\t"))
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow
def test_of_a_release_that_is_killed_the_page_says_what_the_ledger_says(tmp_path, monkeypatch):
    stages = {
        "opening the data": "refused",
        "rehearsing without data": "refused",
        "counting, charging and measuring": "refused",
        "writing the tables": "failed",
        "done": "released",
        "never": "released",
    }
    with opened(filled(tmp_path / "f"), monkeypatch) as client:
        client.certified()
        folder, releases = client.folder, client.studio.releases
        monkeypatch.setattr(Releases, "_start", prepared)
        numbers = []
        killed = [sys.executable, "-c", KILLED]
        with subprocess.Popen(killed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as children:
            for i, stage in enumerate(stages):
                numbers.append(number := client.intend(out=f"r{i}"))
                releases.confirm(number, "people", folder.certified())
                children.stdin.write(f"{folder.root}\t{number}\t{stage}\n")
                children.stdin.flush()
                output = iter(children.stdout.readline, "")
                status = next(x for x in output if x.strip().isdecimal())  # after what the release says
                assert status == ("0\n" if stage == "never" else "9\n")
            children.stdin.close()
        outcomes = [releases.where(n) for n in numbers]
        with fn.Ledger(folder.root / "budget.sqlite") as ledger:
            charges = [e for e in ledger.entries() if e.kind == "charge"]
        assert len(charges) == 2  # what was killed after its charge was finished by the next one
        for where, stage, expected in zip(outcomes, stages, stages.values(), strict=True):
            assert where.state == expected, stage
            page = " ".join(Page(client.page(f"/release/{where.id}")).texts)
            assert {"refused": "Not released", "failed": "Charged, but not released", "released": "Released"}[
                where.state
            ] in page
        assert [w.entry and w.entry.sequence for w in outcomes] == [None, None, None, 1, 1, 3]


def prepared(self, number, intent):
    """An intent that is used, and whose process is started by the test."""
    folder = self._places / number
    folder.mkdir()
    (folder / "intent.json").write_text(json.dumps(vars(intent)))


@pytest.mark.slow
def test_a_release_in_its_own_process_stops_before_the_charge_or_not_at_all(tmp_path, monkeypatch):
    """The process is held by the folder's lock, which this server and a later one see."""
    with opened(filled(tmp_path / "f"), monkeypatch) as client:
        client.certified()
        releases, number = client.studio.releases, client.intend()
        (client.folder.own / "releases" / number).mkdir()  # its intent is not written: not known, and no second start
        with pytest.raises(FileExistsError):
            releases.confirm(number, "people", client.folder.certified())
        (client.folder.own / "releases" / number).rmdir()
        number = client.intend()
        monkeypatch.setattr(releasing, "hold", held := Held(client, number))
        monkeypatch.setattr(releasing, "command", waiting := Waiting(tmp_path / "go"))
        releases.confirm(number, "people", client.folder.certified())
        assert held.handle is not None
        second = Releases(client.folder, "en")
        assert releases.where(number).state == second.where(number).state == "releasing"
        assert "It goes on if you close this page" in client.page(f"/release/{number}")
        assert client.post(f"/release/{number}/stop").status_code == 200
        with refused("release.another-release-running"):
            releases.confirm(client.intend(out="other"), "people", client.folder.certified())
        waiting.go.touch()
        wait_until(lambda: all(x.where(number).state != "releasing" for x in (releases, second)))
        where = releases.where(number)
        assert (where.state, where.has_ended, where.entry) == ("refused", True, None)
        wait_until(lambda: "The operator stopped the release" in releases.where(number).text)
        number = client.intend()
        releases.confirm(number, "people", client.folder.certified())
        wait_until(lambda: releases.where(number).state != "releasing")
        assert releases.where(number).state == "released"
        assert releases.running() is None


class Held:
    """The lock on a folder; seen."""

    def __init__(self, client, number):
        self.real, self.handle = releasing.hold, None

    def __call__(self, path):
        self.handle = self.real(path)
        return self.handle


class Waiting:
    """The program of a release, begun when its file is there: it has not come to its charge when it is stopped."""

    def __init__(self, go):
        self.go, self.real = go, releasing.command

    def __call__(self, *arguments):
        until = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.05)\n"
        start = "os.execv(sys.argv[2], sys.argv[2:])"
        return [sys.executable, "-c", until + start, str(self.go), *self.real(*arguments)]


@pytest.fixture
def worker():
    process = workers.Worker()
    yield process
    process.close()


@pytest.mark.slow
def test_a_planning_process_answers_and_is_replaced_when_it_is_killed(worker, tmp_path, monkeypatch):
    root = filled(tmp_path / "f")
    for name in ("json.py", "fitnoise.py", "numpy.py"):
        (root / name).write_text("raise SystemExit")  # no file of the folder is taken for a library
    monkeypatch.chdir(root)
    monkeypatch.setenv("PYTHONPATH", str(Path(fn.__file__).parents[1]))
    common = {"text": SPEC, "folder": str(root), "language": "en", "what": "price"}
    answer = worker.ask(**common)
    assert answer["rho"] > 0
    with refused("spec.not-toml"):
        worker.ask(**{**common, "text": "x"})

    demo = data.path(data.DEMO).read_text(encoding="utf-8")
    (root / data.STATES).write_bytes(data.path(data.STATES).read_bytes())
    pid, codes = worker.pid, []

    def ask():
        try:
            codes.append(worker.ask(**{**common, "text": demo, "what": "kinds"}))
        except workers.QuestionReplaced as error:
            codes.append(error.code)

    long = threading.Thread(target=ask)
    long.start()
    wait_until(lambda: worker.step)
    worker.stop()
    long.join(60)
    assert codes == ["fitnoise.newer-question"]
    assert worker.ask(**common)["rho"] == answer["rho"]
    assert worker.pid == pid  # it was stopped, and not ended
    os.kill(pid, signal.SIGKILL)
    assert worker.ask(**common)["rho"] == answer["rho"]
    assert worker.pid != pid


def test_a_silent_process_is_replaced(monkeypatch, tmp_path):
    """A process that does not turn to a newer question is ended."""
    heard = []

    class Silent:
        ready, begun, gone, pid = 0.0, 0, False, 1

        def __init__(self, condition):
            self.answers, self.steps = {}, {}
            heard.append(self)

        def ask(self, *, n, **question):
            if len(heard) > 1:
                self.answers[n] = {"kind": "done", "n": n}

        def end(self):
            self.gone = True

    monkeypatch.setattr(workers, "Process", Silent)
    monkeypatch.setattr(workers, "UNRESPONSIVE_SECONDS", 0.01)
    worker = workers.Worker()
    assert worker.ask(what="x")["kind"] == "done"
    assert heard[0].gone
    assert len(heard) == 2


# --- words and ways in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", COMPLETE_LANGUAGES)
def test_every_page_is_complete_in_every_language(tmp_path, monkeypatch, at_once, language):
    with opened(filled(tmp_path / "f"), monkeypatch, language=language) as client:
        client.certified()
        client.post(f"/release/{client.intend()}", typed="people")
        for path in [*(f"/{x}" for x in states.PAGES), f"/report/{client.number('release')}"]:
            page = Page(client.page(path))
            assert {"nav", "main", "h1"} <= {*page.tags}
            assert page.tags.count("h1") == 1
            ids = [v for k, v in page.attributes if k == "id"]
            assert len({*ids}) == len(ids)
            fields = [v for k, v in page.attributes if k == "for"]
            assert {*fields} <= {*ids}
            assert ("lang", language) in page.attributes


def test_events_report_changes_and_resume(client):
    with client.http.stream("GET", "/events?on=tables") as reply:
        lines = reply.iter_lines()
        event = next(lines)
        client.studio.closing.set()
        rest = [x for x in lines if x]
    assert event.startswith("id: ")
    assert any('id="state"' in x for x in rest)


def test_a_server_listens_only_here_and_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "Worker", Here)
    monkeypatch.setattr(workers, "Worker", Here)
    with serve.serving(Folder(filled(tmp_path / "f"))) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.address)
        assert server.page.is_file()
        browser = httpx2.Client(base_url=server.session.origin + server.session.home, trust_env=False)
        wait_until(lambda: answers(browser))
        assert browser.get("/").status_code == browser.get(server.address).status_code == 403
        code = {"code": server.code}
        assert browser.post(f"{server.address}open", data=code, headers={"origin": "null"}).status_code == 200
        assert not server.page.exists()
        reply = browser.get("/ledger")
        assert reply.status_code == 200
        assert "server" not in reply.headers
        token = re.search(r'/quit"[^>]*><input type="hidden" name="token" value="(\w+)"', reply.text)[1]
        sent = {"origin": server.session.origin, "x-studio": "1"}
        assert browser.post("/quit", data={"token": token}, headers=sent).status_code == 200
        wait_until(lambda: not answers(browser))
        browser.close()


def answers(browser):
    try:
        return bool(browser.get("/nothing").status_code)
    except Exception:  # any error of a closed port
        return False


def test_a_server_that_nobody_asks_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "Worker", Here)
    monkeypatch.setattr(workers, "Worker", Here)
    now = [0.0]
    server = serve.Server(Folder(filled(tmp_path / "f")), clock=lambda: now[0])
    monkeypatch.setattr(serve, "POLL_SECONDS", 0.01)
    server._server.run = lambda sockets: wait_until(lambda: server._server.should_exit)
    now[0] = serve.CODE_LIFETIME_SECONDS + 1
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: not server.page.exists())
    assert thread.is_alive()
    now[0] = serve.IDLE_TIMEOUT_SECONDS + 1
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_server_and_its_opening_page(tmp_path, monkeypatch, name):
    """The end is an ordinary one: the caller goes on, with the earlier handlers."""
    monkeypatch.setattr(states, "Worker", Here)
    monkeypatch.setattr(workers, "Worker", Here)
    number, signals = getattr(signal, name), []
    before = signal.signal(number, lambda *_: signals.append(name))
    try:
        handler = signal.getsignal(number)
        server = serve.Server(Folder(filled(tmp_path / "f")))
        browser = httpx2.Client(base_url=server.address, trust_env=False)

        def send():
            wait_until(lambda: answers(browser))
            signal.pthread_kill(threading.main_thread().ident, number)

        thread = threading.Thread(target=send)
        server.run(thread.start)
        thread.join()
        browser.close()
        assert (signals, signal.getsignal(number)) == ([], handler)
    finally:
        signal.signal(number, before)
    assert server.studio.closing.is_set()
    assert not server.page.exists()
    server = serve.Server(Folder(tmp_path / "f"))
    with pytest.raises(BrokenPipeError):
        server.run(broken)
    assert not server.page.exists()


def broken():
    raise BrokenPipeError


def test_a_release_without_a_request_is_nowhere(client):
    with refused("release.release-unknown"):
        client.studio.releases.where("x")
    assert "The studio knows no such release" in client.page("/release/../x".replace("..", "0" * 32).replace("/x", ""))


def test_the_command_says_what_it_lacks_and_how_to_open_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    commands.studio_command(tmp_path, "en", (), as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["address"].startswith("http://127.0.0.1:")
    assert len(document["code"]) >= 43
    commands.studio_command(tmp_path, "en", ("env:URL",), as_json=False)
    assert "paste the code" in capsys.readouterr().err
    with refused("release.unknown-language"):
        commands.studio_command(tmp_path, "fr", (), as_json=False)
    monkeypatch.delitem(sys.modules, "fitnoise_studio.serve")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with refused("release.package-missing"):
        commands.studio_command(tmp_path, "en", (), as_json=False)
