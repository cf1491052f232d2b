"""Specifications: both ways between documents and objects, and one clear sentence for any without a meaning."""

import json
import math
import re
import unicodedata
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise import data
from fitnoise.errors import SpecError
from fitnoise.request import documents as room
from fitnoise.request.attributes import OrderedSpec
from fitnoise.request.documents import Spec, exact_number, json_schema, load_spec
from fitnoise.request.number_rules import BySizeSpec, BySpec, PublicTotalSpec
from fitnoise.request.table_section import TableSpec
from fitnoise.request.targets import TargetKind
from fitnoise.request.workloads import TableSequence
from laws.documents import put
from refused import refused

# --- random publications ----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
printable = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters='"'), min_size=1).filter(
    str.isprintable
)
composed = printable.map(lambda text: unicodedata.normalize("NFC", text)).filter(str.isprintable)
positive = st.floats(min_value=1e-3, max_value=1e6)
chances = st.floats(min_value=1e-12, max_value=1 - 1e-9)
columns = st.none() | printable
limits = st.none() | st.floats(0.5, 2)
sizes = st.builds(
    lambda c, p, low, excess: fn.ByTableSize(c, p, low, None if excess is None else (low or 1) * (1 + excess)),
    positive,
    st.floats(-2, 2),
    limits,
    limits,
)
totals = st.builds(fn.PublicTotal, positive)


@st.composite
def attributes(draw):
    kind = draw(st.sampled_from(["text", "int", "bool", "ordered", "binned"]))
    column = draw(columns)
    if kind == "ordered":
        low = draw(st.integers(-(2**52), 2**52))
        return fn.Ordered(low, low + draw(st.integers(0, 5)), draw(st.booleans()), column)
    if kind == "binned":
        finite = st.floats(allow_nan=False, allow_infinity=False)
        cuts = draw(st.lists(finite, min_size=1, max_size=4, unique_by=lambda x: x + 0.0))
        return fn.Binned(sorted(cuts), column=column)
    codes = {"text": texts, "int": st.integers(-(2**53) + 1, 2**53 - 1), "bool": st.booleans()}[kind]
    chosen = draw(st.lists(codes, min_size=1, max_size=5, unique=True))
    if draw(st.booleans()):
        used = {*chosen}
        labels = draw(
            st.lists(
                texts.filter(lambda x: x and x not in used), min_size=len(chosen), max_size=len(chosen), unique=True
            )
        )
        return fn.Categorical(dict(zip(chosen, labels, strict=True)), column=column)
    return fn.Categorical(chosen, column=column)


@st.composite
def domains(draw):
    names = draw(st.lists(printable, min_size=1, max_size=3, unique_by=str.lower))
    names = [n if n.lower() not in ("value", "std_error", "moe") else n + "s" for n in names]
    return fn.Domain({n: draw(attributes()) for n in names})


def spellings(attribute, values):
    """Ways to write a group: single values, one alone, a list of codes; along an order a pair, and all of it."""
    if not attribute.ordered:
        return [values, values[0], {"values": values}]
    declared = [x for x in values if x not in attribute.missing_cells]
    full_range = {"first": attribute.own_values[0], "last": attribute.own_values[-1]}
    return [values[0], {"values": values}, full_range, *([x, x] for x in declared[:1])]


@st.composite
def arguments(draw, domain, names, number):
    """Draw arguments of `fn.table`: a table about some of these names, under a name of its own."""
    each, prefix, counted, ranges, recode, following = [], [], [], {}, {}, {"change": {}, "average": {}, "to_date": {}}
    for name in draw(st.lists(st.sampled_from(names), unique=True)) if names else []:
        values = domain[name].values
        ordered = ["cumulative", "ranges", "all"] if domain[name].ordered else []
        after = [*following] if len(domain[name].own_values) > 2 else []
        declared = ["count"] if domain[name].missing_cells else []
        view = draw(st.sampled_from(["each", "groups", *ordered, *after, *declared]))
        if view == "each" or draw(st.booleans()):
            each.append(name)
        if view == "cumulative":
            prefix.append(name)
        if view == "count":
            counted.append(name)
        if view == "all":
            ranges[name] = None
        if view == "ranges":
            ends = st.tuples(st.integers(0, len(values) - 1), st.integers(0, len(values) - 1))
            bounds = draw(st.lists(ends, min_size=1, max_size=3))
            ranges[name] = [(values[min(b)], values[max(b)]) for b in bounds]
        if view == "groups":
            group = st.lists(st.sampled_from(values), min_size=1, unique=True)
            groups = draw(st.dictionaries(texts, group, min_size=1, max_size=3))
            recode[name] = {
                g: draw(st.sampled_from(spellings(domain[name], values_of_group)))
                for g, values_of_group in groups.items()
            }
        if view in following:
            following[view][name] = draw(st.integers(1 if view == "change" else 2, len(domain[name].own_values) - 1))
    kind = draw(st.sampled_from(list(TargetKind)))
    options = {
        "cumulative": prefix or None,
        "count": counted or None,
        "ranges": ranges or None,
        "groups": recode or None,
        **{view: steps or None for view, steps in following.items()},
        "name": f"{draw(texts)} {number}",
        "confidence": draw(st.none() | chances),
    }
    if kind is TargetKind.RELATIVE_STD_ERROR:
        options["reference"] = draw(positive | totals)
    labels = fn.table(*each, **options, **{kind.value: 1}).labels(domain)
    target = draw(positive | sizes)
    if labels and draw(st.booleans()):
        attribute = draw(st.sampled_from(list(labels)))
        rows = labels[attribute]
        texts_of = [str(x) for x in rows]
        if draw(st.booleans()) and len(set(texts_of)) == len(rows):
            chosen = draw(st.lists(st.sampled_from(texts_of), min_size=1, unique=True))
            target = fn.ByAttribute(attribute, {t: draw(positive) for t in chosen}, default=draw(positive))
        else:
            target = fn.ByAttribute(attribute, [draw(positive) for _ in rows])
    return each, {**options, kind.value: target}


@st.composite
def tables(draw, domain, number):
    each, options = draw(arguments(domain, list(domain), number))
    return fn.table(*each, **options)


@st.composite
def patterns(draw, domain, number):
    """All sets of a number of attributes; the other attributes may be in every table."""
    among = draw(st.lists(st.sampled_from(list(domain)), min_size=1, unique=True))
    order = draw(st.integers(1, len(among)))
    each, options = draw(arguments(domain, [a for a in domain if a not in among], number))
    count = math.comb(len(among), order)
    kind = next(k.value for k in TargetKind if k.value in options)
    if draw(st.booleans()):
        options[kind] = draw(st.lists(positive, min_size=count, max_size=count))
    options["name"] = draw(st.none() | st.just(options["name"].replace("\0", "")))
    return fn.all_tables(order, among, *each, **options)


@st.composite
def budgets(draw, privacy=fn.Privacy.ZCDP):
    rho = st.builds(Fraction, st.integers(1, 10**40), st.integers(1, 10**40))
    if privacy is fn.Privacy.PURE:
        return draw(st.builds(fn.Budget, epsilon=rho | positive))
    return draw(
        st.builds(fn.Budget, rho=rho)
        | st.builds(fn.Budget, mu=positive)
        | st.builds(fn.Budget, epsilon=positive, delta=chances)
    )


weights = st.sampled_from(list(fn.ErrorWeights))
objectives = {
    fn.Goal.FIT_FOR_USE: st.just(fn.Objective()),
    fn.Goal.TOTAL_ERROR: st.builds(fn.Objective, st.just("total-error"), weights),
    fn.Goal.HYBRID: st.builds(fn.Objective, st.just("hybrid"), weights, positive | st.integers(1, 9)),
}
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)


@st.composite
def cell_budgets(draw, domain):
    names = draw(st.lists(st.sampled_from(list(domain)), min_size=1, max_size=2, unique=True))
    cells = math.prod(domain[n].size for n in names)
    values = draw(st.lists(st.just(0.0) | st.floats(1e-6, 1), min_size=cells, max_size=cells))
    values[draw(st.integers(0, cells - 1))] = 1
    return fn.CellBudgets(tuple(names), tuple(values))


