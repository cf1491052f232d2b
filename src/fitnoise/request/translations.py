"""The texts of a publication in further languages: for readers only, so no number and no hash of a plan has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from fitnoise.errors import SpecError
from fitnoise.kernel.codings import encodable
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.messages import LANGUAGES
from fitnoise.request.arguments import refuse_unless_fields_fit
from fitnoise.request.attributes import NAME, Attribute
from fitnoise.request.by_language import all_texts, by_language, check_tag, further_texts
from fitnoise.request.metadata import TEXTS, Metadata


@final
@dataclass(frozen=True)
class Translation:
    """The texts of a publication in one language, for readers.

    Codes, and the labels and names of the publication itself, identify values and tables; these texts do not.

    Args:
        title: The title; empty for the title of the publication.
        labels: For categorical attributes, one label for each code, in the order of the codes. For levels of places,
            one name for each place, in the order of tables.
        names: Other words for names that the publication has: of attributes and levels, tables, questions, units, the
            source, groups, and categories for missing values.
        metadata: The statements :data:`~fitnoise.request.metadata.TEXTS` that readers read, where they differ.

    Raises:
        SpecError: A text is empty or UTF-8 cannot write it, or an argument has another class.
    """

    title: str = ""
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        labels = FixedMapping({name: tuple(texts) for name, texts in self.labels.items()})
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "names", FixedMapping(dict(self.names)))
        for text in (*self.names.values(), *(text for texts in labels.values() for text in texts)):
            if not isinstance(text, str) or not text.strip() or not encodable(text):
                raise SpecError(
                    "translated-text-invalid",
                    f"A label or a name in a further language is {text!r}.",
                    "It must be a non-empty text that UTF-8 can write.",
                    "Give such a text.",
                    "No plan was made.",
                )

    def document(self) -> dict[str, Any]:
        """Return the texts as plain JSON values, without empty parts."""
        labels = {name: list(texts) for name, texts in self.labels.items()}
        metadata = self.metadata.document()
        parts = {"title": self.title, "labels": labels, "names": dict(self.names), "metadata": metadata}
        return {key: part for key, part in parts.items() if part}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Translation:
        """Return the texts that :meth:`document` wrote.

        Args:
            document: The texts by key, as plans hold them.
        """
        return cls(**{**document, "metadata": Metadata(**document.get("metadata", {}))})


def check_translations(
    main: str,
    translations: Mapping[str, Translation],
    attributes: Mapping[str, Attribute],
    names: Mapping[str, Iterable[str]],
    metadata: Metadata,
) -> None:
    """Raise SpecError for an invalid language, and for texts that do not fit a publication.

    The language of the publication itself may be any. A further language needs texts of reports.

    Args:
        main: The language of the publication.
        translations: The texts by language.
        attributes: The attributes of the domain.
        names: The names of the publication, by kind; names of one kind stand next to each other on pages.
        metadata: The metadata in the language of the publication.
    """
    check_tag(main, "language")
    names_by_kind = {kind: set(listed) for kind, listed in names.items()}
    for language, texts in translations.items():
        check_tag(language, "language")
        if language == main and (texts.title or texts.labels or texts.metadata != Metadata()):
            raise SpecError(
                "translation-into-own-language",
                f"The publication is in {language!r}, and has another title, labels or metadata in {language!r}.",
                "Only names have other words in this language.",
                "State title, labels and metadata once.",
                "No plan was made.",
                place="language",
            )
        if language not in (*LANGUAGES, main):
            raise SpecError(
                "language-without-reports",
                f"Texts are given in {language!r}.",
                f"Reports are in {', '.join(LANGUAGES)}. Only the language of the publication itself may be another.",
                f"Write {base!r}."
                if (base := language.split("-")[0]) in LANGUAGES
                else f"Remove these texts, or set language = {language!r} if it is the language of the publication.",
                "No plan was made.",
                place="language",
            )
        _check_names(language, texts.names, names_by_kind)
        _check_metadata(language, metadata, texts.metadata)
        for name, labels in texts.labels.items():
            _check_labels(language, name, attributes.get(name), labels)


def _check_labels(language: str, name: str, attribute: Attribute | None, labels: Sequence[str]) -> None:
    """Raise SpecError unless there is one label for each code, and equal ones exactly where the main ones are equal.

    Names of places need only be one for each place: codes distinguish places.
    """
    key = f"domain.{name}.labels"
    place_names = () if attribute is None else attribute.further_columns.get(NAME, ())
    main = getattr(attribute, "labels", None) or place_names  # only categorical attributes have labels
    if attribute is None or not main:
        raise SpecError(
            "translated-labels-of-no-codes",
            f"Labels in {language!r} are given for {name!r}, which is no categorical attribute with labels.",
            "Labels in a further language stand for labels of the publication itself, or for its names of places.",
            "Give the attribute labels in the language of the publication, too, or remove these.",
            "No plan was made.",
            place=key,
        )
    if len(labels) != len(main):
        raise SpecError(
            "translated-labels-misfit",
            f"The attribute {name!r} has {len(main)} codes and {len(labels)} labels in {language!r}.",
            "Each code needs one label in each language.",
            "Give as many labels as codes, in the same order.",
            "No plan was made.",
            place=key,
        )
    if place_names:
        return
    pairs = set(zip(main, labels, strict=True))
    counts = (Counter(pair[i] for pair in pairs) for i in (0, 1))
    twice = next((text for count in counts for text, n in count.items() if n > 1), None)
    if twice is not None:
        raise SpecError(
            "translated-label-twice",
            f"The label {twice!r} of {name!r} does not have exactly one counterpart in {language!r}.",
            "Values have the same label in one language if and only if they have the same label in every other.",
            "Give different values different labels.",
            "No plan was made.",
            place=key,
        )
    codes = attribute.declared()["codes"]
    own_codes = set(codes)
    for code, label in zip(codes, labels, strict=True):
        # A table would show the number of one value under the code of another.
        if label != code and label in own_codes:
            raise SpecError(
                "translated-label-of-another-code",
                f"The label {label!r} of {name!r} in {language!r} is the code of another value.",
                "A label that is also a code must be the label of that code.",
                "Give the value another label.",
                "No plan was made.",
                place=key,
            )


def _check_names(language: str, translated: Mapping[str, str], names_by_kind: Mapping[str, set[str]]) -> None:
    """Raise SpecError for an unknown name, a name without a letter, and one word for two names of a kind."""
    key = f"names.{language}"
    for name in translated:
        # A number on a page must never be taken for a name.
        if not any(c.isalpha() for c in name) or not any(name in names for names in names_by_kind.values()):
            raise SpecError(
                "translated-name-unknown",
                f"Another word for the name {name!r} is given in {language!r}.",
                "The publication has no such name with a letter: of an attribute, a level, a table, a question, a unit,"
                " the source, a group or a category for missing values.",
                "Correct the name, or remove it.",
                "No plan was made.",
                place=key,
            )
    for names in names_by_kind.values():
        counts = Counter(translated.get(name, name) for name in names)
        twice = next((word for word, n in counts.items() if n > 1), None)
        if twice is not None:
            raise SpecError(
                "translated-name-twice",
                f"Two names are {twice!r} in {language!r}.",
                "Readers must be able to distinguish them.",
                "Give one of them another word.",
                "No plan was made.",
                place=key,
            )


def _check_metadata(language: str, main: Metadata, further: Metadata) -> None:
    """Raise SpecError for a statement in a further language that is not for readers, or that the main one lacks."""
    for key, stated in further.document().items():
        is_stated = stated.keys() <= main.amount_units.keys() if key == "amount_units" else getattr(main, key)
        if key not in TEXTS or not is_stated:
            raise SpecError(
                "translated-metadata-misfit",
                f"The metadata state {key} in {language!r}.",
                f"A further language has only these texts: {', '.join(TEXTS)}. The language of the publication must"
                " state them, too.",
                "State the key in the language of the publication, or remove it.",
                "No plan was made.",
                place=f"metadata.{key}",
            )


def metadata_by_language(stated: Mapping[str, Any], language: str) -> dict[str, Metadata]:
    """Return the metadata of the main language, and then those of each further one.

    Args:
        stated: The table [metadata], with texts or texts by language.
        language: The main language.

    Raises:
        SpecError: A text is empty or invalid, or texts lack the main language.
    """

    def chosen(tag: str, parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return {key: texts[tag] for key, texts in parts.items() if tag in texts}

    parts = {key: all_texts(x, language, key) for key, x in stated.items() if key != "amount_units"}
    units = {name: all_texts(x, language, "amount_units") for name, x in stated["amount_units"].items()}
    tags = dict.fromkeys([language, *(tag for texts in (*parts.values(), *units.values()) for tag in texts)])
    return {tag: Metadata(**chosen(tag, parts), amount_units=chosen(tag, units)) for tag in tags}


def metadata_document(language: str, main: Metadata, further: Mapping[str, Metadata]) -> dict[str, Any]:
    """Return the table [metadata] with texts in all languages; the opposite of :func:`metadata_by_language`."""
    documents = {tag: x.document() for tag, x in further.items()}

    def joined(parts: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return {
            key: by_language(language, x, {tag: other[key] for tag, other in others.items() if key in other})
            for key, x in parts.items()
        }

    units = joined(main.amount_units, {tag: x.pop("amount_units", {}) for tag, x in documents.items()})
    return joined(main.document(), documents) | {"amount_units": units}


def translations_of(
    language: str,
    title: Any,
    labels: Mapping[str, Mapping[str, Sequence[str]]],
    names: Mapping[str, Mapping[str, str]],
    metadata: Mapping[str, Metadata],
) -> dict[str, Translation]:
    """Return the texts by language, from texts by what they are for.

    Args:
        language: The main language.
        title: The title, or titles by language.
        labels: The labels by attribute and the names of places by level, for each further language.
        names: The words for names, by language.
        metadata: The metadata in further languages.
    """
    titles = further_texts(title, language)
    tags = dict.fromkeys([*titles, *labels, *names, *metadata])
    return {
        tag: Translation(titles.get(tag, ""), labels.get(tag, {}), names.get(tag, {}), metadata.get(tag, Metadata()))
        for tag in tags
    }


def languages_document(language: str, translations: Mapping[str, Translation]) -> dict[str, Any]:
    """Return the language of a publication with the texts in further languages, as a plan has them."""
    return {"main": language, "further": {tag: texts.document() for tag, texts in translations.items()}}
