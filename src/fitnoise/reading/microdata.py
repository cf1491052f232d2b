"""Invented records whose tables are close to the integer tables of a release. Post-processing without cost.

The records show nothing that the tables do not show. fitnoise states the distance of every table, and a warning with
every output: no statement is possible about any other statistic. If one table shows all attributes, the records are
its expansion, and exact. Otherwise they come from a search (:mod:`fitnoise.solving.invented_records`).

NAME.microdata.json lies next to a file of records. It has the warning, the distances, the number of batches, and two
SHA-256: of the integer tables, and of the file. Verification counts the tables of the file again, and does not search.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fitnoise.algebra import rules
from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices, Integers
from fitnoise.kernel.checks import is_integer
from fitnoise.kernel.domain import JointAxis
from fitnoise.mechanisms.documents import disagreements, parse
from fitnoise.messages import COMPLETE_LANGUAGES, Message, Value, ValueKind, translator
from fitnoise.planning.files import replace_file, unreadable_file
from fitnoise.reading.integer_tables import IntegerTables
from fitnoise.reading.parquet import pieces
from fitnoise.reading.parquet import read as read_columns
from fitnoise.reading.refusals import UNWRITTEN
from fitnoise.reading.release import release_identity
from fitnoise.reading.release_files import check_new_file, csv_pieces, field, read_companion, to_json
from fitnoise.reading.table_overlap import CountColumn, LeafPartition, TableOverlap, home_and_leaves
from fitnoise.request.arguments import checked
from fitnoise.request.attributes import CODE, Attribute
from fitnoise.request.domain import Domain
from fitnoise.request.joint_axes import axis_name, without_classes
from fitnoise.request.joint_cells import lowest_names
from fitnoise.request.workloads import Table, list_names
from fitnoise.solving.invented_records import CountTable, PossibleValues, expand, invent, sort_records

FORMAT = 1
"""The version of the written document."""

FORMATS = (".parquet", ".csv")
"""The endings of files of records."""

MAX_RECORDS = 20_000_000
"""The largest number of records that are made."""

MAX_SHARE_OUTSIDE = 0.05
"""The largest share of numbers more than one margin from the integer tables, unless the caller accepts more."""

MAX_WEIGHT = 1024
"""The weight of the table with the smallest margins; the other weights are in proportion, and integers."""

KEYS = (
    "fitnoise_microdata",
    "warning",
    "plan",
    "answers",
    "integer_tables",
    "at_most",
    "columns",
    "records",
    "batches",
    "seconds",
    "anyway",
    "share_outside_margin",
    "tables",
    "separate_pairs",
    "grouped_pairs",
    "file",
)
"""Keys of the document, in this order."""

UNINVENTED = "No records were made."


@final
@dataclass(frozen=True, eq=False)
class _Target:
    """One of the integer tables, which the records should meet.

    counted: The table by its atoms, as the search compares it with the records.
    rows: For each column the matrix from atoms to rows; None if they are the same.
    integers, unbiased, margins: The numbers of the table, each in its shape.
    """

    name: str
    counted: CountTable
    rows: tuple[Floats | None, ...]
    integers: Integers
    unbiased: Floats
    margins: Floats

    def distances(self, values: Indices) -> tuple[Floats, Floats]:
        """Return the differences of the records' table from integers and unbiased numbers, in margins, flat."""
        counts = self.counted.tally(values).astype(np.float64)
        for i, matrix in enumerate(self.rows):
            if matrix is not None:
                counts = np.moveaxis(np.tensordot(matrix, counts, axes=(1, i)), 0, i)
        return tuple(((counts - x) / self.margins).ravel() for x in (self.integers, self.unbiased))  # type: ignore[return-value]  # two numbers, two arrays


@final
@dataclass(frozen=True, eq=False)
class _RecordColumn:
    """A column of the records.

    axis: The attribute, by its number.
    labels: The label of every value of the attribute.
    """

    name: str
    axis: int
    labels: NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class _TableColumn:
    """A column of a table."""

    table: Table
    name: str
    column: CountColumn

    def refines(self, other: _TableColumn) -> bool:
        """Return True if every atom of another column of the attribute is a union of atoms of this one."""
        return other.column.parts.map_groups(self.column.parts.group_index) is not None


