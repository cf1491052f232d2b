"""Values of forms that are refused, each with the field that holds it, so that a page shows it there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Self, final

from fitnoise.errors import FitnoiseError, SpecError
from fitnoise_studio.folder import DraftChanged
from fitnoise_studio.workers import QuestionReplaced


@final
class FormError(SpecError):
    """The error of a value in a form, with the values that its text in other languages names.

    Args:
        sentences: The slug and the four sentences.
        values: The values by their names in the text.
    """

    def __init__(self, *sentences: str, **values: str | int) -> None:
        super().__init__(*sentences, values=values)


@final
class Refused(SpecError):
    """The error for a form with refused values: it reads as the first of their errors, and holds all of them.

    Args:
        errors: The error of each refused field, by the name of the field; at least one.

    **Guarantees**

    * The code, the sentences, the place and the values are those of the first error of `errors`.
    """

    def __init__(self, errors: Mapping[str, FitnoiseError]) -> None:
        self.errors = dict(errors)
        head = next(iter(self.errors.values()))
        super().__init__(*head.args, place=head.place, values=head.values)
        self.area = head.area


@final
class Refusals:
    """The collector of all refused values of a form: after a refused value the form checks the later ones, too."""

    def __init__(self) -> None:
        self._errors: dict[str, FitnoiseError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._errors:
            raise Refused(self._errors)

    @contextlib.contextmanager
    def for_field(self, field: str) -> Iterator[None]:
        """Collect an error under the name of a field. The end of the collector's own context raises all of them.

        A :class:`Refused` keeps the fields that it names. An error about the complete draft is raised at once.
        """
        try:
            yield
        except (DraftChanged, QuestionReplaced):
            raise
        except FitnoiseError as error:
            for name, field_error in (error.errors if isinstance(error, Refused) else {field: error}).items():
                self._errors.setdefault(name, field_error)


@contextlib.contextmanager
def refused_at(field: str) -> Iterator[None]:
    """Raise an error as a :class:`Refused` with the name of a field.

    Raises:
        Refused: The statements under this context raise an error of fitnoise, except one about the complete draft.
    """
    with Refusals() as refusals, refusals.for_field(field):
        yield


def internal_error(error: Exception) -> FitnoiseError:
    """Return the error for one from outside fitnoise: its kind, and not its text, which can hold anything."""
    return FitnoiseError(
        "internal-error",
        f"There is an error inside fitnoise ({type(error).__name__}).",
        "",
        "Reload the page to see the present state.",
        "The request was not answered.",
    )
