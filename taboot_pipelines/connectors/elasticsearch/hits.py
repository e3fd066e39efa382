"""Hits of Elasticsearch and OpenSearch as items: each by itself, or grouped by a key within windows of time.

A path begins with the beginning of the window that its hits lie in, so that what is known can be told to lie
in a window without asking: ``2026-11-23T10:00:00Z/api`` for a group, ``2026-11-23T10:00:00Z/logs/AV1x`` for a
hit. Windows are counted from 1970 in UTC, as ``date_histogram`` counts its fixed intervals.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from taboot_pipelines.errors import TabootError

#: What hits without a time lie in.
UNTIMED = "untimed"
#: The group of hits that do not have the field.
NO_GROUP = "(none)"
_MAX_LABEL = 200
#: Bytes of all groups that are not yet complete.
_MAX_HELD_BYTES = 512 * 1024 * 1024
_NANOS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?)?"
    r"\s*(Z|[+-]\d{2}:?\d{2})?"
)
_WINDOW = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z)/")
_UNSAFE = re.compile(r"[%/#\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Layout:
    """How hits become items. ``time_field`` and ``group_by`` are names of fields; ``window``: milliseconds;
    ``fields``: names with ``*`` of the fields that are kept, all where there are none."""

    time_field: str | None
    group_by: str | None
    window: int
    fields: tuple[str, ...] = ()

    def window_of(self, nanos: int) -> int:
        """The beginning of the window that a time lies in, in milliseconds since 1970."""
        return nanos // 1_000_000 // self.window * self.window


class Tally(NamedTuple):
    """How many hits a window has, and the sum of their sequence numbers, which grows with every edit; None
    where they are not told."""

    hits: int
    edits: int | None


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit. ``nanos``: its time, since 1970; ``said``: its ``_source`` and ``fields``; ``edit``: its
    sequence number, which another version of it does not have."""

    index: str
    id: str
    nanos: int | None
    said: Mapping[str, Any]
    edit: int | None = None

    def value(self, name: str) -> Any:
        """The value of a field, by its dotted name; None where there is none."""
        found = value_at(self.said.get("_source"), name)
        if found is None:
            found = value_at(self.said.get("fields"), name)
        return found[0] if isinstance(found, list) and len(found) == 1 else found


def hit_of(raw: Mapping[str, Any], layout: Layout, *, sorted_by_time: bool = False) -> Hit:
    """A hit as an answer has it. One without an id is called by a digest of what it says, and one without
    ``_source`` (which an index may not store) says what its ``fields`` say."""
    said = {name: raw[name] for name in ("_source", "fields") if isinstance(raw.get(name), dict)}
    nanos = None
    if sorted_by_time and isinstance(raw.get("sort"), list) and raw["sort"]:
        nanos = parse_time(raw["sort"][0])
    index = raw.get("_index") if isinstance(raw.get("_index"), str) else ""
    edit = raw.get("_seq_no")
    hit = Hit(index or "", _id(raw, said), nanos, said, edit if isinstance(edit, int) else None)
    if nanos is None and layout.time_field is not None:
        time = hit.value(layout.time_field)
        hit = replace(hit, nanos=parse_time(time[0] if isinstance(time, list) and time else time))
    return hit


