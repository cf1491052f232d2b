"""Releases: tables with an error bar on every number, on disk and in memory.

A release directory holds

    release.json           what was published, by which mechanism, at which price, with which noise; which entry of a
                           ledger charged it
    finite.csv, .parquet   answers to questions with finitely many results, where there are any; what was drawn for each
    plan.json              the whole plan, to be checked by anyone
    measurements.parquet   the noisy answers, from which every table is rebuilt
    tables/NAME.csv, .parquet   columns: the table's attributes, value, std_error, moe; of all tables, or those chosen
                                of means: the table's other attributes, value, low, high
    tables/NAME-counts_at_ends.csv, .parquet   of means: the counts of records that the mean is made of
    histogram.csv, .parquet     of small databases: a synthetic histogram, of which the biased values are the tables

Of a small database the columns of tables are biased_value and simulated_rmse, and beside them unbiased_value, std_error
and moe, of the same measurement. The simulated error is that on public histograms; no standard error belongs to it.

In CSV files an apostrophe goes before a label that a spreadsheet would take for a formula, or that begins with one: the
label is what is left without the first. Parquet files hold labels as they are.

Nothing in it depends on the data but the noisy answers. It is written beside its place and moved there whole. Before
anything is charged it is written once with zeros: what cannot be rebuilt or written is found out while that is free.
Its release.json is put there last of all, after the charge: what a killed process leaves is no release.

(A little longer than other rooms: what a release says and how it reaches the disk belong together.)
"""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, cast, final

import numpy as np
import pandas as pd

from fitnoise.errors import DomainError, ReleaseError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.arrays import Exact, Floats, answers_digest
from fitnoise.kernel.codings import plain
from fitnoise.kernel.domain import Attribute, Domain, Hierarchy, Level
from fitnoise.kernel.files import sync_names
from fitnoise.kernel.selections import Selection
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms._base import Biased
from fitnoise.mechanisms.documents import DIGITS, parse
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.priors import uniform
from fitnoise.mechanisms.gaussian.series import parted
from fitnoise.mechanisms.tables import TablePart
from fitnoise.planning.plan import Plan
from fitnoise.reading.answering import Answering
from fitnoise.reading.description import EntryReference, describe, stated, statistic
from fitnoise.reading.estimates import Estimate, added
from fitnoise.reading.files import (
    DECIMALS,
    DESCRIPTION,
    Columns,
    _column,
    _reason,
    _write,
    clear_leftovers,
    csv_pieces,
    extent,
    field,
    label_columns,
    label_frame,
    read_parquet,
    read_text,
    settle,
    staged,
    to_json,
    unfinished,
    write_parquet,
)
from fitnoise.reading.forms import Source
from fitnoise.reading.laws import level
from fitnoise.reading.means import file_labels, mean_columns
from fitnoise.reading.refusals import no_means, repeated_table, unknown_table, unwritable_place
from fitnoise.reporting import Displayed
from fitnoise.request.workloads import EACH, Ranges, Recode, View, Workload, some
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

_UNSUMMED = "Nothing was added up."


