"""What records of one unit may have in common: exact prices against all sets of records there are."""

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import fitnoise as fn
import zoo
from designs import domain_of, of_sectors, over
from fitnoise.errors import PlanError, SpecError
from fitnoise.kernel.counting import HistogramCounter, Tally
from fitnoise.kernel.designs import sectors
from fitnoise.kernel.designs._base import Cells
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.measure import _counted, _exact, _wanted
from fitnoise.kernel.units import Account, Adjacency, Bound, DataSource, Pattern
from test_order import SECTORS, order
from test_persons import measured

ADD, REPLACE = fn.Neighbours
SMALL = [name for name in zoo.TABLES if name.startswith(("sectors", "the total"))]


def person(most, *once, neighbours=ADD, column=None, name="person"):
    return fn.PrivacyUnit(name, most, neighbours, column, once)


def form(design):
    """X, exact, and the cells of the design's domain by the names of their attributes."""
    domain = domain_of(design)
    answers = []
    for i in range(domain.size):
        counts = HistogramCounter(np.eye(domain.size, dtype=int)[i], domain).count(list(design.margins()))
        answers.append(np.concatenate([y.astype(object) for y in design.exact(Tally(counts), Adjacency(), 2**62)]))
    rates = np.repeat([1 / Fraction(float(s)) ** 2 for s in design.scales], design.portions)
    x = np.array([[sum(rates * a * b, Fraction(0)) for b in answers] for a in answers], dtype=object)
    return x, [dict(zip(domain, place, strict=True)) for place in np.ndindex(*domain.shape)]


def sets_of(cells, once, most):
    """All sets of at most so many cells of which no two are alike in these attributes."""
    for m in range(1, most + 1):
        for chosen in itertools.combinations(range(len(cells)), m):
            if len({tuple(cells[i][a] for a in once) for i in chosen}) == m:
                yield chosen


# --- the price ------------------------------------------------------------------------------------------------------


ONCE = [("a0",), ("a1",), ("o",), ("o0",), ("o1",), ("a0", "o"), ("a0", "a1"), ("o0", "o1")]
CASES = [
    (name, once)
    for name, once in itertools.product(SMALL, ONCE)
    if set(once) <= {a for a, _ in (*zoo.TABLES[name].over.exchangeable, *zoo.TABLES[name].over.structured)}
]


def largest_pair(x, cells, once):
    """The largest product of two records that differ in one of these attributes; None where no two do."""
    pairs = itertools.permutations(range(len(cells)), 2)
    return max((x[i, j] for i, j in pairs if any(cells[i][a] != cells[j][a] for a in once)), default=None)


@pytest.mark.parametrize(("name", "once"), CASES)
def test_no_set_of_records_costs_more_than_the_mean_of_what_its_cells_are_charged(name, once):
    """And the product of two is exactly the largest there is; what is charged is at most g² times one record."""
    design, (x, cells) = zoo.TABLES[name], form(zoo.TABLES[name])
    structured, shape = [a for a, _ in design.over.structured], design.over.shape
    largest = largest_pair(x, cells, once)
    assert largest is None or design.largest_product(once) == largest
    for most in (1, 2, 3, 4):
        charged = design.unit_profile(Adjacency(person(most, *once)))
        assert design.unit_cost(Adjacency(person(most, *once))) == max(charged) <= most**2 * max(design.profile())
        for chosen in sets_of(cells, once, most):
            v = list(chosen)
            places = [np.ravel_multi_index([cells[i][a] for a in structured], shape) if shape else 0 for i in v]
            assert x[np.ix_(v, v)].sum() * len(v) <= sum(charged[p] for p in places)


@pytest.mark.parametrize("examined", ["by sector", "roughly"])
@pytest.mark.parametrize(("name", "once"), CASES)
def test_of_too_many_pairs_an_upper_bound_is_charged(name, once, examined, monkeypatch):
    design = zoo.TABLES[name]
    largest = largest_pair(*form(design), once)
    if largest is not None:
        few = sum(map(len, design.groups)) * design.cells**2
        monkeypatch.setattr(sectors, "MAX_PRODUCTS", few if examined == "by sector" else few - 1)
        assert largest <= design.largest_product(once)
        assert design.unit_cost(Adjacency(person(3, *once))) <= 9 * max(design.profile())


