"""Pages in a real browser of this system: complete, accessible, narrow, on paper; without any request elsewhere.

FITNOISE_BROWSER names the browser, a Chromium; "required" says that without one the tests fail.
"""

import os
import shutil
import sys

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

import fitnoise as fn
from browser_actions import REDUCE
from fitnoise.interfaces.pages.charts import Strips, chart
from fitnoise.reading.layouts import layout
from test_pages import both, integer_tables, small, summed

BROWSER_MODE = os.environ.get("FITNOISE_BROWSER", "")
BROWSER = next(
    filter(None, map(shutil.which, filter(None, [BROWSER_MODE, "chromium", "chromium-browser", "google-chrome"]))), None
)

pytestmark = pytest.mark.skipif(
    BROWSER is None and BROWSER_MODE != "required", reason="there is no Chromium on the path, to look at pages in"
)


@pytest.fixture(scope="module")
def browser():
    assert BROWSER, "FITNOISE_BROWSER=required, and there is no Chromium on the path"
    with sync_playwright() as tool:
        chromium = tool.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"] * (sys.platform == "linux"))
        yield chromium
        chromium.close()


REPORTS = {"en": small, "de": small, "de integers": integer_tables, "en combination": both, "de sums": summed}


@pytest.fixture(scope="module", params=REPORTS)
def page(request, browser, tmp_path_factory):
    """Yield a report as a file, and all requests and complaints of its page."""
    language, reported = request.param[:2], REPORTS[request.param]()
    path = tmp_path_factory.mktemp("page") / f"report-{language}.html"
    fn.report(reported, path, language=language, totals=True, bands=fn.Bands(0.05, 0.3))
    messages = []
    context = browser.new_context()
    opened = context.new_page()
    opened.on("request", lambda message: messages.append(message.url))
    opened.on("console", lambda entry: messages.append(entry.text))
    opened.goto(path.as_uri())
    opened.messages, opened.reported = [x for x in messages if x != path.as_uri()], reported
    yield opened
    context.close()


def test_a_page_is_accessible(page):
    page.set_viewport_size({"width": 1200, "height": 900})
    page.emulate_media(color_scheme="light" if "report-en" in page.url else "dark", media="screen")
    page.evaluate(REDUCE, [])
    results = Axe().run(page)
    page.reload()
    assert [(v["id"], v["nodes"][0]["html"]) for v in results.response["violations"]] == []
    assert len(results.response["passes"]) > 20
    assert page.messages == []


@pytest.mark.parametrize("width", [320, 390, 1600])
def test_no_part_of_a_page_exceeds_the_screen(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(media="screen")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, svg, .hidden') && "
    assert page.evaluate(wide + "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML)") == []


def test_a_page_is_complete_on_paper(page):
    """Also the part for auditors, which the screen folds."""
    seen = "document.querySelector('#proof').checkVisibility()"
    page.emulate_media(media="screen")
    assert not page.evaluate(seen)
    page.emulate_media(media="print")
    assert page.evaluate(seen)
    page.set_viewport_size({"width": 700, "height": 990})  # A4 less its margins
    cut = (
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 1"
        " || getComputedStyle(e).overflowY != 'visible' || e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert page.evaluate(cut) == 0
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_marks_are_drawn_where_the_numbers_are(page):
    """Detects charts of no size, and marks whose places a browser reads otherwise."""
    page.set_viewport_size({"width": 1200, "height": 900})
    page.emulate_media(media="screen")
    boxes = page.evaluate(
        "[...document.querySelectorAll('.strips > svg:not(.axis)')]"
        ".map(s => [s, ...s.querySelectorAll('circle, rect:first-child')]"
        ".map(e => {const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.width, b.left]}))"
    )
    charts = [chart(layout(page.reported, name)) for name in page.reported]
    marks = [m for c in charts if isinstance(c, Strips) for _, row in c.rows for m in row]
    assert len(boxes) == len(marks) > 6
    for ((_, width, edge), (zero, *_), (dot, *_)), mark in zip(boxes, marks, strict=True):
        assert width > 40
        percents = (dot - edge) / width * 100, (zero - edge) / width * 100
        assert percents == pytest.approx((mark.position, mark.zero), abs=1)
