"""Verification: good releases of every kind are accepted, and every way of tampering is reported."""

import copy
import csv
import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from fitnoise.errors import BudgetExceeded, ReleaseError
from fitnoise.kernel import noise
from fitnoise.kernel.ledger import Price
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.messages import english
from fitnoise.planning.plan import Plan
from fitnoise.reading import release as releases
from fitnoise.reading import release_files, verification
from fitnoise.reading.release_files import write_parquet
from fitnoise.request.workloads import slug
from laws.plans import check_plan
from laws.releases import released
from records import frame_of
from refused import refused
from replayed_noise import Replay

PLAN = fn.plan(
    fn.Workload(
        fn.Domain(state=fn.Categorical(["01", "NA", "é"]), sex=fn.Categorical([True, False]), age=fn.Ordered(0, 3)),
        [
            fn.table("state", "sex", margin=4),
            fn.table("sex", groups={"age": {"x": [0, 1], "y": [2, 3]}}, margin=7, name="ages"),
            fn.table(
                "sex", groups={"age": {"x": {"values": [0, 2]}, "y": {"values": [1, 3]}}}, margin=7, name="other ages"
            ),
            fn.table("sex", cumulative="age", margin=fn.ByAttribute("age", [6, 7, 8, 9])),
            fn.table(margin=5),
        ],
    ),
    source=fn.DataSource("people"),
    cap=fn.Budget(rho=1),
    gap=1e-5,
    title="Some people",
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "release"
    counts = np.arange(24).reshape(3, 2, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "discrete_gaussians", Replay(2).discrete_gaussians)
        fn.release(PLAN, counts, ledger=folder.with_name("ledger.db"), directory=folder)
    return folder


@pytest.fixture
def bare(tmp_path):
    """A release without files of tables, and the ledger that charged it."""
    with fn.Ledger(tmp_path / "bare.db") as book:
        fn.release(PLAN, np.zeros((3, 2, 4), dtype=int), ledger=book, directory=tmp_path / "bare", tables=[])
        yield tmp_path / "bare", book


@pytest.fixture
def ledger(good):
    """The one that charged the good release."""
    with fn.Ledger(good.with_name("ledger.db")) as book:
        yield book


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "release")


def failing(path, ledger=None):
    """The claims that do not hold."""
    verification = fn.verify(path, ledger=ledger)
    assert verification.ok == all(c.holds for c in verification.checks)
    return {english(c.claim): english(c.finding) for c in verification.checks if not c.holds}


# --- what is good ---------------------------------------------------------------------------------------------


def test_a_release_and_its_plan_are_accepted(good):
    verification = fn.verify(str(good))
    assert verification.ok
    assert [english(c.claim) for c in verification.checks] == [
        "the plan is complete, and its noise design costs what it states",
        "the document says what its parts imply",
        "the dual weights prove the bound and the gap",
        "the targets are met",
        "the price is within budget and cap",
        "release.json names the tables that have files",
        "its files are those of a release",
        "release.json says what the plan implies",
        "the noisy answers are the plan's, unaltered",
        "the Parquet tables follow from the noisy answers",
        "the CSV tables are the Parquet tables",
    ]
    of_plan = fn.verify(good / "plan.json")
    assert of_plan.ok
    assert of_plan.checks == verification.checks[:5]


def test_every_kind_of_plan_and_release_is_accepted(any_plan, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(4).discrete_gaussians)
    domain = any_plan.publication.workload.domain
    counts = rng.integers(0, 10, size=domain.shape)
    if domain.steps:  # arrays do not have the step
        counts = frame_of(domain, np.repeat(np.argwhere(counts >= 0), counts.ravel(), axis=0))
    released(any_plan, counts, directory=tmp_path / "r")
    assert failing(tmp_path / "r") == {}


