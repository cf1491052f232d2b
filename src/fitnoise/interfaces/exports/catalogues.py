"""Descriptions of a publication for catalogues, as JSON-LD: schema.org for search engines, DCAT-AP for data portals.

Each has its vocabulary in the document, or names that of schema.org: neither is fetched. Without a web address, the
data set is named by a URN made of plans and ledger entries; files are named relative to the document.

Source: the classes Dataset and Distribution of DCAT-AP 3.0, with their mandatory and recommended properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from fitnoise.interfaces.exports.resources import (
    Resource,
    dataset_id,
    descriptions,
    first_publication,
    keywords,
    own_language,
    protected,
    table_titles,
    texts,
    titles,
    unit_of,
    urn,
)
from fitnoise.messages import Translator
from fitnoise.reading.description import Superseded
from fitnoise.reading.layouts import Tabled, publication_of, releases
from fitnoise.request.metadata import is_url
from fitnoise.request.workloads import Table

MAX_VARIABLES = 100
"""The largest number of tables that a description for search engines names; of more, the first."""

_CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
"""The vocabularies of DCAT-AP, by their usual prefixes."""

_AUTHORITY = "http://publications.europa.eu/resource/authority"


def schema_org(source: Tabled, title: str, language: Translator) -> dict[str, Any]:
    """Return the description of a publication as a Dataset of schema.org, with the publisher's texts in a language."""
    publication = first_publication(source)
    metadata = publication.metadata_in(language.code)
    contact = {"@type": "ContactPoint", "name": metadata.contact, "email": metadata.contact_email}
    office = {"@type": "Organization", "name": metadata.publisher or metadata.contact, "contactPoint": _stated(contact)}
    is_named = any((metadata.publisher, metadata.contact, metadata.contact_email))
    region = metadata.geography
    return _stated(
        {
            "@context": "https://schema.org/",
            "@type": "Dataset",
            "name": title,
            "description": metadata.description or protected(source, language),
            "identifier": dataset_id(source),
            # Title and description are in the language of the page only if the publication states them in it.
            "inLanguage": language.code if language.code in publication.translations else publication.language,
            "version": metadata.version,
            "keywords": list(metadata.keywords),
            "license": metadata.licence_url,
            "creator": _stated(office) if is_named else None,
            "temporalCoverage": None if metadata.days is None else "/".join(d.isoformat() for d in metadata.days),
            "spatialCoverage": None
            if region is None
            else {"@type": "Place", **({"@id": region} if is_url(region) else {"name": region})},
            "measurementTechnique": [x for x in (metadata.methodology, *_noise(source, language)) if x],
            "correction": [x.reason for x in superseded(source)],
            "variableMeasured": [
                {
                    "@type": "PropertyValue",
                    "name": language.table(name),
                    "unitText": unit_of(_table(source, name), metadata, language),
                }
                for name in islice(source, MAX_VARIABLES)
            ],
        }
    )


def dcat(source: Tabled, title: str, resources: Sequence[Resource]) -> dict[str, Any]:
    """Return the description of a data package as a Dataset of DCAT-AP with a Distribution for each table."""
    publication = first_publication(source)
    metadata, main = publication.metadata, own_language(source)

    def text(value: str, language: str = publication.language) -> dict[str, str]:
        return tagged([(value, language)])[0]

    def nodes(kind: str, label: str, stated: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Return a node for each URL, and one that has the texts of all languages."""
        labels = tagged([x for x in stated if not is_url(x[0])])
        urls = [{"@type": kind, "@id": x} for x, _ in stated if is_url(x)]
        return [*urls, *([{"@type": kind, label: labels}] if labels else [])]

    publishers = texts(source, "publisher")
    contact = {
        "@type": ["vcard:Kind", "vcard:Organization"],
        "vcard:fn": tagged(texts(source, "contact") or publishers),
        "vcard:hasEmail": None if metadata.contact_email is None else {"@id": f"mailto:{metadata.contact_email}"},
    }
    licence = None if metadata.licence_url is None else {"@id": metadata.licence_url, "@type": "dct:LicenseDocument"}
    dataset = {
        "@id": dataset_id(source),
        "@type": "dcat:Dataset",
        "dct:title": tagged(titles(source, title)),
        "dct:description": tagged(descriptions(source)),
        "dct:identifier": dataset_id(source),
        "dcat:version": metadata.version,
        "dct:replaces": [{"@id": urn(x.entry.digest)} for x in superseded(source)],
        "adms:versionNotes": [text(x.reason) for x in superseded(source)],
        "dcat:keyword": tagged(keywords(source)),
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": tagged(publishers)} if publishers else None,
        "dcat:contactPoint": _stated(contact) if metadata.contact or metadata.contact_email else None,
        "dct:temporal": None
        if metadata.days is None
        else {
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": {"@value": metadata.days[0].isoformat(), "@type": "xsd:date"},
            "dcat:endDate": {"@value": metadata.days[1].isoformat(), "@type": "xsd:date"},
        },
        "dct:spatial": nodes("dct:Location", "skos:prefLabel", texts(source, "geography")),
        "dct:accessRights": {"@id": f"{_AUTHORITY}/access-right/PUBLIC", "@type": "dct:RightsStatement"},
        "dct:provenance": [
            node
            for stated in (texts(source, "methodology"), *([(x, main.code)] for x in _noise(source, main)))
            for node in nodes("dct:ProvenanceStatement", "rdfs:label", stated)
        ],
        "dcat:distribution": [
            _stated(
                {
                    "@type": "dcat:Distribution",
                    "dct:title": tagged(table_titles(source, x.name)),
                    "dct:description": text(x.description, main.code),
                    "dcat:accessURL": {"@id": x.path, "@type": "rdfs:Resource"},
                    "dcat:downloadURL": {"@id": x.path},
                    "dct:format": {"@id": f"{_AUTHORITY}/file-type/CSV", "@type": "dct:MediaTypeOrExtent"},
                    "dcat:mediaType": {
                        "@id": "https://www.iana.org/assignments/media-types/text/csv",
                        "@type": "dct:MediaType",
                    },
                    "dcat:byteSize": {"@value": str(x.size), "@type": "xsd:nonNegativeInteger"},
                    "spdx:checksum": {
                        "@type": "spdx:Checksum",
                        "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256", "@type": "spdx:ChecksumAlgorithm"},
                        "spdx:checksumValue": {"@value": x.digest, "@type": "xsd:hexBinary"},
                    },
                    "dct:license": licence,
                }
            )
            for x in resources
        ],
    }
    return {"@context": _CONTEXT, **_stated(dataset)}


def tagged(stated: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return texts with their languages as JSON-LD has them."""
    return [{"@value": text, "@language": language} for text, language in stated]


def superseded(source: Tabled) -> tuple[Superseded, ...]:
    """Return the earlier releases that the releases of some tables supersede, the newest first."""
    return tuple(x for r in releases(source) for x in r.supersedes)


def _table(source: Tabled, name: str) -> Table:
    return publication_of(source, name).workload[name]


def methods(source: Tabled) -> list[tuple[str, str]]:
    """Return the statements about the method, with their languages: that of the publisher, then those of fitnoise."""
    main = own_language(source)
    return [*texts(source, "methodology"), *((x, main.code) for x in _noise(source, main))]


def _noise(source: Tabled, language: Translator) -> list[str]:
    """Return fitnoise's own statement about the method, for each release."""
    return [language.translate("page.export.method", plan=r.plan.hash) for r in releases(source)]


def _stated(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without absent properties."""
    return {key: x for key, x in document.items() if x is not None and x not in ([], {})}
