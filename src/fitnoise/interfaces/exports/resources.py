"""The exported tables as their descriptions see them: file, columns with codes and labels, unit, confidence."""

from __future__ import annotations

import csv
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from fitnoise.interfaces.pages.fragments import caption, exported_notes
from fitnoise.interfaces.wording import wording
from fitnoise.messages import Translator, english, translator
from fitnoise.reading.bands import Bands
from fitnoise.reading.layouts import Tabled, TableLayout, publication_of, releases
from fitnoise.reading.release_files import field
from fitnoise.request.attributes import CODE, FROM, NAME, TO
from fitnoise.request.metadata import Metadata
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import Table, slug

COLUMN_DESCRIPTIONS = {
    "value": "Estimated {what}: unbiased, and therefore possibly negative or fractional.",
    "std_error": "Standard error of the value, in {unit}, of the noise alone.",
    "moe": "Margin of error, in {unit}: at the confidence the exact {what}, of values as they were read, is within it.",
    "biased_value": "Estimated number of records, biased, as some database of the size has them.",
    "simulated_rmse": "Error of the biased value as simulated on public databases: no margin belongs to it.",
    "unbiased_value": "Unbiased estimate of the number of records, of the same measurement.",
    "low": "Lower end of the interval for the exact {what}, of values as they were read, at the confidence.",
    "high": "Upper end of the interval for the exact {what}, of values as they were read, at the confidence.",
    "simulated_bias": "By how much such a number is too large on average, in records, simulated without data.",
    "reliability": "Reliability class of the value, from its margin by the publisher's rule.",
}
"""Descriptions of the columns of numbers."""

SURVEY_DESCRIPTIONS = {
    "noise_std_error": "Standard error of the noise, in {unit}.",
    "sampling_std_error": "Standard error of sampling as given, in {unit}; empty where none is given.",
    "std_error": "Standard error, in {unit}, of noise and sampling; where no sampling error is given, of the noise.",
    "moe": "Margin of error, in {unit}, of noise and sampling; where no sampling error is given, of the noise alone.",
    "cv": "Coefficient of variation of noise and sampling error; empty where no sampling error is given, and for 0.",
}
"""Descriptions of the columns of numbers of a table with sampling errors, instead of those of other tables."""

FURTHER_DESCRIPTIONS = {
    CODE: "Code of {attribute} in the data; of a category for missing values, its name.",
    FROM: "Lower end of the bin of {attribute}, which belongs to the bin; empty if the bin has no lower end.",
    TO: "Upper end of the bin of {attribute}, which belongs to the next bin; empty if the bin has no upper end.",
    NAME: "Name of the place of {attribute}.",
}
"""Descriptions of the columns after labels, by the ending of their names."""

MARGINS = ("moe", "low", "high")
"""The columns that hold at the confidence of their table."""

MEAN_DESCRIPTION = "Estimated mean of {name}: a sum by a count, both noisy, and as a ratio not quite unbiased."
"""Description of the values of means."""


@final
@dataclass(frozen=True)
class Column:
    """A column of an exported table.

    Attributes:
        name: Its name in the file.
        kind: Its type: "string", "integer" or "number".
        description: Its meaning; empty if the name says it all.
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

    def meaning(self, confidence: float) -> str:
        """Return the description, for margins and ends of intervals with the confidence of the table."""
        is_margin = self.name in MARGINS
        return f"{self.description} Confidence: {confidence:.12g}." if is_margin else self.description


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
    language, workload = translator("en"), publication_of(source, table.name).workload
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
        columns=tuple(_column(source, table, c) for c in columns),
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


def further_languages(source: Tabled) -> dict[str, Translator]:
    """Return the further languages of a publication, each with the names and labels of the releases in it."""
    publication, publications = first_publication(source), [r.plan.publication for r in releases(source)]
    return {tag: wording(tag, publications) for tag in publication.translations if tag != publication.language}


def names(source: Tabled, name: str) -> list[tuple[str, str]]:
    """Return a name with the language of the publication, and its words in further languages, if they differ."""
    further = [(x.name(name), tag) for tag, x in further_languages(source).items()]
    return [(name, first_publication(source).language), *((text, tag) for text, tag in further if text != name)]


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
    publications = [r.plan.publication for r in releases(source)]
    units = "; ".join(dict.fromkeys(p.unit.describe() for p in publications))
    return [(f"Statistics with differential privacy; protected: {units}.", "en")]


def _column(source: Tabled, table: TableLayout, name: str) -> Column:
    """Return the description of a column; for labels and codes, with those of the file."""
    if name in COLUMN_DESCRIPTIONS or (table.sampling is not None and name in SURVEY_DESCRIPTIONS):
        return Column(name, "string" if name == "reliability" else "number", _meaning(table, name), None, 0, None)
    workload = publication_of(source, table.name).workload
    query = workload[table.name]
    stubs = zip(query.labels(workload.domain), query.stubs(workload.domain), strict=True)
    attribute, column_values = next((a, stub[name]) for a, stub in stubs if name in stub)
    # `type` and not `isinstance`: True is an int of Python, and would be the number 1 in the description.
    kinds = {type(x) for x in column_values}
    kind = "integer" if kinds == {int} else "number" if kinds == {float} else "string"
    labels = [in_file(str(x)) if kind == "string" else x for x in column_values]
    column = None if query.matrix is not None else query.view(attribute).column()
    described = "" if column is None else english(column)
    if name != attribute:
        described = FURTHER_DESCRIPTIONS[name.removeprefix(f"{attribute}_")].format(attribute=attribute)
    return Column(
        name, kind, described, None if kind == "number" else tuple(dict.fromkeys(labels)), len(labels), attribute
    )


def _meaning(table: TableLayout, name: str) -> str:
    """Return the description of a column of numbers."""
    if name == "value" and table.averaged is not None:
        return MEAN_DESCRIPTION.format(name=table.averaged)
    summed = " × ".join(table.summed)
    what, unit = (f"sum of {summed}", f"units of {summed}") if summed else ("number of records", "records")
    what = what if table.averaged is None else f"mean of {table.averaged}"
    texts = COLUMN_DESCRIPTIONS if table.sampling is None else COLUMN_DESCRIPTIONS | SURVEY_DESCRIPTIONS
    return texts[name].format(what=what, unit=unit)


def in_file(label: str) -> str:
    """Return a label as a program reads it from the CSV file."""
    # The file may put an apostrophe before a label. The description must list what a program finds there.
    return next(csv.reader([field(label)]))[0]
