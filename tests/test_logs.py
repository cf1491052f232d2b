"""The records of fitnoise's loggers: they report the steps of a job, and nothing that depends on the data."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fitnoise as fn
from fitnoise.kernel import noise
from refused import SECRET, refused
from replayed_noise import Replay

STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime"}
"""The attributes that every record has, such as its time and its thread."""

COUNTS = {"red": 7919, "blue": 104_729}
"""Numbers of records that no record of a log has by chance."""

DROPPED = 6007

PLAN = fn.plan(
    fn.Workload(fn.Domain(colour=fn.Categorical([*COUNTS])), [fn.table("colour", margin=20)]),
    source=fn.DataSource("people", outside_domain=fn.OutsideDomain.DROP),
)

SERIES = fn.plan(
    fn.Workload(
        fn.Domain(colour=fn.Categorical([*COUNTS]), month=fn.Ordered(1, 2)), [fn.table("colour", "month", margin=20)]
    ),
    source=fn.DataSource("people", outside_domain=fn.OutsideDomain.DROP),
    series="month",
)


def save_inputs():
    """Write both plans and records for each into the current directory."""
    PLAN.save("plan.json")
    SERIES.save("series.json")
    Path("people.csv").write_text("colour\nred\nblue\n")
    Path("months.csv").write_text("colour,month\nred,1\nblue,2\n")


def people(added=0):
    """Return a frame of people; `added` of one label are added."""
    numbers = COUNTS | {SECRET: DROPPED}
    labels = np.repeat([*numbers], [*numbers.values()])
    return pl.DataFrame({"colour": np.append(labels, ["blue"] * added), "month": 1})


@pytest.fixture
def collected(caplog):
    """Return a function that clears the collected records and returns them, from all loggers and at all levels."""
    caplog.set_level(logging.DEBUG)

    def read():
        records = [
            (x.name, x.levelname, x.getMessage(), {k: v for k, v in vars(x).items() if k not in STANDARD})
            for x in caplog.records
        ]
        arguments = [repr(x.args) for x in caplog.records]
        caplog.clear()
        return [x for x in records if x[0].partition(".")[0] == "fitnoise"], [*map(repr, records), *arguments]

    return read


def data_sources(added=0):
    """Yield the same people as a frame of Polars and of pandas, as files, and in a database."""
    frame = people(added)
    yield frame
    yield frame.to_pandas()
    frame.write_csv("people.csv")
    yield "people.csv"
    frame.write_parquet("people.parquet")
    yield "people.parquet"


def test_records_report_the_steps_of_a_release(tmp_path, monkeypatch, collected):
    monkeypatch.chdir(tmp_path)
    fn.release(PLAN, people(), ledger="b.sqlite", directory="r")
    reported, _ = collected()
    assert {(name, level) for name, level, *_ in reported} == {("fitnoise.publishing", "INFO")}
    assert [x["event"] for *_, x in reported] == [
        "release-started", "stage", "data-opened", "stage", "stage", "charged", "stage", "released",
    ]  # fmt: skip
    assert reported[0][3] == {"event": "release-started", "plan": PLAN.hash, "ledger": "b.sqlite"}
    assert [x["stage"] for *_, x in reported if x["event"] == "stage"] == [
        "opening the data",
        "rehearsing without data",
        "counting, charging and measuring",
        "writing the tables",
    ]
    assert reported[5][2:] == ("entry 1 is charged", {"event": "charged", "entry": 1, "plan": PLAN.hash})
    assert reported[-1][3] == {"event": "released", "entry": 1, "directory": "r"}
    fn.release(PLAN, people(), ledger="b.sqlite", directory="r")
    reported, _ = collected()
    assert reported[-1][3] == {"event": "release-found", "plan": PLAN.hash, "directory": "r"}
    with fn.Ledger("b.sqlite") as book:  # its path is absolute, and the caller gave none
        fn.release(PLAN, people(), ledger=book, again=True)
    reported, _ = collected()
    assert (reported[0][3]["ledger"], reported[-1][3]["directory"]) == (None, None)


def test_records_report_a_charge_that_is_finished(tmp_path, monkeypatch, collected):
    monkeypatch.chdir(tmp_path)

    def struck(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(noise, "discrete_gaussians", struck)
        with pytest.raises(MemoryError):
            fn.release(PLAN, people(), ledger="b.sqlite", directory="r")
    collected()
    fn.release(PLAN, people(), ledger="b.sqlite", directory="r")
    reported, _ = collected()
    assert {"event": "charge-found", "plan": PLAN.hash, "entry": 1} in [x for *_, x in reported]


def test_records_report_plans_counts_and_periods(tmp_path, monkeypatch, collected):
    monkeypatch.chdir(tmp_path)
    plan = fn.plan(PLAN.publication)
    reported, _ = collected()
    extra = {"event": "plan-made", "plan": plan.hash, "rho": plan.rho}
    assert reported == [("fitnoise.planning", "INFO", f"made plan {plan.hash}", extra)]
    fn.count(PLAN, people(), "counts", unsealed=True)
    assert [x["event"] for *_, x in collected()[0]] == ["stage", "data-opened", "stage", "counts-written"]
    fn.release(SERIES, people(), ledger="b.sqlite", series="state", period=1)
    fn.read_period(SERIES, 1, ledger="b.sqlite", series="state")
    assert collected()[0][-1][3] == {"event": "period-read", "period": 1, "plan": SERIES.hash}


def test_plans_of_a_silent_logger_have_no_hash_computed(monkeypatch):
    monkeypatch.setattr(fn.Plan, "hash", property(lambda _: 1 / 0))
    logging.getLogger("fitnoise").setLevel(logging.WARNING)
    try:
        fn.plan(PLAN.publication)
    finally:
        logging.getLogger("fitnoise").setLevel(logging.NOTSET)


def test_no_record_has_a_count_a_value_or_a_scale(tmp_path, monkeypatch, collected):
    """Detects also a record of another library, and a path that the caller did not give."""
    monkeypatch.chdir(tmp_path)
    for i, data in enumerate(data_sources()):
        replay = Replay(seed=i)
        with monkeypatch.context() as patched:
            patched.setattr(noise, "discrete_gaussians", replay.discrete_gaussians)
            release = fn.release(PLAN, data, ledger="b.sqlite", directory=f"r{i}", again=True)
            fn.count(PLAN, data, f"counts{i}", unsealed=True)
        _, everything = collected()
        text = "\n".join(everything)
        scales = [scale for _, scale, _ in replay.requests]
        total = sum(COUNTS.values())
        values = release["colour"]["value"].tolist()
        numbers = [
            *COUNTS.values(),
            DROPPED,
            total,
            total + DROPPED,
            *replay.drawn,
            *scales,
            *values,
            *map(round, values),
        ]
        assert len(everything) > 10
        assert scales
        spellings = {f(x) for x in numbers for f in (str, "{:,}".format, "{:.6g}".format)}
        hidden = {SECRET, *COUNTS, str(tmp_path), *(x for x in spellings if len(x) > 3)}
        assert not [x for x in hidden if x in text]


@pytest.mark.parametrize("refusal", [False, True])
def test_neighbours_have_equal_records(tmp_path, monkeypatch, collected, standing_still, refusal):
    """The noise is replayed, so that the released numbers differ by the one person alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(seed=3).discrete_gaussians)
    seen = []
    for added in (0, 1):
        reported = []
        for i, data in enumerate(data_sources(added)):
            Path("b.sqlite").unlink(missing_ok=True)
            if refusal:
                plan = fn.plan(fn.Workload(fn.Domain(colour=fn.Categorical(["red"])), [fn.table("colour", margin=20)]))
                with refused("data.records-outside-domain"):
                    fn.release(plan, data, ledger="b.sqlite")
            else:
                monkeypatch.setattr(noise, "discrete_gaussians", Replay(seed=i).discrete_gaussians)
                fn.release(PLAN, data, ledger="b.sqlite")
            reported += collected()[0]
        seen.append(reported)
    assert seen[0] == seen[1]
    assert len(seen[0]) > 8


def test_loggers_write_nothing_by_themselves(tmp_path, capfd):
    fn.release(PLAN, people(), ledger=tmp_path / "b.sqlite")
    assert capfd.readouterr() == ("", "")
    assert (
        pd.Series([x for x in logging.root.manager.loggerDict if x.startswith("fitnoise.")])
        .isin(["fitnoise.planning", "fitnoise.publishing"])
        .all()
    )
