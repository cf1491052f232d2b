"""Any sequence of caps and charges, by two handles on one file: the ledger says what its reference says."""

import math
import tempfile
from contextlib import nullcontext
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fitnoise.errors import BudgetExceeded
from fitnoise.kernel.ledger import GENESIS, Account, Ledger, rules
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.privacy import HALF_PI, pure_mu_squared
from fitnoise.kernel.units import Neighbours, PrivacyUnit
from reference_ledger import STEP, Cost, Reference
from refused import refused

ADD, REPLACE = Neighbours
OTHER_SOURCE = Account("recensement, 東京", PrivacyUnit("household", 1, REPLACE))
UNITS = [PrivacyUnit(), PrivacyUnit("person", 3), PrivacyUnit("person", 2, REPLACE), PrivacyUnit("record", 1, REPLACE)]
ONCE = [Account("survey", PrivacyUnit("person", 3, once_per=["month"]), (("month", x * 64),)) for x in "ab"]
SURVEY_ACCOUNTS = [*(Account("survey", unit) for unit in UNITS), *ONCE]
ACCOUNTS = [OTHER_SOURCE, *SURVEY_ACCOUNTS]
FIRST_ACCOUNT = ACCOUNTS[1]
TWINS = [Account("Survey", UNITS[0]), Account("survey", PrivacyUnit("pеrson", 3))]
AXES = [(("age", 3),), (("age", 3),), (("sex", 2),), (("sex", 2), ("age", 3)), ()]


def lists_of(*parts):
    return st.lists(st.tuples(*parts), min_size=1, max_size=5)


FINE, COARSE = Fraction(1, 2**20), Fraction(1)


def gaussian(costs, axes=None, precision=COARSE):
    """A cost of Gaussian noise, whose μ² is known where its lattice is fine."""
    rate = 2 / (1 - 4 * precision)
    return Cost(costs, axes, mu=None if precision is COARSE else (rate * max(costs), rate))


def laplace(epsilon, shares=(Fraction(1),), axes=()):
    """A cost that is pure. shares: of ε²/2, what its numbers cost in each cell."""
    costs = tuple(x * epsilon**2 / 2 for x in shares)
    mu = min(2 * HALF_PI * max(costs), pure_mu_squared(epsilon))
    return Cost(costs, axes, epsilon, (mu, 2 * HALF_PI))


def loss(cost):
    if cost.epsilon is not None:
        parts = {"by_cell": cost.axes is not None, "axes": cost.axes or (), "implied": cost.costs}
        return Loss.of_epsilon(cost.epsilon, **parts)
    precision = COARSE if cost.mu is None else FINE
    return (
        Loss.concentrated(*cost.costs, precision)
        if cost.axes is None
        else Loss.of_cells(cost.axes, cost.costs, precision)
    )


zero = st.just(Fraction(0))
amounts = st.sampled_from([*(Fraction(n, 24) for n in (3, 6, 8, 12, 24)), STEP / 3])


@st.composite
def profiles(draw):
    axes = draw(st.sampled_from(AXES))
    cells = math.prod(n for _, n in axes)
    costs = tuple(draw(st.lists(zero | amounts, min_size=cells, max_size=cells).filter(any)))
    return gaussian(costs, axes, draw(st.sampled_from([FINE, FINE, COARSE])))


@st.composite
def pure_profiles(draw):
    axes = draw(st.sampled_from(AXES))
    cells = math.prod(n for _, n in axes)
    shares = st.sampled_from([Fraction(n, 8) for n in (0, 1, 4, 8)])
    return laplace(draw(amounts), tuple(draw(st.lists(shares, min_size=cells, max_size=cells).filter(any))), axes)


