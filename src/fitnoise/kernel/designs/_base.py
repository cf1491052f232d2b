"""Define the interface of every design: all that `measure` knows of the integers it measures.

A design is a set of integers, and the noise added to their answers. The kernel computes the price of a design, its
margins, its exact answers and its draws from these integers. No result of an optimiser enters.

**Trust.** A price below the true one breaks the privacy promise. `tests/laws/designs.py` checks all guarantees.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats, Indices, Integers
from fitnoise.kernel.designs.clusters import ClusterClaim
from fitnoise.kernel.designs.witness import Claim
from fitnoise.kernel.losses import Axes, Loss
from fitnoise.kernel.units import Adjacency, DomainShape

T = TypeVar("T")

Margin = tuple[str, ...]
"""The attributes by whose joint cells records are counted."""

Pieces = tuple[tuple[str, tuple[int, ...]], ...]
"""Each amount by name with its K_s: the numbers of steps from each knot to the next."""

Answers = tuple[Exact, ...]
"""The numbers that a design measures, one array for each of its groups, in its own order: exact, or with noise."""

INT64_SAFE_BOUND = 2**62
"""The bound on entries, for the declared number of records, below which int64 computes them.

There a sum can wrap but never saturate. Arithmetic modulo 2⁶⁴ is a homomorphism, so wrapping is post-processing and
could only cost accuracy.
"""

NUMBERS_PER_BATCH = 2**22
"""The number of values that are transformed, or drawn, at once."""


class Counts(Protocol):
    """Counted margins, and all counts that follow from them."""

    @property
    def left_out(self) -> int | None:
        """The number of units some of whose records are not counted; None if no design requests it."""

    def __getitem__(self, margin: Margin, /) -> NDArray[Any]:
        """Return the counts, with one axis for each of these attributes, in the given order."""


class NoiseSource(Protocol):
    """The only source of noise: the functions of :mod:`fitnoise.kernel.noise`.

    Tests pass a source that replays noise.
    """

    def discrete_gaussians(self, scales: Floats, sizes: Integers) -> Integers:
        """Draw N_Z(0, σ²): for each scale σ the given number of draws, one run after the other, as one int64 array."""

    def discrete_laplaces(self, scales: Floats, sizes: Integers) -> Integers:
        """Draw discrete Laplace noise as `discrete_gaussians` draws the Gaussian."""

    def choose(self, choice: Callable[..., T], /, *arguments: Any) -> T:
        """Return the choice that a function makes from random words, its first argument, and these arguments."""


@final
@dataclass(frozen=True)
class PublicCells:
    """The cells by which the numbers of records are public.

    Attributes:
        exchangeable: The positions of the public attributes with interchangeable values.
        places: For every structured cell the number of its joint cell of the other public attributes, from 0 on.
        is_counted_here: True if the totals are counted from the data, and published without protection.
    """

    exchangeable: tuple[int, ...]
    places: tuple[int, ...]
    is_counted_here: bool = False


@final
@dataclass(frozen=True)
class CellStructure:
    """The attributes of a design of tables: those with interchangeable values, and the others.

    Attributes:
        exchangeable: The attributes whose values are interchangeable, in order, each with its number of values.
        structured: The attributes by whose joint cells queries differ, in C order, each with its number of values.
        steps: For each structured attribute that is an amount, K_s: the numbers of steps from each knot to the next.
            The first cells of the attribute are these knots, including the ends of the range (`query_blocks`). A joint
            axis may have several amounts, one after the other, with 0 from the last cell of one to the first of the
            next.
        public: The cells with public totals; None if no total is public.

    Raises:
        PlanError: An attribute or an amount appears twice. An amount is not structured, has no steps or a number of
            steps below 0, or has fewer cells than knots. Or the public cells do not fit the structured cells.
    """

    exchangeable: Axes
    structured: Axes
    steps: Pieces = ()
    public: PublicCells | None = None

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
        cells, steps, public = dict(self.structured), dict(self.steps), self.public
        bad = (not any(k) or min(k) < 0 or cells.get(a, 0) <= len(k) for a, k in self.steps)
        if len(steps) < len(self.steps) or any(bad):
            raise PlanError(
                "design-amounts-misfit",
                "The amounts of a design do not fit its structured attributes.",
                "Each amount is one structured attribute with at least two knots and at least 1 step between knots.",
                "Name each amount once, among the structured attributes, with all its knots.",
                "No design was made.",
            )
        if public is not None and (len(public.places) != self.size or min(*public.places, 0, *public.exchangeable) < 0):
            raise PlanError(
                "design-public-cells-misfit",
                "The cells with public totals do not fit the structured cells of a design.",
                "Each structured cell lies in one cell with a public total, numbered from 0 on.",
                "Make the plan again for this domain.",
                "No design was made.",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values n_a of every exchangeable attribute."""
        return tuple(n for _, n in self.exchangeable)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the exchangeable attributes."""
        return tuple(name for name, _ in self.exchangeable)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of values of the structured attributes."""
        return tuple(n for _, n in self.structured)

    @property
    def size(self) -> int:
        """The number n_o of joint cells of structured attributes."""
        return math.prod(self.shape)

    def positions(self, grid: DomainShape | None) -> dict[str, Indices]:
        """Return the position of every structured cell along each attribute that it determines, by name.

        Args:
            grid: The grid of the domain; without one, a structured cell determines the structured attributes only.
        """
        out: dict[str, Indices] = {}
        indices = np.indices(self.shape).reshape(len(self.shape), self.size)
        for (axis, _), i in zip(self.structured, indices, strict=True):
            columns = {} if grid is None else grid.columns(axis)
            out |= {name: x[i] for name, x in columns.items()} | {axis: i}
        return out


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


