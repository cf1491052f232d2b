"""One table as a form builds it: the columns that break it down, the form of each, and the quantity in its cells.

    table of a document  <── table_fields, with_table ──>  TableFields  <── submitted_fields ──  form

A table with keys that the form does not show has no fields: only the file can change it. Nothing here reads data.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from fitnoise.errors import FitnoiseError, SpecError
from fitnoise.kernel.checks import is_plain
from fitnoise.reading.layouts import EmptyTable, empty_table
from fitnoise_studio import forms
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.folder import publication_of
from fitnoise_studio.refusals import FormError, Refusals

EACH_VALUE, GROUPS, CUMULATIVE, RANGES = "", "groups", "cumulative", "ranges"

VIEWS_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "categorical": (EACH_VALUE, GROUPS),
    "ordered": (EACH_VALUE, GROUPS, CUMULATIVE, RANGES),
    "binned": (EACH_VALUE, CUMULATIVE, RANGES),
}
"""The forms in which a table of the builder can show a column, by the kind of the column; others show each value."""

STATISTICS = ("", "sum", "mean", "count", "median")
"""The quantities in a table: "" for the number of records. A median is read off cumulative counts."""

BAND_WIDTHS: Mapping[str, int] = {"five": 5, "ten": 10}
"""The widths of bands of equal width, by the name of the preset."""

AGES = "ages"
"""The preset of the bands 0–14, 15–64 and 65 and over."""

MAX_BANDS = 200
"""The largest number of bands of a column that a form proposes."""

MAX_PREVIEWED_VALUES = 200_000
"""The largest number of whole numbers of a column that a preview lists."""

PREVIEW_ROWS = 12
"""The number of rows that a preview shows."""

_SHOWN_KEYS = {
    *("name", "pattern", "attributes", CUMULATIVE, RANGES, GROUPS, "sum", "mean", "count"),
    *("ceiling", "reference", "missing", *forms.TARGETS),
}
_KEPT_KEYS = {"confidence"}


@final
@dataclass(frozen=True)
class Band:
    """A band of whole numbers as a form holds it: its label, and its lowest and highest value."""

    label: str = ""
    lowest: str = ""
    highest: str = ""


@final
@dataclass(frozen=True)
class ShownColumn:
    """A column that breaks a table down.

    name: The attribute, or the level of places.
    view: The key of its form in the table; "" for each value.
    position: The place in the form: 0 for the rows, 1 for the columns, 2 and more for groups of rows.
    bands: The bands of an attribute of whole numbers.
    groups: The groups of an attribute of codes, a line each.
    """

    name: str
    view: str = EACH_VALUE
    position: int = 0
    bands: tuple[Band, ...] = ()
    groups: str = ""


@final
@dataclass(frozen=True)
class TableFields:
    """The fields of one table; `columns` are in the order of the table."""

    columns: tuple[ShownColumn, ...] = ()
    statistic: str = ""
    amount: str = ""
    ceiling: str = ""
    reference: str = ""
    pattern: str = ""
    missing: bool = False
    name: str = ""
    kind: str = "margin"
    number: str = ""


# --- from a document ------------------------------------------------------------------------------------------------


def kind_of(document: Mapping[str, Any], name: str) -> str:
    """Return the kind of an attribute; for a level of places "level"."""
    attribute = forms.domain_of(document).get(name)
    return "level" if attribute is None else str(forms.value_at(attribute, ("type",)))


def views_of(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the forms in which a table can show a column."""
    return VIEWS_BY_KIND.get(kind_of(document, name), (EACH_VALUE,))


def ordered_of(document: Mapping[str, Any]) -> list[str]:
    """Return the attributes that have a median: whole numbers, and classes of a number."""
    return [name for name in forms.shown_of(document) if kind_of(document, name) in ("ordered", "binned")]


