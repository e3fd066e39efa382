"""The Compose extractor: units from a listing, and what the services of one project say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from taboot_pipelines.extraction.tier_a.compose import merging, traefik
from taboot_pipelines.extraction.tier_a.compose.ansible import hosts_of
from taboot_pipelines.extraction.tier_a.compose.builds import claim_builds
from taboot_pipelines.extraction.tier_a.compose.claims import SERVICE_NAME, ProjectClaims, version_of
from taboot_pipelines.extraction.tier_a.compose.connections import all_labels, claim_connections
from taboot_pipelines.extraction.tier_a.compose.files import group_units
from taboot_pipelines.extraction.tier_a.compose.loading import Loader, select
from taboot_pipelines.extraction.tier_a.compose.networks import (
    claim_extra_hosts,
    claim_networks,
    claim_ports,
    memberships,
    target_port,
)
from taboot_pipelines.extraction.tier_a.compose.traefik import claim_routes, default_rule, find_proxy
from taboot_pipelines.extraction.tier_a.compose.variables import resolved
from taboot_pipelines.extraction.tier_a.compose.volumes import mounts
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.recognition import filled
from taboot_pipelines.extraction.tier_a.texts import described, description, variable_called
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, Entry, Node, comment_above
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import SCHEMA_VERSION, Basis
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, Problem, SourceFacts, UnitSpec


def _depend(
    c: ProjectClaims,
    ref: NodeRef,
    target: str,
    quoted: Node,
    method: str,
    *,
    project: bool = True,
    kind: str = "need",
    **properties: Any,
) -> None:
    if SERVICE_NAME.fullmatch(target) is None:
        c.report(quoted, "E_PARSE", "this does not name a service or container.")
        return
    end = c.service(target, None if project else "")
    if end == ref:
        return
    if project and target not in c.project.services:
        c.report(quoted, "E_NOT_FOUND", "the service is not declared in the project.")
    c.node(end, quoted, {"schemaVersion": SCHEMA_VERSION})
    c.edge("DEPENDS_ON", ref, end, quoted, method, kind=kind, **properties)


#: What `depends_on` waits for beyond the other's start, which by itself is an order.
_CONDITIONS_OF_NEED = frozenset({"service_healthy", "service_completed_successfully"})


def claim_dependencies(c: ProjectClaims, ref: NodeRef, name: str, node: Node) -> None:
    """Each dependency once for every statement of it."""
    depends = node.get("depends_on")
    for target, (key, options) in merging.names(depends).items():
        if c.mark(name, "depends_on", key):
            continue
        condition, required, restart = (options.scalar(k) for k in ("condition", "required", "restart"))
        awaited = condition.text if condition is not None and not condition.missing else None
        _depend(
            c,
            ref,
            target,
            key,
            "compose_depends_on",
            kind="need" if awaited in _CONDITIONS_OF_NEED else "order",
            condition=awaited,
            required=required.boolean(default=True) if required is not None else None,
            restart=restart.boolean() if restart is not None else None,
        )
    for field, project in (("links", True), ("external_links", False)):
        links = node.get(field)
        for item in links.each() if links is not None else ():
            if not c.mark(name, field, item):
                _depend(
                    c, ref, item.text.partition(":")[0].lstrip("/"), item, f"compose_{field}", project=project
                )
    volumes = node.get("volumes_from")
    for item in volumes.each() if volumes is not None else ():
        if not c.mark(name, "volumes_from", item):
            container = item.text.startswith("container:")
            target = item.text.removeprefix("container:").partition(":")[0]
            _depend(c, ref, target, item, "compose_volumes_from", project=not container)
    for field in ("network_mode", "ipc", "pid"):
        mode = node.scalar(field)
        if mode is None:
            continue
        kind, colon, target = mode.text.partition(":")
        if colon and kind in ("service", "container") and not c.mark(name, field, mode):
            _depend(c, ref, target, mode, f"compose_{field}", project=kind == "service")


_VPN = re.compile(
    r"(?:^|[/_-])"
    r"(wireguard|wg-easy|wg|gluetun|openvpn|nordvpn|nordlynx|protonvpn|mullvad|surfshark|tailscale|headscale"
    r"|zerotier|netbird|vpn)"
    r"(?=$|[/_-])"
)
_WIREGUARD = frozenset({"wireguard", "wg-easy", "wg", "nordlynx"})
#: The tunnel types that an image's name gives away by itself.
_TYPES = {
    "wireguard": "wireguard",
    "wg-easy": "wireguard",
    "wg": "wireguard",
    "nordlynx": "wireguard",
    "openvpn": "openvpn",
    "tailscale": "tailscale",
    "zerotier": "zerotier",
    "netbird": "netbird",
}


def _vpn_kind(c: ProjectClaims, name: str) -> str | None:
    image = c.images.get(name)
    match = _VPN.search(image[0].repository) if image is not None else None
    return match[1] if match is not None else None


def _tunnel(c: ProjectClaims, service: str, kind: str) -> NodeRef | None:
    _, image = c.images[service]
    ref = NodeRef("VPNTunnel", (ids.digest(c.source.namespace, c.scope, service),), service)
    said = {"name": service, "type": _TYPES.get(kind), "declared": True}
    return c.node(ref, image, said, declared=True, confidence=0.8)


def claim_vpn(c: ProjectClaims, ref: NodeRef, name: str, node: Node) -> None:
    """A service uses the tunnel whose service lends it its network, or the one that it runs itself."""
    mode = node.scalar("network_mode")
    if mode is not None and mode.text.startswith("service:"):
        via = mode.text.removeprefix("service:")
        kind = _vpn_kind(c, via)
        if kind is not None and via != name:
            c.edge("USES_VPN", ref, _tunnel(c, via, kind), mode, "compose_vpn", confidence=0.8)
    kind = _vpn_kind(c, name)
    capabilities = node.get("cap_add")
    if kind in _WIREGUARD and kind is not None and capabilities is not None:
        added = {item.text.upper().removeprefix("CAP_") for item in capabilities.each()}
        if "NET_ADMIN" in added:
            c.edge(
                "USES_VPN",
                ref,
                _tunnel(c, name, kind),
                c.images[name][1],
                "compose_vpn",
                end_basis=Basis.DERIVED,
                confidence=0.8,
            )


#: Replicas of one service that become containers of their own.
MAX_REPLICAS = 100
_RESTARTS = {
    "none": "no",
    "no": "no",
    "false": "no",
    "any": "always",
    "always": "always",
    "on-failure": "on-failure",
    "unless-stopped": "unless-stopped",
}


def claim_project(c: ProjectClaims) -> None:
    """Collect everything that the project says: first its names, then service by service."""
    services: list[tuple[str, Node, Node]] = []
    for name, (key, node) in c.project.services.items():
        if name.startswith("x-") and node.get("image") is None and node.get("build") is None:
            continue
        if SERVICE_NAME.fullmatch(name) is None or (node.kind != MAPPING and not node.is_null):
            c.report(key, "E_PARSE", "this is no service that Compose accepts; it is left out.")
            continue
        services.append((name, key, node))
        _names_of(c, name, node)
    labels = {name: all_labels(c, name, node) for name, _, node in services}
    for name, key, node in services:
        _declare(c, name, key, node, labels[name])
    claim_networks(c)
    proxy = find_proxy(c, services)
    routes = {name: traefik.read_labels(of_service) for name, of_service in labels.items()}
    rule = default_rule(services)
    for name, key, node in services:
        ref = c.service(name)
        claim_dependencies(c, ref, name, node)
        claim_builds(c, ref, name, key, node)
        claim_ports(c, ref, name, node)
        _containers(c, name, key, node)
        _report_volumes(c, node)
        claim_extra_hosts(c, node)
        claim_connections(c, ref, name, node, labels[name])
        claim_vpn(c, ref, name, node)
        claim_routes(c, ref, name, key, proxy, routes, rule)
    for name, marks in c.unresolved.items():
        c.amend(c.service(name), unresolved=marks)


def _names_of(c: ProjectClaims, name: str, node: Node) -> None:
    c.answering[name] = name
    image = node.scalar("image")
    if image is not None and not image.missing:
        reference = try_reference(image.text)
        if reference is not None:
            c.images[name] = (reference, image)


#: Lists and mappings whose items are marked one by one, or not at all.
_WHOLE = ("ports", "volumes", "environment")


def _declare(c: ProjectClaims, name: str, key: Node, node: Node, labels: Mapping[str, Entry]) -> None:
    container = node.scalar("container_name")
    alias = None if container is None or c.mark(name, "container_name", container) else container.text
    for other in (_container_name(c, name, 1, node), *_network_aliases(node)):
        if other:
            c.answering.setdefault(other, name)
    for field in _WHOLE:
        whole = node.scalar(field)
        if whole is not None:
            # What a list or a mapping holds that stands elsewhere, nobody knows.
            c.mark(name, field, whole)
    image = c.images.get(name)
    port = _first_port(node)
    profiles = node.get("profiles")
    c.node(
        c.service(name),
        key,
        {
            "schemaVersion": SCHEMA_VERSION,
            "version": version_of(image[0]) if image is not None else None,
            "protocol": port[1] if port else None,
            "port": port[0] if port else None,
            "profiles": list(dict.fromkeys(p.text for p in profiles.each()))
            if profiles is not None
            else None,
            "restart": _restart(c, name, node)[0],
            "containerName": alias,
            "description": described((label, value.text) for label, (_, value) in labels.items())
            or _remark(key),
        },
        declared=True,
        # In a stack of Swarm it is called so outside of its file.
        aliases=[other for other in (alias, c.stack_name(name)) if other and other != name],
    )


def _remark(key: Node) -> str | None:
    """What the comment above a service says of it, if that is more than its name."""
    remark = description(comment_above(key))
    return remark if remark is not None and " " in remark else None


def _names(c: ProjectClaims, name: str, node: Node) -> Iterator[str]:
    """The names of a service's containers besides its own: that of the container, given or made, of the
    machine that it takes itself for, and of the service in a stack of Swarm."""
    if container := _container_name(c, name, 1, node):
        yield container
    hostname = node.scalar("hostname")
    if hostname is not None and not hostname.missing and hostname.text:
        yield hostname.text
    yield c.stack_name(name)


def _container_name(c: ProjectClaims, name: str, index: int, node: Node) -> str | None:
    """The name of a service's container, given or as Compose makes it; None where it is set elsewhere."""
    given = node.scalar("container_name") if index == 1 else None
    if given is None:
        return c.container_name(name, index)
    return None if given.missing else given.text