class Design(abc.ABC):
    """Integers to measure, and the noise added to their answers.

    **Guarantees**, which `tests/laws/designs.py` checks for every design
        * For data that are neighbours under an adjacency, the exact answers differ by at most the price that `loss`
          states. The unit is the noise that `draw` adds.
        * Nothing else in the result of `draw` depends on the data, nor does the width of integers.
        * A design never changes: results computed from its integers stay true.
    """

    @abc.abstractmethod
    def without_cache(self, adjacency: Adjacency) -> Self:
        """Return a design of these integers without cached results.

        Its price is then proven again for this adjacency.
        """

    @abc.abstractmethod
    def margins(self) -> Collection[Margin]:
        """Return the margins that must be counted, by the names of attributes."""

    def attributes(self) -> tuple[str, ...]:
        """Return the names for which the design was made; none if its margins have them all.

        No margin has an attribute all of whose values count in the same numbers. Such an attribute is still read, and a
        record with a value outside it is refused or dropped.
        """
        return ()

    @property
    def nested(self) -> Collection[tuple[str, str, Indices]]:
        """The pairs of levels that the price takes as nested.

        Each entry is an upper level, a lower level, and for each place of the lower level its place of the upper one.
        """
        return ()

    @property
    def asks_left_out(self) -> bool:
        """True if the design requests the number of units some of whose records are not counted."""
        return False

    def scaled_by(self, parts: int) -> Self:
        """Return the design for counts in `parts` parts of a record: the same integers, with `parts` times the noise.

        Only a design whose loss is convex in the contribution of the records of a unit supports this. Then its `loss`,
        for counts of records and the unscaled noise, holds for all shares that add up to at most one record.

        Args:
            parts: The number of parts of a record; at least 1.

        Raises:
            PlanError: The design measures no shares of records, or not with this much noise.
        """
        raise PlanError(
            "parts-need-gaussian-tables",
            f"The plan counts shares of records ({parts} parts a record), and a part of it cannot measure shares.",
            "Only tables with Gaussian noise can measure shares of records.",
            "Plan tables with Gaussian noise and no question, or count records instead of shares.",
            "Nothing was measured.",
        )

    @abc.abstractmethod
    def loss(self, adjacency: Adjacency) -> Loss:
        """Return the exact privacy cost of the measurement for one protected unit.

        Raises:
            PlanError: Nothing is proven for this adjacency, so the cost is infinite.
        """

    claim: Claim | ClusterClaim | None = None
    """The claimed price of the records of a unit; None for a design without one."""

    def check_claim(self, adjacency: Adjacency) -> None:
        """Raise PlanError unless the proofs of a claimed price hold; most designs claim none.

        Args:
            adjacency: The neighbour relation of the plan.
        """
        del adjacency

    def check_totals(self, adjacency: Adjacency) -> None:
        """Raise PlanError if the answers show a number of records that the adjacency does not protect.

        Args:
            adjacency: The neighbour relation.
        """
        self.check_within(adjacency)

    def check_within(self, adjacency: Adjacency) -> None:
        """Raise PlanError if an answer shows totals that its unit excludes from protection; most designs raise for any.

        Args:
            adjacency: The neighbour relation. Its unit names the attributes `within` whose totals are published.
        """
        if adjacency.unit.within:
            raise PlanError(
                "within-design-unsupported",
                "The plan is for records that are replaced within attributes, and has a design that is not by sectors.",
                "Only Gaussian noise by sectors leaves the totals by these attributes unmeasured.",
                "Publish tables of counts with Gaussian noise, or remove privacy.within.",
                "Nothing was read and nothing was charged.",
                place="within",
            )

    def fixes_size(self, adjacency: Adjacency) -> bool:
        """Return True if a release reveals the number of records.

        It does if the design refuses data with another number than declared. It also does if totals that are counted
        from the data are published with the answers.
        """
        del adjacency
        return False

    @abc.abstractmethod
    def exact_answers(self, counts: Counts, adjacency: Adjacency, records: int) -> Answers:
        """Return the answers before noise.

        Args:
            counts: The counts of the data.
            adjacency: The neighbour relation.
            records: A public bound on the number of records; it determines the width of integers.

        Raises:
            DataError: The data do not fit their declaration. The message says nothing else about the data.
        """

    @abc.abstractmethod
    def magnitude(self, records: int) -> int:
        """Return a bound on all exact answers, in absolute size, which follows from the plan.

        Args:
            records: A public bound on the number of records.
        """

    @abc.abstractmethod
    def draw(self, exact: Answers, noise: NoiseSource) -> Answers:
        """Return the noisy answers; the method may overwrite `exact`."""

    @abc.abstractmethod
    def ledger_detail(self, adjacency: Adjacency) -> dict[str, list[Any]]:
        """Return the entry of the design in a ledger: JSON values without floats."""

    @abc.abstractmethod
    def check(self, sizes: Mapping[str, int], steps: Mapping[str, tuple[int, ...]]) -> None:
        """Raise PlanError unless the design fits a domain whose attributes have these numbers of values.

        Args:
            sizes: The number of values of each attribute.
            steps: For each attribute that is an amount, the numbers of steps from each knot to the next. The method
                refuses a design with other steps, or one that takes an amount for another kind of attribute.
        """
