"""An order: its cost, its limits, its number of records, and the entry that a ledger gets."""

import hashlib
import itertools
import json
import math
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
import zoo
from designs import cells_over, of_margins, of_sectors
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.codings import Codes
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.domain import Axis, Domain, axis_key
from fitnoise.kernel.immutable import changeable
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.order import CostLimit, DeclaredSize, Order
from fitnoise.kernel.units import Account, Adjacency, DataSource, OutsideDomain
from fitnoise.mechanisms.finite.families import tight_constraints
from fitnoise.mechanisms.finite.ranks import by_ranks
from laws.counting import HistogramCounter
from laws.designs import poisoned, same
from refused import refused
from replayed_noise import Replay

CELLS = cells_over((3,), 2)
SECTORS = of_sectors(CELLS, ([[1, 0], [0, 1]], {(0,): ([[1, 0], [1, 2]], 2.0)}))
TOTALS = of_sectors(CELLS, ([[1, 0], [0, 1]], {(): ([[3, 0], [0, 1]], 1.0)}))
MARGINS = of_margins(CELLS, 4.0, ((0,), [[1, 2]]))
DOMAIN = fn.Domain(o=fn.Ordered(0, 1), a0=fn.Ordered(1, 3))
AXES = DOMAIN.axes
ODD = Domain({**dict(AXES.entries), "a0": Axis(Codes([1, 2, 3]))})  # a list, which could change
O_DEFINITION = b'["o",null,["Range",0,1,false],null]'


def order(*designs, unit=None, **options):
    source = options.pop("source", DataSource("homes"))
    options = {"plan": "0" * 64, "mechanism": "test design"} | options
    return Order(AXES, source, unit or fn.PrivacyUnit("person", 2), designs, **options)


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("records", [0, 4, 5, 6, 7])
def test_data_of_another_size_are_refused_without_saying_theirs(records, exactly):
    size = DeclaredSize(5, exactly)
    if records <= 5 and (not exactly or records == 5):
        size.refuse(records)
        return
    with refused("data.size-misfits-data") as caught:
        size.refuse(records)
    assert f"{'exactly' if exactly else 'at most'} 5 records" in str(caught.value)
    assert ("the data have another number." if exactly else "the data have more.") in str(caught.value)
    assert str(records) not in str(caught.value)


def test_an_order_measures_something_and_of_its_own_domain():
    with refused("plan.order-without-design"):
        order()
    with refused("plan.made-for-another-domain"):
        order(SECTORS, of_margins(cells_over((4,), 2), 1.0, ((0,), [[1, 2]])))


class Text(str):
    """A text that is not quite one."""


class Freely(fn.PrivacyUnit):
    """A unit that costs nothing."""

    def cost_factor(self):
        return 0


class Wide(Domain):
    """A domain that says what it likes."""


class Lying(type(SECTORS)):
    """A design that costs nothing."""

    def loss(self, adjacency):
        return Loss.zero()


HASH = "1" * 64
ONE = Fraction(1)
ANOTHER_TYPE = {
    "domain": [Wide(dict(AXES.entries)), dict(AXES.entries), DOMAIN, None],
    "source": [None, "homes", replace],
    "unit": [Freely("person", 2), None, "person"],
    "designs": [[SECTORS], SECTORS, (SECTORS, "another"), (Lying(SECTORS.structure, SECTORS.groups),), None],
    "plan": [None, b"0" * 64, 5, Text("0" * 64)],
    "mechanism": [None, 5, Text("test design")],
    "limits": [None, [CostLimit("cap", ONE)], ("cap",)],
    "sizes": [None, [DeclaredSize(5, exactly=False)], (5,)],
    "composed_with": [None, [HASH], (5,), (Text(HASH),), HASH],
    "free": [None, 0, "no"],
    "units": [None, [fn.PrivacyUnit("home", 5)], ("home",), (Freely("home", 5),)],
}


