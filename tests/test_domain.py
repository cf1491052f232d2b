import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from fitnoise.errors import DomainError
from fitnoise.kernel.codings import Codes, CodingWithMissing, Cuts, Range
from fitnoise.kernel.domain import axis_key
from fitnoise.kernel.units import DataSource, RecordBound
from fitnoise.messages import english, rule_messages
from fitnoise.request.attributes import KINDS, Amount, Attribute, Binned, Categorical, Ordered, attribute_document
from fitnoise.request.documents import Spec
from fitnoise.request.domain import Domain
from laws.counting import HistogramCounter, check_attribute
from refused import refused


@pytest.mark.parametrize("name", zoo.ATTRIBUTES)
def test_every_attribute_is_what_it_says(name):
    check_attribute(zoo.ATTRIBUTES[name])


@pytest.mark.parametrize("name", zoo.ATTRIBUTES)
def test_every_attribute_is_read_as_it_is_written(name):
    attribute = zoo.ATTRIBUTES[name].attribute
    publication = fn.Publication(fn.Workload(fn.Domain(x=attribute), [fn.table("x", margin=1)]))
    if attribute.kind in KINDS:
        spec = Spec.from_publication(publication)
        for spec_again in (spec, Spec.from_toml(spec.to_toml())):
            assert spec_again.publication().workload.domain["x"] == attribute
    else:
        with refused("spec.attribute-class-unknown"):
            Spec.from_publication(publication)


def test_equal_attributes_have_equal_documents_and_others_have_others():
    """Detects what `==` of Python calls equal: 1 and true, 0.0 and -0.0."""
    similar = [Categorical([1, 0]), Categorical([True, False]), Ordered(0, 1), Ordered(False + 0, 1, clip=np.True_)]
    similar += [Binned([0.0]), Binned([-0.0]), Binned([0]), Categorical({1: "a"}), Categorical([1]), Categorical(["1"])]
    attributes = [s.attribute for s in zoo.ATTRIBUTES.values()] + similar
    for a in attributes:
        for b in attributes:
            same = json.dumps(attribute_document(a)) == json.dumps(attribute_document(b))
            assert (a == b) == same
            assert not same or hash(a) == hash(b)


def test_a_coding_is_checked_whatever_kind_of_attribute_it_is_of():
    """A code in two cells would count a record twice."""
    for make in (lambda: Codes(("a", "a")), lambda: Codes(()), lambda: Range(1, 0), lambda: Cuts((2.0, 1.0))):
        with pytest.raises(DomainError):
            make()


def test_a_coding_that_no_counter_translates_is_refused():
    """Detects a subclass that counters would take for its base class, alone or with cells for missing values."""
    Later, Twice = (type(x.__name__, (x,), {}) for x in (Range, CodingWithMissing))
    for coding in (Later(1, 12), CodingWithMissing(Later(1, 12), ((-9,),)), Twice(Range(1, 12), ((-9,),)), None):
        attribute = zoo.Months()
        object.__setattr__(attribute, "coding", coding)
        with refused("domain.unknown-coding"):
            fn.Domain(month=attribute)


@pytest.mark.parametrize("member", ["kind", "ordered", "has_sequence", "is_numeric", "declared", "own_values"])
def test_an_attribute_without_a_member_is_refused_at_its_definition(member):
    names = ("kind", "ordered", "has_sequence", "is_numeric", "declared", "own_values", "own_position", "own_examples")
    with pytest.raises(TypeError, match=f"The class Other lacks {member}\\.$"):
        type("Other", (Attribute,), {name: None for name in names if name != member})


def test_an_attribute_without_numbers_adds_nothing_to_a_sum():
    assert Categorical([5, 7]).largest(None) == 0
    assert Ordered(-3, 2).largest(None) == 3
    assert Ordered(0, 9, clip=True).coding_rules_up_to(None) == Ordered(0, 9, clip=True).coding_rules != ()


