"""Requests to releases in one line of text give the same as in Python, and nothing else."""

from functools import cache

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.reading import expressions
from fitnoise.reading.expressions import ask
from laws.releases import released
from refused import refused

DOMAIN = fn.Domain({"sex": fn.Categorical(["f", "m"]), "age": fn.Ordered(0, 3), "born in": fn.Categorical(["x", "y"])})
TABLES = [fn.table("sex", cumulative="age", margin=4), fn.table("sex", "born in", margin=3)]


@cache
def releases():
    plan = fn.plan(fn.Workload(DOMAIN, TABLES))
    return tuple(released(plan, np.arange(16).reshape(2, 4, 2) + 40 * k) for k in (1, 2))


def content_of(result):
    frame = result.frame()
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
    ("median('age', sex='f')", (), lambda r, o: r.quantile("age", 0.5, sex="f")),
    ("median('age', {'sex': ['f', 'm']})", ("sex",), lambda r, o: r.quantile("age", 0.5, by="sex")),
    ("quantile('age', [0.1, 0.5])", ("sex",), lambda r, o: r.quantile("age", [0.1, 0.5], by="sex")),
    ("minimum('age')", ("sex",), lambda r, o: r.quantile("age", 0, by="sex")),
    ("other.maximum('age', sex='f')", (), lambda r, o: o.quantile("age", 1, sex="f")),
    ("other.quantile('age', .25, sex='f')", (), lambda r, o: o.quantile("age", 0.25, sex="f")),
    ("mean('age', by='sex') * 12", ("age",), lambda r, o: r.mean("age", by="sex") * 12),
    ("count(sex='f') / count() - other.count(sex='f') / other.count()", ("age",), growth),
    ("(1 + 2) * 3 / 4 * count()", (), lambda r, o: 2.25 * r.count()),
    ("2 - 3 * count(sex='f') / count()", (), lambda r, o: 2 - 3 * r.count(sex="f") / r.count()),
]


@pytest.mark.parametrize(("text", "attributes", "expected_value"), SAME)
def test_an_expression_is_what_python_computes(text, attributes, expected_value):
    result, expected = ask(text, *releases(), by=attributes), expected_value(*releases())
    assert type(result) is type(expected)
    assert {k: pytest.approx(v) for k, v in content_of(result).items()} == content_of(expected)


