"""Series in the kernel: rows by period, one charge, one draw of each, frozen counts; and what is refused."""

import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fitnoise as fn
from designs import cells_over, of_margins, of_sectors
from fitnoise.errors import BudgetExceeded, DataError, LedgerError
from fitnoise.kernel import answer_files as answers
from fitnoise.kernel import disk
from fitnoise.kernel import series as periods
from fitnoise.kernel.counting import SealedCounter
from fitnoise.kernel.counting.sealed import UNSEALED
from fitnoise.kernel.ledger import Account, DrawnPeriod, Ledger
from fitnoise.kernel.measure import Measurement, Stages, measure, sealed
from fitnoise.kernel.order import DeclaredSize, Order
from fitnoise.kernel.periods import Series
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.series import draw, read_answers, redraw, touched
from fitnoise.kernel.units import DataSource
from laws.counting import HistogramCounter
from refused import refused
from replayed_noise import Replay

DOMAIN = fn.Domain(a0=fn.Ordered(1, 3), a1=fn.Ordered(1, 2), o0=fn.Ordered(1, 3), o1=fn.Ordered(0, 1))
CELLS = cells_over((3, 2), 3, 2)

MIXED_ROWS = [[1, 0, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0], [3, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 1]]
"""Rows over o0 (the periods) and o1: two of the first, two of the second, one of the third."""

STRATEGY = of_sectors(
    CELLS,
    (MIXED_ROWS, {(): (np.tril(np.ones((5, 5), dtype=int)).tolist(), 20.0)}),
    (
        [[1, 1, 0, 0, 0, 0], [1, 0, 2, 0, 0, 0], [0, 0, 0, 0, 1, 1]],
        {(0,): ([[1, 0, 0], [2, 1, 0], [1, 0, 3]], 30.0), (1,): ([[2, 0, 0], [0, 1, 0], [0, 1, 1]], 40.0)},
    ),
)


def order(*designs, unit=None, **options):
    options = {"plan": "5" * 64, "mechanism": "test design", "source": DataSource("people")} | options
    return Order(
        DOMAIN.axes, options.pop("source"), unit or fn.PrivacyUnit("person", 3, once_per=["o0"]), designs, **options
    )


SERIES = Series(order(STRATEGY), "o0")

COUNTS = np.random.default_rng(1).integers(0, 50, DOMAIN.shape)


def counter(counts=COUNTS):
    return HistogramCounter(counts, DOMAIN.axes)


def records_of(period, counts=COUNTS):
    """The records of one period."""
    here = np.zeros_like(counts)
    here[:, :, period - 1] = counts[:, :, period - 1]
    return counter(here)


def spent(book):
    return book.balance(SERIES.order.account).spent


