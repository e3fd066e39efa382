"""One unit while it is read, and the claims that all kinds of units make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.systemd.unit_files import UnitFile
from taboot_pipelines.extraction.tier_a.systemd.units import UNITS, UnitName
from taboot_pipelines.model.graph import SCHEMA_VERSION
from taboot_pipelines.model.records import FileView, NodeRef


class Unit:
    """A unit with its drop-ins. ``service`` is what :meth:`declare` has made of it, None before."""

    def __init__(
        self,
        claims: ClaimBuilder,
        path: str,
        name: UnitName,
        file: UnitFile,
        headers: Sequence[Quote],
        view: FileView,
    ) -> None:
        self.claims = claims
        self.path = path
        self.name = name
        self.file = file
        self.headers = headers
        self.view = view
        #: A machine has one namespace of units.
        self.scope = f"{claims.place}/systemd"
        self.service: NodeRef | None = None
        self.service_name = ""
        self._marks: list[str] = []

    @property
    def header(self) -> Quote:
        """The section that a quadlet is known by, else the first."""
        own = f"[{self.name.type.capitalize()}]"
        quadlet = self.name.type not in UNITS
        return next((h for h in self.headers if quadlet and h.text == own), self.headers[0])

    def reference(self, name: str) -> NodeRef:
        return NodeRef("Service", (self.scope, name), name)

    def declare(self, name: str, properties: Mapping[str, Any], aliases: Iterable[str]) -> None:
        """The service that the unit is; its names are ``name`` and ``aliases``."""
        self.service_name = name
        others = [*aliases, *([self.name.written] if self.name.instance else [])]
        self.service = self.claims.node(
            self.reference(name),
            self.header,
            {"schemaVersion": SCHEMA_VERSION, **properties},
            declared=True,
            aliases=[other for other in others if other and other != name],
        )

    def finish(self) -> None:
        """Note at the service what could not be resolved."""
        if self.service is not None and self._marks:
            self.claims.amend(self.service, unresolved=self._marks)

    def unresolved(self, setting: str, said: Quote) -> None:
        """Note that a setting holds a specifier or a variable, which is kept raw."""
        mark = f"{setting}: {said.text}" if len(said.text) < 100 and "=" not in said.text else setting
        if mark not in self._marks:
            self._marks.append(mark)
        self.claims.problem(said, "E_UNRESOLVED", f"the value of {setting} holds what only systemd puts in.")
