"""Selected values in specifications: a range, a list or one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from fitnoise.request.spec_section import SpecSection


class SpanSpec(SpecSection):
    """A range of values, both ends included."""

    first: int | float | str = Field(description="The first value.")
    last: int | float | str = Field(description="The last value.")


class ValuesSpec(SpecSection):
    """Single values."""

    values: list[bool | int | float | str] = Field(min_length=1, description="The values.")


SingleValue = bool | int | float | str


def _way(value: Any) -> str:
    """Return the tag of the form in which values are written, by their kind and keys."""
    if isinstance(value, (SpanSpec, ValuesSpec)):
        return type(value).__name__
    # One form is chosen before the values are checked: errors then refer to this form alone.
    if isinstance(value, Mapping):
        return "ValuesSpec" if "values" in value else "SpanSpec"
    return "list" if isinstance(value, list) else "value"


SelectedValues = Annotated[
    Annotated[SpanSpec, Tag("SpanSpec")]
    | Annotated[ValuesSpec, Tag("ValuesSpec")]
    | Annotated[list[SingleValue], Field(min_length=1), Tag("list")]
    | Annotated[SingleValue, Tag("value")],
    Discriminator(_way),
]

ValuePair = Annotated[list[SingleValue], Field(min_length=2, max_length=2)]