@pytest.mark.parametrize("field", [f.name for f in fields(Order)])
def test_a_field_of_an_order_is_of_exactly_its_type(field):
    assert same(order(SECTORS).without_cache(), order(SECTORS))
    for value in ANOTHER_TYPE[field]:
        with refused("plan.order-field-type"):
            replace(order(SECTORS), **{field: value})


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("domain", ODD, "plan.order-field-changeable"),
        ("plan", "0" * 63, "plan.order-plan-not-hash"),
        ("plan", "G" * 64, "plan.order-plan-not-hash"),
        ("plan", "A" * 64, "plan.order-plan-not-hash"),
        ("plan", "0" * 64 + "\n", "plan.order-plan-not-hash"),
        ("composed_with", (HASH, "1" * 63), "plan.order-plan-not-hash"),
        ("composed_with", (HASH, HASH), "plan.order-plans-repeated"),
        ("composed_with", ("0" * 64,), "plan.order-plans-repeated"),
        ("mechanism", "", "plan.order-mechanism-not-printable"),
        ("mechanism", "by\nhand", "plan.order-mechanism-not-printable"),
        ("designs", (), "plan.order-without-design"),
        ("limits", (CostLimit("cap", ONE, (1,)),), "plan.limit-misfits-order"),
        ("limits", (CostLimit("cap", ONE, (0,), (("o", 3),), (1.0, 1.0, 1.0)),), "plan.limit-misfits-order"),
        ("limits", (CostLimit("cap", ONE, None, (("x", 2),), (1.0, 1.0)),), "plan.limit-misfits-order"),
        ("sizes", (DeclaredSize(5, exactly=True),), "plan.exact-size-not-public"),
        ("sizes", (DeclaredSize(5, exactly=False), DeclaredSize(5, exactly=True)), "plan.exact-size-not-public"),
    ],
)
def test_an_order_is_believed_in_nothing_that_it_states(field, value, code):
    with refused(code):
        replace(order(SECTORS), **{field: value})


@pytest.mark.parametrize("source", [DataSource("homes", outside_domain="drop"), DataSource("homes", where={"x": 1})])
def test_an_exact_size_is_stated_only_where_neighbours_fix_it(source):
    """If records can come or go, a refusal of data of another number reveals that one did."""
    sizes, swap = (DeclaredSize(5, exactly=True),), fn.PrivacyUnit("record", 1, fn.Neighbours.REPLACE_ONE)
    assert order(SECTORS, unit=swap, sizes=sizes).adjacency.fixes_size
    for unit, where in (
        (fn.PrivacyUnit("record", 1), DataSource("homes")),
        (replace(swap, name="person", max_records=2), DataSource("homes")),
        (replace(swap, name="person", id="pid"), DataSource("homes")),
        (swap, source),
    ):
        with refused("plan.exact-size-not-public"):
            order(SECTORS, unit=unit, source=where, sizes=sizes)
        order(SECTORS, unit=unit, source=where, sizes=(DeclaredSize(5, exactly=False),))


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "floor"},
        {"name": Text("cap")},
        {"name": None},
        {"rho": -ONE},
        {"rho": 1.0},
        {"rho": 1},
        {"rho": math.nan},
        {"epsilon": -ONE},
        {"epsilon": 0.5},
        {"designs": [0]},
        {"designs": (0, 0)},
        {"designs": (-1,)},
        {"designs": (True,)},
        {"designs": (np.int64(0),)},
        {"axes": [("o", 2)], "shares": (1.0, 1.0)},
        {"axes": (["o", 2],), "shares": (1.0, 1.0)},
        {"axes": (("o", 0),)},
        {"axes": (("o", True),), "shares": (1.0,)},
        {"axes": (("o", 1), ("o", 1)), "shares": (1.0,)},
        {"axes": (("o", 2),)},
        {"axes": (("o", 2),), "shares": (1.0,)},
        {"axes": (("o", 2),), "shares": [1.0, 1.0]},
        {"axes": (("o", 2),), "shares": (0.0, 0.0)},
        {"axes": (("o", 2),), "shares": (1.0, 1.5)},
        {"axes": (("o", 2),), "shares": (1.0, -0.5)},
        {"axes": (("o", 2),), "shares": (1.0, math.nan)},
        {"axes": (("o", 2),), "shares": (1.0, 1)},
        {"shares": (1.0,)},
        {"epsilon_delta": [1.0, 0.1]},
        {"epsilon_delta": (1.0,)},
        {"epsilon_delta": (1, 0.1)},
        {"epsilon_delta": (0.0, 0.1)},
        {"epsilon_delta": (math.inf, 0.1)},
        {"epsilon_delta": (1.0, 1.0)},
        {"epsilon_delta": (1.0, -0.1)},
        {"epsilon_delta": (1.0, math.nan)},
    ],
    ids=str,
)
def test_a_limit_is_made_of_what_limits(arguments):
    with refused(
        "plan.limit-at-invalid",
        "plan.limit-axes-invalid",
        "plan.limit-cost-invalid",
        "plan.limit-designs-invalid",
        "plan.limit-kind-unknown",
        "plan.limit-shares-invalid",
    ):
        CostLimit(**{"name": "cap", "rho": ONE} | arguments)


