"""Views: the proof that one record of a table changes at most one row of a view.

**Purpose.** A view is a query. One record of its table may change many of its rows, and what fitnoise promises about
one record would then be wrong. So a view is counted only where its definition proves the opposite, or where the
publisher promises it.

**What is proved.** A definition is row-wise if each row of the view is computed from one row of one table, by
operations that depend on nothing else. It may leave out rows by a condition on the row itself (WHERE). Then adding,
removing or changing a row of the table adds, removes or changes at most one row of the view. The table may be a view
that is row-wise itself.

**How.** sqlglot parses the definition, for this proof alone: fitnoise runs no statement that sqlglot writes. Every node
of the tree, and every part of a node, must be in a list of known ones. Nothing is proved of a definition with anything
else, such as a join, an aggregate, a window or a function that is not listed. Text that two programs may read in two
ways, such as comments, is not proved either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from fitnoise.errors import DataError

if TYPE_CHECKING:
    from sqlglot import exp

_T = TypeVar("_T")

ROW_WISE: Final = "row-wise"
"""The word for a view whose definition proves this."""

TABLE: Final = "table"
VIEW: Final = "view"
STORED: Final = "stored"
"""The kinds of relations of a proof: a table, a view, and a view whose rows are stored (a materialised view)."""

_MAX_VIEWS: Final = 16
"""The largest number of views that lie between a view and its table."""

_TYPES: Final = frozenset({
    "BIGINT", "BOOLEAN", "CHAR", "DECIMAL", "DOUBLE", "FLOAT", "INT", "MEDIUMINT", "NCHAR", "NVARCHAR", "SMALLINT",
    "TEXT", "TINYINT", "UBIGINT", "UINT", "USMALLINT", "UTINYINT", "VARCHAR",
})  # fmt: skip
"""The types to which a definition may convert a value, by their names in sqlglot.

