"""The objects of a manifest, and what is known of those beside it: which labels lead to which workload."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.kubernetes.placements import DEFAULT_NAMESPACE
from taboot_pipelines.extraction.tier_a.texts import Problems, UnitTexts, described
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, Node, Origin, parse
from taboot_pipelines.model.records import FileView

#: Manifests of a folder that are looked at for what a selector or a name means.
MAX_SIBLINGS = 200
#: Workloads that one selector leads to; a service has one or two.
MAX_SELECTED = 32
_MAX_LISTS = 8
#: Characters of the manifests of a folder that are kept parsed.
_MAX_CHARACTERS = 2_000_000
_WORKLOADS = {
    "Deployment": ("apps", "extensions"),
    "StatefulSet": ("apps",),
    "DaemonSet": ("apps", "extensions"),
    "ReplicaSet": ("apps", "extensions"),
    "ReplicationController": ("",),
    "Pod": ("",),
    "Job": ("batch",),
    "CronJob": ("batch",),
    "DeploymentConfig": ("apps.openshift.io", ""),
    "Rollout": ("argoproj.io",),
}


@dataclass(frozen=True, slots=True)
class Object:
    """One object: its API group ("" for the core), kind, and where its name stands."""

    group: str
    kind: str
    name: Node
    namespace: str
    node: Node

    @property
    def is_workload(self) -> bool:
        return self.group in _WORKLOADS.get(self.kind, ())

    @property
    def is_service(self) -> bool:
        return self.kind == "Service" and self.group == ""

    @property
    def spec(self) -> Node | None:
        return self.node.get("spec")

    @property
    def description(self) -> str | None:
        """What an annotation says that it is."""
        metadata = self.node.get("metadata")
        annotations = texts_of(metadata.get("annotations") if metadata is not None else None)
        return described(annotations.items())

    @property
    def pod(self) -> tuple[Node | None, Node | None]:
        """The metadata and the spec of a workload's pods."""
        if self.kind == "Pod":
            return self.node.get("metadata"), self.spec
        spec = self.spec
        if self.kind == "CronJob":
            template = spec.get("jobTemplate") if spec is not None else None
            spec = template.get("spec") if template is not None else None
        template = spec.get("template") if spec is not None else None
        return (None, None) if template is None else (template.get("metadata"), template.get("spec"))


def objects(documents: Iterable[Node], default: str = DEFAULT_NAMESPACE) -> Iterator[Object]:
    """The objects of a file, those of lists included; what has no name or kind is passed over. ``default``:
    the namespace of those that name none."""
    waiting = [(document, 0) for document in documents][::-1]
    while waiting:
        node, depth = waiting.pop()
        if node.kind != MAPPING:
            continue
        kind, version = node.scalar("kind"), node.scalar("apiVersion")
        if kind is None or version is None:
            continue
        items = node.get("items")
        if kind.text.endswith("List") and items is not None:
            if depth < _MAX_LISTS:
                waiting.extend((item, depth + 1) for item in reversed(items.items))
            continue
        metadata = node.get("metadata")
        name = metadata.scalar("name") if metadata is not None else None
        if metadata is None or name is None:
            continue
        namespace = metadata.scalar("namespace")
        group, slash, _ = version.text.partition("/")
        yield Object(
            group if slash else "",
            kind.text,
            name,
            namespace.text if namespace is not None else default,
            node,
        )


def texts_of(node: Node | None) -> dict[str, str]:
    """A mapping of texts, such as labels."""
    entries = node.entries.items() if node is not None else ()
    return {key: value.text for key, (_, value) in entries if value.kind == SCALAR}


def number(node: Node | None) -> int | None:
    """A port that is written as a number; None for a name, or none."""
    text = node.text if node is not None and node.kind == SCALAR else ""
    found = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    return found if 1 <= found <= 65535 else None


