"""Shares of persons: what each record counts on every engine, what a person can move, and what that costs."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import fitnoise as fn
import zoo
from designs import of_sectors
from engines import ENGINES, SLOW
from fitnoise.engines import engine_check, open_counter, sql, statements
from fitnoise.interfaces.cli import _run
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.counting import Tally
from fitnoise.kernel.counting._base import ProgressFilter
from fitnoise.kernel.counting.joint_counts import MarginCounts
from fitnoise.kernel.counting.persons import SHARE_KEY
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.designs.linear import MAX_SCALE
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.order import DeclaredSize
from fitnoise.kernel.periods import Series
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import SHARES_PER_RECORD, Adjacency, CountBasis, DataSource
from fitnoise.mechanisms.finite.ranks import by_ranks
from fitnoise.messages import document as stored_form
from fitnoise.reading.description import describe_enforcement
from fitnoise.reading.layouts import layout
from fitnoise.reading.registry import as_yaml, registry_record
from laws.counting import leaks_nothing, same_counts
from laws.releases import released
from laws.reports import check_no_sentences
from refused import refused
from replayed_noise import Replay
from test_databases import in_duckdb
from test_order import CELLS, SECTORS, TOTALS, order
from test_order import DOMAIN as PLANNED
from test_order import MARGINS as PURE
from test_persons import DOMAIN, FEW, FLAWS, HASHED, KINDS, MARGINS, SOURCES, counter, people, record
from test_persons import untried as untried

ADD, REPLACE = fn.Neighbours

RELEASES = 200


def of_persons(rows):
    """The counts in parts, person by person: an independent reading of the rule."""
    inside = []
    for *values, person, _ in rows:
        cells = tuple(DOMAIN[a].cell(v) for a, v in zip(DOMAIN, values, strict=True))
        if None not in cells and person not in (None, ""):
            inside.append((str(person), cells))
    many = Counter(person for person, _ in inside)
    counts = {m: np.zeros([DOMAIN.sizes[a] for a in m], dtype=np.int64) for m in MARGINS}
    for person, (sex, age, region) in inside:
        cell = {"sex": sex, "age": age, "place": region, "town": region, "region": int(region == 2)}
        for m in MARGINS:
            counts[m][tuple(cell[a] for a in m)] += 2**20 // many[person]
    return counts


# --- what a record counts -------------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_counts_the_same_shares(source, tmp_path, untried):
    rows = people(25)
    expected = of_persons(rows)
    assert 25 * SHARES_PER_RECORD - 25 * 200 < expected[()] < 25 * SHARES_PER_RECORD
    for drop in (True, False):
        opened = counter(source, rows, tmp_path, None, drop=drop)
        assert opened.bound == fn.PrivacyUnit("person", id="person", count="shares").bound
        same_counts(opened.count(MARGINS), expected)
        same_counts(opened.count([("sex",)]), {("sex",): expected["sex",]})
        with refused("data.left-out-not-counted"):
            opened.left_out()


@pytest.mark.no_cover
@pytest.mark.parametrize("source", SOURCES)
def test_records_outside_or_without_an_id_are_nobody_s_share(source, tmp_path, untried):
    """They are dropped or reported, one by one, and take nothing from the shares of others."""
    rows = people(9)
    odd = [("f", 1, "a", None, 0)] * 5 + [("f", 1, "a", "", 0)] * 2
    outside = [("x", 1, "a", "p7", 0)] * 30 + [("f", None, "a", "p7", 0)]
    same_counts(counter(source, odd + outside + rows, tmp_path, None).count(MARGINS), of_persons(rows))
    for margins in ([("age",)], MARGINS):
        with refused("data.records-without-id") as caught:
            counter(source, rows + odd, tmp_path, None, drop=False).count(margins)
        leaks_nothing(caught.value)
    with refused("data.records-outside-domain"):
        counter(source, rows + outside, tmp_path, None, drop=False).count([("place",)])


@pytest.mark.no_cover
@pytest.mark.parametrize("source", SOURCES)
def test_integers_are_ids_and_no_records_are_zero(source, tmp_path, untried):
    rows = people(12)
    numbers = {name: 7 * i - 20 for i, name in enumerate(dict.fromkeys(x[3] for x in rows))}
    rows = [(*x[:3], numbers[x[3]], 0) for x in rows]
    kinds = KINDS | {"person": "int64"}
    same_counts(counter(source, rows, tmp_path, None, kinds=kinds).count(MARGINS), of_persons(rows))
    for drop in (True, False):
        same_counts(counter(source, [], tmp_path, None, drop=drop).count(MARGINS), of_persons([]))


@pytest.mark.no_cover
@pytest.mark.parametrize("source", ["csv", "arrow table", "pandas objects", *ENGINES])
def test_a_person_moves_one_record_at_most_and_nobody_else_s(source, tmp_path, untried):
    """Persons with any number of records come, go and move, with hostile ids; the rest in another order."""
    rng, rows = np.random.default_rng(5), people(20, seed=8)
    full = counter(source, rows, tmp_path, None).count(MARGINS)
    for person in (FEW[0], FEW[1], FEW[2], FEW[8]):
        others = [x for x in rows if x[3] != person]
        less = counter(source, [others[i] for i in rng.permutation(len(others))], tmp_path, None).count(MARGINS)
        records = [x for x in rows if x[3] == person]
        same_counts({m: full[m] - less[m] for m in MARGINS}, of_persons(records))
        added = [(*record(rng), "someone else", 0) for _ in range(int(rng.integers(1, 300)))]
        rearranged = [(others + added)[i] for i in rng.permutation(len(others) + len(added))]
        now = counter(source, rearranged, tmp_path, None).count(MARGINS)
        gained = {m: now[m] - less[m] for m in MARGINS}
        assert all((x >= 0).all() and 0 < x.sum() <= SHARES_PER_RECORD for x in gained.values())
        same_counts(gained, of_persons(added))


@pytest.mark.no_cover
@pytest.mark.parametrize("source", ["arrow table", *ENGINES])
def test_shares_are_rounded_down_whatever_the_number_of_records(source, tmp_path, untried):
    """So the shares of any person add up to at most one record, for any division of an engine."""
    many = [3, 7, 4093] if source not in SLOW else [3, 7, 11]
    rows = [("f", 1, "abc"[i], f"p{n}", 0) for i, n in enumerate(many) for _ in range(n)]
    counts = counter(source, rows, tmp_path, None).count([("town",)])["town",].tolist()
    assert counts == [n * (2**20 // n) for n in many]


def test_who_has_more_records_than_a_record_has_parts_counts_nothing():
    bound = fn.PrivacyUnit("person", id="person", count="shares").bound
    one = {"sex": "f", "age": 1, "place": "a", "person": "p"}
    for many, expected in ((SHARES_PER_RECORD, SHARES_PER_RECORD), (SHARES_PER_RECORD + 1, 0)):
        table = pa.Table.from_pylist([one]).take(pa.array(np.zeros(many, dtype=np.int64)))
        assert open_counter(table, DOMAIN.axes, DataSource(), bound).count([()])[()] == expected


@pytest.mark.parametrize(("steps", "passed"), [((4,), [3 * 5 + 4 * 2]), ((3, 1), [3 * 5 + 3 * 2, 1 * 2])])
def test_tables_add_parts_to_the_knots_of_amounts_too(steps, passed):
    """Although no plan of shares has amounts."""
    tables = MarginCounts(
        [("a",), ("a", "b")], {"a": 1 + len(steps), "b": 2, SHARE_KEY: 11}, ProgressFilter(None), {"a": steps}
    )
    tables.add({"a": np.array([0, 3, 4]), "b": np.array([0, 1, 1]), SHARE_KEY: np.array([10, 5, 2])}, 3)
    counts = tables.finish()
    assert counts["a",].tolist() == [10 - 2 * 5 - 3 * 2, *passed]
    assert counts["a", "b"].sum() == 17


# --- the trial ------------------------------------------------------------------------------------------------------


def tried(d, kind=ColumnKind.TEXT, *, drop=True):
    engine_check.refuse_unless_bounded(in_duckdb(), d, "the database", kind, drop=drop, shares=True)


@pytest.mark.no_cover
@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("kind", [ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.ANY])
@pytest.mark.parametrize("sets", [True, False])
def test_an_engine_that_counts_shares_is_admitted(sets, kind, drop):
    tried(replace(HASHED, sets=sets), kind, drop=drop)


@pytest.mark.parametrize("flaw", ["capitals", "blanks", "accents", "composed", "collation", "short texts", "empty ids"])
def test_an_engine_that_takes_persons_for_each_other_is_not_admitted(flaw):
    with refused("data.engine-bounds-differently") as caught:
        tried(replace(HASHED, **FLAWS[flaw]))
    leaks_nothing(caught.value)


def test_an_engine_that_divides_otherwise_is_not_admitted(monkeypatch):
    original = statements.statement

    def another(*arguments, **options):
        return original(*arguments, **options).replace("MOD(1048576, per_person)", "0")

    monkeypatch.setattr(statements, "statement", another)
    with refused("data.engine-bounds-differently"):
        tried(replace(HASHED, int64="CAST(ceil({x}) AS BIGINT)"))


@pytest.mark.no_cover
@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_are_tried_with_shares_before_they_count(engine, tmp_path, monkeypatch):
    calls = []

    def asking(*arguments, **how):
        calls.append(how["shares"])
        engine_check.refuse_unless_bounded(*arguments, **how)

    monkeypatch.setattr(sql, "refuse_unless_bounded", asking)
    rows = people(2)
    opened = counter(engine, rows, tmp_path, None, drop=False)
    same_counts(opened.count([()]), {(): of_persons(rows)[()]})
    assert calls == [True]


# --- what it costs, and what is drawn -------------------------------------------------------------------------------

BY_SHARES = fn.PrivacyUnit("person", id="pid", count="shares")
LINEAR = {
    name: design
    for name, design in {**zoo.TABLES, **zoo.PRODUCTS, **zoo.TREES}.items()
    if hasattr(design, "groups") and design.scales.max() <= MAX_SCALE / SHARES_PER_RECORD
}


@pytest.mark.parametrize("neighbours", list(fn.Neighbours))
@pytest.mark.parametrize("name", LINEAR)
def test_what_is_drawn_costs_as_much_for_all_parts_of_a_record_as_one_record(name, neighbours):
    """PARTS records of a unit, with noise as many times, cost exactly the charge; no unit can have more parts."""
    design = LINEAR[name]
    finer = design.scaled_by(SHARES_PER_RECORD)
    charged = design.loss(Adjacency(replace(BY_SHARES, neighbours=neighbours)))
    parts = finer.loss(Adjacency(fn.PrivacyUnit("person", SHARES_PER_RECORD, neighbours, "pid")))
    assert charged.rho == parts.rho
    assert charged.mu_squared is None or parts.mu_squared <= charged.mu_squared
    assert finer.scales.tolist() == (SHARES_PER_RECORD * design.scales).tolist()
    assert charged.rho == design.loss(Adjacency(fn.PrivacyUnit("person", 1, neighbours, "pid"))).rho


@pytest.mark.parametrize("neighbours", list(fn.Neighbours))
def test_no_person_moves_what_is_measured_by_more_than_is_charged(neighbours):
    """Any numbers of records in any cells, in shares that are rounded down: by the integers themselves."""
    rng, design = np.random.default_rng(4), SECTORS
    finer, unit = design.scaled_by(SHARES_PER_RECORD), replace(BY_SHARES, neighbours=neighbours)
    charged, largest = 2 * design.loss(Adjacency(unit)).rho, Fraction(0)

    def shift(x):
        tally = Tally({("o", "a0"): x, ("a0", "o"): x.T})
        exact = finer.exact_answers(tally, Adjacency(unit), SHARES_PER_RECORD * 10)
        scales = [np.repeat(g.scales, g.answers) for g in finer.groups]
        pairs = zip(np.concatenate(exact).tolist(), np.concatenate(scales).tolist(), strict=True)
        return sum(Fraction(y) ** 2 / Fraction(s) ** 2 for y, s in pairs)

    def person():
        x, k = np.zeros((2, 3), dtype=np.int64), int(rng.integers(1, 8))
        np.add.at(x, (rng.integers(2, size=k), rng.integers(3, size=k)), SHARES_PER_RECORD // k)
        return x

    for _ in range(200):
        one, other = person(), person() * (neighbours is REPLACE)
        largest = max(largest, shift(one - other))
    assert 0.8 * charged < largest <= charged


def test_designs_that_are_not_linear_or_not_gaussian_measure_no_shares():
    query, adjacency = fn.FiniteQuery.median("middle", "o", people=5, epsilon=1), Adjacency(BY_SHARES)
    median = AnswerDesign(
        query.in_domain(PLANNED),
        PLANNED.axes,
        by_ranks(query.graph(PLANNED, adjacency), Fraction(1), query.terms.ranks(adjacency)),
    )
    for design in (PURE, median):
        with refused("plan.parts-need-gaussian-tables"):
            order(SECTORS, design, unit=BY_SHARES)


def test_orders_of_shares_have_no_size_no_amount_and_no_noise_above_the_sampler():
    with refused("plan.shares-with-size-or-amount"):
        order(SECTORS, unit=BY_SHARES, sizes=(DeclaredSize(5, exactly=False),))
    summed = fn.Domain(o=fn.Ordered(0, 1), a0=fn.Ordered(1, 3), pay=fn.Amount(0, 10, step=5))
    with refused("plan.shares-with-size-or-amount"):
        replace(order(SECTORS, unit=BY_SHARES), domain=summed.axes)
    for scale, fits in (
        (MAX_SCALE / SHARES_PER_RECORD, True),
        (np.nextafter(MAX_SCALE / SHARES_PER_RECORD, np.inf), False),
    ):
        loud = of_sectors(CELLS, ([[1, 0], [0, 1]], {(): ([[1, 0], [0, 1]], scale)}))
        if fits:
            assert order(loud, unit=BY_SHARES).scaled_designs[0].scales.tolist() == [MAX_SCALE]
        else:
            with refused("plan.noise-out-of-range"):
                order(loud, unit=BY_SHARES)


def test_what_is_measured_are_parts_with_noise_of_parts(tmp_path):
    """One noise source: exact answers are those of the counts in parts, noise has PARTS times the charged scales."""
    table = pa.table({"pid": ["p", "p", "q", "r", "r", "r"], "o": [0, 1, 1, 0, 0, 1], "a0": [1, 2, 3, 1, 2, 3]})
    base, source = order(SECTORS, unit=BY_SHARES), Replay(seed=3)
    open_one = open_counter(table, PLANNED.axes, base.source, BY_SHARES.bound)
    with Ledger(":memory:") as ledger:
        noisy = measuring.measure(base, open_one, ledger, noise=source)
        exact = measuring.measure(base, open_one, ledger, noise=Replay())
        assert [e.rho for e in ledger.entries()[::2]] == 2 * [ceil_dyadic(base.loss.rho)]
    assert base.account == order(SECTORS, unit=fn.PrivacyUnit("person", 5, id="pid")).account
    assert [s for _, s, _ in source.requests] == [SHARES_PER_RECORD * s for s in SECTORS.scales.tolist()]
    x = np.zeros((2, 3), dtype=np.int64)
    np.add.at(x, ([0, 1, 1, 0, 0, 1], [0, 1, 2, 0, 1, 2]), [SHARES_PER_RECORD // n for n in (2, 2, 1, 3, 3, 3)])
    expected = SECTORS.exact_answers(Tally({("o", "a0"): x, ("a0", "o"): x.T}), base.adjacency, 2**40)
    assert all(np.array_equal(a, b) for a, b in zip(exact.answers[0], expected, strict=True))
    assert (np.concatenate(noisy.answers[0]) - np.concatenate(expected)).tolist() == source.drawn


def test_data_that_count_records_are_not_measured_in_shares_nor_the_reverse():
    table = pa.table({"pid": ["p"], "o": [0], "a0": [1]})
    records = fn.PrivacyUnit("person", id="pid")
    for unit, other in ((BY_SHARES, records), (records, BY_SHARES)):
        base = order(SECTORS, unit=unit)
        with Ledger(":memory:") as ledger, refused("data.bound-differs"):
            measuring.measure(base, open_counter(table, PLANNED.axes, base.source, other.bound), ledger)


def test_other_units_pay_as_where_one_record_of_each_person_is_counted():
    """A change of a person's records changes her shares: a mean of replacements, as many as there are persons."""
    one, shares = (order(SECTORS, TOTALS, unit=u) for u in (fn.PrivacyUnit("person", id="pid"), BY_SHARES))
    others = [
        fn.PrivacyUnit(),
        fn.PrivacyUnit("visit", 3, REPLACE),
        fn.PrivacyUnit("person", 1, REPLACE, "pid"),
        fn.PrivacyUnit("person", 9),
        fn.PrivacyUnit("household", id="home", count="shares"),
    ]
    for other in others:
        priced, same = (base.cost(other) for base in (shares, one))
        assert (priced is None) == (same is None) == (other.name == "household")
        assert priced is None or priced.rho == same.rho
    promised = Adjacency(BY_SHARES).for_unit(others[-1], fn.PrivacyUnit("household", 4))
    assert (promised.unit.count, promised.records) == (CountBasis.RECORDS, 4)


