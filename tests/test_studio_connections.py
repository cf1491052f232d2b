"""Slow and half-open connections to the studio: each is closed in time, and the owner is answered throughout."""

import contextlib
import http.client
import itertools
import re
import socket
from pathlib import Path

import pytest

from fitnoise_studio import access, connections, serve, state, workers
from fitnoise_studio.folder import Folder
from studios import Here, filled
from waiting import wait_until

DOCS = Path(__file__).parents[1] / "docs"

BOUND = 60.0
"""Seconds after which a test fails that waits for what takes one or two."""


class Owner:
    """The owner's browser: every question on a connection of its own."""

    def __init__(self, server):
        self.server, self.session = server, server.session
        self.address = ("127.0.0.1", int(self.session.host.rpartition(":")[2]))
        headers = {"origin": "null", "content-type": "application/x-www-form-urlencoded"}
        reply, _ = self.ask("POST", "/open", headers, f"code={server.code}", cookie=False)
        self.cookie = reply.headers["set-cookie"].partition(";")[0]

    def ask(self, method, path, headers=None, body=None, *, cookie=True):
        connection = http.client.HTTPConnection(*self.address, timeout=BOUND)
        with contextlib.closing(connection):
            cookies = {"cookie": self.cookie} if cookie else {}
            connection.request(method, path, body, {"host": self.session.host, **cookies, **(headers or {})})
            reply = connection.getresponse()
            return reply, reply.read()

    def is_answered(self):
        reply, body = self.ask("GET", self.session.home + "ledger")
        return reply.status == 200 and b'id="content"' in body

    def head(self, method="GET", path="ledger", *, cookie=True, line=""):
        lines = [f"{method} {self.session.home}{path} HTTP/1.1", f"Host: {self.session.host}"]
        lines += [f"Cookie: {self.cookie}"] * cookie + [line] * bool(line)
        return "".join(f"{text}\r\n" for text in lines).encode() + b"\r\n"


@pytest.fixture
def owner(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "Worker", Here)
    monkeypatch.setattr(workers, "Worker", Here)
    with serve.serving(Folder(filled(tmp_path / "f"))) as server:
        yield Owner(server)


@pytest.fixture
def dialled(owner):
    """Make connections; all are closed at the end."""
    with contextlib.ExitStack() as stack:

        def dial(sent=b"", *, small=False):
            link = stack.enter_context(socket.socket())
            if small:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.settimeout(BOUND)
            link.connect(owner.address)
            link.sendall(sent)
            return link

        yield dial


def is_closed(link, received=None):
    """Return True if the other side closed it. All that it sent is read, into the list if there is one."""
    link.setblocking(False)
    try:
        while data := link.recv(65536):
            if received is not None:
                received.append(data)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def is_received(link, text):
    """Return True once a text was received, in however many pieces it comes."""
    received = b""
    while text not in received and (data := link.recv(65536)):
        received += data
    return text in received


def trickle(link, byte):
    with contextlib.suppress(OSError):
        link.send(byte)


def test_the_owner_gets_in_past_hundreds_of_half_open_connections(owner, dialled):
    """Silent ones, and ones with half a head; also those that come while the owner asks."""
    heads = itertools.cycle([b"", b"G", b"GET / HTTP/1.1\r\nHost:", owner.head(cookie=False)[:-2], b"\x16\x03\x01"])
    held = [dialled(next(heads)) for _ in range(450)]
    for _ in range(10):
        held += [dialled(next(heads)) for _ in range(20)]
        assert owner.is_answered()
    assert len(held) == 650
    assert sum(map(is_closed, held)) >= len(held) - connections.MAX_STRANGERS
    registry = owner.server._server._registry
    assert len(registry.strangers) <= connections.MAX_STRANGERS
    assert len(registry.all) <= connections.MAX_STRANGERS + 20


def test_connections_of_the_owner_outlive_a_flood(owner, dialled):
    """A page that listens, and a connection that is kept open between two questions."""
    listening = dialled(owner.head(path="events?on=ledger"))
    assert is_received(listening, b'id="state"')
    open_link = dialled(owner.head())
    wait_until(lambda: len(owner.server._server._registry.strangers) == 0)
    flood = [dialled(b"GET") for _ in range(3 * connections.MAX_STRANGERS)]
    wait_until(lambda: sum(map(is_closed, flood)) >= 2 * connections.MAX_STRANGERS)
    assert not is_closed(listening)
    open_link.setblocking(True)
    open_link.settimeout(BOUND)
    assert open_link.recv(12) == b"HTTP/1.1 200"
    assert owner.is_answered()


