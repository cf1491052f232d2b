"""Records for the registry of deployments: what they say is true of the release, and has the fields it asks for."""

import json
from datetime import date
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.reading.registry import as_yaml, filled, missing, registry_record
from fitnoise.request.documents import Spec
from fitnoise.request.record import RecordSpec, load_words
from laws.releases import by_command, released
from refused import refused
from zoo import WORKLOADS

pytestmark = pytest.mark.usefixtures("one_duckdb")

SAMPLES = Path(__file__).parent / "data" / "stored" / "releases"

SECTORS = ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]
VARIANTS = ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]
FIELDS = {
    "url_slug": str, "status": ["Draft"], "tier": [3],
    "deployment": {
        "basic": {
            "name": str, "data_curators": list, "intended_use": str, "data_product_type": ["Summary statistics"],
            "data_product_region": str, "description": str, "publication_date": str, "data_product_sector": SECTORS,
        },
        "dp_variant": {"variant_name": VARIANTS, "data_domain": str, "unprotected_quantities": str},
        "privacy_loss": {
            "privacy_unit": str, "privacy_unit_details": str,
            "privacy_parameters": {"rho": float, "epsilon": float, "delta": float},
            "privacy_parameters_details": str,
        },
        "deployment_model": {
            "model_name": ["Central"], "actors": str, "release_type": ["One release"],
            "data_source_type": ["Static"], "access_type": ["Non-interactive"],
        },
        "accounting": {"post_processing": str, "composition": str},
        "implementation": {"preprocessing_and_hyperparameter_tuning": str, "mechanisms": str, "justification": str},
        "administrative": {"sources": str, "registry_authors": list},
    },
}  # fmt: skip
"""A model of our own of the fields of tier 3 that a release has."""

SPEC_OF_RECORD = RecordSpec(
    data_curators=["An office"],
    intended_use='Planning: roads, "and" schools.',
    description="Homes\nby age.",
    data_product_region="Îles",
    data_product_sector="Government",
    publication_date=date(2026, 11, 23),
    actors="Staff.",
    justification="With users.",
    sources="https://example.org",
    registry_authors=["A. Author", "B: Author"],
)


def complies(record, model):
    """Every field is one of the model, and of its kind."""
    assert not set(record) - set(model)
    for key, value in record.items():
        kind = model[key]
        if isinstance(kind, dict):
            complies(value, kind)
        elif isinstance(kind, list):
            assert value in kind, key
        else:
            assert type(value) is kind, key
            assert value, key