@st.composite
def publications(draw):
    domain = draw(domains())
    count = draw(st.integers(1, 3))
    parts = [draw(tables(domain, i) | patterns(domain, i)) for i in range(count)]
    files = TableSequence(parts).slugs()
    assume(len(set(files)) == len(files))
    workload = fn.Workload(domain, parts, draw(chances))
    privacy = draw(st.sampled_from(list(fn.Privacy)))
    limit = budgets(privacy)
    limits = draw(st.fixed_dictionaries({}, optional={"cap": limit}) | st.fixed_dictionaries({"budget": limit}))
    neighbours = draw(st.sampled_from(list(fn.Neighbours)))
    gaussian = privacy is fn.Privacy.ZCDP
    if gaussian and neighbours is fn.Neighbours.ADD_OR_REMOVE_ONE:
        limits["cell_budgets"] = draw(st.none() | cell_budgets(domain))
        limits["composed_with"] = tuple(draw(st.lists(hashes, max_size=3, unique=True)))
    goals = [g for g in fn.Goal if (gaussian and "budget" not in limits) or g is not fn.Goal.HYBRID]
    return fn.Publication(
        workload,
        fn.PrivacyUnit(draw(composed), draw(st.integers(1, 99)), neighbours),
        fn.DataSource(
            draw(composed),
            draw(st.none() | texts),
            draw(st.sampled_from(list(fn.OutsideDomain))),
            draw(st.integers(1, 2**62)),
            draw(st.none() | composed),
        ),
        delta=draw(chances),
        gap=None if privacy is fn.Privacy.PURE else draw(st.none() | st.floats(1e-10, 10)),
        title=draw(texts),
        objective=draw(st.sampled_from(goals).flatmap(objectives.get)),
        privacy=privacy,
        **limits,
    )


@pytest.mark.slow
@given(publications())
def test_objects_and_documents_convert_without_loss(publication):
    spec = Spec.from_publication(publication)
    assert spec.publication() == publication
    assert Spec.from_toml(spec.to_toml()).publication() == publication
    assert Spec.parse(json.loads(json.dumps(spec.document(), allow_nan=False))).publication() == publication
    assert Spec.from_publication(spec.publication()) == spec
    # order has a meaning that == on mappings does not see
    parsed = Spec.from_toml(spec.to_toml()).publication()
    for mine, theirs in zip(publication.workload.tables, parsed.workload.tables, strict=True):
        assert repr(mine) == repr(theirs)
    for mine, theirs in zip(publication.workload.tables.parts, parsed.workload.tables.parts, strict=True):
        assert type(mine) is type(theirs)  # a pattern stays one
    assert list(parsed.workload.domain) == list(publication.workload.domain)


entries = st.integers(-(2**31), 2**31) | st.floats(-1e9, 1e9).map(lambda x: round(x, 3))


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(entries, min_size=n, max_size=n).filter(any), min_size=1, max_size=4)
    )
)
def test_matrices_convert_without_loss(rows):
    publication = fn.Publication(fn.matrix_workload(np.array(rows), margins=[1.5] * len(rows), name="q"))
    spec = Spec.from_publication(publication)
    for parsed in (spec.publication(), Spec.from_toml(spec.to_toml()).publication()):
        mine, theirs = publication.workload["q"].matrix.matrix, parsed.workload["q"].matrix.matrix
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
        assert parsed.workload["q"].target == publication.workload["q"].target
        assert parsed.workload.domain == publication.workload.domain


def test_numpy_scalars_are_written_as_plain_values():
    domain = fn.Domain(a=fn.Ordered(0, 3), b=fn.Categorical(["x", "y"]))
    targets = fn.ByAttribute("b", [np.float32(1.5), np.int64(2)], default=np.float64(3))
    table_list = [
        fn.table("b", ranges={"a": [(np.int64(0), np.int64(2))]}, relative_std_error=targets, reference=np.float32(2)),
        fn.table(groups={"a": {"low": np.arange(2)}}, margin=np.int64(4), name="recoded"),
    ]
    publication = fn.Publication(fn.Workload(domain, table_list))
    assert Spec.from_publication(publication).publication() == publication
    assert Spec.from_toml(Spec.from_publication(publication).to_toml()).publication() == publication


def test_a_plan_reads_back_its_own_specification():
    publication = fn.Publication(
        fn.Workload(
            fn.Domain({"été": fn.Categorical([True, False]), "tranche d'âge": fn.Binned([1.5, 10])}),
            [fn.table("été", cumulative="tranche d'âge", margin=fn.ByAttribute("été", {"True": 3}, default=4))],
        ),
        cap=fn.Budget(rho=Fraction(123456789, 1000)),
    )
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).publication == publication


SMALL = fn.Workload(
    fn.Domain(area=fn.Categorical({1: "North", 2: "South"}), age=fn.Ordered(0, 3)),
    [fn.table("area", margin=4), fn.table("area", cumulative="age", margin=fn.ByAttribute("age", [9, 9, 9, 8]))],
)
VARIANTS = {
    "total error": {"objective": fn.Objective("total-error", "inverse-variance")},
    "hybrid": {"objective": fn.Objective("hybrid", "inverse-std-error", 1e-3)},
    "cell budgets": {"cell_budgets": fn.CellBudgets(("area",), (0.1, 1))},
    "cell budgets by two": {"cell_budgets": fn.CellBudgets(("age", "area"), (1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.3))},
    "composed_with": {"composed_with": ("ab" * 32, "01" * 32)},
    "pure": {"privacy": fn.Privacy.PURE},
    "a pure budget": {"privacy": fn.Privacy.PURE, "budget": fn.Budget(epsilon=Fraction(2, 7))},
    "a pure cap": {"privacy": fn.Privacy.PURE, "cap": fn.Budget(epsilon=Fraction(10**20, 3))},
    "a pure total": {"privacy": fn.Privacy.PURE, "objective": fn.Objective("total-error", "inverse-variance")},
    "a budget in total": {
        "objective": fn.Objective("total-error", "inverse-std-error"),
        "budget": fn.Budget(rho=Fraction(1, 50)),
    },
}


def test_patterns_are_declared_in_words():
    """Every part of the format, with the objects it means; what is written back is as short."""
    domain = fn.Domain({a: fn.Ordered(0, 2) for a in "abcd"})
    head = "".join(f"[domain.{a}]\ntype = 'ordered'\nlow = 0\nhigh = 2\n" for a in "abcd")
    by_size = "{ coefficient = 8, power = -0.5, least = 2 }"
    cases = {
        "pattern = 'singles'\nmargin = 3": fn.all_tables(1, list("abcd"), margin=3),
        "pattern = 'pairs'\nvariance = 3": fn.all_tables(2, list("abcd"), variance=3),
        "pattern = 'triples'\nmargin = [1, 2.5, 3, 4]": fn.all_tables(3, list("abcd"), margin=[1, 2.5, 3, 4]),
        "pattern = 4\nmargin = 3": fn.all_tables(4, list("abcd"), margin=3),
        "pattern = 2\nname = 'T'\nmargin = 3": fn.all_tables(2, list("abcd"), margin=3, name="T"),
        "pattern = 'pairs'\npattern_attributes = ['d', 'a', 'b']\nmargin = 3": fn.all_tables(
            2, ["d", "a", "b"], margin=3
        ),
        "pattern = 'pairs'\nattributes = ['b']\nmargin = 3": fn.all_tables(2, ["a", "c", "d"], "b", margin=3),
        "pattern = 'pairs'\ncumulative = 'b'\nmargin = 3": fn.all_tables(2, ["a", "c", "d"], cumulative="b", margin=3),
        "pattern = 'singles'\ncumulative = ['b', 'a']\nmargin = 3": fn.all_tables(
            1, ["c", "d"], cumulative=["b", "a"], margin=3
        ),
        "pattern = 'pairs'\nranges = 'c'\nmargin = 3": fn.all_tables(2, ["a", "b", "d"], ranges="c", margin=3),
        "pattern = 'pairs'\nranges = { c = [[0, 1]] }\nmargin = 3": fn.all_tables(
            2, ["a", "b", "d"], ranges={"c": [(0, 1)]}, margin=3
        ),
        "pattern = 'singles'\ngroups = { d = { low = { first = 0, last = 1 } } }\nmargin = 3": fn.all_tables(
            1, ["a", "b", "c"], groups={"d": {"low": {"first": 0, "last": 1}}}, margin=3
        ),
        "pattern = 1\npattern_attributes = ['a']\nattributes = ['b']\n"
        "margin = { by = 'b', values = [1, 2, 3] }": fn.all_tables(
            1, ["a"], "b", margin=fn.ByAttribute("b", [1, 2, 3])
        ),
        f"pattern = 'pairs'\nmax_deviation = {by_size}\nconfidence = 0.5": fn.all_tables(
            2, list("abcd"), max_deviation=fn.ByTableSize(8, -0.5, least=2), confidence=0.5
        ),
        "pattern = 'pairs'\nrelative_std_error = 0.1\nreference = { total = 900 }": fn.all_tables(
            2, list("abcd"), relative_std_error=0.1, reference=fn.PublicTotal(900)
        ),
        "pattern = 'pairs'\nrelative_std_error = 0.1\nreference = 900": fn.all_tables(
            2, list("abcd"), relative_std_error=0.1, reference=900
        ),
        f"attributes = ['a']\nmargin = {by_size}": fn.table("a", margin=fn.ByTableSize(8, -0.5, least=2)),
        "relative_std_error = 0.1\nreference = { total = 900 }": fn.table(
            relative_std_error=0.1, reference=fn.PublicTotal(900)
        ),
    }
    for text, meant in cases.items():
        spec = Spec.from_toml(f"{head}[[tables]]\n{text}\n")
        assert spec.publication().workload == fn.Workload(domain, [meant]), text
        assert Spec.from_toml(spec.to_toml()).publication() == spec.publication()
        (document,) = Spec.from_publication(spec.publication()).document()["tables"]
        if "all" in text:
            assert document["pattern"] == {1: "singles", 2: "pairs", 3: "triples", 4: 4}[meant.order]
            assert document["pattern_attributes"] == list(meant.pattern_attributes)
        assert Spec.from_publication(spec.publication()).publication() == spec.publication()


