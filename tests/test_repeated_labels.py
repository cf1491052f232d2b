"""Several codes of one label: 30 counties are called Washington. Codes distinguish them wherever values are named."""

import csv
import io
from fractions import Fraction

import numpy as np
import openpyxl
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.interfaces.pages import fragments
from fitnoise.messages import translator
from fitnoise.reading.layouts import layout
from fitnoise.request.coverage import list_values
from fitnoise_check import __main__ as checker
from laws.releases import answered, by_command, check_further_columns, released
from refused import refused

COUNTIES = fn.Categorical(
    {"53": "Washington", "41": "Washington", "19": "Polk", "7": "Adair"}, missing={"unknown": ["x"]}
)
DOMAIN = fn.Domain(county=COUNTIES, sex=fn.Categorical(["f", "m"]))
RECORDS = pd.DataFrame(
    {"county": ["53"] * 40 + ["41"] * 300 + ["19"] * 90 + ["7"] * 10 + ["x"] * 5, "sex": (["f", "m"] * 223)[:445]}
)
TABLES = [
    fn.table("county", "sex", margin=1),
    fn.table("county", margin=fn.ByAttribute("county", {"53": 0.4, "unknown": 0.8}, default=0.6)),
    fn.table("sex", groups={"county": {"Washingtons": ["53", "41"], "Polk": "Polk"}}, margin=1),
    fn.table(change={"county": 1}, margin=2),
]
COUNTS = {"53": 40, "41": 300, "19": 90, "7": 10, "unknown": 5}


@pytest.fixture(scope="module")
def plan():
    return fn.plan(fn.Workload(DOMAIN, TABLES), gap=1e-2)


@pytest.fixture(scope="module")
def release(plan):
    return released(plan, RECORDS)


@pytest.fixture(scope="module")
def folder(release, tmp_path_factory):
    return release.write(tmp_path_factory.mktemp("release") / "r")


def test_an_attribute_names_values_of_one_label_by_code():
    assert COUNTIES.values == ("Washington", "Washington", "Polk", "Adair", "unknown")
    assert COUNTIES.cell_names == ("53", "41", "19", "7", "unknown")
    assert [COUNTIES.position(x) for x in ("53", "41", "Polk", "19", "unknown")] == [0, 1, 2, 2, 4]
    with refused("domain.label-of-several-codes"):
        COUNTIES.position("Washington")
    assert fn.Categorical({1: "a", 2: "b"}).cell_names == ("a", "b")
    assert list_values("county", COUNTIES, [0, 1]).text == "county 53, 41"


def test_tables_show_both_values_with_their_codes(release, folder):
    for name, frame in release.frames():
        check_further_columns(frame, release.plan.publication.workload[name], DOMAIN)
    frame = release["county"]
    assert frame["county"].tolist() == ["Washington", "Washington", "Polk", "Adair", "unknown"]
    assert dict(zip(frame["county_code"], frame["value"], strict=True)) == pytest.approx(COUNTS, abs=5)
    assert fn.verify(folder).ok
    head, *rows = csv.reader(io.StringIO((folder / "tables" / "county_change.csv").read_text()))
    assert head[:2] == ["county", "county_code"]
    assert [row[:2] for row in rows] == [["Washington", "41"], ["Polk", "19"], ["Adair", "7"]]


def test_questions_need_the_code_of_a_repeated_label(release):
    for code, count in COUNTS.items():
        assert release.count(county=code).value == pytest.approx(count, abs=5)
        assert release.sum("county", county=code).value == pytest.approx(count, abs=5)
    assert release.sum("county by sex", county=["53", "Polk"]).value == pytest.approx(130, abs=9)
    assert release.count(county="Polk").value == release.count(county="19").value
    with refused("release.wrong-selection"):
        release.count(county="Washington")
    with refused("release.unknown-label") as error:
        release.sum("county", county="Washington")
    assert "code names the row" in str(error.value)
    with refused("release.unknown-label"):
        release.sum("county", county="Jackson")


