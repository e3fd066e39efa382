"""Chat sessions with AI models (type ``ai_session``): the files that programs keep of them, and exports.

How a file is read is told by its content (``model.chats``): see ``ai_session_files``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Literal

from pydantic import Field

from taboot_pipelines.connectors.access import Access
from taboot_pipelines.connectors.ai_session_files import ChatFiles
from taboot_pipelines.connectors.entries import Day, PathText, RecordedSource
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.connectors.recorded import RecordedFiles
from taboot_pipelines.connectors.walk import Listing
from taboot_pipelines.model.chats import CHAT, CHAT_WITH_THINKING
from taboot_pipelines.model.records import Enumerated, Event, Fetched, Known

#: All that sessions are kept in. What of it is none is a typed skip.
DEFAULT_INCLUDE = ("*.jsonl", "*.ndjson", "*.json", "*.md", "*.zip")


class AiSessionSource(RecordedSource):
    """Chat sessions with AI models: the files of Claude Code, Codex, Gemini CLI, OpenClaw and aider, and
    exports of ChatGPT, Claude and Gemini. Which of them a file is, is told by its content."""

    type: Literal["ai_session"]
    path: PathText = Field(
        description="The directory, relative to the sources file, such as `~/.claude/projects`,"
        " `~/.codex/sessions`, or where exports lie, as they were downloaded (`*.zip`) or unpacked."
    )
    thinking: bool = Field(False, description="Whether what a model thought is part of the documents.")
    since: Day | None = Field(
        None, description="Files and conversations that were last changed before this day (UTC) are left out."
    )
    max_items: Annotated[int, Field(ge=1)] | None = Field(
        None, description="After so many new or changed items a run stops, and the next one goes on."
    )


class AiSessionConnector:
    """Reads what the globs of ``entry`` take of its ``path``."""

    def __init__(self, entry: AiSessionSource, access: Access) -> None:
        self._max = entry.max_items
        self._files = _Sessions(entry, access)

    def plan(self) -> Iterator[Planned]:
        """How many files a run would look at. Raises as :meth:`events` does."""
        for part in self._files.plan():
            bound = "" if self._max is None else f"at most {self._max} new or changed items a run"
            yield Planned(part.what, part.requests, part.items, part.bytes, bound or part.note)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises ``E_PATH`` or ``E_UNREADABLE`` before the first event if the root cannot be enumerated at
        all."""
        taken = 0
        for event in self._files.events(known, tombstoned):
            if self._max is not None and isinstance(event, Fetched) and not _is_known(event, known):
                if taken == self._max:
                    yield Enumerated(False, f"{taken} items are the most that a run takes (`max_items`)")
                    return
                taken += 1
            yield event


class _Sessions(RecordedFiles):
    def __init__(self, entry: AiSessionSource, access: Access) -> None:
        self._since = entry.since
        chats = ChatFiles(CHAT_WITH_THINKING if entry.thinking else CHAT, entry.since)
        super().__init__(entry, access, chats, default_include=DEFAULT_INCLUDE)

    def _taken(self, listing: Listing) -> list[str]:
        paths = super()._taken(listing)
        since = self._since
        if since is None:
            return paths
        return [path for path in paths if (day := _last_written(listing, path)) is None or day >= since]


def _last_written(listing: Listing, path: str) -> date | None:
    signature = listing.signatures.get(path)
    if signature is None:
        return None
    return datetime.fromtimestamp(int(signature.split(":")[1]) // 1_000_000_000, UTC).date()


def _is_known(event: Fetched, known: Mapping[str, Known]) -> bool:
    before = known.get(event.path)
    return before is not None and before.sha256 == hashlib.sha256(event.data).hexdigest()
