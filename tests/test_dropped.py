"""Records that every table leaves out: the number by attribute, for the operator alone; and when counting stops."""

import json
import re
import sqlite3
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from engines import ENGINES
from fitnoise.engines import open_counter, sql
from fitnoise.interfaces.cli import main
from fitnoise.kernel.counting import Dropped
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.measure import measure
from fitnoise.kernel.units import DataSource, RecordBound
from fitnoise.planning.plan import Plan
from fitnoise.request.documents import Spec
from laws.counting import DROP, HistogramCounter
from records import Records
from refused import refused
from replayed_noise import Replay

DOMAIN = fn.Domain(x=fn.Ordered(0, 2), y=fn.Categorical(["u", "v"], if_missing="drop", if_outside="drop"))
ROWS = [(x, y, p) for x in (0, 1, 2, 9, -1) for y in ("u", "v", "w") for p in ("a", "b", "", "c")]
"""Records (x, y, person): of 60 records 24 are outside in x, 20 in y, 15 have no id."""


def counter_of(source, folder, columns, bound=None, domain=DOMAIN, **options):
    """A counter of such records in a source."""
    source_case = zoo.COUNTERS[source]
    full_domain = fn.Domain(**{a: domain[a] for a in domain}, p=fn.Categorical(["-"], column="p"))
    kinds = {a: "int64" if a == "x" else "string" for a in full_domain}
    data = source_case.make(Records(full_domain, dict(zip(full_domain, columns, strict=True)), kinds), folder)
    data_source = DataSource(table=source_case.table, outside_domain=DROP, **options)
    return open_counter(data, domain.axes, data_source, bound)


@pytest.fixture
def untried(one_engine, monkeypatch):
    """Engines that were tried elsewhere."""
    monkeypatch.setattr(sql, "refuse_unless_right", lambda *_, **__: None)
    monkeypatch.setattr(sql, "refuse_unless_bounded", lambda *_, **__: None)


# --- what is counted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_records", [1, 3, None])
@pytest.mark.parametrize("source", ["csv", "parquet", "arrow table", *ENGINES])
def test_records_without_an_id_are_dropped_and_those_above_a_bound_are_not(source, max_records, tmp_path, untried):
    """Each source reports the same records: all that meet the conditions, counted under the bound or not."""
    counter = counter_of(source, tmp_path, zip(*ROWS, strict=True), RecordBound("p", max_records))
    assert counter.dropped is None
    counter.count([("x",)])
    out = [(x not in (0, 1, 2), y == "w", p == "") for x, y, p in ROWS]
    assert counter.dropped == Dropped(60, sum(map(any, out)), {"x": 24, "y": 20}, 15)
    assert counter.dropped.detail == "'x' 24, 'y' 20, without an id 15"
    counter.count([])
    assert counter.dropped is None  # of the last count: nothing was read


@pytest.mark.parametrize("source", ["csv", "parquet", *ENGINES])
def test_nothing_is_reported_where_nothing_can_be_dropped(source, tmp_path, untried):
    """Also with conditions, by which records come and go: they are none that are dropped."""
    source_case = zoo.COUNTERS[source]
    domain = fn.Domain(x=fn.Ordered(0, 2))
    data = source_case.make(Records(domain, {"x": [0, 1, 2, 2]}, {"x": "int64"}), tmp_path)
    counter = open_counter(data, domain.axes, DataSource(table=source_case.table, where={"x": {"above": 0}}))
    counter.count([("x",)])
    assert counter.drops
    assert counter.dropped is None


def test_an_attribute_that_says_it_itself_drops_and_others_refuse(tmp_path):
    frame = pd.DataFrame({"x": [0, 1, 2, 2], "y": ["u", "w", "v", None], "p": "a"})
    counter = open_counter(frame, DOMAIN.axes, DataSource(), RecordBound("p", 1))
    counter.count([("x",)])
    assert counter.dropped == Dropped(4, 2, {"y": 2})
    with refused("data.records-outside-domain"):
        open_counter(frame.assign(x=[0, 1, 7, 2]), DOMAIN.axes, DataSource()).count([("x",)])


ONE_NUMBER = fn.Domain(
    x=fn.Ordered(0, 2),
    y=fn.Categorical(["u"]),
    z=fn.Hierarchy(["country", "town"], [("n", "a"), ("n", "b")]),
    sex=fn.Categorical(["f", "m"]),
)
"""Attributes all of whose values count in one number of some table: in one group, as one code, at the top."""

ONE_NUMBER_TABLES = [
    fn.table(groups={"x": {"all": [0, 2]}}, margin=3),
    fn.table("sex", "y", margin=3),
    fn.table("country", margin=3),
]

