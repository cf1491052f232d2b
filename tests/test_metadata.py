"""Metadata of a publication: statements that change no number, written in the standards of catalogues and archives.

Each standard's own library or schema reads the files. pyshacl checks DCAT-AP by rules that `data/metadata` writes out.
csvw reads the CSV files by their description. pysdmx checks structures by the schema of SDMX, and numbers by the
structure. No package has the schema of DDI-Codebook, so its order of elements is written out below.
"""

import csv
import json
import re
import shutil
import sys
from collections import Counter
from datetime import date
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import openpyxl
import pytest
from csvw import CSVW, TableGroup
from hypothesis import given
from hypothesis import strategies as st
from pysdmx.io import get_datasets, read_sdmx
from pyshacl import validate
from rdflib import Graph
from rdflib.namespace import DCAT, DCTERMS, RDF

import fitnoise as fn
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.exports import sdmx
from fitnoise.interfaces.exports.export import FORMATS
from fitnoise.interfaces.exports.sdmx import ids
from fitnoise.interfaces.pages import report
from fitnoise.interfaces.render import printable
from fitnoise.interfaces.wording import wording
from fitnoise.messages import LANGUAGES, translator
from fitnoise.planning.plan import read_back
from fitnoise.reading.description import EntryReference, Superseded
from fitnoise.reading.release_files import csv_text
from fitnoise.request.documents import Spec
from fitnoise.request.metadata import LICENCES, Metadata, MetadataSpec
from fitnoise_check.plan import check
from laws.releases import answered
from refused import refused
from test_exports import HOSTILE
from test_pages import check_page, small

# pyshacl uses parts of rdflib that rdflib is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:(Dataset|ConjunctiveGraph).* is deprecated:DeprecationWarning")

DCAT_AP = str(Path(__file__).parent / "data" / "metadata" / "dcat_ap.ttl")
"""The rules of DCAT-AP, written out as SHACL."""

STATED = fn.Metadata(
    description=f"People by region.\n{HOSTILE}",
    publisher="Statistisches Amt",
    period="2025-Q2",
    geography="Beispielland",
    contact="Auskunft",
    contact_email="data@office.example",
    licence="CC-BY-4.0",
    version="1.2",
    keywords=("Einkommen", "=1+1"),
    unit_of_measure="Personen",
    amount_units={"wage": "EUR"},
    methodology="https://office.example/method",
)

FURTHER = fn.Metadata(
    description="Les gens & <b>.",
    publisher="Office des chiffres",
    geography="Exemplie",
    contact="Guichet",
    keywords=("revenu", "salaire"),
    unit_of_measure="personnes",
    amount_units={"wage": "euros"},
    methodology="Bruit",
)

FRENCH = fn.Translation(
    "Gens & <i>", {"sex": ["pareil", "pareil"]}, {"region": "région", "all": "Tous", "none": "néant"}, FURTHER
)

SPEC = """title = "People"
[metadata]
{}
[domain.sex]
type = "categorical"
codes = ["f", "m"]
[[tables]]
attributes = ["sex"]
margin = 9
"""

TEXTS = {"language": "de", "translations": {"fr": FRENCH}}
"""The languages of the publication of these tests."""

DDI = "{ddi:codebook:2_5}"

