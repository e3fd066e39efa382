"""What rows of tables may state: the subject of a row with what stands under the headers beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from taboot_pipelines.extraction.tier_a.prose.pairs import (
    FLAGS,
    Candidate,
    about,
    alike,
    excluded,
    flags,
    is_generic,
    is_of_a_command,
    sorts,
    stem,
)
from taboot_pipelines.extraction.tier_a.prose.segments import Segment, Table, Text
from taboot_pipelines.extraction.tier_a.prose.things import (
    NUMBER,
    Thing,
    Vocabulary,
    addresses,
    is_file,
    is_ordinary_name,
    is_quantity,
    is_setting,
    names,
    roles,
    verbs,
)
from taboot_pipelines.model.stores import STORES

#: By the role of a column, what a name in it is to the subject of the row; ``<`` turns it round.
_OF_ROLE = {
    "host": ("RUNS>", "RUNS<"),
    "needs": ("DEPENDS_ON>",),
    "needed": ("DEPENDS_ON<",),
    "network": ("RUNS_IN>",),
    "reaches": ("CONNECTS_TO>",),
    "proxy": ("ROUTES_TO<",),
    "told": ("DEPENDS_ON<", "CONNECTS_TO>", "DEPENDS_ON>", "ROUTES_TO>", "ROUTES_TO<", "RUNS<"),
    "": (),
    "subject": ("RUNS<",),
    "image": ("BUILDS>",),
    "url": ("ROUTES_TO<",),
}
#: The roles that a column may have, by its header.
_COLUMNS = frozenset(
    (
        "port",
        "image",
        "url",
        "ip",
        "host",
        "network",
        "needs",
        "needed",
        "reaches",
        "proxy",
        "subject",
        "setting",
    )
) | frozenset(("time", "trouble", "step", "compare", "told"))
#: What the role of a column says by itself.
_FITS = {
    "host": "RUNS>",
    "needs": "DEPENDS_ON>",
    "needed": "DEPENDS_ON<",
    "network": "RUNS_IN>",
    "reaches": "CONNECTS_TO>",
    "proxy": "ROUTES_TO<",
}
_SPLIT = re.compile(r"\s*(?:,|;|\s\+\s|\s&\s|\band\b|·|<br>|\s/\s)\s*")
_AFTER_NAME = re.compile(r"\s*(?:[(\[–—]|\s-\s|:\s|,|·|\s\+\s|\s@\s).*", re.DOTALL)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: What a cell says that tells a size, and so names no system.
_SIZE = re.compile(r"\b\d+(?:\.\d+)? ?[KMGT]i?B?\b")
#: A name without a mark of its own has fewer words.
_MOST_BLANKS = 4
#: Words of grammar that a phrase has, and a name of a system has not.
_PHRASE = frozenset(
    [
        "the",
        "a",
        "an",
        "our",
        "your",
        "its",
        "of",
        "and",
        "or",
        "to",
        "with",
        "for",
        "from",
        "in",
        "on",
        "at",
        "by",
    ]
)
#: Stores: none is the store of another.
_STORE = frozenset(["database", "databases", "db", "cache", "broker", "store", "storage"])
#: What follows the name of whom a store is kept for: "Ledgerly database".
_STORED = re.compile(rf"(?i)['’]?s?\s+(?:{'|'.join(sorted(_STORE))})\W*(?:\Z|[,;(+])")
#: A number, an address of memory, a UUID: what identifies, and names nothing.
_ID = re.compile(r"\d+|0x[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4,12}){1,4}")
#: A cell of more words is a sentence, which says what it says without its header.
_MOST_WORDS = 8
#: Words of a header under which paths stand, and those under which what others wrote of a product is linked.
_OF_FILES = frozenset(
    ["path", "paths", "directory", "directories", "dir", "folder", "folders", "mount", "mounts"]
)
_OF_OTHERS = frozenset(
    ["homepage", "docs", "documentation", "wiki", "repo", "repository", "source", "sources"]
)
#: What a header calls things that are put together, and that run nothing.
_GROUPS = frozenset(
    ["stack", "stacks", "project", "projects", "category", "group", "layer", "section", "profile", "bundle"]
)
_GROUP = "subject group"
_DEVICES = frozenset(["device", "devices"])
#: What is said around the name of the machine that something runs on: "LXC 106 on pve3".
_PLACED = re.compile(r"(?i)\b(?:lxc|kvm|qemu|vm|vmid|ct|ctid|jail|container|guest|on|in|at|id)\b")
#: A preposition of direction before an address.
_AWAY = re.compile(r"(?:\b(?:to|from|via|through|towards?)|→|->|=>) ?`?$", re.IGNORECASE)
#: A version (Semantic Versioning, or nearly), which runs nothing.
_VERSION = re.compile(r"v?\d+\.\d+(?:\.\d+)*(?:[-+.][\w.+-]*)?(?: ?/ ?.*)?")
#: What programs are built for (a target of GNU, a platform of OCI), which is no program.
_PLATFORM = re.compile(
    r"(?i)(?:(?:linux|darwin|windows)[/-])?"
    r"(?:x86[_-]64|amd64|arm64|aarch64|armv\d\w*|i[3-6]86|riscv64)(?:[/-]\w+)*"
)
_REMARK = re.compile(r"\([^)]*\)|<br>")
_LEADING = re.compile(r"\A[^\w@]+")
_EMPTY = re.compile(
    r"\W*(?:n/?a|none|yes|no|tbd|todo|true|false|unknown|various|all|any|internal|external)?\W*", re.I
)
#: Types of records (RFC 1035, 3596, 8659): a row that begins with one is of a zone.
_RECORDS = frozenset(["A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT"])


@lru_cache(maxsize=4096)
def header_roles(text: str) -> frozenset[str]:
    """Return what the words of a header say that stands under it."""
    words = re.findall(r"[a-z0-9]+", _CAMEL.sub(" ", text).lower())
    found: set[str] = {
        role for role, said in roles().items() if role in _COLUMNS and any(w in said for w in words)
    }
    if "port" in found and any(w.isdigit() for w in words):
        found -= {"port"}  # "TCP 1514": it names a port itself, and the cells say what came of it.
    if "port" in found:
        found -= {"host", "subject"}
    if not _OF_FILES.isdisjoint(words):
        found -= {"host"}  # A path of the host is no host.
    if found > {"told"}:
        found.discard("told")
    return frozenset(found) or frozenset(("",))


def table_candidates(segment: Segment, vocabulary: Vocabulary) -> Iterator[Candidate]:
    """Yield the candidates of a row."""
    table = segment.table
    assert table is not None
    cells = segment.cells
    if not cells or (len(table.header) < 2 and len(cells) < 2):
        return
    header = [_header(table, k) for k in range(len(cells))]
    told = [name for name in header if name.strip()]
    if len(set(told)) < len(told):
        return  # A header twice: several records stand side by side in a row.
    at = _subject(table, cells, header)
    first = header_roles(header[0])
    shared = [
        "form table",
        *(f"first {r}" for r in sorted(first)),
        *(f"subject {r}" for r in sorted(header_roles(header[at]))),
        *([_GROUP] if not _GROUPS.isdisjoint(re.findall(r"[a-z]+", header[at].lower())) else []),
        f"rows {min(len(table.rows).bit_length(), 5)}",
        f"columns {min(len(cells), 6)}",
        f"subject at {min(at, 2)}",
        *(
            f
            for f in flags(segment, " | ".join(c.plain[:300] for c in cells))
            if f.startswith("under") or f in ("flag not", "flag future", "flag step")
        ),
    ]
    if cells[0].plain.strip() in _RECORDS:
        return
    parts = {w for name in header[: at + 1] for w in re.findall(r"[a-z]+", name.lower())} & roles()["part"]
    if any("ip" in header_roles(h) for h in header):
        parts -= _DEVICES  # Which has an address is no part.
    if parts:
        return  # Of the parts of a machine, or of what is let through.
    if any(
        "setting" in header_roles(h) and "subject" not in header_roles(h) for h in (header[0], header[at])
    ):
        return  # Of one thing's settings, or of several side by side.
    if table.files is None:
        table.files = _files(table, at)
    subject = name_of(cells[at]) if table.files != at else None
    machine = next(
        (
            (k, m)
            for k, cell in enumerate(cells)
            if (
                k != at
                and "host" in header_roles(header[k])
                and not header_roles(header[k]) & {"url", "subject", "needs"}
            )
            or (k != at and header[k].strip().lower() in ("host", "node", "server", "machine"))
            for m in [name_of(cell)]
            if m is not None
            and not addresses(cell)
            and not _EMPTY.fullmatch(m.text)
            and not _VERSION.fullmatch(m.text)
        ),
        None,
    )
    if header_roles(header[at]) == {"network"}:
        subject = None  # It says of a network what it is for.
    elif (
        subject is not None
        and subject.by == "cell"
        and subject.text.islower()
        and is_ordinary_name(subject.text)
        and "subject" not in header_roles(header[at])
    ):
        subject = None  # A word without a mark, under a header that promises no name.
    if subject is not None and not _ID.fullmatch(subject.text) and not is_setting(subject.text):
        shared_of = [
            *shared,
            *about(subject, "1", vocabulary),
            *(["whole"] if len(subject.text) == len(cells[at].plain.strip()) else []),
        ]
        # Ports beside what a row leads to are that thing's, and those of a switch are sockets.
        wired = any(not roles()["wired"].isdisjoint(re.findall(r"[a-z]+", h.lower())) for h in header)
        leads = wired or any("reaches" in header_roles(h) for h in header)
        for k, cell in enumerate(cells):
            if k == at or _EMPTY.fullmatch(cell.plain):
                continue
            if leads and "port" in header_roles(header[k]):
                continue
            if k > at + 12:
                break
            for one in _cell(segment, subject, cells[at], k - at, cell, header[k], shared_of, vocabulary):
                if machine is not None and one.type == "BINDS" and one.end is None:
                    one.end, one.end_place = (
                        machine[1],
                        cells[machine[0]].place(machine[1].start, machine[1].end),
                    )
                yield one
    # Within a cell, "`ci-runner` @ 10.0.0.5"; and rows that begin with a port and name the service behind it.
    if is_setting(cells[0].plain):
        return
    leading = header_roles(header[0]) & {"port", "ip", "image", "url"}
    for k, cell in enumerate(cells):
        found = addresses(cell) if len(cell.plain) < 600 else []
        if not (found and k != at) and not (leading and 0 < k <= 3):
            continue
        inside = names(cell, found, vocabulary) if len(cell.plain) < 600 else []
        if not inside:
            continue
        if found and k != at:
            for thing in found:
                name = min(
                    inside,
                    key=lambda n: (
                        abs(n.start - thing.end) if n.start >= thing.end else abs(thing.start - n.end)
                    ),
                )
                yield from _addressed(
                    segment,
                    name,
                    cell,
                    thing,
                    cell,
                    [*shared, "inside", *about(name, "1", vocabulary)],
                    header[k],
                    0,
                )
        if leading and 0 < k <= 3:
            inside = (
                inside
                if "subject" in header_roles(header[k])
                else [
                    n
                    for n in inside
                    if cell.plain[n.start - 1 : n.start] == "(" and cell.plain[n.end : n.end + 1] == ")"
                ]
            )
            owner = addresses(cells[0])
            owner = owner or _numbers(cells[0], header[0])
            if owner:
                for name in inside[:2]:
                    for thing in owner[:4]:
                        extra = [
                            *shared,
                            "turned",
                            *about(name, "1", vocabulary),
                            f"turned {'one' if len(inside) == 1 else 'more'}",
                        ]
                        yield from _addressed(segment, name, cell, thing, cells[0], extra, header[0], -k)


def _files(table: Table, at: int) -> int:
    """The column of the files that the rows of a table are about, or -1: most subjects are files; or
    most cells beside them, which tell the rows apart as the subjects do not ("Service | Files | What")."""

    def told(k: int) -> tuple[int, int]:
        named = [name.text for row in table.rows if k < len(row) for name in [name_of(row[k])] if name]
        return sum(map(is_file, named)), len(set(named))

    for k in range(at, min(len(table.header), at + 3)):
        files, different = told(k)
        if 2 * files > len(table.rows) and (k == at or different > told(at)[1]):
            return k
    return -1


def _header(table: Table, k: int) -> str:
    return table.header[k].plain[:80] if k < len(table.header) else ""


def _subject(table: Table, cells: list[Text], header: list[str]) -> int:
    """Which column says what a row is about: the first, unless it counts or has a later one's ports."""
    for k in range(min(3, len(cells))):
        plain = cells[k].plain.strip()
        counts = (
            not plain
            or (plain.isdigit() and "port" not in header_roles(header[k]))
            or header[k].strip().lower() in ("#", "no", "no.", "nr", "")
        )
        named = header_roles(header[k])
        if counts and k + 1 < len(cells) and k < 2:
            continue
        if (
            k == 0
            and len(cells) > 2
            and not named & {"subject"}
            and named & {"port", "url", "ip", "time", "step", "compare"}
        ):
            for later in range(1, min(4, len(cells))):
                if header_roles(header[later]) & {"subject"} and cells[later].plain.strip():
                    return later
        if (
            k == 0
            and len(cells) > 1
            and is_ordinary_name(plain)
            and "subject" not in named
            and "subject" in header_roles(header[1])
            and cells[1].plain.strip()
        ):
            return 1
        return k
    return 0


