"""The outcome of an error is the known state of the work, for any outcome stated where it was raised."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import DataError, LedgerError, ReleaseError, is_interruption
from fitnoise.interfaces import commands
from fitnoise.interfaces.cli import main
from fitnoise.kernel import noise
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.reading import release_files as folders
from refused import refused

SOURCE = Path(fn.__file__).parent

DOMAIN = fn.Domain(a=fn.Ordered(0, 2), b=fn.Categorical(["x", "y"]))
PLAN = fn.plan(fn.Workload(DOMAIN, [fn.table("a", margin=3), fn.table(margin=2)]))
COUNTS = np.arange(6).reshape(3, 2)
NOTHING = "Nothing was measured and nothing was charged."
REPEAT = "Repeat the command or call: it finishes the release, at no further charge."


def make_error(kind, outcome="Nothing was read and nothing was changed."):
    """Return an error that states an outcome which need not be so."""
    return kind("busy", "The ledger is busy.", "Another process holds it.", "Wait until it has ended.", outcome)


@pytest.mark.parametrize(
    "error", [RuntimeError("Query interrupted"), KeyboardInterrupt(), type("InterruptException", (Exception,), {})()]
)
def test_what_engines_make_of_a_signal_is_an_interruption(error):
    assert is_interruption(error)
    for is_shown in (True, False):
        with pytest.raises(ReleaseError) as raised:
            failing_over(error, is_shown=is_shown)
        assert is_interruption(raised.value)
    assert not is_interruption(RuntimeError("no engine"))


def failing_over(error, *, is_shown):
    """Raise what a library makes of an error."""
    try:
        raise error
    except BaseException as first:
        raise make_error(ReleaseError) from (first if is_shown else None)


# --- releases -------------------------------------------------------------------------------------------------------


def release(folder, **options):
    return fn.release(PLAN, COUNTS, ledger=folder / "ledger.db", directory=folder / "r", **options)


def spent(folder):
    with Ledger(folder / "ledger.db") as book:
        return book.balance(PLAN.order.account).spent


LIES = [make_error(DataError), make_error(LedgerError), make_error(ReleaseError, outcome=NOTHING)]


@pytest.mark.parametrize("error", LIES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("moment", ["before", "drawing", "writing", "after"])
def test_whoever_raised_it_an_error_says_what_was_done(tmp_path, monkeypatch, moment, error):
    def fail(*_args, **_options):
        raise error

    with monkeypatch.context() as patched:
        if moment == "before":
            patched.setattr("fitnoise.publishing._rehearse", fail)
        elif moment == "drawing":
            patched.setattr(noise, "discrete_gaussians", fail)
        elif moment == "writing":
            patched.setattr(fn.Release, "_fill", lambda *_args, rehearsal=False: None if rehearsal else fail())
        else:
            patched.setattr("fitnoise.publishing._tidy", fail)
        with pytest.raises(type(error)) as raised:
            release(tmp_path)
    stays = "The charge of entry 1 stays in the ledger"
    ends = {
        "before": NOTHING,
        "drawing": f"{stays}. {REPEAT}",
        "writing": f"{stays}, and the answers are kept. {REPEAT}",
        "after": f"{stays}, and the release is in place.",
    }
    assert (raised.value.code, raised.value.outcome) == (error.code, ends[moment])
    assert str(raised.value) == f"{error.reason} {ends[moment]}"
    release(tmp_path)
    assert spent(tmp_path) == ceil_dyadic(PLAN.loss.rho)


def test_if_the_ledger_cannot_be_read_nothing_is_claimed(tmp_path, monkeypatch):
    """The entry is written, and the commit is reported as failed: only the ledger knows."""
    real = Ledger.charge

    def charged(self, *arguments, **options):
        real(self, *arguments, **options)
        monkeypatch.setattr(Ledger, "entries", lambda *_: (_ for _ in ()).throw(make_error(LedgerError)))
        raise make_error(LedgerError)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "charge", charged)
        with refused("ledger.busy") as raised:
            release(tmp_path)
    unknown = "Whether the ledger was charged is not known, because it cannot be read now."
    assert raised.value.outcome == f"{unknown} {REPEAT}"
    monkeypatch.undo()
    monkeypatch.setattr(
        Ledger, "charge", lambda *a, **m: real(*a, **m) and (_ for _ in ()).throw(make_error(LedgerError))
    )
    assert spent(tmp_path) == ceil_dyadic(PLAN.loss.rho)
    release(tmp_path)
    assert spent(tmp_path) == ceil_dyadic(PLAN.loss.rho)
    (tmp_path / "other").mkdir()
    with refused("ledger.busy") as raised:
        release(tmp_path / "other")
    assert raised.value.outcome == f"The charge of entry 1 stays in the ledger. {REPEAT}"


def test_other_errors_carry_what_was_done_in_a_note(tmp_path, monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussians", lambda *_: {}["none"])
    with pytest.raises(KeyError) as raised:
        release(tmp_path)
    assert raised.value.__notes__ == [f"The charge of entry 1 stays in the ledger. {REPEAT}"]


@pytest.mark.parametrize("number", [5, 28])
def test_a_release_whose_last_sync_fails_is_in_place_and_its_answers_are_kept(tmp_path, monkeypatch, number):
    real = folders.sync_names

    def failing(folder):
        if folder == tmp_path:
            raise OSError(number, "no luck")
        real(folder)

    with monkeypatch.context() as patched:
        patched.setattr(folders, "sync_names", failing)
        with refused("release.disk-not-synced") as raised:
            release(tmp_path)
    sentence = "The charge of entry 1 stays in the ledger, and the answers are kept."
    assert raised.value.outcome == f"{sentence} {REPEAT}"
    assert (tmp_path / "r" / "release.json").exists()
    assert (tmp_path / "ledger.db.answers").exists()
    assert release(tmp_path).charge is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "r"]


def test_a_balance_that_cannot_be_read_does_not_fail_a_finished_release(tmp_path, monkeypatch, capsys):
    def busy(*_):
        raise make_error(LedgerError)

    monkeypatch.setattr(Ledger, "balance", busy)
    balance = commands._balance(tmp_path / "ledger.db", PLAN.order.account)
    message = f"the release is done; the balance cannot be read now: {make_error(LedgerError).reason}\n"
    assert (balance, capsys.readouterr().err) == (None, message)


def test_what_follows_a_change_says_that_it_was_made():
    with refused("ledger.busy") as raised, commands._after("The cap is set."):
        raise make_error(LedgerError)
    assert raised.value.outcome == "The cap is set."
    with refused("ledger.busy") as raised, commands._after(None):
        raise make_error(LedgerError)
    assert raised.value.outcome == make_error(LedgerError).outcome
    with pytest.raises(KeyboardInterrupt, match=r"^The cap is set\.$"), commands._after("The cap is set."):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt, match=r"^$"), commands._after(None):
        raise KeyboardInterrupt


# --- several processes ----------------------------------------------------------------------------------------------

JOINT_RELEASE = """
import sys, time
import numpy as np, fitnoise as fn