@pytest.fixture
def book(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


def draw_periods(series, book, folder, upto, source=None, counts=COUNTS):
    return [draw(series, t, records_of(t, counts), book, folder, noise=source or Replay()) for t in range(1, upto + 1)]


def joint_answers(series, results):
    """The answers of all periods in the order of the strategy: by group, sector by sector, and there by row."""
    out = []
    for g in series.strategy.groups:
        sectors = []
        for i in range(len(g)):
            position, parts = tuple(g.attributes[i].tolist()), []
            for design, measured in zip(series.designs, results, strict=True):
                for h, values in zip(design.groups, measured.answers[0], strict=True):
                    if tuple(h.attributes[0].tolist()) == position:
                        parts.append(values.reshape(-1, h.rank))
            sectors.append(np.concatenate(parts, axis=1).ravel())
        out.append(np.concatenate(sectors))
    return out


def test_the_rows_of_all_periods_are_those_of_the_strategy_and_touch_no_later_period(book, folder):
    """Exact answers, as all records at once give them; the sectors here have their rows in order of time."""
    results = draw_periods(SERIES, book, folder, 3)
    at_once = measure(order(STRATEGY, plan="6" * 64), counter(), book, noise=Replay()).answers[0]
    for mine, theirs in zip(joint_answers(SERIES, results), at_once, strict=True):
        assert mine.tolist() == theirs.tolist()
    squares = np.zeros(6, dtype=object)
    for t, design in enumerate(SERIES.designs):
        for g in design.groups:
            assert not g.basis.reshape(-1, 3, 2)[:, t + 1 :].any()
            assert g.basis.reshape(-1, 3, 2)[:, t].any(axis=1).all()
        squares = squares + np.array(design.profile(), dtype=object)
    assert squares.tolist() == list(STRATEGY.profile())


def test_a_period_is_drawn_of_its_own_records_and_those_frozen_before(book, folder):
    """Records of other periods in the data, and corrections of earlier ones, change nothing."""
    first_period = draw(SERIES, 1, counter(), book, folder, noise=Replay(3))
    second_period = draw(SERIES, 2, counter(COUNTS * [[7], [1], [0]]), book, folder, noise=Replay(3))
    with Ledger(folder.parent / "other.db") as other:
        separate = draw_periods(SERIES, other, folder.parent / "other", 2, Replay(3))
    for one, two in zip((first_period, second_period), separate, strict=True):
        assert [x.tolist() for x in one.answers[0]] == [x.tolist() for x in two.answers[0]]


def test_all_of_it_is_charged_at_the_first_period_and_nothing_at_any_other(book, folder):
    price = ceil_dyadic(SERIES.order.loss.rho)
    for t in (1, 2, 3):
        entry = draw(SERIES, t, records_of(t), book, folder, noise=Replay()).charge
        assert entry.kind == ("charge" if t == 1 else "period")
        assert (entry.drawn_period.period, spent(book)) == (t, price)
    assert [e.sequence for e in book.series(SERIES.order.account, SERIES.order.plan)] == [1, 3, 5]
    assert book.series(SERIES.order.account, "6" * 64) == []
    with Ledger(folder.parent / "ledger.db") as reopened:
        assert reopened.verify() == 6


def test_every_draw_is_requested_once_with_the_scale_of_its_sector(book, folder):
    source = Replay()
    draw_periods(SERIES, book, folder, 3, source)
    rest = [(30.0, 3), (40.0, 1)]
    runs = {1: [(20.0, 2), *rest], 2: [(20.0, 2), *rest], 3: [(20.0, 1), *rest]}
    assert source.requests == [("gaussian", *x) for period in (1, 2, 3) for x in runs[period]]


def check_refused(book, folder, call, code):
    before, files = book.head(), sorted((p.name, p.stat().st_mtime_ns) for p in folder.glob("*"))
    with refused(code) as caught:
        call()
    assert ("othing was charged" in str(caught.value)) or "nothing was charged" in str(caught.value)
    assert book.head() == before
    assert sorted((p.name, p.stat().st_mtime_ns) for p in folder.glob("*")) == files


def test_a_period_is_not_drawn_twice_nor_out_of_turn(book, folder):
    source = Replay(draws=poisoned)
    check_refused(
        book, folder, lambda: draw(SERIES, 2, records_of(2), book, folder, noise=source), "ledger.period-not-next"
    )
    draw_periods(SERIES, book, folder, 2)
    for t, code in (
        (1, "ledger.period-drawn-before"),
        (2, "ledger.period-drawn-before"),
        (4, "ledger.period-not-next"),
        (0, "ledger.period-not-next"),
    ):
        check_refused(book, folder, lambda t=t: draw(SERIES, t, counter(), book, folder, noise=source), code)
    other = Series(order(STRATEGY, plan="6" * 64), "o0")  # a changed plan
    check_refused(
        book, folder, lambda: draw(other, 3, records_of(3), book, folder, noise=source), "ledger.period-not-next"
    )
    refused(
        book,
        folder,
        lambda: draw(other, 1, records_of(1), book, folder, noise=source),
        DataError,
        "data.series-folder-foreign-file",
    )
    drawn_all = draw(SERIES, 3, records_of(3), book, folder, noise=Replay())
    assert drawn_all.charge.drawn_period.period == 3
    check_refused(
        book, folder, lambda: draw(SERIES, 4, records_of(3), book, folder, noise=source), "ledger.period-not-next"
    )


def poisoned(scale, size):
    raise AssertionError("noise was drawn")


@pytest.mark.parametrize("what", ["flipped", "cut", "gone", "others can read", "no folder", "another file"])
def test_what_is_frozen_is_as_it_was_or_nothing_is_drawn(book, folder, what):
    draw_periods(SERIES, book, folder, 1)
    (path,) = folder.glob("*.frozen")
    assert path.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    code = "data.frozen-counts-altered"
    if what == "flipped":
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    elif what == "cut":
        path.write_bytes(path.read_bytes()[:-8])
    elif what == "gone":
        path.unlink()
    elif what == "others can read":
        folder.chmod(0o750)
        code = "data.series-folder-open"
    elif what == "no folder":
        folder.rename(folder.with_name("elsewhere"))
        code = "data.series-folder-missing"
    else:
        (folder / "notes.txt").touch()
        code = "data.series-folder-foreign-file"
    source = Replay(draws=poisoned)
    check_refused(book, folder, lambda: draw(SERIES, 2, records_of(2), book, folder, noise=source), code)
    assert [e.sequence for e in touched(SERIES, book, folder)] == [1] * (
        what in ("flipped", "cut", "gone", "no folder")
    )


def test_counts_of_another_version_are_not_read(book, folder, monkeypatch):
    """The digest is right, and they are counts of something else: only a program that counts otherwise does that."""
    draw_periods(SERIES, book, folder, 1)
    monkeypatch.setattr(periods, "_head", lambda series, period: b"another")
    check_refused(
        book, folder, lambda: draw(SERIES, 2, records_of(2), book, folder), "data.frozen-counts-other-version"
    )


@pytest.mark.parametrize("drawn_before", [0, 1, 2, 3])
def test_one_period_is_next_and_no_other(drawn_before):
    for period in range(-1, 6):
        if period == drawn_before + 1 <= 3:
            periods._refuse_turn(SERIES, period, drawn_before)
            continue
        code = "ledger.period-drawn-before" if 1 <= period <= drawn_before else "ledger.period-not-next"
        with refused(code):
            periods._refuse_turn(SERIES, period, drawn_before)


@pytest.mark.parametrize("margins", [[("o0", "a0")], [("o0",), ("o0", "o1"), ("a0", "o0", "a1"), ("a1", "o0")]])
def test_counts_are_thawed_as_they_were_frozen_and_no_others(folder, monkeypatch, rng, margins):
    """Integers of 64 bits are read; fewer, more or other values are refused, for any digest."""
    folder.mkdir()
    shapes = [tuple(DOMAIN.sizes[a] for a in m if a != "o0") for m in margins]
    counts = [rng.integers(2**62, 2**63 - 1, shape) for shape in shapes]
    entry = SimpleNamespace(drawn_period=DrawnPeriod(2, periods._freeze(SERIES, folder, 2, counts)))
    results = periods._thawed(SERIES, folder, entry, margins)
    assert all(x.dtype == np.int64 for x in results)
    assert [x.tolist() for x in results] == [x.tolist() for x in counts]
    for less in ([*margins, ("o0",)], margins[:-1] or [("o0",)], [*margins[:-1], ("o0", "a0", "a1", "o1")]):
        with refused("data.frozen-counts-other-version"):
            periods._thawed(SERIES, folder, entry, less)
    head = periods._head(SERIES, 2)
    monkeypatch.setattr(periods, "_head", lambda *_: head[:-1] + b"\1")
    with refused("data.frozen-counts-other-version"):
        periods._thawed(SERIES, folder, entry, margins)


def test_a_place_for_the_folder_is_there(book, folder):
    inside = folder / "below"
    check_refused(book, folder, lambda: draw(SERIES, 1, records_of(1), book, inside), "data.series-folder-missing")


def test_an_old_copy_of_the_ledger_does_not_draw_again(tmp_path, folder):
    with Ledger(tmp_path / "old.db"):
        pass
    with Ledger(tmp_path / "ledger.db") as book:
        draw_periods(SERIES, book, folder, 1)
    with Ledger(tmp_path / "old.db") as book:
        check_refused(
            book, folder, lambda: draw(SERIES, 1, records_of(1), book, folder), "data.series-folder-foreign-file"
        )


def test_a_folder_of_a_series_whose_answers_are_lost_is_no_other_series(book, folder):
    draw_periods(SERIES, book, folder, 1)
    next(folder.glob("*.drawn")).unlink()
    other = Series(order(STRATEGY, plan="6" * 64), "o0")
    check_refused(book, folder, lambda: draw(other, 1, records_of(1), book, folder), "data.series-folder-foreign-file")


def test_a_series_that_does_not_fit_is_refused_before_anything_is_counted(book, folder):
    book.set_cap(SERIES.order.account, SERIES.order.loss.rho / 2)
    with pytest.raises(BudgetExceeded):
        draw(SERIES, 1, Poisoned(), book, folder)
    assert list(folder.iterdir()) == []
    assert spent(book) == 0


class Poisoned(HistogramCounter):
    def __init__(self):
        super().__init__(COUNTS, DOMAIN.axes)

    def count(self, margins, progress=None):
        raise AssertionError("records were read")


def test_counts_that_were_made_elsewhere_are_drawn(book, folder, tmp_path):
    content = sealed(SERIES.order, counter(), None)
    assert content.startswith(UNSEALED)
    (tmp_path / "counts").write_bytes(content)
    there = SealedCounter(tmp_path / "counts", DOMAIN.axes, SERIES.order.source)
    one = draw(SERIES, 1, there, book, folder, noise=Replay())
    assert spent(book) == ceil_dyadic(SERIES.order.loss.rho)
    assert [x.tolist() for x in one.answers[0]] == [x.tolist() for x in separately_drawn(tmp_path, 1)[0].answers[0]]


def separately_drawn(tmp_path, upto, source=None):
    with Ledger(tmp_path / "alone.db") as book:
        return draw_periods(SERIES, book, tmp_path / "alone", upto, source)


def test_what_was_drawn_is_kept_and_read_again(book, folder):
    results = draw_periods(SERIES, book, folder, 2, Replay(5))
    read = read_answers(SERIES, book, folder)
    for one, two in zip(results, read, strict=True):
        assert one.charge == two.charge
        assert [x.tolist() for x in one.answers[0]] == [x.tolist() for x in two.answers[0]]
        assert [x.dtype for x in two.answers[0]] == [np.dtype(np.int64)] * 3
    path = sorted(folder.glob("*.drawn"))[1]
    path.write_bytes(path.read_bytes().replace(b"[[", b"[[1"))
    with refused("ledger.kept-answers-altered"):
        read_answers(SERIES, book, folder)


def test_answers_above_64_bits_are_stored_in_full(book, folder):
    strategy = of_sectors(CELLS, (np.diag([2**61] * 6).tolist(), {(): (np.eye(6, dtype=int).tolist(), 2.0**50)}))
    series = Series(order(strategy), "o0")
    draw(series, 1, counter(), book, folder, noise=Replay())
    (one,) = read_answers(series, book, folder)
    (values,) = one.answers[0]
    assert values.dtype == object
    assert values.tolist() == [2**61 * int(x) for x in COUNTS[:, :, 0].sum(axis=(0, 1))]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], np.int64),
        ([-(2**63), 2**63 - 1], np.int64),
        ([0, 2**63], object),
        ([0, -(2**63) - 1], object),
        ([2**70, 1], object),
    ],
)
def test_what_is_read_again_is_of_64_bits_where_all_of_it_fits(values, kind):
    read = answers._numbers(values)
    assert (read.dtype, read.tolist()) == (kind, values)


