"""Files as somebody else might hand them over: plans and releases made before, and a ledger, with something altered.

Every mutation follows from its number alone. What reads them may refuse, in our own words, and must do nothing else.
"""

import contextlib
import functools
import json
import shutil
import sqlite3
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np

import fitnoise as fn
from fitnoise.errors import BudgetExceeded, FitnoiseError
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.ledgers import ledger_report
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel.ledger import DrawnPeriod, sqlite
from fitnoise.kernel.losses import Loss
from fitnoise.planning.files import read_text
from laws.documents import places
from peak import forget_peak, peak_memory

SAMPLES = Path(__file__).parent / "data" / "stored"
PLANS = sorted((SAMPLES / "plans").iterdir())
RELEASES = sorted((SAMPLES / "releases").iterdir())

LONG = int("7" * 4000)
DEEP = json.loads("[" * 900 + "]" * 900)
ODD = [json.dumps(x) for x in (
    0, 1, -1, 2, 3, 7, 1000, 10**6, 10**9, 2**31, 2**53 + 1, 2**63, -(2**63), 10**30, 10**400, -LONG, LONG,
    0.0, -0.0, 0.5, 1e-320, 1e-9, 1e16, 1e308, float("inf"), float("nan"),
    "", "0", "1", "1/3", "0/1", "1/0", "7" * 400, "7" * 5000, f"1/{'7' * 400}", "1e999", "1e-999", "\ud800",
    "x" * 10**5, "pure", "projection", "exactly", "auto", "total-error", "all", "=1+1", None, True, False,
    [], {}, [[]], [{}], DEEP,
    [0] * 10**5, ["a"] * 1000, [[0] * 300] * 300, {"": 0}, {"by": "age", "values": []},
)]  # fmt: skip
"""Values, as JSON, that replace those of a document. Further alterations change each of them alone."""


def json_text(text, rng):
    """The text of a document of which some leaves are others, dropped, doubled or nudged; in the form of the first."""
    document = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        path, value = _pick(rng, list(places(document))[1:])
        way = rng.integers(6)
        if len(path) > 100:  # what is deep already is deep enough
            continue
        *above, last = path
        here = functools.reduce(lambda inner, step: inner[step], above, document)
        if way == 0:
            del here[last]
        elif way == 1 and isinstance(value, list) and value:
            here[last] = value * int(rng.choice([2, 3, 1000 if len(value) < 100 else 2]))
        elif way <= 3 and type(value) in (int, float):
            here[last] = _pick(rng, [value + 1, value - 1, 2 * value, -value, value * 10**6])
        else:
            here[last] = json.loads(_pick(rng, ODD))
    form = {"separators": (",", ":")} if text.count("\n") < 2 else {"indent": 1}
    return (json.dumps(document, **form) + "\n").encode("utf-8", "surrogatepass")


def some_bytes(raw, rng):
    """Some bytes altered, dropped, doubled, or cut off."""
    data = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 8])):
        i, n = int(rng.integers(len(data) + 1)), int(rng.choice([1, 1, 2, 4, 30]))
        way = rng.integers(6)
        if way == 0:
            data[i : i + n] = rng.bytes(n)
        elif way == 1:
            data[i : i + n] = b""
        elif way == 2:
            data[i:i] = data[i : i + n] * int(rng.choice([1, 100, 10_000]))
        elif way == 3 and i < len(data):
            data[i] ^= 1 << int(rng.integers(8))
        elif way == 4:
            data[i : i + n] = bytes([int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))]) * n
        elif way == 5 and rng.random() < 0.2:
            del data[i:]
    return bytes(data)


def parquet(raw, rng, folder):
    """A Parquet file with altered bytes, in its pages or its footer; or one with other columns, of any length."""
    way = rng.integers(3)
    if way == 0:
        return some_bytes(raw, rng)
    if way == 1:
        length = int.from_bytes(raw[-8:-4], "little")
        start = len(raw) - 8 - length
        footer = some_bytes(raw[start:-8], rng)
        size = len(footer) if rng.random() < 0.9 else int(rng.integers(2**32))
        return raw[:start] + footer + size.to_bytes(4, "little") + raw[-4:]
    file = folder / "other.parquet"
    file.write_bytes(raw)
    rows = int(rng.choice([0, 1, 1000, 10**6, 10**7]))
    what = _pick(rng, PARQUET)
    codec = _pick(rng, ["snappy", "zstd", "gzip", "uncompressed"])
    with duckdb.connect(config={"threads": 1, "memory_limit": "300MB", "temp_directory": ""}) as engine:
        engine.execute(f"CREATE VIEW old AS SELECT * FROM read_parquet('{file}')")
        with contextlib.suppress(duckdb.Error):
            engine.execute(
                f"COPY ({what.format(rows=rows)}) TO '{file}' (FORMAT parquet, CODEC {codec}, ROW_GROUP_SIZE 10000000, "
                f"KV_METADATA {{sha256: '{'0' * int(rng.choice([0, 64, 10**6]))}'}})"
            )
    return file.read_bytes()