@pytest.mark.parametrize("examined", ["one by one", "by sector", "roughly"])
def test_months_apart_are_told_apart_however_many_pairs_there_are(examined, monkeypatch):
    """Of a table by month alone C is 0 but for the total, which is shared by all months."""
    design = of_sectors(over((12, 3)), ([[1]], {(): ([[1]], 12)}), ([[1]], {(0,): ([[1]], 12)}))
    monkeypatch.setattr(sectors, "MAX_PRODUCTS", {"one by one": 8, "by sector": 2, "roughly": 1}[examined])
    assert design.profile() == (Fraction(1 + 132, 144),)
    shared = {"one by one": 1 - 12, "by sector": 1 - 12, "roughly": 1 + 12}[examined]
    assert design.largest_product(["a0"]) == Fraction(shared, 144)


def test_products_below_nothing_end_at_the_best_number_of_records():
    """Centred counts alone: each further month costs less, and then brings some of it back."""
    design = of_sectors(over((12,)), ([[1]], {(0,): ([[1]], 1)}))
    for most in (1, 2, 5, 6, 7, 12, 10**12):
        best = max(m * 132 - m * (m - 1) * 12 for m in range(1, min(most, 12) + 1))
        assert design.unit_cost(Adjacency(person(most, "a0"))) == best
    assert best == 12 * 6 * 6


def test_of_an_attribute_of_one_value_there_is_one_record():
    design = of_sectors(over((1, 3)), ([[1]], {(): ([[1]], 1)}), ([[1]], {(1,): ([[1]], 1)}))
    assert design.unit_cost(Adjacency(person(9, "a0"))) == design.unit_cost(Adjacency()) == 7


def test_what_tables_do_not_tell_apart_costs_as_if_nothing_were_said():
    """An attribute that is shown in no table, or whose values are alike in all; and one that is a level of another."""
    hidden = of_sectors(over((3, 2)), ([[1]], {(1,): ([[1]], 1)}))
    merged = of_sectors(over((2,), 4), ([[1, 1, 0, 0], [0, 0, 1, 1]], {(0,): ([[1, 0], [0, 1]], 1)}))
    for design, once in ((hidden, ["a0"]), (merged, ["elsewhere"]), (merged, ["o", "elsewhere"])):
        of = Adjacency(person(3, *once))
        assert design.unit_cost(of) == 9 * max(design.profile())
        assert design.loss(of) == design.loss(of.plain)
    assert merged.unit_cost(Adjacency(person(2, "o"))) == 4 * max(merged.profile())
    assert merged.unit_cost(Adjacency(person(3, "o"))) == 5 * max(merged.profile())  # two of them are alike at most


@pytest.mark.parametrize("most", [1, 2, 5])
def test_who_is_replaced_pays_four_times_at_most(most):
    design = of_sectors(over((12, 2)), ([[1]], {(): ([[1]], 9)}), ([[1]], {(0,): ([[1]], 3)}))
    add = design.unit_cost(Adjacency(person(most, "a0")))
    swap = Adjacency(person(most, "a0", neighbours=REPLACE))
    assert design.unit_cost(swap) == min(4 * add, design.unit_cost(swap.plain))
    assert design.loss(swap).rho == design.unit_cost(swap) / 2


@pytest.mark.parametrize("name", [x for x in zoo.TABLES if x not in SMALL])
def test_margins_gain_nothing(name):
    for most, neighbours in itertools.product((1, 3), fn.Neighbours):
        of = Adjacency(person(most, "a0", "o", neighbours=neighbours))
        assert zoo.TABLES[name].loss(of) == zoo.TABLES[name].loss(of.plain)


def test_releases_on_the_same_records_add_up_by_mean():
    """Each is dearest in another cell; who has a record in both pays more than all records in either would."""
    one = of_sectors(over((), 2), ([[2, 1]], {(): ([[1]], 1)}))
    two = of_sectors(over((), 2), ([[1, 2]], {(): ([[1]], 1)}))
    of = Adjacency(person(2, "o"))
    together = sum((d.loss(of) for d in (one, two)), Loss.nothing())
    assert together.rho >= Fraction(3**2 + 3**2, 2)
    assert together.rho == Fraction(12 + 6, 2)


