"""Totals counted from the data: records that are replaced within them, their prices, refusals and accounts."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
from dense import kron
from designs import cells_over, of_sectors
from fitnoise.errors import FitnoiseError
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel import noise
from fitnoise.kernel.designs._base import PublicCells
from fitnoise.kernel.domain import cell_key
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account, Adjacency, Neighbours, PrivacyUnit
from fitnoise.reading.registry import registry_record
from fitnoise.reading.release_files import to_json
from fitnoise.request.known_totals import KnownTotals, confirmation
from fitnoise_check import plan as checker
from fitnoise_check.exact import Wrong
from refused import refused
from replayed_noise import Replay
from test_known_totals import PLACES, REGISTER, STATES, files_without_charge, of_sizes

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
CELLS = "0123456789abcdef" * 4


def person(*held, neighbours=REPLACE, **settings):
    return PrivacyUnit("person", neighbours=neighbours, within=held, **settings)


def counted_here(*attributes):
    return KnownTotals(attributes, REGISTER, "these data")


def planned(sizes, tables, public, unit=None, **settings):
    workload = fn.Workload(of_sizes(**sizes), [fn.table(*a, variance=c) for a, c in tables])
    unit = person(*public) if unit is None else unit
    return fn.plan(workload, unit=unit, public=KnownTotals(tuple(public), REGISTER, "these data"), **settings)


# --- prices -----------------------------------------------------------------------------------------------------------

CASES = [
    ({"a": 3, "b": 4}, [("a", 1), ("ab", 1)], "a", 1.5),
    ({"a": 2, "b": 3}, [("ab", 1), ("b", 0.5), ("a", 1)], "a", 3.047619),
    ({"a": 2, "b": 2, "c": 3}, [("ab", 1), ("bc", 1), ("c", 0.3)], "a", 5.601932),
    ({"a": 2, "b": 2, "c": 3}, [("abc", 1), ("bc", 0.7)], "ab", 2.308802),
    (*STATES, ("state",), 2 * 0.031585),
    (*STATES, ("state", "status"), 2 * 0.021341),
    (*PLACES, ("block",), 2 * 0.018285),
]


@pytest.mark.parametrize(("sizes", "tables", "public", "cost"), CASES)
def test_prices_are_those_of_records_replaced_within_the_totals(sizes, tables, public, cost):
    plan = planned(sizes, tables, public, gap=1e-7)
    assert float(plan.loss.cost_squared) == pytest.approx(cost, abs=1e-6)
    assert plan.gap <= 1e-7
    assert [*checker.check(plan.to_json().encode())][-1].startswith("  bound as stated")


@pytest.mark.parametrize(("sizes", "tables", "public", "cost"), CASES[:4])
def test_totals_from_elsewhere_cost_no_less_where_any_record_replaces_another(sizes, tables, public, cost):
    """For exchangeable attributes, the costliest two records agree in the public ones."""
    workload = fn.Workload(of_sizes(**sizes), [fn.table(*a, variance=c) for a, c in tables])
    plan = fn.plan(workload, unit=person(), public=KnownTotals(tuple(public), REGISTER), gap=1e-7)
    assert float(plan.loss.cost_squared) == pytest.approx(cost, abs=1e-6)
    assert plan.gap <= 1e-7
    assert plan.loss.cost_squared == largest_change(plan.table_part.strategy, ())


def dense_rows(design):
    """Yield the integer matrix and the squared scale of each sector, one column for each joint cell."""
    for s in design.sectors:
        centred = [np.array([[1, -1]]) if n == 2 else n * np.eye(n, dtype=int) - 1 for n in design.sizes]
        ones = [np.ones((1, n), int) for n in design.sizes]
        axes = [centred[a] if a in s.attributes else ones[a] for a in range(len(design.sizes))]
        yield kron([*axes, np.array(s.rows, dtype=int)]), Fraction(float(s.scale)) ** 2


def largest_change(design, held, *, is_single=False):
    """Return Δ² of records that agree on the attributes at these positions, or come and go alone: cell by cell."""
    cells, rows = [*itertools.product(*map(range, design.sizes), range(design.cells))], [*dense_rows(design)]

    def cost(change):
        return sum((Fraction(int(((m @ change) ** 2).sum())) / square for m, square in rows), Fraction(0))

    eye = np.eye(len(cells), dtype=int)
    pairs = itertools.combinations(range(len(cells)), 2)
    changes = [eye[i] - eye[j] for i, j in pairs if all(cells[i][a] == cells[j][a] for a in held)]
    return max(map(cost, [*changes, *(eye if is_single else ())]), default=Fraction(0))


def draw_design(sizes, cells, rng, scale=1.0):
    """Return a strategy of random integers on random sectors of attributes of these sizes."""
    subsets = [tuple(a for a in range(len(sizes)) if mask >> a & 1) for mask in range(2 ** len(sizes))]
    chosen = [s for s in subsets if rng.random() < 0.7] or [subsets[-1]]
    by_size = {}
    for s in chosen:
        by_size.setdefault(len(s), {})[s] = ([[int(rng.integers(1, 5))]], scale * float(rng.integers(1, 9)))
    groups = []
    for sectors in by_size.values():
        basis = rng.integers(-3, 4, (1, cells))
        groups.append(((basis + (basis == 0).all()).tolist(), sectors))
    return of_sectors(cells_over(sizes, cells), *groups)


drawings = st.tuples(st.lists(st.integers(2, 3), min_size=1, max_size=3), st.integers(1, 3), st.integers(0, 2**32))


@given(drawings)
def test_the_kernel_prices_records_that_agree_within(case):
    sizes, cells, seed = case
    rng = np.random.default_rng(seed)
    design = draw_design(tuple(sizes), cells, rng)
    held = [a for a in range(len(sizes)) if rng.random() < 0.6]
    names = tuple(f"a{a}" for a in held)
    unit = person(*names, max_records=int(rng.integers(1, 4)))
    expected = largest_change(design, held) * unit.max_records**2
    if names:
        assert design.unit_cost(Adjacency(unit)) == expected
        # left-out records can come and go alone
        both = largest_change(design, held, is_single=True) * unit.max_records**2
        assert design.unit_cost(Adjacency(unit, drops=True)) == both
    assert design.cost_squared(REPLACE, names) == largest_change(design, held)
    # an attribute that the design lacks distinguishes no records
    assert design.cost_squared(REPLACE, (*names, "other")) == largest_change(design, held)


def test_many_attributes_within_leave_few_patterns():
    """The limit on patterns counts the attributes in which records can differ."""
    sizes = (2,) * 16
    one = of_sectors(cells_over(sizes), ([[1]], {(0, 1): ([[1]], 1.0)}), ([[1]], {(2,): ([[3]], 1.0)}))
    assert one.cost_squared(REPLACE, ("a2", "a3")) == 4
    assert one.cost_squared(REPLACE, ("a0", "a2", "a3")) == 4
    assert one.cost_squared(REPLACE) == 40


@given(drawings)
def test_the_kernel_measures_no_row_that_the_totals_give(case):
    """A design exists if and only if its rows of a sector of public attributes alone change sign, or touch 0."""
    sizes, cells, seed = case
    rng = np.random.default_rng(seed)
    design, held = draw_design(tuple(sizes), cells, rng), {a for a in range(len(sizes)) if rng.random() < 0.6}
    inside = [s.rows for s in design.sectors if held.issuperset(s.attributes)]
    good = all(min(row) <= 0 <= max(row) and any(row) for rows in inside for row in rows.tolist())
    names = tuple(f"a{a}" for a in held)
    structure = replace(design.structure, public=PublicCells(tuple(sorted(held)), (0,) * cells))
    if good:
        replace(design, structure=structure).check_totals(Adjacency(person(*names)))
        with refused("plan.within-total-measured"):
            replace(design, structure=structure).check_totals(Adjacency(person(*names, "other")))
    else:
        with refused("plan.public-total-measured"):
            replace(design, structure=structure)
    design.check_totals(Adjacency())
    if names:
        with refused("plan.within-total-measured"):
            design.check_totals(Adjacency(person(*names)))


def test_answers_of_a_plan_within_cost_a_record_that_comes_or_goes_a_finite_amount():
    design = planned({"a": 3, "b": 4}, [("a", 1), ("ab", 1)], "a").table_part.strategy
    assert all("b" in {design.structure.names[a] for a in s.attributes} for s in design.sectors)
    come, inside = (design.unit_cost(Adjacency(person(*x, neighbours=n))) for x, n in (("", ADD), ("a", REPLACE)))
    assert come == max(design.profile())
    assert inside / 4 <= come <= inside


# --- units, accounts and their prices ---------------------------------------------------------------------------------


def account(*held, neighbours=REPLACE, **settings):
    return Account("people", person(*held, neighbours=neighbours, **settings), tuple((a, CELLS) for a in held))


def test_the_account_names_the_attributes():
    unit = person("state")
    assert unit.account == 'one person (at most 1 record), replace-one within "state"'
    assert PrivacyUnit(neighbours=REPLACE, within=["b", "a"]).describe() == 'one record, replace-one within "a" and "b"'
    one = account("state")
    assert one.document["within"] == [["state", CELLS]]
    assert Account.parse("people", one.document) == one
    assert one != Account("people", person("state"), (("state", "f" * 64),))
    with refused("ledger.account-cells-invalid"):
        Account("people", person("state"))


@pytest.mark.parametrize(
    "settings",
    [
        {"neighbours": ADD},
        {"id": "id"},
        {"max_records": 2, "once_per": ["month"]},
        {"max_records": 2, "fixed": ["year"]},
    ],
)
def test_within_needs_replaced_records(settings):
    with refused("spec.within-needs-replace-one"):
        PrivacyUnit("person", **({"neighbours": REPLACE, "within": ["state"]} | settings))


def test_within_names_attributes_once():
    for names in ("state", ["state", "state"], [1]):
        with refused("spec.unit-attributes-invalid"):
            PrivacyUnit("person", neighbours=REPLACE, within=names)


# Charges by row, other units by column: the multiple of ρ that bounds the other unit, or None.
UNITS = {
    "come and go": person(neighbours=ADD),
    "replaced": person(),
    "within state": person("state"),
    "within state and sex": person("sex", "state"),
    "within sex": person("sex"),
}
BOUNDS = {
    "come and go": (1, 4, 4, 4, 4),
    "replaced": (None, 1, 1, 1, 1),
    "within state": (None, None, 1, 1, None),
    "within state and sex": (None, None, None, 1, None),
    "within sex": (None, None, None, 1, 1),
}


@pytest.mark.parametrize("charged", UNITS)
@pytest.mark.parametrize("other", UNITS)
def test_a_charge_bounds_the_units_of_the_table(charged, other):
    """All pairs of a charge and a unit of one source, where the ledger knows the price of the charge alone."""
    one, two = (Account("people", u, tuple((a, CELLS) for a in u.within)) for u in (UNITS[charged], UNITS[other]))
    factor = BOUNDS[charged][list(UNITS).index(other)]
    with Ledger(":memory:") as book:
        book.charge(one, Loss.concentrated(Fraction(3, 8)), {"plan": "p"})
        (entry,) = book.entries()
        price = entry.price(two)
        assert (None if price is None else price.rho) == (None if factor is None else Fraction(3, 8) * factor)
        spent = book.balance(two).spent
        assert spent == (None if factor is None else Fraction(3, 8) * factor)


def test_attributes_of_the_same_name_with_other_cells_are_others():
    coarse = Account("people", person("state"), (("state", "f" * 64),))
    with Ledger(":memory:") as book:
        book.charge(account("state"), Loss.concentrated(Fraction(1, 2)), {"plan": "p"})
        (entry,) = book.entries()
        assert entry.price(coarse) is None
        assert entry.price(account("state")).rho == Fraction(1, 2)


def test_several_records_of_a_unit_are_replaced_one_for_one():
    three = person("state", max_records=3)
    assert Adjacency(three).step_relations == (REPLACE,)
    assert Adjacency(three).fixes_size
    assert Adjacency(three, drops=True).step_relations == (REPLACE, ADD)
    assert Adjacency(person("state")).changes(Adjacency(three)) == 3
    assert Adjacency(person()).changes(Adjacency(three)) == 3
    assert Adjacency(three).changes(Adjacency(person(max_records=3))) is None
    # data of persons by an id: a record that is pushed out may differ in everything
    by_id = Adjacency(PrivacyUnit("household", 2, id="home"))
    assert by_id.for_unit(person("state")).unit.within == ()


def test_conditions_hold_for_both_records():
    domain = of_sizes(state=2, sex=3).axes
    source = fn.DataSource("people", where={"age": {"at_least": 18}})
    assert not domain.adjacency(source, person("state")).drops
    assert domain.adjacency(source, person()).drops
    # data counted for another unit: there a record may stop meeting the condition
    relation = domain.adjacency(source, person(neighbours=ADD)).for_unit(person("state"))
    assert relation.step_relations == (REPLACE, ADD)


# --- plans and orders -------------------------------------------------------------------------------------------------

SIZES, TABLES = {"state": 3, "sex": 2}, [(("state", "sex"), 9.0), (("sex",), 9.0)]
PLAN = planned(SIZES, TABLES, ("state",), source=fn.DataSource("people"))


@pytest.mark.parametrize(
    ("unit", "public"),
    [
        (person("state"), None),
        (person("state"), KnownTotals(("state",), REGISTER)),
        (person("state"), counted_here("sex")),
        (person("state"), counted_here("state", "sex")),
        (person(), counted_here("state")),
        (person(max_records=2), counted_here()),
        (person(neighbours=ADD), counted_here()),
        (person(neighbours=ADD), counted_here("state")),
    ],
)
def test_within_needs_totals_of_these_data(unit, public):
    with refused("spec.public-within-misfit", key="privacy.within"):
        fn.plan(fn.Workload(of_sizes(**SIZES), [fn.table("state", "sex", margin=9)]), unit=unit, public=public)


@pytest.mark.parametrize(
    "settings",
    [
        {"source": fn.DataSource("people", outside_domain="drop")},
        {"other_units": (PrivacyUnit("home", 4, REPLACE),)},
        {"privacy": fn.Privacy.PURE},
    ],
)
def test_settings_that_do_not_fit_are_refused(settings):
    with refused("spec.public-unsupported", key="public"):
        planned(SIZES, TABLES, ("state",), **settings)


def test_the_kernel_refuses_left_out_records_and_other_designs():
    order = PLAN.order
    with refused("plan.within-total-measured"):
        replace(order, source=fn.DataSource("people", outside_domain="drop"))
    with refused("plan.within-total-measured"):
        replace(order, unit=person("state", "sex"))
    with refused("plan.cost-of-unit-unbounded"):
        replace(order, units=(PrivacyUnit("home", 4, REPLACE),)).losses_of_units(())
    workload = fn.Workload(of_sizes(**SIZES), [fn.table("state", "sex", margin=9)])
    laplace = fn.plan(workload, privacy=fn.Privacy.PURE).order
    with refused("plan.within-design-unsupported"):
        replace(laplace, unit=person("state"))


def test_an_order_prices_other_units_as_the_table_says():
    domain = of_sizes(**SIZES).axes
    digests = {a: cell_key(domain, a) for a in SIZES}

    def stored(*held, neighbours=REPLACE):
        return Account("people", person(*held, neighbours=neighbours), tuple((a, digests[a]) for a in sorted(held)))

    finer, others = stored("state", "sex"), [stored(), stored(neighbours=ADD), stored("sex")]
    assert PLAN.order.account == stored("state")
    assert PLAN.order.losses_of_units([finer, *others, account("state")]).keys() == {finer}
    assert PLAN.order.losses_of_units([finer])[finer].rho == 0
    usual = fn.plan(PLAN.publication.workload, unit=person(neighbours=ADD), source=fn.DataSource("people"))
    costs = usual.order.losses_of_units([stored("state"), stored("state", "sex"), stored(), account("state")])
    design = usual.table_part.strategy
    assert costs[stored("state")].cost_squared == largest_change(design, [0])
    assert costs[stored("state", "sex")].rho == 0
    # an account with other cells of that name: any record can replace another
    assert costs[account("state")].cost_squared == costs[stored()].cost_squared == largest_change(design, [])


def test_other_conditions_are_another_promise():
    """A record can keep its state and no longer meet a condition, which changes the totals of those that meet it."""
    adults = fn.DataSource("people", where={"age": {"at_least": 18}})
    part = planned(SIZES, TABLES, ("state",), source=adults).order
    assert part.account.unit == PLAN.order.account.unit
    assert part.account != PLAN.order.account
    assert part.losses_of_units([PLAN.order.account]) == PLAN.order.losses_of_units([part.account]) == {}
    with Ledger(":memory:") as book:
        for order in (PLAN.order, part):
            book.charge(order.account, Loss.concentrated(Fraction(3, 8)), {"plan": order.plan})
        assert [book.balance(order.account).spent for order in (PLAN.order, part)] == [None, None]
    usual = fn.plan(PLAN.publication.workload, unit=person(neighbours=ADD), source=adults)
    design = usual.table_part.strategy
    costs = usual.order.losses_of_units([part.account, PLAN.order.account])
    assert costs[part.account].cost_squared == largest_change(design, [0], is_single=True)
    assert costs[PLAN.order.account].cost_squared == largest_change(design, [], is_single=True)


def test_a_changed_plan_is_refused():
    text = PLAN.to_json()
    for old, new in (
        ('"origin":"these data"', '"origin":"elsewhere"'),
        ('"within":["state"]', '"within":["sex"]'),
        ('"neighbours":"replace-one",', ""),
    ):
        assert old in text
        with pytest.raises((Wrong, KeyError)):
            [*checker.check(text.replace(old, new).encode())]
        with pytest.raises(FitnoiseError):
            fn.Plan.from_json(text.replace(old, new))


def test_evidence_outside_the_totals_proves_nothing():
    part = PLAN.table_part
    pairs = replace(part.evidence.pairs, agree=tuple(0 for _ in part.evidence.pairs.agree))
    with refused("plan.evidence-outside-within"):
        replace(part, evidence=replace(part.evidence, pairs=pairs)).bound  # noqa: B018 - it is computed


# --- releases ---------------------------------------------------------------------------------------------------------

COUNTS = np.array([[20, 30], [25, 5], [40, 7]])
TEXT = "state,number\n0,50\n1,30\n2,47\n"
SENTENCE = (
    "The numbers of persons by state are counted from these data and published without protection. Whoever knows "
    "everyone else in a state learns from them whether a person is counted there. What the records say besides is "
    "protected."
)


def release(folder, data=COUNTS, plan=PLAN, name="out", **options):
    (folder / "totals.csv").write_text(TEXT)
    given_options = {"public": folder / "totals.csv", "public_confirm": SENTENCE} | options
    return fn.release(plan, data, ledger=folder / "ledger.db", directory=folder / name, **given_options)


def test_the_publisher_confirms_what_is_not_protected(tmp_path):
    assert confirmation("totals.csv", counted_here("state"), "person") == SENTENCE
    assert "in an area learns" in confirmation("t.csv", counted_here("area"), "adult")
    assert "whether an adult is" in confirmation("t.csv", counted_here("area"), "adult")
    assert "in a cell of state and sex learns" in confirmation("t.csv", counted_here("state", "sex"), "person")
    elsewhere = "The numbers in totals.csv were public before and were not computed from these data."
    for wrong in (None, elsewhere):
        with refused("release.public-not-confirmed"):
            release(tmp_path, public_confirm=wrong)
    assert not (tmp_path / "ledger.db").exists()


def test_a_release_states_what_it_does_not_protect(tmp_path):
    result = release(tmp_path)
    assert result.count(by="state").frame()["value"].tolist() == [50, 30, 47]
    with Ledger(tmp_path / "ledger.db") as book:
        charge = book.entries()[0]
        assert charge.detail["unprotected"] == ["state"]
        assert charge.detail["confirmed"] == SENTENCE
        assert charge.account.unit.account == 'one person (at most 1 record), replace-one within "state"'
        assert book.balance(account(neighbours=ADD)).spent is None
    stated = json.loads((tmp_path / "out" / "release.json").read_text())
    assert stated["public_totals"]["confirmed"]["id"] == "report.public.confirmed_here"
    assert stated["charge"]["privacy_unit"]["id"] == "report.unit.within"
    assert fn.verify(tmp_path / "out", ledger=tmp_path / "ledger.db").ok
    record = json.dumps(registry_record(result))
    assert "say besides state" in record
    assert "The number of records; the totals by state are counted from these data" in record


def test_later_releases_of_the_account_name_the_numbers(tmp_path):
    release(tmp_path)
    workload = PLAN.publication.workload
    later = fn.plan(workload, unit=person(neighbours=ADD), source=PLAN.publication.source)
    with Ledger(tmp_path / "ledger.db") as book, refused("ledger.cap-never-fits"):
        book.set_cap(account(neighbours=ADD), Fraction(9))
    ledger = tmp_path / "ledger.db"
    result = fn.release(later, COUNTS, ledger=ledger, directory=tmp_path / "later")
    assert result.entry.unprotected == ((1, ("state",)),)
    path = tmp_path / "later" / "release.json"
    text = path.read_text()
    assert json.loads(text)["ledger"]["unprotected"] == [[1, ["state"]]]
    assert fn.Release.read(tmp_path / "later").entry == result.entry
    assert fn.verify(tmp_path / "later", ledger=ledger).ok
    sentence = "numbers by state were counted from these data and published without protection"
    assert sentence in "\n".join(lines(release_report(result)))
    fn.report(result, tmp_path / "report.html")
    assert sentence in (tmp_path / "report.html").read_text()
    for numbers in (None, [[1, ["sex"]]], [[1, []]]):
        path.write_text(changed(text, numbers))
        assert not fn.verify(tmp_path / "later", ledger=ledger).ok
    for numbers in ([], 0, [[1]], [[0, ["a"]]], [[1, [2]]], [[True, ["a"]]]):
        path.write_text(changed(text, numbers))
        with refused("release.entry-not-named"):
            fn.Release.read(tmp_path / "later")


def changed(text, numbers):
    """Return a release.json with other unprotected numbers; None removes them."""
    stated = json.loads(text)
    del stated["ledger"]["unprotected"]
    return to_json(stated | {"ledger": stated["ledger"] | ({} if numbers is None else {"unprotected": numbers})})


def test_conditions_do_not_keep_a_plan_from_its_data(tmp_path):
    """Both records of a neighbouring pair meet the condition, so none is added or removed."""
    source = fn.DataSource("people", where={"age": {"at_least": 18}})
    plan = planned(SIZES, TABLES, ("state",), source=source)
    assert plan.loss.rho == PLAN.loss.rho
    assert Adjacency(person(), drops=True).step_relations == (REPLACE, ADD)
    rows = [f"{s},{x},{age}\n" for s, x in np.argwhere(COUNTS >= 0) for age in (3, 18, 40)]
    (tmp_path / "people.csv").write_text("state,sex,age\n" + "".join(rows))
    assert release(tmp_path, data=str(tmp_path / "people.csv"), plan=plan)


def test_the_release_is_the_same_for_other_totals_of_the_data(tmp_path, monkeypatch):
    """The data have more records, equally many in every cell of a state: with replayed noise, no byte changes."""
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(7).discrete_gaussians)
    out = []
    for name, data in (("one", COUNTS), ("other", COUNTS + np.array([[9], [0], [3]]))):
        (tmp_path / name).mkdir()
        release(tmp_path / name, data=data)
        out.append(files_without_charge(tmp_path / name / "out"))
    assert out[0] == out[1]


def test_totals_of_these_data_break_the_promise_of_a_capped_account(tmp_path):
    ledger = tmp_path / "ledger.db"
    with Ledger(ledger) as book:
        book.set_cap(account(neighbours=ADD), Fraction(1))
        before = book.head()
    with refused("ledger.totals-break-cap") as caught:
        release(tmp_path)
    assert str(caught.value).startswith(
        "The totals by state were counted from these data. Publishing them breaks the promise 'one person (at most 1 "
        "record), add-or-remove-one', which has a cap in this account. Use totals from an independent source. Another "
        "account is no way out: nothing bounds what both reveal. Nothing was measured and nothing was charged."
    )
    with Ledger(ledger) as book:
        assert book.head() == before
