"""Designs and plans made by hand."""

from dataclasses import replace

from fitnoise.kernel.designs._base import Cells
from fitnoise.mechanisms.registry import mechanism_for
from fitnoise.mechanisms.tables import TablePart
from fitnoise.planning.plan import Plan


def over(sizes, cells):
    """So many values of exchangeable attributes a0, a1, …, and so many structured cells."""
    return Cells(tuple((f"a{i}", n) for i, n in enumerate(sizes)), (("o", cells),))


def plan_of(publication, strategy, evidence, status, setting=None):
    """A plan for tables of one part, with this strategy."""
    (asked,) = publication.groups
    return Plan.of(publication, [TablePart(mechanism_for(asked).mechanism, asked, strategy, evidence, status, setting)])


def remade(plan, *, publication=None, finite=None, **part):
    """A plan with another publication, other mechanisms for its questions, or another strategy, evidence, …"""
    asked = publication or plan.publication
    groups = [replace(p, publication=own, **part) for p, own in zip(plan.groups, asked.groups, strict=True)]
    return Plan.of(asked, groups, plan.finite if finite is None else finite)
