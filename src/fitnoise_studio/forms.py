"""Conversion of the fields of a form to a document, and back. Keys that a form does not show stay unchanged.

Every change is a function of a document and a form. It returns the new document, or raises :class:`SpecError` and
leaves the old one. The specification decides the meaning of a document and whether it can be planned; this module does
not.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import date, time
from typing import Any

from fitnoise.errors import FitnoiseError, SpecError
from fitnoise.interfaces.wording import column_in_words, counts_people, title_in_words
from fitnoise.kernel.checks import is_plain
from fitnoise.kernel.codings import number
from fitnoise.messages import Translator, Value, translator
from fitnoise.request.attributes import KINDS
from fitnoise.request.documents import exact_number
from fitnoise.request.spec_errors import not_toml, number_advice
from fitnoise.request.toml_text import toml_text
from fitnoise.request.views import VIEWS
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.folder import checked_name, digest
from fitnoise_studio.refusals import FormError, Refusals, Refused, refused_at

Document = dict[str, Any]

TARGETS = ("margin", "std_error", "variance", "max_deviation", "relative_std_error")

AMOUNT_STATISTICS = ("sum", "mean", "count")
"""The quantities of an amount that a table can show."""

COSTS = ("rho", "epsilon", "mu")

DEFAULTS: Mapping[tuple[str, ...], Any] = {
    ("title",): "",
    ("data", "source"): "default",
    ("data", "account"): None,
    ("data", "table"): None,
    ("data", "max_records"): None,
    ("data", "outside_domain"): "refuse",
    ("data", "max_dropped"): None,
    ("privacy", "unit"): "record",
    ("privacy", "id"): None,
    ("privacy", "max_records"): 1,
    ("privacy", "neighbours"): "add-or-remove-one",
    ("privacy", "definition"): "zcdp",
    ("privacy", "delta"): 1e-6,
    ("accuracy", "confidence"): 0.95,
    ("accuracy", "gap"): None,
}
"""The meaning of keys that a specification leaves out, as far as forms show them."""

CHOICES: Mapping[tuple[str, ...], Sequence[str]] = {
    ("data", "outside_domain"): ("refuse", "drop"),
    ("privacy", "neighbours"): ("add-or-remove-one", "replace-one"),
    ("privacy", "definition"): ("zcdp", "pure", "auto"),
}

VALUE_TEXTS = {
    "margin": "studio.value.margin",
    "std_error": "studio.value.std_error",
    "variance": "studio.value.variance",
    "max_deviation": "studio.value.max_deviation",
    "relative_std_error": "studio.value.relative_std_error",
    "rho": "studio.value.rho",
    "epsilon": "studio.value.epsilon",
    "mu": "studio.value.mu",
    "refuse": "studio.value.refuse",
    "drop": "studio.value.drop",
    "add-or-remove-one": "studio.value.add_or_remove_one",
    "replace-one": "studio.value.replace_one",
    "zcdp": "studio.value.zcdp",
    "pure": "studio.value.pure",
    "auto": "studio.value.auto",
}
"""The id of the text of each kind of target, of each measure of cost, and of each choice."""

SETTINGS = (
    ("data", "account"),
    ("privacy", "neighbours"),
    ("privacy", "definition"),
    ("privacy", "delta"),
    ("data", "table"),
    ("data", "outside_domain"),
    ("data", "max_dropped"),
    ("data", "max_records"),
    ("privacy", "cap"),
)
"""The keys of the page Protect that most publications leave out."""

DEEPEST = 50
"""The largest nesting of tables and lists in a draft."""

MAX_INTEGER_DIGITS = 18
"""The largest number of digits of a whole number."""

MAX_CODE_ROWS = 60
"""The largest number of codes that a form shows in rows; for more it has one field with a line for each."""

MAX_CODES_TEXT = 200_000
"""The largest number of letters of codes that a form shows."""

CUTS: Mapping[str, Sequence[int]] = {
    "ages": (15, 65),
    "ten": tuple(range(10, 100, 10)),
    "incomes": (10_000, 20_000, 30_000, 50_000, 75_000, 100_000),
}
"""The limits between classes that a form proposes."""

_KEYS_OF_FILE = ("date_part", "lookup", "lookup_file", "if_missing", "if_outside", "places", "names")
"""The keys of attributes that no form shows."""

_INTEGERS = {("data", "max_records"), ("privacy", "max_records")}
_CODED = {"codes", "labels", "missing", "if_missing", "cuts", "levels", "places", "children", "names"}
_NUMBERS = {("data", "max_dropped"), ("privacy", "delta"), ("accuracy", "confidence"), ("accuracy", "gap")}


def parse(text: str) -> Document:
    """Return the document of a draft.

    Raises:
        SpecError: The draft is not TOML, or has something that no specification means and no form can show.
    """
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise not_toml("The draft", text, error, "Nothing was changed.") from None
    except RecursionError:
        raise draft_too_deep() from None
    _checked(document)
    # A specification may state the definition alone, as privacy = "pure"; forms need the keys.
    if isinstance(document.get("privacy"), str):
        document["privacy"] = {"definition": document["privacy"]}
    return document


def write(document: Document) -> str:
    """Return the text of a document.

    Raises:
        SpecError: The document has something that TOML cannot hold, or that :func:`parse` refuses.
    """
    _checked(document)
    text = toml_text(document)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SpecError(
            "draft-text-with-surrogate",
            "A text of the draft has half of a surrogate pair.",
            "UTF-8 cannot write this text.",
            "Remove this character.",
            "Nothing was changed.",
        ) from None
    return text


def draft_too_deep() -> SpecError:
    """Return the error of a draft with too many tables or lists inside one another."""
    return SpecError(
        "draft-too-deep",
        "The draft has too many tables or lists inside one another.",
        f"They may be at most {DEEPEST} deep.",
        "Correct the draft on the page File.",
        "Nothing was changed.",
    )


def _checked(document: Document) -> None:
    """Refuse a document that is too deep or too long, or has a date among codes: its readers would fail."""
    # A list, and no recursion: a draft can be nested more deeply than Python calls functions.
    pending: list[tuple[Any, int, bool]] = [(document, 1, False)]
    while pending:
        x, depth, coded = pending.pop()
        if isinstance(x, Mapping | list):
            entries = x.items() if isinstance(x, Mapping) else (("", y) for y in x)
            pending += [(y, depth + 1, coded or key in _CODED) for key, y in entries]
            if depth > DEEPEST:
                raise draft_too_deep()
        elif isinstance(x, int) and abs(x) >= 10**MAX_INTEGER_DIGITS:
            raise SpecError(
                "draft-integer-too-long",
                "The draft has a whole number with too many digits.",
                f"A whole number may have at most {MAX_INTEGER_DIGITS} digits.",
                "Correct the draft on the page File.",
                "Nothing was changed.",
            )
        elif coded and isinstance(x, date | time):
            raise SpecError(
                "draft-date-among-codes",
                f"The draft has a date or time among codes, {str(x)!r}.",
                "A code is a whole number, a text, true or false.",
                "Correct the draft on the page File.",
                "Nothing was changed.",
            )
        elif isinstance(x, str) and "\0" in x:
            raise SpecError(
                "draft-text-with-null",
                "A text of the draft has a null character.",
                "The studio cannot write such a text.",
                "Correct the draft on the page File.",
                "Nothing was changed.",
            )


# --- fields ----------------------------------------------------------------------------------------------------------


def field_text(document: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """Return a field as a form shows it: the value in the document, or the one that it means by default."""
    stored = value_at(document, _stored_at(document, path))
    value = DEFAULTS[path] if stored is None else stored
    if path == ("privacy", "max_records") and value == 0:
        return ""  # a starter specification has 0, and the publisher has to state it
    return "" if value is None else number_text(value) if isinstance(value, float) else str(value)


def _stored_at(document: Mapping[str, Any], path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the place of a field; of titles by language, the place of the title in the language of the publication."""
    is_by_language = path == ("title",) and isinstance(document.get("title"), Mapping)
    return (*path, str(document.get("language", "en"))) if is_by_language else path


