"""A release that is killed at any system call that writes, inside the libraries too: whole and charged, or no release.

`strace` steps through the calls and kills at the n-th. Without it, or where nobody may trace, this is left out, and the
moments of `tests/test_releases.py` remain, which are those that Python sees.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import ReleaseError

CALLS = {
    "write": 3, "pwrite64": 3, "fsync": 1, "fdatasync": 1, "ftruncate": 1, "rename": 1, "link": 1, "unlink": 1,
    "unlinkat": 1, "mkdir": 1, "rmdir": 1, "openat": 8, "fcntl": 8, "flock": 1,
}  # fmt: skip
"""What can change a disk, or who may; and every how many of them one is tried."""

COUNTS = np.arange(6).reshape(3, 2)

RELEASE = """
import os, signal, sys
import numpy as np, fitnoise as fn

plan = fn.Plan.from_json(open(sys.argv[1], encoding="utf-8").read())
release, counts = fn.release, np.arange(6).reshape(3, 2)
while place := sys.stdin.readline().rstrip():
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGSTOP)
        release(plan, counts, ledger=place + "/ledger.db", directory=place + "/r")
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def traced() -> bool:
    """Whether a process may be stepped through here."""
    found = shutil.which("strace")
    tried = found and subprocess.run([found, "-o", os.devnull, "true"], check=False, capture_output=True)
    return bool(tried) and tried.returncode == 0


@pytest.fixture
def plan():
    domain = fn.Domain(a=fn.Ordered(0, 2), b=fn.Categorical(["x", "y"]))
    return fn.plan(fn.Workload(domain, [fn.table("a", margin=3), fn.table(margin=2)]))


@pytest.mark.slow
def test_a_release_killed_at_any_system_call_is_whole_and_charged_or_none(plan, tmp_path):
    if not traced():
        pytest.skip("needs strace, and to be allowed to trace")
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    command = [sys.executable, "-c", RELEASE, str(tmp_path / "plan.json")]
    every = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        for call, stride in CALLS.items():
            states, killed = [], True
            while killed:
                place = tmp_path / f"{call}{len(states)}"
                place.mkdir()
                killed = released_until(server, place, call, 1 + stride * len(states))
                states.append(state(plan, place))
            assert states[-1] == "whole"
            assert states == sorted(states, key=["nothing", "charged", "whole"].index)
            every += states
            if states[0] != "whole":  # what a killed release left is not in the way of the next
                place = tmp_path / f"{call}0"
                fn.release(plan, COUNTS, ledger=place / "ledger.db", directory=place / "r")
                assert state(plan, place) == "whole"
        server.stdin.close()
    assert every.count("nothing") > 10
    assert every.count("charged") > 10


def released_until(server, place: Path, call: str, moment: int) -> bool:
    """Make a release that is killed when one of its threads makes its n-th call; whether it came to that."""
    server.stdin.write(f"{place}\n")
    server.stdin.flush()
    child = int(server.stdout.readline())
    calls = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={moment}"]
    command = ["strace", "-f", *calls, "-o", os.devnull, "-p", str(child)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert "attached" in tracer.stderr.readline()
        os.kill(child, signal.SIGCONT)
        ended = int(server.stdout.readline())
        tracer.stderr.read()
    assert ended in (0, signal.SIGKILL)
    return ended != 0


def state(plan, place: Path) -> str:
    """What a reader finds: nothing was charged, or it was, or the release is there and its charge is in the ledger."""
    spent = 0
    if (place / "ledger.db").exists():
        with fn.Ledger(place / "ledger.db") as ledger:
            ledger.verify()
            spent = ledger.balance(plan.order.account).spent
            if (place / "r").exists():
                assert fn.verify(place / "r", ledger=ledger).ok
                assert (fn.Release.read(place / "r")["a"]["value"] >= -100).all()
                return "whole"
    assert not (place / "r").exists()
    for left in (p for p in place.iterdir() if p.is_dir()):
        assert not fn.verify(left).ok
        with pytest.raises(ReleaseError):
            fn.Release.read(left)
    return "charged" if spent else "nothing"
