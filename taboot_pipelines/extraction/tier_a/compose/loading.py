"""A Compose project from its files, as ``docker compose config`` puts it together.

That is ``.env``, interpolation, several documents, ``extends``, ``include``, override files. Nothing
outside the source's root is read; a part that cannot be read becomes a :class:`Problem` and the rest
stands.

Compose looks into the directory that it is started in: ``COMPOSE_FILE`` of the ``.env`` there names the
files, else the directory's default file and its override are the project. The first file's directory is the
project's: it gives the name, the relative paths start there, and its own ``.env`` stands beneath the other.
Files beside the default one that Compose would refuse without it belong to its project too: people lay them
over it with ``-f``. So do those that share a network or a volume with it and none of its services: whichever
of a directory's files Compose is given, the project has the name of the directory, and with it its networks
and volumes.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.ansible import template_values
from taboot_pipelines.extraction.tier_a.compose.files import (
    DEFAULT_FILES,
    OVERRIDE_FILES,
    is_model,
    looks_like_compose,
    named_compose,
    naming_folder,
    normalize_project,
    resolve_path,
)
from taboot_pipelines.extraction.tier_a.compose.merging import anchored, canonical, runs
from taboot_pipelines.extraction.tier_a.compose.variables import Environment, expand, parse_env
from taboot_pipelines.extraction.tier_a.recognition import filled
from taboot_pipelines.extraction.tier_a.texts import Problems, UnitTexts, with_variables
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    SEQUENCE,
    Entry,
    Node,
    Origin,
    has_template,
    parse,
    with_children,
)
from taboot_pipelines.model.records import FileView, Problem

#: The longest chain of `extends` and the deepest `include`; the files that a project's includes may load.
MAX_CHAIN = 32
MAX_INCLUDES = 256

_TRUE = frozenset({"1", "t", "true"})
_TOP_LEVEL = re.compile(r"^['\"]?services['\"]?\s*:", re.MULTILINE)


@dataclass(slots=True)
class Project:
    """A project put together. ``environment`` is what interpolation saw; ``base``: the directory that its
    relative paths start from; ``separator`` stands in the names that Compose makes of the project's and a
    service's (``_`` with ``COMPOSE_COMPATIBILITY``)."""

    name: str
    services: dict[str, Entry]
    networks: dict[str, Entry]
    configs: dict[str, Entry]
    volumes: dict[str, Entry]
    environment: Environment
    base: str
    separator: str = "-"


