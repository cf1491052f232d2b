"""The HTML that notebooks show of requests, plans, releases and answers, made by a renderer that the package registers.

This module imports nothing from the package, so no class of a lower package depends on the pages of `interfaces`.
"""

from __future__ import annotations

from collections.abc import Callable

Renderer = Callable[[object], str | None]
"""A function that returns the HTML of an object, or None to show its text."""

_registered: list[Renderer] = []


def register_html(renderer: Renderer) -> Renderer:
    """Register the renderer of all notebooks, in place of an earlier one, and return it."""
    _registered[:] = [renderer]
    return renderer


class HtmlDisplay:
    """An object that notebooks show as HTML, or as text without the extra `fitnoise[report]`."""

    def _repr_html_(self) -> str | None:
        return _registered[0](self)
