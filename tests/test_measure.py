"""The trust boundary: what is charged covers what is drawn, in the right order, on real records."""

import contextlib
import hashlib
import itertools
import json
import math
import re
from dataclasses import fields, replace
from datetime import datetime
from fractions import Fraction
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from conftest import zoo_plan
from dense import cell_order, split, strategy_matrix, with_sectors
from designs import remade
from fitnoise.engines import DuckCounter
from fitnoise.errors import BudgetExceeded, DataError, LedgerError
from fitnoise.kernel import losses, noise
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.counting import Counter, Tally
from fitnoise.kernel.designs._base import INT64_SAFE_BOUND
from fitnoise.kernel.domain import Domain, JointAxis, axis_key
from fitnoise.kernel.ledger import Account, Ledger
from fitnoise.kernel.ledger import rules as ledgers
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.order import CostLimit, DeclaredSize, Order
from fitnoise.kernel.profiles import ceil_dyadic, joint
from fitnoise.kernel.units import DataSource, OutsideDomain
from fitnoise.planning.plan import Plan
from laws.counting import HistogramCounter, counter_of_counts
from records import frame_of
from refused import refused
from replayed_noise import Replay

REPLACE = fn.Neighbours.REPLACE_ONE
DROP = OutsideDomain.DROP


def households():
    """Text, number and truth codes, a clipped range and bins; exchangeable and structured; one attribute unused."""
    domain = fn.Domain(
        income=fn.Binned([10, 20.5], column="income in thousands"),
        sex=fn.Categorical({"f": "women", "m": "men"}),
        age=fn.Ordered(-1, 2, clip=True),
        region=fn.Categorical([7, 1, 30]),
        unused=fn.Ordered(0, 1),
        owner=fn.Categorical([False, True]),
    )
    return fn.Workload(
        domain,
        [
            fn.table("sex", "region", margin=5),
            fn.table("region", cumulative="age", margin=6),
            fn.table("owner", cumulative="income", std_error=4),
            fn.table("sex", "owner", variance=7),
            fn.table("age", margin=9),
        ],
    )


VALUES = {  # of every cell several values, as records hold them
    "income": [[-3.0, 9.99], [10.0, 20.0], [20.5, 1e9]],
    "sex": [["f"], ["m"]],
    "age": [[-1, -50], [0], [1], [2, 99]],
    "region": [[7], [1], [30]],
    "unused": [[0], [1]],
    "owner": [[False], [True]],
}


def histogram(domain, cells):
    counts = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(counts, tuple(cells.T), 1)
    return counts


def random_cells(domain, n, rng):
    return np.stack([rng.integers(0, size, n) for size in domain.shape], axis=1)


def run(plan, counter, ledger=None, source=None, note=None):
    """Measure without noise, unless a noise source is given."""
    order = plan if isinstance(plan, Order) else plan.order
    with contextlib.nullcontext(ledger) if ledger else Ledger(":memory:") as book:
        return measuring.measure(order, counter, book, note=note, noise=source or Replay())


def distance(plan, one, other):
    """Σ_S ‖difference of the answers‖²/σ_S², exact."""
    return sum(
        Fraction(sum((int(a) - int(b)) ** 2 for a, b in zip(y, z, strict=True))) / Fraction(s.scale) ** 2
        for s, y, z in zip(
            plan.table_part.strategy.sectors, split(plan, one.answers[0]), split(plan, other.answers[0]), strict=True
        )
    )


def columns_of(plan):
    """(rows, scales²) of the dense integer strategy, Python integers: one column per cell, one row per answer."""
    rows, scales = strategy_matrix(plan)
    return rows, [Fraction(s) ** 2 for s in scales]


def dense_cost(plan):
    """Δ² of one record, from the dense matrix alone: for add-or-remove-one, and for replace-one."""
    rows, squares = columns_of(plan)
    merged = {}
    for row, square in zip(rows, squares, strict=True):
        merged.setdefault(square, []).append(row)
    grams = [(square, np.stack(block).T @ np.stack(block)) for square, block in merged.items()]
    gram = sum((g.astype(object) * (1 / square) for square, g in grams), start=0)
    costs = np.diagonal(gram)
    return max(costs), max(
        costs[i] + costs[j] - 2 * gram[i, j] for i, j in itertools.product(range(len(costs)), repeat=2)
    )


@cache
def zoo_cost(name):
    return dense_cost(zoo_plan(name))


# --- order of events ------------------------------------------------------------------------------------


class Watched(Counter):
    """A counter that records its requests."""

    def __init__(self, inner, events):
        self.inner, self.events = inner, events

    @property
    def drops(self):
        return self.inner.drops

    def check(self, attributes):
        self.events.append(("check", tuple(attributes)))
        self.inner.check(attributes)

    def count(self, margins, progress=None):
        self.events.append(("count", tuple(margins)))
        return self.inner.count(margins, progress)


@pytest.fixture(scope="module")
def plan():
    return fn.plan(households(), unit=fn.PrivacyUnit("person"), source=DataSource("homes"))


@pytest.fixture
def people(plan, rng):
    domain = plan.publication.workload.domain
    return frame_of(domain, random_cells(domain, 50, rng), VALUES)


def counter_of(plan, people, **source):
    return DuckCounter.from_frame(people, plan.publication.workload.domain.axes, DataSource(**source))


def test_check_count_charge_and_only_then_noise(plan, people, tmp_path):
    events = []

    def draw(scale, size):
        with Ledger(tmp_path / "ledger.sqlite") as other:  # not what one process believes, but what the disk holds
            (entry,) = other.entries()
        events.append(("noise", scale, size, entry.kind, entry.rho))
        return np.zeros(size, dtype=np.int64)

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        result = run(plan, Watched(counter_of(plan, people), events), ledger, Replay(draws=draw))
    rho = ceil_dyadic(plan.loss.rho)
    assert [e[0] for e in events] == ["check", "count", *["noise"] * len(plan.table_part.strategy.sectors)]
    assert events[0][1] == ("age", "income", "owner", "region", "sex")
    runs = [
        x
        for scales, counts in plan.table_part.strategy.runs
        for x in zip(scales.tolist(), counts.tolist(), strict=True)
    ]
    assert events[2:] == [("noise", scale, count, "charge", rho) for scale, count in runs]
    assert result.charge.rho == rho


def test_a_note_is_kept_with_the_charge_and_replaces_nothing(plan, people):
    with Ledger(":memory:") as ledger:
        note = {"supersedes": "a" * 64, "plan": "b" * 64, "salt": "c", "rho": "0"}
        entry = run(plan, counter_of(plan, people), ledger, Replay(3), note=note).charge
        assert entry.detail["supersedes"] == "a" * 64
        assert entry.detail["plan"] == plan.hash
        assert entry.detail["rho"] == str(plan.loss.rho)
        assert entry.detail["salt"] != "c"
        with refused("ledger.detail-has-own-keys"):
            run(plan, counter_of(plan, people), ledger, Replay(3), note={"profile": "d"})
        assert ledger.entries()[-1].kind == "answers"