class Loader:
    """Loads one project through one :class:`FileView`, and keeps what it parsed and what each file was read
    as."""

    def __init__(self, view: FileView) -> None:
        self.view = view
        self.texts = UnitTexts(view)
        self.problems = self.texts.problems
        self.subordinates: set[str] = set()
        self.environment_files: set[str] = set()
        #: Variables without a value, in the order in which they are met.
        self.unset: dict[str, None] = {}
        self._parsed: dict[tuple[str, str], list[Node] | None] = {}
        self._models: dict[tuple[str, str, int], Node | None] = {}
        self._interpolated: dict[tuple[str, str, int], list[Node]] = {}
        self._extended: dict[tuple[str, str, int, str], Node] = {}
        self._environments: list[Environment] = []
        self._includes = 0
        #: Whether a file holds ``!reset`` or ``!override``.
        self._tagged = False

    def read(self, path: str | None) -> str | None:
        """The text of a file, None if it is absent or cannot be read (which is a problem of its own)."""
        if path is None:
            return None
        try:
            return self.texts.text(path)
        except TabootError as error:
            self.problems.add(Problem(path, error.code, error.message))
            return None

    def read_environment(
        self,
        path: str | None,
        environment: Environment,
        *,
        earlier: Environment | None = None,
        raw: bool = False,
    ) -> dict[str, str | None] | None:
        """The assignments of an environment file, in which those of ``environment`` win over its own and over
        ``earlier`` ones; None if it is absent."""
        text = self.read(path)
        if text is None or path is None:
            return None
        self.environment_files.add(path)
        if raw:
            lines = (line for line in text.splitlines() if "=" in line and not line.lstrip().startswith("#"))
            return {key: value for key, _, value in (line.partition("=") for line in lines)}
        return parse_env(text, environment, earlier)

    def load(
        self,
        files: Sequence[str],
        base: str,
        environment: Environment,
        name: str,
        *,
        default: bool,
        beside: Sequence[str] = (),
    ) -> Project | None:
        """The project of ``files`` (in the order in which they are merged), or None if they are no Compose
        files, the first cannot be read, or there is nothing to run in them.

        ``base``: the directory its relative paths start from. ``name``: what it is called where neither its
        files nor, of a project that Compose takes by ``default``, ``COMPOSE_PROJECT_NAME`` says so.
        ``beside``: files that may be layers of it.
        """
        if self.parsed(files[0], base) is None or not any(
            is_model(d, path) for path in files for d in self.parsed(path, base) or ()
        ):
            self._report_shape(files, base, default)
            return None
        called = environment.get("COMPOSE_PROJECT_NAME") if default else None
        if not called or not normalize_project(called):
            called = self._declared_name(files, base, environment)
        project = normalize_project(called or "") or normalize_project(name) or "default"
        values = {**environment, "COMPOSE_PROJECT_NAME": project}
        self._environments.append(values)
        model = self._layered(files, base, 0, ())
        if model is None:
            return None
        for path, layer in self._layers(model, beside, base).items():
            self.subordinates.add(path)
            model = merging.merge(model, layer, merging.MODEL_RULES)
        services = self._named(model.get("services"), "service")
        if not any(runs(node) for _, node in services.values()):
            self._report_idle(model, files, default)
            return None
        return Project(
            project,
            services,
            self._named(model.get("networks"), "network"),
            self._named(model.get("configs"), "config"),
            self._named(model.get("volumes"), "volume"),
            values,
            base,
            "_" if (environment.get("COMPOSE_COMPATIBILITY") or "").strip().lower() in _TRUE else "-",
        )

    def _layers(self, model: Node, beside: Sequence[str], base: str) -> dict[str, Node]:
        """The files that are layers of a project, each with its model. Of those that publish a port which the
        project or another one publishes too, or that add a service of one name, only one can be meant, and
        none is taken."""
        found = {path: layer for path in beside if (layer := self._laid_over(model, path, base)) is not None}
        own = _services(model)
        claims = {
            path: {c for n, node in _services(layer).items() if n not in own for c in (n, *_published(node))}
            for path, layer in found.items()
        }
        taken = Counter(claim for held in claims.values() for claim in held)
        taken.update({port for node in own.values() for port in _published(node)})
        return {path: layer for path, layer in found.items() if all(taken[c] == 1 for c in claims[path])}

    def _laid_over(self, model: Node, path: str, base: str) -> Node | None:
        """The model of a file that is a layer of this project; None if it is none.

        It is one if Compose would refuse it alone, since a service of it has nothing to run or depends on one
        that it does not have, if the project has what it lacks, and if it adds a service. Of what it depends
        on the project must have something: the rest is a mistake, or in another layer. A file that changes
        what a service of the project runs or which network it has, or that takes something away, is another
        way to run it, such as one for development; one that adds nothing only says how it may be run.

        One that Compose would take alone is a layer if it has no name of its own, none of the project's
        services, and declares a network or a volume that the project declares: there is one of that name.
        """
        services = _services(model)
        try:
            text = self.texts.text(path) or ""
            documents = parse(Origin(path, text, base), Problems()) if looks_like_compose(path, text) else []
        except TabootError:
            return None  # It is a problem of its own unit.
        if len(documents) != 1 or not is_model(documents[0], path):
            return None
        if merging.RESET in text or merging.OVERRIDE in text:
            return None
        own = _services(documents[0])
        idle = {name for name, node in own.items() if not runs(node) and node.get("extends") is None}
        needed = {n for node in own.values() if (d := node.get("depends_on")) for n in _names_of(d)}
        lacking = idle | needed - own.keys()
        if not lacking:
            named = documents[0].get("name") is not None
            if named or own.keys() & services.keys() or not _declared(documents[0]) & _declared(model):
                return None
        elif not (idle <= services.keys() and lacking & services.keys() and own.keys() - services.keys()):
            return None
        patched = [own[name] for name in own.keys() & services.keys()]
        if any(runs(node) or node.get("network_mode") is not None for node in patched):
            return None
        return self.model(path, base, 0, ())

    def _report_shape(self, files: Sequence[str], base: str, default: bool) -> None:
        """Say of files that Compose would take by their name why they are none."""
        for path in files:
            if posixpath.basename(path) not in (*DEFAULT_FILES, *OVERRIDE_FILES):
                continue
            text = self.read(path)
            documents = self.parsed(path, base)
            if default and path == files[0] and text is not None and documents == []:
                self.problems.add(Problem(path, "E_EMPTY", f"{path}: a Compose file that holds nothing."))
            for document in documents or ():
                services = document.get("services")
                if document.kind != MAPPING:
                    document.report(self.problems, "E_PARSE", "the top of a Compose file is a mapping.")
                elif services is not None and services.kind != MAPPING:
                    services.report(self.problems, "E_PARSE", "the services are not a mapping.")
                elif default and path == files[0]:
                    document.report(self.problems, "E_PARSE", "a Compose file without services.")

    def _report_idle(self, model: Node, files: Sequence[str], default: bool) -> None:
        """Say of a project that Compose would take by its name that there is nothing to run in it, unless
        another problem says why. A file that is laid over others says nothing by itself."""
        if default and not self.problems.listed():
            services = model.get("services")
            what = (
                "no service has an image, a build or a provider."
                if services is not None and services.entries
                else "a Compose file without services."
            )
            (services or model).report(self.problems, "E_PARSE", what)

    def _named(self, node: Node | None, what: str) -> dict[str, Entry]:
        if node is None:
            return {}
        if node.kind != MAPPING:
            node.report(self.problems, "E_PARSE", f"the {what}s are not a mapping.")
            return {}
        return node.entries

    def _declared_name(self, files: Sequence[str], base: str, environment: Environment) -> str | None:
        name = None
        for path in files:
            for document in self.parsed(path, base) or ():
                node = document.scalar("name")
                if node is not None:
                    result = expand(node.text, environment)
                    name = result.text if not result.missing and result.valid else name
        return name

    def parsed(self, path: str, base: str) -> list[Node] | None:
        """The documents of a YAML file; None if it is absent or no valid YAML (a problem)."""
        key = (path, base)
        if key not in self._parsed:
            self._parsed[key] = self._parse(path, base)
        return self._parsed[key]

    def _parse(self, path: str, base: str) -> list[Node] | None:
        text = self.read(path)
        if text is None or not looks_like_compose(path, text):
            return None
        self._tagged = self._tagged or merging.RESET in text or merging.OVERRIDE in text
        found = Problems()
        try:
            documents = documents_of(path, text, base, found)
        except TabootError as refused:
            # Another program's YAML dialect is no concern of this extractor.
            if named_compose(path) or _TOP_LEVEL.search(text):
                self.problems.add(Problem(path, refused.code, refused.message))
            return None
        if any(is_model(document, path) for document in documents):
            self.problems.extend(found)
        return documents

    def model(self, path: str, base: str, environment: int, including: tuple[str, ...]) -> Node | None:
        """One file's model: documents merged, variables replaced, ``extends`` and ``include`` resolved."""
        key = (path, base, environment)
        if key not in self._models:
            self._models[key] = self._model(path, base, environment, including)
        return self._models[key]

    def _layered(
        self, files: Sequence[str], base: str, environment: int, including: tuple[str, ...]
    ) -> Node | None:
        """The model of several files, each laid over those before it."""
        model: Node | None = None
        for path in files:
            layer = self.model(path, base, environment, including)
            if layer is not None:
                model = layer if model is None else merging.merge(model, layer, merging.MODEL_RULES)
        return merging.prune(model) if model is not None and self._tagged else model

    def _model(self, path: str, base: str, environment: int, including: tuple[str, ...]) -> Node | None:
        """Compose's order: what is included first, so that a service can extend an included one."""
        model: Node | None = None
        for document in self.interpolated(path, base, environment):
            layer = self._with_includes(document, environment, (*including, path))
            services = layer.get("services")
            if services is not None and services.kind == MAPPING:
                resolved = {
                    name: (key, self.extended(layer, name, path, base, environment, ()))
                    for name, (key, _) in services.entries.items()
                }
                whole = with_children(services, entries=resolved)
                whole.tag = services.tag
                entries = dict(layer.entries)
                entries["services"] = (entries["services"][0], whole)
                layer = with_children(layer, entries=entries)
            model = layer if model is None else merging.merge(model, layer, merging.MODEL_RULES)
        return model

    def interpolated(self, path: str, base: str, environment: int) -> list[Node]:
        """The file's documents that are models, with their variables replaced."""
        key = (path, base, environment)
        if key not in self._interpolated:
            values = self._environments[environment]
            self._interpolated[key] = [
                canonical(document, path, values, self.problems, self.unset)
                for document in self.parsed(path, base) or ()
                if document.kind == MAPPING
            ]
        return self._interpolated[key]

    # --- extends --------------------------------------------------------------------------------------------

    def extended(
        self,
        document: Node,
        name: str,
        path: str,
        base: str,
        environment: int,
        stack: tuple[tuple[str, str], ...],
    ) -> Node:
        """Service ``name`` of ``document`` with what it extends beneath it."""
        services = document.get("services")
        entry = services.entries.get(name) if services is not None else None
        if entry is None:
            raise TabootError("E_INTERNAL", f"{path}: a service to extend was not looked up first.")
        node = entry[1]
        extends = node.get("extends")
        if extends is None:
            return node
        key = (path, f"{base}\0{document.start}", environment, name)
        if key not in self._extended:
            found = self._base_of(document, extends, path, base, environment, (*stack, (path, name)))
            own = with_children(node, entries={k: e for k, e in node.entries.items() if k != "extends"})
            if found is not None:
                # What the base's own file takes away is not taken from others.
                found = merging.prune(found) if self._tagged else found
                elsewhere = extends.get("file") is not None
                own = merging.merge(anchored(found, base) if elsewhere else found, own, merging.SERVICE_RULES)
            own.tag = node.tag
            self._extended[key] = own
        return self._extended[key]

    def _base_of(
        self,
        document: Node,
        extends: Node,
        path: str,
        base: str,
        environment: int,
        stack: tuple[tuple[str, str], ...],
    ) -> Node | None:
        wanted = extends if extends.kind == SCALAR else extends.scalar("service")
        file = extends.scalar("file")
        if wanted is None or wanted.missing:
            extends.report(self.problems, "E_PARSE", "`extends` does not name a service.")
            return None
        if file is not None and file.missing:
            what = "the file that `extends` names holds a variable without a value."
            file.report(self.problems, "E_UNRESOLVED", what)
            return None
        target, target_base = path, base
        documents = [document]
        if file is not None:
            found = resolve_path(file.origin.base, file.text)
            if found is None or found not in self.view.paths:
                # Absent is remembered too, so that the file's appearance is noticed.
                self.read(found)
                file.report(
                    self.problems, "E_NOT_FOUND", "the file that `extends` names is not in the source."
                )
                return None
            if found != path:
                self.subordinates.add(found)
                target, target_base = found, posixpath.dirname(found)
                documents = self.interpolated(target, target_base, environment)
        if (target, wanted.text) in stack:
            wanted.report(self.problems, "E_CYCLE", "`extends` leads back to the service it stands in.")
            return None
        if len(stack) >= MAX_CHAIN:
            wanted.report(self.problems, "E_PARSE", f"the chain of `extends` is longer than {MAX_CHAIN}.")
            return None
        for candidate in documents:
            services = candidate.get("services")
            if services is not None and wanted.text in services.entries:
                return self.extended(candidate, wanted.text, target, target_base, environment, stack)
        wanted.report(self.problems, "E_NOT_FOUND", "the service that `extends` names is not in that file.")
        return None

    # --- include --------------------------------------------------------------------------------------------

    def _with_includes(self, model: Node, environment: int, including: tuple[str, ...]) -> Node:
        include = model.get("include")
        entries = {k: e for k, e in model.entries.items() if k != "include"}
        if include is None:
            return with_children(model, entries=entries)
        for item in include.items if include.kind == SEQUENCE else (include,):
            included = self._included(item, environment, including)
            if included is None:
                continue
            for section, rule in merging.SECTIONS.items():
                theirs = included.get(section)
                if theirs is None or theirs.kind != MAPPING:
                    continue
                own = entries[section][1] if section in entries else None
                if own is None or own.is_null:
                    entries[section] = included.entries[section]
                    continue
                if own.kind != MAPPING:
                    continue
                combined = dict(own.entries)
                for name, entry in theirs.entries.items():
                    mine = combined.setdefault(name, entry)
                    if mine[1] is not entry[1]:
                        # What the file says itself, and what was included before, is laid over it.
                        combined[name] = (mine[0], merging.merge(entry[1], mine[1], rule))
                joined = with_children(own, entries=combined)
                joined.tag = own.tag
                entries[section] = (entries[section][0], joined)
        return with_children(model, entries=entries)

    def _included(self, item: Node, environment: int, including: tuple[str, ...]) -> Node | None:
        written = [item] if item.kind == SCALAR else list((item.get("path") or item).each())
        paths: list[str] = []
        for node in written:
            path = None if node.missing else resolve_path(node.origin.base, node.text)
            if path in including:
                node.report(self.problems, "E_CYCLE", "`include` leads back to the file it stands in.")
                return None
            if path is None or path not in self.view.paths:
                self.read(path)
                node.report(
                    self.problems, "E_NOT_FOUND", "the file that `include` names is not in the source."
                )
                return None
            paths.append(path)
        self._includes += len(paths)
        if not paths or len(including) > MAX_CHAIN or self._includes > MAX_INCLUDES:
            item.report(
                self.problems, "E_PARSE", "`include` names no file, or more than Compose projects need."
            )
            return None
        directory = item.scalar("project_directory")
        base = (
            posixpath.dirname(paths[0])
            if directory is None
            else resolve_path(directory.origin.base, directory.text)
        )
        if base is None:
            item.report(
                self.problems, "E_NOT_FOUND", "the project directory of `include` is not in the source."
            )
            return None
        env_files = item.get("env_file")
        sources = (
            [resolve_path(n.origin.base, n.text) for n in env_files.each()]
            if env_files is not None
            else [posixpath.join(base, ".env")]
        )
        outer = self._environments[environment]
        values: dict[str, str | None] = {}
        for source in sources:
            read = self.read_environment(source, outer, earlier=values)
            if read is None and env_files is not None:
                what = "an environment file that `include` names is not in the source."
                env_files.report(self.problems, "E_NOT_FOUND", what)
            values.update(read or {})
        values.update(outer)
        # Equal environments share one number, so that a file included twice is loaded once.
        if values not in self._environments:
            self._environments.append(values)
        number = self._environments.index(values)
        self.subordinates.update(paths)
        return self._layered(paths, base, number, including)