def value_at(document: Any, path: Sequence[str]) -> Any:
    """Return the value at a place of a document; None if it is empty."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _key_not_a_table(key: str) -> SpecError:
    """Return the error for a key of a draft with another value than keys."""
    return FormError(
        "draft-key-not-a-table",
        f"The key {key} of the draft is not a table of keys.",
        "",
        "Correct the draft on the page File.",
        "Nothing was changed.",
        key=key,
    ).with_place(key)


def put(document: Document, path: Sequence[str], value: Any) -> None:
    """Set the value at a place of a document; None removes it."""
    *above, last = path
    inner: Any = document
    for key in above:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, MutableMapping):
            raise _key_not_a_table(key)
    if value is None:
        inner.pop(last, None)
    else:
        inner[last] = value


def number_text(x: float) -> str:
    """Return the text of a number that reads back as this number."""
    if not math.isfinite(x):
        return str(x)
    # Below 10^15 a float holds every whole number, and its digits, exactly.
    return repr(int(x)) if x == int(x) and abs(x) < 1e15 else repr(x)


def real(text: str) -> float:
    """Return a positive number.

    Raises:
        SpecError: The text is not a positive number.
    """
    x = number_of(text)
    if not (math.isfinite(x) and x > 0):
        raise SpecError(
            "form-number-not-positive",
            f"The value is {shortened(text)}.",
            "It must be a number above 0.",
            number_advice(text, "Enter a number such as 15 or 0.5."),
            "Nothing was changed.",
        )
    return x


def signed(text: str) -> float:
    """Return a number.

    Raises:
        SpecError: The text is not a number.
    """
    x = number_of(text)
    if not math.isfinite(x):
        raise FormError(
            "form-number-invalid",
            f"The value is {shortened(text)}.",
            "It must be a number.",
            number_advice(text, "Enter a number such as 20 or 0.5."),
            "Nothing was changed.",
            value=shortened(text),
        )
    return x


def number_of(text: str) -> float:
    """Return the number of a text; NaN if the text is not a number."""
    result = number(text) if len(text.strip()) <= 40 else None
    return math.nan if result is None else result


def parse_integer(text: str) -> int:
    """Return a whole number.

    Raises:
        SpecError: The text is not a whole number of at most 18 digits.
    """
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
        raise SpecError(
            "form-integer-invalid",
            f"The value is {shortened(text)}.",
            "It must be a whole number of at most 18 digits.",
            "Enter a whole number such as 1.",
            "Nothing was changed.",
        )
    return int(text)


def shortened(text: str) -> str:
    """Return a text of a form as errors quote it."""
    return repr(text if len(text) <= 40 else text[:40] + "…")


def choice_of(form: SubmittedForm, name: str, among: Sequence[str]) -> str:
    """Return a choice of a form. Raise SpecError if it is not one of those offered."""
    value = form.get(name, "")
    if value not in among:
        raise SpecError(
            "form-choice-invalid",
            f"The value is {shortened(value)}.",
            f"It must be one of {', '.join(among)}.",
            "Choose one of these.",
            "Nothing was changed.",
            place=name,
        )
    return value


# --- 1 Protect, and the accuracy -------------------------------------------------------------------------------------


def protect(document: Document, form: SubmittedForm) -> Document:
    """Set the unit of protection, the data, and δ."""
    # The document stays as it was if a field is refused: nothing is saved of a form with an error.
    out = copy.deepcopy(document)
    if form.get("rows") == "once":
        form = SubmittedForm([*form.fields, ("privacy.id", ""), ("privacy.max_records", "1")])
    with Refusals() as refusals:
        for path in DEFAULTS:
            if path[0] != "accuracy":
                with refusals.for_field(".".join(path)):
                    _field(out, path, form)
        with refusals.for_field("sum_within_unit"):
            _merge(out, form)
        with refusals.for_field("cap"):
            _cost(out, ("privacy", "cap"), form, "cap")
        with refusals.for_field("privacy.max_records" if form.get("rows") == "many" else "rows"):
            # A page that goes on needs the answer; one that only applies a change does not.
            if "next" in form and not rows_of(out):
                raise FormError(
                    "form-rows-not-chosen",
                    "The form does not say how often one unit can be in the data.",
                    "The privacy cost depends on it.",
                    "Choose once, or several times with the largest number of records.",
                    "Nothing was changed.",
                )
    return out


def rows_of(document: Mapping[str, Any]) -> str:
    """Return "once" if a unit has one record, "many" if it can have several, and "" if this is not stated yet."""
    number = field_text(document, ("privacy", "max_records"))
    if field_text(document, ("privacy", "id")) or number not in ("", "1"):
        return "many"
    return "once" if number else ""


def number_stated(document: Mapping[str, Any]) -> int:
    """Return how many of `SETTINGS` a document states."""
    return sum(value_at(document, path) is not None for path in SETTINGS)


def merge_of(document: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return the amounts that each unit can merge, and those that it merges; None if the key is not a list of names.

    A merged name that is not an amount is among the first, so that it can be removed.
    """
    merged = value_at(document, ("privacy", "sum_within_unit"))
    if merged is None:
        merged = []
    if not isinstance(merged, list) or not all(isinstance(x, str) for x in merged):
        return None
    amounts = [str(name) for name, x in domain_of(document).items() if value_at(x, ("type",)) == "amount"]
    return list(dict.fromkeys([*amounts, *merged])), merged


def _merge(out: Document, form: SubmittedForm) -> None:
    merge_names, chosen = merge_of(out), form.all("sum_within_unit")
    # Browsers leave out boxes without a tick; a hidden field shows that the form had these boxes.
    if merge_names is None or "is_sum_within_unit" not in form or {*chosen} == {*merge_names[1]}:
        return
    wrong = next((x for x in chosen if x not in merge_names[0]), None)
    if wrong is not None:
        raise SpecError(
            "form-sum-within-unit-unknown",
            f"The amount {shortened(wrong)} is not in the draft.",
            "Only amounts of the draft can be added up.",
            "Reload the page, and choose an amount.",
            "Nothing was changed.",
            place="privacy.sum_within_unit",
        )
    # In the order of the domain, for any order of the form: the same boxes give the same document and the same plan.
    put(out, ("privacy", "sum_within_unit"), [x for x in merge_names[0] if x in chosen] or None)


