"""Linear forms of published tables for a reader's question, which names attributes.

Tables of one part of a release are consistent, so each of them that shows the attributes gives equal numbers: this
module takes the smallest.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fitnoise.algebra import operators as op
from fitnoise.errors import DomainError, ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.kernel.checks import describe_value
from fitnoise.reading.areas import AREA, Areas
from fitnoise.reading.linear_forms import AnswerSource, Forms
from fitnoise.reading.refusals import UNESTIMATED, unknown_attribute
from fitnoise.request.attributes import Attribute
from fitnoise.request.coverage import ValueList, list_values
from fitnoise.request.domain import Domain
from fitnoise.request.selections import Selection
from fitnoise.request.views import AtMost, View
from fitnoise.request.workloads import Family, Table, Workload

Mask = npt.NDArray[np.bool_]

MAX_MATRIX_ENTRIES = 2**22
"""The largest number of entries of a view's matrix whose least-squares problem is solved."""

MIXED_UNIVERSE_TEXT = "what was computed of several counts"
"""The universe of a result that has no single question."""

_WITHOUT = " but those with "

MAX_CHOSEN_PIECES = 4
"""The largest number of pieces of a list of chosen values that is printed."""

COEFFICIENT_TOLERANCE = 1e-9
"""The tolerance between a combination of a view's rows and the question, relative to its largest weight."""


def append_cut(universe: str, cut: Sequence[str]) -> str:
    """Return the records of a result in words, with the cuts of their values."""
    return f"{universe} ({'; '.join(cut)})" if cut else universe


def whose_ratio(top: ReaderQuestion | None, bottom: ReaderQuestion | None) -> str:
    """Return the records of a ratio in words: of numerator and denominator, or once if they are equal.

    If neither states left-out missing values, and no values are cut, the text is `MIXED_UNIVERSE_TEXT`.
    """
    (a, cut), (b, other) = ((MIXED_UNIVERSE_TEXT, ()) if x is None else (x.who, x.cut) for x in (top, bottom))
    if _WITHOUT not in a + b and not cut and not other:
        return MIXED_UNIVERSE_TEXT
    if cut == other:
        return append_cut(a if a == b else f"{a}, over {b}", cut)
    return f"{append_cut(a, cut)}, over {append_cut(b, other)}"


@final
@dataclass(frozen=True, eq=False)
class AxisSelection:
    """The part of a question along one attribute, or along the levels of one hierarchy, by leaf.

    The leaves of an attribute without a hierarchy are its cells.

    home: The name of the attribute or hierarchy.
    depth: The depth of the deepest named level.
    is_counted: True where records are counted, (leaves,).
    weights: The weight of each leaf, (leaves,).
    label_name: The attribute, level or area list that breaks the numbers down; None without a breakdown.
    labels: The values of `label_name` with a counted leaf.
    label_index: The index of each leaf's label, (leaves,); −1 without a label.
    areas: Used instead of `label_index` if a leaf may have several labels: 1 where the leaf has the label, (labels,
        leaves).
    """

    home: str
    depth: int
    is_counted: Mask
    weights: Floats
    label_name: str | None = None
    labels: tuple[Any, ...] = ()
    label_index: Indices | None = None
    areas: sp.csr_array | None = None

    def rows(self, leaves: Indices) -> sp.csr_array:
        """Return the weights of cells in each number, (numbers, cells); a cell that does not count has weight 0.

        leaves: One leaf of each cell, (cells,); all leaves of a cell have one weight.
        """
        data = self.weights[leaves] * self.is_counted[leaves]
        if self.areas is not None:
            area_rows = sp.csr_array(self.areas[:, leaves] @ sp.diags_array(data))
            area_rows.eliminate_zeros()
            return area_rows
        label_of_cell = np.zeros(len(leaves), dtype=np.intp) if self.label_index is None else self.label_index[leaves]
        counted = np.flatnonzero((data != 0) & (label_of_cell >= 0))
        shape = (len(self.labels) if self.label_name is not None else 1, len(leaves))
        return sp.csr_array((data[counted], (label_of_cell[counted], counted)), shape=shape)

    def exclude(self, excluded: Mask) -> Self:
        """Return this part without some leaves, and without labels that have no leaf then.

        excluded: True for leaves that no longer count, (leaves,).
        """
        chosen = self.is_counted & ~excluded
        if self.areas is not None:
            used = np.flatnonzero(self.areas @ chosen)
            labels = tuple(self.labels[i] for i in used.tolist())
            return replace(
                self,
                is_counted=chosen & (self.areas[used].sum(axis=0) > 0),
                labels=labels,
                areas=self.areas[used],
            )
        if self.label_index is None:
            return replace(self, is_counted=chosen)
        there = np.unique(self.label_index[chosen])
        there = there[there >= 0]
        # the index −1, of leaves without a label, finds the last entry, which stays −1
        new = np.full(len(self.labels) + 1, -1)
        new[there] = np.arange(len(there))
        return replace(
            self, is_counted=chosen, labels=tuple(self.labels[i] for i in there), label_index=new[self.label_index]
        )


