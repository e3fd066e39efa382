"""The images of a service: the one it runs, the one it builds, and those its Dockerfile starts from.

Reference: the Dockerfile reference of BuildKit (parser directives, line continuation, here-documents, build
stages).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taboot_pipelines.extraction.tier_a.compose import merging
from taboot_pipelines.extraction.tier_a.compose.claims import ProjectClaims
from taboot_pipelines.extraction.tier_a.compose.files import resolve_path
from taboot_pipelines.extraction.tier_a.compose.variables import expand, resolved
from taboot_pipelines.extraction.tier_a.images import try_reference
from taboot_pipelines.extraction.tier_a.yaml_nodes import SCALAR, Entry, Node, with_text
from taboot_pipelines.model.graph import Basis
from taboot_pipelines.model.records import Evidence, NodeRef, Problem

_ESCAPE = re.compile(r"#\s*escape\s*=\s*([\\`])\s*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*[A-Za-z]+\s*=\s*\S")
_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)(?=\s|$)")
#: It begins a word of the shell: neither ``<<<`` nor a shift within ``$((…))`` is one.
_HEREDOC = re.compile(r"(?<!\S)[0-9]*<<(-?)([\"']?)([A-Za-z_][A-Za-z0-9_]*)\2")
_FROM = re.compile(r"(?:--[a-z]+=\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*", re.IGNORECASE)
_TAKES_HEREDOC = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True, slots=True)
class BaseImage:
    """A ``FROM`` of an image: the reference with its variables put in, the stage's name, and the
    instruction's code points ``[start, end)``. Variables without a value are named in ``missing`` and stand
    in ``reference`` as written."""

    reference: str
    stage: str | None
    start: int
    end: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction at code points ``[start, end)``: its keyword in upper case, the rest of it with its
    continued lines joined, and the same rest in pieces, each with where it begins."""

    keyword: str
    rest: str
    start: int
    end: int
    pieces: tuple[tuple[str, int], ...]


def base_images(text: str, build_args: Mapping[str, str | None]) -> list[BaseImage]:
    """Every ``FROM`` that names an image, in order: earlier stages and ``scratch`` are none.

    ``build_args`` are the values given to the build; an ``ARG`` before the first ``FROM`` takes its value
    from there, else its default.
    """
    scope: dict[str, str | None] = {}
    stages: set[str] = set()
    found: list[BaseImage] = []
    seen_from = False
    for instruction in instructions(text):
        keyword, rest = instruction.keyword, instruction.rest
        if keyword == "ARG" and not seen_from:
            for part in words(rest):
                name, equals, default = part.partition("=")
                if name in build_args:
                    scope[name] = build_args[name]
                elif equals:
                    value = expand(default, scope)
                    scope[name] = None if value.missing or not value.valid else value.text
        elif keyword == "FROM":
            seen_from = True
            match = _FROM.fullmatch(rest.strip())
            if match is None:
                continue
            written, stage = match.group(1).strip("\"'"), match.group(2)
            result = expand(written, scope)
            name = result.text
            if name.lower() not in stages and name.lower() != "scratch" and name:
                found.append(
                    BaseImage(
                        name,
                        stage,
                        instruction.start,
                        instruction.end,
                        result.missing if result.valid else ("$",),
                    )
                )
            if stage is not None:
                stages.add(stage.lower())
    return found


def words(rest: str) -> list[str]:
    """The words of an instruction, without the quotes that hold some together."""
    return [
        m[0].replace('"', "").replace("'", "") for m in re.finditer(r"(?:[^\s\"']|\"[^\"]*\"|'[^']*')+", rest)
    ]


def instructions(text: str) -> list[Instruction]:
    """Every instruction of a Dockerfile, in order; here-documents are none."""
    found: list[Instruction] = []
    escape = "\\"
    directives = True
    at, n = (1 if text.startswith("\ufeff") else 0), len(text)
    while at < n:
        stop, after = _line(text, at)
        line = text[at:stop]
        bare = line.strip()
        if directives:
            match = _ESCAPE.fullmatch(bare)
            if match is not None:
                escape = match.group(1)
            directives = _DIRECTIVE.match(bare) is not None
        keyword = _INSTRUCTION.match(line) if not bare.startswith("#") else None
        if keyword is None:
            at = after
            continue
        start = at + keyword.start(1)
        pieces: list[tuple[str, int]] = []
        offset = at + keyword.end()
        end = stop
        while True:
            piece = text[offset:stop]
            joined = piece.rstrip(" \t")
            continued = joined.endswith(escape)
            pieces.append((joined[:-1] if continued else piece, offset))
            end = offset + len(piece.rstrip())
            if not continued:
                break
            # Comments and blank lines inside a continued instruction are passed over.
            offset = after
            while offset < n:
                stop, after = _line(text, offset)
                inner = text[offset:stop].strip()
                if inner and not inner.startswith("#"):
                    break
                offset = after
            if offset >= n:
                stop = n
                break
        name, rest = keyword.group(1).upper(), " ".join(piece for piece, _ in pieces)
        found.append(Instruction(name, rest, start, end, tuple(pieces)))
        at = after
        if name == "ONBUILD":
            name = rest.split(maxsplit=1)[0].upper() if rest.strip() else ""
        if name in _TAKES_HEREDOC:
            for dash, _, word in _HEREDOC.findall(rest):
                at = _after_heredoc(text, at, word, strip_tabs=dash == "-")
    return found


