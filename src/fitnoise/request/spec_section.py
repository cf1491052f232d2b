"""The common behaviour of all parts of a specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from fitnoise.errors import SpecError, advise_name

BACKSLASH = (
    r"A backslash in double quotes begins an escape; write a path in single quotes, as in 'C:\data\codes.csv', "
    "or with /."
)
"""The advice for a Windows path in double quotes, which is not TOML, or is another text; a sentence."""


class SpecSection(BaseModel):
    """The keys of one place of the document: values of other kinds and unknown keys are refused."""

    # Strict: pydantic would otherwise read "5" as 5 and true as 1, and hide the mistake.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that other parts have in such a place, and the key that states the same here."""

    @model_validator(mode="wrap")
    @classmethod
    def _known_keys(cls, document: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse each unknown key with the key of *this* part that it may mean, together with all other problems."""
        unknown = [str(k) for k in document if k not in cls.model_fields] if isinstance(document, Mapping) else []
        if not unknown:
            return handler(document)
        wrong = [
            InitErrorDetails(
                type=_unknown_key(k, _advice(k, list(cls.model_fields), cls.elsewhere.get(k))), input=document
            )
            for k in unknown
        ]
        try:
            # The known keys are validated without the unknown ones, so that one error has all problems.
            handler({k: x for k, x in document.items() if k in cls.model_fields})
        except ValidationError as error:  # what is missing may stand under the unknown key
            wrong += [_as_spec_error(e) for e in error.errors() if len(e["loc"]) > (e["type"] == "missing")]
        raise ValidationError.from_exception_data(cls.__name__, wrong)


def _as_spec_error(error: ErrorDetails) -> InitErrorDetails:
    """Return an error in the form in which it is raised."""
    kind, context = error["type"], error.get("ctx", {})
    # Pydantic raises its own kinds by name. An unknown key is a kind of fitnoise, and is made again with its text.
    is_unknown_key = kind == "unknown_key"
    error_type = _unknown_key(context["key"], context["action"]) if is_unknown_key else kind
    return InitErrorDetails(
        type=error_type, loc=error["loc"], input=error["input"], ctx={} if is_unknown_key else context
    )


def _unknown_key(key: str, action: str) -> PydanticCustomError:
    """Return the error for a key that its part does not have."""
    return PydanticCustomError("unknown_key", "unknown key {key}", {"key": key, "action": action})


def _advice(key: str, keys: Sequence[str], instead: str | None) -> str:
    """Return what to do about an unknown key, as a sentence."""
    if instead is not None:
        return instead
    return advise_name(key, keys, f"Use one of these keys: {', '.join(keys)}.")


def resolve_file(folder: Path | None, key: str, name: str) -> Path:
    """Return the path of a file next to the specification.

    Args:
        folder: The folder of the specification; None if it is not known.
        key: The key that names the file.
        name: The name of the file, which need not exist: a path relative to the folder, or an absolute one.

    Raises:
        SpecError: The folder is not known, also for an absolute path, or the name has a control character.
    """
    if any(ord(c) < ord(" ") for c in name):  # TOML reads \n and \t in "C:\new\table.csv" as such characters
        raise SpecError(
            "file-name-unusable",
            f"The key {key} = {name!r} is not the name of a file.",
            "It has a control character, such as a tab or a line break.",
            BACKSLASH,
            "No data were read.",
            place=key,
        )
    if folder is None:
        raise SpecError(
            "file-folder-unknown",
            f"The key {key} = {name!r} names a file next to the specification, and the folder of the "
            "specification is unknown.",
            "",
            "Give the folder, or write the content of the file into the specification.",
            "No data were read.",
            place=key,
        )
    return folder / name
