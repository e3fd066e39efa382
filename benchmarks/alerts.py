"""Alerts over runbooks: how often the right document is the first, or among three.

    python benchmarks/alerts.py [vonrobak=FOLDER]

``alerts.jsonl`` has, for each alert, its labels and annotations as its rule gives them, and the documents
of which one is right; it was written before anything was tuned. 45 are alerts of the mixins of Prometheus,
node exporter and etcd, as a homelab deploys them (ricsanfre/pi-cluster), over the runbooks of
prometheus-operator in ``house-questions``: the right one is the page of that name. They are asked as they
are, and once more with the name and the links hidden, by their words alone. 20 are rules of a house
(vonrobak/fedora-homelab) over its own documents, labelled from titles; they need a clone of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from answer_reading import DATA

from taboot_pipelines import KnowledgeBase
from taboot_pipelines.settings import load_settings
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines_tests.world import take_in

ALERTS = Path(__file__).with_name("alerts.jsonl")
BAR = (0.80, 0.95)


def ingested(home: Path, folder: Path, sources: str) -> KnowledgeBase:
    """The house in a home of its own."""
    home.mkdir(parents=True)
    (home / "sources.yaml").write_text(sources.replace("FOLDER", str(folder)))
    workspace = Workspace(load_settings(home=home / "home", sources=home / "sources.yaml"))
    workspace.sync_sources()
    take_in(workspace)
    workspace.close()
    return KnowledgeBase.open(settings=workspace.settings)


def hidden(alert: dict[str, Any]) -> dict[str, Any]:
    """The alert without what names its runbook."""
    labels = {**alert["labels"], "alertname": "Alert"}
    annotations = {k: v for k, v in alert["annotations"].items() if "runbook" not in k}
    return {**alert, "labels": labels, "annotations": annotations}


def measured(kb: KnowledgeBase, alerts: list[dict[str, Any]]) -> Iterator[int]:
    """The place of the right document of each alert, from 0; 99 where it is not told."""
    for alert in alerts:
        found = [d.path for d in kb.for_alert(alert["labels"], alert["annotations"]).documents]
        place = next((n for n, path in enumerate(found) if path.endswith(tuple(alert["expected"]))), 99)
        if place and os.environ.get("TABOOT_BENCH_VERBOSE"):
            print(f"  {alert['annotations'].get('summary')}: {found[:3]}, not {alert['expected']}")
        yield place


def told(name: str, places: list[int], bar: tuple[float, float] | None) -> None:
    hits = [sum(p < k for p in places) / len(places) for k in (1, 3)]
    wanted = "" if bar is None else f"  (bar {bar[0]:.2f} and {bar[1]:.2f})"
    print(f"{name:<50} {len(places):>3} alerts  hit@1 {hits[0]:.2f}  hit@3 {hits[1]:.2f}{wanted}")


def main() -> None:
    alerts = [json.loads(line) for line in ALERTS.read_text().splitlines()]
    of = {house: [a for a in alerts if a["house"] == house] for house in ("first", "vonrobak")}
    with tempfile.TemporaryDirectory() as scratch:
        shutil.unpack_archive(DATA / "house-questions" / "houses" / "first.tar.xz", scratch)
        sources = (
            "sources:\n  - {id: stacks, type: compose, path: FOLDER/stacks, host: nas.lan, proxy: traefik}\n"
            "  - {id: proxy, type: swag, path: FOLDER/proxy, proxy: swag}\n"
            "  - {id: notes, type: files, path: FOLDER/notes, interpret: true}\n"
            "  - {id: wiki, type: files, path: FOLDER/wiki/images, interpret: true}\n"
        )
        kb = ingested(Path(scratch, "home"), Path(scratch, "first"), sources)
        told("runbooks of prometheus-operator", list(measured(kb, of["first"])), BAR)
        told("the same, by words alone", list(measured(kb, [hidden(a) for a in of["first"]])), BAR)
        for argument in sys.argv[1:]:
            name, _, folder = argument.partition("=")
            if name in of:
                sources = "sources: [{id: house, type: files, path: FOLDER, interpret: true, host: house}]\n"
                kb = ingested(Path(scratch, name), Path(folder), sources)
                told(f"{name}, as they are", list(measured(kb, of[name])), None)
                told(f"{name}, by words alone", list(measured(kb, [hidden(a) for a in of[name]])), None)


if __name__ == "__main__":
    main()
