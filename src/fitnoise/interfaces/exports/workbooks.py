"""Workbooks: a sheet for each table, as the report lays it out. No text is a formula.

Numbers have the six decimals of CSV files. More digits may differ by machine, and then no check finds the same bytes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fitnoise import __version__
from fitnoise.interfaces.pages.fragments import (
    MARKS,
    NOISE_ONLY,
    caption,
    corrections,
    exported_notes,
    hashes,
    heading,
    labelled,
    numbers,
    title,
)
from fitnoise.interfaces.render import printable
from fitnoise.kernel.arrays import Floats
from fitnoise.messages import Translator
from fitnoise.reading.bands import Bands
from fitnoise.reading.description import unit_and_bound
from fitnoise.reading.layouts import Tabled, TableLayout, releases
from fitnoise.reading.refusals import missing_package

EPOCH = datetime(1980, 1, 1)  # noqa: DTZ001 - what a ZIP file can say, and no time at all
"""The creation time in every workbook. It is constant, so that the same tables give the same file."""

SHEET = re.compile(r"[^\w .-]")
"""The characters that the name of a sheet may not have."""


def workbook(source: Tabled, tables: Iterable[TableLayout], language: Translator, bands: Bands | None) -> bytes:
    """Return a workbook with a sheet for each table, after a sheet with their names.

    Raises:
        ReleaseError: XlsxWriter is not installed.
    """
    try:
        from xlsxwriter import Workbook
    except ModuleNotFoundError:
        raise missing_package("Workbooks", "XlsxWriter", "report", "Nothing was written.") from None
    held = io.BytesIO()
    with Workbook(held, {"in_memory": True}) as book:
        title_text = printable(title(releases(source)[0].plan.publication, language))
        book.set_properties({"title": title_text, "created": EPOCH, "comments": f"fitnoise {__version__}"})
        looks = {
            "title": book.add_format({"bold": True, "font_size": 14}),
            "head": book.add_format({"bottom": 1, "align": "right", "text_wrap": True}),
            "stub": book.add_format({"bottom": 1, "italic": True}),
            "soft": book.add_format({"font_color": "#525d69"}),
            "code": book.add_format({"num_format": "0", "align": "left"}),
            "variation": book.add_format({"num_format": "0.0%"}),
        }
        front = book.add_worksheet(language.translate("page.workbook.contents"))
        front.set_column(0, 0, 60)
        front.write_string(0, 0, title_text, looks["title"])
        row = 2
        if language.unreviewed is not None:
            front.write_string(1, 0, language.unreviewed, looks["soft"])
        for text in corrections(source, language):
            front.write_string(row, 0, printable(text))
            row += 1
        for i, table in enumerate(tables, 1):
            # Excel takes 31 characters for the name of a sheet, and 255 for the text of a link.
            table_name = printable(language.table(table.name))
            name = f"{i} {SHEET.sub(' ', table_name)}"[:31].rstrip()
            front.write_url(row, 0, f"internal:'{name}'!A1", string=table_name[:255])
            row += 1
            numbers = book.add_format({"num_format": "#,##0" + "." * (table.decimals > 0) + "0" * table.decimals})
            _sheet(
                book.add_worksheet(name),
                table,
                looks | {"number": numbers},
                language,
                source,
                bands,
            )
        units = dict.fromkeys(text for r in releases(source) for text in unit_and_bound(r.plan.publication.unit))
        unit = map(language.write, units)
        front.write_string(row + 1, 0, language.translate("page.subject.release"), looks["soft"])
        charged = " + ".join(f"{r.plan.rho:.7g}" for r in releases(source))
        front.write_string(row + 2, 0, f"ρ = {charged}, {printable('; '.join(unit))}", looks["soft"])
        front.write_string(row + 3, 0, f"fitnoise {__version__}, {hashes(source)}", looks["soft"])
    return held.getvalue()


def _survey(table: TableLayout) -> list[tuple[Floats, str, str]]:
    """Return the standard errors of sampling and the coefficients of variation, with heading and format of each.

    The list is empty for a table without sampling errors.
    """
    if table.sampling is None or table.variations is None:
        return []
    return [
        (table.sampling, "page.workbook.sampling", "number"),
        (table.variations, "page.workbook.variation", "variation"),
    ]


def _write_error(sheet: Any, cell: tuple[int, int], x: float, name: str, looks: dict[str, Any]) -> None:
    """Write a standard error or a coefficient of variation; for no standard error the mark of the noise alone."""
    if not math.isnan(x):
        sheet.write_number(*cell, round(x, 6), looks[name])
    elif name == "number":
        sheet.write_string(*cell, NOISE_ONLY)


def _write_labels(sheet: Any, table: TableLayout, looks: dict[str, Any], language: Translator) -> int:
    """Write the columns of labels, and next to each a column of codes where a CSV file has one, of the codes' type.

    Returns:
        The number of these columns.
    """
    column = 0
    for k, stub in enumerate(table.stubs):
        name, labels = printable(heading(language, stub)), [row[k] for row in table.rows]
        codes = [printable(label.code or label.text or "") for label in labels]
        # The label is for people, and the code for programs that join tables.
        has_codes = any(label.code for label in labels)
        columns = [(name, [labelled(label, language) for label in labels], not has_codes)]
        columns += [(language.translate("page.workbook.code", name=name), codes, True)] if has_codes else []
        sheet.set_column(column, column, 24)
        for head, texts, are_codes in columns:
            sheet.write_string(3, column, head, looks["stub"])
            for i, (text, code) in enumerate(zip(texts, codes, strict=True)):
                # Whole numbers stay numbers, so that programs can join them; a total has no code.
                if stub.has_integer_codes and are_codes and code:
                    sheet.write_number(4 + i, column, int(code), looks["code"])
                elif text:
                    sheet.write_string(4 + i, column, text)
            column += 1
    return column


def _sheet(
    sheet: Any, table: TableLayout, looks: dict[str, Any], language: Translator, source: Tabled, bands: Bands | None
) -> None:
    """Write a title, a caption, the table and its notes. Next to each number are its margin or interval and its mark.

    With sampling errors, the standard error and the coefficient of variation come before the mark.

    Every column has a heading of its own, so that a program that reads the sheet by headings finds each once.
    """
    sheet.write_string(0, 0, printable(language.table(table.name)), looks["title"])
    sheet.write_string(1, 0, caption(table, language), looks["soft"])
    margins = [table.margins] if table.ends is None else list(table.ends)
    survey = _survey(table)
    each = 1 + len(margins) + len(survey) + (table.bands is not None)
    stubs = _write_labels(sheet, table, looks, language)
    for j, column in enumerate(table.columns):
        first_column = stubs + each * j
        column_name = labelled(column, language) if table.across else numbers(table, language)
        ends = [language.translate(x, name=column_name) for x in ("page.workbook.from", "page.workbook.to")]
        heads = [column_name, *([f"{column_name} ±"] if table.ends is None else ends)]
        heads += [language.translate(x, name=column_name) for _, x, _ in survey]
        heads += [f"{column_name} †‡"] if table.bands is not None else []
        for k, head in enumerate(heads):
            sheet.write_string(3, first_column + k, head, looks["head"])
    for i in range(len(table.rows)):
        for j in range(len(table.columns)):
            first_column = stubs + each * j
            # A number and never a text: a text could be a formula, and programs could not add it up.
            sheet.write_number(4 + i, first_column, round(float(table.values[i, j]), 6), looks["number"])
            for k, x in enumerate(margins, 1):
                sheet.write_number(4 + i, first_column + k, round(float(x[i, j]), 6), looks["number"])
            for k, (x, _, name) in enumerate(survey, 1 + len(margins)):
                _write_error(sheet, (4 + i, first_column + k), float(x[i, j]), name, looks)
            if table.bands is not None and MARKS[table.bands[i, j]]:
                sheet.write_string(4 + i, first_column + each - 1, MARKS[table.bands[i, j]])
    for k, text in enumerate(exported_notes(table, language, source, bands)):
        sheet.write_string(5 + len(table.rows) + k, 0, printable(text), looks["soft"])
    # Headings and labels stay in view while a reader scrolls through a long table.
    sheet.freeze_panes(4, stubs)
