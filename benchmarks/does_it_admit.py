"""Does a failing solver admit it? Every solver is starved on hard problems; what it says must be what it reached.

Run: python benchmarks/does_it_admit.py. A line per solver and allowance has the number of claims of convergence, and
the number of true ones. The certificate, which shares no code with the solvers, recomputes each claim from the problem.
The line also has the worst admitted gap, and the worst difference between stated and recomputed gap. Exits 1 if any
claim is false.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import fitnoise as fn
import reference as ref
import zoo
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.solving import geometric_mean, interior_point
from fitnoise.solving import solver as combined
from fitnoise.solving._base import Status
from fitnoise.solving.certificates import Evidence, ObjectiveTerms, lower_bound
from fitnoise.solving.sectors import decompose

GAP = 1e-8


def problems():
    """Forty problems with wide targets, seeds 900 to 907."""
    for seed in range(900, 908):
        rng = np.random.default_rng(seed)
        for w in (zoo.lower(32), ref.ranges(32, seed), ref.signs(32, seed), ref.low_rank(32, seed), ref.marginals(3)):
            d = decompose(fn.matrix_workload(w, variances=rng.uniform(1, 1000, len(w))))
            yield d, Formulation(d, ObjectiveTerms()).problem


def fixed_point(problem, allowed):
    return geometric_mean.solve(problem, gap=GAP, max_iterations=allowed)


def newton(problem, allowed):
    start = geometric_mean.solve(problem, gap=0.3, max_iterations=25)
    return interior_point.solve(problem, start.dual, gap=GAP, max_steps=allowed)


def both_steps(problem, allowed):
    return combined.solve(problem, gap=GAP, max_iterations=allowed)


def main():
    print(f"Gap requested: {GAP:g}; 40 problems.\n")
    print("| solver | allowance | claimed | claimed and true | worst gap admitted | stated − recomputed, worst |")
    print("|---|---|---|---|---|---|")
    honest = True
    for solver in (fixed_point, newton, both_steps):
        for allowed in (1, 3, 10, 30, 100, 1000):
            claimed = true = 0
            admitted = wrong = 0.0
            for d, problem in problems():
                solution = solver(problem, allowed)
                bound = lower_bound(d, Evidence(*solution.dual), ObjectiveTerms())
                value = problem.evaluate(*solution.primal).upper
                gap = value / bound - 1
                wrong = max(wrong, abs(gap - solution.gap))
                says = solution.status is Status.CONVERGED
                claimed += says
                true += says and gap <= GAP + 1e-10
                admitted = max(admitted, 0.0 if says else solution.gap)
                honest &= says == (solution.gap <= GAP)
            honest &= claimed == true and wrong < 1e-9
            print(f"| {solver.__name__} | {allowed} | {claimed} | {true} | {admitted:.1e} | {wrong:.1e} |", flush=True)
    print("\nEvery claim is true." if honest else "\nA CLAIM IS FALSE.")
    return 0 if honest else 1


if __name__ == "__main__":
    sys.exit(main())