INSIDE = {"x": [0, 1, 2], "y": ["u", "u", "u"], "z": ["a", "b", "a"], "sex": ["f", "m", "m"]}
OUTSIDE = {"x": 9, "y": "w", "z": "c", "sex": "?"}


@cache
def one_number_order(privacy, outside):
    publication = fn.Publication(fn.Workload(ONE_NUMBER, ONE_NUMBER_TABLES), source=outside_is(outside))
    return fn.plan(replace(publication, privacy=privacy)).order


def outside_is(outside, table=None):
    return DataSource("people", table=table, outside_domain=outside)


def one_number_counter(source, folder, values, outside):
    source_case = zoo.COUNTERS[source]
    kinds = {a: "int64" if a == "x" else "string" for a in values}
    data = source_case.make(Records(ONE_NUMBER, values, kinds), folder)
    return open_counter(data, ONE_NUMBER.axes, outside_is(outside, source_case.table))


def with_one_outside(attribute):
    """Return the records of INSIDE, and one more that is outside in an attribute."""
    return {a: [*values, OUTSIDE[a] if a == attribute else values[0]] for a, values in INSIDE.items()}


def exact_answers(order, counter):
    with Ledger(":memory:") as ledger:
        answers = measure(order, counter, ledger, noise=Replay()).answers
    return [[np.asarray(y).tolist() for y in part] for part in answers]


@pytest.mark.no_cover
@pytest.mark.parametrize("attribute", OUTSIDE)
@pytest.mark.parametrize("source", ["csv", "parquet", "excel", "arrow table", "polars", "pandas objects", *ENGINES])
def test_a_record_outside_is_found_where_all_values_count_in_one_number(source, attribute, tmp_path, untried):
    """Each of these attributes is in a table, and no number depends on three of them."""
    values, refuse = with_one_outside(attribute), DataSource().outside_domain
    for privacy in ("zcdp", "pure"):
        inside = exact_answers(one_number_order(privacy, DROP), one_number_counter(source, tmp_path, INSIDE, DROP))
        order, counter = one_number_order(privacy, DROP), one_number_counter(source, tmp_path, values, DROP)
        assert exact_answers(order, counter) == inside
        assert counter.dropped == Dropped(4, 1, {attribute: 1})
        order, counter = one_number_order(privacy, refuse), one_number_counter(source, tmp_path, values, refuse)
        with refused("data.records-outside-domain") as caught:
            exact_answers(order, counter)
        assert f"'{attribute}'" in str(caught.value)
        assert exact_answers(order, one_number_counter(source, tmp_path, INSIDE, refuse)) == inside


@pytest.mark.parametrize("attribute", OUTSIDE)
def test_counts_made_elsewhere_find_a_record_outside_where_all_values_count_in_one_number(attribute, tmp_path):
    plan = fn.plan(fn.Workload(ONE_NUMBER, ONE_NUMBER_TABLES))
    with refused("data.records-outside-domain"):
        fn.count(plan, pd.DataFrame(with_one_outside(attribute)), tmp_path / "counts", unsealed=True)
    assert not (tmp_path / "counts").exists()
    fn.count(plan, pd.DataFrame(INSIDE), tmp_path / "counts", unsealed=True)
    assert len(fn.release(plan, tmp_path / "counts", ledger=tmp_path / "l.db")["country"]) == 1


@pytest.mark.parametrize("attribute", OUTSIDE)
def test_a_question_finds_a_record_outside_where_its_condition_names_all_values(attribute, tmp_path):
    data = pd.DataFrame(with_one_outside(attribute))
    values = {"x": [0, 2], "y": ["u"], "z": ["a", "b"], "sex": ["f", "m"]}
    question = fn.FiniteQuery.count("n", people=9, epsilon=1, where={attribute: values[attribute]})
    plan = fn.plan(fn.Publication(fn.Workload(ONE_NUMBER, []), questions=[question]))
    with refused("data.records-outside-domain"):
        fn.release(plan, data, ledger=tmp_path / "l.db")


def test_a_sum_finds_a_record_outside_an_attribute_of_one_value(tmp_path):
    domain = fn.Domain(y=fn.Categorical(["u"]), pay=fn.Amount(0, 100, step=10))
    plan = fn.plan(fn.Workload(domain, [fn.table("y", sum="pay", margin=300)]))
    with refused("data.records-outside-domain"):
        fn.release(plan, pd.DataFrame({"y": ["u", "w"], "pay": [10, 20]}), ledger=tmp_path / "l.db")


