"""Commands on a full disk: streams that cannot be written, and what killed processes left of folders and files."""

import contextlib
import errno
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.interfaces.cli import HEADINGS, main
from fitnoise.reading import release_files
from fitnoise.reading.release_files import new_file, write_texts
from refused import refused

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")

SPEC = """
[data]
source = "people"
outside_domain = "drop"

[domain]
sex = { type = "categorical", codes = ["f", "m"] }

[[tables]]
attributes = ["sex"]
margin = 3.0
"""

SERIES = """
[data]
source = "people"

[domain]
sex = { type = "categorical", codes = ["f", "m"] }
year = { type = "ordered", low = 1, high = 2 }

[series]
attribute = "year"

[[tables]]
attributes = ["year", "sex"]
margin = 9.0
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with plans, data, two releases and a ledger."""
    folder = tmp_path_factory.mktemp("prepared")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        Path("spec.toml").write_text(SPEC)
        Path("other.toml").write_text(SPEC.replace("3.0", "4.0"))
        pd.DataFrame({"sex": ["f", "m", "m", "x"] * 9}).to_csv("people.csv", index=False)
        for spec, plan, release in (("spec", "plan", "release"), ("other", "other", "other")):
            main(["plan", f"{spec}.toml", "-o", f"{plan}.json"])
            main(["release", f"{plan}.json", "people.csv", "--ledger", "ledger.db", "-o", release])
        main(["integers", "release", "-o", "whole", "--simulations", "0"])
    return folder


@pytest.fixture
def run(prepared, tmp_path, monkeypatch, capsys):
    """Run commands in a copy of the prepared folder; return exit code, stdout and stderr."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        try:
            main([str(x) for x in arguments])
            code = 0
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return run


NO_SERIES = ["plan.json", "--series", "series", "--ledger", "ledger.db"]
"""Options of a plan that is no series."""

COMMANDS = {
    "new": ["new", "sex"],
    "plan": ["plan", "spec.toml"],
    "compare": ["plan", "spec.toml", "--compare"],
    "free": ["plan", "spec.toml", "--free", "--composed-with", "plan.json"],
    "count keys": ["count", "keys", "{n}.key"],
    "count": ["count", "plan.json", "people.csv", "--unsealed", "-o", "{n}.counts"],
    "release": ["release", "plan.json", "people.csv", "--ledger", "{n}.db", "-o", "{n}"],
    "series status": ["series", "status", *NO_SERIES],
    "series write": ["series", "write", *NO_SERIES, "--period", "1", "-o", "{n}"],
    "tables": ["tables", "release"],
    "ask": ["ask", "release", "count()"],
    "combine": ["combine", "release", "other", "--same-records", "-o", "{n}"],
    "integers": ["integers", "release", "-o", "{n}"],
    "write microdata": ["write", "microdata", "release", "--integers", "whole", "-o", "{n}.csv", "--batches", "9"],
    "write record": ["write", "record", "release", "-o", "{n}.yaml"],
    "write report": ["write", "report", "release", "-o", "{n}.html"],
    "write export": ["write", "export", "release", "-o", "{n}"],
    "write tables": ["write", "tables", "release", "-o", "{n}"],
    "write covariances": ["write", "covariances", "release", "-o", "{n}"],
    "verify": ["verify", "release"],
    "ledger show": ["ledger", "show", "ledger.db"],
    "ledger create": ["ledger", "create", "postgresql://localhost/people", "--print"],
    "ledger cap": ["ledger", "cap", "ledger.db", "--rho", "9", "--account", "people"],
    "ledger open": ["ledger", "open", "{n}.db", "--rho", "9", "--plan", "plan.json"],
    "ledger head": ["ledger", "head", "ledger.db"],
    "ledger verify": ["ledger", "verify", "ledger.db"],
    "studio": ["studio", "nowhere"],  # not a folder
    "demo": ["new", "--demo", "-o", "people.csv/x"],  # which cannot be made
    "schema": ["new", "--schema"],
    "example": ["new", "spec.toml", "--example", "3"],
}
"""One call of every command that writes."""

MODES = {"compare", "free", "demo", "schema", "example"}
"""The calls of other uses of a command."""


def test_every_command_is_tried():
    assert {name for names in HEADINGS.values() for name in names} == COMMANDS.keys() - MODES


@needs_full
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_under_a_stream_ends_with_an_exit_code_and_no_traceback(run, monkeypatch, command, as_json):
    """Detects a command that fails with an error of Python's, or stops because its progress cannot be shown."""

    def arguments(n):
        return [x.replace("{n}", n) for x in COMMANDS[command]] + ["--json"] * as_json

    code, out, err = run(*arguments("neither"))
    before = {p.name.replace("neither", "*") for p in Path().iterdir()} - {p.name for p in Path().iterdir()}
    for which in ("stdout", "stderr", "both"):
        with contextlib.ExitStack() as streams, monkeypatch.context() as patch:
            for name in ("stdout", "stderr") if which == "both" else (which,):
                stream = streams.enter_context(FULL.open("w", encoding="utf-8", buffering=1))
                patch.setattr(sys, name, stream)
            code_found, sentence, errors = run(*arguments(which))
        lost = (bool(out) and which != "stderr") or (bool(err) and which != "stdout")
        assert (code_found in (1, code) and bool(code_found)) if lost else code_found == code, which
        if which == "stdout" and out:
            message = "The output cannot be written (No space left on device)."
            error = {"code": "output", "place": None, "message": message, "exit_code": 1}
            last = json.dumps({"event": "error", "error": error}) if as_json else f"error: {message}"
            assert (code_found, errors.splitlines()[-1]) == (1, last)
        if which == "stderr" and code == 0:
            assert not as_json or json.loads(sentence)
        new_files = {p.name.replace(which, "*") for p in Path().iterdir()} - {p.name for p in Path().iterdir()}
        assert new_files == before, "every requested file was written"


