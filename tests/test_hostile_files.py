"""Plans, releases and ledgers of others: reading any content is bounded, and errors are those of fitnoise."""

import contextlib
import copy
import hashlib
import itertools
import json
import math
import os
import shutil
import sqlite3
import tempfile
import tracemalloc
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pandas
import polars
import pyarrow.parquet as arrow_parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import mutations
from fitnoise.errors import PlanError, ReleaseError
from fitnoise.mechanisms import documents
from fitnoise.messages import english
from fitnoise.planning.files import read_text
from fitnoise.reading import parquet
from fitnoise.reading.parquet import MIN_ALLOWED_BYTES
from fitnoise.reading.parquet import read as read_columns
from fitnoise.reading.release_files import write_parquet
from fitnoise.solving import sectors
from laws.releases import answered
from refused import refused

ROOM, PATIENCE = 700.0, 10.0
"""Megabytes and seconds that reading a file may take: under a gigabyte together with the 300 that a program holds."""


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("plan", range(25)),
        ("release", range(24)),
        ("ledger", range(25)),
        pytest.param(None, (37158, 37206, 37735), id="many results, weights beyond doubles"),
        *(pytest.param(None, range(n, n + 40), marks=pytest.mark.slow) for n in (1000, 1500)),
    ],
)
def test_altered_files_are_read_or_refused_in_bounded_memory_and_time(kind, numbers, tmp_path):
    outcomes = set()
    for number in numbers:
        folder = tmp_path / str(number)
        folder.mkdir()
        what, path, read = mutations.mutate(number, folder, kind)
        came, seconds, megabytes = mutations.outcome(read, path)
        assert seconds < PATIENCE, (number, what)
        assert megabytes < ROOM, (number, what)
        outcomes.add(came.split(":")[0])
        shutil.rmtree(folder)
    assert "read" in outcomes
    assert len(outcomes) > 1


# --- Parquet ------------------------------------------------------------------------------------------------

KINDS = {
    "texts": st.text(st.characters(codec="utf-8"), max_size=8),
    "few texts": st.sampled_from(["a", "é", "x\0y", "", "NA"]),
    "truth": st.booleans(),
    "whole": st.integers(-(2**63), 2**63 - 1),
    "few numbers": st.integers(-1, 1),
    "floats": st.floats(),
    "few floats": st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf]),
}
TYPES = {"texts": object, "few texts": object, "truth": bool, "whole": np.int64, "few numbers": np.int64}


@cache
def fresh_reader():
    """Return a connection that keeps nothing of the files it reads."""
    return duckdb.connect(config={"enable_external_file_cache": False})


def by_readers(path):
    """Return the contents of a file from three readers, column by column."""
    columns = fresh_reader().execute(f"FROM read_parquet('{path}')").fetchnumpy()
    arrow, frame = arrow_parquet.read_table(path), polars.read_parquet(path)
    assert arrow.column_names == frame.columns == list(columns)
    return {c: (arrow[c].to_pylist(), frame[c].to_list(), columns[c].tolist()) for c in frame.columns}


def same(one, other):
    """Return True if values are equal, floats bit by bit."""
    return [repr(x) for x in one] == [repr(x) for x in other]


def table(rows, seed, kinds=KINDS):
    """Columns of every kind."""
    draw = np.random.default_rng(seed)
    values = {
        "texts": [f"{i}é" for i in range(rows)],
        "few texts": draw.choice(["a", "x\0y", ""], rows).tolist(),
        "truth": (draw.random(rows) < 0.5).tolist(),
        "whole": draw.integers(-(2**63), 2**63 - 1, rows).tolist(),
        "few numbers": draw.integers(-1, 2, rows).tolist(),
        "floats": draw.normal(size=rows).tolist(),
        "few floats": draw.choice([0.0, -0.0, 1.5, math.inf], rows).tolist(),
    }
    return {kind: np.array(values[kind], dtype=TYPES.get(kind, float)) for kind in kinds}


