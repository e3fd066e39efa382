"""Word documents (ECMA-376, also in its strict form) as Markdown: headings, lists, tables, code, links and
notes.

A .docx is a zip of XML parts. Each block leads to the bytes of the part it stands in, which is compressed.
Inserted text is read as accepted, deleted text is left out, and so are headers, footers and comments; of
pictures their description stands. Macros, embedded files and external templates are never opened.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from taboot_pipelines.documents.forms import writing
from taboot_pipelines.documents.forms.writing import Formed, Given, Writer
from taboot_pipelines.documents.metadata import Facts, parse_date
from taboot_pipelines.errors import TabootError

#: Bytes of XML that a part may unpack to, and entries of the zip.
MAX_PART = 32 << 20
MAX_ENTRIES = 20_000
_LIST_DEPTH = 8
_CODE_STYLE = re.compile(r"(?i)\b(source ?code|code|html ?preformatted|preformatted|macro ?text|listing)")
_MONOSPACED = re.compile(r"(?i)courier|consolas|monaco|menlo|mono\b|lucida console|source code")
_HEADING_STYLE = re.compile(r"(?i)heading ?([1-9])$")
_LINKED = re.compile(r"(?i)(?:https?|ftp|mailto|tel):[^\s<>()]+")
_SPACES = re.compile(r"\s+")


def render(data: bytes, given: Given) -> Formed:
    """The document in ``data``. Raises ``E_MIME`` for a zip that is no Word document, ``E_PARSE`` for a
    damaged one, ``E_TOO_LARGE`` for one that unpacks to more than :data:`MAX_PART`."""
    try:
        package = _Package(data, given.path)
        return _rendered(package, given)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError, RuntimeError) as error:
        # What zipfile and zlib raise; RuntimeError is an encrypted entry.
        raise TabootError(
            "E_PARSE", f"{given.path} is a damaged zip ({type(error).__name__}).", path=given.path
        ) from None


def _rendered(package: _Package, given: Given) -> Formed:
    main = package.main()
    document = package.xml(main)
    if document is None:
        raise TabootError(
            "E_MIME",
            f"{given.path} is a zip that holds no Word document.",
            path=given.path,
            mime="application/zip",
        )
    folder, _, name = main.rpartition("/")
    folder = f"{folder}/" if folder else ""
    look = _Look(
        styles=_styles(package.xml(f"{folder}styles.xml")),
        numbered=_numbered(package.xml(f"{folder}numbering.xml")),
        links=_relations(package.xml(f"{folder}_rels/{name}.rels")),
    )
    writer = Writer(given.max_chars)
    _write(writer, look, document, package.span(main))
    for kind in ("footnote", "endnote"):
        notes = package.xml(f"{folder}{kind}s.xml") if look.notes else None
        for note in () if notes is None else _named(notes, kind):
            number = look.notes.get((kind, _attribute(note, "id")))
            text = " ".join(filter(None, (_text(p, look) for p in _named(note, "p"))))
            if number is not None and text:
                writer.put("\n" if writer.length else "")
                writer.block(f"[^{number}]: {text}", *package.span(f"{folder}{kind}s.xml"))
                writer.put("\n")
    return Formed(writer.text, writer.offsets(), _facts(package.xml("docProps/core.xml"), look))


# The package ------------------------------------------------------------------------------------------------


class _Package:
    """A zip of XML parts."""

    def __init__(self, data: bytes, path: str) -> None:
        self._zip = zipfile.ZipFile(BytesIO(data))
        self._data = data
        self._path = path
        if len(self._zip.filelist) > MAX_ENTRIES:
            raise TabootError("E_TOO_LARGE", f"{path} has more than {MAX_ENTRIES} parts.", path=path)

    def main(self) -> str:
        """The name of the part that is the document."""
        for target, kind in _related(self.xml("_rels/.rels")):
            if kind.endswith("/officeDocument"):
                return target.lstrip("/")
        return "word/document.xml"

    def xml(self, name: str) -> Any:
        """A part's root element; None where there is no such part. Nothing outside of it is ever read."""
        from lxml import etree

        if (info := self._zip.NameToInfo.get(name)) is None:
            return None
        with self._zip.open(info) as stream:
            content = stream.read(MAX_PART + 1)
        if len(content) > MAX_PART:
            message = f"{self._path}: {name[:100]} unpacks to more than {MAX_PART >> 20} MiB."
            raise TabootError("E_TOO_LARGE", message, path=self._path)
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True
        )
        try:
            root = etree.fromstring(content, parser)
        except etree.XMLSyntaxError as error:
            message = f"{self._path}: {name[:100]} is no XML at line {error.lineno}."
            raise TabootError("E_PARSE", message, path=self._path) from None
        if root.getroottree().docinfo.doctype:
            message = f"{self._path}: {name[:100]} declares a document type, which its format forbids."
            raise TabootError("E_PARSE", message, path=self._path)
        return root

    def span(self, name: str) -> tuple[int, int]:
        """The bytes of the file that hold a part: its local header and what follows it."""
        info = self._zip.NameToInfo[name]
        start = info.header_offset
        head = self._data[start : start + 30]
        lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        return start, min(start + 30 + lengths + info.compress_size, len(self._data))


