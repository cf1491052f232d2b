"""Releases: tables with an error for every number, on disk and in memory.

A release directory holds

    release.json           the published tables, the mechanism, the price and the noise; the ledger entry of the charge;
                           the earlier releases that this one supersedes, with the reasons
    finite.csv, .parquet   answers to questions with finitely many results, if there are any; the drawn outputs
    plan.json              the complete plan, which anyone can check
    public_totals.csv      the file of public totals of the publisher, if the plan has some
    measurements.parquet   the noisy answers, from which every table is rebuilt
    tables/NAME.parquet, .csv   columns: the table's attributes, value, std_error, moe; for all tables, or chosen ones;
                                for means: the table's other attributes, value, low, high
                                after labels: NAME_code, their codes; NAME_from and NAME_to, the ends of bins
                                a table of 2^20 rows or more has no CSV file, as spreadsheets do not open it
    tables/NAME-counts_at_ends.csv, .parquet   for means: the counts of records from which the mean is made
    histogram.csv, .parquet     for small databases: a synthetic histogram, whose tables are the biased values

For a small database the columns of tables are biased_value and simulated_rmse. From the same measurement come the
columns unbiased_value, std_error and moe. The simulated error is the error on public histograms. It is no standard
error.

In CSV files an apostrophe precedes a label that a spreadsheet would take for a formula, or that starts with an
apostrophe. A reader removes the first apostrophe to get the label. Parquet files hold labels as they are.

Only the noisy answers in a release depend on the data. fitnoise writes the release into a folder next to its place, and
moves the complete folder there. Before the charge, fitnoise writes a release of zeros once, so that an error in
rebuilding or writing costs nothing. It writes release.json last, after the charge, so a killed process leaves no
release.

(This module is longer than others, because the content of a release and its way to the disk depend on each other.)

Trust: a mistake here can publish a number that is not the estimate, or a margin that is too small.
"""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol, Self, cast, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fitnoise.display import HtmlDisplay
from fitnoise.errors import DomainError, ReleaseError
from fitnoise.kernel.arrays import Exact, Floats, answers_digest
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.codings import Code, as_python
from fitnoise.kernel.disk import sync_names
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms._base import BiasedTables
from fitnoise.mechanisms.documents import MAX_NUMBER_DIGITS, parse
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.priors import uniform
from fitnoise.mechanisms.gaussian.series import parted
from fitnoise.mechanisms.numbers import on_distinct
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Message, Value, ValueKind, english
from fitnoise.planning.files import read_text, reason_of, unwritable_place
from fitnoise.planning.plan import Plan
from fitnoise.reading.description import (
    EntryReference,
    Superseded,
    TotalsReference,
    describe,
    parse_superseded,
    statistic,
    universe_messages,
)
from fitnoise.reading.estimates import Estimate, added
from fitnoise.reading.laws import level
from fitnoise.reading.linear_forms import AnswerSource
from fitnoise.reading.means import file_stubs, mean_columns
from fitnoise.reading.parquet import RowGroups
from fitnoise.reading.question_methods import QuestionMixin
from fitnoise.reading.refusals import no_means, repeated_table, unknown_table
from fitnoise.reading.release_files import (
    DECIMALS,
    DESCRIPTION,
    Columns,
    NumberColumn,
    Stub,
    _column,
    _write,
    clear_leftovers,
    complete_columns,
    csv_pieces,
    extent,
    field,
    read_parquet,
    staged,
    stub_columns,
    stub_frame,
    sync_folder,
    table_endings,
    to_json,
    unfinished,
    write_parquet,
)
from fitnoise.request.arguments import checked
from fitnoise.request.attributes import Attribute
from fitnoise.request.domain import Domain
from fitnoise.request.known_totals import TotalsFile, parse_totals
from fitnoise.request.selections import Selection
from fitnoise.request.views import Ranges, Recode, View
from fitnoise.request.workloads import Workload, list_names
from fitnoise.request.workloads import table as ask

MEASUREMENTS = "measurements.parquet"

TOTALS = "public_totals.csv"
"""The file with public totals, in a release of a plan that has some."""

OUTPUTS, ANSWERS = "finite.parquet", "finite.csv"
"""File names for the drawn outputs of finite questions, and for the answers."""

HISTOGRAM = "histogram"
"""The name of the files with the synthetic histogram of a small database."""

GAP = 1e-5
"""The gap up to which a histogram counts as the best, relative to a sum of two terms.

The terms are its squared distance from the noisy answers, and GAP times the answers' squared length.
"""

MAX_FILES = 5_000
"""The largest number of tables that are written as files without a list of names."""

_UNSUMMED = "Nothing was added up."

_COMPARED = ("plan", "outputs", "histograms", "entry", "supersedes", "public_totals")
"""The arguments of a release that are compared with their annotations; the answers have a check of their own."""