def test_parts_keep_their_places():
    domain = fn.Domain({a: fn.Ordered(0, 1) for a in "abc"})
    parts = [
        fn.all_tables(2, list("abc"), margin=[3, 4, 5]),
        fn.table("a", margin=2),
        fn.all_tables(1, ["b", "c"], "a", relative_std_error=0.5, reference=fn.PublicTotal(9), name="beside"),
        fn.table(margin=1),
    ]
    publication = fn.Publication(fn.Workload(domain, parts))
    document = Spec.from_publication(publication).document()
    assert document["tables"] == [
        {"pattern": "pairs", "pattern_attributes": ["a", "b", "c"], "margin": [3.0, 4.0, 5.0]},
        {"name": "a", "attributes": ["a"], "margin": 2.0},
        {
            "name": "beside",
            "pattern": "singles",
            "pattern_attributes": ["b", "c"],
            "attributes": ["a"],
            "relative_std_error": 0.5,
            "reference": {"total": 9.0},
        },
        {"name": "total", "margin": 1.0},
    ]
    for parsed in (Spec.parse(document), Spec.from_toml(Spec.from_publication(publication).to_toml())):
        assert parsed.publication() == publication
        assert parsed.publication().workload.tables.parts == tuple(parts)
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).publication == publication
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    explicit = fn.plan(fn.Publication(fn.Workload(domain, list(publication.workload.tables))))
    assert explicit.hash != plan.hash  # the document says which words were used


