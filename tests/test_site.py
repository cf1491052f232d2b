"""The documentation: tutorials followed as written, and the site that is made from it."""

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

import fitnoise as fn
from browser_actions import REDUCE
from fitnoise import errors
from fitnoise.errors import SpecError
from fitnoise.interfaces.cli import main
from run_pages import as_shown, follow
from test_browser import browser  # noqa: F401 - where there is one
from test_browser import pytestmark as there_is_a_browser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

sys.path.insert(0, str(DOCS))
import generate_reference  # noqa: E402 - a module of the documentation

IN_A_BROWSER = {"in_the_studio"}
"""Done by test_studio_browser.py."""
IN_PROCESSES = {"howto/run_as_a_job"}
"""Done by test_jobs.py."""
TUTORIALS = sorted({path.stem for path in (DOCS / "tutorials").glob("*.md")} - IN_A_BROWSER)
EXPECTED = {
    "howto/hierarchies_of_places": {"same": True, "first": "0101", "last": "3124"},
    "howto/publish_sums_and_means": {"rows": ["sum"] * 4, "within": True, "near": True, "still_growing": True},
    "howto/compute_shares_and_growth": {
        "labels": {"state": ("Iowa", "Ohio", "Utah")},
        "code": "release.attributes-not-crossed",
        "rising": True,
    },
    "howto/make_microdata": {"same": True, "warns": True, "close": True},
    "howto/publish_integer_tables": {
        "nothing_below_0": True,
        "same": True,
        "is_verified": True,
        "is_possible": True,
    },
    "howto/charge_plans_in_opendp": {"covers": True, "left": 0.045, "fits": True},
    "howto/combine_releases": {
        "narrower": True,
        "code": "release.different-records",
        "never": (0.0, 0.0),
        "narrower_with_rule": True,
    },
    "howto/describe_for_a_catalogue": {"is_same_plan": True},
    "howto/publish_in_several_languages": {"same_plan": True, "has_french_texts": True},
    "howto/join_tables": {
        "codes": ["01", "02", "03"],
        "columns": ["county", "county_name"],
        "order": ["North", "South", "Isles"],
    },
    "howto/migrate_from_suppression": {
        "in_a_table": 4,
        "in_detail": 253,
        "is_near": True,
        "rounded_guess": 0.848,
        "noise_guess": 0.553,
        "proof": 0.993,
        "precise_guess": 0.89,
    },
    "howto/keep_missing_values": {
        "kept": True,
        "rows": ["0", "1", "2", "3", "4", "not applicable", "unknown"],
        "drops": [("age",), ("age", "income")],
        "left": [],
    },
    "howto/count_people_with_several_rows": {
        "is_verified": True,
        "counted": 2000.0,
        "ratio": 64,
        "many": 1000,
        "all_of_them": 1000,
        "same_price": True,
        "people": 2000,
        "turnover": 250_000,
        "persons_and_visits": [1000, 2000],
        "free": 0.0,
        "saved": 13.7,
        "less": 2.1,
        "paid": 9.0,
        "bound": 9.0,
    },
    "howto/publish_a_correction": {"code": "ledger.released-before"},
    "howto/use_public_totals": {"exact": [0.0, 0.0, 0.0], "verified": True},
    "howto/noise_and_sampling_error": {
        "columns": [
            *("region", "value", "noise_std_error", "sampling_std_error", "std_error", "moe", "cv", "reliability")
        ],
    },
    "howto/when_the_domain_is_not_known": {
        "quantile_range": "10000 to under 20000",
        "close": True,
        "spent": 0.03,
        "numbers": 100_001,
        "near": True,
    },
    "howto/choose_records": {
        "near": True,
        "leap": [24, 23, None],
        "cells": [1, 0, None],
        "stated": [
            {"id": "report.condition.is_value", "column": "country", "value": "SI"},
            {"id": "report.condition.at_least_below", "column": "year", "at_least": 2020, "below": 2025},
        ],
    },
    "howto/release_a_series": {
        "same_price": True,
        "charged": [1.0, 0.0, 0.0],
        "sound": True,
        "shown": ["2026-02", "2026-02", "2026-03", "2026-03"],
        "status": [("2026-01", True), ("2026-02", True), ("2026-03", True), ("2026-04", False)],
    },
}
"""Names that the Python of a page defines, with their values."""
HOW_TO = [*sorted({f"howto/{x.stem}" for x in (DOCS / "howto").glob("*.md")} - IN_PROCESSES), "mathematics/the_proof"]


# --- tutorials, and pages for one task --------------------------------------------------------------------------------


