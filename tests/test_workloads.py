import hashlib
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from dense import table_matrix
from fitnoise.algebra import rules
from fitnoise.planning import what_if
from fitnoise.request import workloads
from fitnoise.request.selections import Selection
from fitnoise.request.targets import TargetKind
from fitnoise.request.views import Recode
from fitnoise.request.workloads import SLUG_BYTES, Family, TableSequence, list_names, slug
from refused import refused
from tolerances import EXACT

DOMAIN = fn.Domain(
    state=fn.Categorical(["OH", "IA", "NY"]),
    age=fn.Ordered(0, 4),
    wages=fn.Binned([1, 10]),
    sex=fn.Categorical(["f", "m"]),
)


def test_default_names_describe_the_table():
    assert fn.table("state", "sex", margin=1).name == "state by sex"
    assert fn.table("state", cumulative="age", margin=1).name == "state by age cumulative"
    assert fn.table("age", "state", cumulative="age", margin=1).name == "age cumulative by state"
    assert fn.table(ranges={"age": [(0, 1)]}, margin=1).name == "age ranges"
    assert fn.table(groups={"age": {"young": [0, 1]}}, margin=1).name == "age groups"
    assert fn.table(margin=1).name == "total"
    assert fn.table("state", margin=1, name="T1").name == "T1"


def test_records_with_a_value_are_counted_and_those_without_are_not():
    table = fn.table("sex", count="wages", margin=1)
    assert (table.name, table.is_count) == ("sex by wages count", True)
    cells = {"missing": {"none": [-9]}, "if_missing": "none"}
    for wages in (
        fn.Ordered(0, 2, **cells),
        fn.Amount(0, 9, **cells),
        fn.Categorical([1, 2], **cells),
    ):
        rows = rules.dense(table.view("wages").operator(wages))
        np.testing.assert_array_equal(rows, [[1] * wages.own_size + [0]])
        assert table.labels(fn.Domain(sex=fn.Ordered(0, 1), wages=wages))["wages"] == ("count",)
        assert table.left_out(fn.Domain(sex=fn.Ordered(0, 1), wages=wages)) == {"wages": (wages.own_size,)}
    with refused("workload.count-needs-missing"):
        fn.Workload(fn.Domain(wages=fn.Amount(0, 9)), [fn.table(count="wages", margin=1)])
    with refused("workload.attribute-twice"):
        fn.table(count="wages", sum="wages", margin=1)
    assert fn.all_tables(1, ["sex"], margin=1, count="wages")[0].views == table.views


FOLLOWING = {
    "change": (1, "wages change", [[-1, 1, 0, 0], [0, -1, 1, 0]]),
    "seasonal difference": ({"wages": 2}, "wages change 2", [[-1, 0, 1, 0]]),
    "average": ({"wages": 2}, "wages average 2", [[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]]),
    "to date": ({"wages": 2}, "wages to date 2", [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]]),
}


@pytest.mark.parametrize("kind", FOLLOWING)
def test_values_that_follow_one_another_are_changes_averages_and_sums_to_date(kind):
    """They use values inside the domain: a cell for missing values is in none of them."""
    steps, name, rows = FOLLOWING[kind]
    word = {"to date": "to_date", "average": "average"}.get(kind, "change")
    table = fn.table(**{word: "wages" if steps == 1 else steps}, margin=1)
    for wages in (fn.Ordered(0, 2, missing={"none": [-9]}), fn.Categorical([*"abc"], missing={"none": ["-"]})):
        labels = table.labels(fn.Domain(wages=wages))["wages"]
        assert labels == wages.own_values[3 - len(rows) :]
        np.testing.assert_array_equal(rules.dense(table.view("wages").operator(wages)), rows)
    assert table.name == name
    assert fn.all_tables(1, ["sex"], margin=1, **{word: "wages" if steps == 1 else steps})[0].views == table.views


def test_labels_and_shapes():
    t = fn.table("sex", cumulative="wages", margin=1)
    assert t.labels(DOMAIN) == {"sex": ("f", "m"), "wages": ("under 1", "1 to under 10", "10 or more")}
    assert t.shape(DOMAIN) == (2, 3)
    r = fn.table(ranges={"age": [(0, 0), (1, 4)]}, groups={"state": {"mid": ["OH", "IA"]}}, margin=1)
    assert r.labels(DOMAIN) == {"age": ("0", "1 – 4"), "state": ("mid",)}
    assert fn.table(ranges="age", margin=1).shape(DOMAIN) == (15,)
    assert fn.table(margin=1).shape(DOMAIN) == ()


def test_queries_are_the_sums_they_name():
    counts = np.arange(3 * 5 * 3 * 2).reshape(3, 5, 3, 2)
    both = fn.table("sex", ranges={"age": [(1, 3)]}, groups={"state": {"mid": ["OH", "IA"]}}, margin=1)
    expected = counts[:2, 1:4].sum(axis=(0, 1, 2))
    np.testing.assert_array_equal(table_matrix(both, DOMAIN) @ counts.ravel(), expected)
    cumulative = fn.table("state", cumulative="wages", margin=1)
    expected = counts.sum(axis=(1, 3)).cumsum(axis=1)
    np.testing.assert_array_equal(table_matrix(cumulative, DOMAIN) @ counts.ravel(), expected.ravel())


