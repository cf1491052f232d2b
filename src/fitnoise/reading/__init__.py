"""What anyone can do with a release directory: no counter, no ledger and no source of chance is needed, or reached."""
