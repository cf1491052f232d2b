"""Records that are replaced one by one: the number of records is public, no answer measures it, and ledgers name it."""

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
from designs import cells_over, domain_of, of_sectors, steps_of
from fitnoise.engines.histogram import HistogramCounter
from fitnoise.errors import DataError, SpecError, WorkloadError
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel import noise
from fitnoise.kernel.designs._base import PublicCells
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.measure import measure
from fitnoise.kernel.order import DeclaredSize, Order, account
from fitnoise.kernel.units import Adjacency, DataSource, OutsideDomain, PrivacyUnit
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.reading.registry import registry_record
from fitnoise.request.known_totals import KnownTotals, confirmation, parse_totals
from fitnoise_check import plan as checker
from fitnoise_check.exact import Wrong
from laws.releases import answered, drawn_errors
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


# --- releases that reveal the number of records -----------------------------------------------------------------------

HOME = PrivacyUnit("home")
CENTRED = of_sectors(cells_over((2,), 2), ([[1, 0]], {(): ([[1]], 2.0)}), ([[1, 2]], {(0,): ([[1]], 3.0)}))
DESIGNS = {name: make for name, make in zoo.DESIGNS.items() if name not in zoo.TABLES or not steps_of(make(None))} | {
    f"a number {origin}": lambda _, is_here=is_here: replace(
        CENTRED, structure=replace(CENTRED.structure, public=PublicCells((), (0, 0), is_here))
    )
    for origin, is_here in (("elsewhere", False), ("from these data", True))
}
SIZES = {
    "of any size": (),
    "of at most": (DeclaredSize(3, exactly=False),),
    "of exactly": (DeclaredSize(3, exactly=True),),
}


class Unread(HistogramCounter):
    """Data that no one counts."""

    def count(self, margins, progress=None):
        pytest.fail(f"counted {margins}, after {progress}")


def counter_of(order, records):
    counts = np.zeros(order.domain.shape, dtype=np.int64)
    np.add.at(counts.reshape(-1), np.random.default_rng(7).integers(counts.size, size=records), 1)
    return HistogramCounter(counts, order.domain, order.source)


def refuses_one_less(order, records):
    """Return True if the kernel refuses data because they have one record less than the declared number."""
    with Ledger(":memory:") as book:
        try:
            measure(order, counter_of(order, records - 1), book, noise=Replay())
        except DataError as error:
            code = error.code
        else:
            return False
        assert book.entries() == []
    assert code in {"data.size-misfits-data", "data.people-misfits-data"}
    return True


def check_number(order, records):
    """Check that a release reveals the number of records only where the kernel, ledger and other accounts know it.

    Args:
        order: The order.
        records: The number of records that it is for.

    Returns:
        True if the release reveals the number.
    """
    public = (d.structure.public for d in order.designs if not isinstance(d, AnswerDesign))
    is_shown = refuses_one_less(order, records) or any(p is not None and p.is_counted_here for p in public)
    unprotected = list(order.unit.within) if is_shown else None
    home = account(order.source, HOME, order.domain)
    assert order.fixes_size is is_shown
    assert not is_shown or order.adjacency.fixes_size
    assert (order.cost(HOME) is None) is is_shown
    with Ledger(":memory:") as book:
        charge = measure(order, counter_of(order, records), book, noise=Replay()).charge
        assert charge.detail.get("unprotected") == unprotected
        # The unit appears later, so the entry alone says what bounds it.
        assert not is_shown or book.balance(home).spent is None
    with Ledger(":memory:") as book:
        for capped in (home, order.account):
            book.set_cap(capped, Fraction(2**999))
        if is_shown:
            with refused("ledger.cost-unbounded"):
                measure(order, Unread(np.zeros(order.domain.shape, int), order.domain, order.source), book)
            assert [e.kind for e in book.entries()] == ["cap", "cap", "refusal"]
        else:
            measure(order, counter_of(order, records), book, noise=Replay())
            assert book.balance(home).spent > 0
    return is_shown


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", [name for name, x in zoo.ADJACENCIES.items() if x.records < 3 and not x.pattern])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_that_reveals_the_number_of_records_says_so(name, neighbours):
    """If no record is added or removed: for a question, and for a number that is declared exactly, or counted."""
    adjacency = zoo.ADJACENCIES[neighbours]
    if name.startswith("all by") and adjacency.fixes_size:
        return  # The answer is public: `test_designs.py` has the refusal.
    design = DESIGNS[name](adjacency)
    source = DataSource("homes", outside_domain=OutsideDomain.DROP if adjacency.drops else OutsideDomain.REFUSE)
    for what, sizes in SIZES.items():

        def order(sizes=sizes):
            return Order(domain_of(design), source, adjacency.unit, (design,), "0" * 64, "test", sizes=sizes)

        if what == "of exactly" and not adjacency.fixes_size:
            with refused("plan.exact-size-not-public", "plan.within-total-measured"):
                order()
        elif name == "a number from these data" and not adjacency.fixes_size:
            with refused("plan.within-total-measured"):
                order()
        elif (
            adjacency.fixes_size
            and name in zoo.TABLES
            and design.loss(Adjacency()).rho > 4 * design.loss(adjacency).rho
        ):
            with refused("plan.number-of-records-measured"):
                order()
        else:
            is_shown = check_number(order(), 3)
            is_answer = isinstance(design, AnswerDesign) and adjacency.fixes_size
            assert is_shown is (is_answer or what == "of exactly" or name == "a number from these data")


