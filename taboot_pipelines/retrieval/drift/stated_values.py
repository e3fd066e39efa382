"""What documents say of the values that configuration declares, property by property.

A value stands in a form that shows what it is: ``postgres:16``, ``8080:80``, a column "Port", ``KEY=value``.
It is said of the nearest thing that configuration declares: in its row, its sentence, the item or headings
above, the name or folder of the file. It differs if configuration declares such a value of that thing, and
none that is the same.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from taboot_pipelines.extraction.tier_a.prose.segments import Segment, Text, is_to_come, segments
from taboot_pipelines.extraction.tier_a.prose.tables import header_roles
from taboot_pipelines.extraction.tier_a.prose.things import OWNED, Thing, addresses, is_ordinary_name
from taboot_pipelines.knowledge.drift.declared import (
    NOT_HTTP,
    OF_PROXIES,
    is_of_a_purpose,
    is_of_another_time,
)
from taboot_pipelines.retrieval.drift.declared_values import (
    CHART,
    HOST,
    IPV4,
    NUMBER,
    PUBLISHED,
    SETTING_KEY,
    TARGET,
    TOKEN,
    Declared,
    DeclaredValues,
    Labels,
    Property,
    about_image,
    about_setting,
    domain_of,
    image_of,
    is_of_a_machine,
    is_spelled_like,
    labels_of,
    likeness,
)
from taboot_pipelines.retrieval.queries.service_index import plain_name


@dataclass(frozen=True, slots=True)
class Stated:
    """A value that a document gives to a thing, what configuration declares of that, and whether it
    ``agrees``. ``[start, end)``: the value in code points; ``[unit_start, unit_end)``: the row, item or
    sentence that says it."""

    property: Property
    value: str
    name: str
    doc_id: str
    line: int
    start: int
    end: int
    unit_start: int
    unit_end: int
    declared: tuple[Declared, ...]
    agrees: bool


def stated_values(
    doc_id: str, path: str, folder: str, source: str, configured: DeclaredValues
) -> Iterator[Stated]:
    """What a document in Markdown says of values that configuration declares, in order.

    ``folder``: where its file lies, as ``DeclaredValues.read`` has it. Values that differ and are said of
    another time or purpose are left out.
    """
    of_file = [plain_name(posixpath.basename(path).partition(".")[0])]
    if folder in configured.running or of_file[0] in _OF_A_FOLDER:
        of_file.append(plain_name(posixpath.basename(folder)))
    else:
        # A page that is called as a folder of configuration is read as if it lay there.
        folder = configured.folder_called(of_file[0]) or folder
    items, columns = _Items(source), _Columns(folder, configured)
    lines = [match.end() for match in re.finditer("\n", source)]
    for segment in segments(source, code=True):
        above = items.above(segment)
        values = list(_values(segment, configured))
        if any(is_to_come(said) for said in (path, *segment.headings)):
            continue
        if any(_ELSEWHEN.search(said) for said in (path, *segment.headings)):
            # Host names are what they are there too.
            values = [v for v in values if v.property is Property.HOST_NAME]
        if _COMPOSE.fullmatch(posixpath.basename(path)) and _FORMAT.fullmatch(segment.text.plain):
            continue
        if not values:
            continue
        whole = " | ".join(text.plain for text in _parts(segment))
        subjects = _subjects(segment, whole, above, of_file, folder, configured)
        for value in values:
            if value.property is Property.PORT and not value.role and segment.table is not None:
                value = replace(value, role=columns.role(segment, value.text))
            found = _compared(value, subjects, folder, configured)
            if found is None or not (found.agrees or _is_in_force(value, whole, segment, found)):
                continue
            start, end = value.text.place(value.start, value.end)
            yield Stated(
                value.property,
                value.value,
                found.name,
                doc_id,
                1 + bisect_right(lines, start),
                start,
                end,
                segment.text.start,
                segment.text.end,
                tuple(found.declared),
                found.agrees,
            )


def _parts(segment: Segment) -> list[Text]:
    return segment.cells or [segment.text]


# --- Which values stand in a piece, by their form


@dataclass(frozen=True, slots=True)
class _Value:
    """A value at ``text.plain[start:end]``.

    ``about``: what it says itself that it is of, an image's repository or a setting's key; ``of``: the
    machine or container whose port it is, by its name or address. ``outside``: a port of an address, behind
    which anything may answer. ``mapping``: where the mapping stands that a port is a part of, and ``role``
    which end it is, or of a version whether it is said to be a chart's or an application's."""

    property: Property
    value: str
    text: Text
    start: int
    end: int
    about: str = ""
    of: str = ""
    outside: bool = False
    mapping: tuple[int, int] | None = None
    role: str = ""
    in_code: bool = False


#: Languages of fences whose lines are commands, which somebody runs by hand with what they please.
_COMMANDS = frozenset(
    [
        "sh",
        "bash",
        "shell",
        "zsh",
        "fish",
        "console",
        "shell-session",
        "powershell",
        "python",
        "sql",
        "js",
        "javascript",
        "go",
    ]
)
#: A mapping of ports, whose ends may be defaults of variables.
_MAPPING = re.compile(r"(?:\$\{\w+:?-)?\d{2,5}\}?\s*(?::|->|→|=>)\s*(?:\$\{\w+:?-)?\d{2,5}")
_NAME_AND_TAG = re.compile(
    r"(?<![\w/.:@$}-])(?P<name>[a-z0-9][\w./-]*(?::\d+/[\w./-]+)?)"
    r":(?P<tag>\w(?:[\w.-]{0,126}\w)?)(?![\w/:]|[.-]\w)"
)
#: A host name whose domain is filled in elsewhere.
_UNDER_PLACEHOLDER = re.compile(
    r"(?<![\w@.$}-])(?:[a-z0-9-]+\.)+(?:\$\{\w+\}|\$\w+|<[\w .-]+>|\{\{[^{}]*\}\})(?:\.[a-z0-9-]+)*", re.I
)
#: A version by itself, which is neither an end of a range ("3.2+", ">= 3.2", "3.2-3.6") nor a genitive: of
#: "v3.2's library" something is said that a release has, and not that it runs.
_VERSION = re.compile(
    r"(?<![\w.:/=-])(?<![<>≤≥~^])(?<![<>≤≥~^]\s)(?<![<>]=\s)(?<!\d[-–—])(?<!\d\s[-–—]\s)"
    r"v?\d+(?:\.\d+){1,3}(?!\d|[\w.]*(?:[/:+]|['’]s\b|\s?[-–—]\s?v?\d)|\.\d)"
)
#: Of a version, that it is said to be that of what a chart installs.
_APP = "app"
#: What a command of kubectl names before the ports of a tunnel (kubernetes.io, "kubectl port-forward").
_FORWARDED = re.compile(
    r"(?:^|\s)(?:svc|services?|po|pods?|deploy(?:ments?)?|sts|statefulsets?|rs|replicasets?)/([\w.-]+)\s+$"
)
#: Pages that are about the folder which they lie in; what else lies there has a subject of its own.
_OF_A_FOLDER = frozenset(["readme", "index", "overview"])
#: A file of Compose, and the version of its format, which it may name at its top.
_COMPOSE = re.compile(r"(?:docker-)?compose[\w.-]*\.(?:ya?ml(?:\.j2)?|j2)")
_FORMAT = re.compile(r"version\s*:\s*[\"']?[\d.]+[\"']?\s*")
#: What stands between the hops of a chain.
_ARROW = re.compile(r"\s(?:→|->|=>|⟶|➜|-->)\s")
_ASSIGNED = re.compile(
    rf"(?<![\w{{$/])(?P<key>{SETTING_KEY.pattern}|[A-Z]+(?==))`?\s*"
    # What prose says behind a colon goes on in words.
    r"(?:=\s*`?(?P<value>[\w./:@+-]+)(?![\w${])|:\s*`?(?P<said>[\w./:@+-]+)(?![\w${]|\s+[A-Za-z]))"
)
#: An item that begins with a number, as lists of ports do.
_LEADING_NUMBER = re.compile(r"\W*\d{2,5}\b(?:/\w+)?\s*(?:[:–—(]|-\s)")
#: Which end of a mapping a header or a key is of.
_OUTSIDE = re.compile(r"(?i)\b(?:host|published|external|outside|exposed)\b")
_INSIDE = re.compile(r"(?i)\b(?:container|internal|target|inside)\b")


def _values(segment: Segment, configured: DeclaredValues) -> Iterator[_Value]:
    """The values of a piece; of commands only what a house calls things."""
    headers = [c.plain for c in segment.table.header] if segment.table is not None else []
    of_command = segment.fence in _COMMANDS
    for column, text in enumerate(_parts(segment)):
        header = headers[column] if column < len(headers) else ""
        if column and len(segment.cells) == 2:
            # A table of what there is to say of one thing has its headers in the first column.
            header += f" {segment.cells[0].plain}"
        elif segment.item and segment.headings and _LEADING_NUMBER.match(text.plain):
            header = segment.headings[-1]
        for value in _values_in(text, header, configured, is_subject=not column):
            if of_command and value.property not in (Property.HOST_NAME, Property.IMAGE):
                continue
            is_plain = segment.form == "code" or segment.fence == ""
            if is_plain and value.property is Property.PORT and value.mapping is None:
                continue  # What a program has put out, as like as not.
            yield replace(value, in_code=segment.fence is not None)
    if not of_command:
        yield from _settings(segment, headers)


def _values_in(text: Text, header: str, configured: DeclaredValues, *, is_subject: bool) -> Iterator[_Value]:
    roles = header_roles(header) if header else frozenset()
    said_role = PUBLISHED if _OUTSIDE.search(header) else TARGET if _INSIDE.search(header) else ""
    taken: list[tuple[int, int]] = []

    def is_free(start: int, end: int) -> bool:
        return not any(s < end and start < e for s, e in taken)

    for match in _NAME_AND_TAG.finditer(text.plain):
        about = about_image(image_of(match["name"])[0])
        is_port = match["tag"].isdigit() and (len(match["tag"]) > 3 or int(match["tag"]) in OF_PROXIES)
        if configured.knows(about) and not is_port:
            taken.append(match.span())
            yield _Value(Property.IMAGE, match["tag"], text, *match.span("tag"), about)
    for match in _UNDER_PLACEHOLDER.finditer(text.plain):
        taken.append(match.span())
        yield _Value(Property.HOST_NAME, match[0].lower(), text, *match.span())
    for thing in addresses(text):
        if thing.placeholder and _MAPPING.fullmatch(thing.text):
            continue  # A variable whose default is a port is an end of a mapping, and no host.
        made = list(_of_thing(thing, text)) if is_free(thing.start, thing.end) else []
        if forwarded := _FORWARDED.search(text.plain[: thing.start]):
            # Which end of a tunnel is whose: the local one is whoever opens it picks.
            of = plain_name(forwarded[1])
            made = [replace(v, of=of) for v in made if v.role != PUBLISHED]
        if made:
            taken.append((thing.start, thing.end))
            yield from made
    if "port" in roles or "->" in text.plain or "${" in text.plain:
        mappings = [m.span() for m in _MAPPING.finditer(text.plain)]
        for match in NUMBER.finditer(text.plain):
            # An arrow between two numbers says that they are ports.
            mapping = next(((s, e) for s, e in mappings if s <= match.start() < e), None)
            if is_free(*match.span()) and (mapping or "port" in roles):
                role = said_role
                if mapping is not None:
                    role = TARGET if NUMBER.search(text.plain, mapping[0], match.start()) else PUBLISHED
                yield _Value(Property.PORT, match[0], text, *match.span(), mapping=mapping, role=role)
    if "network" in roles and not is_subject:
        for match in TOKEN.finditer(text.plain):
            name = plain_name(match[0])
            if name in configured.networks or not (is_ordinary_name(name) or name[0].isdigit()):
                yield _Value(Property.NETWORK, name, text, *match.span())
    said = re.search(r"(?i)(?<![\w-])(?:versions?|tags?)(?![\w-])", header) is not None
    of_header = CHART if re.search(r"(?i)\bchart\b", header) else ""
    of_header = _APP if re.search(r"(?i)\bapp(?:lication)?\b", header) else of_header
    for match in _VERSION.finditer(text.plain):
        before = text.plain[max(0, match.start() - 40) : match.start()].lower()
        if (
            is_free(*match.span())
            and (
                said
                or re.search(r"\bversion\W{0,4}$", before)
                # What goes on in capitals is a title.
                or (
                    _ends_in_name(before, configured)
                    and not re.match(r" [A-Z][a-z]", text.plain[match.end() :])
                )
            )
        ):
            role = of_header or (CHART if "chart" in before else "")
            yield _Value(Property.VERSION, match[0], text, *match.span(), role=role)


def _ends_in_name(before: str, configured: DeclaredValues) -> bool:
    """Whether what stands before a number is the name of a thing whose version is declared."""
    last = plain_name(re.split(r"[^\w .-]", re.sub(r"[`*\s:(]+$", "", before))[-1])
    ends = {last, last.rpartition("-")[2], "-".join(last.split("-")[-2:])}
    return any(configured.of(name, Property.VERSION, "") for name in ends if name)


def _of_thing(thing: Thing, text: Text) -> Iterator[_Value]:
    """The ports and the host of an address or a mapping."""
    if thing.kind == "image" or (thing.placeholder and thing.kind not in ("url", "hostport", "host")):
        return
    host = thing.host or ""
    is_name = bool(host) and "." not in host and host.lower() != "localhost"
    is_any = SETTING_KEY.fullmatch(host) or _ANY_MACHINE.fullmatch(host)
    of = plain_name(host) if is_name and not is_any else ""
    of = host if IPV4.fullmatch(host) and is_of_a_machine(host) else of
    for port, end_of_mapping in ((thing.port, PUBLISHED), (thing.target, TARGET)):
        # Behind a mapping's colon, or an arrow, stands its other end.
        begin = thing.start + len(str(thing.port)) if end_of_mapping == TARGET else thing.start
        at = text.plain.find(str(port), begin) if port is not None and port > 9 else -1
        if at >= 0 and NUMBER.match(text.plain, at):
            end = at + len(str(port))
            mapping = (thing.start, max(thing.end, end)) if thing.target else None
            outside = thing.kind in ("url", "hostport")
            role = end_of_mapping if mapping or (outside and not of) else ""
            yield _Value(
                Property.PORT, str(port), text, at, end, of=of, outside=outside, mapping=mapping, role=role
            )
    at = text.plain.find(host, thing.start, thing.end) if "." in host else -1
    if at < 0:
        return
    if "_" in host and not thing.placeholder:
        return  # No name of a host has one (RFC 1123, 2.1); keys have.
    if not IPV4.fullmatch(host):
        yield _Value(Property.HOST_NAME, host.lower(), text, at, at + len(host))
    elif is_of_a_machine(host) and not host.endswith((".1", ".254")):
        # The first or the last of a network is mostly its router, of which every page may speak.
        yield _Value(Property.ADDRESS, host, text, at, at + len(host))


#: What stands for the name of whatever machine the reader has, as one in capitals does.
_ANY_MACHINE = re.compile(
    r"(?:(?:your|my|the)[-_]?)?(?:(?:server|host|machine|nas|docker|vm)[-_]?){0,2}(?:ip|addr(?:ess)?|name)?",
    re.I,
)


def _settings(segment: Segment, headers: Sequence[str]) -> Iterator[_Value]:
    """``KEY=value``, ``KEY: value``, and rows that begin with a key; a column of defaults says none."""
    for text in _parts(segment):
        for match in _ASSIGNED.finditer(text.plain):
            group = "value" if match["value"] else "said"
            start, said = match.start(group), match[group].rstrip(".,;:")
            about = about_setting(match["key"])
            yield _Value(Property.SETTING, said, text, start, start + len(said), about)
    key = segment.cells[0].plain.strip() if len(segment.cells) > 1 else ""
    if SETTING_KEY.fullmatch(key):
        for header, cell in zip(headers[1:], segment.cells[1:], strict=False):
            said = cell.plain.strip()
            if TOKEN.fullmatch(said) and not re.search(r"(?i)default|example", header):
                yield _Value(Property.SETTING, said, cell, 0, len(said), about_setting(key))
                break


# --- What a piece is about

#: What an item begins with, if it names what it is about.
_LEAD = re.compile(r"\W*([A-Za-z][\w .-]{1,40}?)\s*(?::|[-–—]\s|\()")


@dataclass(frozen=True, slots=True)
class _Subjects:
    """The names that a piece may be about, the nearest level first; :data:`_IN_PIECE` is that of the piece.
    ``near``: so many levels for what does not say itself whose it is: what stands under a heading or an item
    with a name of its own is about that, known or not. ``of_row``: the names in what a row begins with, of
    which alone a version in it is; None where no row is."""

    levels: Sequence[Sequence[str]]
    near: int
    #: Of a cell beside the first the names that stand in it itself, by where it begins.
    of_cells: Mapping[int, Sequence[str]]
    of_row: Sequence[str] | None
    #: The piece itself.
    said: str


#: A row of a table that is drawn in a fence, and its first cell.
_GRID_ROW = re.compile(r"\s*\|\s*(\w[^|\n]*?)\s*\|")
_IN_PIECE = 1
_VERSIONED = re.compile(r"(?i)(?<![\w-])(?:versions?|tags?|releases?)(?![\w-])")


def _subjects(
    segment: Segment,
    whole: str,
    above: Sequence[str],
    of_file: Sequence[str],
    folder: str,
    configured: DeclaredValues,
) -> _Subjects:
    subject = _subject(segment)
    levels = [
        [*configured.named_in(subject, folder), *_called(subject, segment, configured)],
        # Names in a line of code are keys.
        configured.named_in(whole, folder) if segment.form != "code" else [],
    ]
    levels += [named for said in above if (named := configured.named_in(said, folder))]
    near = len(levels) + len(segment.headings) + 1
    if not levels[_IN_PIECE] and len(levels) == 2 and any(_is_a_title(said) for said in above):
        near = 2
    for depth, heading in reversed([*enumerate(segment.headings)]):
        levels.append(configured.named_in(heading, folder))
        if levels[-1] or (depth and not is_ordinary_name(heading)):
            near = min(near, len(levels))
    levels.append([name for name in of_file if configured.knows(name)])
    is_row = segment.form == "table" or _GRID_ROW.match(segment.text.plain) is not None
    # Of two cells the first says what the other is of the page's subject, as a property does; a number is no
    # subject.
    of_page = len(segment.cells) == 2 or subject[:1].isdigit() or (is_row and header_roles(subject) != {""})
    if subject and not levels[0] and not of_page and (is_row or not is_ordinary_name(subject)):
        near = _IN_PIECE
    of_cells = {cell.start: configured.named_in(cell.plain, folder) for cell in segment.cells[1:]}
    of_row = None
    if segment.cells and not _VERSIONED.search(subject):
        # What stands in parentheses behind a name says whose that is.
        own = re.sub(r"\([^()]*\)", " ", subject)
        of_row = [*configured.named_in(own, folder), *_called(own, segment, configured)]
    return _Subjects(levels, near, of_cells, of_row, whole)


#: A folder that a text names, mostly by a link to it.
_FOLDER = re.compile(r"(?<![\w.-])([\w.-]+)/(?![\w.-])")


def _called(subject: str, segment: Segment, configured: DeclaredValues) -> list[str]:
    """What a subject means that no name says: a name that is written in one word, as ``homeassistant`` is for
    Home Assistant, the first label of a host name, or the folder in its row that is called as it begins, as
    ``paperless/`` for Paperless-ngx."""
    if not subject or is_ordinary_name(subject):
        return []
    folders = [plain_name(f) for text in segment.cells[1:] for f in _FOLDER.findall(text.plain)]
    own = [f for f in folders if configured.knows(f) and plain_name(subject).startswith(f)]
    first = subject.partition(".")[0].lower()
    # In code a key with dots is no host.
    is_host = segment.cells and HOST.fullmatch(subject) and configured.knows(first)
    of_host = [first] if is_host else []
    return configured.joined(subject) or of_host or own


def _subject(segment: Segment) -> str:
    """What a row or an item begins with: what it is about, if that is a name."""
    if segment.cells:
        return segment.cells[0].plain
    if row := _GRID_ROW.match(segment.text.plain):
        return row[1]
    lead = _LEAD.match(segment.text.plain) if segment.form in ("key-value", "list item", "code") else None
    return lead[1] if lead else ""


def _is_a_title(said: str) -> bool:
    """Whether an item that others stand under names what they are about."""
    return not is_ordinary_name(said) or (said[:1].isupper() and " " in said.strip())


#: A key of YAML that others stand under.
_KEY_ABOVE = re.compile(r"\s*(?:- )?[\"']?([\w.-]+)[\"']?:\s*(?:#.*)?")


class _Items:
    """The items of a list, or the keys of a fence, that the next one stands under."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: list[tuple[int, str]] = []
        self._within: tuple[tuple[str, ...], int] = ((), 0)

    def above(self, segment: Segment) -> list[str]:
        """What the items above a piece begin with, the nearest first."""
        text, within = segment.text, (segment.headings, segment.group)
        in_fence = segment.fence is not None
        if within != self._within or not (segment.item or in_fence):
            self._open, self._within = [], within
        if in_fence:
            column = len(text.plain) - len(text.plain.lstrip())
            lead = _KEY_ABOVE.fullmatch(text.plain)
        else:
            column = text.start - (self._source.rfind("\n", 0, text.start) + 1)
            lead = _LEAD.match(text.plain)
        self._open = [(at, said) for at, said in self._open if at < column]
        found = [said for _, said in reversed(self._open) if said]
        if segment.item or (in_fence and lead):
            self._open.append((column, lead[1] if lead else ""))
        return found


