"""The laws of counting: attributes, counters, and the counts that a design takes."""

import itertools
import json
import traceback
from dataclasses import replace

import numpy as np
import pytest

import fitnoise as fn
from designs import domain_of, steps_of
from fitnoise.engines import open_counter
from fitnoise.engines.histogram import HistogramCounter
from fitnoise.errors import DataError
from fitnoise.kernel.codings import DROPPED, OUTSIDE
from fitnoise.kernel.counting import Counter
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import DataSource, OutsideDomain
from fitnoise.request.attributes import attribute_document
from refused import SECRET

DROP, REFUSE = OutsideDomain.DROP, OutsideDomain.REFUSE


class AtEnds(Counter):
    """Counts of records whose amounts are all at a knot: of each 1 − j at the first knot and J_s at each other one."""

    drops = False

    def __init__(self, counts, domain):
        categorical = {
            a: fn.Categorical(list(range(domain[a].size))) if a in domain.steps else domain[a] for a in domain
        }
        self._counted, self._steps = HistogramCounter(counts, fn.Domain(categorical).axes), domain.steps

    def check(self, attributes):
        self._counted.check(attributes)

    def count(self, margins, progress=None):
        at_knots = {a: np.cumsum((0, *pieces)).tolist() for a, pieces in self._steps.items()}
        return in_moments(self._counted.count(margins, progress), self._steps, at_knots)


def in_moments(counts, steps, codes):
    """Return counts by the step of amounts as a counter has them: 1 − j at the first knot and J_s at each other one.

    codes: Steps that have counts, in order; the cells without a knot come after them.
    """
    for margin, a in [(m, a) for m in counts for a in m if a in steps]:
        axis, values = margin.index(a), np.moveaxis(counts[margin], margin.index(a), 0)
        n, ends = len(codes[a]), np.cumsum((0, *steps[a])).tolist()
        rows = [[1 - j for j in codes[a]]]
        rows += [[min(max(j - x, 0), y - x) for j in codes[a]] for x, y in itertools.pairwise(ends)]
        counts[margin] = np.concatenate([np.stack([np.tensordot(row, values[:n], 1) for row in rows]), values[n:]])
        counts[margin] = np.ascontiguousarray(np.moveaxis(counts[margin], 0, axis))
    return counts


def counts_of(design, *tables):
    """Return the counts of each table for a design, from records by their values and by the steps of their amounts.

    All tables are counted at once, as one table with an attribute more.
    """
    steps, domain = steps_of(design), domain_of(design)
    all_tables = Domain({"table": fn.Ordered(1, len(tables)).axis, **domain})
    margins = [("table", *m) for m in design.margins()]
    counts = HistogramCounter(np.concatenate(tables), all_tables).count(margins)
    codes = {a: range(sum(pieces) + 1) for a, pieces in steps.items()}
    return [in_moments({m[1:]: x[i].copy() for m, x in counts.items()}, steps, codes) for i in range(len(tables))]


def counter_of_counts(counts, domain):
    """Return a counter of all cells of a domain. For amounts it has the ends, which arrays do not give the product."""
    return AtEnds(counts, domain) if domain.steps else HistogramCounter(counts, domain.axes)


def check_attribute(sample):
    """Every value falls into the cell declared for it; published values have places, and declarations documents."""
    a = sample.attribute
    assert a.size == len(sample.cells) == len(a.values)
    for cell, values in enumerate(sample.cells):
        for v in values:
            assert a.cell(v) == cell, repr(v)
    for v in sample.outside:
        assert a.cell(v) is None, repr(v)
    assert [a.position(v) for v in a.values] == list(range(a.size))
    document = attribute_document(a)
    assert json.loads(json.dumps(document)) == document
    assert (document["type"], document["column"]) == (a.kind, a.column)


def in_cells(records):
    """The cell of every record by attribute, below 0 where it has none, in plain Python."""
    attributes = {a: records.domain[a] for a in records.values}
    read = {a: (lambda v: v) if x.derived is None else x.derived.number for a, x in attributes.items()}
    cells = {}
    for a, x in attributes.items():
        distinct = {id(v): v for v in records.values[a]}  # objects, because equal values may differ in their type
        cell = {key: x.coding.cell_of(read[a](v)) for key, v in distinct.items()}
        cells[a] = np.array([cell[id(v)] for v in records.values[a]], dtype=int)
    return cells


def counted(domain, cells, margins):
    """Count by the definition, margin by margin, the records whose used attributes are all inside the domain."""
    used = sorted({a for m in margins for a in m})
    inside = np.all([cells[a] >= 0 for a in used], axis=0) if used else np.ones(len(next(iter(cells.values()))), bool)
    out = {}
    for m in margins:
        out[m] = np.zeros(tuple(domain[a].coding.size for a in m), dtype=np.int64)
        np.add.at(out[m], tuple(cells[a][inside] for a in m), 1 if m else inside.sum())
    return in_moments(out, domain.steps, {a: range(sum(pieces) + 1) for a, pieces in domain.steps.items()})


def same_counts(got, expected):
    assert list(got) == list(expected)
    for m, table in expected.items():
        assert got[m].dtype == np.int64
        np.testing.assert_array_equal(got[m], table, err_msg=str(m))


def leaks_nothing(error):
    assert "nothing was" in str(error).lower()
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.__cause__ is None
    assert error.__context__ is None  # a suppressed context would still be in the chain of errors


def check_counter(source, records, folder, *, by_one_attributes=None):
    """Check that counts are those of the records in their declared cells.

    The policy drops or reports values outside the domain. The check takes single attributes (`by_one_attributes`,
    or all), and all jointly. A dropped record is in no table.
    """
    cells = in_cells(records)
    domain = fn.Domain({a: records.domain[a] for a in cells})  # attributes that drop records are always read
    data = source.make(replace(records, domain=domain), folder)
    everything = tuple(cells)
    for policy in (DROP, REFUSE):
        counter = open_counter(data, domain.axes, DataSource(table=source.table, outside_domain=policy))
        dropped_codes = {DROPPED, OUTSIDE} if policy is DROP else {DROPPED}
        dropping = [a for a in domain if dropped_codes & domain[a].coding.without_cell]
        assert counter.drops == bool(dropping)
        is_inside = ~np.any([np.isin(c, list(dropped_codes)) for c in cells.values()], axis=0)
        rest = {a: c[is_inside] for a, c in cells.items()}
        by_one = [[(a,), ()] for a in (cells if by_one_attributes is None else by_one_attributes)]
        for margins in [*by_one, [everything, (), everything[::-1], everything[:1], everything]]:
            used = [a for a in cells if any(a in m for m in margins)]
            counter.check(used)
            bad = {a: n for a in domain if a in {*used, *dropping} and (n := int((rest[a] < 0).sum()))}
            if not bad:
                same_counts(counter.count(margins), counted(domain, rest, margins))
                continue
            done = []
            with pytest.raises(DataError) as caught:
                counter.count(margins, done.append)
            assert 1 not in done
            where = ", ".join(f"{n} in the column {domain.column(a)!r} (attribute {a!r})" for a, n in bad.items())
            assert caught.value.code == "data.records-outside-domain"
            assert caught.value.given.endswith(f"outside the domain: {where}.")
            assert "nothing was charged" in str(caught.value)
            leaks_nothing(caught.value)
