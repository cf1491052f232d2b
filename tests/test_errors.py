"""Errors: every one has a code of its own and four sentences, and is the same in a copy."""

import ast
import copy
import pickle
import re
import sys
from pathlib import Path

import pytest

from fitnoise import errors
from fitnoise.errors import FitnoiseError, SpecError

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

from error_sites import CLASSES, SENTENCES, SOURCE, error_sites  # noqa: E402 - a module of the documentation

SITES = error_sites()


def test_the_source_has_errors_of_every_class():
    classes = {site.kind.__name__ for site in SITES}
    assert classes == set(CLASSES)
    assert len(SITES) > 500


def test_every_error_has_a_slug_and_four_sentences():
    """The slug is in the source, so that the page of codes has it; only the sentence on what is needed may be empty."""
    wrong = []
    for site in SITES:
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
    for site in SITES:
        places.setdefault(site.code, []).append(f"{site.file}:{site.line}")
    assert {code: where for code, where in places.items() if len(where) > 1} == {}


def test_no_code_splits_the_text_of_an_error():
    """An operation replaces the outcome of an error; it does not search its text."""
    wrong = []
    for path in SOURCE.rglob("*.py"):
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
