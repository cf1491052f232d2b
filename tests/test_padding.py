"""A domain with further values that no record has never makes a plan of lower cost.

A plan for the larger domain is one for the smaller, without the cells that no record has. It answers the same numbers
with the same variances, and fewer records can differ. So the least cost of the smaller domain is no larger. A plan is
as near to its least cost as its certified gap says. So the larger domain costs at least as much as the bound of the
smaller. All plans here keep closer than that.
"""

import copy
import json

import pytest

import fitnoise as fn
import frozen

SEARCHED = 1e-4
"""The gap at which the searches for sets of records end. By this factor, a plan of the larger domain can cost less."""

OTHER_TARGETS = ('"coefficient"', '"total":', '"objective"', '"also"', '"beside"')
"""Marks of documents whose targets depend on the number of cells, or whose numbers are not one plan for tables."""


def padded(document, name):
    """The document with one more value of an attribute, or None where its form gives no such value."""
    document = copy.deepcopy(document)
    attribute = document["domain"][name]
    if attribute["type"] == "categorical":
        codes = attribute["codes"]
        if isinstance(codes[0], bool) or "lookup" in attribute:
            return None
        attribute["codes"] = [*codes, max(codes) + 1 if isinstance(codes[0], int) else "further"]
        if "labels" in attribute:
            attribute["labels"] = [*attribute["labels"], "further"]
    elif attribute["type"] == "ordered":
        attribute["high"] += 1
    elif attribute["type"] == "binned":
        attribute["cuts"] = [*attribute["cuts"], 2 * attribute["cuts"][-1] + 1]
    elif "places" in attribute:
        *above, leaf = attribute["places"][-1]
        places = [row[-1] for row in attribute["places"]]
        attribute["places"].append([*above, "further" if isinstance(leaf, str) else max(places) + 1])
    elif "children" in attribute:
        attribute["children"][-1] += 1
    else:
        return None
    return document


def planned(document):
    """The plan of a document, and the cost of its targets: under a budget, the cost that meets them."""
    plan = fn.plan(frozen.publication(document), refine=document.get("refine", False))
    return plan, plan.table_part.objective_value * plan.table_part.relaxation


def check_padded(document):
    """The law for each attribute with a further value; return the number of them."""
    (plan, cost), checked = planned(document), 0
    for name in document["domain"]:
        larger = padded(document, name)
        if larger is None or names_each_value(document, name):
            continue
        further, further_cost = planned(larger)
        assert plan.bound * plan.table_part.relaxation <= further_cost * (1 + 1e-9), name
        assert cost <= further_cost * (1 + SEARCHED), name
        assert further.bound * further.table_part.relaxation <= further_cost * (1 + 1e-9)
        checked += 1
    return checked


def names_each_value(document, name):
    """True where a further value lacks a number: of targets, budgets, ranges of amounts or columns of a matrix."""
    lists = [x for t in document["tables"] for x in t.values() if isinstance(x, dict) and x.get("by") == name]
    lists += [a[end] for a in document["domain"].values() for end in ("low", "high") if isinstance(a.get(end), dict)]
    budgets = document.get("privacy", {}).get("cell_budgets", {})
    is_listed = any(isinstance(x.get("values"), list) and x.get("by") == name for x in lists)
    # A last bin may be named in a group, and a period of a series bounds the records of a person.
    is_named = document["domain"][name]["type"] == "binned" or document.get("series", {}).get("attribute") == name
    return is_listed or is_named or name in budgets.get("attributes", ()) or '"matrix"' in json.dumps(document)


# The errors of small databases ("size") depend on the cells of all tables.
DOCUMENTS = {
    name: document
    for name, document in frozen.documents().items()
    if document.get("tables")
    and not document.get("slow")
    and not document.keys() & {"free", "finite", "size"}
    and not any(mark in json.dumps(document, separators=(",", ":")) for mark in OTHER_TARGETS)
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_further_value_lowers_the_cost_of_a_frozen_publication(name):
    document = DOCUMENTS[name]
    checked = check_padded(document)
    assert checked == sum(
        padded(document, a) is not None and not names_each_value(document, a) for a in document["domain"]
    )


def test_frozen_publications_have_further_values():
    there = [
        name
        for name, document in DOCUMENTS.items()
        if any(padded(document, a) is not None and not names_each_value(document, a) for a in document["domain"])
    ]
    assert len(there) > 80


RELATIONS = {
    "added": {},
    "replaced": {"neighbours": "replace-one"},
    "two replaced": {"neighbours": "replace-one", "max_records": 2},
    "once for each of one": {"max_records": 3, "once_per": [0]},
    "once for each of another": {"max_records": 3, "once_per": [-1]},
    "two for each of one": {"max_records": 5, "per_value": [0]},
    "replaced, once for each of one": {"neighbours": "replace-one", "max_records": 2, "once_per": [0]},
}
"""The unit of each relation, with the positions of the attributes of its pattern."""

FORMS = [
    "gaussian: marginals",
    "gaussian: coarse tree",
    "gaussian: uneven tree",
    "pure: marginals",
    "pure: uneven tree",
]
FAST = ("gaussian: marginals", "pure: marginals")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in FORMS])
def test_no_further_value_lowers_the_cost_for_any_relation(name, relation):
    document = copy.deepcopy(frozen.documents()[name])
    names, unit = list(document["domain"]), dict(RELATIONS[relation])
    if "once_per" in unit:
        unit["once_per"] = [names[i] for i in unit["once_per"]]
    if "per_value" in unit:
        unit["per_value"] = {names[i]: 2 for i in unit["per_value"]}
    promise = {k: v for k, v in document.get("privacy", {}).items() if k == "definition"}
    document["privacy"] = promise | {"unit": "person"} | unit
    if relation == "replaced" and not promise:
        document["public"] = "these data"
    assert check_padded(document) > 0
