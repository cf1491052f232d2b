"""The packaged tax units are the ones PROVENANCE.md describes, and their rebuild keeps its promises."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from fitnoise import data
from fitnoise.data import rebuild_cps
from fitnoise.errors import DataError
from refused import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CSV_SHA256 = "71496685af8137fe78c9fad629b5594a2c9b77c8199d860a71ee5932b67cf605"
SOURCE = gzip.compress(
    b"RECID,fips,MARS,age_head,nu18,e00200,e00900,FLPDYR\n"
    b"1,6,1,40,0,0,0,2013\n"
    b"2,56,4,85,5,200000,-3,2014\n"
    b"3,6,1,41,0,0,0,2014\n"
    b"4,1,2,30,1,9999,7,2012\n"
)
EXPECTED = b"fips,status,age,kids,wages,selfemp\n56,4,85,3,7,1\n6,1,41,0,0,0\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tarball(file: Path, content: bytes, name: str = rebuild_cps.SOURCE, kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.size = kind, len(content)
        tar.addfile(member, io.BytesIO(content))
    return file


@pytest.fixture(scope="module")
def rows() -> list[dict[str, int]]:
    with gzip.open(data.path(data.CPS), "rt", encoding="ascii", newline="") as lines:
        return [{column: int(code) for column, code in row.items()} for row in csv.DictReader(lines)]


@pytest.fixture(scope="module")
def states() -> dict[int, str]:
    with data.path(data.STATES).open(encoding="ascii", newline="") as lines:
        reader = csv.reader(lines)
        assert next(reader) == ["code", "label"]
        return {int(code): label for code, label in reader}


# The packaged files


def test_the_packaged_csv_is_the_documented_one() -> None:
    packed = data.path(data.CPS).read_bytes()
    assert packed[3:8] == bytes(5), "the gzip header holds a name or a time"
    assert sha256(gzip.decompress(packed)) == CSV_SHA256 == rebuild_cps.CSV_SHA256


def test_the_provenance_states_the_hashes_of_this_package() -> None:
    stated = data.path(data.CPS).with_name("PROVENANCE.md").read_text(encoding="utf-8")
    packed = sha256(data.path(data.CPS).read_bytes())
    for needed in (CSV_SHA256, rebuild_cps.SOURCE_SHA256, packed):
        assert f"`{needed}`" in stated


def test_the_rows_take_exactly_the_documented_values(rows: list[dict[str, int]], states: dict[int, str]) -> None:
    assert len(rows) == 103_589
    assert {column: {row[column] for row in rows} for column in rows[0]} == {
        "fips": set(states),
        "status": {1, 2, 3, 4},
        "age": {*range(81), 85},
        "kids": {0, 1, 2, 3},
        "wages": set(range(8)),
        "selfemp": {0, 1},
    }


def test_a_head_under_18_counts_among_the_kids(rows: list[dict[str, int]]) -> None:
    young = [row["kids"] for row in rows if row["age"] < 18]
    assert len(young) == 1_107
    assert min(young) == 1


def test_the_states_are_in_order_of_code_and_of_name(states: dict[int, str]) -> None:
    assert len(states) == len(set(states.values())) == 51
    assert list(states) == sorted(states)
    assert list(states.values()) == sorted(states.values())  # FIPS numbered the states by name
    expected_states = {1: "Alabama", 11: "District of Columbia", 36: "New York", 48: "Texas", 56: "Wyoming"}
    assert expected_states.items() <= states.items()


def test_only_packaged_files_have_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("data.packaged-file-unknown"):
        data.path("weights.csv")
    monkeypatch.setattr("fitnoise.data.resources.files", lambda _: tmp_path)
    with refused("data.packaged-file-missing"):
        data.path(data.CPS)


# The rules


@pytest.mark.parametrize(
    ("dollars", "band"),
    [
        (0, 0), (1, 1), (9_999, 1), (10_000, 2), (24_999, 2), (25_000, 3), (49_999, 3), (50_000, 4),
        (74_999, 4), (75_000, 5), (99_999, 5), (100_000, 6), (199_999, 6), (200_000, 7), (3_000_000, 7),
    ],
)  # fmt: skip
def test_wages_count_the_cut_points_reached(dollars: int, band: int) -> None:
    record = {"fips": "2", "MARS": "1", "age_head": "30", "nu18": "0", "e00200": str(dollars), "e00900": "0"}
    assert rebuild_cps.coded(record) == (2, 1, 30, 0, band, 0)


@pytest.mark.parametrize(
    ("record", "row"),
    [
        (("23", "2", "48", "0", "26000", "0"), (23, 2, 48, 0, 3, 0)),
        (("11", "3", "0", "1", "0", "0"), (11, 3, 0, 1, 0, 0)),
        (("56", "4", "85", "3", "0", "1"), (56, 4, 85, 3, 0, 1)),
        (("1", "1", "80", "4", "0", "-1"), (1, 1, 80, 3, 0, 1)),
        (("1", "1", "17", "12", "0", "-240530"), (1, 1, 17, 3, 0, 1)),
    ],
)
def test_a_record_is_coded_as_documented(record: tuple[str, ...], row: tuple[int, ...]) -> None:
    names = ("fips", "MARS", "age_head", "nu18", "e00200", "e00900")
    assert rebuild_cps.coded(dict(zip(names, record, strict=True))) == row


# The rebuild


def test_a_rebuild_keeps_the_rows_of_2014_in_order_and_repeats_to_the_byte(tmp_path: Path) -> None:
    sdist = tarball(tmp_path / "sdist.tar.gz", SOURCE)
    first_out, second_out = tmp_path / "first.csv.gz", tmp_path / "second.csv.gz"
    second_out.write_bytes(b"old")
    for out in (first_out, second_out):
        rebuild_cps.rebuild(sdist, out, source_sha256=sha256(SOURCE), csv_sha256=sha256(EXPECTED))
    assert gzip.decompress(first_out.read_bytes()) == EXPECTED
    assert first_out.read_bytes() == second_out.read_bytes()
    assert first_out.read_bytes()[3:8] == bytes(5)
    assert sorted(tmp_path.iterdir()) == [first_out, sdist, second_out]


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "another source": (lambda file: tarball(file, SOURCE + b"\0"), "data.checksum-differs"),
    "another result": (lambda file: tarball(file, SOURCE), "data.checksum-differs"),
    "source elsewhere": (lambda file: tarball(file, SOURCE, "cps.csv.gz"), "data.tarball-lacks-file"),
    "source a folder": (
        lambda file: tarball(file, b"", kind=tarfile.DIRTYPE),
        "data.tarball-lacks-file",
    ),
    "not a tarball": (lambda file: file.write_bytes(SOURCE), "data.tarball-damaged"),
    "cut short": (lambda file: file.write_bytes(tarball(file, SOURCE).read_bytes()[:150]), "data.tarball-damaged"),
    "a folder": (lambda file: file.mkdir(), "data.tarball-unreadable"),
    "missing": (lambda _: None, "data.tarball-unreadable"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_rebuild_writes_nothing(tmp_path: Path, case: str) -> None:
    make, code = REFUSED[case]
    sdist, out = tmp_path / "sdist.tar.gz", tmp_path / "out.csv.gz"
    make(sdist)
    out.write_bytes(b"old")
    before = sorted(tmp_path.iterdir())
    with refused(code):
        rebuild_cps.rebuild(sdist, out, source_sha256=sha256(SOURCE), csv_sha256="0" * 64)
    assert out.read_bytes() == b"old"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("out_name", ["absent/out.csv.gz", "sdist.tar.gz/out.csv.gz", "folder"])
def test_an_output_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, out_name: str) -> None:
    sdist = tarball(tmp_path / "sdist.tar.gz", SOURCE)
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with refused("data.output-not-written"):
        rebuild_cps.rebuild(sdist, tmp_path / out_name, source_sha256=sha256(SOURCE), csv_sha256=sha256(EXPECTED))
    assert sorted(tmp_path.rglob("*")) == before


def test_the_command_refuses_another_source_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sdist, out = tarball(tmp_path / "sdist.tar.gz", SOURCE), tmp_path / "out.csv.gz"
    assert rebuild_cps.main([str(sdist), str(out)]) == DataError.exit_code
    assert not out.exists()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert rebuild_cps.SOURCE_SHA256 in printed.err
    assert sha256(SOURCE) in printed.err


def test_the_command_reports_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilds: list[tuple[Path, Path]] = []
    monkeypatch.setattr(rebuild_cps, "rebuild", lambda sdist, out: rebuilds.append((sdist, out)))
    sdist, out = tmp_path / "a", tmp_path / "b"
    assert rebuild_cps.main([str(sdist), str(out)]) == 0
    assert rebuilds == [(sdist, out)]
    assert capsys.readouterr().out == f"wrote {out}: the CSV inside has SHA-256 {CSV_SHA256}\n"