def test_a_target_by_value_is_broadcast_along_its_column():
    t = fn.table("state", "sex", variance=fn.ByAttribute("sex", {"m": 2}, default=7))
    assert t.variances(DOMAIN, 0.95).tolist() == [[7, 2]] * 3


def test_matrix_workload():
    w = fn.matrix_workload([[1, 0, 2], [0, 0, 1]], variances=[1, 4])
    assert list(w.domain) == ["cell"]
    assert w.tables[0].labels(w.domain) == {"query": (0, 1)}
    assert w.tables[0].variances(w.domain, 0.95).tolist() == [1, 4]
    assert rules.dense(w.tables[0].matrix).dtype.kind == "i"
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 2))
    assert fn.matrix_workload(np.eye(6), margins=3, domain=domain).domain == domain


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_the_zoo_is_well_formed(name):
    w = zoo.WORKLOADS[name]()
    for t in w.tables:
        assert table_matrix(t, w.domain).shape == (int(np.prod(t.shape(w.domain), dtype=int)), w.domain.size)
        assert w[t.name] == t


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fn.table("state"), "workload.not-one-target"),
        (lambda: fn.table("state", margin=1, variance=2), "workload.not-one-target"),
        (lambda: fn.table("state", "state", margin=1), "workload.attribute-twice"),
        (lambda: fn.table(1, margin=1), "workload.attribute-name-not-text"),
        (lambda: fn.table(cumulative="age", ranges="age", margin=1), "workload.attribute-twice"),
        (lambda: fn.table(change="age", average={"age": 2}, margin=1), "workload.attribute-twice"),
        (lambda: fn.table(average="age", margin=1), "workload.wrong-type"),
        (lambda: fn.table(average={"age": 1}, margin=1), "workload.steps-unusable"),
        (lambda: fn.table(change={"age": 0}, margin=1), "workload.steps-unusable"),
        (lambda: fn.table(to_date={"age": 2.5}, margin=1), "workload.steps-unusable"),
        (lambda: fn.table(change="age", margin=1, missing=True), "workload.missing-without-views"),
        (lambda: fn.Workload(DOMAIN, [fn.table(change={"age": 5}, margin=1)]), "workload.too-few-values"),
        (lambda: fn.Workload(DOMAIN, [fn.table(average={"age": 6}, margin=1)]), "workload.too-few-values"),
        (
            lambda: fn.Workload(fn.Domain(pay=fn.Amount(0, 9, step=1)), [fn.table(change="pay", margin=1)]),
            "workload.values-need-sequence",
        ),
        (
            lambda: fn.table("state", margin=0),
            "workload.target-not-positive",
        ),
        (lambda: fn.Workload({"a": 1}, [fn.table("a", margin=1)]), "workload.not-a-domain"),
        (lambda: fn.Workload(DOMAIN, ["state"]), "workload.not-a-table"),
        (
            lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1)], confidence=1.5),
            "workload.confidence-out-of-range",
        ),
        (lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1, name=" ")]), "workload.table-name-empty"),
        (
            lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1), fn.table("state", margin=2)]),
            "workload.file-name-twice",
        ),
        (
            lambda: fn.Workload(
                DOMAIN, [fn.table("state", margin=1, name="A b"), fn.table("sex", margin=2, name="a_B")]
            ),
            "workload.file-name-twice",
        ),
        (lambda: fn.Workload(DOMAIN, [fn.table(cumulative="state", margin=1)]), "workload.cumulative-needs-order"),
        (lambda: fn.Workload(DOMAIN, [fn.table(ranges="sex", margin=1)]), "workload.ranges-need-order"),
        (lambda: fn.Workload(DOMAIN, [fn.table(ranges={"age": [(3, 1)]}, margin=1)]), "domain.range-ends-reversed"),
        (lambda: fn.Workload(DOMAIN, [fn.table(ranges={"age": []}, margin=1)]), "workload.no-ranges"),
        (
            lambda: fn.Workload(DOMAIN, [fn.table(groups={"state": {"x": []}}, margin=1)]),
            "workload.group-cells-unusable",
        ),
        (lambda: fn.Workload(DOMAIN, [fn.table(groups={"state": {}}, margin=1)]), "workload.no-groups"),
        (
            lambda: fn.Workload(DOMAIN, [fn.table("state", margin=fn.ByAttribute("sex", [1, 2]))]),
            "workload.target-attribute-not-shown",
        ),
        (lambda: fn.Workload(DOMAIN, [fn.table("state", margin=1)])["x"], "workload.table-unknown"),
        (lambda: fn.matrix_workload([[1, 0], [0, 0]], variances=1), "workload.query-all-zero"),
        (lambda: fn.matrix_workload([[1, np.nan]], variances=1), "workload.matrix-not-finite"),
        (lambda: fn.matrix_workload([1, 2], variances=1), "workload.matrix-shape-wrong"),
        (
            lambda: fn.matrix_workload([[1, 2]], variances=[1, 2]),
            "workload.matrix-targets-misfit",
        ),
        (lambda: fn.matrix_workload([[1, 2]], variances=["a"]), "workload.matrix-targets-misfit"),
        (lambda: fn.matrix_workload([[1, 2]], variances=[-1]), "workload.target-not-positive"),
        (lambda: fn.matrix_workload([[1, 2]]), "workload.matrix-not-one-target"),
        (lambda: fn.matrix_workload([[1, 2]], variances=1, margins=1), "workload.matrix-not-one-target"),
        (lambda: fn.matrix_workload([[1, 2]], variances=1, domain=DOMAIN), "workload.matrix-width-wrong"),
        (
            lambda: fn.matrix_workload([[1, 2]], variances=1, domain=fn.Domain(query=fn.Ordered(0, 1))),
            "workload.attribute-name-reserved",
        ),
    ],
)
def test_bad_workloads_are_refused(make, message):
    with refused(message):
        make()


