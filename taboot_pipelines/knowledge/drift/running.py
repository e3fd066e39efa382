"""What runs, compared with what is declared, field by field.

A container is the service that its labels name (Compose, Swarm, Quadlet), that its pod's owner is, or, where
the house has none such, the one that is declared to have its name. A project that is called otherwise where
it runs (``-p``, Portainer, a project that includes others) is the one of the same services. Compared is what
a dump tells and a declaration says; a hash of either is not. What cannot be known on one side is no
difference.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from taboot_pipelines.extraction.tier_a.claims import Quote
from taboot_pipelines.extraction.tier_a.compose.volumes import UNKNOWN
from taboot_pipelines.extraction.tier_a.images import ImageReference, try_reference
from taboot_pipelines.extraction.tier_a.nginx.parser import Directive
from taboot_pipelines.extraction.tier_a.nginx.parser import parse as parse_nginx
from taboot_pipelines.extraction.tier_a.runtime.containers import (
    EVERY,
    Container,
    Mount,
    Port,
    Workload,
    is_anonymous,
    tried,
)
from taboot_pipelines.extraction.tier_a.runtime.extractor import sockets_of
from taboot_pipelines.knowledge.drift.declared import Declared, Service
from taboot_pipelines.knowledge.drift.facts import Drift, DriftKind, Fact, Side, StatedSpan
from taboot_pipelines.model.runtime import NGINX_FILE

#: Where a declaration says something of a service, by the key of the service, the field and a text that
#: stands there; None where that is not known.
Places = Callable[[str, str, str], StatedSpan | None]

#: What `restart` may be written as, by what engines call it.
_POLICIES = {"": "no", "none": "no", "false": "no", "any": "always", "true": "always"}
#: Networks of containers that join none.
_NO_NETWORK = frozenset({"none"})
#: What listens in an engine's stead for the ports that containers publish.
_FORWARDERS = frozenset({"docker-proxy", "rootlessport", "conmon", "pasta", "slirp4netns"})
_UNIT = re.compile(r"^Id=(?P<name>\S+)\.service\r?$", re.MULTILINE)
_MAX_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Dump:
    """A document that says what runs. ``place``: the machine that its source names, else the source;
    ``since``: when it was told."""

    doc_id: str
    path: str
    name: str
    place: str
    known_host: bool
    since: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class _Ran:
    """A container in its dump, and the service that it is, if it is one."""

    dump: Dump
    container: Container
    service: Service | None
    ambiguous: bool


def running_drift(
    declared: Declared,
    dumps: Sequence[Dump],
    sources: Iterable[str],
    places: Places,
    confs: Mapping[str, tuple[str, str]],
) -> Iterator[Drift]:
    """What runs otherwise than it is declared.

    ``sources``: the names that stand for no machine; ``confs``: (path, text) of nginx confs in force, by
    doc_id.
    """
    comparing = _Comparing(declared, frozenset(sources), places)
    ran, workloads = _newest(dumps)
    found = comparing.renamed([comparing.joined(dump, container) for dump, container in ran])
    told = list(comparing.containers(found))
    yield from told
    down = {d.key for d in told if d.kind is DriftKind.NOT_RUNNING}
    # Of a workload whose container is told to be down, that says why.
    yield from (d for d in comparing.workloads(workloads) if d.key not in down)
    for dump in dumps:
        yield from comparing.units(dump)
        yield from comparing.sockets(dump)
        yield from _confs(dump, confs)


def _newest(
    dumps: Sequence[Dump],
) -> tuple[list[tuple[Dump, Container]], list[tuple[Dump, Workload]]]:
    """Each container as the newest dump has it that tells most of it; each workload as the newest has it."""
    containers: dict[tuple[str, str], tuple[tuple[str, int, str], Dump, Container]] = {}
    workloads: dict[tuple[str, str, str], tuple[Dump, Workload]] = {}
    for dump in sorted(dumps, key=lambda d: (str(d.since), d.doc_id)):
        read = tried(dump.doc_id, dump.text)
        for one in read.containers:
            rank = (str(dump.since)[:10], one.wholeness, str(dump.since))
            known = containers.get((dump.place, one.name.text))
            if known is None or rank >= known[0]:
                containers[dump.place, one.name.text] = (rank, dump, one)
        for workload in read.workloads:
            workloads[dump.place, workload.namespace, workload.name.text] = (dump, workload)
    return [(dump, one) for _, dump, one in containers.values()], list(workloads.values())


class _Comparing:
    """One namespace."""

    def __init__(self, declared: Declared, sources: frozenset[str], places: Places) -> None:
        self._declared = declared
        self._sources = sources
        self._places = places
        self._by_label: dict[tuple[str, str], list[Service]] = defaultdict(list)
        for service in declared.services.values():
            if service.is_object or service.container:
                self._by_label[service.scope.rpartition("/")[2], service.name].append(service)
        self._declares = any(s.container for s in declared.services.values())

    # --- which service a container is -----------------------------------------------------------------------

    def joined(self, dump: Dump, one: Container) -> _Ran:
        held = self._by_label.get((one.scope, one.service), []) if one.service else []
        if not held and not one.placed:
            named = self._declared.by_name.get(one.name.text.lower(), [])
            held = [s for s in named if s.container and s.properties.get("containerName") == one.name.text]
        found = self._there(dump, held)
        if len(found) > 1 and one.directory:
            # Projects of one name: of the one that lies in a folder called so.
            folder = posixpath.basename(one.directory)
            found = [
                s for s in found if any(posixpath.basename(f) == folder for f in self._declared.folders(s))
            ] or found
        return _Ran(dump, one, found[0] if len(found) == 1 else None, len(found) > 1)

    def renamed(self, ran: Sequence[_Ran]) -> list[_Ran]:
        """``ran``, where the containers of a project that is declared under another name, or as several, are
        the services of that: of the one of which another container is known by its name; else of those of
        which all runs there with the same images, where these have all that runs there.
        """
        found = list(ran)
        running: dict[tuple[str, str], list[int]] = defaultdict(list)
        for at, one in enumerate(ran):
            if one.container.service and not one.container.placed:
                running[one.dump.place, one.container.scope].append(at)
        declared: dict[str, dict[str, Service]] = defaultdict(dict)
        for service in self._declared.services.values():
            if service.container:
                declared[service.scope][service.name] = service
        for held in running.values():
            known = {s.scope for at in held if (s := found[at].service) is not None}
            for at in held:
                said = [s for k in known if (s := declared[k].get(found[at].container.service)) is not None]
                if found[at].service is None and not found[at].ambiguous and len(said) == 1:
                    found[at] = replace(found[at], service=said[0])
        taken = {one.service.scope for one in found if one.service is not None}
        meant: list[dict[int, Service]] = []
        for held in running.values():
            left = {at: found[at] for at in held if found[at].service is None and not found[at].ambiguous}
            whole = [
                services
                for scope, services in declared.items()
                if scope not in taken and left and self._is_whole(services, [*left.values()])
            ]
            fits = {at: [s[n] for s in whole if (n := o.container.service) in s] for at, o in left.items()}
            if all(len(services) == 1 for services in fits.values()):
                meant.append({at: service for at, (service,) in fits.items()})
        claims = Counter(scope for one in meant for scope in {s.scope for s in one.values()})
        for services in meant:
            if all(claims[service.scope] == 1 for service in services.values()):
                for at, service in services.items():
                    found[at] = replace(found[at], service=service)
        return found

    def _is_whole(self, services: Mapping[str, Service], ran: Sequence[_Ran]) -> bool:
        """Whether all services of a project run among these, each with its image; what is started only when
        it is asked for need not."""
        there = {one.container.service: one for one in ran}
        needed = {name for name, service in services.items() if not service.properties.get("profiles")}
        if not needed or not needed <= there.keys() or not self._there(ran[0].dump, [*services.values()]):
            return False
        for name in services.keys() & there.keys():
            image = there[name].container.image
            runs = try_reference(image.text) if image is not None else None
            wanted = [r for f in services[name].references if (r := try_reference(f.end_name)) is not None]
            if runs is not None and wanted and _repository(runs) not in map(_repository, wanted):
                return False
        return True

    def _there(self, dump: Dump, services: list[Service]) -> list[Service]:
        """Those of the machine that a dump is of; where none is, those of no known machine."""
        if not dump.known_host:
            return services
        here = [s for s in services if s.host == dump.place]
        return here or [s for s in services if s.host in self._sources]

    # --- containers -----------------------------------------------------------------------------------------

    def containers(self, ran: Sequence[_Ran]) -> Iterator[Drift]:
        by_service: dict[str, list[_Ran]] = defaultdict(list)
        for one in ran:
            if one.service is not None:
                by_service[one.service.key].append(one)
            elif self._declares and not one.ambiguous and not one.container.placed:
                yield _undeclared(one)
        for key, held in by_service.items():
            service = self._declared.services[key]
            up = [r for r in held if r.container.running]
            for one in up or held[:1]:
                yield from self._fields(one, service)
            yield from self._stopped(service, held)
        yield from self._missing(ran, by_service)

    def _stopped(self, service: Service, held: list[_Ran]) -> Iterator[Drift]:
        """A service of which fewer containers run, and are not unhealthy, than are declared; in a cluster one
        of which no pod has all its containers."""
        pods: dict[str, list[bool]] = defaultdict(list)
        for one in held:
            name = one.container.name.text
            pods[name.rpartition("/")[0] or name].append(_is_well(one))
        if service.pods or held[0].container.placed:
            enough = any(map(all, pods.values()))
        else:
            enough = sum(map(_is_well, held)) >= service.replicas
        down = next((r for r in held if not _is_well(r)), None)
        if enough or down is None:
            return
        policy = _policy(service)
        if down.container.ended and (policy is None or policy.partition(":")[0] in ("no", "on-failure")):
            return  # it did what it was started for
        state = (down.container.unhealthy if down.container.running else None) or down.container.state
        says = f"{down.container.name.text} is {state.text or 'not running'}"
        yield self._differs(DriftKind.NOT_RUNNING, down, service, state, says, "is declared", "", "")

    def _missing(self, ran: Sequence[_Ran], by_service: Mapping[str, list[_Ran]]) -> Iterator[Drift]:
        """Services without a container: of the machines of the dumps, else of projects that run there.

        Not of profiles, which are started when they are asked for, and not of a project that is another way
        to run what a project of its folder runs.
        """
        dumps = {r.dump.place: r.dump for r in ran if not r.container.placed}
        scopes = {r.service.scope: r for r in ran if r.service is not None}
        folders = {f for r in ran if r.service is not None for f in self._declared.folders(r.service)}
        units = {r.dump.place for r in ran if r.container.unit}
        for service in self._declared.services.values():
            if not service.container or not service.replicas or service.key in by_service:
                continue
            beside = scopes.get(service.scope)
            dump = dumps.get(service.host) if beside is None else beside.dump
            if dump is None or service.properties.get("profiles"):
                continue
            if beside is None and not self._declared.folders(service).isdisjoint(folders):
                continue
            if beside is not None and beside.container.placed:
                continue
            if service.scope.endswith("/systemd") and service.host not in units:
                continue
            if any(r.ambiguous and r.container.service == service.name for r in ran):
                continue
            span = StatedSpan(dump.doc_id, 1, 0, 0)  # nothing of the dump says so
            yield Drift(
                DriftKind.NOT_RUNNING,
                "Service",
                service.key,
                service.name,
                f"{_called(service)} is declared, but {dump.name} has no container of it.",
                (Side(f"{dump.name} has no container of it", stands=(span,)), self._declaration(service)),
                as_of=dump.since,
            )

    def _fields(self, ran: _Ran, service: Service) -> Iterator[Drift]:
        one = ran.container
        yield from self._image(ran, service)
        if one.placed:
            return
        unresolved = {str(u).partition(":")[0] for u in service.properties.get("unresolved") or ()}
        quadlet = service.scope.endswith("/systemd")
        shared = service.on_host_network or service.replicas > 1
        if one.ports is not None and not (shared or unresolved & {"ports", "PublishPort", "network_mode"}):
            yield from self._ports(ran, service, one.ports)
        # A quadlet that names no network has the engine's own.
        untold = quadlet and not service.networks
        if one.networks is not None and not (untold or unresolved & {"networks", "network_mode", "Network"}):
            yield from self._networks(ran, service, one.networks)
        if one.mounts is not None and service.mounts is not None:
            yield from self._mounts(ran, service, one.mounts)
        if one.restart is not None and not quadlet and "restart" not in unresolved:
            yield from self._restart(ran, service, one.restart)

    def _image(self, ran: _Ran, service: Service) -> Iterator[Drift]:
        one = ran.container
        runs = try_reference(one.image.text) if one.image is not None else None
        if one.image is None or runs is None:
            return
        says = service.pods or service.references or service.builds
        wanted = [(r, f) for f in says if (r := try_reference(f.end_name)) is not None]
        if says is service.builds and not service.image:
            # The first Compose joined the names of a project and a service by another sign.
            names = [f"{_project(service)}_{service.name}"]
            # Built images are called after the project that runs.
            names += [f"{one.scope}{joint}{service.name}" for joint in "_-" if one.scope]
            wanted += [(r, f) for f in says for n in names if (r := try_reference(n.lower())) is not None]
        if service.pods:
            # Charts and injectors add containers of their own, and a pod may have several.
            alone = len(wanted) == 1 and one.service == one.name.text.rpartition("/")[2]
            wanted = [(r, f) for r, f in wanted if alone or _repository(r) == _repository(runs)]
        if not wanted or any(_is_same(r, runs, one) for r, _ in wanted):
            return
        reference, fact = wanted[0]
        yield self._differs(
            DriftKind.RUNNING_IMAGE,
            ran,
            service,
            one.image,
            f"{one.name.text} runs {one.image.text}",
            f"declares {_plain(reference)}",
            "image",
            "",
            fact,
        )

    def _ports(self, ran: _Ran, service: Service, ports: Sequence[Port]) -> Iterator[Drift]:
        declared: dict[tuple[int, str], list[Fact]] = defaultdict(list)
        for published, facts in service.published.items():
            for fact in facts:
                declared[published, str(fact.properties.get("protocol"))].append(fact)
        running: dict[tuple[int, str], list[Port]] = defaultdict(list)
        for port in ports:
            running[port.published, port.protocol].append(port)
        inspected = ran.container.restart is not None
        for at, held in running.items():
            facts, first = declared.get(at, []), held[0]
            if facts and any(_agrees(f, held) for f in facts):
                continue
            if not facts and not inspected and first.published >= 32_768:
                continue  # the engine may have picked it
            says = f"{ran.container.name.text} publishes {first.shown}"
            own = f"declares {_mapped(facts[0])}" if facts else "does not declare that port"
            yield self._differs(
                DriftKind.RUNNING_PORT, ran, service, first.quote, says, own, "ports", "", *facts[:1]
            )
        gone = [facts[0] for at, facts in declared.items() if at not in running]
        if not ran.container.running and not inspected:
            gone = []  # of what is stopped a list tells no ports
        for fact in gone:
            says = f"{ran.container.name.text} does not publish {_mapped(fact)}"
            own = f"declares {_mapped(fact)}"
            yield self._differs(
                DriftKind.RUNNING_PORT, ran, service, ran.container.name, says, own, "ports", "", fact
            )

    def _networks(self, ran: _Ran, service: Service, networks: Sequence[Quote]) -> Iterator[Drift]:
        wanted = {key.partition("/")[2]: key for key in service.networks}
        there = {_as_declared(ran, service, n.text, wanted): n for n in networks if n.text not in _NO_NETWORK}
        name = ran.container.name
        for network, quote in there.items():
            if network not in wanted:
                says = f"{name.text} is on the network {quote.text}"
                own = "does not declare it"
                yield self._differs(
                    DriftKind.RUNNING_NETWORK, ran, service, quote, says, own, "networks", network
                )
        for network, key in wanted.items():
            if network not in there:
                says, own = f"{name.text} is not on the network {network}", "declares it"
                fact = next((f for f in service.joins if f.end_key == key), None)
                yield self._differs(
                    DriftKind.RUNNING_NETWORK, ran, service, name, says, own, "networks", network, fact
                )

    def _mounts(self, ran: _Ran, service: Service, mounts: Sequence[Mount]) -> Iterator[Drift]:
        assert service.mounts is not None
        one = ran.container
        wanted = {}
        for text in service.mounts:
            source, _, rest = text.partition(":")
            wanted[rest.removesuffix(":ro")] = (source, rest.endswith(":ro"))
        more = wanted.pop("", None) is not None
        there = {m.target: m for m in mounts}
        for target, mount in there.items():
            if target not in wanted:
                if not more and not is_anonymous(mount) and not target.startswith("/run/secrets/"):
                    says = f"{one.name.text} mounts {mount.shown}"
                    own = f"declares no mount at {target}"
                    yield self._differs(
                        DriftKind.RUNNING_MOUNT, ran, service, mount.quote, says, own, "volumes", target
                    )
                continue
            source, read_only = wanted[target]
            held = replace(mount, source=_as_declared(ran, service, mount.source, (source,)))
            # Paths of a file that another project includes begin in a folder below that project's.
            directory = one.directory if one.scope == _project(service) else ""
            if source == UNKNOWN or (_is_source(source, held, directory) and read_only is mount.read_only):
                continue
            says = f"{one.name.text} mounts {mount.shown}"
            own = f"declares {source or 'a volume without a name'}:{target}{':ro' if read_only else ''}"
            yield self._differs(
                DriftKind.RUNNING_MOUNT, ran, service, mount.quote, says, own, "volumes", target
            )
        for target, (source, _) in wanted.items():
            if target not in there:
                says = f"{one.name.text} mounts nothing at {target}"
                own = f"declares {source}:{target}"
                if source != UNKNOWN:
                    yield self._differs(
                        DriftKind.RUNNING_MOUNT, ran, service, one.name, says, own, "volumes", target
                    )

    def _restart(self, ran: _Ran, service: Service, restart: Quote) -> Iterator[Drift]:
        wanted = _policy(service)
        if wanted is None or restart.text == wanted or restart.text.partition(":")[0] == wanted:
            return
        says = f"{ran.container.name.text} has the restart policy {restart.text}"
        own = f"declares {wanted}" if service.properties.get("restart") else "declares none"
        yield self._differs(DriftKind.RUNNING_RESTART, ran, service, restart, says, own, "restart", "")

    # --- clusters and machines ------------------------------------------------------------------------------

    def workloads(self, found: Sequence[tuple[Dump, Workload]]) -> Iterator[Drift]:
        """Workloads that are to have pods, of which none is ready."""
        for dump, workload in found:
            held = self._there(dump, self._by_label.get((workload.namespace, workload.name.text), []))
            if len(held) == 1 and workload.wanted and not workload.ready:
                (service,) = held
                says = f"none of {workload.wanted} pods is ready"
                yield Drift(
                    DriftKind.NOT_RUNNING,
                    "Service",
                    service.key,
                    service.name,
                    f"{_called(service)} is declared, but {says}.",
                    (Side(says, stands=(_span(dump, workload.name),)), self._declaration(service)),
                    as_of=dump.since,
                )

    def units(self, dump: Dump) -> Iterator[Drift]:
        """Units that are declared and failed, or are enabled and do not run."""
        units = list(_UNIT.finditer(dump.text))
        for unit in units:
            begin = dump.text.rfind("\n\n", 0, unit.start()) + 1
            end = dump.text.find("\n\n", unit.end())
            block = dump.text[begin : end if end >= 0 else len(dump.text)]
            said = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
            state = said.get("ActiveState", "").strip()
            enabled = said.get("UnitFileState", "").strip() in ("enabled", "generated")
            passing = said.get("Type", "").strip() == "oneshot"
            if state != "failed" and not (state == "inactive" and enabled and not passing):
                continue
            scoped = [
                s
                for s in self._declared.by_name.get(unit["name"].lower(), [])
                if s.scope.endswith("/systemd") and s.name == unit["name"]
            ]
            held = self._there(dump, scoped)
            if len(held) == 1:
                at = begin + block.find("ActiveState=")
                quote = Quote(state, dump.doc_id, at, at + len("ActiveState=") + len(state))
                says = f"{unit['name']}.service is {state}"
                yield Drift(
                    DriftKind.NOT_RUNNING,
                    "Service",
                    held[0].key,
                    held[0].name,
                    f"{_called(held[0])} is declared, but {says}.",
                    (Side(says, stands=(_span(dump, quote),)), self._declaration(held[0])),
                    as_of=dump.since,
                )

    def sockets(self, dump: Dump) -> Iterator[Drift]:
        """Ports that are declared to be published on a machine where nothing listens there.

        Only where an engine is seen to listen for containers: it may forward packets instead, which no list
        of sockets shows.
        """
        heard = list(sockets_of(dump.doc_id, dump.text))
        if not dump.known_host or not any(process in _FORWARDERS for *_, process in heard):
            return
        open_ports = {(port, protocol) for _, _, port, protocol, _ in heard}
        protocols = {protocol for _, protocol in open_ports}
        for service in self._declared.services.values():
            if service.host != dump.place or not service.container or service.properties.get("profiles"):
                continue
            for published, facts in sorted(service.published.items()):
                protocol = str(facts[0].properties.get("protocol"))
                if protocol in protocols and (published, protocol) not in open_ports:
                    says = f"nothing listens at {published}/{protocol}"
                    span = StatedSpan(dump.doc_id, 1, 0, dump.text.find("\n"))
                    yield Drift(
                        DriftKind.RUNNING_PORT,
                        "Service",
                        service.key,
                        service.name,
                        f"{_called(service)} declares {_mapped(facts[0])}, but on {dump.place} {says}.",
                        (Side(says, stands=(span,)), Side(f"declares {_mapped(facts[0])}", tuple(facts[:1]))),
                        as_of=dump.since,
                    )

    # --- what is said ---------------------------------------------------------------------------------------

    def _declaration(self, service: Service) -> Side:
        says = f"{_called(service)} is declared"
        facts = service.references or service.builds or service.pods or service.joins
        if facts:
            return Side(says, tuple(facts[:1]))
        span = self._places(service.key, "", "")
        return Side(says, stands=(span,) if span is not None else ())

    def _differs(
        self,
        kind: DriftKind,
        ran: _Ran,
        service: Service,
        quote: Quote,
        says: str,
        own: str,
        field: str,
        text: str,
        fact: Fact | None = None,
    ) -> Drift:
        """``field``, ``text``: where the declaration says it, if no ``fact`` does."""
        declares = f"{_called(service)} {own}"
        span = self._places(service.key, field, text) if fact is None and field else None
        if fact is not None:
            side = Side(declares, (fact,))
        elif span is not None:
            side = Side(declares, stands=(span,))
        else:
            whole = self._declaration(service)
            side = Side(declares, whole.facts, whole.stands)
        return Drift(
            kind,
            "Service",
            service.key,
            service.name,
            f"{says}, but {declares}.",
            (Side(says, stands=(_span(ran.dump, quote),)), side),
            as_of=ran.dump.since,
        )


def _is_well(ran: _Ran) -> bool:
    """Whether a container runs, and nothing says that it is unhealthy."""
    return ran.container.running and ran.container.unhealthy is None


def _undeclared(ran: _Ran) -> Drift:
    one = ran.container
    image = f" ({one.image.text})" if one.image is not None else ""
    says = f"{one.name.text}{image} is {one.state.text or 'there'}"
    return Drift(
        DriftKind.NOT_DECLARED,
        "Container",
        one.id,
        one.name.text,
        f"{says}, and nothing declares it.",
        (Side(says, stands=(_span(ran.dump, one.name),)),),
        as_of=ran.dump.since,
    )


def _span(dump: Dump, quote: Quote) -> StatedSpan:
    return StatedSpan(dump.doc_id, dump.text.count("\n", 0, quote.start) + 1, quote.start, quote.end)


def _called(service: Service) -> str:
    return f"{_project(service)}/{service.name}"


def _project(service: Service) -> str:
    return service.scope.rpartition("/")[2]


def _as_declared(ran: _Ran, service: Service, name: str, wanted: Collection[str]) -> str:
    """What a network or a volume of a project that runs under another name is called by the declared one, if
    it has not one of the ``wanted`` names itself."""
    own, project = ran.container.scope, _project(service)
    is_own = bool(own) and name.startswith(f"{own}_") and name not in wanted
    return f"{project}_{name.removeprefix(f'{own}_')}" if is_own else name


def _plain(reference: ImageReference) -> str:
    return reference.name.removeprefix("docker.io/").removeprefix("library/")


def _repository(reference: ImageReference) -> tuple[str, str]:
    return reference.registry, reference.repository


def _is_same(wanted: ImageReference, runs: ImageReference, one: Container) -> bool:
    """Whether an image is the one that is declared, digest and tag. Swarm pins what nobody pinned; what is
    known by a digest alone is told by that of what runs."""
    if _repository(wanted) != _repository(runs):
        return False
    if wanted.digest is not None:
        return wanted.digest in (runs.digest, one.digest)
    if runs.digest is not None and not one.placed:
        return False
    return wanted.tag == runs.tag


def _agrees(fact: Fact, held: Sequence[Port]) -> bool:
    address = str(fact.properties.get("hostIp") or (fact.end_key if fact.end_label == "IP" else ""))
    wanted = "" if address in EVERY else address
    target = fact.port("targetPort")
    # A variable without a value may stand for any address.
    return any((address[:1] == "$" or p.address == wanted) and target in (None, p.target) for p in held)


def _mapped(fact: Fact) -> str:
    address = str(fact.properties.get("hostIp") or (fact.end_key if fact.end_label == "IP" else ""))
    at = "" if address in EVERY else f"[{address}]:" if ":" in address else f"{address}:"
    target = fact.port("targetPort") or fact.port()
    return f"{at}{fact.port()}:{target}/{fact.properties.get('protocol')}"


def _policy(service: Service) -> str | None:
    """The declared policy as engines call it; None for one that they do not have."""
    written = str(service.properties.get("restart") or "").strip().lower()
    kind, colon, count = written.partition(":")
    kind = _POLICIES.get(kind, kind)
    if kind not in ("no", "always", "unless-stopped", "on-failure"):
        return None
    return f"{kind}:{count}" if kind == "on-failure" and colon and count.strip("0") else kind


def _is_source(source: str, mount: Mount, directory: str) -> bool:
    """Whether what is mounted is what is declared: a volume of the name, a volume that nobody named, a path,
    where relative ones begin in the project's directory, and a home is not known."""
    if source == "":
        return mount.kind == "volume"
    if not source.startswith((".", "/", "~")):
        return mount.kind == "volume" and mount.source == source
    if mount.kind != "bind":
        return False
    there = posixpath.normpath(mount.source)
    if source.startswith("/"):
        return there == source
    if source.startswith("~") or not directory:
        tail = re.sub(r"^(?:~|\.{1,2})(?:/|$)", "", posixpath.normpath(source))
        tail = re.sub(r"^(?:\.\./)+", "", tail)
        return tail in ("", ".", "..") or there.endswith(f"/{tail}")
    return there == posixpath.normpath(posixpath.join(directory, source))


