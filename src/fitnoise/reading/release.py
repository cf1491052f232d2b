"""Releases: tables with an error bar on every number, on disk and in memory.

A release directory holds

    release.json           what was published, by which mechanism, at which price, with which noise
    finite.csv, .parquet   answers to questions with finitely many results, where there are any; what was drawn for each
    plan.json              the whole plan, to be checked by anyone
    measurements.parquet   the noisy answers, from which every table is rebuilt
    tables/NAME.csv, .parquet   columns: the table's attributes, value, std_error, moe; of all tables, or those chosen
    histogram.csv, .parquet     of small databases: a synthetic histogram, of which the biased values are the tables

Of a small database the columns of tables are biased_value and simulated_rmse, and beside them unbiased_value, std_error
and moe, of the same measurement. The simulated error is that on public histograms; no standard error belongs to it.

Nothing in it depends on the data but the noisy answers. It is written beside its place and moved there whole. Before
anything is charged it is written once with zeros: what cannot be rebuilt or written is found out while that is free.

(A little longer than other rooms: what a release says and how it reaches the disk belong together.)
"""

from __future__ import annotations

import hashlib
import math
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, final

import duckdb
import numpy as np
import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.kernel.domain import plain
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.priors import uniform
from fitnoise.mechanisms.laplace import laplace_sums
from fitnoise.mechanisms.laplace.estimate import PureEstimation
from fitnoise.mechanisms.projection.planning import SimulatedErrors, simulated_errors
from fitnoise.planning.plan import Plan
from fitnoise.reading import tables as reconstruct
from fitnoise.reading.description import describe
from fitnoise.reading.files import (
    DECIMALS,
    _column,
    _field,
    _reason,
    _sync,
    _write,
    csv_text,
    engine,
    label_frame,
    metadata_of,
    read_parquet,
    read_text,
    staged,
    to_json,
    write_parquet,
)
from fitnoise.request.targets import z_score
from fitnoise.request.workloads import slug, some
from fitnoise.request.workloads import table as ask

MEASUREMENTS = "measurements.parquet"

OUTPUTS, ANSWERS = "finite.parquet", "finite.csv"
"""What was drawn for finite questions, and the answers that this says."""

HISTOGRAM = "histogram"
"""Files of the synthetic histogram of a small database."""

GAP = 1e-5
"""Gap up to which a histogram counts as the best, as part of its squared distance from the noisy answers; and of 1e-5
of their own squared length."""

MAX_FILES = 5_000
"""Tables written as files without being named one by one."""


@final
@dataclass(frozen=True)
class Estimate:
    """A number computed from a release, with its error: value ± moe at `confidence`."""

    value: float
    std_error: float
    moe: float
    confidence: float


@final
@dataclass(frozen=True)
class FiniteAnswer:
    """The published answer to a question with finitely many results.

    value: the answer: a number, several as a tuple, or a label. output: which output was drawn, from 0.
    moe: whatever the true answer is, with a probability of `confidence` or more every part of `value` is within this of
        it; None where results are no numbers.
    hit_rate: the probability of having published the true answer, on average over the question's prior.
    """

    name: str
    value: Any
    moe: float | None
    confidence: float
    hit_rate: float
    output: int

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts of the answer: one, or one for each of several counts."""
        return self.value if isinstance(self.value, tuple) else (self.value,)


class Charge(Protocol):
    """What a ledger says of the charge of a release: as much of its entry as one can ask for without the ledger."""

    @property
    def sequence(self) -> int:
        """The number of the entry, from 1."""

    @property
    def rho(self) -> Fraction:
        """What was charged, exactly."""

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε that was charged; None of a charge of ρ alone."""

    @property
    def time(self) -> str:
        """When, in UTC."""

    @property
    def digest(self) -> str:
        """SHA-256 of the entry, which holds that of the one before."""