plan = fn.Plan.from_json(open(sys.argv[1] + "/plan.json", encoding="utf-8").read())
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
try:
    made = fn.release(plan, np.arange(6).reshape(3, 2), ledger=sys.argv[1] + "/ledger.db", directory=sys.argv[2])
    sys.stdout.write("released" if made.charge else "already")
except fn.FitnoiseError as error:
    sys.stdout.write(str(error))
"""


def run_jointly(tmp_path, *places):
    """Return the output of processes that release one plan at once."""
    (tmp_path / "plan.json").write_text(PLAN.to_json(), encoding="utf-8")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    commands = [[sys.executable, "-c", JOINT_RELEASE, str(tmp_path), str(tmp_path / folder)] for folder in places]
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    for p in processes:
        assert p.stdout.readline() == "ready\n"
    for p in processes:
        p.stdin.write("\n")
        p.stdin.flush()
    return [p.communicate()[0] for p in processes]


@pytest.mark.slow
def test_of_four_processes_with_one_directory_one_is_charged_and_the_others_are_refused_before(tmp_path):
    outputs = run_jointly(tmp_path, *["r"] * 4)
    assert outputs.count("released") == 1
    for output in outputs:
        before = output.endswith(NOTHING) and ("Another process is writing 'r'" in output or "exists already" in output)
        assert output in ("released", "already") or before, output
    assert spent(tmp_path) == ceil_dyadic(PLAN.loss.rho)
    with Ledger(tmp_path / "ledger.db") as book:
        assert fn.verify(tmp_path / "r", ledger=book).ok
        assert [e.kind for e in book.entries()] == ["charge", "answers"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "plan.json", "r"]


@pytest.mark.slow
def test_of_four_processes_with_four_directories_one_is_charged(tmp_path):
    """The others report another process, its charge or an earlier release, or they copy the release."""
    outputs = run_jointly(tmp_path, *"abcd")
    assert "released" in outputs
    assert spent(tmp_path) == ceil_dyadic(PLAN.loss.rho)
    releases = [
        fn.Release.read(tmp_path / name) for name, output in zip("abcd", outputs, strict=True) if output == "released"
    ]
    assert all(x == releases[0] for x in releases)
    with Ledger(tmp_path / "ledger.db") as book:
        assert [e.kind for e in book.entries()] == ["charge", "answers"]


# --- signals --------------------------------------------------------------------------------------------------------

INTERRUPTED = """
import os, sys, threading, time
import duckdb
from fitnoise import publishing
from fitnoise.interfaces.cli import main
from fitnoise.kernel import noise

