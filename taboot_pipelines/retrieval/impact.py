"""What is affected by a thing: what fails without it, what only starts after it, what shares something with
it, and what cannot be known of that.

A service is asked about by the typed queries ``impact`` and ``sharers``; of a network, a host, an image, a
proxy, a volume or an address first what is on it, then what is affected by that.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from ipaddress import ip_address
from typing import NamedTuple

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.retrieval.queries import run
from taboot_pipelines.retrieval.queries.citations import listed, plural
from taboot_pipelines.retrieval.queries.config_files import ConfigEntry
from taboot_pipelines.retrieval.queries.dependencies import ASKS_LOGIN
from taboot_pipelines.retrieval.queries.house import Arguments, House
from taboot_pipelines.retrieval.queries.relations import (
    target_name_of,
    target_of,
    unexplained_mentions,
    way_of,
)
from taboot_pipelines.retrieval.queries.routes import way_of_row
from taboot_pipelines.retrieval.queries.service_index import ServiceIndex
from taboot_pipelines.retrieval.queries.settings import mounters
from taboot_pipelines.retrieval.results.impact import Affected, AffectedGroup, Impact
from taboot_pipelines.retrieval.results.queries import QueryResult, QueryRow, RowCitation

#: Kinds of things but services: the typed query that lists what is on one, the column that names it, and how.
_HELD: Mapping[str, tuple[str, str, str]] = {
    "network": ("networks", "service", "is on it"),
    "host": ("services", "service", "runs on it"),
    "proxy": ("routes", "target", "is reached through it"),
    "image": ("images", "service", "runs it"),
    "volume": ("mounters", "service", "mounts it"),
    "hostname": ("behind", "target", "stands behind it"),
    "project": ("services", "service", "is of it"),
}
_LABELS = ("Service", "Network", "Host", "ReverseProxy", "Image")
#: What may be asked about; of a name that several have the first of which something hangs.
KINDS = ("service", *_HELD)
#: Ways to be affected, in the order in which they are told.
_FAILING = ("needs it", "connects to it", "is reached through it", ASKS_LOGIN, "only starts after it")
_SHARED = ("host", "network", "volume", "image")
_NAMES = "is a name that leads to it"
_MOUNTED = "mounts a volume from it"
#: Of which what hangs on what is reached there does not hang.
_WAYS = ("proxy", "hostname")
#: The machine that a volume of Docker's driver ``local`` is mounted from, in its options (nfs(5)).
_FROM = re.compile(r"(?:^|,)addr=([^,]+)")
#: The same in its device, ``host:/path`` or ``//host/path`` (mount.cifs(8)), and the path there.
_DEVICE = re.compile(r"(?://([^/:]+)(?=/)|([^/:]*):)?(/.*)")
#: Fields of a declaration that name what a service needs.
_TELLING = (
    "depends_on",
    "links",
    "volumes_from",
    "network_mode",
    "networks",
    "environment",
    "command",
    "labels",
)
#: Texts that name a thing.
_MAX_NAMING = 10


class _Asked(NamedTuple):
    house: House
    project: str | None
    transitive: bool

    def query(self, name: str, **given: object) -> QueryResult:
        return run.run(self.house, run.named(name), given, run.MAX_ROWS)


def impact(
    house: House,
    thing: str,
    kind: str | None,
    project: str | None,
    transitive: bool,
) -> Impact:
    """See ``KnowledgeBase.impact``."""
    if kind not in (None, *KINDS):
        raise TabootError("E_QUERY", f"kind must be {', '.join(KINDS)}, not {str(kind)[:100]!r}.")
    asked = _Asked(house, project, transitive)
    address = _address(thing) if kind in (None, "host") else None
    if address is not None:
        machine = machine_of(house.index, _held(house, address))
        if machine is not None:
            thing, kind = house.index.name(machine), "host"
        elif (known_by := _of_address(asked, thing, address)) is not None:
            return known_by
    # What narrows to a project means a service. Of one that no file declares, first what else is called so.
    kinds = [kind] if kind is not None else KINDS if project is None else KINDS[:1]
    if len(kinds) > 1 and not _is_declared(house, thing):
        kinds = (*KINDS[1:], KINDS[0])
    found: Impact | None = None
    for one in kinds:
        try:
            told = _of_service(asked, thing) if one == "service" else _of_holder(asked, thing, one)
        except TabootError as error:
            if error.code != "E_NOT_FOUND" or len(kinds) == 1:
                raise
            continue
        if told.groups or told.projects:
            return told
        found = found or told
    if found is not None:
        return found
    known = (house.index.name(n) for label in _LABELS for n in house.index.of_label(label))
    raise TabootError("E_NOT_FOUND", f"Nothing named {thing[:100]!r} is known.{or_near(thing, set(known))}")


def machine_of(index: ServiceIndex, held: Set[int]) -> int | None:
    """The machine among what an address is of: of several names the one on which something runs."""
    machines = {n for n in held if index.into(n, "RUNS")} or held
    return min(machines) if len(machines) == 1 else None


def _address(thing: str) -> str | None:
    """An address as it is written shortest; None of what is none."""
    with contextlib.suppress(ValueError):
        return str(ip_address(thing))
    return None


def _nodes(house: House, label: str, name: str) -> tuple[int, ...]:
    with contextlib.suppress(TabootError):
        return house.nodes_named(label, name)
    return ()


def _held(house: House, address: str) -> set[int]:
    """What has an address: names that resolve to it, and a machine that is called by it."""
    of_names = {e.start for n in _nodes(house, "IP", address) for e in house.index.into(n, "RESOLVES_TO")}
    return of_names | set(_nodes(house, "Host", address))


def _of_address(asked: _Asked, thing: str, address: str) -> Impact | None:
    """Of an address of which it is not known whose it is: what publishes a port on it, what mounts volumes
    from it, and which routes lead there. None where nothing names it."""
    index, nodes = asked.house.index, _nodes(asked.house, "IP", address)
    bound = []
    for edge in (e for node in nodes for e in index.into(node, "BINDS")):
        service = index.services.get(index.service_of.get(edge.start, edge.start))
        name, project = (index.name(edge.start), "") if service is None else (service.name, service.project)
        at, told = str(edge.properties.get("port") or ""), run.citations(asked.house, [edge])
        bound.append(Affected(name=name, project=project, at=at, through="", citations=told))
    found = {"publishes a port on it": bound, **_from_afar(asked, {address})}
    if not nodes and not any(found.values()):
        return None
    naming = run.citations(asked.house, [e for n in nodes for e in index.mentions(n)][:_MAX_NAMING])
    return _made(asked, thing, "address", (), found, asked.query("addresses"), naming)


def _from_afar(asked: _Asked, machines: Set[str]) -> dict[str, list[Affected]]:
    """What mounts volumes from a machine by one of its names and addresses, and which routes lead there."""
    index = asked.house.index
    names = []
    for edge in index.of_type("ROUTES_TO"):
        if edge.end not in index.services and target_name_of(index, edge) in machines:
            at, told = target_of(index, edge), run.citations(asked.house, [edge])
            way, proxy = way_of(index, edge), index.name(edge.start)
            names.append(Affected(name=way, project="", at=at, through=proxy, citations=told))

    def is_there(options: Mapping[str, str]) -> bool:
        device = _DEVICE.fullmatch(options.get("device", ""))
        said = _FROM.search(options.get("o", ""))
        return not machines.isdisjoint({said and said[1], *(device.groups()[:2] if device else ())})

    return {_MOUNTED: _mounting(asked, is_there), _NAMES: names}


def _mounting(asked: _Asked, is_meant: Callable[[Mapping[str, str]], bool]) -> list[Affected]:
    """What mounts the volumes whose driver has such options."""
    house, cite = asked.house, run.RowCitations(asked.house).of
    found = []
    for document in house.index.config_documents:
        if document.example or "driver_opts" not in house.index.text(document.doc_id):
            continue
        held: dict[str, dict[str, ConfigEntry]] = defaultdict(dict)
        for entry in house.entries.of_document(document.doc_id):
            if len(path := entry.value.path) == 4 and (path[0], path[2]) == ("volumes", "driver_opts"):
                held[path[1]][path[3]] = entry
        services = tuple(
            s
            for s in house.index.services.values()
            if asked.project in (None, s.project) and document.doc_id in house.index.declaring(s)
        )
        for volume, entries in held.items() if services else ():
            if not is_meant({key: (e.known or e.value.value).strip() for key, e in entries.items()}):
                continue
            for row in mounters(house, Arguments(services=services, text={"path": volume})):
                if row.cells["source"] == volume:
                    name, project = (str(row.cells[c]) for c in ("service", "project"))
                    told = tuple(cite(span) for span in (*row.cites, *(e.cite for e in entries.values())))
                    one = Affected(name=name, project=project, at=volume, through="", citations=told)
                    found.append(one)
    return found


def _is_declared(house: House, thing: str) -> bool:
    with contextlib.suppress(TabootError):
        return any(service.declared for service in house.services_named(thing))
    return False


def _of_service(asked: _Asked, thing: str) -> Impact:
    services = [
        s
        for s in asked.house.services_named(thing)
        if asked.project is None or s.project.lower() == asked.project.lower()
    ]
    projects = tuple(dict.fromkeys(s.project for s in services if s.declared))
    failing = asked.query("impact", service=thing, project=asked.project, transitive=asked.transitive)
    shared = asked.query("sharers", service=thing, project=asked.project)
    found: dict[str, list[Affected]] = {how: [] for how in _FAILING}
    for row in failing.rows:
        at = ", ".join(filter(None, (str(row.cells["at"]), _of(row, projects))))
        found[str(row.cells["how"])].append(affected(row, at=at))
    for row in shared.rows:
        how = f"shares its {row.cells['shares']}"
        at = ", ".join(filter(None, (str(row.cells["what"]), _of(row, projects))))
        found.setdefault(how, []).append(affected(row, name="other", at=at))
    naming = [e for s in services for e in unexplained_mentions(asked.house.index, s)][:_MAX_NAMING]
    cited = run.citations(asked.house, naming)
    for row in asked.query("routes", service=thing, project=asked.project).rows:
        if row.cells["hostname"]:
            of, way = _of(row, projects), way_of_row(row.cells)
            through = str(row.cells["proxy"])
            found.setdefault(_NAMES, []).append(
                Affected(name=way, project="", at=of, through=through, citations=row.citations)
            )
    return _made(asked, thing, "service", projects, found, failing, cited)


def _of(row: QueryRow, projects: Collection[str]) -> str:
    """Of which service a row is, where several projects have one of the name."""
    if len(projects) < 2:
        return ""
    # A route says it of its target.
    name, project = ("target", "target_project") if "target" in row.cells else ("service", "project")
    called = str(row.cells[name])
    return f"of {called}" if called.endswith(")") else f"of {called} ({row.cells[project]})"


def _of_holder(asked: _Asked, thing: str, kind: str) -> Impact:
    name, column, how = _HELD[kind]
    mounted: list[Affected] = []
    if kind == "volume":
        held, mounted = _mounted(asked, thing)
    elif kind == "hostname":
        held = _behind(asked, thing)
    else:
        held = asked.query(name, **{kind: thing})
    several = kind == "network" and len({row.cells["network"] for row in held.rows}) > 1
    at = {"volume": "source", "network": "network" if several else ""}.get(kind, "")
    items = [
        affected(
            row, name=column, at=way_of_row(row.cells) if kind in _WAYS else str(row.cells[at]) if at else ""
        )
        for row in held.rows
    ]
    items += [i for i in mounted if (i.name, i.project) not in {(o.name, o.project) for o in items}]
    found: dict[str, list[Affected]] = {how: items}
    if kind == "host":
        index, nodes = asked.house.index, _nodes(asked.house, "Host", thing)
        resolved = {index.name(e.end) for n in nodes for e in index.out(n, "RESOLVES_TO")}
        afar = _from_afar(asked, {thing, *resolved})
        found |= afar
        items = [*items, *afar[_MOUNTED]]
    on_it = {(item.name, item.project) for item in items}
    told = set(on_it)
    for service, project in sorted(on_it) if asked.transitive and kind not in _WAYS else ():
        of_it = asked.query("impact", service=service, project=project or None, transitive=True)
        for row in of_it.rows:
            item = affected(row)
            if (item.name, item.project) not in told:
                told.add((item.name, item.project))
                through = " and ".join(filter(None, (item.through, service)))
                found.setdefault(str(row.cells["how"]), []).append(
                    item.model_copy(update={"through": through})
                )
    return _made(asked, thing, kind, (), found, held, ())


def _mounted(asked: _Asked, thing: str) -> tuple[QueryResult, list[Affected]]:
    """What mounts a path of the machine or what is beneath it, or a volume by its name, which Docker calls
    with the project before it; and what mounts volumes whose driver does. Raises ``E_NOT_FOUND`` where
    nothing mounts it."""
    projects = sorted({p for _, p in asked.house.index.projects if thing.startswith(f"{p}_")})
    wanted = thing.rstrip("/")

    def is_beneath(options: Mapping[str, str]) -> bool:
        device = _DEVICE.fullmatch(options.get("device", ""))
        return device is not None and f"{device[3]}/".startswith(f"{wanted}/")

    afar = _mounting(asked, is_beneath) if wanted.startswith("/") else []
    for path, project in ((thing, asked.project), *((thing.removeprefix(f"{p}_"), p) for p in projects)):
        found = asked.query("mounters", path=path, project=project)
        wanted = path.rstrip("/")
        of_source = [r for r in found.rows if f"{r.cells['source']}/".startswith(f"{wanted}/")]
        if of_source or afar:
            return found.model_copy(update={"rows": tuple(of_source)}), afar
    raise TabootError("E_NOT_FOUND", f"No service mounts a volume or path {thing[:100]!r}.")


def _behind(asked: _Asked, thing: str) -> QueryResult:
    """What stands behind a host name, else behind the names of a domain. Raises ``E_NOT_FOUND`` where no
    route has one."""
    found = asked.query("behind", hostname=thing)
    if found.rows:
        return found
    every = asked.query("routes")
    beneath = [r for r in every.rows if str(r.cells["hostname"]).lower().endswith(f".{thing.lower()}")]
    if not beneath:
        raise TabootError("E_NOT_FOUND", f"No route has the host name {thing[:100]!r}.")
    return every.model_copy(update={"rows": tuple(beneath)})


def affected(row: QueryRow, *, name: str = "affected", at: str | None = None) -> Affected:
    """What a row of a query tells of one thing, by the columns ``name`` and that of its project."""
    project = row.cells["project"] if name == "service" else row.cells[f"{name}_project"]
    return Affected(
        name=str(row.cells[name]),
        project=str(project or ""),
        at=str(row.cells.get("at") or "") if at is None else at,
        through=str(row.cells.get("through") or ""),
        citations=row.citations,
    )


def _made(
    asked: _Asked,
    thing: str,
    kind: str,
    projects: tuple[str, ...],
    found: Mapping[str, list[Affected]],
    result: QueryResult,
    naming: tuple[RowCitation, ...],
) -> Impact:
    order = (*_FAILING, _NAMES, *(f"shares its {what}" for what in _SHARED))
    ways = sorted(found, key=lambda how: order.index(how) if how in order else -1)
    groups = (AffectedGroup(how=how, items=_once(found[how])) for how in ways)
    return Impact(
        thing=thing,
        kind=kind,
        projects=projects,
        groups=tuple(group for group in groups if group.items),
        unknown=tuple(_unknown(asked.house, kind, thing, result, naming)),
        named_in=naming,
        scope=result.scope,
    )


def _once(items: Iterable[Affected]) -> tuple[Affected, ...]:
    """Each thing once in one way, with the first places that say so."""
    told: dict[tuple[str, ...], Affected] = {}
    for item in items:
        told.setdefault((item.name, item.project, item.at, item.through), item)
    return tuple(told.values())


def _unknown(
    house: House, kind: str, thing: str, result: QueryResult, naming: tuple[RowCitation, ...]
) -> Iterator[str]:
    if kind == "host" and not any(s.place == thing.lower() for s in house.index.services.values()):
        yield "No source is said to be of this machine (`host`), so what else runs there is not known."
    if kind == "address":
        names = sorted(house.index.name(n) for n in _held(house, thing))
        if names:
            yield f"It is the address of {listed(names)}; what else hangs on these is not known."
        else:
            yield "Whose address it is nothing says, so what else hangs on it is not known."
    yield from unseen(house.index, result.unseen)
    if naming:
        yield f"It is named in {plural(len(naming), 'text')} of which nothing more is known about it."


def unseen(index: ServiceIndex, unread: Iterable[str]) -> Iterator[str]:
    """What cannot be known of what hangs on anything; ``unread``: the sentences about what was not read."""
    yield from unread
    open_ = {
        service.name: mark.partition(": ")[2]
        for service in index.services.values()
        for mark in service.properties.get("unresolved") or ()
        if mark.startswith(_TELLING)
    }
    if open_:
        names = listed([f"{name} ({variable})" for name, variable in sorted(open_.items())])
        yield f"What these name is set elsewhere, by variables without a value: {names}."
    yield "What no file declares (connections made by hand or at run time) is not seen."
