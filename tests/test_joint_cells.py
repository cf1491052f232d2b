"""The joint cells that attributes of one column can have: known sets, random values, and the blocks of attributes."""

import datetime
import math
from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.request import joint_cells
from fitnoise.request.joint_cells import Unreached, possible_cells, shared_columns
from refused import refused

SEED = 20261127

PLACES = {
    "county": {"A": "c1", "I": "c1", "J": "c10", "K": "c10", "B": "c4"},
    "size": {"A": "BIG", "B": "BIG", "I": "small", "J": "small", "K": "small"},
}


def lookup(name):
    return fn.Categorical(sorted(set(PLACES[name].values())), column="x", lookup=PLACES[name])


def ages(low, high, **options):
    return fn.Ordered(low, high, column="x", **options)


def cut(*cuts, **options):
    return fn.Binned(cuts, column="x", **options)


def part(date_part, low, high, **options):
    return fn.Ordered(low, high, column="x", date_part=date_part, **options)


def rows(*attributes):
    """Return the possible joint cells, after their witnesses were replayed through the attributes."""
    joint = possible_cells(attributes)
    result = [tuple(row) for row in joint.cells.tolist()]
    assert result == sorted(set(result))
    for i, row in enumerate(result):
        value = joint.witness(i)
        assert tuple(a.cell(value) for a in attributes) == row, repr(value)
    return result


def blocks(domain, names):
    return tuple(block for column in shared_columns(domain, names) for block in column.blocks)


def grouped(**attributes):
    """Return the blocks by the names of their attributes, each with its number of joint cells."""
    result = blocks(fn.Domain(**attributes), set(attributes))
    assert all(block.combinations == math.prod(attributes[a].size for a in block.attributes) for block in result)
    assert all(block.column == "x" for block in result)
    return {block.attributes: len(block.cells) for block in result}


BIRTH = {"age_on": "2024-06-30"}

