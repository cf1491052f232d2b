"""The studio in a browser of this system: complete paths, by keyboard too; accessible; no requests elsewhere.

`FITNOISE_PICTURES=new` takes the pictures of the tutorial again.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import threading
import tomllib
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe

import fitnoise as fn
from browser_actions import picture, pressed, read, readable
from fitnoise import data
from fitnoise.messages import ValueKind, translator
from fitnoise.planning import what_if
from fitnoise_studio import serve, state, workers
from fitnoise_studio.folder import Folder
from fitnoise_studio.planner import LIVE_PRICE_GAP, proven
from headed import html_columns
from run_pages import follow
from studios import SPEC, filled, public_totals_spec
from test_browser import browser, pytestmark  # noqa: F401 - where there is one
from test_pages import HOSTILE
from test_site import DOCS, run

SECONDS = 60_000

TUTORIAL = DOCS / "tutorials" / "in_the_studio.md"

TILL = """[data]
source = "till"

[privacy]
unit = "customer"
id = "card"

[domain.size]
type = "categorical"
codes = ["small", "large"]

[domain.turnover]
type = "amount"
low = 0
high = 500

[domain.tips]
type = "amount"
low = 0
high = { by = "size", values = { small = 100, large = 5_000 } }

[[tables]]
attributes = ["size"]
margin = 20
"""

PRICE_CHANGED = "old => ![undefined, old].includes(document.querySelector('#price .cost')?.innerText)"


@pytest.fixture
def studio_folder(tmp_path):
    for name, target in ((data.DEMO, "spec.toml"), (data.STATES, data.STATES), (data.CPS, data.CPS)):
        shutil.copy(data.path(name), tmp_path / target)
    return tmp_path


@pytest.fixture(params=["en"])
def page(request, browser, studio_folder, monkeypatch):  # noqa: F811
    """Yield a page at the studio, opened by the file, and all requests elsewhere and complaints.

    A spare planning process starts only where the parameter asks for it: its imports take a second.
    """
    language, *with_spare = request.param.split()
    monkeypatch.setattr(state, "Worker", lambda **_: workers.Worker(spare=bool(with_spare)))
    with serve.serving(Folder(studio_folder), language) as server:
        context = browser.new_context()
        opened = context.new_page()
        opened.set_default_timeout(SECONDS)
        opened.told = []
        home = server.session.origin + server.session.home
        allowed = (home, f"{server.address}open", server.page.as_uri(), "data:,")
        context.on(
            "request", lambda request_sent: request_sent.url.startswith(allowed) or opened.told.append(request_sent.url)
        )
        context.on("console", lambda message: opened.told.append(message.text))
        opened.goto(server.page.as_uri())
        opened.wait_for_url(home)
        opened.address, opened.studio = home, server.studio
        yield opened
        context.close()


FILLED = """() => [...document.querySelectorAll("button, .btn")]
    .filter(x => x.checkVisibility())
    .filter((x, _, all, style = getComputedStyle(x)) =>
        style.backgroundColor === style.borderTopColor && style.backgroundColor !== "rgba(0, 0, 0, 0)")
    .map(x => x.innerText)"""


def accessible(page):
    violations = Axe().run(page, options={"resultTypes": ["violations"]})
    assert [(v["id"], v["nodes"][0]["html"]) for v in violations.response["violations"]] == []


def check(page):
    """Accessible, and nothing outside the screen, from a phone or at 400 % to a wide one, nor outside a sheet of A4.

    At most one button is filled, in colours of the page. Pages in English and in light are accessible at all widths.
    """
    accessible(page)
    is_light = page.evaluate("!matchMedia('(prefers-color-scheme: dark), (forced-colors: active)').matches")
    if not page.evaluate("matchMedia('(forced-colors: active)').matches"):
        assert len(page.evaluate(FILLED)) <= 1, page.evaluate(FILLED)
    for width in (320, 375, 768, 1600, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if is_light and width in (320, 768, 1600) and page.evaluate("document.documentElement.lang") == "en":
            accessible(page)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 990})  # A4 less its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.slow
def test_the_demo_from_a_margin_to_a_question(page, studio_folder):
    """Tables, proof, release, report, question: with the keyboard where a mouse would do."""
    assert studio_folder.joinpath(".studio").stat().st_mode & 0o777 == 0o700
    page.goto(page.address + "tables")
    page.wait_for_selector("#price .cost")
    before = page.inner_text("#price .cost")
    page.focus('[id="slider.0"]')
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(PRICE_CHANGED, arg=before)
    assert page.evaluate("document.activeElement.id") == "slider.0"
    assert float(page.input_value('[id="number.0"]')) < 15
    page.fill('[id="number.0"]', "none")
    page.wait_for_selector("#alert .wrong")
    assert page.inner_text("#alert .wrong").startswith("Target Records by state and status: The value is 'none'.")
    page.told = [x for x in page.told if "422" not in x]  # the browser says that a form was refused
    page.fill('[id="number.0"]', "14")
    page.wait_for_function("() => !document.querySelector('#alert').innerText")
    page.wait_for_selector("#save")
    page.click("#save")
    page.wait_for_selector("#save", state="detached")
    assert fn.load_spec(studio_folder / "spec.toml").workload["state by status"].target.number == 14

    page.goto(page.address + "prove")
    assert page.evaluate(FILLED) == ["Certify this plan"]
    page.click("#certify")
    page.wait_for_selector("#jobs .seal")
    assert "Certified" in page.inner_text("#state")
    assert page.evaluate(FILLED) == ["Next: Release"]

    page.goto(page.address + "release")
    page.check(f"text={data.CPS}")
    page.click("#ask")
    page.wait_for_selector("#typed")
    page.fill("#typed", "cps")
    page.click("#release-once")
    page.wait_for_selector("#alert .wrong")
    page.told = [x for x in page.told if "422" not in x]
    page.fill("#typed", "cps-filing-units-2014")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/release/[0-9a-f]{32}$"))
    page.reload()
    page.wait_for_selector("#where a")
    assert "Entry 1 of the ledger has the charge." in page.inner_text("#where")
    page.go_back()
    page.go_forward()
    assert "Entry 1 of the ledger has the charge." in page.inner_text("#where")
    with fn.Ledger(studio_folder / "budget.sqlite") as ledger:
        assert [e.kind for e in ledger.entries()] == ["charge", "answers"]
        assert fn.verify(studio_folder / "release", ledger=ledger).ok

    page.wait_for_selector("#where .good")
    page.click("#where .hand a")
    page.wait_for_selector("#measure")
    page.select_option("#measure", "share")
    page.select_option("#that", label="status: joint")
    page.select_option("#by", "state")
    page.click("#ask")
    page.wait_for_selector("#answer table")
    page.click("#write-html")
    page.wait_for_selector("#written code")
    assert (studio_folder / page.inner_text("#written code")).is_file()
    page.goto(page.address + "ledger")
    page.click(".menu summary")
    page.click("#quit")
    page.wait_for_selector("main pre")
    assert page.locator(".bar, .steps, .tools").count() == 0
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_other_margins_of_a_table_that_is_built_are_computed_as_it_is_written(page):
    page.goto(page.address + "tables/0")
    page.fill("#number", "fünf")
    page.focus("#sweep")
    page.keyboard.press("Enter")
    page.wait_for_selector("#number[aria-invalid=true]")
    page.wait_for_function("() => document.activeElement.id === 'alert'")
    page.fill("#number", "12")
    page.click("#sweep")
    page.wait_for_selector("#jobs .share")
    assert page.inner_text("#jobs .sum th").split()[:2] == ["±", "12"]
    assert page.input_value("#number") == "12"
    check(page)
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_a_draft_without_tables_begins_with_a_pattern_by_keyboard(page, studio_folder):
    filled(studio_folder, SPEC[: SPEC.index("[[tables]]")])
    page.goto(page.address + "tables")
    check(page)
    page.focus("#pattern-first")
    page.keyboard.press("Enter")
    page.wait_for_selector("#price .cost")
    assert page.locator("#pattern-first").count() == 0
    assert page.input_value('[id="number.0"]') == "20"
    check(page)
    assert page.told == []


def test_protection_needs_an_answer_to_the_rows_of_a_unit(page, studio_folder):
    """The reason stands under the question, until one of its answers is chosen."""
    filled(studio_folder, SPEC.replace("max_records = 1", "max_records = 0"))
    page.goto(page.address + "protect")
    page.click(".bar button[value=tables]")
    page.wait_for_selector("#rows-once[aria-invalid=true]")
    assert page.locator("#protect small.wrong").count() == 1
    check(page)
    page.check("#rows-many")
    assert page.locator("[aria-invalid=true]").count() == 0
    page.check("#rows-once")
    page.click(".bar button[value=tables]")
    page.wait_for_url("**/tables")
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["en", "de"], indirect=True)
def test_costs_of_several_records_follow_the_draft(page, studio_folder, monkeypatch):
    """They appear without a click, agree with plans of the library, and are grey while they are those of before."""
    language = translator(page.evaluate("document.documentElement.lang"))
    t = language.texts

    def table():
        (columns,) = html_columns(page.inner_html("#bounds"))
        return columns

    def planned():
        publication = replace(fn.load_spec(studio_folder / "spec.toml"), gap=LIVE_PRICE_GAP)
        plans = [fn.plan(what_if.bound_records(publication, n)) for n in (1, 2, 3, 4)]
        guesses = [language.kind(ValueKind.PROBABILITY, x.loss_summary.best_guess) for x in plans]
        return {
            t["studio.bounds.records"]: ["1", "2", "3", "4"],
            t["studio.bounds.cost"].format(measure="ρ"): [
                language.format_digits(f"{x.rho:.{proven(x)}g}") for x in plans
            ],
            t["studio.price.guess_short"]: guesses,
        }

    def is_grey():
        colour = "getComputedStyle(document.querySelector('#bounds td')).color"
        return page.evaluate(f"{colour} === getComputedStyle(document.querySelector('.folder')).color")

    filled(studio_folder, SPEC[: SPEC.index("[[tables]]")])
    page.goto(page.address + "protect")
    assert page.inner_text("#bounds p") == t["studio.bounds.none"]
    check(page)
    filled(studio_folder)
    page.reload()
    page.wait_for_selector("#bounds td")
    assert table() == planned()
    assert page.inner_text("#bounds tr.sum th") == f"1 {t['studio.sweep.now']}"
    assert not is_grey()
    check(page)
    page.check("#rows-many")
    assert is_grey()
    assert page.is_visible("#bounds .stale")
    page.check("#rows-once")
    assert not is_grey()
    assert not page.is_visible("#bounds .stale")

    answer, held = page.studio.planner.ask, threading.Event()

    def hold(**question):
        assert question["what"] != "bounds" or held.wait(60)
        return answer(**question)

    monkeypatch.setattr(page.studio.planner, "ask", hold)
    page.check("#rows-many")
    page.fill('[id="privacy.max_records"]', "3")
    page.click("#apply")
    page.wait_for_selector("#bounds [aria-busy=true]")
    before = table()
    assert is_grey()
    page.emulate_media(color_scheme="dark")
    check(page)
    page.emulate_media(color_scheme="light")
    page.fill("#title", "Typed meanwhile")
    held.set()
    page.wait_for_selector("#bounds [aria-busy=true]", state="detached")
    assert page.inner_text("#bounds tr.sum th") == f"3 {t['studio.sweep.now']}"
    assert table() == before == planned()
    assert is_grey()  # the title is not sent
    page.fill("#title", "People")
    assert not is_grey()

    held.clear()
    other = page.context.new_page()
    other.goto(page.address + "tables")
    other.fill('[id="number.0"]', "5")
    page.wait_for_selector("#bounds [aria-busy=true]")
    assert (table(), is_grey()) == (before, True)
    held.set()
    page.wait_for_selector("#bounds [aria-busy=true]", state="detached")
    assert not is_grey()
    page.click("#save")
    page.wait_for_selector("#save", state="detached")
    assert table() == planned() != before
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_a_rule_is_stated_by_keyboard(page, studio_folder):
    """A button adds the fields of a rule, and its first field has the focus."""
    filled(studio_folder)
    page.goto(page.address + "rules")
    page.focus("#add-rule")
    page.keyboard.press("Enter")
    page.wait_for_selector("#drop-0")
    assert page.evaluate("document.activeElement.id") == "column.0.0"
    check(page)
    for field, value in (("column.0.0", "area"), ("column.0.1", "age"), ("comparison.0.1", "at_most")):
        page.select_option(f'[id="{field}"]', value)
    page.fill('[id="value.0.0"]', "North")
    page.fill('[id="value.0.1"]', "eins")
    page.keyboard.press("Enter")
    page.wait_for_selector('[id="value.0.1"][aria-invalid=true]')
    page.fill('[id="value.0.1"]', "1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#save")
    assert load(studio_folder / ".studio" / "draft.toml")["impossible"] == [{"area": "North", "age": {"at_most": 1}}]
    check(page)
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_the_origin_of_public_totals_is_typed_on_a_page_of_its_own(page, studio_folder):
    filled(studio_folder, public_totals_spec())
    (studio_folder / "register.csv").write_text("area,number\nn,40\ns,20\n", encoding="utf-8")
    page.goto(page.address + "prove")
    page.click("#certify")
    page.wait_for_selector("#jobs .seal")
    page.goto(page.address + "release")
    page.check("text=people.csv")
    page.click("#ask")
    page.wait_for_selector("#totals[aria-invalid=true]")
    page.select_option("#totals", label="register.csv")
    page.click("#ask")
    page.wait_for_selector("#statement")
    check(page)
    page.fill("#statement", "Ja")
    page.keyboard.press("Enter")
    page.wait_for_selector("#statement[aria-invalid=true]")
    page.fill("#statement", page.inner_text("q").strip("„“"))
    page.keyboard.press("Enter")
    page.wait_for_selector("#release-once")
    check(page)
    page.fill("#typed", "people")
    page.keyboard.press("Enter")
    page.wait_for_selector("#where .good")
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["en", "de"], indirect=True)
def test_a_confirmation_with_wrong_values_charges_nothing_and_keeps_them(page, studio_folder):
    """Each wrong value has its error at its field. The right one follows, and one release is charged."""
    filled(studio_folder, public_totals_spec())
    (studio_folder / "register.csv").write_text("area,number\nn,40\ns,20\n", encoding="utf-8")
    book = studio_folder / "budget.sqlite"

    def entries():
        if not book.exists():
            return []
        with fn.Ledger(book) as ledger:
            return [e.kind for e in ledger.entries()]

    def refuse(field, texts, button):
        before = entries()
        for text in texts:
            page.fill(f"#{field}", text)
            page.click(button)
            page.wait_for_selector(f"#{field}[aria-invalid=true]")
            assert in_sight(page, field), text
            assert page.input_value(f"#{field}") == text
            assert entries() == before
            page.fill(f"#{field}", "")

    page.goto(page.address + "prove")
    page.click("#certify")
    page.wait_for_selector("#jobs .seal")
    page.goto(page.address + "ledger")
    page.fill("#typed", "people")
    refuse("cap", ["", "much", "0,05", "-1", "1/0", "1e400", "٠.٥x", "0.05 ρ"], "#set-cap")
    page.fill("#cap", "0.5")
    names = ["", " ", "People", "people ", " people", "peo ple", "„people“", "people\u200b", "peop1e"]
    refuse("typed", names, "#set-cap")
    assert page.input_value("#cap") == "0.5"
    page.fill("#typed", "people")
    page.click("#set-cap")
    page.wait_for_selector(".rest")
    assert entries() == ["cap"]

    page.goto(page.address + "release")
    page.check("text=people.csv")
    page.select_option("#totals", label="register.csv")
    page.click("#ask")
    page.wait_for_selector("#statement")
    sentence = page.inner_text("q").strip('„“”"')
    texts = {x: translator(x).translate("studio.totals.public_before", name="register.csv") for x in ("en", "de")}
    assert sentence == texts.pop(page.studio.language)
    wrong = ["", " ", "Ja", sentence[:-1], sentence.upper(), sentence.replace(" ", "  "), *texts.values()]
    refuse("statement", [*wrong, f"„{sentence}“", sentence.replace(" ", "\u00a0")], "#state-totals")
    page.fill("#statement", sentence)
    page.click("#state-totals")
    page.wait_for_selector("#release-once")
    refuse("typed", names, "#release-once")
    page.fill("#typed", "people")
    page.click("#release-once")
    page.wait_for_selector("#where .good")
    assert entries() == ["cap", "charge", "answers"]
    with fn.Ledger(book) as ledger:
        confirmed = ledger.entries()[1].detail["confirmed"]
    assert confirmed == translator("en").translate("studio.totals.public_before", name="register.csv")
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_a_question_gets_a_condition_by_keyboard_and_keeps_the_others(page, studio_folder):
    filled(studio_folder)
    plan = fn.plan(fn.load_spec(studio_folder / "spec.toml"))
    book = studio_folder / "budget.sqlite"
    fn.release(plan, studio_folder / "people.csv", ledger=book, directory=studio_folder / "release")
    fn.release(plan, studio_folder / "people.csv", ledger=book, directory=studio_folder / "later", again=True)
    page.goto(page.address + f"report/{page.studio.folder.number('later')}")
    page.select_option("#measure", "share")
    page.select_option("#that", "1.3")
    page.select_option("#among", "0.0")
    page.select_option("#since", label="release")
    page.focus("#add-that")
    page.keyboard.press("Enter")
    page.wait_for_selector("#that-2")
    assert page.evaluate("document.activeElement.id") == "that-2"
    page.select_option("#that-2", "1.2")
    check(page)
    page.click("#ask")
    page.wait_for_selector("#answer .interval")
    shares = 'count({"age": {"values": [3, 2]}, "area": "North"}) / count({"area": "North"})'
    assert page.text_content("#answer code") == f"{shares} - {shares.replace('count', 'other.count')}"
    check(page)
    assert page.told == []


@pytest.mark.parametrize("page", ["en", "de"], indirect=True)
def test_two_answers_are_compared_by_keyboard_and_examples_by_a_click(page, studio_folder):
    """Every state is accessible, also printed, narrow, and in forced colours, and menus show the question."""
    filled(studio_folder)
    plan = fn.plan(fn.load_spec(studio_folder / "spec.toml"))
    book = studio_folder / "budget.sqlite"
    fn.release(plan, studio_folder / "people.csv", ledger=book, directory=studio_folder / "release")
    page.goto(page.address + f"report/{page.studio.folder.number('release')}")
    page.focus("#compare")
    page.keyboard.press("Enter")
    page.wait_for_selector("#second_that")
    assert page.evaluate("document.activeElement.id") == "second_that"
    page.focus("#ask")
    page.keyboard.press("Enter")
    page.wait_for_selector("#alert .wrong")
    page.select_option("#that", "0.0")
    page.select_option("#second_that", "0.1")
    page.focus("#ask")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer article")
    cards = page.locator("#answer article").evaluate_all("x => x.map(y => y.getBoundingClientRect().y)")
    assert cards[0] == cards[1]
    assert page.text_content("#answer code") == 'count({"area": "North"}) - count({"area": "South"})'
    assert page.locator("#answer .interval[role=img]").count() == 3
    check(page)
    page.emulate_media(color_scheme="dark", forced_colors="active")
    check(page)
    page.emulate_media(color_scheme="dark", forced_colors="none")
    for i in range(page.locator("[name=example]").count()):
        title = page.inner_text(f"#example-{i}")
        page.select_option("#measure", "number")
        page.click(f"#example-{i}")
        page.wait_for_function("title => document.querySelector('#answer h3')?.innerText === title", arg=title)
        assert page.evaluate("document.activeElement.innerText") == title
        assert page.input_value("#measure") == ["number", "share", "share", "mean.1", "median.1"][i]
        check(page)
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_a_ledger_is_started_with_a_cap_by_keyboard(page, studio_folder):
    filled(studio_folder)
    page.goto(page.address + "ledger")
    assert page.locator("#set-cap").count() == 0
    page.goto(page.address + "prove")
    page.click("#certify")
    page.wait_for_selector("#jobs .seal")
    page.goto(page.address + "ledger")
    check(page)
    page.fill("#cap", "0,05")
    page.keyboard.press("Enter")
    page.wait_for_selector("#cap[aria-invalid=true]")
    assert not (studio_folder / "budget.sqlite").exists()
    page.fill("#cap", "0.05")
    page.fill("#typed", "people")
    page.keyboard.press("Enter")
    page.wait_for_selector(".rest")
    with fn.Ledger(studio_folder / "budget.sqlite") as ledger:
        assert [(e.kind, float(e.rho)) for e in ledger.entries()] == [("cap", pytest.approx(0.05))]
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_margins_that_move_again_and_again_end_with_the_price_of_the_last(page, studio_folder):
    """In German, and how long it takes: benchmarks/studio.py."""
    page.goto(page.address + "tables")
    page.wait_for_selector("#price .cost")
    check(page)
    page.focus('[id="slider.1"]')
    before = page.inner_text("#price .cost")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(60)
    page.wait_for_function(PRICE_CHANGED, arg=before)
    number = page.input_value('[id="number.1"]')
    page.wait_for_selector(f"#details tr:nth-child(2) td:nth-child(3):text-is('{number.replace('.', ',')}')")
    page.wait_for_selector("#save")
    draft = studio_folder / ".studio" / "draft.toml"
    assert float(number) == load(draft)["tables"][1]["margin"]
    assert page.told == []


def load(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


FINISHED = """() => !document.querySelector("[id^=stop-]")
    && (!document.querySelector("#where") || document.querySelector("#where .good, #where .wrong"))"""
"""No job of the page runs, and its release has ended."""


@pytest.mark.slow
def test_the_tutorial_is_done_as_it_is_written(page, tmp_path):
    """And its pictures are of what there is now."""
    for file in (*tmp_path.glob("*.csv*"), tmp_path / "spec.toml"):
        file.unlink()
    text = TUTORIAL.read_text(encoding="utf-8")
    before, after = text.split("## What may be in the data")
    follow(before, tmp_path, run)
    page.goto(page.address)
    old = []

    def compared(name):
        page.wait_for_function(FINISHED, timeout=120_000)
        picture_path = TUTORIAL.parent / name
        if os.environ.get("FITNOISE_PICTURES") == "new":
            page.wait_for_timeout(5_000)  # for the reply to the last button
            page.wait_for_function(FINISHED, timeout=120_000)
            picture_path.write_bytes(picture(page))
            return
        for _ in range(50):  # what the server still sends may come a little later
            if read(picture_path) == readable(page):
                return
            page.wait_for_timeout(200)
        old.append((name, read(picture_path), readable(page)))

    pressed(text, page, compared)
    follow(after, tmp_path, run)
    assert old == [], "FITNOISE_PICTURES=new makes them"
    assert page.told == []


def test_pictures_are_small():
    pictures = list((TUTORIAL.parent / "pictures").iterdir())
    assert 5 < len(pictures) == TUTORIAL.read_text(encoding="utf-8").count("](pictures/")
    assert all(p.stat().st_size < 60_000 for p in pictures)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["en", "de"], indirect=True)
def test_every_page_is_accessible(page, studio_folder):
    """In light and dark, and with all colours from the system; in any state of the page."""
    filled(studio_folder)
    plan = fn.plan(fn.load_spec(studio_folder / "spec.toml"))
    fn.release(
        plan, studio_folder / "people.csv", ledger=studio_folder / "budget.sqlite", directory=studio_folder / "release"
    )
    page.goto(page.address + "prove")
    page.click("#certify")
    page.wait_for_selector("#jobs .seal")
    check(page)
    page.goto(page.address + "price")
    page.select_option("#place", "1")
    page.click("#sweep")
    page.wait_for_selector("#jobs .share")
    check(page)
    report = f"report/{page.studio.folder.number('release')}"
    columns = f"data?file={page.studio.folder.number('people.csv')}"
    schemes = iter(5 * [{"color_scheme": "dark"}, {"forced_colors": "active"}, {"color_scheme": "light"}])
    for path in (
        "protect",
        columns,
        "describe",
        "rules",
        "tables",
        "tables/new",
        "tables/1",
        "file",
        "release",
        "report",
        report,
        "ledger",
        "report/999",
    ):
        page.emulate_media(**next(schemes))
        page.goto(page.address + path)
        if path in ("protect", "tables"):
            page.wait_for_selector("#price .cost")
        if path == report:
            page.click(".asking .more summary")
            page.fill("#question", "count() / 2")
            page.click("#ask")
            page.wait_for_selector("#answer .interval")
            page.click("#write-whole")
            page.wait_for_selector("#jobs dl")
        check(page)
    page.emulate_media(color_scheme="light", forced_colors="none")
    page.goto(page.address + "release")
    page.check("text=people.csv")
    page.click("#ask")
    page.wait_for_selector("#typed")
    check(page)
    page.fill("#typed", "people")
    page.click("#release-once")
    page.wait_for_selector("#where .good")
    check(page)
    shutil.move(studio_folder / "release-2", studio_folder / "elsewhere")
    page.reload()
    page.wait_for_selector("#where .stages .fail")
    check(page)
    page.told = [x for x in page.told if "422" not in x]  # of the page that is not there
    assert page.told == []
    page.context.clear_cookies()
    page.goto(page.address)
    check(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["en", "de"], indirect=True)
def test_empty_and_refused_pages_are_accessible(page, studio_folder):
    """A folder without files, then one with data alone; a form with several refused values; a conflict of two tabs."""
    for file in (*studio_folder.glob("*.csv*"), studio_folder / "spec.toml"):
        file.unlink()
    schemes = itertools.cycle([{"color_scheme": "dark", "reduced_motion": "reduce"}, {"color_scheme": "light"}])
    for path in ("", "data", "describe", "tables", "release", "report", "ledger"):
        page.emulate_media(**next(schemes))
        page.goto(page.address + path)
        check(page)
    filled(studio_folder)
    page.goto(page.address + "data")
    check(page)
    page.emulate_media(color_scheme="dark", forced_colors="active")
    page.goto(page.address + "describe")
    page.evaluate(OPENED)
    page.fill("#low-1", "old")
    page.fill("#label-0-1-en", "")
    page.click("#apply")
    page.wait_for_selector("#alert a")
    check(page)
    page.emulate_media(color_scheme="dark", forced_colors="none")
    page.goto(page.address + "tables")
    other = page.context.new_page()
    other.goto(page.address + "tables")
    other.fill('[id="number.0"]', "5")
    other.wait_for_selector("#save")
    page.fill('[id="number.1"]', "8")
    page.wait_for_selector("#keep-mine")
    check(page)
    page.goto(page.address + "ledger")
    page.click(".menu summary")
    check(page)
    page.click("#quit")
    page.wait_for_selector("main pre")
    check(page)
    page.told = [x for x in page.told if "422" not in x and "409" not in x]
    assert page.told == []


@pytest.mark.slow
@pytest.mark.parametrize("page", ["en spare"], indirect=True)
def test_a_job_is_stopped_and_a_killed_process_replaced(page):
    """The page updates itself; no reload is needed."""
    page.goto(page.address + "prove")
    page.click("#kinds")
    page.wait_for_selector("#stop-1")
    page.click("#certify")
    page.wait_for_selector("#stop-2")
    page.click("#stop-1")
    page.wait_for_selector("#jobs .seal")  # of the plan, whose job waited
    jobs = page.inner_text("#jobs")
    assert "stopped" in jobs.split("Job 1")[1]
    page.goto(page.address + "tables")
    page.wait_for_selector("#price .cost")
    before = page.inner_text("#price .cost")
    killed = page.studio.planner.pid
    os.kill(killed, signal.SIGKILL)
    page.fill('[id="number.0"]', "5")
    page.wait_for_function(PRICE_CHANGED, arg=before)
    assert page.studio.planner.pid != killed
    assert page.told == []


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["killed", "released"])
def test_a_release_is_one_whatever_its_page_does(page, studio_folder, ends):
    """Reloaded, left and opened again, requested again, while its process is held; then it is killed, or goes on."""
    filled(studio_folder)
    page.goto(page.address + "prove")
    page.click("#certify")
    page.wait_for_selector("#jobs .seal")
    page.goto(page.address + "release")
    page.check("text=people.csv")
    page.click("#ask")
    page.fill("#typed", "people")
    page.click("#release-once")
    page.wait_for_url(re.compile(r"/release/[0-9a-f]{32}$"))
    number = page.url.rpartition("/")[2]
    (process,) = page.studio.releases._processes.values()
    os.kill(process.pid, signal.SIGSTOP)
    page.reload()
    assert page.inner_text("#head").startswith("Releasing")
    check(page)
    page.go_back()
    assert "its state" in page.inner_text("#state")
    page.check("text=people.csv")
    page.fill("#out", "again")
    page.click("#ask")
    page.fill("#typed", "people")
    page.click("#release-once")
    page.wait_for_selector("#alert .wrong")
    assert "Another release is running" in page.inner_text("#alert")
    page.goto(f"{page.address}release/{number}")
    os.kill(process.pid, signal.SIGKILL if ends == "killed" else signal.SIGCONT)
    page.wait_for_function("() => !document.querySelector('#head').innerText.startsWith('Releasing')")
    assert page.inner_text("#head").startswith({"killed": "Not released", "released": "Released: release"}[ends])
    check(page)
    charges = 0
    if (studio_folder / "budget.sqlite").exists():
        with fn.Ledger(studio_folder / "budget.sqlite") as ledger:
            charges = sum(e.kind == "charge" for e in ledger.entries())
    assert charges == (ends == "released")
    assert not (studio_folder / "again").exists()
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("choice", ["take-theirs", "keep-mine"])
def test_of_two_tabs_the_later_chooses_what_stays(page, studio_folder, choice):
    """Its input stays in the form, and both values are side by side."""
    filled(studio_folder)
    before = [t["margin"] for t in load(studio_folder / "spec.toml")["tables"]]
    page.goto(page.address + "tables")
    other = page.context.new_page()
    other.goto(page.address + "tables")
    page.fill('[id="number.0"]', "5")
    page.wait_for_selector("#save")
    other.fill('[id="number.1"]', "8")
    other.wait_for_selector("#keep-mine")
    assert other.input_value('[id="number.1"]') == "8"
    draft = studio_folder / ".studio" / "draft.toml"
    assert [t["margin"] for t in load(draft)["tables"]] == [5, 9.5]
    shown_rows = [x.split("\t") for x in other.inner_text("#alert tbody").split("\n")]
    assert [(here, there) for _, here, there in shown_rows] == [
        (f"Margin of error: {before[0]}", "Margin of error: 5"),
        ("Margin of error: 8", "Margin of error: 9.5"),
    ]
    check(other)
    other.click(f"#{choice}")
    if choice == "take-theirs":
        other.wait_for_function("() => document.getElementById('number.0').value === '5'")
        assert other.input_value('[id="number.1"]') == "9.5"
        assert [t["margin"] for t in load(draft)["tables"]] == [5, 9.5]
    else:
        other.wait_for_function("() => !document.getElementById('alert').innerText")
        assert [t["margin"] for t in load(draft)["tables"]] == [before[0], 8]
    page.told = [x for x in page.told if "409" not in x]
    assert page.told == []


@pytest.mark.parametrize("path", ["tables", "tables/1", "remove"])
def test_keep_mine_changes_the_table_that_was_edited_or_none(page, studio_folder, path):
    """Another tab removed the table before the edited one, so that a third has its place; or it removed both."""
    filled(studio_folder, SPEC + "\n[[tables]]\nattributes = ['age']\nmargin = 6\n")
    draft = studio_folder / ".studio" / "draft.toml"
    _, edited, last = load(studio_folder / "spec.toml")["tables"]
    field, button = ("number", "#keep-table") if path == "tables/1" else ("number.1", "#apply")
    for is_gone in (False, True):
        page.goto(page.address + ("tables" if path == "remove" else path))
        other = page.context.new_page()
        other.goto(page.address + "tables")
        for last_index in (2, 1) if is_gone else (2,):
            other.click("#remove-0")
            other.wait_for_selector(f"#remove-{last_index}", state="detached")
        if path == "remove":
            page.click("#remove-1")
        else:
            page.fill(f'[id="{field}"]', "70")
            page.click(button)
        if is_gone:
            page.wait_for_selector("#alert .wrong")
            assert "not in the draft any more" in page.inner_text("#alert")
            assert page.locator("#keep-mine").count() == 0
            assert load(draft)["tables"] == [last]
        else:
            page.click("#keep-mine")
            page.wait_for_function("() => !document.getElementById('alert')?.innerText")
            page.goto(page.address + "tables")
            assert load(draft)["tables"] == ([] if path == "remove" else [{**edited, "margin": 70}]) + [last]
        draft.unlink()
        other.close()
    page.told = [x for x in page.told if "409" not in x and "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_a_removed_table_comes_back_unless_another_tab_changed_the_draft(page, studio_folder):
    filled(studio_folder)
    tables = load(studio_folder / "spec.toml")["tables"]
    draft = studio_folder / ".studio" / "draft.toml"
    page.goto(page.address + "tables")
    page.click("#remove-0")
    page.wait_for_selector("#undo:focus")
    assert load(draft)["tables"] == tables[1:]
    check(page)
    page.click("#undo")
    page.wait_for_selector("#remove-1")
    assert load(draft)["tables"] == tables
    page.click("#remove-0")
    page.wait_for_selector("#undo:focus")
    other = page.context.new_page()
    other.goto(page.address + "tables")
    other.fill('[id="number.0"]', "5")
    other.wait_for_function("() => document.querySelector('#price .cost')")
    other.wait_for_timeout(500)
    page.click("#undo")
    page.wait_for_selector("#alert .wrong")
    assert load(draft)["tables"] == [{**tables[1], "margin": 5}]
    page.told = [x for x in page.told if "409" not in x]
    assert page.told == []


def test_a_page_that_stays_open_keeps_the_sentences_of_its_own_tables(page, studio_folder):
    """Another tab removes the first of them."""
    filled(studio_folder)
    page.goto(page.address + "tables")
    page.wait_for_selector("#price .cost")
    page.wait_for_selector(".cost-share .v")
    cards = page.locator(".tables .card")
    before = cards.nth(0).inner_text()
    other = page.context.new_page()
    other.goto(page.address + "tables")
    other.click("#remove-0")
    other.wait_for_selector("#remove-1", state="detached")
    other.wait_for_selector(".cost-share .v:has-text('100')")
    page.wait_for_selector("#save")
    page.wait_for_selector(".cost-share .v:has-text('100')")
    assert cards.nth(0).inner_text() == before
    assert "100" in cards.nth(1).inner_text()
    assert page.told == []


@contextlib.contextmanager
def another_studio(folder, browser):  # noqa: F811
    """Yield a page of a second studio of the same folder, in a browser of its own."""
    with serve.serving(Folder(folder)) as server:
        context = browser.new_context()
        opened = context.new_page()
        opened.set_default_timeout(SECONDS)
        opened.goto(server.page.as_uri())
        opened.address = server.session.origin + server.session.home
        opened.wait_for_url(opened.address)
        yield opened
        context.close()


@pytest.mark.slow
def test_two_studios_of_one_folder_do_not_undo_each_other(page, studio_folder, browser):  # noqa: F811
    """A change of one is a conflict in the other; a plan that one certifies, both release, once at a time."""
    filled(studio_folder)
    with another_studio(studio_folder, browser) as other:
        page.goto(page.address + "tables")
        other.goto(other.address + "tables")
        page.fill('[id="number.0"]', "5")
        page.wait_for_selector("#save")
        other.fill('[id="number.1"]', "8")
        other.wait_for_selector("#keep-mine")
        other.click("#take-theirs")
        other.wait_for_function("() => document.getElementById('number.0').value === '5'")
        page.goto(page.address + "prove")
        page.click("#certify")
        page.wait_for_selector("#jobs .seal")
        other.wait_for_function("() => document.getElementById('state').innerText.includes('Certified')")
        for tab, out in ((page, "one"), (other, "two")):
            tab.goto(tab.address + "release")
            tab.check("text=people.csv")
            tab.fill("#out", out)
            tab.click("#ask")
            tab.fill("#typed", "people")
        page.click("#release-once")
        page.wait_for_selector("#where .good")
        other.click("#release-once")  # requested before the charge of the first
        other.wait_for_selector("#alert .wrong")
        assert "The ledger changed after this release was requested." in other.inner_text("#alert")
    with fn.Ledger(studio_folder / "budget.sqlite") as ledger:
        assert [e.kind for e in ledger.entries()] == ["charge", "answers"]
    assert not (studio_folder / "two").exists()
    assert page.told == []


@pytest.mark.slow
def test_a_release_goes_on_without_browser_and_studio(studio_folder, browser):  # noqa: F811
    """Both are closed while it is held; a later studio shows it, and the draft is as it was."""
    filled(studio_folder)
    with another_studio(studio_folder, browser) as tab:
        tab.goto(tab.address + "prove")
        tab.click("#certify")
        tab.wait_for_selector("#jobs .seal")
        tab.goto(tab.address + "release")
        tab.check("text=people.csv")
        tab.click("#ask")
        tab.fill("#typed", "people")
        tab.click("#release-once")
        tab.wait_for_url(re.compile(r"/release/[0-9a-f]{32}$"))
        number = tab.url.rpartition("/")[2]
    with another_studio(studio_folder, browser) as later:
        later.goto(f"{later.address}release/{number}")
        later.wait_for_selector("#where .good")
        assert later.inner_text("#head").startswith("Released: release")
        later.goto(later.address + "tables")
        assert later.input_value('[id="number.1"]') == "9.5"


def test_a_page_says_that_its_studio_is_gone(studio_folder, browser):  # noqa: F811
    """Entries stay on the page."""
    with serve.serving(Folder(studio_folder)) as server:
        tab = browser.new_context().new_page()
        tab.goto(server.page.as_uri())
        tab.goto(server.session.origin + server.session.home + "tables")
        tab.wait_for_selector("#price .cost")
    tab.wait_for_selector("#alert .wrong")
    assert "The studio does not answer." in tab.inner_text("#alert")
    assert tab.input_value('[id="number.0"]') == "15"
    tab.context.close()


@pytest.mark.parametrize("choice", ["take", "draft"])
def test_a_specification_that_another_program_changed_is_taken_or_left(page, studio_folder, choice):
    """A file that comes later is listed on the next view of the page."""
    filled(studio_folder)
    page.goto(page.address + "tables")
    page.fill('[id="number.0"]', "5")
    page.wait_for_selector("#save")
    spec = studio_folder / "spec.toml"
    spec.write_text(spec.read_text(encoding="utf-8").replace("margin = 9.5", "margin = 7"), encoding="utf-8")
    page.wait_for_function("() => document.getElementById('state').innerText.includes('Another program changed')")
    assert page.locator("#save").count() == 0
    if choice == "take":
        page.click("#discard")
        page.wait_for_url(page.address + "describe")
        page.goto(page.address + "tables")
        assert page.input_value('[id="number.1"]') == "7"
    else:
        page.click("#state a")
        page.wait_for_selector("#text")
        assert "9.5" in page.input_value("#text")
        assert "margin = 7" in spec.read_text(encoding="utf-8")
    (studio_folder / "later.csv").write_text("area,age\n", encoding="utf-8")
    page.goto(page.address + "data")
    assert page.locator("text=later.csv").count() == 1
    assert page.told == []


@pytest.mark.slow
def test_a_reply_that_an_event_overtook_leaves_no_old_price(page, studio_folder):
    """The reply of a form may hold the earlier price; it arrives after the current one was shown."""
    filled(studio_folder)
    page.goto(page.address + "protect")
    page.wait_for_selector("#price .cost")
    before = page.inner_text("#price .cost")

    held = []

    def hold(route):
        if route.request.method == "POST":
            held.append((route, route.fetch()))
        else:
            route.continue_()

    page.route(page.address + "protect", hold)
    page.check("#rows-many")
    page.fill('[id="privacy.max_records"]', "2")
    page.click("#apply")
    page.wait_for_function(PRICE_CHANGED, arg=before)
    ((route, reply),) = held
    assert before[:8] in reply.text()
    with page.expect_response(lambda response: response.request.method == "POST"):
        route.fulfill(response=reply)
    page.wait_for_function("() => document.getElementById('privacy.max_records').defaultValue === '2'")
    page.wait_for_timeout(600)
    assert page.inner_text("#price .cost") != before


OPENED = "() => document.querySelectorAll('main details').forEach(x => { x.open = true; })"


def test_all_columns_are_described_in_one_form(page, studio_folder):
    """A choice brings its fields, and keeps what was written and what was opened; a refusal keeps all of it."""
    filled(studio_folder, SPEC + "\n[domain.income]\ntype = 'categorical'\n")
    page.goto(page.address + "describe")
    assert page.is_visible("#paste-2")  # a column without a description is open
    assert not page.is_visible("#high-1")
    page.click("#edit-1 > summary")
    page.fill("#high-1", "4")
    page.select_option("#type-2", "binned")
    page.click("#cuts-incomes-2")
    page.wait_for_function("() => document.getElementById('cuts-2')?.value.startsWith('10000, 20000')")
    assert page.input_value("#high-1") == "4"
    page.click("#edit-0 > summary")
    page.click("#row-0")
    page.wait_for_function("() => document.activeElement.id === 'code-0-2'")
    page.keyboard.type("w")
    page.keyboard.press("Tab")
    page.keyboard.type("West")
    page.fill("#high-1", "four")
    page.keyboard.press("Enter")
    page.wait_for_selector("#high-1[aria-invalid=true]")
    assert in_sight(page, "high-1")
    assert page.input_value("#label-0-2-en") == "West"
    states = [x.inner_text() for x in page.locator(".columns > fieldset .chip").all()]
    assert states == ["✓ Ready", "1 to correct", "To describe"]
    step = page.locator(".steps [aria-current]")
    assert step.locator(".n").inner_text() == "!"
    assert step.locator(".hidden").inner_text().endswith(", needs a correction")
    assert not (studio_folder / ".studio" / "draft.toml").exists()
    check(page)
    page.fill("#high-1", "4")
    page.click("#apply")
    page.wait_for_selector("#save")
    described = load(studio_folder / ".studio" / "draft.toml")["domain"]
    assert described["area"] == {"type": "categorical", "codes": ["n", "s", "w"], "labels": ["North", "South", "West"]}
    assert described["age"]["high"] == 4
    assert described["income"]["cuts"][:2] == [10000, 20000]
    assert page.is_visible("#high-1")
    assert step.locator(".n").inner_text() == "2"
    page.click("#remove-0")
    page.wait_for_selector("#cuts-2", state="detached")
    assert [*load(studio_folder / ".studio" / "draft.toml")["domain"]] == ["age", "income"]
    assert page.evaluate("document.activeElement.id") == "undo"
    page.keyboard.press("Enter")
    page.wait_for_selector("#cuts-2", state="attached")
    assert load(studio_folder / ".studio" / "draft.toml")["domain"] == described
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["en", "de"], indirect=True)
def test_sums_up_to_a_ceiling_are_requested_of_customers(page, studio_folder):
    """From a range to a table, over three pages; a mistake is reported, and the text stays."""
    filled(studio_folder, TILL)
    page.goto(page.address + "describe")
    page.evaluate(OPENED)
    page.fill("#ceilings-1", "50, much")
    page.click("#apply")
    page.wait_for_selector("#alert .wrong")
    language = translator(page.studio.language)
    field = f"turnover, {language.translate('studio.describe.ceilings')}: "
    reason = "The value is 'much'." if language.code == "en" else "'much' ist keine Zahl."
    assert page.inner_text("#alert .wrong").startswith(field + reason)
    assert page.input_value("#ceilings-1") == "50, much"
    page.fill("#ceilings-1", "50, 100")
    page.click("#apply")
    page.wait_for_selector("#save")
    assert page.locator("#high-2, #ceilings-2").count() == 1  # a range for each class has no field
    check(page)
    page.goto(page.address + "protect")
    page.check("#sum_within_unit-1")
    page.click("#apply")
    page.wait_for_function("() => document.querySelector('#sum_within_unit-1').defaultChecked")
    check(page)
    page.goto(page.address + "tables/new")
    page.check("#told-sum")
    page.select_option("#amount", "turnover")
    page.fill("#ceiling", "100")
    page.fill("#number", "2000")
    page.wait_for_selector("#preview td:text-matches('±2.?000')")
    check(page)
    page.click("#keep-table")
    page.wait_for_selector("#remove-1")
    check(page)
    page.click("#save")
    page.wait_for_selector("#save", state="detached")
    saved = load(studio_folder / "spec.toml")
    assert saved["domain"]["turnover"]["ceilings"] == [50, 100]
    assert saved["domain"]["tips"] == tomllib.loads(TILL)["domain"]["tips"]
    assert saved["privacy"]["sum_within_unit"] == ["turnover"]
    assert saved["tables"][1] == {"sum": "turnover", "ceiling": 100, "margin": 2000}
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.slow
def test_hostile_labels_run_nothing(page, studio_folder):
    label = json.dumps(HOSTILE)
    (studio_folder / "spec.toml").write_text(
        f"title = {label}\n[domain.{label}]\ntype = 'categorical'\ncodes = [{label}, 'x']\nlabels = [{label}, 'y']\n"
        f"[[tables]]\nattributes = [{label}]\nmargin = 3\nname = {label}\n",
        encoding="utf-8",
    )
    page.on("dialog", lambda dialog: page.told.append(dialog.message))
    for path in ("protect", "describe", "tables", "tables/0", "prove", "file"):
        page.goto(page.address + path)
        if path == "tables":
            page.wait_for_selector("#price .cost, #price .wrong")
        if path == "prove":
            page.click("#certify")
            page.wait_for_selector("#jobs .seal, #jobs .wrong")
        assert page.locator("main img, main script, main [onerror]").count() == 0
    assert page.told == []


def reason_at(page, field):
    """The mark of a field and the texts that are announced with it."""
    return page.evaluate(
        "id => {const x = document.getElementById(id), ids = x.getAttribute('aria-describedby') || '';"
        "const texts = ids.split(' ').map(i => document.getElementById(i)?.innerText || '');"
        "return [x.getAttribute('aria-invalid'), texts.join(' ')]}",
        field,
    )


def in_sight(page, field):
    """Return True if the summary has the focus, and its link leads to a field that is in sight with its reason."""
    link = page.locator(f'#alert a[href="#{field}"]')
    if not page.evaluate("document.activeElement.id === 'alert'") or not page.title().startswith(
        ("Error: ", "Fehler: ")
    ):
        return False
    link.click()
    page.wait_for_timeout(50)
    return page.evaluate(
        "id => {const both = [document.getElementById(id), document.getElementById(id + '-wrong')];"
        "const seen = b => b.bottom > 0 && b.top < innerHeight && b.right > 0 && b.left < innerWidth;"
        "return document.activeElement.id === id && both.every(x => x && seen(x.getBoundingClientRect()))}",
        field,
    )


REFUSED = {
    "protect": (
        {"privacy.max_records": "many", "privacy.delta": "x"},
        "#apply",
        {"privacy.max_records": "whole number", "privacy.delta": "number above 0"},
    ),
    "protect, a cap": ({"cap": "5,5"}, "#apply", {"cap.kind": "Choose the measure"}),
    "describe": (
        {"low-1": "old", "high-1": "1.5"},
        "#apply",
        {"low-1": "must be a whole number", "high-1": "must be a whole number"},
    ),
    "describe, missing": ({"missing-1": "unknown"}, "#apply", {"missing-1": "Write `label = code, code`"}),
    "describe, codes": ({"label-0-1-en": ""}, "#apply", {"label-0-1-en": "and others do"}),
    "describe, a name": ({"name": "area"}, "#add", {"name": "has an attribute"}),
    "tables": (
        {"accuracy.confidence": "0,95", "number.1": "-1"},
        "#apply",
        {"number.1": "The value is", "accuracy.confidence": "decimal point"},
    ),
    "rules": ({"source": ""}, "#apply", {"source": "Name the publication"}),
    "tables/new": ({"number": "few"}, "#keep-table", {"number": "The value is"}),
    "file": ({"text": "margin = 5,5"}, "#apply", {"text": "decimal point"}),
    "ledger": (
        {"cap": "much", "typed": "nobody"},
        "#set-cap",
        {"cap": "a number such as 0.05", "typed": "Type the name of the source"},
    ),
    "release": ({"out": "a/b"}, "#ask", {"data-{first}": "Choose the data", "out": "Choose another name"}),
    "report/{release}": ({"question": "count("}, "#ask", {"question": ""}),
}
"""For each page: the values written, the button, and the refused fields with words of the reason."""


def test_a_refused_value_has_its_reason_at_its_field_in_focus_and_in_sight(page, studio_folder):
    """On a screen and on a phone."""
    filled(studio_folder)
    plan = fn.plan(fn.load_spec(studio_folder / "spec.toml"))
    fn.release(
        plan, studio_folder / "people.csv", ledger=studio_folder / "budget.sqlite", directory=studio_folder / "release"
    )
    folder = page.studio.folder
    page.goto(page.address + "prove")
    page.click("#certify")
    page.wait_for_selector("#jobs .seal")
    numbers = {"first": folder.number("people.csv"), "release": folder.number("release")}

    def numbered(text):
        return re.sub(r"\{(.+?)\}", lambda match: str(numbers[match[1]]), text)

    for width, (name, (values, button, reasons)) in itertools.product((1280, 375), REFUSED.items()):
        page.set_viewport_size({"width": width, "height": 700})
        page.goto(page.address + numbered(name.partition(", ")[0]))
        page.evaluate(OPENED)
        if "privacy.max_records" in values:
            page.check("#rows-many")
        if name == "rules":
            page.check("#public-yes")
        for field, text in values.items():
            page.fill(f'[id="{field}"]', text)
        page.click(button)
        page.wait_for_selector("#alert .wrong")
        expected = {numbered(field): reason_text for field, reason_text in reasons.items()}
        page.wait_for_selector(f'[id="{next(iter(expected))}"][aria-invalid=true]')
        assert page.locator("#alert a").count() == len(expected), name
        for field, reason_text in expected.items():
            wrong, reason = reason_at(page, field)
            assert (wrong, reason_text in reason) == ("true", True), (name, field, reason)
        assert in_sight(page, next(iter(expected))), name
        assert page.locator("[aria-invalid=true]").count() == len(expected)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for field, text in values.items():
            assert page.input_value(f'[id="{field}"]') == text  # nothing that was written is lost
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_a_refused_value_stays_marked_until_it_is_changed(page, studio_folder):
    """The page comes back with other fields. The page stays accessible."""
    filled(studio_folder)
    page.goto(page.address + "describe")
    page.evaluate(OPENED)
    page.fill("#low-1", "old")
    page.click("#apply")
    page.wait_for_selector("#low-1[aria-invalid=true]")
    assert in_sight(page, "low-1")
    check(page)
    page.select_option("#type-0", "ordered")
    page.wait_for_selector("#low-0")
    page.select_option("#type-0", "categorical")
    page.wait_for_selector("#low-0", state="detached")
    assert page.input_value("#low-1") == "old"
    assert reason_at(page, "low-1")[0] == "true"
    page.fill("#low-1", "0")
    assert reason_at(page, "low-1") == [None, ""]
    assert page.locator("#low-1-wrong").count() == 0
    page.fill("#low-1", "older")
    page.click("#apply")
    page.wait_for_selector("#low-1[aria-invalid=true]")
    page.fill("#low-1", "1")
    page.click("#apply")
    page.wait_for_function("() => !document.querySelector('#alert').innerText")
    assert reason_at(page, "low-1") == [None, ""]
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


def test_who_types_on_in_a_live_form_is_not_led_away(page, studio_folder):
    filled(studio_folder)
    page.goto(page.address + "tables")
    page.fill('[id="number.0"]', "none")
    page.focus('[id="number.1"]')
    page.wait_for_selector('[id="number.0"][aria-invalid=true]')
    assert page.evaluate("document.activeElement.id") == "number.1"
    page.click("#apply")
    page.wait_for_function("() => document.activeElement.id === 'alert'")
    assert in_sight(page, "number.0")
    page.told = [x for x in page.told if "422" not in x]
    assert page.told == []


def test_a_refusal_without_a_field_is_in_sight(page, studio_folder):
    """A change of another tab came first; the form is at the end of a long page, on a phone."""
    filled(studio_folder)
    page.goto(page.address + "tables")
    other = page.context.new_page()
    other.goto(page.address + "describe")
    page.fill('[id="number.0"]', "5")
    page.wait_for_selector("#save")
    other.set_viewport_size({"width": 375, "height": 700})
    other.evaluate(OPENED)
    other.fill("#name", "later")
    other.click("#add")
    other.wait_for_selector("#alert .wrong")
    other.wait_for_function("() => document.activeElement.id === 'alert'")
    top = other.evaluate("document.getElementById('alert').getBoundingClientRect().top")
    assert 0 <= top < 700
    page.told = [x for x in page.told if "409" not in x]
    assert page.told == []
