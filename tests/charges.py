"""Losses as tests say them: ρ, with a profile or an ε where there is one."""

from fractions import Fraction

from fitnoise.kernel.losses import Loss


def loss(rho, *, profile=None, epsilon=None):
    """Return the loss of a charge: by cell with a profile, pure with an ε. Both state ρ themselves."""
    if epsilon is not None:
        return Loss.of_epsilon(epsilon, by_cell=False)
    if profile is not None:
        return Loss.of_cells(profile.axes, [Fraction(x, 2**64) for x in profile.values])
    return Loss.concentrated(rho)