@pytest.mark.parametrize("failing", [0, 1, -1])
@pytest.mark.parametrize(
    "failure", [fn.FitnoiseError("no-randomness", "No randomness.", "", "", ""), KeyboardInterrupt()]
)
def test_a_charge_stays_when_the_noise_fails(failing, failure, plan, people):
    calls = itertools.count()
    fails_at = range(len(plan.table_part.strategy.sectors))[failing]

    def draw(_, size):
        if next(calls) == fails_at:
            raise failure
        return np.zeros(size, dtype=np.int64)

    with Ledger(":memory:") as ledger:
        with pytest.raises(type(failure)):
            run(plan, counter_of(plan, people), ledger, Replay(draws=draw))
        (entry,) = ledger.entries()
        assert (entry.kind, entry.rho) == ("charge", ceil_dyadic(plan.loss.rho))
        assert ledger.balance(plan.order.account).spent == entry.rho


CLOSED = Replay(draws=lambda *_: pytest.fail("nothing may be drawn"))


def test_a_charge_that_does_not_fit_draws_no_noise(plan, people):
    account = plan.order.account
    with Ledger(":memory:") as ledger:
        ledger.set_cap(account, ceil_dyadic(plan.loss.rho) - Fraction(1, 2**64))
        with pytest.raises(BudgetExceeded):
            run(plan, counter_of(plan, people), ledger, CLOSED)
        assert [e.kind for e in ledger.entries()] == ["cap", "refusal"]
        assert ledger.balance(account).spent == 0
        ledger.set_cap(account, ceil_dyadic(plan.loss.rho))
        run(plan, counter_of(plan, people), ledger)  # fits to the last 2⁻⁶⁴


@pytest.mark.parametrize("cap", ["rho", "epsilon", "mu_squared"])
def test_what_cannot_fit_is_refused_before_any_data_are_read(plan, people, cap, monkeypatch):
    """This holds for any kind of cap. Charges by others in the meantime are still noticed."""
    account, counter = plan.order.account, counter_of(plan, people)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(account, **{cap: Fraction(1, 10**9)})
        monkeypatch.setattr(counter, "count", lambda *_: pytest.fail("nothing may be read"))
        with refused("ledger.cap-is-pure", "ledger.over-cap", "ledger.over-mu-cap"):
            run(plan, counter, ledger, CLOSED)
        assert [e.kind for e in ledger.entries()] == ["cap", "refusal"]
        monkeypatch.undo()
        max_cost = ceil_dyadic(plan.loss.rho)
        ledger.set_cap(account, max_cost)
        count = counter.count

        def others(*arguments):
            ledger.charge(account, Loss.concentrated(Fraction(1, 10**6)), {})
            return count(*arguments)

        monkeypatch.setattr(counter, "count", others)
        with pytest.raises(BudgetExceeded):
            run(plan, counter, ledger, CLOSED)
        assert [e.kind for e in ledger.entries()][2:] == ["cap", "charge", "refusal"]


def test_an_unusable_ledger_draws_no_noise(plan, people):
    ledger = Ledger(":memory:")
    ledger.close()
    with pytest.raises(LedgerError):
        run(plan, counter_of(plan, people), ledger, CLOSED)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: f.drop(columns="sex"),
        lambda f: f.assign(sex=1.5),
        lambda f: f.assign(sex=["f"] * 49 + ["?"]),
        lambda f: f.rename(columns={"sex": "SEX"}).assign(Sex="f"),
    ],
)
def test_data_that_do_not_fit_cost_nothing(spoil, plan, people):
    with Ledger(":memory:") as ledger:
        with pytest.raises(DataError):
            run(plan, counter_of(plan, spoil(people)), ledger, CLOSED)
        assert ledger.entries() == []


def test_an_unused_attribute_is_never_looked_at(plan, people):
    complete, partial = (run(plan, counter_of(plan, f)) for f in (people, people.drop(columns="unused")))
    assert distance(plan, complete, partial) == 0


@pytest.mark.no_cover
def test_only_maximal_margins_are_counted(any_plan):
    """No margin lies inside another, and no two structured attributes are together that no table shows together."""
    domain = any_plan.publication.workload.domain
    events = []
    run(any_plan, Watched(counter_of_counts(np.zeros(domain.shape, dtype=int), domain), events))
    (checked,), (margins,) = ([e[1] for e in events if e[0] == kind] for kind in ("check", "count"))
    assert not any(set(a) < set(b) for a in margins for b in margins)
    assert len({frozenset(m) for m in margins}) == len(margins)
    assert sorted({a for m in margins for a in m}) == list(checked)
    assert all(list(m) == [a for a in domain.sizes if a in m] for m in margins)
    tables = any_plan.publication.workload.tables
    if all(t.matrix is None for t in tables):
        margins_shown = [
            {*(domain.attribute_of(a) for a in t.attributes), *t.weights(domain)} for t in tables
        ]  # classes with amounts
        assert all(any({domain.attribute_of(a) for a in m} <= s for s in margins_shown) for m in margins)


@pytest.mark.no_cover
def test_every_attribute_of_a_table_is_read(any_plan):
    """Also one whose values all count in one number: a record outside it must be found."""
    check_displayed_is_read(any_plan)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", zoo.REQUESTS)
def test_every_mechanism_reads_an_attribute_of_one_value(name):
    request = zoo.REQUESTS[name]()
    workload = request.workload
    domain = fn.Domain({**dict(workload.domain.attributes), "only": fn.Categorical(["x"])})
    tables = [replace(t, attributes=(*t.attributes, "only")) for t in workload.tables]
    plan = fn.plan(replace(request, workload=fn.Workload(domain, tables, workload.confidence)))
    check_displayed_is_read(plan)
    assert ("only",) in measuring._required_margins(plan.order)


def check_displayed_is_read(plan):
    domain = plan.publication.workload.domain
    tables = plan.publication.workload.tables
    displayed = {a for t in tables for a in ((*t.attributes, *t.weights(domain)) if t.matrix is None else domain)}
    read = {a for m in measuring._counter_margins(measuring._required_margins(plan.order)) for a in m}
    assert {domain.attribute_of(a) for a in displayed} == {domain.attribute_of(a) for a in read}


def test_an_attribute_without_a_margin_has_one_of_its_own():
    """A level stands for its hierarchy, and designs may name attributes in any order."""
    tree = fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b")])
    domain = fn.Domain(place=tree, age=fn.Ordered(0, 1), sex=fn.Categorical(["f", "m"]), only=fn.Ordered(0, 0))
    order = SimpleNamespace(domain=domain.axes)
    by_sex = SimpleNamespace(margins=lambda: [("sex", "age"), ()], attributes=lambda: ("sex", "age", "region"))
    by_age = SimpleNamespace(margins=lambda: [("age", "sex")], attributes=lambda: ("only",))
    by_place = SimpleNamespace(margins=lambda: [("region",)], attributes=lambda: ("region", "town"))
    for designs, needed in (
        ([by_sex], {(), ("age", "sex"), ("region",)}),
        ([by_sex, by_age], {(), ("age", "sex"), ("region",), ("only",)}),
        ([by_sex, by_place], {(), ("age", "sex"), ("region",)}),
        ([by_place], {("region",)}),
    ):
        assert measuring._needed_margins(order, designs) == needed


