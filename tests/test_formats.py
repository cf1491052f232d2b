"""Declared forms of texts: numbers, dates and texts in other forms have the cells of what they say, in every source."""

# ruff: noqa: DTZ001 - local times, and written dates

import contextlib
import functools
import io
import sqlite3
from collections import Counter as Tally
from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import fitnoise as fn
from engines import ENGINES
from fitnoise.engines import engine_check, open_counter, sql
from fitnoise.engines.databases import database
from fitnoise.engines.dialects import DIALECTS, POSTGRESQL, SPARK
from fitnoise.kernel import formats
from fitnoise.kernel.codings import number
from fitnoise.kernel.domain import axis_key, cell_key
from fitnoise.kernel.formats import FORMATTED_TEXTS, TextReader, column_reader, forms_met, known_texts, zone_named
from fitnoise.kernel.immutable import changeable
from fitnoise.kernel.order import account
from records import Records
from refused import SECRET, refused

GERMAN = fn.Format(decimal=",", thousands=".")


def numbers(form):
    return TextReader(form, numbers=True, dates=False)


def dates(form):
    return TextReader(form, numbers=False, dates=True)


# --- the definition -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        (GERMAN, "1.234,5", "1234.5"),
        (GERMAN, "1234,5", "1234.5"),
        (GERMAN, " -1.234.567,25\t", "-1234567.25"),
        (GERMAN, ",5", ".5"),
        (GERMAN, "+5,e3", "+5.e3"),
        (GERMAN, "1.23", "?1.23"),  # no group of three digits
        (GERMAN, "1234.567", "?1234.567"),
        (GERMAN, "1.234.56", "1.234.56"),
        (GERMAN, "0.001", "0001"),
        (GERMAN, "", ""),
        (GERMAN, "NA", "NA"),
        (GERMAN, "1,234.5", "1,234.5"),
        (fn.Format(decimal=","), "12,5", "12.5"),
        (fn.Format(decimal=","), "12.5", "?12.5"),
        (fn.Format(decimal=","), "12", "12"),
        (fn.Format(thousands=","), "100,000.00", "100000.00"),
        (fn.Format(thousands="'"), "1'234", "1234"),
        (fn.Format(thousands=" "), "1 234", "1234"),
        (fn.Format(thousands=" "), "1\xa0234", "1\xa0234"),
        (fn.Format(thousands=" ", normalise=True), "1\u202f234\xa0567", "1234567"),
        (fn.Format(thousands="\u202f", normalise=True), "1\u202f234", "1234"),
        (fn.Format(decimal=".", lookup={"85+": 85, "none": ""}), "85+", "85"),
        (fn.Format(lookup={"85+": 85, "none": ""}), "none", ""),
        (fn.Format(lookup={"1.5": "x"}, decimal=","), "1.5", "x"),
    ],
)
def test_numbers_are_read_in_their_declared_form(form, text, read):
    formats.number_pattern.cache_clear()  # an untraced test may have made the pattern
    assert numbers(form)(text) == read


VIENNA = fn.Format(zone="Europe/Vienna")


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        (fn.Format(date="%d.%m.%Y"), "31.12.2020", "2020-12-31"),
        (fn.Format(date="%d.%m.%Y"), " 1.2.2020 ", "2020-02-01"),
        (fn.Format(date="%d.%m.%Y"), "30.02.2020", "30.02.2020"),
        (fn.Format(date="%d.%m.%Y"), "2020-12-31", "?2020-12-31"),
        (fn.Format(date="%d.%m.%Y"), "31.12.20", "31.12.20"),
        (fn.Format(date="%d.%m.%y"), "31.12.20", "2020-12-31"),
        (fn.Format(date="%d.%m.%y"), "31.12.69", "1969-12-31"),
        (fn.Format(date="%d.%m.%y"), "31.12.68", "2068-12-31"),
        (fn.Format(date="%d/%m/%Y"), "04/07/2020", "2020-07-04"),
        (fn.Format(date="%m/%d/%Y"), "04/07/2020", "2020-04-07"),
        (fn.Format(date="%Y-%m-%d"), "2020-3-4", "2020-03-04"),
        (fn.Format(date="%Y%m%d"), "20200304", "2020-03-04"),
        (fn.Format(date="%Y%m%d"), "2020304", "2020304"),
        (fn.Format(date="%d.%m.%Y %H:%M"), "1.2.2020 7:05", "2020-02-01 07:05:00"),
        (fn.Format(date="%d.%m.%Y %H:%M"), "1.2.2020 24:00", "1.2.2020 24:00"),
        (fn.Format(date="%Y%%%m%%%d"), "2020%03%04", "2020-03-04"),
        (fn.Format(date="%Y-%m-%d %H:%M:%S.%f"), "2020-01-01 00:00:00.25", "2020-01-01 00:00:00.25"),
        (fn.Format(date="%Y-%m-%dT%H:%M%z", zone="UTC"), "2020-01-01T00:30+0100", "2019-12-31 23:30:00"),
        (fn.Format(zone="UTC"), "2020-03-04T10:11:12Z", "2020-03-04 10:11:12"),
        (fn.Format(zone="UTC"), "2020-03-04 10:11-00:30", "2020-03-04 10:41:00"),
        (fn.Format(zone="UTC"), "2020-03-04 10:11+00:60", "2020-03-04 10:11+00:60"),
        (fn.Format(zone="UTC"), "2020-03-04 10:11+24", "2020-03-04 10:11+24"),
        (fn.Format(zone="UTC"), "2020-03-04", "2020-03-04"),
        (fn.Format(zone="UTC"), "0001-01-01 00:00+14", "0001-01-01 00:00+14"),
        (VIENNA, "2020-03-04T23:30:00.123456789Z", "2020-03-05 00:30:00.123456789"),
        (VIENNA, "2020-03-29 02:30:00", "?2020-03-29 02:30:00"),  # clocks go from 2 to 3
        (VIENNA, "2020-03-29 01:30:00Z", "2020-03-29 03:30:00"),
        (VIENNA, "2020-10-25 02:30", "2020-10-25 02:30:00"),  # there are two such hours, and both have these parts
        (VIENNA, "2020-10-25 01:30Z", "2020-10-25 02:30:00"),
        (VIENNA, "tomorrow", "tomorrow"),
    ],
)
def test_dates_are_read_in_their_declared_form(form, text, read):
    assert dates(form)(text) == read


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        (fn.Format(strip=True), " Bonn\xa0", "Bonn"),
        (fn.Format(strip=True), "\ufeffBonn\u200b", "Bonn"),
        (fn.Format(strip=True), "Ko\u0308ln", "Ko\u0308ln"),
        (fn.Format(normalise=True), "Ko\u0308ln\u200b", "K\xf6ln"),
        (fn.Format(normalise=True), "New\xa0York", "New York"),
        (fn.Format(normalise=True), "\ufb01n", "\ufb01n"),  # NFC keeps the ligature that NFKC splits
        (fn.Format(normalise=True), "\xa0", ""),
        (fn.Format(decimal=",", date="%d.%m.%Y"), "1,5", "1,5"),  # nothing reads numbers or dates here
    ],
)
def test_texts_are_read_in_their_declared_form(form, text, read):
    assert TextReader(form, numbers=False, dates=False)(text) == read


