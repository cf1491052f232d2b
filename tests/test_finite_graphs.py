"""Query graphs: every template is the graph that its definition, or counting, gives."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fitnoise.kernel.designs import graphs as module
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms import finite
from fitnoise.mechanisms.finite import (
    QueryGraph,
    bundle,
    complete,
    cycle,
    derive,
    disjoint_counts,
    from_edges,
    from_networkx,
    from_sparse,
    hamming,
    independent_counts,
    path,
    product,
    sum_query,
)
from refused import refused

TEMPLATES = {
    "one": path(1),
    "path": path(6),
    "cycle": cycle(5),
    "complete": complete(4),
    "hamming": hamming(3, 3),
    "sum": sum_query(3, 5),
    "one_sum": sum_query(1, 4),
    "independent": independent_counts(3, 4),
    "cube": independent_counts(2, 1, 2),
    "disjoint": disjoint_counts(4, 2),
    "disjoint3": disjoint_counts(3, 3),
    "product": product(path(3), cycle(4), from_edges(3, [(0, 1)])),
    "bundle": bundle(path(3), cycle(4)),
    "sums": bundle(sum_query(2, 2), path(3)),
}


def hops(n, edges):
    """Shortest ways by trying every middle."""
    d = np.full((n, n), np.inf)
    np.fill_diagonal(d, 0)
    for i, j in edges:
        d[i, j] = d[j, i] = 1
    for k in range(n):
        d = np.minimum(d, d[:, k : k + 1] + d[k])
    return d


@st.composite
def graphs(draw, max_nodes=8):
    n = draw(st.integers(1, max_nodes))
    pairs = list(itertools.combinations(range(n), 2))
    return n, draw(st.lists(st.sampled_from(pairs), max_size=14) if pairs else st.just([]))


class FakeNetworkx:
    def __init__(self, nodes, edges, directed=False):
        self.nodes, self.edges, self.directed = nodes, edges, directed

    def is_directed(self):
        return self.directed


@pytest.mark.parametrize("name", TEMPLATES)
def test_edges_and_distances_of_a_template_agree(name):
    g = TEMPLATES[name]
    d = g.distances()
    assert np.array_equal(d, hops(g.n, g.edges))
    assert np.array_equal(np.argwhere(np.triu(d == 1)), g.edges)
    assert np.array_equal(g.components()[:, None] == g.components()[None, :], np.isfinite(d))
    assert np.array_equal(g.distances_from([g.n - 1, 0]), d[[g.n - 1, 0]])
    assert g.edges.dtype == g.components().dtype == np.int64
    assert d.dtype == g.distances_from([0]).dtype == np.float64
    assert not g.edges.flags.writeable
    assert not d.flags.writeable


@pytest.mark.parametrize("name", TEMPLATES)
def test_labels_are_distinct_and_found(name):
    g = TEMPLATES[name]
    assert len(g.results) == g.n == len(set(g.results))
    assert [g.index(r) for r in g.results] == list(range(g.n))
    assert repr(g) == f"QueryGraph of {g.n} results ({type(g.structure).__name__})"
    with refused("workload.unknown-result"):
        g.index(("elsewhere",))


@given(graphs())
def test_any_graph_has_its_hops_and_components(graph):
    n, edges = graph
    g = from_edges(n, edges)
    d = hops(n, edges)
    assert np.array_equal(g.distances(), d)
    assert np.array_equal(g.components()[:, None] == g.components()[None, :], np.isfinite(d))
    assert g.connected == np.isfinite(d).all()
    assert np.array_equal(g.edges, sorted({(min(e), max(e)) for e in edges}) or np.zeros((0, 2)))


@given(graphs())
def test_other_ways_to_write_a_graph_give_the_same(graph):
    n, edges = graph
    g = from_edges(n, edges)
    names = [f"node {i}" for i in range(n)]
    h = from_networkx(FakeNetworkx(names, [(names[j], names[i], {"weight": 7}) for i, j in edges]))
    assert h.results == tuple(names)
    a = np.zeros((n, n))
    for i, j in edges:
        a[i, j] = a[j, i] = 0.5
    as_tuples = tuple(map(tuple, a.tolist()))
    for other in (h, from_sparse(a), from_sparse(as_tuples, names), from_sparse(sparse.csr_array(a), names)):
        assert np.array_equal(other.edges, g.edges)
        assert other.components().dtype == np.int64
        assert other.distances().dtype == np.float64
    assert from_sparse(a, names).results == from_sparse(sparse.csr_array(a), names).results == tuple(names)


def test_networkx_itself_if_it_is_there():
    networkx = pytest.importorskip("networkx")
    g = from_networkx(networkx.petersen_graph())
    assert g.n == 10
    assert g.distances().max() == 2


def test_closed_distances():
    i = np.arange(21)
    distance = np.abs(i[:, None] - i[None, :])
    assert np.array_equal(sum_query(4, 5).distances(), np.ceil(distance / 5))
    assert np.array_equal(path(21).distances(), distance)
    x = np.array(list(independent_counts(3, 4).results))
    assert np.array_equal(independent_counts(3, 4).distances(), np.abs(x[:, None] - x[None]).max(axis=2))
    t = np.array(list(hamming(3, 4).results))
    assert np.array_equal(hamming(3, 4).distances(), (t[:, None] != t[None]).sum(axis=2))


def test_products_are_sums_and_bundles_are_largest():
    a, b = cycle(5), from_edges(4, [(0, 1), (1, 2)])
    one = np.repeat(np.repeat(a.distances(), 4, axis=0), 4, axis=1)
    two = np.tile(b.distances(), (5, 5))
    assert np.array_equal(product(a, b).distances(), one + two)
    assert np.array_equal(bundle(a, b).distances(), np.maximum(one, two))
    row, total = path(4), sum_query(2, 3)
    one = np.repeat(np.repeat(row.distances(), 7, axis=0), 7, axis=1)
    two = np.tile(total.distances(), (4, 4))
    assert np.array_equal(product(row, total).distances(), one + two)
    assert np.array_equal(bundle(row, total).distances(), np.maximum(one, two))
    assert np.array_equal(product(row).distances(), row.distances())
    assert product(a, b).results[6] == (1, 2)
    assert product(a, b).results[1:3] == ((0, 1), (0, 2))


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "one"])
def test_as_many_edges_are_written_as_the_limit_allows_and_no_more(name, monkeypatch):
    g = TEMPLATES[name]
    monkeypatch.setattr(module, "EDGES_LIMIT", len(g.edges))
    assert np.array_equal(g.structure.edges(), g.edges)
    monkeypatch.setattr(module, "EDGES_LIMIT", len(g.edges) - 1)
    with refused("workload.too-many-edges"):
        g.structure.edges()


def test_edges_of_as_many_bins_as_fit_into_an_integer():
    """One person can go from any of 62 bins to any other; of one more bin the edges are refused."""
    assert np.array_equal(disjoint_counts(1, 61).edges, complete(62).edges)


def test_one_person_who_can_move_a_count_from_end_to_end_makes_all_results_neighbours():
    for step in (2, 3, 4, 9):
        box = QueryGraph(range(3), module.Box((3,), (step,)))
        assert np.array_equal(box.edges, complete(3).edges)
        assert np.array_equal(box.distances(), complete(3).distances())


def test_components_of_products():
    g = product(from_edges(3, [(0, 1)]), from_edges(2, []))
    assert g.components().tolist() == [0, 1, 0, 1, 2, 3]
    assert not g.connected
    assert not bundle(from_edges(3, [(0, 1)]), path(2)).connected


# ------------------------------------------------------------------------------------------------------ derived graphs


def same(derived, template):
    assert list(derived.results) == list(template.results)
    assert np.array_equal(derived.edges, template.edges)


PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_templates_are_what_enumeration_finds():
    same(derive(range(4), 4, sum), sum_query(4, 3))
    same(derive([0, 1], 5, sum), path(6))
    same(derive(PAIRS, 3, lambda t: (sum(a for a, _ in t), sum(b for _, b in t))), independent_counts(3, 3))
    same(derive("abc", 4, lambda t: (t.count("a"), t.count("b"))), disjoint_counts(4, 2))
    same(derive("abcd", 3, lambda t: tuple(t.count(x) for x in "abc")), disjoint_counts(3, 3))
    same(derive(range(6), 5, lambda t: t[2]), complete(6))
    same(derive(range(6), 4, max), complete(6))
    same(derive(range(6), 4, lambda t: max(t) - min(t)), complete(6))
    mode = derive(range(4), 5, lambda t: collections.Counter(t).most_common(1)[0][0])
    same(mode, complete(4))
    same(derive(range(4), 5, lambda t: min(3, sum(x >= 2 for x in t))), path(4))
    assert np.array_equal(derive(range(5), 5, lambda t: len(set(t))).edges, path(5).edges)


def test_the_adjacency_changes_the_graph():
    bins = lambda t: (t.count("a"), t.count("b"))  # noqa: E731
    replace, add = derive("abc", 4, bins), derive("abc", 4, bins, Neighbours.ADD_OR_REMOVE_ONE)
    assert add.n == replace.n == 15
    x = np.array(list(add.results))
    assert np.array_equal(add.distances(), np.abs(x[:, None] - x[None]).sum(axis=2))
    assert replace.distances().max() == 4 < add.distances().max()
    assert np.array_equal(derive("abc", 4, bins, "add-or-remove-one").edges, add.edges)
    same(derive("ab", 4, len, Neighbours.ADD_OR_REMOVE_ONE), path(5))
    sums = derive([0, 1, 2], 4, sum, Neighbours.ADD_OR_REMOVE_ONE)  # 7 and 8 are of four records each
    assert np.array_equal(sums.edges, sum_query(4, 2).edges[:-1])


def test_answers_that_cannot_be_sorted_keep_their_order():
    g = derive([0, 1], 2, lambda t: "none" if not any(t) else t)
    assert g.results == ("none", (0, 1), (1, 1))
    assert g.edges.tolist() == [[0, 1], [1, 2]]


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
def test_derived_edges_are_those_of_ordered_tables(values, people, random_source):
    answers = {t: random_source.randrange(4) for t in itertools.combinations_with_replacement(range(values), people)}
    g = derive(range(values), people, lambda t: answers[t])
    expected = set()
    for table in itertools.product(range(values), repeat=people):
        for k, w in itertools.product(range(people), range(values)):
            x, y = answers[tuple(sorted(table))], answers[tuple(sorted((*table[:k], w, *table[k + 1 :])))]
            if x < y:
                expected.add((x, y))
    assert {(g.results[i], g.results[j]) for i, j in g.edges} == expected


@pytest.mark.parametrize("adjacency", Neighbours)
@pytest.mark.parametrize(("values", "people"), [(1, 1), (1, 3), (2, 1), (3, 4)])
def test_as_many_tables_are_gone_through_as_the_limit_allows_and_no_more(values, people, adjacency, monkeypatch):
    """A table is a multiset: each is requested once, and taken with every value."""
    queried_tables = []
    derive(range(values), people, lambda t: queried_tables.append(t) or len(t), adjacency)
    monkeypatch.setattr(finite.graphs, "TABLES_LIMIT", len(queried_tables) * values)
    exact_fit = derive(range(values), people, len, adjacency)
    assert exact_fit.n == len(set(map(len, queried_tables)))
    monkeypatch.setattr(finite.graphs, "TABLES_LIMIT", len(queried_tables) * values - 1)
    with refused("workload.too-many-tables-to-derive"):
        derive(range(values), people, len, adjacency)


# -------------------------------------------------------------------------------------------------------- refusals


def test_limits_may_be_reached(monkeypatch):
    assert path(module.RESULTS_LIMIT).n == 2**31 - 1
    with refused("workload.results-out-of-range"):
        path(module.RESULTS_LIMIT + 1)
    monkeypatch.setattr(module, "DISTANCES_LIMIT", 5)
    assert path(5).distances().shape == (5, 5)
    with refused("workload.too-many-distances"):
        path(6).distances()
    monkeypatch.setattr(module, "EDGES_LIMIT", 15 * 3)
    assert disjoint_counts(4, 2).n == 15
    with refused("workload.too-many-disjoint-counts"):
        disjoint_counts(5, 2)
    monkeypatch.setattr(module, "EDGES_LIMIT", 15 * 3 - 1)
    with refused("workload.too-many-disjoint-counts"):
        disjoint_counts(4, 2)


def test_a_matrix_of_any_size_is_symmetric_or_refused():
    """A ring of one direction between 0 and 2¹⁵: were places numbered in 32 bits, it would be the ring of the other."""
    n, far_node = 2**17, 2**15
    i, j = (
        np.array([0, far_node + 1, far_node, 1], dtype=np.int32),
        np.array([1, 0, far_node + 1, far_node], dtype=np.int32),
    )
    ring = sparse.coo_array((np.ones(4), (i, j)), shape=(n, n))
    with refused("workload.adjacency-not-symmetric"):
        from_sparse(ring)
    assert from_sparse(ring + ring.T).edges.tolist() == [
        [0, 1],
        [0, far_node + 1],
        [1, far_node],
        [far_node, far_node + 1],
    ]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: path(0), "workload.not-a-whole-number"),
        (lambda: path(2.0), "workload.not-a-whole-number"),
        (lambda: path(True), "workload.not-a-whole-number"),
        (lambda: cycle(2), "workload.not-a-whole-number"),
        (lambda: complete(0), "workload.not-a-whole-number"),
        (lambda: hamming(0, 2), "workload.not-a-whole-number"),
        (lambda: hamming(2, 0), "workload.not-a-whole-number"),
        (lambda: hamming(40, 3), "workload.results-out-of-range"),
        (lambda: sum_query(3, 0), "workload.not-a-whole-number"),
        (lambda: sum_query(0, 3), "workload.not-a-whole-number"),
        (independent_counts, "workload.no-counts-given"),
        (lambda: independent_counts(0), "workload.not-a-whole-number"),
        (lambda: disjoint_counts(100, 20), "workload.too-many-disjoint-counts"),
        (lambda: disjoint_counts(0, 2), "workload.not-a-whole-number"),
        (lambda: disjoint_counts(2, 0), "workload.not-a-whole-number"),
        (product, "workload.no-graph-given"),
        (bundle, "workload.no-graph-given"),
        (lambda: from_edges(0, []), "workload.not-a-whole-number"),
        (lambda: from_edges(3, [(0, 0)]), "workload.edges-not-pairs"),
        (lambda: from_edges(3, [(0, 3)]), ("workload.edges-not-pairs", "workload.positions-out-of-range")),
        (lambda: from_edges(3, [(0, 1, 2)]), "workload.edges-not-pairs"),
        (lambda: from_edges(3, [(0, 0.5)]), "workload.edges-not-pairs"),
        (lambda: from_edges(2, [], ["a", "a"]), "workload.labels-not-distinct"),
        (lambda: from_edges(2, [], ["a"]), "workload.labels-not-distinct"),
        (lambda: from_networkx(FakeNetworkx([1], [], directed=True)), "workload.graph-directed"),
        (lambda: from_sparse([[0, 1, 0]]), "workload.adjacency-not-square"),
        (lambda: from_sparse([[0, 1], [0, 0]]), "workload.adjacency-not-symmetric"),
        (lambda: from_sparse([[1, 0], [0, 0]]), "workload.edges-not-pairs"),
        (lambda: derive([], 2, sum), "workload.too-many-tables-to-derive"),
        (lambda: derive(range(100), 10, sum), "workload.too-many-tables-to-derive"),
        (lambda: derive([0], 0, sum), "workload.not-a-whole-number"),
        (lambda: derive([0], 1, sum, "swap"), "workload.unknown-adjacency"),
        (lambda: path(20_000).distances(), "workload.too-many-distances"),
        (lambda: complete(20_000).edges, "workload.too-many-edges"),
        (lambda: disjoint_counts(1, 62).edges, "workload.too-many-bins"),
        (lambda: path(3).distances_from([3]), ("workload.edges-not-pairs", "workload.positions-out-of-range")),
        (lambda: path(3).distances_from([-1]), ("workload.edges-not-pairs", "workload.positions-out-of-range")),
        (lambda: path(3).distances_from([1.0]), "workload.positions-out-of-range"),
        (lambda: path(3).distances_from([True]), "workload.positions-out-of-range"),
        (lambda: path(3).distances_from([[1]]), "workload.positions-out-of-range"),
        (lambda: QueryGraph(range(3), path(2).structure), "workload.labels-misfit-results"),
    ],
)
def test_what_makes_no_sense_is_refused(make, match):
    with refused(match):
        make()


def test_grids_are_sequences():
    grid = independent_counts(2, 3).results
    assert grid[-1] == (2, 3)
    assert (1, 3) in grid
    assert 4 not in grid
    assert grid.index((1, 0)) == 4
    with pytest.raises(ValueError, match="no label"):
        grid.index((3, 0))
    with pytest.raises(ValueError, match="between"):
        grid.index((1, 0), 5)
    with pytest.raises(IndexError):
        grid[12]


def find_index(labels, label, start, stop):
    try:
        return labels.index(label, start, stop)
    except ValueError:
        return None


def test_grids_are_searched_from_and_to_as_tuples_are():
    grid = independent_counts(1, 2).results
    ends = range(-7, 8)
    for label, start, stop in itertools.product(grid, ends, ends):
        assert find_index(grid, label, start, stop) == find_index(tuple(grid), label, start, stop)


def test_a_large_graph_is_made_at_once():
    g = sum_query(200_000, 5)
    assert g.n == 1_000_001
    assert g.index(7) == 7
    assert independent_counts(1000, 1000).index((3, 5)) == 3008
    assert g.n > module.DISTANCES_LIMIT


def test_the_public_names_are_there():
    assert set(finite.__all__) >= {"QueryGraph", "derive", "existence", "threshold", "weighting"}