def name_of(cell: Text) -> Thing | None:
    """The name that a cell is, without remarks behind it."""
    plain = cell.plain
    lead = _LEADING.match(plain)
    begin = lead.end() if lead else 0
    for start, end, mark in cell.marks:
        if start <= begin + 1 and end - start > 1 and mark in ("bold", "link", "code"):
            inner = plain[start:end]
            cut = _AFTER_NAME.search(inner, 1)
            end = start + cut.start() if cut and mark != "code" else end
            if is_quantity(inner) or (mark == "code" and inner.endswith(".")):
                return None  # An interval; the first labels of a host name.
            if plain[start:end].strip():
                return Thing(start, end, plain[start:end], "name", mark)
    tail = _AFTER_NAME.search(plain, begin + 1) if begin < len(plain) else None
    end = tail.start() if tail else len(plain)
    text = plain[begin:end].rstrip(" .:*")
    if (
        not text
        or len(text) > 60
        or is_quantity(text)
        or _PLATFORM.fullmatch(text)
        or not any(c.isalpha() for c in text)
    ):
        return None
    if text.count(" ") > _MOST_BLANKS or not _PHRASE.isdisjoint(text.lower().split()):
        return None  # "the house and the tunnel" describes, and names nothing.
    return Thing(begin, begin + len(text), text, "name", "cell")


