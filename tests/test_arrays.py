"""What several rooms do with arrays."""

import numpy as np
import pytest

from fitnoise.kernel.arrays import discounted
from tolerances import EXACT


@pytest.mark.parametrize("step", [1, 2, 3, 7, 8, 40])
@pytest.mark.parametrize("factor", [0.0, 1e-80, 0.3, 0.999, 1 - 2.0**-40])
@pytest.mark.parametrize("shape", [(1,), (8,), (23,), (23, 3)])
def test_discounted_sums_solve_their_recurrence(rng, shape, factor, step):
    values = rng.random(shape)
    given = values.copy()
    found = discounted(values, factor, step)
    expected = values.copy()
    for i in reversed(range(max(0, len(values) - step))):
        expected[i] += factor * expected[i + step]
    assert np.array_equal(values, given)
    assert found == pytest.approx(expected, rel=EXACT)
