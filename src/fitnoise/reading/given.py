"""Estimates from a release and rules about cells in which no record can be. Post-processing only."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fitnoise.errors import ReleaseError, advise_name
from fitnoise.planning.files import read_text
from fitnoise.reading.combining import Combination
from fitnoise.reading.impossible_cells import without_rule
from fitnoise.reading.layouts import releases
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.reading.release import Release
from fitnoise.request.arguments import checked
from fitnoise.request.spec_errors import not_toml


@checked(ReleaseError, UNCOMPUTED)
def given(release: Release | Combination, impossible: Sequence[Mapping[str, Any]]) -> Combination:
    """Estimate the tables of a release with rules about cells in which no record can be. Measures and charges nothing.

    **The estimates are right only if no record in an impossible cell was counted.** The publisher confirms this;
    fitnoise cannot prove it. It refuses rules that the published numbers contradict. State only what law or definition
    excludes. A rule that someone reads off the data reveals something about persons, and no noise protects them.

    Args:
        release: A release with tables, or a combination of releases. The rules of a combination remain.
        impossible: The rules. Each names values of two or more attributes, and no record has all of these together. The
            values of an attribute are one value, a list of texts, {"values": […]}, or bounds such as {"at_most": 14},
            as in `where` of a specification. The name of a cell for missing values is a value; bounds never include
            such a cell. Of a hierarchy, a rule names places of one level.

    Returns:
        Tables by name, and answers to questions, as :func:`combine` returns them. A number that only records in
        impossible cells could add to is 0 ± 0. All other numbers are as accurate as before, or more accurate. If no
        number is more accurate, `assumptions` says so.

    Raises:
        ReleaseError: There is no rule, or a rule has another form. Or a rule has an unknown attribute or value, an
            amount, one attribute alone, or two levels of one hierarchy. Or bounds cut through a cell or contain no
            cell. Or no cell is possible, or the attributes of the rules have more than 4,194,304 joint cells. Or the
            published numbers contradict the rules. Or as for :func:`combine`.

    **Guarantees**
        * If no record in an impossible cell was counted, every value except a mean is unbiased. It has the least
          variance of all linear unbiased combinations of the published numbers and these zeros.
        * Right rules are refused with a probability of at most 1/1,000. The proof assumes only independent discrete
          noises of the stated scales (:mod:`fitnoise.reading.contradictions`). A false rule is refused if one number,
          or all numbers jointly, change by far more than their noise. A false rule about few records passes.
        * The other guarantees are those of :class:`Combination`.

    Example:
        `fn.given(release, impossible=[{"age": {"at_most": 14}, "marital": ["married", "widowed"]}])`
    """
    if not impossible:
        raise without_rule()
    return Combination(releases(release), (*release.impossible, *impossible))


def load_rules(path: Path) -> list[Mapping[str, Any]]:
    """Return the rules about impossible cells in a TOML file: its tables [[impossible]].

    Raises:
        ReleaseError: The file cannot be read, or has no such tables, or something else.
        SpecError: The file is not in TOML.
    """
    text = read_text(path)
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise not_toml(f"The file {path.name!r}", text, error, UNCOMPUTED) from None
    other_keys = [key for key in document if key != "impossible"]
    if other_keys:
        raise ReleaseError(
            "impossible-unknown-key",
            f"The file {path.name!r} has the key {other_keys[0]!r}.",
            "A file of rules has one table [[impossible]] for each rule, and nothing else.",
            advise_name(other_keys[0], ["impossible"], "Remove this key, or write it below [[impossible]]."),
            UNCOMPUTED,
            place=other_keys[0],
        )
    rules = document.get("impossible")
    if not isinstance(rules, list) or not rules:
        raise ReleaseError(
            "impossible-not-in-file",
            f"The file {path.name!r} has no table [[impossible]].",
            "It needs one such table for each rule.",
            "Write [[impossible]] in a line of its own, and the conditions of a rule below it.",
            UNCOMPUTED,
            place="impossible",
        )
    return rules
