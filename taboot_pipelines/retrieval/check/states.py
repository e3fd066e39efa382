"""The graph that some files give, made in memory: read by the connectors' globs, parsed, interpreted by the
extractors of tier A and reduced as an ingest does it, and nothing of it is stored.

What an ingest knows beside the files is not there: what people decided, other tiers, vectors. A document is
one chunk.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from obstore.store import MemoryStore

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.connectors.files import is_env, is_example, source_directory
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.references import project_files, references
from taboot_pipelines.extraction.tier_a.compose.variables import parse_env
from taboot_pipelines.knowledge.document_units import Document, SourceDocuments
from taboot_pipelines.knowledge.interpretation import Interpreter
from taboot_pipelines.knowledge.mentions import NameMatcher, fold
from taboot_pipelines.knowledge.names import NAMED, declarations, meanings, names_table, resolutions
from taboot_pipelines.knowledge.observations import Observation
from taboot_pipelines.knowledge.reach import EDGES as REACH_EDGES
from taboot_pipelines.knowledge.reach import Reaches, reach_rows
from taboot_pipelines.knowledge.reducer import (
    Claim,
    Latest,
    Node,
    Supported,
    reduce_entities,
    resolve_key,
    supports_after,
    touched_entities,
)
from taboot_pipelines.knowledge.relations import BETWEEN, DocumentInput, answer_to, document_facts
from taboot_pipelines.knowledge.runs import Outcome, RunLog, Tier
from taboot_pipelines.knowledge.units import taken_in
from taboot_pipelines.model import ids, tables
from taboot_pipelines.model.graph import TEXT_METHOD
from taboot_pipelines.model.records import Failed, Fetched, Problem, Role
from taboot_pipelines.model.tables import rows_of
from taboot_pipelines.retrieval.session import View
from taboot_pipelines.settings import Settings
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.manifest import Manifest, ShardEntry, SpaceEntry
from taboot_pipelines.shards.manifest import SourceEntry as ManifestSource
from taboot_pipelines.shards.protocol import ManifestVersion
from taboot_pipelines.sources import Stance, open_connector, stance_of
from taboot_pipelines.stages import tier_a_triples
from taboot_pipelines.stages.documents import document_row, held_rows
from taboot_pipelines.stages.tiers import facts_of, kind_of
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.blobs import BlobStore
from taboot_pipelines.stores.catalog.locators import Locator

if TYPE_CHECKING:
    from taboot_pipelines.shards.reader import Shards

#: When bytes came decides between claims of equal weight; here none came before another.
_TIMES = dict.fromkeys(("created_at", "since"), datetime(1970, 1, 1, tzinfo=UTC))
_NO_NAMES = NameMatcher({})
#: What a document states: its id, what it claims of nodes, and its rows of ``tables.RELATIONS``.
_Facts = tuple[str, Sequence[Claim], pa.Table]


@dataclass(frozen=True)
class Files:
    """The files of one source: bytes and role by path, what could not be read, and the folder by which their
    places are told. ``beside``: the paths of all that lies there, where that goes before it is asked for;
    ``place``: else where it lies, None of what is published; ``left_out``: the names that files of variables
    set which git leaves out, by their folder from the one that is checked; ``unseen``: the folders whose
    ``.env`` is not here though there may be one, since git would leave it out."""

    entry: Entry
    shown: str
    items: Mapping[str, tuple[Role, bytes]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    beside: frozenset[str] = frozenset()
    place: Path | None = None
    left_out: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()

    @cached_property
    def known(self) -> frozenset[str]:
        """The files and folders that are known to lie there, by their paths from the folder that is
        checked."""
        found = {self.told(path) for path in (*self.items, *self.beside)}
        return frozenset({path for file in found for path in (file, *folders_of(file))})

    def has(self, path: str) -> bool:
        """Whether a file or folder lies at a path from the folder that is checked."""
        if path in self.known:
            return True
        inner = posixpath.relpath(path, self.told(""))
        # Where a link leads nowhere, as one to what a machine makes when it runs, it is there all the same.
        return self.place is not None and not inner.startswith("..") and os.path.lexists(self.place / inner)

    def told(self, path: str) -> str:
        """The path from the folder that is checked."""
        return posixpath.normpath(f"{self.shown[1:]}/{path}")


def folders_of(path: str) -> list[str]:
    """The folders that a relative path leads through, the nearest first."""
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def files_of(entry: Entry, shown: str, settings: Settings, path: Path | None = None) -> Files:
    """The files that an ingest of a directory would take; none where it is not there. ``path``: where they
    lie for a while, by default where the entry says."""
    config: SourceEntry = entry.config
    if path is not None:
        config = config.model_copy(update={"path": str(path), "root": None})
    if not (entry.root / str(getattr(config, "path", ""))).expanduser().is_dir():
        return Files(entry, shown)
    access = Access.of(settings, entry.root, references=references, project_files=project_files)
    items: dict[str, tuple[Role, bytes]] = {}
    problems = []
    for event in open_connector(config, access).events({}, lambda _: False):
        if isinstance(event, Fetched):
            items[event.path] = event.role, event.data
        elif isinstance(event, Failed):
            problems.append(Problem(event.path, event.error.code, event.error.message))
    if path is None:
        place = source_directory(str(getattr(entry.config, "path", ".")), entry.root)
        return Files(entry, shown, items, tuple(problems), place=Path(os.path.realpath(place)))
    beside = frozenset(
        Path(folder, name).relative_to(path).as_posix()
        for folder, _, names in os.walk(path)
        for name in names
    )
    return Files(entry, shown, items, tuple(problems), beside)


@dataclass(frozen=True)
class State:
    """What files give: a view to ask; the keys of the services that are declared and not only named; what
    could not be read or leads nowhere, as (source, problem); the names that files of variables set, by
    (source, path), with hashes of their values; the names that are set in files which are not here, as their
    examples and who left them out say, by the folder from the one that is checked; and the files."""

    view: View
    declared: frozenset[str]
    problems: frozenset[tuple[str, Problem]]
    variables: Mapping[tuple[str, str], Mapping[str, str]]
    elsewhere: Mapping[str, frozenset[str]]
    files: Sequence[Files]


class Held:
    """What a home holds of its sources: what they say is not read again where it was made of equal input."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def rows(self, entry: Entry) -> list[dict[str, Any]]:
        """The documents of a source."""
        located = self._workspace.catalog.locators.of_source(entry.namespace, entry.source_id)
        # What a server said of a file, such as its type, is not known to who reads it in a folder.
        plain = {path: x for path, x in located.items() if not (x.mime or x.charset or x.url or x.final_url)}
        nothing = {"job_id": "", "fingerprint": "", **_TIMES}
        return [row | nothing for row in held_rows(self._workspace, entry, plain)]

    def outcomes(self, entry: Entry, tier: Tier, interpreter: Interpreter) -> dict[str, Outcome]:
        """{unit_id: outcome} of the units of a source whose input is that of their active run."""
        workspace, place = self._workspace, (entry.namespace, entry.source_id)
        log = RunLog(workspace.catalog, *place, tier)
        # The rows of a unit that another takes in are in no table.
        runs = {
            unit: state.run_id
            for unit, state in log.states().items()
            if unit in interpreter.units
            and not state.suppressed
            and interpreter.state(unit, state.reads) == state.fingerprint
        }
        said = log.said(runs.values())
        version = workspace.tables.version(*place, tier.table)
        rows: dict[str, list[Observation]] = {}
        for row in workspace.tables.read(*place, tier.table, version).to_pylist():
            rows.setdefault(row["run_id"], []).append(Observation(**row))
        return {
            unit: interpreter.recalled(unit, said[run], rows.get(run, []))
            for unit, run in runs.items()
            # The rows may have changed since its state was read.
            if run in said
            and (run in rows or said[run]["extracted_nodes"] + said[run]["extracted_edges"] == 0)
        }


