"""What a change breaks: what is wrong in the state after it and was not in the one before."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePosixPath

from taboot_pipelines.knowledge.drift.facts import Authority, Drift, DriftKind
from taboot_pipelines.model.records import Problem
from taboot_pipelines.model.rules import Severity
from taboot_pipelines.retrieval.check.facts import Facts
from taboot_pipelines.retrieval.check.sides import Side
from taboot_pipelines.retrieval.check.states import folders_of
from taboot_pipelines.retrieval.queries.citations import listed, plural
from taboot_pipelines.retrieval.queries.config_files import Value
from taboot_pipelines.retrieval.queries.house import Arguments, Row
from taboot_pipelines.retrieval.queries.logins import address_of, askers, login, middleware, parts_of
from taboot_pipelines.retrieval.queries.relations import networks_of, way_of
from taboot_pipelines.retrieval.queries.service_index import Document, Edge, Service
from taboot_pipelines.retrieval.queries.services import unpinned_images
from taboot_pipelines.retrieval.results.check import CheckProblem
from taboot_pipelines.retrieval.rules.catalog import RULES as RULES_OF_THE_HOUSE
from taboot_pipelines.retrieval.rules.catalog import Rule
from taboot_pipelines.retrieval.rules.declarations import Violation
from taboot_pipelines.retrieval.rules.run import silence_of

#: Rules of the house for what is looked for here by another name.
_TOLD = ("port-taken-twice", "dangling-route", "route-to-wrong-port", "needs-the-undeclared")
#: Rules of the house by whose breach what was there loses a function or a protection that it had. Of what is
#: new there, or was so before, they say nothing here: a house may live with it.
_LOST = (
    *("healthy-without-check", "no-restart-policy", "unit-without-restart", "alert-on-unknown-job"),
    *("volume-without-backup", "privileged", "container-socket", "strong-capability", "host-namespace"),
    *("confinement-off", "system-mounted", "route-without-login", "login-passed-by", "store-published"),
    *("route-without-tls", "tls-not-verified"),
)
#: The rules of the house that cannot be broken on purpose, and those.
_BROKEN = [
    rule
    for rule in RULES_OF_THE_HOUSE.values()
    if (rule.severity is Severity.ERROR and rule.name not in _TOLD) or rule.name in (*_LOST, "route-twice")
]
#: Every rule, and what it says.
RULES: Mapping[str, str] = {
    "unreadable": "A file cannot be read as what it is, so that nothing of it is compared.",
    "port_taken": "A port of a machine is published by two services.",
    "route_port": "A proxy leads to a port that its target does not listen on.",
    "upstream_gone": "A proxy leads to something that is not there.",
    "dependency_gone": "A service needs, or connects to, something that is not there.",
    "connection_port": "A service asks another for a port on which it does not listen.",
    "name_unreachable": "A service or a proxy asks for another that no network of its own reaches.",
    "login_gone": "The middleware or the service that checks a route's login is not there.",
    "network_gone": "A network is used that is not there.",
    "volume_gone": "A volume is used that is not declared.",
    "file_gone": "A file or folder is named or mounted that is not there.",
    "variable_undefined": "A variable is used that has no value.",
    "image_unpinned": "An image names no version, or only `latest`.",
    "document_contradicted": "A document says something else than the configuration.",
    **{rule.name: rule.summary for rule in _BROKEN},
}
_DRIFTS = {
    DriftKind.PORT_TWICE: "port_taken",
    DriftKind.ROUTE_PORT: "route_port",
    DriftKind.MISSING_UPSTREAM: "upstream_gone",
    DriftKind.UNREACHABLE_NAME: "name_unreachable",
}
#: What readers say leads nowhere, by the words that tell what it is; what none of them tells is a file.
_NOT_FOUND = (
    (" is not in the file", "upstream_gone"),
    ("the service", "dependency_gone"),
    ("the network", "network_gone"),
    ("the volume", "volume_gone"),
)
#: What a reader says of a file of which it makes nothing, as the file or the source has it.
_NOTHING_READ = frozenset({"E_EMPTY", "E_LANGUAGE"})
#: So many names a note has.
_MAX_NAMES = 8
#: What is said of a file that is not as its format has it, or whose bytes are not to be had.
_UNREAD = frozenset({"E_CYCLE", "E_ENCODING", "E_FORBIDDEN", "E_INTERNAL", "E_PARSE", "E_UNREADABLE"})
_LEADING = ("CONNECTS_TO", "DEPENDS_ON", "ROUTES_TO", "USES_VPN")
#: Of these what leads somewhere by a name or a port: it may end though what says it stands there still.
_BY_NAME = ("CONNECTS_TO", "ROUTES_TO")
#: How alike two names are of which one is likely misspelled (``difflib``: a letter of seven is another).
_ALIKE = 0.85
#: A path that says of itself that it begins at a folder.
_RELATIVE = re.compile(r"\.\.?(?:/|$)")
_NUMBER = re.compile(r"\d+")
_POSITION = re.compile(r", line (\d+)(?:, column \d+)?")
#: A number, a version, a name or a key as texts hold it.
_WORD = re.compile(r"\w+(?:[.-]\w+)*")
#: What may be the name of a host in a value (RFC 1123), or a part of its user, port or path.
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?")


def problems(before: Side, after: Side, facts: Facts) -> list[CheckProblem]:
    """The problems that a change causes, by rule and place; each place once for a rule."""
    found: dict[tuple[str, str, int], CheckProblem] = {}
    for problem in (
        *_readings(before, after),
        *_drifts(before, after),
        *_led_nowhere(before, after, facts),
        *_asked_elsewhere(before, after, facts),
        *_moved_away(before, after, facts),
        *_logins(before, after),
        *_networks(before, after, facts),
        *_unrouted(before, after, facts),
        *_unpinned(before, after, facts),
        *_documents(before, after, facts),
        *_files(before, after),
        *_broken(before, after),
    ):
        found.setdefault((problem.rule, problem.file, problem.line), problem)
    return sorted(found.values(), key=lambda p: (list(RULES).index(p.rule), p.file, p.line))


def _problem(rule: str, statement: str, side: Side, doc_id: str, line: int) -> CheckProblem:
    return CheckProblem(rule=rule, statement=statement, file=side.file(doc_id), line=line)


# --- what its readers say of a file


def _readings(before: Side, after: Side) -> Iterator[CheckProblem]:
    """What cannot be read, leads to nothing or has no value; of equal ones those beyond what there was, but a
    file of which nothing is read whatever there was: what it would break nobody sees."""
    unread = {(s, p) for s, p in after.state.problems if p.code in _UNREAD and _is_blank(after, s, p.path)}
    same = _same(before, after) - unread
    known = Counter(key for key, _ in _keyed(before, before.state.problems - same))
    for key, line in _keyed(after, after.state.problems - same):
        source, path, code, said, where = key
        doc_id = after.index.by_path.get((source, path))
        rule, statement = "unreadable", said
        if known[key]:
            known[key] -= 1
            if code not in _UNREAD or not _is_blank(after, source, path):
                continue
            statement = f"{said} Nothing of it is compared: it could not be read before either."
        if code == "E_UNRESOLVED" or (code in _NOTHING_READ and not _configured(before, source, path)):
            continue
        if code == "E_UNSET":
            variable = _variable(said)
            if after.may_be_set_elsewhere(source, path, variable):
                continue
            rule, statement = "variable_undefined", f"{variable} is used, and nothing sets it."
            line = _first_use(after, doc_id, variable)
        elif code == "E_NOT_FOUND":
            rule = next((rule for words, rule in _NOT_FOUND if words in said), "file_gone")
            statement = f"{where}: {said}" if where else said
        root = after.state.view.manifest.sources[source].root or ""
        file = after.file(doc_id) if doc_id else f"{root}/{path}".removeprefix("/./").removeprefix("/")
        yield CheckProblem(rule=rule, statement=statement, file=file, line=line)


def _same(before: Side, after: Side) -> set[tuple[str, Problem]]:
    """The problems of both sides, but of files that changed: of these another may stand in an equal line."""

    def text_of(side: Side, source: str, path: str) -> tuple[str, str] | None:
        return side.hashes.get(side.index.by_path.get((source, path), ""))

    both = before.state.problems & after.state.problems
    return {(s, p) for s, p in both if text_of(before, s, p.path) == text_of(after, s, p.path)}


def _variable(said: str) -> str:
    return said.removesuffix(" has no value.")


def _configured(side: Side, source: str, path: str) -> bool:
    """Whether a file configured something: it holds values, or states what is so by more than its words."""
    doc_id = side.index.by_path.get((source, path))
    if doc_id is None:
        return False
    stated = side.read(side.edges.keys()) if doc_id in side.state.view.graph.stating else []
    return bool(side.values(doc_id)) or any(e.doc_id == doc_id and not e.is_of_text for e in stated)


def unknown(before: Side, after: Side, facts: Facts) -> Iterator[str]:
    """What of the state after a change is not known, and so is not compared: the variables that what changed
    uses and that only files may set which are not here, once; whether services share a machine that have now
    what only one on a machine can have; and what came that no reader can follow."""
    unset = {
        variable
        for source, p in after.state.problems
        if p.code == "E_UNSET"
        and after.may_be_set_elsewhere(source, p.path, variable := _variable(p.message))
        and any(_first_use(after, doc_id, variable) for doc_id in facts.documents & after.documents.keys())
    }
    if unset:
        names, have = sorted(unset), "have" if len(unset) > 1 else "has"
        yield (
            f"Not known: whether {plural(len(names), 'variable')} {have} a value, since the files are not"
            f" here that would set them: {listed(names[:_MAX_NAMES], len(names))}."
        )
    supposed = [rule for rule in _BROKEN if any(v.supposed for v in after.violations(rule))]
    for _, found in _newly_broken(before, after, supposed):
        if found.supposed:
            at = found.cites[0]
            yield f"Not known: whether {found.statement} It stands in {after.file(at.doc_id)}:{at.line}."
    same = _same(before, after)
    new = after.state.problems - same
    known = Counter(key for key, _ in _keyed(before, before.state.problems - same))
    open_: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, line in _keyed(after, {(s, p) for s, p in new if p.code == "E_UNRESOLVED"}):
        if known[key]:
            known[key] -= 1
            continue
        source, path, _, said, _ = key
        doc_id = after.index.by_path.get((source, path))
        open_[after.file(doc_id) if doc_id else path, said].append(str(line))
    for (file, said), lines in open_.items():
        where = f" in line {listed(lines)}" if lines != ["0"] else ""
        yield f"Not known: of {file}{where}: {said}"


def _is_blank(side: Side, source: str, path: str) -> bool:
    """Whether nothing is read of a file: it states no relation, and holds no value where its format is one
    that is refused as a whole. An example is not in force."""
    doc_id = side.index.by_path.get((source, path))
    if doc_id is None:
        return True
    if side.index.is_example(doc_id) or doc_id in side.state.view.graph.stating:
        return False
    return side.documents[doc_id].mime not in ("application/json", "application/yaml") or not side.values(
        doc_id
    )


_Key = tuple[str, str, str, str, str]


def _keyed(side: Side, found: Iterable[tuple[str, Problem]]) -> Iterator[tuple[_Key, int]]:
    """Problems of a side by what they say and of which value, wherever that stands, with the line."""
    for source, problem in sorted(found, key=lambda p: (p[0], p[1].path, p[1].message)):
        at = _POSITION.search(problem.message)
        line = int(at[1]) if at is not None else 0
        doc_id = side.index.by_path.get((source, problem.path), "")
        # A key without a value of its own is at the beginning of those of the next line.
        near = {v.line: v.path for v in reversed(side.values(doc_id)) if line and 0 <= v.line - line <= 1}
        path = near.get(line) or near.get(line + 1) or ()
        text = side.index.line_text(doc_id, line) if line else ""
        said = _POSITION.sub("", problem.message).removeprefix(f"{problem.path}: ")
        owner = f"service {path[1]}, " if len(path) > 2 and path[0] == "services" else ""
        shown = f"{owner}{path[2]}: `{text}`" if owner else f"`{text}`" if text else ""
        yield (source, problem.path, problem.code, said, shown), line


def _first_use(side: Side, doc_id: str | None, variable: str) -> int:
    text = side.index.text(doc_id or "")
    if variable not in text:
        return 0  # as nearly always
    use = re.compile(rf"\$\{{?{re.escape(variable)}(?![A-Za-z0-9_])")
    lines = text.split("\n")
    return next((n for n, line in enumerate(lines, 1) if use.search(line)), 0)


# --- what contradicts


def _drifts(before: Side, after: Side) -> Iterator[CheckProblem]:
    """What the edges of two files say that cannot both be so, or leads nowhere."""
    known = _sides(before.drifts.by_edges(before.state.view))
    for drift in after.drifts.by_edges(after.state.view):
        if drift.record or not _is_new(drift, known):
            continue
        if drift.kind is DriftKind.PORT_TWICE and _is_renamed(drift, known, before):
            continue
        rule = _DRIFTS.get(drift.kind, "document_contradicted")
        # Told where the side stands that is new, and of several that came, but of a document there.
        held = known.get((drift.kind.value, drift.label, drift.key), frozenset())
        news = [s for s in drift.sides if s.says not in held and rule != "document_contradicted"]
        news.sort(key=lambda s: any(f.edge_id in before.edges for f in s.facts))
        place = (news or drift.sides)[0].places[0]
        yield _problem(rule, drift.statement, after, place.doc_id, place.line)


_Known = Mapping[tuple[str, str, str], frozenset[str]]


def _sides(drifts: Iterable[Drift]) -> _Known:
    """What the sides of drifts say, by their kind and node."""
    found: dict[tuple[str, str, str], frozenset[str]] = {}
    for drift in drifts:
        key = drift.kind.value, drift.label, drift.key
        found[key] = found.get(key, frozenset()) | {s.says for s in drift.sides}
    return found


def _is_new(drift: Drift, known: _Known) -> bool:
    """Whether a drift is more than what is left of one that there was."""
    held = known.get((drift.kind.value, drift.label, drift.key), frozenset())
    return not {s.says for s in drift.sides} <= held


def _is_renamed(drift: Drift, known: _Known, before: Side) -> bool:
    """Whether all that is new of a port that was taken twice is what its services are called now."""
    held = known.get((drift.kind.value, drift.label, drift.key), frozenset())
    news = [s for s in drift.sides if s.says not in held]
    lost = held - {s.says for s in drift.sides}
    return len(news) <= len(lost) and all(f.start_key not in before.services for s in news for f in s.facts)


def _documents(before: Side, after: Side, facts: Facts) -> Iterator[CheckProblem]:
    """The values of texts that configuration has others for: of texts that changed, and of those that hold a
    value that was taken away."""
    old: set[str] = set()
    for fact in facts.listed:
        if fact.kind == "changed":
            old |= set(_WORD.findall(fact.before)) - set(_WORD.findall(fact.after))
    house = {i for i, d in after.drifts.documents(after.state.view).items() if d.standing is Authority.HOUSE}
    concerned = {
        doc_id
        for doc_id in house
        if doc_id in facts.documents or not old.isdisjoint(_WORD.findall(after.index.text(doc_id)))
    }
    if not concerned:
        return
    drifts = after.drifts.of_documents(after.state.view, concerned)
    news = [d for d in drifts if not d.record and d.kind not in _DRIFTS]
    where = {d.sides[0].places[0].doc_id for d in news} & before.hashes.keys()
    known = _sides(before.drifts.of_documents(before.state.view, where)) if where else {}
    for drift in news:
        if _is_new(drift, known):
            place = drift.sides[0].places[0]
            yield _problem("document_contradicted", drift.statement, after, place.doc_id, place.line)


# --- what leads to something that is gone


def _led_nowhere(before: Side, after: Side, facts: Facts) -> Iterator[CheckProblem]:
    """Relations to a service that was declared and is no more; and relations that are gone though what says
    so stands there still, since it leads to nothing any more."""
    gone = before.services.keys() - after.services.keys()
    lost = {after.index.key(n): n for n in after.index.services if after.index.key(n) in gone}
    for number in lost.values():
        for edge in after.index.into(number, *_LEADING):
            yield _nowhere(after, edge, "which is gone")
    for old, new in facts.replaced:
        label, key = after.node(new.end)
        led = before.node(old.end)[1] in before.services
        if new.type in _LEADING and led and label == "Service" and key not in after.services:
            yield _nowhere(after, new, "which nothing declares")
    told = {old.edge_id for old, _ in facts.replaced}
    yield from _asked_by_no_name(before, after, facts, told)
    yield from _misspelled(after, facts, {new.edge_id for _, new in facts.replaced})
    for edge in facts.gone:
        start, key = before.node(edge.start), before.node(edge.end)[1]
        leads = edge.type in _BY_NAME and edge.edge_id not in told and not edge.is_of_text
        if not leads or key not in before.services or start not in after.numbers or start[1] in gone:
            continue
        line = 0 if before.index.is_example(edge.doc_id) else _still(before, after, edge)
        if line:
            why = "which is gone" if key in gone else "which it does not reach any more"
            statement = f"{before.called(edge.start)} {_DOES[edge.type]} {before.called(edge.end)}, {why}."
            yield _problem(_rule(edge), statement, after, edge.doc_id, line)


def _misspelled(after: Side, facts: Facts, told: Collection[str]) -> Iterator[CheckProblem]:
    """Dependencies that came on what nothing declares, under nearly the name of what something does. Of
    others the machine may have a unit that no file shows."""
    names = {service.name for service in after.services.values()}
    for edge in facts.new:
        if edge.type != "DEPENDS_ON" or edge.is_of_text or edge.edge_id in told:
            continue
        label, key = after.node(edge.end)
        meant = get_close_matches(after.index.name(edge.end), names, 1, _ALIKE)
        if label == "Service" and key not in after.services and meant:
            yield _nowhere(after, edge, f"which nothing declares; {meant[0]} is declared")


def _asked_by_no_name(
    before: Side, after: Side, facts: Facts, told: Collection[str]
) -> Iterator[CheckProblem]:
    """Settings that named a service that was reached, and now name what no service is called.

    A name with a dot may be one of the world's.
    """
    for edge in facts.gone:
        start, end = before.node(edge.start), before.node(edge.end)
        leads = edge.type == "CONNECTS_TO" and edge.edge_id not in told and not edge.is_of_text
        if not leads or end[1] not in before.services or start not in after.numbers:
            continue
        held = {v.path: v.value for v in before.values(edge.doc_id) if v.line == edge.line and not v.secret}
        for value in after.values(edge.doc_id):
            old, new = (_NAME.findall(text) for text in (held.get(value.path, ""), value.value))
            if value.secret or len(old) != len(new):
                continue
            # The value is what it was but for one name, which led there.
            named = [b for a, b in zip(old, new, strict=True) if a != b]
            if len(named) == 1 and not named[0].isdecimal() and "." not in named[0]:
                statement = (
                    f"{after.called(after.numbers[start])} asks for {named[0]} in place of"
                    f" {before.called(edge.end)}, and no service that it reaches is called so."
                )
                yield _problem("dependency_gone", statement, after, edge.doc_id, value.line)


def _still(before: Side, after: Side, edge: Edge) -> int:
    """The line where what an edge says stands now, under the same key; 0 if it does not."""
    said = [v for v in before.values(edge.doc_id) if v.line == edge.line]
    if said:
        keys = {(v.path, v.value) for v in said}
        return next((v.line for v in after.values(edge.doc_id) if (v.path, v.value) in keys), 0)
    return after.line(edge.doc_id, before.index.line_text(edge.doc_id, edge.line))


_DOES = {
    "CONNECTS_TO": "connects to",
    "DEPENDS_ON": "depends on",
    "ROUTES_TO": "leads to",
    "USES_VPN": "uses the tunnel of",
}


def _rule(edge: Edge) -> str:
    return "upstream_gone" if edge.type == "ROUTES_TO" else "dependency_gone"


def _nowhere(side: Side, edge: Edge, why: str) -> CheckProblem:
    statement = f"{side.called(edge.start)} {_DOES[edge.type]} {side.called(edge.end)}, {why}."
    return _problem(_rule(edge), statement, side, edge.doc_id, edge.line)


def _asked_elsewhere(before: Side, after: Side, facts: Facts) -> Iterator[CheckProblem]:
    """Settings that asked a service by its name for a port of its container, and ask for one now that it does
    not have: only what its machine publishes is another, or nothing is."""
    for old, new in (*facts.other, *facts.replaced):
        if new.type != "CONNECTS_TO" or new.is_of_text or before.node(old.end) != after.node(new.end):
            continue
        service = after.services.get(after.node(new.end)[1])
        was, now = old.properties.get("port"), new.properties.get("port")
        if service is None or was == now or was is None or now is None:
            continue
        names = {service.name, service.properties.get("containerName")}
        words = {w for v in after.values(new.doc_id) if v.line == new.line for w in _NAME.findall(v.value)}
        inside = _inside(after, service)
        if names & words and was in inside and was in _inside(before, service) and now not in inside:
            called = after.called(service.number)
            statement = (
                f"{after.called(new.start)} asks {called} for port {now}, and for {was} before, on which it"
                f" listens: that it listens on {now} nothing says."
            )
            yield _problem("connection_port", statement, after, new.doc_id, new.line)


def _inside(side: Side, service: Service) -> set[object]:
    """The ports of a service's container that anything declares or leads to but what connects to it."""
    index = side.index
    found = {e.properties.get("targetPort") or e.properties.get("port") for e in _bound(side, service)}
    found |= {json.loads(index.key(e.end))[2] for e in index.out(service.number, "EXPOSES_ENDPOINT")}
    return found | {e.properties.get("port") for e in index.into(service.number, "ROUTES_TO")}


