"""Exact prices, by brute force over neighbours."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
from conftest import zoo_plan
from dense import centring, group_of, kron, strategy_matrix
from designs import answer_count, cells_over, of_margins, of_sectors
from fitnoise.kernel.designs import linear, sectors
from fitnoise.kernel.designs._base import INT64_SAFE_BOUND, PublicCells
from fitnoise.kernel.designs.linear import MAX_SCALE, axis_rows, centre
from fitnoise.kernel.designs.margins import MeasuredMargin, PureStrategy
from fitnoise.kernel.designs.sectors import (
    SectorStrategy,
    Strategy,
    StrategyGroup,
    exact_matmul,
)
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms.gaussian.estimate import gains, inverse, uncentre
from refused import refused

ADD, REPLACE = fn.Neighbours.ADD_OR_REMOVE_ONE, fn.Neighbours.REPLACE_ONE
SMALL = [
    "binary",
    "attribute of one value",
    "marginals",
    "prefix",
    "crossed",
    "integers of low rank",
    "five structured cells",
]


def with_public(cells, exchangeable, places):
    return replace(cells, public=PublicCells(exchangeable, places))


@pytest.mark.parametrize(
    ("row", "is_refused"),
    [
        ([1, -1, 2, 0, -1], False),
        ([0, 0, 2, -1, 0], False),
        ([0, 0, 0, 0, 0], True),
        ([1, 1, 1, 1, 1], True),
        ([10**6 + 1, 10**6, 10**6, 10**6, 10**6], True),
        ([1, -1, 1, 2, 1], True),
        ([-1, -2, 1, -2, 1], True),
    ],
)
def test_rows_that_measure_public_totals_are_refused(row, is_refused):
    """On the cells of each public total, a row has entries on both sides of 0 or 0 itself, and is not 0."""
    cells = with_public(cells_over((3, 2), 5), (0,), (0, 0, 1, 1, 1))
    for names in ((), (0,)):
        if is_refused:
            with refused("plan.public-total-measured"):
                of_sectors(cells, ([row], {names: ([[1]], 1024)}))
        else:
            of_sectors(cells, ([row], {names: ([[1]], 1024)}))
    # a sector of another attribute measures no total
    of_sectors(cells, ([row], {(0, 1): ([[1]], 1024)}))
    # the mixing counts: 0 is a combination of two rows that are not
    with refused("plan.public-total-measured"):
        of_sectors(cells, ([row, [-x for x in row]], {(): ([[1, 1], [1, 0]], 1024)}))


@pytest.mark.parametrize(
    ("exchangeable", "places"), [((0,), (0, 0)), ((0,), (0, 0, 1, 1)), ((0,), (0, -1, 1)), ((-1,), (0, 0, 0))]
)
def test_public_cells_fit_the_structured_cells(exchangeable, places):
    with refused("plan.design-public-cells-misfit"):
        with_public(cells_over((2,), 3), exchangeable, places)


def centred_strategy(rng):
    """Return a strategy with centres in the sectors of public attributes, and its rows over all cells as Fractions.

    The rows are A B x − k x_F, from B and integer weights of each centre.
    """
    sizes, n, scale = rng.integers(2, 4, rng.integers(0, 3)).tolist(), int(rng.integers(2, 5)), 64
    exchangeable = tuple(a for a in range(len(sizes)) if rng.random() < 0.5)
    places = np.unique(rng.integers(0, 2, n), return_inverse=True)[1]
    weights = rng.integers(0, 5, n)
    for f in set(places.tolist()):  # weights of each cell of F add up to 16
        here = np.flatnonzero(places == f)
        weights[here[0]] += 16 - weights[here].sum()
    cells, groups, rows = with_public(cells_over(sizes, n), exchangeable, tuple(places.tolist())), [], []
    for names in (x for k in range(len(sizes) + 1) for x in itertools.combinations(range(len(sizes)), k)):
        k = int(rng.integers(1, 3))
        basis, mixing = rng.integers(-3, 4, (k, n)), rng.integers(-3, 4, (k, k))
        centres = np.array([(basis * weights)[:, places == f].sum(axis=1) for f in range(places.max() + 1)]).T
        is_inside = set(names) <= set(exchangeable)
        integers = 16 * basis - centres[:, places] if is_inside else basis
        if is_inside and not (mixing @ integers).any(axis=1).all():
            continue
        groups.append((integers.tolist(), {names: (mixing.tolist(), scale)}))
        free = [centring(m) if a in names else np.ones((1, m), np.int64) for a, m in enumerate(sizes)]
        outer = kron(free)
        if is_inside:
            # k by cell of F is subtracted from the counts by F.
            k_of_cell = (mixing @ centres)[:, places]
            rows.append(np.kron(outer, 16 * mixing @ basis) - np.kron(outer, k_of_cell))
        else:
            rows.append(np.kron(outer, mixing @ basis))
    return (of_sectors(cells, *groups), np.concatenate(rows), scale) if groups else None


@pytest.mark.parametrize("seed", range(5))
def test_prices_with_centres_are_those_of_all_neighbours(seed):
    """In 5 times 100 strategies: one record added, and one in place of any other, also in another cell of F."""
    rng = np.random.default_rng(seed)
    strategies = (x for x in iter(lambda: centred_strategy(rng), 0) if x is not None)
    for strategy, rows, scale in itertools.islice(strategies, 100):
        columns = rows.astype(object).T
        assert strategy.cost_squared(ADD) == max(Fraction(int((x * x).sum()), scale**2) for x in columns)
        pairs = itertools.combinations_with_replacement(columns, 2)
        assert strategy.cost_squared(REPLACE) == max(Fraction(int(((x - y) ** 2).sum()), scale**2) for x, y in pairs)


def test_many_attributes_get_the_bound_that_needs_no_search():
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 1) for i in range(15)})
    strategy = fn.plan(fn.Workload(domain, [fn.table(a, variance=1) for a in domain])).table_part.strategy
    total = strategy.group_costs[0]  # the same for both records; the others cost most where all values differ
    assert strategy.cost_squared(REPLACE) == 4 * (strategy.cost_squared(ADD) - total)


@pytest.mark.parametrize("name", SMALL)
def test_the_bound_for_many_attributes_is_no_less_than_the_search(name, monkeypatch):
    plan = zoo_plan(name)
    exact = plan.table_part.strategy.cost_squared(REPLACE)
    monkeypatch.setattr(sectors, "MAX_REPLACE_PATTERNS", 0)
    bound = plan.table_part.strategy.cost_squared(REPLACE)
    assert exact <= bound <= 4 * plan.table_part.strategy.cost_squared(ADD)
    if not plan.table_part.strategy.sizes:
        assert bound == exact


def test_as_many_patterns_are_searched_as_may_be(monkeypatch):
    """Three attributes with two values or more have 2³ patterns; one with a single value adds none."""
    singles = {(0,): ([[1]], 2.0), (1,): ([[2]], 1.0), (2,): ([[1]], 1.0)}
    pairs = {(0, 1): ([[1]], 2.0), (1, 2): ([[2]], 3.0), (0, 2): ([[1]], 1.0)}
    strategy = of_sectors(cells_over((2, 3, 2, 1), 2), ([[1, -2]], singles), ([[1, 1]], pairs))
    exact = strategy.cost_squared(REPLACE)
    monkeypatch.setattr(sectors, "MAX_REPLACE_PATTERNS", 8)
    assert strategy.cost_squared(REPLACE) == exact
    monkeypatch.setattr(sectors, "MAX_REPLACE_PATTERNS", 7)
    assert strategy.cost_squared(REPLACE) > exact


@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 3), (3, 2, 4), (2, 2, 5)])
def test_the_agreement_of_two_records_is_the_product_of_their_columns(sizes):
    """Σ over the centred rows of h_z h_z', for records that agree on some attributes; others do not matter."""
    (sector,) = of_sectors(cells_over(sizes, 1), ([[1]], {tuple(range(len(sizes))): ([[1]], 1.0)})).sectors
    grams = [centring(n).T @ centring(n) for n in sizes]
    for same in itertools.product([True, False], repeat=len(sizes)):
        expected = np.prod([g[0, 0] if x else g[0, 1] for g, x in zip(grams, same, strict=True)])
        assert sector.weight([*np.flatnonzero(same), 9]) == expected


