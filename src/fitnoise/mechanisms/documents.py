"""The parts of a plan as plain JSON values, and their readers.

A reader raises PlanError for values out of range. For a document of another form it raises LookupError, TypeError,
ValueError, ArithmeticError or AttributeError, which :meth:`fitnoise.planning.plan.Plan.from_json` reports.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.clusters import ClusterClaim
from fitnoise.kernel.designs.margins import MeasuredMargin, PureStrategy
from fitnoise.kernel.designs.products import Factor, ProductGroup, ProductStrategy
from fitnoise.kernel.designs.query_blocks import INT64_SAFE_LIMIT, largest_entry
from fitnoise.kernel.designs.sectors import Strategy, StrategyGroup
from fitnoise.kernel.designs.trees import MeasuredTree, TreeStrategy
from fitnoise.kernel.designs.witness import Blocks, Claim, Closed, Multipliers, Witness
from fitnoise.request.publication import Setting
from fitnoise.solving.certificates import SINGLE_RECORDS, Evidence, RecordPairs, RecordSets, Values

ROUNDING = 1e-9
"""Allowed relative difference of two computations of one number: another machine sums in another order."""

MAX_DOCUMENT_BYTES = 2**28
"""Largest size of a document: of its file in bytes, of its text in characters."""

# An empty list takes some fifty bytes of memory, and a number not much more than its text.
MAX_QUOTES_AND_BRACKETS = 2**24
"""Most quotes and opening brackets of a document."""

# Python writes integers of at most 4,300 digits, so the product of two can still be written.
MAX_NUMBER_DIGITS = 2_000
"""Most digits of a number in a document."""


def parse(text: str) -> Any:
    """Return the JSON values of an untrusted document; its length bounds memory and time.

    Raises:
        ValueError: The text is not JSON, is nested too deeply, or exceeds one of the limits above.
    """
    if not within_limits(text):
        raise ValueError("a document beyond the limits")
    try:
        # Only the depth of the document is not limited before it is parsed.
        return json.loads(text)
    except RecursionError:
        raise ValueError("a document nested too deeply") from None


def within_limits(text: str) -> bool:
    """Return True if the size of a document is within the limits of `parse`."""
    return (
        len(text) <= MAX_DOCUMENT_BYTES
        and sum(map(text.count, '[{"')) <= MAX_QUOTES_AND_BRACKETS
        and not _LONG.search(text)
    )


# The lookbehind starts at the first digit of a run only; otherwise a run of n digits would take n² steps.
_LONG = re.compile(rf"(?<![0-9])[0-9]{{{MAX_NUMBER_DIGITS + 1}}}")


def sectors_document(strategy: Strategy) -> list[dict[str, Any]]:
    """Return a strategy of sectors, group by group."""
    names = np.array(strategy.structure.names, dtype=object)
    return [
        {
            "attributes": names[g.attributes].tolist(),
            "basis": g.basis.tolist(),
            "mixing": g.mixing.tolist(),
            "scales": scales_document(g.scales),
        }
        for g in strategy.groups
    ]


def read_sectors(document: Sequence[Mapping[str, Any]], structure: CellStructure) -> Strategy:
    """Return the strategy that `sectors_document` wrote."""
    positions = {a: i for i, a in enumerate(structure.names)}
    each = np.array(structure.sizes, dtype=np.int64)
    groups = []
    for g in document:
        basis = _integers(g["basis"])
        rows = [[positions[a] for a in names] for names in g["attributes"]]
        attributes = np.array(rows, dtype=np.intp).reshape(len(rows), -1)
        scales = _scales(g["scales"])
        # One check for the rows of all matrices: a plan can have many small ones.
        flat = _integers([row for matrix in g["mixing"] for row in matrix])
        mixing = flat.reshape(len(rows), len(basis), len(basis))
        groups.append(StrategyGroup(attributes, each[attributes], basis, mixing, scales))
    return Strategy(structure, tuple(groups))


def claim_document(claim: Claim | ClusterClaim) -> dict[str, Any]:
    """Return the claimed price of the records of a unit, without its proofs."""
    if isinstance(claim, ClusterClaim):
        return {"at": str(claim.bound)}
    groups = zip(claim.kinds, claim.bounds, strict=True)
    return {"cap": claim.cap, "groups": [{"of": kind, "at": str(bound)} for kind, bound in groups]}


def proofs_document(claim: Claim | ClusterClaim, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the proofs of a claimed price, one for each group of cells, or one for products.

    Args:
        claim: The claim.
        names: The attributes of the design.
    """
    if isinstance(claim, ClusterClaim):
        clusters = [[names[a] for a in cluster] for cluster in claim.clusters]
        levels = {"levels": _as_lists(claim.levels), "shift": claim.shift}
        return [{"kind": "clusters", "clusters": clusters, "homes": list(claim.homes), **levels}]
    return [{"kind": _PROOFS[type(w)], **{name: _as_lists(x) for name, x in vars(w).items()}} for w in claim.witnesses]


