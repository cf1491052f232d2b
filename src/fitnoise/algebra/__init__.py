"""The known quantities of a matrix without its entries."""
