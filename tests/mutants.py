"""Mutants of the kernel: small changes of what prices, charges and draws, each of which some test must notice.

`make mutants` makes and tries them with mutmut, on copies below build/mutants, and fails if one lives that
docs/developers/mutation_testing.md does not explain. `make mutants FILES="losses order"` does so for some files.
Started again, it goes on where it stopped: what was killed stays so until its function changes, what lived is tried
again. What is explained is not tried, but with `--listed` among the files; `--seconds 4` takes only the quickest tests
of each mutant.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import libcst
import pytest
from hypothesis import Phase, settings
from mutmut import __main__ as mutmut
from mutmut.mutation import diff_apply, mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.workers.isolation import ForkServerRunner, MutantResult

ROOT = Path(__file__).resolve().parents[1]
COPIES, LISTED = ROOT / "build" / "mutants", ROOT / "docs" / "developers" / "mutation_testing.md"

LEDGER = "ledger ledger_steps periods -k 'not killed and not race and not damaged and (ledger or is_drawn or composed)'"

TESTS = {
    "losses": "losses exact_curve",
    "order": "order trees patterns persons shares by_class "
    "-k 'test_order or refused or nested or own or cost or charge or releases_pay'",
    "measure": "measure order amounts -k 'not tampered and not exact_cost and (test_measure or test_order or summed)'",
    "units": "units",
    "privacy": "privacy exact_curve losses",
    "exact_powers": "exact finite_priors -k 'test_exact or exponentials or alpha or logarithms or powers or epsilons'",
    "profiles": "composition",
    "ledger/entries": LEDGER,
    "ledger/refusals": LEDGER,
    "ledger/rules": LEDGER,
    "ledger/sqlite": LEDGER,
    "periods": "periods",
    "series": "periods",
    "designs/_base": "margins order parts",
    "designs/linear": "strategy designs trees products -k 'not server'",
    "designs/sectors": "strategy patterns ways sets relaxations shares amounts designs "
    "-k 'strategy or patterns or ways or sectors or scales or charge or prices or integer_between'",
    "designs/margins": "margins designs amounts by_class accounting "
    "-k 'margin or amounts_cost or sums or ends or own_range or law'",
    "designs/answers": "order designs persons -k 'test_order or count_by or sum or ranks or left_out_records'",
    "designs/query_blocks": "parts amounts designs strategy -k 'not intervals and not server'",
    "designs/products": "products shares -k 'test_products or (costs_as_much and product)'",
    "designs/trees": "trees shares -k 'test_trees or (costs_as_much and tree)'",
    "designs/witness": "witness claims",
    "noise": "noise -k 'not battery and not agree and not draws_have and not margins and not everywhere'",
    "choices": "noise finite_lazy finite_queries -k '(index or indices or weight or random_bits or draw or point"
    " or words or numpy or uniform or successes or more_than_one or clamped) and not draws_have and not margins'",
    "designs/questions": "finite_queries ranks "
    "-k 'not command and not read_back and not cover_the and not follow and not verified'",
    "designs/probability_tables": "finite_mechanisms designs order "
    "-k 'label or exact or proven or fit or sum or changed'",
    "designs/clamped": "finite_mechanisms finite_queries designs -k 'clamped or staircase or geometric or noise'",
    "designs/ranks": "ranks",
    "designs/weights": "finite_mechanisms -k 'weight or row or edge or code or output or exact or changed'",
    "designs/implicit_mechanisms": "finite_lazy finite_mechanisms designs",
    "designs/graphs": "finite_graphs finite_queries designs",
}
"""The files of the kernel, each with quick tests on its subject.

A mutant that lives runs through all tests that reach its function.
"""

SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["{source}"]
also_copy = ["docs", "benchmarks", "README.md", "Makefile"]
do_not_mutate_patterns = ['raise \\w+']
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = [
  "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--hypothesis-profile=mutants",
  "-W", "ignore:Module already imported",
]
process_isolation = "forkserver"
timeout_constant = 10.0
timeout_multiplier = 4.0
on_dependency_change = "ignore"
"""

DEAD = ("killed", "segfault")
"""The words of mutmut for a mutant that fails the tests. One that runs out of time may pass on a slower machine."""


