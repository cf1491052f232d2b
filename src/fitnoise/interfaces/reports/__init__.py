"""What is said of plans, releases, comparisons and ledgers: of each one report, for people and for programs."""
