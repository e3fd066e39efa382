"""tier_a_triples: what the deterministic extractors observe.

The prose of every document is a unit, and so is every project of a source whose type has projects, and every
configuration file of a source with ``interpret: true``. Holds rules ``unit-of-interpretation``,
``versioned-runs`` and ``support``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.extraction.tier_a.compose.examples import find_examples
from taboot_pipelines.extraction.tier_a.prose.claims import relations
from taboot_pipelines.extraction.tier_a.prose.deciding import model_version
from taboot_pipelines.extraction.tier_a.prose.finding import PROSE_VERSION, find_mentions
from taboot_pipelines.extraction.tier_a.prose.scan import Mention
from taboot_pipelines.extraction.tier_a.prose.segments import is_plan
from taboot_pipelines.knowledge.document_units import DocumentText, DocumentUnits, SourceDocuments
from taboot_pipelines.knowledge.project_units import FormatExtractor, ProjectExtractor, ProjectUnits
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.knowledge.units import UnitExtractor
from taboot_pipelines.model import records
from taboot_pipelines.model.graph import TEXT_METHOD, Basis, EdgeSource
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeRef, SourceFacts
from taboot_pipelines.sources import source_kind
from taboot_pipelines.stages.documents import PARSING
from taboot_pipelines.stages.tiers import InterpretedKind, TierInput
from taboot_pipelines.stores.blobs import BlobStore
from taboot_pipelines.stores.catalog.locators import Locator

STAGE = "tier_a_triples"
VERSION = "1"
TIER = Tier(EdgeSource.TIER_A, STAGE, "observations", VERSION, extractor_type="rule_based")

#: A mention in prose says less than a declaration.
_MENTION_CONFIDENCE = 0.95


def versions(source: InterpretedKind) -> Sequence[object]:
    """Return the versions that decide the output for a kind of source."""
    projects = _projects(source)
    # The shape of a type that has one kind, or none, is what earlier releases published.
    kinds = tuple((kind.name, kind.version) for kind in projects)
    formats = tuple(tuple(kind.formats.items()) for kind in projects if isinstance(kind, FormatExtractor))
    return (
        VERSION,
        PROSE_VERSION,
        model_version(),
        kinds if len(kinds) > 1 else kinds[0] if kinds else None,
        *(found for found in formats if found),
    )


def has_projects(source: InterpretedKind) -> bool:
    """Return whether a kind of source has units that read several files."""
    return bool(_projects(source))


def extractors(given: TierInput) -> Sequence[UnitExtractor]:
    """Return the extractors for one source."""
    facts, located = given.facts, given.workspace.catalog.locators.of_source
    locators = located(facts.namespace, facts.source_id) if has_projects(given.kind) else {}
    return extractors_of(given.kind, facts, given.documents, locators, given.workspace.blobs)


def extractors_of(
    kind: InterpretedKind,
    facts: SourceFacts,
    documents: SourceDocuments,
    locators: Mapping[str, Locator],
    blobs: BlobStore,
) -> Sequence[UnitExtractor]:
    """Return the extractors for one source with these documents, ``locators`` by path, and their bytes."""
    return [
        DocumentUnits(ProseExtractor(), documents, blobs, versions=(VERSION, PARSING)),
        *(
            ProjectUnits(projects, facts, locators, documents.by_path, blobs, VERSION)
            for projects in _projects(kind)
        ),
    ]


def _projects(source: InterpretedKind) -> Sequence[ProjectExtractor]:
    """Interpretation follows the source's type (rule ``unit-of-interpretation``)."""
    return source_kind(source.source_type).extractors(source.interprets)


class ProseExtractor:
    """Finds what any document mentions (URLs, addresses and images, by their form, and the images of Compose
    files that it shows), and what its tables, items and arrows state."""

    name = "prose"

    def __init__(self) -> None:
        self.version = f"{PROSE_VERSION}.{model_version()}"

    def interpret(self, documents: Sequence[DocumentText]) -> Iterator[records.Interpretation]:
        for document in documents:
            code = is_code(document.mime)
            found = find_mentions(document.text, code=code)
            examples = () if code else find_examples(document.text)
            edges = [_mentions(document.node, m) for m in (*found, *examples)]
            # What a plan states is not so yet, for all that it names what there is.
            silent = code or is_plan(document.node.name, document.text)
            stated = () if silent else relations(document.text, document.node.name)
            yield records.Interpretation((), (*edges, *stated))


def _mentions(document: NodeRef, mention: Mention) -> EdgeClaim:
    return EdgeClaim(
        "MENTIONS",
        document,
        mention.node,
        Evidence(document.name, mention.start, mention.end),
        method=f"{TEXT_METHOD}{mention.kind}",
        start_basis=Basis.DERIVED,
        end_basis=mention.basis,
        properties={"span": [mention.start, mention.end]},
        confidence=_MENTION_CONFIDENCE,
    )