@pytest.mark.parametrize(
    "arguments", [(-1, True), (5.0, True), (True, True), (np.int64(5), False), (5, 1), (5, None)], ids=str
)
def test_a_size_is_a_number_and_exact_or_not(arguments):
    with refused("plan.size-invalid"):
        DeclaredSize(*arguments)


def test_nothing_in_a_fresh_order_can_be_changed():
    """Lists, mappings and arrays are copied, or refused; an array that was forced open is priced again, and closed."""
    base = order(SECTORS, MARGINS)
    base.designs[0].groups[0].mixing.setflags(write=True)
    fresh = base.without_cache()
    assert changeable(fresh.designs) is None
    assert not any(getattr(g, f.name).flags.writeable for g in fresh.designs[0].groups for f in fields(g))
    for name in ("sizes", "steps", "_by_name", "_shares"):
        with pytest.raises(TypeError, match="does not support item assignment"):
            getattr(AXES, name)["o"] = 7
    query = fn.FiniteQuery.count("ones", people=5, epsilon=1, where={"o": 1})
    answer = AnswerDesign(
        query.in_domain(DOMAIN), ODD, tight_constraints(query.graph(DOMAIN, base.adjacency), 1 / Fraction(2))
    )
    with refused("plan.order-field-changeable"):
        order(answer).without_cache()


def test_further_units_have_the_id_of_the_unit_or_none():
    unit = fn.PrivacyUnit("person", 2, id="pid")
    order(SECTORS, unit=unit, units=(replace(unit, neighbours=fn.Neighbours.REPLACE_ONE), fn.PrivacyUnit("home", 5)))
    for other in (replace(unit, id="x"), replace(unit, name="home"), replace(unit, max_records=3)):
        with refused("plan.unit-with-another-id"):
            order(SECTORS, unit=unit, units=(fn.PrivacyUnit("home", 5), other))


def test_it_is_for_whom_and_from_where_it_says():
    base = order(SECTORS, source=DataSource("homes", outside_domain=OutsideDomain.DROP))
    assert base.adjacency == Adjacency(fn.PrivacyUnit("person", 2), drops=True)
    assert base.account == Account("homes", fn.PrivacyUnit("person", 2))
    assert not order(SECTORS).adjacency.drops


@pytest.mark.parametrize("neighbours", fn.Neighbours)
def test_an_order_costs_the_sum_of_its_designs(neighbours):
    designs = (SECTORS, MARGINS, TOTALS, MARGINS)
    base = order(*designs, unit=fn.PrivacyUnit("person", 2, neighbours))
    assert base.losses == tuple(d.loss(base.adjacency) for d in designs)
    assert base.loss == sum((d.loss(base.adjacency) for d in designs), Loss.zero())
    assert base.loss.rho < sum(x.rho for x in base.losses) or not base.adjacency.by_cell


PEOPLE = [fn.PrivacyUnit("person", g, n) for g in (1, 2, 3) for n in fn.Neighbours]


@pytest.mark.parametrize("drops", [False, True])
def test_an_order_costs_every_other_unit_what_its_integers_cost_there(drops):
    """Exact, and never above the bound from its own cost: k²ρ where k changes of its unit make one of the other's."""
    source = DataSource("homes", outside_domain=OutsideDomain.DROP if drops else OutsideDomain.REFUSE)
    for unit, other in itertools.product(PEOPLE, PEOPLE):
        base = order(SECTORS, MARGINS, unit=unit, source=source)
        seen = base.adjacency.for_unit(other).unit
        assert base.cost(other) == order(SECTORS, MARGINS, unit=seen, source=source).ledger_loss()
        times = base.adjacency.changes(Adjacency(seen, drops=drops))
        assert times is None or base.cost(other).rho <= base.loss.group_loss(times).rho


@pytest.mark.parametrize("origin", ["elsewhere", "these data"])
def test_a_release_that_hides_the_contents_of_records_shows_their_number_by_its_file_only(origin):
    """A record that is added or removed has no bound where the number was counted here, and a small one elsewhere."""
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 9))
    swap = fn.PrivacyUnit("record", 1, fn.Neighbours.REPLACE_ONE)
    workload = fn.Workload(domain, [fn.table("sex", margin=50)])
    plan = fn.plan(workload, unit=swap, public=fn.KnownTotals((), "Register", origin))
    assert plan.loss.rho < Fraction(1, 1000)
    cost = plan.order.cost(fn.PrivacyUnit())
    if origin == "these data":
        assert cost is None
        assert plan.order.detail()["unprotected"] == []
    else:
        assert cost.rho == plan.table_part.strategy.cost_squared(fn.Neighbours.ADD_OR_REMOVE_ONE) / 2
        assert cost.rho == plan.loss.rho / 4
        assert "unprotected" not in plan.order.detail()


