"""Tier A on nginx confs: F1 against a folder's gold, and speed beside crossplane's parser in the same
process.

    python benchmarks/tier_a_nginx.py [FOLDER]

FOLDER holds confs (each counts as in force, whatever its suffix) and ``gold.jsonl`` with, for each file, its
``server_names`` and ``routes`` of ``location``, ``directive`` and ``resolved`` pass target.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from taboot_pipelines.extraction.tier_a.nginx.extractor import NginxExtractor
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts

DEFAULT = Path(os.environ.get("TABOOT_TEST_DATA", "../shared/data")) / "swag-reverse-proxy-confs"
Fact = tuple[object, ...]


def gold_facts(record: dict) -> dict[str, set[Fact]]:
    """A gold record read through the mapping."""
    routes: set[Fact] = set()
    exposes: set[Fact] = set()
    for route in record["routes"]:
        target = urlsplit(route["resolved"])
        host, port = target.hostname or "", target.port or {"http": 80, "https": 443}[target.scheme]
        host = (
            route["resolved"].split("://", 1)[1].split("/")[0].split(":")[0]
            if "[" not in route["resolved"]
            else host
        )
        endpoint = (target.scheme, host.lower(), port, "/")
        bare = "." not in host and ":" not in host and host != "localhost"
        end: Fact = ("Service", "", host) if bare else ("Endpoint", *endpoint)
        for name in record["server_names"] or [None]:
            routes.add((name, route["location"], end))
        if bare:
            exposes.add((host, endpoint))
    return {"ROUTES_TO": routes, "EXPOSES_ENDPOINT": exposes}


def found_facts(result: Interpretation) -> dict[str, set[Fact]]:
    facts: dict[str, set[Fact]] = {"ROUTES_TO": set(), "EXPOSES_ENDPOINT": set()}
    for edge in result.edges:
        if edge.type == "ROUTES_TO":
            facts[edge.type].add(
                (
                    edge.properties.get("host"),
                    edge.properties.get("location"),
                    (edge.end.label, *edge.end.key),
                )
            )
        else:
            facts[edge.type].add((edge.start.name, edge.end.key))
    return facts


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    gold = {
        r["file"]: r for r in map(json.loads, (folder / "gold.jsonl").read_text("utf-8").splitlines()) if r
    }
    texts = {name: (folder / name).read_text("utf-8", "replace") for name in gold}
    extractor, source = NginxExtractor(), SourceFacts("default", "swag")
    counts = {"ROUTES_TO": [0, 0, 0], "EXPOSES_ENDPOINT": [0, 0, 0]}
    for unit in extractor.units(texts):
        # The files of such a folder do not include one another: each is seen alone.
        result = extractor.interpret(unit, FileView(frozenset([unit.name]), texts.__getitem__), source)
        for problem in result.problems:
            print(f"  {problem.path}: {problem.code} {problem.message}")
        want, have = gold_facts(gold[unit.name]), found_facts(result)
        for kind, count in counts.items():
            count[0] += len(want[kind] & have[kind])
            count[1] += len(have[kind] - want[kind])
            count[2] += len(want[kind] - have[kind])
            for fact in sorted(have[kind] - want[kind], key=repr):
                print(f"  {unit.name}: {kind} {fact} is not in the gold")
            for fact in sorted(want[kind] - have[kind], key=repr):
                print(f"  {unit.name}: {kind} {fact} is in the gold only")
    for kind, (hit, surplus, missed) in counts.items():
        precision, recall = hit / max(1, hit + surplus), hit / max(1, hit + missed)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        print(
            f"{kind}: precision {precision:.4f} recall {recall:.4f} F1 {f1:.4f} ({hit + missed} in the gold)"
        )

    def ours() -> None:
        for unit in extractor.units(texts):
            extractor.interpret(unit, FileView(frozenset([unit.name]), texts.__getitem__), source)

    rate = len(texts) / best(ours)
    print(f"parse and extract: {rate:,.0f} files/s")
    try:
        import crossplane
    except ImportError:
        print("crossplane is not installed (extra `bench`): no peer")
        return 0

    def peer() -> None:
        for name in texts:
            crossplane.parse(str(folder / name), single=True, check_ctx=False, check_args=False)

    peer_rate = len(texts) / best(peer)
    print(f"crossplane.parse alone: {peer_rate:,.0f} files/s; ratio {rate / peer_rate:.1f}")
    return 0


def best(work: object, rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
