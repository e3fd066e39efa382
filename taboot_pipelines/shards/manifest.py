"""The manifest: what a namespace's knowledge base consists of, published by compare-and-swap.

A manifest is written last and replaced in one step, so a reader sees the old set of shards or the new one,
both whole.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taboot_pipelines.embedding.protocol import Space
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.collections import SavedFilter
from taboot_pipelines.model.retention import Policies, Policy
from taboot_pipelines.shards.analyzer import ANALYZER
from taboot_pipelines.shards.layout import FORMAT, manifest_name


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileEntry(_Model):
    """A file of a shard: name in its folder, size in bytes, SHA-256 of its bytes."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ShardEntry(_Model):
    """One shard. ``key`` is the hash of its logical content; ``first`` its smallest doc_id or hash of an
    entity's key, which orders the shards; ``length`` the number of words in its chunks, for BM25."""

    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    kind: Literal["documents", "entities"]
    first: str
    documents: int = 0
    chunks: int = 0
    length: int = 0
    entities: int = 0
    names: int = 0
    files: tuple[FileEntry, ...] = ()

    def file(self, name: str) -> FileEntry:
        """The entry of one of the shard's files. Raises ``E_SHARD_CORRUPT`` if it lists none of that name."""
        for f in self.files:
            if f.name == name:
                return f
        raise TabootError(
            "E_SHARD_CORRUPT",
            f"Shard {self.key[:16]} of the manifest lists no {name}.",
            shard=self.key,
            file=name,
        )


class RetentionEntry(_Model):
    """How long documents are kept: see ``model.retention.Policy``."""

    days: int | None = None
    set_at: int

    def policy(self) -> Policy:
        return Policy(self.days, self.set_at)


class SourceEntry(_Model):
    """What holds for a whole source. ``root``: the absolute directory of its files, where there is one;
    ``unread``: of a source that declares the house, what of it could not be read when this was published.
    """

    type: str
    tags: tuple[str, ...] = ()
    root: str | None = None
    retention: RetentionEntry | None = None
    unread: tuple[str, ...] | None = None


class SpaceEntry(_Model):
    """The embedding space of the vectors (rule ``spaces-never-mix``)."""

    model: str
    revision: str
    dimension: int = Field(gt=0)
    max_tokens: int = Field(gt=0)

    @classmethod
    def of(cls, space: Space) -> SpaceEntry:
        return cls(
            model=space.model, revision=space.revision, dimension=space.dimension, max_tokens=space.max_tokens
        )

    def space(self) -> Space:
        return Space(self.model, self.revision, self.dimension, self.max_tokens)


class Manifest(_Model):
    """``version`` grows by one with each publish; ``snapshot`` names the snapshot that the shards hold."""

    format: int = FORMAT
    namespace: str
    version: int = Field(ge=1)
    snapshot: str
    space: SpaceEntry
    analyzer: str
    sources: dict[str, SourceEntry]
    shards: tuple[ShardEntry, ...]
    #: The policies of documents that have one of their own, by doc_id.
    retention: dict[str, RetentionEntry] = Field(default_factory=dict)
    #: The tags that people gave documents, by doc_id; those of their sources hold for them too.
    tags: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    #: Saved filters, by name.
    collections: dict[str, SavedFilter] = Field(default_factory=dict)

    def tags_of(self, source: str, doc_id: str) -> tuple[str, ...]:
        """The tags of a document: its source's, then those of its own."""
        entry = self.sources.get(source)
        return tuple(dict.fromkeys((*(entry.tags if entry else ()), *self.tags.get(doc_id, ()))))

    def all_tags(self) -> set[str]:
        """Every tag that a source or a document has."""
        own = (*(entry.tags for entry in self.sources.values()), *self.tags.values())
        return {tag for tags in own for tag in tags}

    def tagged(self, tags: Collection[str]) -> set[str]:
        """The documents that have one of these tags of their own, whatever their source has."""
        wanted = frozenset(tags)
        return {doc_id for doc_id, own in self.tags.items() if not wanted.isdisjoint(own)}

    def policies(self) -> Policies:
        """How long what it holds is kept."""
        sources = {name: s.retention.policy() for name, s in self.sources.items() if s.retention is not None}
        return Policies(sources, {doc_id: entry.policy() for doc_id, entry in self.retention.items()})

    def of_kind(self, kind: str) -> tuple[ShardEntry, ...]:
        """Its shards of ``documents`` or of ``entities``."""
        return tuple(s for s in self.shards if s.kind == kind)

    @property
    def chunks(self) -> int:
        return sum(s.chunks for s in self.shards)

    @property
    def documents(self) -> int:
        return sum(s.documents for s in self.shards)

    @property
    def entities(self) -> int:
        return sum(s.entities for s in self.shards)

    def written(self) -> bytes:
        """The manifest as its file holds it; what is not given is left out."""
        return self.model_dump_json(exclude_none=True).encode()

    def same_content(self, other: Manifest) -> bool:
        """Whether the two differ in their version at most."""
        # Entries of shards that stayed are the same objects, and are not looked into.
        return self.model_copy(update={"version": other.version}) == other


class NewerManifest(TabootError):
    """``E_SHARD_CORRUPT`` of a manifest that a newer release has published: nothing may replace it."""


@lru_cache(maxsize=4)
def _parsed(data: bytes) -> Manifest:
    """The manifest in these bytes, which a run reads more than once."""
    return Manifest.model_validate_json(data)


def parse_manifest(data: bytes, namespace: str) -> Manifest:
    """Read a manifest.

    Raises ``E_SHARD_CORRUPT``, which names the manifest and the field that is wrong, and as
    :class:`NewerManifest` if a newer release has published it.
    """
    name = manifest_name(namespace)
    try:
        manifest = _parsed(data)
    except (ValidationError, RecursionError, ValueError) as error:
        if _number(data, "format") > FORMAT:  # which may have other fields
            raise _newer(name, _number(data, "format")) from None
        where = (
            ".".join(str(p) for p in error.errors()[0]["loc"]) if isinstance(error, ValidationError) else ""
        )
        raise TabootError(
            "E_SHARD_CORRUPT",
            f"The manifest {name} cannot be read{f' at {where}' if where else ''}.",
            file=name,
            field=where or None,
        ) from None
    if manifest.namespace != namespace:
        raise TabootError("E_SHARD_CORRUPT", f"The manifest {name} belongs to another namespace.", file=name)
    if manifest.format > FORMAT:
        raise _newer(name, manifest.format)
    if (manifest.format, manifest.analyzer) != (FORMAT, ANALYZER):
        raise TabootError(
            "E_SHARD_CORRUPT",
            f"The manifest {name} was published by another release (format {manifest.format}, analyzer"
            f" {manifest.analyzer}; this one reads {FORMAT} and {ANALYZER}).",
            remedy="Run `taboot ingest` with this release: it publishes what it holds anew. Or read it with"
            " the release that published it.",
            file=name,
        )
    return manifest


def manifest_number(data: bytes) -> int:
    """Return the version of a manifest that cannot be used otherwise; 0 if it does not say."""
    return _number(data, "version")


def _number(data: bytes, field: str) -> int:
    try:
        found = orjson.loads(data)[field]
    except (ValueError, TypeError, KeyError):
        return 0
    return found if isinstance(found, int) else 0


def _newer(name: str, number: int) -> NewerManifest:
    return NewerManifest(
        "E_SHARD_CORRUPT",
        f"The manifest {name} was published by a newer release (format {number}; this one reads {FORMAT}).",
        remedy="Install that release or a newer one.",
        file=name,
    )
