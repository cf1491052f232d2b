"""Every table that is columns anywhere: what stands under a heading is what the heading says."""

import csv
import io
import json
import re
from fractions import Fraction

import numpy as np
import openpyxl
import pandas as pd
import pytest

import fitnoise as fn
from charges import loss
from fitnoise import messages
from fitnoise.interfaces.exports import latex
from fitnoise.interfaces.pages import fragments
from fitnoise.interfaces.pages.charts import cost_curve
from fitnoise.interfaces.pages.report import content
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.releases import answer_report
from fitnoise.messages import ValueKind, translator
from fitnoise.planning import what_if
from fitnoise.reading.layouts import layout
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.domain import DERIVED, RESERVED
from fitnoise_studio import page_parts
from headed import html_columns, html_tables, terminal_columns, under
from laws.releases import answered, by_command
from laws.reports import check_report
from refused import refused
from studios import SPEC, filled, opened
from test_pages import RULE, small

VISIBLE = {"bold": True, "quiet": False, "loud": True, "hushed": False, "last": True}
"""Columns by name, and whether people see them: a hidden one stands before, between and behind those that are seen."""

TERMINAL = messages.translator("en", typeset=False)


def columns_of(*names):
    return tuple(ReportColumn(n, f"head {n}" if VISIBLE[n] else None, spoken=n == "loud") for n in names)


@pytest.mark.parametrize("order", [VISIBLE, sorted(VISIBLE), sorted(VISIBLE, key=VISIBLE.get)], ids=str)
def test_a_cell_stands_under_its_heading_whatever_is_hidden(order):
    rows = [{n: f"{n}-{i}" for n in VISIBLE} for i in range(3)]
    table = ReportTable.from_rows("rows", columns_of(*order), rows[:2])
    table = ReportTable(table.key, table.columns, table.rows, foot=(tuple(rows[2][n] for n in order),))
    report = Report("", (Section(tables=(table,)),))
    expected = {f"head {n}": [f"{n}-{i}" for i in range(3)] for n in order if VISIBLE[n]}
    assert terminal_columns(lines(report), expected) == expected
    for language in ("en", "de"):
        assert html_columns(fragments.report(report, language)) == [expected]
    assert document(report)["rows"] == [{n: r[n] for n in order if n != "loud"} for r in rows[:2]]
    check_report(report)


@pytest.mark.parametrize(
    ("columns", "rows", "why"),
    [
        ((ReportColumn("a", "x"), ReportColumn("a", "y")), (), "named 'a'"),
        ((ReportColumn("a"), ReportColumn("b", "x"), ReportColumn("a", spoken=True)), (), "named 'a'"),
        ((ReportColumn("a", "x"), ReportColumn("b", "x")), (), "headed 'x'"),
        ((ReportColumn("a", "x"), ReportColumn("b", "y")), ((1,),), "one value for each"),
        ((ReportColumn("a", "x"),), ((1, 2),), "one value for each"),
    ],
)
def test_a_table_with_a_repeated_column_is_refused(columns, rows, why):
    with pytest.raises(ValueError, match=why):
        ReportTable("t", columns, rows)
    assert ReportTable(
        "t", (ReportColumn("a", ""), ReportColumn("b", ""), ReportColumn("c"), ReportColumn("d")), ()
    ).headings == ("", "")


def test_an_attribute_has_no_name_of_a_column_of_numbers():
    for name in (*RESERVED, *DERIVED):
        for spelling in (name, name.upper()):
            with refused("domain.attribute-name-derived", "domain.attribute-name-reserved"):
                fn.Domain({spelling: fn.Categorical(["a", "b"])})


# --- ledgers ---------------------------------------------------------------------------------------------------------

SPENT, CAP = Fraction(1, 64), Fraction(3, 4)


@pytest.fixture
def books(tmp_path, monkeypatch):
    """A studio with a ledger of two accounts: a charge to each, and a cap."""
    with opened(filled(tmp_path / "f", SPEC), monkeypatch) as client:
        with fn.Ledger(client.folder.root / "budget.sqlite") as book:
            one, two = (fn.Account(s, fn.PrivacyUnit(u)) for s, u in (("census", "person"), ("register", "household")))
            book.charge(one, loss(SPENT), {"plan": "a" * 64})
            book.charge(two, loss(SPENT / 2), {"plan": "b" * 64})
            book.set_cap(two, rho=CAP)
            entries = book.entries()
        yield client, entries