def test_a_period_whose_answers_are_lost_is_drawn_again_for_its_own_price(book, folder):
    draw_periods(SERIES, book, folder, 2)
    check_refused(book, folder, lambda: redraw(SERIES, 2, book, folder), "ledger.period-not-lost")
    for t in (0, 3):
        check_refused(book, folder, lambda t=t: redraw(SERIES, t, book, folder), "ledger.period-not-lost")
    sorted(folder.glob("*.drawn"))[1].unlink()
    lost = read_answers(SERIES, book, folder)[1]
    assert (lost.kind, lost.drawn_period.period) == ("period", 2)
    results = redraw(SERIES, 2, book, folder, noise=Replay())
    assert results.charge.rho == ceil_dyadic(SERIES.designs[1].loss(SERIES.order.adjacency).rho)
    assert spent(book) == ceil_dyadic(SERIES.order.loss.rho) + results.charge.rho
    assert 0 < results.charge.rho < SERIES.order.loss.rho
    assert read_answers(SERIES, book, folder)[1].charge == results.charge
    third = draw(SERIES, 3, records_of(3), book, folder, noise=Replay())
    separate = separately_drawn(folder.parent, 3)
    for one, two in zip((results, third), separate[1:], strict=True):
        assert [x.tolist() for x in one.answers[0]] == [x.tolist() for x in two.answers[0]]


