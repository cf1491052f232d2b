"""The problems of a specification, stated so that the publisher can correct them."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from fitnoise.errors import FitnoiseError, SpecError
from fitnoise.kernel.codings import number
from fitnoise.request.attributes import KINDS
from fitnoise.request.spec_section import BACKSLASH

MAX_LISTED = 10
"""The largest number of problems whose sentences one error repeats; all are in its `problems`."""

_EXPECTED_KINDS = {
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
"""The kind of value that each of pydantic's type errors expected."""

_LENGTHS = ("too_short", "too_long", "string_too_short", "string_too_long")
"""Pydantic's kinds of errors about the length of a list or a text."""

OUTCOME = "No data were read."
"""The outcome sentence of a problem in a specification."""

DECIMAL_POINT = "Numbers have a decimal point and nothing between the digits, such as 5.5 or 1000."
"""The advice for a number with a comma; a sentence."""

_COMMA = re.compile(r"\s*[+-]?[0-9][0-9.]*,[0-9]+\s*")
_ASSIGNED_COMMA = re.compile(r"=\s*[+-]?[0-9][0-9_.]*,[0-9]")
_TEXTS = re.compile(r""" "(?:[^"\\]|\\.)*" | '[^']*' """, re.VERBOSE)


def several_problems(problems: Sequence[SpecError], outcome: str = OUTCOME) -> SpecError:
    """Return one error for all problems of a specification: the only problem itself, or an error that lists them.

    Args:
        problems: At least one, each with its place.
        outcome: Sentence that says what did not happen.
    """
    # The only problem keeps its own code and place, so that a form can show it at the field.
    if len(problems) == 1:
        return problems[0].with_outcome(outcome)
    listed = [f"{position}. {_described(problem)}" for position, problem in enumerate(problems[:MAX_LISTED], 1)]
    omitted_count = len(problems) - MAX_LISTED
    error = SpecError(
        "several-problems",
        "The specification has several problems.",
        " ".join([*listed, f"There are at least {omitted_count} more."] if omitted_count > 0 else listed),
        "Correct each of them.",
        outcome,
    )
    # The text repeats ten of them; forms show each at its own field.
    error.problems = tuple(problems)
    return error


def _described(problem: FitnoiseError) -> str:
    return problem.reason if problem.place is None else f"{problem.place}: {problem.reason}"


def unreadable_file(what: str, error: OSError | UnicodeDecodeError, outcome: str) -> SpecError:
    """Return the error for a text file that cannot be read.

    Args:
        what: The file, as a noun phrase with a capital letter.
        error: The error of reading it.
        outcome: Sentence that says what did not happen.
    """
    reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
    return SpecError(
        "file-unreadable", f"{what} cannot be read: {reason}.", "", "Name a file of UTF-8 text that exists.", outcome
    )


def not_toml(what: str, text: str, error: ValueError, outcome: str) -> SpecError:
    """Return the error for a text that is no TOML: its message has the line and what to write there, if known.

    Args:
        what: The text, as a noun phrase with a capital letter.
        text: The text.
        error: The error of the TOML reader.
        outcome: Sentence that says what did not happen.
    """
    return SpecError("not-toml", f"{what} is not valid TOML: {error}.", "", _toml_advice(text, error), outcome)


def _toml_advice(text: str, error: ValueError) -> str:
    """Return what to write instead of a text that is no TOML, as a sentence."""
    unknown = "Correct the text there."
    # Before Python 3.14, tomllib gives line and column in the text of its error only.
    position = re.search(r"\(at line ([0-9]+), column ([0-9]+)\)", str(error))
    if position is None:
        return unknown
    line = text.split("\n")[int(position[1]) - 1]
    # outside quotes: a comma in a text is right, and so is a backslash in a closed one
    if _ASSIGNED_COMMA.search(_TEXTS.sub("", line)):
        return DECIMAL_POINT
    return BACKSLASH if "\\" in _TEXTS.sub("", line[: int(position[2])]) else unknown


def number_advice(text: str, otherwise: str) -> str:
    """Return what to write instead of a text that is not the number it should be, as a sentence.

    Args:
        text: The text.
        otherwise: The sentence for a text without a decimal comma.
    """
    return DECIMAL_POINT if _COMMA.fullmatch(text) else otherwise


