"""The exported tables as their descriptions see them: file, columns with codes and labels, unit, confidence."""

from __future__ import annotations

import csv
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, final

from fitnoise.interfaces.pages.fragments import caption, exported_notes
from fitnoise.interfaces.wording import language_of, wording
from fitnoise.messages import Translator
from fitnoise.reading.bands import Bands
from fitnoise.reading.layouts import Tabled, TableLayout, publication_of, releases
from fitnoise.reading.release_files import field
from fitnoise.request.attributes import CODE, FROM, NAME, TO
from fitnoise.request.metadata import Metadata
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import Table, slug

COLUMN_DESCRIPTIONS = {
    "value": "page.export.value",
    "std_error": "page.export.std_error",
    "moe": "page.export.moe",
    "biased_value": "page.export.biased_value",
    "simulated_rmse": "page.export.simulated_rmse",
    "unbiased_value": "page.export.unbiased_value",
    "low": "page.export.low",
    "high": "page.export.high",
    "simulated_bias": "page.export.simulated_bias",
    "reliability": "page.export.reliability",
}
"""The ids of the descriptions of the columns of numbers."""

SURVEY_DESCRIPTIONS = {
    "noise_std_error": "page.export.noise_std_error",
    "sampling_std_error": "page.export.sampling_std_error",
    "std_error": "page.export.joint_std_error",
    "moe": "page.export.joint_moe",
    "cv": "page.export.cv",
}
"""The ids for the columns of numbers of a table with sampling errors, instead of those of other tables."""

FURTHER_DESCRIPTIONS = {
    CODE: "page.export.code",
    FROM: "page.export.from",
    TO: "page.export.to",
    NAME: "page.export.name",
}
"""The ids of the descriptions of the columns after labels, by the ending of their names."""

MARGINS = ("moe", "low", "high")
"""The columns that hold at the confidence of their table."""


@final
@dataclass(frozen=True)
class Column:
    """A column of an exported table.

    Attributes:
        name: Its name in the file.
        kind: Its type: "string", "integer" or "number".
        description: Its meaning in the language of the publication, for margins with the confidence; empty if the name
            says it all.
        values: The distinct labels or codes as programs read them; None for numbers.
        rows: The number of rows along its attribute.
        attribute: The attribute whose values it shows; None for numbers of the table.
    """

    name: str
    kind: str
    description: str
    values: tuple[Any, ...] | None
    rows: int
    attribute: str | None


