"""The code of a refusal: what tests compare, in place of its wording."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from fitnoise.errors import FitnoiseError

SECRET = "Xk7secret"  # noqa: S105 - a value found in the data, which no message may repeat


@contextlib.contextmanager
def refused(*codes: str | tuple[str, ...], key: str | None = None) -> Iterator[pytest.ExceptionInfo[FitnoiseError]]:
    """Expect an error of fitnoise with one of some codes, and at a place where one is given.

    Args:
        codes: Area and slug, such as "spec.left-out-needs-id"; several where equivalent inputs have different faults.
        key: Key, column or field at fault; any if None.
    """
    expected = {code for each in codes for code in ([each] if isinstance(each, str) else each)}
    with pytest.raises(FitnoiseError) as caught:
        yield caught
    assert caught.value.code in expected, f"{caught.value.code}, not {expected}: {caught.value}"
    assert key is None or caught.value.place == key, caught.value.place
