"""LaTeX: a longtable for each table, with booktabs, to be put into a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fitnoise import __version__
from fitnoise.interfaces.pages.fragments import (
    MARKS,
    caption,
    corrections,
    exported_notes,
    hashes,
    heading,
    labelled,
    margin_text,
    numbers,
    title,
)
from fitnoise.interfaces.render import printable
from fitnoise.messages import Translator
from fitnoise.reading.bands import Bands
from fitnoise.reading.layouts import Label, Tabled, TableLayout, releases

_SPECIAL = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "±": r"\textpm{}",
    "×": r"\texttimes{}",
    "°": r"\textdegree{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "ρ": r"$\rho$",
    "\u202f": r"\,",
    "\u2007": r"\phantom{0}",
    "\u00a0": "~",
}


def escaped(text: str) -> str:
    """Return a text with all signs escaped that LaTeX would interpret."""
    # The three spaces of fitnoise have commands of their own in LaTeX; all else is made readable first.
    return "".join(_SPECIAL.get(c, c) for c in printable(text))


def latex(source: Tabled, tables: Iterable[TableLayout], language: Translator, bands: Bands | None) -> bytes:
    """Return a longtable for each table.

    A document that includes them needs booktabs, longtable, textcomp, UTF-8 and the font encoding T1.
    """
    publication = releases(source)[0].plan.publication
    out = [
        f"% {escaped(title(publication, language))}: fitnoise {__version__}, {hashes(source)}",
        *([] if language.unreviewed is None else [f"% {escaped(language.unreviewed)}"]),
        *(f"% {escaped(x)}" for x in corrections(source, language)),
        r"% \usepackage[T1]{fontenc}\usepackage{booktabs,longtable,textcomp}",
    ]
    for table in tables:
        out += ["", *_longtable(table, language)]
        note_text = r"\par ".join(escaped(x) for x in exported_notes(table, language, source, bands))
        out.append(f"{{\\footnotesize\\noindent {note_text}\\par}}")
    return ("\n".join(out) + "\n").encode()


def _longtable(table: TableLayout, language: Translator) -> Iterator[str]:
    # A number and its margin are two columns: the first is flush right, so digits of one place are below each other.
    stubs = "l" * max(1, len(table.stubs))
    yield rf"\begin{{longtable}}{{@{{}}{stubs}*{{{len(table.columns)}}}{{r@{{}}l}}@{{}}}}"
    yield rf"\caption{{{escaped(language.table(table.name))}. {escaped(caption(table, language))}}}\\"
    yield r"\toprule"
    if table.across:
        spanned = f"{{c}}{{{escaped(heading(language, table.across))}}}"
        yield f"{'&' * len(stubs)} \\multicolumn{{{2 * len(table.columns)}}}{spanned}\\\\"
    heads = [escaped(heading(language, x)) for x in table.stubs] or [escaped(language.translate("page.table.number"))]
    columns = [labelled(x, language) if table.across else numbers(table, language) for x in table.columns]
    yield " & ".join([*heads, *(f"\\multicolumn{{2}}{{c}}{{{escaped(x)}}}" for x in columns)]) + r"\\"
    yield r"\midrule\endhead"
    for i, labels in enumerate(table.rows):
        row_labels = [_label_cell(x, language) for x in labels] or [escaped(language.translate("page.table.all"))]
        yield " & ".join([*row_labels, *(_number(table, i, j, language) for j in range(len(table.columns)))]) + r"\\"
    yield r"\bottomrule"
    yield r"\end{longtable}"


def _label_cell(label: Label, language: Translator) -> str:
    return escaped(labelled(label, language)) + (f" {{\\footnotesize {escaped(label.code)}}}" if label.code else "")


def _number(table: TableLayout, i: int, j: int, language: Translator) -> str:
    """Return a number and its mark, and its margin or interval if the caption does not state it."""
    digits = table.decimals
    mark = "" if table.bands is None else MARKS[table.bands[i, j]]
    margin_label = margin_text(table, language, i, j)
    margin = f"\\,{{\\footnotesize {escaped(margin_label)}}}" if margin_label else ""
    raised = f"\\textsuperscript{{{escaped(mark)}}}" if mark else ""
    return f"{escaped(language.number(table.values[i, j], digits))} & {raised}{margin}"
