"""Podman's quadlets: containers, pods, networks and what `podman kube play` publishes.

Podman makes a service of each: of ``x.container`` and ``x.kube`` ``x.service``, of ``x.pod``
``x-pod.service``. Containers and networks are called ``systemd-x`` where no name is given.

Reference: podman-systemd.unit(5).
"""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Iterator, Sequence

from taboot_pipelines.extraction.tier_a.claims import Quote
from taboot_pipelines.extraction.tier_a.compose.claims import version_of
from taboot_pipelines.extraction.tier_a.compose.connections import (
    asking_scheme,
    encryption,
    lone_hosts,
    named_hosts,
)
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.compose.networks import MAX_BINDINGS, Binding, read_ports
from taboot_pipelines.extraction.tier_a.images import ImageReference, try_reference
from taboot_pipelines.extraction.tier_a.systemd.units import Unit, UnitFile, drop_ins, parse, unit_name
from taboot_pipelines.extraction.tier_a.texts import untemplated
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Node, Origin
from taboot_pipelines.model import ids
from taboot_pipelines.model.graph import NETWORK_MODES, Basis, is_cidr, is_hostname, is_public
from taboot_pipelines.model.records import NodeRef

_RESTARTS = {"always": "always", "on-failure": "on-failure", "no": "no"}
#: Values of `Network=` that join no network of Podman's.
_NO_NETWORK = frozenset({"none", "private", "slirp4netns", "pasta", "ns"})
#: Quadlets of a folder that are looked at for the names of containers.
_MAX_SIBLINGS = 500


def claim_quadlet(unit: Unit) -> None:
    """Everything but the dependencies of a unit's section ``[Unit]``."""
    kind = unit.name.type
    if kind == "container":
        _claim_container(unit)
    elif kind == "pod":
        own = unit.file.last("Pod", "PodName")
        _declare(unit, "Pod", f"{unit.name.service}-pod", [own.text if own is not None else ""], {})
        _claim_ports(unit, "Pod")
    elif kind == "kube":
        _declare(unit, "Kube", unit.name.service, [], {})
        _claim_ports(unit, "Kube")
    elif kind == "network":
        _claim_network(unit)


def _declare(
    unit: Unit, section: str, name: str, aliases: list[str], properties: dict[str, str | int | None]
) -> None:
    given = unit.file.last(section, "ServiceName")
    if given is not None:
        named = unit_name(f"{given.text}.service")
        if named is None:
            unit.unresolved("ServiceName", given)
        else:
            name = named.service
    restart = unit.file.last("Service", "Restart")
    ports = _ports(unit, section)
    first = ports[0][1] if ports else None
    unit.declare(
        name,
        {
            "port": first.target if first is not None else None,
            "protocol": first.protocol if first is not None else None,
            "restart": restart.text if restart is not None else None,
            **properties,
        },
        [alias for alias in aliases if "%" not in alias],
    )


def _claim_container(unit: Unit) -> None:
    claims, file = unit.claims, unit.file
    named = file.last("Container", "ContainerName")
    raw = named is not None and "%" in named.text
    kept = None if raw else named
    title = unit.name.service if raw else kept.text if kept is not None else f"systemd-{unit.name.written}"
    written = file.last("Container", "Image")
    image = _image(unit, written) if written is not None else None
    _declare(
        unit,
        "Container",
        unit.name.service,
        [kept.text if kept is not None else ""],
        {
            "version": version_of(image) if image is not None else None,
            "containerName": kept.text if kept is not None else None,
        },
    )
    if unit.service is None:
        return
    if named is not None and raw:
        unit.unresolved("ContainerName", named)
    if written is not None and image is not None:
        end = claims.image(image, written.text, written)
        if end is not None:
            own = written.text if try_reference(written.text) is not None else ""
            claims.edge("BUILDS", unit.service, end, written, "quadlet_image", written=own)
    container = claims.node(
        NodeRef(
            "Container", (ids.container_id(claims.source.namespace, unit.scope, unit.service_name, 1),), title
        ),
        kept if kept is not None else unit.header,
        {
            "name": None if raw else title,
            "image": written.text if written is not None else None,
            "declared": True,
        },
        declared=True,
    )
    restart = file.last("Service", "Restart")
    claims.edge(
        "RUNS",
        container,
        claims.claim_host(unit.header),
        unit.header,
        "quadlet_host",
        end_basis=Basis.SOURCE,
        restartPolicy=_RESTARTS.get(restart.text) if restart is not None else None,
    )
    _claim_ports(unit, "Container")
    called = () if raw else (title, *_other_names(unit.file))
    for setting in file.all("Container", "Network"):
        for word in setting.words():
            _join(unit, container, word, called)
    pod = file.last("Container", "Pod")
    if pod is not None and (other := unit_name(pod.text)) is not None and other.type == "pod":
        _depend(unit, unit.reference(f"{other.service}-pod"), pod, "quadlet_pod")
    _claim_hosts(unit)
    _claim_connections(unit)


