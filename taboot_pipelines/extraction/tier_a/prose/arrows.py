"""What lines with arrows may state, in text and diagrams: only what touches an arrow counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.prose.pairs import (
    Candidate,
    about,
    begins_order,
    flags,
    is_generic,
    sorts,
    stem,
)
from taboot_pipelines.extraction.tier_a.prose.segments import ARROW, COMMENTED, Segment, Text
from taboot_pipelines.extraction.tier_a.prose.things import (
    Thing,
    Vocabulary,
    addresses,
    is_ordinary_name,
    is_setting,
    names,
    roles,
    verbs,
)
from taboot_pipelines.model.stores import STORES

#: A node of a flowchart of Mermaid (``flow.jison``): its id, and the text between the signs of its shape, in
#: quotes or without; or its properties.
_NODE = re.compile(
    r"(?<![\w\"'])(?P<id>[A-Za-z_](?:[\w.]|-(?![->.]))*)(?:@\{[^}]*?label:\s*\"(?P<at>[^\"]*)\"[^}]*\}"
    r"|[ \t]*(?P<open>\({3}|\(\(|\(\[|\[\[|\[\(|\[[/\\](?=[^\]\n]*[/\\]\])|\{\{|[\[({>])\s*"
    r"(?:\"(?P<quoted>[^\"]{1,600})\"|(?P<label>[^\"\[\]{}]{1,200}?))"
    r"\s*(?:\){1,3}|\]\)|\)\]|\]{1,2}|\}{1,2}|[/\\]\]))(?::::\w+)?"
)
_SHAPE = re.compile(r"@\{[^}]*?\bshape:\s*([\w-]+)")
#: Shapes of stores, by Mermaid's signs and names, and of what ISO 5807 calls a decision, a document and an
#: annotation.
_CYLINDERS = frozenset(["[(", "cyl", "cylinder", "database", "db"])
_NOTHING_THAT_RUNS = frozenset(
    [
        *("{", "diam", "decision", "diamond", "question"),
        *("doc", "document", "docs", "documents", "st-doc", "stacked-document"),
        *("lin-doc", "lined-document", "tag-doc", "tagged-document"),
        *("brace", "brace-l", "brace-r", "braces", "comment"),
    ]
)
#: What joins the names of several things, or words for what they do, in one text.
_COORDINATED = re.compile(r"(?i)\s(?:&|and|or|/|\+|·)\s|,\s")
#: The line that begins a group of nodes, if it gives the group an id.
_SUBGRAPH = re.compile(r"\s*subgraph\s+\"?(?P<id>[^\s\[\";]+)\"?\s*(?:\[|\Z)")
_TITLE = re.compile(
    r"(?i)^\s*(?:participant|actor)\s+(?P<id>[\w.-]+)(?:\s+as\s+(?P<label>.+?))?\s*$|^\s*(?:graph|"
    r"flowchart|sequenceDiagram|subgraph|end|style|classDef|class|direction|note|loop|alt|else|"
    r"opt|activate|deactivate|title|autonumber|stateDiagram|erDiagram|gantt|pie|click|linkStyle)"
    r"\b"
)
_MERMAID = re.compile(r"\s*(?:graph|flowchart|sequenceDiagram)\b")
_SEQUENCE = re.compile(r"\s*sequenceDiagram\b")
#: What parts the lines of a node's text.
_LINES = re.compile(r"<br\s*/?>|\\n|\n")
_BOX = re.compile(r"[│┃|+┌┐└┘├┤┬┴╔╗╚╝║═─━]{1,}")
_JOIN = re.compile(r"\s*(?:/|,|\+|&|\band\b|\bor\b)\s*")
_BEFORE = re.compile(
    r"(?:^|[|(\[–—!?]|[.:;,](?!\S)|\s-\s"
    r"|\b(?:via|through|from|like|is|are|by|path|flow|with|e\.g\.))\s*(?=\S)",
    re.I,
)
_BEHIND = re.compile(
    r"\s*(?:$|[:;,|)\]\[(–—!?]|\.(?!\w)|\s-\s|\b(?:for|via|with|to|in|on|as|and then|using|over|which|"
    r"that|when|is|are|so)\b)",
    re.I,
)
#: The name of a type in a program or an interface: "ExternalSecret".
_TYPE = re.compile(r"(?:[A-Z][a-z]+){2,}")
#: What parts a note in the margin from a line that is drawn or listed: an arrow back, after a gap.
_MARGIN = re.compile(r"(?:\s{2,}|[│|]\s*)[←⟵◄]")
#: An object of a cluster by its kind and name (Kubernetes, RFC 1123): "HelmRelease: vault".
_OBJECT = re.compile(rf"(?:{_TYPE.pattern}):\s+(?P<name>[a-z0-9][a-z0-9.-]*)")
_BRACKETS = re.compile(r"\s*\([^()\n]{0,80}\)\s*\Z")
#: What stands in brackets behind a name.
_QUALIFIED = re.compile(r"\s*\([^()\n]{1,30}\)")
_MESSAGE = re.compile(r"\s*[:=]\s*(?P<label>\S.{0,80})\Z")
#: A path, which is no list of names with slashes between them.
_PATH = re.compile(r"(?<!\S)(?:[/~]|\.{1,2}/)\S*|(?<!\S)[^\s/]+/(?:[^\s/]+/\S*|(?=\s|\Z))")


@dataclass(slots=True)
class Diagram:
    """The nodes of a drawn diagram by their ids, and what its lines look like together."""

    labels: dict[str, Thing]
    #: Ids of what no arrow tells anything of: groups, and nodes whose text names nothing or several things.
    unnamed: set[str] = field(default_factory=set)
    arrows: int = 0
    #: How many nodes are called as what is done ("Deploy"), as a type of a program ("CertificateRequest"),
    #: and how many have an address, a port or an image.
    steps: int = 0
    types: int = 0
    addressed: int = 0
    #: Whether it is written in a language in which nodes have shapes, and whether it is one of messages.
    nodes: bool = False
    messages: bool = False


def diagram(lines: Sequence[Segment]) -> Diagram:
    """Return what the lines of one fence say together."""
    messages = any(_SEQUENCE.match(s.text.plain) for s in lines[:3])
    mermaid = any(s.fence == "mermaid" or _MERMAID.match(s.text.plain) for s in lines[:3])
    found = Diagram({}, nodes=mermaid and not messages, messages=messages)
    for line in lines:
        plain = line.text.plain
        if mermaid and COMMENTED.match(plain):
            continue
        found.arrows += len(ARROW.findall(plain))
        title = _TITLE.match(plain)
        if title and title["label"]:
            found.labels.setdefault(title["id"], _label(title["label"]))
        group = _SUBGRAPH.match(plain)
        if group and found.nodes:
            found.unnamed.add(group["id"])
        for node in _NODE.finditer(plain) if found.nodes else ():
            label = _said(node)
            several = label and _COORDINATED.search(_label(label).text)
            if not any(c.isalnum() for c in label) or _is_content(node) or several:
                found.unnamed.add(node["id"])
            if any(c.isalnum() for c in label) and node["id"] not in found.labels:
                found.labels[node["id"]] = _label(label)
                found.addressed += bool(addresses(Text(label, 0, len(label))))
    for thing in found.labels.values():
        found.steps += begins_order(thing.text)
        found.types += _TYPE.fullmatch(thing.text) is not None
    return found


def _blank(node: re.Match[str]) -> str:
    """A node without its text, as long as before."""
    return node["id"] + "_" * (len(node[0]) - len(node["id"]))


def _said(node: re.Match[str]) -> str:
    """The text of a node."""
    return node["at"] or node["quoted"] or node["label"] or ""


def _is_content(node: re.Match[str]) -> bool:
    """Whether the shape of a node says that it is nothing which runs: a decision, a document, a remark; or a
    store that is called after what it keeps ("Wiki Data"): of several words none is a software that stores,
    and it has no address."""
    shape = node["open"] or (_SHAPE.search(node[0]) or ("", ""))[1]
    if shape not in _CYLINDERS:
        return shape in _NOTHING_THAT_RUNS
    label = _said(node)
    words = re.findall(r"[a-z0-9-]+", _label(label).text.lower())
    return len(words) > 1 and STORES.isdisjoint(words) and not addresses(Text(label, 0, len(label)))


def _label(label: str) -> Thing:
    """The name that a text of a node begins with: its first line that has letters."""
    lines = _LINES.split(label)
    first = re.sub(r"<[^<>]*>", "", lines[0])
    for part in lines:
        part = re.sub(r"<[^<>]*>", "", part).strip(" *_`\"'")
        if any(c.isalpha() for c in part):
            first = part
            break
    first = re.sub(r"^[^\w/~.]+", "", first.strip(" *_`\"'"))
    first = (
        re.split(r"\s+[-–—]\s+|\s*\((?=[^)]*(?:\d|\)?$))|\s+:\d|:\d{2}|\s+v?\d+(?:\.\d+)+", first)[0].strip()
        or first
    )
    named = _OBJECT.fullmatch(first)
    first = named["name"] if named else first
    return Thing(0, len(first), first, "name", "node")


def arrow_candidates(segment: Segment, drawn: Diagram | None, vocabulary: Vocabulary) -> Iterator[Candidate]:
    """Yield the candidates of a line with arrows; in a diagram also those of a node's own definition."""
    text = segment.text
    plain = text.plain
    if drawn is not None and segment.fence is not None:
        if _TITLE.match(plain) or (drawn.nodes and COMMENTED.match(plain)):
            return
        if drawn.nodes:
            yield from _definitions(segment, vocabulary)
    margin = _MARGIN.search(plain)
    # An arrow in the text of a node is text.
    drawn_only = plain if drawn is None or not drawn.nodes else _NODE.sub(_blank, plain)
    found = list(ARROW.finditer(drawn_only, 0, margin.start() if margin is not None else len(plain)))
    if drawn is not None and drawn.messages:
        found = found[:1]  # A line tells one message; what follows is its text.
    if not found or len(found) > 12:
        return
    bounds = [0, *(m.end() for m in found)]
    ends = [*(m.start() for m in found), len(plain)]
    parts = [plain[a:b] for a, b in zip(bounds, ends, strict=True)]
    shared = [
        "form arrow",
        *flags(segment, plain),
        f"fence {segment.fence}" if segment.fence is not None else "no fence",
        f"chain {min(len(found), 4)}",
        f"item {'number' if segment.item[:1].isdigit() else 'mark' if segment.item else 'no'}",
    ]
    shared.append("fence" if segment.fence is not None else "text")
    if drawn is not None:
        shared.append(f"drawing {min(drawn.arrows.bit_length(), 4)}")
        if drawn.labels:
            shared.append("nodes")
            shared += [
                f"nodes {what} {min(count * 4 // len(drawn.labels), 3)}"
                for what, count in (("steps", drawn.steps), ("types", drawn.types), ("at", drawn.addressed))
            ]
    first = re.findall(r"[A-Za-z]+", plain)
    if first and first[0].lower() in roles()["order"]:
        shared.append("begins order")
    bold = sum(1 for m in text.marks if m[2] == "bold")
    if bold >= len(found) + 1:
        shared.append("bold chain")
    lists = [
        _ends(text, bounds[k], ends[k], k > 0, k < len(found), drawn, vocabulary) for k in range(len(parts))
    ]
    shared.append(f"steps {min(sum(begins_order(part) for part in parts), 2)}")
    shared.append(f"nameless {min(sum(not before and not behind for before, behind in lists), 2)}")
    message = _MESSAGE.search(parts[-1])
    # "a → b = blocked": what it came to.
    if message is not None and not _NONE.isdisjoint(re.findall(r"[a-z]+", message["label"].lower())):
        return
    if segment.fence != "mermaid":
        message = None
    for k, arrow in enumerate(found):
        label = (
            arrow["label"]
            or arrow["inner"]
            or arrow["drawn"]
            or arrow["dotted"]
            or (message["label"] if message and k == len(found) - 1 else "")
            or ""
        ).strip()
        if (
            not label
            and re.match(r"\s*[A-Z]\w+s\b", parts[k + 1])
            and stem(parts[k + 1].split()[0]) in _SAID_STEMS
        ):
            label = parts[k + 1].split()[0]
        if drawn is not None and drawn.messages and (arrow["right"] or "").strip().startswith("--"):
            continue  # A dashed line is a reply (UML 2.5.1, 17.4.4.1): who asked has connected.
        left, right = lists[k][1], lists[k + 1][0]
        if arrow["left"]:
            left, right = right, left
        if not label and drawn is not None and "under-process" in shared and _of_dependencies(segment):
            continue
        kinds = [("CONNECTS_TO", "bare" if not label else "labelled")]
        words = set(re.findall(r"[a-z]+", label.lower()))
        if words & _NONE:
            continue
        if label.lower().endswith(" by") and words & _PASSIVE:
            left, right = right, left  # "exporter -- scraped by --> collector": who does it stands behind.
        # A tunnel that an arrow is drawn through leads to its end: that is a connection.
        for kind in ("DEPENDS_ON", "ROUTES_TO", "RUNS"):
            if words & verbs()[f"{kind}>"]:
                kinds.append((kind, "label"))
        if len(kinds) > 1:
            kinds = kinds[1:]
        for start in left[:5]:
            for end in right[:5]:
                # What a public name leads to is told by a route; and "old → new" connects to nothing.
                changed = start.text.partition(":")[0].lower() == end.text.partition(":")[0].lower()
                if (
                    changed
                    or start.by == "host"
                    or any(
                        is_generic(t.text)
                        or is_setting(t.text.partition(" (")[0])
                        or t.by in ("url", "code like", "clause")
                        or t.text.lower().split()[-1] in _OTHER_LABELS
                        for t in (start, end)
                    )
                ):
                    continue
                for kind, why in kinds:
                    made = Candidate(kind, start, end)
                    one, other = about(start, "1", vocabulary), about(end, "2", vocabulary)
                    made.features = [
                        *shared,
                        kind,
                        f"{kind} {why}",
                        why,
                        *(f"fence {f}" if segment.fence is not None else f"text {f}" for f in (*one, *other)),
                        *one,
                        *other,
                        f"sign {(arrow['right'] or arrow['left'] or arrow['both'] or '').strip()[:1]}",
                        *(f"label {stem(w)}" for w in sorted(words)[:3]),
                        *(["left"] if arrow["left"] else []),
                        *(["both"] if arrow["both"] else []),
                        f"lists {min(len(left), 2)} {min(len(right), 2)}",
                        *sorts(kind, start, end, plain, plain),
                    ]
                    if k == 0:
                        made.features.append("first pair")
                        lead = (
                            re.findall(r"[a-z]+", plain[: start.start].lower())
                            if drawn is None or start.by != "node"
                            else []
                        )
                        made.features += [f"lead {stem(w)}" for w in lead[-2:]]
                        made.features.append("lead" if lead else "no lead")
                    known = sum(1 for t in (start, end) if vocabulary.counts.get(t.text.lower(), 0) > 1)
                    made.features.append(f"known {known}")
                    made.features.append(
                        f"systems {sum(1 for t in (start, end) if t.text.lower() in vocabulary.systems)}"
                    )
                    made.features.append(
                        f"ordinary {sum(1 for t in (start, end) if is_ordinary_name(t.text))}"
                    )
                    if _alike(start.text, end.text):
                        made.features.append("alike")
                    whole = (segment.text.start, segment.text.end)
                    made.start_place = (
                        text.place(start.start, start.end)
                        if start.by != "node" and start.end > start.start
                        else whole
                    )
                    made.end_place = (
                        text.place(end.start, end.end) if end.by != "node" and end.end > end.start else whole
                    )
                    yield made


