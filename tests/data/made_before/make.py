"""Samples of what version 0.1.0 wrote before its rooms were moved: plans of format 2, and releases of them.

They were made with the code of commit 4b71c84, the last one before the move, checked out beside the repository:

    git worktree add ../before 4b71c84
    PYTHONPATH=../before/src python tests/data/made_before/make.py tests/data/made_before

Since then three of the plans were rewritten, with their releases and the chain of the ledger, for a notation that was
given up: values of ordered attributes in lists of one or of three ([2, 3, 4] is [2, 4] now, and [0] is 0).

They are kept to be read, never to be made again: running this with later code would only show that it reads its own
writing. Nothing in them is about anyone: the records are random numbers. Noise is drawn afresh each time.
"""

import json
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fitnoise as fn

RNG = np.random.default_rng(20261122)
REPLACE = fn.Neighbours.REPLACE_ONE
ONE_DELTA = fn.Budget(epsilon=1.0, delta=1e-6)
HOMES = {"unit": fn.PrivacyUnit("home"), "source": fn.DataSource("homes")}
CLINIC = {"unit": fn.PrivacyUnit("person"), "source": fn.DataSource("clinic")}
VILLAGE = fn.DataSource("village")
PEOPLE = 40

AREAS = fn.Domain(
    area=fn.Categorical({1: "Île, north", 2: "01", 3: "NA"}),
    heated=fn.Categorical([True, False]),
    rent=fn.Binned([100, 250.5, 1000]),
    rooms=fn.Ordered(0, 4, clip=True, column="number of rooms"),
    unused=fn.Ordered(1, 2),
)
SMALL = fn.Domain(area=fn.Categorical(["n", "e", "s"]), age=fn.Ordered(0, 3), sex=fn.Categorical(["f", "m"]))
YOUNG, OLD = {"young": [0, 1]}, {"old": [2, 3]}
TINY = fn.Domain(age=fn.Ordered(0, 5), kind=fn.Categorical(["x", "y"]))


def gaussian() -> fn.Workload:
    """Every view and every way to state a target, on attributes that are alike by value and on others."""
    return fn.Workload(
        AREAS,
        [
            fn.table("area", "heated", margin=15),
            fn.table("heated", prefix="rent", margin=fn.By("rent", [20, 22, 24, 30]), name="rents, added up"),
            fn.table("area", recode={"rooms": {"few": [0, 1], "many": [2, 3, 4]}}, std_error=8, confidence=0.9),
            fn.table(ranges={"rooms": [(1, 2), (2, 4)]}, variance=50),
            fn.table("area", max_deviation=40),
            fn.table("rent", cv=0.05, reference=fn.PublicTotal(1000)),
            fn.all_tables(2, ["area", "heated", "rooms"], margin=fn.BySize(12, 0.5, least=20, most=60), name="pairs"),
            fn.table(margin=10),
        ],
        confidence=0.95,
    )


def marginals() -> fn.Workload:
    """Marginals only."""
    return fn.Workload(
        SMALL,
        [fn.table("area", "age", margin=4), fn.table("age", "sex", margin=6), fn.table("area", "sex", margin=5)],
    )


def prefixes() -> fn.Workload:
    """Prefixes of an ordered attribute, by an unordered one."""
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 15))
    return fn.Workload(domain, [fn.table("sex", prefix="age", margin=5), fn.table(prefix="age", margin=4)])


def tiny(**target: Any) -> fn.Workload:
    """For small databases."""
    return fn.Workload(
        TINY, [fn.table("kind", prefix="age", **(target or {"margin": 4})), fn.table("kind", variance=1)]
    )


def homes(*tables: Any) -> fn.Workload:
    """Tables of the domain whose plans stand beside each other."""
    return fn.Workload(SMALL, tables)


