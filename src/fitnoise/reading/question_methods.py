"""Answers of a release to questions by names: counts, means and quantiles, from any of its tables that shows them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fitnoise.errors import DomainError, ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.messages import Message, english, rule_messages
from fitnoise.reading.estimates import Estimates, mean
from fitnoise.reading.labelled_numbers import RowLabels
from fitnoise.reading.linear_forms import AnswerSource
from fitnoise.reading.quantiles import Quantiles
from fitnoise.reading.questions import ReaderQuestion, append_cut, names, refuse
from fitnoise.reading.ratios import Ratios
from fitnoise.reading.refusals import UNESTIMATED, unknown_attribute
from fitnoise.request.attributes import Amount, Attribute
from fitnoise.request.coverage import ValueList
from fitnoise.request.domain import Domain


class QuestionMixin(abc.ABC):
    """The questions that the noisy answers of some parts can answer: of a release, or of several releases jointly."""

    @property
    @abc.abstractmethod
    def _sources(self) -> Sequence[AnswerSource]:
        """The noisy answers of the parts."""

    @property
    @abc.abstractmethod
    def _domain(self) -> Domain:
        """The domain with the attributes of the questions."""

    @property
    @abc.abstractmethod
    def _confidence(self) -> float:
        """The default confidence of intervals."""

    @property
    def impossible(self) -> tuple[dict[str, Any], ...]:
        """The rules about impossible cells, for each attribute its values or bounds (:func:`fitnoise.given`)."""
        return ()

    @property
    def impossible_values(self) -> tuple[tuple[ValueList, ...], ...]:
        """The values of each rule about impossible cells, by attribute; empty without rules."""
        return ()

    @property
    def assumptions(self) -> tuple[Message, ...]:
        """The statements on which estimates with rules rest; empty without rules."""
        return ()

    def count(
        self,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        by: str | Sequence[str] | None = None,
        having: str | Sequence[str] | None = None,
        **columns: Any,
    ) -> Estimates:
        """Return the number of records under conditions and by a breakdown: unbiased, with exact standard errors.

        No table is named. Tables of one part of the release give equal estimates. If several parts of the release show
        the attributes, the part with the smallest errors answers. The count sums over attributes that are not named.
        This sum includes records with missing values.

        Args:
            where: For some attributes, or levels of hierarchies, a value. For an attribute with an order, a range
                (first, last) that includes its ends, or single values {"values": […]}; for others, a list of codes. A
                range leaves missing values out. `area` is a list of places of any levels of the release's hierarchy,
                whose union is counted. Or it is several such lists by name, which break the numbers down.
            by: Attributes or levels whose values break the numbers down: all remaining values, and missing-value
                categories where a table shows them.
            having: Attributes, such as an amount. Only records with a value of each of them count.
            columns: Conditions like `where`, for names that are Python identifiers.

        Returns:
            One number, or one for each combination of values, in records. Records are people only if each person has
            one, or shares count.

        Raises:
            ReleaseError: An attribute or value is unknown, a name occurs twice, or conditions exclude each other. Or an
                amount is a condition or in `by`, no table shows the attributes jointly, or the number is not a
                combination of published rows.

        **Guarantees**
            The estimates keep the guarantees of :class:`~fitnoise.reading.estimates.Estimates`. For a small database
            they are those of `unbiased_value`. The biased columns have no interval, because none with proven coverage
            is known.

        Example:
            `release.count(status="joint", by="state") / release.count(by="state")`; `release.count(age=(0, 17))`;
            `release.count(area=["44001", "44003040100"])`
        """
        return self._estimates(
            self._having(ReaderQuestion.from_names(self._domain, {**(where or {}), **columns}, by), having)
        )

    def quantile(
        self,
        attribute: str,
        q: float | Sequence[float],
        where: Mapping[str, Any] | None = None,
        /,
        *,
        by: str | Sequence[str] | None = None,
        **columns: Any,
    ) -> Quantiles:
        """Return the first value of an attribute such that at least a part q of the records have at most this value.

        Args:
            attribute: An attribute with ordered values or bins, each of which tables distinguish or count cumulatively.
            q: The part, from 0 to 1: 0.5 for the median, 0 for the smallest value and 1 for the largest. Several parts
                in a list, each above the one before, break the numbers down by `quantile`.
            where: Conditions as for `count`. Records without a value of the attribute are left out; see `universe`.
            by: Attributes or levels whose values break the numbers down.
            columns: Conditions like `where`, for names that are Python identifiers.

        Raises:
            ReleaseError: The attribute has no order, q is not from 0 to 1, or several parts do not rise. Or the counts
                are unavailable, as for `count`.

        **Guarantees**
            The values keep the guarantees of :class:`~fitnoise.reading.quantiles.Quantiles`.

        Example:
            `release.quantile("age", 0.5, by="status").frame()`;
            `release.quantile("age", [0.25, 0.5, 0.75]).frame(simultaneous=True)`
        """
        return Quantiles(self._counts_by_value(attribute, where, by, columns), attribute, q)

    def mean(
        self,
        attribute: str,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        by: str | Sequence[str] | None = None,
        ceiling: float | None = None,
        **columns: Any,
    ) -> Ratios:
        """Return the mean of an amount, or of an attribute of whole numbers: the sum of all values over their number.

        Clipped values count as the ends of the range. `universe` states this, and names the records without a value
        that are left out.

        Args:
            attribute: An amount whose sum and count tables show; or an attribute of whole numbers. Tables show its
                values one by one or cumulatively, or in ranges from which their sum follows.
            where: Conditions as for `count`.
            by: Attributes or levels whose values break the numbers down.
            ceiling: For an amount, the largest value that counts: the mean of min(value, ceiling), as for `total`.
            columns: Conditions like `where`, for names that are Python identifiers.

        Returns:
            Σ value·count / count, in units of the attribute.

        Raises:
            ReleaseError: The values are not numbers, the ceiling is not declared, or the counts are unavailable, as for
                `count`.

        **Guarantees**
            The means keep the guarantees of :class:`~fitnoise.reading.ratios.Ratios`. A mean and the ends of its
            interval lie between the least and the largest value that the conditions admit.

        Example:
            `release.mean("age", by="status").frame()`
        """
        question = ReaderQuestion.from_names(self._domain, {**(where or {}), **columns}, by)
        names((attribute,))
        unweighted = question
        numeric, values = self._numeric(attribute, ceiling)
        # weights of 1 change no number: they make the attribute a part of the question
        question = question.with_value(attribute).weighted(attribute, np.ones(numeric.size))
        here = values[question.selections[attribute].is_counted]
        # the values of an amount with classes are in the range of their class, so chosen classes bound the mean
        if isinstance(numeric, Amount) and numeric.range_attribute is not None:
            ends = np.array(
                [[float(income_class.low), float(income_class.high)] for income_class in numeric.exact.classes]
            )
            here = (
                ends[question.selections[numeric.range_attribute].is_counted]
                if numeric.range_attribute in question.selections
                else ends
            )
        # the sum may be negative, and the number of records below is from the same parts of the release
        total = self._estimates(question.weighted(attribute, values), counts=False)
        everyone = numeric.steps and not numeric.missing_cells  # all counted records are between the ends
        try:
            count = self._estimates(unweighted if everyone else question, total._forms.sources)
        except ReleaseError:
            raise ReleaseError(
                "mean-without-count",
                f"The release shows the sum of {attribute!r}, but not the number of records with a value.",
                f"Tables of its mean, or with count = {attribute!r}, by the same attributes, show this number.",
                f"Ask for total({attribute!r}), or for the mean by fewer attributes.",
                UNESTIMATED,
                place=attribute,
            ) from None
        universe = append_cut(count.universe, _cut(attribute, numeric, ceiling))
        return mean(total, count, (float(here.min()), float(here.max())), universe)

    def total(
        self,
        attribute: str | Sequence[str],
        where: Mapping[str, Any] | None = None,
        /,
        *,
        by: str | Sequence[str] | None = None,
        having: str | Sequence[str] | None = None,
        ceiling: float | None = None,
        **columns: Any,
    ) -> Estimates:
        """Return the sum of an amount, of an attribute of whole numbers, or of a product of several, over the records.

        Args:
            attribute: An attribute as for `mean`, for which no count is needed. Several are multiplied, as a weight and
                an income.
            where: Conditions as for `count`. Records without a value of the attribute add 0; see `universe`, which also
                states the cuts of values.
            by: Attributes or levels whose values break the numbers down.
            having: Further attributes: only records with a value of them count, as the weights of records with an
                income.
            ceiling: For a single amount, the largest value that counts, Σ min(value, ceiling): one of its declared
                ceilings that tables show. Default: the end of its range.
            columns: Conditions like `where`, for names that are Python identifiers.

        Returns:
            Σ value, one number or one for each combination of values, in units of the attribute, or in the product of
            the attributes' units. The quotient of two sums is a rate, such as turnover by hours, or a weighted mean.

        Raises:
            ReleaseError: The values are not numbers, an attribute is named twice, or a ceiling is not declared or is
                for a product. Or the sums are unavailable, as for `count`.

        **Guarantees**
            The sums keep the guarantees of :class:`~fitnoise.reading.estimates.Estimates`.

        Example:
            `release.total("income", by="state").frame()`;
            `release.total(["weight", "income"]) / release.total("weight", having="income")`
        """
        question, attributes = (
            ReaderQuestion.from_names(self._domain, {**(where or {}), **columns}, by),
            names(attribute),
        )
        if not attributes or len(set(attributes)) < len(attributes):
            raise ReleaseError(
                "wrong-attributes-of-sum",
                f"The attributes of a sum are {list(attributes)}.",
                "A sum is of one attribute, or of the product of several, each once.",
                "Name one attribute or more, each once.",
                UNESTIMATED,
            )
        if ceiling is not None and len(attributes) > 1:
            raise ReleaseError(
                "ceiling-of-product",
                f"A ceiling is given for the product of {list(attributes)}.",
                "A ceiling belongs to the sum of one amount.",
                "Remove the ceiling, or name one amount.",
                UNESTIMATED,
                place="ceiling",
            )
        for name in attributes:
            numeric, values = self._numeric(name, ceiling)
            question = question.with_value(name).weighted(name, values).summing(_cut(name, numeric, ceiling))
        return self._estimates(self._having(question, having), counts=False)

    def _having(self, question: ReaderQuestion, having: str | Sequence[str] | None) -> ReaderQuestion:
        """Return the question for records with a value of some attributes."""
        for name in names(having):
            if name not in self._domain:
                raise unknown_attribute(name, self._domain, key="having")
            question = question.with_value(name)
        return question

    def _numeric(self, attribute: str, ceiling: float | None) -> tuple[Attribute, Floats]:
        """Return an attribute of numbers, and the amount that each of its cells adds to their sum, up to a ceiling.

        Missing-value categories follow the values, and add 0.

        Raises:
            ReleaseError: The attribute is unknown or has no numbers, or the ceiling is not declared.
        """
        names((attribute,))
        domain = self._domain
        if attribute not in domain or not (numeric := domain[attribute]).is_numeric:
            raise ReleaseError(
                "attribute-not-numeric",
                f"{attribute!r} is no amount and no attribute of whole numbers in this release.",
                "Sums and means are of these.",
                "Name an amount, or an attribute of whole numbers.",
                UNESTIMATED,
                place=attribute,
            )
        if ceiling is not None and not numeric.steps:
            raise ReleaseError(
                "ceiling-without-amount",
                f"A ceiling is given, and {attribute!r} is of whole numbers.",
                "Only amounts have ceilings.",
                "Remove the ceiling, or name an amount.",
                UNESTIMATED,
                place="ceiling",
            )
        amounts = np.array(numeric.own_values, dtype=np.float64)
        if isinstance(numeric, Amount):
            try:
                amounts = np.minimum(amounts, numeric.upper_limit(ceiling))
            except DomainError as error:
                raise ReleaseError(
                    "unknown-ceiling", error.given, error.needed, error.action, UNESTIMATED, place="ceiling"
                ) from None
        return numeric, np.concatenate([amounts, np.zeros(len(numeric.missing_cells))])

    def _counts_by_value(
        self,
        attribute: str,
        where: Mapping[str, Any] | None,
        breakdown: str | Sequence[str] | None,
        columns: Mapping[str, Any],
    ) -> Estimates:
        """Return counts of records with a value of an ordered attribute, which is the last name of the breakdown."""
        question = ReaderQuestion.from_names(self._domain, {**(where or {}), **columns}, (*names(breakdown), attribute))
        if not self._domain[attribute].ordered:
            raise ReleaseError(
                "attribute-without-order",
                f"The values of {attribute!r} have no order.",
                "Quantiles need an order.",
                "Name an attribute whose values have an order.",
                UNESTIMATED,
                place=attribute,
            )
        ordered = self._domain[attribute]
        cut = _cut(attribute, ordered, None) if ordered.is_numeric else ()
        return self._estimates(question.with_value(attribute).summing(cut))

    def _estimates(
        self, question: ReaderQuestion, among: Sequence[AnswerSource] | None = None, *, counts: bool = True
    ) -> Estimates:
        """Return the answers to a question from the part of the release whose largest variance is smallest.

        among: The parts to choose from; None for all.
        counts: True if the question counts records.

        Raises:
            ReleaseError: No table of these parts has the numbers.
        """
        sources = among or self._sources
        answers = [x for x in map(question.forms, sources) if x is not None]
        if not answers:
            raise refuse(sources, question)
        # the variances follow from the plan: a choice by the answers would bias the chosen one
        best = min(answers, key=lambda x: float(x[1].covariances(x[1]).max())) if len(answers) > 1 else answers[0]
        answered, forms = best
        homes = {name: answered.attribute_of(name) for name in answered.breakdown}
        missing = {name: self._domain[home].missing_cells for name, home in homes.items()}
        attributes = {name: self._domain[name] for name in homes if name in self._domain}
        stubs = {name: _stub(name, a) for name, a in attributes.items() if a.further_columns}
        rows = RowLabels(answered.labels, homes, missing, stubs)
        return Estimates(forms, rows, self._confidence, answered, counts=counts)


def _stub(name: str, attribute: Attribute) -> dict[str, dict[Any, Any]]:
    """Return the columns of an attribute, each with the value of every cell by its name."""
    columns = {name: attribute.values, **{f"{name}_{ending}": x for ending, x in attribute.further_columns.items()}}
    return {column: dict(zip(attribute.cell_names, x, strict=True)) for column, x in columns.items()}


def _cut(name: str, attribute: Attribute, ceiling: float | None) -> tuple[str, ...]:
    """Return the cuts of an attribute's values in words; empty if there are none."""
    rules = attribute.coding_rules_up_to(ceiling)
    return (f"{name}: {english(*rule_messages(rules))}",) if rules else ()
