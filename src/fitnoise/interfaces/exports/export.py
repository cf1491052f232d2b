"""Tables for other programs, by the ending of the name.

NAME.xlsx   a sheet for each table, as the report lays it out
NAME.tex    a longtable for each, to be put into a document
NAME        a folder: a CSV file for each, and datapackage.json, which says what its columns mean

With each goes a manifest (:mod:`fitnoise.interfaces.exports.manifests`), by which it can be verified.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.interfaces.exports.latex import latex
from fitnoise.interfaces.exports.manifests import IN_FOLDER, check_export, manifest, manifest_place, versions_for
from fitnoise.interfaces.exports.packages import package
from fitnoise.interfaces.exports.workbooks import workbook
from fitnoise.interfaces.wording import language_of, wording
from fitnoise.messages import Translator
from fitnoise.planning.files import replace_file
from fitnoise.reading.bands import Bands
from fitnoise.reading.derived_tables import DerivedTables
from fitnoise.reading.layouts import Tabled, TableLayout, layout, publication_of, releases
from fitnoise.reading.refusals import UNWRITTEN, repeated_table, too_many_numbers, unknown_table
from fitnoise.reading.release import Release
from fitnoise.reading.release_files import check_new_file, check_new_folder, write_texts
from fitnoise.reading.table_sampling import ListedErrors, list_errors, listed_arrays
from fitnoise.reading.verification import Verification, checks_of_files
from fitnoise.request.arguments import checked
from fitnoise.request.metadata import NEEDED_LICENCE, is_licence

FORMATS: Mapping[str, Callable[[Tabled, Iterable[TableLayout], Translator, Bands | None], bytes]] = MappingProxyType(
    {".xlsx": workbook, ".tex": latex}
)
"""The writers of one file, by the ending of its name; a name without an ending is the folder of a data package."""

MAX_EXPORTED_NUMBERS = 1_000_000
"""Numbers that are written for other programs at once."""


@checked(ReleaseError, "No file was written.")
def export(
    what: Release | DerivedTables,
    path: str | os.PathLike[str],
    *,
    language: str | None = None,
    bands: Bands | None = None,
    totals: bool = False,
    tables: str | Iterable[str] | None = None,
    licence: str | None = None,
    sdmx: bool = False,
    sampling_errors: Mapping[str, str | os.PathLike[str] | pd.DataFrame] | None = None,
    notice: Callable[[str], None] | None = None,
) -> Path:
    """Write tables for other programs: a workbook, LaTeX, or a data package, by the ending of the name.

    Args:
        what: Release, integer tables or combination with the tables.
        path: Place of the export: a name in .xlsx or .tex, or a name without an ending for the folder of a data
            package. Nothing may exist there; for a file, neither may NAME.manifest.json.
        language: Language of workbooks and LaTeX: "en", "de", "es", "fr" or "it". Default: the language of the
            publication; English if reports lack it. A data package takes no other.
        bands: Rule that classes numbers as reliable, to be used with care, or too wide.
        totals: True if workbooks and LaTeX have totals over each attribute that a table shows value by value.
        tables: Names of the tables to write, or the name of one; default all.
        licence: Licence of a data package, as :class:`Metadata` takes it: the SPDX id of a licence for data, such as
            "CC-BY-4.0", or a URL. Workbooks and LaTeX state none. Default: that of the metadata.
        sdmx: True if a data package has its structure and numbers in SDMX, too (`fitnoise[sdmx]`).
        sampling_errors: For some tables, the standard errors of sampling: a CSV file or a data frame, as for
            :meth:`Estimates.with_sampling_error`. Margins and classes of these tables are then for noise and sampling
            error, and a coefficient of variation follows. Numbers without a row keep the margin of the noise alone, and
            the table says so.
        notice: Receives a sentence for each folder that killed processes left of this data package. They are removed,
            except for those in use and those with a complete release.

    Returns:
        The path.

    Raises:
        ReleaseError: The name has another ending, XlsxWriter or pysdmx is not installed, the language or a table is
            unknown, or a table is named twice. Or a data package is given a language or totals, or a file has a
            licence or SDMX. Or the licence is neither a known id nor a URL. Or standard errors are unusable, of another
            table, or of means or biased numbers. Or there are more than a million numbers, or the place exists or
            cannot be written.

    **Guarantees**
        * The export depends on the data only through the noisy answers, and is the same whenever it is written.
        * Numbers have six decimals in workbooks, and in data packages the decimals of the release's own files.
        * Numbers in LaTeX have as many digits as their margins support.
        * A text is never a formula.
        * A manifest has the hash of every file and names the release, so that :func:`verify_export` can check the
          export. It lies in the folder, or next to the file as NAME.manifest.json.
        * The export is written completely or not at all. A killed process may leave a file without its manifest.
    """
    target = Path(path)
    check_place(target)
    _check_options(target, language=language, totals=totals, licence=licence, sdmx=sdmx)
    side = manifest_place(target)
    names = _names(what, tables)
    language = language or language_of(releases(what)[0].plan.publication)
    options: dict[str, Any] = {"language": language, "bands": bands, "totals": totals, "tables": names}
    listed = list_errors(what, sampling_errors, names)
    options |= {"licence": licence, "sdmx": sdmx, "sampling_errors": listed}
    files: list[tuple[str, str, int]] = []
    rule = None if bands is None else [bands.reliable, bands.care]

    # Hashed as they are written: the manifest is about these bytes, also if a second run gave others.
    def hashed() -> Iterator[tuple[str, bytes]]:
        for name, raw in contents(what, target, **options):
            files.append((name, hashlib.sha256(raw).hexdigest(), len(raw)))
            yield name, raw

    if not target.suffix:

        def texts() -> Iterator[tuple[str, str]]:
            yield from ((name, raw.decode()) for name, raw in hashed())
            yield IN_FOLDER, manifest(what, {**options, "bands": rule}, files, versions_for(target, sdmx=sdmx))

        return write_texts(target, texts(), notice)
    ((_, raw),) = hashed()
    replace_file(target, raw)
    # Without its manifest the file could not be verified: both are written, or none.
    try:
        replace_file(side, manifest(what, {**options, "bands": rule}, files, versions_for(target)).encode())
    except BaseException:  # an interruption, too
        target.unlink(missing_ok=True)
        raise
    return target


def check_place(path: Path) -> None:
    """Refuse a name with another ending, and a place that exists or where nothing can be made."""
    if path.suffix.lower() not in (*FORMATS, ""):
        endings = " or ".join(FORMATS)
        raise ReleaseError(
            "unknown-export-format",
            f"The tables are to be written as {path.name!r}.",
            f"They are written as {endings}, or as a data package, a folder without an ending.",
            f"Choose a name that ends in {endings}, or a name without an ending.",
            UNWRITTEN,
            place=path.name,
        )
    if not path.suffix:
        check_new_folder(path)
        return
    # Checked now, and not after the export: a manifest of another export would be overwritten, or this one would lack
    # its own.
    for target in (path, manifest_place(path)):
        check_new_file(target)


@checked(ReleaseError, "Nothing was verified.")
def verify_export(
    what: Release | DerivedTables, path: str | os.PathLike[str], *further: str | os.PathLike[str]
) -> Verification:
    """Check exports against their manifests, and against the tables of which they are.

    Args:
        what: The release, integer tables, or combination of which the export is. Verify these first: an export is
            compared with them.
        path: The workbook or the LaTeX file, whose manifest lies next to it, or the folder of a data package.
        further: Further exports. Each finding then names its file.

    Returns:
        For each export one check for each claim, up to the first that fails. Nothing is raised for a claim that fails.

    **Guarantees**
        * An accepted export has the files of its manifest with their hashes, no other files, and no links.
        * The manifest of an accepted export names the plans, the noisy answers and the ledger's entries of `what`.
        * An accepted export and its manifest, written again as the manifest states, are the same, byte for byte.
        * A workbook that another version of XlsxWriter or zlib wrote may differ. The check then rejects it and names
          both versions.
    """
    return Verification(checks_of_files([(x, check_export([what], x, contents)) for x in map(Path, (path, *further))]))


def contents(
    what: Release | DerivedTables,
    path: Path,
    *,
    language: str,
    bands: Bands | None,
    totals: bool,
    tables: list[str],
    licence: str | None,
    sdmx: bool,
    sampling_errors: ListedErrors,
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an export: name and bytes. Names are relative to the folder of the files.

    path: The place of the export; its ending decides the format. Nothing is read or written there.
    """
    publications = (r.plan.publication for r in releases(what))
    translation, names = wording(language, publications), _names(what, tables)
    errors = listed_arrays(what, sampling_errors, names)
    if not path.suffix:
        yield from ((name, text.encode()) for name, text in package(what, names, bands, licence, errors, sdmx=sdmx))
        return
    laid = (layout(what, name, totals=totals, bands=bands, sampling=errors.get(name)) for name in names)
    yield path.name, FORMATS[path.suffix.lower()](what, laid, translation, bands)


