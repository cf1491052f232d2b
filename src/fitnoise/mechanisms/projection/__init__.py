"""The projection mechanism (Nikolov 2015) for small databases."""
