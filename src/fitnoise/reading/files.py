"""How tables are written and read: CSV, Parquet and JSON, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Exact
from fitnoise.kernel.domain import RESERVED

DECIMALS = 6
"""Decimals of a person in CSV files; Parquet files hold the full numbers."""


@contextlib.contextmanager
def staged(directory: Path) -> Iterator[Path]:
    """A fresh folder beside `directory`, moved into its place when the block ends well, removed otherwise."""
    stage = None
    try:
        try:
            directory = directory.resolve()
            if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
                raise ReleaseError(
                    f"{directory.name!r} exists already; releases are never overwritten: choose another."
                )
            stage = directory.parent / f".{directory.name}.unfinished-{secrets.token_hex(4)}"
            directory.parent.mkdir(parents=True, exist_ok=True)
            stage.mkdir()
            if directory.exists():  # empty; a mount point cannot be replaced: better known now than after the charge
                stage.rename(directory)
                stage.mkdir()
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
            raise ReleaseError(f"{directory.name!r} cannot be written ({_reason(error)}).") from None
        yield stage
        try:
            stage.rename(directory)
        except OSError as error:
            raise ReleaseError(f"{directory.name!r} cannot be put in place ({_reason(error)}).") from None
        _sync(directory.parent)
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def label_frame(labels: Mapping[str, Sequence[str | int]]) -> pd.DataFrame:
    """One row per combination of labels, in C order; nothing is inferred from what a text looks like."""
    sizes = [len(v) for v in labels.values()]
    columns: dict[str, Any] = {}
    for i, (name, values) in enumerate(labels.items()):
        kind: Any = {bool: np.bool_, int: np.int64}.get(type(values[0]), object)
        each = np.repeat(np.array(values, dtype=kind), math.prod(sizes[i + 1 :]))
        columns[name] = np.tile(each, math.prod(sizes[:i]))
    return pd.DataFrame(columns, index=range(math.prod(sizes)))


def _column(answers: Sequence[Exact]) -> Exact:
    """The noisy answers as a column: 64-bit integers where all of them fit, otherwise texts."""
    flat = np.concatenate(answers)
    if flat.dtype == np.int64 or all(-(2**63) <= x < 2**63 for x in flat):
        return flat.astype(np.int64)
    return np.array([str(x) for x in flat], dtype=object)


def to_json(document: Any) -> str:
    """The text of release.json."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def csv_text(frame: pd.DataFrame) -> str:
    """A released table as CSV, the same on every platform: numbers to 6 decimals, texts quoted where they need it."""
    columns = [
        [f"{x:z.{DECIMALS}f}" for x in frame[name]] if name in RESERVED else [_field(x) for x in frame[name].tolist()]
        for name in frame.columns
    ]
    rows = [[_field(name) for name in frame.columns], *zip(*columns, strict=True)]
    return "".join(",".join(row) + "\n" for row in rows)


def _field(label: str | int) -> str:
    text = str(label)
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]|^\s|\s$|^$', text) else text


def read_text(path: Path) -> str:
    """A text file, its line ends as they are; ReleaseError when it cannot be read."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        raise ReleaseError(f"{str(path)!r} is missing or unreadable.") from None


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def engine() -> duckdb.DuckDBPyConnection:
    """What reads and writes Parquet: one thread, so that the bytes of a file follow from its content."""
    return duckdb.connect(config={"threads": 1, "python_enable_replacements": False})


def read_parquet(files: duckdb.DuckDBPyConnection, path: Path) -> pd.DataFrame:
    """A Parquet file of this module, as a frame: truth values, whole numbers, floats and texts.

    Raises:
        ReleaseError: it cannot be read, or is not such a file.
    """
    query = f"SELECT * FROM read_parquet({_pattern(path)}, hive_partitioning = false)"  # noqa: S608 - quoted
    try:
        kinds = {str(name): str(kind) for name, kind, *_ in files.execute(f"DESCRIBE {query}").fetchall()}
        columns = files.execute(query).fetchnumpy()
    except duckdb.Error:
        raise ReleaseError(f"{str(path)!r} is missing or unreadable.") from None
    for name, kind in kinds.items():
        if kind not in _TYPES.values():
            raise ReleaseError(f"column {name!r} of {path.name!r} was not written by a release.")
    return pd.DataFrame(columns)


_TYPES = {"b": "BOOLEAN", "i": "BIGINT", "f": "DOUBLE", "O": "VARCHAR"}
"""How a column is stored, by NumPy's letter for its kind."""


def write_parquet(files: duckdb.DuckDBPyConnection, frame: pd.DataFrame, path: Path, **metadata: str) -> None:
    """A frame as a Parquet file with metadata."""
    columns = ", ".join(
        f"CAST({quoted} AS {_TYPES[frame[name].dtype.kind]}) AS {quoted}"
        for name, quoted in ((c, '"' + c.replace('"', '""') + '"') for c in frame.columns)
    )
    told = ", ".join(f"{key}: '{value}'" for key, value in metadata.items())
    options = "FORMAT parquet" + (f", KV_METADATA {{{told}}}" if told else "")
    files.register("frame", frame)
    files.execute(f"COPY (SELECT {columns} FROM frame) TO {_quoted(path)} ({options})")  # noqa: S608 - quoted
    files.unregister("frame")
    _sync(path)


def metadata_of(files: duckdb.DuckDBPyConnection, path: Path) -> dict[str, str]:
    """The words written into a Parquet file beside its columns."""
    query = f"SELECT decode(key), decode(value) FROM parquet_kv_metadata({_pattern(path)})"  # noqa: S608 - quoted
    try:
        return dict(files.execute(query).fetchall())
    except duckdb.Error:
        raise ReleaseError(f"{str(path)!r} is missing or unreadable.") from None


def _quoted(path: Path | str) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _pattern(path: Path) -> str:
    """A path to read, with brackets that keep the engine from taking it for a pattern."""
    return _quoted(re.sub(r"[*?\[]", r"[\g<0>]", str(path.absolute())))


def _sync(path: Path) -> None:
    """To the disk, where the platform can: what is at stake is the release, never the charge."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
