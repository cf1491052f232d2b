"""A plan is read back from its document before it is charged: what readers see is what was counted and drawn."""

import copy
import inspect
import itertools
import json
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

import fitnoise as fn
import zoo
from fitnoise import publishing
from fitnoise.algebra import operators as op
from fitnoise.errors import FitnoiseError, WorkloadError
from fitnoise.interfaces.exports import packages
from fitnoise.interfaces.pages.fragments import heading, meaning
from fitnoise.messages import LANGUAGES, translator
from fitnoise.planning.plan import Plan, read_back
from fitnoise.reading import description
from fitnoise.reading.layouts import Heading
from fitnoise.reading.release_files import to_json
from fitnoise.request import views
from fitnoise.request.documents import Spec
from fitnoise.request.number_rules import ByAttribute, ByTableSize, PublicTotal
from fitnoise.request.publication import Publication
from fitnoise.request.table_section import TableSpec
from fitnoise.request.targets import Target, TargetKind
from fitnoise.request.views import VIEWS, AtMost, Entry, Ranges, RowOrder, View, ViewArguments
from fitnoise.request.views.each_value import EachValue
from fitnoise.request.workloads import Family, Table, Workload
from laws.releases import answered
from laws.reports import check_no_sentences
from refused import refused

DOMAIN = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 9))
MARGIN = Target(TargetKind.MARGIN, 10.0)
COUNTS = np.arange(20).reshape(2, 10)


@dataclass(frozen=True)
class Odd(View):
    """A view that no document can say."""

    name_suffix = "odd"
    is_by_value, is_sum = False, False
    row_order, signed, is_causal = RowOrder.NONE, False, False
    heading_text, rows_text, column_text = None, None, None

    def operator(self, attribute):
        return op.Groups(attribute.size, (tuple(range(1, attribute.size, 2)),))

    def labels(self, attribute):
        return ("odd",)


class Years(fn.Ordered):
    """A kind of attribute that a document would say as another."""


class Classes(ByAttribute):
    """A rule for targets that a document would say as another."""


class Larger(ByTableSize):
    """A subclass that changes nothing."""

    def evaluate(self, cells):
        return 3 * super().evaluate(cells)


class Everyone(PublicTotal):
    """A reference count that a document would say as another."""


class OwnTarget(Target):
    """A target of one's own."""


class Household(fn.PrivacyUnit):
    """A unit of one's own."""


class World(fn.Domain):
    """A domain of one's own."""


class Rows(fn.DataSource):
    """A source of one's own."""


class Wide(Table):
    """A table of one's own."""


@dataclass(frozen=True)
class Ask(Publication):
    """A publication of one's own."""


def create(view=None, *, target=MARGIN, domain=DOMAIN, attributes=("sex", "age"), kind=Table, **options):
    return fn.Publication(Workload(domain, [kind("t", attributes, target, view or ())]), **options)


