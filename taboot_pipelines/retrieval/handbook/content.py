"""What stands on the pages: facts of the typed queries, and what the house's own texts say, each with its
places; what neither says, as a gap."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

from taboot_pipelines.documents.mime import is_code
from taboot_pipelines.retrieval.handbook.blocks import LineOf, has_lines, table
from taboot_pipelines.retrieval.handbook.facts import Facts, when
from taboot_pipelines.retrieval.handbook.instructions import (
    ACTIONS,
    Excerpt,
    Names,
    Text,
    instructions,
    is_followed,
    read_text,
    says,
)
from taboot_pipelines.retrieval.handbook.naming import What, page_names
from taboot_pipelines.retrieval.handbook.pages import (
    Block,
    Cell,
    Links,
    Map,
    Note,
    Page,
    Passage,
    Section,
    Table,
)
from taboot_pipelines.retrieval.handbook.scripts import Script, scripts, words
from taboot_pipelines.retrieval.handbook.urgent import urgent
from taboot_pipelines.retrieval.pictures.drawn import DrawnEdge, DrawnNode, choose
from taboot_pipelines.retrieval.pictures.grouped import lay_out_groups
from taboot_pipelines.retrieval.pictures.layout import Layout, lay_out
from taboot_pipelines.retrieval.pictures.mermaid import mermaid
from taboot_pipelines.retrieval.pictures.picture import MAX_DRAWN
from taboot_pipelines.retrieval.pictures.svg import svg
from taboot_pipelines.retrieval.queries.catalog import QUERIES
from taboot_pipelines.retrieval.queries.citations import StatementSpan, cite, cites, listed, plural
from taboot_pipelines.retrieval.queries.house import Arguments, House
from taboot_pipelines.retrieval.queries.relations import is_built_in, left_open, networks_of
from taboot_pipelines.retrieval.queries.service_index import Document, Edge, Service, distinct

#: Documents that are listed of those that name a service; passages about one action; urgent ones.
_NAMING, _EXCERPTS, _URGENT = 20, 5, 8
#: Of so many rows one at least has a value in each column of the overview; their pages have it all the same.
_WORTH = 10
_READING = (
    "Every statement has a number, which leads to the file and the line where it stands; what was looked for"
    " and not found is said as a gap, though a text may say it in words that are not known here. The pages"
    " were made from what is published and change nothing."
)
_HOW_TO = {
    "restart": "How to restart it",
    "back up": "How to back it up",
    "restore": "How to restore it",
    "update": "How to update it",
}

#: The fields of a Compose service by which it names what it needs.
_NEEDS = ("depends_on", "links", "external_links", "volumes_from", "network_mode", "ipc", "pid")


class Handbook(Facts):
    """The pages of one view. ``owned``: the documents that are the house's own texts; ``files``: those that
    configure it."""

    def __init__(self, house: House, owned: Iterable[str], files: Iterable[str], line_of: LineOf) -> None:
        documents = [house.index.documents[d] for d in (*owned, *files) if d in house.index.documents]
        documents.sort(key=lambda d: (d.source, d.path))
        own_texts = set(owned)
        chosen = [d for d in documents if d.doc_id in own_texts and not is_code(d.mime)]
        names = Names(house.index, house.declared(Arguments()))
        texts = [read_text(house.index, names, d) for d in chosen]
        self._page_of: dict[What, str] = {}
        super().__init__(house, self._page_of, line_of, texts, names)
        self._how = instructions(house.index, texts, names)
        self._scripts = [
            replace(s, named={n: x for n, x in s.named.items() if not self._all_done_by(n, s.actions)})
            for s in scripts(house.index, documents, names, self._beside)
        ]
        self._urgent = urgent(texts)
        own = set(self.host_of.values())
        hosts = [n for n in self._index.of_label("Host") if n in own or self.is_machine(n)]
        self._hosts = sorted(hosts, key=lambda n: (n not in own, self._index.name(n)))
        members: dict[int, list[tuple[Service, Edge]]] = defaultdict(list)
        for service in self.services:
            for edge in networks_of(self._index, service):
                members[edge.end].append((service, edge))
        named = sorted(members.items(), key=lambda m: self._index.name(m[0]))
        self._members = {node: held for node, held in named if self._is_one_network(node, held)}
        self._name_pages()

    def pages(self) -> list[Page]:
        """All pages, the overview first."""
        return [
            self._overview(),
            self._ways_in(),
            *(self._service(s) for s in self.services),
            *(self._host(n) for n in self._hosts),
            *(self._network(n) for n in self._members),
            *(self._script(s) for s in self._scripts),
            *(self._text(t) for t in self._read),
        ]

    def _is_one_network(self, node: int, members: Sequence[tuple[Service, Edge]]) -> bool:
        """Whether those who are on a network meet there: each machine has one of its own of those that Docker
        makes itself."""
        machines = {self.host_of.get(s.number) for s, _ in members}
        return not is_built_in(self._index, node) or (len(machines) == 1 and None not in machines)

    # --- What pages are called

    def _name_pages(self) -> None:
        followed = [e for held in (self._how.of, self._how.general) for es in held.values() for e in es]
        told = {e.text.document.doc_id for e in (*followed, *self._urgent)}
        runbooks = [t for t in self._texts if t.document.doc_id in told or is_followed(t)]
        self._runbooks = {t.document.doc_id for t in runbooks}
        # What has no lines, as a page of the web, is only listed, but what is followed.
        whole = (t for t in self._texts if t.statements and has_lines(t.document.mime))
        self._read = [*runbooks, *(t for t in whole if t.document.doc_id not in self._runbooks)]
        wanted: list[tuple[What, str, str, str]] = []
        for s in self.services:
            key = f"{s.place}/{s.project}/{s.name}"
            wanted.append((("service", s.number), "services", f"{s.project}.{s.name}", key))
        for kind, nodes in (("host", self._hosts), ("network", list(self._members))):
            for node in nodes:
                name = self._index.name(node)
                wanted.append(((kind, node), f"{kind}s", name, f"{name} {self._index.key(node)}"))
        for kind, documents in (
            ("text", [t.document for t in self._read]),
            ("script", [s.document for s in self._scripts]),
        ):
            for d in documents:
                name = re.sub(r"\.\w{1,8}$", "", d.path)
                folder = (
                    "runbooks" if d.doc_id in self._runbooks else "documents" if kind == "text" else "scripts"
                )
                wanted.append(((kind, d.doc_id), folder, name, f"{d.source}/{d.path}"))
        self._page_of |= page_names(wanted)

    # --- Pages

    def _service(self, service: Service) -> Page:
        name = service.name
        described = self.descriptions.get(service.number)
        what: Block = self._gap(f"what {name} is")
        needs, needing = (
            self.relations(self.needs(service), "end"),
            self.relations(self.needed_by(service), "start"),
        )
        routes, ports = self.route_table(self.routes.get(service.number, ())), self.port_table([service])
        sections = [
            Section("What it is", [Passage([described]) if described else what]),
            _told("At a glance", self.glance(service), f"No file that was read declares {name}."),
            self._how_to(service, "restart"),
            Section("Map", [self._around(service)]),
            _told("Needs", needs, self._none(service, "What {} needs", _NEEDS, "need anything")),
            _told("Needed by", needing, f"Nothing is declared to need {name}."),
            self._routes(name, routes),
            _told(
                "Published ports", ports, self._none(service, "The ports of {}", ("ports",), "publish a port")
            ),
            _told(
                "Data",
                self.data(service),
                self._none(service, "What {} mounts", ("volumes",), "mount anything"),
            ),
            *(self._how_to(service, action) for action in ACTIONS[1:]),
        ]
        if drift := self._contradictions(service):
            sections.insert(2, Section("What contradicts", [drift]))
        naming = self._naming(service)
        sections += [Section("Documents that name it", [Links(naming)])] if naming else []
        return Page(self._page_of["service", service.number], name, "Service", sections, service.project)

    def _routes(self, name: str, routes: Table) -> Section:
        section = _told("Routes", routes, f"No route to {name} is known.")
        if not routes.rows and (elsewhere := sum(n not in self._index.services for n in self._led_to)):
            whither = f"{plural(elsewhere, 'route')} of the house to a place whose service is not known"
            section.blocks.append(Links([(Cell("Routes and ports", "routes"), whither)]))
        return section

    def _none(self, service: Service, what: str, fields: Collection[str], lacking: str) -> str:
        """That a service declares nothing of a kind, unless that is left open by its variables, or by what of
        its files could not be read."""
        if variables := distinct(v for field in fields for v in left_open(service, field)):
            return f"{what.format(service.name)}: set elsewhere, by {listed(variables)}."
        if not self._house.entries.was_read(service):
            return f"{what.format(service.name)}: not known, since not all that declares it could be read."
        return f"{service.name} is not declared to {lacking}."

    def _how_to(self, service: Service, action: str) -> Section:
        if _does(service, action):
            return Section(_HOW_TO[action], [Note(f"By its name {service.name} is what does so to others.")])
        found = (self.passage(e) for e in self._how.of.get((service.number, action), ())[:_EXCERPTS])
        passages: list[Block] = [p for p in found if p is not None]
        passages += [
            self.of_script(s, service.number)
            for s in self._scripts
            if action in s.actions and service.number in s.named
        ]
        return Section(_HOW_TO[action], passages or [self._gap(f"how to {action} {service.name}")])

    def _gap(self, what: str) -> Note:
        """That something was not found: no proof that it stands nowhere."""
        looked_at = f"({plural(len(self._texts), 'document')} looked at)"
        return Note(f"Nothing was found that says {what} {looked_at}.", gap=True)

    def _all_done_by(self, service: int, actions: Iterable[str]) -> bool:
        return all(_does(self._index.services[service], a) for a in actions)

    def _is_told(self, service: Service, action: str) -> bool:
        return not _does(service, action) and (
            bool(self._how.of.get((service.number, action)))
            or any(action in s.actions and service.number in s.named for s in self._scripts)
        )

    def _contradictions(self, service: Service | None = None) -> Table | None:
        rows = []
        for drift in self._house.drifts:
            key = self._index.key(service.number) if service is not None else ""
            if drift.record or (service is not None and (drift.label, drift.key) != ("Service", key)):
                continue
            spans = [
                StatementSpan(p.doc_id, p.line, p.start, p.end) for side in drift.sides for p in side.places
            ]
            rows.append(self.row((drift.statement,), spans))
        made = table(("Statement",), rows)
        return made if made.rows else None

    @cached_property
    def _named_in(self) -> dict[int, Counter[str]]:
        """Of each service the texts that name it, and in how many statements."""
        found: dict[int, Counter[str]] = defaultdict(Counter)
        for text in self._read:
            for named in text.named:
                for number in {s.number for services in named.values() for s in services}:
                    found[number][text.document.doc_id] += 1
        return found

    def _naming(self, service: Service) -> list[tuple[Cell, str]]:
        named = self._named_in[service.number].most_common(_NAMING)
        return [
            (
                Cell(self.title(self._index.documents[d]), self._page_of["text", d]),
                plural(count, "time"),
            )
            for d, count in named
        ]

    def _host(self, node: int) -> Page:
        rows = []
        for edge in self._index.into(node, "RUNS"):
            service = self._index.service_of.get(edge.start)
            if edge.is_of_text and (service is None or not self._index.services[service].declared):
                continue  # a word of a text beside the machine's name
            cell = (
                self.cell(service) if service is not None else Cell(self._index.name(edge.start), code=True)
            )
            project = self._index.services[service].project if service is not None else ""
            rows.append(self.row((cell, project), [cite(edge)]))
        addresses = [
            self.row(
                (Cell(self._index.name(e.end), code=True), str(e.properties.get("recordType") or "")),
                [cite(e)],
            )
            for e in self._index.out(node, "RESOLVES_TO")
        ]
        name = self._index.name(node)
        held = self.port_table([s for s in self.services if self.host_of.get(s.number) == node], of=True)
        sections = [
            _told(
                "What runs on it",
                table(("Service", "Project"), rows),
                f"Nothing is declared to run on {name}.",
            ),
            _told("Addresses", table(("Address", "Record"), addresses), f"No address of {name} is known."),
            _told("Published ports", held, "No published port is declared."),
        ]
        return Page(self._page_of["host", node], name, "Host", sections)

    def _network(self, node: int) -> Page:
        rows = [self.row((self.cell(s.number), s.project), [cite(e)]) for s, e in self._members[node]]
        sections = [Section("Who is on it", [table(("Service", "Project"), rows)])]
        return Page(self._page_of["network", node], self._index.name(node), "Network", sections)

    def _script(self, script: Script) -> Page:
        sections = [Section("What it says of itself", [self.of_script(script)])]
        if script.named:
            links = [(self.cell(n), self._index.services[n].project) for n in script.named]
            sections.append(Section("Services that it is of", [Links(links)]))
        document = script.document
        page = self._page_of["script", document.doc_id]
        return Page(
            page, PurePosixPath(document.path).name, "Script", sections, f"{document.source}:{document.path}"
        )

    def _text(self, text: Text) -> Page:
        named = dict.fromkeys(s.number for held in text.named for services in held.values() for s in services)
        sections = [Section("Text", [Passage(self.said(text, range(len(text.statements))))])]
        if named:
            links = [
                (self.cell(n), self._index.services[n].project) for n in sorted(named, key=self._index.name)
            ]
            sections.append(Section("Services that it names", [Links(links)]))
        document = text.document
        if leads := self._leads_to(document):
            sections.append(Section("Documents that it leads to", [Links(leads)]))
        return Page(
            self._page_of["text", document.doc_id],
            self.title(document),
            "Runbook" if document.doc_id in self._runbooks else "Document",
            sections,
            f"{document.source}:{document.path}",
        )

    def _leads_to(self, document: Document) -> list[tuple[Cell, str]]:
        """The texts with pages that one has links to, in their order."""
        graph = self._house.view.links
        row = graph.row(document.doc_id)
        edges = range(*graph.starts[row : row + 2]) if row is not None else ()
        ids = graph.documents.column("doc_id")
        found = dict.fromkeys(ids[int(graph.target[e])].as_py() for e in edges if not graph.titled[e])
        held = [(self._index.documents[d], page) for d in found if (page := self._page_of.get(("text", d)))]
        return [(Cell(self.title(d), page), d.path) for d, page in held]

    def _ways_in(self) -> Page:
        routes = [r for held in self.routes.values() for r in held]
        routes.sort(key=lambda r: (str(r[1].cells["hostname"]), str(r[1].cells["path"])))
        ports = self.port_table(self.services, of=True)
        sections = [
            _told("Routes", self.route_table(routes), "No route is known."),
            _told("Published ports", ports, "No port is declared to be published."),
        ]
        return Page("routes", "Routes and ports", "Index", sections)

    def _overview(self) -> Page:
        rows = []
        for service in self.services:
            node = self.host_of.get(service.number)
            routed = [
                str(r.cells["hostname"])
                for _, r in self.routes.get(service.number, ())
                if r.cells["hostname"]
            ]
            ports = [
                f":{p}" for e in self._index.out(service.number, "BINDS") if (p := e.properties.get("port"))
            ]
            at = list(dict.fromkeys(routed)) or list(dict.fromkeys(ports))
            told = [a for a in ACTIONS if self._is_told(service, a)]
            spans = [
                *self.declaration(service),
                *(cite(e) for e, _ in self.routes.get(service.number, ())[:1]),
                *(self.begin(es[0]) for a in told if (es := self._how.of.get((service.number, a)))),
                *(self.head_of(s) for s in self._scripts if service.number in s.named),
            ]
            cells = (
                self.cell(service.number),
                service.project,
                self.cell(node) if node is not None else "",
                Cell(" ".join(at[:2]), code=bool(at)),
                ", ".join(told),
            )
            rows.append(self.row(cells, spans or cites(self._index.into(service.number))))
        services = _of_worth(table(("Service", "Project", "Host", "Reached at", "Told how to"), rows))
        procedures: list[Block] = [held] if (held := self._procedures()).rows else []
        sections = [
            *([Section("Read first", self._first())] if self._urgent else []),
            Section("Map", [self._whole()]),
            Section("How to read this", [Note(_READING)]),
            _told("Services", services, "No service is declared in what was read."),
            *([Section("What runs by itself", [timed])] if (timed := self._scheduled()).rows else []),
            Section("Procedures", procedures or [self._gap("how to do anything")]),
            *([Section("What contradicts", [drift])] if (drift := self._contradictions()) else []),
            *([Section("Gaps", gaps)] if (gaps := self._gaps()) else []),
        ]
        for title, kind, nodes in (("Hosts", "host", self._hosts), ("Networks", "network", self._members)):
            links = [(Cell(self._index.name(n), self._page_of[kind, n]), "") for n in nodes]
            sections += [Section(title, [Links(links)])] if links else []
        for title, followed in (("Runbooks", True), ("Other documents", False)):
            books = [
                (
                    Cell(self.title(t.document), self._page_of.get(("text", t.document.doc_id), "")),
                    t.document.path,
                )
                for t in self._texts
                if (t.document.doc_id in self._runbooks) is followed
            ]
            sections += [Section(title, [Links(books)])] if books else []
        sources = [
            (Cell(name, code=True), f"{entry.type}, {entry.root}" if entry.root else entry.type)
            for name, entry in sorted(self._house.view.manifest.sources.items())
        ]
        sections.append(Section("What it was made from", [Links(sources)]))
        return Page("index", "The house", "Overview", sections)

    def _scheduled(self) -> Table:
        """What has a schedule."""
        known = {(s.name, s.project): s.number for s in self.services}
        rows = []
        for row in QUERIES["schedules"].run(self._house, Arguments()):
            name, project = str(row.cells["service"]), str(row.cells["project"])
            of = self.cell(known[name, project]) if (name, project) in known else Cell(name)
            rows.append(self.row((of, when(row)), row.cites))
        return table(("What", "When"), rows)

    def _first(self) -> list[Block]:
        """What texts say is urgent; what is more than can be read first, as a number."""
        shown: list[Block] = [p for e in self._urgent[:_URGENT] if (p := self.passage(e)) is not None]
        more = len(self._urgent) - _URGENT
        return [*shown, Note(f"{plural(more, 'more warning')} in the runbooks.")] if more > 0 else shown

    def _procedures(self) -> Table:
        """What is told how to do, by what is done: first for no service of its own, then for each."""
        rows = []
        for action in ACTIONS:
            told = [(Cell(""), self._how.general.get(action, ()))]
            of = ((s, self._how.of.get((s.number, action), ())) for s in self.services)
            told += [(self.cell(s.number), [e for e in excerpts if e.whole]) for s, excerpts in of]
            for cell, excerpts in told:
                by_text: dict[str, list[Excerpt]] = defaultdict(list)
                for excerpt in excerpts:
                    by_text[excerpt.text.document.doc_id].append(excerpt)
                for held in by_text.values():
                    document = held[0].text.document
                    title = self.title(document)
                    sections = dict.fromkeys(e.path[-1] for e in held if e.path[-1] != document.title)
                    where = f"{title}: {'; '.join(sections)}" if sections else title
                    cells = (action.capitalize(), cell, Cell(where, self.at(held[0])))
                    rows.append(self.row(cells, map(self.begin, held)))
            for script in (s for s in self._scripts if action in s.actions):
                whom = [self.cell(n) for n in script.named]
                of_all = whom[0] if len(whom) == 1 else Cell(listed([c.text for c in whom]) if whom else "")
                place = Cell(script.document.path, self._page_of["script", script.document.doc_id])
                rows.append(self.row((action.capitalize(), of_all, place), [self.head_of(script)]))
        return table(("What", "Of", "Where it is told"), rows)

    def _gaps(self) -> list[Block]:
        gaps: list[Block] = []
        for action in ACTIONS:
            without = [s for s in self.services if not (_does(s, action) or self._is_told(s, action))]
            some = f"{len(without)} of {plural(len(self.services), 'service')}"
            whom = "any service" if len(without) == len(self.services) else some
            general = self._how.general.get(action) or any(action in s.actions for s in self._scripts)
            whom += " by name" if general else ""
            gaps += [self._gap(f"how to {action} {whom}")] if without else []
        undescribed = [s for s in self.services if s.number not in self.descriptions]
        if undescribed:
            names = listed([self.cell(s.number).text for s in undescribed])
            gaps.append(self._gap(f"what these are: {names}"))
        return gaps

    # --- Maps

    def _whole(self) -> Map:
        nodes = [self._drawn(s.number) for s in self.services]
        edges = [self._line(e) for s in self.services for e, _ in self.needs(s)]
        # A proxy stands on the map by the services that it leads to.
        routes = [e for n, held in self.routes.items() if n in self._index.services for e, _ in held]
        nodes += [self._drawn(n) for n in dict.fromkeys(e.start for e in routes)]
        edges += map(self._line, routes)
        return _map(lay_out_groups(nodes, edges), nodes, edges, "The services by project and what they need")

    def _around(self, service: Service) -> Map:
        held = [
            e
            for e, _ in (*self.routes.get(service.number, ()), *self.needed_by(service), *self.needs(service))
        ]
        ends = dict.fromkeys([service.number, *(n for e in held for n in (e.start, e.end))])
        nodes = [self._drawn(n, "../", start=n == service.number) for n in ends]
        chosen = choose(nodes, [self._line(e) for e in held], MAX_DRAWN)
        title = f"What {service.name} needs and what needs it"
        return _map(lay_out(chosen, legend=False), chosen.nodes, chosen.edges, title)

    def _drawn(self, node: int, root: str = "", start: bool = False) -> DrawnNode:
        """A service or a proxy of a map. ``root``: the way to the top of the handbook."""
        cell, service = self.cell(node), self._index.services.get(node)
        name, scope = (service.name, service.project) if service is not None else (cell.text, None)
        page = f"{root}{cell.page}.html" if cell.page and not start else ""
        return DrawnNode(self._index.label(node), str(node), name, start, scope, page=page)

    def _line(self, edge: Edge) -> DrawnEdge:
        start, end = ((self._index.label(n), str(n)) for n in (edge.start, edge.end))
        return DrawnEdge(edge.type, start, end)


def _does(service: Service, action: str) -> bool:
    """Whether a service is what backs up, or updates, by its own name: it is not what that is done to."""
    return action in says(words(service.name))


#: The arrow of each type of relation in Mermaid.
_LINKS = {"DEPENDS_ON": "-->", "CONNECTS_TO": "-.->", "ROUTES_TO": "==>"}


def _map(layout: Layout, nodes: Sequence[DrawnNode], edges: Sequence[DrawnEdge], title: str) -> Map:
    return Map(mermaid(nodes, edges, _LINKS), svg(layout, title))


def _of_worth(made: Table) -> Table:
    """A table without the columns that are empty in nearly all rows."""
    kept = [
        n
        for n in range(len(made.columns))
        if sum(bool(row.cells[n].text) for row in made.rows) * _WORTH >= len(made.rows)
    ]
    rows = [replace(row, cells=tuple(row.cells[n] for n in kept)) for row in made.rows]
    return Table(tuple(made.columns[n] for n in kept), rows)


def _told(title: str, rows: Table, none: str) -> Section:
    """A section of one table; where it has no row, that there is none."""
    return Section(title, [rows if rows.rows else Note(none)])