@pytest.mark.parametrize("patterns", [0, 2**14])
def test_what_replacing_does_not_move_costs_nothing(patterns, monkeypatch):
    monkeypatch.setattr(sectors, "MAX_REPLACE_PATTERNS", patterns)
    assert of_sectors(cells_over((), 2), ([[3, 3]], {(): ([[1]], 1.0)})).cost_squared(REPLACE) == 0


@pytest.mark.parametrize("entry", [1, 2**30, 2**31, 2**32, 2**40])
def test_what_replacing_costs_is_exact_at_any_size(entry):
    strategy = of_sectors(cells_over((), 2), ([[1, -1]], {(): ([[entry]], 1.0)}))
    assert strategy.cost_squared(REPLACE) == 4 * strategy.cost_squared(ADD) == 4 * entry**2


@pytest.mark.parametrize("name", SMALL)
def test_the_costs_of_groups_are_those_of_their_sectors(name):
    s = zoo_plan(name).table_part.strategy
    costs = []
    for group in s.groups:
        separate = [
            Strategy(cells_over(s.sizes, s.cells), (group_of(x),)).cost_squared(ADD)
            for x in map(group.sector, range(len(group)))
        ]
        costs.append(sum(separate))
        assert max(s.profile()) >= max(separate)
    assert tuple(costs) == s.group_costs
    assert sum(costs) >= max(s.profile())