FEW = 6
"""Records that every one of the questions allows."""
QUESTIONS = (
    fn.FiniteQuery.count("women", people=PEOPLE, epsilon=Fraction(1, 3), where={"sex": "f"}),
    fn.FiniteQuery.counts(
        "by age", people=9, epsilon=1, where=[{"age": [0, 1]}, {"age": 2}], prior=tuple(i / 1485 for i in range(55))
    ),
    fn.FiniteQuery.counts("beside each other", people=FEW, epsilon=Fraction(1, 2), where=[{"age": 0}, {"sex": "m"}]),
    fn.FiniteQuery.sum("all ages", "age", people=12, epsilon=1, where={"sex": "f", "area": ["n", "s"]}),
    fn.FiniteQuery.sum("ages, in noise", "age", people=30, epsilon=Fraction(1, 2)),
    fn.FiniteQuery.sum(
        "ages, by a program", "age", people=FEW, epsilon=Fraction(1, 2), aim="mean-absolute-error", where={"sex": "m"}
    ),
    fn.FiniteQuery.median("usual age", "age", people=PEOPLE, epsilon=Fraction(3, 4)),
    fn.FiniteQuery.sum("ages, geometric", "age", people=PEOPLE, epsilon=Fraction(1, 2), aim="mean-absolute-error"),
)
LARGE = (
    fn.FiniteQuery.sum("many ages", "age", people=1366, epsilon=3),
    fn.FiniteQuery.counts("many at once", people=64, epsilon=6, where=[{"age": 0}, {"sex": "m"}]),
    fn.FiniteQuery.sum("many ages, little said", "age", people=1366, epsilon=Fraction(1, 3)),
)


def first_plans() -> Iterator[tuple[str, fn.Plan]]:
    """Those that stand for themselves."""
    cap = fn.Budget(rho=1)
    yield "gaussian", fn.plan(gaussian(), **HOMES, cap=cap, gap=1e-5, title="Homes, for everyone")
    yield "prefixes", fn.plan(prefixes(), source=fn.DataSource("prefixes"), delta=1e-9)
    whole = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [1, 1, 1, 1, -2]])
    yield "matrix", fn.plan(fn.matrix_workload(whole, variances=[1, 4, 9, 30, 2]), refine=True)
    yield "matrix of reals", fn.plan(fn.matrix_workload(RNG.normal(size=(6, 4)), std_errors=2.0, name="reals"))
    wide = fn.DataSource("multitude", max_records=2**62)
    ones = np.vstack([np.eye(3, dtype=int), np.ones((1, 3), dtype=int)])
    yield "wide integers", fn.plan(fn.matrix_workload(ones, variances=[0.5, 1, 2, 3]), source=wide)
    for name, budget in (
        ("rho", fn.Budget(rho=Fraction(1, 28))),
        ("mu", fn.Budget(mu=0.5)),
        ("epsilon", fn.Budget(epsilon=0.7, delta=1e-7)),
    ):
        yield f"budget {name}", fn.plan(marginals(), budget=budget)
    shares = fn.CellBudgets(("age", "sex"), (1, 0.5, 1, 1, 0.25, 0.75, 1, 1))
    yield "cell budgets", fn.plan(marginals(), cell_budgets=shares, refine=True)
    total = fn.Objective(fn.Goal.TOTAL_ERROR, fn.ErrorWeights.INVERSE_VARIANCE)
    yield "total error", fn.plan(marginals(), objective=total)
    yield "total error, budget", fn.plan(prefixes(), objective=fn.Objective(fn.Goal.TOTAL_ERROR), budget=ONE_DELTA)
    yield "hybrid", fn.plan(marginals(), objective=fn.Objective(fn.Goal.HYBRID, fn.ErrorWeights.INVERSE_STD_ERROR, 0.3))
    several = fn.PrivacyUnit("household", 2, REPLACE)
    yield "replace one", fn.plan(prefixes(), unit=fn.PrivacyUnit("person", 1, REPLACE))
    yield (
        "replace two",
        fn.plan(homes(fn.table("area", "sex", margin=6), fn.table(prefix="age", margin=9)), unit=several),
    )
    drop = fn.DataSource("clinic", table="visits", outside_domain=fn.OutsideDomain.DROP)
    yield "drop", fn.plan(marginals(), unit=fn.PrivacyUnit("visit", 3), source=drop)
    names = [f"a{i:02}" for i in range(11)]
    pairs = fn.all_tables(2, names, variance=[5 + i for i in range(55)])
    many = fn.Workload(fn.Domain({a: fn.Ordered(0, 1 + i % 3) for i, a in enumerate(names)}), [pairs])
    yield "many scales", fn.plan(many, source=fn.DataSource("survey"))

    yield "pure", fn.plan(marginals(), **CLINIC, privacy="pure")
    yield "pure prefixes", fn.plan(prefixes(), privacy="pure", epsilon=Fraction(1, 2))
    yield "pure, replace two", fn.plan(marginals(), privacy="pure", unit=several, cap=fn.Budget(epsilon=Fraction(50)))
    yield "auto", fn.plan(marginals(), privacy="auto", epsilon=1)

    yield "gaussian, finite", fn.plan(marginals(), source=fn.DataSource("club"), finite=QUESTIONS)
    yield "pure, finite", fn.plan(marginals(), **CLINIC, privacy="pure", epsilon=Fraction(1, 2), finite=QUESTIONS[::3])
    yield "large finite", fn.plan(homes(fn.table("sex", margin=9)), source=fn.DataSource("club"), finite=LARGE)
    exactly = (
        fn.FiniteQuery.count("women", people=PEOPLE, epsilon=1, where={"sex": "f"}),
        fn.FiniteQuery.sum("all ages", "age", people=PEOPLE, epsilon=Fraction("0.9")),
    )
    one = fn.PrivacyUnit("person", 1, REPLACE)
    yield "finite, replace one", fn.plan(marginals(), unit=one, finite=exactly)

    small = fn.SmallDatabase(PEOPLE)
    yield "projection", fn.plan(tiny(), budget=ONE_DELTA, small=small, source=VILLAGE)
    given = fn.SmallDatabase(PEOPLE, "exactly", index=3, temperature=0.05)
    yield "projection, exactly", fn.plan(tiny(), budget=ONE_DELTA, unit=one, small=given, source=VILLAGE)
    paper = fn.SmallDatabase(PEOPLE, variant="paper", index=2)
    yield "projection of the paper", fn.plan(tiny(), budget=ONE_DELTA, small=paper, source=VILLAGE)
    usual = fn.FiniteQuery.median("usual age", "age", people=PEOPLE, epsilon=Fraction(1, 2))
    nearest = fn.SmallDatabase(PEOPLE, index=2, temperature=0.0)
    asked = {"budget": fn.Budget(rho=Fraction(1, 10)), "small": nearest, "finite": [usual]}
    yield "projection, finite", fn.plan(tiny(margin=2), **asked, source=VILLAGE)


