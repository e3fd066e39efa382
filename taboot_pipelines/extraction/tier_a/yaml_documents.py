"""The YAML documents of a configuration file, and templates of YAML, which are recognised and not guessed."""

from __future__ import annotations

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.claims import Claims, Said
from taboot_pipelines.extraction.tier_a.yaml_nodes import MAPPING, SCALAR, Node, Origin, Problems, parse

#: What Helm, Jinja and their like put values in by.
_MARKS = ("{{", "{%")


def said(node: Node) -> Said:
    """The text of a scalar, or nothing, where its node stands."""
    return Said(node.text if node.kind == SCALAR else "", node.origin.path, node.start, node.end)


def documents(path: str, text: str, claims: Claims) -> list[Node]:
    """The documents of a YAML or JSON file. A template gives none and a problem (``E_UNRESOLVED``); what is
    no YAML raises ``E_PARSE``, ``E_CYCLE`` or ``E_TOO_LARGE``."""
    # JSON may be indented by tabs, which stand in none of its strings; YAML may not.
    plain = text.replace("\t", " ") if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") else text
    problems = Problems()
    try:
        found = parse(Origin(path, plain, ""), problems)
    except TabootError:
        if any(mark in text for mark in _MARKS):
            _note_template(claims, path)
            return []
        raise
    if "{{" in text and any(_has_template(document) for document in found):
        _note_template(claims, path)
        return []
    for problem in problems.listed():
        claims.note(problem.path, problem.code, problem.message)
    return found


def _note_template(claims: Claims, path: str) -> None:
    claims.note(
        path,
        "E_UNRESOLVED",
        f"{path}: a template, which says nothing until its values are put in; what it gives can be read.",
    )


def is_open(text: str) -> bool:
    """Whether a value holds what is yet to be put in, by a template or by the environment."""
    return "{{" in text or "${" in text or "$(" in text


def _has_template(document: Node) -> bool:
    """Whether a plain ``{{ … }}`` stands for a value, which YAML takes for two mappings."""
    seen: set[int] = set()
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.kind == MAPPING and node.origin.text.startswith("{{", node.start):
            return True
        waiting.extend(node.items)
        waiting.extend(value for _, value in node.entries.values())
    return False