@final
class Release(Mapping[str, pd.DataFrame]):
    """Consistent tables by name, and answers to further linear questions about them.

    Args:
        plan: the plan that was measured.
        answers: its noisy answers, per sector.
        charge: the ledger's entry, when this release was just made.
        outputs: what was drawn for each question with finitely many answers.
        histogram: of a small database, as it was released; None computes it from the answers.

    **Guarantees**
        * each value is an unbiased estimate (and may therefore be negative or not whole); of a small database each
          `unbiased_value` is, and the biased ones are counts of one nonnegative histogram;
        * `std_error` is exact for Gaussian noise of the stated scales, and at least the discrete noise's own;
        * of a pure plan `moe` comes from the exact distribution of sums of Laplace noise, and is never too small;
        * any two tables agree on what they share, up to floating point;
        * `read` of a directory equals the release that `write` wrote there: same plan, same noisy answers.
    """

    def __init__(
        self,
        plan: Plan,
        answers: Sequence[Exact],
        charge: Charge | None = None,
        outputs: Sequence[int] = (),
        histogram: Floats | None = None,
    ) -> None:
        self.plan = plan
        self.answers = tuple(answers)
        self.charge = charge
        self.outputs = tuple(outputs)
        self._histogram = histogram
        counts = [m.outputs for m in plan.finite]
        if len(counts) != len(self.outputs) or not all(0 <= o < n for o, n in zip(self.outputs, counts, strict=True)):
            raise ReleaseError("the outputs drawn are not those of the plan's finite questions.")

    @cached_property
    def _rebuilt(self) -> reconstruct.Rebuilt:
        return reconstruct.Rebuilt(self.plan, self.answers)

    @cached_property
    def projected(self) -> reconstruct.Projected:
        """Of a small database, the tables of its synthetic histogram; ReleaseError of others."""
        return reconstruct.Projected(self.plan, self.answers, self._histogram)

    @cached_property
    def simulated(self) -> SimulatedErrors:
        """Of a small database, the simulated errors of its biased values, by table row."""
        return simulated_errors(self.plan)

    @property
    def histogram(self) -> pd.DataFrame:
        """Of a small database, its synthetic records: a nonnegative number for every joint cell of what tables show.

        Raises:
            ReleaseError: the release is of no small database.
        """
        counts = self.projected.histogram
        if self.plan.head is not None:
            raise ReleaseError("the variant of the paper has answers that are those of no histogram.")
        frame = _cells(self.plan)
        frame["synthetic_records"] = counts
        return frame

    def __getitem__(self, name: str) -> pd.DataFrame:
        known = self.plan.publication.workload.tables
        if name not in known.numbered:
            raise KeyError(f"no table {name!r}; the release has {some(known.names)}")
        biased = None if self.plan.setting is None else self.projected.table(name)
        return self._frame(name, self._rebuilt.table(name), biased)

    def _frame(self, name: str, values: Floats, biased: Floats | None = None) -> pd.DataFrame:
        workload = self.plan.publication.workload
        table = workload[name]
        std_error = np.sqrt(self.plan.table_variances(name)).ravel()
        frame = label_frame(table.labels(workload.domain))
        if biased is not None:
            layout = self.plan.decomposition.layout(workload.number(name))
            errors = self.simulated.worst[layout.rows].reshape(layout.inner_shape).transpose(layout.transpose)
            frame["biased_value"] = biased.ravel()
            frame["simulated_rmse"] = errors.ravel()
        frame["value" if biased is None else "unbiased_value"] = values.ravel()
        frame["std_error"] = std_error
        frame["moe"] = self.plan.table_margins(name).ravel()
        return frame

    def frames(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """All tables, by name, rebuilt many at a time; not in the order of the workload."""
        names = self.plan.publication.workload.tables.names
        if self.plan.setting is not None:
            yield from ((name, self[name]) for name in names)
            return
        for which, stack in self._rebuilt.stacks():
            for t, values in zip(which.tolist(), stack, strict=True):
                yield names[t], self._frame(names[t], values)

    def __contains__(self, name: object) -> bool:
        return name in self.plan.publication.workload.tables.numbered

    def __iter__(self) -> Iterator[str]:
        return iter(self.plan.publication.workload.tables.names)

    def __len__(self) -> int:
        return len(self.plan.publication.workload.tables)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        mine, theirs = (np.concatenate([y.astype(object) for y in x.answers]) for x in (self, other))
        same = self.plan.hash == other.plan.hash and self.outputs == other.outputs
        return same and bool(np.array_equal(mine, theirs))

    def __hash__(self) -> int:
        return hash(self.plan.hash)

    def __repr__(self) -> str:
        return f"<Release of {len(self)} tables, rho = {self.plan.rho:.6g}: {some(list(self))}>"

    @cached_property
    def finite(self) -> Mapping[str, FiniteAnswer]:
        """The answers to questions with finitely many results, by name."""
        return {
            s.name: FiniteAnswer(s.name, _plain_label(m.read(o)), s.moe, s.confidence, s.hit_rate, o)
            for s, m, o in zip(self.plan.finite_summaries, self.plan.finite, self.outputs, strict=True)
        }

    def posterior(self, name: str, prior: Sequence[float] | None = None) -> pd.DataFrame:
        """What the answer to a finite question tells a reader: the probability of every true answer, given it.

        Args:
            name: of the question.
            prior: what the reader believed before, one number for every result; default the question's own.

        Returns:
            Columns `result` and `probability`, in the order of the results.

        Raises:
            ReleaseError: there is no such question. WorkloadError: the prior is none.
        """
        names = [q.name for q in self.plan.publication.finite]
        if name not in names:
            raise ReleaseError(f"no question {name!r}; the release answers {some(names) if names else 'none'}.")
        i = names.index(name)
        mechanism, own = self.plan.finite[i], self.plan.publication.finite[i].prior
        believed = prior if prior is not None else own if own is not None else uniform(mechanism.graph)
        chances = accuracy(mechanism).posterior(believed, self.outputs[i])
        return pd.DataFrame({"result": [_plain_label(x) for x in mechanism.graph.results], "probability": chances})

    def estimate(self, combination: Mapping[str, Floats], confidence: float | None = None) -> Estimate:
        """Any linear combination of published numbers, across tables, with its exact error.

        Args:
            combination: for some tables, one coefficient per number, in the table's shape.
            confidence: of the margin; default the workload's.

        Raises:
            ReleaseError: an unknown table or coefficients of another shape.
        """
        gamma = self.plan.publication.workload.confidence if confidence is None else confidence
        variance = reconstruct.covariance(self.plan, combination, combination)
        value = math.fsum((np.asarray(c) * self._rebuilt.table(name)).sum() for name, c in combination.items())
        std_error = math.sqrt(max(variance, 0.0))
        moe = z_score(gamma) * std_error
        if isinstance(self.plan.estimation, PureEstimation):
            parts = self.plan.estimation.noise_coefficients(reconstruct.pulled(self.plan, combination))
            values, counts = np.unique(np.abs(parts), return_counts=True)
            scale = self.plan.estimation.strategy.scale
            moe = float(laplace_sums.half_width(values[None], scale, gamma, counts.astype(np.float64))[0])
        return Estimate(value, std_error, moe, gamma)

    def sum(
        self, table: str, where: Mapping[str, Any] | None = None, /, *, confidence: float | None = None, **columns: Any
    ) -> Estimate:
        """The sum of a table's numbers over chosen rows, with its exact error.

        Rows of a column shown as "at most", ranges or overlapping groups count the same records more than once: choose
        one of them.

        Args:
            table: its name.
            where: for some columns, a label or several labels as shown in the table; others are summed over.
            confidence: of the margin; default the workload's.
            columns: the same as `where`, for columns whose names are Python identifiers.

        Raises:
            ReleaseError: an unknown table, column or label.

        Example:
            `release.sum("state by wages", state=["Ohio", "Iowa"], wages="200,000 or more")`
        """
        workload = self.plan.publication.workload
        if table not in self:
            raise ReleaseError(f"no table {table!r}; the release has {some(list(self))}.")
        labels = workload[table].labels(workload.domain)
        asked = {**(where or {}), **columns}
        for column in asked:
            if column not in labels:
                raise ReleaseError(f"table {table!r} has no column {column!r}; it has {list(labels)}.")
        coefficients = np.ones(())
        for column, shown in labels.items():
            chosen = _choose(shown, asked[column]) if column in asked else np.ones(len(shown))
            coefficients = np.multiply.outer(coefficients, chosen)
        return self.estimate({table: coefficients}, confidence)

    # --- on disk ------------------------------------------------------------------------------------

    def write(self, directory: str | os.PathLike[str], *, tables: Iterable[str] | None = None) -> Path:
        """Write the release directory, whole or not at all.

        Args:
            directory: where; it must not exist, or be empty.
            tables: names of those to write as files; None writes all. The others can be rebuilt at any time.

        Raises:
            ReleaseError: the directory exists and is not empty, or cannot be written; or too many tables for files.
        """
        written = to_write(self.plan, tables)
        with staged(Path(directory)) as stage:
            self._fill(stage, written)
        return Path(directory)

    def _fill(self, stage: Path, written: Sequence[str]) -> None:
        try:
            tables = stage / "tables"
            tables.mkdir(exist_ok=True)
            _write(stage / "plan.json", self.plan.to_json())
            _write(stage / "release.json", to_json(describe(self.plan, written)))
            with engine() as files:
                digest = answers_digest(self.answers)
                write_parquet(files, self._measurements(), stage / MEASUREMENTS, sha256=digest)
                if has_histogram(self.plan):
                    cells = self.histogram
                    write_parquet(files, cells, stage / f"{HISTOGRAM}.parquet")
                    _write(stage / f"{HISTOGRAM}.csv", csv_text(cells))
                if self.outputs:
                    write_parquet(files, self._drawn(), stage / OUTPUTS, sha256=outputs_digest(self.outputs))
                    _write(stage / ANSWERS, finite_csv(self))
                every = len(written) == len(self)
                for name, frame in self.frames() if every else ((name, self[name]) for name in written):
                    _write(tables / f"{slug(name)}.csv", csv_text(frame))
                    write_parquet(files, frame, tables / f"{slug(name)}.parquet")
            _sync(tables)
            _sync(stage)
        except (OSError, duckdb.Error, UnicodeError) as error:
            raise ReleaseError(f"the release cannot be written ({_reason(error)}); nothing is left of it.") from None

    def _drawn(self) -> pd.DataFrame:
        names = [q.name for q in self.plan.publication.finite]
        return pd.DataFrame(
            {"question": np.array(names, dtype=object), "output": np.array(self.outputs, dtype=np.int64)}
        )

    def _measurements(self) -> pd.DataFrame:
        sector, row = _places(self.plan)
        return pd.DataFrame({"sector": sector, "row": row, "answer": _column(self.answers)})

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> Self:
        """Read a release directory; the tables are rebuilt from the noisy answers.

        Raises:
            ReleaseError: it is not a release, or incomplete, or its noisy answers were altered.
            PlanError: its plan is damaged.
        """
        folder = Path(directory)
        plan = Plan.from_json(read_text(folder / "plan.json"))
        with engine() as files:
            frame = read_parquet(files, folder / MEASUREMENTS)
            words = metadata_of(files, folder / MEASUREMENTS)
        sector, row = _places(plan)
        if list(frame.columns) != ["sector", "row", "answer"] or not frame[["sector", "row"]].equals(
            pd.DataFrame({"sector": sector, "row": row})
        ):
            raise ReleaseError("the noisy answers are not those of this plan.")
        given = frame["answer"].to_numpy()
        try:
            numbers = given.copy() if given.dtype == np.int64 else np.array([int(x) for x in given], dtype=object)
        except (TypeError, ValueError):
            raise ReleaseError("a noisy answer is not a whole number.") from None
        answers = np.split(numbers, np.cumsum(plan.strategy.lengths)[:-1])
        written = _column(answers)
        same = written.dtype == given.dtype and np.array_equal(written, given)
        if not same or words != {"sha256": answers_digest(answers)}:
            raise ReleaseError("the noisy answers were altered after they were written.")
        outputs = _read_outputs(plan, folder) if plan.finite else ()
        return cls(plan, answers, outputs=outputs, histogram=_read_histogram(plan, folder))


def has_histogram(plan: Plan) -> bool:
    """Whether a release has a synthetic histogram: of a small database, but not of the paper's variant."""
    return plan.setting is not None and plan.head is None


def _cells(plan: Plan) -> pd.DataFrame:
    """The joint cells that a small database is looked at in, a row each."""
    return label_frame(ask(*plan.decomposition.structured, variance=1.0).labels(plan.publication.workload.domain))


def _read_histogram(plan: Plan, folder: Path) -> Floats | None:
    """The synthetic histogram of a small database, as it was written."""
    if not has_histogram(plan):
        return None
    with engine() as files:
        frame = read_parquet(files, folder / f"{HISTOGRAM}.parquet")
    counts = frame.get("synthetic_records")
    if counts is None or counts.dtype != np.float64 or not frame.drop(columns="synthetic_records").equals(_cells(plan)):
        raise ReleaseError("the histogram is not one of this plan's cells.")
    return counts.to_numpy()


def _read_outputs(plan: Plan, folder: Path) -> tuple[int, ...]:
    with engine() as files:
        frame = read_parquet(files, folder / OUTPUTS)
        words = metadata_of(files, folder / OUTPUTS)
    names = [q.name for q in plan.publication.finite]
    if list(frame.columns) != ["question", "output"] or frame["question"].tolist() != names:
        raise ReleaseError("the finite answers are not those of this plan.")
    outputs = tuple(frame["output"].tolist())
    if frame["output"].dtype != np.int64 or words != {"sha256": outputs_digest(outputs)}:
        raise ReleaseError("the finite answers were altered after they were written.")
    return outputs


def to_write(plan: Plan, tables: Iterable[str] | None) -> tuple[str, ...]:
    """The names of the tables that get files, in the workload's order.

    Raises:
        ReleaseError: an unknown table, a table twice, or more tables than files make sense for.
    """
    known = plan.publication.workload.tables
    if tables is None:
        if len(known) > MAX_FILES:
            raise ReleaseError(
                f"{len(known):,} tables would be written as two files each; at most {MAX_FILES:,} are. Name the tables "
                "to write, or none: each can be rebuilt from the release at any time."
            )
        return tuple(known.names)
    given = [tables] if isinstance(tables, str) else list(tables)
    for name in given:
        if name not in known.numbered:
            raise ReleaseError(f"no table {name!r} to write; the release has {some(known.names)}.")
    if len(set(given)) != len(given):
        raise ReleaseError("a table to write is named twice.")
    return tuple(sorted(given, key=known.numbered.__getitem__))


def _choose(shown: Sequence[str | int], wanted: Any) -> Floats:
    """1 at the labels wanted, 0 elsewhere; true is not 1."""
    several = isinstance(wanted, Iterable) and not isinstance(wanted, str)
    chosen = np.zeros(len(shown))
    for label in wanted if several else [wanted]:
        truth = isinstance(label, (bool, np.bool_))
        places = [i for i, x in enumerate(shown) if isinstance(x, bool) == truth and x == label]
        if not places:
            raise ReleaseError(f"no row is labelled {label!r}; there are {reprlib.repr(list(shown))}.")
        chosen[places] = 1
    return chosen


# --- files ----------------------------------------------------------------------------------------------


def answers_digest(answers: Iterable[Exact]) -> str:
    """SHA-256 of the noisy answers in decimals, a line each: the tables alone would barely show an altered digit."""
    digest, first = hashlib.sha256(), True
    for y in answers:
        for i in range(0, len(y), 2**16):
            text = "\n".join(map(str, y[i : i + 2**16].tolist()))
            digest.update((text if first else "\n" + text).encode("ascii"))
            first = False
    return digest.hexdigest()


def outputs_digest(outputs: Iterable[int]) -> str:
    """SHA-256 of what was drawn for finite questions, in decimals, a line each."""
    return hashlib.sha256("\n".join(map(str, outputs)).encode("ascii")).hexdigest()


def finite_csv(release: Release) -> str:
    """The answers to finite questions as CSV, a line for every part: question, part, value, moe, hit_rate."""
    rows = [["question", "part", "value", "moe", "hit_rate"]]
    for a in release.finite.values():
        moe = "" if a.moe is None else f"{a.moe:.15g}"
        rows += [
            [_field(a.name), str(i), _field(v), moe, f"{a.hit_rate:.{DECIMALS}f}"] for i, v in enumerate(a.parts, 1)
        ]
    return "".join(",".join(row) + "\n" for row in rows)


def _plain_label(label: Any) -> Any:
    """NumPy scalars in labels as plain values."""
    return tuple(plain(x) for x in label) if isinstance(label, tuple) else plain(label)


def _places(plan: Plan) -> tuple[Exact, Exact]:
    """Number of the sector, or measured margin, and of the row in it, for every noisy answer."""
    sizes = plan.strategy.portions
    starts = np.cumsum(sizes) - sizes
    return np.repeat(np.arange(len(sizes)), sizes), np.arange(sizes.sum()) - np.repeat(starts, sizes)
