"""Integer tables, their order, and microdata of releases with public totals: the totals hold exactly."""

import contextlib
import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize

import fitnoise as fn
from dense import workload_matrix
from fitnoise.errors import DomainError, SpecError, WorkloadError
from fitnoise.planning.files import read_text
from fitnoise.reading import integer_tables as making
from fitnoise.reading.microdata import StatedRecords
from fitnoise.reading.release_files import to_json
from fitnoise.request.known_totals import KnownTotals, TotalsFile
from fitnoise.solving import nearest_integers as rounding
from laws.releases import measured
from refused import refused
from replayed_noise import Replay
from test_known_totals import REGISTER, by_attributes, drawn_plan, possible_cells

pytestmark = pytest.mark.usefixtures("one_duckdb")


def released(plan, counts, seed=0, totals=None):
    """Return a release of counts, with their own totals or others."""
    public = plan.publication.public
    numbers = None
    if public is not None:
        numbers = by_attributes(counts, plan.publication.domain, public.attributes) if totals is None else totals
    file = None if numbers is None else TotalsFile("totals.csv", "", np.asarray(numbers, dtype=float))
    return fn.Release(plan, measured(plan, counts, Replay(seed)).answers[0], public_totals=file)


def known_combinations(rows, totals):
    """Return combinations of numbers and of totals that are equal for all records: a basis of both coefficients.

    rows: The cells that each number counts.
    totals: The cells that each total counts.
    """
    both = np.concatenate([rows.astype(float), -totals])
    _, sizes, right = np.linalg.svd(both.T)
    basis = right[np.count_nonzero(sizes > 1e-9) :]
    return basis[:, : len(rows)], basis[:, len(rows) :]


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_every_number_and_sum_that_totals_give_is_exact(seed):
    """Ranges, groups, joint cells with rules, against all cells: integers keep totals, rules and what adds up."""
    rng = np.random.default_rng(seed)
    plan, _, public = drawn_plan(rng)
    if plan is None:
        return
    domain, workload = plan.publication.domain, plan.publication.workload
    possible = possible_cells(domain)
    for one in domain.ruled_cells:  # rules about attributes that no table shows, too
        index = [np.indices(possible.shape)[list(domain).index(a)] for a in one.names]
        possible &= one.possible_among(domain, list(one.names))[tuple(index)]
    counts = np.where(possible, rng.poisson(rng.choice([0.1, 0.7, 20]), possible.shape), 0)
    release = released(plan, counts, seed)
    integers = fn.make_integer_tables(release, simulations=2)
    assert integers.check() is None
    assert integers.check_rounded() is None
    assert integers.check_simulated() is None
    cells = possible_cells(domain).ravel()
    rows = workload_matrix(workload)[:, cells]
    totals = by_attributes(counts, domain, public).ravel()
    by_cell = np.ravel_multi_index(
        [np.indices(counts.shape)[list(domain).index(a)].ravel()[cells] for a in public],
        [domain[a].size for a in public],
    ) if public else np.zeros(cells.sum(), dtype=int)  # fmt: skip
    by_total = (np.arange(len(totals))[:, None] == by_cell).astype(float)
    mine, theirs = known_combinations(rows, by_total)
    frames = [integers[t.name] for t in workload.tables]
    values = np.concatenate([x["value"].to_numpy() for x in frames])
    np.testing.assert_allclose(mine @ values, theirs @ totals, atol=1e-6)
    assert values.min() >= 0
    assert not values[~rows.any(axis=1)].any()
    # cells of totals of 0 hold no record
    zero = rows[:, totals[by_cell] > 0].any(axis=1)
    assert not values[~zero].any()
    # a number that totals give has no error
    rank = np.linalg.matrix_rank(by_total)
    exact = [i for i, row in enumerate(rows) if np.linalg.matrix_rank(np.vstack([by_total, row])) == rank]
    for column in ("simulated_bias", "simulated_rmse"):
        assert not np.concatenate([x[column] for x in frames])[exact].any()
    ends = [np.concatenate([x[column] for x in frames])[exact] for column in ("low", "high")]
    assert all((x == values[exact]).all() for x in ends)