def _of_dependencies(segment: Segment) -> bool:
    """Whether a diagram is said to show dependencies: if in an order, its arrows may lead to what comes
    after, else to what is needed, as in UML."""
    above = " ".join((*segment.headings[-1:], segment.intro)).lower()
    return not {"dependency", "dependencies"}.isdisjoint(re.findall(r"[a-z]+", above))


#: What a name says that it is of the graph model, and no service: "Ping Endpoint".
_OTHER_LABELS = frozenset(label.lower() for label in ("Endpoint", "Network", "Image", "Document", "IP"))
#: Labels of arrows that say that nothing goes there.
_NONE = frozenset(
    ["blocked", "denied", "deny", "drop", "dropped", "never", "no", "not", "rejected", "forbidden"]
)
#: Participles of what is connected to or routed to.
_PASSIVE = frozenset(w for w in verbs()["CONNECTS_TO<"] | verbs()["ROUTES_TO<"] if w.endswith("ed"))
_SAID = frozenset(w for said in verbs().values() for w in said if len(w) > 3)
_SAID_STEMS = frozenset(map(stem, _SAID))


def _alike(one: str, other: str) -> bool:
    """Whether two ends look like states of one thing: "old → new", versions, paths."""
    a, b = (re.split(r"[^a-z0-9]+", t.lower()) for t in (one, other))
    return a[0] == b[0] or (one[:1].isdigit() and other[:1].isdigit())


