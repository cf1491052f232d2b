"""What is asked of releases in one line of text, as on the command line. Nothing in it is ever run as Python.

    sum     = sum + sum | sum - sum | sum * sum | sum / sum | +sum | -sum | (sum) | number | call
    call    = count(…) | quantile("age", 0.5, …) | mean("age", …) | total("income", …)
            | each also of another release: other.count(…)
            | change(sum, "month", 12) | average(sum, "month", 3) | to_date(sum, "month", 12): along a name of `by`
    (…)     = {name: literal, …} at most once, then name=literal, …; a literal is a text, a number, a list, a tuple, …

It is read by Python's own parser into a tree, of which only these nodes are known; all others are refused. Length,
depth and the numbers asked for are bounded.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fitnoise.errors import ReleaseError
from fitnoise.reading.areas import AREA

if TYPE_CHECKING:
    from fitnoise.reading.comparisons import CombinedRatios, ComparedRatios
    from fitnoise.reading.estimates import Estimates, Ratios
    from fitnoise.reading.quantiles import Quantiles
    from fitnoise.reading.release import Release

LONGEST = 10_000
"""Letters of an expression."""

DEEPEST = 50
"""Nodes of it one within another."""

SHOWN = 60
"""Letters of what is refused that are told."""

CALLS = {"count": 0, "quantile": 2, "mean": 1, "total": 1}
"""What may be asked: methods of `Release`, and how many literals come first."""

ALONG = {"change": (1, 2), "average": (2, 2), "to_date": (1, 2)}
"""What may be made of numbers that follow one another: methods of `Estimates`."""

OTHER = "other"
"""What a second release is called."""

_STEPS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def ask(
    text: str,
    release: Release,
    other: Release | None = None,
    *,
    by: Sequence[str] = (),
    areas: Mapping[str, Sequence[Any]] | None = None,
) -> Estimates | Ratios | ComparedRatios | CombinedRatios | Quantiles:
    """What an expression asks, as Python would compute it from the methods of the releases.

    Args:
        text: such as `count(status="joint") / count()`, or `other.count() / count() - 1`.
        release: what calls without a name before them are of.
        other: what those after `other.` are of.
        by: attributes by which all calls are told apart that say no `by` themselves.
        areas: lists of places by name, of which all calls are that say no `area` themselves.

    Raises:
        ReleaseError: anything else than calls, numbers and the four operations; something longer or deeper than
            anybody would ask; and whatever the methods refuse.
    """
    releases = {"": release, **({} if other is None else {OTHER: other})}
    if areas is not None and any(AREA in own._domain for own in releases.values()):
        raise ReleaseError(
            f"the release has an attribute {AREA!r}, so that areas cannot be asked for by that name. Nothing was "
            "estimated."
        )
    common = {"by": tuple(by), **({} if areas is None else {AREA: areas})}
    found: Estimates | Ratios | ComparedRatios | CombinedRatios | Quantiles | float = _computed(
        _parsed(text), releases, common
    )
    if isinstance(found, float):
        raise _refused(text, "asks nothing of the release; ask for a count, such as count()")
    return found


def _refused(what: str, why: str) -> ReleaseError:
    shown = what if len(what) <= SHOWN else what[:SHOWN] + "…"
    return ReleaseError(f"{shown!r} {why}. Nothing was estimated.")


_FILTERING = threading.Lock()
"""Held while the filters of the process's warnings are others: two threads at once could put back each other's."""

_DIGITS = re.compile(r"[0-9.]+(e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)
"""The spelling of a number: Python itself also reads 1_000 and 0x10."""


def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise _refused(text, f"has {len(text):,} letters; an expression has at most {LONGEST:,}")
    try:
        with _FILTERING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what would be odd if it were run
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise _refused(text, f"is not an expression ({error.msg}); write one such as count() / count()") from None
    except (ValueError, RecursionError, MemoryError):
        raise _refused(text, "is not an expression that can be read; write one such as count() / count()") from None
    row: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        row = [inner for node in row for inner in ast.iter_child_nodes(node)]
    if row:
        raise _refused(text, f"is nested more than {DEEPEST} deep; write it more simply")
    for node in ast.walk(tree):
        source = ast.get_source_segment(text.strip(), node) if isinstance(node, ast.Constant) else None
        if source is not None and type(node.value) in {int, float} and not _DIGITS.fullmatch(source):  # type: ignore[attr-defined]
            raise _refused(
                source, "is no number here; write it with digits, a point and an exponent, such as 1000 or 1e3"
            )
    return tree


def _computed(node: ast.expr, releases: Mapping[str, Release], common: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _finite(node, lambda: float(number))
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
            own = _computed(inner, releases, common)
            return _finite(node, lambda: -own if isinstance(sign, ast.USub) else own)
        case ast.BinOp(left=left, op=step, right=right) if type(step) in _STEPS:
            a, b = (_computed(x, releases, common) for x in (left, right))
            return _finite(node, lambda: _STEPS[type(step)](a, b))
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            return _called(node, releases[""], name, common)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=whose), attr=name)) if name in CALLS and whose == OTHER:
            if OTHER not in releases:
                raise _refused(ast.unparse(node.func), "needs another release; name its directory (--also)")
            return _called(node, releases[OTHER], name, common)
        case ast.Call(func=ast.Name(id=name), args=[inner, *steps], keywords=[]) if name in ALONG and steps:
            found = getattr(_computed(inner, releases, common), name, None)
            if found is None:
                raise _refused(ast.unparse(node), f"is not known: {name}(…) is of counts, and of sums and differences")
            needed, most = ALONG[name]
            if not needed <= len(steps) <= most:
                raise _refused(
                    ast.unparse(node), f'needs a name and how many labels, as in {name}(count(), "month", 12)'
                )
            return _finite(node, lambda: found(*map(_literal, steps)))
    calls = ", ".join(f"{name}(…)" for name in CALLS)
    raise _refused(
        ast.unparse(node),
        f"is not known here: an expression is of {calls}, {OTHER}.count(…), numbers and + - * /, and of "
        f'{", ".join(ALONG)} along a name, as in change(count(), "month", 12)',
    )


def _finite(node: ast.expr, computed: Callable[[], Any]) -> Any:
    """What is computed; numbers stay finite."""
    try:
        found = computed()
    except (ZeroDivisionError, OverflowError):
        found = math.nan
    except TypeError:
        raise _refused(
            ast.unparse(node), "is not known: estimates are added, subtracted or divided, ratios also multiplied; "
            "both are multiplied or divided by numbers, and numbers added to ratios"
        ) from None  # fmt: skip
    if isinstance(found, float) and not math.isfinite(found):
        raise _refused(ast.unparse(node), "is no finite number")
    return found


def _called(node: ast.Call, release: Release, name: str, common: Mapping[str, Any]) -> Any:
    names = [word.arg for word in node.keywords]
    if None in names or len(set(names)) < len(names):
        raise _refused(ast.unparse(node), "gives arguments that have no name, or one twice; name each once")
    given = {str(word.arg): _literal(word.value) for word in node.keywords}
    places = [_literal(own) for own in node.args]
    needed = CALLS[name]
    if len(places) < needed:
        raise _refused(ast.unparse(node), 'lacks what it is of, as in quantile("age", 0.5)')
    if len(places) > needed + 1 or not all(isinstance(own, dict) for own in places[needed:]):
        raise _refused(
            ast.unparse(node), 'gives arguments without a name; name them, as in count(sex="f"), or give one mapping, '
            'as in count({"born in": "Ohio"})'
        )  # fmt: skip
    return getattr(release, name)(*places, **{**common, **given})


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise _refused(ast.unparse(node), 'is no value; texts are quoted, as in "joint"') from None
