"""A text in which secrets are looked for: its lines, quoted strings and fenced code, and the spans found.

Two notations are read here that need nothing else: secrets whose name is itself a value (``{"name":
"DB_PASSWORD", "value": …}``), where the value stands in a field beside the name, in either order, in the same
braces, the same tag or the lines of the same item; and the data of Secret objects in Kubernetes manifests.
Every look ahead is bounded, because lines may be megabytes long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from taboot_pipelines.documents.mime import HTML, MARKDOWN, PLAIN
from taboot_pipelines.documents.secrets.values import DEFAULTED, Span, is_no_secret, looks_secret

_MAX_LEAD = 400
_MAX_LINE = 4096
_MAX_TOKEN = 1024
_MAX_INDENT = 400
#: How many values may begin within another, and how long the rest of that may be.
_MAX_NESTED = 16
_MIN_NEST = 200

_PROSE = (MARKDOWN, PLAIN, HTML, "text/x-rst", "text/asciidoc")
_FENCE_LINE = re.compile(r"^[ \t>]{0,12}(?:[-*+][ \t]+)?(`{3,}|~{3,})", re.M)
_DQ = re.compile(r'"((?:[^"\\\n]|\\.){0,4096})"')
_SQ = re.compile(r"'((?:[^'\n]|''){0,4096})'")
_BQ = re.compile(r"`([^`\n]{0,1024})`")
_QUOTED = {'"': _DQ, "'": _SQ, "`": _BQ}
_ESCAPED_DQ = re.compile(r'\\"([^"\\\n]{0,2048})\\"')
_COMMENT = re.compile(r"[ \t]+#")
#: The head of a YAML block scalar: its style, and a comment after it.
BLOCK_SCALAR = re.compile(r"[|>][-+0-9]{0,2}[ \t]{0,40}(?:#[^\n]{0,400})?\r?(?=\n|\Z)")
#: The scheme of an Authorization header, before the credentials.
_SCHEME = re.compile(r"(?i)(?:basic|bearer|token|digest|apikey|negotiate|bot)[ \t]+")
_ORIGIN = re.compile(r"[a-z]{2,10}://[^/\s]{1,255}/")


class Scanner:
    """Reads one text and collects ``spans`` of secrets, in no order. ``lower`` is the text in lower case, of
    equal length; ``prose`` says whether the text is running text, in which only fenced parts are code."""

    def __init__(self, text: str, mime: str, code: Sequence[Span] | None = None) -> None:
        self.text = text
        self.mime = mime
        self.prose = mime in _PROSE
        self.spans: list[Span] = []
        #: No name is looked for before this.
        self.read_to = 0
        #: The end of the last value that was judged, and how many more began before it.
        self._judged = 0
        self._nested = 0
        lower = text.lower()
        # A few letters grow when lowered (İ), but positions must hold.
        self.lower = lower if len(lower) == len(text) else _ascii_lower(text)
        if code is None:
            code = _fences(text) if mime == MARKDOWN else ()
        self._fences = code
        self._fence = 0

    def in_code(self, at: int) -> bool:
        """Whether ``at`` stands in configuration or code. Positions must be asked for in ascending order."""
        if not self.prose:
            return True
        while self._fence < len(self._fences) and self._fences[self._fence][1] < at:
            self._fence += 1
        return self._fence < len(self._fences) and self._fences[self._fence][0] <= at

    # Where things end ---------------------------------------------------------------------------------------

    def line_start(self, at: int) -> int:
        """The start of the line, or of its last 400 characters."""
        floor = max(0, at - _MAX_LEAD)
        return max(self.text.rfind("\n", floor, at) + 1, floor)

    def line_end(self, at: int) -> int:
        """The end of the line without its line break, or 4096 characters on."""
        ceiling = min(len(self.text), at + _MAX_LINE)
        end = self.text.find("\n", at, ceiling)
        end = end if end >= 0 else ceiling
        return end - 1 if end > at and self.text[end - 1] == "\r" else end

    def comment_or_line_end(self, at: int) -> int:
        """The end of the line, or the start of the blanks before a ``#`` on it."""
        end = self.line_end(at)
        comment = _COMMENT.search(self.text, at, end)
        return comment.start() if comment else end

    def token_end(self, at: int, stops: str) -> int:
        """The end of the run of visible characters at ``at`` without any of ``stops``. A ``${…}`` is taken
        whole."""
        found = _token(stops).match(self.text, at, at + _MAX_TOKEN)
        return found.end() if found else at

    def quoted(self, at: int) -> Span | None:
        """The inside of the quoted string that begins at ``at``, up to the line's end if it never closes;
        None if no quote stands there."""
        text = self.text
        mark = text[at : at + 1]
        if text.startswith(('"""', "'''"), at):
            end = text.find(text[at : at + 3], at + 3, at + _MAX_LINE)
            return at + 3, end if end >= 0 else self.line_end(at)
        pattern = _QUOTED.get(mark)
        if pattern is None:
            if mark == "\\" and (m := _ESCAPED_DQ.match(text, at)):
                return m.span(1)
            return None
        if m := pattern.match(text, at):
            return m.span(1)
        return at + 1, self.line_end(at)

    # Secrets ------------------------------------------------------------------------------------------------

    def add(self, start: int, end: int) -> None:
        if start < end:
            self.spans.append((start, end))

    def add_value(self, start: int, end: int, strong: bool, literal: bool, webhook: bool = False) -> None:
        """Add ``[start, end)`` if it is a secret: of ``${VAR:-default}`` only the default, after
        ``Bearer`` only the credentials, and of a webhook's URL only its path.

        ``strong``: the name alone makes it a secret. ``literal``: it stood in quotes.
        """
        if self.is_nest(start, end):
            self.add(start, end)
            return
        value = self.text[start:end]
        stripped = value.lstrip()
        start += len(value) - len(stripped)
        value = stripped.rstrip()
        end = start + len(value)
        if (scheme := _SCHEME.match(value)) and scheme.end() < len(value):
            start += scheme.end()
            value = value[scheme.end() :]
        if m := DEFAULTED.match(value):
            stop = value.find("}", m.end())
            stop = stop if stop >= 0 else len(value)
            default = value[m.end() : stop]
            if not is_no_secret(default, literal=True) and (strong or looks_secret(default)):
                self.add(start + m.end(), start + stop)
            return
        if webhook and (url := _ORIGIN.match(value)):
            self.add(start + url.end(), end)
            return
        if is_no_secret(value, literal) or not (strong or looks_secret(value)):
            return
        self.add(start, end)

    def is_nest(self, start: int, end: int) -> bool:
        """Whether ``[start, end)`` is the rest of a long word in which many values have begun, as in
        ``key=key=…``: it would be judged once for every name in it. Such a word is taken for a secret."""
        if start >= self._judged:
            self._judged, self._nested = end, 0
            return False
        self._nested += 1
        return self._nested > _MAX_NESTED and end - start > _MIN_NEST and " " not in self.text[start:end]

    def add_block_scalar(self, key_line: int, at: int, strong: bool, indent: int | None = None) -> None:
        """Add the lines of a YAML block scalar whose head ends at ``at``: those indented more than the line
        of its key, or than ``indent``."""
        text = self.text
        if indent is None:
            indent = indent_at(text, key_line)
        pos = at + 1
        while pos < len(text):
            end = text.find("\n", pos)
            end = end if end >= 0 else len(text)
            own = indent_at(text, pos)
            content = text[pos + own : end].rstrip("\r \t")
            if content:
                if own <= indent:
                    return
                self.add_value(pos + own, pos + own + len(content), strong, literal=True)
            pos = end + 1


