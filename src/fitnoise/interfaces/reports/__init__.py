"""The reports of plans, releases, comparisons and ledgers: one for each, for people and for programs."""