def parsed(text):
    """Return the contents of the YAML of an entry: nested keys, and values written as in JSON."""
    root = {}
    open_, lines = [root], [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in lines:
        depth, (key, _, value) = (len(line) - len(line.lstrip())) // 2, line.strip().partition(":")
        del open_[depth + 1 :]
        open_[-1][key] = json.loads(value) if value else {}
        if not value:
            open_.append(open_[-1][key])
    return root


def read(name):
    return fn.Release.read(SAMPLES / name)


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_a_record_has_the_fields_of_the_registry_and_says_what_the_release_says(name):
    release = read(name)
    record, stated = (
        registry_record(release, SPEC_OF_RECORD),
        json.loads((SAMPLES / name / "release.json").read_text("utf-8")),
    )
    complies(filled(record), FIELDS)
    open_fields = missing(record)
    assert open_fields == ([] if release.plan.publication.title else ["url_slug", "name"])
    loss = record["deployment"]["privacy_loss"]
    parameters, pure = loss["privacy_parameters"], "pure_epsilon" in stated["charge"]
    assert record["deployment"]["dp_variant"]["variant_name"] == ("Pure DP" if pure else "Zero-concentrated DP")
    assert parameters["epsilon"] == pytest.approx(stated["charge"]["epsilon"])
    if not pure:
        assert Fraction(parameters["rho"]) >= Fraction(stated["charge"]["rho"])
        assert parameters["rho"] == pytest.approx(float(Fraction(stated["charge"]["rho"])))
        assert parameters["delta"] == stated["charge"]["delta"]
    assert stated["charge"]["privacy_unit"]["unit"] == loss["privacy_unit"]
    assert stated["plan"] in record["deployment"]["implementation"]["mechanisms"]


def test_public_quantities_are_stated_to_be_unprotected():
    for name, quantities in (("women", "None"), ("projection_exactly", "The number of records")):
        assert registry_record(read(name))["deployment"]["dp_variant"]["unprotected_quantities"] == quantities


def test_what_is_missing_is_a_comment_in_its_place():
    release = read("women")
    record = registry_record(release, RecordSpec(intended_use="Planning."))
    text = as_yaml(record)
    assert parsed(text) == {**filled(record), "deployment": parsed(text)["deployment"]}
    lines = text.splitlines()
    assert lines[lines.index('    intended_use: "Planning."') - 1] == "    # data_curators: to be filled"
    assert text.count("to be filled") == len(missing(record)) == 11
    assert "registry_authors" not in filled(record)["deployment"]["administrative"]


def test_a_record_as_yaml_says_the_same():
    record = registry_record(read("gaussian"), SPEC_OF_RECORD)
    assert parsed(as_yaml(record)) == record
    assert "delta: 1.0e-06" in as_yaml(record)  # without the point it would be a text


def test_a_record_says_which_records_count_and_who_is_left_out():
    domain = fn.Domain(age=fn.Ordered(0, 3, clip=True), sex=fn.Categorical(["f", "m"], if_outside="drop"))
    people = fn.PrivacyUnit("person", 2)
    plan = fn.plan(
        fn.Workload(domain, [fn.table("age", "sex", margin=40)]),
        title="Who, and where",
        source=fn.DataSource(where={"country": "SI"}),
        unit=people,
        other_units=[fn.PrivacyUnit("home", 6)],
    )
    release = released(plan, pd.DataFrame({"age": [1], "sex": ["f"], "country": ["SI"]}))
    record = registry_record(release)
    details = record["deployment"]["privacy_loss"]["privacy_unit_details"]
    assert people.describe() in details
    assert "t most 2 records of each person. This is assumed, not checked" in details
    assert "For one home (at most 6 records), add-or-remove-one, rho is" in details
    assert record["url_slug"] == "who-and-where"
    assert "age (4 cells), sex (2 cells)" in record["deployment"]["dp_variant"]["data_domain"]
    before = record["deployment"]["implementation"]["preprocessing_and_hyperparameter_tuning"]
    for sentence in ("records of which 'country' is 'SI'", "are left out by sex", "Values are coded: age"):
        assert sentence in before


def test_an_amount_is_declared_by_its_range_and_not_by_cells():
    plan = fn.plan(WORKLOADS["amounts"]())
    record = registry_record(released(plan, pd.DataFrame({"sex": ["f"], "weight": [3], "pay": [20], "age": [1]})))
    assert record["deployment"]["dp_variant"]["data_domain"] == (
        "Any records with values, declared in public, of sex (2 cells), weight (1 to 9 in steps of 2), "
        "pay (-20 to 40 in steps of 10, or none), age (4 cells)"
    )


def test_a_record_in_a_specification_is_no_part_of_the_plan(tmp_path):
    text = (
        '[record]\nintended_use = "Planning."\npublication_date = 2026-11-23\n\n'
        '[domain.sex]\ntype = "categorical"\ncodes = ["f", "m"]\n\n[[tables]]\nattributes = ["sex"]\nmargin = 9\n'
    )
    file = tmp_path / "spec.toml"
    file.write_text(text, encoding="utf-8")
    assert load_words(file) == RecordSpec(intended_use="Planning.", publication_date=date(2026, 11, 23))
    without = text[text.index("[domain") :]
    assert fn.plan(Spec.from_toml(text).publication()).hash == fn.plan(Spec.from_toml(without).publication()).hash


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[domain]\n", "spec.record-table-missing"),
        ('[record]\nintended = "x"\n', "spec.unknown-key"),
        ('[record]\ndata_curators = "An office"\n', "spec.wrong-type"),
        ('[record]\nsources = ""\n', "spec.wrong-length"),
        ('[record]\ndata_product_sector = "Sports"\n', "spec.wrong-type"),
        ("[record\n", "spec.not-toml"),
        (None, "spec.file-unreadable"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(tmp_path, text, code):
    file = tmp_path / "words.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with refused(code):
        load_words(file)


# --- on the command line ------------------------------------------------------------------------------------------


def test_a_record_is_written_or_printed(tmp_path, capsys):
    file = tmp_path / "record.yaml"
    by_command("write", "record", str(SAMPLES / "women"), "-o", str(file))
    assert parsed(file.read_text(encoding="utf-8"))["status"] == "Draft"
    output = capsys.readouterr()
    assert (output.out, "to be filled: url_slug, name" in output.err) == ("", True)
    by_command("write", "record", str(SAMPLES / "women"))
    assert capsys.readouterr().out == file.read_text(encoding="utf-8")
    by_command("write", "record", str(SAMPLES / "women"), "--json")
    printed = json.loads(capsys.readouterr().out)
    assert printed == {
        "record": filled(registry_record(read("women"))),
        "to_be_filled": missing(registry_record(read("women"))),
    }


def test_a_release_is_not_written_into(capsys):
    by_command("write", "record", str(SAMPLES / "women"), "-o", str(SAMPLES / "women" / "record.yaml"))
    assert "[release.place-inside-release]" in capsys.readouterr().err
    assert not (SAMPLES / "women" / "record.yaml").exists()
