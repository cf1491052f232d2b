"""Counts made in one place and released in another, sealed on the way. Part of the trust kernel.

**Purpose.** Counts are exact, and as confidential as the records. They can be sealed for a public key (X25519, XSalsa20
and Poly1305: the sealed box of libsodium). Then only the holder of the private key reads them, and no one alters them
unseen.

**Trust.** Anyone with the public key could write other counts instead. So could anyone who may write to the data.

    file    = SEALED, box of counts        or  UNSEALED, SHA-256 of counts, counts
    counts  = 32 bytes that identify them (`measure`), then int64, little end first. First the number of units with
              records left out, below 0 if not requested. Then every margin, sorted by names, in C order

So the length of a file reveals only facts of the plan, and reading the file takes no parser.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import sys
from collections.abc import Sequence
from functools import partial
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

PRIVATE, PUBLIC = "fitnoise-private-key-", "fitnoise-public-key-"
"""The prefixes of keys, before 64 hexadecimal digits."""

_DIGEST = 32

_MAX_KEY_FILE_BYTES = 1024
"""The largest number of bytes of a file with a key, and more than the first bytes of a file with counts."""

_NOTHING = "Nothing was measured and nothing was charged."


@final
class SealedCounter(DeclaredCounter):
    """A counter that has counts over some margins, made elsewhere.

    Args:
        path: The file.
        domain: The declared domain.
        source: The data source of the counts, with the action for records outside the domain, and the conditions.
        bound: The bound on counted records of a person, with the column of the id; `None` if all were counted.
        key: The file with the private key; `None` for counts that are not sealed.

    Raises:
        DataError: The file or the key cannot be read.
        DataError: The counts were altered, cut off, or sealed for another key.
        DataError: Sealed counts come without a key, or other counts with one.
        DataError: The package that opens sealed counts is not installed.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        domain: Domain,
        source: DataSource,
        bound: RecordBound | None = None,
        *,
        key: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(domain, source, bound)
        self._what = f"the counts in {Path(path).name!r}"
        content = self._opened(Path(path), key)
        self.fingerprint, body = content[:_DIGEST].hex(), content[_DIGEST:]
        if len(body) % 8 or not body:
            raise DataError("counts-cut-off", f"The end of {self._what} is missing.", "", "Count again.", _NOTHING)
        self._counts = np.frombuffer(body, dtype="<i8").astype(np.int64, copy=False)

    def _opened(self, path: Path, key: str | PathLike[str] | None) -> bytes:
        """Return the bytes that identify the counts, then the counts; raise DataError if the key does not fit."""
        failed = DataError(
            "counts-file-not-read",
            f"Fitnoise cannot read {self._what}.",
            "",
            "Ask their owner to let you read them.",
            _NOTHING,
        )
        text = quietly(path.read_bytes, failed)
        if text.startswith(UNSEALED):
            if key is not None:
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
        if key is None:
            raise DataError(
                "sealed-counts-need-key",
                f"No key is given, and {self._what} are sealed.",
                "The private key opens them.",
                "Give the private key (--key).",
                _NOTHING,
            )
        nacl = _nacl()
        box = nacl.public.SealedBox(nacl.public.PrivateKey(read_key(key, PRIVATE)))
        with contextlib.suppress(nacl.exceptions.CryptoError):
            return bytes(box.decrypt(text[len(SEALED) :]))
        raise DataError(
            "sealed-counts-not-opened",
            f"The private key does not open {self._what}.",
            "They were sealed for another key, or were altered or cut off.",
            "Give the private key that belongs to the public key of the counts, or count again.",
            _NOTHING,
        )

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


