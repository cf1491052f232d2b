"""Tables in the form that people read: rows, columns across, codes next to labels, totals; for pages and files.

    table with columns a, b, c, value     rows by a and b, with the values of c across: the last column with few values
    table of sums of amounts              the same rows without the amounts, in units of the amounts
    table of means of an amount           the means, each with its interval

Totals are sums over all rows of a column, with their own exact margins: these are not sums of margins.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sp

from fitnoise.kernel.arrays import Floats
from fitnoise.messages import Message
from fitnoise.reading.bands import Bands
from fitnoise.reading.combining import Combination
from fitnoise.reading.derived_tables import DerivedTables
from fitnoise.reading.description import counted_as, public_totals
from fitnoise.reading.integer_tables import IntegerTables, possible
from fitnoise.reading.laws import law
from fitnoise.reading.linear_forms import AnswerSource, Forms
from fitnoise.reading.means import means
from fitnoise.reading.refusals import unknown_table
from fitnoise.reading.release import Release
from fitnoise.reading.sampling import coefficients_of_variation, half_widths
from fitnoise.request.attributes import CODE, NAME, Attribute
from fitnoise.request.coverage import ValueList, uncounted
from fitnoise.request.domain import Domain
from fitnoise.request.publication import Publication
from fitnoise.request.views import RowOrder, View
from fitnoise.request.workloads import Table

MAX_VALUES_ACROSS = 8
"""The largest number of values that are shown across: those of the last column that has at most this number."""


@final
@dataclass(frozen=True)
class Label:
    """The label of a row or column.

    text: None for a total.
    code: The code in the data, if it differs from the text.
    is_repeated: True if another value of the attribute may have this text.
    attribute: The name of the attribute; empty for a total.
    """

    text: str | None
    code: str = ""
    is_repeated: bool = False
    attribute: str = ""


@final
@dataclass(frozen=True)
class Heading:
    """A column of labels.

    name: The name of the attribute.
    view: The view of the attribute; None for the query numbers of a table of explicit queries.
    ordered: The number of its first labels that are values in an order.
    periods: True if the labels are the periods of a series.
    has_integer_codes: True if the codes, or the labels of a column without codes, are whole numbers and no texts.
    """

    name: str
    view: View | None
    ordered: int = 0
    periods: bool = False
    has_integer_codes: bool = False

    @property
    def is_by_value(self) -> bool:
        """True if the labels are the values of the attribute, each with its number of records."""
        return self.view is not None and self.view.is_by_value


@final
@dataclass(frozen=True, eq=False)
class TableLayout:
    """A table with its layout.

    Attributes:
        name: The name of the table.
        stubs: The headings of the label columns.
        across: The heading of the columns across; None if there is one column of numbers.
        rows: The labels of each row, one for each of the stubs.
        columns: The labels of the columns across; one label without a text if there are none across.
        values: The published values, in records or in units of amounts, (rows, columns).
        margins: The margins of the values, (rows, columns). For biased values this is the simulated error; for integer
            tables and means, the distance to the farther end of the interval.
        ends: The ends of the intervals of integer tables and means, two arrays (rows, columns); None for other tables.
            Their intervals are ± the margins, unless they are biased.
        sampling: The given standard errors of sampling, (rows, columns), NaN where none is given; None without any. The
            margins are then for noise and sampling error.
        variations: The coefficients of variation of noise and sampling error, (rows, columns); None like `sampling`.
            They are NaN where no sampling error is given or the value is 0.
        bands: The reliability of the values, (rows, columns), as :class:`~fitnoise.reading.bands.Band`; None without a
            rule.
        totals: True where a value is a total, (rows, columns).
        confidence: The confidence of the margins and ends.
        biased: True if the values are a release's biased ones, which have no margin. False for integer tables, which
            have intervals.
        summed: The attributes that are summed, or the factors of the sum (`Table.terms`); empty for counts of records.
        averaged: The amount whose means are shown; None for other tables.
        counted: For each attribute whose values are changed on reading, how they enter sums and means. A flag follows:
            True if a range or ceiling cuts some values, so that sums and means lack the excess.
        signed: True if the true values may be negative, as for changes, and for sums of amounts that may be negative.
        release: The release of the table; of several releases of the same records, the first.
        remarks: The sentences that belong below the table.
        has_rules: True if the table is of integers that follow rules of order, or adds up with such tables.
        impossible: The values of each rule about impossible cells; empty without rules.
        assumptions: The statements on which estimates with rules rest.
    """

    name: str
    stubs: tuple[Heading, ...]
    across: Heading | None
    rows: tuple[tuple[Label, ...], ...]
    columns: tuple[Label, ...]
    values: Floats
    margins: Floats
    ends: tuple[Floats, Floats] | None
    sampling: Floats | None
    variations: Floats | None
    bands: npt.NDArray[Any] | None
    totals: npt.NDArray[np.bool_]
    confidence: float
    biased: bool
    summed: tuple[str, ...]
    averaged: str | None
    counted: tuple[dict[str, tuple[Message, ...]], bool]
    signed: bool
    release: Release
    remarks: tuple[Message, ...] = ()
    has_rules: bool = False
    impossible: tuple[tuple[ValueList, ...], ...] = ()
    assumptions: tuple[Message, ...] = ()

    @property
    def is_integer(self) -> bool:
        """True if its numbers are integers."""
        return self.ends is not None and self.averaged is None

    @cached_property
    def rounded_margins(self) -> Floats:
        """The margins as people read them, rounded up: none is too small by more than 1e-6 of its last digit."""
        # a margin that is a round number may be computed a little above: 1e-6 of the last digit is no reason to add one
        return np.asarray(np.ceil(self.margins * 10.0**self.decimals - 1e-6) / 10.0**self.decimals)

    @cached_property
    def common_margin(self) -> float | None:
        """The printed margin of all numbers except totals, if they have one, without sampling error; otherwise None."""
        # totals have margins of their own, which are larger
        distinct = np.unique(self.rounded_margins[~self.totals])
        has_own_margins = self.biased or self.ends is not None or self.sampling is not None
        return None if has_own_margins or len(distinct) != 1 else float(distinct[0])

    @cached_property
    def decimals(self) -> int:
        """The number of printed digits after the point."""
        return 0 if self.is_integer else decimals(self.margins)

    @property
    def intervals(self) -> tuple[Floats, Floats]:
        """The ends of the intervals at the confidence; for biased values, the values themselves."""
        if self.ends is not None:
            return self.ends
        margins = np.zeros(self.margins.shape) if self.biased else self.margins
        return self.values - margins, self.values + margins


def decimals(margins: Floats) -> int:
    """Return the digits after the point that show two digits of the smallest finite margin above 0; 0 without one."""
    positive = margins[np.isfinite(margins) & (margins > 0)]
    return max(0, 1 - math.floor(math.log10(positive.min()))) if positive.size else 0


Tabled = Release | DerivedTables
"""An object with tables: a release, integer tables, or a combination."""


def releases(source: Tabled) -> tuple[Release, ...]:
    """Return the release itself, or the releases from which tables are made."""
    return source.releases if isinstance(source, DerivedTables) else (source,)


def publication_of(source: Tabled, name: str) -> Publication:
    """Return the publication of a table, by the object that has the table and the table's name."""
    return source.publication(name) if isinstance(source, DerivedTables) else source.plan.group(name).publication


