"""Questions with finitely many answers, from the specification to the release."""

import collections
import contextlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fitnoise as fn
from designs import remade
from fitnoise.engines import open_counter
from fitnoise.errors import BudgetExceeded, PlanError
from fitnoise.interfaces.cli import main
from fitnoise.kernel import choices, noise
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.designs import clamped, questions
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.graphs import Box, QueryGraph, Simplex, complete, disjoint_counts
from fitnoise.kernel.designs.implicit_mechanisms import ImplicitMechanism
from fitnoise.kernel.designs.questions import MARGIN_CELLS, CellQuestion, QuestionKind
from fitnoise.kernel.designs.ranks import RankMechanism, RankScores
from fitnoise.kernel.designs.weights import IntegerWeights
from fitnoise.kernel.exact_powers import exp_below, log_above
from fitnoise.kernel.ledger import Account, Ledger
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms import finite
from fitnoise.mechanisms.finite import documents
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.box import clamped_staircase
from fitnoise.mechanisms.finite.graphs import from_edges
from fitnoise.mechanisms.finite.ranks import by_ranks
from fitnoise.mechanisms.finite.selection import choose
from fitnoise.messages import english
from fitnoise.planning.plan import Plan
from fitnoise.reading import release as releases
from fitnoise.reading.release_files import write_parquet
from fitnoise.request.documents import Spec, json_schema
from fitnoise.request.finite_queries import Aim, FiniteQuery
from fitnoise.request.selections import Selection
from laws.releases import answered
from refused import refused
from replayed_noise import Replay

SIGNIFICANCE = 1e-6
NOTHING = "Nothing was measured and nothing was charged"

DOMAIN = fn.Domain(
    state=fn.Categorical(["CA", "NY", "TX"]),
    kids=fn.Ordered(0, 3, clip=True),
    debt=fn.Ordered(-2, 1),
)
PEOPLE = 12
EPSILON = Fraction(3, 2)
ASK = {"people": PEOPLE, "epsilon": EPSILON}
QUESTIONS = {
    "count": FiniteQuery.count("in Texas", where={"state": "TX"}, **ASK),
    "all": FiniteQuery.count("records", **ASK),
    "independent": FiniteQuery.counts("two", where=[{"state": ["CA", "NY"]}, {"kids": [0, 1]}], **ASK),
    "disjoint": FiniteQuery.counts("apart", where=[{"state": "CA"}, {"state": "NY"}], **ASK),
    "sum": FiniteQuery.sum("kids", "kids", **ASK),
    "sum of some": FiniteQuery.sum(
        "kids in New York", "kids", where={"state": "NY", "kids": {"values": [1, 3]}}, **ASK
    ),
    "sum below 0": FiniteQuery.sum("debt", "debt", **ASK),
    "median": FiniteQuery.median("median debt", "debt", **ASK),
    "quantile": FiniteQuery.quantile("much debt", "debt", quantile=Fraction(9, 10), **ASK),
    "median of some": FiniteQuery.median("median kids", "kids", where={"state": ["CA", "TX"]}, **ASK),
}
REPLACE = fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE)


def workload():
    return fn.Workload(DOMAIN, [fn.table("state", margin=8)])


def people(rng, n=PEOPLE):
    return pd.DataFrame(
        {
            "state": rng.choice(["CA", "NY", "TX"], n),
            "kids": rng.integers(0, 4, n),
            "debt": rng.integers(-2, 2, n),
        }
    )


def counted(query, records, domain=DOMAIN):
    """The margins a question needs, of a list of records (state, kids, debt)."""
    names = list(domain)
    out = []
    for margin in query.in_domain(domain).margins(domain.axes):
        counts = np.zeros([domain[a].size for a in margin], dtype=np.int64)
        for r in records:
            counts[tuple(domain[a].position(r[names.index(a)]) for a in margin)] += 1
        out.append(counts)
    return out


