"""Pages the program writes itself, as Markdown: commands, exit codes, keys of specifications, guarantees, workloads."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import click
import numpy as np
from error_sites import CLASSES, ErrorSite, error_sites
from numpy.typing import NDArray

import fitnoise as fn
from fitnoise import errors, gallery, strategies
from fitnoise.interfaces.cli import cli
from fitnoise.request.documents import json_schema

_schema = cache(json_schema)

_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def commands() -> Iterator[str]:
    """The help of every command, as it is printed."""
    whole = click.Context(cli, info_name="fitnoise", max_content_width=100)
    yield from _help("fitnoise", cli, whole)
    for name in cli.list_commands(whole):
        command = cli.get_command(whole, name)
        if command is not None:
            inside = click.Context(command, whole, name, max_content_width=100)
            yield from _help(f"fitnoise {name}", command, inside)
            for own, part in getattr(command, "commands", {}).items():
                yield from _help(
                    f"fitnoise {name} {own}", part, click.Context(part, inside, own, max_content_width=100)
                )


def exit_codes() -> Iterator[str]:
    """What the exit code of a command says, by the errors that have it."""
    found: dict[int, list[str]] = {}
    for error in vars(errors).values():
        if inspect.isclass(error) and issubclass(error, fn.FitnoiseError) and error is not fn.FitnoiseError:
            found.setdefault(error.exit_code, []).append(f"`{error.__name__}`: {_first(error)}")
    found[0], found[2] = (
        ["the command did what it says"],
        ["`UsageError`: arguments or options that do not go together"],
    )
    yield from ("| exit code | what happened |", "|---|---|")
    for code, words in sorted(found.items()):
        yield f"| {code} | {'<br>'.join(words)} |"


def error_codes() -> Iterator[str]:
    """Return a table of every error's code, message and exit code, with a heading for each class of errors."""
    areas: dict[str, type[fn.FitnoiseError]] = {}
    for error in CLASSES.values():
        areas.setdefault(error.area, error)
    yield from ("## Every area", "", "These codes have the area of the part of fitnoise that was called.", "")
    yield from _codes(site for site in error_sites() if site.is_general)
    for area, error in areas.items():
        yield from (f"## {area}", "", _first(error), "")
        yield from _codes(site for site in error_sites() if site.kind.area == area and not site.is_general)


def _codes(sites: Iterable[ErrorSite]) -> Iterator[str]:
    rows = sorted({(site.code, site.text, "" if site.is_general else str(site.kind.exit_code)) for site in sites})
    yield from ("| code | message | exit code |", "|---|---|---|")
    yield from (f"| `{code}` | {_plain(text)} | {exit_code} |" for code, text, exit_code in rows)
    yield ""


def guarantees() -> Iterator[str]:
    """What every public name guarantees, word for word."""
    for name in fn.__all__:
        what = getattr(fn, name)
        inner = vars(what).items() if inspect.isclass(what) else ()
        own = [(name, what), *((f"{name}.{key}", x) for key, x in inner if not key.startswith("_"))]
        told = [(key, block) for key, x in own if (block := _guaranteed(inspect.getdoc(x) or ""))]
        for key, block in told:
            yield from (f"## `{key}`", "", block, "")


def _guaranteed(text: str) -> str:
    """The block of a docstring that follows **Guarantees**, as Markdown: what is indented or in a list."""
    _, mark, rest = text.partition("**Guarantees**")
    first, *lines = rest.lstrip(":").split("\n")
    block = list(itertools.takewhile(lambda line: not line.strip() or line[0] in " -*", lines))
    said = "\n".join([first.strip(), textwrap.dedent("\n".join(block))]).strip() if mark else ""
    return re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", said)


def _first(what: object) -> str:
    """The first paragraph of a docstring."""
    return " ".join((inspect.getdoc(what) or "").split("\n\n")[0].split())


