"""What the graph says otherwise than an earlier publication of it: things, facts and routes.

Two publications are compared, whatever lay between them. Mentions are left out: documents tell them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.knowledge.graph import FACT
from taboot_pipelines.model.graph import TEXT_METHOD
from taboot_pipelines.retrieval.results.changes import FactChange, FactSide
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.retrieval.verbalization import (
    BOOKKEEPING,
    NodeName,
    names_of,
    node,
    plain,
    relation,
    statement,
)

T = TypeVar("T")

_THING = ("label", "key")
_SEPARATOR = "\x1f"
_ORDER = ("route", "fact", "thing")


@dataclass(frozen=True)
class _Version:
    """What one publication says of a thing or a fact: its rows, the surest first."""

    rows: Sequence[Mapping[str, Any]]

    @property
    def says(self) -> frozenset[str]:
        return frozenset(json.dumps(_told(row), sort_keys=True) for row in self.rows)


def fact_changes(before: View, after: View) -> list[FactChange]:
    """What ``after`` says otherwise than ``before``: routes first, then other facts, then things.

    What the same thing was in the same relation to before, and is now to another, is one change where it is
    one of each, or both stand in one line; so is a route whose target is another.
    """
    edges = [_without_mentions(view.graph.edges) for view in (before, after)]
    changed = _differing(before, after)
    places = [_Places(view, own, changed) for view, own in zip((before, after), edges, strict=True)]
    facts = _pairs((edges[0], edges[1]), FACT, "edge_id")
    gone = [old for old, new in facts if old is not None and new is None]
    come = [new for old, new in facts if old is None and new is not None]
    both = [(old, new) for old, new in facts if old is not None and new is not None]
    found = [_fact(old, new, *places) for old, new in (*both, *_matched(gone, come))]
    nodes = [
        t.filter(pc.not_equal(t.column("label"), "Document")) for t in (before.graph.nodes, after.graph.nodes)
    ]
    found += [_thing(old, new, *places) for old, new in _pairs((nodes[0], nodes[1]), _THING, "name")]
    return sorted(
        _without_the_same(found),
        key=lambda x: (_ORDER.index(x.what), x.type, *(s.says if s else "" for s in (x.before, x.after))),
    )


def _without_the_same(found: Sequence[FactChange]) -> Iterator[FactChange]:
    """The changes but those in which one went and one came that say the same: a name is only known for
    another thing's by now."""

    def said(change: FactChange, side: FactSide | None) -> tuple[str, ...]:
        return (change.what, change.type, side.says if side else "", side.path if side else "")

    went = Counter(said(x, x.before) for x in found if x.change == "removed")
    came = Counter(said(x, x.after) for x in found if x.change == "added")
    same = {"removed": went & came, "added": went & came}  # of each as many as of the other
    for change in found:
        left = same.get(change.change, Counter())
        mark = said(change, change.after or change.before)
        if left[mark]:
            left[mark] -= 1
        else:
            yield change


def _without_mentions(edges: pa.Table) -> pa.Table:
    return edges.filter(pc.not_equal(edges.column("type"), "MENTIONS"))


_Pair = tuple[_Version | None, _Version | None]


