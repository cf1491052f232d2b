"""The interface of every mechanism: it plans a design for the requested tables and states their accuracy.

A planner (:class:`Planner`) turns a request into a part. The part holds one object for each task that depends on the
noise: the form of the design, errors, proof, intervals and descriptions.

**Trust.** A mistake here costs accuracy, never privacy: each design computes its own privacy cost
(:mod:`fitnoise.kernel.designs`).
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.kernel.designs._base import CellStructure, Design
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.order import CostLimit, DeclaredSize
from fitnoise.kernel.units import Privacy
from fitnoise.mechanisms.estimation import Estimation, SectorIndex
from fitnoise.mechanisms.numbers import TableNumbers, WeightedSums, on_distinct
from fitnoise.mechanisms.variances import variances_of
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.request.joint_axes import class_sizes, classes_along
from fitnoise.request.publication import Publication
from fitnoise.request.targets import z_score
from fitnoise.request.workloads import counts_by_class, exchangeable_attributes, used_attributes
from fitnoise.solving.certificates import Certificate
from fitnoise.solving.sectors import Decomposition, TableGroup, cells_of_totals

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


@final
@dataclass(frozen=True, eq=False)
class SearchOptions:
    """The effort of a search for a plan, and the callback that receives its progress.

    gap: Relative distance value/bound − 1 that the plan must certify. None takes the publication's gap. Without one,
        the planner chooses its aim, 1e-6 for most tables, and reports the gap it reached.
    refine: True to choose, among the plans of least cost, one whose records below the highest cost also cost least.
    start: Part of an earlier plan for similar tables, where the search starts.
    device: The device for dense matrices; None for NumPy.
    max_iterations: Most iterations of the solver for Gaussian noise.
    progress: The callback: it receives the number of a step, and the gap so far, or ε so far for Laplace noise.
    seconds: Time limit of the search for Laplace noise, which keeps the best plan found; other plans refuse it.

    Plans with Laplace noise refuse gap and refine; plans for small databases refuse refine, start and device.
    """

    gap: float | None = None
    refine: bool = False
    start: TablePart | None = None
    device: str | None = None
    max_iterations: int = 2000
    progress: Callable[[int, float], None] | None = None
    seconds: float | None = None


class PlanPart(abc.ABC):
    """The answer to one request of a publication: a design and its properties that need no data.

    **Guarantees** (`tests/laws/plans.py` checks them for every mechanism)
        * No attribute depends on data.
        * `read(document())` of its mechanism returns an equal part.
    """

    @property
    @abc.abstractmethod
    def design(self) -> Design:
        """The design that fitnoise measures for this part."""

    @property
    @abc.abstractmethod
    def loss(self) -> Loss:
        """The privacy loss charged for one protected unit: the cost of the design, or more."""

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[DeclaredSize, ...]:
        """The declared numbers of records on which the answers rely."""

    @abc.abstractmethod
    def limits(self, index: int) -> tuple[CostLimit, ...]:
        """Return the limits on the privacy cost of this part alone.

        index: The index of its design in the order.
        """


UNBIASED = Message("report.values.unbiased")
"""The description of values without bias."""


class BiasedTables(Protocol):
    """Tables with biased values, and the properties of their errors."""

    histogram: Floats
    """Synthetic records by joint cell; empty if there is no histogram."""

    noisy: Floats
    """The noisy answers that the tables approximate."""

    @property
    def has_histogram(self) -> bool:
        """True if one histogram gives all tables."""

    @property
    def simulated(self) -> Any:
        """Simulated errors of its values, by table row: `worst` and `mean`."""

    @property
    def gap(self) -> float:
        """A certified bound on the distance of the histogram from the best one, in people²."""

    @property
    def distance(self) -> float:
        """Squared distance between the answers and the noisy answers."""

    def table(self, name: str) -> Floats:
        """Return one table, in its shape."""


class Planner(abc.ABC):
    """A way to plan tables, and the mechanism of its parts."""

    mechanism: TableMechanism

    takes_public_totals = False
    """True if its parts can leave out public totals."""

    takes_classes = False
    """True if its parts can count by classes of values."""

    def supports(self, request: Publication) -> Message | None:
        """Return None if the mechanism supports these tables, or the reason against it, as a clause."""
        if request.small_database is not None:
            return Message("report.unsuitable.small_database")
        if request.public is not None and not self.takes_public_totals:
            return Message("report.unsuitable.public_totals")
        if not self.takes_classes and counts_by_class(request.workload):
            return Message("report.unsuitable.classes")
        if request.privacy is not self.mechanism.privacy:
            return Message("report.unsuitable.privacy", (Value("privacy", self.mechanism.privacy.value),))
        return None

    def is_dense(self, request: Publication) -> bool:
        """Return True if the tables have so few cells that a search over strategies on all cells is possible."""
        del request
        return self.mechanism.optimal

    @abc.abstractmethod
    def plan(self, request: Publication, effort: SearchOptions) -> TablePart:
        """Return the part of this mechanism for tables that it supports.

        Raises:
            PlanError: No plan was found, or an option does not apply to this mechanism.
            WorkloadError: The tables cannot be planned.
        """

    def plan_if_preferred(self, request: Publication, effort: SearchOptions) -> TablePart | None:
        """Return the part for tables without a named mechanism; None to leave them to the next planner.

        Raises:
            PlanError, WorkloadError: As :meth:`plan`.
        """
        return self.plan(request, effort)


class Codec(abc.ABC):
    """The form of a design: its check against the request, its sectors and its document."""

    @abc.abstractmethod
    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the design has this mechanism's form and fits the request."""

    def cell_structure(self, request: Publication) -> CellStructure:
        """Return the exchangeable and the structured attributes, and the amounts, as its design names them."""
        sizes = request.workload.domain.sizes
        free, bound = exchangeable_attributes(request.workload, request.structured_attributes)
        free += class_sizes(classes_along(request.workload.domain, bound, used_attributes(request.workload)))
        steps = request.workload.domain.steps
        amounts = tuple((a, steps[a]) for a in bound if a in steps)
        stated = request.public
        public = None if stated is None else cells_of_totals(request.workload.domain, free, bound, stated)
        return CellStructure(tuple((a, sizes[a]) for a in free), tuple((a, sizes[a]) for a in bound), amounts, public)

    @abc.abstractmethod
    def decomposition(self, part: TablePart) -> Decomposition:
        """Return the workload in sectors, as the design measures them."""

    @abc.abstractmethod
    def write(self, strategy: Any) -> Any:
        """Return the design as plain JSON values."""

    @abc.abstractmethod
    def read(self, document: Any, structure: CellStructure) -> Any:
        """Return the design that `write` wrote.

        Raises:
            PlanError: The document is not a design of this mechanism.
        """

    def sizes(self, part: TablePart) -> tuple[DeclaredSize, ...]:
        """Return the declared numbers of records on which the answers rely."""
        del part
        return ()