ORDER = {
    "codeBook": ["docDscr", "stdyDscr", "fileDscr", "dataDscr", "otherMat"],
    "stdyDscr": ["citation", "studyAuthorization", "stdyInfo", "studyDevelopment", "method", "dataAccs"],
    "citation": ["titlStmt", "rspStmt", "prodStmt", "distStmt", "serStmt", "verStmt", "biblCit", "holdings", "notes"],
    "titlStmt": ["titl", "subTitl", "altTitl", "parTitl", "IDNo"],
    "prodStmt": ["producer", "copyright", "prodDate", "prodPlac", "software", "fundAg", "grantNo"],
    "distStmt": ["distrbtr", "contact", "depositr", "depDate", "distDate"],
    "verStmt": ["version", "verResp", "notes"],
    "stdyInfo": ["studyBudget", "subject", "abstract", "sumDscr", "qualityStatement", "notes"],
    "subject": ["keyword", "topcClas"],
    "sumDscr": ["timePrd", "collDate", "nation", "geogCover", "geogUnit", "anlyUnit", "universe", "dataKind"],
    "method": ["dataColl", "notes", "anlyInfo"],
    "dataAccs": ["setAvail", "useStmt", "notes"],
    "useStmt": ["confDec", "specPerm", "restrctn", "contact", "citReq", "deposReq", "conditions", "disclaimer"],
    "fileDscr": ["fileTxt", "locMap", "notes"],
    "fileTxt": ["fileName", "fileCitation", "fileCont", "fileStrc", "dimensns", "fileType", "format"],
    "dimensns": ["caseQnty", "varQnty"],
    "dataDscr": ["varGrp", "nCubeGrp", "var", "nCube", "notes"],
    "var": ["location", "labl", "valrng", "universe", "sumStat", "txt", "catgry", "concept", "varFormat", "notes"],
    "catgry": ["catValu", "labl", "txt", "catStat"],
    "nCube": ["location", "labl", "txt", "universe", "anlysUnit", "purpose", "dmns", "measure", "notes"],
}
"""The order of child elements in the schema of DDI-Codebook 2.5 (ddialliance.org), of the elements used here."""


@cache
def plan():
    domain = fn.Domain(
        region=fn.Categorical({"01": "North", "@ö": HOSTILE, "-x": "Isles"}, missing={"none": [""]}),
        income=fn.Binned([0, 1000.5, 2000]),
        age=fn.Ordered(-1, 3),
        sex=fn.Categorical({"1": "same", "2": "same"}),
        wage=fn.Amount(0, 1000, ceilings=[200]),
    )
    tables = [
        fn.table("region", "income", margin=4),
        fn.table("region", groups={"sex": {"both": ["1", "2"]}}, margin=4),
        fn.table("sex", cumulative="age", margin=4, name=f"x {HOSTILE}"),
        fn.table("region", sum="wage", ceiling=200, margin=400, confidence=0.9),
        fn.table("sex", mean="wage", margin=90, reference=500),
        fn.table(margin=4, name="all"),
    ]
    return fn.plan(fn.Workload(domain, tables), title=HOSTILE, gap=1e-3, metadata=STATED, **TEXTS)


@pytest.fixture(scope="module")
def release():
    return answered(plan(), 10**6)


@pytest.fixture(scope="module")
def package(release, tmp_path_factory):
    return fn.export(release, tmp_path_factory.mktemp("metadata") / "package", sdmx=True, bands=fn.Bands(0.1, 0.3))


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- statements -------------------------------------------------------------------------------------------------------


def test_metadata_change_no_hash_and_no_number():
    """Detects metadata in the hash: a corrected address would be another plan, and another charge."""
    spec = Spec.from_publication(plan().publication)
    other = fn.plan(spec.model_copy(update={"metadata": MetadataSpec()}).publication())
    assert other.publication.metadata == Metadata()
    assert (other.hash, other.loss, other) == (plan().hash, plan().loss, plan())
    assert other.to_json() != plan().to_json()
    (*_,) = check(plan().to_json().encode(), plan().hash)


def test_metadata_are_kept_in_plan_and_specification(release, tmp_path):
    assert fn.Plan.from_json(plan().to_json()).publication.metadata == STATED
    assert read_back(plan()).publication.metadata == STATED
    text = Spec.from_publication(plan().publication).to_toml()
    assert Spec.from_toml(text).publication().metadata == STATED
    release.write(tmp_path / "release")
    stated = json.loads((tmp_path / "release" / "release.json").read_text(encoding="utf-8"))
    assert stated["spec"]["metadata"]["contact_email"] == STATED.contact_email
    assert fn.verify(tmp_path / "release").ok