def test_a_breakdown_is_by_code_and_shows_the_label(release):
    counts = release.count(by="county")
    assert counts.labels == {"county": COUNTIES.cell_names}
    frame = counts.frame()
    assert list(frame)[:3] == ["county", "county_code", "value"]
    assert frame["county"].tolist() == list(COUNTIES.values)
    assert frame["county_code"].tolist() == list(COUNTIES.cell_names)
    assert "Washington  41" in repr(counts)
    assert counts["41"].value == pytest.approx(300, abs=5)
    several = counts[["41", "19"]]
    assert several.frame()[["county", "county_code"]].to_numpy().tolist() == [["Washington", "41"], ["Polk", "19"]]
    with refused("release.unknown-label-of-numbers"):
        counts["Washington"]
    shares = (release.count(by=["sex", "county"]) / counts).frame()
    assert shares["county_code"].tolist() == [*COUNTIES.cell_names] * 2
    with refused("release.different-labels"):  # both are called Washington, and are two counties
        counts[["41"]] / counts[["53"]]
    changes = counts.change("county").frame()
    assert changes["county_code"].tolist() == ["41", "19", "7"]


def test_a_breakdown_has_the_columns_of_the_table():
    """Frames, CSV and documents have codes and ends; people see labels, which are different here."""
    domain = fn.Domain(
        region=fn.Categorical({"01": "North", "02": "South"}, missing={"unknown": ["x"]}), pay=fn.Binned([10, 20.5])
    )
    plan = fn.plan(fn.Workload(domain, [fn.table("region", "pay", name="both", margin=2)]), gap=1e-2)
    numbers = released(plan, np.full(domain.shape, 50)).count(by=["region", "pay"])
    frame, table = numbers.frame(), released(plan, np.full(domain.shape, 50))["both"]
    stub = ["region", "region_code", "pay", "pay_from", "pay_to"]
    pd.testing.assert_frame_equal(frame[stub], table[stub])
    head, *_ = repr(numbers).splitlines()[1:]
    assert head.split()[:3] == ["region", "pay", "value"]
    rows = numbers.table(frame)
    assert [c.name for c in rows.columns][:5] == stub
    assert dict(zip(stub, rows.rows[0], strict=False))["pay_from"] is None
    assert numbers["South", ["under 10"]].frame().loc[0, ["pay", "pay_to"]].tolist() == ["under 10", 10]
    quartiles = released(plan, np.full(domain.shape, 50)).quantile("pay", [0.25, 0.75], by="region").frame()
    assert list(quartiles)[:4] == ["region", "region_code", "quantile", "value"]


def test_an_answer_by_command_shows_codes(folder, capsys):
    by_command("ask", str(folder), "count()", "--by", "county")
    out = capsys.readouterr().out
    assert "county_code" in out
    by_command("ask", str(folder), "count()", "--by", "county", "--csv")
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head[:2] == ["county", "county_code"]
    assert [row[1] for row in rows] == list(COUNTIES.cell_names)
    by_command("ask", str(folder), 'count(county="53")')
    assert "value" in capsys.readouterr().out
    by_command("ask", str(folder), 'count(county="Washington")')
    assert "belongs to the codes ['53', '41'" in capsys.readouterr().err


def test_pages_and_workbooks_distinguish_the_values(release, tmp_path):
    laid = layout(release, "county by sex")
    assert [label.code for (label,) in laid.rows][:2] == ["53", "41"]
    language = translator("en")
    assert fragments.labelled(laid.rows[0][0], language) == "Washington (53)"
    assert fragments.labelled(laid.rows[4][0], language) == "unknown"
    path = fn.export(release, tmp_path / "a.xlsx")
    sheet = openpyxl.load_workbook(path).worksheets[1]
    assert [[x.value for x in row[:2]] for row in sheet.iter_rows(min_row=5, max_row=6)] == [
        ["Washington (53)", "53"],
        ["Washington (41)", "41"],
    ]


def test_records_are_invented_and_checked_by_code(release, folder, tmp_path):
    tables = fn.make_integer_tables(release, ["county by sex", "county"], simulations=0)
    directory = tables.write(tmp_path / "integers")
    for ending in ("csv", "parquet"):
        path = tmp_path / f"records.{ending}"
        frame = fn.microdata(tables, anyway=True, batches=200, path=path)
        assert list(frame) == ["county", "county_code", "sex"]
        assert set(zip(frame["county"], frame["county_code"], strict=True)) == set(
            zip(COUNTIES.values, COUNTIES.cell_names, strict=True)
        )
        assert fn.verify(folder, integers=directory, microdata=path).ok


