"""Publications as documents: the statements of users, written back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tomli_w

from fitnoise.errors import SpecError
from fitnoise.kernel.checks import is_real
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.request.attributes import ATTRIBUTES, Attribute, attribute_document
from fitnoise.request.finite_queries import FiniteQuery
from fitnoise.request.publication import Budget, CellBudgets, Publication, SmallDatabase
from fitnoise.request.targets import ByAttribute, ByTableSize, PublicTotal
from fitnoise.request.views import VIEWS
from fitnoise.request.workloads import Family, Table

ORDERS = {"singles": 1, "pairs": 2, "triples": 3}


def cost_document(b: Budget | None, delta: float) -> dict[str, Any] | None:
    """Return a privacy cost as a document, in its own measure; None without one.

    ρ and a pure ε are exact texts. The δ of an ε is left out if it equals `delta`, that of the publication.
    """
    if b is None:
        return None
    return {
        # As texts: a float would lose digits of a fraction such as 1/3, and a plan would be charged another cost.
        "rho": None if b.rho is None else str(b.rho),
        "mu": b.mu,
        "epsilon": b.epsilon if b.pure is None else str(b.pure),
        "delta": None if b.delta == delta else b.delta,
    }


def cell_budgets_document(b: CellBudgets | None) -> dict[str, Any] | None:
    """Return relative budgets of records by cell, one for each combination of values in C order; None without them."""
    return None if b is None else {"attributes": list(b.attributes), "values": list(b.values)}


def named_attribute_document(name: str, a: Attribute) -> dict[str, Any]:
    """Return the declaration of an attribute, without its name.

    Args:
        name: The name of the attribute, for the error only.
        a: The attribute.

    Raises:
        SpecError: The attribute is of none of the kinds that a specification can declare, such as a subclass of one.
    """
    # A subclass may read data in another way than the document of its parent says.
    if type(a) not in ATTRIBUTES:
        raise SpecError(
            "attribute-class-unknown",
            f"The attribute {name!r} has the class {type(a).__name__}, which no specification can declare.",
            "",
            "Declare it as Categorical, Ordered, Binned, Amount or Hierarchy.",
            "No data were read.",
            place=name,
        )
    return attribute_document(a)


def table_document(part: Table | Family) -> dict[str, Any]:
    """Return a table, or a pattern of tables.

    Raises:
        SpecError, WorkloadError: A view or a target of the table is one that no specification can state.
    """
    family = part if isinstance(part, Family) else None
    t = part.template if isinstance(part, Family) else part
    # Before anything is written: a document that lacks a view would describe another table.
    t.refuse_unknown_views()
    target, reference = t.target, t.target.reference
    out: dict[str, Any] = {
        "name": t.name or None,
        target.kind.value: _number_document(target.number),
        "reference": None if reference is None else _reference_document(reference),
        "confidence": target.confidence,
    }
    if family is not None:
        word_by_order = {n: word for word, n in ORDERS.items()}
        out |= {
            "pattern": word_by_order.get(family.order, family.order),
            "pattern_attributes": list(family.pattern_attributes),
        }
        # The template holds only the first of the targets.
        if family.numbers is not None:
            out[target.kind.value] = list(family.numbers)
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


def mechanism_document(publication: Publication) -> dict[str, Any]:
    """Return the keys that state the mechanism of tables, and the small database."""
    small = publication.small_database
    if small is None:
        return {"mechanism": publication.mechanism}
    settings = {
        "region": small.region.value,
        "index": small.index,
        "temperature": small.temperature,
        "variant": small.variant.value,
    }
    # A document leaves out what equals the defaults, so that one publication has one document and one hash.
    usual = small == SmallDatabase(small.size)
    return {
        "mechanism": publication.mechanism or "projection",
        "size": small.size,
        "projection": None if usual else settings,
    }


def finite_document(q: FiniteQuery) -> dict[str, Any]:
    """Return a question with finitely many answers."""
    # Several counts have a list of conditions, and every other question at most one condition.
    where = [{a: values.document for a, values in condition} for condition in q.where]
    return {
        "name": q.name,
        "query": q.question,
        "attribute": q.attribute,
        "quantile": None if q.quantile_share is None else str(q.quantile_share),
        "where": where if q.question is QuestionKind.COUNTS else where[0] if where else None,
        "people": q.people,
        "epsilon": str(q.epsilon),
        "prior": None if q.prior is None else list(q.prior),
        "aim": q.aim,
    }


def toml(document: Mapping[str, Any]) -> str:
    """Return a specification as TOML, with the groups of an attribute in their order, which is that of published rows.

    Args:
        document: As JSON values.
    """
    # TOML writes tables of keys after plain values, which would move groups written as tables to the end.
    # Such groups become one inline table: a mark holds their place while the rest is written.
    text = tomli_w.dumps(document)
    # No text of the document contains the mark, so only the marks are replaced.
    mark = next(m for i in itertools.count() if (m := f"groups-{i}-") not in text)
    held: list[str] = []

    def without_groups(x: Any) -> Any:
        if isinstance(x, Mapping):
            return {key: held_back(y) if key == "groups" and _mixed(y) else without_groups(y) for key, y in x.items()}
        return [without_groups(y) for y in x] if isinstance(x, list) else x

    def held_back(groups: Any) -> str:
        # After a 0, the groups are written inline; tomli_w can write a list of tables alone as [[x]].
        inline = tomli_w.dumps({"x": [0, groups]}).split("0,", 1)[1]
        held.append(inline.strip().removesuffix("]").strip().removesuffix(","))
        return f"{mark}{len(held) - 1}-"

    marked = without_groups(document)
    if held:
        text = tomli_w.dumps(marked)
        for i, inline in enumerate(held):
            text = text.replace(f'"{mark}{i}-"', inline)
    return text


def _mixed(groups: Any) -> bool:
    """Return True if some group is a table of keys, such as a range."""
    by_attribute = [x for x in groups.values() if isinstance(x, Mapping)] if isinstance(groups, Mapping) else []
    return any(isinstance(values, Mapping) for selections in by_attribute for values in selections.values())


def _number_document(number: float | ByAttribute | ByTableSize) -> Any:
    """Return a target: one number, or the keys of a rule. Raise SpecError for another class."""
    # Exact classes: a subclass may compute other targets than its document states.
    if type(number) is ByTableSize:
        limits = {"least": number.least, "most": number.most}
        numbers = {"coefficient": number.coefficient, "power": number.power, **limits}
        # NumPy integers are neither valid in a specification nor written as TOML.
        return {key: None if x is None else float(x) for key, x in numbers.items()}
    return _by_document(number) if type(number) is ByAttribute else _plain_number(number)


def _reference_document(reference: float | PublicTotal) -> Any:
    """Return the public count that a target refers to."""
    return {"total": float(reference.total)} if type(reference) is PublicTotal else _plain_number(reference)


def _plain_number(number: Any) -> float:
    """Return a number as a float. Raise SpecError for all else, which would be written as a number."""
    # `float` alone would also read a text.
    if not is_real(number):
        raise SpecError(
            "target-class-unknown",
            f"A target or a reference count has the class {type(number).__name__}, which no specification can declare.",
            "",
            "Give a number, ByAttribute, ByTableSize or PublicTotal.",
            "No data were read.",
        )
    return float(number)


def _by_document(rule: ByAttribute) -> dict[str, Any]:
    values: Any = [float(v) for v in rule.values if not isinstance(v, tuple)]
    if rule.is_by_name:
        values = {str(v[0]): float(v[1]) for v in rule.values if isinstance(v, tuple)}
    return {"by": rule.attribute, "values": values, "default": None if rule.default is None else float(rule.default)}


def further_tables_document(p: Publication, confidence: float) -> dict[str, Any]:
    """Return further tables; their confidence only if it differs from `confidence`, that of the first tables."""
    o, w = p.objective, p.workload
    return {
        "tables": [table_document(x) for x in w.tables.parts],
        "privacy": p.privacy,
        "confidence": None if w.confidence == confidence else w.confidence,
        "gap": p.gap,
        "objective": {
            "goal": o.goal,
            "weights": o.weights,
            "total_error_weight": None if o.total_error_weight is None else float(o.total_error_weight),
        },
        "budget": cost_document(p.budget, p.delta),
        "cell_budgets": cell_budgets_document(p.cell_budgets),
        **mechanism_document(p),
    }
