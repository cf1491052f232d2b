"""Keys of sealed counts: pairs of keys, their sources, and the seal for several recipients. Part of the trust kernel.

**Purpose.** The counts are encrypted once, under a key of their own. That content key is encrypted to each public key
(X25519, XSalsa20 and Poly1305: the sealed box of libsodium). Each private key opens the counts. The counts and the list
of recipients have one authentication tag under the content key (XChaCha20-Poly1305).

**Trust.** Only the holder of one of the private keys can change the counts or the list; others can only write a
complete new file. Anyone with a public key can write one. So can anyone who may write to the data.

    seal       = recipients, nonce and encrypted counts, with the recipients as associated data.
    recipients = their number (4 bytes), then for each: key id (8 bytes), content key in a sealed box (80 bytes).
    key id     = the first 8 bytes of SHA-256 of the public key.
    keys       = PUBLIC or PRIVATE, then 64 hexadecimal digits. Or PROTECTED, then in hexadecimal digits:
                 head, nonce and encrypted private key, with the head as associated data.
    head       = key id (8 bytes), steps and memory of scrypt (8 bytes each), salt (32 bytes).

Integers have their little end first. scrypt of the passphrase and the salt is the key of a protected private key.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import struct
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from secrets import token_bytes
from typing import Any, Final, TypeAlias, final

from fitnoise.errors import DataError
from fitnoise.kernel.counting.failures import quietly

Key: TypeAlias = str | PathLike[str] | bytes
"""A source of a key: its file, `env:NAME` for a variable of the environment with its text, or its text as bytes."""

PRIVATE, PROTECTED, PUBLIC = "fitnoise-private-key-", "fitnoise-protected-key-", "fitnoise-public-key-"
"""The prefixes of private keys, of private keys under a passphrase, and of public keys."""

ENVIRONMENT: Final = "env:"

_KEY_BYTES, _ID_BYTES, _BOX_BYTES, _NUMBER_BYTES = 32, 8, 80, 4

_HEAD = struct.Struct("<8sQQ32s")
"""Key id, steps, memory and salt of a protected key."""

_STEPS, _MEMORY_BYTES = 2**22, 2**27
"""The parameters of scrypt for new keys: N = 2^17, r = 8 and p = 1 in RFC 7914."""

_MAX_STEPS, _MAX_MEMORY_BYTES = 2**25, 2**30
"""The largest parameters that a key may state: its file could be altered to exhaust the memory."""

_MAX_KEY_BYTES = 1024
"""The largest number of bytes that are read of a key. A wrong path can name a large file."""

_MAX_LISTED_IDS = 8

_DIGITS_OF_KEY = re.compile("[0-9A-Fa-f]{32}")
"""Half of the digits of a key. A text with them in a row could be a key, also with other letters around them."""

_NOTHING = "Nothing was measured and nothing was charged."


@final
class PrivateKeys:
    """The private keys that may open sealed counts. No representation of the object shows a key.

    Args:
        keys: The sources of the keys, such as an old and a new one. Each is read once, because a pipe can be.
        passphrase: The passphrase of those that are protected; `None` without one.
        group_readable: True to accept files that the members of their group can read, such as the secrets of an
            orchestrator.
    """

    def __init__(self, keys: Iterable[Key], passphrase: str | None = None, *, group_readable: bool = False) -> None:
        self.passphrase = passphrase
        self._keys, self._group_readable = tuple(keys), group_readable
        self._outcomes: list[tuple[str, str] | DataError] = []

    def are_protected(self) -> bool:
        """Return True if one of the keys needs a passphrase; raise DataError if one cannot be read."""
        return any(text.startswith(PROTECTED) for text, _ in self._read())

    def open(self, sealed: bytes, what: str) -> bytes:
        """Return what :func:`seal` has sealed for one of the keys.

        Args:
            sealed: The seal.
            what: The name of the counts for errors.

        Raises:
            DataError: The counts were sealed for other keys, altered or cut off.
            DataError: A key cannot be read, is no private key, or others than its owner have access to its file.
            DataError: The passphrase is missing or wrong, or the key states larger parameters than fitnoise uses. Or
                there is too little memory to use it.
            DataError: The package that opens sealed counts is not installed.
        """
        keys = [(_id_of(text, name), text, name) for text, name in self._read()]
        number = int.from_bytes(sealed[:_NUMBER_BYTES], "little")
        size = _ID_BYTES + _BOX_BYTES
        end = _NUMBER_BYTES + number * size
        # Slices of a file that was cut off are short, however large the number is that its head states.
        recipients = [sealed[i : i + size] for i in range(_NUMBER_BYTES, min(end, len(sealed)), size)]
        ids = [x[:_ID_BYTES] for x in recipients]
        fits = [key for key in keys if key[0] in ids]
        if not fits:
            raise DataError(
                "sealed-counts-for-other-keys",
                f"The seal of {what} names the keys {_listed(ids)}, and the given private keys are "
                f"{_listed([key[0] for key in keys])}.",
                "A private key opens the counts that were sealed for its public key.",
                "Give the private key with such an id, also an older one, or count again.",
                _NOTHING,
            )
        nacl = _nacl()
        # Keys without a passphrase are first: another key of the seal may need one that is not at hand.
        for key_id, text, name in sorted(fits, key=lambda key: key[1].startswith(PROTECTED)):
            box = nacl.public.SealedBox(nacl.public.PrivateKey(_secret_of(text, name, self.passphrase)))
            for recipient in recipients:
                with contextlib.suppress(nacl.exceptions.CryptoError, ValueError):
                    if recipient[:_ID_BYTES] == key_id:
                        content_key = box.decrypt(recipient[_ID_BYTES:])
                        return bytes(nacl.secret.Aead(content_key).decrypt(sealed[end:], sealed[:end]))
        raise DataError(
            "sealed-counts-not-opened",
            f"The private key does not open {what}, whose seal names it.",
            "They were altered or cut off after they were sealed.",
            "Copy the file again, or count again.",
            _NOTHING,
        )

    def _read(self) -> list[tuple[str, str]]:
        """Return the text and the name of each key; raise the first error, which further calls raise again."""
        for key in self._keys[len(self._outcomes) :]:
            try:
                self._outcomes.append(_read(key, PRIVATE, group_readable=self._group_readable))
            except DataError as error:
                self._outcomes.append(error)
        for failed in self._outcomes:
            if isinstance(failed, DataError):
                raise failed
        return [x for x in self._outcomes if not isinstance(x, DataError)]


def seal(public_keys: Sequence[bytes], content: bytes) -> bytes:
    """Return the content, sealed for each of the public keys (:func:`read_public_key`).

    Raises:
        DataError: The package that seals is not installed.

    **Guarantees**
        * The length follows from the number of different keys and the length of the content.
        * Without a private key of these, the seal reveals nothing else about the content.
    """
    nacl = _nacl()
    keys, content_key = sorted({*public_keys}), token_bytes(_KEY_BYTES)
    boxes = [_id(key) + bytes(nacl.public.SealedBox(nacl.public.PublicKey(key)).encrypt(content_key)) for key in keys]
    recipients = len(keys).to_bytes(_NUMBER_BYTES, "little") + b"".join(boxes)
    return recipients + bytes(nacl.secret.Aead(content_key).encrypt(content, recipients))


def key_pair(passphrase: str | None = None) -> tuple[str, str]:
    """Return a private key and its public one, as texts; a passphrase protects the private key.

    Raises:
        DataError: The passphrase is empty, there is too little memory to use it, or the package that makes keys is not
            installed.
    """
    nacl = _nacl()
    private = nacl.public.PrivateKey.generate()
    public = bytes(private.public_key)
    if passphrase is None:
        return PRIVATE + bytes(private).hex(), PUBLIC + public.hex()
    head = _HEAD.pack(_id(public), _STEPS, _MEMORY_BYTES, token_bytes(_KEY_BYTES))
    box = nacl.secret.Aead(_stretched(passphrase, head)).encrypt(bytes(private), head)
    return PROTECTED + (head + bytes(box)).hex(), PUBLIC + public.hex()


def key_id(public_key: bytes) -> str:
    """Return the id of a public key and of its private one, which sealed counts name: 16 hexadecimal digits."""
    return _id(public_key).hex()


def read_public_key(key: Key) -> bytes:
    """Return the 32 bytes of a public key.

    Raises:
        DataError: The key cannot be read, or is no public key.
    """
    text, name = _read(key, PUBLIC)
    content = _content(text, PUBLIC, name, "public")
    nacl = _nacl()
    # A few points of the curve are known to everyone: libsodium refuses to seal for them.
    with contextlib.suppress(nacl.exceptions.CryptoError):
        nacl.public.SealedBox(nacl.public.PublicKey(content)).encrypt(b"")
        return content
    raise _invalid(name, "public")


def refuse_text_of_key(name: str) -> None:
    """Raise DataError if a name, in place of a key, could be the text of one; no error before this check quotes it."""
    if _DIGITS_OF_KEY.search(name):
        raise DataError(
            "private-key-as-argument",
            "A text with 32 hexadecimal digits in a row, or more, is given in place of the file of a key.",
            "It could be a private key. Other users can see the arguments of a command, and logs keep them.",
            "Give the file, or env:NAME for a variable of the environment (in Python also bytes). Make a new pair of "
            "keys if others could see a private one. Rename a file or a variable with such a name.",
            _NOTHING,
        )


def _id(public_key: bytes) -> bytes:
    return hashlib.sha256(public_key).digest()[:_ID_BYTES]


def _listed(ids: Sequence[bytes]) -> str:
    """Return the ids in words; not all of very many, which a file that was altered can state."""
    unlisted = len(ids) - _MAX_LISTED_IDS
    return ", ".join(x.hex() for x in ids[:_MAX_LISTED_IDS]) + (f" and {unlisted} more" if unlisted > 0 else "")


def _read(key: Key, kind: str, *, group_readable: bool = False) -> tuple[str, str]:
    """Return the text of a key, and the name of its source for errors; the errors quote no part of a key."""
    what, other = ("private", "public") if kind == PRIVATE else ("public", "private")
    if not isinstance(key, (str, bytes, PathLike)):
        raise DataError(
            "key-of-wrong-type",
            f"A {what} key is given as an object of the type {type(key).__name__}.",
            "A key is given as its file, as env:NAME, or as the bytes of its text.",
            "Give one of these.",
            _NOTHING,
        )
    if isinstance(key, bytes):
        name, data = f"the given {what} key", key
    elif isinstance(key, str) and key.startswith(ENVIRONMENT):
        name, data = _from_environment(key.removeprefix(ENVIRONMENT), what)
    else:
        name, data = _from_file(Path(key), what, group_readable=group_readable)
    text = data.strip().decode("ascii", "replace")
    if text.startswith((PRIVATE, PROTECTED) if kind == PUBLIC else PUBLIC):
        raise DataError(
            "key-of-other-kind",
            f"There is a {other} key in {name}, and a {what} key is needed.",
            "The public key seals counts; the private key opens them, and stays where the release is made.",
            f"Give the {what} key.",
            _NOTHING,
            place=name,
        )
    return text, name


def _from_environment(variable: str, what: str) -> tuple[str, bytes]:
    refuse_text_of_key(variable)
    # A text that is no name of a variable could be a secret: it is not quoted.
    if not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII):
        raise DataError(
            "key-variable-name-invalid",
            f"The text after {ENVIRONMENT} is not the name of an environment variable.",
            f"The variable must hold the {what} key.",
            f"Write {ENVIRONMENT}NAME with the name of such a variable.",
            _NOTHING,
        )
    if (text := os.environ.get(variable)) is None:
        raise DataError(
            "key-variable-missing",
            f"The environment has no variable {variable!r}.",
            f"It must hold the {what} key, the text of its file.",
            "Set it, or give the file.",
            _NOTHING,
            place=variable,
        )
    return f"the variable {variable!r}", text.encode("utf-8", "surrogatepass")


def _from_file(path: Path, what: str, *, group_readable: bool) -> tuple[str, bytes]:
    # Errors quote the name alone. A folder may be called by a digest.
    refuse_text_of_key(path.name)
    failed = DataError(
        "key-file-not-read",
        f"The {what} key {path.name!r} cannot be read.",
        "",
        f"Give the file with the {what} key (fitnoise count keys).",
        _NOTHING,
    )
    name = f"the file {path.name!r}"
    mode, data = quietly(partial(_first_bytes, path), failed)
    is_private = data.lstrip().startswith((PRIVATE.encode(), PROTECTED.encode()))
    exposed = mode & (0o037 if group_readable else 0o077)
    if what == "private" and is_private and sys.platform != "win32" and exposed:
        raise DataError(
            "private-key-exposed",
            f"Other users than the owner have access to the private key {path.name!r}"
            + (", and more than its group can read." if group_readable else "."),
            "Only its owner may read a private key. With --group-readable-key the members of its group may read it.",
            "Run chmod 600 on the file, and consider who has read it.",
            _NOTHING,
            place=path.name,
        )
    return name, data


def _first_bytes(path: Path) -> tuple[int, bytes]:
    with path.open("rb") as file:
        return stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read(_MAX_KEY_BYTES)


def _content(text: str, kind: str, name: str, what: str, size: int = _KEY_BYTES) -> bytes:
    """Return the bytes of a key; raise DataError if it has another prefix or length."""
    with contextlib.suppress(ValueError):
        content = bytes.fromhex(text.removeprefix(kind))
        if text.startswith(kind) and len(content) == size:
            return content
    raise _invalid(name, what)


def _invalid(name: str, what: str) -> DataError:
    return DataError(
        "key-file-invalid",
        f"There is no {what} key in {name}.",
        "",
        "Make a pair of keys with `fitnoise count keys`.",
        _NOTHING,
        place=name,
    )


def _protected(text: str, name: str) -> tuple[bytes, bytes]:
    """Return the head of a protected key, and the encrypted private key."""
    # The encrypted key has a nonce of 24 bytes and a tag of 16.
    content = _content(text, PROTECTED, name, "private", _HEAD.size + 24 + _KEY_BYTES + 16)
    return content[: _HEAD.size], content[_HEAD.size :]


def _id_of(text: str, name: str) -> bytes:
    """Return the id of a private key: a protected key states it without its passphrase."""
    if text.startswith(PROTECTED):
        return _protected(text, name)[0][:_ID_BYTES]
    private = _nacl().public.PrivateKey(_content(text, PRIVATE, name, "private"))
    return _id(bytes(private.public_key))


def _secret_of(text: str, name: str, passphrase: str | None) -> bytes:
    """Return the 32 bytes of a private key, opened with the passphrase if it is protected."""
    if not text.startswith(PROTECTED):
        return _content(text, PRIVATE, name, "private")
    head, box = _protected(text, name)
    _, steps, memory, _ = _HEAD.unpack(head)
    if steps > _MAX_STEPS or memory > _MAX_MEMORY_BYTES:
        raise DataError(
            "passphrase-parameters-too-large",
            f"The private key in {name} states {steps} steps and {memory} bytes of memory for its passphrase.",
            f"The largest numbers are {_MAX_STEPS} steps and {_MAX_MEMORY_BYTES} bytes: the key was altered.",
            "Give the key as `fitnoise count keys` wrote it.",
            _NOTHING,
            place=name,
        )
    if passphrase is None:
        raise DataError(
            "passphrase-missing",
            f"A passphrase protects the private key in {name}, and none is given.",
            "The passphrase opens the key. No command takes it as an argument, which other users could see.",
            "Set FITNOISE_PASSPHRASE, or run the command in a terminal, which asks for it (in Python: passphrase).",
            _NOTHING,
            place=name,
        )
    failed = DataError(
        "passphrase-wrong",
        f"The passphrase does not open the private key in {name}.",
        "It is the passphrase of another key, or the key was altered.",
        "Give the passphrase that was chosen when the key was made.",
        _NOTHING,
        place=name,
    )
    return quietly(lambda: bytes(_nacl().secret.Aead(_stretched(passphrase, head)).decrypt(box, head)), failed)


def _stretched(passphrase: str, head: bytes) -> bytes:
    """Return the key that scrypt derives from a passphrase, with the parameters and the salt of a head."""
    if not isinstance(passphrase, str) or not passphrase:
        raise DataError(
            "passphrase-empty",
            "The passphrase is empty, or is no text.",
            "A passphrase is a text of at least one character.",
            "Choose several random words.",
            _NOTHING,
        )
    _, steps, memory, salt = _HEAD.unpack(head)
    # One spelling: terminals and environments compose accents in different ways.
    text = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    with contextlib.suppress(RuntimeError, MemoryError):  # which libsodium reports if it gets no memory
        return bytes(_nacl().pwhash.scrypt.kdf(_KEY_BYTES, text, salt, opslimit=steps, memlimit=memory))
    raise DataError(
        "passphrase-memory-exhausted",
        "There is too little memory to derive a key from the passphrase.",
        f"It takes {memory} bytes. The passphrase was not tried, and neither it nor the private key is at fault.",
        "Allow more memory.",
        _NOTHING,
    )


def _nacl() -> Any:
    """Return the package that seals, opens and makes keys: an extra."""
    with contextlib.suppress(ImportError):
        import nacl.exceptions
        import nacl.public
        import nacl.pwhash
        import nacl.secret

        return nacl
    raise DataError(
        "pynacl-missing",
        "The counts are to be sealed or opened, and the package PyNaCl is not installed.",
        "Fitnoise seals and opens counts with PyNaCl.",
        "Run pip install 'fitnoise[sealed]'.",
        _NOTHING,
    )
