"""The report's sections on a small database: its measurement and estimate, its values, and the compared settings."""

from __future__ import annotations

from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection.simulation import SettingChoice
from fitnoise.messages import Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.request.publication import Setting, SmallDatabase, Variant
from fitnoise.solving.certificates import Certificate

BIASED = (
    "biased_value: biased towards what a database of the declared size can give, counts of one synthetic histogram; "
    "simulated_rmse: its root mean squared error on public histograms, the largest over their kinds, a guide and no "
    "promise; unbiased_value, std_error, moe: unbiased estimates from the same noisy answers, which may be negative "
    "and are not rounded"
)
"""The description of the values of tables."""

PRINTED = (
    "biased_value: biased towards what a database of the declared size can give as in Algorithm 1 of Nikolov (2015), "
    "and may be negative; simulated_rmse: its root mean squared error on public histograms, the largest over their "
    "kinds, a guide and no promise; unbiased_value, std_error, moe: unbiased estimates from the same noisy answers, "
    "which may be negative and are not rounded"
)


def values(small: SmallDatabase) -> str:
    """Return the description of the values of tables."""
    return PRINTED if small.variant is Variant.PAPER else BIASED


def database(small: SmallDatabase, setting: Setting) -> Section:
    """Return the section on the measurement and the estimate of a small database."""
    estimate = (
        "an entropic estimate of one histogram" if setting.temperature else "the nearest answers of one histogram"
    )
    if small.variant is Variant.PAPER:
        estimate = "Algorithm 1 of the paper as printed"
    limit = "exactly" if small.region is Region.EXACTLY else "at most"
    return Section(
        "database",
        (
            "{limit} {size} records: {estimate}, from noise of index {index}",
            "margins above are of unbiased values",
        ),
        (
            *_setting_values(setting),
            Value("size", small.size, ValueKind.COUNT, spoken=True),
            Value("limit", limit, ValueKind.WORDS, spoken=True),
            Value("estimate", estimate, ValueKind.WORDS, spoken=True),
        ),
        place=("setting",),
    )


def proof(certificate: Certificate, setting: Setting) -> Section:
    """Return the section on the sum of the largest variances, and on its bound for any noise."""
    sentence = (
        "the {index} largest variances sum to {value} people² at sensitivity 1 ≥ bound {bound}: no noise has less by "
        "more than {gap}"
    )
    return Section(
        "proof",
        (sentence,),
        (
            Value("value", certificate.value, ValueKind.OPTIMUM),
            Value("bound", certificate.bound, ValueKind.OPTIMUM),
            Value("gap", certificate.gap, ValueKind.GAP),
            Value("index", setting.index, ValueKind.COUNT, spoken=True),
        ),
    )


def chosen(setting: Setting) -> Section:
    """Return the section with the setting only."""
    return Section("", values=_setting_values(setting), place=("setting",))


def tried(choice: SettingChoice | None) -> Section:
    """Return the section with every simulated setting; an empty list for a given setting."""
    if choice is None:
        return Section("", values=(Value("settings", []),))
    return Section("", tables=(choice.compared(),))


def explained(choice: SettingChoice | None, status: str) -> Section:
    """Return the section on the columns of the comparison and on the choice."""
    columns = (
        "mean squared errors per number in people², on public histograms; plain: before projection; bounds: proven; "
        "k: how many of the largest variances of the noise have the least sum; t: how many of these are above the rest"
    )
    sentences = ("{status}",) if choice is None else (columns, "{status}")
    return Section("", sentences, (Value("status", status),))


def _setting_values(setting: Setting) -> tuple[Value, ...]:
    temperature = Value("temperature", setting.temperature, ValueKind.NUMBER)
    return Value("index", setting.index, ValueKind.COUNT), temperature
