"""The kinds of documents that are written and read."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import fitnoise as fn
from fitnoise.errors import ReleaseError
from fitnoise.kernel.profiles import Profile
from fitnoise.messages import english
from fitnoise.reading.verification import check_description
from fitnoise.request.attributes import attribute_document
from fitnoise.request.documents import Spec
from fitnoise.request.finite_queries import FiniteQuery
from zoo.workloads import UNEVEN

STORED = Path(__file__).parent.parent / "data" / "stored"


@dataclass(frozen=True)
class Document:
    """A kind of document: one of them, how it is read and written, and as `check_document`."""

    build: Callable[[], Any]
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    covered: Collection[tuple[str, ...]] = ()
    is_sole: bool = False
    unaltered: Collection[str] = ()


def _json(path):
    return lambda: json.loads(path.read_text(encoding="utf-8"))


def _plan(build, unaltered=()):
    """Return a plan as a document. `verify` computes its bound again; reading the plan does not."""
    return Document(
        build,
        lambda d: fn.Plan.from_json(json.dumps(d)),
        lambda p: json.loads(p.to_json()),
        {("tables", "*", "cost", "bound")},
        unaltered=unaltered,
    )


_SAME_MEANING = (
    ("tables", "*", "name"),
    ("tables", "*", "pattern_attributes"),
    ("tables", "*", "attributes"),
    ("budget", "epsilon"),
)


def _spec(plan, covered=()):
    """A table is named and its attributes are listed where they follow, or not; an exact ε is a text.

    covered: leaves of this specification that follow from others, too.
    """
    return Document(
        lambda: plan()["spec"],
        lambda d: Spec.parse(d).publication(),
        lambda p: Spec.from_publication(p).document(),
        {(*prefix, *leaf) for prefix in ((), ("further_tables", "*")) for leaf in _SAME_MEANING} | {*covered},
    )


def _described(folder):
    """Return release.json as a document. Its folder implies all of it except the versions and the ledger entry."""

    text = (folder / "plan.json").read_text(encoding="utf-8")
    plan = fn.Plan.from_json(text)
    names = [name for part in plan.groups for name in part.publication.workload.tables.names]

    def verified(document):
        if wrong := check_description(plan, json.dumps(document, indent=1) + "\n", names):
            raise ReleaseError(
                "altered", f"The description was altered: {english(wrong)}.", "", "Bring it back.", "Nothing was read."
            )
        return document

    covered = {("versions", package) for package in ("fitnoise", "numpy", "duckdb")}
    covered |= {("ledger",), ("ledger", "sequence"), ("ledger", "digest")}
    return Document(_json(folder / "release.json"), verified, lambda d: d, covered, is_sole=True)


def _attribute(attribute):
    def read(document):
        columns = {"attributes": ["a"]} if not attribute.steps else {"sum": "a"}
        spec = {"domain": {"a": document}, "tables": [{**columns, "margin": 5.0}]}
        return Spec.parse(spec).publication().domain["a"]

    return Document(lambda: attribute_document(attribute), read, attribute_document)


def _several_parts():
    """Tables of every mechanism, and a question."""
    domain = fn.Domain(a=fn.Categorical(["x", "y", "z"]), b=fn.Ordered(0, 5))

    def publish(*tables, **options):
        return fn.Publication(fn.Workload(domain, list(tables)), **options)

    pure = publish(fn.table("b", margin=9), privacy="pure")
    budget = fn.Budget(epsilon=1.0, delta=1e-6)
    small = publish(fn.table("a", margin=9, name="few"), small_database=fn.SmallDatabase(50), budget=budget)
    median = FiniteQuery.median("median", "b", people=9, epsilon=Fraction(1, 2))
    publication = publish(fn.table("a", "b", margin=15), further_tables=(pure, small), questions=(median,))
    return json.loads(fn.plan(publication).to_json())


def _pure_amounts():
    """Return counts, sums and a mean with Laplace noise; the values between knots are integers."""
    pay = fn.Amount(-2, 10, step=0.5, ceilings=[4], missing={"none": ["N"]}, if_missing="none")
    tables = [
        fn.table("sex", margin=9),
        fn.table("sex", sum="pay", ceiling=4, margin=40),
        fn.table(mean="pay", margin=2, reference=30),
    ]
    workload = fn.Workload(fn.Domain(sex=fn.Categorical(["f", "m"]), pay=pay), tables)
    return json.loads(fn.plan(workload, privacy="pure").to_json())


_ALTERED = (
    "many_scales", "projection_finite", "pure_replace_two", "free", "wide_integers", "gaussian", "hybrid",
    "large_finite", "women", "drop", "pure_finite", "matrix_of_reals", "prefixes", "budget_mu", "gaussian_finite",
)  # fmt: skip
"""Samples that together have leaves of every kind."""

_FOLLOWS = {"many_months": (("tables", "*", "attributes", "*"),)}
"""Leaves that follow from others in one sample: its only attribute has a prefix, which names it again."""

DOCUMENTS = {
    # A plan reads and writes its specification as a document of its own, which is altered below.
    **{f"plan, {name}": _plan(_json(STORED / "plans" / f"{name}.json"), unaltered=["spec"]) for name in _ALTERED},
    **{
        f"specification, {p.stem}": _spec(_json(p), _FOLLOWS.get(p.stem, ()))
        for p in sorted((STORED / "plans").iterdir())
    },
    "plan, several parts": _plan(_several_parts),
    "specification, several parts": _spec(_several_parts),
    "plan, pure amounts": _plan(_pure_amounts),
    **{f"description, {name}": _described(STORED / "releases" / name) for name in ("women", "pure_finite")},
    "categorical attribute": _attribute(fn.Categorical({"x": "X", "y": "Y"}, column="z")),
    "attribute of true and false": _attribute(fn.Categorical({True: "yes", False: "no"}, column="z")),
    "ordered attribute": _attribute(fn.Ordered(-1, 5, clip=True, column="z")),
    "binned attribute": _attribute(fn.Binned([0.5, 2, 10.0], column="z")),
    "attribute with missing values": _attribute(
        fn.Ordered(
            -1, 5, clip=True, missing={"none": [9, "N"], "else": []}, if_missing="none", if_outside="else", column="z"
        )
    ),
    "attribute whose values are dropped": _attribute(
        fn.Binned([0.5], column="z", if_missing="drop", if_outside="refuse")
    ),
    "amount": _attribute(
        fn.Amount(-1, 5.5, step=0.5, column="z", valid=(-10, 99), missing={"none": [9, "N"]}, if_missing="none")
    ),
    "hierarchy": _attribute(UNEVEN),
    "hierarchy by numbers": _attribute(fn.Hierarchy.regular(state=2, county=3, column="fips")),
    "profile": Document(
        lambda: Profile.from_rho([("k" * 64, 2)], [Fraction(1, 3), Fraction(2)]).document(),
        Profile.parse,
        Profile.document,
    ),
}
