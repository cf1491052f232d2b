"""The charge of a plan, computed from its file with Python, numpy and docs/plan_format.md alone."""

import hashlib
import json
from fractions import Fraction as Q
from math import prod
from pathlib import Path

from fitnoise_check import answers, bound
from fitnoise_check.amounts import between_knots
from fitnoise_check.cells import Grid, cells_of, class_axes, joint_axes
from fitnoise_check.exact import Unknown, Wrong, integer_matrix, need
from fitnoise_check.margins import dense, margins
from fitnoise_check.places import by_place
from fitnoise_check.products import axis_by_axis
from fitnoise_check.sectors import Sectors
from fitnoise_check.units import Unit
from fitnoise_check.witness import without_proofs


def charge(part, request, spec, size, unit):
    """Return twice ρ of some tables, or their ε²."""
    strategy, claim = part["strategy"], part["cost"].get("claim")
    need(not unit.within or type(strategy) is list, "within needs Gaussian noise on sectors")
    need(not spec.get("public") or part["mechanism"] == "fit-for-use", "public totals need Gaussian noise on sectors")
    if "trees" in strategy:
        return by_place(strategy, spec, size, unit)
    if "sets" in strategy:
        return axis_by_axis(strategy, size, unit, claim, part.get("proofs"))
    grid = Grid(strategy, request, spec, size)
    if "margins" in strategy:
        between_knots([dense(m, prod(grid.shape)) for m in strategy["margins"]], grid)
        return margins(strategy, size, grid.axes, unit)
    is_known = bool(spec.get("public")) or part["mechanism"] == "projection"
    need(is_known or not unit.is_exchanged, "the plan measures the number of records, which costs nothing")
    between_knots([integer_matrix(g["basis"]) for g in strategy], grid)
    return Sectors(strategy, size, grid).cost(grid.unit(unit), claim, part.get("proofs", []))


def check(text, expected_digest=None):
    """Yield the result for a plan, line by line; raise Wrong or Unknown where a number fails."""
    plan = json.loads(text)
    digest = hashlib.sha256(without_proofs(text, plan)).hexdigest()
    yield f"SHA-256 {digest}"
    need(expected_digest in (None, digest), "the plan has another SHA-256 than the given one")
    need(plan["fitnoise_plan"] == 4, "a plan of another format", Unknown)
    spec, parts = plan["spec"] | {"joint": joint_axes(plan)}, plan["tables"]
    size = cells_of(spec["domain"]) | {name: len(cells) for name, (_, cells) in spec["joint"].items()}
    spec["classes"] = class_axes(plan, size)
    spec["classed"] = {" × ".join(x["attributes"]): x.get("classes", {}) for x in plan.get("joint_axes", ())}
    size |= {name: n for name, (*_, n) in spec["classes"].items()}
    unit = Unit(spec, size)
    for part, request in zip(
        parts, [*([spec] if spec.get("tables") else []), *spec.get("further_tables", ())], strict=True
    ):
        stated, pure = Q(part["cost"]["cost_squared"]), "margins" in part["strategy"]
        cost = charge(part, request, spec, size, unit)
        need(cost == stated, f"tables cost {float(cost)}, not as stated")
        cost_text = f"epsilon = {float(stated) ** 0.5:.9g}" if pure else f"rho = {float(stated) / 2:.9g}"
        yield f"tables by {part['mechanism']}: charge as stated, {cost_text}"
        yield from bound.check(part, request, spec, size, unit)
    need(not (unit.within and spec.get("questions")), "within allows no questions")
    for q, m in zip(spec.get("questions", ()), plan["questions"], strict=True):
        cost_text = answers.check(q, m, spec, size, unit)
        yield f"question {q['name']!r}: {cost_text}, epsilon = {q['epsilon']}"


def main(path, *digest):
    """Print the result, and return the exit status."""
    try:
        for line in check(Path(path).read_bytes(), *digest):
            print(line)
    except (Unknown, OSError) as error:
        print("cannot say:", error)
        return 2
    except (Wrong, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        print("NOT RIGHT:", error if isinstance(error, Wrong) else repr(error))
        return 1
    return 0
