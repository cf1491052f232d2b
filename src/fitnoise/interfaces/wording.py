"""The words of pages and files: the texts of a language, and the publisher's own texts in it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
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

_VIEWS = {"count": "page.name.count", "groups": "page.name.groups", "ranges": "page.name.ranges"}
"""The texts that name an attribute in the name of a table, for views whose column has no heading of its own."""

MAX_NAMED_TABLES = 10_000
"""The largest number of tables of a publication that get names; a page or workbook shows fewer."""

_RANGE = " – "
"""The sign between the ends of a range of labels."""


def language_of(publication: Publication) -> str:
    """Return the code of the language in which reports show a publication; English if reports lack its language."""
    code = publication.language.split("-")[0]
    return code if code in LANGUAGES else "en"


def wording(language: str, publications: Iterable[Publication], *, has_default_names: bool = False) -> Translator:
    """Return a language with the names and labels that publications have in it.

    Args:
        language: The code of the language.
        publications: The publications of one page or file; of two words for one name, the first counts.
        has_default_names: True to name tables in the language without any text of the publisher in it, too.

    Raises:
        ReleaseError: There are no texts of reports in this language.
    """
    names: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    places: dict[str, dict[str, str]] = {}
    attributes: dict[str, Attribute] = {}
    # In reverse order, so that the words of the first publication replace those of the others.
    for publication in reversed(tuple(publications)):
        # The default names of tables are English, so a publication in another language needs no texts to name them.
        names_tables = language != "en" and (has_default_names or language == language_of(publication))
        default = Translation() if names_tables else None
        texts = publication.translations.get(language, default)
        attributes |= publication.domain.items()
        if texts is not None:
            names |= _names_of_tables(publication, replace(translator(language), names=texts.names))
            names |= texts.names
            for name, further in texts.labels.items():
                attribute = publication.domain[name]
                # own_values are the main labels: an attribute without labels has none in further languages. Of a level,
                # they are the codes.
                by_value = dict(zip(map(str, attribute.own_values), further, strict=True))
                (places if NAME in attribute.further_columns else labels)[name] = by_value
    by_name = replace(translator(language), names=names)
    by_label = {name: partial(_label, by_name, texts) for name, texts in labels.items()}
    bins = {
        name: partial(_bin, by_name) for name, a in attributes.items() if FROM in a.further_columns and language != "en"
    }
    return replace(by_name, labels=by_label | bins, places=places)


def _names_of_tables(publication: Publication, language: Translator) -> dict[str, str]:
    """Return names for tables that have none of the publisher's, and for amounts up to a ceiling, in a language.

    A name has the headings of the attributes, and says what a sum or mean is of. Tables with one new name keep theirs.
    """
    names: dict[str, str] = {}
    amounts: dict[str, str] = {}
    for group in publication.groups:
        for each in itertools.islice(group.workload.tables, MAX_NAMED_TABLES):
            for term, a in zip(each.terms, each.summed, strict=True):
                if term != a:
                    amounts[term] = term.replace(f"({a},", f"({language.name(a)},", 1)
            if each.attributes and each.matrix is None and each.name == each.default_name:
                names[each.name] = _name_of_table(each, replace(language, names={**language.names, **amounts}))
        for pattern in (x for x in group.workload.tables.parts if isinstance(x, Family)):
            names[pattern.describe()] = _name_of_pattern(pattern, language)
    number_of = Counter(names.values())
    return amounts | {name: text for name, text in names.items() if number_of[text] == 1}


def _name_of_table(table: Table, language: Translator) -> str:
    """Return the name of a table of attributes: its statistic unless it counts records, and their headings."""
    statistic, mean = "", table.averaged
    if mean is not None:
        statistic = language.translate("page.table.mean", name=mean[0])
    elif table.summed:
        statistic = language.translate("page.table.sum", names=" × ".join(map(language.name, table.terms)))
    amounts = (*table.summed, *(() if mean is None else mean[:1]))
    texts = []
    for name in (a for a in table.attributes if a not in amounts):
        view = table.view(name)
        key = getattr(view, "key", None)
        heading = Message(_VIEWS[key], (Value("name", name),)) if key in _VIEWS else view.heading(name)
        texts.append(language.heading(heading))
    attributes = " × ".join(texts)
    if statistic and texts:
        return language.translate("page.name.by", statistic=statistic, attributes=attributes)
    return statistic or attributes


def _name_of_pattern(pattern: Family, language: Translator) -> str:
    """Return the name of a pattern of tables: its number of attributes in each table, and the further ones."""
    template, number = pattern.template, len(pattern.pattern_attributes)
    sizes = {1: "page.name.singles", 2: "page.name.pairs", 3: "page.name.triples"}
    if pattern.order in sizes:
        tables = language.translate(sizes[pattern.order], n=number)
    else:
        tables = language.translate("page.name.sets", size=pattern.order, n=number)
    further = _name_of_table(replace(template, name=""), language) if template.attributes else ""
    text = language.translate("page.name.with", tables=tables, attributes=further) if further else tables
    return f"{language.name(template.name)}: {text}" if template.name else text


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