class Reader:
    """Makes states of files; what is in two of them is read once. ``held``: what was read before."""

    def __init__(self, settings: Settings, held: Held | None = None) -> None:
        self._settings = settings
        self._held = held
        self._taken: set[str] = set()
        self._blobs = BlobStore(MemoryStore())
        self._rows: dict[tuple[str, str, str], dict[str, Any] | Problem] = {}
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        self._stated: dict[tuple[Any, ...], _Facts] = {}
        self._claims: dict[str, Mapping[str, list[dict[str, Any]]]] = {}
        self._said: dict[tuple[str, frozenset[str]], _Said] = {}
        self._entities = _Entities()
        self._located: dict[tuple[str, str], tuple[bytes, Locator]] = {}
        self._document_rows: dict[tuple[str, str, str], pa.Table] = {}

    def read(self, sources: Sequence[Files]) -> State:
        """The state of these sources, which are of one namespace."""
        namespace = sources[0].entry.namespace if sources else self._settings.namespace
        problems: set[tuple[str, Problem]] = set()
        documents: list[dict[str, Any]] = []
        runs: dict[str, set[str]] = {}
        proposed: set[str] = set()
        variables: dict[tuple[str, str], Mapping[str, str]] = {}
        elsewhere: dict[str, frozenset[str]] = {}
        for files in sources:
            source = files.entry.source_id
            problems |= {(source, p) for p in files.problems}
            variables |= {
                (source, path): _variables(data)
                for path, (role, data) in files.items.items()
                if role == "input" and is_env(path.rpartition("/")[2])
            }
            for folder, names in (*files.left_out.items(), *_exampled(files)):
                elsewhere[folder] = elsewhere.get(folder, frozenset()) | names
            locators = {path: self._locator(files, path) for path in files.items}
            held = self._held if source not in self._taken else None
            self._taken.add(source)
            if held is not None:
                known = {(source, x["path"], x["blob_sha256"]): x for x in held.rows(files.entry)}
                self._rows |= known
            rows = [row for x in locators.values() if (row := self._document(files.entry, x, problems))]
            documents += rows
            if stance_of(files.entry.config.type) is Stance.PROPOSES:
                proposed |= {row["doc_id"] for row in rows}
            for outcome in self._interpreted(files.entry, locators, rows, held):
                problems |= {(source, p) for p in outcome.problems}
                for doc_id in self._claimed(outcome):
                    runs.setdefault(doc_id, set()).add(outcome.run_id)
        said = {doc_id: self._said_by(doc_id, frozenset(of)) for doc_id, of in runs.items()}
        view = self._view(namespace, sources, documents, said, proposed)
        declared = frozenset[str]().union(*(of.services for of in said.values()))
        return State(view, declared, frozenset(problems), variables, elsewhere, sources)

    def _locator(self, files: Files, path: str) -> Locator:
        role, data = files.items[path]
        namespace, source = files.entry.namespace, files.entry.source_id
        known = self._located.get((source, path))
        if known is not None and known[0] == data and known[1].role == role:
            return known[1]
        sha256, _ = self._blobs.put(namespace, data)
        doc_id = ids.doc_id(namespace, ids.locator(source, path))
        nothing = dict.fromkeys(("mime", "charset", "url", "final_url", "etag", "last_modified"))
        found = Locator(
            path=path,
            doc_id=doc_id,
            state="present",
            role=role,
            sha256=sha256,
            byte_size=len(data),
            lifecycle="active",
            created_at=0,
            since=0,
            job_id="",
            **nothing,
        )
        self._located[source, path] = data, found
        return found

    def _document(
        self, entry: Entry, x: Locator, problems: set[tuple[str, Problem]]
    ) -> dict[str, Any] | None:
        """The row of a document; None for what is input or cannot be parsed."""
        if x.role != "document":
            return None
        key = entry.source_id, x.path, x.sha256
        if key not in self._rows:
            try:
                row = document_row(self._blobs, self._settings, entry, x, "")
                self._rows[key] = row | _TIMES
            except TabootError as error:
                self._rows[key] = Problem(x.path, error.code, error.message)
        found = self._rows[key]
        if isinstance(found, Problem):
            problems.add((entry.source_id, found))
            return None
        return found

    def _interpreted(
        self,
        entry: Entry,
        locators: Mapping[str, Locator],
        rows: Sequence[Mapping[str, Any]],
        held: Held | None,
    ) -> Iterable[Outcome]:
        """What the units of a source say, without those that others take in."""
        kind, listing = kind_of(entry), _Documents(entry.namespace, rows)
        if not kind.graph:
            return []
        tier = tier_a_triples.TIER
        extractors = tier_a_triples.extractors_of(kind, facts_of(entry), listing, locators, self._blobs)
        interpreter = Interpreter(tier, listing.by_path, extractors, lambda _: ())
        if held is not None:
            found = held.outcomes(entry, tier, interpreter)
            self._outcomes |= {(entry.source_id, unit): outcome for unit, outcome in found.items()}
        known = {
            unit: outcome
            for unit in interpreter.units
            if (outcome := self._outcomes.get((entry.source_id, unit)))
            and interpreter.state(unit, outcome.reads) == outcome.fingerprint
        }
        new = [unit for unit in interpreter.units if unit not in known]
        outcomes = known | {o.unit.unit_id: o for o in interpreter.interpret(new)}
        self._outcomes |= {(entry.source_id, unit): outcome for unit, outcome in outcomes.items()}
        passed = taken_in({unit: o.subordinates for unit, o in outcomes.items()})
        return [outcome for unit, outcome in outcomes.items() if unit not in passed]

    def _claimed(self, outcome: Outcome) -> Mapping[str, list[dict[str, Any]]]:
        """What a unit says, by the document in which it stands."""
        if outcome.run_id not in self._claims:
            found: dict[str, list[dict[str, Any]]] = {}
            for claim in outcome.rows:
                found.setdefault(claim.doc_id, []).append(claim._asdict())
            self._claims[outcome.run_id] = found
        return self._claims[outcome.run_id]

    def _said_by(self, doc_id: str, runs: frozenset[str]) -> _Said:
        """What these runs observed in a document."""
        if (doc_id, runs) not in self._said:
            rows = [claim for run in sorted(runs) for claim in self._claims[run][doc_id]]
            self._said[doc_id, runs] = _Said(rows, runs)
        return self._said[doc_id, runs]

    def _view(
        self,
        namespace: str,
        sources: Sequence[Files],
        rows: Sequence[dict[str, Any]],
        said: Mapping[str, _Said],
        proposed: set[str],
    ) -> View:
        """The graph as ``stages.entity_snapshots`` makes it, from nothing and without decisions."""
        stated = [of for doc_id, of in said.items() if doc_id not in proposed]
        known = meanings(declarations(o for of in stated for o in of.declaring), namespace=namespace)
        vocabulary = frozenset(
            fold(name) for name, meaning in known.items() if meaning.is_mentioned and meaning.targets(name)
        )
        reaches = Reaches(reach_rows(o for of in stated for o in of.reaching))
        held = [tables.empty("documents"), *map(self._row, rows)]
        documents = pa.concat_tables(held).sort_by("doc_id").combine_chunks()
        facts = [
            self._facts(
                row, said.get(row["doc_id"], _NOTHING), row["doc_id"] in proposed, vocabulary, reaches
            )
            for row in sorted(rows, key=lambda row: str(row["doc_id"]))
        ]
        entities = self._entities.of({doc_id: claims for doc_id, claims, _ in facts}, resolutions(known))
        shards = _MemoryShards(
            _manifest(namespace, sources, documents.num_rows),
            documents,
            pa.concat_tables([tables.empty("relations"), *(relations for _, _, relations in facts)]),
            entities,
            names_table(known),
        )
        retrieval = self._settings.retrieval
        return View(
            ManifestVersion(None, shards.manifest),
            cast("Shards", shards),
            bm25_k1=retrieval.bm25_k1,
            bm25_b=retrieval.bm25_b,
        )

    def _row(self, row: dict[str, Any]) -> pa.Table:
        """A document as a row of ``tables.DOCUMENTS``."""
        key = row["doc_id"], row["blob_sha256"], row["fingerprint"]
        if key not in self._document_rows:
            self._document_rows[key] = pa.Table.from_pylist([row], schema=tables.DOCUMENTS)
        return self._document_rows[key]

    def _facts(
        self,
        row: dict[str, Any],
        said: _Said,
        proposed: bool,
        vocabulary: frozenset[str],
        reaches: Reaches,
    ) -> _Facts:
        """What a document states, but for the names that its text happens to hold."""
        # What a text says between two names counts by whether they are known.
        named = (bool(vocabulary), said.between & vocabulary) if said.between else None
        # What a service asks for depends on what others declare.
        answers = tuple(answer_to(o, reaches) for o in said.uses)
        key = row["doc_id"], row["blob_sha256"], proposed, named, said.runs, answers
        found = self._stated.get(key)
        if found is None:
            given = DocumentInput(row, (), said.rows, proposed=proposed)
            facts = document_facts(given, _NO_NAMES, {}, vocabulary, reaches, lambda _: b"")
            table = pa.Table.from_pylist(list(facts.relations), schema=tables.RELATIONS)
            found = self._stated[key] = row["doc_id"], facts.claims, table
        return found