def _check_options(target: Path, *, language: str | None, totals: bool, licence: str | None, sdmx: bool) -> None:
    """Raise ReleaseError for an option that this kind of export would ignore, and for an unknown licence."""
    unused = (
        {"licence": licence is not None, "sdmx": sdmx}
        if target.suffix
        else {"language": language is not None, "totals": totals}
    )
    for name, is_given in unused.items():
        if is_given:
            raise ReleaseError(
                "export-option-unused",
                f"The option {name} is given, and the tables are to be written as {target.name!r}.",
                "A data package has its publication's language and no totals; other files have no licence and no SDMX.",
                f"Leave {name} out, or choose a name with another ending.",
                UNWRITTEN,
                place=name,
            )
    if licence is not None and not is_licence(licence):
        raise ReleaseError(
            "unknown-licence",
            f"The licence is {licence!r}.",
            NEEDED_LICENCE,
            "Give an id, such as CC-BY-4.0, or the URL of another licence.",
            UNWRITTEN,
            place="licence",
        )


def _names(what: Tabled, tables: str | Iterable[str] | None) -> list[str]:
    """Return the names of the tables to write, or raise if a name is unknown or the tables are too large."""
    names = list(what) if tables is None else [tables] if isinstance(tables, str) else list(tables)
    if len(set(names)) < len(names):
        raise repeated_table(UNWRITTEN)
    numbers = 0
    for name in names:
        if name not in what:
            raise unknown_table(name, list(what), UNWRITTEN)
        workload = publication_of(what, name).workload
        numbers += math.prod(workload[name].shape(workload.domain))
        # Counted from the shapes, before any table is rebuilt: rebuilding takes the time and memory that the limit is
        # to save.
        if numbers > MAX_EXPORTED_NUMBERS:
            raise too_many_numbers(MAX_EXPORTED_NUMBERS, UNWRITTEN)
    return names