def _numbers(cell: Text, header: str) -> list[Thing]:
    """Ports of a column of ports: bare numbers, lists, ranges aside."""
    if "port" not in header_roles(header) or re.search(r"\d\s*[-–]\s*\d", cell.plain):
        return []
    return [
        Thing(m.start(), m.end(), m[0], "port", "bare", port=int(m[0]))
        for m in NUMBER.finditer(cell.plain.replace("/", " "))
        if 0 < int(m[0]) < 65536
    ]


def _cell(
    segment: Segment,
    subject: Thing,
    subject_cell: Text,
    far: int,
    cell: Text,
    header: str,
    shared: list[str],
    vocabulary: Vocabulary,
) -> Iterator[Candidate]:
    titled = frozenset(re.findall(r"[a-z]+", header.lower()))
    if titled and titled <= _OF_OTHERS:
        return
    found = addresses(cell)
    taken = {t.start for t in found}
    found += [
        t
        for t in _numbers(cell, header)
        if t.start not in taken and not any(o.start <= t.start < o.end for o in found)
    ]
    for thing in found:
        yield from _addressed(segment, subject, subject_cell, thing, cell, shared, header, far)
    if len(cell.plain) > 400 or (segment.table is not None and segment.table.files != -1):
        return
    said = header_roles(header)
    wanted = {(way, role) for role in said for way in _OF_ROLE.get(role, ())}
    if cell.plain.count(" ") > 0:
        wanted |= {(way, "text") for way in _OF_ROLE["told"]}
    if not wanted:
        return
    whole = name_of(cell) if said & {"host", "proxy", "network", "image"} and len(cell.plain) < 60 else None
    inside = names(cell, found, vocabulary)
    if whole is not None and not any(n.start <= whole.start < n.end for n in inside):
        inside.append(whole)
    elif not inside and len(cell.plain) < 40 and said & {"needs", "needed", "reaches"}:
        inside = [t for part in _SPLIT.split(cell.plain) for t in [_part(cell, part)] if t is not None]
    words = re.findall(r"[a-z]+", cell.plain.lower())
    if "needs" in said and all(
        _STORE & set(re.findall(r"[a-z]+", s.lower())) for s in (header, subject.text)
    ):
        return  # What a database server holds.
    # What is for another may need it as well as be needed ("exporter for"); what keeps data does not.
    keeps = subject.text.lower() in STORES
    wordy = _wordy(cell, inside)
    placed = wordy and _wordy(cell, inside, _PLACED)
    # A service is listed with its containers, a machine with what it runs.
    of_parts = _GROUP in shared or ("subject subject" in shared and "subject host" not in shared)
    sized = _SIZE.search(cell.plain) is not None
    for way, role in sorted(wanted):
        kind = way[:-1]
        turned = way[-1] == "<"
        if kind == "BUILDS":
            continue
        for name in inside[:6]:
            if is_setting(name.text) or is_generic(name.text) or _VERSION.fullmatch(name.text):
                continue
            before = re.findall(r"[a-z]+", cell.plain[: name.start].lower())
            if name.text.lower() == subject.text.lower():
                continue
            fits = _FITS.get(role) == way
            kept = way == "DEPENDS_ON<" and _STORED.match(cell.plain, name.end) is not None
            told = kept or (
                not fits
                and not verbs()
                .get(way, frozenset())
                .isdisjoint(word for word in before[-4:] if word != "for" or keeps)
            )
            if fits and sized and role in ("needs", "needed", "host"):
                continue
            apart = placed if kind == "RUNS" and "host" in said else wordy
            if (told and len(words) > _MOST_WORDS) or (kind in ("RUNS", "RUNS_IN") and apart):
                continue
            if kind == "RUNS" and any(t.kind == "url" and t.start <= name.start < t.end for t in found):
                continue  # A URL is no machine.
            if not fits and not told and (role != "subject" or wordy or of_parts):
                continue  # Nothing in the row says so, or what it says is a description, or of its own parts.
            extra = [
                way,
                f"{way} role {role}",
                f"role {role}",
                f"{way} {'alone' if name.end - name.start >= len(cell.plain.strip()) - 2 else 'among'}",
                *(f"{way} c {stem(w)}" for w in before[-3:]),
                *(f"{kind} {f}" for f in shared),
                *(f"{kind} {f}" for f in about(name, "2", vocabulary)),
                *about(name, "2", vocabulary),
                f"{way} {'leads' if not before and name.start <= 3 else 'within'}",
                f"name {'leads' if not before and name.start <= 3 else 'within'} {'fits' if fits else 'not'}",
                *(f"{way} h {stem(w)}" for w in re.findall(r"[a-z]+", header.lower())),
                f"{way} {'said' if set(before) & verbs().get(way, frozenset()) else 'unsaid'}",
                f"{way} words {min(len(words) // 4, 3)}",
            ]
            if fits:
                alone = (
                    name.end - name.start >= len(cell.plain.strip()) - 2 or len(_SPLIT.split(cell.plain)) > 1
                )
                extra += [
                    "name fits",
                    f"{kind} fits",
                    f"name fits {'alone' if alone else 'among'}",
                    f"name fits {name.by}",
                ]
            elif told:
                extra += ["name said", f"{way} name said"]
            else:
                extra.append("name unsaid")
            made = Candidate(
                kind, name if turned else subject, subject if turned else name, features=[*shared, *extra]
            )
            texts = (cell.plain, subject_cell.plain) if turned else (subject_cell.plain, cell.plain)
            assert made.end is not None
            made.features += sorts(kind, made.start, made.end, *texts)
            own, theirs = subject_cell.place(subject.start, subject.end), cell.place(name.start, name.end)
            made.start_place, made.end_place = (theirs, own) if turned else (own, theirs)
            yield made


