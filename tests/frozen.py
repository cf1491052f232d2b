"""Freeze the numbers of 200 publications, and compare them: a change of words may move none of them.

`data/frozen/publications.json` describes the publications, and `data/frozen/numbers.json` holds their numbers. The keys
of both files belong to these files alone. They hold no key of a specification, a plan or a release, and no name of
Python. This module translates between these files and the package: a rename changes this module and no number.

    python tests/frozen.py --compare [NAME …]    # print every difference
    python tests/frozen.py --write               # replace all frozen numbers: a decision, which no test takes

The exit status is 1 if there is a difference. For each publication the file keeps the integers to be measured, noise
scales, exact prices, certified bounds, variances and margins. For made-up records and replayed random words it also
keeps the noisy answers and the tables.

**Exact numbers.** Integers, noise scales, prices and noisy answers must be equal. A search ends at one of many plans of
nearly the same cost, and the last bit of a sum decides at which. So the numbers come from a process of their own, with
one thread and with arithmetic that every x86-64 processor with AVX2 has (`PINNED`). With it, all processes on a
computer agree in all bits. Without it, OpenBLAS for AVX-512 and OpenBLAS for AVX2 ended at different integers for 55 of
248 publications. Other versions of NumPy, SciPy or OpenBLAS may move numbers, too. Write them again in the commit that
changes the version, and in no other.

**Floats.** `CLOSE` and `ITERATED` are for the last bits of a library of mathematical functions.
"""

from __future__ import annotations

import argparse
import csv
import functools
import hashlib
import io
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

import fitnoise as fn
from fitnoise.engines import duck, frames, record_files, sources
from fitnoise.kernel import noise
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.dates import DateField
from fitnoise.kernel.dates import DatePart as DatePart
from fitnoise.kernel.designs._base import Design
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.implicit_mechanisms import ImplicitMechanism
from fitnoise.kernel.designs.margins import PureStrategy
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.products import ProductStrategy
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.kernel.designs.ranks import RankMechanism
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.designs.trees import TreeStrategy
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Region
from fitnoise.mechanisms.tables import TablePart
from fitnoise.planning.examples import examples
from fitnoise.request.attributes import Attribute
from fitnoise.request.curves import LossSummary
from fitnoise.request.finite_queries import Aim
from fitnoise.request.known_totals import KnownTotals, confirmation
from fitnoise.request.number_rules import ByTableSize
from fitnoise.request.publication import Variant
from fitnoise.request.selections import Form, Selection

FOLDER = Path(__file__).parent / "data" / "frozen"
INPUTS, EXPECTED = FOLDER / "publications.json", FOLDER / "numbers.json"

Document = Mapping[str, Any]

PINNED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
}
"""The environment of the process that computes the numbers."""

CLOSE = 1e-9
"""Relative tolerance of a float."""

ITERATED = 1e-6
"""Relative tolerance of a number at the end of an iteration: a biased table, and its simulated error."""

TOLERANCES = {"biased": ITERATED, "simulated": ITERATED, "records made": ITERATED}
"""Tolerances by the key of a list. Every other list has `CLOSE`."""

RELEASED = {"values", "ends", *TOLERANCES}
"""Lists of differences of larger numbers. Their tolerance is relative to the largest number of the list."""

MAX_LISTED, SAMPLES = 32, 12
"""A list of more than `MAX_LISTED` numbers is kept as `SAMPLES` of them, and a digest or sums of all."""

RECORDS, PEOPLE = 40, 13
"""Number of records where a publication gives none, and number of persons where it has an id."""


# --- publications -------------------------------------------------------------------------------------------------

