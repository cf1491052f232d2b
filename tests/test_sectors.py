import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from dense import kron, layouts, sectors_of, workload_matrix
from fitnoise.algebra import rules
from fitnoise.kernel.arrays import physical_memory
from fitnoise.request.workloads import exchangeable_attributes
from fitnoise.solving import sectors
from fitnoise.solving.sectors import decompose, integer_basis, lift
from laws.plans import check_mechanism, check_plan
from refused import refused


def matrix_of(queries):
    return queries if isinstance(queries, np.ndarray) else rules.dense(queries)


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_every_sector_has_a_basis_and_exact_lifts(name):
    d = decompose(zoo.WORKLOADS[name]())
    for s in sectors_of(d):
        assert s.basis.dtype == np.int64
        assert np.linalg.matrix_rank(s.basis) == len(s.basis)
        for t, lifted in zip(s.members, s.lifts, strict=True):
            queries = matrix_of(layouts(d)[t].queries)
            np.testing.assert_allclose(matrix_of(lifted) @ s.basis, queries, atol=1e-9 * np.abs(queries).max())


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_the_sectors_fill_each_table(name):
    """Σ_{S⊆A} mult_S = n_A: the sectors of a table's attributes are all there is."""
    d = decompose(zoo.WORKLOADS[name]())
    for t in range(len(layouts(d))):
        group, i = d.group_of(t)
        assert sum(s.multiplicity for s in sectors_of(d) if t in s.members) == group.cells[i]


def test_which_attributes_are_exchangeable():
    w = zoo.crossed()
    assert exchangeable_attributes(w) == (["sex"], ["income", "age"])
    by_value = zoo.WORKLOADS["by value"]()
    assert exchangeable_attributes(by_value) == (["b", "c"], ["a"])
    assert exchangeable_attributes(zoo.WORKLOADS["prefix"]()) == ([], ["cell"])


def test_attributes_no_table_shows_do_not_exist_for_the_plan():
    d = decompose(zoo.crossed())
    assert "unused" not in (*d.exchangeable, *d.structured)


def test_too_many_structured_cells_are_refused_with_advice():
    domain = fn.Domain(a=fn.Ordered(0, 199), b=fn.Ordered(0, 199))
    w = fn.Workload(domain, [fn.table(cumulative="a", margin=1), fn.table(cumulative="b", margin=1)])
    with refused("workload.too-many-structured-cells"):
        decompose(w)


matrices = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32))


@given(matrices)
def test_integer_bases_span_integer_rows_exactly(shape):
    m, n, r, seed = shape
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, size=(m, r)) @ rng.integers(-3, 4, size=(r, n))
    if not rows.any():
        return
    basis = integer_basis(rows)
    assert basis.dtype == np.int64
    assert len(basis) == np.linalg.matrix_rank(basis) == np.linalg.matrix_rank(rows)
    lifted, shift = lift(rows, basis)
    assert shift <= 1e-12 * np.abs(rows).max()
    np.testing.assert_allclose(lifted @ basis, rows, atol=1e-9 * np.abs(rows).max())


def test_equal_columns_are_merged_and_zero_columns_cost_nothing():
    rows = np.array([[1, 0, 1, 0, 2], [1, 0, 1, 1, 0]])
    basis = integer_basis(np.concatenate([rows, np.eye(5, dtype=int)[[4]], np.eye(5, dtype=int)[[3]]]))
    assert sorted(basis.tolist()) == [[0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [1, 0, 1, 0, 0]]
    assert not basis[:, 1].any()


def test_dyadic_rows_keep_their_fractions_exactly():
    rows = np.array([[0.5, 0.25, 0.75], [1.0, 0.5, 1.5], [0.125, 0.0, 0.125]])
    _, shift = lift(rows, integer_basis(rows))
    assert shift <= 1e-15


def test_reals_of_low_rank_move_by_a_stated_shift(rng):
    rows = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5))
    basis = integer_basis(rows)
    lifted, shift = lift(rows, basis)
    assert 0 < shift == np.abs(lifted @ basis - rows).max() < 1e-8 * np.abs(rows).max()
    d = decompose(fn.matrix_workload(rows, variances=1))
    np.testing.assert_array_equal(layouts(d)[0].queries, lifted @ basis)


def test_a_large_matrix_of_reals_of_low_rank_reaches_its_gap(rng):
    """Basis entries of 26 bits leave room for strategies of enough bits within 64-bit noise."""
    plan = fn.plan(fn.matrix_workload(rng.random((64, 256)), variances=1), gap=1e-6)
    assert plan.gap <= 1e-6
    assert plan.table_part.decomposition.query_shift < 1e-7


def test_a_basis_that_misses_a_little_is_refused_or_stated():
    """A basis edited to lose a small entry must show: nothing is rounded away as if integers were always exact."""
    rows = np.array([[10**7, 9]])
    with refused("workload.queries-not-in-basis"):
        lift(rows, np.array([[1, 0]]))
    assert lift(np.array([[10**9, 9]]), np.array([[1, 0]]))[1] == 9
    assert lift(rows, np.array([[10**7, 9]]))[1] == 0


def test_a_foreign_basis_is_refused():
    w = zoo.WORKLOADS["prefix"]()
    good = [g.basis for g in decompose(w).groups]
    assert decompose(w, good).cells == 8
    with refused("workload.queries-not-in-basis"):
        decompose(w, [good[0][:4]])
    with refused("workload.bases-misfit"):
        decompose(w, good * 2)
    with refused("workload.basis-shape-wrong"):
        decompose(w, [good[0][:, :5]])