class _Columns:
    """Which end of a mapping the columns of a document's tables have the ports of."""

    def __init__(self, folder: str, configured: DeclaredValues) -> None:
        self._folder, self._configured = folder, configured
        self._known: dict[tuple[int, int], str] = {}

    def role(self, segment: Segment, text: Text) -> str:
        """The end that a cell's column has, if most of its rows agree on one; empty where they do not."""
        column = next((k for k, cell in enumerate(segment.cells) if cell is text), -1)
        at = segment.group, column
        if at not in self._known:
            rows = segment.table.rows if segment.table is not None and column >= 0 else []
            self._known[at] = self._role([row for row in rows if column < len(row)], column)
        return self._known[at]

    def _role(self, rows: Sequence[Sequence[Text]], column: int) -> str:
        votes = {PUBLISHED: 0, TARGET: 0}
        for row in rows:
            said = row[0].plain, " | ".join(cell.plain for cell in row)
            names = next(filter(None, (self._configured.named_in(s, self._folder) for s in said)), [])
            ends: dict[str, set[str]] = {PUBLISHED: set(), TARGET: set()}
            for name in names:
                for declared in self._configured.of(name, Property.PORT, self._folder):
                    if declared.role in ends:
                        ends[declared.role].add(declared.value)
            numbers = set(NUMBER.findall(row[column].plain))
            for role, other in ((PUBLISHED, TARGET), (TARGET, PUBLISHED)):
                votes[role] += not numbers.isdisjoint(ends[role] - ends[other])
        most = max(votes, key=lambda role: votes[role])
        return most if votes[most] >= max(2, 4 * (sum(votes.values()) - votes[most])) else ""


