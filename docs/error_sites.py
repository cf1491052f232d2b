"""Every error of fitnoise, read from the source: its code, class, sentences, and the line that makes it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import fitnoise as fn
from fitnoise import errors

SOURCE = Path(fn.__file__).parent

CLASSES = {
    name: member
    for name, member in vars(errors).items()
    if inspect.isclass(member) and issubclass(member, errors.FitnoiseError)
}
"""The classes of `errors` by name."""

SENTENCES = ("given", "needed", "action", "outcome")


class ErrorSite(NamedTuple):
    """One constructor call of an error.

    sentences: The four sentences; a computed part is "…". None for a sentence that is computed as a whole.
    """

    file: str
    line: int
    kind: type[errors.FitnoiseError]
    slug: str | None
    sentences: tuple[str | None, ...]

    @property
    def code(self) -> str:
        """The code of the error."""
        return f"{self.kind.area}.{self.slug}"

    @property
    def text(self) -> str:
        """The message, in which "…" stands for what is computed."""
        return " ".join("…" if sentence is None else sentence for sentence in self.sentences if sentence != "")


@cache
def error_sites() -> tuple[ErrorSite, ...]:
    """Return every constructor call of an error in the source, in the order of files and lines."""
    return tuple(site for path in sorted(SOURCE.rglob("*.py")) for site in _sites(path))


def _sites(path: Path) -> Iterator[ErrorSite]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in CLASSES and not any(isinstance(x, ast.Starred) for x in node.args):
            slug, *sentences = (_text(x) for x in node.args) if node.args else (None,)
            named = {keyword.arg: _text(keyword.value) for keyword in node.keywords}
            sentences += [named[name] for name in SENTENCES[len(sentences) :] if name in named]
            file = path.relative_to(SOURCE).as_posix()
            yield ErrorSite(file, node.lineno, CLASSES[name], slug, tuple(sentences))


def _text(node: ast.expr) -> str | None:
    """A text as it is written, with "…" for computed parts; None for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(x.value if isinstance(x, ast.Constant) else "…" for x in node.values)
    return None
