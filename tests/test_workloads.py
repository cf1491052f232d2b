import numpy as np
import pytest

import fitnoise as fn
import zoo
from dense import table_matrix
from fitnoise import rules
from fitnoise.errors import DomainError, WorkloadError
from fitnoise.workloads import Recode, slug

DOMAIN = fn.Domain(
    state=fn.Categorical(["OH", "IA", "NY"]),
    age=fn.Ordered(0, 4),
    wages=fn.Binned([1, 10]),
    sex=fn.Categorical(["f", "m"]),
)


def test_default_names_say_what_is_asked():
    assert fn.table("state", "sex", margin=1).name == "state by sex"
    assert fn.table("state", prefix="age", margin=1).name == "state by age prefix"
    assert fn.table("age", "state", prefix="age", margin=1).name == "age prefix by state"
    assert fn.table(ranges={"age": [(0, 1)]}, margin=1).name == "age ranges"
    assert fn.table(recode={"age": {"young": [0, 1]}}, margin=1).name == "age recode"
    assert fn.table(margin=1).name == "total"
    assert fn.table("state", margin=1, name="T1").name == "T1"


def test_labels_and_shapes():
    t = fn.table("sex", prefix="wages", margin=1)
    assert t.labels(DOMAIN) == {"sex": ("f", "m"), "wages": ("under 1", "1 to under 10", "10 or more")}
    assert t.shape(DOMAIN) == (2, 3)
    r = fn.table(ranges={"age": [(0, 0), (1, 4)]}, recode={"state": {"mid": ["OH", "IA"]}}, margin=1)
    assert r.labels(DOMAIN) == {"age": ("0", "1 – 4"), "state": ("mid",)}
    assert fn.table(ranges="age", margin=1).shape(DOMAIN) == (15,)
    assert fn.table(margin=1).shape(DOMAIN) == ()


def test_queries_are_the_sums_they_name():
    counts = np.arange(3 * 5 * 3 * 2).reshape(3, 5, 3, 2)
    both = fn.table("sex", ranges={"age": [(1, 3)]}, recode={"state": {"mid": ["OH", "IA"]}}, margin=1)
    expected = counts[:2, 1:4].sum(axis=(0, 1, 2))
    np.testing.assert_array_equal(table_matrix(both, DOMAIN) @ counts.ravel(), expected)
    cumulative = fn.table("state", prefix="wages", margin=1)
    expected = counts.sum(axis=(1, 3)).cumsum(axis=1)
    np.testing.assert_array_equal(table_matrix(cumulative, DOMAIN) @ counts.ravel(), expected.ravel())


def test_a_target_by_value_is_broadcast_along_its_column():
    t = fn.table("state", "sex", variance=fn.By("sex", {"m": 2}, default=7))
    assert t.variances(DOMAIN, 0.95).tolist() == [[7, 2]] * 3


