"""The metadata of a publication: the publisher's statements for catalogues and archives, the table [metadata].

They are declarations, and nothing in them depends on data. A plan carries them, and its hash does not cover them: they
change neither the measured integers nor the charge.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from typing import Any, final

from pydantic import Field

from fitnoise.errors import SpecError
from fitnoise.request.arguments import refuse_unless_fields_fit
from fitnoise.request.spec_section import SpecSection

OUTCOME = "No plan was made."

LICENCES = (
    "CC0-1.0",
    "CC-BY-3.0",
    "CC-BY-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-SA-4.0",
    "DL-DE-BY-2.0",
    "DL-DE-ZERO-2.0",
    "etalab-2.0",
    "NLOD-1.0",
    "NLOD-2.0",
    "ODbL-1.0",
    "ODC-By-1.0",
    "OGL-Canada-2.0",
    "OGL-UK-3.0",
    "PDDL-1.0",
)
"""The licences for data that can be named by their ids in the SPDX list; any other licence is named by its URL."""

NEEDED_LICENCE = f"It must be one of these ids of the SPDX list, or a URL: {', '.join(LICENCES)}."
"""The sentence of errors that says what a licence must be."""

TEXTS = (
    "description",
    "publisher",
    "geography",
    "contact",
    "keywords",
    "unit_of_measure",
    "amount_units",
    "methodology",
)
"""The statements that readers read, which can have texts in further languages."""

_URL = re.compile(r"https?://[A-Za-z0-9][^\s<>\"{}|\\^`]*")
_FORMS = {
    "contact_email": (
        re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+"),
        "an e-mail address",
        "data@office.example",
    ),
    "version": (
        re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){0,2}"),
        "one to three whole numbers with dots, as SDMX has versions",
        "1.0",
    ),
    "agency": (
        re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*"),
        "an id of SDMX: a letter, then letters, digits, _ and -",
        "ESTAT",
    ),
}
"""The form of a text, in words, and an example."""

_PART = re.compile(r"([0-9]{4})(?:-(?:S([12])|Q([1-4])|(0[1-9]|1[0-2])))?")
_DAYS = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:/([0-9]{4}-[0-9]{2}-[0-9]{2}))?")


@final
@dataclass(frozen=True)
class Metadata:
    """Statements about a publication, for catalogues and archives. All of them are optional.

    Attributes:
        description: The content of the tables, in a few sentences.
        publisher: The office that publishes the tables.
        agency: The id of the office in SDMX, such as ESTAT.
        period: The reference period: 2025, 2025-S1, 2025-Q1, 2025-03, 2025-03-31, or two days 2025-01-01/2025-06-30.
        geography: The name of the region that the records describe, or its URL.
        contact: The name of the point of contact.
        contact_email: The e-mail address of the point of contact.
        licence: The SPDX id of a licence for data (:data:`LICENCES`), or the URL of another one.
        version: The version of the publication: one to three whole numbers with dots, such as 1.0.
        keywords: Words by which the publication is found.
        unit_of_measure: The unit of counts, such as "persons".
        amount_units: The unit of each amount that tables add up or average, such as {"income": "EUR"}.
        methodology: A note on the method, or its URL.

    Raises:
        SpecError: A text is empty, or is no period, licence, version, e-mail address or id.
    """

    description: str | None = None
    publisher: str | None = None
    agency: str | None = None
    period: str | None = None
    geography: str | None = None
    contact: str | None = None
    contact_email: str | None = None
    licence: str | None = None
    version: str | None = None
    keywords: tuple[str, ...] = ()
    unit_of_measure: str | None = None
    amount_units: Mapping[str, str] = field(default_factory=dict)
    methodology: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keywords", tuple(self.keywords))
        object.__setattr__(self, "amount_units", dict(self.amount_units))
        refuse_unless_fields_fit(self, SpecError, OUTCOME)
        texts = {f.name: (x,) for f in fields(self) if isinstance(x := getattr(self, f.name), str)}
        for key, values in {**texts, "keywords": self.keywords, "amount_units": self.amount_units.values()}.items():
            if not all(isinstance(x, str) and x.strip() for x in values):
                raise SpecError(
                    "metadata-text-empty",
                    f"The key {key} of the metadata has an empty text.",
                    "",
                    "Write the text, or remove it.",
                    OUTCOME,
                    place=key,
                )
        for key, (pattern, needed, example) in _FORMS.items():
            text = getattr(self, key)
            if text is not None and not pattern.fullmatch(text):
                raise SpecError(
                    "metadata-value-unreadable",
                    f"The key {key} is {text!r}.",
                    f"It must be {needed}.",
                    f"Give a value such as {example}.",
                    OUTCOME,
                    place=key,
                )
        if self.licence is not None and not is_licence(self.licence):
            raise SpecError(
                "metadata-licence-unknown",
                f"The licence is {self.licence!r}.",
                NEEDED_LICENCE,
                "Give an id, such as CC-BY-4.0, or the URL of another licence.",
                OUTCOME,
                place="licence",
            )
        # Raises for a text that states no period.
        _ = self.days

    @property
    def days(self) -> tuple[date, date] | None:
        """The first and the last day of the reference period; None without one."""
        if self.period is None:
            return None
        try:
            if match := _DAYS.fullmatch(self.period):
                first_day = date.fromisoformat(match[1])
                last_day = date.fromisoformat(match[2] or match[1])
                if first_day <= last_day:
                    return first_day, last_day
            if match := _PART.fullmatch(self.period):
                months = next((n for n, x in zip((6, 3, 1), match.groups()[1:], strict=True) if x is not None), 12)
                start = 1 + months * (int(next((x for x in match.groups()[1:] if x is not None), 1)) - 1)
                year, end = int(match[1]), start + months - 1
                return date(year, start, 1), date(year, end, calendar.monthrange(year, end)[1])
        except ValueError:  # a day such as 2025-02-30, or the year 0
            pass
        raise SpecError(
            "metadata-period-unreadable",
            f"The reference period is {self.period!r}.",
            "It must be a year, half-year, quarter, month or day, or two days, the earlier one first.",
            "Give a period such as 2025, 2025-S1, 2025-Q1, 2025-03, 2025-03-31 or 2025-01-01/2025-06-30.",
            OUTCOME,
            place="period",
        )

    @property
    def licence_url(self) -> str | None:
        """The URL of the licence: for an id, its page in the SPDX list."""
        if self.licence is None or is_url(self.licence):
            return self.licence
        return f"https://spdx.org/licenses/{self.licence}"

    def document(self) -> dict[str, Any]:
        """Return the statements as the table [metadata] has them, without absent ones."""
        by_name = {f.name: getattr(self, f.name) for f in fields(self)}
        document = by_name | {"keywords": list(self.keywords), "amount_units": dict(self.amount_units)}
        return {key: x for key, x in document.items() if x}


def is_licence(text: str) -> bool:
    """Return True if a text names a licence: an id of :data:`LICENCES`, or a URL."""
    return text in LICENCES or is_url(text)


def is_url(text: str) -> bool:
    """Return True if a text is a URL of http or https."""
    return bool(_URL.fullmatch(text))


_Texts = str | dict[str, str]
"""A text, or texts by language."""


class MetadataSpec(SpecSection):
    """Statements for catalogues and archives; the hash of the plan does not cover them."""

    description: _Texts | None = Field(None, description="The content of the tables. If absent, fitnoise writes one.")
    publisher: _Texts | None = Field(
        None, description="The office that publishes the tables. If absent, no publisher is named."
    )
    agency: str | None = Field(
        None, description="The id of the office in SDMX, such as ESTAT. If absent, the publisher's name is made an id."
    )
    period: str | None = Field(
        None,
        description="The reference period: 2025, 2025-S1, 2025-Q1, 2025-03, 2025-03-31, or two days "
        "2025-01-01/2025-06-30. If absent, no period is stated.",
    )
    geography: _Texts | None = Field(
        None, description="The name of the region that the records describe, or its URL. If absent, no region is named."
    )
    contact: _Texts | None = Field(
        None, description="The name of the point of contact, such as a desk. If absent, the publisher is the contact."
    )
    contact_email: str | None = Field(
        None, description="The e-mail address of the point of contact. If absent, no address is stated."
    )
    licence: str | None = Field(
        None,
        description="The SPDX id of a licence for data, such as CC-BY-4.0, or the URL of a licence. If absent, no "
        "licence is stated.",
    )
    version: str | None = Field(
        None, description="The version of the publication, such as 1.0. If absent, no version is stated."
    )
    keywords: list[str] | dict[str, list[str]] = Field(
        [], description="Words by which the publication is found. If absent, there are none."
    )
    unit_of_measure: _Texts | None = Field(
        None, description='The unit of counts, such as "persons". If absent, counts are of records.'
    )
    amount_units: dict[str, _Texts] = Field(
        {}, description='The unit of each amount, such as "EUR". If absent, sums and means are in units of the amount.'
    )
    methodology: _Texts | None = Field(
        None, description="A note on the method, or its URL. If absent, only fitnoise's own statements are made."
    )