@pytest.mark.parametrize(
    ("sizes", "asks_median", "bounded"),
    [
        ((), False, True),
        ((DeclaredSize(5, False),), False, True),
        ((DeclaredSize(5, True),), False, False),
        ((), True, False),
    ],
)
def test_a_release_that_tells_how_many_there_are_has_no_bound_for_one_who_can_come(sizes, asks_median, bounded):
    swap = fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE)
    designs = (SECTORS,)
    if asks_median:
        query = fn.FiniteQuery.median("middle", "o", people=5, epsilon=1)
        designs += (
            AnswerDesign(query.in_domain(DOMAIN), AXES, tight_constraints(query.graph(DOMAIN, Adjacency(swap)), 1)),
        )
    base = order(*designs, unit=swap, sizes=sizes)
    assert (base.cost(fn.PrivacyUnit("home", 1)) is not None) is bounded
    assert ("unprotected" not in base.detail()) is bounded
    assert base.cost(fn.PrivacyUnit("home", 1, fn.Neighbours.REPLACE_ONE)) == base.ledger_loss()


@pytest.mark.parametrize("neighbours", fn.Neighbours)
def test_an_answer_costs_every_record_of_another_unit_what_it_costs_one(neighbours):
    """Exact, also where the unit has fewer records, or more that are no multiple of those of its own."""
    person = fn.PrivacyUnit("person", 2)
    query = fn.FiniteQuery.count("ones", people=5, epsilon=1, where={"o": 1})
    answer = AnswerDesign(
        query.in_domain(DOMAIN), AXES, tight_constraints(query.graph(DOMAIN, Adjacency(person)), Fraction(1, 2))
    )
    base = order(answer, unit=person)
    for records in (1, 2, 5):
        cost = base.cost(fn.PrivacyUnit("home", records, neighbours))
        assert cost.epsilon == records * answer.mechanism.log_ratio() == Fraction(records, 2) * base.loss.epsilon
        assert cost.by_cell is (neighbours is fn.Neighbours.ADD_OR_REMOVE_ONE)


def test_what_an_answer_costs_neighbours_of_another_graph_follows_from_what_it_costs_its_own():
    """A median by ranks, of one who can come or go: a step that replaces is two of them."""
    person = fn.PrivacyUnit("person", 2)
    query = fn.FiniteQuery.median("middle", "o", people=5, epsilon=1)
    graph, ranks = query.graph(DOMAIN, Adjacency(person)), query.terms.ranks(Adjacency(person))
    base = order(AnswerDesign(query.in_domain(DOMAIN), AXES, by_ranks(graph, Fraction(1, 2), ranks)), unit=person)
    for unit, times in ((fn.PrivacyUnit("home", 5), Fraction(5, 2)), (PEOPLE[1], 2), (PEOPLE[5], 4)):
        assert base.cost(unit).epsilon == times * base.loss.epsilon


def test_an_answer_is_measured_only_at_the_price_that_its_question_names():
    query = fn.FiniteQuery.count("ones", people=5, epsilon=1, where={"o": 1})
    adjacency = Adjacency(fn.PrivacyUnit("person", 2))
    for epsilon in (Fraction(1), Fraction(1, 4)):
        base = order(
            AnswerDesign(query.in_domain(DOMAIN), AXES, tight_constraints(query.graph(DOMAIN, adjacency), epsilon))
        )
        with refused("plan.mechanism-of-another-question"):
            base.without_cache()


@pytest.mark.parametrize("neighbours", zoo.ADJACENCIES)
def test_an_answer_is_proven_and_reported_for_the_unit_of_the_order(neighbours):
    adjacency = zoo.ADJACENCIES[neighbours]
    adjacency = adjacency if adjacency.pattern.names <= {"o"} else adjacency.without_pattern
    answer = zoo.DESIGNS["sum by tight constraints"](adjacency)
    source = DataSource("homes", outside_domain=OutsideDomain.DROP if adjacency.drops else OutsideDomain.REFUSE)
    fresh = Order(answer.domain, source, adjacency.unit, (answer,), "0" * 64, "test design").without_cache()
    assert same(fresh.designs, (answer,))
    assert fresh.detail()["questions"][0]["epsilon"] == str(fresh.loss.epsilon) == str(answer.loss(adjacency).epsilon)


