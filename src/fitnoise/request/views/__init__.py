"""The views of attributes: one file each, and its lines here.

The keys and the schema of a table's specification, the arguments of :func:`fitnoise.table` and of
:func:`fitnoise.all_tables`, documents, headings and descriptions follow from `VIEWS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from fitnoise.request.views._base import Entry as Entry
from fitnoise.request.views._base import KeyedView as KeyedView
from fitnoise.request.views._base import RowOrder as RowOrder
from fitnoise.request.views._base import View as View
from fitnoise.request.views._base import values_by_name as values_by_name
from fitnoise.request.views.average import Average as Average
from fitnoise.request.views.change import Change as Change
from fitnoise.request.views.count import NonMissing as NonMissing
from fitnoise.request.views.cumulative import AtMost as AtMost
from fitnoise.request.views.each_value import EACH as EACH
from fitnoise.request.views.groups import Recode as Recode
from fitnoise.request.views.mean import Mean as Mean
from fitnoise.request.views.ranges import Ranges as Ranges
from fitnoise.request.views.sum import Sum as Sum
from fitnoise.request.views.to_date import ToDate as ToDate

_CLASSES = (AtMost, Ranges, Recode, Change, Average, ToDate, NonMissing, Sum, Mean)

VIEWS: Mapping[str, type[KeyedView]] = MappingProxyType({view.key: view for view in _CLASSES})
"""All views that a specification can name, by key, in the order of their columns in a table."""


class ViewArguments(TypedDict, total=False):
    """The views as arguments, for editors and type checkers."""

    cumulative: str | Sequence[str] | None
    ranges: str | Mapping[str, Literal["all"] | Sequence[tuple[Any, Any]] | None] | None
    groups: Mapping[str, Mapping[str, Any]] | None
    change: str | Mapping[str, int] | None
    average: Mapping[str, int] | None
    to_date: Mapping[str, int] | None
    count: str | Sequence[str] | None
    sum: str | Sequence[str] | None
    mean: str | None