def test_a_series_finds_a_record_outside_an_attribute_of_one_value(tmp_path):
    domain = fn.Domain(month=fn.Categorical(["jan", "feb"]), y=fn.Categorical(["u"]))
    unit = fn.PrivacyUnit("person", 2, once_per=["month"])
    plan = fn.plan(fn.Workload(domain, [fn.table("month", "y", margin=3)]), unit=unit, series="month")
    drawing = {"ledger": tmp_path / "l.db", "series": tmp_path / "series", "period": "jan"}
    with refused("data.records-outside-domain"):
        fn.release(plan, pd.DataFrame({"month": ["jan", "jan"], "y": ["u", "w"]}), **drawing)
    assert len(fn.release(plan, pd.DataFrame({"month": ["jan", "jan"], "y": ["u", "u"]}), **drawing)) == 1


def test_an_attribute_that_no_table_shows_is_not_read(tmp_path):
    plan = fn.plan(fn.Workload(ONE_NUMBER, [fn.table("sex", margin=3)]))
    data = pd.DataFrame({"sex": ["f", "m"], "x": [9, 9], "y": ["w", "w"]})
    assert len(fn.release(plan, data, ledger=tmp_path / "l.db")["sex"]) == 2


def test_a_level_stands_for_its_attribute():
    domain = fn.Domain(place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]))
    counter = open_counter(pd.DataFrame({"place": ["a", "b", "q", "c"]}), domain.axes, DataSource(outside_domain=DROP))
    counter.count([("region",)])
    assert counter.dropped == Dropped(4, 1, {"place": 1})


def test_the_message_for_the_operator():
    assert str(Dropped(60_000, 1234, {"age": 1200, "sex": 40}, 5)) == (
        "1,234 of 60,000 records are left out of every table, outside the declared domain: by attribute or rule "
        "'age' 1,200, 'sex' 40, without an id 5. This is for you, and is not published."
    )
    assert str(Dropped(7, 0, {})) == (
        "0 of 7 records are left out of every table, outside the declared domain. "
        "This is for you, and is not published."
    )


@pytest.mark.parametrize(
    ("dropped", "fraction", "exceeds"), [(29, 0.29, False), (30, 0.29, True), (0, 0, False), (1, 0, True)]
)
def test_a_share_is_read_as_it_is_written(dropped, fraction, exceeds):
    """Detects 29 of 100 that are more than the double next to 0.29."""
    assert Fraction(0.29) < Fraction(29, 100)
    assert Dropped(100, dropped, {}).exceeds(fraction) == exceeds


# --- where it stops ---------------------------------------------------------------------------------------------------


def planned(max_dropped=None, domain=DOMAIN, **options):
    workload = fn.Workload(domain, [fn.table("x", margin=3)])
    return fn.plan(workload, source=DataSource("people", outside_domain=DROP, max_dropped=max_dropped), **options)


def people(outside, n=100):
    return pd.DataFrame({"x": [9] * outside + [1] * (n - outside), "y": "u"})


def test_above_the_share_nothing_is_counted_or_charged(tmp_path):
    plan = planned(0.29)
    reports = []
    with refused("data.too-many-dropped") as caught:
        fn.release(plan, people(30), ledger=tmp_path / "l.db", directory=tmp_path / "r", dropped=reports.append)
    assert str(caught.value).endswith("Nothing was measured and nothing was charged.")
    assert reports == []
    assert not (tmp_path / "r").exists()
    with Ledger(tmp_path / "l.db") as ledger:
        assert list(ledger.entries()) == []
    with refused("data.too-many-dropped"):
        fn.count(plan, people(30), tmp_path / "counts", unsealed=True)
    assert not (tmp_path / "counts").exists()
    fn.release(plan, people(29), ledger=tmp_path / "l.db", directory=tmp_path / "r", dropped=reports.append)
    assert reports == [Dropped(100, 29, {"x": 29})]


def test_a_publication_without_tables_reports_dropped_records_too(tmp_path):
    """A count of left-out persons is no table. The total is still counted, to report the number of dropped records."""
    question, reports = fn.FiniteQuery.left_out("beyond", people=100, epsilon=1), []
    data = people(30).assign(p=[str(i % 90) for i in range(100)])
    for max_dropped in (None, 0.3, 0.29):
        source = DataSource("people", outside_domain=DROP, max_dropped=max_dropped)
        unit = fn.PrivacyUnit("person", 1, id="p")
        plan = fn.plan(fn.Publication(fn.Workload(DOMAIN, []), unit, source, questions=[question]))
        if max_dropped == 0.29:
            with refused("data.too-many-dropped"):
                fn.release(plan, data, ledger=tmp_path / "l.db", dropped=reports.append)
            continue
        fn.release(plan, data, ledger=tmp_path / "l.db", dropped=reports.append)
        fn.count(plan, data, tmp_path / f"counts {max_dropped}", unsealed=True, notice=lambda x: reports.append(str(x)))
        fn.release(plan, tmp_path / f"counts {max_dropped}", ledger=tmp_path / "l.db", again=True)
    assert reports == [Dropped(100, 30, {"x": 30}), str(Dropped(100, 30, {"x": 30}))] * 2


