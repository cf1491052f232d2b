"""Compare the numbers of 200 publications with the frozen ones: `frozen.py` describes them, and writes them."""

import copy
import platform

import pytest

from frozen import CLOSE, EXPECTED, INPUTS, Computed, differences, documents, frozen, lines

FROZEN = frozen()
SUM = "gaussian: amounts"
"""A publication whose numbers are of every kind."""

pinned = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="the frozen numbers are those of x86-64: other arithmetic ends a search at other integers",
)


@pytest.fixture(scope="module")
def computed():
    process = Computed()
    yield process
    process.close()


def marked(name):
    """A publication as a parameter; planning takes long for some."""
    return pytest.param(name, marks=pytest.mark.slow if documents()[name].get("slow") else ())


@pinned
@pytest.mark.parametrize("name", [marked(name) for name in documents()])
def test_a_publication_has_its_frozen_numbers(computed, name):
    result = computed[name]
    assert not isinstance(result, str), result
    wrong = list(differences(result, FROZEN[name], (name,)))
    assert not wrong, "\n".join(wrong)


def test_200_publications_are_frozen_in_less_than_a_megabyte():
    assert len(documents()) == 200
    assert FROZEN.keys() == documents().keys()
    assert not [name for name, x in FROZEN.items() if isinstance(x, str)]
    assert INPUTS.read_text(encoding="utf-8") == lines(documents())
    assert EXPECTED.read_text(encoding="utf-8") == lines(FROZEN)
    assert INPUTS.stat().st_size + EXPECTED.stat().st_size < 10**6


def test_the_frozen_publications_have_every_kind_of_design():
    forms = {part["form"] for x in FROZEN.values() for part in x["plan"]["parts"]}
    assert forms == {"sectors", "products", "trees", "margins", "weights", "kernel", "staircase", "ranks"}


CHANGES = {
    "an integer": (("plan", "parts", 0, "integers", "digest"), lambda x: x[::-1]),
    "a noise scale": (("plan", "parts", 0, "scales", 0), lambda x: f"{x}1"),
    "an exact price": (("plan", "parts", 0, "price", "rho", 0), lambda x: f"1{x}"),
    "a bound": (("plan", "parts", 0, "bounds", "floats", 1), lambda x: x * (1 + 2 * CLOSE)),
    "a variance": (("plan", "parts", 0, "variances", "floats", 3), lambda x: x * (1 + 2 * CLOSE)),
    "a margin": (("plan", "parts", 0, "margins", "floats", 0), lambda x: x * (1 - 2 * CLOSE)),
    "a noisy answer": (("release", "answers", 0), lambda x: x + 1),
    "a number of integers": (("plan", "parts", 0, "integers", "numbers"), lambda x: x + 1),
    "a published number": (("release", "values", "floats", 0), lambda x: x + 1e-3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_number_is_named_with_both_values(change):
    path, changed = CHANGES[change]
    result = copy.deepcopy(FROZEN[SUM])
    inner = result
    for step in path[:-1]:
        inner = inner[step]
    frozen_number = inner[path[-1]]
    inner[path[-1]] = changed(frozen_number)
    (line,) = differences(result, FROZEN[SUM], (SUM,))
    assert line.startswith(SUM)
    assert str(frozen_number) in line
    assert str(inner[path[-1]]) in line


def test_a_missing_number_and_a_further_one_are_differences():
    stored = {"a": {"floats": [1.0]}, "b": ["1/3", 2], "of": 3}
    assert not list(differences(copy.deepcopy(stored), stored, ("it",)))
    for result, wrong in (
        ({"b": ["1/3", 2], "of": 3}, ["it, a: not found"]),
        (stored | {"c": 1}, ["it, c: not frozen"]),
        (stored | {"b": ["1/3"]}, ['it, b: ["1/3"] found, ["1/3", 2] frozen']),
        (stored | {"a": {"floats": [1.0], "of": 9}}, ["it, a: 9 found, null frozen"]),
        (stored | {"a": {"floats": [float("nan")]}}, ["it, a, 1: nan found, 1.0 frozen"]),
        (stored | {"of": True}, ["it, of: true found, 3 frozen"]),
    ):
        assert list(differences(result, stored, ("it",))) == wrong
