"""Records that are replaced one by one: the number of records is public, and no answer measures it."""

import contextlib
import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from dense import workload_matrix
from designs import cells_over, of_sectors
from fitnoise.errors import SpecError, WorkloadError
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel import noise
from fitnoise.kernel.designs._base import PublicCells
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.units import Adjacency, PrivacyUnit
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.reading.registry import registry_record
from fitnoise.request.known_totals import KnownTotals, confirmation, parse_totals
from fitnoise_check import plan as checker
from fitnoise_check.exact import Wrong
from laws.releases import drawn_errors
from refused import refused
from replayed_noise import Replay
from test_known_totals import (
    ORDERED,
    ORDERED_TABLES,
    REGISTER,
    drawn_publication,
    files_without_charge,
    margins_counted,
    possible_cells,
)
from test_within import ADD, REPLACE, largest_change
from tolerances import GAP, LOOSE, as_often_as

COUNTED, ELSEWHERE = (KnownTotals((), REGISTER, origin) for origin in ("these data", "elsewhere"))
PERSON = PrivacyUnit("person", neighbours=REPLACE)


def planned(domain=ORDERED, tables=ORDERED_TABLES, public=COUNTED, unit=PERSON, **options):
    return fn.plan(fn.Workload(domain, tables), unit=unit, public=public, **options)


PLAN = planned()


# --- prices -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(2, 3), max_size=2), st.integers(2, 4), st.integers(0, 2**32))
def test_prices_of_both_relations_are_those_of_all_pairs(sizes, cells, seed):
    """Random integers, centred on one of their columns: in fractions, cell by cell."""
    rng, groups = np.random.default_rng(seed), []
    subsets = [x for k in range(len(sizes) + 1) for x in itertools.combinations(range(len(sizes)), k)]
    for subset in subsets:
        basis = rng.integers(-4, 5, (int(rng.integers(1, 3)), cells))
        if not subset:
            basis -= basis[:, [rng.integers(cells)]]
        mixing = np.eye(len(basis), dtype=int) + np.triu(rng.integers(-2, 3, (len(basis),) * 2), 1)
        assume((mixing @ basis).any(axis=1).all())
        groups.append((basis.tolist(), {subset: (mixing.tolist(), float(rng.integers(1, 9)))}))
    structure = cells_over(tuple(sizes), cells)
    design = of_sectors(structure, *groups)
    design = replace(design, structure=replace(design.structure, public=PublicCells((), (0,) * cells)))
    replaced, single = largest_change(design, ()), max(design.profile())
    assert design.cost_squared(REPLACE) == replaced
    # no two records agree in everything, so only single ones count
    assert largest_change(design, range(len(sizes) + 1), is_single=True) == single
    # the centre is one of the columns, so to add a record is to replace one that no answer of the sector counts
    if not sizes:
        assert single <= replaced
    design.check_totals(Adjacency(PERSON))


