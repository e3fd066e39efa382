"""From a tree of directives to passes: which location passes requests on, to what, by which names and guards.

Blocks inherit as nginx has it: ``auth_basic``, ``auth_request`` and ``limit_req`` go inwards, ``server_name``
and ``listen`` are the server's. A ``return`` runs before anything is passed on, so a pass behind one is none.
``set`` runs before that too, so the last assignment of a block counts wherever it stands in it, and an inner
block's goes over an outer one's; a value is put together from what its variables hold at that point. What a
``map`` gives is looked up for each name of the server, where the map is by the host; else each of its values
counts.

nginx resolves the relative name of an ``include`` against the directory of its main file. A source may
begin above, at or below that directory, and an absolute name is one of the machine nginx runs on
(``/config/nginx/proxy.conf``). So names are looked for below the main file's directory and then each of its
parents up to the source's root; of an absolute name, the longest tail that is there counts. The bare file
name of an absolute *pattern* does not: ``/etc/nginx/conf.d/*.conf`` must not take in every file beside the
main one.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from taboot_pipelines.extraction.tier_a.endpoints import Target
from taboot_pipelines.extraction.tier_a.nginx.directives import (
    MAX_VALUE,
    PASSES,
    Map,
    MapEntry,
    Mapped,
    Miss,
    Server,
    Socket,
    Span,
    Value,
    answers,
    expand,
    location_path,
    parse_address,
    read_server,
    variables,
)
from taboot_pipelines.extraction.tier_a.nginx.parser import Directive, parse
from taboot_pipelines.extraction.tier_a.texts import UnitTexts, untemplated, with_variables
from taboot_pipelines.model.records import Evidence, FileView

#: Components of a name, and parents of the main file, that are considered; real trees are far shallower.
_MAX_COMPONENTS = 16
_MAGIC = frozenset("*?[")


class Includes:
    """Resolves the includes of one unit. Every path looked for, present or absent, is left in ``view``."""

    def __init__(self, main: str, view: FileView) -> None:
        self._view = view
        self._known: dict[str, tuple[str, ...]] = {}
        directory = posixpath.dirname(main)
        self._bases = [directory]
        while directory and len(self._bases) < _MAX_COMPONENTS:
            directory = posixpath.dirname(directory)
            self._bases.append(directory)

    def resolve(self, name: str, including: str) -> tuple[str, ...]:
        """The paths that ``include name;`` in the file ``including`` means, sorted; none if there is none."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._look(name)
        # The tail of an absolute name that ends at the file itself is an accident of where the source begins.
        if found == (including,) and name.startswith("/") and posixpath.basename(name) == including:
            return ()
        return found

    def _look(self, name: str) -> tuple[str, ...]:
        magic = not _MAGIC.isdisjoint(name)
        for candidate in self._candidates(unicodedata.normalize("NFC", name), magic):
            if magic:
                if found := self._view.glob(candidate):
                    return found
            elif candidate in self._view.paths:
                return (candidate,)
            else:
                self._view.read(candidate)
        return ()

    def _candidates(self, name: str, magic: bool) -> Iterator[str]:
        if name.startswith("/"):
            parts = [p for p in name.split("/") if p][-_MAX_COMPONENTS:]
            tails = ["/".join(parts[i:]) for i in range(len(parts) - 1 if magic else len(parts))]
        else:
            tails = [name]
        seen = set[str]()
        for tail in tails:
            for base in self._bases:
                candidate = posixpath.normpath(posixpath.join(base, tail))
                if candidate not in seen and candidate != "." and not candidate.startswith(("..", "/")):
                    seen.add(candidate)
                    yield candidate


#: Includes inside includes; nesting of blocks over all files; directives looked at in one unit. Files that
#: include one another twice each would otherwise double the work with every file.
MAX_INCLUDE_DEPTH = 24
MAX_BLOCK_DEPTH = 100
MAX_DIRECTIVES = 200_000