PARQUET = [
    "SELECT * FROM old LIMIT {rows}",
    "SELECT old.* FROM old, range({rows} // 100) LIMIT {rows}",
    "SELECT 0::BIGINT AS sector, 0::BIGINT AS row, 0::BIGINT AS answer FROM range({rows})",
    "SELECT *, repeat('x', 10000000) AS more FROM old",
    "SELECT * REPLACE (repeat('x', 1000000) AS #1) FROM old",
    "SELECT * REPLACE ([1, 2] AS #1) FROM old",
    "SELECT * REPLACE (NULL AS #1) FROM old",
    "SELECT * REPLACE ({{'a': 1}} AS #1) FROM old",
    'SELECT * RENAME (#1 AS "=cmd") FROM old',
    "SELECT * REPLACE ('nan'::DOUBLE AS #1) FROM old",
]
"""Queries for other columns."""

ENDLESS = """CREATE VIEW entries AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
SELECT x sequence, 'cap' kind, 's' source, 'u' unit, '1' rho, 't' time, '' detail, '' previous, '' digest FROM n
WHERE x < 0"""

SQL = [
    "UPDATE entries SET {column} = {value} WHERE sequence = {at}",
    "INSERT INTO entries SELECT 24, kind, source, unit, rho, time, {value}, previous, digest FROM entries LIMIT 1",
    "DELETE FROM entries WHERE sequence = {at}",
    "ALTER TABLE entries ADD COLUMN more TEXT",
    "DROP TABLE entries; CREATE TABLE entries (sequence, kind, source, unit, rho, time, detail, previous, digest)",
    f"DROP TABLE entries; {ENDLESS}",
    "CREATE INDEX more ON entries (length(detail || {value}))",
    "PRAGMA user_version = {at}",
    "PRAGMA journal_mode = WAL",
]
"""Statements that alter a ledger, its triggers dropped before."""

VALUES = [
    "0", "-1", "'1/0'", "'1/3'", "'-1'", "1e308", "NULL", "x'ff'", "'{}'", "'[]'", "'[[[['", "'{\"profile\": 1}'",
    f"'{'7' * 4000}'", f"'1/{'7' * 4000}'", f"'{'7' * 5000}'", f"'{'[' * 5000}'", "zeroblob(100000000)",
    "'{\"profile\": {\"axes\": [[\"a\", 1000000000]], \"values\": [1]}}'",
    "'{\"beside\": [\"x\"], \"epsilon\": \"1/3\"}'", "CAST(zeroblob(100000000) AS TEXT)", "'cap'", "'refusal'",
]  # fmt: skip


def ledger(file, rng):
    """Alter a copy of the ledger in place."""
    if rng.random() < 0.5:
        file.write_bytes(some_bytes(file.read_bytes(), rng))
        return
    with contextlib.closing(sqlite3.connect(file)) as db, contextlib.suppress(sqlite3.Error):
        for trigger in ("entries_stay", "entries_keep", "entries_follow"):
            db.execute(f"DROP TRIGGER {trigger}")
        column = _pick(rng, ["sequence", "kind", "source", "unit", "rho", "time", "detail", "previous", "digest"])
        statement = _pick(rng, SQL).format(column=column, value=_pick(rng, VALUES), at=int(rng.integers(0, 30)))
        db.executescript(statement)
        if rng.random() < 0.8:
            db.executescript(";".join(TRIGGERS))
        db.commit()


TRIGGERS = [sql for sql in sqlite._SCHEMA if sql.startswith("CREATE TRIGGER")]


