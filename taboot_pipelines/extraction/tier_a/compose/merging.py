"""A document of a Compose file in the form in which files are laid over one another, and how they are.

Variables are replaced and old forms brought into new ones; then one model overrides another (specification,
"Merge and override"): mappings by key, sequences appended, commands replaced, lists of ``K=V`` read as
mappings first; ``!reset`` takes a value away, ``!override`` replaces it. Nodes are never changed: a merge
makes new ones whose leaves keep the place of the value that took effect.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from taboot_pipelines.extraction.tier_a.compose.files import modernized
from taboot_pipelines.extraction.tier_a.compose.variables import Environment, expand
from taboot_pipelines.extraction.tier_a.texts import Problems
from taboot_pipelines.extraction.tier_a.yaml_nodes import (
    MAPPING,
    SCALAR,
    SEQUENCE,
    Entry,
    Node,
    with_children,
    with_text,
)

RESET = "!reset"
OVERRIDE = "!override"

Rule: TypeAlias = "str | Mapping[str, Rule]"
#: The later value stands alone.
_REPLACE = "replace"
#: ``K=V`` items or a mapping.
_PAIRS = "pairs"
#: Names or a mapping of names to mappings.
_NAMES = "names"
#: Names or a mapping; a name by itself stands for the condition it has by default.
_CONDITIONS = "conditions"
#: One value or a list of them.
_LIST = "list"
#: One path, or a list of paths and of mappings with one: each path once, at its first place.
_FILES = "files"
#: A build context or a mapping.
_BUILD = "build"

_BUILD_RULES: Mapping[str, Rule] = {"args": _PAIRS, "labels": _PAIRS, "additional_contexts": _PAIRS}
SERVICE_RULES: Mapping[str, Rule] = {
    "annotations": _PAIRS,
    "build": _BUILD,
    "command": _REPLACE,
    "depends_on": _CONDITIONS,
    "deploy": {"labels": _PAIRS},
    "dns": _LIST,
    "entrypoint": _REPLACE,
    "env_file": _FILES,
    "environment": _PAIRS,
    "extends": _REPLACE,
    "extra_hosts": _LIST,
    "healthcheck": {"test": _REPLACE},
    "label_file": _FILES,
    "labels": _PAIRS,
    "networks": _NAMES,
    "sysctls": _PAIRS,
}
#: Of two lists of subnets the later one counts.
NETWORK_RULES: Mapping[str, Rule] = {"labels": _PAIRS, "ipam": {"config": _REPLACE}}
#: What of a model names its parts, and how one part is laid over another.
SECTIONS: Mapping[str, Mapping[str, Rule]] = {
    "services": SERVICE_RULES,
    "networks": NETWORK_RULES,
    "configs": {},
    "volumes": {"labels": _PAIRS},
}
#: ``*`` stands for every key that is not named.
MODEL_RULES: Mapping[str, Rule] = {
    **{section: {"*": rules} for section, rules in SECTIONS.items()},
    "include": _REPLACE,
}
#: A list item of more nodes is told from others as an object, not by what it holds; longer lists are not
#: looked through for what stands in both.
_MAX_SIGNED = 64
_MAX_COMPARED = 1000


def pairs(node: Node | None) -> dict[str, Entry]:
    """A mapping, or a list of ``K=V``, as entries. Of an item both nodes are the item itself, and without
    ``=`` its value is null."""
    if node is None:
        return {}
    if node.kind == MAPPING:
        return node.entries
    entries: dict[str, Entry] = {}
    for item in node.each():
        key, equals, value = item.text.partition("=")
        entries[key.strip()] = (item, with_text(item, value, plain=not equals))
    return entries


def names(node: Node | None) -> dict[str, Entry]:
    """A mapping, or a list of names, as entries: an item has a null value at its own place."""
    if node is None:
        return {}
    if node.kind == MAPPING:
        return node.entries
    return {item.text: (item, with_text(item, "", plain=True)) for item in node.each()}


def _conditions(node: Node) -> dict[str, Entry]:
    """As :func:`names`; a name of a list has the defaults written out, which an override then takes over."""
    if node.kind == MAPPING:
        return node.entries
    return {
        item.text: (
            item,
            with_children(
                item,
                entries={
                    "condition": (item, with_text(item, "service_started", plain=False)),
                    "required": (item, with_text(item, "true", plain=True)),
                },
            ),
        )
        for item in node.each()
    }


def merge(base: Node, over: Node, rule: Rule | None) -> Node:
    """``over`` laid on ``base``. What is tagged ``!reset`` takes away and stays in the result, so that it
    takes away from what that is laid on too; :func:`prune` ends it."""
    if over.tag in (OVERRIDE, RESET) or base.tag == RESET or rule == _REPLACE:
        return over
    if over.is_null:
        return base
    if base.is_null:
        return over
    if rule == _PAIRS:
        later = pairs(over)
        if base.kind == SEQUENCE:
            # Compose finds no key in a list of ``K=V``, so that there it takes none away.
            later = {name: entry for name, entry in later.items() if entry[1].tag != RESET}
        return _merge_entries(over, pairs(base), later, {"*": _REPLACE})
    if rule == _NAMES:
        return _merge_entries(over, names(base), names(over), {})
    if rule == _CONDITIONS:
        return _merge_entries(over, _conditions(base), _conditions(over), {})
    if rule == _LIST:
        return with_children(over, items=_appended(_listed(base), _listed(over)))
    if rule == _FILES:
        files = {_path(item): item for item in _listed(base)}
        files.update((_path(item), item) for item in _listed(over))
        return with_children(over, items=list(files.values()))
    if rule == _BUILD:
        return _merge_entries(over, _build(base), _build(over), _BUILD_RULES)
    if base.kind == MAPPING and over.kind == MAPPING:
        return _merge_entries(over, base.entries, over.entries, rule if isinstance(rule, Mapping) else {})
    if base.kind == SEQUENCE and over.kind == SEQUENCE:
        return with_children(over, items=_appended(base.items, over.items))
    return over


def _appended(base: list[Node], over: list[Node]) -> list[Node]:
    """Both lists; an item that both have from one place, as files that include one another give it, once."""
    if len(base) + len(over) > _MAX_COMPARED:
        return [*base, *over]
    known = {_signature(item) for item in base}
    return [*base, *(item for item in over if _signature(item) not in known)]


def _signature(node: Node) -> tuple[object, ...]:
    if node.size > _MAX_SIGNED:
        return (id(node),)
    return (
        node.origin.path,
        node.start,
        node.end,
        node.text,
        *map(_signature, node.items),
        *((name, _signature(value)) for name, (_, value) in node.entries.items()),
    )


def _path(item: Node) -> tuple[str, str]:
    """The path that an item of `env_file` names, with the directory it starts from."""
    node = item if item.kind != MAPPING else item.scalar("path")
    return (item.origin.base, "") if node is None else (node.origin.base, node.text)


def _merge_entries(
    place: Node, base: dict[str, Entry], over: dict[str, Entry], rules: Mapping[str, Rule]
) -> Node:
    entries = dict(base)
    for name, (key, value) in over.items():
        old = entries.get(name)
        if old is None:
            entries[name] = (key, value)
        else:
            merged = merge(old[1], value, rules.get(name, rules.get("*")))
            entries[name] = (key if merged is value else old[0], merged)
    return with_children(place, entries=entries)


def _listed(node: Node) -> list[Node]:
    return node.items if node.kind == SEQUENCE else [node]


def _build(node: Node) -> dict[str, Entry]:
    return node.entries if node.kind == MAPPING else {"context": (node, node)}


def prune(node: Node) -> Node:
    """``node`` without what is tagged ``!reset``, and without the tag ``!override``; itself if there is
    none."""
    if node.kind == MAPPING:
        entries = {n: (k, prune(v)) for n, (k, v) in node.entries.items() if v.tag != RESET}
        same = len(entries) == len(node.entries) and all(
            e[1] is node.entries[n][1] for n, e in entries.items()
        )
        return node if same and node.tag != OVERRIDE else with_children(node, entries=entries)
    if node.kind == SEQUENCE:
        items = [prune(item) for item in node.items if item.tag != RESET]
        same = len(items) == len(node.items) and all(map(operator.is_, items, node.items))
        return node if same and node.tag != OVERRIDE else with_children(node, items=items)
    return node


def canonical(
    document: Node, path: str, values: Environment, problems: Problems, unset: dict[str, None]
) -> Node:
    """What of a document (a mapping) makes the graph, with ``values`` put in and bare `environment` names
    given theirs. Variables without a value are added to ``unset``."""
    document = modernized(document, path)
    entries = {k: e for k, e in document.entries.items() if k in MODEL_RULES}
    done: dict[int, Node] = {}
    if "$" in document.origin.text:
        entries = {k: (e[0], _interpolate(e[1], values, done, problems)) for k, e in entries.items()}
        unset.update((name, None) for node in done.values() for name in node.missing if name not in ("", "$"))
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
    entries = pairs(environment)
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
