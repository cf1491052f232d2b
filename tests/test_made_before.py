"""What version 0.1.0 wrote before its rooms were moved is still read, verified and charged to."""

import csv
import hashlib
import json
import math
import re
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import BudgetExceeded, LedgerError, PlanError
from fitnoise.kernel import privacy
from fitnoise.reading.description import whole
from tolerances import EXACT

pytestmark = pytest.mark.usefixtures("one_duckdb")

SAMPLES = Path(__file__).parent / "data" / "made_before"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8"))
PLANS, RELEASES = EXPECTED["plans"], EXPECTED["releases"]
PRINTED = 1e-6
"""The last decimal of a CSV file."""
ITERATED = 1e-6
"""Of a standard error: how far iterations end apart on another machine."""
SIMULATED = 0.01
NUMBERS = ("value", "std_error", "moe", "unbiased_value", "biased_value", "simulated_rmse")


def written(name):
    """A plan's text, byte by byte."""
    return (SAMPLES / "plans" / f"{name}.json").read_bytes().decode()


def plan_of(name):
    return fn.Plan.from_json(written(name))


def optional(text):
    return None if text is None else Fraction(text)


def told(verification):
    """The claims that do not hold."""
    return {c.claim: c.found for c in verification.checks if not c.holds}


def file_of(table):
    return re.sub(r"[\W_]+", "_", table.lower()).strip("_") + ".csv"


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
def ledger(tmp_path):
    """A copy: whoever opens a ledger may write to it."""
    return Path(shutil.copyfile(SAMPLES / "ledger.sqlite", tmp_path / "ledger.sqlite"))


def test_the_samples_are_all_there():
    assert {p.stem for p in (SAMPLES / "plans").iterdir()} == PLANS.keys()
    assert {p.name for p in (SAMPLES / "releases").iterdir()} == RELEASES.keys() < PLANS.keys()
    made = [json.loads(written(name)) for name in PLANS]
    assert {d["mechanism"] for d in made} == {"fit-for-use", "pure-fit-for-use", "projection"}
    assert {d["fitnoise_plan"] for d in made} == {2}
    forms = {m["form"] for d in made for m in d.get("finite", [])}
    assert forms == {"distance", "formula", "rows", "box", "clamped"}


