"""What every mechanism keeps to: it turns what is asked into a design, and says how good its answers are.

A mistake here costs accuracy, never privacy: a design says itself what it costs (:mod:`fitnoise.kernel.designs`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.designs._base import Cells, Design
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.order import Limit, Size
from fitnoise.kernel.units import Privacy
from fitnoise.mechanisms.gaussian.rounding import variances_of
from fitnoise.reporting import Section, Value
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import exchangeable_attributes
from fitnoise.solving.certificates import Certificate
from fitnoise.solving.sectors import Decomposition, TableGroup

if TYPE_CHECKING:
    from fitnoise.mechanisms.numbers import Numbers, Weighted
    from fitnoise.mechanisms.tables import TablePart

Place = tuple[int, int]
"""A sector: its group, and its place there."""


@final
@dataclass(frozen=True, eq=False)
class Effort:
    """How hard to try, and who is told.

    gap: relative distance value/bound − 1 that must be certified. refine: of all plans of least cost the one in which
    all other records pay as little as they can. start: a part for tables like these. device: for dense matrices.
    seconds: after which a search that proves no optimum is left, with the best found.
    """

    gap: float | None = None
    refine: bool = False
    start: TablePart | None = None
    device: str | None = None
    max_iterations: int = 2000
    progress: Callable[[int, float], None] | None = None
    seconds: float | None = None


class Part(abc.ABC):
    """What answers one request of a publication: its design, and what is known of it without data.

    **Guarantees**, which `check_mechanism` tests for every mechanism there is
        * nothing in it depends on data;
        * `read(document())` by its mechanism is the same part.
    """

    @property
    @abc.abstractmethod
    def design(self) -> Design:
        """What is measured for it."""

    @property
    @abc.abstractmethod
    def loss(self) -> Loss:
        """What is charged for it, for one protected unit: what the design costs, or more."""

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[Size, ...]:
        """How many records the data were declared to have, where its answers rely on it."""

    @abc.abstractmethod
    def limits(self, place: int) -> tuple[Limit, ...]:
        """What it may cost by itself. place: of its design in the order."""


class Estimation(Protocol):
    """How the sectors of tables are estimated from noisy answers."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many noisy answers each group has."""

    @property
    def whiteners(self) -> list[Floats]:
        """W with W Wᵀ the covariance of θ_S from answers of its own, for every sector of each group, (K, k, k)."""

    def estimates(self, answers: Sequence[Exact], group: int, sectors: Indices) -> Floats:
        """θ_S of some sectors of a group, all of the same sizes, (K, n_a for a in S…, k)."""

    def covariance(self, f: Mapping[Place, Floats], h: Mapping[Place, Floats]) -> float:
        """Of two combinations of what sectors are estimated to be (`rebuilding.pulled`)."""

    def moved(self, f: Mapping[Place, Floats]) -> Mapping[Place, Floats]:
        """How each sector's estimate varies with a combination of them: cov(θ) f."""


class AxisEstimation(Estimation, Protocol):
    """The same of a workload by axis."""

    def spread(self, axis: int) -> Floats:
        """How a sum over an attribute is shared out among its values where they are estimated apart, (n_a,)."""


class Sectored(Protocol):
    """Tables in sectors, and how these are estimated: all that rebuilding and covariances need to know of a part."""

    @property
    def publication(self) -> Publication:
        """What was asked of the tables."""

    @property
    def decomposition(self) -> Decomposition:
        """The tables in sectors."""

    @property
    def estimation(self) -> Estimation:
        """How sectors are estimated."""


UNBIASED = "unbiased estimates; they may be negative and are not rounded"


UNBIASED_ROUNDING = 1e-12
"""By how much a bound for all unbiased mechanisms is lowered: more than its floats are off."""


class Biased(Protocol):
    """Tables whose values are biased, with what is known of their errors."""

    histogram: Floats
    """Of synthetic records, by joint cell; empty where there is none."""

    noisy: Floats
    """The noisy answers it was made near to."""

    @property
    def whole(self) -> bool:
        """Whether there is a histogram that all tables are of."""

    @property
    def simulated(self) -> Any:
        """Simulated errors of its values, by table row: `worst` and `mean`."""

    @property
    def gap(self) -> float:
        """How far the histogram may be from the best."""

    @property
    def distance(self) -> float:
        """Squared distance of the answers from the noisy ones."""

    def table(self, name: str) -> Floats:
        """One table, in its shape."""


