"""Counting in Spark: with a stand-in for its sessions, which counts in DuckDB; with Spark itself by `make engines`."""

import contextlib
import copy
import logging
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import duckdb
import pytest

import fitnoise as fn
from engines import SPARK
from engines import spark as real
from fitnoise.engines import open_counter, spark
from fitnoise.engines.dialects import DIALECTS
from fitnoise.engines.sources import not_counted, quietly
from fitnoise.engines.views import FoundView
from fitnoise.errors import DataError
from fitnoise.kernel.counting import Dropped
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.units import DataSource, RecordBound
from laws.counting import DROP, leaks_nothing
from refused import SECRET, refused
from test_databases import DUCKDB, GOLDEN_FILES, golden

needs_spark = pytest.mark.skipif(not SPARK, reason="`make engines` tries it, where there is Java")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


# --- a stand-in -------------------------------------------------------------------------------------------------------


def of_spark(kind):
    """A class that says it is of Spark."""
    kind.__module__ = "pyspark.sql.standing_in"
    return kind


def instance_of(name):
    """An object of a class of this name."""
    return type(name, (), {})()


TYPES = {"INTEGER": "IntegerType", "VARCHAR": "StringType", "DOUBLE": "DoubleType", "DATE": "DateType"}


class Failed(Exception):
    """An error like Spark's: it quotes a value, and has a state."""

    def __init__(self, state="22P02"):
        super().__init__(f"the value {SECRET!r} on host db.example.org")
        self.state = state

    def getSqlState(self):  # noqa: N802 - as Spark calls it
        if self.state is None:
            raise ConnectionError
        return self.state


@of_spark
class Frame:
    def __init__(self, session, relation, stream=False):
        self.sparkSession, self.relation, self.isStreaming = session, relation, stream
        self.columns = relation.columns

    @property
    def schema(self):
        kinds = zip(self.relation.columns, self.relation.types, strict=True)
        return SimpleNamespace(
            fields=[
                SimpleNamespace(
                    name=n,
                    dataType=instance_of(TYPES[str(t)]),
                    metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"} if n == "fixed" else None,
                )
                for n, t in kinds
            ]
        )

    def toDF(self, *names):  # noqa: N802
        columns = ", ".join(f"#{i} AS {n}" for i, n in enumerate(names, 1))
        return Frame(self.sparkSession, self.relation.project(columns))

    def select(self, *names):
        return Frame(self.sparkSession, self.relation.project(", ".join(names)))

    def inputFiles(self):  # noqa: N802
        return ["file:/lake/part%200", "file:/lake/part-1"]

    def localCheckpoint(self):  # noqa: N802
        self.sparkSession.kept.append(self.columns)
        return self

    def createOrReplaceTempView(self, name):  # noqa: N802
        self.relation.create(name)

    def unpersist(self):
        self.sparkSession.kept.append("forgotten")


class Folder:
    """A folder as Hadoop knows paths, with the content of the file system."""

    def __init__(self, path, lake):
        self.path, self.lake = path, lake

    def getParent(self):  # noqa: N802
        return Folder("file:/lake", self.lake)

    def getFileSystem(self, _):  # noqa: N802
        return SimpleNamespace(listStatus=self.listed)

    def listed(self, folder):
        assert folder.toString() == "file:/lake"
        return [
            SimpleNamespace(
                getPath=partial(Folder, name, {}),
                getLen=partial(int, length),
                getModificationTime=partial(int, time),
                isFile=partial(bool, length),
            )
            for name, (length, time) in self.lake.items()
        ]

    def toString(self):  # noqa: N802
        return self.path