def test_values_that_are_no_texts_stay_as_they_are():
    read = numbers(GERMAN)
    assert [read.value(x) for x in (1.5, None, True, date(2020, 1, 1), "1,5")] == [
        1.5,
        None,
        True,
        date(2020, 1, 1),
        "1.5",
    ]


@given(st.decimals(-(10**9), 10**9, places=3), st.sampled_from([".,", ",.", "' ", " ,", "\u202f,", ",."]))
def test_a_number_that_python_groups_is_read_back(x, marks):
    thousands, decimal = marks[0], "." if marks[1] == " " else marks[1]
    text = f"{x:,}".translate({ord(","): thousands, ord("."): decimal})
    assert number(numbers(fn.Format(decimal=decimal, thousands=thousands))(text)) == float(x)


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.sampled_from(["%d.%m.%Y %H:%M:%S", "%Y%m%d%H%M%S", "%m/%d/%Y %H:%M:%S.%f"]),
)
def test_a_date_that_python_writes_is_read_back(moment, form):
    text = moment.strftime(form.replace("%Y", f"{moment.year:04}"))  # which writes early years with fewer digits
    read = dates(fn.Format(date=form))(text)
    assert datetime.fromisoformat(read[:26]) == (moment if "%f" in form else moment.replace(microsecond=0))


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2030, 1, 1)),
    st.integers(-840, 840),
    st.sampled_from(["Europe/Vienna", "America/St_Johns", "Australia/Lord_Howe"]),
)
def test_an_instant_is_read_as_the_local_time_of_its_zone(moment, minutes, zone):
    moment = moment.replace(microsecond=0)
    sign, rest = "-" if minutes < 0 else "+", abs(minutes)
    read = dates(fn.Format(zone=zone))(f"{moment.isoformat()}{sign}{rest // 60:02}:{rest % 60:02}")
    instant = np.datetime64(moment) - np.timedelta64(minutes, "m")
    there = datetime.fromisoformat(str(instant)).replace(tzinfo=UTC).astimezone(zone_named(zone))
    assert read == there.replace(tzinfo=None).isoformat(" ")


@pytest.mark.parametrize(
    ("form", "read", "unread"),
    [
        (GERMAN, {"1.234.567,25": "1234567.25", "-12,5": "-12.5"}, {"1.234.567,25x", "\u0663-12,5", "1.23"}),
        (fn.Format(lookup={"85+": 85}), {"85+": "85"}, {"85+\u200b", "85+\n", "85+x"}),
        (fn.Format(date="%d.%m.%y"), {"29.02.24": "2024-02-29", "1.1.01": "2001-01-01"}, {"29.02.23", "00.01.24"}),
        (fn.Format(date="%d.%m.%Y %H:%M%z", zone="UTC"), {"29.02.2024 23:59Z": "2024-02-29 23:59:00"}, {"2023-02-29"}),
        (VIENNA, {"2020-03-29 01:59:59": "2020-03-29 01:59:59"}, {"2020-03-29 02:00:00"}),
    ],
)
def test_engines_are_tried_with_texts_in_the_form_and_nearly_in_it(form, read, unread):
    reader = TextReader(form, numbers=True, dates=True)
    tried = set(formats.known_texts(reader))
    assert {x: reader(x) for x in read} == read
    assert all(reader(x) in (x, f"?{x}") for x in unread)
    assert {*FORMATTED_TEXTS, *formats.DATED_TEXTS, *read, *unread} <= tried
    assert len(tried) < 2000