def test_altered_metadata_of_a_release_are_found(release, tmp_path):
    """Detects a plan whose metadata are changed while release.json keeps the old ones."""
    folder = tmp_path / "release"
    release.write(folder)
    path = folder / "plan.json"
    path.write_text(path.read_text(encoding="utf-8").replace("data@office", "fake@office"), encoding="utf-8")
    checked = fn.verify(folder)
    assert [c.claim.id for c in checked.checks if not c.holds] == ["report.claim.description"]


@pytest.mark.parametrize(
    ("line", "code", "key"),
    [
        ('contact_email = "office.example"', "metadata-value-unreadable", "contact_email"),
        ('contact_email = "a b@office.example"', "metadata-value-unreadable", "contact_email"),
        ('licence = "CC BY 4.0"', "metadata-licence-unknown", "licence"),
        ('licence = "ftp://office.example"', "metadata-licence-unknown", "licence"),
        ('version = "1.0-beta"', "metadata-value-unreadable", "version"),
        ('version = "1.2.3.4"', "metadata-value-unreadable", "version"),
        ('agency = "1 office"', "metadata-value-unreadable", "agency"),
        ('keywords = ["a", " "]', "metadata-text-empty", "keywords"),
        ('description = ""', "metadata-text-empty", "description"),
        ('amount_units = { sex = "EUR" }', "metadata-unit-without-amount", "amount_units"),
        ("period = 2025", "wrong-type", "period"),
        ('colour = "red"', "unknown-key", "colour"),
        *(
            (f'period = "{x}"', "metadata-period-unreadable", "period")
            for x in ("25", "2025-13", "2025-Q5", "2025-S3", "2025-02-30", "0000", "2025-02-01/2025-01-01", "in 2025")
        ),
    ],
)
def test_a_statement_that_is_none_is_refused(line, code, key):
    with refused(f"spec.{code}", key=f"metadata.{key}"):
        Spec.from_toml(SPEC.format(line)).publication()


def test_the_error_of_a_statement_says_all():
    with refused("spec.metadata-value-unreadable") as error:
        fn.Metadata(contact_email="x")
    assert str(error.value).endswith(
        "The key contact_email is 'x'. It must be an e-mail address. Give a value such as data@office.example. "
        "No plan was made."
    )


@pytest.mark.parametrize(
    ("period", "first_day", "last_day"),
    [
        ("2024", date(2024, 1, 1), date(2024, 12, 31)),
        ("2024-S2", date(2024, 7, 1), date(2024, 12, 31)),
        ("2024-Q1", date(2024, 1, 1), date(2024, 3, 31)),
        ("2024-02", date(2024, 2, 1), date(2024, 2, 29)),
        ("2024-02-29", date(2024, 2, 29), date(2024, 2, 29)),
        ("2024-02-29/2025-03-01", date(2024, 2, 29), date(2025, 3, 1)),
    ],
)
def test_a_period_has_its_days(period, first_day, last_day):
    assert Metadata(period=period).days == (first_day, last_day)


def test_a_licence_has_a_page():
    assert {Metadata(licence=x).licence_url for x in LICENCES} == {f"https://spdx.org/licenses/{x}" for x in LICENCES}
    assert Metadata(licence="https://office.example/terms").licence_url == "https://office.example/terms"


# --- reports: schema.org ----------------------------------------------------------------------------------------------