def test_a_cookie_that_is_not_the_owner_s_makes_no_owner(owner, dialled):
    name, value = owner.cookie.split("=", 1)
    for wrong in (f"{name}={value[:-1]}", f"{name}=", f"other={value}", f"{name}x={value}"):
        link = dialled(owner.head(cookie=False, line=f"Cookie: {wrong}"))
        assert link.recv(12) == b"HTTP/1.1 403"
        assert len(owner.server._server._registry.strangers) == 1
        link.close()
        wait_until(lambda: not owner.server._server._registry.all)


@pytest.mark.parametrize("cookie", [True, False])
def test_a_head_that_comes_byte_by_byte_is_given_up(owner, dialled, monkeypatch, cookie):
    """Its time runs from the first byte on; with the cookie, too."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    head = owner.head(cookie=cookie, line="X-Long: " + "x" * 5000)
    held = [dialled(head[:-4000]) for _ in range(20)]

    def closed():
        for link in held:
            trickle(link, b"x")
        assert owner.is_answered()
        return all(map(is_closed, held))

    wait_until(closed)
    complete = dialled(head)
    assert complete.recv(12) == (b"HTTP/1.1 200" if cookie else b"HTTP/1.1 403")


def test_the_head_of_a_later_request_has_its_time_as_well(owner, dialled, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    link = dialled(owner.head())
    assert link.recv(12) == b"HTTP/1.1 200"

    def closed():
        trickle(link, b"G")
        return is_closed(link)

    wait_until(closed)
    assert owner.is_answered()


@pytest.mark.parametrize("path", ["open", "change", "owner"])
def test_a_body_that_comes_byte_by_byte_is_given_up(owner, dialled, monkeypatch, path):
    """A code, a change of a stranger, whose body the studio does not read, and a change of the owner."""
    monkeypatch.setattr(access, "BODY_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 900\r\n"
    form += f"Origin: {owner.session.origin}\r\nX-Studio: 1"
    head = owner.head("POST", "tables", cookie=path == "owner", line=form)
    if path == "open":
        head = head.replace(f"{owner.session.home}tables".encode(), b"/open")
    held = {dialled(head + b"code="): [] for _ in range(20)}

    def closed():
        for link in held:
            trickle(link, b"x")
        assert owner.is_answered()
        gone = [is_closed(link, received) for link, received in held.items()]  # every one is read
        return all(gone)

    wait_until(closed)
    replies = {b"".join(received)[:12] for received in held.values()} - {b""}  # a reset drops what was not read yet
    assert replies == {b"HTTP/1.1 403" if path == "change" else b"HTTP/1.1 408"}


@pytest.mark.parametrize("cookie", [True, False])
def test_an_answer_that_nobody_reads_is_given_up(owner, dialled, monkeypatch, cookie):
    """Question after question on one connection, with no answer read; with the cookie, too."""
    monkeypatch.setattr(connections, "READ_SECONDS", 1.0)
    held = [dialled(small=True) for _ in range(5)]
    requests = owner.head(path="studio.js", cookie=cookie) * 50

    def closed():
        assert owner.is_answered()
        return [gone for link in held if (gone := is_refused(link, requests))] == [True] * len(held)

    wait_until(closed)
    wait_until(lambda: len(owner.server._server._registry.all) == 0)
    assert owner.is_answered()


def is_refused(link, requests):
    """Send requests and read nothing; return True if the connection is gone."""
    link.setblocking(False)
    try:
        link.send(requests)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def test_what_is_documented_is_what_is_done():
    text = (serve.Path(__file__).parents[1] / "docs" / "studio.md").read_text(encoding="utf-8")
    (seconds,) = re.findall(
        r"first lines within (\w+) seconds, and an answer is read within (\w+)", " ".join(text.split())
    )
    assert seconds == ("ten", "thirty")
    assert (connections.HEAD_SECONDS, connections.READ_SECONDS) == (10, 30)
    assert f"At most {connections.MAX_STRANGERS} connections have not shown the cookie" in text


def test_a_reply_does_not_wait_for_an_acknowledgement(owner, dialled):
    """Without TCP_NODELAY the body of each reply comes 40 ms after its head."""
    link = dialled(owner.head())
    assert is_received(link, b'id="content"')
    links = [x.transport.get_extra_info("socket") for x in owner.server._server._registry.all]
    assert links
    assert all(x.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for x in links)
