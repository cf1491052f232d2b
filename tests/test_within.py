"""Totals counted from the data: records that are replaced within them, their prices, refusals and accounts."""

import contextlib
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
from dense import kron, workload_matrix, workload_variances
from designs import cells_over, of_sectors, with_steps
from fitnoise.errors import FitnoiseError, ReleaseError, SpecError, WorkloadError
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel import noise
from fitnoise.kernel.designs._base import PublicCells
from fitnoise.kernel.designs.witness import Claim, Closed
from fitnoise.kernel.domain import cell_key
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account, Adjacency, Neighbours, PrivacyUnit
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.reading.registry import registry_record
from fitnoise.reading.release_files import to_json
from fitnoise.request.known_totals import KnownTotals, confirmation, parse_totals
from fitnoise_check import plan as checker
from fitnoise_check.exact import Wrong
from refused import refused
from replayed_noise import Replay
from test_known_totals import (
    ORDERED,
    ORDERED_TABLES,
    PLACES,
    REGISTER,
    STATES,
    by_attributes,
    centred_to,
    drawn_publication,
    files_without_charge,
    margins_counted,
    of_sizes,
    possible_cells,
)
from tolerances import GAP, LOOSE

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
    """Return Δ² of records that agree on some attributes, or come and go alone: cell by cell.

    `held` has the positions of these attributes, among the exchangeable ones and then the structured ones.
    """
    cells = np.array([*itertools.product(*map(range, (*design.sizes, *design.structure.shape)))])
    rows = [*dense_rows(design)]
    unit, products = math.lcm(*(square.numerator for _, square in rows)), 0
    for m, square in rows:
        exact = m if abs(m).max(initial=0) < 2**20 else m.astype(object)  # 64 bits hold the products of small rows
        products = products + (exact.T @ exact).astype(object) * int(unit / square)
    singles = products.diagonal()
    agree = (cells[:, None, [*held]] == cells[:, [*held]]).all(axis=-1)
    largest = max((singles[:, None] + singles - 2 * products)[agree].max(), singles.max() if is_single else 0)
    return Fraction(int(largest), unit)


def draw_design(sizes, shape, rng, scale=1.0):
    """Return a strategy of random integers on random sectors, for exchangeable and structured attributes of some sizes.

    In some strategies, each row has an entry of 0 in every cell of the first structured attribute.
    """
    subsets = [tuple(a for a in range(len(sizes)) if mask >> a & 1) for mask in range(2 ** len(sizes))]
    chosen = [s for s in subsets if rng.random() < 0.7] or [subsets[-1]]
    by_size = {}
    for s in chosen:
        by_size.setdefault(len(s), {})[s] = ([[int(rng.integers(1, 5))]], scale * float(rng.integers(1, 9)))
    groups, is_centred, cells = [], rng.random() < 0.5, int(np.prod(shape, dtype=int))
    for sectors in by_size.values():
        basis = rng.integers(-3, 4, (1, cells))
        if is_centred:
            lines = basis.reshape(*shape[:1], -1)
            lines[..., rng.integers(lines.shape[-1])] = 0
        groups.append(((basis + (basis == 0).all()).tolist(), sectors))
    return of_sectors(cells_over(sizes, *shape), *groups)


drawings = st.tuples(
    st.lists(st.integers(2, 3), min_size=1, max_size=3),
    st.lists(st.integers(1, 3), max_size=2),
    st.integers(0, 2**32),
)


def draw_held(design, rng):
    """Return the positions and the names of some attributes, exchangeable and structured ones."""
    names = [name for name, _ in (*design.structure.exchangeable, *design.structure.structured)]
    held = [i for i in range(len(names)) if rng.random() < 0.5]
    return held, tuple(names[i] for i in held)