@settings(max_examples=40)
@given(st.data(), st.integers(0, 20))
def test_three_readers_see_what_is_written(data, rows):
    columns = {
        kind: np.array(data.draw(st.lists(values, min_size=rows, max_size=rows)), dtype=TYPES.get(kind, float))
        for kind, values in KINDS.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        write_parquet(columns, path, sha256="0" * 64)
        read, metadata = read_columns(path, rows, 40)
        assert metadata == {"sha256": "0" * 64}
        for name, readers in by_readers(path).items():
            for values in (read[name].tolist(), *readers):
                assert same(values, columns[name].tolist()), name


@pytest.mark.parametrize("rows", [1, 255, 256, 257, parquet.GROUP_ROWS + 1])
def test_three_readers_see_every_row_of_large_files(rows, tmp_path):
    columns, path = table(rows, rows), tmp_path / "t.parquet"
    write_parquet(columns, path)
    read, _ = read_columns(path, rows, 8)
    for name, readers in by_readers(path).items():
        assert all(same(values, columns[name].tolist()) for values in (read[name].tolist(), *readers))


def test_a_file_has_one_form_and_no_statistics(tmp_path):
    """Detects another layout: a change needs another number in `WRITER`."""
    columns = {
        "text": np.array(["a", "é", "a"], dtype=object),
        "truth": np.array([True, False, True]),
        "whole": np.array([1, -(2**63), 3]),
        "value": np.array([0.5, -0.0, math.inf]),
        "moe": np.array([1.5, 1.5, 1.5]),
    }
    write_parquet(columns, tmp_path / "t.parquet", sha256="x")
    assert hashlib.sha256((tmp_path / "t.parquet").read_bytes()).hexdigest() == ONE_FORM
    metadata = arrow_parquet.ParquetFile(tmp_path / "t.parquet").metadata
    chunks = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    assert metadata.created_by == parquet.WRITER
    assert not any(c.is_stats_set or c.has_offset_index or c.has_column_index for c in chunks)
    assert {c.compression for c in chunks} == {"UNCOMPRESSED"}


ONE_FORM = "9711ab79d1cad4abe9603e7e450990c3a478da824e793469c861624cacdbe964"


def read_or_refused(path, rows, raw, longest=40):
    """Read a file with these bytes: if it is not refused, its values imply every byte, and three readers see them."""
    path.write_bytes(raw)
    try:
        columns, metadata = read_columns(path, rows, longest)
    except ReleaseError:
        return False
    assert b"".join(parquet.pieces(columns, metadata)) == raw
    for name, readers in by_readers(path).items():
        assert all(same(values, columns[name].tolist()) for values in readers), name
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_of_a_file_with_altered_bytes_three_readers_see_too(kind, tmp_path):
    path, rng = tmp_path / "t.parquet", np.random.default_rng(3)
    write_parquet(table(9, 2, [kind]), path, sha256="0" * 16)
    raw = path.read_bytes()
    others = {raw + b"PAR1", b"PAR1" + raw, raw[:-1], raw[4:], b"", b"PAR1PAR1", b"PAR1" + bytes(4) + b"PAR1"}
    for i in range(len(raw)):
        others |= {raw[:i] + bytes([x]) + raw[i + 1 :] for x in (raw[i] ^ 1 << int(rng.integers(8)), 0)}
    for i in rng.integers(len(raw), size=40).tolist():
        others |= {raw[:i] + raw[i + 1 :], raw[:i] + raw[i : i + 1] + raw[i:]}
    came = [read_or_refused(path, 9, other) for other in sorted(others - {raw})]
    assert any(came)  # other values, in the same form
    assert not all(came)


def typed(thrift):
    """A structure with the kinds of its fields: [number, kind, value]."""
    out, number = [], 0
    while head := thrift.byte():
        number += head >> 4
        kind = head & 0xF
        out.append([number, kind, value(thrift, kind)])
    return out


def value(thrift, kind):
    if kind == 12:
        return typed(thrift)
    if kind == 9:
        head = thrift.byte()
        size = head >> 4 if head >> 4 < 15 else thrift.varint()
        return [head & 0xF, [value(thrift, head & 0xF) for _ in range(size)]]
    return bytes(thrift.skip(thrift.varint())) if kind == 8 else thrift.varint()


def untyped(fields):
    """The bytes of such a structure."""
    return parquet._fields(*((number, kind, as_bytes(kind, x)) for number, kind, x in fields))


def as_bytes(kind, x):
    if kind == 12:
        return untyped(x)
    if kind == 9:
        return parquet._list(x[0], [as_bytes(x[0], item) for item in x[1]])
    return parquet._varint(len(x)) + x if kind == 8 else parquet._varint(x)


def structures(fields):
    """All structures within one, itself first."""
    yield fields
    for _, kind, x in fields:
        inner = [x] if kind == 12 else x[1] if kind == 9 and x[0] == 12 else []
        for one in inner:
            yield from structures(one)


STATISTICS = [[3, 6, 4], [5, 8, bytes(8)], [6, 8, bytes(8)]]
EXTRA_FIELDS = [
    (12, STATISTICS),
    (9, [12, [STATISTICS]]),
    (9, [5, [2]]),
    (9, [8, [b"x"]]),
    (8, b"x"),
    (6, 2),
    (5, 0),
    (1, None),
]


def altered_structures(root):
    """Every footer or head that differs in one field: a number, a text, one left out, one more."""
    for i, _ in enumerate(structures(root)):
        count = len(next(itertools.islice(structures(root), i, None)))
        for position in range(count):
            for change in ("less", "more", "double", "gone"):
                other = copy.deepcopy(root)
                fields = next(itertools.islice(structures(other), i, None))
                number, kind, x = fields[position]
                if change == "gone":
                    del fields[position]
                elif kind in (5, 6):
                    fields[position][2] = {"less": max(x - 2, 0), "more": x + 2, "double": 2 * x + 1}[change]
                elif kind == 8:
                    fields[position][2] = {"less": x[:-1], "more": x + b"x", "double": x + x}[change]
                elif kind == 9:
                    x[1] = {"less": x[1][:-1], "more": [*x[1], *x[1][-1:]], "double": x[1][::-1]}[change]
                yield other
        for number in range(1, 15):
            for kind, x in EXTRA_FIELDS:
                other = copy.deepcopy(root)
                fields = next(itertools.islice(structures(other), i, None))
                if number not in [f[0] for f in fields] and kind != 1:
                    fields.append([number, kind, x])
                    fields.sort(key=lambda f: f[0])
                    yield other


def test_a_footer_that_says_anything_else_is_refused_or_seen_by_three_readers(tmp_path):
    """Each field in turn: statistics, offsets, sizes, counts, indexes, types, words, and all that may be added."""
    path = tmp_path / "t.parquet"
    write_parquet({"s": np.array(["a", "b", "a"], dtype=object), "v": np.array([1.0, 2.0, 3.0])}, path, sha256="0")
    raw = path.read_bytes()
    length = len(footer_of(raw))
    footer = typed(parquet._ThriftReader(memoryview(footer_of(raw))))
    assert untyped(footer) == footer_of(raw)
    tried, came = 0, 0
    for other in altered_structures(footer):
        new = untyped(other)
        if new != footer_of(raw):
            tried += 1
            altered = raw[: -8 - length] + new + len(new).to_bytes(4, "little") + b"PAR1"
            came += read_or_refused(path, 3, altered)
    assert tried > 500
    assert 0 < came < 20  # names of columns and words: the caller compares these


OTHER_KINDS = [(6, 2 * 10**9), (6, 3), (8, b"x"), (12, STATISTICS), (9, [6, [2 * 10**9]]), (9, [8, [b"x"]])]
"""Values of fields: numbers as they are written, zigzag, of a gigabyte and more of zeros."""


def test_a_field_of_another_kind_is_refused_and_takes_no_memory(tmp_path):
    """Detects a number in place of a text, which became as many bytes."""
    path = tmp_path / "t.parquet"
    write_parquet({"s": np.array(["a", "b", "a"], dtype=object), "v": np.array([1.0, 2.0, 3.0])}, path, sha256="0")
    raw = path.read_bytes()
    length = len(footer_of(raw))
    footer = typed(parquet._ThriftReader(memoryview(footer_of(raw))))
    sizes = [len(fields) for fields in structures(footer)]
    tracemalloc.start()
    for i, position, (kind, x) in [(i, j, k) for i, n in enumerate(sizes) for j in range(n) for k in OTHER_KINDS]:
        other = copy.deepcopy(footer)
        fields = next(itertools.islice(structures(other), i, None))
        if fields[position][1] != kind:
            fields[position][1:] = [kind, x]
            new = untyped(other)
            path.write_bytes(raw[: -8 - length] + new + len(new).to_bytes(4, "little") + b"PAR1")
            with refused("release.wrong-parquet-file"):
                read_columns(path, 3, 9)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sizes) > 40
    assert peak < 2**22