# --- Whether a value is the declared one


@dataclass(frozen=True, slots=True)
class _Compared:
    """``meets``: of a mapping of ports, that one of its ends is a declared port."""

    name: str
    declared: Sequence[Declared]
    agrees: bool
    meets: bool = False


def _compared(
    value: _Value, subjects: _Subjects, folder: str, configured: DeclaredValues
) -> _Compared | None:
    """Of which thing a value is said, what is declared of that, and whether it agrees; None where nothing is
    declared that could be compared."""
    if value.about:
        return _of_what_it_says(value, subjects.levels, folder, configured)
    if value.property is Property.HOST_NAME:
        return _of_host_name(value, subjects, folder, configured)
    levels: Sequence[Sequence[str]] = subjects.levels[: subjects.near]
    if value.property is Property.VERSION and subjects.of_row is not None:
        levels = [subjects.of_row]
    if value.property in (Property.PORT, Property.ADDRESS) and (hop := _hop(value)):
        levels = [configured.named_in(hop, folder)]
    if (own := subjects.of_cells.get(value.text.start)) and subjects.near > _IN_PIECE:
        levels = [own]
    if before := _named_before(value, folder, configured):
        levels = [[before]]
    if value.property is Property.VERSION:
        # "1.2 (a release)": what says what a value is names nothing that has it.
        levels = [[n for n in names if not _VERSIONED.fullmatch(n)] for names in levels]
    if value.of:
        is_address = IPV4.fullmatch(value.of) is not None
        held = configured.at_address(value.of) if is_address else [value.of]
        # At the address of a machine is what the row is about, on a port that is published there.
        levels = [subjects.levels[0] if is_address else [], held] if held else levels
        if is_address and not held and value.outside and not value.role:
            value = replace(value, role=PUBLISHED)
    for level, names in enumerate(levels):
        declared = _held(value, names, folder, configured)
        if value.property is Property.ADDRESS:
            # A folder is called as its main service, and other services lie in it.
            declared = [d for d in declared if d.names[0] in names] or declared
        if declared:
            start, end = value.mapping or (value.start, value.end)
            ends = set(NUMBER.findall(value.text.plain[start:end]))
            meets = not ends.isdisjoint(d.value for d in declared)
            mapped = [d for d in declared if value.role and d.role == value.role]
            declared = mapped or declared
            agrees = any(_is_same(value, d.value) for d in declared)
            if not agrees and value.property is Property.VERSION:
                declared = _comparable(value, declared)
                if not declared:
                    return None
            if not agrees and value.property is Property.ADDRESS:
                # What a machine of the house has may be where the thing runs; another network says nothing.
                near = any(_network(value.value) == _network(d.value) for d in declared)
                if value.value in configured.addresses or not near:
                    return None
            if not agrees and value.property is Property.NETWORK:
                # A name that no network of the house has, or nearly has, may be anything.
                known = value.value in configured.networks
                if not (known or any(likeness(value.value, d.value) >= 0.6 for d in declared)):
                    return None
            if not agrees and value.property is Property.PORT and (value.outside or not mapped):
                around = [*([] if mapped else [folder, *names]), *([""] if value.outside else [])]
                if int(value.value) in OF_PROXIES or configured.is_number_of(value.value, around):
                    return None
            return _Compared(_first(names, declared), declared, agrees, meets)
        if names and level != _IN_PIECE:
            return None  # What the row or the section is about has no such value.
    return None


