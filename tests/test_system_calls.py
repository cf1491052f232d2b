"""A release that is killed, or meets an error, at any system call that writes, inside the libraries too.

After each the same call finishes the release, with one charge in all, and leaves nothing behind. An error states the
charge as the ledger does. `strace` steps through the calls and strikes at the n-th. Without it, or where no one
may trace, this is left out, and the moments of `tests/test_releases.py` remain, which are those that Python sees.
FITNOISE_FAULTS=every strikes at every write, rename and sync, and prints the outcomes.
"""

import collections
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import ReleaseError
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.profiles import ceil_dyadic

CALLS = {
    "write": 5, "pwrite64": 5, "fsync": 2, "fdatasync": 2, "ftruncate": 1, "rename": 1, "link": 1, "unlink": 1,
    "unlinkat": 3, "mkdir": 1, "rmdir": 1, "openat": 30, "fcntl": 20, "flock": 2,
}  # fmt: skip
"""Calls that can change a disk or take a lock, each with n: one in n calls is tried."""

WRITES = ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "link", "unlink", "mkdir")
"""Calls that fail if a disk does."""

ERRORS = ("EIO", "ENOSPC", "EMFILE")

STRIKES_ALL = os.environ.get("FITNOISE_FAULTS") == "every"

COUNTS = np.arange(6).reshape(3, 2)

MESSAGE_BYTES = 4096