@pytest.mark.parametrize("counts", [np.zeros((3, 2, 4), dtype=int), np.full((3, 2, 4), 10**10)], ids=["none", "many"])
def test_negative_and_huge_values_are_accepted(counts, tmp_path, monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussians", Replay(4).discrete_gaussians)
    release = released(PLAN, counts, directory=tmp_path / "r")
    values = np.concatenate([f["value"] for f in release.values()])
    assert (values < 0).any() if not counts.any() else (values > 10**9).all()
    assert failing(tmp_path / "r") == {}


def test_plans_under_a_budget_and_for_other_units_are_accepted(tmp_path):
    workload = PLAN.publication.workload
    plans = [
        fn.plan(workload, budget=fn.Budget(rho=0.01)),
        fn.plan(workload, budget=fn.Budget(epsilon=1, delta=1e-9)),
        fn.plan(workload, unit=fn.PrivacyUnit("household", 3, fn.Neighbours.REPLACE_ONE)),
    ]
    for plan in plans:
        released(plan, np.ones((3, 2, 4), dtype=int), directory=tmp_path / plan.hash)
        assert failing(tmp_path / plan.hash) == {}
    assert "relative to the budget" in english(fn.verify(tmp_path / plans[0].hash).checks[3].finding)


@pytest.mark.parametrize("kernel", ["Prescott", "Haswell"])
def test_another_kind_of_processor_agrees(good, kernel):
    """OpenBLAS sums in another order on another processor; the last digits of a bound or a table may then differ."""
    code = "import sys, fitnoise as fn; sys.exit(not fn.verify(sys.argv[1]).ok)"
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
    subprocess.run([sys.executable, "-c", code, str(good)], check=True, env=environment, timeout=60)


def test_nothing_to_verify_is_an_error(tmp_path):
    with refused("release.nothing-to-verify"):
        fn.verify(tmp_path / "nowhere")
    assert list(failing(tmp_path)) == ["the release holds a plan"]
    (tmp_path / "plan.json").write_bytes(b"\xff")
    assert list(failing(tmp_path)) == ["the release holds a plan"]
    (tmp_path / "plan.json").write_text("[" * 100_000)
    assert list(failing(tmp_path)) == ["the plan is complete, and its noise design costs what it states"]
    (tmp_path / "plan.json").write_text("{}")
    assert failing(tmp_path / "plan.json") == failing(tmp_path)


# --- what the ledger says -------------------------------------------------------------------------------------

CHARGED = "the ledger says that it was charged"


def charge_of(folder, ledger):
    """Return the verdict on the charge and its finding, and check that nothing else is wrong."""
    checks = fn.verify(folder, ledger=ledger).checks
    assert [english(c.claim) for c in checks if not c.holds] in ([], [CHARGED])
    (check,) = (c for c in checks if english(c.claim) == CHARGED)
    return check.holds, english(check.finding)


def test_a_release_is_found_in_the_ledger_that_charged_it(good, ledger):
    assert charge_of(good, ledger) == (True, f"entry 1, rho = {PLAN.rho:.9g}")
    assert len(fn.verify(good, ledger=ledger).checks) == len(fn.verify(good).checks) + 2


def test_a_release_that_another_ledger_charged_is_reported(good, folder, tmp_path):
    counts = np.zeros((3, 2, 4), dtype=int)
    with fn.Ledger(tmp_path / "other.db") as other:
        assert charge_of(folder, other) == (False, "release.json names entry 1; the ledger has 0")
        fn.release(PLAN, counts, ledger=other)  # the same plan, charged at another time or after other entries
        other.set_cap(PLAN.order.account, PLAN.loss.rho)
        with pytest.raises(BudgetExceeded):
            fn.release(PLAN, counts, ledger=other, again=True)
        entries = other.entries()
        rewritten(folder, lambda d: d["ledger"].update(digest="0" * 64))
        assert charge_of(folder, other) == (
            False, "entry 1 of the ledger has another digest than release.json says: it is another entry",
        )  # fmt: skip
        for i, what in ((2, "answers"), (3, "cap"), (4, "refusal")):
            rewritten(folder, lambda d, i=i: d.update(ledger={"sequence": i, "digest": entries[i - 1].digest}))
            assert charge_of(folder, other) == (False, f"entry {i} of the ledger is of kind {what!r}, and no charge")


OTHERS = fn.Account("others", fn.PrivacyUnit("u"))
SWAP, SOUL = (
    fn.Account(PLAN.order.account.source, unit)
    for unit in (fn.PrivacyUnit("record", 1, fn.Neighbours.REPLACE_ONE), fn.PrivacyUnit("soul", id="soul"))
)


def priced(account, rho):
    """Prices of an entry: of the plan's own account, and of another one; of a soul by an id nothing is known."""
    return {PLAN.order.account: Price(ceil_dyadic(PLAN.loss.rho)), account: Price(rho)}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"detail": {"plan": "0" * 64}}, "entry 1 of the ledger is the charge of another plan"),
        ({"detail": {}}, "entry 1 of the ledger is the charge of another plan"),
        (
            {"account": OTHERS},
            "entry 1 of the ledger was charged to 'others' (one u (at most 1 record), add-or-remove-one)",
        ),
        ({"rho": PLAN.loss.rho / 2}, f"entry 1 of the ledger charged rho = {PLAN.rho / 2:.9g}, and the plan costs"),
        ({"rho": PLAN.loss.rho * 2}, f"entry 1 of the ledger charged rho = {PLAN.rho * 2:.9g}, and the plan costs"),
        ({"epsilon": Fraction(1)}, f"entry 1 of the ledger charged rho = {PLAN.rho:.9g}, and the plan costs"),
        *(
            (
                {"prices": priced(account, rho)},
                f"entry 1 of the ledger charged rho = {float(rho):.9g} for {account.sentence}, and the plan costs",
            )
            for account, rho in ((SWAP, Fraction(1, 4)), (SOUL, Fraction(1, 4)), (SOUL, Fraction(10**9)))
        ),
        ({"prices": priced(SWAP, Fraction(10**9))}, "entry 1, rho = "),
        ({}, f"entry 1, rho = {PLAN.rho:.9g}"),
    ],
    ids=[
        "plan",
        "no plan",
        "account",
        "less",
        "more",
        "pure",
        "another unit",
        "no unit",
        "dear",
        "a bound",
        "the same",
    ],
)
def test_an_entry_of_another_charge_is_reported(good, ledger, other, text):
    entry, answers = ledger.entries()
    names = ("sequence", "kind", "account", "rho", "epsilon", "time", "detail", "digest", "prices")
    played = SimpleNamespace(**{n: getattr(entry, n) for n in names} | other)
    holds, reason = charge_of(good, SimpleNamespace(entries=lambda: [played, answers]))
    assert reason.startswith(text)
    assert holds == text.startswith("entry 1, ")


