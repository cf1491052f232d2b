"""The only code that can cost privacy, if engines keep the contract of :mod:`fitnoise.kernel.counting`.

It imports nothing outside itself and :mod:`fitnoise.errors`; a test enforces it. It has the unit of protection, the
measured queries and their cost, the counting of records, the noise sources, and the ledger. Code that only costs
accuracy is elsewhere.
"""