def _services(model: Node) -> dict[str, Node]:
    services = model.get("services")
    return {} if services is None else {name: node for name, (_, node) in services.entries.items()}


def _declared(model: Node) -> set[tuple[str, str]]:
    """The networks and volumes that a model declares, but for the network that every project has."""
    held = {kind: model.get(kind) for kind in ("networks", "volumes")}
    found = {(kind, name) for kind, node in held.items() if node is not None for name in node.entries}
    return found - {("networks", "default")}


def _published(service: Node) -> set[str]:
    """The published ports of a service as they are written, with their address."""
    ports = service.get("ports")
    found = set()
    for item in ports.items if ports is not None else ():
        number = item.scalar("published") if item.kind == MAPPING else item
        if number is not None:
            found.add(number.text.rpartition(":")[0] if item.kind == SCALAR else number.text)
    return found - {""}


def _names_of(node: Node) -> list[str]:
    """The names in a list, or the keys of a mapping."""
    return [item.text for item in node.items if item.kind == SCALAR] or list(node.entries)


def documents_of(path: str, text: str, base: str, problems: Problems) -> list[Node]:
    """The documents of a YAML file. Ansible and Salt fill in Compose files too: of a template, what they put
    in is a variable. Raises as :func:`~taboot_pipelines.extraction.tier_a.yaml_nodes.parse` does."""
    found, documents, template = Problems(), [], path != filled(path)
    if not template:
        try:
            documents = parse(Origin(path, text, base), found)
            template = "{{" in text and any(map(has_template, documents))
        except TabootError:
            if with_variables(text) == text:
                raise
            template = True
    if template:
        found = Problems()
        documents = parse(Origin(path, with_variables(text), base), found)
    problems.extend(found)
    return documents


