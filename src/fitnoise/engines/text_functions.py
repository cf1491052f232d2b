"""The functions of texts of the engines that read declared forms.

**Purpose.** Each engine has other names for the same few functions, and another way from digits to a double. A trial
compares what they return (`engine_check`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True)
class TextFunctions:
    """The functions of texts of one engine.

    Templates, {c} a text, {p} a pattern, {x} a time:

    literal: A text, with its bytes {h} or its characters {u} in hexadecimal.
    raw: A column as a text that is compared letter by letter.
    end: The end of a text, in a pattern.
    matches: True if a part of a text has a pattern.
    group: A text with the part that has the pattern replaced by the first group of the pattern.
    removed: A text without all parts that have a pattern.
    stripped: A text without the characters of {a} around it.
    mapped: A text in which each character of {a} is replaced by that of {b} in the same place, or is left out.
    composed: A text in composed characters (Unicode NFC).
    double: The double nearest to the decimal number in a text.
    decimal: A decimal number for a text such as 123e-4 with at most 801 digits, which `Dialect.decimal` turns into a
    double. It is empty if `double` reads numbers of any size, and otherwise `double` reads short ones.
    moment: A time without a zone, from the numbers {y}, {m}, {d}, {h}, {i} and {s}.
    later: A time, {n} minutes later.
    to_utc, from_utc: The time in UTC of a local time in the zone {z}, and the local time of a time in UTC.
    formatted: A time as 2024-02-29 23:59:59.
    fence: The end of a query whose expressions the engine must not repeat wherever its columns are used.
    """

    literal: str = ""
    raw: str = ""
    end: str = ""
    matches: str = ""
    group: str = ""
    removed: str = ""
    stripped: str = ""
    mapped: str = ""
    composed: str = ""
    moment: str = ""
    later: str = ""
    to_utc: str = ""
    from_utc: str = ""
    formatted: str = ""
    double: str = ""
    decimal: str = ""
    fence: str = ""


NONE: Final = TextFunctions()
"""The functions of an engine that reads nothing from texts."""

POSTGRESQL: Final = TextFunctions(
    literal="U&'{u}'",
    raw='CAST({c} AS TEXT) COLLATE "C"',
    end=r"\Z",
    matches="{c} ~ {p}",
    group=r"regexp_replace({c}, {p}, '\1')",
    removed="regexp_replace({c}, {p}, '', 'g')",
    stripped="btrim({c}, {a})",
    mapped="translate({c}, {a}, {b})",
    composed="normalize({c}, NFC)",
    double="CAST({c} AS DOUBLE PRECISION)",
    decimal="CAST({c} AS NUMERIC)",
    moment=(
        "make_timestamp(CAST({y} AS int), CAST({m} AS int), CAST({d} AS int), CAST({h} AS int), CAST({i} AS int), {s})"
    ),
    later="{x} + {n} * interval '1 minute'",
    to_utc="({x} AT TIME ZONE {z}) AT TIME ZONE 'UTC'",
    from_utc="({x} AT TIME ZONE 'UTC') AT TIME ZONE {z}",
    formatted="to_char({x}, 'YYYY-MM-DD HH24:MI:SS')",
    fence=" OFFSET 0",
)

SPARK: Final = TextFunctions(
    literal="CAST(X'{h}' AS STRING)",
    raw="CAST(CAST({c} AS BINARY) AS STRING)",  # which has no collation
    end=r"\z",
    matches="{c} RLIKE {p}",
    group="regexp_replace({c}, {p}, '$1')",
    removed="regexp_replace({c}, {p}, '')",
    stripped="trim(BOTH {a} FROM {c})",
    mapped="translate({c}, {a}, {b})",
    composed="",
    double="CAST({c} AS DOUBLE)",
    moment="make_timestamp_ntz({y}, {m}, {d}, {h}, {i}, {s})",
    later="{x} + make_dt_interval(0, 0, {n}, 0)",
    to_utc="convert_timezone({z}, 'UTC', {x})",
    from_utc="convert_timezone('UTC', {z}, {x})",
    formatted="date_format({x}, 'yyyy-MM-dd HH:mm:ss')",
)
