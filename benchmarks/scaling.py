"""Time and memory of a certified plan against its rank k, with the fitted exponent. Run: python benchmarks/scaling.py

Every line is one process of its own: wall seconds of `fitnoise.plan` and the peak memory of the process. Give sizes to
run
fewer: python benchmarks/scaling.py 128 256. One BLAS thread below k = 500, where more are slower, two above.
"""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peak import peak_memory

SIZES = (128, 256, 512, 1024, 2048)
WORKLOADS = {
    "prefix": "all prefixes of k cells, unit targets",
    "random ranges": "2k random ranges of k cells, unit targets",
    "all ranges": "all k(k+1)/2 ranges of k cells, by structure, unit targets",
}
LARGEST = {"all ranges": 1024}
GAP = 1e-6


def one(name, k, gap):
    import fitnoise as fn
    import reference as ref
    import zoo

    if name == "all ranges":
        workload = fn.Workload(fn.Domain(a=fn.Ordered(0, k - 1)), [fn.table(ranges="a", variance=1)])
    elif name == "pl94":
        workload = fn.matrix_workload(ref.pl94_matrix(), variances=1)
    else:
        workload = fn.matrix_workload(zoo.lower(k) if name == "prefix" else ref.ranges(k), variances=1)
    start = time.perf_counter()
    plan = fn.plan(workload, gap=gap)
    return {
        "seconds": time.perf_counter() - start,
        "megabytes": peak_memory(),
        "cost": float(plan.table_part.exact_cost),
        "gap": plan.gap,
        "numbers": plan.table_part.numbers,
    }


def in_subprocess(name, k, gap):
    command = [sys.executable, __file__, "--one", name, str(k), str(gap)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1" if k < 500 else "2"}
    process = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603 - itself
    return json.loads(process.stdout)


def exponent(points):
    """Least squares of log y on log x."""
    xs, ys = zip(*((math.log(x), math.log(y)) for x, y in points), strict=True)
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


def main(sizes):
    print(f"Certified gap {GAP:g}; one BLAS thread below k = 500, two above.\n")
    for name, what in WORKLOADS.items():
        print(f"{what}:\n")
        print("| k | numbers | cost | gap | seconds | peak MB |\n|---|---|---|---|---|---|")
        results = []
        for k in (x for x in sizes if x <= LARGEST.get(name, max(sizes))):
            r = in_subprocess(name, k, GAP)
            results.append((k, r["seconds"], r["megabytes"]))
            print(
                f"| {k} | {r['numbers']:,} | {r['cost']:.7g} | {r['gap']:.1e} | {r['seconds']:.2f} "
                f"| {r['megabytes']:.0f} |",
                flush=True,
            )
        late = [x for x in results if x[0] >= 256]
        if len(late) > 1:
            print(
                f"\nFrom k = 256 on: time ~ k^{exponent([(k, s) for k, s, _ in late]):.2f}, "
                f"memory ~ k^{exponent([(k, m) for k, _, m in late]):.2f}."
            )
        print(flush=True)
    print("| case | gap requested | gap | seconds |\n|---|---|---|---|")
    for name, k, gap in (
        ("prefix", 1024, 1e-4),
        ("prefix", 1024, 1e-6),
        ("random ranges", 1024, 1e-3),
        ("random ranges", 1024, 1e-6),
        ("random ranges", 256, 1e-6),
        ("pl94", 252, 1e-6),
    ):
        if k <= max(sizes):
            r = in_subprocess(name, k, gap)
            print(f"| {name} {k} | {gap:g} | {r['gap']:.1e} | {r['seconds']:.2f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
    else:
        main(tuple(int(x) for x in sys.argv[1:]) or SIZES)