def _ends(
    text: Text,
    start: int,
    end: int,
    before: bool,
    behind: bool,
    drawn: Diagram | None,
    vocabulary: Vocabulary,
) -> tuple[list[Thing], list[Thing]]:
    """What of a part touches the arrow before it, and what the arrow behind it."""
    plain = text.plain
    part = plain[start:end]
    if drawn is not None and (drawn.labels or drawn.unnamed):
        inside = [n["id"] for n in _NODE.finditer(part)] if drawn.nodes else []
        known = drawn.labels.keys() | drawn.unnamed
        ids = inside or [w for w in re.split(r"[\s&;]+", part.partition(":")[0]) if w in known]
        if ids:
            named = (i for i in ids if i in drawn.labels and i not in drawn.unnamed)
            nodes = [_placed(drawn.labels[i], text, start, end, i) for i in named]
            return nodes, nodes
    if drawn is not None:
        bounds = [(m.start(), m.end()) for m in _BOX.finditer(part)]
        clean = list(part)
        for a, b in bounds:
            if not (b - a == 1 and part[a] in "+|" and 0 < a < len(part) - 1 and part[a - 1].isalnum()):
                clean[a:b] = " " * (b - a)
        part = "".join(clean)
    return (
        _touching(text, part, start, True, vocabulary) if before else [],
        _touching(text, part, start, False, vocabulary) if behind else [],
    )


