"""What is said of the formulas of handbooks: by hand where errors are independent, and as it is told of the demo."""

import sys
from pathlib import Path

import numpy as np
import pytest

from test_site import DOCS

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import handbook


def test_the_formula_for_shares_is_that_for_ratios_where_it_has_no_root():
    """√(3² − ½² 4²) is √5; of 30 in 40, 3² − ¾² 4² is 0; of all, 3² + 4² is 5²."""
    found = handbook.handbook(np.array([20.0, 30.0, 40.0]), 40.0, (3.0, 4.0))
    np.testing.assert_allclose(found, [5**0.5 / 40, 0, 5 / 40])


def test_ours_hold_where_errors_are_independent_and_where_they_are_not():
    """20,000 draws: ten times the standard error of 0.0015 is looked for."""
    together = handbook.of_the_demo()
    alone = handbook.Noise(15, 20, 20, np.diag([(15 / 1.96) ** 2, (20 / 1.96) ** 2]))
    for noise, part in ((together, 650), (together, 1150), (alone, 160), (alone, 650)):
        assert handbook.held(noise, part, 1600, 20_000)[2][0] == pytest.approx(0.95, abs=0.015)


def test_what_pages_say_of_them_is_so():
    """Both margins of a total exactly; how often intervals hold to a point, which 20,000 draws tell."""
    noise = handbook.of_the_demo()
    asking = " ".join((DOCS / "asking.md").read_text(encoding="utf-8").split())
    told = f"gives ± {noise.by_rule:.1f} for a state's total, and it is ± {noise.total:.1f}: the margin is"
    assert f"{told} {noise.by_rule / noise.total:.2f} times as wide as is true" in asking
    theirs, by_rule, _ = handbook.held(noise, 650, 1600, 20_000)
    assert "For 650 of 1,600 it holds 91 % of the time with the total's own margin, and 77 % with ± 30.0;" in asking
    assert (theirs[0], by_rule[0]) == pytest.approx((0.91, 0.77), abs=0.01)
    assert handbook.held(noise, 0.72 * 1600, 1600, 20_000)[0][0] < 0.28
    assert handbook.held(noise, 0.49 * 1600, 1600, 20_000)[1][0] < 0.34
