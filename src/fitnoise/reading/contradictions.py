"""Contradictions between published numbers and rules that are stated about them. Post-processing only.

A rule fixes linear forms of the true numbers at 0, or states that they are at least 0. If the rule is right, a form of
the published numbers is noise, or at least noise. `REFUSED` bounds the probability that any right rule is refused.

**The noise.** It is a sum of independent discrete Gaussian and discrete Laplace noises of the stated scales. Let z be a
combination of them with the stated variance 1. For a single discrete Laplace noise of scale t, v = u/(√2 t) gives

    E exp(uz) = 1/(1 − sinh²(v/2) / sinh²(1/2t)) ≤ 1/(1 − (vt)²) = 1/(1 − u²/2),

because sinh(x)/x grows. A discrete Gaussian noise has E exp(uz) ≤ exp(u²/2) (Canonne, Kamath and Steinke 2020), which
is at most 1/(1 − u²/2), too. And (1 − a)(1 − b) ≥ 1 − a − b. So Chernoff's inequality gives for every combination

    P(z > c) ≤ exp(−c²/2) with Gaussian noise alone,     P(z > c) ≤ min_u exp(−uc)/(1 − u²/2) in general.

**Many forms at once.** n one-sided statements hold together except with n times this probability. Let Q be the squared
distance of d linearly independent forms from 0 in the metric of their covariance. With Gaussian noise alone, the moment
generating function of Q is at most that of χ²_d. So P(Q > d + 2√(dx) + 2x) ≤ exp(−x) (Laurent and Massart 2000). In
general E Q ≤ d. Let M be the projection with Q = ‖Mξ‖² for the noises ξ, and κ the largest excess kurtosis of a noise.
Then var Q ≤ 2 tr M² + κ Σ M_ii² ≤ (2 + κ) d, and Cantelli's inequality bounds Q.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import scipy.sparse as sp

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.mechanisms.numbers import TableNumbers
from fitnoise.reading.laws import law
from fitnoise.reading.linear_forms import AnswerSource, Forms
from fitnoise.reading.refusals import UNCOMPUTED, UNMADE
from fitnoise.request.impossible_rules import Mask

REFUSED = 1e-3
"""The largest probability that published numbers contradict rules that are right, for all rules of a call together."""

MAX_EXCESS_KURTOSIS = 3.1
"""A bound on the excess kurtosis of the noises, against their stated variance; that of a Laplace noise is 3."""

NO_NOISE = 1e-6
"""The largest standard error, in records, that is the rounding of a number without noise."""

KNOWN_EXCESS = 0.5
"""The excess, in records, above which numbers without noise contradict a rule: they are integers."""

MIN_GAIN = 1e-6
"""The part of a number's variance that a rule must remove: below it, the rule counts as leaving the number as it is."""


Position: TypeAlias = tuple[int, ...]


def largest_error(statements: int, probability: float, *, normal: bool) -> float:
    """Return c with P(some noise > c standard errors) ≤ probability, for some one-sided statements jointly.

    Args:
        statements: The number of statements; a two-sided one counts twice.
        probability: The probability that is allowed.
        normal: True if all noise is Gaussian.
    """
    rare = math.log(max(statements, 1) / probability)
    if normal:
        return math.sqrt(2 * rare)
    # the exponent uc + log(1 − u²/2) at its best u grows with c, and is below uc ≤ √2 c
    low, high = 0.0, 2 * rare + 2
    for _ in range(100):
        c = (low + high) / 2
        u = (math.sqrt(1 + 2 * c * c) - 1) / c
        low, high = (low, c) if u * c + math.log1p(-u * u / 2) >= rare else (c, high)
    return high


def largest_distance(forms: int, probability: float, *, normal: bool) -> float:
    """Return q with P(Q > q) ≤ probability, for the squared distance Q of some independent forms from 0.

    Args:
        forms: The number of linearly independent forms.
        probability: The probability that is allowed.
        normal: True if all noise is Gaussian.
    """
    if normal:
        rare = math.log(1 / probability)
        return forms + 2 * math.sqrt(forms * rare) + 2 * rare
    return forms + math.sqrt((2 + MAX_EXCESS_KURTOSIS) * forms * (1 / probability - 1))


