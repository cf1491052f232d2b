"""A release as a record of the registry of deployments of differential privacy, tier 3 of its schema.

The release gives most fields. The table [record] of a file (:class:`fitnoise.request.record.RecordSpec`) gives the
fields that only people know. Missing fields are marked "to be filled" in the file.

Source: the schema of opendp/deployments-registry-data at commit 3e9c812a924c (docs/registry.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.units import Neighbours, PrivacyUnit
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import english, rule_messages
from fitnoise.planning import protection
from fitnoise.planning.plan import Plan
from fitnoise.reading.description import (
    condition_messages,
    describe,
    describe_enforcement,
    public_totals,
    summarised_parts,
    universe,
)
from fitnoise.reading.release import Release
from fitnoise.request.attributes import Amount
from fitnoise.request.domain import Domain
from fitnoise.request.record import RecordSpec

MAX_FRACTION_DIGITS = 60
"""The largest number of characters of a fraction that is written out, its sign of division included."""


def registry_record(release: Release, record_spec: RecordSpec | None = None) -> dict[str, Any]:
    """Return all fields of the record, in the order of the schema; None where a text is missing.

    Args:
        release: The release to describe.
        record_spec: The statements of people.

    **Guarantees**
        * no field depends on the data or on the noisy answers;
        * ε, δ and ρ are the numbers in release.json, rounded up.
    """
    plan, texts = release.plan, record_spec or RecordSpec()  # without statements of people, their fields are None
    # without names of tables: they change only the list of written files, which no field of the record has
    publication, description = plan.publication, describe(plan, [], release.entry)
    unit, domain, pure = publication.unit, publication.domain, "pure_epsilon" in description["charge"]
    declared = ", ".join(f"{name} ({_declared(domain, name)})" for name in domain)
    title = publication.title or None
    return {
        "url_slug": texts.url_slug or (title and re.sub(r"[\W_]+", "-", title.lower()).strip("-")),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": texts.data_curators,
                "intended_use": texts.intended_use,
                "data_product_type": "Summary statistics",
                "data_product_region": texts.data_product_region,
                "description": texts.description,
                "publication_date": texts.publication_date and texts.publication_date.isoformat(),
                "data_product_sector": texts.data_product_sector,
            },
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Zero-concentrated DP",
                "data_domain": f"Any records with values, declared in public, of {declared}",
                "unprotected_quantities": _unprotected(plan),
            },
            "privacy_loss": {
                "privacy_unit": unit.name,
                "privacy_unit_details": ". ".join(_neighbours(plan, unit)),
                "privacy_parameters": _parameters(description["charge"]),
                "privacy_parameters_details": ". ".join(_details(plan, description["charge"])),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": texts.actors,
                "release_type": _released(plan),
                "data_source_type": "Static" if publication.series is None else "Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "; ".join(dict.fromkeys(map(_post_processing, plan.groups)))
                or "Answers are read as the likeliest result",
                "composition": ". ".join(_composition(release)),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": ". ".join(_before(plan, description)),
                "mechanisms": ". ".join(_mechanisms(plan, description)),
                "justification": texts.justification,
            },
            "administrative": {"sources": texts.sources, "registry_authors": texts.registry_authors},
        },
    }


def _declared(domain: Domain, name: str) -> str:
    """Return the declared values of an attribute: their number; for an amount its range, whose ends are its cells."""
    attribute = domain[name]
    if not isinstance(attribute, Amount):
        return f"{domain.sizes[name]:,} cells"
    if attribute.range_attribute is not None:
        return ", or ".join([english(*rule_messages(attribute.coding_rules)), *attribute.missing_cells])
    range_text = f"{attribute.low:,} to {attribute.high:,} in steps of {attribute.step:,}"
    return ", or ".join([range_text, *attribute.missing_cells])


def _unprotected(plan: Plan) -> str:
    """Return the published numbers without noise: the number of records, and public totals."""
    is_revealed = plan.order.fixes_size and plan.publication.public_attributes != ()
    numbers = ["The number of records"] if is_revealed else []
    return "; ".join([*numbers, *map(english, public_totals(plan))]) or "None"


def _released(plan: Plan) -> str:
    """Return the frequency of releases of the plan."""
    if plan.publication.series is None:
        return "One release"
    series, last = plan if plan.full_series is None else plan.full_series, plan.periods[-1]
    return f"A series of {len(series.periods)} releases by {plan.publication.series}, here until {last}"


def _neighbours(plan: Plan, unit: PrivacyUnit) -> Iterator[str]:
    yield unit.describe()
    replaces = unit.neighbours is Neighbours.REPLACE_ONE
    how = f"in what the records of one {unit.name} say" if replaces else f"in whether one {unit.name} is there at all"
    how += f" besides {' and '.join(unit.within)}" if unit.within else ""
    yield f"Two data sets are adjacent if they differ {how}"
    for message in describe_enforcement(plan, unit):
        text = english(message)
        yield f"{text[0].upper()}{text[1:]}"
    for other, loss in plan.other_losses:
        yield f"For {other.describe()}, rho is {float(loss.rho):.6g}"


def _parameters(charge: dict[str, Any]) -> dict[str, float]:
    if "pure_epsilon" in charge:
        return {"epsilon": charge["epsilon"]}
    return {"rho": rounded_up(Fraction(charge["rho"])), "epsilon": charge["epsilon"], "delta": charge["delta"]}


def _details(plan: Plan, charge: dict[str, Any]) -> Iterator[str]:
    pure = "pure_epsilon" in charge
    name, exact = ("epsilon", charge["pure_epsilon"]) if pure else ("rho", charge["rho"])
    fraction = f"{exact}, a fraction" if len(exact) <= MAX_FRACTION_DIGITS else "a fraction, here rounded up"
    yield f"{name} is exact: {fraction}, computed from the integers that were measured"
    if not pure:
        yield (
            f"epsilon at delta = {charge['delta']:g} follows by the exact curve of Gaussian noise, or the conversion "
            "of rho-zCDP, whichever is less; both are proven for the discrete noise that was drawn"
        )
    yield from map(english, protection.warnings(plan))


def _post_processing(part: TablePart) -> str:
    return (
        "Tables that are planned together are rebuilt from the noisy answers so that they agree "
        "wherever they show the same attributes: "
        f"{english(*part.descriptions.describe_bias())}"
    )


def _composition(release: Release) -> Iterator[str]:
    publication = release.plan.publication
    yield "All tables and answers of the release are priced together, for the unit with the highest cost"
    entry = "" if release.entry is None else f", here as entry {release.entry.sequence}"
    yield f"What releases about the same units cost adds up in a ledger, a chain of entries by hashes{entry}"
    if publication.series is not None:
        yield "All releases of the series are priced as one and charged at the first of them; the others add nothing"
    if publication.composed_with:
        yield f"It is composed with releases on the same records, of the plans {', '.join(publication.composed_with)}"


def _before(plan: Plan, description: dict[str, Any]) -> Iterator[str]:
    yield "No data are read while planning: targets, domain and unit are declared in public"
    for conditions in condition_messages(plan).values():
        yield f"Counted are records of which {' and '.join(map(english, conditions))}"
    if "left_out" in description:
        yield f"Records without a declared value are left out by {', '.join(description['left_out'])}"
    uncounted = {
        f"{name} {', '.join(values)}"
        for table in description["tables"]
        for name, values in table.get("not_counted", {}).items()
    }
    if uncounted:
        yield f"Some tables do not count all values: {'; '.join(sorted(uncounted))}"
    domain = plan.publication.workload.domain
    coded = {a: x for _, part in summarised_parts(plan) for a, x in universe(part, domain).get("coded", {}).items()}
    if coded:
        yield f"Values are coded: {'; '.join(f'{a} {english(*rules)}' for a, rules in coded.items())}"


def _mechanisms(plan: Plan, description: dict[str, Any]) -> Iterator[str]:
    for part in plan.groups:
        noise = english(part.descriptions.describe_noise()["noise"])
        gap_text = english(part.descriptions.describe_gap())
        yield f"Tables by {part.mechanism.name}: {noise}, with a proof of how near the least cost it is ({gap_text})"
    for s in (q.summary for q in plan.questions):
        yield f"A {s.question} by {s.family}, of exact chances, pure epsilon {s.epsilon:.6g}"
    yield (
        "Noise is drawn exactly, in integers, from the random bytes of the operating system: no floating-point number "
        "touches a count before the noise does, and there is no seed"
    )
    versions = ", ".join(f"{name} {version}" for name, version in description["versions"].items())
    yield f"{versions}; plan SHA-256 {plan.hash}"


# --- as a file ----------------------------------------------------------------------------------------------------


def filled(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record without its missing fields."""
    fields = {key: filled(value) if isinstance(value, dict) else value for key, value in record.items()}
    return {key: value for key, value in fields.items() if value is not None}


def missing(record: dict[str, Any]) -> list[str]:
    """Return the fields that are to be filled."""
    inner = [missing(value) if isinstance(value, dict) else [key] * (value is None) for key, value in record.items()]
    return [key for keys in inner for key in keys]


def as_yaml(record: dict[str, Any]) -> str:
    """Return the record as YAML, with texts as in JSON; a missing field is a comment in its place."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: dict[str, Any], depth: int = 0) -> Iterator[str]:
    space = "  " * depth
    for key, value in record.items():
        if isinstance(value, dict):
            yield f"{space}{key}:"
            yield from _lines(value, depth + 1)
        elif value is None:
            yield f"{space}# {key}: to be filled"
        else:
            text = json.dumps(value, ensure_ascii=False)
            number = isinstance(value, float) and "." not in text  # 1e-06, which YAML 1.1 takes for a text
            yield f"{space}{key}: {text.replace('e', '.0e') if number else text}"
