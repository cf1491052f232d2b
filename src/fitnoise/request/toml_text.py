"""The text of a specification in TOML."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tomli_w


def toml_text(document: Mapping[str, Any]) -> str:
    """Return a specification as TOML, with the groups of an attribute in their order, which is that of published rows.

    Args:
        document: As JSON values.
    """
    # TOML writes tables of keys after plain values, which would move groups written as tables to the end.
    # Such groups become one inline table: a mark holds their place while the rest is written.
    text = tomli_w.dumps(document)
    # No text of the document contains the mark, so only the marks are replaced.
    mark = next(m for i in itertools.count() if (m := f"groups-{i}-") not in text)
    held: list[str] = []

    def without_groups(x: Any) -> Any:
        if isinstance(x, Mapping):
            return {key: held_back(y) if key == "groups" and _mixed(y) else without_groups(y) for key, y in x.items()}
        return [without_groups(y) for y in x] if isinstance(x, list) else x

    def held_back(groups: Any) -> str:
        # After a 0, the groups are written inline; tomli_w can write a list of tables alone as [[x]].
        inline = tomli_w.dumps({"x": [0, groups]}).split("0,", 1)[1]
        held.append(inline.strip().removesuffix("]").strip().removesuffix(","))
        return f"{mark}{len(held) - 1}-"

    marked = without_groups(document)
    if held:
        text = tomli_w.dumps(marked)
        for i, inline in enumerate(held):
            text = text.replace(f'"{mark}{i}-"', inline)
    return text


def _mixed(groups: Any) -> bool:
    """Return True if some group is a table of keys, such as a range."""
    by_attribute = [x for x in groups.values() if isinstance(x, Mapping)] if isinstance(groups, Mapping) else []
    return any(isinstance(values, Mapping) for selections in by_attribute for values in selections.values())
