"""Every coding has its members, and every engine translates every coding."""

import inspect
from fractions import Fraction

import numpy as np
import pytest

from fitnoise.engines import dialects, duck, statements
from fitnoise.kernel import codings
from fitnoise.kernel.codings import (
    REFUSED,
    Codes,
    Coding,
    CodingWithMissing,
    Cuts,
    Interval,
    NumberCoding,
    Range,
    Steps,
)
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.domain import CODINGS
from refused import refused

CONCRETE = [c for c in (*CODINGS, Interval) if not inspect.isabstract(c)]

TRANSLATIONS = {
    "duck._cell": duck._cell,
    "duck._lists": duck._lists,
    "statements.cells_of": statements.cells_of,
    **{f"Dialect.{name}": vars(dialects.Dialect)[name].dispatcher for name in ("_key", "cell", "inside")},
}
"""The functions of engines that translate any coding."""

OF_CONDITIONS = (dialects.Dialect.__dict__["is_met_sql"].dispatcher, statements._is_met)
"""Those that translate the codings of conditions."""

EXAMPLES = (
    Codes((1, -3, 0), shared=(1, 0, 1)),
    Codes(("a", "b")),
    Range(-1, 3),
    Range(0, 5, clip=True),
    Cuts((-10.5, 0.0, 2.5)),
    Interval(-0.5, 2.5),
    Steps(Fraction(-3, 2), Fraction(6), Fraction(1, 2), (-3.0, 9.0)),
    Steps(Fraction(0), Fraction(6), Fraction(1)).uncut(),
    CodingWithMissing(Range(0, 5), ((-9,), ("x",)), absent=7, outside=REFUSED),
)


@pytest.mark.parametrize("coding", EXAMPLES)
def test_a_vector_of_values_has_the_cells_of_the_values(coding):
    values = [
        -(2.0**60),
        -9.0,
        -2.25,
        -1.0,
        -0.75,
        0.0,
        0.5,
        2.0,
        2.5,
        3.0,
        5.75,
        9.0,
        1e300,
        float("inf"),
        float("nan"),
    ]
    held = np.array(values) if coding.kind is int else np.array(["a", "b", "A", "", None], dtype=object)
    assert coding.vector(held).tolist() == [coding.cell_of(x) for x in held.tolist()]


@pytest.mark.parametrize("translation", TRANSLATIONS)
@pytest.mark.parametrize("coding", CONCRETE)
def test_every_engine_translates_every_coding(coding, translation):
    """Detects a coding that an engine would refuse when records are counted, after a plan was made."""
    dispatch = TRANSLATIONS[translation].dispatch
    assert dispatch(coding) is not dispatch(object)


@pytest.mark.parametrize("dispatcher", OF_CONDITIONS)
@pytest.mark.parametrize("coding", [Codes, Interval])
def test_every_engine_translates_every_condition(coding, dispatcher):
    assert dispatcher.dispatch(coding) is not dispatcher.dispatch(object)


def test_all_codings_of_the_kernel_are_translated():
    defined = {c for c in vars(codings).values() if inspect.isclass(c) and issubclass(c, Coding)}
    assert defined - {Coding, NumberCoding} == {*CODINGS, Interval} - {CODINGS[1]}


def test_an_engine_without_a_translation_names_the_coding():
    other = type("Other", (Coding,), {"size": 1, "kind": int, "cell": lambda self, value: None})()
    sqlite = dialects.DIALECTS["sqlite"]
    calls = (
        lambda: dialects.coded(other),
        lambda: duck._cell(other, 0, csv=True, held=None),
        lambda: duck._lists(other, 0, untyped=True),
        lambda: statements._is_met(other, "x"),
        lambda: statements.cells_of(other, []),
        lambda: sqlite.key(other, ColumnKind.INTEGER, "x"),
        lambda: sqlite.cell(other, ColumnKind.INTEGER, "x"),
        lambda: sqlite.inside(other, ColumnKind.INTEGER, "x"),
        lambda: sqlite.is_met_sql(other, ColumnKind.INTEGER, "x"),
        lambda: sqlite._missing_key(other, None, ColumnKind.INTEGER, "x"),
    )
    for call in calls:
        with pytest.raises(TypeError, match="does not translate the coding Other"):
            call()


@pytest.mark.parametrize("member", ["cell", "kind", "size"])
def test_a_coding_without_a_member_is_refused_at_its_definition(member):
    members = {"size": 1, "kind": int, "cell": lambda self, value: None}
    with pytest.raises(TypeError, match=f"The class Other lacks {member}\\.$"):
        type("Other", (Coding,), {name: x for name, x in members.items() if name != member})


@pytest.mark.parametrize("coding", [Range(0, 1), CodingWithMissing(Codes((1,)), ((2,),))])
def test_only_amounts_are_added_up(coding):
    with refused("domain.sum-within-unit-not-amount"):
        coding.uncut()
    with refused("domain.sum-within-unit-not-amount"):
        _ = coding.sum_range


def test_a_coding_without_classes_has_one_range():
    for coding in (Range(0, 1), Steps(Fraction(0), Fraction(2), Fraction(1))):
        assert coding.ranges == [(coding, [])]
        assert coding.for_class(3) is coding