def _lent(c: ProjectClaims, node: Node) -> tuple[str, Node] | None:
    """The service of the project whose network a service uses, and where it says so."""
    mode = node.scalar("network_mode")
    via = mode.text.removeprefix("service:") if mode is not None and mode.text.startswith("service:") else ""
    return (via, mode) if mode is not None and via in c.project.services else None


def _network_aliases(node: Node) -> Iterator[str]:
    networks = node.get("networks")
    for _, network in networks.entries.values() if networks is not None else ():
        aliases = network.get("aliases")
        if aliases is not None:
            yield from (a.text for a in aliases.each() if not a.missing)


def _first_port(node: Node) -> tuple[int, str] | None:
    for field in ("ports", "expose"):
        entries = node.get(field)
        for item in entries.items if entries is not None else ():
            if (port := target_port(item)) is not None:
                return port
    return None


def _restart(c: ProjectClaims, name: str, node: Node) -> tuple[str | None, str | None]:
    """The policy as written, and as the model names it. ``deploy.restart_policy`` counts more, as Compose has
    it.
    """
    deploy = node.get("deploy")
    policy = deploy.get("restart_policy") if deploy is not None else None
    written = policy.scalar("condition") if policy is not None else node.scalar("restart")
    if written is None:
        return ("any", "always") if policy is not None else (None, None)
    if c.mark(name, "restart", written):
        return None, None
    return written.text, _RESTARTS.get(written.text.partition(":")[0].strip().lower())


