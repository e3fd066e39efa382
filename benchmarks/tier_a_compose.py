"""Tier A on Compose files: agreement with a gold file and documents a second, beside PyYAML's plain load.

    python benchmarks/tier_a_compose.py [FOLDER] [--seconds 3]

FOLDER holds compose files and a ``gold.jsonl`` with one line per file: ``{"file", "services": {name:
{"image", "build", "container_name", "ports", "networks", "network_mode", "depends_on", "links", …}},
"networks"}``, a plain reading of the YAML. The gold is read through the mapping here, by code of its own, and
compared by node and by edge. ``dockerfile_from`` and the edges that the gold does not speak of are counted
but not judged.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from taboot_pipelines.extraction.tier_a.compose.extractor import ComposeExtractor
from taboot_pipelines.extraction.tier_a.compose.variables import expand, parse_env
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts, UnitSpec

SOURCE = SourceFacts("default", "lab")
Fact = tuple[object, ...]


def default_folder() -> Path:
    data = os.environ.get("TABOOT_TEST_DATA")
    return (
        Path(data) if data else Path(__file__).resolve().parents[1].parent / "shared" / "data"
    ) / "awesome-compose"


def gold_facts(line: dict, main_files: set[str], texts: dict[str, str]) -> set[Fact]:
    """The facts that one gold line states, by the mapping's rules. What the gold leaves out (the project's
    name, the networks' real names, ``.env``) is read from the YAML."""
    path = line["file"]
    dotenv = texts.get(f"{path.rpartition('/')[0]}/.env".lstrip("/"), "")
    line = json.loads(expand(json.dumps(line), parse_env(dotenv, {})).text)
    document = yaml.safe_load(texts[path])
    folder, _, file = path.rpartition("/")
    base = folder.rpartition("/")[2] or SOURCE.source_id
    named = document.get("name") or (base if path in main_files else f"{base}-{file.rpartition('.')[0]}")
    project = re.sub(r"[^a-z0-9_-]", "", named.lower()).lstrip("_-")
    facts: set[Fact] = set()
    for name, service in line["services"].items():
        facts |= {("Service", project, name), ("Container", project, name)}
        image = service["image"]
        written = image or f"{project}-{name}"
        reference = try_reference(written)
        if (image or service["build"]) and reference and "$" not in written:
            facts.add(("BUILDS", project, name, reference.name))
        for target in [*service["depends_on"], *(link.partition(":")[0] for link in service["links"])]:
            facts.add(("DEPENDS_ON", project, name, target))
        mode = service["network_mode"] or ""
        if mode.startswith("service:"):
            facts.add(("DEPENDS_ON", project, name, mode[8:]))
        for entry in service["ports"]:
            facts |= {("BINDS", project, name, *binding) for binding in gold_ports(entry)}
        if mode in ("host", "bridge"):
            facts.add(("RUNS_IN", project, name, mode))
        elif not mode:
            declared = document.get("networks") or {}
            facts |= {
                ("RUNS_IN", project, name, real_network(project, n, declared.get(n) or {}))
                for n in service["networks"] or ["default"]
            }
    return facts


def real_network(project: str, name: str, declared: dict) -> str:
    external = declared.get("external")
    if isinstance(external, dict) and external.get("name"):
        return external["name"]
    return declared.get("name") or (name if external else f"{project}_{name}")


def gold_ports(entry: object) -> set[tuple[str, int, str]]:
    """(address, published port, protocol) of a port entry as the gold writes it."""
    if isinstance(entry, dict):
        if entry.get("published") in (None, ""):
            return set()
        address, published, protocol = (
            entry.get("host_ip") or "0.0.0.0",
            str(entry["published"]),
            entry.get("protocol") or "tcp",
        )
    else:
        text, _, protocol = str(entry).partition("/")
        *head, published, _target = text.rsplit(":", 2) if ":" in text else ("", "")
        address, protocol = (head[0].strip("[]") if head and head[0] else "0.0.0.0"), protocol or "tcp"
    if not re.fullmatch(r"\d+(-\d+)?", published):
        return set()
    first, _, last = published.partition("-")
    return {(address, port, protocol) for port in range(int(first), int(last or first) + 1)}


