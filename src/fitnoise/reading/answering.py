"""What is asked of a release by names: counts, means, quantiles, from whichever of its tables show them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fitnoise.errors import DomainError, ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.domain import Amount, Domain, Ordered
from fitnoise.reading.asking import Question, names, refuse, told_cut
from fitnoise.reading.estimates import Estimates, Ratios, Rows
from fitnoise.reading.forms import Source
from fitnoise.reading.quantiles import Quantiles
from fitnoise.reading.refusals import UNESTIMATED, unknown_attribute


class Answering(abc.ABC):
    """What is asked of the noisy answers of some parts: of a release, or of several together."""

    @property
    @abc.abstractmethod
    def _sources(self) -> Sequence[Source]:
        """Their noisy answers."""

    @property
    @abc.abstractmethod
    def _domain(self) -> Domain:
        """Whose attributes are asked for."""

    @property
    @abc.abstractmethod
    def _confidence(self) -> float:
        """Of intervals, unless another is asked for."""

    def count(
        self,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        by: str | Sequence[str] | None = None,
        having: str | Sequence[str] | None = None,
        **columns: Any,
    ) -> Estimates:
        """How many records there are, by what they are asked for: unbiased, with exact errors.

        A release is consistent, so the tables need not be named: any of them that shows the attributes gives the same
        estimate. What is not named is summed over, and cells for missing values count then as all records do.

        Args:
            where: for some attributes, or levels of hierarchies, a value; of an attribute with an order a range
                (first, last), ends included, or single values {"values": […]}; of others a list of codes. A range
                leaves missing values out. `area` is a
                list of places of any levels of the release's hierarchy, whose union is asked for; or several such lists
                by name, by which the numbers are told apart.
            by: attributes or levels by whose values the numbers are told apart: all values that remain, and cells for
                missing ones where a table shows them.
            having: attributes, such as an amount, of which only records with a value are counted.
            columns: the same as `where`, for names that are Python identifiers.

        Returns:
            One number, or one for each combination of values, in people.

        Raises:
            ReleaseError: an unknown attribute or value, attributes that are never shown together, or values that no
                rows of tables make.

        **Guarantees**
            as :class:`~fitnoise.reading.estimates.Estimates`; of a small database they are of the unbiased columns, and
            nothing is said of the biased ones, for which no interval of proven coverage is known.

        Example:
            `release.count(status="joint", by="state") / release.count(by="state")`; `release.count(age=(0, 17))`;
            `release.count(area=["44001", "44003040100"])`
        """
        return self._estimates(self._having(Question.of(self._domain, {**(where or {}), **columns}, by), having))

    def quantile(
        self,
        attribute: str,
        q: float,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        by: str | Sequence[str] | None = None,
        **columns: Any,
    ) -> Quantiles:
        """The value of an attribute with an order at which a part q of the records is reached: 0.5 for the median.

        Args:
            attribute: with values or bins in order, each of which tables tell from the others, or count up to.
            q: the part, between 0 and 1.
            where: which records, as for `count`. Those without a value of the attribute are left out, see `universe`.
            by: attributes or levels by whose values the numbers are told apart.
            columns: the same as `where`, for names that are Python identifiers.

        Raises:
            ReleaseError: an attribute without an order, a q that is not between 0 and 1, or counts that are not to be
                had, as for `count`.

        **Guarantees**
            as :class:`~fitnoise.reading.quantiles.Quantiles`.

        Example:
            `release.quantile("age", 0.5, by="status").frame()`
        """
        return Quantiles(self._along(attribute, where, by, columns), attribute, q)

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
        """The mean of an amount, or of an attribute of whole numbers: the sum of all values by how many there are.

        Values that are clipped count as what they are clipped to; `universe` says so, and which records without a
        value are left out.

        Args:
            attribute: an amount whose sum and count tables show; or one of whole numbers whose values tables show one
                by one or cumulative, or in ranges that make their sum.
            where: which records, as for `count`.
            by: attributes or levels by whose values the numbers are told apart.
            ceiling: of an amount, up to which values count: the mean of min(x, t), as for `total`.
            columns: the same as `where`, for names that are Python identifiers.

        Returns:
            Σ value·count / count, in units of the attribute.

        Raises:
            ReleaseError: values that are no numbers, or counts that are not to be had, as for `count`.

        **Guarantees**
            as :class:`~fitnoise.reading.estimates.Ratios`; a mean is from the least to the largest value asked for.

        Example:
            `release.mean("age", by="status").frame()`
        """
        asked = Question.of(self._domain, {**(where or {}), **columns}, by)
        names((attribute,))
        told = asked
        found, values = self._numeric(attribute, ceiling)
        asked = asked.known(attribute).weighted(attribute, np.ones(found.size))
        here = values[asked.along[attribute].chosen]
        if isinstance(found, Amount) and found.by is not None:  # its values are in steps: their ends, class by class
            ends = np.array([[float(own.low), float(own.high)] for own in found.exact.classes])
            here = ends[asked.along[found.by].chosen] if found.by in asked.along else ends
        total = self._estimates(asked.weighted(attribute, values), counts=False)
        everyone = isinstance(found, Amount) and not found.beside  # who is counted is between the ends
        try:
            count = self._estimates(told if everyone else asked, total._forms.sources)
        except ReleaseError:
            raise ReleaseError(
                "mean-without-count",
                f"The release shows the sum of {attribute!r}, but not the number of records with a value.",
                f"Tables of its mean, or with count = {attribute!r}, by the same attributes, show this number.",
                f"Ask for total({attribute!r}), or for the mean by fewer attributes.",
                UNESTIMATED,
                place=attribute,
            ) from None
        universe = told_cut(count.universe, _cut(attribute, found, ceiling))
        return Ratios.mean(total, count, (float(here.min()), float(here.max())), universe)

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
        """The sum of an amount, or of an attribute of whole numbers, over the records; or of the product of several.

        Args:
            attribute: as for `mean`, but that no count is needed; several are multiplied, as a weight and an income.
            where: which records, as for `count`. Those without a value of the attribute add nothing, see `universe`,
                which also says where values were cut.
            by: attributes or levels by whose values the numbers are told apart.
            having: further attributes of which only records with a value count, as the weights of those with an income.
            ceiling: of the one amount, up to which values count, Σ min(x, t): one of its declared ceilings that tables
                tell of. Default: the end of its range.
            columns: the same as `where`, for names that are Python identifiers.

        Returns:
            Σ value, one number or one for each combination of values, in units of the attribute. Two of them are
            divided as counts are, and then make a rate, such as turnover by hours, or a weighted mean.

        Raises:
            ReleaseError: values that are no numbers, or sums that are not to be had, as for `count`.

        **Guarantees**
            as :class:`~fitnoise.reading.estimates.Estimates`.

        Example:
            `release.total("income", by="state").frame()`;
            `release.total(["weight", "income"]) / release.total("weight", having="income")`
        """
        asked, found = Question.of(self._domain, {**(where or {}), **columns}, by), names(attribute)
        if not found or len(set(found)) < len(found):
            raise ReleaseError(
                "wrong-attributes-of-sum",
                f"The attributes of a sum are {list(found)}.",
                "A sum is of one attribute, or of the product of several, each once.",
                "Name one attribute or more, each once.",
                UNESTIMATED,
            )
        if ceiling is not None and len(found) > 1:
            raise ReleaseError(
                "ceiling-of-product",
                f"A ceiling is given for the product of {list(found)}.",
                "A ceiling belongs to the sum of one amount.",
                "Remove the ceiling, or name one amount.",
                UNESTIMATED,
                place="ceiling",
            )
        for name in found:
            own, values = self._numeric(name, ceiling)
            asked = asked.known(name).weighted(name, values).summing(_cut(name, own, ceiling))
        return self._estimates(self._having(asked, having), counts=False)

    def _having(self, asked: Question, having: str | Sequence[str] | None) -> Question:
        """The same of records with a value of some attributes."""
        for name in names(having):
            if name not in self._domain:
                raise unknown_attribute(name, self._domain, place="having")
            asked = asked.known(name)
        return asked

    def _numeric(self, attribute: str, ceiling: float | None) -> tuple[Amount | Ordered, Floats]:
        """An attribute of numbers, and what each of its cells adds to their sum, up to a ceiling."""
        names((attribute,))
        domain = self._domain
        if attribute not in domain or not isinstance(found := domain[attribute], (Amount, Ordered)):
            raise ReleaseError(
                "attribute-not-numeric",
                f"{attribute!r} is no amount and no attribute of whole numbers in this release.",
                "Sums and means are of these.",
                "Name an amount, or an attribute of whole numbers.",
                UNESTIMATED,
                place=attribute,
            )
        if ceiling is not None and not isinstance(found, Amount):
            raise ReleaseError(
                "ceiling-without-amount",
                f"A ceiling is given, and {attribute!r} is of whole numbers.",
                "Only amounts have ceilings.",
                "Remove the ceiling, or name an amount.",
                UNESTIMATED,
                place="ceiling",
            )
        own = np.array(found.own_values, dtype=np.float64)
        if isinstance(found, Amount):
            try:
                own = np.minimum(own, found.top(ceiling))
            except DomainError as error:
                raise ReleaseError(
                    "unknown-ceiling", error.given, error.needed, error.action, UNESTIMATED, place="ceiling"
                ) from None
        return found, np.concatenate([own, np.zeros(len(found.beside))])

    def _along(
        self,
        attribute: str,
        where: Mapping[str, Any] | None,
        by: str | Sequence[str] | None,
        columns: Mapping[str, Any],
    ) -> Estimates:
        """Counts of records with a value of an attribute with an order, told apart by it after all else."""
        asked = Question.of(self._domain, {**(where or {}), **columns}, (*names(by), attribute))
        if not self._domain[attribute].ordered:
            raise ReleaseError(
                "attribute-without-order",
                f"The values of {attribute!r} have no order.",
                "Quantiles need an order.",
                "Name an attribute whose values have an order.",
                UNESTIMATED,
                place=attribute,
            )
        found = self._domain[attribute]
        cut = _cut(attribute, found, None) if isinstance(found, Amount | Ordered) else ()
        return self._estimates(asked.known(attribute).summing(cut))

    def _estimates(self, asked: Question, among: Sequence[Source] | None = None, *, counts: bool = True) -> Estimates:
        """What a question asks, of the part that tells it best: by its plan, not by its answers.

        counts: whether it is of numbers of records.
        """
        sources = among or self._sources
        found = [x for x in map(asked.forms, sources) if x is not None]
        if not found:
            raise refuse(sources, asked)
        best = min(found, key=lambda x: float(x[1].covariances(x[1]).max())) if len(found) > 1 else found[0]
        own, forms = best
        rows = Rows(own.labels, {name: own.home(name) for name in own.by})
        return Estimates(forms, rows, self._confidence, own, counts=counts)


def _cut(name: str, attribute: Amount | Ordered, ceiling: float | None) -> tuple[str, ...]:
    """Where values of an attribute were cut, in words; nothing where none was."""
    words = attribute.coded_up_to(attribute.top(ceiling)) if isinstance(attribute, Amount) else attribute.coded
    return () if words is None else (f"{name}: {words}",)
