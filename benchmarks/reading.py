"""Every step of reading a release: seconds, and how much memory it takes at most, by the number of numbers.

    python benchmarks/reading.py [--largest 1000000]

Tables of n places by 25 groups by sex, and of places by sex: 52 n numbers. Each step runs in a process of its own that
has just read the release, so its memory is that of the step alone. Integer tables are made without the simulation,
which `benchmarks/integer_tables.py` times.
"""

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import fitnoise as fn
from fitnoise.errors import ReleaseError

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--largest", type=int, default=1_000_000)


def write_release(folder, n, number):
    """A release of mostly empty tables."""
    domain = fn.Domain(place=fn.Ordered(1, n), group=fn.Ordered(1, 25), sex=fn.Categorical(["f", "m"]))
    tables = [fn.table("place", "group", "sex", margin=10), fn.table("place", "sex", margin=5 + number)]
    draw = np.random.default_rng(1)
    counts = draw.poisson(np.exp(draw.normal(-1, 2, domain.shape)))
    directory = folder / f"release{number}"
    fn.release(fn.plan(fn.Workload(domain, tables)), counts, ledger=folder / "ledger.sqlite", directory=directory)
    return directory


def steps(folder, path, other):
    """Return the steps by name, each a function of a fresh release. A later step verifies the integer tables."""
    attributes = ["place", "group"]

    def integer_tables(release):
        fn.make_integer_tables(release, simulations=0).write(folder / "whole")

    def verified(**options):
        if not fn.verify(path, **options).ok:
            raise SystemExit("a claim does not hold")

    return {
        "read": lambda release: None,
        "one table": lambda release: release["place by group by sex"],
        "ask: counts": lambda release: release.count(by=attributes).frame(),
        "ask: shares": lambda release: (release.count(sex="f", by=attributes) / release.count(by=attributes)).frame(),
        "ask: medians": lambda release: release.quantile("group", 0.5, by="place").frame(),
        "whole": integer_tables,
        "combine": lambda release: [*fn.combine(release, fn.Release.read(other), same_records=True).values()],
        "report": lambda release: fn.report(release, folder / "report.html"),
        "export: xlsx": lambda release: fn.export(release, folder / "tables.xlsx"),
        "export: package": lambda release: fn.export(release, folder / "package"),
        "verify": lambda release: verified(),
        "verify: integer tables": lambda release: verified(whole=folder / "whole"),
    }


def child(path, step, queue):
    """Run a step on a release that this process reads, and report its figures or its refusal."""
    release = fn.Release.read(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, began = time.perf_counter(), time.process_time()
    try:
        step(release)
        refused = ""
    except ReleaseError as error:
        refused = str(error).split(":", 1)[0].split(";", 1)[0]
    seconds = time.process_time() - began, time.perf_counter() - start
    queue.put((*seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, refused))


def main(largest):
    """A line for each step and size."""
    fork = multiprocessing.get_context("fork")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print("  numbers  step           processor, s      s    GiB more than before it")
    for n in (20, 200, 2_000, 20_000):
        if n * 52 > 1.1 * largest:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            path, other = (write_release(folder, n, number) for number in (0, 1))
            for name, step in steps(folder, path, other).items():
                queue = fork.Queue()
                process = fork.Process(target=child, args=(path, step, queue))
                process.start()
                process.join()
                if process.exitcode:
                    raise SystemExit(f"{name}: it ended with {process.exitcode}")
                worked, seconds, memory, refused = queue.get()
                size = (folder / "report.html").stat().st_size / 2**20 if name == "report" and not refused else 0
                note = f"  {size:.2f} MiB" if size else f"  {refused}" if refused else ""
                print(f"{52 * n:9,d}  {name:15s} {worked:8.2f} {seconds:8.2f} {memory / 2**20:7.2f}{note}", flush=True)


if __name__ == "__main__":
    main(parser.parse_args().largest)
