r"""Define medians and other quantiles by ranks: a value is less likely the more records it is off. Trust kernel.

The true answer alone says too little: one record can move a median from any value to any other. The number of records
that must be added or removed before a value is the quantile says more. One record moves this number by one.

**The score.** Let q = p/s in lowest terms. Of n records let L be those below a value and E those at the value. The
value is a q-quantile iff L ≤ qn ≤ L + E. Its distance from this, in parts 1/s of a record, is

    u = max(0, sL − pn, pn − s(L + E)).

The least value with L + E ≥ qn has u = 0: fewer than qn records are below it.

**The law.** Take levels w_0 ≥ w_1 ≥ … > 0, each at least α times the one before. A value is drawn with a probability in
proportion to w_u. If one record moves no score by more than `step`, it changes every w_u and their sum by factors
between α^step and α^(−step). So it changes every probability by a factor of at most α^(−2 step).

    step = max(p, s − p) for a record more or less;    s for another record in its place.

*Proof.* max(0, a, b) moves no further than a or b does. A record more moves a = sL − pn by s − p or by −p, and b = pn −
s(L + E) by p or by p − s. A record less moves them the other way. Another record in its place leaves n unchanged. It
moves L and L + E by at most 1, so a and b by at most s. ∎

**The row.** Probabilities are integers with the sum T = 2^256 for all data, so that every draw takes equally many
random words. They are ⌊T w_u/Σw⌋. The rest of T is less than the number m of values, and goes to the first value with u
= 0. All T w_u/Σw are at least M = ⌊T/(m w_0)⌋, so that rounding changes no ratio by more than the factor (M + m)/(M −
1). The privacy cost of an answer for one record is

    2 step · log(1/α) + log((M + m)/(M − 1)),

which is proven to be at most ε when the mechanism is made.

**Source.** McSherry and Talwar, "Mechanism design via differential privacy", 2007. Permute-and-flip (McKenna and
Sheldon, 2020) has smaller errors, at best by half. But its probabilities are no short fractions, and the number of its
coin flips depends on the data.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

from fitnoise.errors import PlanError
from fitnoise.kernel.choices import categorical
from fitnoise.kernel.designs._base import NoiseSource
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.designs.implicit_mechanisms import checked_alpha
from fitnoise.kernel.exact_powers import falling, log_above, rational

ROW_SUM = 2**256
"""The sum of every row."""

LEVELS_LIMIT, VALUES_LIMIT = 2**18, 2**16
"""The largest number of levels, and the largest number of values of a quantile."""


@final
@dataclass(frozen=True)
class RankScores:
    """The rule that turns the numbers of records by value into scores.

    Attributes:
        level: The share q = p/s.
        people: The largest number of records.
        replaces: True if one record can take the place of another.
    """

    level: Fraction
    people: int
    replaces: bool

    @property
    def step(self) -> int:
        """The largest change of a score by one record."""
        p, s = self.level.as_integer_ratio()
        return s if self.replaces else max(p, s - p)

    @property
    def largest(self) -> int:
        """The largest possible score: that of a value with all records on its wrong side."""
        p, s = self.level.as_integer_ratio()
        return self.people * max(p, s - p)

    def scores(self, records: Sequence[int]) -> list[int]:
        """Return the score u of every value, from the number of records at each, in order.

        Args:
            records: The number of records at each value.
        """
        p, s = self.level.as_integer_ratio()
        # Python's integers: s times a number of records of up to 2⁶² does not fit in 64 bits.
        upto = list(itertools.accumulate(records))
        required = p * upto[-1]
        return [max(0, s * (c - count) - required, required - s * c) for c, count in zip(upto, records, strict=True)]


@final
@dataclass(frozen=True, eq=False)
class RankMechanism:
    """A quantile by ranks, as defined in the head of this file.

    Attributes:
        graph: The graph of the question; its results are the values, in order.
        epsilon: The exact requested ε.
        ranks: The rule for scores.
        alpha: α, a multiple of 2⁻⁶².

    Raises:
        PlanError: There are too many values, or too many levels, since ε is too small for the number of people. Or α is
            invalid, or **the cost of an answer is not proven to be at most ε**.
        WorkloadError: ε is not a number in its range.

    **Guarantees**

    - The mechanism is ε-differentially private for data that differ as `ranks` states, of any number of records,
      exactly. No float is in the probabilities, nor in the proof.
    - The number of random words read does not depend on the data.
    - Outputs are values; every output is read as itself.
    """

    graph: QueryGraph
    epsilon: Fraction
    ranks: RankScores
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
        # w_0 is 2⁹⁶ and there are at most 2¹⁶ values, so M is at least 2¹⁴⁴.
        min_weight = ROW_SUM // (self.graph.n * self.levels[0])
        # `min_weight` is M of the module head: rounding changes no ratio by more than (M + m)/(M − 1).
        rounding = log_above(Fraction(min_weight + self.graph.n, min_weight - 1))
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
        """The levels w_0, w_1, …: one for each possible score, or until they fall no more."""
        weights: list[int] = []
        for weight in itertools.islice(falling(self.alpha), LEVELS_LIMIT + 1):
            # Where the levels fall no more, all larger scores share the last one.
            if len(weights) > self.ranks.largest or weights[-1:] == [weight]:
                return tuple(weights)
            weights.append(weight)
        raise PlanError(
            "epsilon-too-small-for-ranks",
            f"ε = {float(self.epsilon):.3g} is too small to distinguish the ranks of this number of people.",
            f"A mechanism by ranks has at most {LEVELS_LIMIT:,} levels.",
            "Take a larger ε, or a quantile with a smaller denominator.",
            "No mechanism was made.",
        )

    def log_ratio(self) -> Fraction:
        """Return the cost of one answer: ε, proven when the mechanism was made."""
        return self.epsilon

    @property
    def is_constant_time(self) -> bool:
        """True: rows have one sum, a power of 2, so that draws read equally many random words for all data."""
        return True

    def on_graph(self, graph: QueryGraph) -> RankMechanism:
        """Return these numbers on a graph, without cached results.

        Args:
            graph: A graph with as many results.
        """
        return replace(self, graph=graph)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.graph.n

    def index_of(self, records: Sequence[int]) -> tuple[int, ...]:
        """Return for every value the position of its level in `levels`, from the number of records at each, in order.

        Args:
            records: The number of records at each value.
        """
        return tuple(min(u, len(self.levels) - 1) for u in self.ranks.scores(records))

    def row(self, point: Sequence[int]) -> tuple[int, ...]:
        """Return the probabilities of all values, as integers with the sum ROW_SUM.

        Args:
            point: For every value the position of its level in `levels`, as `index_of` returns them.
        """
        weights = [self.levels[level] for level in point]
        total = sum(weights)
        row = [w * ROW_SUM // total for w in weights]
        # The rest goes to a value with u = 0, and the bound in the head of this file includes it. One exists: the least
        # value with L + E ≥ qn.
        row[point.index(0)] += ROW_SUM - sum(row)
        return tuple(row)

    def draw_output(self, point: tuple[int, ...], noise: NoiseSource) -> int:
        """Return one drawn value, as a position from 0 among the values.

        Args:
            point: For every value the position of its level in `levels`, as `index_of` returns them.
            noise: The source of noise.
        """
        return noise.choose(categorical, self.row(point))

    def read(self, output: int) -> object:
        """Return the value of an output, a label.

        Args:
            output: The output, from 0, as `draw_output` returns it.
        """
        return self.graph.results[output]
