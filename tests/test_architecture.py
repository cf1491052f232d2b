"""Imports point down the table of rooms only, and the rooms of the table are the rooms there are."""

import ast
from pathlib import Path

import pytest

import fitnoise

ROOMS = [
    "errors", "domain", "operators", "rules", "targets", "workloads", "gallery", "strategies", "sectors", "row_space",
    "privacy", "finite", "laplace_sums", "projections", "composition", "backends", "problems", "solvers",
    "certificates", "strategy", "pure", "ledger", "publication", "spec", "rounding", "plans", "mechanisms", "what_if",
    "plots", "counting", "noise", "measure", "reconstruct", "releases", "verification", "data", "console", "demo",
    "cli",
]  # fmt: skip
"""From the ground floor up; a room may import only rooms named before it (and itself)."""

FORBIDDEN = {
    "reconstruct": {"measure", "counting", "noise", "ledger"},  # post-processing is visibly free
    "plans": {"counting", "noise", "measure", "ledger"},  # a plan is made without data
    "mechanisms": {"counting", "noise", "measure", "ledger"},
    "what_if": {"counting", "noise", "measure", "ledger"},
    "plots": {"counting", "noise", "measure", "ledger"},
    "measure": {"backends", "solvers", "problems", "mechanisms", "rounding", "certificates"},  # trusts no optimiser
    "composition": set(ROOMS) - {"errors"},  # arithmetic, and knows nothing else
    "projections": set(ROOMS) - {"errors", "operators"},  # whatever the noise was, whatever the mechanism
    "strategy": {"backends", "solvers", "problems", "rounding", "certificates"},
    "pure": {"backends", "solvers", "problems", "rounding", "certificates"},
    "certificates": {"backends", "solvers", "problems", "mechanisms"},  # shares no code with the solvers
    "verification": {"solvers", "problems", "mechanisms"},
}

SOURCE = Path(fitnoise.__file__).parent


def room_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} uses a relative import"
            if node.module == "fitnoise":
                yield from (a.name for a in node.names)
            elif node.module and node.module.startswith("fitnoise."):
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("fitnoise."))


FILES = sorted(p for p in SOURCE.rglob("*.py") if room_of(p) not in ("__init__", "__main__"))


def test_every_room_is_in_the_table():
    assert {room_of(p) for p in FILES} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    room = room_of(path)
    allowed = set(ROOMS[: ROOMS.index(room) + 1]) | {"__version__"}
    used = set(imports(path))
    assert used <= allowed, f"{room} imports {sorted(used - allowed)} from above"
    assert not used & FORBIDDEN.get(room, set())


def test_only_noise_draws_chance():
    """`secrets` names temporary folders; nothing else may reach for randomness."""
    for path in FILES:
        tree = ast.parse(path.read_text())
        names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        assert not names & {"random", "numpy.random"}
        assert "random" not in {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        if any(n.startswith("opendp") for n in names):
            assert room_of(path) == "noise"
