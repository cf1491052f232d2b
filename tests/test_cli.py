"""The command line as people and programs meet it: streams, exit codes, terminals, accidents."""

import contextlib
import io
import itertools
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from fractions import Fraction
from types import SimpleNamespace

import click
import numpy as np
import pytest

import fitnoise as fn
from fitnoise.interfaces import cli, commands, console
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.reports.releases import tables_messages
from fitnoise.kernel import noise
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.privacy import pure_mu
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import PrivacyUnit
from fitnoise.mechanisms.laplace import planning as matrix
from fitnoise.messages import COMPLETE_LANGUAGES, LANGUAGES, Message, ValueKind, english
from fitnoise.planning.accounting import FIXED_IN_ADVANCE, curve
from fitnoise.reading import release as releases
from fitnoise.reading.release_files import csv_text, staged
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request import curves
from fitnoise.request.curves import epsilon_at
from fitnoise.request.documents import json_schema
from fitnoise.request.workloads import slug
from people import AREAS, DATA
from refused import refused
from test_catalogues import in_words
from waiting import wait_until

pytestmark = pytest.mark.usefixtures("hardly_searched")

SPEC = f"""
title = "People"
data = {{ source = "people" }}
{AREAS}
[[tables]]
attributes = ["area"]
cumulative = "age"
margin = {{ by = "age", values = [9, 9, 9, 8] }}
"""
COMMANDS = [
    "new", "plan", "count", "count keys", "release", "series status", "series write", "tables", "ask", "combine",
    "integers", "write report", "write export", "write tables", "write covariances",
    "write microdata", "write record", "verify",
    "ledger show", "ledger create", "ledger cap", "ledger open", "ledger head", "ledger verify", "studio",
]  # fmt: skip
RELEASE = ["release", "plan.json", "people.csv", "--ledger", "budget.db", "-o", "release"]
UNIT = PrivacyUnit().describe()
ESCAPE = "\x1b"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "people.csv").write_text(DATA, encoding="utf-8")
    return tmp_path


def failure(err):
    """Return the error that a command with --json wrote as the last line on stderr."""
    return json.loads(err.splitlines()[-1])["error"]


@pytest.fixture
def run(here, capsys):
    def run(*arguments):
        """Exit code, stdout and stderr of a command, in this process."""
        code = 0
        try:
            main([str(a) for a in arguments])
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return run


def process(*arguments, check=None, **environment):
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "fitnoise", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=60, env={**os.environ, **environment}, check=False)
    assert check is None or done.returncode == check, done.stderr
    return done


def charges(path):
    """Return the number of charges that a ledger holds."""
    if not path.exists():
        return 0
    with fn.Ledger(path) as ledger:
        return sum(e.kind == "charge" for e in ledger.entries())


def test_the_help_lists_every_command_once_under_a_heading():
    groups = {name: x.commands for name, x in cli.cli.commands.items() if hasattr(x, "commands")}
    inside = [f"{name} {child}" for name, children in groups.items() for child in children]
    listed = [name for names in cli.HEADINGS.values() for name in names]
    assert sorted(listed) == sorted([*(cli.cli.commands.keys() - groups), *inside]) == sorted(COMMANDS)


def test_a_command_of_two_words_is_found_before_the_command_of_the_first(run, here):
    assert run("count", "keys", "own.key")[0] == 0
    assert (here / "own.key.pub").exists()
    code, _, err = run("count", "keys.json", "people.csv", "--unsealed", "-o", "counts")
    assert (code, "[release.file-not-readable]" in err) == (8, True)


def test_a_ledger_is_verified_against_a_head_that_was_written_down(run):
    with fn.Ledger("l") as ledger:
        heads = [ledger.head()]
        for cap in (1, 2):
            ledger.set_cap(fn.Account("people", fn.PrivacyUnit("person")), Fraction(cap))
            heads.append(ledger.head())
    texts = [f"{number}:{digest}" for number, digest in heads]
    assert run("ledger", "head", "l")[:2] == (0, f"{texts[2]}\n")
    code, out, _ = run("ledger", "head", "l", "--json")
    assert json.loads(out) == {"sequence": 2, "digest": heads[2][1]}
    for text in texts:
        assert run("ledger", "verify", "l", "--head", text)[0] == 0
    code, out, _ = run("ledger", "verify", "l", "--head", texts[1], "--json")
    assert (code, json.loads(out)) == (0, {"entries": 2, "head": {"sequence": 2, "digest": heads[2][1]}})
    assert run("ledger", "verify", "l")[1] == f"2 entries, chain unbroken, head {heads[2][1][:12]}\n"
    for number, digest in ((1, heads[2][1]), (3, heads[2][1])):
        code, out, err = run("ledger", "verify", "l", "--head", f"{number}:{digest}")
        assert (code, out, "[ledger.head-not-found]" in err) == (7, "", True)
    for command in ("head", "verify"):
        code, _, err = run("ledger", command, "nowhere.db")
        assert (code, "[ledger.file-missing]" in err) == (7, True)


# --- the path -------------------------------------------------------------------------------------------------


def test_the_complete_path_for_programs(run, here):
    code, out, err = run("plan", "spec.toml", "-o", "plan.json", "--json")
    plan = json.loads(out)
    assert (code, "wrote plan.json" in err) == (0, True)
    parsed = fn.Plan.from_json((here / "plan.json").read_text(encoding="utf-8"))
    for key in ("bound", "gap", "rho", "hash"):
        assert plan[key] == getattr(parsed, key)
    assert (plan["mu"], plan["cost_squared"]) == (parsed.loss_summary.mu, rounded_up(parsed.table_part.exact_cost))
    assert plan["epsilon"] == parsed.epsilon()
    assert 0 <= plan["gap"] <= 1e-6
    assert plan["bound"] <= plan["cost_squared"] == pytest.approx(2 * plan["rho"]) == pytest.approx(plan["mu"] ** 2)
    assert [(t["name"], t["numbers"]) for t in plan["tables"]] == [("area", 2), ("area by age cumulative", 8)]
    for table in plan["tables"]:
        assert 0 < table["achieved_moe"] <= table["target_moe"]
        assert 0 <= table["price"] <= 1
    assert plan["tables"][0]["target_moe"] == pytest.approx(4)

    code, out, _ = run("release", "plan.json", "people.csv", "--ledger", "budget.db", "-o", "release", "--json")
    released = json.loads(out)
    assert (code, released["directory"], released["rho"]) == (0, "release", plan["rho"])
    assert released["balance"]["spent"] == pytest.approx(plan["rho"])
    assert (released["balance"]["source"], released["balance"]["cap"]) == ("people", None)
    assert released["tables"] == list(fn.Release.read("release")) == ["area", "area by age cumulative"]
    assert released["written"] == "all"

    code, out, _ = run("verify", "release", "--json")
    verified = json.loads(out)
    assert (code, verified["ok"], all(c["holds"] for c in verified["checks"])) == (0, True, True)

    code, out, _ = run("verify", "release", "--ledger", "budget.db", "--json")
    checks = json.loads(out)["checks"]
    assert code == 0
    claims = ["report.claim.charge", "report.claim.ledger_answers"]
    assert [c["claim"]["id"] for c in checks if c not in verified["checks"]] == claims

    code, out, _ = run("ledger", "show", "budget.db", "--json")
    ledger = json.loads(out)
    assert code == 0
    assert [(e["kind"], e["plan"]) for e in ledger["entries"]] == [("charge", plan["hash"]), ("answers", None)]
    assert ledger["balances"] == [released["balance"]]
    assert ledger["head"] == {"sequence": 2, "digest": ledger["entries"][1]["digest"]}
    assert ledger["leftovers"] == []


def test_a_ledger_names_the_remains_of_killed_processes_next_to_it(run, here):
    """But nothing that a living process is at work on."""
    with fn.Ledger(here / "budget.db"):
        pass
    for name in (".r.unfinished-0123abcd", ".budget.db.unfinished-a_b1c2d3", ".hidden", "r.unfinished-0123abcd"):
        (here / name).touch()
    with staged(here / "other"):
        code, out, _ = run("ledger", "show", "budget.db", "--json")
    names = [".budget.db.unfinished-a_b1c2d3", ".r.unfinished-0123abcd"]
    assert (code, json.loads(out)["leftovers"]) == (0, names)
    code, out, _ = run("ledger", "show", "budget.db")
    assert code == 0
    assert f"{', '.join(names)}: left by killed processes" in out


def test_the_complete_path_for_people(run):
    code, out, err = run("plan", "spec.toml", "-o", "plan.json")
    assert code == 0
    assert err.splitlines() == ["planning …", "wrote plan.json"]
    lines = out.splitlines()
    assert lines[0].split("  ")[0] == "table"
    assert re.match(r"area +2 +±4 +4 +4 +\d", lines[1])
    assert re.match(r"area by age cumulative +8 +±8 to 9 ", lines[2])
    for word in (
        "price      rho = ",
        "guaranteed",
        "proof      cost ",
        "comparison independent noise on each number",
    ):
        assert word in out
    code, out, err = run("release", "plan.json", "people.csv", "--ledger", "budget.db", "-o", "release")
    assert code == 0
    assert err.splitlines() == ["releasing …", "wrote release"]
    assert out.startswith(
        "directory  release\ntables     area, area by age cumulative\ncounted    all records of people\ncharged    "
        "rho = "
    )
    assert "no cap is set" in out
    code, out, err = run("verify", "release")
    assert (code, err) == (0, "verifying …\n")
    checks, unchecked = out.split("\n\n")
    assert [line.split()[0] for line in checks.splitlines()[1:]] == ["ok"] * 11
    assert unchecked.startswith("unchecked  the charge, without the ledger (--ledger)\n")
    code, out, err = run("ledger", "show", "budget.db")
    assert code == 0
    assert f"people ({UNIT})\nrho 0." in out
    assert "2 entries, chain unbroken" in err


def test_a_budget_and_a_matrix_are_reported(run, here):
    matrix = 'budget = {{ rho = "1/50" }}\n{}[[tables]]\nname = "q"\nmatrix = [[1, 1], [0, 1]]\nstd_error = 2\n'
    (here / "spec.toml").write_text(
        matrix.format('[domain.x]\ntype = "categorical"\ncodes = [0, 1]\n'), encoding="utf-8"
    )
    _, out, _ = run("plan", "spec.toml")
    assert "targets    relative: the budget allows " in out
    _, out, _ = run("plan", "spec.toml", "--json")
    document = json.loads(out)
    assert document["rho"] <= 0.02
    assert document["rho"] == pytest.approx(0.02)
    assert document["relaxation"] > 0
    real = (
        '[domain.x]\ntype = "ordered"\nlow = 0\nhigh = 1\n[[tables]]\nmatrix = [[0.3, 0.7], [0.6, 1.4]]\nmargin = 1\n'
    )
    (here / "spec.toml").write_text(real, encoding="utf-8")
    assert fn.plan(fn.load_spec("spec.toml")).table_part.decomposition.query_shift > 0
    assert "precision  queries are answered to within " in run("plan", "spec.toml")[1]


GOALS = {
    "the usual goal": (
        "",
        {"goal": "fit-for-use", "composed_with": []},
        ["table  numbers  target  requested ±  achieved ±  share of price", "profile    "],
    ),
    "total error": (
        'objective = { goal = "total-error", weights = "inverse-variance" }',
        {"goal": "total-error"},
        [
            "table  numbers  target on average  requested ±  worst ±  share of price",
            "targets    met on average of all variances (inverse-variance weights), not by each number",
            "proof      cost ",
            "to its own target, would cost",
        ],
    ),
    "total error within a budget": (
        'objective = { goal = "total-error" }\nbudget = { rho = "1/50" }',
        {"goal": "total-error"},
        ["times the requested margins, on average of all variances (uniform weights)"],
    ),
    "hybrid": (
        'objective = { goal = "hybrid", weights = "inverse-std-error", total_error_weight = 1e-2 }',
        {"goal": "hybrid"},
        [
            "achieved ±  share of objective",
            " = cost ",
            " + 0.01 × ",
            "(inverse-std-error weights)",
            "be better by more",
        ],
    ),
    "cell budgets": (
        'privacy = { cell_budgets = { attributes = ["area"], values = { North = 0.25 }, default = 1 } }',
        {"goal": "fit-for-use"},
        ["budgets    by area: a cell costs at most 0.25 to 1 times ", "proof      cost relative to budgets "],
    ),
    "cell budgets of a hybrid": (
        (
            'privacy = { max_records = 2, cell_budgets = { attributes = ["area"], values = [1, 0.5] } }\n'
            'objective = { goal = "hybrid", total_error_weight = 1e-4 }'
        ),
        {"goal": "hybrid"},
        [
            "budgets    by area: a cell costs at most 0.5 to 1 times ",
            " = cost relative to budgets ",
            "proof      value ",
        ],
    ),
    "replace one": (
        (
            'privacy = { neighbours = "replace-one" }\n'
            'public = [{ by = [], source = "Register", origin = "these data" }]'
        ),
        {"goal": "fit-for-use", "profile": None},
        ["for one record, replaced by another one", "proof      cost "],
    ),
    "beside": (
        f'privacy = {{ composed_with = ["{"ab" * 32}"] }}',
        {"composed_with": ["ab" * 32]},
        ["composed   this plan uses the same records as abababababab"],
    ),
}


@pytest.mark.parametrize("case", GOALS)
def test_every_goal_is_reported(run, here, case):
    head, keys, lines = GOALS[case]
    (here / "spec.toml").write_text(head + SPEC, encoding="utf-8")
    code, out, _ = run("plan", "spec.toml", "-o", "plan.json")
    assert code == 0
    text = re.sub(r"(?<=\S) {2,}(?=\S)", "  ", out.splitlines()[0]) + "\n" + "\n".join(out.splitlines()[1:])
    for line in lines:
        assert line in text
    plan = fn.Plan.from_json((here / "plan.json").read_text(encoding="utf-8"))
    value, bound = map(float, re.search(r"^proof .*? ([\d.]+) ≥ bound ([\d.]+): ", out, re.MULTILINE).groups())
    assert (value, bound) == (
        pytest.approx(plan.table_part.objective_value, rel=1e-7),
        pytest.approx(plan.bound, rel=1e-7),
    )
    document = json.loads(run("plan", "spec.toml", "--json")[1])
    assert document["hash"] == plan.hash
    assert {k: document[k] for k in keys} == keys
    part = plan.table_part
    assert (document["objective_value"], document["cost_squared"]) == (
        part.objective_value,
        rounded_up(part.exact_cost),
    )
    assert (document["bound"], document["rho"]) == (plan.bound, plan.rho)
    if "profile" in keys:
        assert "profile  " not in out
    else:
        profile, largest = document["profile"], float(plan.table_part.profile.max())
        assert (profile["lowest"], profile["highest"]) == (plan.table_part.profile.min(), largest)
        assert profile["cells_with_slack"] == (plan.table_part.profile < largest * (1 - 1e-6)).sum()
        factor = plan.publication.unit.cost_factor() / 2
        assert factor * largest == pytest.approx(plan.rho)
        summary = (
            "every record has the same cost"
            if not profile["cells_with_slack"]
            else f"rho from {factor * profile['lowest']:.7f} to"
        )
        assert f"profile    {summary}" in out
    assert ("budgets  " in out) == ("cell_budgets" in head)
    assert ("objective  " in out) == (document["goal"] == "hybrid")


