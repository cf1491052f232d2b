"""The counter of coded rows, against the definition record by record, and the rows that it refuses."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitnoise.kernel.codings import DROPPED, OUTSIDE, REFUSED, Codes, CodingWithMissing, Steps
from fitnoise.kernel.counting._base import Lost, ProgressFilter
from fitnoise.kernel.counting.persons import ID_KEY, PersonSelector
from fitnoise.kernel.counting.tally import Batch, PersonRule, persons_left_out, tally
from fitnoise.kernel.units import NO_PATTERN, SHARES_PER_RECORD
from refused import refused

CODINGS = {
    "a": CodingWithMissing(Codes(("x", "y")), (("z",),), absent=DROPPED, outside=REFUSED),
    "b": Codes((1, 2)),
}

MARGINS = [("a", "b"), ("b",), ()]


@dataclass
class ListReader:
    """A reader of given batches."""

    given_batches: list
    closed: bool = False

    def batches(self, attributes):
        try:
            yield from self.given_batches
        finally:
            self.closed = True


def batch(records, *, persons=False):
    """One batch of records (cell of a, cell of b, id)."""
    columns = np.array([r[:2] for r in records], dtype=np.int32).reshape(-1, 2).T
    return Batch(
        dict(zip(CODINGS, columns, strict=True)),
        len(records),
        [r[2] for r in records] if persons else None,
    )


def count(batches, rule=None, *, drop=False, lost=None, margins=MARGINS, codings=CODINGS):
    reader = ListReader(batches)
    try:
        return tally(reader, codings, margins, ProgressFilter(None), drop=drop, rule=rule, lost=lost)
    finally:
        assert reader.closed


def table(margin, counted):
    """Counts over a margin of records (cells, number)."""
    out = np.zeros([CODINGS[a].size for a in margin], dtype=np.int64)
    for cells, n in counted:
        out[tuple(cells["ab".index(a)] for a in margin)] += n
    return out


records = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, DROPPED, REFUSED]),
        st.sampled_from([0, 1, 1, OUTSIDE]),
        st.sampled_from(
            [b"p", b"q", "\u00e1".encode(), "a\u0301".encode(), b"", b"1", b"1.0", b"x" * 1024, b"x" * 1025]
        ),
    ),
    max_size=12,
)


@given(records, records, st.booleans())
def test_rows_count_by_the_definition(first_records, second_records, drop):
    lost = Lost()
    counts, outside = count([batch(r) for r in (first_records, second_records)], drop=drop, lost=lost)
    read_records = first_records + second_records
    removed = [r for r in read_records if {DROPPED, *([OUTSIDE] if drop else [])} & {*r[:2]}]
    remaining = [r for r in read_records if r not in removed]
    assert (lost.records, lost.dropped) == (len(read_records), len(removed))
    assert outside == {"a": sum(r[0] < 0 for r in remaining), "b": sum(r[1] < 0 for r in remaining)}
    if not any(outside.values()):
        for m in MARGINS:
            np.testing.assert_array_equal(counts[m], table(m, [(r, 1) for r in remaining]))


@pytest.mark.parametrize("limit", [1, 2, None])
@given(first_records=records, second_records=records, drop=st.booleans())
def test_persons_count_by_the_rule(limit, first_records, second_records, drop):
    rule, lost = PersonRule(["a", "b"], limit), Lost()
    batches = [batch(r, persons=True) for r in (first_records, second_records)]
    counts, outside = count(batches, rule, drop=drop, lost=lost, margins=[*MARGINS, (ID_KEY,)])
    read_records = [(*r[:2], r[2], 0 if 0 < len(r[2]) <= 1024 else OUTSIDE) for r in first_records + second_records]
    persons = PersonSelector(limit, "ab", NO_PATTERN)
    for a, b, name, id_cell in read_records:
        if min(a, b, id_cell) >= 0:
            persons.add([name], [(a, b)])
    counted = [x for part in persons.iter_counted() for x in part]
    for m in MARGINS:
        np.testing.assert_array_equal(counts[m], table(m, counted))
    np.testing.assert_array_equal(counts[ID_KEY,], [sum(n for _, n in counted)])
    removed = [r for r in read_records if {DROPPED, *([OUTSIDE] if drop else [])} & {r[0], r[1], r[3]}]
    remaining = [r for r in read_records if r not in removed]
    assert (lost.records, lost.dropped) == (len(read_records), len(removed))
    assert outside == {name: sum(r[i] < 0 for r in remaining) for name, i in (("a", 0), ("b", 1), (ID_KEY, 3))}
    if limit is not None:
        assert persons_left_out(ListReader(batches), CODINGS, rule) == persons.left_out()


def test_shares_of_a_person_add_up_to_one_record():
    counts, _ = count([batch([(0, 0, b"p"), (1, 1, b"p"), (1, 1, b"p")], persons=True)], PersonRule(["a", "b"], None))
    assert counts[()] == 3 * (SHARES_PER_RECORD // 3)


def test_merged_amounts_come_in_steps_from_zero_and_are_cut_after_the_sum():
    codings = {"a": Codes(("x",)), "z": CodingWithMissing(Steps(Fraction(-2), Fraction(30), Fraction(1, 2)), ((-3,),))}
    rule = PersonRule(["a", "z"], 1, merge=("z",))
    zero = 2**31
    cells = {"a": np.zeros(3, dtype=np.int32), "z": np.array([zero + 5, zero + 80, zero - 20])}
    counts, outside = count([Batch(cells, 3, [b"p"] * 3)], rule, margins=[("z",)], codings=codings)
    # 5 + 80 − 20 steps of a half are 32.5, which is cut to 30: the upper end, 64 steps above the lower one
    np.testing.assert_array_equal(counts["z",], [1 - 64, 64, 0])
    assert not any(outside.values())


COLUMN = np.array([0, 1])

WRONG = {
    "a column is missing": Batch({"a": COLUMN}, 2),
    "a column is too many": Batch({"a": COLUMN, "b": COLUMN, "c": COLUMN}, 2),
    "columns differ in length": Batch({"a": COLUMN, "b": COLUMN[:1]}, 2),
    "there are fewer records": Batch({"a": COLUMN, "b": COLUMN}, 1),
    "a cell is beyond the last": Batch({"a": COLUMN, "b": COLUMN + 1}, 2),
    "a number stands for nothing": Batch({"a": COLUMN, "b": COLUMN - 4}, 2),
    "cells are no integers": Batch({"a": COLUMN, "b": COLUMN * 1.0}, 2),
    "a column has two axes": Batch({"a": np.zeros((2, 3), int), "b": COLUMN}, 2),
    "a column has an axis of 1": Batch({"a": COLUMN[:, None], "b": COLUMN}, 2),
    "a column is a list": Batch({"a": COLUMN.tolist(), "b": COLUMN}, 2),
    "a column is masked": Batch({"a": np.ma.masked_array(COLUMN, [True, False]), "b": COLUMN}, 2),
    "a coding that drops nothing drops": Batch({"a": COLUMN, "b": np.array([0, DROPPED])}, 2),
    "a coding with its own actions leaves them to the source": Batch({"a": np.array([0, OUTSIDE]), "b": COLUMN}, 2),
    "a coding that refuses nothing refuses": Batch({"a": COLUMN, "b": np.array([0, REFUSED])}, 2),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("rule", [None, PersonRule(["a", "b"], 1)])
def test_rows_that_are_no_records_are_refused(name, rule):
    wrong = WRONG[name]
    ids = None if rule is None else [b"p"] * wrong.records
    with refused("data.rows-not-records"):
        count([Batch(wrong.cells, wrong.records, ids)], rule)


WRONG_IDS = {
    "none": None,
    "too few": [b"p"],
    "a text among bytes": ["p", b"p"],
    "texts": ["p", "p"],
    "no id": [b"p", None],
    "numbers": [1, 2],
    "tuples": [(1,), (1,)],
    "views of bytes": [memoryview(b"p")] * 2,
    "an array": np.array([b"p", b"q"]),
    "a mapping": {b"p": 1, b"q": 2},
}


@pytest.mark.parametrize("name", WRONG_IDS)
def test_rows_without_an_id_for_each_record_are_refused(name):
    with refused("data.rows-not-records"):
        count([Batch({"a": COLUMN, "b": COLUMN}, 2, WRONG_IDS[name])], PersonRule(["a", "b"], 1))


def test_no_records_count_as_none():
    counts, outside = count([batch([], persons=True)], PersonRule(["a", "b"], 1))
    assert all(not x.any() for x in counts.values())
    assert not any(outside.values())