HOSTILE = [
    ("__import__('os').system('true')", "release.unknown-part-of-expression"),
    ("count.__globals__", "release.unknown-part-of-expression"),
    ("count().__class__", "release.unknown-part-of-expression"),
    ("count()._law", "release.unknown-part-of-expression"),
    ("other.write('x')", "release.unknown-part-of-expression"),
    ("release.count()", "release.unknown-part-of-expression"),
    ("other.other.count()", "release.unknown-part-of-expression"),
    ("(lambda: count())()", "release.unknown-part-of-expression"),
    ("[count() for x in (1, 2)]", "release.unknown-part-of-expression"),
    ("count() if True else count()", "release.unknown-part-of-expression"),
    ("count() < count()", "release.unknown-part-of-expression"),
    ("count()['f']", "release.unknown-part-of-expression"),
    ("f'{count()}'", "release.unknown-part-of-expression"),
    ("(x := count())", "release.unknown-part-of-expression"),
    ("count", "release.unknown-part-of-expression"),
    ("'count()'", "release.unknown-part-of-expression"),
    ("True", "release.unknown-part-of-expression"),
    ("1j * count()", "release.unknown-part-of-expression"),
    ("count() ** 2", "release.unknown-part-of-expression"),
    ("9 ** 9 ** 9 * count()", "release.unknown-part-of-expression"),
    ("count() // 2", "release.unknown-part-of-expression"),
    ("~count()", "release.unknown-part-of-expression"),
    ("count(sex=open('/etc/passwd'))", "release.wrong-value-in-expression"),
    ("count(sex=f)", "release.wrong-value-in-expression"),
    ("count(sex=count())", "release.wrong-value-in-expression"),
    ("count(sex={[]: 1})", "release.wrong-value-in-expression"),
    ("count(**{'sex': 'f'})", "release.repeated-argument"),
    ("count(sex='f', sex='m')", "release.repeated-argument"),
    ("count('f')", "release.argument-without-name"),
    ("count({}, {})", "release.argument-without-name"),
    ("count(*[{}])", "release.wrong-value-in-expression"),
    ("mean()", "release.argument-of-call-missing"),
    ("mean(['age'])", "release.attribute-not-named"),
    ("mean(3)", "release.attribute-not-named"),
    ("quantile('age')", "release.argument-of-call-missing"),
    ("median()", "release.argument-of-call-missing"),
    ("median('age', 0.5)", "release.argument-without-name"),
    ("quantile('age', 0.5, 'f')", "release.argument-without-name"),
    ("quantile('age', 'half')", "release.wrong-quantile"),
    ("quantile(['age'], 0.5)", "release.attribute-not-named"),
    ("quantile('age', 0.5) + 1", ("release.unknown-operation", "release.unknown-part-of-expression")),
    ("quantile('age', 0.5) / count()", ("release.unknown-operation", "release.unknown-part-of-expression")),
    ("-quantile('age', 0.5)", ("release.unknown-operation", "release.unknown-part-of-expression")),
    ("count(by=3)", "release.attribute-not-named"),
    ("count(by=[['sex']])", "release.attribute-not-named"),
    ("count({3: 4})", "release.attribute-not-named"),
    ("count(height=3)", "release.unknown-attribute"),
    ("count(sex=[['f']])", "release.wrong-selection"),
    ("count(sex={'f': 1})", "release.wrong-selection"),
    ("1 + 2", "release.expression-without-estimate"),
    ("count() + 1", "release.number-added-to-estimate"),
    ("1 / count()", "release.number-divided-by-estimate"),
    ("count() * count()", "release.product-of-estimates"),
    ("1 / 0 * count()", "release.number-not-finite"),
    ("1e400 * count()", "release.number-not-finite"),
    ("1_000 * count()", "release.wrong-number-in-expression"),
    ("count() / 0x10", "release.wrong-number-in-expression"),
    ("2j * count()", ("release.unknown-operation", "release.unknown-part-of-expression")),
    ("1e308 * 10 * count()", "release.number-not-finite"),
    (f"1{'0' * 400} * count()", "release.number-not-finite"),
    (f"1{'0' * 5000} * count()", "release.not-an-expression"),
    ("count() / 0", "release.division-by-zero"),
    ("count(", "release.not-an-expression"),
    ("count(); count()", "release.not-an-expression"),
    ("", "release.not-an-expression"),
    ("count()\0", "release.not-an-expression"),
    ("import os", "release.not-an-expression"),
    ("\ud800", "release.not-an-expression"),
    ("(" * 500 + "count()" + ")" * 500, "release.not-an-expression"),
    ("-" * 60 + "count()", "release.expression-too-deep"),
    ("-" * 9000 + "count()", "release.not-an-expression"),
    ("+".join(["count()"] * 1000), "release.expression-too-deep"),
    ("count()" + " " * 10_000, "release.expression-too-long"),
    (f"count(sex={'[' * 100}{']' * 100})", "release.expression-too-deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), HOSTILE, ids=lambda x: x[:30])
def test_all_else_is_refused(text, code):
    with refused(code) as caught:
        ask(text, *releases())
    assert len(str(caught.value)) < 400


def test_another_release_is_named_only_where_there_is_one():
    with refused("release.other-release-missing"):
        ask("other.count() / count()", releases()[0])


def test_no_more_numbers_are_made_than_anybody_reads(monkeypatch):
    monkeypatch.setattr("fitnoise.reading.labelled_numbers.MAX_NUMBERS", 7)
    assert len(ask("count(by='age') / count(by='age')", *releases())) == 4
    with refused("release.too-many-combinations"):
        ask("count(by='age') - count(by='sex')", *releases())


def test_every_documented_call_exists():
    for name in expressions.CALLS:
        assert callable(getattr(fn.Release, expressions.METHODS.get(name, (name, ()))[0]))
