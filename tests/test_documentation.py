"""The Python code of the documents runs, block after block."""

import ast
import importlib
import inspect
import operator
import re
from functools import cache
from pathlib import Path

import pytest

import fitnoise as fn
from engines import POSTGRESQL, SPARK, connected, postgresql, spark
from fitnoise.interfaces.cli import cli
from fitnoise.ledgers import create
from fitnoise_lab import baselines, gallery, strategies

DOCS = Path(__file__).parent.parent / "docs"


PYTHON = (
    "reference/python",
    {"proven": True, "epsilon": 0.72, "verified": True, "code": "domain.range-reversed"},
)
FILES = ("files", {"by_year": [40.0, 60.0]})
AXES = ("mathematics/product_form", {"kind": "fit-for-use-by-axis", "close": True, "near": True})
REPORTED = (
    "report",
    {"first": "reliable", "kept": ["area_by_age.csv", "datapackage.json", "manifest.json"]},
)
SEALED = ("sealed_counts", {"is_verified": True, "near": 20_000.0})
SPARKED = pytest.param(
    "spark",
    {"is_verified": True, "half": 10_000.0},
    marks=pytest.mark.skipif(not SPARK, reason="`make engines` runs it, where there is Java"),
)
POST = pytest.param(
    "postgresql",
    {"is_verified": True, "children": 6000.0},
    marks=pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform"),
)
LEDGERS = pytest.param(
    "ledgers",
    {"is_verified": True, "kinds": ["charge", "answers"]},
    marks=pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform"),
)
SLOW = pytest.param("mathematics/tight_constraints", {}, marks=pytest.mark.slow)
"""This page tries every mechanism for 751 results."""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mathematics/fit_for_use", {"order": -1}),
        ("databases", {"is_verified": True}),
        PYTHON,
        AXES,
        FILES,
        REPORTED,
        SEALED,
        SPARKED,
        POST,
        LEDGERS,
        SLOW,
    ],
)
def test_examples_run(name, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "spark":
        spark()
    if name == "postgresql":
        with connected(postgresql()) as db:
            db.exec_driver_sql("DROP SCHEMA IF EXISTS census CASCADE")
        monkeypatch.setenv("CENSUS_URL", postgresql().render_as_string(hide_password=False))
    if name == "ledgers":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        url = postgresql().update_query_dict({"schema": "on_the_page"}).render_as_string(hide_password=False)
        monkeypatch.setenv("LEDGER_URL", url)
        with connected(postgresql()) as db:
            db.exec_driver_sql("DROP SCHEMA IF EXISTS on_the_page CASCADE")
        create("env:LEDGER_URL")
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > 1
    namespace = {}
    for block in blocks:
        exec(block, namespace)  # noqa: S102 - our own documents
    assert {key: namespace[key] for key in expected} == expected


SECTIONS = re.compile(r"^(Args|Returns|Raises)[:,]", re.MULTILINE)
ROOMS = (fn.finite, fn.plots, fn.projections, fn.what_if, baselines, gallery, strategies)


def public():
    """Every public function and method that takes something, by name."""
    names = {name: getattr(fn, name) for name in fn.__all__}
    for room in ROOMS:
        members = (key for key, x in vars(room).items() if key[0] != "_" and inspect.getmodule(x) is room)
        names |= {f"{room.__name__}.{key}": getattr(room, key) for key in getattr(room, "__all__", members)}
    for name, what in list(names.items()):
        if inspect.isclass(what):
            members = {key: getattr(x, "__func__", x) for key, x in vars(what).items() if not key.startswith("_")}
            names |= {f"{name}.{key}": x for key, x in members.items()}
    for name, what in names.items():
        if inspect.isfunction(what) and what.__module__.startswith(("fitnoise.", "fitnoise_lab.")):
            taken = [x for x in inspect.signature(what).parameters if x not in ("self", "cls")]
            if taken:
                yield name, what


def test_every_public_function_says_what_it_takes():
    """In sections, of which ruff checks that each argument is there."""
    functions = dict(public())
    assert len(functions) > 200
    assert [name for name, what in functions.items() if not SECTIONS.search(inspect.getdoc(what) or "")] == []


ROOT = DOCS.parent
PAGES = [
    path
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))
    if not {"developers", "mathematics"} & set(path.parts)
]


