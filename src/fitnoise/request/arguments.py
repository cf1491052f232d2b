"""Checks of the arguments of public functions against their signatures.

**Purpose.** A value of a kind that the signature does not name is refused in a sentence. Python notices late, in terms
of something else ("'str' object has no attribute 'pure'"), and perhaps half-way through. Here a signature is read once,
and the arguments are compared with it before anything happens. In general only the outer kind is
compared. The kinds of the elements are compared, too, in a list of fitnoise's objects and in a mapping to lists. The
meaning of values is checked where they are used. Errors show texts and numbers as they are. Of any other argument they
show only the type, because it may be data in a wrong place.
"""

from __future__ import annotations

import builtins
import collections.abc
import enum
import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from fitnoise.errors import FitnoiseError, advise_name
from fitnoise.kernel.checks import describe_value

P = ParamSpec("P")
R = TypeVar("R")

_VAR_POSITIONAL, _VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD

Argument = tuple[str, Any, Any]
"""The name of an argument, its value and its annotation."""


def checked(
    error: type[FitnoiseError],
    fate: str,
    *names: str,
    absent: Mapping[str, str] | None = None,
    confidential: Collection[str] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that compares the arguments of a function with its annotations, before the function runs.

    Args:
        error: The class of the error.
        fate: The sentence that states what did not happen.
        names: Names of the arguments to compare, where the function checks the others itself; empty compares all.
        absent: Names of arguments that the function lacks on purpose, each with the reason in sentences.
        confidential: Names of arguments, such as keys, of whose values errors show only the type.

    **Guarantees**
        * An argument too many, unknown, missing or given twice raises the error, and the function does not run.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs).arguments
            except TypeError as misfit:
                _refuse_unknown(function, kwargs, absent or {}, error, fate)
                raise error(
                    "wrong-call",
                    f"{_name(function)} was called with wrong arguments: {misfit}.",
                    "",
                    "Give each required argument once.",
                    fate,
                ) from None
            # Annotations are read at the first call. At import, the names in them may not be defined yet.
            hints = _hints(function)
            for name, value in bound.items():
                if names and name not in names:
                    continue
                kind = signature.parameters[name].kind
                each = value if kind is _VAR_POSITIONAL else value.values() if kind is _VAR_KEYWORD else (value,)
                describe = _describe_type if name in confidential else describe_value
                refuse_unless_fit(((name, x, hints.get(name, Any)) for x in each), error, fate, describe)
            return function(*args, **kwargs)

        return wrapper

    return wrap


def _describe_type(value: object) -> str:
    """Return the type of a value in words."""
    return f"an object of type {type(value).__name__}"


def _name(function: Callable[..., Any]) -> str:
    """Return the name of a function as its caller writes it, with brackets."""
    return function.__qualname__.rpartition("<locals>.")[2].removesuffix(".__init__") + "()"


def _refuse_unknown(
    function: Callable[..., Any],
    keywords: Iterable[str],
    absent: Mapping[str, str],
    error: type[FitnoiseError],
    fate: str,
) -> None:
    """Raise the error for the first name that is no argument of a function; return if all are."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    unknown = next((name for name in keywords if name not in names), None)
    if unknown is None:
        return
    text = f"{_name(function)} has no argument {unknown!r}."
    if unknown in absent:
        raise error("absent-argument", text, "", absent[unknown], fate, place=unknown) from None
    advice = advise_name(unknown, names, "Use one of its arguments.")
    raise error(
        "unknown-argument", text, f"Its arguments are {', '.join(names)}.", advice, fate, place=unknown
    ) from None


def refuse_unless_fields_fit(record: Any, error: type[FitnoiseError], fate: str) -> None:
    """Compare the fields of a dataclass with their annotations; raise the error for the first that does not fit."""
    kind: Any = type(record)
    hints = _hints(kind)
    refuse_unless_fit(((x.name, getattr(record, x.name), hints[x.name]) for x in fields(record)), error, fate)


def refuse_unless_fit(
    arguments: Iterable[Argument],
    error: type[FitnoiseError],
    fate: str,
    describe: Callable[[object], str] = describe_value,
) -> None:
    """Raise the error for the first argument whose value does not fit its annotation; return if all fit."""
    for name, value, hint in arguments:
        if not matches_hint(value, hint):
            raise error(
                "wrong-type",
                f"The value of {name} is {describe(value)}.",
                f"It must be {' or '.join(dict.fromkeys(_describe_hint(hint)))}.",
                f"Give another value of {name}.",
                fate,
                place=name,
            )


def matches_hint(value: Any, hint: Any) -> bool:
    """Return True if a value is of the kind of an annotation; an unknown annotation fits any value."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        # A text that cannot name a file would fail later, in `open`, with a ValueError.
        paths = isinstance(value, str) and any((typing.get_origin(x) or x) in (os.PathLike, Path) for x in parts)
        return any(matches_hint(value, part) for part in parts) and not (paths and not _nameable(value))
    if origin is not None:
        return _container(value, origin, parts)
    if hint is None:
        return value is None
    # `isinstance` raises TypeError for most protocols.
    if hint is Any or not isinstance(hint, type) or getattr(hint, "_is_protocol", False):
        return True
    if issubclass(hint, enum.Enum):
        return isinstance(value, hint) or (isinstance(value, str) and value in [x.value for x in hint])
    return _number(value, hint) if hint in (bool, int, float, Fraction) else isinstance(value, hint)


