"""Questions to releases in one line of text, as on the command line. No part of the text is ever run as Python.

    sum     = sum + sum | sum - sum | sum * sum | sum / sum | +sum | -sum | (sum) | number | call
    call    = count(…) | quantile("age", 0.5, …) | mean("age", …) | total("income", …)
            | median("age", …), minimum("age", …) and maximum("age", …): quantile("age", …) at 0.5, 0 and 1
            | sum("income", …), which is total("income", …)
            | each also of another release: other.count(…)
            | change(sum, "month", 12) | average(sum, "month", 3) | to_date(sum, "month", 12): along a name of `by`
    (…)     = {name: literal, …} at most once, then name=literal, …; a literal is a text, a number, a list, a tuple, …

Python's own parser reads the text into a tree. Only nodes of the kinds above are accepted; all others are refused. The
length, the depth and the requested numbers are bounded.
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
from fitnoise.reading.refusals import UNESTIMATED

if TYPE_CHECKING:
    from fitnoise.reading.estimates import Estimates
    from fitnoise.reading.quantiles import Quantiles
    from fitnoise.reading.ratios import CombinedRatios, ComparedRatios, Ratios
    from fitnoise.reading.release import Release

MAX_CHARACTERS = 10_000
"""The largest number of characters of an expression."""

MAX_DEPTH = 50
"""The largest number of levels of Python's tree of an expression."""

MAX_CHARACTERS_SHOWN = 60
"""The largest number of characters of a refused text that an error quotes."""

CALLS = {"count": 0, "quantile": 2, "median": 1, "minimum": 1, "maximum": 1, "mean": 1, "total": 1, "sum": 1}
"""The functions of a question, and the number of literals that come first."""

METHODS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "median": ("quantile", (0.5,)),
    "minimum": ("quantile", (0.0,)),
    "maximum": ("quantile", (1.0,)),
    "sum": ("total", ()),
}
"""The method of `Release` for a function of another name, and its literals after those of the text."""

SEQUENCE_METHODS = {"change": (1, 2), "average": (2, 2), "to_date": (1, 2)}
"""The functions of numbers that follow one another: methods of `Estimates`, with their least and most arguments.

The numbers themselves, which come first in the text, are not among these arguments.
"""

SECOND_RELEASE_NAME = "other"
"""The name of a second release."""

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
    """Return the value of an expression, equal to the result of the releases' methods in Python.

    Args:
        text: An expression such as `count(status="joint") / count()`, or `other.count() / count() - 1`.
        release: The release of calls without a name before them.
        other: The release of calls after `other.`.
        by: The attributes that break down all calls without a `by` of their own.
        areas: Lists of places by name, for all calls without an `area` of their own.

    Raises:
        ReleaseError: The text has other parts than calls, numbers and the four operations, or no estimate. Or it is
            longer or deeper than allowed, or a method refuses the call. Or it names another release and none is given.
            Or areas are given, and a release has an attribute "area".
    """
    releases = {"": release, **({} if other is None else {SECOND_RELEASE_NAME: other})}
    if areas is not None and any(AREA in source._domain for source in releases.values()):
        raise ReleaseError(
            "area-is-an-attribute",
            f"Areas are given, and the release has an attribute {AREA!r}.",
            "Areas are broken down by this name.",
            f"Select by the attribute {AREA!r}, without a file of areas.",
            UNESTIMATED,
            place=AREA,
        )
    common = {"by": tuple(by), **({} if areas is None else {AREA: areas})}
    result: Estimates | Ratios | ComparedRatios | CombinedRatios | Quantiles | float = _computed(
        _parsed(text), releases, common
    )
    if isinstance(result, float):
        raise ReleaseError(
            "expression-without-estimate",
            f"{_cut(text)} contains no estimate of the release.",
            "",
            "Add one, such as count().",
            UNESTIMATED,
        )
    return result