def _placed(label: Thing, text: Text, start: int, end: int, node: str) -> Thing:
    at = text.plain.find(label.text, start, end)
    if at < 0:
        at = text.plain.find(node, start, end)
        return (
            Thing(at, at + len(node), label.text, "name", "node")
            if at >= 0
            else Thing(start, start, label.text, "name", "node")
        )
    return Thing(at, at + len(label.text), label.text, "name", "node")


def _touching(text: Text, part: str, offset: int, at_start: bool, vocabulary: Vocabulary) -> list[Thing]:
    """The names that begin (or end) a part, in a list joined by commas, slashes and "and"."""
    if at_start:
        lead = len(part) - len(part.lstrip(" \t`*\"'·✅("))
        cut = _BEHIND.search(part, lead + 1) if lead < len(part) else None
        chunk_start, chunk_end = lead, len(part)
        if cut:
            chunk_end = cut.start()
            # A list goes on behind a comma, as in "Prometheus, Loki and Tempo".
    else:
        stripped = _BRACKETS.sub("", part)
        chunk_end = len(stripped.rstrip(" \t`*\"'·:"))
        chunk_start = 0
        for lead_in in _BEFORE.finditer(part, 0, chunk_end):
            if lead_in.end() < chunk_end:
                chunk_start = lead_in.end()
    chunk = part[chunk_start:chunk_end]
    told = _QUALIFIED.match(part, chunk_end)
    if told and is_generic(chunk.strip(" `*")):
        # "API (Go)": what any system has is told apart by what stands in brackets.
        chunk_end = told.end()
        chunk = part[chunk_start:chunk_end]
    if not chunk.strip() or len(chunk) > 80 or _PATH.search(chunk) is not None:
        return []
    if any(a < offset + chunk_start < b or a < offset + chunk_end < b for a, b, _ in text.marks):
        return []  # A piece of what is marked as one.
    found: list[Thing] = []
    at = 0
    for piece in [*_JOIN.finditer(chunk), None]:
        stop = piece.start() if piece else len(chunk)
        said = chunk[at:stop]
        begin = offset + chunk_start + at + len(said) - len(said.lstrip(" `*\"'[("))
        said = said.strip(" `*\"'[]()·.")
        said += ")" if "(" in said and ")" not in said else ""
        if said and any(c.isalpha() for c in said) and "  " not in said:
            found.append(_end(text, begin, said, vocabulary))
        at = piece.end() if piece else stop
    if any(t.by == "phrase" and t.text.count(" ") > 3 for t in found):
        return []
    return found