@pytest.mark.parametrize("name", zoo.ATTRIBUTES)
def test_only_a_hierarchy_has_levels_and_only_an_amount_by_class_has_steps_of_classes(name):
    attribute = zoo.ATTRIBUTES[name].attribute
    assert bool(attribute.levels) == isinstance(attribute, fn.Hierarchy)
    assert bool(attribute.class_steps) == (getattr(attribute, "range_attribute", None) is not None)


def test_a_domain_has_the_methods_of_a_mapping():
    domain = fn.Domain(age=Ordered(0, 9))
    assert (domain.get("age"), domain.get("sex"), domain.get("sex", 3), domain.get(["age"])) == (
        domain["age"],
        None,
        3,
        None,
    )
    with refused("domain.unknown-attribute"):
        domain["sex"]


def test_categorical_shows_labels_where_it_has_them():
    unlabelled = Categorical(["a", "b"])
    labelled = Categorical({1: "one", 2: "two"}, column="code")
    assert (unlabelled.values, unlabelled.size, unlabelled.ordered) == (("a", "b"), 2, False)
    assert (labelled.values, labelled.codes, labelled.column) == (("one", "two"), (1, 2), "code")
    assert [labelled.position(x) for x in (1, 2, "one", "two")] == [0, 1, 0, 1]


def test_numpy_codes_are_plain_codes():
    assert Categorical(np.arange(3)).codes == (0, 1, 2)
    assert all(type(c) is int for c in Categorical(np.arange(3)).codes)


def test_true_is_not_one():
    assert Categorical([True, False]).position(False) == 1
    with refused("domain.unknown-value"):
        Categorical([0, 1]).position(True)


@given(st.integers(-1000, 1000), st.integers(0, 300))
def test_ordered_positions_are_offsets(low, width):
    a = Ordered(low, low + width)
    assert a.size == width + 1 == len(a.values)
    assert [a.position(v) for v in a.values] == list(range(a.size))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8, unique=True), st.floats(-1e10, 1e10))
def test_a_number_falls_in_the_bin_between_its_cuts(cuts, x):
    a = Binned(sorted(cuts))
    edges = [-math.inf, *sorted(cuts), math.inf]
    i = a.cell(x)
    assert edges[i] <= x < edges[i + 1]
    assert a.size == len(cuts) + 1 == len(set(a.values))


def test_bins_are_named_by_their_cuts():
    assert Binned([1, 10_000, 0.5e6]).values == (
        "under 1",
        "1 to under 10000",
        "10000 to under 500000",
        "500000 or more",
    )
    assert Binned([0.25]).values == ("under 0.25", "0.25 or more")
    assert Binned([1, 2]).position("1 to under 2") == 1


def test_codes_from_a_file(tmp_path):
    file = tmp_path / "codes.csv"
    file.write_text("code,label\n1,One\n2,Two\n", encoding="utf-8-sig")
    assert Categorical.from_file(file) == Categorical({1: "One", 2: "Two"})
    file.write_text("code\n01\n02\n")
    assert Categorical.from_file(file, column="c") == Categorical(["01", "02"], column="c")


@pytest.mark.parametrize("codes", ["\u00b2", "--5", "-0", "+1", "1 "])
def test_odd_numbers_in_a_file_of_codes_are_texts(tmp_path, codes):
    file = tmp_path / "codes.csv"
    file.write_text(f"code\n{codes}\n", encoding="utf-8")
    assert Categorical.from_file(file).codes == (codes,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kode\n1\n", "domain.codes-file-columns"),
        ("", "domain.codes-file-columns"),
        ("code,label\n1,a\n1,b\n", "domain.codes-file-repeated"),
        ("code\n1\n1\n", "domain.name-repeated"),
        ("code\n", "domain.codes-missing"),
        ('code,label\n1,"open\n2,b\n', "domain.csv-file-unreadable"),  # all that follows were one label
    ],
)
def test_bad_files_of_codes(tmp_path, text, message):
    file = tmp_path / "codes.csv"
    file.write_text(text)
    with refused(message):
        Categorical.from_file(file)


