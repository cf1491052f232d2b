"""The languages of pages: English is written in the templates, and others say the same in a catalogue beside them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import final

from fitnoise.errors import ReleaseError
from fitnoise.reporting import Kind, Plain

_PAGES = "fitnoise.interfaces.pages"

_SIGNS: dict[str, dict[str, str]] = {"en": {"-": "−"}, "de": {"-": "−", ",": "\u202f", ".": ","}}
"""How numbers are written, from how Python writes them: German groups digits by a narrow space (DIN 1333)."""

LANGUAGES = tuple(_SIGNS)
"""What they are called."""


@final
@dataclass(frozen=True)
class Words:
    """One language. code: as of BCP 47. catalogue: by the English text, but for English itself."""

    code: str
    catalogue: Mapping[str, str]

    def tell(self, text: str, **values: object) -> str:
        """A text of ours in this language, with values in its braces."""
        said = text if self.code == "en" else self.catalogue[text]
        return said.format_map(values) if values else said

    def number(self, x: float, decimals: int = 0) -> str:
        """A number to so many decimals."""
        text = f"{x:,.{decimals}f}"
        return self.written(text[1:] if text.startswith("-") and not text.strip("-0.,") else text)

    def kind(self, kind: Kind, given: Plain) -> str:
        """A value of a report, as people read it."""
        number = isinstance(given, int | float) and not isinstance(given, bool) and kind.numeric
        return self.written(kind.words(given)) if number else kind.words(given)

    def written(self, digits: str) -> str:
        """A number as Python writes it, as this language does: 1.7e-07 as 1.7 · 10⁻⁷."""
        whole = re.sub(r" ?%", "\u202f%", digits).translate({ord(sign): own for sign, own in _SIGNS[self.code].items()})
        return re.sub(r"(?:(?<!\d)1|(\d[\d.,]*))e([+−]?)0*(\d+)", _powered, whole)


def _powered(found: re.Match[str]) -> str:
    digits, sign, power = found.groups()
    ten = f"10{'⁻' if sign == '−' else ''}{power.translate(_RAISED)}"
    return ten if digits in (None, "1") else f"{digits} · {ten}"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@cache
def _catalogue(package: str, code: str) -> dict[str, str]:
    place = resources.files(package) / "templates" / f"{code}.toml"
    return tomllib.loads(place.read_text(encoding="utf-8"))


def words(language: str, also: str = "") -> Words:
    """A language by its code. also: a package with a catalogue beside that of pages.

    Raises:
        ReleaseError: pages do not speak it.
    """
    if language not in LANGUAGES:
        raise ReleaseError(f"reports are written in {' or '.join(LANGUAGES)}; got {language!r}. Nothing was written.")
    known = [] if language == "en" else [_catalogue(x, language) for x in (_PAGES, also) if x]
    return Words(language, {text: said for own in known for text, said in own.items()})
