"""The sentences on the end of a search, and their form in the document of a plan: ids and numbers, no text.

The numbers are rounded as readers see them. Their last digits differ between processors, and the hash of a plan must
not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fitnoise.errors import PlanError
from fitnoise.messages import Message, Value, ValueKind, catalogue
from fitnoise.messages import document as message_document

MAX_STATUS_NUMBER = 2**63
"""The largest absolute value of a number in a status."""

_KINDS = {
    "alpha": ValueKind.NUMBER,
    "delta": ValueKind.NUMBER,
    "epsilon": ValueKind.PEOPLE,
    "gap": ValueKind.GAP,
    "guess_least": ValueKind.PEOPLE,
    "guess_most": ValueKind.PEOPLE,
    "index": ValueKind.COUNT,
    "least": ValueKind.PEOPLE,
    "levels": ValueKind.COUNT,
    "limit": ValueKind.NUMBER,
    "most": ValueKind.PEOPLE,
    "optima": ValueKind.COUNT,
    "rank": ValueKind.COUNT,
    "seconds": ValueKind.NUMBER,
    "sets": ValueKind.COUNT,
    "size": ValueKind.COUNT,
    "stages": ValueKind.COUNT,
    "temperature": ValueKind.NUMBER,
    "times": ValueKind.PEOPLE,
    "unprojected": ValueKind.PEOPLE,
}
"""The kind of each number of a status, by its key."""


def status_message(text_id: str, **numbers: float) -> Message:
    """Return one sentence of a status, with its numbers rounded to the digits that readers see."""
    return Message(text_id, tuple(Value(key, _rounded(x, _KINDS[key]), _KINDS[key]) for key, x in numbers.items()))


def write_status(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return a status as the document of a plan has it."""
    return [*map(message_document, messages)]


def read_status(document: Any) -> tuple[Message, ...]:
    """Return the status that `write_status` wrote.

    Raises:
        PlanError: The document is not a list of sentences of a status with their numbers.
    """
    if not isinstance(document, list) or not all(map(_is_sentence, document)):
        raise PlanError(
            "unknown-status",
            "The status of the plan is not a list of ids with their numbers.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    numbers = [{key: number for key, number in x.items() if key != "id"} for x in document]
    return tuple(status_message(x["id"], **own_numbers) for x, own_numbers in zip(document, numbers, strict=True))


def _is_sentence(x: Any) -> bool:
    """Return True if this is the id of a sentence on the end of a search, with its numbers."""
    text = catalogue("en").get(x["id"]) if isinstance(x, dict) and isinstance(x.get("id"), str) else None
    if text is None or not x["id"].startswith("report.status."):
        return False
    numbers = {key: n for key, n in x.items() if key != "id"}
    # A NaN fails the comparison too.
    has_numbers = all(isinstance(n, int | float) and abs(n) <= MAX_STATUS_NUMBER for n in numbers.values())
    return has_numbers and numbers.keys() == set(re.findall(r"\{(\w+)\}", text))


def _rounded(x: float, kind: ValueKind) -> float:
    return int(x) if kind is ValueKind.COUNT else float(format(x, kind.rounding))