def _bound(side: Side, service: Service) -> list[Edge]:
    return [e for e in side.index.out(service.number, "BINDS") if e.properties.get("protocol") == "tcp"]


def _moved_away(before: Side, after: Side, facts: Facts) -> Iterator[CheckProblem]:
    """Routes to a port of a machine that one service published there, which has moved it, and no other has it
    now. Which service is meant, the machine of its source tells, or the name that is asked for."""
    moved = {
        e.properties.get("port"): key
        for e in (*facts.gone, *(old for old, _ in facts.other))
        for key in [before.node(e.start)[1]]
        if e.type == "BINDS" and e.properties.get("protocol") == "tcp" and not e.is_of_text
        if key in after.services and _bound(after, after.services[key])
    }
    if not moved:
        return
    published = [
        {(key, e.properties.get("port")) for key, s in side.services.items() for e in _bound(side, s)}
        for side in (before, after)
    ]
    for edge in after.index.of_type("ROUTES_TO"):
        (label, end), port = after.node(edge.end), edge.properties.get("port")
        if end in after.services or edge.edge_id not in before.edges or edge.is_of_text:
            continue
        # The bare name of a machine is taken for a service that nothing declares.
        host = json.loads(end)[1] if label == "Endpoint" else after.index.name(edge.end)
        key = moved.get(port)
        if key is None or {k for k, p in published[0] if p == port} != {key}:
            continue
        service = after.services[key]
        asked = str(edge.properties.get("host") or "").partition(".")[0].lower()
        names = {str(n).lower() for n in (service.name, service.properties.get("containerName"))}
        if (host == service.place or asked in names) and not any(p == port for _, p in published[1]):
            now = listed([str(p) for k, p in sorted(published[1], key=str) if k == key])
            statement = (
                f"{after.called(edge.start)} leads {way_of(after.index, edge)} to {host}:{port}, which"
                f" {after.called(service.number)} published: it publishes {now} now, and nothing {port}."
            )
            yield _problem("upstream_gone", statement, after, edge.doc_id, edge.line)


