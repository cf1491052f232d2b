"""Definitions of the papers that fitnoise does not use: mechanisms to compare with, workloads, other samplers."""