@pytest.mark.parametrize("n", [2, 3, 4, 7, 51])
def test_centring_identities(n):
    """HᵀH = g (I − J/n), exactly; H⁺ = Hᵀ/g; every column has the same norm."""
    h = centring(n)
    g = int(gains(np.array([n])))
    assert (h.T @ h * n).tolist() == (g * (n * np.eye(n, dtype=int) - 1)).tolist()
    assert len(h) == axis_rows(n)
    x = np.arange(2 * n).reshape(2, n) ** 2
    np.testing.assert_array_equal(centre(x, 1), x @ h.T)
    np.testing.assert_array_equal(centre(x.astype(object), 1), x @ h.T)
    np.testing.assert_allclose(uncentre(np.asarray(h, dtype=float), 0, n), np.eye(n) - 1 / n, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_centring_is_undone_along_any_axis(n, axis, rng):
    shape = [2, 3, 4]
    shape[axis] = n
    x = rng.integers(-9, 10, size=shape)
    centred = centre(x, axis)
    expected = np.moveaxis(np.tensordot(centring(n), x, (1, axis)), 0, axis)
    np.testing.assert_array_equal(centred, expected)
    noisy = centred + rng.normal(size=centred.shape)
    solution = np.moveaxis(np.tensordot(np.linalg.pinv(centring(n).astype(float)), noisy, (1, axis)), 0, axis)
    np.testing.assert_allclose(uncentre(noisy, axis, n), solution, atol=1e-12)


def test_centring_wraps_like_the_integers_modulo_2_64():
    rng = np.random.default_rng(5)
    x = rng.integers(-(2**62), 2**62, size=(4, 5))
    with np.errstate(over="ignore"):
        wrapped = centre(x, 0)
    exact = centre(x.astype(object), 0)
    assert [(int(a) - int(b)) % 2**64 for a, b in zip(wrapped.ravel(), exact.ravel(), strict=True)] == [0] * 20


@given(st.integers(0, 62), st.integers(0, 62), st.integers(0, 2**32))
def test_matmul_is_exact_at_any_size(bits_a, bits_b, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(-(2**bits_a), 2**bits_a, size=(2, 3))
    b = rng.integers(-(2**bits_b), 2**bits_b, size=(3, 2))
    expected = a.astype(object) @ b.astype(object)
    assert exact_matmul(a, b).tolist() == expected.tolist()


def test_an_empty_product_is_empty():
    assert exact_matmul(np.zeros((2, 0), int), np.zeros((0, 3), int)).shape == (2, 3)


ONES = np.ones(1)


def sector(mixing, basis, scale=4.0, sizes=(), attributes=()):
    return group_of(SectorStrategy(attributes, sizes, np.array(mixing), np.array(basis), scale))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sector([[1, 0]], [[1, 1]]), "plan.sector-mixing-misfit"),
        (lambda: sector([[1.5]], [[1, 1]]), "plan.sector-mixing-misfit"),
        (lambda: sector([[1]], [[0.5, 1]]), "plan.sector-basis-not-integers"),
        (lambda: sector([[-(2**63)]], [[1, 1]]), "plan.sector-integers-too-large"),
        (lambda: sector([[1]], [[2**62, 1]]), "plan.sector-integers-too-large"),
        (lambda: sector([[1]], [[1, 1]], scale=0.0), "plan.noise-out-of-range"),
        (lambda: sector([[1]], [[1, 1]], scale=float("inf")), "plan.noise-out-of-range"),
        (lambda: sector([[1]], [[1, 1]], scale=2.0**56), "plan.noise-out-of-range"),
        (
            lambda: sector(np.array([[-128]], dtype=np.int8), np.eye(1, dtype=int)),
            "plan.sector-mixing-misfit",
        ),
        (lambda: sector(np.array([[np.int64(1)]], dtype=object), [[1, 1]]), "plan.sector-mixing-misfit"),
        (lambda: sector(np.array([[2.5]], dtype=object), [[1, 1]]), "plan.sector-mixing-misfit"),
        (lambda: sector([[1]], [[1, 1]], sizes=(1,), attributes=(0,)), "plan.sector-attribute-without-values"),
        (lambda: sector([[1]], [[1, 1]], sizes=(3,)), "plan.sector-attribute-without-values"),
        (lambda: sector([[1]], [[1, 1]], sizes=(3, 3), attributes=(1, 1)), "plan.attributes-not-increasing"),
        (lambda: Strategy(cells_over((), 2), (sector([[1]], [[1, 1]]),) * 2), "plan.measured-twice"),
        (lambda: Strategy(cells_over((), 3), (sector([[1]], [[1, 1]]),)), "plan.sector-misfits-domain"),
        (
            lambda: Strategy(cells_over((4,), 2), (sector([[1]], [[1, 1]], sizes=(3,), attributes=(0,)),)),
            "plan.sector-misfits-domain",
        ),
    ],
)
def test_strategies_that_are_none(make, message):
    with refused(message) as caught:
        make()
    assert "4.0" not in str(caught.value)


