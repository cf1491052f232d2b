"""The bound for replaced records of trees, by pairs that meet at a place, against dense algebra over all leaves."""

import contextlib
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import fitnoise as fn
from dense import pair_law
from fitnoise.errors import PlanError
from fitnoise.mechanisms.gaussian.levels import problem as problem_of
from fitnoise.solving import meeting_pairs, trees
from fitnoise.solving.certificates import Evidence
from fitnoise.solving.sectors import decompose
from fitnoise.solving.trees import LevelProblem, MergedSectors, TreeQuotient
from refused import refused
from tolerances import EXACT

SWAP = fn.PrivacyUnit("person", neighbours=fn.Neighbours.REPLACE_ONE)


def random_problem(rng, sizes=None):
    """A tree of up to three levels, attributes of two or three values, and tables of both."""
    deep, last = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    above = [np.zeros(last, dtype=np.intp)]
    for _ in range(deep - 1):
        above.append(np.repeat(np.arange(last), rng.integers(1, 4, last)))
        last = len(above[-1])
    tree = TreeQuotient.from_parents(above)
    sizes = rng.integers(2, 4, rng.integers(0, 3)).tolist() if sizes is None else sizes
    attributes = range(len(sizes))
    further = [tuple(a for a in attributes if rng.random() < 0.6) for _ in range(rng.integers(1, 4))]
    tables = [*((int(rng.integers(0, deep + 1)), x) for x in further), (deep, tuple(attributes))]
    level = np.array([x for x, _ in tables], dtype=np.intp)
    relative = np.array([rng.uniform(0.5, 5) * math.prod(sizes[a] for a in x) ** 2 for _, x in tables])
    subsets = [x for n in range(len(sizes) + 1) for x in itertools.combinations(attributes, n)]
    sectors = []
    for outer_set in subsets:
        reaching = np.array([j for j, (_, x) in enumerate(tables) if {*outer_set} <= {*x}], dtype=np.intp)
        chi = [math.prod(-1 / (sizes[a] - 1) for a in outer_set if a in x) for x in subsets[1:]]
        costs = np.array([2.0, *(2 * (1 - x) for x in chi)])
        weight = float(math.prod(sizes[a] - 1 for a in outer_set))
        deepest = int(level[reaching].max())
        sectors.append(MergedSectors(weight, reaching, deepest, np.union1d(level, [0]), costs, not outer_set))
    looser = tuple(np.ones(len(tree.counts[x])) for x in level)
    places = (1, *map(len, above))
    homes = {x: i for i, x in enumerate(subsets)}
    return LevelProblem(tree, tuple(above), level, relative, looser, tuple(sectors), homes, np.zeros(0), places)


def random_evidence(problem, rng, deviation):
    like = meeting_pairs.start(problem)
    parts = (like.cells, like.numbers, like.kinds, like.meetings)
    p, q, kinds, meetings = (np.exp(rng.normal(size=len(x)) * deviation) for x in parts)
    return Evidence(p, q, kinds=kinds, meetings=meetings)


def dense_norm(problem, evidence):
    """Return ν by singular values, from all pairs of leaves."""
    tree, n = problem.tree, problem.sizes[-1]
    p, meeting, one_leaf = pair_law(problem, evidence)
    shares, total = problem.split(evidence.numbers / evidence.numbers.sum()), 0.0
    for sector, chi in zip(problem.sectors, meeting_pairs.agreements(problem), strict=True):
        moment = 2 * np.diag(p) * float(one_leaf @ (1 - chi))
        for kinds, pairs in meeting:
            mean = float(kinds @ chi)
            moment += np.diag(pairs.sum(axis=0) + pairs.sum(axis=1)) - mean * (pairs + pairs.T)
        rows = [np.zeros((1, n))]
        for j in sector.tables.tolist():
            level = int(problem.level[j])
            ancestors = np.arange(n)
            for k in range(len(problem.above) - 1, level - 1, -1):
                ancestors = problem.above[k][ancestors]
            weights = (shares[j] / tree.counts[level] / problem.class_targets(j))[tree.class_of[level]]
            rows.append(np.sqrt(weights)[:, None] * (ancestors == np.arange(problem.sizes[level])[:, None]))
        values, vectors = np.linalg.eigh(moment)
        assert values.min() > -EXACT
        root = vectors * np.sqrt(np.maximum(values, 0))
        total += sector.weight * np.linalg.svd(np.concatenate(rows) @ root, compute_uv=False).sum()
    return total