def layout(
    tabled: Tabled, name: str, *, totals: bool = False, bands: Bands | None = None, sampling: Floats | None = None
) -> TableLayout:
    """Return the layout of one table of a release, or of tables made from releases.

    Args:
        tabled: The object with the table.
        name: The name of the table.
        totals: True to add totals over each attribute that the table shows value by value, unless the release's values
            are biased.
        bands: The rule for the reliability of numbers; None without a rule.
        sampling: For a table of unbiased counts or sums, the standard errors of sampling in the order of its rows, NaN
            where none is given. None without any.

    Raises:
        ReleaseError: The table is unknown.
    """
    if name not in tabled:
        raise unknown_table(name, list(tabled), "Nothing was written.")
    publication, release, remarks = (
        publication_of(tabled, name),
        releases(tabled)[0],
        public_totals(releases(tabled)[0].plan),
    )
    table, domain, held, has_rules = publication.workload[name], publication.domain, None, False
    if isinstance(tabled, IntegerTables):
        # `held` are the integers that people see; their intervals are those of the unbiased numbers
        (values, margins), held = tabled.unbiased(name), tabled[name]["value"].to_numpy()
        (release, own_name), has_rules = tabled.origin(name), tabled.has_rules(name)
        source: Release | Combination = release
        biased, several, remarks = False, "biased_value" not in source[own_name], tabled.remarks(name)
    else:
        assert isinstance(tabled, Release | Combination)  # noqa: S101 - no other object is made from releases
        source, own_name, frame = tabled, name, _frame(tabled, name, sampling)
        biased, several = "biased_value" in frame, "biased_value" not in frame
        values, margins = (frame[c].to_numpy() for c in (_BIASED if biased else ("value", "moe")))
    row_labels = table.labels(domain)
    attributes = {a: domain[a] for a in row_labels if a in domain}
    headings = [_heading(table, attributes.get(a), a, periods=a == publication.series) for a in row_labels]
    confidence = table.target.level(publication.workload.confidence)
    labels = [_labels(publication, table, attributes.get(a), a, names) for a, names in row_labels.items()]
    shape = tuple(map(len, labels))
    values, margins = values.reshape(shape), margins.reshape(shape)
    # rows of ranges, groups and cumulative counts may overlap: their sum is no total
    sums = [h.is_by_value and totals and several and len(x) > 1 for h, x in zip(headings, labels, strict=True)]
    if held is not None:
        held = held.reshape(shape)
        # integer tables are consistent, so their totals are plain sums
        for k in np.flatnonzero(sums).tolist():
            held = np.concatenate([held, held.sum(axis=k, keepdims=True)], axis=k)
    if any(sums):
        labels = [[*x, Label(None)] if s else x for x, s in zip(labels, sums, strict=True)]
    averaged = None if table.averaged is None else table.averaged[0]
    signed = _signed(table, domain)
    ends: list[Floats] = []
    survey = [] if sampling is None else [_without_totals(frame[c].to_numpy().reshape(shape), sums) for c in _SURVEY]
    if averaged is not None:
        values, *ends = means(*_find_table(source, own_name), sums, confidence)
    elif any(sums):
        values, margins = _with_totals(source, own_name, (values, margins), sums, confidence)
    if held is not None:
        is_integer = publication_of(tabled, name).unit.parts == 1
        values, ends = held, [*possible(values, margins, held, is_integer=is_integer)]
    if ends:
        margins = np.maximum(ends[1] - values, values - ends[0])
    gone, down, axis = _placed(table, [len(x) for x in row_labels.values()], headings)
    columns = (Label(None),) if axis is None else tuple(labels[axis])
    rows = tuple(itertools.product(*(labels[i] for i in down)))
    order = [*down, *([] if axis is None else [axis]), *gone]
    # means have ends of intervals, and no sampling errors
    values, margins, *others = (
        x.transpose(order).reshape(len(rows), len(columns)) for x in (values, margins, *ends, *survey)
    )
    return TableLayout(
        name=name,
        stubs=tuple(headings[i] for i in down),
        across=None if axis is None else headings[axis],
        rows=rows,
        columns=columns,
        values=values,
        margins=margins,
        ends=(others[0], others[1]) if ends else None,
        sampling=others[0] if survey else None,
        variations=others[1] if survey else None,
        bands=None if bands is None or biased else bands.classify(np.abs(values) if signed else values, margins),
        totals=_totals(rows, columns, across=axis is not None),
        confidence=confidence,
        biased=biased,
        summed=table.terms,
        averaged=averaged,
        counted=counted_as(table, domain),
        signed=signed,
        release=release,
        remarks=remarks,
        has_rules=has_rules,
        impossible=source.impossible_values,
        assumptions=source.assumptions,
    )


