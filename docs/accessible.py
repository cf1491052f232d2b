"""Labels that the theme of the site lacks for readers without a screen or a mouse. Tests run axe over every page."""

import re
from typing import Any

from sphinx.jinja2glue import BuiltinTemplateLoader

HEADING = re.compile(r'<p class="caption" role="heading">')
EMPTY = re.compile(r'<th class="[^"]*head[^"]*"><p></p></th>')
BROAD = re.compile(r'<(?:pre|div class="table-wrapper [^"]*")(?=>)')
DRAWERS = {"sidebar-drawer": "Pages of the site", "toc-drawer": "On this page"}


class Accessible(BuiltinTemplateLoader):
    """The templates of the theme, with the missing labels."""

    def render(self, template: str, context: dict[str, Any]) -> str:  # type: ignore[override]
        """Return a page in which readers can scroll wide parts by keyboard."""
        page = HEADING.sub('<p class="caption" role="heading" aria-level="2">', super().render(template, context))
        page = EMPTY.sub("<td></td>", page)
        page = BROAD.sub(r'\g<0> tabindex="0"', page)
        for drawer, name in DRAWERS.items():
            page = page.replace(f'<aside class="{drawer}', f'<aside aria-label="{name}" class="{drawer}')
        if template == "search.html":
            page = page.replace('<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">')
        return page
