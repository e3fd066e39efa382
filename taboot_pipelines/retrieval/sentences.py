"""What a document states, one statement after the other: its sentences, list items, table rows and lines of
code, each with what one must know to read it alone.

:func:`statements` reads a whole document, since a row means nothing without its header, an item without the
sentence that leads in to it, and a line of configuration without the keys above it. Headings, fences, front
matter, a table's header, images, bare links and lead-ins state nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, takewhile
from typing import NamedTuple

from taboot_pipelines.documents.blocks import Kind, Outline, indent_of, scan_code, scan_markdown

_BOUNDARY = re.compile(r"(?<=[.!?])[)\"'”’*_`]*\s+(?=[\"'“‘(\[*_`]*[A-Z0-9`])")
#: Not the end of a sentence, though there is a full stop.
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|no|nr|fig|[A-Z])\.)[)\"'”’*_]*\Z", re.I)
#: A label in bold type belongs to what follows it.
_LABEL = re.compile(r"\s*(\*\*|__)[^*_\n]{1,40}\1\s*")
_HEADING_MARK = re.compile(r"\s*#{1,6}\s+|\s+#+\s*\Z")
_ITEM = re.compile(r"[>\s]*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
_ORDINAL = re.compile(r"[>\s]*(\d{1,9})[.)]\s")
_LIST_MARK = re.compile(r"(?:- +)+(?=\S)")
_QUOTE = re.compile(r"(?m)^[ \t]*>[ \t]?")
_FENCE = re.compile(r"[>\s]*(?:```|~~~)")
_ADMONITION = re.compile(r"\s*(?:!!!|\?\?\?\+?|===)\s")
_COMMENT = re.compile(r"\s*(?:#+(?!!)|//+|;+)\s?")
_IMAGE = re.compile(r"!\[[^\]\n]*\](?:\([^()\n]*\)|\[[^\]\n]*\])")
_LINK = re.compile(r"\[([^\[\]\n]+)\]\((?:[^()\n]|\([^()\n]*\))*\)|\[([^\[\]\n]+)\]\[[^\]\n]*\]")
_REFERENCE = re.compile(r"\s*\[[^\]\n]+\]:\s*\S+")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,300}>|<!--[^>]*-->")
_ATTRIBUTES = re.compile(r"\{[:#.][^{}\n]*\}")
_WORD = re.compile(r"[^\W_]+")
#: A lead-in that holds one may say something by itself.
_VALUE = re.compile(r"\d|`|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|half) ")
#: ASCII punctuation behind a backslash stands for itself (CommonMark 0.31, 2.4), but not in a code span:
#: what stands between two runs of equally many backticks (6.1). A run without a partner is text.
_LITERAL = re.compile(r"\\([!-/:-@\[-`{-~])|(`++)(?:((?:(?!\n\s*\n).)+?)(?<!`)\2(?!`))?", re.DOTALL)
#: Marks of strong emphasis can open or close it only beside what is no blank, underscores not in words (6.2).
_STRONG = re.compile(r"\*\*(?=\S)|(?<=\S)\*\*|(?<!\w)__(?=\S)|(?<=\S)__(?!\w)")
#: Characters that are no marks, though they look so, are kept apart as private ones, blanks in code too.
#: They are of plane 16, where no font of icons has its own.
_PRIVATE_CHARACTERS = {0x10F000 + n: chr(n) for n in range(0x20, 0x7F)}
_TO_PRIVATE = {ord(c): p for p, c in _PRIVATE_CHARACTERS.items()}
#: A table's columns end at a bar that is not escaped.
_BAR = re.compile(r"(?<!\\)\|")
#: A comment of so many words says something to people; a shorter one may be a setting that is switched off.
_MIN_COMMENT_WORDS = 4
#: A section of an INI or TOML file.
_SECTION = re.compile(r"\[{1,2}([\w\"'][\w .:@/\"'-]*)\]{1,2}")
#: What an item of a list is called (Kubernetes, Ansible, Prometheus); a manifest's kind and name (Kubernetes,
#: "Objects": each has them); and what parts the documents of a stream (YAML 1.2, 9.1).
_CALLED = re.compile(
    r"\s*(?:- +)?[\"']?(?:\w*name|alert|record|id|title|alias)[\"']?:\s+[\"']?([^\s\"'#{][^\"'#{]*)",
    re.IGNORECASE,
)
_NAME = re.compile(r"\s+name:\s+[\"']?([^\s\"'#{]+)")
_KIND = re.compile(r"kind:\s+([A-Z]\w+)\s*(?:#.*)?")
_METADATA = re.compile(r"metadata:\s*(?:#.*)?")
_DOCUMENT = re.compile(r"---(?:\s.*)?")
#: Lines of an item of a list in which its name is looked for.
_MAX_ITEM = 60
#: Lines of code above which a comment introduces only what follows it directly.
_MAX_LEAD = 400


class Form(Enum):
    """What a statement is in its document."""

    SENTENCE = "sentence"
    ITEM = "item"
    ROW = "row"
    CODE = "code"
    HEADING = "heading"
    #: It ends with a colon: what it says comes after it.
    LEAD_IN = "lead-in"


@dataclass(frozen=True, slots=True)
class TextStatement:
    """``[start, end)``: its code points in the document, surrounding blanks left out. ``said``: how it is
    read out, without marks; a row with its header. ``lead``: what introduces it: the sentence before a list
    or a block of code, the comment above a line. ``keys``: what a line of code lies in, outermost first: its
    manifest or section, the lines above it, the items of lists by their names. ``before``: the rest of its
    paragraph so far. ``section``: its headings, outermost first. ``block``: the list, table, paragraph or
    code block that it belongs to. ``cells``: of a table's row the header and the text of each that is not
    empty. ``ordinal``: of an item of an ordered list its number.
    """

    start: int
    end: int
    form: Form
    said: str
    lead: str
    before: str
    section: str
    block: int
    keys: tuple[str, ...] = ()
    cells: tuple[tuple[str, str], ...] = ()
    ordinal: int | None = None


class _Lines(NamedTuple):
    texts: list[str]
    #: Of each line the code point at which it begins, and the end.
    starts: list[int]


def plain(text: str) -> str:
    """``text`` on one line without what only a browser needs: images, targets of links, tags, emphasis."""
    if "\\" in text or "`" in text:
        text = _LITERAL.sub(_kept, text)
    text = _IMAGE.sub(" ", text)
    text = _LINK.sub(lambda m: m[1] or m[2], text)
    text = _ATTRIBUTES.sub("", _TAG.sub(" ", text))
    text = _STRONG.sub("", text)
    text = re.sub(r"(?<![\w*])\*(?=[^\s*])([^*\n]*)(?<=[^\s*])\*(?![\w*])", r"\1", text)
    return " ".join(text.split()).translate(_PRIVATE_CHARACTERS)


def _kept(found: re.Match[str]) -> str:
    """An escaped character, or a code span with its backticks, out of reach of what takes marks away; a bar
    is escaped in it only because it stands in a table."""
    if found[1] or not found[3]:
        return (found[1] or found[0]).translate(_TO_PRIVATE)
    return found[0].replace("\\|", "|").translate(_TO_PRIVATE)


def statements(text: str, *, code: bool, whole: bool = False) -> list[TextStatement]:
    """What a document states, in its order. ``code``: it is a configuration or source file, not a text;
    ``whole``: also what says nothing by itself, lead-ins and links alone, for who reads it out."""
    texts = text.splitlines(keepends=True)
    starts = [0]
    for line in texts:
        starts.append(starts[-1] + len(line))
    lines = _Lines(texts, starts)
    outline = (scan_code if code else scan_markdown)([line.rstrip("\r\n") for line in texts])
    return _Reader(text, lines, outline, code=code, whole=whole).read()


def split_sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of running text, as ranges of it without surrounding blanks."""
    cuts = [0]
    code = [m.span() for m in _LITERAL.finditer(text) if m[3]] if "`" in text else []
    for m in _BOUNDARY.finditer(text):
        within = bisect_left(code, (m.end(), 0)) - 1
        if within >= 0 and m.end() < code[within][1]:
            continue
        if _LABEL.fullmatch(text, cuts[-1], m.start() + len(m[0].rstrip())):
            continue
        # The number before a heading or a step is no sentence: "**6. Verify:**", "# 2. Run it".
        says = any(map(str.isalpha, text[cuts[-1] : m.start()]))
        if says and not _ABBREVIATION.search(text, max(0, m.start() - 12), m.start()):
            cuts.append(m.end())
    found = []
    for a, b in pairwise([*cuts, len(text)]):
        part = text[a:b]
        if part.strip():
            found.append((a + len(part) - len(part.lstrip()), a + len(part.rstrip())))
    return found


