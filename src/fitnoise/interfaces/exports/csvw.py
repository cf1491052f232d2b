"""Descriptions of the CSV files of a data package as CSV on the Web: csv-metadata.json.

Source: Metadata Vocabulary for Tabular Data, W3C Recommendation of 17 December 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fitnoise.interfaces.exports.catalogues import tagged
from fitnoise.interfaces.exports.resources import (
    Column,
    Resource,
    dataset_id,
    descriptions,
    first_publication,
    keywords,
    own_language,
    table_titles,
    texts,
    titles,
)
from fitnoise.reading.layouts import Tabled
from fitnoise.request.attributes import CODE

_TYPES = {"string": "string", "integer": "integer", "number": "decimal"}
"""The data types of CSV on the Web, for the kinds of columns."""


def csvw(source: Tabled, title: str, resources: Sequence[Resource]) -> dict[str, Any]:
    """Return the group of the tables of a data package."""
    publication = first_publication(source)
    metadata = publication.metadata
    days = None if metadata.days is None else "/".join(d.isoformat() for d in metadata.days)
    stated = {
        "dc:publisher": tagged(texts(source, "publisher")),
        "dc:license": None if metadata.licence_url is None else {"@id": metadata.licence_url},
        "dc:temporal": days,
        "dc:spatial": tagged(texts(source, "geography")),
        "dc:subject": tagged(keywords(source)),
        "dc:hasVersion": metadata.version,
    }
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": publication.language}],
        "dc:title": tagged(titles(source, title)),
        "dc:description": tagged(descriptions(source)),
        "dc:identifier": dataset_id(source),
        **{key: x for key, x in stated.items() if x},
        "tables": [_table(source, x) for x in resources],
    }


def _table(source: Tabled, x: Resource) -> dict[str, Any]:
    # Two values can have one label, but no two have one code.
    columns = [c.name for c in x.columns]
    keys = [f"{a}_{CODE}" if f"{a}_{CODE}" in columns else a for a in x.dimensions]
    language = own_language(source)
    schema = {
        "columns": [_column(c, language.code) for c in x.columns],
        **({"primaryKey": [_name(k) for k in keys]} if keys else {}),
    }
    described = tagged([(language.translate("page.export.unit", text=x.description, unit=x.unit), language.code)])[0]
    return {
        "url": x.path,
        "dc:title": tagged(table_titles(source, x.name)),
        "dc:description": described,
        "tableSchema": schema,
    }


def _column(column: Column, language: str) -> dict[str, Any]:
    """Return the description of a column; `titles` is its name in the file."""
    described = {"dc:description": tagged([(column.description, language)])[0]} if column.description else {}
    return {"name": _name(column.name), "titles": column.name, "datatype": _TYPES[column.kind], **described}


def _name(column: str) -> str:
    """Return the name of a column as a variable of a URI template: other signs than letters, digits and _ with %."""
    return quote(column, safe="").replace("~", "%7E").replace("-", "%2D").replace(".", "%2E").lstrip("_") or "%5F"
