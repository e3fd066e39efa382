"""A tier of extraction as a stage: the steps that all tiers have in common.

A tier brings extractors and says what decides their output. What is the same for all tiers is
:mod:`taboot_pipelines.knowledge.interpretation`: it finds out which units changed, interprets them and
keeps their runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.document_units import KIND, SourceDocuments
from taboot_pipelines.knowledge.interpretation import Interpretation, Interpreter, PromotedRun, UnitSelection
from taboot_pipelines.knowledge.runs import Tier
from taboot_pipelines.knowledge.units import UnitExtractor, unit_id
from taboot_pipelines.model import ids
from taboot_pipelines.model.records import SourceFacts
from taboot_pipelines.stages import chunks, documents, raw_blobs
from taboot_pipelines.stages.snapshot import PROJECTS
from taboot_pipelines.stages.stage import SourceStage, SourceWork, StageTable, Uses
from taboot_pipelines.stages.workspace import Entry, Progress, Workspace, no_progress


@dataclass(frozen=True)
class InterpretedKind:
    """What of a source's entry says which extractors read it: the source's type, and whether configuration
    files of any known format are interpreted."""

    source_type: str
    interprets: bool = False
    #: Whether anything is read of it for the graph.
    graph: bool = True


@dataclass(frozen=True)
class TierInput:
    """What a tier's extractors are made from: one source, its documents, and the stores."""

    workspace: Workspace
    #: Decides which kinds of projects there may be.
    kind: InterpretedKind
    facts: SourceFacts
    documents: SourceDocuments
    #: What a person asked to be otherwise than configured: some of the tier's ``options``. What is set here
    #: must be part of the fingerprint of every unit.
    overrides: Mapping[str, Any] = field(default_factory=dict)
    #: What the tier opened for this run, if it opens anything.
    session: TierSession | None = None


class TierSession(Protocol):
    """What a tier that depends on more than texts opens for one run over one source."""

    @property
    def versions(self) -> Sequence[object]:
        """What else decides the output, known only now: if it changes, every unit is compared again."""
        ...

    @property
    def applied(self) -> Mapping[str, Any]:
        """What the next run is to find beside what was applied."""
        ...

    @property
    def skipped(self) -> str | None:
        """The setting without which the tier says nothing; None if it is set."""
        ...

    def pending(self) -> bool:
        """Whether something that earlier runs lacked may be had now, though no document changed."""
        ...

    def finish(self, work: SourceWork, listing: SourceDocuments, buckets: frozenset[int] | None) -> None:
        """Say in the report what was done; ``buckets``: of the documents listed, None for all."""
        ...


#: Opens what a tier depends on beside texts, for a workspace, namespace and source; last is what was applied.
Opens = Callable[[Workspace, str, str, Mapping[str, Any], Progress], TierSession]


@dataclass(frozen=True, kw_only=True)
class TierStage(SourceStage):
    """The stage of a tier, with what its units are read by."""

    tier: Tier
    extractors: Callable[[TierInput], Sequence[UnitExtractor]]
    opens: Opens | None = None

    def interpreter(
        self,
        workspace: Workspace,
        entry: Entry,
        documents: SourceDocuments,
        choices: Sequence[PromotedRun] = (),
    ) -> Interpreter:
        """Return what interprets a source of which these are the documents."""
        session = None
        if self.opens is not None:
            session = self.opens(workspace, entry.namespace, entry.source_id, {}, no_progress)
        return _interpreter(self.tier, self.extractors, workspace, entry, documents, choices, session)


def _interpreter(
    tier: Tier,
    extractors: Callable[[TierInput], Sequence[UnitExtractor]],
    workspace: Workspace,
    entry: Entry,
    listing: SourceDocuments,
    choices: Sequence[PromotedRun],
    session: TierSession | None,
) -> Interpreter:
    given = TierInput(workspace, kind_of(entry), facts_of(entry), listing, session=session)

    if not given.kind.graph:
        return Interpreter(tier, listing.by_path, (), lambda _overrides: (), ())

    def variants(overrides: Mapping[str, Any]) -> Sequence[UnitExtractor]:
        check_overrides(tier, overrides)
        return extractors(replace(given, overrides=overrides))

    return Interpreter(tier, listing.by_path, extractors(given), variants, choices)


def check_overrides(tier: Tier, overrides: Mapping[str, Any]) -> None:
    """Raise ``E_QUERY``, which names it, for a setting that the tier does not have."""
    unknown = sorted(overrides.keys() - tier.options)
    if unknown:
        there = f"it has {', '.join(sorted(tier.options))}" if tier.options else "it has none"
        raise TabootError(
            "E_QUERY",
            f"{', '.join(unknown)}: {tier.source.value} has no such setting; {there}.",
            config=unknown,
        )


def kind_of(entry: Entry) -> InterpretedKind:
    """Return what of an entry says which extractors read its source."""
    return InterpretedKind(entry.config.type, entry.config.interprets, entry.config.graph)


