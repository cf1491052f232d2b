"""Texts by language: as a specification states them, and in the columns of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fitnoise.errors import DomainError, SpecError
from fitnoise.kernel.codings import Code
from fitnoise.messages import LANGUAGES

_TAG = re.compile("[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")

_TAGS_BY_NAME = {
    "en": ("english", "eng"),
    "de": ("german", "deutsch", "deu", "ger"),
    "es": ("spanish", "español", "spa"),
    "fr": ("french", "français", "francais", "fra", "fre"),
    "it": ("italian", "italiano", "ita"),
}
"""The names of the languages of reports, and their codes of three letters, which are no tags of BCP 47."""


def _tag(language: str) -> str:
    """Return the tag of a language that is named by its tag or a name, in letters of any case."""
    return next((tag for tag, names in _TAGS_BY_NAME.items() if language.casefold() in names), language.lower())


def check_tag(language: str, key: str) -> None:
    """Raise SpecError unless a text is the tag of a language, such as "fr".

    Args:
        language: The text.
        key: The key that states it.
    """
    main_part, *others = language.replace("_", "-").split("-")
    corrected = "-".join([_tag(main_part), *others])
    if corrected != language or _TAG.fullmatch(language) is None:
        is_known = _TAG.fullmatch(corrected) is not None
        raise SpecError(
            "language-tag-invalid",
            f"A language is {language!r}.",
            "It must be a tag of BCP 47, such as 'en', 'fr' or 'pt-BR'.",
            f"Write {corrected!r}." if is_known else "Write the tag of the language.",
            "No plan was made.",
            place=key,
        )


def main_text(texts: Any, language: str, key: str) -> Any:
    """Return a text, or a list of texts, of the main language; a mapping has one for each language.

    Args:
        texts: The text, or the texts by language.
        language: The main language.
        key: The key that states them.

    Raises:
        SpecError: The mapping lacks the main language, or has something that is no tag of a language.
    """
    if not isinstance(texts, Mapping):
        return texts
    for tag in texts:
        check_tag(tag, key)
    if language not in texts:
        raise SpecError(
            "main-language-missing",
            f"The languages of {key} are {', '.join(texts)}.",
            f"One of them must be the language of the publication, which is {language!r}.",
            "Add a text in this language, or state the language of the publication as language at the top.",
            "No plan was made.",
            place=key,
        )
    return texts[language]


def further_texts(texts: Any, language: str) -> dict[str, Any]:
    """Return the texts of all languages but the main one; none unless they are given by language."""
    return {tag: text for tag, text in texts.items() if tag != language} if isinstance(texts, Mapping) else {}


def all_texts(texts: Any, language: str, key: str) -> dict[str, Any]:
    """Return the texts by language, the main one first; see :func:`main_text`."""
    return {language: main_text(texts, language, key)} | further_texts(texts, language)


def by_language(language: str, main: Any, further: Mapping[str, Any]) -> Any:
    """Return a text as a specification states it: by language if there are further ones, otherwise alone."""
    return {language: main, **further} if further else main


def columns_by_language(header: Iterable[str], column: str, language: str | None) -> dict[str, str]:
    """Return the columns of a file that have one text in several languages: `label`, `label_fr` and so on.

    Args:
        header: The names of all columns.
        column: The name of the column in the main language; it may end with the tag of this language, too.
        language: The main language; None to look for `column` alone.

    Returns:
        The columns by language: the main language, and further ones that reports have. The main language of `None` is
        "".

    Raises:
        DomainError: Two columns have the texts in the main language. Or a column ends with the name of a language, its
            code of three letters, or its tag in capitals.
    """
    names = {*header}
    untagged = {language or "": column} if column in names else {}
    if language is None:
        return untagged
    tagged = {x: f"{column}_{x}" for x in dict.fromkeys([language, *LANGUAGES]) if f"{column}_{x}" in names}
    for name in sorted(names - {*tagged.values()}):
        ending = name.removeprefix(f"{column}_")
        # Columns of other languages are ignored, and this one would be, too.
        if ending != name and _tag(ending) in LANGUAGES:
            raise DomainError(
                "text-column-language",
                f"The file has the column {name!r}.",
                f"A column of texts in a further language ends with its tag, which is {_tag(ending)!r}.",
                f"Name the column {f'{column}_{_tag(ending)}'!r}.",
                "No attribute was made.",
                place=name,
            )
    if untagged and language in tagged:
        raise DomainError(
            "text-columns-twice",
            f"The file has the columns {column!r} and {tagged[language]!r}.",
            f"Both are in {language!r}, the language of the publication.",
            f"Remove one of them, or name {column!r} for another language.",
            "No attribute was made.",
            place=column,
        )
    return untagged | tagged


def refuse_empty(codes: Sequence[Code], texts: Sequence[object], column: str) -> None:
    """Raise DomainError for the first code without a text in a column of texts for people.

    Args:
        codes: The codes, row by row.
        texts: The texts of the column, row by row.
        column: The name of the column.
    """
    code = next((code for code, text in zip(codes, texts, strict=True) if not isinstance(text, str) or not text), None)
    if code is not None:
        raise DomainError(
            "text-column-incomplete",
            f"The code {code!r} has no text in the column {column!r}.",
            "Each code needs a text in each such column.",
            "Add the text, or rename the column.",
            "No attribute was made.",
            place=column,
        )