def indent_at(text: str, at: int) -> int:
    """How many blanks and tabs stand at ``at``, 400 at most."""
    end = at
    while end < len(text) and text[end] in " \t" and end - at < _MAX_INDENT:
        end += 1
    return end - at


def _fences(text: str) -> list[Span]:
    """The fenced code of a Markdown text."""
    found: list[Span] = []
    opened: tuple[int, str] | None = None
    for m in _FENCE_LINE.finditer(text):
        if opened is None:
            opened = m.end(), m[1]
        elif m[1].startswith(opened[1]):
            found.append((opened[0], m.start()))
            opened = None
    if opened is not None:
        found.append((opened[0], len(text)))
    return found


@lru_cache(maxsize=32)
def _token(stops: str) -> re.Pattern[str]:
    return re.compile(rf"(?:[^\s${re.escape(stops)}]++|\$\{{[^}}\n]{{0,400}}\}}|\$)*+")


def _ascii_lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


#: Fields that hold the name of something, and those that hold its value.
NAME_FIELD = (
    r"name|key|id|variable|var|env|field|property|setting|option|param|parameter|parameter_?(?:key|name)|k"
)
VALUE_FIELD = r"(?:default_?|parameter_?)?value|val|default|content|data|secret|plaintext|v"
#: What leads to a name that is a value.
_NAME_FIELD = re.compile(
    rf"(?i)(?<![\w.-])(?:{NAME_FIELD})[\"']?[ \t]{{0,10}}(?:=>|[:=])[ \t]{{0,10}}[\"']?\Z"
)
_MAX_NAME_FIELD = 48
_VALUE_FIELD = re.compile(rf"(?i)(?<![\w.-])[\"']?(?:{VALUE_FIELD})[\"']?[ \t]{{0,10}}(?:=>|[:=])\s{{0,40}}")
_VALUE_WORDS = ("val", "default", "content", "data", "secret", "plaintext", '"v"', "v:", "v=", "v ")
#: How far the fields of one object may be from each other, in code points and in lines.
_MAX_REACH = 400
_MAX_LINES = 8
_ITEM_MARK = re.compile(r"[ \t]{0,200}(?:-[ \t]{1,8})*")
_ELEMENT_TEXT = re.compile(r"[\"'][^<>]{0,200}(?<!/)>([^<>]{1,1000})</")


