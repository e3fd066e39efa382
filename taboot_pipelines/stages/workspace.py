"""Everything a stage works with, opened from the settings: stores, leases, embedder, sources.

A home remembers the sources file that it belongs to, so that another one is told and not just taken.

It belongs to another file once nothing of the former one is left that the other does not declare: as long as
documents of a source that only the former declares are held, the home is still the former's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from taboot_pipelines.connectors.entries import SourceEntry
from taboot_pipelines.connectors.uploads import UploadsSource
from taboot_pipelines.embedding import open_embedder
from taboot_pipelines.embedding.protocol import Embedder, Space, check_limit
from taboot_pipelines.embedding.remembered import Remembered, RememberedEmbedder
from taboot_pipelines.errors import TabootError, unknown_sources
from taboot_pipelines.model.collections import CollectionEntry
from taboot_pipelines.model.health import PartClient
from taboot_pipelines.model.ids import digest, uploads_source
from taboot_pipelines.settings import EmbeddingServerSettings, Settings, load_settings
from taboot_pipelines.shards import is_copy, open_shards
from taboot_pipelines.sources.sources_file import SourcesFile, load_sources, parse_entry
from taboot_pipelines.stages.domains import publish_settings
from taboot_pipelines.stores.blobs import open_blobs
from taboot_pipelines.stores.catalog import open_catalog
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.disk import on_disk, private_folder
from taboot_pipelines.stores.leases import open_leases
from taboot_pipelines.stores.state import open_state
from taboot_pipelines.stores.state.protocol import Lenient, State
from taboot_pipelines.stores.tables import NAMESPACE, Tables

if TYPE_CHECKING:
    from taboot_pipelines.inference.chat.protocol import ChatModel
    from taboot_pipelines.stores.graph.neo4j import Neo4jGraph
    from taboot_pipelines.stores.state.circuit import Circuit
    from taboot_pipelines.stores.vectors.qdrant import QdrantPoints


from taboot_pipelines.stores.catalog.catalog import Catalog

Server = TypeVar("Server", bound=PartClient)
#: Where the limits that the sources file gives a namespace are kept: a pointer that publishes no table.
QUOTAS = "quotas"
#: The saved filters that the sources file gives a namespace.
COLLECTIONS = "collections"
#: Called with (stage, done, total) as work goes on; total is 0 when it is not known.
Progress = Callable[[str, int, int], None]


def no_progress(_stage: str, _done: int, _total: int) -> None:
    """Ignore progress: the default where nobody looks on."""


@dataclass(frozen=True)
class Entry:
    """A source entry as the catalog knows it: the unit of work of every stage up to the observations."""

    namespace: str
    source_id: str
    state: str
    config: SourceEntry
    root: Path

    @property
    def retiring(self) -> bool:
        return self.state == "retiring"

    @property
    def paused(self) -> bool:
        """Whether nothing is read of it at present."""
        return not self.config.enabled and not self.retiring


class Workspace:
    """Everything that a stage works with, opened once per process. Opening touches no network."""

    def __init__(self, settings: Settings | None = None, embedder: Embedder | None = None) -> None:
        self.settings = settings or load_settings()
        self.home = self.settings.home_dir
        if is_copy(self.home):
            raise TabootError(
                "E_READ_ONLY",
                f"{self.home} is a copy of a knowledge base, which is asked and not changed.",
                remedy="Name another folder by TABOOT_HOME.",
                path=str(self.home),
            )
        if not self.settings.read_only:
            with on_disk("The home cannot be made", self.home):
                private_folder(self.home)
        self.leases = open_leases(self.settings)
        # Before the catalog, so that a mistake in one of their settings makes none.
        self.blobs = open_blobs(self.settings)
        self.tables = Tables(self.home, self.settings.table_url, self.settings.storage, self.leases.confirm)
        self.shards = open_shards(self.settings)
        self.catalog = open_catalog(self.settings, self.leases)
        #: The sources file that the home belonged to when another one was last read (``sync_sources``).
        self.former_sources: Path | None = None
        #: Namespaces whose tables are known to be those that are declared today (``stages.upgrade``).
        self.current_tables: set[str] = set()
        self._embedder = embedder
        self._other_chats: dict[str, ChatModel] = {}
        #: {what opened it: the client}, of the servers that hold the snapshot.
        self._servers: dict[Callable[[Settings], Any], Any] = {}

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder, loaded when the first stage needs it.

        An embedder is refused if it reads less than a chunk holds.
        """
        server = self.settings.embedding_server
        embedder = self._embedder or open_embedder(
            self.settings, self._circuit("tei") if server is not None else None
        )
        if server is not None:
            # Only a server has to be asked for its space; it may be down while nothing is embedded.
            embedder = RememberedEmbedder(embedder, _CatalogMemory(self, server))
        check_limit(embedder.space, self.settings.chunking)
        return embedder

    @cached_property
    def chat(self) -> ChatModel | None:
        """The chat model; None if neither ``TABOOT_LLM__URL`` nor ``TABOOT_LLM__VLLM_MODEL`` is set."""
        from taboot_pipelines.inference.chat import open_chat

        return open_chat(self.settings, self._circuit("llm") if self.settings.llm.url else None)

    def chat_with(self, model: str) -> ChatModel:
        """The server's model of that name. Raises ``E_QUERY`` if no server is configured."""
        if self.settings.llm.url is None:
            raise TabootError("E_QUERY", "Another model can be asked only at a server (TABOOT_LLM__URL).")
        if model not in self._other_chats:
            from taboot_pipelines.inference.chat import open_chat

            llm = self.settings.llm.model_copy(update={"model": model})
            opened = open_chat(self.settings.model_copy(update={"llm": llm}), self._circuit("llm"))
            assert opened is not None
            self._other_chats[model] = opened
        return self._other_chats[model]

    def _circuit(self, server: str) -> Circuit:
        """The circuit breaker of a model server, which all namespaces share."""
        from taboot_pipelines.stores.state.circuit import Circuit
        from taboot_pipelines.stores.state.keys import CIRCUIT

        return Circuit(self.hints, CIRCUIT(server), self.settings.namespace)

    @cached_property
    def state(self) -> State:
        """Caches, retry queues, rate limits and circuit breakers.

        They are in Redis if it is configured, else in the catalog.
        """
        return open_state(self.settings, self.catalog)

    @cached_property
    def hints(self) -> Lenient:
        """The state for progress and politeness: nothing fails if it does not answer."""
        return Lenient(self.state)

    def server(self, opens: Callable[[Settings], Server | None]) -> Server | None:
        """The client that ``opens`` makes of the settings, made once and closed with the workspace."""
        if opens not in self._servers:
            self._servers[opens] = opens(self.settings)
        made: Server | None = self._servers[opens]
        return made

    @property
    def points(self) -> QdrantPoints | None:
        """Qdrant; None if ``TABOOT_QDRANT__URL`` is not set."""
        from taboot_pipelines.stores.vectors import open_vectors

        return self.server(open_vectors)

    @property
    def graph(self) -> Neo4jGraph | None:
        """Neo4j; None if ``TABOOT_NEO4J__URL`` is not set."""
        from taboot_pipelines.stores.graph import open_graph

        return self.server(open_graph)

    def sync_sources(self) -> SourcesFile:
        """Read the sources file and make the catalog's entries equal to it.

        An invalid file changes nothing. ``former_sources`` is set if the home belonged to another file.
        """
        handed = self.catalog.uploaded.namespaces() | self.catalog.assertions.handing()
        sources = with_uploads(load_sources(self.settings.sources_file), handed)
        rows = self.catalog.sources.find()
        known = {(r["namespace"], r["source_id"]) for r in rows}
        paused = {(r["namespace"], r["source_id"]) for r in rows if is_paused(r)}
        new = {e.namespace for e in sources.entries.values() if (e.namespace, e.id) not in known}
        with contextlib.ExitStack() as stack:
            for namespace in sorted(new):
                stack.enter_context(self.adding_sources(namespace))
            self.catalog.sources.sync(
                {entry.id: entry_row(entry, sources.root) for entry in sources.entries.values()}
            )
        for namespace in {e.namespace for e in sources.entries.values()}:
            publish_settings(self.catalog, namespace, sources)
        for namespace in {namespace for namespace, _ in known} | new:
            limits = sources.quotas.get(namespace)
            self._keep(namespace, QUOTAS, {} if limits is None else limits.model_dump(exclude_none=True))
            saved = {n: c for n, c in sources.collections.items() if c.namespace == namespace}
            self._keep(namespace, COLLECTIONS, published_collections(saved))
            self.catalog.retention.sync(
                namespace,
                {
                    e.id: e.retention_days
                    for e in sources.entries.values()
                    if e.namespace == namespace and e.retention_days is not None
                },
            )
        for namespace, source_id in sorted(
            paused & {(e.namespace, e.id) for e in sources.entries.values() if e.enabled}
        ):
            self.catalog.jobs.outdate(namespace, source_id)
        self.former_sources = remember_file(
            self.catalog, {e.namespace for e in sources.entries.values()}, self.settings.sources_file
        )
        return sources

    def _keep(self, namespace: str, what: str, said: Mapping[str, Any]) -> None:
        """Keep what the file says of a namespace, if something else is kept: a worker has no such file."""
        kept = self.catalog.pointers.get(namespace, NAMESPACE, what)
        if said != ({} if kept is None else kept.applied):
            pointer = Pointer(stage=what, tables={}, inputs=digest(said), txn="", applied=said)
            self.catalog.pointers.publish(namespace, NAMESPACE, pointer)

    def adding_sources(self, namespace: str) -> AbstractContextManager[None]:
        """Hold what is needed to add a source to a namespace.

        Whoever holds this and the leases of all its sources knows that nobody fetches into the namespace.
        """
        return self.leases.exclusive(f"{namespace}.sources")

    @contextlib.contextmanager
    def alone(self, namespace: str) -> Iterator[None]:
        """Hold the leases of all sources of a namespace and its own, and keep new sources from being added.

        Meanwhile nobody uses a file, a vector or a blob of the namespace, or is about to.
        """
        with self.adding_sources(namespace):
            sources = [row["source_id"] for row in self.catalog.sources.find(namespace)]
            with self.leases.several(namespace, sources):
                yield

    def entries(self, *source_ids: str) -> list[Entry]:
        """Return the entries of partitions: of each one, or two while a source moves to another namespace.

        They are in the order of the ids, and of two entries the retiring one comes first. Raises
        ``E_SOURCE_UNKNOWN`` if there is none of an id.
        """
        only = source_ids[0] if len(source_ids) == 1 else None
        found: dict[str, list[Entry]] = {source_id: [] for source_id in source_ids}
        for row in self.catalog.sources.find(source_id=only):
            if row["source_id"] in found:
                found[row["source_id"]].append(stored_entry(row))
        if unknown := [source_id for source_id, entries in found.items() if not entries]:
            raise unknown_sources(unknown, {row["source_id"] for row in self.catalog.sources.find()})
        return [e for entries in found.values() for e in sorted(entries, key=lambda e: not e.retiring)]

    def namespaces(self) -> list[str]:
        """Return the namespaces that sources have something in, by name."""
        return sorted({row["namespace"] for row in self.catalog.sources.find()})

    def in_order(self, source_ids: Collection[str]) -> list[str]:
        """Return these sources in the order in which they are run.

        Those that left the file come first, since a run deletes what they held, then those with the highest
        ``run_priority``, namespace by namespace.
        """
        ranks: dict[str, tuple[int, int, int]] = {}
        for number, row in enumerate(self.catalog.sources.find()):
            priority = orjson.loads(row["config"]).get("run_priority", 0)
            rank = (row["state"] != "retiring", -priority, number)
            ranks[row["source_id"]] = min(rank, ranks.get(row["source_id"], rank))
        return sorted(set(source_ids), key=lambda source: (ranks.get(source, (1, 0, 0)), source))

    def entries_of(self, namespace: str) -> list[Entry]:
        """Return all sources that have something in a namespace, retiring ones included."""
        return [stored_entry(row) for row in self.catalog.sources.find(namespace)]

    def entries_in(self, namespace: str, source_ids: Collection[str]) -> list[Entry]:
        """Return the entries of the named sources of a namespace.

        Retired sources are included: a snapshot lists them until the next run.
        """
        rows = self.catalog.sources.find(namespace, ("active", "retiring", "retired"))
        return [stored_entry(row) for row in rows if row["source_id"] in source_ids]

    def close(self) -> None:
        servers = [*self._servers.values(), *(self.__dict__.pop(name, None) for name in ("chat", "state"))]
        self._servers.clear()
        for part in servers:
            if part is not None:
                part.close()
        for chat in self._other_chats.values():
            chat.close()
        self._other_chats.clear()
        self.catalog.close()
        self.leases.close()


