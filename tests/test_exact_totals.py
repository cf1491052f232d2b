"""Releases with public totals in combinations and with rules: as least squares with equality constraints."""

import itertools

import numpy as np
import pytest
import scipy.linalg as sl

import fitnoise as fn
from dense import workload_matrix
from fitnoise.kernel import noise
from fitnoise.kernel.units import Neighbours
from fitnoise.messages import english
from fitnoise.reading import combining
from fitnoise.reading.combining import read_combination
from fitnoise.request.known_totals import KnownTotals, TotalsFile
from laws.releases import measured
from refused import refused
from replayed_noise import Replay
from test_combining import covariances, numbers
from tolerances import as_often_as

pytestmark = pytest.mark.usefixtures("one_duckdb")

REGISTER = "Population register, 1 January 2026"
DOMAIN = fn.Domain(
    state=fn.Categorical(["A", "B", "C"]),
    sex=fn.Categorical(["f", "m"]),
    age=fn.Ordered(0, 3),
    group=fn.Binned([2], column="age"),
)
COUNTS = np.random.default_rng(3).integers(0, 60, DOMAIN.shape) * (
    np.arange(4)[:, None] // 2 == np.arange(2)
)  # ages 0 and 1 are in the first group
TABLES = {
    "values": [fn.table("state", "sex", margin=5), fn.table("age", margin=8)],
    "sums": [fn.table("state", cumulative="age", margin=6), fn.table("sex", "age", margin=7)],
    "sexes": [fn.table("sex", margin=4), fn.table("state", margin=9)],
    "groups": [fn.table("state", "group", margin=5), fn.table("age", "sex", margin=6)],
    "state": [fn.table("state", "sex", margin=4)],
}


def totals_by(*attributes):
    others = tuple(i for i, a in enumerate(DOMAIN) if a not in attributes)
    summed = COUNTS.sum(axis=others).astype(float)
    return summed.transpose([sorted(attributes, key=list(DOMAIN).index).index(a) for a in attributes])


def release_of(name, attributes=None, seed=0, numbers=None):
    """A release of tables; `attributes` are those of public totals, and None no totals."""
    if attributes is None:
        plan = fn.plan(fn.Workload(DOMAIN, TABLES[name]))
        return fn.Release(plan, measured(plan, COUNTS, Replay(seed)).answers[0])
    plan = fn.plan(fn.Workload(DOMAIN, TABLES[name]), public=KnownTotals(attributes, REGISTER))
    file = TotalsFile("totals.csv", "", totals_by(*attributes) if numbers is None else np.array(numbers, dtype=float))
    return fn.Release(plan, measured(plan, COUNTS, Replay(seed)).answers[0], public_totals=file)


def combine_same(*releases):
    return fn.combine(*releases, same_records=True)


def adding(domain, attributes):
    """Return the rows that add up the cells of a domain by some attributes, (totals, cells)."""
    cells = np.indices(domain.shape).reshape(len(domain), -1)
    places = np.zeros(cells.shape[1], dtype=int)
    for a in attributes:
        places = places * domain[a].size + cells[list(domain).index(a)]
    return np.equal.outer(np.arange(int(np.prod([domain[a].size for a in attributes]))), places).astype(float)


def by_equality_constraints(combined, possible):
    """Return all numbers of a combination and their covariances: least squares with the totals as equations.

    possible: True for the possible cells of the domain, in C order.
    """
    domain, rows, values, equations, sums = combined._domain, [], [], [], []
    for r in combined.releases:
        for source in r._sources:
            forms = numbers(source)
            variances, vectors = np.linalg.eigh(covariances(forms))
            noisy = variances > 1e-11 * variances.max()
            whitened = (vectors[:, noisy] / np.sqrt(variances[noisy])).T
            rows.append(whitened @ workload_matrix(fn.Workload(domain, list(source.part.publication.workload.tables))))
            values.append(whitened @ forms.values())
        if r.public_totals is not None:
            equations.append(adding(domain, r.plan.publication.public.attributes))
            sums.append(r.public_totals.numbers.ravel())
    matrix, answers = np.concatenate(rows)[:, possible], np.concatenate(values)
    exact, sums_known = np.concatenate(equations)[:, possible], np.concatenate(sums)
    x = np.linalg.pinv(exact) @ sums_known
    np.testing.assert_allclose(exact @ x, sums_known, atol=1e-9 * sums_known.max())
    free = sl.null_space(exact)
    solved = free @ np.linalg.pinv(matrix @ free, rcond=1e-11)
    queries = workload_matrix(combined._workload)[:, possible]
    covariance = queries @ solved @ solved.T @ queries.T
    return queries @ (x + solved @ (answers - matrix @ x)), covariance


