"""Counting: from records to the few margins a plan needs, in one pass. Part of the trust kernel.

A :class:`Counter` has a source of records and the declared domain. It raises errors only about declarations (a missing
column, a wrong type), or about records outside the domain: their number and columns. It never raises an error about a
value.

**Contract.** Engines outside the kernel read the data. The kernel relies on three sentences about an engine, and cannot
check them from the counts:

    R1  One record of the data counts once, if it meets the conditions, and never twice. No other record changes its
        cells: neither by its values or its place, nor by a type that an engine guesses from it. All counts are of one
        state of the data.
    R2  The cells of a record are those of `codings` in every attribute of a margin. With a bound they are so in every
        attribute of the domain.
    R3  The id of a record is its own, in the form of `persons`.

A reader hands coded rows over (:class:`fitnoise.kernel.counting.tally.Rows`), and the kernel counts them. An engine
that counts inside, such as a database, returns counts. :class:`Counter` states what follows for them.
"""

from __future__ import annotations

from fitnoise.kernel.counting._base import Counter, Dropped, Margin, Margins, Progress
from fitnoise.kernel.counting.margins import Tally, maximal
from fitnoise.kernel.counting.sealed import SealedCounter, is_sealed

__all__ = [
    "Counter",
    "Dropped",
    "Margin",
    "Margins",
    "Progress",
    "SealedCounter",
    "Tally",
    "is_sealed",
    "maximal",
]
