"""Rebuild `cps_taxunits_2014.csv.gz` from its public source, to the byte.

    pip download --no-deps --no-binary :all: taxcalc==6.8.0
    python -m fitnoise.data.rebuild_cps taxcalc-6.8.0.tar.gz cps_taxunits_2014.csv.gz

The source is `taxcalc/cps.csv.gz` in that tarball. The rows with `FLPDYR` 2014 are kept, in order; each becomes six
integers:

    fips     `fips`      FIPS code of the state, as it stands
    status   `MARS`      1 single, 2 joint, 3 separate, 4 head of household, as it stands
    age      `age_head`  age of the head, as it stands (the survey codes 80 to 84 as 80, and 85 or more as 85)
    kids     `nu18`      people under 18 in the unit (a head or spouse under 18 counts too), 3 standing for 3+
    wages    `e00200`    the number of cut points 1, 10,000, 25,000, 50,000, 75,000, 100,000 and 200,000 dollars
                         that the wages reach: 0 for no wages, 1 for [1, 10,000), ..., 7 for 200,000 or more
    selfemp  `e00900`    1 if the net business income is not zero (a profit or a loss), else 0

The script checks the source against its SHA-256 before it reads the source, and the CSV against its own before it
writes the CSV. The compressed bytes are equal on every run with one zlib, but another zlib may compress differently:
compare the CSV, not the gzip file.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import os
import sys
import tarfile
import zlib
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fitnoise.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = "taxcalc-6.8.0/taxcalc/cps.csv.gz"

SOURCE_SHA256 = "492ead49db94fc4bb4109c33a6c9679aa32c41042e715333cc84df1fe49e578d"

CSV_SHA256 = "71496685af8137fe78c9fad629b5594a2c9b77c8199d860a71ee5932b67cf605"

COLUMNS = ("fips", "status", "age", "kids", "wages", "selfemp")

YEAR = "2014"

MAX_KIDS = 3

WAGE_CUTS = (1, 10_000, 25_000, 50_000, 75_000, 100_000, 200_000)


def coded(record: Mapping[str, str]) -> tuple[int, ...]:
    """Code one source record as one row, in the order of `COLUMNS`."""
    return (
        int(record["fips"]),
        int(record["MARS"]),
        int(record["age_head"]),
        min(int(record["nu18"]), MAX_KIDS),
        bisect_right(WAGE_CUTS, int(record["e00200"])),
        int(int(record["e00900"]) != 0),
    )


def rebuild(sdist: Path, out: Path, *, source_sha256: str = SOURCE_SHA256, csv_sha256: str = CSV_SHA256) -> None:
    """Write the coded rows of `sdist` to `out`, all of them or nothing.

    Args:
        sdist: The source tarball of taxcalc 6.8.0.
        out: The gzip-compressed CSV file to write; an existing one is replaced.
        source_sha256: The SHA-256 that `SOURCE` inside `sdist` must have.
        csv_sha256: The SHA-256 that the uncompressed CSV must have.

    Raises:
        DataError: The tarball is unusable, a SHA-256 differs, or `out` cannot be written.
    """
    source = _source(sdist)
    _check(source, source_sha256, f"The file {SOURCE} in {sdist}", "Give the tarball of taxcalc 6.8.0.")
    table = _table(source)
    _check(table, csv_sha256, f"The CSV made from {sdist}", "Use the version of this module that made it.")
    _replace(out, _compressed(table))


def _source(sdist: Path) -> bytes:
    try:
        with tarfile.open(sdist) as tar:
            member = tar.extractfile(SOURCE)
            if member is None:  # a folder of this name
                raise KeyError(SOURCE)
            return member.read()
    except KeyError:
        raise DataError(
            "tarball-lacks-file",
            f"The tarball {sdist} holds no file {SOURCE}.",
            "",
            "Give the tarball of taxcalc 6.8.0.",
            "Nothing was written.",
        ) from None
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(
            "tarball-damaged",
            f"The file {sdist} is not a complete tarball.",
            "",
            "Download it again.",
            "Nothing was written.",
        ) from error
    except OSError as error:
        raise DataError(
            "tarball-unreadable",
            f"The tarball {sdist} cannot be read ({error}).",
            "",
            "Give a tarball that this user may read.",
            "Nothing was written.",
        ) from error


def _check(content: bytes, needed: str, what: str, hint: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != needed:
        raise DataError(
            "checksum-differs",
            f"{what} has the SHA-256 {digest}.",
            f"It must have {needed}.",
            f"{hint}",
            "Nothing was written.",
        )


def _table(source: bytes) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    with gzip.open(io.BytesIO(source), "rt", encoding="ascii", newline="") as lines:
        writer.writerows(coded(record) for record in csv.DictReader(lines) if record["FLPDYR"] == YEAR)
    return text.getvalue().encode("ascii")


def _compressed(table: bytes) -> bytes:
    buffer = io.BytesIO()
    # without a name and a time, which would differ from run to run
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(table)
    return buffer.getvalue()


def _replace(out: Path, content: bytes) -> None:
    part = out.parent / f".{out.name}.{os.getpid()}.part"
    try:
        part.write_bytes(content)
        part.replace(out)
    except OSError as error:
        raise DataError(
            "output-not-written",
            f"The file {out} cannot be written ({error}).",
            "",
            "Name a file in a folder that this user may write.",
            "The file was not changed.",
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fitnoise.data.rebuild_cps", description="Rebuild the packaged tax units."
    )
    parser.add_argument("sdist", type=Path, metavar="SDIST.tar.gz", help="source tarball of taxcalc 6.8.0")
    parser.add_argument("out", type=Path, metavar="OUT.csv.gz", help="file to write")
    options = parser.parse_args(arguments)
    try:
        rebuild(options.sdist, options.out)
    except DataError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"wrote {options.out}: the CSV inside has SHA-256 {CSV_SHA256}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
