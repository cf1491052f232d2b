"""Tables in SDMX 3.0: the structure as SDMX-ML, by pysdmx, and the numbers as SDMX-CSV 2.0.

Each table is a dataflow with a structure of its own. Its dimensions are the attributes of the table, and the reference
period. Its measure is the published number. The margin, the standard error and other numbers are attributes of each
observation; unit of measure and confidence level are attributes of the data set.

Ids of SDMX have letters of the English alphabet, digits and signs: other characters of a code become _. If two ids of
one list coincide, the later one gets a number. Each code keeps its label as name, and its text as description if the
id differs. Names are in all languages that the publication has for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np

from fitnoise.interfaces.exports.resources import Resource, first_publication, further_languages, own_language, titles
from fitnoise.interfaces.render import printable
from fitnoise.messages import Translator
from fitnoise.reading.layouts import Tabled
from fitnoise.reading.refusals import UNWRITTEN, missing_package
from fitnoise.reading.release_files import csv_text
from fitnoise.request.attributes import CODE

if TYPE_CHECKING:
    import pandas as pd

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of preparation that each message states, so that an export is the same whenever it is written."""

CONCEPTS = {
    "TIME_PERIOD": "page.sdmx.time_period",
    "OBS_VALUE": "page.sdmx.obs_value",
    "NOISE_STD_ERROR": "page.sdmx.noise_std_error",
    "SAMPLING_STD_ERROR": "page.sdmx.sampling_std_error",
    "STD_ERROR": "page.sdmx.std_error",
    "MOE": "page.sdmx.moe",
    "CV": "page.sdmx.cv",
    "LOW": "page.sdmx.low",
    "HIGH": "page.sdmx.high",
    "UNBIASED_VALUE": "page.sdmx.unbiased_value",
    "SIMULATED_RMSE": "page.sdmx.simulated_rmse",
    "SIMULATED_BIAS": "page.sdmx.simulated_bias",
    "RELIABILITY": "page.sdmx.reliability",
    "UNIT_MEASURE": "page.sdmx.unit_measure",
    "CONF_LEVEL": "page.sdmx.conf_level",
}
"""The concepts that tables have in addition to their attributes, with the ids of their names."""


TOTAL = {"Total": (("_T", "Total"),)}
"""The dimension of a table of one number, with the usual code of SDMX for a total."""


SCHEME = "CS_FITNOISE"
"""The id of the scheme of the concepts."""

Codes = tuple[tuple[str, str], ...]
"""Code and label of each row along an attribute."""


def _library() -> tuple[Any, Any]:
    """Return pysdmx: its model and its writer. Raise ReleaseError if it is not installed."""
    try:
        from pysdmx import io, model
    except ModuleNotFoundError:
        raise missing_package("SDMX files", "pysdmx", "sdmx", UNWRITTEN) from None
    return model, io