_SSO = re.compile(r"(?i)(?:^|[._-])(?:authelia|authentik|ldap|tinyauth)(?:[._-]|$)")
#: Ways on that one directive may have by maps, and maps that lead to maps.
_MAX_MAPPED, _MAX_MAPS = 2_000, 8
#: Words of a `map` that are no pattern.
_OF_MAPS = frozenset({"default", "hostnames", "volatile", "include"})
#: Blocks whose content is data; an include in them names a file of data.
_DATA_BLOCKS = frozenset({"geo", "types", "split_clients", "charset_map", "match", "events", "mail"})


_RATE = re.compile(r"([0-9]{1,9})r/([sm])")


def _parameter(directive: Directive, name: str) -> str:
    """The value of an argument ``name=value`` of a directive; empty where it has none."""
    return next((a.partition("=")[2] for a in directive.args if a.startswith(f"{name}=")), "")


def _denies(block: Directive) -> bool:
    """Whether a block turns everybody away."""
    return any(d.name == "deny" and d.args == ["all"] for d in block.children or ())


@dataclass(frozen=True, slots=True)
class Pass:
    """One ``*_pass``. ``value`` has its variables put in; ``sets`` are the assignments that gave them."""

    directive: str
    value: str
    place: Span
    sets: tuple[Span, ...]
    server: Server | None
    location: str | None
    path: str | None
    basic: bool
    guard: str | None
    guarded: bool
    #: The zones that limit the requests, which may be declared anywhere.
    zones: tuple[str, ...] = ()
    #: What `limit_except` leaves to everybody; none: every method.
    methods: tuple[str, ...] = ()
    #: The host that a `map` is by, in the place of the server's names; whether clients then come by TLS.
    host: str | None = None
    named_by_tls: bool = False

    @property
    def transport(self) -> str | None:
        if self.server is None or self.location is not None:
            return None
        return "udp" if self.server.udp else "tcp"


@dataclass(frozen=True, slots=True)
class Peer:
    """A ``server`` of an ``upstream``: its address and where it stands."""

    address: str
    place: Span


@dataclass(frozen=True, slots=True)
class _Context:
    stream: bool = False
    server: Server | None = None
    location: str | None = None
    path: str | None = None
    inside: bool = False
    #: A `return` comes before what this block passes on.
    dead: bool = False
    basic: bool = False
    guard: str | None = None
    guarded: bool = False
    zones: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    depth: int = 0


@dataclass(frozen=True, slots=True)
class _Item:
    directive: Directive
    path: str
    home: int
    #: The files that lead here, the main file first.
    chain: tuple[str, ...]

    @property
    def place(self) -> Span:
        return Span(self.path, self.directive.start, self.directive.end, self.home)


def _name_servers(tree: Sequence[Directive], text: str) -> None:
    """Give the servers of a template their names, with what is put in as variables: ``app.${domain}``."""
    for directive in tree:
        _name_servers(directive.children or (), text)
        if directive.name == "server_name" and any("$$" in name for name in directive.args):
            _, *names = with_variables(text[directive.start : directive.end].rstrip(" \t;")).split()
            directive.args = [re.sub(r"_+}", "}", name) for name in names]


