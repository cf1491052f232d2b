"""The studio's own templates, in addition to those of pages, in the words of a language."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from fitnoise.errors import FitnoiseError
from fitnoise.interfaces.pages.fragments import environment
from fitnoise.interfaces.render import printable
from fitnoise.messages import translator

TEMPLATE_PACKAGE = "fitnoise_studio"


def error_text(error: FitnoiseError, language: str, english: str = "") -> Markup:
    """Return the text of an error in a language; for a code without a text the English one, marked as English.

    A text of the catalogue begins with the name of the attribute at fault, which a key such as domain.NAME.low has.

    Args:
        error: The error.
        language: The language of the page.
        english: The English text; default: that of the error.
    """
    english, texts = english or str(error), translator(language).texts
    if (text := texts.get(f"error.{error.code}")) is not None:
        section, _, name = (error.place or "").rpartition(".")[0].partition(".")
        text = text.format_map(getattr(error, "values", {}))
        return escape(printable(f"{name}: {text}" if section == "domain" and name else text))
    english = printable(english)
    return escape(english) if language == "en" else Markup('<span lang="en">{}</span>').format(english)


def render_part(name: str, language: str, /, *values: Any, **context: Any) -> Markup:
    """Return one of the parts of parts.html, filled in."""
    template = environment(language, TEMPLATE_PACKAGE).get_template("parts.html")
    return getattr(template.module, name)(*values, **context)  # type: ignore[no-any-return]  # macros return what is escaped


def page(name: str, language: str, /, **context: Any) -> str:
    """Return a complete page."""
    return environment(language, TEMPLATE_PACKAGE).get_template(f"{name}.html").render(**context)