def test_a_charge_to_every_unit_that_the_account_knows_is_checked(tmp_path):
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        for unit in (fn.PrivacyUnit("home", 5), fn.PrivacyUnit("record", 1, fn.Neighbours.REPLACE_ONE)):
            ledger.set_cap(fn.Account(PLAN.order.account.source, unit), Fraction(10**9))
        ledger.set_cap(PLAN.order.account, Fraction(10**9))
        fn.release(PLAN, np.zeros((3, 2, 4), dtype=int), ledger=ledger, directory=tmp_path / "release")
        assert len(ledger.entries()[-2].detail["units"]) == 2
        assert charge_of(tmp_path / "release", ledger)[0]


def test_a_release_that_names_no_entry_is_not_accepted_with_a_ledger(folder, ledger):
    rewritten(folder, lambda document: document.pop("ledger"))
    assert failing(folder) == {}
    assert charge_of(folder, ledger) == (False, "release.json names no entry of a ledger")


def test_invented_answers_are_not_those_that_the_ledger_names(good, ledger, tmp_path):
    """The charge is real, and every file fits the plan: only the entry of the draw in the ledger differs."""
    real = fn.Release.read(good)
    invented = [y.copy() for y in real.answers]
    invented[0][0] += 1
    fn.Release(PLAN, invented, entry=real.entry).write(tmp_path / "r")
    assert fn.verify(tmp_path / "r").ok
    (wrong,) = (c for c in fn.verify(tmp_path / "r", ledger=ledger).checks if not c.holds)
    assert english(wrong.claim) == "the ledger names these answers"
    assert english(wrong.finding) == "the answers are not those that the ledger names for their charge"


def test_a_pure_release_is_found_in_its_ledger(tmp_path):
    plan = fn.plan(fn.Workload(PLAN.publication.workload.domain, [fn.table(margin=5)]), privacy="pure")
    with fn.Ledger(tmp_path / "ledger.db") as book:
        fn.release(plan, np.zeros((3, 2, 4), dtype=int), ledger=book, directory=tmp_path / "r")
        assert charge_of(tmp_path / "r", book) == (True, f"entry 1, rho = {plan.rho:.9g}")


@pytest.mark.parametrize("name", ["sequence", "digest"])
@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, "0" * 63, "A" * 64, "0" * 65, ["0" * 64]], ids=repr)
def test_an_entry_that_no_ledger_has_is_reported(folder, name, value):
    rewritten(folder, lambda d: d["ledger"].update({name: value}))
    assert SAYS in failing(folder)
    with refused("release.wrong-entry-reference"):
        fn.Release.read(folder)


def test_a_ledger_is_its_file_or_an_open_one_and_for_a_release(good, ledger, tmp_path):
    book = good.with_name("ledger.db")
    for file in (book, str(book)):
        assert fn.verify(good, ledger=file) == fn.verify(good, ledger=ledger)
    missing = tmp_path / "none.db"
    for file in (missing, str(missing), tmp_path, ":memory:", "", "\0"):
        with refused("ledger.file-missing"):
            fn.verify(good, ledger=file)
    assert not missing.exists()
    with refused("release.ledger-not-open"):
        fn.verify(good, ledger=3)
    with refused("release.ledger-not-open"):
        verification.verify(good, ledger=str(book))  # readers below open no ledger
    with refused("release.plan-in-place-of-release"):
        fn.verify(good / "plan.json", ledger=ledger)


