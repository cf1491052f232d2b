"""Every error of fitnoise, read from the source: its code, class, sentences, and the line that makes it."""

from __future__ import annotations

import ast
import gc
import inspect
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import fitnoise as fn
import fitnoise_studio
from fitnoise import errors

SOURCES = (Path(fn.__file__).parent, Path(fitnoise_studio.__file__).parent)
"""The folders of the two packages."""

CLASSES = {
    name: member
    for name, member in vars(errors).items()
    if inspect.isclass(member) and issubclass(member, errors.FitnoiseError)
}
"""The classes of `errors` by name."""

VARIABLES = {"error", "kind"}
"""Names of parameters that hold a class of errors: the caller chooses the area."""

COPIES = {"Refused", "UnreadableRecords"}
"""Classes that take the code and sentences of another error."""

SENTENCES = ("given", "needed", "action", "outcome")


class ErrorSite(NamedTuple):
    """One constructor call of an error.

    kind: The class; FitnoiseError where the caller chooses the class.
    is_general: True where the caller chooses the class, and with it the area.
    sentences: The four sentences; a computed part is "…". None for a sentence that is computed as a whole.
    """

    file: str
    line: int
    kind: type[errors.FitnoiseError]
    is_general: bool
    slug: str | None
    sentences: tuple[str | None, ...]

    @property
    def code(self) -> str:
        """The code of the error; its area is "…" where the caller chooses it."""
        return f"{'…' if self.is_general else self.kind.area}.{self.slug}"

    @property
    def text(self) -> str:
        """The message, in which "…" stands for what is computed."""
        return " ".join("…" if sentence is None else sentence for sentence in self.sentences if sentence != "")


@cache
def error_sites() -> tuple[ErrorSite, ...]:
    """Return every constructor call of an error in the source, in the order of files and lines."""
    paths = [path for folder in SOURCES for path in sorted(folder.rglob("*.py"))]
    gc.disable()  # none of a million nodes is garbage, and looking for it takes four times as long as reading
    try:
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    finally:
        gc.enable()
    classes = CLASSES | _further_classes(trees.values())
    return tuple(site for path, tree in trees.items() for site in _sites(path, tree, classes))


def _further_classes(trees: Iterable[ast.Module]) -> dict[str, type[errors.FitnoiseError]]:
    """Return the class of `errors` that each class of errors in other modules extends, by the name of the latter."""
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = {
        node.name: ast.unparse(node.bases[0])
        for node in nodes
        if node.bases and node.name not in CLASSES.keys() | COPIES
    }
    return {name: CLASSES[base] for name, base in bases.items() if base in CLASSES}


def _sites(path: Path, tree: ast.Module, classes: Mapping[str, type[errors.FitnoiseError]]) -> Iterator[ErrorSite]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(isinstance(x, ast.Starred) for x in node.args):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        is_general = isinstance(node.func, ast.Name) and name in VARIABLES and len(node.args) == 1 + len(SENTENCES)
        if name in classes or is_general:
            slug, *sentences = (_text(x) for x in node.args) if node.args else (None,)
            keywords = {keyword.arg: _text(keyword.value) for keyword in node.keywords}
            sentences += [keywords[name] for name in SENTENCES[len(sentences) :] if name in keywords]
            file, kind = path.relative_to(SOURCES[0].parent).as_posix(), classes.get(name, errors.FitnoiseError)
            yield ErrorSite(file, node.lineno, kind, is_general, slug, tuple(sentences))


def _text(node: ast.expr) -> str | None:
    """A text as it is written, with "…" for computed parts; None for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(x.value if isinstance(x, ast.Constant) else "…" for x in node.values)
    return None
