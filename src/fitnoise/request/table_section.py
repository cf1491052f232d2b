"""The keys of a table in a specification: how a table is made from them, and written as them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, create_model

from fitnoise.algebra import operators as op
from fitnoise.errors import SpecError
from fitnoise.request.domain import Domain
from fitnoise.request.number_rules import PublicTotalSpec, TargetRuleSpec, stated_number
from fitnoise.request.spec_section import SpecSection
from fitnoise.request.targets import TargetKind
from fitnoise.request.views import VIEWS
from fitnoise.request.workloads import Family, Table, all_tables, table

ORDERS = {"singles": 1, "pairs": 2, "triples": 3}
"""The words for patterns of tables, with the number of attributes in each table."""

_ARGUMENTS = (*(kind.value for kind in TargetKind), "reference", "confidence", "name", "missing", "ceiling")
"""The keys that are arguments of :func:`table`, in addition to those of views."""

_Number = float | TargetRuleSpec | Annotated[list[float], Field(min_length=1)]


class _NamedColumns(SpecSection):
    """The keys of a table before those of its views."""

    name: str | None = Field(
        None, description='The name of the table. If absent, the name lists the attributes, such as "state by status".'
    )
    pattern: Literal["singles", "pairs", "triples"] | int | None = Field(
        None,
        description="A pattern: one table for each single, pair, triple or other number of the attributes in "
        "pattern_attributes. If absent, there is one table.",
    )
    pattern_attributes: list[str] | None = Field(
        None,
        min_length=1,
        description="The attributes of the pattern. If absent, these are all attributes except amounts and those that "
        "the table names elsewhere.",
    )
    attributes: list[str] = Field(
        default_factory=list,
        description="The attributes shown value by value. If absent, no attribute is shown this way.",
    )


if TYPE_CHECKING:
    _ShownColumns = _NamedColumns
else:
    # The keys of views come from their classes, so that a new view needs no change here.
    _ShownColumns = create_model(
        "_ShownColumns",
        __base__=_NamedColumns,
        **{key: (view.kind | None, Field(None, description=view.description)) for key, view in VIEWS.items()},
    )


class TableSpec(_ShownColumns):
    """A table to publish, or all tables of a pattern.

    It has exactly one target: margin, std_error, variance, max_deviation or relative_std_error.
    """

    ceiling: float | None = Field(
        None,
        description="The amount up to which each value counts in the sum; one of the ceilings of the amount. If "
        "absent, values count up to high.",
    )
    missing: bool = Field(
        False,
        description="True to add rows for the categories of missing values that prefixes, ranges or groups leave out.",
    )
    matrix: list[list[int | float]] | None = Field(
        None, description="Queries over all cells, one in each row. If absent, the other keys define the table."
    )
    margin: _Number | None = Field(
        None,
        description="Half the width of the confidence interval of each number, in the unit of the number: records, or "
        "the unit of the sum or mean. If absent, the table has another target.",
    )
    std_error: _Number | None = Field(
        None,
        description="The standard error of each number, in the unit of the number. If absent, the table has another "
        "target.",
    )
    variance: _Number | None = Field(
        None,
        description="The variance of each number, in the squared unit of the number. If absent, the table has another "
        "target.",
    )
    max_deviation: _Number | None = Field(
        None,
        description="A bound on the errors of all numbers of the table at once, at the confidence level, in the unit "
        "of the numbers. If absent, the table has another target.",
    )
    relative_std_error: _Number | None = Field(
        None,
        description="The relative standard error at the count in reference; 0.05 is 5 %. If absent, the table has "
        "another target.",
    )
    reference: float | PublicTotalSpec | None = Field(
        None,
        description="The public count to which relative_std_error or the target of a mean refers. If absent, the table "
        "has neither.",
    )
    confidence: float | None = Field(
        None, description="The confidence level of the margins of this table. If absent, accuracy.confidence applies."
    )

    def build(self, domain: Domain, folder: Path | None = None) -> Table | Family:
        """Return the table, or the pattern of tables.

        Args:
            domain: The domain, from which a pattern without `pattern_attributes` takes its attributes.
            folder: The folder of a file of targets; None if it is not known.
        """
        arguments = {key: self._argument(key, folder) for key in _ARGUMENTS}
        views = self.model_dump(include={*VIEWS})
        if self.pattern is None and self.pattern_attributes is not None:
            raise SpecError(
                "pattern-attributes-without-pattern",
                "The table has pattern_attributes, and no pattern.",
                "The key pattern_attributes names the attributes of a pattern of tables.",
                'Name the pattern, such as pattern = "pairs", or remove pattern_attributes.',
                "No data were read.",
                place="pattern_attributes",
            )
        if self.matrix is not None:
            other_keys = (self.attributes, *views.values(), self.missing)
            if any(other_keys) or self.pattern is not None or self.ceiling is not None:
                raise SpecError(
                    "matrix-with-views",
                    "The table has a matrix, and attributes, views or a pattern.",
                    "A matrix is about all cells.",
                    "Remove the other keys, or the matrix.",
                    "No data were read.",
                    place="matrix",
                )
            # `table` checks that there is one target; the columns of a matrix table are the cells.
            empty_table = table(**arguments | {"name": self.name or "queries"})
            return Table(empty_table.name, (), empty_table.target, matrix=op.Dense(_matrix(self.matrix)))
        if self.pattern is None:
            return table(*self.attributes, **views, **arguments)
        # A view names one attribute as a text, or several as a list or the keys of a table.
        used_names = {*self.attributes}
        for view_attributes in views.values():
            used_names |= {view_attributes} if isinstance(view_attributes, str) else {*(view_attributes or ())}
        among = _unnamed_attributes(domain, used_names) if self.pattern_attributes is None else self.pattern_attributes
        if not among:
            raise SpecError(
                "pattern-left-empty",
                "Every attribute is an amount, or is named by another key of the table.",
                "The pattern needs attributes to choose from.",
                "Name fewer attributes, or list those of the pattern in pattern_attributes.",
                "No data were read.",
                place="pattern",
            )
        order = ORDERS[self.pattern] if isinstance(self.pattern, str) else self.pattern
        return all_tables(order, among, *self.attributes, **views, **arguments)

    def _argument(self, key: str, folder: Path | None) -> Any:
        """Return the value of a key as :func:`table` takes it, such as a number or a rule; None without the key."""
        stated = getattr(self, key)
        if isinstance(stated, list) and self.pattern is None:
            raise SpecError(
                "target-list-needs-pattern",
                "A single table has a list of targets.",
                "A list has one target for each table of a pattern.",
                "Give one number, or numbers by value as { by = …, values = … }.",
                "No data were read.",
            )
        return stated_number(stated, folder)

    @classmethod
    def document_of(cls, part: Table | Family) -> dict[str, Any]:
        """Return the keys from which `build` makes a table, or a pattern of tables.

        Args:
            part: The table or the pattern.

        Raises:
            SpecError, WorkloadError: A view or a target of the table is one that no specification can state.
        """
        t = part.template if isinstance(part, Family) else part
        # Before anything is written: a document that lacks a view would describe another table.
        t.refuse_unknown_views()
        out: dict[str, Any] = {"name": t.name or None, **t.target.document}
        if isinstance(part, Family):
            word_by_order = {n: word for word, n in ORDERS.items()}
            out["pattern"] = word_by_order.get(part.order, part.order)
            out["pattern_attributes"] = list(part.pattern_attributes)
            # The template holds only the first of the targets.
            if part.numbers is not None:
                out[t.target.kind.value] = list(part.numbers)
        if t.matrix is not None:
            return out | {"matrix": t.matrix.matrix.tolist()}
        # All columns, those with a view included: `table` takes their order from here.
        out["attributes"] = list(t.attributes)
        for key, view_class in VIEWS.items():
            views = {a: view for a, view in t.views if type(view) is view_class}
            out[key] = view_class.key_document(views) if views else None
            for view in views.values():
                # A mean holds its reference, which the target does not have.
                out |= view.further_keys
        out["missing"] = t.missing
        return out


def _unnamed_attributes(domain: Domain, names: Iterable[str]) -> list[str]:
    """Return all attributes except amounts, `names`, and the hierarchies of which these are levels."""
    used_attributes = {domain.attribute_of(a) for a in names if a in domain}
    return [a for a in domain if a not in used_attributes and a not in domain.steps]


def _matrix(rows: list[list[int | float]]) -> np.ndarray[Any, Any]:
    """Return a matrix in which integers stay exact: np.array alone would wrap or round those beyond 64 bits."""
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise SpecError(
            "matrix-rows-differ",
            f"The rows of the matrix have the lengths {sorted(widths)}.",
            "",
            "Give rows of one length, with one entry for each cell.",
            "No data were read.",
            place="matrix",
        )
    is_integer = all(isinstance(x, int) for row in rows for x in row)
    try:
        return np.array(rows, dtype=np.int64 if is_integer else np.float64)
    except OverflowError:
        raise SpecError(
            "matrix-entry-too-long",
            "An entry of the matrix does not fit in 64 bits.",
            "",
            "Scale the queries.",
            "No data were read.",
            place="matrix",
        ) from None