@final
@dataclass(frozen=True)
class FiniteAnswer:
    """The published answer to a question with finitely many results.

    Attributes:
        value: the answer: a number, several as a tuple, or a label.
        output: which output was drawn, from 0.
        moe: whatever the true answer is, with a probability of `confidence` or more every part of `value` is
            within this of it; None where results are no numbers.
        hit_rate: the probability of having published the true answer, on average over the question's prior.
        rank_moe: of a median or quantile by ranks, in place of both: with a probability of `confidence` or
            more, `value` has at most this many records too many below it, and at most this many too few at or
            below it.
    """

    name: str
    value: Any
    moe: float | None
    confidence: float
    hit_rate: float | None
    output: int
    rank_moe: float | None = None

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
class Release(Mapping[str, pd.DataFrame], Answering, Displayed):
    """Consistent tables by name, and answers to further linear questions about them.

    Args:
        plan: the plan that was measured.
        answers: the noisy answers of its tables, per group of sectors or measured margin, part after part.
        charge: the ledger's entry, when this release was just made.
        entry: which one it is, of a release that was read; None where that is not known.
        outputs: what was drawn for each question with finitely many answers.
        histograms: of parts for small databases, by place among the plan's parts for tables, as they were released;
            others are computed from the answers.

    **Guarantees**
        * each value is an unbiased estimate (and may therefore be negative or not whole); of a small database each
          `unbiased_value` is, and the biased ones are counts of one nonnegative histogram;
        * `std_error` is exact for Gaussian noise of the stated scales, and at least the discrete noise's own;
        * of a pure plan `moe` comes from the exact distribution of sums of Laplace noise, and is never too small;
        * a table of means has the means, each with the ends of its interval, `low` and `high`; the counts of records
          at the ends of the range, of which it is made, are `counts_at_ends`;
        * any two tables agree on what they share, up to floating point;
        * `read` of a directory equals the release that `write` wrote there: same plan, same noisy answers.
    """

    def __init__(
        self,
        plan: Plan,
        answers: Sequence[Exact],
        charge: Charge | None = None,
        outputs: Sequence[int] = (),
        histograms: Mapping[int, Floats] | None = None,
        entry: EntryReference | None = None,
    ) -> None:
        self.plan = plan
        self.answers = tuple(answers)
        self.charge = charge
        self.entry = entry if charge is None else EntryReference(charge.sequence, charge.digest)
        self.outputs = tuple(outputs)
        self._histograms = dict(histograms or {})
        counts = [m.outputs for m in plan.finite]
        if len(counts) != len(self.outputs) or not all(0 <= o < n for o, n in zip(self.outputs, counts, strict=True)):
            raise ReleaseError(
                "foreign-outputs",
                "The outputs are not those of the plan's finite questions.",
                "A release needs one output for each question, which is one of its mechanism.",
                "Use the plan and the outputs of one release.",
                "No release was made.",
            )

    @cached_property
    def _own(self) -> tuple[tuple[Exact, ...], ...]:
        """The noisy answers of each part for tables."""
        ends = np.cumsum([len(p.estimation.lengths) for p in self.plan.groups]).tolist()
        if ends and ends[-1] != len(self.answers):
            raise rebuilding.answers_of_another_plan()
        return tuple(self.answers[i:j] for i, j in zip([0, *ends], ends, strict=False))

    @cached_property
    def _rebuilt(self) -> tuple[rebuilding.Rebuilt, ...]:
        return tuple(rebuilding.Rebuilt(p, y) for p, y in zip(self.plan.groups, self._own, strict=True))

    @property
    def _sources(self) -> tuple[Source, ...]:
        return self._measured

    @cached_property
    def _measured(self) -> tuple[Source, ...]:
        digest = answers_digest(self.answers)
        return tuple(Source(digest, i, x) for i, x in enumerate(self._rebuilt))

    @cached_property
    def biased(self) -> tuple[Biased | None, ...]:
        """For each part for tables its biased values, of a small database; None of others."""
        pairs = enumerate(zip(self.plan.groups, self._own, strict=True))
        return tuple(p.mechanism.biased(p, y, self._histograms.get(i)) for i, (p, y) in pairs)

    @property
    def histogram(self) -> pd.DataFrame:
        """Of a small database, its synthetic records: a nonnegative number for every joint cell of what tables show.

        Raises:
            ReleaseError: the release is of no small database, or of several.
        """
        frames = [self.synthetic(i) for i in histograms(self.plan)]
        if len(frames) != 1:
            raise ReleaseError(
                "not-one-histogram",
                f"The release has {len(frames)} synthetic histograms.",
                "Each part for a small database has one, except the variant of the paper.",
                "Name the part: release.synthetic(i).",
                "No histogram was made.",
            )
        return frames[0]

    def synthetic(self, i: int) -> pd.DataFrame:
        """The synthetic records of the i-th part for tables, where it is one for a small database.

        Args:
            i: which part, from 0.

        Returns:
            A row for each cell of its attributes, with `synthetic_records`.

        Raises:
            ReleaseError: it is no part for a small database, or keeps no histogram.
        """
        found = self.biased[i]
        if found is None or not found.whole:
            raise ReleaseError(
                "part-without-histogram",
                f"Part {i + 1} of the release has no synthetic histogram.",
                "Each part for a small database has one, except the variant of the paper.",
                "Choose another part.",
                "No histogram was made.",
            )
        frame = label_frame(cell_labels(self.plan.groups[i]))
        frame["synthetic_records"] = found.histogram
        return frame

    def __getitem__(self, name: str) -> pd.DataFrame:
        i = self._part(name)
        if i is None:
            raise KeyError(f"no table {name!r}; the release has {some(list(self))}")
        number = self.plan.groups[i].publication.workload.number(name)
        return self._framed(name, self._mean(i, number) or self._table(i, name, self._rebuilt[i].table(name)))

    def counts_at_ends(self, name: str) -> pd.DataFrame:
        """Return what a table of means is made of: how many records at each end of the range make the same mean.

        Args:
            name: The table of means.

        Returns:
            Columns: the table's attributes, value, std_error, moe; of the amount the two ends of its range.

        Raises:
            ReleaseError: There is no such table, or it is not of means.
        """
        i = self._part(name)
        if i is None or self.plan.group(name).publication.workload[name].averaged is None:
            raise no_means(name)
        return pd.DataFrame(self._table(i, name, self._rebuilt[i].table(name)))

    def _framed(self, name: str, columns: Columns) -> pd.DataFrame:
        """Return a table as a frame, whose `attrs` say what its numbers and intervals are of."""
        frame, workload = pd.DataFrame(columns), self.plan.group(name).publication.workload
        asked = workload[name]
        frame.attrs = {
            "statistic": statistic(asked, workload.domain),
            "confidence": asked.target.level(workload.confidence),
            "universe": stated(self.plan, asked),
        }
        return frame

    def _mean(self, i: int, number: int) -> Columns | None:
        """Return a table of means as columns, by its part and its place there; None of another table."""
        source = self._sources[i]
        table = source.part.publication.workload.tables[number]
        return None if table.averaged is None else mean_columns(source, number)

    def _part(self, name: object) -> int | None:
        """The place of the part for tables that has a table."""
        places = (i for i, p in enumerate(self.plan.groups) if name in p.publication.workload.tables.numbered)
        return next(places, None)

    def _table(self, i: int, name: str, values: Floats) -> Columns:
        part, biased = self.plan.groups[i], self.biased[i]
        workload = part.publication.workload
        found = label_columns(workload[name].labels(workload.domain))
        if biased is not None:
            layout = part.decomposition.layout(workload.number(name))
            errors = biased.simulated.worst[layout.rows].reshape(layout.inner_shape).transpose(layout.transpose)
            found["biased_value"] = biased.table(name).ravel()
            found["simulated_rmse"] = errors.ravel()
        found["value" if biased is None else "unbiased_value"] = values.ravel()
        found["std_error"] = np.sqrt(part.table_variances(name)).ravel()
        found["moe"] = part.table_margins(name).ravel()
        return found

    def frames(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, pd.DataFrame]]:
        """Some tables, or all, by name: rebuilt many at a time, and not in the order of the workload.

        Args:
            names: which; None for all.

        Raises:
            KeyError: there is no table of a name.
        """
        return ((name, self._framed(name, table)) for name, table in self.columns(names))

    def apart(self, name: str, level: str) -> Iterator[tuple[str | int, pd.DataFrame]]:
        """A table place by place: for every place of a level above what it shows, or of that itself, its own rows.

        Args:
            name: of a table.
            level: of the hierarchy whose places the table shows, of the same level or one below it.

        Raises:
            KeyError: there is no such table.
            ReleaseError: the table shows no places that lie in places of the level.
        """
        frame, domain = self[name], self.plan.publication.domain
        home = domain[domain.home(level)] if level in domain else None
        shown = self.plan.group(name).publication.workload[name].attributes if isinstance(home, Hierarchy) else ()
        at = next((a for a in shown if domain[domain.home(a)] is home and domain.depth(a) >= domain.depth(level)), None)
        if at is None or not isinstance(home, Hierarchy):
            raise ReleaseError(
                "table-without-level",
                f"Table {name!r} shows no places that lie in places of {level!r}.",
                "A table is split by its own level, or by a higher level of its hierarchy.",
                "Choose another level or table.",
                "Nothing was written.",
            )
        above = home.tree.above(domain.depth(level), domain.depth(at))
        places = frame[at].map(dict(zip(domain[at].values, above.tolist(), strict=True)))
        for place, rows in frame.groupby(places.to_numpy()):
            yield domain[level].values[cast(int, place)], rows.reset_index(drop=True)

    def columns(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, Columns]]:
        """As :meth:`frames`, each as its columns: of many small tables frames take longer than the tables.

        Args:
            names: which; None for all.

        Raises:
            KeyError: there is no table of a name.
        """
        for i, t, values in self._stacks(names):
            name = self._rebuilt[i].part.publication.workload.tables.names[t]
            yield name, self._mean(i, t) or self._table(i, name, values)

    def files(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, str, Columns]]:
        """Return the files of some tables, or of all: the table, the file's name without its ending, and its columns.

        Args:
            names: Which tables; None for all.

        Raises:
            KeyError: There is no table of a name.
        """
        for i, t, values in self._stacks(names):
            workload = self._rebuilt[i].part.publication.workload
            table, mean = workload.tables[t], self._mean(i, t)
            found = (*(() if mean is None else (mean,)), self._table(i, table.name, values))
            for file, columns in zip(file_labels(table, workload.domain), found, strict=True):
                yield table.name, file, columns

    def _stacks(self, names: Sequence[str] | None) -> Iterator[tuple[int, int, Floats]]:
        """Return some tables, or all: the place of the part, the place of the table in it, and its numbers."""
        if wrong := [name for name in names or () if name not in self]:
            raise KeyError(f"no table {wrong[0]!r}; the release has {some(list(self))}")
        for i, rebuilt in enumerate(self._rebuilt):
            tables = rebuilt.part.publication.workload.tables
            among = None if names is None else [tables.numbered[x] for x in names if x in tables.numbered]
            for which, stack in rebuilt.stacks(among):
                for t, values in zip(which.tolist(), stack, strict=True):
                    yield i, t, values

    def __contains__(self, name: object) -> bool:
        return self._part(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (name for p in self.plan.groups for name in p.publication.workload.tables.names)

    def __len__(self) -> int:
        return sum(len(p.publication.workload.tables) for p in self.plan.groups)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        mine, theirs = ([int(x) for y in r.answers for x in y.tolist()] for r in (self, other))
        same = self.plan.hash == other.plan.hash and self.outputs == other.outputs
        return same and mine == theirs

    def __hash__(self) -> int:
        return hash(self.plan.hash)

    def __repr__(self) -> str:
        return f"<Release of {len(self)} tables, rho = {self.plan.rho:.6g}: {some(list(self))}>"

    @cached_property
    def finite(self) -> Mapping[str, FiniteAnswer]:
        """The answers to questions with finitely many results, by name."""
        return {
            s.name: FiniteAnswer(s.name, _plain_label(m.read(o)), s.moe, s.confidence, s.hit_rate, o, s.rank_moe)
            for s, m, o in zip(self.plan.finite_summaries, self.plan.finite, self.outputs, strict=True)
        }

    def finite_at(self, confidence: float | None = None, *, simultaneous: bool = False) -> dict[str, FiniteAnswer]:
        """The same with margins at another confidence, or such that all of them hold at once.

        Args:
            confidence: of each margin; default the release's.
            simultaneous: whether it is of all margins at once instead: of n answers with a margin each then has
                1 − (1 − confidence)/n (Bonferroni), whatever the answers have to do with each other.

        Raises:
            WorkloadError: a confidence outside (0, 1).

        Example:
            `release.finite_at(simultaneous=True)["median age"].rank_moe`
        """
        several = sum(a.moe is not None or a.rank_moe is not None for a in self.finite.values())
        own = self._confidence if confidence is None else confidence
        each = level(own, several, normal=False, simultaneous=simultaneous)
        margins = (part.margins(each) for part in self.plan.questions)
        pairs = zip(self.finite.items(), margins, strict=True)
        return {name: replace(a, moe=moe, rank_moe=rank, confidence=each) for (name, a), (moe, rank) in pairs}

    def posterior(self, name: str, prior: Sequence[float] | None = None) -> pd.DataFrame:
        """What the answer to a finite question tells a reader: the probability of every true answer, given it.

        Args:
            name: of the question.
            prior: what the reader believed before, one number for every result; default the question's own.

        Returns:
            Columns `result` and `probability`, in the order of the results.

        Raises:
            ReleaseError: there is no such question. WorkloadError: the prior is none, or the answer is one by ranks,
                which depends on all records.
        """
        names = [q.name for q in self.plan.publication.finite]
        if name not in names:
            raise ReleaseError(
                "unknown-question",
                f"The release has no question {name!r}.",
                "",
                f"Choose one of {some(names)}." if names else "Use a release that answers questions.",
                "Nothing was computed.",
            )
        i = names.index(name)
        mechanism, own = self.plan.finite[i], self.plan.publication.finite[i].prior
        believed = prior if prior is not None else own if own is not None else uniform(mechanism.graph)
        chances = accuracy(mechanism).posterior(believed, self.outputs[i])
        return pd.DataFrame({"result": [_plain_label(x) for x in mechanism.graph.results], "probability": chances})

    def estimate(self, combination: Mapping[str, Floats], confidence: float | None = None) -> Estimate:
        """Any linear combination of published numbers, across tables, with its exact error.

        It may be computed with, as what `count` makes: `release.estimate(…) / release.count()` is a ratio.

        Args:
            combination: for some tables, one coefficient per number, in the table's shape.
            confidence: of the margin; default the workload's.

        Raises:
            ReleaseError: an unknown table or coefficients of another shape.
        """
        for name in combination:
            if name not in self:
                raise unknown_table(name, list(self), "Nothing was estimated.")
        parts = (
            (self._sources[self._part(name) or 0].form(name, x), self.plan.group(name).publication.workload[name], x)
            for name, x in combination.items()
        )
        return added(parts, self.plan.publication.confidence).one(confidence)

    @property
    def _domain(self) -> Domain:
        if not self.plan.groups:
            raise ReleaseError(
                "release-without-tables",
                "The release has no tables.",
                "It has only answers to questions.",
                "Read its answers: release.finite.",
                "Nothing was estimated.",
            )
        return self.plan.groups[0].publication.workload.domain

    @property
    def _confidence(self) -> float:
        return self.plan.publication.confidence

    def sum(
        self, table: str, where: Mapping[str, Any] | None = None, /, *, confidence: float | None = None, **columns: Any
    ) -> Estimate:
        """The sum of a table's numbers over chosen rows, with its exact error.

        Rows of a column shown as "at most", ranges or overlapping groups may count the same records more than once:
        choose rows that do not, or one of them. `estimate` adds up whatever it is asked.

        Args:
            table: its name.
            where: for some columns, a label, or a list of labels as shown in the table; others are summed over. Of a
                column with the values of an attribute with an order (first, last) is a range, ends included, and
                {"values": […]} are single ones. Of a table by places also those of a level above, whose places are
                then summed.
            confidence: of the margin; default the workload's.
            columns: the same as `where`, for columns whose names are Python identifiers.

        Raises:
            ReleaseError: an unknown table, column or label, or rows that count a record more than once.

        Example:
            `release.sum("state by wages", state=["Ohio", "Iowa"], wages="200,000 or more")`;
            `release.sum("tract by sex", tract=district)` for a school district, as a list of tracts;
            `release.sum("state by wages", wages="none") / release.count()`, a share with its interval
        """
        if table not in self:
            raise unknown_table(table, list(self), _UNSUMMED)
        workload = self.plan.group(table).publication.workload
        labels = workload[table].labels(workload.domain)
        chosen = {column: np.ones(len(shown)) for column, shown in labels.items()}
        for column, wanted in {**(where or {}), **columns}.items():
            if column in labels:
                chosen[column] *= _choose(labels[column], _listed(workload, table, column, wanted))
            else:
                below, inside = _above(workload, table, column, wanted)
                chosen[below] *= inside
        coefficients = np.ones(())
        for column, own in chosen.items():
            if workload[table].matrix is None:
                _refuse_overlap(column, workload[table].view(column), workload.domain[column], own)
            coefficients = np.multiply.outer(coefficients, own)
        return self.estimate({table: coefficients}, confidence)

    # --- on disk ------------------------------------------------------------------------------------

    def write(
        self,
        directory: str | os.PathLike[str],
        *,
        tables: Iterable[str] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> Path:
        """Write the release directory, whole or not at all.

        Args:
            directory: where; it must not exist, or be empty.
            tables: names of those to write as files; None writes all. The others can be rebuilt at any time.
            notice: Receives a sentence for each folder that killed processes left of this one. They are removed,
                except for those in use and those with a whole release.

        Raises:
            ReleaseError: the directory exists and is not empty, or cannot be written; or too many tables for files.
        """
        written = to_write(self.plan, tables)
        with staged(Path(directory)) as stage:
            for found in clear_leftovers(Path(directory)):
                (notice or (lambda _: None))(found)
            self._fill(stage, written)
        return Path(directory)

    def _fill(self, stage: Path, written: Sequence[str], *, rehearsal: bool = False) -> None:
        """Write all files, release.json last of all; in a rehearsal as many bytes of it that say nothing, elsewhere."""
        try:
            tables = stage / "tables"
            tables.mkdir(exist_ok=True)
            _write(stage / "plan.json", self.plan.to_json())
            if self.plan.groups:
                digest = answers_digest(self.answers)
                write_parquet(self._measurements(), stage / MEASUREMENTS, sha256=digest)
            for i, base in histograms(self.plan).items():
                cells = self.synthetic(i)
                write_parquet(cells, stage / f"{base}.parquet")
                _write(stage / f"{base}.csv", csv_pieces(cells))
            if self.outputs:
                write_parquet(self._drawn(), stage / OUTPUTS, sha256=outputs_digest(self.outputs))
                _write(stage / ANSWERS, finite_csv(self))
            for _, file, table in self.files(written):
                _write(tables / f"{file}.csv", csv_pieces(table))
                write_parquet(table, tables / f"{file}.parquet")
            entry = EntryReference(1, "0" * 64) if rehearsal else self.entry
            draft, text = stage / f"{DESCRIPTION}.draft", to_json(describe(self.plan, written, entry))
            _write(draft, " " * len(text) if rehearsal else text)
            settle(stage)
            if not rehearsal:
                draft.rename(stage / DESCRIPTION)
                sync_names(stage)
        except (OSError, UnicodeError) as error:
            raise unwritable_place("The release", _reason(error), "No release was put in its place.") from None

    def _drawn(self) -> pd.DataFrame:
        names = [q.name for q in self.plan.publication.finite]
        return pd.DataFrame(
            {"question": np.array(names, dtype=object), "output": np.array(self.outputs, dtype=np.int64)}
        )

    def _measurements(self) -> pd.DataFrame:
        sector, row = _places(self.plan)
        return pd.DataFrame({"sector": sector, "row": row, "answer": _column(self.answers)})

    @classmethod
    @checked(ReleaseError, "Nothing was read.")
    def read(cls, directory: str | os.PathLike[str]) -> Self:
        """Read a release directory; the tables are rebuilt from the noisy answers.

        Raises:
            ReleaseError: it is not a release, or incomplete or unfinished, or its noisy answers were altered.
            PlanError: its plan is damaged.
        """
        folder = Path(directory)
        if problem := unfinished(folder):
            raise problem
        plan = Plan.from_json(read_text(folder / "plan.json"))
        entry = _read_entry(folder)
        plan = as_drawn(plan, read_text(folder / DESCRIPTION))
        answers = _read_answers(plan, folder) if plan.groups else []
        outputs = _read_outputs(plan, folder) if plan.finite else ()
        histograms = _read_histograms(plan, folder)
        return cls(plan, answers, outputs=outputs, histograms=histograms, entry=entry)


def _read_entry(folder: Path) -> EntryReference | None:
    """Return the entry of a ledger that release.json names; release.json is only there when all else is."""
    text = read_text(folder / DESCRIPTION)
    try:
        stated = parse(text)
    except ValueError:
        raise ReleaseError(
            "description-not-json",
            f"{str(folder / DESCRIPTION)!r} is no JSON document.",
            "",
            "Bring the file back as it was written.",
            "Nothing was read.",
        ) from None
    return EntryReference.parse(stated)


def as_drawn(plan: Plan, document: str) -> Plan:
    """What a release is of: a plan; of a series as far as the text of its release.json says that it was drawn.

    Raises:
        ReleaseError: it does not say so, or says so of a plan that is no series.
    """
    said = parse(document).get("series")
    if (said is None) != (plan.publication.series is None):
        raise ReleaseError(
            "series-disagrees",
            "release.json and the plan disagree on whether the release is a period of a series.",
            "",
            "Bring both files back as they were written.",
            "Nothing was read.",
            place="series",
        )
    if said is None:
        return plan
    drawn = said.get("drawn") if isinstance(said, dict) else None
    if type(drawn) is not int or not 1 <= drawn <= len(plan.periods):
        raise ReleaseError(
            "periods-not-stated",
            "release.json does not state how many periods of the series were drawn.",
            f"It needs a whole number from 1 to {len(plan.periods)}.",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place="series.drawn",
        )
    return plan.through(drawn)


def _read_answers(plan: Plan, folder: Path) -> list[Exact]:
    """The noisy answers of the tables, as they were written."""
    frame, words = read_parquet(folder / MEASUREMENTS, plan.answers, DIGITS)
    sector, row = _places(plan)
    if list(frame.columns) != ["sector", "row", "answer"] or not frame[["sector", "row"]].equals(
        pd.DataFrame({"sector": sector, "row": row})
    ):
        raise rebuilding.answers_of_another_plan()
    given = frame["answer"].to_numpy()
    try:
        numbers = given.copy() if given.dtype == np.int64 else np.array([int(x) for x in given], dtype=object)
    except (TypeError, ValueError):
        raise ReleaseError(
            "answer-not-integer",
            "A noisy answer is not a whole number.",
            "",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place=MEASUREMENTS,
        ) from None
    lengths = [n for p in plan.groups for n in p.strategy.lengths]
    answers = np.split(numbers, np.cumsum(lengths)[:-1])
    written = _column(answers)
    same = written.dtype == given.dtype and np.array_equal(written, given)
    if not same or words != {"sha256": answers_digest(answers)}:
        raise ReleaseError(
            "answers-altered",
            "The noisy answers were altered after they were written.",
            "",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place=MEASUREMENTS,
        )
    return list(answers)


def histograms(plan: Plan) -> dict[int, str]:
    """The parts for tables that have a synthetic histogram, by place, and the name of its files without the ending."""
    places = [i for i, p in enumerate(plan.groups) if p.mechanism.synthetic(p)]
    return {i: HISTOGRAM if len(places) == 1 else f"{HISTOGRAM}_{n}" for n, i in enumerate(places, 1)}


def cell_labels(part: TablePart) -> dict[str, tuple[str | int, ...]]:
    """What names the joint cells that a small database is looked at in, by attribute."""
    return ask(*part.decomposition.structured, variance=1.0).labels(part.publication.domain)


def _read_histograms(plan: Plan, folder: Path) -> dict[int, Floats]:
    """The synthetic histograms of small databases, as they were written."""
    found = {}
    for i, base in histograms(plan).items():
        labels = cell_labels(plan.groups[i])
        frame, _ = read_parquet(folder / f"{base}.parquet", *extent(labels))
        counts, cells = frame.get("synthetic_records"), label_frame(labels)
        if counts is None or counts.dtype != np.float64 or not frame.drop(columns="synthetic_records").equals(cells):
            raise ReleaseError(
                "foreign-histogram",
                "The histogram is not one of this plan's cells.",
                "",
                "Bring the file back as it was written.",
                "Nothing was read.",
                place=f"{base}.parquet",
            )
        found[i] = counts.to_numpy()
    return found


def _read_outputs(plan: Plan, folder: Path) -> tuple[int, ...]:
    names = [q.name for q in plan.publication.finite]
    frame, words = read_parquet(folder / OUTPUTS, *extent({"question": names}))
    if list(frame.columns) != ["question", "output"] or frame["question"].tolist() != names:
        raise ReleaseError(
            "foreign-finite-answers",
            "The finite answers are not those of this plan.",
            "",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place=OUTPUTS,
        )
    outputs = tuple(frame["output"].tolist())
    if frame["output"].dtype != np.int64 or words != {"sha256": outputs_digest(outputs)}:
        raise ReleaseError(
            "finite-answers-altered",
            "The finite answers were altered after they were written.",
            "",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place=OUTPUTS,
        )
    return outputs


def to_write(plan: Plan, tables: Iterable[str] | None) -> tuple[str, ...]:
    """The names of the tables that get files, in the workload's order.

    Raises:
        ReleaseError: an unknown table, a table twice, or more tables than files make sense for.
    """
    known = {name: i for i, name in enumerate(n for p in plan.groups for n in p.publication.workload.tables.names)}
    if tables is None:
        if len(known) > MAX_FILES:
            raise ReleaseError(
                "too-many-table-files",
                f"{len(known):,} tables would be written as two files each.",
                f"At most {MAX_FILES:,} tables get files.",
                "Name the tables to write, or none. Each can be rebuilt from the release at any time.",
                "Nothing was written.",
            )
        return tuple(known)
    given = [tables] if isinstance(tables, str) else list(tables)
    for name in given:
        if name not in known:
            raise unknown_table(name, list(known), "Nothing was written.")
    if len(set(given)) != len(given):
        raise repeated_table("Nothing was written.")
    return tuple(sorted(given, key=known.__getitem__))


def _listed(workload: Workload, table: str, column: str, wanted: Any) -> Any:
    """The labels that are wanted, where they are named along an order."""
    asked = workload[table]
    if asked.matrix is not None or isinstance(asked.view(column), (Ranges, Recode)):
        return wanted
    attribute = workload.domain[column]
    if not attribute.ordered:
        return wanted
    try:
        return [attribute.values[i] for i in Selection.parse(wanted).cells(attribute)]
    except DomainError as error:
        reason = f"{error.given} {error.needed}".strip()
        raise _unknown_label(wanted, attribute.values, reason, error.action, place=column) from None


def _unknown_label(
    wanted: Any, shown: Sequence[str | int], reason: str = "", advice: str = "", *, place: str | None = None
) -> ReleaseError:
    """Return the error for a label that no row of a table has."""
    return ReleaseError(
        "unknown-label",
        f"No row is labelled {reprlib.repr(wanted)}.",
        reason,
        f"{advice} Choose from {reprlib.repr(list(shown))}.".lstrip(),
        _UNSUMMED,
        place=place,
    )


def _choose(shown: Sequence[str | int], wanted: Any) -> Floats:
    """1 at the labels wanted, 0 elsewhere; true is not 1."""
    several = isinstance(wanted, Iterable) and not isinstance(wanted, str)
    chosen = np.zeros(len(shown))
    places: dict[tuple[bool, object], list[int]] = {}
    for i, x in enumerate(shown):
        places.setdefault((isinstance(x, bool), x), []).append(i)
    for label in wanted if several else [wanted]:
        try:
            found = places[isinstance(label, (bool, np.bool_)), label]
        except (KeyError, TypeError):  # what has no hash is no label
            raise _unknown_label(label, shown) from None
        chosen[found] = 1
    return chosen


def _above(workload: Workload, table: str, level: str, wanted: Any) -> tuple[str, Floats]:
    """The column of a table that shows places below a level; 1 at those in the places wanted, 0 elsewhere."""
    domain, t = workload.domain, workload[table]
    for a in t.attributes if level in domain else ():
        above, depth = domain[level], domain.depth(a)
        alike = domain.home(a) == domain.home(level) and t.view(a) is EACH
        if alike and isinstance(above, Level) and above.depth < depth:
            return a, _choose(above.values, wanted)[above.of.tree.above(above.depth, depth)]
    raise ReleaseError(
        "unknown-column",
        f"Table {table!r} has no column {level!r}.",
        "",
        f"Choose one of {list(t.labels(domain))}.",
        _UNSUMMED,
        place=level,
    )


def _refuse_overlap(column: str, view: View, attribute: Attribute, chosen: Floats) -> None:
    """Raise ReleaseError if some of the rows chosen count the same records."""
    often = view.operator(attribute).rmv(chosen)
    if (often > 1).any():
        labels = [str(x) for x, c in zip(view.labels(attribute), chosen, strict=True) if c]
        raise ReleaseError(
            "overlapping-rows",
            f"The rows {reprlib.repr(labels)} of {column!r} overlap.",
            "Their sum would count records more than once.",
            f"Choose one row, or rows without common values, such as {column} = {labels[-1]!r}.",
            _UNSUMMED,
            place=column,
        )


# --- files ----------------------------------------------------------------------------------------------


def drawn_digest(release: Release) -> str:
    """Return the SHA-256 by which a ledger names the answers of a release; of a series, those of its last period.

    Args:
        release: whose answers are meant.
    """
    if release.plan.whole is not None:
        return period_digests(release)[-1]
    return answers_digest([*release.answers, *(np.array([o]) for o in release.outputs)])


def period_digests(release: Release) -> list[str]:
    """Return the SHA-256 by which a ledger names the answers of each period of a release of a series.

    Args:
        release: whose answers are meant.
    """
    periods = parted(release.plan.only, release.answers, len(release.plan.periods))
    return [answers_digest(answers) for answers in periods]


def outputs_digest(outputs: Iterable[int]) -> str:
    """SHA-256 of what was drawn for finite questions, in decimals, a line each."""
    return hashlib.sha256("\n".join(map(str, outputs)).encode("ascii")).hexdigest()


def finite_csv(release: Release) -> str:
    """The answers to finite questions as CSV, a line for every part: question, part, value, moe, hit_rate.

    Where one is by ranks, rank_moe as well.
    """
    answers = release.finite.values()
    ranked = any(a.rank_moe is not None for a in answers)
    rows = [["question", "part", "value", "moe", "hit_rate", *["rank_moe"] * ranked]]
    for a in answers:
        moe, rank_moe = ("" if x is None else f"{x:.15g}" for x in (a.moe, a.rank_moe))
        hit_rate = "" if a.hit_rate is None else f"{a.hit_rate:.{DECIMALS}f}"
        said, name = [moe, hit_rate, *[rank_moe] * ranked], field(a.name)
        rows += [[name, str(i), field(v), *said] for i, v in enumerate(a.parts, 1)]
    return "".join(",".join(row) + "\n" for row in rows)


def _plain_label(label: Any) -> Any:
    """NumPy scalars in labels as plain values."""
    return tuple(plain(x) for x in label) if isinstance(label, tuple) else plain(label)


def _places(plan: Plan) -> tuple[Exact, Exact]:
    """Number of the sector, or measured margin, and of the row in it, for every noisy answer."""
    sizes = np.concatenate([p.strategy.portions for p in plan.groups])
    starts = np.cumsum(sizes) - sizes
    return np.repeat(np.arange(len(sizes)), sizes), np.arange(sizes.sum()) - np.repeat(starts, sizes)