RELEASE = """
import mmap, os, signal, sys, tempfile
import numpy as np, fitnoise as fn

plan = fn.Plan.from_json(open(sys.argv[1], encoding="utf-8").read())
release, counts = fn.release, np.arange(6).reshape(3, 2)
shared = open(sys.argv[2], "r+b")
shared_text = mmap.mmap(shared.fileno(), 4096)
with tempfile.TemporaryDirectory() as place:  # what is imported here, no child imports
    release(plan, counts, ledger=place + "/ledger.db", directory=place + "/r")
while place := sys.stdin.readline().rstrip():
    shared_text[:] = bytes(4096)
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            release(plan, counts, ledger=place + "/ledger.db", directory=place + "/r")
        except BaseException as error:
            text = " ".join([type(error).__name__, str(error), *getattr(error, "__notes__", [])]).encode()[:4000]
            shared_text[: len(text)] = text  # without a system call
            os._exit(3)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def traced() -> bool:
    """Return True if this machine allows tracing a process."""
    program = shutil.which("strace")
    tried = program and subprocess.run([program, "-o", os.devnull, "true"], check=False, capture_output=True)
    return bool(tried) and tried.returncode == 0


@pytest.fixture(scope="module")
def plan():
    domain = fn.Domain(a=fn.Ordered(0, 2), b=fn.Categorical(["x", "y"]))
    return fn.plan(fn.Workload(domain, [fn.table("a", margin=3), fn.table(margin=2)]))


@pytest.fixture(autouse=True)
def plans_read_once(monkeypatch):
    """Read each text of a plan once in this process, where no call is struck."""
    monkeypatch.setattr(fn.Plan, "from_json", staticmethod(cache(fn.Plan.from_json)))


class Server:
    """A process that releases in children, each stopped until it is traced."""

    def __init__(self, plan, folder: Path) -> None:
        self.folder, self.plan = folder, plan
        (folder / "plan.json").write_text(plan.to_json(), encoding="utf-8")
        (folder / "shared_text").write_bytes(bytes(MESSAGE_BYTES))
        command = [sys.executable, "-c", RELEASE, str(folder / "plan.json"), str(folder / "shared_text")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def folder_for(self, name: str, ledger: str) -> Path:
        """A folder, in which there is a ledger with entries of before, or none."""
        folder_for = self.folder / f"{ledger}-{name}"
        folder_for.mkdir()
        if ledger == "existing":
            with Ledger(folder_for / "ledger.db") as book:
                book.set_cap(self.plan.order.account, 3 * self.plan.loss.rho)
        return folder_for

    def released(self, folder: Path, call: str, strike: str, moment: int) -> tuple[int, str]:
        """Make a release in which the n-th call is struck: return its exit status and its message."""
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        calls = ["-e", f"trace={call}", "-e", f"inject={call}:{strike}:when={moment}"]
        command = ["strace", "-f", *calls, "-o", str(self.folder / "trace"), "-p", str(child)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert "attached" in tracer.stderr.readline()
            os.kill(child, signal.SIGCONT)
            ended = int(self._process.stdout.readline())
            tracer.stderr.read()
        with (self.folder / "shared_text").open("r+b") as file, mmap.mmap(file.fileno(), MESSAGE_BYTES) as message:
            text = message[:].rstrip(b"\0").decode()
        return ended, text

    def struck(self) -> bool:
        """Return True if a call was struck in the last release."""
        return "INJECTED" in (self.folder / "trace").read_text(errors="replace")


@pytest.fixture(scope="module")
def server(plan, tmp_path_factory):
    if not traced():
        pytest.skip("needs strace, and to be allowed to trace")
    with Server(plan, tmp_path_factory.mktemp("releases")) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize("ledger", ["new", "existing"])
def test_a_release_killed_at_any_system_call_is_finished_by_the_same_call(plan, server, ledger):
    states_seen = []
    for call, stride in CALLS.items():
        states, killed = [], True
        while killed:
            folder = server.folder_for(f"{call}{len(states)}", ledger)
            moment = 1 + (1 if STRIKES_ALL and call in WRITES else stride) * len(states)
            ended, _ = server.released(folder, call, "signal=KILL", moment)
            killed = ended != 0
            assert ended in (0, signal.SIGKILL)
            states.append(state(plan, folder))
            if killed:
                finished(plan, folder)
            shutil.rmtree(folder)
        assert states[-1] == "whole"
        assert states == sorted(states, key=["nothing", "charged", "whole"].index)
        states_seen += states[:-1]
    if STRIKES_ALL:
        print_line(f"killed, {ledger} ledger: {len(states_seen)} moments, {dict(collections.Counter(states_seen))}")
    assert states_seen.count("nothing") > 10
    assert states_seen.count("charged") > 5


@pytest.mark.slow
@pytest.mark.parametrize("ledger", ["new", "existing"])
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_the_disk_says_what_the_ledger_says_and_the_same_call_finishes(plan, server, error, ledger):
    states_seen = collections.Counter()
    for call in WRITES:
        stride, moment = 1 if STRIKES_ALL else CALLS[call], 1
        if stride > 2:  # the moments of calls that are made often are dealt out to the errors
            moment += ERRORS.index(error) * stride
            stride *= len(ERRORS)
        while True:
            folder = server.folder_for(f"{error}-{call}{moment}", ledger)
            ended, message = server.released(folder, call, f"error={error}", moment)
            assert ended in (0, 3 << 8), (call, moment, ended)
            if not server.struck():
                break
            state_found, outcome_stated = state(plan, folder), ended == 0 or outcome(message)
            states_seen[state_found, outcome_stated if ended else "done"] += 1
            if ended == 0:
                assert state_found == "whole", (call, moment)
            else:
                assert outcome_stated == {"nothing": "nothing", "charged": "charged", "whole": "charged"}[
                    state_found
                ] or (outcome_stated == "unknown" and call != "write"), (call, moment, state_found, message)
            finished(plan, folder)
            shutil.rmtree(folder)
            moment += stride
        shutil.rmtree(folder)
    if STRIKES_ALL:
        print_line(f"{error}, {ledger} ledger: {sum(states_seen.values())} moments, {dict(states_seen)}")
    assert states_seen["charged", "charged"] > 2


def print_line(line: str) -> None:
    """Say what came of every moment."""
    sys.stdout.write(f"{line}\n")


def outcome(message: str) -> str:
    """Return the statement of an error about the charge."""
    kind = message.partition(" ")[0]
    assert kind.endswith("Error"), message
    charged = re.search(r"The charge of entry \d+ stays in the ledger", message)
    nothing = re.search(r"[Nn]othing (was|were) [^.;]*charged", message)
    unknown = "Whether the ledger was charged is not known" in message
    assert bool(charged) + bool(nothing) + unknown == 1, message
    return "charged" if charged else "nothing" if nothing else "unknown"


def finished(plan, folder: Path) -> None:
    """See that the same call finishes the release: one charge, and nothing else is left."""
    fn.release(plan, COUNTS, ledger=folder / "ledger.db", directory=folder / "r")
    assert state(plan, folder) == "whole"
    with fn.Ledger(folder / "ledger.db") as ledger:
        assert sum(e.kind == "charge" for e in ledger.entries()) == 1
        assert ledger.balance(plan.order.account).spent == ceil_dyadic(plan.loss.rho)
    remaining = {p.name for p in folder.iterdir()} - {"ledger.db", "r"}
    assert all(name.startswith(".ledger.db.unfinished-") for name in remaining), (
        remaining
    )  # a ledger that was never one


def state(plan, folder: Path) -> str:
    """Return the state that a reader finds: nothing charged, a charge, or a release with its charge in the ledger."""
    spent = 0
    if (folder / "ledger.db").exists():
        with fn.Ledger(folder / "ledger.db") as ledger:
            ledger.verify()
            spent = ledger.balance(plan.order.account).spent
            if (folder / "r").exists():
                assert fn.verify(folder / "r", ledger=ledger).ok
                assert (fn.Release.read(folder / "r")["a"]["value"] >= -100).all()
                return "whole"
    assert not (folder / "r").exists()
    for remaining in (p for p in folder.iterdir() if p.is_dir() and ".unfinished-" in p.name):
        assert not fn.verify(remaining).ok
        with pytest.raises(ReleaseError):
            fn.Release.read(remaining)
    return "charged" if spent else "nothing"
