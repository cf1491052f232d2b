"""The words of pages and files: the texts of a language, and the publisher's own texts in it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from fitnoise.messages import Message, Translator, translator
from fitnoise.request.attributes import FROM, Attribute
from fitnoise.request.publication import Publication

_BINS = (
    (re.compile(r"under (?P<high>\S+)"), "page.bin.under"),
    (re.compile(r"(?P<low>\S+) to under (?P<high>\S+)"), "page.bin.between"),
    (re.compile(r"(?P<low>\S+) or more"), "page.bin.over"),
)
"""The texts of bins (:attr:`Binned.own_values`), with the ids of the texts that readers get."""

MAX_NAMED_TABLES = 10_000
"""The largest number of tables of a publication that get names; a page or workbook shows fewer."""

_RANGE = " – "
"""The sign between the ends of a range of labels."""


def wording(language: str, publications: Iterable[Publication]) -> Translator:
    """Return a language with the names and labels that publications have in it.

    Args:
        language: The code of the language.
        publications: The publications of one page or file; of two words for one name, the first counts.

    Raises:
        ReleaseError: There are no texts of reports in this language.
    """
    names: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    attributes: dict[str, Attribute] = {}
    # In reverse order, so that the words of the first publication replace those of the others.
    for publication in reversed(tuple(publications)):
        texts = publication.translations.get(language)
        attributes |= publication.domain.items()
        if texts is not None:
            names |= _names_of_tables(publication, replace(translator(language), names=texts.names))
            names |= texts.names
            # own_values are the main labels: an attribute without labels has none in further languages.
            labels |= {
                name: dict(zip(map(str, publication.domain[name].own_values), further, strict=True))
                for name, further in texts.labels.items()
            }
    by_name = replace(translator(language), names=names)
    by_label = {name: partial(_label, by_name, texts) for name, texts in labels.items()}
    bins = {
        name: partial(_bin, by_name) for name, a in attributes.items() if FROM in a.further_columns and language != "en"
    }
    return replace(by_name, labels=by_label | bins)


def _names_of_tables(publication: Publication, language: Translator) -> dict[str, str]:
    """Return names for tables that have none of the publisher's: the headings of their attributes, in a language.

    A table keeps its name if headings do not show one of its views, such as a sum. So do tables with one new name.
    """
    names: dict[str, str] = {}
    for group in publication.groups:
        for each in itertools.islice(group.workload.tables, MAX_NAMED_TABLES):
            views = [(each.view(a), a) for a in each.attributes]
            is_shown = all(view.heading_text or not view.name_suffix for view, _ in views)
            if views and is_shown and each.matrix is None and each.name == each.default_name:
                headings = (view.heading(a) for view, a in views)
                texts = (language.write(x) if isinstance(x, Message) else language.name(x) for x in headings)
                names[each.name] = " × ".join(texts)
    number_of = Counter(names.values())
    return {name: text for name, text in names.items() if number_of[text] == 1}


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
