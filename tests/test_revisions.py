"""Corrections: a release supersedes an earlier one, and every reader of the new release sees the chain."""

import json
import shutil

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import LedgerError, ReleaseError, WorkloadError
from fitnoise.interfaces.cli import main
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.messages import english
from fitnoise.reading import combining
from fitnoise.reading.description import MAX_REASON_CHARACTERS
from fitnoise.reading.release import drawn_digest
from fitnoise.reading.release_files import to_json
from refused import refused

DOMAIN = fn.Domain(a=fn.Ordered(0, 2), b=fn.Categorical(["x", "y"]))
TABLES = fn.Workload(DOMAIN, [fn.table("a", margin=3), fn.table(margin=2)])
PLAN = fn.plan(TABLES, source=fn.DataSource("people"), title="People")
FURTHER = fn.plan(fn.Workload(DOMAIN, [fn.table("a", "b", margin=3)]), source=fn.DataSource("people"), title="More")
ELSEWHERE = fn.plan(TABLES, source=fn.DataSource("homes"))
HOUSEHOLDS = fn.plan(TABLES, source=fn.DataSource("people"), unit=fn.PrivacyUnit("household", 2))
SERIES = fn.plan(
    fn.Workload(fn.Domain(month=fn.Ordered(1, 3)), [fn.table("month", margin=9)]),
    source=fn.DataSource("people"),
    series="month",
)
COUNTS = np.arange(6).reshape(3, 2)
REASONS = ["a region was missing", "two files were swapped"]


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def release(folder, name, plan=PLAN, data=COUNTS, **options):
    return fn.release(plan, data, ledger=folder / "ledger.db", directory=folder / name, **options)


def correct(folder, name, earlier, reason=REASONS[0], **options):
    return release(folder, name, supersedes=folder / earlier, reason=reason, **options)


def entries(folder):
    with Ledger(folder / "ledger.db") as book:
        return book.entries()


def findings(path, claim, **options):
    """Return the result and the finding of each check of a claim."""
    checks = fn.verify(path, **options).checks
    return [(x.holds, english(x.finding)) for x in checks if x.claim.id == f"report.claim.{claim}"]


@pytest.fixture(scope="module")
def chain_folder(tmp_path_factory):
    """A release, its correction with other data, and the correction of that one with another plan."""
    folder = tmp_path_factory.mktemp("chain_folder")
    release(folder, "first")
    before = files(folder / "first")
    correct(folder, "second", "first", data=COUNTS + 1)
    correct(folder, "third", "second", REASONS[1], plan=FURTHER, data=COUNTS + 2)
    assert files(folder / "first") == before
    return folder


@pytest.fixture
def copied(chain_folder, tmp_path):
    return shutil.copytree(chain_folder, tmp_path / "copy")


# --- the chain --------------------------------------------------------------------------------------------------------


def test_release_json_and_the_ledger_have_the_chain(chain_folder):
    earliest, second, third = (fn.Release.read(chain_folder / name) for name in ("first", "second", "third"))
    link = {"ledger": earliest.entry.document(), "answers": drawn_digest(earliest), "reason": REASONS[0]}
    later_link = {"ledger": second.entry.document(), "answers": drawn_digest(second), "reason": REASONS[1]}
    documents = [
        json.loads((chain_folder / name / "release.json").read_text()) for name in ("first", "second", "third")
    ]
    assert [x.get("supersedes") for x in documents] == [None, [link], [later_link, link]]
    assert [x.document() for x in third.supersedes] == [later_link, link]
    charges = [e for e in entries(chain_folder) if e.kind == "charge"]
    assert [e.detail.get("supersedes") for e in charges] == [None, earliest.entry.digest, second.entry.digest]


def test_a_correction_is_charged_as_a_further_release(chain_folder):
    with Ledger(chain_folder / "ledger.db") as book:
        spent = book.balance(PLAN.order.account).spent
    assert spent == 2 * ceil_dyadic(PLAN.loss.rho) + ceil_dyadic(FURTHER.loss.rho)


def test_a_correction_that_is_written_again_is_the_same(chain_folder, tmp_path):
    assert files(fn.Release.read(chain_folder / "third").write(tmp_path / "again")) == files(chain_folder / "third")


