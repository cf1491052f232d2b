"""The guard of the studio: every request passes here first, and every reply last.

It protects against other web sites in the same browser, and against other users of the machine. It checks each request
in this order, and refuses it with the status in brackets:

1. `Host` is the studio's address. A name of another site that leads to this machine is refused (421).
2. A change (any method except GET and HEAD) has the studio's `Origin` (403). At `/open` the origin may also be "null",
   because the opening page is a file.
3. The path lies below the root, a name of 256 random bits, and the cookie is the studio's (403). Both are compared in
   constant time.
4. A change carries the header `X-Studio: 1`, which no form of another site can set (403).
5. The body is an encoded form, never a file (415). It has at most :data:`MAX_BODY_BYTES` bytes (413), arrives within
   :data:`BODY_TIMEOUT_SECONDS` seconds (408), and can be decoded (400). No byte is read before this step.
6. The form has the token that the studio gave for its path (403).

A POST to `/open` takes steps 1, 2 and 5, with at most :data:`MAX_CODE_BODY_BYTES` bytes. In place of the other steps,
its form has the code, which works once. Only the answer to it names the root and gives the cookie.

Browsers send a cookie to every port of a machine, and treat all its ports as one site. With a cookie for all paths,
another server on the machine, visited in the same browser, would receive it. The cookie is therefore for paths below
the root. Only the studio and its browser know the root, and no request to another server has such a path.

Replies carry :data:`HEADERS`, word for word. Only the replies of uvicorn itself, which come before this module, carry
none. These are to requests that are not HTTP (400), and to requests above the limit of connections (503). They hold
nothing of the studio.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import html
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fitnoise.messages import Translator, translator

MAX_BODY_BYTES = 10**6
"""The largest number of bytes of a body."""

MAX_CODE_BODY_BYTES = 1000
"""The largest number of bytes of a body with a code, from a browser without a cookie."""

BODY_TIMEOUT_SECONDS = 10.0
"""The seconds within which a body arrives."""

MAX_FIELDS = 10_000
"""The largest number of fields of a form."""

CODE_LIFETIME_SECONDS = 300.0
"""The seconds for which the code opens the studio."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every reply."""

OPEN = "/open"
"""The address to which the code is posted: the only one that needs no cookie."""

_SAFE = ("GET", "HEAD")


@final
class StudioSession:
    """The secrets of one server: a code that opens it once, the cookie that the browser then has, tokens of forms.

    port: The port of the server.
    clock: Seconds, for tests.
    language: The translator of the pages that take the code; its argument is a code of a language, such as "en".
    home: The path of its pages, once it is open.
    """

    def __init__(self, port: int, clock: Callable[[], float] = time.monotonic, language: str = "en") -> None:
        self.host = f"127.0.0.1:{port}"
        self.origin = f"http://{self.host}"
        self.token = Tokens()
        self.language = translator(language)
        self.home = f"{self.token.root}/"
        self.cookie = f"fitnoise_{secrets.token_hex(4)}"
        self._clock = clock
        self._value = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._code: str | None = None
        self._until = 0.0

    def code(self) -> str:
        """Return a new code of 256 bits, for one use within five minutes; the one before is void."""
        with self._lock:
            # A new code makes the one before void: at most one can open the studio.
            self._code, self._until = secrets.token_urlsafe(32), self._clock() + CODE_LIFETIME_SECONDS
            return self._code

    @property
    def code_to_show(self) -> str:
        """The code, shown to the person who started the server; empty if there is no code."""
        return self._code or ""

    def opens(self, code: str) -> bool:
        """Return True if this is the code, in time and unused. The code is then used."""
        with self._lock:
            is_valid, self_code = self._clock() < self._until, self._code
            # A wrong code does not use up the right one, so a stranger cannot lock the owner out.
            if self_code is None or not is_valid or not _same(code, self_code):
                return False
            self._code = None
            return True

    def admits(self, cookies: Mapping[str, str]) -> bool:
        """Return True if the cookie is the studio's."""
        return _same(cookies.get(self.cookie, ""), self._value)

    def admit(self, reply: Response) -> Response:
        """Give the cookie to the browser, for its present session."""
        reply.set_cookie(self.cookie, self._value, httponly=True, samesite="strict", path=self.home)
        return reply


@final
class Tokens:
    """The tokens of forms, by the address that they post to, below the root.

    root: The start of every address of a page.
    """

    def __init__(self) -> None:
        self.root = f"/{secrets.token_hex(32)}"
        self._key = secrets.token_bytes(32)

    def __call__(self, action: str) -> str:
        """Return the token of the form that posts there."""
        # Each address has its own token: the form of one page cannot be sent to another address.
        return hmac.new(self._key, action.encode(), hashlib.sha256).hexdigest()


def _same(text: str, expected: str) -> bool:
    return secrets.compare_digest(text.encode(), expected.encode())