DATES = {
    "year": DatePart.YEAR,
    "quarter": DatePart.QUARTER,
    "month": DatePart.MONTH,
    "weekday": DatePart.WEEKDAY,
    "hour": DatePart.HOUR,
}
PROMISES = {"zcdp": fn.Privacy.ZCDP, "pure": fn.Privacy.PURE, "auto": fn.Privacy.AUTO}
NEIGHBOURS = {
    "add-or-remove-one": fn.Neighbours.ADD_OR_REMOVE_ONE,
    "replace-one": fn.Neighbours.REPLACE_ONE,
}
GOALS = {
    "fit-for-use": fn.Goal.FIT_FOR_USE,
    "total-error": fn.Goal.TOTAL_ERROR,
    "hybrid": fn.Goal.HYBRID,
}
WEIGHTS = {
    "uniform": fn.ErrorWeights.UNIFORM,
    "inverse-variance": fn.ErrorWeights.INVERSE_VARIANCE,
    "inverse-std-error": fn.ErrorWeights.INVERSE_STD_ERROR,
}
QUESTIONS = {
    "count": QuestionKind.COUNT,
    "counts": QuestionKind.COUNTS,
    "sum": QuestionKind.SUM,
    "median": QuestionKind.MEDIAN,
    "quantile": QuestionKind.QUANTILE,
    "left_out": QuestionKind.LEFT_OUT,
}
AIMS = {
    "hit-rate": Aim.HIT_RATE,
    "mean-absolute-error": Aim.MEAN_ABSOLUTE_ERROR,
    "mean-squared-error": Aim.MEAN_SQUARED_ERROR,
}
REGIONS = {"at-most": Region.AT_MOST, "exactly": Region.EXACTLY}
VARIANTS = {"full": Variant.FULL, "paper": Variant.PAPER}
OUTSIDE = {"refuse": fn.OutsideDomain.REFUSE, "drop": fn.OutsideDomain.DROP}
COUNTED = {"records": fn.CountBasis.RECORDS, "shares": fn.CountBasis.SHARES}
"""Words of the file, and what they stand for."""


def rule(x: Any) -> Any:
    """Return a target or the end of a range: a number, or a rule for it."""
    if isinstance(x, dict):
        if "by" in x:
            return fn.ByAttribute(x["by"], x["values"], x.get("default"))
        return ByTableSize(x["coefficient"], x["power"], x.get("least"), x.get("most"))
    return x


def read(x: Any) -> DateField | None:
    """Return the number to read off a date."""
    if isinstance(x, dict):
        return DateField(DatePart.AGE, date.fromisoformat(x["age_on"]))
    return None if x is None else DateField(DATES[x])


def attribute(x: Document) -> Attribute:
    """Return an attribute of the domain."""
    column, missing, absent, outside = x.get("column"), x.get("missing"), x.get("absent"), x.get("outside")
    if x["type"] == "categorical":
        codes = x["codes"] if x.get("labels") is None else dict(zip(x["codes"], x["labels"], strict=True))
        return fn.Categorical(
            codes,
            column=column,
            missing=missing,
            if_missing=absent,
            if_outside=outside,
            date_part=read(x.get("read")),
            lookup=x.get("lookup"),
        )
    if x["type"] == "ordered":
        return fn.Ordered(
            x["low"],
            x["high"],
            clip=x.get("clip", False),
            column=column,
            missing=missing,
            if_missing=absent,
            if_outside=outside,
            date_part=read(x.get("read")),
        )
    if x["type"] == "binned":
        return fn.Binned(
            x["cuts"],
            column=column,
            missing=missing,
            if_missing=absent,
            if_outside=outside,
            date_part=read(x.get("read")),
        )
    if x["type"] == "amount":
        valid = x.get("valid")
        return fn.Amount(
            rule(x["low"]),
            rule(x["high"]),
            step=x.get("step", 1),
            column=column,
            valid=None if valid is None else tuple(valid),
            ceilings=x.get("ceilings"),
            missing=missing,
            if_missing=absent,
            if_outside=outside,
        )
    return fn.Hierarchy(x["levels"], x.get("places"), children=x.get("children"), column=column)


def selection(x: Any) -> Selection:
    """Return values of an attribute, as they were written."""
    if isinstance(x, dict) and "first" in x:
        return Selection(Form.RANGE, (x["first"], x["last"]))
    if isinstance(x, dict):
        return Selection(Form.VALUES, tuple(x["values"]))
    return Selection(Form.LIST, tuple(x)) if isinstance(x, list) else Selection(Form.ONE, (x,))