def plans() -> dict[str, fn.Plan]:
    """All of them: also those that are measured on the records of others."""
    made = dict(first_plans())
    rest = {"unit": fn.PrivacyUnit("person"), "source": fn.DataSource("register")}
    old = homes(fn.table("area", "sex", recode={"age": OLD}, margin=6), fn.table("area", recode={"age": OLD}, margin=5))
    women = homes(fn.table("area", recode={"sex": {"women": ["f"]}}, margin=8))
    made["old"] = fn.plan(old, **rest)
    made["women"] = fn.plan(fn.Publication(women, **rest, beside=(made["old"].hash,)))
    young = homes(
        fn.all_tables(1, ["area"], recode={"age": YOUNG, "sex": {"men": ["m"]}}, margin=2),
        fn.table(recode={"age": YOUNG, "sex": {"men": ["m"]}}, margin=1),
    )
    made["free"] = fn.free(young, [made["old"], made["women"]])
    return made


def records(domain: fn.Domain, n: int) -> pd.DataFrame:
    """Random records, in the columns that the attributes are read from."""
    codes = {name: a.codes if isinstance(a, fn.Categorical) else a.values for name, a in domain.items()}
    frame = {domain[name].column or name: RNG.choice(np.array(c), n) for name, c in codes.items()}
    for name, a in domain.items():
        if isinstance(a, fn.Binned):
            frame[a.column or name] = RNG.uniform(0, 1.5 * max(a.cuts), n)
    return pd.DataFrame(frame)


