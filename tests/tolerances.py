"""The one tolerance policy: minimisers are never compared, only values, gaps and residuals."""

GAP = 1e-6
"""Relative gap a plan must certify."""
EXACT = 1e-9
"""Two float64 computations of the same number, well conditioned."""
LOOSE = 1e-7
"""Relative tolerance of results that pass through a pseudo-inverse."""
SIGNIFICANCE = 1e-6
"""Probability that one statistical test fails although nothing is wrong."""


def as_often_as(outcomes, probability, slack=0.0):
    """Return True if independent trials of this probability, ± slack, may give each share of found, (trials, …).

    Exact binomial quantiles: a normal approximation of few misses (4 expected of 4,000 at 99.9 %) fails once in 50,000.
    """
    from scipy import stats

    trials, hits = len(outcomes), outcomes.sum(axis=0)
    each = SIGNIFICANCE / 2 / hits.size
    low, high = (
        stats.binom.ppf(each, trials, probability - slack),
        stats.binom.isf(each, trials, min(probability + slack, 1)),
    )
    return bool(((low <= hits) & (hits <= high)).all())