def _pairs(tables: tuple[pa.Table, pa.Table], key: Sequence[str], told: str) -> list[_Pair]:
    """The versions of what has other rows in one table than in the other, where they say something else.

    ``key``: the columns that name it; ``told``: a further one that, with the properties, makes a row another.
    """
    names = [pc.binary_join_element_wise(*(t.column(c) for c in key), _SEPARATOR) for t in tables]
    marks = [
        pc.binary_join_element_wise(name, t.column(told), t.column("properties"), _SEPARATOR)
        for name, t in zip(names, tables, strict=True)
    ]
    differ = pa.concat_arrays(
        [
            part
            for own, other, name in ((marks[0], marks[1], names[0]), (marks[1], marks[0], names[1]))
            for part in pc.filter(name, pc.invert(pc.is_in(own, value_set=other.combine_chunks()))).chunks
        ]
        or [pa.array([], pa.string())]
    )
    versions: list[dict[str, list[Mapping[str, Any]]]] = []
    for name, table in zip(names, tables, strict=True):
        mask = pc.is_in(name, value_set=differ)
        rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for at, row in zip(pc.filter(name, mask).to_pylist(), table.filter(mask).to_pylist(), strict=True):
            rows[at].append(row)
        versions.append(rows)
    found: list[_Pair] = []
    for at in sorted(versions[0].keys() | versions[1].keys()):
        sides = [
            _Version(sorted(v[at], key=lambda r: (-r.get("confidence", 0), r[told]))) if at in v else None
            for v in versions
        ]
        if sides[0] is None or sides[1] is None or sides[0].says != sides[1].says:
            found.append((sides[0], sides[1]))
    return found


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a row that say something."""
    return {k: v for k, v in json.loads(row["properties"]).items() if k not in BOOKKEEPING and v is not None}


def replaced(
    gone: Iterable[T], come: Iterable[T], subject: Callable[[T], Hashable], line: Callable[[T], Hashable]
) -> Iterator[tuple[T, T]]:
    """Pairs of what went and what stands in its place: the one of its subject, else that of its line."""
    groups: dict[Hashable, tuple[list[T], list[T]]] = defaultdict(lambda: ([], []))
    for side, every in enumerate((gone, come)):
        for one in every:
            groups[subject(one)][side].append(one)
    for left, right in groups.values():
        for old in left:
            alone = len(left) == len(right) == 1
            at = right if alone else [new for new in right if line(new) == line(old)]
            if len(at) == 1:
                yield old, at[0]
                right = [new for new in right if new is not at[0]]


def _matched(gone: Sequence[_Version], come: Sequence[_Version]) -> Iterator[_Pair]:
    """Those that went and came; where one stands in place of another, the two as one."""
    pairs = list(replaced(gone, come, _subject, _line))
    told = {id(version) for pair in pairs for version in pair}
    yield from pairs
    yield from ((old, None) for old in gone if id(old) not in told)
    yield from ((None, new) for new in come if id(new) not in told)


def _line(version: _Version) -> Hashable:
    return version.rows[0]["doc_id"], version.rows[0]["line"]


def _subject(version: _Version) -> tuple[Any, ...]:
    row = version.rows[0]
    route = _told(row) if row["type"] == "ROUTES_TO" else {}
    return (*(row[c] for c in FACT[:3]), route.get("host"), route.get("location"), route.get("path"))


def _differing(*views: View) -> set[str]:
    """The documents whose bytes are others in one view than in the other."""
    held = [
        set(zip(*(v.graph.documents.column(c).to_pylist() for c in ("doc_id", "blob_sha256")), strict=True))
        for v in views
    ]
    return {doc_id for doc_id, _ in held[0] ^ held[1]}


class _Places:
    """Where the documents of a publication are, and which states that a thing is as it is: of those that name
    it one that configures it, and that changed."""

    def __init__(self, view: View, edges: pa.Table, changed: Collection[str]) -> None:
        self._edges, self._changed = edges, changed
        columns = ("doc_id", "source_id", "path", "url")
        rows = zip(*(view.graph.documents.column(c).to_pylist() for c in columns), strict=True)
        self._known = {
            doc: (source, path, view.shown_url(source, path, url)) for doc, source, path, url in rows
        }

    def side(self, says: str, row: Mapping[str, Any]) -> FactSide:
        doc_id = row.get("doc_id") or self._stating.get(row["key"]) or next(iter(row["doc_ids"]), "")
        source, path, url = self._known.get(doc_id, ("", "", ""))
        return FactSide(
            says=says,
            key=tuple(row[c] for c in (FACT[1:5] if "type" in row else _THING)),
            properties=_told(row),
            source=source,
            path=path,
            doc_id=doc_id,
            url=url,
            line=row.get("line"),
            edge_id=row.get("edge_id", ""),
        )

    @cached_property
    def _stating(self) -> dict[str, str]:
        """{key of a thing: the document that states it}."""
        columns = ("start_key", "end_key", "doc_id", "extraction_method")
        best: dict[str, tuple[Any, ...]] = {}
        for start, end, doc_id, method in zip(
            *(self._edges.column(c).to_pylist() for c in columns), strict=True
        ):
            is_of_text = method.startswith(TEXT_METHOD)
            for key, is_end in ((start, False), (end, True)):
                rank = (is_of_text, doc_id not in self._changed, is_end, doc_id)
                best[key] = min(best.get(key, rank), rank)
        return {key: rank[-1] for key, rank in best.items()}


def _fact(old: _Version | None, new: _Version | None, was: _Places, now: _Places) -> FactChange:
    sides = [(v.rows[0], p) if v is not None else None for v, p in ((old, was), (new, now))]
    ends = [
        NodeName(row[f"{end}_label"], row[f"{end}_key"], row[f"{end}_name"])
        for side in sides
        if side is not None
        for row in (side[0],)
        for end in ("start", "end")
    ]
    called = names_of(ends)
    made: list[FactSide | None] = []
    for version, places in ((old, was), (new, now)):
        if version is None:
            made.append(None)
            continue
        row = version.rows[0]
        start, end = ((row[f"{e}_label"], row[f"{e}_key"]) for e in ("start", "end"))
        says = sorted({relation(row["type"], _told(r)) for r in version.rows})
        text = statement(called[start], row["type"], _told(row), called[end])
        made.append(places.side(" | ".join([text, *says[1:]]) if len(says) > 1 else text, row))
    row = next(v.rows[0] for v in (new, old) if v is not None)
    what: Literal["route", "fact"] = "route" if row["type"] == "ROUTES_TO" else "fact"
    return FactChange(
        change=_kind(old, new),
        what=what,
        type=row["type"],
        name=row["start_name"],
        before=made[0],
        after=made[1],
    )


def _thing(old: _Version | None, new: _Version | None, was: _Places, now: _Places) -> FactChange:
    told = [_told(v.rows[0]) if v is not None else {} for v in (old, new)]
    differ = [k for k in sorted(told[0].keys() | told[1].keys()) if told[0].get(k) != told[1].get(k)]
    made: list[FactSide | None] = []
    for version, places, properties in zip((old, new), (was, now), told, strict=True):
        if version is None:
            made.append(None)
            continue
        row = version.rows[0]
        called = node(
            NodeName(row["label"], row["key"], row["name"], row["scope"]), alone=row["scope"] is None
        )
        # Of what changed the properties that did; of what came or went all.
        words = ", ".join(f"{k} {plain(properties[k])}" for k in differ if k in properties)
        made.append(places.side(f"{called}: {words}" if words else called, row))
    row = next(v.rows[0] for v in (new, old) if v is not None)
    return FactChange(
        change=_kind(old, new),
        what="thing",
        type=row["label"],
        name=row["name"],
        before=made[0],
        after=made[1],
    )


def _kind(old: object, new: object) -> Literal["added", "removed", "changed"]:
    return "added" if old is None else "removed" if new is None else "changed"
