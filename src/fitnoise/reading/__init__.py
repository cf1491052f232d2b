"""What anyone can do with a release directory."""