# --- what was tampered with: files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["plan.json", "release.json", "measurements.parquet", "tables/total.csv", "tables/total.parquet"]
)
def test_a_missing_truncated_or_empty_file_is_reported(folder, name):
    path = folder / name
    content = path.read_bytes()
    for broken in (content[: len(content) // 2], b"", content + b"\n", None):
        path.write_bytes(broken) if broken is not None else path.unlink()
        assert failing(folder), broken


def test_additional_files_are_reported(folder):
    for extra in ("notes.txt", "tables/more.csv", ".hidden"):
        (folder / extra).touch()
        assert extra in failing(folder)["its files are those of a release"]
        (folder / extra).unlink()
    (folder / "empty").mkdir()
    assert "empty" in failing(folder)["its files are those of a release"]
    (folder / "empty").rmdir()
    assert not failing(folder)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_swapped_tables_are_reported(folder, ending):
    one, other = (folder / "tables" / f"{n}.{ending}" for n in ("ages", "other_ages"))
    content = one.read_bytes(), other.read_bytes()
    one.write_bytes(content[1])
    other.write_bytes(content[0])
    assert failing(folder)


@pytest.mark.parametrize("stride", [23, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["state_by_sex", "total"])
def test_a_changed_character_of_a_csv_file_is_reported(folder, name, stride):
    path = folder / "tables" / f"{name}.csv"
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    changed = [text[:i] + chr(ord(c) ^ 1) + text[i + 1 :] for i, c in enumerate(text)][::stride]
    changed += [text.replace("\n", "\r\n"), text + lines[-1], "".join(lines[::-1]), text.replace(",", ";")]
    for other in changed:
        path.write_text(other, encoding="utf-8", newline="")
        assert failing(folder).keys() == {"the CSV tables are the Parquet tables"}


FORMULAS = ["=1+1", "+x", "-x", "@x", "\tx", "\r", "'=1", "'", "＝1", '=HYPERLINK("a,b")', "-5 – 3"]
SAFE = ["-5", "+5.25", " =1", "x=1", "NA"]


def test_labels_that_a_spreadsheet_would_run_are_guarded_and_read_back(tmp_path):
    labels = [*FORMULAS, *SAFE]
    domain = fn.Domain({"=name": fn.Categorical(labels), "n": fn.Ordered(-2, 1)})
    tables = [fn.table("=name", margin=9, name="names"), fn.table("n", margin=9, name="numbers")]
    released(fn.plan(fn.Workload(domain, tables)), np.zeros(domain.shape, dtype=int), directory=tmp_path / "r")
    assert failing(tmp_path / "r") == {}
    path = tmp_path / "r" / "tables" / "names.csv"
    with path.open(encoding="utf-8", newline="") as file:
        fields = [row[0] for row in csv.reader(file)]
    assert [f.removeprefix("'") for f in fields] == ["=name", *labels]
    assert [f for f in fields if f.startswith("'")] == [f"'{x}" for x in ["=name", *FORMULAS]]
    assert (tmp_path / "r" / "tables" / "numbers.csv").read_text().splitlines()[1].startswith("-2,")
    text = path.read_bytes().decode()
    before = text.replace("'=", "=", 1)
    path.write_text(before, encoding="utf-8", newline="")
    assert failing(tmp_path / "r").keys() == {"the CSV tables are the Parquet tables"}


def rewrite(path, query, **options):
    """Replace a Parquet file by the result of a query, as a release writes it; by DuckDB if values are missing."""
    other = path.with_name("rewritten")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE old AS SELECT *, row_number() OVER () - 1 AS i FROM read_parquet('{path}')")
        columns = connection.execute(query).fetchnumpy()
        if any(np.ma.getmaskarray(x).any() for x in columns.values()):
            connection.execute(f"COPY ({query}) TO '{other}' (FORMAT parquet)")
        else:
            write_parquet({name: np.asarray(x) for name, x in columns.items()}, other, **options)
    other.replace(path)


def replacing(column, row, value):
    """A query that changes one value."""
    return f"SELECT * EXCLUDE (i) REPLACE (if(i = {row}, {value}, {column}) AS {column}) FROM old ORDER BY i"


def stored_digest(path):
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT key, value FROM parquet_kv_metadata('{path}')").fetchall()
    return {bytes(k).decode(): bytes(v).decode() for k, v in rows}


@pytest.mark.parametrize("column", ["value", "std_error", "moe"])
def test_every_changed_number_of_a_table_is_reported(good, folder, column):
    changes = (f"{column} * (1 + 1e-8) + 1e-6", f"-{column} - 1", "NULL", "'nan'::DOUBLE", "'inf'::DOUBLE")
    for name in ("state_by_sex", "total"):
        path = folder / "tables" / f"{name}.parquet"
        rows = len(pd.read_parquet(path))
        for row in range(rows):
            rewrite(path, replacing(column, row, changes[row % len(changes)]))
            assert "the Parquet tables follow from the noisy answers" in failing(folder)
            shutil.copy(good / "tables" / path.name, path)
    assert not failing(folder)


def test_every_changed_label_order_or_type_is_reported(good, folder):
    path = folder / "tables" / "state_by_sex.parquet"
    old = "SELECT * EXCLUDE (i) FROM old"
    replace = "SELECT * EXCLUDE (i) REPLACE ({}) FROM old ORDER BY i"
    for query in (
        replace.format("CASE i WHEN 0 THEN '1' ELSE state END AS state"),
        replace.format("CASE i WHEN 2 THEN NULL ELSE state END AS state"),
        replace.format("NOT sex AS sex"),
        replace.format("CAST(sex AS VARCHAR) AS sex"),
        replace.format("CAST(sex AS BIGINT) AS sex"),
        replace.format("CAST(value AS FLOAT) AS value"),
        replace.format("CAST(value AS DECIMAL(18, 6)) AS value"),
        f"{old} ORDER BY i DESC",
        f"{old} WHERE i > 0 ORDER BY i",
        "SELECT state, sex, value, moe, std_error FROM old ORDER BY i",
        "SELECT state, sex, value, std_error FROM old ORDER BY i",
        "SELECT * FROM old ORDER BY i",
    ):
        rewrite(path, query)
        assert "the Parquet tables follow from the noisy answers" in failing(folder), query
        shutil.copy(good / "tables" / path.name, path)
    rewrite(path, f"{old} ORDER BY i")
    assert not failing(folder)


@pytest.mark.slow
def test_every_changed_answer_is_reported(good, folder):
    path = folder / "measurements.parquet"
    digest = stored_digest(path)
    assert list(digest) == ["sha256"]
    replace = "SELECT * EXCLUDE (i) REPLACE ({}) FROM old ORDER BY i"
    texts = ("answer || '0'", "'+' || answer", "' ' || answer", "answer || '.0'", "'-0'", "'x'", "NULL", "'1_0'", "'٣'")
    texts_of = "(SELECT * REPLACE (CAST(answer AS VARCHAR) AS answer) FROM old)"
    queries = [f"SELECT * EXCLUDE (i) FROM {texts_of} ORDER BY i"]
    queries += [replacing("answer", 3, text).replace("FROM old", f"FROM {texts_of}") for text in texts]
    queries += [replacing("answer", i, "answer + 1") for i in range(PLAN.table_part.noisy_answers)]
    queries += [
        replace.format("CAST(answer AS DOUBLE) AS answer"),
        replace.format("CAST(row AS DOUBLE) AS row"),
        replace.format("CAST(sector AS VARCHAR) AS sector"),
        replace.format("CASE i WHEN 3 THEN NULL ELSE row END AS row"),
        replace.format("sector + 1 AS sector"),
        "SELECT * EXCLUDE (i) FROM old ORDER BY i DESC",
        "SELECT * EXCLUDE (i) FROM old WHERE i > 0 ORDER BY i",
        "SELECT * EXCLUDE (i) FROM (FROM old UNION ALL FROM old) ORDER BY i",
        "SELECT sector, answer, row FROM old ORDER BY i",
        "SELECT sector, row FROM old ORDER BY i",
        "SELECT * FROM old ORDER BY i",
    ]
    for query in queries:
        rewrite(path, query, **digest)
        assert "the noisy answers are the plan's, unaltered" in failing(folder), query
        with pytest.raises(ReleaseError):
            fn.Release.read(folder)
        shutil.copy(good / path.name, path)
    rewrite(path, "SELECT * EXCLUDE (i) FROM old ORDER BY i")  # the digest is gone
    assert "the noisy answers are the plan's, unaltered" in failing(folder)
    shutil.copy(good / path.name, path)
    path.write_bytes(path.read_bytes().replace(digest["sha256"].encode(), b"\xff" * 64))
    assert "the noisy answers are the plan's, unaltered" in failing(folder)
    rewrite(path, "SELECT * EXCLUDE (i) FROM old ORDER BY i", **digest)
    assert not failing(folder)


def test_answers_forged_with_their_digest_do_not_give_the_tables(folder):
    release = fn.Release.read(folder)
    release.answers[1][0] += 10
    path = folder / "measurements.parquet"
    path.unlink()
    write_parquet(release._measurements(), path, sha256=releases.answers_digest(release.answers))
    assert failing(folder).keys() == {"the Parquet tables follow from the noisy answers"}


# --- what was tampered with: which tables have files ----------------------------------------------------------

PATTERNS = fn.plan(
    fn.Workload(
        PLAN.publication.workload.domain,
        [
            fn.all_tables(2, ["state", "sex", "age"], margin=[4, 5, 6]),
            fn.table(margin=5),
            fn.all_tables(1, ["state", "sex"], cumulative="age", margin=fn.ByAttribute("age", [6, 7, 8, 9])),
        ],
    ),
    source=fn.DataSource("people"),
)
ALL_NAMES = PATTERNS.publication.workload.tables.names
SOME_NAMES = ["state by age", "total"]
NAMES_CLAIM = "release.json names the tables that have files"
FILES = "its files are those of a release"
SAYS = "release.json says what the plan implies"


@pytest.fixture(scope="module")
def pattern_releases(tmp_path_factory):
    """Equal noisy answers with files for all tables, for some, and for none."""
    root = tmp_path_factory.mktemp("patterns")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "discrete_gaussians", Replay(2).discrete_gaussians)
        release = released(PATTERNS, np.arange(24).reshape(3, 2, 4))
    return {
        name: release.write(root / name, tables=t) for name, t in (("all", None), ("some", SOME_NAMES), ("none", []))
    }


@pytest.mark.parametrize("name", ["all", "some", "none"])
def test_releases_with_files_for_some_tables_are_accepted(pattern_releases, name):
    verification = fn.verify(pattern_releases[name])
    assert verification.ok
    count = {"all": 6, "some": 2, "none": 0}[name]
    reasons = {english(c.claim): english(c.finding) for c in verification.checks}
    assert reasons[NAMES_CLAIM] == f"{count} of 6 tables"
    assert reasons[FILES] == f"{3 + 2 * count} files"
    assert reasons["the Parquet tables follow from the noisy answers"] == f"{count} tables rebuilt"


def rewritten(folder, change):
    """The release with another word on which tables have files, in the form in which releases are written."""
    path = folder / "release.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(as_text("release.json", document), encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "claim", "text"),
    [
        ("all", FILES, "missing: 'tables/sex_by_age.csv'"),
        ([], FILES, "not expected: 'tables/state_by_age.csv', 'tables/state_by_age.parquet', 'tables/tot"),
        (["total"], FILES, "not expected: 'tables/state_by_age.csv'"),
        ([*SOME_NAMES, "age by state"], NAMES_CLAIM, "There is no table 'age by state'"),
        (["state by age", "sex by age", "total"], FILES, "missing: 'tables/sex_by_age.csv'"),
        (["state by age", "total", "sex by age cumulative"], FILES, "missing: 'tables/sex_by_age_cumulative.csv'"),
        (SOME_NAMES[::-1], NAMES_CLAIM, "in the order of the workload"),
        ([*SOME_NAMES, "total"], NAMES_CLAIM, "named twice"),
        ("total", NAMES_CLAIM, "in the order of the workload"),
        ("none", NAMES_CLAIM, "There is no table 'none'"),
        ("All", NAMES_CLAIM, "There is no table 'All'"),
        (None, NAMES_CLAIM, "in the order of the workload"),
        (3, NAMES_CLAIM, "it cannot be checked (TypeError)"),
        ([["total"]], NAMES_CLAIM, "it cannot be checked (TypeError)"),
        ({"state by age": 1, "total": 2}, NAMES_CLAIM, "in the order of the workload"),
        (True, NAMES_CLAIM, "it cannot be checked (TypeError)"),
    ],
    ids=repr,
)
def test_another_word_on_which_tables_have_files_is_reported(pattern_releases, tmp_path, value, claim, text):
    folder = shutil.copytree(pattern_releases["some"], tmp_path / "r")
    rewritten(folder, lambda d: d.update(written=value))
    assert text in failing(folder)[claim]
    shutil.copy(pattern_releases["some"] / "release.json", folder)
    assert not failing(folder)


def test_files_of_all_tables_are_stated_as_all(pattern_releases, tmp_path):
    """A list of all names says the same as "all", in other words than a release is written in."""
    folder = shutil.copytree(pattern_releases["all"], tmp_path / "r")
    rewritten(folder, lambda d: d.update(written=ALL_NAMES))
    assert failing(folder) == {SAYS: "release.json and the plan disagree on written"}
    rewritten(folder, lambda d: d.pop("written"))
    assert failing(folder).keys() >= {NAMES_CLAIM, FILES, SAYS}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["all", "some", "none"])
