"""The gallery: shapes, small workloads written out, tables that ask what the matrices ask, and the known optima."""

import itertools

import numpy as np
import pytest

import fitnoise as fn
import reference as ref
from dense import workload_matrix
from fitnoise_lab import gallery
from refused import refused
from tolerances import GAP


def rng(seed=0):
    return np.random.default_rng(seed)


SHAPES = {
    "prefix": (lambda: gallery.prefix(7), (7, 7)),
    "prefix of one": (lambda: gallery.prefix(1), (1, 1)),
    "identity and sum": (lambda: gallery.identity_and_sum(7), (8, 7)),
    "PL94": (gallery.pl94, (319, 252)),
    "ranges": (lambda: gallery.random_ranges(7, 20, rng()), (20, 7)),
    "signs": (lambda: gallery.random_signs(7, 20, rng()), (20, 7)),
    "age pyramids": (gallery.age_pyramids, (351, 232)),
    "marginals": (lambda: gallery.marginals((2, 3, 4)), (9 + 26, 24)),
    "marginals of one order": (lambda: gallery.marginals([2, 3, 4, 5], [3]), (24 + 30 + 40 + 60, 120)),
    "WRelated": (lambda: gallery.wrelated(9, 6, 4, rng()), (6, 9)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    make, shape = SHAPES[name]
    w = make()
    assert w.shape == shape
    assert w.dtype == (np.float64 if name == "WRelated" else np.int64)
    fn.matrix_workload(w, variances=1)  # no query is zero


def test_small_ones_written_out():
    assert gallery.prefix(3).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert gallery.identity_and_sum(2).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert gallery.marginals((2, 2)).tolist() == [
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [1, 0, 1, 0],
        [0, 1, 0, 1],
        *np.eye(4, dtype=int).tolist(),
    ]
    assert gallery.marginals((3,), (1,)).tolist() == np.eye(3, dtype=int).tolist()
    assert gallery.age_pyramids(ages=3, adult=2).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1, 1],
        [0, 0, 0, 0, 0, 1],
        [1, 0, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [1, 1, 1, 1, 1, 1],
        [0, 0, 1, 0, 0, 1],
    ]


def test_pl94_is_four_tables():
    """Everyone is in one number of each: a voting age, an ethnicity, a combination of races, and a cell."""
    w = gallery.pl94()
    ages, ethnicities, races, cells = np.split(w, [2, 4, 67])
    for block in (ages, ethnicities, races, cells):
        assert block.sum(axis=0).tolist() == [1] * 252
    assert [np.unique(block.sum(axis=1)).tolist() for block in (ages, ethnicities, races, cells)] == [
        [126],
        [126],
        [4],
        [1],
    ]
    people = np.arange(252).reshape(2, 2, 63)  # voting age, ethnicity, race
    assert (ages @ people.ravel()).tolist() == people.sum(axis=(1, 2)).tolist()
    assert (ethnicities @ people.ravel()).tolist() == people.sum(axis=(0, 2)).tolist()
    assert (races @ people.ravel()).tolist() == people.sum(axis=(0, 1)).tolist()


def test_the_races_of_pl94():
    """All combinations of six but none: six alone, 57 of two and more."""
    races = gallery.pl94_tables().domain["race"].values
    assert len(races) == len(set(races)) == 63
    assert races[:6] == gallery.RACES
    assert races[6] == "White and Black or African American"
    assert races[-1] == " and ".join(gallery.RACES)


@pytest.mark.parametrize(
    ("matrix", "reference"),
    [
        (gallery.pl94(), ref.pl94_matrix()),
        (gallery.age_pyramids(), ref.age_pyramids()),
        (gallery.marginals((4, 4, 4)), ref.marginals(4)),
        (gallery.random_ranges(64, 128, rng()), ref.ranges(64)),
        (gallery.random_signs(64, 128, rng()), ref.signs(64)),
        (gallery.wrelated(64, 32, 32, rng()), ref.low_rank(64)),
    ],
    ids=["PL94", "age pyramids", "marginals", "ranges", "signs", "WRelated"],
)
def test_they_are_the_workloads_whose_optima_are_known(matrix, reference):
    """Random ones draw as the references do: their optima belong to these seeds."""
    np.testing.assert_array_equal(matrix, reference)


TABLES = {
    "PL94": (gallery.pl94_tables, gallery.pl94, 3.013432),
    "age pyramids": (gallery.age_pyramid_tables, gallery.age_pyramids, 7.115406),
    "marginals": (lambda: gallery.marginal_tables((4, 4, 4)), lambda: gallery.marginals((4, 4, 4)), 3.471896),
    "uneven marginals": (
        lambda: gallery.marginal_tables((2, 3, 4, 2), (3, 1)),
        lambda: gallery.marginals((2, 3, 4, 2), (3, 1)),
        None,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_ask_what_the_matrix_asks(name):
    tables, matrix, optimum = TABLES[name]
    queries, w = workload_matrix(tables()), matrix()
    if name == "age pyramids":  # by sex first, not by view
        queries, w = (x[np.lexsort(x.T)] for x in (queries, w))
    np.testing.assert_array_equal(queries, w)
    plan = fn.plan(tables(), gap=GAP)
    if optimum is None:
        optimum = float(fn.plan(fn.matrix_workload(w, variances=1), gap=GAP).table_part.exact_cost)
    assert plan.bound * (1 - 1e-6) <= optimum <= float(plan.table_part.exact_cost) * (1 + 1e-6)


def test_tables_take_a_variance():
    for one, four in (
        (gallery.pl94_tables(), gallery.pl94_tables(4.0)),
        (gallery.age_pyramid_tables(5, 2), gallery.age_pyramid_tables(5, 2, 4.0)),
        (gallery.marginal_tables((2, 3)), gallery.marginal_tables((2, 3), variance=4.0)),
    ):
        assert float(fn.plan(four).table_part.exact_cost) == pytest.approx(
            float(fn.plan(one).table_part.exact_cost) / 4, rel=2 * GAP
        )


def test_marginals_of_many_attributes_are_planned_as_tables():
    """Twenty attributes of ten values: 10²⁰ cells, which no matrix could have."""
    workload = gallery.marginal_tables((10,) * 20, variance=100.0)
    assert float(fn.plan(workload).table_part.exact_cost) == pytest.approx(1.44186, rel=1e-5)


def test_ranges_are_ranges_with_uniform_ends():
    w = gallery.random_ranges(5, 40_000, rng())
    assert (np.abs(np.diff(w, axis=1, prepend=0, append=0)).sum(axis=1) == 2).all()  # one run of ones
    low, last = w.argmax(axis=1), 4 - w[:, ::-1].argmax(axis=1)
    seen = np.zeros((5, 5))
    np.add.at(seen, (low, last), 1)
    for a, b in itertools.combinations_with_replacement(range(5), 2):
        assert seen[a, b] / len(w) == pytest.approx((1 if a == b else 2) / 25, abs=0.01)


def test_signs_are_signs_of_a_coin():
    for heads in (0.0, 0.2, 0.5, 1.0):
        w = gallery.random_signs(100, 400, rng(), heads=heads)
        assert set(np.unique(w)) <= {-1, 1}
        assert (w == 1).mean() == pytest.approx(heads, abs=0.02)


def test_wrelated_has_the_requested_rank():
    for s in (1, 3, 6):
        assert np.linalg.matrix_rank(gallery.wrelated(9, 6, s, rng())) == s


def test_random_targets():
    c = gallery.random_targets(50_000, rng())
    assert c.shape == (50_000,)
    assert 1 <= c.min() < c.max() <= 10
    assert c.mean() == pytest.approx(5.5, abs=0.1)
    integers = gallery.random_targets(50_000, rng(), 2, 5, is_integer=True)
    values, counts = np.unique(integers, return_counts=True)
    assert values.tolist() == [2, 3, 4, 5]
    assert counts / len(integers) == pytest.approx([0.25] * 4, abs=0.01)


def test_the_generator_is_the_callers():
    """One generator goes on; equal generators give equal workloads."""
    one = rng(5)
    one_draw, second = gallery.random_ranges(9, 9, one), gallery.random_ranges(9, 9, one)
    assert (one_draw != second).any()
    np.testing.assert_array_equal(one_draw, gallery.random_ranges(9, 9, rng(5)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: gallery.prefix(0), "workload.not-a-whole-number"),
        (lambda: gallery.identity_and_sum(2.0), "workload.not-a-whole-number"),
        (lambda: gallery.random_ranges(3, True, rng()), "workload.not-a-whole-number"),
        (lambda: gallery.random_signs(3, 0, rng()), "workload.not-a-whole-number"),
        (lambda: gallery.random_signs(3, 3, rng(), heads=1.2), "workload.probability-out-of-range"),
        (lambda: gallery.age_pyramids(0), "workload.not-a-whole-number"),
        (lambda: gallery.age_pyramid_tables(10, 10), "workload.adult-age"),
        (lambda: gallery.marginals(()), "workload.marginal-orders"),
        (lambda: gallery.marginals((2, 2), (3,)), "workload.marginal-orders"),
        (lambda: gallery.marginals((2, 2), (1, 1)), "workload.marginal-orders"),
        (lambda: gallery.marginals((2, 0), (1,)), "workload.not-a-whole-number"),
        (lambda: gallery.marginal_tables((2, 2), ()), "workload.marginal-orders"),
        (lambda: gallery.wrelated(3, 4, 0, rng()), "workload.not-a-whole-number"),
        (lambda: gallery.wrelated(3, 4, 4, rng()), "workload.rank-above-limit"),
        (lambda: gallery.random_targets(3, rng(), 0.0), "workload.target-range"),
        (lambda: gallery.random_targets(3, rng(), 1.5, is_integer=True), "workload.target-range"),
    ],
)
def test_refusals_say_what_is_needed(make, says):
    with refused(says) as caught:
        make()
    assert str(caught.value).endswith(("No workload was made.", "No targets were drawn.", "Nothing was made."))
