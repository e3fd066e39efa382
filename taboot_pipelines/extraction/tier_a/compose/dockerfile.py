"""The images that a Dockerfile starts from: its ``FROM`` instructions, with ``ARG`` values put in.

Reference: the Dockerfile reference of BuildKit (parser directives, line continuation, here-documents, build
stages).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from taboot_pipelines.extraction.tier_a.compose.variables import expand

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