def test_a_missing_file_or_one_too_many_is_reported(pattern_releases, tmp_path, name, ending):
    folder = shutil.copytree(pattern_releases[name], tmp_path / "r")
    for path in sorted((folder / "tables").glob(f"*.{ending}")):
        content = path.read_bytes()
        path.unlink()
        assert f"missing: 'tables/{path.name}'" in failing(folder)[FILES]
        path.write_bytes(content)
    assert not failing(folder)
    # the true file of a table that was not written is one too many, too
    for path in sorted((pattern_releases["all"] / "tables").glob(f"*.{ending}")):
        extra = folder / "tables" / path.name
        if not extra.exists():
            shutil.copy(path, extra)
            assert failing(folder) == {FILES: f"not expected: 'tables/{path.name}'"}
            extra.unlink()
    assert not failing(folder)


def test_a_long_table_has_a_parquet_file_only(monkeypatch, tmp_path):
    monkeypatch.setattr(release_files, "MAX_CSV_ROWS", 3)
    release = released(PATTERNS, np.arange(24).reshape(3, 2, 4))
    folder = release.write(tmp_path / "long")
    rows = {slug(name): len(release[name]) for name in release}
    assert min(rows.values()) <= 3 < max(rows.values())
    short = {f"{name}.csv" for name, n in rows.items() if n <= 3}
    assert {p.name for p in (folder / "tables").iterdir()} == short | {f"{name}.parquet" for name in rows}
    verification = fn.verify(folder)
    assert verification.ok
    reasons = {english(c.claim): english(c.finding) for c in verification.checks}
    assert reasons[FILES] == f"{3 + len(rows) + len(short)} files"
    assert reasons["the CSV tables are the Parquet tables"] == f"{len(short)} tables, digit by digit"
    long = next(name for name in release if len(release[name]) > 3)
    extra = folder / "tables" / f"{slug(long)}.csv"
    extra.write_text(release_files.csv_text(release[long]))
    assert failing(folder) == {FILES: f"not expected: 'tables/{extra.name}'"}


