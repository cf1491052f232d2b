"""The connections of the studio: each has its time, and those without the owner's cookie have a limit of their own.

Anyone on the machine can connect. A connection that asks nothing, or slowly, or reads nothing, would hold one of the
places that the server has. So:

1. A request has its head within :data:`HEAD_SECONDS` of the connection, or of the first byte after an answer. The time
   runs from the beginning: a byte now and then gains nothing.
2. An answer is read within :data:`READ_SECONDS`: a connection whose answers wait for so long is closed.
3. At most :data:`MAX_STRANGERS` connections have not shown the owner's cookie. One more closes the oldest of them.
   A connection that has shown it once belongs to the owner, and no stranger closes it.

The time for a body is in :mod:`fitnoise_studio.access`; that for the next request on an open connection is
uvicorn's. Between the arrival of a connection and its first request lie two turns of the event loop. In each turn at
most :data:`ACCEPTED` connections arrive, and both turns together bring fewer than :data:`MAX_STRANGERS`. So a flood
does not close the connection of the owner before its cookie is read.
"""

from __future__ import annotations

import asyncio
import socket
from typing import final

import uvicorn
from starlette.requests import cookie_parser
from uvicorn.protocols.http.h11_impl import H11Protocol

from fitnoise_studio.access import StudioSession

HEAD_SECONDS = 10.0
"""Seconds within which the head of a request is complete."""

READ_SECONDS = 30.0
"""Seconds within which an answer is read."""

MAX_STRANGERS = 64
"""Largest number of connections that have not shown the owner's cookie."""

ACCEPTED = 8
"""Connections that are accepted in one turn of the event loop, about."""

QUEUE = 1024
"""Connections that wait to be accepted."""


@final
class Connections:
    """All connections of a server: those of strangers, the oldest first, and the others."""

    def __init__(self, session: StudioSession) -> None:
        self.session = session
        self.all: set[Connection] = set()
        self.strangers: dict[Connection, None] = {}

    def arrived(self, connection: Connection) -> None:
        """Add a stranger; the oldest one is closed where there are too many."""
        self.all.add(connection)
        self.strangers[connection] = None
        while len(self.strangers) > MAX_STRANGERS:
            # The oldest stranger has had the most time to show the cookie.
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.transport.abort()

    def remove(self, connection: Connection) -> None:
        """Forget a connection."""
        self.all.discard(connection)
        self.strangers.pop(connection, None)

    def identify(self, connection: Connection, headers: list[tuple[bytes, bytes]]) -> None:
        """Take a connection for the owner's if its request has the owner's cookie."""
        for name, value in headers:
            if name == b"cookie" and self.session.admits(cookie_parser(value.decode("latin-1"))):
                self.strangers.pop(connection, None)

    def sweep(self, now: float) -> None:
        """Close every connection whose time is over."""
        for connection in [x for x in self.all if x.is_late(now)]:
            connection.transport.abort()


class Connection(H11Protocol):
    """A connection that has its time. registry: all connections of its server."""

    registry: Connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the head of a request from now on."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP
        super().connection_made(transport)
        self._owed_since: float | None = self.loop.time()
        self._unread_since: float | None = None
        self.registry.arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.registry.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what comes; what is no complete head has its time from its first byte."""
        before = self.scope
        super().data_received(data)
        # The head of another request is complete.
        if self.scope is not before:
            self.registry.identify(self, self.headers)
        # While an answer is under way, the other side owes nothing.
        if self.cycle is not None and not self.cycle.response_complete:
            self._owed_since = None
        elif self._owed_since is None:
            self._owed_since = self.loop.time()

    def is_late(self, now: float) -> bool:
        """Return True if a head, or a reader of an answer, is waited for too long."""
        if self.transport.get_write_buffer_size() == 0:
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = now
        owed, unread = self._owed_since, self._unread_since
        return (owed is not None and now - owed > HEAD_SECONDS) or (unread is not None and now - unread > READ_SECONDS)


def protocol_of(registry: Connections) -> type[Connection]:
    """Return the class of which uvicorn makes one object for each connection of the server with this registry."""
    return type("StudioConnection", (Connection,), {"registry": registry})


class SweepingServer(uvicorn.Server):
    """A server that closes connections whose time is over, ten times a second."""

    def __init__(self, config: uvicorn.Config, registry: Connections) -> None:
        super().__init__(config)
        self._registry = registry

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with a longer queue than is accepted in one turn."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(QUEUE)

    async def on_tick(self, counter: int) -> bool:
        """Close what is late, and do what the server does."""
        self._registry.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)
