"""Make weights from tables of integers, and mechanisms from such weights. The kernel proves each mechanism again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.checks import is_integer
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.weights import IntegerWeights
from fitnoise.kernel.exact_powers import Graph, rational

BITS_LIMIT = 2**30
"""The largest number of bits of all integers together, where rows are brought to one sum."""


def from_rows(rows: Sequence[Sequence[int]]) -> IntegerWeights:
    """Return weights from rows of integers with any positive sums, brought to one sum by integer factors.

    Raises:
        PlanError: The rows are empty or differ in length, an entry is negative or not a whole number, or a row has the
            sum 0. Or all integers, each as long as the common sum, would take more than BITS_LIMIT bits together.
    """
    listed = [list(row) for row in rows]
    width = len(listed[0]) if listed else 0
    flat = [w for row in listed for w in row]
    all_integers = all(is_integer(w) for w in flat)
    if not width or any(len(row) != width for row in listed) or not all_integers:
        raise PlanError(
            "weights-not-rows",
            "The weights are not rows of whole numbers of one length.",
            "",
            "Give rows of whole numbers, all of one length and at least one number long.",
            "No mechanism was made.",
        )
    sums = [sum(int(w) for w in row) for row in listed]
    if min(flat) < 0 or min(sums) == 0:
        raise PlanError(
            "weight-row-invalid",
            "A row of weights has a weight below 0, or no weight above 0.",
            "",
            "Give weights of at least 0, and at least one above 0 in each row.",
            "No mechanism was made.",
        )
    common = math.lcm(*sums)
    if common.bit_length() * len(flat) > BITS_LIMIT:
        raise PlanError(
            "weight-sums-too-different",
            f"A common multiple of the sums of the rows has {common.bit_length()} binary digits, which are too many.",
            "",
            "Give rows with the same sum.",
            "No mechanism was made.",
        )
    exact = [[int(w) * (common // s) for w in row] for row, s in zip(listed, sums, strict=True)]
    return of_table(exact)


def of_table(table: Sequence[Sequence[int]]) -> IntegerWeights:
    """Return the weights of a table of integers whose rows have one sum, each value held once.

    Raises:
        PlanError: An entry is negative or not a Python integer, or the rows have different sums or the sum 0.
    """
    places: dict[int, int] = {}
    codes = np.array([[places.setdefault(w, len(places)) for w in row] for row in table], dtype=np.int64)
    return IntegerWeights(tuple(places), codes, (1,) * codes.shape[1], (0,) * len(codes), 0)


def from_integers(
    graph: Graph,
    epsilon: float | Fraction,
    rows: Sequence[Sequence[int]],
    answers: npt.ArrayLike | None = None,
    family: str = "given",
) -> FiniteMechanism:
    """Return a mechanism from a table of integers, P(o | i) = rows[i][o] / Σ rows[i], exactly.

    Args:
        graph: The graph of the query.
        epsilon: The requested ε.
        rows: The integers, (n, outputs), none below 0; rows need no common sum.
        answers: The positions that outputs are read as, (outputs,). None reads each output as the result at its own
            position, for at most as many outputs as results.
        family: The name of the mechanism.

    Raises:
        PlanError: The rows are not such a table, or not ε-private.
        WorkloadError: ε is not a number in its range, or answers are missing.
    """
    weights = from_rows(rows)
    outputs = len(weights.columns)
    if answers is None and outputs > graph.n:
        raise WorkloadError(
            "answers-not-given",
            f"The weights have {outputs} outputs for {graph.n} results, and no answers are given.",
            "With more outputs than results, each output needs the result that it stands for.",
            "Give the result of each output in answers.",
            "No mechanism was made.",
        )
    read = np.arange(outputs) if answers is None else np.asarray(answers)
    return FiniteMechanism(graph, rational(epsilon), family, weights, read)
