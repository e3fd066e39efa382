"""One document of a Compose file brought into the form in which files are laid over one another: variables
replaced, old forms in new ones.
"""

from __future__ import annotations

from dataclasses import replace

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.files import modernized
from taboot_pipelines.extraction.tier_a.compose.variables import Environment, expand
from taboot_pipelines.extraction.tier_a.texts import Problems
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    Node,
    with_children,
    with_text,
)

_SECTIONS = frozenset({"services", "networks", "include"})


def canonical(document: Node, path: str, values: Environment, problems: Problems) -> Node:
    """What of a document (a mapping) makes the graph, with ``values`` put in and bare `environment` names
    given theirs."""
    document = modernized(document, path)
    entries = {k: e for k, e in document.entries.items() if k in _SECTIONS}
    done: dict[int, Node] = {}
    if "$" in document.origin.text:
        entries = {k: (e[0], _interpolate(e[1], values, done, problems)) for k, e in entries.items()}
    for section, change in (
        ("services", lambda service: _with_bare_variables(service, values)),
        ("networks", _with_plain_external),
    ):
        key, node = entries.get(section, (document, None))
        if node is not None and node.kind == MAPPING:
            made = with_children(node, entries={k: (e[0], change(e[1])) for k, e in node.entries.items()})
            made.tag = node.tag
            entries[section] = (key, made)
    return with_children(document, entries=entries)


def _interpolate(node: Node, values: Environment, done: dict[int, Node], problems: Problems) -> Node:
    known = done.get(id(node))
    if known is not None:
        return known
    made = node
    if node.kind == SCALAR:
        if "$" in node.text:
            result = expand(node.text, values)
            if not result.valid:
                node.report(
                    problems,
                    "E_PARSE",
                    "a variable is not written as Compose allows; the value is kept as it stands.",
                )
                made = with_text(node, node.text, ("$",), plain=False)
            else:
                made = with_text(node, result.text, result.missing, plain=False)
    elif node.kind == MAPPING:
        made = with_children(
            node,
            entries={
                k: (key, _interpolate(v, values, done, problems)) for k, (key, v) in node.entries.items()
            },
        )
        made.tag = node.tag
    else:
        made = with_children(node, items=[_interpolate(i, values, done, problems) for i in node.items])
        made.tag = node.tag
    done[id(node)] = made
    return made


def runs(service: Node) -> bool:
    """Whether a service says what is run: an image, a build or a provider."""
    return any(service.get(field) is not None for field in ("image", "build", "provider"))


def anchored(service: Node, base: str) -> Node:
    """A `build` without a context is built in the directory of the project, not of the file it came from."""
    build = service.entries.get("build")
    if build is None or build[0].origin.base == base:
        return service
    key = with_text(build[0], build[0].text)
    key.origin = replace(key.origin, base=base)
    return with_children(service, entries={**service.entries, "build": (key, build[1])})


def _with_plain_external(network: Node) -> Node:
    """``external: {name: N}``, the old form of a network's own name, as `external` and `name`: they are laid
    over one another one by one."""
    external = network.get("external")
    name = external.get("name") if external is not None else None
    if external is None or name is None or network.get("name") is not None:
        return network
    key = network.entries["external"][0]
    made = with_children(
        network,
        entries={
            **network.entries,
            "external": (key, with_text(external, "true", plain=True)),
            "name": (key, name),
        },
    )
    made.tag = network.tag
    return made


def _with_bare_variables(service: Node, values: Environment) -> Node:
    """``environment`` entries without a value take it from the project's environment."""
    environment = service.get("environment")
    if environment is None:
        return service
    entries = merging.pairs(environment)
    given = {
        # An empty value has no width; the name stands for it.
        name: (key, with_text(key, known, plain=False))
        for name, (key, value) in entries.items()
        if value.is_null and value.plain and (known := values.get(name)) is not None
    }
    if not given:
        return service
    changed = with_children(environment, entries={**entries, **given})
    changed.tag = environment.tag
    made = with_children(
        service, entries={**service.entries, "environment": (service.entries["environment"][0], changed)}
    )
    made.tag = service.tag
    return made
