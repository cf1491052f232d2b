"""The studio in German: no page, and no state of a release, a job or an account, has English words."""

import re
from dataclasses import asdict, replace
from fractions import Fraction

import pytest

import fitnoise as fn
from fitnoise.errors import FitnoiseError
from fitnoise.interfaces.pages.fragments import report
from fitnoise.interfaces.reports.ledgers import balance_section
from fitnoise.messages import catalogue, translator
from fitnoise.reporting import Report
from fitnoise_studio import planner, releasing
from fitnoise_studio.app import STATE_TEXTS
from fitnoise_studio.balances import balance_of
from fitnoise_studio.page_parts import error_text, render_part
from fitnoise_studio.releasing import STAGES, STAGES_BEFORE_COUNTING, Releases
from fitnoise_studio.state import STEPS
from fitnoise_studio.workers import Job
from studios import opened
from test_pages import Page

SPEC = """title = "Einwohner"
language = "de"

[data]
source = "einwohner"
outside_domain = "drop"

[privacy]
unit = "Person"
max_records = 1

[domain.gebiet]
type = "categorical"
codes = ["n", "s"]
labels = ["Nord", "Süd"]

[domain.alter]
type = "ordered"
low = 0
high = 3

[domain.lohn]
type = "amount"
low = 0
high = 10

[[tables]]
attributes = ["gebiet", "alter"]
margin = 9

[[tables]]
attributes = ["gebiet"]
cumulative = "alter"
margin = 20

[[tables]]
groups = { alter = { jung = [0, 1] } }
margin = 9

[[tables]]
attributes = ["gebiet"]
sum = "lohn"
margin = 30

[[tables]]
pattern = "singles"
margin = 30
"""

DATA = "gebiet,alter,lohn\n" + "n,1,5\ns,3,2\n" * 40 + "x,1,1\n"

FUNCTION_WORDS = {
    "sum",
    "cumulative",
    "ranges",
    "the",
    "of",
    "by",
    "and",
    "with",
    "is",
    "are",
    "one",
    "or",
    "to",
    "from",
    "not",
    "no",
    "for",
    "at",
}
"""Words of English that no German sentence of the studio has."""


def fragments(language):
    """Return the words between the values of every text of a catalogue."""
    return {part.strip(" .,:;") for text in catalogue(language).values() for part in re.split(r"\{\w+\}", text)}


ENGLISH = {x for x in fragments("en") - fragments("de") if len(x) > 11 and " " in x}
"""The fixed words of the English catalogue that the German one does not have."""


def english_in(html):
    """Return the English words of a page: those of the catalogue, and function words outside code."""
    text = " ".join(
        Page(re.sub(r"<(code|pre|textarea)\b.*?</\1>|<script.*?</script>", " ", html, flags=re.DOTALL)).texts
    )
    labels = re.findall(r'\b(?:aria-label|title|placeholder|data-[a-z]+)="([^"]*)"', html)
    text = " ".join([text, *labels])
    return {x for x in ENGLISH if x in text} | (FUNCTION_WORDS & {*re.findall(r"(?<![\w-])[a-z]+(?![\w-])", text)})


@pytest.fixture
def at_once(monkeypatch):
    """A release runs in this process; its page has what it says."""

    def start(self, number, intent):
        folder = self._places / number
        folder.mkdir()
        (folder / "intent.json").write_text(releasing.to_json(vars(intent)), encoding="utf-8")
        releasing.run(self._folder.root, number, self._language)

    monkeypatch.setattr(Releases, "_start", start)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "ordner"
    root.mkdir()
    return root


