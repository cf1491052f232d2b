"""Linear programs, by HiGHS through SciPy. Callers use its output without trust and prove their results from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats

_METHODS = ("highs", "highs-ipm", "highs-ds")

_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@final
@dataclass(frozen=True, eq=False)
class Program:
    """A solver's output for min c·x over x ≥ 0, A x ≤ b, A' x = b'.

    Attributes:
        x: The optimum.
        below: Multipliers of A x ≤ b, at least 0 up to rounding.
        equal: Multipliers of A' x = b'.
    """

    x: Floats
    below: Floats
    equal: Floats


def minimise(cost: Floats, below: tuple[Any, Floats] | None = None, equal: tuple[Any, Floats] | None = None) -> Program:
    """Minimise cost·x over x ≥ 0 under rows A x ≤ b (`below`) and A x = b (`equal`).

    Raises:
        PlanError: No method of the solver ended with an optimum.
    """
    # The import takes as long as a small plan.
    from scipy import optimize

    (a_ub, b_ub), (a_eq, b_eq) = below or (None, None), equal or (None, None)
    message = ""
    # HiGHS chooses a method first; if that ends without an optimum, each method is tried by name.
    for method in _METHODS:
        result: Any = optimize.linprog(  # type: ignore[call-overload]
            cost, A_ub=a_ub, b_ub=b_ub, A_eq=a_eq, b_eq=b_eq, bounds=(0, None), method=method, options=_OPTIONS
        )
        if result.status == 0:
            x, low, same = (
                np.asarray(v, np.float64) for v in (result.x, result.ineqlin.marginals, result.eqlin.marginals)
            )
            # SciPy states derivatives of the optimum by b, which are at most 0 for upper bounds.
            return Program(x, -low, -same)
        message = str(result.message)
    raise PlanError(
        "linear-program-unsolved",
        f"The solver did not solve a linear program ({message.rstrip('.')}).",
        "",
        "Choose another ε, or another mechanism.",
        "No mechanism was made.",
    )