def _field(out: Document, path: tuple[str, ...], form: SubmittedForm) -> None:
    name = ".".join(path)
    # A field that was not edited keeps its key as it is written, or absent.
    if name not in form or form[name] == field_text(out, path):
        return
    text = form[name].strip()
    if path in CHOICES:
        value: Any = choice_of(form, name, CHOICES[path])
    elif path in _INTEGERS:
        # 0 stands for a number of records that the publisher has still to state.
        value = parse_integer(text) if text else 0 if path == ("privacy", "max_records") else None
    elif path in _NUMBERS:
        value = real(text) if text else None
    else:
        value = text or (None if DEFAULTS[path] is None else "")
    put(out, _stored_at(out, path), value)


def cost_shown(document: Mapping[str, Any], path: Sequence[str]) -> tuple[str, str]:
    """Return a cost as a form shows it: its measure and its number; two empty texts if there is no cost."""
    cost = value_at(document, path)
    for kind in COSTS:
        value = value_at(cost, (kind,))
        if isinstance(value, int | float | str):
            return kind, value if isinstance(value, str) else number_text(float(value))
    return "", ""


def _cost(out: Document, path: Sequence[str], form: SubmittedForm, name: str) -> None:
    submitted = form.get(f"{name}.kind", ""), form.get(name, "").strip()
    # A cost that was not edited keeps its digits: a fraction such as 1/3 has no finite decimal.
    if f"{name}.kind" not in form or submitted == cost_shown(out, path):
        return
    kind, text = submitted
    if not kind:
        with refused_at(f"{name}.kind"):
            # An edited number without a measure has no meaning, and must not be dropped without a word.
            if text not in ("", cost_shown(out, path)[1]):
                raise SpecError(
                    "form-measure-missing",
                    f"The number {shortened(text)} has no measure.",
                    f"The measure must be one of {', '.join(COSTS)}.",
                    "Choose the measure.",
                    "Nothing was changed.",
                    place=name,
                )
        put(out, path, None)
        return
    with refused_at(f"{name}.kind"):
        choice_of(form, f"{name}.kind", COSTS)
    value: Any = text
    exact_number(text, "Nothing was changed.")
    if "/" not in text:
        value = real(text)
    elif kind == "mu":
        raise SpecError(
            "form-mu-not-decimal",
            f"The value is {shortened(text)}, a fraction.",
            "A cost in mu must be a decimal number, not a fraction.",
            "Enter a decimal number such as 0.5.",
            "Nothing was changed.",
            place=name,
        )
    stored = value_at(out, path)
    # Keys that the form does not show stay.
    rest = {k: v for k, v in stored.items() if k not in COSTS} if isinstance(stored, Mapping) else {}
    # δ belongs to a cost in ε alone.
    if kind != "epsilon":
        rest.pop("delta", None)
    put(out, path, {kind: value, **rest})


# --- 2 Describe ------------------------------------------------------------------------------------------------------


def add_attribute(document: Document, name: str, kind: str) -> Document:
    """Add an attribute with no key except its kind."""
    out = copy.deepcopy(document)
    domain = out.setdefault("domain", {})
    with Refusals() as refusals:
        with refusals.for_field("name"):
            checked_name(name)
            if not isinstance(domain, MutableMapping):
                raise _key_not_a_table("domain")
            if name in domain:
                raise SpecError(
                    "form-attribute-exists",
                    f"The draft has an attribute {name!r} already.",
                    "Each attribute needs its own name.",
                    "Choose another name.",
                    "Nothing was changed.",
                    place=name,
                )
        with refusals.for_field("type"):
            if kind not in KINDS:
                raise SpecError(
                    "form-type-unknown",
                    f"The type of the attribute is {shortened(kind)}.",
                    f"It must be one of {', '.join(KINDS)}.",
                    "Choose one of these.",
                    "Nothing was changed.",
                )
    domain[name] = {"type": kind}
    return out


IDENTIFIES = "id"
"""The kind of a column that names the unit of each record; it becomes no attribute."""

_KINDS_BY_WORD = {
    **dict.fromkeys(("age", "alter", "year", "jahr", "kids", "children", "kinder", "hours", "stunden"), "ordered"),
    **dict.fromkeys(("income", "wages", "wage", "salary", "turnover", "amount", "revenue"), "amount"),
    **dict.fromkeys(("einkommen", "lohn", "gehalt", "umsatz", "betrag"), "amount"),
    **dict.fromkeys(("id", "pid", "personid", "identifier", "kennung"), IDENTIFIES),
}
"""Words of the names of columns, with the kind that they suggest. The list is fixed: no value is read."""


def kind_by_name(column: str) -> tuple[str, str]:
    """Return the kind that the name of a column suggests, and the word that does; without one, "categorical" and ""."""
    parts = re.findall("[a-zäöü]+", column.lower())
    word = next((x for x in parts if x in _KINDS_BY_WORD), "")
    return _KINDS_BY_WORD.get(word, "categorical"), word


def new_columns(document: Mapping[str, Any], columns: Sequence[str]) -> list[tuple[int, str]]:
    """Return the columns that no attribute of a document reads, with their places."""
    read = {str(value_at(keys, ("column",)) or name) for name, keys in domain_of(document).items()}
    return [(i, column) for i, column in enumerate(columns) if column not in read]


def add_columns(document: Document, form: SubmittedForm, columns: Sequence[str]) -> Document:
    """Add an attribute for each ticked column, by its place: all of them, or none.

    Raises:
        Refused: No column is ticked, or a name or kind is refused.
    """
    out = copy.deepcopy(document)
    ticked = [(i, column) for i, column in new_columns(document, columns) if f"use.{i}" in form]
    with Refusals() as refusals:
        with refusals.for_field("use.0"):
            if not ticked:
                raise SpecError(
                    "form-no-column",
                    "No column is ticked.",
                    "Tables need at least one column.",
                    "Tick the columns that your tables need.",
                    "Nothing was changed.",
                )
        for i, column in ticked:
            kind = form.get(f"kind.{i}", "")
            if kind == IDENTIFIES:
                put(out, ("privacy", "id"), column)
                continue
            name = form.get(f"name.{i}", "").strip() or column
            with refusals.for_field(f"name.{i}"):
                out = add_attribute(out, name, kind)
                if name != column:
                    put(out, ("domain", name, "column"), column)
    return out


