"""The files of the kernel: their order on the page for auditors, and their lines of code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import fitnoise
from fitnoise import errors

KERNEL = Path(fitnoise.__file__).parent / "kernel"

PAGE = Path(__file__).parent / "developers" / "audit.md"

_ERRORS = {name for name, x in vars(errors).items() if isinstance(x, type) and issubclass(x, Exception)}

_WITHOUT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def path_of(name: str) -> Path:
    """Return the path of a file of the kernel."""
    return KERNEL / name


def listed_files() -> dict[str, list[str]]:
    """Return the files that the page names, by heading and in order."""
    files: dict[str, list[str]] = {}
    heading = ""
    for line in PAGE.read_text("utf-8").splitlines():
        if title := re.fullmatch("##+ (.*)", line):
            heading = title[1]
        elif item := re.match(r"1\. `([\w/]+\.py)`: ", line):
            files.setdefault(heading, []).append(item[1])
    return files


@dataclass(frozen=True)
class Lines:
    """Numbers of lines of code: no docstring, no comment and no blank line.

    code: All lines.
    errors: The lines of statements that raise an error, and of calls that make one of fitnoise's errors.
    """

    code: int
    errors: int

    @property
    def others(self) -> int:
        """The lines of code that make no error."""
        return self.code - self.errors

    def __add__(self, other: Lines) -> Lines:
        return Lines(self.code + other.code, self.errors + other.errors)


def is_annex(heading: str) -> bool:
    """Return True for the heading of files that no file of the core imports."""
    return heading.startswith("Annex: ")


def sum_of_lines(*, annexes: bool) -> Lines:
    """Return the numbers of lines of the core, or of the kernel with its annexes."""
    parts = (names for heading, names in listed_files().items() if annexes or not is_annex(heading))
    return sum((lines_of(path_of(name)) for names in parts for name in names), Lines(0, 0))


def lines_of(path: Path) -> Lines:
    """Return the numbers of lines of a file."""
    text = path.read_text("utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _WITHOUT_CODE:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    errors: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        elif _makes_error(node):
            errors |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return Lines(len(lines), len(errors & lines))


def _makes_error(node: ast.AST) -> TypeGuard[ast.stmt | ast.expr]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in _ERRORS
    return isinstance(node, ast.Raise) and node.exc is not None
