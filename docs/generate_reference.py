"""Reference pages, as Markdown: commands, codes, keys of specifications, guarantees and workloads."""

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
from home_pictures import pictures as pictures
from kernel_files import Lines, lines_of, listed_files, path_of, sum_of_lines
from numpy.typing import NDArray

import fitnoise as fn
from fitnoise import errors
from fitnoise.interfaces.cli import cli
from fitnoise.request.documents import json_schema
from fitnoise_lab import gallery, strategies

_schema = cache(json_schema)

_SCALARS = {"boolean": "true or false", "integer": "whole number", "number": "number", "string": "text", "date": "date"}

_LABELS = {
    "AgeSpec": "age",
    "AmountSpec": "amount",
    "BinnedSpec": "binned attribute",
    "BoundsSpec": "table of bounds",
    "ByFileSpec": "rule from a file",
    "BySizeSpec": "rule by size",
    "BySpec": "rule by value",
    "CategoricalSpec": "categorical attribute",
    "HierarchySpec": "hierarchy",
    "OrderedSpec": "ordered attribute",
    "PublicTotalSpec": "public total",
    "SpanSpec": "range",
    "ValuesSpec": "table of values",
}
"""Names of tables that are one of several choices for a key; other tables of keys are called "table"."""

ABSENT = "If absent, "
"""Start of the last sentence of a description, where a key has no default."""


def commands() -> Iterator[str]:
    """Yield the help of every command, as the command prints it."""
    root_context = click.Context(cli, info_name="fitnoise", max_content_width=100)
    yield from _help("fitnoise", cli, root_context)
    for name in cli.list_commands(root_context):
        command = cli.get_command(root_context, name)
        if command is not None:
            inside = click.Context(command, root_context, name, max_content_width=100)
            yield from _help(f"fitnoise {name}", command, inside)
            for subname, part in getattr(command, "commands", {}).items():
                yield from _help(
                    f"fitnoise {name} {subname}", part, click.Context(part, inside, subname, max_content_width=100)
                )


def exit_codes() -> Iterator[str]:
    """Yield a table of exit codes, with the errors that have each of them."""
    by_code: dict[int, list[str]] = {}
    for error in vars(errors).values():
        if inspect.isclass(error) and issubclass(error, fn.FitnoiseError) and error is not fn.FitnoiseError:
            by_code.setdefault(error.exit_code, []).append(f"`{error.__name__}`: {_first_paragraph(error)}")
    by_code[0], by_code[2] = (
        ["the command succeeded"],
        ["`UsageError`: arguments or options that exclude each other"],
    )
    yield from ("| exit code | outcome |", "|---|---|")
    for code, texts in sorted(by_code.items()):
        yield f"| {code} | {'<br>'.join(texts)} |"


def error_codes() -> Iterator[str]:
    """Return a table of every error's code, message and exit code, with a heading for each class of errors."""
    areas: dict[str, type[fn.FitnoiseError]] = {}
    for error in CLASSES.values():
        areas.setdefault(error.area, error)
    yield from ("## Every area", "", "These codes have the area of the part of fitnoise that was called.", "")
    yield from _codes(site for site in error_sites() if site.is_general)
    for area, error in areas.items():
        yield from (f"## {area}", "", _first_paragraph(error), "")
        yield from _codes(site for site in error_sites() if site.kind.area == area and not site.is_general)


def _codes(sites: Iterable[ErrorSite]) -> Iterator[str]:
    rows = sorted({(site.code, site.text, "" if site.is_general else str(site.kind.exit_code)) for site in sites})
    yield from ("| code | message | exit code |", "|---|---|---|")
    yield from (f"| `{code}` | {_escape(text)} | {exit_code} |" for code, text, exit_code in rows)
    yield ""


def kernel_lines() -> Iterator[str]:
    """Yield a table of the lines of code of the kernel's files, in the reading order of the page for auditors."""
    columns = ("part", "lines of code of each file", "together", "of them errors", "others")
    yield from (f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}")
    for part, names in listed_files().items():
        lines = {name: lines_of(path_of(name)) for name in names}
        each = ", ".join(f"`{name.removesuffix('.py')}` {x.code}" for name, x in lines.items())
        yield _lines_row(part, each, sum(lines.values(), Lines(0, 0)))
    yield _lines_row("**The core**, without the annexes", "", sum_of_lines(annexes=False))
    yield _lines_row("**The kernel**, with the annexes", "", sum_of_lines(annexes=True))


def _lines_row(part: str, each: str, lines: Lines) -> str:
    return f"| {part} | {each} | {lines.code:,} | {lines.errors:,} | {lines.others:,} |"


