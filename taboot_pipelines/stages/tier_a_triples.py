"""tier_a_triples: the observations of one interpretation run per unit (DESIGN rules 8, 9 and 11)."""

from __future__ import annotations

from collections.abc import Callable

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose import ComposeExtractor
from taboot_pipelines.extraction.tier_a.nginx import NginxExtractor
from taboot_pipelines.extraction.tier_a.prose import PROSE_VERSION, Mention, find_mentions
from taboot_pipelines.knowledge.document_units import DocumentUnits, SourceDocuments
from taboot_pipelines.knowledge.interpretation import Interpretation
from taboot_pipelines.knowledge.project_units import ProjectExtractor, ProjectUnits
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.knowledge.units import UnitExtractor
from taboot_pipelines.model import ids, records
from taboot_pipelines.model.graph import Basis, EdgeSource
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeRef, SourceFacts
from taboot_pipelines.stages.documents import PARSING
from taboot_pipelines.stages.report import StageReport, reporting
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress
from taboot_pipelines.stores.catalog import Pointer

STAGE = "tier_a_triples"
TIER = EdgeSource.TIER_A
VERSION = "1"
TABLE = "observations"

#: Interpretation follows the source's type (rule 8); a type without an entry gives documents and prose only.
EXTRACTORS: dict[str, Callable[[], ProjectExtractor]] = {"compose": ComposeExtractor, "swag": NginxExtractor}

#: A mention in prose says less than a declaration.
_MENTION_CONFIDENCE = 0.95


def run(workspace: Workspace, entry: Entry, progress: Progress = no_progress) -> StageReport:
    """Interpret the units whose input changed; a unit that left takes its observations along."""
    namespace, source_id = entry.namespace, entry.source_id
    catalog, tables = workspace.catalog, workspace.tables
    with reporting(STAGE, source_id, namespace) as report, workspace.leases.source(namespace, source_id):
        raw, documents, chunks = (
            catalog.pointer(namespace, source_id, s) for s in ("raw_blobs", "documents", "chunks")
        )
        if raw is None or documents is None or chunks is None:
            raise TabootError(
                "E_NOT_FOUND",
                f"Source {source_id} has no chunks table yet.",
                remedy="Materialize chunks first.",
            )
        facts = _facts(entry)
        kind = EXTRACTORS.get(entry.config.type)
        projects = kind() if kind else None
        versions = (VERSION, PROSE_VERSION, projects and (projects.name, projects.version))
        inputs = ids.digest(raw.inputs, documents.tables, chunks.tables, facts.host, facts.proxy, *versions)
        report.data_version = inputs
        old = catalog.pointer(namespace, source_id, STAGE)
        if old is not None and not tables.exist(namespace, source_id, old.tables):
            workspace.forget_what_follows(namespace, source_id, STAGE)
            old = None
        if old is not None and old.inputs == inputs:
            report.tables, report.skipped = dict(old.tables), "unchanged"
            return report
        read = {"documents": documents.tables["documents"], "chunks": chunks.tables["chunks"]}
        result = _interpretation(workspace, facts, projects, read["documents"]).apply(
            inputs,
            batch=workspace.settings.limits.batch_documents,
            table_is_empty=old is not None and old.tables[TABLE] is None,
            progress=lambda done, total: progress(STAGE, done, total),
        )
        report.counts |= result.counts
        for letter in result.failures:
            report.problem(letter["code"], letter["item"], letter["message"])
        report.tables = {TABLE: result.version}
        applied = inputs if result.whole else ids.digest(inputs, "incomplete")
        catalog.publish(namespace, source_id, Pointer(STAGE, report.tables, applied, inputs, read))
    return report


def _facts(entry: Entry) -> SourceFacts:
    """What interpretation may know of the source's entry."""
    fields = entry.config.interpretation_fields()
    return SourceFacts(
        entry.namespace, entry.source_id, **{k: v for k, v in fields.items() if k in ("host", "proxy")}
    )


def _interpretation(
    workspace: Workspace, facts: SourceFacts, projects: ProjectExtractor | None, documents_version: int | None
) -> Interpretation:
    """Every document's prose is a unit, and every project where the source's type has some."""
    namespace, source_id, blobs = facts.namespace, facts.source_id, workspace.blobs
    documents = SourceDocuments(workspace.tables, namespace, source_id, documents_version)
    extractors: list[UnitExtractor] = [
        DocumentUnits(ProseExtractor(), documents, blobs, versions=(VERSION, PARSING))
    ]
    if projects is not None:
        locators = workspace.catalog.locators(namespace, source_id)
        extractors.append(ProjectUnits(projects, facts, locators, documents.by_path, blobs, VERSION))
    return Interpretation(
        workspace.catalog,
        workspace.tables,
        namespace,
        source_id,
        Tier(TIER, STAGE, TABLE, VERSION, extractor_type="rule_based"),
        extractors,
        documents.by_path,
    )


class ProseExtractor:
    """What any document mentions: URLs, addresses and images, found by their form."""

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