def test_what_was_computed_before_is_forgotten():
    base = order(SECTORS, MARGINS, limits=(CostLimit("cap", Fraction(1)),))
    spoilt = replace(base, designs=tuple(map(poisoned, base.designs)))
    fresh = spoilt.without_cache()
    assert same(fresh.designs, base.designs)
    assert fresh.loss == base.loss
    assert (fresh.limits, fresh.plan, fresh.domain) == (base.limits, base.plan, base.domain)


def test_each_limit_counts_the_designs_it_is_for():
    shares = ((("o", 2),), (1.0, 1 / 64))
    limits = (
        CostLimit("cap", Fraction(7)),
        CostLimit("budget", Fraction(2), (0,)),
        CostLimit("budget", Fraction(3), (1, 2), *shares),
        CostLimit("budget", Fraction(4), ()),
    )
    base = order(SECTORS, TOTALS, MARGINS, limits=limits)
    one, second, third = base.losses
    both = second + third
    assert list(base.against_limits()) == list(zip(limits, (base.loss, one, both, Loss.zero()), strict=True))
    assert [x.relative_cost(loss).rho for x, loss in base.against_limits()][:2] == [base.loss.rho, one.rho]
    assert limits[2].relative_cost(both) == both.relative_to_budgets(*shares)
    assert both.relative_to_budgets(*shares).rho > both.rho
    assert list(order(SECTORS).against_limits()) == []


def measured(base, ledger):
    counter = HistogramCounter(np.zeros(DOMAIN.shape, dtype=int), AXES)
    return measuring.measure(base, counter, ledger, noise=Replay()).charge


def test_a_limit_on_epsilon_is_about_nothing_else():
    exact = order(MARGINS).loss.epsilon
    with Ledger(":memory:") as ledger:
        assert measured(order(MARGINS, limits=(CostLimit("cap", Fraction(0), epsilon=exact),)), ledger).epsilon == exact
        less = CostLimit("cap", Fraction(10**6), epsilon=exact - Fraction(1, 2**80))
        for base in (order(MARGINS, limits=(less,)), order(SECTORS, limits=(replace(less, epsilon=Fraction(10**6)),))):
            with refused("plan.plan-above-limit"):
                measured(base, ledger)


def test_further_units_are_charged_on_accounts_of_their_own():
    household = fn.PrivacyUnit("household", 6)
    base = order(SECTORS, units=(household,))
    with Ledger(":memory:") as ledger:
        entry = measured(base, ledger)
        other = Account(base.account.source, household)
        assert ledger.accounts() == [base.account, other]
        assert entry.price(other).rho == 9 * base.loss.rho == base.losses_of_units(())[other].rho


def test_a_charge_on_another_account_has_the_same_source():
    """And once: a further unit may be its own."""
    base = order(SECTORS, units=(fn.PrivacyUnit("person", 2),))
    household, soul = fn.PrivacyUnit("household", 6), fn.PrivacyUnit("soul", id="soul")
    others = [base.account, Account("elsewhere", household), Account("homes", soul)]
    assert base.losses_of_units(others) == base.losses_of_units(()) == {}
    assert set(base.losses_of_units([*others, Account("homes", household)])) == {Account("homes", household)}


def test_a_limit_at_epsilon_and_delta_is_kept_by_what_stays_within_it():
    loss = order(SECTORS, MARGINS).loss
    point = 1.0, loss.delta_at(1.0)
    nothing = CostLimit("cap", Fraction(0), epsilon_delta=point)
    assert nothing.allows(loss)
    assert not replace(nothing, epsilon_delta=(1.0, math.nextafter(point[1], 0))).allows(loss)
    assert not replace(nothing, epsilon_delta=None).allows(loss)
    assert CostLimit("cap", loss.rho, epsilon_delta=(1.0, 0.0)).allows(loss)


def test_a_further_unit_that_nothing_bounds_is_refused_before_any_data_are_read():
    swap, size = fn.PrivacyUnit("record", 1, fn.Neighbours.REPLACE_ONE), DeclaredSize(9, exactly=True)
    base = order(SECTORS, unit=swap, sizes=(size,), units=(fn.PrivacyUnit(),))
    with Ledger(":memory:") as ledger:
        with refused("plan.cost-of-unit-unbounded"):
            measured(base, ledger)
        assert ledger.entries() == []


