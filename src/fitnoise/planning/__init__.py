"""A publication becomes a certified plan, before data are looked at."""
