"""The studio's own templates, in addition to those of pages, in the words of a language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from fitnoise.errors import ErrorValue, FitnoiseError
from fitnoise.interfaces.pages.fragments import environment, in_language, module_of
from fitnoise.interfaces.render import printable
from fitnoise.messages import Translator, translator
from fitnoise.request.spec_errors import MAX_LISTED

TEMPLATE_PACKAGE = "fitnoise_studio"


def error_text(error: FitnoiseError, language: str, english: str = "") -> Markup:
    """Return the text of :func:`error_sentences` for a page."""
    return escape(error_sentences(error, language, english))


def error_sentences(error: FitnoiseError, language: str, english: str = "") -> str:
    """Return the text of an error in a language: of its code, or of its area with the code.

    A text of the catalogue begins with the attribute or table at fault, which a key such as domain.NAME.low has.

    Args:
        error: The error.
        language: The language of the page.
        english: The English text; default: that of the error.
    """
    return printable((english or str(error)) if language == "en" else _translated(error, translator(language)))


def _translated(error: FitnoiseError, language: Translator) -> str:
    text = language.texts.get(f"error.{error.code}") or language.texts[f"error.other.{error.area}"]
    values = {name: value_text(x, language) for name, x in error.values.items()}
    text = text.format_map({"code": error.code, "place": error.place, **values})
    attribute, table = (re.match(pattern, error.place or "") for pattern in (r"domain\.(.+)\.", r"tables\[(\d+)\]"))
    problems: Sequence[FitnoiseError] = getattr(error, "problems", ())
    if problems:
        listed = [f"{i}. {_translated(x, language)}" for i, x in enumerate(problems[:MAX_LISTED], 1)]
        rest = len(problems) - MAX_LISTED
        omitted = [language.translate("studio.error.more", n=language.number(rest))] if rest > 0 else []
        return " ".join([text, *listed, *omitted])
    if table:
        return f"{language.translate('studio.error.table', n=int(table[1]) + 1)}: {text}"
    return f"{attribute[1]}: {text}" if attribute else text


def value_text(value: ErrorValue, language: Translator) -> str:
    """Return a value in the sentences of an error as people read it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {language.number(n)}" for name, n in value.items())
    return value if isinstance(value, str) else language.number(value)


def render_part(name: str, language: str | Translator, /, *values: Any, **context: Any) -> Markup:
    """Return one of the parts of parts.html, filled in.

    language: The code of a language, or a language with words of a publication.
    """
    return getattr(module_of("parts.html", language, TEMPLATE_PACKAGE), name)(*values, **context)  # type: ignore[no-any-return]  # macros return what is escaped


def page(name: str, language: str | Translator, /, **context: Any) -> str:
    """Return a complete page. language: its code, or a language with words of a publication."""
    if isinstance(language, Translator):
        context = {**in_language(language), **context}
        language = language.code
    return environment(language, TEMPLATE_PACKAGE).get_template(f"{name}.html").render(**context)
