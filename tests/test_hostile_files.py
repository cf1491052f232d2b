"""Plans, releases and ledgers of somebody else: whatever is in them, reading them is bounded, and errors are ours."""

import contextlib
import json
import os
import shutil
import sqlite3

import duckdb
import numpy as np
import pytest

import fitnoise as fn
import mutations
from fitnoise.errors import LedgerError, PlanError, ReleaseError
from fitnoise.mechanisms import documents
from fitnoise.reading import files as files_of
from fitnoise.reading import parquet
from fitnoise.reading.files import engine, read_parquet, read_text
from fitnoise.reading.parquet import LEAST, look

ROOM, PATIENCE = 700.0, 10.0
"""Megabytes and seconds that reading a file may take: under a gigabyte together with the 300 that a program holds."""


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("plan", range(25)),
        ("release", range(8)),
        ("ledger", range(25)),
        pytest.param(None, (37158, 37206, 37735), id="many results, weights beyond doubles"),
        *(pytest.param(None, range(n, n + 40), marks=pytest.mark.slow) for n in (1000, 1500)),
    ],
)
def test_altered_files_are_read_or_refused_in_bounded_memory_and_time(kind, numbers, tmp_path):
    said = set()
    for number in numbers:
        place = tmp_path / str(number)
        place.mkdir()
        what, path, read = mutations.made(number, place, kind)
        came, seconds, megabytes = mutations.outcome(read, path)
        assert seconds < PATIENCE, (number, what)
        assert megabytes < ROOM, (number, what)
        said.add(came.split(":")[0])
        shutil.rmtree(place)
    assert "read" in said
    assert len(said) > 1


# --- Parquet ------------------------------------------------------------------------------------------------


def varint(number):
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def whole(number):
    return varint(number << 1 ^ -(number < 0))


def page(values, room=10, encoding=0, dictionary=False):
    """The head of a page and its bytes."""
    inner = b"\x15" + whole(values) + b"\x15" + whole(encoding) + b"\x00"
    place = b"\x4c" if dictionary else b"\x2c"
    return (
        b"\x15" + whole(2 * dictionary) + b"\x15" + whole(room) + b"\x15" + whole(4) + place + inner + b"\x00" + b"...."
    )


SOUND = page(3, dictionary=True) + page(5, encoding=8) + page(2)

PAGES = {
    "sound": (SOUND, True),
    "too few values": (page(6), False),
    "too many values": (page(8), False),
    "more values than are told, and fewer": (page(9) + page(-2), False),
    "a large page": (page(7, room=1000), False),
    "large pages": (page(3, room=60) + page(4, room=60), False),
    "a page of negative size": (page(7, room=-1), False),
    "a large dictionary": (page(10**9, dictionary=True) + page(7), False),
    "lengths told one by one": (page(7, encoding=6), False),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_need_no_more_than_their_rows(name):
    raw, sound = PAGES[name]
    assert parquet._pages_sound(raw, 7, 100) == sound


def written(path, query, **options):
    with duckdb.connect() as connection:
        told = "".join(f", {key} {value}" for key, value in options.items())
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{told})")
    return path


@pytest.mark.parametrize("rows", [0, 1, 7, 300_000])
def test_what_the_engine_writes_is_looked_at_and_read(rows, tmp_path):
    query = (
        f"SELECT range AS n, 'x' || range % 7 AS s, range % 2 = 0 AS b, NULLIF(range, 3) / 3 AS v FROM range({rows})"
    )
    path = written(tmp_path / "sound.parquet", query)
    with engine() as files:
        frame, words = read_parquet(files, path, rows, 2)
        assert words == {}
        assert frame["n"].tolist() == list(range(rows))
        for other in (rows + 1, rows - 1):
            with pytest.raises(ReleaseError, match="It was not read"):
                read_parquet(files, path, other, 2)


def footer_of(raw):
    return raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8]


def test_a_footer_that_promises_more_than_it_holds_is_not_handed_on(tmp_path):
    """The engine makes room for ten million columns, 4 GB, before it looks whether they are there."""
    raw = written(tmp_path / "x.parquet", "SELECT 1::BIGINT AS a").read_bytes()
    footer = footer_of(raw)
    at = footer.index(b"\x19") + 1
    many = footer[:at] + bytes([0xF0 | footer[at] & 0xF]) + varint(10**7) + footer[at + 1 :]
    for other in (many, footer[:-1], b"\x1c" * len(footer), b"\x19" * 5000, b"", footer + b"\x00" * (LEAST + 2)):
        path = tmp_path / "other.parquet"
        path.write_bytes(raw[: -8 - len(footer)] + other + len(other).to_bytes(4, "little") + b"PAR1")
        if other == footer[:-1] or len(other) > LEAST:
            path.write_bytes(path.read_bytes()[:-8] + len(other).to_bytes(4, "little") + b"PAR1")
        with pytest.raises(ReleaseError, match="It was not read"):
            look(path, 1, 8)


BOMBS = {
    "rows": "SELECT 'a' AS label, 0.0 AS value FROM range(20_000_000)",
    "columns": f"SELECT {', '.join(f'1 AS c{i}' for i in range(1001))} FROM range(5)",
    "nested": "SELECT [1, 2] AS label FROM range(5)",
    "large pages": "SELECT repeat('x', 1_000_000) || range AS label FROM range(5)",
}


@pytest.mark.parametrize("name", BOMBS)
def test_files_that_would_take_more_than_their_rows_are_not_read(name, tmp_path):
    path = written(tmp_path / "bomb.parquet", BOMBS[name])
    with pytest.raises(ReleaseError, match="It was not read"):
        look(path, 5, 8)


