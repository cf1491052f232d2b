"""Releases: what they say, what reaches the disk, and what never does."""

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from dense import split, with_sectors, workload_matrix
from designs import plan_of
from fitnoise import publishing
from fitnoise.errors import BudgetExceeded, DataError, LedgerError, ReleaseError
from fitnoise.kernel import noise
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.messages import english
from fitnoise.planning import files as plan_files
from fitnoise.reading import release as releases
from fitnoise.reading import release_files as folders
from fitnoise.reading.description import FORMAT
from fitnoise.reading.release_files import clear_leftovers, read_parquet, staged, stub_frame, to_json
from fitnoise.request import workloads
from fitnoise.request.targets import z_score
from fitnoise.request.workloads import SLUG_BYTES, slug
from laws.releases import answered, by_command, check_further_columns, released
from laws.reports import in_words
from refused import refused
from replayed_noise import Replay
from tolerances import EXACT
from zoo.attributes import ATTRIBUTES

NOTHING = "Nothing was measured and nothing was charged."
STRANGE = [
    "01",
    "NA",
    "",
    " nan ",
    "été",
    'a "quoted", text',
    "two\nlines",
    "c\rr",
    "cr\rlf\r\n",
    "x\0y",
    "=1+1",
    "日本",
    "1e5",
]


def small_workload():
    domain = fn.Domain(
        {
            "région": fn.Categorical({1: "Île", 2: "01", 3: "NA"}),
            "sex": fn.Categorical([True, False]),
            "age": fn.Ordered(0, 4),
        }
    )
    return fn.Workload(
        domain,
        [
            fn.table("région", "sex", margin=4),
            fn.table("sex", cumulative="age", margin=6, name="ages, cumulated"),
            fn.table(groups={"age": {"young": [0, 1], "old": [3, 4]}}, std_error=2, confidence=0.9),
            fn.table(margin=5),
        ],
    )


SMALL = fn.plan(small_workload(), source=fn.DataSource("people"))
COUNTS = np.arange(30).reshape(3, 2, 5)


@pytest.fixture
def small_release(monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(5).discrete_gaussians)
    return released(SMALL, COUNTS)


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def stored(path):
    return read_parquet(path, len(pd.read_parquet(path)), 1000)[0]


def spent(path):
    with fn.Ledger(path) as ledger:
        return sum((e.rho for e in ledger.entries() if e.kind == "charge"), Fraction(0))


# --- in memory ------------------------------------------------------------------------------------------------


def test_a_release_is_a_mapping_of_tables(small_release):
    names = ["région by sex", "ages, cumulated", "age groups", "total"]
    assert list(small_release) == names == list(small_release.keys())
    assert len(small_release) == 4
    assert "total" in small_release
    assert "Total" not in small_release
    assert small_release.get("Total") is None
    assert small_release.get("Total", 3) == 3
    with pytest.raises(KeyError, match="no table 'Total'; the release has"):
        small_release["Total"]
    assert dict(small_release.items()).keys() == set(names)
    assert "4 tables" in repr(small_release)
    frame = small_release["région by sex"]
    assert list(frame.columns) == ["région", "région_code", "sex", "value", "std_error", "moe"]
    assert frame["région"].tolist() == ["Île", "Île", "01", "01", "NA", "NA"]
    assert frame["région_code"].tolist() == [1, 1, 2, 2, 3, 3]
    assert frame["région_code"].dtype == np.int64
    assert frame["sex"].tolist() == [True, False] * 3
    assert frame["sex"].dtype == bool
    assert small_release["ages, cumulated"]["age"].tolist() == [0, 1, 2, 3, 4] * 2
    assert list(small_release["total"].columns) == ["value", "std_error", "moe"]
    assert len(small_release["total"]) == 1
    frame["value"] = 0.0  # a copy: the release does not change
    assert (small_release["région by sex"]["value"] != 0).all()


def test_margins_are_those_of_each_table_and_within_its_target(small_release):
    for table, confidence in (("région by sex", 0.95), ("age groups", 0.9)):
        frame = small_release[table]
        np.testing.assert_allclose(frame["moe"], z_score(confidence) * frame["std_error"], rtol=EXACT)
    assert (small_release["région by sex"]["moe"] <= 4).all()
    assert (small_release["age groups"]["std_error"] <= 2).all()


def test_values_are_the_truth_plus_noise_and_may_be_negative(monkeypatch):
    truth = workload_matrix(SMALL.publication.workload) @ COUNTS.ravel()
    monkeypatch.setattr(noise, "discrete_gaussians", Replay().discrete_gaussians)
    quiet = released(SMALL, COUNTS)
    np.testing.assert_allclose(np.concatenate([f["value"] for f in quiet.values()]), truth, atol=1e-6)
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(5).discrete_gaussians)
    nobody = released(SMALL, np.zeros_like(COUNTS))
    someone = released(SMALL, COUNTS)
    below = np.concatenate([f["value"] for f in nobody.values()])
    assert (below < -1).any()  # nothing is clamped, nothing is rounded ...
    assert (below != np.rint(below)).any()
    difference = np.concatenate([f["value"] for f in someone.values()]) - below
    np.testing.assert_allclose(difference, truth, atol=1e-6)  # ... so the noise is the same wherever the truth lies


@pytest.mark.slow
@pytest.mark.usefixtures("rehearsed_once")
def test_values_are_unbiased_with_the_stated_errors():
    runs = [released(SMALL, COUNTS) for _ in range(400)]
    truth = workload_matrix(SMALL.publication.workload) @ COUNTS.ravel()
    values = np.stack([np.concatenate([f["value"] for f in r.values()]) for r in runs])
    std_error = np.concatenate([f["std_error"] for f in runs[0].values()])
    z = (values.mean(axis=0) - truth) / (std_error / 20)
    assert np.abs(z).max() < 6
    assert np.abs(values.std(axis=0) / std_error - 1).max() < 6 / np.sqrt(2 * 400)


def test_an_estimate_of_one_number_is_that_number(small_release):
    for name, frame in small_release.items():
        shape = SMALL.publication.workload[name].shape(SMALL.publication.workload.domain)
        for i in range(len(frame)):
            one = np.zeros(shape)
            one.flat[i] = 1
            confidence = SMALL.publication.workload[name].target.confidence
            estimate = small_release.estimate({name: one}, confidence=confidence)
            assert estimate.value == pytest.approx(frame["value"][i], rel=EXACT)
            assert estimate.std_error == pytest.approx(frame["std_error"][i], rel=EXACT)
            assert estimate.moe == pytest.approx(frame["moe"][i], rel=EXACT)
            assert estimate.confidence == (confidence or 0.95)


