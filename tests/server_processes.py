"""Processes that charge a ledger in PostgreSQL, and stop where a test kills them or their server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fitnoise as fn
from fitnoise.errors import BudgetExceeded, FitnoiseError
from fitnoise.ledgers import PostgresStore
from laws.stores import charge


def race(*addresses: str) -> None:
    """Charge each ledger once, and print the outcomes."""
    outcomes = []
    for address in addresses:
        with fn.Ledger(address) as ledger:
            try:
                outcomes.append(charge(ledger).kind)
            except BudgetExceeded:
                outcomes.append("refusal")
    sys.stdout.write(json.dumps(outcomes))


class _Stopping:
    """A store that stops at a moment of its transaction number `turn` that appends, until a line comes."""

    def __init__(self, turn: int, moment: str) -> None:
        self.turn, self.moment, self.turns = turn, moment, 0

    def reach(self, moment: str) -> None:
        if (self.turns, moment) == (self.turn, self.moment):
            sys.stdout.write("reached\n")
            sys.stdout.flush()
            sys.stdin.readline()

    def install(self) -> None:
        begin, rows, append, commit = (getattr(PostgresStore, x) for x in ("_begin", "rows", "append", "commit"))
        run = PostgresStore._run

        def stopping_begin(store: PostgresStore) -> None:
            begin(store)
            if store._write:
                self.reach("begin")

        def stopping_rows(store: PostgresStore) -> object:
            read = list(rows(store))
            if store._write:
                self.reach("rows")
            return iter(read)

        def stopping_append(store: PostgresStore, row: object) -> None:
            append(store, row)
            self.reach("append")

        def stopping_run(store: PostgresStore, statement: str, **values: object) -> object:
            if statement == "COMMIT" and store._appended:
                self.reach("before")
            return run(store, statement, **values)

        def stopping_commit(store: PostgresStore) -> None:
            commit(store)
            if store._appended:
                self.reach("after")
                self.turns += 1

        for name, function in (
            ("_begin", stopping_begin),
            ("rows", stopping_rows),
            ("append", stopping_append),
            ("_run", stopping_run),
            ("commit", stopping_commit),
        ):
            setattr(PostgresStore, name, function)


def stop(address: str, plan: str, folder: str, turn: str, moment: str) -> None:
    """Release, and stop at a moment; print the code of an error."""
    _Stopping(int(turn), moment).install()
    try:
        fn.release(fn.Plan.load(plan), Path(plan).with_name("people.csv"), ledger=address, directory=folder)
    except FitnoiseError as error:
        sys.stdout.write(error.code)