def test_one_long_text_many_times_is_refused(tmp_path):
    """Stored once in its dictionary, it would be once in memory for every row."""
    path = written(tmp_path / "bomb.parquet", "SELECT repeat('x', 10_000) AS label FROM range(1000)")
    with engine() as files, pytest.raises(ReleaseError, match="longer than any in its release"):
        read_parquet(files, path, 1000, 8)


@pytest.mark.parametrize("small", [0, 2**22], ids=["before it is read", "after it was read"])
def test_a_long_text_is_refused_whenever_it_is_measured(small, tmp_path, monkeypatch):
    """By its bytes: one letter is two of them here. What is missing has no length."""
    monkeypatch.setattr(files_of, "SMALL", small)
    texts = "SELECT NULLIF(repeat('é', range), '') AS label, range AS n FROM range(5)"
    path = written(tmp_path / "texts.parquet", texts)
    with engine() as files:
        assert read_parquet(files, path, 5, 8)[0]["n"].tolist() == list(range(5))
        with pytest.raises(ReleaseError, match="longer than any in its release"):
            read_parquet(files, path, 5, 7)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    pipe = tmp_path / "plan.json"
    os.mkfifo(pipe)
    with pytest.raises(ReleaseError, match="missing or unreadable"):
        read_text(pipe)
    with pytest.raises(ReleaseError, match="missing or unreadable"):
        look(pipe, 1, 1)


# --- plans --------------------------------------------------------------------------------------------------


SAMPLE = (mutations.SAMPLES / "plans" / "old.json").read_text(encoding="utf-8")


def test_a_document_has_no_more_marks_and_digits_and_bytes_than_are_read(tmp_path, monkeypatch):
    digits = documents.DIGITS
    assert documents.parse(f"[{'7' * digits}]") == [int("7" * digits)]
    for text in (f"[{'7' * (digits + 1)}]", "[" * 100_000 + "]" * 100_000, '{"a": 1'):
        with pytest.raises(ValueError, match=r"limits|deeply|delimiter"):
            documents.parse(text)
        with pytest.raises(PlanError, match="larger or deeper"):
            fn.Plan.from_json(text)
    monkeypatch.setattr(documents, "MARKS", 5)
    assert documents.parse('[["ab"], 1]') == [["ab"], 1]
    with pytest.raises(ValueError, match="limits"):
        documents.parse('[["ab"], "c"]')
    with pytest.raises(ReleaseError, match=r"no one could verify its release.*nothing was charged"):
        fn.release(fn.plan(fn.matrix_workload([[1]], variances=[1])), np.zeros(1, dtype=int), ledger=tmp_path / "book")
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(documents.LARGEST + 1)
    with pytest.raises(ReleaseError, match="larger than any plan"):
        read_text(path)


@pytest.mark.parametrize("inner", ["[" * 900 + "]" * 900, "7" * 1999, "[" + "0," * 10**5 + "0]"])
def test_odd_values_in_a_plan_are_errors_of_ours(inner):
    document = json.loads(SAMPLE)
    for key in ("cost", "strategy", "evidence", "status"):
        altered = json.dumps({**document, key: "HERE"}).replace('"HERE"', inner)
        with pytest.raises(PlanError):
            fn.Plan.from_json(altered)


def test_a_plan_beyond_the_memory_is_an_error_of_ours(monkeypatch):
    def beyond(*_):
        raise MemoryError

    monkeypatch.setattr(fn.Plan, "_read", beyond)
    with pytest.raises(PlanError, match="more memory than there is"):
        fn.Plan.from_json(SAMPLE)


def test_a_folder_with_many_other_files_is_told_in_few_words(tmp_path):
    folder = shutil.copytree(mutations.SAMPLES / "releases" / "old", tmp_path / "release")
    for i in range(200):
        (folder / f"other {i}").touch()
    (found,) = (c.found for c in fn.verify(folder).checks if c.claim == "its files are those of a release")
    assert "not part of a release" in found
    assert found.count("other") < 50


# --- ledgers ------------------------------------------------------------------------------------------------


def open_altered(path, *statements):
    """Open a copy of the ledger made before, altered past its triggers, which are put back."""
    shutil.copyfile(mutations.LEDGER, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        for trigger in ("entries_stay", "entries_keep", "entries_follow"):
            db.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            db.execute(statement)
        if "VIEW" not in statements[-1]:
            db.executescript(";".join(mutations.TRIGGERS))
        db.commit()
    with fn.Ledger(path) as book:
        return book.entries()


LEDGERS = {
    "a view without end": (["DROP TABLE entries", mutations.ENDLESS], "its table or its triggers"),
    "a text of many bytes": (
        ["UPDATE entries SET time = CAST(zeroblob(70000000) AS TEXT) WHERE sequence = 5"],
        "too big|damaged",
    ),
    "a long number": ([f"UPDATE entries SET rho = '{'7' * 4000}' WHERE sequence = 1"], "entry 1 is not what a ledger"),
    "a profile of many axes": (
        [
            'UPDATE entries SET detail = \'{"profile":{"axes":['
            + ",".join(f'["{i}",{"9" * 4000}]' for i in range(50))
            + '],"values":[1]}}\' WHERE sequence = 4'
        ],
        "entry 4 is not what a ledger",
    ),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_ledgers_that_would_take_long_are_refused(name, tmp_path):
    statements, told = LEDGERS[name]
    with pytest.raises(LedgerError, match=told):
        open_altered(tmp_path / "ledger.sqlite", *statements)
