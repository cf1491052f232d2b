"""Plans with rules that leave many combinations of values: by classes of values, at the optimum over possible cells."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.errors import FitnoiseError, WorkloadError
from fitnoise.messages import english
from fitnoise.planning import joint_axes
from fitnoise.planning.plan import Plan
from fitnoise.planning.shared_columns import counted_jointly
from fitnoise.reading.covariances import covariances
from fitnoise_check.exact import Wrong
from fitnoise_check.plan import check
from laws.releases import released
from refused import refused

PARTS = {
    "age": {"0-14": 15, "15-17": 3, "18+": 68},
    "marital": {"never": 1, "married": 1, "was": 4},
    "relation": {"householder": 1, "spouse": 1, "child": 1, "rest": 5},
    "work": {"none": 1, "asked": 3},
    "education": {"none": 1, "low": 3, "high": 12},
}

RULES = [
    {"age": ["0-14"], "marital": ["married", "was"]},
    {"age": ["0-14"], "relation": ["householder", "spouse"]},
    {"relation": ["spouse"], "marital": ["never", "was"]},
    {"age": ["0-14"], "work": ["asked"]},
    {"age": ["15-17", "18+"], "work": ["none"]},
    {"age": ["0-14"], "education": ["low", "high"]},
    {"age": ["15-17", "18+"], "education": ["none"]},
    {"age": ["15-17"], "education": ["high"]},
]

THREE = ("age", "marital", "relation")


def codes(name, parts, scale=1):
    """Return the values of some parts of an attribute; a scale is the largest number for each part."""
    return [f"{part} {i}" for part in parts for i in range(min(PARTS[name][part], scale or 1000))]


def domain_of(names, scale=None, **further):
    attributes = {name: fn.Categorical(codes(name, PARTS[name], scale)) for name in names}
    attributes |= {name: fn.Categorical([f"{name} {i}" for i in range(n)]) for name, n in further.items()}
    domain = fn.Domain(attributes)
    for rule in RULES:
        if rule.keys() <= set(names):
            domain = domain.without(**{a: codes(a, parts, scale) for a, parts in rule.items()})
    return domain


def subsets(names, size):
    return list(itertools.combinations(names, size))


def tables_of(sets, **target):
    return [fn.table(*names, **(target or {"std_error": 1})) for names in sets]


def records_of(domain, size, rng):
    """Return possible records, drawn uniformly."""
    columns = {a: rng.choice(domain[a].values, size) for a in domain}
    frame, impossible = pd.DataFrame(columns), np.zeros(size, dtype=bool)
    for rule in RULES:
        if rule.keys() <= set(domain):
            inside = [frame[a].str.rsplit(" ", n=1).str[0].isin(parts) for a, parts in rule.items()]
            impossible |= np.all(inside, axis=0)
    return frame[~impossible].reset_index(drop=True)


def classes_of(plan):
    (one,) = plan.publication.domain.axes.joint.values()
    return one


SMALL = domain_of(THREE, 3, sex=2)
SMALL_TABLES = tables_of([*subsets(THREE, 2), ("age",), ("sex", "age"), ("marital", "sex")])


@pytest.fixture
def few_cells(monkeypatch):
    """Set a limit that combinations of values exceed, and those of classes do not."""
    monkeypatch.setattr(joint_axes, "MAX_RULED_CELLS", 12)


@pytest.fixture
def plan(few_cells):
    return fn.plan(fn.Workload(SMALL, SMALL_TABLES))


# --- the optimum --------------------------------------------------------------------------------------------

FIVE = tuple(PARTS)
SEVEN = (*FIVE, "state", "sex")


@pytest.mark.parametrize(
    ("names", "further", "sets", "delta_squared"),
    [
        (THREE, {}, subsets(THREE, 2), 2.7874),
        (THREE, {}, [*subsets(THREE, 2), *subsets(THREE, 1)], 4.7788),
        pytest.param(FIVE, {}, subsets(FIVE, 2), 8.0169, marks=pytest.mark.slow),
        pytest.param(FIVE, {}, [*subsets(FIVE, 2), *subsets(FIVE, 1)], 10.1944, marks=pytest.mark.slow),
        pytest.param(FIVE, {}, subsets(FIVE, 3), 7.7110, marks=pytest.mark.slow),
        pytest.param(FIVE, {"state": 51, "sex": 2}, subsets(SEVEN, 2), 15.2819, marks=pytest.mark.slow),
        pytest.param(
            FIVE,
            {"state": 51, "sex": 2},
            [x for x in subsets(SEVEN, 3) if "state" in x],
            10.5215,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_cost_is_the_known_optimum_over_possible_cells(names, further, sets, delta_squared):
    """An independent program computed the optima of up to 27 million cells, to a gap of 1e-4."""
    plan = fn.plan(fn.Workload(domain_of(names, **further), tables_of(sets)), gap=1e-4)
    assert float(plan.table_part.exact_cost) == pytest.approx(delta_squared, rel=2e-4)
    assert len(classes_of(plan).cells) <= 32


def drawn_problem(draw):
    """Return a publication with drawn rules on classes of values, which a plan can list by value or by class."""
    names = [f"a{i}" for i in range(int(draw.integers(2, 4)))]
    sizes = {a: draw.integers(1, 4, int(draw.integers(1, 4))).tolist() for a in names}
    domain = fn.Domain({a: fn.Ordered(0, sum(x) - 1) for a, x in sizes.items()} | {"b": fn.Ordered(0, 1)})
    ends = {a: np.cumsum([0, *x]) for a, x in sizes.items()}
    numbers = [len(sizes[a]) for a in names]
    holes = [cell for cell in np.ndindex(*numbers) if draw.random() < 1 / 4]
    for cell in holes:
        values = {a: {"values": list(range(ends[a][k], ends[a][k + 1]))} for a, k in zip(names, cell, strict=True)}
        domain = domain.without(**values)
    sets = [x for k in (1, 2) for x in subsets((*names, "b"), k) if draw.random() < 3 / 4]
    sets += [] if any(len({*x} & {*names}) > 1 for x in sets) else [tuple(names)]
    return domain, [fn.table(*x, variance=float(draw.uniform(0.5, 2))) for x in sets]


def test_plans_by_class_and_by_value_have_one_optimum(monkeypatch):
    """Both plans of a drawn problem have the same cost, and the checker computes that cost and its bound."""
    draw, compared = np.random.default_rng(60), 0
    for _ in range(400):
        try:
            workload = fn.Workload(*drawn_problem(draw))
            monkeypatch.setattr(joint_axes, "MAX_RULED_CELLS", 512)
            by_value = fn.plan(workload, gap=1e-7)
        except FitnoiseError:  # no combination is possible, or none is impossible
            continue
        listed = by_value.publication.domain.axes.joint
        monkeypatch.setattr(joint_axes, "MAX_RULED_CELLS", max((len(x.cells) for x in listed.values()), default=0) - 1)
        try:
            by_class = fn.plan(workload, gap=1e-7)
        except WorkloadError:  # each value is a class
            continue
        if not any(any(one.classes) for one in by_class.publication.domain.axes.joint.values()):
            continue
        compared += 1
        costs = [float(x.table_part.exact_cost) for x in (by_value, by_class)]
        assert costs[0] == pytest.approx(costs[1], rel=1e-6)
        for name in workload.tables.names:
            target, (one, other) = (
                workload[name].target.number,
                (x.table_part.table_variances(name) for x in (by_value, by_class)),
            )
            assert ((one == 0) == (other == 0)).all()
            assert max(one.max(), other.max()) <= target * (1 + 1e-9)
        sentences = [*check(by_class.to_json().encode(), by_class.hash)]
        assert any("charge as stated" in x for x in sentences)
        assert any("variances at most" in x for x in sentences)
        if compared == 20:
            break
    assert compared == 20


def test_replaced_records_are_not_planned_by_class(few_cells):
    """Their tables take the number of records from public totals, which a plan by class does not leave out."""
    workload, unit = fn.Workload(SMALL, SMALL_TABLES), fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    with refused("spec.number-of-records-missing"):
        fn.plan(workload, unit=unit)
    with refused("workload.rules-not-planned"):
        fn.plan(workload, unit=unit, public=fn.KnownTotals((), "the register of 2025"))


# --- the release --------------------------------------------------------------------------------------------


def test_a_plan_lists_classes_and_reads_them_back(plan):
    document = json.loads(plan.to_json())
    (listed,) = document["joint_axes"]
    one = classes_of(plan)
    assert listed["classes"] == {a: list(row) for a, row in zip(one.names, one.classes, strict=True) if row}
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    listed["classes"]["age"][0] = max(listed["classes"]["age"])
    with refused("plan.joint-axes-not-implied"):
        Plan.from_json(json.dumps(document))
    (sentence, *_) = (english(x) for x in counted_jointly(plan))
    assert sentence.startswith(f"by the rules, {len(one.cells)} combinations of classes of values of age, marital")


def test_the_checker_computes_the_charge_the_bound_and_the_variances(few_cells):
    pattern = fn.all_tables(2, THREE, std_error=2)
    for tables in (SMALL_TABLES, [pattern, fn.table("sex", "age", std_error=1)]):
        plan = fn.plan(fn.Workload(SMALL, tables))
        assert any(classes_of(plan).classes)
        sentences = [*check(plan.to_json().encode(), plan.hash)]
        assert any("charge as stated" in x for x in sentences)
        assert any("bound as stated" in x and "variances at most" in x for x in sentences)


@pytest.mark.parametrize("k", [-1, 10**15])
def test_the_checker_refuses_a_class_that_no_cell_can_have(plan, k):
    """At once: it makes no list of all classes up to the largest number in a plan."""
    document = json.loads(plan.to_json())
    document["joint_axes"][0]["classes"]["age"][0] = k
    with pytest.raises(Wrong, match="not from 0 to its number of cells"):
        [*check(json.dumps(document).encode())]


def test_without_noise_all_numbers_are_true(plan, rng, without_noise):
    """And the number of each impossible combination is 0 without error."""
    records = records_of(SMALL, 400, rng)
    release = released(plan, records)
    for name in release:
        frame = release[name]
        names = [a for a in SMALL if a in frame]
        counts = records.groupby(names).size().reindex(pd.MultiIndex.from_frame(frame[names]), fill_value=0)
        assert frame["value"].to_numpy() == pytest.approx(counts.to_numpy(), abs=1e-9)
        assert (counts.to_numpy()[frame["std_error"] == 0] == 0).all()
    pair = release["age by marital"]
    impossible = pair["age"].str.startswith("0-14") & ~pair["marital"].str.startswith("never")
    assert ((pair["std_error"] == 0) == impossible).all()
    children = release.count(age=codes("age", ["0-14"], 3))
    assert float(children.value) == pytest.approx(records["age"].str.startswith("0-14").sum(), abs=1e-9)
    none = release.count(age="0-14 0", marital="married 0")
    assert (float(none.value), float(none.std_error)) == (0, 0)


def test_variances_and_covariances_are_those_of_the_estimates(plan):
    """Each number is a linear function of the answers, whose noise is independent with known scales."""
    lengths = [n for p in plan.groups for n in p.strategy.lengths]
    ends, scales = (
        np.cumsum(lengths)[:-1],
        np.repeat(plan.table_part.strategy.scales, plan.table_part.strategy.portions),
    )
    columns = {name: [] for name in plan.publication.workload.tables.names}
    for unit in np.eye(sum(lengths), dtype=np.int64):
        release = fn.Release(plan, np.split(unit, ends))
        for name, table in release.columns():
            columns[name].append(table["value"])
    for name, values in columns.items():
        noise = np.array(values) * scales[:, None]
        expected = noise.T @ noise
        variances = plan.table_part.table_variances(name).ravel()
        assert variances == pytest.approx(expected.diagonal(), rel=1e-9, abs=1e-12)
        rows = covariances(plan.table_part, name)
        assert np.sort(rows["covariance"])[-5:] == pytest.approx(np.sort(expected[np.triu_indices(len(expected))])[-5:])


@pytest.mark.slow
def test_intervals_cover_the_truth(plan, rng):
    """The test notices a coverage of 94 or 96 %, in 40 releases of some 100 numbers each."""
    records, covered, total = records_of(SMALL, 400, rng), 0, 0
    for _ in range(40):
        release = released(plan, records)
        for name in release:
            frame = release[name]
            names = [a for a in SMALL if a in frame]
            counts = (
                records.groupby(names).size().reindex(pd.MultiIndex.from_frame(frame[names]), fill_value=0).to_numpy()
            )
            noisy = frame["std_error"].to_numpy() > 0
            covered += int((abs(frame["value"] - counts) <= frame["moe"])[noisy].sum())
            total += int(noisy.sum())
    assert total > 3000
    assert covered / total == pytest.approx(0.95, abs=0.01)


def test_a_release_is_written_and_verified_and_has_integer_tables(plan, rng, tmp_path):
    records = records_of(SMALL, 400, rng)
    release = fn.release(plan, records, ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    result = fn.verify(tmp_path / "r")
    assert all(x.holds for x in result.checks)
    assert fn.report(release, tmp_path / "report.html").exists()
    integers = fn.make_integer_tables(release)
    pair, single = integers["age by marital"], integers["age"]
    assert (pair.groupby("age", sort=False)["value"].sum().to_numpy() == single["value"].to_numpy()).all()
    impossible = pair["age"].str.startswith("0-14") & ~pair["marital"].str.startswith("never")
    assert (pair["value"][impossible] == 0).all()


def test_a_record_of_an_impossible_combination_is_refused_or_dropped(plan, rng, few_cells, without_noise):
    records = records_of(SMALL, 100, rng)
    wrong = pd.DataFrame([{"age": "0-14 0", "marital": "married 0", "relation": "rest 0", "sex": "sex 0"}])
    both = pd.concat([records, wrong], ignore_index=True)
    with refused("data.records-impossible"):
        released(plan, both)
    drops = fn.plan(fn.Workload(SMALL, SMALL_TABLES), source=fn.DataSource(outside_rules="drop"))
    one, other = released(drops, both), released(drops, records)
    assert all((one[name]["value"] - other[name]["value"]).abs().max() < 1e-9 for name in one)


# --- what is not planned by class ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"unit": fn.PrivacyUnit("person", 2, once_per=("sex",))},
        {"public": fn.KnownTotals(("sex",), "the register of 2020")},
        {"privacy": "pure"},
        {"mechanism": "fit-for-use-by-axis"},
    ],
)
def test_other_plans_by_class_are_refused(options, few_cells):
    with refused("workload.rules-not-planned"):
        fn.plan(fn.Workload(SMALL, SMALL_TABLES), **options)


def test_tables_of_amounts_are_not_planned_by_class(few_cells):
    domain = fn.Domain({a: SMALL[a] for a in SMALL} | {"income": fn.Amount(0, 100, step=1)})
    domain = domain.without(age=codes("age", ["0-14"], 3), marital=codes("marital", ["married", "was"], 3))
    tables = [fn.table("age", "marital", std_error=1), fn.table("sex", sum="income", std_error=20)]
    with refused("workload.rules-not-planned"):
        fn.plan(fn.Workload(domain, [*tables, fn.table("age", "marital", "sex", std_error=2)]))


def test_releases_by_class_are_combined(plan, rng, few_cells):
    """Two releases of one plan have half the variance, and a smaller one adds what it knows."""
    records = records_of(SMALL, 100, rng)
    releases = [released(x, records) for x in (plan, plan)]
    combined = fn.combine(*releases, same_records=True)
    for name in combined:
        mean = (releases[0][name]["value"] + releases[1][name]["value"]) / 2
        np.testing.assert_allclose(combined[name]["value"], mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(combined[name]["std_error"], releases[0][name]["std_error"] / 2**0.5, rtol=1e-8)
    single = released(fn.plan(fn.Workload(SMALL, [fn.table("sex", std_error=1)])), records)
    both = fn.combine(releases[0], single, same_records=True)
    assert (both["age"]["std_error"] <= releases[0]["age"]["std_error"] * (1 + 1e-9)).all()
    assert both["age"]["value"].sum() == pytest.approx(both["sex"]["value"].sum(), abs=1e-8)
