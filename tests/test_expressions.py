"""What is asked of releases in one line of text: the same as in Python, and nothing else."""

from functools import cache

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import ReleaseError
from fitnoise.reading import expressions
from fitnoise.reading.expressions import ask
from laws import released

DOMAIN = fn.Domain({"sex": fn.Categorical(["f", "m"]), "age": fn.Ordered(0, 3), "born in": fn.Categorical(["x", "y"])})
TABLES = [fn.table("sex", prefix="age", margin=4), fn.table("sex", "born in", margin=3)]


@cache
def releases():
    plan = fn.plan(fn.Workload(DOMAIN, TABLES))
    return tuple(released(plan, np.arange(16).reshape(2, 4, 2) + 40 * k) for k in (1, 2))


def shown(found):
    frame = found.frame()
    return frame.to_dict("list")


def growth(r, o):
    return r.count(by="age", sex="f") / r.count(by="age") - o.count(by="age", sex="f") / o.count(by="age")


SAME = [
    ("count()", (), lambda r, o: r.count()),
    (" count ( sex = 'f' )\n", (), lambda r, o: r.count(sex="f")),
    ("count(sex=['f', 'm'], age=(1, 2))", (), lambda r, o: r.count(sex=["f", "m"], age=(1, 2))),
    ("count({'born in': 'x'}, sex='m')", (), lambda r, o: r.count({"born in": "x"}, sex="m")),
    ("count(by=('sex', 'age'))", (), lambda r, o: r.count(by=("sex", "age"))),
    ("count() / count(by='sex')", ("age",), lambda r, o: r.count(by="age") / r.count(by="sex")),
    ("count(age=0) / count()", ("sex",), lambda r, o: r.count(age=0, by="sex") / r.count(by="sex")),
    ("other.count() / count() - 1", ("sex",), lambda r, o: o.count(by="sex") / r.count(by="sex") - 1),
    ("-1000 * (+count(sex='f') / -8.5e1)", (), lambda r, o: -1000 * (r.count(sex="f") / -85)),
    ("count()*2/4 - count(sex='f')", (), lambda r, o: r.count() * 2 / 4 - r.count(sex="f")),
    ("quantile('age', 0.5, {'sex': ['f', 'm']})", ("sex",), lambda r, o: r.quantile("age", 0.5, by="sex")),
    ("other.quantile('age', .25, sex='f')", (), lambda r, o: o.quantile("age", 0.25, sex="f")),
    ("mean('age', by='sex') * 12", ("age",), lambda r, o: r.mean("age", by="sex") * 12),
    ("count(sex='f') / count() - other.count(sex='f') / other.count()", ("age",), growth),
    ("(1 + 2) * 3 / 4 * count()", (), lambda r, o: 2.25 * r.count()),
    ("2 - 3 * count(sex='f') / count()", (), lambda r, o: 2 - 3 * r.count(sex="f") / r.count()),
]


@pytest.mark.parametrize(("text", "by", "wanted"), SAME)
def test_an_expression_is_what_python_computes(text, by, wanted):
    found, expected = ask(text, *releases(), by=by), wanted(*releases())
    assert type(found) is type(expected)
    assert {k: pytest.approx(v) for k, v in shown(found).items()} == shown(expected)