def amounts_of(document: Mapping[str, Any], statistic: str) -> list[str]:
    """Return the attributes that a statistic can be of; a mean is of an amount, since that of others is free."""
    if statistic == "median":
        return ordered_of(document)
    summed = forms.summed_of(document)
    return [x for x in summed if kind_of(document, x) == "amount"] if statistic == "mean" else summed


def kept_keys(table: Any) -> list[str]:
    """Return the keys of a table that the form does not show, and keeps."""
    return [str(key) for key in table if key in _KEPT_KEYS] if isinstance(table, Mapping) else []


def keys_of_file(table: Any) -> list[str]:
    """Return the keys of a table that keep it from the form: those that it does not know, or else all of them."""
    keys = [str(key) for key in table] if isinstance(table, Mapping) else []
    return [key for key in keys if key not in _SHOWN_KEYS | _KEPT_KEYS] or [
        key for key in keys if key not in _KEPT_KEYS
    ]


def table_fields(document: Mapping[str, Any], table: Any) -> TableFields | None:
    """Return the fields of a table; None if it says something that only the file can say."""
    if not isinstance(table, Mapping) or {*table} - _SHOWN_KEYS - _KEPT_KEYS:
        return None
    kind, number = forms.target_of(table)
    statistics = [key for key in forms.AMOUNT_STATISTICS if key in table]
    numbers = [table.get(key, 0) for key in ("ceiling", "reference")]
    amount = table[statistics[0]] if statistics else ""
    texts = [table.get("name", ""), table.get("pattern", ""), amount]
    is_plain_table = (
        number is not None
        and len(statistics) < 2
        and all(map(is_plain, numbers))
        and all(isinstance(x, str) for x in texts)
        and isinstance(table.get("missing", False), bool)
        and table.get("pattern", "") in ("", *forms.PATTERNS)
        and (not statistics or amount in amounts_of(document, statistics[0]))
    )
    columns = _columns(document, table)
    if not is_plain_table or columns is None:
        return None
    return TableFields(
        columns=_placed(columns),
        statistic=statistics[0] if statistics else "",
        amount=amount,
        ceiling=forms.value_text(table.get("ceiling")),
        reference=forms.value_text(table.get("reference")),
        pattern=table.get("pattern", ""),
        missing=table.get("missing", False),
        name=table.get("name", ""),
        kind=kind,
        number=str(number),
    )


def _columns(document: Mapping[str, Any], table: Mapping[str, Any]) -> list[ShownColumn] | None:
    """Return the columns of a table in its order; None if the form cannot show them."""
    attributes = table.get("attributes", [])
    if not isinstance(attributes, list):
        return None
    viewed = [(key, name) for key in (CUMULATIVE, RANGES, GROUPS) for name in forms.as_names(table.get(key))]
    view_by_name = {name: key for key, name in viewed}
    names = [str(x) for x in attributes] + [name for _, name in viewed if name not in attributes]
    ranges = table.get(RANGES)
    if (
        len({*names}) < len(names)
        or len(view_by_name) < len(viewed)
        or not {*names} <= {*forms.shown_of(document)}
        or (isinstance(ranges, Mapping) and any(x != "all" for x in ranges.values()))
    ):
        return None
    columns = []
    for name in names:
        column: ShownColumn | None = ShownColumn(name, view_by_name.get(name, EACH_VALUE))
        if name in view_by_name and view_by_name[name] == GROUPS:
            column = _grouped(document, name, table[GROUPS][name])
        if column is None or column.view not in views_of(document, name):
            return None
        columns.append(column)
    return columns


def _grouped(document: Mapping[str, Any], name: str, groups: Any) -> ShownColumn | None:
    """Return a column that is shown in groups; None if one of them is no band and no list of codes."""
    if not isinstance(groups, Mapping) or not groups:
        return None
    if kind_of(document, name) == "categorical":
        listed = {str(label): x if isinstance(x, list) else [x] for label, x in groups.items()}
        is_codes = all(isinstance(x, bool | int | str) for codes in listed.values() for x in codes)
        return ShownColumn(name, GROUPS, groups=forms.missing_text({"missing": listed})) if is_codes else None
    bands = []
    for label, values in groups.items():
        ends = [values.get("first"), values.get("last")] if isinstance(values, Mapping) else values
        ends = ends if isinstance(ends, list) else [ends, ends]
        if len(ends) != 2 or not all(isinstance(x, int) and not isinstance(x, bool) for x in ends):
            return None
        bands.append(Band(str(label), *map(str, ends)))
    return ShownColumn(name, GROUPS, bands=tuple(bands))