def test_unknown_attributes_and_values_are_refused():
    with refused("domain.unknown-attribute"):
        fn.Workload(DOMAIN, [fn.table("region", margin=1)])
    with refused("domain.unknown-value"):
        fn.Workload(DOMAIN, [fn.table(groups={"state": {"south": ["TX"]}}, margin=1)])
    with refused("domain.unknown-value"):
        fn.Workload(DOMAIN, [fn.table(ranges={"age": [(0, 5)]}, margin=1)])


def test_all_ranges_of_a_long_axis_are_refused_with_their_number():
    domain = fn.Domain(day=fn.Ordered(0, 4999))
    with refused("workload.too-many-ranges"):
        fn.Workload(domain, [fn.table(ranges="day", margin=1)])


def test_recodes_name_each_group_once():
    t = fn.Table(
        "t",
        ("state",),
        fn.table("state", margin=1).target,
        (("state", Recode((("x", Selection.parse(["OH"])), ("x", Selection.parse(["IA"]))))),),
    )
    with refused("workload.group-twice"):
        fn.Workload(DOMAIN, [t])


def test_tables_of_any_script_have_files_of_their_own():
    w = fn.Workload(DOMAIN, [fn.table("state", margin=1, name="東京"), fn.table("sex", margin=1, name="大阪")])
    assert [slug(t.name) for t in w.tables] == ["東京", "大阪"]
    assert slug("State by Sex / 2014") == "state_by_sex_2014"