@given(drawings)
def test_the_kernel_prices_records_that_agree_within(case):
    sizes, shape, seed = case
    rng = np.random.default_rng(seed)
    design = draw_design(tuple(sizes), tuple(shape), rng)
    held, names = draw_held(design, rng)
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
    """A design exists if and only if its rows of a sector of public attributes alone change sign, or touch 0.

    They do so among the structured cells of each public cell. A plan may name other public cells than the unit.
    """
    sizes, shape, seed = case
    rng = np.random.default_rng(seed)
    design = draw_design(tuple(sizes), tuple(shape), rng)
    held, names = draw_held(design, rng)
    public = PublicCells(tuple(i for i in held if i < len(sizes)), places_along(design, held))
    coarse, structure = (replace(design.structure, public=x) for x in (PublicCells((), (0,) * design.cells), public))
    is_good = measures_no_total(design, public)
    if is_good:
        of_plan = replace(design, structure=structure)
        of_plan.check_within(Adjacency(person(*names)))
        # the answers cost a record that is added or removed a finite amount: all their rows together
        inside = of_plan.unit_cost(Adjacency(person(*names)))
        assert max(design.profile()) <= inside * len(design.sectors)
        with refused("plan.within-total-measured"):
            of_plan.check_within(Adjacency(person(*names, "other")))
    else:
        with refused("plan.public-total-measured"):
            replace(design, structure=structure)
    if names and measures_no_total(design, coarse.public):
        with contextlib.nullcontext() if is_good else refused("plan.within-total-measured"):
            replace(design, structure=coarse).check_within(Adjacency(person(*names)))
    design.check_totals(Adjacency())
    if names:
        with refused("plan.within-total-measured"):
            design.check_totals(Adjacency(person(*names)))


def places_along(design, held):
    """Return the joint position of each structured cell along the structured ones among some attributes."""
    shape, offset = design.structure.shape, len(design.sizes)
    index = np.indices(shape).reshape(len(shape), design.cells)
    chosen = [i - offset for i in held if i >= offset]
    if not chosen:
        return (0,) * design.cells
    return tuple(np.ravel_multi_index([index[i] for i in chosen], [shape[i] for i in chosen]).tolist())


def measures_no_total(design, public):
    """Return True if each row of a sector of public attributes has both signs, or 0, in each public cell."""
    inside = [s.rows for s in design.sectors if {*public.exchangeable}.issuperset(s.attributes)]
    parts = [row[np.equal(public.places, f)] for rows in inside for row in rows for f in {*public.places}]
    return all(min(x) <= 0 <= max(x) for x in parts) and all(any(row) for rows in inside for row in rows)


def test_answers_of_a_plan_within_cost_a_record_that_comes_or_goes_a_finite_amount():
    design = planned({"a": 3, "b": 4}, [("a", 1), ("ab", 1)], "a").table_part.strategy
    assert all("b" in {design.structure.names[a] for a in s.attributes} for s in design.sectors)
    come, inside = (design.unit_cost(Adjacency(person(*x, neighbours=n))) for x, n in (("", ADD), ("a", REPLACE)))
    assert come == max(design.profile())
    assert inside / 4 <= come <= inside


def test_two_cells_of_a_total_may_lie_the_other_way_round():
    """A triangle (±1, 0), (0, 2) and its mirror image, each around the centre (0, ±3/4): 5 within, 6.25 over all."""
    rows = [[-4, 4, 0, -4, 4, 0], [-3, -3, 5, 3, 3, -5]]
    design = of_sectors(cells_over((), 2, 3), (rows, {(): ([[1, 0], [0, 1]], 4.0)}))
    assert (design.cost_squared(REPLACE, ("o0",)), design.cost_squared(REPLACE)) == (5, Fraction(25, 4))
    # records with equal second positions: half a triangle's height to the other half, and its tip to the other tip
    assert design.cost_squared(REPLACE, ("o1",)) == Fraction(25, 4)
    assert design.cost_squared(REPLACE, ("o0", "o1")) == 0