@pytest.mark.parametrize("where", [{}, {"sex": True}, {"age": [2, 3]}, {"sex": False, "age": {"values": [0, 3]}}])
def test_rows_that_count_a_record_twice_are_not_added_up(small_release, where):
    with refused("release.overlapping-rows"):
        small_release.sum("ages, cumulated", where)
    assert small_release.sum("ages, cumulated", {**where, "age": 2}).std_error > 0


def test_sums_have_the_error_of_the_covariance_not_of_independence(small_release):
    joint = small_release.sum("région by sex")
    frame = small_release["région by sex"]
    assert joint.value == pytest.approx(frame["value"].sum())
    assert joint.value == pytest.approx(small_release["total"]["value"][0])  # consistent
    assert joint.std_error == pytest.approx(small_release["total"]["std_error"][0])
    assert joint.std_error < 0.9 * np.sqrt((frame["std_error"] ** 2).sum())
    cumulated = small_release["ages, cumulated"]
    is_upper = cumulated["sex"] & cumulated["age"].isin([2, 3])
    upper = small_release.estimate({"ages, cumulated": is_upper.to_numpy(dtype=float).reshape(2, -1)})
    rows = cumulated[is_upper]
    assert upper.value == pytest.approx(rows["value"].sum())
    assert upper.std_error > 1.1 * np.sqrt((rows["std_error"] ** 2).sum())  # "at most 2" is part of "at most 3"
    zero = small_release.estimate({"total": np.ones(()), "région by sex": -np.ones((3, 2))})
    assert (abs(zero.value), zero.std_error) == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-7))
    half = small_release.sum("total", confidence=0.5)
    assert (half.confidence, half.moe) == (0.5, pytest.approx(z_score(0.5) * half.std_error))


def test_rows_are_chosen_by_what_the_table_shows(small_release):
    frame = small_release["région by sex"]
    for where, rows in (
        ({"sex": True}, frame["sex"]),
        ({"sex": [True, False]}, frame["sex"] | True),
        ({"région": "01"}, frame["région"] == "01"),
        ({"région": ("Île", "NA"), "sex": np.False_}, (frame["région"] != "01") & ~frame["sex"]),
        ({"région": np.array(["Île", "Île"])}, frame["région"] == "Île"),
        ({"région": pd.Series(["NA"])}, frame["région"] == "NA"),
        ({"région": []}, frame["sex"] & False),
    ):
        expected = frame["value"][rows].sum()
        assert small_release.sum("région by sex", where).value == pytest.approx(expected)
        assert small_release.sum("région by sex", **where).value == pytest.approx(expected)
    ages = small_release["ages, cumulated"]
    assert small_release.sum("ages, cumulated", age=np.int64(3)).value == pytest.approx(
        ages["value"][ages["age"] == 3].sum()
    )
    for arguments, message in (
        (("totals",), "release.unknown-table"),
        (("total", {"sex": 1}), "release.unknown-column"),
        (("région by sex", {"sex": 1}), "release.unknown-label"),  # true is not 1
        (("ages, cumulated", {"age": True}), "release.unknown-label"),
        (("ages, cumulated", {"age": 5}), "release.unknown-label"),
        (("région by sex", {"région": 1}), "release.unknown-label"),  # the code; the table shows labels
    ):
        with refused(message):
            small_release.sum(*arguments)


def test_combinations_that_are_not_of_the_release_are_refused(small_release):
    for combination in ({"Total": np.ones(())}, {"total": np.ones(1)}, {"total": np.array(np.nan)}):
        with pytest.raises(ReleaseError):
            small_release.estimate(combination)
    with refused("workload.confidence-out-of-range"):
        small_release.estimate({"total": np.ones(())}, confidence=95)


# --- on disk --------------------------------------------------------------------------------------------------


def test_a_directory_holds_the_release_and_reads_back_equal(small_release, tmp_path):
    folder = small_release.write(tmp_path / "new" / "release")
    tables = {f"tables/{slug(name)}.{end}" for name in small_release for end in ("csv", "parquet")}
    assert set(files(folder)) == {"measurements.parquet", "plan.json", "release.json", *tables}
    read_again = fn.Release.read(str(folder))
    assert read_again == small_release
    assert hash(read_again) == hash(small_release)
    for name in small_release:
        pd.testing.assert_frame_equal(read_again[name], small_release[name])
    assert read_again.plan.publication == SMALL.publication
    assert small_release != fn.Release(SMALL, [a + 1 for a in small_release.answers])
    assert small_release != "a release"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["release"]


@pytest.mark.parametrize("form", [list, tuple, lambda y: y.astype(object), lambda y: [np.int64(x) for x in y]])
def test_answers_are_given_as_lists_or_arrays_of_integers(form, small_release):
    listed = fn.Release(SMALL, [form(y) for y in small_release.answers])
    assert listed == small_release
    assert all(isinstance(y, np.ndarray) for y in listed.answers)
    assert all(frame.equals(small_release[name]) for name, frame in listed.items())
    large = fn.Release(SMALL, [[2**63 + int(x) for x in y] for y in small_release.answers])
    assert [y.tolist() for y in large.answers] == [[2**63 + x for x in y.tolist()] for y in small_release.answers]


@pytest.mark.parametrize(
    "form",
    [
        lambda y: y.astype(float),
        lambda y: [float(x) for x in y],
        lambda y: [True for _ in y],
        lambda y: [None for _ in y],
        lambda y: " ".join(map(str, y)),
        lambda y: y[:, None] + np.zeros((1, 2), dtype=int),
        lambda _: 3,
    ],
)
def test_answers_that_are_not_integers_are_refused(form, small_release):
    with refused("release.answers-not-integers", key="answers"):
        fn.Release(SMALL, [form(y) for y in small_release.answers])


def test_arguments_of_a_release_of_another_kind_are_refused(small_release):
    for answers in (None, "12", 3, {0: [1]}, iter([[1]])):
        with refused("release.answers-not-integers"):
            fn.Release(SMALL, answers)
    for keywords in ({"plan": "plan.json"}, {"outputs": 3}, {"histograms": [1]}, {"entry": 5}):
        with refused("release.wrong-type", key=next(iter(keywords))):
            fn.Release(**{"plan": SMALL, "answers": small_release.answers} | keywords)
    with refused("release.foreign-outputs"):
        fn.Release(SMALL, small_release.answers, outputs=["0"])


def test_tables_are_readable_by_other_programs(small_release, tmp_path):
    folder = small_release.write(tmp_path / "release")
    described = {t["name"]: t for t in json.loads((folder / "release.json").read_text(encoding="utf-8"))["tables"]}
    for name, frame in small_release.items():
        csv_file, parquet_file = (folder / "tables" / f"{slug(name)}.{end}" for end in ("csv", "parquet"))
        with duckdb.connect() as connection:
            table = connection.read_parquet(str(parquet_file)).fetchall()
        assert table == [tuple(row) for row in frame.astype(object).to_numpy()]
        with csv_file.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert header == list(frame.columns)
        for row, *numbers in zip(rows, *(frame[c] for c in ("value", "std_error", "moe")), strict=True):
            np.testing.assert_allclose([float(x) for x in row[-3:]], numbers, atol=0.51e-6)
    assert described["ages, cumulated"]["columns"] == {"age": {"id": "report.column.at_most"}}


