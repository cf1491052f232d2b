"""The command that regenerates the tables of the fit-for-use paper: what is printed there, and what it writes."""

import csv
import sys
from pathlib import Path

import pytest

from fitnoise.errors import GapNotReached
from tolerances import EXACT

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import reproduce_fit_for_use as reproduce

QUICK = ["--largest", "16", "--seeds", "2"]


def make_tables(folder, *keys):
    """The rows of each table, by number and then by case and mechanism."""
    reproduce.main(["-o", str(folder), "--only", *keys, *QUICK])
    tables = {}
    for path in folder.glob("*.csv"):
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        tables[path.stem] = rows
    return tables


def by_case(rows):
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["mechanism"]] = row
    return cases


@pytest.mark.parametrize("table", range(4, 12))
def test_what_the_paper_prints_is_consistent(table):
    """SM-II is 1, nothing is better; weights change nothing for unit targets, nor make CA better than the optimum."""
    for case in reproduce.PRINTED[table].values():
        assert tuple(case) == reproduce.RATIOS
        assert case["SM-II"] == 1 <= min(case.values())
        assert max(case["CA"], case["wCA-I"], case["wCA-II"]) <= case["IP"]
        assert (case["CA"] == case["wCA-I"] == case["wCA-II"]) == (table not in {6, 8})
        if table in {6, 8}:
            assert case["wCA-I"] < case["wCA-II"] < case["CA"]


def test_sizes_are_those_of_the_paper():
    rows = {number: list(cases) for number, cases in reproduce.PRINTED.items()}
    assert list(rows) == list(range(2, 12))
    assert rows[2] == [2, 4, 8, 16, 64]
    assert rows[3] == [2, 4, 8, 16]
    assert rows[10] == [2, 4, 6, 8, 10, 12, 14, 16]
    assert all(rows[number] == [64, 128, 256, 512, 1024] for number in (5, 6, 7, 8, 11))
    privacy = [x["SM-II"] for x in reproduce.PRINTED[2].values()]
    assert privacy == sorted(privacy) == [x["interior point"] for x in reproduce.PRINTED[2].values()]


def test_every_table_and_figure_can_be_made():
    assert {t.key for t in reproduce.TABLES} | {"F1"} == set(reproduce.ORDER)
    assert [k for k in reproduce.ORDER if not k.startswith("F")] == [str(n) for n in reproduce.PRINTED]


@pytest.mark.slow
def test_tables_are_written_and_ours_is_between_the_bound_and_every_other(tmp_path, capsys):
    tables = make_tables(tmp_path, "6", "10")
    output = capsys.readouterr().out
    assert set(tables) == {"table_06", "table_10"}
    for name, rows in tables.items():
        assert tuple(rows[0]) == reproduce.COLUMNS
        text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert text in output
        for case, row in by_case(rows).items():
            assert f"| {case} | found |" in text
            ours = float(row["ours"]["cost_squared"])
            assert float(row["ours"]["bound"]) <= ours * (1 + EXACT)
            assert float(row["ours"]["gap"]) < 2e-6
            for other in row.values():
                assert not other["low"] or float(other["low"]) >= 1 - 2e-6
                assert not other["found"] or float(other["low"]) <= float(other["found"]) <= float(other["high"])
    assert [row["draws"] for row in by_case(tables["table_06"])["d = 16"].values()] == ["2"] * 12


def test_known_values_of_marginals_and_prefixes(tmp_path):
    """The optima of the gallery, Table 2 to the digit, IP of Table 10, and CA above fitnoise."""
    tables = make_tables(tmp_path, "2", "10")
    for case, row in by_case(tables["table_02"]).items():
        printed = reproduce.PRINTED[2][int(case.split(" = ")[1])]["SM-II"]
        assert round(float(row["ours"]["found"]), 2) == round(float(row["SM-II, printed"]["found"]), 2) == printed
        assert float(row["SM-II, printed"]["printed"]) == printed
    cubes = by_case(tables["table_10"])
    assert float(cubes["t = 16"]["ours"]["total_error"]) == pytest.approx(1.4193, abs=1e-4)  # 1.34 is printed
    assert float(cubes["t = 8"]["ours"]["cost_squared"]) == pytest.approx(4.504424, rel=2e-6)
    for case, row in cubes.items():
        t = int(case.split(" = ")[1])
        assert float(row["IP"]["cost_squared"]) == pytest.approx(t * t, rel=EXACT)
        assert 1.005 < float(row["IP"]["found"]) / float(row["IP"]["printed"]) < 1.02
        assert float(row["CA"]["found"]) > 1.1
        assert bool(row["SM-II, printed"]["found"]) == (t == 2)  # dense, so up to --largest


def test_what_hits_the_limit_says_so(capsys):
    reproduce.main(["--only", "3", "--largest", "16", "--seconds-per-solve", "0.01"])
    text = capsys.readouterr().out
    assert "over 0.01 s" in text
    assert "| d = 16 | paper | – | 264.36 | 0.058 | – |" in text


def test_figures_are_drawn(tmp_path):
    tables = make_tables(tmp_path, "F1", "F2")
    assert list(tables["figure_01"][0])[:2] == ["epsilon", "Δ = 0.1"]
    for name in ("figure_01", "figure_02"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reproduce.main(["--only", "F1"])
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        reproduce.main(["--seeds", "0"])


def test_a_gap_that_rounding_prevents_is_requested_again():
    gaps = []

    def solved(gap):
        gaps.append(gap)
        if gap < 1e-6:
            raise GapNotReached("gap-not-reached", "The gap is too large.", "", "Raise it.", "Nothing was planned.")
        return gap

    assert reproduce.solve_near_optimum(solved) == 1e-6
    assert gaps == [1e-7, 1e-6]