HOMES = fn.Domain(county=fn.Categorical(["a", "b", "c", "d"]), tenure=fn.Categorical(["own", "rent"]))
PEOPLE = fn.Domain(county=fn.Categorical(["a", "b", "c", "d"]), sex=fn.Categorical(["f", "m"]))
HOME_COUNTS = np.array([[40, 20], [1, 0], [0, 0], [2, 3]])
PEOPLE_COUNTS = np.array([[70, 80], [2, 1], [0, 0], [20, 11]])
RULES = ["homes: county <= people: county", "people: county <= 10 * homes: county"]


@cache
def plan_of(kind, public):
    """Return the plan of homes or people, with public totals by some attributes, or without."""
    domain = HOMES if kind == "homes" else PEOPLE
    other = "tenure" if kind == "homes" else "sex"
    tables = [fn.table("county", margin=6), fn.table("county", other, margin=6)]
    totals = None if public is None else KnownTotals(public, REGISTER)
    return fn.plan(fn.Workload(domain, tables), public=totals, source=fn.DataSource(kind))


@pytest.mark.parametrize(
    ("homes", "people"), [(None, ("county",)), (("county",), None), ((), ("sex",)), (("county",), ("county",))]
)
def test_order_holds_with_totals_of_one_or_both(homes, people):
    releases = {
        "homes": released(plan_of("homes", homes), HOME_COUNTS, 1),
        "people": released(plan_of("people", people), PEOPLE_COUNTS, 2),
    }
    tables = fn.make_integer_tables(releases, at_most=RULES, simulations=3)
    assert tables.check() is None
    assert tables.check_rounded() is None
    assert tables.check_simulated() is None
    h, p = (tables[f"{x}: county"]["value"].to_numpy() for x in releases)
    assert ((h <= p) & (p <= 10 * h)).all()
    for name, public, counts in (("homes", homes, HOME_COUNTS), ("people", people, PEOPLE_COUNTS)):
        both = tables[f"{name}: {'county by tenure' if name == 'homes' else 'county by sex'}"]["value"].to_numpy()
        domain = plan_of(name, public).publication.domain
        if public is not None:
            summed = by_attributes(both.reshape(counts.shape), domain, public)
            assert np.array_equal(summed, by_attributes(counts, domain, public))


def test_tables_before_rounding_are_the_nearest_with_the_totals():
    """The least distance in the metric of the noise, by the covariance of all numbers."""
    plan = plan_of("people", ("county",))
    release = released(plan, PEOPLE_COUNTS, 3)
    tables = fn.make_integer_tables(release, "county by sex", simulations=0)
    numbers = release["county by sex"]["value"].to_numpy()
    forms = release._sources[0].numbers("county by sex")
    n = len(numbers)
    covariance = np.array([forms.take(np.full(n, i)).covariances(forms) for i in range(n)])
    values, vectors = np.linalg.eigh(covariance)
    noisy = values > 1e-9 * values.max()
    root = vectors[:, noisy] * np.sqrt(values[noisy])
    # the least ‖z‖ with numbers + root z ≥ 0 (Lawson and Hanson 1974, section 23.4)
    rows, aim = np.vstack([root.T, -numbers]), np.eye(noisy.sum() + 1)[-1]
    residual = rows @ optimize.nnls(rows, aim)[0] - aim
    expected = numbers - root @ (residual[:-1] / residual[-1])
    nearest = tables.nearest("county by sex").ravel()
    np.testing.assert_allclose(nearest, expected, atol=1e-6)
    np.testing.assert_allclose(nearest.reshape(-1, 2).sum(axis=1), PEOPLE_COUNTS.sum(axis=1), atol=1e-8)


