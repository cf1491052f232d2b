"""Witnesses of a price: what they prove, against all sets of records, and which claims they refuse."""

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from fitnoise.errors import PlanError
from fitnoise.kernel.designs import witness
from fitnoise.kernel.designs.witness import DIGITS, MAX_BITS, Blocks, Budget, Closed, Multipliers, RecordProblem


def drawn_integer(draw, bits):
    return int.from_bytes(draw.bytes(32)) % 2**bits


def drawn_problem(seed, bits):
    """Return a problem with few nodes, for costs of n bits and either sign, and records in up to five places."""
    draw = np.random.default_rng([seed, bits])
    sizes = [(), (2,), (3,), (2, 2), ()][seed % 5]
    count = int(draw.integers(1, 4 if sizes else 6))
    places = sorted([*range(count), *draw.integers(0, count, size=int(draw.integers(0, 3))).tolist()])[:6]
    n, kinds = len(places), 2 ** len(sizes)
    x, compatible = np.zeros((kinds, n, n), dtype=object), np.zeros((kinds, n, n), dtype=bool)
    signed = draw.random() < 0.7
    for k, i, j in itertools.product(range(kinds), range(n), range(n)):
        if i <= j:
            x[k, i, j] = x[k, j, i] = drawn_integer(draw, bits + 1) - 2**bits if signed else drawn_integer(draw, bits)
            compatible[k, i, j] = compatible[k, j, i] = places[i] != places[j] and draw.random() < 0.8
    costs = tuple(drawn_integer(draw, bits) for _ in range(n))
    problem = RecordProblem(x, compatible, costs, tuple(places), sizes, int(draw.choice([1, 2, 3, 99])))
    return in_two_parts(problem, draw) if seed % 3 == 0 and n * np.prod(sizes) < 6 else problem


def in_two_parts(problem, draw):
    """Return the problem of two copies of a problem's cells, with any costs between the copies."""
    x, compatible, shape = problem.joint_costs, problem.compatible, problem.joint_costs.shape
    across, meet, bits = np.zeros(shape, dtype=object), draw.random(shape) < 0.8, int(abs(x).max()).bit_length()
    for k, i, j in np.ndindex(shape):
        across[k, i, j] = across[k, j, i] = drawn_integer(draw, bits + 1) - 2**bits
        meet[k, i, j] = meet[k, j, i]
    return replace(
        problem,
        joint_costs=np.block([[x, across], [across, x]]),
        compatible=np.block([[compatible, meet], [meet, compatible]]),
        costs=problem.costs * 2,
        places=(*problem.places, *(p + problem.places[-1] + 1 for p in problem.places)),
        parts=2,
    )


