"""What a project says in the graph: one claim per statement, each with the YAML node that makes it."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from taboot_pipelines.extraction.tier_a.compose import merging, traefik
from taboot_pipelines.extraction.tier_a.compose.dockerfile import base_images
from taboot_pipelines.extraction.tier_a.compose.loading import Loader, Project, resolve_path
from taboot_pipelines.extraction.tier_a.compose.nodes import MAPPING, SCALAR, SEQUENCE, Entry, Node, with_text
from taboot_pipelines.extraction.tier_a.compose.ports import read_ports
from taboot_pipelines.extraction.tier_a.images import ImageReference, try_reference
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import (
    NETWORK_MODES,
    SCHEMA_VERSION,
    SCHEMES,
    Basis,
    is_cidr,
    is_hostname,
    is_public,
)
from taboot_pipelines.model.records import EdgeClaim, Evidence, NodeClaim, NodeRef, Problem, SourceFacts

#: Replicas of one service that become containers of their own, and bindings of one project.
MAX_REPLICAS = 100
MAX_BINDINGS = 100_000

_SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}", re.ASCII)
_VERSION_TAG = re.compile(r"(?:v|version-|release[.-])?\d", re.IGNORECASE)
_RESTARTS = {"none": "no", "no": "no", "false": "no", "any": "always", "always": "always", "on-failure": "on-failure", "unless-stopped": "unless-stopped"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^\s/?#\"'<>\\;]+)")
_AUTHORITY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::(?:(\d{1,5})|\$.*))?", re.ASCII)
_HOST_PORT = re.compile(r"(?:^|(?<=[\s=,;@\"'(\[|]))([A-Za-z0-9][A-Za-z0-9._-]*):(\d{1,5})(?=$|[\s,;/\"')\]|?&])", re.ASCII)
_REMOTE_CONTEXT = re.compile(r"[a-z+]+://|git@|github\.com/", re.IGNORECASE)
_VPN = re.compile(
    r"(?:^|[/_-])(wireguard|wg-easy|wg|gluetun|openvpn|nordvpn|nordlynx|protonvpn|mullvad|surfshark|tailscale|headscale|zerotier|netbird|vpn)(?=$|[/_-])"
)
_WIREGUARD = frozenset({"wireguard", "wg-easy", "wg", "nordlynx"})
#: The tunnel types that an image's name gives away by itself.
_TUNNEL_TYPES = {"wireguard": "wireguard", "wg-easy": "wireguard", "wg": "wireguard", "nordlynx": "wireguard", "openvpn": "openvpn",
                 "tailscale": "tailscale", "zerotier": "zerotier", "netbird": "netbird"}


def quote(node: Node) -> str:
    return node.origin.text[node.start : node.end]


def evidence(node: Node) -> Evidence:
    return Evidence(node.origin.path, node.start, node.end)


class Claims:
    """Collects the claims of one project, in the order of its files."""

    def __init__(self, project: Project, loader: Loader, source: SourceFacts) -> None:
        self.project = project
        self.loader = loader
        self.source = source
        host = (source.host or "").lower().rstrip(".")
        self.host = NodeRef("Host", (host,), host) if is_hostname(host) else None
        self.place = host or source.source_id
        self.scope = f"{self.place}/{project.name}"
        self.nodes: dict[tuple[str, tuple[Any, ...]], NodeClaim] = {}
        self.edges: dict[tuple[Any, ...], EdgeClaim] = {}
        self.bindings = 0
        #: name in the project's networks -> the Compose service that answers to it
        self.answering: dict[str, str] = {}
        self.images: dict[str, tuple[ImageReference, Node]] = {}
        self.unresolved: dict[str, list[str]] = {}

    # --- collecting ----------------------------------------------------------------------------------------------

    def node(self, ref: NodeRef, where: Evidence, properties: Mapping[str, Any] | None = None, *, declared: bool = False,
             aliases: tuple[str, ...] = (), confidence: float = 1.0) -> NodeRef:
        given = {k: v for k, v in (properties or {}).items() if v is not None and v != []}
        self.nodes.setdefault((ref.label, ref.key), NodeClaim(ref, where, given, declared, aliases, confidence))
        return ref

    def edge(self, type_: str, start: NodeRef, end: NodeRef, node: Node, method: str, end_basis: Basis | None = None, *,
             where: Evidence | None = None, start_basis: Basis = Basis.DERIVED, confidence: float = 1.0, **properties: Any) -> None:
        """``end_basis`` None: ``bytes`` if the end's name stands in the quote, else ``derived``."""
        if end_basis is None:
            end_basis = Basis.BYTES if end.name in quote(node) else Basis.DERIVED
        given = {k: v for k, v in properties.items() if v is not None and v != []}
        claim = EdgeClaim(type_, start, end, where or evidence(node), method, start_basis, end_basis, given, confidence)
        self.edges.setdefault((type_, start, end, claim.evidence, method, ids.composite(given)), claim)

    def report(self, node: Node, code: str, what: str) -> None:
        self.loader.problems.at(node, code, what)

    def service(self, name: str, scope: str | None = None) -> NodeRef:
        return NodeRef("Service", (self.scope if scope is None else scope, name), name)

    def mark(self, service: str, what: str, node: Node) -> bool:
        """Note that a field of a service could not be resolved; True if so."""
        if not node.missing:
            return False
        marks = self.unresolved.setdefault(service, [])
        for name in node.missing:
            mark = f"{what}: ${{{name}}}" if name not in ("", "$") else f"{what}: $"
            if mark not in marks:
                marks.append(mark)
        return True

    # --- the project -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        services: list[tuple[str, Node, Node]] = []
        for name, (key, node) in self.project.services.items():
            if name.startswith("x-") and node.get("image") is None and node.get("build") is None:
                continue
            if _SERVICE_NAME.fullmatch(name) is None or (node.kind != MAPPING and not node.is_null):
                self.report(key, "E_PARSE", "this is no service that Compose accepts; it is left out.")
                continue
            services.append((name, key, node))
            self._names_of(name, node)
        for name, key, node in services:
            self._declare(name, key, node)
        self._networks()
        proxy = self._proxy(services)
        routes = {name: traefik.read_labels(self._labels(node)) for name, _, node in services}
        for name, key, node in services:
            ref = self.service(name)
            self._dependencies(ref, name, node)
            self._builds(ref, name, key, node)
            self._ports(ref, name, node)
            self._containers(name, key, node)
            self._extra_hosts(node)
            self._connections(ref, name, node)
            self._vpn(ref, name, node)
            self._routes(ref, name, key, proxy, routes)
        for name, marks in self.unresolved.items():
            found = self.nodes[("Service", (self.scope, name))]
            self.nodes[("Service", (self.scope, name))] = NodeClaim(
                found.node, found.evidence, {**found.properties, "unresolved": marks}, found.declared, found.aliases, found.confidence
            )

    def _names_of(self, name: str, node: Node) -> None:
        self.answering[name] = name
        image = node.scalar("image")
        if image is not None and not image.missing:
            reference = try_reference(image.text)
            if reference is not None:
                self.images[name] = (reference, image)

    def _declare(self, name: str, key: Node, node: Node) -> None:
        container = node.scalar("container_name")
        alias = None if container is None or self.mark(name, "container_name", container) else container.text
        for other in (alias, f"{self.project.name}-{name}-1", *self._network_aliases(node)):
            if other:
                self.answering.setdefault(other, name)
        image = self.images.get(name)
        port = self._first_port(node)
        profiles = node.get("profiles")
        self.node(self.service(name), evidence(key), {
            "schemaVersion": SCHEMA_VERSION,
            "version": image[0].tag if image is not None and image[0].tag and _VERSION_TAG.match(image[0].tag) else None,
            "protocol": port[1] if port else None,
            "port": port[0] if port else None,
            "profiles": [p.text for p in profiles.each()] if profiles is not None else None,
            "restart": self._restart(node)[0],
            "containerName": alias,
        }, declared=True, aliases=(alias,) if alias and alias != name else ())

    def _network_aliases(self, node: Node) -> Iterator[str]:
        networks = node.get("networks")
        for _, network in networks.entries.values() if networks is not None else ():
            aliases = network.get("aliases")
            if aliases is not None:
                yield from (a.text for a in aliases.each() if not a.missing)

    def _first_port(self, node: Node) -> tuple[int, str] | None:
        for field in ("ports", "expose"):
            entries = node.get(field)
            for item in entries.items if entries is not None else ():
                ports = read_ports(item)
                if ports is not None:
                    return ports.bindings[0].target, ports.bindings[0].protocol
        return None

    def _restart(self, node: Node) -> tuple[str | None, str | None]:
        """The policy as written, and as the model names it. ``deploy.restart_policy`` counts more, as Compose has it."""
        policy = (node.get("deploy") or node).get("restart_policy") if node.get("deploy") is not None else None
        written = policy.scalar("condition") if policy is not None else node.scalar("restart")
        if written is None:
            return ("any", "always") if policy is not None else (None, None)
        if written.missing:
            return None, None
        return written.text, _RESTARTS.get(written.text.partition(":")[0].strip().lower())

    # --- networks ----------------------------------------------------------------------------------------------------

    def _network_ref(self, name: str) -> NodeRef:
        return NodeRef("Network", (f"{self.place}/{name}",), name)

    def _real_network(self, name: str) -> tuple[str | None, Node | None]:
        """The real name of a network of the project, None if it cannot be known, and its declaration."""
        entry = self.project.networks.get(name)
        if entry is None:
            return f"{self.project.name}_{name}", None
        _, node = entry
        external = node.get("external")
        written = node.scalar("name") or (external.scalar("name") if external is not None and external.is_map else None)
        if written is not None:
            return (None if written.missing else written.text), node
        is_external = external is not None and (external.is_map or external.boolean())
        return (name if is_external else f"{self.project.name}_{name}"), node

    def _networks(self) -> None:
        for name, (key, node) in self.project.networks.items():
            if name.startswith("x-") or name == "":
                continue
            real, _ = self._real_network(name)
            if real is None:
                self.report(key, "E_PARSE", "the network's real name holds a variable without a value; it is left out.")
                continue
            external = node.get("external")
            driver = node.scalar("driver")
            ipam = node.get("ipam")
            config = ipam.get("config") if ipam is not None else None
            subnets = [s for item in (config.items if config is not None else ()) if (s := item.scalar("subnet")) is not None]
            cidrs = list(dict.fromkeys(s.text for s in subnets if is_cidr(s.text)))
            is_external = external is not None and (external.is_map or external.boolean())
            self.node(self._network_ref(real), evidence(key), {
                "name": real,
                "driver": driver.text if driver is not None and not driver.missing else None,
                "external": is_external,
                "cidrs": cidrs,
                "isPublic": any(is_public(c) for c in cidrs) if cidrs else None,
            }, declared=True)

    def _memberships(self, name: str, key: Node, node: Node) -> Iterator[tuple[NodeRef, Node, Basis | None, str | None, list[str]]]:
        """(network, quoted node, basis, networkMode, aliases) of a service's containers."""
        mode = node.scalar("network_mode")
        if mode is not None:
            if self.mark(name, "network_mode", mode) or mode.text.startswith(("service:", "container:")) or mode.text == "none":
                return
            network = "bridge" if mode.text == "default" else mode.text
            ref = self._network_ref(network)
            builtin = network in ("host", "bridge")
            self.node(ref, evidence(mode), {"name": network, "driver": network if builtin else None})
            yield ref, mode, None, network if builtin else "custom", []
            return
        networks = node.get("networks")
        entries = merging.names(networks)
        if not entries:
            default = self._default_network(key)
            if default is not None:
                yield default, key, Basis.DERIVED, self._driver("default"), []
            return
        for network, (network_key, options) in entries.items():
            if network_key.missing:
                self.mark(name, "networks", network_key)
                continue
            real, declaration = self._real_network(network)
            if real is None or network == "":
                continue
            if declaration is None and network not in self.project.networks:
                if network == "default":
                    default = self._default_network(key)
                    if default is not None:
                        yield default, network_key, None, self._driver("default"), []
                    continue
                self.report(network_key, "E_NOT_FOUND", "the network is not declared in the project.")
            ref = self.node(self._network_ref(real), evidence(network_key), {"name": real})
            aliases = options.get("aliases")
            yield ref, network_key, None, self._driver(network), [a.text for a in aliases.each() if not a.missing] if aliases is not None else []

    def _default_network(self, key: Node) -> NodeRef | None:
        real, declaration = self._real_network("default")
        if real is None:
            return None
        return self.node(self._network_ref(real), evidence(key), {"name": real, "driver": "bridge" if declaration is None else None}, declared=True)

    def _driver(self, name: str) -> str | None:
        """The mode that a network's driver gives; None for an external network, whose driver is not said."""
        entry = self.project.networks.get(name)
        driver = entry[1].scalar("driver") if entry is not None else None
        if driver is not None:
            return driver.text if driver.text in NETWORK_MODES else "custom"
        external = entry[1].get("external") if entry is not None else None
        return None if external is not None and (external.is_map or external.boolean()) else "bridge"

    # --- containers --------------------------------------------------------------------------------------------------

    def _replicas(self, node: Node) -> int:
        deploy = node.get("deploy")
        written = (deploy.scalar("replicas") if deploy is not None else None) or node.scalar("scale")
        if written is None or not written.text.isdecimal() or len(written.text) > 9:
            return 1
        count = int(written.text)
        if count > MAX_REPLICAS:
            self.report(written, "E_TOO_LARGE", f"only the first {MAX_REPLICAS} replicas are kept.")
        return min(count, MAX_REPLICAS)

    def _containers(self, name: str, key: Node, node: Node) -> None:
        container = node.scalar("container_name")
        image = self.images.get(name)
        memberships = list(self._memberships(name, key, node))
        restart = self._restart(node)[1]
        for index in range(1, self._replicas(node) + 1):
            own = container is not None and not container.missing and index == 1
            title = container.text if own and container is not None else f"{self.project.name}-{name}-{index}"
            ref = NodeRef("Container", (ids.digest(self.source.namespace, self.scope, name, index),), title)
            self.node(ref, evidence(container if own and container is not None else key), {
                "name": title,
                "image": image[1].text if image is not None else None,
                "composeProject": self.project.name,
                "composeService": name,
                "declared": True,
            }, declared=True)
            for network, quoted, basis, mode, aliases in memberships:
                self.edge("RUNS_IN", ref, network, quoted, "compose_networks", basis, networkMode=mode, aliases=aliases)
            if self.host is not None:
                self.node(self.host, evidence(key), declared=True)
                self.edge("RUNS", ref, self.host, key, "compose_host", Basis.SOURCE, restartPolicy=restart)

    # --- dependencies ------------------------------------------------------------------------------------------------

    def _depend(self, ref: NodeRef, target: str, quoted: Node, method: str, *, project: bool = True, **properties: Any) -> None:
        if _SERVICE_NAME.fullmatch(target) is None:
            self.report(quoted, "E_PARSE", "this does not name a service or container.")
            return
        end = self.service(target, None if project else "")
        if end == ref:
            return
        if project and target not in self.project.services:
            self.report(quoted, "E_NOT_FOUND", "the service is not declared in the project.")
        self.node(end, evidence(quoted), {"schemaVersion": SCHEMA_VERSION})
        self.edge("DEPENDS_ON", ref, end, quoted, method, **properties)

    def _dependencies(self, ref: NodeRef, name: str, node: Node) -> None:
        depends = node.get("depends_on")
        for target, (key, options) in merging.names(depends).items():
            if self.mark(name, "depends_on", key):
                continue
            condition, required, restart = (options.scalar(k) for k in ("condition", "required", "restart"))
            self._depend(
                ref, target, key, "compose_depends_on",
                condition=condition.text if condition is not None and not condition.missing else None,
                required=required.boolean(default=True) if required is not None else None,
                restart=restart.boolean() if restart is not None else None,
            )
        for field, project in (("links", True), ("external_links", False)):
            links = node.get(field)
            for item in links.each() if links is not None else ():
                if not self.mark(name, field, item):
                    self._depend(ref, item.text.partition(":")[0].lstrip("/"), item, f"compose_{field}", project=project)
        volumes = node.get("volumes_from")
        for item in volumes.each() if volumes is not None else ():
            if not self.mark(name, "volumes_from", item):
                container = item.text.startswith("container:")
                target = item.text.removeprefix("container:").partition(":")[0]
                self._depend(ref, target, item, "compose_volumes_from", project=not container)
        for field in ("network_mode", "ipc", "pid"):
            mode = node.scalar(field)
            if mode is None:
                continue
            kind, colon, target = mode.text.partition(":")
            if colon and kind in ("service", "container") and not self.mark(name, field, mode):
                self._depend(ref, target, mode, f"compose_{field}", project=kind == "service")

    # --- images ------------------------------------------------------------------------------------------------------

    def _image(self, reference: ImageReference, written: str, where: Evidence) -> NodeRef:
        return self.node(NodeRef("Image", (reference.image_id,), reference.name), where, {
            "name": reference.name, "registry": reference.registry, "repository": reference.repository, "tag": reference.tag,
            "digest": reference.digest, "reference": written, "declared": True,
        })

    def _builds(self, ref: NodeRef, name: str, key: Node, node: Node) -> None:
        image = node.scalar("image")
        known = self.images.get(name)
        if image is not None and known is None and not self.mark(name, "image", image):
            self.report(image, "E_PARSE", "the image reference does not follow the OCI grammar.")
        build = node.get("build")
        if build is None:
            if known is not None and image is not None:
                end = self._image(known[0], image.text, evidence(image))
                self.edge("BUILDS", ref, end, image, "compose_image", _written(end, image))
            return
        context = build if build.kind == SCALAR else build.scalar("context")
        inline = build.scalar("dockerfile_inline")
        dockerfile = build.scalar("dockerfile")
        target = build.scalar("target")
        arguments = merging.pairs(build.get("args"))
        said = context or dockerfile or inline or node.entries["build"][0]
        for what, part in (("build", context), ("build.dockerfile", dockerfile), ("build.target", target)):
            if part is not None:
                self.mark(name, what, part)
        details: dict[str, Any] = {
            "dockerfile": dockerfile.text if dockerfile is not None else None,
            "target": target.text if target is not None else None,
            "buildArgs": sorted(a for a in arguments if a),
        }
        if known is not None and image is not None:
            end = self._image(known[0], image.text, evidence(image))
            self.edge("BUILDS", ref, end, image, "compose_build", _written(end, image), **details)
        elif image is None:
            written = f"{self.project.name}-{name}".lower()
            reference = try_reference(written)
            if reference is None:
                self.report(key, "E_PARSE", "the service's name gives no image name for its build.")
            else:
                end = self._image(reference, written, evidence(said))
                self.edge("BUILDS", ref, end, said, "compose_build", Basis.DERIVED, **details)
        self._base_images(ref, name, build, context, dockerfile, inline, arguments)

    def _base_images(self, ref: NodeRef, name: str, build: Node, context: Node | None, dockerfile: Node | None, inline: Node | None,
                     arguments: Mapping[str, Entry]) -> None:
        values = {k: (None if v.missing else self.project.environment.get(k) if v.is_null else v.text) for k, (_, v) in arguments.items()}
        if inline is not None:
            text, path, place = inline.text, None, inline
        else:
            found = dockerfile_path(context, dockerfile)
            read = self.loader.read(found)
            if read is None or found is None:
                return
            text, path, place = read, found, build
        replaced = {k: v.text for k, (_, v) in merging.pairs(build.get("additional_contexts")).items()}
        for base in base_images(text, values):
            written = base.reference
            if written in replaced:
                if not replaced[written].startswith("docker-image://"):
                    continue
                written = replaced[written].removeprefix("docker-image://")
            reference = None if base.missing else try_reference(written)
            if reference is None:
                if base.missing:
                    self.mark(name, "FROM", with_text(place, "", base.missing))
                elif path is not None:
                    self.loader.problems.add(_dockerfile_problem(path, text, base.start))
                continue
            where = evidence(place) if path is None else Evidence(path, base.start, base.end)
            end = self._image(reference, written, where)
            said = quote(place) if path is None else text[base.start : base.end]
            basis = Basis.BYTES if end.name in said else Basis.NORMALIZED if written in said else Basis.DERIVED
            self.edge("BUILDS", ref, end, place, "dockerfile_from", basis, where=where, dockerfile=path, stage=base.stage)

    # --- ports and names -----------------------------------------------------------------------------------------------

    def _ports(self, ref: NodeRef, name: str, node: Node) -> None:
        entries = node.get("ports")
        if entries is None:
            return
        if entries.kind != SEQUENCE:
            self.report(entries, "E_PARSE", "`ports` is not a list.")
            return
        for item in entries.items:
            parts = [item] if item.kind == SCALAR else [v for _, v in item.entries.values()]
            if sum(self.mark(name, "ports", part) for part in parts):
                continue
            ports = read_ports(item)
            if ports is None:
                self.report(item, "E_PARSE", "this is no port that Compose accepts.")
                continue
            if ports.open:
                self.report(item, "E_PARSE", "a range is published for one port: which of them is taken is not said.")
            for binding in ports.bindings:
                if binding.published is None:
                    continue
                self.bindings += 1
                if self.bindings > MAX_BINDINGS:
                    self.report(item, "E_TOO_LARGE", f"only the first {MAX_BINDINGS} bindings of the project are kept.")
                    return
                if self.host is not None:
                    end, basis = self.host, Basis.SOURCE
                    self.node(end, evidence(item), declared=True)
                else:
                    end = self._ip(binding.host_ip or "0.0.0.0", item)
                    basis = Basis.DERIVED if binding.host_ip is None else Basis.BYTES if end.name in quote(item) else Basis.NORMALIZED
                self.edge("BINDS", ref, end, item, "compose_ports", basis, port=binding.published, protocol=binding.protocol,
                          targetPort=binding.target, hostIp=binding.host_ip)

    def _ip(self, address: str, node: Node) -> NodeRef:
        return self.node(NodeRef("IP", (address,), address), evidence(node), {"isPublic": is_public(address)})

    def _extra_hosts(self, node: Node) -> None:
        hosts = node.get("extra_hosts")
        if hosts is None:
            return
        for name, address, quoted, where in _host_entries(hosts):
            hostname = name.strip().lower().rstrip(".")
            try:
                parsed = ipaddress.ip_address(address.strip().strip("[]"))
            except ValueError:
                if address.strip() != "host-gateway" and not quoted.missing:
                    self.report(quoted, "E_PARSE", "this is no address of a host.")
                continue
            if not is_hostname(hostname) or "%" in address:
                if not quoted.missing:
                    self.report(quoted, "E_PARSE", "this is no host name.")
                continue
            said = quoted.origin.text[where.start : where.end]
            start = self.node(NodeRef("Host", (hostname,), hostname), where)
            end = self._ip(str(parsed), quoted)
            self.edge(
                "RESOLVES_TO", start, end, quoted, "compose_extra_hosts",
                Basis.BYTES if end.name in said else Basis.NORMALIZED if address.strip() in said else Basis.DERIVED, where=where,
                start_basis=Basis.BYTES if hostname in said else Basis.NORMALIZED if name.strip() in said else Basis.DERIVED,
                recordType="A" if parsed.version == 4 else "AAAA",
            )

    # --- connections -----------------------------------------------------------------------------------------------------

    def _connections(self, ref: NodeRef, name: str, node: Node) -> None:
        links = node.get("links")
        local = {a: t for t, _, a in (i.text.partition(":") for i in (links.each() if links is not None else ())) if a}
        for text, quoted in self._texts(node):
            for scheme, host, port in named_hosts(text):
                target = self.answering.get(host) or local.get(host)
                if target is None or target == name or target not in self.project.services:
                    continue
                end = self.service(target)
                self.edge("CONNECTS_TO", ref, end, quoted, "compose_env_url", confidence=0.9, protocol=scheme, port=port)
            if quoted.missing and "://" in text:
                self.mark(name, "url", quoted)

    def _texts(self, node: Node) -> Iterator[tuple[str, Node]]:
        environment = node.get("environment")
        own = merging.pairs(environment)
        for variable, (_, value) in own.items():
            # An image reference has the form of a host and a port.
            if value.kind == SCALAR and "IMAGE" not in variable.upper():
                yield value.text, value
        for variable, text, quoted in self._file_values(node.get("env_file")):
            if variable not in own and "IMAGE" not in variable.upper():
                yield text, quoted
        for field in ("command", "entrypoint"):
            part = node.get(field)
            for value in part.each() if part is not None else ():
                yield value.text, value
        for _, value in self._labels(node).values():
            yield value.text, value

    def _file_values(self, files: Node | None) -> Iterator[tuple[str, str, Node]]:
        """(name, value, the node that names the file) of `env_file` or `label_file`."""
        for item in (files.items if files.kind == SEQUENCE else [files]) if files is not None else ():
            node = item if item.kind == SCALAR else item.scalar("path")
            if node is None or node.missing:
                continue
            path = resolve_path(node.origin.base, node.text)
            form = item.scalar("format")
            values = self.loader.read_environment(path, self.project.environment, raw=form is not None and form.text == "raw")
            if values is None:
                required = item.get("required")
                if required is None or required.boolean(default=True):
                    self.report(node, "E_NOT_FOUND", "the file is not in the source.")
                continue
            for variable, value in values.items():
                if value is not None:
                    yield variable, value, node

    def _labels(self, node: Node) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for name, text, quoted in self._file_values(node.get("label_file")):
            found[name] = (quoted, with_text(quoted, text, plain=False))
        deploy = node.get("deploy")
        for labels in (node.get("labels"), deploy.get("labels") if deploy is not None else None):
            if labels is not None:
                found.update((k, e) for k, e in merging.pairs(labels).items() if e[1].kind == SCALAR)
        return found

    # --- proxies and tunnels -------------------------------------------------------------------------------------------

    def _proxy(self, services: list[tuple[str, Node, Node]]) -> tuple[NodeRef, Evidence | None, dict[str, Any], Basis]:
        for name, _, _ in services:
            image = self.images.get(name)
            if image is not None and image[0].repository.rpartition("/")[2] == "traefik":
                tag = image[0].tag
                version = tag if tag and _VERSION_TAG.match(tag) else None
                ref = NodeRef("ReverseProxy", (name,), name)
                properties = {"type": "traefik", "version": version}
                self.node(ref, evidence(image[1]), properties)
                return ref, evidence(image[1]), properties, Basis.DERIVED
        name = self.source.proxy or self.source.source_id
        return NodeRef("ReverseProxy", (name,), name), None, {"type": "traefik"}, Basis.SOURCE

    def _routes(self, ref: NodeRef, name: str, key: Node, proxy: tuple[NodeRef, Evidence | None, dict[str, Any], Basis],
                routes: Mapping[str, traefik.Labels]) -> None:
        own = routes[name]
        start, where, properties, basis = proxy
        for router in own.routers.values():
            quoted = router.rule or router.label or key
            if router.rule is not None and self.mark(name, "labels", router.rule):
                continue
            if router.rule is None and router.protocol != "udp":
                continue
            for end, balancer in self._balancers(ref, name, router, routes):
                found = traefik.targets(router.rule.text) if router.rule is not None else [traefik.Target(None, None, None)]
                if not found:
                    self.report(quoted, "E_PARSE", "the router's rule cannot be read.")
                self.node(start, where or evidence(quoted), properties)
                for target in found:
                    self.edge(
                        "ROUTES_TO", start, end, quoted, "compose_traefik_labels", start_basis=basis, host=target.host, path=target.path,
                        location=target.location, tls=router.tls, port=balancer.port if balancer is not None else None,
                        scheme=router.protocol if router.protocol != "http" else balancer.scheme if balancer is not None and balancer.scheme in SCHEMES else None,
                    )
        for balancer in own.balancers.values():
            scheme = (balancer.scheme or "http") if balancer.protocol == "http" else balancer.protocol
            scheme = "http" if scheme == "h2c" else scheme
            if balancer.port is None or balancer.node is None or scheme not in SCHEMES or not is_hostname(name):
                continue
            end = NodeRef("Endpoint", (scheme, name, balancer.port, "/"), f"{scheme}://{name}:{balancer.port}/")
            self.node(end, evidence(balancer.node))
            self.edge("EXPOSES_ENDPOINT", ref, end, balancer.node, "compose_traefik_labels", Basis.DERIVED)

    def _balancers(self, ref: NodeRef, name: str, router: traefik.Router, routes: Mapping[str, traefik.Labels]) -> list[tuple[NodeRef, traefik.Balancer | None]]:
        """The Compose services that a router leads to: those whose labels define its service, else its own."""
        own = routes[name].balancers
        if router.service is None:
            mine = [b for b in own.values() if b.protocol == router.protocol]
            return [(ref, mine[0] if len(mine) == 1 else None)]
        wanted, _, provider = router.service.lower().partition("@")
        if provider == "internal":
            return [(ref, None)]
        if provider not in ("", "docker", "swarm"):
            return []
        key = (router.protocol, wanted)
        found = [(self.service(other), labels.balancers[key]) for other, labels in routes.items() if key in labels.balancers]
        # A service that no label defines is the one Traefik makes of the container itself.
        return [(ref, own[key])] if key in own else list(found) or [(ref, None)]

    def _vpn_kind(self, name: str) -> str | None:
        image = self.images.get(name)
        match = _VPN.search(image[0].repository) if image is not None else None
        return match[1] if match is not None else None

    def _tunnel(self, service: str, kind: str) -> NodeRef:
        _, image = self.images[service]
        ref = NodeRef("VPNTunnel", (ids.digest(self.source.namespace, self.scope, service),), service)
        return self.node(ref, evidence(image), {"name": service, "type": _TUNNEL_TYPES.get(kind), "declared": True}, confidence=0.8)

    def _vpn(self, ref: NodeRef, name: str, node: Node) -> None:
        mode = node.scalar("network_mode")
        if mode is not None and mode.text.startswith("service:"):
            via = mode.text.removeprefix("service:")
            kind = self._vpn_kind(via)
            if kind is not None and via != name:
                self.edge("USES_VPN", ref, self._tunnel(via, kind), mode, "compose_vpn", confidence=0.8)
        kind = self._vpn_kind(name)
        capabilities = node.get("cap_add")
        if kind in _WIREGUARD and kind is not None and capabilities is not None:
            added = {c.text.upper().removeprefix("CAP_") for c in capabilities.each()}
            if "NET_ADMIN" in added:
                self.edge("USES_VPN", ref, self._tunnel(name, kind), self.images[name][1], "compose_vpn", Basis.DERIVED, confidence=0.8)


