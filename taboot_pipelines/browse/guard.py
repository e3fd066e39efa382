"""What stands before every request: who asks, under which name, and what the answer's page may do.

The server listens on loopback, which keeps other machines out. Pages of other sites in the same browser could
still reach it: by its address (they have no token, and a browser does not send our cookie along with what
they ask for), or under a name of theirs that resolves to it, which the ``Host`` header gives away.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taboot_pipelines.browse.problems import PREFIX, problem
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import HEALTH, METRICS

#: The parameter that carries the token once.
TOKEN = "token"

#: Scripts and styles are files of ours; nothing else is loaded, framed, or sent anywhere, and the sinks of
#: the DOM that make HTML or scripts out of text are closed.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-dns-prefetch-control": "off",
}
#: Of a page; files of ours say themselves how long they may be kept.
NO_STORE = "no-store"

_CLOSED = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>Not open</title>
<h1>This page is not open to you</h1>
<p>It is opened by the address that <code>taboot browse</code> has printed in its terminal, once in each
browser and after each start of it.</p>
"""


class Guard:
    """Passes on what may be asked. ``token``: what opens it; ``once``: what opens it too, one time; ``port``:
    of the server, which names the cookie, since cookies of one host are shared by its ports."""

    def __init__(self, app: ASGIApp, token: str, once: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._once: bytes | None = once.encode()
        self._cookie = f"taboot-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # No page of ours opens a WebSocket.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers.update(HEADERS)
                headers.setdefault("cache-control", NO_STORE)
            await send(message)

        refused = self._refused(scope)
        await (refused or self._app)(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """The answer instead of the page; None for what may be asked."""
        headers = Headers(scope=scope)
        if not is_loopback(headers.getlist("host")):
            return PlainTextResponse("Asked under a name that is not this machine's.\n", 421)
        if scope["path"] == HEALTH:
            return PlainTextResponse("ok\n")
        bears = self._bears(headers.getlist("authorization"))
        if is_for_programs(scope["path"]):
            return self._refused_program(scope, headers, bears)
        if scope["path"] == METRICS and bears:
            return None
        given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in given if name == TOKEN]
        if tokens:
            if len(tokens) > 1 or not (self._is_token(tokens[0]) or self._is_used_now(tokens[0])):
                return HTMLResponse(_CLOSED, 403)
            return self._opened(scope, [pair for pair in given if pair[0] != TOKEN])
        if not self._has_cookie(headers.getlist("cookie")):
            return HTMLResponse(_CLOSED, 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("Nothing can be changed here.\n", 405, {"allow": "GET, HEAD"})
        return None

    def _refused_program(self, scope: Scope, headers: Headers, bears: bool) -> Response | None:
        """As :meth:`_refused`, of the interface for programs: what has the token, or is a page of ours that
        reads. Nothing is said to other origins (no CORS)."""
        origins = headers.getlist("origin")
        if origins and origins != [f"{scope['scheme']}://{headers['host']}"]:
            told = TabootError(
                "E_FORBIDDEN", "No page of elsewhere may ask here.", remedy="Ask from a program."
            )
            return problem(told)
        reads = scope["method"] in ("GET", "HEAD")
        if bears or (reads and self._has_cookie(headers.getlist("cookie"))):
            return None
        remedy = (
            "Send the token that was printed, or that of TABOOT_SERVE__TOKEN, as `Authorization: Bearer …`."
        )
        refused = problem(TabootError("E_CREDENTIALS", "The token is missing or wrong.", remedy=remedy))
        refused.headers["www-authenticate"] = "Bearer"
        return refused

    def _opened(self, scope: Scope, rest: list[tuple[str, str]]) -> Response:
        """The same address without the token, which is a cookie from here on."""
        path = "/" + quote(scope["path"].lstrip("/\\"))
        response = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        response.set_cookie(self._cookie, self._token.decode(), path="/", httponly=True, samesite="strict")
        return response

    def _has_cookie(self, sent: list[str]) -> bool:
        try:
            cookies = SimpleCookie("; ".join(sent))
        except CookieError:
            return False
        return self._cookie in cookies and self._is_token(cookies[self._cookie].value)

    def _bears(self, sent: list[str]) -> bool:
        """Whether the token is in the header that Prometheus can be given (RFC 6750)."""
        token = bearer(sent)
        return token is not None and self._is_token(token)

    def _is_used_now(self, value: str) -> bool:
        """Whether it is the token that opens once, which it does not again."""
        if self._once is None or not hmac.compare_digest(value.encode("utf-8", "replace"), self._once):
            return False
        self._once = None
        return True

    def _is_token(self, value: str) -> bool:
        return hmac.compare_digest(value.encode("utf-8", "replace"), self._token)


def is_for_programs(path: str) -> bool:
    """Whether a path is of the interface for programs, whether or not there is anything."""
    return f"{path}/".startswith(f"{PREFIX}/")


def bearer(sent: list[str]) -> str | None:
    """The token of a request's ``Authorization`` (RFC 6750); None where it has none, or several. The name of
    a scheme has no case (RFC 9110, 11.1)."""
    scheme, _, token = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return token if scheme.lower() == "bearer" else None


def is_loopback(hosts: list[str]) -> bool:
    """Whether the one ``Host`` header names this machine to itself. Any port will do: behind a tunnel it is
    the tunnel's."""
    if len(hosts) != 1:
        return False
    try:
        parts = urlsplit(f"//{hosts[0]}")
        name, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.path or parts.query or parts.fragment or "@" in hosts[0]:
        return False
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