def command_options():
    """Return every command, with its options; and the options of all commands."""

    def options_of(command):
        return {option for parameter in command.params for option in parameter.opts}

    commands = {}
    for name, command in cli.commands.items():
        inside = getattr(command, "commands", {"": command})
        commands |= {f"{name} {child}".strip(): options_of(x) for child, x in inside.items()}
    return commands, set().union(*commands.values(), {"--help", "--version"})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_named_commands_options_and_functions_exist(path):
    commands, options = command_options()
    text = path.read_text("utf-8")
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in re.findall("^fitnoise .*", block, re.M)]
    wrapped = [" ".join(span.split()) for span in re.findall(r"`(fitnoise\s[^`]+)`", text)]
    for span in [*re.findall(r"`([^`\n]+)`", text), *wrapped, *lines]:
        for name, child in re.findall(r"\bfitnoise ([a-z][a-z-]*)(?: ([a-z]+)(?=\s|$))?", span):
            assert name in commands or f"{name} {child}" in commands, span
        if span.startswith(("fitnoise ", "--")):
            assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", span)) <= options, span
    for dotted in set(re.findall(r"\bfn\.([A-Za-z_]\w*)", text)):
        assert hasattr(fn, dotted), dotted


def test_the_names_for_tasks_are_public():
    section = (DOCS / "reference" / "python.md").read_text("utf-8").split("## Find the name for a task")[1]
    for line in section.splitlines():
        if line.startswith("| ") and "`" in line:
            assert all(hasattr(fn, name) for name in re.findall(r"`(\w+)`", line.split("|")[2])), line


def test_the_reference_documents_what_exists():
    """Every `autoclass` and `autofunction` names an object of its module."""
    documented = 0
    for path in sorted((DOCS / "reference").glob("*.md")):
        module = fn
        for line in path.read_text("utf-8").splitlines():
            if chosen := re.match(r"\s*\.\. currentmodule:: (\S+)", line):
                module = importlib.import_module(chosen[1])
            elif entry := re.match(r"\s*\.\. auto(?:class|function):: (\S+)", line):
                assert operator.attrgetter(entry[1].removeprefix("fitnoise."))(module), line
                documented += 1
    assert documented > 50


@cache
def kernel_functions(name):
    """Return the functions and methods of a file of the kernel by name."""
    module = ast.parse((DOCS.parent / f"src/fitnoise/kernel/{name}.py").read_text("utf-8"))
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    nodes = [("", node) for node in module.body] + [(f"{c.name}.", node) for c in classes for node in c.body]
    return [(prefix + node.name, node) for prefix, node in nodes if isinstance(node, ast.FunctionDef)]


@cache
def statements(name, function):
    """Return the lines of these functions of a file, as the list of mutants writes them; … stands for any name."""
    pattern = re.escape(function).replace("…", ".*")
    nodes = [node for f, node in kernel_functions(name) if re.fullmatch(pattern, f)]
    return [line.strip() for node in nodes for line in ast.unparse(node).splitlines()]


def test_each_listed_mutant_changes_a_statement_of_the_kernel():
    """A line of the list names a file, a function and a change ⟦old → new⟧; … stands for anything."""
    page = (DOCS / "developers" / "mutation_testing.md").read_text("utf-8")
    listed = [re.fullmatch(r"- `(.+?)` `(.+?)` `(.+)`", x) for x in page.splitlines() if x.startswith("- `")]
    assert len(listed) > 300
    assert all(listed)
    for line in listed:
        name, function, change = line.groups()
        old = re.escape(re.sub("⟦(.*?) → .*⟧", r"\1", change)).replace("…", ".*")
        lines = statements("designs/implicit_mechanisms" if name == "…" else name, function)  # any file would do
        assert any(re.fullmatch(old, x) for x in lines), line[0]