def requested_table(x: Document, domain: fn.Domain) -> Any:
    """Return a table, or all tables of a pattern."""
    reference = x.get("reference")
    if isinstance(reference, dict):
        reference = fn.PublicTotal(reference["total"])
    if "matrix" in x:
        integral = all(isinstance(n, int) for row in x["matrix"] for n in row)
        workload = fn.matrix_workload(
            np.array(x["matrix"], dtype=np.int64 if integral else np.float64),
            variances=listed(x.get("variance"), len(x["matrix"])),
            std_errors=listed(x.get("std_error"), len(x["matrix"])),
            margins=listed(x.get("margin"), len(x["matrix"])),
            domain=domain,
            name=x["name"],
        )
        return workload.tables.parts[0]
    ranges = x.get("ranges")
    if ranges is not None:
        ranges = {a: None if b == "all" else [tuple(pair) for pair in b] for a, b in ranges.items()}
    recode = {a: {g: selection(v) for g, v in groups.items()} for a, groups in x.get("recode", {}).items()}
    if "all" in x:
        order = {"singles": 1, "pairs": 2, "triples": 3}.get(x["all"], x["all"])
        return fn.all_tables(
            order,
            x["among"],
            *x.get("attributes", ()),
            cumulative=x.get("prefix"),
            ranges=ranges,
            groups=recode,
            change=x.get("change"),
            average=x.get("average"),
            to_date=x.get("to_date"),
            count=x.get("count"),
            sum=x.get("sum"),
            ceiling=x.get("ceiling"),
            mean=x.get("mean"),
            margin=rule(x.get("margin")),
            std_error=rule(x.get("std_error")),
            variance=rule(x.get("variance")),
            max_deviation=rule(x.get("max_deviation")),
            relative_std_error=rule(x.get("cv")),
            reference=reference,
            confidence=x.get("confidence"),
            name=x.get("name"),
            missing=x.get("missing", False),
        )
    return fn.table(
        *x.get("attributes", ()),
        cumulative=x.get("prefix"),
        ranges=ranges,
        groups=recode,
        change=x.get("change"),
        average=x.get("average"),
        to_date=x.get("to_date"),
        count=x.get("count"),
        sum=x.get("sum"),
        ceiling=x.get("ceiling"),
        mean=x.get("mean"),
        margin=rule(x.get("margin")),
        std_error=rule(x.get("std_error")),
        variance=rule(x.get("variance")),
        max_deviation=rule(x.get("max_deviation")),
        relative_std_error=rule(x.get("cv")),
        reference=reference,
        confidence=x.get("confidence"),
        name=x.get("name"),
        missing=x.get("missing", False),
    )


def listed(x: Any, rows: int) -> Any:
    """Return targets of queries, one for all or one for each; None where there are none."""
    return np.full(rows, x["values"]) if isinstance(x, dict) else x


def budget(x: Document | None, delta: float) -> fn.Budget | None:
    """Return a privacy cost. A text is exact; an epsilon without δ as a text is pure."""
    if x is None:
        return None
    epsilon, rho = x.get("epsilon"), x.get("rho")
    pure = isinstance(epsilon, str)
    return fn.Budget(
        rho=None if rho is None else Fraction(rho),
        mu=x.get("mu"),
        epsilon=Fraction(epsilon) if pure else epsilon,
        delta=None if pure or epsilon is None else x.get("delta", delta),
    )


def objective(x: Document) -> fn.Objective:
    """Return the goal of a plan."""
    goal, weights = x.get("goal", "fit-for-use"), x.get("weights", "uniform")
    return fn.Objective(GOALS[goal], WEIGHTS[weights], x.get("trade"))


def cell_budgets(x: Document | None) -> fn.CellBudgets | None:
    """Return relative budgets by cell."""
    return None if x is None else fn.CellBudgets(tuple(x["attributes"]), tuple(x["values"]))


def small(x: Document) -> fn.SmallDatabase | None:
    """Return the declared size of a small database."""
    if "size" not in x:
        return None
    settings = x.get("projection", {})
    return fn.SmallDatabase(
        x["size"],
        region=REGIONS[settings.get("region", "at-most")],
        index=settings.get("index"),
        temperature=settings.get("temperature"),
        variant=VARIANTS[settings.get("variant", "full")],
    )


def question(x: Document) -> fn.FiniteQuery:
    """Return a question with finitely many answers."""
    where = x.get("where") or []
    where = where if isinstance(where, list) else [where]
    return fn.FiniteQuery(
        name=x["name"],
        question=QUESTIONS[x["query"]],
        people=x["people"],
        epsilon=Fraction(x["epsilon"]),
        attribute=x.get("attribute"),
        where=tuple(tuple((a, selection(v)) for a, v in condition.items()) for condition in where),
        prior=None if x.get("prior") is None else tuple(x["prior"]),
        aim=AIMS[x.get("aim", "hit-rate")],
        quantile_share=None if x.get("at") is None else Fraction(x["at"]),
    )


