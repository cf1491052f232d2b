"""A reader of a release needs nothing that can measure: no counter, no ledger, no noise."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.planning import files
from fitnoise.reading.release_files import csv_text
from laws.releases import released
from refused import refused
from tolerances import EXACT

DOMAIN = fn.Domain(state=fn.Categorical(["CA", "NY", "TX"]), kids=fn.Ordered(0, 3))
WORKLOAD = fn.Workload(
    DOMAIN, [fn.table("state", cumulative="kids", margin=6), fn.table("state", margin=4, name="states")]
)
COUNTS = np.arange(12).reshape(3, 4)
PEOPLE = int(COUNTS.sum())
KINDS = {
    "gaussian": {
        "questions": [
            fn.FiniteQuery.median("median", "kids", people=PEOPLE, epsilon=1),
            fn.FiniteQuery.median("usual", "kids", people=PEOPLE, epsilon=1, prior=(0.25,) * 4),
        ]
    },
    "pure": {"privacy": "pure"},
    "small": {
        "small_database": fn.SmallDatabase(PEOPLE, index=1, temperature=0),
        "budget": fn.Budget(epsilon=1, delta=1e-6),
    },
}

READER = """
import json, sys

WALLS = [f"fitnoise.kernel.{room}" for room in ("counting", "ledger", "measure", "noise", "series")]

class Wall:
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{wall}.") for wall in (*WALLS, "fitnoise.publishing", "opendp")):
            raise ImportError(f"a reader imports {name}")

sys.meta_path.insert(0, Wall())

import fitnoise as fn
from fitnoise.messages import english
from fitnoise.reading.release_files import csv_text
from fitnoise.reading.verification import verify

for folder in sys.argv[1:]:
    release = fn.Release.read(folder)
    total = release.sum("states", state=["CA", "TX"])
    print(json.dumps({
        "tables": {name: csv_text(release[name]) for name in release},
        "sum": [total.value, total.std_error, total.moe],
        "posteriors": [release.posterior(x)["probability"].tolist() for x, a in release.finite.items() if a.hit_rate],
        "histogram": release.histogram.to_numpy().tolist() if release.plan.table_part.setting else None,
        "failing": [f"{english(c.claim)}: {english(c.finding)}" for c in verify(folder).checks if not c.holds],
        "charge": release.charge,
    }))

for room in WALLS:
    try:
        __import__(room)
    except ImportError as error:
        assert "a reader imports" in str(error)
    else:
        raise AssertionError(room)
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("releases")
    for kind, options in KINDS.items():
        released(fn.plan(WORKLOAD, **options), COUNTS, directory=folder / kind)
    return [folder / kind for kind in KINDS]


@pytest.mark.slow
def test_a_release_is_read_and_verified_where_nothing_can_measure(folders):
    command = [sys.executable, "-c", READER, *map(str, folders)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for folder, line in zip(folders, done.stdout.splitlines(), strict=True):
        described, here = json.loads(line), fn.Release.read(folder)
        assert described["tables"] == {name: csv_text(here[name]) for name in here}
        total = here.sum("states", state=["CA", "TX"])
        assert described["sum"] == pytest.approx([total.value, total.std_error, total.moe], rel=EXACT)
        assert [len(p) for p in described["posteriors"]] == [4] * ("usual" in here.finite)
        assert (described["histogram"] is None) == (folder.name != "small")
        assert described["failing"] == []
        assert described["charge"] is None


def test_whoever_releases_is_given_what_the_ledger_says(tmp_path):
    with fn.Ledger(tmp_path / "ledger.sqlite") as ledger:
        plan = fn.plan(WORKLOAD)
        charge = fn.release(plan, COUNTS, ledger=ledger).charge
        entry, _ = ledger.entries()
    assert charge == entry
    assert (charge.sequence, charge.epsilon) == (1, None)
    assert charge.rho >= plan.loss.rho


# --- files next to releases ----------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="folders cannot be locked here")
def test_a_file_is_replaced_completely_and_remains_of_killed_processes_are_removed(tmp_path, monkeypatch):
    target, dead, living, folder, other = (
        tmp_path / name
        for name in (
            "plan.json", ".plan.json.unfinished-01234567", ".plan.json.unfinished-89abcdef",
            ".plan.json.unfinished-00000000", ".plan.json.unfinished-backup",
        )
    )  # fmt: skip
    folder.mkdir()
    for file in (dead, living, other):
        file.touch()
    lock = files.hold(living)
    files.replace_file(target, b"one")
    os.close(lock)
    assert target.read_bytes() == b"one"
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in (target, living, folder, other)}

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(target), "write_bytes", full)
        with refused("release.place-not-writable"):
            files.replace_file(target, b"two")
    assert target.read_bytes() == b"one"
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in (target, folder, other)}