def _logins(before: Side, after: Side) -> Iterator[CheckProblem]:
    """Routes that name a middleware that was declared and is no more, or one that nothing declares in place
    of one; and logins that a service checked which is gone, or does not listen where it is asked."""
    routes = {e.edge_id: e for e in after.index.of_type("ROUTES_TO") if not after.index.is_example(e.doc_id)}
    lost: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    asking: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for old in before.index.of_type("ROUTES_TO"):
        new = routes.get(old.edge_id)
        if new is None or new.is_of_text:
            continue
        was, now = login(before.house, old), login(after.house, new)
        names = _middlewares(before, old) - _middlewares(after, new)
        for name in now.missing:
            bare = name.partition("@")[0].lower()
            if name in was.missing:
                continue
            if middleware(before.house, old.doc_id, bare):
                lost[name, "which nothing declares any more"].append(new)
            elif replaced := sorted(names - set(was.missing)):
                lost[name, f"which nothing declares, in place of {listed(replaced)}"].append(new)
        for service in askers(before.house, old, was) if now.how else ():
            asking[before.index.key(service.number), now.by[0] if now.by else ""].append(new)
    for (name, why), edges in lost.items():
        router = after.house.router(edges[0])
        at = router.options.get("middlewares") if router is not None else None
        said = f"{_ways(after, edges)} {'names' if len(edges) == 1 else 'name'} the middleware {name}, {why}."
        line = at.value.line if at is not None else edges[0].line
        yield _problem("login_gone", said, after, edges[0].doc_id, line)
    for (key, name), edges in asking.items():
        yield from _unchecked(before, after, key, name, edges)


