"""Tables for other programs, by the ending of the name.

NAME.xlsx   a sheet for each table, as the report lays it out
NAME.tex    a longtable for each, to be put into a document
NAME        a folder: a CSV file for each, and datapackage.json, which says what its columns mean
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from fitnoise.errors import ReleaseError
from fitnoise.interfaces.exports.latex import latex
from fitnoise.interfaces.exports.packages import package
from fitnoise.interfaces.exports.workbooks import workbook
from fitnoise.interfaces.pages.words import words
from fitnoise.kernel.arguments import checked
from fitnoise.reading.bands import Bands
from fitnoise.reading.files import replace_file, write_texts
from fitnoise.reading.layouts import Tabled, layout, publication_of
from fitnoise.reading.release import Release
from fitnoise.reading.tables import Made
from fitnoise.request.workloads import some

MOST_NUMBERS = 1_000_000
"""Numbers that are written for other programs at once."""


@checked(ReleaseError, "No file was written.")
def export(
    what: Release | Made,
    path: str | os.PathLike[str],
    *,
    language: str = "en",
    bands: Bands | None = None,
    totals: bool = False,
    tables: str | Iterable[str] | None = None,
    licence: str | None = None,
) -> Path:
    """Write tables for other programs: a workbook, LaTeX, or a data package, by the ending of the name.

    Args:
        what: whose tables: of a release, whole ones, or a combination.
        path: where to: a name in .xlsx or .tex, or one without an ending, for the folder of a data package. There must
            be nothing there.
        language: of workbooks and of LaTeX, "en" or "de".
        bands: the rule by which numbers are called reliable, to be used with care, or too wide.
        totals: whether workbooks and LaTeX have sums over columns that are shown value by value.
        tables: names of those to write, or the name of one; default all.
        licence: of a data package, such as "CC-BY-4.0".

    Returns:
        The path.

    Raises:
        ReleaseError: another ending, no XlsxWriter, no such language or table, more than a million numbers, or a place
            that cannot be written.

    **Guarantees**
        * nothing in it depends on the data but the noisy answers, and it is the same whenever it is written;
        * numbers have 16 digits in workbooks, the decimals of the release's own files in data packages, and as many as
          their margins bear in LaTeX; a text is never a formula;
        * it is written whole or not at all.
    """
    place = Path(path)
    if place.suffix not in (".xlsx", ".tex", ""):
        raise ReleaseError(
            f"tables are written as .xlsx, as .tex, or as a data package, a folder without an ending; got "
            f"{place.name!r}. Nothing was written."
        )
    if place.exists():
        raise ReleaseError(f"{place.name!r} exists; choose another name. Nothing was written.")
    told, names = words(language), _names(what, tables)
    if not place.suffix:
        return write_texts(place, package(what, names, bands, licence), "the data package")
    laid = (layout(what, name, totals=totals, bands=bands) for name in names)
    write = workbook if place.suffix == ".xlsx" else latex
    replace_file(place, write(what, laid, told, bands))
    return place


def _names(what: Tabled, tables: str | Iterable[str] | None) -> list[str]:
    """The tables to write."""
    names = list(what) if tables is None else [tables] if isinstance(tables, str) else list(tables)
    if len(set(names)) < len(names):
        raise ReleaseError("a table to write is named twice. Nothing was written.")
    numbers = 0
    for name in names:
        if name not in what:
            raise ReleaseError(f"no table {name!r} to write; there are {some(list(what))}. Nothing was written.")
        workload = publication_of(what, name).workload
        numbers += math.prod(workload[name].shape(workload.domain))
        if numbers > MOST_NUMBERS:
            raise ReleaseError(
                f"at most {MOST_NUMBERS:,} numbers are written for other programs at once, and these tables have more; "
                "name fewer of them. Nothing was written."
            )
    return names