def test_a_series_is_charged_to_every_unit_that_it_concerns(book, folder):
    """Before anything is counted, at its first period, and where one is drawn again."""
    household = fn.PrivacyUnit("household", 6)
    series, other = Series(order(STRATEGY, units=(household,)), "o0"), Account("people", household)
    cap = ceil_dyadic(series.order.cost(household).rho)
    book.set_cap(series.order.account, Fraction(10**9))
    book.set_cap(other, cap - Fraction(1, 2**64))
    with pytest.raises(BudgetExceeded):
        draw(series, 1, Poisoned(), book, folder)
    book.set_cap(other, cap)
    assert draw(series, 1, records_of(1), book, folder, noise=Replay()).charge.price(other).rho == cap
    next(folder.glob("*.drawn")).unlink()
    once_more = ceil_dyadic(series.redraw_order(1).cost(household).rho)
    book.set_cap(other, cap + once_more - Fraction(1, 2**64))
    with pytest.raises(BudgetExceeded):
        redraw(series, 1, book, folder)
    book.set_cap(other, cap + once_more)
    assert redraw(series, 1, book, folder, noise=Replay()).charge.price(other).rho == once_more
    assert book.balance(other).spent == cap + once_more


def test_a_series_reports_its_counting_and_salts_what_it_writes_down(book, folder):
    reports = []
    one = draw(SERIES, 1, records_of(1), book, folder, progress=reports.append, noise=Replay()).charge
    assert reports[-1] == 1
    next(folder.glob("*.drawn")).unlink()
    salts = [x.detail["salt"] for x in (one, redraw(SERIES, 1, book, folder, noise=Replay()).charge)]
    assert all(re.fullmatch("[0-9a-f]{32}", salt) for salt in salts)
    assert salts[0] != salts[1]


