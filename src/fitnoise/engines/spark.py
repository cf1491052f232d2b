"""Counting inside Spark: a table that a session knows, classic or Connect, or a DataFrame.

**Purpose.** The session runs the statement of databases; only counts leave Spark, and no records.

**Isolation.** The module changes nothing that others use, so that counts of several threads cannot undo each other's
settings. It counts a table in a new session with the caller's settings. It overrides settings with which Spark would
read a part of the records without an error. A DataFrame belongs to its session, and Spark Connect before PySpark 4.3
makes no new one: there the module reads these settings, and refuses unsafe ones. PySpark's own loggers would repeat
errors, which may quote a value; the module filters them for this call.

**Stability.** A table is read in its place. A DataFrame is a query, which may return other records each time that it
runs. So it runs once, for the columns that are needed, and its result is stored in the cluster until it is counted.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from fitnoise.engines.dialects import SPARK, Dialect
from fitnoise.engines.sources import Columns, not_counted, quietly
from fitnoise.engines.views import ROW_WISE, FoundView, NotProvenError, attempted, not_proven
from fitnoise.errors import DataError
from fitnoise.kernel.counting.trial import ColumnKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ADDRESS: Final = "spark:"
"""The prefix of data that are a table of Spark."""

_ADVICE = "Ask the owner of the cluster whether it is running, and whether you may read the table."

_NOTHING = "Nothing was read and nothing was charged."

_UNCHARGED = "Nothing was measured and nothing was charged."

_ROWS_PER_FETCH = 2**14
"""The number of rows fetched at a time."""

_SETTINGS = {
    # Files that cannot be read, and folders that are no partitions, must be errors: Spark could skip their records.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    # Early dates are read as stored, and not moved from the Julian to the Gregorian calendar.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    # The digest of a record joins bytes, and its input must stay bytes.
    "spark.sql.function.concatBinaryAsString": "false",
    # Spark would replace a name that holds "${…}" by the value of a variable.
    "spark.sql.variable.substitute": "false",
}
"""The settings that the statement needs."""

_STRICT = "EXCEPTION"
"""The value of a setting for early dates with which Spark refuses them, which is as safe as what is set here."""

_SUBSTITUTION = "spark.sql.variable.substitute"
"""A setting that changes names alone. Columns of a DataFrame have names of our own."""

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
"""The loggers by which PySpark repeats errors, which may quote a value."""

_counting: ContextVar[bool] = ContextVar("_counting", default=False)
"""True while this call counts: no one receives PySpark's log lines meanwhile."""

_STORED = ("parquet", "orc", "avro", "delta", "iceberg")
"""Formats in which every record stands for itself."""

_STEPS = frozenset({"Project", "Filter", "SubqueryAlias", "View", "LogicalRelation"})
"""Spark's names for the steps of a row-wise query."""

_EXPRESSIONS = frozenset({
    "AttributeReference", "Alias", "Literal", "Cast", "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan",
    "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "In", "IsNull", "IsNotNull", "Add", "Subtract",
    "Multiply", "Divide", "Remainder", "UnaryMinus", "Abs", "CaseWhen", "If", "Coalesce", "Concat", "Upper", "Lower",
    "Substring", "StringTrim", "Length",
})  # fmt: skip
"""Spark's names for the expressions of a row-wise query."""

_TABLES = ("MANAGED", "EXTERNAL")
"""Spark's names for the kinds of stored tables."""

_KINDS = {
    "ByteType": ColumnKind.INTEGER, "ShortType": ColumnKind.INTEGER, "IntegerType": ColumnKind.INTEGER,
    "LongType": ColumnKind.INTEGER,
    "FloatType": ColumnKind.DOUBLE, "DoubleType": ColumnKind.DOUBLE, "DecimalType": ColumnKind.DECIMAL,
    "StringType": ColumnKind.TEXT,
    "VarcharType": ColumnKind.TEXT, "CharType": ColumnKind.FIXED, "BooleanType": ColumnKind.TRUTH,
    "DateType": ColumnKind.DATE, "TimestampNTZType": ColumnKind.STAMP,
}  # fmt: skip

