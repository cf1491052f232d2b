"""Tables made from releases: in a folder of their own, with a document that names their releases."""

from __future__ import annotations

import abc
import itertools
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from fitnoise.display import HtmlDisplay
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reading.release import Release
from fitnoise.reading.release_files import files_fault, links, says, to_json, write_texts
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import slug

Texts = dict[str, Callable[[], str]]
"""For each file name, a function that makes its text."""

MAX_FILES_IN_MESSAGE = 20
"""The largest number of extra files that an error names."""


class DerivedTables(Mapping[str, pd.DataFrame], HtmlDisplay, abc.ABC):
    """Tables by name, made from the published numbers of releases. They cost nothing.

    Attributes:
        releases: The releases from which they are made.
    """

    description: str
    """The name of the document in the folder of the tables."""

    kind: str
    """The kind of the tables, for programs."""

    releases: tuple[Release, ...]

    @abc.abstractmethod
    def publication(self, name: str) -> Publication:
        """Return the publication of a table, with its domain.

        Args:
            name: The name of the table.
        """

    def origin(self, name: str) -> tuple[Release, str]:
        """Return a release that a table is made from, and the name of the table there.

        Args:
            name: The name of the table.
        """
        return self.releases[0], name

    def remarks(self, name: str) -> tuple[Message, ...]:
        """Return the sentences that belong below a table.

        Args:
            name: The name of the table.
        """
        return ()

    def all_remarks(self) -> tuple[Message, ...]:
        """Return the sentences that belong to the tables in total."""
        return ()

    @abc.abstractmethod
    def csv(self, name: str) -> str:
        """Return a table as a CSV file.

        Args:
            name: The name of the table.
        """

    @abc.abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the content of the document: the releases, by their plans and answers, and the tables."""

    def texts(self, name: str) -> Texts:
        """Return the files of a table: for each file name a function that makes its text.

        Args:
            name: The name of the table.
        """
        return {f"{slug(name)}.csv": partial(self.csv, name)}

    def _texts(self) -> Texts:
        """Return for each file name a function that makes its text."""
        texts = {file: text for name in self for file, text in self.texts(name).items()}
        return {**texts, self.description: lambda: to_json(self.document())}

    def write(self, directory: str | os.PathLike[str], *, notice: Callable[[str], None] | None = None) -> Path:
        """Write every table as a CSV file, and a document that names the releases: all files or none.

        Args:
            directory: The directory, which must not exist, or be empty. In the directory of a release it would make the
                verification of the release fail.
            notice: A function that receives a sentence for each leftover folder that killed processes left for this
                directory. fitnoise removes these, except for folders in use and folders with a complete release.

        Raises:
            ReleaseError: The directory exists and is not empty, or cannot be written.
        """
        # one after the other, so that memory holds one text at a time
        texts = ((name, text()) for name, text in self._texts().items())
        return write_texts(Path(directory), texts, notice)

    def check_files(self, folder: Path, texts_of: Callable[[str], Texts] | None = None) -> Message | None:
        """Return the first fault of a folder with these tables, digit by digit; None if there is no fault.

        Args:
            folder: The folder to which they were written.
            texts_of: A function that returns the right texts of a table, if these are not `texts`.
        """
        texts = self._texts()
        if texts_of is not None:
            texts |= {file: text for name in self for file, text in texts_of(name).items()}
        # a folder of a stranger may have any number of files: more than these are not listed
        paths = list(itertools.islice(folder.iterdir(), len(texts) + MAX_FILES_IN_MESSAGE))
        if problem := links(folder, paths):
            return problem
        there = {p.name for p in paths}
        if problem := files_fault(texts.keys(), there):
            return problem
        wrong = [name for name, text in texts.items() if not says(folder / name, text())]
        return Message("report.fault.file", (Value("file", wrong[0], ValueKind.CODE),)) if wrong else None