def test_a_folder_that_is_gone_is_not_made_to_draw_again(book, folder):
    draw_periods(SERIES, book, folder, 1)
    folder.rename(folder.with_name("elsewhere"))
    check_refused(book, folder, lambda: redraw(SERIES, 1, book, folder), "data.series-folder-missing")
    assert not folder.exists()


def test_what_others_left_of_a_period_is_removed_when_it_was_drawn(book, folder):
    folder.mkdir(mode=0o700)
    for name in (f"0001-{'a' * 64}.frozen", f"0001d-{'b' * 16}.unfinished", f"0002-{'a' * 64}.frozen"):
        (folder / name).touch()
    draw_periods(SERIES, book, folder, 1)
    assert sorted(p.suffix for p in folder.iterdir() if p.name.startswith("0001")) == [".drawn", ".frozen"]
    assert len(list(folder.iterdir())) == 3


def test_a_folder_that_cannot_be_written_to_stops_it_before_the_charge(book, folder, monkeypatch):
    real, placed = disk.Draft.move_to, []
    with monkeypatch.context() as patched:
        patched.setattr(disk.os, "fsync", failing)
        with refused("ledger.answers-not-kept"):
            draw(SERIES, 1, records_of(1), book, folder)

    def fail_once(self, path):
        return real(self, path) if placed else placed.append(path) or failing(path)

    monkeypatch.setattr(disk.Draft, "move_to", fail_once)
    with refused("data.frozen-counts-not-kept"):
        draw(SERIES, 1, records_of(1), book, folder)
    assert spent(book) == 0
    assert not list(folder.iterdir())