def test_equal_values_have_equal_costs(run, here):
    table = "[[tables]]\nattributes = ['area', 'age']\nmargin = 3\n"
    (here / "spec.toml").write_text(SPEC.split("[[tables]]")[0] + table, encoding="utf-8")
    assert "\nprofile    every record has the same cost\n" in run("plan", "spec.toml")[1]
    assert "\nunused  " not in run("plan", "spec.toml")[1]
    document = json.loads(run("plan", "spec.toml", "--json")[1])
    cost = document["cost_squared"]
    assert document["profile"] == {"lowest": cost, "highest": cost, "cells_with_slack": 0}


def test_a_refined_plan_has_a_low_cost_for_every_record(run, here):
    matrix = '[domain.x]\ntype = "ordered"\nlow = 0\nhigh = 2\n[[tables]]\nname = "q"\nmatrix = {}\nvariance = {}\n'
    variances = '{ by = "query", values = [1, 2, 5] }'
    (here / "spec.toml").write_text(matrix.format("[[1, 0, 0], [0, 1, 0], [0, 0, 1]]", variances), encoding="utf-8")
    code, out, _ = run("plan", "spec.toml", "--refine", "-o", "plan.json")
    assert code == 0
    assert "profile    rho from 0.1" in out
    assert "by the cell of a record; 2 of 3 cells cost less than the costliest" in out
    assert "unused     2 of 3 values of x have charged but unused privacy" in out
    assert "with margins of ±2.191 people or more\n           these are [1, 2] (fitnoise plan --free)" in out
    plan = fn.Plan.from_json((here / "plan.json").read_text(encoding="utf-8"))
    assert plan.table_part.profile == pytest.approx([1, 0.5, 0.2], rel=1e-5)
    profile = json.loads(run("plan", "spec.toml", "--refine", "--json")[1])["profile"]
    assert profile == {
        "lowest": plan.table_part.profile.min(),
        "highest": plan.table_part.profile.max(),
        "cells_with_slack": 2,
    }


def test_a_refined_plan_is_one_of_single_records(run, here):
    (here / "spec.toml").write_text('objective = { goal = "total-error" }' + SPEC, encoding="utf-8")
    code, out, err = run("plan", "spec.toml", "--refine", "--json")
    assert (code, out, failure(err)["code"]) == (4, "", "plan.refine-without-fit-for-use")


def test_the_device_is_the_requested_one(run, monkeypatch):
    requests = []

    def planned(publication, **options):
        requests.append((options["refine"], options["device"]))
        return fn.plan(publication)

    with monkeypatch.context() as patch:
        patch.setattr(commands, "make_plan", planned)
        for arguments in ([], ["--device", "cuda:1"], ["--refine"]):
            assert run("plan", "spec.toml", *arguments)[0] == 0
    assert requests == [(False, None), (False, "cuda:1"), (True, None)]
    pytest.importorskip("torch")
    there, here = (json.loads(run("plan", "spec.toml", "--json", *a)[1]) for a in (["--device", "cpu"], []))
    assert there["rho"] == pytest.approx(here["rho"], rel=1e-6)
    assert there["gap"] <= 1e-6


def test_a_release_on_the_same_records_prints_its_added_cost(run, here):
    """Two plans whose prices peak in different areas."""

    def spec(north, south, composed=()):
        variances = f"{{ by = 'area', values = [{north}, {south}] }}"
        table = f"[[tables]]\nattributes = ['area']\ncumulative = 'age'\nvariance = {variances}\n"
        return f"privacy = {{ composed_with = {list(composed)} }}\n" + SPEC.split("[[tables]]")[0] + table

    (here / "spec.toml").write_text(spec(9, 1), encoding="utf-8")
    run("plan", "spec.toml", "-o", "first.json")
    plan = fn.Plan.from_json((here / "first.json").read_text(encoding="utf-8"))
    (here / "spec.toml").write_text(spec(1, 9, [plan.hash]), encoding="utf-8")
    run("plan", "spec.toml", "-o", "second.json")
    second = fn.Plan.from_json((here / "second.json").read_text(encoding="utf-8"))

    release = ("people.csv", "--ledger", "budget.db", "-o")
    code, out, err = run("release", "second.json", *release, "early", "--json")  # its other plan has no charge
    assert (code, out, failure(err)["code"].partition(".")[0]) == (7, "", "ledger")
    assert failure(err)["code"] == "ledger.composed-plan-not-charged"
    assert charges(here / "budget.db") == 0

    separate = json.loads(run("release", "first.json", *release, "r1", "--json")[1])
    assert (separate["increase"], separate["composed_with"]) == (pytest.approx(plan.rho), [])
    _, out, _ = run("release", "second.json", *release, "r2")
    both = float((plan.table_part.profile + second.table_part.profile).max()) / 2
    rise = both - plan.rho
    assert 0 < rise < 0.9 * second.rho
    assert f"\ncharged    rho = {second.rho:.7f}\n" in out
    assert f"           composed with other plans: the spent rho rose by {rise:.7f}\n" in out
    third = json.loads(run("release", "second.json", *release, "r3", "--json", "--again")[1])
    assert third["composed_with"] == [plan.hash]
    assert third["increase"] == pytest.approx(
        float((plan.table_part.profile + 2 * second.table_part.profile).max()) / 2 - both
    )

    _, out, _ = run("ledger", "show", "budget.db")
    assert f"  {plan.hash[:12]}\n" in out
    assert out.count(f"  {second.hash[:12]} with {plan.hash[:12]}\n") == 2
    ledger = json.loads(run("ledger", "show", "budget.db", "--json")[1])
    assert [e["composed_with"] for e in ledger["entries"][::2]] == [[], [plan.hash], [plan.hash]]
    assert ledger["balances"] == [third["balance"]]


def test_a_balance_may_fall_when_charges_are_composed(run, here, monkeypatch):
    run("plan", "spec.toml", "-o", "plan.json")
    plan = fn.Plan.from_json((here / "plan.json").read_text(encoding="utf-8"))
    (here / "spec.toml").write_text(f'privacy = {{ composed_with = ["{plan.hash}"] }}' + SPEC, encoding="utf-8")
    run("plan", "spec.toml", "-o", "plan.json")
    monkeypatch.setattr(
        commands, "release", lambda *_, **__: SimpleNamespace(charge=True, finite={}, supersedes=(), entry=None)
    )  # charges nothing
    monkeypatch.setattr(commands, "_spent", lambda *_: Fraction(1, 4))
    assert "the spent rho fell by 0.2500000\n" in run(*RELEASE)[1]


def test_caps_are_set_and_enforced(run, here):
    run("plan", "spec.toml", "-o", "plan.json")
    rho = json.loads(run("plan", "spec.toml", "--json")[1])["rho"]
    cap = ("budget.db", "--plan", "plan.json", "--reason", "board of 1 May", "--json")
    code, out, _ = run("ledger", "open", *cap, "--rho", f"{1.5 * rho}", "--unit", UNIT)
    assert code == 0
    assert json.loads(out)["balances"][0]["remaining"] == pytest.approx(1.5 * rho)
    release = ("release", "plan.json", "people.csv", "--ledger", "budget.db", "--again", "--json", "-o")
    assert run(*release, "first")[0] == 0
    code, out, err = run(*release, "second")
    error = failure(err)
    assert (code, out, error["exit_code"], error["code"].partition(".")[0]) == (5, "", 5, "ledger")
    assert list(error) == ["code", "place", "message", "exit_code"]
    assert not (here / "second").exists()
    code, out, _ = run("ledger", "cap", *cap, "--rho", "1/3")  # the one unit of the source is meant
    assert [e["kind"] for e in json.loads(out)["entries"]] == ["cap", "charge", "answers", "refusal", "cap"]
    assert json.loads(out)["balances"][0]["cap"] == pytest.approx(1 / 3)
    assert run(*release, "second")[0] == 0
    with fn.Ledger("budget.db") as ledger:
        assert ledger.entries()[0].detail == {"reason": "board of 1 May"}


def test_the_charges_of_several_plans_are_added_up_before_any_is_spent(run, here, promised):
    for name, keys in (("plan", ""), ("pure", 'privacy = "pure"')):
        promised(keys)
        run("plan", "spec.toml", "-o", f"{name}.json")
    plan, pure = read_plan(here / "plan.json"), read_plan(here / "pure.json")
    cap = ceil_dyadic(plan.loss.rho) + 2 * ceil_dyadic(pure.loss.rho)
    run("ledger", "open", "budget.db", "--plan", "plan.json", "--rho", str(cap))
    before, show = (here / "budget.db").read_bytes(), ["ledger", "show", "budget.db"]
    show += ["--plan", "pure.json", "--plan", "plan.json", "--plan", "pure.json"]
    planned = json.loads(run(*show, "--json")[1])["planned"]
    charged = [(x["plan"], Fraction(x["rho_exact"]), x["epsilon"], x["fits"]) for x in planned["charges"]]
    pure_row = ("pure.json", ceil_dyadic(pure.loss.rho), str(pure.loss.epsilon), True)
    assert charged == [pure_row, ("plan.json", ceil_dyadic(plan.loss.rho), None, True), pure_row]
    code, out, _ = run(*show)
    assert (code, out.count("pure.json"), "does not fit" in out) == (0, 2, False)
    # a fourth does not fit
    code, out, _ = run(*show, "--plan", "plan.json")
    assert (code, "does not fit under the cap, and is not counted: plan.json\n" in out) == (0, True)
    assert (here / "budget.db").read_bytes() == before
    for i, name in enumerate(("pure", "plan", "pure")):
        assert run("release", f"{name}.json", "people.csv", "--ledger", "budget.db", "-o", f"r{i}", "--again")[0] == 0
    assert json.loads(run("ledger", "show", "budget.db", "--json")[1])["balances"] == planned["balances"]
    # a plan of an account that a capped source does not have is refused, as its release would be
    text = (here / "spec.toml").read_text(encoding="utf-8").replace('privacy = "pure"', "")
    text = text.replace("[domain.area]", '[privacy]\nunit = "person"\nmax_records = 3\n\n[domain.area]', 1)
    (here / "person.toml").write_text(text, encoding="utf-8")
    assert run("plan", "person.toml", "-o", "person.json")[0] == 0
    code, _, err = run(*show, "--plan", "person.json")
    assert (code, "nothing was changed. [ledger.account-beside-cap]" in err) == (7, True)


def test_a_plan_above_its_cap_is_refused(run, here):
    (here / "spec.toml").write_text(
        SPEC.replace("title", 'privacy = { cap = { rho = "1/1000" } }\ntitle'), encoding="utf-8"
    )
    code, out, err = run("plan", "spec.toml", "-o", "plan.json", "--json")
    assert (code, out, failure(err)["code"].partition(".")[0]) == (5, "", "plan")
    assert not (here / "plan.json").exists()


# --- help and usage -------------------------------------------------------------------------------------------


