"""Kinds of attributes as specifications write them: one file each, and its lines here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, get_args

from pydantic import Field

from fitnoise.request.attributes._base import CODE as CODE
from fitnoise.request.attributes._base import FILL_IN_MARK as FILL_IN_MARK
from fitnoise.request.attributes._base import FROM as FROM
from fitnoise.request.attributes._base import NAME as NAME
from fitnoise.request.attributes._base import TO as TO
from fitnoise.request.attributes._base import Attribute as Attribute
from fitnoise.request.attributes._base import AttributeSection as AttributeSection
from fitnoise.request.attributes._base import CodingRule as CodingRule
from fitnoise.request.attributes._base import attribute_document as attribute_document
from fitnoise.request.attributes.amount import Amount as Amount
from fitnoise.request.attributes.amount import AmountSpec as AmountSpec
from fitnoise.request.attributes.binned import Binned as Binned
from fitnoise.request.attributes.binned import BinnedSpec as BinnedSpec
from fitnoise.request.attributes.categorical import Categorical as Categorical
from fitnoise.request.attributes.categorical import CategoricalSpec as CategoricalSpec
from fitnoise.request.attributes.hierarchy import Hierarchy as Hierarchy
from fitnoise.request.attributes.hierarchy import HierarchySpec as HierarchySpec
from fitnoise.request.attributes.level import HierarchyLevel as HierarchyLevel
from fitnoise.request.attributes.ordered import Ordered as Ordered
from fitnoise.request.attributes.ordered import OrderedSpec as OrderedSpec

ATTRIBUTES: Final[tuple[type[Attribute], ...]] = (Categorical, Ordered, Binned, Amount, Hierarchy)
"""The kinds of attributes that a specification can declare."""

AttributeSpec = Annotated[
    CategoricalSpec | OrderedSpec | BinnedSpec | AmountSpec | HierarchySpec, Field(discriminator="type")
]
"""All kinds of attributes."""

# Read from the models, so that no kind can be left out here.
KINDS: Mapping[str, type[AttributeSection]] = MappingProxyType(
    {
        kind: model
        for model in get_args(get_args(AttributeSpec)[0])
        for kind in get_args(model.model_fields["type"].annotation)
    }
)
"""The kinds by name."""