def test_a_disk_that_is_full_after_the_charge_leaves_the_charge_stated(book, folder, monkeypatch):
    real, stages = disk.Draft.move_to, Stages()
    for moment in ("write", "place"):
        with monkeypatch.context() as patched:
            if moment == "place":
                patched.setattr(
                    disk.Draft, "move_to", lambda self, p: real(self, p) if p.suffix != ".drawn" else failing(p)
                )
            else:
                patched.setattr(answers, "serialise", lambda *_: failing(None))
            call = (
                partial(redraw, SERIES, 1) if book.entries() else partial(draw, SERIES, 1, records_of(1), stages=stages)
            )
            with pytest.raises((LedgerError, OSError)):
                call(ledger=book, folder=folder, noise=Replay())
    assert stages.charge == book.entries()[0] == read_answers(SERIES, book, folder)[0]
    assert [e.kind for e in book.entries()] == ["charge"]
    redraw(SERIES, 1, book, folder, noise=Replay())
    assert spent(book) == ceil_dyadic(SERIES.order.loss.rho)  # no answers of this plan were published: it costs nothing
    assert isinstance(read_answers(SERIES, book, folder)[0], Measurement)


def failing(handle):
    raise OSError(28, "no space left")


def test_where_folders_have_no_modes_none_is_looked_at(book, folder, monkeypatch):
    monkeypatch.setattr(periods.sys, "platform", "win32")
    folder.mkdir(mode=0o755)
    assert draw(SERIES, 1, records_of(1), book, folder, noise=Replay()).charge.sequence == 1


ID = {"id": "who"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (lambda: (order(STRATEGY, STRATEGY), "o0"), "plan.series-needs-period-tables"),
        (lambda: (order(of_margins(cells_over((3,), 2), 1.0, ((0,), [[1, 2]]))), "o0"), "plan.made-for-another-domain"),
        (lambda: (order(STRATEGY), "a0"), "plan.series-needs-period-tables"),
        (lambda: (order(STRATEGY, unit=fn.PrivacyUnit(neighbours="replace-one")), "o0"), "spec.neighbours-invalid"),
        (lambda: (order(STRATEGY, composed_with=("7" * 64,)), "o0"), "plan.series-plan-unsuitable"),
        (lambda: (order(STRATEGY, sizes=(DeclaredSize(5, False),)), "o0"), "plan.series-plan-unsuitable"),
        (lambda: (order(STRATEGY, free=True), "o0"), "plan.series-plan-unsuitable"),
        (lambda: (order(STRATEGY, unit=fn.PrivacyUnit("p", 3, **ID)), "o0"), "plan.series-bound-across-periods"),
        (
            lambda: (order(STRATEGY, unit=fn.PrivacyUnit("p", 2, once_per=["o0"], **ID)), "o0"),
            "plan.series-bound-across-periods",
        ),
        (
            lambda: (order(STRATEGY, unit=fn.PrivacyUnit("p", 6, once_per=["o1"], **ID)), "o0"),
            "plan.series-bound-across-periods",
        ),
        (
            lambda: (order(STRATEGY, unit=fn.PrivacyUnit("p", 3, once_per=["o0"], fixed=["o1"], **ID)), "o0"),
            "plan.series-bound-across-periods",
        ),
        (
            lambda: (order(STRATEGY, unit=fn.PrivacyUnit("p", 3, separation={"o0": 2}, **ID)), "o0"),
            "plan.series-bound-across-periods",
        ),
        (
            lambda: (order(of_sectors(CELLS, (MIXED_ROWS[:4], {(): (np.eye(4, dtype=int).tolist(), 20.0)}))), "o0"),
            "plan.series-period-empty",
        ),
    ],
)
def test_what_is_no_series_is_refused(arguments, code):
    with refused(code):
        Series(*arguments())


