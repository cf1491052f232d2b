"""Reports of plans, releases, comparisons and ledgers: the law of every report, over the zoo and beyond."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

import fitnoise as fn
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.comparisons import comparison_report, settings_report
from fitnoise.interfaces.reports.ledgers import ledger_report
from fitnoise.interfaces.reports.plans import _of_tables, plan_report
from fitnoise.interfaces.reports.releases import receipt_report, release_report, verification_report
from fitnoise.kernel.losses import rounded_up
from fitnoise.mechanisms.laplace import planning as matrix
from fitnoise.mechanisms.projection import planning as projection
from fitnoise.messages import Message, Value, ValueKind, english, translator
from fitnoise.reading.verification import Check, Verification
from fitnoise.reporting import Report
from laws.releases import answered
from laws.reports import check_report

DOMAIN = fn.Domain(area=fn.Categorical(["n", "s"]), age=fn.Ordered(0, 3))
WORKLOAD = fn.Workload(DOMAIN, [fn.table("area", margin=4), fn.table("area", cumulative="age", margin=9)])
QUESTIONS = (
    fn.FiniteQuery.sum("ages", "age", people=5, epsilon=1),
    fn.FiniteQuery.quantile("old", "age", quantile=0.9, people=5, epsilon=1),
    fn.FiniteQuery.counts("two", people=5, where=[{"area": "n"}, {"age": [0, 1]}], epsilon=Fraction(1, 3)),
)
SMALL = fn.SmallDatabase(40, index=2, temperature=0.03)
BUDGET = fn.Budget(epsilon=1, delta=1e-6)

PLANS = {
    "pure": {"privacy": "pure"},
    "pure replace-one": {"privacy": "pure", "unit": fn.PrivacyUnit("person", 3, fn.Neighbours.REPLACE_ONE)},
    "replace-one": {
        "unit": fn.PrivacyUnit("record", 1, fn.Neighbours.REPLACE_ONE),
        "public": fn.KnownTotals((), "Register", "these data"),
    },
    "budget": {"epsilon": 1},
    "total error": {"objective": fn.Objective(fn.Goal.TOTAL_ERROR), "budget": fn.Budget(rho=Fraction(1, 50))},
    "hybrid": {"objective": fn.Objective(fn.Goal.HYBRID, total_error_weight=1e-2)},
    "cell budgets": {"cell_budgets": fn.CellBudgets(("area",), (1, 0.25))},
    "questions": {"questions": QUESTIONS},
    "pure questions": {"questions": QUESTIONS, "privacy": "pure"},
    "small": {"small_database": SMALL, "budget": BUDGET, "questions": QUESTIONS[:1]},
    "small, as printed": {"small_database": fn.SmallDatabase(40, variant="paper"), "budget": BUDGET},
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Pure strategies searched for as little as can be."""
    monkeypatch.setattr(matrix, "STARTS", 1)
    monkeypatch.setattr(matrix, "ALTERNATING_ROUNDS", 1)
    monkeypatch.setattr(matrix, "BRANCHES", (2,))


@cache
def plan_of_kind(name):
    return fn.plan(WORKLOAD, title="People", **PLANS[name])


@pytest.fixture(params=PLANS)
def plan(request):
    return plan_of_kind(request.param)


# --- the law ------------------------------------------------------------------------------------------------------


def test_plans_of_the_zoo_are_reported(any_plan):
    check_report(plan_report(any_plan))
    check_report(release_report(answered(any_plan), show_all=True))


def test_every_kind_of_plan_is_reported(plan):
    report = plan_report(plan)
    check_report(report)
    printed = document(report)
    assert report.title == "People"
    assert printed.pop("status") == [english(m) for m in plan.table_part.status]
    for key in ("hash", "rho", "bound", "gap"):
        assert printed[key] == getattr(plan, key)
    for key in ("objective_value", "numbers", "noisy_answers"):
        assert printed[key] == getattr(plan.table_part, key)
    assert (printed["mu"], printed["cost_squared"]) == (plan.loss_summary.mu, rounded_up(plan.table_part.exact_cost))
    assert (printed["epsilon"], printed["best_guess"]) == (plan.epsilon(), plan.loss_summary.best_guess)
    assert [t["achieved_moe"] for t in printed["tables"]] == [s.achieved_moe for s in plan.summaries]
    assert [q["epsilon_exact"] for q in printed["finite"]] == [str(q.exact_epsilon) for q in plan.questions]
    names = [s.title for s in report.sections if s.title]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("cap", "cap_text"),
    [
        ({"rho": 1}, "rho = 1"),
        ({"mu": 1.5}, "mu = 1.5"),
        ({"epsilon": 9.0, "delta": 1e-6}, "epsilon = 9 at delta = 1e-06"),
    ],
)
def test_a_cap_of_a_plan_is_stated_to_cover_this_plan_only(cap, cap_text):
    report = plan_report(fn.plan(WORKLOAD, cap=fn.Budget(**cap)))
    check_report(report)
    assert document(report)["cap"] == cap
    (line,) = (x for x in lines(report) if x.startswith("cap"))
    assert line.split(maxsplit=1)[1].startswith(f"{cap_text} at most, for this plan alone")
    assert "cap" not in document(plan_report(fn.plan(WORKLOAD)))