def _unchecked(
    before: Side, after: Side, key: str, name: str, edges: Sequence[Edge]
) -> Iterator[CheckProblem]:
    """What is wrong with the service that checked the logins of some routes, which ask still."""
    edge, service = edges[0], after.services.get(key)
    address = address_of(after.house, edge.doc_id, name)
    was = address_of(before.house, edge.doc_id, name)
    host, port = parts_of(address.value.value if address is not None else name)
    said = f"{_ways(after, edges)} {'asks' if len(edges) == 1 else 'ask'} for the login at "
    said += address.value.value if address is not None else name
    now = {after.index.key(s.number) for s in askers(after.house, edge, login(after.house, edge))}
    if not now:
        called = before.called(before.numbers["Service", key])
        if service is None:
            said += f", which led to {called}, which is gone."
        elif "." not in host:
            said += f", and no service is called so: it was {called}."
        else:
            return  # a name with a dot may be one of the world's
    elif service is not None and key in now and was is not None and host and port:
        asked = parts_of(was.value.value)[1]
        inside = _inside(after, service)
        if port in inside or asked not in inside or asked not in _inside(before, before.services[key]):
            return
        said += f", where {after.called(service.number)} does not listen: it was {asked}."
    else:
        return
    doc_id, line = (edge.doc_id, edge.line)
    if address is not None:
        doc_id, line = address.document.doc_id, address.value.line
    yield _problem("login_gone", said, after, doc_id, line)