def test_rows_above_62_bits_are_refused():
    mixing = np.diag([2**40] * 6).tolist()
    wide = of_sectors(CELLS, (np.diag([2**40] * 6).tolist(), {(): (mixing, 20.0)}))
    with refused("plan.sector-basis-not-integers"):
        Series(order(wide), "o0")


def test_what_was_computed_before_is_not_believed(book, folder):
    believed = Series(order(STRATEGY), "o0")
    believed.order.__dict__["loss"] = LOSS + LOSS
    believed.order.designs[0].__dict__["_profile"] = (Fraction(1),) * 6
    assert draw(believed, 1, records_of(1), book, folder, noise=Replay()).charge.rho == ceil_dyadic(LOSS.rho)


def test_an_attribute_with_levels_is_no_period():
    places = fn.Hierarchy(["county", "town"], [("a", "x"), ("a", "y"), ("b", "z")])
    domain = fn.Domain(o=places)
    strategy = of_sectors(
        cells_over((), 3), (np.eye(3, dtype=int).tolist(), {(): (np.eye(3, dtype=int).tolist(), 9.0)})
    )
    base = Order(domain.axes, DataSource(), fn.PrivacyUnit(), (strategy,), plan="1" * 64, mechanism="test design")
    with refused("plan.series-period-has-levels"):
        Series(base, "o")


@pytest.mark.parametrize(
    "unit",
    [
        fn.PrivacyUnit("p", 3, once_per=["o0"], **ID),
        fn.PrivacyUnit("p", 6, per_value={"o0": 2}, **ID),
        fn.PrivacyUnit("p", 7, once_per=["o0", "o1"], **ID),
        fn.PrivacyUnit("p", 2),
    ],
)
def test_an_id_that_keeps_its_promise_in_each_period_is_a_series(unit):
    assert Series(order(STRATEGY, unit=unit), "o0").periods == 3


# --- the ledger -----------------------------------------------------------------------------------------

LOSS = SERIES.order.loss

HASH, OTHER = "a" * 64, "b" * 64


def test_the_ledger_keeps_the_turns_of_a_series(book):
    adjacency, detail = SERIES.order.account, {"plan": "p"}
    for wrong, code in (
        (lambda: book.period(adjacency, "p", DrawnPeriod(1, HASH)), "ledger.series-not-charged-first"),
        (lambda: book.period(adjacency, "p", DrawnPeriod(2, HASH)), "ledger.series-not-in-turn"),
        (lambda: book.charge(adjacency, LOSS, detail, drawn_period=DrawnPeriod(2, HASH)), "ledger.series-not-in-turn"),
        (lambda: book.charge(adjacency, LOSS, {}, drawn_period=DrawnPeriod(1, HASH)), "ledger.entry-invalid"),
        (lambda: book.charge(adjacency, LOSS, {**detail, "series": 1}), "ledger.detail-has-own-keys"),
    ):
        with refused(code):
            wrong()
    book.charge(adjacency, LOSS, detail, drawn_period=DrawnPeriod(1, HASH))
    for wrong, code in (
        (
            lambda: book.charge(adjacency, LOSS, detail, drawn_period=DrawnPeriod(1, OTHER)),
            "ledger.series-counts-differ",
        ),
        (
            lambda: book.charge(adjacency, LOSS, detail, drawn_period=DrawnPeriod(2, OTHER)),
            "ledger.series-not-charged-first",
        ),
        (lambda: book.period(adjacency, "p", DrawnPeriod(1, HASH)), "ledger.series-not-in-turn"),
        (lambda: book.period(adjacency, "q", DrawnPeriod(2, HASH)), "ledger.series-not-in-turn"),
        (lambda: book.charge(adjacency, LOSS, {"plan": "x"}, composed_with=("p",)), "ledger.composed-plan-a-series"),
    ):
        with refused(code):
            wrong()
    book.period(adjacency, "p", DrawnPeriod(2, OTHER))
    book.charge(adjacency, LOSS, detail, drawn_period=DrawnPeriod(1, HASH))  # again
    assert [(e.sequence, e.drawn_period.period) for e in book.series(adjacency, "p")] == [(3, 1), (2, 2)]
    assert book.balance(adjacency).spent == 2 * ceil_dyadic(LOSS.rho)


