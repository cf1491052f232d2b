"""Stored plans and releases: integers, noisy answers and tables that later code must read with the same numbers.

The files are in the format of today. When a format changes, rewrite the keys of the plans in `data/stored/plans`. Then
start `PYTHONPATH=src python tests/stored.py`. It writes the releases again, from the stored integers and noisy answers,
and updates the hashes in `expected.json`. All numbers must stay: `git diff` shows no change in a CSV file.

Nothing in the samples is about anyone: their records are random numbers.
"""

import hashlib
import json
import shutil
from pathlib import Path

import fitnoise as fn
from fitnoise.reading import release as reading
from fitnoise.reading.description import EntryReference

STORED = Path(__file__).parent / "data" / "stored"
PLANS = sorted((STORED / "plans").iterdir())
RELEASES = sorted((STORED / "releases").iterdir())


def rewrite_release(folder: Path, text: str) -> None:
    """Write a release again for the text of its plan, with the noisy answers and the files that it has."""
    plan = fn.Plan.from_json(text)
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    table_names = None if document["written"] == "all" else document["written"]
    entry = EntryReference(1, hashlib.sha256(folder.name.encode()).hexdigest())
    answers = reading._read_answers(plan, folder) if plan.groups else []
    outputs = reading._read_outputs(plan, folder) if plan.questions else ()
    histograms = reading._read_histograms(plan, folder)
    release = fn.Release(plan, answers, outputs=outputs, histograms=histograms, entry=entry)
    shutil.rmtree(folder)
    release.write(folder, tables=table_names)


def main() -> None:
    expected = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))
    for path in PLANS:
        text = path.read_bytes().decode()
        expected["plans"][path.stem]["hash"] = fn.Plan.from_json(text).hash
    for folder in RELEASES:
        rewrite_release(folder, (STORED / "plans" / f"{folder.name}.json").read_bytes().decode())
    (STORED / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