PATTERNS = [
    {"once_per": ["a0", "elsewhere"]},
    {"per_value": {"a0": 2}},
    {"per_value": {"o": 1, "a1": 2}},
    {"per_value": {"elsewhere": 1}},
    {"separation": {"o": 2}},
    {"separation": {"a0": 2}},
    {"separation": {"o0": 2}, "fixed": ["a0"]},
    {"fixed": ["a0", "o"]},
    {"once_per": ["o"], "fixed": ["a0"]},
    {"once_per": ["o1"], "fixed": ["o0"]},
    {"once_per": ["a0"], "per_value": {"o": 2}},
    {"once_per": ["a0"], "fixed": ["a1", "elsewhere"]},
    {"separation": {"elsewhere": 2}, "per_value": {"a0": 2}},
]


def keeps(records, pattern):
    """Whether records, as cells by attribute, keep to a pattern: an independent reading of it."""
    for names, most in ((pattern.once_per, 1), *(((a,), n) for a, n in pattern.per_value)):
        if names and max(Counter(tuple(r[a] for a in names) for r in records).values()) > most:
            return False
    pairs = list(itertools.combinations(records, 2))
    far = all(abs(x[a] - y[a]) >= n for x, y in pairs for a, n in pattern.separation)
    return far and all(x[a] == y[a] for x, y in pairs for a in pattern.fixed)


def admissible(cells, pattern, most):
    """All records that one unit may have, as their places among the cells, which may repeat."""
    for m in range(1, most + 1):
        for chosen in itertools.combinations_with_replacement(range(len(cells)), m):
            if keeps([cells[i] for i in chosen], pattern):
                yield list(chosen)


IN_PATTERN = [
    (name, pattern)
    for name, pattern in itertools.product(SMALL, PATTERNS)
    if set().union(*pattern.values()) <= set(domain_of(zoo.TABLES[name]))
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("name", "pattern"), IN_PATTERN)
def test_nobody_in_a_pattern_costs_more_than_the_mean_of_what_her_cells_are_charged(name, pattern, known):
    """All records that a person may have, looked through one by one; also where the sizes of attributes are unknown."""
    design, (x, cells) = zoo.TABLES[name], form(zoo.TABLES[name])
    structured, shape = [a for a, _ in design.over.structured], design.over.shape
    for most in (2, 3):
        unit = fn.PrivacyUnit("person", most, **pattern)
        of = Adjacency(unit, grid=domain_of(design) if known else None)
        charged = design.unit_profile(of)
        assert max(charged) <= of.records**2 * max(design.profile())
        largest = 0
        for v in admissible(cells, unit.pattern, most):
            places = [np.ravel_multi_index([cells[i][a] for a in structured], shape) if shape else 0 for i in v]
            assert x[np.ix_(v, v)].sum() * len(v) <= sum(charged[p] for p in places)
            largest = max(largest, len(v))
        assert largest <= of.records
        assert not known or largest == of.records or len(unit.pattern.caps) > 1


@pytest.mark.parametrize("examined", ["by sector", "roughly"])
@pytest.mark.parametrize(("name", "pattern"), IN_PATTERN)
def test_and_in_a_pattern_of_too_many_pairs(name, pattern, examined, monkeypatch):
    design, (x, cells) = zoo.TABLES[name], form(zoo.TABLES[name])
    few = sum(map(len, design.groups)) * design.cells**2
    unit = fn.PrivacyUnit("person", 3, **pattern)
    of = Adjacency(unit, grid=domain_of(design))
    finest = design.unit_cost(of)
    monkeypatch.setattr(sectors, "MAX_PRODUCTS", few if examined == "by sector" else few - 1)
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, 3))
    assert worst <= finest
    assert worst <= design.unit_cost(of) <= of.records**2 * max(design.profile())