def _replicas(c: ProjectClaims, node: Node) -> int:
    deploy = node.get("deploy")
    written = node.scalar("scale") or (deploy.scalar("replicas") if deploy is not None else None)
    text = resolved(written) if written is not None else ""
    if written is None or not (text.isascii() and text.isdecimal()) or len(text) > 9:
        return 1
    count = int(text)
    if count > MAX_REPLICAS:
        c.report(written, "E_TOO_LARGE", f"only the first {MAX_REPLICAS} replicas are kept.")
    return min(count, MAX_REPLICAS)


_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+", re.ASCII)


def _report_volumes(c: ProjectClaims, node: Node) -> None:
    """Say which volumes a service mounts that its project does not declare, which Compose refuses."""
    volumes = node.get("volumes")
    for item in volumes.items if volumes is not None else ():
        if item.is_map:
            type_, quoted = item.scalar("type"), item.scalar("source")
            name = quoted.text if quoted is not None and type_ is not None and type_.text == "volume" else ""
        else:
            quoted = item
            name = item.text.partition(":")[0] if ":" in item.text else ""
        undeclared = _VOLUME.fullmatch(name) and name not in c.project.volumes
        if undeclared and quoted is not None and not quoted.missing:
            c.report(quoted, "E_NOT_FOUND", "the volume is not declared in the project.")


