"""Who is protected, and what is known of the data: the terms every promise is made in."""

import unicodedata
from dataclasses import replace
from functools import cache

import pytest

from fitnoise.errors import LedgerError, SpecError
from fitnoise.kernel.units import (
    MAX_RECORDS,
    MAX_RECORDS_PER_UNIT,
    Account,
    Adjacency,
    DataSource,
    Neighbours,
    OutsideDomain,
    PrivacyUnit,
    account,
)

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
    of = Adjacency(PrivacyUnit("person", records, neighbours), drops=drops)
    assert (of.records, of.steps) == (records, steps)
    assert of.by_cell == (neighbours is ADD)
    assert of.fixes_size == (steps == (REPLACE,))


KINDS = [Adjacency(PrivacyUnit("person", g, n), drops=d) for g in (1, 2, 3) for n in Neighbours for d in (False, True)]
NOWHERE = (0, 0)


def shifted(*vectors):
    return tuple(map(sum, zip(*vectors, strict=True)))


@cache
def reached(of, times):
    """All that so many changes of a unit can do to the counts of two cells."""
    steps = {ADD: [(1, 0), (0, 1)], REPLACE: [(1, -1), (-1, 1)]}
    own = {ADD: steps[ADD], REPLACE: [s for n in of.steps for s in steps[n]] + [(-1, 0), (0, -1)] * (ADD in of.steps)}
    unit, found = {NOWHERE}, {NOWHERE}
    for _ in range(of.records):
        unit |= {shifted(v, s) for v in unit for s in own[of.unit.neighbours]}
    unit |= {(-a, -b) for a, b in unit}  # who can come can go
    for _ in range(times):
        found |= {shifted(v, u) for v in found for u in unit}
    return found


@pytest.mark.parametrize("of", KINDS, ids=str)
def test_so_many_changes_of_one_unit_make_any_of_another(of):
    """By full enumeration; and where none is said, no number of changes does."""
    for other in KINDS:
        times = of.changes(other)
        if times is None:
            assert not reached(other, 1) <= reached(of, 6)
        else:
            assert reached(other, 1) <= reached(of, times)
            assert times <= 2 * -(-other.records // of.records)


def test_a_unit_has_as_many_records_as_either_promise_says():
    person, persons = PrivacyUnit("person", 2), PrivacyUnit("persons", 5)
    assert person.within(PrivacyUnit("Person", 7, REPLACE)) == PrivacyUnit("person", 7)
    assert PrivacyUnit("person", 7).within(person) == PrivacyUnit("person", 7)
    assert person.within(persons) == person


def test_as_many_records_as_a_unit_may_have():
    assert PrivacyUnit("person", MAX_RECORDS_PER_UNIT).cost_factor() == 10**24
    with pytest.raises(SpecError, match="at most 10\\^12"):
        PrivacyUnit("person", MAX_RECORDS_PER_UNIT + 1)


@pytest.mark.parametrize("name", UNNAMED)
def test_whatever_has_no_honest_name_is_refused(name):
    with pytest.raises(SpecError, match="the privacy unit is named"):
        PrivacyUnit(name)
    with pytest.raises(SpecError, match="a data source needs a printable name"):
        DataSource(name)
    for names in ((name, COMPOSED), (COMPOSED, name)):
        with pytest.raises(LedgerError, match="cannot name an account"):
            Account(*names)


def test_an_account_takes_the_text_of_a_unit_and_says_which():
    with pytest.raises(LedgerError, match=r"of a PrivacyUnit what its describe\(\) says; nothing was charged"):
        Account("survey", PrivacyUnit())


@pytest.mark.parametrize("name", [COMPOSED, "two words", "a:b"])
def test_an_honest_name_is_kept_as_it_is(name):
    charged = account(DataSource(name), PrivacyUnit(name, 2))
    assert charged == Account(name, f"one {name} (at most 2 records), add-or-remove-one")


def test_sources_about_the_same_people_share_an_account():
    """Four quarters of a survey are charged as one; a name that says nothing new is none."""
    quarters = [DataSource(f"survey, quarter {i}", account="survey") for i in range(1, 5)]
    assert {account(q, PrivacyUnit()) for q in quarters} == {account(DataSource("survey"), PrivacyUnit())}
    assert len({account(replace(q, account=None), PrivacyUnit()) for q in quarters}) == 4
    assert DataSource("survey", account="survey") == DataSource("survey")
    for name in UNNAMED:
        with pytest.raises(SpecError, match="the account of a data source needs a printable name"):
            DataSource("survey", account=name)


@pytest.mark.parametrize("said", ["drop", OutsideDomain.DROP])
def test_records_outside_are_dropped_where_that_is_said(said):
    source = DataSource(outside_domain=said)
    assert source.outside_domain is OutsideDomain.DROP
    assert source.drops
    assert not DataSource().drops
    with pytest.raises(SpecError, match="'refuse' or 'drop'; got 'keep'"):
        DataSource(outside_domain="keep")


@pytest.mark.parametrize("records", [0, -1, 2**62 + 1, True])
def test_a_bound_on_records_is_a_whole_number_that_integers_hold(records):
    for bound in (1, MAX_RECORDS, 2**62):
        assert DataSource(max_records=bound).max_records == bound
    with pytest.raises(SpecError, match="from 1 to 2\\^62"):
        DataSource(max_records=records)