def _placed(columns: Sequence[ShownColumn]) -> tuple[ShownColumn, ...]:
    """Return columns in the order of a table with their places: the last is across, the one before is the rows."""
    if len(columns) < 2:
        return tuple(columns)
    outer = range(2, len(columns))
    return tuple(replace(x, position=i) for x, i in zip(columns, (*outer, 0, 1), strict=True))


# --- from a form ----------------------------------------------------------------------------------------------------


def submitted_fields(form: SubmittedForm) -> TableFields:
    """Return the fields that a form holds, as they were written."""
    columns = []
    for i in range(_count(form, "show.")):
        if not form[f"show.{i}"]:
            continue
        # Bands belong to the column for which they were shown.
        is_own = form.get(f"of.{i}") == form[f"show.{i}"]
        bands = tuple(
            Band(*(form.get(f"{key}.{i}.{j}", "").strip() for key in ("band", "first", "last")))
            for j in range(_count(form, f"band.{i}."))
        )
        groups = form.get(f"groups.{i}", "").replace("\r\n", "\n").strip("\n")
        columns.append(
            ShownColumn(
                form[f"show.{i}"],
                form.get(f"view.{i}", EACH_VALUE),
                i,
                bands if is_own else (),
                groups if is_own else "",
            )
        )
    return TableFields(
        columns=tuple(sorted(columns, key=lambda x: (x.position < 2, x.position))),
        statistic=form.get("told", ""),
        amount=form.get("amount", ""),
        ceiling=form.get("ceiling", "").strip(),
        reference=form.get("reference", "").strip(),
        pattern=form.get("pattern", ""),
        missing="missing" in form,
        name=form.get("name", "").strip(),
        kind=form.get("kind", "margin"),
        number=form.get("number", "").strip(),
    )


def _count(form: SubmittedForm, prefix: str) -> int:
    """Return the number of fields of a form that are numbered from 0 after a prefix."""
    return next(i for i in itertools.count() if f"{prefix}{i}" not in form)


def acted(document: Mapping[str, Any], fields: TableFields, action: str) -> TableFields:
    """Return fields after a button of the form, and with what the choices need: a possible view, and first bands.

    action: "swap" exchanges rows and columns; "preset.PLACE.NAME" replaces the bands of a column; all else does no
        more than complete the fields.
    """
    if action == "swap":
        columns = [replace(x, position=1 - x.position) if x.position < 2 else x for x in fields.columns]
        fields = replace(fields, columns=tuple(sorted(columns, key=lambda x: (x.position < 2, x.position))))
    preset = re.fullmatch(r"preset\.([0-9]{1,2})\.(\w+)", action)
    columns = [_completed(document, x, preset) for x in fields.columns]
    return replace(fields, columns=tuple(columns))


def _completed(document: Mapping[str, Any], x: ShownColumn, preset: re.Match[str] | None) -> ShownColumn:
    """Return a column in a form that it can have, with first bands if it has none, or with those of a preset."""
    if x.view not in views_of(document, x.name):
        return replace(x, view=EACH_VALUE)
    if x.view != GROUPS or kind_of(document, x.name) != "ordered":
        return x
    presets = presets_of(document, x.name)
    if preset is not None and int(preset[1]) == x.position and preset[2] in presets:
        return replace(x, bands=presets[preset[2]])
    return x if x.bands else replace(x, bands=_bands_of_before(document, x.name) or next(iter(presets.values()), ()))