TABLE = {
    "age and groups": ({"age": ages(0, 85), "group": cut(18, 65)}, 258, 86, {("age", "group"): 86}),
    "clipped ages are finer than either": (
        {"age": ages(0, 85, clip=True), "group": cut(18, 65, 90)}, 344, 87, {("age", "group"): 87},
    ),
    "a cell for values outside": (
        {"age": ages(0, 85, missing={"odd": []}, if_outside="odd"), "group": cut(18, 65)},
        261, 89, {("age", "group"): 89},
    ),
    "region, county and size": (
        {"region": fn.Categorical(list("ABIJK"), column="x"), "county": lookup("county"), "size": lookup("size")},
        30, 5, {("region", "county", "size"): 5},
    ),
    "bins that cross": ({"a": cut(10, 20, 30, 40), "b": cut(15, 25, 35)}, 20, 8, {("a", "b"): 8}),
    "year and month": ({"y": part("year", 2019, 2023), "m": part("month", 1, 12)}, 60, 60, {}),
    "year, quarter, month and weekday": (
        {
            "y": part("year", 2019, 2023),
            "q": part("quarter", 1, 4),
            "m": part("month", 1, 12),
            "w": part("weekday", 1, 7),
        },
        1680, 420, {("q", "m"): 12},
    ),
    "year of birth and age": (
        {"y": part("year", 1930, 2024), "a": part(BIRTH, 0, 94)}, 9025, 189, {("y", "a"): 189},
    ),
    "thirty years of birth and their ages": (
        {"y": part("year", 1990, 2019), "a": part(BIRTH, 4, 34)}, 930, 60, {("y", "a"): 60},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_joint_cells_of_a_known_column_are_counted(case):
    attributes, product, count, groups = TABLE[case]
    assert math.prod(a.size for a in attributes.values()) == product
    assert len(rows(*attributes.values())) == count
    assert grouped(**attributes) == groups


def test_joint_cells_of_ages_and_groups_are_those_of_each_age():
    assert rows(ages(0, 85), cut(18, 65)) == [(age, (age >= 18) + (age >= 65)) for age in range(86)]
    clipped = rows(ages(0, 85, clip=True), cut(18, 65, 90))
    assert set(clipped) - {(age, (age >= 18) + (age >= 65)) for age in range(86)} == {(85, 3)}


OTHER = {"missing": {"other": []}, "if_outside": "other"}

NONE = {"missing": {"none": []}, "if_missing": "none"}


@pytest.mark.parametrize(
    ("attributes", "value", "row"),
    [
        # All texts of 1 that a person would write are codes; "+1" is 1 and no code.
        ((fn.Categorical(["1", "01", "1.0"], column="x", **OTHER), ages(0, 3)), "+1", (3, 1)),
        # Two spaces are no code, and no number.
        ((fn.Categorical([" "], column="x", **OTHER), ages(0, 3, **NONE)), "  ", (1, 4)),
        # Half of the double before 1e17 is no double between; the whole number 0 is below both cuts.
        ((cut(1e17), cut(2e17), ages(0, 3, clip=True)), 0, (0, 0, 0)),
        ((cut(1e17), cut(2e17), ages(0, 3, clip=True)), 1.5e17, (1, 0, 3)),
        # The sum of both cuts, and the double after the largest, overflow.
        ((cut(-1.5e308), cut(1.5e308)), 0.5, (1, 0)),
        ((cut(-1.5e308), cut(1.5e308)), 1.7e308, (1, 1)),
        # A date without a time has a year, and no hour.
        ((part("year", 2019, 2023), part("hour", 0, 23, **OTHER)), "2020-05-01", (1, 24)),
        ((part("year", 2019, 2023), part("hour", 0, 23, **OTHER)), "2020-05-01 07:15", (1, 7)),
        # A birth after the day of the age is outside, in any month.
        (
            (part("month", 1, 12), fn.Binned([18], column="x", date_part=BIRTH, **OTHER)),
            datetime.date(2024, 9, 1),
            (8, 2),
        ),
        # A time with a zone is absent as a number, and outside as a date.
        (
            (ages(0, 3, **NONE), part("year", 2019, 2023, **OTHER)),
            datetime.datetime(2020, 5, 1, tzinfo=datetime.UTC),
            (4, 5),
        ),
        # Words of truth values are no numbers; "1" is both.
        ((fn.Categorical([True, False], column="x", **OTHER), ages(0, 3, **OTHER)), "yes", (0, 4)),
        ((fn.Categorical([True, False], column="x", **OTHER), ages(0, 3, **OTHER)), " 1", (0, 1)),
        ((fn.Categorical([True, False], column="x", **OTHER), ages(0, 3, **OTHER)), "01", (2, 1)),
        # Between two halves of large numbers, the next double on either side is an integer.
        ((cut(2.0**51 + 0.5), cut(2.0**51 + 2.5), ages(0, 3, clip=True, **OTHER)), 2.0**51 + 1.5, (1, 0, 4)),
        ((cut(-(2.0**51) - 2.5), cut(-(2.0**51) - 0.5), ages(0, 3, clip=True, **OTHER)), -(2.0**51) - 1.5, (1, 0, 4)),
        # Of the doubles before a cut, the second is no integer.
        ((cut(-(2.0**53)), cut(1.5 - 2.0**52), ages(0, 3, clip=True, **OTHER)), 0.5 - 2.0**52, (1, 0, 4)),
        # The doubles next to both ends of a gap are integers, and there are others between.
        ((cut(-(2.0**53)), ages(2**53 - 3, 2**53 - 1, clip=True, **OTHER)), 0.5, (1, 3)),
        # The empty text is a code, and null is absent.
        ((fn.Categorical(["", "a"], column="x", **NONE), ages(0, 3, **NONE)), None, (2, 4)),
        # A whole number below a cut that is half of a whole number.
        ((cut(-(2.0**52) + 0.5), ages(0, 3, clip=True, **OTHER)), -(2**52), (0, 0)),
    ],
)
def test_joint_cells_of_rare_values_are_found(attributes, value, row):
    assert tuple(a.cell(value) for a in attributes) == row
    assert row in rows(*attributes)


def test_joint_cells_of_birth_months_and_ages_are_all_months_at_each_age():
    age = fn.Binned([18], column="x", date_part=BIRTH, **OTHER)
    assert rows(part("month", 1, 12), age) == [(m, a) for m in range(12) for a in range(3)]


def random_attribute(rng):
    """Return a random attribute of numbers, texts, truth values or dates, some with cells for missing values."""
    low = int(rng.integers(-3, 12))
    options = [
        {},
        {},
        {"missing": {"u": [-9]}, "if_missing": "u"},
        {"missing": {"o": []}, "if_outside": "o"},
        {"missing": {"u": ["?", "n/a"], "o": []}, "if_outside": "o", "if_missing": "u"},
    ][rng.integers(5)]
    texts = {k: v for k, v in options.items() if k != "missing"} | (
        {"missing": {k: [str(c) for c in v] for k, v in options["missing"].items()}} if options else {}
    )
    cuts = [-(2.0**52), -2.5, 0, 2.5, 3, 5, 7.25, 9, 12, 15, 2024, 1e17, 1.5e308]
    codes = ["1", "01", "1.0", "x", " ", "true", "2020-02-29", "5", "X", "-9.0"]
    date_part = ["year", "month", "quarter", "weekday", "hour", {"age_on": "2020-02-29"}][rng.integers(6)]
    ends = {"year": (2015, 2021), "month": (1, 12), "quarter": (1, 4), "weekday": (1, 7), "hour": (0, 23)}
    begin, end = (0, 12) if isinstance(date_part, dict) else ends[date_part]

    def chosen(values, at_least, at_most):
        return rng.choice(values, rng.integers(at_least, at_most), replace=False).tolist()

    makers = [
        lambda: ages(low, low + int(rng.integers(1, 12)), clip=bool(rng.integers(2)), **options),
        lambda: cut(*sorted(chosen(cuts, 1, 5)), **options),
        lambda: fn.Categorical(chosen(20, 2, 6), column="x", **options),
        lambda: fn.Categorical(
            ["p", "q"], column="x", lookup=list(zip(chosen(20, 4, 5), "pqpq", strict=True)), **options
        ),
        lambda: fn.Categorical(chosen(codes, 1, 6), column="x", **texts),
        lambda: fn.Categorical([True, False], column="x", **texts),
        lambda: part(date_part, begin, end, clip=bool(rng.integers(2)), **options),
        lambda: cut(*sorted({begin + 1, (begin + end) // 2, end}), date_part=date_part, **options),
    ]
    return makers[rng.integers(len(makers))]()


def random_value(rng):
    """Return a random value of a column: a number, a text, a truth value, a date or none."""
    number = int(rng.integers(-12, 30))
    day = datetime.date(2020, 1, 1) + datetime.timedelta(days=int(rng.integers(-2500, 2500)))
    neighbour = float(
        np.nextafter(rng.choice([-2.5, 0, 2.5, 3, 9, 2024, 1e17, 1.5e308]), rng.choice([-math.inf, math.inf]))
    )
    texts = ["x", "X", " ", "  ", "", "?", "n/a", "-9", "-9.0", "true", " FALSE", "t", "1", "nan"]
    choices = [
        lambda: number,
        lambda: number / 4,
        lambda: neighbour,
        lambda: str(number),
        lambda: f"0{abs(number)}",
        lambda: f" {number}.0",
        lambda: Decimal(number),
        lambda: texts[rng.integers(len(texts))],
        lambda: [None, math.nan, math.inf, True, False, pd.NaT, object(), [1], "\udc80"][rng.integers(9)],
        lambda: str(day),
        lambda: f" {day} {rng.integers(24):02}:07",
        lambda: day,
        lambda: datetime.datetime.combine(day, datetime.time(int(rng.integers(24)), 5)),
        lambda: datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC),
        lambda: datetime.date(int(rng.integers(1, 10_000)), 3, 1),
        lambda: float(rng.integers(-(2**60), 2**60)),
    ]
    return choices[rng.integers(len(choices))]()


@pytest.mark.parametrize("start", range(5))
def test_every_counted_random_value_has_a_possible_joint_cell(start):
    """In all, 100,000 values in 500 columns."""
    rng = np.random.default_rng([SEED, start])
    counted = 0
    for _ in range(100):
        attributes = [random_attribute(rng) for _ in range(rng.integers(2, 4))]
        possible = set(rows(*attributes))
        for value in (random_value(rng) for _ in range(200)):
            row = tuple(a.cell(value) for a in attributes)
            counted += None not in row
            assert None in row or row in possible, (attributes, value)
    assert counted > 2_000


def test_every_value_of_the_zoo_has_a_possible_joint_cell():
    samples = [s for s in zoo.ATTRIBUTES.values() if not s.attribute.steps]
    for i, a in enumerate(samples):
        for b in samples[i + 1 :]:
            joint = possible_cells([a.attribute, b.attribute])
            possible = set(map(tuple, joint.cells.tolist()))
            for value in (v for s in (a, b) for values in (*s.cells, s.outside) for v in values):
                row = (a.attribute.cell(value), b.attribute.cell(value))
                assert None in row or row in possible, (a.attribute, b.attribute, value)


def coded(values, date_part):
    """Return a categorical attribute whose codes are those of a date part, by year or age."""
    codes = sorted(set(values.values()))
    return fn.Categorical(codes, column="x", date_part=date_part, lookup=values)


@cache
def cells_of_days(attribute):
    """Return the cell of each day from 1872 to 2019."""
    begin, end = datetime.date(1872, 1, 1).toordinal(), datetime.date(2020, 1, 1).toordinal()
    return [attribute.cell(datetime.date.fromordinal(day)) for day in range(begin, end)]


YEARS_BY_FOUR = coded({year: year % 4 for year in range(1872, 2020)}, "year")


@pytest.mark.parametrize(
    "attributes",
    [
        # The leap day is the only one in February after the birthday, so its weekday depends on the year.
        (
            part("weekday", 1, 7),
            part("month", 1, 12),
            YEARS_BY_FOUR,
            coded({age: age % 4 for age in range(120)}, {"age_on": "2000-02-28"}),
        ),
        # Of the years 2009, 2013 and 2017, 2013 alone has all months.
        (part("month", 1, 12), YEARS_BY_FOUR, coded(dict.fromkeys(range(8), 0), {"age_on": "2017-06-15"})),
        (part("month", 1, 12), YEARS_BY_FOUR, coded({0: 0, 5: 0}, {"age_on": "2017-06-15"})),
        (part("weekday", 1, 7), part("quarter", 1, 4), fn.Binned([1900, 2000, 2001], column="x", date_part="year")),
    ],
)
def test_days_of_each_year_have_possible_joint_cells(attributes):
    """Detects two years that are taken for equal, such as 1900 and 2000."""
    expected = {row for row in zip(*map(cells_of_days, attributes), strict=True) if None not in row}
    assert expected == set(rows(*attributes))


def test_attributes_whose_pairs_are_free_are_one_block_if_the_three_are_not():
    def parity(bits):
        return fn.Categorical([0, 1], column="x", lookup={i: bits(i) for i in range(4)})

    assert grouped(a=parity(lambda i: i % 2), b=parity(lambda i: i // 2), c=parity(lambda i: (i % 2) ^ (i // 2))) == {
        ("a", "b", "c"): 4
    }


def test_blocks_hold_only_the_attributes_that_tables_show():
    counties = {i: f"c{i // 10}" for i in range(100)}
    districts = {i: f"d{i // 15}" for i in range(100)}
    domain = fn.Domain(
        code=ages(0, 99),
        county=fn.Categorical(sorted(set(counties.values())), column="x", lookup=counties),
        district=fn.Categorical(sorted(set(districts.values())), column="x", lookup=districts),
        other=ages(0, 9),
        sex=fn.Categorical(["f", "m"]),
    )
    (block,) = blocks(domain, {"county", "district", "sex"})
    # Codes from 10 on have no cell of `other`, and do not count.
    assert (block.attributes, block.cells.tolist(), block.combinations) == (("county", "district"), [[0, 0]], 70)
    (block,) = blocks(fn.Domain({a: domain[a] for a in domain if a != "other"}), {"county", "district", "sex"})
    assert len(block.cells) == len({(i // 10, i // 15) for i in range(100)})
    assert blocks(domain, {"sex"}) == ()


def test_attributes_of_columns_of_their_own_are_not_read(monkeypatch):
    monkeypatch.setattr(joint_cells, "possible_cells", None)
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 9) for i in range(100)})
    assert blocks(domain, set(domain)) == ()


def test_an_amount_is_in_no_block():
    domain = fn.Domain(income=fn.Amount(0, 100, column="x"), bracket=cut(10, 50))
    assert blocks(domain, {"income", "bracket"}) == ()


def test_levels_of_a_hierarchy_count_as_the_lowest_level_shown():
    rows_of_places = [("s1", "c1", "t1"), ("s1", "c1", "t2"), ("s1", "c2", "t3"), ("s2", "c3", "t4")]
    kinds = {"t1": "town", "t2": "land", "t3": "land", "t4": "town"}
    urban = fn.Categorical(["town", "land"], column="x", lookup=kinds)
    domain = fn.Domain(place=fn.Hierarchy(["state", "county", "tract"], rows_of_places, column="x"), urban=urban)
    (block,) = blocks(domain, {"state", "county", "urban"})
    assert block.attributes == ("county", "urban")
    assert block.cells.tolist() == [[0, 0], [0, 1], [1, 1], [2, 0]]
    (block,) = blocks(domain, {"state", "tract", "place", "urban"})
    assert (block.attributes, len(block.cells)) == (("place", "urban"), 4)
    assert blocks(domain, {"state", "county"}) == ()
    assert blocks(domain, {"state", "urban"})[0].cells.tolist() == [[0, 0], [0, 1], [1, 0]]


def unreached(names=None, **attributes):
    return [x for column in shared_columns(fn.Domain(**attributes), names or set(attributes)) for x in column.unreached]


def test_cells_that_no_counted_value_reaches_have_their_cause():
    assert unreached(age=ages(0, 85), group=cut(18, 65)) == []
    assert unreached(age=ages(0, 85), group=cut(18, 65, 90)) == [Unreached("group", (3,), "age")]
    # Whether a table shows the ages does not matter: a record without an age is not counted.
    assert unreached({"group"}, age=ages(0, 85), group=cut(18, 65, 90)) == [Unreached("group", (3,), "age")]
    assert unreached({"age"}, age=ages(0, 85), group=cut(18, 65, 90)) == []
    assert unreached(q=part("quarter", 1, 5), m=part("month", 1, 12)) == [Unreached("q", (4,), "q")]


def test_cells_that_several_attributes_exclude_have_no_single_cause():
    result = unreached({"g"}, a=ages(0, 9), b=ages(5, 20), g=cut(5, 10, 15))
    # Below 5 there is no value of `b`, and from 10 on none of `a`.
    assert result == [Unreached("g", (0, 2, 3), None)]


def test_attributes_without_a_common_value_have_no_joint_cell():
    attributes = {"a": ages(0, 9), "b": ages(10, 19)}
    assert rows(*attributes.values()) == []
    assert grouped(**attributes) == {("a", "b"): 0}


def test_too_many_values_are_refused():
    for attribute in (
        ages(0, 3_000_000),
        # Every year is a kind of its own.
        part("year", 1, 9999),
        fn.Binned([20240229], column="x", date_part=DateField(DatePart.DAY)),
    ):
        with refused("domain.joint-cells-too-many"):
            possible_cells([attribute, cut(18)])
    # The days of 1,500 years are few enough, and their hours are too many.
    days = [part("year", 1000, 2499), part("month", 1, 12), part("weekday", 1, 7)]
    assert len(possible_cells(days).cells) == 1500 * 12 * 7
    with refused("domain.joint-cells-too-many"):
        possible_cells([*days, part("hour", 0, 23)])