@final
@dataclass(frozen=True, eq=False)
class Resource:
    """An exported table, with its CSV file.

    Attributes:
        name: The name of the table.
        path: The place of the file in the folder.
        size: The bytes of the file.
        digest: The SHA-256 of the file.
        rows: The number of rows.
        description: The meaning and the universe of the numbers, and their margins with the confidence.
        unit: The unit of the numbers.
        layout: The table as people read it.
        columns: The columns of the file.
        codes: For each attribute, code and label of every row that the table has along it.
        amounts: The attributes that are added up or averaged.
    """

    name: str
    path: str
    size: int
    digest: str
    rows: int
    description: str
    unit: str
    layout: TableLayout
    columns: tuple[Column, ...]
    codes: dict[str, tuple[tuple[str, str], ...]]
    amounts: tuple[str, ...]

    @property
    def dimensions(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """The codes of the attributes of the rows: without amounts, which are added up or averaged."""
        return {a: rows for a, rows in self.codes.items() if a not in self.amounts}

    @property
    def id(self) -> str:
        """The name as files have it."""
        return slug(self.name)


def resource(
    source: Tabled,
    table: TableLayout,
    columns: Iterable[str],
    raw: tuple[str, int, str],
    rows: int,
    bands: Bands | None,
) -> Resource:
    """Return the description of an exported table.

    Args:
        source: The release, or the tables made of releases.
        table: The table as people read it.
        columns: The names of the columns of its file.
        raw: Path, bytes and SHA-256 of its file.
        rows: The number of its rows.
        bands: The rule of reliability.
    """
    language, workload = own_language(source), publication_of(source, table.name).workload
    described = " ".join([caption(table, language), *exported_notes(table, language, source, bands)])
    stubs = zip(workload[table.name].labels(workload.domain), workload[table.name].stubs(workload.domain), strict=True)
    codes = {}
    for attribute, stub in stubs:
        labels = stub[attribute]
        pairs = (stub.get(f"{attribute}_{ending}", labels) for ending in (CODE, NAME))
        codes[attribute] = tuple((str(c), str(x)) for c, x in zip(*pairs, strict=True))
    path, size, digest = raw
    return Resource(
        name=table.name,
        path=path,
        size=size,
        digest=digest,
        rows=rows,
        description=described,
        unit=unit_of(workload[table.name], first_publication(source).metadata, language),
        layout=table,
        columns=tuple(_column(source, table, c, language) for c in columns),
        codes=codes,
        amounts=_amounts(workload[table.name]),
    )


def unit_of(table: Table, metadata: Metadata, language: Translator) -> str:
    """Return the unit of the numbers of a table, as stated in the metadata or, in a language, by the attributes."""
    units = [metadata.amount_units.get(a) or language.translate("page.unit.amount", name=a) for a in _amounts(table)]
    return " × ".join(units) or metadata.unit_of_measure or language.translate("page.table.records")


def _amounts(table: Table) -> tuple[str, ...]:
    """Return the attributes that a table adds up or averages."""
    return table.summed if table.averaged is None else table.averaged[:1]


def dataset_id(source: Tabled) -> str:
    """Return the identifier of an exported data set: of the ledger's entries, or of the plan without an entry."""
    return urn(*(r.plan.hash if r.entry is None else r.entry.digest for r in releases(source)))


def urn(*digests: str) -> str:
    """Return the URN of the releases with these digests of ledger entries."""
    return uuid.uuid5(uuid.NAMESPACE_URL, " ".join(("fitnoise", *digests))).urn


def first_publication(source: Tabled) -> Publication:
    """Return the publication whose metadata describe tables: that of the first release."""
    return releases(source)[0].plan.publication


def titles(source: Tabled, title: str) -> list[tuple[str, str]]:
    """Return a title with the language of the publication, and the titles in further languages with theirs."""
    publication = first_publication(source)
    further = [(x.title, tag) for tag, x in publication.translations.items() if x.title]
    return [(title, publication.language), *further]


def own_language(source: Tabled) -> Translator:
    """Return the language of a publication, with the names and labels of the releases in it; else English."""
    publication, publications = first_publication(source), [r.plan.publication for r in releases(source)]
    code = language_of(publication)
    # A publication in a language without catalogue has no names in English.
    return wording(code, publications if publication.language.split("-")[0] == code else [])


def further_languages(source: Tabled) -> dict[str, Translator]:
    """Return the further languages of a publication, each with the names and labels of the releases in it."""
    publication, publications = first_publication(source), [r.plan.publication for r in releases(source)]
    return {tag: wording(tag, publications) for tag in publication.translations if tag != publication.language}


def names(source: Tabled, name: str) -> list[tuple[str, str]]:
    """Return a name with the language of the publication, and its words in further languages, if they differ."""
    return _in_languages(source, lambda language: language.name(name))


def table_titles(source: Tabled, name: str) -> list[tuple[str, str]]:
    """Return the title of a table with the language of the publication, and further ones, if they differ."""
    return _in_languages(source, lambda language: language.table(name))


def _in_languages(source: Tabled, write: Callable[[Translator], str]) -> list[tuple[str, str]]:
    main = write(own_language(source))
    further = [(write(x), tag) for tag, x in further_languages(source).items()]
    return [(main, first_publication(source).language), *((text, tag) for text, tag in further if text != main)]


def texts(source: Tabled, key: str) -> list[tuple[Any, str]]:
    """Return a statement of the metadata in each language that has it, with the language."""
    by_language = first_publication(source).metadata_by_language
    return [(text, tag) for tag, metadata in by_language.items() if (text := getattr(metadata, key))]


def keywords(source: Tabled) -> list[tuple[str, str]]:
    """Return the words by which a publication is found, each with its language."""
    return [(word, tag) for listed, tag in texts(source, "keywords") for word in listed]


def descriptions(source: Tabled) -> list[tuple[str, str]]:
    """Return the descriptions that the metadata state, with their languages; without one, the protected units."""
    if stated := texts(source, "description"):
        return stated
    language = own_language(source)
    return [(protected(source, language), language.code)]


def protected(source: Tabled, language: Translator) -> str:
    """Return the description of a publication without one: the protected units."""
    units = dict.fromkeys(r.plan.publication.unit.name for r in releases(source))
    texts = (language.translate("page.protected.one_unit", unit=unit) for unit in units)
    return language.translate("page.export.described", units="; ".join(texts))


def _column(source: Tabled, table: TableLayout, name: str, language: Translator) -> Column:
    """Return the description of a column; for labels and codes, with those of the file."""
    if name in COLUMN_DESCRIPTIONS or (table.sampling is not None and name in SURVEY_DESCRIPTIONS):
        return Column(
            name, "string" if name == "reliability" else "number", _meaning(table, name, language), None, 0, None
        )
    workload = publication_of(source, table.name).workload
    query = workload[table.name]
    stubs = zip(query.labels(workload.domain), query.stubs(workload.domain), strict=True)
    attribute, column_values = next((a, stub[name]) for a, stub in stubs if name in stub)
    # `type` and not `isinstance`: True is an int of Python, and would be the number 1 in the description.
    kinds = {type(x) for x in column_values}
    kind = "integer" if kinds == {int} else "number" if kinds == {float} else "string"
    labels = [in_file(str(x)) if kind == "string" else x for x in column_values]
    column = None if query.matrix is not None else query.view(attribute).column()
    described = "" if column is None else language.write(column)
    if name != attribute:
        text_id = FURTHER_DESCRIPTIONS[name.removeprefix(f"{attribute}_")]
        described = language.translate(text_id, attribute=attribute)
    return Column(
        name, kind, described, None if kind == "number" else tuple(dict.fromkeys(labels)), len(labels), attribute
    )


def _meaning(table: TableLayout, name: str, language: Translator) -> str:
    """Return the description of a column of numbers; of a margin or the end of an interval, with the confidence."""
    if name == "value" and table.averaged is not None:
        return language.translate("page.export.mean", name=table.averaged)
    summed = " × ".join(map(language.name, table.summed))
    what, unit = language.translate("page.export.records"), language.translate("page.table.records")
    if summed:
        what, unit = (
            language.translate("page.table.sum", names=summed),
            language.translate("page.unit.amount", name=summed),
        )
    what = what if table.averaged is None else language.translate("page.table.mean", name=table.averaged)
    ids = COLUMN_DESCRIPTIONS if table.sampling is None else COLUMN_DESCRIPTIONS | SURVEY_DESCRIPTIONS
    text = language.translate(ids[name], what=what, unit=unit)
    if name not in MARGINS:
        return text
    confidence = language.format_digits(f"{table.confidence:.12g}")
    return language.translate("page.export.confidence", text=text, confidence=confidence)


def in_file(label: str) -> str:
    """Return a label as a program reads it from the CSV file."""
    # The file may put an apostrophe before a label. The description must list what a program finds there.
    return next(csv.reader([field(label)]))[0]