def test_file_names_are_short_and_differ_where_names_are_long():
    for letter in ("a", "ä", "東", "𝒳"):
        for n in (SLUG_BYTES // 4, SLUG_BYTES, 300):
            names = [slug(letter * n + end) for end in ("", " x", " y")]
            assert len({*names}) == 3
            assert all(len(x.encode()) <= SLUG_BYTES and x == slug(x) for x in names)
    assert slug("b" * SLUG_BYTES) == "b" * SLUG_BYTES
    digits = hashlib.sha256(b"b" * (SLUG_BYTES + 1)).hexdigest()[:12]
    assert slug("b" * (SLUG_BYTES + 1)) == f"{'b' * (SLUG_BYTES - 13)}_{digits}"


def test_files_of_a_pattern_are_shortened_as_those_of_its_tables(monkeypatch):
    among = [f"a long name of attribute {i} of {'many' * i}" for i in range(8)]
    for family in (
        fn.all_tables(4, among, margin=1),
        fn.all_tables(2, among[:5], cumulative=among[5], margin=1, name="x"),
    ):
        assert family.slugs() == [slug(n) for n in family.names()]
        assert len({*family.slugs()}) == len(family)
        assert max(len(x.encode()) for x in family.slugs()) <= SLUG_BYTES
    monkeypatch.setattr(workloads, "SLUG_BYTES", 20)
    few = fn.all_tables(3, ["one", "two", "three", "four"], margin=1)
    assert few.slugs() == [slug(n) for n in few.names()]


def test_targets_out_of_range_and_large_queries():
    with refused("workload.target-out-of-range"):
        fn.Workload(DOMAIN, [fn.table("state", margin=1e-200)])
    with refused("workload.attribute-twice"):
        fn.table(cumulative=["age", "age"], margin=1)
    with refused("workload.by-value-repeated"):
        fn.ByAttribute("a", {1: 3, "1": 4})
    assert fn.matrix_workload([[2**32, 1]], margins=1).tables[0].matrix.shape == (1, 2)


# --- patterns -------------------------------------------------------------------------------------------------

WIDE = fn.Domain(
    {
        "state": fn.Categorical(["OH", "IA", "NY"]),
        "age": fn.Ordered(0, 4),
        "wages": fn.Binned([1, 10]),
        "sex": fn.Categorical(["f", "m"]),
        "one": fn.Ordered(7, 7),
        "kids": fn.Ordered(0, 3),
    }
)
VIEWS = {
    "each": {},
    "cumulative": {"cumulative": ["wages"]},
    "ranges": {"ranges": {"age": [(0, 1), (1, 4)]}},
    "all ranges": {"ranges": "age"},
    "groups": {"groups": {"age": {"young": [0, 1], "all": [0, 4]}, "sex": {"men": ["m"]}}},
    "two": {"cumulative": "age", "groups": {"wages": {"some": ["1 to under 10", "10 or more"]}}},
}
"""Views that a workload may have in addition to a pattern."""


def one_by_one(order, among, *attributes, name=None, **options):
    """The tables of a pattern, each written out: a target list gives one number to each."""
    lists = {k: v for k, v in options.items() if k in list(TargetKind) and isinstance(v, list)}
    out = []
    for i, subset in enumerate(itertools.combinations(among, order)):
        own_options = options | {k: float(v[i]) for k, v in lists.items()}
        t = fn.table(*subset, *attributes, **own_options)
        out.append(replace(t, name=t.name if name is None else f"{name}: {t.name}"))
    return out


@st.composite
def random_patterns(draw):
    """Arguments of `all_tables` over WIDE."""
    views = VIEWS[draw(st.sampled_from(list(VIEWS)))]
    viewed = [a for v in views.values() for a in ([v] if isinstance(v, str) else v)]
    free = draw(st.permutations([a for a in WIDE if a not in viewed]))
    fixed = free[: draw(st.integers(0, 2))]
    among = free[len(fixed) : len(fixed) + draw(st.integers(1, 4))]
    order = draw(st.integers(1, len(among)))
    positive = st.floats(0.01, 100)
    by_size = st.builds(
        fn.ByTableSize, positive, st.floats(-2, 2), st.none() | st.floats(0.01, 1), st.none() | st.floats(1, 50)
    )
    count = math.comb(len(among), order)
    kind = draw(st.sampled_from(TargetKind))
    target = draw(positive | by_size | st.lists(positive, min_size=count, max_size=count))
    shown_attributes = [*fixed, *(a for a in viewed if a not in fixed)]
    if shown_attributes and draw(st.booleans()):
        column = draw(st.sampled_from(shown_attributes))
        rows = fn.table(*fixed, **views, margin=1).labels(WIDE)[column]
        target = fn.ByAttribute(column, [draw(positive) for _ in rows])
    options = {kind.value: target, **views, "name": draw(st.none() | st.sampled_from(["T1", "été", "x: y"]))}
    if kind is TargetKind.RELATIVE_STD_ERROR:
        options["reference"] = draw(positive | st.builds(fn.PublicTotal, positive))
    if draw(st.booleans()):
        options["confidence"] = draw(st.floats(0.1, 0.9))
    return (order, among, *fixed), options


@given(random_patterns())
def test_a_pattern_is_its_tables_written_out(arguments):
    """Names, columns, views, targets and variances, of every kind of target."""
    where, options = arguments
    family, tables = fn.all_tables(*where, **options), one_by_one(*where, **options)
    assert len(family) == len(tables)
    assert list(family) == tables
    assert family.names() == [t.name for t in tables]
    assert family.slugs() == [slug(t.name) for t in tables]
    targets, variances, cells = family.targets(WIDE), family.variances(WIDE, 0.95), family.cells(WIDE)
    fixed = family.template.shape(WIDE)
    assert targets.shape == variances.shape == (len(tables), *fixed)
    for i, t in enumerate(tables):
        shape = t.shape(WIDE)
        assert cells[i] == math.prod(shape)
        np.testing.assert_allclose(np.broadcast_to(targets[i], shape), t.targets(WIDE), rtol=EXACT)
        np.testing.assert_allclose(np.broadcast_to(variances[i], shape), t.variances(WIDE, 0.95), rtol=EXACT)
        t.check(WIDE)
    family.check(WIDE)


@given(random_patterns(), st.data())
@settings(max_examples=30)
def test_a_pattern_is_a_sequence(arguments, data):
    where, options = arguments
    family, tables = fn.all_tables(*where, **options), one_by_one(*where, **options)
    n = len(tables)
    bound = st.none() | st.integers(-n - 1, n + 1)
    step = st.none() | st.integers(-3, 3).filter(bool)
    cut = slice(data.draw(bound), data.draw(bound), data.draw(step))
    for sequence in (family, TableSequence([family])):
        assert sequence[cut] == tables[cut]
        assert [sequence[i] for i in range(-n, n)] == tables + tables
        assert list(reversed(sequence)) == tables[::-1]
        assert sequence.index(tables[-1]) == n - 1
        assert sequence.count(tables[0]) == 1
        assert tables[0] in sequence
        assert replace(tables[0], name="another") not in sequence
        for i in (-n - 1, n):
            with pytest.raises(IndexError):
                sequence[i]
        assert sequence[np.int64(n - 1)] == tables[-1]
    repeated = fn.all_tables(*where, **options)
    assert repeated == family
    assert hash(repeated) == hash(family)
    assert repeated != replace(family, template=replace(family.template, name="another"))
    assert family != tables


ODD = [
    "by",
    "By",
    "a by b",
    "_",
    "!",
    " a",
    "a ",
    "A",
    "é",
    "É",
    "ΟΔΟΣ",
    "İ",
    "ß",
    "ẞ",
    "東京",
    "ま り",
    "x·y",
    "Σ",
    "½",
    "٣",
]


@given(
    st.lists(
        st.sampled_from(ODD) | st.text(st.characters(exclude_characters="\0"), min_size=1), min_size=1, max_size=4
    ),
    st.none() | st.sampled_from([*ODD, "T 1", ": :"]),
    st.sampled_from([(), ("b.",), ("ΣΑΣ", "by")]),
    st.data(),
)
@settings(max_examples=300)
def test_files_are_named_like_the_tables_whatever_the_attributes_are_called(names, name, fixed, data):
    among = [a for a in dict.fromkeys(names) if a not in fixed] or ["zz"]
    order = data.draw(st.integers(1, len(among)))
    is_shown = data.draw(st.booleans())
    views = {"cumulative": fixed} if is_shown else {}
    family = fn.all_tables(order, among, *(() if is_shown else fixed), **views, name=name, margin=1)
    assert family.names() == [t.name for t in family]
    assert family.slugs() == [slug(n) for n in family.names()]
    mixed = TableSequence([fn.table(margin=1), family, fn.table(margin=1, name="Ä !")])
    assert mixed.names == ["total", *family.names(), "Ä !"]
    assert mixed.slugs() == [slug(n) for n in mixed.names]


def test_patterns_say_what_they_are():
    names = ["state", "age", "sex", "kids"]
    descriptions = [fn.all_tables(k, names, margin=1).describe() for k in (1, 2, 3, 4)]
    assert descriptions == [
        "each of 4 attributes",
        "all pairs of 4 attributes",
        "all triples of 4 attributes",
        "all sets of 4 of 4 attributes",
    ]
    pattern = fn.all_tables(2, names, "wages", cumulative="one", margin=1, name="T1")
    assert pattern.describe() == "T1: all pairs of 4 attributes by wages by one cumulative"
    assert pattern[0].name == "T1: state by age by wages by one cumulative"


def test_a_list_of_targets_goes_through_the_pairs_in_order():
    family = fn.all_tables(2, ["sex", "state", "age"], variance=[1, 2, 3])
    targets = [(t.attributes, t.target.number) for t in family]
    assert targets == [(("sex", "state"), 1), (("sex", "age"), 2), (("state", "age"), 3)]
    for same in ((1, 2, 3), np.array([1, 2, 3]), range(1, 4)):
        assert fn.all_tables(2, ["sex", "state", "age"], variance=same) == family
    assert family != fn.all_tables(2, ["sex", "state", "age"], variance=[1, 2, 4])


def test_by_size_and_by_total_are_what_they_say():
    """Three-way ways of one table, two of another: k numbers, N/k records in each."""
    domain = fn.Domain(a=fn.Ordered(0, 9), b=fn.Ordered(0, 1), c=fn.Ordered(0, 4))
    by_size = fn.all_tables(2, list(domain), std_error=fn.ByTableSize(2, 0.5, most=12))
    assert by_size.cells(domain).tolist() == [20, 50, 10]
    assert by_size.targets(domain) == pytest.approx([2 * 20**0.5, 12, 2 * 10**0.5])
    relative = fn.all_tables(2, list(domain), relative_std_error=0.1, reference=fn.PublicTotal(1000))
    assert relative.variances(domain, 0.95) == pytest.approx([25, 4, 100])
    assert fn.all_tables(2, list(domain), relative_std_error=0.1, reference=50).variances(
        domain, 0.95
    ) == pytest.approx([25] * 3)


REFUSED = {
    "a text": (lambda: fn.all_tables(2, "ab", margin=1), "workload.pattern-names-not-listed"),
    "an order above": (lambda: fn.all_tables(3, ["a", "b"], margin=1), "workload.pattern-order-out-of-range"),
    "an order of zero": (lambda: fn.all_tables(0, ["a", "b"], margin=1), "workload.pattern-order-out-of-range"),
    "an order below": (lambda: fn.all_tables(-1, ["a", "b"], margin=1), "workload.pattern-order-out-of-range"),
    "an order as true": (lambda: fn.all_tables(True, ["a", "b"], margin=1), "workload.pattern-order-out-of-range"),
    "an order as a word": (lambda: fn.all_tables("pairs", ["a", "b"], margin=1), "workload.pattern-order-out-of-range"),
    "an attribute twice": (lambda: fn.all_tables(2, ["a", "b", "a"], margin=1), "workload.pattern-attribute-twice"),
    "an attribute among and next to a pattern": (
        lambda: fn.all_tables(1, ["a", "b"], "b", margin=1),
        "workload.pattern-attribute-twice",
    ),
    "an attribute among and as a prefix": (
        lambda: fn.all_tables(1, ["a", "b"], cumulative="b", margin=1),
        "workload.pattern-attribute-twice",
    ),
    "too many tables": (lambda: fn.all_tables(7, [f"x{i}" for i in range(60)], margin=1), "workload.too-many-tables"),
    "a target by what is among": (
        lambda: fn.all_tables(1, ["a", "b"], margin=fn.ByAttribute("a", [1, 2])),
        "workload.pattern-target-attribute",
    ),
    "too few targets": (lambda: fn.all_tables(2, ["a", "b", "c"], margin=[1, 2]), "workload.pattern-targets-misfit"),
    "too many targets": (
        lambda: fn.all_tables(2, ["a", "b", "c"], margin=np.ones(4)),
        "workload.pattern-targets-misfit",
    ),
    "a target of zero": (lambda: fn.all_tables(1, ["a", "b"], margin=[1, 0.0]), "workload.target-not-positive"),
    "a first target of zero": (
        lambda: fn.all_tables(1, ["a", "b"], std_error=[0.0, 1]),
        "workload.target-not-positive",
    ),
    "a target that is no number": (
        lambda: fn.all_tables(1, ["a", "b"], relative_std_error=[1, math.nan], reference=5),
        "workload.target-not-positive",
    ),
    "no target": (lambda: fn.all_tables(1, ["a", "b"]), "workload.not-one-target"),
    "two targets": (lambda: fn.all_tables(1, ["a", "b"], margin=[1, 2], variance=3), "workload.not-one-target"),
    "a list without reference": (
        lambda: fn.all_tables(1, ["a", "b"], relative_std_error=[1, 2]),
        "workload.reference-misfit",
    ),
    "an order on what has none": (
        lambda: fn.Workload(WIDE, [fn.all_tables(1, ["age"], cumulative="sex", margin=1)]),
        "workload.cumulative-needs-order",
    ),
    "too few numbers by value": (
        lambda: fn.Workload(WIDE, [fn.all_tables(1, ["age"], "sex", margin=fn.ByAttribute("sex", [1]))]),
        "workload.by-value-count",
    ),
    "targets out of range": (
        lambda: fn.Workload(WIDE, [fn.all_tables(2, ["sex", "age", "one"], margin=[1, 1e-200, 1])]),
        "workload.target-out-of-range",
    ),
    "targets by size out of range": (
        lambda: fn.Workload(WIDE, [fn.all_tables(1, ["sex", "age"], margin=fn.ByTableSize(1, -900))]),
        "workload.target-out-of-range",
    ),
    "a pattern and a table of one name": (
        lambda: fn.Workload(
            WIDE, [fn.all_tables(2, ["sex", "age", "one"], margin=1), fn.table(margin=1, name="Sex by One")]
        ),
        "workload.file-name-twice",
    ),
    "a table before a pattern of the same name": (
        lambda: fn.Workload(
            WIDE, [fn.table(margin=1, name="a_age"), fn.all_tables(1, ["sex", "age"], margin=1, name="A")]
        ),
        "workload.file-name-twice",
    ),
    "two equal patterns": (
        lambda: fn.Workload(
            WIDE, [fn.all_tables(1, ["sex", "age"], margin=1), fn.all_tables(1, ["one", "age"], margin=2)]
        ),
        "workload.file-name-twice",
    ),
    "equal attributes of one pattern": (
        lambda: fn.Workload(
            fn.Domain({"a b": fn.Ordered(0, 1), "a_b": fn.Ordered(0, 1)}), [fn.all_tables(1, ["a b", "a_b"], margin=1)]
        ),
        "workload.file-name-twice",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_patterns_are_refused_by_code(case):
    make, code = REFUSED[case]
    with refused(code):
        make()


def test_a_pattern_over_unknown_attributes_is_refused():
    for make in (
        lambda: fn.all_tables(2, ["sex", "region", "age"], margin=1),
        lambda: fn.all_tables(2, ["sex", "age"], "region", margin=1),
        lambda: fn.all_tables(2, ["sex", "age"], groups={"region": {"x": 1}}, margin=1),
    ):
        with refused("domain.unknown-attribute"):
            fn.Workload(WIDE, [make()])


def test_as_many_tables_as_can_be_planned_are_counted_not_made(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Family, "combinations", property(lambda _: pytest.fail("made")))
        assert len(fn.all_tables(2, [f"x{i}" for i in range(2048)], margin=1)) == 2_096_128
    monkeypatch.setattr(workloads, "MAX_TABLES", 5)
    assert len(fn.all_tables(4, ["a", "b", "c", "d", "e"], margin=1)) == 5
    with refused("workload.too-many-tables"):
        fn.all_tables(2, ["a", "b", "c", "d", "e"], margin=1)


def test_the_tables_of_a_workload_are_a_sequence_of_its_parts():
    parts = [fn.table(margin=1), fn.all_tables(2, ["sex", "age", "one"], margin=[1, 2, 3]), fn.table("kids", margin=4)]
    w = fn.Workload(WIDE, parts)
    expected = [parts[0], *parts[1], parts[2]]
    assert w.tables.parts == tuple(parts)
    assert w.tables.starts.tolist() == [0, 1, 4, 5]
    assert list(w.tables) == expected
    assert len(w.tables) == 5
    assert [w.tables[i] for i in range(-5, 5)] == expected * 2
    assert w.tables[1:-1] == list(parts[1])
    assert w.tables.names == ["total", "sex by age", "sex by one", "age by one", "kids"]
    assert w.tables.slugs() == ["total", "sex_by_age", "sex_by_one", "age_by_one", "kids"]
    assert w.tables.numbered == {name: i for i, name in enumerate(w.tables.names)}
    for i in (5, -6):
        with pytest.raises(IndexError):
            w.tables[i]
    assert w.number("age by one") == 3
    assert w["age by one"] == parts[1][2]
    with refused("workload.table-unknown"):
        w["x"]
    # the same tables in other words are another workload; the same words, the same
    out = fn.Workload(WIDE, expected)
    assert (w == out, w.tables == out.tables, w.tables == expected) == (False, False, False)
    repeated = fn.Workload(WIDE, w.tables)
    assert repeated == w
    assert (repeated.tables, hash(repeated.tables)) == (w.tables, hash(w.tables))
    assert repr(w.tables) == f"TableSequence({parts!r})"
    assert fn.Workload(WIDE, iter(parts)) == w


def test_of_very_many_names_an_error_says_the_first():
    names = [f"x{i}" for i in range(13)]
    assert list_names(names[:12]) == str(names[:12])
    assert list_names(names) == f"13 tables, the first of them {names[:12]}"
    assert list_names(names, 2) == "13 tables, the first of them ['x0', 'x1']"
    w = fn.Workload(fn.Domain({n: fn.Ordered(0, 1) for n in names}), [fn.all_tables(2, names, margin=1)])
    with refused("workload.table-unknown"):
        w["x1"]


# --- patterns, planned ----------------------------------------------------------------------------------------

LETTERS = fn.Domain(
    {"a": fn.Ordered(0, 1), "b": fn.Ordered(0, 2), "c": fn.Categorical(["x", "y", "z"]), "d": fn.Ordered(0, 3)}
)
NAMES = list(LETTERS)
GROUPS = {"d": {"u": {"values": [0, 3]}, "v": 1}}
PLANNED = {
    "pairs": [fn.all_tables(2, NAMES, margin=5)],
    "one of a pattern": [fn.all_tables(4, NAMES, margin=5)],
    "singles, pairs and the total": [
        fn.all_tables(1, NAMES, max_deviation=6),
        fn.all_tables(2, NAMES, relative_std_error=0.1, reference=fn.PublicTotal(900)),
        fn.table(margin=2),
    ],
    "a list and a size": [
        fn.all_tables(2, ["d", "a", "c"], variance=[3, 9, 1]),
        fn.all_tables(3, NAMES, std_error=fn.ByTableSize(0.5, 0.5)),
    ],
    "structured by a prefix of another": [fn.all_tables(2, NAMES, margin=5), fn.table("a", cumulative="b", margin=3)],
    "structured by a target by value": [
        fn.all_tables(2, NAMES, margin=[5, 4, 3, 5, 4, 3]), fn.table("c", margin=fn.ByAttribute("c", [1, 2, 3])),
    ],
    "two structured by a recode": [
        fn.all_tables(3, NAMES, margin=5), fn.table(groups={"d": {"some": [1, 2]}, "b": {"low": [0, 1]}}, margin=3),
    ],
    "a fixed attribute": [fn.all_tables(1, ["d", "b", "c"], "a", margin=5), fn.table("b", margin=3)],
    "a fixed prefix": [fn.all_tables(2, ["c", "a", "b"], cumulative="d", margin=[5, 2, 7]), fn.table("d", margin=3)],
    "a fixed attribute, structured elsewhere": [
        fn.all_tables(1, ["a", "c"], "d", margin=[5, 4]), fn.table(cumulative="d", margin=9), fn.table("a", margin=2),
    ],
    "a fixed attribute by value": [
        fn.all_tables(1, ["a", "c"], "b", groups=GROUPS, margin=fn.ByAttribute("b", [4, 5, 6])),
    ],
    "by value of a fixed prefix": [
        fn.all_tables(1, ["c", "b"], cumulative="d", margin=fn.ByAttribute("d", [4, 5, 6, 7])),
        fn.all_tables(2, NAMES, margin=9),
    ],
    "one part twice": [
        fn.all_tables(1, NAMES, margin=5, name="x"), fn.table("a", "c", margin=8),
        fn.all_tables(1, NAMES, margin=3, name="y"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", [*PLANNED, "patterns", "uneven patterns", "patterns and structure"])
def test_a_pattern_costs_what_its_tables_written_out_cost(case):
    """Cost, bound, prices and every variance: nothing of the plan but its document knows the pattern."""
    short = fn.Workload(LETTERS, PLANNED[case]) if case in PLANNED else zoo.WORKLOADS[case]()
    long = fn.Workload(short.domain, list(short.tables), short.confidence)
    assert all(isinstance(p, fn.Table) for p in long.tables.parts)
    one, other = fn.plan(short, gap=1e-6), fn.plan(long, gap=1e-6)
    for number in ("objective_value", "bound", "rho", "separate_rho", "relaxation"):
        assert getattr(one.table_part, number) == pytest.approx(getattr(other.table_part, number), rel=EXACT)
    assert (one.table_part.numbers, one.table_part.noisy_answers, len(one.table_part.tables)) == (
        other.table_part.numbers,
        other.table_part.noisy_answers,
        len(other.table_part.tables),
    )
    assert one.table_part.profile == pytest.approx(other.table_part.profile, rel=EXACT)
    assert one.table_part.price_shares == pytest.approx(other.table_part.price_shares, abs=EXACT)
    for i, t in enumerate(long.tables):
        np.testing.assert_allclose(
            one.table_part.table_variances(t.name), other.table_part.table_variances(t.name), rtol=EXACT
        )
        mine, theirs = one.table_part.tables[i], other.table_part.tables[i]
        assert (mine.name, mine.numbers, mine.target, mine.confidence, mine.tables) == (
            theirs.name, theirs.numbers, theirs.target, theirs.confidence, 1,
        )  # fmt: skip
        margins = theirs.achieved_moe, theirs.target_moe
        assert (mine.achieved_moe, mine.target_moe) == pytest.approx(margins, rel=EXACT)


@pytest.mark.parametrize("case", PLANNED)
def test_the_parts_of_a_plan_sum_up_their_tables(case):
    """One line per table or pattern: all its numbers and its full price, and the margins of its worst number."""
    plan = fn.plan(fn.Workload(LETTERS, PLANNED[case]))
    w = plan.publication.workload
    assert len(plan.summaries) == len(w.tables.parts)
    for start, part, summary in zip(w.tables.starts, w.tables.parts, plan.summaries, strict=False):
        count = 1 if isinstance(part, fn.Table) else len(part)
        members = plan.table_part.tables[start : start + count]
        assert summary.name == (part.name if isinstance(part, fn.Table) else part.describe())
        assert summary.tables == count
        assert summary.numbers == sum(t.numbers for t in members)
        assert summary.price == pytest.approx(sum(t.price for t in members), abs=EXACT)
        worst = [t for t in members if (t.target_moe, t.achieved_moe) == (summary.target_moe, summary.achieved_moe)]
        assert worst
        ratios = [t.achieved_moe / t.target_moe for t in members]
        assert summary.achieved_moe / summary.target_moe == pytest.approx(max(ratios), rel=EXACT)
        assert {t.confidence for t in members} == {summary.confidence}
    assert [plan.table_part.tables[i] for i in (-1, 0)] == [
        plan.table_part.summary(len(w.tables) - 1),
        plan.table_part.summary(0),
    ]
    assert sum(t.price for t in plan.summaries) == pytest.approx(1)


# --- patterns, once more: errors of those that are none ----------------------------------------------------------

FOUR = fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 1), c=fn.Categorical(["x", "y"]), d=fn.Ordered(0, 3))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: fn.all_tables(1, ["a", "b"], margin="34"), "workload.target-not-positive"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=["3", 4]), "workload.target-not-positive"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=[3, True]), "workload.target-not-positive"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=[[1], [2]]), "workload.target-not-positive"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=np.array([[1.0, 2]])), "workload.pattern-targets-misfit"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=np.array(3.0)), "workload.pattern-targets-misfit"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=[3, None]), "workload.target-not-positive"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=[]), "workload.pattern-targets-misfit"),
        (
            lambda: fn.all_tables(1, ["a", "b"], margin=[fn.ByTableSize(1, 2), 2]),
            "workload.pattern-target-not-a-number",
        ),
        (lambda: fn.all_tables(1, [], margin=1), "workload.pattern-without-attributes"),
        (lambda: Family(fn.matrix_workload(np.eye(2), margins=1).tables[0], ("a",), 1), "workload.matrix-in-pattern"),
        (lambda: fn.all_tables(1, ["a", "b"], margin=fn.ByAttribute("c", [1, 2])), "workload.pattern-target-attribute"),
        (lambda: fn.Workload(FOUR, [3]), "workload.not-a-table"),
        (lambda: fn.Workload(FOUR, [None]), "workload.not-a-table"),
        (lambda: fn.Workload(FOUR, [fn.all_tables(1, ["a"], margin=1, name=" ")]), "workload.table-name-empty"),
        (lambda: fn.Workload(FOUR, [fn.table("a", margin=1e200)]), "workload.target-out-of-range"),
        (lambda: fn.Workload(FOUR, [fn.table("a", variance=1e-320)]), "workload.target-out-of-range"),
        (
            lambda: fn.Workload(FOUR, [fn.all_tables(1, ["a", "d"], margin=fn.ByTableSize(1, 900))]),
            "workload.target-out-of-range",
        ),
    ],
)
def test_patterns_that_are_none_are_refused_by_code(make, code):
    with refused(code):
        make()


