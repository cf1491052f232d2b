"""A gallery of workloads: those of the fit-for-use paper, as matrices and, where they are tables, as tables.

A matrix has one query a row and one cell a column, cells in C order. :func:`fitnoise.matrix_workload` takes it with
targets. :func:`fitnoise.plan` takes the tables it consists of, if there are any; this gives the same plan sooner.
Random workloads are public: randomness chooses the questions, never the noise, and comes from the caller.

| function | queries m × cells d | of the paper |
|---|---|---|
| :func:`prefix` | n × n | section 7.1, tables 2 and 3 |
| :func:`identity_and_sum` | (n + 1) × n | sections 5.1 and 7.2, figures 2 and 3 |
| :func:`pl94` | 319 × 252 | section 7.3, table 4 |
| :func:`random_ranges` | m × n | section 7.4, tables 5 and 6 |
| :func:`random_signs` | m × n | section 7.5, tables 7 and 8 |
| :func:`age_pyramids` | 351 × 232 | section 7.6, table 9 |
| :func:`marginals` | Σ Π sizes shown × Π sizes | section 7.7, table 10 |
| :func:`wrelated` | m × n, of rank s | section 7.8, table 11 |

**Source.** Xiao, Ding, Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear queries, PVLDB
14(10), 2021.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import checked_integer, is_integer
from fitnoise.request.attributes import Categorical, Ordered
from fitnoise.request.domain import Domain
from fitnoise.request.workloads import Workload, all_tables, table
from fitnoise.solving.fixed_random import Generator

RACES = (
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some Other Race",
)
"""The categories of race of 2010; a record has any of them, at least one."""


def prefix(n: int) -> Integers:
    """Return all "at most this value" of an ordered attribute of n values, (n, n): the lower triangle of ones.

    Args:
        n: The number of values.

    Raises:
        WorkloadError: n is not a whole number of at least 1.

    Source: section 7.1.1. The optimum for unit targets is 1.333333, 1.758601, 2.281560, 2.905253 and 4.457869 for n =
    2, 4, 8, 16 and 64.
    """
    checked_integer("cells", n)
    return np.tril(np.ones((n, n), dtype=np.int64))


def identity_and_sum(n: int) -> Integers:
    """Return every cell, then their sum, (n + 1, n).

    Args:
        n: The number of cells.

    Raises:
        WorkloadError: n is not a whole number of at least 1.

    Source: section 5.1. The optimum for unit targets is 2n/(1 + n) (Theorem 7).
    """
    checked_integer("cells", n)
    return np.concatenate([np.eye(n, dtype=np.int64), np.ones((1, n), dtype=np.int64)])


def pl94() -> Integers:
    """Return the redistricting tables PL94-171, (319, 252).

    Cells are voting age (2) × ethnicity (2) × race (63, every combination of six categories except the empty one). The
    queries are the 2 totals by voting age, the 2 by ethnicity, and the 63 by race. The latter are 6 of one race alone
    and 57 of two and more races. All 252 cells follow.

    Source: section 7.3. The optimum for unit targets is 3.013432.
    """
    return np.concatenate([_marginal((2, 2, 63), axes) for axes in ((0,), (1,), (2,), (0, 1, 2))])


def pl94_tables(variance: float = 1.0) -> Workload:
    """Return the queries of :func:`pl94` as four tables, in the same order, all with one target variance.

    Args:
        variance: The target of every number, in people².

    Raises:
        WorkloadError: The target is not positive.
    """
    races = [" and ".join(combination) for k in range(1, 7) for combination in itertools.combinations(RACES, k)]
    domain = Domain(
        voting_age=Categorical(["17 and under", "18 and over"]),
        ethnicity=Categorical(["not Hispanic", "Hispanic"]),
        race=Categorical(races),
    )
    attributes = ("voting_age",), ("ethnicity",), ("race",), ("voting_age", "ethnicity", "race")
    return Workload(domain, [table(*names, variance=variance) for names in attributes])


def random_ranges(n: int, m: int, rng: Generator) -> Integers:
    """Return random ranges of n ordered cells, (m, n): both ends uniform on the cells, and included.

    Args:
        n: The number of cells.
        m: The number of ranges.
        rng: The generator that draws them.

    Raises:
        WorkloadError: n or m is not a whole number of at least 1.

    Source: section 7.4, where m = 2n.
    """
    checked_integer("cells", n)
    checked_integer("queries", m)
    ends = np.sort(rng.integers(0, n, size=(m, 2)), axis=1)
    cells = np.arange(n)
    return np.asarray((ends[:, :1] <= cells) & (cells <= ends[:, 1:]), dtype=np.int64)


def random_signs(n: int, m: int, rng: Generator, heads: float = 0.2) -> Integers:
    """Return random queries of n cells, (m, n): every entry is 1 with probability `heads`, otherwise −1.

    Args:
        n: The number of cells.
        m: The number of queries.
        rng: The generator that draws them.
        heads: The probability of a 1, from 0 to 1.

    Raises:
        WorkloadError: A number is out of range.

    Source: section 7.5, where m = 2n. The paper says `heads` = 0.2, but its printed table 7 agrees with fair coins,
    `heads` = 0.5. With 0.2 all queries share a large multiple of the sum of all cells. The optimum is then about a
    quarter lower, and the other mechanisms' ratios to it are larger than printed.
    """
    checked_integer("cells", n)
    checked_integer("queries", m)
    if not 0 <= heads <= 1:
        raise WorkloadError(
            "probability-out-of-range",
            f"heads is {heads!r}.",
            "",
            "Give a probability from 0 to 1.",
            "No workload was made.",
        )
    return np.where(rng.uniform(0.0, 1.0, size=(m, n)) < heads, np.int64(1), np.int64(-1))


def age_pyramids(ages: int = 116, adult: int = 18) -> Integers:
    """Return age pyramids, (3 (ages + 1), 2 ages): for males, for females and for all.

    Cells are sex (2) × age (0 … ages − 1). Each of the three blocks has all "at most this age", then everyone of age
    `adult` or more.

    Args:
        ages: The number of ages, from 0.
        adult: The age from which a person is an adult.

    Raises:
        WorkloadError: `ages` is not a whole number of at least 1, or `adult` is not one of the ages.

    Source: section 7.6. The optimum for unit targets is 7.115406.
    """
    _adult(ages, adult)
    adults = np.asarray(np.arange(ages) >= adult, dtype=np.int64)
    block = np.concatenate([prefix(ages), adults[None]])
    return np.concatenate([np.kron(np.array([sexes]), block) for sexes in ((1, 0), (0, 1), (1, 1))])


def age_pyramid_tables(ages: int = 116, adult: int = 18, variance: float = 1.0) -> Workload:
    """Return the queries of :func:`age_pyramids` as four tables: prefixes and adults, by sex and for all.

    The queries have another order: those of one table come together.

    Args:
        ages: The number of ages, from 0.
        adult: The age from which a person is an adult.
        variance: The target of every number, in people².

    Raises:
        WorkloadError: The ages are refused as in :func:`age_pyramids`, or the target is not positive.
    """
    _adult(ages, adult)
    domain = Domain(sex=Categorical(["male", "female"]), age=Ordered(0, ages - 1))
    adults = {"age": [(adult, ages - 1)]}
    tables = [
        table("sex", cumulative="age", variance=variance),
        table("sex", ranges=adults, variance=variance, name="adults by sex"),
        table(cumulative="age", variance=variance),
        table(ranges=adults, variance=variance, name="adults"),
    ]
    return Workload(domain, tables)


def marginals(sizes: Sequence[int], orders: Iterable[int] = (1, 2)) -> Integers:
    """Return all marginals of some orders, (queries, Π sizes): for each order, every set of this many attributes.

    Args:
        sizes: The number of values of each attribute: `(4, 4, 4)` is a cube of 64 cells.
        orders: The numbers of attributes that marginals show: 2 is all pairs. Marginals of one order are in the order
            of :func:`itertools.combinations`.

    Raises:
        WorkloadError: A size is not an integer of at least 1. Or there is no order, or the orders are not different
            integers from 1 to the number of attributes.

    Source: section 7.7, with three attributes of t values and the orders 1 and 2. The optimum for unit targets is
    2.182453, 3.471896, 4.119431 and 4.504424 for t = 2, 4, 6 and 8.
    """
    chosen = _orders(sizes, orders)
    return np.concatenate(
        [_marginal(sizes, axes) for k in chosen for axes in itertools.combinations(range(len(sizes)), k)]
    )


def marginal_tables(sizes: Sequence[int], orders: Iterable[int] = (1, 2), variance: float = 1.0) -> Workload:
    """Return the queries of :func:`marginals` as tables of attributes a0, a1, …, in the same order.

    The number of cells has no limit.

    Args:
        sizes: The number of values of each attribute.
        orders: The numbers of attributes that marginals show.
        variance: The target of every number, in people².

    Raises:
        WorkloadError: The sizes or the orders are refused as in :func:`marginals`, or the target is not positive.
    """
    chosen = _orders(sizes, orders)
    domain = Domain({f"a{i}": Categorical(list(range(n))) for i, n in enumerate(sizes)})
    return Workload(domain, [all_tables(k, list(domain), variance=variance) for k in chosen])


def wrelated(n: int, m: int, s: int, rng: Generator) -> Floats:
    """Return the WRelated workload, (m, n), of rank s: a product of m × s and s × n matrices of standard Gaussians.

    Args:
        n: The number of cells.
        m: The number of queries.
        s: The rank, from 1 to the smaller of n and m.
        rng: The generator that draws it.

    Raises:
        WorkloadError: A number is out of range.

    Source: section 7.8, with m = s = n/2, after Yuan, Zhang, Winslett, Xiao, Yang, Hao: Low-rank mechanism, PVLDB
    5(11), 2012.
    """
    for what, count in (("cells", n), ("queries", m), ("base queries", s)):
        checked_integer(what, count)
    if s > min(n, m):
        raise WorkloadError(
            "rank-above-limit",
            f"s is {s}, and {m} queries of {n} cells have at most the rank {min(n, m)}.",
            "",
            f"Give s from 1 to {min(n, m)}.",
            "No workload was made.",
        )
    mixing = rng.normal(0.0, 1.0, size=(m, s))
    return mixing @ rng.normal(0.0, 1.0, size=(s, n))


def random_targets(m: int, rng: Generator, low: float = 1.0, high: float = 10.0, *, is_integer: bool = False) -> Floats:
    """Return random target variances, (m,), uniform from low to high; with `is_integer`, integers from low to high.

    Args:
        m: The number of targets.
        rng: The generator that draws them.
        low: The smallest possible target.
        high: The largest possible target.
        is_integer: True for integers.

    Raises:
        WorkloadError: m is not an integer of at least 1, or the limits are not positive, finite and in order. Or one of
            them is no integer with `is_integer`.

    Source: sections 7.4 and 7.5. The paper says uniform(1, 10); its table 8 agrees with whole numbers, 1 to 10.
    """
    checked_integer("queries", m)
    if not 0 < low <= high < math.inf or (is_integer and (low % 1 or high % 1)):
        kind = "positive integer" if is_integer else "positive and finite"
        raise WorkloadError(
            "target-range",
            f"The targets range from {low!r} to {high!r}.",
            "",
            f"Give {kind} limits, with the smaller one first.",
            "No targets were drawn.",
        )
    if is_integer:
        return rng.integers(int(low), int(high) + 1, size=(m,)).astype(np.float64)
    return rng.uniform(low, high, size=(m,))


def _marginal(sizes: Sequence[int], axes: Sequence[int]) -> Integers:
    """Return the marginal that shows some axes: the Kronecker product of identities there and totals elsewhere."""
    factors = [np.eye(n, dtype=np.int64) if i in axes else np.ones((1, n), dtype=np.int64) for i, n in enumerate(sizes)]
    return reduce(np.kron, factors)


def _adult(ages: int, adult: int) -> None:
    checked_integer("ages", ages)
    if not is_integer(adult) or not 0 <= adult < ages:
        raise WorkloadError(
            "adult-age",
            f"The age of adults is {adult!r}.",
            "",
            f"Give an integer from 0 to {ages - 1}.",
            "No workload was made.",
        )


def _orders(sizes: Sequence[int], orders: Iterable[int]) -> list[int]:
    chosen = list(orders)
    for n in sizes:
        checked_integer("values of every attribute", n)
    possible = range(1, len(sizes) + 1)
    if not chosen or len(set(chosen)) != len(chosen) or any(k not in possible for k in chosen):
        raise WorkloadError(
            "marginal-orders",
            f"The orders of the marginals are {chosen}.",
            "",
            f"Give integers from 1 to {len(sizes)}, the number of attributes, each once.",
            "No workload was made.",
        )
    return chosen