@final
@dataclass(frozen=True, eq=False)
class ReaderQuestion:
    """A number, or one for each combination of values, with its part along each named attribute.

    domain: The domain of the attributes.
    selections: The part along each named attribute or hierarchy; all records count along the others.
    breakdown: The names that break the numbers down, in order.
    cut: The cuts of values that are summed, in words.
    """

    domain: Domain
    selections: Mapping[str, AxisSelection]
    breakdown: tuple[str, ...]
    cut: tuple[str, ...] = ()

    @classmethod
    def from_names(cls, domain: Domain, where: Mapping[str, Any], breakdown: str | Iterable[str] | None) -> Self:
        """Return the question with these conditions and this breakdown, by names.

        Raises:
            ReleaseError: An attribute or value is unknown, or an amount is named. Or an attribute or two levels of one
                hierarchy are twice in the breakdown, or conditions exclude each other. Or areas are refused, as by
                :meth:`Areas.from_places`.
        """
        columns = names(breakdown)
        # an attribute called "area" comes first: its name selects its values
        areas = Areas.from_places(domain, where[AREA]) if AREA in where and AREA not in domain else None
        if areas is not None:
            where = {name: x for name, x in where.items() if name != AREA}
        of_areas = areas is not None and areas.names is not None
        # areas with names break the numbers down, first of all unless the breakdown places them
        label_names = columns if not of_areas or AREA in columns else (AREA, *columns)
        columns = tuple(name for name in label_names if not of_areas or name != AREA)
        _refuse_unknown(domain, (*names(where), *columns))
        homes = [
            areas.home if areas is not None and name not in columns else domain.attribute_of(name)
            for name in label_names
        ]
        for i, home in enumerate(homes):
            if home in homes[:i]:
                raise ReleaseError(
                    "repeated-attribute",
                    f"The numbers are to be broken down by {label_names[homes.index(home)]!r} and {label_names[i]!r}.",
                    "These are one attribute, or levels of one hierarchy.",
                    "Name one of them.",
                    UNESTIMATED,
                    place="by",
                )
        selections: dict[str, AxisSelection] = {}
        for name in (*where, *columns):
            home = domain.attribute_of(name)
            part = selections.get(home, _everyone(domain, home))
            if name in where:
                # conditions on several levels of one hierarchy hold together
                part = replace(
                    part, is_counted=part.is_counted & _cells(domain, name, where[name])[leaves(domain, name)]
                )
            selections[home] = replace(part, depth=max(part.depth, domain.depth(name)))
        for name in columns:
            home, attribute = domain.attribute_of(name), domain[name]
            label_index = leaves(domain, name)
            all_of_it = replace(selections[home], label_name=name, labels=attribute.cell_names, label_index=label_index)
            # excludes no leaf, and drops the labels that the conditions left without one
            selections[home] = all_of_it.exclude(np.zeros(len(label_index), dtype=bool))
        if areas is not None:
            selections[areas.home] = _inside(areas, selections.get(areas.home, _everyone(domain, areas.home)))
        for part in selections.values():
            if not part.is_counted.any():
                raise ReleaseError(
                    "no-record-chosen",
                    f"The conditions on {part.home!r} exclude each other.",
                    "No record can meet all of them.",
                    "Remove or change one of the conditions.",
                    UNESTIMATED,
                    place=part.home,
                )
        return cls(domain, selections, label_names)

    def weighted(self, name: str, weights: Floats) -> ReaderQuestion:
        """Return the question with these weights of an attribute's cells, (cells,), instead of those that it had."""
        home = self.domain.attribute_of(name)
        part = self.selections.get(home, _everyone(self.domain, home))
        return replace(
            self, selections={**self.selections, home: replace(part, weights=weights[leaves(self.domain, name)])}
        )

    def summing(self, cut: tuple[str, ...]) -> ReaderQuestion:
        """Return the question for values that were cut as these sentences state."""
        return replace(self, cut=(*self.cut, *cut))

    def with_value(self, name: str) -> ReaderQuestion:
        """Return the question for records that have a value of an attribute.

        Raises:
            ReleaseError: There are no such records.
        """
        home, attribute = self.domain.attribute_of(name), self.domain[name]
        part = self.selections.get(home, _everyone(self.domain, home))
        if not attribute.missing_cells:
            return self
        without = part.exclude(np.arange(attribute.size) >= attribute.own_size)
        if not without.is_counted.any():
            raise ReleaseError(
                "only-missing-values-chosen",
                f"Only missing values of {home!r} are chosen.",
                "This estimate is of records with a value.",
                f"Choose values of {home!r}, too.",
                UNESTIMATED,
                place=home,
            )
        return replace(self, selections={**self.selections, home: without})

    @property
    def labels(self) -> dict[str, tuple[Any, ...]]:
        """The values that break the numbers down, by name."""
        return {name: self.selections[self.attribute_of(name)].labels for name in self.breakdown}

    def attribute_of(self, name: str) -> str:
        """Return the attribute or hierarchy of a name in the breakdown."""
        return next(home for home, part in self.selections.items() if part.label_name == name)

    @property
    def universe(self) -> str:
        """The counted records in words; for sums, with the cuts of their values."""
        return append_cut(self.who, self.cut)

    @property
    def who(self) -> str:
        """The counted records in words: their values, and the missing-value categories that are not counted."""
        chosen, without = [], []
        for home, part in self.selections.items():
            attribute = self.domain[home]
            n = attribute.own_size
            if not part.is_counted[:n].all():
                chosen.append(self._values(home, part).text)
            elif not part.is_counted[n:].all():  # a list of chosen values shows already that others do not count
                missing = [
                    x for x, there in zip(attribute.missing_cells, part.is_counted[n:], strict=True) if not there
                ]
                without.append(f"{home} {', '.join(missing)}")
        description = f"records with {'; '.join(chosen)}" if chosen else "all records"
        return f"{description}{_WITHOUT}{'; '.join(without)}" if without else description

    def _values(self, home: str, selection: AxisSelection) -> ValueList:
        """Return the chosen values on the deepest named level."""
        attribute = self.domain[home]
        name = attribute.levels[selection.depth] if attribute.levels else home
        cells = np.unique(leaves(self.domain, name)[selection.is_counted])
        return list_values(name, self.domain[name], cells.tolist(), MAX_CHOSEN_PIECES)

    def is_within(self, question: ReaderQuestion) -> bool:
        """Return True if, number by number, the records are a subset of those of another question.

        Weights do not count. Numbers are matched by the labels of the other question's breakdown, which must be a part
        of this one.
        """
        mine = (
            (self.selections.get(home, _everyone(self.domain, home)), part)
            for home, part in question.selections.items()
        )
        inside = all(_lies(a, part) for a, part in mine)
        return inside and self.domain == question.domain and set(question.breakdown) <= set(self.breakdown)

    def picked(self, choices: Sequence[tuple[str, list[int], bool]]) -> ReaderQuestion:
        """Return the question for some of the numbers.

        choices: For each name, the chosen labels, and True if the name stays in the breakdown.
        """
        selections = dict(self.selections)
        for name, labels, several in choices:
            home = self.attribute_of(name)
            part = selections[home]
            if part.areas is not None:
                areas = part.areas[labels]
                part = replace(part, labels=tuple(part.labels[i] for i in labels), areas=areas if several else None)
                part = replace(part, is_counted=part.is_counted & (areas.sum(axis=0) > 0))
            else:
                assert part.label_index is not None  # noqa: S101 - this name breaks the numbers down
                part = part.exclude(~np.isin(part.label_index, labels))
            selections[home] = part if several else replace(part, label_name=None, labels=(), label_index=None)
        return replace(self, selections=selections, breakdown=tuple(name for name, _, several in choices if several))

    def forms(self, source: AnswerSource) -> tuple[ReaderQuestion, Forms] | None:
        """Return the answered question, and its numbers from the smallest table that shows them; None if no table does.

        The question keeps its missing-value categories if a table shows the numbers with all of them. Otherwise every
        attribute of the breakdown without a condition loses its categories.
        """
        workload = source.part.publication.workload
        tables = list(_showing(workload, self.selections))
        for question in dict.fromkeys((self, self._by_known())):
            for number in tables:
                table_forms = question._forms_of_table(source, number)
                if table_forms is not None:
                    return question, table_forms
        return None

    def _by_known(self) -> ReaderQuestion:
        """Return the question without the missing-value categories of a breakdown's attributes.

        An attribute with a condition keeps them, because the reader may have chosen them.
        """
        out = self
        for name in self.breakdown:
            out = (
                out.with_value(name)
                if name in self.domain and self.selections[self.attribute_of(name)].is_counted.all()
                else out
            )
        return out

    def _forms_of_table(self, source: AnswerSource, number: int) -> Forms | None:
        """Return the forms over the rows of one table; None if the rows cannot make them.

        number: The index of the table.
        """
        domain, table = self.domain, source.part.publication.workload.tables[number]
        coefficients, order = sp.csr_array(np.ones((1, 1))), []
        for column in table.attributes:
            home = domain.attribute_of(column)
            axis = self.selections.get(home, _everyone(domain, home))
            rows = axis.rows(_first_leaves(domain, column))
            column_rows = row_coefficients(table.view(column), domain[column], rows)
            if column_rows is None:
                return None
            coefficients = sp.csr_array(sp.kron(coefficients, column_rows, format="csr"))
            order += [axis.label_name] if axis.label_name is not None else []
        # numbers are in the order of the table's columns here, and in that of the breakdown in the result
        sizes = [len(self.labels[name]) for name in order]
        where = (
            np.arange(math.prod(sizes)).reshape(sizes).transpose([order.index(name) for name in self.breakdown]).ravel()
        )
        return Forms(len(where), {(source, number): sp.csr_array(coefficients[where])})


