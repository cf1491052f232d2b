"""Operations for anyone with a release directory: they need no counter, no ledger and no noise source."""