@pytest.mark.parametrize("what", ["cap", "budget"])
def test_a_limit_may_be_reached_and_not_passed(what):
    exact = order(SECTORS).loss.rho
    with Ledger(":memory:") as ledger:
        assert measured(order(SECTORS, limits=(CostLimit(what, exact),)), ledger).rho >= exact
        with refused("plan.plan-above-limit"):
            measured(order(SECTORS, limits=(CostLimit(what, exact - Fraction(1, 2**80)),)), ledger)


def test_what_is_free_is_charged_only_where_nothing_grows():
    """With costs of 8 and 2 by cell, the second has room for 6."""
    base_design, room, costly = (
        of_sectors(cells_over((), 2), ([row], {(): ([[1]], 1.0)})) for row in ([2, 1], [0, 1], [0, 2])
    )
    with Ledger(":memory:") as ledger:
        assert measured(order(base_design), ledger).rho == 8
        for design, fits in ((costly, False), (room, True)):
            base = order(design, plan="1" * 64, composed_with=("0" * 64,), free=True)
            if fits:
                assert measured(base, ledger).rho == 2
            else:
                with refused("ledger.free-plan-costs"):
                    measured(base, ledger)
            assert ledger.balance(base.account).spent == 8
        assert measured(replace(base, plan="2" * 64, designs=(costly,), free=False), ledger).rho == 8
        assert ledger.balance(base.account).spent == 12


def test_axes_are_charged_under_all_that_decides_their_cells():
    base = order(SECTORS, TOTALS)
    key = f"o:{hashlib.sha256(O_DEFINITION).hexdigest()}"
    assert axis_key(AXES, "o") == key
    assert base.ledger_loss() == replace(base.loss, axes=((key, 2),))


def test_cells_for_missing_values_are_numbered_as_they_are_declared():
    """Cells in another order are other cells: a charge by cell must not take one for the other."""
    one, other = (
        fn.Domain(o=fn.Categorical(["a"], missing={x: [x] for x in names})) for names in (("u", "v"), ("v", "u"))
    )
    assert axis_key(one.axes, "o") != axis_key(other.axes, "o")


def test_records_may_keep_to_a_pattern_in_every_attribute_that_there_is():
    both = order(SECTORS, unit=fn.PrivacyUnit("person", 2, once_per=["o", "a0"]))
    assert both.loss.rho == SECTORS.loss(both.adjacency).rho
    with refused("plan.pattern-unknown-attribute"):
        order(SECTORS, unit=fn.PrivacyUnit("person", 2, once_per=["o", "a0", "a1"]))


def test_what_a_pattern_saves_another_unit_is_not_believed_and_what_is_promised_of_it_is():
    """No rule enforces the separation of a household's records; its limit of five persons' records is declared."""
    home = fn.PrivacyUnit("household", 6, once_per=["o"])
    base = order(SECTORS, units=(replace(home, max_records=5),))
    assert base.cost(home) == base.cost(replace(home, once_per=()))
    assert base.cost(replace(home, max_records=3)) == base.cost(replace(home, max_records=5, once_per=()))


def test_a_ledger_entry_has_every_design_in_order():
    base = order(SECTORS, MARGINS, TOTALS)
    detail = base.detail()
    assert (detail["plan"], detail["mechanism"], detail["rho"]) == ("0" * 64, "test design", str(base.loss.rho))
    details = [d.ledger_detail(base.adjacency) for d in base.designs]
    assert detail["sectors"] == details[0]["sectors"] + details[2]["sectors"]
    assert detail["margins"] == details[1]["margins"]
    assert detail["numbers"] == details[1]["numbers"]
    assert set(detail) == {"plan", "mechanism", "rho", "sectors", "margins", "numbers"}
    json.loads(json.dumps(detail), parse_float=pytest.fail)


def test_a_ledger_entry_has_the_cost_of_gaussian_noise_where_its_lattice_is_fine():
    fine = of_sectors(CELLS, ([[1, 0], [0, 1]], {(): ([[3, 0], [0, 1]], 2048.0)}))
    base = order(fine, MARGINS)
    assert base.loss.mu_squared > base.loss.gaussian_mu_squared > 0
    assert 0 <= Fraction(base.detail()["gaussian"]) - base.loss.gaussian_mu_squared < Fraction(1, 2**64)
    assert order(MARGINS).detail()["gaussian"] == "0"
