"""Proposals of releases: what one person prepares, and another person allows.

**Purpose.** :func:`fitnoise.propose` writes a proposal, which is a file of JSON for people. :func:`fitnoise.release`
takes it under `approve`, and then releases only what it states. The entry of the charge names both persons and the
SHA-256 of the file (rule 15 of the ledger).

**Limits.** No person is authenticated, and no file is signed. The balance in a proposal is that of its time. It is for
people, and compared with nothing.

Trust: a mistake here can release something other than was proposed. It cannot release without a charge.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from fitnoise.errors import ReleaseError
from fitnoise.kernel.checks import are_confusable, describe_value, is_digest, is_name
from fitnoise.mechanisms.documents import parse
from fitnoise.planning.files import read_text, reason_of, unwritable_place
from fitnoise.reading.refusals import UNWRITTEN, existing_place
from fitnoise.reading.release_files import new_file

_FORMAT = 1
_NOTHING = "Nothing was measured and nothing was charged."


@final
@dataclass(frozen=True)
class Proposal:
    """A proposed release.

    Attributes:
        release: What would be released and charged, by key, as JSON values.
        ledger: The head of the ledger at that time ("sequence" and "digest"), and the balance before and after.
        proposed_by: The person who proposed it.
        time: The time, in UTC.
    """

    release: Mapping[str, Any]
    ledger: Mapping[str, Any]
    proposed_by: str
    time: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the proposal in a file.

        Raises:
            ReleaseError: The file cannot be read, or is no proposal in the very form in which fitnoise writes it.
        """
        text, proposal = read_text(path), None
        try:
            stated = parse(text)
            proposal = cls(stated["release"], stated["ledger"], stated["proposed_by"], stated["time"])
            sequence, digest = proposal.head
            is_sound = type(sequence) is int and sequence >= 0 and is_digest(digest) and is_name(proposal.proposed_by)
            # A document has one text: with another digest, the same proposal could be charged again. This is no
            # signature. A person who changes the time or the balance has made another proposal.
            is_sound &= isinstance(proposal.release, dict) and proposal.to_json() == text
        except (ValueError, LookupError, TypeError):
            is_sound = False
        if proposal is None or not is_sound:
            raise ReleaseError(
                "file-is-no-proposal",
                f"{path.name!r} is not a proposal, or was changed after fitnoise wrote it.",
                "A proposal is approved as it was written.",
                "Propose the release again (--propose).",
                _NOTHING,
                place="approve",
            )
        return proposal

    def to_json(self) -> str:
        """Return the text of its file."""
        document = {
            "fitnoise_proposal": _FORMAT,
            "proposed_by": self.proposed_by,
            "time": self.time,
            "release": self.release,
            "ledger": self.ledger,
        }
        return json.dumps(document, indent=2, allow_nan=False) + "\n"

    def write(self, path: Path) -> None:
        """Write it to a new file.

        Raises:
            ReleaseError: Something is there, or the file cannot be written.
        """
        try:
            new_file(path, self.to_json().encode("ascii"))
        except FileExistsError:
            raise existing_place(path.name, UNWRITTEN) from None
        except OSError as error:
            raise unwritable_place(repr(path.name), reason_of(error), UNWRITTEN) from None

    @property
    def head(self) -> tuple[int, str]:
        """The sequence number and the digest of the last entry at that time."""
        return self.ledger["sequence"], self.ledger["digest"]

    def approved(self, name: str, release: Mapping[str, Any]) -> dict[str, str]:
        """Return the statements of the ledger's entry for an approved release.

        Args:
            name: The person who approves it.
            release: What the call would release, in the form of `release`.

        Raises:
            ReleaseError: This person proposed it, or the call would release something else.
        """
        if are_confusable(name, self.proposed_by):
            raise ReleaseError(
                "approved-by-proposer",
                f"{self.proposed_by!r} proposed this release, and {name!r} approves it.",
                "Another person approves a release than the one who proposed it.",
                "Have another person approve it, under their own name (--by).",
                _NOTHING,
                place="by",
            )
        # Texts, because 1 and True are equal, and so are objects with their keys in another order.
        meant, stated = ({key: json.dumps(x) for key, x in document.items()} for document in (release, self.release))
        others = [key for key in (meant | stated) if meant.get(key) != stated.get(key)]
        others += ["the order of its keys"] if not others and [*meant] != [*stated] else []
        if others:
            raise ReleaseError(
                "differs-from-proposal",
                f"The call differs from the proposal in: {', '.join(map(str, others))}.",
                "A release is approved as it was proposed.",
                "Repeat the command of the proposal, with --approve in place of --propose, or propose again.",
                _NOTHING,
                place="approve",
            )
        digest = hashlib.sha256(self.to_json().encode("ascii")).hexdigest()
        return {"proposal": digest, "proposed_by": self.proposed_by, "approved_by": name}


def person(name: str | None) -> str:
    """Return the name of a person, or that of the user of the operating system; neither is authenticated.

    Args:
        name: The given name; None takes the user.

    Raises:
        ReleaseError: The name is not printable, or no name is given and the user has none.
    """
    if name is None:
        try:
            name = getpass.getuser()
        except (KeyError, ImportError, OSError):
            name = ""
    if not is_name(name):
        raise ReleaseError(
            "person-without-name",
            f"The name of the person is {describe_value(name)}.",
            "It must be printable, not empty, without spaces around it, and in composed Unicode (NFC).",
            "Give the name of the person (--by).",
            _NOTHING,
            place="by",
        )
    return name
