"""What documents say otherwise than at an earlier time: new, changed, gone, and what has another shell only.

A page whose bytes changed may say the same: its frame has another date, its advertisement another link. So
the texts are compared and not the bytes: that of the bytes which were there at the time, parsed again out of
their blob, with that which is there now; what differs is told by passages. Secrets are masked in both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.stages.documents import parsed_text
from taboot_pipelines.stages.workspace import Entry, Workspace
from taboot_pipelines.stores.catalog.locators import Locator, PathChange

#: Passages that are told of a document, and code points of each side of one.
MAX_PASSAGES, MAX_CHARS = 20, 600
#: Paragraphs that differ at most: beyond them all is told as one passage.
_MAX_BLOCKS = 2_000
#: Lines of a passage that are shown though both sides have them, and code points before what differs in a
#: long one.
_WHOLE_LINES, _AROUND = 3, 80


class ChangeKind(StrEnum):
    """What became of a document."""

    NEW = "new"
    CHANGED = "changed"
    GONE = "gone"
    #: Its bytes are others, and it says the same.
    SHELL = "shell"


class Passage(NamedTuple):
    """What stood there before and stands there now; empty where nothing did. ``line``: of the text as it is
    now, from 1."""

    before: str
    after: str
    line: int


class ContentChange(NamedTuple):
    """A document that is otherwise than it was: what was logged of its path, and the passages that differ.
    ``note`` says why these are not known.

    What names the document is worked out when it is asked for: of ten thousand that are new few are shown.
    """

    kind: ChangeKind
    namespace: str
    logged: PathChange
    passages: tuple[Passage, ...] = ()
    note: str = ""

    @property
    def doc_id(self) -> str:
        return ids.doc_id(self.namespace, ids.locator(self.logged.source_id, self.logged.path))

    @property
    def url(self) -> str | None:
        """What the origin called it, where it called it anything."""
        before, after = self.logged.before, self.logged.after
        url: str | None = self.logged.attributes(before if after is None else after).get("url")
        return url


def changes(
    workspace: Workspace, namespace: str, since: int, source_id: str | None = None
) -> Iterator[ContentChange]:
    """Yield what documents say otherwise than at ``since`` (microseconds since the epoch), by source, path.

    A document that was edited and put back is not among them. Raises ``E_SOURCE_UNKNOWN`` for a source that
    is not there, and what the stores raise.
    """
    if source_id is not None:
        workspace.entries(source_id)
    entries: dict[str, Entry] = {}
    for change in workspace.catalog.locators.changes(namespace, since, source_id):
        if change.source_id not in entries:
            (entries[change.source_id],) = workspace.entries_in(namespace, [change.source_id])
        found = _change(workspace, entries[change.source_id], change)
        if found is not None:
            yield found


def _change(workspace: Workspace, entry: Entry, change: PathChange) -> ContentChange | None:
    before, after = change.before, change.after
    if before == after:
        return None

    def told(kind: ChangeKind, found: Iterable[Passage] = (), note: str = "") -> ContentChange:
        return ContentChange(kind, entry.namespace, change, tuple(found), note)

    if change.forgotten:
        return told(ChangeKind.CHANGED, note="What it said before is no longer stored.")
    if before is None:
        return told(ChangeKind.NEW)
    if after is None:
        return told(ChangeKind.GONE)
    texts = []
    doc_id = told(ChangeKind.CHANGED).doc_id
    for sha256 in (before, after):
        try:
            texts.append(parsed_text(workspace, entry, _locator(change, doc_id, sha256)))
        except TabootError as error:
            what = "it said before" if sha256 == before else "it says now"
            return told(ChangeKind.CHANGED, note=f"What {what} cannot be read ({error.code}).")
    if texts[0] == texts[1]:
        return told(ChangeKind.SHELL)
    return told(ChangeKind.CHANGED, passages(*texts))


def _locator(change: PathChange, doc_id: str, sha256: str) -> Locator:
    """The document as it was fetched with these bytes."""
    said = change.attributes(sha256)
    return Locator(
        path=change.path,
        doc_id=doc_id,
        state="present",
        role="document",
        sha256=sha256,
        byte_size=0,
        mime=said.get("mime"),
        charset=said.get("charset"),
        url=said.get("url"),
        final_url=said.get("final_url"),
        etag=None,
        last_modified=None,
        lifecycle="ACTIVE",
        created_at=0,
        since=0,
        job_id="",
    )


def passages(before: str, after: str) -> Iterator[Passage]:
    """Yield at most :data:`MAX_PASSAGES` passages in which two texts differ, by paragraphs; of each side as
    much as :data:`MAX_CHARS`, and of a long paragraph the lines that differ."""
    old, new = before.rstrip().split("\n\n"), after.rstrip().split("\n\n")
    head, tail = _common(old, new)
    old_end, new_end = len(old) - tail, len(new) - tail
    if max(old_end, new_end) - head > _MAX_BLOCKS:
        blocks: Sequence[tuple[int, int, int, int]] = [(head, old_end, head, new_end)]
    else:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        blocks = [
            (head + a, head + b, head + c, head + d)
            for tag, a, b, c, d in matcher.get_opcodes()
            if tag != "equal"
        ]
    for start, end, new_start, new_stop in blocks[:MAX_PASSAGES]:
        line = 1 + sum(block.count("\n") + 2 for block in new[:new_start])
        was, now = ("\n\n".join(part).strip() for part in (old[start:end], new[new_start:new_stop]))
        yield _narrowed(was, now, line) if was and now else Passage(_cut(was), _cut(now), line)


def _narrowed(was: str, now: str, line: int) -> Passage:
    """A passage without the lines that both sides begin and end with, such as the rest of a file that has no
    blank lines; where one is still long, without the most of what its two sides have in common."""
    old, new = was.split("\n"), now.split("\n")
    if min(len(old), len(new)) > _WHOLE_LINES:
        head, tail = _common(old, new)
        old, new = old[head : len(old) - tail], new[head : len(new) - tail]
        line += head
    was, now = "\n".join(old), "\n".join(new)
    if max(len(was), len(now)) <= MAX_CHARS:
        return Passage(was, now, line)
    shared = range(min(len(was), len(now)))
    head = bisect_left(shared, True, key=lambda n: was[: n + 1] != now[: n + 1])
    cut = max(0, head - _AROUND)
    line += now[:cut].count("\n")
    was, now = ("…" * bool(cut) + _cut(text[cut:]) for text in (was, now))
    return Passage(was, now, line)


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How much of two sequences is alike at the beginning, and how much of the rest at the end."""
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    backwards = zip(reversed(one[head:]), reversed(other[head:]), strict=False)
    return head, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], backwards))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


def counted(found: Sequence[ContentChange]) -> Mapping[str, int]:
    """How many there are of each kind."""
    kinds = Counter(x.kind for x in found)
    return {kind.value: kinds[kind] for kind in ChangeKind}


__all__ = ["ChangeKind", "ContentChange", "Passage", "changes", "counted", "passages"]