def names_a_field(text: str, start: int) -> bool:
    """Whether what begins at ``start`` is the value of a field that holds a name."""
    return _NAME_FIELD.search(text, max(0, start - _MAX_NAME_FIELD), start) is not None


def find_sibling(scan: Scanner, start: int, end: int, strong: bool, webhook: bool) -> None:
    """Add the value beside the name at ``[start, end)``, which :func:`names_a_field`."""
    text = scan.text
    floor = max(0, start - _MAX_REACH)
    brace = max(text.rfind(c, floor, start) for c in "{}")
    angle = max(text.rfind(c, floor, start) for c in "<>")
    if brace > angle and (text[brace] == "{" or _closes_before(text, end)):
        _in_object(scan, brace + 1, _upto(text, end, "}"), (start, end), strong, webhook)
    elif angle >= 0 and text[angle] == "<":
        _in_object(scan, angle + 1, _upto(text, end, ">"), (start, end), strong, webhook)
        if m := _ELEMENT_TEXT.match(text, end):
            scan.add_value(m.start(1), m.end(1), strong, literal=True, webhook=webhook)
    else:
        _in_item(scan, start, strong, webhook)


def _upto(text: str, at: int, mark: str) -> int:
    """The position of the next ``mark`` in reach, or the end of the reach."""
    found = text.find(mark, at, at + _MAX_REACH)
    return found if found >= 0 else min(len(text), at + _MAX_REACH)


def _closes_before(text: str, at: int) -> bool:
    """Whether the braces around ``at`` close before others open."""
    close = text.find("}", at, at + _MAX_REACH)
    return close >= 0 and text.find("{", at, close) < 0


def _in_object(
    scan: Scanner, floor: int, ceiling: int, name: tuple[int, int], strong: bool, webhook: bool
) -> None:
    """Add the values between braces or in a tag, but for the field of the name."""
    for begin, stop in ((floor, name[0]), (name[1], ceiling)):
        around = scan.lower[begin:stop]
        if not any(word in around for word in _VALUE_WORDS):
            continue
        for field in _VALUE_FIELD.finditer(scan.text, begin, stop):
            value = scan.quoted(field.end())
            if value is not None and value[0] <= name[0] <= value[1]:
                continue
            span = value or (field.end(), scan.token_end(field.end(), ",}]\"'`<>"))
            if span[0] < stop:
                scan.add_value(*span, strong, literal=value is not None, webhook=webhook)