def domain_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes of a document."""
    domain = document.get("domain")
    return domain if isinstance(domain, Mapping) else {}


def fields_of(attribute: Any, main_language: str = "en") -> dict[str, Any]:
    """Return the keys of an attribute as a form shows them; empty if the attribute is not a table of keys.

    Numbers and ceilings given by a rule, such as one for each class, are None: the form has no field for them. So are
    codes with labels that do not fit them.
    """
    keys = attribute if isinstance(attribute, Mapping) else {}
    children, levels = keys.get("children"), keys.get("levels")
    codes, rows = codes_text(keys), code_rows(keys, main_language)
    return {
        "type": str(keys.get("type", "?")),
        "column": value_text(keys.get("column")),
        "codes": codes if len(codes) <= MAX_CODES_TEXT and not isinstance(keys.get("labels"), Mapping) else None,
        "rows": rows,
        "languages": [*rows[0][1]] if rows else [main_language],
        "cuts": cuts_text(keys),
        "levels": ", ".join(map(str, levels)) if isinstance(levels, list) else "",
        "children": ", ".join(map(value_text, children)) if isinstance(children, list) else "",
        "file": value_text(keys.get("codes_file") or keys.get("file")),
        "clip": keys.get("clip") is True,
        "missing": missing_text(keys),
        "ceilings": ceilings_text(keys),
        "unshown": [str(key) for key in keys if key in _KEYS_OF_FILE],
        "is_described": bool({*keys} - {"type", "column"}),
        "paste": "",
        "is_row_added": False,
        "chosen": "",
        **{key: number_shown(keys, key) for key in ("low", "high", "step")},
    }


def code_rows(keys: Mapping[str, Any], main_language: str) -> list[tuple[str, dict[str, str]]] | None:
    """Return codes as a form shows them in rows, each with its labels by language.

    None for more codes than a form shows in rows, and for labels that do not fit the codes.
    """
    codes, labels = keys.get("codes") or [], keys.get("labels")
    by_language = labels if isinstance(labels, Mapping) else {} if labels is None else {main_language: labels}
    if not isinstance(codes, list) or len(codes) > MAX_CODE_ROWS:
        return None
    if not all(isinstance(x, list) and len(x) == len(codes) for x in by_language.values()):
        return None
    texts = {str(x): list(map(_label_text, labels)) for x, labels in by_language.items()}
    texts = texts or {main_language: [""] * len(codes)}
    return [(code_text(c), {x: labels[j] for x, labels in texts.items()}) for j, c in enumerate(codes)]


def parse_index(text: str, count: int, what: str) -> int:
    """Return the place of an entry of the draft. Raise SpecError for a place without one."""
    # Six digits are more than any list has, and `int` of a long text of digits would take long.
    i = int(text) if re.fullmatch(r"[0-9]{1,6}", text) else count
    if i >= count:
        raise SpecError(
            "form-entry-missing", f"The draft has no such {what}.", "", "Reload the page.", "Nothing was changed."
        )
    return i


def describe(document: Document, name: str, form: SubmittedForm, files: Sequence[str] = ()) -> Document:
    """Set the keys of an attribute. files: the name of the chosen file of codes or places, if any."""
    out = copy.deepcopy(document)
    attribute = out["domain"][name]
    if not isinstance(attribute, dict):
        raise SpecError(
            "draft-attribute-not-a-table",
            f"The attribute domain.{name} of the draft is not a table of keys.",
            "",
            "Correct the draft on the page File.",
            "Nothing was changed.",
            place=f"domain.{name}",
        )
    with Refusals() as refusals:
        with refusals.for_field("type"):
            if form.get("type", attribute.get("type")) != attribute.get("type"):
                attribute = out["domain"][name] = _of_kind(attribute, choice_of(form, "type", [*KINDS]))
        if "column" in form and form["column"] != attribute.get("column", ""):
            put(attribute, ("column",), form["column"].strip() or None)
        edit = _EDITS.get(str(attribute.get("type")))
        if edit is not None:
            with refusals.for_field("file"):
                edit(attribute, form, files)
        with refusals.for_field("missing"):
            if "missing" in form and form["missing"].strip() != missing_text(attribute):
                put(attribute, ("missing",), parse_categories(form["missing"]) or None)
    return out


def _of_kind(attribute: Mapping[str, Any], kind: str) -> Document:
    """Return an attribute of another kind: its column and missing-value categories stay, where the kind has them."""
    stays = ("column",) if kind == "hierarchy" else ("column", "missing")
    return {"type": kind, **{key: attribute[key] for key in stays if key in attribute}}


def part_of(form: SubmittedForm, i: int) -> SubmittedForm:
    """Return the fields of one attribute in the form of all. i: its place in the domain, from 0."""
    return SubmittedForm([(key.removeprefix(f"{i}."), x) for key, x in form.fields if key.startswith(f"{i}.")])


def describe_all(document: Document, form: SubmittedForm, files: Mapping[int, str]) -> Document:
    """Set the keys of all attributes, remove one, and add one, as a form says: all of it, or nothing.

    Args:
        document: The document of the draft.
        form: The fields of all attributes; `remove` has the place of one, and `name` and `type` describe a new one.
        files: The chosen files of codes or places, by the place of the attribute.

    Raises:
        Refused: Some fields are refused.
        SpecError: The form was made for other columns.
    """
    out, errors = copy.deepcopy(document), dict[str, FitnoiseError]()
    names = [*domain_of(document)]
    removed = parse_index(form["remove"], len(names), "attribute") if "remove" in form else None
    for i, name in enumerate(names):
        # Another tab may have removed a column: fields of one must not describe another.
        if form.get(f"{i}.of", name) != name:
            raise SpecError(
                "form-columns-changed",
                f"Column {i + 1} of the form is {shortened(form[f'{i}.of'])}, and that of the draft is {name!r}.",
                "A form describes the columns of the draft in their order.",
                "Reload the page, and make the change again.",
                "Nothing was changed.",
            )
        if i == removed:
            out["domain"].pop(name)
        elif isinstance(out["domain"][name], Mapping):
            try:
                with refused_at("type"):
                    out = describe(out, name, part_of(form, i), [files[i]] if i in files else [])
            except Refused as error:
                errors |= {f"{i}.{field}": x for field, x in error.errors.items()}
    if "add" in form or form.get("name", "").strip():
        try:
            out = add_attribute(out, form.get("name", "").strip(), form.get("type", ""))
        except Refused as error:
            errors |= error.errors
    if errors:
        raise Refused(errors)
    return out


def submitted_attribute(attribute: Any, form: SubmittedForm, main_language: str, action: str = "") -> dict[str, Any]:
    """Return the fields of an attribute as a form holds them, after one of its buttons.

    action: "row" adds a row for a code, "paste" makes rows of the pasted lines, and "cuts.NAME" sets proposed limits.
    """
    keys = attribute if isinstance(attribute, Mapping) else {}
    if form.get("type", keys.get("type")) != keys.get("type") and form["type"] in KINDS:
        keys = _of_kind(keys, form["type"])
    fields = fields_of(keys, main_language)
    if "languages" in form:
        languages = form["languages"].split(",")
        languages += [form["further"]] if form.get("further") else []
        fields["languages"] = languages
        fields["rows"] = [(code, {x: labels.get(x, "") for x in languages}) for code, labels in _submitted_rows(form)]
        fields["paste"] = form.get("paste", "").replace("\r\n", "\n")
        if action == "paste":
            with contextlib.suppress(SpecError):
                codes, labels = _listed(fields["paste"])
                texts = [""] * len(codes) if labels is None else list(map(_label_text, labels))
                rows = [(code_text(c), {languages[0]: x}) for c, x in zip(codes, texts, strict=True)]
                fields["rows"] += [(code, {x: labels.get(x, "") for x in languages}) for code, labels in rows]
                fields["paste"] = ""
        fields["is_row_added"] = action == "row"
    fields["chosen"] = form.get("file", "")
    texts_in_form = [
        key for key, x in fields.items() if isinstance(x, str) and key in form and key not in ("file", "paste")
    ]
    fields |= {key: form[key].replace("\r\n", "\n") for key in texts_in_form}
    if "is_clip" in form:
        fields["clip"] = "clip" in form
    preset = action.removeprefix("cuts.")
    if preset in CUTS:
        fields["cuts"] = ", ".join(map(str, CUTS[preset]))
    return fields


def value_text(x: Any) -> str:
    """Return a value of a document as a field shows it."""
    return "" if x is None else number_text(x) if isinstance(x, float) else str(x)


def number_shown(attribute: Mapping[str, Any], key: str) -> str | None:
    """Return a number of an attribute as a form shows it; None for a rule, which forms do not write."""
    value = attribute.get(key)
    return None if isinstance(value, Mapping | list) else value_text(value)


def _changed(attribute: Mapping[str, Any], form: SubmittedForm, key: str) -> bool:
    """Return True if a form has another number than the document, in a field that it had for it."""
    shown_number = number_shown(attribute, key)
    return shown_number is not None and form.get(key, shown_number) != shown_number


def _ordered(attribute: Document, form: SubmittedForm, _files: Sequence[str]) -> None:
    with Refusals() as refusals:
        for key in ("low", "high"):
            with refusals.for_field(key):
                if _changed(attribute, form, key):
                    put(attribute, (key,), parse_integer(form[key]) if form[key].strip() else None)
    # Browsers leave out a box without a tick; a hidden field shows that the form had this box.
    if "is_clip" in form and ("clip" in form) != (attribute.get("clip") is True):
        attribute["clip"] = "clip" in form


def _binned(attribute: Document, form: SubmittedForm, _files: Sequence[str]) -> None:
    if "cuts" in form and form["cuts"] != cuts_text(attribute):
        with refused_at("cuts"):
            attribute["cuts"] = _numbers(form["cuts"])


def _numbers(text: str) -> list[float]:
    """Return numbers that are separated by commas, semicolons or blanks."""
    return [signed(x) for x in re.split(r"[,;\s]+", text.strip()) if x]


def _amount(attribute: Document, form: SubmittedForm, _files: Sequence[str]) -> None:
    with Refusals() as refusals:
        for key in ("low", "high", "step"):
            with refusals.for_field(key):
                if _changed(attribute, form, key):
                    put(attribute, (key,), signed(form[key]) if form[key].strip() else None)
        shown_ceilings = ceilings_text(attribute)
        with refusals.for_field("ceilings"):
            if shown_ceilings is not None and form.get("ceilings", shown_ceilings) != shown_ceilings:
                put(attribute, ("ceilings",), [tidy(x) for x in _numbers(form["ceilings"])] or None)


def _hierarchy(attribute: Document, form: SubmittedForm, files: Sequence[str]) -> None:
    if "levels" in form and form["levels"] != fields_of(attribute)["levels"]:
        attribute["levels"] = [x.strip() for x in form["levels"].split(",") if x.strip()]
    counted = "children" in form and form["children"] != fields_of(attribute)["children"]
    if counted:
        with refused_at("children"):
            numbers = [parse_integer(x) for x in form["children"].split(",") if x.strip()]
        if files and numbers:
            raise SpecError(
                "form-places-twice",
                "The places are given by numbers and by a file.",
                "A hierarchy needs one of them.",
                "Remove the numbers, or choose no file.",
                "Nothing was changed.",
            )
        put(attribute, ("children",), numbers or None)
    # A hierarchy has its places from one origin: those of before are removed.
    if files or (counted and "children" in attribute):
        attribute.pop("places", None)
        attribute.pop("names", None)
        attribute.pop("children" if files else "file", None)
    if files:
        attribute["file"] = files[0]


def _codes(attribute: Document, form: SubmittedForm, files: Sequence[str]) -> None:
    before = attribute.get("codes") or [], attribute.get("labels")
    codes, labels = before
    if "languages" in form:
        codes, labels = _of_rows(form, before)
    elif "codes" in form and form["codes"].replace("\r\n", "\n").strip("\n") != codes_text(attribute):
        # The form has one label for each code: those in further languages would be lost, or belong to other codes.
        if isinstance(labels, Mapping):
            raise SpecError(
                "form-labels-by-language",
                "The codes were changed, and have labels in several languages.",
                "The form has room for labels in one language.",
                "Change codes and labels on the page File.",
                "Nothing was changed.",
                place="codes",
            )
        with refused_at("codes"):
            codes, labels = _listed(form["codes"].replace("\r\n", "\n").strip("\n"))
    is_changed = _typed(codes) != _typed(before[0]) or labels != before[1]
    if files:
        if is_changed and codes:
            raise SpecError(
                "form-codes-twice",
                "The codes are given in the form and by a file.",
                "An attribute needs one of them.",
                "Remove the codes, or choose no file.",
                "Nothing was changed.",
            )
        # The file states codes and labels, so those of before are removed.
        attribute.pop("codes", None)
        attribute.pop("labels", None)
        attribute["codes_file"] = files[0]
    elif is_changed:
        attribute.pop("codes_file", None)
        attribute["codes"] = codes
        put(attribute, ("labels",), labels)


def _typed(codes: Sequence[Any]) -> list[tuple[type, Any]]:
    """Return codes with their types: True and 1 are different codes."""
    return [(type(x), x) for x in codes]


def _submitted_rows(form: SubmittedForm) -> list[tuple[str, dict[str, str]]]:
    """Return the rows of codes that a form holds, each with its labels by language."""
    languages = form["languages"].split(",")
    count = next(j for j in itertools.count() if f"code.{j}" not in form)
    return [
        (form[f"code.{j}"].strip(), {x: form.get(f"label.{j}.{x}", "").strip() for x in languages})
        for j in range(count)
    ]


def _of_rows(form: SubmittedForm, before: tuple[list[Any], Any]) -> tuple[list[Any], Any]:
    """Return the codes of a form, from its rows and pasted lines, and their labels: a list, or lists by language."""
    languages, rows = form["languages"].split(","), _submitted_rows(form)
    codes, by_language = list[Any](), {x: list[str]() for x in languages}
    has_labels = {x: any(labels[x] for code, labels in rows) for x in languages}
    with Refusals() as refusals:
        for j, (code, labels) in enumerate(rows):
            if not code and not any(labels.values()):
                continue
            with refusals.for_field(f"code.{j}"):
                if not code:
                    raise SpecError(
                        "form-code-missing",
                        f"The label {shortened(next(filter(None, labels.values())))} has no code.",
                        "Each label belongs to a code.",
                        'Enter the code; write "" for the empty text.',
                        "Nothing was changed.",
                    )
                codes.append(parse_code(code))
            for x in languages:
                with refusals.for_field(f"label.{j}.{x}"):
                    if has_labels[x] and not labels[x]:
                        raise SpecError(
                            "form-label-missing",
                            f"The code {shortened(code)} has no label, and others do.",
                            "Either all codes or no codes have labels.",
                            "Enter the label, or remove all labels.",
                            "Nothing was changed.",
                        )
                    by_language[x].append(_unquoted(labels[x]))
        with refusals.for_field("paste"):
            pasted, pasted_labels = _listed(form.get("paste", "").replace("\r\n", "\n"))
            if pasted and codes and (pasted_labels is None) == has_labels[languages[0]]:
                raise _mixed_labels()
            codes += pasted
            by_language[languages[0]] += pasted_labels or []
            has_labels[languages[0]] |= pasted_labels is not None
    labelled = {x: labels for x, labels in by_language.items() if has_labels[x]}
    if not labelled:
        return codes, None
    # One language alone needs no name, unless the draft names it.
    is_single = [*labelled] == languages[:1] and not isinstance(before[1], Mapping)
    return codes, labelled[languages[0]] if is_single else labelled


_EDITS: Mapping[str, Callable[[Document, SubmittedForm, Sequence[str]], None]] = {
    "categorical": _codes,
    "ordered": _ordered,
    "binned": _binned,
    "amount": _amount,
    "hierarchy": _hierarchy,
}


def codes_text(attribute: Mapping[str, Any]) -> str:
    """Return codes as they are pasted: a line each, with `= label` where tables show a label."""
    codes, labels = attribute.get("codes") or [], attribute.get("labels")
    if not isinstance(codes, list):
        return ""
    if not isinstance(labels, list) or len(labels) != len(codes):
        return "\n".join(map(code_text, codes))
    return "\n".join(f"{code_text(c)} = {_label_text(x)}" for c, x in zip(codes, labels, strict=True))


def code_text(code: Any) -> str:
    """Return a code as a form shows it, quoted if it would read as another."""
    if not isinstance(code, str):
        return json.dumps(code)
    # The text "1" is quoted, since without quotes it would be read as the number 1.
    return code if _is_plain_text(code) and parse_code(code) == code else quote(code)


def _label_text(label: Any) -> str:
    text = str(label)
    return text if _is_plain_text(text) else quote(text)


def quote(text: str) -> str:
    """Return a text in quotes, as a form writes one that would read otherwise."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _is_plain_text(text: str) -> bool:
    return bool(text) and text == text.strip() and " = " not in text and '"' not in text and text.isprintable()


