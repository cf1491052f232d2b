"""The only code that can cost privacy.

It imports nothing outside itself and :mod:`fitnoise.errors`; a test enforces it. Who is protected, what is measured,
what that costs, how records are counted, where chance enters, and what was charged: all of it is here, and nothing that
only costs accuracy is.
"""