def test_rules_may_be_given_as_parts_of_the_document():
    """Objects, documents and texts of them are the same specification."""
    part = TableSpec(attributes=["a"], margin=BySizeSpec(coefficient=3.0, power=-1.0))
    other = TableSpec(attributes=["a"], relative_std_error=BySpec(by="a", values=[1.0, 2.0]), reference=9.0, name="b")
    third = TableSpec(relative_std_error=1.0, reference=PublicTotalSpec(total=9.0))
    domain = {"a": OrderedSpec(type="ordered", low=0, high=1)}
    spec = Spec(domain=domain, tables=[part, other, third])
    assert Spec.parse(spec.document()) == spec
    assert Spec.from_toml(spec.to_toml()) == spec
    assert json.loads(spec.model_dump_json(exclude_none=True))["tables"][0]["margin"] == {
        "coefficient": 3.0,
        "power": -1.0,
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_plan_file_keeps_all_that_a_publication_says(variant):
    plan = fn.plan(fn.Publication(SMALL, **VARIANTS[variant]))
    parsed = fn.Plan.from_json(plan.to_json())
    assert parsed.publication == plan.publication == Spec.from_publication(plan.publication).publication()
    assert (parsed.hash, parsed.table_part.exact_cost, parsed.table_part.objective_value, parsed.bound) == (
        plan.hash,
        plan.table_part.exact_cost,
        plan.table_part.objective_value,
        plan.bound,
    )
    assert Spec.from_publication(plan.publication) != Spec.from_publication(fn.Publication(SMALL))  # so the hash knows


def test_documents_say_only_what_is_not_usual():
    document = {
        "data": {"source": "people"},
        "privacy": {"max_records": 2},
        "domain": {"a": {"type": "ordered", "low": 0, "high": 1}},
        "tables": [{"name": "a", "attributes": ["a"], "margin": 2.0}],
    }
    workload = fn.Workload(fn.Domain(a=fn.Ordered(0, 1)), [fn.table("a", margin=2)])
    usual = fn.Publication(workload, fn.PrivacyUnit(max_records=2), fn.DataSource("people"))
    assert json.dumps(Spec.from_publication(usual).document()) == json.dumps(document)
    variants = {
        "objective": ({"goal": "hybrid", "total_error_weight": 2.0}, fn.Objective("hybrid", total_error_weight=2)),
        "cell_budgets": ({"attributes": ["a"], "values": [1.0, 0.0]}, fn.CellBudgets(["a"], [1, 0])),
        "composed_with": (["ab" * 32], ["ab" * 32]),
    }
    for promised in ("pure", "auto"):
        assert Spec.from_publication(replace(usual, privacy=promised)).document()["privacy"] == {
            "definition": promised,
            "max_records": 2,
        }
    for key, (value, meant) in variants.items():
        result = Spec.from_publication(replace(usual, **{key: meant})).document()
        assert (result if key == "objective" else result["privacy"])[key] == value


# --- reading --------------------------------------------------------------------------------------------------

DOMAIN = """
[domain.age]
type = "ordered"
low = 0
high = 9

[domain.sex]
type = "categorical"
codes = ["f", "m"]
"""
TABLE = """
[[tables]]
attributes = ["age"]
margin = 5
"""


def test_the_demonstration_is_read_as_its_text_says():
    publication = load_spec(data.path(data.DEMO))
    domain = publication.workload.domain
    assert list(domain) == ["state", "status", "age", "kids", "wages", "selfemp"]
    assert domain.shape == (51, 4, 86, 4, 8, 2)
    assert domain["state"].labels[4] == "California"
    assert domain.column("state") == "fips"
    assert [t.name for t in publication.workload.tables] == [
        "state by status", "state by wages", "status by kids by wages", "status by age cumulative", "state by selfemp",
    ]  # fmt: skip
    assert (publication.delta, publication.gap) == (1e-6, 1e-6)
    assert publication.unit.describe().startswith("one filing unit")


def test_every_part_of_a_table_can_be_declared():
    document = (
        DOMAIN
        + """
[[tables]]
name = "everything"
attributes = ["sex"]
ranges = { age = [[0, 4], [2, 9]] }
relative_std_error = { by = "sex", values = { f = 0.1 }, default = 0.2 }
reference = 50
confidence = 0.9

[[tables]]
groups = { age = { young = { first = 0, last = 3 }, odd = { values = [1, 3] }, a = 7, old = { first = 8, last = 9 } } }
max_deviation = 4

[[tables]]
ranges = "age"
std_error = 2
"""
    )
    domain = fn.Domain(age=fn.Ordered(0, 9), sex=fn.Categorical(["f", "m"]))
    groups = {
        "young": {"first": 0, "last": 3},
        "odd": {"values": (1, 3)},
        "a": 7,
        "old": {"first": 8, "last": 9},
    }
    expected = fn.Workload(
        domain,
        [
            fn.table(
                "sex",
                ranges={"age": [(0, 4), (2, 9)]},
                relative_std_error=fn.ByAttribute("sex", {"f": 0.1}, default=0.2),
                reference=50,
                confidence=0.9,
                name="everything",
            ),
            fn.table(groups={"age": groups}, max_deviation=4),
            fn.table(ranges="age", std_error=2),
        ],
    )
    spec = Spec.from_toml(document)
    assert spec.publication().workload == expected
    # groups keep their order through TOML, where {first, last} would move behind the lists
    parsed = Spec.from_toml(spec.to_toml()).publication().workload.tables[1]
    assert parsed.labels(domain) == {"age": ("young", "odd", "a", "old")}
    assert parsed == expected.tables[1]


def test_groups_by_first_and_last_work_on_bins_and_only_where_there_is_an_order():
    binned = '[domain.pay]\ntype = "binned"\ncuts = [10, 20, 30]\n'
    table = "[[tables]]\nmargin = 1\ngroups = {{ {} = {{ low = {{ first = {}, last = {} }} }} }}\n"
    spec = Spec.from_toml(binned + table.format("pay", '"under 10"', '"20 to under 30"'))
    publication = spec.publication()
    assert publication.workload.tables[0].view("pay").operator(publication.domain["pay"]).groups == ((0, 1, 2),)
    assert Spec.from_toml(spec.to_toml()).publication() == publication
    with refused("domain.unknown-value"):
        Spec.from_toml(binned + table.format("pay", "5", '"20 to under 30"')).publication()
    with refused("domain.range-without-order"):
        Spec.from_toml(DOMAIN + table.format("sex", '"f"', '"m"')).publication()
    backwards = Spec.from_toml(DOMAIN + table.format("age", "3", "2"))
    with refused("domain.range-ends-reversed"):
        backwards.publication()


def test_a_cost_is_exact_as_written():
    for text, rho in (
        ("0.1", Fraction(1, 10)),
        ('"1/28"', Fraction(1, 28)),
        ("3", Fraction(3)),
        ('"1e-3"', Fraction(1, 1000)),
    ):
        publication = Spec.from_toml(f"budget = {{ rho = {text} }}\n" + REST).publication()
        assert publication.budget == fn.Budget(rho=rho)
    with_delta = Spec.from_toml("budget = { epsilon = 1, delta = 1e-9 }\n[privacy]\ndelta = 1e-5\n" + REST)
    assert with_delta.publication().budget == fn.Budget(epsilon=1, delta=1e-9)
    shared = Spec.from_toml("[privacy]\ndelta = 1e-5\ncap = { epsilon = 1 }\n" + REST)
    assert shared.publication().cap == fn.Budget(epsilon=1, delta=1e-5)
    assert Spec.from_publication(shared.publication()).document()["privacy"]["cap"] == {"epsilon": 1.0}


@pytest.mark.parametrize("privacy", list(fn.Privacy))
def test_a_definition_is_a_word_or_a_key_of_privacy(privacy):
    word = Spec.from_toml(f"privacy = '{privacy}'\n" + REST)
    table = Spec.from_toml(f"[privacy]\ndefinition = '{privacy}'\n" + REST)
    assert word == table
    assert word.publication().privacy is privacy
    assert word.publication() == replace(Spec.from_toml(REST).publication(), privacy=privacy)
    spec = Spec.from_publication(word.publication())
    assert Spec.from_toml(spec.to_toml()) == spec
    assert Spec.from_toml(word.to_toml()) == word
    assert ("privacy" in spec.document()) == (privacy is not fn.Privacy.ZCDP)
    text = f"[privacy]\ndefinition = '{privacy}'\nneighbours = 'replace-one'\nunit = 'person'\nmax_records = 3\n"
    publication = Spec.from_toml(text + REST).publication()
    assert (publication.privacy, publication.unit) == (privacy, fn.PrivacyUnit("person", 3, fn.Neighbours.REPLACE_ONE))
    document = {**room.tomllib.loads(REST), "privacy": str(privacy)}
    assert Spec.parse(document) == word
    assert document["privacy"] == str(privacy)  # what was given stays as it is


def test_a_pure_epsilon_is_exact_as_written_and_has_no_delta():
    for text, epsilon in (
        ("0.1", Fraction(1, 10)),
        ('"0.1"', Fraction(1, 10)),
        ('"1/3"', Fraction(1, 3)),
        ("2", Fraction(2)),
        ('"1e-3"', Fraction(1, 1000)),
        ('"123456789012345678901234567890/7"', Fraction(123456789012345678901234567890, 7)),
    ):
        publication = Spec.from_toml(f"privacy = 'pure'\nbudget = {{ epsilon = {text} }}\n" + REST).publication()
        assert publication.budget == fn.Budget(epsilon=epsilon)
        assert (publication.budget.pure, publication.budget.delta) == (epsilon, None)
        parsed = Spec.from_publication(publication)
        assert parsed.document()["budget"] == {"epsilon": str(epsilon)}
        assert parsed.publication() == Spec.from_toml(parsed.to_toml()).publication() == publication
        capped = f"privacy = {{ definition = 'pure', delta = 1e-9, cap = {{ epsilon = {text} }} }}\n" + REST
        publication = Spec.from_toml(capped).publication()
        assert (publication.cap, publication.delta) == (fn.Budget(epsilon=epsilon), 1e-9)
        assert Spec.from_publication(publication).document()["privacy"]["cap"] == {"epsilon": str(epsilon)}
        assert Spec.from_toml(Spec.from_publication(publication).to_toml()).publication() == publication


def test_the_epsilon_of_a_choice_is_one_at_delta():
    """Pure or with δ: which one is not known before planning, so the δ is that of the Gaussian alternative."""
    for promised in ("auto", "zcdp"):
        head = f"privacy = {{ definition = '{promised}', delta = 1e-9 }}\n"
        for text, epsilon in (("1", 1.0), ('"1/4"', 0.25)):
            publication = Spec.from_toml(head + f"budget = {{ epsilon = {text} }}\n" + REST).publication()
            assert publication.budget == fn.Budget(epsilon=epsilon, delta=1e-9)
            assert publication.budget.pure is None
            with_delta = Spec.from_toml(head + f"budget = {{ epsilon = {text}, delta = 1e-5 }}\n" + REST).publication()
            assert with_delta.budget == fn.Budget(epsilon=epsilon, delta=1e-5)
            for each in (publication, with_delta):
                assert Spec.from_toml(Spec.from_publication(each).to_toml()).publication() == each


def test_a_fraction_at_delta_is_the_number_it_is_written_as():
    publication = fn.Publication(SMALL, budget=fn.Budget(epsilon=Fraction(1, 3), delta=1e-6))
    assert Spec.from_toml(Spec.from_publication(publication).to_toml()).publication() == publication


def test_goals_and_cell_budgets_are_declared_in_words():
    budgets = "[privacy.cell_budgets]\nattributes = [{}]\nvalues = {}\n"
    half = fn.CellBudgets(("sex",), (0.5, 1))
    for text, values in (("[0.5, 1]", ""), ("{ f = 0.5 }", "default = 1\n"), ("{ m = 1, f = 0.5 }", "")):
        assert Spec.from_toml(budgets.format("'sex'", text) + values + REST).publication().cell_budgets == half
    few = Spec.from_toml(budgets.format("'age'", "{ 3 = 1, 0 = 0 }") + "default = 0.5\n" + REST).publication()
    assert few.cell_budgets == fn.CellBudgets(("age",), (0, 0.5, 0.5, 1, *[0.5] * 6))
    labels = TABLE + '[domain.age]\ntype = "categorical"\ncodes = [1, 2]\nlabels = ["one", "two"]\n'
    labelled = Spec.from_toml(budgets.format("'age'", "{ one = 1, two = 0.25 }") + labels).publication()
    assert labelled.cell_budgets == fn.CellBudgets(("age",), (1, 0.25))
    two = Spec.from_toml(budgets.format("'sex', 'age'", [1, *[0.5] * 19]) + REST).publication()
    assert two.cell_budgets == fn.CellBudgets(("sex", "age"), (1, *[0.5] * 19))
    goals = Spec.from_toml("[objective]\ngoal = 'total-error'\nweights = 'inverse-variance'\n" + REST)
    assert goals.publication().objective == fn.Objective(fn.Goal.TOTAL_ERROR, fn.ErrorWeights.INVERSE_VARIANCE)
    hybrid = Spec.from_toml("[objective]\ngoal = 'hybrid'\ntotal_error_weight = 1e-4\n" + REST).publication()
    assert hybrid.objective == fn.Objective("hybrid", total_error_weight=1e-4)
    composed = Spec.from_toml(f"privacy = {{ composed_with = ['{'0' * 64}'] }}\n" + REST).publication()
    assert composed.composed_with == ("0" * 64,)


NESTED = """[domain.geo]
type = "hierarchy"
file = "tracts.csv"
levels = ["state", "county", "tract"]
column = "GEOID"

[[tables]]
attributes = ["county", "sex"]
margin = 30
"""


def test_nested_places_are_read_from_a_file_with_other_columns(tmp_path):
    (tmp_path / "tracts.csv").write_text("tract,name,state,county\n1,One,RI,44001\n2,Two,RI,44001\n", encoding="utf-8")
    sexes = '[domain.sex]\ntype = "categorical"\ncodes = ["f", "m"]\n'
    places = fn.Hierarchy(["state", "county", "tract"], [("RI", 44001, 1), ("RI", 44001, 2)], column="GEOID")
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), geo=places)
    by_place = Spec.from_toml(sexes + NESTED).publication(tmp_path).workload
    assert by_place == fn.Workload(domain, [fn.table("county", "sex", margin=30)])


