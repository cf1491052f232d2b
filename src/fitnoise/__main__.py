"""`python -m fitnoise`."""

from fitnoise.cli import main

main()