def main(options: argparse.Namespace) -> int:
    """Try the mutants of these files, or of all; 1 if some live unlisted."""
    reasons, unlisted = explained(), False
    for name in options.files or TESTS:
        living, dead = tried(name, ["--seconds", str(options.seconds), *["--listed"] * options.listed])
        new = [m for m in living if not reasons.fullmatch(m)]
        unlisted = unlisted or bool(new)
        lines = [f"{name}: {len(living) + len(dead)} mutants, {len(living)} live, {len(new)} of them unlisted"]
        lines += [f"- {m}" for m in new]
        lines += [f"- {m} is listed, and noticed" for m in dead if reasons.fullmatch(m)]
        sys.stdout.write("\n".join([*lines, ""]))
        sys.stdout.flush()
    return int(unlisted)


def explained() -> re.Pattern[str]:
    """Return the pattern of mutants that may live: the lines of the list, in which … stands for anything."""
    lines = (line for line in LISTED.read_text("utf-8").splitlines() if line.startswith("- `"))
    return re.compile("|".join(re.escape(line.removeprefix("- ")).replace("…", ".*") for line in lines))


def tried(name: str, options: list[str]) -> tuple[list[str], list[str]]:
    """The mutants of a file: those that no test noticed, and the others."""
    os.chdir(ROOT)
    copy, source = COPIES / name.replace("/", "-"), f"src/fitnoise/kernel/{name}.py"
    listing = subprocess.run(["git", "ls-files", "-cozX", ".gitignore"], check=True, stdout=subprocess.PIPE)
    for path in filter(os.path.isfile, listing.stdout.decode().split("\0")):
        text, there = Path(path).read_bytes(), copy / path
        if path == source:
            text = undecorated(text.decode()).encode()
        if path == "pyproject.toml":
            tests = [f"tests/test_{x}.py" if x.isidentifier() else x for x in shlex.split(TESTS[name])]
            text += SETTINGS.format(source=source, tests=json.dumps(tests)).encode()
        if not there.exists() or there.read_bytes() != text:
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(text)
    source_folder = copy / "mutants" / "src"  # there before Python looks into it, which remembers what was not
    source_folder.mkdir(parents=True, exist_ok=True)
    with (copy / "log.txt").open("w") as log:
        command = [sys.executable, "-P", __file__, "--here", *options, source]
        here = os.environ | {"PYTHONPATH": str(source_folder)}
        if subprocess.run(command, cwd=copy, env=here, stdout=log, stderr=log, check=False).returncode:
            sys.exit(f"{name}: mutmut stopped; {log.name} says why")
    living, dead = json.loads((copy / "mutants" / "found.json").read_text())
    return living, dead


def undecorated(source: str) -> str:
    """Return the source with `f = property(f)` and the like after functions; mutmut skips those with decorators."""
    lines = source.splitlines()
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in sorted(functions, key=lambda n: n.lineno, reverse=True):
        expression = node.name
        for decorator in reversed(node.decorator_list):
            expression = f"{ast.unparse(decorator)}({expression})"
        if expression != node.name and not re.search("abstract|overload|classmethod|staticmethod", expression):
            lines.insert(node.end_lineno or 0, f"{' ' * node.col_offset}{node.name} = {expression}")
            start = node.decorator_list[0].lineno - 1
            lines[start : node.lineno - 1] = [""] * (node.lineno - 1 - start)
    return "\n".join(lines) + "\n"


class ForkedTests(PytestRunner):  # type: ignore[misc, unused-ignore]
    """Tests are collected once: in a fork of that, a mutant is tried against those that reach it, quickest first."""

    session: pytest.Session | None = None
    seconds = math.inf
    """Limit on the time of the tests of each mutant."""

    def warm_up(self) -> None:
        """The session is warm."""

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        if self.session is None:
            return int(super().run_tests(mutant_name=mutant_name, tests=tests))
        items, takes, spent = {item.nodeid: item for item in self.session.items}, state().duration_by_test, 0.0
        with tempfile.TemporaryDirectory() as there:
            os.chdir(there)  # what a mutant leaves there is in no other's way
            for test in sorted(items.keys() & set(tests), key=takes.__getitem__):
                if spent and spent + takes[test] > self.seconds:
                    break
                spent += takes[test]
                self.session.config.hook.pytest_runtest_protocol(item=items[test], nextitem=None)
                if self.session.testsfailed:
                    return 1
        return 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """A test that takes ten times as long as without a mutant, and two seconds more, of a processor, fails."""
        signal.signal(signal.SIGPROF, lambda *_: pytest.fail("hangs"))
        signal.setitimer(signal.ITIMER_PROF, 2 + 10 * state().duration_by_test[item.nodeid], 1)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