def test_the_readme_extended_as_its_guide_says_is_read(tmp_path):
    root = Path(__file__).parents[1]
    pages = [
        (root / name).read_text(encoding="utf-8") for name in ("README.md", "docs/howto/extend_a_specification.md")
    ]
    (readme,) = re.findall(r"```toml\n(.*?)```", pages[0], re.DOTALL)
    blocks = re.findall(r"```toml\n(.*?)```", pages[1], re.DOTALL)
    patterns, budget, cap, pure, small, question, also, goals, cells = blocks
    (tmp_path / "states.csv").write_text("code\nOH\nIA\n", encoding="utf-8")

    def read(text):
        return Spec.from_toml(text).publication(tmp_path)

    head, privacy, tables = (
        readme[: readme.index("[privacy]")],
        readme[readme.index("[privacy]") :],
        readme[readme.index("[domain.state]") :],
    )
    base = read(readme)
    assert read(readme + budget) == replace(base, budget=fn.Budget(rho=Fraction(1, 20)))
    assert read(head + privacy + cap) == replace(base, cap=fn.Budget(rho=Fraction(1, 20)))
    assert read(readme + goals) == replace(base, objective=fn.Objective("total-error", "inverse-variance"))
    assert read(readme + cells) == replace(base, cell_budgets=fn.CellBudgets(("status",), (1, 0.5, 1, 1)))
    pairs = read(readme.split("[[tables]]")[0] + patterns).workload
    by_size = fn.ByTableSize(2, 0.5, most=40)
    assert pairs == fn.Workload(base.workload.domain, [fn.all_tables(3, list(pairs.domain), std_error=by_size)])
    assert read(pure + tables) == fn.Publication(base.workload, budget=fn.Budget(epsilon=1), privacy="pure")
    assert read(small + tables) == fn.Publication(
        base.workload, budget=fn.Budget(epsilon=1.0, delta=1e-6), small_database=fn.SmallDatabase(200)
    )
    singles = {"status": "single"}
    assert read(head + tables + question).questions == (
        fn.FiniteQuery.sum("total age of singles", "age", where=singles, people=150, epsilon=1),
    )
    (further,) = read(readme + also).further_tables
    margins = fn.Workload(base.workload.domain, [fn.table("age", margin=30)])
    assert further == fn.Publication(margins, base.unit, base.source, privacy="pure")


@pytest.mark.parametrize(
    "text", ["", "x", "1/0", "-1", "1e9999", "1e99999999", "nan", "inf", "1/2/3", "½", "9" * 5000, "1 / 2"]
)
def test_what_is_no_exact_number_is_refused_at_once(text):
    with refused("spec.not-an-exact-number"):
        exact_number(text)


def test_files_of_codes_lie_next_to_the_specification(tmp_path):
    (tmp_path / "codes.csv").write_text("code,label\n1,one\n2,two\n", encoding="utf-8")
    text = '[domain.a]\ntype = "categorical"\ncodes_file = "codes.csv"\n[[tables]]\nattributes = ["a"]\nmargin = 1\n'
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8-sig")  # as some editors save it
    assert load_spec(tmp_path / "spec.toml").workload.domain["a"] == fn.Categorical({1: "one", 2: "two"})
    assert Spec.from_toml(text).publication(str(tmp_path)) == load_spec(str(tmp_path / "spec.toml"))
    with refused("spec.file-folder-unknown"):
        Spec.from_toml(text).publication()
    (tmp_path / "codes.csv").unlink()
    with refused("domain.csv-file-unreadable"):
        load_spec(tmp_path / "spec.toml")


def test_lookups_in_line_and_in_files(tmp_path):
    head = '[[tables]]\nattributes = ["a"]\nmargin = 1\n[domain.a]\ntype = "categorical"\ncodes = ["w", "e"]\n'
    expected = fn.Categorical(["w", "e"], column="postcode", lookup={"1000": "e", "02000": "w"})
    (tmp_path / "regions.csv").write_text("value,code\n1000,e\n02000,w\n", encoding="utf-8")
    for text in (
        'lookup = { 1000 = "e", 02000 = "w" }',
        'lookup = [["1000", "e"], ["02000", "w"]]',
        'lookup_file = "regions.csv"',
    ):
        publication = Spec.from_toml(f'{head}column = "postcode"\n{text}').publication(tmp_path)
        assert publication.workload.domain["a"] == expected
        assert Spec.from_publication(publication).publication() == publication
    with refused("spec.file-folder-unknown"):
        Spec.from_toml(f'{head}lookup_file = "regions.csv"').publication()
    assert Spec.from_toml(f'{head}lookup = [[1, "e"], [2, "w"]]').publication().workload.domain["a"].cell(2.0) == 0
    wrong = {
        'lookup = {}\nlookup_file = "regions.csv"': "spec.lookup-twice",
        'lookup = { 1 = "e" }': "domain.lookup-codes-unused",
        'lookup = [["1", "e", "w"]]': "spec.wrong-length",
    }
    for text, code in wrong.items():
        with refused(code):
            Spec.from_toml(f"{head}{text}").publication(tmp_path)


def test_a_number_that_python_does_not_write_is_refused():
    """The number has more digits than Python writes by default."""
    with refused("spec.several-problems"):
        Spec.from_toml(f"title = 0x{'f' * 5000}")


def test_a_file_that_is_no_specification_is_refused(tmp_path):
    for content, reason in (
        (None, "spec.file-unreadable"),
        (b"\xff\xfe", "spec.file-unreadable"),
        (b"[[tables", "spec.not-toml"),
        (b"a = " + b"9" * 5000, "spec.not-toml"),
        (b"a = " + b"[" * 10_000 + b"]" * 10_000, "spec.nested-too-deeply"),
        (b"", "spec.key-missing"),
    ):
        path = tmp_path / "spec.toml"
        if content is not None:
            path.write_bytes(content)
        with refused(reason) as raised:
            load_spec(path)
        assert raised.value.exit_code == 3
    with refused("spec.file-unreadable"):
        load_spec(tmp_path)
    with refused("spec.wrong-type"):
        Spec.parse(3)


BACKSLASH = "A backslash in double quotes begins an escape; write a path in single quotes, as in"
POINT = "Numbers have a decimal point and nothing between the digits, such as 5.5 or 1000"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (r'codes_file = "C:\Users\me\codes.csv"', BACKSLASH),
        (r'codes_file = "C:\new\table.csv"', BACKSLASH),  # valid TOML, of a name with a line break and a tabulator
        (r'codes_file = "D:\data\x"', BACKSLASH),
        (r'codes_file = """C:\Users"""', BACKSLASH),
        (r"codes = ['C:\x', " + r'"C:\Users"]', BACKSLASH),
        (r"codes_file = 'C:\Users\me\codes.csv' = 3", None),
        (r'codes = ["a\\b"] = 3', None),
        ("low = 5,5", POINT),
        ("low = -5,5  # five and a half", POINT),
        ("low = 1.000,50", POINT),
        ("low = { a = 0,5 }", POINT),
        ("codes = ['x = 5,5'] = 3", None),
        ("codes = [1, 2", None),
    ],
)
def test_an_error_of_toml_says_what_to_write_instead(line, hint, tmp_path):
    text = f"[domain.x]\ntype = 'categorical'\n{line}\n\n[[tables]]\nattributes = ['x']\nmargin = 5\n"
    path = tmp_path / "spec.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert "No data were read" in str(caught.value)
    if hint is not None:
        assert f"{hint}" in str(caught.value)
    else:
        assert BACKSLASH not in str(caught.value)
        assert POINT not in str(caught.value)


