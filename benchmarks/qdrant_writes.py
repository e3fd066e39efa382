"""Points into Qdrant against the raw client: ``python benchmarks/qdrant_writes.py [POINTS] [DIMENSION]``.

The same points (default 8,192 of 384 dimensions, with a sparse vector of 60 terms and their payloads), in the
same batches of 256, written by ``QdrantPoints.upsert``, with all that it checks, and by
``QdrantClient.upsert`` in its two forms (a list of ``PointStruct``; the columnar ``Batch``), in turn, three
times. Prints points a second (the best of three) and ours ÷ the better raw form:

- sink: a server in another process that reads a request and confirms it, so that only the client's part is
  measured;
- fake: the tests' server in another process (qdrant-client's local mode behind HTTP), where the server's part
  rules;
- local: local mode in this process;
- server: where TABOOT_TEST_QDRANT_URL names one. Only this says anything of Qdrant's own speed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

from taboot_pipelines.model import ids
from taboot_pipelines.settings import QdrantSettings
from taboot_pipelines.stores.vectors.points import Points, payload, point_id
from taboot_pipelines.stores.vectors.qdrant import QdrantPoints

BATCH, ROUNDS = 256, 3


def made(count: int, dimension: int) -> Points:
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((count, dimension)).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    shas = [ids.sha256_hex(str(i)) for i in range(count)]
    contents = []
    for i, sha256 in enumerate(shas):
        doc_id = ids.doc_id("default", f"{i // 8}.md")
        contents.append(
            payload(
                "default",
                sha256,
                [
                    {
                        "doc_id": doc_id,
                        "chunk_id": f"{doc_id}:{i % 8}",
                        "chunk_index": i % 8,
                        "url": f"https://docs.example.org/guide/{i // 8}",
                        "title": f"Guide number {i // 8}",
                        "source": "web",
                        "source_id": "docs",
                        "job_id": ids.sha256_hex("job")[:32],
                        "mime": "text/html",
                        "lang": "en",
                        "domain": "docs.example.org",
                        "section_header": "Installation > Ports",
                        "content_type": "prose",
                        "crawled_at": "2024-01-01T00:00:00Z",
                        "text_len": 900,
                        "start": 900 * (i % 8),
                        "end": 900 * (i % 8 + 1),
                        "created_at": 1_704_067_200,
                        "updated_at": 1_704_067_200,
                        "moment": 1_704_067_200_000_000,
                        "tags": ["home", "manual"],
                    }
                ],
                "benchmark",
            )
        )
    sparse = [
        (np.sort(rng.choice(2**32, 60, replace=False)).astype(np.uint32), rng.random(60, dtype=np.float32))
        for _ in range(count)
    ]
    return Points([point_id("default", s) for s in shas], contents, dense, sparse)


def by_structs(client: QdrantClient, name: str, points: Points) -> None:
    for start in range(0, len(points), BATCH):
        part = points.part(start, start + BATCH)
        client.upsert(
            name,
            [
                models.PointStruct(
                    id=p,
                    vector={
                        "dense": v.tolist(),
                        "bm25": models.SparseVector(indices=i.tolist(), values=w.tolist()),
                    },
                    payload=c,
                )
                for p, v, (i, w), c in zip(part.ids, part.dense, part.sparse, part.payloads, strict=True)
            ],
            wait=True,
        )


def by_batches(client: QdrantClient, name: str, points: Points) -> None:
    for start in range(0, len(points), BATCH):
        part = points.part(start, start + BATCH)
        client.upsert(
            name,
            models.Batch(
                ids=list(part.ids),
                payloads=list(part.payloads),
                vectors={
                    "dense": part.dense.tolist(),
                    "bm25": [
                        models.SparseVector(indices=i.tolist(), values=w.tolist()) for i, w in part.sparse
                    ],
                },
            ),
            wait=True,
        )


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None: ...

    def _confirm(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = b'{"result": {"operation_id": 0, "status": "completed"}, "status": "ok", "time": 0.0}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_DELETE = _confirm


def sink() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def measure(where: str, url: str, points: Points, *, empty: bool = False) -> None:
    """``empty``: nothing is stored there, so nothing is created first."""
    space, dimension = "benchmark.0.1", points.dense.shape[1]
    ours = QdrantPoints(
        QdrantSettings(url=url, collection=f"bench-{os.getpid()}", batch_points=BATCH, max_retries=0)
    )
    client = (
        ours._connection.client()
        if url == ":memory:"
        else QdrantClient(url=url, port=None, check_compatibility=False, timeout=60)
    )
    name = ours.collection(space)
    if not empty:
        ours.prepare(space, dimension)
    ways: dict[str, Callable[[], None]] = {
        "QdrantPoints": lambda: ours.upsert("default", space, points),
        "client, PointStruct": lambda: by_structs(client, name, points),
        "client, Batch": lambda: by_batches(client, name, points),
    }
    best = dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for way, write in ways.items():
            start = time.perf_counter()
            write()
            best[way] = max(best[way], len(points) / (time.perf_counter() - start))
    raw = max(v for k, v in best.items() if k != "QdrantPoints")
    print(
        f"{where:7s}"
        + "  ".join(f"{way} {speed:,.0f}/s" for way, speed in best.items())
        + f"  ours ÷ raw {best['QdrantPoints'] / raw:.2f}"
    )
    if not empty:
        ours.drop("default", space)
    ours.close()


def beside(*command: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, f"http://127.0.0.1:{int(process.stdout.readline())}"


def main() -> None:
    warnings.simplefilter("ignore")
    count, dimension = (int(a) for a in [*sys.argv[1:], *["8192", "384"][len(sys.argv) - 1 :]])
    points = made(count, dimension)
    print(f"{count:,} points of {dimension} dimensions, batches of {BATCH}")
    for where, command in (
        ("sink", [__file__, "--sink"]),
        ("fake", ["-m", "taboot_pipelines_tests.fakes.qdrant"]),
    ):
        process, url = beside(*command)
        try:
            measure(where, url, points, empty=where == "sink")
        finally:
            process.kill()
            process.wait()
    measure("local", ":memory:", points)
    server = os.environ.get("TABOOT_TEST_QDRANT_URL")
    if server:
        measure("server", server, points)
    else:
        print("server  skipped: TABOOT_TEST_QDRANT_URL is not set")


if __name__ == "__main__":
    if sys.argv[1:] == ["--sink"]:
        sink()
    else:
        main()
