"""Noise and sampling error in one interval: the formula, its coverage, and standard errors that cannot be used."""

import csv
import itertools
import json

import numpy as np
import openpyxl
import pandas as pd
import pytest
from scipy import stats

import fitnoise as fn
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.pages.report import same
from fitnoise.kernel import noise
from fitnoise.reading.estimates import Estimates
from fitnoise.reading.layouts import layout, with_sampling
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
    scales = np.concatenate([np.repeat(each, counts) for each, counts in strategy.runs])
    return np.column_stack([noise.discrete_gaussian(x, trials) for x in scales.tolist()])


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
    # the margins that reports and exports print for the table are those of the answer
    printed = layout(fn.Release(plan, zeros(plan)), "region by age", sampling=s).margins.ravel()
    held = np.abs(errors) <= printed
    assert (stats.binom.cdf(held.sum(axis=0), trials, 0.95 - 1e-4) > SIGNIFICANCE / held.shape[1]).all()
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


def test_an_attribute_named_like_a_column_of_errors_is_refused():
    domain = fn.Domain(cv=fn.Categorical(["a", "b"]))
    plan = fn.plan(fn.Workload(domain, [fn.table("cv", margin=5)]))
    with refused("release.attribute-named-like-an-error"):
        fn.Release(plan, zeros(plan)).count(by="cv").with_sampling_error(
            pd.DataFrame({"cv": ["a"], "std_error": [1.0]})
        )


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


# --- reports and exports ----------------------------------------------------------------------------------------------

PARTIAL = errors_frame()[:4]  # no sampling errors of the South at ages 1 and 2
HAS_ERROR = [True] * 4 + [False] * 2
RULE = fn.Bands(0.1, 0.6)


@pytest.mark.parametrize("kind", PLANS)
def test_tables_have_the_margins_of_answers_and_those_of_the_noise_without_sampling_error(kind):
    release = fn.Release(PLANS[kind], zeros(PLANS[kind]))
    survey = release.count(by=["region", "age"]).with_sampling_error(errors_frame()).frame()
    sampling = np.where(HAS_ERROR, ERRORS, np.nan)
    frame, noise_frame = with_sampling(release, "region by age", sampling), release["region by age"]
    assert list(frame) == list(survey)
    for column, other in (
        ("moe", noise_frame["moe"]),
        ("std_error", noise_frame["std_error"]),
        ("cv", np.full(6, np.nan)),
    ):
        expected = np.where(HAS_ERROR, survey[column], other)
        np.testing.assert_allclose(frame[column], expected, rtol=1e-9)
    laid = layout(release, "region by age", totals=True, sampling=sampling)
    noise_layout = layout(release, "region by age", totals=True)
    assert laid.values.shape == (3, 4)
    np.testing.assert_array_equal(laid.margins[:2, :3].ravel(), frame["moe"])
    np.testing.assert_array_equal(laid.margins[laid.totals], noise_layout.margins[noise_layout.totals])
    assert np.isnan(laid.sampling[laid.totals]).all()
    assert np.isnan(laid.variations[laid.totals]).all()


@pytest.fixture(scope="module")
def files(folder):
    """The report, the workbook, the LaTeX file and the data package of a release with some sampling errors."""
    release, options = (
        fn.Release.read(folder / "release"),
        {"bands": RULE, "sampling_errors": {"region by age": PARTIAL}},
    )
    fn.report(release, folder / "report.html", totals=True, **options)
    fn.report(release, folder / "bericht.html", language="de", **options)
    for name in ("a.xlsx", "a.tex"):
        fn.export(release, folder / name, totals=True, **options)
    fn.export(release, folder / "package", sdmx=True, **options)
    return release, folder


def expected_rows(release):
    sampling = np.where(HAS_ERROR, ERRORS, np.nan)
    frame = with_sampling(release, "region by age", sampling)
    values, margins = (frame[c].to_numpy() for c in ("value", "moe"))
    return frame, [x.value for x in RULE.classify(values, margins)]


def test_data_packages_have_both_errors_and_describe_them(files):
    release, folder = files
    frame, classes = expected_rows(release)
    for path in ("tables/region_by_age.csv", "sdmx/region_by_age.csv"):
        with (folder / "package" / path).open(encoding="utf-8", newline="") as file:
            rows = [{k.lower(): x for k, x in row.items()} for row in csv.DictReader(file)]
        for column in ("noise_std_error", "sampling_std_error", "std_error", "moe", "cv"):
            texts = ["" if np.isnan(x) else f"{x:.6f}" for x in frame[column]]
            assert [row[column] for row in rows] == texts
        assert [row["reliability"] for row in rows] == classes
    described = json.loads((folder / "package" / "datapackage.json").read_text(encoding="utf-8"))
    fields = {
        x["name"]: {f["name"]: f.get("description", "") for f in x["schema"]["fields"]} for x in described["resources"]
    }
    assert "of noise and sampling" in fields["region_by_age"]["moe"]
    assert "sampling" not in fields["region"]["moe"]
    (note,) = [x["description"] for x in described["resources"] if x["name"] == "region_by_age"]
    assert "Assumed, not checked" in note


