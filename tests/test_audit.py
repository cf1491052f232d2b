"""The page for auditors: it names every file of the kernel, and only tests that exist."""

import ast
import re
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

sys.path.insert(0, str(TESTS.parent / "docs"))
from kernel_files import KERNEL, PAGE, Lines, is_annex, lines_of, listed_files, sum_of_lines  # noqa: E402 - a module of the documentation

CORE_LIMIT = 6_000
"""The largest number of lines of code of the core that make no error."""

TEXT = PAGE.read_text("utf-8")


def functions(name):
    """Return the names of the tests in a file."""
    return {x.name for x in ast.parse((TESTS / name).read_text("utf-8")).body if isinstance(x, ast.FunctionDef)}


def test_every_file_of_the_kernel_with_code_is_listed_once():
    """If a file moves out of the kernel, remove its item from docs/developers/audit.md."""
    listed = [name for names in listed_files().values() for name in names]
    files = {path.relative_to(KERNEL).as_posix(): path for path in KERNEL.rglob("*.py")}
    assert sorted(listed) == sorted(name for name, path in files.items() if lines_of(path).code)


def test_no_file_of_the_core_imports_an_annex():
    """So an auditor of a release of tables need not read the annexes."""
    parts = listed_files()
    names = [name for heading in parts if is_annex(heading) for name in parts[heading]]
    annex = {f"fitnoise.kernel.{name.removesuffix('.py').replace('/', '.')}" for name in names}
    assert len(annex) > 9
    for name in (name for heading, names in parts.items() if not is_annex(heading) for name in names):
        for node in ast.walk(ast.parse((KERNEL / name).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                imported = {node.module, *(f"{node.module}.{x.name}" for x in node.names)}
                assert not imported & annex, name


def test_every_test_on_the_page_exists():
    tests = re.findall(r"\b(test_\w+\.py)::(\w+)", TEXT)
    assert len(tests) > 100
    assert [(file, name) for file, name in tests if name not in functions(file)] == []


@pytest.mark.parametrize("part", ["## The core", "## The annex", "## Attacks"])
def test_every_file_and_every_attack_has_a_test(part):
    text = TEXT[TEXT.index(part) :].partition("\n## ")[0]
    items = re.split(r"^(?=\d+\. )", re.sub("^#.*", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    assert len(items) > 8
    assert [item for item in items if "::test_" not in item] == []


def test_the_core_stays_small():
    """The limit falls, except for a feature of the kernel. Errors do not count, because each has four sentences."""
    assert sum_of_lines(annexes=False).others <= CORE_LIMIT


@pytest.mark.parametrize(
    ("text", "code", "errors"),
    [
        ('"""Head.\n\nMore.\n"""\n', 0, 0),
        ("# comment\n\nx = 1  # why\n", 1, 0),
        ('x = """a\nb"""\n', 2, 0),
        ('def f():\n    """Head."""\n    return (\n        1\n    )\n', 4, 0),
        ('X = 1\n"""Meaning."""\n', 1, 0),
        ("x = 1\nraise ValueError(\n    'no'\n)\n", 4, 3),
        ("try:\n    pass\nexcept ValueError:\n    raise\n", 4, 0),
        ("error = DataError(\n    # why\n    'no',\n)\n", 3, 3),
        ("x = Error(\n    1\n)\n", 3, 0),
    ],
)
def test_lines_of_code_and_of_errors_are_counted(tmp_path, text, code, errors):
    (tmp_path / "a.py").write_text(text)
    assert lines_of(tmp_path / "a.py") == Lines(code, errors)
