"""Files of covariances, read without fitnoise: they give every sum of a table's numbers its exact error."""

import csv
import io
import itertools
import json

import numpy as np
import pytest

import fitnoise as fn
import zoo
from fitnoise.errors import ReleaseError
from fitnoise.reading import covariances
from fitnoise.reading.covariances import covariance_files
from laws.releases import answered, by_command
from tolerances import EXACT

MAX_NUMBERS = 700
"""The number of numbers of a table above which its matrix is not compared entry by entry."""


def matrices(files):
    """Yield the name of each table and its matrix of covariances, by the description of the files alone."""
    for entry in json.loads(files["covariances.json"])["tables"]:
        columns = entry["columns"]
        agreeing = [i for i, x in enumerate(columns) if x["by_agreement"]]
        listed = [i for i, x in enumerate(columns) if not x["by_agreement"]]
        shape = [columns[i]["rows"] for i in listed]
        n = int(np.prod(shape))
        by_pattern = {}
        for line in csv.DictReader(io.StringIO(files[entry["file"]])):
            matrix = by_pattern.setdefault(line["agree"], np.full((n, n), np.nan))
            i, j = int(line["row"]) - 1, int(line["other_row"]) - 1
            assert i <= j
            matrix[i, j] = matrix[j, i] = float(line["covariance"])
        rows = list(itertools.product(*(range(x["rows"]) for x in columns)))
        if len(rows) > MAX_NUMBERS:
            continue
        out = np.empty((len(rows), len(rows)))
        inner = [np.ravel_multi_index([r[i] for i in listed], shape) if listed else 0 for r in rows]
        for (a, r), (b, q) in itertools.product(enumerate(rows), repeat=2):
            agree = "".join("1" if r[i] == q[i] else "0" for i in agreeing)
            out[a, b] = by_pattern[agree][inner[a], inner[b]]
        yield entry["name"], out


def check_files(plan):
    """Every table with covariances is there, and random sums have the error that a release states."""
    release, draw, seen = answered(plan), np.random.default_rng(5), []
    files = dict(covariance_files(release))
    document = json.loads(files["covariances.json"])
    assert sorted([x["name"] for x in document["tables"]] + document["left_out"]) == sorted(release)
    for name, matrix in matrices(files):
        seen.append(name)
        workload = plan.group(name).publication.workload
        shape, part = workload[name].shape(workload.domain), plan.group(name)
        np.testing.assert_allclose(np.diag(matrix), part.table_variances(name).ravel(), rtol=EXACT)
        for _ in range(3):
            f = draw.integers(-1, 2, shape) if shape else np.ones(())
            variance = release.estimate({name: f}).std_error ** 2
            size = np.abs(f).sum() ** 2 * matrix.max()
            assert f.ravel() @ matrix @ f.ravel() == pytest.approx(variance, rel=EXACT, abs=EXACT * size)
    return seen


def test_sums_of_all_plans_have_their_exact_errors(any_plan):
    assert check_files(any_plan)


def test_sums_of_all_mechanisms_have_their_exact_errors(any_request):
    _, plan = any_request
    assert check_files(plan)


def tables():
    domain = fn.Domain(
        state=fn.Categorical([f"s{i}" for i in range(40)]),
        sex=fn.Categorical(["f", "m"]),
        age=fn.Ordered(0, 3),
        pay=fn.Amount(0, 10),
    )
    requested = [
        fn.table("state", "sex", margin=5),
        fn.table("sex", cumulative="age", margin=9),
        fn.table("sex", "age", margin=9),
        fn.table("sex", mean="pay", margin=3, reference=100),
    ]
    return fn.plan(fn.Workload(domain, requested, confidence=0.9), source=fn.DataSource("people"))


def test_values_of_an_exchangeable_attribute_share_their_covariances():
    files = dict(covariance_files(answered(tables())))
    document = json.loads(files["covariances.json"])
    (by_state, cumulative, by_value) = document["tables"]
    assert (document["fitnoise_covariances"], document["confidence"]) == (1, 0.9)
    assert document["left_out"] == ["sex by pay mean"]
    assert [x["by_agreement"] for x in by_state["columns"]] == [True, True]
    assert [x["overlaps"] for x in cumulative["columns"]] == [False, True]
    assert [x["overlaps"] for x in by_value["columns"]] == [False, False]
    assert (by_state["counts"], by_state["gaussian"]) == (True, True)
    lines = files["state_by_sex-covariances.csv"].splitlines()
    assert lines[0] == "agree,row,other_row,covariance"
    assert [line.split(",")[0] for line in lines[1:]] == ["11", "10", "01", "00"]


def test_the_command_writes_named_tables_into_a_new_folder(tmp_path, capfd):
    answered(tables()).write(tmp_path / "release")
    command = ["write", "covariances", str(tmp_path / "release"), "-o", str(tmp_path / "covariances")]
    by_command(*command, "--table", "state by sex", "--json")
    assert json.loads(capfd.readouterr().out)["files"] == ["state_by_sex-covariances.csv", "covariances.json"]
    assert sorted(x.name for x in (tmp_path / "covariances").iterdir()) == sorted(
        ["state_by_sex-covariances.csv", "covariances.json"]
    )
    by_command(*command)
    assert "covariances" in capfd.readouterr().err
    by_command(*command[:-1], str(tmp_path / "release" / "inside"))
    assert "[release.place-inside-release]" in capfd.readouterr().err


def test_means_and_tables_with_too_many_covariances_are_refused(monkeypatch):
    release = answered(tables())
    (mean,) = (x for x in release if "mean" in x)
    with pytest.raises(ReleaseError) as refused:
        dict(covariance_files(release, [mean]))
    assert refused.value.code == "release.covariances-of-means"
    monkeypatch.setattr(covariances, "MAX_LINES", 3)
    with pytest.raises(ReleaseError) as refused:
        dict(covariance_files(release, ["state by sex"]))
    assert refused.value.code == "release.covariances-exceed-file"
    assert json.loads(dict(covariance_files(release))["covariances.json"])["left_out"] == list(release)


def test_a_pure_table_is_marked():
    plan = fn.plan(zoo.REQUESTS["pure-fit-for-use"]())
    document = json.loads(dict(covariance_files(answered(plan)))["covariances.json"])
    assert {x["gaussian"] for x in document["tables"]} == {False}
