"""Running text against configuration: ports, images and addresses that are other ones now."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from taboot_pipelines.knowledge.drift.declared import (
    NOT_HTTP,
    OF_PROXIES,
    SIDE,
    Declared,
    Service,
    endpoint_of,
    is_aside,
    listed,
    names_number,
    names_port,
    naming,
    reference_of,
    smallest,
)
from taboot_pipelines.knowledge.drift.facts import Drift, DriftKind, Fact, Side, Texts
from taboot_pipelines.knowledge.drift.route_rules import mapped
from taboot_pipelines.model.graph import TAILNET

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
_VERSION = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})(?![\d.]*\d)")


def ports_of_text(
    declared: Declared, asserted: Sequence[Fact], text: Texts, *, record: bool
) -> Iterator[Drift]:
    """Ports that a text gives to a service and its configuration does not know.

    An address on the machine itself, or a published port, is compared with the published ports; a bare port,
    or one at the service's own name, with every port that any configuration names for the service; where
    nothing names one but the image's default, nothing could be shown beside the text. A port
    beside the one that a program is known by is common and seldom declared: so the text must name none of the
    right ports as well, its sentence must not speak of a purpose or another time, and the declaration of the
    service must name the port nowhere.
    """
    said: dict[tuple[str, str], list[tuple[Service, Fact, int]]] = defaultdict(list)
    for fact in asserted:
        service, port = _said_of(declared, fact)
        if service is None or port is None or service.opaque:
            continue
        if service.published or service.named:
            said[fact.doc_id, service.key].append((service, fact, port))
    for (doc_id, _), statements in sorted(said.items()):
        service = statements[0][0]
        right = service.known
        if any(port in right and not _is_outside(declared, service, fact) for _, fact, port in statements):
            continue
        wrong: dict[int, list[Fact]] = defaultdict(list)
        for _, fact, port in statements:
            if _contradicts(declared, service, fact, port) and not names_port(service, port, (), text):
                sentence = _sentence(fact, text)
                # A sentence that names the right port too, not as the one behind, tells the difference.
                others = right - {port, fact.port("targetPort")}
                if not is_aside(sentence) and not any(names_number(sentence, p) for p in others):
                    wrong[port].append(fact)
        for port, facts in sorted(wrong.items()):
            yield _port_drift(declared, service, doc_id, port, facts, record=record)


def _port_drift(
    declared: Declared, service: Service, doc_id: str, port: int, facts: list[Fact], *, record: bool
) -> Drift:
    if service.published:
        says, told = f"{service.name} publishes {mapped(service)}", service.binds()
    else:
        says = f"the configuration names {listed(service.named)} for {service.name}"
        told = naming(f for named in service.named.values() for f in named)
    name = declared.documents[doc_id].name
    target = next((t for f in facts if (t := f.port("targetPort"))), None)
    said = f"{port}:{target}" if target else str(port)
    return Drift(
        DriftKind.PROSE_PORT,
        "Service",
        service.key,
        service.name,
        f"{name} says {said} for {service.name}, but {says}.",
        (Side(f"{name} says {said}", smallest(facts)), Side(says, told)),
        record,
    )


def _said_of(declared: Declared, fact: Fact) -> tuple[Service | None, int | None]:
    """The service that a statement gives a port to, and the port."""
    if fact.type == "BINDS":
        return declared.meant(fact, fact.start_observed), fact.port()
    if fact.end_label != "Endpoint":
        return None, None
    end = endpoint_of(fact)
    if fact.type == "EXPOSES_ENDPOINT":
        return declared.meant(fact, fact.start_observed), end.port
    return (declared.meant(fact, end.host), end.port) if fact.type == "ROUTES_TO" else (None, None)


def _is_outside(declared: Declared, service: Service, fact: Fact) -> bool:
    """Whether a text says how a service is reached from outside of its container, for certain."""
    if fact.type == "BINDS":
        return not _is_bare(fact)
    return endpoint_of(fact).host.lower() in declared.names_of(service.host)


def _is_bare(fact: Fact) -> bool:
    """Whether a text says that a service listens on a port, and not where."""
    return fact.end_name in _LOCAL and fact.port("targetPort") is None


def _contradicts(declared: Declared, service: Service, fact: Fact, port: int) -> bool:
    outside = set(service.published)
    if fact.type == "BINDS" and _is_bare(fact):
        return port not in service.known and port not in OF_PROXIES and bool(service.known - SIDE)
    if fact.type == "BINDS":
        if port not in outside:
            return bool(outside) and fact.end_label in ("IP", "Host")
        targets = {t for f in service.published[port] if (t := f.port("targetPort"))}
        target = fact.port("targetPort")
        return target is not None and bool(targets) and target not in targets
    end = endpoint_of(fact)
    if _is_outside(declared, service, fact):
        return bool(outside - SIDE) and port not in outside and not _serves(declared, service, port)
    if end.host.lower() not in {*service.names, fact.start_observed.lower(), *_LOCAL}:
        # A public name is a proxy's, whose ports say nothing of the service's.
        return False
    if port in service.known or port in OF_PROXIES:
        return False
    return bool(service.known - (NOT_HTTP if end.scheme in ("http", "https") else SIDE))


def _serves(declared: Declared, service: Service, port: int) -> bool:
    """Whether a proxy on the same machine may answer for the service on this port."""
    if port in OF_PROXIES:
        return True
    return any(port in p.published and p.host == service.host for p in declared.proxies.values())


def images_of_text(
    declared: Declared, asserted: Sequence[Fact], text: Texts, *, record: bool
) -> Iterator[Drift]:
    """Images of which a text names another version than the one that the service runs.

    Compared are numbers of the same repository, as far as both give them: 16 and 16.9-alpine agree, 15 and
    16.9 do not. Tags without a number, and images by their digest, are not compared.
    """
    for fact in asserted:
        service = declared.meant(fact, fact.start_observed) if fact.type == "BUILDS" else None
        if service is None:
            continue
        repository, tag = reference_of(fact.end_key)
        held = service.images.get(repository, [])
        if not held or not all(_differs(tag, other) for other, _ in held) or is_aside(_sentence(fact, text)):
            continue
        name, short = declared.documents[fact.doc_id].name, repository.rpartition("/")[2]
        runs = f"{service.name} runs {short}:{held[0][0]}"
        yield Drift(
            DriftKind.PROSE_IMAGE,
            "Service",
            service.key,
            service.name,
            f"{name} says {short}:{tag} for {service.name}, but {runs}.",
            (Side(f"{name} says {short}:{tag}", (fact,)), Side(runs, smallest(f for _, f in held))),
            record,
        )


def _differs(one: str, other: str) -> bool:
    """Whether two tags certainly are different versions."""
    a, b = _VERSION.match(one), _VERSION.match(other)
    if a is None or b is None:
        return False
    pairs = zip(a[1].split("."), b[1].split("."), strict=False)
    return any(int(x) != int(y) for x, y in pairs)


def addresses_of_text(
    declared: Declared, asserted: Sequence[Fact], text: Texts, *, record: bool
) -> Iterator[Drift]:
    """Addresses that a text gives to a host name for which configuration has others of the same kind
    (private, of the tailnet, public)."""
    for fact in asserted:
        if fact.type != "RESOLVES_TO":
            continue
        kind = fact.properties.get("recordType"), _kind(fact.end_key)
        told = [
            f
            for f in declared.addresses.get(fact.start_key, ())
            if (f.properties.get("recordType"), _kind(f.end_key)) == kind
        ]
        if not told or any(f.end_key == fact.end_key for f in told) or is_aside(_sentence(fact, text)):
            continue
        name = declared.documents[fact.doc_id].name
        says = f"{fact.start_name} is {', '.join(sorted({f.end_name for f in told}))}"
        yield Drift(
            DriftKind.PROSE_ADDRESS,
            fact.start_label,
            fact.start_key,
            fact.start_name,
            f"{name} says {fact.end_name} for {fact.start_name}, but {says}.",
            (Side(f"{name} says {fact.end_name}", (fact,)), Side(says, smallest(told))),
            record,
        )


def _kind(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if ip in TAILNET:
        return "tailnet"
    return "loopback" if ip.is_loopback else "public" if ip.is_global else "private"


def _sentence(fact: Fact, text: Texts) -> str:
    whole = text(fact.doc_id)
    return " ".join(whole[start:end] for start, end in fact.spans)
