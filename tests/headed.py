"""Tables as readers find them: each cell with the heading above it, from HTML and from a terminal."""

import re
from html.parser import HTMLParser


class _Tables(HTMLParser):
    """Rows of cells (text, is a heading, rows, columns) of every table; hidden texts and small ones are left out."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.cell, self.silent = [], None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "table":
            self.found.append([])
        elif tag == "tr":
            self.found[-1].append([])
        elif tag in ("td", "th"):
            self.cell = ["", tag == "th", int(attributes.get("rowspan", 1)), int(attributes.get("colspan", 1))]
            self.found[-1][-1].append(self.cell)
        elif tag in ("small", "span") and self.cell is not None:
            self.silent.append(tag)

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None
        elif self.silent and tag == self.silent[-1]:
            self.silent.pop()

    def handle_data(self, text):
        if self.cell is not None and not self.silent:
            self.cell[0] += text


def _grid(rows):
    """Every place of a table with the cell that covers it; over several columns, its text is in the leftmost."""
    grid = {}
    for i, row in enumerate(rows):
        j = 0
        for text, is_heading, high, wide in row:
            while (i, j) in grid:
                j += 1
            for k in range(high):
                for m in range(wide):
                    grid[i + k, j + m] = ("" if m else text.strip(), is_heading)
            j += wide
    return grid


def html_tables(text):
    """The lowest headings of each table, and the rows of texts below them; headings of groups are left out."""
    tables = []
    for rows in _Tables(text).found:
        grid = _grid(rows)
        width = 1 + max(j for _, j in grid)
        heads = 1
        while heads < len(rows) and all(grid[heads, j][1] for j in range(1, width)) and len(rows[heads]) > 1:
            heads += 1
        below = range(heads, len(rows))
        texts = [[grid[i, j][0] for j in range(width)] for i in below if len(rows[i]) > 1]
        tables.append(([grid[heads - 1, j][0] for j in range(width)], texts))
    return tables


def html_columns(text):
    """The texts below each heading, for each table. No heading is there twice."""
    return [under(table) for table in html_tables(text)]


def under(table):
    """The texts below each heading of a table. No heading is there twice."""
    heads, rows = table
    filled = [head for head in heads if head]
    assert len({*filled}) == len(filled), heads
    return {head: [row[j] for row in rows] for j, head in enumerate(heads)}


def terminal_columns(text, headings):
    """The texts below each heading of the first table with these headings, by their place in the lines.

    Two blank columns separate one column from the next.
    """
    top = next(i for i, line in enumerate(text) if re.split(" {2,}", line.strip()) == [*headings])
    body = text[top:]
    body = body[: body.index("")] if "" in body else body
    width = max(map(len, body))
    padded = [line.ljust(width) for line in body]
    free = [j for j in range(width) if all(line[j] == " " for line in padded)]
    cuts = [j for j in free if j + 1 in free] + [width]
    columns, start = [], 0
    for cut in cuts:
        part = [line[start:cut].strip() for line in padded]
        if any(part):
            columns.append(part)
        start = cut
    return under(([c[0] for c in columns], list(zip(*(c[1:] for c in columns), strict=True))))