def test_a_plan_of_several_parts_is_reported_part_by_part():
    one, second = (fn.Workload(DOMAIN, [t]) for t in WORKLOAD.tables)
    third = fn.Workload(DOMAIN, [fn.table("age", margin=9, name="{by age}")])
    also = (fn.Publication(second, privacy="pure"), fn.Publication(third, small_database=SMALL, budget=BUDGET))
    plan = fn.plan(fn.Publication(one, title="People", questions=QUESTIONS, further_tables=also))
    report = plan_report(plan)
    check_report(report)
    check_report(release_report(answered(plan)))
    printed, text = document(report), lines(report)
    assert "objective_value" not in printed
    assert [p["tables"] for p in printed["parts"]] == [["area"], ["area by age cumulative"], ["{by age}"]]
    for stated, part in zip(printed["parts"], plan.groups, strict=True):
        single = document(Report("", tuple(_of_tables(part))))
        del single["sentences"]
        assert {k: stated[k] for k in single} == single
        assert (stated["objective_value"], stated["bound"], stated["rho"]) == (
            part.objective_value,
            part.bound,
            part.rho,
        )
    assert [p["setting"] for p in printed["parts"]] == [None, None, vars(plan.groups[2].setting)]
    assert [line.split()[0] for line in text if line.startswith(("part", "proof"))] == ["part", "proof"] * 3
    second = plan.groups[1]
    assert f"part 2     area by age cumulative: {second.mechanism.name}, epsilon = {second.epsilon():.7f}, pure" in text
    assert sum(p["rho"] for p in printed["parts"]) < printed["rho"]


@pytest.mark.parametrize("privacy", [("zcdp", "zcdp"), ("pure", "pure"), ("zcdp", "pure")])
def test_tables_of_several_parts_share_the_cost_of_all_tables(privacy):
    """Detects a table of a part of low cost that a report shows as the costliest of all."""
    low, high = (
        fn.Publication(fn.Workload(DOMAIN, [fn.table(x, margin=m)]), privacy=kind)
        for x, m, kind in zip(("area", "age"), (40, 5), privacy, strict=True)
    )
    plan = fn.plan(replace(low, further_tables=(high,)))
    pure = privacy == ("pure", "pure")
    costs = [float(p.loss.epsilon if pure else p.loss.rho) for p in plan.groups]
    assert [s.price for s in plan.summaries] == pytest.approx([x / sum(costs) for x in costs])
    assert plan.summaries[0].price < 0.3
    assert [s.price for p in plan.groups for s in p.summaries] == pytest.approx([1, 1])
    assert any("share of price" in line for line in lines(plan_report(plan)))


def test_reports_of_releases_do_not_depend_on_the_data_but_in_answers(plan):
    one, other = answered(plan), answered(plan, 1)
    for shows_all in (False, True):
        one_report, other_report = release_report(one, show_all=shows_all), release_report(other, show_all=shows_all)
        check_report(one_report)
        assert (one_report == other_report) == (not plan.questions)
        assert without_answers(one_report) == without_answers(other_report)


def cut(row, positions):
    """The entries of a row at these places."""
    return tuple(row[i] for i in positions)


def without_answers(report):
    """Return the report without the columns of drawn values."""
    names_drawn = {"value", "output"}
    sections = []
    for s in report.sections:
        positions = [[i for i, c in enumerate(t.columns) if c.name not in names_drawn] for t in s.tables]
        tables = [
            replace(t, columns=cut(t.columns, k), rows=[cut(r, k) for r in t.rows], foot=[cut(r, k) for r in t.foot])
            for t, k in zip(s.tables, positions, strict=True)
        ]
        sections.append(replace(s, tables=tuple(tables)))
    return replace(report, sections=tuple(sections))