#: What stands between a name and its value: "dispatcharr `192.0.2.5`", "gitea (3000)".
_BETWEEN = re.compile(r"[\s`*(\[:=]+(?:https?://)?\Z")


def _named_before(value: _Value, folder: str, configured: DeclaredValues) -> str:
    """The name that stands right before a value; empty if none does."""
    before = value.text.plain[max(0, value.start - 60) : value.start]
    between = _BETWEEN.search(before)
    if between is None or not between.start():
        return ""
    said = before[: between.start()]
    names = configured.named_in(said, folder)
    return names[-1] if names and plain_name(said).endswith(names[-1]) else ""


def _hop(value: _Value) -> str:
    """What stands with a port between two arrows of a chain of things; empty where it is in none."""
    text, begin, end = value.text.plain, 0, len(value.text.plain)
    arrows = [m.span() for m in _ARROW.finditer(text)]
    for start, after in arrows:
        if after <= value.start:
            begin = after
        elif start >= value.end:
            end = min(end, start)
    hop = text[begin:end]
    return hop if arrows and value.mapping is None and any(c.isalpha() for c in hop) else ""


def _comparable(value: _Value, declared: Sequence[Declared]) -> list[Declared]:
    """The versions that one can be compared with: a chart's with a chart's, an application's with that of an
    image. Where it is not said which it is, a chart's only if both have the same first number, as charts have
    that are numbered as what they install."""
    if value.role:
        return [d for d in declared if (d.role == CHART) is (value.role == CHART)]
    first = value.value.lstrip("v").partition(".")[0]
    return [d for d in declared if d.role != CHART or d.value.lstrip("v").partition(".")[0] == first]


