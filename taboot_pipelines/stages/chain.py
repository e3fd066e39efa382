"""The chain, said once: every stage with what it needs, what it publishes and how it runs.

All else is derived from :data:`CHAIN`: what follows what, which tables there are and whose they are, and what
a deletion, an audit, a replay or Dagster goes through. A new stage is an entry here, and a new tier of
extraction an entry of :data:`_SOURCE_STAGES`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from taboot_pipelines.documents.parse import PARSER_VERSION
from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.reducer import REDUCER_VERSION
from taboot_pipelines.stages import (
    chunks,
    crawl_graph,
    documents,
    embeddings,
    entity_snapshots,
    kb_shards,
    links,
    neo4j_subgraph,
    qdrant_points,
    raw_blobs,
    tier_a_triples,
    tier_b_triples,
    tier_c_triples,
)
from taboot_pipelines.stages.stage import (
    NamespaceStage,
    ServerTarget,
    Serving,
    SourceStage,
    StageTable,
    Target,
)
from taboot_pipelines.stages.tiers import tier_stage


class Chain:
    """The stages in the order in which they run.

    A stage needs only stages before it, and the stages of a source come first.
    """

    def __init__(self, *stages: SourceStage | NamespaceStage) -> None:
        self.stages = stages
        self.of_source = tuple(s for s in stages if isinstance(s, SourceStage))
        self.of_namespace = tuple(s for s in stages if isinstance(s, NamespaceStage))
        self._by_name = {s.name: s for s in stages}
        if (*self.of_source, *self.of_namespace) != stages or len(self._by_name) != len(stages):
            raise TabootError(
                "E_INTERNAL", "The stages of a source come first, and each has a name of its own."
            )
        for number, stage in enumerate(stages):
            missing = set(stage.needs) - {s.name for s in stages[:number]}
            if missing:
                raise TabootError(
                    "E_INTERNAL",
                    f"The stage {stage.name} needs {sorted(missing)}, which do not stand before it.",
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.stages)

    @property
    def first(self) -> SourceStage:
        """The stage that fetches; everything after it follows from the catalog and the blobs alone."""
        return self.of_source[0]

    @property
    def derived(self) -> tuple[SourceStage, ...]:
        """The stages of a source that fetch nothing."""
        return self.of_source[1:]

    @property
    def targets(self) -> dict[str, Target]:
        """Return {stage: its server}, whether configured or not."""
        return {s.name: s.target for s in self.of_namespace if s.target is not None}

    @property
    def serving(self) -> dict[str, Serving]:
        """Return {stage: what readers are served from}, the servers included.

        None of these stages needs another.
        """
        return {s.name: s.serving for s in self.of_namespace if s.serving is not None}

    def stage(self, name: str) -> SourceStage | NamespaceStage:
        """Return the stage of that name. Raises ``E_NOT_FOUND``."""
        stage = self._by_name.get(name)
        if stage is None:
            raise TabootError("E_NOT_FOUND", f"There is no stage {name!r}.", stages=self.names)
        return stage

    def following(self, name: str) -> tuple[SourceStage, ...]:
        """Return the stages of a source whose input comes, directly or not, from the stage ``name``."""
        return _following(self.of_source, name)


def _following(stages: tuple[SourceStage, ...], name: str) -> tuple[SourceStage, ...]:
    found = {name}
    for stage in stages:
        if found & set(stage.needs):
            found.add(stage.name)
    return tuple(s for s in stages if s.name in found and s.name != name)


def _last(stages: tuple[SourceStage, ...]) -> tuple[str, ...]:
    """Return the names of the stages that no other of these stages needs."""
    needed = {name for stage in stages for name in stage.needs}
    return tuple(s.name for s in stages if s.name not in needed)


def _of_source(*names: str) -> tuple[StageTable, ...]:
    return tuple(StageTable(name=name, owner="source") for name in names)


def _server(target: ServerTarget[Any], holds: str, *, group: str, version: str) -> NamespaceStage:
    """Return the stage of a server that holds the snapshot."""
    return NamespaceStage(
        name=target.stage,
        group=group,
        kinds=(target.store,),
        version=version,
        holds=f"{holds}; nothing where {target.setting} is not set.",
        needs=(entity_snapshots.STAGE,),
        run=target.run,
        serving=target,
        target=target,
    )


_SOURCE_STAGES = (
    SourceStage(
        name=raw_blobs.STAGE,
        group="ingest",
        uses="fetch",
        kinds=("python", "sqlite"),
        holds="What a connector fetched: immutable bytes named by their SHA-256, and the fetch log.",
        run=raw_blobs.run,
        opens_job=True,
    ),
    SourceStage(
        name=crawl_graph.STAGE,
        group="ingest",
        uses="fetch",
        kinds=("python", "sqlite"),
        version=crawl_graph.VERSION,
        holds="The ROOT, URL and Lead graph of each crawl, and its ledger; only of sources that crawl.",
        needs=(raw_blobs.STAGE,),
        run=crawl_graph.run,
    ),
    SourceStage(
        name=documents.STAGE,
        group="documents",
        uses="fetch",
        kinds=("deltalake", "markdown"),
        version=f"{documents.VERSION}.{PARSER_VERSION}",
        holds="Each blob as Markdown with its metadata, secrets masked, and a map back to its bytes.",
        needs=(raw_blobs.STAGE,),
        tables=_of_source("documents"),
        run=documents.run,
    ),
    SourceStage(
        name=chunks.STAGE,
        group="documents",
        uses="fetch",
        holds="Pieces within the token limit, along headings, tables, lists and code, with exact offsets.",
        needs=(documents.STAGE,),
        tables=_of_source("chunks"),
        run=chunks.run,
    ),
    SourceStage(
        name=links.STAGE,
        group="documents",
        uses="fetch",
        version=links.VERSION,
        holds="Where the hyperlinks of each document lead, as they were observed.",
        needs=(documents.STAGE,),
        tables=_of_source("links"),
        run=links.run,
    ),
    SourceStage(
        name=embeddings.STAGE,
        group="vectors",
        uses="embed",
        kinds=("deltalake", "openvino"),
        holds="One vector per distinct text of the namespace and embedding space.",
        needs=(chunks.STAGE,),
        tables=(StageTable(name="vectors", owner="namespace", per_space=True),),
        run=embeddings.run,
    ),
    tier_stage(
        tier_a_triples.TIER,
        version=tier_a_triples.VERSION,
        holds="What configuration, inventories, prose and code state, by deterministic extractors.",
        versions=tier_a_triples.versions,
        extractors=tier_a_triples.extractors,
        has_projects=tier_a_triples.has_projects,
    ),
    tier_stage(
        tier_b_triples.TIER,
        version=".".join(tier_b_triples.versions()),
        holds="What sentences of running text assert, by their grammar.",
        versions=tier_b_triples.versions,
        extractors=tier_b_triples.extractors,
    ),
    tier_stage(
        tier_c_triples.TIER,
        uses="model",
        version=".".join(tier_c_triples.versions()),
        holds="What a chat model reads in running text, each fact with the passage that states it.",
        versions=tier_c_triples.versions,
        extractors=tier_c_triples.extractors,
        opens=tier_c_triples.opens,
    ),
)

_OF_DOCUMENTS = _following(_SOURCE_STAGES, documents.STAGE)
#: The stages of a source whose pointers must agree before the snapshot takes a new version of it.
AGREEING = tuple(s.name for s in _OF_DOCUMENTS)

CHAIN = Chain(
    *_SOURCE_STAGES,
    NamespaceStage(
        name=entity_snapshots.STAGE,
        group="knowledge",
        version=f"{entity_snapshots.VERSION}.{REDUCER_VERSION}",
        holds="The namespace's current truth: entities, relations, and mentions of known names and titles.",
        needs=_last(_OF_DOCUMENTS),
        tables=tuple(StageTable(name=name, owner="namespace") for name in entity_snapshots.TABLES),
        run=partial(
            entity_snapshots.run,
            stages=AGREEING,
            observation_tables=tuple(t.name for s in _SOURCE_STAGES if s.observes for t in s.tables),
        ),
    ),
    _server(
        qdrant_points.TARGET,
        "The points in Qdrant equal the live chunks",
        group="vectors",
        version=qdrant_points.VERSION,
    ),
    _server(
        neo4j_subgraph.TARGET,
        "The graph in Neo4j equals the snapshot, and has the crawls beside it",
        group="knowledge",
        version=neo4j_subgraph.VERSION,
    ),
    NamespaceStage(
        name=kb_shards.STAGE,
        group="knowledge_base",
        kinds=("duckdb",),
        version=kb_shards.VERSION,
        holds="DuckDB shards and their manifest: what is searched, and what can be carried elsewhere.",
        needs=(entity_snapshots.STAGE,),
        run=kb_shards.run,
        serving=kb_shards.SERVING,
    ),
)