TOTAL = ((), [[1]])


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: MeasuredMargin((), np.zeros((1, 3), dtype=np.int64)), "plan.margin-row-zero"),
        (lambda: MeasuredMargin((), np.ones((1, 3))), "plan.margin-rows-not-integers"),
        (lambda: MeasuredMargin((), np.array([[2**40]])), "plan.margin-rows-too-large"),
        (lambda: MeasuredMargin((1, 0), np.array([[1]])), "plan.attributes-not-increasing"),
        (lambda: of_margins(cells_over((3, 2), 1), 8.0, ((2,), [[1]])), "plan.margins-misfit-domain"),
        (lambda: of_margins(cells_over((3, 2), 1), 8.0, TOTAL, ((), [[2]])), "plan.measured-twice"),
        (lambda: of_margins(cells_over((3, 2), 1), 0.0, TOTAL), "plan.noise-out-of-range"),
        (lambda: of_margins(cells_over((3, 2), 1), float("nan"), TOTAL), "plan.noise-out-of-range"),
        (lambda: of_margins(cells_over((3, 2), 1), 2.0**45, TOTAL), "plan.noise-out-of-range"),
        (lambda: PureStrategy(cells_over((), 1), (), 1.0), "plan.margins-misfit-domain"),
    ],
)
def test_pure_strategies_that_are_none(make, code):
    with refused(code):
        make()


@pytest.mark.parametrize(("attributes", "sizes"), [(np.intp, np.int8), (np.uint8, np.int64), (np.intp, np.float64)])
def test_sizes_that_could_wrap_around_are_refused(attributes, sizes):
    """One byte holds 20 values, but not what they cost: 20 · 19 = 380 would be 124."""
    with refused("plan.sector-types-too-narrow"):
        StrategyGroup(
            np.array([[0]], attributes), np.array([[20]], sizes), np.ones((1, 1), int), np.ones((1, 1, 1), int), ONES
        )