def _name(element: Any) -> str:
    """An element's name without its namespace, which differs between the transitional and the strict form."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _attribute(element: Any, name: str) -> str:
    for key, value in element.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return ""


def _named(element: Any, name: str) -> Iterator[Any]:
    return (child for child in element if _name(child) == name)


def _first(element: Any, *path: str) -> Any:
    """The element that a path of names leads to; None where there is none."""
    for name in path:
        if element is None:
            return None
        element = next(_named(element, name), None)
    return element


def _value(element: Any, *path: str) -> str:
    found = _first(element, *path)
    return "" if found is None else _attribute(found, "val")


def _related(root: Any) -> list[tuple[str, str]]:
    return [] if root is None else [(_attribute(r, "Target"), _attribute(r, "Type")) for r in root]


def _relations(root: Any) -> dict[str, str]:
    """Where links lead, by the relation's id."""
    if root is None:
        return {}
    return {_attribute(r, "Id"): _attribute(r, "Target") for r in root if r.get("TargetMode") == "External"}


# What paragraphs look like ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Style:
    level: int = 0  # of a heading, from 1
    title: bool = False
    code: bool = False
    numbering: str = ""
    depth: int = 0


@dataclass(slots=True)
class _Look:
    styles: dict[str, _Style]
    #: Whether a list of this id counts its items, by depth.
    numbered: dict[str, dict[int, bool]]
    links: dict[str, str]
    #: The number of each note that is referred to, by its kind and id.
    notes: dict[tuple[str, str], int] = field(default_factory=dict)
    #: The paragraph of the style Title.
    title: str = ""
    heading: str = ""


def _styles(root: Any) -> dict[str, _Style]:
    """What each paragraph style means; a style takes from the one it is based on."""
    if root is None:
        return {}
    elements = {_attribute(s, "styleId"): s for s in _named(root, "style")}
    found: dict[str, _Style] = {}
    for style_id, element in elements.items():
        style, chain = _Style(), set[str]()
        at, own = style_id, element
        while own is not None and at not in chain and len(chain) < 32:
            chain.add(at)
            name = _value(own, "name")
            heading = _HEADING_STYLE.match(name)
            outline = _value(own, "pPr", "outlineLvl")
            if not style.level and (heading or outline.isdecimal()):
                level = int(heading[1]) if heading else int(outline) + 1
                style.level = level if level <= 9 else 0
            style.title = style.title or name.lower() == "title"
            style.code = style.code or bool(_CODE_STYLE.search(name))
            style.numbering = style.numbering or _value(own, "pPr", "numPr", "numId")
            at = _value(own, "basedOn")
            own = elements.get(at)
        found[style_id] = style
    return found