class _Said:
    """What was observed in one document. ``between``: the names that its text relates, folded; ``uses``: what
    a service in it asks for, which others may declare; ``services``: those that it declares."""

    __slots__ = ("between", "declaring", "reaching", "rows", "runs", "services", "uses")

    def __init__(self, rows: Sequence[dict[str, Any]], runs: frozenset[str]) -> None:
        self.rows, self.runs = rows, runs
        self.declaring = [o for o in rows if o["declared"] and o["start_label"] in NAMED]
        self.reaching = [o for o in rows if o["kind"] in ("reach", "use") or o["type"] in REACH_EDGES]
        self.services = frozenset(o["start_key"] for o in rows if o["declared"] and o["type"] == "Service")
        self.uses = [o for o in rows if o["kind"] == "use"]
        self.between = frozenset(
            fold(o[name])
            for o in rows
            if o["method"].startswith(TEXT_METHOD) and o["type"] in BETWEEN
            for name in ("start_name", "end_name")
        )


_NOTHING = _Said((), frozenset())


class _Entities:
    """The entities of one state after another: what both say alike is reduced once."""

    def __init__(self) -> None:
        self._made: Mapping[str, Sequence[Claim]] = {}
        self._supported: Supported = {}
        self._resolved: Mapping[str, str] = {}
        self._nodes: list[Node] = []
        self._table = tables.empty("entities")

    def of(self, made: Mapping[str, Sequence[Claim]], resolved: Mapping[str, str]) -> pa.Table:
        """``tables.ENTITIES`` of the claims of each document, as ``reduce_entities`` makes it."""
        sides = (self._made, made), (made, self._made)
        removed, added = (
            [(Latest(0, i), claims) for i, claims in these.items() if others.get(i) != claims]
            for these, others in sides
        )
        claims = supports_after(self._supported, removed, added, partial(_latest, made))
        nodes = {(claim.label, claim.observed_key) for _, of in (*removed, *added) for claim in of}
        touched = touched_entities(nodes, self._resolved, resolved)
        concerned = {
            claim: support
            for claim, support in claims.items()
            if (claim.label, resolve_key(claim.label, claim.observed_key, resolved)) in touched
        }
        kept = self._table.filter(pa.array([node not in touched for node in self._nodes], pa.bool_()))
        new = pa.Table.from_pylist(reduce_entities(concerned, resolved), schema=tables.ENTITIES)
        order = [("label", "ascending"), ("key", "ascending")]
        self._table = pa.concat_tables([kept, new]).sort_by(order).combine_chunks()
        self._nodes = list(rows_of(self._table, "label", "key"))
        self._made, self._supported, self._resolved = made, claims, resolved
        return self._table


