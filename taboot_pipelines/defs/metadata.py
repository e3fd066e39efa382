"""Shows the report of a stage in the UI.

It shows ids, codes and counts only, and no document text unless a setting allows it.

Of a tier's runs it shows how many are of which state, how sure they are, and some of what they say. Names and
sentences are shown only where a setting allows document text in Dagster's storage, which an erasure does not
reach; else the samples are ids (rule ``deleted-stays-deleted``).
"""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from taboot_pipelines.errors import TabootError
from taboot_pipelines.ingesting import item_id
from taboot_pipelines.model.ids import BUCKETS
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.check_scope import Rows
from taboot_pipelines.stages.report import StageReport
from taboot_pipelines.stages.tiers import TierStage
from taboot_pipelines.stages.workspace import Workspace

#: Rows of a table of problems or samples, at most; Dagster folds longer Markdown.
_ROWS = 20
_SAMPLE_CHARS = 200
#: What a run did: the counts in the order and the colours of the plot.
_BARS = {
    "discovered": "#4477aa",
    "fetched": "#228833",
    "new": "#228833",
    "interpreted": "#228833",
    "reused": "#999999",
    "not_modified": "#999999",
    "skipped": "#ccbb44",
    "rejected": "#ccbb44",
    "removed": "#aa3377",
    "held": "#ee6677",
    "failed": "#ee6677",
    "open": "#bbbbbb",
}
#: The parts of a crawl's ledger that add up to what was discovered.
_PARTS = ("fetched", "not_modified", "skipped", "failed", "open")
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


def shown_item(report: StageReport, item: str, names: bool) -> str:
    """Return the name of an item for Dagster's storage: its id, unless ``names`` is set.

    An erasure does not reach Dagster's storage; ``taboot status`` has the paths.
    """
    return shown_name(report.namespace, report.source_id, report.stage, item, names)


def shown_name(namespace: str, source_id: str, stage: str, item: str, names: bool) -> str:
    """Return the name of an item of a stage as :func:`shown_item` does."""
    return item if names else item_id(namespace, source_id, stage, item)


def metadata_of(reports: Sequence[StageReport], *, names: bool = False) -> dict[str, Any]:
    """Return the metadata of one materialization.

    ``reports`` has one entry per catalog entry of the partition. ``names`` allows paths
    (TABOOT_METADATA_TEXT); without it everything is named by id (rule ``deleted-stays-deleted``). Counts are
    top-level numbers under their own names, so that Dagster draws their history.
    """
    counts = Counter[str]()
    for report in reports:
        counts.update(report.counts)
    problems = [
        (p["code"], shown_item(report, p["item"], names)) for report in reports for p in report.problems
    ]
    held = [h for report in reports for h in report.held]
    skipped = sorted({report.skipped for report in reports if report.skipped})
    limited = [(x["code"], x["message"], x["remedy"]) for report in reports for x in report.limited]
    sample = [
        {k: v for k, v in row.items() if names or k != "path"} for report in reports for row in report.sample
    ][:_ROWS]
    result: dict[str, Any] = {
        "source": ", ".join(sorted({f"{r.namespace}/{r.source_id}" for r in reports})),
        # `skipped` is already the reason why a stage had nothing to do, so the count of skipped items
        # has a longer name.
        **{"skipped_items" if name == "skipped" else name: int(value) for name, value in counts.items()},
        "seconds": round(sum(r.seconds for r in reports), 3),
        "bytes": sum(r.bytes for r in reports),
    }
    if "total" in counts and not CHAIN.stage(reports[0].stage).tables:
        # Of tables the stored version says it (``stored.py``), after runs without any change, too.
        result["dagster/row_count"] = counts["total"]
    if skipped:
        result["skipped"] = ", ".join(skipped)
    tables = {name: version for r in reports for name, version in r.tables.items()}
    if tables:
        result["tables"] = dg.MetadataValue.json(tables)
    if problems:
        result["problems"] = dg.MetadataValue.md(
            _markdown(("code", "item"), problems, counts.get("failed", 0))
        )
    if held:
        result["held"] = dg.MetadataValue.md(
            _markdown(
                ("code", "deletions", "remedy"),
                [(h["code"], h.get("deletions", ""), h.get("remedy", "")) for h in held],
            )
        )
    if limited:
        result["limited"] = dg.MetadataValue.md(_markdown(("code", "limit", "remedy"), limited))
    # A sample of what a run found as it was would be kept for every such run.
    if sample and any(report.changed for report in reports):
        result["sample"] = dg.MetadataValue.table(_records(sample))
    ledger = [row for report in reports for row in report.ledger]
    if ledger:
        result["ledger"] = dg.MetadataValue.table(_records(ledger[:_ROWS]))
        result["ledger_plot"] = image("ledger by depth", _depth_chart(ledger[:_ROWS]))
    bars = {name: counts[name] for name in _BARS if counts.get(name)}
    # A stage that changed nothing has nothing to draw, and drawing would be most of its cost.
    if bars and not skipped:
        result["plot"] = image(reports[0].stage, bar_chart(bars, _BARS))
    return result


