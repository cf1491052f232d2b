"""Stored plans and releases give the same numbers as when they were made, and an altered one is refused."""

import csv
import hashlib
import json
import re
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import PlanError
from fitnoise.messages import english
from stored import STORED
from tolerances import EXACT

pytestmark = pytest.mark.usefixtures("one_duckdb")

EXPECTED = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))
PLANS, RELEASES = EXPECTED["plans"], EXPECTED["releases"]
PRINTED = 1e-6
"""The last decimal of a CSV file."""
ITERATED = 1e-6
"""Tolerance in standard errors between the results of iterations on two machines."""
SIMULATED = 0.01
NUMBERS = ("value", "std_error", "moe", "unbiased_value", "biased_value", "simulated_rmse")


def plan_text(name):
    """A plan's text, byte by byte."""
    return (STORED / "plans" / f"{name}.json").read_bytes().decode()


def plan_of(name):
    return fn.Plan.from_json(plan_text(name))


def optional(text):
    return None if text is None else Fraction(text)


def failed_claims(verification):
    """The claims that do not hold."""
    return {english(c.claim): english(c.finding) for c in verification.checks if not c.holds}


def file_of(table):
    return re.sub(r"[\W_]+", "_", table.lower()).strip("_") + ".csv"


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_the_samples_are_all_there():
    assert {p.stem for p in (STORED / "plans").iterdir()} == PLANS.keys()
    assert {p.name for p in (STORED / "releases").iterdir()} == RELEASES.keys() < PLANS.keys()
    documents = [json.loads(plan_text(name)) for name in PLANS]
    assert {part["mechanism"] for d in documents for part in d["tables"]} == {
        "fit-for-use",
        "pure-fit-for-use",
        "projection",
    }
    assert {d["fitnoise_plan"] for d in documents} == {4}
    forms = {m["form"] for d in documents for m in d["questions"]}
    assert forms == {"distance", "formula", "rows", "box", "clamped"}


# --- plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_the_same_to_the_letter_and_costs_the_same(name):
    expected, text = PLANS[name], plan_text(name)
    plan = fn.Plan.from_json(text)
    assert plan.to_json() == text
    assert plan.hash == expected["hash"]
    assert '"proofs"' in text or plan.hash == hashlib.sha256(text.encode()).hexdigest()
    assert plan.loss.rho == Fraction(expected["exact_rho"])
    assert plan.loss.epsilon == optional(expected["exact_epsilon"])
    assert plan.table_part.exact_cost == Fraction(expected["exact_cost"])
    assert plan.bound == pytest.approx(expected["bound"], rel=EXACT)
    assert plan.table_part.objective_value == pytest.approx(expected["value"], rel=EXACT)
    assert plan.epsilon(1e-6) == pytest.approx(expected["epsilon"], rel=EXACT)
    assert len(plan.table_part.tables) == expected["tables"]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_verified(name):
    assert failed_claims(fn.verify(STORED / "plans" / f"{name}.json")) == {}


def doubled(numbers):
    """Double the first whole number of a list, or its numerator, be it written as a number or as a text."""
    above, *below = str(numbers[0]).split("/")
    numbers[0] = type(numbers[0])("/".join([str(2 * int(above)), *below]))