@of_spark
class Session:
    """Tables: name → what Spark calls its kind, and the format. bound: settings of a session that is not one's own."""

    def __init__(self, *setup, tables=None):
        self.db = duckdb.connect()
        for line in setup:
            self.db.execute(line)
        self.tables, self.kept, self.told, self.released, self.bound = tables or {}, [], [], [], {}
        self.settings = {**dict.fromkeys(spark._SETTINGS, "true"), "spark.sql.shuffle.partitions": "7", "spark.x": "y"}
        self.settings |= {"spark.master": "local"}
        self.failing = lambda _: None
        self.lake = {"part 0": (90, 5), "part-1": (80, 6), "_temporary": (0, 7)}
        hadoop = SimpleNamespace(fs=SimpleNamespace(Path=lambda uri: Folder(uri, self.lake)))
        apache = SimpleNamespace(hadoop=hadoop)
        java = SimpleNamespace(net=SimpleNamespace(URI=SimpleNamespace(create=str)))
        jvm = SimpleNamespace(org=SimpleNamespace(apache=apache), java=java)
        jsc = SimpleNamespace(hadoopConfiguration=lambda: None)
        self.sparkContext = SimpleNamespace(_jvm=jvm, _jsc=jsc)
        self.speak()
        self.catalog = SimpleNamespace(
            tableExists=self.tables.__contains__,
            getTable=lambda n: SimpleNamespace(
                name=n, catalog=None, namespace=[], tableType=self.tables[n][0], isTemporary=False
            ),
            dropTempView=lambda n: self.db.execute(f"DROP TABLE {n}"),
        )

    def speak(self):
        self.conf = SimpleNamespace(get=self.settings.get, set=self.set, getAll=self.settings)

    def set(self, key, value):
        if key == "spark.x":
            raise ConnectionError
        self.settings[key] = value

    def newSession(self):  # noqa: N802
        """With settings of its own; all else is shared."""
        self.failing("newSession")
        session = copy.copy(self)
        session.db = self.db.cursor()  # which each thread needs
        session.settings = {**dict.fromkeys(spark._SETTINGS, "as Spark has it"), "spark.master": "local"}
        session.client = SimpleNamespace(release_session=partial(self.released.append, session), close=partial(int, 0))
        session.speak()
        return session

    def sql(self, text):
        self.failing(text)
        if match := re.fullmatch(r"DESCRIBE TABLE EXTENDED (\S+)", text):
            stored = self.tables[match[1].replace('"', "")][1]
            head = [("Provider", "int", None), ("", "", ""), ("# Detailed Table Information", "", "")]
            return SimpleNamespace(collect=lambda: head + [("Provider", stored, "")] * bool(stored))
        assert {key: self.settings.get(key) for key in spark._SETTINGS} | self.bound == spark._SETTINGS | self.bound
        assert self.settings["spark.sql.shuffle.partitions"] == "7"
        self.told.append(text)
        return SimpleNamespace(toLocalIterator=lambda: iter(self.db.execute(text).fetchall()))

    def table(self, name):
        return Frame(self, self.db.table(name.replace('"', "")))


@of_spark
class Remote(Session):
    """A session like that of Connect, which has no context."""

    def __init__(self, *setup, **options):
        super().__init__(*setup, **options)
        del self.sparkContext


class Older(Remote):
    """A session like that of Connect before PySpark 4.3, which makes no new session."""

    @property
    def newSession(self):  # noqa: N802
        raise AttributeError


Remote.__module__ = Older.__module__ = "pyspark.sql.connect.standing_in"

PEOPLE = (
    "CREATE TABLE people (x INTEGER, y VARCHAR, fixed VARCHAR, p INTEGER, born DATE)",
    "INSERT INTO people VALUES (0, 'a', 'b', 1, NULL), (1, 'A', 'b', 1, NULL)",
    "INSERT INTO people VALUES (1, 'a ', 'b', 2, NULL), (7, 'a', 'b', 2, NULL)",
)
STORED = {"people": ("MANAGED", "PARQUET")}
DOMAIN = fn.Domain(x=fn.Ordered(0, 2), y=fn.Categorical(["a", "A", "a "]))
SOURCE = DataSource(table="people", outside_domain=DROP)

PROMISED = replace(SOURCE, view="promised")


def safe(session):
    """With settings as a DataFrame's session must have them: one does not matter there."""
    session.bound = {"spark.sql.variable.substitute": "true"}
    session.settings.update(spark._SETTINGS | session.bound)
    return session


REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
CORRUPT = "spark.sql.files.ignoreCorruptFiles"


