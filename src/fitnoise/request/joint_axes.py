"""The axes along which tables count attributes that read one column and are not free of each other.

A plan lists the joint cells of such attributes (:class:`fitnoise.kernel.domain.JointAxis`). Tables of each of them are
then queries on one axis, so their numbers add up to each other. If one of the attributes has a different cell in every
joint cell, its own axis serves: the other attributes follow from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.domain import JointAxis, class_axis
from fitnoise.request.domain import Domain


def axis_name(domain: Domain, joint: JointAxis) -> str:
    """Return the axis by which tables of joint attributes are counted.

    It is the first attribute whose cells are those of the joint axis, in order; otherwise the joint axis. With an
    amount, of which the joint axis lists steps, it is the joint axis. So it is with classes of values.

    Args:
        domain: The domain, which has the joint axis.
        joint: The joint axis.
    """
    cells = np.arange(len(joint.cells))
    names = () if joint.name in domain.steps or any(joint.classes) else joint.names
    same = (a for a in names if domain.sizes[a] == len(cells) and np.array_equal(joint.column(a), cells))
    return next(same, joint.name)


def joint_axis(domain: Domain, axis: str) -> JointAxis | None:
    """Return the joint axis whose tables are counted along an axis; None for the axis of one attribute.

    Args:
        domain: The domain.
        axis: The name of an attribute, a level, a share or a joint axis.
    """
    return next((one for one in domain.axes.joint.values() if axis_name(domain, one) == axis), None)


def attributes_along(domain: Domain, axis: str) -> tuple[str, ...]:
    """Return the attributes whose tables are counted along an axis, without levels.

    Args:
        domain: The domain.
        axis: The name of an attribute, a level, a share or a joint axis.
    """
    one = joint_axis(domain, axis)
    return domain.axes.attributes_of(axis if one is None else one.name)


def used_joint_axes(domain: Domain, names: Iterable[str]) -> tuple[JointAxis, ...]:
    """Return the joint axes of which at least two attributes are used.

    Args:
        domain: The domain.
        names: The attributes and levels that are used.
    """
    homes = set(map(domain.attribute_of, names))
    return tuple(
        one for one in domain.axes.joint.values() if len(homes.intersection(domain.axes.attributes_of(one.name))) > 1
    )


def classes_along(domain: Domain, axes: Iterable[str], names: Iterable[str]) -> dict[str, Indices]:
    """Return the class of each value of the used attributes that have classes along some axes.

    Args:
        domain: The domain.
        axes: The axes by which tables are counted.
        names: The attributes and levels that are used.
    """
    used, joint = set(names), (joint_axis(domain, axis) for axis in axes)
    rows = (pair for one in joint if one is not None for pair in zip(one.names, one.classes, strict=True))
    return {name: np.array(row) for name, row in rows if row and name in used}


def class_sizes(classes: Mapping[str, Indices]) -> dict[str, int]:
    """Return the number of values of each class of several values, by the name of its axis.

    Args:
        classes: For each attribute with classes, the class of each value.
    """
    counts = {name: np.bincount(row).tolist() for name, row in classes.items()}
    return {class_axis(name, k): n for name, sizes in counts.items() for k, n in enumerate(sizes) if n > 1}


def without_classes(domain: Domain) -> Domain:
    """Return a domain whose joint axes of attributes of one column have values as cells in place of their classes.

    Classes along several columns remain: by values, their cells would be too many.

    Args:
        domain: The domain.
    """

    def by_value(one: JointAxis) -> JointAxis:
        if not any(one.classes) or len({domain.column(domain.attribute_of(a)) for a in one.names}) > 1:
            return one
        labels = [row or range(domain.sizes[a]) for a, row in zip(one.names, one.classes, strict=True)]
        values = [[np.flatnonzero(np.equal(row, k)).tolist() for k in range(max(row) + 1)] for row in labels]
        parts = (itertools.product(*(x[k] for x, k in zip(values, cell, strict=True))) for cell in one.cells)
        return JointAxis(one.names, tuple(sorted(itertools.chain.from_iterable(parts))))

    return domain.with_joint_axes(map(by_value, domain.axes.joint.values()))


def has_all_values(domain: Domain, joint: JointAxis, attribute: str) -> bool:
    """Return True if each value of an attribute or a level occurs in some cell of a joint axis.

    Args:
        domain: The domain, which has the joint axis.
        joint: The joint axis.
        attribute: An attribute of the axis, or a level above the one that the axis has.
    """
    row = dict(zip(joint.names, joint.classes, strict=True)).get(attribute)
    cells = joint.column(attribute) if row else cells_along(domain, joint, attribute)
    return len(np.unique(cells)) == (max(row) + 1 if row else domain.sizes[attribute])


def cells_along(domain: Domain, joint: JointAxis, attribute: str) -> Indices:
    """Return the cell of an attribute or a level in each cell of a joint axis; for an amount, the step.

    For an attribute with classes it is the class.

    Args:
        domain: The domain, which has the joint axis.
        joint: The joint axis.
        attribute: An attribute of the axis, or a level above the one that the axis has.
    """
    home = domain.attribute_of(attribute)
    (listed,) = (name for name in joint.names if domain.attribute_of(name) == home)
    tree, cells = domain[home].tree, joint.column(listed)
    return cells if tree is None else tree.above(domain.depth(attribute), domain.depth(listed))[cells]
