"""The demonstration: its numbers, its words, its files, and how far its values lie from the truth."""

import csv
import gzip
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import numpy as np
import pytest

import fitnoise as fn
from charges import loss
from dense import table_matrix
from fitnoise import data
from fitnoise.interfaces import demo
from fitnoise.interfaces.cli import main
from fitnoise.messages import Message
from fitnoise.reading.verification import Check, Verification
from refused import refused

RHO, SEPARATE = 0.0356209, 0.2139


def run_captured(arguments):
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        main(arguments)
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def demo_output(tmp_path_factory):
    """Return the output of `fitnoise new --demo`, and the folder that it wrote."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "story"
    return (*run_captured(["new", "--demo", "-o", str(folder)]), folder)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """The document of `fitnoise new --demo --json`."""
    folder = tmp_path_factory.mktemp("demo") / "story"
    out, _ = run_captured(["new", "--demo", "--json", "-o", str(folder)])
    return json.loads(out)


@pytest.fixture(scope="module")
def truth():
    """The true tables, counted without fitnoise's counters."""
    workload = fn.load_spec(data.path(data.DEMO)).workload
    domain = workload.domain
    cells = np.zeros(domain.shape, dtype=np.int64)
    with gzip.open(data.path(data.CPS), "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            cells[tuple(domain[a].position(int(row[domain.column(a)])) for a in domain)] += 1
    names = list(domain)
    out = {}
    for table in workload.tables:
        shown_axes = [a for a in names if a in table.attributes]
        margin = cells.sum(axis=tuple(i for i, a in enumerate(names) if a not in shown_axes))
        small = fn.Domain({a: domain[a] for a in shown_axes})
        out[table.name] = table_matrix(table, small) @ margin.ravel()
    assert cells.sum() == 103_589
    assert cells[:, :, 81:85].sum() == 0  # 80 means 80 to 84, 85 means 85 or more
    return out


def test_the_demo_says_what_everything_costs(demo_output):
    out, err, _ = demo_output
    assert err.splitlines() == ["planning …", "releasing …"]
    assert f"rho = {RHO:.7f}" in out
    assert "fitnoise studio" in out
    assert re.search(r"epsilon = 1\.138\d at delta = 1e-06, guaranteed", out)
    assert "a guess between two neighbouring data sets, equally likely before, is right at most 55.31% of" in out
    assert re.search(r"mu = 0\.26691\d", out)
    value, bound = map(float, re.search(r"cost ([\d.]+) ≥ bound ([\d.]+): no mechanism of its kind", out).groups())
    assert bound <= value <= bound * (1 + 1e-6)
    assert value / 2 == pytest.approx(RHO, rel=1e-5)
    assert f"independent noise on each number would cost rho = {SEPARATE}" in out
    for table, numbers, margin in (
        ("state by status", 204, 15), ("state by wages", 408, 20), ("status by kids by wages", 128, 15),
        ("status by age cumulative", 344, 30), ("state by selfemp", 102, 15),
    ):  # fmt: skip
        assert re.search(rf"^{table} +{numbers} +±{margin} +{margin} +{margin} +\d+\.\d%$", out, re.MULTILINE)


def test_the_demo_speaks_of_its_data_as_they_are(demo_output):
    out, _, folder = demo_output
    assert "103,589 tax filing units" in out
    assert "public-use March CPS, an unweighted sample" in out
    assert "no tax return is involved" in out
    for untrue in ("match", "taxpayer", "IRS", "weighted total"):
        assert untrue not in out
    assert f"written to {folder / 'release'}" in out
    assert out.count("\nverified   ") == 11
    assert re.search(r"^California +200,000 or more +[\d.]+ +20\.0$", out, re.MULTILINE)
    assert re.search(r"all states, 200,000 or more: [\d,.]+ ± 57\.1\n\(as if the 51 errors .* ± 142\.8\)", out)
    assert re.search(r"rho 0\.0356209 spent\n +the cap is 0\.0500000; 0\.0143791 is left", out)


def test_the_document_of_the_demo_has_the_same_numbers(counted):
    assert counted["rho"] == pytest.approx(RHO, rel=1e-5)
    assert counted["separate_rho"] == pytest.approx(SEPARATE, abs=5e-5)
    assert counted["separate_rho"] / counted["rho"] == pytest.approx(6.0, abs=0.01)
    assert counted["rho"] < counted["separately_planned_rho"] < counted["separate_rho"]
    assert counted["gap"] <= 1e-6
    assert (counted["numbers"], counted["noisy_answers"], counted["delta"]) == (1186, 1365, 1e-6)
    assert counted["epsilon"] == pytest.approx(1.13837, abs=1e-5)
    assert sum(t["price"] for t in counted["tables"]) == pytest.approx(1)
    for t in counted["tables"]:
        assert t["achieved_moe"] <= t["target_moe"] * (1 + 1e-9)
    assert counted["verified"] is True
    assert counted["balance"]["spent"] == pytest.approx(RHO, rel=1e-5)
    assert counted["balance"]["cap"] == 0.05
    assert fn.verify(counted["directory"]).ok


@pytest.mark.parametrize("run", ["demo_output", "counted"])
def test_released_values_are_near_the_truth(run, truth, request):
    got = request.getfixturevalue(run)
    release = fn.Release.read(got[2] / "release" if run == "demo_output" else got["directory"])
    errors = []
    for name, frame in release.items():
        z = (frame["value"].to_numpy() - truth[name]) / frame["std_error"].to_numpy()
        assert np.abs(z).max() < 6
        assert np.abs(z).max() > 0.01  # there is noise
        errors.append(z)
    assert 0.5 < np.concatenate(errors).std() < 1.5
    assert min(frame["value"].min() for frame in release.values()) < 0  # many cells are empty, and nothing is clamped


def test_two_demonstrations_draw_two_noises(demo_output, counted):
    one, other = fn.Release.read(demo_output[2] / "release"), fn.Release.read(counted["directory"])
    assert one.plan.hash == other.plan.hash
    assert one != other


def test_the_ledger_of_the_demo_holds_one_charge_and_refuses_another(demo_output):
    _, _, folder = demo_output
    with fn.Ledger(folder / "ledger.sqlite") as ledger:
        assert [e.kind for e in ledger.entries()] == ["cap", "charge", "answers"]
        assert not ledger.quote(ledger.entries()[1].account, loss(ledger.entries()[1].rho)).fits


def test_places_are_never_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with refused("release.place-exists"):
        demo.run(tmp_path / "here", as_json=True)
    (tmp_path / "file").touch()
    monkeypatch.setattr(demo, "make_plan", lambda *_, **__: fn.plan(fn.matrix_workload([[1]], margins=1)))
    with refused("release.place-not-writable"):
        demo.run(tmp_path / "file" / "below", as_json=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "here"]
    taken = tmp_path / "fitnoise-demo"
    assert demo._free(taken) == taken
    taken.mkdir()
    (tmp_path / "fitnoise-demo-2").mkdir()
    assert demo._free(taken).name == "fitnoise-demo-3"


def test_a_release_that_does_not_verify_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(
        demo,
        "verify",
        lambda _: Verification((Check(Message("report.claim.targets"), False, Message("report.fault.sums")),)),
    )
    with refused("release.demo-not-verified"):
        demo.run(tmp_path / "demo", as_json=True)