def test_nothing_is_composed_with_a_series(book):
    record = order(STRATEGY, unit=fn.PrivacyUnit())
    book.charge(record.account, record.ledger_loss(), {"plan": "p"}, drawn_period=DrawnPeriod(1, HASH))
    with refused("ledger.composed-plan-a-series"):
        book.charge(record.account, record.ledger_loss(), {"plan": "q"}, composed_with=("p",))


@pytest.mark.parametrize("wrong", [(0, HASH), (True, HASH), (1, "a"), (1, None)])
def test_what_is_drawn_is_a_number_and_a_digest(wrong):
    with refused("ledger.period-not-named"):
        DrawnPeriod(*wrong)


@pytest.mark.parametrize("document", [None, {}, {"period": 1}, {"period": 1, "frozen": HASH, "more": 1}])
def test_what_is_drawn_is_written_in_one_way(document):
    with refused("ledger.period-not-readable"):
        DrawnPeriod.parse(document)


# --- killed ---------------------------------------------------------------------------------------------

KILLED = """
import itertools, os, sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
import test_periods as made
from fitnoise.kernel.ledger import Ledger

root, events = Path({root!r}), {{"open", "os.mkdir", "os.rename", "os.remove", "sqlite3.connect"}}

def twice(place):
    with Ledger(place / "ledger.db") as book:
        made.draw_periods(made.SERIES, book, place / "state", 2, made.Replay(9))

real = os.fsync
for moment in itertools.count(1):
    place = root / str(moment)
    place.mkdir()
    child = os.fork()
    if not child:
        left = [moment]
        def step(event, _):
            if event in events:
                left[0] -= 1
                if not left[0]:
                    os._exit(9)
        def synced(handle):
            real(handle)
            step("open", None)
        os.fsync = synced
        sys.addaudithook(step)
        twice(place)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


@pytest.mark.slow
def test_killed_at_any_write_the_state_is_complete_and_no_period_is_drawn_twice(tmp_path):
    """After each kill the next call goes on where the ledger is, and draws what was charged, at no price."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    program = KILLED.format(tests=str(Path(__file__).parent), root=str(tmp_path))
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    places = sorted((p for p in tmp_path.iterdir()), key=lambda p: int(p.name))
    seen = []
    for folder_killed in places:
        with Ledger(folder_killed / "ledger.db") as book:
            book.verify()
            folder, account = folder_killed / "state", SERIES.order.account
            entries = book.series(account, SERIES.order.plan)
            assert spent(book) in (0, ceil_dyadic(SERIES.order.loss.rho))
            assert bool(spent(book)) == bool(entries)
            results = read_answers(SERIES, book, folder) if entries else []
            lost = [i for i, x in enumerate(results, 1) if x in entries]
            before = spent(book)
            seen.append((len(entries), len(lost)))
            for t in lost:
                with refused("ledger.period-drawn-before"):
                    draw(SERIES, t, records_of(t), book, folder)
                redraw(SERIES, t, book, folder, noise=Replay(9))
            assert spent(book) == before  # no answers of this plan were published: to draw it costs nothing
            for t in range(len(entries) + 1, 4):
                draw(SERIES, t, records_of(t), book, folder, noise=Replay(9))
            assert [e.drawn_period.period for e in book.series(account, SERIES.order.plan)] == [1, 2, 3]
            answers = [[x.tolist() for x in m.answers[0]] for m in read_answers(SERIES, book, folder)]
            assert {p.suffix for p in folder.iterdir()} == {".frozen", ".drawn"}
            assert len(list(folder.iterdir())) == 6
        seen[-1] = (*seen[-1], json.dumps(answers))
    assert len({x for *_, x in seen}) == 1
    assert {(n, lost) for n, lost, _ in seen} >= {(0, 0), (1, 0), (1, 1), (2, 1), (2, 0)}
