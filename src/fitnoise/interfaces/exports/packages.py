"""Data packages: a CSV file for each table, and datapackage.json, which says what its columns mean (Frictionless).

If the specification has metadata, further files describe the package:

    dcat.jsonld         the entry for catalogues (DCAT-AP)
    csv-metadata.json   the columns (CSV on the Web)
    ddi.xml             the tables (DDI-Codebook)

On request the folder `sdmx` has the structure of the tables, and their numbers by code (SDMX).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fitnoise.interfaces.exports.catalogues import dcat, superseded
from fitnoise.interfaces.exports.csvw import csvw
from fitnoise.interfaces.exports.ddi import ddi
from fitnoise.interfaces.exports.resources import (
    Column,
    Resource,
    descriptions,
    first_publication,
    own_language,
    resource,
    table_titles,
)
from fitnoise.interfaces.exports.sdmx import Structure
from fitnoise.interfaces.pages.fragments import corrections, title
from fitnoise.kernel.arrays import Floats
from fitnoise.messages import english, map_messages
from fitnoise.reading.bands import Bands
from fitnoise.reading.description import charge
from fitnoise.reading.integer_tables import SIMULATED
from fitnoise.reading.layouts import Tabled, layout, releases, with_sampling
from fitnoise.reading.release_files import csv_text, to_json
from fitnoise.request.domain import RESERVED
from fitnoise.request.metadata import Metadata, is_url
from fitnoise.request.workloads import slug

MAX_LISTED_VALUES = 1_000
"""Values of a column that are listed in a data package."""


def package(
    source: Tabled,
    names: list[str],
    bands: Bands | None,
    licence: str | None,
    sampling: Mapping[str, Floats],
    *,
    sdmx: bool,
) -> Iterator[tuple[str, str]]:
    """Yield the files of a data package with their names; the descriptions of the tables come last."""
    publication = first_publication(source)
    metadata, name_of_all = publication.metadata, title(publication, own_language(source))
    structure = Structure(source, name_of_all) if sdmx else None
    resources: list[Resource] = []
    for name in names:
        csv_path, frame, errors = f"tables/{slug(name)}.csv", source[name], sampling.get(name)
        laid = layout(source, name, bands=bands, sampling=errors)
        if errors is not None:
            frame = with_sampling(source, name, errors)
        if bands is not None and not laid.biased:
            value = frame["value"].to_numpy()
            widths = frame["moe"] if "moe" in frame else np.maximum(frame["high"] - value, value - frame["low"])
            # A change can be far below 0 and still be reliable: its margin is compared with its size.
            size = np.abs(value) if laid.signed else value
            frame["reliability"] = np.array([x.value for x in bands.classify(size, widths.to_numpy())], dtype=object)
        for column in ("sampling_std_error", "cv") if errors is not None else ():
            # Empty without a sampling error, or for the coefficient of variation of 0.
            frame[column] = np.array(["" if np.isnan(x) else f"{x:.6f}" for x in frame[column]], dtype=object)
        # Integers stay integers in the file: with six decimals, readers would take them for estimates.
        fixed = SIMULATED if laid.is_integer else (*RESERVED, "low", "high", "noise_std_error")
        text = csv_text(frame, fixed=fixed)
        yield csv_path, text
        raw = text.encode()
        file = (csv_path, len(raw), hashlib.sha256(raw).hexdigest())
        resources.append(resource(source, laid, frame.columns, file, len(frame), bands))
        if structure is not None:
            yield structure.data(resources[-1], frame, fixed)
    if structure is not None:
        yield structure.message()
    if metadata != Metadata():
        yield "csv-metadata.json", to_json(csvw(source, name_of_all, resources))
        yield "dcat.jsonld", to_json(dcat(source, name_of_all, resources))
        yield "ddi.xml", ddi(source, name_of_all, resources)
    yield "datapackage.json", to_json(_descriptor(source, name_of_all, resources, licence))


def _descriptor(source: Tabled, title_text: str, resources: list[Resource], licence: str | None) -> dict[str, Any]:
    """Return the content of datapackage.json."""
    publications = [r.plan.publication for r in releases(source)]
    metadata = publications[0].metadata
    licence = licence or metadata.licence
    contributor = {"title": metadata.publisher, "role": "publisher", "email": metadata.contact_email}
    return {
        "profile": "tabular-data-package",
        "name": re.sub(r"[^a-z0-9._-]+", "-", slug(publications[0].title or "release").lower()) or "release",
        "title": title_text,
        "description": " ".join([descriptions(source)[0][0], *corrections(source, own_language(source))]),
        **({} if metadata.version is None else {"version": metadata.version}),
        **({"keywords": list(metadata.keywords)} if metadata.keywords else {}),
        **({} if licence is None else {"licenses": [{"path" if is_url(licence) else "name": licence}]}),
        **({} if metadata.publisher is None else {"contributors": [{k: x for k, x in contributor.items() if x}]}),
        "sources": [{"title": name} for name in dict.fromkeys(p.source.name for p in publications)],
        **_privacy(source),
        **({"supersedes": [x.document() for x in earlier]} if (earlier := superseded(source)) else {}),
        "resources": [
            {
                "name": re.sub(r"[^a-z0-9._-]", "-", x.id.lower()),
                "path": x.path,
                "profile": "tabular-data-resource",
                "title": table_titles(source, x.name)[0][0],
                "description": x.description,
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "bytes": x.size,
                "hash": f"sha256:{x.digest}",
                # Only the open ends of bins are empty, because no label is an empty text.
                "schema": {"fields": [_field(column) for column in x.columns], "missingValues": [""]},
            }
            for x in resources
        ],
    }


def _privacy(source: Tabled) -> dict[str, Any]:
    """Return the privacy charge; for several releases, a list with the charge of each."""
    charged = [{"plan": r.plan.hash, **map_messages(charge(r.plan), english)} for r in releases(source)]
    return {"privacy": charged[0]} if len(charged) == 1 else {"releases": charged}


def _field(column: Column) -> dict[str, Any]:
    """Return the description of a column; for labels and codes, with those of the file."""
    is_listed = column.values is not None and column.rows <= MAX_LISTED_VALUES
    return {
        "name": column.name,
        "type": column.kind,
        **({"description": column.description} if column.description else {}),
        **({"constraints": {"enum": list(column.values or ())}} if is_listed else {}),
    }
