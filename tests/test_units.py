"""Protected units, and the known facts about the data: the terms of every guarantee."""

import hashlib
import json
import re
import unicodedata
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from fitnoise.kernel.order import account
from fitnoise.kernel.units import (
    MAX_RECORDS,
    MAX_RECORDS_PER_UNIT,
    NO_PATTERN,
    SHARES_PER_RECORD,
    Account,
    Adjacency,
    CountBasis,
    DataSource,
    Neighbours,
    OutsideDomain,
    Pattern,
    PrivacyUnit,
    RecordBound,
)
from fitnoise.messages import Message, english, translator
from fitnoise.reading.description import (
    account_message,
    between_draws,
    bound_on_records,
    describe_pattern,
    merged_records,
)
from fitnoise.request.attributes import Ordered
from fitnoise.request.domain import Domain
from refused import refused

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
COMPOSED = "é"
UNNAMED = ["", " ", " padded", "padded ", "\tpadded", "two\nlines", "nul\0", unicodedata.normalize("NFD", COMPOSED)]


@pytest.mark.parametrize(
    ("neighbours", "records", "drops", "steps"),
    [
        (ADD, 1, False, (ADD,)),
        (ADD, 1, True, (ADD,)),
        (ADD, 2, True, (ADD,)),
        (REPLACE, 1, False, (REPLACE,)),
        (REPLACE, 1, True, (REPLACE, ADD)),
        (REPLACE, 2, False, (REPLACE, ADD)),
        (REPLACE, 2, True, (REPLACE, ADD)),
    ],
)
def test_a_record_can_come_or_go_unless_exactly_one_is_replaced(neighbours, records, drops, steps):
    adjacency = Adjacency(PrivacyUnit("person", records, neighbours), drops=drops)
    assert (adjacency.records, adjacency.step_relations) == (records, steps)
    assert adjacency.by_cell == (neighbours is ADD)
    assert adjacency.fixes_size == (steps == (REPLACE,))


KINDS = [Adjacency(PrivacyUnit("person", g, n), drops=d) for g in (1, 2, 3) for n in Neighbours for d in (False, True)]
NOWHERE = (0, 0)


def shifted(*vectors):
    return tuple(map(sum, zip(*vectors, strict=True)))


@cache
def reachable(adjacency, times):
    """Return all changes that `times` changes of a unit can make to the counts of two cells."""
    steps = {ADD: [(1, 0), (0, 1)], REPLACE: [(1, -1), (-1, 1)]}
    steps_of = {
        ADD: steps[ADD],
        REPLACE: [s for n in adjacency.step_relations for s in steps[n]]
        + [(-1, 0), (0, -1)] * (ADD in adjacency.step_relations),
    }
    unit, result = {NOWHERE}, {NOWHERE}
    for _ in range(adjacency.records):
        unit |= {shifted(v, s) for v in unit for s in steps_of[adjacency.unit.neighbours]}
    unit |= {(-a, -b) for a, b in unit}  # who can come can go
    for _ in range(times):
        result |= {shifted(v, u) for v in result for u in unit}
    return result