def test_data_without_a_dropped_count_are_refused_where_a_limit_is_set(tmp_path):
    plan = planned(0.5)
    counts = HistogramCounter(np.ones(DOMAIN.shape, dtype=int), DOMAIN.axes, DataSource(outside_domain=DROP))
    with refused("data.dropped-unknown"):
        fn.release(plan, counts, ledger=tmp_path / "l.db")
    free = fn.Domain(x=fn.Ordered(0, 2))
    limited = fn.plan(fn.Workload(free, [fn.table("x", margin=3)]), source=DataSource("people", max_dropped=0.5))
    assert limited.publication.source.max_dropped == 0.5
    assert (
        len(fn.release(limited, np.ones(3, dtype=int), ledger=tmp_path / "l.db")["x"]) == 3
    )  # where nothing can be dropped


def test_sealed_counts_were_checked_for_dropped_records(tmp_path):
    plan, reports = planned(0.1), []
    fn.count(plan, people(7), tmp_path / "counts", unsealed=True, notice=reports.append)
    assert reports == [str(Dropped(100, 7, {"x": 7}))]
    assert fn.release(plan, tmp_path / "counts", ledger=tmp_path / "l.db", notice=reports.append).charge is not None
    assert len(reports) == 1  # a release from counts reports none of them
    with refused("data.counts-of-another-plan"):
        fn.release(planned(0.2), tmp_path / "counts", ledger=tmp_path / "l.db")


# --- receivers of the number ------------------------------------------------------------------------------------------

SPEC = """
[data]
source = "people"
outside_domain = "drop"
max_dropped = 0.75

[domain]
x = { type = "ordered", low = 0, high = 2 }

[[tables]]
attributes = ["x"]
margin = 3.0
"""


def ran(*arguments):
    try:
        main(list(arguments))
    except SystemExit as end:
        return end.code
    return 0


def test_the_operator_sees_the_number_and_no_file_holds_it(tmp_path, monkeypatch, capsys):
    """Detects the number anywhere in the release, in the ledger, or in what verify or the report say."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC)
    people(7919, 12_347).to_csv("people.csv", index=False)
    assert ran("plan", "spec.toml", "-o", "plan.json") == 0
    capsys.readouterr()
    assert ran("count", "plan.json", "people.csv", "--unsealed", "-o", "counts", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["dropped"] == {
        "records": 12_347, "dropped": 7919, "attributes": {"x": 7919}, "without_id": 0,
    }  # fmt: skip
    assert "7,919" not in captured.err  # events are often stored
    assert ran("count", "plan.json", "people.csv", "--unsealed", "-o", "counted") == 0
    assert "7,919 of 12,347 records are left out of every table" in capsys.readouterr().err
    released = ("release", "plan.json", "people.csv", "--ledger", "l.db", "-o", "r")
    assert ran(*released, "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["dropped"]["dropped"] == 7919
    assert not re.search("7,?919|12,?347", captured.err)
    assert ran("release", "plan.json", "people.csv", "--ledger", "m.db", "-o", "s") == 0
    captured = capsys.readouterr()
    assert "7,919 of 12,347 records" in captured.err
    assert "7,919" not in captured.out
    paths = [*(tmp_path / "r").rglob("*"), tmp_path / "l.db", tmp_path / "plan.json"]
    for number in (
        b"7919",
        b"7,919",
        b"12347",
        b"12,347",
        (7919).to_bytes(4, "little"),
        (12_347).to_bytes(4, "little"),
    ):
        assert not [p.name for p in paths if p.is_file() and p.suffix != ".parquet" and number in p.read_bytes()]
    with sqlite3.connect(tmp_path / "l.db") as db:
        assert "7919" not in "".join(db.iterdump())


def test_dropped_records_are_reported_when_the_release_is_in_place(tmp_path):
    """The receiver may fail: then nothing is lost."""

    def fail(_):
        assert (tmp_path / "r" / "release.json").exists()
        raise BlockingIOError

    with pytest.raises(BlockingIOError):
        fn.release(planned(), people(1), ledger=tmp_path / "l.db", directory=tmp_path / "r", notice=fail)
    assert fn.verify(tmp_path / "r").ok


def test_a_share_is_part_of_the_plan():
    plan, other = planned(0.25), planned()
    assert plan.hash != other.hash
    parsed = Plan.from_json(plan.to_json())
    assert parsed.publication.source.max_dropped == 0.25
    assert Spec.from_toml(SPEC).publication().source.max_dropped == 0.75
    for wrong in (1.5, -0.1, "0.1", True, float("nan")):
        with refused("spec.max-dropped-invalid"):
            DataSource(max_dropped=wrong)
