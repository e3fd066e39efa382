"""A fake of Docker's Engine API on a Unix socket, and of what Kubernetes' API lists, over TCP.

They are fakes: what runs is what a test puts into them. In a test::

    with FakeDocker(tmp_path / "docker.sock") as engine:
        engine.containers["a" * 64] = {...}  # as ``docker inspect`` has it
        ... {"socket": engine.path} ...
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "swordfish-of-a-service-account"


SECRET = "hunter2-planted-secret"


def inspected(service: str, image: str, **said: Any) -> dict[str, Any]:
    """A container as ``docker inspect`` has it, of the project ``media``."""
    project = said.get("project", "media")
    bindings = said.get("ports", {})
    return {
        "Id": said.get("id", f"{sum(map(ord, service)):x}".rjust(64, "a")),
        "Created": "2026-11-01T10:00:00.0Z",
        "State": {
            "Status": said.get("state", "running"),
            "Running": said.get("state", "running") == "running",
        }
        | {"ExitCode": said.get("code", 0)},
        "Image": f"sha256:{'b' * 64}",
        "Name": f"/{said.get('name', f'{project}-{service}-1')}",
        "HostConfig": {
            "NetworkMode": "bridge",
            "PortBindings": bindings,
            "RestartPolicy": {"Name": said.get("restart", "no"), "MaximumRetryCount": 0},
        },
        "Mounts": said.get("mounts", []),
        "Config": {
            "Image": image,
            "Env": [f"POSTGRES_PASSWORD={SECRET}", "TZ=UTC"],
            "Labels": {
                "com.docker.compose.project": project,
                "com.docker.compose.service": service,
                "com.docker.compose.project.working_dir": "/srv/media",
                "com.docker.compose.config-hash": "0" * 64,
            }
            if project
            else {},
        },
        "NetworkSettings": {"Ports": bindings, "Networks": {n: {} for n in said.get("networks", [])}},
    }


def jellyfin(**changed: Any) -> dict[str, Any]:
    said: dict[str, Any] = {
        "image": "jellyfin/jellyfin:10.10.7",
        "name": "jellyfin",
        "restart": "unless-stopped",
        "ports": {"8096/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8096"}]},
        "networks": ["media_front"],
        "mounts": [
            {"Type": "bind", "Source": "/srv/media/config", "Destination": "/config", "RW": True},
            {
                "Type": "volume",
                "Name": "media_cache",
                "Source": "/var/lib/docker/volumes/media_cache/_data",
                "Destination": "/cache",
                "RW": False,
            },
        ],
    }
    return inspected("jellyfin", **{**said, **changed})


DB = inspected(
    "db",
    "postgres:16",
    networks=["media_default"],
    # What an image declares as a volume is one that nobody named.
    mounts=[{"Type": "volume", "Name": "c" * 64, "Destination": "/var/lib/postgresql/data", "RW": True}],
)


class _Fake:
    """Answers GET by what :meth:`answer` says, and counts; everything else is 405."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self.failing: dict[str, int] = {}
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not self.path.startswith("/"):
                    return self.send_error(400, "this is no proxy")
                parts = urlsplit(self.path)
                fake.hits[parts.path] += 1
                given = {k: v[0] for k, v in parse_qs(parts.query).items()}
                status, body = fake.answer(parts.path, given, self.headers.get("authorization", ""))
                status = fake.failing.get(parts.path, status)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def address_string(self) -> str:
                return "fake"

            def log_message(self, *_: Any) -> None:
                pass

        self._server = self._listen(Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def _listen(self, handler: type[BaseHTTPRequestHandler]) -> socketserver.BaseServer:
        return ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def answer(self, path: str, given: dict[str, str], authorization: str) -> tuple[int, Any]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class FakeDocker(_Fake):
    """``containers``: by id, as ``docker inspect`` has them."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.containers: dict[str, dict[str, Any]] = {}
        super().__init__()

    def _listen(self, handler: type[BaseHTTPRequestHandler]) -> socketserver.BaseServer:
        assert hasattr(socket, "AF_UNIX")
        return _UnixServer(self.path, handler)

    def answer(self, path: str, given: dict[str, str], authorization: str) -> tuple[int, Any]:
        if path == "/containers/json":
            shown = [
                c for c in self.containers.values() if given.get("all") == "true" or c["State"]["Running"]
            ]
            return 200, [{"Id": c["Id"], "Names": [c["Name"]], "State": c["State"]["Status"]} for c in shown]
        number = path.removeprefix("/containers/").removesuffix("/json")
        if number in self.containers:
            return 200, self.containers[number]
        return 404, {"message": f"No such container: {number}"}


class FakeKubernetes(_Fake):
    """``objects``: pods, deployments and so on by the last part of their path, in pages of two."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = {}
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str, given: dict[str, str], authorization: str) -> tuple[int, Any]:
        if authorization != f"Bearer {TOKEN}":
            return 401, {"kind": "Status", "status": "Failure", "reason": "Unauthorized", "code": 401}
        held = self.objects.get(path.rpartition("/")[2], [])
        start = int(given.get("continue", "0"))
        after = str(start + 2) if start + 2 < len(held) else ""
        return 200, {"kind": "List", "metadata": {"continue": after}, "items": held[start : start + 2]}
