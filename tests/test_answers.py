"""Answers on the page of a release: comparisons, examples, and intervals in words, in tables and on an axis."""

import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fitnoise as fn
from fitnoise.interfaces.pages.charts import Scale
from fitnoise.messages import COMPLETE_LANGUAGES, translator
from fitnoise.reading.expressions import ask
from fitnoise.reporting import Report
from fitnoise_studio import answers, questions
from fitnoise_studio.page_parts import render_part
from fitnoise_studio.questions import Question
from laws.releases import answered, measured
from refused import refused
from replayed_noise import FreshNoise
from studios import filled, opened
from tolerances import SIGNIFICANCE
from zoo.workloads import WORKLOADS

DOMAIN = fn.Domain(area=fn.Categorical(["North", "South", "West"]), age=fn.Ordered(0, 3))
COUNTS = np.array([[40, 30, 20, 10], [35, 30, 20, 20], [5, 0, 0, 3]])

SHARES = Question("share", {"that": ("0.0",), "second_that": ("0.1",)}, is_comparison=True)
"""Two shares of all records: what one has more, the other has less."""

NUMBERS = Question("number", {"that": ("0.0",), "second_that": ("",)}, is_comparison=True)
"""A part and all records, with common noise."""

COMPARISONS = {"shares": (SHARES, 100 * -5 / 213), "a part and all": (NUMBERS, -113.0)}


@cache
def plan():
    return fn.plan(fn.Workload(DOMAIN, [fn.table("area", "age", margin=9), fn.table("age", margin=5)]))


def release_with(noise):
    return fn.Release(plan(), [x for part in measured(plan(), COUNTS, noise).answers for x in part])


@cache
def release():
    return release_with(FreshNoise(5))


def cards_of(release, question, language="en", breakdown=(), is_simultaneous=False):
    """Return the cards of a question as the page computes them, and its HTML."""
    translated, domain = translator(language), release.plan.publication.domain
    formulas = questions.formulas(domain, question)
    results = [ask(x, release, by=list(breakdown)) for x in formulas]
    frames = [x.frame(simultaneous=is_simultaneous) for x in results]
    units = [answers.SHARES, answers.SHARES, answers.POINTS] if question.measure == "share" else 3 * [answers.NUMBERS]
    titles = [*questions.stated_conditions(domain, question, translated)[1:], ""]
    count = len(results)
    cards = answers.cards(results, frames, titles[-count:], units[:count], translated)
    return cards, results, frames


def number_of(text):
    """Return the number that a text of a page states."""
    return float(re.sub(r"[^\d.-]", "", text.replace("−", "-")) or "nan")