_BIASED = ("biased_value", "simulated_rmse")

_SURVEY = ("sampling_std_error", "cv")


def _frame(source: Release | Combination, name: str, sampling: Floats | None) -> pd.DataFrame:
    """Return the numbers of a table: of a table of means its counts, and with the sampling error where it is given."""
    if sampling is not None:
        return with_sampling(source, name, sampling)
    is_mean = publication_of(source, name).workload[name].averaged is not None
    return source.counts_at_ends(name) if is_mean else source[name]


def with_sampling(tabled: Tabled, name: str, sampling: Floats) -> pd.DataFrame:
    """Return a table of unbiased counts or sums with sampling error, in the columns of :meth:`SurveyEstimates.frame`.

    Numbers without a standard error of sampling keep the error of the noise alone, and have no coefficient of
    variation.

    Args:
        tabled: The release or combination with the table.
        name: The name of the table.
        sampling: The standard errors of sampling in the order of the rows, NaN where none is given.
    """
    source = cast("Release | Combination", tabled)  # no other tables have unbiased numbers
    frame, workload = tabled[name], publication_of(tabled, name).workload
    columns = ["value", "std_error", "moe"]
    values, noise, margins = (frame[c].to_numpy(copy=True) for c in columns)
    rows = np.flatnonzero(~np.isnan(sampling))
    if rows.size:
        noise_law = law(_find_table(source, name)[0].numbers(name).take(rows))
        level = workload[name].target.level(workload.confidence)
        margins[rows] = half_widths(noise_law, noise[rows], sampling[rows], level)
    std_errors = np.hypot(noise, sampling)
    return frame.drop(columns=columns).assign(
        value=values,
        noise_std_error=noise,
        sampling_std_error=sampling,
        std_error=np.where(np.isnan(sampling), noise, std_errors),
        moe=margins,
        cv=coefficients_of_variation(values, std_errors),
    )


