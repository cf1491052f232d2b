"""A number for each value of an attribute: of targets, and of ranges of amounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitnoise.errors import FitnoiseError, WorkloadError
from fitnoise.kernel.codings import as_python


@dataclass(frozen=True)
class ByValue:
    """A number that depends on the value of one attribute.

    attribute: The name of the attribute.
    values: One number per value, in order; or a mapping value → number.
    default: The number for values that the mapping leaves out; `None` if the mapping names all values.

    Raises:
        WorkloadError: A mapping names a value twice, such as 1 and "1".
    """

    attribute: str
    values: tuple[float, ...] | tuple[tuple[str, float], ...]
    default: float | None = None

    def __init__(
        self, attribute: str, values: Sequence[float] | Mapping[Any, float], default: float | None = None
    ) -> None:
        # Keys are compared as texts, because the keys of TOML and JSON are texts: 1 and "1" are one value.
        if isinstance(values, Mapping) and len({str(k) for k in values}) != len(values):
            raise WorkloadError(
                "by-value-repeated",
                f"A number by {attribute!r} names a value twice.",
                "Each value has one number.",
                "Remove one of the two numbers.",
                "Nothing was made.",
                place=attribute,
            )
        object.__setattr__(self, "attribute", attribute)
        numbers: Iterable[Any] = (
            [(str(k), as_python(v)) for k, v in values.items()]
            if isinstance(values, Mapping)
            else map(as_python, values)
        )
        object.__setattr__(self, "values", tuple(numbers))
        object.__setattr__(self, "default", as_python(default))

    @property
    def is_by_name(self) -> bool:
        """True if the numbers are given by name rather than in order; False for an empty mapping."""
        return any(isinstance(v, tuple) for v in self.values)

    def for_labels(
        self, labels: Sequence[str | int], what: str = "target", error: type[FitnoiseError] = WorkloadError
    ) -> tuple[float, ...]:
        """Return the number for each label, in the order of the labels.

        Args:
            labels: The labels of all values of the attribute.
            what: The description of the numbers, in messages.
            error: The class of the error.

        Raises:
            WorkloadError, or the class `error`: A number is missing, or one is given for no label.
        """
        if not self.is_by_name:
            if len(self.values) != len(labels):
                raise error(
                    "by-value-count",
                    f"The {what} by {self.attribute!r} has {len(self.values)} numbers.",
                    f"It needs {len(labels)} numbers, one for each value.",
                    "Give one number for each value, in order.",
                    "Nothing was made.",
                    place=self.attribute,
                )
            return tuple(v for v in self.values if not isinstance(v, tuple))
        position_of = {str(x): i for i, x in enumerate(labels)}
        out = [self.default] * len(labels)
        for item in self.values:
            name, number = item if isinstance(item, tuple) else (None, item)
            if name not in position_of:
                raise error(
                    "by-value-unknown",
                    f"The {what} by {self.attribute!r} names {name!r}.",
                    f"This is not a value of {self.attribute!r}.",
                    "Correct or remove this name.",
                    "Nothing was made.",
                    place=self.attribute,
                )
            out[position_of[name]] = number
        missing = [name for name, x in zip(position_of, out, strict=True) if x is None]
        if missing:
            raise error(
                "by-value-incomplete",
                f"The {what} by {self.attribute!r} has no number for {', '.join(missing[:3])}.",
                "Every value needs a number.",
                "Name these values, or give a default.",
                "Nothing was made.",
                place=self.attribute,
            )
        return tuple(x for x in out if x is not None)
