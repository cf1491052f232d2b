r"""Medians and other quantiles by ranks: each value is as likely as the records say that it is near. Trust kernel.

The true answer alone says too little: one record can move a median from anywhere to anywhere. How many records would
have to come or go before a value is the quantile says more, and one record moves that by one.

**The score.** Let q = p/s in lowest terms. Of n records let L be those below a value and E those at it. The value is a
q-quantile iff L ≤ qn ≤ L + E. What it lacks, in parts 1/s of a record, is

    u = max(0, sL − pn, pn − s(L + E)).

The least value with L + E ≥ qn has u = 0: below it are less than qn records.

**The law.** With levels w_0 ≥ w_1 ≥ … > 0, each at least α times the one before, a value is drawn with a probability in
proportion to w_u. If one record moves no score by more than `step`, it changes every w_u and their sum by factors
between α^step and α^(−step), and so every probability by a factor of at most α^(−2 step).

    step = max(p, s − p) for a record more or less;    s for another record in its place.

*Proof.* max(0, a, b) moves no further than a or b does. A record more moves a = sL − pn by s − p or by −p, and
b = pn − s(L + E) by p or by p − s; a record less, the other way. Another record in its place leaves n as it is and
moves L and L + E by at most 1, so a and b by at most s. ∎

**The row.** Chances are whole numbers with the sum T = 2^256 for all data, so that drawing always takes as many random
words: ⌊T w_u/Σw⌋, and what is left of T, less than the number m of values, goes to the first value with u = 0. All
T w_u/Σw are at least M = ⌊T/(m w_0)⌋, so that rounding changes no ratio by more than the factor (M + m)/(M − 1). An
answer costs one record

    2 step · log(1/α) + log((M + m)/(M − 1)),

which is proven to be at most ε when the mechanism is made.

Source: McSherry and Talwar, "Mechanism design via differential privacy", 2007. Permute-and-flip (McKenna and Sheldon,
2020) misses by less, at best by half as much, but its chances are no short fractions, and how many coins it flips
depends on the data.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

from fitnoise.errors import PlanError
from fitnoise.kernel.designs._base import Door
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.designs.lazy import checked_alpha
from fitnoise.kernel.exact import falling, log_above, rational

TOTAL = 2**256
"""The sum of every row."""

LEVELS_LIMIT, VALUES_LIMIT = 2**18, 2**16
"""Most levels, and most values that one is drawn of."""


@final
@dataclass(frozen=True)
class Ranks:
    """How scores are made of the records by value.

    at: q = p/s. people: at most so many records. replaces: whether one record can take the place of another.
    """

    at: Fraction
    people: int
    replaces: bool

    @property
    def step(self) -> int:
        """The most by which one record moves a score."""
        p, s = self.at.as_integer_ratio()
        return s if self.replaces else max(p, s - p)

    @property
    def largest(self) -> int:
        """The largest score there can be: that of a value with all records on its wrong side."""
        p, s = self.at.as_integer_ratio()
        return self.people * max(p, s - p)

    def scores(self, records: Sequence[int]) -> list[int]:
        """Of every value u, from the number of records at each, in order.

        Args:
            records: how many are at each value.
        """
        p, s = self.at.as_integer_ratio()
        upto = list(itertools.accumulate(records))
        asked = p * upto[-1]
        return [max(0, s * (c - own) - asked, asked - s * c) for c, own in zip(upto, records, strict=True)]


@final
@dataclass(frozen=True, eq=False)
class RankMechanism:
    """A quantile by ranks, as of the head of this file.

    Attributes:
        graph: of the question; its results are the values, in order.
        epsilon: ε that was asked for, exactly.
        ranks: how values are scored.
        alpha: α, a multiple of 2⁻⁶².

    Raises:
        PlanError: there are too many values, or levels, since ε is too small for so many people; α is none, or **what
            an answer costs is not proven to be at most ε**.
        WorkloadError: ε is no number of its range.

    **Guarantees**

    - ε-differentially private for data that differ as `ranks` says, of any number of records, exactly: no float is in
      the chances, nor in the proof.
    - How many random words are read is the same for all data.
    - Outputs are values; every output is read as itself.
    """

    graph: QueryGraph
    epsilon: Fraction
    ranks: Ranks
    alpha: Fraction
    family: str = "ranks"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", rational(self.epsilon))
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))
        if self.graph.n > VALUES_LIMIT:
            raise PlanError(
                "quantile-too-many-values",
                f"The attribute of the quantile has {self.graph.n:,} values.",
                f"A quantile needs an attribute with at most {VALUES_LIMIT:,} values.",
                "Recode the attribute into fewer values.",
                "No mechanism was made.",
            )
        least = TOTAL // (self.graph.n * self.levels[0])
        rounding = log_above(Fraction(least + self.graph.n, least - 1))
        if 2 * self.ranks.step * log_above(1 / self.alpha) + rounding > self.epsilon:
            raise PlanError(
                "ranks-above-epsilon",
                "The privacy cost of the answer by ranks is not proven to be at most ε.",
                "",
                "Choose a larger α, or make the plan again.",
                "No mechanism was made.",
            )

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """w_0, w_1, …: of all scores there can be, or until they fall no more."""
        found: list[int] = []
        for weight in itertools.islice(falling(self.alpha), LEVELS_LIMIT + 1):
            if len(found) > self.ranks.largest or found[-1:] == [weight]:
                return tuple(found)
            found.append(weight)
        raise PlanError(
            "epsilon-too-small-for-ranks",
            f"ε = {float(self.epsilon):.3g} is too small to distinguish the ranks of this number of people.",
            f"A mechanism by ranks has at most {LEVELS_LIMIT:,} levels.",
            "Take a larger ε, or a quantile with a smaller denominator.",
            "No mechanism was made.",
        )

    def log_ratio(self) -> Fraction:
        """What one answer costs: ε, proven when it was made."""
        return self.epsilon

    @property
    def even(self) -> bool:
        """Whether drawing takes as long for all data: rows have one sum, a power of 2."""
        return True

    def anew(self, graph: QueryGraph) -> RankMechanism:
        """The same numbers on a graph, with nothing computed of them before.

        Args:
            graph: of as many results.
        """
        return replace(self, graph=graph)

    @property
    def outputs(self) -> int:
        """How many outputs there are."""
        return self.graph.n

    def place(self, records: Sequence[int]) -> tuple[int, ...]:
        """The level of every value, from the number of records at each, in order.

        Args:
            records: how many are at each value.
        """
        return tuple(min(u, len(self.levels) - 1) for u in self.ranks.scores(records))

    def row(self, place: Sequence[int]) -> tuple[int, ...]:
        """The chances of all values, whole numbers with the sum TOTAL, for their levels.

        Args:
            place: the levels of all values.
        """
        weights = [self.levels[level] for level in place]
        together = sum(weights)
        row = [w * TOTAL // together for w in weights]
        row[place.index(0)] += TOTAL - sum(row)
        return tuple(row)

    def drawn(self, place: tuple[int, ...], door: Door) -> int:
        """One value, for the levels of all, from 0.

        Args:
            place: the levels of all values.
            door: where chance comes from.
        """
        return door.categorical(self.row(place))

    def read(self, output: int) -> object:
        """The value of an output, a label.

        Args:
            output: from 0, as `drawn` has it.
        """
        return self.graph.results[output]
