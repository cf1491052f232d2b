"""Warnings that a plan, an account or a cap protects almost no one: above the threshold and on every surface."""

import json
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.interfaces.pages import report
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.ledgers import ledger_report
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.messages import english
from fitnoise.planning.protection import ALMOST_CERTAIN_GUESS, warnings
from fitnoise.reading.registry import registry_record
from fitnoise.reading.verification import verify
from fitnoise.request.curves import best_guess
from fitnoise_studio.page_parts import render_part
from laws.releases import answered
from laws.reports import in_words

PRESENCE = (
    "Warning: this plan protects almost no one. An attacker can guess the presence of one record in the data in up to "
    "100.00% of cases"
)

ON_PAGES = PRESENCE.replace("%", "\u202f%")


def planned(rho, **options):
    """A plan of one table whose price is ρ for one record."""
    sides = fn.Domain(side=fn.Categorical(["left", "right"]))
    return fn.plan(fn.Workload(sides, [fn.table("side", variance=1 / (2 * rho))]), **options)


def warning_texts(plan):
    """Return the warnings about the protection of a plan in English."""
    return [*map(english, warnings(plan))]


def texts(what):
    return " ".join(lines(what))


def test_a_plan_of_rho_1_9_million_is_warned_of_everywhere(tmp_path):
    """Detects a surface without the warning: screen, documents, release, report in both languages, notebook."""
    plan = planned(1.9e6)
    assert plan.rho == pytest.approx(1.9e6, rel=1e-3)
    assert warning_texts(plan) == [PRESENCE]
    released = fn.release(plan, np.array([3, 4]), ledger=tmp_path / "ledger.sqlite", directory=tmp_path / "r")
    for what in (plan_report(plan), release_report(released)):
        assert texts(what).count(PRESENCE) == 1
        assert document(what)["warnings"] == [PRESENCE]
    charge = json.loads((tmp_path / "r" / "release.json").read_text(encoding="utf-8"))["charge"]
    assert in_words(charge["warnings"]) == [PRESENCE]
    assert verify(tmp_path / "r").ok
    assert PRESENCE in registry_record(released)["deployment"]["privacy_loss"]["privacy_parameters_details"]
    for what in (plan, released):
        assert f'<p class="warning">{ON_PAGES}.</p>' in report.page(what)
        german = "Warnung: Dieser Plan schützt fast niemanden. Ein Angreifer errät in bis zu 100,00\u202f% der Fälle"
        assert f'<p class="warning">{german}, ob eine Einheit („record“) in den Daten vorkommt.</p>' in (
            report.page(what, language="de")
        )
        assert ON_PAGES in what._repr_html_()


def test_a_release_without_its_warning_is_not_verified(tmp_path):
    fn.release(planned(1.9e6), np.array([3, 4]), ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    path = tmp_path / "r" / "release.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["charge"]["warnings"]
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    assert not verify(tmp_path / "r").ok


def test_the_threshold_is_that_of_the_best_guess():
    """Φ(μ/2) > 0.99 is ρ > 10.82: plans just below and just above, of Gaussian noise."""
    edge = 2 * NormalDist().inv_cdf(ALMOST_CERTAIN_GUESS) ** 2  # ρ = μ²/2, μ = 2 Φ⁻¹(0.99)
    assert edge == pytest.approx(10.824, abs=1e-3)
    below, above = planned(edge * 0.999), planned(edge * 1.001)
    assert below.loss_summary.best_guess <= ALMOST_CERTAIN_GUESS < above.loss_summary.best_guess
    assert (warning_texts(below), len(warning_texts(above))) == ([], 1)
    assert document(plan_report(below))["warnings"] == []
    assert 'class="warning"' not in report.page(below)
    assert document(release_report(answered(below)))["warnings"] == []


def test_replaced_records_and_other_units_are_warned_of_in_their_own_words():
    """A person is protected, and a household of many is not: the warning names the household alone."""
    public = fn.KnownTotals((), "Register", "these data")
    replaced = planned(1e4, unit=fn.PrivacyUnit("person", 1, neighbours=fn.Neighbours.REPLACE_ONE), public=public)
    (warning,) = warning_texts(replaced)
    assert "can guess the answer of one person, from two possible ones, in up to 100.00% of cases" in warning
    several = planned(1.0, unit=fn.PrivacyUnit("person", 1), other_units=[fn.PrivacyUnit("household", 9)])
    (warning,) = warning_texts(several)
    assert "the presence of one household in the data" in warning


def test_pure_plans_are_warned_of_by_their_epsilon():
    sides = fn.Domain(side=fn.Categorical(["left", "right"]))
    for epsilon, warned in ((4.5, 0), (4.7, 1)):  # e^ε/(1 + e^ε) = 0.99 at ε = 4.595
        table = fn.table("side", std_error=math.sqrt(2) / epsilon)
        plan = fn.plan(fn.Workload(sides, [table]), privacy="pure")
        assert plan.epsilon() == pytest.approx(epsilon, rel=1e-2)
        assert len(warning_texts(plan)) == warned


def test_accounts_and_caps_are_warned_of(tmp_path):
    """Spent and cap are judged each by itself, whichever kind of cap it is."""
    plan, path = planned(4.0), tmp_path / "ledger.sqlite"
    released = "the releases so far protect almost no one"
    with fn.Ledger(path) as ledger:
        account = plan.order.account
        for cap, warned in (
            ({"rho": Fraction(10)}, False),
            ({"rho": Fraction(11)}, True),
            ({"epsilon": Fraction(9, 2)}, False),
            ({"epsilon": Fraction(5)}, True),
            ({"mu_squared": Fraction(20)}, False),
            ({"mu_squared": Fraction(23)}, True),
            ({"rho": Fraction(10) ** 200}, True),
        ):
            ledger.set_cap(account, **cap, reason="a test")
            printed = texts(ledger_report([], [ledger.balance(account)], ledger.head()))
            assert ("this cap protects almost no one" in printed) is warned, cap
            assert released not in printed
    for number, warned in ((1, False), (2, False), (3, True)):  # ρ 4, 8, 12
        fn.release(plan, np.array([3, 4]), ledger=path, directory=tmp_path / str(number), again=True)
        with fn.Ledger(path) as ledger:
            balance = ledger.balance(account)
            report_ = ledger_report(ledger.entries(), [balance], ledger.head())
        assert (released in texts(report_)) is warned
        guess = document(report_)["balances"][0]["spent_guess"]
        assert guess == best_guess(balance.spent, balance.mu_squared_spent)
        assert guess == pytest.approx(NormalDist().cdf(math.sqrt(8 * number) / 2), abs=1e-4)


def test_the_studio_price_carries_the_warning():
    for rho, warned in ((1.9e6, True), (1.0, False)):
        price = render_part("price", "en", plan=planned(rho), proven=4, left=None)
        assert (f'<p class="warning">{ON_PAGES}.</p>' in price) is warned