def condition(column: str, x: Any) -> Condition:
    """Return a condition that records must meet in order to count."""
    if isinstance(x, dict) and "values" not in x:
        bounds = {k: date.fromisoformat(v) if isinstance(v, str) else v for k, v in x.items()}
        return Condition(
            column,
            at_least=bounds.get("at_least"),
            above=bounds.get("above"),
            at_most=bounds.get("at_most"),
            below=bounds.get("below"),
        )
    codes = x["values"] if isinstance(x, dict) else x
    return Condition(column, codes=tuple(codes) if isinstance(codes, list) else (codes,))


def unit(x: Document) -> fn.PrivacyUnit:
    """Return the protected unit."""
    return fn.PrivacyUnit(
        x.get("unit", "record"),
        max_records=x.get("max_records", 1),
        neighbours=NEIGHBOURS[x.get("neighbours", "add-or-remove-one")],
        id=x.get("id"),
        once_per=tuple(x.get("once_per", ())),
        per_value=x.get("per_value", {}),
        separation=x.get("separation", {}),
        fixed=tuple(x.get("fixed", ())),
        count=COUNTED[x.get("count", "records")],
        sum_within_unit=tuple(x.get("merge", ())),
    )


def source(x: Document) -> fn.DataSource:
    """Return the public knowledge of the data."""
    extra = {} if "max_records" not in x else {"max_records": x["max_records"]}
    return fn.DataSource(
        x.get("source", "frozen"),
        outside_domain=OUTSIDE[x.get("outside_domain", "refuse")],
        where=tuple(condition(c, v) for c, v in x.get("where", {}).items()),
        max_dropped=x.get("max_dropped"),
        **extra,
    )


def publication(x: Document) -> fn.Publication:
    """Return the publication of a document."""
    promise, data = x.get("privacy", {}), x.get("data", {})
    delta = promise.get("delta", 1e-6)
    domain = fn.Domain({name: attribute(a) for name, a in x["domain"].items()})
    protected, origin = unit(promise), source(data)
    confidence = x.get("accuracy", {}).get("confidence", 0.95)

    def part(y: Document, privacy: fn.Privacy, gap: float | None, budgets: Document | None, **extra: Any) -> Any:
        level = y.get("confidence", confidence)
        return fn.Publication(
            fn.Workload(domain, [requested_table(t, domain) for t in y.get("tables", ())], level),
            protected,
            origin,
            delta=delta,
            gap=gap,
            budget=budget(y.get("budget"), delta),
            objective=objective(y.get("objective", {})),
            cell_budgets=cell_budgets(budgets),
            privacy=privacy,
            small_database=small(y),
            **extra,
        )

    return part(
        x,
        PROMISES[promise.get("definition", "zcdp")],
        x.get("accuracy", {}).get("gap"),
        promise.get("cell_budgets"),
        cap=budget(promise.get("cap"), delta),
        composed_with=tuple(plan(name).hash for name in promise.get("beside", ())),
        must_be_free=promise.get("free", False),
        questions=tuple(question(q) for q in x.get("finite", ())),
        other_units=tuple(
            unit({"neighbours": promise.get("neighbours", "add-or-remove-one")} | u) for u in promise.get("also", ())
        ),
        series=x.get("series", {}).get("attribute"),
        public=None if "public" not in x else KnownTotals((), "Register", x["public"]),
        further_tables=tuple(
            part(y, PROMISES[y.get("privacy", "zcdp")], y.get("gap"), y.get("cell_budgets")) for y in x.get("also", ())
        ),
    )


@functools.cache
def documents() -> dict[str, Document]:
    """Return the publications by name."""
    result: dict[str, Document] = json.loads(INPUTS.read_text(encoding="utf-8"))
    return result


@functools.cache
def plan(name: str) -> fn.Plan:
    """Return the plan of a publication."""
    x = documents()[name]
    if x.get("free"):
        domain = fn.Domain({a: attribute(d) for a, d in x["domain"].items()})
        workload = fn.Workload(domain, [requested_table(t, domain) for t in x["tables"]])
        return fn.plan_free(workload, [plan(other) for other in x["free"]])
    return fn.plan(publication(x), refine=x.get("refine", False))


# --- numbers ------------------------------------------------------------------------------------------------------


Measured = tuple[str, list[Any], list[Any]]
"""The form of a design, its arrays of integers in their order, and its noise scales."""