def naive(name, records):
    """The answers, written out manually."""
    median = lambda xs, lowest: sorted(xs)[(len(xs) - 1) // 2] if xs else lowest  # noqa: E731
    return {
        "count": lambda: sum(s == "TX" for s, _, _ in records),
        "all": lambda: len(records),
        "independent": lambda: (sum(s != "TX" for s, _, _ in records), sum(k <= 1 for _, k, _ in records)),
        "disjoint": lambda: (sum(s == "CA" for s, _, _ in records), sum(s == "NY" for s, _, _ in records)),
        "sum": lambda: sum(k for _, k, _ in records),
        "sum of some": lambda: sum(k for s, k, _ in records if s == "NY" and k in (1, 3)),
        "sum below 0": lambda: sum(d for _, _, d in records),
        "median": lambda: median([d for _, _, d in records], -2),
        "quantile": lambda: next(
            v for v in range(-2, 2) if 10 * sum(d <= v for _, _, d in records) >= 9 * len(records)
        ),
        "median of some": lambda: median([k for s, k, _ in records if s in ("CA", "TX")], 0),
    }[name]()


# --- questions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_those_of_the_records(name, rng):
    query = QUESTIONS[name]
    for n in (0, 1, 2, 5, PEOPLE):
        records = list(people(rng, n).itertuples(index=False, name=None))
        assert query.in_domain(DOMAIN).answer(DOMAIN.axes, Adjacency(), counted(query, records)) == naive(name, records)


# --- manual cases -----------------------------------------------------------------------------------------


def test_how_many_people_and_counts_there_may_be():
    """From one to 2⁶², and from two to sixteen."""
    for people in (1, 2**62):
        assert FiniteQuery.count("q", people=people, epsilon=1).people == people
    for people in (0, 2**62 + 1, True, 1.0):
        with refused("workload.people-out-of-range"):
            FiniteQuery("q", "count", people, Fraction(1))
    for name in (5, "", " q", "q\n"):
        with refused("workload.question-name-not-printable"):
            FiniteQuery(name, "count", 3, Fraction(1))
    for count, good in ((1, False), (2, True), (16, True), (17, False)):
        where = [{"kids": i % 4} for i in range(count)]
        with contextlib.nullcontext() if good else refused("workload.conditions-out-of-range"):
            assert len(FiniteQuery.counts("q", where=where, **ASK).where) == count


def test_shares_of_quantiles_are_fractions_of_small_denominators():
    assert FiniteQuery("q", "quantile", 3, Fraction(1), "debt", quantile_share=0.9).quantile_share == Fraction(9, 10)
    assert FiniteQuery.quantile("q", "debt", quantile=Fraction(1, 1000), **ASK).terms.quantile_level == Fraction(
        1, 1000
    )
    assert FiniteQuery.quantile("q", "debt", quantile=math.pi / 10, **ASK).terms.quantile_level == Fraction(71, 226)
    assert (QUESTIONS["median"].terms.quantile_level, QUESTIONS["sum"].terms.quantile_level) == (Fraction(1, 2), None)
    assert QUESTIONS["median"].terms.ranks(Adjacency()) == RankScores(Fraction(1, 2), PEOPLE, replaces=False)
    assert QUESTIONS["quantile"].terms.ranks(Adjacency(REPLACE)) == RankScores(Fraction(9, 10), PEOPLE, replaces=True)
    assert QUESTIONS["sum"].terms.ranks(Adjacency()) is None


def test_what_is_counted_for_a_question():
    """They come in the order of the domain, for any order of the condition; all records by the first attribute."""
    assert FiniteQuery.count("q", where={"debt": 0, "kids": 1}, **ASK).in_domain(DOMAIN).margins(DOMAIN.axes) == (
        ("kids", "debt"),
    )
    assert QUESTIONS["all"].in_domain(DOMAIN).margins(DOMAIN.axes) == (("state",),)
    assert QUESTIONS["median of some"].in_domain(DOMAIN).margins(DOMAIN.axes) == (("state", "kids"),)
    assert QUESTIONS["independent"].in_domain(DOMAIN).margins(DOMAIN.axes) == (("state",), ("kids",))
    assert FiniteQuery.left_out("q", **ASK).in_domain(DOMAIN).margins(DOMAIN.axes) == ()


OLD = fn.Domain(age=fn.Ordered(5, 9))
SWAPPED = Adjacency(REPLACE)


@pytest.mark.parametrize(
    ("query", "domain", "adjacency", "shape"),
    [
        (FiniteQuery.left_out("q", **ASK), DOMAIN, Adjacency(), ("sum", 0, 12, 1)),
        (QUESTIONS["all"], DOMAIN, Adjacency(), ("sum", 0, 12, 1)),
        (QUESTIONS["count"], DOMAIN, SWAPPED, ("sum", 0, 12, 1)),
        (QUESTIONS["sum"], DOMAIN, Adjacency(), ("sum", 0, 36, 3)),
        (QUESTIONS["sum below 0"], DOMAIN, Adjacency(), ("sum", -24, 12, 3)),
        (QUESTIONS["sum below 0"], DOMAIN, SWAPPED, ("sum", -24, 12, 3)),
        (FiniteQuery.sum("q", "age", **ASK), OLD, Adjacency(), ("sum", 0, 108, 9)),
        (FiniteQuery.sum("q", "age", **ASK), OLD, SWAPPED, ("sum", 60, 108, 4)),
        (FiniteQuery.sum("q", "age", where={"age": 5}, **ASK), OLD, SWAPPED, ("sum", 0, 108, 9)),
        (QUESTIONS["median"], DOMAIN, SWAPPED, ("median", (-2, -1, 0, 1))),
        (QUESTIONS["independent"], DOMAIN, Adjacency(), ("counts", 12, 2, False)),
        (QUESTIONS["disjoint"], DOMAIN, Adjacency(), ("counts", 12, 2, True)),
    ],
)
def test_what_a_graph_depends_on(query, domain, adjacency, shape):
    """An absent record adds nothing. So 0 is a value if a record can come or go, or fail a condition."""
    assert query.in_domain(domain).shape(domain.axes, adjacency) == shape


def test_questions_with_one_possible_answer_are_refused():
    for query in (QUESTIONS["all"], FiniteQuery.sum("q", "one", **ASK)):
        with refused("workload.answer-already-public"):
            query.in_domain(fn.Domain(one=fn.Ordered(7, 7))).shape(fn.Domain(one=fn.Ordered(7, 7)).axes, SWAPPED)
    assert FiniteQuery.sum("q", "one", **ASK).in_domain(fn.Domain(one=fn.Ordered(7, 7))).shape(
        fn.Domain(one=fn.Ordered(7, 7)).axes, Adjacency()
    ) == ("sum", 0, 84, 7)


@pytest.mark.parametrize(
    ("where", "disjoint"),
    [
        ([{"state": "CA"}, {"state": ["NY", "TX"]}], True),
        ([{"state": ["CA", "NY"]}, {"state": ["NY", "TX"]}], False),
        ([{"state": "CA"}, {"kids": 0}], False),
        ([{"state": "CA", "kids": 0}, {"kids": [1, 2]}], True),
        ([{"state": "CA", "kids": 0}, {"state": "CA", "kids": 1}], True),
        ([{"state": "CA"}, {"state": "NY"}, {"state": ["TX", "CA"]}], False),
        ([{"state": "CA"}, {"state": "NY"}, {"state": "TX"}], True),
    ],
)
def test_no_record_meets_two_disjoint_conditions(where, disjoint):
    assert FiniteQuery.counts("q", where=where, **ASK).in_domain(DOMAIN)._disjoint() is disjoint


def test_a_step_costs_its_share_of_what_a_unit_may():
    three = Adjacency(fn.PrivacyUnit("person", 3, id="pid"))
    left_out = FiniteQuery.left_out("q", **ASK)
    assert (QUESTIONS["sum"].terms.steps(three), left_out.terms.steps(three)) == (3, 1)
    assert left_out.terms.steps(Adjacency(fn.PrivacyUnit("person", 3))) == 3
    assert (QUESTIONS["sum"].terms.record_epsilon(three), left_out.terms.record_epsilon(three)) == (
        EPSILON / 3,
        EPSILON,
    )
    many = Adjacency(fn.PrivacyUnit("person", 2 * 10**6))
    with refused("workload.epsilon-per-record-too-small"):
        QUESTIONS["sum"].graph(DOMAIN, many)
    with refused("workload.prior-misfits-results"):
        replace(QUESTIONS["count"], prior=(0.5, 0.5)).graph(DOMAIN, Adjacency())


def made_for(graph, epsilon=EPSILON, is_constant_time=True):
    return SimpleNamespace(graph=graph, epsilon=epsilon, is_constant_time=is_constant_time)


def test_a_mechanism_is_for_a_question_where_its_graph_and_its_price_are():
    """This holds for the graph itself, or an equal one; draws take even time."""
    query, adjacency = QUESTIONS["sum"], Adjacency()
    graph_of_sum = query.graph(DOMAIN, adjacency)
    equal = QueryGraph(range(37), Box((37,), (3,)))
    assert equal is not graph_of_sum
    for graph in (graph_of_sum, equal):
        assert query.in_domain(DOMAIN).bounds(DOMAIN.axes, adjacency, made_for(graph, EPSILON / 2))
        assert query.in_domain(DOMAIN).accepts(DOMAIN.axes, adjacency, made_for(graph))
        assert not query.in_domain(DOMAIN).accepts(DOMAIN.axes, adjacency, made_for(graph, EPSILON / 2))
        assert not query.in_domain(DOMAIN).bounds(DOMAIN.axes, adjacency, made_for(graph, is_constant_time=False))
    for other in (
        QueryGraph(range(37), Box((37,), (2,))),
        QueryGraph(range(1, 38), Box((37,), (3,))),
        QueryGraph(range(36), Box((36,), (3,))),
        complete(37),
        SimpleNamespace(structure=equal.structure, n=37, results=equal.results),
    ):
        assert not query.in_domain(DOMAIN).bounds(DOMAIN.axes, adjacency, made_for(other))
        assert not query.in_domain(DOMAIN).accepts(DOMAIN.axes, adjacency, made_for(other))
    disjoint = QUESTIONS["disjoint"]
    graph = disjoint.graph(DOMAIN, adjacency)
    assert disjoint.in_domain(DOMAIN).bounds(DOMAIN.axes, adjacency, made_for(disjoint_counts(PEOPLE, 2)))
    fewer = QueryGraph(graph.results, Simplex(graph.structure.bins[::-1].copy()))
    assert fewer.n == graph.n
    assert not np.array_equal(fewer.edges, graph.edges)
    assert not disjoint.in_domain(DOMAIN).bounds(DOMAIN.axes, adjacency, made_for(fewer))
    edge_by_edge = from_edges(graph.n, graph.edges, graph.results)
    assert np.array_equal(edge_by_edge.edges, graph.edges)
    assert not disjoint.in_domain(DOMAIN).bounds(
        DOMAIN.axes, adjacency, made_for(edge_by_edge)
    )  # of another kind, so it is not looked through


def test_ranks_are_those_of_the_question_and_of_its_neighbours():
    query = QUESTIONS["median"]
    ranked = by_ranks(query.graph(DOMAIN, Adjacency()), EPSILON, query.terms.ranks(Adjacency()))
    assert query.in_domain(DOMAIN).accepts(DOMAIN.axes, Adjacency(), ranked)
    assert not query.in_domain(DOMAIN).bounds(DOMAIN.axes, SWAPPED, ranked)
    assert not replace(query, people=PEOPLE + 1).in_domain(DOMAIN).bounds(DOMAIN.axes, Adjacency(), ranked)


def test_results_are_as_many_as_are_planned_for(monkeypatch):
    """And not one more; disjoint counts are distinguished from others while a table holds them."""
    for shape, max_results in (((QuestionKind.SUM, -3, 5, 2), 9), ((QuestionKind.COUNTS, 4, 2, False), 25)):
        for limit, good in ((max_results, True), (max_results - 1, False)):
            monkeypatch.setattr(questions, "RESULTS_LIMIT", limit)
            questions.graph_of.cache_clear()
            with (
                contextlib.nullcontext()
                if good
                else refused("workload.counts-too-many-results", "workload.sum-too-fine")
            ):
                assert questions.graph_of(shape).n == max_results
    for limit, results in ((15, 15), (14, 25)):
        monkeypatch.setattr(questions, "RESULTS_LIMIT", 25)
        monkeypatch.setattr(questions, "DENSE_LIMIT", limit)
        questions.graph_of.cache_clear()
        assert questions.graph_of((QuestionKind.COUNTS, 4, 2, True)).n == results
    questions.graph_of.cache_clear()
    graph = questions.graph_of((QuestionKind.SUM, -3, 5, 2))
    assert (list(graph.results), graph.structure) == (list(range(-3, 6)), Box((9,), (2,)))
    median = questions.graph_of((QuestionKind.MEDIAN, ("a", "b", "c")))
    assert (median.results, median.structure) == (("a", "b", "c"), complete(3).structure)


@pytest.mark.parametrize(("records", "added", "swapped"), [(11, True, False), (12, True, True), (13, False, False)])
def test_as_many_records_as_are_declared(records, added, swapped):
    """Or fewer, where they can come and go."""
    counts = [np.array([records, 0, 0])]
    for adjacency, good in ((Adjacency(), added), (SWAPPED, swapped)):
        with contextlib.nullcontext() if good else refused("data.people-misfits-data"):
            assert QUESTIONS["count"].in_domain(DOMAIN).answer(DOMAIN.axes, adjacency, counts) == 0
            by_debt = [records, 0, 0, 0]
            assert QUESTIONS["median"].in_domain(DOMAIN).records(DOMAIN.axes, adjacency, [np.array(by_debt)]) == by_debt


def test_conditions_and_priors_in_one_form():
    query = FiniteQuery.count("q", where={"state": "TX", "kids": [1, 2]}, prior=[1, 0.5], **ASK)
    assert query.where == ((("kids", Selection.parse((1, 2))), ("state", Selection.parse("TX"))),)
    assert query.prior == (1.0, 0.5)
    assert FiniteQuery.count("q", prior=[1, 0], **ASK).prior == (1.0, 0.0)
    for prior in ([], [-0.1, 1.1], [math.nan], [math.inf], ["x"], 3):
        with refused("workload.question-prior-invalid"):
            FiniteQuery("q", "count", 3, Fraction(1), prior=prior)
    for where in (((("kids", (1,)), ("kids", (2,))),), ((("kids", ()),),)):
        with refused("workload.condition-attribute-twice"):
            FiniteQuery("q", "count", 3, Fraction(1), where=where)


def test_people_out_of_bounds_are_refused_without_their_number(rng):
    query = QUESTIONS["sum"]
    records = list(people(rng, PEOPLE + 1).itertuples(index=False, name=None))
    with refused("data.people-misfits-data") as caught:
        query.in_domain(DOMAIN).answer(DOMAIN.axes, Adjacency(), counted(query, records))
    assert "13" not in str(caught.value)
    with refused("data.people-misfits-data"):
        query.in_domain(DOMAIN).answer(DOMAIN.axes, Adjacency(REPLACE, drops=False), counted(query, records[:11]))
    assert query.in_domain(DOMAIN).answer(
        DOMAIN.axes, Adjacency(REPLACE, drops=True), counted(query, records[:11])
    ) == naive("sum", records[:11])


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: FiniteQuery.count(" x", **ASK), "workload.question-name-not-printable"),
        (lambda: FiniteQuery.count("x", people=0, epsilon=1), "workload.people-out-of-range"),
        (lambda: FiniteQuery.count("x", people=True, epsilon=1), "workload.people-out-of-range"),
        (lambda: FiniteQuery.count("x", people=5, epsilon=0), "workload.epsilon-out-of-range"),
        (lambda: FiniteQuery.count("x", people=5, epsilon=-1), "workload.epsilon-out-of-range"),
        (
            lambda: FiniteQuery("x", "mode", 5, Fraction(1)),
            "workload.unknown-question-kind",
        ),
        (lambda: FiniteQuery.count("x", aim="luck", **ASK), "workload.unknown-question-kind"),
        (lambda: FiniteQuery("x", "sum", 5, Fraction(1)), "workload.question-needs-attribute"),
        (lambda: FiniteQuery("x", "count", 5, Fraction(1), "kids"), "workload.question-takes-no-attribute"),
        (lambda: FiniteQuery.counts("x", where=[{"state": "CA"}], **ASK), "workload.conditions-out-of-range"),
        (lambda: FiniteQuery.count("x", where={"state": []}, **ASK), "workload.condition-attribute-twice"),
        (lambda: FiniteQuery("x", "count", 5, Fraction(1), None, ((), ())), "workload.several-conditions"),
        (lambda: FiniteQuery.count("x", people=2**62 + 1, epsilon=1), "workload.people-out-of-range"),
        (lambda: FiniteQuery.counts("x", where=[{"kids": 1}] * 17, **ASK), "workload.conditions-out-of-range"),
        (lambda: FiniteQuery.count("x", people=5, epsilon="abc"), "workload.epsilon-not-a-number"),
        (lambda: FiniteQuery.count("x", people=5, epsilon=math.nan), "workload.epsilon-out-of-range"),
        (lambda: FiniteQuery.count("x", prior="abc", **ASK), "workload.question-prior-invalid"),
        (lambda: FiniteQuery.count("x", prior=[math.nan, 1], **ASK), "workload.question-prior-invalid"),
        (lambda: FiniteQuery.count("x", prior=[-1, 2], **ASK), "workload.question-prior-invalid"),
        (lambda: FiniteQuery.count("x", prior=[], **ASK), "workload.question-prior-invalid"),
        (
            lambda: FiniteQuery("x", "count", 5, Fraction(1), None, ((("a", [1]), ("a", ["x"])),)),
            "workload.condition-attribute-twice",
        ),
        (lambda: FiniteQuery.left_out("x", where=((("a", [1]),),), **ASK), "workload.left-out-with-condition"),
        (lambda: FiniteQuery("x", "left_out", 5, Fraction(1), "a"), "workload.question-takes-no-attribute"),
    ],
)
def test_questions_that_are_none_are_refused(make, error):
    with refused(error):
        make()


