"""Cost of importing fitnoise, relative to NumPy, pandas and DuckDB. Run: python benchmarks/importing.py [--rounds 15]

Every line is a new process, with its files compiled before. Rounds alternate between the lines, so that other work on
the machine affects all of them equally. Medians of wall and of processor time, and the ratio of the latter.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

THEM = "import numpy, pandas, duckdb"
LINES = {
    "python, nothing imported": ["-c", "pass"],
    THEM: ["-c", THEM],
    "import fitnoise": ["-c", "import fitnoise"],
    "fitnoise --help": ["-m", "fitnoise", "--help"],
    "fitnoise plan --help": ["-m", "fitnoise", "plan", "--help"],
    "from fitnoise import Domain, table": ["-c", "from fitnoise import Domain, table"],
    "from fitnoise import Release": ["-c", "from fitnoise import Release"],
    "from fitnoise import plan": ["-c", "from fitnoise import plan"],
    "from fitnoise import *": ["-c", "from fitnoise import *"],
}


def seconds(arguments):
    """Wall and processor time of a process, children included."""
    before, start = os.times(), time.perf_counter()
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent.parent / "src")}
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603 - itself
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    for arguments in LINES.values():  # compiles what is not compiled
        seconds(arguments)
    taken = {name: [] for name in LINES}
    for _ in range(rounds):
        for name, arguments in LINES.items():
            taken[name].append(seconds(arguments))
    medians = {name: [statistics.median(x) for x in zip(*pairs, strict=True)] for name, pairs in taken.items()}
    versions = f"NumPy {np.__version__}, pandas {pd.__version__}, DuckDB {duckdb.__version__}"
    print(f"{rounds} rounds. Python {platform.python_version()}, {versions}.\n")
    print("| what | wall s | processor s | ratio |\n|---|---|---|---|")
    for name, (wall, spent) in medians.items():
        print(f"| `{name}` | {wall:.2f} | {spent:.2f} | {spent / medians[THEM][1]:.2f} |")


if __name__ == "__main__":
    main()
