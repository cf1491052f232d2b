"""The how-to guide on jobs, followed in processes of their own."""

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import fitnoise as fn
from fitnoise.interfaces import console, streams
from fitnoise.interfaces.cli import main
from fitnoise.messages import Message
from refused import SECRET, refused
from run_pages import as_shown
from test_logs import PLAN, SERIES

PAGE = (Path(__file__).parent.parent / "docs" / "howto" / "run_as_a_job.md").read_text(encoding="utf-8")

AIRFLOW = """
import os, subprocess, sys, types

class DAG:
    def __init__(self, dag_id, *, schedule, default_args):
        DAG.defaults = default_args

    def __enter__(self):
        return self

    def __exit__(self, *_):
        names = {k: v for k, v in DAG.defaults["env"].items()}
        for task in Operator.order + Operator.order[:1]:  # the first is repeated, as a scheduler may
            environment = os.environ | names if DAG.defaults["append_env"] else names
            done = subprocess.run(["bash", "-c", task.command], cwd=DAG.defaults["cwd"], env=environment)
            print(task.name, done.returncode, flush=True)

class Operator:
    order = []

    def __init__(self, *, task_id, bash_command):
        self.name, self.command = task_id, bash_command

    def __rshift__(self, other):
        Operator.order += [x for x in (self, other) if x not in Operator.order]
        return other

bash = "airflow.providers.standard.operators.bash"
for name in ("airflow", "airflow.sdk", *(bash.rsplit(".", i)[0] for i in range(4))):
    sys.modules[name] = types.ModuleType(name)
sys.modules["airflow.sdk"].DAG = DAG
sys.modules[bash].BashOperator = Operator
"""
"""A scheduler with the interface that the page uses: it runs each task as a process, at the end of the DAG."""


