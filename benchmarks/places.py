"""Tables by level of nested places, from 100 leaves to a million. Run: python benchmarks/places.py

Every line is one process of its own. *declared* is the hierarchy itself, from rows of codes; *planned* workload, plan
and certificate; *written* the plan as JSON. Uneven trees are planned together, as one structured
attribute, or level by level in groups of their own.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peak import peak_memory

LEVELS = ("state", "county", "tract", "group", "block")
MARGINS = (300, 100, 60, 40, 40, 30)
REGULAR = ((10, 10), (20, 50), (51, 62), (51, 62, 27), (51, 62, 27, 3), (51, 62, 27, 3, 4))
RNG = random.Random(1)  # noqa: S311
SMALL = "8 states of 1 to 45 counties"
UNEVEN = {
    SMALL: (1, 2, 4, 8, 12, 20, 30, 45),
    "51 states of 3 to 100 counties": tuple(RNG.randint(3, 100) for _ in range(51)),
}


def regular(branching):
    """Race by sex at every level of a tree in which places have equally many places."""
    import fitnoise as fn

    rows = [()]
    for n in branching:
        rows = [(*row, "".join((*row[-1:], f"{i:03}"))) for row in rows for i in range(n)]
    start = time.perf_counter()
    levels = LEVELS[: len(branching)]
    domain = fn.Domain(geo=fn.Hierarchy(levels, rows), race=fn.Ordered(0, 6), sex=fn.Ordered(0, 1))
    declared = time.perf_counter()
    shown = [(), *((x,) for x in levels)]
    tables = [fn.table(*x, "race", "sex", margin=m) for x, m in zip(shown, MARGINS, strict=False)]
    plan = fn.plan(fn.Workload(domain, tables))
    planned = time.perf_counter()
    size = len(plan.to_json())
    return {
        "branching": " × ".join(map(str, branching)),
        "leaves": f"{len(rows):,}",
        "rho": f"{plan.rho:.7f}",
        "gap": f"{plan.gap:.1e}",
        "declared s": f"{declared - start:.2f}",
        "planned s": f"{planned - declared:.2f}",
        "written s": f"{time.perf_counter() - planned:.2f}",
        "plan MB": f"{size / 1e6:.1f}",
        "peak MB": f"{peak_memory():,.0f}",
    }


def uneven(name, together):
    """Age by sex by nation, state and county."""
    import fitnoise as fn

    rows = [(i, f"{i}-{j}") for i, n in enumerate(UNEVEN[name]) for j in range(n)]
    geo = fn.Hierarchy(LEVELS[:2], rows)
    domain = fn.Domain(geo=geo, age=fn.Ordered(0, 9), sex=fn.Ordered(0, 1))
    both = ("age", "sex")
    nation, state = fn.table(*both, margin=100), fn.table("state", *both, margin=50)
    county = (fn.table("county", margin=20), fn.table("county", *both, margin=30))
    groups = [(nation, state, *county)] if together else [county, (state,), (nation,)]
    first, *also = (fn.Publication(fn.Workload(domain, group)) for group in groups)
    start = time.perf_counter()
    plan = fn.plan(fn.Publication(first.workload, also=tuple(also)))
    return {
        "tree": name,
        "counties": f"{len(rows):,}",
        "planned": "together" if together else "level by level",
        "rho": f"{plan.rho:.7f}",
        "seconds": f"{time.perf_counter() - start:.2f}",
    }


CASES = [
    *(("regular", (b,)) for b in REGULAR),
    ("uneven", (SMALL, True)),
    *(("uneven", (name, False)) for name in UNEVEN),
]


def run(which, given):
    """One line, from a process of its own."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, which, json.dumps(given)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)  # noqa: S603


def main():
    last = None
    for which, given in CASES:
        line = run(which, given)
        if which != last:
            print("\n|", " | ".join(line), "|\n|", "---|" * len(line), sep="")
        print("|", " | ".join(map(str, line.values())), "|", flush=True)
        last = which


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps({f.__name__: f for f in (regular, uneven)}[sys.argv[1]](*json.loads(sys.argv[2]))))
    else:
        main()