@final
@dataclass(frozen=True)
class EmptyTable:
    """The labels of a table, where its layout shows them.

    stubs: The headings of the label columns.
    across: The heading of the columns across; None if there is one column of numbers.
    rows: The labels of the first rows, one for each of the stubs.
    columns: The labels of the columns across; one label without a text if there are none across.
    row_total: The number of all rows.
    numbers: The number of all numbers, without totals.
    uncounted: The values that no number counts, by attribute.
    """

    stubs: tuple[Heading, ...]
    across: Heading | None
    rows: tuple[tuple[Label, ...], ...]
    columns: tuple[Label, ...]
    row_total: int
    numbers: int
    uncounted: tuple[ValueList, ...]


def empty_table(publication: Publication, table: Table, max_rows: int) -> EmptyTable:
    """Return the labels of a table as the layout of its numbers will have them, without totals.

    Args:
        publication: The publication of the table.
        table: The table.
        max_rows: The largest number of rows to return.
    """
    domain = publication.domain
    row_labels = table.labels(domain)
    attributes = {a: domain[a] for a in row_labels if a in domain}
    headings = [_heading(table, attributes.get(a), a, periods=a == publication.series) for a in row_labels]
    labels = [_labels(publication, table, attributes.get(a), a, names) for a, names in row_labels.items()]
    _, down, axis = _placed(table, [len(x) for x in labels], headings)
    columns = (Label(None),) if axis is None else tuple(labels[axis])
    row_total = math.prod(len(labels[i]) for i in down)
    return EmptyTable(
        stubs=tuple(headings[i] for i in down),
        across=None if axis is None else headings[axis],
        rows=tuple(itertools.islice(itertools.product(*(labels[i] for i in down)), max_rows)),
        columns=columns,
        row_total=row_total,
        numbers=row_total * len(columns),
        uncounted=uncounted(table, domain),
    )


def _placed(table: Table, sizes: Sequence[int], headings: Sequence[Heading]) -> tuple[list[int], list[int], int | None]:
    """Return the places of the columns of amounts, of those whose labels are rows, and of the one that is across.

    sizes: The number of labels of each column, without totals.
    """
    averaged = None if table.averaged is None else table.averaged[0]
    # the amounts, which have one entry each in a layout
    gone = [i for i, h in enumerate(headings) if h.name == averaged or h.name in table.summed]
    free_axes = [i for i in range(len(headings)) if i not in gone]
    small = [i for i in free_axes if sizes[i] <= MAX_VALUES_ACROSS and not headings[i].periods]
    # the values of a single column of labels are rows
    axis = small[-1] if len(free_axes) > 1 and small else None
    return gone, [i for i in free_axes if i != axis], axis


def _totals(rows: Sequence[tuple[Label, ...]], columns: Sequence[Label], *, across: bool) -> npt.NDArray[np.bool_]:
    """Return True where a number is a total, (rows, columns)."""
    is_total_row = np.array([any(x.text is None for x in row) for row in rows])
    is_total_column = np.array([across and x.text is None for x in columns])
    return np.asarray(is_total_row[:, None] | is_total_column[None, :])