@dataclass(frozen=True, slots=True)
class Selection:
    """The files of a project in the order in which they are merged; ``base``: its directory.

    ``name`` is what it is called where neither it nor its environment says so. ``default``: Compose takes it
    without being told which files, so that ``COMPOSE_PROJECT_NAME`` of ``environment`` names it. ``beside``:
    files of its directory that somebody may lay over it where nothing says which are.
    """

    files: tuple[str, ...]
    base: str
    environment: Environment
    name: str
    default: bool
    beside: tuple[str, ...] = ()


def select(loader: Loader, unit: Sequence[str], root: str) -> Selection:
    """The project of a unit's files. ``root`` is the name of the source's root folder.

    What is looked for goes through the loader's view, so that a file's appearance changes the unit. Files
    that ``COMPOSE_FILE`` adds become subordinates of the unit.
    """
    main = unit[0]
    directory, file = posixpath.split(main)
    plain = filled(file)
    default = file in DEFAULT_FILES and not _earlier(loader, directory, file)
    for place in _upwards(directory):
        env = posixpath.join(place, ".env")
        text = loader.read(env)
        if text is None or "COMPOSE_FILE" not in text:
            continue
        listed = _listed(loader, place, parse_env(text, {}))
        if not listed:
            continue
        if listed[0] == main or (
            default and place == directory and not _beneath(listed[0], place) and main in listed
        ):
            loader.subordinates.update(path for path in listed if path != main)
            base = posixpath.dirname(listed[0])
            outer = loader.read_environment(env, {}) or {}
            inner = loader.read_environment(posixpath.join(base, ".env"), outer) if base != place else None
            return Selection(listed, base, {**(inner or {}), **outer}, _folder(base, root), True)
        if place == directory:
            # Started here, Compose takes other files.
            default = False
    environment = loader.read_environment(posixpath.join(directory, ".env"), {}) or {}
    text = loader.read(main) or ""
    if "{{" in text:
        environment = {**environment, **template_values(main, text, loader.view)}
    called = naming_folder(directory)
    folder = _told_apart(loader, called, DEFAULT_FILES if default else (file,)) or root
    of_folder = default or (file != plain and plain in DEFAULT_FILES)
    name = folder if of_folder else f"{folder}-{posixpath.splitext(plain)[0]}"
    beside = _beside(loader, directory, unit) if default else ()
    return Selection(tuple(unit), directory, environment, name, default, beside)


