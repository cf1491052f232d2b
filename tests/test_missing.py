"""Values that are missing or not applicable: what tables ask of their cells, and what that costs."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise import data
from fitnoise.algebra.rules import dense
from fitnoise.engines import open_counter
from fitnoise.reading.description import FORMAT
from fitnoise.reading.release_files import to_json
from fitnoise.request.documents import Spec
from laws.releases import by_command
from laws.reports import check_no_sentences, in_words
from refused import refused

AGE = fn.Ordered(0, 2, missing={"not applicable": ["N"], "unknown": [-9]}, if_missing="unknown", if_outside="refuse")
DOMAIN = fn.Domain(age=AGE, sex=fn.Categorical(["f", "m"]))


def view_rows(**views):
    """The labels of the rows, and the cells that each counts."""
    table = fn.table(**views, margin=5)
    (name,) = table.attributes
    table.check(DOMAIN)
    return table.labels(DOMAIN)[name], dense(table.view(name).operator(DOMAIN[name])).tolist()


NA, UNKNOWN = [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]


@pytest.mark.parametrize("with_missing", [False, True])
def test_an_order_leaves_missing_values_out_unless_they_are_requested(with_missing):
    labels, rows = view_rows(cumulative="age", missing=with_missing)
    missing = (["not applicable", "unknown"], [NA, UNKNOWN]) if with_missing else ([], [])
    assert labels == (0, 1, 2, *missing[0])
    assert rows == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], *missing[1]]
    labels, rows = view_rows(ranges={"age": [(1, 2)]}, missing=with_missing)
    assert labels == ("1 – 2", *missing[0])
    assert rows == [[0, 1, 1, 0, 0], *missing[1]]
    labels, rows = view_rows(ranges="age", missing=with_missing)
    assert len(labels) == 6 + 2 * with_missing
    assert np.sum(rows[:6], axis=0).tolist() == [3, 4, 3, 0, 0]
    labels, rows = view_rows(groups={"age": {"old": 2, "any": {"values": [0, "unknown"]}}}, missing=with_missing)
    assert labels == ("old", "any", *["not applicable"] * with_missing)
    assert rows == [[0, 0, 1, 0, 0], [1, 0, 0, 0, 1], *[NA] * with_missing]


def test_tables_by_value_show_missing_values_and_totals_count_them():
    table = fn.table("age", "sex", margin=5)
    assert table.labels(DOMAIN)["age"] == (0, 1, 2, "not applicable", "unknown")
    assert table.shape(DOMAIN) == (5, 2)
    plan = fn.plan(fn.Workload(DOMAIN, [table, fn.table(margin=9)]))
    assert [len(x) for x in plan.publication.workload.tables[0].labels(DOMAIN).values()] == [5, 2]
    assert plan.parts[0].decomposition.structured == ()


def test_no_two_rows_have_one_label():
    domain = fn.Domain(age=fn.Ordered(0, 2, missing={"0 – 1": [-9], "old": ["N"]}))
    for views in ({"ranges": "age"}, {"ranges": {"age": [(0, 1)]}}, {"groups": {"age": {"old": 2}}}):
        fn.Workload(domain, [fn.table(**views, margin=5)])
        with refused("workload.row-name-twice"):
            fn.Workload(domain, [fn.table(**views, missing=True, margin=5)])
    fn.Workload(domain, [fn.table(groups={"age": {"old": "old"}}, missing=True, margin=5)])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (lambda: fn.table("age", missing=True, margin=5), "workload.missing-without-views"),
        (lambda: fn.table(cumulative="age", missing=1, margin=5), "workload.wrong-type"),
        (
            lambda: fn.table(groups={"age": {"x": {"values": ["unknown", "not applicable"]}}}, missing=True, margin=5),
            "workload.missing-without-cells",
        ),
        (lambda: fn.table(groups={"sex": {"x": ["f"]}}, missing=True, margin=5), "workload.missing-without-cells"),
        (
            lambda: fn.table(ranges={"age": [(1, "unknown")]}, margin=5),
            "domain.range-of-missing-cell",
        ),
        (lambda: fn.table(groups={"age": {"x": "N"}}, margin=5), "domain.unknown-value"),
    ],
)
def test_tables_that_cannot_show_missing_values_are_refused(table, message):
    with refused(message):
        fn.Workload(DOMAIN, [table()])


SPEC = """
[domain.income]
type = "ordered"
low = 0
high = 4
missing = { "not applicable" = ["N"], unknown = ["", -9] }
if_missing = "unknown"
if_outside = "refuse"