def set_costs(problem):
    """Yield the cost of every set of records, by the definition."""
    records = list(itertools.product(range(len(problem.costs)), itertools.product(*map(range, problem.sizes))))
    half = len(problem.costs) // problem.parts
    for m in range(1, min(problem.max_size * problem.parts, problem.places[-1] + 1) + 1):
        for chosen in itertools.combinations(records, m):
            if max(np.bincount([o // half for o, _ in chosen])) > problem.max_size:
                continue
            total = sum(problem.costs[o] for o, _ in chosen)
            for (i, v), (j, w) in itertools.combinations(chosen, 2):
                same = sum((a == b) << k for k, (a, b) in enumerate(zip(v, w, strict=True)))
                if problem.places[i] == problem.places[j] or not problem.compatible[same, i, j]:
                    break
                total += 2 * problem.joint_costs[same, i, j]
            else:
                yield total


def places_problem(x, compatible=None, max_size=99):
    """Return the problem of places with one cell each."""
    x, n = np.array(x, dtype=object), len(x)
    compatible = ~np.eye(n, dtype=bool) if compatible is None else compatible
    return RecordProblem(x[None], compatible[None], tuple(x.diagonal().tolist()), tuple(range(n)), (), max_size)


def proves(proof, problem, bound):
    return proof.proves(problem, bound, Budget())


def drawn_proofs(problem, seed):
    """Yield witnesses of random integers, near those that prove something."""
    draw = np.random.default_rng(seed)
    n, bits = problem.node_count, max(problem.costs).bit_length()
    shift = int(draw.choice([0, 0, 5, -3]))

    def number():
        bits_here = int(draw.integers(1, max(bits - shift, 1) + 2))
        return (drawn_integer(draw, bits_here) - 2**bits_here // 2) * int(draw.integers(0, 2))

    root = tuple(tuple(number() >> bits // 2 for _ in range(i)) for i in range(1, n + 2))
    yield Multipliers(tuple(abs(number()) for _ in range(n + 1)), abs(number()), root, shift)
    for length in (k for k in range(1, n + 1) if n % k == 0):
        yield Blocks(length, number(), tuple(number() for _ in range(n // length)), shift)


@pytest.mark.parametrize("bits", [1, 7, DIGITS - 1, DIGITS, DIGITS + 1, 80, 200])
def test_closed_sets_prove_the_largest_cost_and_nothing_below(bits):
    for seed in range(40):
        problem = drawn_problem(seed, bits)
        largest = max(set_costs(problem))
        assert proves(Closed(), problem, largest)
        assert proves(Closed(), problem, largest + 1)
        assert proves(Closed(), problem, largest * 2**300 + 1)
        for less in (1, largest >> 30, largest // 3 + 1, largest):
            assert not less or not proves(Closed(), problem, largest - less)


@pytest.mark.parametrize("bits", [3, 20, 90])
def test_no_integers_prove_less_than_the_largest_cost(bits):
    proven = 0
    for seed in range(40):
        problem = drawn_problem(seed, bits)
        largest = max(set_costs(problem))
        for proof in drawn_proofs(problem, seed):
            assert not proves(proof, problem, largest - 1)
            assert not largest or not proves(proof, problem, largest // 2)
            proven += proves(proof, problem, largest * 9)
    assert proven > 40


def test_multipliers_prove_the_bound_of_two_records():
    """Two records whose answers cancel cost most alone: N is a square. Of two that add up, ℓ holds one back."""
    for scale in (1, 2**70):
        cancelling = Multipliers((0, 2 * scale, 2 * scale), 0, ((2,), (-2, 0), (-2, 0, 0)), 0)
        problem = places_problem([[4 * scale, -4 * scale], [-4 * scale, 4 * scale]])
        assert proves(cancelling, problem, 4) == (scale == 1)
        assert not proves(cancelling, problem, 3)
    adding = places_problem([[4, 4], [4, 4]], max_size=1)
    held = Multipliers((4, 2, 2), 4, ((0,), (0, 2), (0, -2, 0)), 0)
    assert proves(held, adding, 8)
    assert not proves(held, adding, 7)
    assert not proves(held, places_problem([[4, 4], [4, 4]]), 15)
    assert proves(held, places_problem([[4, 4], [4, 4]]), 16)


def test_blocks_prove_interchangeable_places_exactly():
    """All joint costs are equal: m records cost 3m² + 2m."""
    for n, max_size in ((1, 1), (4, 2), (6, 9)):
        x = np.full((n, n), 3, dtype=object) + 2 * np.eye(n, dtype=int).astype(object)
        problem, m = places_problem(x, max_size=max_size), min(n, max_size)
        for proof in (Blocks(n, 0, (3,), 0), Blocks(n, 3, (0,), 0), Blocks(n, 3 << 5, (0,), -5)):
            assert proves(proof, problem, 3 * m * m + 2 * m)
            assert not proves(proof, problem, 3 * m * m + 2 * m - 1)
    halves = np.kron(np.diag([5, 7]), np.ones((2, 2), dtype=int)).astype(object) + 1
    for max_size, largest in ((9, 4 * 6 + 4 * 8 + 8), (3, 6 + 4 * 8 + 4), (1, 8)):
        problem = places_problem(halves, max_size=max_size)
        assert proves(Blocks(2, 1, (5, 7), 0), problem, largest)
        assert not proves(Blocks(2, 1, (5, 7), 0), problem, largest - 1)


# --- forms of witnesses ---------------------------------------------------------------------------------------------

LARGE = 10**30
ONE = places_problem([[LARGE]])
ZERO_ROOT = ((0,), (0, 0))
DEEP = (
    ((0, 0), (1115635160000000, 0)),
    ((-896350384000000, 447805871000000), (-4027289790000000, 896350384000000)),
)
"""Rows that would become an array of three axes, whose product is no square: it proved a tenth of the truth."""


@pytest.mark.parametrize(
    "proof",
    [
        Multipliers((0, 0), 0, DEEP, 0),
        Multipliers((0, 0), 0, [[list(x) for x in row] for row in DEEP], 0),
        Multipliers((0, 0), 0, (((0,),), (0, 0)), 0),
        Multipliers((0, 0), 0, [(0,), (0, 0)], 0),
        Multipliers((0, 0), 0, ([0], (0, 0)), 0),
        Multipliers((0, 0), 0, ((0.0,), (0, 0)), 0),
        Multipliers((0, 0), 0, ((True,), (0, 0)), 0),
        Multipliers((0, 0), 0, ((0,),), 0),
        Multipliers((0, 0), 0, ((0,), (0,)), 0),
        Multipliers((0, 0), 0, ((0, 0), (0, 0)), 0),
        Multipliers((0, 0), 0, ((0,), (0, 2**MAX_BITS)), 0),
        Multipliers((0,), 0, ZERO_ROOT, 0),
        Multipliers((0, 0, 0), 0, ZERO_ROOT, 0),
        Multipliers((0, 0.0), 0, ZERO_ROOT, 0),
        Multipliers([0, 0], 0, ZERO_ROOT, 0),
        Multipliers((0, 2**MAX_BITS), 0, ZERO_ROOT, 0),
        Multipliers((0, 0), -1, ZERO_ROOT, 0),
        Multipliers((0, 0), 0.5, ZERO_ROOT, 0),
        Multipliers((0, 0), 0, ZERO_ROOT, -(10**9)),
        Multipliers((0, 0), 0, ZERO_ROOT, 10**9),
        Multipliers((0, 0), 0, ZERO_ROOT, 0.0),
        Multipliers((0, 0), 0, ZERO_ROOT, True),
        Blocks(0, 0, (0,), 0),
        Blocks(2, 0, (0,), 0),
        Blocks(1.0, 0, (0,), 0),
        Blocks(1, 0.5, (0,), 0),
        Blocks(1, 0, (0.0,), 0),
        Blocks(1, 0, [0], 0),
        Blocks(1, 0, (), 0),
        Blocks(1, 0, ((0,),), 0),
        Blocks(1, 0, (0,), -(10**9)),
        Blocks(1, 0, (0,), "0"),
        Blocks(1, 0, (2**MAX_BITS,), 0),
    ],
)
def test_anything_but_integers_of_the_right_shape_proves_nothing(proof):
    """Nothing of any size is proven, also not what the same integers in the right form would prove."""
    for bound in (0, LARGE // 10, LARGE - 1, LARGE, LARGE * 2**300):
        assert not proves(proof, ONE, bound)


def test_the_right_form_proves_what_one_record_costs():
    for proof in (Multipliers((0, LARGE), 0, ZERO_ROOT, 0), Blocks(1, 0, (0,), 0), Closed()):
        assert proves(proof, ONE, 2**8 * LARGE)
        assert not proves(proof, ONE, LARGE - 1)
        assert not proves(proof, ONE, -1)
    assert not proves(Blocks(2, 0, (0, 0), 0), places_problem(np.eye(3, dtype=int)), 99)


@pytest.mark.parametrize("shift", [-(2**7), -1, 0, 1, 60, 2**13])
def test_rounding_by_a_shift_claims_no_less(shift):
    """Costs are rounded up, and the bound is rounded down to an integer."""
    problem = places_problem([[5]])
    proven = next(b for b in itertools.chain(range(20), (2**shift,)) if proves(Blocks(1, 0, (0,), shift), problem, b))
    assert proven == (5 if shift <= 0 else 6 if shift == 1 else 2**shift)


@pytest.mark.parametrize("shift", [-(2**7) - 1, 2**13 + 1])
def test_a_larger_shift_proves_nothing(shift):
    assert not proves(Blocks(1, 0, (0,), shift), places_problem([[5]]), 2**9999)


# --- problems -------------------------------------------------------------------------------------------------------


def test_values_are_tried_up_to_renaming():
    """Pairs cost 2 more where they differ. Of three records in two regions two agree; in three all can differ."""
    compatible = np.ones((2, 3, 3), dtype=bool)
    different = np.array([[[1] * 3] * 3, [[-1] * 3] * 3], dtype=object)
    for regions, largest in ((1, 9), (2, 17), (3, 21), (99, 21)):
        problem = RecordProblem(different, compatible, (5, 5, 5), (0, 1, 2), (regions,), 3)
        assert problem.node_count == 3 * min(regions, 3)
        assert proves(Closed(), problem, largest)
        assert not proves(Closed(), problem, largest - 1)


GOOD = {
    "joint_costs": np.array([[[1, 2], [2, 3]]], dtype=object),
    "compatible": np.array([[[False, True], [True, False]]]),
    "costs": (1, 3),
    "places": (0, 1),
    "sizes": (),
    "max_size": 2,
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("joint_costs", np.array([[[1, 2], [1, 3]]], dtype=object)),
        ("joint_costs", np.array([[[1, 2], [2, 3]]])),
        ("joint_costs", np.array([[[1, 2.0], [2.0, 3]]], dtype=object)),
        ("joint_costs", np.array([[[1, np.int64(2)], [np.int64(2), 3]]], dtype=object)),
        ("joint_costs", np.array([[1, 2], [2, 3]], dtype=object)),
        ("compatible", np.array([[[False, True], [False, False]]])),
        ("compatible", np.array([[[0, 1], [1, 0]]])),
        ("compatible", np.array([[False, True], [True, False]])),
        ("costs", (1, 3, 4)),
        ("costs", (1, 3.0)),
        ("costs", [1, 3]),
        ("costs", ()),
        ("places", (1, 0)),
        ("places", (1, 2)),
        ("places", (0, 2)),
        ("places", (0,)),
        ("places", (0, 1, 2)),
        ("sizes", (0,)),
        ("sizes", (2,)),
        ("max_size", 0),
        ("max_size", 2.0),
    ],
)
def test_a_problem_of_another_form_is_refused(key, value):
    assert proves(Closed(), RecordProblem(**GOOD), 1 + 4 + 3)
    with pytest.raises(PlanError) as refused:
        RecordProblem(**(GOOD | {key: value}))
    assert refused.value.code == "plan.record-problem-invalid"


def test_too_many_nodes_are_refused_from_their_sizes(monkeypatch):
    """No array of nodes is made: two cells and two values of each of ten attributes are 2¹¹ nodes."""
    many = {"joint_costs": GOOD["joint_costs"].repeat(2**10, 0), "compatible": GOOD["compatible"].repeat(2**10, 0)}
    huge = RecordProblem(**(GOOD | many | {"sizes": (2**40,) * 10, "max_size": 2**40}))
    assert huge.node_count == 2**11
    for proof in (Closed(), Blocks(1, 0, (0,), 0), Multipliers((0,), 0, ((0,),), 0)):
        assert not proves(proof, huge, 2**99)
    monkeypatch.setattr(witness, "MAX_NODES", 2)
    assert proves(Closed(), RecordProblem(**GOOD), 8)
    monkeypatch.setattr(witness, "MAX_NODES", 1)
    assert not proves(Closed(), RecordProblem(**GOOD), 8)


def test_incompatible_pairs_and_pairs_in_one_place_are_in_no_set():
    none = np.zeros((2, 2), dtype=bool)
    assert proves(Closed(), places_problem([[1, 9], [9, 2]], none), 2)
    both = RecordProblem(np.full((1, 2, 2), 9, dtype=object), ~none[None], (1, 2), (0, 0), (), 2)
    assert proves(Closed(), both, 2)
    assert not proves(Closed(), both, 1)
    large = places_problem(np.full((40, 40), 2**DIGITS - 1, dtype=object), np.zeros((40, 40), dtype=bool))
    assert proves(Closed(), large, 2**DIGITS - 1)


def test_numbers_of_the_largest_size_do_not_wrap():
    """The largest number of places, and costs as large as 40 bits allow, of one sign or of both."""
    largest = 2**DIGITS - 1
    for scale in (1, 2**90):
        full = places_problem(np.full((128, 128), largest * scale, dtype=object), max_size=128)
        assert proves(Closed(), full, 128 * 128 * largest * scale)
        assert not proves(Closed(), full, 128 * 128 * largest * scale - 1)
    mixed = np.full((128, 128), -largest, dtype=object)
    np.fill_diagonal(mixed, largest)
    assert proves(Closed(), places_problem(mixed), largest)
    assert not proves(Closed(), places_problem(mixed), largest - 1)


# --- limits ---------------------------------------------------------------------------------------------------------


def test_each_limit_is_the_number_that_is_checked(monkeypatch):
    """Three records that gain nothing have three sets, three pairs and all; the claim closes the last of them."""
    problem = places_problem(np.eye(3, dtype=int))
    assert proves(Closed(), problem, 3)
    for limit, smallest in (("MAX_PLACES", 3), ("MAX_NUMBERS", 4 * 3**2 + 3**3)):
        monkeypatch.setattr(witness, limit, smallest)
        assert proves(Closed(), problem, 3)
        monkeypatch.setattr(witness, limit, smallest - 1)
        assert not proves(Closed(), problem, 3)
        monkeypatch.undo()
    ones = Multipliers((0, 1, 1, 1), 0, ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0)), 0)
    assert proves(ones, problem, 99)
    for limit, smallest in (("MAX_MULTIPLIERS", 3), ("MAX_NUMBERS", 4 * 3**2 + 4**3)):
        monkeypatch.setattr(witness, limit, smallest)
        assert proves(ones, problem, 99)
        monkeypatch.setattr(witness, limit, smallest - 1)
        assert not proves(ones, problem, 99)
        monkeypatch.undo()
    monkeypatch.setattr(witness, "MAX_NUMBERS", 4 * 3**2 + 2 * 3 * (3 + 3))
    assert proves(Blocks(1, 0, (0, 0, 0), 0), problem, 3)
    monkeypatch.setattr(witness, "MAX_NUMBERS", 4 * 3**2 + 2 * 3 * (3 + 3) - 1)
    assert not proves(Blocks(1, 0, (0, 0, 0), 0), problem, 3)


def test_long_integers_take_more_of_the_budget(monkeypatch):
    """Memory and time grow with the length of integers: costs of 65 bits count twice, and so do entries of L."""
    long, short = (
        places_problem(np.diag([2**64] * 3).astype(object)),
        places_problem(np.diag([2**64 - 1] * 3).astype(object)),
    )
    assert (long.cost_length, short.cost_length) == (2, 1)
    zero = ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0))
    for problem, root, min_numbers in (
        (short, zero, 4 * 3**2 + 4**3),
        (long, zero, 2 * 4 * 3**2 + 4**3),
        (short, (*zero[:3], (0, 0, 0, -(2**64))), 4 * 3**2 + 2 * 4**3),
    ):
        proof = Multipliers((0, 1, 1, 1), 0, root, 0)
        monkeypatch.setattr(witness, "MAX_NUMBERS", min_numbers)
        assert proves(proof, problem, 2**200)
        monkeypatch.setattr(witness, "MAX_NUMBERS", min_numbers - 1)
        assert not proves(proof, problem, 2**200)
    incompatible = np.zeros((2, 2), dtype=bool)
    assert places_problem([[1, 2**99], [2**99, 1]], incompatible).cost_length == 1


def swinging(n):
    """Return records with many sets near the costliest: neither equal nor different values are best throughout."""
    products = np.array([[((i * j) % 5) - 2 for j in range(n)] for i in range(n)], dtype=object)
    compatible = np.broadcast_to(~np.eye(n, dtype=bool), (2, n, n))
    return RecordProblem(np.stack([products, -products]), compatible, (6,) * n, tuple(range(n)), (2,), n)


def test_all_problems_of_a_claim_share_one_budget():
    problem, budget = swinging(6), Budget()
    largest = max(set_costs(problem))
    assert Closed().proves(problem, largest, budget)
    used = witness.MAX_SETS - budget.sets, witness.MAX_NUMBERS - budget.numbers
    assert min(used) > 20
    budget.sets = 2 * used[0] - 1
    assert Closed().proves(problem, largest, budget)
    assert not Closed().proves(problem, largest, budget)
    budget.sets, budget.numbers = used
    assert Closed().proves(problem, largest, budget)
    assert (budget.sets, budget.numbers) == (0, 0)


def test_a_claim_that_is_refused_takes_little_memory(monkeypatch):
    """A row of numbers for every set that is opened would take 200 MB; those of some sets at a time are held."""
    draw = np.random.default_rng(5)
    x = draw.integers(-(2**30), 2**30, (100, 100)).astype(object)
    x = np.array([[int(v) for v in row] for row in (x + x.T)], dtype=object)
    np.fill_diagonal(x, 2**33)
    wide = np.kron(x, np.ones((4, 4), dtype=int))
    compatible = np.kron(~np.eye(100, dtype=bool), np.ones((4, 4), dtype=bool))
    problem = RecordProblem(
        wide[None], compatible[None], (2**33,) * 400, tuple(np.arange(100).repeat(4).tolist()), (), 9
    )
    assert problem.nodes
    monkeypatch.setattr(witness, "MAX_NUMBERS", 2**23 + 4 * 400**2 + 100**3)
    tracemalloc.start()
    assert not proves(Closed(), problem, int(2**33 * 9 * 1.2))
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 60e6


def test_sets_are_opened_in_batches(monkeypatch):
    problem = swinging(6)
    largest = max(set_costs(problem))
    monkeypatch.setattr(witness, "NUMBERS_PER_BATCH", 1)
    assert proves(Closed(), problem, largest)
    assert not proves(Closed(), problem, largest - 1)
