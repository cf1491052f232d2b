"""What every design keeps to: the only thing `measure` knows of what it measures. Part of the trust kernel.

A design is integers, and the chance added to them. What it costs, what must be counted for it, its exact answers and
its draws are all computed from these integers, and nothing that an optimiser said enters.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, final

from numpy.typing import NDArray

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Exact, Floats, Indices, Integers
from fitnoise.kernel.losses import Axes, Loss
from fitnoise.kernel.units import Adjacency

Margin = tuple[str, ...]
"""Attributes by whose joint cells records are counted."""

Pieces = tuple[tuple[str, tuple[int, ...]], ...]
"""Amounts by name, with K_s of each: how many steps there are from each knot to the next."""

Answers = tuple[Exact, ...]
"""What a design measures, in its own order: exact, or with noise."""

WRAP = 2**62
"""Entries bounded by this (for the declared number of records) are computed in int64, where a sum can wrap but never
saturate: arithmetic modulo 2⁶⁴ is a homomorphism, so wrapping is post-processing and could only cost accuracy."""

HELD = 2**22
"""Numbers transformed, or drawn, at once."""


class Counts(Protocol):
    """Counted margins, and through them all that they hold."""

    @property
    def left_out(self) -> int | None:
        """Of how many units some records are not counted; None where no design asks."""

    def __getitem__(self, wanted: Margin, /) -> NDArray[Any]:
        """Counts over these attributes, in the order asked."""


class Door(Protocol):
    """The one entrance of chance: the functions of :mod:`fitnoise.kernel.noise`. Tests pass one that replays."""

    def discrete_gaussians(self, scales: Floats, sizes: Integers) -> Integers:
        """Draws of N_Z(0, σ²), so many of each scale, one after the other."""

    def discrete_laplaces(self, scales: Floats, sizes: Integers) -> Integers:
        """Draws of discrete Laplace noise, likewise."""

    def categorical(self, weights: Sequence[int]) -> int:
        """One of so many outputs, in proportion to integers."""

    def by_distance(
        self, alpha: Any, steps: Sequence[int], weights: Integers, top: int, place: Sequence[int]
    ) -> tuple[int, ...]:
        """A place of a box, in proportion to α^d times its weight."""

    def clamped(self, alpha: Any, steps: Sequence[int], shape: Sequence[int], place: Sequence[int]) -> tuple[int, ...]:
        """A place plus staircase noise, clamped to a box."""


@final
@dataclass(frozen=True)
class Cells:
    """Where records lie, for a design of tables: attributes whose values it treats alike, and the others.

    exchangeable: attributes whose values are alike, in order. structured: those by whose joint cells queries differ, in
    C order. Each with its number of values. steps: of the structured ones that are amounts how many there are from each
    knot to the next, K_s; their first cells are these knots, the ends of the range among them (`parts`).

    Raises:
        PlanError: an attribute that appears twice, or an amount that is not structured, or has no ends.
    """

    exchangeable: Axes
    structured: Axes
    steps: Pieces = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in (*self.exchangeable, *self.structured)]
        if len(set(names)) != len(names):
            raise PlanError(
                "design-attribute-twice",
                "A design names one attribute twice.",
                "",
                "Name each attribute of a design once.",
                "No design was made.",
            )
        cells, steps = dict(self.structured), dict(self.steps)
        bad = (not k or min(k) < 1 or cells.get(a, 0) <= len(k) for a, k in self.steps)
        if len(steps) < len(self.steps) or any(bad):
            raise PlanError(
                "design-amounts-misfit",
                "The amounts of a design do not fit its structured attributes.",
                "Each amount is one structured attribute with at least two knots and at least 1 step between knots.",
                "Name each amount once, among the structured attributes, with all its knots.",
                "No design was made.",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_a of every exchangeable attribute."""
        return tuple(n for _, n in self.exchangeable)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the exchangeable attributes."""
        return tuple(name for name, _ in self.exchangeable)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of values of the structured attributes."""
        return tuple(n for _, n in self.structured)

    @property
    def size(self) -> int:
        """How many joint cells of structured attributes there are, n_o."""
        return math.prod(self.shape)


def other_domain(what: str) -> PlanError:
    """Return the error for a part of a plan that was made for another domain.

    Args:
        what: Name of the part.
    """
    return PlanError(
        "made-for-another-domain",
        f"A {what} was made for another domain than that of the publication.",
        "The domain of the publication must have the same attributes, numbers of values and amounts.",
        "Make the plan again for this domain.",
        "Nothing was measured.",
    )


