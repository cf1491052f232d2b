"""Manifests of exports: the release of an export, the options it was written with, and the hash of every file.

A manifest lies next to a workbook or a LaTeX file, as NAME.manifest.json, and in the folder of a data package. With it
anyone who has the release writes the export again and compares it, byte for byte.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from fitnoise import __version__
from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import answers_digest
from fitnoise.mechanisms.documents import parse
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.files import read_text
from fitnoise.reading.bands import Bands
from fitnoise.reading.derived_tables import MAX_FILES_IN_MESSAGE, DerivedTables
from fitnoise.reading.layouts import Tabled, releases
from fitnoise.reading.release import outputs_digest
from fitnoise.reading.release_files import files_fault, links, read_companion, to_json
from fitnoise.reading.verification import Check, error_fault

FORMAT = 3
"""Version of a manifest."""

OPTION_NAMES = ("language", "bands", "totals", "tables", "licence", "sdmx", "sampling_errors")
"""The arguments of :func:`fitnoise.export` that a manifest has, in this order."""

IN_FOLDER = "manifest.json"
"""The name of the manifest of a data package."""

KEYS = ("fitnoise_export", "of", "releases", "options", "files", "versions")
"""Keys of a manifest, in this order."""

CLAIMS = (
    Message("report.claim.export_files"),
    Message("report.claim.export_source"),
    Message("report.claim.export_again"),
)

SOURCES = {
    "release": "report.finding.export_release",
    "integer_tables": "report.finding.export_integers",
    "combination": "report.finding.export_combination",
}
"""For each kind of exported tables the id of the finding that names it."""

Contents = Callable[..., Iterator[tuple[str, bytes]]]
"""Function that writes the files of an export, from tables, a place and options."""


def manifest_place(export: Path) -> Path:
    """Return the place of the manifest of an export: in its folder, or next to its file."""
    return export.with_name(f"{export.name}.manifest.json") if export.suffix else export / IN_FOLDER


def manifest(
    source: Tabled, options: Mapping[str, Any], files: Iterable[tuple[str, str, int]], versions: Mapping[str, str]
) -> str:
    """Write a manifest.

    Args:
        source: The release, or the tables made of releases, that was exported.
        options: Language, bands, totals, tables, licence and SDMX, as :func:`fitnoise.export` takes them, and the
            listed standard errors of sampling.
        files: Name, SHA-256 and bytes of each file.
        versions: Versions of the programs that wrote the files.
    """
    listed = [{"path": path, "bytes": size, "sha256": digest} for path, digest, size in files]
    # The keys have one order, so that the same export has the same manifest, byte for byte.
    values = (FORMAT, _kind(source), [_identity(r) for r in releases(source)], dict(options), listed, dict(versions))
    return to_json(dict(zip(KEYS, values, strict=True)))


def versions_for(export: Path, *, sdmx: bool = False) -> dict[str, str]:
    """Return the installed versions of the programs on which the bytes of an export depend."""
    if sdmx:
        return {"fitnoise": __version__, "pysdmx": metadata.version("pysdmx")}
    if export.suffix.lower() != ".xlsx":
        return {"fitnoise": __version__}
    # A workbook is a ZIP file: another version of the compressor writes other bytes of the same tables.
    return {"fitnoise": __version__, "xlsxwriter": metadata.version("xlsxwriter"), "zlib": zlib.ZLIB_RUNTIME_VERSION}


def check_export(verified: Sequence[Tabled], export: Path, contents: Contents) -> tuple[Check, ...]:
    """Check an export against its manifest, and against what was verified.

    Args:
        verified: The release, and the tables made of releases; the export is of one of them.
        export: The file, or the folder of a data package.
        contents: Writes the files of an export again.

    Returns:
        A check for each claim of `CLAIMS`, up to the first that fails.
    """
    checks: list[Check] = []

    def add(problem: Message | None, good: Message | None = None) -> bool:
        finding = problem or good or Message("report.finding.export_again")
        checks.append(Check(CLAIMS[len(checks)], problem is None, finding))
        return problem is None

    try:
        manifest_path = manifest_place(export)
        text = read_companion(export, manifest_path) if export.suffix else read_text(manifest_path)
        stated, options, files = _parsed(text)
        text_id = "report.finding.export_file" if len(files) == 1 else "report.finding.export_files"
        if not add(_check_files(export, files), Message(text_id, (Value("count", len(files), ValueKind.COUNT),))):
            return tuple(checks)
        # Integer tables and combinations are of the same release: the manifest says of which tables it is, by kind and
        # digests.
        source = next((x for x in verified if _states(stated, x)), None)
        problem = None if source is not None else Message("report.fault.export_source")
        if not add(problem, Message(SOURCES.get(stated["of"], SOURCES["release"]))) or source is None:
            return tuple(checks)
        add(_check_again(source, export, text, options, stated["versions"], contents))
    except ReleaseError as error:
        add(error_fault(error))
    except OSError as error:
        add(Message("report.fault.export_unreadable", (Value("reason", error.strerror),)))
    return tuple(checks)


def _kind(source: Tabled) -> str:
    """Return the kind of the exported tables."""
    return source.kind if isinstance(source, DerivedTables) else "release"


def _identity(release: Any) -> dict[str, Any]:
    """Return what identifies a release: its plan, its noisy answers and the ledger entry that charged it."""
    digests = {"answers": answers_digest(release.answers), "outputs": outputs_digest(release.outputs)}
    entry = {} if release.entry is None else {"ledger": release.entry.document()}
    return {"plan": release.plan.hash, **digests, **entry}


def _states(stated: Mapping[str, Any], source: Tabled) -> bool:
    """Return True if a manifest states that it belongs to the tables of the source."""
    return bool(stated["of"] == _kind(source) and stated["releases"] == [_identity(r) for r in releases(source)])


def _parsed(text: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, tuple[str, int]]]:
    """Return a manifest, the arguments of :func:`fitnoise.export`, and hash and bytes of each file.

    Raises:
        ReleaseError: The text is not a manifest.
    """
    try:
        stated = parse(text)
        # `type`, because True is an int for isinstance.
        if list(stated) != list(KEYS) or type(stated["fitnoise_export"]) is not int:
            raise ValueError
        if stated["fitnoise_export"] != FORMAT:
            raise ReleaseError(
                "unknown-manifest-version",
                f"The manifest has version {stated['fitnoise_export']}.",
                f"This fitnoise reads version {FORMAT}.",
                "Use the version of fitnoise that wrote the export.",
                "The export was not verified.",
                place="fitnoise_export",
            )
        options = dict(stated["options"])
        options["bands"] = None if options["bands"] is None else Bands(*options["bands"])
        if list(options) != list(OPTION_NAMES):
            raise ValueError
        texts = [options["language"], *options["tables"], *stated["versions"].values(), stated["of"]]
        texts += [] if options["licence"] is None else [options["licence"]]
        # A path that is listed twice would replace its first hash: the comparison of lengths below notices it.
        files = {x["path"]: (x["sha256"], x["bytes"]) for x in stated["files"]}
        is_sound = type(options["totals"]) is type(options["sdmx"]) is bool and type(options["tables"]) is list
        is_sound = is_sound and all(type(x) is int for _, x in files.values())
        if not is_sound or len(files) != len(stated["files"]) or not all(isinstance(x, str) for x in [*texts, *files]):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ReleaseError(
            "manifest-damaged",
            "The manifest does not describe an export.",
            "",
            "Bring the manifest back as it was written.",
            "The export was not verified.",
        ) from None
    return stated, options, files


def _check_files(export: Path, files: Mapping[str, tuple[str, int]]) -> Message | None:
    """Return the problem where files are missing, not listed, links, or have another hash, else None."""
    folder = export if not export.suffix else export.parent
    # Folders are names, too: an unlisted empty folder is reported like an unlisted file.
    parents = {p.as_posix() for name in files for p in Path(name).parents} - {"."}
    listed = {*files} if export.suffix else {IN_FOLDER, *files, *parents}
    # A folder with far more names than listed is not walked to its end.
    paths = [export] if export.suffix else list(itertools.islice(export.rglob("*"), len(listed) + MAX_FILES_IN_MESSAGE))
    if problem := links(folder, paths):
        return problem
    there = {p.relative_to(folder).as_posix() for p in paths if p.exists()}
    if problem := files_fault(listed, there):
        return problem
    for name, (digest, size) in files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size or _sha256(path) != digest:  # a pipe would wait
            return Message("report.fault.export_hash", (Value("file", name, ValueKind.CODE),))
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_again(
    source: Tabled, export: Path, text: str, options: Mapping[str, Any], versions: Mapping[str, str], contents: Contents
) -> Message | None:
    """Return the problem where an export differs from one that is written again, else None."""
    folder = export if not export.suffix else export.parent
    files, differs = [], False
    # Hashes show that files are as listed; only writing them again shows that they are of this release.
    for name, raw in contents(source, export, **options):
        files.append((name, hashlib.sha256(raw).hexdigest(), len(raw)))
        path = folder / name
        differs |= not path.is_file() or path.stat().st_size != len(raw) or path.read_bytes() != raw
    rule = options["bands"]
    expected = manifest(
        source, {**options, "bands": None if rule is None else [rule.reliable, rule.care]}, files, versions
    )
    if not differs and expected == text:
        return None
    here = versions_for(export, sdmx=options["sdmx"])
    other = [_other_version(name, versions.get(name), x) for name, x in here.items() if versions.get(name) != x]
    if not other:
        return Message("report.fault.export")
    return Message("report.fault.export_versions", (Value("versions", other, ValueKind.SENTENCES),))


def _other_version(name: str, version: str | None, installed: str) -> Message:
    """Return the message that an export was written by a version of a program that is not the installed one."""
    values = (Value("program", name), Value("version", version), Value("installed", installed))
    return Message("report.fault.unknown_version" if version is None else "report.fault.other_version", values)