def test_persons_of_whom_records_are_left_out_are_a_question_of_those_by_an_id():
    """One person moves it by one, however many records she has; one of whom nothing is known, by as many as he has."""
    query = FiniteQuery.left_out("x", **ASK)
    assert query.in_domain(DOMAIN).margins(DOMAIN.axes) == ()
    assert query.graph(DOMAIN, Adjacency()).results == range(PEOPLE + 1)
    for n, answer in ((0, 0), (5, 5), (PEOPLE, PEOPLE), (PEOPLE + 1, PEOPLE), (2**40, PEOPLE)):
        assert query.in_domain(DOMAIN).answer(DOMAIN.axes, Adjacency(), [np.array(n)]) == answer
    for max_records in (1, 7):
        by_id = Adjacency(fn.PrivacyUnit("person", max_records, id="p"))
        assert (query.terms.steps(by_id), query.terms.record_epsilon(by_id)) == (1, EPSILON)
        assert query.terms.steps(by_id.for_unit(fn.PrivacyUnit("person", 3, fn.Neighbours.REPLACE_ONE))) == 1
        assert query.terms.steps(by_id.for_unit(fn.PrivacyUnit())) == 1
        assert query.terms.steps(by_id.for_unit(fn.PrivacyUnit("home", 9))) == 9
        assert query.terms.steps(by_id.for_unit(fn.PrivacyUnit("home", 9, fn.Neighbours.REPLACE_ONE))) == 18
    with refused("spec.left-out-question-needs-id"):
        fn.Publication(workload(), fn.PrivacyUnit("person", 2), questions=(query,))


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (FiniteQuery.sum("x", "state", **ASK), "workload.sum-needs-ordered"),
        (FiniteQuery.median("x", "state", **ASK), "workload.quantile-needs-order"),
        (FiniteQuery.sum("x", "age", **ASK), "workload.question-unknown-attribute"),
        (FiniteQuery.count("x", where={"age": 1}, **ASK), "workload.question-unknown-attribute"),
        (FiniteQuery.count("x", where={"state": "WA"}, **ASK), "domain.unknown-value"),
        (
            FiniteQuery.counts("x", where=[{"state": s} for s in ["CA", "NY"]] * 5, people=9, epsilon=1),
            "workload.counts-too-many-results",
        ),
        (FiniteQuery.sum("x", "kids", people=10**9, epsilon=1), "workload.sum-too-fine"),
    ],
)
def test_questions_that_the_domain_cannot_answer_are_refused(query, error):
    with refused(error):
        fn.plan(workload(), questions=[query])


