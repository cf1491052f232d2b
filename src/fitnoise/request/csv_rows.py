"""CSV files of the publisher: codes, places, targets, areas; never records."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from fitnoise.errors import DomainError, FitnoiseError
from fitnoise.kernel.codings import Code


def read_rows(path: Path, what: str, kind: type[FitnoiseError] = DomainError) -> tuple[list[str], list[dict[str, str]]]:
    """Return the header and the rows of a CSV file of the publisher: codes, places, targets, areas; never records.

    Args:
        path: The file.
        what: The description of the file, for the error.
        kind: The class of the error.

    Returns:
        The header, and a mapping column → text for each row. A field that a short row lacks is `None`.

    Raises:
        FitnoiseError: The file cannot be read, or is no CSV file in UTF-8. The class is `kind`.
    """
    try:
        # A byte-order mark, as spreadsheets write it, is not a part of the first name.
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            return list(reader.fieldnames or ()), list(reader)
    except (OSError, ValueError, csv.Error) as error:  # ValueError: no text in UTF-8, or no name of a file
        raise kind(
            "csv-file-unreadable",
            f"Reading {what} {path.name!r} failed: {getattr(error, 'strerror', None) or error}.",
            "It must be a CSV file in UTF-8.",
            "Check the name and the contents of the file.",
            "Nothing was read.",
            place=path.name,
        ) from error


def codes_from_texts(texts: Sequence[str]) -> list[Code]:
    """Return texts as codes: whole numbers if every one is written as 0, 12 or -12, otherwise the texts."""
    is_integer = all(t is not None and re.fullmatch("0|-?[1-9][0-9]*", t) for t in texts)
    return [int(t) for t in texts] if is_integer else list(texts)