_LINE = re.compile(r'\s*(?P<code>"(?:[^"\\]|\\.)*"|.+?)(?:\s+=\s+(?P<label>"(?:[^"\\]|\\.)*"|.*?))?\s*')


def _listed(text: str) -> tuple[list[Any], list[str] | None]:
    """Return codes, and labels if there are any."""
    codes, labels = [], []
    for line in filter(str.strip, text.split("\n")):
        match = _LINE.fullmatch(line)
        if match is None:
            raise FormError(
                "form-code-line-invalid",
                f"The line {shortened(line)} is not a code.",
                "Each line must hold a code, or code = label.",
                "Correct this line.",
                "Nothing was changed.",
                line=shortened(line),
            )
        codes.append(parse_code(match["code"]))
        labels.append(None if match["label"] is None else _unquoted(match["label"]))
    given_labels = [x for x in labels if x is not None]
    if given_labels and len(given_labels) < len(labels):
        raise _mixed_labels()
    return codes, given_labels or None


def _mixed_labels() -> SpecError:
    return SpecError(
        "form-labels-incomplete",
        "Some codes have a label, and others do not.",
        "Either all codes or no codes have labels.",
        "Write `code = label` in every line, or in no line.",
        "Nothing was changed.",
    )


def parse_code(text: str) -> bool | int | str:
    """Return the code that a text of a form means: a whole number, true, false, or a text."""
    if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text):
        return int(text)
    return {"true": True, "false": False}.get(text, _unquoted(text))


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        raise FormError(
            "form-quotes-invalid",
            f"The quoted text {shortened(text)} cannot be read.",
            "A text that starts with a quotation mark is read as a JSON string.",
            'End it with a quotation mark, and write \\" for such a mark and \\\\ for a backslash in it.',
            "Nothing was changed.",
            text=shortened(text),
        ) from None


