"""What is wrong with a specification, said so that it can be mended."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from fitnoise.request.attributes import KINDS
from fitnoise.request.parts import BACKSLASH

_WANTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table of keys",
    "model_type": "a table of keys",
    "model_attributes_type": "a table of keys",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
"""What each of pydantic's "this is of another kind" would have taken."""


DECIMAL_POINT = "numbers have a decimal point and nothing between the digits, such as 5.5 or 1000"
"""The way to write numbers, for messages about a number with a comma."""

_COMMA = re.compile(r"\s*[+-]?[0-9][0-9.]*,[0-9]+\s*")
_ASSIGNED_COMMA = re.compile(r"=\s*[+-]?[0-9][0-9_.]*,[0-9]")
_TEXTS = re.compile(r""" "(?:[^"\\]|\\.)*" | '[^']*' """, re.VERBOSE)


def toml_complaint(text: str, error: ValueError) -> str:
    """Return the reason why a text is no TOML, and what to write instead where that is known.

    Args:
        text: The text.
        error: What the reader of TOML raised for it.
    """
    position = re.search(r"\(at line ([0-9]+), column ([0-9]+)\)", str(error))
    if position is None:
        return str(error)
    line = text.split("\n")[int(position[1]) - 1]
    if _ASSIGNED_COMMA.search(_TEXTS.sub("", line)):
        return f"{error}; {DECIMAL_POINT}"
    return f"{error}; {BACKSLASH}" if "\\" in _TEXTS.sub("", line[: int(position[2])]) else str(error)


def comma_complaint(text: str) -> str:
    """Return a hint, with a semicolon before it, for a number with a decimal comma; nothing for other texts."""
    return f"; {DECIMAL_POINT}" if _COMMA.fullmatch(text) else ""


def complaints(errors: Sequence[ErrorDetails], document: Any) -> list[str]:
    """One sentence per place of the document.

    Pydantic lists what every branch of a union would have wanted. Where one branch was meant (its error lies deeper, or
    is not about the kind), only that is said; where none was, the kinds wanted are joined by "or".
    """
    placed = [(_located(e, document), e) for e in errors]
    sentences: list[str] = []
    wanted: dict[tuple[str | int, ...], tuple[Any, list[str]]] = {}
    for place, e in placed:
        if e["type"] not in _WANTED:
            sentences.append(_explain(place, e))
        elif not any(p[: len(place)] == place and (len(p) > len(place) or o["type"] not in _WANTED) for p, o in placed):
            kinds = wanted.setdefault(place, (e["input"], []))[1]
            kinds.append(_WANTED[e["type"]].format(**e.get("ctx", {})))
    for place, (given, kinds) in wanted.items():
        number = isinstance(given, str) and any("number" in kind for kind in kinds)
        hint = comma_complaint(given) if number else ""
        sentences.append(f"{_path(place)} must be {' or '.join(dict.fromkeys(kinds))}; got {_shown(given)}{hint}")
    return sentences


def _located(error: ErrorDetails, document: Any) -> tuple[str | int, ...]:
    """The error's place without the names of union branches, which the document does not have."""
    place: list[str | int] = []
    here: Any = document
    for step in error["loc"]:
        steps: Any = range(len(here)) if isinstance(here, list) else here if isinstance(here, Mapping) else ()
        if step in steps:
            here = here[step]
        elif error["type"] != "missing" or step != error["loc"][-1]:
            continue
        place.append(step)
    return tuple(place)


def _explain(place: tuple[str | int, ...], error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return f"{_path(place)} is missing"
    if error["type"].startswith("union_tag"):
        return f"{_path((*place, 'type'))} must be {', '.join(map(repr, KINDS[:-1]))} or {KINDS[-1]!r}"
    reason = error.get("ctx", {}).get("error", error["msg"])
    return f"in {_path(place)}: {reason}" if place else str(reason)


def _path(place: tuple[str | int, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "the specification"


def _shown(given: Any) -> str:
    if isinstance(given, Mapping):
        return "a table of keys"
    try:
        return str(given).lower() if isinstance(given, bool) else reprlib.repr(given)
    except ValueError:  # Python writes no whole number of more than some thousand digits
        return "a whole number of too many digits"