def test_missing_values_are_counted_and_not_added_up():
    domain = fn.Domain(hours=fn.Ordered(0, 3, missing={"unknown": [9]}, if_missing="unknown", if_outside="unknown"))
    FiniteQuery.count("x", where={"hours": {"values": ["unknown", 1]}}, **ASK).in_domain(domain)
    for query in (FiniteQuery.sum("x", "hours", **ASK), FiniteQuery.median("x", "hours", **ASK)):
        with refused("workload.question-about-missing-category"):
            query.in_domain(domain)


@pytest.mark.parametrize(
    "where",
    [
        (("state", (0,)),),
        ((("state", [0]),),),
        ((("state", 0),),),
        ((("state", ()),),),
        ((("state", (-1,)),),),
        ((("state", (True,)),),),
        ((("state", (0,)), ("state", (1,))),),
        ([("state", (0,))],),
        (((5, (0,)),),),
    ],
)
def test_conditions_of_the_kernel_are_cells_of_different_attributes(where):
    assert CellQuestion("x", "count", 5, Fraction(1), None, ((("state", (0, 2)),),)).where == ((("state", (0, 2)),),)
    with refused("workload.condition-cells-invalid"):
        CellQuestion("x", "count", 5, Fraction(1), None, where)


def test_a_question_of_the_kernel_fits_its_domain_or_is_refused():
    """A cell beyond the last would otherwise fail while records are counted."""
    with refused("workload.condition-cells-invalid"):
        replace(QUESTIONS["median"].terms, values=[-2, -1, 0, 1])
    for where in ((("state", (3,)),), (("state", (0,)), ("kids", (1, 4)))):
        with refused("workload.condition-cell-unknown"):
            CellQuestion("x", "count", 5, Fraction(1), None, (where,)).check(DOMAIN.axes)
    for values in ((), (-2, -1, 0)):
        question = replace(QUESTIONS["median"].in_domain(DOMAIN), values=values)
        with refused("workload.question-values-misfit"):
            question.graph(DOMAIN.axes, Adjacency())


def test_questions_about_more_cells_than_are_counted_for_one_are_refused():
    query = FiniteQuery.count("x", where={"a": 1, "b": 1}, **ASK)
    half = MARGIN_CELLS // 2
    query.in_domain(fn.Domain(a=fn.Ordered(1, half), b=fn.Ordered(0, 1)))
    with refused("workload.question-too-many-cells"):
        query.in_domain(fn.Domain(a=fn.Ordered(0, half), b=fn.Ordered(0, 1)))


def test_priors_and_aims_are_checked_before_anything():
    with refused("workload.prior-misfits-results"):
        fn.plan(workload(), questions=[replace(QUESTIONS["sum"], prior=(0.5, 0.5))])
    with refused("workload.prior-sum"):
        fn.plan(workload(), questions=[replace(QUESTIONS["sum"], prior=(1.0,) * 37)])
    with refused("workload.epsilon-per-record-too-small"):
        fn.plan(workload(), unit=fn.PrivacyUnit("person", 10**12), questions=[QUESTIONS["sum"]])
    letters = fn.Workload(fn.Domain(size=fn.Binned([1, 2])), [fn.table("size", margin=9)])
    median = FiniteQuery.median("m", "size", aim=Aim.MEAN_ABSOLUTE_ERROR, people=5, epsilon=1)
    with refused("workload.aim-needs-numbers"):
        fn.plan(letters, questions=[median])


# --- documents ----------------------------------------------------------------------------------------------------

FAMILIES = {
    "tight": (QUESTIONS["sum"], "distance"),
    "residual": (replace(QUESTIONS["independent"], epsilon=Fraction(1, 2)), "distance"),
    "staircase": (replace(QUESTIONS["sum"], epsilon=Fraction(1, 2), people=30), "formula"),
    "median": (QUESTIONS["median"], "ranks"),
    "quantile": (QUESTIONS["quantile"], "ranks"),
    "median of the answer alone": (replace(QUESTIONS["median"], prior=(0.25,) * 4), "distance"),
    "counts": (QUESTIONS["independent"], "distance"),
    "program": (replace(QUESTIONS["sum"], epsilon=Fraction(1, 2), aim=Aim.MEAN_ABSOLUTE_ERROR), "rows"),
    "geometric": (
        replace(QUESTIONS["sum"], people=60, epsilon=Fraction(1, 2), aim=Aim.MEAN_ABSOLUTE_ERROR),
        "formula",
    ),
    "large": (FiniteQuery.sum("large", "kids", people=3000, epsilon=1), "box"),
    "large, below the threshold": (FiniteQuery.sum("large", "kids", people=3000, epsilon=Fraction(1, 3)), "clamped"),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", FAMILIES)
def test_mechanisms_are_written_and_read_back(name):
    query, form = FAMILIES[name]
    unit = fn.PrivacyUnit()
    mechanism = choose(query, DOMAIN, Adjacency(unit)).mechanism
    document = json.loads(json.dumps(documents.document(mechanism)))
    assert document["form"] == form
    parsed = documents.read(
        query.graph(DOMAIN, Adjacency(unit)), query.epsilon, document, query.terms.ranks(Adjacency(unit))
    )
    assert documents.document(parsed) == document
    assert parsed.log_ratio() == mechanism.log_ratio() <= query.epsilon
    if isinstance(mechanism, ClampedMechanism | RankMechanism):
        assert parsed.alpha == mechanism.alpha
        return
    if isinstance(mechanism, ImplicitMechanism):
        assert parsed.alpha == mechanism.alpha
        assert np.array_equal(parsed.weights, mechanism.weights)
        return
    assert np.array_equal(parsed.answers, mechanism.answers)
    assert all(parsed.weights.row(i) == mechanism.weights.row(i) for i in range(mechanism.graph.n))


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["tight", "program", "large", "large, below the threshold"])
def test_altered_mechanisms_are_refused(name):
    """Detects a reader that believes the integers, or their ε: a heavier weight distinguishes results too well."""
    query, form = FAMILIES[name]
    document = documents.document(choose(query, DOMAIN, Adjacency()).mechanism)
    graph = query.graph(DOMAIN, Adjacency())
    documents.read(graph, query.epsilon, document)
    with pytest.raises(PlanError):
        documents.read(graph, query.epsilon * Fraction(99, 100), document)
    altered = json.loads(json.dumps(document))
    if form == "distance":
        altered["values"][0] = str(2 * int(altered["values"][0]))
    elif form == "rows":
        row = altered["rows"][0]
        row[row.index(max(row, key=int))] = "0"
    elif form == "clamped":
        altered["alpha"] = "1/2"
    else:
        altered["weights"][0][0] = str(int(altered["weights"][0][0]) * 2)
    with pytest.raises(PlanError):
        documents.read(graph, query.epsilon, altered)


