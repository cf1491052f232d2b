"""Margins that contain others: against definitions by brute force, and on sets too large for it."""

import itertools
import math
import os

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fitnoise.kernel.arrays import physical_memory
from fitnoise.kernel.counting import Tally, margins, maximal
from refused import refused

SIZES = dict(zip("abcdef", (2, 3, 1, 2, 4, 1), strict=True))
SUBSETS = [m for k in range(len(SIZES) + 1) for m in itertools.combinations(SIZES, k)]
ORDERED = [p for m in SUBSETS if len(m) <= 3 for p in itertools.permutations(m)]
SETS = st.sets(st.sampled_from(SUBSETS) | st.sampled_from(ORDERED), max_size=12)


@given(SETS)
@example(set())
@example({()})
@example({("a", "b"), ("b", "a"), ("b",), ()})
def test_maximal_margins_are_those_that_no_larger_one_holds(needed):
    """Detects a margin lost, kept next to one that holds it, or reordered twins taken for each other's holder."""
    assert maximal(needed) == sorted(m for m in needed if not any(set(m) < set(other) for other in needed))


def test_maximal_margins_of_many_and_of_wide_ones():
    """Detects the enumeration of subsets, which would not end, and comparing all with all, which would take an hour."""
    names = [f"q{i:02}" for i in range(100)]
    triples = list(itertools.combinations(names, 3))
    below = [m for k in range(3) for m in itertools.combinations(names, k)]
    assert maximal({*triples, *below}) == sorted(triples)
    wide, other = tuple(names[:60]), tuple(names[1:61])
    outside = {m for m in below if len(m) == 2 and not (set(m) <= set(wide) or set(m) <= set(other))}
    assert maximal({wide, other, wide[:59], *below}) == sorted({wide, other, *outside})


def table(margin, rng):
    return rng.integers(0, 100, [SIZES[a] for a in margin])


@pytest.mark.no_cover
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from(ORDERED), unique=True, max_size=4))
def test_a_tally_sums_down_from_the_smallest_holder(seed, counted):
    """The tables contradict each other on purpose: detects a sum from another holder than the first of the smallest."""
    rng = np.random.default_rng(seed)
    counts = {m: table(m, rng) for m in [*counted, tuple(SIZES)]}
    tally = Tally(counts)
    for margin in ORDERED:
        holder = min((m for m in counts if set(margin) <= set(m)), key=lambda m: counts[m].size)
        holder = margin if margin in counts else holder
        axes = [a for a in holder if a in margin]
        down = counts[holder].sum(axis=tuple(i for i, a in enumerate(holder) if a not in margin))
        for got in (tally[margin], Tally(counts)[margin]):
            assert got.dtype == np.int64
            np.testing.assert_array_equal(got, np.transpose(down, [axes.index(a) for a in margin]))


def test_what_no_counted_margin_holds_is_an_error():
    counts = {("a", "b"): np.ones((2, 3), dtype=np.int64)}
    for margin in [("c",), ("a", "c"), ("a", "b", "c")]:
        with pytest.raises(KeyError, match="no counted margin holds"):
            Tally(counts)[margin]
    with pytest.raises(KeyError, match="no counted margin holds"):
        Tally({})[()]
    assert Tally(counts)["a", "b"] is counts["a", "b"]
    assert Tally(counts)[()] == 6


def test_blank_counts_are_separate_and_in_one_piece():
    counts = margins.blank(SUBSETS, SIZES)
    assert list(counts) == SUBSETS
    for i, m in enumerate(SUBSETS):
        assert counts[m].shape == tuple(SIZES[a] for a in m)
        assert counts[m].dtype == np.int64
        assert counts[m].flags.c_contiguous
        assert not counts[m].any()
        counts[m] += i
    assert all((counts[m] == i).all() for i, m in enumerate(SUBSETS))
    assert len({id(c.base) for c in counts.values()}) == 1
    assert margins.blank([], SIZES) == {}


@pytest.mark.parametrize("cells", [10**13, 2**61, 2**70])
@pytest.mark.parametrize("memory", [2**80, 10**10])
def test_counts_that_exceed_the_memory_are_refused(cells, memory, monkeypatch):
    """However much the machine says it has: detects a failure far from its cause, or none until all is read."""
    monkeypatch.setattr(margins, "physical_memory", lambda: memory)
    with refused("data.counts-exceed-memory") as caught:
        margins.blank([("a",)], {"a": cells})
    assert ("10.0 GB" in str(caught.value)) == (memory == 10**10)
    assert caught.value.__cause__ is None


def test_the_memory_of_the_machine_is_stated_where_known(monkeypatch):
    if hasattr(os, "sysconf"):
        assert physical_memory() > 2**28

    def unknown(_):
        raise ValueError

    monkeypatch.setattr(os, "sysconf", unknown, raising=False)
    assert physical_memory() == 2**34
    monkeypatch.delattr(os, "sysconf")
    assert physical_memory() == 2**34
    assert margins.blank([("a", "b")], SIZES)["a", "b"].size == math.prod((2, 3))