@pytest.mark.parametrize(
    ("homes", "people", "text"),
    [
        # more homes than people in county c
        ([60, 1, 1, 5], [150, 3, 0, 31], "they exceed it by 1.0 ± 0.0"),
        # more than ten people a home in county b
        ([60, 1, 0, 5], [150, 11, 0, 31], "they exceed it by 1.0 ± 0.0"),
    ],
)
def test_totals_that_contradict_a_rule_are_refused(homes, people, text):
    releases = {
        "homes": released(plan_of("homes", ("county",)), HOME_COUNTS, 1, homes),
        "people": released(plan_of("people", ("county",)), PEOPLE_COUNTS, 2, people),
    }
    with refused("release.order-contradicted") as caught:
        fn.make_integer_tables(releases, at_most=RULES, simulations=0)
    assert text in str(caught.value)


BLOCKS = fn.Domain(state=fn.Categorical(["A", "B"]), block=fn.Categorical([0, 1, 2]))


def test_sums_of_totals_that_contradict_a_rule_are_refused():
    """No single number contradicts it, and the sum of all does not: only that of a state does."""
    plan = fn.plan(
        fn.Workload(BLOCKS, [fn.table("state", "block", margin=60)]), public=KnownTotals(("state",), REGISTER)
    )
    counts = np.full((2, 3), 20)
    releases = {"homes": released(plan, counts, 1, [62, 20]), "people": released(plan, counts, 2, [60, 90])}
    rule = "homes: state by block <= people: state by block"
    with refused("release.order-contradicted") as caught:
        fn.make_integer_tables(releases, at_most=rule, simulations=0)
    assert "The public totals contradict" in str(caught.value)
    assert "they exceed it by 2." in str(caught.value)


def test_of_many_numbers_totals_hold_in_the_shared_sums(monkeypatch):
    """The totals are fixed among the shared sums, which are rounded before the tables."""
    monkeypatch.setattr(rounding, "MAX_CONNECTED_NUMBERS", 0)
    domain = fn.Domain(**{x: fn.Categorical(list(range(3))) for x in "abc"})
    tables = [fn.table(*x, margin=6) for x in ("ab", "ac", "bc")]
    plan = fn.plan(fn.Workload(domain, tables), public=KnownTotals(("a",), REGISTER))
    counts = np.random.default_rng(5).poisson(2, domain.shape)
    integers = fn.make_integer_tables(released(plan, counts, 4), simulations=0)
    assert integers.check() is None
    assert integers.check_rounded() is None
    space = integers._parts[0].space
    values = np.concatenate([integers[x]["value"] for x in space.names])
    common = space.sums.common()
    coarse = rounding._rounded(*rounding._coarse(values.astype(float), common), np.inf)
    rows, sums = common.fixed
    assert len(sums) == 4  # by a, and all records
    assert np.array_equal(rows @ coarse, sums)


@pytest.mark.parametrize("change", ["values", "multipliers"])
def test_what_was_altered_is_noticed(change, tmp_path):
    release = released(plan_of("people", ("county",)), PEOPLE_COUNTS, 3)
    tables = fn.make_integer_tables(release, simulations=0)
    document = tables.document()
    county, both = document["tables"]
    if change == "values":
        county["values"][0] += 1
        both["values"][0] += 1
    else:
        county.update(at=[0], multipliers=[1.0])
        both.pop("at")
        both.pop("multipliers")
    (tmp_path / making.DESCRIPTION).write_text(to_json(document), encoding="utf-8")
    if change == "values":
        fault = making.read_integer_tables(release, tmp_path).check()
        assert fault.id == "report.fault.sums"
    else:
        with refused("release.integer-tables-damaged"):
            making.read_integer_tables(release, tmp_path)
    assert read_text(tmp_path / making.DESCRIPTION)