def test_a_file_of_codes_that_cannot_be_read(tmp_path):
    with refused("domain.csv-file-unreadable"):
        Categorical.from_file(tmp_path / "no.csv")
    (tmp_path / "latin.csv").write_bytes(b"code\n\xe9\n")
    with refused("domain.csv-file-unreadable"):
        Categorical.from_file(tmp_path / "latin.csv")


def test_missing_values_have_cells_in_addition_to_the_others():
    age = Ordered(0, 2, missing={"not applicable": ["N"], "unknown": ["", -9.0]}, if_missing="unknown")
    assert age.values == (0, 1, 2, "not applicable", "unknown")
    assert (age.size, age.own_size, age.missing_cells) == (5, 3, ("not applicable", "unknown"))
    assert [age.position(v) for v in (2, "not applicable", "unknown")] == [2, 3, 4]
    assert age.missing == (("not applicable", ("N",)), ("unknown", ("", -9)))
    assert age == replace(age) == Ordered(0, 2, missing=dict(age.missing), if_missing="unknown")
    assert age != Ordered(0, 2, missing=dict(age.missing))
    pairs = Ordered(0, 2, missing=(("not applicable", ["N"]), ("unknown", ["", -9.0])), if_missing="unknown")
    assert (pairs, hash(pairs), pairs.missing) == (age, hash(age), age.missing)
    assert hash(age) == hash(replace(age))
    clipped = "below 0 as 0, above 2 as 2"
    assert age.coding_rules == Categorical(["f"]).coding_rules == ()
    coded = english(*rule_messages(replace(age, clip=True).coding_rules))
    assert coded == f"{clipped}; codes of missing values are read as such"
    for ordered in (Ordered(0, 2, True), Ordered(0, 2, True, missing={"none": ["N"]})):
        assert english(*rule_messages(ordered.coding_rules)) == clipped
    domain = Domain(age=age, sex=Categorical(["f"]))
    assert (domain.shape, domain.sizes) == ((5, 1), {"age": 5, "sex": 1})


@pytest.mark.parametrize(
    ("options", "dropped"),
    [
        ({}, ("x",)),
        ({"if_missing": "refuse"}, ("x",)),
        ({"if_missing": "refuse", "if_outside": "refuse"}, ()),
        ({"missing": {"a": []}, "if_missing": "a"}, ("x",)),
        ({"missing": {"a": []}, "if_missing": "a", "if_outside": "a"}, ()),
        ({"missing": {"a": [9]}, "if_missing": "drop", "if_outside": "a"}, ("x",)),
    ],
)
def test_what_leaves_records_out_goes_by_the_domain(options, dropped):
    """Also where an id says whose records they are: one without an id is dropped, where the source says so."""
    domain = Domain(x=Ordered(0, 2, **options))
    with_drops = ("x",) if options.get("if_missing") == "drop" else ()
    assert (domain.drops(True), domain.drops(False)) == (dropped, with_drops)
    dropping, refusing = DataSource(outside_domain="drop"), DataSource()
    assert domain.axes.leaves_out(dropping, None) == bool(dropped)
    assert domain.axes.leaves_out(dropping, RecordBound("id", 1))
    assert (
        domain.axes.leaves_out(refusing, RecordBound("id", 1))
        == domain.axes.leaves_out(refusing, None)
        == bool(with_drops)
    )


def test_cells_may_be_called_as_their_own_codes_and_as_numbers_that_are_no_values():
    assert Ordered(0, 3, True, missing={"-9": [-9], "N": ["N"]}).values == (0, 1, 2, 3, "-9", "N")
    assert Categorical([1], missing={"2": [2]}).values == (1, "2")
    assert Binned([0], missing={"-9": [-9]}).values == ("under 0", "0 or more", "-9")


