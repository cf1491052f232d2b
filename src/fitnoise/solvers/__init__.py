"""Solvers: one file per method. Each returns weights and a status; evidence is recomputed elsewhere."""
