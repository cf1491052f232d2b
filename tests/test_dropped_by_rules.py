"""Records that a rule calls impossible: every source leaves them out or refuses them, and the charge follows."""

import contextlib
import itertools
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from engines import ENGINES
from fitnoise.engines import databases, duck, engine_check, open_counter, sql, statements
from fitnoise.engines.dialects import SQLITE
from fitnoise.engines.histogram import HistogramCounter
from fitnoise.engines.rules import RuleColumn
from fitnoise.kernel import noise
from fitnoise.kernel.codings import DROPPED, OUTSIDE, REFUSED
from fitnoise.kernel.counting import Dropped
from fitnoise.kernel.counting.trial import ColumnKind, PersonTrial
from fitnoise.kernel.domain import axis_key
from fitnoise.kernel.units import DataSource, Neighbours, Pattern, RecordBound
from fitnoise.messages import english
from fitnoise.planning.shared_columns import counted_jointly
from fitnoise.reading.description import universe_messages
from fitnoise.request.documents import Spec, load_spec
from fitnoise_check.plan import check
from laws.counting import DROP, REFUSE, leaks_nothing
from laws.releases import released
from records import Records
from refused import refused
from replayed_noise import Replay
from test_databases import DUCKDB, few, in_duckdb

PLACES = fn.Hierarchy(["state", "county"], [("A", "a1"), ("A", "a2"), ("B", "b1")])
DOMAIN = fn.Domain(
    age=fn.Binned([15, 30]), marital=fn.Categorical(["single", "married", "widowed"]), place=PLACES,
    sex=fn.Categorical(["f", "m"], if_outside="drop", if_missing="drop"),
)  # fmt: skip
BOX, LEVELS = {"age": {"below": 15}, "marital": ["married", "widowed"]}, {"state": "B", "sex": "m"}
RULED = DOMAIN.without(BOX).without(LEVELS)
NAMES = "impossible 1 (age, marital)", "impossible 2 (state, sex)"
BOTH = DataSource(outside_domain=DROP)
ONLY_RULES = DataSource(outside_rules=DROP)

TRIED = ["csv", "parquet", "duckdb", "arrow table", "polars", "pandas", *ENGINES]


