"""Pages of the reference that the program writes itself, as Markdown: its commands, and the keys of a specification."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import click

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
            yield from _help(f"fitnoise {name}", command, click.Context(command, whole, name, max_content_width=100))


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