# --- nginx: the files that it has loaded, and those that are declared


def _confs(dump: Dump, confs: Mapping[str, tuple[str, str]]) -> Iterator[Drift]:
    """Files that nginx has loaded otherwise than they stand now, told by their statements alone. A file is
    the one whose path ends alike the furthest; of several none."""
    heads = list(NGINX_FILE.finditer(dump.text))
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(dump.text)
        loaded = dump.text[head.end() : end]
        shared = {d: _shared(head["path"], path) for d, (path, _) in confs.items()}
        most = max(shared.values(), default=0)
        meant = [d for d, n in shared.items() if n == most]
        # A bare name is told by itself where the source is the folder that holds it.
        if not most or len(meant) != 1 or most < min(2, confs[meant[0]][0].count("/") + 1):
            continue
        (doc_id,) = meant
        path, text = confs[doc_id]
        theirs, ours = _statements(loaded), _statements(text)
        if [s for s, _ in theirs] == [s for s, _ in ours]:
            continue
        at = next(
            (n for n, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a[0] != b[0]),
            min(len(theirs), len(ours)),
        )
        said = theirs[at][1] if at < len(theirs) else (0, 0)
        own = ours[at][1] if at < len(ours) else (0, min(len(text), 1))
        name = posixpath.basename(path)
        shift = head.end() if at < len(theirs) else head.start()
        quote = Quote("", dump.doc_id, shift + said[0], shift + said[1] if at < len(theirs) else head.end())
        line = text.count("\n", 0, own[0]) + 1
        yield Drift(
            DriftKind.RUNNING_PROXY,
            "",
            "",
            name,
            f"nginx has loaded another {path} than the file is now.",
            (
                Side(f"nginx has loaded another {name}", stands=(_span(dump, quote),)),
                Side(f"{path} says otherwise", stands=(StatedSpan(doc_id, line, *own),)),
            ),
            as_of=dump.since,
        )


def _shared(one: str, other: str) -> int:
    """How many last parts two paths have in common."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(one.count("/"), other.count("/")) + 1)


def _statements(text: str) -> list[tuple[tuple[str, ...], tuple[int, int]]]:
    """The directives of a conf in order, each with its depth, name and arguments, and where it stands."""
    found: list[tuple[tuple[str, ...], tuple[int, int]]] = []

    def walk(directives: Iterable[Directive], depth: int) -> None:
        for one in directives:
            end = one.end if one.children is None else text.find("{", one.start) + 1
            found.append(((str(depth), one.name, *one.args), (one.start, end)))
            walk(one.children or (), depth + 1)

    walk(parse_nginx(text)[0], 0)
    return found