@dataclass(slots=True)
class Known:
    """What some manifests have, by namespace."""

    #: {(namespace, name): the Service}
    services: dict[tuple[str, str], Node] = field(default_factory=dict)
    #: {(namespace, name): the ConfigMap}
    configs: dict[tuple[str, str], Node] = field(default_factory=dict)
    #: {(namespace, name): Flux' OCI repository, which holds one chart}
    repositories: dict[tuple[str, str], Node] = field(default_factory=dict)
    #: {(namespace, label, value): workloads whose pods have it, as (name, labels, pod)}
    labelled: dict[tuple[str, str, str], list[tuple[str, dict[str, str], Node]]] = field(default_factory=dict)

    def add(self, one: Object) -> None:
        key = (one.namespace, one.name.text)
        if one.is_service:
            self.services.setdefault(key, one.node)
        elif one.kind == "ConfigMap" and one.group == "":
            self.configs.setdefault(key, one.node)
        elif one.kind == "OCIRepository" and one.group == "source.toolkit.fluxcd.io":
            self.repositories.setdefault(key, one.node)
        elif one.is_workload:
            metadata, spec = one.pod
            labels = texts_of(metadata.get("labels") if metadata is not None else None)
            if spec is not None:
                for label, value in labels.items():
                    found = self.labelled.setdefault((one.namespace, label, value), [])
                    found.append((one.name.text, labels, spec))

    def selected(self, namespace: str, selector: dict[str, str]) -> list[tuple[str, Node]]:
        """(name, pod's spec) of the workloads whose pods have all labels of a selector."""
        if not selector:
            return []
        lists = [self.labelled.get((namespace, label, value), []) for label, value in selector.items()]
        fewest = min(lists, key=len)
        found = ((name, pod) for name, labels, pod in fewest if selector.items() <= labels.items())
        return list(islice(found, MAX_SELECTED))


class Surroundings:
    """What is known in one manifest and, where that does not say, in those of its folder."""

    def __init__(
        self, path: str, view: FileView, own: Iterable[Object], texts: UnitTexts, namespace: str
    ) -> None:
        """``texts``: what is quoted, the manifests included that are looked at; ``namespace``: of objects
        that name none."""
        self._path, self._namespace = path, namespace
        self._view = view
        self._own = Known()
        for one in own:
            self._own.add(one)
        self._others: Known | None = None
        self._texts = texts

    def with_more(self, brought: Iterable[Object]) -> Surroundings:
        """The same, with what a chart brings in the place of the manifest's own objects."""
        made = Surroundings(self._path, self._view, brought, self._texts, self._namespace)
        made._others = self._others
        return made

    def service(self, namespace: str, name: str) -> Node | None:
        key = (namespace, name)
        return self._own.services.get(key) or self._beside().services.get(key)

    def config(self, namespace: str, name: str) -> Node | None:
        key = (namespace, name)
        return self._own.configs.get(key) or self._beside().configs.get(key)

    def repository(self, namespace: str, name: str) -> Node | None:
        key = (namespace, name)
        return self._own.repositories.get(key) or self._beside().repositories.get(key)

    def selected(self, namespace: str, selector: dict[str, str]) -> list[tuple[str, Node]]:
        found = self._own.selected(namespace, selector)
        return found or (self._beside().selected(namespace, selector) if selector else [])

    def _beside(self) -> Known:
        if self._others is None:
            folder = _literal(posixpath.dirname(self._path))
            paths = [
                path
                for pattern in ("*.yaml", "*.yml", "*.json")
                for path in self._view.glob(posixpath.join(folder, pattern))
            ]
            texts: list[tuple[str, str]] = []
            size = 0
            for path in sorted(paths)[:MAX_SIBLINGS]:
                text = self._texts.text(path)
                if text is not None and "apiVersion" in text and size + len(text) <= _MAX_CHARACTERS:
                    size += len(text)
                    texts.append((path, text))
            self._others = _folder(tuple(texts), self._namespace)
        return self._others


@lru_cache(maxsize=2)
def _folder(texts: tuple[tuple[str, str], ...], namespace: str) -> Known:
    """What the manifests of a folder have, for each of them that asks, one after the other."""
    known = Known()
    for path, text in texts:
        try:
            found = parse(Origin(path, text, ""), Problems())
        except TabootError:
            # It is a problem of its own unit.
            continue
        for one in objects(found, namespace):
            known.add(one)
    return known


def _literal(folder: str) -> str:
    """A pattern that only this folder matches."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in folder)
