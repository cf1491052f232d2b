"""What the papers define and the product does not use."""