def test_release_json_says_what_was_done_exactly(small_release, tmp_path):
    folder = small_release.write(tmp_path / "release")
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    assert document["plan"] == SMALL.hash
    assert Fraction(document["charge"]["rho"]) == SMALL.loss.rho <= Fraction(document["charge"]["rho_decimal"])
    assert document["charge"]["rho_decimal"] == SMALL.rho
    assert document["charge"]["source"] == "people"
    assert document["charge"]["epsilon"] == SMALL.epsilon()
    assert document["spec"] == json.loads(SMALL.to_json())["spec"]
    assert document["mechanism"]["name"] == "fit-for-use"
    scales = [Fraction(x) for s in document["mechanism"]["scales"] for x in s["scales"]]
    assert scales == [Fraction(s.scale) for s in SMALL.table_part.strategy.sectors]
    assert set(document["versions"]) == {"fitnoise", "numpy", "duckdb"}
    assert (folder / "plan.json").read_text(encoding="utf-8") == SMALL.to_json()
    with duckdb.connect() as connection:
        answers = connection.read_parquet(str(folder / "measurements.parquet")).fetchall()
    flat = [(i, j, x) for i, y in enumerate(split(SMALL, small_release.answers)) for j, x in enumerate(y.tolist())]
    assert answers == flat


def strange(labels):
    workload = fn.Workload(
        fn.Domain({"na,me": fn.Categorical(labels), "b": fn.Ordered(0, 1)}),
        [fn.table("na,me", "b", margin=3)],
    )
    return fn.plan(workload)


def test_labels_are_never_taken_for_something_else(tmp_path):
    plan = strange(STRANGE)
    odd_release = released(plan, np.zeros((len(STRANGE), 2), dtype=int), directory=tmp_path / "r")
    (name,) = odd_release
    frame = fn.Release.read(tmp_path / "r")[name]
    expected = [label for label in STRANGE for _ in range(2)]
    assert frame["na,me"].tolist() == expected
    table = stored(tmp_path / "r" / "tables" / "na_me_by_b.parquet")
    assert table["na,me"].tolist() == expected
    with (tmp_path / "r" / "tables" / "na_me_by_b.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(line.replace("\0", "<nul>") for line in file))
    assert [row[0].removeprefix("'").replace("<nul>", "\0") for row in rows[1:]] == expected
    assert fn.verify(tmp_path / "r").ok


@pytest.mark.parametrize("name", ["a[1]", "b*", "c?", "year=2014", "it's", "d,é 日本", "x" * 200])
def test_directories_may_have_any_name(small_release, tmp_path, name):
    decoy = tmp_path / "a1"  # what the pattern a[1] would match
    decoy.mkdir()
    folder = small_release.write(tmp_path / name / name)
    assert fn.Release.read(folder) == small_release
    assert fn.verify(folder).ok


def test_nothing_but_pandas_is_needed_to_write_and_read(tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import numpy as np, fitnoise as fn\n"
        "w = fn.Workload(fn.Domain(a=fn.Categorical(['01', 'NA'])), [fn.table('a', margin=3)])\n"
        "made = fn.release(fn.plan(w), np.array([3, 4]), ledger=sys.argv[1] + '.sqlite', directory=sys.argv[1])\n"
        "assert fn.Release.read(sys.argv[1]) == made and fn.verify(sys.argv[1]).ok\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "r")], check=True, timeout=60)


# --- some tables only, and patterns of them -------------------------------------------------------------------

PATTERNS = fn.plan(
    fn.Workload(
        SMALL.publication.workload.domain,
        [
            fn.all_tables(2, ["age", "région", "sex"], margin=[5, 4, 6]),
            fn.table(margin=5),
            fn.all_tables(1, ["région", "sex"], cumulative="age", margin=6, name="cumulated", confidence=0.9),
        ],
    ),
    source=fn.DataSource("people"),
)
PAIRS = ["age by région", "age by sex", "région by sex"]
ALL_NAMES = [*PAIRS, "total", "cumulated: région by age cumulative", "cumulated: sex by age cumulative"]


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(5).discrete_gaussians)
    return released(PATTERNS, COUNTS)


def test_a_release_of_patterns_is_a_mapping_of_all_their_tables(many):
    assert list(many) == ALL_NAMES
    assert len(many) == 6
    assert "6 tables" in repr(many)
    for name in ALL_NAMES:
        assert name in many
        table = PATTERNS.publication.workload[name]
        labels = [c for a in table.attributes for c in ([a, f"{a}_code"] if a == "région" else [a])]
        assert list(many[name].columns) == [*labels, "value", "std_error", "moe"]
    assert "all pairs of 3 attributes" not in many
    frames = list(many.frames())
    assert sorted(name for name, _ in frames) == sorted(ALL_NAMES)
    for name, frame in frames:
        pd.testing.assert_frame_equal(frame, many[name], check_exact=True)
    # the tables agree on what they share
    for name in ALL_NAMES[:3]:
        assert many[name]["value"].sum() == pytest.approx(many["total"]["value"][0])
    assert many.sum("cumulated: sex by age cumulative", age=4).value == pytest.approx(many["total"]["value"][0])
    error = r"no table 'age'; the release has \['age by région', "
    with pytest.raises(KeyError, match=error):
        many["age"]
    with refused("release.unknown-table"):
        many.sum("age")


def test_tables_of_a_pattern_are_those_of_tables_written_out(many):
    """From the same noisy answers."""
    explicit = fn.Workload(PATTERNS.publication.workload.domain, list(PATTERNS.publication.workload.tables))
    plan = fn.plan(explicit, source=fn.DataSource("people"))
    other = fn.Release(plan, many.answers)
    assert list(other) == ALL_NAMES
    for name in ALL_NAMES:
        pd.testing.assert_frame_equal(other[name], many[name], rtol=EXACT)


@pytest.mark.parametrize(
    ("requested", "got"),
    [
        (None, ALL_NAMES),
        (ALL_NAMES, ALL_NAMES),
        ([], []),
        ((), []),
        (["total"], ["total"]),
        ("total", ["total"]),
        (["cumulated: sex by age cumulative", "total", "age by sex"], ["age by sex", "total", ALL_NAMES[5]]),
        (iter(["total", "age by sex"]), ["age by sex", "total"]),
        ({"total"}, ["total"]),
    ],
    ids=["all", "all by name", "none", "no names", "one", "a name", "out of order", "an iterator", "a set"],
)
def test_files_are_written_for_the_requested_tables(many, tmp_path, requested, got):
    folder = many.write(tmp_path / "r", tables=requested)
    ends = ("csv", "parquet")
    assert set(files(folder)) == {
        "measurements.parquet", "plan.json", "release.json", *(f"tables/{slug(n)}.{e}" for n in got for e in ends),
    }  # fmt: skip
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    assert document["written"] == ("all" if got == ALL_NAMES else got)
    assert fn.verify(folder).ok
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    # for any written files, everything can be rebuilt, and the files are those of a full release
    read_again = fn.Release.read(folder)
    assert (read_again == many, list(read_again)) == (True, ALL_NAMES)
    for name in ALL_NAMES:
        pd.testing.assert_frame_equal(read_again[name], many[name])
    all_written = files(many.write(tmp_path / "whole"))
    some_written = files(folder)
    assert {k for k in some_written if all_written[k] != some_written[k]} == (
        set() if got == ALL_NAMES else {"release.json"}
    )


def test_a_release_writes_the_requested_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(5).discrete_gaussians)
    releases = {}
    for name, chosen in (("all", None), ("none", []), ("two", ["total", "age by sex"])):
        releases[name] = fn.release(
            PATTERNS, COUNTS, ledger=tmp_path / f"{name}.db", directory=tmp_path / name, tables=chosen
        )
    assert releases["none"] == releases["two"] == releases["all"]
    assert [p.name for p in (tmp_path / "none").iterdir() if p.is_dir()] == ["tables"]
    assert not list((tmp_path / "none" / "tables").iterdir())
    assert sorted(p.name for p in (tmp_path / "two" / "tables").iterdir()) == [
        "age_by_sex.csv", "age_by_sex.parquet", "total.csv", "total.parquet",
    ]  # fmt: skip
    for name in releases:
        assert fn.verify(tmp_path / name).ok
        read_again = fn.Release.read(tmp_path / name)
        for table in ALL_NAMES:
            stored_table = stored(tmp_path / "all" / "tables" / f"{slug(table)}.parquet")
            pd.testing.assert_frame_equal(read_again[table], stored_table)


