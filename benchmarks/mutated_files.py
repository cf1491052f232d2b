"""Outcomes of reading altered plans, releases and ledgers. Run: python benchmarks/mutated_files.py [FIRST LAST]

The benchmark reads the mutations FIRST to LAST (default 0 to 100,000), each in a process that reads many. It prints the
errors that are not errors of fitnoise, the largest memory and the longest times. A process that takes a minute over a
file is ended.
"""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

PATIENCE = 60.0
"""Seconds over one file."""

ROOM = 400.0
"""Megabytes after which a process is followed by a new one."""


def reader() -> None:
    """Read the mutations whose numbers come in, and say what came of each, a line each."""
    import mutations
    from peak import peak_memory

    print("ready", flush=True)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as directory:
            what, path, read = mutations.mutate(int(line), Path(directory))
            faulthandler.dump_traceback_later(PATIENCE / 2)
            try:
                outcome, seconds, _ = mutations.outcome(read, path)
                megabytes = peak_memory()  # with all that the program holds
            except Exception as error:
                where = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)][-3:]
                outcome, seconds, megabytes = f"TRACEBACK {type(error).__name__} {str(error)[:80]!r} {where}", 0.0, 0.0
            faulthandler.cancel_dump_traceback_later()
        print(f"{seconds:.2f}\t{megabytes:.0f}\t{what}\t{outcome[:300]!r}", flush=True)


def ask(numbers: queue.SimpleQueue[int], results: list[tuple[int, float, float, str, str]]) -> None:
    """Have processes read all numbers, one process after another."""
    process = None
    while True:
        try:
            number = numbers.get_nowait()
        except queue.Empty:
            break
        if process is None:
            command = [sys.executable, __file__, "reader"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
            process.stdout.readline()
        end = threading.Timer(PATIENCE, process.kill)
        end.start()
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        end.cancel()
        if line:
            seconds, megabytes, what, outcome = line.rstrip("\n").split("\t", 3)
            results.append((number, float(seconds), float(megabytes), what, outcome))
            if float(megabytes) > ROOM:  # what a process once had, it may keep
                process.stdin.close()
                process.wait()
                process = None
        else:
            results.append((number, PATIENCE, 0.0, "?", f"TRACEBACK killed or ended: {process.wait()}"))
            process = None
    if process is not None:
        process.stdin.close()
        process.wait()


def main(start_number: int, last: int) -> None:
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for n in range(start_number, last):
        numbers.put(n)
    results: list[tuple[int, float, float, str, str]] = []
    start = time.monotonic()
    readers = int(os.environ.get("READERS", "2"))
    askers = [threading.Thread(target=ask, args=(numbers, results), daemon=True) for _ in range(readers)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for t in askers:
        t.start()
    with contextlib.suppress(KeyboardInterrupt):  # an interruption ends early, and prints the results so far
        for t in askers:
            t.join()
    print(f"{len(results):,} files in {time.monotonic() - start:,.0f} s")
    kinds = collections.Counter(re.findall(r"\w+", outcome)[0] for *_, outcome in results)
    for kind, n in kinds.most_common():
        print(f"{n:8,} {kind}")
    for title, key in (("longest, s", 1), ("largest, MB", 2)):
        print(title)
        for f in sorted(results, key=lambda f: -f[key])[:12]:
            print(f"  {f[key]:8.1f}  {f[0]}  {f[3]}  {f[4][:150]}")
    grouped = collections.defaultdict(list)
    for f in results:
        if "TRACEBACK" in f[4]:
            grouped[f[4]].append(f)
    for outcome, group in sorted(grouped.items(), key=lambda kv: -len(kv[1])):
        print(f"{len(group)} × {outcome}: {[f'{f[0]} {f[3]}' for f in group[:4]]}")


if __name__ == "__main__":
    if sys.argv[1:] == ["reader"]:
        reader()
    else:
        main(*map(int, sys.argv[1:3] or (0, 100_000)))