def _ways(side: Side, edges: Sequence[Edge]) -> str:
    names = [way_of(side.index, e) for e in edges]
    return listed(names[:_MAX_NAMES], len(names))


def _middlewares(side: Side, route: Edge) -> set[str]:
    """The middlewares that a router of Traefik's names itself."""
    router = side.house.router(route)
    entry = router.options.get("middlewares") if router is not None else None
    return set(re.split(r"[,\s]+", entry.value.value)) if entry is not None else set()


def _networks(before: Side, after: Side, facts: Facts) -> Iterator[CheckProblem]:
    """Networks that one project used of another, or containers of a quadlet, which makes them no more."""
    left = {e.end for e in facts.gone if e.type == "RUNS_IN" and not e.properties.get("external")}
    # Of a network that nothing declares nobody says how it is driven.
    driven = {n for (label, _), n in before.numbers.items() if label == "Network" and _driver(before, n)}
    for network in sorted(left | driven):
        number = after.numbers.get(before.node(network))
        members = after.index.into(number, "RUNS_IN") if number is not None else []
        undriven = number is not None and network in driven and not _driver(after, number)
        if undriven or (network in left and all(e.properties.get("external") for e in members)):
            for edge in members:
                statement = f"{after.called(edge.start)} is on {after.called(edge.end)}, which nothing makes."
                yield _problem("network_gone", statement, after, edge.doc_id, edge.line)