@pytest.mark.parametrize(
    "change",
    [
        {"form": "guess"},
        {"columns": ["1"]},
        {"values": []},
        {"rest_to": 99},
        {"rest_to": True},
        {"values": ["1.5"]},
        {"values": [True]},
        {"read_as": [[0, 5]]},
        {"read_as": [[0, -1]]},
        {"read_as": [["x", 37]]},
        {"read_as": [[]]},
        {"read_as": [[0]]},
        {"read_as": "12"},
        {"values": "12"},
        {"form": "rows", "rows": []},
        {"form": "rows", "rows": [["1"]]},
        {"form": "box", "alpha": "1e100000000", "weights": [[1, 37]]},
        {"form": "clamped", "family": "staircase", "alpha": "1e-100000000"},
        {"form": "clamped", "family": "staircase", "alpha": 0.5},
        {"form": "clamped", "family": "tight-constraints", "alpha": "1/2"},
        {"form": "clamped", "family": "staircase", "alpha": f"{2**62 - 1}/{2**62}"},
        {"family": "optimal by a miracle"},
        {"form": "ranks", "alpha": "1/2"},
        {"total": "-4"},
    ],
)
def test_damaged_documents_are_refused(change):
    query = QUESTIONS["sum"]
    document = documents.document(choose(query, DOMAIN, Adjacency()).mechanism)
    with pytest.raises(PlanError):
        documents.read(query.graph(DOMAIN, Adjacency()), query.epsilon, document | change)


# --- plans --------------------------------------------------------------------------------------------------------


def small(**options):
    return fn.plan(workload(), questions=[QUESTIONS["sum"], QUESTIONS["independent"], QUESTIONS["median"]], **options)


@pytest.fixture(scope="module")
def plan():
    return small()


def test_a_plan_pays_for_tables_and_answers(plan):
    tables_only = fn.plan(workload())
    assert plan.table_part.exact_cost == tables_only.table_part.exact_cost
    assert len(plan.questions) == 3
    assert all(EPSILON * (1 - Fraction(1, 10**9)) <= q.exact_epsilon <= EPSILON for q in plan.questions)
    assert plan.loss.rho == tables_only.loss.rho + sum(q.exact_epsilon**2 / 2 for q in plan.questions)
    assert plan.loss.epsilon is None
    assert plan.epsilon() > tables_only.epsilon()
    assert plan.loss_summary.mu > tables_only.loss_summary.mu
    assert plan.gap == tables_only.gap
    assert plan.table_part.objective_value == tables_only.table_part.objective_value


def test_a_pure_plan_adds_every_epsilon():
    pure_plan, tables_only = small(privacy="pure"), fn.plan(workload(), privacy="pure")
    assert pure_plan.loss.epsilon == tables_only.loss.epsilon + sum(q.exact_epsilon for q in pure_plan.questions)
    assert pure_plan.loss.rho == tables_only.loss.rho + sum(q.exact_epsilon**2 / 2 for q in pure_plan.questions)
    gaussian_mus = [
        2 * stats.norm.ppf(1 / (1 + math.exp(-e)))
        for e in (tables_only.loss.epsilon, *[q.exact_epsilon for q in pure_plan.questions])
    ]
    assert pure_plan.loss_summary.mu == pytest.approx(
        min(math.hypot(*gaussian_mus), math.sqrt(math.pi * pure_plan.loss.rho))
    )


@pytest.mark.no_cover
def test_a_unit_of_several_records_is_charged_at_most_the_requested_cost():
    person_plan = small(unit=fn.PrivacyUnit("person", 3))
    assert all(q.mechanism.epsilon == EPSILON / 3 for q in person_plan.questions)
    assert all(q.exact_epsilon <= EPSILON for q in person_plan.questions)
    assert person_plan.questions[0].exact_epsilon == 3 * person_plan.questions[0].mechanism.log_ratio()


def test_a_cap_is_for_everything_and_a_budget_for_the_tables(plan):
    assert small(cap=fn.Budget(rho=plan.loss.rho)).hash != plan.hash
    with refused("plan.questions-exceed-cap"):
        small(cap=fn.Budget(rho=plan.loss.rho * Fraction(999, 1000)))
    spent = small(budget=fn.Budget(rho=Fraction(1, 50)))
    tables = spent.loss.rho - sum(q.exact_epsilon**2 / 2 for q in spent.questions)
    assert tables == pytest.approx(0.02, rel=1e-6)
    pure = small(privacy="pure", epsilon=Fraction(1, 2))
    assert pure.loss.epsilon - sum(q.exact_epsilon for q in pure.questions) == pytest.approx(0.5, rel=1e-6)
    assert [q.summary for q in small(privacy="auto", epsilon=0.5).questions] == [q.summary for q in plan.questions]


@pytest.mark.parametrize("privacy", ["zcdp", "pure"])
def test_plans_are_read_back_and_verified(privacy, tmp_path):
    stored = small(privacy=privacy, title="answers")
    path = tmp_path / "plan.json"
    path.write_text(stored.to_json(), encoding="utf-8")
    parsed = Plan.from_json(path.read_text(encoding="utf-8"))
    assert parsed.hash == stored.hash
    assert [q.summary for q in parsed.questions] == [q.summary for q in stored.questions]
    checked = fn.verify(path)
    assert checked.ok, checked
    assert any("mechanisms proven again: 3" in english(c.finding) for c in checked.checks)


def test_margins_of_several_answers_hold_at_once(plan):
    """Bonferroni's bound over all of them; each is its mechanism's own at that level."""
    release = answered(plan)
    joint, single = release.finite_at(simultaneous=True), release.finite_at()
    assert single == dict(release.finite)
    each = 1 - (1 - 0.95) / 3
    for mechanism, (name, a) in zip((q.mechanism for q in plan.questions), joint.items(), strict=True):
        before = single[name]
        assert (a.value, a.hit_rate, a.confidence) == (before.value, before.hit_rate, each)
        if a.rank_moe is None:
            assert a.moe == accuracy(mechanism).margin(each) >= before.moe
        else:
            assert a.moe is None
            assert a.rank_moe > before.rank_moe
    assert sum(a.rank_moe is not None for a in joint.values()) == 1
    assert release.finite_at(each) == joint
    with refused("workload.confidence-out-of-range"):
        release.finite_at(1.5)


def test_a_plan_without_its_mechanisms_is_refused(plan):
    with refused("plan.mechanism-count"):
        remade(plan, finite=[q.mechanism for q in plan.questions][:2])
    with refused("plan.mechanism-of-another-question"):
        remade(plan, finite=[q.mechanism for q in plan.questions][::-1])
    document = json.loads(plan.to_json())
    document["questions"] = []
    with refused("plan.mechanism-count"):
        Plan.from_json(json.dumps(document))


def test_a_costlier_mechanism_is_not_accepted_for_the_question(plan):
    costly = choose(replace(QUESTIONS["sum"], epsilon=Fraction(2)), DOMAIN, Adjacency()).mechanism
    with refused("plan.mechanism-of-another-question"):
        remade(plan, finite=(costly, *[q.mechanism for q in plan.questions][1:]))