def names(names: Any) -> tuple[str, ...]:
    """Return a tuple of names, from None, one name or several.

    Raises:
        ReleaseError: The argument is something else.
    """
    result = (names,) if isinstance(names, str) or not isinstance(names, (Iterable, NoneType)) else tuple(names or ())
    for name in result:
        if not isinstance(name, str):
            raise ReleaseError(
                "attribute-not-named",
                f"{describe_value(name)} stands where the name of an attribute belongs.",
                "Names are texts.",
                "Give the name of an attribute, or a list of names.",
                UNESTIMATED,
            )
    return result


def _refuse_unknown(domain: Domain, names: Iterable[str]) -> None:
    """Raise ReleaseError for names that are not attributes or levels in the domain."""
    for name in names:
        if name not in domain:
            raise unknown_attribute(name, domain, key=name)
        if name in domain.steps:
            raise ReleaseError(
                "amount-as-attribute",
                f"{name!r} is an amount.",
                "Amounts have sums and means; their values neither select nor break down records.",
                "Use Release.total or Release.mean, or remove the amount.",
                UNESTIMATED,
                place=name,
            )


def _everyone(domain: Domain, home: str) -> AxisSelection:
    n = domain[home].size
    return AxisSelection(home, 0, np.ones(n, dtype=bool), np.ones(n))