def _held(value: _Value, names: Iterable[str], folder: str, configured: DeclaredValues) -> list[Declared]:
    return [d for name in dict.fromkeys(names) for d in configured.of(name, value.property, folder)]


def _first(names: Sequence[str], declared: Sequence[Declared]) -> str:
    return next(n for n in names if any(n in d.about for d in declared))


def _of_what_it_says(
    value: _Value, levels: Sequence[Sequence[str]], folder: str, configured: DeclaredValues
) -> _Compared | None:
    """An image or a setting, which is that of the thing that the text speaks of where it speaks of one."""
    declared = configured.of(value.about, value.property, folder)
    if value.property is Property.SETTING:
        declared = [d for d in declared if _shape(d.value) == _shape(value.value)]
    else:
        # What an image is called says nothing of who runs it.
        levels = [_without(value, names) if n == _IN_PIECE else names for n, names in enumerate(levels)]
    if any(levels):
        own = ([d for d in declared if not set(names).isdisjoint(d.names)] for names in levels)
        declared = next((found for found in own if found), [])
    elif value.property is Property.SETTING and "_" not in value.about:
        return None  # A key in one word is that of many things.
    if not declared:
        return None
    name = declared[0].names[0] if declared[0].names else value.about
    agrees = any(_is_same(value, d.value) for d in declared)
    if not agrees and configured.is_version_of(value.value, value.about.rpartition("/")[2]):
        return None
    return _Compared(name, declared, agrees)


