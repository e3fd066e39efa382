"""What changed is the difference of two publications, whatever happened in between.

Compose projects, a proxy's configuration and notes change at random, come and go, and are ingested after each
step. What the graph said is written down at every publication; of any two of them ``changes`` tells exactly
what they have otherwise, and the earlier one is what ``as_of`` reads.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from taboot_pipelines.model.graph import EDGES
from taboot_pipelines.retrieval import KnowledgeBase
from taboot_pipelines.retrieval.verbalization import BOOKKEEPING
from taboot_pipelines_tests.fakes.tei import FakeTei
from taboot_pipelines_tests.world import World

HISTORIES = int(os.environ.get("TABOOT_TEST_HISTORIES", "2"))

FILES = {
    "stacks/media/compose.yaml": [
        "services:\n  web:\n    image: nginx:1.25\n    ports: ['80:80']\n    depends_on: [db]\n"
        "  db:\n    image: postgres:15\n",
        "services:\n  web:\n    image: nginx:1.27\n    ports: ['8080:80']\n    depends_on: [cache]\n"
        "  cache:\n    image: redis:7\n",
        "services:\n  web:\n    image: nginx:1.25\n    ports: ['80:80']\n    depends_on:\n"
        "      db: {condition: service_healthy}\n  db:\n    image: postgres:15\n    restart: always\n",
        "services:\n  web:\n    image: nginx:1.25\n    ports: ['81:80', '82:80']\n"
        "    depends_on: [db, cache]\n  db:\n    image: postgres:15\n  cache:\n    image: redis:7\n",
        "services: [broken\n",
    ],
    "stacks/more/compose.yaml": [
        "services:\n  web:\n    image: caddy:2\n",
        "services:\n  db:\n    image: mariadb:11\n    networks: [back]\nnetworks: {back: {}}\n",
    ],
    "proxy/web.subdomain.conf": [
        "server {\n  server_name web.*;\n  location / { proxy_pass http://web:80; }\n}\n",
        "server {\n  server_name web.*;\n  location / { proxy_pass http://db:5432; }\n}\n",
        "server {\n  server_name web.* shop.example.com;\n"
        "  location /shop { proxy_pass https://web:443; }\n}\n",
    ],
    "notes/runbook.md": [
        "# Runbook\n\nThe service web depends on db.\n",
        "# Runbook\n\nRestart cache first. web listens on port 80.\n",
    ],
}
STEPS = st.lists(st.tuples(st.sampled_from(sorted(FILES)), st.integers(0, 5)), min_size=2, max_size=5)

Said = dict[tuple[Any, ...], frozenset[str]]


def told(properties: str) -> dict[str, Any]:
    return {k: v for k, v in json.loads(properties).items() if k not in BOOKKEEPING and v is not None}


def graph(kb: KnowledgeBase) -> Said:
    """Everything that the graph says, by what it says it of."""
    found: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in kb.edges().to_pylist():
        if row["type"] != "MENTIONS":
            properties = told(row["properties"])
            key = (row["type"], *(row[c] for c in ("start_label", "start_key", "end_label", "end_key")))
            found[(*key, *(str(properties.get(n)) for n in EDGES[row["type"]].identifying))].add(
                json.dumps(properties, sort_keys=True)
            )
    for row in kb.nodes().to_pylist():
        if row["label"] != "Document":
            found[row["label"], row["key"]].add(json.dumps(told(row["properties"]), sort_keys=True))
    return {key: frozenset(said) for key, said in found.items()}


def keyed(change: Any, side: Any) -> tuple[Any, ...]:
    if change.what == "thing":
        return tuple(side.key)
    names = EDGES[change.type].identifying
    return (change.type, *side.key, *(str(side.properties.get(n)) for n in names))


def check(kb: KnowledgeBase, moment: datetime, before: Said, after: Said) -> None:
    found = kb.changes(moment, limit=100_000)
    gone, come, other = set(), set(), set()
    for change in found.facts:
        sides = [s and keyed(change, s) for s in (change.before, change.after)]
        assert (sides[0] is None, sides[1] is None) == (change.change == "added", change.change == "removed")
        if sides[0] == sides[1]:
            other.add(sides[0])
        else:
            gone |= {sides[0]} - {None}
            come |= {sides[1]} - {None}
    assert gone == before.keys() - after.keys()
    assert come == after.keys() - before.keys()
    assert other == {k for k in before.keys() & after.keys() if before[k] != after[k]}
    assert graph(kb.as_of(moment)) == before


@settings(
    max_examples=HISTORIES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    derandomize=HISTORIES < 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
# A fact that says something else, and one in the place of which there are two.
@example(steps=[("stacks/media/compose.yaml", 2), ("stacks/media/compose.yaml", 3)])
def test_changes_are_the_difference_of_two_publications(
    tmp_path: Path, tei: FakeTei, steps: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        world = World(Path(folder), tei.url)
        compared(world, steps)
        world.workspace.close()


def compared(world: World, steps: list[tuple[str, int]]) -> None:
    """Ingest after each step, and compare what changed since every step with what was written down."""
    for source, type_ in (("stacks", "compose"), ("proxy", "swag"), ("notes", "files")):
        folder = world.source(source, type_, interpret=True if type_ == "files" else None)
        (folder / "kept.md").write_text("# Kept\n\nNothing is said here.\n")
    said: list[tuple[datetime, Said]] = []
    for name, choice in [("stacks/media/compose.yaml", 0), ("proxy/web.subdomain.conf", 0), *steps]:
        path = world.directory / name
        path.parent.mkdir(exist_ok=True)
        if choice < len(FILES[name]):
            path.write_text(FILES[name][choice])
        else:
            path.unlink(missing_ok=True)
        world.ingest(confirm_deletes=True)
        time.sleep(0.002)
        said.append((datetime.now(UTC), graph(world.kb())))
        time.sleep(0.002)
    kb = world.kb()
    for moment, before in said:
        check(kb, moment, before, said[-1][1])