class _Reader:
    """One reading of one document."""

    def __init__(self, text: str, lines: _Lines, outline: Outline, *, code: bool, whole: bool) -> None:
        self._text = text
        self._lines = lines
        self._outline = outline
        self._code = code
        self._whole = whole
        self._found: list[TextStatement] = []
        self._block = 0
        #: The last sentence of running text, while nothing has come between.
        self._lead = ""
        self._lead_section = -1

    def read(self) -> list[TextStatement]:
        kinds, count = self._outline.kinds, len(self._lines.texts)
        if self._code:
            if count:
                self._read_code(0, count, "")
            return self._found
        i = self._front_matter()
        while i < count:
            kind = kinds[i]
            j = i + 1
            if kind in (Kind.CODE, Kind.TABLE):
                block = self._outline.block[i]
                while j < count and self._outline.block[j] == block and kinds[j] in (kind, Kind.BLANK):
                    j += 1
                self._block += 1
                lead = self._led_in(i)
                if kind is Kind.TABLE:
                    self._read_table(i, j, lead)
                else:
                    self._read_code(i, j, lead)
            elif kind is Kind.HEADING:
                self._heading(i)
            elif kind in (Kind.PROSE, Kind.LIST):
                while j < count and kinds[j] is kind and not self._begins(j):
                    j += 1
                self._read_text(i, j, kind)
            i = j
        return self._found

    def _front_matter(self) -> int:
        texts = self._lines.texts
        mark = texts[0].strip("\ufeff \t\r\n") if texts else ""
        if mark not in ("---", "+++"):
            return 0
        for j in range(1, min(len(texts), 200)):
            if texts[j].strip() in (mark, "..."):
                return j + 1
        return 0

    def _begins(self, line: int) -> bool:
        """Whether a new item or block begins at a line."""
        text = self._lines.texts[line]
        if _ITEM.match(text) or _ADMONITION.match(text) or _FENCE.match(text):
            return True
        return self._outline.block[line] != self._outline.block[line - 1]

    def _section(self, line: int) -> str:
        return self._outline.sections[self._outline.section[line]]

    def _led_in(self, line: int) -> str:
        return self._lead if self._lead_section == self._outline.section[line] else ""

    def _add(
        self,
        start: int,
        end: int,
        form: Form,
        said: str,
        lead: str,
        before: str,
        section: str,
        keys: tuple[str, ...] = (),
        cells: tuple[tuple[str, str], ...] = (),
        ordinal: int | None = None,
    ) -> None:
        part = self._text[start:end]
        start, end = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
        if start < end and _WORD.search(said):
            self._found.append(
                TextStatement(
                    start,
                    end,
                    form,
                    said,
                    lead[-_MAX_LEAD:],
                    before[-_MAX_LEAD:],
                    section,
                    self._block,
                    keys,
                    cells,
                    ordinal,
                )
            )

    def _heading(self, line: int) -> None:
        text, start = self._lines.texts[line], self._lines.starts[line]
        self._block += 1
        section = self._section(line)
        said = plain(_HEADING_MARK.sub("", text.rstrip()))
        if said and set(said) - set("=-"):
            above = " > ".join(section.split(" > ")[:-1])
            self._add(start, start + len(text), Form.HEADING, said, "", "", above)
        self._lead = ""

    def _read_text(self, first: int, last: int, kind: Kind) -> None:
        """The lines ``[first, last)`` of one paragraph or one list item."""
        texts, starts = self._lines.texts, self._lines.starts
        raw = self._text[starts[first] : starts[last]]
        section = self._section(first)
        item = _ITEM.match(texts[first])
        listed = item is not None and (kind is Kind.LIST or item[0].strip()[:1] in "-*+0123456789")
        if _REFERENCE.match(raw) or (_ADMONITION.match(texts[first]) and last == first + 1):
            return
        if not listed:
            self._block += 1
        offset = starts[first] + (item.end() if listed and item else 0)
        body = raw[item.end() :] if listed and item else raw
        if not self._whole and _only_links(body):
            return
        lead = self._led_in(first) if listed else ""
        ordinal = _ORDINAL.match(texts[first]) if listed else None
        number = int(ordinal[1]) if ordinal else None
        before = ""
        quoted = body.lstrip().startswith(">")
        for a, b in split_sentences(body):
            part = body[a:b]
            said = plain(_QUOTE.sub("", part) if quoted else part)
            leads_in = said.endswith(":")
            if self._whole or not leads_in or _VALUE.search(said):
                form = Form.LEAD_IN if leads_in else Form.ITEM if listed else Form.SENTENCE
                self._add(offset + a, offset + b, form, said, lead, before, section, ordinal=number)
            before = f"{before} {said}".strip()
            if not listed or leads_in:
                self._lead, self._lead_section = said, self._outline.section[first]

    def _read_table(self, first: int, last: int, lead: str) -> None:
        texts, starts, section = self._lines.texts, self._lines.starts, self._section(first)
        header = [plain(c) for c in _cells(texts[first])]
        for i in range(first + 2, last):
            cells = [plain(c) for c in _cells(texts[i])]
            if not any(cells):
                continue
            named = tuple(
                (header[n] if n < len(header) and header[n].strip(": ") else "", cell)
                for n, cell in enumerate(cells)
                if cell
            )
            said = "; ".join(f"{name}: {cell}" if name else cell for name, cell in named)
            self._add(starts[i], starts[i + 1], Form.ROW, said, lead, "", section, cells=named)

    def _read_code(self, first: int, last: int, lead: str) -> None:
        """Lines of code: each is read with the keys (lines indented less) and the comment above it."""
        texts, starts = self._lines.texts, self._lines.starts
        section = self._section(first)
        keys: list[tuple[int, str, bool]] = []
        within = _things(texts[first:last])
        comment: list[int] = []
        said_above = ""
        i = first
        while i < last:
            line = texts[i]
            text = line.strip()
            if not text or _FENCE.match(line):
                self._comments(comment, lead, section)
                comment, said_above = [], said_above if text else ""
                i += 1
                continue
            if _COMMENT.match(line) and not text.startswith("#!"):
                comment.append(i)
                said_above = f"{said_above} {_COMMENT.sub('', line, count=1).strip()}".strip()[-_MAX_LEAD:]
                i += 1
                continue
            self._comments(comment, lead, section)
            comment = []
            j = i + 1
            while texts[j - 1].rstrip().endswith("\\") and j < last and texts[j].strip():
                j += 1
            indent = indent_of(line)
            marked = _LIST_MARK.match(text)
            # A list may stand as far out as the key that it is the value of.
            while keys and keys[-1][0] >= indent + (marked is not None and keys[-1][2]):
                keys.pop()
            if indent == 0 and not lead:
                said_above = said_above if i and texts[i - 1].strip() else ""
            path = (*within[i - first], *(key for _, key, _ in keys))
            raw = self._text[starts[i] : starts[j]]
            said = " ".join(raw.replace("\\\n", " ").split())
            above = f"{lead} {said_above}".strip()
            self._add(starts[i], starts[j], Form.CODE, said, above, "", section, path)
            # What stands beside the first key of a list's item lies under the list, not under that key.
            own = indent + (marked.end() if marked else 0)
            if marked and (called := _called(texts[i : min(last, i + _MAX_ITEM)], own)):
                keys.append((own - 1, called, False))
            keys.append((own, text.removeprefix("- ").rstrip(":{ ")[:80], text.endswith(":")))
            said_above = said_above if j < last and indent_of(texts[j]) > indent else ""
            i = j
        self._comments(comment, lead, section)

    def _comments(self, lines: Sequence[int], lead: str, section: str) -> None:
        """Comment lines that stand together, as sentences where they are some."""
        if not lines:
            return
        starts, texts = self._lines.starts, self._lines.texts
        marks = [_COMMENT.match(texts[i]) for i in lines]
        said = " ".join(texts[i][m.end() if m else 0 :].strip() for i, m in zip(lines, marks, strict=True))
        if len(_WORD.findall(said)) < _MIN_COMMENT_WORDS:
            return
        # Every line is cut for itself where the sentences end, so that a citation leads to its line.
        first, last = lines[0], lines[-1] + 1
        raw = self._text[starts[first] : starts[last]]
        before = ""
        for a, b in split_sentences(raw):
            part = " ".join(_COMMENT.sub("", line, count=1).strip() for line in raw[a:b].splitlines())
            part = " ".join(part.split())
            if part:
                self._add(starts[first] + a, starts[first] + b, Form.SENTENCE, part, lead, before, section)
                before = f"{before} {part}".strip()