def read_claim(document: Any, proofs: Any, names: Sequence[str]) -> Claim | ClusterClaim:
    """Return the claim that `claim_document` wrote, with its proofs; `names` are the attributes of the design."""
    if "groups" not in document:
        (proof,) = proofs
        entries = {name: _as_tuples(x) for name, x in proof.items() if name not in ("kind", "clusters")}
        clusters = tuple(tuple(map(list(names).index, cluster)) for cluster in proof["clusters"])
        return ClusterClaim(_bound(document["at"]), clusters, **entries)
    groups = document["groups"]
    bounds = tuple(_bound(g["at"]) for g in groups)
    proof_kinds = {name: kind for kind, name in _PROOFS.items()}
    witnesses = []
    for proof in proofs:
        # The kernel checks the numbers of the proofs when it checks the claim.
        kind = proof_kinds[proof["kind"]]
        entries = {name: _as_tuples(x) for name, x in proof.items() if name != "kind"}
        witnesses.append(kind(**entries))
    return Claim(document["cap"], tuple(g["of"] for g in groups), bounds, tuple(witnesses))


def _bound(text: Any) -> int:
    """Return a claimed bound, or raise PlanError unless it is written in decimal digits."""
    if type(text) is not str or not _DECIMAL.fullmatch(text):
        raise claim_damaged()
    return int(text)


def claim_damaged() -> PlanError:
    """Return the error for a claimed price that is not in the form in which plans are written."""
    return PlanError(
        "claim-not-decimal",
        "The price that the plan claims for the records of a unit is not written as whole numbers.",
        "",
        "Use the plan as fitnoise wrote it, or plan again.",
        "Nothing was measured.",
    )


_DECIMAL = re.compile("0|[1-9][0-9]*", re.ASCII)

_PROOFS: dict[type[Witness], str] = {Closed: "closed", Blocks: "blocks", Multipliers: "multipliers"}


def _as_lists(value: Any) -> Any:
    """Return tuples as lists."""
    return [_as_lists(x) for x in value] if isinstance(value, tuple) else value


def _as_tuples(value: Any) -> Any:
    """Return lists as tuples."""
    return tuple(_as_tuples(x) for x in value) if isinstance(value, list) else value


def products_document(strategy: ProductStrategy) -> dict[str, Any]:
    """Return a strategy of products: every factor once with its attributes, and the measured sets."""
    names = np.array(strategy.structure.names, dtype=object)
    # Equal bytes can be matrices of different shapes, so the shape is in the key.
    shared: dict[bytes | None, list[int]] = {}
    for i, f in enumerate(strategy.factors):
        shared.setdefault(None if f.rows is None else f.rows.tobytes() + bytes(str(f.rows.shape), "ascii"), []).append(
            i
        )
    factors = [(where, strategy.factors[where[0]].rows) for where in shared.values()]
    return {
        "factors": [
            {"attributes": names[where].tolist(), "rows": None if rows is None else rows.tolist()}
            for where, rows in factors
        ],
        "sets": [
            {
                "attributes": names[g.attributes].tolist(),
                "multiples": g.multiples.tolist(),
                "scales": scales_document(g.scales),
            }
            for g in strategy.groups
        ],
    }


