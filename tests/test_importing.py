"""Importing takes little time, and still finds every public name."""

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import fitnoise as fn
from fitnoise.interfaces import commands
from fitnoise.interfaces.cli import cli

SLOW_MODULES = {"duckdb", "numpy", "opendp", "pandas", "pydantic", "scipy"}


def loaded(code):
    """Return the modules that a new interpreter has loaded after one line of code."""
    report = "; import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


def names_for_type_checkers():
    """The room of every name, by the imports that only type checkers see."""
    tree = ast.parse(Path(fn.__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and isinstance(n.test, ast.Name))
    modules = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            modules |= {a.name: f"{node.module}.{a.name}" if a.asname else node.module for a in node.names}
        else:  # a room by another name
            modules[node.targets[0].id] = f"{modules.pop(node.value.id)}.{node.value.id}"
    return modules


def test_the_package_loads_only_its_errors_and_the_registry_of_renderers():
    modules = loaded("import fitnoise")
    assert not modules & SLOW_MODULES
    assert {m for m in modules if m.startswith("fitnoise")} == {"fitnoise", "fitnoise.display", "fitnoise.errors"}


def test_plans_loaded_from_their_own_module_have_html():
    """Unpickling, too, names the module of a class, and no name of the package."""
    plan = "fn.plan(fn.Workload(fn.Domain(a=fn.Ordered(0, 1)), [fn.table('a', margin=5)]))"
    code = f"import fitnoise as fn; print({plan}.to_json())"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded(f"from fitnoise.planning.plan import Plan; assert '<style>' in Plan.from_json({text!r})._repr_html_()")


def test_a_small_plan_loads_neither_frames_nor_optimisers():
    """Each takes as long as the plan itself, and pure plans, frames and questions load what they need."""
    domain, table = "fn.Domain(a=fn.Ordered(0, 1))", "fn.table('a', margin=5)"
    modules = loaded(f"import fitnoise as fn; fn.plan(fn.Workload({domain}, [{table}]))")
    assert not modules & {"pandas", "duckdb", "scipy.optimize", "scipy.ndimage", "scipy.stats", "scipy.signal"}


@pytest.mark.slow
def test_nothing_that_users_name_needs_what_only_tests_have():
    modules = loaded(f"from fitnoise import *; from fitnoise import {', '.join(fn._SHORT)}")
    modules |= loaded("from fitnoise.interfaces import commands")
    packages = {m.partition(".")[0] for m in modules}
    assert not packages & {"opendp", "cvxpy", "dp_accounting", "hypothesis", "matplotlib", "polars", "pytest"}
    assert "scipy.signal" not in modules  # most of a second, for one recurrence


def test_type_checkers_see_where_names_are():
    assert {n: f"fitnoise.{room}" for n, room in (fn._ROOM_OF | fn._SHORT).items()} == names_for_type_checkers()
    assert sorted({*fn._ROOM_OF, "FitnoiseError"}) == fn.__all__


@pytest.mark.parametrize("name", fn.__all__)
def test_a_public_name_is_what_its_room_holds(name):
    room = import_module(f"fitnoise.{fn._ROOM_OF.get(name, 'errors')}")
    value = getattr(fn, name)
    assert value is getattr(room, name)
    assert not isinstance(value, ModuleType)


@pytest.mark.parametrize("name", fn._SHORT)
def test_a_short_name_is_a_room(name):
    assert getattr(fn, name) is import_module(f"fitnoise.{fn._SHORT[name]}")


def test_no_room_takes_the_place_of_a_name():
    """Detects a file whose loading would set the attribute that a function should have."""
    folder = Path(fn.__file__).parent
    assert not {p.stem for p in folder.iterdir()} & (fn._ROOM_OF | fn._SHORT).keys()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if parts[-1] not in ("__init__", "__main__"):
            import_module(".".join(parts))
    assert not {n for n in fn.__all__ if isinstance(getattr(fn, n), ModuleType)}


def test_names_are_listed_before_they_are_loaded():
    code = "import fitnoise; assert {*fitnoise.__all__, 'what_if', '__version__'} <= {*dir(fitnoise)}"
    assert not loaded(code) & SLOW_MODULES


def test_only_public_names_are_listed():
    assert dir(fn) == sorted([*fn.__all__, *fn._SHORT, "__version__"])


def test_a_name_that_is_none_is_not_found():
    with pytest.raises(AttributeError, match="'fitnoise' has no attribute 'plam'"):
        fn.plam  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'plam'"):
        from fitnoise import plam  # noqa: F401


# --- The command line -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in cli.commands)])
def test_help_comes_at_once(arguments):
    code = f"from fitnoise.interfaces.cli import main; main({arguments})"
    modules = loaded(code)
    assert not modules & SLOW_MODULES
    assert {m for m in modules if m.startswith("fitnoise.")} == {
        "fitnoise.display", "fitnoise.errors", "fitnoise.interfaces", "fitnoise.interfaces.cli",
            "fitnoise.interfaces.streams",
    }  # fmt: skip


def test_every_command_takes_what_its_options_give():
    """The options hand their values over by name, which no type checker compares."""
    inside = {f"{name} {part}": x for name, g in cli.commands.items() for part, x in getattr(g, "commands", {}).items()}
    top_commands = {name: command for name, command in cli.commands.items() if not hasattr(command, "commands")}
    assert {"series status", "series write"} <= inside.keys()
    for name, command in (top_commands | inside).items():
        modes = {m for m in ("compare", "free") if name == "plan"}
        taken = [
            inspect.signature(getattr(commands, "_".join([*name.split(), *mode, "command"]))).parameters
            for mode in ([], *([m] for m in modes))
        ]
        assert set().union(*taken) | modes == {p.name for p in command.params}
