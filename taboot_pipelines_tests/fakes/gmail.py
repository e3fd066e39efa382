"""A fake of the Gmail API and of Google's token service on loopback: real paths, parameters, pages and errors
of ``users.messages``, ``users.history`` and ``users.labels``, over a mailbox that tests change."""

from __future__ import annotations

import base64
import copy
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REFRESH_TOKEN = "1//refresh-planted-token"
CLIENT_SECRET = "GOCSPX-planted-secret"


class FakeGmail:
    """A mailbox. ``page``: how many ids a page of a list has. ``oldest``: the first history id that is still
    known. ``fail(path)``: the status and body by which a request fails, or None."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.attachments: dict[str, bytes] = {}
        self.log: list[tuple[int, str, str]] = []
        self.history = 1000
        self.oldest = 0
        self.page = 3
        self.asked: Counter[str] = Counter()
        self.paths: list[str] = []
        self.access_token = "ya29.first"
        self.revoked = False
        self.failures: dict[str, list[tuple[int, Mapping[str, str], bytes]]] = {}
        self.labels = {"INBOX": "INBOX", "Label_7": "ops/alerts", "SPAM": "SPAM", "TRASH": "TRASH"}
        self.lock = threading.Lock()
        self.base = ""

    # --- what tests change ----------------------------------------------------------------------------------

    def put(self, resource: Mapping[str, Any]) -> None:
        self._happen("messagesAdded", str(resource["id"]))
        self.messages[str(resource["id"])] = {**copy.deepcopy(dict(resource)), "historyId": str(self.history)}

    def delete(self, message_id: str) -> None:
        self._happen("messagesDeleted", message_id)
        del self.messages[message_id]

    def label(self, message_id: str, labels: list[str]) -> None:
        self._happen("labelsAdded", message_id)
        self.messages[message_id] |= {"labelIds": labels, "historyId": str(self.history)}

    def expire(self) -> None:
        self.oldest = self.history + 1
        self.history += 2

    def _happen(self, kind: str, message_id: str) -> None:
        self.history += 1
        self.log.append((self.history, kind, message_id))

    # --- what it answers ------------------------------------------------------------------------------------

    def answer(self, path: str, query: Mapping[str, list[str]]) -> tuple[int, Any]:
        parts = path.removeprefix("/gmail/v1/users/me/").split("/")
        if parts == ["profile"]:
            return 200, {"emailAddress": "ann@example.org", "historyId": str(self.history)}
        if parts == ["labels"]:
            return 200, {"labels": [{"id": k, "name": v} for k, v in self.labels.items()]}
        if parts == ["messages"]:
            return self._list(query)
        if parts == ["history"]:
            return self._history(query)
        if parts[0] == "messages" and len(parts) == 2 and parts[1] in self.messages:
            return 200, self.messages[parts[1]]
        if parts[0] == "messages" and len(parts) == 4 and parts[3] in self.attachments:
            data = base64.urlsafe_b64encode(self.attachments[parts[3]]).decode().rstrip("=")
            return 200, {"size": len(self.attachments[parts[3]]), "data": data}
        return 404, {"error": {"code": 404, "status": "NOT_FOUND"}}

    def _list(self, query: Mapping[str, list[str]]) -> tuple[int, Any]:
        wanted = set(query.get("labelIds", []))
        words = [w for w in query.get("q", [""])[0].split() if not w.startswith("after:")]
        after = [int(w[6:]) * 1000 for w in query.get("q", [""])[0].split() if w.startswith("after:")]
        hidden = set() if "includeSpamTrash" in query else {"SPAM", "TRASH"}
        ids = [
            m
            for m, resource in sorted(self.messages.items(), reverse=True)
            if wanted <= set(resource["labelIds"])
            and hidden.isdisjoint(resource["labelIds"])
            and all(word in json.dumps(resource) for word in words)
            and all(int(resource["internalDate"]) >= instant for instant in after)
        ]
        start = int(query.get("pageToken", ["0"])[0])
        page: dict[str, Any] = {"resultSizeEstimate": len(ids)}
        if ids:
            page["messages"] = [{"id": m, "threadId": m} for m in ids[start : start + self.page]]
        if start + self.page < len(ids):
            page["nextPageToken"] = str(start + self.page)
        return 200, page

    def _history(self, query: Mapping[str, list[str]]) -> tuple[int, Any]:
        since = int(query["startHistoryId"][0])
        if since < self.oldest:
            return 404, {"error": {"code": 404, "message": "Requested entity was not found."}}
        records = [entry for entry in self.log if entry[0] > since]
        start = int(query.get("pageToken", ["0"])[0])
        page: dict[str, Any] = {"historyId": str(self.history)}
        shown = records[start : start + self.page]
        if shown:
            page["history"] = [
                {"id": str(n), "messages": [{"id": m}], kind: [{"message": {"id": m, "threadId": m}}]}
                for n, kind, m in shown
            ]
        if start + self.page < len(records):
            page["nextPageToken"] = str(start + self.page)
        return 200, page


@contextmanager
def serving(fake: FakeGmail) -> Iterator[FakeGmail]:
    """Serve the mailbox; ``fake.base`` is where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            with fake.lock:
                fake.asked["token"] += 1
                good = not fake.revoked and form.get("refresh_token") == [REFRESH_TOKEN]
            if good and form.get("client_secret") == [CLIENT_SECRET]:
                self._send(
                    200, {"access_token": fake.access_token, "expires_in": 3599, "token_type": "Bearer"}
                )
            else:
                self._send(400, {"error": "invalid_grant", "error_description": REFRESH_TOKEN})

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            with fake.lock:
                kind = parts.path.removeprefix("/gmail/v1/users/me/").split("/")
                fake.asked[{1: kind[0], 2: "message", 4: "attachment"}[len(kind)]] += 1
                fake.paths.append(self.path)
                waiting = fake.failures.get(kind[-1])
                failure = waiting.pop(0) if waiting else None
                known = self.headers["authorization"] == f"Bearer {fake.access_token}"
                status, body = fake.answer(parts.path, parse_qs(parts.query))
            if failure is not None:
                self._send(failure[0], failure[2], failure[1])
            elif not known:
                self._send(401, {"error": {"code": 401, "status": "UNAUTHENTICATED"}})
            else:
                self._send(status, body)

        def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-length": str(len(data)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    fake.base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