def read_products(document: Mapping[str, Any], structure: CellStructure) -> ProductStrategy:
    """Return the strategy that `products_document` wrote."""
    positions = {a: i for i, a in enumerate(structure.names)}
    factors: dict[int, Factor] = {}
    for f in document["factors"]:
        factor = Factor(None if f["rows"] is None else _integers(f["rows"]))
        factors.update({positions[a]: factor for a in f["attributes"]})
    # Both conditions together: no attribute has two factors, and none has no factor.
    if sum(len(f["attributes"]) for f in document["factors"]) != len(structure.sizes) or len(factors) != len(
        structure.sizes
    ):
        raise PlanError(
            "product-factors",
            "The product of the plan does not have exactly one factor for each attribute.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    groups = []
    for g in document["sets"]:
        rows = [[positions[a] for a in names] for names in g["attributes"]]
        multiples = _integers([g["multiples"]])[0]
        groups.append(
            ProductGroup(np.array(rows, dtype=np.intp).reshape(len(rows), -1), multiples, _scales(g["scales"]))
        )
    return ProductStrategy(structure, tuple(factors[i] for i in range(len(structure.sizes))), tuple(groups))


def trees_document(strategy: TreeStrategy) -> dict[str, Any]:
    """Return a strategy of trees: levels, the number of places inside every place above, classes, and measured sums."""
    names = strategy.structure.names
    inside = zip(strategy.levels, strategy.above, strategy.classes[1:], strict=True)
    return {
        "levels": [
            {"level": names[a], "in_each": np.bincount(above).tolist(), "classes": level_classes.tolist()}
            for a, above, level_classes in inside
        ],
        "trees": [
            {
                "attributes": [names[a] for a in g.attributes],
                "multiple": g.multiple,
                "factors": [k.tolist() for k in g.factors],
                "scales": [[level, scales_document(scales)] for level, scales in g.scales.items()],
            }
            for g in strategy.groups
        ],
    }


def read_trees(document: Mapping[str, Any], structure: CellStructure) -> TreeStrategy:
    """Return the strategy that `trees_document` wrote."""
    positions = {a: i for i, a in enumerate(structure.names)}
    above, classes = [], [np.zeros(1, dtype=np.intp)]
    for x in document["levels"]:
        in_each = _integers([x["in_each"]])[0]
        n = structure.sizes[positions[x["level"]]]
        # Python adds these integers: a sum of 64-bit integers could wrap around to n.
        if (in_each < 1).any() or int(in_each.astype(object).sum()) != n:
            raise PlanError(
                "tree-places",
                "A tree of the plan has other places than its level.",
                "Each place has at least one place in it, and all of them are those of the level.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        above.append(np.repeat(np.arange(len(in_each)), in_each.astype(np.int64)))
        classes.append(_integers([x["classes"]])[0].astype(np.intp))
    groups = []
    for g in document["trees"]:
        factors = tuple(_integers([k])[0] for k in g["factors"])
        scales = {level: _scales(texts) for level, texts in g["scales"]}
        # A dictionary keeps the last of two equal levels, so the lengths show a level given twice.
        if not all(type(level) is int for level in scales) or len(scales) != len(g["scales"]):
            raise PlanError(
                "tree-levels",
                "A tree of the plan names a level twice, or not by its number.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        groups.append(MeasuredTree(tuple(positions[a] for a in g["attributes"]), g["multiple"], factors, scales))
    levels = tuple(positions[x["level"]] for x in document["levels"])
    return TreeStrategy(structure, levels, tuple(above), tuple(classes), tuple(groups))


def margins_document(strategy: PureStrategy) -> dict[str, Any]:
    """Return a pure strategy: its scale, and its margins."""
    names = strategy.structure.names
    return {
        "scale": scales_document(np.array([strategy.scale]))[0],
        "margins": [
            {"attributes": [names[a] for a in m.attributes], "rows": [_sparse(row) for row in m.rows]}
            for m in strategy.measured
        ],
    }


def read_margins(document: Mapping[str, Any], structure: CellStructure) -> PureStrategy:
    """Return the strategy that `margins_document` wrote."""
    positions = {a: i for i, a in enumerate(structure.names)}
    margins = []
    for m in document["margins"]:
        if type(m["attributes"]) is not list:
            raise PlanError(
                "margin-attributes-not-list",
                "A measured margin of the plan does not name its attributes in a list.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        rows = np.zeros((len(m["rows"]), structure.size), dtype=np.int64)
        for row, (where, values) in zip(rows, m["rows"], strict=True):
            is_integer_row = all(type(x) is int for x in (*where, *values)) and len(where) == len(values)
            # Each row has one text: its cells increase, and none of its integers is 0.
            if not is_integer_row or where != sorted(set(where)) or 0 in values:
                raise PlanError(
                    "margin-row-form",
                    "A row of the plan's Laplace strategy is not a list of cells and a list of integers.",
                    "The cells increase, and each cell has one integer, which is not 0.",
                    "Use the plan as fitnoise wrote it, or plan again.",
                    "Nothing was measured.",
                )
            if where and not 0 <= where[0] <= where[-1] < structure.size:
                raise PlanError(
                    "margin-row-cell",
                    "A row of the plan's Laplace strategy names a cell that does not exist.",
                    "",
                    "Use the plan as fitnoise wrote it, or plan again.",
                    "Nothing was measured.",
                )
            row[where] = values
        margins.append(MeasuredMargin(tuple(positions[a] for a in m["attributes"]), rows))
    return PureStrategy(structure, tuple(margins), float(_scales([document["scale"]])[0]))


def _sparse(row: Any) -> list[list[int]]:
    """Return the cells at which a row is not 0, and its values there."""
    where = np.flatnonzero(row)
    return [where.tolist(), row[where].tolist()]


def scales_document(scales: Floats) -> list[str]:
    """Return noise scales as exact fractions in lowest terms, such as "4611/4"; integers as "4611"."""
    ratios = [x.as_integer_ratio() for x in scales.tolist()]
    return [str(n) if d == 1 else f"{n}/{d}" for n, d in ratios]


def _scales(texts: Sequence[str]) -> Floats:
    if not all(isinstance(x, str) and _FRACTION.fullmatch(x) for x in texts):
        raise PlanError(
            "scale-not-positive",
            "A noise scale of the plan is not a positive fraction in lowest terms.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    out = np.array([_ratio(x) for x in texts], dtype=np.float64)
    # Each scale has one text, so equal plans have equal hashes. Fractions such as "2/4" and "1/3" have none.
    if scales_document(out) != list(texts):
        raise PlanError(
            "scale-not-float",
            "A noise scale of the plan is not a floating-point number.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    return out


_FRACTION = re.compile(r"\d{1,400}(/\d{1,400})?", re.ASCII)


def _ratio(text: str) -> float:
    above, _, below = text.partition("/")
    # Python rounds this quotient of integers correctly, however long they are.
    return int(above) / int(below or "1")


def read_setting(document: Any) -> Setting | None:
    """Return the setting of a small database from its document; None without one."""
    if document is None:
        return None
    index, temperature = document["index"], document["temperature"]
    if type(index) is not int or type(temperature) not in (int, float):
        raise PlanError(
            "setting-form",
            "The setting of the plan is not an integer and a temperature.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    return Setting(index, float(temperature))


def evidence_document(e: Evidence) -> dict[str, Any]:
    """Return the dual weights as a document."""
    document: dict[str, Any] = {"cells": e.cells.tolist(), "numbers": e.numbers.tolist()}
    if e.pairs is not None:
        document["pairs"] = [list(key) for key in e.pairs.keys()]  # noqa: SIM118 - no dictionary
    if e.distinct_weights != SINGLE_RECORDS:
        document["together"] = [list(kind) for kind in e.distinct_weights]
    if e.sets is not None:
        document["sets"] = [
            [way if isinstance(way, bool) else [list(values) for values in way], *cells]
            for way, cells in zip(e.sets.agreements, e.sets.cells, strict=True)
        ]
    if e.kinds is not None:
        document["kinds"] = e.kinds.tolist()
    if e.meetings is not None:
        document["meetings"] = e.meetings.tolist()
    return document


def read_evidence(document: Mapping[str, Any]) -> Evidence:
    """Return the weights that `evidence_document` wrote."""
    pairs = document.get("pairs")
    if pairs is not None and not all(len(key) == 3 and all(type(x) is int for x in key) for key in pairs):
        raise PlanError(
            "evidence-pair-form",
            "A pair in the plan's evidence is not a list of three integers.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    record_kinds = document.get("together", [list(kind) for kind in SINGLE_RECORDS])
    if not all(list(map(type, kind)) == [int, bool, float] for kind in record_kinds):
        raise PlanError(
            "evidence-set-form",
            "A set of records in the plan's evidence is not an integer, a truth value and a weight.",
            "They are the number of records, true if all else is equal, and the weight.",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    sets = document.get("sets")
    return Evidence(
        np.array(document["cells"], dtype=np.float64),
        np.array(document["numbers"], dtype=np.float64),
        None if pairs is None else RecordPairs.from_keys(pairs),
        tuple((m, is_equal, w) for m, is_equal, w in record_kinds),
        None if sets is None else _read_sets(sets),
        *(np.array(document[x], dtype=np.float64) if x in document else None for x in ("kinds", "meetings")),
    )


def _read_sets(document: Any) -> RecordSets:
    """Return sets of records of one unit."""
    cells, ways = [], list[bool | Values]()
    for way, *set_cells in (list(x) or [""] for x in document):
        is_known_form = type(way) is bool or (
            type(way) is list and all(type(x) is list and {int}.issuperset(map(type, x)) for x in way)
        )
        if not is_known_form or not {int}.issuperset(map(type, set_cells)):
            raise PlanError(
                "evidence-places-form",
                "A set of records in the plan's evidence does not state its places in the form of fitnoise.",
                "A set is a list: first true, false or the values of each record, then its structured cells.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        cells.append(tuple(set_cells))
        ways.append(way if isinstance(way, bool) else tuple(map(tuple, way)))
    return RecordSets(tuple(cells), tuple(ways))


def disagreements(stated: Any, implied: Any, path: str = "") -> list[str]:
    """Return the paths at which two JSON documents differ, such as `tables[0].cost`; an empty list if they agree.

    Numbers with a fraction may differ by rounding; other values must be equal.
    """
    if isinstance(stated, dict) and isinstance(implied, dict):
        # Lists, not sets: the order of the keys is part of the hashed text.
        if list(stated) != list(implied):
            odd = sorted(set(stated) ^ set(implied)) or ["the order of keys"]
            return [f"{path}.{k}".removeprefix(".") for k in odd]
        return [d for k in stated for d in disagreements(stated[k], implied[k], f"{path}.{k}")]
    if isinstance(stated, list) and isinstance(implied, list) and len(stated) == len(implied):
        pairs = enumerate(zip(stated, implied, strict=True))
        return [d for i, (a, b) in pairs for d in disagreements(a, b, f"{path}[{i}]")]
    if type(stated) is float and type(implied) is float:
        # Only values that both sides state as floats may differ: integers, truth values and texts are exact.
        same = math.isclose(stated, implied, rel_tol=ROUNDING)
    else:
        same = type(stated) is type(implied) and stated == implied
    return [] if same else [path.removeprefix(".")]


def _integers(rows: Any) -> Any:
    # A truth value is an instance of int, and 1.0 equals 1; neither is accepted.
    if not all(type(x) is int for row in rows for x in row):
        raise PlanError(
            "strategy-not-integers",
            "A strategy of the plan contains a number that is not an integer.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    a = np.array(rows, dtype=object)
    if a.ndim != 2:
        raise PlanError(
            "strategy-not-matrix",
            "A strategy of the plan contains rows of different lengths, or no matrix.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    # Larger integers stay Python integers, which do not overflow.
    return a.astype(np.int64) if largest_entry(a) < INT64_SAFE_LIMIT else a