def _beside(loader: Loader, directory: str, unit: Sequence[str]) -> tuple[str, ...]:
    """The other Compose files of a directory by their names, sorted, as many as a project may include."""
    found = (p for kind in ("yaml", "yml") for p in loader.view.glob(posixpath.join(directory, f"*.{kind}")))
    return tuple(sorted(p for p in found if p not in unit and named_compose(p)))[:MAX_INCLUDES]


def _folder(directory: str, root: str) -> str:
    return posixpath.basename(directory) or root


def _told_apart(loader: Loader, directory: str, names: Sequence[str]) -> str:
    """What a project is called after its directory: by the directory's name, and where another directory of
    that name holds a file of one of ``names``, by as much of the path as tells the two apart.

    On one machine Compose would take such two for one project. They lie in one repository, so they are meant
    for several machines, or for one at a time.
    """
    folder = posixpath.basename(directory)
    found = loader.view.glob(f"**/{folder}/*.y*ml") if folder else ()
    others = {posixpath.dirname(p) for p in found if posixpath.basename(p) in names} - {directory}
    parts = directory.split("/")
    for count in range(1, len(parts)):
        if all(other.split("/")[-count:] != parts[-count:] for other in others):
            return "-".join(parts[-count:])
    return "-".join(parts)


def _earlier(loader: Loader, directory: str, file: str) -> bool:
    """Whether the directory has a default file that Compose prefers to this one."""
    preferred = DEFAULT_FILES[: DEFAULT_FILES.index(file)]
    return not all(loader.read(posixpath.join(directory, name)) is None for name in preferred)


