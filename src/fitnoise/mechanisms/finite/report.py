"""The report's sections on the mechanisms for questions with finitely many answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fitnoise.mechanisms.finite.optimal import compared
from fitnoise.mechanisms.finite.selection import ChosenMechanism
from fitnoise.messages import Message, Value
from fitnoise.reporting import Section
from fitnoise.request.finite_queries import FiniteQuery


def choices(questions: Sequence[FiniteQuery], mechanisms: Sequence[ChosenMechanism]) -> Iterator[Section]:
    """Yield the comparison behind the mechanism of each question."""
    if not questions:
        yield Section(values=(Value("finite", []),))
    for i, (question, m) in enumerate(zip(questions, mechanisms, strict=True)):
        name = Value("name", question.name)
        table = compared(m.choice.candidates if m.choice else ())
        reasons = (Message("report.finite.question", (name,)), *m.reasons)
        yield Section(None, reasons, (name, Value("reasons", m.reasons)), (table,), path=("finite", i))
