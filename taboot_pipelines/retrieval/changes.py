"""What changed since a moment: the documents' texts, the facts of the graph, and the commits that did it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.retrieval.commits import commits_since
from taboot_pipelines.retrieval.fact_changes import fact_changes
from taboot_pipelines.retrieval.filters import Moment, moment_of
from taboot_pipelines.retrieval.queries.citations import plural
from taboot_pipelines.retrieval.results.changes import Commit, DocumentChanges

if TYPE_CHECKING:
    from taboot_pipelines.retrieval.session import Session
    from taboot_pipelines.retrieval.writing import Writing

_AGO = re.compile(r"\s*([0-9]{1,5})([mhdw])\s*")
_MINUTES = {"m": 1, "h": 60, "d": 60 * 24, "w": 60 * 24 * 7}
_RUN = re.compile(r"\s*([0-9a-f]{8,64})\s*")


def changes(
    began: Callable[[str], datetime | None],
    session: Session,
    writing: Writing,
    since: Moment,
    source: str | None,
    shell: bool,
    limit: int,
) -> DocumentChanges:
    """See ``KnowledgeBase.changes``. ``began``: when a run did."""
    moment = since_when(began, since)
    found = writing.changes(moment, source, shell, limit)
    note, publication = "", None
    try:
        publication = session.publication(moment)
    except TabootError as error:
        publication, note = session.oldest(), error.message
    view = session.view()
    held = view.graph.documents.column("source_id").to_pylist()
    read = found.counts["new"]
    # What was read first is no change: where nothing was there before, it is told since then.
    if note and publication is not None and read >= (held.count(source) if source else len(held)):
        moment = publication.made_at
        found = writing.changes(moment, source, shell, limit)
        read += found.counts["gone"] - found.counts["new"]
        note += f" Until {moment:%Y-%m-%d %H:%M:%S} UTC {plural(read, 'document')} came in first."
    facts = []
    if publication is not None:
        earlier = session.at(publication)
        facts = [] if earlier.manifest.shards == view.manifest.shards else fact_changes(earlier, view)

    @cache
    def commits(source_id: str) -> dict[str, Commit]:
        entry = view.manifest.sources.get(source_id)
        return commits_since(Path(entry.root), moment) if entry is not None and entry.root else {}

    if source is not None:
        facts = [x for x in facts if source in {s.source for s in (x.before, x.after) if s is not None}]
    told = []
    for x in facts[:limit]:
        side = x.after or x.before
        commit = None if side is None else commits(side.source).get(side.path)
        told.append(x if commit is None else x.model_copy(update={"commit": commit}))
    items = [x.model_copy(update={"commit": commits(x.source).get(x.path)}) for x in found.items]
    return found.model_copy(
        update={
            "items": tuple(items),
            "truncated": found.truncated or len(facts) > limit,
            "facts": tuple(told),
            "fact_counts": dict(Counter(x.change for x in facts)),
            "facts_since": None if publication is None else publication.made_at,
            "note": note,
        }
    )


def since_when(began: Callable[[str], datetime | None], since: Moment) -> datetime:
    """The moment that ``since`` means: so long ago, when a run began, or a date."""
    ago = _AGO.fullmatch(since) if isinstance(since, str) else None
    if ago is not None:
        return datetime.now(UTC) - timedelta(minutes=int(ago[1]) * _MINUTES[ago[2]])
    run = _RUN.fullmatch(since) if isinstance(since, str) else None
    # Eight digits may be a day.
    if run is None or (run[1].isdigit() and len(run[1]) == 8):
        return moment_of("since", since)
    found = began(run[1])
    if found is None:
        raise TabootError("E_QUERY", f"since: nobody knows when the run {run[1]} began.")
    return found
