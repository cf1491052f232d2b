"""Verification: everything a plan or a release claims, recomputed by someone who does not trust its maker.

What it cannot tell: a plan file on its own carries no signature, so another *valid* plan is as good as the first
(compare its SHA-256 with the one in the ledger); whoever can write all files of a release can write another release;
and the versions named in release.json are the maker's word.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

from fitnoise.errors import FitnoiseError, ReleaseError
from fitnoise.kernel.domain import RESERVED
from fitnoise.mechanisms.tables import TablePart
from fitnoise.planning.plan import Plan
from fitnoise.reading.description import describe
from fitnoise.reading.files import csv_text, engine, metadata_of, read_parquet, read_text, to_json
from fitnoise.reading.release import (
    ANSWERS,
    GAP,
    MEASUREMENTS,
    OUTPUTS,
    Release,
    finite_csv,
    histograms,
    to_write,
)
from fitnoise.request.publication import Goal
from fitnoise.request.workloads import slug

ROUNDING = 1e-9
"""Another machine sums in another order: relative difference allowed between two computations of one number."""

ITERATED = 1e-6
"""The same of a biased value, as part of the standard error beside it."""

SIMULATED = 0.01
"""Relative difference allowed between two simulations of one error: the estimates in them are iterative."""

EARLIER = ("fitnoise", "opendp", "numpy", "duckdb")
"""What releases named the versions of while OpenDP was a dependency."""


@final
@dataclass(frozen=True)
class Check:
    """One claim: its name, whether it holds, and what was found."""

    claim: str
    holds: bool
    found: str


@final
@dataclass(frozen=True)
class Verification:
    """All claims of a plan or release. `ok` when every one holds."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every claim holds."""
        return all(c.holds for c in self.checks)


def verify(path: str | os.PathLike[str]) -> Verification:
    """Recompute every claim of a plan file or a release directory.

    Args:
        path: plan.json, or a release directory.

    Returns:
        One check per claim; nothing is raised for a claim that fails, only when there is nothing to check.

    Raises:
        ReleaseError: there is no such file or directory.

    **Guarantees**
        * a plan is accepted only if its integers cost exactly what it says, its weights prove its bound and its gap,
          and every recomputed variance is within its target (1e-9 of it is allowed for floating point);
        * a release is accepted only if it has the files of a release and no other, release.json is what its plan
          implies, no noisy answer was altered since it was written, the Parquet tables follow from the answers and the
          plan (up to 1e-9 of value and standard error), and the CSV files are those tables, digit by digit.
    """
    path = Path(path)
    if path.is_dir():
        return _verify_release(path)
    if path.is_file():
        return _verify_plan(read_text(path))[0]
    raise ReleaseError(f"there is no plan or release {path.name!r}; nothing was verified.")


class _Checklist:
    def __init__(self) -> None:
        self.checks: list[Check] = []

    def add(self, claim: str, test: Callable[[], str | None], good: Callable[[], str]) -> bool:
        """Record a claim: `test` returns None when it holds, otherwise what was found; its errors count as failures."""
        try:
            with np.errstate(all="ignore"):
                problem = test()
                found = good() if problem is None else problem
        except FitnoiseError as error:
            problem = found = str(error)
        except Exception as error:  # an altered document can break any computation
            problem = found = f"it cannot be checked ({type(error).__name__})"
        self.checks.append(Check(claim, problem is None, found))
        return problem is None

    def done(self) -> Verification:
        return Verification(tuple(self.checks))


# --- plans ----------------------------------------------------------------------------------------------


def _verify_plan(text: str) -> tuple[Verification, Plan | None]:
    """The claims of a plan document, and the plan when it can be read."""
    log = _Checklist()
    read: list[Plan] = []
    whole = "the plan is whole, and its integers cost what it says"
    if not log.add(whole, lambda: read.append(Plan.from_json(text)), lambda: "recomputed exactly"):
        return log.done(), None
    (plan,) = read
    log.add(
        "the document says what its parts imply",
        lambda: _check_document(plan, text),
        lambda: f"SHA-256 {_sha256(text)}",
    )
    for part in plan.groups:
        log.add("the dual weights prove the bound and the gap", partial(_check_gap, part), partial(_told_gap, part))
        log.add("the targets are met", partial(_check_targets, part), partial(_told_targets, part))
    if plan.finite:
        log.add(
            "the finite answers cost what they say",
            lambda: _check_finite(plan),
            lambda: (
                f"mechanisms proven anew: {len(plan.finite)}; epsilon in all: {float(sum(plan.finite_epsilons)):.9g}"
            ),
        )
    log.add("the price is within budget and cap", lambda: _check_price(plan), lambda: f"rho = {plan.rho:.9g}")
    return log.done(), plan


def _check_document(plan: Plan, text: str) -> str | None:
    stated = json.loads(text)
    other = _disagreements(stated, plan.document())
    if other:
        return f"this plan would say otherwise on {', '.join(other[:5])}"
    written = json.dumps(stated, separators=(",", ":"), allow_nan=False) + "\n"
    return None if written == text else "the text is not in the form in which plans are written"