ALTERED = {
    "gaussian": lambda d: doubled(d["tables"][0]["strategy"][0]["mixing"][0][0]),
    "prefixes": lambda d: doubled(d["tables"][0]["strategy"][0]["basis"][0]),
    "wide_integers": lambda d: doubled(d["tables"][0]["strategy"][0]["scales"]),
    "many_scales": lambda d: doubled(d["tables"][0]["strategy"][0]["mixing"][0][0]),
    "replace_two": lambda d: doubled(d["tables"][0]["strategy"][0]["mixing"][0][0]),
    "projection": lambda d: doubled(d["tables"][0]["strategy"][0]["scales"]),
    "pure": lambda d: doubled(d["tables"][0]["strategy"]["margins"][0]["rows"][0][1]),
    "gaussian_finite": lambda d: doubled(d["questions"][0]["values"]),
    "large_finite": lambda d: doubled(d["questions"][0]["weights"][1]),
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_integer_in_a_plan_is_refused(name, tmp_path):
    document = json.loads(plan_text(name))
    assert json.dumps(document, separators=(",", ":")) + "\n" == plan_text(name)
    ALTERED[name](document)
    altered = json.dumps(document, separators=(",", ":")) + "\n"
    assert altered != plan_text(name)
    with pytest.raises(PlanError):
        fn.Plan.from_json(altered)
    path = tmp_path / "plan.json"
    path.write_text(altered, encoding="utf-8", newline="")
    assert "the plan is complete, and its noise design costs what it states" in failed_claims(fn.verify(path))


# --- releases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_verified(name):
    assert failed_claims(fn.verify(STORED / "releases" / name)) == {}


def test_a_release_whose_plan_was_altered_is_refused(tmp_path):
    """One more in an entry that no costliest cell depends on costs the same, but it is another plan."""
    folder = Path(shutil.copytree(STORED / "releases" / "gaussian", tmp_path / "release"))
    document = json.loads(plan_text("gaussian"))
    document["tables"][0]["strategy"][0]["mixing"][0][0][0] += 1
    (folder / "plan.json").write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8", newline="")
    assert failed_claims(fn.verify(folder))["release.json says what the plan implies"].endswith("disagree on plan")


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_gives_the_tables_of_its_files(name):
    folder = STORED / "releases" / name
    release = fn.Release.read(folder)
    assert release.plan.hash == PLANS[name]["hash"]
    assert len(release) == PLANS[name]["tables"]
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))["written"]
    tables = list(release) if document == "all" else document
    assert {p.name for p in (folder / "tables").glob("*.csv")} == {file_of(table) for table in tables}
    for table in tables:
        frame = release[table]
        head, *rows = rows_of(folder / "tables" / file_of(table))
        assert head == list(frame.columns)
        assert len(rows) == len(frame)
        for i, column in enumerate(head):
            if column not in NUMBERS:
                ends = column.endswith(("_from", "_to"))
                texts = [("" if np.isnan(x) else f"{x:g}") if ends else str(x) for x in frame[column].tolist()]
                assert [row[i] for row in rows] == texts
                continue
            values = np.array([float(row[i]) for row in rows])
            allowed = PRINTED + EXACT * (np.abs(values) + frame["std_error"])
            if column == "biased_value":
                allowed = PRINTED + ITERATED * frame["std_error"]
            elif column == "simulated_rmse":
                allowed = PRINTED + SIMULATED * values
            assert (np.abs(frame[column] - values) <= allowed).all(), (table, column)


@pytest.mark.parametrize("name", [name for name in RELEASES if (STORED / "releases" / name / "histogram.csv").exists()])
def test_a_release_gives_the_histogram_of_its_file(name):
    frame = fn.Release.read(STORED / "releases" / name).histogram
    head, *rows = rows_of(STORED / "releases" / name / "histogram.csv")
    assert head == list(frame.columns)
    assert [row[:-1] for row in rows] == [[str(x) for x in row] for row in frame.iloc[:, :-1].to_numpy().tolist()]
    counts = np.array([float(row[-1]) for row in rows])
    np.testing.assert_allclose(frame["synthetic_records"], counts, atol=PRINTED)


@pytest.mark.parametrize("name", [name for name, document in RELEASES.items() if document["finite"]])
def test_a_release_gives_its_finite_answers(name):
    release = fn.Release.read(STORED / "releases" / name)
    answers = {
        question: [list(a.value) if isinstance(a.value, tuple) else a.value, a.output]
        for question, a in release.finite.items()
    }
    assert answers == RELEASES[name]["finite"]
    head, *rows = rows_of(STORED / "releases" / name / "finite.csv")
    assert head == ["question", "part", "value", "moe", "hit_rate"]
    parts = [(a.name, str(i), str(v)) for a in release.finite.values() for i, v in enumerate(a.parts, 1)]
    assert [tuple(row[:3]) for row in rows] == parts
    for question in release.finite:
        assert release.posterior(question)["probability"].sum() == pytest.approx(1)