def attributes_not_increasing(what: str) -> PlanError:
    """Return the error for attributes that are out of order, or repeated.

    Args:
        what: Name of the part of a design.
    """
    return PlanError(
        "attributes-not-increasing",
        f"A {what} names its attributes out of order, or one attribute twice.",
        "",
        "Name each attribute once, in increasing order of positions.",
        "No strategy was made.",
    )


def noise_out_of_range(what: str) -> PlanError:
    """Return the error for noise that the exact sampler cannot draw; it does not show the scale.

    Args:
        what: Name of the part of a design.
    """
    return PlanError(
        "noise-out-of-range",
        f"The noise of a {what} is out of range.",
        "A noise scale is one positive number that the exact sampler can draw.",
        "Make the plan again.",
        "No strategy was made.",
    )


def measured_twice(what: str) -> PlanError:
    """Return the error for a part that a strategy measures twice.

    Args:
        what: Name of the part.
    """
    return PlanError(
        "measured-twice",
        f"The strategy measures one {what} twice.",
        "",
        f"Measure each {what} once.",
        "No strategy was made.",
    )


def unknown_result(outcome: str) -> WorkloadError:
    """Return the error for a label that is no result; it does not show the label.

    Args:
        outcome: Sentence about what did not happen.
    """
    return WorkloadError(
        "unknown-result",
        "The label is not a result of the query.",
        "",
        "Choose one of the results of the query graph.",
        outcome,
    )


class Design(abc.ABC):
    """What is measured: integers, and the chance added to them.

    **Guarantees**, which `check_design` tests for every design there is
        * for data that are neighbours under an adjacency, the exact answers differ by no more than `loss` of it says,
          in units of the noise that `draw` adds;
        * nothing else in what `draw` gives depends on the data, nor does the width of integers;
        * a design is never changed: what was computed of its integers stays true of them.
    """

    @abc.abstractmethod
    def afresh(self, of: Adjacency) -> Self:
        """The same integers, with nothing computed of them before: proven anew for this adjacency."""

    @abc.abstractmethod
    def margins(self) -> Collection[Margin]:
        """What must be counted, by the names of attributes."""

    @property
    def nested(self) -> Collection[tuple[str, str, Indices]]:
        """Which levels its price takes to lie in one another: one, one below it, the place above each place there."""
        return ()

    @property
    def asks_left_out(self) -> bool:
        """Whether it asks of how many units some records are not counted."""
        return False

    def in_parts(self, parts: int) -> Self:
        """What is drawn where counts are in so many parts of a record: the same integers, with noise so many times.

        Only a design gives it whose loss is convex in what the records of a unit add: then `loss` of it, for counts of
        records and the noise as it is, holds for all shares that add up to one record at most.

        Raises:
            PlanError: it measures no shares of records, or not with so much noise.
        """
        raise PlanError(
            "parts-need-gaussian-tables",
            f"The plan counts shares of records ({parts} parts a record), and a part of it cannot measure shares.",
            "Only tables with Gaussian noise can measure shares of records.",
            "Plan tables with Gaussian noise and no question, or count records instead of shares.",
            "Nothing was measured.",
        )

    @abc.abstractmethod
    def loss(self, of: Adjacency) -> Loss:
        """What measuring it costs one protected unit, exact.

        Raises:
            PlanError: nothing is proven for this adjacency: the cost is infinite.
        """

    def fixes_size(self, of: Adjacency) -> bool:
        """Whether data of another number of records than declared are refused: then a release tells the number."""
        del of
        return False

    @abc.abstractmethod
    def exact(self, counts: Counts, of: Adjacency, records: int) -> Answers:
        """The answers before noise.

        Args:
            counts: of the data.
            of: what neighbours are.
            records: a public bound on the number of records; it chooses the width of integers.

        Raises:
            DataError: the data are not as they were declared. The message says nothing else of them.
        """

    @abc.abstractmethod
    def draw(self, exact: Answers, door: Door) -> Answers:
        """The noisy answers; `exact` may be overwritten."""

    @abc.abstractmethod
    def detail(self, of: Adjacency) -> dict[str, list[Any]]:
        """What a ledger keeps of it: JSON values without floats."""

    @abc.abstractmethod
    def check(self, sizes: Mapping[str, int], steps: Mapping[str, tuple[int, ...]]) -> None:
        """Raise PlanError unless it is for a domain whose attributes have these numbers of values.

        steps: K_s of its amounts. A design that takes others, or an amount for anything else, is refused.
        """