@pytest.mark.parametrize("adjacency", KINDS, ids=str)
def test_so_many_changes_of_one_unit_make_any_of_another(adjacency):
    """The reference is full enumeration; if no number is given, no number of changes suffices."""
    for other in KINDS:
        times = adjacency.changes(other)
        if times is None:
            assert not reachable(other, 1) <= reachable(adjacency, 6)
        else:
            assert reachable(other, 1) <= reachable(adjacency, times)
            assert times <= 2 * -(-other.records // adjacency.records)


def test_a_unit_has_as_many_records_as_either_promise_says():
    person, persons = PrivacyUnit("person", 2), PrivacyUnit("persons", 5)
    for drops in (False, True):
        adjacency = Adjacency(PrivacyUnit("Person", 7, REPLACE), drops=drops)
        assert adjacency.for_unit(person) == Adjacency(PrivacyUnit("person", 7), drops=drops)
        assert Adjacency(person, drops=drops).for_unit(PrivacyUnit("person", 7)).unit == PrivacyUnit("person", 7)
        assert Adjacency(persons, drops=drops).for_unit(person) == Adjacency(person, drops=drops)
        assert Adjacency(persons, drops=drops).for_unit(person, PrivacyUnit("person", 9), persons).records == 9


LEFT_OUT = Message("report.records.unknown_left_out")
BY_ID = PrivacyUnit("person", 3, id="pid")


def test_an_account_of_persons_by_an_id_does_not_say_how_many_records_are_counted():
    """Or a person would have a balance for each number, and no account would add them up."""
    for neighbours in Neighbours:
        units = [PrivacyUnit("person", g, neighbours, "pid") for g in (1, 12, 10**12)]
        assert {Account("s", u).key for u in units} == {f'{{"id":"pid","name":"person","neighbours":"{neighbours}"}}'}
        assert {Account("s", u).sentence for u in units} == {f"one person (by 'pid'), {neighbours}"}
        assert Account("s", units[1]).unit == units[0]
    assert BY_ID.describe() == "one person (at most 3 records, enforced by column 'pid'), add-or-remove-one"
    assert BY_ID.bound == RecordBound("pid", 3)
    assert PrivacyUnit("person", 3).bound is None


def translated_unit(account, unit):
    """Return the unit of an account in German, without the names of the publisher."""
    text = translator("de").write(account_message(account))
    for name in (unit.name, unit.id, *unit.pattern.names):
        text = text.replace(name or "", "")
    return text


@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_unit_of_an_account_is_in_the_words_of_each_language(neighbours):
    for unit in (PrivacyUnit("record", 1, neighbours), PrivacyUnit("person", 1, neighbours), BY_ID):
        account = Account("s", unit)
        assert english(account_message(account)) == account.sentence
        assert not {"one", "record", "records", "by", "at"} & {*re.findall(r"\w+", translated_unit(account, unit))}
    replaced_within = PrivacyUnit("person", 2, REPLACE, within=["area"])
    account = Account("s", replaced_within, (("area", "0" * 64),))
    assert english(account_message(account)) == account.sentence


PATTERNS = [
    {"per_value": {"month": 3}},
    {"per_value": {"b": 1, "a": 10**12}, "once_per": ["d", "c"]},
    {"separation": {"month": 3, "a": 2}},
    {"fixed": ["sex", "birth_year"]},
    {
        "once_per": ["a and b"],
        "per_value": {"separated by 3 in": 3},
        "separation": {"4 for each": 4},
        "fixed": ["equal in"],
    },
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("name", ["person", "one (by x)", "a (at most 3 records, equal in x)"])
def test_accounts_say_the_pattern_that_is_promised(name, pattern):
    """A pattern that is only assumed is part of the name. An enforced one is not, or persons would be split."""
    for neighbours in Neighbours:
        unit = PrivacyUnit(name, 12, neighbours, **pattern)
        account = Account("s", unit, tuple((a, "0" * 64) for a in unit.pattern.names))
        assert Account.parse("s", json.loads(account.key)) == account
        assert account.sentence == f"{unit.account} [{account.digits}]"
        assert english(account_message(account)) == account.sentence.replace('" and "', '", "')
        assert not {"once", "each", "equal", "record", "records"} & {
            *re.findall(r"\w+", translated_unit(account, unit))
        }
        stated = english(*bound_on_records(unit, LEFT_OUT))
        assert stated.endswith("this is assumed, not checked")
        assert all(f'"{a}"' in unit.account for a in unit.pattern.names)
        assert all(a in english(*describe_pattern(unit)) for a in unit.pattern.names)
        assert english(*describe_pattern(unit)) in stated
        assert unit.pattern.describe in unit.describe()
        enforced = PrivacyUnit("person", 12, neighbours, "pid", **pattern)
        assert enforced.account == PrivacyUnit("person", 1, neighbours, "pid").account
        assert enforced.bound == RecordBound("pid", 12, unit.pattern)
    assert Adjacency(unit).without_pattern.unit == PrivacyUnit(name, 12, neighbours)


def test_a_pattern_is_described_in_words():
    pattern = {"once_per": ["b", "a"], "per_value": {"m": 3}, "separation": {"t": 2}, "fixed": ["sex"]}
    unit = PrivacyUnit("person", 12, **pattern)
    assert unit.describe() == (
        'one person (at most 12 records, once per "a" and "b", 3 for each "m", separated by 2 in "t", equal in "sex"), '
        "add-or-remove-one"
    )
    assert unit == PrivacyUnit("person", 12, ADD, None, ("a", "b"), (("m", 3),), (("t", 2),), ("sex",))
    assert hash(unit) == hash(replace(unit))


WRONG = [
    ["month"], {"month": 0}, {"month": 10**12 + 1}, {"month": True}, {"month": 2.0}, {"": 1}, {' "': 1}, None,
    {"a": "1"}, (("a", 1), ("a", 2)), (("a",),), ("ab",), 3, {1: 1},
]  # fmt: skip


@pytest.mark.parametrize("what", ["per_value", "separation"])
@pytest.mark.parametrize("limits", WRONG)
def test_limits_for_each_attribute_are_integers(what, limits):
    with refused("spec.unit-limits-invalid"):
        PrivacyUnit("person", 2, **{what: limits})


@pytest.mark.parametrize("pattern", [{"fixed": ["a"]}, {"per_value": {"a": 1}}, {"separation": {"a": 1}}])
def test_a_record_keeps_to_no_pattern(pattern):
    with refused("spec.pattern-needs-unit-name"):
        PrivacyUnit("record", 2, **pattern)
    with refused("spec.unit-attributes-invalid"):
        PrivacyUnit("person", 2, fixed="sex")


@pytest.mark.parametrize("name", ["person", "one (by x)", "a (at most 3 records)", "a, b", "a'", '"', "é"])
@pytest.mark.parametrize("column", ["pid", "p) (at most 2 records", "a'), replace-one", "'", "b') (by 'c"])
def test_accounts_say_whose_they_are(name, column):
    """No two units have one account, for any names of them and their ids."""
    units = [PrivacyUnit(name, 2), PrivacyUnit(name, 1, REPLACE), PrivacyUnit(name, id=column)]
    accounts = [Account("s", u) for u in units]
    assert [Account.parse("s", json.loads(a.key)).unit for a in accounts] == units
    assert len({a.key for a in accounts}) == len({a.sentence for a in accounts}) == len(units)


ONE = Account("s", PrivacyUnit("person", 12, once_per=["b", "a"]), (("b", "1" * 64), ("a", "0" * 64)))


def test_a_promise_binds_the_cells_of_its_attributes():
    """Cells have one order for any given order; other cells are another account with the same words."""
    assert ONE.document == {
        "name": "person",
        "neighbours": "add-or-remove-one",
        "records": 12,
        "once_per": [["a", "0" * 64], ["b", "1" * 64]],
    }
    unit = replace(ONE.unit, once_per=["a", "b"])
    assert Account("s", unit, tuple(reversed(ONE.cells))) == ONE
    other = Account("s", unit, (("a", "0" * 64), ("b", "2" * 64)))
    assert (other == ONE, other.unit == ONE.unit, other.sentence == ONE.sentence) == (False, True, False)
    assert (
        ONE.sentence
        == f"{unit.account} [{hashlib.sha256(json.dumps(ONE.cells, separators=(',', ':')).encode()).hexdigest()[:12]}]"
    )
    full_unit = PrivacyUnit("person", 12, per_value={"m": 3}, separation={"m": 2}, fixed=["a"])
    account = Account("s", full_unit, (("m", "0" * 64), ("a", "1" * 64)))
    assert {what: account.document[what] for what in ("per_value", "separation", "fixed")} == {
        "per_value": [["m", "0" * 64, 3]],
        "separation": [["m", "0" * 64, 2]],
        "fixed": [["a", "1" * 64]],
    }


@pytest.mark.parametrize(
    ("unit", "cells"),
    [
        (ONE.unit, ()),
        (ONE.unit, ONE.cells[:1]),
        (ONE.unit, (*ONE.cells, ("c", "0" * 64))),
        (ONE.unit, (*ONE.cells, ONE.cells[0])),
        (ONE.unit, (("a", "0" * 63), ("b", "1" * 64))),
        (ONE.unit, (("a", "A" * 64), ("b", "1" * 64))),
        (PrivacyUnit(), ONE.cells),
        (replace(ONE.unit, id="pid"), ONE.cells),
    ],
)
def test_an_account_says_the_cells_of_its_promise_and_of_nothing_else(unit, cells):
    with refused("ledger.account-cells-invalid"):
        Account("s", unit, cells)


BASE = {"name": "person", "neighbours": "replace-one", "records": 2}


@pytest.mark.parametrize(
    "document",
    [
        None, 7, "person", [], {}, [["name", "person"]],
        {**BASE, "name": " "}, {**BASE, "name": None}, {**BASE, "neighbours": "swap"}, {**BASE, "records": 0},
        {**BASE, "records": True}, {**BASE, "records": 2.0}, {**BASE, "more": 1}, {**BASE, "id": "pid"},
        {**BASE, "once_per": []}, {**BASE, "once_per": [["a"]]}, {**BASE, "once_per": [["a", "0" * 63]]},
        {**BASE, "once_per": [["b", "0" * 64], ["a", "0" * 64]]}, {**BASE, "once_per": [["a", "0" * 64, 1]]},
        {**BASE, "once_per": [["a", "0" * 64]], "fixed": [["a", "1" * 64]]},
        {**BASE, "once_per": 3}, {**BASE, "per_value": [["a", "0" * 64]]}, {**BASE, "per_value": [["a", "0" * 64, 0]]},
        {**BASE, "once_per": [[["a"], "0" * 64]]}, {**BASE, "once_per": [["a", 7]]},
        {"name": "person", "neighbours": "replace-one"}, {"name": "record", "neighbours": "replace-one", "id": "pid"},
    ],
)  # fmt: skip
def test_what_no_account_writes_is_no_account(document):
    assert Account.parse("s", BASE) == Account("s", PrivacyUnit("person", 2, REPLACE))
    with refused("ledger.account-document-invalid"):
        Account.parse("s", document)
    with refused("ledger.account-document-invalid"):
        Account.parse(" ", BASE)


@pytest.mark.parametrize("column", UNNAMED)
def test_an_id_is_the_name_of_a_column(column):
    with refused("spec.id-invalid"):
        PrivacyUnit("person", id=column)


@pytest.mark.parametrize("name", ["record", "Record", "a (by 'b"])
def test_an_id_says_whose_a_record_is(name):
    with refused("spec.id-needs-unit-name"):
        PrivacyUnit(name, id="pid")


def test_the_enforcement_of_the_record_limit_is_stated():
    assert bound_on_records(PrivacyUnit(), LEFT_OUT) == ()
    assumed = "; this is assumed, not checked"
    assert (
        english(*bound_on_records(PrivacyUnit("record", 2), LEFT_OUT)) == f"at most 2 records of each record{assumed}"
    )
    assert english(*bound_on_records(PrivacyUnit("person"), LEFT_OUT)) == f"at most 1 record of each person{assumed}"
    enforced = "at most 3 records of each person; fitnoise enforces this by the column 'pid'; "
    assert english(*bound_on_records(BY_ID, LEFT_OUT)).startswith(enforced)
    for unit in (PrivacyUnit(), PrivacyUnit("person", 12, once_per=["m"])):
        assert between_draws(unit).id == "report.records.draws_by_cell"
    assert between_draws(BY_ID).id == "report.records.draws_by_id"
    assert all(english(between_draws(x)).startswith("assumed, not checked: ") for x in (PrivacyUnit(), BY_ID))


def test_a_person_by_an_id_comes_or_goes_even_where_one_is_replaced():
    adjacency = Adjacency(PrivacyUnit("person", 1, REPLACE, "pid"))
    assert adjacency.step_relations == (REPLACE, ADD)
    assert not adjacency.fixes_size


@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_what_units_do_to_data_that_are_counted_by_an_id(neighbours, drops):
    """Persons of the id: as many records as count. Others: a record pushes out another, or two if its id moves."""
    adjacency = Adjacency(BY_ID, drops=drops)
    for same in (PrivacyUnit("person", 9, neighbours), PrivacyUnit("Person", 1, neighbours, "pid")):
        assert adjacency.for_unit(same) == Adjacency(PrivacyUnit(same.name, 3, neighbours, "pid"), drops=drops)
    records = 2 if neighbours is ADD else 4
    for promised in ((), (PrivacyUnit("home", 2),)):
        changed_unit = adjacency.for_unit(PrivacyUnit("home", 2, neighbours), *promised)
        assert (changed_unit.unit, changed_unit.step_relations) == (
            PrivacyUnit("home", records, REPLACE),
            (REPLACE, ADD),
        )
    changed_unit = adjacency.for_unit(PrivacyUnit(neighbours=ADD))
    assert (changed_unit.records, changed_unit.step_relations) == (1, (REPLACE, ADD))
    assert adjacency.for_unit(PrivacyUnit("home", 2, neighbours, "hid")) is None
    assert (
        adjacency.for_unit(PrivacyUnit("home", 2, neighbours, "hid"), PrivacyUnit("home", 5)).records
        == records // 2 * 5
    )
    assert adjacency.for_unit(PrivacyUnit("home", MAX_RECORDS_PER_UNIT, REPLACE)) is None


def test_persons_by_an_id_in_data_that_are_not_counted_by_it():
    """Only the declared bounds of units of this name are known about them."""
    adjacency = Adjacency(PrivacyUnit("person", 5))
    assert adjacency.for_unit(BY_ID) == Adjacency(PrivacyUnit("person", 5))
    assert Adjacency(PrivacyUnit()).for_unit(BY_ID) is None
    assert Adjacency(PrivacyUnit()).for_unit(BY_ID, PrivacyUnit("person", 8)).records == 8


def test_as_many_records_as_a_unit_may_have():
    assert PrivacyUnit("person", MAX_RECORDS_PER_UNIT).cost_factor() == 10**24
    with refused("spec.max-records-per-unit-invalid"):
        PrivacyUnit("person", MAX_RECORDS_PER_UNIT + 1)


# --- manual cases -----------------------------------------------------------------------------------------


def test_how_many_records_lie_in_a_cell_at_most():
    """Fixed attributes distinguish no two records; separated records lie in different cells."""
    assert Pattern().caps == ()
    pattern = Pattern(("a", "m"), (("b", 3),), (("o", 2),), ("a",))
    assert pattern.caps == ((("m",), 1), (("b",), 3), (("o",), 1))


GRID = SimpleNamespace(
    sizes={"m": 3, "o": 5, "a": 4},
    attribute_of=lambda axis: {"town": "place", "region": "place"}.get(axis, axis),
    max_cells_sharing=lambda name, axes: {"place": 12 // (1 + len(axes)), "sex": 5}[name],
)


@pytest.mark.parametrize(
    ("pattern", "records"),
    [
        ({}, 99),
        ({"once_per": ["m"]}, 3),
        ({"once_per": ["m", "a"]}, 12),
        ({"once_per": ["m", "a"], "fixed": ["a"]}, 3),
        ({"per_value": {"m": 2}}, 6),
        ({"separation": {"o": 2}}, 3),
        ({"separation": {"o": 3}, "per_value": {"m": 30}}, 2),
        ({"separation": {"o": 2}, "fixed": ["o"]}, 1),
    ],
)
def test_no_more_records_than_have_place_in_a_pattern(pattern, records):
    unit = PrivacyUnit("person", 99, **pattern)
    assert Adjacency(unit, grid=GRID).records == records
    assert Adjacency(replace(unit, max_records=2), grid=GRID).records == min(2, records)
    assert Adjacency(unit).records == 99
    assert Adjacency(unit, grid=GRID).pattern == (unit.pattern if records > 1 else NO_PATTERN)
    assert Adjacency(replace(unit, max_records=1)).pattern == NO_PATTERN
    assert Adjacency(replace(unit, max_records=2)).pattern == unit.pattern


def test_along_which_axes_attributes_lie():
    """Without a domain each is an axis of its own, or nothing is known about it."""
    assert Adjacency().shared_axes(iter(["a", "b"]), ["b"]) == (["b"], 1)
    assert Adjacency().shared_axes(["a", "b"], ["b", "b"]) == (["b"], 1)
    assert Adjacency().shared_axes(["a"], ["a", "b"]) == (["a"], None)
    adjacency = Adjacency(grid=GRID)
    assert adjacency.shared_axes(iter(["region", "sex"]), ["place"]) == (["region"], 6)
    assert adjacency.shared_axes(["region", "town", "sex"], ["place", "sex"]) == (["region", "town", "sex"], 4 * 5)
    assert adjacency.shared_axes(["sex"], ["place"]) == ([], 12)


def test_a_unit_is_described_with_its_bound_unless_it_is_one_record():
    assert PrivacyUnit().describe() == str(PrivacyUnit()) == "one record, add-or-remove-one"
    assert PrivacyUnit("record", 2).describe() == "one record (at most 2 records), add-or-remove-one"
    assert PrivacyUnit("person", 1, REPLACE).describe() == "one person (at most 1 record), replace-one"
    with refused("spec.neighbours-invalid"):
        PrivacyUnit(neighbours="replace-one")  # others compare by identity


def test_shares_are_counted_of_all_records_by_an_id():
    unit = PrivacyUnit("person", id="pid", count="shares")
    assert (unit.count, unit.parts, unit.bound) == (CountBasis.SHARES, SHARES_PER_RECORD, RecordBound("pid", None))
    assert unit.describe() == "one person (all records, in shares of one, by column 'pid'), add-or-remove-one"
    assert [m.id for m in bound_on_records(unit, LEFT_OUT)] == ["report.records.shares"]
    assert unit.account == "one person (by 'pid'), add-or-remove-one"
    plain_unit = PrivacyUnit("person", id="pid", count=CountBasis.RECORDS)
    assert (plain_unit.count, plain_unit.parts, plain_unit.bound) == (CountBasis.RECORDS, 1, RecordBound("pid", 1))
    for options, code in (
        ({"id": None}, "spec.shares-need-id"),
        ({"max_records": 2}, "spec.shares-count-all-records"),
        ({"once_per": ["m"]}, "spec.shares-count-all-records"),
        ({"max_records": 2, "fixed": ["a"]}, "spec.shares-count-all-records"),
        ({"sum_within_unit": ["pay"]}, "spec.shares-with-sum-within-unit"),
        ({"count": "all"}, "spec.count-invalid"),
    ):
        with refused(code):
            replace(unit, **options)


def test_merged_records_are_described():
    unit = PrivacyUnit("person", 3, id="pid", sum_within_unit=["tax", "pay"])
    assert unit.bound == RecordBound("pid", 3, NO_PATTERN, ("pay", "tax"))
    assert PrivacyUnit("person", 3, id="pid").bound == RecordBound("pid", 3)
    assert 'enforced by column \'pid\', with "pay" and "tax" added up)' in unit.describe()
    assert "added up" not in PrivacyUnit("person", 3, id="pid").describe()
    merged = "records of one person that agree in all else become one, with their pay, tax added up"
    assert english(*merged_records(unit)) == merged
    assert f"by the column 'pid'; {merged}; for a person with more, a rule" in english(
        *bound_on_records(unit, LEFT_OUT)
    )
    plain_unit = PrivacyUnit("person", 3, id="pid")
    assert merged_records(plain_unit) == ()
    assert "by the column 'pid'; for a person with more, a rule" in english(*bound_on_records(plain_unit, LEFT_OUT))
    with refused("spec.sum-within-unit-needs-id"):
        PrivacyUnit("person", 3, sum_within_unit=["pay"])


@pytest.mark.parametrize(
    ("pattern", "pushed_out"),
    [
        ({}, 1),
        ({"once_per": ["m"]}, 1),
        ({"per_value": {"m": 2}}, 1),
        ({"once_per": ["m"], "per_value": {"a": 2}}, 4),
        ({"separation": {"o": 2}}, 4),
        ({"fixed": ["a"]}, 4),
    ],
)
def test_a_record_of_another_unit_pushes_out_one_or_where_several_rules_choose_all(pattern, pushed_out):
    adjacency = Adjacency(PrivacyUnit("person", 4, id="pid", **pattern)).for_unit(PrivacyUnit("visit", 3))
    assert adjacency == Adjacency(PrivacyUnit("visit", 3 * pushed_out, REPLACE), drops=True)


def test_of_another_unit_that_is_counted_otherwise_its_promises_are_kept():
    """This holds for any merging or shares elsewhere; the largest number of records of a unit is allowed."""
    for other in (
        PrivacyUnit("person", id="pid", count="shares"),
        PrivacyUnit("person", 5, id="pid", sum_within_unit=["pay"]),
    ):
        assert Adjacency(PrivacyUnit()).for_unit(other, PrivacyUnit("person", 2)) == Adjacency(PrivacyUnit("person", 2))
        assert Adjacency(PrivacyUnit()).for_unit(other) is None
    largest = PrivacyUnit("person", MAX_RECORDS_PER_UNIT)
    assert Adjacency(PrivacyUnit()).for_unit(largest) == Adjacency(largest)


def test_changes_of_a_unit_that_keeps_to_a_pattern_take_one_record_at_a_time():
    seven = Adjacency(PrivacyUnit("home", 7))
    assert Adjacency(PrivacyUnit("person", 3)).changes(seven) == 3
    assert Adjacency(PrivacyUnit("person", 3, once_per=["m"])).changes(seven) == 7


def test_a_source_tells_its_conditions():
    (condition,) = DataSource(where={"kind": "a"}).conditions
    assert condition.column == "kind"


@pytest.mark.parametrize("name", UNNAMED)
def test_whatever_has_no_honest_name_is_refused(name):
    with refused("spec.unit-name-invalid"):
        PrivacyUnit(name)
    with refused("spec.source-name-invalid"):
        DataSource(name)
    with refused("ledger.account-name-invalid"):
        Account(name, PrivacyUnit())


@pytest.mark.parametrize("unit", ["one record, add-or-remove-one", None, DataSource()])
def test_an_account_takes_a_unit_and_no_sentence(unit):
    with refused("ledger.account-without-unit"):
        Account("survey", unit)


@pytest.mark.parametrize("name", [COMPOSED, "two words", "a:b"])
def test_an_honest_name_is_kept_as_it_is(name):
    charged = account(DataSource(name), PrivacyUnit(name, 2), Domain(a=Ordered(0, 1)).axes)
    assert (charged.source, charged.sentence) == (name, f"one {name} (at most 2 records), add-or-remove-one")


def test_sources_about_the_same_people_share_an_account():
    """Four quarters of a survey are charged as one; a name that adds nothing is no name."""
    quarters = [DataSource(f"survey, quarter {i}", account="survey") for i in range(1, 5)]
    domain = Domain(a=Ordered(0, 1))
    assert {account(q, PrivacyUnit(), domain.axes) for q in quarters} == {Account("survey", PrivacyUnit())}
    assert len({account(replace(q, account=None), PrivacyUnit(), domain.axes) for q in quarters}) == 4
    assert DataSource("survey", account="survey") == DataSource("survey")
    for name in UNNAMED:
        with refused("spec.source-name-invalid"):
            DataSource("survey", account=name)


@pytest.mark.parametrize("policy", ["drop", OutsideDomain.DROP])
def test_records_outside_are_dropped_on_request(policy):
    source = DataSource(outside_domain=policy)
    assert source.outside_domain is OutsideDomain.DROP
    assert source.drops
    assert not DataSource().drops
    for options in ({"outside_domain": "keep"}, {"outside_domain": None}, {"outside_rules": "keep"}):
        with refused("spec.outside-domain-invalid"):
            DataSource(**options)


@pytest.mark.parametrize(
    ("outside_domain", "outside_rules", "drops"),
    [("drop", None, True), ("refuse", None, False), ("refuse", "drop", True), ("drop", "refuse", False)],
)
def test_the_action_for_impossible_records_is_that_of_the_domain_unless_rules_state_one(
    outside_domain, outside_rules, drops
):
    source = DataSource(outside_domain=outside_domain, outside_rules=outside_rules)
    assert source.drops_by_rule == drops
    assert source.drops == (outside_domain == "drop")
    stated = DataSource(outside_domain=outside_domain, outside_rules="drop" if drops else "refuse")
    assert source == stated


@pytest.mark.parametrize("records", [0, -1, 2**62 + 1, True])
def test_a_bound_on_records_is_an_integer_that_64_bits_hold(records):
    for bound in (1, MAX_RECORDS, 2**62):
        assert DataSource(max_records=bound).max_records == bound
    with refused("spec.max-records-invalid"):
        DataSource(max_records=records)
