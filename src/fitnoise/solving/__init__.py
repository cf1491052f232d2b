"""The minimisation problems, their solvers, and the proofs of bounds. No publication, no data."""
