"""Pages: complete, without scripts, escaped, in every language; with the numbers of the release and no others."""

import base64
import hashlib
import itertools
import json
import math
import re
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from fitnoise import data
from fitnoise.interfaces.pages import fragments, notebook, report
from fitnoise.interfaces.pages.charts import MAX_STRIP_ROWS, Lines, Scale, Strips, chart, curve
from fitnoise.interfaces.wording import wording
from fitnoise.kernel.conditions import conditions
from fitnoise.messages import LANGUAGES, Message, Value, ValueKind, english, rule_messages, translator
from fitnoise.reading.bands import Band
from fitnoise.reading.description import condition_message
from fitnoise.reading.layouts import layout
from fitnoise.reporting import Report, Section
from fitnoise.request.views import EACH
from laws.releases import answered, by_command, released
from laws.reports import texts_in_reports
from refused import refused

pytestmark = pytest.mark.usefixtures("one_duckdb")

VOID = {"meta", "rect", "line", "circle", "polygon", "polyline", "br", "input", "link"}
HOSTILE = "</style><script>alert(1)</script>\"'&{{7*7}}\u202e\x07"
RULE = fn.Bands(0.1, 0.3)


class Page(HTMLParser):
    """The contents of a page. It checks that every element is closed in its place."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts, self.style = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            self.style += data
        elif data.strip():
            self.texts.append(data.strip())


def check_page(text):
    """The page is complete, and can only be read."""
    page = Page(text)
    found_attributes = {}
    for name, value in page.attributes:
        found_attributes.setdefault(name, []).append(value)
    # The description for search engines is a block of data, which no browser runs.
    assert page.tags.count("script") == found_attributes.get("type", []).count("application/ld+json") <= 1
    assert not {"iframe", "object", "embed", "link", "base", "img", "form"} & {*page.tags}
    assert not [name for name in found_attributes if name.startswith("on")]
    assert not {"style", "src", "action"} & found_attributes.keys()
    assert len({*found_attributes["id"]}) == len(found_attributes["id"])
    assert {href.removeprefix("#") for href in found_attributes.get("href", ())} <= {*found_attributes["id"]}
    (policy,) = (x for x in found_attributes["content"] if "default-src" in x)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in policy
    assert not re.search(r"url\(|@import", page.style)
    return page


@cache
def demo():
    return answered(fn.plan(fn.load_spec(data.path(data.DEMO))), 500)


DOMAIN = fn.Domain(
    area=fn.Categorical({"DE1": "north", "DE2": "south", "DE3": "west"}),
    age=fn.Ordered(0, 19),
    job=fn.Categorical(["yes", "no"], missing={"unknown": [""]}, if_missing="unknown"),
)


@cache
def small():
    """Return a release of a few tables: by value, cumulative, in groups, with margins by value, the total."""
    tables = [
        fn.table("area", "job", margin=4),
        fn.table("area", cumulative="age", margin=9),
        fn.table("age", margin=9),
        fn.table("area", groups={"job": {"answered": ["yes", "no"]}}, margin=3),
        fn.table("area", margin=fn.ByAttribute("area", [2, 5, 5]), confidence=0.99, name="area alone"),
        fn.table(margin=0.5, name="all"),
    ]
    plan = fn.plan(fn.Workload(DOMAIN, tables), title="People", gap=1e-3)
    rng = np.random.default_rng(1)  # test data without records
    return fn.Release(plan, [rng.integers(-(10**6), 10**7, n) for n in plan.groups[0].strategy.lengths])


# --- the law ---------------------------------------------------------------------------------------------------------


def test_plans_of_the_zoo_have_pages(any_plan):
    release = answered(any_plan, 3)
    with texts_in_reports() as used:
        page = check_page(report.page(release, totals=True, bands=RULE, language="de"))
    assert len(used) > 50
    assert page.tags.count("h3") >= min(len(release), report.MAX_TABLES)
    assert any(any_plan.hash[:12] in text for text in page.texts)
    assert ("lang", "en") not in page.attributes  # all that the plan says of itself
    check_page(report.page(any_plan))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_of_release_has_a_page(language):
    unit = fn.PrivacyUnit("person", 3, fn.Neighbours.REPLACE_ONE, id="who")
    question = fn.FiniteQuery.quantile("old", "age", quantile=0.9, people=5, epsilon=1)
    workload = fn.Workload(DOMAIN, [fn.table("area", margin=4)])
    budget = fn.Budget(epsilon=1, delta=1e-6)
    plans = [
        fn.plan(workload, unit=unit, other_units=[fn.PrivacyUnit("household", 6)], gap=1e-3),
        fn.plan(workload, questions=[question], privacy="pure", epsilon=1),
        fn.plan(workload, small_database=fn.SmallDatabase(40, index=2, temperature=0.03), budget=budget),
    ]
    pages = [check_page(report.page(answered(plan), language=language)) for plan in plans]
    assert "old" in pages[1].texts
    assert any("who" in x for x in pages[0].texts)
    assert "±" in " ".join(pages[2].texts)
    assert "rect rect rect" not in " ".join(pages[2].tags)  # the third is a margin


def test_what_auditors_need_is_in_one_part_at_the_foot():
    """Hashes, cost and proof are there alone; of a plan, the targets are what a reader comes for."""
    release, opening = small(), '<details class="auditors">'
    for text in (report.page(release), report.page(integer_tables())):
        before, after = text.split(opening)
        after, end = after.split("</details>")
        assert release.plan.hash not in before + end
        assert 'id="proof"' in after
        assert "ρ = " not in before
        assert not re.search("<h[1-6]", end)
    assert 'id="asked"' in report.page(release).split(opening)[1]
    assert 'id="asked"' in report.page(release.plan).split(opening)[0]


def test_titles_of_tables_are_in_words_and_count_people_of_persons():
    workload = fn.Workload(
        DOMAIN, [fn.table("area", cumulative="age", margin=4), fn.table("area", margin=9, name="own")]
    )
    for unit, title, counted in (
        (fn.PrivacyUnit("person"), "People by area and age (cumulative)", "people"),
        (fn.PrivacyUnit("person", 2), "Records by area and age (cumulative)", "records"),
    ):
        page = check_page(report.page(answered(fn.plan(workload, unit=unit, gap=1e-3))))
        assert {title, "own"} <= {*page.texts}
        assert any(re.fullmatch(f"± [0-9.]+ to [0-9.]+ {counted}", x) for x in page.texts)
        assert "area by age cumulative" not in page.texts


@pytest.mark.parametrize("of_plan", [True, False])
def test_a_page_of_biased_tables_promises_no_margin_and_no_sign(of_plan):
    """Detects a legend of signs where no number has one: all numbers would be taken for reliable."""
    workload, budget = fn.Workload(DOMAIN, [fn.table("area", margin=4)]), fn.Budget(epsilon=1, delta=1e-6)
    plan = fn.plan(workload, small_database=fn.SmallDatabase(40, index=2, temperature=0.03), budget=budget)
    text = " ".join(check_page(report.page(plan if of_plan else answered(plan), bands=RULE)).texts)
    language, unbiased = translator("en"), " ".join(check_page(report.page(small(), bands=RULE)).texts)
    for name, of_biased in (("estimate", False), ("unbiased", False), ("biased", True)):
        sentence = language.translate(f"page.reading.{name}")
        assert (sentence in text, sentence in unbiased) == (of_biased, not of_biased)
    assert "†" in unbiased
    assert "†" not in text


def test_a_page_says_the_numbers_of_the_release():
    release = small()
    page = check_page(report.page(release))
    numbers = {x.replace("−", "-").replace(",", "") for x in page.texts}
    for name in release:
        digits = layout(release, name).decimals
        for value in release[name]["value"]:
            text = f"{value:.{digits}f}"
            assert (text.lstrip("-") if float(text) == 0 else text) in numbers
    assert "north" in page.texts
    assert "DE1" in page.texts
    assert page.texts.index("DE1") == page.texts.index("north", page.texts.index("DE1") - 1) + 1


def test_a_page_is_the_same_whenever_it_is_written(tmp_path):
    release = small()
    release_read = fn.Release.read(release.write(tmp_path / "r"))
    assert report.page(release_read, bands=RULE) == report.page(release, bands=RULE) == report.page(release, bands=RULE)


def test_what_a_specification_says_cannot_leave_its_place():
    short = HOSTILE[:-2]
    domain = fn.Domain({"<h2>&": fn.Categorical({"<b>": HOSTILE, "x": "<i>"})})
    table = fn.table("<h2>&", margin=4, name="<h1>" + HOSTILE)
    source = fn.DataSource("<u>" + short)
    plan = fn.plan(fn.Workload(domain, [table]), title=HOSTILE, source=source, unit=fn.PrivacyUnit("<s>", 2))
    for language in LANGUAGES:
        page = check_page(report.page(answered(plan), language=language))
        assert page.tags.count("h1") == 1
        assert not {"b", "i", "u", "s"} & {*page.tags}
        assert "".join(page.texts).count(short) >= 4
        assert not [c for x in page.texts for c in x if c in "\u202e\x07"]


@cache
def counted():
    """The tables of the small release, of counts."""
    return released(small().plan, np.arange(math.prod(DOMAIN.shape)).reshape(DOMAIN.shape) % 7)


@cache
def both():
    """It, combined with a release of other tables of the same records."""
    other = fn.Workload(DOMAIN, [fn.table("area", "job", margin=5), fn.table("job", margin=2)])
    return fn.combine(counted(), answered(fn.plan(other, title="Others"), 2), same_records=True)


@cache
def integer_tables():
    return fn.make_integer_tables(counted(), simulations=2)


@cache
def summed():
    """Sums and means of amounts of large and of negative numbers, together and alone."""
    amounts = {"turnover of the firm": fn.Amount(0, 10**9, step=1000), "gain": fn.Amount(-500, 500, step=0.5)}
    turnover, gain = amounts
    tables = [
        fn.table("area", "job", sum=turnover, margin=10**10),
        fn.table("area", "job", mean=gain, margin=5, reference=900),
        fn.table(mean=turnover, margin=10**7, reference=5000),
        fn.table("area", sum=[turnover, gain], margin=10**13),
    ]
    workload = fn.Workload(fn.Domain({**DOMAIN, **amounts}), tables)
    people = {"area": ["DE1", "DE2", "DE3"] * 300, "job": ["yes", "no", ""] * 300}
    people |= {turnover: np.arange(900.0) * 10**6, "gain": np.linspace(-500, 300, 900)}
    people |= {"age": np.zeros(900, dtype=int)}
    return released(fn.plan(workload, title="Firms", gap=1e-3), pd.DataFrame(people))


DERIVED = {"combination": both, "whole": integer_tables}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", DERIVED)
def test_what_is_made_of_releases_has_a_page(kind, language, tmp_path):
    derived = DERIVED[kind]()
    page = check_page(text := report.page(derived, language=language, bands=RULE, totals=True))
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    assert report.same([derived], tmp_path / "page.html").holds
    for r in derived.releases:
        assert r.plan.hash in page.texts
    for name in derived:
        assert wording(language, [r.plan.publication for r in derived.releases]).table(name) in page.texts
        table = layout(derived, name, totals=True)
        low, high = table.intervals
        assert ((low <= table.values) & (table.values <= high)).all()


def test_totals_of_integer_tables_are_integers_and_have_intervals_of_their_own():
    """Detects intervals that are sums of intervals, and totals that are not those of the rows."""
    derived = integer_tables()
    table, unbiased = layout(derived, "area by job", totals=True), layout(counted(), "area by job", totals=True)
    assert (table.values[:-1].sum(axis=0) == table.values[-1]).all()
    assert (table.values[:, :-1].sum(axis=1) == table.values[:, -1]).all()
    low, high = table.ends
    inside = (table.values >= unbiased.values - unbiased.margins) & (table.values <= unbiased.values + unbiased.margins)
    assert inside.any()
    assert (high - low)[inside].max() <= 2 * unbiased.margins.max()
    assert (low[inside] >= (unbiased.values - unbiased.margins)[inside]).all()
    cells = [
        c for g in fragments.render_table(table, translator("en"), derived).groups for _, row in g.rows for c in row
    ]
    assert cells[0].margin == f"{low[0, 0]:.0f}–{high[0, 0]:.0f}"


def test_a_report_says_how_to_cite_and_to_verify(tmp_path):
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]))
    workload = fn.Workload(domain, [fn.table("sex", margin=9)])
    plan = fn.plan(workload, title="A <title>", source=fn.DataSource("people & homes"))
    published = fn.release(plan, np.array([3, 4]), ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "r")
    noise = "Data: people &amp; homes. Noise by fitnoise"
    for release in (published, fn.Release.read(tmp_path / "r")):  # a folder has the same statements
        text = report.page(release)
        cited = f"{noise} {fn.__version__}. Ledger entry 1. Plan, SHA-256: <code>{plan.hash}</code>"
        assert f"<dd>A &lt;title&gt;. {cited} <span" in text
        assert ">DIR is the folder of the release.<" in text
    german = report.page(published, language="de")
    noise = f"Daten: people &amp; homes. Rauschen von fitnoise {fn.__version__}. Eintrag 1 im Kontobuch. Plan, SHA-256"
    assert noise in german
    unnamed = report.page(small())
    assert "Data: " not in unnamed
    assert "Ledger entry" not in unnamed
    assert "fitnoise verify DIR" not in report.page(plan)


# --- languages -------------------------------------------------------------------------------------------------------


def test_a_report_is_a_page_in_every_language():
    values = (Value("count", 1, ValueKind.COUNT), Value("size", 1234, ValueKind.COUNT), Value("attribute", "<b>"))
    message = Message("report.unused.value", values)
    report = Report("", (Section(Message("report.section.values"), (message,)),))
    assert "<dt>values</dt><dd><p>1 of 1,234 values of &lt;b&gt; has charged but unused" in fragments.report(report)
    assert "<dt>Werte</dt><dd><p>für 1 von 1\u202f234 Werten von &lt;b&gt; ist" in fragments.report(report, "de")
    assert "<p>1 valeur de &lt;b&gt; sur 1\u202f234 a de la confidentialité" in fragments.report(report, "fr")
    assert "<p>1 de 1\u202f234 valores de &lt;b&gt; tiene privacidad" in fragments.report(report, "es")
    assert "<p>1 valore di &lt;b&gt; su 1\u202f234 ha privacy" in fragments.report(report, "it")


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_say_once_that_nobody_reviewed_their_texts(language):
    sentence = translator(language).unreviewed
    for what in (small(), small().plan, integer_tables()):
        texts = check_page(report.page(what, language=language)).texts
        assert texts.count(sentence) == (sentence is not None)


MISSING_CODES = "Schlüssel für fehlende Werte werden als solche gelesen"


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (fn.Ordered(-1, 9, clip=True), "unter −1 als −1, über 9 als 9"),
        (
            fn.Ordered(0, 9, clip=True, missing={"unknown": [99]}),
            f"unter 0 als 0, über 9 als 9; {MISSING_CODES}",
        ),
        (fn.Amount(0, 1000, step=100), "unter 0 als 0, über 1000 als 1000; in Schritten von 100"),
        (
            fn.Amount(0, 1000, step=100, missing={"unknown": [9999]}),
            f"unter 0 als 0, über 1000 als 1000; in Schritten von 100; {MISSING_CODES}",
        ),
        (fn.Categorical(["x"], lookup={"a": "x", "b": "x"}), "zugeordnet aus 2 Werten der Daten"),
    ],
)
def test_the_coding_of_values_is_translated_into_german(attribute, expected):
    assert "; ".join(map(translator("de").write, rule_messages(attribute.coding_rules))) == expected


@pytest.mark.parametrize(
    ("condition_value", "expected"),
    [
        ({"at_least": 2020, "below": 2025}, "'it' ist mindestens 2020 und unter 2025"),
        ({"above": -1.5, "at_most": 2}, "'it' ist über -1.5 und höchstens 2"),
        (["n", "s"], "'it' ist eines von 'n', 's'"),
        (True, "'it' ist true"),
        (
            {"values": list(range(1, 12))},
            "'it' ist eines von 1, 2, 3, 4, 5, 6, 7, 8, oder eines von 3 weiteren",
        ),
    ],
)
def test_conditions_are_translated_into_german(condition_value, expected):
    (condition,) = conditions({"it": condition_value})
    assert translator("de").write(condition_message(condition)) == expected


def test_notes_say_how_values_are_read_in_german():
    domain = fn.Domain(age=fn.Ordered(0, 9, clip=True))
    release = answered(fn.plan(fn.Workload(domain, [fn.table("age", margin=9)])))
    notes = " ".join(fragments.notes(layout(release, "age"), translator("de"), release, None))
    assert "age: unter 0 als 0, über 9 als 9" in notes


def test_a_pattern_of_records_is_translated_into_every_language():
    unit = fn.PrivacyUnit("person", 3, once_per=["a", "b"], per_value={"c": 2}, separation={"d": 4}, fixed=["e", "f"])
    assert fragments.rules(translator("en"), unit) == (
        "at most one record of each person in each cell of a, b; at most 2 records of each person for each value of c; "
        "records of one person are at least 4 steps from each other in d; all records of one person agree in e, f"
    )
    assert fragments.rules(translator("de"), unit) == (
        "höchstens ein Fall jeder Einheit („person“) in jeder Zelle von a, b; "
        "höchstens 2 Fälle jeder Einheit („person“) je Wert von c; "
        "Fälle einer Einheit („person“) liegen in d mindestens 4 auseinander; "
        "alle Fälle einer Einheit („person“) stimmen überein in e, f"
    )
    assert fragments.rules(translator("de"), fn.PrivacyUnit("person")) == ""


@pytest.mark.parametrize(
    ("language", "kind", "number", "expected"),
    [
        ("en", ValueKind.COUNT, 1234567, "1,234,567"),
        ("de", ValueKind.COUNT, 1234567, "1\u202f234\u202f567"),
        ("en", ValueKind.ESTIMATE, -1234.56, "−1,234.6"),
        ("de", ValueKind.ESTIMATE, -1234.56, "−1\u202f234,6"),
        ("en", ValueKind.GAP, 1.7e-7, "1.7 · 10⁻⁷"),
        ("de", ValueKind.GAP, 1.7e-17, "1,7 · 10⁻¹⁷"),
        ("en", ValueKind.NUMBER, 1e-6, "10⁻⁶"),
        ("en", ValueKind.NUMBER, 1.1e-6, "1.1 · 10⁻⁶"),
        ("en", ValueKind.NUMBER, 2.1e-6, "2.1 · 10⁻⁶"),
        ("en", ValueKind.NUMBER, 1e21, "10²¹"),
        ("de", ValueKind.PROPORTION, 0.167, "16,7\u202f%"),
        ("en", ValueKind.LEVEL, 0.95, "95\u202f%"),
        ("de", ValueKind.TEXT, "a-1.5e-7%", "a-1.5e-7%"),
        ("de", ValueKind.PEOPLE, None, "–"),
    ],
)
def test_numbers_are_written_as_a_language_does(language, kind, number, expected):
    assert translator(language).kind(kind, number) == expected


def test_nothing_is_less_than_nothing():
    assert [translator("en").number(x, 1) for x in (-0.04, 0.0, -0.05001, 1234.5)] == ["0.0", "0.0", "−0.1", "1,234.5"]


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [small, demo])
def test_totals_are_what_a_reader_would_count(make):
    """Detects totals with margins of another sum, or next to the wrong rows."""
    release = make()
    for name in release:
        table = release.plan.group(name).publication.workload[name]
        with_totals = layout(release, name, totals=True)
        without_totals = layout(release, name)
        assert not without_totals.totals.any()
        assert np.array_equal(without_totals.values.ravel(), with_totals.values[~with_totals.totals])
        assert np.array_equal(np.sort(without_totals.values.ravel()), np.sort(release[name]["value"]))
        headings = [*with_totals.stubs, *([with_totals.across] if with_totals.across else [])]
        summed = {h.name for h in headings if h.view is EACH}
        assert bool(summed) == with_totals.totals.any()
        for i, j in np.argwhere(with_totals.totals)[:12].tolist():
            labels = [*with_totals.rows[i], *([with_totals.columns[j]] if with_totals.across else [])]
            chosen = {h.name: x.text for h, x in zip(headings, labels, strict=True) if x.text is not None}
            labels_of = table.labels(release.plan.publication.domain)
            where = {a: next(x for x in labels_of[a] if str(x) == text) for a, text in chosen.items()}
            assert {h.name for h in headings} - where.keys() <= summed
            one = release.sum(name, where, confidence=with_totals.confidence)
            assert (with_totals.values[i, j], with_totals.margins[i, j]) == pytest.approx(
                (one.value, one.moe), abs=1e-6
            )


def test_few_values_stand_side_by_side():
    release = small()
    laid = {name: layout(release, name) for name in release}
    assert [x.across and x.across.name for x in laid.values()] == ["job", "area", None, "job", None, None]
    cumulated = laid["area by age cumulative"]
    assert ([h.name for h in cumulated.stubs], cumulated.stubs[0].ordered) == (["age"], 20)
    frame = release["area by age cumulative"]
    i, j = 7, 2
    assert cumulated.values[i, j] == frame.query("area == 'west' and age == 7")["value"].item()
    assert [x.code for x in cumulated.columns] == ["DE1", "DE2", "DE3"]
    assert laid["all"].values.shape == (1, 1)
    assert laid["all"].decimals == 2
    assert laid["area alone"].confidence == 0.99
    assert laid["area alone"].common_margin is None
    assert layout(demo(), "state by status").common_margin == 15
    assert [x.text for x in laid["area by job"].columns] == ["yes", "no", "unknown"]


@pytest.mark.parametrize(
    ("margin", "decimals"), [(0.034, 3), (0.99, 2), (1, 1), (9.9, 1), (10, 0), (15, 0), (1500, 0), (0, 0)]
)
def test_digits_end_a_place_after_the_first_of_the_margin(margin, decimals):
    assert replace(layout(small(), "all"), margins=np.array([[margin]])).decimals == decimals


def test_margins_are_never_printed_smaller_than_they_are():
    translate = translator("en")
    widened = replace(layout(small(), "area alone"), margins=np.array([[2.01], [5.0], [14.0000001]]))
    cells = [
        cells[0].margin
        for group in fragments.render_table(widened, translate, small()).groups
        for _, cells in group.rows
    ]
    assert [x.removeprefix("± ").strip() for x in cells] == ["2.1", "5.0", "14.0"]
    assert {len(x) for x in cells} == {6}


# --- notebooks -------------------------------------------------------------------------------------------------------


def test_notebooks_show_what_there_is():
    release = demo()
    joint, all_of_them = release.count(status="joint", by="state"), release.count(by="state")
    none = release.count(kids="3+", wages="none", status="head") - release.count(kids="3+", wages="none", status="head")
    shares = joint / all_of_them
    examples = {
        "plan": (release.plan, ["Tax filing units by state, 2014", "status by age cumulative", release.plan.hash]),
        "release": (release, [*release, "Alabama", "Universe: all records of"]),
        "counts": (joint, ["Wyoming", translator("en").number(joint["Wyoming"].value)]),
        "shares": (shares, ["Ohio", translator("en").number(shares["Ohio"].value, 2)]),
        "open": (release.count(state="Ohio") / none, ["∞"]),
        "compared": (shares["Ohio"] - shares["Iowa"], ["value"]),
        "quantiles": (release.quantile("age", 0.5, by="status"), ["joint"]),
        "combined": (fn.combine(release, same_records=True), [*release, "Alabama", "Universe: all records of"]),
        "whole": (
            fn.make_integer_tables(release, ["state by status", "state by selfemp"], simulations=0),
            ["state by status", "state by selfemp", "Alabama", "as integers. Each number has its interval at"],
        ),
        "many": (release.count(by=("state", "wages")), ["The first 60 of 408 rows."]),
    }
    for what, (thing, texts) in examples.items():
        page = Page(thing._repr_html_())
        content = " ".join(page.texts)
        assert all(x in content for x in texts), what
        assert "script" not in page.tags
    few = fn.Workload(fn.Domain(a=fn.Categorical(["x", "y"])), [fn.table("a", margin=4)])
    assert "zcdp" in Page(fn.compare(fn.Publication(few))._repr_html_()).texts


def test_notebooks_show_requests():
    domain = fn.Domain(
        sex=fn.Categorical({"f": "female", "m": "male"}),
        age=fn.Ordered(0, 85),
        kind=fn.Categorical(range(20)),
        place=fn.Hierarchy(["state", "county"], [("01", "0101"), ("02", "0201")]),
        pay=fn.Amount(0, 100, step=1, missing={"unpaid": [-1]}),
        gain=fn.Amount(0, fn.ByAttribute("sex", [5, 9]), step=1),
    )
    texts = Page(domain._repr_html_()).texts
    values = ["female, male", "0 … 85", "0, 1, 2, 3, 4, 5, 6, 7, … (20)", "state > county", "0, 100, unpaid", "by sex"]
    assert [x for x in texts if x in values] == values
    assert "rules" not in " ".join(texts)
    ruled = Page(domain.without(sex="m", age=3)._repr_html_()).texts
    assert "rules about impossible combinations: 1" in ruled
    tables = [fn.table("sex", "age", margin=10), fn.all_tables(2, ["sex", "kind", "place"], margin=20, confidence=0.9)]
    text = " ".join(Page(fn.Workload(domain, tables)._repr_html_()).texts)
    assert "sex by age 172 ±10 95\u202f%" in text
    assert "all pairs of 3 attributes (3 tables) 84 ±20 90\u202f%" in text


def test_notebooks_show_few_numbers_of_large_tables(monkeypatch):
    release = demo()
    head, *others = release
    cells = len(release[head])
    combined = fn.combine(release, same_records=True)
    for max_numbers, tables, rows in ((cells, 1, False), (cells - 1, 0, True)):
        monkeypatch.setattr(notebook, "MAX_NUMBERS", max_numbers)
        for thing in (release, combined):
            page = Page(thing._repr_html_())
            assert page.tags.count("details") == tables
            assert (f"The first 60 of {cells} rows." in page.texts) == rows
            assert f"All tables: {', '.join([head, *others])}" in page.texts


def test_notebooks_without_templates_show_text(monkeypatch):
    fragments.environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert demo()._repr_html_() is None
    with pytest.raises(TypeError, match="notebooks show no int"):
        notebook._inner(3)


# --- bands -----------------------------------------------------------------------------------------------------------


def test_bands_follow_the_rule_of_the_publisher():
    values, margins = np.array([100.0, 100, 99.9, 30, 29.9, 0, -50]), np.array([10.0, 10.1, 10, 9, 9, 0.1, 1])
    R, C, W = Band
    assert RULE.classify(values, margins).tolist() == [R, C, C, C, W, W, W]
    assert fn.Bands.parse(" 10 %, 30% ") == fn.Bands.parse("10,30") == RULE


def test_changes_averages_and_seasons_are_computed_from_counts():
    """And a fall is as reliable as a rise of the same size."""
    release = answered(fn.plan(zoo.WORKLOADS["changes"]()), 3)
    texts = check_page(report.page(release, bands=RULE)).texts
    for label in (
        "month, change",
        "month, average of 3",
        "month, to date",
        "is a change at lag 3",
        "Estimated changes in numbers of records.",
    ):
        assert any(label in text for text in texts), label
    fallen = layout(release, "a by month change", bands=RULE)
    assert (fallen.values < 0).any()
    assert (fallen.bands == RULE.classify(abs(fallen.values), fallen.margins)).all()


def test_bands_are_next_to_numbers_and_hide_none():
    release = small()
    page, unmarked = (check_page(report.page(release, bands=b)) for b in (fn.Bands(0.05, 0.3), None))
    assert page.texts.count("‡") > 3
    assert "(too wide)" in page.texts
    assert "(use with care)" in page.texts
    assert not {"‡", "†"} & {*unmarked.texts}
    numbers = [[x for x in p.texts if re.fullmatch(r"−?[\d,.]+", x)] for p in (page, unmarked)]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize(
    "bands", ["10", "10,30,50", "30,10", "0,10", "a,b", "10,1e999", "-1,5", "1_0,30", "\u0661,\u0663"]
)
def test_a_rule_that_is_none_is_refused(bands):
    with refused("release.bands-not-percentages"):
        fn.Bands.parse(bands)


@pytest.mark.parametrize("bands", [(0.3, 0.1), (0, 1), (True, 2), ("a", 1), (0.1, math.nan), (0.1, math.inf)])
def test_parts_that_are_none_are_refused(bands):
    with refused("release.wrong-bands"):
        fn.Bands(*bands)


# --- charts ----------------------------------------------------------------------------------------------------------


def test_marks_are_where_the_numbers_are():
    release = small()
    strips = chart(layout(release, "area by job", totals=True))
    frame = release["area by job"]
    assert isinstance(strips, Strips)
    assert strips.row_total == 3
    low, high = min(0, (frame.value - frame.moe).min()), (frame.value + frame.moe).max()
    marks = [m for _, row in strips.rows for m in row]
    for mark, value, moe in zip(marks, frame.value, frame.moe, strict=True):
        expected = [100 * (x - low) / (high - low) for x in (value, value - moe, value + moe, 0)]
        assert [mark.position, *mark.ends, mark.zero] == pytest.approx(expected, abs=0.01)
    lines = chart(layout(release, "area by age cumulative"))
    assert isinstance(lines, Lines)
    assert [x.label.text for x in lines.lines] == ["north", "south", "west"]
    points = [tuple(map(float, p.split(","))) for p in lines.lines[0].points.split()]
    assert len(points) == 20
    assert points[0][0] == 0
    assert points[-1][0] == 100
    band = [tuple(map(float, p.split(","))) for p in lines.lines[0].band.split()]
    assert len(band) == 40
    assert all(a[1] <= p[1] <= b[1] for p, a, b in zip(points, band, band[::-1], strict=False))
    assert (
        chart(layout(demo(), "state by status")).row_total
        > MAX_STRIP_ROWS
        == len(chart(layout(demo(), "state by status")).rows)
    )


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0), (-3, 17), (0, 1e-9), (-2e9, 5), (0, 99.9)])
def test_ticks_are_round_and_few(low, high):
    scale = Scale.from_range(np.array([low]), np.array([high]))
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 9
    assert all(0 <= t.position <= 100 for t in ticks)
    assert any(t.number == 0 for t in ticks)
    steps = {f"{b.number - a.number:.3g}".strip("0.").replace("e-", "")[0] for a, b in itertools.pairwise(ticks)}
    assert len(steps) == 1
    assert steps <= {"1", "2", "5"}


# --- reports are checked ---------------------------------------------------------------------------------------------


def test_a_report_is_verified_by_writing_it_again(tmp_path, capsys):
    release = small()
    folder = release.write(tmp_path / "r")
    path = fn.report(release, tmp_path / "a.html", language="de", totals=True, bands=RULE, tables=["all", "age"])
    assert report.same([release], path).holds
    assert report.same([release.plan], fn.report(release.plan, tmp_path / "b.html")).holds
    other = fn.Release(release.plan, [y + 10**6 for y in release.answers])
    check = report.same([other], path)
    assert (check.holds, english(check.finding)) == (False, "written again, it differs from this file")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("fitnoise 0.", "fitnoise 7."), encoding="utf-8")
    assert "which fitnoise 7." in english(report.same([release], path).finding)
    by_command("verify", str(folder), "--report", str(path), "--json")
    document = json.loads(capsys.readouterr().out)
    assert [c["claim"]["id"] for c in document["checks"] if not c["holds"]] == [report.CLAIM.id]
    assert not document["ok"]


@pytest.mark.slow
def test_pages_of_what_was_made_of_a_release_are_verified_with_it(tmp_path, capsys):
    """The command builds pages from the folders that hold the tables, in every way that it offers."""
    release = demo()
    other = answered(release.plan, 300)
    r, later, integers, combined = (str(tmp_path / x) for x in ("r", "later", "whole", "combined"))
    release.write(r)
    other.write(later)
    fn.make_integer_tables(release, ["state by status"], simulations=0).write(integers)
    fn.combine(release, other, same_records=True).write(combined)
    sources = {"whole": ["--integers", integers], "combination": ["--combination", combined, "--with-release", later]}
    for name, arguments in sources.items():
        path = tmp_path / f"{name}.html"
        by_command(
            "write",
            "report",
            r,
            *arguments,
            "-o",
            str(path),
            "--language",
            "de",
            "--reliability-bands",
            "10,30",
            "--totals",
        )
        page = path.read_text(encoding="utf-8")
        assert '<html lang="de">' in page
        by_command("verify", r, *arguments, "--report", str(path), "--json")
        document = json.loads(capsys.readouterr().out)
        assert document["ok"]
        assert document["checks"][-1]["claim"]["id"] == report.CLAIM.id
        path.write_text(re.sub(r"(<td[^>]*>)([0-9])", r"\g<1>9\2", page, count=1), encoding="utf-8")
        by_command("verify", r, *arguments, "--report", str(path), "--json")
        assert "differs from this file" in json.loads(capsys.readouterr().out)["checks"][-1]["finding"]["text"]
        by_command("verify", r, "--report", str(path), "--json")
        assert "is of other tables" in json.loads(capsys.readouterr().out)["checks"][-1]["finding"]["text"]
        by_command(
            "write", "export", r, *arguments, "-o", str(tmp_path / f"{name}_package"), "--table", "state by status"
        )
        described = json.loads((tmp_path / f"{name}_package" / "datapackage.json").read_text(encoding="utf-8"))
        assert [x["name"] for x in described["resources"]] == ["state_by_status"]
    capsys.readouterr()
    for command, document in (
        (["write", "report", r, *sources["whole"], *sources["combination"]], "or none of them. A plan takes none"),
        (["write", "export", r, "--with-release", later], "or none of them. A plan takes none"),
        (["write", "report", str(tmp_path / "r" / "plan.json"), *sources["whole"]], "A plan takes none"),
        (["write", "export", str(tmp_path / "r" / "plan.json")], "[release.plan-has-no-tables]"),
        (["write", "report", r, "--combination", combined], "[release.foreign-combination]"),
    ):
        by_command(*command, "-o", str(tmp_path / "not.html" if command[1] == "report" else tmp_path / "not"))
        assert document in " ".join(capsys.readouterr().err.split())
        assert not list(tmp_path.glob("not*"))
    by_command("write", "report", r, *sources["whole"], "-o", str(tmp_path / "whole" / "in.html"))
    assert "[release.place-inside-release]" in " ".join(capsys.readouterr().err.split())
    stated = json.loads((tmp_path / "whole" / "whole.json").read_text(encoding="utf-8"))
    stated["tables"][0]["values"][0] += 5
    (tmp_path / "whole" / "whole.json").write_text(json.dumps(stated), encoding="utf-8")
    by_command("write", "report", r, *sources["whole"], "-o", str(tmp_path / "not.html"))
    assert "[release.integer-tables-wrong]" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "options",
    ["", "{}", "[1]", "x", '{"language": 1, "bands": null, "totals": true, "tables": null}',
     '{"language": "en", "bands": [3, 1], "totals": true, "tables": null}',
     '{"language": "en", "bands": 5, "totals": true, "tables": null}',
     '{"language": "en", "bands": null, "totals": 1, "tables": null}',
     '{"language": "en", "bands": null, "totals": true, "tables": [1]}',
     '{"language": "pt", "bands": null, "totals": true, "tables": null}',
     '{"language": "en", "bands": null, "totals": true, "tables": ["none"]}', "[" * 10_000],
)  # fmt: skip
def test_a_file_that_says_no_report_is_none(options, tmp_path):
    path = tmp_path / "a.html"
    path.write_text(f'<meta name="fitnoise-report" content="{options.replace(chr(34), "&quot;")}">\n')
    assert not report.same([small()], path).holds
    path.write_text("nothing")
    assert english(report.same([small()], path).finding).startswith("The file does not state the options of a report.")
    assert "missing or unreadable" in english(report.same([small()], tmp_path / "none.html").finding)


# --- files and mistakes ----------------------------------------------------------------------------------------------


def test_a_report_is_written_by_command(tmp_path, capsys):
    release = small()
    folder = release.write(tmp_path / "r")
    by_command(
        "write", "report", str(folder), "-o", str(tmp_path / "a.html"), "--language", "de", "--totals",
        "--reliability-bands", "10,30",
        "--table", "all", "--json",
    )  # fmt: skip
    document = json.loads(capsys.readouterr().out)
    assert document == {"plan": release.plan.hash, "file": str(tmp_path / "a.html")}
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page == report.page(release, language="de", totals=True, bands=RULE, tables=["all"])
    by_command("write", "report", str(folder / "plan.json"), "-o", str(tmp_path / "b.html"))
    assert "wrote" in capsys.readouterr().err
    assert (tmp_path / "b.html").read_text(encoding="utf-8") == report.page(release.plan)
    by_command("write", "report", str(folder), "-o", str(folder / "c.html"))
    assert "[release.place-inside-release]" in capsys.readouterr().err
    assert not (folder / "c.html").exists()


def test_reports_that_cannot_be_written_say_so(tmp_path, monkeypatch):
    release, path = small(), tmp_path / "a.html"
    path.write_text("mine")
    wrong = [
        ({"path": path}, "release.place-exists"),
        ({"path": tmp_path / "a.pdf"}, "release.report-not-html"),
        ({"language": "pt"}, "release.unknown-language"),
        ({"tables": "none"}, "release.unknown-table"),
        ({"tables": ["all", "all"]}, "release.repeated-table"),
        ({"path": tmp_path / "no" / "a.html"}, "release.folder-not-writable"),
    ]
    for arguments, code in wrong:
        with refused(code):
            fn.report(release, **{"path": tmp_path / "b.html"} | arguments)
    with refused("release.unknown-table"):
        layout(release, "none")
    monkeypatch.setattr(report, "MAX_NUMBERS", 10)
    with refused("release.too-many-numbers"):
        fn.report(release, tmp_path / "b.html", tables=["age"])
    fragments.environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with refused("release.package-missing"):
        fn.report(release, tmp_path / "b.html")
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
    assert path.read_text() == "mine"


def test_of_many_tables_the_first_are_shown(monkeypatch):
    monkeypatch.setattr(report, "MAX_TABLES", 2)
    page = check_page(report.page(small()))
    assert "2 of 6 tables are shown; the files of the release have all of them." in page.texts
    monkeypatch.setattr(report, "MAX_NUMBERS", 10)
    assert (
        "1 of 6 tables are shown; the files of the release have all of them." in check_page(report.page(small())).texts
    )


@pytest.mark.parametrize(
    ("largest", "ticks", "digits"), [(1.3, [0, 0.5, 1], 1), (13, [0, 5, 10], 0), (0.02, [0, 0.005], 3)]
)
def test_a_curve_is_drawn_over_powers_of_ten(largest, ticks, digits):
    delta = np.geomspace(1e-12, 1e-2, 11)
    picture = curve(delta, np.linspace(largest, largest / 10, 11))
    points = [tuple(map(float, x.split(","))) for x in picture.lines[0].points.split(" ")]
    assert points == [pytest.approx((10 * i, 9 * i)) for i in range(11)]
    assert [(position, x.text) for position, x in picture.axis_labels] == [
        (20 * i, f"10{p}") for i, p in enumerate(POWERS)
    ]
    assert [t.number for t in picture.ticks][: len(ticks)] == pytest.approx(ticks)
    assert picture.digits == digits


POWERS = ("⁻¹²", "⁻¹⁰", "⁻⁸", "⁻⁶", "⁻⁴", "⁻²")


def test_one_margin_is_not_printed_as_that_of_all_where_targets_vary(tmp_path):
    domain = fn.Domain(area=fn.Categorical(["n", "s"]), sex=fn.Categorical(["f", "m"]))
    for margin, varies in ((20, False), (fn.ByAttribute("area", {"n": 20}, default=60), True)):
        plan = fn.plan(fn.Workload(domain, [fn.table("area", "sex", margin=margin)]))
        for language, note in (
            ("en", "where targets vary, others can be wider"),
            ("de", "können andere Zahlen breitere haben"),
        ):
            page = fn.report(plan, tmp_path / f"{language} {varies}.html", language=language)
            assert (note in page.read_text(encoding="utf-8")) is varies
