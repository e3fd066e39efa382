"""Who puts the manifests and charts of a folder into which namespace: kustomize, Flux, Argo CD.

Reference: kubectl.docs.kubernetes.io (``namespace``), the API of kustomize.toolkit.fluxcd.io
(``targetNamespace``), argo-cd.readthedocs.io (Application, ApplicationSet: generators and templates).
"""

from __future__ import annotations

import fnmatch
import glob
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, product

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.texts import Problems, UnitTexts
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    SCALAR,
    Entry,
    Node,
    Origin,
    is_open,
    listed,
    parse,
    told,
    with_children,
    with_text,
)
from taboot_pipelines.model.records import FileView

#: A kustomization, by its path.
_Taker = tuple[str, Node]

DEFAULT_NAMESPACE = "default"
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
#: What the files are called by convention that hold Flux' Kustomizations of the folders beside them.
_FLUX_FILES = ("ks.yaml", "ks.yml")
#: Where Argo CD's Applications and ApplicationSets lie by convention.
_ARGO_FILES = tuple(
    f"**/{name}.{ending}"
    for name in ("*argo*/**/*", "*argo*", "*application*", "*appset*")
    for ending in ("yaml", "yml")
)
#: Folders above a manifest whose kustomizations are looked at, files of Argo CD, characters of one, and what
#: one ApplicationSet generates.
_MAX_ABOVE, _MAX_ARGO, _MAX_FILE, _MAX_GENERATED = 6, 64, 200_000, 2_000
#: Kustomizations that are looked at for who takes in whom, and overlays of one manifest.
_MAX_KUSTOMIZATIONS, _MAX_OVERLAYS = 512, 32
#: A parameter of an ApplicationSet's template, with Go's templates or without.
_PARAMETER = re.compile(r"\{\{-?\s*\.?([\w.]+(?:\[\d+\])?)\s*-?\}\}")


def default_namespace(path: str, view: FileView) -> str:
    """The namespace of the objects of a manifest that name none: what Flux puts its folder into
    (``targetNamespace``), else what the outermost kustomization says that takes it in, else what Argo CD puts
    it into, else ``default``."""
    folder = at = posixpath.dirname(path)
    found, within = "", posixpath.basename(path)
    for above in range(_MAX_ABOVE):
        for one in _read(at, KUSTOMIZATIONS, view):
            resources = one.get("resources")
            taken = [posixpath.normpath(n.text) for n in resources.each()] if resources is not None else []
            if not above or any(f"{within}/".startswith(f"{resource}/") for resource in taken):
                found = told(one.scalar("namespace"), found)
        for one in _read(at, _FLUX_FILES, view):
            spec = one.get("spec")
            leads = spec.scalar("path") if spec is not None else None
            if spec is not None and leads is not None and _is_tail(folder, leads.text):
                target = told(spec.scalar("targetNamespace"), "")
                if target:
                    return target
        if not at:
            break
        at, last = posixpath.split(at)
        within = f"{last}/{within}"
    if found:
        return found
    placed = placement(folder, view)
    return placed.namespace if placed is not None else DEFAULT_NAMESPACE


# --- Overlays of kustomize ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overlay:
    """What a kustomization that is laid over others makes of a manifest: the namespace of its objects, and by
    their names in the manifest the images that its containers run."""

    namespace: str
    images: Mapping[str, Node] = field(default_factory=dict)

    def applied(self, node: Node) -> Node:
        """A part of a manifest with the images that these containers run, each where an overlay says it."""
        if not self.images or node.kind == SCALAR:
            return node
        if node.items:
            return with_children(node, items=[self.applied(item) for item in node.items])
        entries = {}
        for key, (name, value) in node.entries.items():
            said = self.images.get(_name_of(value.text)) if key == "image" and value.kind == SCALAR else None
            entries[key] = (name, self.applied(value) if said is None else _image_of(value.text, said))
        return with_children(node, entries=entries)