def _upwards(directory: str) -> Iterator[str]:
    """The directory and those that hold it, up to the source's root."""
    for _ in range(MAX_CHAIN):
        yield directory
        if not directory:
            return
        directory = posixpath.dirname(directory)


def _beneath(path: str, directory: str) -> bool:
    return not directory or path.startswith(f"{directory}/")


def _listed(loader: Loader, place: str, environment: Environment) -> tuple[str, ...]:
    """The files that ``COMPOSE_FILE`` names, those that are not in the source left out; none if the first is
    missing."""
    written = environment.get("COMPOSE_FILE")
    if not written:
        return ()
    separator = environment.get("COMPOSE_PATH_SEPARATOR") or ":"
    found: list[str] = []
    parts = written.split(separator)
    env = posixpath.join(place, ".env")
    if len(parts) > MAX_INCLUDES:
        loader.problems.add(
            Problem(env, "E_TOO_LARGE", f"{env}: COMPOSE_FILE names more than {MAX_INCLUDES} files.")
        )
    for position, part in enumerate(parts[:MAX_INCLUDES]):
        path = resolve_path(place, part)
        # Read even where only its being there counts, so that its going is noticed.
        loader.read(path)
        if path is not None and path in loader.view.paths:
            found.append(path)
            continue
        loader.problems.add(
            Problem(env, "E_NOT_FOUND", f"{env}: a file that COMPOSE_FILE names is not in the source.")
        )
        if position == 0:
            return ()
    return tuple(dict.fromkeys(found))