def environment(**settings):
    """Return the environment of a job: commands by their names, and no settings of fitnoise other than these."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FITNOISE_")}
    return inherited | {"PYTHONPATH": os.pathsep.join(sys.path), **settings}


def run(command, folder, **settings):
    """Run a command of the page, and return the exit code, and both outputs as a terminal shows them."""
    command = re.sub(
        r"\b(fitnoise|python) ", lambda m: f"{sys.executable} {'-m fitnoise ' * (m[1] == 'fitnoise')}", command
    )
    done = subprocess.run(  # noqa: S602 - our own page
        command,
        shell=True,
        cwd=folder,
        env=environment(**settings),
        stdout=-1,
        stderr=-2,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout


def blocks():
    """Return the blocks of the page, each with its kind."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_does_what_it_says(tmp_path):
    for kind, block in blocks():
        if kind == "python":
            (tmp_path / block.split()[1]).write_text(block, encoding="utf-8")
        for command, expected in re.findall(
            r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block if kind == "console" else "", re.MULTILINE
        ):
            _, output = run(command, tmp_path)
            assert as_shown(expected).fullmatch(output), f"{command} says\n{output}\nand not\n{expected}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a plan, data and a ledger; commands in this process, without settings of another."""
    monkeypatch.chdir(tmp_path)
    for variable in ("FITNOISE_LEDGER", "FITNOISE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    PLAN.save("plan.json")
    Path("people.csv").write_text("colour\nred\nblue\n")
    return tmp_path


def test_the_dag_of_the_page_publishes_once(here):
    (page,) = (block for kind, block in blocks() if block.startswith("# dag.py"))
    (here / "bin").mkdir()
    program = here / "bin" / "fitnoise"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fitnoise "$@"\n')
    program.chmod(0o755)
    (here / "ledger").mkdir()
    (here / "dag.py").write_text(
        AIRFLOW + page.replace("/srv/work", str(here)).replace("/srv/ledger", str(here / "ledger"))
    )
    code, output = run("python dag.py", here, PATH=f"{here / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert (code, re.findall(r"^(\w+) (\d+)$", output, re.MULTILINE)) == (
        0, [("release", "0"), ("verify", "0"), ("report", "0"), ("release", "0")],
    )  # fmt: skip
    with fn.Ledger(here / "ledger" / "ledger.sqlite") as book:
        assert [e.kind for e in book.entries()] == ["charge", "answers"]
    assert (here / "report.html").exists()


def test_the_container_of_the_page_releases(here):
    """Detects a recipe whose program or variables do not do what the command of the page needs."""
    (recipe,) = (block for kind, block in blocks() if kind == "dockerfile")
    (shell,) = (block for kind, block in blocks() if kind == "text")
    lines = dict(line.split(" ", 1) for line in recipe.splitlines() if not line.startswith("#"))
    extras = re.search(r"fitnoise\[([\w,]+)\]", lines["RUN"])[1].split(",")
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
    assert {*extras} <= project["optional-dependencies"].keys()
    arguments = shlex.split(shell.splitlines()[1])
    mounts = dict(x.split(":")[::-1] for x, flag in zip(arguments[1:], arguments, strict=False) if flag == "-v")
    (here / "ledger").mkdir()
    places = {inside: str(here / "ledger" if "ledger" in outside else here) for inside, outside in mounts.items()}
    settings = {k: places.get(v, v) for k, v in (x.split("=") for x in lines["ENV"].split())}
    entry = [sys.executable, *json.loads(lines["ENTRYPOINT"])[1:]]
    command = [*entry, *arguments[arguments.index("fitnoise") + 1 :]]
    subprocess.run(command, cwd=places[lines["WORKDIR"]], env=environment(**settings), capture_output=True, check=True)
    assert fn.verify(here / "release", ledger=here / "ledger" / "ledger.sqlite").ok


STOPPED = """
import os, signal, sys, time
from fitnoise import publishing
from fitnoise.engines.duck import DuckCounter
from fitnoise.interfaces import commands
from fitnoise.interfaces.cli import main
from fitnoise.kernel import noise

def stop(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(20)

places = {
    "opening": (publishing, "open_counter"),
    "rehearsing": (publishing, "_rehearse"),
    "counting": (DuckCounter, "count"),
    "drawing": (noise, "discrete_gaussians"),
    "rebuilding": (publishing, "_released"),
    "clearing": (publishing, "_tidy"),
    "reporting": (commands, "_balance"),
}
setattr(*places[sys.argv[1]], stop)
main(["release", "plan.json", "people.csv", "-o", "r", "--json"])
"""

CHARGED = "The charge of entry 1 stays in the ledger"
REPEAT = "Repeat the command or call: it finishes the release, at no further charge."


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize(
    ("stage", "outcome"),
    [
        ("opening", "Nothing was measured and nothing was charged."),
        ("rehearsing", "Nothing was measured and nothing was charged."),
        ("counting", "Nothing was measured and nothing was charged."),
        ("drawing", f"{CHARGED}. {REPEAT}"),
        (
            "rebuilding",
            f"{CHARGED}, and the answers are kept. {REPEAT}",
        ),
        ("clearing", f"{CHARGED}, and the release is in place."),
        ("reporting", "The release is in place, and its charge is in the ledger."),
    ],
)
def test_a_stopped_job_states_its_charge_and_is_finished_by_a_repetition(here, capsys, monkeypatch, stage, outcome):
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, stage],
        cwd=here,
        env=environment(FITNOISE_LEDGER="l.db"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 143
    assert events[0]["text"] == "the ledger is l.db, which the environment names"
    assert (events[-1]["error"]["code"], events[-1]["error"]["message"]) == ("interrupted", f"interrupted. {outcome}")
    monkeypatch.setenv("FITNOISE_LEDGER", "l.db")
    assert command(capsys, "release", "plan.json", "people.csv", "-o", "r")[0] == 0
    with fn.Ledger("l.db") as book:
        assert [e.kind for e in book.entries()] == ["charge", "answers"]
        assert fn.verify("r", ledger=book).ok


def command(capsys, *arguments):
    """Return the exit code and both outputs of a command in this process."""
    code = 0
    try:
        main([*arguments])
    except SystemExit as end:
        code = end.code
    return (code, *capsys.readouterr())


@pytest.mark.parametrize(
    ("settings", "option", "expected"),
    [
        ({}, "option.db", "option.db"),
        ({"FITNOISE_LEDGER": "chosen.db", "FITNOISE_HOME": "home"}, "option.db", "option.db"),
        ({"FITNOISE_LEDGER": "chosen.db"}, None, "chosen.db"),
        ({"FITNOISE_LEDGER": "chosen.db", "FITNOISE_HOME": "home"}, None, "home/chosen.db"),
        ({"FITNOISE_LEDGER": "{here}/chosen.db", "FITNOISE_HOME": "home"}, None, "{here}/chosen.db"),
        ({"FITNOISE_LEDGER": "", "FITNOISE_HOME": "home"}, None, "home/ledger.sqlite"),
        ({"FITNOISE_LEDGER": "chosen.db", "FITNOISE_HOME": ""}, None, "chosen.db"),
        ({"FITNOISE_LEDGER": "", "FITNOISE_HOME": ""}, None, None),
    ],
)
def test_an_option_precedes_the_environment_and_messages_name_the_ledger(
    here, capsys, monkeypatch, settings, option, expected
):
    Path("home").mkdir()
    for name, value in settings.items():
        monkeypatch.setenv(name, value.format(here=here))
    expected = expected and str(Path(expected.format(here=here)))
    arguments = [] if option is None else ["--ledger", option]
    code, out, err = command(capsys, "release", "plan.json", "people.csv", *arguments, "-o", "r")
    if expected is None:
        assert (code, out) == (2, "")
        assert "No ledger is given, and the environment names none." in err
        assert not Path("r").exists()
        return
    chosen = [] if option else [f"the ledger is {expected}, which the environment names"]
    assert (code, err.splitlines()[: len(chosen)]) == (0, chosen)
    assert ("the environment names" in err) == bool(chosen)
    assert f"\nledger     {expected}\n           people (" in out
    arguments = [option] if option else []
    code, out, err = command(capsys, "ledger", "head", *arguments, "--json")
    assert (code, json.loads(out)["sequence"]) == (0, 2)
    events = [json.loads(line) for line in err.splitlines()]
    assert [x["text"] for x in events if x["event"] == "message"] == chosen
    assert fn.verify("r", ledger=Path(expected)).ok
    arguments = ["--ledger", *arguments] if arguments else []
    _, out, _ = command(capsys, "release", "plan.json", "people.csv", *arguments, "-o", "s", "--again", "--json")
    assert json.loads(out)["ledger"] == expected


def test_every_command_on_a_ledger_takes_that_of_the_environment(here, capsys, monkeypatch):
    monkeypatch.setenv("FITNOISE_LEDGER", "chosen.db")
    assert command(capsys, "ledger", "open", "--rho", "1", "--plan", "plan.json")[0] == 0
    for arguments in (
        ["ledger", "show"],
        ["ledger", "verify"],
        ["ledger", "head"],
        ["ledger", "cap", "--rho", "0.5", "--plan", "plan.json"],
    ):
        code, _, err = command(capsys, *arguments)
        assert (code, err.splitlines()[0]) == (0, "the ledger is chosen.db, which the environment names")
    SERIES.save("series.json")
    Path("people.csv").write_text("colour,month\nred,1\n")
    assert command(capsys, "release", "series.json", "people.csv", "--period", "1", "--series", "s", "-o", "r")[0] == 0
    assert command(capsys, "series", "status", "series.json", "--series", "s")[0] == 0
    assert command(capsys, "series", "write", "series.json", "--period", "1", "--series", "s", "-o", "again")[0] == 0
    # a release by others was charged to their ledger
    Path("chosen.db").unlink()
    assert command(capsys, "verify", "r")[0] == 0


def test_every_line_of_a_job_is_an_event_with_documented_fields(here, capsys, monkeypatch):
    monkeypatch.setattr(console, "PROGRESS_INTERVAL_SECONDS", 0)
    fields = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.partition("## Read events")[2], re.MULTILINE))
    documented = {k: {"event", *re.findall(r"`(\w+)`", x.partition(", an object")[0])} for k, x in fields.items()}
    Path("spec.toml").write_text(
        'data = { source = "people", outside_domain = "drop" }\n'
        '[domain.colour]\ntype = "categorical"\ncodes = ["red", "blue"]\n'
        '[domain.age]\ntype = "ordered"\nlow = 0\nhigh = 9\n'
        '[[tables]]\nattributes = ["colour"]\ncumulative = "age"\nmargin = 20\n'
    )
    Path("people.csv").write_text("colour,age\n" + "red,1\n" * 300 + f"{SECRET},2\n" * 7919)
    seen = {}
    for arguments in (
        ["plan", "spec.toml", "-o", "made.json"],
        ["count", "made.json", "people.csv", "--unsealed", "-o", "counts"],
        ["release", "made.json", "people.csv", "--ledger", "l.db", "-o", "r"],
        ["release", "made.json", "people.csv", "--ledger", "l.db", "-o", "r"],
        ["release", "made.json", "people.csv", "--ledger", "l.db", "-o", "other"],
        ["verify", "r", "--ledger", "l.db"],
        ["plan", "absent.toml"],
        ["bogus"],
    ):
        _, _, err = command(capsys, *arguments, "--json")
        for event in map(json.loads, err.splitlines()):
            seen.setdefault(event["event"], []).append(event)
        assert not re.search(f"{SECRET}|7,?919|8,?219|\\b(red|blue)\\b", err)
    assert seen.keys() == documented.keys()
    for kind, events in seen.items():
        assert set().union(*events) == documented[kind]
    stages = {x["stage"] for x in seen["progress"]}
    assert {"opening the data", "writing the tables"} <= stages
    assert all(x["values"]["step"] > 0 for x in seen["progress"] if x["task"] == "planning")
    assert {"code", "place", "message", "exit_code"} == set().union(*(x["error"] for x in seen["error"]))