_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key that states that a column of texts was declared CHAR(n)."""


@final
@dataclass(frozen=True)
class Spark:
    """A session of Spark, and one of its DataFrames, if that is counted.

    spark: The session of the caller.
    frame: The DataFrame that is counted; `None` for a table.
    name: The name of the table, if the address states it; otherwise the specification does.
    """

    spark: SparkSession
    frame: DataFrame | None = None
    name: str | None = None
    dialect: ClassVar[Dialect] = SPARK
    what: ClassVar[str] = SPARK.label

    @contextlib.contextmanager
    def session(self, table: str | None, promise: str | None = None) -> Iterator[SparkTable]:
        """Yield the table, in a session with the settings that the statement needs.

        A view is counted as its DataFrame.

        Args:
            table: The name of the table or view.
            promise: The promise of the publisher about a view or a DataFrame (`DataSource.view`).

        Raises:
            DataError: Spark cannot be reached, or there is no such table.
            DataError: The table is a stream or of a format that is not read.
            DataError: It is a view or a DataFrame of which nothing is proved and nothing promised.
            DataError: The count runs in the caller's own session, and a setting there is not safe before or after it.

        **Guarantees**: The call changes no setting of the caller's session, no log level, and no logger except
        PySpark's own.
        """
        unreached = DataError("spark-not-reached", "Spark cannot be reached.", "", _ADVICE, _UNCHARGED)
        undescribed = DataError("spark-not-described", "Spark cannot describe the table.", "", _ADVICE, _UNCHARGED)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_hushed())
            data = quietly(partial(self._with_frame_of_view, table), undescribed)
            session = quietly(partial(data._safe_session, stack), unreached)
            described = quietly(partial(data._describe, session, promise), undescribed)
            stack.callback(described.forget)
            yield described
            # Others may have changed a setting of a shared session during the count.
            if session is self.spark:
                quietly(data._refuse_unless_safe, unreached)

    def _with_frame_of_view(self, table: str | None) -> Spark:
        """Return these data with the name of their table, and for a view with its DataFrame; raise without a table."""
        if self.frame is not None:
            return self
        name = self.name or table
        if name is None:
            raise DataError(
                "spark-table-not-named",
                "No table of Spark is named.",
                "",
                f"Name it as {ADDRESS}TABLE, in data.table or with --table.",
                _NOTHING,
                place="data.table",
            )
        if not self.spark.catalog.tableExists(name):
            raise DataError(
                "spark-table-not-found",
                f"The table {name!r} does not exist in {self.what}.",
                "",
                "Name it as Spark does, such as catalog.schema.table.",
                _NOTHING,
                place="data.table",
            )
        entry = self.spark.catalog.getTable(name)  # as the caller's session finds it: its database, its views
        is_view = entry.isTemporary or entry.tableType not in _TABLES
        return replace(self, name=name, frame=self.spark.table(name) if is_view else None)

    def _safe_session(self, stack: contextlib.ExitStack) -> SparkSession:
        """Return a new session with the caller's settings and the needed ones; or the caller's, if it is safe."""
        if self.frame is not None or not hasattr(self.spark, "newSession"):  # Connect has it from PySpark 4.3 on
            self._refuse_unless_safe()
            return self.spark
        # A new session begins without the caller's settings, so they are copied. What changes there reaches no other.
        session = self.spark.newSession()
        if _connects(session):
            stack.callback(_tried, partial(_release, session))
        settings = session.conf.getAll
        for key, value in self.spark.conf.getAll.items():
            if settings.get(key) != value:
                # Static settings cannot be set, and are equal in all sessions.
                _tried(partial(session.conf.set, key, value))
        for key, value in _SETTINGS.items():
            session.conf.set(key, value)
        return session

    def _refuse_unless_safe(self) -> None:
        """Raise DataError for a setting with which the caller's session may skip records, or read other values."""
        for key, value in _SETTINGS.items():
            if self.frame is not None and key == _SUBSTITUTION:
                continue
            if self.spark.conf.get(key, None) not in {None, value, _STRICT}:  # None: this version does not know it
                owner = "the session of the DataFrame" if self.frame is not None else "this session of Spark Connect"
                other = "" if self.frame is not None else ", or use PySpark 4.3, which makes its own session"
                raise DataError(
                    "spark-setting-unsafe",
                    f"The setting {key} of {owner} is not {value}.",
                    "With another value Spark may skip records or read them differently.",
                    f'Set it (spark.conf.set("{key}", "{value}")), and keep it until all is counted{other}.',
                    "Nothing was measured and nothing was charged.",
                    place=key,
                )

    def _describe(self, session: SparkSession, promise: str | None) -> SparkTable:
        if self.frame is not None:
            what = "the DataFrame" if self.name is None else f"view {self.name!r} of {self.what}"
            if self.frame.isStreaming:
                raise DataError(
                    "spark-frame-is-a-stream",
                    "The DataFrame is a stream.",
                    "A stream has no end.",
                    "Write it as a table first.",
                    _NOTHING,
                )
            names = tuple(self.frame.columns)
            finding = None if promise is None else FoundView(promise)
            if finding is None:
                filters, why = attempted(partial(_filters, self.frame))
                if filters is None:
                    raise not_proven(what, why)
                finding = FoundView(ROW_WISE, filters)
            renamed = self.frame.toDF(*(f"c{i}" for i in range(len(names))))
            view = f"fitnoise_{secrets.token_hex(8)}"
            return SparkTable(session, what, names, _kinds(self.frame), view, renamed, view=finding)
        what = f"table {self.name!r} of {self.what}"
        entry = self.spark.catalog.getTable(self.name)
        parts = [*filter(None, [entry.catalog]), *(entry.namespace or []), entry.name]
        relation = ".".join(map(SPARK.quoted, parts))
        rows = [tuple(row)[:2] for row in session.sql(f"DESCRIBE TABLE EXTENDED {relation}").collect()]
        # The columns come first, and one may be called Provider. An empty line ends them.
        stored = dict(rows[[key for key, _ in rows].index("") :]).get("Provider", "") if ("", "") in rows else ""
        if stored.lower() not in _STORED:
            raise DataError(
                "spark-format-not-read",
                f"Fitnoise does not read {what} in its format.",
                f"It reads tables in the formats {', '.join(_STORED)}, in which each row is one record.",
                "Write it as a table in one of these formats.",
                _NOTHING,
                place="data.table",
            )
        frame = session.table(relation)
        return SparkTable(session, what, tuple(frame.columns), _kinds(frame), relation)


