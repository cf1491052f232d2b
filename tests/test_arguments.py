"""Any wrong argument of a public function gives an error of fitnoise, before anything happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pytest

import fitnoise as fn
from fitnoise.errors import FitnoiseError, ReleaseError, SpecError
from fitnoise.kernel.checks import describe_value
from fitnoise.request.arguments import checked, matches_hint, refuse_unless_fields_fit
from refused import refused

if TYPE_CHECKING:
    from nowhere import Unknown

HUGE = 10**400


class Colour(StrEnum):
    RED = "red"


class Speaker(Protocol):
    def say(self) -> None: ...


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (bool, [True, np.True_], [1, 0.0, "true", None]),
        (int, [1, -1, HUGE, np.int8(3)], [True, 1.0, "1", None, np.bool_(1)]),
        (float, [1, 1.5, Fraction(1, 3), Decimal("0.1"), np.float32(2), float("nan")], [True, "1", HUGE, 1j, [1]]),
        (Fraction, [1, 0.5, Fraction(1, 3)], ["1/3", None]),
        (str, ["", "x"], [b"x", 1, None, ["x"]]),
        (int | None, [None, 1], ["x", 1.5]),
        (Colour, [Colour.RED, "red"], ["blue", 1, np.array([1, 2])]),
        (Literal["a", "b"], ["a"], ["c", 1, ["a"], np.array(["a", "b"])]),
        (Callable[[int], None], [print], [3, "print"]),
        (str | os.PathLike[str], ["x", "", os.curdir], ["\0", "\ud800", 3, b"x"]),
        (Iterable[str], [["x"], ("x",), iter("x"), {"x"}], ["x", b"x", 3, None]),
        (Sequence[fn.Plan], [[], ()], ["x", [3], (None,), {"x": 1}]),
        (Iterable[fn.Table | fn.Family], [[fn.table("a", margin=1)], iter([3])], [[3]]),
        (Mapping[str, int], [{}, {"x": 1}, {"x": "not looked at"}], [[], "x", [("x", 1)]]),
        (Mapping[str, Mapping[str, Any]], [{"x": {}}], [{"x": 3}, {"x": "y"}]),
        (fn.Domain, [fn.Domain(a=fn.Ordered(0, 1))], ["x", {}, None]),
        (None, [None], [0, ""]),
        (Any, [object(), None], []),
        (Speaker, [object()], []),
        ("a text", [object()], []),
    ],
    ids=lambda x: None if isinstance(x, list) else str(x),
)
def test_what_fits(hint, good, bad):
    assert [x for x in good if not matches_hint(x, hint)] == []
    assert [x for x in bad if matches_hint(x, hint)] == []


@checked(SpecError, "Nothing was done.")
def shouted(text: str, *others: int, twice: bool = False, unknown: Unknown | None = None, **numbers: float) -> str:
    del unknown
    return f"{text}{sum(others)}{sum(numbers.values()):g}" * (1 + twice)


def test_a_function_that_fits_is_called_as_it_is():
    assert shouted("a", 1, 2, twice=True, unknown=object(), b=0.5) == "a30.5a30.5"
    assert shouted.__name__ == "shouted"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((3,), {}, "The value of text is 3. It must be a text."),
        (("a", 1, "x"), {}, "The value of others is 'x'. It must be a whole number."),
        (("a",), {"twice": None}, f"The value of twice is {None}. It must be True or False."),
        (("a",), {"b": HUGE}, f"The value of numbers is 1{'0' * 39}…. It must be a number."),
        ((["secret"],), {}, "The value of text is an object of type list. It must be a text."),
    ],
)
def test_unsuitable_arguments_are_reported(args, kwargs, message):
    with pytest.raises(SpecError) as caught:
        shouted(*args, **kwargs)
    assert caught.value.code == "spec.wrong-type"
    assert f"{caught.value.given} {caught.value.needed}" == message
    assert caught.value.outcome == "Nothing was done."


@checked(SpecError, "Nothing was done.", absent={"seed": "Noise has no seed."})
def whispered(text: str, *, loudness: int = 0) -> str:
    return text[loudness:]


HAS_NO, HAS = "whispered() has no argument", "Its arguments are text, loudness."
ONCE = "Give each required argument once."
WRONG_CALL = "whispered() was called with wrong arguments:"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: whispered("a", lodness=1), f"{HAS_NO} 'lodness'. {HAS} Did you mean 'loudness'?"),
        (lambda: whispered("a", qq=1, rr=2), f"{HAS_NO} 'qq'. {HAS} Use one of its arguments."),
        (lambda: whispered("a", seed=1), f"{HAS_NO} 'seed'. Noise has no seed."),
        (whispered, f"{WRONG_CALL} missing a required argument: 'text'. {ONCE}"),
        (lambda: whispered("a", "b"), f"{WRONG_CALL} too many positional arguments. {ONCE}"),
        (lambda: whispered("a", text="b"), f"{WRONG_CALL} multiple values for argument 'text'. {ONCE}"),
    ],
)
def test_an_argument_of_another_name_is_refused_before_the_function_runs(call, sentence):
    with pytest.raises(SpecError) as caught:
        call()
    assert str(caught.value) == f"{sentence} Nothing was done."


FUNCTIONS = [name for name in fn.__all__ if callable(getattr(fn, name)) and not isinstance(getattr(fn, name), type)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_names_an_argument_it_does_not_have(name):
    assert len(FUNCTIONS) > 10
    codes = ("release.unknown-argument", "spec.unknown-argument", "workload.unknown-argument")
    with refused(*codes, key="unheard_of") as caught:
        getattr(fn, name)(unheard_of=1)
    assert caught.value.given.startswith(f"{name}() ")


@pytest.mark.parametrize("name", ["seed", "random_state", "rng", "random_seed"])
def test_a_seed_is_refused_with_the_reason_and_the_way_to_test(name, tmp_path):
    plan = fn.plan(fn.Workload(fn.Domain(a=fn.Categorical(["x", "y"])), [fn.table("a", margin=5)]))
    ledger = tmp_path / "l.sqlite"
    for call in (
        lambda: fn.release(plan, pa.table({"a": ["x", "y"]}), ledger=ledger, **{name: 1}),
        lambda: fn.read_period(plan, 1, ledger=ledger, series=tmp_path, **{name: 1}),
    ):
        with refused("release.absent-argument") as caught:
            call()
        assert "fitnoise.Release(plan, answers). Nothing was" in str(caught.value)
    assert not ledger.exists()
    answers = [np.arange(n) for n in plan.groups[0].strategy.lengths]
    assert fn.Release(plan, answers)["a"].equals(fn.Release(plan, answers)["a"])  # the way that the error names


@pytest.mark.parametrize(
    ("hint", "kind_text"),
    [
        (int | str | None, "a whole number or a text or None"),
        (Literal["a", "b"], "'a' or 'b'"),
        (Colour | None, "'red' or None"),
        (tuple[fn.Plan, ...], "a list (of Plan)"),
        (Mapping[str, Any], "a mapping"),
        (Callable[[int], None], "a function"),
        (str | os.PathLike[str], "a text or a path"),
        (Sequence[int | float], "a list (of a whole number or a number)"),
        (Iterable[Any], "a list (of anything)"),
    ],
    ids=str,
)
def test_kinds_are_described_in_words(hint, kind_text):
    @dataclass
    class Record:
        x: Any

        def __post_init__(self):
            refuse_unless_fields_fit(self, SpecError, "Nothing was made.")

    Record.__annotations__["x"] = hint
    with refused("spec.wrong-type") as caught:
        Record(b"bytes")
    assert caught.value.given == "The value of x is an object of type bytes."
    assert caught.value.needed == f"It must be {kind_text}."


def test_only_texts_and_numbers_are_shown():
    """A value given in a wrong place may be data."""
    descriptions = {None: "None", True: "True", "x": "'x'", 1.5: "1.5", Fraction(1, 3): "Fraction(1, 3)"}
    assert {x: describe_value(x) for x in descriptions} == descriptions
    assert describe_value("x" * 100) == "'" + "x" * 39 + "…"
    assert describe_value(10**5000) == "a number of too many digits"
    table = pa.table({"a": ["secret"]})
    for x in (table, ["secret"], {"secret": "secret"}, np.array(["secret"]), np.float64(41)):
        assert "secret" not in describe_value(x)
        assert "41" not in describe_value(x)


# --- every public function --------------------------------------------------------------------------------------

WRONG = [
    3, -1, 2.5, float("nan"), "x", "", b"x", None, True, object(), [], {}, ["x"], [3], [None], {"x": 3}, {3: "x"},
    {"x": "y"}, {"x": None}, (1, 2), np.array([1, 2]), lambda *_: None, 1j, HUGE, "\0", "\ud800",
]  # fmt: skip


def domain():
    return fn.Domain(a=fn.Ordered(0, 3), b=fn.Categorical(["x", "y"]))


def workload():
    return fn.Workload(domain(), [fn.table("a", "b", margin=5)])


def publication(**options):
    return fn.Publication(workload(), **options)


def workload_of(attribute, view="z"):
    return fn.Workload(fn.Domain(z=attribute), [fn.table(view, margin=5)])


MAKERS = {
    "Publication": (publication, {}),
    "Objective": (lambda **x: publication(objective=fn.Objective(**x)), {}),
    "Budget": (fn.Budget, {}),
    "Budget of ε": (lambda **x: fn.Budget(epsilon=1.0, **x), {}),
    "CellBudgets": (fn.CellBudgets, {"attributes": ("b",), "values": (1.0, 0.5)}),
    "SmallDatabase": (fn.SmallDatabase, {"size": 40}),
    "PrivacyUnit": (fn.PrivacyUnit, {}),
    "DataSource": (fn.DataSource, {}),
    "Ordered": (lambda **x: workload_of(fn.Ordered(**x)), {"low": 0, "high": 3}),
    "Binned": (lambda **x: workload_of(fn.Binned(**x)), {"cuts": [1, 2]}),
    "Categorical": (lambda **x: workload_of(fn.Categorical(**x)), {"codes": ["x", "y"]}),
    "Amount": (lambda **x: fn.Domain(z=fn.Amount(**x)), {"low": 0, "high": 10}),
    "Hierarchy": (
        lambda **x: workload_of(fn.Hierarchy(**x), "county"),
        {"levels": ["state", "county"], "places": [["a", "b"], ["a", "c"]]},
    ),
    "Hierarchy by numbers": (
        lambda **x: workload_of(fn.Hierarchy(**x), "county"),
        {"levels": ["state", "county"], "children": [2, 3]},
    ),
    "Hierarchy.regular": (
        lambda counts=None, **x: workload_of(fn.Hierarchy.regular(counts, **x), "county"),
        {"state": 2, "county": 3},
    ),
    "Domain": (lambda **x: fn.Domain(x["attributes"]), {"attributes": {"a": fn.Ordered(0, 1)}}),
    "Workload": (fn.Workload, {"domain": domain(), "tables": [fn.table("a", margin=5)]}),
    "table": (lambda **x: fn.Workload(domain(), [fn.table("a", **x)]), {}),
    "table with a target": (lambda **x: fn.Workload(domain(), [fn.table("a", **{"margin": 5, **x})]), {}),
    "all_tables": (
        lambda order, pattern_attributes, **x: fn.Workload(domain(), [fn.all_tables(order, pattern_attributes, **x)]),
        {"order": 1, "pattern_attributes": ["a", "b"], "margin": 5},
    ),
    "matrix_workload": (fn.matrix_workload, {"matrix": np.eye(2), "variances": [1, 1]}),
    "By": (
        lambda **x: fn.plan(fn.Workload(domain(), [fn.table("b", margin=fn.ByAttribute(**x))])),
        {"attribute": "b", "values": {"x": 5}, "default": 3},
    ),
    "BySize": (fn.ByTableSize, {"coefficient": 1.0, "power": 0.5}),
    "PublicTotal": (fn.PublicTotal, {"total": 100}),
    "a median": (fn.FiniteQuery.median, {"name": "q", "attribute": "a", "epsilon": 1.0, "people": 2}),
    "a count": (fn.FiniteQuery.count, {"name": "q", "where": {"a": [1]}, "epsilon": 1.0, "people": 2}),
    "load_spec": (fn.load_spec, {"path": "nowhere.toml"}),
    "Ledger": (lambda path: fn.Ledger(path).close(), {"path": "ledger.db"}),
    "Release.read": (fn.Release.read, {"directory": "nowhere"}),
    "Plan.from_json": (fn.Plan.from_json, {"text": "{}"}),
    "verify": (fn.verify, {"path": "nowhere"}),
    "new_keys": (fn.new_keys, {"file": "nowhere/key"}),
    "compare": (fn.compare, {"workload": workload()}),
}
"""Public functions that make things before planning, each with the arguments that it needs."""

EXTRA = {
    "Publication": "unit source delta gap cap budget title objective cell_budgets composed_with must_be_free "
    "privacy questions small_database "
    "further_tables other_units",
    "Objective": "goal weights total_error_weight",
    "Budget": "rho mu epsilon delta",
    "Budget of ε": "delta",
    "SmallDatabase": "region index temperature variant",
    "PrivacyUnit": "name max_records neighbours id once_per per_value separation fixed",
    "DataSource": "name table outside_domain max_records account where",
    **dict.fromkeys(("Ordered", "Binned", "Categorical"), "column missing if_missing if_outside date_part"),
    "Hierarchy by numbers": "places file column",
    "Hierarchy.regular": "given column",
    "Amount": "step column valid ceilings missing if_missing if_outside",
    "Workload": "confidence",
    "table": "cumulative ranges groups sum ceiling mean margin std_error variance max_deviation relative_std_error "
    "reference confidence name missing",
    "table with a target": "cumulative ranges groups sum ceiling mean reference confidence name missing",
    "all_tables": "cumulative ranges groups sum ceiling mean reference confidence name missing",
    "matrix_workload": "domain confidence name",
    "BySize": "least most",
    "verify": "ledger integers combination with_releases",
}
"""Further arguments of them."""


@pytest.mark.parametrize(
    ("name", "argument"),
    [(n, a) for n in MAKERS for a in dict.fromkeys([*MAKERS[n][1], *EXTRA.get(n, "").split()])],
)
def test_whatever_is_given_it_works_or_is_refused_in_our_words(name, argument, tmp_path, monkeypatch):
    """Detects an error of Python, which says nothing of what is needed, and may come half-way."""
    monkeypatch.chdir(tmp_path)
    make, needed = MAKERS[name]
    for wrong in WRONG:
        try:
            make(**{**needed, argument: wrong})
        except FitnoiseError:
            continue


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    plan = fn.plan(workload())
    data = pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]})
    return plan, fn.release(plan, data, ledger=folder / "ledger.db"), data


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        *(("release", x) for x in ("plan", "ledger", "directory", "tables", "table", "private_key", "progress")),
        *(("count", x) for x in ("plan", "file", "public_key", "plain", "table")),
        *(("plan", x) for x in ("workload", "epsilon", "start", "max_iterations", "refine", "gap")),
        *(("plan_free", x) for x in ("workload", "composed_with", "gap")),
        *(("combine", x) for x in ("first", "same_records")),
        *(("make_integer_tables", x) for x in ("release", "tables", "at_most", "simulations")),
        *((f, x) for f in ("report", "export") for x in ("path", "language", "bands", "totals", "tables")),
        ("report", "what"),
        ("export", "what"),
    ],
)
def test_what_is_no_plan_release_or_file_is_reported(name, argument, finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan, release, data = finished
    needed = {
        "release": {"plan": plan, "data": data, "ledger": "ledger.db"},
        "count": {"plan": plan, "data": data, "file": "counts", "plain": True},
        "plan": {"workload": workload()},
        "plan_free": {"workload": workload(), "composed_with": plan},
        "combine": {"first": release},
        "make_integer_tables": {"release": release},
        "report": {"what": release, "path": "report.html"},
        "export": {"what": release, "path": "tables"},
    }[name]
    for wrong in (3, b"x", object(), ["x"], np.array([1, 2]), 1j, "\0", "\ud800"):
        try:
            if name == "combine" and argument == "first":
                fn.combine(wrong)
            else:
                getattr(fn, name)(**{**needed, argument: wrong})
        except FitnoiseError:
            continue


def test_data_given_for_a_plan_are_not_shown(finished):
    plan, _, data = finished
    with pytest.raises(ReleaseError) as caught:
        fn.release(data, plan, ledger="nowhere")
    assert caught.value.code == "release.wrong-type"
    assert caught.value.given == "The value of plan is an object of type Table."
    assert caught.value.outcome == "Nothing was measured, nothing was charged."
