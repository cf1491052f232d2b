"""Definitions of the papers that the product does not use."""