@pytest.fixture
def duck(monkeypatch):
    """Spark speaks as DuckDB does, and logs as Python does."""
    module = ModuleType("pyspark.logger")
    module.PySparkLogger = SimpleNamespace(getLogger=logging.getLogger)
    monkeypatch.setitem(sys.modules, "pyspark.logger", module)
    d = replace(DUCKDB, label="Spark", listed=True, digest="md5({x})", bytes="octet_length({c})")
    monkeypatch.setattr(spark, "SPARK", d)
    for kind in (spark.Spark, spark.SparkTable):
        monkeypatch.setattr(kind, "dialect", d)


@pytest.mark.usefixtures("duck")
@pytest.mark.parametrize("kind", [Session, Remote])
def test_a_session_counts_a_table_and_is_left_as_it_was(kind):
    session = kind(*PEOPLE, tables=STORED)
    before = dict(session.settings)
    counter = open_counter(session, DOMAIN.axes, SOURCE)
    assert counter.drops
    counts = counter.count([("x", "y"), ("y",), ()])
    assert counts["x", "y"].tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert counts[()] == 3
    assert session.settings == before
    assert len(session.released) == 2 * (kind is Remote)  # to open it, and to count
    assert len(session.told) == 3  # the trial, one statement, and one of those that are dropped
    assert counter.dropped == Dropped(4, 1, {"x": 1})
    assert session.kept == []


@pytest.mark.no_cover
@pytest.mark.usefixtures("duck")
@pytest.mark.parametrize("kind", [Session, Remote])
@pytest.mark.parametrize("files", [{"part 0": (91, 5)}, {"part-1": (80, 9)}, {"part-2": (1, 1)}])
def test_a_table_whose_files_change_while_it_is_counted_is_refused(kind, files):
    """If Spark shows them: with Connect the count goes on."""
    session = kind(*PEOPLE, tables=STORED)
    counter = open_counter(session, DOMAIN.axes, SOURCE)
    session.failing = lambda text: session.lake.update(files if "people" in text and "counted" in text else {})
    if kind is Remote:
        assert counter.count([("x",)])["x",].tolist() == [1, 2, 0]
        return
    with refused("data.data-changed-while-read"):
        counter.count([("x",)])
    assert counter.count([("x",)])["x",].tolist() == [1, 2, 0]  # the writer has ended


@pytest.mark.usefixtures("duck")
def test_a_frame_is_run_once_of_the_columns_that_are_needed():
    session = safe(Session(*PEOPLE))
    frame = Frame(session, session.db.sql("SELECT born, x AS y, y AS x, p AS Y, random() AS r FROM people"))
    frame.columns = ["born", "n", "y", "p", "p"]
    counter = open_counter(frame, fn.Domain(x=fn.Ordered(0, 2, column="n"), y=DOMAIN["y"]).axes, PROMISED)
    counter.check(["x", "y"])
    assert session.kept == []
    assert counter.count([("x",), ("y",)])["x",].tolist() == [1, 2, 0]
    assert session.kept == [["c1", "c2"], "forgotten"]
    assert "fitnoise" not in str(session.db.execute("SHOW TABLES").fetchall())
    with refused("data.column-ambiguous"):
        open_counter(frame, fn.Domain(x=fn.Ordered(0, 2, column="p")).axes, PROMISED).check(["x"])
    with refused("data.spark-frame-is-a-stream"):
        open_counter(Frame(session, frame.relation, stream=True), DOMAIN.axes, PROMISED)


@pytest.mark.usefixtures("duck")
@pytest.mark.parametrize("kind", [Session, Older])
def test_a_session_that_is_not_ones_own_is_refused_where_its_settings_are_not_safe(kind):
    """Detects settings of the caller's that are changed; and ones that are changed by others while it is counted."""
    session = kind(*PEOPLE, tables=STORED)
    data = session if kind is Older else Frame(session, session.db.sql("SELECT x, y FROM people"))
    before = dict(session.settings)
    with refused("data.spark-setting-unsafe") as caught:
        open_counter(data, DOMAIN.axes, PROMISED)
    assert f'spark.conf.set("{CORRUPT}", "false")' in str(caught.value)
    assert ("PySpark 4.3" in str(caught.value)) == (kind is Older)
    assert session.settings == before
    safe(session)
    if kind is Older:
        with refused("data.spark-setting-unsafe"):
            open_counter(data, DOMAIN.axes, PROMISED)
        session.settings.update(spark._SETTINGS)
    session.settings[REBASE] = "EXCEPTION"
    session.bound |= {REBASE: "not looked at"}
    del session.settings["spark.sql.files.ignoreInvalidPartitionPaths"]  # of later versions
    session.bound |= dict.fromkeys(["spark.sql.files.ignoreInvalidPartitionPaths", CORRUPT], "not looked at")
    before = dict(session.settings)
    counter = open_counter(data, DOMAIN.axes, PROMISED)
    assert counter.count([("x",)])["x",].tolist() == [1, 2, 0]
    assert session.settings == before
    session.failing = lambda text: session.settings.update({CORRUPT: "true"}) if "counted" in text else None
    with refused("data.spark-setting-unsafe"):
        counter.count([("x",)])


