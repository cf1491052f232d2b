"""The report's sections on Gaussian noise on tables: the cost of a record, and the bound for all such mechanisms."""

from __future__ import annotations

from collections.abc import Iterator

from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.units import Neighbours, PrivacyUnit
from fitnoise.messages import Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.request.publication import Publication
from fitnoise.solving.certificates import Certificate

EQUAL_COST_TOLERANCE = 1e-6
"""Relative amount by which the cost of a cell must fall below the largest cost to count as slack."""


def profile(prices: Floats, slack: Floats, unit: PrivacyUnit, *, for_people: bool, equal_cost_text: str) -> Section:
    """Return the section on the cost of one record by its cell: Δ² as a value, and ρ in the text.

    Under replace-one neighbours pairs have costs, so cells have none. If records of one unit keep to a pattern, no
    single cell determines the cost of several records, and the text is left out. `for_people`: True to include the
    text. equal_cost_text: The statement for a profile in which all cells have the same cost.
    """
    if unit.neighbours is Neighbours.REPLACE_ONE:
        return Section("profile", values=(Value("profile", None),))
    lowest, highest = float(prices.min()), float(prices.max())
    less, half = int((slack > EQUAL_COST_TOLERANCE * highest).sum()), unit.cost_factor() / 2
    sentence = equal_cost_text
    if less:
        sentence = (
            "rho from {low} to {high} by the cell of a record; {cells_with_slack} of {cells} cells pay less than the "
            "dearest"
        )
    values = (
        Value("lowest", lowest, ValueKind.OPTIMUM),
        Value("highest", highest, ValueKind.OPTIMUM),
        Value("cells_with_slack", less, ValueKind.COUNT),
        Value("low", lowest * half, ValueKind.COST, spoken=True),
        Value("high", highest * half, ValueKind.COST, spoken=True),
        Value("cells", len(prices), ValueKind.COUNT, spoken=True),
    )
    for_people = for_people and not unit.pattern
    return Section("profile", (sentence,) if for_people else (), values, place=("profile",))


def proof(
    publication: Publication, certificate: Certificate, cost: float, max_cost: float, error: float | None
) -> Iterator[Section]:
    """Yield the sections on the objective, its value, and its bound.

    publication: The requested publication. certificate: The value and its bound. cost: Δ², relative to cell budgets if
    there are any. max_cost: Δ². error: The total of all variances, for a hybrid objective.
    """
    objective, budgets = publication.objective, publication.cell_budgets
    value = Value("value", certificate.value, ValueKind.OPTIMUM)
    cost_value = Value("cost", cost, ValueKind.OPTIMUM, spoken=True)
    what = "cost" if budgets is None else "cost relative to budgets"
    if budgets is not None:
        sentence = "by {attributes}: a cell pays at most {least} to 1 times {cost}; the dearest pays {dearest}"
        limits = (
            Value("attributes", budgets.attributes, spoken=True),
            Value("least", min(budgets.values), ValueKind.NUMBER, spoken=True),
            Value("dearest", max_cost, ValueKind.OPTIMUM, spoken=True),
        )
        yield Section("budgets", (sentence,), (*limits, cost_value))
    if error is not None:
        weighed = (
            Value("total_error_weight", objective.total_error_weight, ValueKind.NUMBER, spoken=True),
            Value("error", error, ValueKind.NUMBER, spoken=True),
            Value("weights", objective.weights.value, ValueKind.WORDS, spoken=True),
            Value("what", what, ValueKind.WORDS, spoken=True),
        )
        sentence = (
            "value {value} = {what} {cost} + {total_error_weight} × {error}, "
            "the total of all variances ({weights} weights)"
        )
        yield Section("hybrid", (sentence,), (*weighed, value, cost_value))
    yield Section(
        "proof",
        ("{what} {value} ≥ bound {bound}: no mechanism of its kind can be {less} by more than {gap}",),
        (
            value,
            Value("bound", certificate.bound, ValueKind.OPTIMUM),
            Value("gap", certificate.gap, ValueKind.GAP),
            Value("what", what if error is None else "value", ValueKind.WORDS, spoken=True),
            Value("less", "cheaper" if error is None else "better", ValueKind.WORDS, spoken=True),
        ),
    )


def unbiased(minimum: float, rho: float, *, hybrid: bool) -> Section:
    """Return the section on the least ρ of any unbiased mechanism. rho: The ρ of the plan."""
    sentence = (
        "no unbiased mechanism, linear or not, has these accuracies below rho = {least}; this one takes {more} more"
    )
    if hybrid:
        sentence = (
            "no unbiased mechanism, linear or not, has these accuracies and no larger total of all variances below "
            "rho = {least}; this one takes {more} more"
        )
    values = (
        Value("unbiased_bound", minimum),
        Value("least", minimum, ValueKind.COST, spoken=True),
        Value("more", rho / minimum - 1 if minimum else None, ValueKind.SHARE, spoken=True),
    )
    return Section("unbiased", (sentence,) if minimum else (), values)