def test_a_changed_table_of_a_pattern_is_reported(pattern_releases, tmp_path):
    folder = shutil.copytree(pattern_releases["some"], tmp_path / "r")
    path = folder / "tables" / "state_by_age.parquet"
    rewrite(path, replacing("value", 3, "value + 1e-3"))
    assert (
        "table 'state by age': column 'value' differs"
        in failing(folder)["the Parquet tables follow from the noisy answers"]
    )
    shutil.copy(pattern_releases["all"] / "tables" / "sex_by_age.csv", path.with_suffix(".csv"))
    assert "the CSV tables are the Parquet tables" in failing(folder)


@pytest.mark.parametrize("key", ["pattern", "pattern_attributes", "margin"])
def test_another_pattern_is_reported(pattern_releases, tmp_path, key):
    other = {"pattern": "singles", "pattern_attributes": ["sex", "state", "age"], "margin": [4.0, 6.0, 5.0]}[key]
    for document in ("release.json", "plan.json"):
        folder = shutil.copytree(pattern_releases["none"], tmp_path / f"{key} {document}")
        path = folder / document
        text = as_text(
            document, changed(json.loads(path.read_text(encoding="utf-8")), ("spec", "tables", 0, key), other)
        )
        path.write_text(text, encoding="utf-8")
        assert failing(folder)


