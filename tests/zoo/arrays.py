"""Random matrices of the zoo, drawn in one order: a new one is drawn after all others."""

import numpy as np

RNG = np.random.default_rng(20)

INTEGERS = RNG.integers(-3, 4, size=(4, 5))

REALS = RNG.normal(size=(3, 6))

LOW_RANK_INTEGERS = RNG.integers(-2, 3, size=(6, 2)) @ RNG.integers(-2, 3, size=(2, 5))

LOW_RANK_REALS = RNG.normal(size=(5, 3)) @ RNG.normal(size=(3, 7))

SIGNS = RNG.choice([-1, 1], size=(9, 6))

FULL_RANK_REALS = RNG.normal(size=(7, 4))

POSITIVE_INTEGERS = RNG.integers(1, 9, size=(6, 8))