def overlays(path: str, texts: UnitTexts) -> list[Overlay]:
    """What becomes of a manifest in each kustomization that takes in its folder from elsewhere and that none
    takes in itself, as overlays of a base do; nothing where there is none such."""
    view = texts.view
    found = [p for name in KUSTOMIZATIONS for p in view.glob(f"**/{name}")]
    if not any(_is_above(posixpath.dirname(p), path) for p in found):
        return []
    read = [(p, text) for p in sorted(found)[:_MAX_KUSTOMIZATIONS] if (text := view.read(p)) is not None]
    takers = _takers(tuple((p, text) for p, text in read if len(text) <= _MAX_FILE))
    made = []
    for chain in islice(_chains(path, takers, ()), _MAX_OVERLAYS):
        folders = [posixpath.dirname(one) for one, _ in chain]
        if all(_is_above(folder, path) for folder in folders):
            continue
        namespace, images = DEFAULT_NAMESPACE, dict[str, Node]()
        for place, root in chain:
            texts.text(place)  # so that it can be quoted
            namespace = told(root.scalar("namespace"), namespace)
            images |= {name.text: o for o in listed(root, "images") if (name := o.scalar("name")) is not None}
        placed = default_namespace(chain[-1][0], view)
        made.append(Overlay(placed if placed != DEFAULT_NAMESPACE else namespace, images))
    return made


def _chains(
    path: str, takers: Mapping[str, list[_Taker]], chain: tuple[_Taker, ...]
) -> Iterator[tuple[_Taker, ...]]:
    """The kustomizations that take in a file or a folder, each with those that take in it, to the last."""
    above = [one for one in takers.get(path, ()) if one not in chain]
    if chain and (not above or len(chain) >= _MAX_ABOVE):
        yield chain
        return
    for one in above:
        yield from _chains(posixpath.dirname(one[0]), takers, (*chain, one))


@lru_cache(maxsize=2)
def _takers(texts: tuple[tuple[str, str], ...]) -> dict[str, list[_Taker]]:
    """The kustomizations that take in each file or folder."""
    found: dict[str, list[_Taker]] = {}
    for path, text in texts:
        try:
            roots = parse(Origin(path, text, ""), Problems())
        except TabootError:
            continue  # it is a problem of its own unit
        for root in roots:
            for key in ("resources", "bases", "components"):
                part = root.get(key)
                for node in part.each() if part is not None else ():
                    taken = resolve_path(posixpath.dirname(path), node.text) if node.kind == SCALAR else None
                    if taken is not None:
                        found.setdefault(taken, []).append((path, root))
    return found


def _is_above(folder: str, path: str) -> bool:
    """Whether a file lies in a folder, however deep."""
    return not folder or path.startswith(f"{folder}/")


def _name_of(image: str) -> str:
    """An image as kustomize compares it: without its tag and its digest."""
    name = image.partition("@")[0]
    return name[: name.rindex(":")] if ":" in name.rpartition("/")[2] else name


def _image_of(image: str, said: Node) -> Node:
    """The image that an entry of ``images`` makes of one, at what it says of it."""
    name, tag, digest = said.scalar("newName"), said.scalar("newTag"), said.scalar("digest")
    rest = image[len(_name_of(image)) :]
    if digest is not None:
        rest = f"@{digest.text}"
    elif tag is not None:
        rest = f":{tag.text}"
    where = digest or tag or name or said
    return with_text(where, f"{name.text if name is not None else _name_of(image)}{rest}")


@dataclass(frozen=True, slots=True)
class Placement:
    """As what an Application of Argo CD runs a folder: the release's name, and its namespace."""

    name: str
    namespace: str