def make_group(**other):
    """One sector of no attribute, one structured cell, with something else in it."""
    none = {"attributes": np.zeros((1, 0), np.intp), "sizes": np.zeros((1, 0), np.int64)}
    return StrategyGroup(
        **none | {"basis": np.ones((1, 1), int), "mixing": np.ones((1, 1, 1), int), "scales": ONES} | other
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"basis": np.ones(1, int)}, "plan.sector-basis-not-integers"),
        ({"basis": np.ones((0, 1), int), "mixing": np.ones((1, 0, 0), int)}, "plan.sector-basis-not-integers"),
        ({"basis": np.ones((1, 1), np.int32)}, "plan.sector-basis-not-integers"),
        ({"basis": np.array([[-(2**62)]])}, "plan.sector-integers-too-large"),
        ({"mixing": np.array([[[2**62]]])}, "plan.sector-integers-too-large"),
        ({"mixing": np.ones((2, 1, 1), int)}, "plan.sector-mixing-misfit"),
        ({"mixing": np.ones((1, 1, 2), int)}, "plan.sector-mixing-misfit"),
        ({"scales": np.ones(2)}, "plan.noise-out-of-range"),
        ({"scales": np.ones(1, dtype=int)}, "plan.noise-out-of-range"),
        ({"scales": np.ones(1, dtype=np.float32)}, "plan.noise-out-of-range"),
        *(
            ({"scales": np.array([x])}, "plan.noise-out-of-range")
            for x in (-1.0, 0.0, np.nan, np.nextafter(MAX_SCALE, np.inf))
        ),
        ({"attributes": np.zeros(1, np.intp), "sizes": np.full(1, 2)}, "plan.sector-attribute-without-values"),
        ({"attributes": np.zeros((1, 1), np.intp)}, "plan.sector-attribute-without-values"),
        ({"attributes": np.array([[0, 1]]), "sizes": np.array([[2, 1]])}, "plan.sector-attribute-without-values"),
        ({"attributes": np.array([[0, 0]]), "sizes": np.array([[2, 2]])}, "plan.attributes-not-increasing"),
        ({"attributes": np.array([[0, 2, 1]]), "sizes": np.array([[2, 2, 2]])}, "plan.attributes-not-increasing"),
    ],
)
def test_sectors_that_are_none(other, message):
    with refused(message):
        make_group(**other)


def test_numbers_as_large_as_may_be():
    assert make_group(basis=np.array([[2**62 - 1]])).magnitude(np.array([0]), (), 1) == 2**62 - 1
    assert make_group(mixing=np.array([[[1 - 2**62]]])).column_squares.tolist() == [[(2**62 - 1) ** 2]]
    four = make_group(basis=np.full((4, 1), 2**31 - 1), mixing=np.eye(4, dtype=int)[None])
    assert four.column_squares.tolist() == [[4 * (2**31 - 1) ** 2]]  # the sum of squares of 62 bits has 64
    assert make_group(mixing=np.array([[[2**70]]], dtype=object)).column_squares.tolist() == [[2**140]]
    for scale in (5e-324, MAX_SCALE):
        assert Strategy(cells_over((), 1), (make_group(scales=np.array([scale])),)).profile() == (
            1 / Fraction(scale) ** 2,
        )


def test_each_sector_is_as_large_as_its_own_rows_say():
    """Not as those of another, be they below 0."""
    rows_by_set = {(0,): ([[-5]], 1.0), (1,): ([[2]], 1.0), (2,): ([[1]], 1.0)}
    (group,) = of_sectors(cells_over((2, 2, 2), 1), ([[1]], rows_by_set)).groups
    assert [group.magnitude(np.array([i]), (2,), 7) for i in range(3)] == [7 * 5, 7 * 2, 7]


def test_sums_over_sectors_of_one_kind_are_exact_above_64_bits():
    each = 2**31 - 1  # of which the square has 62 bits
    strategy = of_sectors(cells_over((2, 2, 2), 1), ([[1]], {(a,): ([[each]], 1.0) for a in range(3)}))
    assert strategy.profile() == (3 * each**2,)


