"""Designs: the integers to measure, the noise added to their answers, and the price of both."""