def test_release_json_states_patterns_as_requested(many, tmp_path):
    document = json.loads((many.write(tmp_path / "r") / "release.json").read_text(encoding="utf-8"))
    stated = [
        (t["name"], t["tables"], t["numbers"], in_words(t["target"]), t["confidence"]) for t in document["tables"]
    ]
    assert stated == [
        ("all pairs of 3 attributes", 3, 15 + 10 + 6, "±4 to 6", 0.95),
        ("total", 1, 1, "±5", 0.95),
        ("cumulated: each of 2 attributes by age cumulative", 2, 15 + 10, "±6", 0.9),
    ]
    columns = {"age": {"id": "report.column.at_most"}}
    assert [t["columns"] for t in document["tables"]] == [{}, {}, columns]
    assert document["spec"]["tables"][0]["pattern"] == "pairs"


def test_more_files_than_make_sense_are_written_only_by_name(tmp_path, monkeypatch, many):
    monkeypatch.setattr(releases, "MAX_FILES", 5)
    measured = []
    monkeypatch.setattr(publishing, "measure", lambda *_, **__: measured.append(1))
    with refused("release.too-many-table-files") as raised:
        fn.release(PATTERNS, COUNTS, ledger=tmp_path / "l.db", directory=tmp_path / "r")
    assert raised.value.outcome == NOTHING
    with refused("release.too-many-table-files"):
        many.write(tmp_path / "r")
    assert not measured
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    monkeypatch.setattr(releases, "MAX_FILES", 5)
    fn.release(PATTERNS, COUNTS, ledger=tmp_path / "l.db")  # nothing is written
    for name, chosen in (("none", []), ("named", ALL_NAMES)):
        fn.release(PATTERNS, COUNTS, ledger=tmp_path / "l.db", directory=tmp_path / name, tables=chosen, again=True)
        assert fn.verify(tmp_path / name).ok
    assert len(list((tmp_path / "named" / "tables").iterdir())) == 12
    monkeypatch.setattr(releases, "MAX_FILES", 6)
    many.write(tmp_path / "enough")


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        (["total", "age"], "release.unknown-table"),
        ("age", "release.unknown-table"),
        (["all pairs of 3 attributes"], "release.unknown-table"),
        ([""], "release.unknown-table"),
        (["total", "age by sex", "total"], "release.repeated-table"),
    ],
)
def test_tables_that_cannot_be_written_are_refused_first(tmp_path, many, chosen, code):
    with refused(code) as raised:
        fn.release(PATTERNS, COUNTS, ledger=tmp_path / "l.db", directory=tmp_path / "r", tables=chosen)
    assert raised.value.outcome == NOTHING
    with refused(code):
        many.write(tmp_path / "r", tables=chosen)
    assert not list(tmp_path.iterdir())


# --- nothing but the noisy answers ----------------------------------------------------------------------------


def write_files(plan, data, folder, monkeypatch, seed=7):
    """The files of a release, its noise replayed."""
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(seed).discrete_gaussians)
    fn.release(plan, data, ledger=folder.with_suffix(".db"), directory=folder)
    return files(folder)


@pytest.mark.usefixtures("standing_still")
@pytest.mark.parametrize("case", ["frame", "array"])
def test_neighbouring_data_differ_in_the_noisy_numbers_only(tmp_path, monkeypatch, case):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"région": rng.integers(1, 4, 50), "sex": rng.integers(0, 2, 50).astype(bool), "age": rng.integers(0, 5, 50)}
    )
    datasets = {"all": frame, "same": frame.sample(frac=1, random_state=1), "one less": frame.iloc[1:]}
    if case == "array":
        datasets = {"all": COUNTS, "same": COUNTS.ravel(), "one less": COUNTS - (COUNTS.max() == COUNTS)}
    got = {k: write_files(SMALL, d, tmp_path / k.replace(" ", ""), monkeypatch) for k, d in datasets.items()}
    assert got["same"] == got["all"]  # byte for byte, in every file
    assert got["one less"].keys() == got["all"].keys()
    noisy = {f for f in got["all"] if f == "measurements.parquet" or f.startswith("tables/")}
    assert {f for f in got["all"] if got["all"][f] != got["one less"][f]} <= noisy
    for f in noisy:
        if f.endswith(".csv"):
            tables = [pd.read_csv(tmp_path / k / f, dtype=str, keep_default_na=False) for k in ("all", "oneless")]
        else:
            tables = [stored(tmp_path / k / f) for k in ("all", "oneless")]
        assert list(tables[0].columns) == list(tables[1].columns)
        assert tables[0].dtypes.tolist() == tables[1].dtypes.tolist()
        assert len(tables[0]) == len(tables[1])
        differing = [c for c in tables[0].columns if tables[0][c].tolist() != tables[1][c].tolist()]
        assert differing == ["answer" if f == "measurements.parquet" else "value"]