def test_domain_is_an_ordered_mapping():
    d = Domain({"place of birth": Categorical(["x"])}, age=Ordered(0, 9, column="AGE"))
    assert (list(d), d.shape, d.size, len(d)) == (["place of birth", "age"], (1, 10), 10, 2)
    assert (d.column("age"), d.column("place of birth")) == ("AGE", "place of birth")
    assert "age" in d
    assert "AGE" not in d
    assert d == Domain({"place of birth": Categorical(["x"]), "age": Ordered(0, 9, column="AGE")})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical([]), "domain.codes-missing"),
        (lambda: Categorical("abc"), "domain.codes-not-a-list"),
        (lambda: Categorical([1, "a"]), "domain.codes-of-several-types"),
        (lambda: Categorical([1.5]), "domain.codes-of-several-types"),
        (lambda: Categorical([None]), "domain.codes-of-several-types"),
        (lambda: Categorical([1, 1]), "domain.name-repeated"),
        (lambda: Categorical(np.zeros((2, 2), dtype=int)), "domain.codes-of-several-types"),
        (lambda: Ordered(0, 3, missing={"a": [np.array([7, 8])]}), "domain.missing-code-invalid"),
        (lambda: Ordered(np.array([0]), 3), "domain.range-end-invalid"),
        (lambda: Binned(np.zeros((2, 2))), "domain.cut-not-finite"),
        (lambda: Categorical({1: "a", 2: "a"}, missing={"a": [9]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical({"a": "a", "b": "a"}), "domain.label-of-another-code"),
        (lambda: Categorical({1: ""}), "domain.label-invalid"),
        (lambda: Categorical([2**53]), "domain.code-too-large"),
        (lambda: Categorical(["\ud800"]), "domain.code-not-writable"),
        (lambda: Categorical({1: "\ud800"}), "domain.label-invalid"),
        (lambda: Domain({"\udfff": Ordered(0, 1)}), "domain.attribute-name-invalid"),
        (lambda: Categorical(["a"], column=""), "domain.column-invalid"),
        (lambda: Ordered(0.5, 3), "domain.range-end-invalid"),
        (lambda: Ordered(0, True), "domain.range-end-invalid"),
        (lambda: Ordered(0, 1, clip=1), "domain.clip-not-boolean"),
        (lambda: Ordered(3, 2), "domain.range-reversed"),
        (lambda: Ordered(0, 10**8), "domain.range-too-long"),
        (lambda: Ordered(0, 3, column=7), "domain.column-invalid"),
        (lambda: Ordered(0, 3, missing={}), "domain.missing-empty"),
        (lambda: Ordered(0, 3, missing=[9]), "domain.missing-invalid"),
        (lambda: Ordered(0, 3, missing={"a": 9}), "domain.missing-codes-not-a-list"),
        (lambda: Ordered(0, 3, missing={"a": "xy"}), "domain.missing-codes-not-a-list"),
        (lambda: Ordered(0, 3, missing={"a": {9, 8}}), "domain.missing-codes-not-a-list"),
        (lambda: Ordered(0, 3, missing={"a": {9: 8}}), "domain.missing-codes-not-a-list"),
        (lambda: Ordered(0, 3, missing=(1, 2)), "domain.missing-invalid"),
        (lambda: Ordered(0, 3, missing=(("a", [9], 1),)), "domain.missing-invalid"),
        (lambda: Categorical(["f"], missing=(("a", 5),)), "domain.missing-codes-not-a-list"),
        (lambda: Binned([0], missing=(("a", "Nx"),)), "domain.missing-codes-not-a-list"),
        (lambda: Ordered(0, 3, missing=(("a", [9]), ("a", [8]))), "domain.name-repeated"),
        (lambda: Ordered(0, 3, missing=((["a"], [9]),)), "domain.missing-cell-name-invalid"),
        (lambda: Ordered(0, 3, missing={"a": [["N"]]}), "domain.missing-code-invalid"),
        (lambda: Ordered(0, 3, missing={"a": []}), "domain.missing-cell-unused"),
        (lambda: Ordered(0, 3, missing={"a": [9], "b": [9]}), "domain.name-repeated"),
        (lambda: Ordered(0, 3, missing={"a": [9, 9.0]}), "domain.name-repeated"),
        (lambda: Ordered(0, 3, missing={"a": [2]}), "domain.missing-code-is-value"),
        (lambda: Ordered(0, 3, clip=True, missing={"a": [3]}), "domain.missing-code-is-value"),
        (lambda: Ordered(0, 3, missing={"a": ["9"]}), "domain.missing-code-reads-as-number"),
        *(
            (lambda text=text: Ordered(0, 3, missing={"a": [text]}), "domain.missing-code-reads-as-number")
            for text in ("inf", "-inf", " Infinity", "nan", "-NaN", "1e5", "1e999", "+9", "1_0", "\u0663")
        ),
        (lambda: Ordered(0, 3, missing={"a": [9.5]}), "domain.missing-code-invalid"),
        (lambda: Ordered(0, 3, missing={"a": [2**53]}), "domain.missing-code-invalid"),
        (lambda: Ordered(0, 3, missing={"a": [True]}), "domain.missing-code-invalid"),
        (lambda: Ordered(0, 3, missing={"a": ["\ud800"]}), "domain.missing-code-invalid"),
        (lambda: Ordered(0, 3, missing={"a": [None]}), "domain.missing-code-invalid"),
        (lambda: Ordered(0, 3, if_missing="gone"), "domain.missing-cell-unknown"),
        (lambda: Ordered(0, 3, missing={"a": [9]}, if_outside="b"), "domain.missing-cell-unknown"),
        (lambda: Ordered(0, 3, missing={"drop": [9]}), "domain.missing-cell-reserved"),
        (lambda: Ordered(0, 3, missing={" ": [9]}), "domain.missing-cell-name-invalid"),
        (lambda: Ordered(0, 3, missing={7: [9]}), "domain.missing-cell-name-invalid"),
        (
            lambda: Ordered(0, 3, missing={"a": ["b"], "b": [9]}),
            "domain.missing-cell-ambiguous",
        ),
        (lambda: Ordered(0, 3, missing={"9": ["N"], "b": [9]}), "domain.missing-cell-ambiguous"),
        (lambda: Ordered(0, 3, missing={"2": [-9]}), "domain.missing-cell-ambiguous"),
        (lambda: Ordered(0, 3, missing={" 02": [-9]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical([1, 2], missing={"1": [-9]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical({1: "a"}, missing={"1": [-9]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical([True, False], missing={"True": ["?"]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical([True, False], missing={"no": ["?"]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical(["f"], missing={"f": ["x"]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical({1: "yes"}, missing={"yes": [9]}), "domain.missing-cell-ambiguous"),
        (lambda: Binned([0], missing={"under 0": [9]}), "domain.missing-cell-ambiguous"),
        (lambda: Categorical(["f"], missing={"a": ["f"]}), "domain.missing-code-is-value"),
        (lambda: Categorical(["f"], missing={"a": [9]}), "domain.missing-code-not-text"),
        (lambda: Categorical([True], missing={"a": [9]}), "domain.missing-code-not-text"),
        (lambda: Categorical([True], missing={"a": ["yes"]}), "domain.missing-code-is-value"),
        (lambda: Ordered(0, 3, missing={"a": [9]}).position("b"), "domain.unknown-value"),
        (lambda: Ordered(0, 3).position(4), "domain.unknown-value"),
        (lambda: Ordered(0, 3).position("1"), "domain.unknown-value"),
        (lambda: Binned([]), "domain.cuts-missing"),
        (lambda: Binned([1, 1]), "domain.cuts-not-increasing"),
        (lambda: Binned([2, 1]), "domain.cuts-not-increasing"),
        (lambda: Binned([math.nan]), "domain.cut-not-finite"),
        (lambda: Binned([10**400]), "domain.cut-not-finite"),
        (lambda: Binned([0, 2**53 + 1]), "domain.number-not-exact"),
        (
            lambda: Binned([-(10**18) + 1, 0]),
            "domain.number-not-exact",
        ),
        (lambda: Amount(0, 9, valid=(0, 2**60 + 1)), "domain.number-not-exact"),
        (lambda: Amount(0, 9, valid=(-(2**60) - 1, 9)), "domain.number-not-exact"),
        (lambda: Binned([True]), "domain.cut-not-finite"),
        (lambda: Binned(["1"]), "domain.cut-not-finite"),
        (lambda: Binned([1]).position(math.inf), "domain.unknown-value"),
        (lambda: Binned([1]).position("x"), "domain.unknown-value"),
        (Domain, "domain.attributes-missing"),
        (lambda: Domain({"": Ordered(0, 1)}), "domain.attribute-name-invalid"),
        (lambda: Domain({'a"b': Ordered(0, 1)}), "domain.attribute-name-invalid"),
        (lambda: Domain({3: Ordered(0, 1)}), "domain.attribute-name-invalid"),
        (lambda: Domain(value=Ordered(0, 1)), "domain.attribute-name-reserved"),
        (lambda: Domain(MOE=Ordered(0, 1)), "domain.attribute-name-reserved"),
        (lambda: Domain(a=Ordered(0, 1), A=Ordered(0, 1)), "domain.attribute-name-repeated"),
        (lambda: Domain({"a": Ordered(0, 1)}, a=Ordered(0, 1)), "domain.attributes-repeated"),
        (lambda: Domain(a=[1, 2]), "domain.not-an-attribute"),
        (lambda: Domain(a=Ordered(0, 1))["b"], "domain.unknown-attribute"),
    ],
)
def test_bad_domains_are_refused(make, message):
    with refused(message):
        make()


@pytest.mark.parametrize("cut", [2**53, -(2**53), 2**60, 10**18, 10**22, 2**53 + 2, 1e300, -1e18])
def test_cuts_are_the_numbers_that_were_given_or_none(cut):
    """Also beyond 2⁵³, where not every whole number is a double."""
    binned = Binned([cut])
    assert binned.cuts == (cut,)
    assert int(binned.cuts[0]) == int(cut)
    assert [binned.cell(x) for x in (cut, int(cut), math.nextafter(float(cut), -math.inf))] == [1, 1, 0]
    assert Amount(0, 9, valid=(min(cut, 0), max(cut, 9))).valid == (min(cut, 0), max(cut, 9))


def test_codes_and_labels_are_found_and_what_has_no_hash_is_neither():
    labelled = Categorical({"a": "a", "b": "e", "c": "d"})
    assert [labelled.position(x) for x in "abced"] == [0, 1, 2, 1, 2]
    assert Categorical([0, 1]).position(np.int64(1)) == Categorical([0, 1]).position(1.0) == 1
    for value in (["a"], {}, None, float("nan")):
        with refused("domain.unknown-value"):
            labelled.position(value)
    for number, flag in ((Categorical([0, 1]), True), (Categorical([False, True]), 1)):
        with refused("domain.unknown-value"):
            number.position(flag)


@pytest.mark.parametrize("codes", [{"a": "b", "b": "a"}, {"a": "b", "b": "c"}, {"x": "y", "y": "z", "z": "x"}])
def test_no_value_has_the_code_of_another_as_its_label(codes):
    """A row "b" of the table would count the records with "a", and a question for "b" those with "b"."""
    with refused("domain.label-of-another-code"):
        Categorical(codes)
    assert Categorical({code: f"{code}!" for code in codes}).size == len(codes)


@pytest.mark.no_cover
def test_many_codes_are_found_at_once():
    """10^5 codes, each looked up: no walk through all of them for each (that would be 10^10 comparisons)."""
    many = Categorical(range(10**5))
    assert [many.position(i) for i in range(10**5)] == [many.cell(str(i)) for i in range(10**5)] == list(range(10**5))


# --- lookups ---------------------------------------------------------------------------------------------------------


def test_a_lookup_is_the_same_however_it_is_written(tmp_path):
    regions = fn.Categorical({"w": "West", "e": "East"}, lookup={"2000": "w", "1000": "e", "0": "w"})
    assert regions.lookup == (("0", "w"), ("1000", "e"), ("2000", "w"))
    assert [regions.cell(x) for x in ("2000", 2000, "1000", "00", "w", None)] == [0, 0, 1, None, None, None]
    assert (regions.size, regions.values, regions.position("East")) == (2, ("West", "East"), 1)
    pairs = fn.Categorical({"w": "West", "e": "East"}, lookup=[("1000", "e"), ("0", "w"), ("2000", "w")])
    assert (pairs, hash(pairs), attribute_document(pairs)) == (regions, hash(regions), attribute_document(regions))
    assert regions != fn.Categorical({"w": "West", "e": "East"}, lookup={"2000": "e", "1000": "e", "0": "w"})
    one, other = (axis_key(fn.Domain(a=a).axes, "a") for a in (regions, fn.Categorical({"w": "West", "e": "East"})))
    assert one != other  # the same codes, and other cells: prices of two releases are added up by this
    assert "lookup" not in attribute_document(fn.Categorical(["w", "e"]))
    file = tmp_path / "regions.csv"
    file.write_text("value,code,name\n1000,e,x\n02000,w,y\n", encoding="utf-8-sig")
    assert fn.Categorical(["w", "e"], lookup=file).lookup == (("02000", "w"), ("1000", "e"))
    file.write_text("code,value\ntrue,3\nfalse,20\ntrue,1\n", encoding="utf-8")
    assert fn.Categorical([True, False], lookup=str(file)).lookup == ((1, True), (3, True), (20, False))
    file.write_text("value,code\n3,7\n", encoding="utf-8")
    assert fn.Categorical([7], lookup=file).lookup == ((3, 7),)
    season = fn.Categorical(
        ["cold", "warm"], date_part="month", lookup=[(m, "warm" if 4 < m < 10 else "cold") for m in range(1, 13)]
    )
    assert [season.cell(f"2020-{m:02}-11") for m in (4, 5)] == [0, 1]


@pytest.mark.parametrize(
    ("lookup", "code"),
    [
        ({}, "domain.lookup-invalid"),
        (7, "domain.lookup-invalid"),
        ([], "domain.lookup-invalid"),
        (["1w", "2e"], "domain.lookup-invalid"),
        ([("1", "w", "e")], "domain.lookup-invalid"),
        ({"1": None, "2": "e"}, "domain.lookup-invalid"),
        ({"1": ["w"], "2": "e"}, "domain.lookup-invalid"),
        ([("1", "w"), ("1", "e")], "domain.lookup-values-invalid"),
        ({"1": "w", 2: "e"}, "domain.lookup-values-invalid"),
        ({1.5: "w", 2: "e"}, "domain.lookup-values-invalid"),
        ({"1": "w", "2": "E"}, "domain.lookup-codes-unknown"),
        ({"1": "w", "2": "e", "3": 1}, "domain.lookup-codes-unknown"),
        ({"1": "w"}, "domain.lookup-codes-unused"),
    ],
)
def test_what_is_no_lookup_is_refused(lookup, code):
    with refused(code):
        fn.Categorical(["w", "e"], lookup=lookup)


def test_files_that_hold_no_lookup_are_refused(tmp_path):
    file = tmp_path / "lookup.csv"
    for text in ("", "value\n1\n", "code\nw\n"):
        file.write_text(text, encoding="utf-8")
        with refused("domain.lookup-file-columns"):
            fn.Categorical(["w"], lookup=file)
    file.write_text("value,code\n1,w\n2\n", encoding="utf-8")
    with refused("domain.lookup-invalid"):
        fn.Categorical(["w"], lookup=file)
    with refused("domain.csv-file-unreadable"):
        fn.Categorical(["w"], lookup=tmp_path / "gone.csv")
    with refused("domain.missing-code-is-value"):
        fn.Categorical(["w"], lookup={"1": "w"}, missing={"gone": ["1"]})


def test_an_array_of_counts_has_cells_and_not_what_they_are_looked_up_from():
    domain = fn.Domain(
        region=fn.Categorical(["w", "e"], lookup={"1": "w", "2": "e", "3": "w"}),
        geo=fn.Hierarchy(["state", "town"], [("n", "a"), ("n", "b"), ("s", "c")]),
    )
    counts = np.arange(6).reshape(2, 3)
    tallies = HistogramCounter(counts, domain.axes).count([("region", "state"), ("region", "town")])
    assert tallies["region", "state"].tolist() == [[1, 2], [7, 5]]
    assert tallies["region", "town"].tolist() == counts.tolist()