@final
@dataclass(frozen=True)
class Distance:
    """The squared distance of published numbers from rules, in the metric of their covariance.

    square: Q, the squared distance.
    forms: The number of linearly independent forms that the rules make 0.
    """

    square: float = 0.0
    forms: int = 0

    def plus(self, other: Distance) -> Distance:
        """Return the distance of both sets of forms, whose noise is uncorrelated."""
        return Distance(self.square + other.square, self.forms + other.forms)


@final
@dataclass(frozen=True, eq=False)
class _ChangedTable:
    """The numbers of a table without and with rules, each in the table's shape.

    number: The index of the table.
    steps: The change of each number in standard errors of this change; 0 for a number that the rules leave alone.
    changed: True for a number that the rules change.
    fixed: True for a number that the rules fix.
    """

    number: int
    steps: Floats
    changed: Mask
    fixed: Mask


def refuse_contradicted(published: AnswerSource, ruled: AnswerSource, distance: Distance) -> None:
    """Raise an error if published numbers contradict rules that fix forms of them at 0.

    Half of the probability of a wrong refusal is for single numbers, and half for the squared distance of all.

    Args:
        published: The tables without the rules.
        ruled: The same tables with the rules.
        distance: The squared distance of the published numbers from the rules.

    Raises:
        ReleaseError: The published numbers contradict the rules.
    """
    if not distance.forms:
        return
    tables = list(_changed_tables(published, ruled))
    count = sum(int(t.changed.sum()) for t in tables)
    limit = largest_error(2 * count, REFUSED / 2, normal=published.normal)
    outside = sum(int((np.abs(t.steps) > limit).sum()) for t in tables)
    if outside:
        # a number that the rules fix says most; of these, or of all, the one that is furthest from the rules
        worst = _worst(tables, limit)
        raise _contradicted(
            f"The published number of {_row(published, *worst)} is {_number(published, *worst)}, and the rules say "
            f"{_number(ruled, *worst)}. {outside:,} of the {count:,} numbers that the rules "
            "change lie outside their joint intervals."
        )
    if distance.square > largest_distance(distance.forms, REFUSED / 2, normal=published.normal):
        root = math.sqrt(distance.square / distance.forms)
        raise _contradicted(
            f"Together the {count:,} published numbers that the rules change contradict the rules. They are "
            f"{root:.2f} standard errors from the rules in the root mean square, and right rules give about 1."
        )


@final
@dataclass(frozen=True, eq=False)
class OrderedNumbers:
    """The published numbers of a rule of order: each excess is at most 0 if the rule is right.

    rule: The text of the rule.
    excesses: A form for each row: the number of the smaller table less the multiple of the other.
    labels: The labels of each row.
    confidence: The confidence of margins.
    public: Sums of rows, (sums, rows), for which the public totals of both tables give the excess.
    """

    rule: str
    excesses: Forms
    labels: Sequence[str]
    confidence: float
    public: sp.csr_array


def refuse_contradicted_order(ordered: Sequence[OrderedNumbers]) -> None:
    """Raise an error if published numbers contradict rules of order, in single rows or added up.

    They are added up over all rows, and over the rows of public totals.

    Args:
        ordered: The numbers of all rules of one call.

    Raises:
        ReleaseError: The published numbers contradict a rule.
    """
    statements = sum(x.excesses.length + 1 for x in ordered)
    for x in ordered:
        total = x.excesses.combined(sp.csr_array(np.ones((1, x.excesses.length))))
        limit = largest_error(statements, REFUSED, normal=all(s.normal for s in x.excesses.sources))
        steps, of_total = _steps(x.excesses), _steps(total)
        of_totals = (x.public @ x.excesses.values()).max(initial=0.0)
        outside = int((steps > limit).sum())
        if outside:
            worst = int(steps.argmax())
            excess = _with_margin(x.excesses.take(np.array([worst])), x.confidence)
            row = f"for {x.labels[worst]}" if x.labels[worst] else "for the only number"
            text = (
                f"The published numbers contradict the rule {x.rule!r}: {row}, they exceed it by {excess}. "
                f"{outside:,} of {x.excesses.length:,} numbers lie outside their joint intervals."
            )
        elif of_total[0] > limit:
            excess = _with_margin(total, x.confidence)
            text = f"The published numbers contradict the rule {x.rule!r}: added up, they exceed it by {excess}."
        elif of_totals > KNOWN_EXCESS:
            text = f"The public totals contradict the rule {x.rule!r}: they exceed it by {round(of_totals):,}."
        else:
            continue
        raise ReleaseError(
            "order-contradicted", text, _right_rules(), "Correct or remove the rule.", UNMADE, place="at_most"
        )