def expected_of(entries):
    return {
        "entry": [str(e.sequence) for e in entries],
        "time": [e.time for e in entries],
        "kind": [e.kind for e in entries],
        "account": [e.account.source for e in entries],
        "unit": [e.account.sentence for e in entries],
        "rho": [f"{float(e.rho):.7f}" for e in entries],
        "plan": [str(e.detail.get("plan", ""))[:12] for e in entries],
    }


def test_a_ledger_says_under_each_heading_what_it_says(books, capsys):
    client, entries = books
    expected = expected_of(entries)
    assert {*expected["account"]} == {"census", "register"}
    assert [x.split(" (")[0] for x in expected["unit"]] == ["one person", *["one household"] * 2]
    assert expected["rho"][0] == "0.0156250"
    in_words, columns = html_columns(client.page("/ledger"))
    assert columns == expected
    what = {"charge": "Release", "cap": "Cap set to ρ = 0.7500000"}
    newest_first = entries[::-1]
    assert in_words == {
        "No.": [str(e.sequence) for e in newest_first],
        "Time (UTC)": [e.time[:16].replace("T", " ") for e in newest_first],
        "Account": [e.account.source for e in newest_first],
        "What": [what[e.kind] for e in newest_first],
        "Cost ρ": [f"{float(e.rho):.7f}" if e.kind == "charge" else "–" for e in newest_first],
        "Release or reason": ["–"] * len(entries),
    }
    path = client.folder.root / "budget.sqlite"
    by_command("ledger", "show", str(path))
    assert terminal_columns(capsys.readouterr().out.splitlines(), expected) == expected
    by_command("ledger", "show", str(path), "--json")
    read = json.loads(capsys.readouterr().out)["entries"]
    assert [(e["sequence"], e["time"], e["kind"], e["source"], e["privacy_unit"], e["rho_exact"]) for e in read] == [
        (e.sequence, e.time, e.kind, e.account.source, e.account.sentence, str(e.rho)) for e in entries
    ]


# --- releases --------------------------------------------------------------------------------------------------------

DOMAIN = fn.Domain(
    {"from": fn.Categorical(["n", "s", "w"]), "to": fn.Categorical(["n", "s"]), "records": fn.Ordered(0, 11)}
)
"""Attributes moves as columns of numbers are."""


@pytest.fixture(scope="module")
def moves():
    tables = [fn.table("from", "records", "to", margin=9), fn.table("records", margin=5), fn.table("from", margin=3)]
    plan = fn.plan(fn.Workload(DOMAIN, tables), title="Moves", gap=1e-2)
    answers = iter(range(10**6))
    lengths = plan.groups[0].strategy.lengths
    return fn.Release(plan, [np.array([10**7 + 10**5 * next(answers) for _ in range(n)]) for n in lengths])


def values_of(release, name):
    """The numbers of a table by their labels, as texts."""
    frame = release[name]
    labels = [c for c in frame.columns if c not in RESERVED]
    return {tuple(map(str, row[:-1])): row[-1] for row in frame[[*labels, "value"]].itertuples(index=False)}, labels


@pytest.mark.parametrize("language", [translator("en"), translator("de")], ids=["en", "de"])
def test_numbers_of_a_release_stand_under_their_labels(moves, language):
    for i, name in enumerate(moves):
        laid = layout(moves, name)
        text = fragments.fragment("table", language.code, x=fragments.render_table(laid, language, moves, i))
        values, labels = values_of(moves, name)
        groups = re.findall(r'<th scope="rowgroup"[^>]*>(.*?)</th>', text)
        bodies = text.split("<tbody>")[1:]
        head = text.split("<tbody>")[0]
        seen = {}
        for k, body in enumerate(bodies):
            above = tuple(groups[k].split(" · ")) if groups else ()
            ((heads, rows),) = html_tables(f"{head}<tbody>{body}")
            assert len({*heads}) == len(heads)
            for row in rows:
                for heading, cell in zip(heads[1:], row[1:], strict=True):
                    seen[(*above, row[0], *([heading] if laid.across else []))] = cell
        assert seen == {k: language.number(v, laid.decimals) for k, v in values.items()}
        if not laid.across:
            assert heads[0] == labels[0] != heads[1]