def test_a_report_describes_itself_for_search_engines(release, tmp_path):
    text = fn.report(release, tmp_path / "a.html").read_text(encoding="utf-8")
    check_page(text)
    (block,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', text, re.DOTALL)
    assert not {"<", ">", "&"} & {*block}
    stated = json.loads(block)
    # The properties that Google's guide to Dataset requires, and the recommended ones that a specification can state.
    assert {"name", "description"} <= stated.keys()
    assert {"license", "creator", "identifier", "keywords", "temporalCoverage", "spatialCoverage"} <= stated.keys()
    assert {"variableMeasured", "measurementTechnique", "version"} <= stated.keys()
    assert (stated["name"], stated["description"]) == (HOSTILE, STATED.description)
    assert stated["temporalCoverage"] == "2025-04-01/2025-06-30"
    assert {x["unitText"] for x in stated["variableMeasured"]} == {"Personen", "EUR"}
    graph = Graph().parse(data=json.dumps({**stated, "@context": {"@vocab": "https://schema.org/"}}), format="json-ld")
    assert len(graph) > 30
    assert "Über diese Veröffentlichung" in fn.report(release, tmp_path / "b.html", language="de").read_text("utf-8")


@pytest.mark.parametrize(
    ("language", "expected"), [*zip(LANGUAGES, LANGUAGES, strict=True), ("pt", "en"), ("fr-CH", "fr")]
)
def test_texts_of_fitnoise_are_marked_with_their_language_in_every_entry(language, expected, tmp_path):
    """Detects a catalogue that shows English sentences as those of another language."""
    stated = fn.Metadata(methodology="Rauschen", keywords=["Wort"])
    built = counts(5, stated, language=language)
    package = fn.export(built, tmp_path / "package", sdmx=True)
    entry = json.loads((package / "dcat.jsonld").read_text(encoding="utf-8"))
    assert [x["@language"] for x in entry["dct:description"]] == [expected]
    assert [x["@language"] for stated in entry["dct:provenance"] for x in stated["rdfs:label"]] == [language, expected]
    assert [x["@language"] for x in entry["dcat:keyword"]] == [language]
    files = {
        x.name: x.read_text(encoding="utf-8") for x in package.rglob("*") if x.suffix in (".json", ".jsonld", ".xml")
    }
    files.pop("manifest.json")
    tags = {tag for text in files.values() for tag in re.findall(r'(?:xml:lang="|"@language": ")([^"]*)', text)}
    assert tags == {language, expected}
    texts_of = {x: translator(x).texts for x in LANGUAGES}
    for text_id in ("page.export.value", "page.export.confidence", "page.export.kind", "page.sdmx.obs_value"):
        start = {x: re.split(r"[{(:]", texts[text_id].replace("{text} ", ""))[0] for x, texts in texts_of.items()}
        languages = {
            x for x, text in start.items() if any(text in y or json.dumps(text)[1:-1] in y for y in files.values())
        }
        assert languages == {x for x in LANGUAGES if start[x] == start[expected]}
    assert fn.verify_export(built, package)


def test_a_report_without_metadata_has_no_description(tmp_path):
    text = fn.report(small(), tmp_path / "a.html").read_text(encoding="utf-8")
    assert "ld+json" not in text
    assert 'id="about"' not in text
    package = fn.export(small(), tmp_path / "package")
    assert {x.name for x in package.iterdir()} == {"tables", "datapackage.json", "manifest.json"}


# --- packages ---------------------------------------------------------------------------------------------------------


def test_the_catalogue_entry_keeps_the_rules_of_dcat_ap(package, release):
    graph = Graph().parse(package / "dcat.jsonld", publicID="https://office.example/data/dcat.jsonld")
    conforms, _, text = validate(graph, shacl_graph=DCAT_AP)
    assert conforms, text
    (dataset,) = graph.subjects(RDF.type, DCAT.Dataset)
    files = {str(x) for x in graph.objects(None, DCAT.accessURL)}
    assert files == {f"https://office.example/data/tables/{x.name}" for x in (package / "tables").iterdir()}
    assert len(set(graph.objects(dataset, DCAT.keyword))) == 4
    # The rules find something: without a title there is no data set.
    graph.remove((dataset, None, None))
    graph.add((dataset, RDF.type, DCAT.Dataset))
    assert not validate(graph, shacl_graph=DCAT_AP)[0]


def test_the_csv_files_are_read_by_their_description(package, release):
    described = CSVW(str(package / "csv-metadata.json"), validate=True)
    assert described.is_valid
    for table, expected in zip(
        TableGroup.from_file(package / "csv-metadata.json").tables, release.values(), strict=True
    ):
        rows = list(table.iterdicts(strict=True))
        assert len(rows) == len(expected)
        assert [float(row["value"]) for row in rows] == pytest.approx(expected["value"].to_numpy(), abs=1e-6)
        keys = table.tableSchema.primaryKey or []
        by_name = {c.name: c.header for c in table.tableSchema.columns}
        assert len({tuple(row[by_name[k]] for k in keys) for row in rows}) == len(rows)
    text = (package / "csv-metadata.json").read_text(encoding="utf-8")
    assert "Sicherheit: 0,9." in text
    assert "Maßeinheit: EUR." in text or "Ma\\u00dfeinheit: EUR." in text


def test_the_codebook_has_the_order_of_its_schema(package, release):
    book = ElementTree.parse(package / "ddi.xml").getroot()  # noqa: S314 - a file of this test
    assert book.tag == f"{DDI}codeBook"
    for element in book.iter():
        tags = [child.tag.removeprefix(DDI) for child in element]
        order = ORDER.get(element.tag.removeprefix(DDI), [])
        positions = [order.index(tag) for tag in tags]
        assert positions == sorted(positions)
    keys = [x.get("ID") for x in book.iter() if x.get("ID")]
    assert len(keys) == len({*keys})
    assert {x.get("varRef") for x in book.iter() if x.get("varRef")} <= {*keys}
    assert {x.get("files") for x in book.iter(f"{DDI}var")} <= {*keys}
    cubes = list(book.iter(f"{DDI}nCube"))
    assert [cube.get("name") for cube in cubes] == list(release)
    for cube, name in zip(cubes, release, strict=True):
        assert int(cube.get("cellQnty")) == len(release[name])
        assert len(cube.findall(f"{DDI}dmns")) == int(cube.get("dmnsQnty"))
        ways = [x.get("aggrMeth") for x in cube.findall(f"{DDI}measure")]
        assert ways[0] in ("count", "sum", "average")
        assert {*ways[1:]} == {"other"}
    labels = {x.findtext(f"{DDI}catValu"): x.findtext(f"{DDI}labl") for x in book.iter(f"{DDI}catgry")}
    # The apostrophe is that of the CSV file, which keeps spreadsheets from running the text.
    assert labels["'@ö"] == HOSTILE
    # bins, ages and groups, whose column has no codes, have labels like all others
    variables = {x.get("ID"): x for x in book.iter(f"{DDI}var")}
    labelled = [variables[x.get("varRef")] for x in book.iter(f"{DDI}dmns")]
    assert {"region_code", "income", "age", "sex", "sex_code"} <= {x.get("name") for x in labelled}
    for variable in labelled:
        texts = [x.findtext(f"{DDI}labl") for x in variable.iter(f"{DDI}catgry")]
        assert texts
        assert all(texts), variable.get("name")
    bins = next(x for x in labelled if x.get("name") == "income")
    own_words = wording(plan().publication.language, [plan().publication])
    labels_of_bins = [own_words.label("income", x) for x in plan().publication.domain["income"].values]
    assert [x.findtext(f"{DDI}labl") for x in bins.iter(f"{DDI}catgry")] == labels_of_bins


def test_the_numbers_fit_the_structure_of_sdmx(package, release):
    structure = package / "sdmx" / "structure.xml"
    message = read_sdmx(structure, validate=True)
    flows = {flow.name: flow for flow in message.get_dataflows()}
    assert list(flows) == [wording("de", [release.plan.publication]).table(name) for name in release]
    lists = {x.id: {i.id: i for i in x.items} for x in message.get_codelists()}
    for path, (name, expected) in zip(
        [package / "sdmx" / f"{x.stem}.csv" for x in tables_in_order(package)], release.items(), strict=True
    ):
        (data,) = get_datasets(path, structure, validate=True)
        rows, components = rows_of(path), data.structure.components
        assert [float(row["OBS_VALUE"]) for row in rows] == pytest.approx(expected["value"].to_numpy(), abs=1e-6)
        assert {row["CONF_LEVEL"] for row in rows} == {"0.9" if "wage sum" in name else "0.95"}
        assert {row["UNIT_MEASURE"] for row in rows} == {"EUR" if "wage" in name else "Personen"}
        assert {row["TIME_PERIOD"] for row in rows} == {"2025-Q2"}
        dimensions = [x for x in components.dimensions if x.id != "TIME_PERIOD"]
        for dimension in dimensions:
            assert {row[dimension.id] for row in rows} == {*(i.id for i in dimension.local_codes.items)}
        assert len({tuple(row[x.id] for x in dimensions) for row in rows}) == len(rows)
        assert "WAGE" not in rows[0]
    region = lists["CL_REGION"]
    assert [(i, x.name, x.description) for i, x in region.items()] == [
        ("01", "North", None),
        ("__", HOSTILE, "@ö"),
        ("_x", "Isles", "-x"),
        ("none", "none", None),
    ]
    text = structure.read_text(encoding="utf-8")
    assert '<com:Name xml:lang="de">North<' in text
    assert '<com:Name xml:lang="de">region</com:Name><com:Name xml:lang="fr">région<' in text
    assert '<com:Name xml:lang="de">same</com:Name><com:Name xml:lang="fr">pareil<' in text
    assert '<com:Name xml:lang="de">none</com:Name><com:Name xml:lang="fr">néant<' in text
    assert text.count('<com:Name xml:lang="fr">Gens &amp; &lt;i&gt;<') == 1
    assert "North</com:Name><" not in text
    assert '<com:Name xml:lang="de">Maßeinheit<' in text


def test_each_export_has_each_text_once_in_its_language(package):
    """Compares the texts with their languages, as an own reader of each format finds them."""
    graph = Graph().parse(package / "dcat.jsonld", publicID="https://office.example/data/dcat.jsonld")
    dcat = Counter((str(x), x.language) for x in graph.objects() if getattr(x, "language", None))
    book = ElementTree.parse(package / "ddi.xml").getroot()  # noqa: S314 - a file of this test
    tag = "{http://www.w3.org/XML/1998/namespace}lang"
    ddi = Counter((x.text, x.get(tag)) for x in book.iter() if x.get(tag))
    group = json.loads((package / "csv-metadata.json").read_text(encoding="utf-8"))
    tagged = [x for listed in group.values() if isinstance(listed, list) for x in listed if "@value" in x]
    csvw = Counter((x["@value"], x["@language"]) for x in tagged)
    for language, title, stated in (("de", HOSTILE, STATED), ("fr", FRENCH.title, FURTHER)):
        publisher, contact, method = stated.publisher, stated.contact, stated.methodology
        common = {title, stated.description, stated.geography, *stated.keywords}
        assert {dcat[x, language] for x in common | {publisher, contact}} == {1}
        assert {csvw[x, language] for x in common | {publisher}} == {1}
        assert {ddi[printable_lines(x), language] for x in common | {contact, method}} == {1}
        assert ddi[publisher, language] == 2  # as producer and as distributor
    # The German note on the method is a URL, which has no language in RDF.
    assert dcat["Bruit", "fr"] == 1
    descriptor = (package / "datapackage.json").read_text(encoding="utf-8")
    assert not [x for x in (FURTHER.publisher, FURTHER.contact, *FURTHER.keywords) if x in descriptor]


def printable_lines(text):
    return "\n".join(map(printable, text.splitlines()))


def test_a_report_has_the_metadata_of_its_language(release):
    french, german = (report.page(release, language=x) for x in ("fr", "de"))
    for stated, page, other in ((FURTHER, french, german), (STATED, german, french)):
        assert [x for x in stated.keywords if x not in page] == []
        own_texts = (stated.publisher, stated.contact, stated.geography, stated.unit_of_measure)
        assert [x for x in own_texts if x not in page or x in other] == []
    assert "<dd>Les gens &amp; &lt;b&gt;.</dd>" in french
    assert "wage: euros" in french
    assert STATED.licence in french
    check_page(french)
    # No Spanish texts are stated.
    assert STATED.publisher in report.page(release, language="es")


def tables_in_order(package):
    return [Path(x["path"]) for x in json.loads((package / "datapackage.json").read_text("utf-8"))["resources"]]


def test_the_data_package_states_the_metadata(package):
    stated = json.loads((package / "datapackage.json").read_text(encoding="utf-8"))
    assert stated["licenses"] == [{"name": "CC-BY-4.0"}]
    assert (stated["version"], stated["keywords"], stated["description"]) == (
        "1.2",
        ["Einkommen", "=1+1"],
        STATED.description,
    )
    assert stated["contributors"] == [
        {"title": "Statistisches Amt", "role": "publisher", "email": "data@office.example"}
    ]


STATED_FOR_COUNTS = fn.Metadata(period="2025-01-01/2025-06-30", geography="https://office.example/place/1")


def counts(number, metadata=None, **texts):
    workload = fn.Workload(fn.Domain(a=fn.Categorical(["x", "y"])), [fn.table("a", margin=4)])
    return answered(fn.plan(workload, metadata=metadata, **texts), number)


@pytest.mark.parametrize("kind", ["integers", "combination"])
def test_tables_made_of_releases_are_described(kind, tmp_path):
    release = counts(50, STATED_FOR_COUNTS)
    if kind == "integers":
        tables, expected = fn.make_integer_tables(release, simulations=0), {"LOW", "HIGH"}
    else:
        tables, expected = fn.combine(release, counts(51), same_records=True), {"MOE", "STD_ERROR"}
    package = fn.export(tables, tmp_path / "package", sdmx=True)
    assert fn.verify_export(tables, package).ok
    (data,) = get_datasets(package / "sdmx" / "a.csv", package / "sdmx" / "structure.xml", validate=True)
    assert expected <= {x.id for x in data.structure.components.attributes}
    assert CSVW(str(package / "csv-metadata.json"), validate=True).is_valid


def test_a_package_with_sdmx_is_written_again(package, release, tmp_path):
    assert fn.verify_export(release, package).ok
    copy = shutil.copytree(package, tmp_path / "copy")
    path = copy / "sdmx" / "all.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("2025-Q2", "2025-Q3"), encoding="utf-8")
    assert not fn.verify_export(release, copy).ok


def test_a_correction_names_what_it_replaces(tmp_path):
    """Detects catalogue entries in which a corrected release does not lead to the earlier one."""
    plan_of_both = counts(0, STATED_FOR_COUNTS).plan
    entry, later_entry = (EntryReference(n, f"{n}" * 64) for n in (1, 2))
    answers = answered(plan_of_both, 50).answers
    earlier = fn.Release(plan_of_both, answers, entry=entry)
    chain = [Superseded(entry, "0" * 64, "a file was missing")]
    later = fn.Release(plan_of_both, answers, entry=later_entry, supersedes=chain)
    graphs = [
        Graph().parse(fn.export(x, tmp_path / name) / "dcat.jsonld", publicID="https://office.example/data/")
        for name, x in (("earlier", earlier), ("later", later))
    ]
    earlier_set, later_set = (next(graph.subjects(RDF.type, DCAT.Dataset)) for graph in graphs)
    assert earlier_set != later_set
    assert list(graphs[1].objects(later_set, DCTERMS.replaces)) == [earlier_set]
    assert not list(graphs[0].objects(earlier_set, DCTERMS.replaces))
    assert validate(graphs[1], shacl_graph=DCAT_AP)[0]
    book = ElementTree.parse(tmp_path / "later" / "ddi.xml").getroot()  # noqa: S314 - a file of this test
    assert book.findtext(f".//{DDI}verStmt/{DDI}notes") == "a file was missing"
    report = fn.report(later, tmp_path / "later.html").read_text(encoding="utf-8")
    assert '"correction": ["a file was missing"]' in report


@pytest.mark.parametrize("kind", ["release", "integers", "combination"])
@pytest.mark.parametrize("stated", [Metadata(), STATED_FOR_COUNTS], ids=["plain", "stated"])
def test_every_export_of_a_correction_names_what_it_replaces(kind, stated, tmp_path):
    """Detects a file that could be read without the news that its release is a correction, and why."""
    release = counts(50, stated)
    entry, later_entry = (EntryReference(n, f"{n}" * 64) for n in (7, 8))
    chain = [Superseded(entry, "0" * 64, "a file was missing")]
    later = fn.Release(release.plan, release.answers, entry=later_entry, supersedes=chain)
    source = {
        "release": lambda: later,
        "integers": lambda: fn.make_integer_tables(later, simulations=0),
        "combination": lambda: fn.combine(later, counts(51, stated), same_records=True),
    }[kind]()
    sentence = "of ledger entry 8 supersedes that of entry 7" if kind == "combination" else "of ledger entry 7"
    for ending in FORMATS:
        fn.export(source, tmp_path / f"a{ending}")
    sheets = openpyxl.load_workbook(tmp_path / "a.xlsx").worksheets
    described = {f"sheet {x.title}": " ".join(str(c.value) for row in x.iter_rows() for c in row) for x in sheets}
    described |= {x.name: x.read_text(encoding="utf-8") for x in tmp_path.glob("a.tex")}
    package = fn.export(source, tmp_path / "package", sdmx=True)
    files = [x for x in package.rglob("*") if x.suffix in (".json", ".jsonld", ".xml") and x.name != "manifest.json"]
    described |= {x.name: x.read_text(encoding="utf-8") for x in files}
    assert len(described) == len(sheets) + 1 + (2 if stated == Metadata() else 5)
    for name, text in described.items():
        assert sentence in text, name
        assert "a file was missing" in text, name
    descriptor = json.loads((package / "datapackage.json").read_text(encoding="utf-8"))
    assert descriptor["supersedes"] == [x.document() for x in chain]
    assert all("a file was missing" in x["description"] for x in (descriptor, *descriptor["resources"]))
    assert fn.verify_export(source, package)


def test_days_are_a_time_range_of_sdmx(tmp_path):
    package = fn.export(counts(50, STATED_FOR_COUNTS), tmp_path / "package", sdmx=True)
    assert {row["TIME_PERIOD"] for row in rows_of(package / "sdmx" / "a.csv")} == {"2025-01-01/P181D"}
    assert "FITNOISE:A(1.0.0)" in (package / "sdmx" / "a.csv").read_text(encoding="utf-8")
    graph = Graph().parse(package / "dcat.jsonld", publicID="https://office.example/data/dcat.jsonld")
    assert validate(graph, shacl_graph=DCAT_AP)[0]


def test_sdmx_is_refused_where_it_cannot_be(release, tmp_path, monkeypatch):
    with refused("release.export-option-unused"):
        fn.export(release, tmp_path / "a.tex", sdmx=True)
    monkeypatch.setitem(sys.modules, "pysdmx", None)
    with refused("release.package-missing") as error:
        fn.export(release, tmp_path / "package", sdmx=True)
    assert "fitnoise[sdmx]" in str(error.value)
    assert not (tmp_path / "package").exists()


def test_the_command_writes_sdmx(release, tmp_path):
    release.write(tmp_path / "release")
    main(["write", "export", str(tmp_path / "release"), "-o", str(tmp_path / "package"), "--sdmx"])
    assert (tmp_path / "package" / "sdmx" / "structure.xml").is_file()


@given(st.lists(st.text(max_size=8), unique=True, max_size=30), st.booleans())
def test_ids_are_different_and_fit_sdmx(texts, upper):
    made_ids = ids(texts, upper=upper, taken=sdmx.CONCEPTS)
    form = r"[A-Z][A-Z0-9_-]*" if upper else r"[A-Za-z0-9_$-]+"
    assert len({*made_ids}) == len(texts) == len(made_ids)
    assert all(re.fullmatch(form, x) for x in made_ids)
    assert not {*made_ids} & sdmx.CONCEPTS.keys()
    # An id is the same text in a CSV file, where a leading sign would get an apostrophe.
    columns = {"x": np.array(made_ids, dtype=object)} if made_ids else {}
    assert csv_text(columns).split("\n")[1:-1] == list(made_ids)
