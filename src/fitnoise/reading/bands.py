"""How reliable a number is, by a rule that its publisher sets: nothing is hidden, readers are told how wide it is."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import is_plain


@final
class Band(enum.Enum):
    """What a reader is told of a number."""

    RELIABLE = "reliable"
    CARE = "use with care"
    WIDE = "too wide"


_CHOICES = np.array([*Band], dtype=object)


@final
@dataclass(frozen=True)
class Bands:
    """From which margin on a number is to be used with care, and from which it is too wide, as parts of the number.

    Args:
        reliable: a number is reliable where its margin is at most this part of it: 0.1 for a tenth.
        care: and to be used with care where it is at most this part of it; beyond, it is too wide to be used alone.

    Raises:
        ReleaseError: parts that are not 0 < reliable < care.

    **Guarantees**
        * bands are made from published numbers alone, so that they cost nothing; they say how wide numbers are, and
          suppress none;
        * of a number that is 0 or less no part is wide enough: it is too wide, however small its margin.

    Many offices set their rule for the standard error: a part c of that is a part 1.96 c for margins at 95 %.
    """

    reliable: float
    care: float

    def __post_init__(self) -> None:
        given = (self.reliable, self.care)
        numbers = all(map(is_plain, given))
        if not numbers or not 0 < self.reliable < self.care < np.inf:
            raise ReleaseError(
                "wrong-bands",
                f"The bands of reliability are {given}.",
                "They are two positive fractions of a number, the first smaller.",
                "Give two fractions, such as 0.1 and 0.3.",
                "Nothing was written.",
                place="bands",
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Bands from two percentages, such as "10,30".

        Raises:
            ReleaseError: as the class, or the text holds something else.
        """
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*,\s*(\d+(?:\.\d+)?)\s*%?\s*", text, re.ASCII)
        if found is None:
            raise ReleaseError(
                "bands-not-percentages",
                f"The bands of reliability are {text!r}.",
                "They are two percentages, separated by a comma.",
                "Give two percentages, such as 10,30.",
                "Nothing was written.",
                place="bands",
            )
        return cls(*(float(x) / 100 for x in found.groups()))

    def of(self, values: Floats, margins: Floats) -> npt.NDArray[Any]:
        """The :class:`Band` of each number, in the shape of the values; both in people.

        Args:
            values: estimates.
            margins: of error, in the same shape.
        """
        return np.asarray(_CHOICES[1 * (margins > self.reliable * values) + (margins > self.care * values)])