def test_answers_stand_under_their_headings(moves):
    result = moves.count(by=("from", "to"))
    frame = result.frame()
    report = answer_report(moves, "count()", result, frame, simultaneous=False)
    check_report(report)
    expected = {
        "from": frame["from"].tolist(),
        "to": frame["to"].tolist(),
        "value": [TERMINAL.kind(ValueKind.ESTIMATE, x) for x in frame["value"]],
        "standard error": [TERMINAL.kind(ValueKind.PEOPLE, x) for x in frame["std_error"]],
        "margin ±": [TERMINAL.kind(ValueKind.PEOPLE, x) for x in frame["moe"]],
    }
    assert terminal_columns(lines(report), expected) == expected
    columns = {k: [x.replace("-", "−") for x in v] for k, v in expected.items()}
    assert html_columns(fragments.report(report)) == [columns]
    shares = result / moves.count()
    report = answer_report(moves, "a/b", shares, shares.frame(), simultaneous=False)
    (table,) = html_columns(fragments.report(report))
    assert [*table] == ["from", "to", "value", "from (value)", "to (value)"]
    assert table["from"] == frame["from"].tolist()
    assert table["to (value)"] == [TERMINAL.kind(ValueKind.NUMBER, x).replace("-", "−") for x in shares.frame()["high"]]


def test_a_notebook_says_ends_under_their_headings(moves):
    result = moves.count(by=("from", "to")) / moves.count()
    (table,) = html_columns(result._repr_html_())
    frame = result.frame()
    assert [*table] == ["from", "to", "value", "from (value)", "to (value)", ""]
    assert table["from"] == frame["from"].tolist()
    assert table["to"] == frame["to"].tolist()
    for heading, column in (("value", "value"), ("from (value)", "low"), ("to (value)", "high")):
        read = [float(x.replace("−", "-").replace(",", "")) for x in table[heading]]
        assert read == pytest.approx(frame[column].tolist(), abs=0.06)


def test_a_workbook_says_each_number_under_a_heading_of_its_own(moves, tmp_path):
    release = moves
    path = fn.export(release, tmp_path / "a.xlsx", bands=RULE)
    for sheet, name in zip(openpyxl.load_workbook(path).worksheets[1:], release, strict=True):
        head = [c.value for c in sheet[4]]
        assert None not in head
        assert len({*head}) == len(head)
        laid = layout(release, name, bands=RULE)
        read = pd.read_excel(path, sheet_name=sheet.title, header=3, nrows=len(laid.rows), engine="openpyxl")
        values, labels = values_of(release, name)
        margins = {tuple(map(str, r[:-1])): r[-1] for r in release[name][[*labels, "moe"]].itertuples(index=False)}
        (stubs, across) = (labels[:-1], labels[-1]) if laid.across else (labels, None)
        seen = {"": {}, " ±": {}}
        for row in read.astype(dict.fromkeys(stubs, str)).to_dict("records"):
            for label in map(str, DOMAIN[across].values) if across else [next(x for x in head if f"{x} ±" in head)]:
                for sign, numbers in seen.items():
                    numbers[(*(row[s] for s in stubs), *([label] if across else []))] = row[label + sign]
        assert seen[""] == pytest.approx(values, abs=1e-6)
        assert seen[" ±"] == pytest.approx(margins)


def test_latex_says_each_number_under_its_heading(moves):
    language = translator("en")
    for name in moves:
        laid = layout(moves, name)
        text = latex.latex(moves, [laid], language, None).decode()
        head = next(x for x in text.splitlines() if x.startswith(latex.escaped(laid.stubs[0].name)) and " & " in x)
        heads = [re.sub(r"\\multicolumn\{2\}\{c\}\{(.*)\}", r"\1", x) for x in head.removesuffix(r"\\").split(" & ")]
        assert len({*heads}) == len(heads)
        rows = text.split("\\midrule\\endhead\n")[1].split("\\bottomrule")[0].strip().splitlines()
        values, _ = values_of(moves, name)
        stubs, seen = len(laid.stubs), {}
        for row in rows:
            cells = row.removesuffix(r"\\").split(" & ")
            for j, heading in enumerate(heads[stubs:]):
                seen[(*cells[:stubs], *([heading] if laid.across else []))] = cells[stubs + 2 * j]
        assert seen == {k: latex.escaped(language.number(v, laid.decimals)) for k, v in values.items()}


