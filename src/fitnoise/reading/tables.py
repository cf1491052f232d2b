"""Tables that are made of releases: in a folder of their own, with a document that says of what they are made."""

from __future__ import annotations

import abc
import itertools
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from fitnoise.reading.files import links, says, to_json, write_texts
from fitnoise.reading.release import Release
from fitnoise.reporting import Displayed
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import slug

Texts = dict[str, Callable[[], str]]
"""By the name of a file what makes its text."""

TOLD = 20
"""Files too many that are told."""


class Made(Mapping[str, pd.DataFrame], Displayed, abc.ABC):
    """Tables by name that are made of the published numbers of releases, and cost nothing.

    Attributes:
        releases: of which they are made.
    """

    description: str
    """The name of the document beside the tables."""

    called: str
    """What they are, together."""

    releases: tuple[Release, ...]

    @abc.abstractmethod
    def publication(self, name: str) -> Publication:
        """What a table was asked in, with its domain.

        Args:
            name: of the table.
        """

    @abc.abstractmethod
    def csv(self, name: str) -> str:
        """A table as a CSV file.

        Args:
            name: of the table.
        """

    @abc.abstractmethod
    def document(self) -> dict[str, Any]:
        """What the document says: of which releases, by their plans and answers, and what tables there are."""

    def texts(self, name: str) -> Texts:
        """Return the files of a table: by their names what makes their texts.

        Args:
            name: The table.
        """
        return {f"{slug(name)}.csv": partial(self.csv, name)}

    def _texts(self) -> Texts:
        """By the name of a file its text."""
        texts = {file: text for name in self for file, text in self.texts(name).items()}
        return {**texts, self.description: lambda: to_json(self.document())}

    def write(self, directory: str | os.PathLike[str], *, notice: Callable[[str], None] | None = None) -> Path:
        """Write every table as a CSV file, and a document that says of which releases: whole or not at all.

        Args:
            directory: where; it must not exist, or be empty, and not be in a release.
            notice: Receives a sentence for each folder that killed processes left of this one. They are removed,
                except for those in use and those with a whole release.

        Raises:
            ReleaseError: it exists and is not empty, or cannot be written.
        """
        texts = ((name, text()) for name, text in self._texts().items())
        return write_texts(Path(directory), texts, notice)

    def check_files(self, folder: Path, about: Callable[[str], Texts] | None = None) -> str | None:
        """What is wrong with a folder as theirs, digit by digit; None where nothing is.

        Args:
            folder: to which they were written.
            about: the texts that are right for a table, where these are not `texts`.
        """
        texts = self._texts()
        if about is not None:
            texts |= {file: text for name in self for file, text in about(name).items()}
        some = list(itertools.islice(folder.iterdir(), len(texts) + TOLD))
        if problem := links(folder, some):
            return problem
        there = {p.name for p in some}
        if there != texts.keys():
            return f"missing: {sorted(texts.keys() - there)}; not of {self.called}: {sorted(there - texts.keys())}"
        wrong = [name for name, text in texts.items() if not says(folder / name, text())]
        return f"{wrong[0]!r} says something else" if wrong else None