PLACES = fn.Domain(
    place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c"), ("s", "d")]),
    month=fn.Ordered(1, 2),
    sex=fn.Categorical([*"fm"]),
)
UNEVEN = fn.Domain(
    place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]),
    month=fn.Ordered(1, 2),
    sex=fn.Categorical([*"fm"]),
)


@pytest.mark.parametrize("domain", [PLACES, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize(
    "pattern",
    [
        {"once_per": ["place"]},
        {"once_per": ["place", "sex"]},
        {"per_value": {"place": 2}},
        {"once_per": ["month"], "fixed": ["place"]},
        {"once_per": ["place"], "fixed": ["sex"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("shown", [("region",), ("town",), ("place",), ("region", "town"), ("sex", "region"), ()])
def test_levels_of_places_tell_as_much_apart_as_they_do(domain, pattern, shown):
    """Once per place are as many records in a region as it has places; of many towns each has one."""
    tables = [fn.table(a, margin=5) for a in shown] + [fn.table(*shown[:1], prefix="month", margin=9)]
    plan = fn.plan(fn.Workload(domain, tables))
    design, cells, wanted = plan.strategy, list(np.ndindex(*domain.shape)), _wanted(plan.order)
    answers = []
    for i in range(domain.size):
        counter = HistogramCounter(np.eye(domain.size, dtype=int)[i].reshape(domain.shape), domain)
        found = _exact(plan.order, wanted, *_counted(plan.order, wanted, counter, None))
        answers.append(np.concatenate([y for x in found for y in x]))
    rates = 1 / np.repeat(design.scales, design.portions) ** 2
    x = np.array([[rates @ (a.astype(float) * b.astype(float)) for b in answers] for a in answers])
    named = [dict(zip(domain, c, strict=True)) for c in cells]
    for most in (2, 3):
        unit = fn.PrivacyUnit("person", most, **pattern)
        of = Adjacency(unit, grid=domain)
        worst = max(x[np.ix_(v, v)].sum() for v in admissible(named, unit.pattern, most))
        charged = float(design.unit_cost(of))
        assert worst <= charged * (1 + 1e-9)
        assert charged <= float(of.records**2 * max(design.profile()))
        if pattern == {"once_per": ["place"]} and shown in {("town",), ("place",)}:
            assert charged == pytest.approx(worst, rel=1e-6)
            assert charged < float(of.records**2 * max(design.profile()))


@pytest.mark.parametrize("domain", [PLACES, UNEVEN], ids=["even", "uneven"])
def test_how_many_places_lie_in_one(domain):
    assert [domain.alike("place", axes) for axes in ([], ["region"], ["town"], ["place", "region"])] == [
        len(domain["place"].values), 2, 1, 1,
    ]  # fmt: skip
    assert (domain.alike("sex", []), domain.alike("sex", ["sex"])) == (2, 1)
    if domain is PLACES:
        assert domain.alike("place", ["town in region"]) == 2
        assert domain.alike("place", ["region", "town in region"]) == 1


def test_no_more_records_are_charged_than_have_place():
    """However many are said, and whether a design measures by what they differ in or not."""
    domain = fn.Domain(month=fn.Ordered(1, 5, missing={"unknown": [-1]}), sex=fn.Categorical([*"fm"]))
    unit = partial(fn.PrivacyUnit, "person", 99)
    for most, own in (
        (6, unit(once_per=["month"])),
        (12, unit(once_per=["month", "sex"])),
        (4, unit(per_value={"sex": 2, "month": 3})),
        (3, unit(separation={"month": 2})),
        (2, unit(separation={"month": 5})),
        (1, unit(separation={"month": 6})),
        (99, unit(fixed=["month", "sex"])),
        (2, replace(unit(once_per=["month"]), max_records=2)),
    ):
        assert domain.adjacency(DataSource(), own).records == most
        if own.separation:  # cells beside the order are at no distance from others
            continue
        plan = fn.plan(fn.Workload(domain, [fn.table("sex", margin=5)]), unit=own, privacy="pure")
        assert plan.exact_epsilon == most * fn.plan(fn.Workload(domain, [fn.table("sex", margin=5)]),
                                                    privacy="pure").exact_epsilon  # fmt: skip
    of = domain.adjacency(DataSource(), unit(separation={"month": 6}, neighbours=REPLACE))
    assert not of.fixes_size  # she may have no record in one of the data, and one in the other


# --- the prices that were promised ------------------------------------------------------------------------------------


def priced(domain, once, most, *tables):
    """What a plan for single records costs a person, over g² times what it costs a record; and C over D."""
    design = fn.plan(fn.Workload(domain, list(tables))).strategy
    dearest = max(design.profile())
    ratio = most**2 * dearest / design.unit_cost(Adjacency(person(most, once)))
    return float(ratio), float(design.largest_product([once]) / dearest)


MONTHS = {"month": fn.Categorical([f"M{i:02}" for i in range(12)])}
STATES = {"state": fn.Categorical([f"S{i:02}" for i in range(51)]), "status": fn.Categorical(["a", "b", "c", "d"])}
BY_MONTH = (fn.table("month", "state", margin=15), fn.table("month", "status", margin=15))


@pytest.mark.parametrize(
    ("tables", "gain", "shared"),
    [
        (BY_MONTH[:1], 12, 0),
        (BY_MONTH, 12, 0),
        ((*BY_MONTH, fn.table("state", "status", margin=15)), 2.66, 0.319),
        ((*BY_MONTH, fn.table("state", "status", margin=60)), 10, 0.018),
    ],
)
def test_twelve_records_once_a_month(tables, gain, shared):
    found, product = priced(fn.Domain(MONTHS | STATES), "month", 12, *tables)
    assert found == pytest.approx(gain, rel=5e-3)
    assert product == pytest.approx(shared, abs=2e-3)


def test_twelve_records_once_a_month_of_running_totals():
    domain = fn.Domain({"month": fn.Ordered(1, 12)} | STATES)
    found, product = priced(domain, "month", 12, fn.table("state", prefix="month", margin=15))
    assert (found, product) == (pytest.approx(2.396, rel=5e-3), pytest.approx(0.768, abs=2e-3))


def test_the_price_is_attained_where_one_set_of_records_fits_all_pairs():
    domain = fn.Domain(month=fn.Categorical([*"abc"]), sex=fn.Categorical([*"mf"]), age=fn.Ordered(0, 2))
    tables = [fn.table("month", "sex", margin=5), fn.table("sex", prefix="age", margin=4)]
    design = fn.plan(fn.Workload(domain, [*tables, fn.table("month", prefix="age", margin=9)])).strategy
    x, cells = form(design)
    worst = max(x[np.ix_(v, v)].sum() for v in map(list, sets_of(cells, ["month"], 3)))
    assert float(worst) == pytest.approx(3.406458, rel=1e-6)
    assert worst <= design.unit_cost(Adjacency(person(3, "month"))) <= worst * (1 + Fraction(1, 10**6))


# --- for whom, and on which account -----------------------------------------------------------------------------------


def test_a_unit_says_what_it_is_once_per():
    promised, enforced = person(12, "o", "a0"), person(12, "a0", "o", column="pid")
    assert promised.once_per == ("a0", "o")
    assert promised == person(12, "a0", "o")
    assert promised.bound is None
    assert enforced.bound == Bound("pid", 12, Pattern(("a0", "o")))
    assert (
        promised.describe()
        == promised.account
        == ('one person (at most 12 records, once per "a0" and "o"), add-or-remove-one')
    )
    assert promised.kept == 'at most 12 records of each person, once per "a0" and "o": promised, not checked'
    assert enforced.describe() == (
        'one person (at most 12 records, once per "a0" and "o", enforced by column \'pid\'), add-or-remove-one'
    )
    assert enforced.account == person(1, column="pid").account == "one person (by 'pid'), add-or-remove-one"
    assert enforced.kept.startswith('at most 12 records of each person, once per "a0" and "o": enforced, column')
    assert not Adjacency(person(1, "o")).pattern  # who has one record is once per anything


@pytest.mark.parametrize("once", [["month"], ["a", "b"], ["a and b"], ["it's", "a (at most 2 records"], ["é"]])
def test_an_account_tells_what_its_unit_is_once_per(once):
    for neighbours, most in itertools.product(fn.Neighbours, (1, 12)):
        unit = person(most, *once, neighbours=neighbours)
        assert fn.PrivacyUnit.told(unit.account) == unit
        assert fn.PrivacyUnit.told(person(most, *once, column="pid").account) == person(1, column="pid")


@pytest.mark.parametrize(
    "text",
    [
        'one person (at most 2 records, once per ""), add-or-remove-one',
        'one person (at most 2 records, once per "b" and "a"), add-or-remove-one',
        'one person (at most 2 records, once per "a" and "a"), add-or-remove-one',
        "one person (at most 2 records, once per a), add-or-remove-one",
        'one record (at most 2 records, once per "a"), add-or-remove-one',
    ],
)
def test_no_account_is_called_otherwise(text):
    with pytest.raises(SpecError, match="describes no privacy unit"):
        fn.PrivacyUnit.told(text)


@pytest.mark.parametrize("once", ["month", None, [1], [""], [" a"], ['a"b'], ["a", "a"], ["e\u0301"], {"a"}])
def test_once_per_is_a_list_of_names(once):
    with pytest.raises(SpecError, match=r"list of different attributes of the domain.*nothing was planned"):
        fn.PrivacyUnit("person", 2, once_per=once)


def test_a_record_is_once_per_nothing():
    with pytest.raises(SpecError, match=r"name who has several.*nothing was planned"):
        fn.PrivacyUnit("Record", 2, once_per=["a"])


@pytest.mark.parametrize("once", [["elsewhere"], ["O"], ["o", "elsewhere"]])
def test_what_the_domain_does_not_have_is_refused(once):
    """Also by capitals: what is enforced, and what is priced, goes by one name."""
    for unit in (person(2, *once), person(2, *once, column="pid")):
        with pytest.raises(PlanError, match="in an attribute that the domain does not have"):
            order(SECTORS, unit=unit)
    with pytest.raises(PlanError, match="in an attribute that the domain does not have"):
        order(SECTORS, units=(person(2, *once, name="home"),))


def test_levels_of_places_are_nobodys_cells():
    """Records are counted by leaves: a level of them is no attribute of which one record is kept."""
    domain = fn.Domain(place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]))
    design = of_sectors(Cells((("place", 3),), ()), ([[1]], {(0,): ([[1]], 1)}))
    made = order(SECTORS)
    for once, right in ((["place"], True), (["region"], False), (["town"], False)):
        if right:
            assert replace(made, domain=domain, designs=(design,), unit=person(2, *once)).loss.rho == Fraction(6, 2)
        else:
            with pytest.raises(PlanError, match="in an attribute that the domain does not have"):
                replace(made, domain=domain, designs=(design,), unit=person(2, *once))


def test_a_promise_of_the_cells_of_others_is_not_believed():
    """Not even of units of the same name and text: their attribute may be another one that is called so."""
    once, plain = person(3, "a0"), person(3)
    for own in (fn.PrivacyUnit(), person(3), once, person(3, "o")):
        made = order(SECTORS, unit=own)
        for other in (once, replace(once, neighbours=REPLACE), replace(once, name="home")):
            assert made.cost(other) == made.cost(replace(other, once_per=()))
    made = order(SECTORS, unit=once)
    assert made.loss.rho < order(SECTORS, unit=plain).loss.rho
    assert made.cost(plain) == order(SECTORS, unit=plain).charged()
    assert made.cost(fn.PrivacyUnit()) == order(SECTORS, unit=fn.PrivacyUnit()).charged()


def test_what_is_enforced_holds_for_the_same_persons_under_another_relation():
    for most in (1, 3):
        made = order(SECTORS, unit=person(most, "a0", column="pid"))
        swap = person(most, "a0", column="pid", neighbours=REPLACE)
        assert made.cost(swap) == order(SECTORS, unit=swap).charged()
        assert made.cost(person(7)) == made.charged()  # whoever she was called, so many are counted
        other = replace(swap, once_per=())
        assert made.cost(fn.PrivacyUnit()) == order(SECTORS, unit=other).cost(fn.PrivacyUnit())  # one comes, one goes


def test_records_of_a_person_are_changed_one_at_a_time():
    """Three of them in one cell are no change of a unit that has one a month, but three."""
    once, plain = Adjacency(person(3, "o")), Adjacency(person(3))
    assert (plain.changes(plain), once.changes(plain), once.changes(once), plain.changes(once)) == (1, 3, 3, 1)
    assert once.changes(Adjacency(person(3, neighbours=REPLACE))) == 6
    swap = Adjacency(person(3, "o", neighbours=REPLACE))
    assert swap.changes(Adjacency(fn.PrivacyUnit("person", 3, REPLACE))) == 3


@pytest.mark.parametrize("own", [person(3, "a0"), person(3, "a0", column="pid"), person(3, "a0", neighbours=REPLACE)])
@pytest.mark.parametrize("stated", [(), (fn.PrivacyUnit("home", 5),)])
def test_what_earlier_releases_cost_others_is_never_less_than_it_was(own, stated):
    """A cap on persons anywhere, set later, is not evaded by a release that was once a month."""
    made = order(SECTORS, unit=own, units=stated)
    later = [
        replace(unit, neighbours=n, name=name)
        for n in fn.Neighbours
        for name in ("person", "home", "child")
        for unit in (person(1), person(2), person(3), person(7), person(3, "a0"), person(3, "o"), person(6, "a0"))
    ] + [person(1, column="pid", neighbours=n) for n in fn.Neighbours]
    with Ledger(":memory:") as ledger:
        entry = measured(made, ledger)
        for unit in later:
            if unit.account == own.account:
                continue
            told, cost = entry.price(Account("homes", unit.account)), made.cost(unit)
            assert told is None or (cost is not None and told.rho >= cost.rho)


def test_releases_once_a_month_and_others_add_up_in_one_account():
    units = [person(12, "a0", column="pid"), person(12, column="pid"), person(12, "o", column="pid")]
    with Ledger(":memory:") as ledger:
        paid = [measured(order(SECTORS, unit=u, plan=f"{i:064}"), ledger).rho for i, u in enumerate(units)]
        (account,) = ledger.accounts()
        assert account.unit == "one person (by 'pid'), add-or-remove-one"
        assert ledger.balance(account).spent == sum(paid)
        assert paid[0] < paid[1]


def test_a_promise_does_not_evade_a_cap_for_persons_anywhere():
    """A cap for persons by an id, or with as many records, is charged as if nothing were promised."""
    whole = order(SECTORS, unit=person(3)).loss.rho
    once = order(SECTORS, unit=person(3, "a0"))
    for capped in (person(1, column="pid"), person(3)):
        with Ledger(":memory:") as ledger:
            ledger.set_cap(Account("homes", capped.account), whole)
            ledger.set_cap(Account("homes", once.unit.account), 9 * whole)
            entry = measured(once, ledger)
            assert entry.rho < whole
            assert ledger.balance(Account("homes", capped.account)).remaining == 0


def test_further_units_by_the_id_are_once_per_the_same():
    own = person(3, "a0", column="pid")
    order(SECTORS, unit=own, units=(replace(own, neighbours=REPLACE),))
    for other in (person(3, column="pid", neighbours=REPLACE), person(3, "o", column="pid", neighbours=REPLACE)):
        with pytest.raises(PlanError, match="no further one has its own"):
            order(SECTORS, unit=own, units=(other,))


def test_designs_of_which_nothing_is_proven_for_others_cost_as_if_nothing_were_said():
    """Where a change of the one is not one of the other, what is charged follows from persons anywhere."""
    domain, query = zoo.QUESTIONS["count"]
    of = Adjacency(person(2, "o"))
    answer = zoo.DESIGNS["count by tight constraints"](of)
    made = replace(order(SECTORS), domain=domain, designs=(answer,), unit=of.unit)
    plain = replace(made, unit=of.plain.unit)
    for other in (fn.PrivacyUnit(), person(7), person(7, neighbours=REPLACE)):
        assert made.cost(other) == plain.cost(other)
    assert query.name == "q"
