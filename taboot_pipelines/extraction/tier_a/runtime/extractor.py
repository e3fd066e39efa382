"""What runs, as nodes and edges of the graph, each with the property ``running``.

A container that runs is a node of its own, by the id that its engine gave it, and never the one that a
declaration makes: nothing here declares a name, states a fact of a Service, or says of a network or an image
more than what it is called. So no fact that is declared changes by what runs; the two are compared in
``knowledge.drift.running``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.images import ImageReference, try_reference
from taboot_pipelines.extraction.tier_a.runtime.containers import Container, read_runtime
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model.graph import NETWORK_MODES, RESTART_POLICIES, RUNNING_METHOD, Basis, is_public
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts, UnitSpec
from taboot_pipelines.model.runtime import Form, form_of

_SOCKET = re.compile(
    r"^(?:(?P<protocol>tcp|udp)\s+)?(?P<state>LISTEN|UNCONN)\s+\d+\s+\d+\s+"
    r"(?P<address>\S+):(?P<port>\d+)\s+\S+(?:\s+users:\(\(\"(?P<process>[^\"]+)\")?",
    re.MULTILINE,
)


def sockets_of(path: str, text: str) -> Iterator[tuple[Quote, str, int, str, str]]:
    """(the line, address, port, protocol, process) of what ``ss`` says that listens; the address is empty
    for every one, the process where it is not told."""
    for line in _SOCKET.finditer(text):
        address = line["address"].strip("[]").partition("%")[0]
        quote = Quote(line[0], path, line.start(), line.end())
        protocol = line["protocol"] or ("tcp" if line["state"] == "LISTEN" else "udp")
        if 1 <= int(line["port"]) <= 65_535:
            every = address in ("*", "0.0.0.0", "::")
            yield quote, "" if every else address, int(line["port"]), protocol, line["process"] or ""


class RuntimeExtractor:
    """A unit is a dump, or what an API said of one container."""

    name = "runtime"
    version = "2"

    def units(self, paths: Collection[str]) -> list[UnitSpec]:
        return [UnitSpec(path, (path,)) for path in sorted(set(paths))]

    def interpret(self, unit: UnitSpec, view: FileView, source: SourceFacts) -> Interpretation:
        """The claims of a dump. Raises nothing but what the store behind ``view`` raises."""
        path = unit.files[0]
        texts = UnitTexts(view)
        text = texts.text(path) or ""
        claims = ClaimBuilder(source, texts)
        try:
            form = form_of(text)
            if form is Form.SOCKETS:
                _claim_sockets(claims, path, text)
            for container in read_runtime(path, text).containers:
                _claim(claims, container)
        except TabootError as error:
            texts.problem(path, error.code, error.message)
        return claims.result()


def _claim(claims: ClaimBuilder, said: Container) -> None:
    image = try_reference(said.image.text) if said.image is not None else None
    policy = said.restart.text if said.restart is not None else ""
    container = claims.node(
        NodeRef("Container", (said.id,), said.name.text),
        said.name,
        {
            "name": said.name.text,
            "image": said.image.text if said.image is not None else None,
            "imageDigest": said.digest,
            "composeProject": said.scope if said.service and not said.unit else None,
            "composeService": said.service if not said.unit else None,
            "unit": said.unit,
            "state": said.state.text,
            "restart": policy,
            "mounts": [m.shown for m in said.mounts or ()],
            "running": said.running,
            # Its name is no name that texts mean: that is the declared one's.
            "declared": False,
        },
    )
    if image is not None and said.image is not None:
        end = _image(claims, image, said.image)
        own = said.image.text
        claims.edge("BUILDS", container, end, said.image, _method("image"), written=own, running=said.running)
    host = claims.host
    if host is not None:
        where = said.restart or said.state
        claims.edge(
            "RUNS",
            container,
            claims.node(host, where),
            where,
            _method("host"),
            end_basis=Basis.SOURCE,
            restartPolicy=kind if (kind := policy.partition(":")[0]) in RESTART_POLICIES else None,
            running=said.running,
        )
    for network in said.networks or ():
        mode = network.text if network.text in NETWORK_MODES else None
        end = claims.node(NodeRef("Network", (f"{claims.place}/{network.text}",), network.text), network)
        claims.edge(
            "RUNS_IN", container, end, network, _method("network"), networkMode=mode, running=said.running
        )
    for port in said.ports or ():
        _bind(
            claims,
            container,
            port.quote,
            port.address,
            port.published,
            port.protocol,
            targetPort=port.target,
            running=said.running,
        )


def _method(what: str) -> str:
    return f"{RUNNING_METHOD}{what}"


def _image(claims: ClaimBuilder, image: ImageReference, where: Quote) -> NodeRef | None:
    parts = {
        "name": image.name,
        "registry": image.registry,
        "repository": image.repository,
        "tag": image.tag,
        "digest": image.digest,
    }
    return claims.node(NodeRef("Image", (image.image_id,), image.name), where, parts)


def _bind(
    claims: ClaimBuilder,
    start: NodeRef | None,
    where: Quote,
    address: str,
    port: int,
    protocol: str,
    **properties: Any,
) -> None:
    """A port of the machine; one of a single address of it is that address's."""
    end: NodeRef | None
    if claims.host is not None and not address:
        end, basis = claims.node(claims.host, where), Basis.SOURCE
    else:
        shown = address or "0.0.0.0"
        end = claims.node(NodeRef("IP", (shown,), shown), where, {"isPublic": is_public(shown)})
        basis = claims.basis(NodeRef("IP", (shown,), shown), where)
    claims.edge(
        "BINDS",
        start,
        end,
        where,
        _method("port"),
        end_basis=basis,
        port=port,
        protocol=protocol,
        hostIp=address or None,
        **properties,
    )


def _claim_sockets(claims: ClaimBuilder, path: str, text: str) -> None:
    """What listens on the machine that the source names; of one that nobody names nothing can be said."""
    if claims.host is None:
        claims.texts.problem(path, "E_UNRESOLVED", f"{path}: the source names no `host` that listens there.")
        return
    for quote, address, port, protocol, process in sockets_of(path, text):
        try:
            normal = str(ipaddress.ip_address(address)) if address else ""
        except ValueError:
            continue
        host = claims.node(claims.host, quote)
        _bind(claims, host, quote, normal, port, protocol, process=process or None, running=True)