@pytest.mark.no_cover
@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_tables_follow_the_definition(seed):
    """Ranges, groups, joint cells with rules: both prices, answers, variances and the checker, against all cells."""
    rng = np.random.default_rng(seed)
    domain, tables, _ = drawn_publication(rng)
    plan = None
    # All tables may follow from the number of records, or a table count no possible record.
    with contextlib.suppress(SpecError, WorkloadError):
        plan = planned(domain, tables)
    if plan is None:
        return
    part, domain, names = plan.table_part, plan.publication.domain, [t.name for t in tables]
    assert plan.gap <= GAP
    assert fn.Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    assert any(x.startswith("  bound as stated") for x in checker.check(plan.to_json().encode()))
    possible = possible_cells(domain)
    counts = np.where(possible, rng.integers(0, 50, possible.shape), 0)

    def answers(x):
        counted = margins_counted(x, domain, part.strategy.margins())
        return part.strategy.exact_answers(counted, plan.publication.adjacency, 10**6)

    file = parse_totals("t.csv", f"number\n{counts.sum()}\n", COUNTED, domain)
    exact, queries = answers(counts), workload_matrix(plan.publication.workload)
    rebuilt = RebuiltTables(part, exact, file.numbers)
    numbers = np.concatenate([rebuilt.table(name).ravel() for name in names])
    np.testing.assert_allclose(numbers, queries @ counts.ravel(), atol=1e-6)
    cells = np.flatnonzero(possible)
    units = (np.eye(1, counts.size, i, dtype=int).reshape(counts.shape) for i in cells.tolist())
    columns = [[int(n) for n in np.concatenate(answers(x))] for x in units]
    squares = [
        Fraction(float(s)) ** 2
        for group, n in part.strategy.runs
        for s, k in zip(group, n, strict=True)
        for _ in range(k)
    ]

    def cost(change):
        return sum((Fraction(n * n) / s for n, s in zip(change, squares, strict=True)), Fraction(0))

    differences = ([a - b for a, b in zip(x, y, strict=True)] for x, y in itertools.combinations(columns, 2))
    assert max(map(cost, differences)) == plan.loss.cost_squared
    single = max(map(cost, columns))
    assert single == part.strategy.cost_squared(ADD) <= plan.loss.cost_squared
    rows = np.array(columns, dtype=float).T / np.sqrt(np.array(squares, dtype=float))[:, None]
    centred = [x - x.mean(axis=1, keepdims=True) for x in (queries[:, cells].astype(float), rows)]
    solution = centred[0] @ np.linalg.pinv(centred[1], rcond=1e-9)
    stated = np.concatenate([part.table_variances(name).ravel() for name in names])
    np.testing.assert_allclose(stated, (solution**2).sum(axis=1), rtol=LOOSE, atol=1e-7)
    # For any answers, the number of records is that of the file.
    result = fn.Release(plan, [y + rng.integers(-(10**6), 10**6, len(y)) for y in exact], public_totals=file)
    assert (result.count().value, result.count().std_error) == (counts.sum(), 0)


@pytest.mark.parametrize(
    ("tables", "cost"),
    [
        ([fn.table("x", variance=1)], 1.5),
        ([fn.table("x", variance=1), fn.table(variance=1e-6)], 1.5),
        ([fn.table(cumulative="x", variance=1)], 2.0),
    ],
)
def test_a_total_with_any_target_costs_nothing(tables, cost):
    """Δ² of four values is 2(1 − 1/4); a cumulative table of two values measures their one difference."""
    domain = fn.Domain(x=fn.Ordered(0, 3)) if cost == 1.5 else fn.Domain(x=fn.Ordered(0, 1))
    plan = planned(domain, tables, gap=1e-7)
    assert float(plan.loss.cost_squared) == pytest.approx(cost if cost == 1.5 else 1, rel=1e-6)


@pytest.mark.no_cover
@pytest.mark.parametrize("goal", ["total-error", "hybrid"])
@pytest.mark.parametrize("name", ["five structured cells", "marginals", "reals of low rank", "amounts"])
def test_other_goals_and_matrices_measure_no_total(name, goal):
    weight = {"total_error_weight": 0.1} if goal == "hybrid" else {}
    plan = fn.plan(zoo.WORKLOADS[name](), unit=PERSON, public=ELSEWHERE, objective=fn.Objective(goal, **weight))
    strategy = plan.table_part.strategy
    assert strategy.cost_squared(ADD) <= strategy.cost_squared(REPLACE)
    assert plan.gap <= 1e-3


# --- the kernel -------------------------------------------------------------------------------------------------------


def test_the_kernel_refuses_answers_that_show_the_number_of_records():
    """A row of equal entries with a difference: from 4 on, the number of records has too little noise."""
    order, structure = PLAN.order, cells_over((), 2)
    for fine, is_shown in ((1, False), (3, False), (4, True), (50, True)):
        rows = [[fine, fine], [1, -1]]
        design = of_sectors(structure, (rows, {(): ([[1, 0], [0, 1]], 1.0)}))
        if not is_shown:
            design.check_totals(Adjacency(PERSON))
            continue
        with refused("plan.number-of-records-measured"):
            design.check_totals(Adjacency(PERSON))
        design.check_totals(Adjacency(replace(PERSON, max_records=2)))
        design.check_totals(Adjacency(PrivacyUnit("person")))
    with refused("plan.within-total-measured"):
        replace(order, unit=PrivacyUnit("person"))
    with refused("plan.within-total-measured"):
        replace(order, unit=replace(PERSON, max_records=2))


