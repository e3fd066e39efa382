"""Dockerfiles by themselves: what a build starts from, and the ports of what it gives.

The thing that a Dockerfile builds has no name in it. It is the service of its folder, in a scope of its own
as a Compose project is; ``NAME.Dockerfile`` is NAME's. No name is declared thereby: what prose calls ``app``
is not the build of a folder called so.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from taboot_pipelines.extraction.tier_a.claims import ClaimBuilder, Quote
from taboot_pipelines.extraction.tier_a.compose.builds import (
    Instruction,
    base_images,
    instructions,
    words,
)
from taboot_pipelines.extraction.tier_a.compose.variables import expand
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.recognition import NOT_IN_FORCE
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model.graph import SCHEMA_VERSION, Basis, is_hostname
from taboot_pipelines.model.records import FileView, Interpretation, NodeRef, SourceFacts

#: Ports of one range that are listed.
MAX_RANGE = 1024
_PATH = re.compile(r"(?:(?P<name>[^/]+)\.)?(?:dockerfile|containerfile)(?:[._-][^/]+)?", re.IGNORECASE)
#: Endings of documents about Dockerfiles, and of what makes or leaves them out.
_OTHER = NOT_IN_FORCE | {"dockerignore", "md", "html", "htm", "txt", "rst", "py", "sh", "yml", "yaml", "json"}
_PORTS = re.compile(r"0*(\d{1,5})(?:-0*(\d{1,5}))?(?:/([A-Za-z]+))?", re.ASCII)
#: Longer values of variables count as unknown: no list of ports is as long.
_MAX_VALUE = 4096
_MAX_STAGES = 1000
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def is_dockerfile_path(path: str) -> bool:
    """Whether a file of this path is a Dockerfile: ``Dockerfile``, ``Containerfile``, ``Dockerfile.dev``,
    ``web.Dockerfile``."""
    name = posixpath.basename(path)
    return _PATH.fullmatch(name) is not None and name.rpartition(".")[2].lower() not in _OTHER


@dataclass(slots=True)
class _Stage:
    """A stage of the build: the values of its variables, and the ports that it exposes."""

    parent: _Stage | None
    variables: dict[str, str | None]
    ports: list[tuple[Quote, str, tuple[str, ...]]] = field(default_factory=list)


class DockerfileReader:
    """Reads Dockerfiles (a :class:`~taboot_pipelines.extraction.tier_a.recognition.FormatReader`)."""

    name = "dockerfile"
    version = "2"

    def interpret(self, path: str, view: FileView, source: SourceFacts) -> Interpretation:
        texts = UnitTexts(view)
        text = texts.text(path) or ""
        claims = ClaimBuilder(source, texts)
        froms = [i for i in instructions(text) if i.keyword == "FROM"]
        if not froms:
            return claims.result()
        if len(froms) > _MAX_STAGES:
            claims.texts.problem(
                path, "E_TOO_LARGE", f"{path}: it has more than {_MAX_STAGES} stages; it is not read."
            )
            return claims.result()
        service = _service(claims, path)
        unresolved: list[str] = []
        ports = _read_ports(claims, path, _last_stage(path, text), unresolved)
        for base in base_images(text, {}):
            said = Quote(base.reference, path, base.start, base.end)
            if base.missing:
                unresolved.append("FROM")
                claims.problem(said, "E_UNRESOLVED", "the image depends on what is given to the build.")
                continue
            reference = try_reference(base.reference)
            if reference is None:
                claims.problem(said, "E_PARSE", "FROM names no image that follows the OCI grammar.")
                continue
            end = claims.image(reference, base.reference, said)
            if end is None:
                continue
            claims.edge(
                "BUILDS",
                service,
                end,
                said,
                "dockerfile_from",
                written=base.reference,
                dockerfile=path,
                stage=base.stage,
            )
        claims.node(
            service,
            Quote("", path, froms[0].start, froms[0].end),
            {
                "schemaVersion": SCHEMA_VERSION,
                "port": ports[0][1] if ports else None,
                "protocol": ports[0][2] if ports else None,
                "unresolved": list(dict.fromkeys(unresolved)),
            },
        )
        for said, port, protocol in ports:
            if protocol in ("tcp", "udp") and is_hostname(service.name):
                end = claims.endpoint(protocol, service.name, port, "/", said)
                claims.edge(
                    "EXPOSES_ENDPOINT",
                    service,
                    end,
                    said,
                    "dockerfile_expose",
                    end_basis=Basis.DERIVED,
                )
        return claims.result()


def _service(claims: ClaimBuilder, path: str) -> NodeRef:
    folder, base = posixpath.split(path)
    root = claims.source.folder or claims.source.source_id
    match = _PATH.fullmatch(base)
    own = match["name"] if match is not None else None
    name = _NOT_IN_A_NAME.sub("-", own or posixpath.basename(folder) or root)[:255]
    return NodeRef("Service", (f"{claims.place}/{folder or root}", name), name)


def _last_stage(path: str, text: str) -> _Stage:
    """The stage that a build gives where it is told no other, with those that it is made of behind it."""
    given: dict[str, str | None] = {}
    stages: dict[str, _Stage] = {}
    last = _Stage(None, {})
    started = False
    for instruction in instructions(text):
        keyword, rest = instruction.keyword, instruction.rest
        if keyword == "FROM":
            started = True
            said = [word for word in words(rest) if not word.startswith("--")]
            parent = stages.get(said[0].lower()) if said else None
            last = _Stage(parent, dict(parent.variables) if parent is not None else {})
            if len(said) == 3 and said[1].lower() == "as":
                stages[said[2].lower()] = last
        elif keyword == "ARG":
            for word in words(rest):
                name, equals, default = word.partition("=")
                scope = last.variables if started else given
                if equals:
                    scope[name] = _value(default, scope)
                elif name not in scope:
                    # Without a default it has the value of the one before the first stage.
                    scope[name] = given.get(name)
        elif keyword == "ENV" and started:
            _set(last.variables, rest)
        elif keyword == "EXPOSE" and started:
            last.ports += _exposed(path, instruction, last.variables)
    return last


def _set(variables: dict[str, str | None], rest: str) -> None:
    """What an `ENV` sets: ``name=value …``, or ``name value`` as of old."""
    said = words(rest)
    pairs = [word.partition("=") for word in said]
    if pairs and not pairs[0][1]:
        pairs = [(said[0], "=", " ".join(said[1:]))]
    # All values are put in before any is set.
    found = [(name, _value(value, variables)) for name, equals, value in pairs if equals]
    variables.update(found)


def _value(text: str, variables: dict[str, str | None]) -> str | None:
    """A value with its variables put in; None if it cannot be known, or is longer than any port."""
    found = expand(text, variables) if len(text) <= _MAX_VALUE else None
    known = found is not None and not found.missing and found.valid and len(found.text) <= _MAX_VALUE
    return found.text if found is not None and known else None


def _exposed(
    path: str, instruction: Instruction, variables: dict[str, str | None]
) -> list[tuple[Quote, str, tuple[str, ...]]]:
    found = []
    for piece, start in instruction.pieces:
        for match in re.finditer(r"\S+", piece):
            said = Quote(match[0], path, start + match.start(), start + match.end())
            value = expand(match[0].strip("\"'"), variables)
            found.append((said, value.text, value.missing if value.valid else ("$",)))
    return found


def _read_ports(
    claims: ClaimBuilder, path: str, stage: _Stage | None, unresolved: list[str]
) -> list[tuple[Quote, int, str]]:
    """(statement, port, protocol) of a stage and of those it is made of, each once, in the order of the
    file."""
    chain: list[_Stage] = []
    while stage is not None:
        chain.append(stage)
        stage = stage.parent
    found: dict[tuple[int, str], Quote] = {}
    for said, text, missing in (port for one in reversed(chain) for port in one.ports):
        if missing:
            unresolved.append("EXPOSE")
            claims.problem(said, "E_UNRESOLVED", "the port depends on what is given to the build.")
            continue
        for word in text.split():
            match = _PORTS.fullmatch(word)
            first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (0, 0)
            if match is None or not 1 <= first <= last <= 65535:
                claims.problem(said, "E_PARSE", "this is no port that can be exposed.")
                continue
            if last - first >= MAX_RANGE:
                claims.problem(said, "E_TOO_LARGE", f"a range of more than {MAX_RANGE} ports is not listed.")
                continue
            for port in range(first, last + 1):
                found.setdefault((port, (match[3] or "tcp").lower()), said)
    return [(said, port, protocol) for (port, protocol), said in found.items()]
