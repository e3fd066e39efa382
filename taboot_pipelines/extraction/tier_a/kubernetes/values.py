"""The values that charts of Helm are given: what a release, or a chart by itself, brings and connects to.

What values of a known form bring says ``charts``. Of any others a chart alone knows what they mean, but for
these: what names a Service in full, a URL, a ``host:port``, an environment variable, and the value of a key
that says it is a host's.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Where
from taboot_pipelines.extraction.tier_a.compose.mounted import lines_of
from taboot_pipelines.extraction.tier_a.kubernetes.charts import is_of_library, rendered
from taboot_pipelines.extraction.tier_a.kubernetes.ingresses import (
    claim_class,
    claim_ingress,
    claim_route,
    is_route,
)
from taboot_pipelines.extraction.tier_a.kubernetes.objects import (
    Object,
    Surroundings,
)
from taboot_pipelines.extraction.tier_a.kubernetes.placements import (
    DEFAULT_NAMESPACE,
    default_namespace,
    placement,
)
from taboot_pipelines.extraction.tier_a.kubernetes.services import (
    claim_database,
    claim_service,
    is_database,
)
from taboot_pipelines.extraction.tier_a.kubernetes.workloads import (
    claim_connections,
    claim_reach,
    claim_workload,
    service_ref,
)
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    Node,
    block_mapping,
    documents,
    is_open,
    listed,
    with_children,
    with_text,
)
from taboot_pipelines.model.graph import SCHEMA_VERSION
from taboot_pipelines.model.records import FileView, NodeRef
from taboot_pipelines.model.stores import STORES

CHART, VALUES = "Chart.yaml", "values.yaml"
#: The name of a variable of the environment (POSIX, XBD 8.1).
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
#: A chart gives a value its meaning, so what only its key says is less sure …
_BY_KEY = 0.8
#: … and a chart by itself does not say in which namespace its names are looked up.
_NOWHERE = 0.8

#: What the names of charts end with that bring several of what they are called after.
_CLUSTERED = re.compile(r"-(?:ha|cluster|galera|sharded)$")

#: (what it is the value of, the text, where it stands, whether it is in an environment)
Value = tuple[str, str, Where, bool]


def claim_objects(claims: ClaimBuilder, found: Sequence[Object], surroundings: Surroundings) -> None:
    """What workloads, Services, Ingresses, routes and databases state; ``surroundings`` knows them."""
    for one in found:
        if one.is_workload:
            claim_workload(claims, one, surroundings)
    for one in found:
        if one.is_service:
            claim_service(claims, one, surroundings)
        elif one.kind == "Ingress" and one.group in ("networking.k8s.io", "extensions"):
            claim_ingress(claims, one, surroundings)
        elif one.kind == "IngressClass" and one.group == "networking.k8s.io":
            claim_class(claims, one)
        elif is_route(one):
            claim_route(claims, one)
        elif is_database(one):
            claim_database(claims, one)


def claim_brought(
    claims: ClaimBuilder,
    values: Node | None,
    release: Node,
    namespace: str,
    surroundings: Surroundings,
    called: Node | None = None,
) -> Node | None:
    """What a chart brings by its values (see ``charts``); returns those that are not spent on it. ``called``:
    what a chart calls its objects that others bring; as the release, if nothing else is said."""
    if values is not None and values.kind == SCALAR:
        values = block_mapping(values) or values
    if values is None or values.kind != MAPPING:
        return values
    called = called or release
    brought = rendered(values, called, namespace)
    claim_objects(claims, brought, surroundings.with_more(brought))
    if not is_of_library(values):
        _claim_stores(claims, values, release, namespace, called)
        return values
    spent = {"controllers", "service", "ingress", "route"}
    rest = {key: entry for key, entry in values.entries.items() if key not in spent}
    return with_children(values, entries=rest)


def _claim_stores(claims: ClaimBuilder, values: Node, release: Node, namespace: str, called: Node) -> None:
    """The databases, caches and brokers that a chart brings besides: charts of their own that are enabled by
    the key which is called as they (helm.sh, "Best practices: dependencies"), as ``release-key``."""
    for key, (name, part) in values.entries.items():
        enabled = part.get("enabled")
        if _CLUSTERED.sub("", key.lower()) not in STORES or enabled is None or not enabled.boolean():
            continue
        end = claims.node(
            service_ref(claims, namespace, f"{release.text}-{key}"),
            name,
            {"schemaVersion": SCHEMA_VERSION},
            declared=True,
        )
        start = claims.node(service_ref(claims, namespace, called.text), called)
        if end is not None:
            claim_reach(claims, end, namespace, name, end.name)
            claims.edge("DEPENDS_ON", start, end, enabled, "helm_dependency", kind="need", confidence=0.9)


def claim_values(
    claims: ClaimBuilder,
    service: NodeRef,
    values: Iterator[Value],
    namespace: str,
    surroundings: Surroundings,
    most: float = 0.9,
) -> None:
    """Connections of a service by ``values``, none surer than ``most``."""
    for key, text, where, in_environment in values:
        # A value outside of an environment may be anything, unless its key says that it is a host's.
        sure = most if in_environment else _BY_KEY
        least = 0.0 if in_environment else 0.9
        claim_connections(
            claims, service, key, text, where, namespace, surroundings, "helm_value", (least, sure, most)
        )


def values_of(values: Node | None, key: str = "") -> Iterator[Value]:
    """The scalars of a tree of values, but for those of images. A text of several lines is a file's, of which
    each line counts."""
    waiting = [(key, values)] if values is not None else []
    while waiting:
        key, node = waiting.pop()
        if "IMAGE" in key.upper():
            continue
        if node.kind == SCALAR:
            if "\n" not in node.text:
                yield key, node.text, node, _VARIABLE.fullmatch(key) is not None
                continue
            for name, text, where in lines_of(node.origin.path, node.origin.text, node.start, node.end):
                if "IMAGE" not in name.upper():
                    yield name, text, where, _VARIABLE.fullmatch(name) is not None
        elif node.kind == MAPPING:
            variable, value = node.scalar("name"), node.get("value")
            if variable is not None and value is not None and value.kind == SCALAR:
                if "IMAGE" not in variable.text.upper():
                    yield variable.text, value.text, value, True
                continue
            waiting += [(name, child) for name, (_, child) in reversed(node.entries.items())]
        else:
            waiting += [(key, item) for item in reversed(node.items)]


def looks_like_chart(path: str) -> bool:
    """Whether a file describes a chart of Helm; its name is given."""
    return posixpath.basename(path) == CHART


def claim_chart(claims: ClaimBuilder, path: str, view: FileView) -> list[str]:
    """What an application's chart connects to by the values that it has of its own; the files that it takes
    in. A chart that lies within another (``charts/``) gets its values from that one, and says nothing."""
    folder = posixpath.dirname(path)
    outer, last = posixpath.split(posixpath.dirname(folder))
    if last == "charts" and view.read(posixpath.join(outer, CHART)) is not None:
        return []
    values = posixpath.join(folder, VALUES)
    for chart in documents(path, claims.texts)[:1]:
        name, kind = chart.scalar("name"), chart.scalar("type")
        if name is None or is_open(name.text) or (kind is not None and kind.text == "library"):
            continue
        placed = placement(folder, view)
        release = name if placed is None else with_text(name, placed.name)
        namespace = DEFAULT_NAMESPACE if placed is None else placed.namespace
        service = service_ref(claims, namespace, release.text)
        surroundings = Surroundings(path, view, (), claims.texts, default_namespace(path, view))
        claim_reach(claims, service, namespace, name, release.text, pattern=True)
        for node in documents(values, claims.texts):
            rest = _claim_dependencies(claims, chart, node, (release, namespace), surroundings)
            most = _NOWHERE if placed is None else 0.9
            claim_values(claims, service, values_of(rest), namespace, surroundings, most)
    return [values] if values in view.paths else []


def _claim_dependencies(
    claims: ClaimBuilder,
    chart: Node,
    values: Node,
    placed: tuple[Node, str],
    surroundings: Surroundings,
) -> Node:
    """What the charts bring that a chart depends on, each by the values under its name there; returns the
    values that are not spent on it. ``placed``: the release, and its namespace."""
    release, namespace = placed
    entries = dict(values.entries)
    for dependency in listed(chart, "dependencies"):
        name = dependency.scalar("alias") or dependency.scalar("name")
        if name is None or name.text not in entries:
            continue
        key, given = entries[name.text]
        # The common library calls its objects as the release, other charts theirs after themselves too.
        plain = is_of_library(given) or name.text in release.text
        called = release if plain else with_text(name, f"{release.text}-{name.text}")
        rest = claim_brought(claims, given, release, namespace, surroundings, called)
        entries[name.text] = (key, given if rest is None else rest)
    return with_children(values, entries=entries) if values.kind == MAPPING else values