def _without(image: _Value, names: Sequence[str]) -> list[str]:
    """The names in a piece without the one that the image of a value is called by, once."""
    own = image.about.rpartition("/")[2]
    at = names.index(own) if own in names else len(names)
    return [*names[:at], *names[at + 1 :]]


def _of_host_name(
    value: _Value, subjects: _Subjects, folder: str, configured: DeclaredValues
) -> _Compared | None:
    """A host name under a domain of the house. One that nothing in configuration has differs from those of
    what the text speaks of; where that is not said close by, only from one that it is like."""
    labels = labels_of(value.value)
    domain = domain_of(labels)
    if "svc" in labels[2:4]:
        return None  # An object of a cluster: two that are alike are two.
    if _ANY_NAME.fullmatch(labels[0]):
        return None
    is_declared = labels in configured.answering or configured.answers_under_a_variable(labels)
    if not is_declared and (domain not in configured.domains or labels in configured.zones):
        return None
    # One that something asks for may be anybody's, unless it is like another; and so may one whose first
    # label the piece has by itself too: it is called after that, "`build.example.org` is the build machine".
    by_itself = rf"(?<![\w.-]){re.escape(labels[0])}(?![\w-]|\.\w)"
    is_called_after = not any(labels[0] in names for names in subjects.levels) and re.search(
        by_itself, subjects.said.lower()
    )
    is_anybodys = labels in configured.hosts or is_called_after
    for level, names in enumerate(subjects.levels):
        declared = _held(value, names, folder, configured)
        if any(labels_of(d.value) == labels for d in declared):
            return _Compared(_first(names, declared), declared, True)
        if is_declared or not declared:
            continue
        close = not is_anybodys and level <= (0 if value.in_code else _IN_PIECE)
        if (close or _is_like(labels, declared, 0.6)) and any(
            domain_of(labels_of(d.value)) == domain for d in declared
        ):
            return _Compared(_first(names, declared), declared, False)
    if is_declared or labels in configured.hosts:
        return None
    under = configured.of_domain(domain)
    alike = [d for d in under if is_spelled_like(labels[0], labels_of(d.value)[0])]
    return _Compared(alike[0].value, alike, False) if alike else None