# --- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "key"),
    [
        ({"decimal": ";"}, "decimal"),
        ({"decimal": ".,"}, "decimal"),
        ({"decimal": 5}, "decimal"),
        ({"thousands": "x"}, "thousands"),
        ({"thousands": "."}, "thousands"),
        ({"thousands": ",", "decimal": ","}, "thousands"),
        ({"normalise": "yes"}, "normalise"),
        ({"strip": "yes"}, "strip"),
        ({"zone": "Europe/Atlantis"}, "zone"),
        ({"zone": 1}, "zone"),
        ({"zone": "../UTC"}, "zone"),
        ({"date": "%d.%m"}, "date"),
        ({"date": "%d.%m.%Y %y"}, "date"),
        ({"date": "%d.%d.%m.%Y"}, "date"),
        ({"date": "%d.%m.%Y %M"}, "date"),
        ({"date": "%d. %b %Y"}, "date"),
        ({"date": "%d.%m.%Y %"}, "date"),
        ({"date": "%d.%m.%Y %H %z"}, "date"),
        ({"date": 20200101}, "date"),
        ({"lookup": {"": 1}}, "lookup"),
        ({"lookup": {"a": True}}, "lookup"),
        ({"lookup": {"a": [1]}}, "lookup"),
        ({"lookup": {1: "a"}}, "lookup"),
        ({"lookup": 5}, "lookup"),
        ({"lookup": "ab"}, "lookup"),
        ({"lookup": {" a": 1}, "strip": True}, "lookup"),
        ({"lookup": {"Ko\u0308ln": "K"}, "normalise": True}, "lookup"),
        ({"columns": {"": fn.Format()}}, "columns"),
        ({"columns": {5: fn.Format()}}, "columns"),
        ({"columns": {"x": {"decimal": ","}}}, "columns"),
        ({"columns": {"x": fn.Format(columns={"y": fn.Format()})}}, "columns"),
        ({"thousands": ",", "columns": {"x": fn.Format(decimal=",")}}, "columns.x.thousands"),
        ({"columns": {"x": fn.Format(lookup={" a": 1})}, "strip": True}, "columns.x.lookup"),
    ],
)
def test_a_format_in_which_nothing_can_be_read_is_refused(stated, key):
    with refused("spec.format-invalid", key=key):
        fn.Format(**stated)


def test_a_format_of_a_column_replaces_what_the_source_states():
    form = fn.Format(
        decimal=",", strip=True, columns={"x": fn.Format(decimal=".", lookup={"a": 1}), "y": fn.Format(lookup={})}
    )
    assert form.in_column("x") == fn.Format(decimal=".", strip=True, lookup={"a": "1"})
    assert form.in_column("z") == fn.Format(decimal=",", strip=True)
    assert form.document == {
        "decimal": ",",
        "strip": True,
        "columns": {"x": {"decimal": ".", "lookup": {"a": "1"}}, "y": {"lookup": {}}},
    }
    assert form.key("z") == [{"decimal": ",", "strip": True}]
    assert fn.Format(columns={"x": GERMAN}).key("z") == []
    assert fn.Format(columns=(("x", GERMAN),)) == fn.Format(columns={"x": GERMAN})
    assert hash(form) == hash(replace(form))
    assert changeable(form) is None


DOMAIN = fn.Domain(
    pay=fn.Binned([0, 10, 12.5, 1000]),
    paid=fn.Amount(0, 2000, step=1, column="pay"),
    age=fn.Ordered(0, 85, missing={"unknown": ["NA"]}, if_missing="unknown"),
    year=fn.Ordered(1969, 2021, column="born", date_part="year"),
    hour=fn.Ordered(0, 23, column="born", date_part="hour", missing={"none": []}, if_outside="none", if_missing="none"),
    city=fn.Categorical(["K\xf6ln", "Bonn", "Ko\u0308ln", "1.5"]),
)


def test_only_what_a_column_is_read_as_is_read_in_its_form():
    source = fn.DataSource(
        format=replace(GERMAN, date="%d.%m.%Y"), where={"day": {"at_least": date(2020, 1, 1)}, "n": {"above": 5}}
    )
    readers = {c: column_reader(DOMAIN.axes, source, c) for c in ("pay", "age", "born", "city", "day", "n", "other")}
    assert {c: r and (r.numbers, r.dates) for c, r in readers.items()} == {
        "pay": (True, False),
        "age": (True, False),
        "born": (False, True),
        "city": None,
        "day": (False, True),
        "n": (True, False),
        "other": None,
    }
    assert column_reader(DOMAIN.axes, fn.DataSource(), "pay") is None


def publication(form, domain=DOMAIN, where=()):
    return fn.Publication(
        fn.Workload(domain, [fn.table("year", margin=10)]), source=fn.DataSource(format=form, where=dict(where))
    )