QUESTIONS = (
    fn.FiniteQuery.count("men", where={"sex": "m"}, people=40, epsilon=1),
    fn.FiniteQuery.median("middle age", "age", people=40, epsilon=1),
)
SEX = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 4))
BY_SEX = fn.Workload(SEX, [fn.table("sex", margin=20), fn.table("sex", "age", margin=30)])
BUDGET = fn.Budget(epsilon=1.0, delta=1e-6)
EXACTLY = fn.SmallDatabase(40, region="exactly")
REQUESTS = {
    name: lambda make=make, name=name: replace(make(), mechanism=name) for name, make in zoo.REQUESTS.items()
} | {
    "a number elsewhere": lambda: fn.Publication(BY_SEX, public=ELSEWHERE),
    "a number from these data": lambda: fn.Publication(BY_SEX, unit=PERSON, public=COUNTED),
    "projection, exactly": lambda: fn.Publication(BY_SEX, unit=PERSON, small_database=EXACTLY, budget=BUDGET),
    "questions": lambda: fn.Publication(fn.Workload(SEX, []), questions=QUESTIONS),
    "questions with a number": lambda: fn.Publication(BY_SEX, public=ELSEWHERE, questions=QUESTIONS),
}
UNPLANNED = {
    ("a number from these data", ADD): "spec.public-within-misfit",
    ("projection, exactly", ADD): "spec.exact-size-not-fixed",
    ("fit-for-use", REPLACE): "spec.number-of-records-missing",
}
REVEALING = {"a number from these data", "projection, exactly", "questions", "questions with a number"}


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", fn.Neighbours)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_plan_of_any_mechanism_that_reveals_the_number_of_records_says_so(name, neighbours):
    unit = PrivacyUnit("person", neighbours=neighbours)
    if (name, neighbours) in UNPLANNED:
        with refused(UNPLANNED[name, neighbours]):
            fn.plan(replace(REQUESTS[name](), unit=unit))
        return
    plan = fn.plan(replace(REQUESTS[name](), unit=unit))
    is_shown = check_number(plan.order, 40)
    assert is_shown is (name in REVEALING and neighbours is REPLACE)
    quantities = registry_record(answered(plan))["deployment"]["dp_variant"]["unprotected_quantities"]
    # Public totals have a statement of their own.
    has_total = plan.publication.public is not None
    assert quantities.startswith("the number of all records") is has_total
    assert has_total or quantities == ("The number of records" if is_shown else "None")


@pytest.mark.parametrize("name", ["projection, exactly", "questions"])
def test_a_release_of_exactly_so_many_records_names_their_number(name, tmp_path, capsys):
    plan = fn.plan(replace(REQUESTS[name](), unit=PERSON))
    added = fn.plan(BY_SEX, unit=PrivacyUnit("person"))
    data, fewer = (np.full((2, 5), 4) - np.eye(2, 5, dtype=int) * missing for missing in (0, 1))
    book, stated = tmp_path / "ledger.db", "entry 1: the number of all records was published without protection"
    with refused("data.size-misfits-data", "data.people-misfits-data"):
        fn.release(plan, fewer, ledger=book, directory=tmp_path / "fewer")
    fn.release(plan, data, ledger=book, directory=tmp_path / "out")
    main(["ledger", "show", str(book)])
    assert stated in capsys.readouterr().out
    later = fn.release(added, data, ledger=book, directory=tmp_path / "later")
    assert later.entry.unprotected == ((1, ()),)
    assert stated in "\n".join(lines(release_report(later)))
    main(["ledger", "show", str(book)])
    assert "more than any rho spent" in capsys.readouterr().out
    for folder in ("out", "later"):
        assert fn.verify(tmp_path / folder, ledger=book).ok
    with Ledger(tmp_path / "capped.db") as capped:
        for unit in (plan.order.account, added.order.account):
            capped.set_cap(unit, Fraction(10))
    with refused("ledger.cost-unbounded"):
        fn.release(plan, data, ledger=tmp_path / "capped.db", directory=tmp_path / "never")
    assert {x.name for x in tmp_path.iterdir() if x.is_dir()} == {"out", "later"}


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