def _line(text: str, at: int) -> tuple[int, int]:
    """The end of the line at ``at`` without its line break, and the start of the next."""
    newline = text.find("\n", at)
    if newline < 0:
        return len(text), len(text)
    return (newline - 1 if newline > at and text[newline - 1] == "\r" else newline), newline + 1


def _after_heredoc(text: str, at: int, word: str, *, strip_tabs: bool) -> int:
    while at < len(text):
        stop, after = _line(text, at)
        line = text[at:stop]
        at = after
        if (line.lstrip("\t") if strip_tabs else line) == word:
            break
    return at


_REMOTE_CONTEXT = re.compile(r"[a-z+]+://|git@|github\.com/", re.IGNORECASE)


def claim_builds(c: ProjectClaims, ref: NodeRef, name: str, key: Node, node: Node) -> None:
    """`image`, `build` and the Dockerfile of one service."""
    image = node.scalar("image")
    known = c.images.get(name)
    if image is not None and known is None and not c.mark(name, "image", image):
        c.report(image, "E_PARSE", "the image reference does not follow the OCI grammar.")
    build = node.get("build")
    if build is None:
        if known is not None and image is not None:
            end = c.image(known[0], image.text, image)
            c.edge("BUILDS", ref, end, image, "compose_image", written=image.text)
        return
    context = build if build.kind == SCALAR else build.scalar("context")
    inline = build.scalar("dockerfile_inline")
    dockerfile = build.scalar("dockerfile")
    target = build.scalar("target")
    arguments = merging.pairs(build.get("args"))
    build_key = node.entries["build"][0]
    said = context or dockerfile or inline or build_key
    for what, part in (("build", context), ("build.dockerfile", dockerfile), ("build.target", target)):
        if part is not None:
            c.mark(name, what, part)
    details: dict[str, Any] = {
        "dockerfile": dockerfile.text if dockerfile is not None else None,
        "target": target.text if target is not None else None,
        "buildArgs": sorted(a for a in arguments if a),
    }
    if known is not None and image is not None:
        end = c.image(known[0], image.text, image)
        c.edge("BUILDS", ref, end, image, "compose_build", written=image.text, **details)
    elif image is None:
        written = f"{c.project.name}{c.project.separator}{name}".lower()
        reference = try_reference(written)
        if reference is None:
            c.report(key, "E_PARSE", "the service's name gives no image name for its build.")
        else:
            end = c.image(reference, written, said)
            c.edge("BUILDS", ref, end, said, "compose_build", end_basis=Basis.DERIVED, **details)
    _base_images(c, ref, name, build_key, build, context, dockerfile, inline, arguments)


def _base_images(
    c: ProjectClaims,
    ref: NodeRef,
    name: str,
    key: Node,
    build: Node,
    context: Node | None,
    dockerfile: Node | None,
    inline: Node | None,
    arguments: Mapping[str, Entry],
) -> None:
    values = {
        k: None if v.missing else c.project.environment.get(k) if v.is_null else resolved(v)
        for k, (_, v) in arguments.items()
    }
    if inline is not None:
        text, path, place = inline.text, None, inline
    else:
        found = dockerfile_path(key, context, dockerfile)
        read = c.loader.read(found)
        if read is None or found is None:
            return
        text, path, place = read, found, build
    replaced = {k: v.text for k, (_, v) in merging.pairs(build.get("additional_contexts")).items()}
    for base in base_images(text, values):
        written = base.reference
        if written in replaced:
            if not replaced[written].startswith("docker-image://"):
                continue
            written = replaced[written].removeprefix("docker-image://")
        reference = None if base.missing else try_reference(written)
        if reference is None:
            if base.missing:
                c.mark(name, "FROM", with_text(place, "", base.missing))
            elif path is not None:
                c.loader.problems.add(_dockerfile_problem(path, text, base.start))
            continue
        where = place.evidence if path is None else Evidence(path, base.start, base.end)
        end = c.image(reference, written, where)
        c.edge(
            "BUILDS", ref, end, where, "dockerfile_from", written=written, dockerfile=path, stage=base.stage
        )


def dockerfile_path(key: Node, context: Node | None, dockerfile: Node | None) -> str | None:
    """The path from the source's root of the Dockerfile of the `build` at ``key``; None if it lies elsewhere
    or cannot be known."""
    if context is not None and (context.missing or _REMOTE_CONTEXT.match(context.text)):
        return None
    if dockerfile is not None and dockerfile.missing:
        return None
    directory = key.origin.base if context is None else resolve_path(context.origin.base, context.text)
    # Written with a slash at the front it is a path of the machine, not of the source.
    name = dockerfile.text if dockerfile is not None else "Dockerfile"
    return None if directory is None else resolve_path(directory, name)


def _dockerfile_problem(path: str, text: str, offset: int) -> Problem:
    line = text.count("\n", 0, offset) + 1
    return Problem(
        path,
        "E_PARSE",
        f"{posixpath.normpath(path)}, line {line}: FROM does not name an image that follows the OCI grammar.",
    )