def _numbered(root: Any) -> dict[str, dict[int, bool]]:
    if root is None:
        return {}
    abstract = {
        _attribute(a, "abstractNumId"): {
            _depth(_attribute(level, "ilvl")): _value(level, "numFmt") not in ("bullet", "none", "")
            for level in _named(a, "lvl")
        }
        for a in _named(root, "abstractNum")
    }
    return {_attribute(n, "numId"): abstract.get(_value(n, "abstractNumId"), {}) for n in _named(root, "num")}


def _depth(text: str) -> int:
    return min(int(text), _LIST_DEPTH) if text.isdecimal() and len(text) < 4 else 0


# The text ---------------------------------------------------------------------------------------------------


def _write(writer: Writer, look: _Look, document: Any, span: tuple[int, int]) -> None:
    """Write the blocks of a document, each of which leads to ``span``."""
    code: list[str] = []
    before = ""

    def close() -> None:
        nonlocal code, before
        if code:
            fence = writing.fence(code)
            writer.put(("\n" if writer.length else "") + f"{fence}\n")
            writer.block("\n".join(code), *span)
            writer.put(f"\n{fence}\n")
            code, before = [], "code"

    for element in _blocks(document):
        if _name(element) == "tbl":
            close()
            if rows := _rows(element, look):
                writer.put("\n" if writer.length else "")
                for number, row in enumerate(rows):
                    writer.block(f"| {' | '.join(row)} |", *span)
                    writer.put("\n")
                    if number == 0:
                        writer.put(f"|{' --- |' * len(row)}\n")
                before = "table"
            continue
        properties = _first(element, "pPr")
        style = look.styles.get(_value(properties, "pStyle"), _Style())
        text = _text(element, look, plain=True)
        if (style.code or _is_monospaced(element)) and not style.level:
            code += text.split("\n")
            continue
        close()
        text = text.strip()
        if not text:
            continue
        outline = _value(properties, "outlineLvl")
        level = int(outline) + 1 if outline.isdecimal() and int(outline) < 9 else style.level
        if style.title and not look.title:
            look.title = _SPACES.sub(" ", text)
        numbering = _value(properties, "numPr", "numId") or style.numbering
        marked = _text(element, look)
        if level or style.title:
            look.heading = look.heading or _SPACES.sub(" ", text)
            writer.put(("\n" if writer.length else "") + "#" * min(level or 1, 6) + " ")
            writer.block(_SPACES.sub(" ", marked), *span)
            before = "heading"
        elif numbering not in ("", "0"):
            depth = _depth(_value(properties, "numPr", "ilvl"))
            counts = look.numbered.get(numbering, {}).get(depth, False)
            writer.put("" if before == "list" or not writer.length else "\n")
            writer.put("   " * depth + ("1. " if counts else "- "))
            writer.block(_SPACES.sub(" ", marked), *span)
            before = "list"
        else:
            writer.put("\n" if writer.length else "")
            writer.block("\n".join(filter(None, map(writing.line, marked.split("\n")))), *span)
            before = "prose"
        writer.put("\n")
    close()


#: Elements that hold the blocks of a document, or of a part of it.
_HOLDERS = frozenset({"document", "body", "sdt", "sdtContent", "customXml", "ins", "moveTo"})


def _blocks(root: Any) -> Iterator[Any]:
    """Paragraphs and tables, in order; of text boxes after the paragraph they are anchored in."""
    stack = [root]
    while stack:
        element = stack.pop()
        name = _name(element)
        if name in ("p", "tbl"):
            yield element
            if name == "p":
                stack.extend(
                    box
                    for box in reversed(list(element.iter("{*}txbxContent")))
                    if not any(_name(above) in ("Fallback", "txbxContent") for above in box.iterancestors())
                )
        elif name in _HOLDERS or name == "txbxContent":
            stack.extend(reversed(element))