# --- statements and refusals ----------------------------------------------------------------------------------------


def test_a_unit_says_that_its_records_are_shares():
    assert BY_SHARES.describe() == "one person (all records, in shares of one, by column 'pid'), add-or-remove-one"
    assert BY_SHARES.account == fn.PrivacyUnit("person", 12, id="pid").account
    assert BY_SHARES.bound.max_records is None
    assert BY_SHARES.cost_factor() == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"count": "parts"}, "spec.count-invalid"),
        ({"count": "shares"}, "spec.shares-need-id"),
        ({"count": "shares", "id": "pid", "max_records": 2}, "spec.shares-count-all-records"),
        ({"count": "shares", "id": "pid", "once_per": ["o"]}, "spec.shares-count-all-records"),
        ({"count": "shares", "id": "pid", "fixed": ["o"]}, "spec.shares-count-all-records"),
    ],
)
def test_shares_need_an_id_and_all_records(arguments, code):
    with refused(code):
        fn.PrivacyUnit("person", **arguments)


SPEC = """
[data]
source = "visits"

[privacy]
unit = "person"
id = "pid"
count = "shares"

[domain.clinic]
type = "categorical"
codes = ["a", "b", "c"]

[[tables]]
attributes = ["clinic"]
margin = 20
"""

REFUSED = [
    ("[data]", 'series = { attribute = "clinic" }\n[data]', "spec.shares-unsupported"),
    ("[data]", 'mechanism = "projection"\nsize = 100\nbudget = { rho = 0.1 }\n[data]', "spec.shares-unsupported"),
    ('count = "shares"', 'count = "shares"\ndefinition = "pure"', "spec.shares-unsupported"),
    ('count = "shares"', 'count = "shares"\ndefinition = "auto"', "spec.shares-unsupported"),
    ('count = "shares"', 'count = "shares"\nmax_records = 2', "spec.shares-count-all-records"),
    (
        "[[tables]]",
        '[domain.pay]\ntype = "amount"\nlow = 0\nhigh = 10\nstep = 1\n[[tables]]',
        "spec.shares-unsupported",
    ),
    (
        "margin = 20",
        'margin = 20\n[[questions]]\nname = "more"\nquery = "left_out"\npeople = 10\nepsilon = 0.1',
        "spec.shares-unsupported",
    ),
]