@pytest.mark.usefixtures("standing_still")
def test_a_table_of_many_rows_is_the_same_file_every_time(tmp_path, monkeypatch):
    workload = fn.Workload(fn.Domain(a=fn.Ordered(1, 500), b=fn.Ordered(1, 300)), [fn.table("a", "b", margin=9)])
    plan = fn.plan(workload)
    counts = np.arange(150_000).reshape(500, 300)  # more rows than Parquet puts in one group
    one, second = (write_files(plan, counts, tmp_path / k, monkeypatch) for k in ("x", "y"))
    assert one == second


# --- refusals, before anything is charged ---------------------------------------------------------------------


def occupied(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()
    return tmp_path / "here"


def a_file(tmp_path):
    (tmp_path / "here").touch()
    return tmp_path / "here"


def below_a_file(tmp_path):
    (tmp_path / "file").touch()
    return tmp_path / "file" / "here"


def a_loop(tmp_path):
    (tmp_path / "here").symlink_to(tmp_path / "there")
    (tmp_path / "there").symlink_to(tmp_path / "here")
    return tmp_path / "here"


def too_long(tmp_path):
    return tmp_path / ("x" * 300)


@pytest.mark.parametrize("make_path", [occupied, a_file, below_a_file, a_loop, too_long])
def test_a_place_that_cannot_be_written_is_refused_first(tmp_path, small_release, make_path):
    directory = make_path(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    ledger = tmp_path / "ledger.db"
    with refused("release.place-exists", "release.place-not-writable") as raised:
        fn.release(SMALL, COUNTS, ledger=ledger, directory=directory)
    assert str(raised.value).endswith(NOTHING)
    with refused("release.place-exists", "release.place-not-writable"):
        small_release.write(directory)
    assert sorted(tmp_path.rglob("*")) == before


def test_empty_directories_and_links_to_them_are_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("empty", "link", "dangling"):
        fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / name, again=True)
        assert fn.verify(tmp_path / name).ok
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "nowhere" / "plan.json").is_file()
    assert not list(tmp_path.glob(".*"))


def refuse_renames_to(monkeypatch, name, error):
    """Have nothing be put in the place of this name."""
    rename = Path.rename

    def refused(self, target):
        if Path(target).name == name:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)


def test_an_empty_directory_that_cannot_be_replaced_is_refused_first(tmp_path, monkeypatch):
    refuse_renames_to(monkeypatch, "volume", OSError(16, "Device or resource busy"))
    (tmp_path / "volume").mkdir()
    with refused("release.place-not-writable"):
        fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "volume")
    assert [p.name for p in tmp_path.iterdir()] == ["volume"]


def test_what_cannot_be_rebuilt_or_written_is_found_out_before_the_charge(tmp_path, monkeypatch):
    ledger = tmp_path / "ledger.db"
    monkeypatch.setattr(workloads, "SLUG_BYTES", 1000)  # longer than a file system takes
    domain = fn.Domain(a=fn.Categorical(["x", "y"]))
    long = fn.plan(fn.Workload(domain, [fn.table("a", margin=3, name="n" * 300)]))
    with refused("release.place-not-writable"):
        fn.release(long, np.array([1, 2]), ledger=ledger, directory=tmp_path / "r")
    main_sector, *others = SMALL.table_part.strategy.sectors
    equal_rows = np.repeat(
        main_sector.mixing[-1:], len(main_sector.mixing), axis=0
    )  # every row the same: the charge would buy nothing
    strategy = with_sectors(SMALL.table_part.strategy, [replace(main_sector, mixing=equal_rows), *others])
    lost = plan_of(SMALL.publication, strategy, SMALL.table_part.evidence, SMALL.table_part.status)
    for directory in (None, tmp_path / "r"):
        with refused("plan.singular-sector"):
            fn.release(lost, COUNTS, ledger=ledger, directory=directory)
    assert not list(tmp_path.iterdir())


def test_errors_of_data_and_ledger_leave_nothing(tmp_path):
    ledger = tmp_path / "ledger.db"
    for data in (COUNTS[:2], tmp_path / "missing.csv", "text", 3):
        with pytest.raises(DataError):
            fn.release(SMALL, data, ledger=ledger, directory=tmp_path / "r")
    with pytest.raises(LedgerError):
        fn.release(SMALL, COUNTS, ledger=tmp_path / "no" / "ledger.db", directory=tmp_path / "r")
    with fn.Ledger(":memory:") as book:
        for forgets in (":memory:", Path(":memory:"), book):
            with refused("ledger.ledger-in-memory"):
                fn.release(SMALL, COUNTS, ledger=forgets, directory=tmp_path / "r")
        assert book.entries() == []
    assert not list(tmp_path.iterdir())
    with fn.Ledger(ledger) as book:
        book.set_cap(fn.Account("people", SMALL.publication.unit), SMALL.loss.rho * Fraction(3, 2))
        main_release = fn.release(SMALL, COUNTS, ledger=book, directory=tmp_path / "first")
        with pytest.raises(BudgetExceeded):
            fn.release(SMALL, COUNTS, ledger=book, directory=tmp_path / "second", again=True)
        assert [e.kind for e in book.entries()] == ["cap", "charge", "answers", "refusal"]
        assert main_release.charge == book.entries()[1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first", "ledger.db"]


def test_a_table_of_a_database_may_be_named_at_the_end(tmp_path):
    file = tmp_path / "people.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE persons AS SELECT 1 AS région, true AS sex, 3 AS age")
    stages = []
    with refused("data.duckdb-table-not-found"):
        released(SMALL, file)
    new_release = released(SMALL, file, table="persons", progress=stages.append)
    assert new_release.plan.hash == SMALL.hash
    assert list(dict.fromkeys(s.split()[0] for s in stages)) == ["opening", "rehearsing", "counting,"]
    assert stages[-1] == "counting, 100%"


# --- accidents, after the charge --------------------------------------------------------------------------------

STAYS = (
    "The charge of entry 1 stays in the ledger, and the answers are kept. Repeat the command or call: it finishes the "
    "release, at no further charge."
)


def finish(folder_of, *others):
    """Make the same call again: it finishes the release, of the one charge that there is, and leaves nothing else."""
    finished = fn.release(SMALL, COUNTS, ledger=folder_of / "ledger.db", directory=folder_of / "r")
    assert spent(folder_of / "ledger.db") == ceil_dyadic(SMALL.loss.rho)
    with fn.Ledger(folder_of / "ledger.db") as ledger:
        assert [e.kind for e in ledger.entries()] == ["charge", "answers"]
        assert fn.verify(folder_of / "r", ledger=ledger).ok
    assert sorted(p.name for p in folder_of.iterdir()) == sorted(["ledger.db", "r", *others])
    return finished