def test_an_amount_within_does_not_lower_a_price():
    """Its knots may depend on another attribute: then two records of one amount lie between other knots."""
    structure = with_steps(cells_over((), 2, 2), o1=(4,))
    design = of_sectors(structure, ([[0, 4, 0, 8], [0, 0, 1, 1]], {(): ([[1, 0], [0, 1]], 1.0)}))
    assert design.cost_squared(REPLACE, ("o0",)) == 64
    assert design.cost_squared(REPLACE, ("o1",)) == design.cost_squared(REPLACE) == 65
    assert design.cost_squared(REPLACE, ("o0", "o1")) == 64


# --- structured attributes --------------------------------------------------------------------------------------------

AGES = fn.Domain(f=fn.Categorical(["p", "q"]), age=fn.Ordered(0, 5), band=fn.Binned([2, 4], column="age"))
AGE_TABLES = [fn.table("f", cumulative="age", variance=1), fn.table("band", variance=0.3), fn.table("f", variance=0.5)]
RULED = fn.Domain(f=fn.Categorical(["p", "q"]), g=fn.Categorical(["u", "v", "w"]), e=fn.Categorical([0, 1]))
RULED_TABLES = [fn.table("f", "g", variance=1), fn.table("g", "e", variance=0.7), fn.table("e", variance=0.2)]
PREFIXES = fn.Domain(f=fn.Categorical(["p", "q", "r"]), x=fn.Ordered(0, 3))
PREFIX_TABLES = [
    fn.table("f", cumulative="x", variance=1),
    fn.table(cumulative="x", variance=0.4),
    fn.table("f", margin=1),
]
SHORT = fn.Domain(f=fn.Categorical(["p", "q"]), e=fn.Categorical([0, 1]), x=fn.Ordered(0, 2))
STRUCTURED = {
    "prefix next to it": (PREFIXES, PREFIX_TABLES, ("f",)),
    "prefix": (PREFIXES, PREFIX_TABLES, ("x",)),
    "prefix and value": (SHORT, ORDERED_TABLES, ("e", "x")),
    "band of a column": (AGES, AGE_TABLES, ("band",)),
    "band and value": (AGES, AGE_TABLES, ("f", "band")),
    "with a rule": (RULED.without(f="p", g="u"), RULED_TABLES, ("g",)),
    "with rules": (RULED.without(f="p", g="u").without(f="q", g=["v", "w"]), RULED_TABLES, ("f", "e")),
}


def planned_over(domain, tables, public, **settings):
    """Return the plan of tables by a structured attribute, with totals of these data by some attributes."""
    return fn.plan(fn.Workload(domain, tables), unit=person(*public), public=counted_here(*public), **settings)


def possible_columns(plan, public):
    """Return the flat possible cells of a domain, and the public cell of each."""
    domain = plan.publication.domain
    possible = possible_cells(domain)
    cells, shape = np.flatnonzero(possible), [domain[a].size for a in public]
    places = [np.indices(possible.shape)[list(domain).index(a)].ravel()[cells] for a in public]
    return cells, np.ravel_multi_index(places, shape) if public else np.zeros(len(cells), dtype=int)


def exact_rows(plan, cells):
    """Return the exact answers to single records in flat cells, a column for each, and the square of each scale."""
    domain, part = plan.publication.domain, plan.table_part
    shape, columns = [domain[a].size for a in domain], []
    for i in cells.tolist():
        counted = margins_counted(np.eye(1, int(np.prod(shape)), i, dtype=int).reshape(shape), domain,
                                  part.strategy.margins())  # fmt: skip
        columns.append(np.concatenate(part.strategy.exact_answers(counted, plan.publication.adjacency, 10**6)))
    squares = [Fraction(float(s)) ** 2 for scales, n in part.strategy.runs for s, k in zip(scales, n, strict=True)
               for _ in range(k)]  # fmt: skip
    return np.array(columns).T.astype(object), squares