def ends_of(document: Mapping[str, Any], name: str) -> tuple[int, int, bool] | None:
    """Return the lowest and highest whole number of an attribute, and if those outside count there; None without."""
    attribute = forms.domain_of(document).get(name)
    low, high = (forms.value_at(attribute, (key,)) for key in ("low", "high"))
    if not all(isinstance(x, int) and not isinstance(x, bool) for x in (low, high)) or low > high:
        return None
    return low, high, forms.value_at(attribute, ("clip",)) is True


def presets_of(document: Mapping[str, Any], name: str) -> dict[str, tuple[Band, ...]]:
    """Return the bands that a form proposes for whole numbers, by the name of the preset."""
    ends = ends_of(document, name)
    if ends is None:
        return {}
    low, high, clip = ends
    starts = {AGES: [low, 15, 65]} if low in (0, 1) and 65 < high <= 130 else {}
    for key, width in BAND_WIDTHS.items():
        next_start = width * (low // width + 1)
        if (high - low) // width + 1 < MAX_BANDS and high - low >= width:
            starts[key] = [low, *range(next_start, high + 1, width)]
    equal = max(1, math.ceil((high - low + 1) / 10))
    if not starts:
        starts["equal"] = list(range(low, high + 1, equal))
    return {key: _bands_from(x, high, clip) for key, x in starts.items()}


def _bands_from(starts: Sequence[int], high: int, clip: bool) -> tuple[Band, ...]:
    """Return bands that start at some numbers; the last is open where larger numbers count in it."""
    lasts = [*(x - 1 for x in starts[1:]), high]
    texts = [str(a) if a == b else f"{a}–{b}" for a, b in zip(starts, lasts, strict=True)]
    if clip:
        texts[-1] = f"{starts[-1]}+"
    return tuple(Band(text, str(a), str(b)) for text, a, b in zip(texts, starts, lasts, strict=True))


def _bands_of_before(document: Mapping[str, Any], name: str) -> tuple[Band, ...]:
    """Return the bands of a column in the last table of the draft that has some."""
    for table in reversed(forms.tables_of(document)):
        fields = table_fields(document, table)
        for x in () if fields is None else fields.columns:
            if x.name == name and x.bands:
                return x.bands
    return ()


# --- to a document --------------------------------------------------------------------------------------------------


def with_table(document: forms.Document, form: SubmittedForm, index: str = "") -> forms.Document:
    """Return a document with a table that a form describes, in place of one of its tables or as a new last one.

    Raises:
        Refused: A field is refused, or the draft has no such table.
    """
    out = copy.deepcopy(document)
    listed = out.setdefault("tables", [])
    if not isinstance(listed, list):
        raise SpecError(
            "draft-tables-not-a-list",
            "The key tables of the draft holds no list.",
            "Tables are a list: each has a section [[tables]].",
            "Correct the draft on the page File.",
            "Nothing was changed.",
            place="tables",
        )
    fields = submitted_fields(form)
    if not index:
        listed.append(table_of(document, fields))
        return out
    i = forms.place_of(document, index, form.get("of", ""))
    before = table_fields(document, listed[i])
    if before is None:
        raise table_of_file(i)
    # A table that was not edited keeps its keys as they are written.
    if fields != before:
        rest = {key: value for key, value in listed[i].items() if key in _KEPT_KEYS}
        listed[i] = {**table_of(document, fields), **rest}
    return out


def table_of_file(index: int) -> SpecError:
    """Return the error for a table that no form can show. index: from 0."""
    return SpecError(
        "draft-table-of-file",
        f"Table {index + 1} of the draft has a key that no form shows.",
        "Only the file can change it.",
        "Change this table on the page File.",
        "Nothing was changed.",
        place="tables",
    )


def table_of(document: Mapping[str, Any], fields: TableFields) -> forms.Document:
    """Return the keys of a table.

    Raises:
        Refused: A field is refused.
    """
    with Refusals() as refusals:
        table: forms.Document = {}
        with refusals.for_field("told"):
            table = shape_of(document, fields)
        with refusals.for_field("kind"):
            forms.choice_of(SubmittedForm([("kind", fields.kind)]), "kind", forms.TARGETS)
        with refusals.for_field("number"):
            table[fields.kind] = forms.tidy(forms.real(fields.number))
    return table


def shape_of(document: Mapping[str, Any], fields: TableFields) -> forms.Document:
    """Return the keys of a table without its target.

    Raises:
        Refused: A field is refused.
    """
    columns, table = list(fields.columns), forms.Document()
    if fields.name:
        table["name"] = fields.name
    with Refusals() as refusals:
        with refusals.for_field("pattern"):
            if fields.pattern:
                form = SubmittedForm([("pattern", fields.pattern)])
                table["pattern"] = forms.choice_of(form, "pattern", [*forms.PATTERNS])
        with refusals.for_field("amount"):
            columns = _with_median(document, fields)
        groups: dict[str, Any] = {}
        for x in columns:
            with refusals.for_field(f"show.{x.position}"):
                _refuse_column(document, x, columns)
            with refusals.for_field(f"view.{x.position}"):
                if x.view not in views_of(document, x.name) and x.name in forms.shown_of(document):
                    raise SpecError(
                        "form-view-unknown",
                        f"The column {x.name!r} cannot be shown as {shown_text(x.view)}.",
                        f"It can be shown as {', '.join(map(shown_text, views_of(document, x.name)))}.",
                        "Choose one of these.",
                        "Nothing was changed.",
                    )
            if x.view == GROUPS:
                groups[x.name] = _groups(document, x, refusals)
        table |= _keys_of_columns(columns, groups)
        if fields.statistic != "median":
            _set_quantity(table, document, fields, refusals)
        if fields.missing:
            table["missing"] = True
    return table


def shown_text(view: str) -> str:
    """Return the form in which a column is shown, in words for errors."""
    texts = {EACH_VALUE: "every value", GROUPS: "groups", CUMULATIVE: "at most each value", RANGES: "every range"}
    return texts.get(view, forms.shortened(view))


def _with_median(document: Mapping[str, Any], fields: TableFields) -> list[ShownColumn]:
    """Return the columns of a table; for a median with cumulative counts of its attribute, from which it is read."""
    columns = list(fields.columns)
    if fields.statistic != "median":
        return columns
    if fields.amount not in ordered_of(document):
        raise SpecError(
            "form-median-without-order",
            f"A median is chosen, and {forms.shortened(fields.amount)} for it.",
            "A median needs a column of whole numbers, or of classes of a number.",
            "Choose such a column.",
            "Nothing was changed.",
        )
    own_column = next((x for x in columns if x.name == fields.amount), None)
    if own_column is None:
        free = next(i for i in itertools.count() if all(x.position != i for x in columns))
        return sorted(
            [*columns, ShownColumn(fields.amount, CUMULATIVE, free)], key=lambda x: (x.position < 2, x.position)
        )
    if own_column.view not in (EACH_VALUE, CUMULATIVE):
        raise SpecError(
            "form-median-of-groups",
            f"The median of {fields.amount!r} is chosen, and the table shows it as {shown_text(own_column.view)}.",
            "A median is read off counts of every value, or of at most each value.",
            "Show the column in one of these forms.",
            "Nothing was changed.",
        )
    return columns


def _refuse_column(document: Mapping[str, Any], x: ShownColumn, columns: Sequence[ShownColumn]) -> None:
    """Raise SpecError for a column that the draft does not have, or that the table has twice."""
    if x.name not in forms.shown_of(document):
        raise SpecError(
            "form-attribute-unknown",
            f"The draft has no attribute {forms.shortened(x.name)} to show.",
            "",
            "Reload the page, and choose an attribute.",
            "Nothing was changed.",
        )
    if any(y.name == x.name and y.position < x.position for y in columns):
        raise SpecError(
            "form-attribute-twice",
            f"The column {x.name!r} is chosen twice.",
            "A table shows each column once.",
            "Choose another column, or none.",
            "Nothing was changed.",
        )


def _groups(document: Mapping[str, Any], x: ShownColumn, refusals: Refusals) -> dict[str, Any]:
    """Return the groups of a column, and collect what is wrong with their fields."""
    if kind_of(document, x.name) == "categorical":
        groups: dict[str, Any] = {}
        with refusals.for_field(f"groups.{x.position}"):
            groups = forms.parse_categories(x.groups)
            if not all(groups.values()) or not groups:
                raise SpecError(
                    "form-group-empty",
                    f"A group of {x.name!r} has no code.",
                    "Each line must hold a group and its codes.",
                    "Write `group = code, code`.",
                    "Nothing was changed.",
                )
        return groups
    return _bands(document, x, refusals)


def _bands(document: Mapping[str, Any], x: ShownColumn, refusals: Refusals) -> dict[str, Any]:
    """Return the bands of a column of whole numbers, and collect what is wrong with their fields."""
    ends, out = ends_of(document, x.name), dict[str, Any]()
    if not any(band != Band() for band in x.bands):
        with refusals.for_field(f"view.{x.position}"):
            raise SpecError(
                "form-bands-missing",
                f"The column {x.name!r} is shown in bands, and has none.",
                "A table in bands needs at least one.",
                "Choose bands, or another form of the column.",
                "Nothing was changed.",
            )
    for j, band in enumerate(x.bands):
        if band == Band():  # a line without an entry
            continue
        names = [f"{key}.{x.position}.{j}" for key in ("band", "first", "last")]
        numbers: list[int] = []
        for name, text, what in ((names[1], band.lowest, "first value"), (names[2], band.highest, "last value")):
            with refusals.for_field(name):
                number = forms.parse_integer(text)
                if ends is not None and not ends[0] <= number <= ends[1]:
                    raise FormError(
                        "form-band-outside",
                        f"The band {band.label or j + 1} has the {what} {number}.",
                        f"The values of {x.name!r} go from {ends[0]} to {ends[1]}.",
                        "Enter one of these values.",
                        "Nothing was changed.",
                        low=ends[0],
                        high=ends[1],
                    )
                numbers.append(number)
        with refusals.for_field(names[0]):
            label = band.label or "–".join(dict.fromkeys((band.lowest, band.highest)))
            if label in out:
                raise FormError(
                    "form-band-twice",
                    f"Two bands have the label {label!r}.",
                    "Each band needs its own label.",
                    "Change one of them.",
                    "Nothing was changed.",
                    label=repr(label),
                )
            out[label] = None
        if len(numbers) < 2:
            continue
        with refusals.for_field(names[2]):
            if numbers[0] > numbers[1]:
                raise SpecError(
                    "form-band-reversed",
                    f"The band {label!r} goes from {numbers[0]} to {numbers[1]}.",
                    "Its last value must not be below its first.",
                    "Exchange both.",
                    "Nothing was changed.",
                )
        with refusals.for_field(names[1]):
            low, high = numbers
            for other, span in out.items():
                # Of two bands, one may lie within the other, such as a band within a total.
                if span is None or span["last"] < low or high < span["first"]:
                    continue
                a, b = span["first"], span["last"]
                if not (a <= low and high <= b) and not (low <= a and b <= high):
                    raise FormError(
                        "form-bands-overlap",
                        f"The bands {other!r} and {label!r} both contain {max(a, low)}.",
                        "Each value belongs to one band, or one band lies within the other.",
                        "Let this band start after the other ends.",
                        "Nothing was changed.",
                        label=repr(label),
                        other=repr(other),
                        value=max(a, low),
                    )
            out[label] = {"first": low, "last": high}
    return out


def _keys_of_columns(columns: Sequence[ShownColumn], groups: Mapping[str, Any]) -> forms.Document:
    """Return the keys that name the columns of a table and their forms."""
    names = [x.name for x in columns]
    by_value = [x.name for x in columns if x.view == EACH_VALUE]
    viewed = {key: [x.name for x in columns if x.view == key] for key in (CUMULATIVE, RANGES, GROUPS)}
    # Without a list of all columns, those by value come first: the shorter form where it has the same order.
    attributes = by_value if [*by_value, *itertools.chain.from_iterable(viewed.values())] == names else names
    out: forms.Document = {"attributes": attributes} if attributes else {}
    if viewed[CUMULATIVE]:
        out[CUMULATIVE] = viewed[CUMULATIVE][0] if len(viewed[CUMULATIVE]) == 1 else viewed[CUMULATIVE]
    if viewed[RANGES]:
        out[RANGES] = viewed[RANGES][0] if len(viewed[RANGES]) == 1 else dict.fromkeys(viewed[RANGES], "all")
    if viewed[GROUPS]:
        out[GROUPS] = {name: groups[name] for name in viewed[GROUPS]}
    return out


def _set_quantity(table: forms.Document, document: Mapping[str, Any], fields: TableFields, refusals: Refusals) -> None:
    """Set the quantity of an amount that a table shows, in place of the number of records."""
    statistic = fields.statistic
    with refusals.for_field("told"):
        if statistic:
            forms.choice_of(SubmittedForm([("told", statistic)]), "told", STATISTICS)
    with refusals.for_field("amount"):
        if statistic:
            if fields.amount not in amounts_of(document, statistic):
                raise SpecError(
                    "form-amount-missing",
                    f"The statistic {statistic} is chosen, and no column for it.",
                    "A statistic belongs to one column of amounts or whole numbers.",
                    "Choose the column.",
                    "Nothing was changed.",
                )
            table[statistic] = fields.amount
    has_reference = statistic == "mean" or fields.kind == "relative_std_error"
    with refusals.for_field("ceiling"):
        if statistic == "sum" and fields.ceiling:
            table["ceiling"] = forms.tidy(forms.signed(fields.ceiling))
    with refusals.for_field("reference"):
        if has_reference:
            table["reference"] = forms.tidy(forms.real(fields.reference))


# --- the empty table ------------------------------------------------------------------------------------------------


def margin_of(fields: TableFields) -> float | None:
    """Return the margin of each number; None for another target, or without a number."""
    margin = forms.number_of(fields.number) if fields.kind == "margin" else math.nan
    return margin if 0 < margin < math.inf else None


@final
@dataclass(frozen=True)
class Preview:
    """A table without numbers.

    table: Its labels.
    tables: The number of tables of its pattern; 1 without one.
    complete: The columns whose bands have every value exactly once, each with its lowest and highest value.
    """

    table: EmptyTable
    tables: int = 1
    complete: tuple[tuple[str, int, int], ...] = field(default=())


def preview(document: Mapping[str, Any], fields: TableFields, root: Path) -> Preview:
    """Return the empty table that fields describe. Files of codes are read, and no data.

    Raises:
        FitnoiseError: A field is refused, or a column that the table needs is not described yet.
    """
    shape = shape_of(document, replace(fields, reference="1", kind="margin"))
    # Columns that are not described yet do not matter to a table without them.
    needed = _needed(document, fields)
    domain = {name: keys for name, keys in forms.domain_of(document).items() if name in needed}
    for name in domain:
        ends = ends_of(document, name)
        if ends is not None and ends[1] - ends[0] >= MAX_PREVIEWED_VALUES:
            raise SpecError(
                "preview-too-large",
                f"The column {name!r} has {ends[1] - ends[0] + 1:,} values.",
                f"An empty table is shown of columns with at most {MAX_PREVIEWED_VALUES:,} values.",
                "The table can be kept without this preview.",
                "Nothing was changed.",
            )
    publication = _publication(document, domain, {**shape, "margin": 1}, root)
    tables = publication.workload.tables
    return Preview(
        empty_table(publication, tables[0], PREVIEW_ROWS),
        len(tables),
        tuple(x for column in fields.columns for x in _complete(document, column)),
    )


def _publication(document: Mapping[str, Any], domain: Mapping[str, Any], table: forms.Document, root: Path) -> Any:
    """Return the publication of one table of some attributes of a draft."""
    single_table = {
        **({"language": document["language"]} if "language" in document else {}),
        "privacy": {"unit": "unit", "max_records": 1},
        "domain": domain,
        "tables": [table],
    }
    return publication_of(forms.write(single_table), root)


FIRST_PATTERNS: Mapping[str, tuple[str, int]] = {
    "alone": ("singles", 0),
    "first": ("singles", 1),
    "pairs": ("pairs", 0),
}
"""The patterns from which a draft without tables can start: the key, and the number of attributes in all tables."""

FIRST_MARGIN = "20"
"""The margin of the tables of these patterns."""


@final
@dataclass(frozen=True)
class FirstPattern:
    """The tables of a pattern from which a draft can start.

    name: The key of `FIRST_PATTERNS`.
    column: The attribute that all tables have; "" without one.
    tables, numbers: The number of tables, and of their numbers.
    """

    name: str
    column: str
    tables: int
    numbers: int


def first_fields(document: Mapping[str, Any], name: str) -> TableFields:
    """Return the fields of a pattern from which a draft starts. Raise SpecError for an unknown pattern."""
    forms.choice_of(SubmittedForm([("pattern", name)]), "pattern", [*FIRST_PATTERNS])
    pattern, count = FIRST_PATTERNS[name]
    columns = tuple(ShownColumn(x) for x in forms.shown_of(document)[:count])
    return TableFields(columns, pattern=pattern, number=FIRST_MARGIN)


def first_patterns(document: Mapping[str, Any], root: Path) -> list[FirstPattern]:
    """Return the patterns that give tables; none as long as a column is not described. Files of codes are read."""
    out = []
    for name in FIRST_PATTERNS:
        fields = first_fields(document, name)
        column = fields.columns[0].name if fields.columns else ""
        try:
            publication = _publication(document, forms.domain_of(document), table_of(document, fields), root)
        except FitnoiseError:
            continue
        tables = publication.workload.tables
        # Of two columns there is one pair.
        if column or len(tables) > 1:
            numbers = sum(math.prod(x.shape(publication.domain)) for x in tables)
            out.append(FirstPattern(name, column, len(tables), numbers))
    return out


def _needed(document: Mapping[str, Any], fields: TableFields) -> set[str]:
    """Return the attributes that a table needs: all that are described for a pattern, otherwise those that it names."""
    domain = forms.domain_of(document)
    if fields.pattern:
        return {name for name, x in domain.items() if isinstance(x, Mapping) and {*x} - {"type", "column"}}
    used_names = {x.name for x in fields.columns} | {fields.amount}
    for name, keys in domain.items():
        levels = forms.value_at(keys, ("levels",))
        if isinstance(levels, list) and used_names & {*map(str, levels)}:
            used_names.add(name)
    # The range of an amount can depend on another attribute.
    ranges = [forms.value_at(domain.get(fields.amount), (key, "by")) for key in ("low", "high", "ceilings")]
    return used_names | {x for x in ranges if isinstance(x, str)}


def _complete(document: Mapping[str, Any], column: ShownColumn) -> list[tuple[str, int, int]]:
    """Return the column with its ends if each of its values is in exactly one band."""
    ends = ends_of(document, column.name)
    if ends is None or column.view != GROUPS:
        return []
    spans = sorted((int(x.lowest), int(x.highest)) for x in column.bands if x != Band())
    if not spans:
        return []
    follows = all(before[1] + 1 == after[0] for before, after in itertools.pairwise(spans))
    return [(column.name, *ends[:2])] if follows and (spans[0][0], spans[-1][1]) == ends[:2] else []