def _unrouted(before: Side, after: Side, facts: Facts) -> Iterator[CheckProblem]:
    """Routes that lead to a container by its name, where proxy and container were on one network and no
    network has both any more. A route of an example counts where no other file has one to there."""
    left = {before.node(before.owner(e.start))[1] for e in facts.gone if e.type == "RUNS_IN"}
    routes: dict[tuple[int, int], list[Edge]] = defaultdict(list)
    for edge in after.index.of_type("ROUTES_TO") if left else ():
        if edge.edge_id in before.edges and not edge.is_of_text:
            routes[edge.start, edge.end].append(edge)
    for (start, end), edges in routes.items():
        name = after.index.name(start)
        ends = [
            key for key, s in after.services.items() if name in (s.name, s.properties.get("containerName"))
        ]
        ends.append(after.node(end)[1])
        if (
            len(ends) != 2
            or left.isdisjoint(ends)
            or not all(k in s.services for k in ends for s in (before, after))
        ):
            continue
        were, are = ([_meeting(side, key) for key in ends] for side in (before, after))
        lost = sorted(were[0].keys() & were[1].keys())
        # Of a container without a network of its own nobody knows which it has.
        if not lost or not all(are) or are[0].keys() & are[1].keys():
            continue
        joined = next(
            w[lost[0]] for w, a in zip(reversed(were), reversed(are), strict=True) if lost[0] not in a
        )
        network, at = before.called(joined.end), f"{before.file(joined.doc_id)}:{joined.line}"
        in_force = [e for e in edges if not after.index.is_example(e.doc_id)]
        for edge in in_force or edges:
            way = f"{way_of(after.index, edge)} to {after.called(end)}"
            said = f"{after.called(start)} leads {way}, and no network has both any more"
            yield _problem(
                "name_unreachable", f"{said}: it was {network} ({at}).", after, edge.doc_id, edge.line
            )