@given(st.integers(2, 12), st.booleans(), st.integers(1, 4), st.booleans())
def test_rows_that_no_total_gives_keep_the_noise_of_the_number(cells, is_counted_here, largest, is_within):
    """Each row is 1 for all cells but one, so their sum is n − 1 times the number of records."""
    basis, names = (1 - np.eye(cells, dtype=int)).tolist(), ("a0",) if is_within else ()
    structure = cells_over((2,), cells)
    design = of_sectors(structure, (basis, {(): (np.eye(cells, dtype=int).tolist(), 1.0)}))
    public = PublicCells((0,) if is_within else (), (0,) * cells, is_counted_here)
    design = replace(design, structure=replace(structure, public=public))
    unit = replace(PERSON, within=names, max_records=largest if is_within else 1)
    single, replaced = cells - 1, 2 * unit.max_records**2
    assert (max(design.profile()), design.unit_cost(Adjacency(unit))) == (single, replaced)
    with refused("plan.number-of-records-measured") if single > 4 * replaced else contextlib.nullcontext():
        design.check_totals(Adjacency(unit))


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["product form", "levels"])
def test_other_mechanisms_measure_the_number_with_the_noise_of_a_record(name):
    """They take no public total; a record that is added or removed costs no more than one that is replaced."""
    plans = {
        "product form": lambda: fn.plan(zoo.many_cells(), unit=PERSON, mechanism="fit-for-use-by-axis"),
        "levels": lambda: fn.plan(zoo.many_places(), unit=PERSON, mechanism="fit-for-use-by-level"),
    }
    plan = plans[name]()
    assert plan.publication.adjacency.fixes_size
    strategy = plan.table_part.strategy
    assert strategy.cost_squared(ADD) <= strategy.cost_squared(REPLACE)
    assert plan.order.cost(PrivacyUnit("person")).rho <= plan.loss.rho


# --- specifications ---------------------------------------------------------------------------------------------------


def test_tables_need_the_number_of_records():
    with refused("spec.number-of-records-missing", key="privacy.neighbours") as caught:
        planned(public=None)
    assert str(caught.value).endswith(
        "The neighbours are replace-one, so the number of records is not protected, and no public total gives it. "
        "Tables need that number. fitnoise does not measure it, because its answers would show it without noise. Add "
        "[[public]] with by = [], its source, and origin = 'these data' if you count the records yourself; or set "
        "add-or-remove-one neighbours. No plan was made."
    )


@pytest.mark.parametrize(
    "options",
    [
        {"unit": replace(PERSON, max_records=2)},
        {"unit": replace(PERSON, id="who")},
        {"source": fn.DataSource(outside_domain="drop")},
        {"source": fn.DataSource(where={"age": {"at_least": 18}})},
        {"privacy": fn.Privacy.PURE},
    ],
)
def test_a_number_that_is_noisy_needs_no_total(options):
    plan = planned(tables=ORDERED_TABLES[:1], public=None, **options)
    assert plan.order.cost(PrivacyUnit("person")).rho <= 4 * plan.loss.rho


# --- releases ---------------------------------------------------------------------------------------------------------

COUNTS = np.random.default_rng(3).integers(20, 90, (3, 2, 4))
SENTENCE = (
    "The number of all persons is counted from these data and published without protection. Whoever knows everyone "
    "else learns from it whether a person is counted. What the records say besides is protected."
)


def release(folder, data=COUNTS, plan=PLAN, **options):
    (folder / "number.csv").write_text(f"number\n{COUNTS.sum()}\n")
    sentence = confirmation("number.csv", plan.publication.public, "person")
    given_options = {"public": folder / "number.csv", "public_confirm": sentence} | options
    return fn.release(plan, data, ledger=folder / "ledger.db", directory=folder / "out", **given_options)


def test_a_release_does_not_depend_on_the_number_of_records(tmp_path, monkeypatch):
    """Data of equal measured integers and other numbers of records give the same release, byte for byte."""
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(7).discrete_gaussians)
    plan = planned(tables=[fn.table(cumulative="x", variance=90), fn.table("x", variance=40)])
    (basis,) = (g.basis for g in plan.table_part.strategy.groups)
    ((cell,),) = np.nonzero(~basis.any(axis=0))
    larger = COUNTS.copy()
    larger[1, 0, cell] += 1234
    out = []
    for name, data in (("one", COUNTS), ("other", larger)):
        (tmp_path / name).mkdir()
        release(tmp_path / name, data, plan)
        out.append(files_without_charge(tmp_path / name / "out"))
    assert out[0] == out[1]