def attributes_by_value(text: str) -> set[str]:
    """Return the names of attributes whose values an expression adds up or orders, as in a sum, a mean or a median.

    Args:
        text: An expression of :func:`ask`.
    """
    calls = (node for node in ast.walk(_parsed(text)) if isinstance(node, ast.Call) and node.args)
    starts = (call.args[0] for call in calls)
    return {x.value for x in starts if isinstance(x, ast.Constant) and isinstance(x.value, str)}


def _cut(text: ast.AST | str) -> str:
    """Return an expression in quotes, cut to the length of a line."""
    expression = text if isinstance(text, str) else ast.unparse(text)
    return repr(expression if len(expression) <= MAX_CHARACTERS_SHOWN else expression[:MAX_CHARACTERS_SHOWN] + "…")


_FILTERING = threading.Lock()
"""A lock held while the process's warning filters are changed: two threads at once could restore each other's filters.
"""

_DIGITS = re.compile(r"[0-9.]+(e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)
"""The spelling of a number: Python itself also reads 1_000 and 0x10."""


def _parsed(text: str) -> ast.expr:
    if len(text) > MAX_CHARACTERS:
        raise ReleaseError(
            "expression-too-long",
            f"{_cut(text)} has {len(text):,} characters.",
            f"An expression has at most {MAX_CHARACTERS:,}.",
            "Write a shorter expression.",
            UNESTIMATED,
        )
    try:
        with _FILTERING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about code that will not run
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise _no_expression(text, f" ({error.msg})") from None
    except (ValueError, RecursionError, MemoryError):  # a null character or deep nesting, by the version of Python
        raise _no_expression(text, "") from None
    # `_computed` recurses, and a deep tree would exhaust its stack: this count does not recurse
    row: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        row = [inner for node in row for inner in ast.iter_child_nodes(node)]
    if row:
        raise ReleaseError(
            "expression-too-deep",
            f"{_cut(text)} has more than {MAX_DEPTH} levels of brackets and signs.",
            "",
            "Write a simpler expression.",
            UNESTIMATED,
        )
    for node in ast.walk(tree):
        source = ast.get_source_segment(text.strip(), node) if isinstance(node, ast.Constant) else None
        if source is not None and type(node.value) in {int, float} and not _DIGITS.fullmatch(source):  # type: ignore[attr-defined]
            raise ReleaseError(
                "wrong-number-in-expression",
                f"{_cut(source)} is no number of an expression.",
                "Numbers have digits, a point and an exponent.",
                "Write 1000 or 1e3, without separators.",
                UNESTIMATED,
            )
    return tree


def _no_expression(text: str, reason: str) -> ReleaseError:
    """Return the error for a text that Python cannot parse as an expression."""
    return ReleaseError(
        "not-an-expression",
        f"{_cut(text)} is not an expression{reason}.",
        "",
        "Write one such as count() / count().",
        UNESTIMATED,
    )


def _computed(node: ast.expr, releases: Mapping[str, Release], common: Mapping[str, Any]) -> Any:
    match node:
        # True is an int in Python, and no number of an expression
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _finite(node, lambda: float(number))
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
            operand = _computed(inner, releases, common)
            return _finite(node, lambda: -operand if isinstance(sign, ast.USub) else operand)
        case ast.BinOp(left=left, op=step, right=right) if type(step) in _STEPS:
            a, b = (_computed(x, releases, common) for x in (left, right))
            return _finite(node, lambda: _STEPS[type(step)](a, b))
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            return _call_release(node, releases[""], name, common)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=whose), attr=name)) if (
            name in CALLS and whose == SECOND_RELEASE_NAME
        ):
            if SECOND_RELEASE_NAME not in releases:
                raise ReleaseError(
                    "other-release-missing",
                    f"{_cut(node.func)} is of another release, and none is given.",
                    "",
                    "Name its directory (--other; in Python other=…).",
                    UNESTIMATED,
                )
            return _call_release(node, releases[SECOND_RELEASE_NAME], name, common)
        case ast.Call(func=ast.Name(id=name), args=[inner, *steps], keywords=[]) if name in SEQUENCE_METHODS and steps:
            method = getattr(_computed(inner, releases, common), name, None)
            if method is None:
                raise ReleaseError(
                    "steps-of-ratio",
                    f"{_cut(node)} is not of counts, sums or differences.",
                    f"{name}(…) is computed of these.",
                    f"Give {name}(…) a count or a sum.",
                    UNESTIMATED,
                )
            needed, max_steps = SEQUENCE_METHODS[name]
            if not needed <= len(steps) <= max_steps:
                raise ReleaseError(
                    "wrong-arguments-of-steps",
                    f"{_cut(node)} has the wrong number of arguments.",
                    f"{name}(…) needs a name and a number of labels.",
                    f'Write it as {name}(count(), "month", 12).',
                    UNESTIMATED,
                )
            return _finite(node, lambda: method(*map(_literal, steps)))
    calls = ", ".join(f"{name}(…)" for name in CALLS)
    raise ReleaseError(
        "unknown-part-of-expression",
        f"{_cut(node)} is not a known part of an expression.",
        f"Parts are {calls}, {SECOND_RELEASE_NAME}.count(…), numbers, + - * /, and {', '.join(SEQUENCE_METHODS)} "
        f"along a name.",
        'Write them as in change(count(), "month", 12) or count() / count().',
        UNESTIMATED,
    )