def test_a_pattern_s_name_may_hold_anything():
    f = fn.all_tables(2, ["a", "b", "c"], "d", margin=1, name="x\0y")
    assert f.names() == [t.name for t in f]
    assert f.slugs() == [slug(n) for n in f.names()]
    assert f.describe() == "x\0y: all pairs of 3 attributes by d"
    fn.Workload(FOUR, [f])


def test_a_single_part_is_a_workload():
    f = fn.all_tables(2, ["a", "b", "c"], margin=1)
    assert fn.Workload(FOUR, f) == fn.Workload(FOUR, [f])
    assert fn.Workload(FOUR, fn.table("a", margin=1)) == fn.Workload(FOUR, [fn.table("a", margin=1)])
    assert hash(Family(f.template, ["a", "b", "c"], 2)) == hash(f)
    assert Family(f.template, ["a", "b", "c"], 2) == f


@pytest.mark.parametrize("target", [2, fn.ByTableSize(3, -1), [2, 3, 4]])
def test_a_sweep_of_a_pattern_is_a_document(target):
    p = fn.Publication(fn.Workload(FOUR, [fn.all_tables(2, ["a", "b", "c"], margin=target)]))
    q = what_if.scale_margins(p, {"a by b": 2})
    assert fn.Spec.from_publication(q).publication() == q
    pl = fn.plan(q)
    assert fn.Plan.from_json(pl.to_json()).publication == q


def test_tables_that_group_an_attribute_in_other_ways_are_numbered():
    domain = fn.Domain(age=fn.Ordered(0, 9), sex=fn.Categorical(["f", "m"]))

    def grouped(cut, **options):
        return fn.table("sex", groups={"age": {"low": range(cut), "high": range(cut, 10)}}, margin=5, **options)

    workload = fn.Workload(domain, [grouped(3), grouped(5), grouped(6, name="sex by age groups 3"), grouped(7)])
    names = ["sex by age groups", "sex by age groups 2", "sex by age groups 3", "sex by age groups 4"]
    assert workload.tables.names == names
    assert fn.Workload(domain, workload.tables) == workload
    assert fn.Plan.from_json(fn.plan(workload).to_json()).publication.workload == workload
    with refused("workload.file-name-twice"):
        fn.Workload(domain, [grouped(3), grouped(3)])
    ranges = [fn.table(ranges={"age": [(0, top)]}, margin=5) for top in (4, 5)]
    assert fn.Workload(domain, ranges).tables.names == ["age ranges", "age ranges 2"]