@final
@dataclass(frozen=True)
class SparkTable(Columns):
    """The counted records: their columns, and the contents of these, by the schema.

    kinds: For each column its kind, `None` for a type that is not read, and the schema's name of its type.
    spark: The session in which the statement runs.
    name: The table, in SQL.
    frame: The DataFrame that is stored under that name when it is needed, with columns c0, c1, …; `None` for a table.
    view: The promise or finding about a view or a DataFrame; `None` for a table.
    """

    spark: SparkSession
    what: str
    names: tuple[str, ...]
    kinds: tuple[tuple[ColumnKind | None, str], ...]
    name: str
    frame: DataFrame | None = None
    view: FoundView | None = None
    header: bool = False
    dialect: ClassVar[Dialect] = SPARK
    pages: ClassVar[int] = 0
    _used: list[int] = field(default_factory=list)
    _checkpoints: list[Any] = field(default_factory=list)

    def column(self, index: int) -> str:
        """Return SQL for a column of the relation, under the name `source`."""
        self._used.append(index)
        return f"source.{SPARK.quoted(self.names[index] if self.frame is None else f'c{index}')}"

    @property
    def relation(self) -> str:
        """The table, in SQL; for a DataFrame, the requested columns, which the first access stores in the cluster."""
        if self.frame is not None and not self._checkpoints:
            self._safely(partial(self._keep, self.frame))
        return self.name

    def fetch(self, statement: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Run a statement without changes; yield its rows, some thousands at a time."""
        rows = self._safely(lambda: self.spark.sql(statement).toLocalIterator())
        while batch := self._safely(lambda: list(islice(rows, _ROWS_PER_FETCH))):
            yield batch

    def state(self) -> object:
        """Return the files of the table, which change when records do; `None` for a stored frame, and with Connect.

        The process of Spark lists the folders of the files. With Connect that process may be on another machine, and no
        call from here reaches it.
        """
        if self.frame is not None or _connects(self.spark):
            return None
        return self._safely(self._files)

    def _files(self) -> object:
        jvm, configuration = self.spark.sparkContext._jvm, self.spark.sparkContext._jsc.hadoopConfiguration()
        files = (
            jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI.create(f)) for f in self.spark.table(self.name).inputFiles()
        )
        folders = {folder.toString(): folder for folder in (path.getParent() for path in files)}
        return {
            (file.getPath().toString(), file.getLen(), file.getModificationTime())
            for folder in folders.values()
            for file in folder.getFileSystem(configuration).listStatus(folder)
            if file.isFile()
        }

    def forget(self) -> None:
        """Remove the stored columns of a DataFrame from the cluster."""
        for frame in self._checkpoints:
            _tried(partial(self.spark.catalog.dropTempView, self.name))
            _tried(frame.unpersist)

    def _keep(self, frame: DataFrame) -> None:
        # A cache could lose a part and compute it again from the query, with other records.
        checkpoint = frame.select(*(f"c{i}" for i in sorted(set(self._used)))).localCheckpoint()
        self._checkpoints.append(checkpoint)
        checkpoint.createOrReplaceTempView(self.name)

    def _safely(self, action: Any) -> Any:
        return quietly(action, not_counted(self.what, _ADVICE))


def is_spark(data: Any) -> bool:
    """Return True if data are in Spark: `spark:TABLE`, a session, or a DataFrame."""
    if isinstance(data, str):
        return data.startswith(ADDRESS) and not data.startswith(f"{ADDRESS}//")
    return type(data).__module__.startswith("pyspark.sql.")


def in_spark(data: Any) -> Spark:
    """Return the Spark data behind `spark:TABLE`, a session or a DataFrame.

    An address means the existing session (of spark-submit, or of the server that SPARK_REMOTE names), or else one on
    this machine.

    Raises:
        DataError: PySpark is not installed or finds no Java, or the data are another object of Spark.
    """
    if isinstance(data, str):
        name = data.removeprefix(ADDRESS) or None
        failed = DataError(
            "spark-not-started", "Spark cannot be started.", "", "Check that Java is installed.", _UNCHARGED
        )
        return Spark(quietly(_session, failed), name=name)
    if hasattr(data, "sparkSession") and hasattr(data, "localCheckpoint"):
        return Spark(data.sparkSession, data)
    if hasattr(data, "catalog"):
        return Spark(data)
    raise DataError(
        "spark-object-invalid",
        f"The data are an object of Spark of the type {type(data).__name__}.",
        "Fitnoise counts a table, a session with the name of a table, or a DataFrame.",
        "Give one of these.",
        _NOTHING,
    )


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        missing = DataError(
            "pyspark-missing",
            "The data are in Spark, and the package pyspark is not installed.",
            "Fitnoise counts in Spark with pyspark.",
            "Run pip install 'fitnoise[spark]', or run fitnoise with spark-submit.",
            _NOTHING,
        )
    else:
        return SparkSession.builder.getOrCreate()
    raise missing


def _filters(frame: DataFrame) -> bool:
    """Return True if a condition leaves out rows of the table of a DataFrame, which is row-wise.

    The process of Spark states the query, in which views are resolved, before it changes any step.

    Raises:
        NotProvenError: The query has a step or an expression that is not known to be row-wise.
    """
    try:
        steps = [frame._jdf.queryExecution().analyzed()]  # not with Connect
    except Exception:  # also if Spark refuses the query, which the count states
        raise NotProvenError("fitnoise cannot see the query of a DataFrame of Spark Connect") from None
    filters = False
    for step in steps:  # which grows
        name = str(step.nodeName())
        relation = step.relation() if name == "LogicalRelation" else None
        if name not in _STEPS or (relation is not None and not _reads_files_once(relation)):
            raise NotProvenError(f"its query has a step that fitnoise does not know to be row-wise ({name})")
        filters |= name == "Filter"
        expressions = _listed(step.expressions())
        for expression in expressions:  # which grows, too
            if str(expression.getClass().getSimpleName()) not in _EXPRESSIONS:
                raise NotProvenError(
                    f"its query has an operation that fitnoise does not know ({expression.prettyName()})"
                )
            expressions += _listed(expression.children())
        steps += _listed(step.children())
    return filters


def _reads_files_once(relation: Any) -> bool:
    """Return True if a relation of Spark has one folder or file, in a format in which each record stands for itself."""
    is_of_files = str(relation.getClass().getSimpleName()) == "HadoopFsRelation"
    # Of several paths, one can be within another, and its records would be read twice.
    return is_of_files and relation.toString().lower() in _STORED and relation.location().rootPaths().size() == 1


def _listed(sequence: Any) -> list[Any]:
    """Return the elements of a sequence of the process of Spark."""
    return [sequence.apply(i) for i in range(sequence.size())]


def _kinds(frame: DataFrame) -> tuple[tuple[ColumnKind | None, str], ...]:
    """Return the kind of each column of a DataFrame (`None` for another type), with the name of its type."""
    return tuple(map(_kind, frame.schema.fields))


def _kind(column: Any) -> tuple[ColumnKind | None, str]:
    # To Spark's schema, CHAR(n) is a text; only its metadata state the declaration.
    name = type(column.dataType).__name__
    kind = _KINDS.get(name)
    declared = (column.metadata or {}).get(_DECLARED, "")
    return (ColumnKind.FIXED, "CharType") if kind is ColumnKind.TEXT and declared.startswith("char(") else (kind, name)


def _connects(spark: SparkSession) -> bool:
    """Return True for a session of Spark Connect, whose server may be on another machine."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Keep PySpark's own loggers from repeating errors of this call; others' calls are logged as ever."""
    with contextlib.suppress(ImportError):
        from pyspark.logger import PySparkLogger  # `logging.getLogger` would make loggers of another class

        for name in _LOGGERS:
            PySparkLogger.getLogger(name).addFilter(_is_of_others)
    token = _counting.set(True)
    try:
        yield
    finally:
        _counting.reset(token)


def _is_of_others(_: logging.LogRecord) -> bool:
    """Return True unless a record is logged by a call that counts."""
    return not _counting.get()


def _release(session: Any) -> None:
    """End a session of Connect. Its `stop` would end a server on this machine, too."""
    session.client.release_session()
    session.client.close()


def _tried(action: Any) -> None:
    """Run an action, and ignore its failure: the session may be lost."""
    with contextlib.suppress(Exception):
        action()
