"""Planning: a publication becomes a certified plan, before any data are read."""
