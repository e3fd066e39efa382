"""Speed and memory of Elasticsearch: hits asked for page by page, and made into documents, embedding apart.

    python benchmarks/elasticsearch_hits.py

10,000 documents, once as hits of their own and once as groups of ten within an hour, from a server on this
machine that makes each page up as it is asked for; and a tenth of them, whose memory is to be the same.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
import tracemalloc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.model.records import Fetched
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import document_forms, open_connector
from taboot_pipelines.sources.sources_file import parse_entry

DOCUMENTS, GROUP = 10_000, 10
BASE = 1_700_000_000_000
HOUR = 3_600_000


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hits = 0
    grouped = False

    def do_GET(self) -> None:
        self._send({"cluster_name": "c", "version": {"number": "9.1.0"}})

    def do_DELETE(self) -> None:
        self._body()
        self._send({"succeeded": True})

    def do_POST(self) -> None:
        body = self._body()
        if "_pit" in self.path:
            self._send({"id": "p"})
        elif "_count" in self.path:
            self._send({"count": 0})
        else:
            first = body["search_after"][1] + 1 if "search_after" in body else 0
            last = min(self.hits, first + body["size"])
            self._send(
                {"_shards": {"failed": 0}, "hits": {"hits": [self._hit(n) for n in range(first, last)]}}
            )

    def _hit(self, n: int) -> dict[str, Any]:
        at = BASE + (n // GROUP * HOUR + n % GROUP if self.grouped else n * 1000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000)) + f".{at % 1000:03}Z"
        source = {
            "@timestamp": stamp,
            "message": f"GET /api/items/{n} answered 200 in {n % 90} ms for the proxy of the house",
            "log": {"level": ("info", "warn")[n % 9 == 0]},
            "service": {"name": "proxy"},
            "client": {"ip": f"10.0.{n // 256 % 256}.{n % 256}"},
        }
        return {"_index": "logs-1", "_id": f"i{n}", "_seq_no": n, "_source": source, "sort": [stamp, n]}

    def _body(self) -> Any:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        return json.loads(data) if data else {}

    def _send(self, said: object) -> None:
        data = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def serve(hits: int, grouped: bool, told: Connection) -> None:
    Server.hits, Server.grouped = hits, grouped
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    told.send(server.server_port)
    server.serve_forever()


def documents(hits: int, grouped: bool, folder: Path) -> int:
    """Ask for all hits and make each item a document; return how many."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(hits, grouped, there), daemon=True
    )
    process.start()
    try:
        entry: dict[str, Any] = {"id": "es", "type": "elasticsearch", "index": ["logs-*"], "cluster": False}
        entry |= {"base_url": f"http://127.0.0.1:{here.recv()}", "max_requests": 10_000}
        if grouped:
            entry["group_by"] = "service.name"
        access = Access.of(Settings(home=folder), folder)
        made = 0
        for event in open_connector(parse_entry(entry), access).events({}, lambda _: False):
            if isinstance(event, Fetched):
                parse_document(
                    event.data,
                    path=event.path,
                    mime=event.mime,
                    charset=None,
                    languages=["en"],
                    max_chars=20_000_000,
                    forms=document_forms(),
                )
                made += 1
        return made
    finally:
        process.terminate()
        process.join()


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        documents(100, False, folder)
        for grouped in (False, True):
            what = f"groups of {GROUP} hits" if grouped else "hits"
            each = GROUP if grouped else 1
            wall, cpu = time.perf_counter(), time.process_time()
            made = documents(DOCUMENTS * each, grouped, folder)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(
                f"{made} {what}: {made / wall:.0f} documents/s, {made * each / wall:.0f} hits/s"
                f" (a CPU second: {made / cpu:.0f} and {made * each / cpu:.0f})"
            )
            for size in (DOCUMENTS // 10, DOCUMENTS):
                tracemalloc.start()
                documents(size * each, grouped, folder)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                print(f"  {size} documents: peak {peak / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
