"""Tables by level of nested places, from 100 leaves to six million. Run: python benchmarks/places.py [national]

With a name of one of the tables it makes that alone.
Given files of the Census Bureau's PPMF, one for each county, it publishes each of these counties as well.

Every line is one process of its own. *declared* is the hierarchy itself, from rows of codes or by numbers; *planned*
workload, plan and certificate; *written* the plan as JSON. Uneven trees have three kinds of plans. One takes the tree
as one structured attribute. One has a noise scale for each level and margin. One plans each level on its own, in groups
of tables. The national trees are also measured, written as tables and verified, with simulated people. The last of
them shows tracts by age by race, which is 13 million noisy numbers. Their peaks are of each stage by itself, and
include the memory held before it.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peak import forget_peak, peak_memory

LEVELS = ("state", "county", "tract", "group", "block")
MARGINS = (300, 100, 60, 40, 40, 30)
REGULAR = ((10, 10), (20, 50), (51, 62), (51, 62, 27), (51, 62, 27, 3), (51, 62, 27, 3, 4))
NUMBERS = ((51, 62, 27), (51, 62, 27, 3, 4), (51, 62, 27, 3, 23))
RNG = random.Random(1)  # noqa: S311
SMALL = "8 states of 1 to 45 counties"
UNEVEN = {
    SMALL: (1, 2, 4, 8, 12, 20, 30, 45),
    "51 states of 3 to 100 counties": tuple(RNG.randint(3, 100) for _ in range(51)),
}


def regular(branching, declared_by="rows"):
    """Race by sex at every level of a tree in which places have equally many places, by rows or by numbers."""
    import fitnoise as fn

    rows = [()]
    for n in branching if declared_by == "rows" else ():
        rows = [(*row, "".join((*row[-1:], f"{i:03}"))) for row in rows for i in range(n)]
    start = time.perf_counter()
    levels = LEVELS[: len(branching)]
    declaration = {"places": rows} if declared_by == "rows" else {"children": branching}
    geo = fn.Hierarchy(levels, **declaration)
    domain = fn.Domain(geo=geo, race=fn.Ordered(0, 6), sex=fn.Ordered(0, 1))
    declared = time.perf_counter()
    shown_levels = [(), *((x,) for x in levels)]
    tables = [fn.table(*x, "race", "sex", margin=m) for x, m in zip(shown_levels, MARGINS, strict=False)]
    plan = fn.plan(fn.Workload(domain, tables))
    planned = time.perf_counter()
    size = len(plan.to_json())
    return {
        "branching": " × ".join(map(str, branching)),
        "declared by": declared_by,
        "leaves": f"{geo.size:,}",
        "rho": f"{plan.rho:.7f}",
        "gap": f"{plan.gap:.1e}",
        "declared s": f"{declared - start:.2f}",
        "planned s": f"{planned - declared:.2f}",
        "written s": f"{time.perf_counter() - planned:.2f}",
        "plan MB": f"{size / 1e6:.1f}",
        "peak MB": f"{peak_memory():,.0f}",
    }


JOINT, BY_LEVEL, SEPARATE = "together", "by level", "each level on its own"


def uneven(name, how):
    """Age by sex by nation, state and county."""
    import fitnoise as fn

    rows = [(i, f"{i}-{j}") for i, n in enumerate(UNEVEN[name]) for j in range(n)]
    geo = fn.Hierarchy(LEVELS[:2], rows)
    domain = fn.Domain(geo=geo, age=fn.Ordered(0, 9), sex=fn.Ordered(0, 1))
    both = ("age", "sex")
    nation, state = fn.table(*both, margin=100), fn.table("state", *both, margin=50)
    county = (fn.table("county", margin=20), fn.table("county", *both, margin=30))
    groups = [county, (state,), (nation,)] if how == SEPARATE else [(nation, state, *county)]
    if how == BY_LEVEL:
        from fitnoise.mechanisms.gaussian import planning

        planning.MAX_DENSE_LEAVES = 0
    main_publication, *also = (fn.Publication(fn.Workload(domain, group)) for group in groups)
    start = time.perf_counter()
    plan = fn.plan(fn.Publication(main_publication.workload, further_tables=tuple(also)))
    return {
        "tree": name,
        "counties": f"{len(rows):,}",
        "planned": how,
        "rho": f"{plan.rho:.7f}",
        "bound": f"{sum(p.bound for p in plan.groups) / 2:.7f}",
        "seconds": f"{time.perf_counter() - start:.2f}",
    }


class Stages:
    """Seconds and the peak of memory of one stage after the other."""

    def __init__(self):
        self.seconds, self.peaks = {}, {}
        self.begin()

    def begin(self):
        forget_peak()
        self.begun = time.perf_counter()

    def done(self, stage):
        self.seconds[f"{stage} s"] = f"{time.perf_counter() - self.begun:.1f}"
        self.peaks[f"{stage} MB"] = f"{peak_memory():,.0f}"
        self.begin()


def country(levels, both=("age", "sex"), **options):
    """A publication by state, county, tract and block group of a made-up country, its places, and the generator.

    both: what tracts show together.
    options: of the publication.
    """
    import numpy as np

    import fitnoise as fn

    rng, rows = np.random.default_rng(0), [(str(i),) for i in range(51)]
    for mean, sigma in ((3142 / 51, 0.8), (84_000 / 3142, 1.2), (3, 0.3))[: levels - 1]:
        sizes = rng.lognormal(0, sigma, len(rows))
        below = np.maximum(1, np.round(sizes * mean / sizes.mean())).astype(int)
        rows = [(*row, f"{row[-1]}-{i}") for row, n in zip(rows, below, strict=True) for i in range(n)]
    geo = fn.Hierarchy(LEVELS[:levels], rows)
    domain = fn.Domain(geo=geo, sex=fn.Ordered(0, 1), age=fn.Ordered(0, 17), race=fn.Ordered(0, 6))
    person_attributes = ("age", "race", "sex")
    tables = [
        fn.table(*person_attributes, margin=300),
        fn.table("state", *person_attributes, margin=100),
        fn.table("county", margin=30),
    ]
    tables += [fn.table("county", "age", "sex", margin=60), fn.table("county", "race", margin=50)]
    if levels > 2:
        tables += [
            fn.table("tract", margin=60),
            fn.table("tract", "sex", margin=60),
            fn.table("tract", "race", margin=80),
        ]
        tables += [fn.table("tract", *both, margin=90)]
    if levels > 3:
        tables += [fn.table("group", margin=60), fn.table("group", "race", margin=120)]
    source = fn.DataSource(max_records=2**29)
    return fn.Publication(fn.Workload(domain, tables), source=source, **options), geo, rng


def replaced(levels):
    """The plan of the country for records that are replaced: its price, and its distance from the bound."""
    import fitnoise as fn

    publication, geo, _ = country(levels, unit=fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE))
    start = time.process_time()
    plan = fn.plan(publication)
    seconds = f"{time.process_time() - start:.1f}"
    return {
        "leaves": f"{geo.size:,}",
        "mechanism": plan.order.mechanism,
        "rho": f"{plan.rho:.7f}",
        "gap": f"{plan.gap:.2%}",
        "s": seconds,
    }


def national(levels, people, both=("age", "sex")):
    """Counts of the country, from targets to a release that verifies.

    both: what tracts show together.
    """
    import tempfile

    import numpy as np
    import pandas as pd

    import fitnoise as fn

    stages = Stages()
    publication, geo, rng = country(levels, both)
    domain, level_names, leaves = publication.workload.domain, LEVELS[:levels], geo.size
    plan = fn.plan(publication)
    stages.done("planned")
    size = len(plan.to_json())
    cells = {"geo": rng.integers(0, leaves, people), "sex": rng.integers(0, 2, people)}
    cells |= {"age": rng.integers(0, 18, people), "race": rng.integers(0, 7, people)}
    data = pd.DataFrame(cells | {"geo": np.array(geo.values, dtype=object)[cells["geo"]]})
    with tempfile.TemporaryDirectory() as folder:
        stages.begin()
        fn.release(plan, data, ledger=f"{folder}/ledger.db", directory=f"{folder}/out")
        stages.done("released")
        if not all(check.holds for check in fn.verify(f"{folder}/out").checks):
            raise SystemExit("a release does not hold")
        stages.done("verified")
        release = fn.Release.read(f"{folder}/out")
    release.count()
    stages.begin()
    leaf = level_names[-1]
    cut = np.split(np.array(domain[leaf].values, dtype=object), np.sort(rng.choice(leaves - 1, 434, replace=False) + 1))
    districts = {f"district {i}": list(members) for i, members in enumerate(cut)}
    group_by = () if leaf == "group" else ("sex",)
    _ = release.count(area=districts, by=group_by).std_error
    stages.done("435 districts")
    size = {"plan MB": f"{size / 1e6:.1f}", "noisy numbers": f"{plan.table_part.noisy_answers:,}"}
    description = {"leaves": f"{leaves:,}", "tracts by": " by ".join(both), "mechanism": plan.order.mechanism}
    return description | {"rho": f"{plan.rho:.7f}", "gap": f"{plan.gap:.2%}"} | size | stages.seconds | stages.peaks


def redistricting(path):
    """Counts for redistricting of one county, by tract, block group and block, from a file of the Census Bureau's PPMF.

    Places are those somebody lives in, which a publication takes from the published geography instead.
    """
    import tempfile

    import pandas as pd

    import fitnoise as fn

    columns = {"TABTRACT": "tract", "TABBLKGRP": "group", "TABBLK": "block", "VOTING_AGE": "adult"}
    columns |= {"CENHISP": "hispanic", "CENRACE": "race"}
    data = pd.read_csv(path, dtype=str)[list(columns)].rename(columns=columns)
    for above, below in (("tract", "group"), ("group", "block")):
        data[below] = data[above] + "-" + data[below]
    level_names = ["tract", "group", "block"]
    rows = sorted(set(data[level_names].itertuples(index=False, name=None)))
    data = data.drop(columns=level_names[:2]).astype({"adult": int, "hispanic": int, "race": int})
    stages = Stages()
    geo = fn.Hierarchy(level_names, rows, column="block")
    both = {"adult": fn.Ordered(1, 2), "hispanic": fn.Ordered(1, 2)}
    domain = fn.Domain(geo=geo, **both, race=fn.Ordered(1, 63))
    tables = [fn.table("adult", "hispanic", "race", margin=20)]
    tables += [fn.table("tract", "adult", "hispanic", margin=20), fn.table("tract", "race", margin=30)]
    tables += [fn.table("group", "adult", "hispanic", margin=30), fn.table("group", "race", margin=60)]
    tables += [fn.table("block", margin=30), fn.table("block", "adult", margin=40)]
    plan = fn.plan(fn.Publication(fn.Workload(domain, tables), source=fn.DataSource(max_records=2**20)))
    stages.done("planned")
    with tempfile.TemporaryDirectory() as folder:
        fn.release(plan, data, ledger=f"{folder}/ledger.db", directory=f"{folder}/out")
        stages.done("released")
        if not all(check.holds for check in fn.verify(f"{folder}/out").checks):
            raise SystemExit("a release does not hold")
        stages.done("verified")
    size = {
        "persons": f"{len(data):,}",
        "blocks": f"{len(rows):,}",
        "noisy numbers": f"{plan.table_part.noisy_answers:,}",
    }
    return size | {"rho": f"{plan.rho:.5f}", "gap": f"{plan.gap:.2%}"} | stages.seconds | stages.peaks


PEOPLE = 1_000_000

CASES = [
    *(("regular", (b,)) for b in REGULAR),
    *(("regular", (b, "numbers")) for b in NUMBERS),
    ("uneven", (SMALL, JOINT)),
    *(("uneven", (name, how)) for name in UNEVEN for how in (BY_LEVEL, SEPARATE)),
    *(("national", (levels, PEOPLE)) for levels in (2, 3, 4)),
    ("national", (3, PEOPLE, ("age", "race"))),
    *(("replaced", (levels,)) for levels in (2, 3, 4)),
]


def run(which, arguments):
    """One line, from a process of its own."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, which, json.dumps(arguments)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)  # noqa: S603


def main(names):
    last = None
    tables = {which for which, _ in CASES}.intersection(names)
    files = [("redistricting", (path,)) for path in names if path not in tables]
    for which, arguments in [*(case for case in CASES if not names or case[0] in tables or files), *files]:
        line = run(which, arguments)
        if which != last:
            print("\n|", " | ".join(line), "|\n|", "---|" * len(line), sep="")
        print("|", " | ".join(map(str, line.values())), "|", flush=True)
        last = which


if __name__ == "__main__":
    makes = {f.__name__: f for f in (regular, uneven, national, replaced, redistricting)}
    if len(sys.argv) > 2 and sys.argv[1] in makes:
        print(json.dumps(makes[sys.argv[1]](*json.loads(sys.argv[2]))))
    else:
        main(sys.argv[1:])