def _in_item(scan: Scanner, start: int, strong: bool, webhook: bool) -> None:
    """Add the value in the lines of an item that stand in one column with the field of the name."""
    text = scan.text
    line = scan.line_start(start)
    mark = _ITEM_MARK.match(text, line)
    column = mark.end() - line if mark else 0
    is_first = text.find("-", line, line + column) >= 0
    pos = (text.find("\n", start) + 1) or len(text)
    for _ in range(_MAX_LINES):
        if pos >= len(text) or (indent := indent_at(text, pos)) < column:
            break
        if indent == column and text[pos + column : pos + column + 1] in ("", "-", "\r", "\n", "["):
            break
        if indent == column:
            _line_value(scan, pos, column, strong, webhook)
        pos = (text.find("\n", pos) + 1) or len(text)
    for _ in range(_MAX_LINES):
        if is_first or not line:
            break
        line = text.rfind("\n", max(0, line - 1 - _MAX_REACH), line - 1) + 1
        if (mark := _ITEM_MARK.match(text, line)) is None or mark.end() - line < column:
            break
        if mark.end() - line == column:
            is_first = text.find("-", line, line + column) >= 0
            _line_value(scan, line, column, strong, webhook)


def _line_value(scan: Scanner, line: int, column: int, strong: bool, webhook: bool) -> None:
    """Add what a line gives if it is the field of a value."""
    field = _VALUE_FIELD.match(scan.text, line + column)
    if field is None or "\n" in field[0]:
        return
    at = field.end()
    if scalar := BLOCK_SCALAR.match(scan.text, at):
        scan.add_block_scalar(line, scalar.end(), strong, indent=column)
        return
    value = scan.quoted(at)
    scan.add_value(
        *(value or (at, scan.comment_or_line_end(at))), strong, literal=value is not None, webhook=webhook
    )


_SECRET_KIND = re.compile(r"^([ \t]{0,40})\"?kind\"?[ \t]*:[ \t]*\"?Secret\"?[ \t]*,?\r?$", re.M)
_DATA_MAP = re.compile(r"^([ \t]{0,40})(?:data|stringData)[ \t]*:[ \t]*\r?\n", re.M)
_DATA_ENTRY = re.compile(r"([ \t]{1,80})([\"']?[\w./-]{1,200}[\"']?)[ \t]*:[ \t]*")
#: How far an object may reach before and after its ``kind``.
_MAX_BEFORE = 20000
_MAX_AFTER = 65536


def find_in_manifests(scan: Scanner) -> None:
    """Add the data of the Secret objects in ``scan``."""
    text = scan.text
    if "ecret" not in text:
        return
    ceiling = 0
    for kind in _SECRET_KIND.finditer(text):
        if kind.start() < ceiling:
            continue
        # The object reaches from one document mark to the next; objects are also shown without marks.
        reach = max(ceiling, kind.start() - _MAX_BEFORE)
        floor = max(text.rfind("\n---", reach, kind.start()), ceiling)
        begin = text.rfind("apiVersion:", floor, kind.start())
        if begin >= 0 and text.find("kind:", begin, kind.start()) < 0:
            floor = begin
        ceiling = text.find("\n---", kind.end(), kind.end() + _MAX_AFTER)
        ceiling = ceiling if ceiling >= 0 else min(len(text), kind.end() + _MAX_AFTER)
        for data in _DATA_MAP.finditer(text, floor, ceiling):
            _find_data(scan, data, ceiling)


def _find_data(scan: Scanner, data: re.Match[str], ceiling: int) -> None:
    """Add the values of a ``data`` map, whose entries are indented more than itself."""
    text = scan.text
    pos = data.end()
    while (entry := _DATA_ENTRY.match(text, pos)) and len(entry[1]) > len(data[1]):
        at = entry.end()
        if scalar := BLOCK_SCALAR.match(text, at):
            scan.add_block_scalar(pos, scalar.end(), strong=True)
            pos = scalar.end() + 1
            while pos < ceiling and indent_at(text, pos) > len(entry[1]):
                pos = (text.find("\n", pos) + 1) or len(text)
            continue
        end = scan.line_end(at)
        scan.add_value(*(scan.quoted(at) or (at, end)), strong=True, literal=True)
        pos = (text.find("\n", end) + 1) or len(text)