def placement(folder: str, view: FileView) -> Placement | None:
    """As what the Application runs that takes in a folder, or the nearest one above it; None if none does, or
    several that do not agree: then it is run more than once."""
    applications = [a for text in _argo_texts(view) for a in _applications(text)]
    at = folder
    while at and applications:
        found = {placed for a in applications if (placed := a.placement(at)) is not None}
        if found:
            return found.pop() if len(found) == 1 else None
        at = posixpath.dirname(at)
    return None


def _is_tail(folder: str, path: str) -> bool:
    """Whether a path from a repository's root is a folder's, whose own root may lie above or below that."""
    wanted = posixpath.normpath(path).strip("/")
    return (
        folder == wanted or folder.endswith(f"/{wanted}") or (folder != "" and wanted.endswith(f"/{folder}"))
    )


def _read(folder: str, names: Iterable[str], view: FileView) -> Iterator[Node]:
    """The documents of the files of these names in a folder; of one that is no YAML, or too long, none."""
    for name in names:
        text = view.read(posixpath.join(folder, name))
        if text is not None and len(text) <= _MAX_FILE:
            yield from _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[Node, ...]:
    """The documents of a file that many manifests ask for; none where it is no YAML."""
    try:
        return tuple(parse(Origin("", text, ""), Problems()))
    except TabootError:
        # It is a problem of its own unit.
        return ()


# --- Argo CD ------------------------------------------------------------------------------------------------


def _argo_texts(view: FileView) -> Iterator[str]:
    """The files that may hold Applications: sets of them first, then those nearest to the root."""
    paths = {path for pattern in _ARGO_FILES for path in view.glob(pattern)}
    first = sorted(paths, key=lambda p: ("set" not in posixpath.basename(p), p.count("/"), p))
    for path in first[:_MAX_ARGO]:
        text = view.read(path)
        if text is not None and len(text) <= _MAX_FILE:
            yield text


@dataclass(frozen=True, slots=True)
class _Application:
    """An Application that takes in the folder ``path``, or those of an ApplicationSet for all folders that
    this is a pattern of. ``directory``: the pattern of the folders that a generator finds, without the
    ``excluded`` ones: each is known by parameters in the name and the namespace."""

    path: str
    name: str
    namespace: str
    directory: str = ""
    excluded: tuple[str, ...] = ()

    def placement(self, folder: str) -> Placement | None:
        """As what it runs a folder; None if it does not, or if that is yet to be put in."""
        full = _aligned(folder, self.path)
        if full is None or any(_aligned(folder, out) is not None for out in self.excluded):
            return None
        directory = "/".join(full.split("/")[: self.directory.count("/") + 1]) if self.directory else ""
        known = _of_directory(directory)
        name, namespace = _put_in(self.name, known), _put_in(self.namespace, known)
        return None if is_open(name + namespace) else Placement(name, namespace)


def _put_in(text: str, parameters: Mapping[str, str]) -> str:
    return _PARAMETER.sub(lambda match: parameters.get(match[1], match[0]), text)


def _of_directory(path: str) -> dict[str, str]:
    """The parameters of a folder that the generator of directories found, by both kinds of templates."""
    if not path:
        return {}
    parts = path.split("/")
    return {
        **{f"path[{i}]": part for i, part in enumerate(parts)},
        **dict.fromkeys(("path", "path.path"), path),
        **dict.fromkeys(("path.basename", "path.basenameNormalized"), parts[-1]),
    }


def _aligned(folder: str, pattern: str) -> str | None:
    """The path from the repository's root of a folder that a pattern matches; the folder's own root may lie
    above or below that."""
    parts, names = pattern.split("/"), folder.split("/")
    if not fnmatch.fnmatchcase(names[-1], parts[-1]):
        return None
    shorter = min(len(parts), len(names))
    beyond, tail = parts[: len(parts) - shorter], parts[len(parts) - shorter :]
    # What is not seen of either path could be anything, so that the rest has to begin with a plain name.
    if any(map(glob.has_magic, [*beyond, *tail[: len(parts) != len(names)]])):
        return None
    matched = names[len(names) - shorter :]
    if not all(fnmatch.fnmatchcase(name, part) for name, part in zip(matched, tail, strict=True)):
        return None
    return "/".join([*beyond, *matched])


