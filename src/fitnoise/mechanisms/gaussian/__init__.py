"""Fit-for-use (Xiao et al. 2021): Gaussian noise on sectors, at the least cost that meets every target."""