def guarantees() -> Iterator[str]:
    """Yield the guarantees of every public name, word for word."""
    for name in fn.__all__:
        what = getattr(fn, name)
        inner = vars(what).items() if inspect.isclass(what) else ()
        members = [(name, what), *((f"{name}.{key}", x) for key, x in inner if not key.startswith("_"))]
        blocks = [(key, block) for key, x in members if (block := _guaranteed(inspect.getdoc(x) or ""))]
        for key, block in blocks:
            yield from (f"## `{key}`", "", block, "")


def _guaranteed(text: str) -> str:
    """Return the indented block or the list that follows **Guarantees** in a docstring, as Markdown."""
    _, mark, rest = text.partition("**Guarantees**")
    head, *lines = rest.lstrip(":").split("\n")
    block = list(itertools.takewhile(lambda line: not line.strip() or line[0] in " -*", lines))
    guarantees = "\n".join([head.strip(), textwrap.dedent("\n".join(block))]).strip() if mark else ""
    return re.sub(r":[a-z]+:`~?([^`]*)`", r"`\1`", guarantees)


def _first_paragraph(what: object) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join((inspect.getdoc(what) or "").split("\n\n")[0].split())


def _help(title: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (f"## `{title}`", "", "```text", command.get_help(context), "```", "")


def specification() -> Iterator[str]:
    """Yield every table of a specification with its keys: their meanings, types and defaults."""
    schema = _schema()
    models = schema["$defs"]
    titles = dict(_titles(schema, models))
    yield from _keys("Keys at the top of the file", schema, titles)
    for name, title in titles.items():
        yield f"({_anchor(name)})="
        label = _LABELS.get(name)
        yield from _keys(f"{_upper(_article(label))}: {title}" if label else title, models[name], titles)


def _titles(schema: dict[str, Any], models: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the models that are tables, each with its place in a specification, from the top of the schema down."""
    seen, queue = set(), [("", schema)]
    for path, model in queue:
        for key, held in model["properties"].items():
            for name, position in _held(held, f"{path}.{key}" if path else key):
                if name not in seen and "properties" in models[name]:
                    seen.add(name)
                    kind = models[name]["properties"].get("type", {}).get("const")
                    yield name, (f"`{position}`" if kind is None else f'`{position}` with `type = "{kind}"`')
                    queue.append((position.strip("[]").replace("[[", "").replace("]]", ""), models[name]))


def _held(held: dict[str, Any], position: str) -> Iterator[tuple[str, str]]:
    """Yield the models in the value of a key, each with its place in a specification."""
    if "$ref" in held:
        yield held["$ref"].rsplit("/", 1)[-1], f"[{position}]"
    for other in (*held.get("anyOf", ()), *held.get("oneOf", ())):
        yield from _held(other, position)
    if "items" in held:
        yield from ((name, f"[{inner}]") for name, inner in _held(held["items"], position))
    if isinstance(held.get("additionalProperties"), dict):
        yield from _held(held["additionalProperties"], f"{position}.NAME")


def _keys(title: str, model: dict[str, Any], titles: dict[str, str]) -> Iterator[str]:
    """Yield a heading, the description of a model, and a table with a row for each key that the model takes."""
    described = model.get("description", "")
    yield from (
        f"## {title}",
        "",
        described,
        "",
        "| key | meaning | holds | default | if absent |",
        "|---|---|---|---|---|",
    )
    refused = re.findall(r"`(\w+)`", described.partition("It takes no")[2])
    for key, held in model["properties"].items():
        if key not in refused:
            meaning, _, absent = held.get("description", "").partition(ABSENT)
            default = _default(held.get("default"))
            absent = "an error" if key in model.get("required", ()) else absent if absent else "the default applies"
            cells = (_escape(meaning.strip()), _kind(held, titles), default or "none", _escape(absent.rstrip(".")))
            yield f"| `{key}` | {' | '.join(cells)} |"
    yield ""


def _escape(text: str) -> str:
    """Return text with escapes for the characters that Markdown would interpret."""
    return re.sub(r"([*<|\[\]])", r"\\\1", text)


def _default(value: object) -> str:
    return "" if value in (None, "", []) or isinstance(value, dict) else f"`{json.dumps(value)}`"


def _kind(held: dict[str, Any], titles: dict[str, str], *, plural: bool = False) -> str:
    """Return the type of a key in words, such as "a list of numbers"; in the plural without an article."""
    choices = list(dict.fromkeys(_choices(held, titles, plural=plural)))
    if len(choices) > 1 and choices[-1].startswith("list"):
        choices.sort(key=lambda choice: choice.startswith("list"))
    types = choices if plural else [_article(choice) for choice in choices]
    return " or ".join(filter(None, (", ".join(types[:-1]), types[-1])))


def _choices(held: dict[str, Any], titles: dict[str, str], *, plural: bool) -> Iterator[str]:
    """Yield the types that a key may have, each without an article."""
    end = "s" if plural else ""
    parts = [x for x in (*held.get("anyOf", ()), *held.get("oneOf", ())) if x.get("type") != "null"] or [held]
    if {"SpanSpec", "ValuesSpec"} <= {x.get("$ref", "").rsplit("/", 1)[-1] for x in parts}:
        yield f"selection{end}"
        return
    scalars = {
        x.get("format", x["type"]) for x in parts if x.get("type") in _SCALARS and "enum" not in x and "const" not in x
    }
    for name, group in (
        ("value", {"boolean", "integer", "number", "string"}),
        ("code", {"boolean", "integer", "string"}),
    ):
        if group <= scalars:
            yield f"{name}{end}"
            scalars -= group
    scalars -= {"integer"} if "number" in scalars else set()
    for scalar, name in _SCALARS.items():
        if scalar in scalars:
            yield name if scalar == "boolean" else f"{name}{end}"
    for part in parts:
        yield from _choice(part, titles, plural=plural)


def _choice(part: dict[str, Any], titles: dict[str, str], *, plural: bool) -> Iterator[str]:
    """Yield the types of one choice that is no plain text, number, date or truth value."""
    end = "s" if plural else ""
    if "anyOf" in part or "oneOf" in part:
        yield from _choices(part, titles, plural=plural)
    elif "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[-1]
        if name in titles:
            noun, _, rest = _LABELS.get(name, "table").partition(" of ")
            noun = re.sub("ys$", "ies", noun + end)
            yield f"[{' of '.join(filter(None, (noun, rest)))}](#{_anchor(name)})"
        else:
            yield from _choice(_schema()["$defs"][name], titles, plural=plural)
    elif "enum" in part or "const" in part:
        yield from (f"`{json.dumps(x)}`" for x in part.get("enum", [part.get("const")]))
    elif part.get("type") == "array":
        is_pair = part.get("minItems") == part.get("maxItems") == 2
        yield f"{'pair' if is_pair else 'list'}{end} of {_kind(part['items'], titles, plural=True)}"
    elif part.get("type") == "object":
        values = _kind(part["additionalProperties"], titles, plural=True)
        yield f"table{end} of {values.removesuffix(' by name')} by name"


def _article(name: str) -> str:
    """Return a noun with "a" or "an"; what begins with a quotation, and "true or false", have none."""
    stripped = name.lstrip("[")
    if stripped.startswith(("`", "true")):
        return name
    return f"{'an' if stripped[0] in 'aeiou' else 'a'} {name}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _anchor(name: str) -> str:
    return f"spec-{name.lower()}"


# --- the gallery ----------------------------------------------------------------------------------------------------


def workloads() -> dict[str, NDArray[Any]]:
    """Return thirty workloads by name: a row for each query, a column for each cell."""
    rng = np.random.default_rng(1)
    one, eye, ages = np.ones((1, 8)), np.eye(8), gallery.prefix(8)
    ranges = [[int(i <= k <= j) for k in range(16)] for i in range(16) for j in range(i, 16)]
    matrices = {f"at most each of {n} values": gallery.prefix(n) for n in (4, 8, 16, 32)}
    matrices |= {f"each of {n} cells": strategies.identity(n) for n in (8, 32)}
    matrices |= {f"each of {n} cells, and all": gallery.identity_and_sum(n) for n in (8, 32)}
    matrices |= {
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
    return matrices


def drawings() -> Iterator[str]:
    """Yield the gallery: a drawing of each workload, its certified cost, and the cost of independent noise."""
    yield from ("| | workload | queries × cells | Δ² | bound | each number alone |", "|---|---|---|---|---|---|")
    for name, queries in workloads().items():
        plan = fn.plan(fn.matrix_workload(queries, variances=1.0))
        cost = float(plan.table_part.exact_cost)
        separate = float((queries.astype(float) ** 2).sum(axis=0).max())
        size = f"{queries.shape[0]} × {queries.shape[1]}"
        yield (
            f"| {_picture(queries)} | {name} | {size} | {cost:.4f} | {plan.bound:.4f} | {separate:.4g} "
            f"({separate / cost:.2f} times) |"
        )


def _picture(queries: NDArray[Any]) -> str:
    """Return a matrix as a drawing: dark where a query adds a cell, light where it subtracts it."""
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