@pytest.mark.parametrize("accident", [OSError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("moment", ["_write", "write_parquet", "csv_pieces"])
def test_an_accident_while_writing_leaves_the_charge_and_nothing_else(tmp_path, monkeypatch, moment, accident):
    monkeypatch.setattr(
        noise, "discrete_gaussians", lambda *arguments: arm() or Replay(1).discrete_gaussians(*arguments)
    )

    def arm():  # the rehearsal went well; the next write fails
        def fail(*_args, **_kwargs):
            raise accident(28, "No space left on device")

        monkeypatch.setattr(releases, moment, fail)

    expected = ReleaseError if accident is OSError else accident
    with pytest.raises(expected) as raised:
        fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
    if expected is ReleaseError:
        assert raised.value.given == "The release cannot be written (No space left on device)."
        assert (raised.value.code, raised.value.outcome) == ("release.place-not-writable", STAYS)
    else:
        assert [*raised.value.args, *getattr(raised.value, "__notes__", [])][-1] == STAYS
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "ledger.db.answers"]
    monkeypatch.undo()
    finish(tmp_path)


@pytest.mark.parametrize("moment", ["_write", "write_parquet", "csv_pieces", "sync_folder"])
def test_a_disk_that_is_full_is_found_out_before_the_charge(tmp_path, monkeypatch, moment):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(releases, moment, full)
    with refused("release.place-not-writable"):
        fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(13, "Permission denied"), OSError(30, "Read-only file system")], ids=str)
def test_a_folder_that_is_read_only_is_refused_first(tmp_path, monkeypatch, error):
    """The law of the operating system is played: it would let a superuser through."""

    def closed(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(Path, "mkdir", closed)
    with refused("release.place-not-writable"):
        fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_when_release_json_is_put_in_place_leaves_nothing(tmp_path, monkeypatch):
    refuse_renames_to(monkeypatch, "release.json", OSError(28, "No space left on device"))
    with refused("release.place-not-writable"):
        fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "ledger.db.answers"]
    monkeypatch.undo()
    finish(tmp_path)


def test_the_rehearsal_takes_the_room_of_all_files_and_says_nothing(tmp_path, monkeypatch):
    seen = {}
    measure = publishing.measure

    def look(*arguments, **options):
        (stage,) = (p for p in tmp_path.iterdir() if p.is_dir())
        seen.update(files(stage))
        return measure(*arguments, **options)

    monkeypatch.setattr(publishing, "measure", look)
    fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
    draft = seen.pop("release.json.draft")
    assert not draft.strip()
    assert {*seen, "release.json"} == set(files(tmp_path / "r"))
    assert 0 <= len(files(tmp_path / "r")["release.json"]) - len(draft) < 20  # the number of the ledger's entry


def test_a_place_taken_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    def slow(*arguments):
        (tmp_path / "r").mkdir(exist_ok=True)
        (tmp_path / "r" / "theirs").touch()
        return Replay(1).discrete_gaussians(*arguments)

    monkeypatch.setattr(noise, "discrete_gaussians", slow)
    with refused("release.folder-not-moved"):
        fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
    assert list(files(tmp_path / "r")) == ["theirs"]
    (complete,) = leftovers(tmp_path)  # its charge is made: it is not removed
    assert sorted(p.name for p in tmp_path.iterdir()) == [complete.name, "ledger.db", "ledger.db.answers", "r"]
    new_release = fn.Release.read(complete.rename(tmp_path / "found"))
    (tmp_path / "r" / "theirs").unlink()
    assert finish(tmp_path, "found") == new_release


KILLED = """
import itertools, os, signal, sys
import numpy as np, fitnoise as fn

folder, release = sys.argv[1], fn.release  # what is loaded is loaded before: to open a module is no moment
events = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "shutil.rmtree", "sqlite3.connect"}
with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
    plan = fn.Plan.from_json(file.read())


def release_until(moment, place):
    left = moment

    def audit(event, args):
        nonlocal left
        if event in events and folder in str(args[0]):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    release(plan, np.arange(30).reshape(3, 2, 5), ledger=place + "/ledger.db", directory=place + "/r")
    os._exit(0)


for moment in itertools.count():
    place = os.path.join(folder, str(moment))
    os.mkdir(place)
    child = os.fork()
    if not child:
        release_until(moment, place)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder for each moment in which a release was killed; the last was not killed.

    The moments are before the 1st, 2nd, 3rd … time that it opens, makes, moves or removes something on the disk.
    """
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    root = tmp_path_factory.mktemp("killed")
    (root / "plan.json").write_text(SMALL.to_json(), encoding="utf-8")
    subprocess.run([sys.executable, "-c", KILLED, str(root)], check=True)
    return sorted((p for p in root.iterdir() if p.is_dir()), key=lambda p: int(p.name))


def leftovers(folder_of):
    return [p for p in folder_of.iterdir() if ".unfinished-" in p.name and p.is_dir()]


def is_charged(folder_of):
    return (folder_of / "ledger.db").exists() and spent(folder_of / "ledger.db") > 0


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_no_release_without_its_charge(killed):
    charged, finished, has_answers = [], [], []
    for folder_of in killed:
        charged.append(is_charged(folder_of))
        finished.append((folder_of / "r").exists())
        names = {p.name for p in folder_of.iterdir() if not p.name.startswith(".")}
        assert names <= {"ledger.db", "ledger.db-journal", "ledger.db.answers", "r"}
        has_answers.append("ledger.db.answers" in names)
        assert has_answers[-1] or finished[-1] or not charged[-1]  # what is charged and not in place can be finished
        if finished[-1]:
            assert charged[-1]
            with fn.Ledger(folder_of / "ledger.db") as ledger:
                assert fn.verify(folder_of / "r", ledger=ledger).ok
    assert charged == sorted(charged)
    assert finished == sorted(finished)
    assert not charged[0]
    assert finished[-1]
    assert not has_answers[-1]
    assert charged.count(True) > finished.count(True)  # some were killed in between


def test_what_a_killed_process_leaves_is_no_release_whatever_it_is_called(killed, tmp_path):
    """Unless all of it was written, which is after the charge: then it is one under any other name."""
    is_complete = []
    for folder_of in killed:
        for folder in leftovers(folder_of):
            assert [english(c.claim) for c in fn.verify(folder).checks if not c.holds] == ["the release is finished"]
            with refused("release.unfinished-release"):
                fn.Release.read(folder)
            renamed = Path(shutil.copytree(folder, tmp_path / folder_of.name))
            is_complete.append(fn.verify(renamed).ok)
            if is_complete[-1]:
                with fn.Ledger(folder_of / "ledger.db") as ledger:
                    assert fn.verify(renamed, ledger=ledger).ok
            else:
                assert not (renamed / "release.json").exists()
                with pytest.raises(ReleaseError):
                    fn.Release.read(renamed)
    assert is_complete == sorted(is_complete)
    assert is_complete.count(False) > 20
    assert is_complete[-1]


