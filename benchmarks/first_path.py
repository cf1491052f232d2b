"""Reference optima with time and certified gap, and the stages of the demo. Run: python benchmarks/first_path.py

Times are wall seconds of one process and vary with the machine; values and gaps do not.
"""

import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import fitnoise as fn
import reference as ref
import zoo
from fitnoise import data
from fitnoise.request.documents import load_spec
from peak import peak_memory


def timed(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def optima():
    print("| workload | cells | numbers | cost | bound | gap | seconds |")
    print("|---|---|---|---|---|---|---|")
    cases = [(f"prefix {n}", fn.matrix_workload(zoo.lower(n), variances=1)) for n in (2, 4, 8, 16, 64, 256)]
    cases += [(f"marginals {t}³ as a matrix", fn.matrix_workload(ref.marginals(t), variances=1)) for t in (2, 4, 6, 8)]
    cases += [(f"marginals {t}³ by sectors", ref.cube(t)) for t in (2, 4, 6, 8, 16)]
    cases += [
        ("PL94 as a matrix", fn.matrix_workload(ref.pl94_matrix(), variances=1)),
        ("age pyramids", fn.matrix_workload(ref.age_pyramids(), variances=1)),
        ("identity and sum 256", fn.matrix_workload(np.vstack([np.eye(256), np.ones((1, 256))]), variances=1)),
        ("CPS demo", ref.cps()),
        ("20 attributes of 10, all pairs", ref.cube(10, attributes=20, variance=100.0)),
    ]
    for name, workload in cases:
        plan, seconds = timed(lambda w=workload: fn.plan(w, gap=1e-6))
        cells = workload.domain.size
        cells_text = f"{cells:,}" if cells < 10**9 else f"{cells:.0e}"
        cost = float(plan.table_part.exact_cost)
        print(
            f"| {name} | {cells_text} | {plan.table_part.numbers:,} | {cost:.8g} | {plan.bound:.8g} | {plan.gap:.1e} "
            f"| {seconds:.3f} |"
        )


def demo():
    print("\n| stage of the demo | seconds |\n|---|---|")
    publication, seconds = timed(lambda: load_spec(data.path(data.DEMO)))
    print(f"| read the specification | {seconds:.3f} |")
    plan, seconds = timed(lambda: fn.plan(publication))
    print(f"| plan | {seconds:.3f} |")
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "release"
        _, seconds = timed(
            lambda: fn.release(plan, data.path(data.CPS), ledger=Path(folder) / "ledger.sqlite", directory=where)
        )
        print(f"| count, charge, measure, rebuild, write | {seconds:.3f} |")
        checked, seconds = timed(lambda: fn.verify(where))
        print(f"| verify ({'ok' if checked.ok else 'FAILS'}) | {seconds:.3f} |")
    print(f"\nPeak memory: {peak_memory():.0f} MB. Python {platform.python_version()}, NumPy {np.__version__}.")


if __name__ == "__main__":
    optima()
    demo()
