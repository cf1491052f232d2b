"""Errors on pages of the studio in the language of the page: every error of a form has a text in German."""

import ast
import html
import re
import string
import sys
from pathlib import Path

import pytest

import fitnoise as fn
from fitnoise.errors import DataError, FitnoiseError, SpecError
from fitnoise.messages import catalogue, translator
from fitnoise.request.known_totals import ORIGINS
from fitnoise_studio import app, forms, page_parts
from fitnoise_studio.refusals import FormError
from studios import SPEC, base_of, filled, opened

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
from error_sites import SOURCES, error_sites

GERMAN = {
    text_id.removeprefix("error."): text
    for text_id, text in catalogue("de").items()
    if text_id.startswith("error.") and not text_id.startswith("error.other.")
}

NOT_ON_PAGES = {
    *("release.studio-folder-missing", "release.studio-data-address-invalid", "release.studio-place-not-made"),
    *("fitnoise.later-change-first", "fitnoise.newer-question"),
}
"""The codes of the studio that only the terminal shows, or no one."""

PACKAGES_BEHIND_PAGES = (
    # calls in Python, and commands that the studio does not run
    *("fitnoise/algebra", "fitnoise/data", "fitnoise/opendp.py", "fitnoise/ledgers.py", "fitnoise/interfaces"),
    *("fitnoise/engines/frames.py", "fitnoise/engines/histogram.py", "fitnoise/engines/spark.py"),
    *("fitnoise/kernel/counting/keys.py", "fitnoise/kernel/counting/sealed.py"),
    *("fitnoise/kernel/periods.py", "fitnoise/kernel/series.py"),
    *("fitnoise/planning/accounting.py", "fitnoise/planning/examples.py", "fitnoise/planning/free_queries.py"),
    *("fitnoise/mechanisms/projection/simulation.py", "fitnoise/request/arguments.py", "fitnoise/request/record.py"),
    # orders, plans and entries that another program wrote
    *("fitnoise/kernel/designs", "fitnoise/kernel/exact_powers.py", "fitnoise/kernel/profiles.py"),
    *("fitnoise/kernel/ledger/entries.py", "fitnoise/kernel/losses.py", "fitnoise/kernel/order.py"),
    *("fitnoise/mechanisms/documents.py", "fitnoise/mechanisms/finite", "fitnoise/mechanisms/laplace/laplace_sums.py"),
    *("fitnoise/mechanisms/projection/regions.py", "fitnoise/mechanisms/projection/estimator.py", "fitnoise/solving"),
    *("fitnoise/mechanisms/rebuilding.py", "fitnoise/mechanisms/tables.py"),
    # readers of releases, for what no question of a page asks
    "fitnoise/reading",
)
"""The packages and modules with errors that reach no page: the text of their area is enough."""

CODES_BEHIND_PAGES = {
    # calls in Python
    *("domain.code-cells-invalid", "domain.date-field-invalid", "domain.joint-axis-invalid", "domain.unknown-coding"),
    *("domain.axis-field-invalid", "domain.axis-date-part-invalid", "domain.not-an-axis", "plan.strategy-free"),
    *("ledger.wrong-type", "ledger.not-an-account", "ledger.answers-without-charge", "ledger.answers-recorded-before"),
    *("ledger.cap-not-a-fraction", "ledger.composed-plans-not-a-list", "ledger.price-of-another-source"),
    *("ledger.charge-of-nothing", "ledger.detail-has-own-keys", "ledger.account-without-unit"),
    *("ledger.account-cells-invalid", "ledger.account-document-invalid", "workload.not-a-table"),
    *(
        "workload.not-a-domain",
        "workload.table-unknown",
        "workload.view-class-unknown",
        "plan.publication-with-arguments",
    ),
    *("plan.plan-differs-from-document", "plan.several-parts", "workload.factors-not-distinct"),
    *("workload.sweep-tables-not-distinct", "spec.deltas-out-of-range", "ledger.ledger-in-memory"),
    *("release.tables-without-directory", "plan.effort-for-small-database", "plan.seconds-with-gaussian-noise"),
    *("plan.refine-with-pattern", "plan.refine-with-public-totals", "plan.refine-by-level", "plan.refine-without-zcdp"),
    *("plan.refine-in-product-form", "plan.refine-without-fit-for-use"),
    # series, corrections and sealed counts, which the studio does not release
    *("plan.plan-of-first-periods", "plan.period-out-of-range", "ledger.series-not-in-turn"),
    *("ledger.series-counts-differ", "ledger.series-not-charged-first", "data.series-folder-not-readable"),
    *("data.drawn-series-folder-missing", "ledger.period-not-released", "ledger.charged-period-not-drawn"),
    *("ledger.answers-of-period-lost", "release.superseded-not-verified", "release.supersedes-and-reason"),
    *("release.wrong-reason", "release.series-supersedes", "release.superseded-of-another-account"),
    *("release.sealed-or-unsealed", "release.key-file-without-name"),
    # the terminal that starts the studio, and a page that a later reply replaces
    *("release.studio-folder-missing", "release.studio-data-address-invalid", "release.studio-place-not-made"),
    *("fitnoise.later-change-first", "fitnoise.newer-question"),
}
"""The codes of other packages that reach no page."""