def cuts_text(attribute: Mapping[str, Any]) -> str:
    """Return cuts as a form shows them."""
    cuts = attribute.get("cuts")
    return ", ".join(map(value_text, cuts)) if isinstance(cuts, list) else ""


def ceilings_text(attribute: Mapping[str, Any]) -> str | None:
    """Return ceilings as a form shows them; None if the key is not a list of numbers."""
    ceilings = attribute.get("ceilings")
    if ceilings is None:
        return ""
    has_numbers = isinstance(ceilings, list) and all(map(is_plain, ceilings))
    return ", ".join(map(value_text, ceilings)) if has_numbers else None


def missing_text(attribute: Mapping[str, Any]) -> str:
    """Return the missing-value categories, a line each: `label = code, code`."""
    categories = attribute.get("missing")
    return "\n".join(_category_text(k, v) for k, v in categories.items()) if isinstance(categories, Mapping) else ""


def _category_text(label: str, codes: Any) -> str:
    """Return a category as people write it; as JSON if this would read as another."""
    if isinstance(codes, list) and codes:
        text = f"{label} = {', '.join(map(code_text, codes))}"
        with contextlib.suppress(SpecError):
            read = parse_categories(text)
            if [(k, [(type(x), x) for x in v]) for k, v in read.items()] == [(label, [(type(x), x) for x in codes])]:
                return text
    return f"{json.dumps(label)} = {json.dumps(codes)}"


def parse_categories(text: str) -> dict[str, list[Any]]:
    """Return the codes of each label of a text: a line each, `label = code, code`.

    Raises:
        SpecError: A line has no label, or what follows are no codes.
    """
    out: dict[str, list[Any]] = {}
    for line in filter(str.strip, text.replace("\r\n", "\n").split("\n")):
        match = re.fullmatch(r'\s*(?P<cell>"(?:[^"\\]|\\.)*"|[^"=]+?)\s*=\s*(?P<codes>.*?)\s*', line)
        if match is None:
            raise FormError(
                "form-categories-line-invalid",
                f"The line {shortened(line)} is not a label with its codes.",
                "Each line must hold a label, an equals sign and codes.",
                "Write `label = code, code`, such as `unknown = 9, 99`.",
                "Nothing was changed.",
                line=shortened(line),
            )
        codes = match["codes"]
        try:
            listed = (
                json.loads(codes)
                if codes.startswith("[")
                else [parse_code(x.strip()) for x in codes.split(",") if x.strip()]
            )
        except (ValueError, RecursionError):
            raise FormError(
                "form-categories-codes-unreadable",
                f"The codes {shortened(codes)} cannot be read.",
                "",
                "Write the codes with commas between them.",
                "Nothing was changed.",
                codes=shortened(codes),
            ) from None
        if not all(isinstance(x, bool | int | str) for x in listed):
            raise FormError(
                "form-categories-codes-invalid",
                f"The codes {shortened(codes)} have a value of another type.",
                "Codes must be whole numbers, texts, true or false.",
                "Correct the codes.",
                "Nothing was changed.",
                codes=shortened(codes),
            )
        out[_unquoted(match["cell"])] = listed
    return out


# --- 3 Tables --------------------------------------------------------------------------------------------------------


def tables_of(document: Mapping[str, Any]) -> list[Any]:
    """Return the tables of a document."""
    tables = document.get("tables")
    return tables if isinstance(tables, list) else []


def target_of(table: Any) -> tuple[str, str | None]:
    """Return the kind of a table's target, and its number as a form shows it; None for a rule or several numbers."""
    for kind in TARGETS:
        target = value_at(table, (kind,))
        if target is not None:
            return kind, value_text(target) if is_plain(target) else None
    return "margin", ""


def confidence_of(document: Mapping[str, Any]) -> float | None:
    """Return the confidence of all margins; None if the document has no number for it."""
    stated = value_at(document, ("accuracy", "confidence"))
    confidence = DEFAULTS["accuracy", "confidence"] if stated is None else stated
    return float(confidence) if is_plain(confidence) and 0 < confidence < 1 else None


def meaning_of(table: Any) -> tuple[float, float] | None:
    """Return an example count and the margin of a table; None unless the table counts records within one margin."""
    kind, number_of_target = target_of(table)
    target = number_of(number_of_target or "")
    if kind != "margin" or not 0 < target < 1e15 or any(key in table for key in AMOUNT_STATISTICS):
        return None
    # The first of 1, 2, 5, 10, 20, ... of which the margin is at most a tenth.
    power = 10.0 ** math.floor(math.log10(10 * target))
    return next(x * power for x in (1, 2, 5, 10) if x * power >= 10 * target * (1 - 1e-9)), target