FORM = fn.Format(
    decimal=",",
    thousands=".",
    zone="Europe/Vienna",
    date="%d.%m.%Y %H:%M",
    strip=False,
    columns={"age": fn.Format(lookup={"85+": 85, "x": 1.5}), "city": fn.Format(strip=True)},
)


def test_a_specification_states_the_format():
    stated = publication(FORM)
    spec = fn.Spec.from_publication(stated)
    assert spec.publication() == stated
    assert fn.Spec.from_toml(spec.to_toml()).publication() == stated
    assert stated.source.format.in_column("age").pairs == (("85+", "85"), ("x", "1.5"))
    assert fn.Spec.from_publication(publication(None)).publication().source.format is None
    text = spec.to_toml().replace('zone = "Europe/Vienna"', 'zone = "Europa/Wien"')
    with refused("spec.format-invalid", key="data.zone"):
        fn.Spec.from_toml(text).publication()
    text = spec.to_toml().replace("[data.columns.city]", '[data.columns.age]\nthousands = ","\n[data.columns.city]', 1)
    with refused("spec.format-invalid", "spec.invalid-toml", "spec.not-toml"):
        fn.Spec.from_toml(text).publication()


@pytest.mark.parametrize(
    ("form", "code", "key"),
    [
        (fn.Format(), "spec.format-states-nothing", "data"),
        ({"decimal": ","}, "spec.format-states-nothing", "data"),
        (fn.Format(columns={"nobody": GERMAN}), "spec.format-column-not-read", "data.columns.nobody"),
        (fn.Format(columns={"born": GERMAN}), "spec.format-column-not-read", "data.columns.born"),
        (fn.Format(columns={"pay": fn.Format(date="%d.%m.%Y")}), "spec.format-column-not-read", "data.columns.pay"),
        (fn.Format(normalise=True), "spec.code-not-in-format", "domain.city"),
    ],
)
def test_a_format_that_changes_nothing_or_loses_a_code_is_refused(form, code, key):
    with refused(code, key=key):
        publication(form)


def test_a_key_covers_the_format_of_its_column():
    """Accounts and profiles rely on keys: other readings of one column have other cells."""
    axes, without = DOMAIN.axes, fn.DataSource()
    german, american = (
        fn.DataSource(format=fn.Format(columns={"born": fn.Format(date=x)})) for x in ("%d.%m.%Y", "%m.%d.%Y")
    )
    for name in ("year", "hour"):
        keys = {axis_key(axes, name, s, left_out=False) for s in (without, german, american)}
        assert len(keys) == 3
        assert axis_key(axes, name) in keys
    assert cell_key(axes, "pay", german) == cell_key(axes, "pay", american) == cell_key(axes, "pay")
    where = {"born": {"at_least": date(2020, 1, 1)}}
    conditions = [replace(s, where=where) for s in (without, german, american)]
    assert len({cell_key(axes, "pay", s) for s in conditions}) == 3
    assert len({cell_key(axes, "pay", s, left_out=False) for s in conditions}) == 1
    unit = fn.PrivacyUnit("person", 3, once_per=("year",))
    accounts = [account(replace(s, account="all"), unit, axes) for s in (without, german, american)]
    assert len(set(accounts)) == 3
    assert len({fn.plan(publication(fn.Format(date=x))).hash for x in ("%d.%m.%Y", "%m.%d.%Y")}) == 2


# --- every source -----------------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.sampled_from([*FORMATTED_TEXTS, "", " ", "NA", "1.5", "12,5", "85", "1000", "1.000", "K\xf6ln", SECRET]),
    st.from_regex(r"\A[+-]?[0-9]{1,3}([.,' \xa0]?[0-9]{3}){0,2}([.,][0-9]{0,3})?\Z"),
    st.from_regex(r"\A[0-3]?[0-9][./-][01]?[0-9][./-](19|20)?[0-9]{2}( [0-2]?[0-9]:[0-5][0-9])?\Z"),
    st.datetimes(datetime(1969, 1, 1), datetime(2021, 12, 31)).map(lambda x: x.isoformat(" ", "seconds")),
)  # fmt: skip

FORMATS = st.builds(
    lambda marks, form, zone, blanks, lookup: fn.Format(*marks, form, zone, *blanks, lookup),
    st.sampled_from([(None, None), (",", None), (",", "."), (None, ","), (",", " "), (None, "'"), (",", "\xa0")]),
    st.sampled_from([None, "%d.%m.%Y", "%m/%d/%Y", "%d.%m.%y", "%Y-%m-%d %H:%M:%S"]),
    st.sampled_from([None, "UTC", "Europe/Vienna"]),
    st.sampled_from([(None, None), (True, None), (None, True), (False, True)]),
    st.sampled_from([None, {"85+": 85}, {"?1.5": "Bonn", "NA": ""}]),
)

COLUMNS = ("pay", "age", "born", "city")


def counted(data, domain, source):
    names = [name for name in domain if name != "paid"]
    counts = open_counter(data, domain.axes, replace(source, table="people")).count([(a,) for a in names])
    return {a: {i: n for i, n in enumerate(counts[a,].tolist()) if n} for a in names}