def _meeting(side: Side, key: str) -> dict[str, Edge]:
    """The networks on which a container is asked by its name, by their keys: not that of its machine."""
    joined = networks_of(side.index, side.services[key])
    return {side.node(e.end)[1]: e for e in joined if e.properties.get("networkMode") != "host"}


def _driver(side: Side, network: int) -> object:
    return side.index.properties(network).get("driver")


def _files(before: Side, after: Side) -> Iterator[CheckProblem]:
    """Files and folders that were there, are gone, and that configuration in force mounts or names still: by
    a path from its own folder, or by one inside of the container that mounts it."""
    gone = {path for path in before.paths - after.paths if not after.has(path)}
    names = {posixpath.basename(path) for path in gone}
    files = after.rules.files if gone else []
    mounts = [mount for document in files for mount in _mounts(after, document)]
    for mount in mounts:
        if mount.source in gone:
            said = f"service {mount.service} mounts {mount.written}, which is gone: Docker"
            said += " would put an empty directory in its place."
            yield _problem("file_gone", said, after, mount.doc_id, mount.line)
    for document in files:
        text, file = after.index.text(document.doc_id), posixpath.normpath(after.file(document.doc_id))
        folder = posixpath.dirname(file)
        # Who reads the file, and so by which paths it knows others.
        readers = {(m.doc_id, m.service) for m in mounts if m.source in (file, *folders_of(file))}
        for value in after.values(document.doc_id) if any(name in text for name in names) else ():
            own = {(document.doc_id, value.path[1])} if _is_of_service(value) else readers
            seen = [m for m in mounts if (m.doc_id, m.service) in own]
            # Of what a mount that is gone had in it nothing more is told.
            seen = [replace(m, source="") if m.source in gone else m for m in seen]
            for word in _words(value):
                path = _outside(word, seen) if word.startswith("/") else _beside(word, folder)
                if path in gone:
                    said = f"{value.key} names {word}, which is gone"
                    said += f": it was {path}." if word.startswith("/") else "."
                    yield _problem("file_gone", said, after, document.doc_id, value.line)


@dataclass(frozen=True, slots=True)
class _Mount:
    """What a service mounts. ``source``: its path from the folder that is checked, empty of what is no file
    or folder of the house; ``written``: as it stands there, ``target``: its path in the container."""

    doc_id: str
    line: int
    service: str
    written: str
    source: str
    target: str


def _mounts(side: Side, document: Document) -> Iterator[_Mount]:
    """What the services of a file mount, and where."""
    folder = posixpath.dirname(side.file(document.doc_id))
    for value in side.values(document.doc_id):
        written, _, rest = value.value.strip().partition(":")
        if _is_of_service(value) and value.path[2:] == ("volumes",) and rest:
            path = posixpath.normpath(posixpath.join(folder, written))
            source = path if _RELATIVE.match(written) else ""
            target = posixpath.normpath(rest.split(":")[0])
            yield _Mount(document.doc_id, value.line, value.path[1], written, source, target)


def _is_of_service(value: Value) -> bool:
    return len(value.path) > 2 and value.path[0] == "services"