def of_sectors(design: Strategy) -> Measured:
    """Return the integers of sectors."""
    arrays = [x for g in design.groups for x in (g.attributes, g.sizes, g.basis, g.mixing)]
    return "sectors", arrays, [g.scales for g in design.groups]


def of_products(design: ProductStrategy) -> Measured:
    """Return the integers of products of factors."""
    arrays = [f.rows for f in design.factors if f.rows is not None]
    arrays += [x for g in design.groups for x in (g.attributes, g.multiples)]
    return "products", arrays, [g.scales for g in design.groups]


def of_trees(design: TreeStrategy) -> Measured:
    """Return the integers of trees."""
    arrays = [design.levels, *design.above, *design.classes]
    arrays += [x for g in design.groups for x in (g.attributes, g.multiple, *g.factors)]
    return "trees", arrays, [g.scales[level] for g in design.groups for level in sorted(g.scales)]


def of_margins(design: PureStrategy) -> Measured:
    """Return the integers of margins with Laplace noise."""
    return "margins", [x for m in design.measured for x in (m.attributes, m.rows)], [design.scale]


def of_weights(mechanism: FiniteMechanism) -> Measured:
    """Return the weights of every output."""
    w = mechanism.weights
    return "weights", [w.values, w.codes, w.columns, w.residual, w.sink, mechanism.answers], []


def of_kernel(mechanism: ImplicitMechanism) -> Measured:
    """Return the weights of a mechanism without a table."""
    return "kernel", [*mechanism.alpha.as_integer_ratio(), mechanism.weights], []


def of_staircase(mechanism: ClampedMechanism) -> Measured:
    """Return the ratio of clamped noise."""
    return "staircase", [*mechanism.alpha.as_integer_ratio()], []


def of_ranks(mechanism: RankMechanism) -> Measured:
    """Return the ratio of a mechanism by ranks."""
    return "ranks", [*mechanism.alpha.as_integer_ratio()], []


FORMS: dict[type, Any] = {
    Strategy: of_sectors,
    ProductStrategy: of_products,
    TreeStrategy: of_trees,
    PureStrategy: of_margins,
    FiniteMechanism: of_weights,
    ImplicitMechanism: of_kernel,
    ClampedMechanism: of_staircase,
    RankMechanism: of_ranks,
}


def integers(design: Design) -> dict[str, Any]:
    """Return the form of a design, its integers and its noise scales."""
    measured: Any = design.mechanism if isinstance(design, AnswerDesign) else design
    form, arrays, scales = FORMS[type(measured)](measured)
    flat = [int(n) for x in arrays for n in np.asarray(x, dtype=object).ravel()]
    return {
        "form": form,
        "integers": exact(flat),
        "scales": exact([repr(float(s)) for x in scales for s in np.ravel(x)]),
    }


def exact(numbers: Sequence[Any]) -> Any:
    """Return integers or fractions as texts and integers: all of them, or the first ones and a digest of all."""
    texts = [n if isinstance(n, int) else str(n) for n in numbers]
    if len(json.dumps(texts)) <= 8 * MAX_LISTED:
        return texts
    digest = hashlib.sha256(",".join(map(str, texts)).encode()).hexdigest()[:24]
    short = [n if len(str(n)) <= MAX_LISTED else f"{str(n)[:SAMPLES]}…" for n in texts[:SAMPLES]]
    return {"numbers": len(texts), "digest": digest, "first": short}