def found_facts(result: Interpretation) -> set[Fact]:
    """What the extractor says, in the form of the gold's facts. Networks by their real name, builds without
    FROM.
    """
    facts: set[Fact] = set()
    for claim in result.nodes:
        if claim.node.label == "Service" and claim.declared:
            facts.add(("Service", claim.node.key[0].partition("/")[2], claim.node.key[1]))
    service_of: dict[tuple[object, ...], tuple[str, str]] = {}
    for claim in result.nodes:
        if claim.node.label == "Container":
            service_of[claim.node.key] = (
                claim.properties["composeProject"],
                claim.properties["composeService"],
            )
            facts.add(("Container", *service_of[claim.node.key]))
    for edge in result.edges:
        if edge.type == "RUNS_IN":
            facts.add(("RUNS_IN", *service_of[edge.start.key], edge.end.name))
        if edge.start.label != "Service":
            continue
        who = (edge.start.key[0].partition("/")[2], edge.start.key[1])
        if edge.type == "BUILDS" and edge.method != "dockerfile_from":
            facts.add(("BUILDS", *who, edge.end.name))
        elif edge.type == "DEPENDS_ON":
            facts.add(("DEPENDS_ON", *who, edge.end.name))
        elif edge.type == "BINDS":
            facts.add(("BINDS", *who, edge.end.name, edge.properties["port"], edge.properties["protocol"]))
    return facts


def rate(work: Callable[[], int], seconds: float) -> float:
    """Items a second of the best of the rounds that fit into ``seconds``."""
    best, until = 0.0, time.perf_counter() + seconds
    gc.collect()
    while time.perf_counter() < until:
        start = time.perf_counter()
        items = work()
        best = max(best, items / (time.perf_counter() - start))
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder())
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    root: Path = arguments.folder
    texts = {
        p.relative_to(root).as_posix(): p.read_text("utf-8", "replace")
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }
    paths = frozenset(texts)
    extractor = ComposeExtractor()
    units = extractor.units(paths)

    def run(unit: UnitSpec) -> Interpretation:
        return extractor.interpret(unit, FileView(paths, texts.__getitem__), SOURCE)

    results = {unit.name: run(unit) for unit in units}
    gold = [json.loads(line) for line in texts.get("gold.jsonl", "").splitlines() if line.strip()]
    mains = set()
    for folder in {p.rpartition("/")[0] for p in paths}:
        for name in ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"):
            path = f"{folder}/{name}" if folder else name
            if path in paths:
                mains.add(path)
                break
    want = {line["file"]: gold_facts(line, mains, texts) for line in gold if "services" in line}
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for path, expected in want.items():
        said = found_facts(results[path]) if path in results else set()
        for kind in ("Service", "Container", "DEPENDS_ON", "BUILDS", "BINDS", "RUNS_IN"):
            a, b = {f for f in expected if f[0] == kind}, {f for f in said if f[0] == kind}
            counts[kind].update(both=len(a & b), missing=len(a - b), surplus=len(b - a))
            for label, facts in (("missing", a - b), ("surplus", b - a)):
                for fact in sorted(facts, key=str):
                    print(f"  {label:8} {path}: {fact}")
    print(f"{root}: {len(want)} files in the gold, {len(units)} units")
    print(f"{'':12} {'gold':>6} {'found':>6} {'precision':>10} {'recall':>8} {'F1':>8}")
    for kind, c in counts.items():
        gold_n, found_n = c["both"] + c["missing"], c["both"] + c["surplus"]
        p, r = (c["both"] / found_n if found_n else 1.0), (c["both"] / gold_n if gold_n else 1.0)
        print(
            f"{kind:12} {gold_n:6} {found_n:6} {p:10.4f} {r:8.4f}"
            f" {2 * p * r / (p + r) if p + r else 0.0:8.4f}"
        )
    others = collections.Counter(e.method for result in results.values() for e in result.edges)
    bases = collections.Counter(
        b.value for result in results.values() for e in result.edges for b in (e.start_basis, e.end_basis)
    )
    print("edges by method:", dict(others.most_common()))
    print("ends by basis:", dict(bases.most_common()))
    print("problems:", sum(len(result.problems) for result in results.values()))

    compose = [unit for unit in units if results[unit.name].nodes]
    if compose:
        main_texts = [texts[unit.files[0]] for unit in compose]
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        ours = rate(lambda: len([run(unit) for unit in compose]), arguments.seconds)
        peer = rate(lambda: len([yaml.load(text, loader) for text in main_texts]), arguments.seconds)
        print(
            f"documents/s: extraction {ours:,.0f}, PyYAML CSafeLoader load alone {peer:,.0f}, ratio"
            f" {ours / peer:.2f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