def _things(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Of each line of code what it lies in that no indent tells: the section of an INI file, the manifest of
    a stream of YAML."""
    found: list[tuple[str, ...]] = []
    for begin, end in _documents(texts):
        kinds = [m[1] for m in map(_KIND.fullmatch, texts[begin:end]) if m]
        manifest: tuple[str, ...] = ()
        if len(kinds) == 1:
            at = next((n for n in range(begin, end) if _METADATA.fullmatch(texts[n])), end)
            below = takewhile(lambda line: not line.strip() or line[0].isspace(), texts[at + 1 : end])
            names = [(indent_of(line), m[1]) for line in below if (m := _NAME.match(line))]
            manifest = (" ".join((*kinds, *(name for _, name in sorted(names)[:1]))),)
        within = manifest
        for line in texts[begin:end]:
            section = _SECTION.fullmatch(line.rstrip())
            within = within if section is None else (section[1],)
            found.append(manifest if section else within)
    return found


def _documents(texts: Sequence[str]) -> list[tuple[int, int]]:
    """The lines ``[begin, end)`` of each document of a stream of YAML; of another file all of them."""
    parted = [n for n, line in enumerate(texts) if _DOCUMENT.fullmatch(line.rstrip())]
    return list(pairwise((0, *(n for n in parted if n), len(texts))))


def _called(texts: Sequence[str], own: int) -> str:
    """What an item of a list is called, which begins with the first of some lines, its keys ``own`` columns
    in; empty if it has no name."""
    inside = takewhile(lambda line: not line.strip() or indent_of(line) >= own, texts[1:])
    pairs = (line for line in inside if indent_of(line) == own)
    name = next((m for m in map(_CALLED.match, (texts[0], *pairs)) if m), None)
    return name[1].strip()[:80] if name else ""


def _cells(line: str) -> list[str]:
    parts = _BAR.split(line.strip().removeprefix(">").strip())
    if parts and not parts[0].strip():
        parts = parts[1:]
    if parts and not parts[-1].strip():
        parts = parts[:-1]
    return [p.strip() for p in parts]


def _only_links(text: str) -> bool:
    """Whether nothing but links and images stands there: badges, navigation, lists of links."""
    rest = _TAG.sub(" ", _LINK.sub(" ", _IMAGE.sub(" ", _LITERAL.sub(_kept, text))))
    return rest != text and not _WORD.search(rest.translate(_PRIVATE_CHARACTERS))