# --- the price ------------------------------------------------------------------------------------------

PRICED = [
    "marginals",
    "binary",
    "five structured cells",
    "pivoted basis",
    "attribute of one value",
    "prefix",
]


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", fn.Neighbours)
@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("name", PRICED)
def test_the_charge_is_the_exact_cost_rounded_up(name, records, neighbours):
    unit = fn.PrivacyUnit("person", records, neighbours)
    plan = for_unit(zoo_plan(name), unit, source=DataSource("homes"))
    add, swap = zoo_cost(name)
    step = add if neighbours is not REPLACE else max(add, swap) if records > 1 else swap
    cost = step * records**2
    domain = plan.publication.workload.domain
    with Ledger(":memory:") as ledger:
        entry = run(plan, HistogramCounter(np.zeros(domain.shape, dtype=int), domain.axes), ledger).charge
        assert ledger.entries()[0] == entry
    assert entry.kind == "charge"
    assert entry.rho == Fraction(math.ceil(cost / 2 * 2**64), 2**64)
    assert entry.account == Account("homes", unit)
    assert (entry.profile is None) == (neighbours is REPLACE)
    assert Fraction(entry.detail["rho"]) == cost / 2
    assert (entry.detail["plan"], entry.detail["mechanism"]) == (plan.hash, "fit-for-use")
    names = plan.table_part.decomposition.exchangeable
    assert entry.detail["sectors"] == [
        {"count": len(g), "of": [names[a] for a in sorted(set(g.attributes.ravel()))], "cost_squared": str(c)}
        for g, c in zip(plan.table_part.strategy.groups, plan.table_part.strategy.group_costs, strict=True)
    ]


def test_the_digest_of_a_charge_does_not_reveal_its_time(plan, monkeypatch):
    """It is published, and the time depends on how long the counting took: the same entry never has the same digest."""
    monkeypatch.setattr(ledgers, "datetime", SimpleNamespace(now=lambda zone: datetime(2026, 1, 1, tzinfo=zone)))
    one, second = (counted(plan, None).charge for _ in range(2))
    salts = [entry.detail["salt"] for entry in (one, second)]
    assert all(re.fullmatch("[0-9a-f]{32}", salt) for salt in salts)
    assert salts[0] != salts[1]
    assert one.digest != second.digest
    assert replace(one, digest="", detail={}) == replace(second, digest="", detail={})
    assert {**one.detail, "salt": ""} == {**second.detail, "salt": ""}


def for_unit(original, unit, **changes):
    """Return the integers as a plan for another unit. Its evidence may not hold; its price does, and that counts."""
    plan = remade(original, publication=replace(original.publication, unit=unit, **changes))
    vars(plan)["hash"] = original.hash
    return plan


def tampered(plan, change, sector=-1):
    sectors = list(plan.table_part.strategy.sectors)
    sectors[sector] = change(sectors[sector])
    return remade(plan, strategy=with_sectors(plan.table_part.strategy, sectors))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, mixing=s.mixing * 3),
        lambda s: replace(s, mixing=s.mixing.astype(object) * 2**70),
        lambda s: replace(s, mixing=s.mixing + np.triu(np.full_like(s.mixing, 2**50))),
        lambda s: replace(s, scale=s.scale / 1024),
        lambda s: replace(s, basis=s.basis * 5),
    ],
)
def test_a_tampered_strategy_is_charged_for_what_it_measures(change):
    honest = zoo_plan("five structured cells")
    plan = tampered(honest, change)
    domain = plan.publication.workload.domain
    cost, _ = dense_cost(plan)
    assert cost > honest.table_part.exact_cost
    assert plan.hash != honest.hash
    plan.__dict__["exact_cost"] = Fraction(1, 10**6)  # what a plan says of itself does not matter either
    counts = np.zeros(domain.shape, dtype=int)
    empty = run(plan, HistogramCounter(counts, domain.axes))
    assert empty.charge.rho == ceil_dyadic(cost / 2)
    worst = 0
    for cell in range(domain.size):  # and this is what one record moves
        counts[...] = 0
        counts.flat[cell] = 1
        worst = max(worst, distance(plan, empty, run(plan, HistogramCounter(counts, domain.axes))))
    assert worst == cost


def test_a_tampered_document_is_refused_or_pays():
    honest = zoo_plan("prefix")
    document = json.loads(honest.to_json())
    (matrix,) = document["tables"][0]["strategy"][0]["mixing"]
    document["tables"][0]["strategy"][0]["mixing"] = [[[2 * x for x in row] for row in matrix]]
    with refused("plan.integers-of-another-cost"):
        Plan.from_json(json.dumps(document))
    document["tables"][0]["cost"]["cost_squared"] = str(4 * honest.table_part.exact_cost)
    plan = Plan.from_json(json.dumps(document))
    domain = plan.publication.workload.domain
    counts = HistogramCounter(np.zeros(domain.shape, dtype=int), domain.axes)
    assert run(plan, counts).charge.rho == ceil_dyadic(2 * honest.table_part.exact_cost)


def test_a_strategy_that_claims_to_be_free_is_refused():
    plan = zoo_plan("prefix")
    free = tampered(plan, lambda s: replace(s, mixing=0 * s.mixing)).table_part.strategy
    plan = replace(plan.order, designs=(free,))
    events, domain = [], plan.domain
    with Ledger(":memory:") as ledger:
        with refused("plan.strategy-free"):
            run(plan, Watched(HistogramCounter(np.zeros(domain.shape, dtype=int), domain), events), ledger, CLOSED)
        assert ledger.entries() == []
    assert events == []


# --- neighbours, from records to answers -----------------------------------------------------------------


def test_a_record_more_moves_the_answers_by_the_profile_of_its_cell(plan, rng, one_engine):
    domain, d = plan.publication.workload.domain, plan.table_part.decomposition
    assert set(d.exchangeable) == {"sex", "region", "owner"}
    assert d.structured == ("income", "age")
    profile = plan.table_part.strategy.profile()
    cells = random_cells(domain, 40, rng)
    base = run(plan, counter_of(plan, frame_of(domain, cells, VALUES)))
    positions = [list(domain).index(a) for a in d.structured]
    for index, values in enumerate(itertools.product(*map(range, d.shape))):
        (added,) = random_cells(domain, 1, rng)
        added[positions] = values
        frame = frame_of(domain, rng.permutation(np.concatenate([cells, [added]])), VALUES)
        other = run(plan, counter_of(plan, frame))
        assert distance(plan, base, other) == profile[index]
    assert max(profile) == 2 * plan.loss.rho


@pytest.mark.no_cover
@pytest.mark.parametrize("column", ["income in thousands", "sex", "age", "region", "owner"])
def test_a_record_that_is_dropped_moves_nothing(column, plan, people):
    source = replace(plan.publication.source, outside_domain=DROP)
    plan = remade(plan, publication=replace(plan.publication, source=source))
    base = run(plan, counter_of(plan, people, outside_domain=DROP))
    added = people.iloc[:1].astype(object)
    added.loc[:, column] = None
    both = pd.concat([people.astype(object), added], ignore_index=True)
    assert distance(plan, base, run(plan, counter_of(plan, both, outside_domain=DROP))) == 0


