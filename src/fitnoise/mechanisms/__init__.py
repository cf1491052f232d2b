"""Mechanisms: one file per paper, each offering `plan(…)`."""