[domain.age]
type = "ordered"
low = 0
high = 20

[[tables]]
cumulative = "income"
missing = true
margin = 9

[[tables]]
attributes = ["age"]
margin = 9
"""


def test_a_specification_says_what_python_does():
    publication = Spec.from_toml(SPEC).publication()
    income = fn.Ordered(
        0, 4, missing={"not applicable": ["N"], "unknown": ["", -9]}, if_missing="unknown", if_outside="refuse"
    )
    assert publication.workload.domain["income"] == income
    assert publication.workload.tables[0] == fn.table(cumulative="income", missing=True, margin=9)
    spec = Spec.from_publication(publication)
    assert spec.publication() == publication
    assert Spec.from_toml(spec.to_toml()).publication() == publication


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('missing = { "not applicable" = ["N"], unknown = ["", -9] }', "missing = {}", "domain.missing-empty"),
        ('["", -9]', '["N"]', "domain.name-repeated"),
        ('["", -9]', "[4]", "domain.missing-code-is-value"),
        ('if_missing = "unknown"', 'if_missing = "gone"', "domain.missing-cell-unknown"),
        ('type = "ordered"\nlow = 0\nhigh = 4', 'type = "hierarchy"\nlevels = ["a", "b"]\nplaces = [["x", "y"]]',
         "spec.hierarchy-unsupported-keys"),
        ('attributes = ["age"]', 'attributes = ["age"]\nmissing = true', "workload.missing-without-views"),
        (
            'cumulative = "income"\nmissing = true',
            'groups.income = { x = { first = 1, last = "unknown" } }',
            "domain.range-of-missing-cell",
        ),
    ],
)  # fmt: skip
def test_bad_specifications_are_refused_with_their_place(old, new, message):
    assert old in SPEC
    with refused(message):
        Spec.from_toml(SPEC.replace(old, new)).publication()


def cost(n_missing, *tables):
    cells = {f"m{i}": [1000 + i] for i in range(n_missing)}
    age = fn.Ordered(0, 85, **({"missing": cells} if cells else {}))
    return fn.plan(fn.Workload(fn.Domain(age=age), [fn.table(**t) for t in tables])).rho


def test_what_missing_values_cost():
    """Exact optima of the design: prefixes alone count no such cell; together with a total they do."""
    prefix_costs = [cost(n, {"cumulative": "age", "margin": 30}) for n in (0, 1, 3)]
    np.testing.assert_allclose(prefix_costs, prefix_costs[0], rtol=1e-5)
    with_total = [cost(n, {"cumulative": "age", "margin": 30}, {"margin": 10}) for n in (0, 1)]
    np.testing.assert_allclose(with_total, [0.025661, 0.025688], atol=1e-6)


def test_with_cells_for_everything_nothing_is_dropped_and_replacing_keeps_its_price():
    categories = {"missing": {"none": []}, "if_missing": "none", "if_outside": "none"}
    swap = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    drop = fn.DataSource(outside_domain="drop")
    drops = []
    for age in (fn.Ordered(0, 4), fn.Ordered(0, 4, **categories)):
        workload = fn.Workload(fn.Domain(age=age), [fn.table("age", margin=5)])
        public = fn.KnownTotals((), "Register", "these data")
        plans = [fn.plan(workload, unit=swap, public=public)]
        is_dropped = plans[0].publication.workload.domain.axes.leaves_out(drop, None)
        plans.append(fn.plan(workload, unit=swap, source=drop, public=None if is_dropped else public))
        drops.append([p.publication.adjacency.drops for p in plans])
        assert (plans[0].rho == plans[1].rho) == (drops[-1] == [False, False])
    assert drops == [[False, True], [False, False]]


# --- from a file to a release ---------------------------------------------------------------------------------------


CENSUS = """
[data]
source = "census"

