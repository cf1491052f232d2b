"""Workloads with known optima, as the fit-for-use paper and its successors describe them."""

import itertools

import numpy as np

import fitnoise as fn
from zoo import lower


def ranges(d, seed=0):
    rng = np.random.default_rng(seed)
    w = np.zeros((2 * d, d), dtype=int)
    for row in w:
        start, last = sorted(rng.integers(0, d, 2))
        row[start : last + 1] = 1
    return w


def signs(d, seed=0):
    return np.where(np.random.default_rng(seed).random((2 * d, d)) < 0.2, 1, -1)


def low_rank(d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(d // 2, d // 2)) @ rng.normal(size=(d // 2, d))


def marginals(t):
    """All 1- and 2-way marginals of a t × t × t cube, as a dense matrix."""
    one, eye = np.ones((1, t), dtype=int), np.eye(t, dtype=int)
    chosen = [s for k in (1, 2) for s in itertools.combinations(range(3), k)]
    return np.concatenate(
        [np.kron(np.kron(*(eye if a in s else one for a in (0, 1))), eye if 2 in s else one) for s in chosen]
    )


def pl94_matrix():
    """2 × 2 × 63: two 2-way tables, 63 race totals, and every cell (section 7.3)."""
    one, two, race = np.ones((1, 63), dtype=int), np.ones((1, 2), dtype=int), np.eye(63, dtype=int)
    kron = lambda a, b, c: np.kron(np.kron(a, b), c)  # noqa: E731
    eye = np.eye(2, dtype=int)
    return np.concatenate([kron(eye, two, one), kron(two, eye, one), kron(two, two, race), np.eye(252, dtype=int)])


def age_pyramids():
    """Male, female and all, each with 116 prefixes and the adults (section 7.6)."""
    adults = np.zeros((1, 116), dtype=int)
    adults[0, 18:] = 1
    block = np.concatenate([lower(116), adults])
    return np.concatenate([np.kron(s, block) for s in ([[1, 0]], [[0, 1]], [[1, 1]])])


def cps(age_table=None):
    domain = fn.Domain(
        state=fn.Categorical(list(range(51))),
        status=fn.Categorical(list(range(4))),
        age=fn.Ordered(0, 85),
        kids=fn.Ordered(0, 3),
        wages=fn.Categorical(list(range(8))),
        selfemp=fn.Categorical([0, 1]),
    )
    return fn.Workload(
        domain,
        [
            fn.table("state", "status", margin=15),
            fn.table("state", "wages", margin=20),
            fn.table("status", "kids", "wages", margin=15),
            age_table or fn.table("status", cumulative="age", margin=30),
            fn.table("state", "selfemp", margin=15),
        ],
    )


def cube(t, attributes=3, orders=(1, 2), variance=1.0):
    """Marginals of a cube of exchangeable attributes: the same as `marginals`, by sectors."""
    names = [f"a{i}" for i in range(attributes)]
    domain = fn.Domain({n: fn.Categorical(list(range(t))) for n in names})
    tables = [fn.table(*s, variance=variance) for k in orders for s in itertools.combinations(names, k)]
    return fn.Workload(domain, tables)


def uniform_targets(w, high):
    return 1.0 if high == 1 else np.random.default_rng(7).uniform(1, high, len(w))
