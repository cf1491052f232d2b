"""The operators of the zoo."""

import numpy as np

from fitnoise.algebra import operators as op
from zoo.arrays import INTEGERS, REALS

OPERATORS = {
    "dense integers": op.Dense(INTEGERS),
    "dense reals": op.Dense(REALS),
    "identity": op.Identity(5),
    "identity of one": op.Identity(1),
    "total": op.Total(4),
    "prefix": op.Prefix(6),
    "intervals": op.Intervals(5, ((0, 4), (2, 2), (1, 3), (1, 3))),
    "groups": op.Groups(6, ((0, 3), (1, 2, 5), (3,))),
    "averages": op.Averages(6, ((0, 2), (1, 3), (4, 4), (1, 3))),
    "differences": op.Differences(6, ((2, 0), (4, 2), (5, 4), (4, 2))),
    "kronecker": op.Kronecker((op.Prefix(3), op.Total(2), op.Identity(2))),
    "kronecker of one": op.Kronecker((op.Prefix(3),)),
    "stack": op.Stack((op.Identity(4), op.Total(4), op.Prefix(4))),
    "scaled": op.Scaled(op.Intervals(4, ((0, 1), (2, 3))), np.array([0.5, 3.0])),
    "transpose": op.Transpose(op.Prefix(4)),
    "nested": op.Kronecker((op.Stack((op.Total(3), op.Identity(3))), op.Scaled(op.Prefix(2), np.array([1.0, 2.0])))),
}