def test_answers_that_64_bits_hold_are_held_in_them():
    """This holds for the largest number of records that fits; one record more loses nothing either."""
    for times in (1, -3):
        strategy = of_sectors(cells_over((), 1), ([[1]], {(): ([[times]], 1.0)}))
        max_records = (INT64_SAFE_BOUND - 1) // abs(times)
        for records, kind in ((max_records, np.int64), (max_records + 1, object)):
            (answers,) = strategy.exact_answers({(): np.array([records])}, Adjacency(), records)
            assert (answers.dtype, answers.tolist()) == (kind, [times * records])


@pytest.mark.parametrize("attribute", [-1, 2, 3])
def test_a_sector_of_other_attributes_is_refused(attribute):
    group = make_group(attributes=np.array([[attribute]]), sizes=np.array([[2]]))
    with refused("plan.sector-misfits-domain"):
        Strategy(cells_over((2, 2), 1), (group,))


@pytest.mark.parametrize(("attributes", "width"), [(5, 2), (6, 3), (40, 1), (70, 68), (70, 69)])
def test_all_sets_of_attributes_are_different_sectors(attributes, width):
    """Few attributes are distinguished by one number, and many one by one."""
    sets = np.array(list(itertools.combinations(range(attributes), width)))
    ones = np.ones(len(sets))
    group = StrategyGroup(sets, np.full_like(sets, 2), np.ones((1, 1), int), ones.astype(int)[:, None, None], ones)
    assert sum(Strategy(cells_over((2,) * attributes, 1), (make_group(), group)).lengths) == 1 + len(sets)
    for repeated in (group.sector(0), group.sector(len(sets) - 1)):
        with refused("plan.measured-twice"):
            Strategy(cells_over((2,) * attributes, 1), (group, make_group(), group_of(repeated)))


def test_sectors_by_hand():
    rows_by_set = {(0,): ([[1, 2], [0, 1]], 2.0), (1,): ([[3, 0], [0, 1]], 1.0)}
    s = of_sectors(cells_over((3, 2), 2), ([[1, 0], [0, 1]], rows_by_set), ([[1, 1]], {(0, 1): ([[-2]], 4.0)}))
    # 3 · 2 ways to differ along the first attribute, 1 along the second; columns of A B squared over σ²
    assert s.profile() == (6 * Fraction(1, 4) + 9 + 6 * Fraction(4, 16), 6 * Fraction(5, 4) + 1 + 6 * Fraction(4, 16))
    assert s.group_costs == (6 * Fraction(5, 4) + 9, Fraction(3, 2))
    assert s.cost_squared(ADD) == 12
    assert (s.lengths, s.portions.tolist(), s.scales.tolist()) == ((8, 3), [6, 2, 3], [2.0, 1.0, 4.0])
    assert [g.starts.tolist() for g in s.groups] == [[0, 6, 8], [0, 3]]
    assert [g.weights.tolist() for g in s.groups] == [[6, 1], [6]]
    assert [(x.attributes, x.sizes, answer_count(x), x.scale) for x in s.sectors] == [
        ((0,), (3,), 6, 2.0), ((1,), (2,), 2, 1.0), ((0, 1), (3, 2), 3, 4.0),
    ]  # fmt: skip
    assert [magnitudes(g, 10) for g in s.groups] == [{(3,): 10 * 2 * 2, (2,): 10 * 3}, {(3, 2): 10 * 2 * 2}]
    stated = [("33/2", 2, ["a0", "a1"]), ("3/2", 1, ["a0", "a1"])]
    sectors = s.ledger_detail(Adjacency())["sectors"]
    assert [(x["cost_squared"], x["count"], x["of"]) for x in sectors] == stated


def magnitudes(group, records):
    return {sizes: group.magnitude(here, sizes, records) for sizes, here in group.stacks()}


@pytest.mark.parametrize("times", [2.0**-40, 1.0, 2.0**45])
@pytest.mark.parametrize("count", [2, 64, 65, 128])
def test_prices_are_exact_up_to_a_number_of_scales_and_only_slightly_above_after_that(count, times):
    sets = list(itertools.chain.from_iterable(itertools.combinations(range(7), k) for k in range(8)))[:count]
    scales = dict(zip(sets, (times * (3 + i / 8) for i in range(count)), strict=True))
    groups = [{s: ([[1]], x) for s, x in scales.items() if len(s) == k} for k in range(8)]
    strategy = of_sectors(cells_over((2,) * 7), *(([[1]], g) for g in groups if g))
    exact = sum(1 / Fraction(x) ** 2 for x in scales.values())
    (price,) = strategy.profile()
    assert exact <= price <= exact * (1 + Fraction(count > linear.EXACT_SCALES, 2**80))