@pytest.mark.usefixtures("duck")
def test_counts_of_several_threads_change_nothing_of_each_other_or_of_the_process(caplog):
    """Detects settings and loggers that one count changes while another goes on, or leaves changed.

    PySpark's own loggers are silent for the calls that count, and for no others.
    """
    session = Session(*PEOPLE, tables=STORED)
    before, loggers = dict(session.settings), {n: (x.level, x.disabled) for n, x in every_logger().items()}
    turns = threading.Barrier(2, timeout=60)

    def meet(text):
        if "counted" not in text:
            return
        turns.wait()  # both have begun to count
        assert session.settings == before
        assert logging.root.manager.disable == logging.NOTSET
        logging.getLogger("SQLQueryContextLogger").error(SECRET)
        logging.getLogger("of somebody").error("others are heard")
        turns.wait()

    session.failing = meet
    counters = [open_counter(session, DOMAIN.axes, SOURCE) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda c: c.count([("x",)])["x",].tolist(), counters)] == [[1, 2, 0]] * 2
    assert session.settings == before
    assert logging.root.manager.disable == logging.NOTSET
    assert {n: (x.level, x.disabled) for n, x in every_logger().items() if n in loggers} == loggers
    logging.getLogger("SQLQueryContextLogger").error("what others ask is logged as ever")
    assert SECRET not in caplog.text
    assert "as ever" in caplog.text
    assert caplog.text.count("others are heard") == 2 * 2  # of the trial, and of the table


def every_logger():
    return {n: x for n, x in logging.root.manager.loggerDict.items() if isinstance(x, logging.Logger)}


@pytest.mark.usefixtures("duck")
def test_a_table_is_the_one_that_the_callers_session_knows():
    """Detects a name that is another table in a new session, or the table behind a view of the caller's."""
    session = Session(*PEOPLE, "CREATE SCHEMA s", "CREATE TABLE s.people AS SELECT 0 AS x", tables=STORED)
    session.catalog.getTable = lambda n: SimpleNamespace(
        name=n, catalog=None, namespace=["s"], tableType="MANAGED", isTemporary=False
    )
    session.tables["s.people"] = STORED["people"]
    counter = open_counter(session, fn.Domain(x=fn.Ordered(0, 2)).axes, SOURCE)
    assert counter.count([("x",)])["x",].tolist() == [1, 0, 0]


@pytest.mark.usefixtures("duck")
def test_persons_are_bounded_by_the_same_rule():
    session = Session(*PEOPLE, tables=STORED)
    counts = open_counter(session, DOMAIN.axes, SOURCE, RecordBound("p", 1)).count([("x",), ()])
    assert counts[()] == 2
    # The trial, that of persons, the statement; of the last two also one of those that are dropped.
    assert len(session.told) == 5


