"""Measures the reader of tailnets: its nodes and RESOLVES_TO against the labels of ``tailscale.jsonl``, its
CONNECTS_TO against packet filters that were recorded, or derived by hand from published semantics.

``python benchmarks/gold/tailscale.py [--captures FOLDER]`` prints precision, recall and F1; with ``--wrong``
also what is missing (-) and what is found in vain (+).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gold import check
from benchmarks.gold import packet_filters as pf
from taboot_pipelines.extraction.tier_a.tailscale.extractor import TailscaleExtractor
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts

#: The least F1 of what must be right; the script ends with 1 where one is missed.
_LEAST = {"Host": 0.99, "IP": 0.99, "Network": 0.99, "RESOLVES_TO": 0.99, "CONNECTS_TO": 0.95}
FOLDER = check.DATA / "tailscale"
HANDMADE = check.GOLD / "handmade"

#: A fact by its kind (label or type) and by what makes it itself.
Fact = tuple[str, ...]


def interpret(name: str, text: str) -> Interpretation:
    """What the reader says of one file that is a source by itself."""
    extractor = TailscaleExtractor()
    view = FileView(frozenset((name,)), {name: text}.__getitem__)
    (unit,) = extractor.units([name])
    return extractor.interpret(unit, view, SourceFacts("default", check.SOURCE))


def said(found: Interpretation) -> set[Fact]:
    """Nodes and edges of a reader as facts; CONNECTS_TO by its ends alone."""
    facts: set[Fact] = {(n.node.label, _key(n.node)) for n in found.nodes}
    for e in found.edges:
        facts.add((e.type, _key(e.start), _key(e.end), str(e.properties.get("recordType"))))
    return facts


def labelled(labels: Iterator[Mapping[str, Any]]) -> set[Fact]:
    """The same of labels."""
    facts: set[Fact] = set()
    for one in labels:
        if one["kind"] == "node":
            facts.add((one["label"], one["key"]))
        elif one["kind"] == "edge":
            record = str(one.get("properties", {}).get("recordType"))
            facts.add((one["type"], one["source"]["key"], one["target"]["key"], record))
    return facts


def _key(node: NodeRef) -> str:
    return str(node.key[0])


def inventories() -> Iterator[tuple[str, set[Fact], set[Fact]]]:
    """Each labelled file with what is expected and what the reader says."""
    labels = check.read_labels(check.GOLD / "tailscale.jsonl")
    for name in sorted({one["file"] for one in labels}):
        wanted = labelled(one for one in labels if one["file"] == name)
        yield name, wanted, said(interpret(name, (FOLDER / name).read_text(encoding="utf-8")))


def reaches(path: Path, *, filters: bool = True) -> tuple[frozenset[pf.Reach], frozenset[pf.Reach]]:
    """The expected CONNECTS_TO of a capture and those that the reader says; the packet filters, which are the
    answer, are hidden from it unless ``filters``."""
    capture = pf.read(path)
    text = path.read_text(encoding="utf-8")
    if not filters:
        text = json.dumps(_without_filters(capture))
    edges = [
        (_key(e.start), e.end.label, _key(e.end), e.properties.get("protocol"), e.properties.get("ports"))
        for e in interpret(path.name, text).edges
        if e.type == "CONNECTS_TO" and e.method != "tailscale_route"
    ]
    return pf.expected(capture), pf.found(edges, capture)


def _without_filters(value: Any) -> Any:
    if isinstance(value, Mapping):
        hidden = ("PacketFilter", "PacketFilterRules", "PacketFilters", "packet_filter_rules")
        return {k: _without_filters(v) for k, v in value.items() if k not in hidden}
    return [_without_filters(v) for v in value] if isinstance(value, list) else value


def _measured(name: str, wanted: set[Any], found: set[Any], least: float) -> bool:
    """Print how well ``found`` meets ``wanted``; whether its F1 is at least ``least``."""
    right = len(wanted & found)
    precision = right / len(found) if found else 1.0
    recall = right / len(wanted) if wanted else 1.0
    f1 = 2 * right / (len(wanted) + len(found)) if wanted or found else 1.0
    print(
        f"{name:15} expected {len(wanted):6} found {len(found):6} "
        f"precision {precision:.4f} recall {recall:.4f} F1 {f1:.4f}"
    )
    return f1 >= least


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--captures", type=Path, help="a folder of further captures")
    parser.add_argument("--wrong", action="store_true", help="list what is missing and what is in vain")
    args = parser.parse_args()
    enough = True
    measured = list(inventories())
    for kind in sorted({f[0] for _, wanted, found in measured for f in wanted | found}):
        wanted = {(name, *f) for name, facts, _ in measured for f in facts if f[0] == kind}
        found = {(name, *f) for name, _, facts in measured for f in facts if f[0] == kind}
        enough &= _measured(kind, wanted, found, _LEAST.get(kind, 0.0))
        for fact in sorted(wanted ^ found) if args.wrong else ():
            print(f"  {'-' if fact in wanted else '+'} {' '.join(fact)}")
    folders = {"recorded": FOLDER / "headscale-captures", "hand-made": HANDMADE}
    if args.captures:
        folders["further"] = args.captures
    for name, folder in folders.items():
        paths = sorted(p for p in folder.rglob("*") if p.suffix in {".hujson", ".json"})
        wanted, found = set(), set()
        for path in paths:
            expected, got = reaches(path, filters=False)
            wanted |= {(path.name, e) for e in expected}
            found |= {(path.name, e) for e in got}
        enough &= _measured(f"{name} ({len(paths)})", wanted, found, _LEAST["CONNECTS_TO"])
        for capture, e in sorted(wanted ^ found) if args.wrong else ():
            sign = "-" if (capture, e) in wanted else "+"
            print(f"  {sign} {capture}: {e.source} -> {e.label} {e.target} {e.protocol} {e.ports}")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