def test_a_specification_names_such_values_by_code(plan, tmp_path, capsys):
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    assert checker.main(str(tmp_path / "plan.json")) == 0
    assert "bound as stated" in capsys.readouterr().out
    with refused("workload.by-value-unknown"):
        fn.Workload(DOMAIN, [fn.table("county", margin=fn.ByAttribute("county", {"Washington": 1}, default=2))])
    with refused("workload.group-unusable", "domain.label-of-several-codes"):
        fn.Workload(DOMAIN, [fn.table("sex", groups={"county": {"w": ["Washington"]}}, margin=1)])
    pay = fn.Amount(0, fn.ByAttribute("county", {"53": 10, "41": 30}, default=20), step=1)
    assert [float(x.high) for x in fn.Domain(county=COUNTIES, pay=pay)["pay"].exact.classes] == [10, 30, 20, 20, 20]


def test_a_question_with_finitely_many_answers_names_such_values_by_code(tmp_path):
    ask = fn.FiniteQuery.count
    for code in ("53", "41"):
        question = ask("w", where={"county": code}, people=4, epsilon=Fraction(1, 2))
        plan = fn.plan(fn.Workload(DOMAIN, TABLES[:1]), questions=[question], gap=1e-2)
        (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
        assert checker.main(str(tmp_path / "plan.json")) == 0
    with refused("spec.label-of-several-codes", "domain.label-of-several-codes", "workload.wrong-selection"):
        fn.plan(
            fn.Workload(DOMAIN, TABLES[:1]), questions=[ask("w", where={"county": "Washington"}, people=4, epsilon=1)]
        )


def test_a_rule_about_impossible_cells_names_such_values_by_code(plan):
    release = answered(plan)
    combination = fn.given(release, [{"county": "53", "sex": "f"}])
    frame = combination["county by sex"]
    assert frame["value"][0] == frame["moe"][0] == 0
    assert (frame["moe"][1:] > 0).all()
    check_further_columns(frame, fn.table("county", "sex", margin=1), DOMAIN)
    with refused("domain.impossible-label-of-several-codes"):
        fn.given(release, [{"county": "Washington", "sex": "f"}])


def test_periods_of_one_label_are_refused():
    domain = fn.Domain(quarter=fn.Categorical({20251: "Q1", 20252: "Q2", 20261: "Q1"}))
    with refused("spec.series-periods-of-one-label"):
        fn.Publication(fn.Workload(domain, [fn.table("quarter", margin=9)]), series="quarter")


def test_the_names_of_rows_are_labels_where_these_differ():
    domain = fn.Domain(a=fn.Categorical({1: "x", 2: "y"}), b=fn.Ordered(0, 2))
    for table in (fn.table("a", "b", margin=1), fn.table("a", cumulative="b", margin=1)):
        assert table.row_names(domain) == table.labels(domain)
    matrix = fn.matrix_workload(np.eye(3), variances=1)
    assert matrix.tables[0].row_names(matrix.domain) == {"query": (0, 1, 2)}
    release = answered(fn.plan(matrix))
    assert list(release[next(iter(release))]) == ["query", "value", "std_error", "moe"]


def test_a_table_is_laid_out_with_few_reads_of_all_codes(monkeypatch):
    """One read for each label would take hours for a public list of a hundred thousand codes."""
    codes = fn.Categorical({f"q{i}": f"code {i}" for i in range(300)}, missing={"other": []}, if_outside="other")
    plan = fn.plan(fn.Workload(fn.Domain(code=codes), [fn.table("code", margin=9)]))
    reads, read = [], fn.Categorical.label_codes.fget
    monkeypatch.setattr(fn.Categorical, "label_codes", property(lambda self: reads.append(self) or read(self)))
    rows = [(row.text, row.code, row.is_repeated) for (row,) in layout(answered(plan), "code").rows]
    assert rows == [*((f"code {i}", f"q{i}", False) for i in range(300)), ("other", "", False)]
    assert 0 < len(reads) < 10