@pytest.mark.usefixtures("duck")
def test_what_is_no_table_of_records_is_refused():
    session = Session(
        *PEOPLE, "CREATE TABLE other (x INTEGER)", *(f"CREATE VIEW {v} AS SELECT * FROM people" for v in "vt"),
        tables={**STORED, "v": ("VIEW", ""), "t": ("TEMPORARY", ""), "other": ("EXTERNAL", "jdbc")},
    )  # fmt: skip
    safe(session)
    for table, code in {
        None: "data.spark-table-not-named",
        "none": "data.spark-table-not-found",
        "v": "data.view-not-promised",
        "t": "data.view-not-promised",
        "other": "data.spark-format-not-read",
    }.items():
        with refused(code) as caught:
            open_counter(session, DOMAIN.axes, replace(SOURCE, table=table))
        leaks_nothing(caught.value)
    for attribute, code in {
        fn.Ordered(0, 1, column="born"): "data.column-of-wrong-type",
        fn.Categorical(["b "], column="fixed"): "data.code-with-final-blank",
    }.items():
        with refused(code):
            open_counter(session, fn.Domain(x=attribute).axes, SOURCE).check(["x"])
    session.tables["people"] = ("EXTERNAL", "")
    with refused("data.spark-format-not-read"):
        open_counter(session, DOMAIN.axes, SOURCE)
    with refused("data.spark-object-invalid"):
        open_counter(of_spark(type("Grouped", (), {}))(), DOMAIN.axes, SOURCE)


@pytest.mark.usefixtures("duck")
@pytest.mark.parametrize("state", ["22P02", None, "not a state"])
def test_the_text_of_an_error_of_spark_is_not_repeated(state, caplog):
    def fail(*_):
        logging.getLogger("SQLQueryContextLogger").error(SECRET)
        raise Failed(state)

    session = Session(*PEOPLE, tables=STORED)
    counter = open_counter(session, DOMAIN.axes, SOURCE)
    session.failing = lambda text: text.startswith("DESCRIBE") and fail(text)
    with refused("data.spark-not-described") as caught:
        counter.count([("x",)])
    leaks_nothing(caught.value)
    session.failing = lambda text: text.startswith(("DESCRIBE", "new")) or fail(text)
    with refused("data.records-not-counted") as caught:
        counter.count([("x",)])
    leaks_nothing(caught.value)
    assert SECRET not in caplog.text
    session.failing = lambda text: text != "newSession" or fail(text)
    with refused("data.spark-not-reached") as caught:
        counter.count([("x",)])
    leaks_nothing(caught.value)
    assert "example.org" not in str(caught.value)


@pytest.mark.usefixtures("duck")
def test_an_address_means_the_session_that_is_there(monkeypatch):
    session = Session(*PEOPLE, tables=STORED)
    builder = SimpleNamespace(getOrCreate=lambda: session)
    module = ModuleType("pyspark.sql")
    module.SparkSession = SimpleNamespace(builder=builder)
    monkeypatch.setitem(sys.modules, "pyspark.sql", module)
    for address, table in {"spark:people": None, "spark:": "people"}.items():
        assert open_counter(address, DOMAIN.axes, replace(SOURCE, table=table)).count([("x",)])["x",].tolist() == [
            1,
            2,
            0,
        ]
    monkeypatch.setitem(sys.modules, "pyspark.logger", None)  # of others that call themselves pyspark
    assert open_counter("spark:people", DOMAIN.axes, replace(SOURCE, table="other")).count([()])[()] == 3
    builder.getOrCreate = partial(Session.sql, None)
    with refused("data.spark-not-started"):
        open_counter("spark:people", DOMAIN.axes, SOURCE)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with refused("data.pyspark-missing") as caught:
        open_counter("spark:people", DOMAIN.axes, SOURCE)
    leaks_nothing(caught.value)
    with refused("data.data-over-network"):
        open_counter("spark://host:7077", DOMAIN.axes, SOURCE)


def test_kinds_of_columns():
    for name, kind in {"LongType": ColumnKind.INTEGER, "CharType": ColumnKind.FIXED, "MapType": None}.items():
        assert spark._kind(SimpleNamespace(dataType=instance_of(name), metadata={})) == (kind, name)


def test_the_statement_is_that_of_databricks(monkeypatch):
    monkeypatch.setattr("test_databases.DIALECTS", {**DIALECTS, "spark": spark.SPARK})
    for policy in ("drop", "refuse"):
        file = GOLDEN_FILES / f"databricks, {policy}.sql"
        assert file.read_text(encoding="utf-8") == golden("spark", drop=policy == "drop")