def close(numbers: Any) -> Any:
    """Return floats: all of them, or some and the sums of blocks of all."""
    x = np.ravel(np.asarray(numbers, dtype=float))
    if len(x) <= MAX_LISTED:
        return {"floats": [float(f"{y:.13g}") for y in x]}
    listing = [*x[:: -(-len(x) // SAMPLES)], *(math.fsum(b) for b in np.array_split(x, SAMPLES))]
    return {"of": len(x), "floats": [float(f"{y:.13g}") for y in listing]}


def price(loss: Loss) -> dict[str, Any]:
    """Return an exact price: ρ of all noise and of pure noise by cell, and ε of every pure answer."""
    summary = LossSummary(loss, 1e-6)
    return {
        "rho": exact([loss.rho]),
        "epsilon": None if loss.epsilon is None else exact([loss.epsilon]),
        "by cell": exact([*loss.costs, *loss.implied_rho]),
        "pure": exact(loss.pure_epsilons),
        "finest": exact([loss.precision]),
        "at delta": close([summary.epsilon, summary.mu, summary.best_guess]),
    }


def of_tables(part: TablePart) -> dict[str, Any]:
    """Return the numbers of a part for tables."""
    names = part.publication.workload.tables.names
    unbiased = part.unbiased_bound
    result = {
        "bounds": close([part.objective_value, part.bound, part.relaxation, part.separate_rho]),
        "unbiased bound": None if unbiased is None else close(unbiased),
        "weighted price": exact([part.exact_weighted_cost]),
        "variances": close(part.variances),
        "shares": close(part.price_shares),
        "by table": close(np.concatenate([np.ravel(part.table_variances(n)) for n in names])),
        "margins": close(np.concatenate([np.ravel(part.table_margins(n)) for n in names])),
    }
    if part.setting is not None:
        result["setting"] = [part.setting.index, *close(part.setting.temperature)["floats"]]
    return result


def planned(plan: fn.Plan) -> dict[str, Any]:
    """Return the numbers of a plan: of each part, and of all together."""
    parts = []
    for p in plan.parts:
        parts.append(integers(p.design) | (of_tables(p) if isinstance(p, TablePart) else {}) | {"price": price(p.loss)})
    result: dict[str, Any] = {"parts": parts}
    if len(parts) > 1:
        result["price"] = price(plan.loss)
    others = [price(loss) for _, loss in plan.other_losses]
    return result | ({"other units": others} if others else {})


# --- releases -----------------------------------------------------------------------------------------------------


def tape(name: str) -> Any:
    """Return a source of bits that gives the same ones each time."""
    bits = random.Random(name)  # noqa: S311 - a test's bits; a text as a seed is hashed the same way in each process
    return SimpleNamespace(urandom=bits.randbytes)


@contextmanager
def replayed(name: str) -> Iterator[None]:
    """Draw all noise from a tape in place of the system's randomness."""
    with mock.patch.object(noise, "os", tape(name)):
        yield


def records(x: Document, request: fn.Publication, folder: Path) -> Path:
    """Write made-up records of a publication as CSV: those of its examples, several to each id."""
    rows = list(csv.reader(io.StringIO(examples(request, x.get("records", RECORDS)))))
    if request.unit.id is not None:
        column = rows[0].index(request.unit.id)
        for i, row in enumerate(rows[1:]):
            row[column] = str(i * i // PEOPLE % PEOPLE)
    path = folder / "records.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


def totals_of(x: Document, request: fn.Publication, folder: Path) -> dict[str, Any]:
    """Return the number of records as public totals, with the confirmation, if the publication has them."""
    if request.public is None:
        return {}
    path = folder / "totals.csv"
    path.write_text(f"number\n{x.get('records', RECORDS)}\n", encoding="utf-8")
    return {"public": path, "public_confirm": confirmation(path.name, request.public, request.unit.name)}


def released(name: str) -> dict[str, Any]:
    """Return the numbers of a release: the noisy answers, and the tables that follow from them."""
    x, certified = documents()[name], plan(name)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        data, ledger = records(x, certified.publication, folder), folder / "ledger.sqlite"
        for other in [*x.get("free", ()), *x.get("privacy", {}).get("beside", ())]:
            with replayed(other):
                fn.release(plan(other), data, ledger=ledger)
        with replayed(name):
            if certified.publication.series is None:
                release = fn.release(certified, data, ledger=ledger, **totals_of(x, certified.publication, folder))
            else:
                for period in certified.periods:
                    release = fn.release(certified, data, ledger=ledger, period=period, series=folder / "series")
    result: dict[str, Any] = {"answers": exact([int(n) for y in release.answers for n in y.tolist()])}
    if release.outputs:
        result["outputs"] = exact(release.outputs)
        result["finite"] = exact([p for a in release.finite.values() for p in a.parts])
        error_bounds = [[a.moe, a.hit_rate, a.rank_moe] for a in release.finite.values()]
        result["finite errors"] = close([n for bounds in error_bounds for n in bounds if n is not None])
    columns: dict[str, list[Any]] = {"values": [], "ends": [], "biased": [], "simulated": []}
    for table in release:
        frame = release[table]
        for key, column in (
            ("values", "value"),
            ("values", "unbiased_value"),
            ("ends", "low"),
            ("ends", "high"),
            ("biased", "biased_value"),
            ("simulated", "simulated_rmse"),
        ):
            if column in frame:
                columns[key].extend(frame[column].tolist())
    result |= {key: close(numbers) for key, numbers in columns.items() if numbers}
    complete = [b for b in release.biased if b is not None and b.has_histogram]
    return result | ({"records made": close(np.concatenate([b.histogram for b in complete]))} if complete else {})


def numbers(name: str) -> dict[str, Any]:
    """Return all numbers of a publication."""
    return {"plan": planned(plan(name)), "release": released(name)}


@contextmanager
def one_engine() -> Iterator[None]:
    """Count all records with one engine of DuckDB, because to start one takes longer than to count."""
    with sources.engine() as connection:

        @contextmanager
        def engine(_: Any = None) -> Iterator[Any]:
            try:
                yield connection
            finally:
                connection.execute("DETACH DATABASE IF EXISTS source")

        with (
            mock.patch.object(duck, "engine", engine),
            mock.patch.object(record_files, "engine", engine),
            mock.patch.object(frames, "engine", engine),
        ):
            yield


# --- comparing ----------------------------------------------------------------------------------------------------


def differences(result: Any, stored: Any, where: tuple[str, ...] = ()) -> Iterator[str]:
    """Return every difference as one line, with its place."""
    location = ", ".join(where)
    if _are_floats(result) and _are_floats(stored) and len(result["floats"]) == len(stored["floats"]):
        yield from _float_differences(result["floats"], stored["floats"], where)
        result, stored = result.get("of"), stored.get("of")
    if isinstance(stored, dict) and isinstance(result, dict):
        for key in [*stored, *(k for k in result if k not in stored)]:
            if key in stored and key in result:
                yield from differences(result[key], stored[key], (*where, key))
            else:
                yield f"{location}, {key}: {'not found' if key in stored else 'not frozen'}"
    elif isinstance(stored, list) and isinstance(result, list) and len(stored) == len(result):
        for i, (a, b) in enumerate(zip(result, stored, strict=True), 1):
            yield from differences(a, b, (*where, str(i)))
    elif type(result) is not type(stored) or result != stored:
        yield f"{location}: {_short(result)} found, {_short(stored)} frozen"


def _are_floats(x: Any) -> bool:
    return isinstance(x, dict) and "floats" in x


def _float_differences(result: list[float], stored: list[float], where: tuple[str, ...]) -> Iterator[str]:
    tolerance = TOLERANCES.get(where[-1], CLOSE)
    largest = max(map(abs, stored), default=0) if where[-1] in RELEASED else 0
    for i, (a, b) in enumerate(zip(result, stored, strict=True), 1):
        if not abs(a - b) <= tolerance * max(abs(b), largest):
            yield f"{', '.join(where)}, {i}: {a!r} found, {b!r} frozen"


def _short(x: Any) -> str:
    text = json.dumps(x, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def lines(x: Mapping[str, Any]) -> str:
    """Return a file's text: one line for each publication."""
    texts = (f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False, separators=(',', ':'))}" for k, v in x.items())
    return "{\n" + ",\n".join(texts) + "\n}\n"


def frozen() -> dict[str, Any]:
    """Return the frozen numbers by publication."""
    result: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return result


# --- a process of its own -----------------------------------------------------------------------------------------


class Computed:
    """A process that computes numbers, one publication at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            env=os.environ | PINNED,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __getitem__(self, name: str) -> Any:
        """Return the numbers of a publication, or the text of the error that it raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(name)}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def serve() -> None:
    """Answer each name on standard input with a line of numbers."""
    with one_engine():
        for line in sys.stdin:
            try:
                result: Any = numbers(json.loads(line))
            except Exception:
                result = traceback.format_exc()
            sys.stdout.write(f"{json.dumps(result)}\n")
            sys.stdout.flush()


def main() -> int:
    """Write the numbers, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="publications to compare; default all")
    doing = parser.add_mutually_exclusive_group(required=True)
    doing.add_argument("--compare", action="store_true", help="print every difference")
    doing.add_argument("--write", action="store_true", help="replace all frozen numbers")
    doing.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0
    computed, stored = Computed(), {} if arguments.write else frozen()
    result = {name: computed[name] for name in arguments.names or documents()}
    computed.close()
    if arguments.write:
        EXPECTED.write_text(lines(result), encoding="utf-8", newline="")
        wrong = [f"{name}: {x}" for name, x in result.items() if isinstance(x, str)]
    else:
        wrong = [line for name, x in result.items() for line in differences(x, stored.get(name), (name,))]
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
