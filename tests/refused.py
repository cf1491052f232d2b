"""The code of a refusal: what tests compare, in place of its wording."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from fitnoise.errors import FitnoiseError


@contextlib.contextmanager
def refused(code: str, *, place: str | None = None) -> Iterator[pytest.ExceptionInfo[FitnoiseError]]:
    """Expect an error of fitnoise with a code, and at a place where one is given.

    Args:
        code: Area and slug, such as "spec.left-out-needs-id".
        place: Key, column or field at fault; any if None.
    """
    with pytest.raises(FitnoiseError) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}, not {code}: {caught.value}"
    assert place is None or caught.value.place == place, caught.value.place