ALTERED_PLAN = "Use the plan as fitnoise wrote it, or plan again."
"""The advice for a plan that another program changed."""


def test_every_error_of_a_page_has_a_german_text():
    sites = [x for x in error_sites() if x.slug is not None]
    on_pages = [x for x in sites if not x.file.startswith(PACKAGES_BEHIND_PAGES) and x.sentences[2] != ALTERED_PLAN]
    slugs = {x.partition(".")[2] for x in GERMAN}
    codes = {x.code for x in on_pages if not x.is_general}
    assert len(codes) > 500
    assert codes - GERMAN.keys() == CODES_BEHIND_PAGES
    assert {x.slug for x in on_pages if x.is_general} <= slugs
    of_callers = {x.slug for x in sites if x.is_general}
    assert {x for x in GERMAN if x.partition(".")[2] not in of_callers} <= {x.code for x in sites}
    assert not [x for x in catalogue("en") if x.startswith("error.")]


def test_every_area_has_a_text_for_errors_without_one_of_their_own():
    others = {x.removeprefix("error.other.") for x in catalogue("de") if x.startswith("error.other.")}
    assert others == {x.area for x in (FitnoiseError, *all_subclasses(FitnoiseError))}
    for area in others:
        error = FitnoiseError("no-such-code", "Given.", "Needed.", "Do this.", "Nothing was planned.")
        error.area = area
        text = page_parts.error_text(error, "de")
        assert f"{area}.no-such-code" in text
        assert not [x for x in error.args[1:] if x in text]


def all_subclasses(kind):
    return {x for y in kind.__subclasses__() for x in (y, *all_subclasses(y))}


def test_german_texts_name_the_values_of_their_errors():
    """All errors with this code have them, because a text with a value that is missing could not be written."""
    names_of_sites = {}
    for folder in SOURCES:
        for path in folder.rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                    keywords = {x.arg: x.value for x in call.keywords}
                    values = {x.value for x in getattr(keywords.get("values"), "keys", ())}
                    form = {*keywords} if getattr(call.func, "id", "") == "FormError" else set()
                    names_of_sites.setdefault(call.args[0].value, []).append(values | form | {*keywords} & {"place"})
    with_values = 0
    for code, text in GERMAN.items():
        names, sites = {x[1] for x in string.Formatter().parse(text) if x[1]}, names_of_sites[code.partition(".")[2]]
        assert names <= set.intersection(*sites) or not names, code
        with_values += bool(names)
    assert with_values > 15


def test_an_error_is_in_the_language_of_its_page():
    error = FormError("form-band-outside", "Given <b>.", "", "Do.", "Nothing was changed.", low=1, high="<b>")
    assert page_parts.error_text(error, "en") == "Given &lt;b&gt;. Do. Nothing was changed."
    assert "von 1 bis &lt;b&gt;." in page_parts.error_text(error, "de")
    missing = DataError("column-missing", "Given.", "", "Do.", "Nothing was counted.", place="a\x00<b>")
    text = page_parts.error_text(missing, "de")
    assert "fehlt die Spalte" in text
    assert "\x00" not in text
    assert "<b>" not in text
    bad = {"age": 1200, "area": 3}
    outside = DataError("records-outside-domain", "Given.", "", "Do.", "Nothing was counted.", values={"list": bad})
    assert "age: 1\u202f200, area: 3." in page_parts.error_text(outside, "de")


@pytest.mark.parametrize(
    ("key", "beginning"),
    [("domain.age.low", "age: "), ("tables[2].margin", "Tabelle 3: "), ("privacy.id", "Ein Wert"), (None, "Ein Wert")],
)
def test_an_error_names_the_attribute_or_the_table_at_fault(key, beginning):
    error = SpecError("value-unusable", "Given.", "", "Do.", "Nothing was planned.", place=key)
    assert page_parts.error_text(error, "de").startswith(beginning)