def test_a_multiplier_of_a_known_number_is_not_read(tmp_path):
    release = released(plan_of("people", ("county",)), PEOPLE_COUNTS, 3)
    document = fn.make_integer_tables(release, "county", simulations=0).document()
    document["tables"][0].update(at=[0], multipliers=[1.0])
    (tmp_path / making.DESCRIPTION).write_text(to_json(document), encoding="utf-8")
    with refused("release.integer-tables-damaged"):
        making.read_integer_tables(release, tmp_path)


# --- microdata --------------------------------------------------------------------------------------------------------

PAIRS = fn.Domain(
    state=fn.Categorical(["Ohio", "Iowa", "Utah"]),
    age=fn.Categorical(["0-14", "15-64", "65+"]),
    status=fn.Categorical(["single", "married", "widowed"]),
).without(age="0-14", status=["married", "widowed"])


def invented(public, tables, batches=60):
    plan = fn.plan(fn.Workload(PAIRS, tables), public=KnownTotals(public, REGISTER))
    counts = np.where(possible_cells(plan.publication.domain), np.random.default_rng(6).poisson(9, PAIRS.shape), 0)
    release = released(plan, counts, 7)
    records = fn.microdata(fn.make_integer_tables(release, simulations=0), batches=batches, anyway=True)
    names = [list(PAIRS[a].values) for a in public]
    counted = records.groupby(list(public)).size().to_dict() if public else {(): len(records)}
    flat = by_attributes(counts, plan.publication.domain, public)
    for cell in np.ndindex(*flat.shape):
        key = tuple(x[i] for x, i in zip(names, cell, strict=True))
        assert counted.get(key[0] if len(key) == 1 else key, 0) == flat[cell]
    return records


TWO_TABLES = [fn.table("state", margin=6), fn.table("state", "age", margin=6), fn.table("age", "status", margin=6)]


@pytest.mark.parametrize("public", [(), ("state",), ("age",), ("status", "age"), ("state", "age"), ("age", "state")])
def test_records_have_the_totals_exactly(public):
    records = invented(public, TWO_TABLES)
    assert not ((records["age"] == "0-14") & (records["status"] != "single")).any()


def test_records_of_all_attributes_have_the_totals_exactly():
    invented(("state",), [fn.table("state", "age", "status", margin=6)])


def ruled_domain(rng):
    """Return a domain with random rules, and whether a row of a frame follows them; None if a rule is refused."""
    values = {"a": ["p", "q", "r"], "b": ["s", "t"], "c": ["u", "v", "w"], "d": ["x", "y"]}
    domain, rules = fn.Domain({a: fn.Categorical(x) for a, x in values.items()}), []
    for _ in range(rng.integers(1, 3)):
        names = sorted(rng.choice([*values], rng.integers(2, 4), replace=False).tolist())
        if rng.random() < 0.6:
            box = {a: [x for x in values[a] if rng.random() < 0.6] or values[a][:1] for a in names}
            domain = domain.without(box)
            rules.append(lambda row, box=box: any(row[a] not in x for a, x in box.items()))
        else:
            rows = [x for x in itertools.product(*(values[a] for a in names)) if rng.random() < 0.6]
            domain = domain.only({a: [x[i] for x in rows] for i, a in enumerate(names)})
            rules.append(lambda row, names=names, rows=rows: tuple(row[a] for a in names) in rows)
    return domain, lambda row: all(rule(row) for rule in rules)


