"""The report's sections on a small database: its measurement and estimate, its values, and the compared settings."""

from __future__ import annotations

from collections.abc import Sequence

from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection.simulation import SettingChoice
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.request.publication import Setting, SmallDatabase, Variant
from fitnoise.solving.certificates import Certificate


def values(small: SmallDatabase) -> tuple[Message, ...]:
    """Return the description of the values of tables."""
    printed = small.variant is Variant.PAPER
    return (
        Message("report.values.biased_printed" if printed else "report.values.biased"),
        Message("report.values.simulated"),
        Message("report.values.unbiased_columns"),
    )


def database(small: SmallDatabase, setting: Setting) -> Section:
    """Return the section on the measurement and the estimate of a small database."""
    exactly = small.region is Region.EXACTLY
    size = Value("size", small.size, ValueKind.COUNT)
    nearest = "report.database.entropic" if setting.temperature else "report.database.nearest"
    estimate = "report.database.printed" if small.variant is Variant.PAPER else nearest
    return Section(
        Message("report.section.database"),
        (
            Message("report.database.exactly" if exactly else "report.database.at_most", (size,)),
            Message(estimate, _setting_values(setting)),
            Message("report.database.margins"),
        ),
        _setting_values(setting),
        path=("setting",),
    )


def proof(certificate: Certificate, setting: Setting) -> Section:
    """Return the section on the sum of the largest variances, and on its bound for any noise."""
    proven = (
        Value("objective_value", certificate.value, ValueKind.OPTIMUM),
        Value("bound", certificate.bound, ValueKind.OPTIMUM),
        Value("gap", certificate.gap, ValueKind.GAP),
    )
    index = Value("index", setting.index, ValueKind.COUNT)
    text = "report.proof.largest_variance" if setting.index == 1 else "report.proof.largest_variances"
    return Section(Message("report.section.proof"), (Message(text, (*proven, index)),), proven)


def chosen(setting: Setting) -> Section:
    """Return the section with the setting only."""
    return Section(values=_setting_values(setting), path=("setting",))


def tried(choice: SettingChoice | None) -> Section:
    """Return the section with every simulated setting; an empty list for a given setting."""
    if choice is None:
        return Section(values=(Value("settings", []),))
    return Section(tables=(choice.compared(),))


def explained(choice: SettingChoice | None, status: Sequence[Message]) -> Section:
    """Return the section on the columns of the comparison and on the choice."""
    columns = () if choice is None else tuple(map(Message, _COLUMNS))
    return Section(None, (*columns, *status), (Value("status", status),))


_COLUMNS = (
    "report.settings.errors",
    "report.settings.plain",
    "report.settings.bounds",
    "report.settings.index",
    "report.settings.spikes",
)
"""The meaning of the columns of the comparison."""


def _setting_values(setting: Setting) -> tuple[Value, ...]:
    temperature = Value("temperature", setting.temperature, ValueKind.NUMBER)
    return Value("index", setting.index, ValueKind.COUNT), temperature
