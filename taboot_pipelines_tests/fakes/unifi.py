"""A fake UniFi controller on loopback: the real paths, cookies, headers, envelopes and errors, and objects
that the test sets. It answers as a classic controller or as UniFi OS."""

from __future__ import annotations

import itertools
import json
import re
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: The lists of the classic interface and its version 2, by what tests call them.
CLASSIC = {
    "devices": "stat/device",
    "clients": "stat/sta",
    "users": "rest/user",
    "networks": "rest/networkconf",
    "wlans": "rest/wlanconf",
    "port-forwards": "rest/portforward",
    "firewall-rules": "rest/firewallrule",
    "firewall-groups": "rest/firewallgroup",
}
VERSION_2 = {
    "dns": "static-dns",
    "traffic-rules": "trafficrules",
    "traffic-routes": "trafficroutes",
    "firewall-policies": "firewall-policies",
    "firewall-zones": "firewall/zone",
}
INTEGRATION = {
    "devices": "devices",
    "clients": "clients",
    "networks": "networks",
    "wlans": "wifi/broadcasts",
    "firewall-policies": "firewall/policies",
    "firewall-zones": "firewall/zones",
    "dns": "dns/policies",
    "vpn-servers": "vpn/servers",
    "vpn-tunnels": "vpn/site-to-site-tunnels",
}
USER, PASSWORD, KEY = "viewer", "planted-Passw0rd-7", "planted-Key-8a7b6c5d4e"

#: ``(status, body)`` in the place of an answer; None: the usual one.
Odd = Callable[[str], tuple[int, bytes] | None]