def rows(rng, size):
    """Records (age, marital, place, sex, person), some of them impossible or outside, several of a person."""
    return pd.DataFrame({
        "age": rng.integers(0, 45, size), "marital": rng.choice(["single", "married", "widowed"], size),
        "place": rng.choice(["a1", "a2", "b1"], size), "sex": rng.choice(["f", "m", "x"], size, p=[0.5, 0.45, 0.05]),
        "person": rng.choice([f"p{i}" for i in range(max(size // 4, 1))], size),
    })  # fmt: skip


def by_rules(frame):
    """Return for each rule which records it excludes; a record outside in an attribute is not excluded."""
    is_known = frame["sex"].isin(["f", "m"])
    child = (frame["age"] < 15) & (frame["marital"] != "single")
    return child, (frame["place"] == "b1") & (frame["sex"] == "m") & is_known


def counter_of(source, folder, frame, domain, data_source, bound=None):
    source_case = zoo.COUNTERS[source]
    full = fn.Domain({**{a: domain[a] for a in domain}, "person": fn.Categorical(["-"])})
    kinds = {a: "int64" if a == "age" else "string" for a in full}
    data = source_case.make(Records(full, {a: frame[a].tolist() for a in full}, kinds), folder)
    return open_counter(data, domain.axes, replace(data_source, table=source_case.table), bound)


@pytest.fixture
def untried(one_engine, monkeypatch):
    """Engines that were tried elsewhere."""
    monkeypatch.setattr(sql, "refuse_unless_right", lambda *_, **__: None)
    monkeypatch.setattr(sql, "refuse_unless_bounded", lambda *_, **__: None)


MARGINS = [("age", "marital"), ("state",), ("county", "sex"), ()]
BOUNDS = [
    None,
    RecordBound("person", 1),
    RecordBound("person", 3, Pattern(once_per=("marital",))),
    RecordBound("person", None),
]


@pytest.mark.parametrize("bound", BOUNDS, ids=["records", "one", "once per", "shares"])
@pytest.mark.parametrize("source", TRIED)
def test_no_record_of_an_impossible_cell_is_counted(source, bound, tmp_path, rng, untried):
    """Dropped, they are left out before records of a person are chosen: as if the data did not hold them."""
    frame = rows(rng, 400)
    masks = by_rules(frame)
    excluded = np.any(masks, axis=0)
    without = open_counter(frame[~excluded], DOMAIN.axes, BOTH, bound).count(MARGINS)
    outside = frame["sex"] == "x"
    for data_source in (BOTH, ONLY_RULES):
        counter = counter_of(source, tmp_path, frame, RULED, data_source, bound)
        assert counter.drops
        counts = counter.count(MARGINS)
        for margin in MARGINS:
            np.testing.assert_array_equal(counts[margin], without[margin])
        numbers = {"sex": int(outside.sum())} | {n: int(x.sum()) for n, x in zip(NAMES, masks, strict=True)}
        assert counter.dropped == Dropped(400, int((outside | excluded).sum()), numbers)
        if bound is not None and bound.max_records is not None:
            expected_counts = open_counter(frame[~excluded], DOMAIN.axes, BOTH, bound)
            assert counter.left_out() == expected_counts.left_out()
    counter = counter_of(source, tmp_path, frame, RULED, replace(BOTH, outside_rules=REFUSE), bound)
    with refused("data.records-impossible") as caught:
        counter.count(MARGINS)
    # A record that is dropped for its sex is not refused by a rule.
    expected = ", ".join(f"{(x & ~outside).sum()} by the rule {n!r}" for n, x in zip(NAMES, masks, strict=True))
    assert f"impossible: {expected}." in caught.value.given
    right = counter_of(source, tmp_path, frame[~excluded], RULED, DataSource(outside_rules=REFUSE), bound)
    np.testing.assert_array_equal(right.count(MARGINS)["age", "marital"], without["age", "marital"])


@pytest.mark.parametrize("source", TRIED)
def test_one_more_impossible_record_changes_no_count(source, tmp_path, rng, untried):
    """A neighbour audit: with any impossible record more, of a person with records or another one."""
    frame = rows(rng, 60)
    bound = RecordBound("person", 2)
    one = {"age": 3, "marital": "widowed", "place": "a1", "sex": "f"}
    other = {"age": 40, "marital": "single", "place": "b1", "sex": "m"}
    for limit in (None, bound):
        before = counter_of(source, tmp_path, frame, RULED, BOTH, limit).count(MARGINS)
        for record, person in itertools.product((one, other), ("p0", "new")):
            extended = pd.concat([frame, pd.DataFrame([record | {"person": person}])])
            after = counter_of(source, tmp_path, extended, RULED, BOTH, limit).count(MARGINS)
            for margin in MARGINS:
                np.testing.assert_array_equal(after[margin], before[margin])


def test_added_amounts_leave_out_impossible_records_first(tmp_path, rng):
    frame = rows(rng, 300).assign(income=rng.integers(0, 100, 300))
    excluded = np.any(by_rules(frame), axis=0)
    domain = fn.Domain({a: DOMAIN[a] for a in DOMAIN}, income=fn.Amount(0, 100, step=1))
    bound = RecordBound("person", 2, Pattern(), ("income",))
    margins = [("marital", "income"), ("age",)]
    expected = open_counter(frame[~excluded], domain.axes, BOTH, bound).count(margins)
    ruled = domain.without(BOX).without(LEVELS)
    frame.to_parquet(tmp_path / "x.parquet")
    for data in (frame, tmp_path / "x.parquet"):
        counts = open_counter(data, ruled.axes, BOTH, bound).count(margins)
        for margin in margins:
            np.testing.assert_array_equal(counts[margin], expected[margin])


def test_an_array_of_counts_loses_impossible_cells(rng):
    small = fn.Domain({a: DOMAIN[a] for a in ("age", "marital", "place")})
    ruled = small.without(BOX).without(state="B", marital="widowed")
    counts = rng.integers(1, 9, small.shape)
    expected_counts = counts.copy()
    expected_counts[0, 1:] = 0
    expected_counts[:, 2, 2] = 0
    counter = HistogramCounter(counts, ruled.axes, BOTH)
    assert counter.drops
    margins = [("age", "marital"), ("state",)]
    for margin, table in counter.count(margins).items():
        np.testing.assert_array_equal(table, HistogramCounter(expected_counts, small.axes).count([margin])[margin])
    with refused("data.records-impossible"):
        HistogramCounter(counts, ruled.axes).count(margins)
    assert int(HistogramCounter(expected_counts, ruled.axes).count([()])[()]) == expected_counts.sum()


def test_a_column_states_each_record_of_a_rule():
    rule = RuleColumn(("a", "b"), np.array([[False, True], [True, False]]), REFUSED)
    cells = {"a": np.array([0, 0, 1, 1, OUTSIDE, 0]), "b": np.array([0, 1, 0, 1, 1, DROPPED]), "c": np.zeros(6)}
    assert rule.cells(cells).tolist() == [0, REFUSED, REFUSED, 0, 0, 0]


# --- the trial ------------------------------------------------------------

HASHED = replace(DUCKDB, digest="md5({x})", bytes="octet_length({c})")
SQL = RuleColumn.sql


def allowed(rule):
    return replace(rule, excluded=~rule.excluded)


def unknown(cells):
    return {a: f"NULLIF({c}, 0)" for a, c in cells.items()}


SQL_FLAWS = {
    "excludes nothing": lambda rule, cells, int64: "0",
    "excludes all": lambda rule, cells, int64: "1",
    "excludes what it does not know": lambda rule, cells, int64: f"1 - {SQL(allowed(rule), unknown(cells), int64)}",
    "compares with NULL": lambda rule, cells, int64: SQL(allowed(rule), cells, int64).replace("IN (", "NOT IN (NULL, "),
    "exchanges the attributes": lambda rule, cells, int64: SQL(replace(rule, names=rule.names[::-1]), cells, int64),
}
"""Faults of an engine's statement about a rule, two of them by three-valued logic."""


def in_capitals(right):
    """Make the engine compare texts without their case, where it applies rules."""

    def fields_with_rules(d, fields, rules):
        texts = {a: replace(f, column=f"upper({f.column})") for a, f in fields.items() if f.kind is ColumnKind.TEXT}
        return right(d, fields | texts, rules) | fields

    return fields_with_rules


def without_rules(right):
    """Make the engine report what attributes drop, and not what rules drop."""

    def lose(fetch, d, relation, fields, lost, **options):
        right(fetch, d, relation, {a: f for a, f in fields.items() if not f.column.startswith("CASE")}, lost, **options)

    return lose


FLAWS = {name: (RuleColumn, "sql", lambda _, flaw=flaw: flaw) for name, flaw in SQL_FLAWS.items()} | {
    "compares texts without their case": (engine_check, "with_rules", in_capitals),
    "does not report what rules drop": (statements, "_lose", without_rules),
}
"""Faults of engines: the place of the fault, and the faulty function made of the right one."""


def tried(rules, d=DUCKDB, fetch=None, *, drop=True):
    engine_check.refuse_unless_right(fetch or in_duckdb(), d, "the database", drop=drop, rules=rules)


@pytest.mark.no_cover
@pytest.mark.parametrize("rules", [DROP, REFUSE])
@pytest.mark.parametrize("flaw", FLAWS)
def test_an_engine_that_excludes_other_records_is_not_admitted(flaw, rules, monkeypatch):
    owner, name, build = FLAWS[flaw]
    with few("words", "range"):
        tried(rules, drop=False)
        monkeypatch.setattr(owner, name, build(getattr(owner, name)))
        tried(None, drop=False)
        for drop in (True, False):
            with refused("data.engine-counts-differently") as caught:
                tried(rules, drop=drop)
            leaks_nothing(caught.value)


@pytest.mark.parametrize("rules", [DROP, REFUSE])
@pytest.mark.parametrize("drop", [True, False])
def test_records_that_are_read_out_are_tried_by_the_same_rules(rules, drop, monkeypatch):
    """SQLite hands over its records, and this process applies the rules."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection, few("words", "range"):
        connection.create_function(statements.NUMBER_FUNCTION, 1, databases._number)  # as a session has it
        how = {"d": SQLITE, "fetch": lambda statement: [connection.execute(statement).fetchall()], "drop": drop}
        tried(rules, **how)
        original = RuleColumn.cells
        monkeypatch.setattr(RuleColumn, "cells", lambda rule, cells: 0 * original(rule, cells))
        with refused("data.engine-counts-differently"):
            tried(rules, **how)


@pytest.mark.no_cover
@pytest.mark.parametrize("flaw", FLAWS)
def test_an_engine_that_excludes_other_records_of_persons_is_not_admitted(flaw, monkeypatch):
    def bounded(*, drop):
        engine_check.refuse_unless_bounded(in_duckdb(), HASHED, "the database", ColumnKind.TEXT, drop=drop)

    owner, name, build = FLAWS[flaw]
    for drop in (True, False):
        bounded(drop=drop)
    monkeypatch.setattr(owner, name, build(getattr(owner, name)))
    for drop in (True, False):
        if not drop and flaw == "does not report what rules drop":
            bounded(drop=drop)  # nothing is dropped
            continue
        with refused("data.engine-bounds-differently") as caught:
            bounded(drop=drop)
        leaks_nothing(caught.value)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", [ColumnKind.TEXT, ColumnKind.INTEGER])
@pytest.mark.parametrize("flaw", SQL_FLAWS)
def test_duckdb_counts_no_persons_if_it_excludes_other_records(flaw, kind, monkeypatch):
    monkeypatch.setattr(duck, "_BOUNDED", set())
    for shares, merge in ((False, False), (True, False), (False, True)):
        duck._refuse_unless_bounded(PersonTrial(kind, shares=shares, merge=merge))
    duck._BOUNDED.clear()
    monkeypatch.setattr(RuleColumn, "sql", SQL_FLAWS[flaw])
    for shares, merge in ((False, False), (True, False), (False, True)):
        with refused("data.engine-bounds-differently"):
            duck._refuse_unless_bounded(PersonTrial(kind, shares=shares, merge=merge))


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_are_tried_by_rules_if_the_domain_has_some(engine, tmp_path, rng, monkeypatch):
    tried_rules = []
    monkeypatch.setattr(sql, "refuse_unless_right", lambda *_, rules, **__: tried_rules.append(rules))
    for domain, source, expected in ((RULED, BOTH, DROP), (RULED, DataSource(), REFUSE), (DOMAIN, BOTH, None)):
        frame = rows(rng, 20)
        frame = frame[~np.any(by_rules(frame), axis=0) & (frame["sex"] != "x")]
        counter_of(engine, tmp_path, frame, domain, source).count([()])
        assert tried_rules.pop() == expected


# --- the charge ------------------------------------------------------------

TABLES = [fn.table("age", "marital", std_error=2), fn.table("marital", std_error=2), fn.table("sex", std_error=1)]


def planned(source, **options):
    return fn.plan(fn.Workload(RULED, TABLES), source=source, **options)


@pytest.mark.parametrize("source", [BOTH, ONLY_RULES], ids=["both", "only rules"])
@pytest.mark.parametrize("tables", [TABLES, TABLES[1:]], ids=["tables", "hidden"])
def test_a_record_that_a_rule_leaves_out_comes_and_goes(source, tables):
    """Replace-one is charged as add-or-remove, too, if a table shows the attributes of the rule or none does."""
    domain = fn.Domain({a: DOMAIN[a] for a in DOMAIN} | {"sex": fn.Categorical(["f", "m"])}).without(BOX)
    unit = fn.PrivacyUnit("person", neighbours=Neighbours.REPLACE_ONE)
    plan = fn.plan(fn.Workload(domain, tables), unit=unit, source=source)
    public = fn.KnownTotals((), "Register", "these data")
    refusing = fn.plan(fn.Workload(domain, tables), unit=unit, source=DataSource(), public=public)
    assert (plan.order.adjacency.drops, refusing.order.adjacency.drops) == (True, False)
    assert plan.publication.adjacency == plan.order.adjacency
    assert (plan.order.adjacency.fixes_size, refusing.order.adjacency.fixes_size) == (False, True)
    # The integers of one plan, charged for both relations.
    design = plan.table_part.design
    costs = [design.loss(x.order.adjacency).rho for x in (plan, refusing)]
    add_or_remove = design.loss(replace(plan.order, unit=fn.PrivacyUnit("person")).adjacency).rho
    assert costs[0] == max(costs[1], add_or_remove)
    assert any("charge as stated" in x for x in check(plan.to_json().encode(), plan.hash))
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash


def test_keys_of_persons_cover_the_rules_by_which_records_are_left_out():
    keys = [
        axis_key(domain.axes, "marital", source)
        for domain in (DOMAIN, RULED, DOMAIN.without(LEVELS).without(BOX), DOMAIN.without(BOX))
        for source in (DataSource(), ONLY_RULES)
    ]
    # DOMAIN drops values of sex itself. Rules that refuse leave out nothing, and their order changes nothing.
    assert keys[0] == keys[1] == keys[2] == keys[4] == keys[6]
    assert keys[3] == keys[5]
    assert len({keys[0], keys[3], keys[7]}) == 3


def test_free_tables_and_combinations_need_the_same_rules(rng, tmp_path):
    """Plans on the same records must leave out the same ones."""
    one = planned(ONLY_RULES)
    with refused("plan.free-of-another-source"):
        fn.plan_free(fn.Publication(fn.Workload(RULED, [fn.table("sex", margin=9)])), [one])
    frame = rows(rng, 200)
    right = frame[~np.any(by_rules(frame), axis=0)]
    releases = [released(planned(x), right) for x in (ONLY_RULES, DataSource())]
    with refused("release.different-records") as caught:
        fn.combine(*releases, same_records=True)
    assert "the rules by which records are left out" in caught.value.given


# --- specifications, and what people read ------------------------------------------------------------

SPEC = """
[data]
outside_domain = "{outside_domain}"
[domain]
age = {{ type = "binned", cuts = [15, 30] }}
marital = {{ type = "categorical", codes = ["single", "married", "widowed"] }}
[[impossible]]
age = {{ below = 15 }}
marital = ["married", "widowed"]
{rules}
[[tables]]
attributes = ["age", "marital"]
margin = 5
"""


@pytest.mark.parametrize(
    ("outside_domain", "rules", "drops"),
    [
        ("drop", "", True),
        ("refuse", "", False),
        ("refuse", '[rules]\noutside = "drop"', True),
        ("drop", '[rules]\noutside = "refuse"', False),
    ],
)
def test_a_specification_says_what_happens_outside_the_rules(outside_domain, rules, drops, tmp_path, rng):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC.format(outside_domain=outside_domain, rules=rules))
    publication = load_spec(path)
    assert publication.source.drops_by_rule == drops
    spec = Spec.from_publication(publication)
    assert Spec.from_toml(spec.to_toml()).publication() == publication
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).publication.source == publication.source
    sentences = [english(x) for x in counted_jointly(plan)]
    left_out = "records in an impossible combination of age, marital are left out of every table"
    assert (left_out in sentences) == drops
    assert any("are refused" in x for x in sentences) != drops
    frame = rows(rng, 100)[["age", "marital"]]
    excluded = int(((frame["age"] < 15) & (frame["marital"] != "single")).sum())
    if not drops:
        with refused("data.records-impossible"):
            fn.release(plan, frame, ledger=tmp_path / "l.db")
        return
    notices = []
    release = fn.release(plan, frame, ledger=tmp_path / "l.db", directory=tmp_path / "r", notice=notices.append)
    assert notices == [str(Dropped(100, excluded, {NAMES[0]: excluded}))]
    assert "rule 'impossible 1" not in "".join(
        x.read_text("utf-8") for x in (tmp_path / "r").rglob("*.*") if x.suffix in {".json", ".csv", ".html", ".md"}
    )
    impossible = (release["age by marital"]["age"] == "under 15") & (release["age by marital"]["marital"] != "single")
    assert (release["age by marital"].loc[impossible, ["value", "std_error"]] == 0).all(axis=None)
    assert all(x.holds for x in fn.verify(tmp_path / "r").checks if x.holds is not None)
    (table,) = plan.publication.workload.tables.parts
    assert "age × marital" in "".join(map(english, universe_messages(plan, table)))


def test_counts_made_elsewhere_leave_out_the_same_records(rng, tmp_path):
    frame, plan = rows(rng, 100), planned(ONLY_RULES)
    reports = []
    fn.count(plan, frame, tmp_path / "counts", unsealed=True, notice=reports.append)
    assert NAMES[0] in reports[0]
    assert fn.release(plan, tmp_path / "counts", ledger=tmp_path / "l.db").charge is not None
    for other in (planned(BOTH), planned(replace(BOTH, outside_domain=REFUSE))):
        with refused("data.counts-of-another-plan", "data.records-impossible"):
            fn.release(other, tmp_path / "counts", ledger=tmp_path / "l.db")


def test_a_share_of_impossible_records_can_stop_the_count(rng, tmp_path):
    frame = rows(rng, 100)
    fraction = np.any([*by_rules(frame), frame["sex"] == "x"], axis=0).mean()
    for limit, stops in ((float(fraction), False), (float(fraction) - 0.01, True)):
        plan = planned(replace(ONLY_RULES, max_dropped=limit))
        if not stops:
            fn.release(plan, frame, ledger=tmp_path / "l.db")
            continue
        with refused("data.too-many-dropped") as caught:
            fn.release(plan, frame, ledger=tmp_path / "l.db")
        assert NAMES[0] in caught.value.given


# --- what is published ------------------------------------------------------------


@pytest.mark.usefixtures("standing_still")
@pytest.mark.parametrize("unit", [fn.PrivacyUnit(), fn.PrivacyUnit("person", 2, id="person")], ids=["record", "person"])
def test_no_published_byte_depends_on_the_records_left_out(unit, rng, tmp_path, monkeypatch):
    """Any number of impossible records, of people with other records or of new ones, gives the same files."""
    frame, plan = rows(rng, 100), planned(ONLY_RULES, unit=unit)
    excluded = np.any(by_rules(frame), axis=0)
    extended = pd.concat([frame, *[frame[excluded]] * 5, frame[excluded].assign(person="new")])
    files, notices = [], []
    for i, data in enumerate((frame[~excluded], frame, extended)):
        monkeypatch.setattr(noise, "discrete_gaussians", Replay(seed=1).discrete_gaussians)
        folder = tmp_path / str(i) / "release"  # alone: a release next to those of another ledger has a notice
        folder.parent.mkdir()
        fn.release(plan, data, ledger=tmp_path / f"{i}.db", directory=folder, notice=notices.append)
        files.append({x.relative_to(folder).as_posix(): x.read_bytes() for x in folder.rglob("*") if x.is_file()})
    assert files[0] == files[1] == files[2]
    assert len(set(notices)) == 3