@functools.cache
def ledger_file():
    """The bytes of a ledger with caps, charges and refusals of every kind, of which most are long."""
    month = fn.PrivacyUnit("person", 12, once_per=["month"], fixed=["sex"])
    homes, record = fn.Account("homes", fn.PrivacyUnit("home")), fn.Account("register", fn.PrivacyUnit())
    person = fn.Account("register", month, (("month", "0" * 64), ("sex", "1" * 64)))
    cells = Loss.of_cells((("age", 40), ("sex", 2)), [Fraction(i, 800) for i in range(80)], Fraction(1, 2**20))
    pure = Loss.of_epsilon(Fraction(1, 3), by_cell=True)
    sectors = {"sectors": [["1/3", i] for i in range(300)]}
    with tempfile.TemporaryDirectory() as folder, fn.Ledger(Path(folder) / "ledger.sqlite") as book:
        book.set_cap(homes, Fraction(1), reason="été")
        book.set_cap(fn.Account("clinic", fn.PrivacyUnit("person", id="pid")), epsilon=Fraction(40))
        book.set_cap(record, mu_squared=Fraction(9))
        book.set_cap(person, Fraction(1))
        for i in range(8):
            composed = [f"{i - 1:064x}"] if i % 2 else []
            book.charge(record, cells, {"plan": f"{i:064x}"} | sectors, also={person: cells}, composed_with=composed)
        for i in range(6):
            book.charge(homes, pure, {"plan": f"{i:064x}"} | sectors)
        periods = [DrawnPeriod(i, f"{i:064x}") for i in (1, 2)]
        book.charge(homes, pure, {"plan": "f" * 64}, drawn_period=periods[0])
        book.period(homes, "f" * 64, periods[1])
        for cap in (Fraction(1, 100), Fraction(1, 10**6)):
            book.set_cap(homes, cap, reason="enough")
            with contextlib.suppress(BudgetExceeded):
                book.charge(homes, pure, {"plan": "e" * 64} | sectors)
        return (Path(folder) / "ledger.sqlite").read_bytes()


def _pick(rng, things):
    return things[int(rng.integers(len(things)))]


# --- what is made, and what reads it -----------------------------------------------------------------------------


def mutate(number, parent, kind=None):
    """The mutation of a number, in an empty folder: what was altered, in words; what to read; and what reads it."""
    rng = np.random.default_rng(number)
    kind = kind or rng.choice(["plan", "release", "ledger"], p=[0.45, 0.4, 0.15])
    if kind == "plan":
        sample, file = _pick(rng, PLANS), parent / "plan.json"
        raw = sample.read_bytes()
        file.write_bytes(json_text(raw.decode(), rng) if rng.random() < 0.7 else some_bytes(raw, rng))
        return f"plan {sample.stem}", file, read_plan
    if kind == "ledger":
        file = parent / "ledger.sqlite"
        file.write_bytes(ledger_file())
        ledger(file, rng)
        return "ledger", file, read_ledger
    sample, folder = _pick(rng, RELEASES), parent / "release"
    shutil.copytree(sample, folder, copy_function=shutil.copyfile)
    file = _pick(rng, sorted(p for p in folder.rglob("*") if p.is_file()))
    raw = file.read_bytes()
    if file.suffix == ".parquet":
        raw = parquet(raw, rng, parent)
    elif file.suffix == ".json" and rng.random() < 0.7:
        raw = json_text(raw.decode(), rng)
    else:
        raw = some_bytes(raw, rng)
    file.unlink()
    file.write_bytes(raw)
    return f"{file.name} of release {sample.stem}", folder, read_release


def read_plan(file):
    """All that a stranger's plan is read for."""
    fn.verify(file)
    plan = fn.Plan.from_json(read_text(file))
    lines(plan_report(plan))
    return repr(plan), plan.epsilon(1e-6), plan.order


def read_release(folder):
    """All that a stranger's release is read for."""
    fn.verify(folder)
    release = fn.Release.read(folder)
    lines(release_report(release))
    return list(release.values()), release.finite


def read_ledger(file):
    """All that a stranger's ledger is read for."""
    with fn.Ledger(file) as book:
        entries, balances = book.entries(), [book.balance(a) for a in book.accounts()]
        lines(ledger_report(entries, balances, book.head()))


def outcome(read, path):
    """Return the outcome of reading, its seconds of processor time, and the most megabytes that it added.

    The outcome may be an error of fitnoise. Other errors are passed on.
    """
    forget_peak()
    start, held = time.process_time(), peak_memory()
    try:
        read(path)
        result = "read"
    except FitnoiseError as error:
        result = f"{type(error).__name__}: {error}"
    return result, time.process_time() - start, peak_memory() - held