def test_labels_are_not_taken_on_trust(plan, tmp_path, rng, monkeypatch):
    """A mechanism of the right graph with other labels on it would answer for other results."""
    mechanism = plan.questions[0].mechanism
    labels = (0, 36, *range(1, 36))
    relabelled = replace(mechanism, graph=finite.QueryGraph(labels, mechanism.graph.structure))
    with refused("plan.mechanism-of-another-question"):
        remade(plan, finite=(relabelled, *[q.mechanism for q in plan.questions][1:]))


def test_integers_cannot_be_changed_after_they_are_proven():
    codes = np.zeros((2, 2), dtype=np.int64)
    weights = IntegerWeights((1, 0), codes[:], (1, 1), (0, 0), 0)
    codes[0, 0] = 1
    assert weights.row(0) == weights.row(1) == (1, 1)


def test_a_ratio_nearer_to_one_than_a_float_can_say_has_a_logarithm():
    ratio = 1 + Fraction(1, 10**399)
    assert 0 < log_above(ratio) < Fraction(1, 10**50)


def test_rows_of_different_sums_are_refused_without_a_table():
    """They are private, but the number of tries would depend on the result."""
    query = FAMILIES["large"][0]
    document = documents.document(choose(query, DOMAIN, Adjacency()).mechanism)
    graph = query.graph(DOMAIN, Adjacency())
    with refused("plan.unequal-row-sums"):
        documents.read(graph, Fraction(3), document | {"alpha": "7/8", "weights": [[1, 9001]]})


def test_names_are_unique_and_free_plans_have_no_questions():
    with refused("spec.name-twice"):
        fn.plan(workload(), questions=[replace(QUESTIONS["sum"], name="state")])
    with refused("spec.name-twice"):
        fn.plan(workload(), questions=[QUESTIONS["sum"], QUESTIONS["sum"]])
    base = fn.plan(workload())
    free_request = fn.Publication(fn.Workload(DOMAIN, [fn.table("debt", margin=9)]), questions=(QUESTIONS["sum"],))
    with refused("plan.free-with-question"):
        fn.plan_free(free_request, [base])
    with refused("spec.free-with-questions"):
        replace(free_request, composed_with=(base.hash,), must_be_free=True)


def test_cell_budgets_do_not_go_with_answers():
    budgets = fn.CellBudgets(("state",), (1.0, 0.5, 1.0))
    with refused("spec.cell-budgets-with-questions"):
        fn.plan(workload(), cell_budgets=budgets, questions=[QUESTIONS["sum"]])


def test_costs_of_answers_add_to_those_of_another_plan_in_each_cell(plan, tmp_path, rng):
    base = fn.plan(workload())
    composed = fn.plan(replace(plan.publication, composed_with=(base.hash,)))
    data = people(rng)
    with Ledger(tmp_path / "l.sqlite") as ledger:
        fn.release(base, data, ledger=ledger)
        fn.release(composed, data, ledger=ledger)
        entry = ledger.entries()[-2]
    min_rho = sum(q.exact_epsilon**2 / 2 for q in composed.questions)
    assert all(Fraction(v, 2**64) >= min_rho for v in entry.detail["profile"]["values"])


# --- specifications -----------------------------------------------------------------------------------------------

TOML = """
title = "With answers"

[privacy]
unit = "person"

[domain.state]
type = "categorical"
codes = ["CA", "NY", "TX"]

[domain.kids]
type = "ordered"
low = 0
high = 3
clip = true

[domain.debt]
type = "ordered"
low = -2
high = 1

[[tables]]
attributes = ["state"]
margin = 8

[[questions]]
name = "kids"
query = "sum"
attribute = "kids"
people = 12
epsilon = "3/2"

[[questions]]
name = "two"
query = "counts"
where = [{ state = ["CA", "NY"] }, { kids = [0, 1] }]
people = 12
epsilon = 1.5
aim = "mean-absolute-error"
"""


def test_specifications_say_questions_and_say_them_again(tmp_path):
    publication = Spec.from_toml(TOML).publication()
    kids, two = publication.questions
    assert kids == QUESTIONS["sum"]
    assert two == replace(QUESTIONS["independent"], aim=Aim.MEAN_ABSOLUTE_ERROR)
    rewritten = Spec.from_publication(publication)
    assert rewritten.publication() == publication
    assert Spec.from_toml(rewritten.to_toml()).publication() == publication
    assert "questions" in json_schema()["properties"]
    assert "questions" not in Spec.from_publication(replace(publication, questions=())).document()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('attribute = "kids"', 'attribute = "age"', "workload.question-unknown-attribute"),
        ('epsilon = "3/2"', 'epsilon = "much"', "spec.not-an-exact-number"),
        ('epsilon = "3/2"', "epsilon = 0", "workload.epsilon-out-of-range"),
        ("{ kids = [", "{ kidz = [", "spec.condition-attribute-unknown"),
        ('name = "two"', 'name = "kids"', "spec.name-twice"),
        ('["CA", "NY"] }', '["CA", "WA"] }', "domain.unknown-value"),
    ],
)
def test_specifications_are_refused_where_they_are_wrong(old, new, error):
    assert TOML.count(old) == 1 or old == 'name = "two"'
    with refused(error) as caught:
        Spec.from_toml(TOML.replace(old, new)).publication()
    assert "No data were read" in str(caught.value)


# --- measuring ----------------------------------------------------------------------------------------------------


def measured(plan, data, source=noise):
    counter = open_counter(data, plan.publication.workload.domain.axes, plan.publication.source)
    with Ledger(":memory:") as ledger:
        return measuring.measure(plan.order, counter, ledger, noise=source)


def test_the_ledger_is_charged_for_everything_once(plan, rng):
    entry = measured(plan, people(rng)).charge
    assert entry.rho >= plan.loss.rho
    assert entry.rho - plan.loss.rho < Fraction(1, 2**63)
    assert [x["question"] for x in entry.detail["questions"]] == ["kids", "two", "median debt"]
    assert [Fraction(x["epsilon"]) for x in entry.detail["questions"]] == [q.exact_epsilon for q in plan.questions]
    pure = small(privacy="pure")
    entry = measured(pure, people(rng)).charge
    assert entry.epsilon == pure.loss.epsilon


def test_draws_depend_only_on_the_true_answer(plan, rng):
    """The watched noise source: each question draws once, from the row of its true answer, or of its ranks."""
    data, replay = people(rng), Replay()
    assert [int(x.item()) for (x,) in measured(plan, data, replay).answers[1:]] == [0, 0, 0]
    records = list(data.itertuples(index=False, name=None))
    by_value = [sum(d == v for _, _, d in records) for v in range(-2, 2)]
    truth = [naive("sum", records), naive("independent", records), plan.questions[2].mechanism.index_of(by_value)]
    assert replay.laws == [
        ("categorical", m.row(t)) for m, t in zip((q.mechanism for q in plan.questions), truth, strict=True)
    ]