def test_an_error_of_a_decimal_comma_names_the_decimal_point():
    text = f"{DOMAIN}\n[accuracy]\nconfidence = %s\n[[tables]]\nattributes = ['age']\nmargin = %s\n"
    with refused("spec.not-toml"):
        Spec.from_toml(text % (0.9, "5,5"))
    for number in ("5,5", "1.000,50", "-0,5"):
        with refused("spec.wrong-type"):
            Spec.from_toml(text % (f"'{number}'", 3))
        with refused("spec.not-an-exact-number"):
            exact_number(number)
    with refused("spec.wrong-type"):
        Spec.from_toml(text % ("'much'", 3))


def table(lines, domain=DOMAIN):
    return f"{domain}\n[[tables]]\nattributes = ['age']\n{lines}\n"


def pattern(lines, order="'pairs'"):
    return f"{DOMAIN}[domain.area]\ntype = 'categorical'\ncodes = [1, 2]\n[[tables]]\npattern = {order}\n{lines}\n"


def objective(lines):
    return f"objective = {{ {lines} }}\n" + REST


def budget(attributes, values, extra=""):
    return f"[privacy.cell_budgets]\nattributes = {attributes}\nvalues = {values}\n{extra}\n" + REST


def composed_with(plans, extra=""):
    return f"privacy = {{ composed_with = {plans}{extra} }}\n" + REST