class PartAspect:
    """One task of a mechanism, for one part.

    Args:
        part: The tables with their design.
    """

    def __init__(self, part: TablePart) -> None:
        self.part = part


class TableErrors(PartAspect, abc.ABC):
    """The errors of the published numbers: variances, covariances and single noises."""

    @abc.abstractmethod
    def estimation(self) -> Estimation:
        """Return the rule that estimates sectors from the noisy answers."""

    def variances(self) -> Floats:
        """Return achieved variances of all tables' rows, (M,); the largest if the numbers of a row differ."""
        return variances_of(self.part.decomposition, self.part.estimation.whiteners)

    def table_variances(self, name: str) -> Floats:
        """Return achieved variances of one table, in its shape."""
        variances = self.part.variances
        return self.part.in_table_shape(name, lambda group, i: variances[group.numbers[i]])

    def worst(self, i: int) -> tuple[float, float] | None:
        """Return target and achieved variance of the i-th table's number with the largest ratio of variance to target.

        Return None if targets and variances by row suffice to find this number.
        """
        del i
        return None

    def noise_coefficients(self, adjoints: Mapping[SectorIndex, Floats]) -> tuple[Floats, float] | None:
        """Return the coefficient of each single noise in a combination, and their scale; None for normal noise.

        adjoints: The combination by sector (`rebuilding.adjoint`).
        """
        del adjoints
        return None

    def exchangeable_columns(self, i: int) -> frozenset[int]:
        """Return the columns of the i-th table by whose values covariances differ only if these agree or not."""
        del i
        return frozenset()

    @abc.abstractmethod
    def covariance(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers of the tables, (P,), in people²."""

    @abc.abstractmethod
    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return covariances of corresponding sums of numbers, (J,), in people²; None if the caller must use pairs."""


class Proof(PartAspect, abc.ABC):
    """The value of the objective, its proven bound, and the prices of tables."""

    @abc.abstractmethod
    def objective_value(self) -> float:
        """Return the value of the minimised objective, computed from the integers of the strategy."""

    @abc.abstractmethod
    def certificate(self) -> Certificate:
        """Return value and bound, recomputed from the integers and from the problem."""

    @abc.abstractmethod
    def relaxation(self) -> float:
        """Return the largest ratio of variance, or squared margin, to its target; for total error, of the totals."""

    @abc.abstractmethod
    def unbiased_bound(self) -> float | None:
        """Return a lower bound on the cost of every unbiased mechanism of this privacy; None if none is known."""

    @abc.abstractmethod
    def universal_epsilon(self) -> float | None:
        """Return a lower bound on ε for every mechanism with these variances for all data; None if none is known."""

    @abc.abstractmethod
    def prices(self) -> Floats:
        """Return −d log(value) / d log c_j of every table row j, (M,), where c_j is its target variance."""

    @abc.abstractmethod
    def separate_rho(self) -> float:
        """Return ρ of independent noise on every published number, with a separate plan for each table."""


class Intervals(PartAspect, abc.ABC):
    """The intervals of the published numbers."""

    normal: bool
    """True if the noise, and so any sum of its noises, is approximately normal."""

    @abc.abstractmethod
    def half_widths(self, group: TableGroup, i: int, confidence: float, row: int | None = None) -> Floats:
        """Return half-widths of intervals for every row of the i-th table of a group, (rows,), or for one row, (1,)."""

    @abc.abstractmethod
    def table_margins(self, name: str, confidence: float) -> Floats:
        """Return half-widths of intervals for the numbers of one table, in its shape."""


@final
class NormalIntervals(Intervals):
    """Normal quantiles times the standard errors."""

    normal = True

    def half_widths(self, group: TableGroup, i: int, confidence: float, row: int | None = None) -> Floats:
        """Return normal quantiles times the standard errors of the rows."""
        numbers = self.part.variances[group.numbers[i]]
        return np.asarray(z_score(confidence) * np.sqrt(numbers if row is None else numbers[row : row + 1]))

    def table_margins(self, name: str, confidence: float) -> Floats:
        """Return normal quantiles times the standard errors of the numbers."""
        z = z_score(confidence)
        return on_distinct(lambda x: np.asarray(z * np.sqrt(x)), self.part.table_variances(name))


class Descriptions(PartAspect, abc.ABC):
    """The descriptions of the noise, the bias and the proof, for reports and for release.json."""

    price_heading: Message
    """The quantity to which the shares of tables refer."""

    equal_cost: Message = Message("report.profile.equal")
    """The statement for a profile in which all cells have the same cost."""

    @abc.abstractmethod
    def describe_noise(self) -> dict[str, Any]:
        """Return the description of the noise, which release.json has with ids in place of messages."""

    def describe_bias(self) -> tuple[Message, ...]:
        """Return the description of the bias of the values."""
        return (UNBIASED,)

    def describe_gap(self) -> Message:
        """Return the distance from the bound."""
        return Message("report.gap.relative", (Value("gap", self.part.certificate.gap, ValueKind.GAP),))

    def report_setting(self) -> Section:
        """Return the report's section on a small database."""
        return Section(Message("report.section.database"), values=(Value("setting", None),))

    @abc.abstractmethod
    def report_proof(self) -> Iterator[Section]:
        """Yield the report's sections on the value and on the bound."""

    def report_universal_bounds(self) -> Iterator[Section]:
        """Yield the sections on mechanisms of any kind: unbiased near one data set, and with targets for all data."""
        yield from self._universal_bounds((), ())

    def _universal_bounds(self, unbiased: Sequence[Message], universal: Sequence[Message]) -> Iterator[Section]:
        """Yield both sections with their values and these messages."""
        part, messages = self.part, [*universal]
        if universal and part.publication.adjacency.fixes_size:
            messages.append(Message("report.universal.any_number"))
        yield Section(
            Message("report.section.unbiased"), tuple(unbiased), (Value("unbiased_bound", part.unbiased_bound),)
        )
        value = Value("universal_epsilon", part.universal_epsilon)
        yield Section(Message("report.section.universal"), tuple(messages), (value,))


class BiasedEstimator(PartAspect, abc.ABC):
    """A second estimate of the tables: biased but more accurate than the unbiased one."""

    @abc.abstractmethod
    def is_synthetic(self) -> bool:
        """Return True if all tables are those of one synthetic histogram."""

    @abc.abstractmethod
    def rebuild(self, answers: Sequence[Exact], histogram: Floats | None = None) -> BiasedTables:
        """Return the biased tables.

        histogram: The released histogram; None computes it.
        """


@final
@dataclass(frozen=True, eq=False)
class TableMechanism:
    """A method to answer tables: one object, or the class of its objects, for each task that depends on the noise.

    :class:`TablePart` has everything else.

    name: The name in documents.
    codec: The form of its designs.
    errors, proof, descriptions: The classes of the objects that a part holds.
    privacy: The kind of privacy that it gives.
    intervals: The class of its intervals.
    estimator: The class of its second, biased estimate; None if it has none.
    family: The name of its strategies in comparisons with other noise.
    optimal: True if it searches all strategies, and not only those of one form.

    Raises:
        TypeError: One of the classes lacks an abstract member.
    """

    name: str
    codec: Codec
    errors: type[TableErrors]
    proof: type[Proof]
    descriptions: type[Descriptions]
    privacy: Privacy = Privacy.ZCDP
    intervals: type[Intervals] = NormalIntervals
    estimator: type[BiasedEstimator] | None = None
    family: str = ""
    optimal: bool = False

    def __post_init__(self) -> None:
        for aspect in (self.errors, self.proof, self.intervals, self.descriptions, self.estimator):
            # Without this check, a missing member would be found only when a part first needs it.
            if aspect is not None and inspect.isabstract(aspect):
                missing = ", ".join(sorted(aspect.__abstractmethods__))
                raise TypeError(f"The class {aspect.__name__} of the mechanism {self.name!r} lacks {missing}.")
