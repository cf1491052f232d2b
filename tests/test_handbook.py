"""The formulas of survey handbooks: known values where errors are independent, and the table of the how-to guide."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from test_site import DOCS

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import handbook


def test_the_formula_for_shares_is_that_for_ratios_where_it_has_no_root():
    """√(3² − ½² 4²) is √5; of 30 in 40, 3² − ¾² 4² is 0; of all, 3² + 4² is 5²."""
    margins = handbook.handbook(np.array([20.0, 30.0, 40.0]), 40.0, (3.0, 4.0))
    np.testing.assert_allclose(margins, [5**0.5 / 40, 0, 5 / 40])


def test_ours_hold_where_errors_are_independent_and_where_they_are_not():
    """20,000 draws: ten times the standard error of 0.0015 is looked for."""
    correlated = handbook.of_the_demo()
    independent = handbook.Noise(15, 20, 20, np.diag([(15 / 1.96) ** 2, (20 / 1.96) ** 2]))
    for noise, part in ((correlated, 650), (correlated, 1150), (independent, 160), (independent, 650)):
        assert handbook.held(noise, part, 1600, 20_000)[2][0] == pytest.approx(0.95, abs=0.015)


def test_the_table_on_handbooks_holds_their_coverage():
    """The margins of a total are exact; 20,000 draws give the coverage to a point."""
    noise = handbook.of_the_demo()
    page = " ".join((DOCS / "howto" / "compute_shares_and_growth.md").read_text(encoding="utf-8").split())
    assert f"| margin of a state's total | ± {noise.by_rule:.1f} | ± {noise.total:.1f} |" in page
    assert f"margin of the total is {noise.by_rule / noise.total:.2f} times as wide as the true one" in page
    published, by_rule, _ = (rate for rate, _ in handbook.held(noise, 650, 1600, 20_000))
    lowest_published = handbook.held(noise, 0.72 * 1600, 1600, 20_000)[0][0]
    lowest_by_rule = handbook.held(noise, 0.49 * 1600, 1600, 20_000)[1][0]
    percents = [int(x) for x in re.findall(r"\| (\d+) % \| 95 % \|", page)]
    coverage = [published, by_rule, lowest_published, lowest_by_rule]
    assert percents == pytest.approx([100 * x for x in coverage], abs=1)
