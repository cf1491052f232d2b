"""The reliability of a number, by a rule that its publisher sets.

Nothing is hidden: readers see the width of each number.
"""

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
    """The reliability class printed with a number."""

    RELIABLE = "reliable"
    CARE = "use with care"
    WIDE = "too wide"


_CHOICES = np.array([*Band], dtype=object)


@final
@dataclass(frozen=True)
class Bands:
    """The margins above which a number needs care, or is too wide, as parts of the number.

    Args:
        reliable: The largest margin of a reliable number, as a part of the number: 0.1 for a tenth.
        care: The largest margin of a number that is used with care, as a part of it. A number of larger margin is too
            wide for use without other numbers.

    Raises:
        ReleaseError: The parts are not finite numbers with 0 < reliable < care.

    **Guarantees**
        * bands depend on published numbers only, so they cost nothing; they state the width of numbers, and suppress
          none;
        * a number below 0 is too wide; a number of 0 is too wide for every margin above 0, and reliable for a margin of
          0. Callers give the absolute values of changes and losses.

    Many offices set their rule for the standard error: a part c for standard errors is a part 1.96 c for margins at 95
    %.
    """

    reliable: float
    care: float

    def __post_init__(self) -> None:
        limits = (self.reliable, self.care)
        numbers = all(map(is_plain, limits))
        if not numbers or not 0 < self.reliable < self.care < np.inf:
            raise ReleaseError(
                "wrong-bands",
                f"The bands of reliability are {limits}.",
                "They are two positive fractions of a number, the first smaller.",
                "Give two fractions, such as 0.1 and 0.3.",
                "Nothing was written.",
                place="bands",
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return bands from two percentages, such as "10,30".

        Raises:
            ReleaseError: As for the class, or the text has another form.
        """
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*,\s*(\d+(?:\.\d+)?)\s*%?\s*", text, re.ASCII)
        limits = () if match is None else tuple(float(x) / 100 for x in match.groups())
        if not limits or not 0 < limits[0] < limits[1]:
            raise ReleaseError(
                "bands-not-percentages",
                f"The bands of reliability are {text!r}.",
                "They are two percentages above 0, the smaller one first, separated by a comma.",
                "Give two percentages, such as 10,30.",
                "Nothing was written.",
                place="bands",
            )
        return cls(*limits)

    def classify(self, values: Floats, margins: Floats) -> npt.NDArray[Any]:
        """Return the :class:`Band` of each number, in the shape of the values; both arguments are in one unit.

        Args:
            values: The estimates.
            margins: The margins of error, in the shape of the values.
        """
        # 0 < reliable < care, so a number fails no limit, the first, or both. Products, because a number may be 0
        return np.asarray(_CHOICES[1 * (margins > self.reliable * values) + (margins > self.care * values)])
