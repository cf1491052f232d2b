"""Plans on an accelerator against NumPy on all cores. Run: python benchmarks/accelerator.py [DEVICE]

Every line is one process of its own: seconds of `fitnoise.plan`, without the import of PyTorch, and the gap that the
plan certifies. NumPy plans the smaller cases in the same run; DEVICE, "cuda" by default, plans all. NumPy recomputes
both certificates from the problem. The program stops if the bound of one plan is above the price of the other.
"""

import json
import os
import subprocess
import sys
import time

import any_size

DENSE_GAP, MIXED_GAP = 1e-3, 1e-6
CASES = [
    ("mixed", 20, True),
    ("mixed", 50, True),
    ("mixed", 100, True),
    ("prefix", 1024, True),
    ("prefix", 2048, True),
    ("prefix", 4096, True),
    ("prefix", 8192, False),
    ("random ranges", 2048, True),
    ("random ranges", 4096, False),
    ("random ranges", 8192, False),
]
"""The name of a case, its size, and whether NumPy plans it too."""


def workload(name, size):
    """Return tables of `size` attributes, or queries about `size` cells: all prefixes, or 2 · size ranges."""
    import numpy as np

    import fitnoise as fn

    if name == "mixed":
        return any_size.mixed_workload(size, "random")
    if name == "prefix":
        return fn.matrix_workload(np.tril(np.ones((size, size))), variances=1)
    ends = np.sort(np.random.default_rng(0).integers(0, size, (2 * size, 2)), axis=1)
    cells = np.arange(size)
    return fn.matrix_workload(((ends[:, :1] <= cells) & (cells <= ends[:, 1:])).astype(float), variances=1)


def one(name, size, device):
    """Plan a case and print its numbers."""
    import fitnoise as fn

    megabytes = None
    if device is not None:
        import torch

        torch.linalg.eigh(torch.eye(64, dtype=torch.float64, device=device))  # starts the device's libraries
    requested = workload(name, size)
    start = time.perf_counter()
    plan = fn.plan(requested, gap=MIXED_GAP if name == "mixed" else DENSE_GAP, device=device)
    seconds = time.perf_counter() - start
    if device is not None and device.startswith("cuda"):
        megabytes = torch.cuda.max_memory_allocated() / 2**20
    return {
        "seconds": seconds,
        "gap": plan.gap,
        "bound": plan.bound,
        "price": float(plan.table_part.objective_value),
        "megabytes": megabytes,
    }


def in_subprocess(name, size, device):
    command = [sys.executable, __file__, "--one", name, str(size), device or ""]
    process = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - itself
    return json.loads(process.stdout)


def main(device, cases=CASES):
    print(f"{os.cpu_count()} cores; {device}\n")
    print(f"| case | size | s, NumPy | s, {device} | ratio | gap, NumPy | gap, {device} | MB on {device} |")
    print("|---|---|---|---|---|---|---|---|")
    for name, size, both in cases:
        there = in_subprocess(name, size, device)
        here = in_subprocess(name, size, None) if both else None
        if here is not None:
            for one_plan, other in ((here, there), (there, here)):
                if one_plan["bound"] > other["price"] * (1 + 1e-12):
                    raise SystemExit(f"{name} {size}: a bound is above the price of the other plan")
        cells = [
            name,
            f"{size:,}",
            f"{here['seconds']:.1f}" if here else "",
            f"{there['seconds']:.1f}",
            f"{here['seconds'] / there['seconds']:.1f}" if here else "",
            f"{here['gap']:.1e}" if here else "",
            f"{there['gap']:.1e}",
            f"{there['megabytes']:,.0f}" if there["megabytes"] is not None else "",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], int(sys.argv[3]), sys.argv[4] or None)))
    else:
        main(*sys.argv[1:2] or ["cuda"])