def _end(text: Text, begin: int, said: str, vocabulary: Vocabulary) -> Thing:
    marked = next((m[2] for m in text.marks if m[0] <= begin < m[1]), "")
    here = Text(said, 0, len(said))
    kinds = addresses(here)
    if kinds and kinds[0].end - kinds[0].start >= len(said) - 1:
        return Thing(begin, begin + len(said), said, "name", kinds[0].kind)
    inside = names(here, kinds, vocabulary)
    if marked:
        by = marked
    elif inside and inside[0].start == 0 and inside[0].end >= len(said) - 1:
        by = inside[0].by
    elif said[:1].isupper():
        by = "capitalised"
    elif " " in said:
        by = "phrase"
    else:
        by = "word"
    if re.search(r"[/\\=$<>{}]", said) or said.endswith("()"):
        by = "code like"
    elif _is_clause(said):
        by = "clause"
    return Thing(begin, begin + len(said), said, "name", by)


def _is_clause(said: str) -> bool:
    """Whether words are no name, since one of them is a verb that tells what somebody does or is to do: "Flux
    watches the repository", "deploy the store"."""
    first, *others = said.split()
    if others and first.islower() and first in roles()["leading"] - roles()["article"]:
        return True  # "then search the logs"
    if others and begins_order(first) and (first.islower() or others[0].islower()):
        return True
    return any(word.islower() and word.endswith(("s", "ed")) and word in _SAID for word in (first, *others))