def _words(value: Value) -> list[str]:
    """What in a value may be a path: of a command each of its words."""
    if _is_of_service(value) and value.path[2] == "volumes":
        return []
    text = value.value.strip()
    return text.split() if value.path[-1] in ("command", "entrypoint") else [text]


def _outside(path: str, mounts: Iterable[_Mount]) -> str:
    """What a path in a container is outside of it, by the mount that is nearest."""
    under = [m for m in mounts if f"{path}/".startswith(f"{m.target}/")]
    mount = max(under, key=lambda m: len(m.target), default=None)
    return (
        posixpath.normpath(mount.source + path.removeprefix(mount.target)) if mount and mount.source else ""
    )


def _beside(path: str, folder: str) -> str:
    """What a relative path means in a folder; empty for a mere word."""
    is_path = _RELATIVE.match(path) or PurePosixPath(path).suffix
    return posixpath.normpath(posixpath.join(folder, path)) if is_path else ""


def _broken(before: Side, after: Side) -> Iterator[CheckProblem]:
    """Rules of the house that held and do not any more."""
    for rule, found in _newly_broken(before, after, _BROKEN):
        if not found.supposed:
            # Of several places that one which came.
            came = (c for c in found.cites if c.edge_id and c.edge_id not in before.edges)
            at = next(came, found.cites[0])
            yield _problem(rule.name, f"{found.subject}: {found.statement}", after, at.doc_id, at.line)


def _newly_broken(before: Side, after: Side, rules: Iterable[Rule]) -> Iterator[tuple[Rule, Violation]]:
    """Where rules held and do not any more, and nobody silenced them; of what says the same in the same words
    of a file, such as under a new name, or of another port, what is more than there was."""
    for rule in rules:
        news = after.violations(rule)
        olds = before.violations(rule) if news else []
        known = {(v.subject, v.statement) for v in olds}
        moved = Counter(map(_but_for_numbers, olds)) - Counter(
            _but_for_numbers(v) for v in news if (v.subject, v.statement) in known
        )
        lines = Counter(_words_at(before, v) for v in olds) - Counter(
            _words_at(after, v) for v in news if (v.subject, v.statement) in known
        )
        for found in news:
            words = _words_at(after, found)
            if (found.subject, found.statement) in known or silence_of(after.house, rule.name, found):
                continue
            if rule.name in _LOST and not _stood(before, after, found):
                continue
            if lines[words]:
                lines[words] -= 1
                continue
            if moved[_but_for_numbers(found)]:
                moved[_but_for_numbers(found)] -= 1
                continue
            yield rule, found


def _but_for_numbers(found: Violation) -> tuple[str, str]:
    return found.subject, _NUMBER.sub("", found.statement)


def _stood(before: Side, after: Side, found: Violation) -> bool:
    """Whether what a finding is of was there before: the service, the file, the relation, else the line."""
    at = found.cites[0]
    if found.subject in {d.called for d in before.rules.declarations}:
        return True
    if getattr(at, "edge_id", ""):
        return at.edge_id in before.edges
    files = {document.path for document in before.documents.values()}
    return found.subject in files or before.line(at.doc_id, _words_at(after, found)[1]) > 0


def _words_at(side: Side, found: Violation) -> tuple[str, str]:
    at = found.cites[0]
    return at.doc_id, side.index.line_text(at.doc_id, at.line).strip()


def _unpinned(before: Side, after: Side, facts: Facts) -> Iterator[CheckProblem]:
    """Images that came without a version, as configuration says."""
    news = {e.edge_id: e.start for e in facts.new if e.type == "BUILDS" and not e.is_of_text}
    keys = {after.index.key(n) for n in news.values()}
    services = tuple(s for n, s in after.index.services.items() if n in news.values())
    were = tuple(s for n, s in before.index.services.items() if before.index.key(n) in keys)
    gone = tuple(s for key, s in before.services.items() if key not in after.services)
    known = {(r.cells["service"], r.cells["project"], r.cells["image"]) for r in _images(before, were)}
    # Under another name it is as it was.
    renamed = Counter((r.cells["project"], r.cells["image"]) for r in _images(before, gone))
    for row in _images(after, services):
        cells, at = row.cells, row.cites[0]
        if at.edge_id in news and (cells["service"], cells["project"], cells["image"]) not in known:
            if renamed[cells["project"], cells["image"]]:
                renamed[cells["project"], cells["image"]] -= 1
                continue
            called = f"service {cells['project']}/{cells['service']}"
            statement = f"{called} uses {cells['image']}, which names no version."
            yield _problem("image_unpinned", statement, after, at.doc_id, at.line)


def _images(side: Side, services: tuple[Service, ...]) -> list[Row]:
    return list(unpinned_images(side.house, Arguments(services=services))) if services else []