def _check_gap(part: TablePart) -> str | None:
    asked, proven = part.publication.gap, part.gap
    if asked is not None and proven > asked + 1e-12:  # what the sums of a bound may differ by
        return f"a gap of {asked:.1e} was asked for; {proven:.1e} is proven"
    return None


def _told_gap(part: TablePart) -> str:
    far = f"gap {part.gap:.1e}" if part.exact_epsilon is None else f"{part.ratio:.4g} times it"
    return f"{part.value:.9g} reached ≥ bound {part.bound:.9g}, {far}"


def _check_finite(plan: Plan) -> str | None:
    """Reading the plan proved each mechanism; here, that none costs more than its question allows."""
    for part in plan.questions:
        if part.exact_epsilon > part.query.epsilon:
            return f"the answer to {part.query.name!r} costs more than its epsilon"
    return None


def _check_targets(part: TablePart) -> str | None:
    if part.publication.budget is None and not part.relaxation <= 1 + ROUNDING:
        return f"a variance is {part.relaxation:.6f} times its target"
    return None


def _told_targets(part: TablePart) -> str:
    total = part.publication.objective.goal is Goal.TOTAL_ERROR
    what = "the weighted total of all variances" if total else "the worst variance"
    if part.publication.budget is not None:
        return f"relative to the budget: {what} is {part.relaxation:.6g} times its target"
    return f"{what} is {part.relaxation:.9f} of its target"


def _check_price(plan: Plan) -> str | None:
    for what, spent, limit in plan.order.against_limits():
        if spent > limit:
            return f"rho = {float(spent):.9g} exceeds the {what} {float(limit):.9g}"
        if what == "budget" and spent < limit * (1 - Fraction(1, 10**6)):
            return f"rho = {float(spent):.9g} leaves a part of the budget {float(limit):.9g} unspent"
    return None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _disagreements(stated: Any, implied: Any, place: str = "") -> list[str]:
    """Where two JSON documents differ: numbers with a fraction beyond rounding, everything else at all."""
    if isinstance(stated, dict) and isinstance(implied, dict):
        if list(stated) != list(implied):
            odd = sorted(set(stated) ^ set(implied)) or ["the order of keys"]
            return [f"{place}.{k}".removeprefix(".") for k in odd]
        return [d for k in stated for d in _disagreements(stated[k], implied[k], f"{place}.{k}")]
    if isinstance(stated, list) and isinstance(implied, list) and len(stated) == len(implied):
        pairs = enumerate(zip(stated, implied, strict=True))
        return [d for i, (a, b) in pairs for d in _disagreements(a, b, f"{place}[{i}]")]
    if type(stated) is float and type(implied) is float:
        same = math.isclose(stated, implied, rel_tol=ROUNDING)
    else:
        same = type(stated) is type(implied) and stated == implied
    return [] if same else [place.removeprefix(".")]


# --- releases -------------------------------------------------------------------------------------------


def _verify_release(folder: Path) -> Verification:
    try:
        text = read_text(folder / "plan.json")
    except ReleaseError as error:
        return Verification((Check("the release holds a plan", False, str(error)),))
    of_plan, plan = _verify_plan(text)
    if plan is None:
        return of_plan
    log = _Checklist()
    log.checks.extend(of_plan.checks)
    read: list[Release] = []
    written: list[tuple[str, ...]] = []
    log.add(
        "release.json names the tables that have files",
        lambda: written.append(_written(plan, folder)),
        lambda: f"{len(written[0])} of {sum(len(p.workload.tables) for p in plan.publication.groups)} tables",
    )
    bases = {name: folder / "tables" / slug(name) for names in written for name in names}
    log.add(
        "its files are those of a release",
        lambda: _check_files(plan, folder, bases.values()),
        lambda: f"{len(_expected(plan, bases.values())) - 1} files",
    )
    log.add(
        "release.json says what the plan implies",
        lambda: _check_description(plan, text, read_text(folder / "release.json"), list(bases)),
        lambda: "plan, price, scales and tables agree",
    )
    if log.add(
        "the noisy answers are the plan's, unaltered",
        lambda: read.append(Release.read(folder)),
        lambda: f"{plan.answers:,} integers",
    ):
        log.add(
            "the Parquet tables follow from the noisy answers",
            lambda: _check_parquet(read[0], bases),
            lambda: f"{len(bases)} tables rebuilt",
        )
        for i in histograms(plan):
            log.add(
                "the synthetic histogram is the best for the noisy answers",
                partial(_check_histogram, folder, read[0], i),
                partial(_told_histogram, read[0], i),
            )
        if plan.finite:
            log.add(
                "the finite answers are what was drawn",
                lambda: None if read_text(folder / ANSWERS) == finite_csv(read[0]) else f"{ANSWERS} says otherwise",
                lambda: f"answers: {len(plan.finite)}",
            )
    log.add(
        "the CSV tables are the Parquet tables",
        lambda: _check_csv(bases),
        lambda: f"{len(bases)} tables, digit by digit",
    )
    return log.done()