# --- what was tampered with: documents ------------------------------------------------------------------------


def leaves(document, path=()):
    """Every place of a JSON document, containers too."""
    yield path
    if isinstance(document, (dict, list)):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from leaves(document[key], (*path, key))


def entry_at(document, path):
    for step in path:
        document = document[step]
    return document


def mutations(value):
    """Other values that could stand in a place."""
    if isinstance(value, bool) or value is None:
        return [not value, 0, "x"]
    if isinstance(value, int):
        return [value + 1, -value - 1, float(value), str(value), True, None, 10**30]
    if isinstance(value, float):
        return [value * (1 + 1e-6), value + 1, -value - 1, 0.0, str(value), float("nan"), float("inf"), None]
    if isinstance(value, str):
        return [value + "x", "", value.upper() + "é", 1, None, [value]]
    if isinstance(value, list):
        return [value[:-1], [*value, *value[-1:]], value[::-1], [], None, {}]
    return [{}, {**value, "more": 1}, dict(list(value.items())[1:]), dict(reversed(value.items())), None, []]


def changed(document, path, value):
    document = copy.deepcopy(document)
    if not path:
        return value
    entry_at(document, path[:-1])[path[-1]] = value
    return document


def as_text(name, document):
    options = {"separators": (",", ":")} if name == "plan.json" else {"indent": 1}
    return json.dumps(document, **options) + "\n"


@pytest.mark.parametrize("name", ["plan.json", "release.json"])
def test_documents_written_in_another_way_are_reported(folder, name):
    text = (folder / name).read_text(encoding="utf-8")
    document = json.loads(text)
    assert as_text(name, document) == text
    key = next(iter(document))
    for other in (
        json.dumps(document),
        json.dumps(document, indent=2),
        text + " ",
        text.strip(),
        text.replace("{", f'{{"{key}": 1, ', 1),  # a key twice
        "\ufeff" + text,
        text.replace("1", "1.0", 1),
    ):
        assert other != text
        (folder / name).write_text(other, encoding="utf-8")
        assert failing(folder)


@pytest.mark.parametrize(
    ("versions", "accepted"),
    [
        ({"fitnoise": "0.1.0", "numpy": "2.1.0", "duckdb": "2.0.0"}, True),
        ({"fitnoise": "0.1.0", "numpy": 2, "duckdb": "2.0.0"}, False),
        ({"fitnoise": "0.1.0", "opendp": "0.16.0", "numpy": "2.1.0", "duckdb": "2.0.0"}, False),
        ({"fitnoise": "0.1.0", "numpy": "2.1.0", "duckdb": "2.0.0", "opendp": "0.16.0"}, False),
        ({"fitnoise": "0.1.0", "scipy": "1.14", "numpy": "2.1.0", "duckdb": "2.0.0"}, False),
    ],
)
def test_the_versions_named_are_those_that_releases_name(folder, versions, accepted):
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    (folder / "release.json").write_text(as_text("release.json", document | {"versions": versions}), encoding="utf-8")
    assert (not failing(folder)) == accepted


