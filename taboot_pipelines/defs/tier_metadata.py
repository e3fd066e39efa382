"""Shows in the UI what a tier's runs are like: how many of which state, how sure, and some of what they say.

Names and sentences are shown only where a setting allows document text in Dagster's storage, which an erasure
does not reach; else the samples are ids (rule ``deleted-stays-deleted``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from taboot_pipelines.defs.metadata import bar_chart, image
from taboot_pipelines.model.ids import BUCKETS
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.tiers import TierStage
from taboot_pipelines.stages.workspace import Workspace

#: Bars of the histogram, from 0 to 1.
_BINS = 10
_BAR = "#4477aa"
#: Triples that are shown, and code points of a line on either side of what a triple quotes.
_TRIPLES = 10
_AROUND = 120
#: Buckets that are looked into for samples at first.
_FEW_BUCKETS = 4
_COLUMNS = [
    "run_id",
    "kind",
    "type",
    "start_label",
    "start_name",
    "end_label",
    "end_name",
    "doc_id",
    "span_start",
    "span_end",
    "line",
    "confidence",
    "method",
]


def tier_metadata(
    workspace: Workspace, stage: TierStage, reports: Sequence[StageReport], *, names: bool
) -> dict[str, Any]:
    """Return the metadata of one materialization of a tier; ``names`` allows names and sentences."""
    states = Counter[str]()
    confidences: list[float] = []
    samples: list[dict[str, Any]] = []
    for report in reports:
        states.update(_states(workspace, stage, report))
        version = report.tables.get(stage.tier.table)
        if version is not None:
            rows = workspace.tables.read(
                report.namespace, report.source_id, stage.tier.table, version, columns=["confidence"]
            )
            confidences += rows.column("confidence").to_pylist()
            samples += _samples(workspace, stage, report, names)
    result: dict[str, Any] = {}
    if states:
        result["runs"] = dg.MetadataValue.table(
            [dg.TableRecord({"state": state, "runs": states[state]}) for state in sorted(states)]
        )
    if confidences:
        bars = _histogram(confidences)
        result["mean_confidence"] = round(float(np.mean(confidences)), 4)
        result["confidence"] = dg.MetadataValue.table(
            [dg.TableRecord({"confidence": name, "facts": count}) for name, count in bars.items()]
        )
        result["confidence_plot"] = image("facts by confidence", bar_chart(bars, dict.fromkeys(bars, _BAR)))
    if samples:
        result["triples"] = dg.MetadataValue.table([dg.TableRecord(row) for row in samples[:_TRIPLES]])
    return result


def _states(workspace: Workspace, stage: TierStage, report: StageReport) -> Counter[str]:
    """Return how many runs there are of each state, and how many units are under way or were died over."""
    place = (report.namespace, report.source_id, stage.tier.source.value)
    found = Counter[str]()
    for row in workspace.catalog.runs.tally(*place):
        state = row["status"]
        if state == "completed":
            state = "active" if row["active"] else "candidate" if row["candidate"] else "archived"
        found[state] += row["runs"]
    for batch in workspace.catalog.batches.find(*place):
        found[batch["status"]] += len(batch["units"])
    return found


def _histogram(confidences: Sequence[float]) -> dict[str, int]:
    counts, edges = np.histogram(confidences, bins=_BINS, range=(0.0, 1.0))
    return {f"{edges[i]:.1f}-{edges[i + 1]:.1f}": int(count) for i, count in enumerate(counts) if count}


def _samples(
    workspace: Workspace, stage: TierStage, report: StageReport, names: bool
) -> list[dict[str, Any]]:
    """Return some triples, of as many relations as there are; rare ones are shown with frequent ones."""
    version = report.tables[stage.tier.table]
    rows: list[dict[str, Any]] = []
    for buckets in (range(_FEW_BUCKETS), range(BUCKETS)):
        found = workspace.tables.read(
            report.namespace,
            report.source_id,
            stage.tier.table,
            version,
            columns=_COLUMNS,
            buckets=buckets,
            members=("kind", ["edge"]),
        )
        rows = _of_each_type(found)
        if len(rows) >= _TRIPLES:
            break
    texts = _texts(workspace, report, {row["doc_id"] for row in rows}) if names else {}
    return [_sample(row, texts.get(row["doc_id"]), names) for row in rows]


def _of_each_type(rows: pa.Table) -> list[dict[str, Any]]:
    ordered = rows.sort_by([("type", "ascending"), ("doc_id", "ascending"), ("span_start", "ascending")])
    types = np.asarray(ordered.column("type").to_pylist(), dtype=object)
    # The first of each relation, then the second of each, and so on.
    _, first, counts = np.unique(types, return_index=True, return_counts=True)
    turns = [
        int(begin) + turn
        for turn in range(_TRIPLES)
        for begin, count in zip(first, counts, strict=True)
        if turn < count
    ]
    return list(ordered.take(pa.array(turns[:_TRIPLES], pa.int64())).to_pylist())


def _sample(row: dict[str, Any], text: str | None, names: bool) -> dict[str, str | float | int]:
    shown: dict[str, str | float | int] = {
        "run": row["run_id"][:12],
        "document": row["doc_id"],
        "line": row["line"],
        "relation": row["type"],
        "method": row["method"],
        "confidence": round(row["confidence"], 3),
    }
    if not names:
        return shown
    triple = (
        f"({row['start_label']} {row['start_name']})-[{row['type']}]->({row['end_label']} {row['end_name']})"
    )
    return {"triple": triple, "sentence": _sentence(text, row["span_start"], row["span_end"]), **shown}


def _sentence(text: str | None, start: int, end: int) -> str:
    """Return what a triple quotes, from the masked text, with the rest of its line."""
    if text is None:
        return ""
    begin = max(text.rfind("\n", 0, start) + 1, start - _AROUND)
    stop = text.find("\n", end)
    stop = min(len(text) if stop < 0 else stop, end + _AROUND)
    return " ".join(text[begin:stop].split())


def _texts(workspace: Workspace, report: StageReport, doc_ids: set[str]) -> dict[str, str]:
    pointer = workspace.catalog.pointers.get(report.namespace, report.source_id, documents.STAGE)
    if pointer is None or not doc_ids:
        return {}
    rows = workspace.tables.read(
        report.namespace,
        report.source_id,
        "documents",
        pointer.tables["documents"],
        columns=["doc_id", "text"],
        members=("doc_id", sorted(doc_ids)),
    )
    return dict(zip(rows.column("doc_id").to_pylist(), rows.column("text").to_pylist(), strict=True))
