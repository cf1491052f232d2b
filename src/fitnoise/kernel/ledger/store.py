"""The storage of a ledger: rows that are read and appended in transactions. It knows no rule of the ledger.

**Trust.** The ledger verifies that rows follow each other and that none was changed, reordered, repeated or left out
before the last. It notices a missing tail only if it saw that tail, or if a head that was written down names it. So the
guarantees of :class:`Store` are those that the ledger cannot verify: a mistake in a store can forget a charge.
`tests/laws/stores.py` is the law that each store passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

Row = tuple[int, str, str, str, str, str, str, str, str]
"""An entry as it is stored: sequence number, kind, source, unit, ρ, time, detail, previous and digest."""


class Store(Protocol):
    """The rows of one ledger. All methods except `transaction` and `close` are called within a transaction.

    Args:
        where: Name of the ledger, at the beginning of a sentence of an error.
        file: The file, next to which answers are kept; `None` for a store that is forgotten when it is closed.
        owner: The numbers of the process and of the thread that opened the store.
        opened_identity: The identity of what was opened, taken before it was opened.

    **Guarantees**

    * A transaction that writes excludes all other writers from its beginning, and reads all rows committed before.
    * A transaction without a commit keeps none of its rows. An error inside it passes through unchanged, or as a
      LedgerError.
    * When `commit` returns, the rows are on the disk. A process killed at any moment leaves all of them, or none.
    """

    where: str
    file: Path | None
    owner: tuple[int, int]
    opened_identity: object

    def transaction(self, *, write: bool) -> AbstractContextManager[None]:
        """Begin a transaction, and end it.

        Args:
            write: True to exclude all other writers.

        Raises:
            LedgerError: The store cannot be used; nothing was kept, unless the error states another outcome.
        """

    def rows(self) -> Iterator[Row]:
        """Return the committed rows, in order."""

    def append(self, row: Row) -> None:
        """Add a row at the end, or raise unless its sequence number follows the last one."""

    def identity(self) -> object:
        """Return a value that differs where another store is in the place of the opened one, also after `commit`.

        Raises:
            LedgerError: The store has a second name, under which it could be used without being excluded.
        """

    def commit(self) -> None:
        """Keep the appended rows, and end the transaction."""

    def close(self) -> None:
        """Let go of the store. Closing twice does no harm."""
