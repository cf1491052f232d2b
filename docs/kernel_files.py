"""The files of the kernel: their order on the page for auditors, and their lines of code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import fitnoise

KERNEL = Path(fitnoise.__file__).parent / "kernel"

PAGE = Path(__file__).parent / "developers" / "audit.md"

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
            heading = title[1].partition(":")[0]
        elif item := re.match(r"1\. `([\w/]+\.py)`: ", line):
            files.setdefault(heading, []).append(item[1])
    return files


def code_lines(path: Path) -> int:
    """Return the number of lines with code: no docstring, no comment and no blank line."""
    text = path.read_text("utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _WITHOUT_CODE:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return len(lines)