def test_a_data_package_says_each_number_under_its_heading(moves, tmp_path):
    folder = fn.export(moves, tmp_path / "p", bands=RULE)
    package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
    for name, resource in zip(moves, package["resources"], strict=True):
        head, *rows = csv.reader(io.StringIO((folder / resource["path"]).read_text(encoding="utf-8")))
        assert len({*head}) == len(head)
        assert [f["name"] for f in resource["schema"]["fields"]] == head
        values, labels = values_of(moves, name)
        by_name = [dict(zip(head, row, strict=True)) for row in rows]
        assert {tuple(r[x] for x in labels): float(r["value"]) for r in by_name} == pytest.approx(values, abs=1e-6)
        assert [float(r["moe"]) for r in by_name] == pytest.approx(moves[name]["moe"].tolist(), abs=1e-6)


def test_a_plan_and_its_report_say_the_summary_under_its_headings():
    """The table of margins in a notebook, and the table of questions on the page of the report."""
    questions = [
        fn.FiniteQuery.sum("ages", "age", people=5, epsilon=1),
        fn.FiniteQuery.quantile("old", "age", quantile=0.9, people=5, epsilon=Fraction(1, 2)),
    ]
    domain = fn.Domain(area=fn.Categorical(["n", "s"]), age=fn.Ordered(0, 3))
    tables = [fn.table("area", margin=4), fn.table("area", cumulative="age", margin=9)]
    plan = fn.plan(fn.Workload(domain, tables), questions=questions, gap=1e-2)
    language = translator("en")
    margins = {
        "table": [s.name for s in plan.summaries],
        "numbers": [language.number(s.numbers) for s in plan.summaries],
        "requested ±": [language.kind(ValueKind.PEOPLE, s.target_moe) for s in plan.summaries],
        "achieved ±": [language.kind(ValueKind.PEOPLE, s.achieved_moe) for s in plan.summaries],
        "confidence": [language.kind(ValueKind.LEVEL, s.confidence) for s in plan.summaries],
        "share of price": [language.kind(ValueKind.PROPORTION, s.price) for s in plan.summaries],
    }
    ((heads, rows),) = html_tables(plan._repr_html_())
    assert heads == [*margins, ""]  # the last is above two columns: the share, and its bar
    assert [[row[j] for row in rows] for j in range(6)] == [*margins.values()]
    release = answered(plan, 2)
    page = fragments.environment("en").get_template("report.html")
    (columns,) = (x for x in map(under, html_tables(page.render(**content(release)))) if "question" in x)
    expected = {
        "question": [q.summary.name for q in plan.questions],
        "answer": [language.kind(ValueKind.TEXT, release.finite[q.summary.name].value) for q in plan.questions],
        "margin ±": [language.kind(ValueKind.RESULT, q.summary.moe) for q in plan.questions],
        "margin in ranks ±": [language.kind(ValueKind.PEOPLE, q.summary.rank_moe) for q in plan.questions],
        "confidence": [language.kind(ValueKind.LEVEL, q.summary.confidence) for q in plan.questions],
        "exactly right": [language.kind(ValueKind.PROBABILITY, q.summary.hit_rate) for q in plan.questions],
        "ε": [language.kind(ValueKind.NUMBER, q.summary.epsilon) for q in plan.questions],
    }
    assert columns == expected


def test_the_studio_says_curves_and_sweeps_under_their_headings(tmp_path, monkeypatch):
    with opened(filled(tmp_path / "f"), monkeypatch) as client:
        client.certified()
        (curve,) = (x for x in html_columns(client.page("/prove")) if [*x] == ["δ", "ε"])
        path = client.folder.plan(client.folder.certified())
    plan, language = fn.Plan.from_json(path.read_text(encoding="utf-8")), translator("en")
    deltas = [10.0**-i for i in range(1, 40)]
    epsilons = {language.kind(ValueKind.NUMBER, d): language.kind(ValueKind.COMPARED, plan.epsilon(d)) for d in deltas}
    assert len(curve["δ"]) > 2
    assert curve["ε"] == [epsilons[d] for d in curve["δ"]]
    result = what_if.sweep(plan, plan.summaries[0].name, factors=(0.5, 2))
    curve_of_costs = cost_curve(
        *(np.array([getattr(x, name) for x in result.points]) for name in ("target_moe", "rho"))
    )
    (swept,) = html_columns(page_parts.render_part("sweep", "en", sweep=result, drawn=curve_of_costs))
    assert swept == {
        "Margin": [f"± {language.kind(ValueKind.PEOPLE, x.target_moe)}" for x in result.points],
        "ρ": [language.kind(ValueKind.COMPARED, x.rho) for x in result.points],
        "ε": [language.kind(ValueKind.COMPARED, x.epsilon) for x in result.points],
        "relative to the present cost": [
            language.kind(ValueKind.PROPORTION, x.rho / result.current.rho) for x in result.points
        ],
    }


