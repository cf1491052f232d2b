"""Plans: all decisions before the data are read, frozen, hashed and open to anyone's check.

A plan holds its publication, and one part for every group of tables and every question. A part holds the integers that
will be measured, and for tables the dual weights. They prove a lower bound on the cost of meeting the targets. Prices,
errors and certificates are *properties*: a plan recomputes them each time, also after it was read from a file.

Trust: the order that a plan makes decides the noise and the charge, so a mistake here can charge less than a release
costs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, final

from fitnoise.display import HtmlDisplay
from fitnoise.errors import FitnoiseError, PlanError, ReleaseError
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.domain import JointAxis
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.order import Order, account
from fitnoise.kernel.periods import Series
from fitnoise.kernel.units import PrivacyUnit
from fitnoise.mechanisms._base import PlanPart
from fitnoise.mechanisms.documents import disagreements, parse, within_limits
from fitnoise.mechanisms.finite.part import AnswerPart
from fitnoise.mechanisms.gaussian.series import cut, past, refuse_out_of_time
from fitnoise.mechanisms.registry import planner_by_name, suitable_planner
from fitnoise.mechanisms.summaries import TableSummary
from fitnoise.mechanisms.tables import TablePart, refuse_boundless
from fitnoise.planning.files import check_plan_place, read_text, replace_file
from fitnoise.planning.joint_axes import with_joint_axes
from fitnoise.request.arguments import checked
from fitnoise.request.curves import LossSummary, epsilon_at
from fitnoise.request.documents import Spec
from fitnoise.request.publication import Publication
from fitnoise.request.translations import Translation, languages_document

FORMAT = 4
"""The version of the plan document. A reader refuses every other version."""


@final
@dataclass(frozen=True, eq=False)
class Plan(HtmlDisplay):
    """A certified plan. Make one with :func:`fitnoise.plan`; no part of a plan depends on data.

    Attributes:
        publication: The publication that the plan answers.
        parts: One part for each group of tables in order (:class:`TablePart`), then one for each question.
        `full_series`: The plan of the complete series, for a plan of its first periods (:meth:`truncate`); otherwise
            None.

    Two plans are equal if their hashes are, and if both are of the complete series or of equally many periods.
    The accuracy and the proof of tables are in their part. `table_part`, `bound` and `gap` exist for a plan whose
    tables are all in one part. A plan with several such parts raises PlanError; use each of its `groups`.

    **Guarantees**
        * `loss` is the cost of everything that is released;
        * `bound` and `gap` keep the guarantees of :class:`TablePart`;
        * `from_json(to_json())` is an equal plan, and so is `load(save(file))`.
    """

    publication: Publication
    parts: tuple[PlanPart, ...]
    full_series: Plan | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        tables = [p.publication for p in self.groups]
        queries = [p.query for p in self.questions]
        # The lengths are compared below, with an error of their own.
        mine = zip(tables, self.publication.groups, strict=False)
        same = len(tables) == len(self.publication.groups) and all(_is_same_request(a, b) for a, b in mine)
        if not same or tuple(queries) != self.publication.questions or len(tables) + len(queries) != len(self.parts):
            raise parts_of_another_publication()
        # A plan from a file can name any mechanism, also one that ignores an option of the request.
        for p in self.groups:
            suitable_planner(p.mechanism.name, p.publication)
        if self.publication.series is not None and self.full_series is None:
            refuse_out_of_time(self.table_part)
            _ = self.series
        # Each part is below the limit, and their sum can still exceed it.
        refuse_boundless(2 * self.loss.rho)
        if self.publication.unit.parts > 1 or self.publication.domain.steps:
            # Raises if the plan cannot be drawn in parts, or if sums over `max_records` are not exact.
            _ = self.order
        if self.publication.other_units:
            # Raises if the cost of one of these units has no bound.
            self.order.losses_of_units(())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return (self.hash, self.periods) == (other.hash, other.periods)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        tables = sum(len(p.workload.tables) for p in self.publication.groups)
        title = f"{self.publication.title!r}, " if self.publication.title else ""
        unit = self.publication.unit.describe()
        return f"<Plan {title}tables={tables}, questions={len(self.questions)}, rho={self.rho:.6g}, unit={unit!r}>"

    @classmethod
    def from_parts(
        cls, publication: Publication, parts: Sequence[TablePart], questions: Sequence[Mechanism] = ()
    ) -> Self:
        """Return the plan of a publication, from parts for its tables and mechanisms for its questions.

        Args:
            publication: The publication to answer.
            parts: The parts for its tables, in the order of its groups.
            questions: One mechanism for each of its finite questions, in their order.

        Raises:
            PlanError: There are more or fewer mechanisms than questions. Or the parts do not belong to the publication,
                or the cost of a unit is too large or has no bound.
        """
        if len(questions) != len(publication.questions):
            raise other_question_count()
        pairs = zip(publication.questions, questions, strict=True)
        return cls(publication, (*parts, *(AnswerPart(publication, q, m) for q, m in pairs)))

    # --- series -------------------------------------------------------------------------------------

    @cached_property
    def series(self) -> Series | None:
        """The tables of each period, for a release period by period; None for other plans."""
        name = self.publication.series
        if name is None:
            return None
        return Series(self.order, name, tuple(map(str, self.publication.domain[name].values)))

    @property
    def periods(self) -> tuple[str | int, ...]:
        """The labels of the periods, in order; after :meth:`truncate`, of the first periods only.

        Empty if there is no series.
        """
        name = self.publication.series
        return () if name is None else self.publication.domain[name].values

    @checked(PlanError, "Nothing was measured.")
    def truncate(self, periods: int) -> Plan:
        """Return the plan of a series' first periods: their tables, with the price and proof of the complete series.

        Args:
            periods: The number of periods, at least 1.

        Returns:
            A plan whose document, hash, order and price equal those of this plan.

        Raises:
            PlanError: The plan has no series, has fewer periods or was truncated before, or `periods` is below 1.
        """
        if self.full_series is not None or not 1 <= periods <= len(self.periods):
            raise PlanError(
                "period-out-of-range",
                f"The plan has {len(self.periods)} periods, and {periods} are requested.",
                "",
                f"Give a number from 1 to {len(self.periods)}.",
                "Nothing was computed.",
            )
        request = cut(self.publication, periods)
        return Plan(request, (past(self.table_part, request, periods),), self)

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
    def table_part(self) -> TablePart:
        """The part of all tables. Raises PlanError unless there is exactly one such part."""
        if len(self.groups) != 1:
            raise PlanError(
                "several-parts",
                f"The plan has {len(self.groups)} groups of tables, each with its own design and proof.",
                "",
                "Use one of `plan.groups`.",
                "Nothing was computed.",
            )
        return self.groups[0]

    def group(self, table: str) -> TablePart:
        """Return the part that has a table.

        Raises:
            WorkloadError: There is no such table.
        """
        candidates = (p for p in self.groups if table in p.publication.workload.tables.numbered)
        part = next(candidates, None)
        if part is None:
            # Raises an error that names the tables.
            self.publication.workload.number(table)
        return part or self.table_part

    # --- price --------------------------------------------------------------------------------------

    @cached_property
    def order(self) -> Order:
        """The order that measuring follows: the designs, the unit and the limits."""
        # The first release charges the complete series, so every truncation has that order and price.
        if self.full_series is not None:
            return self.full_series.order
        request = self.publication
        caps = () if request.cap is None else (request.cap.limit("cap"),)
        return Order(
            domain=request.domain.axes,
            source=request.source,
            unit=request.unit,
            designs=tuple(p.design for p in self.parts),
            plan=self.hash,
            mechanism=" + ".join(dict.fromkeys(p.mechanism.name for p in self.groups)) or "finite",
            limits=(*(limit for i, p in enumerate(self.parts) for limit in p.limits(i)), *caps),
            sizes=tuple(size for p in self.parts for size in p.sizes),
            composed_with=request.composed_with,
            free=request.must_be_free,
            units=request.other_units,
        )

    @cached_property
    def loss(self) -> Loss:
        """The exact cost of the complete release for one protected unit, or a bound on it: the ledger's charge."""
        if self.full_series is not None:
            return self.full_series.loss
        return sum((p.loss for p in self.parts), Loss.zero())

    @cached_property
    def other_losses(self) -> tuple[tuple[PrivacyUnit, Loss], ...]:
        """The exact cost of the complete release for each of the publication's other units.

        Raises:
            PlanError: The cost for one of these units has no bound.
        """
        order, costs = self.order, self.order.losses_of_units(())
        return tuple((unit, costs[account(order.source, unit, order.domain)]) for unit in order.units)

    @property
    def rho(self) -> float:
        """ρ of the complete release, rounded up to a float. The guarantee is ρ-zCDP."""
        return rounded_up(self.loss.rho)

    @property
    def loss_summary(self) -> LossSummary:
        """The loss in the numbers that reports state: ρ, ε at the publication's δ, μ and the best guess."""
        return LossSummary(self.loss, self.publication.delta)

    @property
    def unit_summaries(self) -> tuple[tuple[PrivacyUnit, LossSummary], ...]:
        """Each unit with a charge and the numbers that reports state of its loss, the protected unit first.

        Raises:
            PlanError: The cost for another unit has no bound.
        """
        others = ((unit, LossSummary(loss, self.publication.delta)) for unit, loss in self.other_losses)
        return ((self.publication.unit, self.loss_summary), *others)

    def epsilon(self, delta: float | None = None) -> float:
        """Return ε at δ, guaranteed for the discrete noise that is used, rounded up.

        For Gaussian noise it is the smaller of two bounds. One is the exact curve, which holds for lattices as fine as
        those of plans (docs/mathematics/exact_curve.md). The other is the optimal conversion of ρ-zCDP. For a pure plan
        it is its ε at every δ. Finite answers enter the curve, or their ρ or ε is added, whichever gives less: all
        these bounds are proven.

        Args:
            delta: δ, strictly between 0 and 1; default the publication's.

        Raises:
            PlanError, ValueError: δ is outside this range and the plan is not pure, or ε exceeds floating point.
        """
        return epsilon_at(self.loss, self.publication.delta if delta is None else delta)

    # --- accuracy and proof -------------------------------------------------------------------------

    @property
    def bound(self) -> float:
        """Certified lower bound on the value (:attr:`TablePart.bound`)."""
        return self.table_part.bound

    @property
    def gap(self) -> float:
        """Value / bound − 1."""
        return self.table_part.gap

    @property
    def summaries(self) -> tuple[TableSummary, ...]:
        """One summary for each table or pattern of tables, in their order; a pattern has its worst number.

        Prices are shares of the cost of all tables. Several groups share it by their costs: in ε if all are pure,
        and in ρ otherwise.
        """
        if len(self.groups) == 1:
            return self.groups[0].summaries
        pure = [p.loss.epsilon for p in self.groups]
        costs = [p.rho if None in pure else float(x or 0) for p, x in zip(self.groups, pure, strict=True)]
        total = sum(costs) or 1.0  # free tables cost nothing
        pairs = zip(self.groups, costs, strict=True)
        return tuple(replace(s, price=s.price * cost / total) for p, cost in pairs for s in p.summaries)

    # --- document -----------------------------------------------------------------------------------

    def _document(self, tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the plan document with these entries for tables."""
        spec = Spec.from_publication(self.publication, is_measured=True).document()
        answers = [p.document() for p in self.questions]
        entries = [{"mechanism": p.mechanism.name, **t} for p, t in zip(self.groups, tables, strict=True)]
        joint = list(map(_joint_document, self._joint_axes))
        listed: dict[str, Any] = {"joint_axes": joint} if joint else {}
        language, further = self.publication.language, self.publication.translations
        texts = {"languages": languages_document(language, further)} if further or language != "en" else {}
        return {"fitnoise_plan": FORMAT, "spec": spec, **texts, **listed, "tables": entries, "questions": answers}

    @property
    def _joint_axes(self) -> tuple[JointAxis, ...]:
        """The joint cells of attributes that read one column, as the plan lists them."""
        return tuple(self.publication.domain.axes.joint.values())

    def to_json(self) -> str:
        """Return canonical JSON: equal plans give equal texts.

        Keys keep their order, because the order of the domain matters.
        """
        return self._text_and_hash[0]

    @cached_property
    def _text_and_hash(self) -> tuple[str, str]:
        if self.full_series is not None:
            return self.full_series._text_and_hash
        document = self._document([p.document() for p in self.groups])
        # The hash covers every claim; a proof adds nothing to its claim, and several proofs prove one claim. Metadata
        # and texts in further languages change nothing that is measured or charged, and may be corrected.
        tables = [{key: x for key, x in entry.items() if key != "proofs"} for entry in document["tables"]]
        spec = {key: x for key, x in document["spec"].items() if key != "metadata"}
        hashed = {key: x for key, x in document.items() if key != "languages"} | {"spec": spec, "tables": tables}
        text = _canonical(document)
        hashed_text = text if hashed == document else _canonical(hashed)
        return text, hashlib.sha256(hashed_text.encode()).hexdigest()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON without proofs of claimed prices, metadata and languages, hexadecimal."""
        return self._text_and_hash[1]

    @checked(ReleaseError, "Nothing was written.")
    def save(self, file: str | PathLike[str]) -> Path:
        """Write the plan to a file, as `fitnoise plan -o` does. The file may hold another plan, which is replaced.

        Args:
            file: The place, such as "plan.json".

        Returns:
            The path of the file.

        Raises:
            ReleaseError: The place holds something other than a plan, or cannot be written. It stays as it was.
        """
        path = Path(file)
        check_plan_place(path)
        replace_file(path, self.to_json().encode())
        return path

    @classmethod
    @checked(PlanError, "Nothing was read.")
    def load(cls, file: str | PathLike[str]) -> Self:
        """Read the file of a plan, with the checks of :meth:`from_json`.

        Args:
            file: The file, from :meth:`save` or `fitnoise plan -o`.

        Raises:
            ReleaseError: The file cannot be read.
            PlanError, SpecError, WorkloadError: As for :meth:`from_json`.
        """
        return cls.from_json(read_text(Path(file)))

    @classmethod
    @checked(PlanError, "Nothing was measured.")
    def from_json(cls, text: str) -> Self:
        """Read a plan, and check that its integers have the stated cost and that it states nothing else.

        Raises:
            PlanError: The text is not a plan, or has an unknown version. Or its parts contradict each other, or it has
                more or fewer entries than its specification and integers imply. Only its bound is left to
                :func:`fitnoise.verify`, which recomputes it.
            SpecError, WorkloadError: The specification of the plan cannot be used.
        """
        try:
            document = parse(text)
        except ValueError:
            raise PlanError(
                "plan-not-json",
                "The text is not JSON, or longer or deeper than any plan.",
                "",
                "Give the text of a plan that fitnoise wrote.",
                "Nothing was measured.",
            ) from None
        if not isinstance(document, Mapping) or "fitnoise_plan" not in document:
            raise PlanError(
                "not-a-plan",
                "The key 'fitnoise_plan' is missing, so the document is not a plan.",
                "",
                "Give a plan that fitnoise wrote.",
                "Nothing was measured.",
                place="fitnoise_plan",
            )
        version = document["fitnoise_plan"]
        if type(version) is not int or version != FORMAT:
            raise PlanError(
                "plan-version",
                f"The plan has the version {describe_value(version)}.",
                f"This fitnoise reads version {FORMAT} alone.",
                "Plan again from the specification.",
                "Nothing was measured.",
                place="fitnoise_plan",
            )
        try:
            plan, bounds = cls._read(document)
            # The stated bounds are copied: they depend on the processor in the last digits and take long to recompute.
            implied = plan._document([p.document(b) for p, b in zip(plan.groups, bounds, strict=True)])
            odd = disagreements(document, implied)
        except FitnoiseError as error:
            if error.code == "workload.too-little-memory":
                raise _make_memory_error() from None
            raise
        # The document is untrusted: its values may have any type, and each of these errors means another form.
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise PlanError(
                "plan-damaged",
                f"The plan is damaged ({type(error).__name__} while fitnoise read it).",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            ) from None
        except MemoryError:
            raise _make_memory_error() from None
        if odd:
            raise PlanError(
                "plan-contradicts-itself",
                f"The plan differs from the plan that its specification and integers imply, in {', '.join(odd[:5])}.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        return plan

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> tuple[Self, list[float]]:
        """Return the plan, and the bounds that its document states, part by part."""
        tables, finite = document["tables"], document["questions"]
        # The names come first, so that a plan of a newer fitnoise is refused for its mechanism.
        mechanisms = [planner_by_name(t["mechanism"]).mechanism for t in tables]
        publication = Spec.parse(document["spec"]).publication()
        if "languages" in document:
            stated = document["languages"]
            further = {tag: Translation.from_document(texts) for tag, texts in stated["further"].items()}
            publication = replace(publication, language=stated["main"], translations=further)
        if "joint_axes" in document:
            publication = publication.with_joint_axes(list(map(_joint_axis, document["joint_axes"])))
        # Another list gives wrong numbers, at no other cost. Only attributes of one column may stay without a list.
        must_list = "joint_axes" in document or publication.domain.rules
        if must_list and publication.domain.axes.joint != with_joint_axes(publication).domain.axes.joint:
            raise PlanError(
                "joint-axes-not-implied",
                "The plan lists other joint cells than its declarations imply.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        if not isinstance(finite, list) or len(finite) != len(publication.questions):
            raise other_question_count()
        if len(mechanisms) != len(publication.groups):
            raise parts_of_another_publication()
        parts = [TablePart.read(m, p, t) for m, p, t in zip(mechanisms, publication.groups, tables, strict=True)]
        pairs = zip(publication.questions, finite, strict=True)
        plan = cls(publication, (*parts, *(AnswerPart.read(publication, q, m) for q, m in pairs)))
        bounds = [t["cost"]["bound"] for t in tables]
        # A bound is copied into the implied document, so the comparison with that document cannot find a wrong type.
        if not all(type(b) is float for b in bounds):
            raise PlanError(
                "bound-not-float",
                "The bound of the plan is not a number with a decimal point.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        return plan, bounds


def _joint_document(one: JointAxis) -> dict[str, Any]:
    """Return the entry of a joint axis in the document of a plan."""
    classes = {name: list(row) for name, row in zip(one.names, one.classes, strict=True) if row}
    listed = {"attributes": list(one.names), "cells": [list(cell) for cell in one.cells]}
    return {**listed, **({"classes": classes} if classes else {})}


def _joint_axis(document: Mapping[str, Any]) -> JointAxis:
    """Return the joint axis of an entry that `_joint_document` wrote."""
    names, classes = tuple(document["attributes"]), document.get("classes", {})
    return JointAxis(names, tuple(map(tuple, document["cells"])), tuple(tuple(classes.get(a, ())) for a in names))


def _canonical(document: Mapping[str, Any]) -> str:
    """Return the one text of a plan document."""
    # allow_nan=False: NaN and infinity are not JSON, and other readers refuse them.
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"


def _make_memory_error() -> PlanError:
    """Return the error for a plan that this machine cannot read."""
    return PlanError(
        "plan-too-large-for-memory",
        "The plan needs more memory than this machine has.",
        "",
        "Use a machine with more memory.",
        "Nothing was measured.",
    )


def parts_of_another_publication() -> PlanError:
    """Return the error for a plan whose parts do not belong to its publication."""
    return PlanError(
        "parts-of-another-publication",
        "The parts of the plan do not belong to its publication.",
        "",
        "Use the plan as fitnoise wrote it, or plan again.",
        "Nothing was measured.",
    )


def other_question_count() -> PlanError:
    """Return the error for a plan with more or fewer mechanisms than questions."""
    return PlanError(
        "mechanism-count",
        "The plan does not have exactly one mechanism for each question with finitely many answers.",
        "",
        "Use the plan as fitnoise wrote it, or plan again.",
        "Nothing was measured.",
    )


def read_back(plan: Plan) -> Plan:
    """Read a plan back from its document, so that a release uses the plan that its readers will see.

    Args:
        plan: The plan in memory, where a subclass or a changed field can mean what no document states.

    Returns:
        The plan that `plan.json` will hold. Only its order may be charged and drawn.

    Raises:
        PlanError: Readers would see another plan than the one in memory, or none; or the plan holds only the first
            periods of a series. Nothing was measured.
        SpecError, WorkloadError: No specification can state the publication of the plan.
        ReleaseError: The document is longer than the limit for reading a plan.

    **Guarantees**
        * the hash of the returned plan is the hash of the plan in memory, recomputed from its fields;
        * their publications are equal, field by field, and have equal classes.
    """
    if plan.full_series is not None:
        raise PlanError(
            "plan-of-first-periods",
            "The plan has only the released first periods of a series.",
            "",
            "Give the plan of all periods.",
            "Nothing was measured.",
        )
    # A new object, so that no cached property of the plan is used.
    text = replace(plan).to_json()
    if not within_limits(text):
        raise ReleaseError(
            "plan-too-long",
            "The plan exceeds a limit of the files that fitnoise reads, so no reader could verify its release.",
            "",
            "Request fewer tables, or shorten names with thousands of digits in a row.",
            "Nothing was measured and nothing was charged.",
        )
    read = Plan.from_json(text)
    mine, its = plan.publication, read.publication
    # Equal hashes are not enough: the order also uses fields of the publication that a subclass could change.
    odd = [f.name for f in fields(Publication) if getattr(mine, f.name) != getattr(its, f.name)]
    odd += [] if type(mine) is Publication else ["class"]
    if odd or read.hash != plan.hash:
        what = f"in the {', '.join(odd)} of its publication" if odd else "in its parts"
        raise PlanError(
            "plan-differs-from-document",
            f"The plan in memory differs from its document {what}, through a changed field or a class "
            "that fitnoise lacks.",
            "Readers see only the document.",
            "Make the plan again with fitnoise.plan, from fitnoise's own classes.",
            "Nothing was measured and nothing was charged.",
        )
    return read


def _is_same_request(mine: Publication, request: Publication) -> bool:
    """Return True if a part is for the requested tables: made for this object, or for an equal one."""
    return mine is request or mine == request
