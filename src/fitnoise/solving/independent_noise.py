"""Independent noise for persons in a pattern whose records are replaced.

| symbol | meaning |
|---|---|
| W (m, n), c_j | queries of n cells, and the largest variance of number j |
| V | the changes v that one unit can make; V_t those in the cells of period t |
| X | BᵀΣ⁻¹B of the measured B x + noise of covariance Σ; Δ² = max over V of vᵀXv |
| y_i | the precision of independent noise on cell i, X = diag y |

**Theorem 1.** Let V = Π_t V_t and V_t = −V_t, and let every row of W lie in one period. Then some optimal X is block
diagonal, each block is optimal for its own period, and Δ² = Σ_t Δ_t².

*Proof.* Changing the sign of all cells of a period maps V onto V. It changes the sign of some rows of W, so no
variance. Take the mean of X over all such changes: it is block diagonal. Its cost is at most the mean of equal costs.
Its variances are at most their mean, because W X⁻¹ Wᵀ is convex in X. Then max_V Σ_t v_tᵀ X_tt v_t is
Σ_t max_{V_t} v_tᵀ X_tt v_t, and the targets separate, too. ∎

V has this form for persons who have up to one record in each period and are replaced. Here g is at least the number of
periods, and nothing is fixed or separated. Then no joint noise for several periods costs less than noise for each.

**Theorem 2.** Let {−1, 1}ⁿ ⊆ V ⊆ [−1, 1]ⁿ. Then for any W some independent noise on the cells costs at most π/2 times
the optimum.

*Proof.* For X ⪰ 0, max over {−1, 1}ⁿ of vᵀXv is at least (2/π) min {Σ y : diag y ⪰ X} (Nesterov 1998). Take an optimal
X and that y. diag y ⪰ X, so the variances are no larger. Over [−1, 1]ⁿ the cost of diag y is Σ y. ∎

**Theorem 3.** Let T ≥ 2g interchangeable periods have one cell each, and variance 1. The optimum is 2g (T + g − 1)/(T +
g). Independent noise costs 2g. It is above the optimum by the factor 1 + 1/(T + g − 1).

*Proof.* By symmetry X = α (I − J/T) + β J/T, and (α, β) meet (T − 1)/α + 1/β = T. A change of i added and j removed
records costs α (i + j) + (β − α)(i − j)²/T. The costliest are (g, g) and (g, 0). They are equal at β = α (1 + T/g).
There α = (T + g − 1)/(T + g). ∎

**Method.** A number j of the row w sums cells of n_j joint values of other attributes. It has the variance n_j Σ_i
w_i²/y_i. By Lagrange, y_i² = Σ_j q_j n_j w_ji²/c_j is of least Σ y for some weights q. The weights rise where the
variance is above its target.

**Source.** This project; Y. Nesterov, Semidefinite relaxation and nonconvex quadratic optimization, Optimization
Methods and Software 9 (1998), for the constant of Theorem 2.

**Trust.** A mistake here raises the cost of a plan. The kernel charges its integers.
"""

from __future__ import annotations

import numpy as np

from fitnoise.kernel.arrays import Floats

STEPS = 1000
"""The number of steps to the precisions."""


def independent_precisions(squares: Floats, weights: Floats | None = None) -> Floats:
    """Return precisions y of about least Σ y with Σ_i a_ji/y_i ≤ 1 for every number j, up to a common factor, (n,).

    Args:
        squares: a_ji = n_j w_ji²/c_j, (m, n), no column 0.
        weights: Fixed q of total error, (m,); None lets the function choose them.
    """
    q = np.ones(len(squares)) if weights is None else weights
    y = np.sqrt(q @ squares)
    for _ in range(STEPS if weights is None else 0):
        ratios = squares @ (1 / y)
        q = q * ratios / ratios.max()
        y = np.sqrt(q @ squares)
    return y