def test_the_head_of_a_page_that_says_anything_else_is_refused(tmp_path, monkeypatch):
    """The footer fits: it is written after the pages, with their sizes."""
    path, columns = tmp_path / "t.parquet", {"s": np.array(["a", "b", "a"], dtype=object)}
    pages, tried = list(parquet._pages(columns["s"])), 0
    for page in (0, 1):
        thrift = parquet._ThriftReader(memoryview(pages[page]))
        head = typed(thrift)
        rest = pages[page][thrift.position :]
        for other in altered_structures(head):
            changed = [*pages]
            changed[page] = untyped(other) + rest
            if changed == pages:
                continue
            with monkeypatch.context() as here:
                here.setattr(parquet, "_pages", lambda _, changed=changed: iter(changed))
                raw = b"".join(parquet.pieces(columns, {}))
            tried += 1
            assert not read_or_refused(path, 3, raw)
    assert tried > 100


def test_statistics_from_which_an_engine_answers_are_refused(tmp_path, monkeypatch):
    """Detects that the files tried above would not mislead anyone: here DuckDB is misled."""
    path, chunk = tmp_path / "t.parquet", parquet._chunk
    low, high = np.array([100.0]).tobytes(), np.array([200.0]).tobytes()

    def forged(name, values, sizes, row):
        thrift = parquet._ThriftReader(memoryview(chunk(name, values, sizes, row)))
        (head, (number, kind, metadata)) = typed(thrift)
        return untyped([head, [number, kind, [*metadata, [12, 12, [[5, 8, high], [6, 8, low]]]]]])

    with monkeypatch.context() as here:
        here.setattr(parquet, "_chunk", forged)
        write_parquet({"v": np.array([1.0, 2.0, 3.0])}, path)
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM '{path}' WHERE v < 50").fetchone() == (0,)
    with refused("release.wrong-parquet-file"):
        read_columns(path, 3, 8)
    assert not read_or_refused(path, 3, path.read_bytes())