def _text(paragraph: Any, look: _Look, *, plain: bool = False) -> str:
    """A paragraph's text; ``plain``: without the marks of links, notes and pictures."""
    parts: list[str] = []
    #: What stands behind the children of an element is put where they end.
    stack: list[Any] = list(reversed(paragraph))
    while stack:
        element = stack.pop()
        if isinstance(element, str):
            parts.append(element)
            continue
        name = _name(element)
        if name == "t":
            parts.append(element.text or "")
        elif name in ("tab", "ptab"):
            parts.append("\t")
        elif name in ("br", "cr"):
            parts.append("\n")
        elif name == "noBreakHyphen":
            parts.append("\u2011")
        elif name in ("r", "smartTag", "fldSimple", "ins", "moveTo", "sdt", "sdtContent", "dir", "bdo"):
            stack.extend(reversed(element))
        elif name in ("oMath", "oMathPara"):
            parts += [part.text or "" for part in element.iter("{*}t")]
        elif name == "hyperlink":
            target = look.links.get(_attribute(element, "id"), "")
            if not plain and _LINKED.fullmatch(target):
                parts.append("[")
                stack.append(f"]({target})")
            stack.extend(reversed(element))
        elif name in ("footnoteReference", "endnoteReference") and not plain:
            note = name.removesuffix("Reference"), _attribute(element, "id")
            parts.append(f"[^{look.notes.setdefault(note, len(look.notes) + 1)}]")
        elif name == "AlternateContent":
            stack.extend(reversed(list(_named(element, "Choice"))))
        elif name == "Choice":
            stack.extend(reversed(element))
        elif name in ("drawing", "pict", "object") and not plain:
            described = next((_described(d) for d in element.iter("{*}docPr") if _described(d)), "")
            if described and next(element.iter("{*}txbxContent"), None) is None:
                parts.append(f"[{described}]")
    return "".join(parts)


def _described(properties: Any) -> str:
    text = _attribute(properties, "descr") or _attribute(properties, "title")
    return _SPACES.sub(" ", text).strip().replace("[", "(").replace("]", ")")


def _is_monospaced(paragraph: Any) -> bool:
    """Whether all runs of a paragraph that have text are in a typewriter's font."""
    seen = False
    for run in paragraph.iter("{*}r"):
        if not any((t.text or "").strip() for t in _named(run, "t")):
            continue
        fonts = _first(run, "rPr", "rFonts")
        if fonts is None or not _MONOSPACED.search(_attribute(fonts, "ascii")):
            return False
        seen = True
    return seen


def _rows(table: Any, look: _Look) -> list[list[str]]:
    """The cells of a table, each row of equal length."""
    rows: list[list[str]] = []
    for row in table:
        if _name(row) == "sdt":
            row = _first(row, "sdtContent", "tr")
        if row is None or _name(row) != "tr":
            continue
        cells: list[str] = []
        for cell in row:
            if _name(cell) == "sdt":
                cell = _first(cell, "sdtContent", "tc")
            if cell is None or _name(cell) != "tc":
                continue
            words = " ".join(_text(p, look) for p in cell.iter("{*}p"))
            cells.append(_SPACES.sub(" ", words).strip().replace("|", "\\|"))
            wide = _value(cell, "tcPr", "gridSpan")
            cells += [""] * (min(int(wide), 64) - 1 if wide.isdecimal() and len(wide) < 4 else 0)
        if any(cells):
            rows.append(cells)
    width = max(map(len, rows), default=0)
    return [[*row, *[""] * (width - len(row))] for row in rows]


def _facts(core: Any, look: _Look) -> Facts:
    stated = {} if core is None else {_name(e): e.text or "" for e in core}
    facts = Facts(date=parse_date(stated.get("created")))
    facts.put("title", stated.get("title"))
    facts.title = facts.metadata.pop("title", "") or look.title or look.heading
    facts.put("author", stated.get("creator"))
    facts.put("description", stated.get("description"))
    facts.put_keywords(stated.get("keywords"))
    return facts
