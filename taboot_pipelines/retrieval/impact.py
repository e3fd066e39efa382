"""What is affected by a thing: what fails without it, what only starts after it, what shares something with
it, and what cannot be known of that.

A service is asked about by the typed queries ``impact`` and ``sharers``; of a network, a host, an image, a
proxy, a volume or an address first what is on it, then what is affected by that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import NamedTuple

from taboot_pipelines.errors import TabootError, or_near
from taboot_pipelines.retrieval.queries import run
from taboot_pipelines.retrieval.queries.citations import listed, plural
from taboot_pipelines.retrieval.queries.house import House
from taboot_pipelines.retrieval.queries.relations import (
    target_name_of,
    target_of,
    unexplained_mentions,
    way_of,
)
from taboot_pipelines.retrieval.queries.routes import way_of_row
from taboot_pipelines.retrieval.queries.service_index import ServiceIndex
from taboot_pipelines.retrieval.results.impact import Affected, AffectedGroup, Impact
from taboot_pipelines.retrieval.results.queries import QueryResult, QueryRow, RowCitation

#: Kinds of things but services: the typed query that lists what is on one, the column that names it, and how.
_HELD: Mapping[str, tuple[str, str, str]] = {
    "network": ("networks", "service", "is on it"),
    "host": ("services", "service", "runs on it"),
    "proxy": ("routes", "target", "is reached through it"),
    "image": ("images", "service", "runs it"),
    "volume": ("mounters", "service", "mounts it"),
}
_LABELS = ("Service", "Network", "Host", "ReverseProxy", "Image")
#: What may be asked about; of a name that several have the first.
KINDS = ("service", *_HELD)
#: Ways to be affected, in the order in which they are told.
_FAILING = ("needs it", "connects to it", "is reached through it", "only starts after it")
_SHARED = ("host", "network", "volume", "image")
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
    node = _address(house, thing) if kind in (None, "host") else None
    if node is not None:
        machine = machine_at(house.index, node)
        if machine is None:
            return _of_address(asked, thing, node)
        thing, kind = house.index.name(machine), "host"
    # What narrows to a project means a service. Of one that no file declares, first what else is called so.
    kinds = [kind] if kind is not None else KINDS if project is None else KINDS[:1]
    if len(kinds) > 1 and not _is_declared(house, thing):
        kinds = (*KINDS[1:], KINDS[0])
    nothing: TabootError | None = None
    for one in kinds:
        try:
            return _of_service(asked, thing) if one == "service" else _of_holder(asked, thing, one)
        except TabootError as error:
            if error.code != "E_NOT_FOUND":
                raise
            nothing = error
    assert nothing is not None
    if len(kinds) == 1:
        raise nothing
    known = (house.index.name(n) for label in _LABELS for n in house.index.of_label(label))
    raise TabootError("E_NOT_FOUND", f"Nothing named {thing[:100]!r} is known.{or_near(thing, set(known))}")


def machine_at(index: ServiceIndex, address: int) -> int | None:
    """The machine of an address, if it is of one: of several names the one on which something runs."""
    held = {e.start for e in index.into(address, "RESOLVES_TO")}
    machines = {n for n in held if index.into(n, "RUNS")} or held
    return min(machines) if len(machines) == 1 else None


def _address(house: House, thing: str) -> int | None:
    """The node of an address that is known; None where it is not, or is none."""
    with contextlib.suppress(ValueError, TabootError):
        return house.nodes_named("IP", str(ip_address(thing)))[0]
    return None


def _of_address(asked: _Asked, thing: str, node: int) -> Impact:
    """Of an address of which it is not known whose it is: what publishes a port on it, and which routes lead
    there."""
    index = asked.house.index
    found: dict[str, list[Affected]] = {"publishes a port on it": [], "is a name that leads to it": []}
    for edge in index.into(node, "BINDS"):
        service = index.services.get(index.service_of.get(edge.start, edge.start))
        name, project = (index.name(edge.start), "") if service is None else (service.name, service.project)
        at, told = str(edge.properties.get("port") or ""), run.citations(asked.house, [edge])
        found["publishes a port on it"].append(
            Affected(name=name, project=project, at=at, through="", citations=told)
        )
    for edge in index.of_type("ROUTES_TO"):
        if edge.end not in index.services and target_name_of(index, edge) == index.name(node):
            at, told = target_of(index, edge), run.citations(asked.house, [edge])
            found["is a name that leads to it"].append(
                Affected(
                    name=way_of(index, edge),
                    project="",
                    at=at,
                    through=index.name(edge.start),
                    citations=told,
                )
            )
    naming = run.citations(asked.house, index.mentions(node)[:_MAX_NAMING])
    return _made(asked, thing, "address", (), found, asked.query("addresses"), naming)


def _is_declared(house: House, thing: str) -> bool:
    with contextlib.suppress(TabootError):
        return any(service.declared for service in house.services_named(thing))
    return False


def _of_service(asked: _Asked, thing: str) -> Impact:
    failing = asked.query("impact", service=thing, project=asked.project, transitive=asked.transitive)
    shared = asked.query("sharers", service=thing, project=asked.project)
    found: dict[str, list[Affected]] = {how: [] for how in _FAILING}
    for row in failing.rows:
        found[str(row.cells["how"])].append(affected(row))
    for row in shared.rows:
        how = f"shares its {row.cells['shares']}"
        found.setdefault(how, []).append(affected(row, name="other", at=str(row.cells["what"])))
    services = [
        s
        for s in asked.house.services_named(thing)
        if asked.project is None or s.project.lower() == asked.project.lower()
    ]
    naming = [e for s in services for e in unexplained_mentions(asked.house.index, s)][:_MAX_NAMING]
    cited = run.citations(asked.house, naming)
    projects = tuple(dict.fromkeys(s.project for s in services if s.declared))
    return _made(asked, thing, "service", projects, found, failing, cited)


def _of_holder(asked: _Asked, thing: str, kind: str) -> Impact:
    name, column, how = _HELD[kind]
    held = _mounted(asked, thing) if kind == "volume" else asked.query(name, **{kind: thing})
    at = {"proxy": lambda cells: way_of_row(cells), "volume": lambda cells: str(cells["source"])}.get(kind)
    items = [affected(row, name=column, at=at(row.cells) if at is not None else "") for row in held.rows]
    found: dict[str, list[Affected]] = {how: items}
    on_it = {(item.name, item.project) for item in items}
    told = set(on_it)
    for service, project in sorted(on_it) if asked.transitive and kind != "proxy" else ():
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


def _mounted(asked: _Asked, thing: str) -> QueryResult:
    """What mounts a path of the machine or what is beneath it, or a volume by its name, which Docker calls
    with the project before it. Raises ``E_NOT_FOUND`` where nothing mounts it."""
    projects = sorted({p for _, p in asked.house.index.projects if thing.startswith(f"{p}_")})
    for path, project in ((thing, asked.project), *((thing.removeprefix(f"{p}_"), p) for p in projects)):
        found = asked.query("mounters", path=path, project=project)
        wanted = path.rstrip("/")
        of_source = [r for r in found.rows if f"{r.cells['source']}/".startswith(f"{wanted}/")]
        if of_source:
            return found.model_copy(update={"rows": tuple(of_source)})
    raise TabootError("E_NOT_FOUND", f"No service mounts a volume or path {thing[:100]!r}.")


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
    order = (*_FAILING, *(f"shares its {what}" for what in _SHARED))
    ways = sorted(found, key=lambda how: order.index(how) if how in order else -1)
    groups = (AffectedGroup(how=how, items=tuple(found[how])) for how in ways)
    return Impact(
        thing=thing,
        kind=kind,
        projects=projects,
        groups=tuple(group for group in groups if group.items),
        unknown=tuple(_unknown(asked.house, kind, thing, result, naming)),
        named_in=naming,
        scope=result.scope,
    )


def _unknown(
    house: House, kind: str, thing: str, result: QueryResult, naming: tuple[RowCitation, ...]
) -> Iterator[str]:
    if kind == "host" and not any(s.place == thing.lower() for s in house.index.services.values()):
        yield "No source is said to be of this machine (`host`), so what else runs there is not known."
    if kind == "address":
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