@pytest.mark.no_cover
def test_records_are_measured_as_their_histogram_is(any_plan, rng, one_engine):
    domain = any_plan.publication.workload.domain
    cells = random_cells(domain, 30, rng)
    records = run(any_plan, DuckCounter.from_frame(frame_of(domain, cells), domain.axes, DataSource()))
    counts = run(any_plan, counter_of_counts(histogram(domain, cells), domain))
    assert [len(y) for y in records.answers[0]] == [g.answers.sum() for g in any_plan.table_part.strategy.groups]
    for y, z in zip(records.answers[0], counts.answers[0], strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_array_equal(y, z)


# --- where the cost falls, and what releases on the same records cost together -----------------------------

STEP = Fraction(1, 2**64)


def aged(*tables, **attributes):
    domain = fn.Domain(
        {"age": fn.Ordered(0, 3), "sex": fn.Categorical(["f", "m"]), "owner": fn.Categorical([0, 1])} | attributes
    )
    return fn.Workload(domain, tables)


def cell_costs(plan):
    """Squared cost of one record in each cell of the domain, from the dense integer strategy alone, in Fractions."""
    rows, squares = columns_of(plan)
    rows = rows @ cell_order(plan).astype(object)
    return [
        sum((Fraction(int(x) ** 2) / s for x, s in zip(column, squares, strict=True)), Fraction(0)) for column in rows.T
    ]


def two_of_a_kind(records=1):
    """Plans with different costliest cells: the old with many tables, and the young with them, of both sexes."""
    unit = fn.PrivacyUnit("person", records)
    old = aged(fn.table("sex", "owner", groups={"age": {"old": [2, 3]}}, margin=3))
    young = aged(
        fn.table("sex", groups={"age": {"young": [0, 1]}}, margin=3),
        fn.table("owner", cumulative="age", variance=fn.ByAttribute("age", [90, 80, 200, 300])),
    )
    return [fn.plan(w, unit=unit, source=DataSource("homes")) for w in (old, young)]


def composed(plan, *others):
    return remade(plan, publication=replace(plan.publication, composed_with=tuple(o.hash for o in others)))


def counted(plan, ledger, counts=None):
    domain = plan.publication.workload.domain
    return run(
        plan, HistogramCounter(np.zeros(domain.shape, dtype=int) if counts is None else counts, domain.axes), ledger
    )


@pytest.mark.parametrize("records", [1, 3])
def test_the_profile_charged_is_what_a_record_costs_in_each_cell(records, plan):
    plan = remade(plan, publication=replace(plan.publication, unit=fn.PrivacyUnit("person", records)))
    domain, d = plan.publication.workload.domain, plan.table_part.decomposition
    with Ledger(":memory:") as ledger:
        entry = counted(plan, ledger).charge
    names = [key.rpartition(":")[0] for key, _ in entry.profile.axes]
    assert (names, [n for _, n in entry.profile.axes]) == (["income", "age"], [3, 4])
    values = np.array(entry.profile.values, dtype=object).reshape(d.shape)
    axes = [list(domain).index(a) for a in names]
    for i, cost in enumerate(cell_costs(plan)):
        cell = np.unravel_index(i, domain.shape)
        assert values[tuple(cell[a] for a in axes)] == math.ceil(records**2 * cost / 2 / STEP)
    assert entry.profile.largest == entry.rho == ceil_dyadic(plan.loss.rho)
    assert len(set(entry.profile.values)) > 2


@pytest.mark.no_cover
@pytest.mark.parametrize("records", [1, 3])
def test_two_releases_on_the_same_records_cost_their_largest_joint_distance(records, rng):
    one, second = two_of_a_kind(records)
    second = composed(second, one)
    domain = one.publication.workload.domain
    counts = rng.integers(0, 9, size=domain.shape)
    both = [a + b for a, b in zip(cell_costs(one), cell_costs(second), strict=True)]
    exact = max(both) * records**2 / 2
    with Ledger(":memory:") as ledger:
        results = [counted(p, ledger, counts) for p in (one, second)]
        spent = ledger.balance(one.order.account).spent
        assert exact <= spent < exact + 2 * STEP
        assert spent == joint(m.charge.profile for m in results)
        assert results[1].charge.composed_plans == (one.hash,)
        assert spent < Fraction(3, 4) * sum(m.charge.rho for m in results)
        seen = []
        for i in range(domain.size):  # and this is what one unit moves, in the answers themselves
            increased = counts.copy()
            increased.flat[i] += records
            seen.append(
                sum(
                    distance(p, m, counted(p, None, increased))
                    for p, m in zip((one, composed(second)), results, strict=True)
                )
            )
        assert seen == [records**2 * c for c in both]


def test_a_cap_that_two_releases_fit_only_jointly():
    one, second = two_of_a_kind()
    with Ledger(":memory:") as ledger:
        profiles = [counted(p, ledger).charge.profile for p in (one, second)]
    account = one.order.account
    for short, makes in [(Fraction(0), contextlib.nullcontext()), (STEP, pytest.raises(BudgetExceeded))]:
        with Ledger(":memory:") as ledger:
            ledger.set_cap(account, joint(profiles) - short)
            counted(one, ledger)
            with pytest.raises(BudgetExceeded):
                counted(second, ledger)
            with makes:
                counted(composed(second, one), ledger)
            assert ledger.balance(account).spent == (ceil_dyadic(one.loss.rho) if short else joint(profiles))


def test_an_attribute_declared_otherwise_is_another_axis():
    """An attribute with the same name and size has its records in other cells: nothing is saved."""
    one, _ = two_of_a_kind()
    shifted = aged(*one.publication.workload.tables, age=fn.Ordered(1, 4))
    second = composed(fn.plan(shifted, unit=one.publication.unit, source=one.publication.source), one)
    with Ledger(":memory:") as ledger:
        entries = [counted(p, ledger).charge for p in (one, second)]
        assert ledger.balance(one.order.account).spent == sum(e.rho for e in entries)
    assert {key.rpartition(":")[0] for e in entries for key, _ in e.profile.axes} == {"age"}


VARIANTS = [
    fn.Ordered(0, 2),
    fn.Ordered(1, 3),
    fn.Ordered(0, 2, clip=True),
    fn.Ordered(0, 2, column="years"),
    fn.Categorical([0, 1, 2]),
    fn.Categorical([0, 2, 1]),
    fn.Categorical(["0", "1", "2"]),
    fn.Categorical({0: "a", 1: "b", 2: "c"}),
    fn.Categorical([0, 1, 2], column="years"),
    fn.Categorical([0, 1, 2], lookup={7: 0, 8: 1, 9: 2}),
    fn.Categorical([0, 1, 2], lookup={7: 1, 8: 0, 9: 2}),
    fn.Categorical([False, True]),
    fn.Categorical([0, 1]),
    fn.Binned([1, 2]),
    fn.Binned([1, 2.5]),
    fn.Binned([1, 2], column="years"),
    *(
        replace(a, **options) if isinstance(a, fn.Ordered) else type(a)(codes, **options)
        for a, codes in ((fn.Ordered(0, 2), None), (fn.Categorical([0, 1, 2]), [0, 1, 2]), (fn.Binned([1, 2]), [1, 2]))
        for options in (
            {"if_missing": "drop"},
            {"if_outside": "drop"},
            {"missing": {"none": [9]}},
            {"missing": {"none": [9]}, "if_missing": "none"},
            {"missing": {"none": [9, "N"]}},
            {"missing": {"else": [9]}},
            {"missing": {"none": [9], "else": ["N"]}},
            {"missing": {"else": ["N"], "none": [9]}},
            {"date_part": "year"},
            {"date_part": {"age_on": "2024-12-31"}},
            {"date_part": {"age_on": "2024-12-30"}},
        )
    ),
]


def test_the_key_of_an_attribute_stands_for_all_that_decides_its_cells():
    """Labels and names of cells are no part of it, and everything else that is declared is."""
    keyed = {}
    for a, name in itertools.product(VARIANTS, ("age", "age ", "Age:1")):
        decides = a.axis.coding, a.column or name, a.derived
        key = axis_key(fn.Domain({name: a}).axes, name)
        assert keyed.setdefault(key, (name, decides)) == (name, decides)
    assert len(keyed) == len(set(keyed.values())) == 3 * (len(VARIANTS) - 4)
    for kind in {type(a) for a in VARIANTS}:  # a field added later must enter the key, and this list
        names = {f.name for f in fields(kind) if f.init}
        assert names == {
            f
            for a in VARIANTS
            for b in VARIANTS
            if type(a) is type(b) is kind
            for f in names
            if vars(a)[f] != vars(b)[f]
        }


def test_of_too_many_cells_the_ledger_stores_the_costliest_for_all(monkeypatch):
    one, second = two_of_a_kind()
    monkeypatch.setattr(losses, "PROFILE_CELLS", 3)
    with Ledger(":memory:") as ledger:
        entries = [counted(p, ledger).charge for p in (one, composed(second, one))]
        assert ledger.balance(one.order.account).spent == sum(e.rho for e in entries)
    assert [e.profile.document() for e in entries] == [{"axes": [], "values": [e.rho / STEP]} for e in entries]


def untouched(plan, code, ledger):
    events, domain = [], (plan if isinstance(plan, Order) else plan.order).domain
    before = ledger.entries()
    with refused(code):
        run(plan, Watched(HistogramCounter(np.zeros(domain.shape, dtype=int), domain), events), ledger, CLOSED)
    assert ledger.entries() == before
    return events


def test_a_plan_composed_with_an_unreleased_one_draws_no_noise():
    one, second = two_of_a_kind()
    with Ledger(":memory:") as ledger:
        untouched(composed(second, one), "ledger.composed-plan-not-charged", ledger)


def test_replacing_records_is_composed_with_nothing():
    one, second = two_of_a_kind()
    plan = replace(composed(second, one).order, unit=fn.PrivacyUnit(neighbours=REPLACE))  # no publication would
    with Ledger(":memory:") as ledger:
        assert untouched(plan, "plan.composed-plans-need-add-or-remove", ledger) == []


# --- integers -------------------------------------------------------------------------------------------

ARITHMETIC = ["five structured cells", "prefix", "marginals", "one query", "binary", "random signs"]


def wrapped(x):
    """The integer of int64 that is congruent modulo 2⁶⁴."""
    return (x + 2**63) % 2**64 - 2**63


def with_bound(name, max_records):
    original = zoo_plan(name)
    source = replace(original.publication.source, max_records=max_records)
    return remade(original, publication=replace(original.publication, source=source))


def exact_answers(plan, counts):
    rows, _ = strategy_matrix(plan)
    return [int(x) for x in rows @ (cell_order(plan).astype(object) @ counts.ravel().astype(object))]


def magnitudes(group, records):
    return [group.magnitude(here, sizes, records) for sizes, here in group.stacks()]


def flat(result):
    return [int(x) for y in result.answers[0] for x in y]


def huge(domain, rng):
    return rng.integers(0, 2**61 // domain.size, size=domain.shape)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_data_far_above_the_bound_wrap_modulo_2_to_the_64(name, rng):
    plan = with_bound(name, 1)
    domain = plan.publication.workload.domain
    counts = huge(domain, rng)
    source = Replay(6)
    result = run(plan, HistogramCounter(counts, domain.axes), source=source)
    exact = exact_answers(plan, counts)
    assert all(y.dtype == np.int64 for y in result.answers[0])
    assert flat(result) == [wrapped(x + z) for x, z in zip(exact, source.drawn, strict=True)]
    if name not in ("one query", "binary", "marginals"):
        assert max(map(abs, exact)) > 2**66  # else nothing wrapped


@pytest.mark.parametrize("name", ARITHMETIC)
def test_where_the_bound_is_large_nothing_wraps(name, rng):
    plan = with_bound(name, 2**62)
    domain = plan.publication.workload.domain
    counts = huge(domain, rng)
    source = Replay(6)
    result = run(plan, HistogramCounter(counts, domain.axes), source=source)
    assert all(y.dtype == object and all(type(x) is int for x in y) for y in result.answers[0])
    assert flat(result) == [x + z for x, z in zip(exact_answers(plan, counts), source.drawn, strict=True)]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_within_the_bound_int64_is_exact(name):
    """The bound allows these records in one cell, at the largest bound that still means int64."""
    strategy = zoo_plan(name).table_part.strategy
    largest = min((INT64_SAFE_BOUND - 1) // m for g in strategy.groups for m in magnitudes(g, 1))
    plan = with_bound(name, largest)
    domain = plan.publication.workload.domain
    for cell in range(min(domain.size, 12)):
        counts = np.zeros(domain.size, dtype=np.int64)
        counts[cell] = largest
        result = run(plan, HistogramCounter(counts, domain.axes))
        assert all(y.dtype == np.int64 for y in result.answers[0])
        assert flat(result) == exact_answers(plan, counts)
    above = with_bound(name, largest + 1)
    counts = HistogramCounter(np.zeros(domain.size, dtype=int), domain.axes)
    assert any(y.dtype == object for y in run(above, counts).answers[0])


@pytest.mark.parametrize("max_records", [1, 2**62])
@pytest.mark.parametrize("extreme", [2**63 - 1, -(2**63)])
def test_noise_is_added_in_wrapping_arithmetic_and_never_saturates(max_records, extreme, rng):
    source = Replay(draws=lambda _, size: np.full(size, extreme, dtype=np.int64))
    plan = with_bound("prefix", max_records)
    domain = plan.publication.workload.domain
    counts = rng.integers(1, 1000, size=domain.shape)
    exact = [x + extreme for x in exact_answers(plan, counts)]
    result = flat(run(plan, HistogramCounter(counts, domain.axes), source=source))
    assert result == ([wrapped(x) for x in exact] if max_records == 1 else exact)
    assert any(wrapped(x) != x for x in exact)


def test_every_answer_has_its_own_fresh_draw(plan, people):
    one, two = (run(plan, counter_of(plan, people), source=noise) for _ in range(2))
    both = np.array([flat(one), flat(two)], dtype=object)
    differences = both[0] - both[1]
    assert len(set(differences)) > len(differences) / 2
    assert (differences == 0).sum() < len(differences) / 4
    exact = exact_answers(plan, histogram_of(plan, people))
    scales = np.concatenate([np.repeat(each, counts) for each, counts in plan.table_part.strategy.runs])
    assert np.abs((both[0] - exact).astype(float) / scales).max() < 12


def histogram_of(plan, people):
    domain = plan.publication.workload.domain
    margins = DuckCounter.from_frame(people, domain.axes, DataSource()).count([tuple(domain)])
    return margins[tuple(domain)]


def test_a_measurement_holds_answers_and_the_charge_and_nothing_else(plan, people):
    result = run(plan, counter_of(plan, people))
    assert sorted(vars(result)) == ["answers", "charge"]
    assert isinstance(result.answers, tuple)
    assert all(y.ndim == 1 for y in result.answers[0])


# --- what may come or go when one record is replaced ------------------------------------------------------


def replacement_plan(**publication):
    """A total measured finely next to a table measured coarsely: adding a record costs far more than replacing one."""
    workload = fn.Workload(
        fn.Domain(sex=fn.Categorical(["f", "m"])),
        [fn.table(variance=0.01, name="total"), fn.table("sex", variance=100)],
    )
    return fn.plan(workload, **publication)


def test_replacing_a_record_by_a_dropped_one_is_charged():
    """The neighbour of dropping: x − x' = e_i. Charging the replace-one cost alone would be 10,000 times too little."""
    swap = fn.PrivacyUnit(neighbours=REPLACE)
    refusing = replacement_plan(unit=swap, public=fn.KnownTotals((), "Register"))
    plan = replacement_plan(unit=swap, source=DataSource(outside_domain=DROP))
    people = pd.DataFrame({"sex": ["f", "f", "m"]})
    other = pd.DataFrame({"sex": ["f", "f", None]})
    shift = distance(
        plan,
        run(plan, counter_of(plan, people, outside_domain=DROP)),
        run(plan, counter_of(plan, other, outside_domain=DROP)),
    )
    assert shift == plan.table_part.exact_cost == plan.table_part.strategy.cost_squared(fn.Neighbours.ADD_OR_REMOVE_ONE)
    assert plan.table_part.exact_cost > 5000 * refusing.table_part.exact_cost


@pytest.mark.parametrize("plans", [True, False])
def test_a_counter_that_drops_where_the_plan_refuses_is_refused(plans):
    policy = [DataSource(outside_domain=DROP), DataSource()]
    plan = replacement_plan(source=policy[not plans])
    counter = counter_of(plan, pd.DataFrame({"sex": ["f"]}), outside_domain=policy[plans].outside_domain)
    with Ledger(":memory:") as ledger:
        with refused("data.drops-differ"):
            run(plan, counter, ledger, CLOSED)
        assert ledger.entries() == []


def test_counts_of_another_domain_are_refused():
    plan = zoo_plan("marginals")
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 5), c=fn.Ordered(0, 1))
    with Ledger(":memory:") as ledger:
        with refused("data.counts-of-another-domain"):
            run(plan, HistogramCounter(np.zeros(domain.shape, dtype=int), domain.axes), ledger, CLOSED)
        assert ledger.entries() == []


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("records", [0, 39, 40, 41])
def test_data_of_another_size_than_declared_cost_nothing_and_do_not_reveal_their_size(exactly, records):
    order = zoo_plan("total").order
    if exactly:  # which is public only where records are replaced
        order = replace(zoo_plan("one table").order, unit=fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE))
    order = replace(order, sizes=(DeclaredSize(10**6, exactly=False), DeclaredSize(40, exactly)))
    counts = np.zeros(order.domain.shape, dtype=int)
    counts.flat[0] = records
    counter = HistogramCounter(counts, order.domain)
    with Ledger(":memory:") as ledger:
        if records == 40 or (records < 40 and not exactly):
            run(order, counter, ledger)
            assert [e.kind for e in ledger.entries()] == ["charge", "answers"]
            return
        with refused("data.size-misfits-data") as caught:
            run(order, counter, ledger, CLOSED)
        assert str(records) not in str(caught.value).replace("40 records", "")
        assert ledger.entries() == []


