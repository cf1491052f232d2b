"""Rules about impossible records and public totals as a form holds them, and their keys in a document.

    [[impossible]], [rules], [[public]]  <── rule_fields, with_rules ──>  RuleFields  <── submitted_rules ──  form

An entry that the form cannot show stays as it is: only the file can change it. Nothing here reads data.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from fitnoise.kernel.checks import is_plain
from fitnoise.request.known_totals import ORIGINS
from fitnoise_studio import forms
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.refusals import FormError, Refusals

VALUES = "values"

COMPARISONS = (VALUES, "at_least", "at_most", "above", "below")
"""The conditions of a rule on a column: some values, or a bound."""

TREATMENTS = ("", "refuse", "drop")
"""The treatments of impossible records; with "" they are treated like those outside the domain."""


@final
@dataclass(frozen=True)
class RuleCondition:
    """A condition of a rule: a column, a comparison of `COMPARISONS`, and a value, or values with commas."""

    column: str = ""
    comparison: str = VALUES
    value: str = ""


Rule = tuple[RuleCondition, ...]

MAX_ENTRY_CHARACTERS = 80
"""The number of characters of a value of the file that a page shows."""


@final
@dataclass(frozen=True)
class RuleFields:
    """The fields of the page; None where only the file can show an entry.

    rules: The rules about impossible records.
    treatment: The treatment of impossible records.
    has_totals: True if some totals are public.
    totals: The columns of the public totals.
    source, origin: Their source, and their origin.
    """

    rules: tuple[Rule | None, ...] = ()
    treatment: str = ""
    has_totals: bool | None = False
    totals: tuple[str, ...] = ()
    source: str = ""
    origin: str = ORIGINS[0]


def columns_of_rules(document: Mapping[str, Any]) -> list[str]:
    """Return the attributes and levels that a rule can name."""
    return forms.shown_of(document)


def columns_of_totals(document: Mapping[str, Any]) -> list[str]:
    """Return the attributes that public totals can be by."""
    levels = forms.levels_of(document)
    return [x for x in forms.shown_of(document) if x not in levels]


# --- from a document ------------------------------------------------------------------------------------------------


def _entries(document: Mapping[str, Any], key: str) -> list[Any]:
    entries = document.get(key, [])
    return entries if isinstance(entries, list) else [entries]


def rule_fields(document: Mapping[str, Any]) -> RuleFields:
    """Return the fields that a document means."""
    treatment = forms.value_at(document, ("rules", "outside"))
    totals = _entries(document, "public")
    fields = RuleFields(
        tuple(_rule(document, x) for x in _entries(document, "impossible")),
        str(treatment) if treatment in TREATMENTS else "",
    )
    if not totals:
        return fields
    (stated, *others) = totals
    names = forms.value_at(stated, ("by",))
    texts = [forms.value_at(stated, ("source",)), forms.value_at(stated, ("origin",)) or ORIGINS[0]]
    is_shown = (
        not others
        and isinstance(stated, Mapping)
        and {*stated} <= {"by", "source", "origin"}
        and isinstance(names, list)
        and {*map(str, names)} <= {*columns_of_totals(document)}
        and isinstance(texts[0], str)
        and texts[1] in ORIGINS
    )
    if not is_shown:
        return replace(fields, has_totals=None)
    return replace(fields, has_totals=True, totals=tuple(names), source=texts[0], origin=texts[1])


def _rule(document: Mapping[str, Any], rule: Any) -> Rule | None:
    """Return the conditions of a rule; None if the form would read them otherwise."""
    if not isinstance(rule, Mapping) or not {*rule} <= {*columns_of_rules(document)}:
        return None
    conditions = []
    for name, stated in rule.items():
        if isinstance(stated, Mapping):
            pairs = [*stated.items()]
        else:
            pairs = [(VALUES, stated if isinstance(stated, list) else [stated])]
        for comparison, value in pairs:
            if comparison == VALUES and isinstance(value, list):
                conditions.append(RuleCondition(name, VALUES, ", ".join(map(_value_text, value))))
            elif comparison in COMPARISONS[1:] and is_plain(value):
                conditions.append(RuleCondition(name, comparison, forms.value_text(value)))
            else:
                return None
    read = _document(tuple(conditions), Refusals(), "")
    is_same = [(name, _meaning(x)) for name, x in read.items()] == [(name, _meaning(x)) for name, x in rule.items()]
    return tuple(conditions) if is_same else None


def _meaning(stated: Any) -> Any:
    """Return what a condition means, for all forms in which a specification can write it."""
    if isinstance(stated, Mapping):
        values = stated.get(VALUES)
        return _meaning(values) if isinstance(values, list) and len(stated) == 1 else {**stated}
    # Two numbers in a list alone could be a range.
    return [(type(x), x) for x in (stated if isinstance(stated, list) else [stated])]


def _value_text(value: Any) -> str:
    """Return a value as the form writes it; quoted if it has a comma."""
    return forms.quote(value) if isinstance(value, str) and "," in value else forms.code_text(value)


def entries_of_file(document: Mapping[str, Any]) -> list[str]:
    """Return the entries that only the file shows, each in one line."""
    lists = [f"[[possible]] {_line(x)}" for x in _entries(document, "possible")]
    fields = rule_fields(document)
    pairs = zip(_entries(document, "impossible"), fields.rules, strict=True)
    rules = [f"[[impossible]] {_line(x)}" for x, rule in pairs if rule is None]
    totals = [f"[[public]] {_line(x)}" for x in _entries(document, "public") if fields.has_totals is None]
    return [*rules, *lists, *totals]


def _line(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)
    return "; ".join(f"{key} = {str(x)[:MAX_ENTRY_CHARACTERS]}" for key, x in entry.items())


# --- from a form ----------------------------------------------------------------------------------------------------


def submitted_rules(form: SubmittedForm) -> RuleFields:
    """Return the fields that a form holds, as they were written."""
    rules = tuple(
        tuple(_submitted_conditions(form, i)) if form[f"rule.{i}"] == "form" else None
        for i in itertools.takewhile(lambda i: f"rule.{i}" in form, itertools.count())
    )
    return RuleFields(
        rules,
        form.get("outside", ""),
        {"yes": True, "file": None}.get(form.get("public", ""), False),
        tuple(dict.fromkeys(form.all("by"))),
        form.get("source", "").strip(),
        form.get("origin", ORIGINS[0]),
    )


def _submitted_conditions(form: SubmittedForm, i: int) -> Iterator[RuleCondition]:
    for j in itertools.takewhile(lambda j: f"column.{i}.{j}" in form, itertools.count()):
        texts = (form.get(f"{key}.{i}.{j}", "").strip() for key in ("column", "comparison", "value"))
        yield RuleCondition(*texts)


def acted(fields: RuleFields, action: str) -> RuleFields:
    """Return fields after a button.

    action: "rule" adds a rule about two columns; "condition.I" adds a condition to rule I; "drop.I" takes the rule out.
    """
    rules = list(fields.rules)
    match = re.fullmatch(r"(condition|drop)\.([0-9]{1,3})", action)
    if action == "rule":
        rules.append((RuleCondition(), RuleCondition()))
    elif match is not None and int(match[2]) < len(rules):
        rule = rules[int(match[2])]
        if match[1] == "drop":
            del rules[int(match[2])]
        elif rule is not None:
            rules[int(match[2])] = (*rule, RuleCondition())
    return replace(fields, rules=tuple(rules))


# --- to a document --------------------------------------------------------------------------------------------------


def with_rules(document: forms.Document, form: SubmittedForm) -> forms.Document:
    """Return a document with the rules and public totals of a form.

    Raises:
        Refused: A field is refused.
    """
    out, fields, stored_fields = copy.deepcopy(document), submitted_rules(form), rule_fields(document)
    entries, rules = _entries(document, "impossible"), list[Any]()
    # Entries that the form does not show, and those that it leaves unchanged, stay as they are written.
    retained_rules = [x for x, rule in zip(entries, stored_fields.rules, strict=True) if rule is None]
    rules_by_fields = {rule: x for x, rule in zip(entries, stored_fields.rules, strict=True) if rule is not None}
    with Refusals() as refusals:
        for i, rule in enumerate(fields.rules):
            if rule is None:
                rules += [retained_rules.pop(0)] if retained_rules else []
            elif rule in rules_by_fields:
                rules.append(rules_by_fields[rule])
            elif any(x.column or x.value for x in rule):
                rules.append(_document(rule, refusals, str(i), columns_of_rules(document)))
        forms.put(out, ("impossible",), rules + retained_rules or None)
        with refusals.for_field("outside"):
            if fields.treatment != stored_fields.treatment:
                forms.choice_of(form, "outside", TREATMENTS)
                forms.put(out, ("rules",), {"outside": fields.treatment} if fields.treatment else None)
        if fields.has_totals is not None and stored_fields.has_totals is not None:
            _set_totals(out, document, fields, stored_fields, refusals)
    return out


def _document(rule: Rule, refusals: Refusals, i: str, columns: Sequence[str] | None = None) -> forms.Document:
    """Return the keys of a rule, and collect what is wrong with its fields."""
    out: forms.Document = {}
    stated = [(j, x) for j, x in enumerate(rule) if x.column or x.value]
    for j, x in stated:
        with refusals.for_field(f"column.{i}.{j}"):
            if columns is not None and x.column not in columns:
                raise FormError(
                    "form-rule-column-missing",
                    f"The rule names {forms.shortened(x.column)}, which is no column of the draft.",
                    "A condition is on one column.",
                    "Choose the column.",
                    "Nothing was changed.",
                )
            before = out.get(x.column)
            is_bound = x.comparison != VALUES
            if before is not None and not (is_bound and isinstance(before, dict) and x.comparison not in before):
                raise FormError(
                    "form-rule-column-twice",
                    f"The rule has two conditions on {x.column!r}.",
                    "A column has one condition, or a lower and an upper bound.",
                    "Remove one of them.",
                    "Nothing was changed.",
                )
        with refusals.for_field(f"comparison.{i}.{j}"):
            forms.choice_of(SubmittedForm([("comparison", x.comparison)]), "comparison", COMPARISONS)
        with refusals.for_field(f"value.{i}.{j}"):
            if x.comparison == VALUES:
                values = _values(x.value)
                # A list of numbers could be a range.
                is_texts = all(isinstance(y, str) for y in values)
                out[x.column] = values[0] if len(values) == 1 else values if is_texts else {VALUES: values}
            else:
                bound = forms.tidy(forms.signed(x.value))
                out[x.column] = {**(out[x.column] if isinstance(out.get(x.column), dict) else {}), x.comparison: bound}
    if columns is not None and len({x.column for _, x in stated}) < 2:
        with refusals.for_field(f"column.{i}.{len(rule) - 1}"):
            raise FormError(
                "form-rule-single-column",
                "The rule names one column.",
                "A rule names values of at least two columns that never go together.",
                "Add a condition on another column, or remove the rule.",
                "Nothing was changed.",
            )
    return out


def _values(text: str) -> list[Any]:
    """Return the values of a text, with commas between them. Raise FormError for an empty text."""
    parts = re.findall(r'\s*("(?:[^"\\]|\\.)*"|[^,]*)\s*(?:,|$)', text)
    values = [forms.parse_code(x.strip()) for x in parts if x.strip()]
    if not values:
        raise FormError(
            "form-rule-value-missing",
            "The condition has no value.",
            "A condition names the values of its column.",
            "Enter a code or a label, or several with commas between them.",
            "Nothing was changed.",
        )
    return values


def _set_totals(
    out: forms.Document,
    document: Mapping[str, Any],
    fields: RuleFields,
    stored_fields: RuleFields,
    refusals: Refusals,
) -> None:
    """Set the public totals, and for totals of these data the weaker promise that they need."""
    before = (stored_fields.has_totals, stored_fields.totals, stored_fields.source, stored_fields.origin)
    if (fields.has_totals, fields.totals, fields.source, fields.origin) == before:
        return
    if not fields.has_totals:
        forms.put(out, ("public",), None)
    else:
        with refusals.for_field("source"):
            if not fields.source:
                raise FormError(
                    "form-totals-source-missing",
                    "The public totals have no source.",
                    "Readers need to know the publication that has them.",
                    "Name the publication and its date.",
                    "Nothing was changed.",
                )
        with refusals.for_field("by"):
            if not {*fields.totals} <= {*columns_of_totals(document)}:
                raise FormError(
                    "form-totals-column-unknown",
                    "The public totals are by a column that the draft does not have.",
                    "",
                    "Reload the page, and choose the columns.",
                    "Nothing was changed.",
                )
        with refusals.for_field("origin"):
            forms.choice_of(SubmittedForm([("origin", fields.origin)]), "origin", ORIGINS)
        totals: forms.Document = {"by": list(fields.totals), "source": fields.source}
        out["public"] = [totals | ({"origin": fields.origin} if fields.origin != ORIGINS[0] else {})]
    is_counted_here = fields.has_totals and fields.origin != ORIGINS[0]
    was_counted_here = stored_fields.has_totals and stored_fields.origin != ORIGINS[0]
    if is_counted_here or was_counted_here:
        forms.put(out, ("privacy", "within"), list(fields.totals) or None if is_counted_here else None)
