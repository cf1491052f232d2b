"""The sentences for readers: each has an id and typed values, and a catalogue for each language has its text.

    Message ── id ── "report.section.price": dots lead from the general to the special
            ── values ── a key, which the text names in braces; a plain value; its kind

A catalogue is the folder `catalogues/CODE` of TOML files with one text for each id. English is a catalogue like any
other. Plural forms are separate ids. A missing id is an error. The text of `people.ID` replaces that of ID where the
counted records stand for one person each.

English and German have all ids. Other languages have the ids of reports and exports, and English texts for the rest.
"""

from __future__ import annotations

import enum
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Self, TypeAlias, final

from fitnoise.errors import ReleaseError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""A value that JSON can hold. NaN and infinite numbers are excluded."""

Content: TypeAlias = "JsonValue | Message | Sequence[Content] | Mapping[str, Content]"
"""A value of a report: documents have a message in it as its English text."""

NOTHING = "–"
"""The text that people read for a missing value."""

LANGUAGE_NAMES = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français", "it": "Italiano"}
"""The languages of reports and exports by their codes, each by its own name."""

LANGUAGES = tuple(LANGUAGE_NAMES)
"""The codes of the languages of reports and exports."""

COMPLETE_LANGUAGES = ("en", "de")
"""The codes of the languages that have all texts, also those of the studio."""

_COMMA_SIGNS = {"-": "−", ",": "\u202f", ".": ","}
"""The signs of written numbers, from Python's, with a decimal comma and a narrow space between groups (ISO 80000-1)."""

_SIGNS = {language: {"-": "−"} if language == "en" else _COMMA_SIGNS for language in LANGUAGES}
"""The signs of written numbers, from Python's."""


@final
class ValueKind(enum.Enum):
    """The kind of a value, which determines the number of digits that people read (:func:`format`)."""

    TEXT = ("a text, or a number without rounding", "")
    MESSAGE = ("a text of the catalogues, named by its message", "")
    TABLE = ("the name of a table, for which pages have a title", "")
    STATEMENT = ("a sentence of the catalogues; documents have its id and values, too", "")
    SENTENCES = ("texts of the catalogues, separated by semicolons", "")
    PRODUCT = ("the factors of a product", "")
    CODE = ("a value or a name in the data, quoted as in a specification", "")
    CHECK = ("the outcome of a check", "")
    COUNT = ("a count", ",")
    NUMBER = ("a chosen number", ".6g")
    RESULT = ("an answer to a question, and a distance between answers", ".15g")
    ESTIMATE = ("a noisy number, or its margin", ",.1f")
    PEOPLE = ("a margin or an error, in people", ".4g")
    SIMULATED = ("a mean of draws, and its standard error", ".4g")
    COST = ("a charged cost", ".7f")
    COMPARED = ("an epsilon at a delta, or the cost of an alternative", ".4f")
    RECOMPUTED = ("a cost or a bound that was recomputed", ".9g")
    SHARE_OF_TARGET = ("a variance divided by its target", ".9f")
    OPTIMUM = ("an optimum, to its proven digits", ".8g")
    FINE = ("a number with six decimals", ".6f")
    GAP = ("a distance from a bound", ".1e")
    RATIO = ("a ratio of two numbers", ".3f")
    FACTOR = ("a multiple of a target", ".4g")
    PROPORTION = ("a proportion", ".1%")
    PROBABILITY = ("a probability", ".2%")
    LEVEL = ("the probability that an interval is right", ".7g")
    BITS = ("an amount of information", ".3f")
    SECONDS = ("a duration", ".2f")

    def __init__(self, meaning: str, rounding: str) -> None:
        self.meaning = meaning
        self.rounding = rounding

    @property
    def numeric(self) -> bool:
        """True if columns of this kind are flush right."""
        return self not in _UNNUMBERED


_UNNUMBERED = frozenset(
    {
        ValueKind.TEXT,
        ValueKind.TABLE,
        ValueKind.MESSAGE,
        ValueKind.STATEMENT,
        ValueKind.SENTENCES,
        ValueKind.PRODUCT,
        ValueKind.CODE,
        ValueKind.CHECK,
    }
)
"""The kinds of values that are no numbers."""

_SEPARATORS = {ValueKind.SENTENCES: "; ", ValueKind.PRODUCT: " × "}
"""The signs between the values of a list, for kinds with signs other than a comma."""


@final
@dataclass(frozen=True)
class Value:
    """A value with a name.

    key: The name of the value for programs, and for texts.
    content: The value in full.
    spoken: True if only sentences have it, and documents do not.
    """

    key: str
    content: Content
    kind: ValueKind = ValueKind.TEXT
    spoken: bool = False


