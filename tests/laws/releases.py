"""Releases for tests, measured, by command, or without a measurement."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np

import fitnoise as fn
from fitnoise.interfaces.cli import main
from fitnoise.kernel import measure as measuring
from laws.counting import counter_of_counts


def measured(plan, counts, noise):
    with fn.Ledger(":memory:") as ledger:
        counter = counter_of_counts(counts, plan.publication.workload.domain)
        return measuring.measure(plan.order, counter, ledger, noise=noise)


def by_command(*command):
    """Run the command line with any exit code."""
    with contextlib.suppress(SystemExit):
        main(command)


def released(plan, data, **options):
    """A release charged to a ledger that is forgotten afterwards: for tests only."""
    with tempfile.TemporaryDirectory() as folder:
        return fn.release(plan, data, ledger=Path(folder) / "ledger.db", **options)


def answered(plan, number=0):
    """Return a release with arbitrary answers, without a measurement."""
    outputs = [min(number, q.mechanism.outputs - 1) for q in plan.questions]
    return fn.Release(plan, [np.full(n, number) for p in plan.groups for n in p.strategy.lengths], outputs=outputs)