def test_an_order_for_nothing_is_none():
    with refused("plan.order-without-design"):
        replace(zoo_plan("total").order, designs=())


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", zoo.ADJACENCIES)
@pytest.mark.parametrize("question", ["count", "median", "sum of some"])
def test_a_question_is_answered_for_whom_the_order_is(question, neighbours, rng):
    adjacency = zoo.ADJACENCIES[neighbours]
    adjacency = adjacency if adjacency.pattern.names <= {"o"} else adjacency.without_pattern
    answer = zoo.DESIGNS[f"{question} by tight constraints"](adjacency)
    source = DataSource("homes", outside_domain=DROP if adjacency.drops else OutsideDomain.REFUSE)
    counts = np.zeros(answer.domain.shape, dtype=int)
    people = answer.query.people if adjacency.fixes_size else answer.query.people - 1
    np.add.at(counts.reshape(-1), rng.integers(counts.size, size=people), 1)
    counter = HistogramCounter(counts, answer.domain, source)
    order = Order(answer.domain, source, adjacency.unit, (answer,), "0" * 64, "test design")
    (truth,) = answer.exact_answers(Tally(counter.count(list(answer.margins()))), adjacency, 2**40)
    noise_source = Replay(5)
    result = run(order, counter, source=noise_source)
    (noisy,) = answer.draw((truth,), repeated := Replay(5))
    assert result.answers[0][0].tolist() == noisy.tolist()
    assert noise_source.laws == repeated.laws  # of the same row
    assert result.charge.epsilon == answer.loss(adjacency).epsilon


