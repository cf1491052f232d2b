"""The studio's own templates, in addition to those of pages, in the words of a language."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from fitnoise.interfaces.pages.fragments import environment

TEMPLATE_PACKAGE = "fitnoise_studio"


def render_part(name: str, language: str, /, *values: Any, **context: Any) -> Markup:
    """Return one of the parts of parts.html, filled in."""
    template = environment(language, TEMPLATE_PACKAGE).get_template("parts.html")
    return getattr(template.module, name)(*values, **context)  # type: ignore[no-any-return]  # macros return what is escaped


def page(name: str, language: str, /, **context: Any) -> str:
    """Return a complete page."""
    return environment(language, TEMPLATE_PACKAGE).get_template(f"{name}.html").render(**context)
