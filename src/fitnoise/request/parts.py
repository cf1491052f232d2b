"""What all parts of a specification have in common."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

BACKSLASH = (
    r"A backslash in double quotes begins an escape; write a path in single quotes, as in 'C:\data\codes.csv', "
    "or with /."
)
"""The advice for a Windows path in double quotes, which is no TOML, or another text; a sentence."""


class Part(BaseModel):
    """Keys of one place of the document: of no other kinds than said, and none that are not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that others have in such a place, and how the same is said here."""

    @model_validator(mode="wrap")
    @classmethod
    def _known_keys(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Name each unknown key and the key of *this* part that may have been meant, beside what is wrong in others."""
        unknown = [str(k) for k in given if k not in cls.model_fields] if isinstance(given, Mapping) else []
        if not unknown:
            return handler(given)
        wrong = [
            InitErrorDetails(
                type=_unknown_key(k, _advice(k, list(cls.model_fields), cls.elsewhere.get(k))), input=given
            )
            for k in unknown
        ]
        try:
            handler({k: x for k, x in given.items() if k in cls.model_fields})
        except ValidationError as error:  # what is missing may stand under the unknown key
            wrong += [_again(e) for e in error.errors() if len(e["loc"]) > (e["type"] == "missing")]
        raise ValidationError.from_exception_data(cls.__name__, wrong)


def _again(error: ErrorDetails) -> InitErrorDetails:
    """An error as it is raised."""
    kind, context = error["type"], error.get("ctx", {})
    own = kind == "unknown_key"
    again = _unknown_key(context["key"], context["action"]) if own else kind
    return InitErrorDetails(type=again, loc=error["loc"], input=error["input"], ctx={} if own else context)


def _unknown_key(key: str, action: str) -> PydanticCustomError:
    """Return the error for a key that its part does not have."""
    return PydanticCustomError("unknown_key", "unknown key {key}", {"key": key, "action": action})


def _advice(key: str, known: Sequence[str], instead: str | None) -> str:
    """Return what to do about an unknown key, as a sentence."""
    if instead is not None:
        return instead
    near = difflib.get_close_matches(key, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Use one of these keys: {', '.join(known)}."