#: What stands for the name of whatever one has in mind.
_ANY_NAME = re.compile(
    r"\*|(?:your|my)[-\w]*|(?:some)?(?:name|service|app|application|host|hostname|sub-?domain|domain|site|foo"
    r"|x+)"
)


def _is_like(labels: Labels, declared: Iterable[Declared], least: float) -> bool:
    """Whether the first part of a host name may be another spelling of a declared one."""
    return any(likeness(labels[0], labels_of(d.value)[0]) >= least for d in declared)


def _network(address: str) -> str:
    return address.rpartition(".")[0]


def _is_same(value: _Value, declared: str) -> bool:
    if value.value == declared:
        return True
    if value.property not in (Property.IMAGE, Property.VERSION):
        return False
    if re.sub(r"\d+", "0", value.value) == re.sub(r"\d+", "0", declared):
        return False
    mine, other = (re.match(r"v?(\d+(?:\.\d+)*)", text) for text in (value.value, declared))
    if mine is None or other is None:
        return value.property is Property.IMAGE  # A tag without a number may be any version.
    # As far as both say it: 16 and 16.9-alpine are the same.
    return all(a == b for a, b in zip(mine[1].split("."), other[1].split("."), strict=False))


def _shape(text: str) -> str:
    """What a value looks like: settings whose values do not look alike are not of one kind."""
    if text.isdigit():
        return "number"
    return re.sub(r"[a-z]+", "a", re.sub(r"\d+", "0", text.lower())) if re.search(r"\d", text) else "word"


