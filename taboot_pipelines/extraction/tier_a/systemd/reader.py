"""What one unit states with its drop-ins (systemd.unit(5), systemd.socket(5), podman-systemd.unit(5))."""

from __future__ import annotations

import posixpath
import re

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.systemd.quadlets import claim_quadlet
from taboot_pipelines.extraction.tier_a.systemd.units import (
    QUADLETS,
    Setting,
    Unit,
    UnitFile,
    drop_in_unit,
    drop_ins,
    literal,
    parse,
    unit_name,
    unit_of,
)
from taboot_pipelines.extraction.tier_a.texts import UnitTexts, untemplated
from taboot_pipelines.model.records import FileView, Interpretation, SourceFacts

#: {directive: whether the unit does not start without the other}. `After=` says in which order two start that
#: start anyway, and nothing of what one is to the other.
_DEPENDENCIES = {
    "Requires": True,
    "Requisite": True,
    "BindsTo": True,
    "Wants": False,
    "Upholds": False,
    "PartOf": False,
    "After": False,
}
_ORDER_CONFIDENCE = 0.8
#: What units are made of quadlets that run nothing.
_MADE = frozenset({"network", "volume", "image", "build"})
#: Sections that tell a unit from other programs' files with the same endings.
_SECTIONS = {
    "service": frozenset({"Unit", "Service", "Install"}),
    "socket": frozenset({"Unit", "Socket", "Install"}),
    **{kind: frozenset({kind.capitalize()}) for kind in QUADLETS},
}
#: `.network` files of systemd-networkd have these; Podman's do not.
_NETWORKD = frozenset({"Match", "Link", "Address", "Route", "DHCPv4", "DHCPServer", "Bridge"})
_NETWORKD_KEYS = frozenset({"Address", "DHCP", "VLAN", "Bridge", "Bond", "IPForward", "LinkLocalAddressing"})
_LISTEN = re.compile(r"(?:(\d+\.\d+\.\d+\.\d+|\[[0-9A-Fa-f:.]+\]):)?0*([1-9]\d{0,4})", re.ASCII)


def is_unit_path(path: str) -> bool:
    """Whether a file of this path is a unit, a quadlet or a drop-in of one."""
    return unit_of(path) is not None


class SystemdReader:
    """Reads units and quadlets (a :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = "systemd"
    version = "10"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        main = drop_in_unit(path)
        if main is None:
            main, files = path, (path, *drop_ins(path, view))
        elif main in view.paths:
            # The unit itself takes it in.
            view.read(main)
            return Interpretation((), ())
        else:
            files = drop_ins(main, view)
        if not files or path != files[0]:
            return Interpretation((), ())
        texts = UnitTexts(view)
        # What a template puts in is as unknown as a specifier of systemd's.
        settings = []
        headers: list[Quote] = []
        for file in files:
            more, sections = parse(file, untemplated(texts.text(file) or "", "%"))
            settings += more
            headers += sections
        named = unit_name(posixpath.basename(main))
        if named is None or not headers or not _is_unit(named.type, headers, settings, own=main in files):
            return Interpretation((), ())
        claims = ClaimBuilder(source, texts)
        unit = Unit(claims, main, named, UnitFile(settings), headers, view)
        _claim(unit)
        return claims.result(files[1:], unit.environment)


def _is_unit(kind: str, headers: list[Quote], settings: list[Setting], *, own: bool) -> bool:
    sections = {header.text[1:-1] for header in headers}
    if kind == "network" and (
        sections & _NETWORKD or any(s.section == "Network" and s.key in _NETWORKD_KEYS for s in settings)
    ):
        return False
    # A drop-in may hold any one section.
    return (
        bool(sections & _SECTIONS[kind]) if own else bool(sections & (_SECTIONS[kind] | {"Unit", "Service"}))
    )


def _claim(unit: Unit) -> None:
    if unit.name.type in QUADLETS:
        claim_quadlet(unit)
    elif unit.name.type == "socket":
        _claim_socket(unit)
    else:
        _claim_service(unit)
    if unit.service is not None:
        _claim_dependencies(unit)
        unit.finish()


def _claim_service(unit: Unit) -> None:
    restart = unit.file.last("Service", "Restart")
    # Also known by the names that it is installed under.
    aliases = [
        other.written
        for setting in unit.file.all("Install", "Alias")
        for word in setting.words()
        if (other := unit_name(word.text)) is not None and other.type == "service"
    ]
    unit.declare(unit.name.service, {"restart": restart.text if restart is not None else None}, aliases)


def _claim_socket(unit: Unit) -> None:
    """The service that a socket starts binds its ports."""
    listened = [
        (said, protocol, match)
        for key, protocol in (("ListenStream", "tcp"), ("ListenDatagram", "udp"))
        for setting in unit.file.all("Socket", key)
        for said in (setting.value,)
        if (match := _LISTEN.fullmatch(said.text)) is not None
    ]
    listened.sort(key=lambda found: (found[0].path != unit.path, found[0].path, found[0].start))
    given = unit.file.last("Socket", "Service")
    name = unit.name if given is None else unit_name(given.text)
    if name is None:
        unit.unresolved("Service", given or unit.headers[0])
        return
    first = listened[0] if listened else None
    # What a socket says that it is, it says of itself.
    told: dict[str, object] = {"description": None}
    if first is not None and int(first[2][2]) < 65536:
        told |= {"port": int(first[2][2]), "protocol": first[1]}
    unit.declare(name.service, told, [])
    for said, protocol, match in listened:
        unit.claims.bind(unit.service, said, int(match[2]), protocol, "systemd_listen", address=match[1])


def _claim_dependencies(unit: Unit) -> None:
    for directive, required in _DEPENDENCIES.items():
        for setting in unit.file.all("Unit", directive):
            for word in setting.words():
                other = unit_name(word.text)
                if other is None:
                    if "%" in word.text and word.text.endswith((".service", ".socket", ".container")):
                        unit.unresolved(directive, word)
                    continue
                service = _service_of(unit, other.service, other.type)
                if service is None or service == unit.service_name:
                    continue
                unit.claims.edge(
                    "DEPENDS_ON",
                    unit.service,
                    unit.claims.node(unit.reference(service), word),
                    word,
                    f"systemd_{directive.lower()}",
                    written=word.text,
                    confidence=_ORDER_CONFIDENCE if directive == "After" else 1.0,
                    kind="order" if directive == "After" else "need",
                    condition=directive.lower(),
                    required=required,
                )


def _service_of(unit: Unit, name: str, kind: str) -> str | None:
    """The service that a unit named in a dependency is; None for targets, mounts and such, and for what makes
    a network, a volume or an image (podman-systemd.unit(5): ``x.network`` is ``x-network.service``).
    """
    if kind == "socket":
        return _started_by(unit, name)
    if kind == "service":
        stem, _, what = name.rpartition("-")
        made = what in _MADE and unit.view.glob(f"**/{literal(stem)}.{what}")
        return None if made else name
    if kind in ("container", "kube"):
        return name
    return f"{name}-pod" if kind == "pod" else None


def _started_by(unit: Unit, socket: str) -> str:
    """The service that a socket starts: the one that it names, else that of its own name."""
    found = unit.view.glob(f"**/{literal(socket)}.socket")
    text = unit.view.read(found[0]) if len(found) == 1 else None
    given = (
        None
        if text is None
        else UnitFile(parse(found[0], untemplated(text, "%"))[0]).last("Socket", "Service")
    )
    named = None if given is None else unit_name(given.text)
    return socket if named is None else named.service