class Structure:
    """The structures of the tables of one export: code lists, concepts, and a dataflow for each table."""

    def __init__(self, source: Tabled, title: str) -> None:
        # Before the first table is written: a missing package would be found after all of them.
        self.model, self.io = _library()
        publication = first_publication(source)
        metadata, self.language = publication.metadata, publication.language
        self.own, self.further = own_language(source), further_languages(source)
        self.texts: list[dict[str, str]] = []
        self.title = self._numbered({tag: text for text, tag in titles(source, title)})
        agency = metadata.agency or ids([metadata.publisher or "FITNOISE"], upper=True)[0]
        numbers = [*(metadata.version or "1").split("."), "0", "0"][:3]
        self.owner = {"agency": agency, "version": ".".join(numbers)}
        self.period = None if metadata.days is None else _period(str(metadata.period), *metadata.days)
        self.flows = dict(zip(source, ids(source, upper=True), strict=True))
        self.concepts: dict[str, str] = {}
        self.lists: dict[tuple[str, Codes], Any] = {}
        self.structures: list[Any] = []

    def data(self, x: Resource, frame: pd.DataFrame, fixed: Collection[str]) -> tuple[str, str]:
        """Return place and text of the numbers of a table, with the ids of the dimensions' codes."""
        flow = self.flows[x.name]
        columns: dict[str, Any] = {
            "STRUCTURE": _constant("dataflow", x.rows),
            "STRUCTURE_ID": _constant(f"{self.owner['agency']}:{flow}({self.owner['version']})", x.rows),
            "ACTION": _constant("I", x.rows),
        }
        parts = []
        # A structure needs a dimension: a table of one number has that of the total.
        for attribute, rows in (x.dimensions or TOTAL).items():
            key, code = self._concept(attribute), f"{attribute}_{CODE}"
            parts.append(self._component(key, "DIMENSION", codes=self._list(key, attribute, rows)))
            id_of = dict(zip((c for c, _ in rows), ids(c for c, _ in rows), strict=True))
            values = frame[code if code in frame else attribute] if x.dimensions else [c for c, _ in rows]
            columns[key] = np.array([id_of[str(c)] for c in values], dtype=object)
        if self.period is not None:
            parts.append(self._component("TIME_PERIOD", "DIMENSION", "PERIOD"))
            columns["TIME_PERIOD"] = _constant(self.period, x.rows)
        numbers = [c.name for c in x.columns if c.attribute is None]
        keys = ("OBS_VALUE", *(name.upper() for name in numbers[1:]))
        parts.append(self._component("OBS_VALUE", "MEASURE", "DECIMAL"))
        for key in keys[1:]:
            parts.append(self._component(key, "ATTRIBUTE", "STRING" if key == "RELIABILITY" else "DECIMAL", "O"))
        columns |= {key: frame[name].to_numpy() for key, name in zip(keys, numbers, strict=True)}
        for key, kind, constant in (
            ("UNIT_MEASURE", "STRING", printable(x.unit)),
            ("CONF_LEVEL", "DECIMAL", f"{x.layout.confidence:.12g}"),
        ):
            parts.append(self._component(key, "ATTRIBUTE", kind, "D"))
            columns[key] = _constant(constant, x.rows)
        described, components = self._numbered({self.own.code: x.description}), self.model.Components(parts)
        name = self._by_language(lambda language: language.table(x.name))
        structure = self.model.DataStructureDefinition(f"DSD_{flow}", name=name, components=components, **self.owner)
        dataflow = self.model.Dataflow(flow, name=name, description=described, structure=structure, **self.owner)
        self.structures += [structure, dataflow]
        with_decimals = {key for key, number in zip(keys, numbers, strict=True) if number in fixed}
        return f"sdmx/{x.id}.csv", csv_text(columns, fixed=with_decimals)

    def message(self) -> tuple[str, str]:
        """Return place and text of the structures of all tables written so far."""
        used = {part.id for x in self.structures[::2] for part in x.components}
        languages = {self.own.code: self.own, **self.further}
        names = {
            key: self._numbered({tag: x.translate(text_id) for tag, x in languages.items()})
            for key, text_id in CONCEPTS.items()
        }
        names |= {key: self._name(attribute) for attribute, key in self.concepts.items()}
        items = [self.model.Concept(key, name=name) for key, name in names.items() if key in used]
        scheme = self.model.ConceptScheme(SCHEME, name=self.title, items=items, **self.owner)
        agency = self.model.Agency(self.owner["agency"])
        header = self.model.message.Header(id=f"FITNOISE_{agency.id}", prepared=EPOCH, sender=agency)
        form = self.io.format.Format.STRUCTURE_SDMX_ML_3_0
        text = self.io.write_sdmx([*self.lists.values(), scheme, *self.structures], form, header=header)
        # pysdmx gives each element one name and one description, and calls them English.
        numbered = '<com:(Name|Description) xml:lang="en">([0-9]+)</com:[A-Za-z]+>'
        return "sdmx/structure.xml", re.sub(numbered, self._elements, text)

    def _name(self, text: str, attribute: str | None = None, code: str = "") -> str:
        """Return the number of a name; of a label, if its attribute and code are given. Names have all languages."""

        def translate(language: Translator) -> str:
            return language.name(text) if attribute is None else language.label(attribute, text, code)

        return self._by_language(translate)

    def _by_language(self, translate: Callable[[Translator], str]) -> str:
        """Return the number of a text in all languages that have another one."""
        main, further = translate(self.own), {tag: translate(x) for tag, x in self.further.items()}
        return self._numbered({self.language: main, **{tag: x for tag, x in further.items() if x != main}})

    def _numbered(self, texts: dict[str, str]) -> str:
        """Return the number that stands for texts by language until the structures are written."""
        self.texts.append(texts)
        return str(len(self.texts) - 1)

    def _elements(self, numbered: re.Match[str]) -> str:
        """Return the elements of a name or a description, one for each language."""
        kind, texts = numbered[1], self.texts[int(numbered[2])].items()
        return "".join(f'<com:{kind} xml:lang="{tag}">{escape(printable(x))}</com:{kind}>' for tag, x in texts)

    def _code(self, attribute: str, code: str, text: str) -> str:
        """Return the number of the text of a code: English for a bin, whose text is fitnoise's own."""
        is_english = code == text and self.own.label(attribute, text, code) != text
        return self._numbered({"en" if is_english else self.language: code})

    def _concept(self, attribute: str) -> str:
        """Return the id of the concept of an attribute, which is the same in all tables."""
        if attribute not in self.concepts:
            self.concepts[attribute] = ids([*self.concepts, attribute], upper=True, taken=CONCEPTS)[-1]
        return self.concepts[attribute]

    def _component(
        self, key: str, role: str, kind: str | None = None, level: str | None = None, codes: Any = None
    ) -> Any:
        """Return a component of a structure.

        Args:
            key: The id of its concept.
            role: "DIMENSION", "MEASURE" or "ATTRIBUTE".
            kind: Its data type; None for codes.
            level: "O" for an attribute of each observation, "D" for one of the data set.
            codes: Its code list.
        """
        model = self.model
        reference = model.ItemReference("Concept", id=SCHEME, item_id=key, **self.owner)
        kind_of_value = None if kind is None else model.DataType[kind]
        return model.Component(
            key, True, model.Role[role], reference, kind_of_value, local_codes=codes, attachment_level=level
        )

    def _list(self, key: str, attribute: str, rows: Codes) -> Any:
        """Return the code list of an attribute, which tables share if they show the attribute in one way."""
        if (key, rows) not in self.lists:
            number = 1 + sum(k == key for k, _ in self.lists)
            items = [
                self.model.Code(
                    i,
                    name=self._name(text, attribute, code),
                    description=None if i == code else self._code(attribute, code, text),
                )
                for i, (code, text) in zip(ids(code for code, _ in rows), rows, strict=True)
            ]
            name = f"CL_{key}" if number == 1 else f"CL_{key}_{number}"
            self.lists[key, rows] = self.model.Codelist(name, name=self._name(attribute), items=items, **self.owner)
        return self.lists[key, rows]