@final
@dataclass(frozen=True)
class Message:
    """A sentence for readers.

    id: The id of its text in the catalogues.
    `values`: The values that the text may name; it need not name all.
    """

    id: str
    values: tuple[Value, ...] = ()


def rule_messages(rules: Iterable[tuple[str, Mapping[str, float | str]]]) -> tuple[Message, ...]:
    """Return a message for each rule by which values of the data are read, such as "below 0 as 0".

    Args:
        rules: The rules of one attribute or view (`CodingRule`): for each the id of its message, and the values there.
    """
    return tuple(Message(text, tuple(Value(k, x, _kind(k, x)) for k, x in values.items())) for text, values in rules)


def _kind(key: str, value: float | str) -> ValueKind:
    if isinstance(value, str):
        return ValueKind.TEXT
    return ValueKind.COUNT if key == "count" else ValueKind.RESULT


@dataclass(frozen=True)
class Translator:
    """One language.

    code: The code of BCP 47.
    texts: The texts by their ids.
    `typeset`: True to write numbers with the signs of print; False to write them with the characters of every terminal.
    names: Other words for names of the publisher, by name.
    labels: For some attributes the function that returns a label in this language.
    places: For some levels of places the name of each place in this language, by the text of its code.
    titles: The titles of tables without a name of the publisher's, by their default names.
    """

    code: str
    texts: Mapping[str, str]
    typeset: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def unreviewed(self) -> str | None:
        """The sentence that a machine made the texts and a review is due; None for languages without it."""
        return self.texts.get("page.language.unreviewed")

    def translate(self, text_id: str, **values: object) -> str:
        """Return a text with values in its braces, names in the words of this language."""
        renamed = {key: self.name(x) if isinstance(x, str) else x for key, x in values.items()}
        return self.texts[text_id].format_map(renamed)

    def name(self, name: str) -> str:
        """Return a name of the publisher in the words of this language; any other text as it is."""
        return self.names.get(name, name)

    def table(self, name: str) -> str:
        """Return the title of a table: that in words if the table has its default name."""
        return self.titles.get(name) or self.name(name)

    def label(self, attribute: str, label: str, code: str = "") -> str:
        """Return the label of a value in this language.

        Args:
            attribute: The attribute or level.
            label: The label, or the name of a place.
            code: The code of a place, which may share its name with another; empty to name it by its label.
        """
        return self.places.get(attribute, {}).get(code) or self.labels.get(attribute, self.name)(label)

    def write(self, message: Message) -> str:
        """Return the text of a message, with its values.

        Raises:
            KeyError: No text has this id, or the text names a value that the message lacks.
        """
        text = self.texts[message.id]
        # a value that the text does not name may be a long list, and need not be written; braces in a value stay
        return text.format_map({v.key: self.kind(v.kind, v.content) for v in message.values if f"{{{v.key}}}" in text})

    def heading(self, heading: Message | str) -> str:
        """Return the heading of a column: the text of a message, or the name of an attribute."""
        return self.name(heading) if isinstance(heading, str) else self.write(heading)

    def number(self, x: float, decimals: int = 0) -> str:
        """Return a number with this many decimals."""
        return self.format_digits(f"{x:z,.{decimals}f}")  # z: a small number below 0 is rounded to 0, and not to -0

    def kind(self, kind: ValueKind, value: Content) -> str:
        """Return a value of a report, as people read it: a text as :meth:`name`, or in quotes if it is a `CODE`."""
        if isinstance(value, Message):
            return self.write(value)
        if value is None or (isinstance(value, str) and kind is not ValueKind.CODE):
            return NOTHING if value is None else self.table(value) if kind is ValueKind.TABLE else self.name(value)
        if kind is ValueKind.CHECK:
            return self.texts["report.check.passed" if value else "report.check.failed"]
        if isinstance(value, Sequence) and not isinstance(value, str):
            return self._list(kind, value)
        if kind is ValueKind.CODE:
            return repr(value) if isinstance(value, str) else format(value).lower()
        return self._digits(value, kind.rounding) if kind.numeric else format(value)

    def _list(self, kind: ValueKind, values: Sequence[Any]) -> str:
        """Return values as people read them, separated; of a simulated mean, a pair, with its error behind it."""
        if kind is not ValueKind.SIMULATED:
            return _SEPARATORS.get(kind, ", ").join(self.kind(kind, x) for x in values)
        mean, deviation = values
        return f"{self._digits(mean, kind.rounding)} ± {self._digits(deviation, '.2g')}"

    def _digits(self, number: Any, rounding: str) -> str:
        # a level is a percentage with the digits that it was given: 0.999 is 99.9 %. Only LEVEL has this rounding
        level = rounding == ValueKind.LEVEL.rounding
        form = f"z{rounding}" if isinstance(number, float) else rounding  # without the -0 that a noisy number may have
        digits = f"{format(100 * number, form)} %" if level else format(number, form)
        return self.format_digits(digits) if self.typeset else digits

    def format_digits(self, digits: str) -> str:
        """Return a number of Python's form in the form of this language: 1.7e-07 as 1.7 · 10⁻⁷."""
        signs = {ord(sign): other for sign, other in _SIGNS[self.code].items()}
        # signs first: the exponent's minus is then that of print, which the next pattern expects
        text = re.sub(r" ?%", "\u202f%", digits).translate(signs)
        return re.sub(r"(?:(?<!\d)1|(\d[\d.,]*))e([+−]?)0*(\d+)", _powered, text)