@pytest.mark.parametrize(("old", "new", "code"), REFUSED)
def test_settings_that_exclude_shares_are_refused(old, new, code):
    with refused(code):
        fn.Spec.from_toml(SPEC.replace(old, new)).publication()


def visits():
    rng = np.random.default_rng(9)
    many = np.concatenate([[5_000], rng.integers(1, 9, 300)])
    ids = np.repeat([f"p{i}" for i in range(len(many))], many)
    clinics = np.where(ids == "p0", "a", rng.choice(["a", "b", "c"], len(ids)))
    truth = [float((clinics == c) @ np.repeat(SHARES_PER_RECORD // many, many)) / SHARES_PER_RECORD for c in "abc"]
    return pa.table({"pid": ids.tolist(), "clinic": clinics.tolist()}), truth


@pytest.fixture(scope="module")
def plan():
    return fn.plan(fn.Spec.from_toml(SPEC).publication())


@pytest.mark.parametrize("sealed", [False, True])
def test_shares_go_from_a_specification_to_a_release_that_verifies(plan, sealed, tmp_path, without_noise, capsys):
    """A person with 5,000 records counts as one; the plan, the release and every table state that shares count."""
    publication = plan.publication
    assert fn.Spec.from_publication(publication).publication() == publication
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    data, truth = visits()
    if sealed:
        data = fn.count(plan, data, tmp_path / "counts", unsealed=True)
    release = fn.release(plan, data, ledger=tmp_path / "l.db", directory=tmp_path / "r")
    np.testing.assert_allclose(release["clinic"]["value"], truth, rtol=1e-9)
    assert 300 < sum(truth) <= 301
    np.testing.assert_allclose(release.count(clinic="b").frame()["value"], truth[1], rtol=1e-9)
    assert fn.verify(tmp_path / "r").ok
    assert fn.Release.read(tmp_path / "r") == release
    document = json.loads((tmp_path / "r" / "release.json").read_text())
    assert document["answers_per_record"] == SHARES_PER_RECORD
    assert document["spec"]["privacy"]["count"] == "shares"
    assert document["charge"]["records"] == [*map(stored_form, describe_enforcement(plan, publication.unit))]
    assert document["shares"] == {"id": "report.counted.shares", "unit": "person"}
    check_no_sentences(document)
    for report in (plan_report(plan), release_report(release)):
        text = "\n".join(lines(report))
        assert "in equal shares of one, and enforces this by the column 'pid'" in text
        assert "each person counts one, by equal shares of all its records: numbers are of shares, not of" in text
    assert "itnoise counts all records of each person in equal shares of one" in as_yaml(registry_record(release))
    for language, sentence in (
        ("en", "Each person counts as one, in equal shares"),
        ("de", "Jede Einheit („person“) zählt eins, zu"),
    ):
        page = fn.report(release, tmp_path / f"{language}.html", language=language).read_text(encoding="utf-8")
        assert sentence in page
        assert "at most 1" not in page
        assert "höchstens 1" not in page
    assert _run(["tables", str(tmp_path / "r"), "clinic"]) == 0
    assert "counted: each person counts one" in capsys.readouterr().err


def test_wide_and_narrow_integers_say_the_same(plan, tmp_path, without_noise):
    """The kind of integers follows from the public bound on records, each of which may be of another person."""
    data, truth = visits()
    for max_records, kind in ((2**40, object), (10**6, np.int64)):
        source = replace(plan.publication.source, max_records=max_records)
        parsed = fn.plan(replace(plan.publication, source=source))
        release = fn.release(parsed, data, ledger=tmp_path / f"{max_records}.db")
        assert {y.dtype for y in release.answers} == {np.dtype(kind)}
        np.testing.assert_allclose(release["clinic"]["value"], truth, rtol=1e-9)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["fit-for-use", "fit-for-use-by-level", "fit-for-use-by-place", "fit-for-use-by-axis"])
def test_every_kind_of_gaussian_noise_releases_shares(name, rng):
    """Noise drawn in parts of records gives the tables of a release in records with correspondingly fewer."""
    request = zoo.REQUESTS[name]()
    one, shares = (fn.plan(replace(request, unit=unit)) for unit in (fn.PrivacyUnit("person", id="pid"), BY_SHARES))
    assert (shares.rho, shares.order.mechanism) == (one.rho, one.order.mechanism) == (one.rho, name)
    answers = [rng.integers(-(2**30), 2**30, n) for p in one.groups for n in p.strategy.lengths]
    release, finer = fn.Release(one, answers), fn.Release(shares, [SHARES_PER_RECORD * y for y in answers])
    for table in release:
        assert finer[table].equals(release[table])


def test_sums_of_places_stay_in_64_bits_where_there_are_few_records_in_public(tmp_path):
    """Weighted sums have the bits that the parts of the records leave: as exact as for more records."""
    request = zoo.REQUESTS["fit-for-use-by-place"]()
    few = replace(request.source, max_records=10**6, outside_domain="drop")
    plan, usual = (fn.plan(replace(request, unit=BY_SHARES, source=x)) for x in (few, request.source))
    assert (plan.order.mechanism, usual.order.mechanism) == ("fit-for-use-by-place",) * 2
    assert plan.rho == pytest.approx(usual.rho, rel=1e-6)
    assert any((k > 1).any() for g in plan.table_part.strategy.groups for k in g.factors)
    data = pa.table({"pid": ["x", "x"], "b": [0, 1], "geo": ["1-3", "2-7"]})
    release = fn.release(plan, data, ledger=tmp_path / "l.db")
    assert {y.dtype for y in release.answers} == {np.dtype(np.int64)}


def test_releases_of_shares_are_combined_only_with_each_other(plan, tmp_path, without_noise):
    """And integer tables are made of one: what is read of them is in records, wherever it comes from."""
    data, truth = visits()
    records = fn.plan(replace(plan.publication, unit=fn.PrivacyUnit("person", id="pid")))
    one, other = (fn.release(p, data, ledger=tmp_path / "l.db") for p in (plan, records))
    both = fn.combine(one, fn.Release(plan, [y + 2 for y in one.answers]), same_records=True)["clinic"]
    np.testing.assert_allclose(both["value"], truth, rtol=1e-6)
    np.testing.assert_allclose(both["std_error"] ** 2 * 2, one["clinic"]["std_error"] ** 2)
    with refused("release.different-records"):
        fn.combine(one, other, same_records=True)
    integers = fn.make_integer_tables(one, ["clinic"], simulations=50)["clinic"]
    assert (abs(integers["value"] - truth) <= 1).all()
    assert (abs(integers["simulated_rmse"] / one["clinic"]["std_error"] - 1) < 0.5).all()


@pytest.mark.slow
@pytest.mark.usefixtures("one_engine", "counted_once", "rehearsed_once")
def test_intervals_of_integer_tables_hold_shares_that_are_not_integers():
    """Detects, at 1e-6, intervals of half a record that hold it less often than they say: 23 % where ends were cut."""
    clinics = fn.Domain(clinic=fn.Categorical(["a", "b"]))
    request = fn.Workload(clinics, [fn.table("clinic", std_error=0.3)])
    plan = fn.plan(request, unit=BY_SHARES)
    data = pa.table({"pid": np.repeat(np.arange(41), 2).tolist(), "clinic": ["a", "b"] * 41})
    held, laid = 0, 0
    for _ in range(RELEASES):
        integers = fn.make_integer_tables(released(plan, data), simulations=0)
        held += int(integers["clinic"]["low"][0] <= 20.5 <= integers["clinic"]["high"][0])
        low, high = layout(integers, "clinic").intervals
        laid += int(low[0, 0] <= 20.5 <= high[0, 0])
    assert min(held, laid) >= binom.ppf(1e-6, RELEASES, 0.95)


def test_a_series_remembers_nobody_and_so_counts_no_shares():
    with refused("plan.series-bound-across-periods"):
        Series(order(SECTORS, unit=BY_SHARES), "o")
