"""Counts made in one place and released in another, sealed on the way. Part of the trust kernel.

**Purpose.** Counts are exact, and as confidential as the records. They can be sealed for public keys
(`kernel/counting/keys.py`). The seal lists its recipients, and only the holders of their private keys read the counts.

**Trust.** This file neither seals nor opens: its callers give the function. Only the holder of one of the private keys
can change the counts or the list; others can only write a complete new file. Anyone with a public key can write one. So
can anyone who may write to the data.

    file    = SEALED, seal of counts       or  UNSEALED, SHA-256 of counts, counts
    counts  = 32 bytes that identify them (`measure`), then int64, little end first. First the number of units with
              records left out, below 0 if not requested. Then every margin, sorted by names, in C order

So the length of a file reveals only facts of the plan, and reading the file takes no parser.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from fitnoise.errors import DataError
from fitnoise.kernel.counting._base import DeclaredCounter, Margin, Margins, Progress, ProgressFilter
from fitnoise.kernel.counting.failures import not_opened, quietly
from fitnoise.kernel.counting.margins import views
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import DataSource, RecordBound

SEALED: Final = b"fitnoise counts 1, sealed\n"
UNSEALED: Final = b"fitnoise counts 1, plain\n"
"""The first bytes of files with counts."""

_DIGEST = 32

_NOTHING = "Nothing was measured and nothing was charged."


@final
class SealedCounter(DeclaredCounter):
    """A counter that has counts over some margins, made elsewhere.

    Args:
        path: The file.
        domain: The declared domain.
        source: The data source of the counts, with the action for records outside the domain, and the conditions.
        bound: The bound on counted records of a person, with the column of the id; `None` if all were counted.
        opener: The function that opens a seal; its second argument names the counts for errors. `None` for counts that
            are not sealed.

    Raises:
        DataError: The file cannot be read, or the counts were altered or cut off.
        DataError: Sealed counts come without an opener, or other counts with one.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        domain: Domain,
        source: DataSource,
        bound: RecordBound | None = None,
        *,
        opener: Callable[[bytes, str], bytes] | None = None,
    ) -> None:
        super().__init__(domain, source, bound)
        self._what = f"the counts in {Path(path).name!r}"
        content = self._opened(Path(path), opener)
        self.fingerprint, body = content[:_DIGEST].hex(), content[_DIGEST:]
        if len(body) % 8 or not body:
            raise DataError("counts-cut-off", f"The end of {self._what} is missing.", "", "Count again.", _NOTHING)
        self._counts = np.frombuffer(body, dtype="<i8").astype(np.int64, copy=False)

    def _opened(self, path: Path, opener: Callable[[bytes, str], bytes] | None) -> bytes:
        """Return the bytes that identify the counts, then the counts; raise DataError if they cannot be opened."""
        failed = DataError(
            "counts-file-not-read",
            f"Fitnoise cannot read {self._what}.",
            "",
            "Ask their owner to let you read them.",
            _NOTHING,
        )
        text = quietly(path.read_bytes, failed)
        if text.startswith(UNSEALED):
            if opener is not None:
                raise DataError(
                    "counts-not-sealed",
                    f"A key is given, and {self._what} are not sealed.",
                    "Counts that are not sealed need no key.",
                    "Leave the key out.",
                    _NOTHING,
                )
            # The digest finds accidents only: an attacker who alters the counts can compute it again.
            digest, content = text[len(UNSEALED) :][:_DIGEST], text[len(UNSEALED) + _DIGEST :]
            if hashlib.sha256(content).digest() != digest:
                raise DataError(
                    "counts-altered",
                    f"The checksum does not match {self._what}.",
                    "The file was altered or cut off.",
                    "Count again.",
                    _NOTHING,
                )
            return content
        if opener is None:
            raise DataError(
                "sealed-counts-need-key",
                f"No key is given, and {self._what} are sealed.",
                "A private key opens them.",
                "Give the private key (--key).",
                _NOTHING,
            )
        return opener(text[len(SEALED) :], self._what)

    def check(self, attributes: Sequence[str]) -> None:
        """Check nothing: the attributes were checked where the counts were made."""

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """Return the margins for which the counts were made; the caller compares the `fingerprint` before.

        The file names no margin: any others with as many cells in all would get wrong counts.

        Raises:
            DataError: The margins have another number of cells than the counts.
        """
        # The file has its margins in this order (`sealed`). `measure` has compared the fingerprint: other lengths mean
        # a file that was put together wrongly.
        shapes = {m: tuple(self._domain.sizes[a] for a in m) for m in sorted(set(margins))}
        if sum(map(math.prod, shapes.values())) != len(self._counts) - 1:
            raise DataError(
                "counts-of-other-tables",
                f"The plan needs other tables than {self._what}.",
                "",
                "Count again with this plan.",
                _NOTHING,
            )
        ProgressFilter(progress).finish()
        counts = views(self._counts[1:], shapes)
        return {m: counts[m] for m in margins}

    def left_out(self) -> int:
        """Return the stored number of units with records left out; raise DataError if none is stored."""
        return super().left_out() if self._counts[0] < 0 else int(self._counts[0])


def sealed(fingerprint: str, margins: Margins, left_out: int | None, seal: Callable[[bytes], bytes] | None) -> bytes:
    """Return the content of a file with counts.

    Args:
        fingerprint: The digest that identifies the counts, 64 hexadecimal digits.
        margins: The counts over every margin that the release needs.
        left_out: The number of units with records left out; `None` if not requested.
        seal: The function that seals the counts; `None` leaves them readable to everyone.
    """
    # A number in any case, so that the length of the file does not depend on the question.
    head = np.array([-1 if left_out is None else left_out])
    parts = [head, *(margins[m] for m in sorted(margins))]
    content = b"".join([bytes.fromhex(fingerprint), *(x.astype("<i8").tobytes() for x in parts)])
    return SEALED + seal(content) if seal is not None else UNSEALED + hashlib.sha256(content).digest() + content


def is_sealed(data: Any) -> bool:
    """Return True if data are a file of counts, sealed or not.

    Raises:
        DataError: The file cannot be opened.
    """
    if not isinstance(data, (str, PathLike)):
        return False
    path = Path(data)
    return quietly(lambda: path.is_file() and _first_bytes(path).startswith((SEALED, UNSEALED)), not_opened(path))


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(max(len(SEALED), len(UNSEALED)))