@lru_cache(maxsize=256)
def _applications(text: str) -> tuple[_Application, ...]:
    """What the Applications and ApplicationSets of a file take in: of manifests, or of values of the chart
    ``argocd-apps``, which renders them."""
    if not any(word in text for word in ("argoproj.io", "applicationsets:", "applications:")):
        return ()
    found: list[_Application] = []
    for document in _parsed(text):
        kind, metadata = document.scalar("kind"), document.get("metadata")
        name = metadata.scalar("name") if metadata is not None else None
        if kind is not None and kind.text == "ApplicationSet":
            found += _generated(document.get("spec"))
        elif kind is not None and kind.text == "Application" and name is not None:
            found += _written(document.get("spec"), name.text)
        for values in (document, document.get("argocd-apps")):
            for _, one in _entries(values, "applicationsets").values():
                found += _generated(one)
            for key, (_, one) in _entries(values, "applications").items():
                found += _written(one, key)
    return tuple(found)


def _generated(spec: Node | None) -> Iterator[_Application]:
    """The Applications of an ApplicationSet."""
    template = spec.get("template") if spec is not None else None
    metadata = template.get("metadata") if template is not None else None
    name = metadata.scalar("name") if metadata is not None else None
    if template is None or name is None:
        return
    for generator in listed(spec, "generators"):
        for element in islice(_elements(generator), _MAX_GENERATED):
            known = element.parameters
            for one in _written(template.get("spec"), name.text):
                yield _Application(
                    # The pattern of the folders that are found; the names are theirs when they are known.
                    _put_in(one.path, {**known, **_of_directory(element.directory)}).strip("/"),
                    _put_in(one.name, known),
                    _put_in(one.namespace, known),
                    element.directory,
                    element.excluded,
                )


def _written(spec: Node | None, name: str) -> Iterator[_Application]:
    """An Application as often as it has a source that is a folder of a repository."""
    destination = spec.get("destination") if spec is not None else None
    namespace = destination.scalar("namespace") if destination is not None else None
    source = spec.get("source") if spec is not None else None
    for one in [*([source] if source is not None else []), *listed(spec, "sources")]:
        path, helm = one.scalar("path"), one.get("helm")
        release = helm.scalar("releaseName") if helm is not None else None
        if path is not None and namespace is not None:
            yield _Application(
                path.text.strip("/"), release.text if release is not None else name, namespace.text
            )


@dataclass(frozen=True, slots=True)
class _Element:
    """What a generator gives for one Application, or for one of each folder that it finds."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    excluded: tuple[str, ...] = ()


def _elements(generator: Node) -> Iterator[_Element]:
    """The elements of a list, of directories, or of the product of such."""
    for one in listed(generator.get("list"), "elements"):
        yield _Element({key: value.text for key, (_, value) in one.entries.items() if value.kind == SCALAR})
    taken: list[str] = []
    excluded: list[str] = []
    for one in listed(generator.get("git"), "directories"):
        path, out = one.scalar("path"), one.get("exclude")
        if path is not None:
            (excluded if out is not None and out.boolean() else taken).append(path.text.strip("/"))
    yield from (_Element({}, directory, tuple(excluded)) for directory in taken)
    both = [islice(_elements(g), _MAX_GENERATED) for g in listed(generator.get("matrix"), "generators")]
    for left, right in product(*both) if len(both) == 2 else ():
        known = {**left.parameters, **right.parameters}
        yield _Element(known, left.directory or right.directory, left.excluded + right.excluded)


def _entries(node: Node | None, key: str) -> Mapping[str, Entry]:
    part = node.get(key) if node is not None else None
    return part.entries if part is not None else {}