def all_commands(group=cli.cli, names=()):
    """Yield each command of the program with its names."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from all_commands(command, (*names, name))
        else:
            yield (*names, name), command


@pytest.mark.parametrize(
    ("names", "command"), [*all_commands()], ids=lambda x: " ".join(x) if isinstance(x, tuple) else ""
)
def test_an_option_with_one_value_is_refused_if_it_is_given_twice(names, command):
    parent = click.Context(cli.cli, **cli.cli.context_settings)
    for option in command.params:
        if not isinstance(option, click.Option) or option.is_flag:
            continue
        assert option.nargs == 1
        for name, other_name in itertools.product(option.opts, repeat=2):
            fault = ""
            try:
                command.make_context(names[-1], [name, "1", other_name, "1"], parent)
            except click.UsageError as error:
                fault = error.message
            expected = f"{option.opts[-1]} is given more than once. It takes one value. Give it once. Nothing was done."
            assert (fault == expected) == (not option.multiple)


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_every_command_has_help_with_an_example_and_json(run, command):
    for flag in ("--help", "-h"):
        code, out, err = run(*(command or "").split(), flag)
        assert (code, err) == (0, "")
        assert re.search(rf"\n  Example\n    fitnoise {command or 'plan'}", out)
        assert "\\b" not in out
        if command:
            assert "--json" in out
        else:
            assert all(f"\n  {c} " in out for c in COMMANDS)
            assert "Exit codes" in out
        out.encode("ascii")
    assert run("--version") == (0, f"fitnoise, version {fn.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["plan"], "Missing argument 'SPEC'"),
        (["plan", "spec.toml", "--bogus"], "No such option"),
        (["plan", "spec.toml", "--gap", "small"], "not a valid float"),
        (["plan", "spec.toml", "--gap", "0.1", "--gap=0.1"], "--gap is given more than once. It takes one value."),
        (["ask", "r", "-count()", "--other", "a", "--other", "b"], "--other is given more than once."),
        (["plan", "spec.toml", "--gap", "0.0_1"], "'0.0_1' is not a valid float"),
        (["plan", "spec.toml", "--gap", "inf"], "'inf' is not a valid float"),
        (["plan", "spec.toml", "--seconds", "nan"], "'nan' is not a valid float"),
        (["plan", "spec.toml", "--compare", "--epsilon", "\u0661"], "'\u0661' is not a valid float"),
        (["integers", "release", "-o", "whole", "--simulations", "1_0"], "'1_0' is not a valid integer"),
        (["integers", "release", "-o", "whole", "--simulations", "\u0661\u0662"], "is not a valid integer"),
        (["new", "spec.toml", "--example", "1_0"], "'1_0' is not a valid integer"),
        (["new", "spec.toml", "--example", "0"], "0 is not in the range x>=1"),
        (["release", "plan.json", "people.csv", "-o", "r"], "No ledger is given, and the environment names none."),
        (["release", "plan.json", "people.csv", "--ledger", "l"], "Missing option '-o'"),
        ([*RELEASE, "--tables", "area", "--no-tables"], "--tables and --no-tables are both given."),
        (["tables"], "Missing argument 'RELEASE'"),
        (["write", "tables", "release", "--table", "area"], "Missing option '-o'"),
        (["write", "tables"], "Missing argument 'RELEASE'"),
        (["tables", "release", "area", "--all"], "Remove --all or the names. Nothing was written."),
        (["ask", "release"], "Missing argument 'EXPRESSION'"),
        (["ledger", "cap", "l", "--rho", "x", "--account", "people"], "The text 'x' is not a number of at least 0"),
        (["ledger", "cap", "l", "--rho", "-1", "--account", "people"], "The text '-1' is not a number of at least 0"),
        (["ledger", "cap", "l", "--rho", "1"], "--account or --plan is needed, and only one of them."),
        (
            ["ledger", "cap", "l", "--rho", "1", "--account", "people", "--plan", "plan.json"],
            "--account or --plan is needed, and only one of them.",
        ),
        (["ledger", "cap", "l", "--epsilon", "x", "--account", "people"], "The text 'x' is not a number of at least 0"),
        (
            ["ledger", "cap", "l", "--epsilon", "-1", "--account", "people"],
            "The text '-1' is not a number of at least 0",
        ),
        (["ledger", "open", "l", "--epsilon", "1"], "Missing option '--plan'"),
        (
            ["ledger", "cap", "l", "--epsilon", "1", "--account", "people"],
            "There is no ledger 'l'. `fitnoise ledger open` makes one",
        ),
        (
            ["ledger", "cap", "l", "--epsilon", "1", "--rho", "1", "--account", "people", "--unit", "one record"],
            "A cap is on rho (--rho), pure epsilon (--epsilon) or mu (--mu). Give one of them. Nothing was",
        ),
        (["plan", "--compare"], "Missing argument 'SPEC'"),
        (["plan", "spec.toml", "--compare", "--epsilon", "small"], "'small' is not a valid float"),
        (["plan", "spec.toml", "--compare", "--delta", "1/2"], "'1/2' is not a valid float"),
        (["plan", "spec.toml", "--compare", "--refine"], "--refine is given with --compare."),
        (["plan", "spec.toml", "--compare", "--ledger", "l"], "--ledger is given without --free."),
        (["plan", "spec.toml", "--seconds", "0", "--free"], "--seconds is given with --free."),
        (["plan", "spec.toml", "--all"], "--all is given without --compare."),
        (["plan", "spec.toml", "--compare", "--free"], "--compare and --free are both given. Give one of them."),
        (["new"], "No attribute is named. Name one or more, such as age=ordered. Nothing was written."),
        (["new", "--schema", "--demo"], "--schema and --demo are both given. Give one of them. Nothing was written."),
        (["new", "--schema", "age"], "--schema is given with names. It needs none."),
        (["new", "--demo", "age"], "--demo is given with names. It needs none."),
        (
            ["ledger", "cap", "l", "--rho", "1", "--plan", "plan.json"],
            "There is no ledger 'l'. `fitnoise ledger open` makes one with the account of a plan. Nothing",
        ),
        (["ledger", "cap", "l", "--account", "people"], "No caps are given."),
        (["ledger", "verify", "l", "--head", "0" * 64], "It needs the number and the digest of an entry."),
        ([], "Missing command"),
    ],
)
def test_commands_written_wrongly_end_with_2_and_change_nothing(run, here, arguments, message):
    before = sorted(here.iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    if arguments:
        code, out, err = run(*arguments, "--json")
        error = failure(err)
        assert (code, out, error["code"], error["place"], error["exit_code"]) == (2, "", "usage", None, 2)
        assert message in error["message"]
    assert sorted(here.iterdir()) == before


def test_a_cap_for_one_of_several_units_needs_its_name(run):
    with fn.Ledger("l") as ledger:
        accounts = [fn.Account("people", fn.PrivacyUnit(unit)) for unit in ("person", "household")]
        for account in accounts:
            ledger.set_cap(account, Fraction(1))
    listed = ", ".join(f"people ({a.sentence})" for a in accounts)
    for source, count, there in (("people", 2, listed), ("others", 0, "none")):
        code, _, err = run("ledger", "cap", "l", "--rho", "2", "--account", source)
        reason = f"There are {count} privacy units for '{source}': {there}. Give --unit. Nothing was changed."
        assert (code, reason in err) == (2, True)
    assert run("ledger", "cap", "l", "--rho", "2", "--account", "people", "--unit", accounts[0].sentence)[0] == 0
    with fn.Ledger("l") as ledger:
        assert len(ledger.entries()) == 3
        assert ledger.entries()[-1].account == accounts[0]


ONCE = """data = { source = "visits" }
[privacy]
unit = "person"
max_records = 3
once_per = ["month"]
[domain.month]
type = "ordered"
low = 1
high = 12
[domain.ward]
type = "categorical"
codes = ["a", "b"]
[[tables]]
attributes = ["ward"]
margin = 20.0
"""


def test_accounts_of_one_sentence_are_distinguished_by_digits(run, here):
    """Two plans promise one record a month, of months declared otherwise: the ledger shows, and takes, which."""
    texts = {"months": ONCE, "quarters": ONCE.replace('"ordered"\nlow = 1\nhigh = 12', '"binned"\ncuts = [4, 7, 10]')}
    for name, text in texts.items():
        (here / f"{name}.toml").write_text(text, encoding="utf-8")
        assert run("plan", f"{name}.toml", "-o", f"{name}.json")[0] == 0
        assert run("ledger", "open", "l", "--rho", "9", "--plan", f"{name}.json")[0] == 0
    months, quarters = (read_plan(here / f"{name}.json").order.account for name in texts)
    assert months.unit == quarters.unit
    assert months.sentence == f"{quarters.unit.account} [{months.digits}]" != quarters.sentence
    ledger_json = json.loads(run("ledger", "show", "l", "--json")[1])
    assert [b["privacy_unit"] for b in ledger_json["balances"]] == [months.sentence, quarters.sentence]
    assert [e["privacy_unit"] for e in ledger_json["entries"]] == [months.sentence, quarters.sentence]
    command = ("ledger", "cap", "l", "--account", "visits", "--rho")
    code, _, err = run(*command, "1", "--unit", months.unit.account)
    reason = (
        f"2 accounts have the unit '{months.unit.account}', and their guarantees are about different cells: visits ("
    )
    assert (code, reason in err, "the digits in brackets. Nothing was changed." in err) == (2, True, True)
    for cap, unit_name in ((1, months.digits), (2, quarters.sentence)):
        assert run(*command, str(cap), "--unit", unit_name)[0] == 0
    assert run("ledger", "cap", "l", "--rho", "3", "--plan", "quarters.json", "--unit", quarters.unit.account)[0] == 0
    with fn.Ledger("l") as ledger:
        charges = [(e.account, e.rho) for e in ledger.entries()[2:]]
    assert charges == [(months, 1), (quarters, 2), (quarters, 3)]


def test_a_further_unit_of_a_plan_is_opened_by_its_sentence(run, here):
    also = '[[privacy.other_units]]\nunit = "household"\nmax_records = 9\n'
    (here / "spec.toml").write_text(ONCE.replace("[domain.month]", f"{also}[domain.month]"), encoding="utf-8")
    assert run("plan", "spec.toml", "-o", "plan.json")[0] == 0
    household = fn.Account("visits", fn.PrivacyUnit("household", 9))
    cap = ("ledger", "open", "l", "--rho", "1")
    code, _, err = run(*cap, "--plan", "plan.json", "--unit", "one household")
    assert (code, "There is no account 'visits' (one household). The accounts are: visits (one person" in err) == (
        2,
        True,
    )
    assert not (here / "l").exists()
    assert run(*cap, "--plan", "plan.json", "--unit", household.sentence)[0] == 0
    with fn.Ledger("l") as ledger:
        assert ledger.accounts() == [household]


def test_a_cap_opens_an_account_only_on_request(run, here):
    """Detects a cap without effect: for a source, or a unit, that no release is charged to."""
    run("plan", "spec.toml", "-o", "plan.json")
    run("release", "plan.json", "people.csv", "--ledger", "budget.db", "-o", "release")
    before = run("ledger", "show", "budget.db")
    command = ("ledger", "cap", "budget.db", "--rho", "9")
    opening = ("ledger", "open", "budget.db", "--rho", "9")
    for source, unit in (("People", UNIT), ("people", "one record, replace-one")):
        code, out, err = run(*command, "--account", source, "--unit", unit)
        assert (code, out) == (2, "")
        assert f"There is no account '{source}' ({unit}). The accounts are: people ({UNIT}). Name one" in err
    code, _, err = run(*opening, "--plan", "plan.json")
    assert (code, "Set its cap with `fitnoise ledger cap`. Nothing was changed." in err) == (2, True)
    others = (here / "spec.toml").read_text(encoding="utf-8").replace('source = "people" }', 'source = "others" }')
    (here / "others.toml").write_text(others, encoding="utf-8")
    run("plan", "others.toml", "-o", "others.json")
    code, _, err = run(*command, "--plan", "others.json")
    assert (
        code,
        f"Its accounts are: people ({UNIT}). Open the account with `fitnoise ledger open`. Nothing was changed." in err,
    ) == (
        2,
        True,
    )
    assert run("ledger", "show", "budget.db") == before
    assert run(*command, "--plan", "plan.json")[0] == 0
    assert run(*opening, "--plan", "others.json")[0] == 0
    with fn.Ledger("budget.db") as ledger:
        assert [e.kind for e in ledger.entries()] == ["charge", "answers", "cap", "cap"]
        assert ledger.entries()[2].account == ledger.entries()[0].account


def test_a_unit_of_a_capped_source_is_opened_by_a_command_that_prints_the_cost(run, here):
    """A second quarter, planned for persons, does not pass the cap for records by the name of either."""
    text = (here / "spec.toml").read_text(encoding="utf-8")
    person = text.replace('source = "people" }', 'source = "next quarter", account = "people" }')
    person = person.replace("[domain.area]", '[privacy]\nunit = "person"\nmax_records = 3\n\n[domain.area]', 1)
    (here / "person.toml").write_text(person, encoding="utf-8")
    for name in ("spec", "person"):
        assert run("plan", f"{name}.toml", "-o", f"{name}.json")[0] == 0
    plan, person_plan = (read_plan(here / f"{name}.json") for name in ("spec", "person"))
    assert person_plan.order.account.source == plan.order.account.source == "people"
    release = ("people.csv", "--ledger", "budget.db", "-o")
    assert run("release", "spec.json", *release, "first")[0] == 0
    assert run("ledger", "cap", "budget.db", "--rho", str(ceil_dyadic(plan.loss.rho)), "--account", "people")[0] == 0
    code, _, err = run("release", "person.json", *release, "second")
    assert (code, "nothing was charged. [ledger.account-beside-cap]" in err) == (7, True)
    open_it = ("ledger", "open", "budget.db", "--rho", "99", "--plan", "person.json")
    code, _, err = run(*open_it)
    assert code == 0
    spent = float(9 * ceil_dyadic(plan.loss.rho))
    assert f"the release of 'people' before cost '{person_plan.order.account.sentence}' at most rho {spent:.6g}" in err
    code, _, err = run("release", "person.json", *release, "second")
    assert (code, f"for 'people' ({UNIT})" in err) == (5, True)
    assert charges(here / "budget.db") == 1


# --- errors ---------------------------------------------------------------------------------------------------


def broken(here, name, content):
    (here / name).write_bytes(content)
    return name


ERRORS = {
    "no specification": (3, ["plan", "nowhere.toml"], "cannot be read: No such file"),
    "an invalid specification": (3, ["plan", "people.csv"], "not valid TOML"),
    "an invalid gap": (3, ["plan", "spec.toml", "--gap", "-1"], "[spec.gap-out-of-range]"),
    "an invalid goal": (
        3,
        ["plan", "goal.toml"],
        "[spec.wrong-type]",
    ),
    "an invalid promise": (3, ["plan", "promise.toml"], "[spec.wrong-type]"),
    "a comparison of nothing": (3, ["plan", "nowhere.toml", "--compare"], "cannot be read: No such file"),
    "an epsilon of nothing": (
        3,
        ["plan", "spec.toml", "--compare", "--epsilon", "0"],
        "[spec.cost-not-positive]",
    ),
    "an invalid epsilon": (3, ["plan", "spec.toml", "--compare", "--epsilon", "0"], "[spec.cost-not-positive]"),
    "an invalid delta": (3, ["plan", "spec.toml", "--compare", "--delta", "1"], "[spec.delta-out-of-range]"),
    "a comparison by rho": (
        3,
        ["plan", "rho.toml", "--compare"],
        "[spec.auto-needs-epsilon]",
    ),
    "a comparison of hybrids": (3, ["plan", "hybrid.toml", "--compare"], "[spec.zcdp-only]"),
    "a comparison onto something else": (
        8,
        ["plan", "spec.toml", "--compare", "-o", "people.csv"],
        "[release.file-is-no-plan]",
    ),
    "a comparison into nowhere": (
        8,
        ["plan", "spec.toml", "--compare", "-o", "nowhere/plan.json"],
        "[release.folder-not-writable]",
    ),
    "a pure gap": (3, ["plan", "pure.toml", "--gap", "1e-3"], "[spec.pure-without-gap]"),
    "a pure plan refined": (4, ["plan", "pure.toml", "--refine"], "[plan.refine-without-zcdp]"),
    "a choice refined": (4, ["plan", "auto.toml", "--refine"], "[plan.refine-without-zcdp]"),
    "a Gaussian plan in a hurry": (4, ["plan", "spec.toml", "--seconds", "1"], "[plan.seconds-with-gaussian-noise]"),
    "a device that is not there": (4, ["plan", "spec.toml", "--device", "nowhere"], "PyTorch"),
    "a gap out of reach": (4, ["plan", "spec.toml", "--gap", "1e-10"], "[plan.gap-not-reached]"),
    "a plan onto something else": (8, ["plan", "spec.toml", "-o", "people.csv"], "[release.file-is-no-plan]"),
    "a plan onto a folder": (8, ["plan", "spec.toml", "-o", "."], "[release.file-is-no-plan]"),
    "a plan into nowhere": (8, ["plan", "spec.toml", "-o", "nowhere/plan.json"], "[release.folder-not-writable]"),
    "a plan below a file": (8, ["plan", "spec.toml", "-o", "people.csv/plan.json"], "[release.folder-not-writable]"),
    "no plan": (8, ["release", "nowhere.json", *RELEASE[2:]], "[release.file-not-readable]"),
    "an invalid plan": (4, ["release", "people.csv", *RELEASE[2:]], "[plan.plan-not-json]"),
    "no data": (6, ["release", "plan.json", "nowhere.csv", *RELEASE[3:]], "[data.data-file-missing]"),
    "data of no known kind": (6, ["release", "plan.json", "spec.toml", *RELEASE[3:]], "Nothing was "),
    "an invalid ledger": (7, [*RELEASE[:4], "people.csv", *RELEASE[5:]], "[ledger.not-a-ledger]"),
    "a ledger in no folder": (7, [*RELEASE[:4], "nowhere/l.db", *RELEASE[5:]], "[ledger.folder-missing]"),
    "a release onto a file": (8, [*RELEASE[:6], "people.csv"], "[release.place-exists]"),
    "a release below a file": (8, [*RELEASE[:6], "people.csv/r"], "[release.place-not-writable]"),
    "no ledger": (7, ["ledger", "show", "nowhere.db"], "[ledger.file-missing]"),
    "a ledger that is something else": (7, ["ledger", "show", "people.csv"], "[ledger.not-a-ledger]"),
    "an invalid table to write": (
        8,
        [*RELEASE, "--tables", "area", "--tables", "age"],
        "Nothing was measured and nothing was charged. [release.unknown-table]",
    ),
    "a table to write twice": (
        8,
        [*RELEASE, "--tables", "area", "--tables", "area"],
        "Nothing was measured and nothing was charged. [release.repeated-table]",
    ),
    "no release": (8, ["tables", "nowhere"], "[release.file-not-readable]"),
    "an invalid release": (8, ["tables", "."], "[release.file-not-readable]"),
    "nothing to verify": (8, ["verify", "nowhere"], "[release.nothing-to-verify]"),
    "no ledger to verify with": (
        7,
        ["verify", ".", "--ledger", "nowhere.db"],
        "Nothing was verified. [ledger.file-missing]",
    ),
    "a plan to verify with a ledger": (
        7,
        ["verify", "plan.json", "--ledger", "people.csv"],
        "[ledger.not-a-ledger]",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_every_error_is_a_sentence_and_a_code(run, here, case):
    code, arguments, message = ERRORS[case]
    (here / "plan.json").write_text(fn.plan(fn.load_spec("spec.toml")).to_json(), encoding="utf-8")
    heads = {
        "goal": 'objective = { goal = "least" }',
        "promise": 'privacy = "laplace"',
        "rho": "budget = { rho = 1 }",
        "hybrid": 'objective = { goal = "hybrid", total_error_weight = 1 }',
        "pure": 'privacy = "pure"',
        "auto": 'privacy = "auto"',
    }
    for name, head in heads.items():
        (here / f"{name}.toml").write_text(head + SPEC, encoding="utf-8")
    before = {p: p.read_bytes() for p in here.iterdir()}
    status, out, err = run(*arguments)
    assert (status, out) == (code, "")
    assert message in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("error: ")
    line = err.splitlines()[-1]
    status, out, err = run(*arguments, "--json")
    error = failure(err)
    prefix = "" if error["place"] is None or error["place"] in error["message"] else f"{error['place']}: "
    assert (status, out, error["exit_code"]) == (code, "", code)
    assert line == f"error: {prefix}{error['message']} [{error['code']}]"
    assert {p: p.read_bytes() for p in here.iterdir()} == before


def test_data_outside_the_domain_are_refused(run, here):
    run("plan", "spec.toml", "-o", "plan.json")
    (here / "people.csv").write_text(DATA + "w,2\n", encoding="utf-8")
    code, out, err = run(*RELEASE)
    assert (code, out) == (6, "")
    assert "Nothing was measured" in err
    assert "w" not in re.findall(r"\b\w\b", err)  # the value stays where it is
    assert charges(here / "budget.db") == 0
    assert not (here / "release").exists()


def test_what_does_not_verify_ends_with_8(run, here):
    run("plan", "spec.toml", "-o", "plan.json")
    run(*RELEASE)
    (here / "release" / "tables" / "area.csv").write_text("area,value\n", encoding="utf-8")
    code, out, err = run("verify", "release")
    assert code == 8
    assert out.count("\nFAILS  ") == 1
    assert err.endswith("at least one claim does not hold\n")
    code, out, _ = run("verify", "release", "--json")
    assert (code, json.loads(out)["ok"]) == (8, False)
    code, out, _ = run("verify", "people.csv", "--json")
    assert (code, [c["holds"] for c in json.loads(out)["checks"]]) == (8, [False])


def test_a_release_that_the_ledger_does_not_know_ends_with_8(run, here):
    run("plan", "spec.toml", "-o", "plan.json")
    run(*RELEASE)
    run("release", "plan.json", "people.csv", "--ledger", "other.db", "-o", "other")
    run("release", "plan.json", "people.csv", "--ledger", "other.db", "-o", "another", "--again")
    assert run("verify", "another", "--ledger", "other.db")[0] == 0
    code, out, _ = run("verify", "another", "--ledger", "budget.db")
    assert code == 8
    assert "FAILS" in out
    assert "release.json names entry 3; the ledger has 2" in out


def test_what_a_killed_release_left_is_named_and_removed_by_the_next(run, here):
    run("plan", "spec.toml", "-o", "plan.json")
    stage = here / ".release.unfinished-0123abcd"
    stage.mkdir()
    (stage / "plan.json").write_bytes((here / "plan.json").read_bytes())
    code, out, _ = run("verify", stage.name)
    assert code == 8
    assert "is an unfinished release" in out
    code, _, err = run(*RELEASE)
    assert (code, stage.exists()) == (0, False)
    began, removed, wrote = err.splitlines()
    assert (began, wrote) == ("releasing …", "wrote release")
    assert removed == (
        f"removed {stage.name!r}, which a killed process left of a release to 'release'; whether that one was charged, "
        "its ledger says."
    )


def test_a_plan_file_is_replaced_completely_or_not_at_all(run, here, monkeypatch):
    run("plan", "spec.toml", "-o", "plan.json")
    before = (here / "plan.json").read_text(encoding="utf-8")
    (here / "spec.toml").write_text(SPEC.replace("margin = 4", "margin = 5"), encoding="utf-8")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    advice = "Remove this cause, or choose another place. The place stays as it was."
    with monkeypatch.context() as patch:
        patch.setattr(cli.Path, "replace", full)
        code, _, err = run("plan", "spec.toml", "-o", "plan.json")
        assert (code, err.splitlines()[-1]) == (
            8,
            f"error: 'plan.json' cannot be written (No space left on device). {advice} [release.place-not-writable]",
        )
        patch.setattr(cli.Path, "write_text", full)
        assert run("plan", "spec.toml", "-o", "plan.json")[0] == 8
    assert (here / "plan.json").read_text(encoding="utf-8") == before
    assert run("plan", "spec.toml", "-o", "plan.json")[0] == 0
    assert (here / "plan.json").read_text(encoding="utf-8") != before
    assert sorted(p.name for p in here.iterdir()) == ["people.csv", "plan.json", "spec.toml"]


def test_an_interruption_ends_with_130_and_leaves_nothing_behind(run, here, monkeypatch):
    run("plan", "spec.toml", "-o", "plan.json")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commands, "make_plan", interrupted)
        code, out, err = run("plan", "spec.toml", "-o", "other.json", "--json")
    assert (code, out, failure(err)["code"], failure(err)["message"]) == (130, "", "interrupted", "interrupted")
    with monkeypatch.context() as patched:
        patched.setattr(noise, "discrete_gaussians", interrupted)
        code, out, err = run(*RELEASE)
    stays = (
        "The charge of entry 1 stays in the ledger. Repeat the command or call: it finishes the release, at no further"
    )
    assert (code, out, err.splitlines()[-1]) == (130, "", f"interrupted. {stays} charge.")
    assert sorted(p.name for p in here.iterdir()) == ["budget.db", "people.csv", "plan.json", "spec.toml"]
    with fn.Ledger("budget.db") as ledger:
        assert [e.kind for e in ledger.entries()] == ["charge"]
    code, _, err = run(*RELEASE)
    assert code == 0
    assert "entry 1 charged this before: it is finished, at no further charge." in err
    assert charges(here / "budget.db") == 1
    before = {p: p.stat().st_mtime_ns for p in here.rglob("*")}
    code, out, err = run(*RELEASE)
    assert (code, err.splitlines()[-1]) == (0, "already released: release")
    assert "directory  release" in out
    assert {p: p.stat().st_mtime_ns for p in here.rglob("*")} == before
    code, out, err = run(*RELEASE[:-1], "second")
    assert (code, *(x in err for x in ("[ledger.released-before]", "--again", "--supersedes"))) == (7, True, True, True)
    assert "Nothing was measured and nothing was charged. [" in err.splitlines()[-1]
    assert run(*RELEASE[:-1], "second", "--again")[0] == 0
    assert charges(here / "budget.db") == 2


@pytest.mark.slow
def test_a_release_killed_at_any_time_is_complete_or_absent(run, here):
    run("plan", "spec.toml", "-o", "plan.json")
    start = time.monotonic()
    process(*RELEASE[:6], "whole", check=0)
    usual = time.monotonic() - start
    for i in range(6):
        release = subprocess.Popen(
            [sys.executable, "-m", "fitnoise", *RELEASE[:4], f"{i}.db", "-o", f"r{i}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):  # or it was quicker than the first
            release.wait(usual * (0.6 + i / 10))
        release.send_signal(signal.SIGKILL)
        release.wait()
        charged = charges(here / f"{i}.db")
        if (here / f"r{i}").exists():
            assert charged == 1
            assert fn.verify(f"r{i}").ok


# --- streams and terminals ------------------------------------------------------------------------------------


def test_the_schema_is_printed(run):
    code, out, err = run("new", "--schema", "--json")
    assert (code, json.loads(out), err) == (0, json_schema(), "")


@pytest.mark.slow
def test_it_runs_as_a_module_and_as_a_program(here):
    assert json.loads(process("new", "--schema", check=0).stdout)["type"] == "object"
    program = os.path.join(os.path.dirname(sys.executable), "fitnoise")  # noqa: PTH118, PTH120 - of this environment
    if os.path.exists(program):  # noqa: PTH110
        assert subprocess.run([program, "--version"], capture_output=True, check=True).stdout.startswith(b"fitnoise, ")
    assert process("plan", "nowhere.toml", "--json").returncode == 3


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(here):
    script = f"set -o pipefail; '{sys.executable}' -m fitnoise new --schema 2>err | {{}}"
    for reader, code in (("head -n 1", 0), ("true", 1)):  # all is read and dropped; no one reads
        done = subprocess.run(["bash", "-c", script.format(reader)], capture_output=True, timeout=60, check=False)
        assert done.returncode in (code, 1)
        assert (here / "err").read_text(encoding="utf-8") == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_under_stdout_is_one_sentence(here):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "fitnoise", "new", "--schema"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "error: The output cannot be written (No space left on device).\n")


@pytest.mark.parametrize(
    ("accident", "message"),
    [(BrokenPipeError(32, "no pipe"), ""), (OSError(5, "ill"), "error: The output cannot be written (ill).\n")],
)
def test_an_output_that_fails_at_the_end_is_not_tried_again(monkeypatch, capsys, accident, message):
    class Closed(io.StringIO):
        def flush(self):
            raise accident

        def fileno(self):
            return 99

    given_up = []
    monkeypatch.setattr(os, "dup2", lambda _, end: given_up.append(end))
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(SystemExit) as end:
        main(["new", "--schema"])
    assert (end.value.code, given_up) == (1, [99])
    assert capsys.readouterr().err == message


def test_what_a_stream_lacks_is_spelled_out(monkeypatch):
    for encoding, expected in (
        ("ascii", b"rho >= 1 +/- 2 \\u6771\n"),
        ("latin-1", b"rho >= 1 +/- 2 \\u6771\n"),
        ("utf-8", "ρ ≥ 1 ± 2 東\n".encode()),
    ):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
        monkeypatch.setattr(sys, "stdout", stream)
        console.emit("ρ ≥ 1 ± 2 東")
        stream.flush()
        assert stream.buffer.getvalue() == expected


def test_progress_on_a_terminal_shows_the_stage_as_it_is(monkeypatch):
    stream = io.StringIO()
    screen = console.Console(file=stream, force_terminal=True, width=80)
    monkeypatch.setattr(console, "Console", lambda **_: screen)
    with console.progress(Message("terminal.progress.planning")) as show_stage:
        show_stage("[red]step 1[/red]")
        wait_until(lambda: "planning: [red]step 1[/red]" in stream.getvalue())
    assert "planning: [red]step 1[/red]" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")  # the line is cleared at the end


@pytest.mark.parametrize(
    ("environment", "sign"),
    [
        ({"LC_ALL": "C"}, "±4"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "+/-4"),
        ({"PYTHONIOENCODING": "ascii"}, "+/-4"),
        ({"PYTHONIOENCODING": "latin-1"}, "±4"),
    ],
)
def test_every_locale_is_served(here, environment, sign):
    """Signs that a stream cannot show are spelled out; JSON is ASCII everywhere."""
    spec = SPEC.replace("domain.area", 'domain."area"').replace('"area"', '"Région 東"')
    (here / "spec.toml").write_text(spec, encoding="utf-8")
    done = process("plan", "spec.toml", check=0, **environment)
    text = done.stdout.decode("latin-1" if "latin-1" in environment.values() else "utf-8")
    assert sign in text
    assert (">= bound" in text) == (sign != "±4" or "latin-1" in environment.values())
    assert ("東" in text) == (environment == {"LC_ALL": "C"})
    if environment.get("PYTHONIOENCODING") == "ascii":
        document = json.loads(process("plan", "spec.toml", "--json", check=0, **environment).stdout.decode("ascii"))
        assert document["tables"][0]["name"] == "Région 東"
        assert b"nowhere rho.toml" in process("plan", "nowhere ρ.toml", check=3, **environment).stderr


def test_labels_cannot_command_the_terminal(run, here):
    (here / "spec.toml").write_text(
        SPEC.replace('["area"]\nmargin', '["area"]\nname = "x\\u001b[31m\\ny"\nmargin'), encoding="utf-8"
    )
    _, out, _ = run("plan", "spec.toml", "-o", "plan.json")
    assert r"x\x1b[31m\ny " in out
    _, out2, err = run(*RELEASE)
    assert ESCAPE not in out + out2 + err


def test_columns_line_up_for_wide_letters_and_are_never_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")

    def rendered(*rows, name=ValueKind.TEXT, n=ValueKind.COUNT):
        columns = (ReportColumn("name", "name", name), ReportColumn("n", "n", n))
        console.show(Report("", (Section(tables=(ReportTable("rows", columns, rows),)),)))
        return capsys.readouterr().out.splitlines()

    width = len("a long name " * 5)
    assert rendered(("東京", 1), ("a long name " * 5, 1000)) == [
        "name" + " " * (width - 4) + "      n",
        "東京" + " " * (width - 4) + "      1",
        "a long name " * 5 + "  1,000",
    ]
    assert rendered(("東京", "1"), n=ValueKind.TEXT) == ["name  n", "東京  1"]
    assert rendered(("東京都", "1"), name=ValueKind.COUNT, n=ValueKind.TEXT) == ["  name  n", "東京都  1"]


def test_progress_is_plain_and_rare_away_from_a_terminal(capsys, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock) / 2)
    with console.progress(Message("terminal.progress.planning")) as show_stage:
        for i in range(30):
            show_stage(f"step {i}")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "planning …"
    assert 2 <= len(lines) <= 4
    assert all(re.fullmatch(r"planning: step \d+", line) for line in lines[1:])


def terminal(arguments, *, both, columns=40, **environment):
    """Run with a pseudo-terminal on stderr, and on stdout too when `both`; what was written to each."""
    ours, theirs = pty.openpty()
    out_read, out_write = (None, theirs) if both else os.pipe()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    child = subprocess.Popen(
        [sys.executable, "-m", "fitnoise", *arguments], stdout=out_write, stderr=theirs, env=environment, stdin=theirs
    )
    os.close(theirs)
    if not both:
        os.close(out_write)
    got = {ours: b"", **({} if both else {out_read: b""})}
    open_ends = set(got)
    while open_ends:
        for end in select.select(list(open_ends), [], [], 60)[0]:
            try:
                chunk = os.read(end, 65536)
            except OSError:  # what a terminal says when its last user left
                chunk = b""
            got[end] += chunk
            if not chunk:
                open_ends.discard(end)
    for end in got:
        os.close(end)
    return child.wait(), got[ours].decode(), "" if both else got[out_read].decode()


@pytest.mark.slow
def test_a_terminal_shows_progress_and_a_pipe_gets_no_escape_codes(here):
    code, err, out = terminal(["plan", "spec.toml"], both=False)
    assert code == 0
    assert ESCAPE in err
    assert "planning" in err
    assert ESCAPE not in out
    assert "proof      cost " in out
    code, err, out = terminal(["plan", "spec.toml"], both=False, NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", err)  # no colour
    assert "proof      cost " in out
    code, err, _ = terminal(["plan", "spec.toml"], both=False, TERM="dumb")
    assert (code, ESCAPE in err) == (0, False)


def test_a_terminal_gets_events_with_json(here):
    code, err, out = terminal(["plan", "spec.toml", "--json"], both=False)
    assert (code, ESCAPE in err, ESCAPE in out) == (0, False, False)
    assert json.loads(out)["rho"] > 0
    assert [json.loads(x)["event"] for x in err.splitlines()][:1] == ["started"]


def test_a_narrow_terminal_shows_everything(here):
    code, text, _ = terminal(["plan", "spec.toml"], both=True, columns=20)
    assert code == 0
    screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")
    assert re.search(r"^table +numbers +target .*share of price$", screen, re.MULTILINE)
    assert re.search(r"^area by age cumulative +8 +±8 to 9 .*%$", screen, re.MULTILINE)
    assert re.search(r"^proof      cost .* costs less by more than \S+$", screen, re.MULTILINE)


def test_colour_forced_on_never_reaches_stdout(here):
    done = process("plan", "spec.toml", "--json", check=0, FORCE_COLOR="1", TTY_COMPATIBLE="1")
    assert ESCAPE.encode() not in done.stdout
    json.loads(done.stdout)


# --- queries for free, and pictures ---------------------------------------------------------------------------

DOMAIN = SPEC.split("[[tables]]")[0]


def area_spec(area, margin):
    recode = f'groups = {{ area = {{ one = ["{area}"] }} }}'
    return f'{DOMAIN}[[tables]]\nattributes = ["age"]\n{recode}\nmargin = {margin}\n'


@pytest.fixture
def south(run, here):
    """Write a plan with the cost in the south, as first.json, and a specification about the north, as more.toml."""
    variances = "{ by = 'area', values = [9, 1] }"
    table = f"[[tables]]\nattributes = ['area']\ncumulative = 'age'\nvariance = {variances}\n"
    (here / "spec.toml").write_text(DOMAIN + table, encoding="utf-8")
    (here / "more.toml").write_text(area_spec("North", 2), encoding="utf-8")
    assert run("plan", "spec.toml", "-o", "first.json")[0] == 0
    return read_plan("first.json")


def read_plan(name):
    with open(name, encoding="utf-8") as file:  # noqa: PTH123
        return fn.Plan.from_json(file.read())


def test_free_queries_from_plans_and_from_the_ledger_are_the_same(run, here, south):
    code, out, err = run("plan", "more.toml", "--free", "--composed-with", "first.json", "-o", "free.json")
    assert (code, err.splitlines()[0], err.splitlines()[-1]) == (0, "planning …", "wrote free.json")
    assert f"composed   this plan uses the same records as {south.hash[:12]}\n" in out
    plan = read_plan("free.json")
    assert plan.publication.composed_with == (south.hash,)
    assert fn.verify("free.json").ok

    release = ("people.csv", "--ledger", "budget.db", "-o")
    separate = json.loads(run("release", "first.json", *release, "r1", "--json")[1])
    code, out, _ = run("plan", "more.toml", "--free", "--ledger", "budget.db", "--json")
    document = json.loads(out)
    assert (code, document["hash"], document["plan"], document["composed_with"]) == (0, plan.hash, None, [south.hash])
    with fn.Ledger("budget.db") as ledger:
        (account,) = ledger.accounts()
        spent = ledger.balance(account).spent
    assert float(spent) == separate["balance"]["spent"]
    assert run("ledger", "cap", "budget.db", "--account", "people", "--rho", spent)[0] == 0
    code, out, _ = run("release", "free.json", *release, "r2")
    assert code == 0
    assert f"\ncharged    rho = {plan.rho:.7f}\n" in out
    assert "composed with other plans: the spent rho did not rise\n" in out
    assert run("verify", "r2")[0] == 0
    with fn.Ledger("budget.db") as ledger:
        assert ledger.balance(account).spent == spent
    code, _, err = run("release", "free.json", *release, "r3", "--again")  # once is free, twice is not
    assert (code, "[ledger.free-plan-costs]" in err) == (7, True)
    code, _, err = run("plan", "more.toml", "--free", "--ledger", "budget.db")
    assert (code, "[plan.cells-without-free-budget]" in err) == (4, True)


def test_several_plans_may_be_on_the_same_records(run, here, south):
    (here / "second.toml").write_text(area_spec("South", 40), encoding="utf-8")
    run("plan", "second.toml", "-o", "second.json")
    code, out, _ = run(
        "plan", "more.toml", "--free", "--composed-with", "first.json", "--composed-with", "second.json", "--json"
    )
    assert (code, json.loads(out)["composed_with"]) == (0, [south.hash, read_plan("second.json").hash])
    assert (
        json.loads(out)["rho"]
        > json.loads(run("plan", "more.toml", "--free", "--composed-with", "first.json", "--json")[1])["rho"]
    )


FREE_ERRORS = {
    "neither": (2, [], "Give the plans (--composed-with), or the ledger"),
    "both": (2, ["--composed-with", "first.json", "--ledger", "budget.db"], "only one of them"),
    "no ledger": (7, ["--ledger", "nowhere.db"], "[ledger.file-missing]"),
    "no charge": (7, ["--ledger", "empty.db"], "[ledger.releases-not-on-same-records]"),
    "no plan": (8, ["--composed-with", "nowhere.json"], "[release.file-not-readable]"),
    "no JSON": (4, ["--composed-with", "people.csv"], "[plan.plan-not-json]"),
    "a plan twice": (4, ["--composed-with", "first.json", "--composed-with", "first.json"], "[plan.plan-given-twice]"),
    "onto something else": (8, ["--composed-with", "first.json", "-o", "people.csv"], "[release.file-is-no-plan]"),
    "into nowhere": (8, ["--composed-with", "first.json", "-o", "nowhere/free.json"], "[release.folder-not-writable]"),
}


@pytest.mark.parametrize("case", FREE_ERRORS)
def test_what_is_no_free_plan_is_one_sentence_and_a_code(run, here, south, case):
    code, arguments, message = FREE_ERRORS[case]
    with fn.Ledger("empty.db"):
        pass
    before = {p: p.read_bytes() for p in here.iterdir()}
    status, out, err = run("plan", "more.toml", "--free", *arguments)
    assert (status, out) == (code, "")
    assert message in " ".join(err.split())
    status, out, err = run("plan", "more.toml", "--free", *arguments, "--json")
    assert (status, out, failure(err)["exit_code"]) == (code, "", code)
    assert message in failure(err)["message"] or message == f"[{failure(err)['code']}]"
    assert {p: p.read_bytes() for p in here.iterdir()} == before


def test_queries_of_those_who_pay_the_price_are_refused(run, here, south):
    (here / "more.toml").write_text(DOMAIN + '[[tables]]\nattributes = ["age"]\nmargin = 2\n', encoding="utf-8")
    code, _, err = run("plan", "more.toml", "--free", "--composed-with", "first.json", "-o", "free.json")
    assert code == 4
    assert "(area = South, age = " in err
    assert not (here / "free.json").exists()


def test_free_queries_have_help_with_an_example(run):
    code, out, err = run("plan", "--help")
    assert (code, err) == (0, "")
    assert re.search(r"\n    fitnoise plan more\.toml --free --composed-with plan\.json -o free\.json\n", out)
    assert "--json" in out
    out.encode("ascii")


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_a_plan_is_drawn(run, here, ending):
    code, out, err = run("plan", "spec.toml", "-o", "plan.json", "--plot", f"price.{ending}", "--json")
    assert code == 0
    assert [x["text"] for x in map(json.loads, err.splitlines()) if x["event"] == "message"] == [
        f"wrote price.{ending}",
        "wrote plan.json",
    ]
    assert json.loads(out)["plan"] == "plan.json"
    assert read_plan("plan.json").hash == json.loads(run("plan", "spec.toml", "--json")[1])["hash"]
    plot = (here / f"price.{ending}").read_bytes()
    if ending == "svg":
        root = ET.fromstring(plot)  # noqa: S314 - our own
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        text = " ".join(root.itertext())
        for label in ("area by age cumulative", "present target", "guaranteed", "People"):
            assert label in text
    else:
        assert plot.startswith({"pdf": b"%PDF-", "png": b"\x89PNG\r\n"}[ending])
    assert sorted(p.name for p in here.iterdir()) == ["people.csv", "plan.json", f"price.{ending}", "spec.toml"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.txt", "[release.unknown-figure-format]"),
        ("x", "[release.unknown-figure-format]"),
        ("old.svg", "[release.place-exists]"),
        ("nowhere/x.svg", "[release.folder-not-writable]"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused_before_planning(run, here, monkeypatch, name, message):
    (here / "old.svg").write_text("mine", encoding="utf-8")
    monkeypatch.setattr(commands, "make_plan", lambda *_, **__: pytest.fail("planned"))
    code, out, err = run("plan", "spec.toml", "-o", "plan.json", "--plot", name)
    assert (code, out) == (8, "")
    assert message in err.splitlines()[-1]
    assert sorted(p.name for p in here.iterdir()) == ["old.svg", "people.csv", "spec.toml"]
    assert (here / "old.svg").read_text(encoding="utf-8") == "mine"


# --- tables ---------------------------------------------------------------------------------------------------

PATTERN = """
title = "People"
data = { source = "people" }

