"""Counts that are made in one place and released in another, sealed on the way. Part of the trust kernel.

They are exact, and as confidential as the records. Sealed for a public key (X25519, XSalsa20 and Poly1305: the sealed
box of libsodium), only who holds the private one reads them, and nobody alters them unseen. Anyone with the public key
could write other ones instead, as could anyone who may write to the data.

    file    = SEALED, box of counts        or  PLAIN, SHA-256 of counts, counts
    counts  = 32 bytes that say of what they are (`measure`), then int64, little end first: of how many units records
              are left out, below 0 where nobody asked; and every margin, in order, in C order

So its length says nothing that the plan does not, and reading it takes no parser.
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
from fitnoise.kernel.counting._base import DeclaredCounter, Gauge, Margin, Margins, Progress
from fitnoise.kernel.counting.sources import not_opened, quietly
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import Bound, DataSource

SEALED: Final = b"fitnoise counts 1, sealed\n"
PLAIN: Final = b"fitnoise counts 1, plain\n"
"""How such files begin."""

PRIVATE, PUBLIC = "fitnoise-private-key-", "fitnoise-public-key-"
"""How keys begin, before 64 hexadecimal digits."""

_DIGEST = 32

_LONGEST = 1024
"""Bytes of a file with a key."""

_NOTHING = "Nothing was measured and nothing was charged."


@final
class SealedCounter(DeclaredCounter):
    """Has counts over some margins, made elsewhere.

    Args:
        path: of the file.
        domain: the declared domain.
        source: what was done with records outside it, and which were counted at all.
        bound: how many records of a person were counted, and by which column it was told whose they are; None: all.
        key: file with the private key; None for counts that are not sealed.

    Raises:
        DataError: the file or the key cannot be read, the counts were altered, or sealed for another key.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        domain: Domain,
        source: DataSource,
        bound: Bound | None = None,
        *,
        key: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(domain, source, bound)
        self._what = f"the counts in {Path(path).name!r}"
        content = self._opened(Path(path), key)
        self._of, body = content[:_DIGEST].hex(), content[_DIGEST:]
        if len(body) % 8 or not body:
            raise DataError("counts-cut-off", f"The end of {self._what} is missing.", "", "Count again.", _NOTHING)
        self._counts = np.frombuffer(body, dtype="<i8").astype(np.int64, copy=False)

    def _opened(self, path: Path, key: str | PathLike[str] | None) -> bytes:
        """What is in the file."""
        failed = DataError(
            "counts-file-not-read",
            f"Fitnoise cannot read {self._what}.",
            "",
            "Ask their owner to let you read them.",
            _NOTHING,
        )
        text = quietly(path.read_bytes, failed)
        if text.startswith(PLAIN):
            if key is not None:
                raise DataError(
                    "counts-not-sealed",
                    f"A key is given, and {self._what} are not sealed.",
                    "Counts that are not sealed need no key.",
                    "Leave the key out.",
                    _NOTHING,
                )
            digest, content = text[len(PLAIN) :][:_DIGEST], text[len(PLAIN) + _DIGEST :]
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

    @property
    def of(self) -> str:
        """As the file says."""
        return self._of

    def check(self, attributes: Sequence[str]) -> None:
        """Nothing to check: where they were counted, that was."""

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """The margins for which they were made, of which `of` tells, and no others."""
        shapes = {m: tuple(self._domain.sizes[a] for a in m) for m in sorted(set(margins))}
        ends = np.cumsum([1, *map(math.prod, shapes.values())])
        if ends[-1] != len(self._counts):
            raise DataError(
                "counts-of-other-tables",
                f"The plan needs other tables than {self._what}.",
                "",
                "Count again with this plan.",
                _NOTHING,
            )
        Gauge(progress).finish()
        parts = dict(zip(shapes, np.split(self._counts, ends)[1:], strict=False))
        return {m: parts[m].reshape(shapes[m]) for m in margins}

    def left_out(self) -> int:
        """As was counted."""
        return super().left_out() if self._counts[0] < 0 else int(self._counts[0])


def sealed(of: str, margins: Margins, left_out: int | None, key: str | PathLike[str] | None) -> bytes:
    """The file with counts.

    Args:
        of: what they are counts of, 64 hexadecimal digits.
        margins: all that are needed.
        left_out: of how many units some records are not counted; None where nobody asked.
        key: file with the public key for which they are sealed; None leaves them readable to everyone.

    Raises:
        DataError: the file holds no public key, or what seals is not installed.
    """
    first = np.array([-1 if left_out is None else left_out])
    parts = [first, *(margins[m] for m in sorted(margins))]
    content = b"".join([bytes.fromhex(of), *(x.astype("<i8").tobytes() for x in parts)])
    if key is None:
        return PLAIN + hashlib.sha256(content).digest() + content
    public = _nacl().public
    return SEALED + bytes(public.SealedBox(public.PublicKey(read_key(key, PUBLIC))).encrypt(content))


def is_sealed(data: Any) -> bool:
    """Whether data are a file of counts, sealed or not."""
    if not isinstance(data, (str, PathLike)):
        return False
    path = Path(data)
    return quietly(partial(_begins, path), not_opened(path))


def _begins(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SEALED)).startswith((SEALED, PLAIN))


def key_pair() -> tuple[str, str]:
    """A private key and its public one, as texts.

    Raises:
        DataError: what makes them is not installed.
    """
    private = _nacl().public.PrivateKey.generate()
    return PRIVATE + bytes(private).hex(), PUBLIC + bytes(private.public_key).hex()


def read_key(path: str | PathLike[str], kind: str) -> bytes:
    """The key in a file, of the kind that begins so.

    Raises:
        DataError: there is none, or one that is private and can be read by others.
    """
    path = Path(path)
    what, other = ("private", "public") if kind == PRIVATE else ("public", "private")
    failed = DataError(
        "key-file-not-read",
        f"The {what} key {path.name!r} cannot be read.",
        "",
        f"Give the file with the {what} key (fitnoise keys).",
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
        found = bytes.fromhex(text.decode("ascii").removeprefix(kind))
        if text.startswith(kind.encode()) and len(found) == _DIGEST:
            return found
    raise DataError(
        "key-file-invalid",
        f"The file {path.name!r} holds no {what} key.",
        "",
        "Make a pair of keys with `fitnoise keys`.",
        _NOTHING,
        place=path.name,
    )


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LONGEST)


def _nacl() -> Any:
    """What seals, opens and makes keys: an extra."""
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