class Server(ForkServerRunner):  # type: ignore[misc, unused-ignore]
    """Its forks are those of a session of pytest that has collected all tests."""

    source = ""
    left_out: re.Pattern[str] | None = None
    """Mutants that are not tried."""

    def submit(self, mutant_name: str, tests: list[str], cpu_time_limit: int, estimated_time: float) -> None:
        if self.left_out is not None and self.left_out.fullmatch(described(mutant_name, self.source)):
            self._no_tests_results.append(MutantResult(mutant_name=mutant_name, exit_code=0, duration=0.0))
        else:
            super().submit(mutant_name, tests, cpu_time_limit, estimated_time)

    def _forkserver_main(self, work_fd: int, result_fd: int) -> None:
        serve = super()._forkserver_main

        class Serving:
            def pytest_runtestloop(self, session: pytest.Session) -> bool:
                ForkedTests.session = session
                serve(work_fd, result_fd)
                return True

        os.chdir("mutants")
        runner = ForkedTests()
        quick = ["-p", "no:unraisableexception"]  # that collects all garbage, five times a mutant
        runner.execute_pytest([*quick, *runner._pytest_add_cli_args_test_selection], plugins=[runner, Serving()])


def try_here(source: str, *, listed: bool, seconds: float) -> None:
    """Run mutmut in this folder, and write down what lives; what lived before is tried again."""
    settings.register_profile("mutants", deadline=None, phases=[Phase.explicit, Phase.generate])  # one failure will do
    operators = cast(list[Any], mutators.mutation_operators)
    operators[:] = [
        (kind, worthwhile(operator)) for kind, operator in operators if operator is not mutators.operator_string
    ]
    Server.source, Server.left_out, ForkedTests.seconds = source, None if listed else explained(), seconds
    cast(Any, mutmut).get_mutant_runner = lambda n: Server(
        max_workers=n, test_runner_class=ForkedTests, test_runner_args={}
    )
    mutants = SourceFileMutationData(path=source)
    mutants.load()
    for key, code in mutants.exit_code_by_key.items():
        if status_by_exit_code[code] not in DEAD:
            mutants.exit_code_by_key[key] = None
    if mutants.exit_code_by_key:
        mutants.save()
    mutmut.cli(["run", "--max-children", str(os.cpu_count() or 1)], standalone_mode=False)
    mutants.load()
    living: list[str] = []
    dead: list[str] = []
    for key, code in mutants.exit_code_by_key.items():
        (dead if status_by_exit_code[code] in DEAD else living).append(described(key, source))
    Path("mutants/found.json").write_text(json.dumps((living, dead)))


@cache
def described(key: str, source: str) -> str:
    """A mutant as the list writes it: its file, its function, and what it changes."""
    name = source.removeprefix("src/fitnoise/kernel/").removesuffix(".py")
    both = [libcst.Module([f]).code for f in diff_apply.read_functions_from_index(key, source) or ()]
    function = re.sub("^x[_ǁ]", "", key.rpartition(".")[2].partition("__mutmut")[0]).replace("ǁ", ".")
    return f"`{name}` `{function}` `{change(*(ast.unparse(ast.parse(code)) for code in both))}`"


def worthwhile(operator: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Iterable[Any]]:
    """The changes of an operator without None for False, and without those of an argument `strict`."""

    def normalized(node: libcst.CSTNode) -> str:
        return re.sub(r",?\s*strict=\w+|,\s*(?=\))", "", libcst.Module([]).code_for_node(node)).replace("None", "False")

    return lambda node: (new for new in operator(node) if normalized(new) != normalized(node))


def change(old: str, new: str) -> str:
    """The statement that differs, and how: `return a ⟦< → <=⟧ b`."""
    _, before, after, _ = parted(old.splitlines(), new.splitlines())
    tokens = (re.findall(r"\w+|[<>=!]=|\*\*|//|\W", " ".join(map(str.strip, lines))) for lines in (before, after))
    prefix, was, becomes, right = map("".join, parted(*tokens))
    return f"{prefix}⟦{was} → {becomes}⟧{right}"


def parted(one: list[str], other: list[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return the common start of two lists, the different middle of each, and their common end."""
    shorter = min(len(one), len(other))
    n = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    m = next((i for i in range(shorter - n) if one[-1 - i] != other[-1 - i]), shorter - n)
    return one[:n], one[n : len(one) - m], other[n : len(other) - m], one[len(one) - m :]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", help="names of files of the kernel; without any, all")
    parser.add_argument("--listed", action="store_true", help="try what is explained, too")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of tests, at most, for each mutant")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    cli_options = parser.parse_args()
    if cli_options.here:
        try_here(cli_options.files[0], listed=cli_options.listed, seconds=cli_options.seconds)
    else:
        sys.exit(main(cli_options))
