"""`python -m fitnoise`."""

from __future__ import annotations

from fitnoise.interfaces.cli import main

main()