def check(combined, possible):
    expected, covariance = by_equality_constraints(combined, possible)
    np.testing.assert_allclose(covariances(numbers(combined._combined)), covariance, atol=1e-9 * covariance.max())
    value, error = (np.concatenate([combined[name][c] for name in combined]) for c in ("value", "std_error"))
    np.testing.assert_allclose(value, expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(error**2, covariance.diagonal(), atol=1e-9 * covariance.max())


ALL = np.ones(COUNTS.size, dtype=bool)
POSSIBLE_AGES = np.broadcast_to(np.arange(4)[:, None] // 2 == np.arange(2), DOMAIN.shape).ravel()

CASES = {
    "one with totals": [("values", ("state",)), ("sums", None)],
    "both by other attributes": [("values", ("state",)), ("sexes", ("sex",))],
    "equal totals": [("values", ("state",)), ("state", ("state",))],
    "coarser totals": [("state", ("sex",)), ("values", ()), ("sums", None)],
    "three files": [("values", ("state", "sex")), ("sums", ("age",)), ("sexes", ("state",))],
    "by a structured attribute": [("sums", ("age",)), ("values", ("age", "state")), ("sexes", None)],
    "order of attributes": [("sums", ("age", "sex")), ("sums", ("state",))],
}


@pytest.mark.parametrize("case", CASES)
def test_a_combination_is_least_squares_with_the_totals_as_equations(case):
    combined = combine_same(*(release_of(*x, seed=i) for i, x in enumerate(CASES[case])))
    check(combined, ALL)


@pytest.mark.parametrize("attributes", [("state",), ("age",), ("group",), ("state", "group")])
def test_totals_of_attributes_of_one_column_are_equations_over_their_possible_cells(attributes):
    check(combine_same(release_of("groups", attributes), release_of("groups", None, seed=1)), POSSIBLE_AGES)
    check(combine_same(release_of("groups", attributes), release_of("groups", ("sex",), seed=1)), POSSIBLE_AGES)


@pytest.mark.parametrize("seed", range(8))
def test_random_tables_and_totals_are_combined_as_by_dense_least_squares(seed):
    rng = np.random.default_rng(seed)
    names = ["state", "sex", "age"]

    releases = []
    for i in range(int(rng.integers(2, 4))):
        name = str(rng.choice(["values", "sums", "sexes"]))
        used = {a for t in TABLES[name] for a in t.attributes}
        public = tuple(a for a in names if a in used and rng.random() < 0.5)
        releases.append(release_of(name, public if len(public) < len(used) and rng.random() < 0.7 else None, i))
    if all(r.public_totals is None for r in releases):
        releases[0] = release_of("values", ("state",), 0)
    check(combine_same(*releases), ALL)


RULE = {"state": "B", "sex": "m"}


@pytest.mark.parametrize("attributes", [("state",), ("sex",), (), ("state", "sex")])
def test_rules_and_totals_are_least_squares_over_the_possible_cells(attributes, monkeypatch):
    counts = COUNTS.copy()
    counts[1, 1] = 0
    monkeypatch.setitem(globals(), "COUNTS", counts)
    possible = np.ones(DOMAIN.shape, dtype=bool)
    possible[1, 1] = False
    of_values = attributes if len(attributes) < 2 else ("state",)  # the tables follow from totals by both
    releases = [release_of("values", of_values), release_of("sums", attributes, seed=1)]
    check(fn.given(releases[0], impossible=[RULE]), possible.ravel())
    check(fn.given(combine_same(*releases), impossible=[RULE]), possible.ravel())
    assert fn.given(releases[0], impossible=[RULE]).certificate is None


def test_sums_are_those_of_the_file_and_have_no_error():
    combined = combine_same(release_of("values", ("state",)), release_of("sums"))
    frame = combined.count(by="state").frame()
    assert frame["value"].tolist() == pytest.approx(totals_by("state").tolist(), abs=1e-9)
    assert frame["std_error"].max() < 1e-9
    single = release_of("values", ("state",)).count(by="sex").frame()["std_error"]
    assert (combined.count(by="sex").frame()["std_error"] < single).all()
    women = combined.count(by="state", sex="f")
    fractions = (women / combined.count(by="state")).frame()
    np.testing.assert_allclose(fractions["value"], women.frame()["value"] / totals_by("state"))
    np.testing.assert_allclose(
        fractions["high"] - fractions["value"], women.frame()["moe"] / totals_by("state"), rtol=1e-3
    )


def test_within_units_are_combined():
    """Totals are counted from the data, and the unit is one record that another one of the same state replaces."""
    unit = fn.PrivacyUnit("person", neighbours=Neighbours.REPLACE_ONE, within=("state",))
    public = KnownTotals(("state",), REGISTER, "these data")
    releases = []
    for seed, name in enumerate(("values", "state")):
        plan = fn.plan(fn.Workload(DOMAIN, TABLES[name]), public=public, unit=unit)
        file = TotalsFile("totals.csv", "", totals_by("state"))
        releases.append(fn.Release(plan, measured(plan, COUNTS, Replay(seed)).answers[0], public_totals=file))
    check(combine_same(*releases), ALL)
    stated = " ".join(map(english, combine_same(*releases).conditions))
    assert "counted from these data" in stated


def test_files_that_contradict_each_other_are_refused_with_both_numbers():
    numbers_by_state = (totals_by("state") + np.array([0, 2, 0])).tolist()
    releases = release_of("values", ("state",)), release_of("state", ("state",), 1, numbers=numbers_by_state)
    with refused("release.public-totals-contradict") as caught:
        combine_same(*releases)
    right, wrong = (int(x[1]) for x in (totals_by("state"), numbers_by_state))
    assert str(caught.value) == (
        f"The public totals of these releases contradict each other. One has {right} and the other {wrong} for state "
        "= 'B'. Releases of the same records have the same totals. Leave out the release with the wrong file. Nothing "
        "was combined."
    )
    # files without a common attribute have the number of all records in common
    with refused("release.public-totals-contradict") as caught:
        combine_same(releases[0], release_of("sexes", ("sex",), numbers=totals_by("sex") + np.array([1, 0])))
    assert "for all records" in caught.value.given


def test_files_that_no_records_can_have_are_refused():
    """Ages determine groups, so totals by age give those by group."""
    by_age = totals_by("age")
    by_group = np.array([by_age[:2].sum() + 1, by_age[2:].sum() - 1])
    releases = release_of("groups", ("age",)), release_of("groups", ("group",), 1, numbers=by_group)
    with refused("release.public-totals-contradict") as caught:
        combine_same(*releases)
    assert "no records can have them" in caught.value.given
    with refused("release.public-totals-contradict"):
        fn.given(release_of("values", ("state",)), impossible=[{"state": "B", "sex": ["f", "m"]}])


def test_rules_with_many_joint_cells_have_no_public_totals(monkeypatch):
    monkeypatch.setattr(combining, "MAX_DENSE_RULE_CELLS", 0)
    with refused("release.public-totals-with-classes"):
        fn.given(release_of("values", ("state",)), impossible=[RULE])


def test_a_combination_states_its_totals_and_is_read_back(tmp_path):
    releases = [release_of("values", ("state",)), release_of("sums", ("sex",), seed=1)]
    combined = combine_same(*releases)
    stated = [english(x) for x in combined.conditions]
    assert sum(REGISTER in x for x in stated) == 2
    universe = combined["age"].attrs["universe"]
    assert len(universe) == len(set(universe))
    assert set(stated) <= set(universe)
    combined.write(tmp_path / "c")
    reread = read_combination(releases[::-1], tmp_path / "c")
    assert combining.check_tables(reread, tmp_path / "c") is None
    other = fn.Release(
        releases[1].plan,
        releases[1].answers,
        public_totals=TotalsFile("totals.csv", "", totals_by("sex") + np.array([1, -1])),
    )
    shifted = read_combination([releases[0], other], tmp_path / "c")
    assert combining.check_tables(shifted, tmp_path / "c") is not None


def test_intervals_of_combinations_with_totals_hold_as_often_as_they_say():
    """10,000 draws of the sampled noise: numbers are within their margins as often as stated."""
    plans = [release_of("values", ("state",)).plan, release_of("sums", ("sex",)).plan]
    files = [TotalsFile("totals.csv", "", 0 * totals_by(a)) for a in ("state", "sex")]
    lengths = [[*p.table_part.strategy.lengths] for p in plans]

    def errors(answers):
        ends = np.cumsum(lengths[0] + lengths[1])[:-1]
        parts = np.split(answers, ends)
        split = parts[: len(lengths[0])], parts[len(lengths[0]) :]
        releases = [fn.Release(p, y, public_totals=f) for p, y, f in zip(plans, split, files, strict=True)]
        return combine_same(*releases)

    effects = []
    for unit in np.eye(sum(lengths[0] + lengths[1]), dtype=np.int64):
        combined = errors(unit)
        effects.append(np.concatenate([combined[name]["value"] for name in combined]))
    margins = np.concatenate([combined[name]["moe"] for name in combined])
    scales = np.concatenate([np.repeat(s, n) for p in plans for s, n in p.table_part.strategy.runs])
    noises = noise.discrete_gaussians(scales, np.full(len(scales), 10_000)).reshape(len(scales), -1).astype(float)
    inside = np.abs(noises.T @ np.stack(effects)) <= margins + 1e-9
    for j in np.flatnonzero(margins > 1e-6).tolist():
        assert as_often_as(inside[:, j], 0.95)
    assert inside[:, margins <= 1e-6].all()
    assert 0 < (margins <= 1e-6).sum() < len(margins)


def test_the_order_of_releases_changes_no_number():
    releases = [release_of(*x, seed=i) for i, x in enumerate(CASES["three files"])]
    expected = combine_same(*releases).count(by=["state", "sex"]).frame()
    for order in itertools.permutations(releases):
        np.testing.assert_allclose(combine_same(*order).count(by=["state", "sex"]).frame()["value"], expected["value"])
