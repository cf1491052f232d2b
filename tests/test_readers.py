"""The trial of every reader: known records, read out of each kind of source, have the declared cells.

Databases are tried when they are opened, on records that they get as SQL, and DuckDB on values that it casts itself.
Here the same values come out of files, frames and tables.
"""

import math
from datetime import date

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from engines import ENGINES
from fitnoise.engines import open_counter
from fitnoise.kernel.counting.persons import person_id
from fitnoise.kernel.counting.trial import ColumnKind, known_days, known_values
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.units import DataSource, OutsideDomain, RecordBound
from laws.counting import check_counter, counted, in_cells, same_counts
from records import DAY, STAMP, Records, Sample, program
from refused import refused

COMPOSED, DECOMPOSED = "\u00e1", "a\u0301"
"""One letter for a reader of texts, in the two forms of Unicode (NFC and NFD)."""

TEXTS = ("a", "A", "a ", " a", COMPOSED, DECOMPOSED, "\u00df", "ss", "1", "01", "1.0", "'", "NULL", "\U0001f600", "i")

MONTH = DateField(DatePart.MONTH)

TIMES = ("2024-01-31 23:59:59.999999", "2024-02-29T23:59", "2023-02-29", "2024-13-01", "2024-01-31x", "01.01.2024", "x")
"""Texts of times and of no times; the first is the last microsecond of a January."""

STAMPS = tuple(
    pd.Timestamp(x)
    for x in (
        "2000-02-29",
        "2024-01-31 23:59:59.999999999",
        "1969-12-31 23:59:59.999999999",
        "2100-03-01 00:00:00.000000001",
    )
)
"""Times at the first and the last nanosecond of a day, also before 1970."""

KNOWN_COLUMNS = {
    "values": {
        "texts": (fn.Categorical(TEXTS), "string", known_values(ColumnKind.TEXT)),
        "codes": (fn.Categorical((1, -3, 0, 17, 2**53 - 1)), "int64", known_values(ColumnKind.INTEGER)),
        "far": (fn.Binned([-(2**62), -3, 0, 3, 2**62]), "int64", (*known_values(ColumnKind.INTEGER), -(2**63))),
        "range": (fn.Ordered(-1, 3), "double", known_values(ColumnKind.DOUBLE)),
        "clipped": (fn.Ordered(0, 5, clip=True), "double", known_values(ColumnKind.DOUBLE)),
        "bins": (
            fn.Binned([-10.5, 0, 0.1, 2.5, 1000]),
            "double",
            (*known_values(ColumnKind.DOUBLE), math.nan, math.inf),
        ),
        "truth": (fn.Categorical((True, False)), "bool", known_values(ColumnKind.TRUTH)),
    },
    "missing values, amounts and dates": {
        "words": (
            fn.Categorical(("a", "A", COMPOSED), missing={"unknown": ["", "'"]}, if_missing="unknown"),
            "string",
            known_values(ColumnKind.TEXT),
        ),
        "numbers": (
            fn.Ordered(0, 5, missing={"unknown": [-3, 17], "other": []}, if_missing="unknown", if_outside="other"),
            "int64",
            known_values(ColumnKind.INTEGER),
        ),
        "amounts": (
            fn.Amount(-2, 8, step=0.5, missing={"unknown": [-3]}, if_missing="unknown"),
            "double",
            known_values(ColumnKind.DOUBLE),
        ),
        "months": (fn.Ordered(1, 12, date_part="month"), "string", (*known_days(MONTH), *TIMES)),
        "weekdays": (fn.Ordered(1, 7, date_part="weekday"), DAY, tuple(map(date.fromisoformat, known_days(MONTH)))),
        "years": (fn.Binned([1, 1970, 2000, 2024, 2100], date_part="year"), STAMP, STAMPS),
    },
}
"""For each known column of a group its attribute, its type and its values, the first of which is inside."""

READERS = {name: source for name, source in zoo.COUNTERS.items() if not name.startswith("histogram")}
READERS |= {ending: program(ending) for ending in ("sav", "dta", "xpt")}

