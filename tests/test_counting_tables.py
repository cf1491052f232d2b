"""Counting in tables, against one plain count per margin: for any margins, and any order of the records."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fitnoise.engines.joint_tables import joint_tables
from fitnoise.kernel.counting import joint_counts
from fitnoise.kernel.counting._base import ProgressFilter
from fitnoise.kernel.counting.joint_counts import JointMargin, MarginCounts


def count_directly(cells, sizes, margins, records):
    """One count per margin, cell by cell of the definition."""
    out = {}
    for m in margins:
        flat = np.zeros(records, dtype=np.int64)
        for a in m:
            flat = flat * sizes[a] + cells[a]
        shape = tuple(sizes[a] for a in m)
        out[m] = np.bincount(flat, minlength=math.prod(shape)).reshape(shape)
    return out


def tabulated(cells, sizes, margins, records, chunks, progress=None):
    margin_counts = MarginCounts(margins, sizes, ProgressFilter(progress), choose=joint_tables)
    start = 0
    for n in chunks:
        stop = min(start + n, records)
        margin_counts.add({a: c[start:stop] for a, c in cells.items()}, stop - start, stop / max(1, records))
        start = stop
    assert start == records
    return margin_counts.finish()


def check(sizes, margins, records, rng, chunks=None):
    cells = {a: rng.integers(0, s, records).astype(np.int32) for a, s in sizes.items()}
    got = tabulated(cells, sizes, margins, records, chunks or [records])
    expected = count_directly(cells, sizes, margins, records)
    assert got.keys() == expected.keys()
    for m, table in expected.items():
        assert got[m].dtype == np.int64
        assert got[m].flags.c_contiguous
        np.testing.assert_array_equal(got[m], table, err_msg=str(m))


@st.composite
def questions(draw):
    """Sizes, margins in any order (some within others, some twice in another order), how the records come in."""
    sizes = dict(zip("abcdefgh", draw(st.lists(st.integers(1, 5), min_size=1, max_size=8)), strict=False))
    one = st.lists(st.sampled_from(sorted(sizes)), unique=True, max_size=8).map(tuple)
    margins = draw(st.lists(one, min_size=1, max_size=20, unique=True))
    chunks = draw(st.lists(st.integers(0, 60), max_size=5))
    return sizes, margins, chunks


@pytest.mark.no_cover
@settings(max_examples=150)
@given(questions(), st.sampled_from([1, 7, 50, 10**6]), st.sampled_from([1, 7, 2**16]), st.integers(0, 2**32 - 1))
@example(({"a": 1, "b": 1}, [("b", "a"), ("a", "b"), (), ("a",)], [3]), 1, 1, 0)
@example(({"a": 2, "b": 3}, [("b", "a"), ("a", "b")], [100]), 10**6, 2**16, 0)
def test_any_margins_are_counted_as_one_by_one(question, batch, block, seed):
    """Detects a record lost or counted twice at the border of a chunk, batch or block.

    Also axes mixed up in a joint table, and a margin left out because others hold it or it is requested in two orders.
    """
    sizes, margins, chunks = question
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_counts, "BATCH_BYTES", 2 * batch * len(sizes))
        patch.setattr(joint_counts, "_BLOCK", block)
        check(sizes, margins, sum(chunks), np.random.default_rng(seed), chunks)


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("batch", [1, 7, 10**6])
@pytest.mark.parametrize("records", [0, 40, 3000])
def test_all_pairs_and_triples_of_twelve_attributes(width, batch, records, monkeypatch, rng):
    """The check for as many margins as people request; records come one by one, by sevens and all at once."""
    monkeypatch.setattr(joint_counts, "BATCH_BYTES", 2 * 12 * batch)
    sizes = {f"q{i}": 1 + i % 5 for i in range(12)}
    records = min(records, 40 * batch)
    check(sizes, list(itertools.combinations(sizes, width)), records, rng, [batch] * (records // batch + 1))


@pytest.mark.parametrize("size", [2**15, 2**16 - 1, 2**16, 2**16 + 1, 100_000])
@pytest.mark.parametrize("other", [1, 2])
def test_tables_about_as_large_as_a_short_integer_counts(size, other, rng):
    """Detects a place or a size that does not fit the integers it is worked out in."""
    sizes = {"a": other, "b": size, "c": 3}
    check(sizes, [("a", "b"), ("b", "a"), ("b", "c"), ("a", "c"), ("b",)], 5000, rng)
    last = {a: np.array([s - 1]) for a, s in sizes.items()}
    assert tabulated(last, sizes, [("a", "b"), ("b", "c")], 1, [1])["b", "c"][size - 1, 2] == 1


def test_places_fit_the_integers_they_are_worked_out_in():
    for size, kind in [
        (1, "u1"),
        (2**8 - 1, "u1"),
        (2**8, "u2"),
        (2**16 - 1, "u2"),
        (2**16, "u4"),
        (2**32 - 1, "u4"),
        (2**32, "u8"),
    ]:
        assert joint_counts._unsigned(size) == np.dtype(kind)
        assert np.array([size], dtype=kind) == size


@pytest.mark.parametrize("kind", ["u4", "u8"])
def test_the_integers_in_which_places_are_worked_out_change_no_count(kind, monkeypatch, rng):
    """Stands in for tables of 2^32 cells and more, which take 34 GB."""
    monkeypatch.setattr(joint_counts, "_unsigned", lambda _: np.dtype(kind))
    check({"a": 3, "b": 2, "c": 5}, [("a", "b"), ("c", "a", "b"), ("c",), ()], 1000, rng, [400, 600])


QUESTIONS = {
    "all pairs of 20 of ten values": ([10] * 20, 2, 50),
    "all pairs of 40 yes/no": ([2] * 40, 2, 40),
    "all triples of 15, mixed": ([2, 3, 10, 1, 7] * 3, 3, 200),
    "all sets of four of 10": ([2] * 10, 4, 30),
    "all sets of seven of 9": ([2] * 9, 7, 36),
}


@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("records", [0, 100, 10**5, 10**7])
def test_every_margin_has_one_table_that_holds_it(kind, records):
    """Detects margins without a table or with two, tables that outgrow the working memory, and, for 100,000 records,
    that margins no longer share tables.
    """
    shape, width, max_tables = QUESTIONS[kind]
    sizes = {f"q{i}": s for i, s in enumerate(shape)}
    margins = [*itertools.combinations(sizes, width), tuple(sizes), (), ("q1", "q0")]
    tables = joint_tables(margins, sizes, records)
    assert tables == joint_tables(margins, sizes, records)
    covered = [m for t in tables for m in t.members] + [t.attributes for t in tables if t.margins]
    assert sorted(covered) == sorted(margins)
    for t in tables:
        assert all(set(m) <= set(t.attributes) for m in t.members)
        assert len(set(t.attributes)) == len(t.attributes)
        assert t.margins or (math.prod(sizes[a] for a in t.attributes) <= records and len(t.attributes) <= 12)
    if records == 10**5:
        assert len(tables) <= max_tables + 3


def test_how_much_is_done_rises_by_hundredths_to_one():
    """Detects a figure that falls, that claims the end before it, or that is reported for every table."""
    sizes = {f"q{i}": 2 for i in range(30)}
    cells = {a: np.zeros(500, dtype=np.int16) for a in sizes}
    fractions = []
    tabulated(cells, sizes, list(itertools.combinations(sizes, 2)), 500, [100] * 5, fractions.append)
    assert 3 < len(fractions) < 100
    assert all(b - a > 0.0099 for a, b in itertools.pairwise(fractions))
    assert 0 < fractions[0] < 0.2
    assert fractions[-1] < 1  # 1 is left to the caller that finishes

    gauge = ProgressFilter(fractions.append)
    fractions.clear()
    for x in (-0.01, 0, 0.001, 0.5, 0.2, 0.504, 0.51, 1, 7, 1):
        gauge(x)
    gauge.finish()
    assert fractions == [0.5, 0.51, 0.99, 1]
    quiet = ProgressFilter(None)
    quiet(0.5)
    quiet.finish()


@pytest.mark.parametrize(
    "tables",
    [
        [],
        [JointMargin(("a",), True, ())],
        [JointMargin(("a", "b"), True, (("a",),)), JointMargin(("a",), True, ())],
        [JointMargin(("a",), True, (("a", "b"),))],
        [JointMargin(("a", "a"), False, (("a",),)), JointMargin(("a", "b"), True, ())],
    ],
    ids=["none", "one missing", "one twice", "not inside", "an axis twice"],
)
def test_tables_that_do_not_hold_each_margin_once_are_refused(tables):
    counts = MarginCounts([("a",), ("a", "b")], {"a": 2, "b": 3}, ProgressFilter(None), choose=lambda *_: tables)
    counts.add({"a": np.array([1]), "b": np.array([2])}, 1)
    with pytest.raises(ValueError, match="each margin once"):
        counts.finish()


def test_without_a_choice_each_margin_has_a_table(rng):
    sizes = {"a": 2, "b": 3, "c": 4}
    margins = [("a",), ("c", "a"), ("a", "b", "c"), ()]
    cells = {a: rng.integers(0, n, 100).astype(np.int32) for a, n in sizes.items()}
    counts = MarginCounts(margins, sizes, ProgressFilter(None))
    counts.add(cells, 100)
    for m, table in count_directly(cells, sizes, margins, 100).items():
        np.testing.assert_array_equal(counts.finish()[m], table)