@pytest.mark.parametrize("seed", range(10))
def test_no_bound_is_above_the_singular_values_of_dense_matrices(seed):
    """The weights are of 250 random trees. In many, records differ in attributes of two values, and agree below 0."""
    rng = np.random.default_rng(seed)
    negative = 0
    for _ in range(25):
        problem = random_problem(rng)
        evidence = random_evidence(problem, rng, rng.choice([0.3, 1, 3]))
        dense = dense_norm(problem, evidence)
        proven = meeting_pairs.bound(problem, evidence)
        assert dense**2 * (1 - 2e-6) <= proven <= dense**2 * (1 + EXACT)
        mean = pair_law(problem, evidence)[1]
        agreement = meeting_pairs.agreements(problem)
        negative += any((agreement @ kinds).min() < 0 for kinds, _ in mean)
    assert negative >= 5


@pytest.mark.parametrize("children", [[1, 1], [1, 5], [3, 1, 1], [40, 1, 2]], ids=str)
@pytest.mark.parametrize("deviation", [0.0, 3.0, 9.0])
def test_pairs_that_differ_in_the_only_attribute_prove_what_dense_matrices_do(children, deviation):
    """Such pairs agree to −1, and the largest place has nearly all weight. The sum would lose digits."""
    above = [np.zeros(len(children), dtype=np.intp), np.repeat(np.arange(len(children)), children)]
    rng = np.random.default_rng(len(children))
    problem = random_problem(rng, [2])
    tables = [(1, (0,)), (2, ()), (2, (0,))]
    level = np.array([x for x, _ in tables], dtype=np.intp)
    tree = TreeQuotient.from_parents(above)
    sectors = [
        replace(problem.sectors[0], tables=np.arange(3), deep=2, neighbour_costs=np.array([2.0, 0.0])),
        replace(problem.sectors[1], tables=np.array([0, 2]), deep=2, neighbour_costs=np.array([2.0, 4.0])),
    ]
    looser = tuple(np.ones(len(tree.counts[x])) for x in level)
    problem = replace(
        problem, tree=tree, above=tuple(above), level=level, relative=np.array([4.0, 1.0, 8.0]), looser=looser,
        sectors=tuple(sectors), sizes=(1, *map(len, above)),
    )  # fmt: skip
    evidence = random_evidence(problem, rng, deviation)
    kinds = np.full((3, 3), 1e-12)
    kinds[:2, 2] = 1
    evidence = replace(evidence, kinds=kinds.ravel())
    dense = dense_norm(problem, evidence)
    assert dense**2 * (1 - 1e-4) <= meeting_pairs.bound(problem, evidence) <= dense**2 * (1 + EXACT)


def test_the_derivatives_are_those_of_differences(rng):
    """In directions of all weights; a place whose weight is cut by a limit that moves is left out."""
    checked = 0
    for _ in range(40):
        problem = random_problem(rng)
        evidence = random_evidence(problem, rng, 0.3)
        parts = (evidence.cells, evidence.numbers, evidence.meetings, evidence.kinds)
        cuts, step = np.cumsum([len(x) for x in parts])[:-1], 1e-5
        direction = rng.normal(size=sum(map(len, parts)))

        def value(x, problem=problem, parts=parts, cuts=cuts, direction=direction):
            moves = np.split(np.exp(x * direction), cuts)
            p, q, meetings, kinds = (a * b for a, b in zip(parts, moves, strict=True))
            return meeting_pairs.norm(problem, Evidence(p, q, kinds=kinds, meetings=meetings), meeting_pairs.ROUGH)[0]

        _, slopes = meeting_pairs.norm(problem, evidence, meeting_pairs.ROUGH, slopes=True)
        law = meeting_pairs._Reading(problem, evidence, meeting_pairs.agreements(problem))
        if any(x.any() for x in law.cut[1:]):
            continue
        checked += 1
        difference = (value(step) - value(-step)) / (2 * step)
        assert np.concatenate(slopes) @ direction == pytest.approx(difference, rel=1e-5, abs=1e-7 * value(0))
    assert checked > 20


def test_places_in_one_class_prove_what_separate_classes_do(rng):
    """A tree of equal places with one class for each level, and the same tree with one class for each place."""
    above = [np.zeros(3, dtype=np.intp), np.repeat(np.arange(3), 2)]
    merged = random_problem(rng, [])
    tree = TreeQuotient.from_parents(above)
    separate = TreeQuotient.from_parents(above, [np.arange(n, dtype=np.intp) for n in (1, 3, 6)])
    sector = replace(merged.sectors[0], tables=np.arange(2), deep=2)
    common = {"above": tuple(above), "level": np.array([1, 2]), "relative": np.array([1.0, 5.0]), "sizes": (1, 3, 6)}
    one, other = (
        replace(merged, tree=x, looser=tuple(np.ones(len(x.counts[k])) for k in (1, 2)), sectors=(sector,), **common)
        for x in (tree, separate)
    )
    assert meeting_pairs.bound(one, meeting_pairs.start(one)) == pytest.approx(
        meeting_pairs.bound(other, meeting_pairs.start(other)), rel=EXACT
    )