pure = amounts.map(laplace) | amounts.map(lambda x: laplace(x, axes=None)) | pure_profiles()
unknown = st.builds(lambda x, c: gaussian((x,), None, c), amounts, st.sampled_from([FINE, COARSE]))
costs = st.one_of(profiles(), unknown, pure)
names = st.sampled_from(["anew"] * 4 + ["again", "not"])
places = st.lists(st.integers(0, 8), min_size=1, max_size=2)  # plans on the same records
handles = st.sampled_from([0, 1])
accounts = st.sampled_from([*ACCOUNTS, OTHER_SOURCE, OTHER_SOURCE, FIRST_ACCOUNT, FIRST_ACCOUNT])
stated = st.lists(
    st.sampled_from(SURVEY_ACCOUNTS), max_size=4, unique=True
)  # accounts of which a charge says what it costs
limits = zero | amounts | amounts.map(lambda x: 8 * x)
kinds = st.sampled_from(["rho", "epsilon", "mu_squared"])  # of caps
reasons = st.sampled_from(["", "décision du 3 mai"])


class Steps(RuleBasedStateMachine):
    """seen: what came of charges, over all runs. heads: all that the chain ever had."""

    seen: ClassVar = set()

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.db"
        self.ledgers = [Ledger(self.path), Ledger(self.path)]
        self.reference = Reference()
        self.heads = [(0, GENESIS)]
        self.plans = 0
        self.priced = 0

    def teardown(self):
        if self.plans:
            self.it_says_what_the_reference_says(ACCOUNTS)
        for ledger in self.ledgers:
            ledger.close()
        self.folder.cleanup()

    @initialize(
        account=st.sampled_from([FIRST_ACCOUNT, FIRST_ACCOUNT, FIRST_ACCOUNT, OTHER_SOURCE, ACCOUNTS[-1]]),
        costs=st.one_of(st.lists(x, min_size=2, max_size=3) for x in (profiles(), profiles(), pure)),
        caps=st.lists(st.tuples(kinds, limits), max_size=1),
    )
    def begin(self, account, costs, caps):
        for cost in costs:
            self.spend(0, account, cost)
        for kind, limit in caps:
            self.cap(1, account, kind, limit, is_extra=True, reason="")

    @rule(handle=handles, account=accounts, kind=kinds, limit=limits, is_extra=st.booleans(), reason=reasons)
    def cap(self, handle, account, kind, limit, is_extra, reason):
        now = self.now(account)
        caps = {kind: limit + is_extra * (now["spent" if kind == "rho" else f"{kind}_spent"] or 0)}
        if self.reference.unopened(account):
            with refused("ledger.cap-never-fits"):
                self.ledgers[handle].set_cap(account, **caps)
            self.seen.add("not opened")
            return
        self.reference.cap(account, **caps, reason=reason)
        self.record_head(self.ledgers[handle].set_cap(account, **caps, reason=reason))

    @rule(handle=handles, account=accounts, many=lists_of(costs, names) | lists_of(pure, names))
    def charge(self, handle, account, many):
        for cost, name in many:
            self.spend(handle, account, cost, name)

    @rule(
        handle=handles,
        units=stated.filter(bool),
        costs=st.lists(profiles() | pure, min_size=4, max_size=4),
        position=places,
    )
    def charge_every_unit(self, handle, units, costs, position):
        """Charge the first unit its own price, and state the prices of the others. All are pure, or none."""
        fit = [cost for cost in costs if (cost.epsilon is None) is (costs[0].epsilon is None)]
        charged, *others = zip(units, fit, strict=False)
        self.spend(handle, charged[0], charged[1], "anew", (), also=dict(others))
        if charged[1].table and charged[0] == FIRST_ACCOUNT:
            self.spend(handle, FIRST_ACCOUNT, charged[1], "anew", position, also=dict(others))

    @rule(handle=handles, twin=st.sampled_from(TWINS), cost=costs)
    def ask_under_a_name_that_reads_the_same(self, handle, twin, cost):
        accounts = self.reference.accounts(FIRST_ACCOUNT)
        if accounts and (twin.source != "survey" or any(a.unit.name == "person" for a in accounts)):
            for ask in (self.ledgers[handle].quote, lambda a, x: self.ledgers[handle].charge(a, x, {})):
                with refused("ledger.account-looks-alike"):
                    ask(twin, loss(cost))
            self.seen.add("twin")

    @rule(handle=handles, account=accounts, many=lists_of(profiles(), names, places), limit=st.none() | zero | amounts)
    def charge_composed(self, handle, account, many, limit):
        if limit is not None:
            self.cap(handle, account, "rho", limit, is_extra=True, reason="")
        for cost, name, where in many:
            self.spend(handle, account, cost, name, where)

    @rule(handle=handles, account=accounts, cost=costs, where=places | st.just([]), max_increase=zero | amounts)
    def charge_unless_it_adds_more(self, handle, account, cost, where, max_increase):
        self.spend(handle, account, cost, "anew", where, max_increase)

    @rule(handle=handles, account=accounts)
    def charge_the_last(self, handle, account):
        """All that remains, where the caps of other units allow it, and after that not the least bit more."""
        now = self.now(account)
        if now["epsilon_cap"] is not None:
            remaining = max(now["epsilon_cap"] - (now["epsilon_spent"] or 0), Fraction(0))  # caps may fall below
            last, extra = laplace(remaining), laplace(Fraction(1, 10**200))
        elif now["mu_squared_cap"] is not None:
            remaining = (now["mu_squared_cap"] - (now["mu_squared_spent"] or 0)) * (1 - 4 * FINE) / 2 // STEP * STEP
            last, extra = gaussian((remaining,), None, FINE), gaussian((2 * STEP,), None, FINE)
        else:
            remaining = (now["remaining"] or 0) // STEP * STEP
            last, extra = gaussian((remaining,)), gaussian((STEP / 3,))
        full = remaining <= 0 or not now["fits"]
        if not full:
            full = self.spend(handle, account, last) == "charge"
            assert full or account is not OTHER_SOURCE
        if full and now["cap"] is not None:
            assert self.spend(handle, account, extra) == "refusal"

    @rule(handle=handles)
    def open_again(self, handle):
        self.ledgers[handle].close()
        self.ledgers[handle] = Ledger(str(self.path))

    @invariant()
    def it_says_of_some_account_what_the_reference_says(self):
        account = ACCOUNTS[len(self.reference.lines) % len(ACCOUNTS)]
        self.it_says_what_the_reference_says([account], since=self.priced)
        self.priced = len(self.reference.charges)

    def it_says_what_the_reference_says(self, accounts, since=0):
        """Compare all entries, some balances, and the prices of all charges but the first ones."""
        lines = self.reference.lines
        ledger, other = self.ledgers[:: 1 if len(lines) % 2 else -1]
        entries = ledger.entries()
        assert [{key: getattr(e, key) for key in line} for e, line in zip(entries, lines, strict=True)] == lines
        assert [vars(other.balance(a)) for a in accounts] == [self.now(a) for a in accounts]
        accounts = [a for a in accounts if a != OTHER_SOURCE]
        entries_of_charges = [e for e in entries if e.kind == "charge"]
        charges = list(zip(entries_of_charges, self.reference.charges, strict=True))[since:]
        charges = [(e, c) for e, c in charges if c.account != OTHER_SOURCE]
        priced = [[p and p.rho for p in map(e.price, accounts)] for e, _ in charges]
        assert priced == [[x and x.rho for x in map(c.under, accounts)] for _, c in charges]
        assert other.accounts() == self.reference.all_accounts()
        assert other.head() == self.heads[-1]
        assert other.verify(expected_head=self.heads[len(lines) // 2]) == len(lines)
        account = ACCOUNTS[len(lines) % 3 != 0]
        assert other.entries(account) == [e for e in entries if e.account == account]
        same_records = self.reference.joint_charges(account)
        if isinstance(same_records, str):
            with refused(same_records):
                ledger.charged(account)
        else:
            expected = [(c.plan, c.profile.axes, [x * STEP for x in c.profile.values]) for c in ledger.charged(account)]
            assert sorted(expected) == sorted((c.plan, *c.cost.table) for c in same_records)

    # --- how ----------------------------------------------------------------------------------------------

    def now(self, account):
        return self.reference.balance(account)

    def last_plans(self, account, places):
        """Return some of the last plans charged to the account, and now and then one that may not exist."""
        charged = [c.plan for c in self.reference.charges_to(account) if c.plan][-5:]
        return [charged[i % len(charged)] if i < 8 and charged else f"{self.plans:064x}" for i in places]

    def record_head(self, entry):
        self.heads.append((entry.sequence, entry.digest))

    def spend(self, handle, account, cost, name="anew", places=(), max_increase=None, also=()):
        """Quote by one handle, which changes nothing, and charge by the other."""
        plans, (repeated,) = self.last_plans(account, places), self.last_plans(account, [0])
        self.plans += 1
        plan = {"anew": f"{self.plans:064x}", "again": repeated, "not": None}[name]
        fault, content = self.reference.fault(account, cost, plans), self.path.read_bytes()
        stated = {other: loss(x) for other, x in dict(also).items()}
        with refused(fault) if fault else nullcontext():
            quote = self.ledgers[1 - handle].quote(account, loss(cost), also=stated, composed_with=tuple(plans))
            assert vars(quote) == self.reference.quote(account, cost, plans, also)
        assert self.path.read_bytes() == content
        if not fault and max_increase is not None and quote.increase > max_increase:
            fault = "ledger.free-plan-costs"
        kind = fault or self.reference.charge(account, cost, plan, plans, also)
        full = pytest.raises(BudgetExceeded) if kind == "refusal" else nullcontext()
        with refused(fault) if fault else full as caught:
            detail = {} if plan is None else {"plan": plan}
            self.ledgers[handle].charge(
                account, loss(cost), detail, also=stated, composed_with=plans, at_most=max_increase
            )
        if kind == "refusal":
            assert f"Entry {len(self.reference.lines)} records this refusal." in caught.value.action
        if fault:
            self.seen.add(fault)
        else:
            self.record_head(self.ledgers[handle].entries()[-1])
            cap = "none" if quote.cap is None else "ε" if quote.epsilon_cap is not None else "ρ"
            cap = "μ" if quote.mu_squared_cap is not None else cap
            grows = "grows" if quote.increase > 0 else "does not grow"
            self.seen.add((kind, cap, grows if plans else "alone"))
            others = [self.now(a) for a in self.reference.accounts(account) if a != account]
            if kind == "refusal" and not caught.value.slug.startswith("over-"):
                self.seen.add("no bound")
            if any(a["spent"] is None for a in others):
                self.seen.add("infinite")
            if kind == "refusal" and f"({account.sentence})" not in str(caught.value):
                self.seen.add("refused for another")
        if kind == "charge":
            self.promised(account)
        return kind

    def promised(self, account):
        """Check that the rules of the constitution hold for the reference itself after every charge."""
        for opened in self.reference.accounts(account):
            now = self.now(opened)
            charges = [c.under(opened) for c in self.reference.charges if c.account.source == opened.source]
            assert now["fits"]
            if now["epsilon_cap"] is not None:
                assert sum(c.epsilon for c in charges) <= now["epsilon_cap"]
            elif now["mu_squared_cap"] is not None:
                assert max(c.mu_squared for c in charges) <= now["mu_squared_spent"] <= now["mu_squared_cap"]
            elif now["cap"] is not None:
                assert now["spent"] <= now["cap"]
            if now["spent"] is None:
                assert None in charges
                continue
            assert max(c.rho for c in charges) <= now["spent"] <= sum(c.rho for c in charges)
            if now["epsilon_spent"] is not None:
                assert now["spent"] <= now["epsilon_spent"] ** 2 / 2 + len(charges) * STEP
            if now["mu_squared_spent"] is not None:
                assert now["mu_squared_spent"] <= sum(c.mu_squared for c in charges)


@pytest.mark.slow
def test_a_ledger_says_what_its_reference_says(monkeypatch):
    """Each step reads the chain again and checks its digests; equal rows are parsed once."""
    monkeypatch.setattr(rules, "parse_entry", cache(rules.parse_entry))
    bounds = settings(phases=[Phase.generate], max_examples=240, stateful_step_count=12, derandomize=True)
    run_state_machine_as_test(Steps, settings=bounds)


HALF, ONE = Fraction(1, 2), Fraction(1)
FLAT = gaussian((HALF,), (), FINE)
LAPLACE = laplace(HALF)


def of_no_cap(steps):
    peaks = [gaussian([HALF * (cell == i) for cell in range(3)], AXES[0], FINE) for i in range(3)]
    steps.begin(FIRST_ACCOUNT, [peaks[0]], [])
    steps.charge_composed(
        0, FIRST_ACCOUNT, [(peaks[1], "anew", [0]), (FLAT, "anew", [0]), (peaks[2], "not", [0])], None
    )
    steps.charge_composed(0, FIRST_ACCOUNT, [(FLAT, "anew", [8])], None)
    steps.charge_unless_it_adds_more(0, FIRST_ACCOUNT, FLAT, [], Fraction(0))
    steps.ask_under_a_name_that_reads_the_same(0, TWINS[0], FLAT)


def of_units_that_bound_nothing(steps):
    steps.begin(SURVEY_ACCOUNTS[3], [FLAT], [])
    steps.cap(0, FIRST_ACCOUNT, "rho", ONE, is_extra=False, reason="")
    steps.charge(0, FIRST_ACCOUNT, [(FLAT, "anew")])
    steps.charge(0, SURVEY_ACCOUNTS[3], [(FLAT, "anew")])


def of_a_cap_on_rho(steps):
    steps.begin(FIRST_ACCOUNT, [FLAT], [])
    steps.charge(0, SURVEY_ACCOUNTS[1], [(FLAT, "anew")])
    steps.cap(0, FIRST_ACCOUNT, "rho", ONE, is_extra=True, reason="")
    steps.charge(0, FIRST_ACCOUNT, [(FLAT, "anew")])
    steps.charge_composed(0, FIRST_ACCOUNT, [(gaussian((2 * ONE,), (), FINE), "anew", [0])], None)
    steps.charge_the_last(0, FIRST_ACCOUNT)
    steps.charge(0, SURVEY_ACCOUNTS[1], [(FLAT, "anew")])
    steps.charge(0, ONCE[0], [(FLAT, "anew")])


def of_a_cap_on_epsilon(steps):
    steps.begin(FIRST_ACCOUNT, [LAPLACE, LAPLACE], [("epsilon", ONE)])
    steps.charge(0, FIRST_ACCOUNT, [(LAPLACE, "anew"), (FLAT, "anew")])
    steps.charge_the_last(0, FIRST_ACCOUNT)


def of_a_cap_on_mu(steps):
    steps.begin(FIRST_ACCOUNT, [FLAT, FLAT], [("mu_squared", 4 * ONE)])
    steps.charge(0, FIRST_ACCOUNT, [(FLAT, "anew")])
    steps.charge_the_last(0, FIRST_ACCOUNT)


def test_the_steps_lead_to_every_outcome():
    """The random steps can reach every outcome that they compare."""
    Steps.seen.clear()
    for take in (of_no_cap, of_units_that_bound_nothing, of_a_cap_on_rho, of_a_cap_on_epsilon, of_a_cap_on_mu):
        steps = Steps()
        try:
            take(steps)
            steps.it_says_what_the_reference_says(ACCOUNTS)
        finally:
            steps.teardown()
    outcomes = {("charge", cap, "alone") for cap in ("none", "ρ", "ε", "μ")}
    outcomes |= {("refusal", cap, "alone") for cap in ("ρ", "ε", "μ")}
    outcomes |= {("charge", "none", "grows"), ("charge", "none", "does not grow"), ("refusal", "ρ", "grows")}
    outcomes |= {"ledger.composed-plan-not-charged", "ledger.free-plan-costs", "ledger.account-beside-cap"}
    outcomes |= {"not opened", "twin", "infinite", "no bound", "refused for another"}
    assert outcomes - Steps.seen == set()