def _help(title: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (f"## `{title}`", "", "```text", command.get_help(context), "```", "")


def specification() -> Iterator[str]:
    """Every table of a specification with its keys: what they hold and mean, and what holds without them."""
    schema = _schema()
    models = schema["$defs"]
    titles = dict(_titles(schema, models))
    yield from _keys("A specification", schema, titles)
    for name, title in titles.items():
        yield f"({_anchor(name)})="
        yield from _keys(title, models[name], titles)


def _titles(schema: dict[str, Any], models: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The models that are objects, in the order in which one meets them, each with where it is written."""
    met, left = set(), [("", schema)]
    for path, model in left:
        for key, held in model["properties"].items():
            for name, place in _held(held, f"{path}.{key}" if path else key):
                if name not in met and "properties" in models[name]:
                    met.add(name)
                    kind = models[name]["properties"].get("type", {}).get("const")
                    yield name, (f"`{place}`" if kind is None else f'`{place}` with `type = "{kind}"`')
                    left.append((place.strip("[]").replace("[[", "").replace("]]", ""), models[name]))


def _held(held: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """The models in a value, with how the place of each is written."""
    if "$ref" in held:
        yield held["$ref"].rsplit("/", 1)[-1], f"[{place}]"
    for other in (*held.get("anyOf", ()), *held.get("oneOf", ())):
        yield from _held(other, place)
    if "items" in held:
        yield from ((name, f"[{inner}]") for name, inner in _held(held["items"], place))
    if isinstance(held.get("additionalProperties"), dict):
        yield from _held(held["additionalProperties"], f"{place}.NAME")


def _keys(title: str, model: dict[str, Any], titles: dict[str, str]) -> Iterator[str]:
    yield from (f"## {title}", "", model.get("description", ""), "", "| key | holds | without it |", "|---|---|---|")
    for key, held in model["properties"].items():
        told = ": ".join(x for x in (_kind(held, titles), _plain(held.get("description", ""))) if x)
        needed = "it is needed" if key in model.get("required", ()) else _default(held.get("default"))
        yield f"| `{key}` | {told} | {needed} |"
    yield ""


def _plain(text: str) -> str:
    """Text of a description, with what Markdown would take for its own."""
    return re.sub(r"([*<|\[\]])", r"\\\1", text)


def _default(value: object) -> str:
    return "" if value in (None, "", []) or isinstance(value, dict) else f"`{json.dumps(value)}`"


def _kind(held: dict[str, Any], titles: dict[str, str]) -> str:
    """What a key holds, in words."""
    if "$ref" in held:
        name = held["$ref"].rsplit("/", 1)[-1]
        return f"[table](#{_anchor(name)})" if name in titles else _kind(_schema()["$defs"][name], titles)
    several = [x for x in (*held.get("anyOf", ()), *held.get("oneOf", ())) if x.get("type") != "null"]
    if several:
        return " or ".join(dict.fromkeys(_kind(x, titles) for x in several))
    if "const" in held or "enum" in held:
        return " or ".join(
            f'`"{x}"`' if isinstance(x, str) else f"`{x}`" for x in held.get("enum", [held.get("const")])
        )
    if held.get("type") == "array":
        return f"list of: {_kind(held.get('items', {}), titles)}"
    if held.get("type") == "object" and isinstance(held.get("additionalProperties"), dict):
        return f"name = {_kind(held['additionalProperties'], titles)}"
    return _WORDS.get(held.get("type", ""), "a value")


def _anchor(name: str) -> str:
    return f"spec-{name.lower()}"


# --- the gallery ----------------------------------------------------------------------------------------------------


def workloads() -> dict[str, NDArray[Any]]:
    """Thirty workloads, by what they ask: a row for each query, a column for each cell."""
    rng = np.random.default_rng(1)
    one, eye, ages = np.ones((1, 8)), np.eye(8), gallery.prefix(8)
    ranges = [[int(i <= k <= j) for k in range(16)] for i in range(16) for j in range(i, 16)]
    shown = {f"at most each of {n} values": gallery.prefix(n) for n in (4, 8, 16, 32)}
    shown |= {f"each of {n} cells": strategies.identity(n) for n in (8, 32)}
    shown |= {f"each of {n} cells, and all": gallery.identity_and_sum(n) for n in (8, 32)}
    shown |= {
        "all of 8 cells": one,
        "every range of 16 values": np.array(ranges),
        "64 ranges of 32 values, drawn": gallery.random_ranges(32, 64, rng),
        "windows of 4 of 32 values": np.array([np.roll([1] * 4 + [0] * 28, i) for i in range(29)]),
        "windows of 8 of 32 values": np.array([np.roll([1] * 8 + [0] * 24, i) for i in range(25)]),
        "four groups of 16 values, and each value": np.vstack([np.kron(np.eye(4), np.ones((1, 4))), np.eye(16)]),
        "halves, quarters, eighths of 16 values": np.vstack(
            [np.kron(np.eye(k), np.ones((1, 16 // k))) for k in (2, 4, 8)]
        ),
        "first and second half, and at most each": np.vstack([np.kron(np.eye(2), np.ones((1, 8))), gallery.prefix(16)]),
        "every value, and at most each of 16": np.vstack([np.eye(16), gallery.prefix(16)]),
        "at most and at least each of 16": np.vstack([gallery.prefix(16), 1 - gallery.prefix(16)[:-1]]),
        "8 ages by 8 places, both totals": np.vstack([np.kron(eye, one), np.kron(one, eye)]),
        "8 ages by 8 places, cells and totals": np.vstack([np.kron(eye, one), np.kron(one, eye), np.eye(64)]),
        "at most each age, by place": np.kron(eye, ages),
        "at most each age, by place and of all": np.vstack([np.kron(eye, ages), np.kron(one, ages)]),
        "at most each of two": np.kron(ages, ages),
        "age pyramids of 16 ages": gallery.age_pyramids(16, 6),
        "margins of 2 × 2 × 2": gallery.marginals((2, 2, 2)),
        "margins of 4 × 4 × 4": gallery.marginals((4, 4, 4)),
        "pairs of 2 × 2 × 2 × 2": gallery.marginals((2, 2, 2, 2), (2,)),
        "pairs of 2 × 3 × 4": gallery.marginals((2, 3, 4), (2,)),
        "32 sums of 16 cells with random signs": gallery.random_signs(16, 32, rng, 0.5),
        "a third of 24 cells at random, 24 times": (rng.random((24, 24)) < 1 / 3).astype(int) + np.eye(24, dtype=int),
    }
    return shown


def drawn() -> Iterator[str]:
    """The gallery: each drawn, with its certified cost at variance 1 for every number, and what other noise costs."""
    yield from ("| | asked | queries × cells | Δ² | bound | each number alone |", "|---|---|---|---|---|---|")
    for name, queries in workloads().items():
        plan = fn.plan(fn.matrix_workload(queries, variances=1.0))
        alone = float((queries.astype(float) ** 2).sum(axis=0).max())
        size = f"{queries.shape[0]} × {queries.shape[1]}"
        yield (
            f"| {_picture(queries)} | {name} | {size} | {plan.cost_squared:.4f} | {plan.bound:.4f} | {alone:.4g} "
            f"({alone / plan.cost_squared:.2f} times) |"
        )


def _picture(queries: NDArray[Any]) -> str:
    """A matrix as a drawing: dark where a query counts a cell, light where it takes it away."""
    m, n = queries.shape
    path = {1: "", -1: ""}
    for i, row in enumerate(queries):
        ends = np.flatnonzero(np.diff(np.sign(row), prepend=0, append=0))
        for a, b in itertools.pairwise(ends):
            if row[a]:
                path[int(np.sign(row[a]))] += f"M{a} {i}h{b - a}v1h{a - b}z"
    shades = "".join(
        f'<path d="{d}" fill="currentColor" fill-opacity="{1 if sign > 0 else 0.3}"/>' for sign, d in path.items() if d
    )
    return (
        f'<svg role="img" aria-label="{m} by {n}" viewBox="0 0 {n} {m}" width="80" height="80" '
        f'preserveAspectRatio="none" shape-rendering="crispEdges">{shades}</svg>'
    )
