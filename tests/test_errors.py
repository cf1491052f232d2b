"""Errors: every one has a code of its own and four sentences, and is the same in a copy."""

import ast
import copy
import pickle
import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise import errors
from fitnoise.errors import FitnoiseError, SpecError
from fitnoise.kernel.designs.sectors import StrategyGroup
from fitnoise.mechanisms.gaussian.estimate import inverse
from refused import refused

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

from error_sites import CLASSES, SENTENCES, SOURCES, error_sites  # noqa: E402 - a module of the documentation


def test_the_source_has_errors_of_every_class():
    classes = {site.kind.__name__ for site in error_sites()}
    assert classes == set(CLASSES)
    assert len(error_sites()) > 500


def test_every_error_has_a_slug_and_four_sentences():
    """The slug is in the source, so that the page of codes has it; only the sentence on what is needed may be empty."""
    wrong = []
    for site in error_sites():
        right = site.slug is not None and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", site.slug) is not None
        right &= len(site.sentences) == len(SENTENCES)
        for name, sentence in zip(SENTENCES, site.sentences, strict=False):
            ends = sentence is None or sentence[-1:] in {".", "!", "?", "…"}
            right &= ends or (sentence == "" and name == "needed")
        if not right:
            wrong.append(f"{site.file}:{site.line}: {site.slug}")
    assert wrong == []


def test_a_code_is_made_at_one_place():
    places = {}
    for site in error_sites():
        places.setdefault(site.code, []).append(f"{site.file}:{site.line}")
    assert {code: where for code, where in places.items() if len(where) > 1} == {}


def test_no_code_splits_the_text_of_an_error():
    """An operation replaces the outcome of an error; it does not search its text."""
    wrong = []
    for path in (path for folder in SOURCES for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                text = ast.unparse(node.func.value)
                cuts = node.func.attr in {"split", "partition", "rpartition", "replace", "removesuffix", "removeprefix"}
                if cuts and re.fullmatch(r"str\((error|e|exc|refusal)\)", text):
                    wrong.append(f"{path.name}:{node.lineno}")
    assert wrong == []


def example():
    return SpecError(
        "left-out-needs-id",
        "privacy.left_out is set, and privacy.id is not.",
        "Counting persons needs an id.",
        "Set privacy.id, or remove privacy.left_out.",
        "Nothing was planned.",
        place="privacy.left_out",
    )


def test_the_text_of_an_error_is_its_four_sentences():
    assert (
        str(example())
        == example().message
        == (
            "privacy.left_out is set, and privacy.id is not. Counting persons needs an id. "
            "Set privacy.id, or remove privacy.left_out. Nothing was planned."
        )
    )
    assert example().code == "spec.left-out-needs-id"


def test_the_text_of_an_error_names_its_place():
    error = example().with_place("tables[2].margin")
    assert str(error) == f"tables[2].margin: {example()}"
    assert error.message == str(example())


@pytest.mark.parametrize(
    ("name", "names", "advice"),
    [
        ("titel", ["title", "unit"], "Did you mean 'title'?"),
        ("JOINT", ["single", "joint"], "Did you mean 'joint'?"),
        ("joint ", ["Joint", "joint"], "Did you mean 'Joint'?"),
        ("12", [11, 12, 13], "Write 12 without quotes."),
        (12, ["11", "12"], "Write '12' in quotes."),
        ("130", [12, 13, 30], "Look."),
        (130, ["13", "30"], "Look."),
        ("x", [], "Look."),
    ],
)
def test_the_nearest_name_is_advised_in_its_own_form(name, names, advice):
    """No advice repeats what was given, and no number is near another."""
    assert errors.advise_name(name, names, "Look.") == advice


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301 - its own
def test_a_copy_of_an_error_is_the_same(copied):
    error = example()
    twin = copied(error)
    assert type(twin) is SpecError
    assert (str(twin), twin.code, twin.place, twin.args) == (str(error), error.code, error.place, error.args)


def test_an_operation_replaces_the_outcome_and_the_place():
    error = example()
    charged = error.with_outcome("The charge of entry 5 stays.").with_place("privacy")
    assert charged.message == f"{error.reason} The charge of entry 5 stays."
    assert (charged.code, charged.place) == (error.code, "privacy")
    assert str(pickle.loads(pickle.dumps(charged))) == str(charged)  # noqa: S301 - its own
    assert (error.outcome, error.place) == ("Nothing was planned.", "privacy.left_out")


def test_an_error_keeps_the_code_that_it_takes_from_another():
    error = example()
    error.area = "workload"
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error)), error.with_outcome("Nothing was read.")):  # noqa: S301 - its own
        assert (type(twin), twin.code) == (SpecError, "workload.left-out-needs-id")
    assert example().code == "spec.left-out-needs-id"


def test_an_error_needs_all_its_sentences():
    for missing in range(1, 5):
        with pytest.raises(TypeError):
            SpecError(*example().args[:missing])


def test_areas_name_the_classes():
    """A subclass shares the area of its class, so that a code stays where a fault becomes a class of its own."""
    areas = {name: kind.area for name, kind in CLASSES.items()}
    roots = {kind for kind in CLASSES.values() if FitnoiseError in kind.__bases__}
    assert len({root.area for root in roots}) == len(roots)
    for name, kind in CLASSES.items():
        assert areas[name] in {base.area for base in kind.__mro__ if base in roots or base is FitnoiseError}
    assert errors.BudgetExceeded.area == "ledger"