number, moment = int(sys.argv[1]), sys.argv[2]

def strike(*_args, **_more):
    begun = time.process_time()

    def kill():
        while time.process_time() < begun + 0.2:  # while the engine is at work, not while it begins
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=kill).start()
    duckdb.execute("SET threads = 1")  # a thread of DuckDB's own ends its task first, which here would be never
    duckdb.sql("SELECT sum(i % 7) FROM range(100000000000000) t(i)").fetchall()  # longer than any test

if moment == "before":
    publishing._rehearse = strike
elif moment == "drawing":
    noise.discrete_gaussians = strike
elif moment == "writing":
    real = publishing.Release._fill
    publishing.Release._fill = lambda *a, rehearsal=False: real(*a, rehearsal=True) if rehearsal else strike()
elif moment == "after":
    from fitnoise.interfaces import commands
    commands._balance = strike
main(["release", "plan.json", "people.csv", "--ledger", "ledger.db", "-o", "r"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["before", "drawing", "writing", "after"])
def test_a_signal_in_an_engine_ends_in_one_sentence_and_the_same_command_finishes(tmp_path, number, moment):
    (tmp_path / "plan.json").write_text(PLAN.to_json(), encoding="utf-8")
    (tmp_path / "people.csv").write_text("a,b\n0,x\n1,y\n", encoding="utf-8")

    command = [sys.executable, "-c", INTERRUPTED, str(int(number)), moment]
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    ends = {
        "before": NOTHING,
        "drawing": f"The charge of entry 1 stays in the ledger. {REPEAT}",
        "writing": f"The charge of entry 1 stays in the ledger, and the answers are kept. {REPEAT}",
        "after": "The release is in place, and its charge is in the ledger.",
    }
    assert done.stderr.splitlines()[-1] == f"interrupted. {ends[moment]}"
    with contextlib.chdir(tmp_path):  # in this process, which shares nothing with the first; an error exits
        main(["release", "plan.json", "people.csv", "--ledger", "ledger.db", "-o", "r"])
    assert spent(tmp_path) == ceil_dyadic(PLAN.loss.rho)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "people.csv", "plan.json", "r"]
