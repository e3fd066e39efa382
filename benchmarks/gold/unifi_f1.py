"""The UniFi reader against its labels: precision, recall and F1 of each kind of node and edge.

    python benchmarks/gold/unifi_f1.py [--missing]

``unifi.jsonl`` labels the half of ``shared/data/unifi`` that ``inventories.md`` names. ``unifi-made.jsonl``
labels the files of ``unifi-made``, which hold what that half has none of (clients, port forwards, DNS
records, VPN): they were written after the published forms of the APIs, and labelled before the reader was
run on them. Each file is a source of its own. ``--missing`` prints what was found in vain and what was
missed. A label counts as quoted where it is labelled if the evidence is the value at its pointer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold.check import DATA, GOLD, SOURCE, identity, read_labels
from taboot_pipelines.extraction.tier_a.unifi.extractor import UnifiExtractor
from taboot_pipelines.model import ids, json_text
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts

NAMESPACE, SOURCE_ID = "default", "unifi"
SETS = {"unifi": DATA / "unifi", "unifi-made": GOLD / "unifi-made"}
#: What the reader must reach 0.99 in.
MEASURED = ("Host", "IP", "Network", "RESOLVES_TO")

#: A file, a kind, and what makes it another one.
Fact = tuple[str, str, str]


def interpreted(name: str, text: str) -> Interpretation:
    """What the reader says of one file."""
    extractor = UnifiExtractor()
    (unit,) = extractor.units([name])
    view = FileView(frozenset([name]), {name: text}.__getitem__)
    return extractor.interpret(unit, view, SourceFacts(NAMESPACE, SOURCE_ID))


def expected(labels: list[dict[str, Any]]) -> dict[Fact, dict[str, Any]]:
    """{fact: its label}"""
    found = {}
    for label in labels:
        if label["kind"] == "node":
            key = _key(label["label"], label["key"])
            found[(label["file"], label["label"], json.dumps([label["label"], key]))] = label
        elif label["kind"] == "edge":
            ends = {
                end: {"label": label[end]["label"], "key": _key(label[end]["label"], label[end]["key"])}
                for end in ("source", "target")
            }
            found[(label["file"], label["type"], identity({**label, **ends}))] = label
    return found


def _key(label: str, key: Any) -> Any:
    """A key with the id of the source in it; a tunnel's is a hash of its parts."""
    parts = [part.replace(SOURCE, SOURCE_ID) for part in ([key] if isinstance(key, str) else key)]
    if label == "VPNTunnel":
        return ids.digest(NAMESPACE, *parts)
    return parts[0] if len(parts) == 1 else parts


def found(name: str, text: str) -> dict[Fact, tuple[int, Mapping[str, Any]]]:
    """{fact: (where its evidence begins, its properties)} of what the reader says of a file."""
    said = interpreted(name, text)
    facts: dict[Fact, tuple[int, Mapping[str, Any]]] = {}
    for node in said.nodes:
        label, key = node.node.label, node.node.key
        shown = list(key) if len(key) > 1 else key[0]
        facts[(name, label, json.dumps([label, shown]))] = (node.evidence.start, node.properties)
    for edge in said.edges:
        ends = {
            end: {"label": ref.label, "key": list(ref.key) if len(ref.key) > 1 else ref.key[0]}
            for end, ref in (("source", edge.start), ("target", edge.end))
        }
        one = {"kind": "edge", "type": edge.type, **ends, "properties": edge.properties}
        facts[(name, edge.type, identity(one))] = (edge.evidence.start, edge.properties)
    return facts


def pointed(value: json_text.Value, pointer: str) -> int:
    """Where the value at a JSON pointer begins; -1 where nothing stands."""
    steps = [int(s) if s.isdigit() else s for s in pointer.split("/")[1:]]
    at = value.at(*steps)
    return -1 if at is None else at.start


def measured(name: str) -> tuple[dict[str, list[int]], list[str], list[int]]:
    """({kind: [found and labelled, found, labelled]}, what differs, [labels at their place, and with their
    properties, labels found]) of one set."""
    folder = SETS[name]
    labels = read_labels(GOLD / f"{name}.jsonl")
    want = expected(labels)
    texts = {file: (folder / file).read_text("utf-8") for file in sorted({one["file"] for one in labels})}
    have = {fact: place for file, text in texts.items() for fact, place in found(file, text).items()}
    counts: dict[str, list[int]] = {}
    for fact in want.keys() | have.keys():
        count = counts.setdefault(fact[1], [0, 0, 0])
        count[0] += fact in want and fact in have
        count[1] += fact in have
        count[2] += fact in want
    differs = [f"{fact[0]}: {fact[2]} is not labelled" for fact in sorted(have.keys() - want.keys())]
    differs += [f"{fact[0]}: {fact[2]} is missed" for fact in sorted(want.keys() - have.keys())]
    places = [0, 0, 0]
    for fact in sorted(want.keys() & have.keys()):
        start, properties = have[fact]
        placed = pointed(json_text.parse(texts[fact[0]]), want[fact]["at"]) == start
        stated = want[fact].get("properties", {})
        held = all(properties.get(key) == value for key, value in stated.items())
        places[0] += placed
        places[1] += held
        places[2] += 1
        if not placed:
            differs.append(f"{fact[0]}: {fact[2]} is quoted elsewhere than {want[fact]['at']}")
        if not held:
            differs.append(f"{fact[0]}: {fact[2]} has {dict(properties)} and not {stated}")
    return counts, differs, places


def f1(count: list[int]) -> tuple[float, float, float]:
    """Precision, recall and F1 of [found and labelled, found, labelled]."""
    precision = count[0] / count[1] if count[1] else 1.0
    recall = count[0] / count[2] if count[2] else 1.0
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def main() -> int:
    below = False
    for name in SETS:
        counts, differs, places = measured(name)
        print(f"{name}:")
        for kind in (*MEASURED, *sorted(counts.keys() - set(MEASURED))):
            precision, recall, score = f1(counts.get(kind, [0, 0, 0]))
            below |= kind in MEASURED and score < 0.99
            print(
                f"  {kind:12} precision {precision:.4f}  recall {recall:.4f}  F1 {score:.4f}"
                f"  ({counts.get(kind, [0, 0, 0])[2]} labelled)"
            )
        print(f"  {places[0]} of {places[2]} quoted where labelled, {places[1]} with the labelled properties")
        if "--missing" in sys.argv:
            for line in differs:
                print(f"    {line}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