def test_matrix_workload():
    w = fn.matrix_workload([[1, 0, 2], [0, 0, 1]], variances=[1, 4])
    assert list(w.domain) == ["cell"]
    assert w.tables[0].labels(w.domain) == {"query": (0, 1)}
    assert w.tables[0].variances(w.domain, 0.95).tolist() == [1, 4]
    assert rules.dense(w.tables[0].matrix).dtype.kind == "i"
    over = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 2))
    assert fn.matrix_workload(np.eye(6), margins=3, domain=over).domain == over


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_the_zoo_is_well_formed(name):
    w = zoo.WORKLOADS[name]()
    for t in w.tables:
        assert table_matrix(t, w.domain).shape == (int(np.prod(t.shape(w.domain), dtype=int)), w.domain.size)
        assert w[t.name] is t


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fn.table("state"), "exactly one target .*; got none"),
        (lambda: fn.table("state", margin=1, variance=2), "exactly one target .*; got margin and variance"),
        (lambda: fn.table("state", "state", margin=1), "'state' appears twice"),
        (lambda: fn.table(1, margin=1), "attribute names; got 1"),
        (lambda: fn.table(prefix="age", ranges="age", margin=1), "two views in one table"),
        (lambda: fn.table("state", margin=0), "positive finite"),
        (lambda: fn.Workload(DOMAIN, []), "at least one table"),
        (lambda: fn.Workload({"a": 1}, [fn.table("a", margin=1)]), "needs a Domain; got dict"),
        (lambda: fn.Workload(DOMAIN, ["state"]), "made of tables"),
        (lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1)], confidence=1.5), "strictly between 0 and 1"),
        (lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1, name=" ")]), "must not be empty"),
        (lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1), fn.table("state", margin=2)]), "same file 'state'"),
        (
            lambda: fn.Workload(
                DOMAIN, [fn.table("state", margin=1, name="A b"), fn.table("sex", margin=2, name="a_B")]
            ),
            "'A b' and 'a_B' would be written to the same file",
        ),
        (lambda: fn.Workload(DOMAIN, [fn.table(prefix="state", margin=1)]), "prefix needs an attribute with an order"),
        (lambda: fn.Workload(DOMAIN, [fn.table(ranges="sex", margin=1)]), "ranges need an attribute with an order"),
        (lambda: fn.Workload(DOMAIN, [fn.table(ranges={"age": [(3, 1)]}, margin=1)]), "empty or leaves"),
        (lambda: fn.Workload(DOMAIN, [fn.table(ranges={"age": []}, margin=1)]), "at least one range"),
        (
            lambda: fn.Workload(DOMAIN, [fn.table(recode={"state": {"x": []}}, margin=1)]),
            "group 0 of a recode is empty",
        ),
        (lambda: fn.Workload(DOMAIN, [fn.table(recode={"state": {}}, margin=1)]), "at least one group"),
        (lambda: fn.Workload(DOMAIN, [fn.table("state", margin=fn.By("sex", [1, 2]))]), "not one of its columns"),
        (lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1)])["x"], "no table 'x'"),
        (lambda: fn.matrix_workload([[1, 0], [0, 0]], variances=1), "query 1 is zero everywhere"),
        (lambda: fn.matrix_workload([[1, np.nan]], variances=1), "non-finite entry at row 0, column 1"),
        (lambda: fn.matrix_workload([1, 2], variances=1), r"shape \(m, d\)"),
        (
            lambda: fn.matrix_workload([[1, 2]], variances=[1, 2]),
            r"1 queries are one number or 1 numbers; got shape \(2,\)",
        ),
        (lambda: fn.matrix_workload([[1, 2]], variances=["a"]), "one number or 1 numbers"),
        (lambda: fn.matrix_workload([[1, 2]], variances=[-1]), "positive finite"),
        (lambda: fn.matrix_workload([[1, 2]]), "exactly one of variances"),
        (lambda: fn.matrix_workload([[1, 2]], variances=1, margins=1), "exactly one of variances"),
        (lambda: fn.matrix_workload([[1, 2]], variances=1, domain=DOMAIN), "2 columns; the domain has 90 cells"),
        (
            lambda: fn.matrix_workload([[1, 2]], variances=1, domain=fn.Domain(query=fn.Ordered(0, 1))),
            "may not be called 'query'",
        ),
    ],
)
def test_bad_workloads_are_refused(make, message):
    with pytest.raises(WorkloadError, match=message):
        make()


def test_unknown_attributes_and_values_are_refused():
    with pytest.raises(DomainError, match="no attribute 'region'"):
        fn.Workload(DOMAIN, [fn.table("region", margin=1)])
    with pytest.raises(DomainError, match="'TX' is neither a code nor a label"):
        fn.Workload(DOMAIN, [fn.table(recode={"state": {"south": ["TX"]}}, margin=1)])
    with pytest.raises(DomainError, match="not a whole number from 0 to 4"):
        fn.Workload(DOMAIN, [fn.table(ranges={"age": [(0, 5)]}, margin=1)])


def test_all_ranges_of_a_long_axis_are_refused_with_their_number():
    domain = fn.Domain(day=fn.Ordered(0, 4999))
    with pytest.raises(WorkloadError, match="all ranges of 5000 values are 12502500 queries"):
        fn.Workload(domain, [fn.table(ranges="day", margin=1)])


def test_recodes_name_each_group_once():
    t = fn.Table(
        "t", ("state",), fn.table("state", margin=1).target, (("state", Recode((("x", ("OH",)), ("x", ("IA",))))),)
    )
    with pytest.raises(WorkloadError, match="names a group twice"):
        fn.Workload(DOMAIN, [t])


def test_tables_of_any_script_have_files_of_their_own():
    w = fn.Workload(DOMAIN, [fn.table("state", margin=1, name="東京"), fn.table("sex", margin=1, name="大阪")])
    assert [slug(t.name) for t in w.tables] == ["東京", "大阪"]
    assert slug("State by Sex / 2014") == "state_by_sex_2014"


def test_targets_out_of_range_and_large_queries():
    with pytest.raises(WorkloadError, match="double precision"):
        fn.Workload(DOMAIN, [fn.table("state", margin=1e-200)])
    with pytest.raises(WorkloadError, match="'age' appears twice"):
        fn.table(prefix=["age", "age"], margin=1)
    with pytest.raises(WorkloadError, match="names a value twice"):
        fn.By("a", {1: 3, "1": 4})
    assert fn.matrix_workload([[2**32, 1]], margins=1).tables[0].matrix.shape == (1, 2)
