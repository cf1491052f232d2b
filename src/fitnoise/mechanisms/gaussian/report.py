"""The report's sections on Gaussian noise on tables: the cost of a record, and the bound for all such mechanisms."""

from __future__ import annotations

from collections.abc import Iterator

from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.units import Neighbours, PrivacyUnit
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.request.publication import ErrorWeights, Publication
from fitnoise.solving.certificates import Certificate

EQUAL_COST_TOLERANCE = 1e-6
"""Relative amount by which the cost of a cell must fall below the largest cost to count as slack."""

WEIGHTS = {
    ErrorWeights.UNIFORM: Message("report.weights.uniform"),
    ErrorWeights.INVERSE_VARIANCE: Message("report.weights.inverse_variance"),
    ErrorWeights.INVERSE_STD_ERROR: Message("report.weights.inverse_std_error"),
}
"""The words for the weights of a total of variances."""


def profile(prices: Floats, slack: Floats, unit: PrivacyUnit, *, for_people: bool, equal_cost: Message) -> Section:
    """Return the section on the cost of one record by its cell: Δ² as a value, and ρ in the text.

    Under replace-one neighbours pairs have costs, so cells have none. If records of one unit keep to a pattern, no
    single cell determines the cost of several records, and the text is left out.

    prices: Δ² of a record in each cell.
    slack: The amount by which each of them is below the largest.
    unit: The protected unit, with its neighbours.
    for_people: True to include the text.
    equal_cost: The statement for a profile in which all cells have the same cost.
    """
    title = Message("report.section.profile")
    if unit.neighbours is Neighbours.REPLACE_ONE:
        return Section(title, values=(Value("profile", None),))
    lowest, highest = float(prices.min()), float(prices.max())
    # Rounding makes equal costs differ a little, which is no slack.
    less, half = int((slack > EQUAL_COST_TOLERANCE * highest).sum()), unit.cost_factor() / 2
    cells_with_slack = Value("cells_with_slack", less, ValueKind.COUNT)
    values = (
        Value("lowest", lowest, ValueKind.OPTIMUM),
        Value("highest", highest, ValueKind.OPTIMUM),
        cells_with_slack,
    )
    by_cell = Message(
        "report.profile.by_cell",
        (
            Value("low", lowest * half, ValueKind.COST),
            Value("high", highest * half, ValueKind.COST),
            Value("cells", len(prices), ValueKind.COUNT),
            cells_with_slack,
        ),
    )
    for_people = for_people and not unit.pattern
    messages = (by_cell if less else equal_cost,) if for_people else ()
    return Section(title, messages, values, path=("profile",))


def proof(
    publication: Publication, certificate: Certificate, cost: float, max_cost: float, error: float | None
) -> Iterator[Section]:
    """Yield the sections on the objective, its value, and its bound.

    publication: The requested publication.
    certificate: The value and its bound.
    cost: Δ², relative to cell budgets if there are any.
    max_cost: Δ², the largest cost of a record.
    error: The total of all variances, for a hybrid objective.
    """
    objective, budgets = publication.objective, publication.cell_budgets
    value = Value("objective_value", certificate.value, ValueKind.OPTIMUM)
    cost_value = Value("cost", cost, ValueKind.OPTIMUM)
    if budgets is not None:
        limits = (
            Value("attributes", budgets.attributes),
            Value("least", min(budgets.values), ValueKind.NUMBER),
            Value("largest", max_cost, ValueKind.OPTIMUM),
        )
        yield Section(Message("report.section.budgets"), (Message("report.budgets.shares", (*limits, cost_value)),))
    if error is not None:
        terms = (
            value,
            cost_value,
            Value("total_error_weight", objective.total_error_weight, ValueKind.NUMBER),
            Value("error", error, ValueKind.NUMBER),
            Value("weights", WEIGHTS[objective.weights], ValueKind.MESSAGE),
        )
        text = "report.objective.cost" if budgets is None else "report.objective.relative_cost"
        yield Section(Message("report.section.objective"), (Message(text, terms),), (value,))
    values = (
        value,
        Value("bound", certificate.bound, ValueKind.OPTIMUM),
        Value("gap", certificate.gap, ValueKind.GAP),
    )
    bound = "report.proof.cost" if budgets is None else "report.proof.relative_cost"
    text = bound if error is None else "report.proof.objective"
    yield Section(Message("report.section.proof"), (Message(text, values),), values)