@pytest.mark.parametrize("releases", [60, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", COMPARISONS)
def test_the_printed_interval_of_a_difference_holds(name, releases):
    """60 releases detect a coverage of 60 %, and 1,000 one of 90 %; independent errors cover 84 % of two shares."""
    question, truth = COMPARISONS[name]
    noise, hits = FreshNoise(11), 0
    for _ in range(releases):
        cards, *_ = cards_of(release_with(noise), question)
        low, high = map(number_of, cards[2].rows[0].ends)
        hits += low <= truth <= high
    assert stats.binom.cdf(hits, releases, 0.95) > SIGNIFICANCE


@pytest.mark.parametrize("language", COMPLETE_LANGUAGES)
@pytest.mark.parametrize("name", COMPARISONS)
def test_a_difference_is_printed_from_the_covariance_of_its_answers(name, language):
    """Its interval is that of the release's arithmetic, and no interval of independent errors."""
    question, _ = COMPARISONS[name]
    cards, results, _ = cards_of(release(), question, language)
    north, south, total = (release().count(**x) for x in ({"area": "North"}, {"area": "South"}, {}))
    exact = north / total - south / total if name == "shares" else north - total
    factor, percent = (
        (1, "") if name != "shares" else (100, "Prozentpunkte" if language == "de" else "percentage points")
    )
    low, high = (factor * x for x in exact.interval())
    unit = 10.0 ** -max(0, len(cards[2].rows[0].ends[0].replace(",", ".").partition(".")[2]))
    printed = [number_of(x.replace(",", ".") if language == "de" else x) for x in cards[2].rows[0].ends]
    assert printed == pytest.approx([low, high], abs=0.51 * unit)
    widths = [factor * np.subtract(*x.interval()[::-1]) / 2 for x in results[:2]]
    assert abs((high - low) / 2 - math.hypot(*widths)) > unit
    html = rendered(cards, language)
    assert f"{cards[2].rows[0].text} {percent}".strip() in html


def rendered(cards, language="en"):
    """Return an answer on its page."""
    fields = {"title": "t", "formula": "f", "level": 0.95, "is_simultaneous": False, "since": None, "name": "n"}
    return render_part("answer", language, **fields, cards=cards, notes=(), details=Report("", ()), is_example=False)


def table_rows(html):
    """Return the rows of each table of a page: the text of each cell by the heading of its column."""
    for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
        cells = [
            [
                " ".join(re.sub("<[^>]*>", "", re.sub("<svg.*?</svg>", "", x, flags=re.DOTALL)).split())
                for x in re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            ]
            for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
        ]
        yield [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


@pytest.mark.parametrize("language", COMPLETE_LANGUAGES)
@pytest.mark.parametrize("measure", ["number", "share", "mean.1", "median.1"])
@pytest.mark.parametrize("is_comparison", [False, True])
def test_every_cell_of_an_answer_stands_under_its_heading(measure, is_comparison, language):
    translated = translator(language)
    if is_comparison and measure == "median.1":
        with refused("release.difference-of-medians"):
            questions.formulas(DOMAIN, Question(measure, is_comparison=True))
        return
    sides = {"that": ("1.1",), "second_that": ("1.2",)} if measure in ("number", "share") else {}
    sides |= {"among": ("0.0",), "second_among": ("0.1",)} if measure.startswith("mean") and is_comparison else {}
    names = ["area"] if not (measure.startswith("mean") and is_comparison) else ["age"]
    if names == ["age"]:
        sides, measure = {"that": ("0.0",), "second_that": ("0.1",)}, "number"
    cards, _, frames = cards_of(release(), Question(measure, sides, is_comparison=is_comparison), language, names)
    tables = list(table_rows(rendered(cards, language)))
    assert len(tables) == len(frames)
    for rows, frame, card in zip(tables, frames, cards, strict=True):
        is_points = card.unit == answers.POINTS
        value = translated.translate("studio.report.points_heading" if is_points else "page.table.value")
        interval = translated.translate("studio.report.interval", level="95 %")
        assert [*rows[0]] == [*names, value, interval, translated.translate("studio.report.drawn")]
        factor = 1 if card.unit == answers.NUMBERS else 100
        for row, stated, cells in zip(rows, frame.to_dict("records"), card.rows, strict=True):
            assert row[names[0]] == str(stated[names[0]])
            exact = [stated["value"], *_ends(stated)]
            texts = [row[value], *re.split(" (?:to|bis) ", row[interval])]
            assert texts == [" ".join(x.split()) for x in (cells.text, *cells.ends)]
            for text, number in zip(texts, exact, strict=True):
                digits_text = text.replace(" ", "").replace(",", "." if language == "de" else "")
                digits = len(digits_text.rstrip("%").partition(".")[2])
                assert number_of(digits_text) == pytest.approx(factor * number, abs=0.51 * 10.0**-digits)
            assert row[translated.translate("studio.report.drawn")] == ""


def _ends(row):
    return (row["value"] - row["moe"], row["value"] + row["moe"]) if "moe" in row else (row["low"], row["high"])


def test_a_number_is_drawn_at_its_place_with_its_interval():
    """Both answers of a comparison have one axis; that of the difference has 0."""
    cards, _, frames = cards_of(release(), SHARES)
    assert cards[0].axis == cards[1].axis != cards[2].axis
    assert cards[2].zero is not None
    for card, frame in zip(cards, frames, strict=True):
        (start, at_start), (end, at_end) = ((x, number_of(text) / 100) for x, text in (card.axis[0], card.axis[-1]))
        row = card.rows[0]
        positions = [at_start + (at_end - at_start) * (x - start) / (end - start) for x in (*row.span, row.position)]
        low, high = _ends(frame.iloc[0])
        assert positions == pytest.approx([low, high, frame["value"][0]], abs=1e-3)
        assert row.sign == int(low > 0) - int(high < 0)
    assert 'role="img" aria-label="Estimate' in rendered(cards)


@pytest.mark.parametrize(("sign", "message"), [(1, "higher"), (-1, "lower"), (0, "undecided")])
@pytest.mark.parametrize("language", COMPLETE_LANGUAGES)
def test_a_difference_says_which_answer_is_higher_only_if_its_interval_excludes_0(sign, message, language):
    sides = [("0.0",), ("",)] if sign == -1 else [("",), ("0.0",)] if sign else [("0.0",), ("0.1",)]
    question = Question("number", dict(zip(("that", "second_that"), sides, strict=True)), is_comparison=True)
    cards, *_ = cards_of(release(), question, language)
    assert cards[2].rows[0].sign == sign
    ends = dict(zip(("low", "high"), cards[2].rows[0].ends, strict=True))
    html, translated = " ".join(rendered(cards, language).split()), translator(language)
    for key in ("higher", "lower", "undecided"):
        sentence = translated.translate(f"studio.report.{key}", level="95 %", **ends)
        assert (sentence in html) == (key == message)
    assert translated.translate("studio.report.not_said") in html


def test_intervals_of_a_comparison_hold_at_once_with_a_third_of_the_error_each(tmp_path, monkeypatch):
    with opened(filled(tmp_path / "f"), monkeypatch) as client:
        root = client.folder.root
        plan_of_folder = fn.plan(fn.load_spec(root / "spec.toml"))
        fn.release(plan_of_folder, root / "people.csv", ledger=root / "b.sqlite", directory=root / "release")
        release, path = fn.Release.read(root / "release"), f"/report/{client.number('release')}/ask"
        fields = {"measure": "number", "compare": "1", "that": "0.0", "second_that": "0.1", "by": "age"}
        html = client.post(path, simultaneous="1", **fields).text
        frame = ask('count(area="North") - count(area="South")', release, by=["age"]).frame(
            1 - 0.05 / 3, simultaneous=True
        )
        rows = list(table_rows(html))[2]
        low, high = (number_of(x) for x in rows[0]["95 % interval"].split(" to "))
        assert (high - low) / 2 == pytest.approx(frame["moe"][0], abs=0.51)
        assert "some lie on one side of 0 by noise alone" not in html
        assert "some lie on one side of 0 by noise alone" in client.post(path, **fields).text
        refusal = client.post(path, **{**fields, "second_that": "0.0"})
        assert (refusal.status_code, "Change the conditions of the second answer." in refusal.text) == (422, True)
        menus = client.post(path, measure="share", again="compare").text
        assert all(f'id="{x}"' in menus for x in ("that", "among", "second_that", "second_among", "alone"))
        assert 'id="second_that" name="second_that" data-focus' in menus
        assert 'id="second_that"' not in client.post(path, measure="share", compare="1", again="alone").text
        for i, example in enumerate(
            questions.examples(plan_of_folder.publication.domain, plan_of_folder.publication.workload.tables)
        ):
            reply = client.post(path, measure="share", question="count(", example=str(i))
            assert reply.status_code == 200
            assert f'value="{example.measure}" selected' in reply.text
            assert ('name="compare"' in reply.text) == example.is_comparison
        assert client.post(path, measure="share", example=str(i + 1)).status_code == 422


WITH_EXAMPLES = {
    *("marginals", "one table", "binary", "attribute of one value", "by value", "crossed", "all ranges", "patterns"),
    *("five structured cells", "seven structured cells", "uneven patterns", "patterns and structure", "regular tree"),
    *("tree by numbers", "coarse tree", "uneven tree", "tree and structure", "amounts", "ceilings", "ranges by class"),
    *("missing values", "missing values by value", "columns out of order"),
}
"""The workloads with a table that shows every value of an attribute in menus, and no other view."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_release_answers_its_examples(name):
    """Also those of hierarchies, amounts, missing values and other views; they depend on names and labels alone."""
    publication = fn.Publication(WORKLOADS[name]())
    listed = questions.examples(publication.domain, publication.workload.tables)
    assert listed == questions.examples(publication.domain, publication.workload.tables)
    assert bool(listed) == (name in WITH_EXAMPLES)
    release = answered(fn.plan(publication), 9)
    for example in listed:
        cards, *_ = cards_of(release, example, breakdown=[example.breakdown] if example.breakdown else [])
        assert len(cards) == (3 if example.is_comparison else 1)
        assert questions.title(publication.domain, example, translator("en"))


@given(st.floats(-1_000, 1_000), st.floats(1e-6, 1e9))
def test_a_widened_scale_begins_and_ends_at_ticks(start, width):
    low = start * width
    scale = Scale(low, low + width).widened()
    ticks = [x.number for x in scale.ticks()]
    assert 2 <= len(ticks) <= 9
    slack = 1e-6 * (scale.high - scale.low)
    assert (ticks[0], ticks[-1]) == pytest.approx((scale.low, scale.high), abs=slack)
    assert scale.low <= low + slack
    assert scale.high >= low + width - slack


def test_open_ends_texts_and_undefined_numbers_have_no_place_on_an_axis():
    cards, *_ = cards_of(answered(plan(), 0), Question("share", {"that": ("0.0",)}))
    assert (cards[0].rows[0].position, cards[0].rows[0].text) == (None, "–")
    assert "<svg" not in rendered(cards)
