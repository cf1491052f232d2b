"""Titles, labels and names in several languages: for readers only, and never part of what is measured."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.pages import fragments, report
from fitnoise.interfaces.wording import wording
from fitnoise.messages import LANGUAGES
from fitnoise.reading.layouts import layout
from fitnoise.request.documents import Spec
from fitnoise.request.metadata import Metadata
from fitnoise.request.translations import Translation
from fitnoise.request.workloads import slug
from fitnoise_check.plan import check
from fitnoise_studio import forms
from fitnoise_studio.access import SubmittedForm
from laws.releases import answered
from refused import refused

TOML = """
language = "en"
title = { en = "People", fr = "Population", de = "Bevölkerung" }

[data]
source = "register"

[metadata]
description = { en = "All people.", fr = "Tous." }
keywords = { en = ["people"], fr = ["gens", "recensement"] }
amount_units = { wage = { en = "pounds", fr = "livres" } }
geography = { en = "Examplia", fr = "Exemplie" }
publisher = "Office"
period = "2025"

[privacy]
unit = "person"

[domain.area]
type = "categorical"
codes = ["DE1", "DE2", "DE3"]
labels = { en = ["north", "south", "west"], fr = ["nord", "sud", "ouest"] }
missing = { unknown = ["9"] }

[domain.age]
type = "binned"
cuts = [20, 40.5, 65]

[domain.wage]
type = "amount"
low = 0
high = 9

[domain.month]
type = "ordered"
low = 1
high = 12

[[tables]]
attributes = ["area", "age"]
margin = 10

[[tables]]
name = "groups"
attributes = ["month"]
groups = { area = { coast = ["north", "west"], inland = "south" } }
margin = 10

[[tables]]
name = "spans"
attributes = ["area"]
ranges = { age = [["under 20", "20 to under 40.5"]] }
cumulative = "month"
margin = 10

[names.fr]
area = "région"
age = "âge"
month = "mois"
unknown = "inconnu"
coast = "littoral"
inland = "intérieur"
person = "personne"
register = "registre"
"area by age" = "Région et âge"
groups = "Groupes"
spans = "Plages"