def test_a_release_states_that_the_number_is_not_protected(tmp_path, capsys):
    assert confirmation("number.csv", COUNTED, "person") == SENTENCE
    for wrong in (None, "The numbers in number.csv were public before and were not computed from these data."):
        with refused("release.public-not-confirmed"):
            release(tmp_path, public_confirm=wrong)
    result = release(tmp_path)
    assert (result.count().value, result.count().std_error) == (COUNTS.sum(), 0)
    assert result["f"]["value"].sum() == pytest.approx(COUNTS.sum())
    text = "\n".join(lines(release_report(result)))
    assert "the number of all records is counted from these data and published without protection" in text
    assert registry_record(result)["deployment"]["dp_variant"]["unprotected_quantities"].startswith("the number of all")
    assert fn.verify(tmp_path / "out", ledger=tmp_path / "ledger.db").ok
    with Ledger(tmp_path / "ledger.db") as book:
        (charge,) = (e for e in book.entries() if e.kind == "charge")
        assert charge.account.unit.account == "one person (at most 1 record), replace-one"
        assert (charge.detail["unprotected"], charge.detail["confirmed"]) == ([], SENTENCE)
    main(["ledger", "show", str(tmp_path / "ledger.db")])
    assert "entry 1: the number of all records was published without protection" in capsys.readouterr().out
    later = fn.plan(fn.Workload(ORDERED, ORDERED_TABLES[:1]), unit=PrivacyUnit("person"))
    result = fn.release(later, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "later")
    assert result.entry.unprotected == ((1, ()),)
    assert "the number of all records was published without protection" in "\n".join(lines(release_report(result)))
    assert fn.verify(tmp_path / "later", ledger=tmp_path / "ledger.db").ok


def test_a_record_that_comes_or_goes_has_a_bound_if_the_number_was_public_before(tmp_path):
    plan, added = planned(public=ELSEWHERE), PrivacyUnit("person")
    single = plan.table_part.strategy.cost_squared(ADD) / 2
    assert plan.loss.rho / 4 <= plan.order.cost(added).rho == single <= plan.loss.rho
    assert PLAN.order.cost(added) is None
    for origin, chosen in (("elsewhere", plan), ("these data", PLAN)):
        (tmp_path / origin).mkdir()
        account = fn.plan(fn.Workload(ORDERED, ORDERED_TABLES), unit=added).order.account
        with Ledger(tmp_path / origin / "ledger.db") as book:
            book.set_cap(account, Fraction(10))
            book.set_cap(plan.order.account, Fraction(10))
        if origin == "elsewhere":
            release(tmp_path / origin, plan=chosen)
            with Ledger(tmp_path / origin / "ledger.db") as book:
                assert float(book.balance(account).spent) == pytest.approx(float(single))
            continue
        with refused("ledger.cost-unbounded"):
            release(tmp_path / origin, plan=chosen)


@pytest.mark.slow
@pytest.mark.parametrize("public", [COUNTED, ELSEWHERE])
def test_intervals_hold_as_often_as_they_say(public):
    """10,000 draws of the sampled noise: numbers are within their margins as often as stated."""
    errors, margins = drawn_errors(planned(public=public).table_part, np.array(0.0))
    inside = np.abs(errors) <= margins + 1e-9
    for j in np.flatnonzero(margins > 1e-6).tolist():
        assert as_often_as(inside[:, j], 0.95)
    assert inside[:, margins <= 1e-6].all()


def test_the_program_without_fitnoise_needs_the_number_too():
    text = PLAN.to_json()
    assert [*checker.check(text.encode())]
    start = text.index('"public":[')
    end = text.index("]", text.index('"origin"', start) if '"origin"' in text[start : start + 300] else start)
    without = text[:start] + text[end + 2 :]
    with pytest.raises((Wrong, KeyError)):
        [*checker.check(without.encode())]
    for old, new in (('"neighbours":"replace-one"', '"neighbours":"add-or-remove-one"'),):
        assert old in text
        with pytest.raises((Wrong, KeyError)):
            [*checker.check(text.replace(old, new).encode())]