# --- plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_the_same_to_the_letter_and_costs_the_same(name):
    expected, text = PLANS[name], written(name)
    plan = fn.Plan.from_json(text)
    assert plan.to_json() == text
    assert plan.hash == expected["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert whole(plan.loss)[0] == Fraction(expected["exact_rho"])  # of what is pure, ε²/2 was said
    assert plan.exact_rho <= Fraction(expected["exact_rho"])
    assert plan.exact_rho == Fraction(expected["exact_rho"]) or plan.exact_epsilon is not None
    assert plan.exact_epsilon == optional(expected["exact_epsilon"])
    assert plan.exact_cost == Fraction(expected["exact_cost"])
    for what in ("bound", "value"):
        assert getattr(plan, what) == pytest.approx(expected[what], rel=EXACT), what
    converted = privacy.zcdp_epsilon(plan.loss.rho, 1e-6)  # what was said before the exact curve was proven
    assert plan.epsilon(1e-6) <= expected["epsilon"] * (1 + EXACT)
    assert expected["epsilon"] <= max(converted, float(plan.exact_epsilon or 0)) * (1 + EXACT)
    assert len(plan.tables) == expected["tables"]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_verified(name):
    assert told(fn.verify(SAMPLES / "plans" / f"{name}.json")) == {}


def doubled(numbers):
    """Double the first whole number of a list, or its numerator, be it written as a number or as a text."""
    above, *below = str(numbers[0]).split("/")
    numbers[0] = type(numbers[0])("/".join([str(2 * int(above)), *below]))


ALTERED = {
    "gaussian": lambda d: doubled(d["strategy"][0]["mixing"][0][0]),
    "prefixes": lambda d: doubled(d["strategy"][0]["basis"][0]),
    "wide_integers": lambda d: doubled(d["strategy"][0]["scales"]),
    "many_scales": lambda d: doubled(d["strategy"][0]["mixing"][0][0]),
    "replace_two": lambda d: doubled(d["strategy"][0]["mixing"][0][0]),
    "projection": lambda d: doubled(d["strategy"][0]["scales"]),
    "pure": lambda d: doubled(d["strategy"]["margins"][0]["rows"][0][1]),
    "gaussian_finite": lambda d: doubled(d["finite"][0]["values"]),
    "large_finite": lambda d: doubled(d["finite"][0]["weights"][1]),
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_integer_in_a_plan_is_refused(name, tmp_path):
    document = json.loads(written(name))
    assert json.dumps(document, separators=(",", ":")) + "\n" == written(name)
    ALTERED[name](document)
    altered = json.dumps(document, separators=(",", ":")) + "\n"
    assert altered != written(name)
    with pytest.raises(PlanError):
        fn.Plan.from_json(altered)
    path = tmp_path / "plan.json"
    path.write_text(altered, encoding="utf-8", newline="")
    assert "the plan is whole, and its integers cost what it says" in told(fn.verify(path))


# --- releases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_verified(name):
    assert told(fn.verify(SAMPLES / "releases" / name)) == {}


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_found_in_the_ledger_by_its_plan(name, ledger):
    """It names no entry of its own."""
    with fn.Ledger(ledger) as book:
        verification = fn.verify(SAMPLES / "releases" / name, ledger=book)
    assert told(verification) == {}
    (found,) = (c.found for c in verification.checks if c.claim == "the ledger says that it was charged")
    by_plan = "release.json names no entry (format 2); its plan was charged by"
    assert found == f"{by_plan} entry {RELEASES[name]['entry']}"


def test_a_release_whose_plan_was_altered_is_refused(tmp_path):
    """One more in an entry that no dearest cell depends on costs the same, but it is another plan."""
    folder = Path(shutil.copytree(SAMPLES / "releases" / "gaussian", tmp_path / "release"))
    document = json.loads(written("gaussian"))
    document["strategy"][0]["mixing"][0][0][0] += 1
    (folder / "plan.json").write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8", newline="")
    assert told(fn.verify(folder))["release.json says what the plan implies"].endswith("disagree on plan")


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_gives_the_tables_of_its_files(name):
    folder = SAMPLES / "releases" / name
    release = fn.Release.read(folder)
    assert release.plan.hash == PLANS[name]["hash"]
    assert len(release) == PLANS[name]["tables"]
    said = json.loads((folder / "release.json").read_text(encoding="utf-8"))["written"]
    tables = list(release) if said == "all" else said
    assert {p.name for p in (folder / "tables").glob("*.csv")} == {file_of(table) for table in tables}
    for table in tables:
        frame = release[table]
        head, *rows = rows_of(folder / "tables" / file_of(table))
        assert head == list(frame.columns)
        assert len(rows) == len(frame)
        for i, column in enumerate(head):
            if column not in NUMBERS:
                assert [row[i] for row in rows] == [str(x) for x in frame[column].tolist()]
                continue
            found = np.array([float(row[i]) for row in rows])
            allowed = PRINTED + EXACT * (np.abs(found) + frame["std_error"])
            if column == "biased_value":
                allowed = PRINTED + ITERATED * frame["std_error"]
            elif column == "simulated_rmse":
                allowed = PRINTED + SIMULATED * found
            assert (np.abs(frame[column] - found) <= allowed).all(), (table, column)


@pytest.mark.parametrize(
    "name", [name for name in RELEASES if (SAMPLES / "releases" / name / "histogram.csv").exists()]
)
def test_a_release_gives_the_histogram_of_its_file(name):
    frame = fn.Release.read(SAMPLES / "releases" / name).histogram
    head, *rows = rows_of(SAMPLES / "releases" / name / "histogram.csv")
    assert head == list(frame.columns)
    assert [row[:-1] for row in rows] == [[str(x) for x in row] for row in frame.iloc[:, :-1].to_numpy().tolist()]
    counts = np.array([float(row[-1]) for row in rows])
    np.testing.assert_allclose(frame["synthetic_records"], counts, atol=PRINTED)


@pytest.mark.parametrize("name", [name for name, told in RELEASES.items() if told["finite"]])
def test_a_release_gives_its_finite_answers(name):
    release = fn.Release.read(SAMPLES / "releases" / name)
    answers = {
        question: [list(a.value) if isinstance(a.value, tuple) else a.value, a.output]
        for question, a in release.finite.items()
    }
    assert answers == RELEASES[name]["finite"]
    head, *rows = rows_of(SAMPLES / "releases" / name / "finite.csv")
    assert head == ["question", "part", "value", "moe", "hit_rate"]
    parts = [(a.name, str(i), str(v)) for a in release.finite.values() for i, v in enumerate(a.parts, 1)]
    assert [tuple(row[:3]) for row in rows] == parts
    for question in release.finite:
        assert release.posterior(question)["probability"].sum() == pytest.approx(1)


# --- the ledger -------------------------------------------------------------------------------------------------


def balances(book):
    """What the samples say of every account."""
    out = []
    for account in book.accounts():
        balance, entries = book.balance(account), book.entries(account)
        out.append(
            {
                "source": account.source,
                "unit": account.unit,
                "spent": None if balance.spent is None else str(balance.spent),
                "cap": None if balance.cap is None else str(balance.cap),
                "epsilon_spent": None if balance.epsilon_spent is None else str(balance.epsilon_spent),
                "epsilon_cap": None if balance.epsilon_cap is None else str(balance.epsilon_cap),
                "entries": len(entries),
                "kinds": [e.kind for e in entries],
                "head": [entries[-1].sequence, entries[-1].digest],
            }
        )
    return out


def account_of(source, unit="one person (at most 1 record), add-or-remove-one"):
    return fn.Account(source, unit)


def said(account, what):
    """A number that the samples say of an account."""
    (own,) = (a for a in EXPECTED["ledger"]["accounts"] if (a["source"], a["unit"]) == (account.source, account.unit))
    return optional(own[what])


def repeated(book, source, unit, times):
    """ρ of all charges to an account, each of so many changes of the unit: of pure ones by their ε."""
    charges = [e for e in book.entries(account_of(source, unit)) if e.kind == "charge"]
    exact = [times**2 * (e.rho if e.epsilon is None else e.epsilon**2 / 2) for e in charges]
    return sum((Fraction(math.ceil(x * 2**64), 2**64) for x in exact), Fraction(0))


def counted_together(book):
    """The balances of the samples, where one name has two units: what was charged for either counts for both.

    A visit may be three of a person's records, and three persons' changes make any change of a visit: 9 times ρ. Who
    replaces a record removes one and adds one: 4 times ρ; and nothing bounds for one who comes what replacing cost.
    """
    out = {(a["source"], a["unit"]): dict(a) for a in EXPECTED["ledger"]["accounts"]}
    spent = {key: Fraction(a["spent"]) for key, a in out.items()}
    (person, visit), (record, swap) = ([key for key in out if key[0] == name] for name in ("clinic", "village"))
    out[visit]["spent"] = str(spent[visit] + repeated(book, *person, 3))
    out[person] |= {"spent": str(spent[person] + spent[visit]), "epsilon_spent": None}
    out[record]["spent"], out[swap]["spent"] = None, str(spent[swap] + repeated(book, *record, 2))
    return list(out.values())


def test_the_ledger_is_whole_and_has_its_balances(ledger):
    head = tuple(EXPECTED["ledger"]["head"])
    with fn.Ledger(ledger) as book:
        assert book.verify(head) == head[0] == sum(a["entries"] for a in EXPECTED["ledger"]["accounts"])
        assert book.head() == head
        assert balances(book) == counted_together(book)
        assert {e.kind for e in book.entries()} == {"cap", "charge", "refusal"}
        for name, release in RELEASES.items():
            entry = book.entries()[release["entry"] - 1]
            assert (entry.kind, entry.detail["plan"]) == ("charge", PLANS[name]["hash"])
    with fn.Ledger(ledger) as book, pytest.raises(LedgerError, match="altered"):
        book.verify((head[0], "0" * 64))


def test_releases_on_the_same_records_cost_together_what_the_dearest_cell_costs(ledger):
    account = account_of("register")
    with fn.Ledger(ledger) as book:
        charged = book.charged(account)
        assert [c.plan for c in charged] == [PLANS[name]["hash"] for name in ("old", "women", "free")]
        alone = {e.detail["plan"]: e.rho for e in book.entries(account) if e.kind == "charge"}
        assert book.balance(account).spent < sum(alone.values())


def test_the_ledger_goes_on(ledger, tmp_path):
    """Old plans are released and charged again; what was spent, and the caps, still count."""
    head = tuple(EXPECTED["ledger"]["head"])
    homes, clinic = account_of("homes", "one home (at most 1 record), add-or-remove-one"), account_of("clinic")
    plans = {name: plan_of(name) for name in ("gaussian", "pure")}
    nobody = {name: np.zeros(p.publication.workload.domain.shape, dtype=int) for name, p in plans.items()}
    for name, plan in plans.items():
        with pytest.raises(BudgetExceeded):
            fn.release(plan, nobody[name], ledger=ledger)
    with fn.Ledger(ledger) as book:
        before, clinic_before = book.balance(homes).spent, book.balance(clinic).spent
        assert before == said(homes, "spent")
        book.set_cap(homes, Fraction(1, 3))
        book.set_cap(clinic, Fraction(10))  # visits were charged with a δ: no cap on ε can be kept any more
    again = fn.release(plans["gaussian"], nobody["gaussian"], ledger=ledger, directory=tmp_path / "again").charge
    assert told(fn.verify(tmp_path / "again")) == {}
    more = fn.release(plans["pure"], nobody["pure"], ledger=ledger).charge
    with fn.Ledger(ledger) as book:
        assert book.balance(homes).spent == before + again.rho
        assert book.balance(clinic).spent == clinic_before + more.rho
        visit = account_of("clinic", "one visit (at most 3 records), add-or-remove-one")
        assert more.price(visit).epsilon == 3 * more.epsilon
        kinds = ["refusal", "refusal", "cap", "cap", "charge", "charge"]
        assert [e.kind for e in book.entries()[head[0] :]] == kinds
        assert book.entries()[-2:] == [again, more]
        assert book.verify(head) == head[0] + len(kinds)


def test_new_plans_stand_beside_old_ones(ledger):
    account = account_of("register")
    old, women, free = (plan_of(name) for name in ("old", "women", "free"))
    workload = fn.Workload(
        old.publication.workload.domain, [fn.table("area", recode={"sex": {"men": ["m"]}}, margin=9)]
    )
    whose = {"unit": old.publication.unit, "source": old.publication.source}
    asked = fn.Publication(workload, **whose, beside=(old.hash, women.hash, free.hash))
    plan = fn.plan(asked)
    with fn.Ledger(ledger) as book:
        before = book.balance(account).spent
        charge = fn.release(plan, np.zeros(workload.domain.shape, dtype=int), ledger=book).charge
        assert before < book.balance(account).spent <= before + charge.rho
        assert charge.beside == asked.beside
        assert book.charged(account)[-1].plan == plan.hash
