"""What all parts of a specification have in common."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError


class Part(BaseModel):
    """Keys of one place of the document: of no other kinds than said, and none that are not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: Any) -> Any:
        """Name each unknown key and the key of *this* part that may have been meant."""
        unknown = [str(k) for k in given if k not in cls.model_fields] if isinstance(given, Mapping) else []
        if unknown:
            told = ", ".join(_unknown(k, list(cls.model_fields)) for k in unknown)
            raise PydanticCustomError("unknown_key", "{told}", {"told": told})
        return given


def _unknown(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
    return f"unknown key {key!r} ({meant})"
