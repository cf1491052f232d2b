"""Errors of the released numbers of a small database on public histograms, simulated without data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.mechanisms.projection import simulation as small
from fitnoise.mechanisms.projection.row_space_view import RowSpaceView
from fitnoise.mechanisms.tables import TablePart
from fitnoise.mechanisms.variances import rows_of
from fitnoise.solving.ky_fan import KyFanDesign, KyFanStatus

NOISES_PER_HISTOGRAM = 8
"""Noises for each public histogram in the simulation of the errors of single numbers."""


@final
@dataclass(frozen=True, eq=False)
class SimulatedErrors:
    """Root mean squared errors of released numbers on public histograms, in people, by table row.

    worst: The largest error over the kinds of histograms, for each of the M distinct rows of all tables, (M,).
    mean: The root of the mean square over these kinds, for each of these rows, (M,).
    """

    worst: Floats
    mean: Floats


# Every table of a release asks for these errors. Parts are compared by identity.
@lru_cache(maxsize=4)
def simulated_errors(part: TablePart) -> SimulatedErrors:
    """Return the error of each released number of a small database on public histograms: a guide, and no guarantee.

    Noise and estimate are those of the plan. The databases are public ones of n records, from flat to spiked. A real
    database may differ from all of them. The unbiased answers have standard errors that hold for every database.

    **Guarantees**
        * The function reads no data. With one version of NumPy and SciPy it returns the same numbers every time.
    """
    view = RowSpaceView(part)
    database, setting = view.small, view.setting
    # The noise of the integers in the plan, not that of the design before rounding.
    basis, s, _ = np.linalg.svd(view.noise_factor)
    rank = len(s)
    design = KyFanDesign(
        index=setting.index,
        rank=rank,
        weights=part.evidence.cells,
        # The simulation reads the basis and the variances only.
        spikes=0,
        variances=s**2,
        basis=basis,
        value=part.objective_value,
        bound=part.bound,
        evaluations=0,
        status=KyFanStatus.CONVERGED,
    )
    samples = small.error_samples(
        view.space.rows,
        design,
        size=database.size,
        # The factor of the noise has its scale in it.
        multiplier=1.0,
        temperature=setting.temperature,
        region=database.region,
        repeats=NOISES_PER_HISTOGRAM,
        head=view.head,
    )
    # The inverse maps row space to the basis of the queries.
    inverse = np.linalg.inv(view.space.triangle)
    squares = [rows_of(part.decomposition, (x @ inverse.T / math.sqrt(len(x))).T) for x in samples.values()]
    return SimulatedErrors(np.sqrt(np.max(squares, axis=0)), np.sqrt(np.mean(squares, axis=0)))