REST = DOMAIN + TABLE
REFUSED = {
    "a number as a list": (
        table("margin = [1]"),
        ("spec.target-list-needs-pattern"),
    ),
    "a list for a matrix": (
        f"{DOMAIN}[[tables]]\nmatrix = [[1]]\nmargin = [1]",
        "spec.target-list-needs-pattern",
    ),
    "pattern attributes of no pattern": (
        table("margin = 1\npattern_attributes = ['sex']"),
        "spec.pattern-attributes-without-pattern",
    ),
    "pattern attributes of a matrix": (
        f"{DOMAIN}[[tables]]\npattern_attributes = ['sex']\nmatrix = [[1]]\nmargin = 1",
        "spec.pattern-attributes-without-pattern",
    ),
    "a matrix of a pattern": (
        f"{DOMAIN}[[tables]]\npattern = 'pairs'\nmatrix = [[1]]\nmargin = 1",
        "spec.matrix-with-views",
    ),
    "an unknown attribute among": (
        pattern("pattern_attributes = ['age', 'sx']\nmargin = 1"),
        "domain.unknown-attribute",
    ),
    "nothing left among": (
        pattern("attributes = ['age', 'sex', 'area']\nmargin = 1"),
        "spec.pattern-left-empty",
    ),
    "too little left among": (
        pattern("cumulative = 'age'\nattributes = ['sex']\nmargin = 1"),
        "workload.pattern-order-out-of-range",
    ),
    "among and in groups": (
        pattern("pattern_attributes = ['age', 'sex']\ngroups = { sex = { men = ['m'] } }\nmargin = 1"),
        "workload.pattern-attribute-twice",
    ),
    "a target by what is nowhere": (
        pattern("pattern_attributes = ['sex', 'area']\nmargin = { by = 'age', values = [1, 2] }"),
        "workload.pattern-target-attribute",
    ),
    "a total without a relative error": (
        table("margin = 1\nreference = { total = 5 }"),
        "workload.reference-misfit",
    ),
    "a number no float holds": (table(f"margin = 1{'0' * 400}"), "spec.wrong-type"),
    "zero": (table("margin = 0"), "workload.target-not-positive"),
    "margin and variance": (table("margin = 1\nvariance = 2"), "workload.not-one-target"),
    "no target": (table(""), "workload.not-one-target"),
    "a target by another attribute": (
        table("margin = { by = 'sex', values = [1, 2] }"),
        "workload.target-attribute-not-shown",
    ),
    "too few numbers by value": (table("margin = { by = 'age', values = [1, 2] }"), "workload.by-value-count"),
    "an attribute twice": (f"{DOMAIN}[[tables]]\nattributes = ['age', 'age']\nmargin = 1", "workload.attribute-twice"),
    "two views": (table("margin = 1\ncumulative = 'age'\nranges = 'age'"), "workload.attribute-twice"),
    "an unknown attribute": (
        f"{DOMAIN}[[tables]]\nattributes = ['agee']\nmargin = 1",
        "domain.unknown-attribute",
    ),
    "a table name twice": (
        table("margin = 1\nname = 't'") + "[[tables]]\nname = 'T'\nmargin = 1",
        "workload.file-name-twice",
    ),
    "no tables": ("tables = []\n" + DOMAIN, "spec.nothing-to-publish"),
    "a cap and a budget": ("budget = { rho = 1 }\nprivacy = { cap = { rho = 1 } }\n" + REST, "spec.cap-and-budget"),
    "two budgets": ("budget = { rho = 1, mu = 1 }\n" + REST, "spec.cost-not-one-measure"),
    "an empty budget": ("budget = { }\n" + REST, "spec.cost-not-one-measure"),
    "a budget of zero": ("budget = { rho = 0 }\n" + REST, "spec.cost-not-positive"),
    "a budget that is no number": ("budget = { rho = '1/0' }\n" + REST, "spec.not-an-exact-number"),
    "a cap of nothing": ("privacy = { cap = { mu = -1 } }\n" + REST, "spec.cost-not-positive"),
    "a δ without ε": ("budget = { rho = 1, delta = 0.1 }\n" + REST, "spec.delta-without-epsilon"),
    "a pure budget with a δ": (
        "privacy = 'pure'\nbudget = { epsilon = 1, delta = 1e-6 }\n" + REST,
        "spec.pure-needs-epsilon",
    ),
    "a pure cap with a δ": (
        "privacy = { definition = 'pure', cap = { epsilon = 1, delta = 1e-6 } }\n" + REST,
        "spec.pure-needs-epsilon",
    ),
    "a pure budget of ρ": (
        "privacy = 'pure'\nbudget = { rho = 1 }\n" + REST,
        "spec.pure-needs-epsilon",
    ),
    "a pure cap of μ": (
        "privacy = { definition = 'pure', cap = { mu = 1 } }\n" + REST,
        "spec.pure-needs-epsilon",
    ),
    "a pure budget of zero": (
        "privacy = 'pure'\nbudget = { epsilon = 0 }\n" + REST,
        "spec.cost-not-positive",
    ),
    "an ε in words": (
        "privacy = 'pure'\nbudget = { epsilon = 'small' }\n" + REST,
        "spec.not-an-exact-number",
    ),
    "an ε over zero": ("privacy = 'pure'\nbudget = { epsilon = '1/0' }\n" + REST, "spec.not-an-exact-number"),
    "an ε that is infinite": ("privacy = 'pure'\nbudget = { epsilon = inf }\n" + REST, "spec.not-an-exact-number"),
    "a negative ε": ("privacy = 'pure'\nbudget = { epsilon = -1 }\n" + REST, "spec.not-an-exact-number"),
    "a pure gap": (
        "privacy = 'pure'\naccuracy = { gap = 1e-3 }\n" + REST,
        "spec.pure-without-gap",
    ),
    "a pure hybrid": (
        "privacy = 'pure'\n" + objective("goal = 'hybrid', total_error_weight = 1"),
        "spec.zcdp-only",
    ),
    "a hybrid to choose for": (
        "privacy = 'auto'\n" + objective("goal = 'hybrid', total_error_weight = 1"),
        "spec.zcdp-only",
    ),
    "pure cell budgets": (
        "privacy.definition = 'pure'\nprivacy.cell_budgets = { attributes = ['sex'], values = [1, 0.5] }\n" + REST,
        "spec.zcdp-only",
    ),
    "a pure plan with composition": (
        composed_with(["0" * 64], ", definition = 'pure'"),
        "spec.zcdp-only",
    ),
    "a free pure plan": (
        composed_with(["0" * 64], ", definition = 'pure', must_be_free = true"),
        "spec.zcdp-only",
    ),
    "a choice with composition": (
        composed_with(["0" * 64], ", definition = 'auto'"),
        "spec.zcdp-only",
    ),
    "a δ of one": ("privacy = { delta = 1 }\n" + REST, "spec.delta-out-of-range"),
    "a gap that is no number": ("accuracy = { gap = nan }\n" + REST, "spec.gap-out-of-range"),
    "no records": ("privacy = { max_records = 0 }\n" + REST, "spec.max-records-per-unit-invalid"),
    "a nameless source": ("data = { source = ' ' }\n" + REST, "spec.source-name-invalid"),
    "codes here and in a file": (
        TABLE + "[domain.age]\ntype = 'categorical'\ncodes = [1]\ncodes_file = 'f'",
        "spec.codes-source",
    ),
    "no codes": (TABLE + "[domain.age]\ntype = 'categorical'", "spec.codes-source"),
    "too few labels": (TABLE + "[domain.age]\ntype = 'categorical'\ncodes = [1]\nlabels = []", "spec.labels-misfit"),
    "labels for a file": (
        TABLE + "[domain.age]\ntype = 'categorical'\ncodes_file = 'f'\nlabels = ['a']",
        "spec.labels-misfit",
    ),
    "matrix and attributes": (table("margin = 1\nmatrix = [[1]]"), "spec.matrix-with-views"),
    "an uneven matrix": (
        f"{DOMAIN}[[tables]]\nmatrix = [[1, 2], [3]]\nmargin = 1",
        "spec.matrix-rows-differ",
    ),
    "an empty matrix": (f"{DOMAIN}[[tables]]\nmatrix = []\nmargin = 1", "spec.matrix-rows-differ"),
    "a matrix of other cells": (
        f"{DOMAIN}[[tables]]\nmatrix = [[1, 2]]\nmargin = 1",
        "workload.matrix-width-wrong",
    ),
    "weights without a sum": (objective("weights = 'inverse-variance'"), "spec.weights-without-sum"),
    "a hybrid without a trade": (objective("goal = 'hybrid'"), "spec.total-error-weight-misfit"),
    "a trade without a hybrid": (objective("total_error_weight = 1"), "spec.total-error-weight-misfit"),
    "a trade of zero": (objective("goal = 'hybrid', total_error_weight = 0"), "spec.total-error-weight-not-positive"),
    "a trade that is infinite": (
        objective("goal = 'hybrid', total_error_weight = inf"),
        "spec.total-error-weight-not-positive",
    ),
    "a trade that is no number": (
        objective("goal = 'hybrid', total_error_weight = nan"),
        "spec.total-error-weight-not-positive",
    ),
    "a hybrid with a budget": (
        "budget = { rho = 1 }\n" + objective("goal = 'hybrid', total_error_weight = 1"),
        "spec.budget-with-hybrid",
    ),
    "budgets by nothing": (budget([], [1]), "spec.cell-budget-attributes-unusable"),
    "budgets by one attribute twice": (budget(["sex", "sex"], [1, 1, 1, 1]), "spec.cell-budget-attributes-unusable"),
    "budgets by an unknown attribute": (budget(["sx"], [1]), "domain.unknown-attribute"),
    "a budget above one": (budget(["sex"], [1, 2]), "spec.cell-budget-out-of-range"),
    "a budget below zero": (budget(["sex"], [1, -1]), "spec.cell-budget-out-of-range"),
    "a cell budget that is no number": (budget(["sex"], "[1, nan]"), "spec.cell-budget-out-of-range"),
    "no budget of one": (budget(["sex"], [0.5, 0.5]), "spec.cell-budget-without-one"),
    "no budgets": (budget(["sex"], []), "spec.cell-budget-without-one"),
    "too few budgets": (budget(["sex"], [1]), "spec.cell-budgets-misfit"),
    "budgets by value of two attributes": (
        budget(["sex", "age"], "{ f = 1 }", "default = 1"),
        "spec.budgets-by-value",
    ),
    "a budget of an unknown value": (
        budget(["sex"], "{ x = 1 }", "default = 1"),
        "spec.budget-value-unknown",
    ),
    "a value without a budget": (
        budget(["age"], "{ 0 = 1 }"),
        "spec.budget-value-missing",
    ),
    "a default with a list": (budget(["sex"], [1, 1], "default = 1"), "spec.default-with-list"),
    "a default above one": (budget(["sex"], "{ f = 1 }", "default = 2"), "spec.cell-budget-out-of-range"),
    "budgets for pairs of records": (
        "privacy.neighbours = 'replace-one'\nprivacy.cell_budgets = { attributes = ['sex'], values = [1, 1] }\n" + REST,
        "spec.single-record-options",
    ),
    "composition for pairs of records": (
        composed_with(["0" * 64], ", neighbours = 'replace-one'"),
        "spec.single-record-options",
    ),
    "a composed plan of another name": (composed_with(["plan"]), "spec.plan-hash-malformed"),
    "a composed plan in capitals": (composed_with(["A" * 64]), "spec.plan-hash-malformed"),
    "a composed plan twice": (composed_with(["0" * 64] * 2), "spec.plan-twice"),
    "a matrix beyond 64 bits": (f"{DOMAIN}[[tables]]\nmatrix = [[{2**63}]]\nmargin = 1", "spec.matrix-entry-too-long"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_sentence(case):
    text, reason = REFUSED[case]
    with refused(reason) as raised:
        Spec.from_toml(text).publication()
    assert str(raised.value).endswith("No data were read.")
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 3


def test_a_mistake_made_many_times_is_reported_briefly():
    document = {"domain": {"a": {"type": "binned", "cuts": ["1"] * 100_000}}, "tables": [{"margin": 1}]}
    with pytest.raises(SpecError) as raised:
        Spec.parse(document)
    assert str(raised.value).count("must be a number") == 10


# --- the schema -----------------------------------------------------------------------------------------------


def accepts(schema, value, root):
    """A validator for the part of JSON Schema that pydantic writes; an unknown keyword fails the test."""
    explained = {"title", "description", "default", "$defs", "$schema", "discriminator"}
    texts_here = (str, date) if schema.get("format") == "date" else str
    kinds = {
        "object": dict, "array": list, "string": texts_here, "integer": int, "number": (int, float), "boolean": bool,
        "null": type(None),
    }  # fmt: skip
    rules = {
        "$ref": lambda name: accepts(root["$defs"][name.removeprefix("#/$defs/")], value, root),
        "type": lambda kind: isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool)),
        "format": lambda kind: isinstance(value, date) or re.fullmatch(r"\d{4}-\d\d-\d\d", value),
        "anyOf": lambda options: any(accepts(o, value, root) for o in options),
        "oneOf": lambda options: sum(accepts(o, value, root) for o in options) == 1,
        "const": lambda constant: value == constant,
        "enum": lambda values: value in values,
        "properties": lambda parts: all(accepts(p, value[k], root) for k, p in parts.items() if k in value),
        "required": lambda keys: set(keys) <= set(value),
        "additionalProperties": lambda rest: (
            set(value) <= set(schema["properties"])
            if rest is False
            else all(accepts(rest, v, root) for v in value.values())
        ),
        "items": lambda each: all(accepts(each, v, root) for v in value),
        "minItems": lambda n: len(value) >= n,
        "maxItems": lambda n: len(value) <= n,
        "minLength": lambda n: len(value) >= n,
        "minProperties": lambda n: len(value) >= n,
    }
    order = ["type", *sorted(set(schema) - explained - {"type"})]
    return all(rules[k](schema[k]) for k in order if k in schema)


def test_the_schema_is_json_and_accepts_the_demonstration():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(schema)) == schema
    good = room.tomllib.loads(data.path(data.DEMO).read_text(encoding="utf-8"))
    assert accepts(schema, good, schema)