Dates are absent: some engines read "today" as one.
"""

_NODES: Final[Mapping[str, str]] = {
    # the query
    "Select": "expressions from where order", "From": "this", "Where": "this", "Table": "this db catalog alias",
    "TableAlias": "this", "Alias": "this alias", "Order": "expressions", "Ordered": "this desc nulls_first",
    "Column": "this table db catalog", "Identifier": "this quoted", "Star": "", "Paren": "this",
    # constants
    "Literal": "this is_string", "Null": "", "Boolean": "this", "Array": "expressions",
    # conditions
    "And": "this expression", "Or": "this expression", "Not": "this", "EQ": "this expression",
    "NEQ": "this expression", "GT": "this expression", "GTE": "this expression", "LT": "this expression",
    "LTE": "this expression", "NullSafeEQ": "this expression", "NullSafeNEQ": "this expression",
    "Is": "this expression negate", "In": "this expressions negate", "Between": "this low high negate",
    "Like": "this expression negate", "Any": "this",
    # operations on values
    "Add": "this expression", "Sub": "this expression", "Mul": "this expression", "Div": "this expression typed safe",
    "Mod": "this expression", "IntDiv": "this expression", "Neg": "this", "DPipe": "this expression safe",
    "Concat": "expressions safe coalesce", "Case": "this ifs default", "If": "this true false",
    "Coalesce": "this expressions", "Nullif": "this expression", "Abs": "this", "Round": "this decimals",
    "Floor": "this", "Ceil": "this", "Upper": "this", "Lower": "this", "Trim": "this position", "Length": "this",
    "Substring": "this start length", "Left": "this expression", "Right": "this expression",
    "Cast": "this to", "DataType": "this expressions nested", "DataTypeParam": "this",
}  # fmt: skip
"""The nodes of row-wise definitions, by their names in sqlglot, with the parts that they may have."""

_CLAUSES: Final = {
    "laterals": "it reads several tables",
    "group": "it groups rows",
    "having": "it groups rows",
    "distinct": "it leaves out equal rows (DISTINCT)",
    "limit": "it limits the number of rows",
    "offset": "it limits the number of rows",
    "with": "it has a common table expression (WITH)",
    "windows": "it has a window function",
    "qualify": "it has a window function",
    "sample": "it draws a sample of rows",
    "query": "it has a query within the query",
    "pivots": "it turns rows into columns",
}
"""Reasons why nothing is proved, by the part of the query or of its table."""

_FOREIGN = re.compile(r"--|/\*|#|\\|[^\S\n\t\r ]|[\x00-\x08\x0e-\x1f\x7f]")
"""Text that engines and sqlglot may read in two ways: comments, escapes, and blanks other than these."""


class NotProvenError(Exception):
    """The reason why nothing is proved of a view: a clause about the view, without a text of its definition."""


@final
@dataclass(frozen=True)
class FoundView:
    """The finding of an engine about a view that it counts.

    word: The publisher's word for a promise, or `ROW_WISE`.
    filters: True if the view is row-wise, and a condition leaves out rows of its table.
    """

    word: str
    filters: bool = False


@final
@dataclass(frozen=True)
class Selection:
    """The table and the columns that a row-wise definition reads.

    schema: The schema of the table as the definition names it; `None` where it names none.
    table: The name of the table.
    columns: The names of the columns that it reads, in small letters.
    filters: True if a condition leaves out rows.
    """

    schema: str | None
    table: str
    columns: frozenset[str]
    filters: bool


@final
@dataclass(frozen=True)
class Relation:
    """A table or view as its database describes it.

    kind: `TABLE`, `VIEW`, `STORED`, or another text for other relations.
    name: The schema and the name.
    columns: The names of its columns.
    definition: The definition of a view.
    state: A value that changes when the relation is replaced, where the database has one.
    """

    kind: str
    name: tuple[str | None, str]
    columns: tuple[str, ...] = ()
    definition: str | None = None
    state: object = None


@final
@dataclass(frozen=True)
class ViewProof:
    """The proof that a view is row-wise.

    table: The table whose rows it shows.
    filters: True if a condition leaves out rows of the table.
    views: The views from the proved one to the table. If their definitions are the same, the proof holds again.
    """

    table: Relation
    filters: bool
    views: tuple[Relation, ...]


def prove(relation: Relation, find: Callable[[Selection], Relation | None], language: str) -> ViewProof:
    """Return the proof that a view is row-wise.

    Args:
        relation: The view.
        find: A function that returns the relation that a definition reads; `None` if there is no such relation.
        language: The name of the database's SQL in sqlglot.

    Raises:
        NotProvenError: The definition proves nothing.
    """
    views, filters = [relation], False
    while True:
        view = views[-1]
        read = read_definition(view.definition, language)
        inner = find(read)
        if inner is None or inner.kind not in {TABLE, VIEW, STORED}:
            raise NotProvenError(f"it reads {read.table!r}, which is neither a table nor a view of this database")
        # The columns of the system, such as the position of a row, are not among these.
        if unknown := read.columns - {column.casefold() for column in inner.columns}:
            raise NotProvenError(f"it reads {min(unknown)!r}, which is no column of {read.table!r}")
        filters |= read.filters
        if inner.kind == TABLE:
            return ViewProof(inner, filters, tuple(views))
        if view.kind == STORED:
            # The rows were computed by the definition of that time.
            raise NotProvenError("its rows are stored, and were computed from another view, which may have changed")
        if len(views) > _MAX_VIEWS:
            raise NotProvenError(f"more than {_MAX_VIEWS} views lie between it and a table")
        views.append(inner)


def read_definition(definition: str | None, language: str) -> Selection:
    """Return what a row-wise definition reads.

    Args:
        definition: The query of a view, or the statement that made the view; `None` if it is not known.
        language: The name of the database's SQL in sqlglot.

    Raises:
        NotProvenError: The definition is not known to be row-wise.
    """
    if not definition:
        raise NotProvenError("you may not read its definition")
    letters = (c for c in definition if not c.isascii())
    if _FOREIGN.search(definition) or not all(c.isalnum() for c in letters):
        raise NotProvenError("its definition holds a comment, a backslash or an unusual character")
    try:
        query = _parsed(definition, language)
    except ImportError:
        raise NotProvenError(
            "sqlglot, which reads definitions, is not installed (pip install 'fitnoise[sql]')"
        ) from None
    except Exception:  # its message quotes the definition
        raise NotProvenError("its definition is not one SELECT that sqlglot can read") from None
    return _selection(query)


def _parsed(definition: str, language: str) -> exp.Expr:
    """Return the tree of a query; raise any error if the text is no single query."""
    import sqlglot
    from sqlglot import TokenType

    tokens = sqlglot.tokenize(definition, dialect=language)
    if tokens[0].token_type is TokenType.CREATE:
        # What precedes the first AS is the name of the view and names of its columns.
        start = next(token for token in tokens if token.token_type is TokenType.ALIAS)
        definition = definition[start.end + 1 :]
        tokens = tokens[tokens.index(start) + 1 :]
    if tokens[0].token_type not in {TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN}:
        raise ValueError  # sqlglot would log the text of other statements
    (query,) = sqlglot.parse(definition, dialect=language)
    if query is None:
        raise ValueError
    return query


def _selection(query: exp.Expr) -> Selection:
    """Return what a query reads; raise NotProvenError unless it is row-wise."""
    from sqlglot import exp

    if isinstance(query, exp.SetOperation):
        raise NotProvenError("it combines several queries (UNION, INTERSECT or EXCEPT)")
    allowed = _allowed()
    if query.find(exp.Join) is not None:  # also in brackets, which some engines add
        raise NotProvenError("it reads several tables")
    for node in query.walk():
        # A subclass may mean something else.
        parts = allowed.get(type(node))
        if parts is None or (isinstance(node, exp.Select) and node is not query):
            raise NotProvenError(_reason(node))
        if isinstance(node, exp.DataType) and getattr(node.this, "name", "") not in {*_TYPES, "ARRAY"}:
            raise NotProvenError("it converts a value to a type that fitnoise does not know")
        for part, value in node.args.items():
            if part.rstrip("_") not in parts and not (value is None or value is False or value == []):
                other = f"it has a part that fitnoise does not know ({part.strip('_')} of {type(node).__name__})"
                raise NotProvenError(_CLAUSES.get(part.rstrip("_"), other))
    table = query.args["from_" if "from_" in query.args else "from"].this if _reads(query) else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier) or table.args.get("catalog"):
        raise NotProvenError("it reads something other than one named table of this database")
    names = {table.alias_or_name.casefold()}
    columns = [*query.find_all(exp.Column)]
    if any(column.table and column.table.casefold() not in names for column in columns):
        raise NotProvenError("it reads a part of a column")
    used = frozenset(column.name.casefold() for column in columns if isinstance(column.this, exp.Identifier))
    return Selection(table.db or None, table.name, used, query.args.get("where") is not None)


def _reads(query: exp.Expr) -> bool:
    return bool(query.args.get("from_") or query.args.get("from"))


@cache
def _allowed() -> Mapping[type, frozenset[str]]:
    """Return the known nodes with the parts that they may have."""
    from sqlglot import exp

    return {getattr(exp, name): frozenset(parts.split()) for name, parts in _NODES.items()}


def _reason(node: exp.Expr) -> str:
    """Return why nothing is proved of a definition with this node."""
    from sqlglot import exp

    kinds: list[tuple[Any, str]] = [
        (exp.Join, "it reads several tables"),
        (exp.Window, "it has a window function"),
        ((exp.Query, exp.Exists, exp.CTE), "it has a query within the query"),
        ((exp.UDTF, exp.Explode), "it may make several rows of one"),
        (exp.AggFunc, "it aggregates rows"),
        (exp.Func, "it calls a function that fitnoise does not know to be the same at each call"),
    ]
    text = next(
        (text for kind, text in kinds if isinstance(node, kind)), "it has an operation that fitnoise does not know"
    )
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return f"{text} ({name})"


def found_view(
    what: str, promise: str | None, prove_view: Callable[[], ViewProof]
) -> tuple[FoundView, ViewProof | None]:
    """Return what is promised or proved about a view, and the proof, which a promised view may have, too.

    Args:
        what: The view, as the error names it.
        promise: The promise of the publisher; `None` without one.
        prove_view: A function that returns the proof, or raises NotProvenError.

    Raises:
        DataError: Nothing is proved and nothing promised.
    """
    proof, why = attempted(prove_view)
    if promise is not None:
        return FoundView(promise), proof
    if proof is None:
        raise not_proven(what, why)
    return FoundView(ROW_WISE, proof.filters), proof


def attempted(action: Callable[[], _T]) -> tuple[_T | None, str]:
    """Return the result of an action, or `None` and the reason for which it raised NotProvenError.

    An error that is raised afterwards has no context: the error of a parser would quote the definition.
    """
    try:
        return action(), ""
    except NotProvenError as error:
        return None, str(error)


def refuse_replaced(what: str, before: object, now: object) -> None:
    """Raise DataError if the findings about a table or view differ from those when it was opened."""
    if now != before:
        raise DataError(
            "view-replaced",
            f"The definition of {what} changed after it was opened.",
            "fitnoise counts the view about which the plan and the ledger state a promise or a proof.",
            "Repeat the command while no one changes the view.",
            "Nothing was measured and nothing was charged.",
        )


def not_proven(what: str, why: str) -> DataError:
    """Return the error for a view of which nothing is proved, and nothing promised.

    Args:
        what: The view, as the error names it.
        why: The reason.
    """
    return DataError(
        "view-not-promised",
        f"The data are {what}, and nothing shows that one record changes at most one row: {why}.",
        "fitnoise counts a table, a view whose definition shows this, or a view of which you promise it.",
        'If one record of the unit changes one row, state this promise in [data]: `view = "promised"`. Otherwise count '
        "the table.",
        "Nothing was measured and nothing was charged.",
        place="data.view",
    )