def _steps(forms: Forms) -> Floats:
    """Return each form in its standard errors; for a form without noise, infinity if it is above 0, and else 0."""
    errors, values = np.sqrt(np.maximum(forms.covariances(forms), 0.0)), forms.values()
    noisy = errors > NO_NOISE
    return np.where(noisy, values / np.where(noisy, errors, 1.0), np.where(values > KNOWN_EXCESS, np.inf, 0.0))


def _right_rules() -> str:
    """Return the sentence that states how often a right rule is refused."""
    return f"Right rules are refused for at most 1 of {1 / REFUSED:,.0f} releases."


def _contradicted(text: str) -> ReleaseError:
    """Return the error for rules that published numbers contradict."""
    return ReleaseError(
        "impossible-contradicted",
        text,
        _right_rules(),
        "Correct or remove the rule.",
        UNCOMPUTED,
        place="impossible",
    )


def _changed_tables(published: AnswerSource, ruled: AnswerSource) -> Iterator[_ChangedTable]:
    """Yield the change of each number by rules, table by table."""
    for number, table in enumerate(published.part.publication.workload.tables):
        before, after = _variances(published, number), _variances(ruled, number)
        # The estimate with rules has the least variance, so its noise is uncorrelated with the change.
        gained = before - after
        changed = gained > np.maximum(MIN_GAIN * before, NO_NOISE**2)
        change = ruled.rebuilt.table(table.name) - published.rebuilt.table(table.name)
        steps = np.where(changed, change / np.sqrt(np.where(changed, gained, 1.0)), 0.0)
        yield _ChangedTable(number, steps, changed, changed & (after <= MIN_GAIN * before))


def _variances(source: AnswerSource, table: int) -> Floats:
    """Return the variance of each number of a table, in its shape; numbers of exchangeable values share theirs."""
    workload = source.part.publication.workload
    shape = lengths = workload.tables[table].shape(workload.domain)
    if not source.part.decomposition.blocks:
        group, i = source.part.decomposition.group_of(table)
        axes, spans = len(group.axes[i]), itertools.pairwise(np.cumsum([0, *group.spans]).tolist())
        lengths = tuple(
            1 if all(x < axes for x in group.transpose[start:stop]) else n
            for n, (start, stop) in zip(shape, spans, strict=True)
        )
    numbers = TableNumbers(source.part, table, np.indices(lengths).reshape(len(lengths), math.prod(lengths)))
    return np.broadcast_to(source.covariance(numbers, numbers).reshape(lengths), shape)


def _worst(tables: Iterable[_ChangedTable], limit: float) -> tuple[int, Position]:
    """Return the table and the position of the number that contradicts the rules most, a fixed number if one does."""
    candidates: list[tuple[bool, float, int, Position]] = []
    for t in tables:
        for fixed in (True, False):
            steps = np.where(t.fixed == fixed, np.abs(t.steps), 0.0)
            position = tuple(int(x) for x in np.unravel_index(int(steps.argmax()), steps.shape))
            largest = float(steps.max())
            candidates.append((fixed and largest > limit, largest, t.number, position))
    _, _, number, position = max(candidates)
    return number, position


def _row(source: AnswerSource, table: int, position: Position) -> str:
    """Return the labels of a number, with the name of its table."""
    workload = source.part.publication.workload
    columns = workload.tables[table].labels(workload.domain)
    labels = (f"{name} {values[i]}" for (name, values), i in zip(columns.items(), position, strict=True))
    return (
        f"{', '.join(labels)} in the table {workload.tables[table].name!r}"
        if columns
        else f"the table {workload.tables[table].name!r}"
    )


def _number(source: AnswerSource, table: int, position: Position) -> str:
    """Return a number with its margin."""
    workload = source.part.publication.workload
    unit = np.zeros(workload.tables[table].shape(workload.domain))
    unit[position] = 1.0
    form = source.form(workload.tables[table].name, unit)
    return _with_margin(form, workload.tables[table].target.level(workload.confidence))


def _with_margin(form: Forms, confidence: float) -> str:
    """Return the value of one form with its margin."""
    margin = law(form).half_widths(np.ones((1, 1)), confidence)
    return f"{float(form.values()[0]):z,.1f} ± {float(margin[0]):z,.1f}"
