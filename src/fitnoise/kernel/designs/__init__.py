"""What can be measured: integers, the chance added to them, and what both cost."""
