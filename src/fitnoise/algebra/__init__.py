"""What is known of a matrix without writing it."""
