"""Warnings about attributes of one column: where they are due, on every surface, and that their advice is right."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.interfaces.pages import report
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.messages import LANGUAGES, english, translator
from fitnoise.planning.shared_columns import unrelated, warnings
from fitnoise.request import joint_cells
from fitnoise_studio.page_parts import render_part
from laws.releases import answered

AGE = fn.Ordered(0, 85)
GROUP = fn.Binned([18, 65], column="age")
WIDE_GROUP = fn.Binned([18, 65, 90], column="age")

UNRELATED = (
    "Warning: the attributes age, group read one column, and the plan treats them as unrelated. 86 of 258 combinations "
    "of their values are possible. Sums of one need not equal numbers of another. Groups of the values of one "
    "attribute would agree, and so would levels of a hierarchy"
)


def planned(*tables, options=None, **attributes):
    return fn.plan(fn.Workload(fn.Domain(**attributes), tables), **(options or {}))


def both(**options):
    return planned(fn.table("age", margin=20), fn.table("group", margin=20), **options)


def separate():
    """Return a plan that counts ages and groups by axes of their own, because each group has a budget."""
    return both(age=AGE, group=GROUP, options={"cell_budgets": fn.CellBudgets(("group",), (1.0, 1.0, 1.0))})


def texts(plan):
    return [english(message) for message in warnings(plan)]


def ids(plan):
    return [message.id.removeprefix("report.shared_column.") for message in warnings(plan)]


def test_a_plan_of_ages_and_groups_warns_on_every_surface():
    """Detects a surface without the warning: screen, document, report in each language, studio, notebook."""
    plan = separate()
    assert texts(plan) == [UNRELATED]
    assert " ".join(lines(plan_report(plan))).count(UNRELATED) == 1
    assert document(plan_report(plan))["warnings"] == [UNRELATED]
    (warning,) = warnings(plan)
    for language in LANGUAGES:
        page = report.page(plan, language=language)
        assert page.count(f'<p class="warning">{translator(language).write(warning)}.</p>') == 1
        exception = translator(language).translate("page.reading.unrelated", attributes="age, group")
        assert page.count(f"<li>{exception}</li>") == 1
        assert translator(language).write(warning) in render_part("details", language, plan=plan)
        number = translator(language).translate("studio.price.warnings", n=1)
        assert number in render_part("price", language, plan=plan, proven=6, left=None)
    assert UNRELATED in plan._repr_html_()


def test_reports_of_releases_and_integer_tables_state_the_exception():
    release = answered(separate())
    exception = translator("en").translate("page.reading.unrelated", attributes="age, group")
    for what in (release, fn.make_integer_tables(release, simulations=2)):
        assert report.page(what).count(f"<li>{exception}</li>") == 1


def test_a_plan_has_no_trace_of_the_warning():
    plan = separate()
    assert "shared_column" not in plan.to_json()
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash


def test_groups_and_levels_cost_what_joint_cells_cost(tmp_path):
    """The groups of single ages are sums of these, and counties those of regions: at the cost of joint cells."""
    people = pd.DataFrame({"age": np.arange(4000) % 86, "region": ["ABIJK"[i % 5] for i in range(4000)]})
    regions = {"A": "c1", "I": "c1", "J": "c10", "K": "c10", "B": "c4"}

    def values(plan, name):
        released = fn.release(plan, people, ledger=tmp_path / f"{name}.sqlite", directory=tmp_path / name)
        return {table: released[table]["value"].to_numpy() for table in released}

    groups = {"age": {"under 18": (0, 17), "18 to 64": (18, 64), "65 and over": (65, 85)}}
    one = planned(fn.table("age", margin=20), fn.table(groups=groups, margin=20, name="group"), age=AGE)
    two = both(age=AGE, group=GROUP)
    for plan in (one, two):
        assert plan.rho == pytest.approx(0.0094036, abs=1e-6)
        assert (texts(plan), unrelated(plan)) == ([], ())
        tables = values(plan, f"ages {plan is one}")
        assert np.add.reduceat(tables["age"], [0, 18, 65]) == pytest.approx(tables["group"], abs=1e-9)

    tables = (fn.table("region", margin=20), fn.table("county", margin=20))
    county = fn.Categorical(sorted(set(regions.values())), column="region", lookup=regions)
    two = planned(*tables, region=fn.Categorical(list("ABIJK")), county=county)
    hierarchy = fn.Hierarchy(["county", "region"], [(c, r) for r, c in regions.items()], column="region")
    one = planned(*tables, places=hierarchy)
    assert one.rho == pytest.approx(two.rho, rel=1e-5)
    assert (texts(two), texts(one)) == ([], [])


def test_attributes_that_are_free_of_each_other_have_no_warning():
    year = fn.Ordered(2019, 2023, column="when", date_part="year")
    month = fn.Ordered(1, 12, column="when", date_part="month")
    assert texts(planned(fn.table("y", "m", margin=20), y=year, m=month)) == []
    # The other attribute is not shown, only added up, or has one number for all of its values.
    for table in (
        fn.table("group", margin=20),
        fn.table("group", sum="age", margin=2000),
        fn.table("group", ranges={"age": [(0, 85)]}, margin=20),
    ):
        plan = planned(table, age=fn.Ordered(0, 85, clip=True), group=GROUP)
        assert (texts(plan), unrelated(plan)) == ([], ())


def test_attributes_of_patterns_and_of_further_tables_are_shown():
    sex = fn.Categorical(["f", "m"])
    pattern = fn.all_tables(1, ["age", "group", "sex"], margin=20)
    assert unrelated(planned(pattern, age=AGE, group=GROUP, sex=sex)) == ()
    domain = fn.Domain(age=AGE, group=GROUP)
    main, further = (fn.Publication(fn.Workload(domain, [fn.table(a, margin=20)])) for a in ("age", "group"))
    plan = fn.plan(replace(main, further_tables=(further,)))
    assert unrelated(plan) == (("age", "group"),)


def test_rows_that_count_no_one_are_named_with_their_cause():
    plan = both(age=AGE, group=WIDE_GROUP)
    assert ids(plan) == ["unreached_by"]
    assert texts(plan)[0] == (
        "Warning: group shows rows that count no one: 90 or more. No record that age accepts can be in them. Check "
        "both declarations"
    )
    quarter = fn.Ordered(1, 5, column="when", date_part="quarter")
    month = fn.Ordered(1, 12, column="when", date_part="month")
    plan = planned(
        fn.table("q", margin=20), q=quarter, m=month, options={"source": fn.DataSource("x", outside_domain="drop")}
    )
    assert texts(plan) == [
        "Warning: q shows rows that count no one: 5. No value of its column lies there. Check its declaration"
    ]
    young, old = fn.Ordered(0, 9, column="x"), fn.Ordered(5, 20, column="x")
    cut = fn.Binned([5, 10, 15], column="x")
    tables = (fn.table("a", margin=20), fn.table("b", margin=20), fn.table("g", margin=20))
    assert ids(planned(*tables, a=young, b=old, g=cut)) == ["unreached_by", "unreached_by", "unreached"]


def test_a_long_list_of_rows_that_count_no_one_is_cut_in_every_language():
    codes = fn.Categorical([2 * i for i in range(30)], column="age")
    plan = planned(fn.table("age", margin=20), fn.table("c", margin=20), age=fn.Ordered(0, 10), c=codes)
    warning = [*warnings(plan)][-1]
    assert "22, 24, 26, 28, 30, 12, 14" not in english(warning)
    assert "12, 14, 16, 18, 20, 22, 24, 26, 16 more. No record" in english(warning)
    assert "24, 26, 16 weitere. Kein Fall" in translator("de").write(warning)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # A source that refuses does not read an attribute that no table shows: a record of age 95 counts.
        ({"source": fn.DataSource("x")}, []),
        ({"source": fn.DataSource("x", outside_domain="drop")}, ["unreached_by"]),
        # With an id the cells of all attributes decide which records count.
        ({"unit": fn.PrivacyUnit("person", 2, id="id")}, ["unreached_by"]),
    ],
)
def test_an_attribute_that_no_table_shows_matters_only_if_it_is_read(options, expected):
    assert ids(planned(fn.table("group", margin=20), age=AGE, group=WIDE_GROUP, options=options)) == expected


def test_a_refused_value_of_an_attribute_that_no_table_shows_is_counted(tmp_path):
    """The row is warned of exactly where it can count no one."""
    plan = planned(fn.table("group", margin=0.1), age=AGE, group=WIDE_GROUP)
    old = pd.DataFrame({"age": [95] * 20})
    released = fn.release(plan, old, ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    assert released["group"]["value"].to_numpy() == pytest.approx([0, 0, 0, 20], abs=2)


def test_too_many_values_are_no_obstacle(monkeypatch):
    monkeypatch.setattr(joint_cells, "MAX_TRIED_CELLS", 100)
    plan = both(age=fn.Ordered(0, 84), group=GROUP)
    assert (ids(plan), unrelated(plan)) == (["unknown"], ())
    assert "the attributes age, group read one column, and have too many values to compare" in texts(plan)[0]
