"""The trial of every reader: known records, read out of each kind of source, have the declared cells.

Databases are tried when they are opened, on records that they get as SQL, and DuckDB on values that it casts itself.
Here the same values come out of files, frames and tables.
"""

import math

import pandas as pd
import pytest

import fitnoise as fn
import zoo
from fitnoise.engines import open_counter
from fitnoise.kernel.codings import cell_of
from fitnoise.kernel.counting.trial import ColumnKind, known_values
from fitnoise.kernel.units import DataSource, OutsideDomain, RecordBound
from laws.counting import check_counter
from records import Records, Sample, program
from refused import refused

COMPOSED, DECOMPOSED = "\u00e1", "a\u0301"
"""One letter for a reader of texts, in the two forms of Unicode (NFC and NFD)."""

TEXTS = ("a", "A", "a ", " a", COMPOSED, DECOMPOSED, "\u00df", "ss", "1", "01", "1.0", "'", "NULL", "\U0001f600", "i")

KNOWN_COLUMNS = {
    "texts": (fn.Categorical(TEXTS), "string", known_values(ColumnKind.TEXT)),
    "codes": (fn.Categorical((1, -3, 0, 17, 2**53 - 1)), "int64", known_values(ColumnKind.INTEGER)),
    "far": (fn.Binned([-(2**62), -3, 0, 3, 2**62]), "int64", (*known_values(ColumnKind.INTEGER), -(2**63))),
    "range": (fn.Ordered(-1, 3), "double", known_values(ColumnKind.DOUBLE)),
    "clipped": (fn.Ordered(0, 5, clip=True), "double", known_values(ColumnKind.DOUBLE)),
    "bins": (fn.Binned([-10.5, 0, 0.1, 2.5, 1000]), "double", (*known_values(ColumnKind.DOUBLE), math.nan, math.inf)),
    "truth": (fn.Categorical((True, False)), "bool", known_values(ColumnKind.TRUTH)),
}
"""For each known column its attribute, its type and its values, the first of which is inside."""

READERS = {name: source for name, source in zoo.COUNTERS.items() if not name.startswith("histogram")}
READERS |= {ending: program(ending) for ending in ("sav", "dta", "xpt")}

RECORDS_PER_TRIAL = 3
"""The least number of values that a source must hold of a column, or the trial would try nothing."""


def known_records(source):
    """Return records with one known value each; all other values are plain, so that none hides another."""
    samples = {
        a: Sample(attribute, kind, [], [*values, None]) for a, (attribute, kind, values) in KNOWN_COLUMNS.items()
    }
    held = {a: source.held(sample, sample.outside) for a, sample in samples.items()}
    held = {a: values for a, values in held.items() if len(values) >= RECORDS_PER_TRIAL}
    columns = {a: [v for b in held for v in (held[a] if a == b else [held[a][0]] * len(held[b]))] for a in held}
    domain = fn.Domain({a: samples[a].attribute for a in held})
    assert all(cell_of(domain[a].coding, values[0]) >= 0 for a, values in held.items())
    return Records(domain, columns, {a: samples[a].kind for a in held})


@pytest.mark.parametrize("name", READERS)
def test_known_records_have_the_declared_cells_in_every_reader(name, one_engine, tmp_path):
    source = READERS[name]
    check_counter(source, known_records(source), tmp_path, by_one_attributes=[])


@pytest.mark.parametrize("name", READERS)
def test_a_record_has_the_same_cells_among_all_others(name, one_engine, tmp_path):
    """A record alone is read as it is among the others: no type is guessed from its neighbours."""
    source = READERS[name]
    records = known_records(source)
    margins = [(a,) for a in records.values]
    options = DataSource(table=source.table, outside_domain=OutsideDomain.DROP)
    for i in (0, len(records) - 1):
        folder = tmp_path / str(i)
        folder.mkdir()
        one = records.part(slice(i, i + 1))
        counts = open_counter(source.make(one, folder), records.domain, options).count(margins)
        cells = {a: cell_of(records.domain[a].coding, values[0]) for a, values in one.values.items()}
        is_inside = all(cell >= 0 for cell in cells.values())
        for (a,), table in counts.items():
            assert table.sum() == is_inside
            assert not is_inside or table[cells[a]] == 1


def test_a_column_of_ids_that_becomes_one_of_numbers_is_refused():
    """pandas makes 1.0 of the id 1 where another record has none: the id would depend on that record."""
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]))
    bound, source = RecordBound("pid", 1), DataSource(outside_domain=OutsideDomain.DROP)
    integers = pd.DataFrame({"pid": [1, 1], "sex": ["f", "m"]})
    assert open_counter(integers, domain, source, bound).count([()])[()] == 1
    numbers = pd.concat([integers, pd.DataFrame({"pid": [None], "sex": ["f"]})]).astype({"pid": float})
    with refused("data.id-column-of-wrong-type"):
        open_counter(numbers, domain, source, bound).check(["sex"])
