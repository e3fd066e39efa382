"""Interpretation runs for people: listed, shown with their facts and quotes, compared, made, promoted.

They stay with their home: beside a copy of the shards alone there are none. Each call opens a workspace of
its own; the reading half needs no knowledge base to be published.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.evidence import Source
from taboot_pipelines.retrieval.request import check_limit
from taboot_pipelines.retrieval.results.explanations import Quote
from taboot_pipelines.retrieval.results.runs import (
    Fact,
    FactDifference,
    GoldScore,
    GoldSlice,
    Run,
    RunDiff,
    RunFacts,
    RunList,
)
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.embedding.protocol import Embedder
    from taboot_pipelines.extraction.quality import Score
    from taboot_pipelines.stages.reinterpretation import Promoted, Reinterpreted, RolledBack
    from taboot_pipelines.stages.workspace import Workspace

MAX_ITEMS = 100_000
#: Why a statement cannot be quoted now.
_NO_QUOTE = frozenset({"E_BLOB_CORRUPT", "E_BLOB_MISSING", "E_EVIDENCE", "E_PARSE", "E_ENCODING"})


class Interpretations:
    """The runs of one namespace. ``embedder``: one that is open already, for what follows a promotion."""

    def __init__(
        self, settings: Settings, namespace: str, embedder: Callable[[], Embedder | None] = lambda: None
    ) -> None:
        self._settings = settings
        self._namespace = namespace
        self._embedder = embedder

    def runs(self, *, limit: int, **wanted: Any) -> RunList:
        """See ``KnowledgeBase.runs``."""
        from taboot_pipelines.stages import run_history

        check_limit(limit, MAX_ITEMS)
        with self._workspace() as workspace:
            rows = run_history.history(workspace, self._namespace, limit=limit, **wanted)
        return RunList(items=tuple(_run(row) for row in rows), truncated=len(rows) == limit)

    def run(self, name: str, limit: int) -> RunFacts:
        """See ``KnowledgeBase.run``."""
        from taboot_pipelines.stages import run_history

        check_limit(limit, MAX_ITEMS)
        with self._workspace() as workspace:
            (run_id,) = run_history.run_ids(workspace, self._namespace, [name])
            row = workspace.catalog.runs.by_id(self._namespace, [run_id])[run_id]
            rows = run_history.observations(workspace, self._namespace, [row]).to_pylist()
            rows.sort(key=lambda r: (r["kind"], r["line"], r["span_start"], r["type"]))
            facts = _Facts(workspace, self._namespace, {run_id: row["source_id"]}, rows[:limit])
            shown = tuple(facts.fact([r]) for r in rows[:limit])
            (described,) = self._described(workspace, [row])
            return RunFacts(run=described, facts=shown, truncated=len(rows) > limit)

    def diff(
        self,
        a: str | Collection[str],
        b: str | Collection[str],
        source: str | None,
        tier: str | None,
        limit: int,
    ) -> RunDiff:
        """See ``KnowledgeBase.diff``."""
        from taboot_pipelines.stages import run_history
        from taboot_pipelines.stages.gold_slice import gold_scores

        check_limit(limit, MAX_ITEMS)
        with self._workspace() as workspace:
            found = run_history.compare(workspace, self._namespace, a, b, source=source, tier=tier)
            sources = {row["run_id"]: row["source_id"] for row in (*found.a, *found.b)}
            shown = found.changes[:limit]
            quoted = [row for change in shown for row in (*change.rows, *change.before)]
            facts = _Facts(workspace, self._namespace, sources, quoted)
            items = tuple(
                FactDifference(
                    change=change.change,
                    fact=facts.fact(change.rows),
                    fields=change.fields,
                    before=facts.fact(change.before) if change.before else None,
                )
                for change in shown
            )
            gold = gold_scores(workspace, self._namespace, found)
            counts = dict.fromkeys(("added", "removed", "changed"), 0)
            for change in found.changes:
                counts[change.change] += 1
            before = run_history.facts_of(found.rows_a)
            return RunDiff(
                runs_a=self._described(workspace, found.a),
                runs_b=self._described(workspace, found.b),
                **counts,
                same=before - counts["removed"] - counts["changed"],
                items=items,
                gold=None
                if gold is None
                else GoldSlice(passages=gold[0], a=_gold(gold[1][0]), b=_gold(gold[1][1])),
                truncated=len(found.changes) > limit,
            )

    def reinterpret(self, **options: Any) -> Reinterpreted:
        """See ``KnowledgeBase.reinterpret``."""
        from taboot_pipelines.stages.reinterpretation import reinterpret

        with self._workspace() as workspace:
            return reinterpret(workspace, self._namespace, **options)

    def promote(self, runs: Collection[str] | str, source: str | None, tier: str | None) -> Promoted:
        """See ``KnowledgeBase.promote``."""
        from taboot_pipelines.stages import reinterpretation

        with self._workspace() as workspace:
            named = self._named(workspace, runs)
            return reinterpretation.promote(workspace, self._namespace, runs=named, source=source, tier=tier)

    def rollback(
        self,
        runs: Collection[str] | str,
        source: str | None,
        tier: str | None,
        promotion_id: str | None,
    ) -> RolledBack:
        """See ``KnowledgeBase.rollback``."""
        from taboot_pipelines.stages import reinterpretation

        with self._workspace() as workspace:
            return reinterpretation.rollback(
                workspace,
                self._namespace,
                promotion=promotion_id,
                runs=self._named(workspace, runs),
                source=source,
                tier=tier,
            )

    def _described(self, workspace: Workspace, rows: Sequence[Mapping[str, Any]]) -> tuple[Run, ...]:
        from taboot_pipelines.stages.run_history import with_paths

        found = with_paths(workspace, self._namespace, rows)
        return tuple(_run({"batch_id": None, **row}) for row in found)

    def _named(self, workspace: Workspace, runs: Collection[str] | str) -> list[str]:
        from taboot_pipelines.stages import run_history

        return run_history.run_ids(workspace, self._namespace, [runs] if isinstance(runs, str) else runs)

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        from taboot_pipelines.stages.health import catalog_exists
        from taboot_pipelines.stages.workspace import Workspace

        if not catalog_exists(self._settings):
            raise TabootError(
                "E_KB_UNINITIALIZED",
                f"There is no catalog under {self._settings.home_dir}; runs stay with their home.",
                path=str(self._settings.home_dir),
            )
        workspace = Workspace(self._settings, self._embedder())
        try:
            yield workspace
        finally:
            workspace.close()


class _Facts:
    """Facts with their quotes; each blob is read once."""

    def __init__(
        self,
        workspace: Workspace,
        namespace: str,
        sources: Mapping[str, str],
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        """``sources``: {run_id: source}; ``rows``: the observations that are to be shown."""
        from taboot_pipelines.stages.run_history import parsed_documents

        self._workspace, self._namespace = workspace, namespace
        self._read: dict[tuple[str, str], Source | None] = {}
        by_source: dict[str, set[str]] = {}
        for row in rows:
            by_source.setdefault(sources[row["run_id"]], set()).add(row["doc_id"])
        #: Nothing of a document that is gone.
        self._documents: dict[str, Mapping[str, Any]] = {
            doc_id: document
            for source, doc_ids in by_source.items()
            for doc_id, document in parsed_documents(workspace, namespace, source, doc_ids).items()
        }

    def fact(self, rows: Sequence[Mapping[str, Any]]) -> Fact:
        """What some observations of one fact say."""
        first = min(rows, key=lambda r: (r["span_start"], r["span_end"]))
        document = self._documents.get(first["doc_id"], {})
        names = ("run_id", "kind", "type", "confidence", "method", "doc_id", "line")
        ends = ("start_label", "start_key", "start_name", "end_label", "end_key", "end_name")
        return Fact(
            **{name: first[name] for name in (*names, *ends)},
            properties=json.loads(first["properties"]),
            path=document.get("path", ""),
            spans=tuple(sorted((r["span_start"], r["span_end"]) for r in rows)),
            quote=self._quote(document, first),
        )

    def _quote(self, document: Mapping[str, Any], row: Mapping[str, Any]) -> Quote | None:
        place = (row["doc_id"], row["blob_sha256"])
        try:
            if place not in self._read:
                self._read[place] = self._source(document, row["blob_sha256"])
            source = self._read[place]
            if source is None:
                return None
            span = (row["span_start"], row["span_end"])
            return source.quote(row["byte_start"], row["byte_end"], span).shown
        except TabootError as error:
            if error.code not in _NO_QUOTE:
                raise
            return None

    def _source(self, document: Mapping[str, Any], sha256: str) -> Source | None:
        if not document:
            return None
        return Source(
            self._workspace.blobs.get(self._namespace, sha256),
            sha256,
            url=document["url"],
            mime=document["mime"],
            charset=document["charset"],
            path=document["path"],
            max_chars=self._workspace.settings.limits.max_document_chars,
        )


def _run(row: Mapping[str, Any]) -> Run:
    return Run(
        run_id=row["run_id"],
        batch_id=row["batch_id"],
        source=row["source_id"],
        tier=row["tier"],
        unit=row["unit_id"],
        path=row["path"],
        status=row["status"],
        active=row["archived_at"] is None,
        candidate=bool(row["candidate"]),
        number=row["number"],
        overrides=json.loads(row["overrides"]),
        config=json.loads(row["interpretation_config"]),
        nodes=row["extracted_nodes"],
        edges=row["extracted_edges"],
        confidence=row["confidence"],
        unknown_fields=row["unknown_field_count"],
        completeness=row["extraction_completeness"],
        error=row["error_message"],
        started_at=_moment(row["started_at"]),
        completed_at=_moment(row["completed_at"]),
        heartbeat_at=_moment(row["heartbeat_at"]),
        timeout_at=_moment(row["timeout_at"]),
        archived_at=_moment(row["archived_at"]),
    )


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)


def _gold(score: Score) -> GoldScore:
    return GoldScore(
        precision=score.precision,
        recall=score.recall,
        f1=score.f1,
        found=score.found,
        labelled=score.labelled,
    )
