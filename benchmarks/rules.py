"""How long all rules take over a house of a thousand services, the first time and again.

    python benchmarks/rules.py [--projects 250] [--home HOME]

The house is made here: projects of four services each, with a proxy conf for each. HOME: one that is there is
looked at instead. The first time everything is read: graph, declarations and texts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.settings import load_settings
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

MAX_SECONDS = 2.0

COMPOSE = """
services:
  web{n}:
    image: example/web:1.{n}
    container_name: web{n}
    restart: unless-stopped
    depends_on: {{api{n}: {{condition: service_healthy}}}}
    ports: ["{port}:80"]
    networks: [edge]
    labels: {{traefik.enable: "true", team: "t{n}"}}
  api{n}:
    image: example/api:2
    restart: unless-stopped
    environment:
      DATABASE_URL: postgres://app@db{n}:5432/app
      REDIS_URL: redis://cache{n}:6379
      LOG_LEVEL: info
    healthcheck: {{test: [CMD, curl, -f, "http://localhost:8080/health"], interval: 30s}}
    volumes: ["./config:/config:ro", "data{n}:/data"]
  db{n}:
    image: postgres:16
    restart: unless-stopped
    volumes: ["pg{n}:/var/lib/postgresql/data"]
    environment: {{POSTGRES_PASSWORD_FILE: /run/secrets/db}}
  cache{n}: {{image: redis, restart: always, mem_limit: 128m}}
volumes:
  data{n}: {{}}
  pg{n}: {{}}
networks:
  edge: {{external: true}}
"""
CONF = """
server {{
    listen 443 ssl;
    server_name web{n}.example.org;
    location / {{ proxy_pass http://web{n}:80; }}
}}
"""


def make(world: World, projects: int) -> Path:
    stacks = world.source("stacks", "compose", host="nas", proxy="edge")
    proxy = world.source("proxy", "swag", proxy="edge")
    for n in range(projects):
        (stacks / f"p{n}").mkdir()
        (stacks / f"p{n}" / "compose.yaml").write_text(COMPOSE.format(n=n, port=10_000 + n))
        (proxy / f"web{n}.conf").write_text(CONF.format(n=n))
    world.ingest()
    return world.home


def measure(home: Path) -> bool:
    kb = KnowledgeBase.open(settings=load_settings(home=home), read_only=True)
    kb.rules("privileged", limit=1)  # Python loads what it needs
    kb = KnowledgeBase.open(settings=load_settings(home=home), read_only=True)
    taken = []
    for _ in range(2):
        start, used = time.perf_counter(), time.process_time()
        report = kb.rules(limit=100_000)
        taken.append((time.perf_counter() - start, time.process_time() - used))
    print(f"{len(report.rules)} rules, {report.total:,} findings")
    for what, (wall, cpu) in zip(("first", "again"), taken, strict=True):
        print(f"{what} {wall:.2f} s, of which {cpu:.2f} s of a processor (bar {MAX_SECONDS:.1f})")
    return taken[0][0] <= MAX_SECONDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--projects", type=int, default=250)
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    if chosen.home is not None:
        return 0 if measure(chosen.home) else 1
    with tempfile.TemporaryDirectory() as folder, FakeTei(dimension=16) as tei:
        return 0 if measure(make(World(Path(folder), tei.url), chosen.projects)) else 1


if __name__ == "__main__":
    sys.exit(main())
