"""The graph that a view holds, as Arrow tables of nodes and edges, and as one picture."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.model.tables import EDGES_SCHEMA
from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode
from taboot_pipelines.retrieval.pictures.picture import MAX_DRAWN, Picture
from taboot_pipelines.retrieval.session import View


def nodes(view: View) -> pa.Table:
    """``model.tables.NODES_SCHEMA``, ascending by label and key."""
    return view.graph.nodes


def edges(view: View) -> pa.Table:
    """``model.tables.EDGES_SCHEMA``, ascending by edge_id; ``url`` as stored."""
    return view.graph.edges.select(EDGES_SCHEMA.names).cast(EDGES_SCHEMA)


# --- What a knowledge base knows, as one picture: a box for each kind of thing, an arrow for each kind of
#     relation between two of them, with how many there are

_ENDS = ["type", "start_label", "end_label"]


def overview(nodes: pa.Table, edges: pa.Table) -> Picture:
    """The picture. ``nodes`` and ``edges``: as :class:`KnowledgeBase` gives them. Which documents name what
    is said below it and not drawn: they name everything.
    """
    counted = nodes.group_by("label").aggregate([("key", "count")]).to_pylist()
    labels = {row["label"]: row["key_count"] for row in counted}
    grouped = edges.group_by(_ENDS).aggregate([("edge_id", "count"), ("doc_id", "count_distinct")])
    rows = sorted(grouped.to_pylist(), key=lambda r: (-r["edge_id_count"], *(r[n] for n in _ENDS)))
    drawn = [
        DrawnEdge(
            type=row["type"],
            start=(row["start_label"], row["start_label"]),
            end=(row["end_label"], row["end_label"]),
            says=f"{row['edge_id_count']:,}",
            told=(
                ("relation", f"{row['start_label']} {row['type']} {row['end_label']}"),
                ("statements", f"{row['edge_id_count']:,}"),
                ("documents", f"{row['doc_id_count_distinct']:,}"),
            ),
        )
        for row in rows
        if row["type"] != "MENTIONS"
    ]
    joined = Counter(end for edge in drawn for end in {edge.start[0], edge.end[0]})
    # What most kinds are related to stands in the middle; what nothing is related to, beside it.
    middle = max(joined, key=lambda label: (joined[label], label), default=None)
    alone = {label for label in labels if label not in joined and label != "Document"}
    boxes = [
        DrawnNode(label, label, label, start=label == middle or label in alone, kind=f"{count:,}")
        for label, count in sorted(labels.items())
    ]
    mentions = edges.filter(pc.equal(edges.column("type"), "MENTIONS"))
    documents = pc.count_distinct(mentions.column("doc_id")).as_py()
    note = f"Named in documents: {mentions.num_rows:,} times in {documents:,}" if documents else ""
    title = f"{nodes.num_rows:,} nodes, {edges.num_rows:,} edges"
    return Picture.around(title, boxes, drawn, MAX_DRAWN, note, legend=False)
