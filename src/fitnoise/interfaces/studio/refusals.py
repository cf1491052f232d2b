"""Values of forms that are refused, each with the field that holds it, so that a page tells it there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Self, final

from fitnoise.errors import FitnoiseError, SpecError
from fitnoise.interfaces.studio.folder import Changed
from fitnoise.interfaces.studio.workers import Replaced


@final
class Refused(SpecError):
    """Refused values of a form. fields: The reason for each, by the name of its field."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        super().__init__(" ".join(dict.fromkeys(self.fields.values())))


@final
class Refusals:
    """All values of one form that are refused: what follows the first is looked at, too."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._fields:
            raise Refused(self._fields)

    @contextlib.contextmanager
    def at(self, field: str) -> Iterator[None]:
        """Take an error for one of a field, unless it names its own, or is about the whole draft."""
        try:
            yield
        except (Changed, Replaced):
            raise
        except FitnoiseError as error:
            for name, why in (error.fields if isinstance(error, Refused) else {field: str(error)}).items():
                self._fields.setdefault(name, why)


@contextlib.contextmanager
def refused_at(field: str) -> Iterator[None]:
    """Raise an error as one of a field.

    Raises:
        Refused: the error.
    """
    with Refusals() as refusals, refusals.at(field):
        yield