def test_nothing_is_charged_where_the_people_are_not_as_declared(plan, tmp_path, rng):
    with refused("data.people-misfits-data"):
        fn.release(plan, people(rng, 13), ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    assert not (tmp_path / "r").exists()
    with Ledger(tmp_path / "l.sqlite") as ledger:
        assert not ledger.entries()


def test_a_cap_of_the_ledger_holds_for_answers_too(plan, tmp_path, rng):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_cap(Account("default", plan.publication.unit), plan.loss.rho * Fraction(9, 10))
        with pytest.raises(BudgetExceeded):
            fn.release(plan, people(rng), ledger=ledger)


@pytest.mark.parametrize("name", ["sum", "independent", "median", "large", "large, below the threshold"])
def test_released_answers_follow_the_law_of_the_plan(name, rng):
    """Chi-square at 1e-6 of 4,000 draws; detects a row looked up for another answer, or outputs read as others."""
    query = FAMILIES[name][0] if name in FAMILIES else QUESTIONS[name]
    mechanism = choose(query, DOMAIN, Adjacency()).mechanism
    truth = (7, 5) if name == "independent" else (2, 3, 1, 6) if name == "median" else 14
    node = tuple(np.atleast_1d(mechanism.index_of(truth)).tolist())
    draws = [mechanism.draw_output(node, noise) for _ in range(4_000)]
    seen = collections.Counter(mechanism.read(o) for o in draws)
    if isinstance(mechanism, ImplicitMechanism):
        x = np.arange(mechanism.weights.size)
        law = float(mechanism.alpha) ** np.ceil(abs(x - node[0]) / 3) * mechanism.weights
    elif isinstance(mechanism, ClampedMechanism):
        law = clamped_law(mechanism, truth)
    elif isinstance(mechanism, RankMechanism):
        law = np.exp(-float(mechanism.epsilon) * np.array([8, 2, 0, 0]) / 2)  # parts ½ of a record that are lacking
    else:
        law = np.zeros(mechanism.graph.n)
        np.add.at(law, mechanism.answers, mechanism.probabilities()[node[0]])
    law = law / law.sum()
    counts = np.array([seen[r] for r in mechanism.graph.results])
    usual = law * 4_000 >= 5
    observed, expected = (
        np.append(counts[usual], counts[~usual].sum()),
        np.append(law[usual], law[~usual].sum()) * 4_000,
    )
    if expected[-1] < 1:
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
    assert stats.chisquare(observed, expected).pvalue > SIGNIFICANCE


def clamped_law(mechanism, truth, wide=400):
    """Probabilities of the answers to one truth on one axis, summed up point by point."""
    (v,), (n,) = mechanism.steps, mechanism.shape
    x = np.arange(truth - wide * v, truth + wide * v + 1)
    law = np.zeros(n)
    np.add.at(law, np.clip(x, 0, n - 1), float(mechanism.alpha) ** np.ceil(abs(x - truth) / v))
    return law / law.sum()


@pytest.mark.parametrize("shape", [(60, 5), (9, 2), (4, 1)])
def test_errors_of_clamped_noise_are_those_of_its_law(shape):
    """One axis, all sums written out: hits, margins, mean errors, posteriors, and every ratio of neighbours."""
    people, largest = shape
    graph = finite.sum_query(people, largest)
    mechanism = clamped_staircase(graph, Fraction(1, 2))
    table = np.array([clamped_law(mechanism, i) for i in range(graph.n)])
    away = abs(np.arange(graph.n)[:, None] - np.arange(graph.n))
    pi = np.full(graph.n, 1 / graph.n)
    np.testing.assert_allclose(accuracy(mechanism).hits(), table.diagonal(), rtol=1e-9)
    assert accuracy(mechanism).mae(pi) == pytest.approx(pi @ (table * away).sum(axis=1), rel=1e-9)
    assert accuracy(mechanism).rmse(pi) == pytest.approx(math.sqrt(pi @ (table * away**2).sum(axis=1)), rel=1e-9)
    assert accuracy(mechanism).leakage(pi) == pytest.approx(math.log2(table.max(axis=0).sum()), rel=1e-9)
    np.testing.assert_allclose(
        accuracy(mechanism).posterior(pi, 0), table[:, 0] / table[:, 0].sum(), rtol=0, atol=1e-12
    )
    assert (accuracy(mechanism).posterior(pi, -1) == accuracy(mechanism).posterior(pi, graph.n - 1)).all()
    for output in (graph.n, -graph.n - 1):
        with pytest.raises(IndexError):
            accuracy(mechanism).posterior(pi, output)
    for confidence in (0.3, 0.9):
        h = accuracy(mechanism).margin(confidence)
        assert (np.where(away <= h, table, 0).sum(axis=1) >= confidence).all()
        if 2 * h < graph.n:
            assert (np.where(away <= h - 1, table, 0).sum(axis=1) < confidence).any()
    logs = np.log(table)
    for i, j in graph.edges:
        assert abs(logs[i] - logs[j]).max() <= 0.5 + 1e-9
    assert mechanism.log_ratio() <= Fraction(1, 2)


def test_clamped_noise_costs_what_its_weights_imply_and_at_most_the_requested_cost():
    """α may be larger than ε needs: the charge is that of α."""
    graph, other = finite.sum_query(9, 2), finite.sum_query(9, 2)
    assert ClampedMechanism(graph, Fraction(1), Fraction(3, 4)).log_ratio() == log_above(Fraction(4, 3))
    tight = clamped_staircase(graph, Fraction(1, 2))
    assert log_above(1 / tight.alpha) - Fraction(1, 10**15) < tight.log_ratio() <= Fraction(1, 2)
    copy = tight.on_graph(other)
    assert copy.graph is other
    assert (copy.epsilon, copy.alpha) == (tight.epsilon, tight.alpha)


def test_clamped_noise_on_two_axes_hits_as_often_as_it_says():
    graph = finite.independent_counts(70, 70)
    mechanism = clamped_staircase(graph, Fraction(1, 2))
    hits = accuracy(mechanism).hits().reshape(71, 71)
    margin = accuracy(mechanism).margin(0.9)
    for truth in ((0, 0), (35, 0), (35, 36)):
        outputs = np.array(
            [
                noise.choose(choices.clamped, mechanism.alpha, mechanism.steps, mechanism.shape, truth)
                for _ in range(3_000)
            ]
        )
        right = int((outputs == truth).all(axis=1).sum())
        assert stats.binomtest(right, 3_000, hits[truth]).pvalue > SIGNIFICANCE
        hits_within = int((abs(outputs - truth).max(axis=1) <= margin).sum())
        assert stats.binomtest(hits_within, 3_000, 0.9, alternative="less").pvalue > SIGNIFICANCE


@pytest.mark.parametrize(
    ("alpha", "steps", "shape", "node", "error"),
    [
        (0.5, [1], [5], [0], TypeError),
        (Fraction(3, 2), [1], [5], [0], ValueError),
        (Fraction(1, 2), [0], [5], [0], ValueError),
        (Fraction(1, 2), [1], [5], [5], ValueError),
        (Fraction(1, 2), [1, 1], [5], [0], ValueError),
        (Fraction(1, 2), [1], [5], [True], TypeError),
    ],
)
def test_clamped_noise_refuses_what_is_no_box(alpha, steps, shape, node, error):
    with pytest.raises(error, match="no noise was drawn"):
        noise.choose(choices.clamped, alpha, steps, shape, node)


def test_clamped_mechanisms_prove_their_privacy():
    graph = finite.sum_query(10, 2)
    good = clamped_staircase(graph, 1)
    for alpha in (good.alpha - Fraction(1, 2**61), Fraction(1, 3), Fraction(3, 2)):
        with refused("plan.alpha-above-epsilon", "plan.alpha-out-of-range"):
            ClampedMechanism(graph, Fraction(1), alpha)
    with refused("plan.staircase-needs-box"):
        clamped_staircase(finite.complete(5), 1)
    with refused("plan.epsilon-too-small-for-staircase"):
        clamped_staircase(graph, Fraction(1, 10**5))


def test_clamped_noise_may_cost_all_that_is_proven_and_no_more():
    low, high = Fraction(1, 2), Fraction(1)  # around log 2: the least ε of 250 bits for which α = 1/2 is proven
    for _ in range(250):
        middle = (low + high) / 2
        low, high = (middle, high) if exp_below(middle) < 2 else (low, middle)
    graph = finite.sum_query(10, 2)
    assert exp_below(high) == 2
    assert ClampedMechanism(graph, high, Fraction(1, 2)).log_ratio() == high
    with refused("plan.alpha-above-epsilon"):
        ClampedMechanism(graph, low, Fraction(1, 2))


def test_clamped_noise_is_made_up_to_its_limits(monkeypatch):
    graph, alpha = finite.sum_query(10, 2), Fraction(1, 2)
    terms = ClampedMechanism(graph, 1, alpha).terms
    assert math.exp(-clamped.MAX_EXPONENT) / 2 < alpha ** (terms - 2) <= math.exp(-clamped.MAX_EXPONENT)
    for name, limit in (("RESULTS_LIMIT", 21), ("TERMS_LIMIT", terms), ("WORK_LIMIT", terms * 21)):
        with monkeypatch.context() as patch:
            patch.setattr(clamped, name, limit)
            assert ClampedMechanism(graph, 1, alpha).outputs == 21
            patch.setattr(clamped, name, limit - 1)
            with refused("plan.epsilon-too-small-for-staircase", "plan.staircase-needs-box"):
                ClampedMechanism(graph, 1, alpha)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", [name for name, query in QUESTIONS.items() if query.terms.quantile_level is None])
def test_margins_of_answers_cover_the_truth(name):
    """The guarantee holds for any truth: 3,000 draws at the worst of several truths, at 1e-6."""
    mechanism = choose(QUESTIONS[name], DOMAIN, Adjacency()).mechanism
    margin = int(accuracy(mechanism).margin(0.9))
    for i in {0, mechanism.graph.n // 2, mechanism.graph.n - 1}:
        truth = np.atleast_1d(mechanism.graph.results[i])
        outputs = noise.choose(choices.categoricals, mechanism.weights.row(i), 3_000)
        read = np.array([np.atleast_1d(mechanism.read(int(o))) for o in outputs])
        hits = int((abs(read - truth).max(axis=1) <= margin).sum())
        assert stats.binomtest(hits, 3_000, 0.9, alternative="less").pvalue > SIGNIFICANCE


# --- releases -----------------------------------------------------------------------------------------------------


@pytest.fixture
def released(plan, tmp_path, rng):
    return fn.release(plan, people(rng), ledger=tmp_path / "l.sqlite", directory=tmp_path / "r"), tmp_path / "r"


def test_a_release_says_answers_and_their_errors(released, plan):
    release, folder = released
    kids, two = release.finite["kids"], release.finite["two"]
    assert kids.value in range(37)
    assert len(two.value) == 2
    assert kids.moe == accuracy(plan.questions[0].mechanism).margin(0.95)
    assert kids.hit_rate == plan.questions[0].summary.hit_rate
    lines = (folder / "finite.csv").read_text().splitlines()
    assert lines[0] == "question,part,value,moe,hit_rate,rank_moe"
    assert lines[1] == f"kids,1,{kids.value},{kids.moe:g},{kids.hit_rate:.6f},"
    assert [line.split(",")[:3] for line in lines[2:4]] == [["two", str(i + 1), str(two.value[i])] for i in (0, 1)]
    assert len(lines) == 5
    document = json.loads((folder / "release.json").read_text())
    assert [x["name"] for x in document["questions"]] == ["kids", "two", "median debt"]
    assert document["charge"]["rho"] == str(plan.loss.rho)


def test_a_release_is_read_back(released):
    release, folder = released
    read = fn.Release.read(folder)
    assert read == release
    assert read.finite == release.finite
    assert read != fn.Release(release.plan, release.answers, outputs=[(o + 1) % 3 for o in release.outputs])
    assert fn.verify(folder).ok


def test_what_an_answer_tells_a_reader_follows_bayes(released, plan):
    release, _ = released
    posterior = release.posterior("kids")
    column = plan.questions[0].mechanism.probabilities()[:, release.outputs[0]]
    np.testing.assert_allclose(posterior["probability"], column / column.sum(), rtol=1e-12)
    assert posterior["result"].tolist() == list(range(37))
    sure = np.zeros(37)
    sure[5] = 1
    assert release.posterior("kids", sure)["probability"][5] == 1
    with refused("release.unknown-question"):
        release.posterior("sum")


@pytest.mark.no_cover
def test_altered_answers_are_found(released):
    _, folder = released
    text = (folder / "finite.csv").read_text()
    (folder / "finite.csv").write_text(text.replace("kids,1,", "kids,1,1"))
    assert not fn.verify(folder).ok
    (folder / "finite.csv").write_text(text)
    assert fn.verify(folder).ok
    frame = pd.DataFrame({"question": np.array(["kids", "two", "median debt"], dtype=object), "output": [0, 0, 0]})
    write_parquet(frame, folder / "finite.parquet", sha256=releases.outputs_digest([1, 0, 0]))
    assert not fn.verify(folder).ok
    with refused("release.finite-answers-altered"):
        fn.Release.read(folder)
    digest = releases.outputs_digest([0, 0, 0])
    write_parquet(frame, folder / "finite.parquet", sha256=digest, more="x")
    with refused("release.finite-answers-altered"):
        fn.Release.read(folder)
    (folder / "finite.parquet").unlink()
    assert not fn.verify(folder).ok


def test_an_output_that_does_not_exist_is_refused(plan):
    blank = [np.zeros(n, dtype=np.int64) for n in plan.table_part.strategy.lengths]
    for outputs in ((), (0, 0), (0, 0, 10**6), (-1, 0, 0)):
        with refused("release.foreign-outputs"):
            fn.Release(plan, blank, outputs=outputs)


@pytest.mark.usefixtures("standing_still")
def test_neighbouring_data_differ_only_in_the_draws(plan, tmp_path, rng, monkeypatch):
    """With all draws replayed, release folders of two tables differ only in noisy answers and numbers from them."""
    monkeypatch.setattr(noise, "choose", Replay(7).choose)
    monkeypatch.setattr(noise, "discrete_gaussians", Replay().discrete_gaussians)
    data = people(rng)
    folders = []
    for i, x in enumerate((data, data.drop(index=4))):
        folders.append(tmp_path / str(i))
        fn.release(plan, x, ledger=tmp_path / f"{i}.sqlite", directory=folders[i])
    one, other = ({p.relative_to(f).as_posix(): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders)
    assert list(one) == list(other)
    differ = {name for name in one if one[name] != other[name]}
    assert differ == {"measurements.parquet", "tables/state.csv", "tables/state.parquet"}


# --- command line -------------------------------------------------------------------------------------------------


@pytest.mark.no_cover
def test_the_command_line_plans_compares_releases_and_verifies(tmp_path, rng, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(TOML, encoding="utf-8")
    people(rng).to_csv(tmp_path / "people.csv", index=False)
    main(["plan", "spec.toml", "-o", "plan.json"])
    out = capsys.readouterr().out
    assert "question" in out
    assert "tight constraints" in out
    assert "2 finite answers take epsilon = 3 of this cost, pure" in out
    main(["plan", "spec.toml", "--json"])
    output = json.loads(capsys.readouterr().out)
    assert [x["name"] for x in output["finite"]] == ["kids", "two"]
    main(["plan", "spec.toml", "--compare"])
    out = capsys.readouterr().out
    assert "question kids\ntight constraints: its expected gain" in out
    assert "randomised response" in out
    main(["plan", "spec.toml", "--compare", "--json"])
    output = json.loads(capsys.readouterr().out)
    assert {c["family"] for c in output["finite"][0]["candidates"]} >= {"staircase", "geometric", "linear program"}
    main(["release", "plan.json", "people.csv", "--ledger", "l.sqlite", "-o", "r"])
    assert "answers    kids, two" in capsys.readouterr().out
    main(["tables", "r"])
    out = capsys.readouterr().out
    assert "kids" in out
    main(["tables", "r", "--json"])
    assert [x["name"] for x in json.loads(capsys.readouterr().out)["finite"]] == ["kids", "two"]
    main(["verify", "r"])
    assert "the finite answers are what was drawn" in capsys.readouterr().out
    main(["ledger", "show", "l.sqlite"])
    capsys.readouterr()