def test_a_file_of_another_program_is_refused_though_its_values_are_right(tmp_path):
    path, columns = tmp_path / "t.parquet", {"v": np.array([1.0, 2.0, 3.0])}
    with duckdb.connect() as connection:
        connection.register("frame", columns)
        connection.execute(f"COPY (FROM frame) TO '{path}' (FORMAT parquet)")
    assert not read_or_refused(path, 3, path.read_bytes())
    pandas.DataFrame(columns).to_parquet(path)
    assert not read_or_refused(path, 3, path.read_bytes())
    polars.DataFrame(columns).write_parquet(path, statistics=False, compression="uncompressed")
    assert not read_or_refused(path, 3, path.read_bytes())
    write_parquet(columns, path)
    assert read_or_refused(path, 3, path.read_bytes())


def footer_of(raw):
    return raw[-8 - int.from_bytes(raw[-8:-4], "little") : -8]


def test_a_footer_that_promises_more_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    write_parquet({"a": np.array([1])}, path)
    raw = path.read_bytes()
    footer = footer_of(raw)
    start = footer.index(b"\x19") + 1
    many = footer[:start] + bytes([0xF0 | footer[start] & 0xF]) + parquet._varint(10**7) + footer[start + 1 :]
    for other in (
        many,
        footer[:-1],
        b"\x1c" * len(footer),
        b"\x19" * 5000,
        b"",
        footer + b"\x00" * (MIN_ALLOWED_BYTES + 2),
    ):
        length = len(other) if other != many else len(many)
        path.write_bytes(raw[: -8 - len(footer)] + other + length.to_bytes(4, "little") + b"PAR1")
        with refused("release.wrong-parquet-file"):
            read_columns(path, 1, 8)