def test_counting_tells_how_far_it_is():
    order, reports = zoo_plan("marginals").order, []
    counter = HistogramCounter(np.zeros(order.domain.shape, dtype=int), order.domain)
    with Ledger(":memory:") as ledger:
        measuring.measure(order, counter, ledger, progress=reports.append, noise=Replay())
    assert reports[-1] == 1


@pytest.mark.parametrize("limit", ["cap", "budget"])
def test_an_edited_plan_above_its_own_limit_is_refused(limit):
    plan = tampered(zoo_plan("prefix"), lambda s: replace(s, mixing=100 * s.mixing))
    plan = remade(plan, publication=replace(plan.publication, **{limit: fn.Budget(rho=Fraction(5))}))
    domain = plan.publication.workload.domain
    with Ledger(":memory:") as ledger:
        with refused("plan.plan-above-limit"):
            run(plan, HistogramCounter(np.zeros(domain.shape, dtype=int), domain.axes), ledger, CLOSED)
        assert ledger.entries() == []


def test_all_limits_hold_and_not_only_the_first():
    """Exactly what it costs is within a limit, and a little less is not, whichever comes first."""
    order = zoo_plan("prefix").order
    counter = HistogramCounter(np.zeros(order.domain.shape, dtype=int), order.domain)
    cap, budget = (CostLimit(what, order.loss.rho) for what in ("cap", "budget"))
    tight = replace(budget, rho=budget.rho - Fraction(1, 2**64))
    run(replace(order, limits=(cap, budget)), counter)
    for limits in ((cap, tight), (tight, cap)):
        with refused("plan.plan-above-limit"):
            run(replace(order, limits=limits), counter, source=CLOSED)