def _wordy(cell: Text, inside: list[Thing], aside: re.Pattern[str] | None = None) -> bool:
    """Whether a cell has words beside the names in it, remarks in parentheses and ``aside`` left out."""
    left = list(cell.plain)
    for name in inside:
        left[name.start : name.end] = " " * (name.end - name.start)
    said = _REMARK.sub(" ", "".join(left)).replace("and", " ")
    return re.search(r"[^\W\d_]{2}", said if aside is None else aside.sub(" ", said)) is not None


def _part(cell: Text, part: str) -> Thing | None:
    part = part.strip(" `*.")
    if " " in part and part.rpartition(" ")[2].islower() and part.rpartition(" ")[2] not in roles()["kind"]:
        return None  # A remark.
    if is_ordinary_name(part.lower()):
        return None
    at = cell.plain.find(part) if part else -1
    if at < 0 or not any(c.isalpha() for c in part) or part.count(" ") > 2:
        return None
    return Thing(at, at + len(part), part, "name", "part")


def _addressed(
    segment: Segment,
    subject: Thing,
    subject_cell: Text,
    thing: Thing,
    cell: Text,
    shared: list[str],
    header: str,
    far: int,
) -> Iterator[Candidate]:
    said = header_roles(header)
    others = roles()["other-end"]
    words = re.findall(r"[a-z]+", header.lower())
    if thing.kind == "ip":
        if subject_cell is not cell and ("reaches" in said or not others.isdisjoint(words)):
            return  # The address of what stands at the other end.
        lead = name_of(cell) if subject_cell is not cell else None
        if lead is not None and lead.end < thing.start and not is_ordinary_name(lead.text):
            return  # It follows a name, whose it is.
    if thing.kind in ("ip", "hostport") and _AWAY.search(cell.plain, max(0, thing.start - 12), thing.start):
        return  # Of what something goes to, or comes from.
    if thing.kind == "image" and thing.by == "path" and said & {"network", "needs", "host", "setting"}:
        return
    if FLAGS["example"].search(cell.plain, max(0, thing.start - 16), thing.start):
        return
    if thing.kind == "url" and is_of_a_command(cell, thing):
        return
    for kind in _KINDS.get(thing.kind, ()):
        if kind == "EXPOSES_ENDPOINT" and thing.kind == "host" and "url" not in said:
            continue  # The name of a machine.
        if kind == "EXPOSES_ENDPOINT" and thing.placeholder:
            if thing.port is None:
                continue
            kind = "BINDS"
        if excluded(kind, subject, thing):
            continue
        made = Candidate(kind, subject, thing)
        if kind == "BINDS":
            if thing.port is None:
                continue
            made.port, made.protocol, made.target = thing.port, thing.protocol, thing.target
            if thing.kind == "port" or thing.placeholder:
                made.end = None
        alone = thing.end - thing.start >= len(cell.plain.strip()) - 2
        before = re.findall(r"[a-z]+", cell.plain[: thing.start].lower())
        made.features = [
            *shared,
            kind,
            f"{kind} table",
            *(f"{kind} {f}" for f in shared),
            f"{kind} far {max(-2, min(far, 4))}",
            "alone" if alone else "among",
            f"{kind} {'alone' if alone else 'among'}",
            *(f"{kind} role {r}" for r in said),
            *(f"{kind} {thing.kind} {thing.by} role {r}" for r in said),
            *(f"{kind} h {stem(w)}" for w in words),
            f"{kind} a {thing.kind} {thing.by}",
            *(f"{kind} c {stem(w)}" for w in before[-2:]),
        ]
        if (
            kind in {"BINDS": "port", "BUILDS": "image", "EXPOSES_ENDPOINT": "url", "RESOLVES_TO": "ip"}
            and {"BINDS": "port", "BUILDS": "image", "EXPOSES_ENDPOINT": "url", "RESOLVES_TO": "ip"}[kind]
            in said
        ):
            made.features += ["fits", f"{kind} fits"]
        if thing.host and alike(subject.text, thing.host):
            made.features += ["host alike", f"{kind} host alike"]
        if thing.placeholder:
            made.features.append("placeholder")
        made.start_place, made.end_place = (
            subject_cell.place(subject.start, subject.end),
            cell.place(thing.start, thing.end),
        )
        yield made


_KINDS = {
    "port": ("BINDS",),
    "hostport": ("BINDS", "CONNECTS_TO"),
    "url": ("EXPOSES_ENDPOINT",),
    "host": ("EXPOSES_ENDPOINT", "RUNS"),
    "ip": ("RESOLVES_TO",),
    "image": ("BUILDS",),
}
