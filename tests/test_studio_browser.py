"""The studio in a browser of this system: the demo's whole path, by keyboard too; accessible; asking nobody else."""

import re
import shutil
import tomllib

import pytest
from axe_playwright_python.sync_playwright import Axe

import fitnoise as fn
from fitnoise import data
from fitnoise.interfaces.studio import serve
from fitnoise.interfaces.studio.folder import Folder
from test_browser import browser, pytestmark  # noqa: F401 - where there is one

SECONDS = 60_000

MOVED = "old => ![undefined, old].includes(document.querySelector('#price .cost')?.innerText)"


@pytest.fixture
def place(tmp_path):
    for name, own in ((data.DEMO, "spec.toml"), (data.STATES, data.STATES), (data.CPS, data.CPS)):
        shutil.copy(data.path(name), tmp_path / own)
    return tmp_path


@pytest.fixture(params=["en"])
def page(request, browser, place):  # noqa: F811
    """A page at the studio, opened by the file; and all that it asked for elsewhere or complained about."""
    with serve.serving(Folder(place), request.param) as server:
        context = browser.new_context()
        opened = context.new_page()
        opened.set_default_timeout(SECONDS)
        opened.told = []
        home = server.session.origin + server.session.home
        own = (home, f"{server.address}open", server.page.as_uri(), "data:,")
        context.on("request", lambda asked: asked.url.startswith(own) or opened.told.append(asked.url))
        context.on("console", lambda said: opened.told.append(said.text))
        opened.goto(server.page.as_uri())
        opened.wait_for_url(home)
        opened.address = home
        yield opened
        context.close()


def check(page):
    """Accessible, and nothing beside the screen."""
    found = Axe().run(page)
    assert [(v["id"], v["nodes"][0]["html"]) for v in found.response["violations"]] == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.slow
def test_the_demo_from_a_margin_to_a_question(page, place):
    """Tables, proof, release, report, question: with the keyboard where a mouse would do."""
    assert place.joinpath(".studio").stat().st_mode & 0o777 == 0o700
    for name in ("protect", "describe", "file"):
        page.goto(f"{page.address}{name}")
        page.wait_for_selector("#price .cost")
        check(page)
    page.goto(page.address + "tables")
    before = page.inner_text("#price .cost")
    page.focus('[id="slider.0"]')
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(MOVED, arg=before)
    assert page.evaluate("document.activeElement.id") == "slider.0"
    assert float(page.input_value('[id="number.0"]')) < 15
    page.fill('[id="number.0"]', "none")
    page.wait_for_selector("#alert .wrong")
    assert page.inner_text("#alert").startswith("the margin of table 1 is a number above 0")
    page.told = [x for x in page.told if "422" not in x]  # the browser says that a form was refused
    page.fill('[id="number.0"]', "14")
    page.wait_for_function("() => !document.querySelector('#alert').innerText")
    page.wait_for_selector("#save")
    check(page)
    page.click("#save")
    page.wait_for_selector("#save", state="detached")
    assert fn.load_spec(place / "spec.toml").workload["state by status"].target.number == 14

    page.goto(page.address + "prove")
    page.click("#certify")
    page.wait_for_selector("#jobs code")
    assert "Certified" in page.inner_text("#state")
    check(page)

    page.goto(page.address + "release")
    check(page)
    page.check(f"text={data.CPS}")
    page.click("#ask")
    page.wait_for_selector("#typed")
    check(page)
    page.fill("#typed", "cps")
    page.click("#release-once")
    page.wait_for_selector("#alert .wrong")
    page.told = [x for x in page.told if "422" not in x]
    page.fill("#typed", "cps-filing-units-2014")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/release/[0-9a-f]{32}$"))
    assert "Releasing" in page.inner_text("#where")
    check(page)
    page.reload()
    page.wait_for_selector("#where a")
    assert "charged by entry 1" in page.inner_text("#where")
    page.go_back()
    page.go_forward()
    assert "charged by entry 1" in page.inner_text("#where")
    with fn.Ledger(place / "budget.sqlite") as ledger:
        assert len(ledger.entries()) == 1
        assert fn.verify(place / "release", ledger=ledger).ok

    page.click("#where a")
    page.wait_for_selector("#question")
    check(page)
    page.fill("#question", 'count(status="joint") / count()')
    page.check("#by-1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer table")
    page.select_option("#kind", "html")
    page.click("#write")
    page.wait_for_selector("#written code")
    assert (place / page.inner_text("#written code")).is_file()
    page.goto(page.address + "ledger")
    check(page)
    page.click("#quit")
    page.wait_for_selector("#alert p")
    assert page.told == []


@pytest.mark.parametrize("page", ["de"], indirect=True)
def test_margins_that_move_again_and_again_end_with_the_price_of_the_last(page, place):
    """In German, and how long it takes: benchmarks/studio.py."""
    page.goto(page.address + "tables")
    page.wait_for_selector("#price .cost")
    check(page)
    page.focus('[id="slider.1"]')
    before = page.inner_text("#price .cost")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(60)
    page.wait_for_function(MOVED, arg=before)
    asked = page.input_value('[id="number.1"]')
    page.wait_for_selector(f"#price tr:nth-child(2) td:nth-child(3):text-is('{asked.replace('.', ',')}')")
    page.wait_for_selector("#save")
    draft = place / ".studio" / "draft.toml"
    assert float(asked) == load(draft)["tables"][1]["margin"]
    assert page.told == []


def load(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))