class _CatalogMemory:
    """Keeps the space of the configured embedding server, as a pointer of the workspace's namespace."""

    _STAGE = "embedding_space"

    def __init__(self, workspace: Workspace, server: EmbeddingServerSettings) -> None:
        self._pointers = workspace.catalog.pointers
        self._namespace = workspace.settings.namespace
        self._server = digest(*server.space_key)

    def load(self) -> Remembered | None:
        pointer = self._pointers.get(self._namespace, NAMESPACE, self._STAGE)
        if pointer is None or pointer.inputs != self._server:
            return None
        return Remembered(Space(**pointer.applied["space"]), pointer.applied["asked_at"])

    def store(self, remembered: Remembered) -> None:
        applied = {"space": asdict(remembered.space), "asked_at": remembered.asked_at}
        self._pointers.publish(
            self._namespace,
            NAMESPACE,
            Pointer(stage=self._STAGE, tables={}, inputs=self._server, txn="", applied=applied),
        )


def published_collections(saved: Mapping[str, CollectionEntry]) -> dict[str, dict[str, Any]]:
    """Return saved filters by name as they are kept and published."""
    return {
        name: c.model_dump(exclude_defaults=True, exclude={"namespace"}) for name, c in sorted(saved.items())
    }


def entry_row(entry: SourceEntry, root: Path) -> dict[str, str]:
    """Return what the catalog keeps of an entry; ``root``: what its paths are relative to."""
    return {
        "namespace": entry.namespace,
        "type": entry.type,
        "config": entry.config_json(),
        "root": str(root),
    }