def test_the_next_release_of_that_name_removes_what_a_killed_one_left_and_says_so(killed, tmp_path):
    unfinished = [folder_of for folder_of in killed if leftovers(folder_of) and not (folder_of / "r").exists()]
    cases = []
    for original in (unfinished[0], unfinished[len(unfinished) // 2], unfinished[-2], unfinished[-1]):
        folder_of = Path(shutil.copytree(original, tmp_path / original.name))
        (folder,) = leftovers(folder_of)
        (folder_of / f"{folder.name}0").mkdir()  # of another name
        cases.append(is_complete := (folder / "release.json").exists())
        notices = []
        fn.release(SMALL, COUNTS, ledger=folder_of / "ledger.db", directory=folder_of / "r", notice=notices.append)
        removed, *extra = notices
        assert extra == ["entry 1 charged this before: it is finished, at no further charge."] * is_charged(original)
        assert repr(folder.name) in removed
        assert not folder.exists()  # also the complete one: it is in place now
        assert ("holds a complete release" in removed) == is_complete
        assert ("was charged, its ledger says" in removed) != is_complete
        assert (folder_of / f"{folder.name}0").exists()
        assert fn.verify(folder_of / "r").ok
    assert cases[0] is False
    assert cases[-1] is True


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_a_folder_in_use_is_not_touched(tmp_path):
    notices = []

    def work():
        with folders._stage(tmp_path / "r", lambda: False) as stage:  # by one that holds no name
            (stage / "work").touch()
            fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r", notice=notices.append)
            assert (stage / "work").exists()

    with refused("release.folder-not-moved"):
        work()
    assert notices == []
    assert fn.verify(tmp_path / "r").ok
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "r"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_a_name_that_is_being_written_is_refused_before_the_charge(tmp_path, small_release):
    with staged(tmp_path / "r"):
        for data in (COUNTS, tmp_path / "missing.csv"):
            with refused("release.another-process-writes") as raised:
                fn.release(SMALL, data, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
            assert raised.value.outcome == NOTHING
        with refused("release.another-process-writes"):
            small_release.write(tmp_path / "r")
        assert not (tmp_path / "ledger.db").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_a_folder_that_is_taken_for_a_leftover_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, removed = plan_files.hold, []

    def late(folder):
        if not removed:
            removed.append(folder)
            (notice,) = clear_leftovers(tmp_path / "r")
            assert notice.startswith(f"removed {folder.name!r}, which a killed process left of a release to 'r'; ")
        return lock(folder)

    monkeypatch.setattr(plan_files, "hold", late)
    fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r")
    assert fn.verify(tmp_path / "r").ok
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.db", "r"]


def test_where_folders_cannot_be_locked_none_is_removed(tmp_path, monkeypatch):
    def nowhere(_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(plan_files, "hold", nowhere)
    (tmp_path / ".r.unfinished-01234567").mkdir()
    notices = []
    fn.release(SMALL, COUNTS, ledger=tmp_path / "ledger.db", directory=tmp_path / "r", notice=notices.append)
    assert notices == []
    assert fn.verify(tmp_path / "r").ok
    assert sorted(p.name for p in tmp_path.iterdir()) == [".r.unfinished-01234567", "ledger.db", "r"]


# --- the charge, named in the release ---------------------------------------------------------------------------


def test_a_release_names_the_entry_that_charged_it(tmp_path):
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        fn.release(SMALL, COUNTS, ledger=ledger)
        repeated = fn.release(SMALL, COUNTS, ledger=ledger, directory=tmp_path / "r", again=True)
        entry = ledger.entries()[2]
    document = json.loads((tmp_path / "r" / "release.json").read_text(encoding="utf-8"))
    assert document["fitnoise_release"] == FORMAT == 9
    assert document["ledger"] == {"sequence": 3, "digest": entry.digest}
    read = fn.Release.read(tmp_path / "r")
    assert read.entry == repeated.entry
    assert read.charge is None
    assert files(read.write(tmp_path / "again")) == files(tmp_path / "r")


def test_a_release_without_a_charge_names_no_entry(small_release, tmp_path):
    folder = fn.Release(SMALL, small_release.answers).write(tmp_path / "r")
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    assert document["fitnoise_release"] == FORMAT
    assert "ledger" not in document
    assert fn.verify(folder).ok
    assert fn.Release.read(folder).entry is None


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "3", "[]", "{}", '{"fitnoise_release": 9, "ledger": null}', None]
)
def test_a_release_without_a_complete_release_json_is_not_read(small_release, tmp_path, text):
    folder = small_release.write(tmp_path / "r")
    (folder / "release.json").unlink()
    if text is not None:
        (folder / "release.json").write_text(text, encoding="utf-8")
    with refused(
        "release.description-not-json",
        "release.entry-not-named",
        "release.file-not-readable",
        "release.unknown-release-format",
    ):
        fn.Release.read(folder)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7, 8, 10, True, "9"])
def test_a_release_of_another_format_is_refused(small_release, tmp_path, number):
    folder = small_release.write(tmp_path / "r")
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    (folder / "release.json").write_text(to_json(document | {"fitnoise_release": number}), encoding="utf-8")
    with refused("release.unknown-release-format"):
        fn.Release.read(folder)
    assert not fn.verify(folder).ok


