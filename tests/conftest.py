"""Shared by all tests: one BLAS thread (many are slower on two cores), plans of the zoo made once."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from functools import cache

import numpy as np
import pytest

import fitnoise as fn
import zoo


@cache
def zoo_plan(name):
    return fn.plan(zoo.WORKLOADS[name](), gap=1e-6)


@pytest.fixture(params=zoo.WORKLOADS)
def any_plan(request):
    return zoo_plan(request.param)


@pytest.fixture
def rng(request):
    """Reproducible per test: seeded by the test's own name."""
    return np.random.default_rng(list(request.node.nodeid.encode()))
