"""The tests themselves: none compares times, and each belongs to a package."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rooms

TESTS = Path(__file__).parent

CLOCKS = re.compile(r"(.*\.)?(sleep|perf_counter|monotonic|process_time|thread_time)(_ns)?|time\.time(_ns)?")

READERS = {
    ("waiting.py", "wait_until"): "gives up if another process does nothing",
    ("test_cli.py", "test_a_release_killed_at_any_time_is_complete_or_absent"): "kills after parts of the usual time",
    ("mutations.py", "outcome"): "limits the processor time of reading an altered file",
    ("packaged.py", "followed"): "prints how long a page takes",
    ("packaged.py", "tried"): "prints how long the demo takes",
    ("packaged.py", "tutorials"): "prints how long an installation takes",
}
"""Functions that read a clock or sleep, with the reason. The list may only shrink."""


def clocks(text):
    """Return the functions of a program that read a clock or sleep."""
    functions = set()

    def look(node, function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = function or node.name
        if isinstance(node, ast.Call) and CLOCKS.fullmatch(ast.unparse(node.func)):
            functions.add(function)
        for inner in ast.iter_child_nodes(node):
            look(inner, function)

    look(ast.parse(text), None)
    return functions


def test_no_test_reads_a_clock_or_sleeps():
    """The time of a test says how busy the machine is: benchmarks compare times, and tests count the work."""
    readers = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in TESTS.rglob("*.py")
        if CLOCKS.search(text := path.read_text(encoding="utf-8"))
        for name in clocks(text)
    }
    assert readers == set(READERS)


@pytest.mark.parametrize(
    "text",
    [
        "start = time.perf_counter()\nwork()\nassert time.perf_counter() - start < 5",
        "async def wait():\n    await asyncio.sleep(0)",
        "begun = monotonic_ns()",
        "now = time.time()",
    ],
)
def test_the_law_finds_clocks(text):
    assert clocks(text)


def test_the_law_allows_other_calls():
    assert not clocks("monkeypatch.setattr(time, 'monotonic', clock)\nledger.time()\ndatetime.time(1)")


def test_a_test_file_belongs_to_the_last_package_that_it_imports(tmp_path):
    for number, (text, room) in enumerate(
        (
            ("import fitnoise as fn\n\nx = fn.PrivacyUnit", "kernel"),
            ("import fitnoise as fn\n\nx = fn.PrivacyUnit, fn.plan", "planning"),
            ("import fitnoise as fn\nfrom fitnoise.algebra import operators\n\nx = fn.PrivacyUnit", "algebra"),
            ("from fitnoise import reading\nfrom fitnoise.kernel.units import Account", "reading"),
            ("import numpy", None),
        )
    ):
        path = tmp_path / f"test_{number}.py"
        path.write_text(text)
        assert rooms.room_of(path) == room


def test_every_file_that_imports_fitnoise_belongs_to_one_package():
    files = [path for room in rooms.PACKAGES for path in rooms.files_of(room)]
    assert sorted(files) == [path for path in sorted(TESTS.glob("test_*.py")) if rooms.packages_of(path)]


@pytest.mark.parametrize("arguments", [[], ["no_package"]])
def test_the_program_names_the_packages(arguments):
    done = subprocess.run([sys.executable, TESTS / "rooms.py", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Name one of errors, messages, kernel, ")