def sealed(fingerprint: str, margins: Margins, left_out: int | None, key: str | PathLike[str] | None) -> bytes:
    """Return the content of a file with counts.

    Args:
        fingerprint: The digest that identifies the counts, 64 hexadecimal digits.
        margins: The counts over every margin that the release needs.
        left_out: The number of units with records left out; `None` if not requested.
        key: The file with the public key that seals them; `None` leaves them readable to everyone.

    Raises:
        DataError: The file holds no public key, or the package that seals is not installed.
    """
    # A number in any case, so that the length of the file does not depend on the question.
    head = np.array([-1 if left_out is None else left_out])
    parts = [head, *(margins[m] for m in sorted(margins))]
    content = b"".join([bytes.fromhex(fingerprint), *(x.astype("<i8").tobytes() for x in parts)])
    if key is None:
        return UNSEALED + hashlib.sha256(content).digest() + content
    public = _nacl().public
    return SEALED + bytes(public.SealedBox(public.PublicKey(read_key(key, PUBLIC))).encrypt(content))


def is_sealed(data: Any) -> bool:
    """Return True if data are a file of counts, sealed or not.

    Raises:
        DataError: The file cannot be opened.
    """
    if not isinstance(data, (str, PathLike)):
        return False
    path = Path(data)
    return quietly(lambda: path.is_file() and _first_bytes(path).startswith((SEALED, UNSEALED)), not_opened(path))


def key_pair() -> tuple[str, str]:
    """Return a private key and its public one, as texts.

    Raises:
        DataError: The package that makes keys is not installed.
    """
    private = _nacl().public.PrivateKey.generate()
    return PRIVATE + bytes(private).hex(), PUBLIC + bytes(private.public_key).hex()


def read_key(path: str | PathLike[str], kind: str) -> bytes:
    """Return the 32 bytes of the key in a file.

    Args:
        path: The file.
        kind: The prefix of the kind of key: `PRIVATE` or `PUBLIC`.

    Raises:
        DataError: The file cannot be read, or holds no key of this kind. Or it holds a private key, and other users
            than its owner have access to the file (not checked on Windows).
    """
    path = Path(path)
    what, other = ("private", "public") if kind == PRIVATE else ("public", "private")
    failed = DataError(
        "key-file-not-read",
        f"The {what} key {path.name!r} cannot be read.",
        "",
        f"Give the file with the {what} key (fitnoise count keys).",
        _NOTHING,
    )
    text = quietly(partial(_first_bytes, path), failed).strip()
    if text.startswith((PUBLIC if kind == PRIVATE else PRIVATE).encode()):
        raise DataError(
            "key-of-other-kind",
            f"The file {path.name!r} holds a {other} key, and a {what} key is needed.",
            "The public key seals counts; the private key opens them, and stays where the release is made.",
            f"Give the file with the {what} key.",
            _NOTHING,
            place=path.name,
        )
    if kind == PRIVATE and sys.platform != "win32" and path.stat().st_mode & 0o077:
        raise DataError(
            "private-key-exposed",
            f"Other users than the owner can read the private key {path.name!r}.",
            "Only its owner may read a private key.",
            "Run chmod 600 on the file, and consider who has read it.",
            _NOTHING,
            place=path.name,
        )
    with contextlib.suppress(ValueError):
        content = bytes.fromhex(text.decode("ascii").removeprefix(kind))
        if text.startswith(kind.encode()) and len(content) == _DIGEST:
            return content
    raise DataError(
        "key-file-invalid",
        f"The file {path.name!r} holds no {what} key.",
        "",
        "Make a pair of keys with `fitnoise count keys`.",
        _NOTHING,
        place=path.name,
    )


def _first_bytes(path: Path) -> bytes:
    # A wrong path can name a large file.
    with path.open("rb") as file:
        return file.read(_MAX_KEY_FILE_BYTES)


def _nacl() -> Any:
    """Return the package that seals, opens and makes keys: an extra."""
    with contextlib.suppress(ImportError):
        import nacl.exceptions
        import nacl.public

        return nacl
    raise DataError(
        "pynacl-missing",
        "The counts are to be sealed or opened, and the package PyNaCl is not installed.",
        "Fitnoise seals and opens counts with PyNaCl.",
        "Run pip install 'fitnoise[sealed]'.",
        _NOTHING,
    )
