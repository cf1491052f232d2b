"""A starter specification from the names of its attributes: it marks the facts to state, and guesses none."""

from __future__ import annotations

from collections.abc import Mapping

import tomli_w

from fitnoise.request.attributes import FILL_IN_MARK, KINDS, Ordered
from fitnoise.request.domain import Domain

_TOP = """\
# Who is protected, which tables are published, and how accurate each must be.
# Say what is marked "fill in", without the "#" before it. Take it from what is publicly known, such as a questionnaire
# or a code book, never from the data: which values occur is something that data about people must not reveal.
# Then: fitnoise plan spec.toml. All keys: fitnoise new --schema.
"""

_TEXTS = {
    "title": ('"People"', 'shown in reports; in several languages { en = "People", fr = "Population" }'),
    "language": ('"en"', "of title, labels and names; a tag, such as fr or de"),
}

_METADATA = {
    "description": ('"All residents."', "statements for catalogues, each as one text or by language"),
    "publisher": ('"Statistical Office"', "the office that publishes"),
    "period": ('"2026"', "a year, 2026-Q1, 2026-03 or a day"),
    "keywords": ('["population"]', "a list"),
    "licence": ('"CC-BY-4.0"', "an id of SPDX, or a URL"),
}

_UNIT = {
    "data": {
        "source": ('"survey-2026"', "the name of the data, by which a ledger sums what they cost"),
        "account": ('"people"', "the name under which it sums several sources about the same people"),
        "table": ('"census.people"', "of a database or a DuckDB file; the sheet of an Excel file"),
        "outside_domain": (
            '"drop"',
            "leave records out that have undeclared values; without it they are refused",
        ),
    },
    "privacy": {
        "unit": ('"person"', "what is protected, and called so in every report"),
        "id": ('"person_id"', "the column that says whose a record is, where one unit may have several"),
        "max_records": ("1", "how many records of one unit are counted at most"),
        "cap": ("{ rho = 0.05 }", "refuse a plan that costs more"),
    },
}

_COLUMN = {"column": ('"COLUMN"', "of the data, where it has another name")}

_TARGET = {
    "margin": ("15", FILL_IN_MARK + "every number is to be within 15 of the truth, as often as the confidence says"),
}

_SUM = {"margin": ("5_000_000", FILL_IN_MARK + "in units of the amount")}

_FIRST_RELEASE = """\
# Where no public source gives a number, ask for it first, in a specification with [data] and [privacy] as above and no
# tables. Each answer costs its epsilon: 0.1 costs rho = 0.005. Before you spend anything, add up all costs:
# fitnoise ledger show budget.sqlite --plan first.json --plan plan.json
"""

_QUANTILE = """\
# {header}  # the ranges among which a high is chosen, from what is publicly known
# type = "binned"
# column = {column}
# cuts = [10_000, 20_000, 50_000, 100_000, 200_000, 500_000]

# [[questions]]  # the range that 99 in 100 records do not exceed
# name = {question}
# query = "quantile"
# attribute = {attribute}
# quantile = 0.99
# people = 100_000
# epsilon = 0.1
"""

_LEFT_OUT = """\
# [[questions]]  # how many units have more than max_records records; needs an id and an attribute
# name = "units with more"
# query = "left_out"
# people = 100_000
# epsilon = 0.1"""

_RULE = """\
# [[impossible]]  # values that law or definition excludes together; no combination that only the data lack
# {first} = "VALUE"
# {second} = "VALUE"
"""

_PUBLIC = """\
# [[public]]  # totals that are public before the release, without noise; `fitnoise release --public` reads their file
# by = [{first}]
# source = "Population register, 1 January 2026, table 3"
"""

_QUESTION = """\
# [[questions]]  # with or without tables: one answer of finitely many, for an epsilon of its own
# name = "how many"
# query = "count"
# people = 1000
# epsilon = 0.1"""


def begun(attributes: Mapping[str, str]) -> str:
    """Return a starter specification, as TOML with comments.

    Args:
        attributes: The type of each attribute, a key of KINDS, by name.

    Raises:
        DomainError: There is no attribute, or one cannot have its name.
        KeyError: A type is no key of KINDS.

    **Guarantees**
        * With the marked keys (:data:`FILL_IN_MARK`) set to the examples in their comments, the specification can be
          planned; a hierarchy needs its file.
        * Without one of these keys, it is refused.
    """
    Domain({name: Ordered(0, 1) for name in attributes})  # for the checks of the names alone
    lines = [_TOP, *_key_lines(_TEXTS), ""]
    # All keys are commented out but named: a publisher sees what can be stated, and the starter states nothing.
    for table, keys in _UNIT.items():
        lines += [f"[{table}]", *_key_lines(keys), ""]
    lines += ["[accuracy]", "confidence = 0.95  # of every margin", ""]
    lines += ["[metadata]", *_key_lines(_METADATA), ""]
    for name, kind in attributes.items():
        section = KINDS[kind]
        lines += [
            _header(name),
            f'type = "{kind}"  # {section.meaning}',
            *_key_lines({**section.starter_keys, **_COLUMN}),
            "",
        ]
    # An amount has no table by value, so it is left out here and summed below.
    by_value = [name for name, kind in attributes.items() if not KINDS[kind].is_summed]
    quoted_names = [_quoted(name) for name in by_value]
    if quoted_names:
        lines += ["[[tables]]", 'pattern = "singles"  # a table for each attribute', *_key_lines(_TARGET), ""]
    for name in (name for name, kind in attributes.items() if KINDS[kind].is_summed):
        lines += [
            "[[tables]]",
            f"sum = {_quoted(name)}  # of all records; of groups with attributes",
            *_key_lines(_SUM),
            "",
        ]
    if len(quoted_names) > 1:
        lines += ["# [[tables]]", f"# attributes = [{', '.join(quoted_names[:2])}]", "# margin = 30", ""]
    if len(quoted_names) > 1:
        first_key, second_key = (_header(name).removeprefix("[domain.").removesuffix("]") for name in by_value[:2])
        lines.append(_RULE.format(first=first_key, second=second_key))
    if quoted_names:
        lines.append(_PUBLIC.format(first=quoted_names[0]))
    lines += [_QUESTION, "", _FIRST_RELEASE]
    lines += [_quantile_lines(name) for name, kind in attributes.items() if KINDS[kind].is_summed]
    lines.append(_LEFT_OUT)
    return "\n".join(lines) + "\n"


def _quantile_lines(name: str) -> str:
    """Return the commented sections that ask for a quantile of an amount, to choose its range."""
    attribute = f"{name} range"
    return _QUANTILE.format(
        header=_header(attribute),
        column=_quoted(name),
        question=_quoted(f"the {name} of 99 in 100"),
        attribute=_quoted(attribute),
    )


def _header(name: str) -> str:
    """Return the header of the section of an attribute."""
    # tomli_w quotes names that TOML cannot write bare, such as those with spaces.
    return tomli_w.dumps({"domain": {name: {}}}).strip()


def _quoted(name: str) -> str:
    return tomli_w.dumps({"x": name}).removeprefix("x = ").strip()


def _key_lines(keys: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return lines of keys with their examples, commented out, and their meaning."""
    comments = {f"# {key} = {value}": word for key, (value, word) in keys.items()}
    width = max(map(len, comments))
    return [f"{example:{width}}  # {word}" for example, word in comments.items()]
