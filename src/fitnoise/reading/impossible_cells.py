"""Cells in which no record can be, stated by rules: their joint cells, and the unknowns that they leave. No data.

A rule is a box: for several attributes, some cells of each. x are the counts of the joint cells, and P are the possible
cells. B are independent rows of the tables. Then B x = E (B x)_r for every x that is 0 outside P. The rows r are
independent on P, and the factors E follow from B_P alone.

Rows of B that become dependent on P give the forms that the rules make 0. If there are none in any sector, the rules
add no information to the tables. For one box this means that no table shows all its attributes by value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
import scipy.linalg as sl

from fitnoise.errors import DomainError, ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.reading.questions import ReaderQuestion, leaves
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.request.coverage import ValueList, list_values
from fitnoise.request.domain import Domain
from fitnoise.request.impossible_rules import ImpossibleBox, Mask, box_from, chosen_cells
from fitnoise.request.joint_axes import joint_axis
from fitnoise.request.workloads import Table
from fitnoise.solving.sectors import Decomposition, SectorGroup

MAX_RULE_CELLS = 2**22
"""The largest number of joint cells of the attributes of all rules: 4 MiB for a mask."""

MAX_DENSE_RULE_CELLS = 4_096
"""The largest such number for which each value is a structured cell. Above it, classes of values are."""

NO_CLASSES: Mapping[str, Indices] = {}
"""No attribute has classes: each value is a cell."""

DEPENDENCE_TOLERANCE = 1e-9
"""The part of the largest residual up to which a row counts as a combination of other rows."""


@final
@dataclass(frozen=True, eq=False)
class ImpossibleCells:
    """The cells of a domain in which no counted record is.

    domain: The attributes of the tables.
    rules: The boxes of impossible cells.
    attributes: The attributes of all rules, in the order of the domain.
    possible: True for the possible joint cells of these attributes, in the shape of their cells.
    """

    domain: Domain
    rules: tuple[ImpossibleBox, ...]
    attributes: tuple[str, ...]
    possible: Mask

    @classmethod
    def from_rules(cls, domain: Domain, impossible: Sequence[Mapping[str, Any]], tables: Iterable[Table]) -> Self:
        """Return the impossible cells that rules state.

        Args:
            domain: The attributes of the tables.
            impossible: For each rule the conditions on its attributes, in the form of `where` in a specification.
            tables: The tables. An error about a value that is the name of a row, such as a group, says so.

        Raises:
            ReleaseError: A rule has no such form. Or a rule has an unknown attribute or value, an
                amount, fewer than two attributes, or two levels of one hierarchy. Or bounds cut through a cell or
                contain no cell. Or there are too many joint cells, or no cell is possible.
        """
        try:
            rules = tuple(map(box_from, impossible))
        except DomainError as error:
            raise _of_release(error) from None
        boxes = [_box(domain, rule, tables) for rule in rules]
        attributes = tuple(a for a in domain if any(a in box for box in boxes))
        shape = tuple(domain[a].size for a in attributes)
        if math.prod(shape) > MAX_RULE_CELLS:
            raise ReleaseError(
                "impossible-too-many-cells",
                f"The attributes {list(attributes)} of the rules have {math.prod(shape):,} joint cells.",
                f"The attributes of all rules may have at most {MAX_RULE_CELLS:,} joint cells.",
                "Remove the rules on one of these attributes.",
                UNCOMPUTED,
            )
        possible = np.ones(shape, dtype=bool)
        for box in boxes:
            sides = (np.flatnonzero(box[a]) if a in box else np.arange(domain[a].size) for a in attributes)
            possible[np.ix_(*sides)] = False
        if not possible.any():
            raise ReleaseError(
                "impossible-everything",
                "The rules exclude all cells.",
                "At least one cell must be possible.",
                "Remove or correct a rule.",
                UNCOMPUTED,
            )
        return cls(domain, rules, attributes, possible)

    @property
    def document(self) -> list[dict[str, Any]]:
        """The rules as plain JSON values, from which `from_rules` returns the same cells."""
        return [rule.document for rule in self.rules]

    @property
    def values(self) -> tuple[tuple[ValueList, ...], ...]:
        """The values of each rule in few words, by attribute or level."""
        chosen = (chosen_cells(self.domain, rule.conditions) for rule in self.rules)
        return tuple(
            tuple(list_values(a, self.domain[a], np.flatnonzero(cells).tolist()) for a, cells in box.items())
            for box in chosen
        )

    def classes(self, attribute: str) -> Indices:
        """Return the class of each value of an attribute, from 0 on: the rules treat the values of one class equally.

        attribute: An attribute of the rules that is no hierarchy.
        """
        by_value = np.moveaxis(self.possible, self.attributes.index(attribute), 0).reshape(
            self.domain[attribute].size, -1
        )
        return np.unique(by_value, axis=0, return_inverse=True)[1].ravel()

    def possible_among(self, domain: Domain, axes: Sequence[str], classes: Mapping[str, Indices] = NO_CLASSES) -> Mask:
        """Return True for the possible joint cells of some axes, in C order, (cells,).

        A cell is possible if it has a possible joint cell of the rules' attributes.

        domain: The domain of the rules, with the joint axes among `axes`.
        axes: Attributes, levels and joint axes.
        classes: For some of these attributes the class of each value (`classes`), which replaces the values as cells.
        """
        joint = [joint_axis(domain, axis) for axis in axes]
        parts = [(axis,) if one is None else one.names for axis, one in zip(axes, joint, strict=True)]
        lengths = {a: int(labels.max()) + 1 for a, labels in classes.items()}
        sizes = [[lengths.get(name, domain.sizes[name]) for name in part] for part in parts]
        out = self._possible_among([name for part in parts for name in part], classes)
        out = out.reshape([*map(math.prod, sizes)])
        for position, one in enumerate(joint):
            if one is not None:
                # No rule is about an amount, so its steps are equal here.
                cells = [one.column(name) * (name not in domain.steps) for name in one.names]
                out = out.take(np.ravel_multi_index(cells, sizes[position]), position)
        return out.ravel()

    def _possible_among(self, names: Sequence[str], classes: Mapping[str, Indices]) -> Mask:
        """Return True for the possible joint cells of some attributes, levels or classes, in C order, (cells,)."""
        homes = [self.domain.attribute_of(name) for name in names]
        sizes = {a: int(classes[a].max()) + 1 if a in classes else self.domain.sizes[a] for a in names}
        gone = tuple(i for i, a in enumerate(self.attributes) if a not in homes)
        out, kept_attributes = np.asarray(self.possible.any(axis=gone)), [a for a in self.attributes if a in homes]
        for axis, home in enumerate(kept_attributes):
            name = names[homes.index(home)]
            cells = classes[name] if name in classes else leaves(self.domain, name)
            coarse = np.zeros((sizes[name], *np.delete(out.shape, axis)), dtype=bool)
            np.logical_or.at(coarse, cells, np.moveaxis(out, axis, 0))
            out = np.moveaxis(coarse, 0, axis)
        # from the order of the domain to that of the names, with one cell for each attribute without a rule
        order = [kept_attributes.index(home) for home in homes if home in kept_attributes]
        lengths = [sizes[name] for name in names]
        ones = [n if home in kept_attributes else 1 for n, home in zip(lengths, homes, strict=True)]
        return np.broadcast_to(out.transpose(order).reshape(ones), lengths).ravel()

    def may_count(self, question: ReaderQuestion) -> Mask:
        """Return False for the numbers of a question that no record in a possible cell adds to, (numbers,)."""
        counts = self.possible.astype(np.float64)
        labelled: dict[str, int] = {}
        for axis, home in enumerate(self.attributes):
            part = question.selections.get(home)
            rows = np.ones((1, self.domain[home].size))
            if part is not None:
                rows = np.abs(np.sign(part.rows(np.arange(self.domain[home].size)).toarray()))
                labelled |= {} if part.label_name is None else {part.label_name: axis}
            counts = np.moveaxis(np.tensordot(rows, counts, axes=(1, axis)), 0, axis)
        lengths = [len(labels) for labels in question.labels.values()]
        inside = [name for name in question.breakdown if name in labelled]
        # the axes of attributes that break no numbers down have length 1, and come first
        others = [i for i in range(counts.ndim) if i not in labelled.values()]
        counted = counts.transpose([*others, *(labelled[name] for name in inside)])
        ones = [n if name in labelled else 1 for n, name in zip(lengths, question.breakdown, strict=True)]
        return np.broadcast_to(counted.reshape(ones) > 0, lengths).ravel()


def without_rule() -> ReleaseError:
    """Return the error for an empty list of rules."""
    return ReleaseError(
        "impossible-without-rule",
        "No rule is given.",
        "",
        "State at least one rule.",
        UNCOMPUTED,
    )


def _box(domain: Domain, rule: ImpossibleBox, tables: Iterable[Table]) -> dict[str, Mask]:
    """Return the cells of a rule, True for those in it, by attribute; for a hierarchy by leaf."""
    try:
        chosen = chosen_cells(domain, rule.conditions)
    except DomainError as error:
        if error.slug == "impossible-unknown-value":
            # a value that is no value of its attribute can be the name of a row
            _refuse_row(domain, rule, tables)
        raise _of_release(error) from None
    return {domain.attribute_of(name): cells[leaves(domain, name)] for name, cells in chosen.items()}


def _of_release(error: DomainError) -> ReleaseError:
    """Return an error in a rule as one of a release, with its code."""
    problem = ReleaseError(*error.args, place=error.place, values=error.values)
    problem.area = error.area
    return problem.with_outcome(UNCOMPUTED)


def _refuse_row(domain: Domain, rule: ImpossibleBox, tables: Iterable[Table]) -> None:
    """Raise ReleaseError if a rule names a row of a table, such as a group, in place of values."""
    for name, code in ((c.column, code) for c in rule.conditions for code in c.codes if c.column in domain):
        is_value = code in domain[name].values or code in domain[name].label_codes
        cells = [] if is_value else _cells_of_row(domain, name, code, tables)
        if cells:
            values = ", ".join(list_values(name, domain[name], cells).pieces)
            raise ReleaseError(
                "impossible-row",
                f"A rule has the value {code!r} of {name!r}, which is the name of a row of a table.",
                "A rule names values, or bounds.",
                f"Name the values of this row: {values}.",
                UNCOMPUTED,
                place=name,
            )


def _cells_of_row(domain: Domain, name: str, code: object, tables: Iterable[Table]) -> list[int]:
    """Return the cells of a row of a table, such as a group or a range; empty if no column of the name has it."""
    attribute = domain[name]
    for view in (table.view(name) for table in tables):
        labels = () if view.is_by_value else view.labels(attribute)
        if code in labels:
            unit = np.zeros(len(labels))
            unit[labels.index(code)] = 1
            return np.flatnonzero(view.operator(attribute).rmv(unit)).tolist()
    return []


# --- the unknowns that remain ---------------------------------------------------------------------------


def independent_rows(rows: Floats) -> tuple[Indices, Floats]:
    """Return the indices of r independent rows, and factors E, (rows, r), such that all rows are E times these."""
    # rows of single entries, one for each column, need no elimination: all other rows are written in their columns
    used = np.flatnonzero(rows.any(axis=0))
    if not len(used):
        return np.zeros(0, dtype=np.intp), np.zeros((len(rows), 0))
    single = np.flatnonzero((rows != 0).sum(axis=1) == 1)
    columns, indices = np.unique((rows[single] != 0).argmax(axis=1), return_index=True)
    if np.array_equal(columns, used):
        units = single[indices].astype(np.intp)
        return units, np.asarray(rows[:, columns] / rows[units, columns])
    # scaled to 1, because counts and sums of large amounts differ by many powers of ten
    sizes = np.sqrt((rows * rows).sum(axis=1))
    triangle, order = sl.qr((rows / np.where(sizes > 0, sizes, 1.0)[:, None]).T, mode="r", pivoting=True)
    diagonal = np.abs(np.diagonal(triangle))
    rank = int((diagonal > DEPENDENCE_TOLERANCE * diagonal[0]).sum())
    chosen: Indices = np.asarray(order[:rank], dtype=np.intp)
    factors = np.zeros((len(rows), rank))
    factors[chosen] = np.eye(rank)
    rest = sl.solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:]).T
    factors[order[rank:]] = rest * sizes[order[rank:], None] / sizes[chosen]
    rounded = np.rint(factors)
    # whole numbers where they are meant, so that equal rows stay equal
    return chosen, np.asarray(np.where(np.abs(factors - rounded) < DEPENDENCE_TOLERANCE, rounded, factors))


def restricted(d: Decomposition, possible: Mask) -> Iterator[tuple[int, Floats, SectorGroup]]:
    """Yield the groups of sectors that have unknowns over possible cells.

    possible: True for each possible structured cell, (n_o,).

    Yields:
        The number of the group; E, (unknowns before, unknowns that remain); the group over the possible cells.
    """
    for number, group in enumerate(d.groups):
        basis = np.where(possible, group.basis, 0)
        rows, factors = independent_rows(basis[:, possible].astype(np.float64))
        if len(rows):
            sizes = tuple(np.sqrt((b.astype(np.float64) ** 2).sum(axis=1)) for b in (group.basis, basis[rows]))
            lifts = (restricted_lift(m.answers(np.eye(len(factors))).T, factors, *sizes) for m in group.members)
            members = tuple(replace(m, lift=lift) for m, lift in zip(group.members, lifts, strict=True))
            yield number, factors, replace(group, basis=basis[rows], members=members)


def restricted_lift(before: Floats, factors: Floats, sizes: Floats, remaining_sizes: Floats) -> Floats:
    """Return L E, (numbers, unknowns that remain). Rows that depend on no unknown that remains are exactly 0.

    before: L, (numbers, unknowns before).
    factors: E, (unknowns before, unknowns that remain).
    sizes, remaining_sizes: The ℓ2 norms of the rows of the basis before, and of those that remain.
    """
    lift = before @ factors
    is_zero = np.abs(lift) @ remaining_sizes <= DEPENDENCE_TOLERANCE * (np.abs(before) @ sizes)
    return np.where(is_zero[:, None], 0.0, lift)