def _id(raw: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    given = raw.get("_id")
    if isinstance(given, str | int) and not isinstance(given, bool) and given != "":
        return str(given)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def value_at(holder: Any, name: str) -> Any:
    """The value of a dotted name, whether the dots stand in names or for objects in one another. Of a list
    of objects the values of all."""
    if isinstance(holder, list):
        found = [value for one in holder if (value := value_at(one, name)) is not None]
        return found[0] if len(found) == 1 else found or None
    if not isinstance(holder, dict):
        return None
    if name in holder:
        return holder[name]
    at = name.find(".")
    while at > 0:
        if name[:at] in holder and (value := value_at(holder[name[:at]], name[at + 1 :])) is not None:
            return value
        at = name.find(".", at + 1)
    return None


def parse_time(value: object) -> int | None:
    """Nanoseconds since 1970 of an ISO 8601 text (UTC where no zone is stated) or a number since 1970, whose
    magnitude tells seconds, milli-, micro- and nanoseconds apart; None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"-?\d{1,19}(?:\.\d{1,9})?", text) and len(text) != 4:
            value = float(text) if "." in text else int(text)
        else:
            return _iso(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e19:
        return None
    size = abs(value)
    factor = _NANOS if size < 1e11 else 1_000_000 if size < 1e14 else 1000 if size < 1e17 else 1
    nanos = int(value) * factor if isinstance(value, int) else round(value * factor)
    return nanos if _shown(nanos) else None


def _iso(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    zone = match[8] or "Z"
    ahead = 0 if zone == "Z" else (int(zone[1:3]) * 60 + int(zone[-2:])) * (-1 if zone[0] == "-" else 1)
    try:
        when = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        passed = when - timedelta(minutes=ahead) - _EPOCH
    except (ValueError, OverflowError):
        return None
    nanos = (passed.days * 86_400 + passed.seconds) * _NANOS + int((match[7] or "").ljust(9, "0"))
    return nanos if _shown(nanos) else None


def _shown(nanos: int) -> bool:
    """Whether a time lies within the calendar."""
    return -62_135_596_800 * _NANOS <= nanos < 253_402_300_800 * _NANOS


def iso(nanos: int) -> str:
    """A time as ISO 8601 in UTC, with milliseconds, or all digits where it has more."""
    seconds, rest = divmod(nanos, _NANOS)
    fraction = f"{rest:09}"
    shown = fraction[:3] if fraction.endswith("000000") else fraction
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{shown}Z".rjust(24, "0")


def window_name(window: int) -> str:
    """The beginning of a window (milliseconds since 1970) as paths name it."""
    return iso(window * 1_000_000)[:19] + "Z"


def window_in(path: str) -> int | None:
    """The window that a path names; None for what lies in none."""
    match = _WINDOW.match(path)
    nanos = _iso(match[1]) if match is not None else None
    return None if nanos is None else nanos // 1_000_000


def label_of(value: object) -> str:
    """What the group of a field's value is called."""
    if value is None or value in ("", [], {}):
        return NO_GROUP
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(sorted(set(value)))
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def segment(text: str) -> str:
    """A text as one part of a path: NFC, without what separates parts, and not too long."""
    safe = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", unicodedata.normalize("NFC", text))
    if len(safe) > _MAX_LABEL:
        safe = f"{safe[:_MAX_LABEL]}~{hashlib.sha256(safe.encode()).hexdigest()[:16]}"
    return safe or NO_GROUP


@dataclass(frozen=True, slots=True)
class LogItem:
    """An item. ``resource``: what is stored of it; None where it is larger than one may be. ``window``: that
    its hits lie in, None for hits without a time."""

    path: str
    resource: Mapping[str, Any] | None
    window: int | None
    size: int


@dataclass
class _Group:
    label: str
    window: int | None
    hits: dict[tuple[str, str], tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    size: int = 0
    #: Identities of hits are kept, and what they say no longer.
    too_large: bool = False


class Items:
    """Hits go in, in the order of their times if ``ordered``; whole items come out.

    A hit that comes again, as hits at the end of a page may, counts once. ``limit``: bytes that one item may
    have. Raises ``E_API`` for hits in another order than was asked for, ``E_TOO_LARGE`` where windows have so
    much that they cannot be held.
    """

    def __init__(self, layout: Layout, limit: int, *, ordered: bool) -> None:
        self._layout = layout
        self._limit = limit
        self._ordered = ordered
        self._groups: dict[str, _Group] = {}
        self._held = 0
        self._done: int | None = None
        self._moment: int | None = None
        self._of_moment: set[str] = set()
        #: Of the hits that went in, by their windows.
        self.counts: dict[int, Tally] = {}

    def add(self, hit: Hit) -> Iterator[LogItem]:
        """The items that are complete now that ``hit`` has come."""
        layout = self._layout
        window = None if hit.nanos is None else layout.window_of(hit.nanos)
        if self._ordered and window is not None:
            if self._done is not None and window < self._done:
                raise TabootError("E_API", "Elasticsearch answers with hits that are not in order of time.")
            if self._done is None or window > self._done:
                yield from self._complete(window)
                self._done = window
        prefix = "" if layout.time_field is None else UNTIMED if window is None else window_name(window)
        if layout.group_by is None:
            yield from self._single(hit, prefix, window)
        else:
            self._grouped(hit, prefix, window)

    def finish(self) -> Iterator[LogItem]:
        """The items that no further hit can change."""
        yield from self._complete(None)

    def _single(self, hit: Hit, prefix: str, window: int | None) -> Iterator[LogItem]:
        path = "/".join(filter(None, (prefix, segment(hit.index), segment(hit.id))))
        moment = None if hit.nanos is None else hit.nanos // 1_000_000
        if moment != self._moment or not self._ordered:
            # Only hits of one moment can come again: the next page begins there.
            self._moment = moment
            self._of_moment = set() if self._ordered else self._of_moment
        if path in self._of_moment:
            return
        self._of_moment.add(path)
        self._count(hit, window)
        resource = kept(hit, self._layout)
        size = len(json.dumps(resource, ensure_ascii=False))
        yield LogItem(path, resource if size <= self._limit else None, window, size)

    def _count(self, hit: Hit, window: int | None) -> None:
        if window is not None:
            known = self.counts.get(window, Tally(0, 0))
            edits = None if known.edits is None or hit.edit is None else known.edits + hit.edit
            self.counts[window] = Tally(known.hits + 1, edits)

    def _grouped(self, hit: Hit, prefix: str, window: int | None) -> None:
        assert self._layout.group_by is not None
        label = label_of(hit.value(self._layout.group_by))
        path = "/".join(filter(None, (prefix, segment(label))))
        group = self._groups.get(path)
        if group is None:
            group = self._groups[path] = _Group(label, window)
        identity = (hit.index, hit.id)
        if identity in group.hits:
            return
        self._count(hit, window)
        entry = kept(hit, self._layout)
        size = len(json.dumps(entry, ensure_ascii=False)) + 100
        group.size += size
        if group.size > self._limit and not group.too_large:
            group.too_large = True
            group.hits = {known: (0, {}) for known in group.hits}
            self._held -= group.size - size
        group.hits[identity] = (0, {}) if group.too_large else (hit.nanos or 0, entry)
        self._held += 0 if group.too_large else size
        if self._held > _MAX_HELD_BYTES:
            raise TabootError(
                "E_TOO_LARGE",
                f"The hits of windows that are not complete have more than {_MAX_HELD_BYTES} bytes.",
                remedy="Shorten `window`, name fewer `fields`, or narrow the query.",
            )

    def _complete(self, window: int | None) -> Iterator[LogItem]:
        """The groups of windows before ``window``; all where it is None."""
        if window is not None and not self._ordered:
            return
        for path in sorted(self._groups):
            group = self._groups[path]
            if window is not None and (group.window is None or group.window >= window):
                continue
            del self._groups[path]
            if group.too_large:
                yield LogItem(path, None, group.window, group.size)
                continue
            self._held -= group.size
            yield LogItem(path, self._resource(group), group.window, group.size)

    def _resource(self, group: _Group) -> Mapping[str, Any]:
        ordered = sorted(group.hits.items(), key=lambda hit: (hit[1][0], hit[0]))
        resource: dict[str, Any] = {
            "group_by": self._layout.group_by,
            "group": group.label,
            "hits": [entry for _, (_, entry) in ordered],
        }
        if group.window is not None:
            resource["from"] = window_name(group.window)
            resource["to"] = window_name(group.window + self._layout.window)
        return resource


def kept(hit: Hit, layout: Layout) -> Mapping[str, Any]:
    """What is stored of a hit: where it stands, its time, and what it says of the fields that are kept."""
    entry: dict[str, Any] = {"_id": hit.id, "_index": hit.index}
    if hit.nanos is not None:
        entry["time"] = iso(hit.nanos)
    if not layout.fields:
        return {**entry, **hit.said}
    flat: dict[str, Any] = {}
    for part in ("fields", "_source"):
        flat |= flattened(hit.said.get(part))
    taken = {name: value for name, value in flat.items() if is_taken(name, layout.fields)}
    return {**entry, "fields": taken}


def is_taken(name: str, patterns: Sequence[str]) -> bool:
    """Whether a field is among those that are kept: by its name, or as part of an object that is."""
    return any(fnmatch.fnmatchcase(name, p) or name.startswith(f"{p}.") for p in patterns)


def flattened(holder: Any) -> dict[str, Any]:
    """The values of objects in one another by their dotted names; lists and empty objects are values."""
    flat: dict[str, Any] = {}
    stack: list[tuple[str, Any]] = [("", holder)] if isinstance(holder, dict) else []
    while stack:
        prefix, value = stack.pop()
        if isinstance(value, dict) and (value or not prefix):
            stack.extend((f"{prefix}.{name}" if prefix else name, inner) for name, inner in value.items())
        else:
            flat[prefix] = value
    return flat
