"""entity_snapshots: the namespace's current truth, and the mentions of the names that it declares and of the
titles of its documents.

The run of any source brings in everything pending in the namespace: what changed in each source, and what
that touches elsewhere (a shared entity, a name that has gained a meaning). The work is in proportion to the
change. What people decided is taken like a source (``stages.assertions``); their corrections and merges are
applied here. Holds rules ``unit-of-interpretation``, ``versioned-runs``, ``deterministic-reducer``,
``support``, ``watermark`` and ``incremental-equals-scratch``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.errors import TabootError
from taboot_pipelines.incremental import Difference, batches
from taboot_pipelines.knowledge.assertions import decision_table, in_force
from taboot_pipelines.knowledge.changes import (
    FINGERPRINT_COLUMNS,
    LISTING_COLUMNS,
    RUN_COLUMNS,
    Changes,
    Scope,
    SourceState,
    compare,
    scope,
    source_state,
    version_mark,
)
from taboot_pipelines.knowledge.mentions import (
    MATCHER_VERSION,
    NameMatcher,
    documents_holding,
    fold,
    titles_within,
    tokens,
)
from taboot_pipelines.knowledge.names import (
    NAMES_ORDER,
    Meaning,
    Merges,
    declarations,
    meanings,
    merges_of,
    moved_names,
    names_table,
    resolutions,
)
from taboot_pipelines.knowledge.reach import COLUMNS as REACH_COLUMNS
from taboot_pipelines.knowledge.reach import EDGES as REACH_EDGES
from taboot_pipelines.knowledge.reach import Reaches, moved_uses, reach_rows
from taboot_pipelines.knowledge.reducer import (
    REDUCER_VERSION,
    Claim,
    Correction,
    Latest,
    Node,
    load_claims,
    reduce_entities,
    supports_after,
    touched_entities,
)
from taboot_pipelines.knowledge.relations import (
    CHUNK_COLUMNS,
    RELATIONS_VERSION,
    DocumentFacts,
    DocumentInput,
    document_facts,
)
from taboot_pipelines.knowledge.structured import STATED
from taboot_pipelines.knowledge.titles import TITLES_VERSION, TitleMatcher, title_keys
from taboot_pipelines.model import ids
from taboot_pipelines.model.tables import (
    DECLARATIONS,
    DOC_STATE,
    ENTITIES,
    RELATIONS,
    TITLE_LINKS,
    rows_of,
)
from taboot_pipelines.sources import Stance, stance_of
from taboot_pipelines.stages.assertions import OBSERVATIONS as STATED_OBSERVATIONS
from taboot_pipelines.stages.assertions import asserted, bring_up_to_date
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.snapshot import WITHDRAWN
from taboot_pipelines.stages.source_versions import SourceVersions, source_versions
from taboot_pipelines.stages.workspace import Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.tables import NAMESPACE, Tables, TableVersion

STAGE = "entity_snapshots"
VERSION = "5"
TABLES = (
    "entities",
    "relations",
    "names",
    "decisions",
    "declarations",
    "reaches",
    "title_links",
    "doc_state",
)
#: Of so few texts those titles are looked for that their words allow.
_FEW_TEXTS = 32
#: Everything but the tables that decides what the snapshot holds.
_VERSIONS = (VERSION, REDUCER_VERSION, MATCHER_VERSION, RELATIONS_VERSION, TITLES_VERSION)


def run(
    workspace: Workspace,
    namespace: str,
    source_id: str,
    progress: Progress = no_progress,
    *,
    stages: Sequence[str],
    observation_tables: Sequence[str],
) -> StageReport:
    """Apply everything pending in the namespace; publish one pointer with the vector of source versions.

    A version of a source is taken once its ``stages`` agree; the facts are those
    of all ``observation_tables``.
    """
    with reporting(STAGE, source_id, namespace) as report:
        try:
            with workspace.leases.namespace(namespace):
                _apply(workspace, namespace, stages, observation_tables, report, progress)
                # Another source's run may have finished meanwhile: whoever waited for it then
                # finds the work done.
                while _pending(workspace, namespace, None, stages):
                    _apply(workspace, namespace, stages, observation_tables, report, progress)
        except TabootError as error:
            if error.code != "E_BUSY" or _pending(workspace, namespace, source_id, stages):
                raise
            report.skipped = "applied by another run"
    return report


def _pending(workspace: Workspace, namespace: str, source_id: str | None, stages: Sequence[str]) -> bool:
    """Whether a source (None: any) has a version that the snapshot has not applied."""
    pointer = workspace.catalog.pointers.get(namespace, NAMESPACE, STAGE)
    if pointer is None:
        return True
    versions = source_versions(workspace, namespace, pointer.applied, stages).versions
    return (
        versions != dict(pointer.applied)
        if source_id is None
        else versions.get(source_id) != pointer.applied.get(source_id)
    )


# --- the tables ---------------------------------------------------------------------------------------------


class _Snapshot:
    """The snapshot's own tables, at the versions that this run has made so far."""

    def __init__(
        self, tables: Tables, namespace: str, versions: Mapping[str, TableVersion | None], txn: str
    ) -> None:
        self.versions = dict(versions)
        self._tables = tables
        self._namespace = namespace
        self._txn = txn

    def read(self, name: str, **options: Any) -> pa.Table:
        return self._tables.read(self._namespace, NAMESPACE, name, self.versions[name], **options)

    def replace(self, name: str, rows: pa.Table, buckets: Collection[int] | None) -> None:
        """Replace whole buckets (None: the whole table)."""
        self.versions[name] = self._tables.replace(
            self._namespace, NAMESPACE, name, rows, buckets=buckets, txn=self._txn
        )