[domain.area]
type = "categorical"
codes = ["n", "s"]
labels = ["Nörth", "South, \\"old\\""]

[domain.age]
type = "ordered"
low = 0
high = 3

[domain.sex]
type = "categorical"
codes = [true, false]

[[tables]]
pattern = "pairs"
margin = { coefficient = 8, power = -0.5, least = 2 }

[[tables]]
name = "T1"
pattern = "singles"
pattern_attributes = ["sex", "age"]
attributes = ["area"]
margin = [3, 4]
confidence = 0.9

[[tables]]
relative_std_error = 0.1
reference = { total = 100 }
"""
PEOPLE = "area,age,sex\n" + "n,1,true\n" * 40 + "s,3,false\n" * 20
PARTS = ["all pairs of 3 attributes", "T1: each of 2 attributes by area", "total"]
NAMES = ["area by age", "area by sex", "age by sex", "T1: sex by area", "T1: age by area", "total"]
PATTERN_LINE = "all pairs of 3 attributes (3 tables), T1: each of 2 attributes by area (2 tables), total"


@pytest.fixture
def pattern(run, here):
    """A release of patterns, with a file for every table."""
    (here / "spec.toml").write_text(PATTERN, encoding="utf-8")
    (here / "people.csv").write_text(PEOPLE, encoding="utf-8")
    assert run("plan", "spec.toml", "-o", "plan.json")[0] == 0
    assert run(*RELEASE)[0] == 0
    return fn.Release.read("release")


def test_patterns_are_planned_and_released_in_a_line_each(run, here, pattern):
    _, out, _ = run("plan", "spec.toml")
    lines = [re.sub(r" {2,}", "  ", line) for line in out.splitlines()]
    assert lines[1].startswith("all pairs of 3 attributes (3 tables)  20  ±2.82843 to 4  ")
    assert lines[2].startswith("T1: each of 2 attributes by area (2 tables)  12  ±3 to 4  3  3  ")
    assert lines[3].startswith("total  1  relative standard error 0.1  ")
    document = json.loads(run("plan", "spec.toml", "--json")[1])
    assert [(t["name"], t["tables"], t["numbers"]) for t in document["tables"]] == [
        (PARTS[0], 3, 20),
        (PARTS[1], 2, 12),
        (PARTS[2], 1, 1),
    ]
    assert sum(t["price"] for t in document["tables"]) == pytest.approx(1)
    code, out, _ = run(*RELEASE[:6], "again", "--again")
    assert code == 0
    assert out.startswith(
        f"directory  again\ntables     {PATTERN_LINE}\ncounted    all records of people\ncharged    rho = "
    )
    released = json.loads(run(*RELEASE[:6], "more", "--json", "--again")[1])
    assert (released["tables"], released["written"]) == (PARTS, "all")
    assert len(list((here / "release" / "tables").iterdir())) == 2 * len(NAMES)


def test_files_are_written_for_the_tables_named_or_for_none(run, here, pattern):
    two_tables = ("--tables", "total", "--tables", "area by age")
    for name, options, names in (("some", two_tables, ["area by age", "total"]), ("none", ("--no-tables",), [])):
        code, out, _ = run(*RELEASE[:6], name, *options, "--again")
        assert code == 0
        files = f"files      files of {len(names)} of 6 tables"
        assert out.splitlines()[1:3] == [f"tables     {PATTERN_LINE}", files]
        slugs = {f"{slug(n)}.{end}" for n in names for end in ("csv", "parquet")}
        assert {p.name for p in (here / name / "tables").iterdir()} == slugs
        assert run("verify", name)[0] == 0
        document = json.loads(run(*RELEASE[:6], f"{name} again", *options, "--json", "--again")[1])
        assert (document["tables"], document["written"]) == (PARTS, names)
    all_options = [x for n in NAMES for x in ("--tables", n)]
    code, out, _ = run(*RELEASE[:6], "every", *all_options, "--again")
    assert (code, "\nfiles " in out) == (0, False)
    assert len(list((here / "every" / "tables").iterdir())) == 12


def test_more_tables_than_make_sense_as_files_are_refused_in_time(run, here, pattern, monkeypatch):
    monkeypatch.setattr(releases, "MAX_FILES", 5)
    before = charges(here / "budget.db")
    code, out, err = run(*RELEASE[:6], "more", "--json", "--again")
    assert (code, out, failure(err)["code"]) == (8, "", "release.too-many-table-files")
    assert failure(err)["message"].endswith("Nothing was measured and nothing was charged.")
    assert charges(here / "budget.db") == before
    assert run(*RELEASE[:6], "more", "--no-tables", "--again")[0] == 0


def test_tables_of_a_release_are_listed(run, pattern):
    code, out, err = run("tables", "release")
    assert (code, err) == (0, "rebuilding …\n")
    lines = [re.split(r" {2,}", line.strip()) for line in out.splitlines()]
    assert lines[0] == ["table", "numbers", "target", "margin ± nearest to the target", "widest ±", "confidence"]
    widest = [f"{max(pattern[name]['moe'].max() for name in names):.4g}" for names in (NAMES[:3], NAMES[3:5])]
    assert lines[1] == ["all pairs of 3 attributes (3 tables)", "20", "±2.82843 to 4", "2.828", widest[0], "95 %"]
    assert lines[2] == ["T1: each of 2 attributes by area (2 tables)", "12", "±3 to 4", "3", widest[1], "90 %"]
    assert [line[0] for line in lines[3:]] == ["total", "", "counted"]
    assert out.splitlines()[0].index("numbers") + len("numbers") == out.splitlines()[1].index(" 20 ") + 3  # flush right
    code, out, _ = run("tables", "release", "--all")
    *rows, _, counted = [re.split(r" {2,}", line.strip()) for line in out.splitlines()[1:]]
    assert counted == ["counted", "all records of people"]
    assert [line[0] for line in rows] == NAMES
    assert [line[1] for line in rows] == ["8", "4", "8", "4", "8", "1"]
    for line in rows:
        frame = pattern[line[0]]
        assert line[2] == f"{frame['moe'].max():.4g}"
    document = json.loads(run("tables", "release", "--json")[1])
    assert document["plan"] == pattern.plan.hash
    assert [(t["name"], t["tables"], t["numbers"], t["confidence"]) for t in document["tables"]] == [
        (PARTS[0], 3, 20, 0.95),
        (PARTS[1], 2, 12, 0.9),
        (PARTS[2], 1, 1, 0.95),
    ]
    document = json.loads(run("tables", "release", "--all", "--json")[1])
    assert [(t["name"], t["tables"]) for t in document["tables"]] == [(n, 1) for n in NAMES]
    for t in document["tables"]:
        assert t["achieved_moe"] == pytest.approx(pattern[t["name"]]["moe"].max(), rel=1e-12)


@pytest.mark.slow
def test_a_table_is_printed_as_its_file_says(run, here, pattern):
    """This also holds if the release has no file for it, and for any encoding of the stream."""
    pattern.write("bare", tables=[])
    for name in NAMES:
        file = (here / "release" / "tables" / f"{slug(name)}.csv").read_bytes()
        for folder in ("release", "bare"):
            code, out, err = run("tables", folder, name)
            footer = "counted: all records of people\nmargins or intervals are for: number of records\n"
            assert (code, out.encode(), err) == (0, file, f"rebuilding …\n{footer}")
    file = (here / "release" / "tables" / "area_by_sex.csv").read_bytes()
    assert "Nörth,n,True,".encode() in file
    for environment in ({}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        assert process("tables", "bare", "area by sex", check=0, **environment).stdout == file


def test_a_table_is_a_document_too(run, pattern):
    document = json.loads(run("tables", "release", "T1: sex by area", "total", "--json")[1])
    assert document["plan"] == pattern.plan.hash
    assert [(t["name"], t["confidence"]) for t in document["tables"]] == [("T1: sex by area", 0.9), ("total", 0.95)]
    for t in document["tables"]:
        frame = pattern[t["name"]]
        assert [list(row) for row in t["rows"]] == [list(frame.columns)] * len(frame)
        for column in frame:
            assert [row[column] for row in t["rows"]] == frame[column].tolist()
    assert document["tables"][0]["rows"][0]["sex"] is True
    code, out, _ = run("tables", "release", "total", "area by age", "--json")
    assert (code, [t["name"] for t in json.loads(out)["tables"]]) == (0, ["total", "area by age"])
    assert len(json.loads(run("tables", "release", "total", "--json")[1])["tables"]) == 1


def test_tables_are_written_into_a_folder(run, here, pattern):
    code, out, err = run("write", "tables", "release", "--table", "total", "--table", "T1: age by area", "-o", "a/b")
    assert (code, out) == (0, "")
    assert err.splitlines() == ["rebuilding …", "wrote a/b/total.csv", "wrote a/b/t1_age_by_area.csv"]
    for name in ("total.csv", "t1_age_by_area.csv"):
        assert (here / "a" / "b" / name).read_bytes() == (here / "release" / "tables" / name).read_bytes()
    code, out, _ = run("write", "tables", "release", "--table", "area by sex", "-o", "a/b", "--json")
    assert (code, json.loads(out)) == (
        0,
        {"plan": pattern.plan.hash, "directory": "a/b", "files": ["area_by_sex.csv"]},
    )
    assert sorted(p.name for p in (here / "a" / "b").iterdir()) == [
        "area_by_sex.csv",
        "t1_age_by_area.csv",
        "total.csv",
    ]
    assert fn.verify("release").ok


def test_tables_are_written_for_every_place_of_a_level(run, here):
    geo = fn.Hierarchy(["state", "county"], [("RI", 1), ("CT", 2), ("CT", 3)])
    plan = fn.plan(fn.Workload(fn.Domain(geo=geo), [fn.table("county", margin=5), fn.table("state", margin=3)]))
    fn.release(plan, np.array([10, 20, 30]), ledger="places.db", directory="places")
    code, _, err = run("write", "tables", "places", "--by", "state", "-o", "by_place")
    assert (code, err.splitlines()[1:]) == (
        0,
        [f"wrote by_place/{name}.csv" for name in ("county_ri", "county_ct", "state_ri", "state_ct")],
    )
    complete = (here / "places" / "tables" / "county.csv").read_text(encoding="utf-8").splitlines()
    pieces = [(here / "by_place" / f"county_{x}.csv").read_text(encoding="utf-8").splitlines() for x in ("ri", "ct")]
    assert pieces == [complete[:2], [complete[0], *complete[2:]]]
    code, _, err = run("write", "tables", "places", "--table", "state", "--by", "county", "-o", "other")
    assert (code, (here / "other").exists()) == (8, False)
    assert "[release.table-without-level]" in " ".join(err.split())
    odd = fn.Hierarchy(["state", "county"], [("RI", 1), ("ri", 2)])
    plan = fn.plan(fn.Workload(fn.Domain(geo=odd), [fn.table("county", margin=5)]))
    fn.release(plan, np.array([10, 20]), ledger="places.db", directory="odd")
    code, _, err = run("write", "tables", "odd", "--table", "county", "--by", "state", "-o", "other")
    assert (code, (here / "other").exists()) == (8, False)
    assert "[release.two-files-of-one-name]" in " ".join(err.split())


QUESTION_SPEC = """[data]
source = "people"
[domain.sex]
type = "categorical"
codes = ["f", "m"]
[[questions]]
name = "women"
query = "count"
where = { sex = "f" }
people = 40
epsilon = "1/2"
"""


def test_questions_without_tables_are_compared_released_and_listed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(QUESTION_SPEC, encoding="utf-8")
    (tmp_path / "people.csv").write_text("sex\n" + "f\n" * 20, encoding="utf-8")
    code, out, err = run("plan", "spec.toml", "--compare", "-o", "plan.json")
    assert (code, "wrote plan.json" in err, "question women" in out) == (0, True, True)
    comparison = json.loads(run("plan", "spec.toml", "--compare", "--json")[1])
    plan = read_plan(tmp_path / "plan.json")
    assert plan.questions[0].summary.family in {c["family"] for c in comparison["finite"][0]["candidates"]}
    assert plan.hash == comparison["hash"] == fn.plan(fn.load_spec("spec.toml")).hash
    assert run("plan", "spec.toml", "--compare", "--epsilon", "1")[0] == 2
    with refused("plan.comparison-without-tables"):
        fn.compare(fn.load_spec("spec.toml"))
    code, out, _ = run("release", "plan.json", "people.csv", "--ledger", "budget.db", "-o", "release")
    assert (code, re.findall("^[a-z]+", out, re.MULTILINE)[:2]) == (0, ["directory", "answers"])
    listed = re.findall("^[a-z]+ +[a-z]+", run("tables", "release")[1], re.MULTILINE)
    assert [" ".join(x.split()) for x in listed][:3] == ["table attribute", "women sex", "answer value"]
    code, _, err = run("tables", "release", "women")
    assert (code, "[release.question-in-place-of-table]" in err, "Nothing was written" in err) == (8, True, True)


TABLES_ERRORS = {
    "an unknown table": (8, ["age"], "[release.unknown-table]"),
    "an unknown table among others": (8, ["total", "age", "-o", "x"], "[release.unknown-table]"),
    "a pattern": (8, ["all pairs of 3 attributes"], "[release.unknown-table]"),
    "a table twice": (8, ["total", "total", "-o", "x"], "[release.repeated-table]"),
    "several on one stream": (
        2,
        ["total", "area by sex"],
        "A CSV file holds one table. Use `fitnoise write tables`, or",
    ),
    "over a file": (
        8,
        ["area by sex", "total", "-o", "mine"],
        "[release.place-exists]",
    ),
    "into the release": (8, ["total", "-o", "release/tables"], "[release.place-inside-release]"),
    "into the release itself": (8, ["total", "-o", "release"], "[release.place-inside-release]"),
    "below the release": (8, ["total", "-o", "mine/../release/x"], "[release.place-inside-release]"),
    "onto a file": (8, ["total", "-o", "people.csv"], "[release.place-not-writable]"),
    "below a file": (
        8,
        ["total", "-o", "people.csv/x"],
        "[release.place-not-writable]",
    ),
}


@pytest.mark.parametrize("case", TABLES_ERRORS)
def test_tables_that_cannot_be_given_are_refused_and_nothing_is_left(run, here, pattern, case):
    code, arguments, message = TABLES_ERRORS[case]
    (here / "mine").mkdir()
    (here / "mine" / "total.csv").write_text("mine", encoding="utf-8")
    before = {p: p.read_bytes() for p in here.rglob("*") if p.is_file()}
    places = sorted(here.rglob("*"))
    command = ["tables", "release", *arguments]
    if "-o" in arguments:
        *names, _, _ = arguments
        options = [word for name in names for word in ("--table", name)]
        command = ["write", "tables", "release", *options, *arguments[-2:]]
    status, out, err = run(*command)
    assert (status, out) == (code, "")
    assert message in " ".join(err.split())
    if case != "several on one stream":  # which is one document
        status, out, err = run(*command, "--json")
        assert (status, out, failure(err)["exit_code"]) == (code, "", code)
        assert message in failure(err)["message"] or message == f"[{failure(err)['code']}]"
    assert {p: p.read_bytes() for p in here.rglob("*") if p.is_file()} == before
    assert sorted(here.rglob("*")) == places
    assert fn.verify("release").ok


@pytest.mark.parametrize(
    ("accident", "code", "message"),
    [
        (
            OSError(28, "No space left on device"),
            8,
            "error: 'new' cannot be written (No space left on device). Remove this cause",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=["full", "interrupted"],
)
def test_tables_are_written_completely_or_not_at_all(run, here, pattern, monkeypatch, accident, code, message):
    frames = []

    def failing(frame):
        frames.append(frame)
        if len(frames) == 2:
            raise accident
        return csv_text(frame)

    monkeypatch.setattr(commands, "csv_text", failing)
    places = sorted(here.rglob("*"))
    for folder in ("new", "mine"):
        frames.clear()
        if folder == "mine":
            (here / "mine").mkdir()
            places = sorted(here.rglob("*"))
        status, out, err = run("write", "tables", "release", "--table", "total", "--table", "area by sex", "-o", folder)
        assert (status, out, len(frames)) == (code, "", 2)
        assert err.splitlines()[-1].replace("'mine'", "'new'").startswith(message)
        assert sorted(here.rglob("*")) == places


def test_altered_answers_give_no_tables(run, here, pattern):
    path = here / "release" / "measurements.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    for arguments in (["tables", "release"], ["tables", "release", "total"], ["write", "tables", "release", "-o", "x"]):
        code, out, err = run(*arguments)
        assert (code, out) == (8, "")
        assert "[release.wrong-parquet-file]" in err
    assert not (here / "x").exists()


@pytest.mark.slow
def test_a_table_cannot_command_the_terminal(here, run):
    labels = PATTERN.replace('"Nörth"', '"N\\u001b[31m\\r"')
    (here / "spec.toml").write_text(labels, encoding="utf-8")
    (here / "people.csv").write_text(PEOPLE, encoding="utf-8")
    run("plan", "spec.toml", "-o", "plan.json")
    assert run(*RELEASE, "--no-tables")[0] == 0
    code, text, _ = terminal(["tables", "release", "area by sex"], both=True, TERM="dumb", columns=20)
    assert code == 0
    assert ESCAPE not in text
    lines = text.replace("\r\n", "\n").splitlines()
    assert lines[1] == "area,area_code,sex,value,std_error,moe"
    assert lines[2].startswith(r'"N\x1b[31m\r",n,True,')
    assert lines[6:] == ["counted: all records of people", "margins or intervals are for: number of records"]
    raw = process("tables", "release", "area by sex", check=0).stdout  # to a program its bytes
    assert raw.count(b"N\x1b[31m\r") == 2


def test_a_stream_without_bytes_gets_lines(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    console.emit_csv('a,value\n"x, y",1.0\n')
    assert stream.getvalue() == 'a,value\n"x, y",1.0\n'


def test_a_line_names_the_first_of_many_tables():
    domain = fn.Domain({f"x{i}": fn.Ordered(0, 1) for i in range(20)})
    singles = [fn.table(f"x{i}", margin=1) for i in range(20)]

    def line(*parts):
        return english(*tables_messages([fn.Workload(domain, parts).tables]))

    assert line(*singles[:2]) == "x0, x1"
    assert line(*singles[:12]) == ", ".join(f"x{i}" for i in range(12))
    assert line(*singles) == ", ".join(f"x{i}" for i in range(12)) + "; 20 tables in all"
    pairs = fn.all_tables(2, list(domain), margin=1)
    assert line(pairs, singles[3]) == "all pairs of 20 attributes (190 tables), x3"
    assert line(pairs, *singles) == (
        "all pairs of 20 attributes (190 tables), " + ", ".join(f"x{i}" for i in range(11)) + "; 210 tables in all"
    )
    triples = fn.all_tables(3, list(domain), margin=1)
    assert line(triples) == "all triples of 20 attributes (1,140 tables)"
    assert line(fn.all_tables(20, list(domain), margin=1, name="all")) == "all: all sets of 20 of 20 attributes"


# --- pure epsilon, and either kind of noise -------------------------------------------------------------------


@pytest.fixture
def promised(here, monkeypatch):
    """Specifications with a first line of their own, searched for as little as can be."""
    monkeypatch.setattr(matrix, "STARTS", 2)
    monkeypatch.setattr(matrix, "ALTERNATING_ROUNDS", 1)
    monkeypatch.setattr(matrix, "BRANCHES", (2, 3))

    def write(head, name="spec.toml"):
        (here / name).write_text(head + SPEC, encoding="utf-8")

    return write


def test_the_complete_pure_path_for_programs(run, here, promised):
    promised('privacy = "pure"')
    code, out, err = run("plan", "spec.toml", "-o", "plan.json", "--json")
    plan, parsed = json.loads(out), read_plan(here / "plan.json")
    assert (code, "wrote plan.json" in err) == (0, True)
    assert (plan["privacy"], plan["goal"]) == ("pure", "fit-for-use")
    epsilon = Fraction(plan["epsilon_exact"])
    assert epsilon == parsed.loss.epsilon
    assert plan["epsilon"] == parsed.epsilon()
    assert 0 <= plan["epsilon"] - float(epsilon) <= 1e-15
    assert plan["objective_value"] == pytest.approx(float(epsilon) ** 2 / 2)
    assert 0 < plan["rho"] < plan["objective_value"]
    assert plan["cost_squared"] == pytest.approx(float(epsilon) ** 2)
    assert plan["mu"] == parsed.loss_summary.mu < pure_mu(epsilon)
    assert plan["gap"] == pytest.approx(plan["objective_value"] / plan["bound"] - 1)
    assert 1 < parsed.table_part.ratio < 10
    for table in plan["tables"]:
        assert 0 < table["achieved_moe"] <= table["target_moe"] * (1 + 1e-9)

    code, out, _ = run("release", "plan.json", "people.csv", "--ledger", "budget.db", "-o", "release", "--json")
    released = json.loads(out)
    assert (code, released["epsilon"], released["rho"]) == (0, plan["epsilon"], plan["rho"])
    assert released["balance"]["epsilon_spent"] == plan["epsilon_exact"]
    assert (released["balance"]["epsilon_cap"], released["balance"]["cap"]) == (None, None)

    code, out, _ = run("verify", "release", "--json")
    verified = json.loads(out)
    assert (code, verified["ok"], all(c["holds"] for c in verified["checks"])) == (0, True, True)
    assert run("verify", "plan.json", "--json")[0] == 0

    code, out, _ = run("ledger", "show", "budget.db", "--json")
    ledger = json.loads(out)
    entry, _ = ledger["entries"]
    assert (code, entry["kind"], entry["plan"]) == (0, "charge", plan["hash"])
    assert entry["epsilon"] == plan["epsilon_exact"]
    assert Fraction(entry["rho_exact"]) == ceil_dyadic(read_plan(here / "plan.json").loss.rho)
    assert ledger["balances"] == [released["balance"]]

    listed = json.loads(run("tables", "release", "--json")[1])["tables"]
    assert [(t["name"], t["achieved_moe"]) for t in listed] == [(t["name"], t["achieved_moe"]) for t in plan["tables"]]
    code, out, _ = run("tables", "release", "area", "--json")
    (table,) = json.loads(out)["tables"]
    assert (code, [row["moe"] for row in table["rows"]]) == (0, parsed.group("area").table_margins("area").tolist())
    assert run("tables", "release", "area")[1] == (here / "release" / "tables" / "area.csv").read_text(encoding="utf-8")


def test_the_complete_pure_path_for_people(run, here, promised):
    promised('privacy = "pure"')
    code, out, err = run("plan", "spec.toml", "-o", "plan.json")
    plan = read_plan(here / "plan.json")
    assert code == 0
    assert (err.splitlines()[0], err.splitlines()[-1]) == ("planning …", "wrote plan.json")
    assert "share of bound" in out.splitlines()[0]
    assert f"\nprice      epsilon = {plan.epsilon():.7f}, pure, for one record, added or removed\n" in out
    assert f"           this implies rho = {plan.rho:.7f} and mu = {plan.loss_summary.mu:.6f}\n" in out
    part = plan.table_part
    assert re.search(
        rf"\nproof      epsilon\^2/2 = {part.objective_value:.8g}, {part.ratio:.4g} times a bound: no .* Laplace", out
    )
    min_epsilon = float(re.search(r" below epsilon = ([\d.]+)\n", out)[1])
    assert min_epsilon == pytest.approx((2 * plan.bound) ** 0.5, rel=1e-5)
    assert min_epsilon < plan.epsilon()
    assert "it is unknown how near any pure mechanism can come" in out
    assert re.search(r"\ncomparison independent noise on each number would cost epsilon = \d", out)
    for word in ("guaranteed", "delta", "profile", "rho = 0.0000"):
        assert word not in out
    code, out, _ = run("release", "plan.json", "people.csv", "--ledger", "budget.db", "-o", "release")
    assert code == 0
    assert f"\ncharged    epsilon = {plan.epsilon():.7f}, rho = {plan.rho:.7f}\n" in out
    assert f"spent (epsilon {plan.epsilon():.7f}, pure)" in out
    code, out, err = run("verify", "release")
    assert (code, err) == (0, "verifying …\n")
    checks, unchecked = out.split("\n\n")
    assert [line.split()[0] for line in checks.splitlines()[1:]] == ["ok"] * 11
    assert unchecked.startswith("unchecked  the charge, without the ledger (--ledger)\n")
    code, out, _ = run("ledger", "show", "budget.db")
    assert f"rho {plan.rho:.7f} spent (epsilon {plan.epsilon():.7f}, pure)" in out
    _, out, _ = run("tables", "release")
    assert re.search(r"area by age cumulative +8 ", out)


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        (
            'privacy = "pure"\nbudget = { epsilon = "1/3" }',
            ["targets    relative: the budget allows ", "epsilon = 0.3333333, pure"],
        ),
        (
            'privacy = "pure"\nobjective = { goal = "total-error" }',
            [
                "targets    met on average of all variances (uniform weights)",
                "to its own target, would cost epsilon = ",
            ],
        ),
        (
            'privacy = { definition = "pure", neighbours = "replace-one" }',
            [", pure, for one record, replaced by another one"],
        ),
        (
            'privacy = { definition = "pure", max_records = 3, unit = "person" }',
            [", pure, for one person, added or removed"],
        ),
    ],
)
def test_every_pure_goal_is_reported(run, here, promised, head, lines):
    promised(head)
    code, out, _ = run("plan", "spec.toml", "-o", "plan.json")
    assert code == 0
    for line in lines:
        assert line in out
    plan, document = read_plan(here / "plan.json"), json.loads(run("plan", "spec.toml", "--json")[1])
    assert (document["hash"], document["privacy"]) == (plan.hash, "pure")
    assert Fraction(document["epsilon_exact"]) == plan.loss.epsilon
    if plan.publication.budget is not None:
        assert 0 <= Fraction(1, 3) - plan.loss.epsilon < Fraction(1, 10**9)
    assert run("verify", "plan.json")[0] == 0


def test_a_pure_cap_is_set_and_enforced(run, here, promised):
    promised('privacy = "pure"')
    run("plan", "spec.toml", "-o", "plan.json")
    promised("")
    run("plan", "spec.toml", "-o", "gaussian.json")
    epsilon = read_plan(here / "plan.json").loss.epsilon
    cap = ("budget.db", "--reason", "board of 1 May")
    code, out, _ = run(
        "ledger", "open", *cap, "--epsilon", str(epsilon * Fraction(3, 2)), "--plan", "plan.json", "--json"
    )
    (balance,) = json.loads(out)["balances"]
    assert (code, balance["epsilon_spent"], balance["epsilon_cap"]) == (0, "0", str(epsilon * Fraction(3, 2)))
    assert balance["cap"] == pytest.approx(float(epsilon * Fraction(3, 2)) ** 2 / 2)
    (entry,) = json.loads(out)["entries"]
    assert (entry["kind"], entry["epsilon"]) == ("cap", str(epsilon * Fraction(3, 2)))
    cap = ("ledger", "cap", *cap, "--account", "people")
    release = ("people.csv", "--ledger", "budget.db", "-o")
    code, out, err = run("release", "gaussian.json", *release, "first", "--json")
    assert (code, out, failure(err)["code"].partition(".")[0]) == (5, "", "ledger")
    assert failure(err)["code"] == "ledger.cap-is-pure"
    code, out, _ = run("release", "plan.json", *release, "first")
    assert code == 0
    unspent = float(epsilon) / 2
    assert f"people ({UNIT})\n" in out
    assert f"epsilon {float(epsilon):.7f} spent, pure\n" in out
    assert f"the cap is {1.5 * float(epsilon):.7f}; {unspent:.7f} is left\n" in out
    assert f"the cap is {1.5 * float(epsilon):.7f}; {unspent:.7f} is left\n" in run("ledger", "show", "budget.db")[1]
    code, out, err = run("release", "plan.json", *release, "second", "--again")
    assert (code, out) == (5, "")
    assert "Nothing was measured and nothing was charged. [ledger.over-epsilon-cap]" in err
    assert not (here / "second").exists()
    code, out, _ = run(*cap, "--epsilon", "99", "--json")  # the one unit of the source is meant
    assert [e["kind"] for e in json.loads(out)["entries"]] == ["cap", "refusal", "charge", "answers", "refusal", "cap"]
    assert run("release", "plan.json", *release, "second", "--again")[0] == 0
    assert run(*cap, "--rho", "99")[0] == 0  # another promise
    code, out, _ = run("release", "gaussian.json", *release, "third", "--json")
    assert (code, json.loads(out)["balance"]["epsilon_spent"]) == (0, None)
    code, out, _ = run(*cap, "--epsilon", "99")
    assert "more than any epsilon spent\n" in out
    assert "the cap is 99.0000000; 0.0000000 is left\n" in out
    code, _, err = run("release", "plan.json", *release, "fourth", "--again")
    assert (code, "[ledger.spent-not-pure]" in err) == (5, True)
    assert charges(here / "budget.db") == 3


def test_a_pure_plan_above_its_cap_is_refused(run, here, promised):
    promised('privacy = { definition = "pure", cap = { epsilon = "1/2" } }')
    code, out, err = run("plan", "spec.toml", "-o", "plan.json", "--json")
    assert (code, out, failure(err)["code"].partition(".")[0]) == (5, "", "plan")
    assert "the cap is ε = 0.5" in failure(err)["message"]
    assert not (here / "plan.json").exists()


def test_a_choice_is_planned_and_its_alternative_reported(run, here, promised):
    promised('privacy = "auto"')
    code, out, _ = run("plan", "spec.toml", "-o", "plan.json")
    plan = read_plan(here / "plan.json")
    assert (code, plan.publication.privacy) == (0, fn.Privacy.PURE)
    assert re.search(r"\n +Gaussian noise at delta = 1e-06 would take 2\.\d+ times the epsilon\n", out)
    assert f"epsilon = {plan.epsilon():.7f}, pure" in out
    promised('privacy = { definition = "auto", delta = 0.3 }')
    code, out, _ = run("plan", "spec.toml", "-o", "plan.json")
    assert (code, read_plan(here / "plan.json").publication.privacy) == (0, fn.Privacy.ZCDP)
    assert re.search(r"pure noise takes epsilon = \d\.\d+ at least", out)
    assert "guaranteed" in out
    promised('privacy = { definition = "auto", delta = 0.02 }')
    assert "pure noise would take " in run("plan", "spec.toml")[1]
    promised('privacy = { definition = "auto", delta = 0.3 }')
    assert json.loads(run("plan", "spec.toml", "--json")[1])["epsilon_exact"] is None
    assert run(*RELEASE)[0] == 0
    assert run("verify", "release")[0] == 0


def test_a_cap_stops_a_choice_only_when_neither_noise_keeps_it(run, here, promised):
    promised('privacy = { definition = "auto", cap = { epsilon = 2 } }')  # Gaussian noise needs 2.5
    assert run("plan", "spec.toml", "-o", "plan.json")[0] == 0
    plan = read_plan(here / "plan.json")
    assert (plan.publication.privacy, plan.publication.cap) == (fn.Privacy.PURE, fn.Budget(epsilon=2))
    promised('privacy = { definition = "auto", cap = { epsilon = 0.5 } }')
    for mode in ([], ["--compare"]):
        code, out, err = run("plan", "spec.toml", *mode, "--json")
        assert (code, out, failure(err)["code"].partition(".")[0]) == (5, "", "plan")
    assert run("plan", "spec.toml", "--compare", "--epsilon", "0.5")[0] == 0  # what is spent is given: no cap to keep


def test_both_kinds_of_noise_are_compared_for_people(run, here, promised):
    assert "cells and sums by margin" in run("plan", "spec.toml", "--compare")[1]
    code, out, err = run("plan", "spec.toml", "--compare", "--all")
    assert code == 0
    assert err.splitlines()[0] == "planning …"
    compared, unsuitable = out.split("\n\nunsuitable mechanism")
    assert re.findall(r"^\S+", unsuitable, re.MULTILINE)[-1] == "projection"
    lines = compared.splitlines()
    assert re.split(r" {2,}", lines[0]) == [
        "privacy", "strategies", "epsilon", "ratio to bound", "noisy answers", "seconds"
    ]  # fmt: skip
    rows = [re.split(r" {2,}", line) for line in lines[1:-6]]
    assert {row[0] for row in rows} == {"pure", "zcdp"}
    families = {row[1] for row in rows}
    assert {"cells and sums", "every cell on its own", "best hierarchy", "sectors, optimal"} <= families
    assert len(families) == len(rows)
    assert [float(row[2]) for row in rows] == sorted(float(row[2]) for row in rows)
    gaussian = fn.plan(fn.load_spec("spec.toml"))
    (row,) = (row for row in rows if row[0] == "zcdp")
    assert row[2:5] == [f"{gaussian.epsilon():.4f}", "1.000", str(gaussian.table_part.noisy_answers)]
    assert lines[-5:-3] == ["at the targets", "delta = 1e-06 for Gaussian noise, none for pure noise"]
    better, worse = (min(float(r[2]) for r in rows if (r[0] == rows[0][0]) is same) for same in (True, False))
    alternative = {"pure": "Gaussian noise at delta = 1e-06", "zcdp": "pure noise"}[rows[0][0]]
    choice = re.fullmatch(rf" +{alternative} would take (\S+) times the epsilon", lines[-2])
    assert float(choice[1]) == pytest.approx(worse / better, rel=1e-3)
    total = re.fullmatch(
        r"total +Gaussian noise that meets every target has (\d\.\d{3}) times the least sum of .*", lines[-1]
    )
    assert float(total[1]) > 1
    assert sorted(p.name for p in here.iterdir()) == ["people.csv", "spec.toml"]

    code, out, _ = run("plan", "spec.toml", "--compare", "--epsilon", "1", "--delta", "1e-9")
    assert code == 0
    assert "margins ×" in out.splitlines()[0]
    budget = ["at epsilon = 1", "delta = 1e-09 for Gaussian noise, none for pure noise"]
    spent = out.split("\n\nunsuitable mechanism")[0].splitlines()
    assert spent[-5:-3] == budget
    assert spent[-1] == lines[-1]  # targets or a budget: the ratio of the total to the least


def test_both_kinds_of_noise_are_compared_for_programs(run, here, promised):
    code, out, err = run("plan", "spec.toml", "--compare", "--epsilon", "0.5", "-o", "plan.json", "--json")
    document, plan = json.loads(out), read_plan(here / "plan.json")
    assert (code, "wrote plan.json" in err) == (0, True)
    assert (document["delta"], document["plan"], document["hash"]) == (1e-6, "plan.json", plan.hash)
    assert plan.publication.privacy is fn.Privacy.PURE
    assert plan.publication.budget == fn.Budget(epsilon=Fraction(1, 2))
    keys = {"privacy", "family", "epsilon", "error", "ratio", "noisy_answers", "seconds"}
    assert all(set(a) == keys for a in document["alternatives"])
    reasons = {x["mechanism"]: x["reason"] for x in document["unsuitable"]}
    assert reasons["projection"] == "the specification has no size of a small database"
    errors = [a["error"] for a in document["alternatives"]]
    assert errors == sorted(errors)
    assert errors[0] == pytest.approx(plan.table_part.relaxation**0.5)
    assert all(a["epsilon"] <= 0.5 for a in document["alternatives"])
    (gaussian,) = (a for a in document["alternatives"] if a["privacy"] == "zcdp")
    separate = fn.plan(fn.load_spec("spec.toml").workload, epsilon=0.5)
    assert gaussian["error"] == pytest.approx(separate.table_part.relaxation**0.5, rel=1e-6)
    assert run("verify", "plan.json")[0] == 0
    assert run(*RELEASE)[0] == 0
    without = json.loads(run("plan", "spec.toml", "--compare", "--json")[1])
    assert without["plan"] is None
    assert without["alternatives"][0]["error"] == pytest.approx(1, rel=1e-3)
    assert without["choice"]["privacy"] == without["alternatives"][0]["privacy"]
    assert without["hash"] == json.loads(run("plan", "spec.toml", "--compare", "--json")[1])["hash"]


@pytest.mark.parametrize(
    ("head", "arguments", "spent", "delta"),
    [
        ('privacy = "pure"', [], None, 1e-6),
        ('privacy = "auto"', [], None, 1e-6),
        ('privacy = "pure"\nbudget = { epsilon = "1/4" }', [], 0.25, 1e-6),
        ('privacy = "pure"\nbudget = { epsilon = "1/4" }', ["--epsilon", "1"], 1, 1e-6),
        ('privacy = { definition = "pure", delta = 1e-4 }', ["--epsilon", "1"], 1, 1e-4),
        ('privacy = { definition = "pure", cap = { epsilon = 3 } }', ["--delta", "1e-4"], None, 1e-4),
        ("budget = { epsilon = 0.25 }", [], 0.25, 1e-6),
        ("budget = { epsilon = 0.25, delta = 1e-9 }", [], 0.25, 1e-9),
        ("budget = { epsilon = 0.25, delta = 1e-9 }", ["--delta", "1e-4"], 0.25, 1e-4),
        ("budget = { epsilon = 0.25, delta = 1e-9 }", ["--epsilon", "1"], 1, 1e-6),
        ("budget = { rho = 1 }", ["--epsilon", "1", "--delta", "1e-4"], 1, 1e-4),
        ("accuracy = { gap = 1e-4 }", ["--epsilon", "1"], 1, 1e-6),
    ],
)
def test_any_specification_can_be_compared(run, here, promised, head, arguments, spent, delta):
    """This holds for any guarantee: an epsilon is the one to spend, pure or at the stated delta."""
    promised(head)
    code, out, _ = run("plan", "spec.toml", "--compare", *arguments, "--json")
    document = json.loads(out)
    assert (code, document["delta"]) == (0, delta)
    (gaussian,) = (a for a in document["alternatives"] if a["privacy"] == "zcdp")
    workload = fn.load_spec("spec.toml").workload
    separate = fn.plan(workload, delta=delta, epsilon=spent)
    if spent is None:
        assert gaussian["epsilon"] == pytest.approx(separate.epsilon(), rel=1e-5)
    else:
        assert gaussian["error"] == pytest.approx(separate.table_part.relaxation**0.5, rel=1e-5)
        assert gaussian["epsilon"] == pytest.approx(spent, rel=1e-5)


def test_a_cap_on_mu_is_set_and_enforced_and_says_how_much_still_fits(run, here, promised):
    promised('privacy = "pure"')
    run("plan", "spec.toml", "-o", "pure.json")
    promised("")
    run("plan", "spec.toml", "-o", "plan.json")
    plan = read_plan(here / "plan.json")
    cap = Fraction(math.sqrt(2.5 * plan.loss.mu_squared)).limit_denominator(10**6)
    command = ("ledger", "show", "budget.db", "--plan", "plan.json")
    code, out, _ = run("ledger", "open", *command[2:], "--mu", str(cap), "--json")
    (balance,) = json.loads(out)["balances"]
    assert (code, balance["mu_squared_spent"]) == (0, "0")
    assert balance["cap"] == balance["remaining"] == pytest.approx(float(cap) ** 2 / 2)
    plan_json = json.loads(run(*command, "--json")[1])["plan"]
    assert plan_json["more"] == 2
    promise = curves.lattice_epsilon(float(cap), plan.publication.delta)
    assert plan_json["promised"] == pytest.approx(promise, rel=1e-9)
    assert curves.zcdp_epsilon(plan_json["rho_instead"], plan.publication.delta) == pytest.approx(promise, rel=1e-6)
    assert plan_json["more_instead"] == int(plan_json["rho_instead"] / plan.rho) <= 2
    release = ("people.csv", "--ledger", "budget.db", "-o")
    code, out, _ = run("release", "plan.json", *release, "first")
    assert (code, f"the cap is mu = {float(cap):.7f} (squares add); rho" in out) == (0, True)
    assert "1 more release of this plan fits" in run(*command)[1]
    pure = json.loads(run("ledger", "show", "budget.db", "--plan", "pure.json", "--json")[1])["plan"]["more"]
    assert pure == int(1.5 * plan.loss.mu_squared / read_plan(here / "pure.json").loss.mu_squared)
    assert run("release", "plan.json", *release, "second", "--again")[0] == 0
    code, out, err = run("release", "plan.json", *release, "third", "--again")
    assert (code, out) == (5, "")
    assert "Nothing was measured and nothing was charged. [ledger.over-mu-cap]" in err
    assert not (here / "third").exists()
    assert "0 more releases of this plan fit" in run(*command)[1]
    assert run("verify", "second", "--ledger", "budget.db")[0] == 0
    # a cap of another kind, and none
    total = 3 * plan.loss.rho + Fraction(1, 1000)
    run("ledger", "cap", "budget.db", "--account", "people", "--rho", str(total))
    text = run(*command)[1]
    assert "1 more release of this plan fits" in text
    assert re.search(r"a cap of mu = [0-9.]+ promises the same epsilon = [0-9.]+ at delta", text)
    run("ledger", "cap", "budget.db", "--account", "people", "--epsilon", "9")
    assert json.loads(run(*command, "--json")[1])["plan"] == {"more": 0}
    run("release", "plan.json", "people.csv", "--ledger", "free.db", "-o", "fourth")
    assert (
        "no cap is set: any number of releases of this plan fits" in run("ledger", "show", "free.db", *command[3:])[1]
    )
    text = run("ledger", "show", "budget.db")[1]  # a cap of another kind is printed in its own unit, and not in rho
    cells = [re.split("  +", line.strip()) for line in text.splitlines() if re.match(r" +[0-9]", line)]
    assert re.search(r"^entry +time +kind +account +unit +rho", text, re.MULTILINE)
    assert [x[2] for x in cells] == [
        f"cap on mu = {float(cap):g}",
        *["charge", "answers"] * 2,
        "refusal",
        "cap",
        "cap on epsilon = 9",
    ]
    assert [len(x) for x in (cells[0], cells[-1])] == [5, 6]
    assert cells[-2][5] == f"{float(total):.7f}"
    code, _, err = run("ledger", "cap", "budget.db", "--account", "people", "--mu", "1/2", "--rho", "1")
    assert (code, "Give one of them. Nothing was changed" in err) == (2, True)


def test_all_that_was_released_is_added_up_to_one_curve(run, here, promised):
    promised('privacy = "pure"')
    run("plan", "spec.toml", "-o", "pure.json")
    promised("")
    run("plan", "spec.toml", "-o", "plan.json")
    for i, plan in enumerate(("plan.json", "pure.json", "plan.json")):
        assert run("release", plan, "people.csv", "--ledger", "budget.db", "-o", f"r{i}", "--again")[0] == 0
    gaussian, pure = read_plan(here / "plan.json"), read_plan(here / "pure.json")
    code, out, err = run("ledger", "show", "budget.db", "--delta", "1e-9", "--plot", "curve.svg", "--json")
    (total,) = json.loads(out)["together"]
    assert (code, total["delta"], "wrote curve.svg" in err) == (0, 1e-9, True)
    assert total["assumption"] == english(FIXED_IN_ADVANCE)
    assert english(FIXED_IN_ADVANCE) in (here / "curve.svg").read_text()
    with fn.Ledger("budget.db") as ledger:
        assert total["epsilon"] == curve(ledger.groups(gaussian.order.account), gaussian.order.account).epsilon(1e-9)
    assert total["epsilon"] < epsilon_at((gaussian.loss + pure.loss + gaussian.loss), 1e-9)
    assert f"people ({UNIT}): ε = {total['epsilon']:.3g} at δ = 1e-09" in (here / "curve.svg").read_text()
    text = run("ledger", "show", "budget.db", "--delta", "1e-9")[1]
    assert f"epsilon = {total['epsilon']:.4f} at delta = 1e-09\n" in text
    assert "           if all plans were fixed in advance, none after an" in text
    assert "no cap is set: this is bookkeeping, no promise" in text
    run("ledger", "cap", "budget.db", "--account", "people", "--rho", "9")
    assert "the cap holds for any choice of the next plan" in run("ledger", "show", "budget.db", "--delta", "1e-9")[1]
    assert "together" not in json.loads(run("ledger", "show", "budget.db", "--json")[1])
    code, _, err = run("ledger", "show", "budget.db", "--delta", "1")
    assert (code, "It needs a number between 0 and 1" in err) == (2, True)
    assert run("ledger", "show", "budget.db", "--plot", "curve.txt")[0] != 0
    # of Gaussian noise on a coarse lattice only rho is known
    with fn.Ledger("budget.db") as ledger:
        ledger.charge(gaussian.order.account, Loss.concentrated(Fraction(1, 8)), {})
    assert "Entry 8 states only ρ" in run("ledger", "show", "budget.db", "--delta", "1e-9")[1]
    code, _, err = run("ledger", "show", "budget.db", "--plot", "other.svg")
    assert (code != 0, "[release.no-curve-known]" in err, (here / "other.svg").exists()) == (True, True, False)


# --- questions to a release -----------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["-count()", "-2 * count() + count(sex=True)", "-(count() - count(sex=True))"])
def test_a_question_may_begin_with_a_minus_sign(question, run, pattern):
    """Detects an expression that is taken for an option; it may stand before and after options."""
    expected = run("ask", "release", f"({question})", "--by", "age", "--csv")
    assert expected[0] == 0
    for arguments in (
        ("release", question, "--by", "age", "--csv"),
        ("--by", "age", "--csv", "release", question),
        ("--by", "age", "--csv", "--", "release", question),
    ):
        assert run("ask", *arguments) == expected
    document = json.loads(run("ask", "release", question, "--json")[1])
    assert document["asked"] == question
    assert run("ask", "release", "-x", "count()")[0] == 2


def test_a_question_is_answered_in_one_line(run, pattern):
    ratio = pattern.count(area="Nörth", by="age") / pattern.count(by="age")
    question = 'count(area="Nörth") / count()'
    code, out, err = run("ask", "release", question, "--by", "age", "--csv")
    assert (code, err) == (0, "estimating …\n")
    assert out == csv_text(ratio.frame(), fixed=())
    assert out.startswith("age,value,low,high,is_significant\n0,")
    document = json.loads(run("ask", "release", question, "--by", "age", "--json")[1])
    assert (document["plan"], document["asked"]) == (pattern.plan.hash, question)
    assert (document["confidence"], document["simultaneous"]) == (0.95, False)
    frame = ratio.frame()
    assert [row["age"] for row in document["rows"]] == [0, 1, 2, 3]
    assert [row["is_significant"] for row in document["rows"]] == frame["is_significant"].tolist()
    for name in ("value", "low", "high"):
        assert [row[name] for row in document["rows"]] == [x if math.isfinite(x) else None for x in frame[name]]
    code, out, _ = run("ask", "release", "2 * count(sex=[True, False]) - count({})", "--by", "area", "--by", "sex")
    assert code == 0
    lines = [re.split(r" {2,}", line) for line in out.splitlines()]
    assert lines[0] == ["area", "sex", "value", "standard error", "margin ±"]
    assert [line[:2] for line in lines[1:5]] == [
        ["Nörth", "True"], ["Nörth", "False"], ['South, "old"', "True"], ['South, "old"', "False"]
    ]  # fmt: skip
    assert lines[6] == ["intervals", "each interval holds 95 % of the time"]
    lines = run("ask", "release", "mean('age')")[1].splitlines()
    assert lines[0].split() == ["value", "from", "to"]
    assert lines[2:] == ["", "records    all records", "intervals  each interval holds 95 % of the time"]
    assert json.loads(run("ask", "release", "mean('age')", "--json")[1])["records"] == "all records"
    code, out, _ = run("ask", "release", "count() / (count() - count())", "--simultaneous")
    assert code == 0
    assert out.splitlines()[1].split() == ["–", "–", "–"]
    assert out.splitlines()[-2:] == [
        "intervals  all intervals hold at once 95 % of the time",
        "           – is an open end: b of a/b may be 0",
    ]


def test_a_quantile_is_answered(run, pattern):
    quantile = pattern.quantile("age", 0.5, by="area")
    code, out, _ = run("ask", "release", "quantile('age', 0.5)", "--by", "area", "--csv")
    assert (code, out) == (0, csv_text(quantile.frame(), fixed=()))
    lines = run("ask", "release", "quantile('age', 0.5)", "--by", "area")[1].splitlines()
    row = quantile.frame().iloc[0]
    assert lines[0].split() == ["area", "value", "from", "to"]
    assert lines[1].split() == ["Nörth", *(str(row[name]) for name in ("value", "low", "high"))]
    rows = json.loads(run("ask", "release", "quantile('age', 0.5)", "--json")[1])["rows"]
    assert rows == pattern.quantile("age", 0.5).frame().to_dict("records")


def test_a_question_about_two_releases_is_answered(run, here, pattern):
    (here / "people.csv").write_text(PEOPLE + "n,2,false\n" * 30, encoding="utf-8")
    assert run(*RELEASE[:6], "later", "--again")[0] == 0
    growth = fn.Release.read("later").count(by="area") / pattern.count(by="area") - 1
    code, out, _ = run("ask", "release", "other.count() / count() - 1", "--by", "area", "--other", "later", "--csv")
    assert (code, out) == (0, csv_text(growth.frame(), fixed=()))
    wide = run("ask", "release", "other.count()/count()-1", "--by=area", "--other=later", "--csv", "--simultaneous")[1]
    assert wide == csv_text(growth.frame(simultaneous=True), fixed=())
    for options, message in (
        ([], "[release.other-release-missing]"),
        (["--other", "x"], "[release.file-not-readable]"),
    ):
        code, out, err = run("ask", "release", "other.count() / count()", *options)
        assert (code, out) == (8, "")
        assert message in err
    assert run("ask", "release", "__import__('os').getcwd()")[0] == 8
    (here / "areas.csv").write_text("district,area\nx,n\n")
    code, out, err = run("ask", "release", "count()", "--areas", "areas.csv")
    assert (code, out, "[release.area-is-an-attribute]" in err) == (8, "", True)
    code, _, err = run("ask", "release", "count()", "--csv", "--json")
    assert (code, "--csv and --json are both given." in err) == (2, True)


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("write report", LANGUAGES),
        ("write export", LANGUAGES),
        ("studio", COMPLETE_LANGUAGES),
    ],
)
def test_help_names_the_languages(command, codes):
    """The command line writes them itself, because help loads no catalogue."""
    with click.Context(cli.cli) as context:
        result = cli.cli
        for name in command.split():
            result = result.get_command(context, name)
        (option,) = (x for x in result.params if x.name == "language")
    assert option.help.startswith(f"Language: {in_words(codes)}")
