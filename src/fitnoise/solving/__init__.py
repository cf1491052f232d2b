"""What is minimised, by whom, and what proves it. No publication, no data."""