def ids(texts: Iterable[Hashable], *, upper: bool = False, taken: Collection[str] = ()) -> tuple[str, ...]:
    """Return the ids of SDMX for different texts: one for each, and no two equal.

    Args:
        texts: Codes, or names.
        upper: True for ids in capitals, with a letter in front: those of concepts and structures.
        taken: Ids that none may have.

    **Guarantees**
        * A code of English letters, digits, _ and $ stays as it is, and so does a whole number.
        * Equal texts in equal lists have equal ids.
    """
    result: dict[str, None] = {}
    for text in map(str, texts):
        # A sign in front could begin a formula of a spreadsheet, and would get an apostrophe in the CSV file.
        base = re.sub(r"[^A-Za-z0-9_$-]|^-(?!\d+\Z)", "_", text) or "_"
        if upper:
            base = base.upper().replace("$", "_")
            base = base if base[0].isalpha() else f"A_{base}"
        key, number = base, 1
        while key in result or key in taken:
            number += 1
            key = f"{base}_{number}"
        result[key] = None
    return tuple(result)


def _period(period: str, first_day: date, last_day: date) -> str:
    """Return a reference period as SDMX has it: two days are a day and a duration."""
    return f"{first_day.isoformat()}/P{(last_day - first_day).days + 1}D" if "/" in period else period


def _constant(text: str, rows: int) -> Any:
    return np.full(rows, text, dtype=object)