def every_source(records, folder):
    columns = {c: [r[c] for r in records] for c in COLUMNS}
    out = io.StringIO()
    frame = pd.DataFrame(columns, dtype=object)
    frame.to_csv(out, index=False, lineterminator="\n")
    path = folder / "people.csv"
    path.write_text(out.getvalue(), encoding="utf-8")
    lite = folder / "people.sqlite"
    lite.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(lite)) as db:
        db.execute("CREATE TABLE people (pay TEXT, age, born DATE, city TEXT COLLATE NOCASE)")
        db.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", list(zip(*columns.values(), strict=True)))
        db.commit()
    table = pa.table({c: pa.array(x, pa.string()) for c, x in columns.items()})
    return {
        "csv": path,
        "sqlite": lite,
        "pandas objects": frame,
        "pandas": frame.astype("string"),
        "pandas categories": frame.astype("category"),
        "arrow": table,
        "polars": pl.DataFrame(columns, schema=dict.fromkeys(COLUMNS, pl.String)),
    }


@pytest.mark.no_cover
@settings(max_examples=40, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, TEXTS)), min_size=1, max_size=12), FORMATS)
def test_every_source_has_the_cells_of_the_definition(tmp_path_factory, records, form):
    source = fn.DataSource(format=form if form.document else fn.Format(decimal="."), outside_domain="drop")
    folder, domain = tmp_path_factory.mktemp("formats"), DOMAIN
    axes = domain.axes
    readers = {c: column_reader(axes, source, c) for c in COLUMNS}
    inside = []
    for r in records:
        read = {c: r[c] if readers[c] is None else readers[c].value(r[c]) for c in COLUMNS}
        cells = axes.cells(read)
        if None not in cells.values():
            inside.append(cells)
    expected = {a: dict(Tally(c[a] for c in inside)) for a in domain if a != "paid"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "refuse_unless_right", lambda *_, **__: None)  # other tests try the engine
        for name, data in every_source(records, folder).items():
            assert counted(data, domain, source) == expected, name


@pytest.mark.no_cover
def test_conditions_are_met_by_what_is_read(tmp_path):
    rows = [("1.234,5", "31.12.2020", "84", "Bonn"), ("2,5", "1.1.2021", "85+", "Bonn"), ("5", "2.1.2021", "3", "Bonn")]
    records = [dict(zip(("pay", "born", "age", "city"), r, strict=True)) for r in rows]
    domain = fn.Domain(age=fn.Ordered(0, 85))
    form = replace(GERMAN, date="%d.%m.%Y", lookup={"85+": 85})
    for where, ages in (
        ({"pay": {"above": 4}}, [3, 84]),
        ({"born": {"at_least": date(2021, 1, 1)}}, [3, 85]),
        ({"pay": {"values": [5]}, "city": "Bonn"}, [3]),
    ):
        source = fn.DataSource(table="people", format=form, where=where)
        for name, data in every_source(records, tmp_path).items():
            counts = open_counter(data, domain.axes, source).count([("age",)])["age",]
            assert np.flatnonzero(counts).tolist() == ages, (name, where)


@pytest.mark.no_cover
def test_texts_among_python_objects_are_read_and_numbers_stay():
    frame = pd.DataFrame(
        {"pay": ["1,5", 1.5, None, "1.5"], "born": [date(2020, 1, 1), "1.1.2020", "2020-01-01", None]}, dtype=object
    )
    domain = fn.Domain(
        pay=fn.Binned([0, 1, 2], missing={"no": []}, if_outside="no", if_missing="no"),
        year=fn.Ordered(
            2020, 2020, column="born", date_part="year", missing={"no": []}, if_outside="no", if_missing="no"
        ),
    )
    counts = open_counter(frame, domain.axes, fn.DataSource(format=fn.Format(decimal=",", date="%d.%m.%Y"))).count(
        [("pay",), ("year",)]
    )
    assert counts["pay",].tolist() == [0, 0, 2, 0, 2]
    assert counts["year",].tolist() == [2, 2]


@pytest.mark.no_cover
def test_columns_of_types_are_not_changed_by_a_format():
    table = pa.table({"pay": [1.5, 1000.0], "born": [date(2020, 1, 1), date(2021, 1, 1)]})
    domain = fn.Domain(pay=fn.Binned([10]), year=fn.Ordered(2020, 2021, column="born", date_part="year"))
    source = fn.DataSource(format=replace(GERMAN, date="%d.%m.%Y", zone="UTC", normalise=True))
    assert open_counter(table, domain.axes, source).count([("pay", "year")])["pay", "year"].tolist() == [[1, 0], [0, 1]]


FORMS = (
    None,
    GERMAN,
    fn.Format(decimal=","),
    fn.Format(thousands="\u202f", normalise=True),
    fn.Format(thousands="'", strip=True),
    fn.Format(strip=True),
    fn.Format(normalise=True),
    fn.Format(lookup={"85+": 85, "?1.5": "Bonn", "NA": "", "x": "1.5"}, decimal=","),
    fn.Format(date="%d.%m.%Y"),
    fn.Format(date="%m/%d/%y", strip=True),
    fn.Format(date="%Y%m%d%H%M%S"),
    fn.Format(date="%d.%m.%Y %H:%M:%S.%f", decimal=",", thousands=" "),
    fn.Format(zone="Europe/Vienna"),
    fn.Format(date="%d.%m.%Y %H:%M%z", zone="America/St_Johns"),
)