def _inside(areas: Areas, selection: AxisSelection) -> AxisSelection:
    """Return the part of a question along a hierarchy for areas only, broken down by the areas if they have names."""
    in_areas = areas.leaves.sum(axis=0) > 0
    selection = replace(selection, depth=max(selection.depth, areas.depth), is_counted=selection.is_counted & in_areas)
    if areas.names is None:
        return selection
    labelled = replace(selection, label_name=AREA, labels=areas.names, areas=areas.leaves)
    return labelled.exclude(np.zeros(len(selection.is_counted), dtype=bool))


def _lies(mine: AxisSelection, selection: AxisSelection) -> bool:
    """Return True if the chosen records are, label by label, a subset of those of another part."""
    if not selection.is_counted[mine.is_counted].all():
        return False
    if selection.areas is None:
        return True
    return mine.areas is not None and not (mine.areas - mine.areas.multiply(selection.areas)).count_nonzero()


def leaves(domain: Domain, name: str) -> Indices:
    """Return the cell of an attribute or level for each leaf of its hierarchy, or else each cell itself."""
    home = domain[domain.attribute_of(name)]
    return np.arange(home.size) if home.tree is None else home.tree.above(domain.depth(name))


def _first_leaves(domain: Domain, name: str) -> Indices:
    """Return one leaf of each cell."""
    return np.unique(leaves(domain, name), return_index=True)[1]


