"""tier_b_triples: what the sentences of running text state.

Every document of running text is a unit; configuration and code have no sentences. Holds rules
``unit-of-interpretation``, ``versioned-runs`` and ``support``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
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
#: What a reinterpretation may set: claims that are less sure are left out.
MIN_CONFIDENCE = "min_confidence"
TIER = Tier(
    EdgeSource.TIER_B,
    STAGE,
    "observations.tier_b",
    VERSION,
    extractor_type="nlp",
    options=frozenset({MIN_CONFIDENCE}),
)


def versions(_kind: InterpretedKind | None = None) -> Sequence[str]:
    """Return the versions that decide the output."""
    return (VERSION, tier_b.VERSION, tier_b.grammar_version())


def extractors(given: TierInput) -> Sequence[UnitExtractor]:
    """Return the extractor for one source. Raises ``E_QUERY`` for a threshold that is no number of 0..1."""
    workspace = given.workspace
    least = given.overrides.get(MIN_CONFIDENCE)
    if least is not None and not (type(least) in (int, float) and 0 <= least <= 1):
        raise TabootError("E_QUERY", f"{MIN_CONFIDENCE} must be a number from 0 to 1.")
    extractor = RelationExtractor(workspace.settings.extraction.processes, least or 0.0)
    config = {"model": tier_b.MODEL, "model_version": tier_b.grammar_version()}
    threshold = {} if least is None else {MIN_CONFIDENCE: float(least)}
    return [
        DocumentUnits(
            extractor,
            given.documents,
            workspace.blobs,
            versions=(VERSION, PARSING, *(f"{name}={value}" for name, value in threshold.items())),
            config={**config, **threshold},
        )
    ]


class RelationExtractor:
    """Finds the relations that sentences assert."""

    name = "prose_relations"

    def __init__(self, processes: int, least_confidence: float = 0.0) -> None:
        self.version = f"{tier_b.VERSION}.{tier_b.grammar_version()}"
        self._processes = processes
        self._least_confidence = least_confidence

    def interpret(self, documents: Sequence[DocumentText]) -> Iterator[Interpretation]:
        prose = [tier_b.Prose(d.node.name, d.text) for d in documents if not is_code(d.mime)]
        found = tier_b.read_all(prose, self._processes)
        for document in documents:
            yield Interpretation((), ()) if is_code(document.mime) else self._sure(next(found))

    def _sure(self, said: Interpretation) -> Interpretation:
        if not self._least_confidence:
            return said
        return replace(said, edges=tuple(e for e in said.edges if e.confidence >= self._least_confidence))