HOSTILE = [
    ("__import__('os').system('true')", "is not known here"),
    ("count.__globals__", "is not known here"),
    ("count().__class__", "is not known here"),
    ("count()._law", "is not known here"),
    ("other.write('x')", "is not known here"),
    ("release.count()", "is not known here"),
    ("other.other.count()", "is not known here"),
    ("(lambda: count())()", "is not known here"),
    ("[count() for x in (1, 2)]", "is not known here"),
    ("count() if True else count()", "is not known here"),
    ("count() < count()", "is not known here"),
    ("count()['f']", "is not known here"),
    ("f'{count()}'", "is not known here"),
    ("(x := count())", "is not known here"),
    ("count", "is not known here"),
    ("'count()'", "is not known here"),
    ("True", "is not known here"),
    ("1j * count()", "is not known here"),
    ("count() ** 2", "is not known here"),
    ("9 ** 9 ** 9 * count()", "is not known here"),
    ("count() // 2", "is not known here"),
    ("~count()", "is not known here"),
    ("count(sex=open('/etc/passwd'))", "is no value; texts are quoted"),
    ("count(sex=f)", "is no value; texts are quoted"),
    ("count(sex=count())", "is no value; texts are quoted"),
    ("count(sex={[]: 1})", "is no value; texts are quoted"),
    ("count(**{'sex': 'f'})", "gives arguments that have no name"),
    ("count(sex='f', sex='m')", "or one twice"),
    ("count('f')", "gives arguments without a name"),
    ("count({}, {})", "gives arguments without a name"),
    ("count(*[{}])", "is no value"),
    ("mean()", "lacks what it is of"),
    ("mean(['age'])", r"by their names; got \['age'\]"),
    ("mean(3)", "by their names; got 3"),
    ("quantile('age')", "lacks what it is of"),
    ("quantile('age', 0.5, 'f')", "gives arguments without a name"),
    ("quantile('age', 'half')", "got 'half'"),
    ("quantile(['age'], 0.5)", r"by their names; got \['age'\]"),
    ("quantile('age', 0.5) + 1", "is not known"),
    ("quantile('age', 0.5) / count()", "is not known"),
    ("-quantile('age', 0.5)", "is not known"),
    ("count(by=3)", "asked for by their names; got 3"),
    ("count(by=[['sex']])", r"asked for by their names; got \['sex'\]"),
    ("count({3: 4})", "asked for by their names; got 3"),
    ("count(height=3)", "no attribute 'height'"),
    ("count(sex=[['f']])", r"\['f'\] is neither a code nor a label"),
    ("count(sex={'f': 1})", "values are named as"),
    ("1 + 2", "asks nothing of the release"),
    ("count() + 1", "added to ratios, not to estimates"),
    ("1 / count()", "turn both ends over"),
    ("count() * count()", "no interval of proven coverage"),
    ("1 / 0 * count()", "'1 / 0' is no finite number"),
    ("1e400 * count()", "is no finite number"),
    ("1_000 * count()", "'1_000' is no number here; write it with digits"),
    ("count() / 0x10", "'0x10' is no number here"),
    ("2j * count()", "is not known"),
    ("1e308 * 10 * count()", "is no finite number"),
    (f"1{'0' * 400} * count()", "is no finite number"),
    (f"1{'0' * 5000} * count()", "is not an expression"),
    ("count() / 0", "not divided by 0"),
    ("count(", "is not an expression"),
    ("count(); count()", "is not an expression"),
    ("", "is not an expression"),
    ("count()\0", "is not an expression"),
    ("import os", "is not an expression"),
    ("\ud800", "is not an expression"),
    ("(" * 500 + "count()" + ")" * 500, "is not an expression"),
    ("-" * 60 + "count()", "nested more than 50 deep"),
    ("-" * 9000 + "count()", "(is not an expression|nested more than 50 deep)"),
    ("+".join(["count()"] * 1000), "nested more than 50 deep"),
    ("count()" + " " * 10_000, "has 10,007 letters"),
    (f"count(sex={'[' * 100}{']' * 100})", "nested more than 50 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), HOSTILE, ids=lambda x: x[:30])
def test_all_else_is_refused(text, words):
    with pytest.raises(ReleaseError, match=words) as told:
        ask(text, *releases())
    assert len(str(told.value)) < 400


def test_another_release_is_named_only_where_there_is_one():
    with pytest.raises(ReleaseError, match=r"'other.count' needs another release"):
        ask("other.count() / count()", releases()[0])


def test_no_more_numbers_are_made_than_anybody_reads(monkeypatch):
    monkeypatch.setattr("fitnoise.reading.estimates.MOST", 7)
    assert len(ask("count(by='age') / count(by='age')", *releases())) == 4
    with pytest.raises(
        ReleaseError, match=r"all with all these are 8 numbers, told apart by \['age', 'sex'\]; at most 7"
    ):
        ask("count(by='age') - count(by='sex')", *releases())


def test_what_may_be_asked_is_there():
    for name in expressions.CALLS:
        assert callable(getattr(fn.Release, name))