# --- Spark itself -----------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tried_once):
    """Runs statements of Spark's; tables are dropped."""
    made_tables = []

    def run(*statements):
        for line in statements:
            real().sql(line)
            made_tables.extend(re.findall(r"CREATE TABLE (\w+)", line))
        return real()

    yield run
    for name in made_tables:
        real().sql(f"DROP TABLE IF EXISTS {name}")


def test_the_class_of_a_java_error_is_reported_without_its_text():
    """Detects a driver without memory whose user gets advice about the cluster."""

    def fail(text):
        raise type("Py4JJavaError", (Exception,), {})(f"An error occurred while calling o7.toPythonIterator.\n{text}")

    for java_text, code, kind in (
        (f": java.lang.OutOfMemoryError: Java heap {SECRET}\n\tat x.Y", "data.memory-exhausted", "OutOfMemoryError"),
        (f": org.apache.spark.SparkException: Job {SECRET}", "data.records-not-counted", "SparkException"),
        (f"{SECRET}", "data.records-not-counted", "Py4JJavaError"),
    ):
        with pytest.raises(DataError) as caught:
            quietly(partial(fail, java_text), not_counted("Spark", "Ask the owner."))
        assert caught.value.code == code
        assert caught.value.needed == f"The reported error is {kind}."
        leaks_nothing(caught.value)


@needs_spark
@pytest.mark.parametrize("frame", [True, False])
def test_types_and_values_of_spark(lake, frame):
    session = lake(
        "CREATE TABLE t (c CHAR(3), n STRING COLLATE UTF8_LCASE, f FLOAT, d DECIMAL(9, 2), b BOOLEAN, x DOUBLE, "
        "p STRING, `odd``name` TINYINT, day DATE) USING parquet",
        "INSERT INTO t VALUES ('a ', 'A', 0.1, 1.5, true, double('NaN'), 'p7', 1, NULL)",
        "INSERT INTO t VALUES ('A', 'a', 0.5, 2, false, 1e300, 'P7', 2, NULL)",
        "INSERT INTO t VALUES ('b', 'a ', 2, -1, NULL, 0.5, 'p7', 3, NULL)",
    )
    data = session.table("t") if frame else session
    for attribute, expected in {
        fn.Categorical(["a", "A"], column="c"): [1, 1],
        fn.Categorical(["a", "A", "a "], column="n"): [1, 1, 1],
        fn.Binned([0.1, 0.5], column="f"): [0, 1, 2],
        fn.Binned([0, 1.5], column="d"): [1, 0, 2],
        fn.Categorical([True, False], column="b"): [1, 1],
        fn.Ordered(0, 3, clip=True, column="x"): [0, 0, 0, 1],
        fn.Ordered(1, 3, column="odd`name"): [1, 1, 1],
        fn.Ordered(1, 2, column="ODD`NAME", missing={"none": [3]}): [1, 1, 1],
    }.items():
        counter = open_counter(
            data, fn.Domain(x=attribute).axes, DataSource(table="t", outside_domain=DROP, view="promised")
        )
        assert counter.count([("x",)])["x",].tolist() == expected
    with refused("data.column-of-wrong-type"):
        open_counter(
            data, fn.Domain(x=fn.Ordered(0, 1, column="day")).axes, DataSource(table="t", view="promised")
        ).check(["x"])
    domain = fn.Domain(n=fn.Categorical(["a", "A", "a "]))
    counts = open_counter(data, domain.axes, DataSource(table="t", view="promised"), RecordBound("p", 1)).count(
        [("n",)]
    )
    assert counts["n",].sum() == 2
    assert not any(t.isTemporary for t in session.catalog.listTables())