# --- Whether a value that differs is said of now

#: A heading or a path under which stands what is not in force: other times, other places, what goes wrong.
_ELSEWHEN = re.compile(
    r"(?i)troubleshoot|\bfaq\b|example|change-?log|histor|migrat|upgrad"
    r"|\bresearch\b|known issues|\berrors?\b|problem|deprecat|alternativ"
    r"|local(?:ly)?\b.*(?:dev|run|test)|\bdevelopment\b|\btesting\b|without docker"
)
#: In a release that is named behind this something became otherwise; which one runs is not said.
_SINCE = re.compile(
    r"(?i)\b(?:(?:removed|dropped|added|introduced|deprecated|fixed|changed|supported|available|new)\s+"
    r"(?:in|with|by|from|as of)|since)(?:\s+[\w.-]+){0,2}\s+$"
)
#: Numbers of ports, and nothing else.
_LISTED = re.compile(r"(?:[\d,;&+/ ]|tcp|udp)+", re.IGNORECASE)
#: What is written as a port's mapping is, and is an owner.
_OWNER = re.compile(rf"{OWNED.pattern}|\busers?\b")


def _says_ports(whole: str, segment: Segment) -> bool:
    """Whether a piece says of its numbers that they are ports, and no owner and group."""
    headers = [cell.plain for cell in segment.table.header] if segment.table is not None else []
    return re.search(r"(?i)\bports?\b", " ".join((whole, *headers, *segment.headings[-1:]))) is not None


def _column(segment: Segment, text: Text) -> str:
    """What the cells above and below one say, and the header, if that promises no address: a purpose that
    some of them name is what the column is about."""
    column = next((k for k, cell in enumerate(segment.cells) if cell is text), 0)
    if segment.table is None or not 0 < column < len(segment.table.header):
        return ""
    header = segment.table.header[column]
    if header_roles(header.plain) != {""}:
        return ""
    return " | ".join(["", header.plain, *(r[column].plain for r in segment.table.rows if column < len(r))])


def _is_in_force(value: _Value, whole: str, segment: Segment, found: _Compared) -> bool:
    """Whether a value that differs is said of now and of this purpose, and the right one is not said too."""
    declared = found.declared
    around = value.text.plain if segment.form == "table" else whole
    if is_of_another_time(around.replace(value.text.plain[value.start : value.end], " ")):
        return False
    if value.property is Property.HOST_NAME:
        # A thing may have several, and the right one is said too.
        rest = whole.replace(value.text.plain[value.start : value.end], " ").lower()
        return not any(d.value in rest for d in declared)
    if value.property is Property.VERSION and _SINCE.search(value.text.plain[: value.start]):
        return False
    if value.property is Property.PORT:
        if value.mapping is not None:
            if _OWNER.search(whole) or not (found.meets or _says_ports(whole, segment)):
                return False
        elif not value.of or IPV4.fullmatch(value.of):
            # What is headed "Port" is the port, whatever is said of it behind.
            key = _subject(segment) if segment.form == "key-value" else ""
            said = key if "port" in header_roles(key) else around + _column(segment, value.text)
            if int(value.value) in NOT_HTTP or is_of_a_purpose(said):
                return False
    if value.property is Property.ADDRESS and is_of_a_purpose(whole):
        return False
    if value.property is Property.PORT and segment.form == "table":
        # As many ports as are declared are all of them, and so are those that a column of ports lists: each
        # is right or wrong by itself.
        listed = set(NUMBER.findall(around))
        are_all = len(listed) == len({d.value for d in declared})
        if len(listed) > 1 and (are_all or _LISTED.fullmatch(value.text.plain)):
            return True
    start, end = value.mapping or (value.start, value.end)
    rest = value.text.plain[:start] + " " + value.text.plain[end:]
    if value.property is Property.PORT and segment.form != "sentence":
        rest = _MAPPING.sub(" ", rest)  # Of several mappings each is right or wrong by itself.
    rest = " ".join([rest, *(cell.plain for cell in segment.cells if cell is not value.text)])
    # A release is called with its letter or without.
    letter, stripped = ("v?", "v") if value.property is Property.VERSION else ("", "")
    return not any(
        re.search(rf"(?<![\w.]){letter}{re.escape(d.value.lstrip(stripped))}(?![\w]|\.\d)", rest)
        for d in declared
    )