def test_verify_shows_the_chain_and_the_later_releases(chain_folder):
    chain = f"entry 3 (“{REASONS[1]}”); entry 1 (“{REASONS[0]}”)"
    assert findings(chain_folder / "third", "supersedes") == [
        (True, f"as the publisher states, unchecked without the ledger: {chain}")
    ]
    with Ledger(chain_folder / "ledger.db") as book:
        assert findings(chain_folder / "third", "supersedes", ledger=book) == [(True, f"as the ledger has it: {chain}")]
        assert findings(chain_folder / "third", "revised", ledger=book) == []
        assert findings(chain_folder / "first", "revised", ledger=book) == [
            (True, "by their entries: 3, 5; use the newest")
        ]
        assert findings(chain_folder / "first", "supersedes", ledger=book) == []
        assert all(fn.verify(chain_folder / name, ledger=book).ok for name in ("first", "second", "third"))
    assert findings(chain_folder / "first", "revised") == []


def test_reports_show_the_chain(chain_folder, capsys, tmp_path):
    main(["tables", str(chain_folder / "third"), "--json"])
    third = fn.Release.read(chain_folder / "third")
    assert json.loads(capsys.readouterr().out)["supersedes"] == [x.document() for x in third.supersedes]
    main(["ledger", "show", str(chain_folder / "ledger.db"), "--json"])
    rows = [row for row in json.loads(capsys.readouterr().out)["entries"] if row["kind"] == "charge"]
    assert [row["supersedes"] for row in rows] == [None, 1, 3]
    main(["ledger", "show", str(chain_folder / "ledger.db")])
    assert "charge, supersedes entry 3" in capsys.readouterr().out
    for language, sentence in (("en", "supersedes the release of ledger entry 1"), ("de", "ersetzt die von Eintrag 1")):
        page = fn.report(third, tmp_path / f"{language}.html", language=language).read_text(encoding="utf-8")
        assert sentence in page
        assert all(reason in page for reason in REASONS)
        assert all(x.entry.digest in page for x in third.supersedes)
    assert "supersedes" not in fn.report(fn.Release.read(chain_folder / "first"), tmp_path / "first.html").read_text(
        "utf-8"
    )