def _cells(domain: Domain, name: str, values: Any) -> Mask:
    """Return a mask of the cells of an attribute or level that a value, a range or several values choose."""
    attribute = domain[name]
    out = np.zeros(attribute.size, dtype=bool)
    try:
        out[list(Selection.parse(values).cells(attribute))] = True
    except DomainError as error:
        raise ReleaseError(
            "wrong-selection",
            f"{name} = {reprlib.repr(values)} selects no values.",
            f"{error.given} {error.needed}".strip(),
            f"{error.action} The values are {reprlib.repr(list(attribute.cell_names))}.",
            UNESTIMATED,
            place=name,
        ) from None
    return out


# --- table and rows -------------------------------------------------------------------------------------


def _showing(workload: Workload, selections: Mapping[str, AxisSelection]) -> Iterator[int]:
    """Yield the indices of tables that show all attributes at the required depth, the smallest first.

    Of each pattern of tables (`Family`) it yields only the smallest table that does.
    """
    domain, candidates = workload.domain, list[tuple[float, int]]()
    for start, part in zip(workload.tables.starts.tolist(), workload.tables.parts, strict=False):
        if isinstance(part, Table):
            if part.matrix is None and _shows(domain, part.attributes, selections):
                candidates.append((math.prod(part.shape(domain)), start))
        else:
            candidates += [(cells, start + i) for cells, i in _in_family(domain, part, selections)]
    return (number for _, number in sorted(candidates))


def _shows(domain: Domain, attributes: Sequence[str], selections: Mapping[str, AxisSelection]) -> bool:
    depths = {domain.attribute_of(a): domain.depth(a) for a in attributes}
    return all(home in depths and depths[home] >= part.depth for home, part in selections.items())


def _in_family(domain: Domain, family: Family, selections: Mapping[str, AxisSelection]) -> list[tuple[float, int]]:
    """Return size and index of the smallest table of a pattern that shows all attributes; empty if none does."""
    template_homes = {domain.attribute_of(a) for a in family.template.attributes}
    if not _shows(domain, family.template.attributes, {h: x for h, x in selections.items() if h in template_homes}):
        return []
    # the template's attributes are in every table of the pattern; only the others depend on the combination
    remaining = [part for home, part in selections.items() if home not in template_homes]
    there = np.ones(len(family), dtype=bool)
    for part in remaining:
        names = [
            domain.attribute_of(a) == part.home and domain.depth(a) >= part.depth for a in family.pattern_attributes
        ]
        there &= np.isin(family.combinations, np.flatnonzero(names)).any(axis=1)
    matching = np.flatnonzero(there)
    if not len(matching):
        return []
    cells = family.cells(domain)[matching]
    # a pattern can have thousands of tables: only its smallest is tried, for which the fewest numbers are added up
    best = int(np.argmin(cells))
    return [(float(cells[best]), int(matching[best]))]


def row_coefficients(view: View, attribute: Attribute, rows: sp.csr_array) -> sp.csr_array | None:
    """Return coefficients of a column's rows and of their sum for a question about its cells; None if none exist.

    Args:
        view: The view of the column.
        attribute: The attribute of the column.
        rows: The weight of each cell in each number, (numbers, cells).

    Returns:
        One row for each number, (numbers, rows of the view and their sum).
    """
    n = rows.shape[1]
    # a sum over all cells is one coefficient, where single cells would be n
    if view.is_by_value:
        is_total = rows.shape[0] == 1 and rows.nnz == n and bool((rows.data == 1).all())
        total = sp.csr_array(([1.0], ([0], [n])), shape=(1, n + 1)) if is_total else None
        return (
            total
            if total is not None
            else sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], n + 1))
        )
    operator = view.operator(attribute)
    block = _cumulative(attribute, operator, rows) if isinstance(view, AtMost) else _of_rows(operator, rows)
    return None if block is None else sp.csr_array(sp.hstack([block, sp.csr_array((block.shape[0], 1))], format="csr"))


def _cumulative(attribute: Attribute, operator: op.Operator, rows: sp.csr_array) -> sp.csr_array | None:
    """Return coefficients for a cumulative view: x_i − x_{i+1} in row i, for weights x of the cells.

    Missing-value categories have rows of their own or none; None if one with a weight has no row.
    """
    x, n = rows.tocoo(), attribute.own_size
    width = operator.shape[0]
    if (x.col >= width).any():
        return None
    # a cell's count is its row less the row before; the first cell and missing-value categories have none before
    before = (x.col > 0) & (x.col < n)
    data = np.concatenate([x.data, -x.data[before]])
    positions = np.concatenate([x.row, x.row[before]]), np.concatenate([x.col, x.col[before] - 1])
    out = sp.csr_array((data, positions), shape=(rows.shape[0], width))
    out.eliminate_zeros()
    return out


