"""The one tolerance policy: minimisers are never compared, only values, gaps and residuals."""

GAP = 1e-6
"""Relative gap a plan must certify."""
EXACT = 1e-9
"""Two float64 computations of the same number, well conditioned."""
LOOSE = 1e-7
"""The same through a pseudo-inverse."""
SIGNIFICANCE = 1e-6
"""Chance that a statistical test fails although nothing is wrong, per test."""