def test_events_have_no_infinite_number(capsys):
    token = streams.as_events.set(True)
    try:
        with console.progress(Message("terminal.progress.planning")) as report:
            for gap in (math.inf, 0.5):
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(console, "PROGRESS_INTERVAL_SECONDS", 0)
                    report(console.gap_message(1, gap))
        console.say()
    finally:
        streams.as_events.reset(token)
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [x.get("values", {}).get("gap") for x in events] == [None, None, 0.5]


def test_an_older_ledger_is_refused_by_its_head_or_noticed_by_the_neighbours(here, capsys):
    notices = []
    options = {"again": True, "notice": notices.append}
    fn.release(PLAN, "people.csv", ledger="l.db", directory="first", **options)
    shutil.copy("l.db", "old.db")
    fn.release(PLAN, "people.csv", ledger="l.db", directory="second", **options)
    with fn.Ledger("l.db") as book:
        head = book.head()
    Path("head.txt").write_text(f"{head[0]}:{head[1]}\n")
    warned = lambda: [x for x in notices if "which this ledger does not have" in x]  # noqa: E731
    assert warned() == []
    before = Path("old.db").read_bytes()
    for data in ("people.csv", "absent.csv"):  # before any data are read
        with refused("ledger.head-not-found"):
            fn.release(PLAN, data, ledger="old.db", directory="third", expect_head=head, **options)
    with refused("ledger.file-missing"):
        fn.release(PLAN, "people.csv", ledger="absent.db", directory="third", expect_head=head, **options)
    for text in ("head.txt", f"{head[0]}:{head[1]}"):
        arguments = ["release", "plan.json", "people.csv", "-o", "third", "--again", "--expect-head", text]
        assert command(capsys, *arguments, "--ledger", "old.db")[0] == 7
    assert command(capsys, *arguments[:-1], "4", "--ledger", "l.db")[0] == 2
    assert (Path("old.db").read_bytes(), Path("third").exists(), Path("absent.db").exists()) == (before, False, False)
    fn.release(PLAN, "people.csv", ledger="l.db", directory="third", expect_head=head, **options)
    assert warned() == []

    fn.release(PLAN, "people.csv", ledger="old.db", directory="fourth", **options)  # it has the entry of the first
    assert [x.startswith("the release 'third' next to this one was charged as entry 5, ") for x in warned()] == [True]
    notices.clear()
    fn.release(PLAN, "people.csv", ledger="new.db", directory="fifth", **options)  # it has no entry at all
    assert len(warned()) == 1
    notices.clear()
    other = fn.plan(replace(PLAN.publication, source=replace(PLAN.publication.source, name="others")))
    for folder, text in (("broken", "["), ("endless", '{"ledger": {"sequence": 1e999}}')):
        Path(folder).mkdir()
        Path(folder, "release.json").write_text(text)
    fn.release(other, "people.csv", ledger="others.db", directory="sixth", **options)  # its own account
    fn.release(PLAN, "people.csv", ledger="l.db", directory="elsewhere/seventh", **options)
    assert warned() == []