@final
@dataclass(frozen=True)
class FiniteAnswer:
    """The published answer to a question with finitely many results.

    Attributes:
        name: The name of the question.
        confidence: The confidence of `moe` or `rank_moe`.
        value: The answer: a number, a tuple of several numbers, or a label.
        output: The index of the drawn output, from 0.
        moe: With a probability of `confidence` or more, every part of `value` is within this distance of the true
            answer, for any true answer. None where results are not numbers, or where `rank_moe` is given.
        hit_rate: The probability that the true answer is published, on average over the question's prior; None where
            `rank_moe` is given.
        rank_moe: The error of a median or quantile by ranks, in place of `moe` and `hit_rate`. `value` has at most this
            number of records too many below it, and at most this number too few at or below it. Both hold jointly with
            a probability of `confidence` or more.
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
    """The statements of a ledger about the charge of a release that need no ledger class."""

    @property
    def sequence(self) -> int:
        """The number of the entry, from 1."""

    @property
    def rho(self) -> Fraction:
        """The exact charge ρ."""

    @property
    def epsilon(self) -> Fraction | None:
        """The charged pure ε; None for a charge of ρ only."""

    @property
    def time(self) -> str:
        """The time of the charge, in UTC."""

    @property
    def digest(self) -> str:
        """SHA-256 of the entry, which contains the digest of the entry before it."""


@final
class Release(Mapping[str, pd.DataFrame], QuestionMixin, HtmlDisplay):
    """Consistent tables by name, and answers to further linear questions about them.

    Args:
        plan: The plan that was measured.
        answers: The noisy answers of its tables, part after part. For each group of sectors or measured margin, a list
            or an array of whole numbers.
        charge: The ledger's entry, if the release was measured in this process; None for one that was read.
        entry: The number and digest of the entry, for a release that was read; None if they are unknown.
        supersedes: The chain of earlier releases that this one supersedes, the newest first.
        outputs: The drawn output of each question with finitely many answers.
        histograms: The released histograms of parts for small databases, by index among the plan's parts for tables.
            Other histograms are computed from the answers.
        public_totals: The file of public totals, if the plan has some.

    Raises:
        ReleaseError: The plan has public totals and no file is given, or the other way round. Or the answers of a group
            are not whole numbers. Or the outputs are not one for each finite question of the plan, each an output of
            its mechanism. Answers of another plan are refused later, when a table is first rebuilt.

    **Guarantees**
        * each value except a mean is an unbiased estimate, and may be negative or not an integer. For a small database
          each `unbiased_value` is unbiased, and the biased values are counts of one nonnegative histogram;
        * `std_error` is exact for Gaussian noise of the stated scales, and at least that of the discrete noise;
        * for a pure plan, `moe` comes from the exact distribution of sums of Laplace noise, and is never too small;
        * a table of means has the means, each with the ends of its interval, `low` and `high`. `counts_at_ends` gives
          the counts from which the means are made;
        * any two tables of one part agree on their shared sums, up to floating point; further tables have noise of
          their own;
        * `read` of a directory equals the release that `write` wrote there: equal plan, noisy answers and outputs.
    """

    @checked(ReleaseError, "No release was made.", *_COMPARED)
    def __init__(
        self,
        plan: Plan,
        answers: Sequence[Exact | Sequence[int]],
        charge: Charge | None = None,
        outputs: Sequence[int] = (),
        histograms: Mapping[int, Floats] | None = None,
        entry: EntryReference | None = None,
        supersedes: Sequence[Superseded] = (),
        public_totals: TotalsFile | None = None,
    ) -> None:
        if (plan.publication.public is None) != (public_totals is None):
            raise ReleaseError(
                "public-totals-misfit",
                f"The plan has {'public totals, and no file of them' if public_totals is None else 'no public totals'}"
                f"{' is given' if public_totals is None else ', and a file of them is given'}.",
                "A release has the file of public totals exactly if its plan has public totals.",
                "Give the file with a plan that has [[public]], and only with it.",
                "No release was made.",
                place="public",
            )
        self.plan = plan
        self.public_totals = public_totals
        self.answers = _integer_answers(answers)
        self.charge = charge
        # a release that was just measured names the entry of its own charge; one that was read names the entry that
        # release.json states, or none
        self.entry = entry if entry or charge is None else EntryReference(charge.sequence, charge.digest)
        self.supersedes = tuple(supersedes)
        self.outputs = tuple(outputs)
        self._histograms = dict(histograms or {})
        counts = [q.mechanism.outputs for q in plan.questions]
        if len(counts) != len(self.outputs) or not all(
            isinstance(o, (int, np.integer)) and 0 <= o < n for o, n in zip(self.outputs, counts, strict=True)
        ):
            raise ReleaseError(
                "foreign-outputs",
                "The outputs are not those of the plan's finite questions.",
                "A release needs one output for each question, which is one of its mechanism.",
                "Use the plan and the outputs of one release.",
                "No release was made.",
            )

    @cached_property
    def _table_answers(self) -> tuple[tuple[Exact, ...], ...]:
        """The noisy answers of each part for tables."""
        # the answers of all parts are one list, so the number of each part's groups says where the next part begins
        ends = np.cumsum([len(p.estimation.lengths) for p in self.plan.groups]).tolist()
        if ends and ends[-1] != len(self.answers):
            raise rebuilding.answers_of_another_plan()
        return tuple(self.answers[i:j] for i, j in zip([0, *ends], ends, strict=False))

    @cached_property
    def _rebuilt(self) -> tuple[rebuilding.RebuiltTables, ...]:
        totals, pairs = self.public_totals, zip(self.plan.groups, self._table_answers, strict=True)
        return tuple(rebuilding.RebuiltTables(p, y, None if totals is None else totals.numbers) for p, y in pairs)

    @property
    def _sources(self) -> tuple[AnswerSource, ...]:
        return self._measured

    @cached_property
    def _measured(self) -> tuple[AnswerSource, ...]:
        digest = answers_digest(self.answers)
        return tuple(AnswerSource(digest, i, x) for i, x in enumerate(self._rebuilt))

    @cached_property
    def biased(self) -> tuple[BiasedTables | None, ...]:
        """For each part for tables, its biased values if it is for a small database, and otherwise None."""
        # the released histogram where there is one: its search is iterative, and may end elsewhere on another machine
        pairs = enumerate(zip(self.plan.groups, self._table_answers, strict=True))
        return tuple(
            None if p.estimator is None else p.estimator.rebuild(y, self._histograms.get(i)) for i, (p, y) in pairs
        )

    @property
    def histogram(self) -> pd.DataFrame:
        """The synthetic records of a small database: a nonnegative number for every joint cell that tables show.

        Raises:
            ReleaseError: The release has no synthetic histogram, or has several.
        """
        frames = [self.synthetic(i) for i in histograms(self.plan)]
        if len(frames) != 1:
            raise ReleaseError(
                "not-one-histogram",
                f"The release has {len(frames)} synthetic histograms.",
                "Each part for a small database has one, except the variant of the paper.",
                "If it has several, name the part: release.synthetic(i).",
                "No histogram was made.",
            )
        return frames[0]

    def synthetic(self, i: int) -> pd.DataFrame:
        """Return the synthetic records of the i-th part for tables, if it is for a small database.

        Args:
            i: The index of the part in `plan.groups`, from 0. A negative index counts from the end.

        Returns:
            A row for each cell of its attributes, with `synthetic_records`.

        Raises:
            ReleaseError: The part is not for a small database, or keeps no histogram.
            IndexError: There is no such part.
        """
        synthesis = self.biased[i]
        if synthesis is None or not synthesis.has_histogram:
            raise ReleaseError(
                "part-without-histogram",
                f"Part {i + 1} of the release has no synthetic histogram.",
                "Each part for a small database has one, except the variant of the paper.",
                "Choose another part.",
                "No histogram was made.",
            )
        frame = stub_frame(cell_stubs(self.plan.groups[i]))
        frame["synthetic_records"] = synthesis.histogram
        return frame

    def __getitem__(self, name: str) -> pd.DataFrame:
        i = self._part(name)
        if i is None:
            raise KeyError(f"no table {name!r}; the release has {list_names(list(self))}")
        number = self.plan.groups[i].publication.workload.number(name)
        return self._framed(name, self._mean(i, number) or self._table(i, name, self._rebuilt[i].table(name)))

    def counts_at_ends(self, name: str) -> pd.DataFrame:
        """Return the counts from which a table of means is made.

        They are the numbers of records at the two ends of the range that would give the same count and the same sum. A
        record between the ends counts in part at both. So they are no counts of records with these values.

        Args:
            name: The table of means.

        Returns:
            Columns: the table's attributes, value, std_error, moe; the amount has the two ends of its range.

        Raises:
            ReleaseError: There is no such table, or it is not of means.
        """
        i = self._part(name)
        if i is None or self.plan.group(name).publication.workload[name].averaged is None:
            raise no_means(name)
        return pd.DataFrame(complete_columns(self._table(i, name, self._rebuilt[i].table(name))))

    def _framed(self, name: str, columns: Columns) -> pd.DataFrame:
        """Return a table as a frame, whose `attrs` state the statistic of its numbers and intervals."""
        frame, workload = pd.DataFrame(complete_columns(columns)), self.plan.group(name).publication.workload
        table = workload[name]
        # `attrs` stay with the frame: a table that is passed on still says what its numbers and intervals are for
        frame.attrs = {
            "statistic": english(*statistic(table, workload.domain)),
            "confidence": table.target.level(workload.confidence),
            "universe": [*map(english, universe_messages(self.plan, table))],
        }
        return frame

    def _mean(self, i: int, number: int) -> Columns | None:
        """Return a table of means as columns, by the index of its part and its index there; None for another table."""
        source = self._sources[i]
        table = source.part.publication.workload.tables[number]
        return None if table.averaged is None else mean_columns(source, number)

    def _part(self, name: object) -> int | None:
        """Return the index of the part for tables that has a table."""
        places = (i for i, p in enumerate(self.plan.groups) if name in p.publication.workload.tables.numbered)
        return next(places, None)

    def _table(self, i: int, name: str, values: Floats) -> Columns:
        part, biased = self.plan.groups[i], self.biased[i]
        workload = part.publication.workload
        columns = stub_columns(workload[name].stubs(workload.domain))
        if biased is not None:
            layout = part.decomposition.layout(workload.number(name))
            errors = biased.simulated.worst[layout.rows].reshape(layout.inner_shape).transpose(layout.transpose)
            columns["biased_value"] = biased.table(name).ravel()
            columns["simulated_rmse"] = errors.ravel()
        columns["value" if biased is None else "unbiased_value"] = NumberColumn(values)
        # errors follow from the plan: of all columns only the values depend on the answers
        columns["std_error"] = NumberColumn(on_distinct(np.sqrt, part.table_variances(name)))
        columns["moe"] = NumberColumn(part.table_margins(name))
        return columns

    def frames(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield some tables, or all, by name. They are rebuilt many at a time, and not in the order of the workload.

        Args:
            names: The names of tables; None for all.

        Raises:
            KeyError: There is no table of a name. The first item that is taken raises it, not the call.
        """
        return ((name, self._framed(name, table)) for name, table in self.columns(names))

    def tables_by_place(self, name: str, level: str) -> Iterator[tuple[str | int, pd.DataFrame]]:
        """Yield a table place by place: the code of each place of a level, and its rows, in the order of the places.

        Args:
            name: The name of a table.
            level: The hierarchy level to split by. The table must show this level or a lower one.

        Raises:
            KeyError: There is no such table. The first item that is taken raises it, not the call.
            ReleaseError: The table shows no places of the level or of a lower one; raised in the same way.
        """
        frame, domain = self[name], self.plan.publication.domain
        home = domain.attribute_of(level) if level in domain else level
        tree = domain[home].tree if level in domain else None
        names = () if tree is None else self.plan.group(name).publication.workload[name].attributes
        column = next(
            (a for a in names if domain.attribute_of(a) == home and domain.depth(a) >= domain.depth(level)), None
        )
        if tree is None or column is None:
            raise ReleaseError(
                "table-without-level",
                f"Table {name!r} shows no places that lie in places of {level!r}.",
                "A table is split by its own level, or by a higher level of its hierarchy.",
                "Choose another level or table.",
                "Nothing was written.",
            )
        above = tree.above(domain.depth(level), domain.depth(column))
        places = frame[column].map(dict(zip(domain[column].values, above.tolist(), strict=True)))
        # grouped by position and not by code: `groupby` sorts its keys, and positions are in the order of the places
        for index, rows in frame.groupby(places.to_numpy()):
            yield domain[level].values[cast(int, index)], rows.reset_index(drop=True)

    def columns(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        """Yield the tables of :meth:`frames` as columns: for many small tables, frames take longer than the tables.

        Args:
            names: The names of tables; None for all.

        Raises:
            KeyError: There is no table of a name. The first item that is taken raises it, not the call.
        """
        for i, t, values in self._stacks(names):
            name = self._rebuilt[i].part.publication.workload.tables.names[t]
            yield name, complete_columns(self._mean(i, t) or self._table(i, name, values))

    def files(self, names: Sequence[str] | None = None) -> Iterator[tuple[str, str, Columns]]:
        """Yield the files of some tables, or of all: the table, the file's name without its ending, and its columns.

        The columns are made from row to row, so a long table takes the memory of its values alone.

        Args:
            names: The names of tables; None for all.

        Raises:
            KeyError: There is no table of a name. The first item that is taken raises it, not the call.
        """
        for i, t, values in self._stacks(names):
            workload = self._rebuilt[i].part.publication.workload
            table, mean = workload.tables[t], self._mean(i, t)
            contents = [*(() if mean is None else (mean,)), self._table(i, table.name, values)]
            for file in file_stubs(table, workload.domain):
                # without a reference here: a long table then leaves the memory before the next one is rebuilt
                yield table.name, file, contents.pop(0)

    def _stacks(self, names: Sequence[str] | None) -> Iterator[tuple[int, int, Floats]]:
        """Yield some tables, or all: the index of the part, the index of the table in it, and its numbers.

        Raises:
            KeyError: There is no table of a name. The first item that is taken raises it.
        """
        # all names are checked before the first table is made, so an unknown one cannot end a file after some tables
        if wrong := [name for name in names or () if name not in self]:
            raise KeyError(f"no table {wrong[0]!r}; the release has {list_names(list(self))}")
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
        # as Python's integers: an answer is the same in an array of 64-bit integers and in one of objects
        mine, theirs = ([int(x) for y in r.answers for x in y.tolist()] for r in (self, other))
        same = self.plan.hash == other.plan.hash and self.outputs == other.outputs
        same &= TotalsReference.from_file(self.public_totals) == TotalsReference.from_file(other.public_totals)
        return same and mine == theirs

    def __hash__(self) -> int:
        return hash(self.plan.hash)  # without the answers, which may be many: equal releases have equal plans

    def __repr__(self) -> str:
        return f"<Release of {len(self)} tables, rho = {self.plan.rho:.6g}: {list_names(list(self))}>"

    @cached_property
    def finite(self) -> Mapping[str, FiniteAnswer]:
        """The answers to questions with finitely many results, by name."""
        return {
            s.name: FiniteAnswer(
                s.name, _plain_label(q.mechanism.read(o)), s.moe, s.confidence, s.hit_rate, o, s.rank_moe
            )
            for q, o in zip(self.plan.questions, self.outputs, strict=True)
            for s in (q.summary,)
        }

    def finite_at(self, confidence: float | None = None, *, simultaneous: bool = False) -> dict[str, FiniteAnswer]:
        """Return the answers with margins at another confidence, or with margins that hold simultaneously.

        Args:
            confidence: The confidence of each margin; default the release's.
            simultaneous: True if the confidence is that of all margins at once. Each of n answers with a margin then
                has 1 − (1 − confidence)/n (Bonferroni), which holds for any dependence of the answers. This is also the
                `confidence` that each of them states.

        Raises:
            WorkloadError: The confidence is not in (0, 1).

        Example:
            `release.finite_at(simultaneous=True)["median age"].rank_moe`
        """
        # an answer without a margin cannot miss it, and takes no part of the allowed error
        several = sum(a.moe is not None or a.rank_moe is not None for a in self.finite.values())
        nominal = self._confidence if confidence is None else confidence
        each = level(nominal, several, normal=False, simultaneous=simultaneous)
        margins = (part.margins(each) for part in self.plan.questions)
        pairs = zip(self.finite.items(), margins, strict=True)
        return {name: replace(a, moe=moe, rank_moe=rank, confidence=each) for (name, a), (moe, rank) in pairs}

    def posterior(self, name: str, prior: Sequence[float] | None = None) -> pd.DataFrame:
        """Return a reader's probabilities of the true answers to a finite question, given the published answer.

        Args:
            name: The name of the question.
            prior: The reader's probabilities before the release, one for every result. The default is the prior of
                the question, or equal probabilities if it has none.

        Returns:
            Columns `result` and `probability`, in the order of the results.

        Raises:
            ReleaseError: There is no such question.
            WorkloadError: The prior is not one, or the answer is by ranks and depends on all records.
        """
        names = [q.name for q in self.plan.publication.questions]
        if name not in names:
            raise ReleaseError(
                "unknown-question",
                f"The release has no question {name!r}.",
                "",
                f"Choose one of {list_names(names)}." if names else "Use a release that answers questions.",
                "Nothing was computed.",
            )
        i = names.index(name)
        mechanism, stated = self.plan.questions[i].mechanism, self.plan.publication.questions[i].prior
        believed = prior if prior is not None else stated if stated is not None else uniform(mechanism.graph)
        chances = accuracy(mechanism).posterior(believed, self.outputs[i])
        return pd.DataFrame({"result": [_plain_label(x) for x in mechanism.graph.results], "probability": chances})

    def estimate(self, combination: Mapping[str, Floats], confidence: float | None = None) -> Estimate:
        """Return any linear combination of published numbers, across tables, with its exact error.

        The result can be used in arithmetic, like results of `count`: `release.estimate(…) / release.count()` is a
        ratio.

        Args:
            combination: For some tables, one coefficient for each number, in the table's shape.
            confidence: The confidence of the margin; default the workload's.

        Raises:
            ReleaseError: A table is unknown, or its coefficients have another shape or are not finite.
            WorkloadError: The confidence is not in (0, 1).
        """
        for name in combination:
            if name not in self:
                raise unknown_table(name, list(self), "Nothing was estimated.")
        # every name has a part, as checked above, so `or 0` changes nothing
        parts = (
            (self._sources[self._part(name) or 0].form(name, x), self.plan.group(name).publication.workload[name], x)
            for name, x in combination.items()
        )
        return added(parts, self.plan.publication.confidence).to_estimate(confidence)

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
        """Return the sum of a table's numbers over chosen rows, with its exact error.

        Rows of a column shown as "at most", ranges or overlapping groups may count some records more than once. Choose
        rows that do not, or one row. `estimate` adds any rows. Rows of explicit queries are added without this check.

        Args:
            table: The name of the table.
            where: For some columns, a label, or a list of labels as shown in the table; the sum includes all rows of
                other columns. If several values have one label, name them by their codes. For the values of an
                attribute with an order, a list is a range (first, last) that includes its ends, and {"values": […]} are
                single values. If the table is by places, a level above their level can be named, whose places are then
                summed.
            confidence: The confidence of the margin; default the workload's.
            columns: Conditions like `where`, for columns whose names are Python identifiers.

        Raises:
            ReleaseError: A table, column or label is unknown. Or rows of a column overlap, except for explicit queries.
            WorkloadError: The confidence is not in (0, 1).

        Example:
            `release.sum("state by wages", state=["Ohio", "Iowa"], wages="200,000 or more")`;
            `release.sum("tract by sex", tract=district)` for a school district, as a list of tracts;
            `release.sum("state by wages", wages="none") / release.count()`, a share with its interval
        """
        if table not in self:
            raise unknown_table(table, list(self), _UNSUMMED)
        workload = self.plan.group(table).publication.workload
        names, labels = workload[table].row_names(workload.domain), workload[table].labels(workload.domain)
        chosen = {column: np.ones(len(column_labels)) for column, column_labels in labels.items()}
        for column, requested in {**(where or {}), **columns}.items():
            if column in labels:
                chosen[column] *= _choose(names[column], _listed(workload, table, column, requested), labels[column])
            else:
                below, inside = _above(workload, table, column, requested)
                chosen[below] *= inside  # a product: conditions on a place and on a level above it hold together
        coefficients = np.ones(())
        for column, factors in chosen.items():
            if workload[table].matrix is None:
                _refuse_overlap(column, workload[table].view(column), workload.domain[column], factors)
            # a row is in the sum if every column admits its label: its coefficient is the product of one factor for
            # each column
            coefficients = np.multiply.outer(coefficients, factors)
        return self.estimate({table: coefficients}, confidence)

    # --- on disk ------------------------------------------------------------------------------------

    def write(
        self,
        directory: str | os.PathLike[str],
        *,
        tables: Iterable[str] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> Path:
        """Write the complete release directory, or nothing.

        Args:
            directory: The directory, which must not exist, or be empty.
            tables: The names of tables to write as files; None writes all. The other tables can be rebuilt at any time.
            notice: A function that receives a sentence for each leftover folder that killed processes left for this
                directory. fitnoise removes these, except for folders in use and folders with a complete release.

        Raises:
            ReleaseError: The directory exists and is not empty, or cannot be written. Or a table is unknown or named
                twice, or there are too many tables for files.
        """
        names = to_write(self.plan, tables)
        with staged(Path(directory)) as stage:
            for leftover in clear_leftovers(Path(directory)):
                (notice or (lambda _: None))(leftover)
            self._fill(stage, names)
        return Path(directory)

    def _fill(self, stage: Path, names: Sequence[str], *, rehearsal: bool = False) -> None:
        """Write all files, and release.json last; a rehearsal writes a placeholder of its length elsewhere.

        Raises:
            ReleaseError: The folder cannot be written.
        """
        try:
            tables = stage / "tables"
            tables.mkdir(exist_ok=True)
            _write(stage / "plan.json", self.plan.to_json())
            if self.public_totals is not None:
                _write(stage / TOTALS, self.public_totals.text)
            if self.plan.groups:
                digest = answers_digest(self.answers)  # in the footer, so that `read` finds an altered answer
                write_parquet(self._measurements(), stage / MEASUREMENTS, sha256=digest)
            for i, base in histograms(self.plan).items():
                cells = self.synthetic(i)
                write_parquet(cells, stage / f"{base}.parquet")
                _write(stage / f"{base}.csv", csv_pieces(cells))
            if self.outputs:
                write_parquet(self._output_frame(), stage / OUTPUTS, sha256=outputs_digest(self.outputs))
                _write(stage / ANSWERS, finite_csv(self))
            for _, file, table in self.files(names):
                write_parquet(table, tables / f"{file}.parquet")
                if ".csv" in table_endings(len(next(iter(table.values())))):
                    _write(tables / f"{file}.csv", csv_pieces(table))
                del table  # a long table leaves the memory before the next one is rebuilt
            entry = EntryReference(1, "0" * 64) if rehearsal else self.entry
            document = describe(self.plan, names, entry, self.supersedes, TotalsReference.from_file(self.public_totals))
            draft, text = stage / f"{DESCRIPTION}.draft", to_json(document)
            # a rehearsal needs as much room, and must leave nothing that could pass for a release
            _write(draft, " " * len(text) if rehearsal else text)
            sync_folder(stage)
            if not rehearsal:
                # a rename, after all other files are on the disk: release.json is there completely or not at all
                draft.rename(stage / DESCRIPTION)
                sync_names(stage)
        except (OSError, UnicodeError) as error:
            raise unwritable_place("The release", reason_of(error), "No release was put in its place.") from None

    def _output_frame(self) -> pd.DataFrame:
        names = [q.name for q in self.plan.publication.questions]
        return pd.DataFrame(
            {"question": np.array(names, dtype=object), "output": np.array(self.outputs, dtype=np.int64)}
        )

    def _measurements(self) -> Columns:
        return {**_places(self.plan), "answer": _column(self.answers)}

    @classmethod
    @checked(ReleaseError, "Nothing was read.")
    def read(cls, directory: str | os.PathLike[str]) -> Self:
        """Read a release directory; the tables are rebuilt from the noisy answers.

        Raises:
            ReleaseError: The directory is not a release, or is incomplete or unfinished, or its noisy answers were
                altered.
            PlanError: Its plan is damaged.
        """
        folder = Path(directory)
        # checked before any file is read: a release that is still being written would otherwise look like a damaged one
        if problem := unfinished(folder):
            raise problem
        plan = Plan.load(folder / "plan.json")
        entry, supersedes, reference = _read_entry(folder)
        # plan.json of a series has all periods, and only release.json says how many of them were drawn
        plan = as_drawn(plan, read_text(folder / DESCRIPTION))
        answers = _read_answers(plan, folder) if plan.groups else []
        outputs = _read_outputs(plan, folder) if plan.questions else ()
        histograms = _read_histograms(plan, folder)
        totals = None if reference is None else _read_totals(plan, folder, reference)
        return cls(
            plan,
            answers,
            outputs=outputs,
            histograms=histograms,
            entry=entry,
            supersedes=supersedes,
            public_totals=totals,
        )


def _integer_answers(answers: object) -> tuple[Exact, ...]:
    """Return the noisy answers of each group as an array, int64 or Python integers.

    Raises:
        ReleaseError: They are not lists or arrays of whole numbers, one for each group.
    """
    if not isinstance(answers, (Sequence, np.ndarray)) or isinstance(answers, (str, bytes)):
        raise _not_integers(f"The answers are {describe_value(answers)}.")
    return tuple(_integers_of_group(i, x) for i, x in enumerate(answers, 1))


def _integers_of_group(number: int, answers: object) -> Exact:
    is_array = isinstance(answers, np.ndarray)
    if isinstance(answers, np.ndarray) and answers.ndim == 1 and answers.dtype.kind == "i":
        return answers
    listed: list[Any] = list(answers) if isinstance(answers, (Sequence, np.ndarray)) else [None]
    if not all(isinstance(x, Integral) and not isinstance(x, bool) for x in listed):
        raise _not_integers(f"The answers of group {number} are not a list of whole numbers.")
    integers = [int(x) for x in listed]
    is_short = all(-(2**63) <= x < 2**63 for x in integers)
    return np.array(integers, dtype=np.int64 if is_short and not is_array else object)


def _not_integers(sentence: str) -> ReleaseError:
    return ReleaseError(
        "answers-not-integers",
        sentence,
        "Noisy answers are whole numbers: a list or a NumPy array of integers for each group of the plan.",
        "Give such a list for each group, or read a release from its folder (Release.read).",
        "No release was made.",
        place="answers",
    )


def _read_entry(folder: Path) -> tuple[EntryReference | None, tuple[Superseded, ...], TotalsReference | None]:
    """Return the ledger entry that release.json names, or None, with earlier releases and the file of public totals.

    Raises:
        ReleaseError: The file cannot be read, is no JSON document, or is of another format. Or it names no proper
            entry, no proper earlier releases or no proper file of public totals.
    """
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
    return EntryReference.parse(stated), parse_superseded(stated), TotalsReference.parse(stated)


def as_drawn(plan: Plan, document: str) -> Plan:
    """Return the plan of a release; for a series, of the periods that the text of its release.json states as drawn.

    Args:
        plan: The plan, of all periods of a series.
        document: The text of release.json, which :meth:`EntryReference.parse` has accepted.

    Raises:
        ReleaseError: The text does not state this, or states it for a plan without a series.
    """
    series = parse(document).get("series")
    if (series is None) != (plan.publication.series is None):
        raise ReleaseError(
            "series-disagrees",
            "release.json and the plan disagree on whether the release is a period of a series.",
            "",
            "Bring both files back as they were written.",
            "Nothing was read.",
            place="series",
        )
    if series is None:
        return plan
    drawn_periods = series.get("drawn") if isinstance(series, dict) else None
    if type(drawn_periods) is not int or not 1 <= drawn_periods <= len(plan.periods):
        raise ReleaseError(
            "periods-not-stated",
            "release.json does not state how many periods of the series were drawn.",
            f"It needs a whole number from 1 to {len(plan.periods)}.",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place="series.drawn",
        )
    return plan.truncate(drawn_periods)


def _read_answers(plan: Plan, folder: Path) -> list[Exact]:
    """Return the noisy answers of the tables, as they were written.

    Raises:
        ReleaseError: The file is missing, was altered, or is of another plan.
    """
    # the plan says how many numbers are read, of how many digits: a stranger's file may announce any number of them
    rows, expected = sum(p.noisy_answers for p in plan.groups), _places(plan)
    groups, numbers, start = RowGroups(folder / MEASUREMENTS, rows, MAX_NUMBER_DIGITS), np.empty(rows, np.int64), 0
    same = True
    for columns in groups:
        stop = start + len(next(iter(columns.values()), ()))
        if list(columns) != [*expected, "answer"] or not all(
            columns[name].dtype == np.int64 and np.array_equal(columns[name], x[start:stop])
            for name, x in expected.items()
        ):
            raise rebuilding.answers_of_another_plan()
        column = columns["answer"]
        if column.dtype == np.int64:
            numbers[start:stop] = column
        else:
            numbers = numbers.astype(object, copy=False)
            numbers[start:stop] = integers = _integers_of_texts(column.tolist())
            # Python reads 1_0 and +10 as integers, too: the column must be the one that is written for these numbers
            same &= [str(x) for x in integers] == column.tolist()
        start = stop
    lengths = [n for p in plan.groups for n in p.strategy.lengths]
    answers = np.split(numbers, np.cumsum(lengths)[:-1])
    same &= _column(answers).dtype == numbers.dtype
    if not same or groups.metadata != {"sha256": answers_digest(answers)}:
        raise ReleaseError(
            "answers-altered",
            "The noisy answers were altered after they were written.",
            "",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place=MEASUREMENTS,
        )
    return list(answers)


def _integers_of_texts(texts: Sequence[Any]) -> list[int]:
    """Return noisy answers that a file has as texts, or raise ReleaseError."""
    try:
        return [int(x) for x in texts]
    except (TypeError, ValueError):
        raise ReleaseError(
            "answer-not-integer",
            "A noisy answer is not a whole number.",
            "",
            "Bring the file back as it was written.",
            "Nothing was read.",
            place=MEASUREMENTS,
        ) from None


def histograms(plan: Plan) -> dict[int, str]:
    """Return the index of each part for tables with a synthetic histogram, and its file name without the ending."""
    places = [i for i, p in enumerate(plan.groups) if p.estimator is not None and p.estimator.is_synthetic()]
    return {i: HISTOGRAM if len(places) == 1 else f"{HISTOGRAM}_{n}" for n, i in enumerate(places, 1)}


def cell_stubs(part: TablePart) -> tuple[Stub, ...]:
    """Return the stubs of the joint cells in which a small database is counted, one for each attribute."""
    # a table that is never measured, so its target has no meaning
    return ask(*part.decomposition.structured, variance=1.0).stubs(part.publication.domain)


def _read_histograms(plan: Plan, folder: Path) -> dict[int, Floats]:
    """Return the synthetic histograms of small databases, as they were written."""
    by_part = {}
    for i, base in histograms(plan).items():
        stubs = cell_stubs(plan.groups[i])
        frame, _ = read_parquet(folder / f"{base}.parquet", *extent(stubs))
        counts, cells = frame.get("synthetic_records"), stub_frame(stubs)
        if counts is None or counts.dtype != np.float64 or not frame.drop(columns="synthetic_records").equals(cells):
            raise ReleaseError(
                "foreign-histogram",
                "The histogram is not one of this plan's cells.",
                "",
                "Bring the file back as it was written.",
                "Nothing was read.",
                place=f"{base}.parquet",
            )
        by_part[i] = counts.to_numpy()
    return by_part


def _read_totals(plan: Plan, folder: Path, reference: TotalsReference) -> TotalsFile:
    """Return the public totals, from the file that release.json names.

    Raises:
        ReleaseError: The file is missing or was altered, or the plan has no public totals.
    """
    public, text = plan.publication.public, read_text(folder / TOTALS)
    if public is None or hashlib.sha256(text.encode()).hexdigest() != reference.sha256:
        raise ReleaseError(
            "public-totals-altered",
            "The file of public totals is not the one that release.json names, or the plan has no public totals.",
            "",
            "Bring the files back as they were written.",
            "Nothing was read.",
            place=TOTALS,
        )
    return parse_totals(reference.file, text, public, plan.publication.domain)


def _read_outputs(plan: Plan, folder: Path) -> tuple[int, ...]:
    names = [q.name for q in plan.publication.questions]
    frame, metadata = read_parquet(folder / OUTPUTS, *extent([{"question": names}]))
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
    if frame["output"].dtype != np.int64 or metadata != {"sha256": outputs_digest(outputs)}:
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
    """Return the names of the tables that get files, in the workload's order.

    Raises:
        ReleaseError: A table is unknown or occurs twice, or no names are given for more than 5,000 tables.
    """
    positions = {name: i for i, name in enumerate(n for p in plan.groups for n in p.publication.workload.tables.names)}
    if tables is None:
        if len(positions) > MAX_FILES:
            raise ReleaseError(
                "too-many-table-files",
                f"{len(positions):,} tables would be written as two files each.",
                f"At most {MAX_FILES:,} tables get files.",
                "Name the tables to write, or none. Each can be rebuilt from the release at any time.",
                "Nothing was written.",
            )
        return tuple(positions)
    names = [tables] if isinstance(tables, str) else list(tables)
    for name in names:
        if name not in positions:
            raise unknown_table(name, list(positions), "Nothing was written.")
    if len(set(names)) != len(names):
        raise repeated_table("Nothing was written.")
    # in the order of the workload: the same names in another order give the same release.json
    return tuple(sorted(names, key=positions.__getitem__))


def _listed(workload: Workload, table: str, column: str, labels: Any) -> Any:
    """Return the requested labels; along an order, the values that a range or {"values": […]} selects."""
    definition = workload[table]
    if definition.matrix is not None or isinstance(definition.view(column), (Ranges, Recode)):
        return labels
    attribute = workload.domain[column]
    if not attribute.ordered:
        return labels
    try:
        return [attribute.cell_names[i] for i in Selection.parse(labels).cells(attribute)]
    except DomainError as error:
        reason = f"{error.given} {error.needed}".strip()
        raise _unknown_label(labels, attribute.values, reason, error.action, point=column) from None


def _unknown_label(
    label: Any, labels: Sequence[str | int], reason: str = "", advice: str = "", *, point: str | None = None
) -> ReleaseError:
    """Return the error for a label that no row of a table has."""
    return ReleaseError(
        "unknown-label",
        f"No row is labelled {reprlib.repr(label)}.",
        reason,
        f"{advice} Choose from {reprlib.repr(list(labels))}.".lstrip(),
        _UNSUMMED,
        place=point,
    )


def _choose(row_names: Sequence[Code], labels: Any, labels_shown: Sequence[Code] = ()) -> Floats:
    """Return 1 at the requested labels and 0 elsewhere. The label True is not the label 1.

    Args:
        row_names: The names of the rows: labels, or codes if a label is repeated.
        labels: The requested label or labels.
        labels_shown: The labels of the rows; none if these are the names.
    """
    several = isinstance(labels, Iterable) and not isinstance(labels, str)
    chosen = np.zeros(len(row_names))
    places: dict[tuple[bool, object], list[int]] = {}
    for i, x in enumerate(row_names):
        # in Python True equals 1 and has its hash, so the key states which of the two it is
        places.setdefault((isinstance(x, bool), x), []).append(i)
    counts = Counter(labels_shown)
    for i, label in enumerate(labels_shown):
        if counts[label] == 1:
            places.setdefault((isinstance(label, bool), label), [i])
    for label in labels if several else [labels]:
        try:
            indices = places[isinstance(label, (bool, np.bool_)), label]
        except (KeyError, TypeError):  # a value that cannot be hashed is no label
            is_repeated = isinstance(label, str) and counts[label] > 1
            reason = "The label belongs to several codes, so the code names the row." if is_repeated else ""
            raise _unknown_label(label, row_names, reason) from None
        chosen[indices] = 1
    return chosen


def _above(workload: Workload, table: str, level: str, places: Any) -> tuple[str, Floats]:
    """Return the column that shows places below a level, and 1 at places in the requested ones, 0 elsewhere."""
    domain, t = workload.domain, workload[table]
    for a in t.attributes if level in domain else ():
        above, depth = domain[level], domain.depth(a)
        is_same_home = domain.attribute_of(a) == domain.attribute_of(level) and t.view(a).is_by_value
        tree = domain[domain.attribute_of(level)].tree
        if is_same_home and tree is not None and above.depth < depth:
            return a, _choose(above.values, places)[tree.above(above.depth, depth)]
    columns = list(t.labels(domain))
    raise ReleaseError(
        "unknown-column",
        f"Table {table!r} has no column {level!r}.",
        "",
        f"Choose one of {columns}." if columns else f"Leave {level!r} out: the table shows one number.",
        _UNSUMMED,
        place=level,
    )


def _refuse_overlap(column: str, view: View, attribute: Attribute, chosen: Floats) -> None:
    """Raise ReleaseError if some of the rows chosen count the same records."""
    often = view.operator(attribute).rmv(chosen)  # the number of chosen rows that count each cell
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


def release_identity(release: Release) -> dict[str, str]:
    """Return the digests that distinguish a release from all others, as documents of derived tables state them.

    Args:
        release: The release.
    """
    return {"plan": release.plan.hash, "answers": answers_digest(release.answers)}


def superseded_pairs(releases: Sequence[Release]) -> tuple[Message, ...]:
    """Return a warning for each of some releases that supersedes another one of them.

    Args:
        releases: The releases.
    """
    entries = {r.entry for r in releases}
    return tuple(
        Message(
            "report.supersedes.both",
            (
                Value("later", r.entry.sequence),
                Value("earlier", earlier.message(), ValueKind.MESSAGE),
            ),
        )
        for r in releases
        for earlier in r.supersedes
        if r.entry is not None and earlier.entry in entries
    )


def drawn_digest(release: Release) -> str:
    """Return the SHA-256 by which a ledger names the noisy answers and the outputs of finite questions of a release.

    Args:
        release: The release. For a series, the digest is that of the last period.
    """
    if release.plan.full_series is not None:
        return period_digests(release)[-1]
    return answers_digest([*release.answers, *(np.array([o]) for o in release.outputs)])


def period_digests(release: Release) -> list[str]:
    """Return the SHA-256 by which a ledger names the noisy answers of each period of a series, first period first.

    Args:
        release: The release of the series, for its periods so far.
    """
    periods = parted(release.plan.table_part, release.answers, len(release.plan.periods))
    return [answers_digest(answers) for answers in periods]


def outputs_digest(outputs: Iterable[int]) -> str:
    """Return the SHA-256 of the drawn outputs of finite questions: their decimals, a line feed between two."""
    return hashlib.sha256("\n".join(map(str, outputs)).encode("ascii")).hexdigest()


def finite_csv(release: Release) -> str:
    """Return the answers to finite questions as CSV, one line for every part: question, part, value, moe, hit_rate.

    If an answer is by ranks, the column rank_moe follows.
    """
    answers = release.finite.values()
    ranked = any(a.rank_moe is not None for a in answers)
    rows = [["question", "part", "value", "moe", "hit_rate", *["rank_moe"] * ranked]]
    for a in answers:
        moe, rank_moe = ("" if x is None else f"{x:.15g}" for x in (a.moe, a.rank_moe))
        hit_rate = "" if a.hit_rate is None else f"{a.hit_rate:.{DECIMALS}f}"
        cells, name = [moe, hit_rate, *[rank_moe] * ranked], field(a.name)
        rows += [[name, str(i), field(v), *cells] for i, v in enumerate(a.parts, 1)]
    return "".join(",".join(row) + "\n" for row in rows)


def _plain_label(label: Any) -> Any:
    """Return NumPy scalars in labels as plain values."""
    return tuple(as_python(x) for x in label) if isinstance(label, tuple) else as_python(label)


@final
@dataclass(frozen=True, eq=False)
class _PlaceColumn:
    """A column with the place of every noisy answer, which takes the memory of the sectors and measured margins.

    starts: The first answer of each sector or measured margin, and the number of all answers.
    is_row: True for the number of the answer's row in its sector or margin, False for the number of this sector.
    """

    starts: Exact
    is_row: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """64-bit integers."""
        return np.dtype(np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, rows: slice, /) -> Exact:
        """Return the places of consecutive answers."""
        start, stop, _ = rows.indices(len(self))
        begin, end = np.searchsorted(self.starts, start, "right") - 1, np.searchsorted(self.starts, stop, "left")
        numbers = np.diff(self.starts[begin : end + 1].clip(start, stop))
        if self.is_row:
            return np.asarray(np.arange(start, stop) - np.repeat(self.starts[begin:end], numbers))
        return np.repeat(np.arange(begin, end), numbers)


def _places(plan: Plan) -> dict[str, _PlaceColumn]:
    """Return for every noisy answer the number of its sector or measured margin, and of its row there."""
    starts = np.cumsum(np.concatenate([[0], *(p.strategy.portions for p in plan.groups)]))
    return {"sector": _PlaceColumn(starts, is_row=False), "row": _PlaceColumn(starts, is_row=True)}