def _containers(c: ProjectClaims, name: str, key: Node, node: Node) -> None:
    container = node.scalar("container_name")
    image = c.images.get(name)
    joined = list(memberships(c, name, key, node))
    service = c.service(name)
    called = (name, *_names(c, name, node))
    for m in joined:
        if m.network is not None:
            c.reach(service, m.network.key[0], (*called, *m.aliases, *m.addresses), m.quoted)
    lent = _lent(c, node)
    if lent is not None:
        # Whose network it uses, on that one's networks it is; what answers there is the other one.
        via, quoted = lent
        for m in memberships(c, via, *c.project.services[via]):
            if m.network is not None:
                c.reach(service, m.network.key[0], (), quoted)
    restart = _restart(c, name, node)[1]
    mounted = mounts(c, node)
    for index in range(1, _replicas(c, node) + 1):
        title = _container_name(c, name, index, node)
        ref = NodeRef(
            "Container", (ids.container_id(c.source.namespace, c.scope, name, index),), title or name
        )
        c.node(
            ref,
            container if container is not None and title is not None and index == 1 else key,
            {
                "name": title,
                "image": image[1].text if image is not None else None,
                "composeProject": c.project.name,
                "composeService": name,
                "declared": True,
                "mounts": mounted,
            },
            declared=True,
        )
        for m in joined:
            c.edge(
                "RUNS_IN",
                ref,
                m.network,
                m.quoted,
                "compose_networks",
                end_basis=m.basis,
                networkMode=m.mode,
                aliases=m.aliases,
                external=m.external,
            )
        if c.claim_host(key) is not None:
            c.edge("RUNS", ref, c.host, key, "compose_host", end_basis=Basis.SOURCE, restartPolicy=restart)
        for machine, quote in c.machines:
            c.edge("RUNS", ref, c.node(machine, quote), quote, "ansible_play", restartPolicy=restart)


class ComposeExtractor:
    """Docker Compose projects by the Compose specification, read into the graph as ``graph-mapping`` has it.

    It is deterministic and raises nothing on any input: what cannot be read is a problem of its result.
    """

    name = "compose"
    version = "24"

    def units(self, paths: Collection[str]) -> list[UnitSpec]:
        """Candidates from the listing alone: a directory's default file with its override is one unit, every
        other YAML file is one by itself. Sorted by the path of the main file, which is the unit's name."""
        return [UnitSpec(files[0], files) for files in group_units(paths)]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """The claims of one unit; empty if its main file is no Compose file. Evidence is in code points of
        what ``view.read`` returned for the claim's file."""
        main = unit.files[0]
        found = self._interpret(main, unit, view, source)
        if main == filled(main):
            return found
        # Of a template it is not known what is written where its loops and values stand.
        problems = (replace(p, code="E_UNRESOLVED") if p.code == "E_PARSE" else p for p in found.problems)
        return replace(found, problems=tuple(problems))

    def _interpret(self, main: str, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        loader = Loader(view)
        chosen = select(loader, unit.files, source.folder or source.source_id)
        project = loader.load(
            chosen.files,
            chosen.base,
            chosen.environment,
            chosen.name,
            default=chosen.default,
            beside=chosen.beside,
        )
        if project is None:
            return Interpretation((), (), problems=loader.problems.listed())
        claims = ProjectClaims(project, loader, source)
        if claims.host is None:
            claims.machines = [(NodeRef("Host", (h,), h), q) for h, q in hosts_of(main, view, source)]
        claim_project(claims)
        for variable in loader.unset:
            loader.problems.add(Problem(main, "E_UNSET", f"{variable_called(variable)} has no value."))
        return claims.result(loader.subordinates - {main}, loader.environment_files)