UNKNOWN = {
    "a view": lambda: create((("age", Odd()),)),
    "every value, as a view": lambda: create((("age", EachValue()),)),
    "a view of what is not shown": lambda: create((("age", AtMost()),), attributes=("sex",)),
    "two views of one attribute": lambda: create((("age", AtMost()), ("age", Ranges()))),
    "a matrix and attributes": lambda: Workload(
        DOMAIN, [Table("t", ("sex",), MARGIN, matrix=op.Dense(np.ones((1, 20))))]
    ),
    "a view in a pattern": lambda: Workload(
        DOMAIN, [Family(Table("", ("age",), MARGIN, (("age", Odd()),)), ("sex",), 1)]
    ),
    "a view in a pattern without other attributes": lambda: Workload(
        DOMAIN, [Family(Table("", (), MARGIN, (("age", AtMost()),)), ("sex",), 1)]
    ),
    "a table": lambda: create(kind=Wide),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_tables_that_no_document_can_say_are_refused_when_they_are_made(name):
    with pytest.raises(WorkloadError):
        UNKNOWN[name]()


UNWRITTEN = {
    "an attribute": (
        lambda: create(domain=fn.Domain(sex=DOMAIN["sex"], age=Years(0, 9))),
        "spec.attribute-class-unknown",
    ),
    "an attribute of no engine": (
        lambda: create(domain=fn.Domain(sex=DOMAIN["sex"], age=zoo.Months())),
        "spec.attribute-class-unknown",
    ),
    "a rule by value": (
        lambda: create(target=Target(TargetKind.MARGIN, Classes("sex", [9, 10]))),
        "spec.target-class-unknown",
    ),
    "a rule by size": (
        lambda: create(target=Target(TargetKind.MARGIN, Larger(1.0, 0.0))),
        "spec.target-class-unknown",
    ),
    "a public total": (
        lambda: create(target=Target(TargetKind.RELATIVE_STD_ERROR, 0.1, reference=Everyone(1000))),
        "spec.target-class-unknown",
    ),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_documents_refuse_classes_that_they_would_say_as_another(name):
    make, code = UNWRITTEN[name]
    with refused(code):
        Spec.from_publication(make())


def test_documents_refuse_a_view_that_was_put_in_later():
    """The table was checked when it was made; a document looks again."""
    table = Table("t", ("sex", "age"), MARGIN, (("age", AtMost()),))
    publication = fn.Publication(Workload(DOMAIN, [table]))
    object.__setattr__(table, "views", (("age", Odd()),))
    with refused("workload.view-class-unknown"):
        Spec.from_publication(publication)


READ_OTHERWISE = {
    "a target": (lambda: create(target=OwnTarget(TargetKind.MARGIN, 10.0)), "workload"),
    "a domain": (lambda: create(domain=World(DOMAIN)), "workload"),
    "a unit": (lambda: create(unit=Household("household")), "unit"),
    "a source": (lambda: create(source=Rows("people")), "source"),
    "a publication": (lambda: Ask(Workload(DOMAIN, [Table("t", ("sex", "age"), MARGIN)])), "class"),
}


@pytest.mark.parametrize("name", READ_OTHERWISE)
def test_plans_that_would_be_read_as_another_are_refused(name):
    make, where = READ_OTHERWISE[name]
    with refused("plan.plan-differs-from-document") as caught:
        read_back(fn.plan(make()))
    assert where in str(caught.value)


def altered(plan, change):
    """Return a plan after a change in memory, with all values computed before it."""
    _ = plan.hash, plan.order, plan.loss
    change(plan)
    return plan


def small():
    return fn.plan(Workload(DOMAIN, [fn.table("sex", margin=10), fn.table("age", margin=30)]))


def put(**values):
    def change(plan):
        for name, value in values.items():
            object.__setattr__(plan, name, value)

    return change


def put_below(**values):
    def change(plan):
        for name, value in values.items():
            object.__setattr__(plan.publication, name, value)

    return change


def scaled(plan):
    for group in plan.table_part.strategy.groups:
        group.scales.setflags(write=True)
        group.scales[...] *= 4096


CHANGES = {
    "its unit": put_below(unit=fn.PrivacyUnit("person", 3)),
    "its source": put_below(source=fn.DataSource("other")),
    "its title": put_below(title="another"),
    "its tables": put_below(workload=Workload(DOMAIN, [fn.table("sex", margin=10)])),
    "its parts": put(parts=fn.plan(Workload(DOMAIN, [fn.table("sex", margin=10)])).parts),
    "its noise": scaled,
}


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_that_was_changed_in_memory_is_refused_whether_it_was_read_or_not(name, read, tmp_path):
    """No mark says that a plan was read before: it would stay when the plan is changed."""
    plan = Plan.from_json(small().to_json()) if read else small()
    plan = altered(plan, CHANGES[name])
    with refused(
        "plan.integers-of-another-cost",
        "plan.parts-of-another-publication",
        "plan.plan-damaged",
        "plan.plan-differs-from-document",
    ):
        fn.release(plan, COUNTS, ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "release")
    with pytest.raises(FitnoiseError):
        fn.count(plan, COUNTS, tmp_path / "counts", unsealed=True)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_whose_order_was_changed_is_charged_as_its_document_says(tmp_path):
    plan, other = small(), fn.plan(Workload(DOMAIN, [fn.table("sex", margin=1000)]))
    plan.__dict__["order"] = other.order
    plan.__dict__["loss"] = other.loss
    done = fn.release(plan, COUNTS, ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "release")
    assert done.charge.rho >= small().order.loss.rho > other.order.loss.rho
    assert done.plan is not plan
    assert fn.verify(tmp_path / "release", ledger=fn.Ledger(tmp_path / "ledger.sqlite")).ok


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, replace])
def test_copies_are_read_back_as_the_plan_is(copied, tmp_path):
    plan = copied(small())
    assert read_back(plan).hash == small().hash
    done = fn.release(plan, COUNTS, ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "release")
    assert fn.verify(tmp_path / "release").ok
    assert done.plan.hash == plan.hash


