"""Image references: after ``docker run|pull|create``, at ``image:`` and ``FROM``, and by their own form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.extraction.tier_a.images import ImageReference, try_reference
from taboot_pipelines.extraction.tier_a.prose.scan import (
    EXTENSIONS,
    HOST_CHARS,
    MAX_HOST,
    PACKAGE,
    WORD,
    Scan,
)
from taboot_pipelines.model.records import NodeRef
from taboot_pipelines.packaged import word_list

_MAX_COMMAND = 8000
#: How far a line is looked back along for what may stand before a key or an instruction.
_MAX_LEAD = 200
_TAGS = word_list(PACKAGE, "image_tags.txt")
_BOOLEAN_FLAGS = word_list(PACKAGE, "container_flags.txt")
_REGISTRIES = word_list(PACKAGE, "image_registries.txt")
_RUN_IMAGE = re.compile(
    r"(?:docker|podman|nerdctl)[ \t]+(?:image[ \t]+|container[ \t]+)?(pull|run|create)[ \t]+"
)
_IMAGE_KEY = re.compile(r"image:[ \t]*")
_FROM = re.compile(
    r"FROM[ \t]+(?:--platform=\S{1,100}[ \t]+)?([^\s\"'`]{1,512})([ \t]+[Aa][Ss][ \t]+([\w.-]{1,128}))?"
    r"[ \t]*(?=\r?\n|\Z)"
)
_DOCKERFILE = re.compile(r"\n[ \t]*(?:RUN|COPY|CMD|ENTRYPOINT|WORKDIR|ENV|ADD|EXPOSE|ARG|USER|LABEL)[ \t]")
_REGISTRY = re.compile(r"\.(?:io|com|org|aws|co|dev)/")
_TAGGED_PATH = re.compile(r"/[a-z0-9][a-z0-9._-]{0,127}:(?=[A-Za-z0-9_])")
#: What a tag looks like that is no line number.
_TAG = re.compile(r"v?\d+(?:\.\d+)+|[a-z]+-v?\d|v\d|\d+-[a-z]")
_REFERENCE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._/-]{0,300}"
    r"(?::[0-9]{1,5}/[a-z0-9][A-Za-z0-9._/-]{0,300})?"
    r"(?::\w[\w.-]{0,127})?"
    r"(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
#: A word of a shell command on this line or a continued one; quotes may stand anywhere in it.
_TOKEN = re.compile(
    r"""[ \t]*(?:\\\r?\n[ \t]*)*"""
    r"""((?:[^\s\\"']|"(?:[^"\\\n]|\\.){0,2000}"|'[^'\n]{0,2000}'|\\[^\r\n]){1,2000})"""
)
_PLACEHOLDER_NEXT = frozenset("<{$*%>")
_KEY_LEAD = frozenset(" \t-\"'>")
_INSTRUCTION_LEAD = frozenset(" \t>")
_PATH_CHARS = HOST_CHARS | {"/"}
_NOT_BEFORE_PATH = (":", "@", "~", "$", "}", ">", "\\", "%")


#: Start, end and the reference there.
_Candidate = tuple[int, int, ImageReference]


def find_images(scan: Scan) -> None:
    """Find the image references of ``scan``, the surest kind first."""
    for find in (_commands, _image_keys, _dockerfiles, _of_registries, _tagged_paths):
        for start, end, reference in find(scan):
            if scan.take(start, end):
                scan.add("image", NodeRef("Image", (reference.image_id,), reference.name), start, end)


def _commands(scan: Scan) -> Iterator[_Candidate]:
    """Operands of ``docker run``, ``pull`` and ``create``."""
    for m in _RUN_IMAGE.finditer(scan.text):
        if not WORD.match(scan.before(m.start())) and (operand := _operand(scan, m.end())) is not None:
            yield from _reference(scan, *operand, bare=scan.in_code(m.start()))


def _image_keys(scan: Scan) -> Iterator[_Candidate]:
    """Values of ``image:`` in YAML."""
    for m in _IMAGE_KEY.finditer(scan.text):
        if _line_lead(scan, m.start(), _KEY_LEAD):
            end = m.end()
            quote = scan.after(end)
            if quote in ("'", '"'):
                end += 1
            value = _REFERENCE.match(scan.text, end)
            if value is not None and _line_tail(scan, value.end(), quote):
                yield from _reference(scan, end, value.end(), bare=True)


def _dockerfiles(scan: Scan) -> Iterator[_Candidate]:
    """Images of ``FROM``, earlier stages left out."""
    stages = set[str]()
    for m in _FROM.finditer(scan.text):
        if _line_lead(scan, m.start(), _INSTRUCTION_LEAD):
            if m[1] not in stages:
                bare = m[2] is not None or _DOCKERFILE.search(scan.text, m.end(), m.end() + 400) is not None
                yield from _reference(scan, m.start(1), m.end(1), bare=bare)
            if m[3]:
                stages.add(m[3])


def _of_registries(scan: Scan) -> Iterator[_Candidate]:
    """References that begin with a known registry."""
    text = scan.text
    for m in _REGISTRY.finditer(text):
        start = scan.back(m.start(), HOST_CHARS, MAX_HOST)
        if (
            text[start : m.end() - 1].lower() in _REGISTRIES
            and scan.before(start) not in ("/", "@")
            and (r := _REFERENCE.match(text, start))
        ):
            yield from _reference(scan, start, _sentence_end(text, start, r.end()), bare=False)


def _tagged_paths(scan: Scan) -> Iterator[_Candidate]:
    """``name/name:tag`` where the tag looks like one: a path and a number is a file and a line."""
    text = scan.text
    for m in _TAGGED_PATH.finditer(text):
        start = scan.back(m.start(), _PATH_CHARS, MAX_HOST)
        if scan.before(start) in _NOT_BEFORE_PATH or text[start] in "/.-_":
            continue
        r = _REFERENCE.match(text, start)
        if r is None or r.end() <= m.end() - 1:
            continue
        end = _sentence_end(text, start, r.end())
        tag = text[m.end() : end].partition("@")[0].lower()
        if (tag in _TAGS or _TAG.match(tag)) and _may_be_repository(text[start : m.start()]):
            yield from _reference(scan, start, end, bare=False)


def _may_be_repository(namespace: str) -> bool:
    """Whether what stands before a repository's last part is one word, or begins with a registry."""
    if "/" not in namespace and "." not in namespace:
        return True
    first = namespace.partition("/")[0]
    return first in _REGISTRIES or "." in first


def _line_lead(scan: Scan, at: int, allowed: frozenset[str]) -> bool:
    text, stop = scan.text, max(0, at - _MAX_LEAD)
    while at > stop and text[at - 1] != "\n":
        at -= 1
        if text[at] not in allowed:
            return False
    return at == 0 or text[at - 1] == "\n"


def _line_tail(scan: Scan, at: int, quote: str) -> bool:
    """Whether the YAML value that ends here is all of its line, a comment aside."""
    if quote in ("'", '"'):
        if scan.after(at) != quote:
            return False
        at += 1
    line = scan.text[at : at + 200].partition("\n")[0].strip("\r \t")
    return line == "" or (line.startswith("#") and scan.after(at) in (" ", "\t"))


def _sentence_end(text: str, start: int, end: int) -> int:
    """``end`` without the punctuation of a sentence before it."""
    while end > start and text[end - 1] in ".-_/":
        end -= 1
    return end


def _reference(scan: Scan, start: int, end: int, bare: bool) -> Iterator[_Candidate]:
    """The reference that the span is, if it is one; ``bare``: a name alone counts."""
    written = scan.text[start:end]
    if scan.after(end) in _PLACEHOLDER_NEXT or scan.after(end) == "/" or written == "scratch":
        return
    if scan.after(end) == ":" and scan.after(end + 1) in _PLACEHOLDER_NEXT:
        return
    if not (bare or (":" in written or "@" in written or "/" in written)):
        return
    last = written.rpartition("/")[2]
    if "." in last and ":" not in last and last.rpartition(".")[2].lower() in EXTENSIONS:
        return
    reference = try_reference(written)
    if reference is not None:
        yield start, end, reference


def _operand(scan: Scan, at: int) -> tuple[int, int] | None:
    """The image of a ``docker run|pull|create`` command line whose arguments begin at ``at``."""
    text, limit = scan.text, min(len(scan.text), at + _MAX_COMMAND)
    skip = False
    while at < limit and (m := _TOKEN.match(text, at, limit)) is not None:
        token, at = m[1], m.end()
        if skip:
            skip = False
        elif token[0] in "`#":
            # A remark put into the command by backticks, as in "-p 80:80 `#optional`".
            if not (token.startswith("`#") and token.endswith("`")):
                return None
        elif token[0] == "-":
            flags = token.partition("=")[0]
            short = len(flags) > 1 and flags[1] != "-"
            if "=" not in token and token not in _BOOLEAN_FLAGS:
                if short and len(token) > 2:
                    # "-dit" sets switches; what switches there are tells "-p80:80" and "-itp" apart.
                    skip = token[-1] in "peveuwhlm" and all(c in "ditqP" for c in token[1:-1])
                else:
                    skip = True
        else:
            r = _REFERENCE.match(text, m.start(1), m.end(1))
            if r is None:
                return None
            end = _sentence_end(text, m.start(1), r.end())
            # What follows must not make it another word.
            return (m.start(1), end) if text[end : m.end(1)].strip("`'\".,;:)*_") == "" else None
    return None