@final
class RecordSpace:
    """The attributes of invented records, their columns, and the tables that they should meet.

    Args:
        tables: The integer tables.

    Attributes:
        tables: The integer tables.
        sizes: The number of values of each attribute.
        columns: The columns of the records.
        targets: The tables as they are compared with records.
        records: The number of records.

    Raises:
        ReleaseError: No records can be made from these tables.
    """

    def __init__(self, tables: IntegerTables) -> None:
        if len(tables.releases) > 1:
            raise ReleaseError(
                "microdata-of-several-releases",
                f"The integer tables are of {len(tables.releases)} releases.",
                "Records are made from the tables of one release.",
                "Make integer tables of one release.",
                UNINVENTED,
            )
        self.tables = tables
        self._domain = self._records_domain()
        columns_by_table = [self._table_columns(name) for name in tables]
        by_home: dict[str, list[_TableColumn]] = {}
        for column in itertools.chain(*columns_by_table):
            by_home.setdefault(column.column.home, []).append(column)
        homes = [*dict.fromkeys(home for a in self._domain if (home := self._home(a)) in by_home)]
        attributes = {self._domain.attribute_of(x.name) for x in itertools.chain(*columns_by_table)}
        if len(attributes) < 2:
            raise ReleaseError(
                "microdata-of-one-attribute",
                "The integer tables show no attribute." if not homes else f"They show only {homes[0]!r}.",
                "Microdata need two attributes or more.",
                "Make integer tables of more attributes.",
                UNINVENTED,
            )
        finest = [self._finest(home, by_home[home]) for home in homes]
        self.names = tuple(x.name for x in finest)
        axes = dict(zip(homes, range(len(homes)), strict=True))
        self._first_leaves = [np.unique(self._leaves(x.name), return_index=True)[1] for x in finest]
        self.sizes = tuple(map(len, self._first_leaves))
        self.targets = self._make_targets(columns_by_table, axes)
        self.columns = tuple(self._make_columns(by_home, homes, finest))
        complete = next((t for t in self.targets if t.counted.is_complete), None)
        if complete is None:
            raise ReleaseError(
                "microdata-without-total",
                "Every integer table leaves out some records.",
                "The number of records must be known.",
                "Make integer tables that include one with every value of its attributes.",
                UNINVENTED,
            )
        self.records = int(complete.counted.counts.sum())
        if self.records > MAX_RECORDS:
            raise ReleaseError(
                "too-many-records",
                f"The tables count {self.records:,} records.",
                f"At most {MAX_RECORDS:,} are made at once.",
                "Use the tables instead.",
                UNINVENTED,
            )

    def _records_domain(self) -> Domain:
        """Return the domain of the tables, with the joint axes whose cells one column of the records shows.

        The other attributes of such an axis follow from this column. Without it, or if one table shows several of them,
        each attribute has its own values.
        """
        workloads = [self.tables.publication(name).workload for name in self.tables]
        tables = [workload[name] for name, workload in zip(self.tables, workloads, strict=True)]
        domain = without_classes(workloads[0].domain)
        by_value = {a for t in tables for a in t.attributes if t.view(a).is_by_value}

        def is_column(joint: JointAxis) -> bool:
            homes = domain.axes.attributes_of(joint.name)
            counts = (sum(domain.attribute_of(a) in homes for a in t.attributes) for t in tables)
            return axis_name(domain, joint) in by_value and max(counts) == 1

        return domain.with_joint_axes(filter(is_column, domain.axes.joint.values()))

    def _home(self, name: str) -> str:
        """Return the attribute, hierarchy or joint axis to which an attribute or level belongs."""
        return home_and_leaves(self._domain, name)[0]

    def _leaves(self, name: str) -> Indices:
        """Return the cell of an attribute or level for each leaf of its home."""
        return home_and_leaves(self._domain, name)[1]

    def _table_columns(self, name: str) -> list[_TableColumn]:
        """Return the columns of a table; refuse amounts."""
        table = self.tables.publication(name).workload[name]
        ((*columns,),) = TableOverlap.from_tables(self._domain, [table]).tables
        for column in columns:
            if column.home in self._domain.steps:
                raise ReleaseError(
                    "microdata-of-amounts",
                    f"Table {name!r} shows the amount {column.home!r}.",
                    "No table shows the values between the ends of an amount.",
                    "Make integer tables without it.",
                    UNINVENTED,
                    place=name,
                )
        return [_TableColumn(table, a, x) for a, x in zip(table.attributes, columns, strict=True)]

    def _finest(self, home: str, columns: Sequence[_TableColumn]) -> _TableColumn:
        """Return a column that shows every value that another column of the attribute distinguishes."""
        for one in columns:
            if one.column.parts == LeafPartition(self._leaves(one.name)) and all(
                one.refines(other) for other in columns
            ):
                return one
        raise ReleaseError(
            "microdata-without-values",
            f"No integer table shows every value of {home!r}.",
            "Records need values, and not only groups of values.",
            f"Add a table that shows {home!r} by value, or leave out the tables with {home!r}.",
            UNINVENTED,
            place=home,
        )

    def _make_targets(
        self, columns_by_table: Sequence[Sequence[_TableColumn]], axes: Mapping[str, int]
    ) -> tuple[_Target, ...]:
        """Return the tables with at least one column."""
        with_columns = [(name, columns) for name, columns in zip(self.tables, columns_by_table, strict=True) if columns]
        means = [float(self.tables.unbiased(name)[1].mean()) for name, _ in with_columns]
        smallest = min((x for x in means if x), default=1.0)
        # The numbers of a table share one weight. Integer weights make the search exact. A table without margins is one
        # of public totals, which the search keeps, or of zeros.
        weights = [max(1, round(MAX_WEIGHT * (smallest / (mean or smallest)) ** 2)) for mean in means]
        return tuple(self._target(*x, axes, weight) for x, weight in zip(with_columns, weights, strict=True))

    def _target(self, name: str, columns: Sequence[_TableColumn], axes: Mapping[str, int], weight: int) -> _Target:
        overlap = TableOverlap.from_tables(self._domain, [columns[0].table])
        unbiased, margins = self.tables.unbiased(name)
        # A number without noise has a margin of 0. It is compared in the smallest other margin, or else in records.
        margins = np.where(margins > 0, margins, margins[margins > 0].min() if margins.any() else 1.0)
        integers = self.tables[name]["value"].to_numpy().reshape(unbiased.shape)
        atoms = overlap.atoms(0)
        counts = integers if atoms is None else np.rint(atoms @ integers.ravel()).astype(np.int64)
        home_axes = tuple(axes[x.column.home] for x in columns)
        cells = tuple(x.column.atom_index[self._first_leaves[axis]] for x, axis in zip(columns, home_axes, strict=True))
        shape = tuple(x.column.atoms for x in columns)
        counted = CountTable(home_axes, cells, np.asarray(counts.reshape(shape)), weight)
        return _Target(name, counted, tuple(map(self._rows, columns)), integers, unbiased, margins)

    def _rows(self, table_column: _TableColumn) -> Floats | None:
        """Return the matrix from atoms to rows of a column."""
        view, column = table_column.table.view(table_column.name), table_column.column
        if column.rows_from_atoms is not None:
            return column.rows_from_atoms.toarray()
        if view.is_by_value:
            return None
        # the values of an atom are in the same rows, so one value stands for all of them
        which, first_leaves = np.unique(table_column.column.atom_index, return_index=True)
        cells = self._leaves(table_column.name)[first_leaves[which >= 0]]
        return np.asarray(rules.dense(view.operator(self._domain[table_column.name]))[:, cells], dtype=np.float64)

    def _make_columns(
        self, by_home: Mapping[str, Sequence[_TableColumn]], homes: Sequence[str], finest: Sequence[_TableColumn]
    ) -> Iterator[_RecordColumn]:
        """Yield the columns: each attribute and level that the records determine, and its codes, if it has labels."""
        order = {a: i for i, a in enumerate(self._domain)}
        for axis, (home, column, first_leaves) in enumerate(zip(homes, finest, self._first_leaves, strict=True)):
            home_names = {x.name for x in by_home[home]}
            for name in sorted(home_names, key=lambda x: (order[self._domain.attribute_of(x)], self._domain.depth(x))):
                cells = self._leaves(name)
                # a level below the values of the records is not determined
                if LeafPartition(cells).map_groups(column.column.parts.group_index) is None:
                    continue
                attribute = self._domain[name]
                yield _RecordColumn(name, axis, _typed(attribute.values)[cells[first_leaves]])
                if codes := attribute.further_columns.get(CODE):
                    yield _RecordColumn(f"{name}_{CODE}", axis, _typed(codes)[cells[first_leaves]])

    @cached_property
    def rules(self) -> list[PossibleValues]:
        """The possible values of the attributes of rules about impossible cells; each attribute is in one of them."""
        domain = self._domain
        where = {x.name: x.axis for x in self.columns if x.name in domain}
        lowest = lowest_names(domain, where)
        rules = list[PossibleValues]()
        for one in domain.ruled_cells:
            names = [lowest[home] for home in map(domain.attribute_of, one.names) if home in lowest]
            # several attributes of one column have one axis, so rules can share it
            shared = [x for x in rules if not {where[name] for name in names}.isdisjoint(x.axes)]
            axes = sorted({where[name] for name in names}.union(*(x.axes for x in shared)))
            index = np.ix_(*(np.arange(self.sizes[axis]) for axis in axes))
            by_axis = dict(zip(axes, index, strict=True))
            cells = (self._leaves(a)[self._first_leaves[where[a]]][by_axis[where[a]]] for a in names)
            possible = one.possible_among(domain, names)[tuple(cells)]
            for other in shared:
                possible = possible & other.possible[tuple(by_axis[axis] for axis in other.axes)]
            possible = np.broadcast_to(possible, [self.sizes[axis] for axis in axes])
            rules = [*(x for x in rules if x not in shared), PossibleValues(tuple(axes), possible)]
        return rules

    def check_totals(self) -> None:
        """Refuse public totals that count a record, if no possible record has its values."""
        if self.public is None:
            return
        axis_cells, records = self.public.expanded(), int(self.public.counts.sum())
        impossible = np.zeros(records, dtype=bool)
        for cells, record_cells in axis_cells.values():
            impossible |= ~np.isin(record_cells, cells)
        for rule in self.rules:
            kinds, kind_of = rule.restrict(axis_cells, records)
            impossible |= ~kinds[kind_of, 0]
        if impossible.any():
            raise ReleaseError(
                "microdata-impossible",
                f"The public totals count {int(impossible.sum()):,} records with values that no possible record has.",
                "The rules of the plan must leave a record for every total.",
                "Make integer tables of a release whose public totals follow the rules.",
                UNINVENTED,
            )

    def attribute(self, name: str) -> Attribute:
        """Return the attribute or level of a column."""
        attribute: Attribute = self._domain[name]
        return attribute

    @cached_property
    def public(self) -> CountTable | None:
        """The public totals by the attributes that the tables show; None without public totals."""
        totals, homes = self.tables.release.public_totals, [self._home(finest) for finest in self.names]
        public = self.tables.publication(next(iter(self.tables))).public_attributes or ()
        shared = [a for a in public if self._home(a) in homes]
        if totals is None or not shared:
            return None
        away = tuple(i for i, a in enumerate(public) if a not in shared)
        axes = list(dict.fromkeys(homes.index(self._home(a)) for a in shared))
        numbers, cells, order, shape = totals.numbers.sum(axis=away), [], [], []
        for axis in axes:
            names = [a for a in shared if homes.index(self._home(a)) == axis]
            sizes = [self._domain[a].size for a in names]
            columns = [self._leaves(a)[self._first_leaves[axis]] for a in names]
            cells.append(np.ravel_multi_index(columns, sizes))
            order += [shared.index(a) for a in names]
            shape.append(math.prod(sizes))
        counts = np.rint(numbers.transpose(order)).astype(np.int64).reshape(shape)
        return CountTable(tuple(axes), tuple(cells), counts)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the document of the integer tables, as it is written."""
        return hashlib.sha256(to_json(self.tables.document()).encode()).hexdigest()

    @cached_property
    def separate_pairs(self) -> list[tuple[str, str, bool]]:
        """The pairs of attributes in no common table; True if other attributes link them."""
        pairs = {pair for t in self.targets for pair in itertools.product(t.counted.axes, repeat=2)}
        rows, columns = np.array(sorted(pairs)).T
        n = len(self.sizes)
        graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
        part = connected_components(graph, directed=False)[1]
        separate = [pair for pair in itertools.combinations(range(n), 2) if pair not in pairs]
        return [(self.names[i], self.names[j], bool(part[i] == part[j])) for i, j in separate]

    @cached_property
    def grouped_pairs(self) -> list[tuple[str, str]]:
        """The pairs of attributes in common tables, none of which shows both by value."""
        displayed, by_value = set[tuple[int, int]](), set[tuple[int, int]]()
        for table in (t.counted for t in self.targets):
            displayed.update(itertools.combinations(sorted(set(table.axes)), 2))
            axes = {axis for column, axis in enumerate(table.axes) if table.is_each_value(column)}
            by_value.update(itertools.combinations(sorted(axes), 2))
        return [(self.names[i], self.names[j]) for i, j in sorted(displayed - by_value)]

    @cached_property
    def full_table(self) -> CountTable | None:
        """The first table that shows all attributes by value, whose expansion is exact; None without such a table."""
        axes = list(range(len(self.sizes)))
        tables = (target.counted for target in self.targets)
        return next((t for t in tables if sorted(t.axes) == axes and all(map(t.is_each_value, axes))), None)

    def columns_of(self, values: Indices) -> dict[str, NDArray[Any]]:
        """Return the columns of records.

        values: The value of each attribute for each record, (attributes, records).
        """
        return {x.name: x.labels[values[x.axis]] for x in self.columns}


def _typed(labels: Sequence[Any]) -> NDArray[Any]:
    """Return labels as an array of one type: numbers mixed with texts become texts, as in the tables of a release."""
    one = len(set(map(type, labels))) == 1
    kind: Any = {bool: np.bool_, int: np.int64}.get(type(labels[0]), object) if one else object
    return np.array(labels if one else list(map(str, labels)), dtype=kind)


@final
@dataclass(frozen=True, eq=False)
class InventedRecords:
    """Records made from integer tables, with the distances of their tables.

    values: The value of each attribute for each record, (attributes, records), sorted.
    batches: The number of batches of the search; 0 without a search, or if the search made no move.
    seconds: The time of the search.
    anyway: True if the caller accepts any distance from the tables.
    """

    space: RecordSpace
    values: Indices
    batches: int
    seconds: float
    anyway: bool

    @cached_property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of the records."""
        return self.space.columns_of(self.values)

    @property
    def is_expansion(self) -> bool:
        """True if the records are the expansion of one table, without a search."""
        return self.space.full_table is not None

    @cached_property
    def _distances(self) -> list[tuple[Floats, Floats]]:
        return [target.distances(self.values) for target in self.space.targets]

    @cached_property
    def share_outside(self) -> float:
        """The share of numbers that are more than one margin from the integer tables."""
        return float((np.abs(np.concatenate([x for x, _ in self._distances])) > 1).mean())

    @property
    def is_far(self) -> bool:
        """True if the records are so far from the integer tables that the caller must accept them."""
        return self.share_outside > MAX_SHARE_OUTSIDE

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The distances of each table from the integer tables and from the released numbers, in margins."""
        return [
            {"table": target.name, "from_integers": _summary(x), "from_released": _summary(y)}
            for target, (x, y) in zip(self.space.targets, self._distances, strict=True)
        ]

    @cached_property
    def warnings(self) -> tuple[Message, ...]:
        """The sentences that go with every output."""
        fraction = Value("share", self.share_outside, ValueKind.PROPORTION)
        out = [Message("report.microdata.far", (fraction,)) if self.is_far else Message("report.microdata.warning")]
        for is_linked, text in (
            (False, "report.microdata.independent"),
            (True, "report.microdata.linked"),
        ):
            pairs = [_pair(one, other) for one, other, linked in self.space.separate_pairs if linked is is_linked]
            if pairs:
                out.append(Message(text, (Value("pairs", pairs, ValueKind.MESSAGE),)))
        if self.space.grouped_pairs:
            pairs = [_pair(one, other) for one, other in self.space.grouped_pairs]
            out.append(Message("report.microdata.grouped", (Value("pairs", pairs, ValueKind.MESSAGE),)))
        return tuple(out)

    @cached_property
    def warning(self) -> dict[str, str]:
        """The text of the warnings by language."""
        return {x: " ".join(map(translator(x).write, self.warnings)) for x in COMPLETE_LANGUAGES}

    def document(self, file: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the content of the document next to the records.

        file: Name and SHA-256 of the file of the records; None if there is no file.
        """
        release = self.space.tables.release
        pairs = [{"attributes": [x, y], "linked": linked} for x, y, linked in self.space.separate_pairs]
        values = (
            FORMAT,
            {"ids": [x.id for x in self.warnings], **self.warning},
            *release_identity(release).values(),
            self.space.digest,
            self.space.tables.at_most,
            list(self.columns),
            self.values.shape[1],
            self.batches,
            self.seconds,
            self.anyway,
            self.share_outside,
            self.rows,
            pairs,
            list(map(list, self.space.grouped_pairs)),
            None if file is None else dict(file),
        )
        return dict(zip(KEYS, values, strict=True))

    def pieces(self, path: Path) -> Iterator[bytes]:
        """Yield the bytes of the file of the records, by the ending of its name."""
        if path.suffix.lower() == ".csv":
            yield from (text.encode() for text in csv_pieces(self.columns, fixed=()))
            return
        metadata = {f"warning.{code}": text for code, text in self.warning.items()}
        metadata["tables"] = json.dumps(list(self.space.tables))
        yield from pieces(self.columns, metadata)

    def frame(self) -> pd.DataFrame:
        """Return the records as a frame, with the warning and the document in its attributes."""
        frame = pd.DataFrame(self.columns)
        frame.attrs = {"warning": self.warning[COMPLETE_LANGUAGES[0]], "microdata": self.document()}
        return frame