class TableMechanism(abc.ABC):
    """One way of answering tables: what differs between noises. Everything else is :class:`TablePart`'s."""

    name: str
    """What it is called in documents."""

    privacy: Privacy
    """What it promises."""

    unbiased: bool
    """Whether the values it releases are unbiased."""

    share: str
    """What the shares of tables are of."""

    alike: str = "every record pays the same"
    """What is said where no cell is cheaper than another."""

    normal: bool
    """Whether its noise, and so any sum of it, is as good as normal."""

    family: str = ""
    """What its strategies are called beside those of other noise."""

    optimal: bool = False
    """Whether it looks for the best of all strategies, and not only among those of a form of its own."""

    def answers(self, asked: Publication) -> bool:
        """Whether it is the one that these tables ask for: unless they say more, that of their promise."""
        return asked.privacy is self.privacy and asked.small is None

    def suits(self, asked: Publication) -> bool:
        """Whether it may be what answers these tables."""
        return self.answers(asked)

    def in_full(self, asked: Publication) -> bool:
        """Whether tables that it answers have so few cells that strategies over all of these can be searched for."""
        del asked
        return self.optimal

    @abc.abstractmethod
    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the design is one of this mechanism, for what is asked."""

    def complete(self, part: TablePart) -> TablePart:
        """The tables of all periods, of those of the first periods of a series; the part itself of all others."""
        return part

    @abc.abstractmethod
    def decomposition(self, part: TablePart) -> Decomposition:
        """The workload in sectors, as the design measures them."""

    @abc.abstractmethod
    def estimation(self, part: TablePart) -> Estimation:
        """How sectors are estimated from the noisy answers."""

    @abc.abstractmethod
    def value(self, part: TablePart) -> float:
        """What the integers reach of what was minimised."""

    @abc.abstractmethod
    def certificate(self, part: TablePart) -> Certificate:
        """Value and bound, recomputed from the integers and from the problem."""

    @abc.abstractmethod
    def relaxation(self, part: TablePart) -> float:
        """Largest achieved variance over target, or squared margin over the one asked."""

    @abc.abstractmethod
    def half_widths(
        self, part: TablePart, group: TableGroup, i: int, confidence: float, row: int | None = None
    ) -> Floats:
        """Half-widths of intervals for every row of the i-th of some tables, or for one."""

    def worst(self, part: TablePart, i: int) -> tuple[float, float] | None:
        """Of the number of the i-th table that is worst for its target, the variances asked and achieved.

        None where the rows of a table tell it.
        """
        del part, i
        return None

    def single(self, part: TablePart, pulled: Mapping[Place, Floats]) -> tuple[Floats, float] | None:
        """The coefficient of every single noise in a combination of numbers, and their scale; None of normal noise.

        pulled: the combination by sector (`rebuilding.pulled`).
        """
        del part, pulled
        return None

    @abc.abstractmethod
    def between(self, one: Numbers, other: Numbers) -> Floats:
        """Covariances of pairs of numbers of its tables, (P,), in people²."""

    def sums(self, one: Weighted, other: Weighted, length: int) -> Floats | None:
        """Covariances of sums of many numbers, one by one, (J,), in people²; None where pairs are gone through."""
        del one, other, length
        return None

    @abc.abstractmethod
    def prices(self, part: TablePart) -> Floats:
        """−d log(value) / d log c_j of every table row j, (M,)."""

    @abc.abstractmethod
    def separate_rho(self, part: TablePart) -> float:
        """ρ of independent noise on every published number, each table on its own."""

    @abc.abstractmethod
    def write(self, part: TablePart) -> Any:
        """The design as plain JSON values."""

    @abc.abstractmethod
    def read(self, document: Any, over: Cells) -> Any:
        """The design that `write` wrote.

        Raises:
            PlanError: it is none.
        """

    def over(self, asked: Publication) -> Cells:
        """The attributes as its design names them."""
        sizes = asked.workload.domain.sizes
        free, bound = exchangeable_attributes(asked.workload, asked.apart)
        steps = asked.workload.domain.steps
        amounts = tuple((a, steps[a]) for a in bound if a in steps)
        return Cells(tuple((a, sizes[a]) for a in free), tuple((a, sizes[a]) for a in bound), amounts)

    def variances(self, part: TablePart) -> Floats:
        """Achieved variances of all tables' rows, (M,); the largest, where numbers of one row differ."""
        return variances_of(part.decomposition, part.estimation.whiteners)

    def table_variances(self, part: TablePart, name: str) -> Floats:
        """Achieved variances of one table, in its shape."""
        return part.shaped(name, part.variances[part.decomposition.layout(part.number(name)).rows])

    def table_margins(self, part: TablePart, name: str, confidence: float) -> Floats:
        """Half-widths of intervals for the numbers of one table, in its shape."""
        group, i = part.decomposition.place(part.number(name))
        return part.shaped(name, self.half_widths(part, group, i, confidence))

    def unbiased_bound(self, part: TablePart) -> float | None:
        """What no unbiased mechanism of the same promise, of any kind, costs less than; None where none is known."""
        del part
        return None

    def far(self, certificate: Certificate) -> str:
        """How far from the bound, in words."""
        return f"gap {certificate.gap:.1e}"

    def sizes(self, part: TablePart) -> tuple[Size, ...]:
        """How many records the data were declared to have, where the answers rely on it."""
        del part
        return ()

    def words(self, part: TablePart) -> str:
        """What is said of the values."""
        del part
        return UNBIASED

    def about(self, part: TablePart) -> Section:
        """What a report says of a small database."""
        del part
        return Section("database", values=(Value("setting", None),))

    @abc.abstractmethod
    def proof(self, part: TablePart) -> Iterator[Section]:
        """What a report says of what was reached, and of what nothing can beat."""

    def beyond(self, part: TablePart) -> Section:
        """What a report says of mechanisms of any kind."""
        del part
        return Section("unbiased", values=(Value("unbiased_bound", None),))

    def synthetic(self, part: TablePart) -> bool:
        """Whether it releases a synthetic histogram."""
        del part
        return False

    def biased(self, part: TablePart, answers: Sequence[Exact], histogram: Floats | None = None) -> Biased | None:
        """Tables whose values are biased and nearer, beside the unbiased ones; None of mechanisms without.

        histogram: as it was released; None computes it.
        """
        del part, answers, histogram
        return None

    @abc.abstractmethod
    def describe(self, part: TablePart) -> dict[str, Any]:
        """What release.json says of the noise."""