class Reader:
    """Reads one unit into ``routes``, ``upstreams``, ``subordinates``, and ``texts`` with their problems."""

    def __init__(self, main: str, view: FileView) -> None:
        self._main = main
        self._view = view
        self._includes = Includes(main, view)
        self._trees: dict[str, list[Directive] | None] = {}
        self._budget = MAX_DIRECTIVES
        self._exhausted = False
        #: The sockets on which some server listens with TLS: nginx has it for the socket, not for the server.
        self._secure: set[tuple[bool, Socket]] = set()
        self.texts = UnitTexts(view)
        self.routes: list[Pass] = []
        self.upstreams: dict[tuple[bool, str], list[Peer]] = {}
        self._maps: dict[str, Map] = {}
        #: {a zone of `limit_req_zone`: requests a minute}
        self.rates: dict[str, int] = {}
        self.subordinates: set[str] = set()

    def read(self) -> None:
        tree = self._tree(self._main)
        if tree is not None:
            self._block(self._items(tree, self._main, (self._main,)), _Context(), {})

    def problem(self, path: str, code: str, message: str) -> None:
        self.texts.problem(path, code, message)

    def problem_at(self, place: Span, code: str, what: str) -> None:
        self.texts.problem_at(Evidence(place.path, place.start, place.end), code, f"{what}.")

    # --- files ----------------------------------------------------------------------------------------------

    def _tree(self, path: str) -> list[Directive] | None:
        if path not in self._trees:
            tree: list[Directive] | None = None
            text = self.texts.text(path)
            if text is not None:
                # What a template puts in is, like a variable, not known.
                plain = untemplated(text, "$")
                tree, notes = parse(plain)
                if notes and plain != text:
                    self.texts.note_template(path)
                    notes = []
                if plain != text:
                    _name_servers(tree, text)
                for note in notes:
                    self.texts.problem(path, "E_PARSE", f"{path}, line {note.line}: {note.message}.")
            elif path not in self._view.paths:
                self.texts.problem(path, "E_NOT_FOUND", f"{path} is not among the source's files.")
            self._trees[path] = tree
        return self._trees[path]

    def _items(self, tree: list[Directive], path: str, chain: tuple[str, ...]) -> Iterator[_Item]:
        """The directives of a block with its includes put in place; each include itself comes first."""
        home = id(tree)
        for directive in tree:
            self._budget -= 1
            if self._budget < 0:
                if not self._exhausted:
                    self._exhausted = True
                    self.problem(
                        self._main,
                        "E_TOO_LARGE",
                        f"{self._main} and its includes hold more than {MAX_DIRECTIVES} directives; the rest"
                        " was not read.",
                    )
                return
            item = _Item(directive, path, home, chain)
            yield item
            if directive.name == "include" and directive.args and directive.children is None:
                yield from self._included(item)

    def _included(self, item: _Item) -> Iterator[_Item]:
        # A pattern is compared with every path of the source.
        self._budget -= len(self._view.paths) >> 4
        for target in self._includes.resolve(item.directive.args[0], item.path):
            if target in item.chain:
                self.problem_at(item.place, "E_CYCLE", f"the include leads back to {target}")
                continue
            if len(item.chain) > MAX_INCLUDE_DEPTH:
                self.problem_at(
                    item.place, "E_TOO_LARGE", f"includes are nested deeper than {MAX_INCLUDE_DEPTH}"
                )
                continue
            self.subordinates.add(target)
            tree = self._tree(target)
            if tree is not None:
                yield from self._items(tree, target, (*item.chain, target))

    # --- blocks ---------------------------------------------------------------------------------------------

    def _block(self, items: Iterable[_Item], context: _Context, outer: dict[str, Value]) -> None:
        """One block: first what holds for all of it, then what it passes on and the blocks in it."""
        env = dict(outer)
        later: list[_Item] = []
        items = list(items)
        if context.inside and not context.dead:
            context = replace(context, dead=answers([item.directive for item in items]))
        zones = [_parameter(item.directive, "zone") for item in items if item.directive.name == "limit_req"]
        if zones:
            # A block with limits of its own has none of the outer one's.
            context = replace(context, zones=tuple(zone for zone in zones if zone))
        excepted = [item.directive for item in items if item.directive.name == "limit_except"]
        if any(_denies(directive) for directive in excepted):
            context = replace(context, methods=tuple(m.upper() for d in excepted for m in d.args))
        for item in items:
            d = item.directive
            name, args = d.name, d.args
            if name == "map" and d.children is not None:
                self._map(item)
            elif name == "limit_req_zone":
                rate = _RATE.fullmatch(_parameter(d, "rate"))
                if rate is not None and int(rate[1]) > 0:
                    per_minute = int(rate[1]) * (60 if rate[2] == "s" else 1)
                    self.rates[_parameter(d, "zone").partition(":")[0]] = per_minute
            elif d.children is not None or name in PASSES:
                later.append(item)
            elif name == "set":
                if len(args) == 2 and args[0].startswith("$"):
                    value, sets = expand(args[1], env)
                    env[args[0][1:]] = Value(value, (*sets, item.place)[-8:])
            elif name == "include" and args:
                guard = _guard(args[0], context.inside)
                if guard is not None:
                    context = replace(context, guard=guard)
            elif name == "auth_basic" and args:
                context = replace(context, basic=args[0] != "off")
            elif name == "auth_request" and args:
                context = replace(
                    context, guarded=args[0] != "off", guard=context.guard if args[0] != "off" else None
                )
        if context.server is not None and not context.stream and not context.inside:
            env["scheme"] = Value("https" if context.server.tls else "http", ())
        servers = self._servers(later, context)
        for item in later:
            if item.directive.children is None:
                self._pass(item, context, env)
            elif item.directive.name == "server":
                self._server(item, context, env, servers)
            else:
                self._inner(item, context, env)

    def _servers(self, items: list[_Item], context: _Context) -> dict[int, tuple[Server, list[_Item]]]:
        """The server blocks among ``items``, by the place of each in the list of its directives. All are read
        before a route of one: what one says of a socket holds for the others on it.
        """
        found: dict[int, tuple[Server, list[_Item]]] = {}
        for item in items:
            d = item.directive
            if d.name == "server" and d.children is not None and context.depth < MAX_BLOCK_DEPTH:
                inner = list(self._items(d.children, item.path, item.chain))
                found[id(item)] = (read_server([i.directive for i in inner], context.stream), inner)
        servers = [server for server, _ in found.values()]
        self._secure.update((s.stream, socket) for s in servers for socket in s.secure)
        for server in servers:
            server.tls = server.tls or any((server.stream, s) in self._secure for s in server.sockets)
        return found

    def _server(
        self,
        item: _Item,
        context: _Context,
        env: dict[str, Value],
        servers: dict[int, tuple[Server, list[_Item]]],
    ) -> None:
        read = servers.get(id(item))
        if read is None:
            self._inner(item, context, env)
            return
        server, items = read
        inner = replace(
            context,
            depth=context.depth + 1,
            server=server,
            location=None,
            path=None,
            inside=False,
            dead=server.dead,
        )
        self._block(items, inner, env)

    def _inner(self, item: _Item, context: _Context, env: dict[str, Value]) -> None:
        d, place = item.directive, item.place
        if context.depth >= MAX_BLOCK_DEPTH:
            self.problem_at(place, "E_TOO_LARGE", f"blocks are nested deeper than {MAX_BLOCK_DEPTH}")
            return
        inner = replace(context, depth=context.depth + 1)
        if d.name in ("http", "stream"):
            inner = replace(inner, stream=d.name == "stream")
        elif d.name == "location":
            if not d.args or len(d.args) > 2:
                self.problem_at(place, "E_PARSE", "a location takes one or two arguments")
                return
            # The `return` of a location does not hold for the locations in it, its server's does.
            inner = replace(
                inner,
                location=" ".join(d.args),
                path=location_path(d.args),
                inside=True,
                dead=context.server is not None
                and context.server.dead
                and d.args[0] not in context.server.handlers,
            )
        elif d.name == "upstream":
            if d.args:
                self._upstream(item, context)
            return
        elif d.name in ("if", "limit_except"):
            # An `if` of a server has no location and passes nothing on; a `set` in it may not come about.
            inner = replace(inner, inside=True)
        else:
            if d.name in _DATA_BLOCKS:
                self._data(item)
            return
        self._block(self._items(d.children or [], item.path, item.chain), inner, env)

    def _data(self, item: _Item) -> None:
        for d in item.directive.children or []:
            if d.name == "include" and d.args:
                for target in self._includes.resolve(d.args[0], item.path):
                    self.subordinates.add(target)
                    self._view.read(target)

    def _map(self, item: _Item) -> None:
        """A map holds everywhere, whatever stands before it."""
        args = item.directive.args
        if len(args) != 2 or not all(a.startswith("$") for a in args):
            return
        entries: list[MapEntry] = []
        default: MapEntry | None = None
        for inner in self._items(item.directive.children or [], item.path, item.chain):
            line = inner.directive
            if line.name == "default" and line.args:
                default = MapEntry("", line.args[0], inner.place)
            elif line.name not in _OF_MAPS and len(line.args) == 1:
                entries.append(MapEntry(line.name.removeprefix("\\"), line.args[0], inner.place))
        self._maps[args[1][1:]] = Map(args[0].strip("${}"), tuple(entries), default)

    def _mapped(
        self, value: str, names: Sequence[str], depth: int = 0
    ) -> Iterator[tuple[str, Mapped | None, bool]]:
        """(a value with the variables of maps put in, what gave the first of them, whether it is by the name
        in TLS) for each that a value may be."""
        known = next((name for name in variables(value) if name in self._maps), None)
        if known is None or depth >= _MAX_MAPS:
            yield value, None, False
            return
        table = self._maps[known]
        for given in table.values(names):
            self._budget -= 1
            if self._budget < 0:
                return
            put = value.replace(f"${{{known}}}", given.value).replace(f"${known}", given.value)
            # A line without a value leads nowhere.
            if given.value and len(put) <= MAX_VALUE and known not in variables(put):
                for text, _, _ in self._mapped(put, names, depth + 1):
                    yield text, given, table.by_name

    def _upstream(self, item: _Item, context: _Context) -> None:
        d = item.directive
        peers = self.upstreams.setdefault((context.stream, d.args[0].lower()), [])
        for inner in self._items(d.children or [], item.path, item.chain):
            server = inner.directive
            # A server marked down gets no request.
            if (
                server.name == "server"
                and server.args
                and server.children is None
                and "down" not in server.args[1:]
            ):
                peers.append(Peer(server.args[0], inner.place))

    def _pass(self, item: _Item, context: _Context, env: dict[str, Value]) -> None:
        d = item.directive
        if len(d.args) != 1:
            self.problem_at(item.place, "E_PARSE", f"{d.name} takes one argument")
            return
        if context.dead:
            return
        written, sets = expand(d.args[0], env)
        names = [n for n in context.server.names if n] if context.server is not None else []
        for value, given, by_tls in islice(self._mapped(written, names), _MAX_MAPPED):
            location, path = context.location, context.path
            if given is not None and given.location is not None:
                location = given.location
                path = location if location.startswith("/") else None
            self.routes.append(
                Pass(
                    d.name,
                    expand(value, env)[0],
                    item.place if given is None else given.place,
                    sets if given is None else (),
                    context.server,
                    location,
                    path,
                    context.basic,
                    context.guard,
                    context.guarded,
                    context.zones,
                    context.methods,
                    host=None if given is None else given.host,
                    named_by_tls=by_tls,
                )
            )

    def rate_limit(self, route: Pass) -> int | None:
        """The requests a minute that a client may make by this way; None where none is stated here."""
        return min((self.rates[zone] for zone in route.zones if zone in self.rates), default=None)

    def peers(self, route: Pass, target: Target) -> Iterator[tuple[Target | Miss, Span]] | None:
        """The servers of the upstream that ``target`` names; None if it names none."""
        if target.port is not None:
            return None
        name = target.host.lower()
        stream = route.server is not None and route.server.stream
        peers = self.upstreams.get((stream, name))
        if peers is None:
            peers = self.upstreams.get((not stream, name))
        if peers is None:
            return None
        return (_peer(peer, target.scheme) for peer in peers)


def _peer(peer: Peer, scheme: str) -> tuple[Target | Miss, Span]:
    address = parse_address(scheme, peer.address)
    if isinstance(address, Target) and address.port is None and scheme not in ("tcp", "udp"):
        # "If a port is not specified, the port 80 is used": whatever the protocol.
        address = Target(scheme, address.host, 80)
    return address, peer.place


def _guard(name: str, inside: bool) -> str | None:
    """The stem of an included file that puts single sign-on before a location; the ``-server`` half only
    defines it, and so does a ``-location`` file outside a location."""
    stem = posixpath.basename(name)
    stem = stem.removesuffix(".conf")
    if (
        not stem.isprintable()
        or _SSO.search(stem) is None
        or stem.endswith("-server")
        or (stem.endswith("-location") and not inside)
    ):
        return None
    return stem
