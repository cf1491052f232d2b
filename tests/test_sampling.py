"""Noise and sampling error in one interval: the formula, its coverage, and standard errors that cannot be used."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fitnoise as fn
from fitnoise.interfaces.cli import main
from fitnoise.kernel import noise
from fitnoise.reading.estimates import Estimates
from fitnoise.reading.sampling import ASSUMPTIONS, NOISE_PARTS
from refused import refused
from tolerances import SIGNIFICANCE, as_often_as

DOMAIN = fn.Domain(region=fn.Categorical({"n": "North", "s": "South"}), age=fn.Ordered(0, 2))
WORKLOAD = fn.Workload(DOMAIN, [fn.table("region", "age", margin=20), fn.table("region", margin=30)])
PLANS = {"zcdp": fn.plan(WORKLOAD), "pure": fn.plan(WORKLOAD, privacy="pure")}
COUNTS = np.array([[400, 300, 200], [30, 20, 10]])
LABELS = [(region, age) for region in ("North", "South") for age in (0, 1, 2)]
ERRORS = np.array([25.0, 10.0, 0.0, 3.0, 100.0, 7.5])
Z = stats.norm.ppf(0.975)


def zeros(plan):
    return [np.zeros(n, dtype=int) for n in plan.table_part.strategy.lengths]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("sampling")
    fn.release(PLANS["zcdp"], COUNTS, ledger=base / "ledger.db", directory=base / "release")
    errors_frame().to_csv(base / "errors.csv", index=False)
    return base


def errors_frame(errors=ERRORS):
    return pd.DataFrame(LABELS, columns=["region", "age"]).assign(std_error=errors)


def estimates_of(kind="zcdp"):
    return fn.Release(PLANS[kind], zeros(PLANS[kind])).count(by=["region", "age"])


# --- the formula ------------------------------------------------------------------------------------------------------


def test_variances_add_up_and_margins_are_normal_quantiles_of_the_sum(folder):
    counts = fn.Release.read(folder / "release").count(by=["region", "age"])
    survey = counts.with_sampling_error(folder / "errors.csv")
    m = counts.std_error.ravel()
    frame = survey.frame()
    assert list(frame) == [
        *("region", "region_code", "age", "value", "noise_std_error", "sampling_std_error", "std_error", "moe", "cv")
    ]
    np.testing.assert_array_equal(frame["value"], counts.value.ravel())
    np.testing.assert_array_equal(frame["noise_std_error"], m)
    np.testing.assert_array_equal(frame["sampling_std_error"], ERRORS)
    np.testing.assert_allclose(frame["std_error"], np.sqrt(ERRORS**2 + m**2), rtol=1e-14)
    np.testing.assert_allclose(frame["moe"], Z * np.sqrt(ERRORS**2 + m**2), rtol=1e-12)
    np.testing.assert_allclose(frame["cv"], frame["std_error"] / np.abs(frame["value"]), rtol=1e-14)
    low, high = survey.interval(0.9)
    np.testing.assert_allclose((high - low).ravel() / 2, stats.norm.ppf(0.95) * frame["std_error"], rtol=1e-12)
    at_once = survey.moe(0.9, simultaneous=True).ravel()
    np.testing.assert_allclose(at_once, stats.norm.isf((1 - 0.9 ** (1 / 6)) / 2) * frame["std_error"], rtol=1e-9)
    assert survey.std_error.shape == survey.cv.shape == (2, 3)


@pytest.mark.parametrize("kind", PLANS)
def test_without_sampling_error_the_margins_are_those_of_the_noise(kind):
    counts = estimates_of(kind)
    survey = counts.with_sampling_error(errors_frame(0.0))
    for simultaneous in (False, True):
        np.testing.assert_allclose(
            survey.moe(0.9, simultaneous=simultaneous), counts.moe(0.9, simultaneous=simultaneous), rtol=1e-9
        )


def test_other_noise_gets_a_part_of_the_allowed_error_that_no_data_choose():
    counts = estimates_of("pure")
    survey = counts.with_sampling_error(errors_frame())
    widths = [
        counts.moe(1 - part * 0.05).ravel() + stats.norm.isf((1 - part) * 0.05 / 2) * ERRORS for part in NOISE_PARTS
    ]
    expected = np.where(ERRORS == 0, counts.moe(0.95).ravel(), np.min(widths, axis=0))
    np.testing.assert_allclose(survey.moe().ravel(), expected, rtol=1e-9)
    assert len({int(i) for i in np.argmin(widths, axis=0)}) > 1  # the parts differ where one error is much larger


def test_the_coefficient_of_variation_of_0_is_undefined(capsys, tmp_path):
    total = fn.Release(PLANS["zcdp"], zeros(PLANS["zcdp"])).count().with_sampling_error(3)
    assert np.isnan(total.cv)
    assert np.isnan(total.frame()["cv"][0])
    release = fn.Release(PLANS["zcdp"], zeros(PLANS["zcdp"])).write(tmp_path / "r")
    (tmp_path / "e.csv").write_text("std_error\n3\n")
    main(["ask", str(release), "count()", "--sampling-errors", str(tmp_path / "e.csv"), "--json"])
    assert json.loads(capsys.readouterr().out)["rows"][0]["cv"] is None


def test_sums_and_differences_take_sampling_errors(folder):
    release = fn.Release.read(folder / "release")
    change = (
        release.count(by="region")
        .change("region")
        .with_sampling_error(pd.DataFrame({"region": ["South"], "std_error": [5.0]}))
    )
    noise_errors = release.count(by="region").change("region").std_error
    assert change.std_error == pytest.approx(np.hypot(5, noise_errors))
    single = release.count(region="n").with_sampling_error(5)
    assert single.std_error == pytest.approx(np.hypot(5, release.count(region="n").std_error))
    assert "with sampling error" in repr(single)


# --- coverage ---------------------------------------------------------------------------------------------------------


def errors_of_noise(plan, counts, draws):
    """Return the errors of estimates for draws of the noise of each answer, (draws, numbers): a linear map."""
    lengths = plan.table_part.strategy.lengths
    unit = np.eye(sum(lengths), dtype=int)
    rows = [fn.Release(plan, np.split(row, np.cumsum(lengths)[:-1])).count(by=list(counts.labels)) for row in unit]
    return draws @ np.array([row.value.ravel() for row in rows])


def draw_noise(kind, plan, trials):
    """Return noise of the real sampler for each answer, (trials, answers)."""
    strategy = plan.table_part.strategy
    if kind == "pure":
        return noise.discrete_laplace(strategy.scale, trials * sum(strategy.lengths)).reshape(trials, -1)
    return np.column_stack(
        [noise.discrete_gaussian(float(s.scale), trials) for s in strategy.sectors for _ in range(s.answers)]
    )


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("ratio", [0.0, 0.2, 1.0, 5.0])
def test_intervals_hold_for_normal_sampling_error_and_drawn_noise(kind, ratio, rng):
    """20,000 surveys: detects a coverage of 94.2 %. Gaussian noise misses as often as it may; other noise no more."""
    plan, trials, counts = PLANS[kind], 20_000, estimates_of(kind)
    s = ratio * counts.std_error.ravel()
    survey = counts.with_sampling_error(errors_frame(s))
    noises = errors_of_noise(plan, counts, draw_noise(kind, plan, trials))
    np.testing.assert_allclose(noises.std(axis=0), counts.std_error.ravel(), rtol=0.1)
    errors = noises + s * rng.standard_normal(noises.shape)
    for gamma in (0.5, 0.95, 0.99):
        held = np.abs(errors) <= survey.moe(gamma).ravel()
        if kind == "zcdp":
            assert as_often_as(held, gamma, slack=1e-4)
        assert (stats.binom.cdf(held.sum(axis=0), trials, gamma - 1e-4) > SIGNIFICANCE / held.shape[1]).all()
    at_once = (np.abs(errors) <= survey.moe(simultaneous=True).ravel()).all(axis=1)
    assert stats.binom.cdf(at_once.sum(), trials, 0.95 - 1e-4) > SIGNIFICANCE


# --- reliability ------------------------------------------------------------------------------------------------------


def test_bands_use_the_margins_of_noise_and_sampling_error(folder):
    counts, rule = fn.Release.read(folder / "release").count(by=["region", "age"]), fn.Bands(0.1, 0.6)
    frame = counts.with_sampling_error(folder / "errors.csv", rule).frame()
    expected = [x.value for x in rule.classify(frame["value"].to_numpy(), frame["moe"].to_numpy())]
    assert frame["reliability"].tolist() == expected
    noise_bands = [x.value for x in rule.classify(counts.value.ravel(), counts.moe().ravel())]
    assert noise_bands != expected
    # a change far below 0 is reliable
    change = counts.change("region")
    few = pd.DataFrame({"region": ["South"] * 3, "age": [0, 1, 2], "std_error": 0.1})
    assert change.with_sampling_error(few, fn.Bands(0.5, 0.6)).frame()["reliability"][0] == "reliable"


# --- standard errors that cannot be used ------------------------------------------------------------------------------


GOOD = errors_frame()

WRONG = {
    "negative": (GOOD.assign(std_error=-1.0), "wrong-standard-error"),
    "percentage": (GOOD.assign(std_error="5%"), "wrong-standard-error"),
    "text": (GOOD.assign(std_error="many"), "wrong-standard-error"),
    "empty": (GOOD.assign(std_error=np.nan), "wrong-standard-error"),
    "infinite": (GOOD.assign(std_error=np.inf), "wrong-standard-error"),
    "truth": (GOOD.assign(std_error=True), "wrong-standard-error"),
    "missing row": (GOOD[1:], "standard-error-missing"),
    "no row": (GOOD[:0], "standard-error-missing"),
    "row twice": (pd.concat([GOOD, GOOD[:1]]), "standard-error-twice"),
    "unknown label": (GOOD.assign(region="East"), "unknown-label-of-standard-error"),
    "label of another type": (GOOD.assign(age=0.5), "unknown-label-of-standard-error"),
    "other column": (GOOD.assign(more=1), "wrong-columns-of-standard-errors"),
    "column missing": (GOOD.drop(columns="age"), "wrong-columns-of-standard-errors"),
    "no errors": (GOOD.drop(columns="std_error"), "wrong-columns-of-standard-errors"),
    "column twice": (pd.concat([GOOD, GOOD["age"]], axis=1), "wrong-columns-of-standard-errors"),
}


@pytest.mark.parametrize(("wrong", "code"), WRONG.values(), ids=WRONG)
def test_wrong_standard_errors_are_refused_as_a_frame_and_as_a_file(wrong, code, tmp_path):
    counts = estimates_of()
    with refused(f"release.{code}"):
        counts.with_sampling_error(wrong)
    # a file has texts alone, so True is no number there, either
    wrong.to_csv(tmp_path / "errors.csv", index=False)
    with refused(f"release.{code}"):
        counts.with_sampling_error(tmp_path / "errors.csv")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("std_error\n12,5\n", "wrong-columns-of-standard-errors"),  # a decimal comma
        ("std_error\n1\n2\n", "standard-error-twice"),
        ("std_error\n", "standard-error-missing"),
        ("std_error\n1_000\n", "wrong-standard-error"),
        ("\x00", "csv-file-unreadable"),
    ],
)
def test_files_of_a_single_number_are_checked(text, code, tmp_path):
    (tmp_path / "e.csv").write_text(text)
    total = fn.Release(PLANS["zcdp"], zeros(PLANS["zcdp"])).count()
    with refused(f"release.{code}", "release.wrong-columns-of-standard-errors"):
        total.with_sampling_error(tmp_path / "e.csv")


def test_other_objects_are_no_standard_errors():
    for value in (None, [1.0] * 6, {"std_error": 1}, ERRORS):
        with refused("release.wrong-type"):
            estimates_of().with_sampling_error(value)
    with refused("release.one-standard-error"):
        estimates_of().with_sampling_error(3.0)
    total = fn.Release(PLANS["zcdp"], zeros(PLANS["zcdp"])).count()
    for value in (-1, np.nan, np.inf):
        with refused("release.wrong-standard-error"):
            total.with_sampling_error(value)
    assert isinstance(total, Estimates)
    assert total.with_sampling_error(np.float64(2)).std_error == pytest.approx(np.hypot(2, total.std_error))


def test_two_values_of_one_label_are_distinguished_by_their_codes():
    domain = fn.Domain(county=fn.Categorical({"01": "Washington", "02": "Washington", "03": "Adams"}))
    plan = fn.plan(fn.Workload(domain, [fn.table("county", margin=9)]))
    counts = fn.Release(plan, zeros(plan)).count(by="county")
    frame = counts.frame()[["county", "county_code"]].assign(std_error=[1.0, 2.0, 3.0])
    for value in (frame[::-1], frame.drop(columns="county")):
        assert counts.with_sampling_error(value).frame()["sampling_std_error"].tolist() == [1, 2, 3]
    with refused("release.wrong-columns-of-standard-errors"):
        counts.with_sampling_error(frame.drop(columns="county_code"))


# --- the command ------------------------------------------------------------------------------------------------------


def ask(folder, *arguments):
    main(["ask", str(folder / "release"), *arguments])


def test_ask_states_the_assumptions_with_the_numbers(folder, capsys):
    command = ("count()", "--by", "region", "--by", "age", "--sampling-errors", str(folder / "errors.csv"))
    ask(folder, *command, "--reliability-bands", "20,60")
    out = capsys.readouterr().out
    assert "coefficient of variation" in out
    assert "fitnoise does not protect the standard errors" in out
    ask(folder, *command, "--csv")
    streams = capsys.readouterr()
    assert (
        streams.out.splitlines()[0]
        == "region,region_code,age,value,noise_std_error,sampling_std_error,std_error,moe,cv"
    )
    assert "fitnoise does not protect the standard errors" in streams.err
    ask(folder, *command, "--reliability-bands", "20,60", "--json")
    document = json.loads(capsys.readouterr().out)
    counts = fn.Release.read(folder / "release").count(by=["region", "age"])
    expected = counts.with_sampling_error(folder / "errors.csv", fn.Bands(0.2, 0.6)).frame().to_dict("records")
    assert document["rows"] == expected
    assert {x.id for x in ASSUMPTIONS} <= set(json.dumps(document).replace('"', " ").split())


def test_ask_refuses_what_it_cannot_combine(folder, capsys):
    with pytest.raises(SystemExit) as end:
        ask(folder, "count() / count()", "--sampling-errors", str(folder / "errors.csv"))
    assert end.value.code == 8
    assert "release.sampling-error-of-ratio" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        ask(folder, "count()", "--reliability-bands", "10,30")
    assert end.value.code == 2
    assert "--reliability-bands is given without --sampling-errors" in capsys.readouterr().err