def test_the_complete_job_has_no_english_words(folder, monkeypatch, at_once, capsys):
    """From an empty folder to a verified release, its report, answers and exports."""
    with opened(folder, monkeypatch, language="de") as client:
        seen = {path: client.page(path) for path in ("/", *(f"/{x}" for x in STEPS), "/ledger", "/file", "/rules")}
        (folder / "einwohner.csv").write_text(DATA, encoding="utf-8")
        seen["columns"] = client.page(f"/data?file={client.number('einwohner.csv')}")
        (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
        client.studio.price()
        pages = (*(f"/{x}" for x in STEPS), "/price", "/tables/new", "/tables/0", "/tables/1", "/tables/2", "/tables/3")
        seen |= {f"{path}, described": client.page(path) for path in (*pages, "/ledger", "/file", "/rules")}
        seen["margins"] = client.post("/tables", {"number.0": "8"}).text
        client.certified()
        for job in ("/sweep", "/kinds"):
            client.post(job, place="0")
            client.wait()
        seen |= {f"{path}, certified": client.page(path) for path in ("/prove", "/price", "/ledger", "/release")}
        client.post("/ledger", account="0", cap="0.9", typed="einwohner", reason="Beschluss")
        number = client.intend(data=client.number("einwohner.csv"), out="erste")
        seen["confirmation"] = client.post(
            "/release", data=client.number("einwohner.csv"), out="erste", **book(client)
        ).text
        client.post(f"/release/{number}", typed="einwohner")
        client.studio.releases._texts[number] = capsys.readouterr().out.strip()
        client.page(f"/release/{number}")
        client.wait()
        seen["released"] = client.page(f"/release/{number}")
        assert "Geprüft:" in seen["released"]
        assert "weggelassen" in seen["released"]
        report = f"/report/{client.number('erste')}"
        seen |= {path: client.page(path) for path in ("/report", report, "/ledger", "/release", "/prove")}
        seen["answer"] = client.post(f"{report}/ask", measure="share", that="0.0", by="alter").text
        for kind in ("html", "whole", "xlsx", "package"):
            seen[kind] = client.post(f"{report}/write", kind=kind, language="de").text
            client.wait()
        seen["again"] = client.post("/release", data=client.number("einwohner.csv"), out="zweite", **book(client)).text
        seen["integer tables"] = client.page("/report")
        seen["quit"] = client.post("/quit").text
    remaining = {name: english for name, html in seen.items() if (english := english_in(html))}
    assert not remaining
    assert len(seen) > 40


def book(client):
    return {"ledger": client.number("budget.sqlite")}


STATES = [
    (state, stage, charged, stopping, has_ended)
    for state, charged in [(x, x in ("released", "failed")) for x in STATE_TEXTS] + [("releasing", True)]
    for stage in (*STAGES_BEFORE_COUNTING, *STAGES, "rehearsing without data")
    for stopping in (False, True)
    for has_ended in (False, True)
]


def test_no_state_of_a_release_has_english_words(folder, monkeypatch):
    """Every state with every stage, stopped or not, with and without a report of its process."""
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    (folder / "einwohner.csv").write_text(DATA, encoding="utf-8")
    with opened(folder, monkeypatch, language="de") as client:
        client.certified()
        monkeypatch.setattr(Releases, "_start", prepared)
        number = client.intend(data=client.number("einwohner.csv"), out="erste")
        client.post(f"/release/{number}", typed="einwohner")
        first_state = client.studio.releases.where(number)
        entry = entry_of(folder)
        remaining = {}
        for name, stage, is_charged, is_stopping, has_ended in STATES:
            text = "Ein Satz." if has_ended else ""
            changed_state = replace(
                first_state,
                state=name,
                stage=stage,
                entry=entry if is_charged else None,
                stopping=is_stopping,
                has_ended=has_ended,
                text=text,
            )
            monkeypatch.setattr(client.studio.releases, "where", lambda _, result=changed_state: result)
            html = client.page(f"/release/{number}") + client.page("/release")
            if english := english_in(html):
                remaining[name, stage] = english
    assert not remaining
    assert len(STATES) > 60


def prepared(releases, number, intent):
    """Store a request without its process."""
    folder = releases._places / number
    folder.mkdir()
    (folder / "intent.json").write_bytes(releasing.to_json(asdict(intent)).encode())


def entry_of(folder):
    """Return the charge of a plan of a folder, in a ledger outside it."""
    plan = fn.plan(fn.load_spec(folder / "spec.toml"))
    with fn.Ledger(folder.parent / "anderes.sqlite") as ledger:
        return ledger.charge(plan.order.account, plan.loss, {"plan": plan.hash})


def test_costs_of_several_records_have_no_english_words(tmp_path):
    for draft in (SPEC, SPEC.replace("[domain", "[budget]\nrho = 0.5\n\n[domain", 1)):
        question = {"what": "bounds", "text": draft, "folder": str(tmp_path), "language": "de"}
        assert not english_in(planner.answered(question, lambda _: None)["html"])
    assert not english_in(render_part("bounds_table", "de"))
    assert not english_in(render_part("bounds", "de", figures="1", planning=True))


def test_no_state_of_a_job_has_english_words(folder, monkeypatch):
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    with opened(folder, monkeypatch, language="de") as client:
        names = ("certify", "show", "sweep", "kinds", "whole", "verify")
        jobs = [Job(i, name, {"out": "x", "page": ""}) for i, name in enumerate(names, 1)]
        for job_state in ("waiting", "running", "done", "stopped", "refused"):
            monkeypatch.setattr(client.studio.jobs, "all", [replace(job, state=job_state) for job in jobs])
            assert not english_in(client.studio.jobs_part())
        error = FitnoiseError("planning-process-ended", "It ended.", "", "Start it.", "Nothing was planned.")
        assert not english_in(error_text(error, "de"))
        for stopped in (True, False):
            client.studio._price, client.studio._pending = None, None if stopped else "key"
            assert not english_in(client.studio.price_parts()["price"])


BALANCES = (
    {},
    {"spent": Fraction(1, 10)},
    {"spent": None, "cap": Fraction(1, 2), "remaining": Fraction(0)},
    {"spent": Fraction(1, 10), "cap": Fraction(1, 2), "remaining": Fraction(2, 5)},
    {"epsilon_spent": Fraction(1, 10), "epsilon_cap": Fraction(1, 2), "cap": Fraction(1, 8)},
    {"mu_squared_spent": Fraction(1, 10), "mu_squared_cap": Fraction(1, 2), "cap": Fraction(1, 4)},
)


@pytest.mark.parametrize("changes", BALANCES, ids=str)
@pytest.mark.parametrize("unit", [{}, {"id": "kennung"}, {"max_records": 5}, {"once_per": ["monat"]}], ids=str)
def test_no_account_has_english_words(folder, changes, unit):
    stated = fn.PrivacyUnit("Person", **{"max_records": 3, **unit})
    account = fn.Account("einwohner", stated, tuple((a, "0" * 64) for a in stated.pattern.names))
    with fn.Ledger(folder / "budget.sqlite") as ledger:
        quote = replace(ledger.balance(account), **changes)
    balance, german = balance_of(quote, 2), translator("de")
    assert not english_in(german.write(balance.unit))
    assert not english_in(str(render_part("spent", "de", balance, brief=True)))
    section = balance_section(None, quote)
    assert not english_in(str(report(Report("", (section,)), "de")))
