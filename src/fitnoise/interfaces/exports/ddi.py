"""The description of a data package for archives of statistics: DDI-Codebook 2.5, with a cube for each table.

Source: DDI-Codebook 2.5, ddialliance.org: the elements stdyDscr, fileDscr, var and nCube, in the order of its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from fitnoise import __version__
from fitnoise.interfaces.exports.catalogues import methods, superseded
from fitnoise.interfaces.exports.resources import (
    Column,
    Resource,
    dataset_id,
    descriptions,
    first_publication,
    further_languages,
    in_file,
    keywords,
    names,
    own_language,
    table_titles,
    texts,
    titles,
)
from fitnoise.interfaces.render import printable
from fitnoise.reading.layouts import Tabled, releases
from fitnoise.request.attributes import CODE
from fitnoise.request.publication import Publication

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def ddi(source: Tabled, title: str, resources: Sequence[Resource]) -> str:
    """Return the codebook of a data package."""
    publication = first_publication(source)
    book = Element("codeBook", {"xmlns": "ddi:codebook:2_5", "version": "2.5", _LANG: publication.language})
    _add_study(_add(book, "stdyDscr"), source, title, publication)
    for i, x in enumerate(resources):
        _add_file(book, i, x)
    data = _add(book, "dataDscr")
    for i, x in enumerate(resources):
        for j, column in enumerate(x.columns):
            _add_variable(data, f"V{i + 1}.{j + 1}", f"F{i + 1}", source, x, column)
    for i, x in enumerate(resources):
        _add_cube(data, i, source, x)
    indent(book, " ")
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{head}\n{tostring(book, encoding='unicode')}\n"


def _add_study(study: Element, source: Tabled, title: str, publication: Publication) -> None:
    """Add the description of the publication: its citation, its content, its method and its licence."""
    metadata = publication.metadata
    _add_citation(_add(study, "citation"), source, title, publication)
    info = _add(study, "stdyInfo")
    if metadata.keywords:
        _add_each(_add(info, "subject"), "keyword", keywords(source))
    _add_each(info, "abstract", descriptions(source))
    summary = _add(info, "sumDscr")
    if metadata.days is not None:
        for event, day in zip(("start", "end"), metadata.days, strict=True):
            _add(summary, "timePrd", day.isoformat(), date=day.isoformat(), event=event)
    _add_each(summary, "geogCover", texts(source, "geography"))
    for unit in dict.fromkeys(r.plan.publication.unit.name for r in releases(source)):
        _add(summary, "anlyUnit", unit)
    main = own_language(source)
    _add(summary, "dataKind", main.translate("page.export.kind"), language=main.code)
    method = _add(study, "method")
    _add_each(method, "notes", methods(source))
    if metadata.licence is not None:
        stated = " ".join(dict.fromkeys([metadata.licence, metadata.licence_url or ""]))
        _add(_add(_add(study, "dataAccs"), "useStmt"), "conditions", stated)


def _add_citation(citation: Element, source: Tabled, title: str, publication: Publication) -> None:
    """Add title, identifier, publisher, contact and version."""
    metadata, publishers = publication.metadata, texts(source, "publisher")
    stated, (main_title, *further_titles) = _add(citation, "titlStmt"), titles(source, title)
    _add(stated, "titl", *main_title)
    _add_each(stated, "parTitl", further_titles)
    _add(stated, "IDNo", dataset_id(source), agency="fitnoise")
    production = _add(citation, "prodStmt")
    _add_each(production, "producer", publishers)
    _add(production, "software", "fitnoise", version=__version__)
    distribution = _add(citation, "distStmt")
    _add_each(distribution, "distrbtr", publishers)
    if metadata.contact or metadata.contact_email:
        contact = {} if metadata.contact_email is None else {"email": metadata.contact_email}
        contacts = texts(source, "contact") or publishers or texts(source, "contact_email")
        _add_each(distribution, "contact", contacts, **contact)
    reasons = [x.reason for x in superseded(source)]
    if metadata.version or reasons:
        version = _add(citation, "verStmt")
        _add(version, "version", metadata.version)
        for reason in reasons:
            _add(version, "notes", reason)


def _add_each(parent: Element, tag: str, stated: Iterable[tuple[str, str]], **attributes: str) -> None:
    """Add an element for each text, with its language."""
    for text, language in stated:
        _add(parent, tag, text, language, **attributes)


def _add(parent: Element, tag: str, text: str | None = "", language: str | None = None, **attributes: str) -> Element:
    """Add an element with a text, and return it. Without a text (None), add nothing."""
    if text is None:
        return parent
    child = SubElement(parent, tag, {k: printable(x) for k, x in attributes.items()})
    if language is not None:
        child.set(_LANG, language)
    # Control characters, which a label may hold, are no XML.
    child.text = "\n".join(map(printable, text.splitlines())) or None
    return child


def _add_file(book: Element, i: int, x: Resource) -> None:
    """Add the description of a CSV file."""
    described = _add(_add(book, "fileDscr", ID=f"F{i + 1}", URI=x.path), "fileTxt")
    _add(described, "fileName", x.path)
    _add(described, "fileCont", x.name)
    _add(described, "fileStrc", type="rectangular")
    size = _add(described, "dimensns")
    _add(size, "caseQnty", str(x.rows))
    _add(size, "varQnty", str(len(x.columns)))
    _add(described, "fileType", "text/csv", charset="UTF-8")


def _add_variable(data: Element, key: str, file: str, source: Tabled, x: Resource, column: Column) -> None:
    """Add the description of a column, with its categories: codes of an attribute, with labels in all languages."""
    is_number = column.values is None
    units = {"measUnit": x.unit} if column.attribute is None and column.name != "reliability" else {}
    kind = "contin" if is_number and column.name != "reliability" else "discrete"
    var = _add(data, "var", ID=key, name=column.name, files=file, intrvl=kind, **units)
    _add_labels(var, names(source, column.name))
    main = own_language(source)
    _add(var, "txt", column.description or None, language=main.code)
    if column.values is not None:
        attribute = column.attribute or ""
        # The dimension of the cube: next to labels a column of codes, and otherwise the column of the attribute itself.
        code_column = f"{attribute}_{CODE}"
        has_codes = any(c.name == code_column for c in x.columns)
        is_dimension = column.name == (code_column if has_codes else attribute)
        label_of = {in_file(code): (code, text) for code, text in x.codes[attribute]} if is_dimension else {}
        languages = {first_publication(source).language: main, **further_languages(source)}
        for value in column.values:
            category = _add(var, "catgry")
            _add(category, "catValu", str(value))
            if str(value) in label_of:
                code, text = label_of[str(value)]
                label, *others = [(y.label(attribute, text, code), tag) for tag, y in languages.items()]
                _add_labels(category, [label, *(pair for pair in others if pair[0] != label[0])])
    _add(var, "varFormat", type="character" if column.kind == "string" else "numeric")


def _add_labels(parent: Element, stated: Sequence[tuple[str, str]]) -> None:
    """Add a label in the language of the publication, which needs no mark, and labels in further languages."""
    _add(parent, "labl", stated[0][0])
    _add_each(parent, "labl", stated[1:])


def _add_cube(data: Element, i: int, source: Tabled, x: Resource) -> None:
    """Add a table as a cube: its attributes are dimensions; its numbers, with margins, are measures."""
    keys = {column.name: f"V{i + 1}.{j + 1}" for j, column in enumerate(x.columns)}
    cube = _add(data, "nCube", ID=f"C{i + 1}", name=x.name, dmnsQnty=str(len(x.dimensions)), cellQnty=str(x.rows))
    _add_labels(cube, table_titles(source, x.name))
    _add(cube, "txt", x.description, language=own_language(source).code)
    for rank, attribute in enumerate(x.dimensions, 1):
        code = f"{attribute}_{CODE}"
        _add(cube, "dmns", rank=str(rank), varRef=keys[code if code in keys else attribute])
    way = "average" if x.layout.averaged is not None else "sum" if x.layout.summed else "count"
    numbers = [c for c in x.columns if c.attribute is None and c.name != "reliability"]
    for column in numbers:
        is_value = column.name == numbers[0].name
        aggregate = {"aggrMeth": way} if is_value else {"aggrMeth": "other", "otherAggrMeth": column.name}
        _add(cube, "measure", varRef=keys[column.name], measUnit=x.unit, **aggregate)