class SubmittedForm(dict[str, str]):
    """The fields of a form; :meth:`all` has every value of a repeated field."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self.fields = list(fields)
        super().__init__(self.fields)

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        return [value for key, value in self.fields if key == name]


def form_of(body: bytes) -> SubmittedForm:
    """Return the fields of a body, as browsers encode them.

    Raises:
        ValueError: The body is encoded otherwise, is not UTF-8, or has too many fields.
    """
    return SubmittedForm(
        parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    )


@final
class Guard:
    """The studio behind its guard, as pure ASGI: handlers find the fields of a form in `scope["form"]`."""

    def __init__(self, app: ASGIApp, session: StudioSession, opened: Callable[[], None] = lambda: None) -> None:
        self._app, self._session, self._opened = app, session, opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or let it through; the reply carries the headers."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks over a socket of the web
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Set here, in one place, for every reply, also for errors of handlers.
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        reply = await self._refusal(scope, receive)
        if reply is None:
            await self._app(scope, receive, guarded)
        else:
            await reply(scope, receive, guarded)

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the reply to a refused request; None if the request is let through."""
        session, headers = self._session, Headers(scope=scope)
        # Exactly one Host: of two, another program could take the other one.
        if headers.getlist("host") != [session.host]:
            return _refused(session.language, 421, "studio.refused.host")
        opening = scope["path"] == OPEN
        changes = scope["method"] not in _SAFE
        origins = headers.getlist("origin")
        if changes and origins != [session.origin] and not (opening and origins == ["null"]):
            return _refused(session.language, 403, "studio.refused.site")
        if opening and scope["method"] == "POST":
            return await _body(scope, receive, headers, MAX_CODE_BODY_BYTES, session.language) or self._open(
                scope["form"]
            )
        # In constant time: a program on this machine could otherwise find the root letter by letter.
        below = _same(scope["path"][: len(session.home)], session.home)
        if not (below and session.admits(cookie_parser(headers.get("cookie", "")))):
            return _entry(session.language)
        scope["root_path"] = session.token.root  # routes are called as they are below it
        return await self._change(scope, receive, headers) if changes else None

    async def _change(self, scope: Scope, receive: Receive, headers: Headers) -> Response | None:
        """Return the reply to a change that does not come from a page of the studio."""
        foreign = _refused(self._session.language, 403, "studio.refused.page")
        if headers.getlist("x-studio") != ["1"]:
            return foreign
        refusal = await _body(scope, receive, headers, MAX_BODY_BYTES, self._session.language)
        if refusal is not None:
            return refusal
        token = self._session.token(scope["path"].removeprefix(self._session.token.root))
        return None if _same(scope["form"].get("token", ""), token) else foreign

    def _open(self, form: SubmittedForm) -> Response:
        if not self._session.opens(form.get("code", "").strip()):
            return _entry(self._session.language, wrong=True)
        self._opened()
        # A redirect would still be the other site's (or the file's) request, and a strict cookie stays away from it.
        return self._session.admit(_opened(self._session))


async def _body(
    scope: Scope, receive: Receive, headers: Headers, max_bytes: int, language: Translator
) -> Response | None:
    """Read the fields of a form into the scope, or return a refusal."""
    if headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return _refused(language, 415, "studio.refused.type")
    body, has_more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            while has_more:
                message = await receive()
                if message["type"] != "http.request":
                    return _refused(language, 400, "studio.refused.early")
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    return _refused(language, 413, "studio.refused.long")
                has_more = message.get("more_body", False)
        scope["form"] = form_of(bytes(body))
    except TimeoutError:
        return _refused(language, 408, "studio.refused.late")
    except ValueError:
        return _refused(language, 400, "studio.refused.unreadable")
    return None


def _refused(language: Translator, status: int, text_id: str) -> Response:
    return PlainTextResponse(language.translate(text_id), status)


def _entry(language: Translator, *, wrong: bool = False) -> Response:
    """Return the page for a browser without a cookie, where the code can be pasted."""
    alert = f'<p role="alert">{language.translate("studio.open.wrong")}</p>' if wrong else ""
    body = (
        f'{alert}<p>{language.translate("studio.open.enter")}</p><form method="post" action="{OPEN}">'
        f'<label>{language.translate("studio.open.code")} <input name="code" autocomplete="off"></label> '
        f"<button>{language.translate('studio.open.enter_code')}</button></form>"
    )
    return HTMLResponse(_page(language, body), 403)


def _opened(session: StudioSession) -> Response:
    """Return the page that leads to the studio by itself."""
    body = f'<p><a href="{session.home}">{session.language.translate("studio.open.go")}</a></p>'
    head = f'<meta http-equiv="refresh" content="0; url={session.home}">'
    return HTMLResponse(_page(session.language, body, head))


def _page(language: Translator, body: str, head: str = "") -> str:
    return (
        f'<!doctype html><html lang="{language.code}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">{head}'
        f"<title>fitnoise studio</title></head><body><main><h1>fitnoise studio</h1>{body}</main></body></html>"
    )


def opening_page(session: StudioSession) -> str:
    """Return the page that posts a code, a file that only its owner can read.

    Addresses would show in lists of processes.
    """
    script = "document.forms[0].submit()"
    digest = hashlib.sha256(script.encode()).digest()
    policy = f"default-src 'none'; script-src 'sha256-{_base64(digest)}'; form-action {session.origin}"
    return (
        f'<!doctype html><html lang="{session.language.code}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">'
        '<meta name="referrer" content="no-referrer"><title>fitnoise studio</title></head><body><main>'
        f'<h1>fitnoise studio</h1><form method="post" action="{session.origin}{OPEN}">'
        f'<input type="hidden" name="code" value="{session.code()}">'
        f"<button>{session.language.translate('studio.open.begin')}</button></form></main>"
        f"<script>{script}</script></body></html>"
    )


def _base64(x: bytes) -> str:
    return base64.b64encode(x).decode()