def _of_rows(operator: op.Operator, rows: sp.csr_array) -> sp.csr_array | None:
    """Return coefficients for ranges and groups: 1 for rows that partition the question, or else any combination.

    None if no combination of rows is the question.
    """
    row_of: dict[tuple[int, ...], int] = {}
    for i, group in enumerate(_sets(operator)):
        row_of.setdefault(group, i)
    entries = []
    for i in range(rows.shape[0]):
        span = slice(rows.indptr[i], rows.indptr[i + 1])
        cells = np.sort(rows.indices[span])
        runs: list[tuple[int, ...]] = [
            tuple(run.tolist()) for run in np.split(cells, np.flatnonzero(np.diff(cells) != 1) + 1)
        ]
        key: tuple[int, ...] = tuple(cells.tolist())
        # one row for all cells, or one for each run of cells: most questions need no matrix
        if not (rows.data[span] == 1).all() or not all(x in row_of for x in ([key] if key in row_of else runs)):
            return _solved(operator, rows)
        entries += [(i, row_of[x]) for x in ([key] if key in row_of else runs)]
    index = np.array(entries, dtype=np.intp).reshape(-1, 2)
    return sp.csr_array((np.ones(len(index)), (index[:, 0], index[:, 1])), shape=(rows.shape[0], operator.shape[0]))


def _sets(operator: op.Operator) -> Iterator[tuple[int, ...]]:
    """Yield the cells of each row of ranges or groups."""
    if isinstance(operator, op.Intervals):
        yield from (tuple(range(i, j + 1)) for i, j in operator.bounds)
    elif isinstance(operator, op.Groups):
        yield from (tuple(sorted(group)) for group in operator.groups)


def _solved(operator: op.Operator, rows: sp.csr_array) -> sp.csr_array | None:
    """Return the coefficients by least squares; None if none are exact, or the matrix is too large."""
    m, n = operator.shape
    if m * n > MAX_MATRIX_ENTRIES:
        return None
    targets = rows.toarray().T
    # at most MAX_MATRIX_ENTRIES numbers, so this dense matrix fits into memory
    matrix = operator.rmv(np.eye(m))
    solution = np.linalg.lstsq(matrix, targets, rcond=None)[0]
    rounded = np.rint(solution)
    # whole numbers where they are meant: the check below is made with the coefficients that are used
    solution = np.asarray(np.where(np.abs(solution - rounded) < COEFFICIENT_TOLERANCE, rounded, solution))
    if not (np.abs(matrix @ solution - targets) <= COEFFICIENT_TOLERANCE * np.abs(targets).max()).all():
        return None
    return sp.csr_array(solution.T)


# --- refusals -------------------------------------------------------------------------------------------


def refuse(sources: Sequence[AnswerSource], question: ReaderQuestion) -> ReleaseError:
    """Return the error with the reason why no table has the numbers of a question."""
    workloads = [s.part.publication.workload for s in sources]

    def is_shown(homes: Iterable[str]) -> bool:
        selections = {home: question.selections[home] for home in homes}
        return any(next(_showing(w, selections), None) is not None for w in workloads)

    # the narrowest reason first: one attribute, then a pair, then all of them together
    for home in question.selections:
        if not is_shown([home]):
            return ReleaseError(
                "attribute-not-shown",
                f"No table of the release shows {home!r} in this detail.",
                "An estimate needs a table that shows its attributes.",
                f"Ask without {home!r}, or for larger groups of its values.",
                UNESTIMATED,
                place=home,
            )
    for one, other in itertools.combinations(question.selections, 2):
        if not is_shown([one, other]):
            return ReleaseError(
                "attributes-not-crossed",
                f"No table of the release shows both {one!r} and {other!r} in this detail.",
                "An estimate needs a table that shows its attributes.",
                "Ask for one of them.",
                UNESTIMATED,
                place=other,
            )
    names = list(question.selections)
    if not is_shown(names):
        return ReleaseError(
            "table-of-all-missing",
            f"No table of the release shows all of {names} in this detail.",
            "An estimate needs a table that shows its attributes.",
            "Ask for fewer of them.",
            UNESTIMATED,
        )
    return ReleaseError(
        "rows-do-not-add-up",
        f"The estimate is no combination of rows of the tables that show {names or 'all records'}.",
        "These tables show groups, ranges or values.",
        "Ask for groups, ranges or values that they show.",
        UNESTIMATED,
    )
