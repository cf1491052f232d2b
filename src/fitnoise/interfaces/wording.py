"""The words of pages and files: the texts of a language, and the publisher's own texts in it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from fitnoise.messages import LANGUAGES, Message, Translator, Value, translator
from fitnoise.request.attributes import FROM, NAME, Attribute
from fitnoise.request.publication import Publication
from fitnoise.request.translations import Translation
from fitnoise.request.workloads import Family, Table

_BINS = (
    (re.compile(r"under (?P<high>\S+)"), "page.bin.under"),
    (re.compile(r"(?P<low>\S+) to under (?P<high>\S+)"), "page.bin.between"),
    (re.compile(r"(?P<low>\S+) or more"), "page.bin.over"),
)
"""The texts of bins (:attr:`Binned.own_values`), with the ids of the texts that readers get."""

_VIEWS = {
    "count": "page.name.count",
    "cumulative": "page.name.cumulative",
    "groups": "page.name.groups",
    "ranges": "page.name.ranges",
    "change": "page.name.change",
    "average": "page.name.average",
    "to_date": "page.name.to_date",
}
"""The texts that name an attribute in the title of a table, by the key of its view."""

PERSONS = ("person", "persona", "personne")
"""The names of a unit that stand for one person, in the languages of reports."""

MAX_NAMED_TABLES = 10_000
"""The largest number of tables of a publication that get names; a page or workbook shows fewer."""

_RANGE = " – "
"""The sign between the ends of a range of labels."""


def language_of(publication: Publication) -> str:
    """Return the code of the language in which reports show a publication; English if reports lack its language."""
    code = publication.language.split("-")[0]
    return code if code in LANGUAGES else "en"


def counts_people(name: str, max_records: int, parts: int = 1) -> bool:
    """Return True if numbers of records are numbers of people: a person has one record, by the declared unit.

    Args:
        name: The name of the unit of protection.
        max_records: The largest number of counted records of a unit.
        parts: The number of equal shares that a unit counts in; 1 if it counts in records.
    """
    return name.casefold() in PERSONS and max_records == parts == 1


def wording(language: str, publications: Iterable[Publication]) -> Translator:
    """Return a language with the names, labels and titles that publications have in it.

    Args:
        language: The code of the language.
        publications: The publications of one page or file; of two words for one name, the first counts.

    Raises:
        ReleaseError: There are no texts of reports in this language.
    """
    names: dict[str, str] = {}
    titles: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    places: dict[str, dict[str, str]] = {}
    attributes: dict[str, Attribute] = {}
    publications = tuple(publications)
    units = [p.unit for p in publications]
    people = bool(units) and all(counts_people(u.name, u.max_records, u.parts) for u in units)
    base = translator(language, people=people)
    # In reverse order, so that the words of the first publication replace those of the others.
    for publication in reversed(publications):
        texts = publication.translations.get(language, Translation())
        attributes |= publication.domain.items()
        amounts, new_titles = _titles(publication, replace(base, names=texts.names))
        names |= {**amounts, **texts.names}
        titles |= new_titles
        for name, further in texts.labels.items():
            attribute = publication.domain[name]
            # own_values are the main labels: an attribute without labels has none in further languages. Of a level,
            # they are the codes.
            by_value = dict(zip(map(str, attribute.own_values), further, strict=True))
            (places if NAME in attribute.further_columns else labels)[name] = by_value
    by_name = replace(base, names=names, titles=titles)
    by_label = {name: partial(_label, by_name, texts) for name, texts in labels.items()}
    bins = {
        name: partial(_bin, by_name) for name, a in attributes.items() if FROM in a.further_columns and language != "en"
    }
    return replace(by_name, labels=by_label | bins, places=places)


def _titles(publication: Publication, language: Translator) -> tuple[dict[str, str], dict[str, str]]:
    """Return in a language names for amounts up to a ceiling, and titles for tables without a name of the publisher's.

    A title names the counted or summed things and the attributes. Tables with one new title keep their names.
    """
    titles: dict[str, str] = {}
    amounts: dict[str, str] = {}
    for group in publication.groups:
        for each in itertools.islice(group.workload.tables, MAX_NAMED_TABLES):
            for term, a in zip(each.terms, each.summed, strict=True):
                if term != a:
                    amounts[term] = term.replace(f"({a},", f"({language.name(a)},", 1)
            # Of two tables with one default name, the second has a number behind it.
            number = re.fullmatch(rf"{re.escape(each.default_name)}( \d+)?", each.name)
            # A table by one attribute has its name, for which the publisher's word is that of the attribute.
            is_translated = each.name in language.names and each.attributes != (each.name,)
            if each.matrix is None and number and not is_translated:
                renamed = replace(language, names={**language.names, **amounts})
                titles[each.name] = f"{title_in_words(*_parts_of_title(each, renamed), renamed)}{number[1] or ''}"
        for pattern in (x for x in group.workload.tables.parts if isinstance(x, Family)):
            titles[pattern.describe()] = _title_of_pattern(pattern, language)
    number_of = Counter(titles.values())
    return amounts, {name: text for name, text in titles.items() if number_of[text] == 1}


def _parts_of_title(table: Table, language: Translator) -> tuple[str, list[str]]:
    """Return the sum or mean of a table in words, "" if it counts, and the attributes that break it down."""
    statistic, amounts = "", table.summed
    if table.averaged is not None:
        amounts = table.averaged[:1]
        statistic = language.translate("page.table.mean", name=amounts[0])
    elif amounts:
        statistic = language.translate("page.table.sum", names=" × ".join(map(language.name, table.terms)))
    views = ((name, table.view(name)) for name in table.attributes if name not in amounts)
    return statistic, [
        column_in_words(name, getattr(view, "key", ""), view.text_values, language) for name, view in views
    ]


def title_in_words(statistic: str, columns: Sequence[str], language: Translator) -> str:
    """Return the title of a table, such as "People by area, sex and age (cumulative)".

    Args:
        statistic: The sum or mean of the table; "" if it counts.
        columns: The columns that break it down, in words.
        language: The language, with texts for numbers of people where people are counted.
    """
    if columns:
        *others, last = columns
        listed = language.translate("page.name.and", first=", ".join(others), last=last) if others else last
        statistic = statistic or language.translate("page.table.records")
        text = language.translate("page.name.by", statistic=statistic, attributes=listed)
    else:
        text = statistic or language.translate("page.table.all")
    return f"{text[:1].upper()}{text[1:]}"


def column_in_words(name: str, view: str, values: Sequence[Value], language: Translator) -> str:
    """Return a column in the words of a title: its name, and its view in brackets.

    Args:
        name: The name of the attribute.
        view: The key of the view; "" for each value.
        values: The values that texts of the view name, in addition to the attribute.
        language: The language.
    """
    if view not in _VIEWS:
        return language.name(name)
    return language.write(Message(_VIEWS[view], (Value("name", name), *values)))


def _title_of_pattern(pattern: Family, language: Translator) -> str:
    """Return the title of a pattern of tables: its number of attributes in each table, and the further ones."""
    template, number = pattern.template, len(pattern.pattern_attributes)
    sizes = {1: "page.name.singles", 2: "page.name.pairs", 3: "page.name.triples"}
    if pattern.order in sizes:
        tables = language.translate(sizes[pattern.order], n=number)
    else:
        tables = language.translate("page.name.sets", size=pattern.order, n=number)
    statistic, further = _parts_of_title(template, language)
    text = language.translate("page.name.with", tables=tables, attributes=", ".join(further)) if further else tables
    title = title_in_words(statistic, [text], language)
    return f"{language.name(template.name)}: {title}" if template.name else title


def _label(language: Translator, labels: dict[str, str], text: str) -> str:
    """Return a label in a language; any other row, such as a group, by its name."""
    return labels.get(text) or language.name(text)


def _bin(language: Translator, text: str) -> str:
    """Return the text of a bin, or of a range of bins, in a language; any other row by its name."""
    if _RANGE in text:
        return _RANGE.join(_bin(language, end) for end in text.split(_RANGE))
    for pattern, text_id in _BINS:
        if match := pattern.fullmatch(text):
            ends = {key: language.format_digits(end) for key, end in match.groupdict().items()}
            return language.translate(text_id, **ends)
    return language.name(text)