@needs_spark
def test_views_streams_and_other_formats_of_spark(lake):
    session = lake(
        "CREATE TABLE t USING parquet AS SELECT 1 AS x", "CREATE OR REPLACE TEMP VIEW tv AS SELECT * FROM t",
        "CREATE OR REPLACE VIEW pv AS SELECT * FROM t", "CREATE TABLE j USING json AS SELECT 1 AS x",
    )  # fmt: skip
    domain = fn.Domain(x=fn.Ordered(0, 1))
    session.sql("CREATE OR REPLACE TEMP VIEW joined AS SELECT a.x FROM t a, t b")
    for name in ("tv", "pv"):
        counter = open_counter(f"spark:{name}", domain.axes, DataSource())
        assert counter.view == FoundView("row-wise")
        assert counter.count([("x",)])["x",].tolist() == [0, 1]
    for name, code in {
        "joined": "data.view-not-promised",
        "j": "data.spark-format-not-read",
        "none": "data.spark-table-not-found",
    }.items():
        with refused(code):
            open_counter(f"spark:{name}", domain.axes, DataSource())
    session.sql("DROP VIEW pv")
    stream = session.readStream.format("rate").load()
    with refused("data.spark-frame-is-a-stream"):
        open_counter(stream, domain.axes, DataSource())
    assert open_counter("spark:spark_catalog.default.t", domain.axes, DataSource()).count([("x",)])["x",].tolist() == [
        0,
        1,
    ]
    moving = session.sql("SELECT CAST(rand() < 0.5 AS INT) AS x FROM range(1000)")
    counts = open_counter(
        moving, fn.Domain(x=fn.Ordered(0, 1), y=fn.Ordered(0, 1, column="x")).axes, DataSource(view="promised")
    ).count([("x", "y"), ("x",), ("y",)])
    assert counts["x", "y"].sum(axis=1).tolist() == counts["x",].tolist() == counts["y",].tolist()


@needs_spark
def test_a_query_of_spark_is_row_wise_or_promised(lake):
    session = lake(
        "CREATE TABLE t USING parquet AS SELECT id % 2 AS x, id AS p, CAST(id AS STRING) AS y FROM range(10)"
    )
    table, domain = session.table("t"), fn.Domain(x=fn.Ordered(0, 1, clip=True))
    (path,) = {file.rsplit("/", 1)[0] for file in table.inputFiles()}
    proved = {
        "the table": (table, False), "its files": (session.read.parquet(path), False),
        "columns": (table.selectExpr("x", "upper(y) AS u", "coalesce(p, 1) + 2 AS q"), False),
        "a condition": (table.where("p > 3 AND y IN ('4', '5')").select("x"), True),
    }  # fmt: skip
    for frame, filters in proved.values():
        counter = open_counter(frame, domain.axes, DataSource())
        assert counter.view == FoundView("row-wise", filters)
        assert counter.count([("x",)])["x",].sum() == frame.count()
    other = {
        "join": table.join(table.select("p"), "p"), "union": table.union(table), "limit": table.limit(3),
        "distinct": table.select("x").distinct(), "sum": table.groupBy("y").sum("x"), "sample": table.sample(0.5),
        "chance": table.where("rand() < 0.5"), "today": table.where("current_date() > DATE'2020-01-01'"),
        "subquery": session.sql("SELECT x FROM t WHERE p > (SELECT avg(p) FROM t)"),
        "window": session.sql("SELECT row_number() OVER (ORDER BY p) AS x FROM t"),
        "rows of one": session.sql("SELECT explode(array(x, x)) AS x FROM t"),
        "files twice": session.read.parquet(path, path), "csv": session.read.csv(path),
        "made here": session.createDataFrame([(0,)], ["x"]), "file names": table.where("input_file_name() > 'a'"),
    }  # fmt: skip
    for frame in other.values():
        with refused("data.view-not-promised", key="data.view"):
            open_counter(frame, domain.axes, DataSource())
    assert open_counter(other["union"], domain.axes, DataSource(view="promised")).count([("x",)])["x",].sum() == 20


@needs_spark
def test_no_value_is_in_a_message_or_a_log_of_spark(lake, capfd):
    session = lake("CREATE TABLE t USING parquet AS SELECT 1 AS x")
    broken = session.sql(f"SELECT raise_error('{SECRET}') AS x FROM t")
    counter = open_counter(
        broken.select(broken.x.cast("int").alias("x")), fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource(view="promised")
    )
    with refused("data.records-not-counted") as caught:
        counter.count([("x",)])
    leaks_nothing(caught.value)
    assert SECRET not in "".join(capfd.readouterr())
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    path = session.table("t").inputFiles()[0].removeprefix("file://")
    Path(path).write_bytes(b"PAR1" + os.urandom(99))
    for checksum in Path(path).parent.glob(".*.crc"):
        checksum.unlink()
    session.sql("REFRESH TABLE t")
    with contextlib.suppress(Exception):
        assert session.table("t").count() == 0  # so it would be counted
    with refused("data.records-not-counted"):
        open_counter("spark:t", fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource()).count([("x",)])
    assert session.conf.get("spark.sql.files.ignoreCorruptFiles") == "true"
    with refused("data.spark-setting-unsafe"):
        open_counter(session.table("t"), fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource())
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "false")