def _image(unit: Unit, written: Quote) -> ImageReference | None:
    """The image that `Image=` names, by itself or by a quadlet of the folder that pulls or builds it."""
    text = written.text
    if text.endswith((".image", ".build")) and "/" not in text:
        other = _sibling(unit, text)
        setting = ("Image", "Image") if text.endswith(".image") else ("Build", "ImageTag")
        said = other.last(*setting) if other is not None else None
        if said is None:
            unit.claims.problem(written, "E_NOT_FOUND", "the quadlet that the image comes from is not here.")
            return None
        text = said.text
    if "%" in text or "$" in text:
        unit.unresolved("Image", written)
        return None
    reference = try_reference(text.removeprefix("docker://"))
    if reference is None:
        unit.claims.problem(written, "E_PARSE", "the image reference does not follow the OCI grammar.")
    return reference


def _ports(unit: Unit, section: str) -> list[tuple[Quote, Binding]]:
    found = []
    for setting in unit.file.all(section, "PublishPort"):
        said = setting.value
        node = Node(SCALAR, Origin(said.path, "", ""), 0, 0)
        node.text = said.text
        ports = read_ports(node)
        if ports is not None:
            found += [(said, binding) for binding in ports.bindings]
    return found[:MAX_BINDINGS]


def _claim_ports(unit: Unit, section: str) -> None:
    read = _ports(unit, section)
    places = {said for said, _ in read}
    for setting in unit.file.all(section, "PublishPort"):
        said = setting.value
        if "%" in said.text or "$" in said.text:
            unit.unresolved("PublishPort", said)
        elif said not in places:
            unit.claims.problem(said, "E_PARSE", "this is no port that Podman accepts.")
    for said, binding in read:
        if binding.published is not None:
            unit.claims.bind(
                unit.service,
                said,
                binding.published,
                binding.protocol,
                "quadlet_publish",
                target=binding.target,
                address=binding.host_ip,
            )


def _other_names(file: UnitFile) -> list[str]:
    """The names of a container on its networks besides its own."""
    host = file.last("Container", "HostName")
    aliases = [setting.value for setting in file.all("Container", "NetworkAlias")]
    return [said.text for said in (host, *aliases) if said is not None and "%" not in said.text]


def _join(unit: Unit, container: NodeRef | None, said: Quote, called: Sequence[str]) -> None:
    """What one `Network=` says: a network, on which the container has these names, or another container whose
    network is shared."""
    claims = unit.claims
    name, _, options = said.text.partition(":")
    if "%" in said.text:
        unit.unresolved("Network", said)
        return
    if name == "container":
        _depend(unit, NodeRef("Service", ("", options), options), said, "quadlet_network")
        return
    if name.endswith(".container"):
        other = unit_name(name)
        if other is not None:
            _depend(unit, unit.reference(other.service), said, "quadlet_network")
        return
    if name in _NO_NETWORK or not name:
        return
    mode: str | None = None
    real = name
    if name == "host":
        mode = "host"
    elif name == "bridge":
        real, mode = "podman", "bridge"
    elif name.endswith(".network"):
        network = _sibling(unit, name)
        if network is None:
            claims.problem(said, "E_NOT_FOUND", "the quadlet of the network is not here.")
        given = network.last("Network", "NetworkName") if network is not None else None
        driver = network.last("Network", "Driver") if network is not None else None
        real = given.text if given is not None else f"systemd-{name.removesuffix('.network')}"
        mode = _mode(driver) if network is not None else None
    if "%" in real:
        unit.unresolved("NetworkName", said)
        return
    end = claims.node(
        NodeRef("Network", (f"{claims.place}/{real}",), real),
        said,
        {"name": real, "driver": mode if name in ("host", "bridge") else None},
    )
    options_set = [part.partition("=") for part in options.split(",")]
    aliases = [value for option, _, value in options_set if option == "alias"]
    addresses = [value for option, _, value in options_set if option in ("ip", "ip6")]
    claims.edge("RUNS_IN", container, end, said, "quadlet_network", networkMode=mode, aliases=aliases)
    if end is not None:
        claims.reach(unit.service, end.key[0], (*called, *aliases, *addresses), said)


def _mode(driver: Quote | None) -> str:
    """The mode that a network's driver gives; Podman's default is a bridge."""
    return "bridge" if driver is None else driver.text if driver.text in NETWORK_MODES else "custom"


def _depend(unit: Unit, other: NodeRef, said: Quote, method: str) -> None:
    end = unit.claims.node(other, said)
    if end is not None and other != unit.service:
        unit.claims.edge("DEPENDS_ON", unit.service, end, said, method, written=said.text, kind="need")


def _claim_network(unit: Unit) -> None:
    given = unit.file.last("Network", "NetworkName")
    if given is not None and "%" in given.text:
        return
    real = given.text if given is not None else f"systemd-{unit.name.written}"
    driver = unit.file.last("Network", "Driver")
    subnets = [word.text for setting in unit.file.all("Network", "Subnet") for word in setting.words()]
    cidrs = list(dict.fromkeys(subnet for subnet in subnets if is_cidr(subnet)))
    unit.claims.node(
        NodeRef("Network", (f"{unit.claims.place}/{real}",), real),
        given or unit.header,
        {
            "name": real,
            "driver": driver.text if driver is not None else "bridge",
            "cidrs": cidrs,
            "description": unit.description,
            "isPublic": any(is_public(cidr) for cidr in cidrs) if cidrs else None,
        },
        declared=True,
    )