def _check_files(plan: Plan, folder: Path, bases: Iterable[Path]) -> str | None:
    expected = _expected(plan, bases)
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*")}
    missing, extra = sorted(expected - there), sorted(there - expected)
    return None if not missing and not extra else f"missing: {missing}; not part of a release: {extra}"


def _expected(plan: Plan, bases: Iterable[Path]) -> set[str]:
    """The files and folders of a release."""
    expected = {"plan.json", "release.json", "tables"} | ({MEASUREMENTS} if plan.groups else set())
    expected |= {OUTPUTS, ANSWERS} if plan.finite else set()
    expected |= {f"{base}.{end}" for base in histograms(plan).values() for end in ("csv", "parquet")}
    return expected | {f"tables/{base.name}.{end}" for base in bases for end in ("csv", "parquet")}


def _written(plan: Plan, folder: Path) -> tuple[str, ...]:
    """The tables that have files, as release.json says."""
    said = json.loads(read_text(folder / "release.json"))["written"]
    if said == "all":
        return tuple(n for p in plan.publication.groups for n in p.workload.tables.names)
    names = to_write(plan, said)
    if list(names) != said:
        raise ReleaseError("the tables with files are not named in the order of the workload.")
    return names


def _check_description(plan: Plan, text: str, document: str, written: Sequence[str]) -> str | None:
    stated = json.loads(document)
    implied = {**describe(plan, written), "plan": _sha256(text)}
    if isinstance(stated, dict) and isinstance(stated.get("versions"), dict):
        implied["versions"] = _versions(stated["versions"], implied["versions"])
    other = _disagreements(stated, implied)
    if other:
        return f"release.json and the plan disagree on {', '.join(other[:5])}"
    return None if to_json(stated) == document else "release.json is not in the form in which releases are written"


def _versions(stated: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, str]:
    """Of what made a release, not of what checks it: the maker's word, where it is a text."""
    names = EARLIER if "opendp" in stated else own
    return {k: stated[k] if isinstance(stated.get(k), str) else own.get(k, "") for k in names}


def _check_parquet(release: Release, bases: Mapping[str, Path]) -> str | None:
    with engine() as files:
        for name, base in bases.items():
            file = base.with_suffix(".parquet")
            problem = _difference(read_parquet(files, file), release[name])
            problem = problem or ("words that no release writes" if metadata_of(files, file) else None)
            if problem:
                return f"table {name!r}: {problem}"
    return None


def _told_histogram(release: Release, i: int) -> str:
    own, cells = release.biased[i], release.plan.groups[i].decomposition.cells
    return "" if own is None else f"of {cells:,} cells, up to {own.gap:.1e} people²"


def _check_histogram(folder: Path, release: Release, i: int) -> str | None:
    """Reading it proved that it is one of a database of the size; here, that none is much better."""
    own, base = release.biased[i], histograms(release.plan)[i]
    if own is None:
        return "there is none"
    if own.gap > GAP * (own.distance + GAP * float(own.noisy @ own.noisy)):
        return f"another histogram is nearer, by up to {own.gap:.3g} people²"
    with engine() as files:
        if metadata_of(files, folder / f"{base}.parquet"):
            return "its Parquet file holds words that no release writes"
    same = read_text(folder / f"{base}.csv") == csv_text(release.synthetic(i))
    return None if same else "its CSV file differs from its Parquet file"


def _difference(found: pd.DataFrame, rebuilt: pd.DataFrame) -> str | None:
    if list(found.columns) != list(rebuilt.columns) or len(found) != len(rebuilt):
        return "other columns or another number of rows"
    for column in rebuilt.columns:
        a, b = found[column], rebuilt[column]
        if a.dtype.kind != b.dtype.kind:
            return f"column {column!r} is of another type"
        if column not in RESERVED:
            if a.tolist() != b.tolist():
                return f"column {column!r} has other labels"
        elif column in ("simulated_rmse", "biased_value"):  # by iterations that end a little apart on another machine
            allowed = SIMULATED * b if column == "simulated_rmse" else ITERATED * rebuilt["std_error"]
            if not (np.abs(a - b) <= allowed).all():
                return f"column {column!r} differs by up to {np.abs(a - b).max():.3g}"
        elif not (np.abs(a - b) <= ROUNDING * (np.abs(b) + rebuilt["std_error"])).all():
            return f"column {column!r} differs by up to {np.abs(a - b).max():.3g}"
    return None


def _check_csv(bases: Mapping[str, Path]) -> str | None:
    with engine() as files:
        for name, base in bases.items():
            if read_text(base.with_suffix(".csv")) != csv_text(read_parquet(files, base.with_suffix(".parquet"))):
                return f"table {name!r} differs from its Parquet file"
    return None