def test_a_page_of_integer_tables_names_the_superseded_release(chain_folder, tmp_path):
    third = fn.Release.read(chain_folder / "third")
    page = fn.report(fn.make_integer_tables(third), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "supersedes the release of ledger entry 1" in page
    assert all(reason in page for reason in REASONS)


def test_texts_of_a_reason_are_escaped_in_a_report(tmp_path):
    release(tmp_path, "r")
    page = fn.report(correct(tmp_path, "s", "r", "<b>new</b>"), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;new" in page
    assert "<b>new" not in page


# --- a chain that is not that of the ledger ---------------------------------------------------------------------------


def rewrite(folder, change):
    path = folder / "release.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(to_json(document), encoding="utf-8")


def drop(document):
    del document["supersedes"]


def shorten(document):
    del document["supersedes"][1:]


def repeat(document):
    document["supersedes"] = [document["supersedes"][0]] * 2


def turn(document):
    document["supersedes"].reverse()


def name_itself(document):
    document["supersedes"][0]["ledger"] = document["ledger"]


def setting(key, value):
    return lambda document: document["supersedes"][0].__setitem__(key, value)


FORGED = {
    "dropped": drop,
    "shortened": shorten,
    "other answers": setting("answers", "0" * 64),
    "other entry": setting("ledger", {"sequence": 3, "digest": "0" * 64}),
}

MALFORMED = {
    "repeated": repeat,
    "turned": turn,
    "itself": name_itself,
    "no list": lambda document: document.update(supersedes={}),
    "empty": lambda document: document.update(supersedes=[]),
    "no link": lambda document: document.update(supersedes=[1]),
    "no charge": lambda document: document.pop("ledger"),
    "no digest": setting("answers", "1"),
    "digest as a number": setting("answers", 1),
    "empty reason": setting("reason", ""),
    "reason of two lines": setting("reason", "a\nb"),
    "entry from 0": setting("ledger", {"sequence": 0, "digest": "0" * 64}),
    "entry without digest": setting("ledger", {"sequence": 1}),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_chain_that_the_ledger_does_not_have_is_refused(copied, change):
    rewrite(copied / "third", change)
    with Ledger(copied / "ledger.db") as book:
        ((holds, _),) = findings(copied / "third", "supersedes", ledger=book)
        assert not holds
        assert not fn.verify(copied / "third", ledger=book).ok


def test_a_chain_that_only_release_json_has_is_refused(copied):
    third = json.loads((copied / "third" / "release.json").read_text())
    release(copied, "other", FURTHER, again=True)
    rewrite(copied / "other", lambda document: document.update(supersedes=third["supersedes"]))
    with Ledger(copied / "ledger.db") as book:
        assert not fn.verify(copied / "other", ledger=book).ok


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_chain_of_another_form_or_in_a_circle_is_not_read(copied, change):
    rewrite(copied / "third", change)
    with refused("release.wrong-superseded", "release.wrong-entry-reference", "release.entry-not-named"):
        fn.Release.read(copied / "third")
    assert not fn.verify(copied / "third").ok
    with refused("release.wrong-superseded", "release.wrong-entry-reference", "release.entry-not-named"):
        correct(copied, "fourth", "third")


def test_answers_of_another_account_are_no_part_of_a_chain(tmp_path):
    """The digests are right, and the entry was charged for other records."""
    release(tmp_path, "r")
    homes = release(tmp_path, "homes", ELSEWHERE)
    correct(tmp_path, "s", "r")
    link = {"ledger": homes.entry.document(), "answers": drawn_digest(homes), "reason": "x"}
    rewrite(tmp_path / "s", lambda document: document.update(supersedes=[link]))
    with Ledger(tmp_path / "ledger.db") as book:
        ((holds, finding),) = findings(tmp_path / "s", "supersedes", ledger=book)
    assert (holds, finding) == (
        False,
        "entry 3 of the ledger is of another account, or names other answers than release.json",
    )


# --- refusals ---------------------------------------------------------------------------------------------------------


def state(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("release.supersedes-and-reason", {"reason": None}),
        ("release.supersedes-and-reason", {"supersedes": None}),
        ("release.file-not-readable", {"supersedes": "nothing"}),
        ("release.file-not-readable", {"supersedes": "."}),
        ("release.superseded-of-another-account", {"plan": ELSEWHERE}),
        ("release.superseded-of-another-account", {"plan": HOUSEHOLDS}),
        ("release.series-supersedes", {"plan": SERIES, "period": 1, "series": "state"}),
        *(("release.wrong-reason", {"reason": x}) for x in ("", " a", "a\nb", "\x1b[1m", "a" * 501)),
    ],
)
def test_a_correction_that_cannot_be_is_refused_before_a_charge(copied, code, options):
    before = state(copied)
    arguments = {"plan": PLAN, "supersedes": "first", "reason": "x", **options}
    if arguments["supersedes"] is not None:
        arguments["supersedes"] = copied / arguments["supersedes"]
    with refused(code) as raised:
        release(copied, "fourth", **arguments)
    assert raised.value.outcome == "Nothing was measured and nothing was charged."
    assert state(copied) == before


def test_a_finished_correction_is_repeated_only_on_request(copied):
    """The error must name the newer release, because the call named the older one."""
    before = state(copied)
    with refused("ledger.released-before") as raised:
        correct(copied, "again", "first", data=COUNTS + 1)
    assert "Entry 3 of the ledger is the charge of this plan, for the correction of entry 1," in raised.value.given
    assert "To correct the release of entry 3, name that release under --supersedes." in raised.value.action
    assert state(copied) == before


def test_a_long_reason_is_accepted(tmp_path):
    release(tmp_path, "r")
    reason = "é" * MAX_REASON_CHARACTERS
    assert correct(tmp_path, "s", "r", reason).supersedes[0].reason == reason


def test_a_release_that_does_not_verify_or_is_of_another_ledger_is_not_superseded(copied, tmp_path):
    path = copied / "second" / "tables" / "a.csv"
    path.write_text(path.read_text().replace("0,", "0,1", 1))
    with refused("release.superseded-not-verified") as raised:
        correct(copied, "fourth", "second")
    assert "the CSV tables are the Parquet tables" in str(raised.value)
    (tmp_path / "other").mkdir()
    release(tmp_path / "other", "r")
    with refused("release.superseded-not-verified"):
        release(tmp_path / "other", "s", supersedes=copied / "first", reason="x")
    fn.Release(PLAN, fn.Release.read(copied / "first").answers).write(copied / "uncharged")
    with refused("release.superseded-not-verified"):
        correct(copied, "fourth", "uncharged")


def test_missing_data_are_refused_before_the_earlier_release_is_verified(copied):
    stages = []
    with refused("data.data-file-missing"):
        correct(copied, "fourth", "second", data=copied / "nothing.csv", progress=stages.append)
    assert stages == ["opening the data"]
    correct(copied, "fourth", "second", progress=stages.append)
    assert stages[1:4] == ["opening the data", "verifying the superseded release", "rehearsing without data"]


def test_a_correction_needs_the_ledger_of_the_earlier_release(chain_folder, tmp_path):
    with refused("ledger.file-missing"):
        release(tmp_path, "r", supersedes=chain_folder / "first", reason="x")
    assert list(tmp_path.iterdir()) == []


# --- interrupted corrections ------------------------------------------------------------------------------------------


def interrupt(monkeypatch, *arguments, **options):
    """Have a release fail after its charge, and return the error."""

    def fail(*_args, rehearsal=False):
        if not rehearsal:
            raise ReleaseError("full", "The disk is full.", "", "Make room.", "Nothing was written.")

    with monkeypatch.context() as patched, refused("release.full") as raised:
        patched.setattr(fn.Release, "_fill", fail)
        release(*arguments, **options)
    return raised.value


def test_an_interrupted_correction_is_finished_without_a_further_charge(tmp_path, monkeypatch):
    release(tmp_path, "r")
    options = {"supersedes": tmp_path / "r", "reason": "x"}
    error = interrupt(monkeypatch, tmp_path, "s", **options)
    assert error.outcome.startswith("The charge of entry 3 stays in the ledger")
    notices = []
    done = release(tmp_path, "s", notice=notices.append, **options)
    assert done.entry.sequence == 3
    assert any("entry 3" in x for x in notices)
    assert len([e for e in entries(tmp_path) if e.kind == "charge"]) == 2
    # the release is in place: an equal call changes nothing, and another reason is another call
    before = state(tmp_path)
    assert release(tmp_path, "s", **options).charge is None
    with refused("release.place-exists", "ledger.released-before"):
        release(tmp_path, "s", **options | {"reason": "y"})
    assert state(tmp_path) == before


def test_answers_of_other_data_are_never_published_as_a_correction(tmp_path, monkeypatch):
    """A charge of the same plan that was not finished is of the uncorrected data, and the reverse."""
    release(tmp_path, "r")
    interrupt(monkeypatch, tmp_path, "again", again=True)
    corrected = correct(tmp_path, "s", "r", data=COUNTS + 10**6)
    assert corrected["a"]["value"].min() > 10**5
    assert release(tmp_path, "again", again=True)["a"]["value"].max() < 10**5
    interrupt(monkeypatch, tmp_path, "t", FURTHER, COUNTS + 10**6, supersedes=tmp_path / "s", reason="x")
    with refused("ledger.charged-as-correction"):
        release(tmp_path, "u", FURTHER)
    assert release(tmp_path, "u", FURTHER, again=True)["a by b"]["value"].max() < 10**5


def test_a_finished_correction_is_not_charged_twice(chain_folder, copied):
    with pytest.raises(LedgerError) as raised:
        correct(copied, "again", "first")
    assert raised.value.code == "ledger.released-before"
    assert entries(copied) == entries(chain_folder)


# --- both given -------------------------------------------------------------------------------------------------------


def test_ask_and_combine_warn_if_a_release_and_its_correction_are_given(chain_folder, capsys):
    warning = f"The release of entry 3 supersedes that of entry 1 (“{REASONS[0]}”), and both are given."
    for one, other in (("first", "second"), ("second", "first")):
        main(["ask", str(chain_folder / one), "other.count() - count()", "--other", str(chain_folder / other)])
        assert warning in capsys.readouterr().err
        main(["combine", str(chain_folder / one), str(chain_folder / other), "--same-records"])
        printed = capsys.readouterr()
        assert warning in printed.out
        assert warning in printed.err
        main(["combine", str(chain_folder / one), str(chain_folder / other), "--same-records", "--table", "a"])
        assert capsys.readouterr().err.count(warning) == 1
    main(["ask", str(chain_folder / "first"), "count()"])
    assert warning not in capsys.readouterr().err
    # the chain leads from the third to the first
    main(["ask", str(chain_folder / "first"), "other.count() - count()", "--other", str(chain_folder / "third")])
    assert "The release of entry 5 supersedes that of entry 1" in capsys.readouterr().err


def test_a_correction_is_named_also_where_the_combination_does_not_fit(chain_folder, capsys, monkeypatch):
    def fail(*_, **__):
        raise WorkloadError("too-little-memory", "Much.", "", "Less.", "Nothing was planned.")

    monkeypatch.setattr(combining, "decompose", fail)
    folders = [str(chain_folder / name) for name in ("first", "second")]
    with pytest.raises(SystemExit):
        main(["combine", *folders, "--same-records"])
    err = capsys.readouterr().err
    assert err.index("The release of entry 3 supersedes that of entry 1") < err.index("too-many-tables-combined")
    assert "Use the release that supersedes the other, and leave out the superseded one." in err


def test_a_combination_of_a_release_and_its_correction_says_so_on_its_page(chain_folder, tmp_path):
    releases = [fn.Release.read(chain_folder / name) for name in ("first", "second")]
    combined = fn.combine(*releases, same_records=True)
    page = fn.report(combined, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The release of entry 3 supersedes that of entry 1" in page
    assert any("supersedes that of entry 1" in x for x in combined["a"].attrs["universe"])
