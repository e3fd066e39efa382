"""How one Compose model overrides another (specification, "Merge and override"): mappings by key, sequences
appended, commands replaced, lists of ``K=V`` read as mappings first; ``!reset`` takes a value away,
``!override`` replaces it. Nodes are never changed: a merge makes new ones whose leaves keep the place of the
value that took effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from taboot_pipelines.extraction.tier_a.compose.nodes import (
    MAPPING,
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
#: One value or a list of them.
_LIST = "list"
#: A build context or a mapping.
_BUILD = "build"

_BUILD_RULES: Mapping[str, Rule] = {"args": _PAIRS, "labels": _PAIRS, "additional_contexts": _PAIRS}
SERVICE_RULES: Mapping[str, Rule] = {
    "annotations": _PAIRS,
    "build": _BUILD,
    "command": _REPLACE,
    "depends_on": _NAMES,
    "deploy": {"labels": _PAIRS},
    "dns": _LIST,
    "entrypoint": _REPLACE,
    "env_file": _LIST,
    "environment": _PAIRS,
    "extends": _REPLACE,
    "extra_hosts": _LIST,
    "healthcheck": {"test": _REPLACE},
    "label_file": _LIST,
    "labels": _PAIRS,
    "networks": _NAMES,
    "sysctls": _PAIRS,
}
#: ``*`` stands for every key that is not named.
MODEL_RULES: Mapping[str, Rule] = {"services": {"*": SERVICE_RULES}, "include": _REPLACE}


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


def merge(base: Node, over: Node, rule: Rule | None) -> Node:
    """``over`` laid on ``base``."""
    if over.tag == OVERRIDE or base.tag == RESET or rule == _REPLACE:
        return over
    if over.is_null:
        return base
    if base.is_null:
        return over
    if rule == _PAIRS:
        return _merge_entries(over, pairs(base), pairs(over), {"*": _REPLACE})
    if rule == _NAMES:
        return _merge_entries(over, names(base), names(over), {})
    if rule == _LIST:
        return with_children(over, items=[*_listed(base), *_listed(over)])
    if rule == _BUILD:
        return _merge_entries(over, _build(base), _build(over), _BUILD_RULES)
    if base.kind == MAPPING and over.kind == MAPPING:
        return _merge_entries(over, base.entries, over.entries, rule if isinstance(rule, Mapping) else {})
    if base.kind == SEQUENCE and over.kind == SEQUENCE:
        return with_children(over, items=[*base.items, *over.items])
    return over


def _merge_entries(
    place: Node, base: dict[str, Entry], over: dict[str, Entry], rules: Mapping[str, Rule]
) -> Node:
    entries = dict(base)
    for name, (key, value) in over.items():
        old = entries.get(name)
        if value.tag == RESET:
            entries.pop(name, None)
        elif old is None:
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
    """``node`` without what is tagged ``!reset`` and had nothing to take away."""
    if node.kind == MAPPING:
        return with_children(
            node, entries={n: (k, prune(v)) for n, (k, v) in node.entries.items() if v.tag != RESET}
        )
    if node.kind == SEQUENCE:
        return with_children(node, items=[prune(i) for i in node.items if i.tag != RESET])
    return node