def test_all_that_charges_or_counts_reads_back():
    """Detects a way to the kernel that takes the order of the plan in memory."""
    for function in (publishing.release, publishing.count, publishing.read_period):
        assert "plan = read_back(plan)" in inspect.getsource(function)


def test_the_first_periods_of_a_series_are_no_plan_to_release(tmp_path):
    domain = fn.Domain(month=fn.Ordered(1, 3), sex=DOMAIN["sex"])
    plan = fn.plan(Workload(domain, [fn.table("month", "sex", margin=10)]), series="month")
    with refused("plan.plan-of-first-periods"):
        fn.release(
            plan.truncate(1), np.ones((3, 2), int), ledger=tmp_path / "l.sqlite", period=1, series=tmp_path / "kept"
        )
    assert not (tmp_path / "l.sqlite").exists()


def test_every_plan_of_the_zoo_is_read_back_as_it_is(any_plan):
    read = read_back(any_plan)
    assert read.hash == any_plan.hash
    assert all(getattr(read.publication, f.name) == getattr(any_plan.publication, f.name) for f in fields(Publication))
    assert read.order.loss == any_plan.order.loss


def check_stored_documents(plan):
    """The plan and its release.json hold no sentences."""
    check_no_sentences(json.loads(plan.to_json()))
    check_no_sentences(json.loads(to_json(description.describe(plan, []))))


def test_every_plan_of_the_zoo_and_its_release_are_stored_without_sentences(any_plan):
    check_stored_documents(any_plan)


def test_every_request_of_the_zoo_and_its_release_are_stored_without_sentences(any_request):
    _, plan = any_request
    check_stored_documents(plan)


@pytest.mark.parametrize(
    "stored",
    [
        {"charge": {"records": "at most one record"}},
        {"values": ["not rounded"]},
        {"noise": {"id": "report.noise.gaussian", "scale": 2}},
        {"target": {"id": "report.target.margin"}},
        {"rules": [{"id": "report.records.assumed", "text": "not checked"}]},
    ],
)
def test_the_law_of_stored_documents_finds_sentences_and_other_values(stored):
    with pytest.raises(AssertionError):
        check_no_sentences(stored)


# --- unknown kinds ------------------------------------------------------------------------------------------------


ARGUMENTS = {
    "cumulative": {"cumulative": "age"},
    "ranges": {"ranges": {"age": [(0, 3)]}},
    "groups": {"groups": {"age": {"some": [1, 2]}}},
    "change": {"change": "age"},
    "average": {"average": {"age": 2}},
    "to_date": {"to_date": {"age": 5}},
    "count": {"count": "grade"},
    "sum": {"sum": "grade"},
    "mean": {"mean": "pay", "reference": 1000},
}
"""The arguments of a table for each view: each view needs a line."""


def test_every_view_has_a_file_a_typed_argument_and_a_line_here():
    assert [*ARGUMENTS] == [*VIEWS] == [*ViewArguments.__annotations__]
    files = {x for x in vars(views).values() if inspect.ismodule(x) and x.__name__.startswith(views.__name__)}
    classes = {x for file in files for x in vars(file).values() if inspect.isclass(x) and issubclass(x, View)}
    assert {x for x in classes if not inspect.isabstract(x)} == {EachValue, *VIEWS.values()}
    assert len(files) == len({*Path(views.__file__).parent.glob("*.py")}) - 1 == len(VIEWS) + 2


