"""Data packages: a CSV file for each table, and datapackage.json, which says what its columns mean (Frictionless)."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from fitnoise.interfaces.pages.fragments import caption, notes, title
from fitnoise.messages import english, map_messages, translator
from fitnoise.reading.bands import Bands
from fitnoise.reading.description import charge
from fitnoise.reading.integer_tables import SIMULATED
from fitnoise.reading.layouts import Tabled, TableLayout, layout, publication_of, releases
from fitnoise.reading.release_files import csv_text, field, to_json
from fitnoise.request.attributes import CODE, FROM, TO
from fitnoise.request.domain import RESERVED
from fitnoise.request.workloads import slug

MAX_LISTED_VALUES = 1_000
"""Values of a column that are listed in a data package."""

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

FURTHER_DESCRIPTIONS = {
    CODE: "Code of {attribute} in the data; of a category for missing values, its name.",
    FROM: "Lower end of the bin of {attribute}, which belongs to the bin; empty if the bin has no lower end.",
    TO: "Upper end of the bin of {attribute}, which belongs to the next bin; empty if the bin has no upper end.",
}
"""Descriptions of the columns after labels, by the ending of their names."""

MEAN_DESCRIPTION = "Estimated mean of {name}: a sum by a count, both noisy, and as a ratio not quite unbiased."
"""Description of the values of means."""


def package(source: Tabled, names: list[str], bands: Bands | None, licence: str | None) -> Iterator[tuple[str, str]]:
    """Yield the files of a data package with their names; the descriptor of the others comes last."""
    publications = [r.plan.publication for r in releases(source)]
    publication, english, resources = publications[0], translator("en"), []
    units = "; ".join(dict.fromkeys(p.unit.describe() for p in publications))
    for name in names:
        csv_path, frame, laid = f"tables/{slug(name)}.csv", source[name], layout(source, name, bands=bands)
        if bands is not None and not laid.biased:
            value = frame["value"].to_numpy()
            widths = frame["moe"] if "moe" in frame else np.maximum(frame["high"] - value, value - frame["low"])
            # A change can be far below 0 and still be reliable: its margin is compared with its size.
            size = np.abs(value) if laid.signed else value
            frame["reliability"] = np.array([x.value for x in bands.classify(size, widths.to_numpy())], dtype=object)
        # Integers stay integers in the file: with six decimals, readers would take them for estimates.
        text = csv_text(frame, fixed=SIMULATED if laid.is_integer else (*RESERVED, "low", "high"))
        yield csv_path, text
        described = " ".join([caption(laid, english), *notes(laid, english, source, bands)])
        resources.append(
            {
                "name": re.sub(r"[^a-z0-9._-]", "-", slug(name).lower()),
                "path": csv_path,
                "profile": "tabular-data-resource",
                "title": name,
                "description": described,
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "bytes": len(text.encode()),
                "hash": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
                # Only the open ends of bins are empty, because no label is an empty text.
                "schema": {"fields": [_field(source, laid, c) for c in frame.columns], "missingValues": [""]},
            }
        )
    document = {
        "profile": "tabular-data-package",
        "name": re.sub(r"[^a-z0-9._-]+", "-", slug(publication.title or "release").lower()) or "release",
        "title": title(publication, english),
        "description": f"Statistics with differential privacy; protected: {units}.",
        **({} if licence is None else {"licenses": [{"name": licence}]}),
        "sources": [{"title": name} for name in dict.fromkeys(p.source.name for p in publications)],
        **_privacy(source),
        "resources": resources,
    }
    yield "datapackage.json", to_json(document)


def _privacy(source: Tabled) -> dict[str, Any]:
    """Return the privacy charge; for several releases, a list with the charge of each."""
    charged = [{"plan": r.plan.hash, **map_messages(charge(r.plan), english)} for r in releases(source)]
    return {"privacy": charged[0]} if len(charged) == 1 else {"releases": charged}


def _field(source: Tabled, table: TableLayout, name: str) -> dict[str, Any]:
    """Return the description of a column; for labels and codes, with those of the file."""
    if name in COLUMN_DESCRIPTIONS:
        kind = "string" if name == "reliability" else "number"
        return {"name": name, "type": kind, "description": _meaning(table, name)}
    workload = publication_of(source, table.name).workload
    query = workload[table.name]
    stubs = zip(query.labels(workload.domain), query.stubs(workload.domain), strict=True)
    attribute, column_values = next((a, stub[name]) for a, stub in stubs if name in stub)
    # `type` and not `isinstance`: True is an int of Python, and would be the number 1 in the description.
    kinds = {type(x) for x in column_values}
    kind = "integer" if kinds == {int} else "number" if kinds == {float} else "string"
    labels = [_in_file(str(x)) if kind == "string" else x for x in column_values]
    column = None if query.matrix is not None else query.view(attribute).column()
    described = "" if column is None else english(column)
    if name != attribute:
        described = FURTHER_DESCRIPTIONS[name.removeprefix(f"{attribute}_")].format(attribute=attribute)
    is_listed = kind != "number" and len(labels) <= MAX_LISTED_VALUES
    return {
        "name": name,
        "type": kind,
        **({"description": described} if described else {}),
        **({"constraints": {"enum": list(dict.fromkeys(labels))}} if is_listed else {}),
    }


def _meaning(table: TableLayout, name: str) -> str:
    """Return the description of a column of numbers."""
    if name == "value" and table.averaged is not None:
        return MEAN_DESCRIPTION.format(name=table.averaged)
    summed = " × ".join(table.summed)
    what, unit = (f"sum of {summed}", f"units of {summed}") if summed else ("number of records", "records")
    what = what if table.averaged is None else f"mean of {table.averaged}"
    return COLUMN_DESCRIPTIONS[name].format(what=what, unit=unit)


def _in_file(label: str) -> str:
    """Return a label as a program reads it from the CSV file."""
    # The file may put an apostrophe before a label. The description must list what a program finds there.
    return next(csv.reader([field(label)]))[0]