[names.en]
age = "Age in years"
"""


@cache
def publication():
    return Spec.from_toml(TOML).publication()


@cache
def plan():
    return fn.plan(publication(), gap=None)


@cache
def release():
    """Return a release without records, whose noisy answers are all different."""
    rng = np.random.default_rng(1)
    return fn.Release(plan(), [rng.integers(0, 10**8, n) for n in plan().groups[0].strategy.lengths])


# --- what is measured ------------------------------------------------------------------------------------------------


def test_a_specification_and_its_publication_have_all_texts():
    stated = publication()
    assert stated.title == "People"
    assert stated.domain["area"].labels == ("north", "south", "west")
    assert {*stated.translations} == {"fr", "de", "en"}
    assert stated.translations["fr"].labels == {"area": ("nord", "sud", "ouest")}
    assert stated.translations["de"] == Translation("Bevölkerung")
    french = Metadata("Tous.", geography="Exemplie", keywords=("gens", "recensement"), amount_units={"wage": "livres"})
    assert stated.translations["fr"].metadata == french
    assert stated.metadata_in("fr") == replace(french, publisher="Office", period="2025")
    assert stated.metadata_in("it") == stated.metadata_in("en") == stated.metadata
    spec = Spec.from_publication(stated)
    assert spec.publication() == stated
    assert Spec.from_toml(spec.to_toml()).publication() == stated


def test_plans_that_differ_in_further_texts_have_one_hash_and_one_account():
    other = replace(publication(), translations={"it": Translation("Popolazione")})
    single = replace(publication(), translations={}, language="pt-BR")
    for changed in (other, single):
        changed_plan = fn.plan(changed)
        assert changed_plan.hash == plan().hash
        assert changed_plan.to_json() != plan().to_json()
        assert changed_plan.order.account == plan().order.account
        assert fn.Plan.from_json(changed_plan.to_json()).publication == changed
    assert fn.plan(replace(publication(), title="Persons")).hash != plan().hash


def test_a_plan_in_english_only_has_no_languages():
    single = fn.plan(replace(publication(), translations={}))
    assert "languages" not in json.loads(single.to_json())
    assert fn.plan(publication()).hash == single.hash


def test_a_plan_keeps_its_texts_and_others_can_check_its_hash():
    text = plan().to_json()
    read = fn.Plan.from_json(text)
    assert read.publication == publication()
    assert read.to_json() == text
    assert f"SHA-256 {plan().hash}" in list(check(text.encode(), plan().hash))


@pytest.mark.parametrize(
    "alter",
    [
        lambda d: d["languages"]["further"]["fr"]["metadata"].update(colour="red"),
        lambda d: d["languages"]["further"]["fr"].update(metadata={"amount_units": 1}),
        lambda d: d["languages"].update(main="nothing at all"),
        lambda d: d["languages"].update(further={"fr": {"labels": {"area": ["nord"]}}}),
        lambda d: d["languages"]["further"]["fr"].update(notes="x"),
        lambda d: d["languages"]["further"]["fr"].update(title=""),
        lambda d: d["languages"].update(more=1),
        lambda d: d.update(languages=None),
        lambda d: d.update(languages={"main": "en", "further": {}}),
    ],
)
def test_damaged_languages_of_a_plan_are_refused(alter):
    document = json.loads(plan().to_json())
    alter(document)
    with refused(
        "plan.plan-damaged",
        "plan.plan-contradicts-itself",
        "spec.language-tag-invalid",
        "spec.translated-labels-misfit",
    ):
        fn.Plan.from_json(json.dumps(document))


TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, categories=["L"]), min_size=1, max_size=5)


@given(st.lists(TEXTS, min_size=3, max_size=3), st.sampled_from([x for x in LANGUAGES if x != "en"]))
def test_labels_fit_if_and_only_if_they_distinguish_the_same_values(labels, language):
    """The labels are letters, so none is a code of another value."""
    texts = {language: Translation(labels={"area": labels})}
    if len({*labels}) == len(labels):
        spec = Spec.from_publication(replace(publication(), translations=texts))
        assert spec.publication().translations[language].labels["area"] == tuple(labels)
    else:
        with refused("spec.translated-label-twice", key="domain.area.labels"):
            replace(publication(), translations=texts)


def test_repeated_labels_are_repeated_in_every_language():
    towns = fn.Categorical({"1": "Washington", "2": "Yakima", "3": "Washington"})
    workload = fn.Workload(fn.Domain(town=towns), [fn.table("town", margin=3)])
    same = Translation(labels={"town": ["Ouachington", "Yaquima", "Ouachington"]})
    assert fn.Publication(workload, translations={"fr": same}).translations["fr"] == same
    for labels in (["A", "B", "C"], ["A", "A", "A"]):
        with refused("spec.translated-label-twice"):
            fn.Publication(workload, translations={"fr": Translation(labels={"town": labels})})


# --- what readers see ------------------------------------------------------------------------------------------------

OWN_WORDS = {"north", "south", "west", "unknown", "coast", "inland", "area", "month", "person", "register", "People"}


def visible_words(page):
    """Return the words that people see in a page."""
    visible = re.sub(r"<style>.*?</style>|<[^<>]*>", " ", page, flags=re.DOTALL)
    return {*re.findall(r"\w+", visible)}


def test_a_report_has_the_words_of_its_language():
    page = report.page(release(), language="fr", totals=True)
    # Values of free tables are named as `fitnoise plan --free` takes them.
    french = visible_words(re.sub(r"<p>[^<]*fitnoise plan --free[^<]*</p>", "", page))
    assert french & OWN_WORDS == set()
    assert {"nord", "sud", "ouest", "inconnu", "littoral", "région", "mois", "personne", "registre"} <= french
    assert visible_words(report.page(release(), language="en", totals=True)) >= OWN_WORDS
    german = visible_words(report.page(release(), language="de"))
    assert "Bevölkerung" in german
    assert {"north", "unknown"} <= german


def test_names_in_the_own_language_are_headings():
    assert ">Age in years<" in report.page(release())
    assert "Age in years" not in release()["area by age"].columns


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_label_has_the_number_of_its_value(language, tmp_path):
    """Detects labels in another order than the codes: each French label stands next to the number of its code."""
    table = layout(release(), "area by age")
    text = wording(language, [publication()])
    labels = dict(
        zip(
            ["DE1", "DE2", "DE3"],
            ["nord", "sud", "ouest"] if language == "fr" else ["north", "south", "west"],
            strict=True,
        )
    )
    for (label,), value in zip(table.rows, table.values, strict=True):
        if label.code:
            assert fragments.labelled(label, text) == labels[label.code]
            row = release()["area by age"].query("area_code == @label.code")["value"]
            assert value == pytest.approx(row.to_numpy())
    sheet = openpyxl.load_workbook(fn.export(release(), tmp_path / "a.xlsx", language=language)).worksheets[1]
    assert [sheet.cell(5 + i, 1).value for i in range(3)] == [*labels.values()]
    assert [sheet.cell(5 + i, 2).value for i in range(3)] == [*labels]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["under 20", "20 to under 40.5", "40.5 to under 65", "65 or more"]),
        ("de", ["unter 20", "20 bis unter 40,5", "40,5 bis unter 65", "65 und mehr"]),
        ("es", ["menos de 20", "de 20 a menos de 40,5", "de 40,5 a menos de 65", "65 o más"]),
        ("fr", ["moins de 20", "de 20 à moins de 40,5", "de 40,5 à moins de 65", "65 ou plus"]),
        ("it", ["meno di 20", "da 20 a meno di 40,5", "da 40,5 a meno di 65", "65 o più"]),
    ],
)
def test_bins_are_in_the_language(language, expected):
    text = wording(language, [publication()])
    bins = publication().domain["age"].own_values
    assert [text.label("age", x) for x in bins] == expected
    assert text.label("age", f"{bins[0]} – {bins[1]}") == f"{expected[0]} – {expected[1]}"
    page = report.page(release(), language=language)
    assert f"{expected[0]} – {expected[1]}" in page


def test_answers_that_are_labels_are_in_the_language():
    question = fn.FiniteQuery.median("typical", "age", people=5, epsilon=1)
    texts = {"fr": Translation(names={"typical": "âge médian"})}
    question_plan = fn.plan(fn.Workload(publication().domain, []), questions=[question], translations=texts)
    answers = answered(question_plan)
    expected = wording("fr", [question_plan.publication]).label("age", answers.finite["typical"].value)
    assert expected != answers.finite["typical"].value
    page = report.page(answers, language="fr")
    assert f'<th scope="row">âge médian</th><td>{expected}</td>' in page


def test_further_languages_change_no_file_of_a_release():
    single = replace(publication(), translations={})
    english_release = fn.Release(fn.plan(single), release().answers)
    for name in release():
        assert release()[name].equals(english_release[name])


def test_exports_verify_in_every_language(tmp_path):
    for language in LANGUAGES:
        path = fn.export(release(), tmp_path / f"{language}.tex", language=language)
        assert fn.verify_export(release(), path)
        (tmp_path / f"{language}.html").write_text(report.page(release(), language=language), encoding="utf-8")
        assert report.same([release()], tmp_path / f"{language}.html").holds
    assert "nord" in (tmp_path / "fr.tex").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", [*LANGUAGES, "fr-CH", "pt"])
def test_what_readers_get_is_in_the_language_of_the_publication(language, tmp_path, monkeypatch):
    built = answered(fn.plan(replace(publication(), language=language, translations={}), gap=None))
    tables = fn.make_integer_tables(built, ["area by age"], simulations=2)
    expected = {"fr-CH": "fr", "pt": "en"}.get(language, language)
    monkeypatch.chdir(tmp_path)
    built.write("out")
    tables.write("integers")
    for what, options in ((built, []), (tables, ["--integers", "integers"]), (built.plan, None)):
        page = report.page(what)
        assert page == report.page(what, language=expected)
        assert f'<html lang="{expected}">' in page
        if options is None:
            continue
        for name in ("a.tex", "a.html"):
            kind = "export" if name == "a.tex" else "report"
            assert ended(["write", kind, "out", "-o", name, *options]) == 0
            stated, chosen = Path(name), Path(f"chosen-{name}")
            (fn.export if kind == "export" else fn.report)(what, chosen, language=expected)
            assert stated.read_bytes() == chosen.read_bytes()
            assert ended(["verify", "out", *options, f"--{kind}", name]) == 0
            for path in (stated, chosen, *Path().glob("*.manifest.json")):
                path.unlink()


@pytest.mark.parametrize("language", LANGUAGES)
def test_bins_and_names_of_tables_are_described_in_the_language_of_the_publication(language, tmp_path):
    built = answered(fn.plan(replace(publication(), language=language, translations={}), gap=None))
    package, translator = fn.export(built, tmp_path / "package", sdmx=True), wording(language, [built.plan.publication])
    expected = {
        *map(translator.table, built),
        *(translator.label("age", x) for x in built.plan.publication.domain["age"].own_values),
    }
    assert translator.table("area by age") != "area by age"
    assert {*publication().domain["age"].own_values} <= expected or language != "en"
    english = {*(x for x in built if x not in publication().domain), *publication().domain["age"].own_values} - expected
    assert english
    structure = (package / "sdmx" / "structure.xml").read_text(encoding="utf-8")
    names = {*re.findall(f'<com:Name xml:lang="{language}">([^<]*)<', structure)}
    described = {*re.findall(f'<com:Description xml:lang="{language}">([^<]*)<', structure)}
    assert not described & english
    assert names >= expected
    assert not names & english
    catalogue = json.loads((package / "dcat.jsonld").read_text(encoding="utf-8"))
    titles = [x["dct:title"] for x in catalogue["dcat:distribution"]]
    assert titles == [[{"@value": translator.table(x), "@language": language}] for x in built]
    codebook = (package / "ddi.xml").read_text(encoding="utf-8")
    labels = {*re.findall("<labl>([^<]*)</labl>", codebook)}
    assert labels >= expected
    assert not labels & english
    # Programs find values and tables under the same words in every language.
    for name in built:
        frame = pd.read_csv(package / "tables" / f"{slug(name)}.csv")
        assert [*frame.columns] == [*built[name].columns]
        assert "age" not in frame or [*frame["age"]] == [*built[name]["age"]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_says_to_search_engines_in_which_language_its_texts_are(language):
    page = report.page(release(), language=language)
    described = json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', page)[1])
    titles = {"en": "People", "fr": "Population", "de": "Bevölkerung"}
    expected = language if language in titles else "en"
    assert (described["inLanguage"], described["name"]) == (expected, titles[expected])


def test_a_question_takes_the_main_language(tmp_path, monkeypatch):
    data = tmp_path / "people.csv"
    data.write_text("area,age,month\n" + "DE1,30,4\nDE2,50,5\n" * 500, encoding="utf-8")
    (tmp_path / "spec.toml").write_text(TOML, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    main_codes = [
        ended(["plan", "spec.toml", "-o", "plan.json"]),
        ended(["release", "plan.json", str(data), "--ledger", "l.sqlite", "-o", "out"]),
        ended(["ask", "out", "count(area = 'north')"]),
        ended(["verify", "out", "--ledger", "l.sqlite"]),
    ]
    assert main_codes == [0, 0, 0, 0]
    assert ended(["ask", "out", "count(area = 'nord')"]) != 0


def ended(arguments):
    """Return the exit code of a command."""
    try:
        main(arguments)
    except SystemExit as end:
        return end.code or 0
    return 0


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "code", "key"),
    [
        ('language = "en"', 'language = "English"', "language-tag-invalid", "language"),
        ('language = "en"', 'language = "it"', "several-problems", None),
        ("[names.fr]", "[names.f]", "language-tag-invalid", "names.f"),
        ("[names.fr]", "[names.french]", "language-tag-invalid", "names.french"),
        ("[names.fr]", "[names.pt]", "language-without-reports", "language"),
        ('fr = ["nord", "sud", "ouest"]', 'fr = ["nord", "sud"]', "labels-misfit", "domain.area.labels"),
        (
            'fr = ["nord", "sud", "ouest"]',
            'fr = ["nord", "sud", "sud"]',
            "translated-label-twice",
            "domain.area.labels",
        ),
        ('fr = ["nord", "sud", "ouest"]', 'fr = ["nord", "", "sud"]', "translated-text-invalid", None),
        (
            'fr = ["nord", "sud", "ouest"]',
            'fr = ["DE2", "sud", "ouest"]',
            "translated-label-of-another-code",
            "domain.area.labels",
        ),
        ('en = ["north", "south", "west"], ', "", "main-language-missing", "domain.area.labels"),
        ('month = "mois"', 'monht = "mois"', "translated-name-unknown", "names.fr"),
        ('month = "mois"', '"9" = "mois"', "translated-name-unknown", "names.fr"),
        ('month = "mois"', 'month = "âge"', "translated-name-twice", "names.fr"),
        ('inland = "intérieur"', 'inland = "littoral"', "translated-name-twice", "names.fr"),
        ("description = { en", "description = { it", "main-language-missing", "metadata.description"),
        ("{ wage = { en", "{ wage = { it", "main-language-missing", "metadata.amount_units"),
        ('fr = "Tous."', 'fr = " "', "metadata-text-empty", "metadata.description"),
        ('fr = "Tous."', 'pt = "Todos."', "language-without-reports", "language"),
        ('fr = "Tous."', 'f = "Tous."', "language-tag-invalid", "metadata.description"),
        (
            'fr = ["nord", "sud", "ouest"]',
            'fra = ["nord", "sud", "ouest"]',
            "language-tag-invalid",
            "domain.area.labels",
        ),
        (
            'geography = { en = "Examplia", fr',
            'geography = { en = "Examplia", fr-CA',
            "language-without-reports",
            "language",
        ),
        ('period = "2025"', 'period = { en = "2025" }', "wrong-type", "metadata.period"),
        ('title = { en = "People", ', 'title = { it = "Gente", ', "main-language-missing", "title"),
    ],
)
def test_mistakes_in_languages_are_refused_at_their_place(old, new, code, key):
    assert TOML.count(old) == 1
    with refused(f"spec.{code}", key=key):
        Spec.from_toml(TOML.replace(old, new)).publication()


def test_python_refuses_the_same_mistakes():
    workload = publication().workload
    for texts, code in [
        (Translation(labels={"age": ["a", "b", "c", "d"]}), "translated-labels-of-no-codes"),
        (Translation(labels={"nothing": ["a"]}), "translated-labels-of-no-codes"),
        (Translation(labels={"area": ["a", "b"]}), "translated-labels-misfit"),
    ]:
        with refused(f"spec.{code}"):
            fn.plan(workload, translations={"fr": texts})
    with refused("spec.translation-into-own-language", key="language"):
        fn.plan(workload, translations={"en": Translation("People")})
    with refused("spec.translation-into-own-language", key="language"):
        fn.plan(workload, translations={"en": Translation(metadata=Metadata("People"))})
    with refused("spec.wrong-type", key="title"):
        Translation(5)
    with refused("spec.translated-text-invalid"):
        Translation(names={"area": " "})
    coded = fn.Workload(fn.Domain(a=fn.Categorical(["x", "y"])), [fn.table("a", margin=3)])
    with refused("spec.translated-labels-of-no-codes"):
        fn.Publication(coded, translations={"fr": Translation(labels={"a": ["u", "v"]})})


@pytest.mark.parametrize(
    ("further", "key"),
    [
        (Metadata(period="2025"), "period"),
        (Metadata(methodology="Bruit"), "methodology"),
        (Metadata(amount_units={"age": "ans"}), "amount_units"),
    ],
)
def test_metadata_of_a_language_need_texts_in_the_main_one(further, key):
    with refused("spec.translated-metadata-misfit", key=f"metadata.{key}"):
        replace(publication(), translations={"fr": Translation(metadata=further)})


def test_a_language_without_catalogue_can_be_the_main_one():
    text = (
        TOML.replace('language = "en"', 'language = "pt-BR"')
        .replace("en = [", "pt-BR = [")
        .replace("{ en =", "{ pt-BR =")
    )
    stated = Spec.from_toml(text).publication()
    assert (stated.language, stated.domain["area"].labels[0]) == ("pt-BR", "north")
    page = report.page(fn.plan(stated), language="fr")
    assert "Population" in page


# --- the studio ------------------------------------------------------------------------------------------------------


def test_the_studio_keeps_texts_in_further_languages():
    document = forms.parse(TOML)
    assert forms.field_text(document, ("title",)) == "People"
    changed = forms.protect(document, SubmittedForm([("title", "Persons")]))
    assert changed["title"] == {"en": "Persons", "fr": "Population", "de": "Bevölkerung"}
    assert forms.protect(document, SubmittedForm([("title", "People")])) == document
    area = document["domain"]["area"]
    forms._codes(area, {"codes": forms.codes_text(area)}, ())
    assert area == forms.parse(TOML)["domain"]["area"]
    with refused("spec.form-labels-by-language"):
        forms._codes(area, {"codes": "a\nb"}, ())


def test_tables_without_a_name_have_titles_in_words():
    """Sums and means say so, with the word for their amount; a stated name stays what it is."""
    region, area = fn.Categorical(["N", "S"]), fn.Categorical(["U", "R"])
    income = fn.Amount(0, 100, ceilings=[50])
    ages = fn.Ordered(0, 9, missing={"none": [99]})
    domain = fn.Domain(region=region, area=area, age=ages, income=income)
    tables = [
        fn.table("region", "age", margin=9),
        fn.table("region", cumulative="age", margin=9),
        fn.table("region", sum="income", margin=500),
        fn.table("region", sum="income", ceiling=50, margin=500),
        fn.table(sum="income", margin=500),
        fn.table("region", mean="income", reference=100, margin=9),
        fn.table("area", cumulative="age", sum="income", margin=500),
        fn.table(groups={"age": {"young": [0, 1], "old": [2, 3]}}, margin=9),
        fn.table(ranges={"age": [[0, 1]]}, margin=9),
        fn.table(count="age", margin=9),
        fn.table("region", margin=9, name="regions"),
        fn.table("age", margin=9),
    ]
    workload = fn.Workload(domain, tables)
    names = {"region": "région", "age": "âge", "income": "revenu"}
    publication = fn.Publication(workload, translations={"fr": fn.Translation(names=names)})
    french, english = (wording(language, [publication]) for language in ("fr", "en"))
    assert [french.table(t.name).replace("\xa0", " ") for t in workload.tables] == [
        "Enregistrements par région et âge",
        "Enregistrements par région et âge (valeurs cumulées)",
        "Somme : revenu par région",
        "Somme : min(revenu, 50) par région",
        "Somme : revenu",
        "Moyenne : revenu par région",
        "Somme : revenu par area et âge (valeurs cumulées)",
        "Enregistrements par âge (groupes)",
        "Enregistrements par âge (intervalles)",
        "Enregistrements par âge (valeurs connues)",
        "regions",
        "Enregistrements par âge",
    ]
    assert [english.table(t.name) for t in workload.tables][1:3] == [
        "Records by region and age (cumulative)",
        "Sum of income by region",
    ]
    # A table by one attribute has its name, and a title of its own.
    assert (french.name("age"), english.name("age")) == ("âge", "age")
    # The word for an amount counts also where a table shows it up to a ceiling.
    assert french.name("min(income, 50)") == "min(revenu, 50)"
    in_french = wording("fr", [fn.Publication(workload, language="fr")])
    assert [in_french.table(workload.tables[i].name).replace("\xa0", " ") for i in (0, 2)] == [
        "Enregistrements par region et age",
        "Somme : income par region",
    ]


# --- texts in files --------------------------------------------------------------------------------------------------

CODES = "code,label{0},label_fr,note\n01,north,nord,x\n02,south,sud,y\n"
PLACES = (
    "canton,canton_name{0},canton_name_fr,canton_name_it,town\n"
    "BE,Bern,Berne,Berna,351\nBE,Bern,Berne,Berna,371\nVS,Valais,Wallis-VS,Vallese,6297\n"
)
FILES = """
title = {{ en = "People", fr = "Population" }}
[data]
source = "register"
[privacy]
unit = "person"
[metadata]
description = {{ en = "All people.", fr = "Tous." }}
[domain.area]
type = "categorical"
codes_file = "codes.csv"
[domain.home]
type = "hierarchy"
levels = ["canton", "town"]
file = "places.csv"
{0}
[domain.wage]
type = "amount"
low = 0
high = 9
[[tables]]
attributes = ["area", "canton"]
margin = 10
[[tables]]
attributes = ["canton"]
sum = "wage"
margin = 100
[names.fr]
canton = "région"
area = "zone"
wage = "salaire"
"""
TOWNS = 'names = { town = { en = ["Berne town", "Biel", "Visp"], fr = ["Ville", "Bienne", "Viège"] } }'


WITH_TOWNS = FILES.format(TOWNS)


def from_files(folder, spec=WITH_TOWNS, codes=CODES, places=PLACES, tag=""):
    """Return the publication of a specification with files of texts."""
    (folder / "codes.csv").write_text(codes.format(tag), encoding="utf-8")
    (folder / "places.csv").write_text(places.format(tag), encoding="utf-8")
    (folder / "spec.toml").write_text(spec, encoding="utf-8")
    return fn.load_spec(folder / "spec.toml")


@pytest.mark.parametrize("tag", ["", "_en"])
def test_files_state_labels_and_names_in_further_languages(tag, tmp_path):
    """The column of the language of the publication may have its tag, too."""
    stated = from_files(tmp_path, tag=tag)
    assert stated.domain["area"].labels == ("north", "south")
    assert dict(stated.domain["home"].names) == {
        "canton": ("Bern", "Valais"),
        "town": ("Berne town", "Biel", "Visp"),
    }
    assert stated.translations["fr"].labels == {
        "area": ("nord", "sud"),
        "canton": ("Berne", "Wallis-VS"),
        "town": ("Ville", "Bienne", "Viège"),
    }
    assert stated.translations["it"].labels == {"canton": ("Berna", "Vallese")}
    # A specification without files says the same, and texts in further languages are in no hash.
    assert Spec.from_toml(Spec.from_publication(stated).to_toml()).publication() == stated
    stated_plan = fn.plan(stated)
    assert fn.plan(replace(stated, translations={})).hash == stated_plan.hash
    assert fn.Plan.from_json(stated_plan.to_json()).publication == stated
    assert f"SHA-256 {stated_plan.hash}" in list(check(stated_plan.to_json().encode(), stated_plan.hash))


def texts_of(stated, language):
    """Return the texts of a publication in a language that its tables show."""
    tables = {*stated.domain} - {"home", "town"} | {"canton"}
    if language == stated.language:
        names = dict(stated.domain["home"].names)["canton"]
        return {stated.title, *stated.domain["area"].labels, *names, *tables}
    french = stated.translations[language]
    return {french.title, *french.labels["area"], *french.labels["canton"], *french.names.values()}


def test_every_text_of_a_language_is_in_the_outputs_of_the_language(tmp_path):
    stated = from_files(tmp_path)
    files_plan = fn.plan(stated)
    rng = np.random.default_rng(1)
    built_release = fn.Release(files_plan, [rng.integers(0, 10**8, n) for n in files_plan.groups[0].strategy.lengths])
    for language, other in (("en", "fr"), ("fr", "en")):
        page = report.page(built_release, language=language)
        book = openpyxl.load_workbook(fn.export(built_release, tmp_path / f"{language}.xlsx", language=language))
        sheets = "\n".join(str(x) for sheet in book for row in sheet.values for x in row if x is not None)
        tex = fn.export(built_release, tmp_path / f"{language}.tex", language=language).read_text(encoding="utf-8")
        for output in (page, sheets, tex):
            lacking = {x for x in texts_of(stated, language) if x not in output}
            assert lacking == set()
        foreign = texts_of(stated, other) - texts_of(stated, language)
        displayed = visible_words(re.sub(r"<p>[^<]*fitnoise plan --free[^<]*</p>", "", page))
        assert displayed & foreign == set()
    package = fn.export(built_release, tmp_path / "package", sdmx=True)
    structure = (package / "sdmx" / "structure.xml").read_text(encoding="utf-8")
    for language in ("en", "fr"):
        shown_names = re.findall(f'xml:lang="{language}">([^<]*)<', structure)
        lacking = {x for x in texts_of(stated, language) if not any(x in shown_name for shown_name in shown_names)}
        assert lacking == set()
    # Catalogues name tables in all languages, and archives labels, too.
    for file in ("csv-metadata.json", "dcat.jsonld", "ddi.xml"):
        described = (package / file).read_text(encoding="utf-8")
        for text in ("Personnes par zone et région", "Somme\u00a0: salaire par région"):
            assert text in described or json.dumps(text)[1:-1] in described
    codebook = (package / "ddi.xml").read_text(encoding="utf-8")
    for text in ("nord", "sud", "Berne", "Wallis-VS", "zone", "région"):
        assert f'<labl xml:lang="fr">{text}</labl>' in codebook
    assert fn.verify_export(built_release, package)


def test_each_name_of_a_place_has_its_number_in_every_language(tmp_path):
    """Two towns with different names have one French name: codes distinguish them."""
    places = "canton,town,town_name,town_name_fr\nVOV,1,Sint-Niklaas,Saint-Nicolas\nWLG,2,Saint-Nicolas,Saint-Nicolas\n"
    spec = FILES.format("").replace('["area", "canton"]', '["town"]')
    stated = from_files(tmp_path, spec, places=places)
    files_plan = fn.plan(stated)
    built_release = fn.Release(files_plan, [np.arange(n) * 1000 for n in files_plan.groups[0].strategy.lengths])
    table = layout(built_release, "town")
    for language, names in (
        ("en", ["Sint-Niklaas (1)", "Saint-Nicolas (2)"]),
        ("fr", ["Saint-Nicolas (1)", "Saint-Nicolas (2)"]),
        ("de", ["Sint-Niklaas (1)", "Saint-Nicolas (2)"]),
    ):
        text = wording(language, [stated])
        assert [fragments.labelled(label, text) for (label,) in table.rows] == names


@pytest.mark.parametrize(
    ("changed", "code", "key", "text"),
    [
        ({"codes": CODES.replace("nord", "")}, "domain.text-column-incomplete", "domain.area", "'label_fr'"),
        ({"codes": CODES.replace("label{0}", "label_de")}, "spec.main-language-missing", "domain.area.labels", "'en'"),
        (
            {"codes": CODES.replace("note", "label_en")},
            "domain.text-columns-twice",
            "domain.area",
            "'label' and 'label_en'",
        ),
        ({"codes": CODES.replace("sud", "nord")}, "spec.translated-label-twice", "domain.area.labels", "'fr'"),
        (
            {"places": PLACES.replace("Berne,Berna,371", "Bienne,Berna,371")},
            "domain.place-of-two-names",
            "domain.home",
            "canton_name_fr",
        ),
        (
            {"places": PLACES.replace("Wallis-VS", "")},
            "domain.text-column-incomplete",
            "domain.home",
            "'canton_name_fr'",
        ),
        (
            {"spec": FILES.format(TOWNS.replace(', "Viège"', ""))},
            "domain.names-of-places",
            "domain.home.names",
            "in 'fr'",
        ),
        (
            {"spec": FILES.format(TOWNS.replace("en = ", "de = "))},
            "spec.main-language-missing",
            "domain.home.names.town",
            "'en'",
        ),
    ],
)
def test_mistakes_in_files_of_texts_name_column_or_language(changed, code, key, text, tmp_path):
    with refused(code, key=key) as caught:
        from_files(tmp_path, **changed)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("ending", "tag"),
    [
        ("french", "fr"),
        ("French", "fr"),
        ("FR", "fr"),
        ("ger", "de"),
        ("deutsch", "de"),
        ("español", "es"),
        ("EN", "en"),
    ],
)
def test_a_column_that_ends_with_the_name_of_a_language_is_refused(ending, tag, tmp_path):
    for key, changed in (
        ("area", {"codes": CODES.replace("note", f"label_{ending}")}),
        ("home", {"places": PLACES.replace("canton_name_it", f"canton_name_{ending}")}),
    ):
        with refused("domain.text-column-language", key=f"domain.{key}") as caught:
            from_files(tmp_path, **changed)
        assert f"_{tag}'." in str(caught.value)
    ignored = from_files(tmp_path, codes=CODES.replace("note", "label_rm"))
    assert ignored == from_files(tmp_path)


def test_labels_of_a_wrong_number_name_their_language():
    with refused("spec.labels-misfit", key="domain.area.labels") as caught:
        Spec.from_toml(TOML.replace('["nord", "sud", "ouest"]', '["nord", "sud"]'))
    assert "2 labels in 'fr', and 3 codes" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "tag"),
    [("English", "en"), ("français", "fr"), ("DE", "de"), ("fra", "fr"), ("fr_CA", "fr-CA"), ("Deutsch", "de")],
)
def test_a_name_of_a_language_leads_to_its_tag(name, tag):
    for old, new in (('language = "en"', f'language = "{name}"'), ("[names.fr]", f'[names."{name}"]')):
        with refused("spec.language-tag-invalid") as caught:
            Spec.from_toml(TOML.replace(old, new)).publication()
        assert f"Write {tag!r}." in str(caught.value)


def test_a_text_in_place_of_a_list_shows_the_list():
    with refused("spec.wrong-type", key="metadata.keywords") as caught:
        Spec.from_toml(
            TOML.replace('keywords = { en = ["people"], fr = ["gens", "recensement"] }', 'keywords = "taxes"')
        )
    assert 'Write a list, such as keywords = ["taxes"].' in str(caught.value)