def tier_stage(
    tier: Tier,
    *,
    holds: str,
    version: str,
    uses: Uses = "compute",
    versions: Callable[[InterpretedKind], Sequence[object]],
    extractors: Callable[[TierInput], Sequence[UnitExtractor]],
    has_projects: Callable[[InterpretedKind], bool] = lambda _kind: False,
    opens: Opens | None = None,
) -> TierStage:
    """Return the stage of a tier, named ``tier.stage``, with the table ``tier.table``.

    ``versions`` returns for a kind of source, without reading anything, what decides the extractors' output:
    if it changes, every unit's fingerprint is compared again. ``extractors`` makes the extractors.
    ``has_projects`` says of a kind of source whether there are units that read several files; if not, only
    the documents that changed are looked at. ``opens`` opens what else the tier depends on.
    """
    run = partial(
        _run, tier=tier, versions=versions, extractors=extractors, has_projects=has_projects, opens=opens
    )
    return TierStage(
        name=tier.stage,
        holds=holds,
        group="knowledge",
        uses=uses,
        version=version,
        needs=(raw_blobs.STAGE, documents.STAGE, chunks.STAGE),
        tables=(StageTable(name=tier.table, owner="source"),),
        run=run,
        tier=tier,
        extractors=extractors,
        opens=opens,
    )


def _run(
    work: SourceWork,
    *,
    tier: Tier,
    versions: Callable[[InterpretedKind], Sequence[object]],
    extractors: Callable[[TierInput], Sequence[UnitExtractor]],
    has_projects: Callable[[InterpretedKind], bool],
    opens: Opens | None,
) -> None:
    """Interpret the units whose input changed; drop the observations of units that are gone."""
    workspace, report = work.workspace, work.report
    raw, parsed, cut = (work.upstream[s.STAGE] for s in (raw_blobs, documents, chunks))
    kind, facts = kind_of(work.entry), facts_of(work.entry)
    chosen = work.chosen(tier.source)
    # Where nothing was chosen, the digest is what earlier releases published.
    choices = [[row["unit_id"], row["run_id"]] for row in chosen]
    last = {} if work.old is None else work.old.applied
    session = None if opens is None else opens(workspace, work.namespace, work.source_id, last, work.progress)
    settings = ids.digest(
        facts.host,
        facts.proxy,
        facts.folder,
        *versions(kind),
        *(() if kind.graph else ("no graph",)),
        *(() if session is None else session.versions),
        *([choices] if choices else []),
    )
    inputs = ids.digest(raw.inputs, parsed.tables, cut.tables, settings)
    pending = session is not None and session.pending()
    if work.unchanged(inputs, unless=pending):
        if session is not None and session.skipped is not None:
            report.skipped = f"skipped: {session.skipped}"
        return
    report.data_version = inputs
    read = {"documents": parsed.tables["documents"], "chunks": cut.tables["chunks"]}
    applied = {**read, "settings": settings, PROJECTS: has_projects(kind)}
    if session is not None:
        applied |= session.applied
    at = None if has_projects(kind) or pending else _changed(work, applied)
    listing = SourceDocuments(workspace.tables, work.namespace, work.source_id, read["documents"], at)
    interpreter = _interpreter(
        tier, extractors, workspace, work.entry, listing, [PromotedRun.of(row) for row in chosen], session
    )
    result = Interpretation(
        workspace.catalog, workspace.tables, work.namespace, work.source_id, tier, interpreter
    ).apply(
        inputs,
        batch=workspace.settings.limits.batch_documents,
        table_is_empty=work.old is not None and work.old.tables[tier.table] is None,
        progress=lambda done, total: work.progress(tier.stage, done, total),
        only=None if at is None else _only(work, listing, at),
    )
    report.counts |= result.counts
    if at is not None:
        units = workspace.tables.count(work.namespace, work.source_id, "documents", read["documents"])
        report.counts |= {"units": units, "reused": units - result.counts["interpreted"]}
    for letter in result.failures:
        report.problem(letter["code"], letter["item"], letter["message"])
    if session is not None:
        session.finish(work, listing, at)
    work.publish(
        inputs if result.whole else ids.digest(inputs, "incomplete"),
        tables={tier.table: result.version},
        applied=applied,
        txn=inputs,
    )


def _changed(work: SourceWork, applied: Mapping[str, Any]) -> frozenset[int] | None:
    """Return the buckets in which documents changed; None for all, as when a unit was not read last time."""
    if work.old is None or work.old.inputs != work.old.txn:
        return None
    if "chunks" in work.old.applied:
        # Units are documents; the chunks follow from these.
        applied = {**applied, "chunks": work.old.applied["chunks"]}
    return work.changed_buckets("documents", applied)


def _only(work: SourceWork, listing: SourceDocuments, buckets: frozenset[int]) -> UnitSelection:
    """Return the units of some buckets: the documents that are there, and those that were there before."""
    assert work.old is not None
    before = work.workspace.tables.read(
        work.namespace,
        work.source_id,
        "documents",
        work.old.applied["documents"],
        columns=["doc_id"],
        buckets=buckets,
    )
    doc_ids = {*listing.listed, *before.column("doc_id").to_pylist()}
    return UnitSelection(frozenset(unit_id(KIND, doc_id) for doc_id in doc_ids), buckets)


def facts_of(entry: Entry) -> SourceFacts:
    """Return what interpretation may know of the source's entry."""
    fields = entry.config.interpretation_fields()
    return SourceFacts(
        entry.namespace,
        entry.source_id,
        host=fields["host"],
        proxy=fields["proxy"],
        folder=entry.config.folder(entry.root),
    )