IDS = {
    "string": (
        *("a", "A", "a ", " a", COMPOSED, DECOMPOSED, "\u00df", "ss", "1", "01", "1.0", "+1", "'", "\\", "%s", "NULL"),
        *("\U0001f600", "\u0130", "\u0131", "i", "I", "x" * 1024, "x" * 1025, COMPOSED * 512, COMPOSED * 513, ""),
    ),
    "int64": (0, 1, -1, 7, 70, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
}
"""Ids by the type of their column: texts that an engine may take for each other, and integers that are no doubles."""

NOT_STORED = dict.fromkeys(ENGINES, ("months", "years")) | {"sqlite": ("weekdays", "years")}
"""Known columns that a database does not store, or reads no dates from: texts, or times of nanoseconds."""

RECORDS_PER_TRIAL = 3
"""The least number of values that a source must hold of a column, or the trial would try nothing."""


def known_records(name, group):
    """Return records with one known value each; all other values are plain, so that none hides another."""
    samples = {
        a: Sample(attribute, kind, [], [*values, None])
        for a, (attribute, kind, values) in KNOWN_COLUMNS[group].items()
        if a not in NOT_STORED.get(name, ())
    }
    source = READERS[name]
    held = {a: source.held(sample, sample.outside) for a, sample in samples.items()}
    held = {a: values for a, values in held.items() if len(values) >= RECORDS_PER_TRIAL}
    columns = {a: [v for b in held for v in (held[a] if a == b else [held[a][0]] * len(held[b]))] for a in held}
    records = Records(fn.Domain({a: samples[a].attribute for a in held}), columns, {a: samples[a].kind for a in held})
    assert all(cells[0] >= 0 for cells in in_cells(records).values())
    return records


@pytest.mark.parametrize("group", KNOWN_COLUMNS)
@pytest.mark.parametrize("name", READERS)
def test_known_records_have_the_declared_cells_in_every_reader(name, group, one_engine, tmp_path):
    source = READERS[name]
    check_counter(source, known_records(name, group), tmp_path, by_one_attributes=[])


@pytest.mark.parametrize("group", KNOWN_COLUMNS)
@pytest.mark.parametrize("name", READERS)
def test_a_record_has_the_same_cells_among_all_others(name, group, one_engine, tmp_path):
    """A record alone is read as it is among the others: no type is guessed from its neighbours."""
    source = READERS[name]
    records = known_records(name, group)
    margins = [(a,) for a in records.values]
    options = DataSource(table=source.table, outside_domain=OutsideDomain.DROP)
    for i in (0, len(records) - 1):
        folder = tmp_path / str(i)
        folder.mkdir()
        one = records.part(slice(i, i + 1))
        counter = open_counter(source.make(one, folder), records.domain.axes, options)
        same_counts(counter.count(margins), counted(records.domain, in_cells(one), margins))


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("name", READERS)
def test_each_id_is_a_person_of_its_own_in_every_reader(name, kind, one_engine, tmp_path, monkeypatch):
    """Two records of each id lie in a cell of its own, in which one counts: none if the id is missing or too long."""
    monkeypatch.setattr("fitnoise.engines.sql.refuse_unless_bounded", lambda *_, **__: None)  # tried elsewhere
    source = READERS[name]
    ids = source.held(Sample(fn.Categorical(["-"]), kind, [], []), [*IDS[kind], None])
    domain = fn.Domain(cell=fn.Ordered(0, len(ids)), person=fn.Categorical(["-"]))
    cells = source.held(Sample(domain["cell"], "int16", [], []), range(len(ids)))
    values = {"cell": cells * 2, "person": ids * 2}
    data = source.make(Records(domain, values, {"cell": "int16", "person": kind}), tmp_path)
    options = DataSource(table=source.table, outside_domain=OutsideDomain.DROP)
    counter = open_counter(data, fn.Domain(cell=domain["cell"]).axes, options, RecordBound("person", 1))
    expected = [int(x is not None and person_id(x) is not None) for x in ids]
    same_counts(counter.count([("cell",)]), {("cell",): np.array([*expected, 0])})
    assert sum(expected) >= RECORDS_PER_TRIAL


def test_a_column_of_ids_that_becomes_one_of_numbers_is_refused():
    """pandas makes 1.0 of the id 1 where another record has none: the id would depend on that record."""
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]))
    bound, source = RecordBound("pid", 1), DataSource(outside_domain=OutsideDomain.DROP)
    integers = pd.DataFrame({"pid": [1, 1], "sex": ["f", "m"]})
    assert open_counter(integers, domain.axes, source, bound).count([()])[()] == 1
    numbers = pd.concat([integers, pd.DataFrame({"pid": [None], "sex": ["f"]})]).astype({"pid": float})
    with refused("data.id-column-of-wrong-type"):
        open_counter(numbers, domain.axes, source, bound).check(["sex"])