@st.composite
def workloads(draw):
    """Random small domains with random tables: every view, every attribute kind, targets by value now and then."""
    names = ["p", "q", "r"][: draw(st.integers(1, 3))]
    attributes = {}
    for n in names:
        size = draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["categorical", "ordered"]))
        attributes[n] = (
            fn.Categorical([f"{n}{i}" for i in range(size)]) if kind == "categorical" else fn.Ordered(1, size)
        )
    domain = fn.Domain(attributes)
    tables = []
    for i in range(draw(st.integers(1, 3))):
        chosen = draw(st.lists(st.sampled_from(names), unique=True))
        views = {"cumulative": [], "ranges": {}, "groups": {}}
        for n in chosen:
            a = domain[n]
            view = draw(st.sampled_from(["each", "each", "cumulative", "ranges", "groups"]))
            if view == "cumulative" and a.ordered:
                views["cumulative"].append(n)
            elif view == "ranges" and a.ordered:
                views["ranges"][n] = [
                    tuple(sorted(draw(st.tuples(*[st.sampled_from(a.values)] * 2)))) for _ in range(2)
                ]
            elif view == "groups":
                group = draw(st.lists(st.sampled_from(a.values), min_size=1, unique=True))
                views["groups"][n] = {"group": {"values": group}, "all": {"values": a.values}}
        number = draw(st.sampled_from([1, 2.5, 10]))
        unviewed = [n for n in chosen if n not in {*views["cumulative"], *views["ranges"], *views["groups"]}]
        if unviewed and draw(st.booleans()):
            number = fn.ByAttribute(unviewed[0], {domain[unviewed[0]].values[0]: 3}, default=8)
        tables.append(fn.table(*chosen, **views, variance=number, name=f"t{i}"))
    return fn.Workload(domain, tables)


@pytest.mark.slow
@settings(max_examples=60)
@given(workloads(), st.integers(0, 2**32))
def test_any_small_workload_obeys_the_laws(workload, seed):
    """Sectors against dense matrices, through planning, integers, measuring and rebuilding."""
    plan = fn.plan(workload)
    check_plan(plan, gap=1e-5)
    check_mechanism(plan, np.random.default_rng(seed))


def test_the_dense_helper_is_right():
    """The reference itself, on one manual case."""
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1))
    w = fn.Workload(domain, [fn.table("b", cumulative="a", margin=1)])
    assert workload_matrix(w).tolist() == [[1, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 1]]
    assert kron([np.eye(2), np.ones((1, 2))]).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize("small", [1, 0.5])
def test_a_small_query_is_not_rounding_of_a_large_one(small):
    """Every row has to be over the basis to its own size; a basis without it is refused, however large others are."""
    w = np.array([[1e8, 0], [0, small]])
    assert len(integer_basis(w)) == 2
    plan = fn.plan(fn.matrix_workload(w, variances=[1e16, small**2]))
    check_plan(plan)
    with refused("workload.queries-not-in-basis"):
        lift(w, np.array([[1, 0]]))
    with refused("workload.queries-not-in-basis"):
        decompose(plan.publication.workload, [np.array([[1, 0]])])


def test_tables_that_fit_one_by_one_are_advised_to_be_in_groups(monkeypatch):
    """The advice must come only where a group for each table would fit, and then it must be true."""
    domain = fn.Domain(o=fn.Ordered(0, 29), p=fn.Ordered(0, 29))
    one, other = fn.table(cumulative="o", variance=1), fn.table(cumulative="p", variance=1)
    monkeypatch.setattr(sectors, "physical_memory", lambda: 10**6)
    with refused("workload.too-little-memory") as raised:
        decompose(fn.Workload(domain, [one, other]))
    assert raised.value.action.startswith(
        "Give some tables a group of their own, which is planned separately (further_tables"
    )
    further = fn.Publication(fn.Workload(domain, [other]))
    assert len(fn.plan(fn.Publication(fn.Workload(domain, [one]), further_tables=(further,))).groups) == 2
    with refused("workload.too-little-memory") as raised:
        decompose(fn.Workload(domain, [fn.table(cumulative=("o", "p"), variance=1), one]))
    assert raised.value.action.startswith("Coarsen an attribute")


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_a_basis_does_not_depend_on_how_queries_are_scaled(rows, cells, seed):
    rng = np.random.default_rng(seed)
    w = rng.integers(-3, 4, size=(rows, cells))
    w = w[w.any(axis=1)] if w.any() else np.ones((1, cells), dtype=int)
    scales = 2.0 ** rng.integers(-30, 30, size=len(w))
    rank = np.linalg.matrix_rank(w)
    for queries in (w, w * scales[:, None]):
        basis = integer_basis(queries)
        assert len(basis) == rank
        lifted, shift = lift(queries, basis)
        assert (np.abs(lifted @ basis - queries) <= 1e-7 * np.abs(queries).max(axis=1, keepdims=True)).all()
        assert shift <= 1e-7 * np.abs(queries).max()


def test_a_problem_too_large_for_memory_says_its_size_and_what_to_do(monkeypatch):
    prefix = fn.Workload(fn.Domain(o=fn.Ordered(0, 399)), [fn.table(cumulative="o", variance=1)])
    monkeypatch.setattr(sectors, "physical_memory", lambda: 10**6)
    with refused("workload.too-little-memory") as raised:
        decompose(prefix)
    assert "further_tables" not in raised.value.action
    monkeypatch.setattr(sectors, "physical_memory", lambda: 10**7)
    with refused("workload.too-little-memory"):
        fn.plan(prefix)
    monkeypatch.undo()
    assert physical_memory() > 2**28