WRONG = [True, 7, 7.0, 2.5, "", "zzz", [], ["zzz"], [7], {}, {"zzz": 1}, date(2000, 1, 1)]
"""Values of every kind that TOML has. No key of a specification allows all of them."""

STRUCTURAL = {
    f"spec.{slug}"
    for slug in (
        "wrong-type", "unknown-key", "key-missing", "wrong-length", "attribute-type-unknown", "value-unusable"
    )
}  # fmt: skip
"""The codes of refusals that follow from the schema."""


def branches(schema, root):
    """Return the schemas that a value may follow, without references, unions and null, which TOML does not have."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return [branch for option in options for branch in branches(option, root)]
    return [] if schema.get("type") == "null" else [schema]


def smallest(schema, root):
    """Return a value with the required keys alone."""
    schema = branches(schema, root)[0]
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    if schema["type"] == "object":
        keys = {key: schema["properties"][key] for key in schema.get("required", [])}
        keys |= {"x": schema["additionalProperties"]} if schema.get("minProperties") else {}
        return {key: smallest(part, root) for key, part in keys.items()}
    if schema["type"] == "array":
        return [smallest(schema["items"], root)] * schema.get("minItems", 0)
    if schema.get("format") == "date":
        return date(2000, 1, 1)
    return {"string": "x", "integer": 1, "number": 1.5, "boolean": True}[schema["type"]]


def every_place(schema, root):
    """Yield a document that has a key, and the path of the key, for each key of the schema and each branch."""
    yield smallest(schema, root), ()
    for branch in branches(schema, root):
        around = smallest(branch, root)
        if branch.get("type") == "object":
            parts = dict(branch.get("properties", {}))
            parts |= {"x": rest} if (rest := branch.get("additionalProperties")) else {}
            for key, part in parts.items():
                yield from (({**around, key: inner}, (key, *path)) for inner, path in every_place(part, root))
        elif branch.get("type") == "array":
            yield from (([inner, *around[1:]], (0, *path)) for inner, path in every_place(branch["items"], root))


def place_of(path):
    """Return a path as errors show it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def wrong_documents(document, path):
    """Yield documents that differ at one place, and this place: every kind of value, a key too many, and no key."""
    yield from ((put(document, path, value), place_of(path)) for value in WRONG)
    here = document
    for step in path:
        here = here[step]
    if isinstance(here, dict):
        yield put(document, (*path, "zzz"), 1), place_of(path)
    if isinstance(path[-1], str):  # without a key that says which form is meant, other keys may be missing
        yield put(document, path, None, drop=True), place_of(path[:-1])


def refusals_by_schema(document):
    """Return the error of reading a document, and the places of its refusals that follow from the schema."""
    try:
        Spec.parse(document)
    except SpecError as error:
        return error, [x.place for x in error.problems or (error,) if x.code in STRUCTURAL]
    return None, []


@pytest.mark.parametrize("section", Spec.model_fields)
def test_a_value_is_refused_where_it_stands_if_and_only_if_the_schema_refuses_it(section):
    """Every key, with every kind of value, with a key too many, and without it."""
    schema, read_count, refused_count = json_schema(), 0, 0
    for document, path in every_place(schema, schema):
        if path[:1] != (section,):
            continue
        assert accepts(schema, document, schema), path
        assert refusals_by_schema(document)[1] == [], path
        for altered, location in wrong_documents(document, path):
            error, places = refusals_by_schema(altered)
            if accepts(schema, altered, schema):
                assert places == [], altered
                read_count += 1
                continue
            assert any(x.startswith(location) for x in places), altered
            assert str(error).endswith("No data were read.")
            assert "\n" not in str(error)
            assert error.exit_code == 3
            refused_count += 1
    assert refused_count > read_count > 0


@pytest.mark.parametrize("privacy", list(fn.Privacy))
def test_the_schema_accepts_a_definition_with_other_keys(privacy):
    schema = json_schema()
    for epsilon in ("'1/3'", "0.5", "2"):
        text = f"budget = {{ epsilon = {epsilon} }}\nprivacy.definition = '{privacy}'\n" + REST
        assert accepts(schema, room.tomllib.loads(text), schema)


@pytest.mark.parametrize("privacy", list(fn.Privacy))
def test_the_schema_accepts_a_promise_in_a_word(privacy):
    schema = json_schema()
    assert accepts(schema, room.tomllib.loads(f"privacy = '{privacy}'\n" + REST), schema)


@pytest.mark.slow
@given(publications())
@settings(max_examples=30)
def test_the_schema_accepts_every_document_that_is_written(publication):
    schema = json_schema()
    assert accepts(schema, Spec.from_publication(publication).document(), schema)


def test_the_schema_satisfies_an_independent_validator():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(room.tomllib.loads(data.path(data.DEMO).read_text(encoding="utf-8")), schema)


def test_every_key_of_the_schema_is_a_key_that_is_read():
    schema = json_schema()
    parts = [schema, *schema["$defs"].values()]
    for part in parts:
        if "properties" in part:
            assert part["additionalProperties"] is False
            assert set(part.get("required", [])) <= set(part["properties"])
    assert set(schema["properties"]) == set(Spec.model_fields)
    assert math.isfinite(schema["$defs"]["AccuracySpec"]["properties"]["confidence"]["default"])


def test_all_independent_mistakes_are_reported_at_once():
    text = """
    [privacy]
    unit = ""
    [budget]
    rho = -1
    [domain.age]
    type = "ordered"
    low = 0
    high = 9
    [[tables]]
    attributes = ["agee"]
    margin = 1
    [[tables]]
    attributes = ["age"]
    [[questions]]
    name = "x"
    query = "median"
    attribute = "wage"
    people = 9
    epsilon = 1
    """
    with pytest.raises(SpecError) as refused:
        Spec.from_toml(text).publication()
    problems = refused.value.problems
    assert refused.value.code == "spec.several-problems"
    assert [x.place for x in problems] == ["privacy.unit", "budget.rho", "tables[0]", "tables[1]", "questions[0]"]
    positions = [str(refused.value).find(f"{i}. {x.place}: {x.reason}") for i, x in enumerate(problems, 1)]
    assert -1 not in positions
    assert positions == sorted(positions)
    assert str(refused.value).count("No data were read.") == 1
    with pytest.raises(SpecError) as refused:
        Spec.from_toml(text + "\n[[tables]]\nattributes = ['age']\n" * 9).publication()
    assert len(refused.value.problems) == 14
    assert "There are at least 4 more. Correct each of them. No data were read." in str(refused.value)


def test_an_unknown_key_hides_no_mistake_but_those_that_follow_from_it():
    text = """
    titel = "x"
    [data]
    sources = "people"
    [privacy]
    units = "person"
    neighbours = "neither"
    [accuracy]
    confidence = "high"
    [domain.age]
    type = "binned"
    edges = [1, 2]
    [domain.sex]
    type = "nominal"
    [[tables]]
    margins = 3
    attributes = 7
    [[tables]]
    attributes = ["age"]
    margin = "3"
    """
    with pytest.raises(SpecError) as refused:
        Spec.from_toml(text)
    problems = [(x.code, x.place) for x in refused.value.problems]
    assert sorted(problems) == [  # none is missing: "cuts" was called "edges"
        ("spec.attribute-type-unknown", "domain.sex.type"),
        ("spec.unknown-key", "data.sources"),
        ("spec.unknown-key", "domain.age.edges"),
        ("spec.unknown-key", "privacy.units"),
        ("spec.unknown-key", "tables[0].margins"),
        ("spec.unknown-key", "titel"),
        ("spec.wrong-type", "accuracy.confidence"),
        ("spec.wrong-type", "privacy.neighbours"),
        ("spec.wrong-type", "tables[0].attributes"),
        ("spec.wrong-type", "tables[1].margin"),
    ]
    actions = {x.place: x.action for x in refused.value.problems}
    assert actions["titel"] == "Did you mean 'title'?"
    assert actions["domain.age.edges"].startswith("Use one of these keys: missing, if_missing, if_outside, ")
    with pytest.raises(SpecError) as refused:
        Spec.from_toml(text + "\n[[tables]]\nmargins = 3\n" * 20)
    assert len(refused.value.problems) == 30
    assert "There are at least 20 more. Correct each of them. No data were read." in str(refused.value)