def _definitions(segment: Segment, vocabulary: Vocabulary) -> Iterator[Candidate]:
    """What the label of a node says of it: image, ports, address."""
    text = segment.text
    for node in _NODE.finditer(text.plain):
        group = next((g for g in ("at", "quoted", "label") if node[g]), None)
        if group is None or _is_content(node):
            continue
        label = node[group]
        subject = _label(label)
        at = text.plain.find(subject.text, node.start(group))
        if at < 0 or not subject.text:
            continue
        subject = Thing(at, at + len(subject.text), subject.text, "name", "node")
        from_, to = node.span(group)
        shown = re.sub(r"<[^<>]*>|\\n", lambda m: " " * len(m[0]), text.plain[from_:to])
        rest = Text(shown, 0, to - from_)
        listed = _JOIN.split(subject.text)
        if is_setting(subject.text) or (len(listed) > 1 and all(map(is_generic, listed))):
            continue  # A path, "HTTP/HTTPS".
        for thing in addresses(rest):
            if from_ + thing.start < subject.end and subject.start < from_ + thing.end:
                continue
            if thing.kind == "image" and thing.by == "path":
                continue  # "100 req/min"
            for kind in {
                "port": ("BINDS",),
                "hostport": ("BINDS",),
                "url": ("EXPOSES_ENDPOINT",),
                "ip": ("RESOLVES_TO",),
                "image": ("BUILDS",),
                "host": ("EXPOSES_ENDPOINT",),
            }.get(thing.kind, ()):
                if kind == "EXPOSES_ENDPOINT" and thing.placeholder:
                    continue
                made = Candidate(kind, subject, thing)
                if kind == "BINDS":
                    if thing.port is None:
                        continue
                    made.port, made.protocol, made.target = thing.port, thing.protocol, thing.target
                    if thing.kind == "port" or thing.placeholder:
                        made.end = None
                own = thing.start + from_, thing.end + from_
                made.features = [
                    "form arrow",
                    "defined",
                    f"defined {kind}",
                    f"defined {thing.kind} {thing.by}",
                    *flags(segment, ""),
                    f"{kind} {'own line' if _LINES.search(label) else 'one line'}",
                    *(f"defined {f}" for f in about(subject, "1", vocabulary)),
                ]
                made.start_place = text.place(subject.start, subject.end)
                made.end_place = text.place(*own)
                yield made
