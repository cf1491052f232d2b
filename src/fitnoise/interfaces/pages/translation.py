"""The languages of pages, for sentences of reports that do not have ids yet."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import final

from fitnoise import messages
from fitnoise.messages import Value, ValueKind
from fitnoise.reporting import Section

_PAGES = "fitnoise.interfaces.pages"


@final
@dataclass(frozen=True)
class TranslatedText:
    """A text, and the code of the language that it is in."""

    text: str
    code: str


@final
@dataclass(frozen=True)
class Translator(messages.Translator):
    """One language, for texts that do not have ids yet.

    sentences: The sentences of reports by the English text, before values are put in.
    """

    sentences: Mapping[str, str] = field(default_factory=dict)

    def sentence(self, text: str, values: Sequence[Value] = ()) -> TranslatedText:
        """Return a sentence of a report with its values; in English if this language lacks some of its words."""
        try:
            told = {v.key: self._given(v) for v in values if f"{{{v.key}}}" in text}
            return TranslatedText(self._known(text).format_map(told), self.code)
        except KeyError:
            return TranslatedText(Section("", (text,), tuple(values)).words[0], "en")

    def phrase(self, text: str) -> TranslatedText:
        """Return words that are filled in already: the name of a section, the origin of a plan, the code of values."""
        try:
            return TranslatedText(self._phrase(text), self.code)
        except KeyError:
            return TranslatedText(text, "en")

    def section(self, section: Section) -> tuple[TranslatedText, ...]:
        """Return the sentences of a section of a report, with their values."""
        return tuple(self.sentence(text, section.values) for text in section.sentences)

    def _given(self, value: Value) -> str:
        if value.kind is ValueKind.WORDS and isinstance(value.given, str):
            return self._phrase(value.given)
        return self.kind(value.kind, value.given)

    def _known(self, text: str) -> str:
        return text if self.code == "en" else self.sentences[text]

    def _phrase(self, text: str) -> str:
        """Return a phrase clause by clause. Numbers in it stand for the braces in the catalogue."""
        return text if self.code == "en" else "; ".join(map(self._clause, text.split("; ")))

    def _clause(self, text: str) -> str:
        if text in self.sentences:
            return self.sentences[text]
        for written, own in self.sentences.items():
            filled = _numbered(written).fullmatch(text) if "{" in written else None
            if filled:
                return own.format_map({name: self.format_digits(digits) for name, digits in filled.groupdict().items()})
        raise KeyError(text)


@cache
def _numbered(text: str) -> re.Pattern[str]:
    """Return the pattern of a text of the catalogue, with numbers of Python's form in its braces."""
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>-?[0-9][0-9.,]*(?:e[+-]?[0-9]+)?)", re.escape(text)))


@cache
def _catalogue(name: str) -> dict[str, str]:
    place = resources.files(_PAGES) / "templates" / f"{name}.toml"
    return tomllib.loads(place.read_text(encoding="utf-8"))


def translator(language: str) -> Translator:
    """Return a language by its code.

    Raises:
        ReleaseError: Pages have no such language.
    """
    texts = messages.translator(language).texts
    return Translator(language, texts, sentences={} if language == "en" else _catalogue(f"sentences.{language}"))