def two_levels(children, leaf_variance):
    geo = fn.Hierarchy(["state", "county"], [(f"{i}", f"{i}-{j}") for i, n in enumerate(children) for j in range(n)])
    tables = [fn.table("state", variance=1), fn.table("county", variance=leaf_variance)]
    publication = fn.Publication(fn.Workload(fn.Domain(geo=geo), tables), unit=SWAP)
    return problem_of(publication, decompose(publication.workload, by_level=True))


@pytest.mark.parametrize(
    ("children", "leaf_variance", "minimum"),
    [
        ((600, 601), 1, 2.99334),
        ((600, 601), 20, 1.09966),
        ((400, 500, 300), 20, 1.43281),
        ((40, 30, 1000), 20, 1.43049),
        ((2, 3, 1100), 20, 1.40237),
    ],
    ids=str,
)
def test_the_search_proves_what_it_proved(children, leaf_variance, minimum):
    """Before, pairs drawn independently proved 2.2450, 0.5981, 0.9769, 0.3046 and 0.0816."""
    problem = two_levels(children, leaf_variance)
    assert meeting_pairs.bound(problem, meeting_pairs.ascend(problem, trees.ascend(problem, 0, 60))) >= minimum


def test_pairs_that_meet_prove_at_least_what_independent_pairs_do(rng):
    """The search proves no less than the one over pairs drawn independently, of one place or of all."""
    for _ in range(10):
        problem = random_problem(rng)
        unrelated = trees.ascend(problem, 0, 60)
        independent = trees.root(problem, unrelated, trees.FINE).lower
        assert meeting_pairs.bound(problem, meeting_pairs.ascend(problem, unrelated)) >= independent * (1 - 2e-3)


def test_the_search_proves_no_less_than_independent_pairs_for_many_similar_places():
    """Detects a search that ends far from weights that are unrelated."""
    rng = np.random.default_rng(2)
    children = np.maximum(1, np.round(rng.lognormal(math.log(25), 0.8, 30))).astype(int).tolist()
    rows = [(f"{i}", f"{i}-{j}") for i, n in enumerate(children) for j in range(n)]
    geo = fn.Hierarchy(["state", "county"], rows)
    domain = fn.Domain(geo=geo, age=fn.Ordered(0, 17), race=fn.Ordered(0, 6))
    tables = [
        fn.table("state", "age", "race", variance=9),
        fn.table("county", variance=1),
        fn.table("county", "age", variance=4),
        fn.table("county", "race", variance=3),
    ]
    publication = fn.Publication(fn.Workload(domain, tables), unit=SWAP)
    problem = problem_of(publication, decompose(publication.workload, by_level=True))
    unrelated = trees.ascend(problem, 0, 60)
    independent = trees.root(problem, unrelated, trees.FINE).lower
    assert meeting_pairs.bound(problem, meeting_pairs.ascend(problem, unrelated)) >= independent


def test_weights_that_prove_nothing_are_refused():
    problem = two_levels((2, 3), 4)
    evidence = meeting_pairs.start(problem)
    for field, code in (("cells", "tree"), ("numbers", "tree"), ("meetings", "tree"), ("kinds", "neighbour")):
        weights = getattr(evidence, field)
        for odd in (weights[:-1], -weights, np.where(np.arange(len(weights)) == 0, 1e-300, weights), weights * np.inf):
            with refused(f"plan.{code}-weights-unusable"):
                meeting_pairs.bound(problem, replace(evidence, **{field: odd}))
    for field in ("kinds", "meetings"):
        with refused("plan.neighbour-weights-unusable"):
            meeting_pairs.bound(problem, replace(evidence, **{field: None}))


def test_weights_of_any_size_are_read_or_refused():
    """Detects a logarithm or a square of numbers that doubles cannot hold."""
    problem = two_levels((2, 3), 4)
    evidence = meeting_pairs.start(problem)
    proven = meeting_pairs.bound(problem, evidence)
    for field in ("cells", "numbers", "meetings", "kinds"):
        weights = getattr(evidence, field)
        for factor in (1e-290, 1e-155, 1e155, 1e290):
            scaled = replace(evidence, **{field: weights * factor})
            assert meeting_pairs.bound(problem, scaled) == pytest.approx(proven, rel=1e-9), (field, factor)
        for index, factor in itertools.product(range(len(weights)), (1e-18, 1e-17, 1e17, 1e18)):
            odd = replace(evidence, **{field: np.where(np.arange(len(weights)) == index, weights * factor, weights)})
            with contextlib.suppress(PlanError):
                assert 0 <= meeting_pairs.bound(problem, odd) <= dense_norm(problem, odd) ** 2 * (1 + EXACT)