LIMITS = {
    "no cap": [],
    "a cap": [{"rho": Fraction(1000)}],
    "a cap on epsilon": [{"rho": None, "epsilon": Fraction(90)}],
}


@pytest.mark.parametrize("limit", LIMITS)
def test_receipts_and_ledgers_are_reported(plan, limit):
    with fn.Ledger(":memory:") as ledger:
        account = fn.Account("people", plan.publication.unit)
        check_report(ledger_report(ledger.entries(), (), ledger.head()))
        ledger.charge(account, plan.loss, {"plan": plan.hash})
        for cap in LIMITS[limit]:
            ledger.set_cap(account, **cap)
        balance, entries, head = ledger.balance(account), ledger.entries(), ledger.head()
    for rise, turn in ((plan.loss.rho / 2, "rose by"), (-plan.loss.rho, "fell by"), (Fraction(), "did not rise")):
        table_names = ["area", "area by age cumulative"] if rise else ["area"]
        answers = answered(plan).finite.values()
        receipt = receipt_report(plan, answers, Path("r"), table_names, rise, Path("l.db"), balance)
        check_report(receipt)
        assert any(turn in line for line in lines(receipt))
        printed = document(receipt)
        assert (printed["written"], printed["increase"]) == ("all" if rise else table_names, float(rise))
        assert printed["balance"]["spent"] == float(balance.spent)
        assert [a["name"] for a in printed["finite"]] == [q.name for q in plan.publication.questions]
    report = ledger_report(entries, [balance], head)
    check_report(report)
    assert document(report)["balances"] == [printed["balance"]]
    assert printed["ledger"] == "l.db"
    assert [e["rho_exact"] for e in document(report)["entries"]] == [str(e.rho) for e in entries]


def test_comparisons_are_reported():
    publication = fn.Publication(WORKLOAD, questions=QUESTIONS, privacy=fn.Privacy.AUTO)
    for request in (publication, replace(publication, budget=BUDGET, questions=())):
        comparison = fn.compare(request)
        report = comparison_report(request, comparison, 1e-6)
        check_report(report)
        printed = document(report)
        assert [a["epsilon"] for a in printed["alternatives"]] == [a.epsilon for a in comparison.alternatives]
        assert [q["name"] for q in printed["finite"]] == [q.name for q in request.questions]


@pytest.mark.parametrize("size", [fn.SmallDatabase(40), SMALL])
def test_settings_are_reported(size):
    choice = projection.choose(fn.Publication(WORKLOAD, small_database=size, budget=BUDGET))
    plan = fn.Plan.from_parts(choice.part.publication, [choice.part])
    report = settings_report(plan, choice.setting, choice.choice, ())
    check_report(report)
    printed = document(report)
    assert printed["setting"] == vars(choice.part.setting)
    assert (printed["settings"] == []) == (choice.choice is None)
    if choice.choice is not None:
        (row,) = (s for s in printed["settings"] if {k: s[k] for k in printed["setting"]} == printed["setting"])
        assert list(row["errors"].values()) == choice.choice.errors.tolist()


def test_verifications_are_reported():
    value = Value("factor", 2.0, ValueKind.FINE)
    broken = Check(Message("report.claim.targets"), False, Message("report.fault.target", (value,)))
    good = Check(Message("report.claim.plan"), True, Message("report.finding.exactly"))
    report = verification_report(Verification((broken, good)))
    check_report(report)
    claims = ["the targets are met", "the plan is complete, and its noise design costs what it states"]
    assert lines(report) == [
        f"       {'claim':63}  found",
        f"FAILS  {claims[0]:63}  a variance is 2.000000 times its target",
        f"ok     {claims[1]:63}  recomputed exactly",
    ]
    assert document(report)["ok"] is False
    assert document(report)["checks"][0] == {
        "holds": False,
        "claim": {"id": "report.claim.targets", "values": {}, "text": claims[0]},
        "finding": {
            "id": "report.fault.target",
            "values": {"factor": 2.0},
            "text": "a variance is 2.000000 times its target",
        },
    }
    german = lines(report, language=translator("de"))
    assert "Die Ziele" not in german[1]
    assert german[1].endswith("eine Varianz beträgt das 2,000000-Fache ihres Ziels")