def test_weights_of_many_values_are_exact():
    n = 2**32 + 3  # of n (n − 1) no double has the last digits
    many = StrategyGroup(np.array([[0]]), np.array([[n]]), np.ones((1, 1), int), np.ones((1, 1, 1), int), ONES)
    assert many.weights.tolist() == [n * (n - 1)]


def test_nothing_is_hidden_from_a_strategy():
    """Masked entries are left out where the largest is looked for, but not where matrices are multiplied."""
    hidden = np.ma.masked_array(np.array([[[1, 2**62], [0, 1]]]), mask=[[[False, True], [False, False]]])
    none = np.zeros((1, 0), dtype=np.intp)
    with refused("plan.sector-integers-too-large"):
        StrategyGroup(none, none, np.eye(2, dtype=int), hidden, ONES)


def test_a_singular_mixing_is_refused():
    with refused("plan.singular-sector"):
        inverse(sector([[1, 1], [1, 1]], [[1, 0], [0, 1]]))


@pytest.mark.parametrize(
    "mixing", [[[4]], [[-3]], [[2, 1], [1, 1]], [[0, 1], [1, 0]], [[1, 2, 3], [0, 4, 5], [0, 0, 6]]]
)
def test_a_mixing_is_inverted(mixing):
    mixed_sector = sector(mixing, np.eye(len(mixing), dtype=int))
    np.testing.assert_allclose(inverse(mixed_sector), [np.linalg.inv(mixing)], atol=1e-15)


def test_a_mixing_of_nothing_is_singular():
    with refused("plan.singular-sector"):
        inverse(sector([[0]], [[1]]))


@pytest.mark.parametrize("kind", [object, np.int64])
def test_a_mixing_that_doubles_cannot_hold_is_refused(kind):
    """Its inverse would be that of another matrix, and the errors stated too small."""
    m = 2**60
    big = np.array([[m, m + 127], [m, m + 129]], dtype=kind)
    with refused("plan.singular-sector"):
        inverse(sector(big, np.eye(2, dtype=int)))


def test_strategies_are_frozen_copies():
    mixing = np.array([[[2]]])
    none = np.zeros((1, 0), dtype=np.intp)
    s = StrategyGroup(none, none, np.array([[1, 1]]), mixing, np.array([4.0]))
    mixing[0, 0, 0] = 5
    assert s.mixing[0, 0, 0] == 2
    for held in (s.mixing, s.basis, s.scales):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 9


def test_one_attribute_of_one_value_does_not_cost_patterns():
    """Only attributes of two values or more count towards the search."""
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 0) for i in range(20)} | {"b": fn.Ordered(0, 2)})
    plan = fn.plan(fn.Workload(domain, [fn.table("b", variance=1), fn.table(*list(domain)[:20], variance=1)]))
    assert plan.table_part.strategy.cost_squared(REPLACE) < 4 * plan.table_part.strategy.cost_squared(ADD)


def test_magnitude_bounds_every_transform(rng):
    plan = zoo_plan("five structured cells")
    rows, _ = strategy_matrix(plan)
    start = 0
    for group in plan.table_part.strategy.groups:
        for s in map(group.sector, range(len(group))):
            block = rows[start : start + answer_count(s)]
            start += answer_count(s)
            magnitude = group.magnitude(np.arange(len(group)), s.sizes, 7)
            assert max(abs(int(x)) for x in block.ravel()) * 7 <= magnitude


@pytest.mark.parametrize("scales", [[1.0], [0.5, 3.0], [2.0**-32], [2.0**-31.5, 1.0]], ids=str)
def test_precisions_are_integers_of_any_size(scales):
    """This holds for any of them: sums of some that 64 bits hold exceed these, and lists around 2⁶³ become doubles."""
    unit, (precisions,) = linear.exact_precisions([np.array(scales)])
    assert all(type(x) is int for x in precisions)
    assert [Fraction(x, unit) for x in precisions] == [1 / Fraction(x) ** 2 for x in scales]