def test_csv_files_are_written_and_compared_in_pieces(monkeypatch, tmp_path):
    """This holds for any cuts; a file with more, less or other contents is reported."""
    frame = pd.DataFrame({"place": ["a", "=b", "c,d", "e", "f"], "value": [1.5, -0.0, 3.25, 1e6, 7.0]})
    complete = folders.csv_text(frame)
    for rows in (1, 2, 5, 6):
        monkeypatch.setattr(folders, "CSV_ROWS_PER_WRITE", rows)
        pieces = list(folders.csv_pieces(frame))
        assert ("".join(pieces), len(pieces)) == (complete, 1 + -(-5 // rows))
        folders._write(tmp_path / "table.csv", folders.csv_pieces(frame))
        assert (tmp_path / "table.csv").read_bytes() == complete.encode()
        assert folders.says(tmp_path / "table.csv", folders.csv_pieces(frame))
        for other in (
            complete + "x",
            complete[:-1],
            complete.replace("3.25", "3.26"),
            complete.replace("\n", "\r\n"),
            "",
        ):
            (tmp_path / "other.csv").write_bytes(other.encode())
            assert not folders.says(tmp_path / "other.csv", folders.csv_pieces(frame))
    (tmp_path / "other.csv").write_bytes(b"\xff" + complete.encode())
    for path in (tmp_path / "other.csv", tmp_path / "none.csv", tmp_path):
        with refused("release.file-not-readable"):
            folders.says(path, folders.csv_pieces(frame))


@pytest.mark.parametrize("rows", [1, 3, 2**14])
def test_numbers_in_csv_files_are_those_of_python_and_none_is_minus_nothing(rows, monkeypatch, rng):
    """Also if all of a piece are equal, near the cut to nothing, and next to labels with signs."""
    monkeypatch.setattr(folders, "CSV_ROWS_PER_WRITE", rows)
    few = [0.0, -0.0, -5e-7, np.nextafter(-5e-7, 0), np.nextafter(-5e-7, -1), -4.9e-7, 5e-7, -1e-6, 1e17 / 3, -1e300]
    numbers = [*few, *(rng.normal(size=20) * 10.0 ** rng.integers(-8, 9, 20)), *[few[3]] * 3, *[2.5] * 4]
    labels = [f"%d -0.000000 {i}%" for i in range(len(numbers))]
    table = {"label": np.array(labels, dtype=object), "n": np.arange(len(numbers)), "value": np.array(numbers)}
    texts = [f"{x:.6f}" for x in numbers]
    lines = [
        f"{a},{i},{'0.000000' if x == '-0.000000' else x}" for i, (a, x) in enumerate(zip(labels, texts, strict=True))
    ]
    assert "-0.000000" in texts
    assert folders.csv_text(table) == "\n".join(["label,n,value", *lines]) + "\n"
    assert folders.csv_text(pd.DataFrame(table)) == folders.csv_text(table)


def test_names_of_any_length_are_released_verified_and_exported(tmp_path):
    """An attribute of 300 letters, places with long names, and a table of eight attributes with long names."""
    long = "é" * 300
    names = [f"{'attribute with a long name ' * 3}{i}" for i in range(7)]
    places = fn.Hierarchy(["state", "county"], [("s" * 130, "c" * 130 + i) for i in "ab"])
    domain = fn.Domain({long: fn.Categorical(["x", "y"]), **{n: fn.Ordered(0, 1) for n in names}, "geo": places})
    tables = [fn.table(long, margin=9), fn.table(long, *names, margin=90), fn.table("county", long, margin=9)]
    plan = fn.plan(fn.Workload(domain, tables), gap=1e-2)
    data = {long: ["x"], **{n: [0] for n in names}, "geo": ["c" * 130 + "a"]}
    release = fn.release(plan, pd.DataFrame(data), ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    with fn.Ledger(tmp_path / "l.sqlite") as ledger:
        assert fn.verify(tmp_path / "r", ledger=ledger).ok
    read = fn.Release.read(tmp_path / "r")
    for name in release:
        pd.testing.assert_frame_equal(read[name], release[name])
    files = [f.name for f in (tmp_path / "r" / "tables").iterdir()]
    assert len(files) == 2 * len(tables)
    assert max(len(name.encode()) for name in files) <= SLUG_BYTES + len(".parquet")
    for file in ("a.xlsx", "a.tex", "package"):
        assert fn.export(release, tmp_path / file).exists()
    assert fn.report(release, tmp_path / "a.html").exists()
    names = [x for n in release for x in ("--table", n)]
    by_command("write", "tables", str(tmp_path / "r"), *names, "--output", str(tmp_path / "t"))
    assert len([*(tmp_path / "t").iterdir()]) == len(tables)
    of_places = [x for n in release if n.startswith("county") for x in ("--table", n)]
    by_command("write", "tables", str(tmp_path / "r"), *of_places, "--by", "state", "--output", str(tmp_path / "s"))
    assert len([*(tmp_path / "s").iterdir()]) == 1


# --- codes next to labels ---------------------------------------------------------------------------------------


def check_release_columns(release):
    """Every table of a release keeps the law, as columns and as a frame."""
    for name, frame in release.frames():
        workload = release.plan.group(name).publication.workload
        check_further_columns(frame, workload[name], workload.domain)


def test_every_plan_of_the_zoo_shows_each_code_next_to_its_label(any_plan):
    check_release_columns(answered(any_plan))


def test_every_request_of_the_zoo_shows_each_code_next_to_its_label(any_request):
    _, plan = any_request
    if plan.groups:
        check_release_columns(answered(plan))


BY_VALUE = {name: sample.attribute for name, sample in ATTRIBUTES.items() if not sample.attribute.steps}


@pytest.mark.parametrize("attribute", BY_VALUE.values(), ids=BY_VALUE)
def test_every_attribute_of_the_zoo_has_codes_and_ends_next_to_its_labels(attribute):
    home = attribute.hierarchy or attribute
    name = attribute.name if attribute.kind == "level" else "a"
    domain = fn.Domain({"other": fn.Ordered(0, 1), "home" if attribute.hierarchy else name: home})
    table = fn.table("other", name, margin=1)
    frame = stub_frame(table.stubs(domain))
    assert len(frame) == 2 * attribute.size
    check_further_columns(frame, table, domain)


def test_the_law_of_codes_finds_a_code_of_another_label(small_release):
    workload = small_release.plan.publication.workload
    frame, table = small_release["région by sex"], workload["région by sex"]
    check_further_columns(frame, table, workload.domain)
    for wrong in (frame.assign(région_code=[1, 1, 3, 2, 2, 3]), frame.drop(columns="région_code")):
        with pytest.raises(AssertionError):
            check_further_columns(wrong, table, workload.domain)
    domain, table = fn.Domain(x=fn.Binned([0, 2.5])), fn.table("x", margin=1)
    frame = stub_frame(table.stubs(domain))
    check_further_columns(frame, table, domain)
    for wrong in (frame.assign(x_to=[0, 2, np.nan]), frame.assign(x_from=[0, 0, 2.5]), frame[["x", "x_from"]]):
        with pytest.raises(AssertionError):
            check_further_columns(wrong, table, domain)


@pytest.mark.parametrize(
    "domain",
    [
        {"a": fn.Categorical({"x": "long"}), "a_code": fn.Ordered(0, 1)},
        {"A_Code": fn.Ordered(0, 1), "a": fn.Categorical({"x": "long"})},
        {"a": fn.Binned([1]), "a_to": fn.Ordered(0, 1)},
        {"a": fn.Binned([1]), "geo": fn.Hierarchy(["a_from", "b"], [(1, 2)])},
    ],
)
def test_an_attribute_cannot_have_the_name_of_a_column_of_codes_or_ends(domain):
    with refused("domain.attribute-name-of-further-column"):
        fn.Domain(domain)


def test_an_attribute_may_have_such_a_name_where_there_are_no_codes():
    without = fn.Categorical({"x": "x", "y": "y"}), fn.Categorical(["x"])
    for attribute in (*without, fn.Ordered(0, 1)):
        domain = fn.Domain(a=attribute, a_code=fn.Ordered(0, 1))
        columns = stub_frame(fn.table("a", "a_code", margin=1).stubs(domain))
        assert list(columns) == ["a", "a_code"]