HOSTILE = (
    "1.234,5",
    "1.23,5",
    "31.02.2020",
    "\u0663",
    "1\u0662",
    "+1",
    "1e3",
    "",
    " ",
    "12\n",
    "\n12",
    "12\r\n",
    "12\xa0",
    "\xa012",
    "1.2\n",
    "31.12.2020\n",
    "31.12.2020 x",
    "2020-12-31\n",
    "2020-12-31 ",
    "1" * 400,
    "0" * 5000 + "12",
    "0." + "0" * 500,
    "1" + "0" * 300 + "e-299",
    "1." + "0" * 20000 + "1",
    "1" + "0" * 140000 + "e-140000",
    "1e99999999999",
    "1e-99999999999",
    "0e99999999999",
    "-1e-400",
    "9007199254740993",
    "12.4999999999999999",
    "12.49999999999999999999",
    "1.7976931348623159e308",
    "85",
    "85.0",
    "85.5",
    "-85",
    "NA",
    " NA",
    "Infinity",
    "NaN",
    "0x10",
    "1_000",
    "7f",
    "'",
    "\\",
    "2020-02-30",
    "2021-02-29",
    "2000-02-29 00:00",
    "1969-01-01T23:59",
    "2020-01-01 24:00",
    "K\xf6ln",
    "Bonn",
    "Ko\u0308ln",
    "\ufeffBonn",
    "1.5",
    "?1.5",
)


def with_missing(kind, *arguments, gone=(), other=(), **options):
    """An attribute with a cell for absent values, and one for all others without a cell."""
    missing = {"gone": list(gone), "other": list(other)}
    return kind(*arguments, missing=missing, if_missing="gone", if_outside="other", **options)


OF_TEXTS = fn.Domain(
    pay=with_missing(fn.Binned, [0, 10, 12.5, 1000, 1e300], gone=["NA"]),
    paid=with_missing(fn.Amount, 0, 2000, step=1, column="pay", gone=["x"]),
    age=with_missing(fn.Ordered, 0, 85, gone=["NA", "x"], other=[99]),
    code=with_missing(fn.Categorical, [1, 12, 85], column="age", gone=["NA", "'"]),
    year=with_missing(fn.Ordered, 1, 9999, column="born", date_part="year"),
    day=with_missing(fn.Ordered, 1, 7, column="born", date_part="weekday"),
    hour=with_missing(fn.Ordered, 0, 23, column="born", date_part="hour"),
    grown=with_missing(fn.Ordered, 0, 120, column="born", date_part={"age_on": "2024-02-29"}),
    city=with_missing(
        fn.Categorical, ["K\xf6ln", "Bonn", "Ko\u0308ln", "1.5", "12.5", "12.5 ", "2020-12-31"], other=["NA"]
    ),
)


def texts_tried():
    forms_used = [form for form in FORMS if form is not None and form.zone is None]
    in_forms = [x for form in forms_used for x in known_texts(TextReader(form, numbers=True, dates=True))]
    return [*dict.fromkeys((*HOSTILE, *in_forms)), None]


@functools.cache
def table_of_texts(name):
    """The texts in four columns of a table, in the engine of this name, and their number."""
    texts = texts_tried()
    columns = {"n": list(range(len(texts))), **dict.fromkeys(COLUMNS, texts)}
    domain = fn.Domain({c: fn.Ordered(0, 1) for c in columns})
    kinds = {"n": "int64", **dict.fromkeys(COLUMNS, "string")}
    return ENGINES[name].make(Records(domain, columns, kinds), None), texts


@pytest.mark.no_cover
@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param(name, form, id=f"{name} {form and form.document}")
        for name in sorted({*ENGINES} - {"sqlite"})
        for form in FORMS
        if {**DIALECTS, "spark": SPARK}[name].reads(form or fn.Format())
    ],
)
def test_every_text_in_a_database_has_the_cell_of_the_definition(name, form):
    data, texts = table_of_texts(name)
    axes = fn.Domain({"n": fn.Ordered(0, len(texts) - 1), **{a: OF_TEXTS[a] for a in OF_TEXTS}}).axes
    source = fn.DataSource(table="people", format=form)
    expected = {a: np.full(len(texts), -9) for a in OF_TEXTS}
    for i, text in enumerate(texts):
        readers = {c: column_reader(axes, source, c) for c in COLUMNS}
        record = {c: text if r is None else r.value(text) for c, r in readers.items()} | {"n": i}
        for a, cell in axes.cells(record).items():
            if a != "n":
                expected[a][i] = cell
    counts = open_counter(data, axes, source).count([("n", a) for a in OF_TEXTS])
    for a in OF_TEXTS:
        table = counts["n", a]
        if a == "paid":  # an amount is counted by its steps
            frame = pa.table({"n": range(len(texts)), "pay": pa.array(texts, pa.string())})
            in_frame = open_counter(frame, axes, source).count([("n", "paid")])["n", "paid"]
            assert [texts[i] for i in np.flatnonzero((table != in_frame).any(axis=1))] == []
        else:
            cells = [None if row.sum() != 1 else row.argmax() for row in table]
            assert [(x, *c) for x, *c in zip(texts, cells, expected[a], strict=True) if c[0] != c[1]] == [], a