BAD = (
    "",
    "x",
    "-1",
    "1.5",
    "5,5",
    "1/2",
    "a = b = c",
    'x = "',
    '"',
    "a/b",
    "area",
    "x = [1.5]",
    "x = [",
    "9" * 30,
    "1\0",
)
"""Values that are wrong for some field."""

FORMULAS = (
    *("count(", "1", "count() / 0", "count(count())", "x", "mean()", "mean('area')", "count(sex)", "1 // count()"),
    *("count(area=x)", "count(area='n', area='s')", "1_000 * count()", "count() + 'x'", "other.count()", "(" * 200),
    *("change(count() / count())", "change(count())", "quantile('area', 0.5)", "count() * count()", "1e999 * count()"),
)
"""Questions that no release answers."""


def forms_of(page):
    """Return the path and the fields of each form of a page; of a field with choices every choice, and wrong ones."""
    out = []
    for form in re.finditer(r'<form method="post" action="/\w+(/[^"]*)"[^>]*>(.*?)</form>', page, re.DOTALL):
        fields = {}
        for tag, attributes in re.findall(r"<(input|select|textarea|button)\b([^>]*)>", form[2]):
            name, value = (re.search(rf'\b{key}="([^"]*)"', attributes) for key in ("name", "value"))
            is_off = ('type="radio"' in attributes or 'type="checkbox"' in attributes) and "checked" not in attributes
            if name and tag != "button" and name[1] != "token" and not is_off:
                fields[html.unescape(name[1])] = html.unescape(value[1]) if value else ""
        for name, options in re.findall(r'<select [^>]*name="([^"]*)"[^>]*>(.*?)</select>', form[2], re.DOTALL):
            chosen = re.search(r'value="([^"]*)" selected', options) or re.search(r'value="([^"]*)"', options)
            fields[html.unescape(name)] = html.unescape(chosen[1]) if chosen else ""
        for name, text in re.findall(r'<textarea [^>]*name="([^"]*)"[^>]*>\n?(.*?)</textarea>', form[2], re.DOTALL):
            fields[html.unescape(name)] = html.unescape(text)
        out.append((form[1], fields))
    return out


RICH = SPEC.replace(
    "[[tables]]  # by age", "[domain.pay]\ntype = 'amount'\nlow = 0\nhigh = 9\n\n[[tables]]  # by age"
) + (
    "\n[[tables]]\ngroups = { age = { young = [0, 1] } }\nmargin = 3\n"
    "\n[[tables]]\ngroups = { area = { all = ['n', 's'] } }\nmargin = 3\n"
    "\n[[tables]]\nsum = 'pay'\nmargin = 3\n"
)


@pytest.mark.slow
def test_no_form_answers_in_english_on_a_german_page(tmp_path, monkeypatch):
    """Every field of every form with wrong values: the errors that come have German texts."""
    codes, english_only = set(), {}
    wrong = app._wrong

    def noted(studio, error):
        for x in [*getattr(error, "errors", {"": error}).values()]:
            assert isinstance(x, FitnoiseError)
            codes.add(x.code)
            if x.code not in GERMAN:
                english_only[x.code] = str(x)
        return wrong(studio, error)

    monkeypatch.setattr(app, "_wrong", noted)
    folder = filled(tmp_path / "f", RICH)
    plan = fn.plan(fn.load_spec(filled(tmp_path / "g") / "spec.toml"))
    fn.release(plan, tmp_path / "g" / "people.csv", ledger=folder / "budget.sqlite", directory=folder / "release")
    with opened(folder, monkeypatch, language="de") as client:
        draft = client.folder.own / "draft.toml"
        paths = [f"/data?file={client.number('people.csv')}", "/describe", "/protect", "/tables", "/tables/new"]
        paths += [*(f"/tables/{i}" for i in range(1, 5)), "/file", "/ledger", f"/report/{client.number('release')}"]
        listed = [form for path in paths for form in forms_of(client.page(path))]
        posts = []
        for action, fields in listed:
            if action in ("/quit", "/save", "/discard") or action.startswith("/jobs"):
                continue
            posts += [(action, fields, name, x) for name in fields for x in BAD]
            if "question" in fields:
                posts += [(action, fields, "question", x) for x in FORMULAS]
                posts += [(action, fields, "measure", "share")]
            if "told" in fields:
                statistics = ({**fields, "told": x} for x in ("sum", "median", "mean"))
                posts += [(action, x, "amount", y) for x in statistics for y in ("", "area")]
            if "cap" in fields:
                posts += [(action, {**fields, "cap.kind": "mu"}, "cap", "1/2")]
        assert len(posts) > 500
        for action, fields, name, value in posts:
            sent = {**fields, name: value, "token": client.session.token(action), "base": base_of(client)}
            reply = client.http.post(action, data=sent, headers={"x-studio": "1"})
            draft.unlink(missing_ok=True)
            assert reply.status_code in (200, 204, 409, 422), (action, name, value, reply.text)
            if reply.status_code in (409, 422) and not english_only:
                assert 'lang="en"' not in reply.text, (action, name, value, reply.text)
    assert not english_only
    assert len(codes) > 30, codes


