"""Operations on arrays that several packages use."""

import numpy as np
import pytest

from fitnoise.kernel.arrays import equal_rows
from fitnoise.kernel.designs.implicit_mechanisms import discounted
from tolerances import EXACT


@pytest.mark.parametrize("step", [1, 2, 3, 7, 8, 40])
@pytest.mark.parametrize("factor", [0.0, 1e-80, 0.3, 0.999, 1 - 2.0**-40])
@pytest.mark.parametrize("shape", [(1,), (8,), (23,), (23, 3)])
def test_discounted_sums_solve_their_recurrence(rng, shape, factor, step):
    values = rng.random(shape)
    original = values.copy()
    sums = discounted(values, factor, step)
    expected = values.copy()
    for i in reversed(range(max(0, len(values) - step))):
        expected[i] += factor * expected[i + step]
    assert np.array_equal(values, original)
    assert sums == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("shape", [(0, 2), (1, 2), (9, 1), (40, 2), (5, 0)])
def test_equal_rows_are_grouped_and_each_row_appears_once(rng, shape):
    rows = rng.integers(0, 3, shape)
    groups = equal_rows(rows)
    assert [row for row, _ in groups] == sorted(set(map(tuple, rows.tolist())))
    assert sorted(i for _, places in groups for i in places) == list(range(len(rows)))
    assert all(tuple(rows[i]) == row for row, places in groups for i in places)
