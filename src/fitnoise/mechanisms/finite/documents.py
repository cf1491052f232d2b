"""Mechanisms as plain JSON values: their integers, in the first of these forms that fits.

| form | content | mechanisms |
|---|---|---|
| `distance` | values by distance, columns by output | tight constraints, residual column, randomised response |
| `formula` | empty: graph and ε determine it | staircase, geometric |
| `rows` | every row | linear program and others, for few results |
| `box` | α, and a weight for every result, runs of equal ones as one | tight constraints without a table |
| `clamped` | α | staircase noise without a table |
| `ranks` | α | medians and quantiles by ranks |

The first three forms also have `read_as`: the result that each output is read as.

**Trust.** The reader trusts no content: it constructs the mechanism again from these integers, and proves its privacy
again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Integers
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.designs.implicit_mechanisms import ImplicitMechanism
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.designs.ranks import RankMechanism, RankScores
from fitnoise.kernel.designs.weights import IntegerWeights, row_sums
from fitnoise.mechanisms.finite import families
from fitnoise.mechanisms.finite.exact import hops
from fitnoise.mechanisms.finite.weight_rows import of_table

ROWS_LIMIT = 128
"""Most results for the form `rows`."""

_FORMULAS: dict[str, Callable[[QueryGraph, Fraction], FiniteMechanism]] = {
    "staircase": families.staircase,
    "geometric": families.geometric,
    "randomised response": families.randomised_response,
}


def stored_family(family: str) -> str:
    """Return the name of a family of mechanisms in stored documents, with hyphens in place of blanks."""
    return family.replace(" ", "-")


_FAMILIES = {
    stored_family(family): family
    for family in (*_FORMULAS, "tight constraints", "residual column", "linear program", "distance kernel", "ranks")
}
"""The families by their names in stored documents."""

_RATIO = re.compile(r"\d{1,20}/\d{1,20}", re.ASCII)

_DIGITS = re.compile(r"\d{1,400}", re.ASCII)


def document(mechanism: Mechanism) -> dict[str, Any]:
    """Return the mechanism as plain JSON values; integers from 2⁵³ on become strings.

    Raises:
        PlanError: The mechanism has no short form, and more than ROWS_LIMIT results.

    **Guarantees**

    - `read(graph, epsilon, document(m))` draws from the same integers as m.
    """
    out: dict[str, Any] = {"family": stored_family(mechanism.family)}
    if isinstance(mechanism, ImplicitMechanism):
        return out | {
            "form": "box",
            "alpha": str(mechanism.alpha),
            "weights": _runs(mechanism.weights.ravel().tolist()),
        }
    if isinstance(mechanism, ClampedMechanism):
        return out | {"form": "clamped", "alpha": str(mechanism.alpha)}
    if isinstance(mechanism, RankMechanism):
        return out | {"form": "ranks", "alpha": str(mechanism.alpha)}
    out["read_as"] = _runs(mechanism.answers.tolist(), step=1)
    w = mechanism.weights
    by_distance = _by_distance(mechanism)
    if by_distance is not None:
        return out | by_distance
    if mechanism.family in _FORMULAS and isinstance(mechanism.graph, QueryGraph):
        weights = _FORMULAS[mechanism.family](mechanism.graph, mechanism.epsilon).weights
        # Only if the formula gives these very integers: a plan must not depend on the name of a family.
        if _same(weights, w):
            return out | {"form": "formula"}
    if mechanism.graph.n > ROWS_LIMIT:
        raise PlanError(
            "mechanism-without-short-form",
            f"The mechanism {mechanism.family!r} for {mechanism.graph.n} results has no short form.",
            f"A plan contains at most {ROWS_LIMIT} rows of a mechanism.",
            "Choose a coarser question.",
            "No plan was made.",
        )
    return out | {"form": "rows", "rows": [[str(x) for x in w.row(i)] for i in range(mechanism.graph.n)]}


def read(
    graph: QueryGraph, epsilon: Fraction, document: Mapping[str, Any], ranks: RankScores | None = None
) -> Mechanism:
    """Return the mechanism of a document, constructed and proven again.

    ranks: The scores of values, for a question that can be answered by ranks.

    Raises:
        PlanError: The document is not valid, or its mechanism is not ε-private for the graph.
        LookupError, TypeError, ArithmeticError: The document has another form.
    """
    form, family = document["form"], _FAMILIES.get(document["family"])
    # Forms without a table exist for one family each.
    odd = (form, family) in (("clamped", "tight constraints"), ("box", "staircase"))
    if family is None or odd or (form == "ranks") != (family == "ranks"):
        raise PlanError(
            "unknown-family",
            "A mechanism of the plan has a family that fitnoise does not know, or the form of another family.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    if form == "ranks":
        if ranks is None:
            raise PlanError(
                "ranks-need-quantile",
                "The plan answers by ranks a question that is neither a median nor a quantile.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        return RankMechanism(graph, epsilon, ranks, _alpha(document))
    if form == "clamped":
        return ClampedMechanism(graph, epsilon, _alpha(document), family)
    if form == "box":
        return _lazy(graph, epsilon, family, document)
    if form == "formula":
        if family not in _FORMULAS:
            raise PlanError(
                "family-without-formula",
                f"No formula is known for the family {family!r} of the plan.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        weights = _FORMULAS[family](graph, epsilon).weights
    elif form == "rows":
        rows = [[_read_integer(x) for x in _listed(row)] for row in _listed(document["rows"])]
        if len(rows) != graph.n:
            raise PlanError(
                "mechanism-row-count",
                f"A mechanism of the plan has another number of rows than its question has results ({graph.n}).",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        weights = of_table(rows)
    elif form == "distance":
        weights = _of_distances(graph, document)
    else:
        raise PlanError(
            "unknown-mechanism-form",
            f"A mechanism of the plan has the unknown form {form!r}.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    answers = np.array(_unrun(document["read_as"], len(weights.columns), step=1), dtype=np.int64)
    return FiniteMechanism(graph, epsilon, family, weights, answers)


def _alpha(document: Mapping[str, Any]) -> Fraction:
    if not isinstance(document["alpha"], str) or not _RATIO.fullmatch(document["alpha"]):
        raise PlanError(
            "alpha-not-ratio",
            "The α of a mechanism in the plan is not a ratio of integers, such as 3/8.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    return Fraction(document["alpha"])


def _lazy(graph: QueryGraph, epsilon: Fraction, family: str, document: Mapping[str, Any]) -> ImplicitMechanism:
    lazy = ImplicitMechanism(graph, epsilon, family, _alpha(document), _unrun(document["weights"], graph.n))
    # The draw tries until it succeeds; the probability is equal for all results only if row sums are.
    if not lazy.is_constant_time:
        raise PlanError(
            "unequal-row-sums",
            "The rows of a mechanism in the plan have different sums.",
            "With different sums, the number of tries would reveal the result.",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    return lazy


def _by_distance(mechanism: FiniteMechanism) -> dict[str, Any] | None:
    """Return the short form of values that depend on the distance only; None for other values."""
    w, n = mechanism.weights, mechanism.graph.n
    if w.codes.shape[1] not in (n, n + 1) or len(w.values) > n + 1:
        return None
    # The last value stands for all larger distances, those of other components included.
    steps = np.minimum(hops(mechanism.graph), len(w.values) - 1)
    if not np.array_equal(w.codes[:, :n], steps) or w.codes[:, n:].any() or w.columns[n:] not in ((), (0,)):
        return None
    return {
        "form": "distance",
        "values": [str(x) for x in w.values],
        "columns": [str(x) for x in w.columns[:n]],
        "total": str(w.total),
        "rest_to": w.sink,
    }


def _of_distances(graph: QueryGraph, document: Mapping[str, Any]) -> IntegerWeights:
    values = tuple(_read_integer(x) for x in _listed(document["values"]))
    columns = tuple(_read_integer(x) for x in _listed(document["columns"]))
    rest_column, total = document["rest_to"], _read_integer(document["total"])
    if type(rest_column) is not int or not 0 <= rest_column <= graph.n or len(columns) != graph.n or not values:
        raise PlanError(
            "distance-columns",
            "A mechanism by distance in the plan does not have one column for every result.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    codes = np.minimum(hops(graph), len(values) - 1)
    # The rest is not stored: it follows from the total, and is proven again.
    rest = tuple(total - s for s in row_sums(values, codes, columns))
    if rest_column == graph.n:
        codes, columns = np.column_stack([codes, np.zeros(graph.n, dtype=np.int64)]), (*columns, 0)
    return IntegerWeights(values, codes, columns, rest, rest_column)


def _same(a: IntegerWeights, b: IntegerWeights) -> bool:
    return (
        a.values == b.values
        and a.columns == b.columns
        and a.residual == b.residual
        and a.sink == b.sink
        and np.array_equal(a.codes, b.codes)
    )


def _runs(numbers: Sequence[int], step: int = 0) -> list[list[int | str]]:
    """Return [first, length] of every run in which each number is the previous number plus `step`."""
    # Differences of 64-bit integers could overflow.
    x = np.array(numbers, dtype=object if max(map(abs, numbers), default=0) >= 2**62 else np.int64)
    breaks = np.flatnonzero(np.diff(x) != step) + 1
    starts = np.r_[0, breaks].astype(np.int64)
    lengths = np.diff(np.r_[starts, len(x)])
    return [[_short(a), int(n)] for a, n in zip(x[starts].tolist(), lengths.tolist(), strict=True)]


def _unrun(runs: Sequence[Sequence[Any]], count: int, step: int = 0) -> Integers:
    if not all(len(_listed(run)) == 2 for run in _listed(runs)):
        raise PlanError(
            "run-form",
            "A run of numbers in the plan is not a pair of its first number and its length.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    firsts, lengths = [_read_integer(run[0]) for run in runs], [run[1] for run in runs]
    # Checked before anything is expanded: the document is untrusted, and a run could have any length.
    if not all(type(n) is int and n > 0 for n in lengths) or sum(lengths) != count:
        raise PlanError(
            "run-length",
            f"The runs of a list in the plan do not have {count} numbers in all.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    ends = np.cumsum(lengths)
    inside = np.arange(count) - np.repeat(ends - lengths, lengths)
    return np.asarray(np.repeat(np.array(firsts, dtype=np.int64), lengths) + step * inside)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PlanError(
            "numbers-not-in-list",
            "The plan does not write the numbers of a mechanism in lists.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    return value


def _short(x: int) -> int | str:
    """Return x, as a string from 2⁵³ on: JSON readers keep smaller integers exactly."""
    return x if abs(x) < 2**53 else str(x)


def _read_integer(x: Any) -> int:
    if type(x) is int and x >= 0:
        return x
    if isinstance(x, str) and _DIGITS.fullmatch(x):
        return int(x)
    raise PlanError(
        "weight-not-integer",
        "A weight of a mechanism in the plan is not an integer from 0.",
        "",
        "Use the plan as fitnoise wrote it, or plan again.",
        "Nothing was measured.",
    )