def _finite(node: ast.expr, computed: Callable[[], Any]) -> Any:
    """Return the computed value; raise ReleaseError if a number is not finite, or values cannot be combined so."""
    try:
        result = computed()
    except (ZeroDivisionError, OverflowError):
        result = math.nan
    except TypeError:
        raise ReleaseError(
            "unknown-operation",
            f"{_cut(node)} combines values in a way that is not known.",
            "Estimates are added, subtracted or divided; ratios also multiplied; numbers added to ratios.",
            "Use one of these operations.",
            UNESTIMATED,
        ) from None
    if isinstance(result, float) and not math.isfinite(result):
        raise ReleaseError(
            "number-not-finite",
            f"{_cut(node)} is no finite number.",
            "",
            "Use finite numbers, and do not divide by 0.",
            UNESTIMATED,
        )
    return result


def _call_release(node: ast.Call, release: Release, name: str, common: Mapping[str, Any]) -> Any:
    names = [word.arg for word in node.keywords]  # None for **, which could bring in names that are not in the text
    if None in names or len(set(names)) < len(names):
        raise ReleaseError(
            "repeated-argument",
            f"{_cut(node)} gives an argument twice, or with ** and no name.",
            "",
            "Name each argument once.",
            UNESTIMATED,
        )
    keywords = {str(word.arg): _literal(word.value) for word in node.keywords}
    places = [_literal(argument) for argument in node.args]
    needed = CALLS[name]
    if len(places) < needed:
        raise ReleaseError(
            "argument-of-call-missing",
            f"{_cut(node)} lacks an argument.",
            f"{name}(…) needs {'an attribute' if needed == 1 else 'an attribute and a number'}.",
            'Write it as mean("age") or quantile("age", 0.5).',
            UNESTIMATED,
        )
    # after the literals one mapping may follow, of conditions whose names are no identifiers
    if len(places) > needed + 1 or not all(isinstance(argument, dict) for argument in places[needed:]):
        raise ReleaseError(
            "argument-without-name",
            f"{_cut(node)} gives arguments without a name.",
            'Arguments have names, as in count(sex="f"), or are one mapping.',
            'Name them, or write them as in count({"born in": "Ohio"}).',
            UNESTIMATED,
        )
    # `name` is one of CALLS, so no other method is within reach; arguments of the call replace common ones
    method, further = METHODS.get(name, (name, ()))
    return getattr(release, method)(*places[:needed], *further, *places[needed:], **{**common, **keywords})


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise ReleaseError(
            "wrong-value-in-expression",
            f"{_cut(node)} is not a value.",
            "Values are numbers, texts in quotes, lists and mappings.",
            'Put texts in quotes, as in "joint".',
            UNESTIMATED,
        ) from None
