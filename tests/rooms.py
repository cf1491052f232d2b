"""Name the test files of a package: `python tests/rooms.py reading` prints those of `reading`.

A test file belongs to the last package of `PACKAGES` among those that it imports. Imports decide this, so no list of
files needs care. The studio (`fitnoise_studio`) and the laboratory (`fitnoise_lab`, a
distribution of its own) are packages of their own on top of them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import fitnoise
import fitnoise_lab
import fitnoise_studio

PACKAGES = (
    "errors", "display", "messages", "reporting", "kernel", "algebra", "request", "solving", "mechanisms", "planning",
    "reading", "engines", "ledgers", "proposals", "publishing", "opendp", "data", "interfaces", "studio", "laboratory",
)  # fmt: skip
"""From the lowest up; a package may import only itself and packages named before it."""

TESTS = Path(__file__).parent

FITNOISE = Path(fitnoise.__file__).parent

FOLDERS = {
    Path(package.__file__).parent: (package.__name__, prefix)
    for package, prefix in ((fitnoise, ""), (fitnoise_studio, "studio"), (fitnoise_lab, "laboratory"))
}
"""The folder of each package; its name, and the first part of the names of its modules in tests (see `module_name`)."""


def product_files(ending: str) -> list[Path]:
    """Return the files of all packages whose names have an ending."""
    return [path for folder in FOLDERS for path in sorted(folder.rglob(f"*{ending}"))]


def module_name(path: Path) -> str:
    """Return the name of a module, such as `reading.release`, `studio.app` or `laboratory.gallery`."""
    (root,) = (folder for folder in FOLDERS if path.is_relative_to(folder))
    parts = [FOLDERS[root][1], *path.relative_to(root).with_suffix("").parts]
    return ".".join(filter(None, parts[:-1] if parts[-1] == "__init__" else parts))


def imported_module(module: str | None) -> str | None:
    """Return the name (see `module_name`) of a module that an import names; None if it is of another package."""
    package, _, others = (module or "").partition(".")
    prefix = dict(FOLDERS.values()).get(package)
    return None if prefix is None else ".".join(filter(None, (prefix, others))) or None


@cache
def packages_of(path: Path) -> set[str]:
    """Return the packages of fitnoise that a file of tests imports."""
    return {module.partition(".")[0] for module in _modules_of(path)} & {*PACKAGES}


def _modules_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "fitnoise":
            yield from (fitnoise._ROOM_OF.get(name.name, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (name := imported_module(node.module)):
            yield name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fn":
            yield fitnoise._SHORT.get(node.attr) or fitnoise._ROOM_OF.get(node.attr, "")


def room_of(path: Path) -> str | None:
    """Return the package that a file of tests belongs to; None if it imports none."""
    return max(packages_of(path), key=PACKAGES.index, default=None)


def files_of(room: str) -> list[Path]:
    """Return the test files of a package."""
    return [path for path in sorted(TESTS.glob("test_*.py")) if room_of(path) == room]


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (files := files_of(sys.argv[1])):
        sys.exit(f"Name one of {', '.join(room for room in PACKAGES if files_of(room))}.")
    sys.stdout.write(" ".join(path.relative_to(TESTS.parent).as_posix() for path in files) + "\n")