EVERYTHING = fn.Format(
    date="%d.%m.%Y %H:%M%z", zone="Europe/Vienna", decimal=",", thousands=".", normalise=True, lookup={"none": 0}
)

FAULTS = {
    "end": "",  # a text that begins as a number
    "matches": "{c} ~* {p} AND {c} <> '1.23'",
    "group": r"regexp_replace({c}, {p}, '0\\1')",
    "stripped": "ltrim({c}, {a})",
    "mapped": "{c}",
    "composed": "{c}",
    "moment": "make_timestamp(CAST({y} AS int), CAST({m} AS int), CAST({d} AS int), CAST({h} AS int), 0, {s})",
    "later": "{x} - {n} * interval '1 minute'",
    "to_utc": "{x} - interval '1 hour'",
    "from_utc": "{x} + interval '2 hours'",
    "formatted": "to_char({x}, 'YYYY-MM-DD HH12:MI:SS')",
    "raw": 'CAST(lower({c}) AS TEXT) COLLATE "C"',
}


@pytest.fixture
def postgresql_session():
    if "postgresql" not in ENGINES:
        pytest.skip("PostgreSQL is not installed.")
    data = ENGINES["postgresql"].make(Records(fn.Domain(x=fn.Ordered(0, 1)), {"x": [0]}, {"x": "int64"}), None)
    with database(data).session("people") as session:
        yield session


@pytest.mark.no_cover
def test_the_trial_admits_the_functions_of_texts(postgresql_session):
    for form in (*FORMS, EVERYTHING):
        reader = TextReader(form or fn.Format(), numbers=True, dates=True)
        engine_check.refuse_unless_formatted(postgresql_session.fetch, POSTGRESQL, "the database", reader)


@pytest.mark.no_cover
@pytest.mark.parametrize("flaw", FAULTS)
def test_the_trial_refuses_other_functions_of_texts(postgresql_session, flaw):
    d = replace(POSTGRESQL, functions=replace(POSTGRESQL.functions, **{flaw: FAULTS[flaw]}))
    with refused("data.engine-reads-forms-differently", "data.records-not-counted"):
        form = VIENNA if flaw == "to_utc" else EVERYTHING  # every date of the other form has an offset
        reader = TextReader(form, numbers=True, dates=True)
        engine_check.refuse_unless_formatted(postgresql_session.fetch, d, "the database", reader)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("flaw", "template"),
    [
        ("end", ""),
        ("matches", "{c} ~* {p} AND {c} <> '.7'"),
        ("stripped", "{c}"),
        ("double", "CAST(CAST({c} AS REAL) AS DOUBLE PRECISION)"),
        ("decimal", "CAST(replace({c}, 'e-', 'e') AS NUMERIC)"),
        ("removed", "{c}"),
    ],
)
def test_the_trial_refuses_an_engine_that_reads_other_numbers_from_texts(postgresql_session, flaw, template):
    d = replace(POSTGRESQL, functions=replace(POSTGRESQL.functions, **{flaw: template}))
    tried = functools.partial(engine_check.refuse_unless_right, postgresql_session.fetch, d, "the database", drop=True)
    with refused("data.engine-counts-differently", "data.records-not-counted"):
        tried(numerals=True)


@pytest.mark.no_cover
@pytest.mark.parametrize(("flaw", "template"), [("end", ""), ("stripped", "{c}"), ("matches", "{c} ~ '[0-9]'")])
def test_the_trial_refuses_an_engine_that_reads_other_dates_from_texts(postgresql_session, flaw, template):
    tried = functools.partial(engine_check.refuse_unless_dated, what="the database", timed=False, in_text=True)
    for part in ("year", "hour", "weekday"):
        read = fn.Ordered(0, 9999, date_part=part).date_part
        tried(postgresql_session.fetch, POSTGRESQL, read=read)
    d = replace(POSTGRESQL, functions=replace(POSTGRESQL.functions, **{flaw: template}))
    with refused("data.engine-reads-dates-differently", "data.records-not-counted"):
        tried(postgresql_session.fetch, d, read=read)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted({*ENGINES} & {"mariadb", "clickhouse", "spark"}))
def test_a_database_that_cannot_read_a_form_says_so_before_it_counts(name, tmp_path):
    domain = fn.Domain(x=fn.Categorical(["a"]))
    data = ENGINES[name].make(Records(domain, {"x": ["a", " a"]}, {"x": "string"}), tmp_path)
    with refused("data.format-not-read-in-database", key="x"):
        open_counter(data, domain.axes, fn.DataSource(table="people", format=fn.Format(normalise=True))).check(["x"])


@pytest.mark.no_cover
@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize("name", sorted(ENGINES))
def test_columns_of_types_in_databases_are_not_changed_by_a_format(name, tmp_path):
    domain = fn.Domain(x=fn.Ordered(2020, 2021, column="d", date_part="year"), y=fn.Binned([2]))
    values = {"x": [date(2020, 1, 1), date(2021, 1, 1)], "y": [1.5, 2.5]}
    data = ENGINES[name].make(Records(domain, values, {"x": "date32", "y": "double"}), tmp_path)
    source = fn.DataSource(table="people", format=replace(GERMAN, date="%Y-%m-%d", normalise=True))
    assert open_counter(data, domain.axes, source).count([("x", "y")])["x", "y"].tolist() == [[1, 0], [0, 1]]