def shown(value: Any) -> Any:
    """Return a plain value as metadata: rows as a table, other lists and dictionaries as JSON."""
    if isinstance(value, Rows):
        return dg.MetadataValue.table(_records(value))
    return dg.MetadataValue.json(value) if isinstance(value, (list, dict)) else value


def error_metadata(error: TabootError) -> dict[str, Any]:
    return {"code": error.code, "remedy": error.remedy, "error": dg.MetadataValue.json(error.to_response())}


def records(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return rows of ids and numbers, at least one, as a table."""
    return dg.MetadataValue.table(_records(rows))


def text_rows(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return sample rows with their text cut short, for the setting that allows it."""
    return dg.MetadataValue.table(
        _records(
            [{k: v[:_SAMPLE_CHARS] if isinstance(v, str) else v for k, v in row.items()} for row in rows]
        )
    )


def _records(rows: Sequence[Mapping[str, Any]]) -> list[dg.TableRecord]:
    # Dagster takes the columns from the first row, and accepts only plain values.
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [
        dg.TableRecord(
            {
                n: v if isinstance(v := row.get(n), (str, int, float, bool)) else "" if v is None else str(v)
                for n in names
            }
        )
        for row in rows
    ]


def _markdown(header: Sequence[str], rows: Sequence[Sequence[object]], total: int = 0) -> str:
    lines = [
        f"| {' | '.join(header)} |",
        f"|{' --- |' * len(header)}",
        *(f"| {' | '.join(_cell(c) for c in row)} |" for row in rows[:_ROWS]),
    ]
    more = max(total, len(rows)) - min(len(rows), _ROWS)
    if more > 0:
        lines.append(f"\n… and {more} more; `taboot status --failed` lists them all.")
    return "\n".join(lines)


def _cell(value: object) -> str:
    """Return a value as a table cell without line breaks, cell borders or markup.

    A path may hold anything.
    """
    return re.sub(r"([\\`*_{}\[\]<>()#+!|])", r"\\\1", " ".join(str(value).split()))


def image(title: str, png: bytes) -> dg.MarkdownMetadataValue:
    """Return a picture as metadata that the UI shows."""
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{base64.b64encode(png).decode()})")


def _depth_chart(ledger: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a PNG with a bar for each depth of a crawl, made of what became of its URLs, and a legend."""
    from PIL import Image, ImageDraw, ImageFont

    row, label, width, bar = 22, 70, 560, 400
    font = ImageFont.load_default(12)
    image = Image.new("RGB", (width, row * (len(ledger) + 1) + 8), "#ffffff")
    draw = ImageDraw.Draw(image)
    longest = max(max(int(r["discovered"]) for r in ledger), 1)
    for i, counts in enumerate(ledger):
        top, end = 4 + i * row, label
        draw.text(
            (label - 8, top + row / 2), f"depth {counts['depth']}", font=font, fill="#333333", anchor="rm"
        )
        for name in _PARTS:
            if counts[name]:
                start, end = end, end + max(2, round(bar * counts[name] / longest))
                draw.rectangle((start, top + 4, end, top + row - 4), fill=_BARS[name])
        text = f"{counts['discovered']:,}"
        draw.text((end + 6, top + row / 2), text, font=font, fill="#333333", anchor="lm")
    left, top = label, 4 + row * len(ledger)
    for name in _PARTS:
        draw.rectangle((left, top + 6, left + 10, top + row - 6), fill=_BARS[name])
        shown = name.replace("_", " ")
        draw.text((left + 15, top + row / 2), shown, font=font, fill="#333333", anchor="lm")
        left += 30 + round(draw.textlength(shown, font=font))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def bar_chart(bars: Mapping[str, int], colours: Mapping[str, str]) -> bytes:
    """Return a PNG of horizontal bars in their colours, about 1 KB.

    Pillow draws it: plotting libraries take a second to load, which is more than many runs take.
    """
    from PIL import Image, ImageDraw, ImageFont

    row, label, width = 22, 110, 480
    font = ImageFont.load_default(12)
    image = Image.new("RGB", (width, row * len(bars) + 8), "#ffffff")
    draw = ImageDraw.Draw(image)
    longest = max(bars.values())
    for i, (name, value) in enumerate(bars.items()):
        top = 4 + i * row
        draw.text((label - 8, top + row / 2), name.replace("_", " "), font=font, fill="#333333", anchor="rm")
        end = label + max(2, round((width - label - 80) * value / longest))
        draw.rectangle((label, top + 4, end, top + row - 4), fill=colours[name])
        draw.text((end + 6, top + row / 2), f"{value:,}", font=font, fill="#333333", anchor="lm")
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


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
