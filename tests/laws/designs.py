"""The laws of designs: losses, noise and answers, against all databases of a few records."""

import copy
import inspect
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
import pytest

from designs import domain_of, possible_cells, steps_of
from fitnoise.kernel.counting import Tally, maximal
from fitnoise.kernel.designs import linear
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.exact_powers import exp_below
from laws.counting import counts_of
from refused import refused
from replayed_noise import Replay, law

DATABASES = 250
"""Largest number of databases that a law enumerates; of more it takes those in one cell and some others."""


def check_design(design, adjacency, rng, *, exact=True):
    """Check the loss, which is the largest difference of neighbours in units of the noise, and the protocol.

    exact: True if the loss of added noise is also at most that difference; for many scales it is rounded up.
    """
    domain = domain_of(design)
    check_loss(design, adjacency, rng, exact=exact)
    table = databases(design, adjacency, rng)[-1]
    answers, replay = replayed(design, adjacency, table)

    # the counts are sufficient, and the design reads all of them
    (counts,) = counts_of(design, table)
    for held in (counts, {m: counts[m] for m in maximal(counts)}):
        watched = Watched(Tally(held))
        repeated = design.draw(design.exact_answers(watched, adjacency, 2**40), Replay())
        assert watched.asked == set(counts)
        assert same(repeated, answers)

    # the bound on exact answers holds: room on the disk is made by it, before any noise
    exact_answers = design.exact_answers(Tally(counts), adjacency, 2**40)
    assert max(abs(int(v)) for y in exact_answers for v in y) <= design.magnitude(int(table.sum()))

    # how wide integers are depends on what is declared; what does not fit wraps around
    if not replay.laws:
        cell_steps = math.prod(map(sum, steps_of(design).values()))
        huge = rng.integers(0, 2**61 // domain.size // cell_steps, size=domain.size)
        (truth, _), *others = (replayed(design, adjacency, huge, records=n) for n in (2**62, 2**40, 1))
        assert all(y.dtype.kind == "O" and all(type(v) is int for v in y) for y in truth)
        for n, (noisy, _) in zip((2**40, 1), others, strict=True):
            small, _ = replayed(design, adjacency, table, records=n)
            assert [y.dtype for y in noisy] == [y.dtype for y in small]
            assert all(same(y, in_ring(z, y.dtype)) for y, z in zip(noisy, truth, strict=True))

    # the copy: the same integers, without the values computed from them
    fresh = poisoned(design).without_cache(adjacency)
    assert same(fresh, design)
    assert fresh.loss(adjacency) == design.loss(adjacency)
    assert same(replayed(fresh, adjacency, table)[0], answers)

    # for no other domain, and serialised without floats
    steps, further = steps_of(design), {} if isinstance(design, AnswerDesign) else dict(design.structure.structured)
    sizes = {a: x.size for a, x in domain.items()} | further
    design.check(sizes, steps)
    for a in set(sizes) - {"unused"}:
        for other in (sizes | {a: sizes[a] + 1}, {b: n for b, n in sizes.items() if b != a}):
            with refused("plan.made-for-another-domain"):
                design.check(other, steps)
    json.loads(json.dumps(design.ledger_detail(adjacency)), parse_float=pytest.fail)


def check_loss(design, adjacency, rng, *, exact=False):
    """For all neighbouring tables of a few records, with the same draws: nothing differs by more than what is lost."""
    tables, seed, loss = databases(design, adjacency, rng), int(rng.integers(2**31)), design.loss(adjacency)
    assert loss.by_cell == adjacency.by_cell
    counts = counts_of(design, *tables)
    runs = [replayed(design, adjacency, x, seed, counts=c) for x, c in zip(tables, counts, strict=True)]
    answers, replay = runs[0]
    for others, source in runs:
        assert [(y.dtype, y.shape) for y in others] == [(y.dtype, y.shape) for y in answers]
        assert source.requests == replay.requests
    surplus = np.array([np.maximum(x - tables, 0).sum(axis=1) for x in tables])  # records one has and the other has not
    steps = surplus + surplus.T if adjacency.by_cell else np.maximum(surplus, surplus.T)
    is_near = steps <= adjacency.records
    if adjacency.pattern:  # an upper bound, of those who all come, or go, where none is replaced
        fits, exact = np.array([fits_pattern(design, adjacency.pattern, x - tables) for x in tables]), False
        is_near &= fits & fits.T & (not adjacency.by_cell or np.minimum(surplus, surplus.T) == 0)
    if replay.laws:
        rows = [law(*run.laws[0]) for _, run in runs]
        assert len(set(rows)) > 1
        assert {len(row) for row in rows} == {design.mechanism.outputs}  # a reader knows how many there are
        bound = exp_below(loss.epsilon)
        place_of = {}
        places = [place_of.setdefault(row, i) for i, row in enumerate(rows)]
        for i, j in {(places[i], places[j]) for i, j in np.argwhere(is_near)}:
            scaled, right = bound.denominator * sum(rows[j]), bound.numerator * sum(rows[i])
            assert all(x * scaled <= y * right for x, y in zip(rows[i], rows[j], strict=True))
        return
    check_noise(design, adjacency, loss, tables, is_near, runs, exact=exact)


def fits_pattern(design, pattern, additional):
    """Return True for each row of additional records, (count, cells), that keeps to a pattern.

    Attributes outside the design's domain distinguish any two records.
    """
    domain = domain_of(design)
    cells = np.maximum(additional, 0).reshape(-1, *domain.shape)

    def largest_cells(*names):
        others = tuple(1 + i for i, a in enumerate(domain) if a not in names)
        return cells.sum(axis=others).reshape(len(additional), -1)

    fits = np.ones(len(additional), dtype=bool)
    for names, cap in pattern.caps:
        fits &= largest_cells(*names).max(axis=1) <= cap if set(names) <= set(domain) else True
    for a in set(pattern.fixed) & set(domain):
        fits &= (largest_cells(a) > 0).sum(axis=1) <= 1
    for a, n in pattern.separation:
        held = largest_cells(a) > 0 if a in domain else np.zeros((len(additional), n), dtype=bool)
        for k in range(1, n):
            fits &= ~(held[:, k:] & held[:, :-k]).any(axis=1)
    return fits


def check_noise(design, adjacency, loss, tables, is_near, runs, *, exact):
    """Check for added noise that the loss, and the loss by cell, is the largest distance of the answers."""
    kinds, scales, sizes = zip(*runs[0][1].requests, strict=True)
    assert [len(y) for y in runs[0][0]] == list(design.lengths)
    assert np.array_equal(np.repeat(scales, sizes), np.repeat(design.scales, design.portions))
    (kind,) = set(kinds)
    if kind == "gaussian":
        assert loss.precision == 1 / min(map(Fraction, scales)) ** 2  # the finest noise, which says how far δ is proven
        check_moves(design, adjacency, tables, is_near, runs, (2, loss.rho, loss.axes, loss.costs), exact=exact)
        return
    axes, epsilons = design.structure.structured, [adjacency.records * root(x) for x in design.profile()]
    check_moves(design, adjacency, tables, is_near, runs, (1, loss.epsilon, axes, epsilons), exact=exact)
    assert loss.max_cell_rho == 0
    products = [m.rows.astype(object).T @ m.rows.astype(object) for m in design.measured]
    exact = exact and (adjacency.by_cell or min(x.min() for x in products) >= 0)
    check_moves(design, adjacency, tables, is_near, runs, (2, loss.rho, loss.axes, loss.implied_rho), exact=exact)


def check_moves(design, adjacency, tables, is_near, runs, stated, *, exact):
    """Check stated costs against the distances of answers.

    stated: the power of the distance (1 for |s|/t, 2 for half its square), the cost, some axes, and the cost by cell.
    """
    power, total, axes, costs = stated
    _, scales, sizes = zip(*runs[0][1].requests, strict=True)
    rates = [1 / Fraction(s) if power == 1 else 1 / (2 * Fraction(s) ** 2) for s in scales]
    unit = math.lcm(*(x.denominator for x in rates))
    weights = np.repeat(np.array([int(x * unit) for x in rates], dtype=object), sizes)
    flat = np.array([[int(v) for y in noisy for v in y] for noisy, _ in runs], dtype=object)
    pairs = [(i, j) for i, j in np.argwhere(is_near) if i < j]
    distances = [np.abs(flat[i] - flat[j]) ** power @ weights for i, j in pairs]
    slack = Fraction(len(set(scales)) > linear.EXACT_SCALES, 2**80)

    def is_cost_right(cost, moves):
        """Return True if a cost is at least every move, and if exact at most the largest."""
        largest = Fraction(int(max(moves)), unit)
        return largest <= cost and (not exact or cost <= largest * (1 + slack))

    assert is_cost_right(total, distances)
    if not adjacency.by_cell:
        return
    # records in one cell cost the part of that cell, and others at most their costliest part
    names = list(domain_of(design))
    places = np.array(list(np.ndindex(*domain_of(design).shape)))[:, [names.index(a) for a, _ in axes]]
    shape, keys = [n for _, n in axes], [a for a, _ in axes]
    which = [{index_in(shape, y) for y in possible_cells(design, keys, x)} for x in places.tolist()]
    cell_moves = [[] for _ in costs]
    for (i, j), moves in zip(pairs, distances, strict=True):
        cells = set().union(*(which[x] for x in np.flatnonzero(tables[i] != tables[j])))
        assert moves <= max(costs[c] for c in cells) * unit
        if len(cells) == 1:
            cell_moves[cells.pop()].append(moves)
    assert all(map(is_cost_right, costs, cell_moves))


def index_in(shape, position):
    """Return the index of the joint cell, in C order."""
    return int(np.ravel_multi_index(position, shape)) if shape else 0


def databases(design, adjacency, rng):
    """All tables of a few records, (count, cells), or some of them; of a question as many as it is for."""
    cells = domain_of(design).size
    people = design.query.people if isinstance(design, AnswerDesign) else None
    max_people = people or adjacency.records
    numbers = [max_people] if adjacency.fixes_size else list(range(max_people + 1))
    if math.comb(cells + max_people, max_people) <= DATABASES:
        placed = [x for n in numbers for x in itertools.combinations_with_replacement(range(cells), n)]
    else:
        placed = [(cell,) * n for n in numbers for cell in range(cells)]
        placed += [tuple(sorted(rng.integers(cells, size=n).tolist())) for n in rng.choice(numbers, 40)]
    background = 0 if people else rng.integers(0, 9, cells)
    return background + np.stack([np.bincount(np.array(x, dtype=int), minlength=cells) for x in dict.fromkeys(placed)])


def replayed(design, adjacency, table, seed=None, records=2**40, counts=None):
    """Return noisy answers from a replayed noise source, and this source.

    The function checks that each draw was added, or is the answer.

    counts: The counts of the table for the design, where they are known.
    """
    (counts,) = counts_of(design, table) if counts is None else (counts,)
    before = {m: x.copy() for m, x in counts.items()}
    exact, replay = design.exact_answers(Tally(counts), adjacency, records), Replay(seed)
    truth = [y.astype(object) for y in exact]
    noisy = design.draw(exact, replay)
    noise = np.split(np.array(replay.drawn, dtype=object), np.cumsum([len(y) for y in noisy])[:-1])
    for y, x, z in zip(noisy, truth, noise, strict=True):
        assert same(y, in_ring(z if replay.laws else x + z, y.dtype))
    assert same(counts, before)
    return noisy, replay


def in_ring(x, dtype):
    """Whole numbers as a type holds them: as they are, or modulo 2⁶⁴."""
    return x if dtype.kind == "O" else np.array([(v + 2**63) % 2**64 - 2**63 for v in x], dtype=np.int64)


class Watched:
    """Counts that write down which of them are looked at."""

    def __init__(self, tally):
        self.tally, self.asked = tally, set()

    def __getitem__(self, margin):
        self.asked.add(margin)
        return self.tally[margin]


def root(square):
    """Return the exact root of the square of a fraction."""
    result = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    assert result**2 == square
    return result


def same(one, other):
    """Return True if two values are equal in all parts, including the types of arrays and of fields."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@cache
def cached_properties(kind):
    """Return the names of the cached properties of a class."""
    return [a for a, member in inspect.getmembers_static(kind) if isinstance(member, cached_property)]


def poisoned(design):
    """A copy of which everything that may be computed of its integers was computed before, and wrongly."""
    out = copy.deepcopy(design)
    todo = [out]
    for x in todo:
        if is_dataclass(x):
            todo += [getattr(x, f.name) for f in fields(x)]
            vars(x).update(dict.fromkeys(cached_properties(type(x)), "wrong"))
        elif isinstance(x, tuple):
            todo += x
    return out