def costs_of_pairs(plan, cells, index):
    """Return the exact cost of each two records with equal public cells, and the pairs."""
    rows, squares = exact_rows(plan, cells)
    unit = math.lcm(*(x.numerator for x in squares))
    products = rows.T @ (rows * np.array([int(unit / x) for x in squares], dtype=object)[:, None])
    costs = products.diagonal()[:, None] + products.diagonal() - 2 * products
    pairs = np.argwhere(np.equal.outer(index, index))
    return [Fraction(int(costs[i, j]), unit) for i, j in pairs], pairs


def price_by_conic_program(queries, targets, index):
    """Return the least Δ² of records replaced within public cells, of all covariances that meet the targets."""
    lifts, sizes, basis = np.linalg.svd(centred_to(queries / np.sqrt(targets)[:, None], index), full_matrices=False)
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    lifts, basis = lifts[:, :rank] * sizes[:rank], basis[:rank]
    covariance, price = cp.Variable((rank, rank), PSD=True), cp.Variable()
    conditions = [cp.sum(cp.multiply(lifts @ covariance, lifts), axis=1) <= 1]
    for i, j in itertools.combinations(range(len(index)), 2):
        difference = basis[:, [i]] - basis[:, [j]]
        if index[i] == index[j] and np.abs(difference).max() > 1e-9:
            corner = cp.reshape(price, (1, 1), order="F")
            conditions.append(cp.bmat([[covariance, difference], [difference.T, corner]]) >> 0)
    return cp.Problem(cp.Minimize(price), conditions).solve(solver="CLARABEL")


@pytest.mark.parametrize("name", STRUCTURED)
def test_plans_of_structured_totals_are_optimal(name):
    """The price is that of the costliest pair, and no covariance over all cells costs less than the bound."""
    domain, tables, public = STRUCTURED[name]
    plan = planned_over(domain, tables, public, gap=1e-7)
    cells, index = possible_columns(plan, public)
    assert max(costs_of_pairs(plan, cells, index)[0]) == plan.loss.cost_squared
    assert plan.gap <= 1e-7
    workload = plan.publication.workload
    optimum = price_by_conic_program(
        workload_matrix(workload)[:, cells].astype(float), workload_variances(workload), index
    )
    assert plan.bound * (1 - 1e-6) <= optimum <= float(plan.loss.cost_squared) * (1 + 1e-6)
    assert [*checker.check(plan.to_json().encode())][-1].startswith("  bound as stated")
    assert fn.Plan.from_json(plan.to_json()).to_json() == plan.to_json()


