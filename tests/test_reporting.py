"""Reports as data: what they are written in, and how they are shown to people and to programs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fitnoise.interfaces.render import document, lines
from fitnoise.messages import NOTHING, Message, Value, ValueKind, english, translator
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section, aligned
from laws.reports import check_report


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        (ValueKind.TEXT, "as it is", "as it is"),
        (ValueKind.TEXT, 7, "7"),
        (ValueKind.MESSAGE, Message("report.heading.rho"), "rho"),
        (ValueKind.TEXT, True, "True"),
        (ValueKind.TEXT, (1, "two", 0.5), "1, two, 0.5"),
        (ValueKind.TEXT, None, NOTHING),
        (ValueKind.CHECK, True, "ok"),
        (ValueKind.CHECK, False, "FAILS"),
        (ValueKind.COUNT, 1234567, "1,234,567"),
        (ValueKind.COUNT, "several", "several"),
        (ValueKind.NUMBER, 1e-6, "1e-06"),
        (ValueKind.RESULT, 0.1 + 0.2, "0.3"),
        (ValueKind.RESULT, 123456, "123456"),
        (ValueKind.ESTIMATE, -1234.56, "-1,234.6"),
        (ValueKind.PEOPLE, 9.4909, "9.491"),
        (ValueKind.SIMULATED, (27.772, 1.66), "27.77 ± 1.7"),
        (ValueKind.SIMULATED, 12.262, "12.26"),
        (ValueKind.COST, 0.03562092, "0.0356209"),
        (ValueKind.COST, None, NOTHING),
        (ValueKind.COMPARED, 1.22611, "1.2261"),
        (ValueKind.OPTIMUM, 0.07124181512, "0.071241815"),
        (ValueKind.FINE, 0.5, "0.500000"),
        (ValueKind.GAP, 1.7e-7, "1.7e-07"),
        (ValueKind.RATIO, 1, "1.000"),
        (ValueKind.FACTOR, 1.50999, "1.51"),
        (ValueKind.PROPORTION, 0.1666, "16.7%"),
        (ValueKind.PROBABILITY, 0.39236, "39.24%"),
        (ValueKind.LEVEL, 0.95, "95 %"),
        (ValueKind.LEVEL, 0.999999, "99.9999 %"),
        (ValueKind.BITS, 3.86, "3.860"),
        (ValueKind.SECONDS, 0.007, "0.01"),
    ],
)
def test_kinds_round_for_people(kind, number, text):
    assert translator("en", typeset=False).kind(kind, number) == text
    assert kind.numeric == (kind not in (ValueKind.TEXT, ValueKind.MESSAGE, ValueKind.CHECK))
    assert kind.meaning


@pytest.mark.parametrize("typeset", [False, True])
def test_numbers_below_0_rounded_to_0_have_no_sign(typeset):
    english, german = (translator(code, typeset=typeset) for code in ("en", "de"))
    assert english.kind(ValueKind.ESTIMATE, np.float64(-0.03)) == english.number(-0.03, 1) == "0.0"
    assert german.number(-0.03, 1) == "0,0"
    assert english.kind(ValueKind.PEOPLE, -0.0) == "0"
    assert english.kind(ValueKind.ESTIMATE, -0.06) == ("−0.1" if typeset else "-0.1")
    assert english.kind(ValueKind.COUNT, -3) == ("−3" if typeset else "-3")


COLUMNS = (
    ReportColumn("name", "who"),
    ReportColumn("n", "how many", ValueKind.COUNT),
    ReportColumn("exact"),
    ReportColumn("mark", "", spoken=True),
)
ROWS = [{"name": "a", "n": 1000, "exact": "1/3", "mark": "*"}, {"name": "bc", "n": 2, "exact": "1/7", "mark": ""}]
TABLE = ReportTable.from_rows("rows", COLUMNS, ROWS)
UNMARKED = [{k: v for k, v in row.items() if k != "mark"} for row in ROWS]


def test_a_table_is_seen_by_people_and_read_by_programs():
    assert TABLE.headings == ("who", "how many", "")
    assert [[x for _, x in row] for row in TABLE.cells] == [["a", 1000, "*"], ["bc", 2, ""]]
    report = Report("", (Section(tables=(replace(TABLE, foot=(("all", 1002, None, ""),)),)),))
    assert lines(report) == ["who  how many", "a       1,000  *", "bc          2", "all     1,002"]
    assert document(report) == {"rows": UNMARKED, "sentences": []}
    silent = Report("", (Section(tables=(TABLE.silent(),)),))
    assert (lines(silent), document(silent)) == ([], {"rows": UNMARKED, "sentences": []})
    empty = Report("", (Section(tables=(replace(TABLE, rows=()),)),))
    assert (lines(empty), document(empty)) == ([], {"rows": [], "sentences": []})


def test_columns_line_up_whatever_is_seen():
    assert aligned(TABLE) == ["who  how many", "a       1,000  *", "bc          2"]
    wide = aligned(TABLE, lambda text: text.replace("*", "(star)"), lambda text: 2 * len(text))
    assert wide[1] == "a" + " " * 4 + "  " + " " * 6 + "1,000" + "  " + "(star)"


def message(text_id, *values):
    return Message(text_id, tuple(Value(key, x, kind) for key, x, kind in values))


TITLE = Message("report.section.price")
RHO = message("report.charged.rho", ("rho", 0.5, ValueKind.COST))
DIRECTORY = message("report.receipt.directory", ("directory", "{rho}", ValueKind.TEXT))


def test_messages_have_their_values():
    report = Report("", (Section(TITLE, (RHO, DIRECTORY), (Value("rho", 0.5, ValueKind.COST),)),))
    assert lines(report) == ["price      rho = 0.5000000", "           {rho}"]
    assert lines(report, language=translator("de")) == ["Preis      rho = 0,5000000", "           {rho}"]
    assert document(report) == {
        "rho": 0.5,
        "sentences": [
            {"id": "report.charged.rho", "values": {"rho": 0.5}, "text": "rho = 0.5000000"},
            {"id": "report.receipt.directory", "values": {"directory": "{rho}"}, "text": "{rho}"},
        ],
    }


def test_a_message_can_be_a_value():
    label = message("report.label.pattern", ("name", "a by b", ValueKind.TEXT), ("tables", 1234, ValueKind.COUNT))
    values = (Value("table", label, ValueKind.MESSAGE), Value("records", 10, ValueKind.RESULT))
    section = Section(None, (Message("report.means.reference", values),), values)
    assert document(Report("", (section,)))["table"] == "a by b (1,234 tables)"
    assert lines(Report("", (section,)))[0].startswith("a by b (1,234 tables): margins hold for 10 records")


def test_a_missing_id_is_an_error():
    with pytest.raises(KeyError, match=r"report\.unknown"):
        english(Message("report.unknown"))


def test_sections_of_one_title_are_joined():
    further_rows = ReportTable.from_rows("rows", COLUMNS, ROWS[:1])
    other = ReportTable.from_rows("rows", COLUMNS[:1], ROWS[:1])
    first_section = Section(TITLE, (RHO,), (Value("x", 1),), (TABLE,))
    second_section = Section(TITLE, (DIRECTORY,), (Value("y", 2),), (further_rows, other))
    report = Report("", (first_section, Section(None, (RHO,)))).adding(second_section, Section(None, (DIRECTORY,)))
    price, middle, after = report.sections
    assert price.messages == (RHO, DIRECTORY)
    assert [len(t.rows) for t in price.tables] == [3, 1]
    assert (middle.messages, after.messages) == ((RHO,), (DIRECTORY,))
    assert [r["name"] for r in document(report)["rows"]] == ["a", "bc", "a", "a"]
    assert [line for line in lines(report) if line.startswith("who")] == ["who  how many", "who"]
    assert lines(report)[-2:] == ["rho = 0.5000000", "{rho}"]


def test_places_make_documents():
    value = (Value("x", (1, {"y": (2,)})),)
    report = Report(
        "",
        (
            Section(Message("report.section.plan"), values=value, path=("one",)),
            Section(Message("report.section.price"), values=(Value("z", None),), path=("one",)),
            Section(Message("report.section.means"), values=value, path=("many", 0, "inner")),
            Section(Message("report.section.means"), values=(Value("x", 2),), path=("many", 1)),
            Section(Message("report.section.tables"), tables=(TABLE.silent(),), path=("many", 1)),
        ),
    )
    assert document(report) == {
        "one": {"x": [1, {"y": [2]}], "z": None},
        "many": [{"inner": {"x": [1, {"y": [2]}]}}, {"x": 2, "rows": UNMARKED}],
        "sentences": [],
    }
    assert lines(report) == []


def test_tables_are_set_off_by_empty_lines():
    tables = Section(tables=(TABLE, TABLE))
    empty = Section(values=(Value("x", 1),))
    both = Report("", (Section(TITLE, (RHO,)), tables, empty, Section(Message("report.section.plan"), (DIRECTORY,))))
    assert [line for line in lines(both) if not line.startswith(("a ", "bc"))] == [
        "price      rho = 0.5000000",
        "",
        "who  how many",
        "",
        "who  how many",
        "",
        "plan       {rho}",
    ]


@pytest.mark.parametrize(
    "section",
    [
        Section(values=(Value("x", np.int64(1)),)),
        Section(values=(Value("x", float("nan")),)),
        Section(values=(Value("x", [Fraction(1, 3)]),)),
        Section(values=(Value("x", 1), Value("x", 2))),
        Section(None, (Message("report.charged.rho"),)),
        Section(None, (Message("report.unknown"),)),
        Section(values=(Value("rows", 3),), tables=(ReportTable("rows", (ReportColumn("x", "x"),), ((1,),)),)),
    ],
)
def test_the_law_finds_what_breaks_it(section):
    with pytest.raises((AssertionError, KeyError, TypeError, ValueError)):
        check_report(Report("", (section,)))
