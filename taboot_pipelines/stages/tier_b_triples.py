"""tier_b_triples: what the sentences of running text assert.

Every document of running text is a unit; configuration and code have no sentences. Holds rules
``unit-of-interpretation``, ``versioned-runs`` and ``support``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.extraction import tier_b
from taboot_pipelines.knowledge.document_units import DocumentText, DocumentUnits
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.knowledge.units import UnitExtractor
from taboot_pipelines.model.graph import EdgeSource
from taboot_pipelines.model.records import Interpretation
from taboot_pipelines.stages.documents import PARSING
from taboot_pipelines.stages.tiers import InterpretedKind, TierInput

STAGE = "tier_b_triples"
VERSION = "1"
TIER = Tier(EdgeSource.TIER_B, STAGE, "observations.tier_b", VERSION, extractor_type="nlp")


def versions(_kind: InterpretedKind) -> Sequence[object]:
    """Return the versions that decide the output."""
    return (VERSION, tier_b.VERSION, tier_b.grammar_version())


def extractors(given: TierInput) -> Sequence[UnitExtractor]:
    """Return the extractor for one source."""
    workspace = given.workspace
    extractor = RelationExtractor(workspace.settings.extraction.processes)
    return [DocumentUnits(extractor, given.documents, workspace.blobs, versions=(VERSION, PARSING))]


class RelationExtractor:
    """Finds the relations that sentences assert."""

    name = "prose_relations"

    def __init__(self, processes: int) -> None:
        self.version = f"{tier_b.VERSION}.{tier_b.grammar_version()}"
        self._processes = processes

    def interpret(self, documents: Sequence[DocumentText]) -> Iterator[Interpretation]:
        prose = [tier_b.Prose(d.node.name, d.text) for d in documents if not is_code(d.mime)]
        found = tier_b.read_all(prose, self._processes)
        for document in documents:
            yield Interpretation((), ()) if is_code(document.mime) else next(found)