def named_hosts(text: str) -> list[tuple[str, str, int | None]]:
    """(protocol, host, port) of every URL, and of every ``host:port`` outside one, in order."""
    if ":" not in text:
        return []
    found: list[tuple[str, str, int | None]] = []
    rest = text
    if "://" in text:
        for match in _URL.finditer(text):
            for part in match[2].rpartition("@")[2].split(","):
                authority = _AUTHORITY.fullmatch(part)
                if authority is not None:
                    found.append((match[1].lower(), authority[1], _port(authority[2])))
        rest = _URL.sub(" ", text)
    for match in _HOST_PORT.finditer(rest):
        port = _port(match[2])
        if port is not None:
            found.append(("tcp", match[1], port))
    return found


def _port(text: str | None) -> int | None:
    return int(text) if text and 1 <= int(text) <= 65535 else None


def _written(end: NodeRef, node: Node) -> Basis:
    """The basis of an image: its normal form stands there, or what it is the normal form of, or only a variable."""
    said = quote(node)
    return Basis.BYTES if end.name in said else Basis.NORMALIZED if node.text in said else Basis.DERIVED


def dockerfile_path(context: Node | None, dockerfile: Node | None) -> str | None:
    """The Dockerfile's path from the source's root; None if it lies elsewhere or cannot be known."""
    if context is not None and (context.missing or _REMOTE_CONTEXT.match(context.text)):
        return None
    if dockerfile is not None and dockerfile.missing:
        return None
    place = context or dockerfile
    if place is None:
        return None
    directory = place.origin.base if context is None else resolve_path(context.origin.base, context.text)
    # Written with a slash at the front it is a path of the machine, not of the source.
    name = dockerfile.text if dockerfile is not None else "Dockerfile"
    return None if directory is None else resolve_path(directory, name)


def _dockerfile_problem(path: str, text: str, offset: int) -> Problem:
    line = text.count("\n", 0, offset) + 1
    return Problem(path, "E_PARSE", f"{posixpath.normpath(path)}, line {line}: FROM does not name an image that follows the OCI grammar.")


def _host_entries(hosts: Node) -> Iterator[tuple[str, str, Node, Evidence]]:
    """(name, address, node, statement) of `extra_hosts`: ``name:address``, ``name=address``, or a mapping."""
    if hosts.kind == MAPPING:
        for name, (key, value) in hosts.entries.items():
            for node in value.each():
                together = key.origin is node.origin and key.start < node.end
                yield name, node.text, node, Evidence(node.origin.path, key.start, node.end) if together else evidence(node)
        return
    for item in hosts.each():
        name, separator, address = item.text.partition("=")
        if not separator:
            name, separator, address = item.text.partition(":")
        yield name, address, item, evidence(item)

