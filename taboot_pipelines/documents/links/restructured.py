"""The links of reStructuredText and Sphinx: embedded, by name, anonymous, roles, tables of contents, URLs.

``reference``: the docutils "reStructuredText Markup Specification", and Sphinx' cross-referencing roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.documents.links.hyperlink import Hyperlink, LinkKind, bare_urls, hyperlink

_LITERAL_INLINE = re.compile(r"``[^`\n](?:[^\n]*?[^`\n])??``")
_DIRECTIVE = re.compile(r"([ \t]*)\.\. +([\w:.+-]+)::(?:[ \t]|$)")
_COMMENT = re.compile(r"([ \t]*)\.\.(?:[ \t]+(?![_|\[])(?![\w:.+-]+::)\S|[ \t]*$)")
#: Directives whose content is no text.
_CODE = frozenset(
    (
        "code",
        "code-block",
        "csv-table",
        "graphviz",
        "highlight",
        "literalinclude",
        "math",
        "mermaid",
        "parsed-literal",
        "prompt",
        "raw",
        "sourcecode",
        "testcode",
        "testoutput",
        "tabs-code",
    )
)
_ROLE = re.compile(r":(doc|ref|numref):`(?:([^`<>]*?)\s*<([^`<>]+)>|([^`<>]+))`")
_EMBEDDED = re.compile(r"(?<![\w:`])`([^`<>]*?)\s*<([^`<>]+)>`__?(?![\w_])")
_PHRASE = re.compile(r"(?<![\w:`])`([^`<>\n][^`<>]*)`(__?)(?![\w_`])")
_WORD = re.compile(r"(?<![\w`:|.*/<_-])([A-Za-z0-9](?:[\w.+-]*[A-Za-z0-9])?)(__?)(?![\w`*/>_-])")
_TARGET = re.compile(r"^[ \t]*\.\. _(?:`([^`\n]+)`|((?:\\:|[^:\n`])+)):(?:[ \t]+(\S[^\n]*))?$", re.MULTILINE)
_ANONYMOUS = re.compile(r"^[ \t]*(?:\.\. __:|__)[ \t]+(\S[^\n]*)$", re.MULTILINE)
_TOCTREE = re.compile(r"^([ \t]*)\.\. toctree::[ \t]*\n", re.MULTILINE)
_ENTRY = re.compile(r"(?:([^<>\n]*?)\s*<([^<>\n]+)>|([^<>\s:][^<>\n]*?))\s*")


def restructured_links(text: str) -> list[Hyperlink]:
    """The links of a reStructuredText document, and the labels that it declares (kind ``anchor``)."""
    text = _blanked(text)
    return [link for link in _links(text) if link is not None]


def _links(text: str) -> Iterator[Hyperlink | None]:
    named: dict[str, str] = {}
    anonymous = [_escaped(m[1]) for m in _ANONYMOUS.finditer(text)]
    for m in _TARGET.finditer(text):
        name = _name(m[1] or m[2])
        if m[3]:
            named.setdefault(name, _escaped(m[3]))
        else:
            yield hyperlink("anchor", name, m.start(), m.end())
    text = _TARGET.sub(_spaces, _ANONYMOUS.sub(_spaces, text))
    for m in _TOCTREE.finditer(text):
        yield from _entries(text, m.end(), len(m[1].expandtabs()))
    text = _TOCTREE.sub(_spaces, text)
    for m in _ROLE.finditer(text):
        kind: LinkKind = "doc" if m[1] == "doc" else "ref"
        yield hyperlink(kind, m[3] or m[4], m.start(), m.end(), m[2] or m[4] or "")
    text = _ROLE.sub(_spaces, text)
    for m in _EMBEDDED.finditer(text):
        target = m[2]
        if target.endswith("_") and not target.endswith("\\_"):
            target = named.get(_name(target[:-1]), "")
        yield hyperlink("href", _escaped(target), m.start(), m.end(), m[1] or m[2])
        if m[1]:
            named.setdefault(_name(m[1]), _escaped(target))
    text = _EMBEDDED.sub(_spaces, text)
    references = [*_PHRASE.finditer(text)]
    text = _PHRASE.sub(_spaces, text)
    references += _WORD.finditer(text)
    for m in sorted(references, key=lambda found: found.start()):
        if m[2] == "__":
            target = anonymous.pop(0) if anonymous else ""
        else:
            target = named.get(_name(m[1]), "")
        for _ in range(8):  # a name may stand for another
            if not target.endswith("_") or _name(target[:-1]) not in named:
                break
            target = named[_name(target[:-1])]
        yield hyperlink("href", target, m.start(), m.end(), m[1])
    yield from bare_urls(text)


def _entries(text: str, start: int, indent: int) -> Iterator[Hyperlink | None]:
    """The documents that a table of contents lists."""
    at = start
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        stripped = line.strip()
        if stripped and len(line.expandtabs()) - len(line.expandtabs().lstrip()) <= indent:
            return
        entry = _ENTRY.fullmatch(stripped) if stripped and not stripped.startswith(":") else None
        if entry is not None:
            target = entry[2] or entry[3]
            begin = at + line.index(stripped)
            kind: LinkKind = "href" if "://" in target else "doc"
            if target != "self" and not set("*?[") & set(target):
                yield hyperlink(kind, target, begin, begin + len(stripped), entry[1] or "")
        at = end + 1


def _blanked(text: str) -> str:
    """The text with its code and comments as blanks: literal blocks, directives of code, inline literals."""
    lines = text.split("\n")
    below: int | None = None
    for i, line in enumerate(lines):
        stripped = line.strip()
        indent = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        if below is not None:
            if not stripped or indent > below:
                lines[i] = " " * len(line)
                continue
            below = None
        if not stripped:
            continue
        directive, comment = _DIRECTIVE.match(line), _COMMENT.match(line)
        if directive is not None:
            if directive[2] in _CODE:
                below, lines[i] = indent, " " * len(line)
        elif comment is not None:
            below, lines[i] = indent, " " * len(line)
        elif stripped.endswith("::"):
            below = indent
    return _LITERAL_INLINE.sub(_spaces, "\n".join(lines))


def _spaces(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _name(text: str) -> str:
    """The form in which reference names are compared: one blank, any case."""
    return " ".join(text.replace("\\", "").split()).lower()


def _escaped(target: str) -> str:
    return "".join(target.split()).replace("\\_", "_").replace("\\", "")