def _latest(made: Mapping[str, Sequence[Claim]], wanted: Collection[Claim]) -> dict[Claim, Latest]:
    """The last of the documents that make each of these claims."""
    sought = frozenset(wanted)
    return {
        claim: Latest(0, doc_id) for doc_id in sorted(made) for claim in sought.intersection(made[doc_id])
    }


def _variables(data: bytes) -> dict[str, str]:
    """The names that a file of variables sets. What it sets them to may be secret, and is only compared."""
    values = parse_env(data.decode("utf-8", "replace"), {})
    return {name: ids.sha256_hex(value or "") for name, value in values.items()}


def _exampled(files: Files) -> Iterator[tuple[str, frozenset[str]]]:
    """The names that examples of files of variables set, by their folder."""
    for path, (_, data) in files.items.items():
        name = posixpath.basename(path)
        if ".env" in name.lower() and is_example(name):
            yield posixpath.dirname(files.told(path)), names_set(data)


def names_set(data: bytes) -> frozenset[str]:
    """The names that a file of variables sets."""
    return frozenset(_variables(data))


class _Documents(SourceDocuments):
    """The documents of a source that lie in no table."""

    def __init__(self, namespace: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.namespace = namespace
        self.listed = {row["doc_id"]: Document(*(row[c] for c in Document.__slots__)) for row in rows}
        self.by_path = {document.path: doc_id for doc_id, document in self.listed.items()}
        self._texts = {row["doc_id"]: (row["text"], row["offsets"]) for row in rows}

    def texts(self, doc_ids: Iterable[str]) -> dict[str, tuple[str, bytes]]:
        return {doc_id: self._texts[doc_id] for doc_id in doc_ids}


def _manifest(namespace: str, sources: Sequence[Files], documents: int) -> Manifest:
    return Manifest(
        namespace=namespace,
        version=1,
        snapshot="",
        space=SpaceEntry(model="", revision="", dimension=1, max_tokens=1),
        analyzer=ANALYZER,
        sources={
            f.entry.source_id: ManifestSource(
                type=f.entry.config.type, tags=tuple(f.entry.config.tags), root=f.shown
            )
            for f in sources
        },
        shards=(ShardEntry(key="0" * 64, kind="documents", first="", documents=documents, chunks=documents),),
    )


class _MemoryShards:
    """The part of ``shards.reader.Shards`` by which a view reads the graph and the texts."""

    def __init__(
        self,
        manifest: Manifest,
        documents: pa.Table,
        relations: pa.Table,
        entities: pa.Table,
        names: pa.Table,
    ) -> None:
        self.manifest = manifest
        self._tables = {
            "documents": [documents, relations],
            "entities": [entities, names, tables.empty("decisions")],
        }
        self.documents = (_MemoryShard(manifest.shards[0], _MemoryFile(documents)),)

    def prepare(self) -> None:
        """There is nothing to map."""

    def tables(self, kind: str, _queries: Sequence[str]) -> list[pa.Table]:
        return self._tables[kind]


@dataclass(frozen=True)
class _MemoryShard:
    """The part of ``shards.reader.DocumentShard`` by which texts are read."""

    entry: ShardEntry
    mapped: _MemoryFile


class _MemoryFile:
    """The part of ``shards.search_files.SearchFile`` by which texts are read: a chunk for each document."""

    def __init__(self, documents: pa.Table) -> None:
        columns = ["doc_id", "source_id", "path", "url", "title", "lang", "date", "since", "blob_sha256"]
        nothing = pa.nulls(len(documents), pa.string())
        self.documents = documents.select(columns).append_column("places", nothing)
        texts = documents.column("text")
        lengths = pa.array([len(text) for text in texts.to_pylist()], pa.int64())
        zeros = np.zeros(len(documents), dtype=np.float32)
        hashes = [bytes.fromhex(sha256) for sha256 in documents.column("text_sha256").to_pylist()]
        self.chunks = pa.table(
            {
                "chunk_index": pa.array(np.zeros(len(documents), dtype=np.int32)),
                "start": pa.array(np.zeros(len(documents), dtype=np.int64)),
                "end": lengths,
                "text": texts,
                "section": pa.array([""] * len(documents), pa.string()),
                "content_type": pa.array(["code"] * len(documents), pa.string()),
                "tokens": pa.array(np.zeros(len(documents), dtype=np.int32)),
                "document": pa.array(np.arange(len(documents), dtype=np.int32)),
                "line": pa.array(np.ones(len(documents), dtype=np.int32)),
                "sha256": pa.array(hashes, pa.binary(32)),
                "length": pa.array(np.zeros(len(documents), dtype=np.int32)),
                **{name: pa.array(zeros) for name in ("scale", "error", "radius")},
            }
        )