def releases(made: dict[str, fn.Plan], folder: Path) -> dict[str, Any]:
    """Release some of the plans, all charged to one ledger; and say what is in them beside tables."""
    ledger = folder / "ledger.sqlite"
    home = fn.Account("homes", "one home (at most 1 record), add-or-remove-one")
    clinic = fn.Account("clinic", "one person (at most 1 record), add-or-remove-one")
    with fn.Ledger(ledger) as book:
        book.set_cap(home, Fraction(1, 3), reason="été")
        book.set_cap(clinic, epsilon=Fraction(40))
        book.set_cap(fn.Account("register", clinic.unit), Fraction(2))
    visits = records(SMALL, 50).astype(object)
    visits.iloc[:4] = [["n", 9, "f"], ["w", 1, "f"], ["e", None, "m"], ["s", 2, "x"]]
    crowd = (RNG.integers(2**58, 2**60, size=3)).astype(np.int64)
    few, register = records(SMALL, FEW), records(SMALL, 300)
    people, villagers, club = records(SMALL, PEOPLE), records(TINY, PEOPLE), records(SMALL, 60)
    data = {
        "gaussian": records(AREAS, 400),
        "wide integers": crowd,
        "replace two": register,
        "drop": visits,
        "many scales": records(made["many scales"].publication.workload.domain, 60),
        "pure": people,
        "pure, finite": few,
        "gaussian, finite": few,
        "large finite": club,
        "projection": villagers.iloc[:-5],
        "projection, exactly": villagers,
        "projection of the paper": villagers,
        "projection, finite": villagers,
        "old": register,
        "women": register,
        "free": register,
    }
    chosen = {"many scales": ["a00 by a05"]}
    told = {}
    for name, own in data.items():
        place = folder / "releases" / slug(name)
        release = fn.release(made[name], own, ledger=ledger, directory=place, tables=chosen.get(name))
        finite = {question: [answer.value, answer.output] for question, answer in release.finite.items()}
        told[slug(name)] = {"entry": release.charge.sequence, "finite": finite}
    with fn.Ledger(ledger) as book:  # from here on, no more than the same again less a little
        book.set_cap(home, book.balance(home).spent * Fraction(19, 10), reason="enough")
        book.set_cap(clinic, epsilon=Fraction(book.balance(clinic).epsilon_spent or 0) + Fraction(1, 1000))
    for name in ("gaussian", "pure"):
        try:
            fn.release(made[name], data[name], ledger=ledger)
        except fn.FitnoiseError as error:
            print(f"refused, as it must be: {error}")  # noqa: T201
        else:
            raise AssertionError(f"{name!r} was to be refused")
    return told


def slug(name: str) -> str:
    """A name for files."""
    return name.replace(",", "").replace(" ", "_")


def expected(made: dict[str, fn.Plan], released: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a reader is to find."""
    with fn.Ledger(folder / "ledger.sqlite") as book:
        head = list(book.head())
        balances = [(account, book.balance(account), book.entries(account)) for account in book.accounts()]
    return {
        "plans": {
            slug(name): {
                "hash": plan.hash,
                "exact_rho": str(plan.exact_rho),
                "exact_epsilon": None if plan.exact_epsilon is None else str(plan.exact_epsilon),
                "exact_cost": str(plan.exact_cost),
                "bound": plan.bound,
                "value": plan.value,
                "epsilon": plan.epsilon(1e-6),
                "tables": len(plan.tables),
            }
            for name, plan in made.items()
        },
        "releases": released,
        "ledger": {
            "head": head,
            "accounts": [
                {
                    "source": account.source,
                    "unit": account.unit,
                    "spent": str(balance.spent),
                    "cap": None if balance.cap is None else str(balance.cap),
                    "epsilon_spent": None if balance.epsilon_spent is None else str(balance.epsilon_spent),
                    "epsilon_cap": None if balance.epsilon_cap is None else str(balance.epsilon_cap),
                    "entries": len(entries),
                    "kinds": [e.kind for e in entries],
                    "head": [entries[-1].sequence, entries[-1].digest],
                }
                for account, balance, entries in balances
            ],
        },
    }


def main(folder: Path) -> None:
    """Make everything anew in a folder that has none of it."""
    made = plans()
    (folder / "plans").mkdir(parents=True)
    for name, plan in made.items():
        digits = plan.bound / 10 ** (math.floor(math.log10(plan.bound)) - 9)
        # a bound is stated to ten digits: where it lies between two of them another machine would write the other
        assert abs(digits % 1 - 0.5) > 1e-3, name
        (folder / "plans" / f"{slug(name)}.json").write_text(plan.to_json(), encoding="utf-8", newline="")
    released = releases(made, folder)
    text = json.dumps(expected(made, released, folder), indent=1, ensure_ascii=False) + "\n"
    (folder / "expected.json").write_text(text, encoding="utf-8", newline="")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
