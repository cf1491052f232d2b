"""The laws of reports and of the statements in stored documents."""

import contextlib
import functools
import json
import math
import re
from collections.abc import Mapping

from fitnoise import messages
from fitnoise.interfaces.pages import fragments
from fitnoise.interfaces.render import document, lines, readable
from headed import html_tables


def check_report(report):
    """Plain numbers, none lost as JSON, every word seen as text; and what is shown of one key is what programs get."""
    content = document(report)
    check_plain(content)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    text = lines(report)
    assert all(line.isprintable() for line in text)
    assert all(line.isascii() for line in lines(report, "ascii"))
    assert "" not in text[:1] + text[-1:]
    texts = iter(content["sentences"])
    for section in report.sections:
        inner = functools.reduce(lambda here, step: here[step], section.path, content)
        for message in section.messages:
            printed = next(texts)
            assert (printed["id"], printed["text"]) == (message.id, messages.english(message))
            assert {*printed["values"]} == {*re.findall(r"{(\w+)}", messages.catalogue("en")[message.id])}
            assert any(line.endswith(readable(messages.english(message))) for line in text)
            check_in_every_language(message)
        for value in section.values:
            assert value.spoken or inner[value.key] == as_read(as_document(value.content))
        for table in section.tables:
            assert {len(row) for row in (*table.rows, *table.foot)} <= {len(table.columns)}
            rows = [[ENGLISH_OF_TERMINALS.kind(c.kind, x) for c, x in row] for row in table.cells]
            seen = [[*map(ENGLISH_OF_TERMINALS.heading, table.headings)], *rows] if table.rows and rows[0] else []
            assert all(any(in_order(expected_words, line) for line in text) for expected_words in seen)
            assert len(inner[table.key]) >= len(table.rows)
    check_headings(report)


ENGLISH = messages.translator("en")

ENGLISH_OF_TERMINALS = messages.translator("en", typeset=False)

KINDS_BY_KEY = {
    "factors": messages.ValueKind.PRODUCT,
    "rules": messages.ValueKind.SENTENCES,
    "guess": messages.ValueKind.PROBABILITY,
}
"""The kinds of values of stored statements that are neither text nor numbers to six digits."""

KINDS_OF_CONDITIONS = dict.fromkeys(("column", "value", "values"), messages.ValueKind.CODE)
"""The kinds of values of the conditions on records."""


def is_statement(stated):
    """Return True if a part of a stored document names a message."""
    return isinstance(stated, dict) and str(stated.get("id")).startswith("report.")


def message_of(stated):
    """Return the message that a stored document names by its id and values."""
    if isinstance(stated, list):
        return [message_of(x) for x in stated]
    if not is_statement(stated):
        return stated
    number = messages.ValueKind.NUMBER
    kinds = {k: number if type(x) in (int, float) else messages.ValueKind.TEXT for k, x in stated.items()}
    kinds |= KINDS_OF_CONDITIONS if stated["id"].startswith("report.condition.") else KINDS_BY_KEY
    values = (messages.Value(k, message_of(x), kinds[k]) for k, x in stated.items() if k != "id")
    return messages.Message(stated["id"], tuple(values))


def in_words(stated):
    """Return a stored document with the English text in place of each statement."""
    if is_statement(stated):
        return messages.english(message_of(stated))
    if isinstance(stated, dict):
        return {key: in_words(x) for key, x in stated.items()}
    return [in_words(x) for x in stated] if isinstance(stated, list) else stated


NAMES_OF_PUBLISHER = {"name", "title", "source", "account", "written", "series", "attributes"}
"""Keys of stored documents with names of the publisher, such as the share "county in state" of two levels."""

VALUES_OF_PUBLISHER = {"attribute", "attributes", "amounts", "cells", "classes", "column", "question", "factors"}

VALUES_OF_PUBLISHER |= {"value", "values", "unit", "source"}
"""Keys of statements whose texts the publisher chose: names and values of the data."""


def check_no_sentences(stored, key=""):
    """A stored document holds ids and numbers: no text has two words, except names and titles of the publisher."""
    if is_statement(stored):
        check_in_every_language(message_of(stored))
        texts = messages.catalogue("en")
        assert stored.keys() - {"id"} == set(re.findall(r"\{(\w+)\}", texts[stored["id"]])), stored
    if isinstance(stored, dict):
        for inner_key, inner in stored.items():
            free = inner_key in ("spec", "not_counted") or (is_statement(stored) and inner_key in VALUES_OF_PUBLISHER)
            if not free and inner_key not in NAMES_OF_PUBLISHER:
                check_no_sentences(inner, inner_key)
    elif isinstance(stored, list):
        for inner in stored:
            check_no_sentences(inner, key)
    else:
        assert not isinstance(stored, str) or len(stored.split()) < 2, (key, stored)


@contextlib.contextmanager
def texts_in_reports():
    """Check that each text that a page or a file uses is in every language of reports, and not only in English."""
    used = set()

    class Recording(dict):
        def __getitem__(self, text_id):
            used.add(text_id)
            return super().__getitem__(text_id)

    german = messages.translator("de")
    own_texts = german.texts
    object.__setattr__(german, "texts", Recording(own_texts))
    try:
        yield used
    finally:
        object.__setattr__(german, "texts", own_texts)
    for code in messages.LANGUAGES:
        assert used <= messages.catalogue(code).keys(), (code, used - messages.catalogue(code).keys())


def check_in_every_language(message):
    """Each value that a text names is a value of its message, and no text is joined from parts."""
    for code in messages.COMPLETE_LANGUAGES:
        language = messages.translator(code)
        keys_in_text = set(re.findall(r"\{(\w+)\}", language.texts[message.id]))
        assert keys_in_text <= {v.key for v in message.values}, message.id
        assert language.write(message)
    for value in message.values:
        if isinstance(value.content, messages.Message):
            check_in_every_language(value.content)


def as_document(value):
    """A value as documents have it: messages in English."""
    if isinstance(value, messages.Message):
        return messages.english(value)
    if isinstance(value, Mapping):
        return {key: as_document(x) for key, x in value.items()}
    return [as_document(x) for x in value] if isinstance(value, list | tuple) else value


def check_headings(report):
    """On a page, every cell of a table that people see is the value of its column."""
    seen = [t for s in report.sections for t in s.tables if t.rows and t.headings]
    for table, (heads, rows) in zip(seen, html_tables(fragments.report(report)), strict=True):
        columns = [(j, c) for j, c in enumerate(table.columns) if c.heading is not None]
        assert heads == [ENGLISH.heading(c.heading) for _, c in columns]
        expected = [[ENGLISH.kind(c.kind, row[j]) for j, c in columns] for row in (*table.rows, *table.foot)]
        blank = [[text.replace("\u202f", " ") for text in row] for row in rows]
        assert blank == [[readable(text.replace("\u202f", " ")).strip() for text in row] for row in expected]


def check_plain(value):
    """Check that a document has only plain JSON values: no scalars of NumPy, no fractions, nothing infinite."""
    assert type(value) in (bool, int, float, str, list, dict, type(None))
    assert not isinstance(value, float) or math.isfinite(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_plain(inner)


def as_read(value):
    return json.loads(json.dumps(value))


def in_order(word_list, line):
    """Return True if a line has all words, one after the other."""
    start = 0
    for word in word_list:
        start = line.find(word, start)
        if start < 0:
            return False
        start += len(word)
    return True