def sexes():
    return fn.Workload(fn.Domain(sex=fn.Categorical(["f", "m"])), [fn.table("sex", margin=5)])


def over_cap(folder):
    plan = fn.plan(sexes())
    ledger = fn.Ledger(folder / "ledger.sqlite")
    ledger.set_cap(fn.Account("default", plan.publication.unit), Fraction(1, 10**6))
    fn.release(plan, pd.DataFrame({"sex": ["f"]}), ledger=ledger, directory=folder / "release")


def other_columns(folder):
    frame = pd.DataFrame({"gender": ["f"]})
    fn.release(fn.plan(sexes()), frame, ledger=folder / "ledger.sqlite", directory=folder / "release")


def no_ledger(folder):
    (folder / "ledger.sqlite").write_text("text")
    fn.Ledger(folder / "ledger.sqlite")


def gap_out_of_reach(_folder):
    rng = np.random.default_rng(1)
    workload = fn.matrix_workload(rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5)), variances=1)
    fn.plan(workload, gap=1e-8)


def singular(_folder):
    none = np.zeros((1, 0), dtype=np.intp)
    inverse(StrategyGroup(none, none, np.eye(1, dtype=int), np.array([[[0]]]), np.array([2.0**10])))


TEXTS = {
    "domain.codes-missing": (
        lambda _folder: fn.Categorical([]),
        (
            "The attribute has no code. A categorical attribute needs at least one code. List the codes that the "
            "data hold. No attribute was made."
        ),
    ),
    "workload.attribute-twice": (
        lambda _folder: fn.table("sex", "sex", margin=5),
        (
            "The attribute 'sex' appears twice in one table. Name each attribute once, or publish two tables. "
            "Nothing was planned."
        ),
    ),
    "spec.max-records-per-unit-invalid": (
        lambda _folder: fn.PrivacyUnit("person", max_records=0),
        (
            "privacy.max_records: The privacy unit has at most 0 records. This bound must be a whole number from "
            "1 to 10^12. Declare the largest number of records that one unit can have. Nothing was planned."
        ),
    ),
    "plan.gaussian-plan-exceeds-cap": (
        lambda _folder: fn.plan(sexes(), cap=fn.Budget(rho=Fraction(1, 10**6))),
        (
            "The plan costs ρ = 0.0768292, and the cap is ρ = 1e-06. No mechanism of its kind meets the targets "
            "below ρ = 0.0768292. Loosen the most expensive targets (sex: 100% of the price), or raise the cap. "
            "No plan was made."
        ),
    ),
    "plan.gap-not-reached": (
        gap_out_of_reach,
        (
            "The requested gap is 1.0e-08, and the certified gap of the plan is GAP (the search reached the "
            "requested gap; this is the gap of the solver; the gap of the plan is the stated one). The queries are "
            "real numbers of deficient rank, answered to 26 bits, and the gap includes this error. Request a larger "
            "gap, allow more iterations, or leave gap out to take the plan as it is. No plan was made."
        ),
    ),
    "plan.singular-sector": (
        singular,
        (
            "An integer strategy of a sector is singular. Its answers cannot be rebuilt. Use the plan as fitnoise "
            "wrote it, or plan again. Nothing was rebuilt."
        ),
    ),
    "plan.not-a-plan": (
        lambda _folder: fn.Plan.from_json("{}"),
        (
            "The key 'fitnoise_plan' is missing, so the document is not a plan. Give a plan that fitnoise wrote. "
            "Nothing was measured."
        ),
    ),
    "data.column-missing": (
        other_columns,
        (
            "The column 'sex' does not exist in the DataFrame; it is needed for the attribute 'sex'. The columns "
            "are ['gender']. Rename the column, or name another one (column = …, id = …, where = …). Nothing was "
            "measured and nothing was charged."
        ),
    ),
    "ledger.not-a-ledger": (
        no_ledger,
        (
            "The ledger FOLDER/ledger.sqlite is not a ledger. Give the path of a ledger, or of a file that does "
            "not exist yet. This operation charged nothing and changed nothing."
        ),
    ),
    "ledger.over-cap": (
        over_cap,
        (
            "A cost of ρ = about 0.0768292 does not fit into the remaining ρ = about 1e-06 for 'default' (one "
            "record, add-or-remove-one). The spent ρ is 0 and the cap is about 1e-06, so the cost, rounded up to "
            "a multiple of 2⁻⁶⁴, is about 0.0768282 too large. Ask for less accuracy, or raise the cap. Entry 2 "
            "records this refusal. Nothing was measured and nothing was charged."
        ),
    ),
    "release.file-not-readable": (
        lambda folder: fn.Release.read(folder / "none"),
        (
            "'FOLDER/none/plan.json' is missing or unreadable. Check the path, and the permission to read it. The "
            "file was not read."
        ),
    ),
}
"""An error of each class: its code, a call that raises it, and its complete text."""


@pytest.mark.parametrize("code", TEXTS)
def test_an_error_of_each_class_has_a_complete_text(code, tmp_path):
    call, text = TEXTS[code]
    with refused(code) as caught:
        call(tmp_path)
    message = re.sub(r"(?<=of the plan is )[-.e0-9]+", "GAP", str(caught.value))  # it depends on the processor
    assert message.replace(str(tmp_path), "FOLDER") == text


def test_a_complete_text_of_each_class_is_compared():
    classes = {site.kind for site in error_sites() if site.code in TEXTS}
    assert classes == set(CLASSES.values()) - {FitnoiseError}