def _pair(one: str, other: str) -> Message:
    return Message("report.microdata.pair", (Value("one", one), Value("other", other)))


def _summary(distances: Floats) -> dict[str, float]:
    """Return the summary of distances in margins."""
    size = np.abs(distances)
    return {
        "rms": float(np.sqrt((size**2).mean())),
        "largest": float(size.max()),
        "share_within_1": float((size <= 1).mean()),
    }


@checked(ReleaseError, UNINVENTED)
def microdata(
    integer_tables: IntegerTables,
    seconds: float = 60.0,
    batches: int | None = None,
    *,
    anyway: bool = False,
    path: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """Invent records whose tables are close to integer tables of a release. Costs no privacy.

    The records are invented. Their tables are close to the integer tables, and nothing is known about any other
    statistic. Use the release for estimates with intervals.

    Args:
        integer_tables: The integer tables of a release. All of them count.
        seconds: The time limit of the search. It may end earlier.
        batches: The number of batches of the search, in place of the time limit. An equal number gives equal records.
        anyway: True to accept records with more than 5 % of the numbers over one margin from the integer tables.
        path: A new file for the records too, in .parquet or .csv. NAME.microdata.json is written next to it.

    Returns:
        One row for each record, sorted: its values and, where values have labels, their codes. `attrs` of the frame has
        the `warning`, and as `microdata` the distance of every table.

    Raises:
        ReleaseError: The tables show fewer than two attributes, an amount, or an attribute only in groups. Or no table
            counts every record, there are more than 20 million records, or the records are far from the tables. Or no
            possible record has the values of a public total. Or a limit is out of range, or the file exists, has
            another ending, or cannot be written.

    **Guarantees**
        * The records depend on published numbers only. They are no records of the data.
        * If one table shows all attributes by value, the records have exactly the tables planned with it.
        * The records have the public totals of the release exactly.
        * Every record is possible by the rules of the plan.
        * Attributes in no common table are independent, or depend on each other through other attributes only. The
          warning names them, and attributes that the tables combine only in groups of values.
        * The stated distances are counted from the records. `fitnoise verify --microdata` counts them again.
        * Records with an equal number of batches are equal on one machine.

    Example:
        `fn.microdata(fn.make_integer_tables(release), seconds=20, path="people.parquet")`
    """
    check_limits(seconds, batches)
    target = None if path is None else Path(path)
    if target is not None:
        check_place(target)
    records = make_records(integer_tables, seconds, batches, anyway=anyway)
    if target is not None:
        write_records(records, target)
    return records.frame()


def make_records(tables: IntegerTables, seconds: float, batches: int | None, *, anyway: bool) -> InventedRecords:
    """Invent records.

    Args:
        tables: The integer tables.
        seconds: The time limit.
        batches: The number of batches in place of the limit.
        anyway: True to accept records far from the tables.

    Raises:
        ReleaseError: No records can be made from these tables, or they are far from the tables. Or no possible record
            has the values of a public total.
    """
    space = RecordSpace(tables)
    start, done = time.monotonic(), 0
    if space.full_table is not None:
        values = expand(space.full_table)
    else:
        space.check_totals()
        counted = [t.counted for t in space.targets]
        values, done = invent(
            space.sizes,
            counted,
            space.records,
            batches=batches,
            seconds=seconds,
            public=space.public,
            rules=space.rules,
        )
    elapsed = time.monotonic() - start
    records = InventedRecords(space, values, done, round(elapsed, 2), anyway)
    if records.is_far and not anyway:
        raise ReleaseError(
            "microdata-far-from-tables",
            f"{records.share_outside:.1%} of the numbers are over one margin from the integer tables.",
            f"At most {MAX_SHARE_OUTSIDE:.0%} may be.",
            f"{_higher_limit(batches, done, seconds, elapsed)} Or accept these records with anyway (--anyway).",
            UNINVENTED,
        )
    return records


def _higher_limit(batches: int | None, done: int, seconds: float, elapsed: float) -> str:
    """Return the advice for records far from their tables: a higher limit, unless the search ended before its limit.

    Args:
        batches: The limit in batches; None for the time limit.
        done: The number of batches that were done.
        seconds: The time limit.
        elapsed: The time of the search, in seconds.
    """
    if batches is not None and done >= batches:
        return f"Allow more than {batches:,} batches."
    if batches is None and elapsed >= seconds:
        return f"Allow more than {seconds:g} seconds."
    return "The search ended before its limit, because progress stalled: make integer tables of fewer tables."


def check_limits(seconds: float, batches: int | None) -> None:
    """Refuse limits of the search that are out of range."""
    if batches is not None and batches < 0:
        raise ReleaseError(
            "wrong-number-of-batches",
            f"The number of batches is {batches}.",
            "It must be 0 or more.",
            "Choose another number.",
            UNINVENTED,
            place="batches",
        )
    if not 0 < seconds < math.inf:
        raise ReleaseError(
            "wrong-time-limit",
            f"The time limit is {seconds!r} seconds.",
            "It must be above 0, and finite.",
            "Choose another number of seconds. A number of batches may take its place.",
            UNINVENTED,
            place="seconds",
        )


# --- on disk ----------------------------------------------------------------------------------------------------------


def document_place(path: Path) -> Path:
    """Return the place of the document of a file of records: next to it."""
    return path.with_name(f"{path.name}.microdata.json")


def check_place(path: Path) -> None:
    """Refuse a name with another ending, and places that exist or where no file can be made."""
    if path.suffix.lower() not in FORMATS:
        endings = " or ".join(FORMATS)
        raise ReleaseError(
            "unknown-microdata-format",
            f"The records are to be written as {path.name!r}.",
            f"They are written as {endings}.",
            f"Choose a name that ends in {endings}.",
            UNWRITTEN,
            place=path.name,
        )
    for target in (path, document_place(path)):
        check_new_file(target)


def write_records(records: InventedRecords, path: Path) -> None:
    """Write the document with the warning, and then the records next to it: both files or none.

    Raises:
        ReleaseError: The name has another ending, a place exists, or a file cannot be written.
    """
    check_place(path)
    raw = b"".join(records.pieces(path))
    file = {"name": path.name, "sha256": hashlib.sha256(raw).hexdigest()}
    # The document is first: if the process is killed between the two, no file of records lacks its warning.
    replace_file(document_place(path), to_json(records.document(file)).encode())
    try:
        replace_file(path, raw)
    except BaseException:  # an interruption, too
        document_place(path).unlink(missing_ok=True)
        raise


# --- checked by anyone ------------------------------------------------------------------------------------------------


@final
class StatedRecords:
    """A file of records with its document, as a stranger gives them.

    Args:
        tables: The integer tables.
        path: The file of records.

    Raises:
        ReleaseError: The document is missing, or is of other integer tables, or has another form.
    """

    def __init__(self, tables: IntegerTables, path: Path) -> None:
        self.space, self.path = RecordSpace(tables), path
        try:
            self._stated = parse(read_companion(path, document_place(path)))
            self._check_identity()
        except (ValueError, TypeError, KeyError):
            raise ReleaseError(
                "microdata-document-damaged",
                f"{document_place(path).name!r} does not describe microdata.",
                "",
                "Bring the file back as it was written.",
                "Nothing was verified.",
                place=document_place(path).name,
            ) from None

    def _check_identity(self) -> None:
        """Raise an error if the document has another form, or is of other tables."""
        stated, release = self._stated, self.space.tables.release
        limits = is_integer(stated["batches"]) and type(stated["seconds"]) is float and type(stated["anyway"]) is bool
        if list(stated) != list(KEYS) or not limits:
            raise ValueError
        identity = {
            "fitnoise_microdata": FORMAT,
            **release_identity(release),
            "integer_tables": self.space.digest,
        }
        if any(stated[key] != value for key, value in identity.items()):
            raise ReleaseError(
                "foreign-microdata",
                "The microdata are of other integer tables, or of another version.",
                "They need the integer tables that they were made of.",
                "Give these integer tables.",
                "Nothing was verified.",
            )

    @cached_property
    def records(self) -> InventedRecords:
        """The records of the file.

        Raises:
            ReleaseError: The file is missing, or holds no records of these attributes.
        """
        stated = self._stated
        values = _read_values(self.space, self.path)
        return InventedRecords(self.space, values, stated["batches"], stated["seconds"], stated["anyway"])

    @cached_property
    def _sha256(self) -> str:
        if not self.path.is_file():  # to open a pipe would wait for a writer
            raise unreadable_file(self.path)
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def check_file(self) -> Message | None:
        """Return the fault if the file is not, byte for byte, what fitnoise writes for its records."""
        digest, name = hashlib.sha256(), Value("file", self.path.name, ValueKind.CODE)
        stated = self._stated["file"]
        if stated != {"name": self.path.name, "sha256": self._sha256}:
            former = stated.get("name") if isinstance(stated, dict) else None
            if isinstance(former, str) and stated == {"name": former, "sha256": self._sha256}:
                return Message("report.fault.file_renamed", (name, Value("name", former, ValueKind.CODE)))
            return Message("report.fault.export_hash", (name,))
        for piece in self.records.pieces(self.path):
            digest.update(piece)
        return None if digest.hexdigest() == self._sha256 else Message("report.fault.file", (name,))

    def check_tables(self) -> Message | None:
        """Return the fault if the tables of the records, counted again, are not as the document states."""
        implied = self.records.document({"name": self.path.name, "sha256": self._sha256})
        # the file has a check of its own
        places = disagreements({**self._stated, "file": None}, {**implied, "file": None})
        return Message("report.fault.microdata", (Value("places", places[:5]),)) if places else None


def _read_values(space: RecordSpace, path: Path) -> Indices:
    """Return the values of the records in a file, sorted.

    Raises:
        ReleaseError: The file is missing, or holds no records of these attributes.
    """
    # codes where two values have one label
    attributes = {name: space.attribute(name) for name in space.names}
    keys = {name if a.cell_names == a.values else f"{name}_{CODE}" for name, a in attributes.items()}
    key_columns = [x for x in space.columns if x.name in keys]
    is_csv = path.suffix.lower() == ".csv"
    columns = _read_csv(space, path) if is_csv else _read_parquet(space, path)
    try:
        if list(columns) != [x.name for x in space.columns]:
            raise KeyError
        values = np.empty((len(space.sizes), space.records), dtype=np.intp)
        for column in key_columns:
            labels = column.labels.tolist()
            if is_csv:
                labels = list(map(_text_in_csv, labels))
            position = dict(zip(labels, range(len(labels)), strict=True))
            values[column.axis] = [position[x] for x in columns[column.name]]
    except (KeyError, ValueError, TypeError):
        raise ReleaseError(
            "wrong-microdata-file",
            f"{path.name!r} does not hold {space.records:,} records of {list_names(list(space.names))}.",
            "",
            "Bring the file back as it was written.",
            "Nothing was verified.",
            place=path.name,
        ) from None
    return sort_records(values)


def _read_parquet(space: RecordSpace, path: Path) -> Mapping[str, Sequence[Any]]:
    longest = max(len(str(x).encode()) for column in space.columns for x in column.labels.tolist())
    columns = read_columns(path, space.records, longest)[0]
    return {name: x.tolist() for name, x in columns.items()}


def _text_in_csv(label: Any) -> str:
    """Return a label as the reader of a CSV file gives it back."""
    return next(csv.reader([field(label)]))[0]


def _read_csv(space: RecordSpace, path: Path) -> Mapping[str, Sequence[Any]]:
    """Return the texts of each column; at most one record too many, so that memory follows from the tables."""
    if not path.is_file():  # to open a pipe would wait for a writer
        raise unreadable_file(path)
    names = [x.name for x in space.columns]
    longest = sum(max(len(field(x).encode()) + 1 for x in column.labels.tolist()) for column in space.columns)
    header = len(",".join(map(field, names)).encode()) + 1
    try:
        if path.stat().st_size > header + space.records * longest:
            return {}
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header_row, body = next(rows, []), list(rows)
    except (OSError, UnicodeDecodeError, csv.Error):
        raise unreadable_file(path) from None
    is_right = header_row == list(map(_text_in_csv, names)) and {len(names)}.issuperset(map(len, body))
    return {name: [row[i] for row in body] for i, name in enumerate(names)} if is_right else {}