class FakeController:
    """``sites``: {site: {list: objects}} of the classic interface, ``listed``: of the integration API, by the
    same names of sites. ``old``: lists that this version does not have. ``key_reads_classic``: an API key
    opens the classic interface too. ``lives``: how many requests a session lives."""

    def __init__(self, *, unifi_os: bool = True, tls: ssl.SSLContext | None = None) -> None:
        self.unifi_os = unifi_os
        self.sites: dict[str, dict[str, list[Any]]] = {"default": {}}
        self.listed: dict[str, dict[str, list[Any]]] = {"default": {}}
        self.system: dict[str, Any] = {}
        self.old: set[str] = set()
        self.key_reads_classic = True
        self.lives: int | None = None
        self.odd: Odd | None = None
        #: Classic error codes with status 200, by list.
        self.errors: dict[str, str] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.logins = 0
        self._sessions: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._tls = tls
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeController:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- answers --------------------------------------------------------------------------------------------

    def answer(self, h: BaseHTTPRequestHandler, method: str, body: bytes) -> None:
        path = urlsplit(h.path).path
        self.requests.append((method, h.path))
        self.headers.append({name.lower(): value for name, value in h.headers.items()})
        if self.odd is not None and (odd := self.odd(path)) is not None:
            _send(h, *odd)
        elif method == "POST":
            self._login(h, path, body)
        elif path == "/status" and not self.unifi_os:
            _send(h, 200, _json({"meta": {"rc": "ok", "up": True, "server_version": "7.5.187"}, "data": []}))
        elif not path.startswith(("/api/", "/v2/", "/proxy/")):
            _send(h, 200, b"<!DOCTYPE html><html><head><title>UniFi OS</title></head></html>")
        else:
            self._read(h, path)

    def _login(self, h: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        if path != ("/api/auth/login" if self.unifi_os else "/api/login"):
            _send(h, 404, _json(_error("api.err.NotFound")))
            return
        said = json.loads(body)
        self.logins += 1
        if (said.get("username"), said.get("password")) != (USER, PASSWORD):
            _send(
                h,
                *(
                    (403, b'{"code":"AUTHENTICATION_FAILED"}')
                    if self.unifi_os
                    else (400, _json(_error("api.err.Invalid")))
                ),
            )
            return
        token = f"planted-session-{next(self._numbers)}"
        self._sessions[token] = 0
        cookies = (
            [f"TOKEN={token}; path=/; httponly"]
            if self.unifi_os
            else [f"unifises={token}; Path=/; HttpOnly", f"csrf_token=csrf-{token}; Path=/"]
        )
        _send(
            h,
            200,
            _json(
                {"unique_id": "u", "username": USER} if self.unifi_os else {"meta": {"rc": "ok"}, "data": []}
            ),
            [("Set-Cookie", cookie) for cookie in cookies]
            + ([("X-CSRF-Token", f"csrf-{token}")] if self.unifi_os else []),
        )

    def _read(self, h: BaseHTTPRequestHandler, path: str) -> None:
        if self.unifi_os:
            if not path.startswith("/proxy/network/"):
                _send(h, 404, b'{"error":{"code":404}}')
                return
            path = path.removeprefix("/proxy/network")
        key = h.headers.get("X-API-KEY")
        if path.startswith("/integration/v1/"):
            if key != KEY:
                _send(h, 401, _json({"statusCode": 401, "statusName": "UNAUTHORIZED"}))
            else:
                self._integration(h, path.removeprefix("/integration/v1"))
            return
        if not (key == KEY and self.key_reads_classic) and not self._in_session(h):
            _send(h, 401, _json(_error("api.err.LoginRequired")))
            return
        self._classic(h, path)

    def _in_session(self, h: BaseHTTPRequestHandler) -> bool:
        name = "TOKEN" if self.unifi_os else "unifises"
        found = re.search(rf"{name}=([\w-]+)", h.headers.get("Cookie", ""))
        if found is None or found[1] not in self._sessions:
            return False
        self._sessions[found[1]] += 1
        if self.lives is not None and self._sessions[found[1]] > self.lives:
            del self._sessions[found[1]]
            return False
        return True

    def _classic(self, h: BaseHTTPRequestHandler, path: str) -> None:
        if path == "/api/self/sites":
            sites = [{"_id": f"5f{n:022x}", "name": s, "desc": s.title()} for n, s in enumerate(self.sites)]
            _send(h, 200, _json({"meta": {"rc": "ok"}, "data": sites}))
            return
        for form, lists in ((r"/api/s/([^/]+)/(.+)", CLASSIC), (r"/v2/api/site/([^/]+)/(.+)", VERSION_2)):
            if (found := re.fullmatch(form, path)) is None:
                continue
            if found[1] not in self.sites:
                _send(h, 400, _json(_error("api.err.NoSiteContext")))
                return
            if found[2] == "stat/sysinfo":
                _send(h, 200, _json({"meta": {"rc": "ok"}, "data": [self.system] if self.system else []}))
                return
            name = next((n for n, p in lists.items() if p == found[2]), None)
            if name is None or name in self.old:
                break
            if name in self.errors:
                _send(h, 200, _json(_error(self.errors[name])))
                return
            data = self.sites[found[1]].get(name, [])
            _send(h, 200, _json(data if lists is VERSION_2 else {"meta": {"rc": "ok"}, "data": data}))
            return
        _send(h, 404, _json(_error("api.err.NotFound")))

    def _integration(self, h: BaseHTTPRequestHandler, path: str) -> None:
        if path == "/sites":
            self._page(h, [{"id": f"id-{s}", "internalReference": s, "name": s.title()} for s in self.listed])
            return
        found = re.fullmatch(r"/sites/id-([^/]+)/(.+)", path)
        held = self.listed.get(found[1]) if found else None
        if found is None or held is None:
            _send(h, 404, _json({"statusCode": 404}))
            return
        for name, where in INTEGRATION.items():
            if found[2] == where and name not in self.old:
                # Lists say less than objects do.
                brief = [
                    {k: v for k, v in one.items() if k not in ("uplink", "ipv4Configuration")}
                    for one in held.get(name, [])
                ]
                self._page(h, brief)
                return
            if found[2].startswith(f"{where}/"):
                wanted = found[2].removeprefix(f"{where}/")
                for one in held.get(name, []):
                    if one.get("id") == wanted:
                        _send(h, 200, _json(one))
                        return
        _send(h, 404, _json({"statusCode": 404, "statusName": "NOT_FOUND"}))

    def _page(self, h: BaseHTTPRequestHandler, data: list[Any]) -> None:
        query = parse_qs(urlsplit(h.path).query)
        offset, limit = int(query.get("offset", ["0"])[0]), min(200, int(query.get("limit", ["25"])[0]))
        part = data[offset : offset + limit]
        page = {"offset": offset, "limit": limit, "count": len(part), "totalCount": len(data), "data": part}
        _send(h, 200, _json(page))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _error(code: str) -> dict[str, Any]:
    return {"meta": {"rc": "error", "msg": code}, "data": []}


def _send(
    h: BaseHTTPRequestHandler, status: int, body: bytes, headers: list[tuple[str, str]] | None = None
) -> None:
    h.send_response(status)
    h.send_header("Content-Type", "application/json")
    h.send_header("Content-Length", str(len(body)))
    for name, value in headers or ():
        h.send_header(name, value)
    h.end_headers()
    h.wfile.write(body)


def _handler(controller: FakeController) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            controller.answer(self, "GET", b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            controller.answer(self, "POST", body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        pass
