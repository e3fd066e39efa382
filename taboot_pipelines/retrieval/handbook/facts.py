"""What is known of a service, as blocks."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from taboot_pipelines.knowledge.mentions import fold
from taboot_pipelines.packaged import sections
from taboot_pipelines.retrieval.handbook.blocks import Blocks, LineOf, table
from taboot_pipelines.retrieval.handbook.instructions import Names, Text, declared_beside, path_of, says
from taboot_pipelines.retrieval.handbook.naming import What
from taboot_pipelines.retrieval.handbook.pages import Cell, Row, Said, Table
from taboot_pipelines.retrieval.queries import house as queries
from taboot_pipelines.retrieval.queries.catalog import QUERIES
from taboot_pipelines.retrieval.queries.citations import StatementSpan, cite, cites
from taboot_pipelines.retrieval.queries.house import Arguments, House
from taboot_pipelines.retrieval.queries.relations import (
    declared_description,
    in_force,
    left_open,
    networks_of,
)
from taboot_pipelines.retrieval.queries.routes import route
from taboot_pipelines.retrieval.queries.service_index import Edge, Service, plain_name
from taboot_pipelines.retrieval.queries.settings import mount_of
from taboot_pipelines.retrieval.sentences import Form, TextStatement

_LISTED = sections("taboot_pipelines.retrieval.handbook", "describing.txt")
#: What says what a thing is: the copula and a noun phrase behind its name ("the one" stands for another), or
#: the header of a column.
_IS = re.compile(
    r"\W{0,3}(?:\([^()]{1,60}\)\W{0,2})?(?:(?:service|container|stack)\s+)?"
    rf"(?:{'|'.join(_LISTED['copulas'])})\s+[*_`]*(?:{'|'.join(_LISTED['determiners'])})\s+(?!one\b)",
    re.IGNORECASE,
)
#: What stands behind a name in a title.
_ASIDE = re.compile(r"\s+[-–—]+\s+|:\s+")
#: A login at another service: which protocol that speaks is not what a proxy says of it.
_ASKED = re.compile(r"oauth2 \(([^()]+)\)")
_PURPOSE = re.compile("|".join(_LISTED["headers"]), re.IGNORECASE)
_LABELLED = re.compile(rf"(?:{'|'.join(_LISTED['headers'])}): +(?=\S)(.+)", re.IGNORECASE | re.DOTALL)
#: Letters of a sentence that may say what a thing is.
_SHORT = 20
#: What is said behind a value whose variables may be set elsewhere.
_OPEN = re.compile(r" \(((?:unless )?[\w,. ]+ (?:says? otherwise|(?:is|are) set elsewhere))\)$")


class Facts(Blocks):
    """Tables and passages about services; ``texts``: the house's own."""

    def __init__(
        self,
        house: House,
        page_of: Mapping[What, str],
        line_of: LineOf,
        texts: Sequence[Text],
        names: Names,
    ) -> None:
        super().__init__(house, page_of, line_of)
        self._texts, self._names = texts, names
        self._beside = declared_beside(house.index, self.services)

    def ask(self, name: str, service: Service) -> list[queries.Row]:
        return list(QUERIES[name].run(self._house, Arguments(services=(service,))))

    @cached_property
    def _led_to(self) -> list[int]:
        """What each route in force leads to."""
        return [number for number, held in self.routes.items() for _ in held]

    @cached_property
    def routes(self) -> dict[int, list[tuple[Edge, queries.Row]]]:
        """The routes in force, by what they lead to."""
        found: dict[int, list[tuple[Edge, queries.Row]]] = defaultdict(list)
        for edge in in_force(self._index, self._index.of_type("ROUTES_TO")):
            found[edge.end].append((edge, route(self._house, edge)))
        return found

    def route_table(self, routes: Iterable[tuple[Edge, queries.Row]]) -> Table:
        rows = []
        for edge, row in routes:
            c = row.cells
            path = "" if c["path"] == "/" else str(c["path"])
            port = f":{c['target_port']}" if c["target_port"] else ""
            to = self.cell(edge.end)
            where = f"{c['hostname'] or '(any host)'}{path}"
            cells = (
                Cell(where, code=True),
                Cell(f"{to.text if to.page else c['target']}{port}", to.page),
                self.cell(edge.start),
                "yes" if c["tls"] else "",
                "not known" if c["login"] is None else _ASKED.sub(r"by \1", str(c["login"])),
            )
            rows.append(self.row(cells, row.cites))
        return table(("Address", "Leads to", "Proxy", "TLS", "Login"), rows)

    def port_table(self, services: Iterable[Service], of: bool = False) -> Table:
        rows = []
        for service in services:
            for row in self.ask("published_ports", service):
                c = row.cells
                port = Cell(f"{c['port']}/{c['protocol']}", code=True)
                inside = Cell(str(c["container_port"]), code=True)
                cells = (
                    port,
                    *((self.cell(service.number),) if of else ()),
                    inside,
                    str(c["address"]),
                )
                rows.append(((c["port"] or 0, service.name), self.row(cells, row.cites)))
        ordered = [row for _, row in sorted(rows, key=lambda r: (int(r[0][0] or 0), r[0][1]))]
        return table(("Port", *(("Service",) if of else ()), "In the container", "Address"), ordered)

    def declaration(self, service: Service) -> list[StatementSpan]:
        """Where a service is declared; of one without a relation, as a unit may be, its first setting."""
        settings = self._house.entries.of_service(service)
        return self._house.declaration(service) or [e.cite for e in settings[:1]]

    def glance(self, service: Service) -> Table:
        rows: list[Row | None] = []
        for row in self.ask("services", service):
            c, declared = row.cells, row.cites or self.declaration(service)
            rows.append(self.row(("Project", str(c["project"])), declared))
            if c["host"]:
                node = self.host_of.get(service.number)
                rows.append(
                    self.row(
                        ("Runs on", self.cell(node) if node is not None else str(c["host"])),
                        row.cites[1:],
                    )
                )
            if c["container"]:
                known = not left_open(service, "container_name")
                rows.append(self.row(("Container", Cell(str(c["container"]), code=known)), row.cites))
            if c["file"]:
                rows.append(self.row(("Declared in", Cell(str(c["file"]), code=True)), declared))
        for entry in self._house.entries.of_service(service):
            if entry.document.is_unit and entry.value.path[entry.lead :] == ("command",):
                rows.append(self.row(("Runs", Cell(entry.shown, code=True)), [entry.cite]))
        for row in self.ask("schedules", service):
            rows.append(self.row(("When", when(row)), row.cites))
        for row in self.ask("images", service):
            how = {"built here": "Image, built here", "built from": "Built from"}.get(
                str(row.cells["how"]), "Image"
            )
            rows.append(self.row((how, Cell(str(row.cells["image"]), code=True)), row.cites))
        for edge, row in self.routes.get(service.number, ()):
            path = "" if row.cells["path"] == "/" else str(row.cells["path"])
            if row.cells["hostname"]:
                rows.append(
                    self.row(("Reached at", Cell(f"{row.cells['hostname']}{path}", code=True)), [cite(edge)])
                )
        for row in self.ask("published_ports", service):
            port = Cell(f"{row.cells['port']}/{row.cells['protocol']}", code=True)
            rows.append(self.row(("Published port", port), row.cites))
        for edge in networks_of(self._index, service):
            rows.append(self.row(("Network", self.cell(edge.end)), [cite(edge)]))
        for row in self.ask("restart_policies", service):
            rows.append(self.row(("Starts again", Cell(str(row.cells["value"]), code=True)), row.cites))
        return table(("What", "Value"), rows)

    def is_machine(self, node: int) -> bool:
        """Whether more than a sentence says that there is such a machine: configuration, or the row of a
        table of the house's own that has its private address."""
        edges = [*self._index.into(node, "RUNS", "BINDS"), *self._index.out(node, "RESOLVES_TO")]
        name = plain_name(self._index.name(node))
        is_service = any(plain_name(s.name) == name for s in self.services)
        return any(
            not e.is_of_text or (self._is_listed(e) and not (is_service and self._has_others(e)))
            for e in edges
        )

    def _has_others(self, edge: Edge) -> bool:
        """Whether an address is that of another machine too: a service is told at the one it runs on."""
        return any(e.start != edge.start for e in self._index.into(edge.end, "RESOLVES_TO"))

    def _is_listed(self, edge: Edge) -> bool:
        own = any(edge.doc_id == text.document.doc_id for text in self._texts)
        return (
            own
            and edge.type == "RESOLVES_TO"
            and "prose_table" in edge.methods
            and is_private(self._index.name(edge.end))
        )

    @cached_property
    def host_of(self) -> dict[int, int]:
        """The machine that each service is declared to run on."""
        containers = self._index.container_of
        held = {
            s.number: self._index.out(containers[s.number], "RUNS")
            for s in self.services
            if s.number in containers
        }
        return {number: edges[0].end for number, edges in held.items() if edges}

    def needs(self, service: Service) -> list[tuple[Edge, str]]:
        """What a service needs or connects to, each edge with how."""
        edges = self._index.out(service.number, "DEPENDS_ON", "CONNECTS_TO")
        return [(e, _how(e)) for e in edges if e.end != service.number]

    def needed_by(self, service: Service) -> list[tuple[Edge, str]]:
        edges = self._index.into(service.number, "DEPENDS_ON", "CONNECTS_TO")
        return [(e, _how(e)) for e in edges if e.start != service.number]

    def data(self, service: Service) -> Table:
        rows: dict[str, queries.Row] = {}
        for row in self.ask("volumes", service):
            rows.setdefault(str(row.cells["value"]), row)
        made = []
        for value, row in rows.items():
            if ", " in value and any(v in value for v in rows if v != value):
                continue  # the list as a whole, each of whose items is a row
            note = _OPEN.search(value)
            source, target, mode = mount_of(value[: note.start() if note else None])
            key = str(row.cells["key"])
            how = ", ".join(filter(None, (mode, key if key != "volumes" else "", note[1] if note else "")))
            cells = (Cell(source, code=True), Cell(target, code=bool(target)), how)
            made.append(self.row(cells, row.cites))
        return table(("From", "In the container", "How"), made)

    @cached_property
    def descriptions(self) -> dict[int, Said]:
        """What each service is: as a person said, as its declaration does, or as the first text that does."""
        told = {s.number: self._described(s) for s in self.services}
        placed = {n: (said, self.places(spans)) for n, (said, spans) in told.items()}
        return {n: Said("sentence", [(said, places)]) for n, (said, places) in placed.items() if places}

    def _described(self, service: Service) -> tuple[str, Sequence[StatementSpan]]:
        if (decided := self._index.described.get(self._index.key(service.number))) is not None:
            told, who, at = decided
            return f"{told} ({who} said so on {at:%Y-%m-%d}.)", self._house.declaration(service)
        if (found := declared_description(self._index, service)) is not None:
            return found[0], [found[1]]
        if (saying := self._sayings.get(service.number)) is not None:
            text, s, said = saying
            return said, [self.span(text, s)]
        return "", ()

    @cached_property
    def _sayings(self) -> dict[int, tuple[Text, TextStatement, str]]:
        """What says what a service is: the title or the first words of a text of its own, else the first
        statement that begins with its name, stands first under a heading that is its name or is labelled
        there as the column of a table is ("Purpose: …"), or is the row of a table that it heads."""
        found: dict[int, tuple[Text, TextStatement, str]] = {}
        for text in self._texts:
            head, *below = text.statements[:2] or (None,)
            if head is not None and head.form is Form.HEADING:
                name, *aside = _ASIDE.split(head.said, maxsplit=1)
                near = self._beside(text.document)
                named = {s.number for services in text.named[0].values() for s in services}
                own = [s for s in near if s.number in named] or [s for s in near if s.name == s.project]
                for service in self._called(name, text) or own:
                    for words in [head] if aside else [s for s in below if s.form is Form.SENTENCE]:
                        found.setdefault(service.number, (text, words, words.said))
        for text in self._texts:
            for number, s in enumerate(text.statements):
                said = s.said
                if s.form is Form.ROW:
                    told = next((cell for header, cell in s.cells[1:] if _PURPOSE.search(header)), "")
                    said = told or said
                    of = self._called(s.cells[0][1].strip("*`[]"), text) if told else ()
                elif s.form is Form.ITEM and (labelled := _LABELLED.match(s.said)):
                    said = labelled[1]
                    of = self._called(s.section.rpartition(" > ")[2].strip("*`"), text)
                elif number and text.statements[number - 1].form is Form.HEADING and len(s.said) > _SHORT:
                    heading = text.statements[number - 1].said
                    told_of = s.form is Form.SENTENCE and not any(map(says, path_of(text, number)))
                    of = self._called(heading.strip("*`"), text) if told_of else ()
                else:
                    of = ()
                if not of and s.form in (Form.SENTENCE, Form.ITEM):
                    of = [
                        service
                        for name in text.named[number]
                        if (
                            begun := re.match(
                                rf"[\W_]*(?:The |Der |Die |Das )?{re.escape(name)}\b", s.said, re.I
                            )
                        )
                        and _IS.match(s.said, begun.end())
                        for service in self._called(name, text)
                    ]
                for service in of:
                    found.setdefault(service.number, (text, s, said))
        return found

    @cached_property
    def _of_name(self) -> dict[str, list[Service]]:
        found: dict[str, list[Service]] = defaultdict(list)
        for service in self.services:
            for name in {service.name, str(service.properties.get("containerName") or service.name)}:
                found[plain_name(name)].append(service)
        return found

    def _called(self, name: str, text: Text) -> Sequence[Service]:
        """Whom a name means in a text: who is declared beside it, else the only one who is called so."""
        held = self._of_name.get(plain_name(name), [])
        near = [s for s in held if s in self._beside(text.document)]
        return near or (held if len(held) == 1 and not self._names.is_software(fold(name), held) else ())

    def relations(self, edges: Iterable[tuple[Edge, str]], end: str) -> Table:
        held: dict[tuple[int, str], list[Edge]] = defaultdict(list)
        for edge, how in edges:
            held[getattr(edge, end), how].append(edge)
        rows = [self.row((self.cell(node), how), cites(es)) for (node, how), es in held.items()]
        return table(("Service", "How"), rows)


def when(row: queries.Row) -> Cell:
    """The schedule that a row of the query says."""
    return Cell(f"{row.cells['key']}={row.cells['value']}", code=True)


def is_private(address: str) -> bool:
    """Whether an address is one of a network of one's own."""
    try:
        return ipaddress.ip_address(address).is_private
    except ValueError:
        return False


def _how(edge: Edge) -> str:
    if edge.type == "CONNECTS_TO":
        protocol = str(edge.properties.get("protocol") or "")
        return f"connects to it ({protocol})" if protocol else "connects to it"
    condition = str(edge.properties.get("condition") or "").removeprefix("service_")
    how = "starts after it" if edge.properties.get("kind") == "order" else "needs it"
    return f"{how} ({condition})" if condition else how