def complaints(errors: Sequence[ErrorDetails], document: Any) -> list[SpecError]:
    """Return one error for each place of the document at which pydantic found something.

    Pydantic lists the expectations of every branch of a union. If the document follows one branch, the error names this
    branch only. Otherwise the error joins the expected kinds by "or".

    Args:
        errors: The errors, as pydantic lists them.
        document: The document, of JSON values.
    """
    # Pydantic names branches of unions in its places, which the document does not have.
    placed = [(_located(e, document), e) for e in errors]
    problems: list[SpecError] = []
    expected_kinds: dict[tuple[str | int, ...], tuple[Any, list[str]]] = {}
    for location, e in placed:
        if e["type"] not in _EXPECTED_KINDS:
            problems.append(_explained(location, e))
        # a problem at a deeper place, or of another kind at this one, shows the branch that the document follows
        elif not any(
            p[: len(location)] == location and (len(p) > len(location) or o["type"] not in _EXPECTED_KINDS)
            for p, o in placed
        ):
            kinds = expected_kinds.setdefault(location, (e["input"], []))[1]
            kinds.append(_EXPECTED_KINDS[e["type"]].format(**e.get("ctx", {})))
    for location, (value, kinds) in expected_kinds.items():
        # Two branches can expect the same kind, which is named once.
        one_of = " or ".join(dict.fromkeys(kinds))
        advice = f"Write {one_of}."
        if isinstance(value, str) and "a list" in kinds and isinstance(location[-1], str) and number(value) is None:
            advice = f"Write a list, such as {location[-1]} = [{json.dumps(value[:40], ensure_ascii=False)}]."
        if isinstance(value, str) and any("number" in kind for kind in kinds):
            is_quoted_number = number(value) is not None
            advice = number_advice(value, "Write the number without quotes." if is_quoted_number else advice)
        problems.append(
            SpecError(
                "wrong-type",
                f"{_subject(location)} is {_value_text(value)}.",
                f"It must be {one_of}.",
                advice,
                OUTCOME,
                place=_path(location),
            )
        )
    return problems


def _located(error: ErrorDetails, document: Any) -> tuple[str | int, ...]:
    """Return the error's place without the names of union branches, which the document does not have."""
    location: list[str | int] = []
    here: Any = document
    for step in error["loc"]:
        steps: Any = range(len(here)) if isinstance(here, list) else here if isinstance(here, Mapping) else ()
        # A step that the document lacks is the name of a branch, and the next step belongs to the same value.
        if step in steps:
            here = here[step]
        elif error["type"] != "missing" or step != error["loc"][-1]:
            continue  # the name of a branch of a union; a missing key, which the document lacks as well, stays
        location.append(step)
    return tuple(location)


def _explained(location: tuple[str | int, ...], error: ErrorDetails) -> SpecError:
    """Return the error for anything but a wrong type."""
    kind, context = error["type"], error.get("ctx", {})
    raised = context.get("error")
    if isinstance(raised, SpecError):  # a validator of fitnoise raised it
        # The validator knows its key only; the rest of the place is where pydantic called it.
        path = _path((*location, *_steps(raised)))
        return raised if path is None else raised.with_place(path)
    if kind == "missing":
        return SpecError(
            "key-missing",
            f"{_subject(location)} is missing.",
            "",
            "Add the key.",
            OUTCOME,
            place=_path(location),
        )
    if kind.startswith("union_tag"):
        return SpecError(
            "attribute-type-unknown",
            f"{_subject((*location, 'type'))} is missing or unknown.",
            f"It must be {', '.join(map(repr, [*KINDS][:-1]))} or {[*KINDS][-1]!r}.",
            "Write one of these types.",
            OUTCOME,
            place=_path((*location, "type")),
        )
    if kind == "unknown_key":
        return SpecError(
            "unknown-key",
            f"The key {context['key']!r} is unknown{f' in {_path(location)}' if location else ''}.",
            "",
            context["action"],
            OUTCOME,
            place=_path((*location, context["key"])),
        )
    if kind in _LENGTHS:
        return SpecError(
            "wrong-length",
            f"{_subject(location)} has a wrong length: {error['msg']}.",
            "",
            "Write a value of such a length.",
            OUTCOME,
            place=_path(location),
        )
    return SpecError(
        "value-unusable",
        f"{_subject(location)} cannot be used: {error['msg']}.",
        "",
        "Write such a value.",
        OUTCOME,
        place=_path(location),
    )


def _steps(error: FitnoiseError) -> tuple[str, ...]:
    return () if error.place is None else (error.place,)


def _path(location: tuple[str | int, ...]) -> str | None:
    """Return the path of a place as an error shows it; None for the document itself."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return text.removeprefix(".") or None


def _subject(location: tuple[str | int, ...]) -> str:
    """Return the subject of a sentence about a place."""
    path = _path(location)
    return (
        "The specification"
        if path is None
        else f"The value of {path}"
        if isinstance(location[-1], int)
        else f"The key {path}"
    )


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table of keys"
    try:
        return str(value).lower() if isinstance(value, bool) else reprlib.repr(value)
    except ValueError:  # Python writes no whole number of more than some thousand digits
        return "a whole number of too many digits"