def _signed(table: Table, domain: Domain) -> bool:
    """Return True if the true values may be negative."""
    value_attributes = (domain[a] for a in (*table.summed, *(() if table.averaged is None else table.averaged[:1])))
    below = any(x.is_numeric and float(x.own_values[0]) < 0 for x in value_attributes)
    return below or any(view.signed for _, view in table.views)


def _heading(table: Table, attribute: Attribute | None, name: str, *, periods: bool) -> Heading:
    if table.matrix is not None or attribute is None:
        return Heading(name, None, has_integer_codes=True)
    view = table.view(name)
    stub = view.stub(name, attribute)
    # `type` and not `isinstance`: True is an int of Python, and no whole number.
    has_integer_codes = {type(x) for x in stub.get(f"{name}_{CODE}", stub[name])} == {int}
    has_order = attribute.ordered or periods or view.row_order is RowOrder.SEQUENCE
    ordered = has_order and view.row_order is not RowOrder.NONE
    in_order = min(view.rows(attribute), attribute.own_size) if ordered else 0
    return Heading(name, view, in_order, periods, has_integer_codes)


def _labels(
    publication: Publication, table: Table, attribute: Attribute | None, name: str, labels: Sequence[str | int]
) -> list[Label]:
    """Return the labels of an attribute; if it has labels or names and is shown value by value, each with its code."""
    names = attribute.further_columns.get(NAME) if attribute is not None and table.view(name).is_by_value else None
    if names:
        # Two places with different names can have one name in another language.
        by_language = [names, *(x.labels[name] for x in publication.translations.values() if name in x.labels)]
        repeated = {code for texts in by_language for code in _of_repeated(texts, labels)}
        return [Label(str(x), str(code), code in repeated, name) for x, code in zip(names, labels, strict=True)]
    codes = attribute.label_codes if attribute is not None and table.view(name).is_by_value else ()
    is_repeated = attribute is not None and attribute.cell_names != attribute.values
    texts = [(str(label), str(code)) for label, code in zip(labels, codes, strict=False)]
    coded = [Label(text, "" if code == text else code, is_repeated, name) for text, code in texts]
    # a missing-value category, which follows the codes, has no code of its own
    return [*coded, *(Label(str(label), attribute=name) for label in labels[len(coded) :])]


def _of_repeated(texts: Sequence[object], codes: Sequence[str | int]) -> Iterator[str | int]:
    """Yield the codes whose text is also that of another code."""
    counts = Counter(texts)
    yield from (code for text, code in zip(texts, codes, strict=True) if counts[text] > 1)


def _without_totals(x: Floats, sums: Sequence[bool]) -> Floats:
    """Return numbers of a table, with NaN for the totals after the rows of some columns."""
    return np.pad(x, [(0, int(s)) for s in sums], constant_values=np.nan) if x.ndim else x


def _find_table(release: Release | Combination, name: str) -> tuple[AnswerSource, int]:
    """Return the source of a table's noise, and the number of the table there."""
    source = next(s for s in release._sources if name in s.part.publication.workload.tables.numbered)
    return source, source.part.publication.workload.number(name)


def _with_totals(
    release: Release | Combination, name: str, numbers: tuple[Floats, Floats], sums: Sequence[bool], confidence: float
) -> tuple[Floats, Floats]:
    """Return values and margins with sums after the rows of some columns; all other numbers are unchanged."""
    source, number = _find_table(release, name)
    wide = source.shape(number)
    selected = np.ix_(*(range(n if s else n - 1) for n, s in zip(wide, sums, strict=True)))
    shape = tuple(n if s else n - 1 for n, s in zip(wide, sums, strict=True))
    # True for totals: these alone are computed, because the other numbers are known
    added = np.ones(shape, dtype=bool)
    added[tuple(slice(n - 1) for n in wide)] = False
    flat = np.arange(math.prod(wide)).reshape(wide)[selected][added]
    each = sp.csr_array((np.ones(len(flat)), (np.arange(len(flat)), flat)), shape=(len(flat), math.prod(wide)))
    forms = Forms(len(flat), {(source, number): each})
    # the half-width of the noise of a total: margins of correlated numbers do not add up to it
    totals = forms.values(), law(forms).half_widths(np.ones((len(flat), 1)), confidence)
    out = np.empty(shape), np.empty(shape)
    for target, numbers_here, added_numbers in zip(out, numbers, totals, strict=True):
        target[~added], target[added] = numbers_here.ravel(), added_numbers
    return out
