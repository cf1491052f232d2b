"""Releases for tests, measured, by command, or without a measurement."""

import contextlib
import json
import math
import tempfile
from pathlib import Path

import numpy as np

import fitnoise as fn
from fitnoise.interfaces.cli import main
from fitnoise.kernel import measure as measuring
from fitnoise.kernel import noise as sampling
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.request.known_totals import parse_totals
from fitnoise.request.views._base import SteppedView
from laws.counting import counter_of_counts


def measured(plan, counts, noise):
    with fn.Ledger(":memory:") as ledger:
        counter = counter_of_counts(counts, plan.publication.workload.domain)
        return measuring.measure(plan.order, counter, ledger, noise=noise)


def by_command(*command):
    """Run the command line with any exit code."""
    with contextlib.suppress(SystemExit):
        main(command)


def output_of_command(capsys, line, code=0):
    """Run a command with --json that ends with an exit code; return its output, or the document of its error."""
    try:
        main([*line.split(), "--json"])
        ended = 0
    except SystemExit as end:
        ended = end.code
    out, err = capsys.readouterr()
    assert ended == code, out + err
    return json.loads(err.splitlines()[-1])["error"] if code else json.loads(out)


def released(plan, data, **options):
    """A release charged to a ledger that is forgotten afterwards: for tests only."""
    with tempfile.TemporaryDirectory() as folder:
        return fn.release(plan, data, ledger=Path(folder) / "ledger.db", **options)


def answered(plan, number=0):
    """Return a release with arbitrary answers, without a measurement."""
    outputs = [min(number, q.mechanism.outputs - 1) for q in plan.questions]
    answers = [np.full(n, number) for p in plan.groups for n in p.strategy.lengths]
    public = plan.publication.public
    totals = None if public is None else parse_totals("number.csv", "number\n100\n", public, plan.publication.domain)
    return fn.Release(plan, answers, outputs=outputs, public_totals=totals)


def drawn_errors(part, *totals, number=10_000):
    """Return the errors of all numbers of a part for draws of the kernel's noise, (draws, numbers), and their margins.

    Args:
        part: A part with Gaussian noise.
        totals: Its public totals, if any, of data without records.
        number: The number of draws.
    """
    names, lengths = part.publication.workload.tables.names, part.strategy.lengths
    units = (np.split(row, np.cumsum(lengths)[:-1]) for row in np.eye(sum(lengths), dtype=np.int64))
    rebuilt = (RebuiltTables(part, x, *totals) for x in units)
    effects = np.stack([np.concatenate([tables.table(name).ravel() for name in names]) for tables in rebuilt])
    scales = np.concatenate([np.repeat(s, n) for s, n in part.strategy.runs])
    draws = sampling.discrete_gaussians(scales, np.full(len(scales), number)).reshape(len(scales), -1).astype(float)
    return draws.T @ effects, np.concatenate([part.table_margins(name).ravel() for name in names])


def check_further_columns(frame, table, domain):
    """In every row are the code of its label, the name of its place and the ends of its bin."""
    for name in table.attributes:
        attribute, view = domain[name], table.view(name)
        endings = [x for x in ("code", "from", "to", "name") if f"{name}_{x}" in frame]
        labels = getattr(attribute, "labels", None)
        if not (view.is_by_value or isinstance(view, SteppedView)):
            assert endings == []
        elif attribute.kind == "level":
            assert endings == (["name"] if attribute.names else [])
            for code, place_name in zip(frame[name], frame.get(f"{name}_name", ()), strict=bool(attribute.names)):
                assert attribute.names[attribute.position(code)] == place_name
        elif attribute.kind == "binned":
            assert endings == ["from", "to"]
            ends = zip(*(frame[f"{name}_{x}"].tolist() for x in endings), strict=True)
            for label, (low, high) in zip(frame[name].tolist(), ends, strict=True):
                cell = attribute.position(label)
                assert math.isnan(low) == (cell == 0 or cell >= attribute.own_size)
                assert math.isnan(high) == (cell >= attribute.own_size - 1)
                assert math.isnan(low) or attribute.cell(low) == cell
                assert math.isnan(high) or attribute.cell(high) == cell + 1
        elif labels is None or [*labels] == [str(x) for x in attribute.codes]:
            assert endings == []
        else:
            assert endings == ["code"]
            codes = [str(x) for x in (*attribute.codes, *attribute.missing_cells)]
            row_codes = frame[f"{name}_code"].map(str)
            values = [str(attribute.values[codes.index(code)]) for code in row_codes]
            assert [str(x) for x in frame[name].tolist()] == values