BOMBS = {
    "rows": lambda: {"label": np.array(["a"] * 10**6, dtype=object)},
    "columns": lambda: {f"c{i}": np.array([1] * 5) for i in range(1001)},
    "long texts": lambda: {"label": np.array(["x" * 10**6] * 5, dtype=object)},
    "texts a little too long": lambda: {"label": np.array(["é" * 5] * 5, dtype=object)},
}


@pytest.mark.parametrize("name", BOMBS)
def test_files_that_would_take_more_than_their_rows_are_not_read(name, tmp_path):
    path = tmp_path / "bomb.parquet"
    write_parquet(BOMBS[name](), path)
    with refused("release.wrong-parquet-file"):
        read_columns(path, 5, 9)


def test_what_is_written_is_bounded_by_its_rows(tmp_path):
    """Detects a sound file that is refused for its size: all different texts of the most bytes, and numbers."""
    for rows in (1, 1000, 70_000):
        path = tmp_path / "t.parquet"
        write_parquet({"s": np.array([f"{i:08}" for i in range(rows)], dtype=object), "v": np.arange(rows) / 7}, path)
        assert len(read_columns(path, rows, 8)[0]["v"]) == rows
        for other in (rows + 1, rows - 1):
            with refused("release.wrong-parquet-file"):
                read_columns(path, other, 8)


def test_links_in_a_release_are_refused(tmp_path):
    """The target of a link may change after the release was verified."""
    plan = fn.plan(fn.Workload(fn.Domain(a=fn.Categorical(["x", "y"])), [fn.table("a", margin=5)]))
    folder = answered(plan, 3).write(tmp_path / "release")
    assert all(c.holds for c in fn.verify(folder).checks if english(c.claim) == FILES)
    table_file = folder / "tables" / "a.csv"
    table_file.rename(tmp_path / "elsewhere.csv")
    table_file.symlink_to(tmp_path / "elsewhere.csv")
    (check,) = (c for c in fn.verify(folder).checks if english(c.claim) == FILES)
    assert not check.holds
    assert "links" in english(check.finding)
    assert "tables/a.csv" in english(check.finding)
    table_file.unlink()
    (tmp_path / "elsewhere.csv").rename(table_file)
    (folder / "tables").rename(tmp_path / "tables")
    (folder / "tables").symlink_to(tmp_path / "tables")
    assert not next(c for c in fn.verify(folder).checks if english(c.claim) == FILES).holds


FILES = "its files are those of a release"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    pipe = tmp_path / "plan.json"
    os.mkfifo(pipe)
    with refused("release.file-not-readable"):
        read_text(pipe)
    with refused("release.file-not-readable"):
        read_columns(pipe, 1, 1)


# --- plans --------------------------------------------------------------------------------------------------


SAMPLE = (mutations.SAMPLES / "plans" / "old.json").read_text(encoding="utf-8")