def run(command, folder):
    """Return the output of a command, then its error, if any; nothing reaches the terminal.

    Commands of fitnoise run within this process, which has already imported their modules.
    """
    name, *arguments = shlex.split(command)
    if name != "fitnoise":
        programs = {"python": [sys.executable], "fitnoise-check": [sys.executable, "-m", "fitnoise_check"]}
        options = {"cwd": folder, "capture_output": True, "encoding": "utf-8"}
        return subprocess.run([*programs.get(name, [name]), *arguments], check=True, **options).stdout
    out, errors, code = io.StringIO(), io.StringIO(), 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
    _, error, message = errors.getvalue().partition("error: ")
    assert (code != 0) == bool(error or re.search("^FAILS ", out.getvalue(), re.MULTILINE)), errors.getvalue()
    return out.getvalue() + error + message


@pytest.mark.slow
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_can_be_followed(name, tmp_path):
    follow((DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8"), tmp_path, run)


@pytest.mark.parametrize("name", HOW_TO)
def test_a_task_is_done_as_its_page_says(name, tmp_path):
    names = follow((DOCS / f"{name}.md").read_text(encoding="utf-8"), tmp_path, run)
    expected = EXPECTED.get(name, {})
    assert {key: names[key] for key in expected} == expected


def test_the_home_page_shows_what_its_lines_print(tmp_path):
    """The noise differs each time, so only the form of the noisy values is compared."""
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    lines = page[page.index("```python") :]
    names = follow(re.sub(r"(?<= )\d+\.\d{6}(?=   7\.653201)", "…", lines), tmp_path, run)
    separate, rho = names["plan"].table_part.separate_rho, names["plan"].rho
    assert f"costs ρ = {separate:.4f}, which is {separate / rho:.1f} times as much" in " ".join(page.split())


def test_the_pictures_of_the_home_page_show_its_numbers():
    lines = list(generate_reference.pictures())
    texts = [re.findall(r"<text[^>]*>([^<]*)</text>", line) for line in lines if line.startswith("<figure>")]
    assert texts[0] == ["single", "±15", "joint", "±15", "separate", "±15", "head", "±15"]
    assert texts[1] == ["ρ 0.0153 at ±15", "no such noise costs less", "margin of error"]
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\d +(\w+) +\d +([\d.]+) ", page, re.MULTILINE)
    assert texts[2] == [text for label, value in rows for text in (label, f"{float(value):,.0f}", "±15")]
    assert "" not in lines


def test_a_notebook_shows_what_its_cells_print(tmp_path):
    """And is of the format that programs for notebooks read."""
    notebook = json.loads((DOCS / "first_steps.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["language"]) == (4, "python")
    namespace, cells = {}, [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 3
    for i, cell in enumerate(cells, start=1):
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec("".join(cell["source"]), namespace)  # noqa: S102 - our own documents
        outputs = ["".join(out["text"]) for out in cell["outputs"]]
        assert (cell["execution_count"], outputs) == (i, [printed.getvalue()])


@pytest.mark.parametrize(
    ("example", "same"),
    [("a\nb\n", True), ("…\n", True), ("a\n…\n", True), ("…b\n", False), ("a\n", False), ("a\nb\n…\n", True)],
)
def test_printed_results_are_those_of_the_page(example, same):
    assert bool(as_shown(example).fullmatch("a\nb\n")) == same


def test_what_the_readme_leads_to_is_there():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).is_file()] == []


# --- the site -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors: pages that no list names and links that lead nowhere are warnings."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-E",
        "-d",
        folder / "trees",
        DOCS,
        folder / "html",
    ]
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


class Page(HTMLParser):
    """The links of a page, the files that it loads, and the places that links can reach."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in ("script", "link", "img", "iframe", "source") and attributes.get("rel") != "canonical":
            self.loaded += [attributes[key] for key in ("src", "href") if attributes.get(key)]


@pytest.mark.slow
def test_the_site_is_consistent_and_loads_nothing_from_elsewhere(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 20
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            if re.match(r"(https?|mailto):", link):
                assert link in page.links, f"{path.name} loads {link}"
                continue
            address, _, anchor = link.partition("#")
            target = (path.parent / address.partition("?")[0]).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.name} leads to {link}"
            if anchor and target in pages:
                assert anchor in pages[target].anchors, f"{path.name} leads to {link}"


FAULTS = {
    "color-contrast": '<p><em style="color: #eee; background: #fff">pale</em></p>',
    "image-alt": '<table><tr><td><img src="a.png" alt="a"></td></tr><tr><td><img src="b.png"></td></tr></table>',
    "link-name": '<ul><li><a href="#a">a</a></li><li><a href="#b"></a></li></ul>',
    "heading-order": "<section><h2>a</h2></section><section><h4>b</h4></section>",
}


@there_is_a_browser
@pytest.mark.slow
def test_every_page_of_the_site_is_accessible(browser, site):  # noqa: F811
    """In light and dark, each on every other page: nothing but colours differs."""
    pages = sorted(site.rglob("*.html"))
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened, violations, seen_before = context.new_page(), {}, {}
    for i, page_path in enumerate(pages):
        scheme = "dark" if i % 2 else "light"
        opened.emulate_media(color_scheme=scheme)
        opened.goto(page_path.as_uri())
        seen_before[scheme] = opened.evaluate(REDUCE, seen_before.get(scheme, []))
        seen = Axe().run(opened, options={"resultTypes": ["violations"]}).response
        violations |= {(page_path.name, v["id"]): v["nodes"][0]["html"] for v in seen["violations"]}
    context.close()
    assert len(pages) > 40
    assert violations == {}


@there_is_a_browser
@pytest.mark.parametrize("rule", FAULTS)
def test_a_reduced_page_keeps_its_only_violation(rule, browser):  # noqa: F811
    """The fault follows forty sound parts of its kind, and the same page without it was seen before."""
    sound = "".join(f"<ul><li><a href='#{i}'>text {i}</a></li></ul><p><em>word</em></p>" for i in range(40))
    page = "<html lang='en'><title>a</title><body><main><article><h1>a</h1>{}</article></main></body></html>"
    opened = browser.new_page()
    opened.set_content(page.format(sound))
    seen_before = opened.evaluate(REDUCE, [])
    assert opened.evaluate("document.querySelectorAll('li, em').length") < 5
    opened.set_content(page.format(sound + FAULTS[rule]))
    opened.evaluate(REDUCE, seen_before)
    assert rule in {v["id"] for v in Axe().run(opened).response["violations"]}
    opened.close()


def test_every_menu_has_at_most_ten_pages():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    menus = re.findall(r"```{toctree}\n(?::[^\n]*\n)+\n(.*?)```", index, re.DOTALL)
    assert len(menus) == 8
    assert [menu for menu in menus if not 0 < len(menu.split()) <= 10] == []


def test_every_guarantee_is_gathered():
    text = "\n".join(generate_reference.guarantees())
    names = [name for name in fn.__all__ if "**Guarantees**" in (getattr(fn, name).__doc__ or "")]
    assert len(names) > 10
    assert [name for name in names if f"## `{name}`" not in text] == []
    assert "* the relaxation, the largest ratio of a variance to its target, is within the certified gap" in text
    assert not re.search(r"^(Args|Source|Example)", text, re.MULTILINE)
    assert not re.search(r"^## .*\n\n\n", text, re.MULTILINE)


def test_every_key_of_a_specification_has_a_meaning_and_a_default():
    """A key that is not required has a default, or a sentence on a specification without it."""
    rows = [line.strip("| ").split(" | ") for line in generate_reference.specification() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if len(row) != 5 or not row[1].endswith(".")] == []
    assert [row for row in rows if (row[3] == "none") == (row[4] == "the default applies")] == []


def test_types_of_keys_are_in_words():
    rows = "\n".join(generate_reference.specification())
    for types in (
        "a list of numbers",
        "a table of tables of selections by name",
        "a text or a list of texts",
        "a list of [tables](#spec-tablespec)",
        '`"records"` or `"shares"`',
    ):
        assert f" | {types} | " in rows, types


def test_every_error_has_a_documented_exit_code():
    text = "\n".join(generate_reference.exit_codes())
    assert f"| {SpecError.exit_code} | " in text
    classes = [x for x in vars(errors).values() if isinstance(x, type) and issubclass(x, errors.FitnoiseError)]
    assert SpecError in classes
    assert all(f"`{x.__name__}`: " in text for x in classes if x is not errors.FitnoiseError)


def test_the_gallery_has_thirty_workloads_and_draws_them_as_they_are():
    matrices = generate_reference.workloads()
    assert len(matrices) == 30
    assert len({(w.shape, w.astype(float).tobytes()) for w in matrices.values()}) == 30
    drawing = generate_reference._picture(np.array([[1, 1, 0, -1], [0, 0, 1, 1]]))
    assert "M0 0h2v1h-2zM2 1h2v1h-2z" in drawing
    assert 'd="M3 0h1v1h-1z" fill="currentColor" fill-opacity="0.3"' in drawing


@pytest.mark.slow
def test_the_gallery_says_what_the_paper_says(site):
    """Optima for unit targets, of prefixes of 4 and 8 values, of margins of 2³ and 4³."""
    page = (site / "mathematics" / "gallery.html").read_text(encoding="utf-8")
    assert page.count('<svg role="img"') == 30
    for optimum in ("1.7586", "2.2816", "2.1825", "3.4719"):
        assert re.search(rf"<td><p>{optimum}</p></td>", page), optimum


@pytest.mark.slow
def test_every_public_name_is_explained(site):
    pages = (Page(path.read_text(encoding="utf-8")) for path in (site / "reference").glob("*.html"))
    anchors = {anchor for page in pages for anchor in page.anchors}
    assert {f"fitnoise.{name}" for name in fn.__all__} <= anchors


def test_every_error_code_is_on_the_page_of_codes():
    rows = "\n".join(generate_reference.error_codes())
    assert [site.code for site in generate_reference.error_sites() if f"| `{site.code}` | " not in rows] == []
