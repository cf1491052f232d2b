"""Plans: everything decided before the data are looked at, frozen, hashed and open to anyone's check.

A plan holds the publication it answers, and for every request in it a part: the integers that will be measured, and the
dual weights that prove nothing cheaper could meet the targets. Prices, errors and certificates are *properties*:
recomputed whenever they are asked for, also after reading a plan from a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

from fitnoise.errors import FitnoiseError, PlanError, ReleaseError
from fitnoise.kernel.arguments import checked, shown
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.order import Order, account
from fitnoise.kernel.periods import Series
from fitnoise.kernel.units import PrivacyUnit
from fitnoise.mechanisms._base import Estimation, Part
from fitnoise.mechanisms.documents import disagreements, parse, within_limits
from fitnoise.mechanisms.finite.part import AnswerPart
from fitnoise.mechanisms.gaussian.series import cut, past, refuse_out_of_time
from fitnoise.mechanisms.registry import named
from fitnoise.mechanisms.summaries import FiniteSummary, TableSummary
from fitnoise.mechanisms.tables import TablePart, refuse_boundless
from fitnoise.reporting import Displayed
from fitnoise.request.documents import Spec
from fitnoise.request.publication import Publication, Setting
from fitnoise.solving.certificates import Certificate, Evidence, Terms
from fitnoise.solving.sectors import Decomposition

FORMAT = 3
"""The version of the plan document. A reader refuses every other version."""


@final
@dataclass(frozen=True, eq=False)
class Plan(Displayed):
    """A certified plan. Make one with :func:`fitnoise.plan`; nothing in it depends on data.

    Attributes:
        publication: what was asked for.
        parts: one for every request of it, in order: tables (:class:`TablePart`), then questions.
        whole: of what is known of a series after some periods (:meth:`through`), the plan of all; None of others.

    What is said of *the tables* (`bound`, `variances`, …) is said of a plan whose tables are all of one part; of
    several each part says it, and the plan raises PlanError.

    **Guarantees**
        * `cost_squared` is the exact cost of the tables' design for one protected unit, rounded up to a float;
        * `exact_rho` and `exact_epsilon` are of everything that is released;
        * `bound`, `variances`: as of :class:`TablePart`;
        * `from_json(to_json())` is the same plan with the same `hash`.
    """

    publication: Publication
    parts: tuple[Part, ...]
    whole: Plan | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        tables = [p.publication for p in self.groups]
        asked = [p.query for p in self.questions]
        mine = zip(tables, self.publication.groups, strict=False)
        same = len(tables) == len(self.publication.groups) and all(_alike(a, b) for a, b in mine)
        if not same or tuple(asked) != self.publication.finite or len(tables) + len(asked) != len(self.parts):
            raise PlanError("the parts of a plan are not those of its publication. Nothing was measured.")
        if any(not p.mechanism.suits(p.publication) for p in self.groups):
            raise PlanError("tables of a plan are answered by another mechanism than they ask for.")
        if self.publication.series is not None and self.whole is None:
            refuse_out_of_time(self.only)
            _ = self.series
        refuse_boundless(2 * self.loss.rho)
        if self.publication.unit.parts > 1 or self.publication.domain.steps:
            _ = self.order  # raises where it cannot be drawn in parts, or sums over `max_records` are not exact
        if self.publication.other_units:
            self.order.also(())  # raises where nothing bounds what one of them pays

    def __repr__(self) -> str:
        tables = sum(len(p.workload.tables) for p in self.publication.groups)
        title = f"{self.publication.title!r}, " if self.publication.title else ""
        unit = self.publication.unit.describe()
        return f"<Plan {title}tables={tables}, questions={len(self.questions)}, rho={self.rho:.6g}, unit={unit!r}>"

    @classmethod
    def of(cls, publication: Publication, parts: Sequence[TablePart], questions: Sequence[Mechanism] = ()) -> Self:
        """The plan of a publication, from parts for its tables and mechanisms for its questions.

        Args:
            publication: what was asked.
            parts: for its tables, in the order of its groups.
            questions: a mechanism for each of its finite questions, in their order.

        Raises:
            PlanError: there are more or fewer mechanisms than questions.
        """
        if len(questions) != len(publication.finite):
            raise PlanError("the mechanisms of a plan are not those of its questions. Nothing was measured.")
        asked = zip(publication.finite, questions, strict=True)
        return cls(publication, (*parts, *(AnswerPart(publication, q, m) for q, m in asked)))

    # --- series -------------------------------------------------------------------------------------

    @cached_property
    def series(self) -> Series | None:
        """What is drawn in each period, where it is released period by period; None of other plans."""
        name = self.publication.series
        return None if name is None else Series(self.order, name)

    @property
    def periods(self) -> tuple[str | int, ...]:
        """The labels of its periods, in order; of :meth:`through`, as far as it goes. None where it is no series."""
        name = self.publication.series
        return () if name is None else self.publication.domain[name].values

    @checked(PlanError, "Nothing was measured.")
    def through(self, periods: int) -> Plan:
        """What is known of a series after so many periods: its tables as far as they go, the price and proof of all.

        Args:
            periods: how many, from 1.

        Returns:
            A plan whose document, hash, order and price are those of this one.

        Raises:
            PlanError: it is no series, or has fewer periods.
        """
        if self.whole is not None or not 1 <= periods <= len(self.periods):
            raise PlanError(f"this plan has {len(self.periods)} periods, and {periods} were asked for.")
        asked = cut(self.publication, periods)
        return Plan(asked, (past(self.only, asked, periods),), self)

    # --- parts --------------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[TablePart, ...]:
        """The parts for tables."""
        return tuple(p for p in self.parts if isinstance(p, TablePart))

    @cached_property
    def questions(self) -> tuple[AnswerPart, ...]:
        """The parts for questions with finitely many answers."""
        return tuple(p for p in self.parts if isinstance(p, AnswerPart))

    @property
    def only(self) -> TablePart:
        """The part of all tables; PlanError where there is none, or more than one."""
        if len(self.groups) != 1:
            raise PlanError(
                f"the plan has {len(self.groups)} parts for tables, each with its own design and proof: ask one of "
                "`plan.groups`."
            )
        return self.groups[0]

    def group(self, table: str) -> TablePart:
        """The part that has a table.

        Raises:
            WorkloadError: there is no such table.
        """
        own = (p for p in self.groups if table in p.publication.workload.tables.numbered)
        found = next(own, None)
        if found is None:
            self.publication.workload.number(table)  # says what there is
        return found or self.only

    @property
    def strategy(self) -> Any:
        """The integers that will be measured for the tables."""
        return self.only.strategy

    @property
    def evidence(self) -> Evidence:
        """Dual weights, which prove the bound."""
        return self.only.evidence

    @property
    def status(self) -> str:
        """How the optimisation ended, as a sentence."""
        return "; ".join(p.status for p in self.groups)

    @property
    def setting(self) -> Setting | None:
        """Of a small database how it is measured and estimated."""
        return self.only.setting

    @property
    def finite(self) -> tuple[Mechanism, ...]:
        """The mechanisms of the publication's questions with finitely many answers, in their order."""
        return tuple(p.mechanism for p in self.questions)

    @property
    def decomposition(self) -> Decomposition:
        """The workload in sectors."""
        return self.only.decomposition

    @property
    def terms(self) -> Terms:
        """What was minimised, in the letters of certificates."""
        return self.only.terms

    @property
    def estimation(self) -> Estimation:
        """How sectors are estimated from the noisy answers."""
        return self.only.estimation

    @property
    def mechanism(self) -> str:
        """What the mechanism is called in documents: of several, all of them."""
        return " + ".join(dict.fromkeys(p.mechanism.name for p in self.groups)) or "finite"

    # --- price --------------------------------------------------------------------------------------

    @cached_property
    def order(self) -> Order:
        """What measuring is told: the designs, for whom, and under which limits."""
        if self.whole is not None:
            return self.whole.order
        asked = self.publication
        caps = () if asked.cap is None else (asked.cap.limit("cap"),)
        return Order(
            domain=asked.domain,
            source=asked.source,
            unit=asked.unit,
            designs=tuple(p.design for p in self.parts),
            plan=self.hash,
            mechanism=self.mechanism,
            limits=(*(limit for i, p in enumerate(self.parts) for limit in p.limits(i)), *caps),
            sizes=tuple(size for p in self.parts for size in p.sizes),
            beside=asked.beside,
            free=asked.free,
            units=asked.other_units,
        )

    @cached_property
    def loss(self) -> Loss:
        """What all that is released costs one protected unit, exact, or more: what the ledger will be charged."""
        if self.whole is not None:
            return self.whole.loss
        return sum((p.loss for p in self.parts), Loss.nothing())

    @cached_property
    def other_losses(self) -> tuple[tuple[PrivacyUnit, Loss], ...]:
        """What all that is released costs each of the publication's other units, exact.

        Raises:
            PlanError: nothing bounds it for one of them.
        """
        order, costs = self.order, self.order.also(())
        return tuple((unit, costs[account(order.source, unit, order.domain)]) for unit in order.units)

    @property
    def exact_cost(self) -> Fraction:
        """Twice ρ of the tables for one protected unit, exact, from the integers: Δ², or ε² of pure tables."""
        return self.only.exact_cost if self.whole is None else self.whole.exact_cost

    @property
    def exact_epsilon(self) -> Fraction | None:
        """ε of a pure plan for one protected unit, exact; None for Gaussian noise, which keeps no ε without a δ."""
        return self.loss.epsilon

    @property
    def finite_epsilons(self) -> tuple[Fraction, ...]:
        """What each finite answer costs one protected unit, proven: at most what its question asked for."""
        return tuple(p.exact_epsilon for p in self.questions)

    @property
    def cost_squared(self) -> float:
        """Δ² of the tables, rounded up."""
        return rounded_up(self.exact_cost)

    @property
    def exact_rho(self) -> Fraction:
        """ρ, exact: of all that is released. The guarantee is ρ-zCDP."""
        return self.loss.rho

    @property
    def rho(self) -> float:
        """ρ, rounded up."""
        return rounded_up(self.exact_rho)

    @property
    def mu(self) -> float:
        """μ = Δ, of the continuous Gaussian mechanism as private as this one; of a pure plan, what its ε implies.

        Finite answers add what their ε implies: the root of the sum of squares.
        """
        return self.loss.mu

    def epsilon(self, delta: float | None = None) -> float:
        """ε at δ (default: the publication's), guaranteed for the discrete noise that is used, rounded up.

        By the exact curve of Gaussian noise, which holds for lattices as fine as those of plans (docs/exact_curve.md),
        or by the optimal conversion of ρ-zCDP, whichever is less. Of a pure plan its ε, whatever δ. What finite
        answers cost is put on the curve, or their ρ or ε is added, whichever gives less: all are proven.

        Args:
            delta: strictly between 0 and 1; default the publication's.

        Raises:
            PlanError, ValueError: no such δ, or more than a number can say.
        """
        return self.loss.epsilon_at(self.publication.delta if delta is None else delta)

    @property
    def best_guess(self) -> float:
        """The probability with which anyone at most tells whom the release was made of, of two neighbouring databases.

        Of someone who knows both, held them for equally likely, and sees everything released; ½ is what a coin reaches.
        """
        return self.loss.best_guess

    @property
    def profile(self) -> Floats:
        """Squared cost of one record in each structured cell (n_o,): the cells of a matrix workload, in C order."""
        return self.only.profile

    @property
    def slack(self) -> Floats:
        """How much less than the dearest one record in each structured cell costs, (n_o,): paid for and not used."""
        return self.only.slack

    @property
    def exact_weighted_cost(self) -> Fraction:
        """Max_o prof_o/r_o for one protected unit, exact: Δ² where all cells have the same budget, as r ≤ 1."""
        return self.only.exact_weighted_cost

    # --- accuracy and proof -------------------------------------------------------------------------

    @property
    def value(self) -> float:
        """What the integers reach of what was minimised (:attr:`TablePart.value`)."""
        return self.only.value

    @property
    def variances(self) -> Floats:
        """Achieved variances, in people² (:attr:`TablePart.variances`)."""
        return self.only.variances

    @property
    def relaxation(self) -> float:
        """Largest achieved variance over target (:attr:`TablePart.relaxation`)."""
        return self.only.relaxation

    @property
    def certificate(self) -> Certificate:
        """Value and bound, recomputed from the integers and from the problem."""
        return self.only.certificate

    @property
    def bound(self) -> float:
        """Certified lower bound on the value (:attr:`TablePart.bound`)."""
        return self.only.bound

    @property
    def gap(self) -> float:
        """Value / bound − 1."""
        return self.only.gap

    @property
    def ratio(self) -> float:
        """Value / bound: what is said of pure plans, which no bound known is near to."""
        return self.only.ratio

    @property
    def unbiased_bound(self) -> float | None:
        """What any unbiased mechanism with these variances costs at least, as of :attr:`TablePart.unbiased_bound`."""
        return self.only.unbiased_bound

    @property
    def separate_rho(self) -> float:
        """ρ of the usual alternative: independent noise on every published number, each table on its own."""
        return self.only.separate_rho

    @property
    def shares(self) -> Floats:
        """The price of every table (see :class:`TableSummary`), in the order of the tables."""
        return self.only.shares

    def table_margins(self, name: str, confidence: float | None = None) -> Floats:
        """Half-widths of intervals for the numbers of one table (:meth:`TablePart.table_margins`).

        Args:
            name: of the table.
            confidence: of each interval; default the table's own, or the workload's.

        Returns:
            In people (or units of a sum), in the table's shape.

        Raises:
            WorkloadError: there is no such table.
        """
        return self.group(name).table_margins(name, confidence)

    def table_variances(self, name: str) -> Floats:
        """Achieved variances of one table, in the table's shape.

        Args:
            name: of the table.

        Returns:
            In people², or squared units of a sum.

        Raises:
            WorkloadError: there is no such table.
        """
        return self.group(name).table_variances(name)

    @property
    def numbers(self) -> int:
        """How many numbers will be published in tables."""
        return sum(p.numbers for p in self.groups)

    @property
    def answers(self) -> int:
        """How many noisy answers will be measured for tables."""
        return sum(p.answers for p in self.groups)

    @property
    def tables(self) -> Sequence[TableSummary]:
        """One summary per table, made when it is asked for."""
        return self.groups[0].tables if len(self.groups) == 1 else [t for p in self.groups for t in p.tables]

    @property
    def summaries(self) -> tuple[TableSummary, ...]:
        """One summary for each table, or pattern of tables with its worst number, as they were asked for."""
        return tuple(s for p in self.groups for s in p.summaries)

    def summary(self, i: int) -> TableSummary:
        """What the plan promises for the i-th table.

        Args:
            i: which, from 0, in the order of `tables`.

        Raises:
            IndexError: there are fewer.
        """
        return self.tables[i]

    @property
    def finite_summaries(self) -> tuple[FiniteSummary, ...]:
        """What is promised of each question with finitely many answers, in their order."""
        return tuple(p.summary for p in self.questions)

    # --- document -----------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        if self.whole is not None:
            return self.whole.document()
        return self._document([p.document() for p in self.groups])

    def _document(self, tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The same, with what is said of tables."""
        spec = Spec.of(self.publication).document()
        answers = [p.document() for p in self.questions]
        said = [{"mechanism": p.mechanism.name, **t} for p, t in zip(self.groups, tables, strict=True)]
        return {"fitnoise_plan": FORMAT, "spec": spec, "tables": said, "finite": answers}

    def to_json(self) -> str:
        """Canonical JSON: the same plan gives the same text. Keys keep their order: the domain's has a meaning."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return json.dumps(self.document(), separators=(",", ":"), allow_nan=False) + "\n"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    @checked(PlanError, "Nothing was measured.")
    def from_json(cls, text: str) -> Self:
        """Read a plan and check that its integers cost what it says, and that it says nothing else.

        Raises:
            PlanError: not a plan, of an unknown version, one whose parts contradict each other, or that says more or
                less than the plan that is read. Only its bound is left to :func:`verify`, which computes it anew.
            SpecError, WorkloadError: its specification cannot be used.
        """
        try:
            document = parse(text)
        except ValueError:
            raise PlanError(
                "this is not a plan: it is not JSON, or larger or deeper than a plan is. Nothing was measured."
            ) from None
        if not isinstance(document, Mapping) or "fitnoise_plan" not in document:
            raise PlanError("this is not a plan: the key 'fitnoise_plan' is missing. Nothing was measured.")
        version = document["fitnoise_plan"]
        if type(version) is not int or version != FORMAT:
            raise PlanError(
                f"this plan is of version {shown(version)}. This fitnoise reads version {FORMAT} alone. Plan again "
                "from the specification. Nothing was measured."
            )
        try:
            plan, bounds = cls._read(document)
            implied = plan._document([p.document(b) for p, b in zip(plan.groups, bounds, strict=True)])
            odd = disagreements(document, implied)
        except FitnoiseError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise PlanError(
                f"the plan is damaged ({type(error).__name__} while reading it). Nothing was measured."
            ) from None
        except MemoryError:
            raise PlanError("the plan needs more memory than there is. Nothing was measured.") from None
        if odd:
            raise PlanError(f"this plan would say otherwise on {', '.join(odd[:5])}. Nothing was measured.")
        return plan

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> tuple[Self, list[float]]:
        """Return the plan, and the bounds it states, part by part."""
        tables, finite = document["tables"], document["finite"]
        mechanisms = [named(t["mechanism"]) for t in tables]
        publication = Spec.parse(document["spec"]).publication()
        if not isinstance(finite, list) or len(finite) != len(publication.finite):
            raise PlanError("a plan has one mechanism for each question with finitely many answers; this one has not.")
        if len(mechanisms) != len(publication.groups):
            raise PlanError("the parts of a plan are not those of its publication. Nothing was measured.")
        parts = [TablePart.read(m, p, t) for m, p, t in zip(mechanisms, publication.groups, tables, strict=True)]
        asked = zip(publication.finite, finite, strict=True)
        plan = cls(publication, (*parts, *(AnswerPart.read(publication, q, m) for q, m in asked)))
        bounds = [t["cost"]["bound"] for t in tables]
        if not all(type(b) is float for b in bounds):
            raise PlanError("the bound of a plan is a number with a fraction. Nothing was measured.")
        return plan, bounds


def read_back(plan: Plan) -> Plan:
    """Read a plan back from its document: a release is made of the plan that its readers will see.

    Args:
        plan: as it is in memory, where an own class or a changed field may mean what no document says.

    Returns:
        The plan that `plan.json` will hold. Only its order is to be charged and drawn.

    Raises:
        PlanError: Readers would see another plan than the one in memory, or none; or the plan holds only the first
            periods of a series. Nothing was measured.
        SpecError, WorkloadError: No specification can say what the plan asks.
        ReleaseError: The document is longer than what is read of any plan.

    **Guarantees**
        * the hash of the plan that is returned is that of the plan in memory, whose document is written again for it;
        * their publications are equal, field by field, and of the same classes.
    """
    if plan.whole is not None:
        raise PlanError(
            "the plan holds the first periods of a series, as they were released. Give the plan of all periods. "
            "Nothing was measured."
        )
    text = replace(plan).to_json()  # a new object: nothing that the plan computed before is believed
    if not within_limits(text):
        raise ReleaseError(
            "the plan is longer than what is read of any plan, so that no one could verify its release. Ask for fewer "
            "tables. Nothing was measured and nothing was charged."
        )
    read = Plan.from_json(text)
    mine, its = plan.publication, read.publication
    odd = [f.name for f in fields(Publication) if getattr(mine, f.name) != getattr(its, f.name)]
    odd += [] if type(mine) is Publication else ["class"]
    if odd or read.hash != plan.hash:
        what = f"in the {', '.join(odd)} of its publication" if odd else "in its parts"
        raise PlanError(
            f"the plan in memory and its document differ {what}: a field was changed after the plan was made, or is of "
            "a class that fitnoise does not have. Readers see the document alone. Make the plan again with "
            "fitnoise.plan, of fitnoise's own classes. Nothing was measured and nothing was charged."
        )
    return read


def _alike(mine: Publication, asked: Publication) -> bool:
    """Whether a part is for the tables that are asked: made for another object that says the same, or the same."""
    return mine is asked or mine == asked