@needs_full
def test_words_that_cannot_be_written_stop_no_release(run):
    """A process of its own ends with 1, the release is complete, and nothing was charged without a result."""
    arguments = [sys.executable, "-m", "fitnoise", *COMMANDS["release"], "--json"]
    with FULL.open("w") as full:
        done = subprocess.run(
            [x.replace("{n}", "r") for x in arguments],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert json.loads(done.stdout)["dropped"]["dropped"] == 9
    assert fn.verify("r", ledger=fn.Ledger("r.db")).ok


# --- what killed processes left ---------------------------------------------------------------------------------------

FOLDERS = {
    "combine": ["combine", "release", "other", "--same-records", "-o", "made"],
    "integers": ["integers", "release", "-o", "made"],
    "export": ["write", "export", "release", "-o", "made"],
}


@pytest.mark.parametrize("command", FOLDERS)
def test_what_a_killed_command_left_of_a_folder_is_named_and_removed(run, command):
    unfinished, charged = Path(".made.unfinished-0123abcd"), Path(".made.unfinished-0123abce")
    for folder in (unfinished, charged):
        folder.mkdir()
    (unfinished / "a.csv").write_text("half")
    (charged / "release.json").write_text("{}")
    code, _, err = run(*FOLDERS[command])
    assert (code, unfinished.exists(), charged.exists()) == (0, False, True)
    assert f"removed '{unfinished}', which a killed process left of 'made'." in err.splitlines()
    assert f"'{charged}' holds a complete release" in err


def test_what_a_killed_process_left_of_a_release_that_is_written_again_is_removed(run, tmp_path):
    unfinished, notices = tmp_path / ".again.unfinished-0123abcd", []
    unfinished.mkdir()
    (unfinished / "plan.json").write_text("{}")
    release = fn.Release.read("release")
    release.write("again", notice=notices.append)
    assert not unfinished.exists()
    (notice,) = notices
    assert notice.startswith(
        f"removed {unfinished.name!r}, which a killed process left of a release to 'again'; whether"
    )
    unfinished.mkdir()
    release.write("once more")  # of another name: not its own
    assert unfinished.exists()


def test_what_a_killed_process_left_of_a_period_is_removed(run):
    Path("series.toml").write_text(SERIES)
    pd.DataFrame({"sex": ["f", "m"] * 9, "year": [1, 2] * 9}).to_csv("years.csv", index=False)
    assert run("plan", "series.toml", "-o", "series.json")[0] == 0
    options = ("--series", "kept", "--ledger", "s.db")
    assert run("release", "series.json", "years.csv", "--period", "1", *options, "-o", "first")[0] == 0
    unfinished = Path(".written.unfinished-0123abcd")
    unfinished.mkdir()
    code, _, err = run("series", "write", "series.json", "--period", "1", *options, "-o", "written")
    assert (code, unfinished.exists()) == (0, False)
    assert f"removed '{unfinished}'" in err


def test_tables_are_put_in_place_completely(run, monkeypatch):
    """Detects a table of half its rows, which a killed process leaves under its own name."""
    unfinished = Path("made/.sex.csv.unfinished-0123abcd")
    unfinished.parent.mkdir()
    unfinished.write_text("half")
    assert run("write", "tables", "release", "--table", "sex", "-o", "made")[0] == 0
    assert [p.name for p in unfinished.parent.iterdir()] == ["sex.csv"]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_replaces_nothing(tmp_path, monkeypatch, links):
    if not links:

        def none(*_):
            raise OSError(errno.EPERM, "no links")

        monkeypatch.setattr(os, "link", none)
    path = tmp_path / "a.csv"
    new_file(path, b"first")
    with pytest.raises(FileExistsError) as caught:
        new_file(path, b"second")
    assert Path(caught.value.filename) == path
    assert path.read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_a_folder_of_texts_that_fails_names_what_it_found(tmp_path, monkeypatch):
    (tmp_path / ".x.unfinished-0123abcd").mkdir()
    monkeypatch.setattr(release_files.shutil, "rmtree", lambda *_, **__: None)
    notices = []
    with refused("release.place-not-writable"):
        write_texts(tmp_path / "x", [("a" * 300, "")], notices.append)
    assert notices == [
        "'.x.unfinished-0123abcd' is what a killed process left of a release, and cannot be removed: remove it."
    ]