@settings(max_examples=40)
@example(seed=1000034)  # no records
@given(seed=st.integers(0, 2**32))
def test_every_record_is_possible_with_exact_totals(seed, tmp_path_factory):
    """Random rules, tables and totals: attributes of a rule stand in common tables or not, all shown or not."""
    rng = np.random.default_rng(seed)
    plan = None
    with contextlib.suppress(DomainError, SpecError, WorkloadError):
        domain, is_possible = ruled_domain(rng)
        displayed = [a for a in domain if a in "ab" or rng.random() < 0.8]
        sets = [(a,) for a in displayed]
        sets += [x for x in itertools.combinations(displayed, int(rng.integers(2, 4))) if rng.random() < 0.5]
        public = tuple(a for a in displayed if rng.random() < 0.4)
        totals = KnownTotals(public, REGISTER) if rng.random() < 0.7 else None
        plan = fn.plan(fn.Workload(domain, [fn.table(*x, variance=4.0) for x in sets]), public=totals)
    if plan is None:
        return
    cells = list(itertools.product(*(domain[a].values for a in domain)))
    truth = [is_possible(dict(zip(domain, x, strict=True))) for x in cells]
    shape = [domain[a].size for a in domain]
    counts = np.where(np.reshape(truth, shape), rng.poisson(rng.choice([0.3, 5]), shape), 0)
    integers = fn.make_integer_tables(released(plan, counts, seed), simulations=0)
    path = tmp_path_factory.mktemp("records") / "people.csv"
    records = fn.microdata(integers, batches=40, anyway=True, path=path)
    possible = {
        tuple(x[i] for i, a in enumerate(domain) if a in displayed) for x, y in zip(cells, truth, strict=True) if y
    }
    assert set(records[displayed].itertuples(index=False, name=None)) <= possible
    assert records.equals(fn.microdata(integers, batches=40, anyway=True))
    if totals is not None:
        counted = np.zeros([domain[a].size for a in public], dtype=int)
        for row in records[list(public)].to_numpy():
            counted[tuple(domain[a].values.index(x) for a, x in zip(public, row, strict=True))] += 1
        assert np.array_equal(counted, by_attributes(counts, domain, public))
    stated = StatedRecords(integers, path)
    assert stated.check_file() is None
    assert stated.check_tables() is None


BLOCK_NAMES = [f"{state}{county}-{block}" for state in "AB" for county in "123" for block in "1234"]


@pytest.mark.parametrize("public", [None, ("state",), ("county", "marital")])
def test_records_of_places_follow_rules_for_all_noise(public):
    """Only a table of counties shows the attributes of the rule, and the records have blocks."""
    places = {
        name: fn.Categorical(
            sorted({x[:n] for x in BLOCK_NAMES}), column="block", lookup={x: x[:n] for x in BLOCK_NAMES}
        )
        for name, n in (("state", 1), ("county", 2))
    }
    domain = fn.Domain(places, block=fn.Categorical(BLOCK_NAMES), age=PAIRS["age"], marital=PAIRS["status"])
    domain = domain.without(age="0-14", marital=["married", "widowed"])
    tables = [fn.table(name, margin=margin) for name, margin in (("state", 50), ("county", 20), ("block", 8))]
    tables.append(fn.table("county", "age", "marital", margin=20))
    totals = None if public is None else KnownTotals(public, REGISTER)
    plan = fn.plan(fn.Workload(domain, tables), public=totals)
    possible = possible_cells(plan.publication.domain)
    counts = np.where(possible, np.random.default_rng(1).poisson(5, possible.shape), 0)
    for seed in range(20):
        integers = fn.make_integer_tables(released(plan, counts, seed), simulations=0)
        records = fn.microdata(integers, batches=300)
        assert not ((records["age"] == "0-14") & (records["marital"] != "single")).any()
        assert max(x["from_integers"]["rms"] for x in records.attrs["microdata"]["tables"]) < 0.1


def test_totals_of_no_possible_record_are_refused():
    """Files of totals are compared with the rules before a release; these numbers were altered later."""
    plan = fn.plan(fn.Workload(PAIRS, TWO_TABLES), public=KnownTotals(("age", "status"), REGISTER))
    release = released(plan, np.where(possible_cells(plan.publication.domain), 5, 0))
    integers = fn.make_integer_tables(release, simulations=0)
    release.public_totals.numbers[0, 1] += 3
    with refused("release.microdata-impossible") as caught:
        fn.microdata(integers, batches=5)
    assert "count 3 records" in str(caught.value)
