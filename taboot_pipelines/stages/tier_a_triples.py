"""tier_a_triples: what the deterministic extractors observe.

The prose of every document is a unit, and so is every project of a source whose type has projects. Holds
rules ``unit-of-interpretation``, ``versioned-runs`` and ``support``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.extraction.tier_a.compose import ComposeExtractor
from taboot_pipelines.extraction.tier_a.elasticsearch import ElasticsearchExtractor
from taboot_pipelines.extraction.tier_a.nginx import NginxExtractor
from taboot_pipelines.extraction.tier_a.prose import PROSE_VERSION, Mention, find_mentions
from taboot_pipelines.knowledge.document_units import DocumentUnits
from taboot_pipelines.knowledge.project_units import ProjectExtractor, ProjectUnits
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.knowledge.units import UnitExtractor
from taboot_pipelines.model import records
from taboot_pipelines.model.graph import Basis, EdgeSource
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeRef
from taboot_pipelines.stages.documents import PARSING
from taboot_pipelines.stages.tiers import TierInput

STAGE = "tier_a_triples"
VERSION = "1"
TIER = Tier(EdgeSource.TIER_A, STAGE, "observations", VERSION, extractor_type="rule_based")

#: Interpretation follows the source's type (rule ``unit-of-interpretation``); a source of any other type
#: gives documents and prose only.
EXTRACTORS: dict[str, Callable[[], ProjectExtractor]] = {
    "compose": ComposeExtractor,
    "swag": NginxExtractor,
    "elasticsearch": ElasticsearchExtractor,
}

#: A mention in prose says less than a declaration.
_MENTION_CONFIDENCE = 0.95


def versions(source_type: str) -> Sequence[object]:
    """Return the versions that decide the output for a type of source."""
    projects = _projects(source_type)
    return (VERSION, PROSE_VERSION, projects and (projects.name, projects.version))


def has_projects(source_type: str) -> bool:
    """Return whether a type of source has units that read several files."""
    return source_type in EXTRACTORS


def extractors(given: TierInput) -> Sequence[UnitExtractor]:
    """Return the extractors for one source."""
    workspace, facts, documents = given.workspace, given.facts, given.documents
    found: list[UnitExtractor] = [
        DocumentUnits(ProseExtractor(), documents, workspace.blobs, versions=(VERSION, PARSING))
    ]
    projects = _projects(given.source_type)
    if projects is not None:
        locators = workspace.catalog.locators.of_source(facts.namespace, facts.source_id)
        found.append(ProjectUnits(projects, facts, locators, documents.by_path, workspace.blobs, VERSION))
    return found


def _projects(source_type: str) -> ProjectExtractor | None:
    kind = EXTRACTORS.get(source_type)
    return kind() if kind else None


class ProseExtractor:
    """Finds what any document mentions: URLs, addresses and images, by their form."""

    name = "prose"
    version = PROSE_VERSION

    def interpret(self, document: NodeRef, text: str, mime: str) -> records.Interpretation:
        mentions = find_mentions(text, code=is_code(mime))
        return records.Interpretation((), tuple(_mentions(document, mention) for mention in mentions))


def _mentions(document: NodeRef, mention: Mention) -> EdgeClaim:
    return EdgeClaim(
        "MENTIONS",
        document,
        mention.node,
        Evidence(document.name, mention.start, mention.end),
        method=f"prose_{mention.kind}",
        start_basis=Basis.DERIVED,
        end_basis=mention.basis,
        properties={"span": [mention.start, mention.end]},
        confidence=_MENTION_CONFIDENCE,
    )