@pytest.mark.no_cover
@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_tables_within_structured_totals_follow_the_definition(seed):
    """Ranges, groups, blocks and rules: price, answers, variances, totals and the checker, against all cells."""
    rng = np.random.default_rng(seed)
    domain, tables, public = drawn_publication(rng, has_bands=rng.random() < 0.5)
    plan = None
    # all tables may follow from the totals, or a table count no possible record
    with contextlib.suppress(SpecError, WorkloadError):
        plan = planned_over(domain, tables, public)
    if plan is None:
        return
    part, domain, names = plan.table_part, plan.publication.domain, [t.name for t in tables]
    assert plan.gap <= GAP
    assert fn.Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    assert any(x.startswith("  bound as stated") for x in checker.check(plan.to_json().encode()))
    cells, index = possible_columns(plan, public)
    assert max(costs_of_pairs(plan, cells, index)[0]) == plan.loss.cost_squared
    rows, squares = exact_rows(plan, cells)
    # no row is constant in the cells of a total, and an added record costs no more than one replaced
    single = max(sum((Fraction(int(x * x)) / s for x, s in zip(c, squares, strict=True)), Fraction(0)) for c in rows.T)
    assert single == part.strategy.cost_squared(ADD) <= plan.loss.cost_squared
    counts = np.zeros(possible_cells(domain).shape, dtype=int)
    counts.ravel()[cells] = rng.integers(0, 50, len(cells))
    totals = by_attributes(counts, domain, public)
    lines_of = [",".join(map(str, [*(domain[a].cell_names[i] for a, i in zip(public, c, strict=True)), totals[c]]))
                for c in np.ndindex(*totals.shape)]  # fmt: skip
    text = "\n".join([",".join([*public, "number"]), *lines_of])
    file = parse_totals("t.csv", text, plan.publication.public, domain)
    counted = margins_counted(counts, domain, part.strategy.margins())
    exact = part.strategy.exact_answers(counted, plan.publication.adjacency, 10**6)
    rebuilt, queries = RebuiltTables(part, exact, file.numbers), workload_matrix(plan.publication.workload)
    numbers = np.concatenate([rebuilt.table(name).ravel() for name in names])
    np.testing.assert_allclose(numbers, queries @ counts.ravel(), atol=1e-6)
    scaled = rows.astype(float) / np.sqrt(np.array(squares, dtype=float))[:, None]
    solution = centred_to(queries[:, cells].astype(float), index) @ np.linalg.pinv(
        centred_to(scaled, index), rcond=1e-9
    )
    stated = np.concatenate([part.table_variances(name).ravel() for name in names])
    np.testing.assert_allclose(stated, (solution**2).sum(axis=1), rtol=LOOSE, atol=1e-7)
    # for any answers, counts by public attributes are the integers of the file
    result = fn.Release(plan, [y + rng.integers(-(10**6), 10**6, len(y)) for y in exact], public_totals=file)
    for remaining in {public, public[1:], public[:1], ()}:
        with contextlib.suppress(ReleaseError):
            number = result.count(by=list(remaining))
            assert np.array_equal(np.asarray(number.value), by_attributes(counts, domain, remaining))
            assert not np.any(number.std_error)


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_record_replaced_within_its_cell_moves_a_release_by_the_price_at_most(name, tmp_path, monkeypatch):
    """With replayed noise, two releases differ by the exact answers alone; for the costliest records, by the price."""
    domain, tables, public = STRUCTURED[name]
    plan = planned_over(domain, tables, public, source=fn.DataSource("people"))
    cells, index = possible_columns(plan, public)
    costs, pairs = costs_of_pairs(plan, cells, index)
    order = np.argsort([float(x) for x in costs])
    chosen = [pairs[order[-1]], pairs[order[len(order) // 2]]]
    domain = plan.publication.domain
    counts = np.zeros(possible_cells(domain).shape, dtype=int)
    counts.ravel()[cells] = np.random.default_rng(4).integers(5, 30, len(cells))
    released = []
    for i, (one, other) in enumerate([(cells[0], cells[0]), *(cells[pair] for pair in chosen)]):
        data = counts.copy()
        data.ravel()[one] -= 1
        data.ravel()[other] += 1
        totals = by_attributes(data, domain, public)
        assert np.array_equal(totals, by_attributes(counts, domain, public))
        monkeypatch.setattr(noise, "discrete_gaussians", Replay(7).discrete_gaussians)
        lines_of = [",".join(map(str, [*(domain[a].cell_names[j] for a, j in zip(public, c, strict=True)), totals[c]]))
                    for c in np.ndindex(*totals.shape)]  # fmt: skip
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "t.csv").write_text("\n".join([",".join([*public, "number"]), *lines_of, ""]))
        released.append(
            fn.release(
                plan,
                data,
                ledger=tmp_path / str(i) / "ledger.db",
                directory=tmp_path / str(i) / "out",
                public=tmp_path / str(i) / "t.csv",
                public_confirm=confirmation("t.csv", plan.publication.public, "person"),
            )
        )
    reference, *others = [np.concatenate(x.answers).astype(object) for x in released]
    squares = exact_rows(plan, cells)[1]
    costs_of_moves = [sum((Fraction(int(x * x)) / s for x, s in zip(y - reference, squares, strict=True)), Fraction(0))
             for y in others]  # fmt: skip
    assert costs_of_moves == [costs[order[-1]], costs[order[len(order) // 2]]]
    assert costs_of_moves[0] == plan.loss.cost_squared >= costs_of_moves[1]


@pytest.mark.parametrize("name", [x for x in STRUCTURED if x not in ("prefix", "prefix and value")])
def test_a_plan_that_measures_what_is_constant_within_is_refused(name):
    """A row that is almost constant in the cells of each total costs nearly nothing, and would give the totals."""
    domain, tables, public = STRUCTURED[name]
    plan = planned_over(domain, tables, public)
    places = np.array(plan.table_part.decomposition.public.places)
    inside = [i for i, g in enumerate(json.loads(plan.to_json())["tables"][0]["strategy"])
              if any({*names} <= {*public} for names in g["attributes"])]  # fmt: skip
    assert inside
    for i, total in itertools.product(inside, (np.ones_like(places), 1 - 2 * (places % 2), (places == places.max()))):
        document = json.loads(plan.to_json())
        group = document["tables"][0]["strategy"][i]
        group["basis"] = (np.array(group["basis"]) + 10**9 * total).tolist()
        with pytest.raises(Wrong, match="measures public totals"):
            [*checker.check(json.dumps(document).encode())]
        with refused("plan.public-total-measured"):
            fn.Plan.from_json(json.dumps(document))


@pytest.mark.parametrize("name", ["prefix", "band of a column", "with a rule"])
def test_evidence_of_two_cells_of_a_total_proves_nothing(name):
    domain, tables, public = STRUCTURED[name]
    plan = planned_over(domain, tables, public)
    part, places = plan.table_part, plan.table_part.decomposition.public.places
    pairs = part.evidence.pairs
    origin = np.zeros_like(pairs.first_cells)
    other = np.full_like(pairs.second_cells, next(o for o, f in enumerate(places) if f != places[0]))
    with refused("plan.evidence-outside-within"):
        changed_pairs = replace(pairs, first_cells=origin, second_cells=other)
        replace(part, evidence=replace(part.evidence, pairs=changed_pairs)).bound  # noqa: B018 - it is computed
    document = json.loads(plan.to_json())
    weights = document["tables"][0]["weights"]
    weights["pairs"] = [[agree, int(origin[0]), int(other[0])] for agree, _, _ in weights["pairs"]]
    with pytest.raises(Wrong, match="a pair differs in within"):
        [*checker.check(json.dumps(document).encode())]


def test_no_claim_of_a_price_counts_within_totals():
    """A claim is for a pattern of records, and a unit within attributes has none: nothing proves a lower price."""
    plan = planned_over(*STRUCTURED["prefix"])
    for bound in (0, 10**30):
        claim = Claim(0, ("moving",), (bound,), (Closed(),))
        strategy = replace(plan.table_part.strategy, claim=claim)
        assert strategy.unit_cost(plan.publication.adjacency) == plan.loss.cost_squared
        with refused("plan.price-not-proven"):
            replace(plan.order, designs=(strategy,))


def test_a_usual_plan_costs_units_within_structured_attributes_what_their_records_cost():
    """Accounts of other promises: a unit within an ordered attribute is charged for pairs with equal positions."""
    source = fn.DataSource("people")
    plan = fn.plan(fn.Workload(ORDERED, ORDERED_TABLES), unit=person(neighbours=ADD), source=source)
    digests = {a: cell_key(plan.publication.domain.axes, a) for a in ORDERED}
    design = plan.table_part.strategy
    names = [a for a, _ in (*design.structure.exchangeable, *design.structure.structured)]
    for held in (("x",), ("f", "x"), ("e", "f", "x")):
        stored = Account("people", person(*held), tuple((a, digests[a]) for a in held))
        expected = largest_change(design, [names.index(a) for a in held])
        assert plan.order.losses_of_units([stored])[stored].cost_squared == expected


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