class _Sources:
    """The tables of the namespace's sources, at the versions that this run applies.

    Documents that are gone since are left out.
    """

    def __init__(
        self,
        tables: Tables,
        namespace: str,
        applied: SourceVersions,
        observation_tables: Sequence[str],
        salt: str,
    ) -> None:
        self.versions = applied.versions
        self._withdrawn = applied.withdrawn
        self._in_place = applied.in_place
        #: What the fingerprint of every document depends on besides its tables.
        self.salt = salt
        self._tables = tables
        self._namespace = namespace
        self._observation_tables = observation_tables

    def state(self, source: str, buckets: Collection[int] | None = None) -> SourceState:
        """Return the state of all documents of a source, or of those in some buckets."""
        documents = self._read(source, "documents", columns=FINGERPRINT_COLUMNS, buckets=buckets)
        at: dict[str, Any] = {}
        if source in self._in_place:
            at["buckets"] = buckets
        elif buckets is not None:
            # The observations of a project lie in the bucket of its main file, wherever the document is.
            at["members"] = ("doc_id", documents.column("doc_id").to_pylist())
        return source_state(
            documents,
            self._read(source, "chunks", columns=FINGERPRINT_COLUMNS, buckets=buckets),
            self._read(source, "links", columns=FINGERPRINT_COLUMNS, buckets=buckets),
            {name: self._read(source, name, columns=RUN_COLUMNS, **at) for name in self._observation_tables},
            self.salt,
            without=self._withdrawn.get(source, frozenset()),
        )

    def changed_buckets(self, source: str, before: Mapping[str, Any]) -> frozenset[int] | None:
        """Return the buckets of the documents that may differ from those of another version of the source.

        None stands for all buckets.
        """
        now = self.versions[source]
        if WITHDRAWN in now or WITHDRAWN in before:
            return None
        found: set[int] = set()
        for name in ("documents", "chunks", "links", *self._observation_tables):
            versions = (before.get(name), now.get(name))
            changed = self._tables.changed_buckets(self._namespace, source, name, *versions)
            if changed is None:
                return None
            if name in self._observation_tables:
                for version in versions:
                    rows = self._tables.read(
                        self._namespace, source, name, version, columns=["doc_id"], buckets=changed
                    )
                    doc_ids = pc.unique(rows.column("doc_id")).to_pylist()
                    found.update(ids.doc_bucket(doc_id) for doc_id in doc_ids)
            else:
                found |= changed
        return frozenset(found)

    def declaring(self, source: str, doc_ids: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the observations of nodes that declare a name in some documents. What is only proposed
        declares none."""
        columns = ["doc_id", "kind", "start_label", "start_key", "start_name", "declared", "aliases"]
        at = {ids.doc_bucket(doc_id) for doc_id in doc_ids} if source in self._in_place else None
        for name in self._observation_tables:
            rows = self._read(source, name, columns=columns, buckets=at, members=("doc_id", sorted(doc_ids)))
            declared = rows.filter(pc.and_(rows.column("declared"), pc.equal(rows.column("kind"), "node")))
            if declared.num_rows and not self._proposes(source):
                yield from declared.to_pylist()

    def reaching(self, source: str, doc_ids: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the observations in some documents that say where services are reached and what they ask for.
        What is only proposed says nothing of it."""
        if self._proposes(source):
            return
        at = {ids.doc_bucket(doc_id) for doc_id in doc_ids} if source in self._in_place else None
        for name in self._observation_tables:
            rows = self._read(
                source, name, columns=list(REACH_COLUMNS), buckets=at, members=("doc_id", sorted(doc_ids))
            )
            kind, type_ = rows.column("kind"), rows.column("type")
            told = pc.is_in(type_, value_set=pa.array(REACH_EDGES))
            yield from rows.filter(
                pc.or_(pc.is_in(kind, value_set=pa.array(["reach", "use"])), told)
            ).to_pylist()

    def _proposes(self, source: str) -> bool:
        types = self._read(source, "documents", columns=["source_type"]).column("source_type")
        return any(stance_of(type_) is Stance.PROPOSES for type_ in pc.unique(types).to_pylist())

    def titles(self, source: str, doc_ids: Collection[str]) -> Iterator[str]:
        """Yield by what texts may name some documents."""
        rows = self._read(
            source,
            "documents",
            columns=["doc_id", "title"],
            buckets={ids.doc_bucket(doc_id) for doc_id in doc_ids},
        )
        for title in rows.filter(_among(rows, "doc_id", doc_ids)).column("title").to_pylist():
            yield from title_keys(title)

    def documents(
        self, source: str, doc_ids: Collection[str], buckets: Collection[int], state: SourceState
    ) -> Iterator[DocumentInput]:
        """Yield some documents, which lie in these buckets, with their chunks and observations."""
        members = pa.array(sorted(doc_ids), pa.string())

        def pick(
            name: str, at: Collection[int], columns: Sequence[str] | None = None
        ) -> dict[str, list[dict[str, Any]]]:
            rows = self._read(source, name, buckets=at, columns=columns)
            by_document: dict[str, list[dict[str, Any]]] = {}
            for row in rows.filter(pc.is_in(rows.column("doc_id"), members)).to_pylist():
                by_document.setdefault(row["doc_id"], []).append(row)
            return by_document

        chunks = pick("chunks", buckets, CHUNK_COLUMNS)
        observations: dict[str, list[dict[str, Any]]] = {}
        for name, held in state.buckets.items():
            # The rows of a project lie in the bucket of its main file, whichever bucket the
            # quoted document is in.
            at = {bucket for doc_id in doc_ids for bucket in held.get(doc_id, ())}
            for doc_id, rows in pick(name, at).items():
                observations.setdefault(doc_id, []).extend(rows)
        for doc_id, (document,) in pick("documents", buckets).items():
            proposed = stance_of(document["source_type"]) is Stance.PROPOSES
            yield DocumentInput(
                document, chunks.get(doc_id, []), observations.get(doc_id, []), proposed=proposed
            )

    def _read(self, source: str, name: str, **options: Any) -> pa.Table:
        # A version of the source may be older than a table of observations, and then lacks it.
        return self._tables.read(self._namespace, source, name, self.versions[source].get(name), **options)


# --- the steps ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decided:
    """What people decided, before and now."""

    merges_before: Merges
    merges: Merges
    corrections: frozenset[Correction]
    #: The entities of which a correction is new or gone, by the keys under which they were corrected.
    corrected: frozenset[Node]
    changed: int


@dataclass(frozen=True)
class _Names:
    """What names meant before and mean now."""

    known: Mapping[str, Meaning]
    changed: int
    #: {key of a bare name: key of the node that it means}
    resolved_before: Mapping[str, str]
    resolved: Mapping[str, str]
    decided: _Decided
    #: The titles of the documents, in the normal form, and how many of them are new or gone.
    titles: pa.Array
    titles_changed: int
    reaches: Reaches
    #: {doc_id: source} of unchanged documents that hold a name whose meaning changed, or such a title, or ask
    #: for a host that is something else now.
    rescan: Mapping[str, str]

    @cached_property
    def matcher(self) -> NameMatcher:
        return NameMatcher(self.known)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        return frozenset(map(fold, _told(self.known)))


@dataclass(frozen=True)
class _Related:
    """What became of the relations of the documents under examination."""

    #: What the documents claimed before, and what they claim now.
    removed: Sequence[tuple[Latest, Sequence[Claim]]]
    added: Sequence[tuple[Latest, Sequence[Claim]]]
    edges: int
    #: {doc_id: why} of documents whose blob is damaged; every run tries them again.
    unread: Mapping[str, TabootError]


def _apply(
    workspace: Workspace,
    namespace: str,
    stages: Sequence[str],
    observation_tables: Sequence[str],
    report: StageReport,
    progress: Progress,
) -> None:
    """Carry out the steps of the stage: compare, name, relate, reduce, publish."""
    catalog, tables = workspace.catalog, workspace.tables
    bring_up_to_date(workspace, namespace)
    observation_tables = (*observation_tables, STATED_OBSERVATIONS)
    pointer = catalog.pointers.get(namespace, NAMESPACE, STAGE)
    applied: Mapping[str, Any] = pointer.applied if pointer else {}
    current = source_versions(workspace, namespace, applied, stages)
    versions = current.versions
    inputs = ids.digest(versions, *_VERSIONS)
    report.data_version = inputs
    whole = (
        pointer is not None
        and pointer.tables.keys() == set(TABLES)
        and tables.exist(namespace, NAMESPACE, pointer.tables)
    )
    if pointer is not None and pointer.inputs == inputs and whole:
        report.tables, report.skipped = dict(pointer.tables), "unchanged"
        return
    # Tables of an earlier release may have other columns; then all are made again.
    whole = whole and all(tables.fits(namespace, NAMESPACE, name) for name in TABLES)
    # What a killed run left ahead of the pointer is rolled back, and the tables hold again what was
    # published. If one of them is lost, all are made again.
    published = {name: pointer.tables[name] if pointer and whole else None for name in TABLES}
    snapshot = _Snapshot(
        tables,
        namespace,
        {name: tables.rollback(namespace, NAMESPACE, name, published[name]) for name in TABLES},
        txn=inputs,
    )
    # A new version of the reducer examines every document again; the fingerprints of the old one are void.
    salt = ids.digest(*_VERSIONS)
    sources = _Sources(tables, namespace, current, observation_tables, salt)

    # What was applied as a whole, by what is in force now, says by itself where to look for changes.
    settled = (
        whole
        and pointer is not None
        and pointer.inputs == ids.digest(pointer.applied, *_VERSIONS)
        and applied.keys() <= versions.keys()
    )
    columns = ["doc_id", "titles"] if settled else [*LISTING_COLUMNS, "doc_id", "titles"]
    listed = snapshot.read("doc_state", columns=columns)
    changes = _compare(snapshot, sources, applied if whole else {}, listed, settled)
    report.counts |= {
        "documents": changes.documents,
        "changed": len(changes.changed),
        "removed": len(changes.removed),
    }
    decided = _decide(snapshot, decision_table(in_force(asserted(workspace, namespace))))
    names = _name(namespace, snapshot, sources, changes, listed, decided)
    report.counts |= {
        "names": len(names.known),
        "names_changed": names.changed,
        "decisions_changed": decided.changed,
        "titles": len(names.titles),
        "titles_changed": names.titles_changed,
        "rescanned": len(names.rescan),
    }
    related = _relate(
        snapshot,
        sources,
        changes,
        names,
        read_blob=lambda sha256: workspace.blobs.get(namespace, sha256),
        batch=workspace.settings.limits.batch_documents,
        progress=lambda done, total: progress(STAGE, done, total),
    )
    for doc_id, error in related.unread.items():
        report.problem(error.code, doc_id, error.message)
    entities = _reduce(snapshot, names, related)
    report.counts |= {"edges_written": related.edges, "entities_written": entities}

    own = ids.digest(inputs, "incomplete") if related.unread else inputs
    catalog.pointers.publish(
        namespace,
        NAMESPACE,
        Pointer(stage=STAGE, tables=snapshot.versions, inputs=own, txn=inputs, applied=versions),
    )
    report.tables = dict(snapshot.versions)


def _compare(
    snapshot: _Snapshot, sources: _Sources, applied: Mapping[str, Any], listed: pa.Table, settled: bool
) -> Changes:
    """Find the documents that changed, looking only into the buckets in which a source did.

    ``listed`` lists all documents, with the columns by which these are found unless all is ``settled`` but
    for the sources that have changed.
    """
    if settled:
        found = Scope([s for s, version in sources.versions.items() if version != applied.get(s)], set())
    else:
        found = scope(listed, sources.versions, applied, sources.salt)
    buckets = found.buckets
    for source in found.sources:
        changed = None if buckets is None else sources.changed_buckets(source, applied.get(source, {}))
        buckets = None if buckets is None or changed is None else buckets | changed
    columns = [f.name for f in DOC_STATE if f.name not in {"claims", "titles", "tokens"}]
    held = snapshot.read("doc_state", columns=columns, buckets=buckets).to_pylist()
    states = {source: sources.state(source, buckets) for source in found.sources}
    at = None if buckets is None else frozenset(buckets)
    return compare(held, sources.versions, states, buckets=at, documents=listed.num_rows)


def _decide(snapshot: _Snapshot, decisions: pa.Table) -> _Decided:
    """Compare what people decided before and now, and keep what is in force."""
    before = snapshot.read("decisions")
    changed = _rows(before) ^ _rows(decisions)
    if changed:
        snapshot.replace("decisions", decisions, None)
    return _Decided(
        merges_before=merges_of(before),
        merges=merges_of(decisions),
        corrections=_corrections(decisions),
        corrected=frozenset((c.label, c.key) for c in _corrections(before) ^ _corrections(decisions)),
        changed=len(changed),
    )


def _corrections(decisions: pa.Table) -> frozenset[Correction]:
    fields = decisions.filter(pc.equal(decisions.column("kind"), "field"))
    return frozenset(
        Correction(*row) for row in rows_of(fields, "number", "label", "key", "property", "value")
    )


def _rows(decisions: pa.Table) -> set[tuple[Any, ...]]:
    return set(rows_of(decisions))


def _name(
    namespace: str,
    snapshot: _Snapshot,
    sources: _Sources,
    changes: Changes,
    listed: pa.Table,
    decided: _Decided,
) -> _Names:
    """Compare the declared names, and the titles of the documents, before and after.

    Also find the documents that hold a name whose meaning changed, or a title that is new or gone.
    """
    before = snapshot.read("declarations")
    kept = before.filter(pc.invert(_among(before, "doc_id", changes.changed | changes.removed)))
    new = declarations(o for source in changes.sources for o in sources.declaring(source, changes.changed))
    after = pa.concat_tables([kept, new])
    known_before = meanings(before, decided.merges_before, namespace=namespace)
    known = meanings(after, decided.merges, namespace=namespace)
    moved = moved_names(known_before, known)
    titles, other_titles = _titles(listed, sources, changes)
    reaches, holding = _reach(snapshot, sources, changes, decided)
    owner: dict[str, str] = {}
    # With the first thing that is declared, and without the last, texts are read otherwise.
    begun = any(True for _ in _told(known_before)) != any(True for _ in _told(known))
    if moved or other_titles or holding:
        state = snapshot.read("doc_state", columns=["doc_id", "source_id", "tokens"])
        held = state.column("doc_id").to_pylist() if begun else documents_holding(moved, state, other_titles)
        holding |= set(held) - changes.changed - changes.removed
        owner = {d: source for d, source in rows_of(state, "doc_id", "source_id") if d in holding}
    if new.num_rows or kept.num_rows != before.num_rows:
        touched = {ids.doc_bucket(doc_id) for doc_id in changes.changed | changes.removed}
        rows = after.filter(pc.is_in(after.column("bucket"), pa.array(sorted(touched), pa.int32())))
        snapshot.replace(
            "declarations", rows.sort_by([(column, "ascending") for column in DECLARATIONS.names]), touched
        )
    table = names_table(known, decided.merges)
    if not table.equals(snapshot.read("names").sort_by(NAMES_ORDER)):
        snapshot.replace("names", table, None)
    return _Names(
        known={name: meaning for name, meaning in known.items() if meaning.is_mentioned},
        changed=len(moved),
        resolved_before=resolutions(known_before, decided.merges_before),
        resolved=resolutions(known, decided.merges),
        decided=decided,
        titles=titles,
        titles_changed=len(other_titles),
        reaches=reaches,
        rescan=owner,
    )


def _told(known: Mapping[str, Meaning]) -> Iterator[str]:
    """The names of which a mention leads to what is declared."""
    return (name for name, meaning in known.items() if meaning.targets(name))


def _reach(
    snapshot: _Snapshot, sources: _Sources, changes: Changes, decided: _Decided
) -> tuple[Reaches, set[str]]:
    """Keep where services are reached, and return that with the unchanged documents that ask for a host which
    is something else than before."""
    before = snapshot.read("reaches")
    examined = changes.changed | changes.removed
    kept = before.filter(pc.invert(_among(before, "doc_id", examined)))
    new = reach_rows(o for source in changes.sources for o in sources.reaching(source, changes.changed))
    after = pa.concat_tables([kept, new])
    reaches = Reaches(after, decided.merges)
    same = not new.num_rows and kept.num_rows == before.num_rows
    if same and decided.merges == decided.merges_before:
        return reaches, set()
    if not same:
        touched = {ids.doc_bucket(doc_id) for doc_id in examined}
        rows = after.filter(pc.is_in(after.column("bucket"), pa.array(sorted(touched), pa.int32())))
        snapshot.replace("reaches", rows.sort_by("doc_id"), touched)
    return reaches, moved_uses(Reaches(before, decided.merges_before), reaches, kept)


def _titles(listed: pa.Table, sources: _Sources, changes: Changes) -> tuple[pa.Array, list[str]]:
    """Return the distinct titles of the documents now, and those that are new or gone.

    ``listed`` has ``doc_id`` and ``titles`` of all documents before.
    """
    examined = _among(listed, "doc_id", changes.changed | changes.removed)
    kept = pc.list_flatten(listed.filter(pc.invert(examined)).column("titles")).combine_chunks()
    old = set(pc.list_flatten(listed.filter(examined).column("titles")).to_pylist())
    new: set[str] = set()
    for source in changes.sources:
        members = [d for d in changes.changed if changes.owner[d] == source]
        if members:
            new.update(sources.titles(source, members))
    differing = pa.array(sorted(old ^ new), pa.string())
    elsewhere = pc.is_in(differing, kept)
    now = pc.unique(pa.concat_arrays([kept, pa.array(sorted(new), pa.string())]))
    return now, differing.filter(pc.invert(elsewhere)).to_pylist()


#: Rows of relations that are held as Python's objects, a kilobyte or two each.
_MAX_ROWS = 10_000


class _Relations:
    """The relations of a batch of documents, in tables of at most :data:`_MAX_ROWS` rows."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[dict[str, Any]] = []
        self._tables: list[pa.Table] = []

    def take(self, rows: Iterable[dict[str, Any]]) -> str:
        """Take in the rows of a document; returns their hash, as :func:`ids.digest` makes it of all of
        them."""
        hashed = hashlib.sha256(b"[")
        for n, row in enumerate(rows):
            text = ids.canonical_json(list(row.values()))
            hashed.update((b"," if n else b"") + text.encode("utf-8", "surrogatepass"))
            self._rows.append(row)
            self.count += 1
            if len(self._rows) >= _MAX_ROWS:
                self._flush()
        hashed.update(b"]")
        return hashed.hexdigest()

    def table(self) -> pa.Table:
        self._flush()
        return pa.concat_tables(self._tables)

    def _flush(self) -> None:
        self._tables.append(pa.Table.from_pylist(self._rows, schema=RELATIONS))
        self._rows = []


@dataclass
class _Made:
    """What the documents of a batch bring into the snapshot."""

    relations: _Relations = field(default_factory=_Relations)
    doc_states: list[dict[str, Any]] = field(default_factory=list)
    title_links: list[dict[str, Any]] = field(default_factory=list)
    claims: list[tuple[Latest, Sequence[Claim]]] = field(default_factory=list)
    unread: dict[str, TabootError] = field(default_factory=dict)


def _make(
    made: _Made,
    found: list[DocumentInput],
    source: str,
    state: SourceState,
    names: _Names,
    every_title: TitleMatcher | None,
    salt: str,
    read_blob: Callable[[str], bytes],
) -> None:
    """Add what documents of one source bring to ``made``. Each is let go once it is read."""
    matcher = every_title or TitleMatcher(
        titles_within(names.titles, (given.document["text"] for given in found)).to_pylist()
    )
    found.reverse()
    while found:
        given = found.pop()
        facts = document_facts(given, names.matcher, names.known, names.vocabulary, names.reaches, read_blob)
        made.claims.append((Latest(given.recency, given.doc_id), facts.claims))
        if facts.failure is not None:
            made.unread[given.doc_id] = facts.failure
        links = _title_links(given, matcher)
        made.title_links += links
        row = _doc_state(given, source, state, facts, links)
        row["relations_fingerprint"] = version_mark(salt) + made.relations.take(facts.relations)
        made.doc_states.append(row)


def _relate(
    snapshot: _Snapshot,
    sources: _Sources,
    changes: Changes,
    names: _Names,
    *,
    read_blob: Callable[[str], bytes],
    batch: int,
    progress: Callable[[int, int], None],
) -> _Related:
    """Make the edges of the documents that changed, or hold a name that did."""
    todo = changes.changed | names.rescan.keys()
    owner = {**changes.owner, **names.rescan}
    states = dict(changes.sources)
    for source in sorted(set(names.rescan.values())):
        at = {ids.doc_bucket(d) for d, its in names.rescan.items() if its == source}
        if source not in states or (changes.buckets is not None and not at <= changes.buckets):
            states[source] = sources.state(source, at | (changes.buckets or set()))
    # An automaton of all titles takes longer to make than a few texts to be searched.
    every_title = TitleMatcher(names.titles.to_pylist()) if len(todo) > _FEW_TEXTS else None
    removed_claims: list[tuple[Latest, Sequence[Claim]]] = []
    added_claims: list[tuple[Latest, Sequence[Claim]]] = []
    unread: dict[str, TabootError] = {}
    edges = done = 0
    for buckets, changed, removed in batches(
        Difference(tuple(sorted(todo)), tuple(sorted(changes.removed))), batch
    ):
        gone = {*changed, *removed}
        old, old_states = (snapshot.read(name, buckets=buckets) for name in ("relations", "doc_state"))
        removed_claims += _claims(old_states.filter(_among(old_states, "doc_id", gone)))
        made = _Made()
        for source, doc_ids in _by_owner(changed, owner):
            found = sources.documents(source, doc_ids, buckets, states[source])
            _make(made, list(found), source, states[source], names, every_title, sources.salt, read_blob)
        added_claims += made.claims
        unread.update(made.unread)
        for name, rows, current in (
            ("relations", made.relations.table(), old),
            (
                "title_links",
                pa.Table.from_pylist(made.title_links, schema=TITLE_LINKS),
                snapshot.read("title_links", buckets=buckets),
            ),
            ("doc_state", pa.Table.from_pylist(made.doc_states, schema=DOC_STATE), old_states),
        ):
            kept = current.filter(pc.invert(_among(current, "doc_id", gone)))
            if rows.num_rows or kept.num_rows != current.num_rows:
                snapshot.replace(name, pa.concat_tables([kept, rows]).sort_by("doc_id"), buckets)
        edges += made.relations.count
        done += len(changed)
        progress(done, len(todo))
    return _Related(removed=removed_claims, added=added_claims, edges=edges, unread=unread)


def _claims(doc_states: pa.Table) -> Iterator[tuple[Latest, Sequence[Claim]]]:
    """Yield what documents claim, from rows of ``tables.DOC_STATE``."""
    for doc_id, recency, claims in rows_of(doc_states, "doc_id", "recency", "claims"):
        yield Latest(recency, doc_id), [Claim(**claim) for claim in claims]


def _by_owner(doc_ids: Iterable[str], owner: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return [(source_id, its documents)], ascending."""
    by_source: dict[str, list[str]] = {}
    for doc_id in doc_ids:
        by_source.setdefault(owner[doc_id], []).append(doc_id)
    return sorted(by_source.items())


def _title_links(given: DocumentInput, matcher: TitleMatcher) -> list[dict[str, Any]]:
    """Return rows of ``tables.TITLE_LINKS``. The record of what a person stated leads nowhere."""
    if given.document["source_id"] == STATED:
        return []
    return [
        {
            "bucket": ids.doc_bucket(given.doc_id),
            "doc_id": given.doc_id,
            "title": found.title,
            "start": found.start,
            "end": found.end,
            "count": found.count,
        }
        for found in matcher.find(given.document["text"])
    ]


def _doc_state(
    given: DocumentInput,
    source: str,
    state: SourceState,
    facts: DocumentFacts,
    title_links: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the row of ``tables.DOC_STATE`` that says what has been applied of a document, but for its
    relations."""
    doc_id = given.doc_id
    return {
        "bucket": ids.doc_bucket(doc_id),
        "doc_id": doc_id,
        "source_id": source,
        "document_fingerprint": state.documents[doc_id] if facts.failure is None else "",
        "chunks_fingerprint": state.chunks.get(doc_id, ""),
        "links_fingerprint": state.links.get(doc_id, ""),
        "runs_fingerprint": state.runs.get(doc_id, ""),
        "titles_fingerprint": ids.digest(*(list(row.values()) for row in title_links)),
        "chunk_count": state.chunk_counts.get(doc_id, 0),
        "recency": given.recency,
        "claims": [claim._asdict() for claim in facts.claims],
        "titles": title_keys(given.document["title"]),
        "tokens": tokens(given.document["text"]),
    }


def _reduce(snapshot: _Snapshot, names: _Names, related: _Related) -> int:
    """Replace the claims of the documents under examination in their entities, and reduce these again.

    Returns the number of entities that were reduced.
    """
    claimed = (claim for _, claims in (*related.removed, *related.added) for claim in claims)
    decided = names.decided
    nodes = {(claim.label, claim.observed_key) for claim in claimed} | decided.corrected
    touched = touched_entities(
        nodes, names.resolved_before, names.resolved, decided.merges_before, decided.merges
    )
    old = snapshot.read("entities", buckets=sorted({ids.bucket(key) for _, key in touched}))
    # Most rows have none of the keys; of some key there may be several labels.
    near = pc.indices_nonzero(_among(old, "key", {key for _, key in touched}))
    nodes_near = rows_of(old.select(["label", "key"]).take(near))
    at = [i for i, node in zip(near.to_pylist(), nodes_near, strict=True) if node in touched]
    before = {(row["label"], row["key"]): row for row in old.take(pa.array(at, pa.int64())).to_pylist()}
    held = {
        claim: support
        for (label, _), row in before.items()
        for claim, support in load_claims(label, row["claims"]).items()
    }
    claims = supports_after(held, related.removed, related.added, lambda wanted: _latest(snapshot, wanted))
    reduced = reduce_entities(claims, names.resolved, decided.merges, decided.corrections)
    after = {(row["label"], row["key"]): row for row in reduced}
    differing = {row["bucket"] for node, row in after.items() if before.get(node) != row}
    differing |= {row["bucket"] for node, row in before.items() if node not in after}
    if differing:
        mask = np.isin(old.column("bucket").to_numpy(), sorted(differing))
        mask[at] = False
        rows = [row for row in after.values() if row["bucket"] in differing]
        table = pa.concat_tables([old.filter(pa.array(mask)), pa.Table.from_pylist(rows, schema=ENTITIES)])
        snapshot.replace("entities", table.sort_by([("label", "ascending"), ("key", "ascending")]), differing)
    return len(after)


def _latest(snapshot: _Snapshot, claims: Collection[Claim]) -> dict[Claim, Latest]:
    """Return the latest document that makes each of these claims, looking at all documents."""
    states = snapshot.read("doc_state", columns=["doc_id", "recency", "claims"]).combine_chunks()
    made = states.column("claims").combine_chunks()
    keys = pa.array(sorted({claim.observed_key for claim in claims}), pa.string())
    at = pc.list_parent_indices(made).filter(
        pc.is_in(pc.struct_field(pc.list_flatten(made), "observed_key"), keys)
    )
    wanted, found = set(claims), dict[Claim, Latest]()
    for latest, candidates in _claims(states.take(pc.unique(at))):
        for claim in wanted.intersection(candidates):
            found[claim] = max(found.get(claim, latest), latest)
    return found


def _among(table: pa.Table, column: str, values: Collection[str]) -> pa.ChunkedArray:
    """Return which rows of a table have one of these values, as a mask."""
    return pc.is_in(table.column(column), pa.array(sorted(values), pa.string()))