def margins(document: Document, form: SubmittedForm) -> Document:
    """Set the targets of tables, their confidence, and the choice to spend a budget instead."""
    out = copy.deepcopy(document)
    with Refusals() as refusals:
        marks = marks_of(document)
        for i, state in enumerate(form.all("of") or marks):
            mark, *before = state.split(" ")
            # A table that another tab removed, and whose target this form leaves, is no mistake.
            if mark in marks or [form[x] for x in (f"kind.{i}", f"number.{i}") if x in form] != before:
                with refusals.for_field(f"number.{i}"):
                    _write_target(tables_of(out)[place_of(document, str(i), mark)], i, form)
        for path in DEFAULTS:
            if path[0] == "accuracy":
                with refusals.for_field(".".join(path)):
                    _field(out, path, form)
        with refusals.for_field("budget"):
            _cost(out, ("budget",), form, "budget")
    return out


def _write_target(table: Any, i: int, form: SubmittedForm) -> None:
    """Write the target of a table from a form; leave a table whose target is unchanged, a rule or several numbers.

    i: The index of the table, from 0, which names its fields.

    Raises:
        SpecError: The kind of target is unknown, or its number cannot be read.
    """
    kind, number = target_of(table)
    text, chosen = form.get(f"number.{i}"), form.get(f"kind.{i}", kind)
    unchanged = text is None or number is None or (text.strip(), chosen) == (number, kind)
    if text is None or unchanged or not isinstance(table, MutableMapping):
        return
    with refused_at(f"kind.{i}"):
        if chosen not in TARGETS:
            raise SpecError(
                "form-target-unknown",
                f"The target is {shortened(chosen)}.",
                f"It must be one of {', '.join(TARGETS)}.",
                "Choose one of these.",
                "Nothing was changed.",
            )
    value = real(text)
    table.pop(kind, None)
    table[chosen] = tidy(value)


def summed_of(document: Mapping[str, Any]) -> list[str]:
    """Return the attributes that can be summed: amounts, and whole numbers."""
    types = [(str(name), value_at(attribute, ("type",))) for name, attribute in domain_of(document).items()]
    return [name for kind in ("amount", "ordered") for name, attribute_type in types if attribute_type == kind]


def shown_of(document: Mapping[str, Any]) -> list[str]:
    """Return the attributes that a table can show by value, which amounts are not; and levels of places."""
    names = (str(name) for name, x in domain_of(document).items() if value_at(x, ("type",)) != "amount")
    return [*names, *levels_of(document)]


def tidy(x: float) -> float:
    """Return this number, as an integer if it is a whole number."""
    return int(x) if x == int(x) and abs(x) < 1e15 else x


def levels_of(document: Mapping[str, Any]) -> list[str]:
    """Return the levels of nested places, which tables name like attributes."""
    level_lists = (value_at(attribute, ("levels",)) for attribute in domain_of(document).values())
    return [str(x) for levels in level_lists if isinstance(levels, list) for x in levels]


def remove_table(document: Document, index: str, mark: str = "") -> Document:
    """Remove a table; index and mark as for :func:`place_of`."""
    out = copy.deepcopy(document)
    del tables_of(out)[place_of(document, index, mark)]
    return out


def marks_of(document: Mapping[str, Any]) -> list[str]:
    """Return the mark of each table: its keys without target, and its place among tables with equal keys."""
    keys = [
        {k: x for k, x in table.items() if k not in TARGETS} if isinstance(table, Mapping) else table
        for table in tables_of(document)
    ]
    return [digest(f"{x} {keys[:i].count(x)} {keys.count(x)}") for i, x in enumerate(keys)]


def place_of(document: Mapping[str, Any], index: str, mark: str) -> int:
    """Return the place of the table that a form was made for: another tab may have moved or removed tables.

    Args:
        document: The document of the draft.
        index: The place of the table when the form was made.
        mark: The mark of the table; "" to go by the place.

    Raises:
        SpecError: The draft has no such table, or more than its target was changed.
    """
    marks = marks_of(document)
    if mark in marks:
        return marks.index(mark)
    if mark:
        raise SpecError(
            "form-table-changed",
            "The table of this form is not in the draft any more, or more than its target was changed there.",
            "A form changes the table for which it was made.",
            "Reload the page, and make the change again.",
            "Nothing was changed.",
        )
    return parse_index(index, len(marks), "table")


PATTERNS = {
    "singles": "studio.tables.all_singles",
    "pairs": "studio.tables.all_pairs",
    "triples": "studio.tables.all_triples",
}
"""The id of the text of each pattern."""

LABELS: Mapping[str, Mapping[str, str]] = {
    "protect": {
        "title": "studio.protect.title",
        "unit": "studio.protect.unit",
        "id": "studio.protect.id",
        "max_records": "studio.protect.max_records",
        "sum_within_unit": "studio.protect.sum_within_unit",
        "source": "studio.protect.source",
        "account": "studio.protect.account",
        "neighbours": "studio.protect.neighbours",
        "definition": "studio.protect.definition",
        "delta": "δ",
        "table": "studio.protect.table",
        "outside_domain": "studio.protect.outside",
        "max_dropped": "studio.protect.max_dropped",
        "data.max_records": "studio.protect.size",
        "cap": "studio.protect.cap",
    },
    "describe": {
        "type": "studio.describe.type",
        "column": "studio.describe.column",
        "codes": "studio.describe.code",
        "labels": "studio.describe.label",
        "codes_file": "studio.describe.codes_file",
        "low": "studio.describe.low",
        "high": "studio.describe.high",
        "step": "studio.describe.step",
        "clip": "studio.describe.clip",
        "cuts": "studio.describe.cuts",
        "ceilings": "studio.describe.ceilings",
        "levels": "studio.describe.levels",
        "children": "studio.describe.children",
        "file": "studio.describe.places_file",
        "missing": "studio.describe.missing",
    },
    "tables": {
        "attributes": "studio.builder.by",
        "cumulative": "studio.builder.at_most",
        "ranges": "studio.builder.every_range",
        "groups": "studio.builder.groups",
        "first": "page.table.from",
        "last": "page.table.to",
        "sum": "studio.builder.sum",
        "mean": "studio.builder.mean",
        "count": "studio.builder.having",
        "ceiling": "studio.tables.ceiling",
        "reference": "studio.tables.reference",
        "pattern": "studio.tables.pattern",
        "missing": "studio.builder.missing",
        "name": "studio.builder.name",
        **{x: VALUE_TEXTS[x] for x in TARGETS},
        "confidence": "studio.tables.confidence",
        "gap": "studio.tables.gap",
        "budget": "studio.tables.budget",
    },
    "rules": {"by": "studio.rules.by", "source": "studio.rules.source", "origin": "studio.rules.origin"},
}
"""The id of the label that each key has on a page."""

KIND_TEXTS = {
    "categorical": "studio.kind.categorical",
    "ordered": "studio.kind.ordered",
    "binned": "studio.kind.binned",
    "amount": "studio.kind.amount",
    "hierarchy": "studio.kind.hierarchy",
}
"""The id of the text of each kind of attribute."""