def test_a_document_has_no_more_marks_and_digits_and_bytes_than_are_read(tmp_path, monkeypatch):
    digits = documents.MAX_NUMBER_DIGITS
    assert documents.parse(f"[{'7' * digits}]") == [int("7" * digits)]
    for text in (f"[{'7' * (digits + 1)}]", "[" * 100_000 + "]" * 100_000, '{"a": 1'):
        with pytest.raises(ValueError, match=r"limits|deeply|delimiter"):
            documents.parse(text)
        with refused("plan.plan-not-json"):
            fn.Plan.from_json(text)
    monkeypatch.setattr(documents, "MAX_QUOTES_AND_BRACKETS", 5)
    assert documents.parse('[["ab"], 1]') == [["ab"], 1]
    with pytest.raises(ValueError, match="limits"):
        documents.parse('[["ab"], "c"]')
    with refused("release.plan-too-long"):
        fn.release(fn.plan(fn.matrix_workload([[1]], variances=[1])), np.zeros(1, dtype=int), ledger=tmp_path / "book")
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(documents.MAX_DOCUMENT_BYTES + 1)
    with refused("release.file-too-large"):
        read_text(path)


@pytest.mark.parametrize("inner", ["[" * 900 + "]" * 900, "7" * 1999, "[" + "0," * 10**5 + "0]"])
def test_odd_values_in_a_plan_are_errors_of_ours(inner):
    document = json.loads(SAMPLE)
    for key in ("cost", "strategy", "weights", "status"):
        altered = json.dumps({**document, "tables": [{**document["tables"][0], key: "HERE"}]}).replace('"HERE"', inner)
        with pytest.raises(PlanError):
            fn.Plan.from_json(altered)


def test_a_plan_too_large_for_the_memory_is_an_error_of_fitnoise(monkeypatch):
    def exhaust(*_):
        raise MemoryError

    monkeypatch.setattr(fn.Plan, "_read", exhaust)
    with refused("plan.plan-too-large-for-memory"):
        fn.Plan.from_json(SAMPLE)


def test_a_plan_that_needs_more_memory_than_there_is_says_so_to_its_reader(monkeypatch):
    """The words of planning, "coarsen an attribute", would lead to another plan."""
    monkeypatch.setattr(sectors, "physical_memory", lambda: 1)
    with refused("plan.plan-too-large-for-memory"):
        fn.Plan.from_json(SAMPLE)


def test_a_folder_with_many_other_files_is_described_briefly(tmp_path):
    folder = shutil.copytree(mutations.SAMPLES / "releases" / "old", tmp_path / "release")
    for i in range(200):
        (folder / f"other {i}").touch()
    (message,) = (
        english(c.finding) for c in fn.verify(folder).checks if english(c.claim) == "its files are those of a release"
    )
    assert "not expected: " in message
    assert message.count("other") < 50


# --- ledgers ------------------------------------------------------------------------------------------------


def open_altered(path, *statements):
    """Open a copy of the ledger made before, altered past its triggers, which are put back."""
    path.write_bytes(mutations.ledger_file())
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
    "a view without end": (["DROP TABLE entries", mutations.ENDLESS], "ledger.schema-altered"),
    "a text of many bytes": (
        ["UPDATE entries SET time = CAST(zeroblob(70000000) AS TEXT) WHERE sequence = 5"],
        "ledger.ledger-unusable",
    ),
    "a long number": ([f"UPDATE entries SET rho = '{'7' * 4000}' WHERE sequence = 1"], "ledger.entry-invalid"),
    "a profile of many axes": (
        [
            'UPDATE entries SET detail = \'{"profile":{"axes":['
            + ",".join(f'["{i}",{"9" * 4000}]' for i in range(50))
            + '],"values":[1]}}\' WHERE sequence = 4'
        ],
        "ledger.entry-invalid",
    ),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_ledgers_that_would_take_long_are_refused(name, tmp_path):
    statements, code = LEDGERS[name]
    with refused(code):
        open_altered(tmp_path / "ledger.sqlite", *statements)
