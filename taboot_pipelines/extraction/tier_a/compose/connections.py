"""URLs and ``host:port`` in environment, commands and labels that lead to a service of the project."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.claims import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.compose.variables import Environment
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, SEQUENCE, Entry, Node, with_text
from taboot_pipelines.model.records import NodeRef

# A scheme is looked for only where a word starts: from every letter of a long word the time is quadratic.
_URL = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*)://([^\s/?#\"'<>\\;]+)")
_AUTHORITY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::(?:(\d{1,5})|\$.*))?", re.ASCII)
_HOST_PORT = re.compile(
    r"(?:^|(?<=[\s=,;@\"'(\[|]))([A-Za-z0-9][A-Za-z0-9._-]*):(\d{1,5})(?=$|[\s,;/\"')\]|?&])", re.ASCII
)


def claim_connections(c: ProjectClaims, ref: NodeRef, name: str, node: Node) -> None:
    """Connections to the services that the texts of this one name."""
    links = node.get("links")
    local = {
        a: t for t, _, a in (i.text.partition(":") for i in (links.each() if links is not None else ())) if a
    }
    for text, quoted in _texts(c, name, node):
        for scheme, host, port in named_hosts(text):
            target = c.answering.get(host) or local.get(host)
            if target is None or target == name or target not in c.project.services:
                continue
            end = c.service(target)
            c.edge(
                "CONNECTS_TO", ref, end, quoted, "compose_env_url", confidence=0.9, protocol=scheme, port=port
            )
        if quoted.missing and "://" in text:
            c.mark(name, "url", quoted)


def _texts(c: ProjectClaims, name: str, node: Node) -> Iterator[tuple[str, Node]]:
    environment = node.get("environment")
    own = merging.pairs(environment)
    for variable, (_, value) in own.items():
        # An image reference has the form of a host and a port.
        if value.kind == SCALAR and "IMAGE" not in variable.upper():
            yield value.text, value
    # In an `env_file` the project's environment counts first, then the service's own.
    given = {
        variable: None if value.missing else value.text
        for variable, (_, value) in own.items()
        if value.kind == SCALAR and not (value.is_null and value.plain)
    }
    outer = {**given, **c.project.environment}
    for variable, (text, quoted) in _file_values(c, name, "env_file", node.get("env_file"), outer).items():
        if variable not in own and "IMAGE" not in variable.upper() and text is not None:
            yield text, quoted
    for field in ("command", "entrypoint"):
        part = node.get(field)
        for value in part.each() if part is not None else ():
            yield value.text, value
    for _, value in all_labels(c, name, node).values():
        yield value.text, value


def _file_values(
    c: ProjectClaims, service: str, field: str, files: Node | None, outer: Environment
) -> dict[str, tuple[str | None, Node]]:
    """{name: (value, the node that names the file)} of `env_file` or `label_file`, the later file
    winning."""
    found: dict[str, tuple[str | None, Node]] = {}
    for item in (files.items if files.kind == SEQUENCE else [files]) if files is not None else ():
        node = item if item.kind == SCALAR else item.scalar("path")
        if node is None or c.mark(service, field, node):
            continue
        path = resolve_path(node.origin.base, node.text)
        form = item.scalar("format")
        values = c.loader.read_environment(
            path,
            outer,
            earlier={variable: value for variable, (value, _) in found.items()},
            raw=form is not None and form.text == "raw",
        )
        if values is None:
            required = item.get("required")
            if required is None or required.boolean(default=True):
                c.report(node, "E_NOT_FOUND", "the file is not in the source.")
            continue
        found.update((variable, (value, node)) for variable, value in values.items())
    return found


def all_labels(c: ProjectClaims, name: str, node: Node) -> dict[str, Entry]:
    """The labels of a service from `label_file`, `labels` and `deploy.labels`, the later winning."""
    found: dict[str, Entry] = {}
    for label, (text, quoted) in _file_values(c, name, "label_file", node.get("label_file"), {}).items():
        if text is not None:
            found[label] = (quoted, with_text(quoted, text, plain=False))
    deploy = node.get("deploy")
    for labels in (node.get("labels"), deploy.get("labels") if deploy is not None else None):
        if labels is not None:
            found.update((k, e) for k, e in merging.pairs(labels).items() if e[1].kind == SCALAR)
    return found


def named_hosts(text: str) -> list[tuple[str, str, int | None]]:
    """(protocol, host, port) of every URL, and of every ``host:port`` outside one, in order."""
    if ":" not in text:
        return []
    found: list[tuple[str, str, int | None]] = []
    rest = text
    if "://" in text:
        for match in _URL.finditer(text):
            for part in match[2].rpartition("@")[2].split(","):
                authority = _AUTHORITY.fullmatch(part)
                if authority is not None:
                    found.append((match[1].lower(), authority[1], _port(authority[2])))
        rest = _URL.sub(" ", text)
    for match in _HOST_PORT.finditer(rest):
        port = _port(match[2])
        if port is not None:
            found.append(("tcp", match[1], port))
    return found


def _port(text: str | None) -> int | None:
    return int(text) if text and 1 <= int(text) <= 65535 else None