def differences(
    document: Mapping[str, Any], other: Mapping[str, Any], language: Translator
) -> list[tuple[str, str, str, str]]:
    """Return the settings in which two drafts differ: the page, the part of the page, and both values.

    The part is an attribute or a table in words; other settings of a page are one part, "". Settings have the labels of
    the form; those that no form shows have their keys, and are on the page File.
    """
    places = []
    for draft in (document, other):
        texts: dict[tuple[str, str], dict[str, str]] = {}
        for name, keys in domain_of(draft).items():
            texts["describe", name] = _settings(keys, "describe", language)
        for i, table in enumerate(tables_of(draft), 1):
            texts["tables", f"{i}. {table_words(table, language)}"] = _settings(table, "tables", language)
        for page, keys in (("tables", ("accuracy", "budget")), ("protect", ("title", "data", "privacy"))):
            texts[page, ""] = _settings({k: draft[k] for k in keys if k in draft}, page, language)
        texts["rules", ""] = _rules(draft, language)
        of_forms = (
            "domain",
            "tables",
            "accuracy",
            "budget",
            "title",
            "data",
            "privacy",
            "impossible",
            "rules",
            "public",
        )
        texts["file", ""] = _settings({k: x for k, x in draft.items() if k not in of_forms}, "file", language)
        places.append(texts)
    here, there = places
    out = []
    for page, part in dict.fromkeys([*here, *there]):
        mine, theirs = here.get((page, part), {}), there.get((page, part), {})
        labels = [k for k in dict.fromkeys([*mine, *theirs]) if mine.get(k) != theirs.get(k)]
        if labels:
            values = ["; ".join(f"{k}: {x[k]}" if k else x[k] for k in labels if k in x) or "–" for x in (mine, theirs)]
            out.append((page, part, values[0], values[1]))
    return out


RULE_TEXTS = {
    "values": "studio.rules.values",
    "at_least": "studio.rules.at_least",
    "at_most": "studio.rules.at_most",
    "above": "studio.rules.above",
    "below": "studio.rules.below",
    "refuse": "studio.rules.refuse",
    "drop": "studio.rules.drop",
    "elsewhere": "studio.rules.elsewhere",
    "these data": "studio.rules.these_data",
}
"""The id of the text of each comparison of a rule, of each treatment, and of each origin of totals."""


def _rules(draft: Mapping[str, Any], language: Translator) -> dict[str, str]:
    """Return the rules and public totals of a draft as texts, by the labels of their form."""

    def in_words(x: Any) -> str:
        return language.texts.get(RULE_TEXTS.get(str(x), ""), value_text(x))

    out = {}
    for i, rule in enumerate(as_values(draft.get("impossible", [])), 1):
        conditions = []
        for name, stated in rule.items() if isinstance(rule, Mapping) else ():
            pairs = stated.items() if isinstance(stated, Mapping) else [("values", stated)]
            conditions += [f"{name} {in_words(key)} {', '.join(map(value_text, as_values(x)))}" for key, x in pairs]
        out[language.translate("studio.rules.never", n=i)] = "; ".join(conditions) or value_text(rule)
    if (treatment := value_at(draft, ("rules", "outside"))) is not None:
        out[language.translate("studio.rules.outside")] = in_words(treatment)
    listed = as_values(draft.get("public", []))
    for i, totals in enumerate(listed, 1):
        for key in totals if isinstance(totals, Mapping) else ():
            label = language.texts.get(LABELS["rules"].get(key, ""), key)
            number = f"{i}. " if len(listed) > 1 else ""
            text = in_words(totals[key]) if key == "origin" else ", ".join(map(value_text, as_values(totals[key])))
            out[number + label] = text
    return out


def _settings(value: Any, page: str, language: Translator, path: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the settings of a part of a draft as texts, by their labels on a page."""
    labels = LABELS.get(page, {})
    if isinstance(value, Mapping):
        entries = (_settings(x, page, language, (*path, str(key))) for key, x in value.items())
        return {label: text for entry in entries for label, text in entry.items()}
    ids = [labels.get(".".join(path[i - 1 : i + 1]), labels.get(key, key)) for i, key in enumerate(path)]
    parts = [language.texts.get(x, x) for x in ids if x not in ("data", "privacy", "accuracy")]
    if path[-1:] == ("type",):
        value = language.texts.get(KIND_TEXTS.get(str(value), ""), value)
    elif path[-2:] in CHOICES:
        value = language.texts.get(VALUE_TEXTS.get(str(value), ""), value)
    texts = [value_text(x) if not isinstance(x, bool) else "✓" if x else "–" for x in as_values(value)]
    return {" ".join(parts): ", ".join(texts)}


def as_values(value: Any) -> list[Any]:
    """Return the entries of a list; any other value alone."""
    return value if isinstance(value, list) else [value]


def people_are_counted(document: Mapping[str, Any]) -> bool:
    """Return True if numbers of records are numbers of people, by the declared unit of a draft."""
    unit, number = (field_text(document, ("privacy", x)) for x in ("unit", "max_records"))
    return value_at(document, ("privacy", "count")) != "shares" and number == "1" and counts_people(unit, 1)


def wording_of(document: Mapping[str, Any], language: str) -> Translator:
    """Return a language with the names that a draft has in it, and the word for what the draft counts."""
    names = value_at(document, ("names", language))
    texts = {x: text for x, text in names.items() if isinstance(text, str)} if isinstance(names, Mapping) else {}
    return replace(translator(language, people=people_are_counted(document)), names=texts)


def table_words(table: Any, language: Translator) -> str:
    """Return the title of a table in words; for keys that forms do not write, the keys."""
    if not isinstance(table, Mapping):
        return "?"
    if table.get("name"):
        return str(table["name"])
    sums, means = as_names(table.get("sum")), as_names(table.get("mean"))
    ceiling = f", {value_text(table['ceiling'])})" if "ceiling" in table else ""
    statistic = language.translate("page.table.mean", name=means[0]) if means else ""
    if sums:
        terms = (f"min({language.name(x)}{ceiling}" if ceiling else language.name(x) for x in sums)
        statistic = language.translate("page.table.sum", names=" × ".join(terms))
    views = [key for key in VIEWS if key not in ("sum", "mean")]
    viewed = {x: _view_words(key, x, table[key], language) for key in views for x in as_names(table.get(key))}
    # A column with a view can be among the attributes, which only gives its place.
    names = [x for x in as_names(table.get("attributes")) if x not in (*sums, *means)]
    columns = [viewed.pop(x, language.name(x)) for x in names]
    columns += viewed.values()
    if "pattern" in table:
        pattern = str(table["pattern"])
        text = language.translate(PATTERNS[pattern]) if pattern in PATTERNS else f"all: {pattern}"
        further = ", ".join(columns)
        columns = [language.translate("page.name.with", tables=text, attributes=further) if further else text]
    return title_in_words(statistic, columns, language)


def _view_words(key: str, name: str, value: Any, language: Translator) -> str:
    """Return a view of a column in words. value: that of its key in the table."""
    count = value_text(value.get(name, "")) if isinstance(value, Mapping) and key == "average" else ""
    return column_in_words(name, key, [Value("count", count)], language)


def as_names(value: Any) -> list[str]:
    """Return names, in any of their forms: one, several, or keys."""
    return [] if value is None else [str(x) for x in value] if isinstance(value, list | Mapping) else [str(value)]