@needs_spark
def test_two_counts_at_once_in_one_session_of_spark(lake):
    """Detects settings that one count puts back while the other goes on, and a process whose logs are off."""
    session = lake("CREATE TABLE t USING parquet AS SELECT id % 2 AS x, id AS p FROM range(1000)")
    session.conf.set(CORRUPT, "true")
    before, level = dict(session.conf.getAll), logging.root.manager.disable
    heard = []
    counters = [open_counter("spark:t", fn.Domain(x=fn.Ordered(0, 1)).axes, DataSource()) for _ in range(2)]
    count_reported = lambda _: heard.append((dict(session.conf.getAll) == before, logging.root.manager.disable))  # noqa: E731
    with ThreadPoolExecutor(2) as pool:
        counts = [*pool.map(lambda c: [c.count([("x",)], count_reported)["x",].tolist() for _ in range(3)], counters)]
    assert counts == [[[500, 500]] * 3] * 2
    assert set(heard) == {(True, level)}
    assert dict(session.conf.getAll) == before
    session.conf.set(CORRUPT, "false")


@needs_spark
def test_a_table_of_the_callers_database_is_counted(lake):
    """Detects a table of another database that has the name; and a view of the caller's that has it."""
    session = lake("CREATE TABLE t USING parquet AS SELECT 0 AS x", "CREATE DATABASE d")
    session.sql("CREATE TABLE d.t USING parquet AS SELECT 1 AS x")
    domain = fn.Domain(x=fn.Ordered(0, 1))
    session.sql("USE d")
    assert open_counter("spark:t", domain.axes, DataSource()).count([("x",)])["x",].tolist() == [0, 1]
    session.range(3).createOrReplaceTempView("t")
    with refused("data.view-not-promised"):
        open_counter("spark:t", domain.axes, DataSource())
    session.catalog.dropTempView("t")
    session.sql("USE default")
    session.sql("DROP DATABASE d CASCADE")


SPEC = """
[data]
source = "census"
outside_domain = "drop"
view = "{view}"

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[[tables]]
attributes = ["sex"]
margin = 4.0
""".replace("{view}", "promised")

SCRIPT = """
import sys
from pyspark.sql import SparkSession
settings = {"spark.sql.shuffle.partitions": "2"}
builder = SparkSession.builder.config(map=settings)
session = (builder.remote("local[2]") if sys.argv[1] == "connect" else builder).getOrCreate()
assert ("connect" in type(session).__module__) == (sys.argv[1] == "connect")
session.sql("CREATE TABLE people USING parquet AS SELECT id, IF(id % 3 = 0, 'f', 'm') AS sex FROM range(9000)")
from fitnoise.interfaces.cli import main
for command in (
    ["plan", "spec.toml", "-o", "plan.json"],
    ["release", "plan.json", "spark:people", "--ledger", "ledger.db", "-o", "release"],
    ["verify", "release", "--ledger", "ledger.db"],
):
    try:
        main(command)
    except SystemExit as end:
        if end.code:
            raise
import fitnoise as fn
plan = fn.Plan.from_json(open("plan.json").read())
print("of a frame", fn.release(plan, session.table("people"), ledger="ledger.db", again=True)["sex"]["value"].tolist())
"""


@needs_spark
@pytest.mark.parametrize("way", ["submit", "connect"])
def test_spark_submit_and_connect(way, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "main.py").write_text(SCRIPT, encoding="utf-8")
    import pyspark

    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    command = [*(submit if way == "submit" else [sys.executable]), "main.py", way]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    value = float(re.search(r"of a frame \[([\d.]+),", done.stdout)[1])
    assert abs(value - 3000) < 40
    assert fn.verify(tmp_path / "release").ok
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        assert sum(e.kind == "charge" for e in ledger.entries()) == 2