def _container(value: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    """Return True if a value is one of those listed, can be called, or holds the kinds that the annotation names."""
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if issubclass(origin, collections.abc.Mapping):
        inner = parts[1]
        nested = typing.get_origin(inner) is not None  # plain values can be many, and are checked where they are used
        return isinstance(value, origin) and not (nested and not all(matches_hint(x, inner) for x in value.values()))
    if issubclass(origin, collections.abc.Iterable):
        return _listed(value, parts)
    return isinstance(value, origin)  # a path, a function


def _nameable(path: str) -> bool:
    """Return True if a file can have such a name."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _listed(value: Any, parts: tuple[Any, ...]) -> bool:
    """Return True if a value can be iterated over and is not a text, whose elements would be characters.

    Where the annotation names classes of fitnoise, each element of a collection must be of one of them.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Iterable):
        return False
    types = [x for part in parts for x in (typing.get_args(part) or (part,)) if isinstance(x, type)]
    mine = types and all(x.__module__.startswith("fitnoise") for x in types)
    # An iterator is not looked into, because that would use it up.
    return not (mine and isinstance(value, collections.abc.Collection)) or all(
        isinstance(x, tuple(types)) for x in value
    )


def _number(value: Any, hint: type) -> bool:
    """Return True if a value fits the annotation `hint`: bool, int, or a type of numbers in the range of doubles.

    A Boolean fits only bool.
    """
    truth = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # this module does not import NumPy
    if hint is bool or truth:
        return truth and hint is bool
    if hint is int:
        return isinstance(value, Integral)
    try:
        return isinstance(value, (Real, Decimal)) and float(value) is not None
    except OverflowError:
        return False


_TYPE_TEXTS: dict[Any, str] = {
    Any: "anything",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    Fraction: "a number",
    str: "a text",
    type(None): "None",
    os.PathLike: "a path",
    Path: "a path",
    collections.abc.Callable: "a function",
    collections.abc.Mapping: "a mapping",
}


def _describe_hint(hint: Any) -> list[str]:
    """Return the names of the kinds in an annotation."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return [word for part in parts for word in _describe_hint(part)]
    if origin is Literal:
        return [repr(x) for x in parts]
    if (word := _TYPE_TEXTS.get(origin or hint)) is not None:
        return [word]
    if origin is not None:
        inner = dict.fromkeys(word for part in parts if part is not ... for word in _describe_hint(part))
        return [f"a list (of {' or '.join(inner)})"]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [repr(x.value) for x in hint]
    return [str(getattr(hint, "__name__", hint))]


class _Unknown(dict[str, Any]):
    """Names for type checkers only; each of them stands for any value."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.modules = [vars(sys.modules[module]) for module in modules]

    def __missing__(self, name: str) -> Any:
        if any(name in module for module in self.modules) or hasattr(builtins, name):
            raise KeyError(name)  # Python then looks in the module, where the name is
        return Any


# Without the cache, each call of a checked function would evaluate its annotations again.
@functools.cache
def _hints(function: Any) -> dict[str, Any]:
    """Return the annotations of a function or a dataclass."""
    # The annotations of a base class are read in the module of that class.
    owners = function.__mro__ if isinstance(function, type) else (function,)
    return typing.get_type_hints(function, localns=_Unknown(x.__module__ for x in owners))