def with_uploads(sources: SourcesFile, namespaces: Collection[str]) -> SourcesFile:
    """Return the sources with those of what people handed to these namespaces, which need no entry."""
    held = {uploads_source(namespace): namespace for namespace in sorted(namespaces)}
    entries = {
        id_: UploadsSource(id=id_, type="uploads", namespace=namespace) for id_, namespace in held.items()
    }
    return replace(sources, entries={**entries, **sources.entries}) if entries else sources


def is_paused(row: Mapping[str, Any]) -> bool:
    """Whether nothing is read at present of the source of a row of the catalog; see :attr:`Entry.paused`."""
    return row["state"] == "active" and not orjson.loads(row["config"]).get("enabled", True)


def stored_entry(row: Mapping[str, Any]) -> Entry:
    """Return the entry of a row of the catalog's sources. Raises ``E_SOURCES``."""
    return Entry(
        row["namespace"],
        row["source_id"],
        row["state"],
        parse_entry(orjson.loads(row["config"])),
        Path(row["root"] or "."),
    )


_STAGE = "sources_file"


def remembered_file(catalog: Catalog, namespace: str) -> Path | None:
    """The sources file that a namespace of the home belongs to; None if none was read yet."""
    pointer = catalog.pointers.get(namespace, NAMESPACE, _STAGE)
    return None if pointer is None else Path(pointer.applied["path"])


def remember_file(catalog: Catalog, namespaces: Collection[str], file: Path) -> Path | None:
    """Remember the file that was just read, in each namespace that may belong to it.

    Returns a file that one of them belonged to before, if that is another one.
    """
    retiring = {
        row["namespace"]
        for row in catalog.sources.find(states=("retiring",))
        if catalog.locators.count(row["namespace"], row["source_id"])
    }
    former = None
    for namespace in sorted({*namespaces, *retiring}):
        before = remembered_file(catalog, namespace)
        if before == file:
            continue
        former = former or before
        if before is None or namespace not in retiring:
            applied = {"path": str(file)}
            pointer = Pointer(stage=_STAGE, tables={}, inputs="", txn="", applied=applied)
            catalog.pointers.publish(namespace, NAMESPACE, pointer)
    return former