def _powered(match: re.Match[str]) -> str:
    digits, sign, power = match.groups()
    ten = f"10{'⁻' if sign == '−' else ''}{power.translate(_RAISED)}"
    return ten if digits in (None, "1") else f"{digits} · {ten}"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Return the texts of a language by their ids.

    Raises:
        ValueError: Two files have a text for one id.
    """
    texts: dict[str, str] = {}
    for file in sorted((resources.files(__name__) / "catalogues" / language).iterdir(), key=lambda x: x.name):
        for text_id, text in _flat(tomllib.loads(file.read_text(encoding="utf-8"))):
            # The later file would win without a word, by the order of file names.
            if text_id in texts:
                raise ValueError(f"two files of the catalogue {language!r} have a text for {text_id!r}")
            texts[text_id] = text
    return MappingProxyType(texts)  # all callers share it, so none may change it


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each entry of nested tables: the id is the path of keys, joined by dots."""
    for key, inner in document.items():
        if isinstance(inner, str):
            yield prefix + key, inner
        else:
            yield from _flat(inner, f"{prefix}{key}.")


def check_language(language: str, languages: Sequence[str] = LANGUAGES) -> None:
    """Raise ReleaseError if a language is not among some languages."""
    if language not in languages:
        raise ReleaseError(
            "unknown-language",
            f"The language is {language!r}.",
            "",
            f"Choose {', '.join(languages[:-1])} or {languages[-1]}.",
            "Nothing was written.",
            place="language",
        )


PEOPLE = "people."
"""The beginning of the id of a text for numbers of people; the text of the rest of the id is for numbers of records."""


def translator(language: str, *, typeset: bool = True, people: bool = False) -> Translator:
    """Return a language by its code; a message without a text in this language has its English text.

    Args:
        language: The code.
        typeset: As for :class:`Translator`.
        people: True if the counted records stand for one person each.

    Raises:
        ReleaseError: There is no catalogue of this language.
    """
    check_language(language)
    return _translator(language, typeset, people)


@cache
def _translator(language: str, typeset: bool, people: bool) -> Translator:
    """Return a language that has a catalogue: one object for equal arguments, in any of their forms."""
    texts = {**catalogue("en"), **catalogue(language)}
    if people:
        texts |= {x.removeprefix(PEOPLE): text for x, text in texts.items() if x.startswith(PEOPLE)}
    return Translator(language, MappingProxyType(texts), typeset)


def english(*messages: Message) -> str:
    """Return messages in English, with the characters of every terminal, separated by semicolons."""
    return "; ".join(map(translator("en", typeset=False).write, messages))


@final
class Notice(str):
    """The English text of a message, which it holds for other languages."""

    message: Message

    def __new__(cls, message: Message) -> Self:
        """Make the text of a message."""
        notice = super().__new__(cls, english(message))
        notice.message = message
        return notice


def map_messages(content: Any, write: Callable[[Message], Any]) -> Any:
    """Return a document with the result of a function in place of each message.

    Args:
        content: A plain value, a message, or lists and mappings of these.
        write: The function, such as :func:`document` or :func:`english`.
    """
    if isinstance(content, Message):
        return write(content)
    if isinstance(content, Mapping):
        return {key: map_messages(x, write) for key, x in content.items()}
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [map_messages(x, write) for x in content]
    return content


def statement(message: Message) -> dict[str, Any]:
    """Return a message as programs read it: its id, the values that its text names, and its text in English."""
    text = catalogue("en")[message.id]
    # Only the values that the text names: the others belong to other sentences of the same section.
    values = {v.key: map_messages(v.content, english) for v in message.values if f"{{{v.key}}}" in text}
    return {"id": message.id, "values": values, "text": english(message)}


def document(message: Message) -> dict[str, Any]:
    """Return a message as stored documents have it: its id, then its values by their keys, without a text."""
    # Stored without the text, so that a later version can say the same in better words or another language.
    return {"id": message.id, **{v.key: map_messages(v.content, document) for v in message.values}}
