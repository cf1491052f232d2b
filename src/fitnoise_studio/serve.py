"""The server of a studio: on this machine only, at a free port, until it is quit, interrupted, or eight hours idle."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import final

import uvicorn

from fitnoise.messages import translator
from fitnoise_studio.access import CODE_LIFETIME_SECONDS, Guard, StudioSession, opening_page
from fitnoise_studio.app import application
from fitnoise_studio.connections import (
    ACCEPTED,
    MAX_STRANGERS,
    Connections,
    SweepingServer,
    protocol_of,
)
from fitnoise_studio.folder import Folder
from fitnoise_studio.state import Studio

IDLE_TIMEOUT_SECONDS = 8 * 3600.0
"""Seconds without a request after which it ends."""

MAX_CONNECTIONS = 100
"""Connections of the owner at once, about, besides those of strangers; a page that is open has one."""

ENDED_BY = [getattr(signal, x) for x in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, x)]
"""Signals: Ctrl-C, a system that shuts down, a terminal that is closed."""

POLL_SECONDS = 0.2
"""Seconds between two looks whether to end."""


@final
class Server:
    """A studio that listens on 127.0.0.1, at a port that the system chooses.

    address: The address of the studio.
    page: A file that opens the studio once. The server removes it after use, or unused after five minutes.
    """

    def __init__(self, folder: Folder, language: str = "en", clock: Callable[[], float] = time.monotonic) -> None:
        # With IPPROTO_TCP asyncio sets TCP_NODELAY: without it a reply in two parts waits 40 ms for an acknowledgement.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # Only this machine can connect; port 0 lets the system choose a free one.
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()  # who comes early waits
        self.session = StudioSession(self._socket.getsockname()[1], clock, language)
        self.address = f"{self.session.origin}/"
        self.studio = Studio(folder, self.session, language, clock)
        self._clock = clock
        self.page = folder.page(opening_page(self.session))
        self.code = self.session.code_to_show
        registry = Connections(self.session)
        config = uvicorn.Config(
            Guard(application(self.studio), self.session, self._opened),
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
            limit_concurrency=MAX_CONNECTIONS + MAX_STRANGERS,
            backlog=ACCEPTED,
            http=protocol_of(registry),
            ws="none",
        )
        self._server = SweepingServer(config, registry)
        self._until = clock() + CODE_LIFETIME_SECONDS

    def _opened(self) -> None:
        self.page.unlink(missing_ok=True)

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Listen until the server ends. The planning processes then end, too, and a release in progress goes on.

        The opening page is removed.

        ready: Function that is called as soon as signals can end the server.
        """
        try:
            with self._signals():
                ready()
                threading.Thread(target=self._watch, daemon=True).start()
                self.studio.planner.start()
                self._server.run(sockets=[self._socket])
        finally:
            self.page.unlink(missing_ok=True)
            self.studio.close()
            self._socket.close()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Let signals end the server and not the process.

        uvicorn catches some signals, and raises them again after it has ended.
        """
        # Python lets only the main thread handle signals.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {x: signal.signal(x, lambda *_: self.end()) for x in ENDED_BY}
        try:
            yield
        finally:
            for x, handler in before.items():
                signal.signal(x, handler)

    def end(self) -> None:
        """End the server, from any thread."""
        self.studio.closing.set()

    def _watch(self) -> None:
        while not self.studio.closing.wait(POLL_SECONDS):
            # The code is void by now, so its page is of no use.
            if self._clock() > self._until:
                self._opened()
            if self._clock() - self.studio.last_asked > IDLE_TIMEOUT_SECONDS:
                self.end()
        self._server.should_exit = True


def serve(folder: Path, others: tuple[str, ...], language: str, *, as_json: bool, show: Callable[[str], None]) -> None:
    """Serve a folder, and print how to open it.

    Raises:
        ReleaseError: The folder does not exist or cannot hold drafts. Or an address of data is neither env:NAME nor
            spark:TABLE, the language is unknown, or Jinja2 is not installed.
    """
    server = Server(Folder(folder, others), language)

    def ready() -> None:
        if as_json:
            show(json.dumps({"address": server.address, "page": str(server.page), "code": server.code}))
            return
        translation = translator(language)
        show(translation.translate("studio.open.folder", folder=folder.resolve()))
        show(f"  {server.page.as_uri()}")
        show(translation.translate("studio.open.paste", address=server.address, code=server.code))
        show(translation.translate("studio.open.end"))

    server.run(ready)


@contextlib.contextmanager
def serving(folder: Folder, language: str = "en") -> Iterator[Server]:
    """Yield a studio that listens in a thread, for tests."""
    server = Server(folder, language)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join(20)