def test_a_job_that_is_refused_says_why_in_the_language_of_the_page(tmp_path, monkeypatch):
    text = SPEC.replace("max_records = 1", "max_records = 1\ncap = { rho = 1e-9 }")
    with opened(filled(tmp_path / "f", text), monkeypatch, language="de") as client:
        client.post("/certify")
        assert client.wait().text.startswith("Der Plan kostet mehr als erlaubt.")
        assert 'class="wrong">Der Plan kostet mehr als erlaubt.' in client.page("/prove")


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_choice_of_a_form_is_in_words(tmp_path, monkeypatch, language):
    """Measures of cost are Greek letters, in every language."""
    with opened(filled(tmp_path / "f"), monkeypatch, language=language) as client:
        pages = "".join(client.page(path) for path in ("/protect", "/tables", "/tables/new", "/rules"))
    options = set(re.findall(r'<option value="([^"]*)"[^>]*>([^<]*)</option>', pages))
    texts = {(value, catalogue(language)[text_id]) for value, text_id in forms.VALUE_TEXTS.items()}
    assert texts <= options
    assert not [value for value, text in options if value == text and value not in ("area", "age")]


def test_differing_rules_are_in_the_words_of_their_form():
    mine = {"impossible": [{"area": ["n", "s"], "age": {"at_most": 1}}], "rules": {"outside": "drop"}}
    other = {"public": [{"by": ["area"], "source": "register", "origin": ORIGINS[1]}], "weights": "equal"}
    rules, file = forms.differences(mine, other, translator("en"))
    assert rules == (
        "rules",
        "",
        (
            "Rule 1: no record has all of these: area is, or is one of n, s; age is at most 1; "
            "Data with such a record: are released without this record"
        ),
        (
            "By these columns together: area; Source: register; "
            "Origin of the totals: counted from these data, without protection"
        ),
    )
    assert file == ("file", "", "–", "weights: equal")


def test_differing_choices_are_in_the_words_of_their_form():
    mine, theirs = ({"privacy": {"neighbours": x}} for x in forms.CHOICES["privacy", "neighbours"])
    differences = forms.differences(mine, theirs, translator("de"))
    texts = ["Hinzufügen/Entfernen einer Einheit", "Ersetzen der Fälle einer Einheit"]
    assert differences == [("protect", "", *(f"Verborgene Änderung: {x}" for x in texts))]


@pytest.mark.parametrize(
    ("before", "after", "beginning"),
    [
        (
            "low = 0\nhigh = 3",
            "",
            "Mehrere Angaben fehlen oder sind falsch. Berichtigen Sie jede. Nichts wurde geplant. 1. age: Hier fehlt",
        ),
        ("low = 0", "low = 9", "age: Der niedrigste Wert liegt über dem höchsten."),
        ('codes = ["n", "s"]\nlabels = ["North", "South"]', "", "area: Die Codes fehlen."),
        ('codes = ["n", "s"]', 'codes = ["n", "n"]', "Ein Code steht zweimal da."),
        ("max_records = 1", "max_records = 0", "Wie viele Fälle eine Einheit höchstens hat, fehlt"),
        ("max_records = 1", "max_records = 1\ncap = { rho = 1e-9 }", "Der Plan kostet mehr als erlaubt."),
        ("margin = 4", "relative_std_error = 0.1", "Tabelle 1: Bei einem relativen Ziel"),
        ("gap = 1e-4", "confidence = 2", "Das Konfidenzniveau liegt zwischen 0 und 1."),
    ],
)
def test_a_draft_without_a_price_says_why_in_german(tmp_path, monkeypatch, before, after, beginning):
    assert before in SPEC
    with opened(filled(tmp_path / "f", SPEC.replace(before, after)), monkeypatch, language="de") as client:
        client.studio.price()
        bar = client.studio.price_parts()["price"]
        assert re.search(r'class="wrong">(?:<span>)?([^<]*)', bar)[1].startswith(beginning), bar