@pytest.mark.no_cover
def test_an_engine_that_changes_texts_is_refused(monkeypatch):
    read = TextReader.__call__
    calls = iter(range(10**6))
    monkeypatch.setattr(TextReader, "__call__", lambda self, text: read(self, text) + "x" * (next(calls) == 7))
    domain = fn.Domain(x=fn.Categorical(["a"]))
    with refused("data.engine-codes-differently"):
        open_counter(pa.table({"x": ["a"]}), domain.axes, fn.DataSource(format=fn.Format(strip=True))).count([("x",)])


# --- what a refusal says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "texts", "ways"),
    [
        ("pay", ["100,000.00", "5"], [{"thousands": ","}]),
        ("pay", ["12,5", "7"], [{"decimal": ","}]),
        ("pay", ["1,234"], [{"decimal": ","}, {"thousands": ","}]),
        ("pay", ["1.234,5", "12,5"], [{"decimal": ",", "thousands": "."}]),
        ("pay", ["1\xa0234,5"], [{"decimal": ",", "thousands": "\xa0"}]),
        ("pay", ["abc", "-"], []),
        ("year", ["31.12.2020", "1.1.2020"], [{"date": "%d.%m.%Y"}]),
        ("year", ["04/07/2020"], [{"date": "%d/%m/%Y"}, {"date": "%m/%d/%Y"}]),
        ("year", ["04/07/2020", "14/07/2020"], [{"date": "%d/%m/%Y"}]),
        ("year", ["2020-3-4"], [{"date": "%Y-%m-%d"}]),
        ("year", ["2020-03-04T10:11:12Z"], [{"zone": "UTC"}]),
        ("year", ["1.2.2020 7:05"], [{"date": "%d.%m.%Y %H:%M"}]),
        ("city", ["Bonn\xa0"], [{"strip": True}, {"normalise": True}]),
        ("city", ["K\xf6ln\u200b", "Bo\u200bnn"], [{"normalise": True}]),
    ],
)
def test_the_form_that_was_met_is_named(name, texts, ways):
    axes = fn.Domain({**{a: DOMAIN[a] for a in ("pay", "year")}, "city": fn.Categorical(["K\xf6ln", "Bonn"])}).axes
    assert [form.document for form in forms_met(axes[name], None, texts)] == ways


def test_the_form_that_was_met_fits_what_is_declared():
    axis = DOMAIN.axes["pay"]
    assert forms_met(axis, numbers(GERMAN), ["1.234", "7"]) == []
    assert forms_met(axis, numbers(fn.Format(thousands=" ")), ["1 234,5", "7"]) == [fn.Format(decimal=",")]
    assert forms_met(DOMAIN.axes["city"], None, []) == []
    # The cell of an amount with a range by class depends on another column.
    classes = fn.Domain(pay=fn.Amount(0, fn.ByAttribute("kind", [5, 10])), kind=fn.Ordered(1, 2))
    assert forms_met(classes.axes["pay"], None, ["1,5"]) == []


@pytest.mark.no_cover
def test_a_refusal_names_the_form_and_no_value(tmp_path):
    records = [{"pay": "1.234,5", "age": SECRET, "born": "31.12.2020", "city": "Bonn\xa0"}]
    source = fn.DataSource(table="people")
    for name, data in every_source(records, tmp_path).items():
        if name in {"csv", "sqlite", "pandas objects"}:
            with refused("data.records-outside-domain") as caught:
                open_counter(data, DOMAIN.axes, source).count([("pay",), ("age",), ("year",), ("city",)])
            text = str(caught.value)
            assert 'decimal = "," and thousands = "."' in text, name
            assert 'date = "%d.%m.%Y"' in text, name
            assert "strip = true or normalise = true" in text, name
            assert not any(x in text for x in (SECRET, "1.234", "2020")), name


def test_a_zone_that_the_machine_does_not_know_is_none():
    assert zone_named("UTC") is UTC
    assert zone_named("Nowhere/Land") is None


@pytest.mark.no_cover
@pytest.mark.usefixtures("without_noise")
def test_a_release_reads_the_format_off_its_plan(tmp_path):
    """The case R58: 85+ is the age 85, so that prefixes and quantiles of ages stay possible."""
    path = tmp_path / "people.csv"
    path.write_text("age\n" + "84\n" * 20 + "85+\n" * 20, encoding="utf-8")
    domain = fn.Domain(age=fn.Ordered(0, 85))
    source = fn.DataSource(format=fn.Format(columns={"age": fn.Format(lookup={"85+": 85})}))
    plan = fn.plan(fn.Publication(fn.Workload(domain, [fn.table("age", margin=5)]), source=source))
    released = fn.release(fn.Plan.from_json(plan.to_json()), path, ledger=tmp_path / "ledger.sqlite")
    assert released["age"]["value"].round().tolist() == [0] * 84 + [20, 20]
    other = open_counter(path, domain.axes, fn.DataSource(format=fn.Format(lookup={"85+": 85})))
    with refused("data.where-differs"):
        fn.release(plan, other, ledger=tmp_path / "other.sqlite")