def _claim_hosts(unit: Unit) -> None:
    """Names that `AddHost=` gives to addresses."""
    claims = unit.claims
    for setting in unit.file.all("Container", "AddHost"):
        said = setting.value
        names, _, address = said.text.partition(":")
        if address.strip("[]") == "host-gateway":
            continue
        try:
            parsed = ipaddress.ip_address(address.strip().strip("[]"))
        except ValueError:
            claims.problem(said, "E_PARSE", "this is no name with an address.")
            continue
        for name in names.split(";"):
            hostname = name.strip().lower().rstrip(".")
            if not is_hostname(hostname):
                claims.problem(said, "E_PARSE", "this is no host name.")
                continue
            host = claims.node(NodeRef("Host", (hostname,), hostname), said)
            ip = claims.ip(str(parsed), said)
            if host is not None and ip is not None:
                claims.edge(
                    "RESOLVES_TO",
                    host,
                    ip,
                    said,
                    "quadlet_add_host",
                    written=address.strip(),
                    start_basis=claims.basis(host, said, name.strip()),
                    recordType="A" if parsed.version == 4 else "AAAA",
                )


def _claim_connections(unit: Unit) -> None:
    """Connections to other containers of the folder that the environment and the command name, and the hosts
    that may be others'."""
    texts = list(_texts(unit))
    answering = _answering(unit) if any(named_hosts(said.text) for _, said in texts) else {}
    for key, said in texts:
        for scheme, host, port in named_hosts(said.text):
            target = answering.get(host)
            if target is None:
                asked = asking_scheme(key, scheme)
                unit.claims.use(
                    unit.service,
                    host,
                    said,
                    "quadlet_env_url",
                    protocol=asked,
                    port=port,
                    encrypted=encryption(asked, said.text),
                )
            elif target != unit.service_name:
                unit.claims.edge(
                    "CONNECTS_TO",
                    unit.service,
                    unit.claims.node(unit.reference(target), said),
                    said,
                    "quadlet_env_url",
                    confidence=0.9,
                    protocol=scheme,
                    port=port,
                    encrypted=encryption(scheme, said.text),
                )
        for host, confidence in lone_hosts(key, said.text):
            unit.claims.use(unit.service, host, said, "quadlet_env_host", confidence=confidence)


def _texts(unit: Unit) -> Iterator[tuple[str, Quote]]:
    """(what it is the value of, the text)"""
    found = _file_values(unit)
    for setting in unit.file.all("Container", "Environment"):
        for item in setting.items():
            name, _, value = item.text.partition("=")
            found[name] = Quote(value, item.path, item.start, item.end)
    # An image reference has the form of a host and a port.
    yield from ((name, said) for name, said in found.items() if said.text and "IMAGE" not in name.upper())
    for key in ("Exec", "Entrypoint"):
        said = unit.file.last("Container", key)
        if said is not None:
            yield "", said


def _file_values(unit: Unit) -> dict[str, Quote]:
    """{name: its value, at the place that names the file} of the environment files in the source, the later
    file winning. Podman takes each value as it is written."""
    found: dict[str, Quote] = {}
    for setting in unit.file.all("Container", "EnvironmentFile"):
        said = setting.value
        path = resolve_path(posixpath.dirname(unit.path), said.text.removeprefix("-"))
        text = unit.claims.texts.text(path) if path is not None and "%" not in path else None
        if text is None or path is None:
            continue
        unit.environment.append(path)
        for line in text.splitlines():
            name, equals, value = line.partition("=")
            if equals and not name.lstrip().startswith("#"):
                found[name.strip()] = Quote(value.strip(), said.path, said.start, said.end)
    return found


def _answering(unit: Unit) -> dict[str, str]:
    """{name in Podman's networks: the service of a container of the folder}"""
    found: dict[str, str] = {}
    folder = posixpath.dirname(unit.path)
    for path in unit.view.glob(posixpath.join(folder, "*.container"))[:_MAX_SIBLINGS]:
        base = posixpath.basename(path)
        name = unit_name(base)
        other = _sibling(unit, base)
        if name is None or other is None:
            continue
        given = other.last("Container", "ContainerName")
        for said in (*([given.text] if given is not None else []), *_other_names(other)):
            found.setdefault(said, name.service)
        if given is None:
            found.setdefault(f"systemd-{name.written}", name.service)
    return found


def _sibling(unit: Unit, base: str) -> UnitFile | None:
    """Another quadlet of the unit's folder with its drop-ins; None if it is not there."""
    path = posixpath.join(posixpath.dirname(unit.path), base)
    texts = [(file, unit.view.read(file)) for file in (path, *drop_ins(path, unit.view))]
    if texts[0][1] is None:
        return None
    plain = [(file, untemplated(text, "%")) for file, text in texts if text is not None]
    return UnitFile(s for file, text in plain for s in parse(file, text)[0])