def test_a_budget_is_one_relative_to_cell_budgets():
    """Within the budget by what it costs, beyond it by what records of a small budget would pay."""
    personal = fn.CellBudgets(("cell",), (0.1, 1))
    plan = fn.plan(
        fn.matrix_workload(np.eye(2), variances=[1, 10]), budget=fn.Budget(rho=Fraction(1)), cell_budgets=personal
    )
    assert plan.loss.rho <= Fraction(1) * Fraction(11, 10)
    louder = tampered(plan, lambda s: replace(s, scale=s.scale / 2))
    assert louder.loss.rho < 1 < louder.table_part.exact_weighted_cost / 2
    with Ledger(":memory:") as ledger:
        with refused("plan.plan-above-limit"):
            run(louder, HistogramCounter(np.zeros(2, dtype=int), plan.publication.workload.domain.axes), ledger, CLOSED)
        assert ledger.entries() == []


def test_integers_changed_after_pricing_are_priced_again():
    """Even a caller who forces the frozen arrays open is charged for all measurements."""
    plan = fn.plan(fn.matrix_workload(np.eye(2), variances=1))
    before = plan.table_part.exact_cost
    mixing = plan.table_part.strategy.groups[0].mixing
    with pytest.raises(ValueError, match="read-only"):
        mixing[0, 0, 0] = 7
    mixing.setflags(write=True)
    mixing *= 10
    with Ledger(":memory:") as ledger:
        entry = run(plan, HistogramCounter(np.array([1, 2]), plan.publication.workload.domain.axes), ledger).charge
    assert Fraction(entry.detail["rho"]) == 50 * before


# --- requests to measuring and counting --------------------------------------------------------------------


class StatedCounts(HistogramCounter):
    """Counts without records, of one order alone, by an id, or with records left out, as they state."""

    fingerprint = bound = None

    def __init__(self, domain, **fields):
        super().__init__(np.zeros(domain.shape, dtype=int), domain)
        vars(self).update(fields)

    def left_out(self):
        return 9


def test_counts_of_one_order_are_measured_for_that_order_only():
    order = zoo_plan("total").order
    run(order, StatedCounts(order.domain, fingerprint=measuring._counts_fingerprint(order)))
    with refused("data.counts-of-another-plan"):
        run(order, StatedCounts(order.domain, fingerprint="0" * 64), source=CLOSED)


def test_an_id_and_composed_plans_exclude_each_other():
    order = zoo_plan("total").order
    with_id = replace(order, unit=fn.PrivacyUnit("person", id="pid"))
    without_id, by_id = StatedCounts(order.domain), StatedCounts(order.domain, bound=with_id.unit.bound)
    for changed, counter in (
        (order, without_id),
        (replace(order, composed_with=("1" * 64,)), without_id),
        (with_id, by_id),
    ):
        measuring._refuse(changed, counter)
    with refused("plan.composed-plans-with-id"):
        measuring._refuse(replace(with_id, composed_with=("1" * 64,)), by_id)


@pytest.mark.parametrize("asks", [(), (False,), (False, True)])
def test_it_is_counted_of_how_many_records_are_left_out_where_a_design_asks(asks):
    domain = fn.Domain(sex=fn.Categorical(["f", "m"])).axes
    fields = {"source": DataSource(), "unit": fn.PrivacyUnit(), "max_records": lambda times: None}
    designs = [SimpleNamespace(asks_left_out=x) for x in asks]
    order = SimpleNamespace(domain=domain, sizes=(), designs=designs, **fields)
    result = measuring._count_margins(order, {("sex",): domain.counting_axes(("sex",))}, StatedCounts(domain), None)
    assert result[1] == (9 if any(asks) else None)


def test_without_a_requested_margin_only_left_out_records_are_counted():
    domain = fn.Domain(sex=fn.Categorical(["f", "m"])).axes
    design = SimpleNamespace(asks_left_out=True)
    fields = {"source": DataSource(), "unit": fn.PrivacyUnit(), "max_records": lambda times: None}
    order = SimpleNamespace(domain=domain, sizes=(DeclaredSize(0, exactly=True),), designs=[design], **fields)
    assert measuring._count_margins(order, {}, StatedCounts(domain), None) == ({}, 9)


def test_counts_by_levels_are_those_of_the_places_in_them(rng):
    """Counted by an attribute, of which a margin shows the levels, or one of them alone."""
    counts = rng.integers(0, 9, (6, 2))
    domain = fn.Domain(place=zoo.places(2, 3, levels=("region", "town")), sex=fn.Ordered(0, 1)).axes
    axes = domain.counting_axes(("region", "town in region", "sex"))
    assert axes == ((("town",), ("region", "town in region")), (("sex",), ("sex",)))
    levels = counts.reshape(2, 3, 2)
    order = SimpleNamespace(domain=domain, unit=fn.PrivacyUnit())
    for margin, expected in ((("region", "town in region", "sex"), levels), (("sex", "region"), levels.sum(axis=1).T)):
        np.testing.assert_array_equal(
            measuring._margin_counts({("town", "sex"): counts}, axes, margin, order), expected
        )


def test_a_design_receives_the_largest_count_and_the_number_of_left_out_records():
    """The largest count is the records of the source, in parts of one, as often as they were counted."""
    design = SimpleNamespace(exact_answers=lambda tally, adjacency, max_count: (tally.left_out, adjacency, max_count))
    source, unit = SimpleNamespace(max_records=5), SimpleNamespace(parts=3)
    order = SimpleNamespace(
        designs=(design, design), domain=SimpleNamespace(sizes={}), source=source, unit=unit, adjacency="whoever"
    )
    assert measuring._exact_answers(order, {}, {}, 7) == [(7, "whoever", 15)] * 2
    assert measuring._exact_answers(order, {}, {}, None, 2) == [(None, "whoever", 30)] * 2


@pytest.mark.parametrize("merge", [None, (), ("pay",)])
def test_counts_have_a_digest_of_all_that_decides_them(merge):
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=fn.Amount(0, 4)).axes
    unit = fn.PrivacyUnit(
        "person", 3, id=None if merge is None else "pid", once_per=["sex"], sum_within_unit=merge or ()
    )
    source = DataSource("homes", where={"year": {"at_least": 2020}, "kind": ["a", "b"]})
    design = SimpleNamespace(margins=lambda: [("pay", "sex"), ("sex",)], attributes=lambda: ("sex", "pay"))
    order = SimpleNamespace(plan="1" * 64, domain=domain, source=source, unit=unit, designs=[design])
    bounds = {
        None: None,
        (): ["pid", 3, [["sex"], [], [], []], []],
        ("pay",): ["pid", 3, [["sex"], [], [], []], ["pay"]],
    }
    content = {
        "plan": "1" * 64,
        "cells": [axis_key(domain, "sex"), axis_key(domain, "pay")],
        "where": [[c.column, c.document] for c in source.conditions],
        "bound": bounds[merge],
        "outside": "refuse",
        "rules": [],
        "margins": [["sex", "pay"]],
    }
    assert (
        measuring._counts_fingerprint(order) == hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    )