def check_change(good, folder, ledger, name, path, value):
    """With the ledger at hand, no change of a document goes unnoticed."""
    original = json.loads((good / name).read_text(encoding="utf-8"))
    text = as_text(name, changed(original, path, value))
    (folder / name).write_text(text, encoding="utf-8")
    same = text == as_text(name, original)
    the_makers_word = path[:1] == ("versions",) and len(path) == 2 and isinstance(value, str)
    assert bool(failing(folder, ledger)) != (same or the_makers_word), (path, value)


DOCUMENTS = ("plan.json", "release.json")


@given(data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_any_changed_place_of_a_document_is_reported(good, folder, ledger, name, data):
    original = json.loads((good / name).read_text(encoding="utf-8"))
    path = data.draw(st.sampled_from(list(leaves(original))))
    check_change(good, folder, ledger, name, path, data.draw(st.sampled_from(mutations(entry_at(original, path)))))


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_changed_place_of_a_document_is_reported(bare, folder, name):
    """This holds although no file of a table contradicts it."""
    good, ledger = bare
    shutil.rmtree(folder)
    shutil.copytree(good, folder)
    original = json.loads((good / name).read_text(encoding="utf-8"))
    for i, path in enumerate(leaves(original)):
        values = mutations(entry_at(original, path))
        check_change(good, folder, ledger, name, path, values[i % len(values)])


@pytest.mark.slow
def test_a_changed_plan_file_is_reported_or_is_another_plan_that_keeps_its_word(good, tmp_path):
    """Without a release next to it a plan may be exchanged for another one, but not for a false one."""
    original = json.loads((good / "plan.json").read_text(encoding="utf-8"))
    path = tmp_path / "plan.json"
    accepted = set()
    for i, changed_path in enumerate(leaves(original)):
        values = mutations(entry_at(original, changed_path))
        for value in {repr(v): v for v in (values[0], values[i % len(values)])}.values():
            text = as_text("plan.json", changed(original, changed_path, value))
            path.write_text(text, encoding="utf-8")
            if text != as_text("plan.json", original) and not failing(path):
                other = Plan.from_json(text)
                check_plan(other, gap=other.publication.gap or 1e-5)
                assert other.hash != PLAN.hash
                accepted.add(".".join(map(str, changed_path)))
    assert "spec.title" in accepted
    for part in (
        "tables.0.cost",
        "tables.0.strategy.0.scale",
        "tables.0.strategy.0.basis",
        "tables.0.strategy.0.attributes",
        "spec.tables.0.margin",
        "tables.0.mechanism",
    ):
        assert not any(changed_path.startswith(part) for changed_path in accepted), part


@pytest.mark.parametrize(
    ("path", "value", "claim", "text"),
    [
        (
            ("spec", "privacy"),
            {"cap": {"rho": "1/1000"}},
            "the price is within budget and cap",
            "exceeds the cap 0.001",
        ),
        (("spec", "accuracy", "gap"), 1e-10, "the dual weights prove the bound and the gap", "1.0e-10 was requested"),
        (("spec", "tables", 0, "margin"), 3.9, "the targets are met", "times its target"),
        (
            ("tables", 0, "status"),
            "fine\x1b[2J",
            "the plan is complete, and its noise design costs what it states",
            "not a list of ids with their numbers",
        ),
        (
            ("tables", 0, "cost", "bound"),
            1e-3,
            "the document says what its parts imply",
            "otherwise on tables[0].cost.bound",
        ),
        (
            ("tables", 0, "cost", "cost_squared"),
            "1/3",
            "the plan is complete, and its noise design costs what it states",
            "another privacy cost than the plan states",
        ),
        (
            ("tables", 0, "weights", "cells"),
            [1.0, 0.0, 0.0, 0.0],
            "the document says what its parts imply",
            "tables[0].cost.bound",
        ),
    ],
)
def test_each_claim_of_a_plan_is_checked(good, tmp_path, path, value, claim, text):
    original = json.loads((good / "plan.json").read_text(encoding="utf-8"))
    (tmp_path / "plan.json").write_text(as_text("plan.json", changed(original, path, value)), encoding="utf-8")
    assert text in failing(tmp_path / "plan.json")[claim]


def test_a_plan_above_its_budget_is_reported(tmp_path):
    plan = fn.plan(PLAN.publication.workload, budget=fn.Budget(rho=0.01))
    document = json.loads(plan.to_json())
    document["spec"]["budget"]["rho"] = "1/101"
    (tmp_path / "plan.json").write_text(as_text("plan.json", document), encoding="utf-8")
    assert "exceeds the budget" in failing(tmp_path / "plan.json")["the price is within budget and cap"]


def test_a_budget_left_unspent_is_reported(tmp_path):
    plan = fn.plan(zoo.crossed(), budget=fn.Budget(rho=1))
    document = changed(json.loads(plan.to_json()), ("spec", "budget", "rho"), "2")
    (tmp_path / "plan.json").write_text(as_text("plan.json", document), encoding="utf-8")
    assert "unspent" in failing(tmp_path / "plan.json")["the price is within budget and cap"]
