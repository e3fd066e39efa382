"""A tier of extraction as a stage: the steps that all tiers have in common.

A tier brings extractors and says what decides their output. What is the same for all tiers is
:mod:`taboot_pipelines.knowledge.interpretation`: it finds out which units changed, interprets them and
keeps their runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from taboot_pipelines.knowledge.document_units import SourceDocuments
from taboot_pipelines.knowledge.interpretation import Interpretation
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.knowledge.units import UnitExtractor
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import SourceFacts
from taboot_pipelines.stages import chunks, documents, raw_blobs
from taboot_pipelines.stages.stage import SourceStage, SourceWork, StageTable
from taboot_pipelines.stages.workspace import Entry, Workspace


@dataclass(frozen=True)
class TierInput:
    """What a tier's extractors are made from: one source, its documents, and the stores."""

    workspace: Workspace
    #: The source's type decides which kinds of projects there may be.
    source_type: str
    facts: SourceFacts
    documents: SourceDocuments


def tier_stage(
    tier: Tier,
    *,
    holds: str,
    versions: Callable[[str], Sequence[object]],
    extractors: Callable[[TierInput], Sequence[UnitExtractor]],
) -> SourceStage:
    """Return the stage of a tier, named ``tier.stage``, with the table ``tier.table``.

    ``versions`` returns for a type of source, without reading anything, what decides the extractors' output:
    if it changes, every unit's fingerprint is compared again. ``extractors`` makes the extractors.
    """
    return SourceStage(
        name=tier.stage,
        holds=holds,
        needs=(raw_blobs.STAGE, documents.STAGE, chunks.STAGE),
        tables=(StageTable(name=tier.table, owner="source"),),
        run=partial(_run, tier=tier, versions=versions, extractors=extractors),
    )


def _run(
    work: SourceWork,
    *,
    tier: Tier,
    versions: Callable[[str], Sequence[object]],
    extractors: Callable[[TierInput], Sequence[UnitExtractor]],
) -> None:
    """Interpret the units whose input changed; drop the observations of units that are gone."""
    workspace, report = work.workspace, work.report
    raw, parsed, cut = (work.upstream[s.STAGE] for s in (raw_blobs, documents, chunks))
    source_type, facts = work.entry.config.type, _facts(work.entry)
    inputs = ids.digest(
        raw.inputs, parsed.tables, cut.tables, facts.host, facts.proxy, *versions(source_type)
    )
    if work.unchanged(inputs):
        return
    read = {"documents": parsed.tables["documents"], "chunks": cut.tables["chunks"]}
    listing = SourceDocuments(workspace.tables, work.namespace, work.source_id, read["documents"])
    given = TierInput(workspace, source_type, facts, listing)
    result = Interpretation(
        workspace.catalog,
        workspace.tables,
        work.namespace,
        work.source_id,
        tier,
        extractors(given),
        listing.by_path,
    ).apply(
        inputs,
        batch=workspace.settings.limits.batch_documents,
        table_is_empty=work.old is not None and work.old.tables[tier.table] is None,
        progress=lambda done, total: work.progress(tier.stage, done, total),
    )
    report.counts |= result.counts
    for letter in result.failures:
        report.problem(letter["code"], letter["item"], letter["message"])
    work.publish(
        inputs if result.whole else ids.digest(inputs, "incomplete"),
        tables={tier.table: result.version},
        applied=read,
        txn=inputs,
    )


def _facts(entry: Entry) -> SourceFacts:
    """Return what interpretation may know of the source's entry."""
    fields = entry.config.interpretation_fields()
    return SourceFacts(
        entry.namespace, entry.source_id, **{k: v for k, v in fields.items() if k in ("host", "proxy")}
    )
