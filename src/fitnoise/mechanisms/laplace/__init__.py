"""The matrix mechanism (Li et al. 2010): Laplace noise on margins, for pure ε."""
