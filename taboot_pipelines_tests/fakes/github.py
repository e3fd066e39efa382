"""A fake GitHub: real HTTP, the API's real paths, headers, pages and errors, repositories held in memory.

It models what the connector depends on: trees and blobs by git's own hashes, ETags of bodies, ``Link``
headers, numbers that issues, pull requests and discussions share, renamed, private, empty and deleted
repositories. It is a fake: it has no git, no search and no limits but those that a test sets. In a test::

    with FakeGithub() as hub:
        repository = hub.repository("acme/shop", {"README.md": "# Shop\n"})
        issue = repository.issue("It breaks", "When I look.")
        repository.comment(issue, "It does.")
        ... {"type": "github", "repositories": ["acme/shop"], "base_url": hub.url} ...
        assert hub.asked("GET")[0].path == "/repos/acme/shop"
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

TOKEN = "ghp_swordfishswordfishswordfish0001"
LIMIT = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4990", "x-ratelimit-resource": "core"}


def git_hash(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


@dataclass(frozen=True)
class Asked:
    """A request that was answered. ``conditional``: it named an ETag."""

    method: str
    path: str
    status: int
    conditional: bool


@dataclass(frozen=True)
class Link:
    """A symbolic link in a repository."""

    target: str


@dataclass(frozen=True)
class Submodule:
    """A submodule at a commit."""

    sha: str = "a" * 40


File = str | bytes | Link | Submodule
Answer = tuple[int, bytes, Mapping[str, str]]


@dataclass
class Repository:
    """A repository; whatever is changed here is answered by the next request."""

    hub: FakeGithub
    id: int
    name: str
    files: dict[str, File] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    branch: str = "main"
    private: bool = False
    issues: list[dict[str, Any]] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    reviews: list[dict[str, Any]] = field(default_factory=list)
    review_comments: list[dict[str, Any]] = field(default_factory=list)
    releases: list[dict[str, Any]] = field(default_factory=list)
    discussions: list[dict[str, Any]] = field(default_factory=list)
    #: A tree of more entries is told as truncated.
    most_entries: int = 100_000

    @property
    def web(self) -> str:
        return f"https://github.com/{self.name}"

    def person(self, login: str | None) -> dict[str, Any] | None:
        if login is None:
            return None
        return {"login": login, "id": 7, "avatar_url": f"https://a.example/{self.hub.tick()}", "type": "User"}

    def issue(
        self, title: str, body: str | None = None, *, by: str | None = "ann", pull: bool = False, **more: Any
    ) -> int:
        number = 1 + max((x["number"] for x in [*self.issues, *self.discussions]), default=0)
        kind = "pull" if pull else "issues"
        made = {
            "id": self.hub.tick(),
            "number": number,
            "title": title,
            "body": body,
            "user": self.person(by),
            "state": "open",
            "labels": [],
            "assignees": [],
            "created_at": self.hub.now(),
            "updated_at": self.hub.now(),
            "closed_at": None,
            "comments": 0,
            "html_url": f"{self.web}/{kind}/{number}",
            "reactions": {"total_count": 0},
            **({"pull_request": {"merged_at": None}, "draft": False} if pull else {}),
            **more,
        }
        self.issues.append(made)
        return number

    def of(self, number: int) -> dict[str, Any]:
        return next(x for x in self.issues if x["number"] == number)

    def comment(self, number: int, body: str, by: str | None = "bob") -> dict[str, Any]:
        made = {
            "id": self.hub.tick(),
            "issue_url": f"{self.hub.url}/repos/{self.name}/issues/{number}",
            "html_url": f"{self.web}/issues/{number}#issuecomment",
            "body": body,
            "user": self.person(by),
            "created_at": self.hub.now(),
            "updated_at": self.hub.now(),
        }
        self.comments.append(made)
        return made

    def review(self, number: int, body: str, state: str = "COMMENTED", by: str = "cid") -> dict[str, Any]:
        made = {
            "id": self.hub.tick(),
            "of": number,
            "body": body,
            "state": state,
            "user": self.person(by),
            "submitted_at": self.hub.now(),
        }
        self.reviews.append(made)
        return made

    def review_comment(self, number: int, review: int, body: str, **more: Any) -> dict[str, Any]:
        made = {
            "id": self.hub.tick(),
            "pull_request_url": f"{self.hub.url}/repos/{self.name}/pulls/{number}",
            "pull_request_review_id": review,
            "path": "app/compose.yaml",
            "line": 3,
            "original_line": 3,
            "diff_hunk": "@@ -1,2 +1,3 @@\n services:\n+  web: {}",
            "body": body,
            "user": self.person("cid"),
            "created_at": self.hub.now(),
            **more,
        }
        self.review_comments.append(made)
        return made

    def release(self, tag: str, body: str = "", **more: Any) -> dict[str, Any]:
        made = {
            "id": self.hub.tick(),
            "tag_name": tag,
            "name": tag,
            "body": body,
            "draft": False,
            "prerelease": False,
            "author": self.person("ann"),
            "created_at": self.hub.now(),
            "published_at": self.hub.now(),
            "html_url": f"{self.web}/releases/tag/{tag}",
            "assets": [{"name": "app.tar.gz", "size": 5, "download_count": self.hub.tick()}],
            **more,
        }
        self.releases.insert(0, made)
        return made

    def discussion(self, title: str, body: str, comments: list[dict[str, Any]] | None = None) -> int:
        number = 1 + max((x["number"] for x in [*self.issues, *self.discussions]), default=0)
        made = {
            "id": f"D_{number}",
            "number": number,
            "title": title,
            "body": body,
            "url": f"{self.web}/discussions/{number}",
            "createdAt": self.hub.now(),
            "updatedAt": self.hub.now(),
            "closed": False,
            "author": {"login": "ann"},
            "category": {"name": "Q&A"},
            "labels": {"nodes": [{"name": "help"}]},
            "comments": comments or [],
        }
        self.discussions.append(made)
        return number

    # --- as the API says it ---------------------------------------------------------------------------------

    def resource(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name.partition("/")[2],
            "full_name": self.name,
            "private": self.private,
            "owner": {"login": self.name.partition("/")[0]},
            "html_url": self.web,
            "description": "A shop.",
            "fork": False,
            "archived": False,
            "default_branch": self.branch,
            "stargazers_count": self.hub.tick() if self.hub.restless else 1,
            "topics": ["shop"],
            "has_wiki": True,
            "has_discussions": True,
            "created_at": "2024-01-01T00:00:00Z",
            **({"temp_clone_token": "SWORDFISHCLONE"} if self.private else {}),
            **self.facts,
        }

    def blob(self, sha: str) -> bytes | None:
        return next((data for _, _, data in self._leaves() if git_hash("blob", data) == sha), None)

    def _leaves(self) -> list[tuple[str, str, bytes]]:
        found = []
        for path, file in self.files.items():
            if isinstance(file, Submodule):
                continue
            data = file.target if isinstance(file, Link) else file
            mode = "120000" if isinstance(file, Link) else "100644"
            found.append((path, mode, data.encode() if isinstance(data, str) else data))
        return found

    def trees(self) -> dict[str, list[dict[str, Any]]]:
        """Every directory's direct entries, by its path (the root's is empty)."""
        found: dict[str, dict[str, dict[str, Any]]] = {"": {}}
        leaves = [
            {"path": path, "mode": mode, "type": "blob", "sha": git_hash("blob", data), "size": len(data)}
            for path, mode, data in self._leaves()
        ]
        leaves += [
            {"path": path, "mode": "160000", "type": "commit", "sha": file.sha}
            for path, file in self.files.items()
            if isinstance(file, Submodule)
        ]
        for leaf in leaves:
            folder, _, name = leaf["path"].rpartition("/")
            parts = folder.split("/") if folder else []
            for i in range(len(parts) + 1):
                found.setdefault("/".join(parts[:i]), {})
            found[folder][name] = {**leaf, "path": name}
        for folder in sorted(found, key=lambda f: -f.count("/") if f else 1):
            if folder:
                above, _, name = folder.rpartition("/")
                found[above][name] = {
                    "path": name,
                    "mode": "040000",
                    "type": "tree",
                    "sha": tree_hash(found[folder].values()),
                }
        return {folder: [each[n] for n in sorted(each)] for folder, each in found.items()}


def tree_hash(entries: Any) -> str:
    return git_hash("tree", json.dumps(sorted((e["path"], e["mode"], e["sha"]) for e in entries)).encode())


class FakeGithub:
    """The server. ``per_page`` caps pages; ``restless``: counters of repositories change by themselves;
    ``fault(path)`` answers in the place of the API, unless it gives None."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.renamed: dict[str, int] = {}
        self.log: list[Asked] = []
        self.per_page = 100
        self.restless = False
        self.token: str | None = None
        self.fault: Callable[[str], Answer | None] = lambda _: None
        #: Where the bare repositories of wikis lie, as ``OWNER/NAME.wiki.git``.
        self.wikis: Path | None = None
        self._ticks = 0
        self._lock = threading.RLock()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                hub._handle(self, b"")

            def do_POST(self) -> None:
                hub._handle(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> FakeGithub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def tick(self) -> int:
        with self._lock:
            self._ticks += 1
            return self._ticks

    def now(self) -> str:
        start = datetime(2025, 1, 1, tzinfo=UTC)
        return (start + timedelta(seconds=self.tick())).strftime("%Y-%m-%dT%H:%M:%SZ")

    def repository(self, name: str, files: dict[str, File] | None = None, **more: Any) -> Repository:
        made = Repository(self, 1000 + self.tick(), name, dict(files or {}), **more)
        self.repositories[name] = made
        return made

    def rename(self, old: str, new: str) -> None:
        repository = self.repositories.pop(old)
        self.renamed[old] = repository.id
        repository.name = new
        self.repositories[new] = repository

    def asked(self, method: str | None = None) -> list[Asked]:
        return [a for a in self.log if method in (None, a.method)]

    # --- answering ------------------------------------------------------------------------------------------

    def _handle(self, h: BaseHTTPRequestHandler, body: bytes) -> None:
        with self._lock:
            status, data, headers = self.fault(h.path) or (
                self._git(h, body) if ".wiki.git/" in h.path else self._answer(h, body)
            )
        etag = f'W/"{hashlib.sha256(data).hexdigest()[:32]}"'
        wanted = h.headers["if-none-match"]
        headers = {"content-type": "application/json; charset=utf-8", **LIMIT, **headers}
        if status == 200 and h.command == "GET":
            headers = {"etag": etag, **headers}
            if wanted == headers["etag"]:
                # As the real one: a 304 has no body and need not repeat the links.
                status, data = 304, b""
                headers.pop("link", None)
        self.log.append(Asked(h.command, h.path, status, wanted is not None))
        h.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            h.send_header(name, value)
        h.end_headers()
        h.wfile.write(data)

    def _answer(self, h: BaseHTTPRequestHandler, body: bytes) -> Answer:
        given = (h.headers["authorization"] or "").removeprefix("Bearer ")
        if given and given != (self.token or TOKEN):
            return _error(401, "Bad credentials")
        url = urlsplit(h.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path == "/graphql":
            return self._graphql(json.loads(body))
        if match := re.fullmatch(r"/(orgs|users)/([^/]+)/repos", url.path):
            owned = [
                r.resource()
                for name, r in sorted(self.repositories.items())
                if name.startswith(f"{match[2]}/") and (given or not r.private)
            ]
            return self._page(h, owned, query) if owned else _error(404, "Not Found")
        if match := re.fullmatch(r"/repositories/(\d+)(/.*)?", url.path):
            repository = next((r for r in self.repositories.values() if r.id == int(match[1])), None)
            rest = match[2] or ""
        elif match := re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", url.path):
            if match[1] in self.renamed:
                where = f"{self.url}/repositories/{self.renamed[match[1]]}{match[2] or ''}"
                return 301, b'{"message": "Moved Permanently"}', {"location": where}
            repository, rest = self.repositories.get(match[1]), match[2] or ""
        else:
            return _error(404, "Not Found")
        if repository is None or (repository.private and not given):
            return _error(404, "Not Found")
        return self._of(h, repository, rest, query)

    def _of(
        self, h: BaseHTTPRequestHandler, repository: Repository, rest: str, query: dict[str, str]
    ) -> Answer:
        if rest == "":
            return _json(repository.resource())
        if rest.startswith("/git/trees/"):
            return self._tree(repository, unquote(rest[11:]), "recursive" in query)
        if rest.startswith("/git/blobs/"):
            data = repository.blob(rest[11:])
            if data is None:
                return _error(404, "Not Found")
            content = base64.encodebytes(data).decode()
            return _json({"sha": rest[11:], "size": len(data), "encoding": "base64", "content": content})
        if rest == "/issues":
            since = query.get("since", "")
            found = [x for x in repository.issues if x["updated_at"] >= since]
            return self._page(h, found, query)
        if rest == "/issues/comments":
            return self._page(h, repository.comments, query)
        if rest == "/pulls/comments":
            return self._page(h, repository.review_comments, query)
        if rest == "/releases":
            return self._page(h, repository.releases, query)
        if match := re.fullmatch(r"/pulls/(\d+)/reviews", rest):
            of = [
                {k: v for k, v in r.items() if k != "of"}
                for r in repository.reviews
                if r["of"] == int(match[1])
            ]
            return self._page(h, of, query)
        return _error(404, "Not Found")

    def _tree(self, repository: Repository, ref: str, recursive: bool) -> Answer:
        if not repository.files:
            return _error(409, "Git Repository is empty.")
        trees = repository.trees()
        folder = next(
            (
                f
                for f, entries in trees.items()
                if ref in (repository.branch if not f else None, tree_hash(entries))
            ),
            None,
        )
        if folder is None:
            return _error(404, "Not Found")
        entries = list(trees[folder])
        if recursive:
            beneath = f"{folder}/" if folder else ""
            entries = [
                {**e, "path": f"{f}/{e['path']}"[len(beneath) :] if f else e["path"]}
                for f, each in sorted(trees.items())
                if f == folder or f.startswith(beneath)
                for e in each
            ]
        truncated = recursive and len(entries) > repository.most_entries
        entries = entries[: repository.most_entries] if truncated else entries
        return _json({"sha": tree_hash(trees[folder]), "tree": entries, "truncated": truncated})

    def _page(self, h: BaseHTTPRequestHandler, found: list[Any], query: dict[str, str]) -> Answer:
        size = min(int(query.get("per_page", 30)), self.per_page)
        number = int(query.get("page", 1))
        links = []
        path = urlsplit(h.path).path
        last = max(1, -(-len(found) // size))
        for relation, page in (("next", number + 1), ("last", last)):
            if number < last:
                links.append(f'<{self.url}{path}?{urlencode({**query, "page": page})}>; rel="{relation}"')
        return _json(found[(number - 1) * size : number * size], link=", ".join(links))

    def _git(self, h: BaseHTTPRequestHandler, body: bytes) -> Answer:
        """What git itself answers (``git http-backend``)."""
        url = urlsplit(h.path)
        name = url.path.partition(".git/")[0].removeprefix("/")
        if self.wikis is None or not (self.wikis / f"{name}.git").is_dir():
            return _error(404, "Not Found")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.wikis),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": url.path,
            "QUERY_STRING": url.query,
            "REQUEST_METHOD": h.command,
            "CONTENT_TYPE": h.headers["content-type"] or "",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_GIT_PROTOCOL": h.headers["git-protocol"] or "",
            "HTTP_CONTENT_ENCODING": h.headers["content-encoding"] or "",
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
        )
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n"))
        return int(headers.pop("status", "200").split()[0]), data, headers

    def _graphql(self, asked: dict[str, Any]) -> Answer:
        query, variables = asked["query"], asked["variables"]

        def connection(nodes: list[Any], after: str | None, size: int) -> dict[str, Any]:
            begin = int(after or 0)
            end = begin + size
            info = {"hasNextPage": end < len(nodes), "endCursor": str(end)}
            return {"pageInfo": info, "nodes": nodes[begin:end]}

        def comment(c: dict[str, Any], after: str | None = None) -> dict[str, Any]:
            return {**c, "replies": connection(c.get("replies", []), after, self.per_page)}

        def discussion(d: dict[str, Any], after: str | None = None) -> dict[str, Any]:
            comments = connection([comment(c) for c in d["comments"]], after, self.per_page)
            return {**d, "comments": comments}

        every = [d for r in self.repositories.values() for d in r.discussions]
        if "repository(" in query:
            repository = self.repositories.get(f"{variables['owner']}/{variables['name']}")
            if repository is None:
                return _json({"data": {"repository": None}, "errors": [{"type": "NOT_FOUND"}]})
            found = connection(
                [discussion(d) for d in repository.discussions], variables.get("after"), self.per_page
            )
            return _json({"data": {"repository": {"discussions": found}}})
        if "... on DiscussionComment" in query:
            (found,) = [c for d in every for c in d["comments"] if c["id"] == variables["id"]]
            return _json({"data": {"node": comment(found, variables.get("replies"))}})
        (found,) = [d for d in every if d["id"] == variables["id"]]
        return _json({"data": {"node": discussion(found, variables.get("comments"))}})


def _json(value: object, **headers: str) -> Answer:
    return 200, json.dumps(value).encode(), {name: v for name, v in headers.items() if v}


def _error(status: int, message: str) -> Answer:
    return (
        status,
        json.dumps({"message": message, "documentation_url": "https://docs.github.com"}).encode(),
        {},
    )
