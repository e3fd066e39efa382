"""Which facts differ between two states: relations of the graph, values of configuration files, and the names
of variables that environment files set; and what is affected by services and networks that are gone or
changed.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import zip_longest

from taboot_pipelines.retrieval.check.sides import Side
from taboot_pipelines.retrieval.fact_changes import replaced
from taboot_pipelines.retrieval.queries.citations import listed
from taboot_pipelines.retrieval.queries.config_files import Value
from taboot_pipelines.retrieval.queries.dependencies import impact
from taboot_pipelines.retrieval.queries.house import Arguments
from taboot_pipelines.retrieval.queries.relations import ways
from taboot_pipelines.retrieval.queries.service_index import Edge, distinct
from taboot_pipelines.retrieval.results.check import ChangedFact, Consequence
from taboot_pipelines.retrieval.verbalization import said

#: What a relation is of its start.
_CALLED = {
    "BINDS": "port",
    "BUILDS": "image",
    "CONNECTS_TO": "connection",
    "DEPENDS_ON": "dependency",
    "EXPOSES_ENDPOINT": "endpoint",
    "RESOLVES_TO": "address",
    "ROUTES_TO": "route",
    "RUNS": "host",
    "RUNS_IN": "network",
    "USES_VPN": "tunnel",
}
#: Lists of a service in which no order counts.
_UNORDERED = frozenset(
    [
        *("args", "cap_add", "cap_drop", "configs", "depends_on", "devices", "environment", "expose"),
        *("extra_hosts", "labels", "networks", "ports", "profiles", "secrets", "sysctls", "tmpfs", "volumes"),
    ]
)
#: Relations whose change matters to those who need the service.
_FELT = ("BINDS", "BUILDS", "RUNS_IN")


class Facts:
    """What differs. ``gone`` and ``new``: the edges of one side alone; ``other``: pairs of one edge that says
    something else."""

    def __init__(self, before: Side, after: Side) -> None:
        self.before, self.after = before, after
        old, new = before.edges, after.edges
        self.gone = before.read(old.keys() - new.keys())
        self.new = after.read(new.keys() - old.keys())
        moved = [e for e in old.keys() & new.keys() if old[e][1] != new[e][1]]
        then = {e.edge_id: e for e in before.read(moved)}
        self.other = [(then[e.edge_id], e) for e in after.read(moved) if e.edge_id in then]
        #: Documents whose bytes are others, new or gone.
        self.documents = {
            doc_id
            for doc_id in before.hashes.keys() | after.hashes.keys()
            if before.hashes.get(doc_id) != after.hashes.get(doc_id)
        }
        subjects = {
            e.edge_id: (e.type, side.node(e.start), e.doc_id)
            for side, edges in ((before, self.gone), (after, self.new))
            for e in edges
        }
        #: What is gone with what stands in its place.
        self.replaced = list(replaced(self.gone, self.new, lambda e: subjects[e.edge_id], lambda e: e.line))

    # --- in words -------------------------------------------------------------------------------------------

    @cached_property
    def listed(self) -> tuple[ChangedFact, ...]:
        """All facts that differ, in the order of their places, and last the variables by which they do."""
        found = [*self._files(), *self._services(), *self._relations()]
        # The value of a file that a relation stands for.
        told = {(f.file, f.line, f.kind) for f in found}
        found += [f for f in self._settings() if (f.file, f.line, f.kind) not in told]
        return (
            *sorted(set(found), key=lambda f: (f.file, f.line, f.subject, f.fact, f.kind)),
            *sorted(self.variables, key=lambda f: (f.file, f.fact, f.kind)),
        )

    def _files(self) -> Iterator[ChangedFact]:
        for doc_id in self.documents:
            was, now = doc_id in self.before.documents, doc_id in self.after.documents
            if not (was and now):
                kind, side = ("added", self.after) if now else ("removed", self.before)
                yield _fact(kind, side.file(doc_id), "file", "", "", side.file(doc_id), 0)
            elif self.before.hashes[doc_id][0] == self.after.hashes[doc_id][0]:
                file = self.after.file(doc_id)
                yield _fact("changed", file, "what its text does not show, such as a secret", "", "", file, 0)

    def _services(self) -> Iterator[ChangedFact]:
        sides = (("removed", self.before, self.after), ("added", self.after, self.before))
        for kind, side, other in sides:
            for key, service in side.services.items():
                if key not in other.services:
                    at = next(iter(side.house.declaration(service)), None)
                    place = (side.file(at.doc_id), at.line) if at is not None else ("", 0)
                    yield _fact(kind, side.called(service.number), "service", "", "", *place)

    def _relations(self) -> Iterator[ChangedFact]:
        pairs = [*self.other, *self.replaced]
        told = {e.edge_id for pair in self.replaced for e in pair}
        for old, new in pairs:
            subject, place = self.after.called(new.start), (self.after.file(new.doc_id), new.line)
            before, after = _said(self.before, old), _said(self.after, new)
            if before != after:
                yield _fact("changed", subject, _CALLED.get(new.type, new.type), before, after, *place)
        for kind, side, edges in (("removed", self.before, self.gone), ("added", self.after, self.new)):
            for edge in edges:
                # What a text says has not changed where its words only mean something else now.
                if edge.edge_id not in told and (edge.doc_id in self.documents or not edge.is_of_text):
                    value = _said(side, edge)
                    values = (value, "") if kind == "removed" else ("", value)
                    place = (side.file(edge.doc_id), edge.line)
                    yield _fact(
                        kind, side.called(edge.start), _CALLED.get(edge.type, edge.type), *values, *place
                    )

    def _settings(self) -> Iterator[ChangedFact]:
        for doc_id in sorted(self.documents & self.before.hashes.keys() & self.after.hashes.keys()):
            old, new = (_by_key(side, doc_id) for side in (self.before, self.after))
            owners = [{_owner(key, "")[0] for key in keys} for keys in (old, new)]
            for key in old.keys() | new.keys():
                was, now = old.get(key, {}), new.get(key, {})
                gone = [v for v in was if v not in now]
                come = [v for v in now if v not in was]
                # Of a list what left it or came to it; all of it where only the order is another.
                items = [v for v in gone if v not in _lists(was)], [v for v in come if v not in _lists(now)]
                gone, come = items if any(items) else (gone, come)
                # Of what is new or gone as a whole its relations tell.
                whole = not all(_owner(key, "")[0] in known for known in owners)
                if whole or (not gone and not come):
                    continue
                side, lines = (self.after, now) if come else (self.before, was)
                line = min(lines[v] for v in come or gone)
                kind = "changed" if gone and come else "added" if come else "removed"
                subject, fact = _owner(key, side.file(doc_id))
                yield _fact(kind, subject, fact, ", ".join(gone), ", ".join(come), side.file(doc_id), line)

    @cached_property
    def variables(self) -> list[ChangedFact]:
        """The variables that are set otherwise, each once: a file of them may be linked into many folders."""
        sides = [
            {
                files.told(path): state.variables[files.entry.source_id, path]
                for files in state.files
                for path in files.items
                if (files.entry.source_id, path) in state.variables
            }
            for state in (self.before.state, self.after.state)
        ]
        found: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
        for file in sides[0].keys() | sides[1].keys():
            was, now = (side.get(file, {}) for side in sides)
            for name in was.keys() | now.keys():
                if was.get(name) != now.get(name):
                    found[name, was.get(name), now.get(name)].append(file)
        return [
            _fact(
                "changed" if old and new else "added" if new else "removed",
                *("variables", name, "", ""),
                min(files, key=lambda f: (f.count("/"), f)),
                0,
            )
            for (name, old, new), files in found.items()
        ]

    # --- what is affected -----------------------------------------------------------------------------------

    def impact(self) -> list[Consequence]:
        """Who needed what is gone or changed and is still there."""
        found: dict[tuple[str, ...], Consequence] = {}
        led_on = self._led_on()
        for key, cause in self._causes().items():
            service = self.before.services[key]
            for row in impact(self.before.house, Arguments(services=(service,))):
                name, project, how = (str(row.cells[c]) for c in ("affected", "affected_project", "how"))
                if self._is_there(name, project) and (key, name, project) not in led_on:
                    place = self.before.file(row.cites[0].doc_id), row.cites[0].line
                    one = _consequence(cause, name, project, how, *place)
                    found.setdefault((cause, name, project, how), one)
        for one in (*self._off_networks(), *self._unreached(), *self._moved()):
            found.setdefault((one.cause, one.affected, one.project, one.how), one)
        return list(found.values())

    def _led_on(self) -> set[tuple[str, str, str]]:
        """The keys of services that are gone, with the name and project of each service whose relations to it
        all lead to a declared one in its place now: it was renamed, and they with it."""
        led: dict[tuple[str, str, str], bool] = {}
        instead = {old.edge_id: self.after.node(new.end)[1] for old, new in self.replaced}
        for edge in self.gone:
            service = self.before.index.services.get(self.before.owner(edge.start))
            key = self.before.node(edge.end)[1]
            if service is not None and key in self.before.services and key not in self.after.services:
                on = instead.get(edge.edge_id) in self.after.services
                of = (key, service.name, service.project)
                led[of] = led.get(of, True) and on
        return {of for of, on in led.items() if on}

    def _causes(self) -> dict[str, str]:
        """What services that were declared are gone or changed, by their keys, and how in words."""
        gone = {
            key: f"{self.before.called(s.number)} is gone"
            for key, s in self.before.services.items()
            if key not in self.after.services
        }
        felt: dict[str, list[str]] = defaultdict(list)
        told = {e.edge_id for pair in self.replaced for e in pair}
        pairs = [
            p for p in (*self.other, *self.replaced) if _said(self.before, p[0]) != _said(self.after, p[1])
        ]
        for edge in (*(new for _, new in pairs), *(e for e in self.gone if e.edge_id not in told)):
            side = self.before if edge in self.gone else self.after
            _, key = side.node(side.owner(edge.start))
            if edge.type in _FELT and key in self.after.services and key in self.before.services:
                felt[key].append(_CALLED[edge.type])
        changed = {
            key: f"{self.after.called(self.after.services[key].number)} changes its"
            f" {' and '.join(distinct(sorted(whats)))}"
            for key, whats in felt.items()
        }
        return changed | gone

    def _off_networks(self) -> Iterator[Consequence]:
        """Whose network is gone."""
        for edge in self.gone:
            service = self.before.index.services.get(self.before.owner(edge.start))
            is_gone = edge.type == "RUNS_IN" and self.before.node(edge.end) not in self.after.numbers
            if is_gone and service is not None and self._is_there(service.name, service.project):
                cause, file = f"{self.before.called(edge.end)} is gone", self.before.file(edge.doc_id)
                yield _consequence(cause, service.name, service.project, "was on it", file, edge.line)

    def _unreached(self) -> Iterator[Consequence]:
        """What a proxy led to by a route that is gone, as it is with its file."""
        told = {e.edge_id for pair in self.replaced for e in pair}
        gone: dict[tuple[int, int], list[Edge]] = defaultdict(list)
        for edge in self.gone:
            is_route = edge.type == "ROUTES_TO" and edge.edge_id not in told and not edge.is_of_text
            if is_route and not self.before.index.is_example(edge.doc_id):
                gone[edge.start, edge.end].append(edge)
        for (start, end), edges in gone.items():
            label, key = self.before.node(end)
            if label == "Service" and key in self.before.services.keys() - self.after.services.keys():
                continue
            service = self.before.index.services.get(end)
            names = (service.name, service.project) if service else (self.before.index.name(end), "")
            cause = f"{self.before.called(start)} leads there no more"
            how = f"was reached by {listed(ways(self.before.index, edges))}"
            yield _consequence(cause, *names, how, self.before.file(edges[0].doc_id), edges[0].line)

    def _moved(self) -> Iterator[Consequence]:
        """Services that mount something else at a place of their container than before."""
        for key, service in self.after.services.items():
            was, now = (_mounted(side, key) for side in (self.before, self.after))
            targets = sorted(t for t in was.keys() & now.keys() if was[t] != now[t])
            if targets:
                first = targets[0]
                more = f" and {len(targets) - 1} more" if targets[1:] else ""
                cause = f"{was[first]} is {now[first]} now{more}"
                how = f"would start with what lies there, at {listed(targets)}"
                place = next(
                    (
                        (self.after.file(e.document.doc_id), e.value.line)
                        for e in self.after.house.entries.of_service(service)
                        if e.value.path[e.lead] == "volumes" and first in e.value.value
                    ),
                    ("", 0),
                )
                yield _consequence(cause, service.name, service.project, how, *place)

    def _is_there(self, name: str, project: str) -> bool:
        """Whether a thing that was affected is there still; of what no file declares nothing is known."""
        was, now = (
            {(s.name, s.project) for s in side.services.values()} for side in (self.before, self.after)
        )
        return (name, project) in now or (name, project) not in was


def _fact(kind: str, subject: str, fact: str, before: str, after: str, file: str, line: int) -> ChangedFact:
    return ChangedFact(
        kind=kind, subject=subject, fact=fact, before=before, after=after, file=file, line=line
    )


def _consequence(cause: str, affected: str, project: str, how: str, file: str, line: int) -> Consequence:
    return Consequence(cause=cause, affected=affected, project=project, how=how, file=file, line=line)


def _said(side: Side, edge: Edge) -> str:
    """What an edge says of its start, in words."""
    # What it is the fact is called by.
    end = side.called(edge.end).removeprefix(f"{_CALLED.get(edge.type)} ")
    # A need without a condition has this one.
    own = {k: v for k, v in edge.properties.items() if (k, v) != ("condition", "service_started")}
    more = said(edge.type, own)
    if edge.type == "BINDS":
        return f"{more} on {side.called(edge.end)}"
    if edge.type == "BUILDS":
        name = str(side.index.properties(edge.end).get("reference") or side.index.name(edge.end))
        return f"{name} {more}".strip()
    return f"{end} {more}".strip()


def _mounted(side: Side, key: str) -> dict[str, str]:
    """{place in the container: what of its machine a service mounts there}, as far as that is known."""
    service = side.services.get(key)
    container = side.index.container_of.get(service.number) if service is not None else None
    mounts = side.index.properties(container).get("mounts") if container is not None else None
    parts = (mount.removesuffix(":ro").rpartition(":") for mount in mounts or ())
    return {target: source for source, _, target in parts if source not in ("", "?")}


def _by_key(side: Side, doc_id: str) -> dict[str, dict[str, int]]:
    """{key: {value: line}} of a file; what a Compose file may write in several forms in one of them."""
    found: dict[str, dict[str, int]] = {}
    values = side.values(doc_id)
    # A unit's settings have the keys of Compose and forms of their own.
    is_compose = not (doc_id in side.documents and side.documents[doc_id].is_unit)
    for value, after in zip_longest(values, values[1:]):
        key, text = value.key, value.value.strip()
        if is_compose and value.path[0] == "services" and len(value.path) > 2:
            own = value.path[2:]
            if own[-1] in _UNORDERED and after is not None and _holds(value, after):
                continue  # its items tell all of it
            plain, text = _in_one_form(own, text)
            if plain is None:
                # Of these relations tell; the service is there by them too.
                found.setdefault(f"services.{value.path[1]}.", {})
                continue
            key = ".".join((*value.path[:2], *plain))
        found.setdefault(key, {}).setdefault("(a secret)" if value.secret else text, value.line)
    return found


def _holds(whole: Value, part: Value) -> bool:
    """Whether a value is that of a list, and the other the first of its items."""
    within = whole.start <= part.start and part.end <= whole.end
    return within and part.path[: len(whole.path)] == whole.path and whole.value != part.value


def _in_one_form(key: tuple[str, ...], text: str) -> tuple[tuple[str, ...] | None, str]:
    """A setting of a service of Compose as its other forms say it, too (Compose Specification, "services"):
    None of what a service is on or needs."""
    match key:
        case ("networks",) | ("depends_on",) | ("depends_on", _, "condition"):
            return None, text
        case ("build",):
            return ("build", "context"), text
        case ("env_file", "path") | (("secrets" | "configs"), "source"):
            return key[:1], text
        case ("extra_hosts",):
            host, _, address = text.replace("=", ":", 1).partition(":")
            return (*key, host), address
        case ("ports",):
            return key, text.removesuffix("/tcp")
        case ("command",) | ("entrypoint",) | ("healthcheck", "test"):
            with suppress(ValueError):
                return key, " ".join(shlex.split(text.removeprefix("CMD-SHELL ")))
    return key, text


def _lists(values: Mapping[str, int]) -> set[str]:
    """Those of the values of a key that stand for all others, as a list does for its items."""
    return {
        v
        for v in values
        for rest in [[o for o in values if o != v]]
        if v in (", ".join(rest), " ".join(rest))
    }


def _owner(key: str, file: str) -> tuple[str, str]:
    """Of what a key of a file is: of a service of Compose, else of the file; and its name there."""
    first, _, rest = key.partition(".")
    service, dot, own = rest.partition(".")
    return (f"service {service}", own) if first == "services" and dot else (file, key)