def test_every_view_is_in_the_zoo_and_in_the_plan_format():
    """So the program that checks plans without fitnoise meets it, and the page states its rows."""
    workloads = [create_workload() for create_workload in zoo.WORKLOADS.values()]
    assert {*VIEWS.values()} <= {type(view) for w in workloads for table in w.tables for _, view in table.views}
    page = (Path(__file__).parents[1] / "docs" / "plan_format.md").read_text("utf-8")
    assert [key for key in VIEWS if not re.search(rf"^\| `{key}`", page, re.MULTILINE)] == []


@pytest.mark.parametrize("key", ARGUMENTS)
def test_a_view_reads_back_its_own_document(key):
    ((name, view),) = fn.table(**ARGUMENTS[key], margin=1).views
    assert VIEWS[key].parse(Entry(name, view.document, **view.further_keys)) == view


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", ARGUMENTS)
def test_a_view_has_its_messages_in_every_language(key, language):
    ((name, view),) = fn.table(**ARGUMENTS[key], margin=1).views
    texts = translator(language)
    assert name in heading(texts, Heading(name, view))
    assert (meaning(texts, Heading(name, view)) == "") == (view.meaning(name) is None)
    assert texts.write(view.column())


def test_a_heading_without_a_view_is_the_name():
    assert heading(translator("en"), Heading("query", None)) == "query"
    assert meaning(translator("en"), Heading("query", None)) == ""


LACKING = (
    "row_order",
    "is_by_value",
    "is_sum",
    "signed",
    "is_causal",
    "heading_text",
    "rows_text",
    "column_text",
    "operator",
    "labels",
)


@pytest.mark.parametrize(
    ("kind", "member"),
    [(EachValue, "name_suffix"), *itertools.product([EachValue, AtMost], LACKING)]
    + [(AtMost, member) for member in ("key", "kind", "description", "parse", "document")]
    + [(VIEWS["average"], member) for member in ("key", "description", "signed", "is_causal", "operator", "labels")],
)
def test_a_view_without_a_member_is_a_type_error_when_it_is_defined(kind, member):
    members = {name: x for name, x in vars(kind).items() if name not in (member, "__dict__", "__weakref__")}
    with pytest.raises(TypeError, match=f"lacks {member}\\.$"):
        type(View)("Lacking", kind.__bases__, members)


@pytest.mark.parametrize("kind", [EachValue, *VIEWS.values()])
def test_a_class_cannot_inherit_the_texts_of_a_view(kind):
    members = {name: x for name, x in vars(kind).items() if name not in ("__dict__", "__weakref__")}
    with pytest.raises(TypeError, match=f"inherits from the view {kind.__name__}"):
        type(View)("Other", (kind,), members)


def test_tables_and_specifications_have_a_key_for_each_view():
    for function in (fn.table, fn.all_tables):
        names = [*inspect.signature(function).parameters]
        assert [name for name in names if name in VIEWS] == [*VIEWS]
        assert all(f"{key}: {view.description}" in function.__doc__ for key, view in VIEWS.items())
    assert [key for key in TableSpec.model_fields if key in VIEWS] == [*VIEWS]


def test_every_view_is_described_in_a_data_package():
    domain = fn.Domain(age=fn.Ordered(0, 9), grade=fn.Ordered(0, 3, missing={"none": [-1]}), pay=fn.Amount(0, 100))
    for key, arguments in ARGUMENTS.items():
        done = answered(fn.plan(Workload(domain, [fn.table(name="t", **arguments, margin=10)])), 5)
        assert VIEWS[key] is type(done.plan.publication.workload["t"].views[0][1])
        assert "datapackage.json" in dict(packages.package(done, ["t"], None, None, {}, sdmx=False))