def test_the_digest_of_counts_covers_rules_and_what_happens_to_their_records():
    axes = dict(fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 1), pay=fn.Amount(0, 4)).axes)
    domains = [Domain(axes, rules={"one": JointAxis(("sex", "age"), cells)}) for cells in (((0, 0),), ((0, 1),))]
    design = SimpleNamespace(margins=lambda: [("sex",)], attributes=lambda: ("sex",))
    orders = [
        SimpleNamespace(plan="1" * 64, domain=x, source=DataSource("a", outside_rules=y), unit=fn.PrivacyUnit())
        for x in (*domains, Domain(axes))
        for y in ("refuse", "drop")
    ]
    for order in orders:
        order.designs = [design]
    # Without rules, the action for their records decides nothing.
    assert len(set(map(measuring._counts_fingerprint, orders))) == 5


def test_what_travels_is_what_is_counted_for_the_order(monkeypatch):
    order, calls = zoo_plan("total").order, []
    counter, seal = StatedCounts(order.domain), bytes

    def counted(*arguments):
        calls.append(arguments)
        return {("margin",): 1}, 9

    monkeypatch.setattr(measuring, "_count_margins", counted)
    monkeypatch.setattr(measuring, "file_of_counts", lambda *inputs: inputs)
    sealed = measuring.sealed(order, counter, seal, progress=calls.append)
    assert sealed == (measuring._counts_fingerprint(order), {("margin",): 1}, 9, seal)
    ((fresh, margins, counts_of, progress),) = calls
    assert (fresh.plan, margins, counts_of) == (order.plan, measuring._required_margins(order), counter)
    progress(1.0)
    assert calls[1:] == [1.0]
    for changed, counts in (
        (replace(order, limits=(CostLimit("cap", Fraction(0)),)), counter),
        (order, StatedCounts(order.domain, fingerprint="1")),
    ):
        with refused("data.counts-of-another-plan", "plan.plan-above-limit"):
            measuring.sealed(changed, counts, None)
    assert len(calls) == 2


# --- caps that no other name passes ---------------------------------------------------------------------------

RECORD, SWAP = fn.PrivacyUnit(), fn.PrivacyUnit(neighbours=REPLACE)
PEOPLE = DataSource("people")


def small(unit=RECORD, source=PEOPLE, margin=5.0):
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]))
    public = fn.KnownTotals((), "Register") if unit == SWAP else None
    return fn.plan(fn.Workload(domain, [fn.table("sex", margin=margin)]), unit=unit, source=source, public=public)


@pytest.mark.no_cover
@pytest.mark.parametrize("spent", [False, True])
@pytest.mark.parametrize(
    ("unit", "source"),
    [
        (RECORD, PEOPLE),
        (fn.PrivacyUnit("Record"), PEOPLE),
        (fn.PrivacyUnit("r\u0435cord", 2), PEOPLE),
        (fn.PrivacyUnit("persons"), PEOPLE),
        (fn.PrivacyUnit("record", 2), PEOPLE),
        (SWAP, PEOPLE),
        (RECORD, DataSource("People")),
        (RECORD, DataSource("peoрle")),
        (RECORD, DataSource("ｐｅｏｐｌｅ")),
        *((RECORD, DataSource(f"people, quarter {i}", account="people")) for i in (1, 4)),
    ],
)
def test_no_other_name_passes_a_cap(unit, source, spent):
    """Another name of a unit, relation, number of records or source does not pass: only charges that fit are codes."""
    one, plan = small(), small(unit, source)
    cap = ceil_dyadic(one.loss.rho) if spent else Fraction(1, 10**6)
    with Ledger(":memory:") as ledger:
        ledger.set_cap(one.order.account, cap)
        if spent:
            counted(one, ledger)
        with refused("ledger.account-beside-cap", "ledger.account-looks-alike", "ledger.over-cap"):
            counted(plan, ledger)
        for account in {plan.order.account, one.order.account}:  # and a cap of its own helps it to nothing
            with contextlib.suppress(LedgerError):
                ledger.set_cap(account, cap if account == one.order.account else Fraction(10**9))
        with refused("ledger.account-looks-alike", "ledger.over-cap"):
            counted(plan, ledger)
        assert sum(e.kind == "charge" for e in ledger.entries()) == spent


def test_what_replaces_records_is_charged_to_those_who_can_come_what_its_integers_cost_them():
    """Known from elsewhere, the number of records is not measured: a record that is added or removed costs a fourth."""
    plan, cap = small(SWAP, margin=50), small().order.account
    costly = plan.order.cost(RECORD)
    assert costly.rho == plan.loss.rho / 4
    with Ledger(":memory:") as ledger:
        ledger.set_cap(cap, costly.rho / 2)
        ledger.set_cap(plan.order.account, Fraction(1000))
        before = ledger.head()[0]
        with refused("ledger.over-cap"):
            counted(plan, ledger)
        assert [e.kind for e in ledger.entries()[before:]] == ["refusal"]
        ledger.set_cap(cap, ceil_dyadic(costly.rho))
        entry = counted(plan, ledger).charge
        assert entry.price(cap).rho == ledger.balance(cap).spent == ceil_dyadic(costly.rho)
        assert entry.price(cap).profile == costly.profile
        assert ledger.balance(plan.order.account).spent == entry.rho == ceil_dyadic(plan.loss.rho)


def test_every_unit_that_the_account_knows_is_charged_what_the_integers_cost_it():
    person, home = fn.PrivacyUnit("person", 3), fn.PrivacyUnit("home", 2, REPLACE)
    plans = [small(unit) for unit in (RECORD, person, home)]
    with Ledger(":memory:") as ledger:
        ledger.set_cap(Account("people", fn.PrivacyUnit("soul", id="soul")), Fraction(1))
        for plan in plans:
            with pytest.raises(LedgerError):
                counted(plan, ledger)
    with Ledger(":memory:") as ledger:
        for plan in plans:
            counted(plan, ledger)
        accounts, new_plan = [p.order.account for p in plans], small(person, margin=7.0)
        entry = counted(new_plan, ledger).charge
        charged = [entry.price(a).rho for a in accounts]
        assert charged == [ceil_dyadic(new_plan.order.cost(u).rho) for u in (RECORD, person, home)]
        assert charged == [ceil_dyadic(Fraction(new_plan.loss.rho, d) * n) for n, d in ((1, 9), (1, 1), (8, 9))]
        assert list(entry.prices) == [accounts[1], accounts[0], accounts[2]]
        ledger.charge(Account("people", fn.PrivacyUnit("soul", id="soul")), Loss.concentrated(Fraction(1)), {})
        assert list(counted(new_plan, ledger).charge.prices) == list(
            entry.prices
        )  # nothing bounds what it costs a soul