def test_tables_of_every_view_have_unique_headings():
    """Values, cumulated values and groups; with and without totals."""
    release = small()
    for name in release:
        for totals in (False, True):
            laid = layout(release, name, totals=totals, bands=RULE)
            text = fragments.fragment("table", "en", x=fragments.render_table(laid, translator("en"), release, 0, RULE))
            for heads, rows in html_tables(text):
                assert len({*heads}) == len(heads)
                assert all(len(row) == len(heads) for row in rows)


# --- codes and ends in files -----------------------------------------------------------------------------------------

SHOPS = fn.Domain(
    town=fn.Categorical({"01": "=Bonn", "02": "Köln, west", "2": "03"}, missing={"unknown": ["?"]}),
    size=fn.Binned([-1.5, 10, 250], missing={"none": [-9]}),
)
ENDS = {
    "under -1.5": ("", "-1.5"),
    "-1.5 to under 10": ("-1.5", "10"),
    "10 to under 250": ("10", "250"),
    "250 or more": ("250", ""),
    "none": ("", ""),
}
CODES = {"=Bonn": "01", "Köln, west": "02", "03": "2", "unknown": "unknown"}


def test_a_file_says_codes_and_ends_under_their_headings(tmp_path, capsys):
    plan = fn.plan(fn.Workload(SHOPS, [fn.table("town", "size", margin=9), fn.table("town", margin=3)]), gap=1e-2)
    release = answered(plan, 7)
    tables = release.write(tmp_path / "r") / "tables"
    folder = fn.export(release, tmp_path / "p")
    integers = fn.make_integer_tables(release, simulations=0).write(tmp_path / "i")
    for path in (tables, folder / "tables", integers):
        for name in ("town_by_size", "town"):
            head, *rows = csv.reader(io.StringIO((path / f"{name}.csv").read_text(encoding="utf-8")))
            assert head[:2] == ["town", "town_code"]
            by_name = [dict(zip(head, row, strict=True)) for row in rows]
            assert [(r["town"].removeprefix("'"), r["town_code"]) for r in by_name] == [
                x for x in CODES.items() for _ in range(len(by_name) // 4)
            ]
            if name != "town":
                assert head[2:5] == ["size", "size_from", "size_to"]
                assert [(r["size"].removeprefix("'"), (r["size_from"], r["size_to"])) for r in by_name] == [
                    *ENDS.items()
                ] * 4
    read = pd.read_csv(tables / "town_by_size.csv", dtype={"town_code": str})
    stored = pd.read_parquet(tables / "town_by_size.parquet")
    frame = release["town by size"]
    for column in ("town_code", "size_from", "size_to"):
        assert read[column].equals(frame[column].astype(read[column].dtype))
        assert stored[column].equals(frame[column].astype(stored[column].dtype))
    by_command("tables", str(tables.parent), "town by size", "--json")
    rows = json.loads(capsys.readouterr().out)["tables"][0]["rows"]
    assert [(r["size"], r["size_from"], r["size_to"]) for r in rows[:5]] == [
        (label, *(float(x) if x else None for x in ends)) for label, ends in ENDS.items()
    ]
    # a table of codes is joined by them, without a word about labels
    rivers = pd.DataFrame({"town_code": ["01", "02", "2"], "river": ["Rhine", "Rhine", "none"]})
    assert read.merge(rivers, on="town_code")["river"].tolist() == ["Rhine"] * 10 + ["none"] * 5
    (folder,) = (
        x for x in json.loads((folder / "datapackage.json").read_text())["resources"] if x["title"] == "Records by town"
    )
    assert folder["schema"]["missingValues"] == [""]