[domain.age]
type = "ordered"
low = 0
high = 20
clip = true

[domain.income]
type = "ordered"
low = 0
high = 4
missing = { "not applicable" = ["N"], unknown = [""] }
if_missing = "unknown"

[[tables]]
attributes = ["age"]
margin = 5

[[tables]]
cumulative = "income"
margin = 5
"""


@pytest.fixture
def census(tmp_path, monkeypatch):
    """Thirty children of every age below 15, who have no income, and thirty adults of every age from there on."""
    monkeypatch.chdir(tmp_path)
    incomes = {age: ["N"] * 30 if age < 15 else [*map(str, range(5))] * 5 + [""] * 5 for age in range(21)}
    lines = [f"{age},{x}" for age, incomes_of_age in incomes.items() for x in incomes_of_age]
    (tmp_path / "people.csv").write_text("age,income\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "census.toml").write_text(CENSUS, encoding="utf-8")
    return tmp_path


def test_a_file_with_incomes_that_are_not_applicable_keeps_its_children(census, capsys):
    by_command("plan", "census.toml", "-o", "plan.json")
    by_command("release", "plan.json", "people.csv", "--ledger", "ledger.db", "-o", "release")
    by_command("verify", "release", "--ledger", "ledger.db")
    assert "FAILS" not in "".join(capsys.readouterr())
    release = fn.Release.read(census / "release")
    ages = release["age"]
    assert (ages["value"] - 30).abs().max() < 25  # 5 is the margin of 95 %: less than once in 10^20
    assert list(release["income cumulative"]["income"]) == [0, 1, 2, 3, 4]
    assert abs(release["income cumulative"]["value"].iloc[-1] - 150) < 25
    document = json.loads((census / "release" / "release.json").read_text(encoding="utf-8"))
    assert document["fitnoise_release"] == FORMAT
    assert in_words(document["tables"][0]["coded"]) == {"age": ["below 0 as 0, above 20 as 20"]}
    assert document["tables"][1]["not_counted"] == {"income": ["not applicable", "unknown"]}
    assert "left_out" not in document
    by_command("tables", "release", "income cumulative")
    output = "".join(capsys.readouterr())
    assert "counted: records of census" in output
    assert "not counted: income not applicable, unknown" in output
    by_command("tables", "release")
    output = "".join(capsys.readouterr())
    assert "not applicable, unknown" in output
    assert "below 0 as 0, above 20 as 20" in output


def test_what_is_not_declared_is_refused_and_the_cells_are_named_first(census, capsys):
    (census / "census.toml").write_text(CENSUS.replace('["N"]', '["n"]'), encoding="utf-8")
    by_command("plan", "census.toml", "-o", "plan.json")
    by_command("release", "plan.json", "people.csv", "--ledger", "ledger.db", "-o", "release")
    output = "".join(capsys.readouterr())
    assert "450 in the column 'income' (attribute 'income')" in output
    assert output.index("missing, if_missing, if_outside") < output.index("outside_domain")
    assert not (census / "release").exists()


@pytest.mark.parametrize(
    ("options", "ways"),
    [
        ({}, [True, False]),
        ({"if_missing": "refuse"}, [True, True]),
        ({"if_missing": "refuse", "if_outside": "refuse"}, [False, True]),
        ({"if_missing": "drop", "if_outside": "refuse"}, [False, True]),
    ],
)
def test_a_refusal_advises_what_changes_something(options, ways):
    domain = fn.Domain(age=fn.Ordered(0, 2, **options))
    with refused("data.records-outside-domain") as caught:
        open_counter(pd.DataFrame({"age": [0, 7]}), domain.axes, fn.DataSource()).count([("age",)])
    advice = ('outside_domain = "drop"', '"drop" where an attribute itself says "refuse"')
    assert [x in str(caught.value) for x in advice] == ways


def test_one_table_more_changes_no_other_table(census):
    """With records dropped, too: they are by the attributes of the domain; and the release says by which."""
    domain = fn.Domain(age=fn.Ordered(0, 20), income=fn.Ordered(0, 4, if_outside="drop", if_missing="drop"))
    counts = []
    for tables in (["age"], ["age", "income"]):
        workload = fn.Workload(domain, [fn.table(a, margin=5) for a in tables])
        release = fn.release(
            fn.plan(workload), census / "people.csv", ledger=census / "l.db", directory=census / f"r{len(tables)}"
        )
        counts.append(release["age"]["value"].iloc[:15].abs().max())
        document = json.loads((census / f"r{len(tables)}" / "release.json").read_text(encoding="utf-8"))
        assert document["left_out"] == ["income"]
    assert max(counts) < 25  # no record below 15 in either


def test_rows_with_numbers_and_names_are_texts_in_files_and_add_up(census):
    workload = fn.Workload(
        fn.Domain(income=fn.Ordered(0, 4, missing={"none": ["N"], "unknown": [""]}, if_missing="unknown")),
        [fn.table("income", margin=5), fn.table(cumulative="income", missing=True, margin=5, name="prefixes")],
    )
    release = fn.release(fn.plan(workload), census / "people.csv", ledger=census / "l.db", directory=census / "r")
    assert list(release["income"]["income"]) == ["0", "1", "2", "3", "4", "none", "unknown"]
    assert fn.verify(census / "r").ok
    assert abs(release.sum("income", income={"values": ["none", 3]}).value - 480) < 50
    assert abs(release.sum("prefixes", income={"values": [4, "none"]}).value - 600) < 50


def test_a_release_says_who_is_left_out_and_how_values_are_coded(census, capsys):
    domain = fn.Domain(age=fn.Ordered(0, 20, clip=True), income=fn.Ordered(0, 4))
    workload = fn.Workload(domain, [fn.table("age", margin=5)])
    plan = fn.plan(workload, source=fn.DataSource(outside_domain="drop"))
    fn.release(plan, census / "people.csv", ledger=census / "l.db", directory=census / "r")
    path = census / "r" / "release.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["left_out"] == ["age", "income"]
    check_no_sentences(document)
    universe = ["counted: records of default", "left out: records whose value is dropped, by age, income"]
    assert in_words(document["tables"][0]["universe"]) == [*universe, "coded: age below 0 as 0, above 20 as 20"]
    assert fn.verify(census / "r").ok
    by_command("tables", "r", "age")
    output = "".join(capsys.readouterr())
    assert all(sentence in output for sentence in universe)
    by_command("tables", "r")
    assert "(if_missing, if_outside, outside_domain) of age, income" in "".join(capsys.readouterr())
    del document["left_out"]
    path.write_text(to_json(document), encoding="utf-8")
    assert not fn.verify(census / "r").ok


# --- what a cell costs ----------------------------------------------------------------------------------------------


def test_a_ninth_cell_of_wages_costs_the_demo_little_and_hiding_it_makes_wages_structured():
    demo = fn.load_spec(Path(data.__file__).parent / "cps_demo.toml").workload
    codes = dict(zip(demo.domain["wages"].codes, demo.domain["wages"].values, strict=True))
    wages = fn.Categorical(codes, missing={"unknown": [-9]}, if_missing="unknown")
    domain = fn.Domain({name: wages if name == "wages" else demo.domain[name] for name in demo.domain})
    hidden = {"wages": {str(v): [v] for v in demo.domain["wages"].values}}
    changed = {
        "state by wages": fn.table("state", groups=hidden, margin=20),
        "status by kids by wages": fn.table("status", "kids", groups=hidden, margin=15),
    }
    for tables, rho, cells in (
        (demo.tables, 0.035774, 86),
        ([changed.get(t.name, t) for t in demo.tables], 0.035670, 774),
    ):
        plan = fn.plan(fn.Workload(domain, tables), gap=1e-6)
        assert plan.rho == pytest.approx(rho, rel=1e-4)
        assert math.prod(n for _, n in plan.groups[0].design.structure.structured) == cells