def test_workbooks_have_both_errors_and_mark_margins_of_the_noise_only(files):
    release, folder = files
    frame, classes = expected_rows(release)
    sheet = openpyxl.load_workbook(folder / "a.xlsx").worksheets[1]
    head, *rows = [[x.value for x in row] for row in sheet.iter_rows(min_row=4, max_row=6)]
    assert head[2:7] == ["0", "0 ±", "0: standard error of sampling", "0: coefficient of variation", "0 †‡"]
    cells = [row[2 + 5 * k : 7 + 5 * k] for row in rows for k in range(3)]
    for i, (value, margin, sampling, variation, mark) in enumerate(cells):
        assert [value, margin] == [round(frame[c][i], 6) for c in ("value", "moe")]
        assert sampling == (ERRORS[i] if HAS_ERROR[i] else "°")
        assert variation == (round(frame["cv"][i], 6) if HAS_ERROR[i] else None)
        assert mark == {"reliable": None, "use with care": "†", "too wide": "‡"}[classes[i]]
    assert rows[0][2 + 5 * 3 + 2] == "°"  # the total
    texts = [x.value for (x,) in sheet.iter_rows(min_row=8, max_col=1) if x.value]
    assert any("Assumed, not checked" in x for x in texts)
    assert "° No sampling error is given: the margin is for the noise alone." in texts


def test_reports_and_latex_state_both_errors(files):
    release, folder = files
    page, tex = ((folder / x).read_text(encoding="utf-8") for x in ("report.html", "a.tex"))
    german = (folder / "bericht.html").read_text(encoding="utf-8")
    frame, _ = expected_rows(release)
    for row in frame[HAS_ERROR].itertuples():
        assert f"({100 * row.cv:.1f}\u202f%)" in page
        assert f"({100 * row.cv:.1f}\\,\\%)" in tex
    assert (page.count("°</small>"), tex.count(r"\textdegree{}}")) == (2 + 6, 2 + 6)
    for sentence in ("coefficient of variation of noise and sampling error is in brackets", "Assumed, not checked"):
        assert sentence in page
        assert sentence in tex
    assert "Margins are for the noise, and for sampling error where" in page
    assert "Margins are for the noise alone" not in page
    assert "Angenommen, nicht geprüft" in german
    # a table without sampling errors says nothing of them
    assert tex.count("in brackets") == 1


def test_reports_and_exports_with_sampling_errors_verify_without_their_files(files, capsys):
    release, folder = files
    for name in ("a.xlsx", "a.tex", "package"):
        assert fn.verify_export(release, folder / name)
    assert same([release], folder / "report.html").holds
    page = (folder / "report.html").read_text(encoding="utf-8")
    for old, new, code in (
        ("25.0, 10.0", "24.0, 10.0", "report.fault.report"),
        ("25.0, 10.0", "-1.0, 10.0", "listed-errors-misfit"),
        ("25.0, 10.0", "25.0", "listed-errors-misfit"),
        ("{&#34;region by age&#34;: [", "[[", "report-without-options"),
        ("&#34;region by age&#34;: [25", "&#34;none&#34;: [25", "unknown-table"),
    ):
        assert page.count(old) == 1
        (folder / "altered.html").write_text(page.replace(old, new), encoding="utf-8")
        assert not same([release], folder / "altered.html").holds, code


def test_the_command_line_takes_the_files_by_table(files, capsys):
    _, folder = files
    PARTIAL.to_csv(folder / "some.csv", index=False)
    pair, release = f"region by age={folder / 'some.csv'}", str(folder / "release")
    bands = ["--reliability-bands", "10,60", "--totals", "--sampling-errors", pair]
    main(["write", "report", release, "-o", str(folder / "b.html"), *bands])
    assert (folder / "b.html").read_bytes() == (folder / "report.html").read_bytes()
    main(["write", "export", release, "-o", str(folder / "b.tex"), *bands])
    assert (folder / "b.tex").read_bytes() == (folder / "a.tex").read_bytes()
    capsys.readouterr()
    for wrong, text in (([pair, pair], "twice"), (["some.csv"], "has no sign ="), (["none=a.csv"], "no table 'none'")):
        options = itertools.chain.from_iterable(("--sampling-errors", x) for x in wrong)
        with pytest.raises(SystemExit):
            main(["write", "report", release, "-o", str(folder / "c.html"), *options])
        assert text in capsys.readouterr().err
    assert not (folder / "c.html").exists()


def test_sums_and_combinations_take_sampling_errors_and_other_tables_do_not(tmp_path):
    domain = fn.Domain(region=fn.Categorical({"n": "North", "s": "South"}), pay=fn.Amount(0, 10, step=1))
    sums, means = fn.table("region", sum="pay", margin=60), fn.table("region", mean="pay", margin=1, reference=100)
    plan = fn.plan(fn.Workload(domain, [sums, means, fn.table("region", margin=9)]))
    release = fn.Release(plan, zeros(plan))
    errors = pd.DataFrame({"region_code": ["n", "s"], "std_error": [3.0, 4.0]})
    laid = layout(release, "region by pay sum", sampling=np.array([3.0, 4.0]))
    std_error = release["region by pay sum"]["std_error"]
    np.testing.assert_allclose(laid.margins.ravel(), Z * np.hypot(std_error, [3, 4]), rtol=1e-9)
    combined = fn.Combination([release, fn.Release(plan, [x + 1 for x in zeros(plan)])])
    fn.export(combined, tmp_path / "sums", sampling_errors={"region by pay sum": errors})
    assert fn.verify_export(combined, tmp_path / "sums")
    integers = fn.make_integer_tables(release, "region", simulations=0)
    for number, (what, name, code) in enumerate(
        (
            (release, "region by pay mean", "sampling-error-of-table"),
            (integers, "region", "sampling-error-of-table"),
            (plan, "region", "unknown-table"),
            (release, "none", "unknown-table"),
        )
    ):
        with refused(f"release.{code}"):
            fn.report(what, tmp_path / f"{number}.html", sampling_errors={name: errors})
    with refused("release.unknown-table"):
        fn.export(release, tmp_path / "a.tex", tables="region", sampling_errors={"region by pay sum": errors})
    with refused("release.unknown-label-of-standard-error"):
        fn.report(release, tmp_path / "a.html", sampling_errors={"region": errors.assign(region_code="x")})
