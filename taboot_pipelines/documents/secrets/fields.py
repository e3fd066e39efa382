"""Secrets whose name is itself a value (``{"name": "DB_PASSWORD", "value": …}``).

The value stands in a field beside the name, in either order: in the same braces, in the same tag
(``<add key="password" value=…>``), or in the lines of the same item.
"""

from __future__ import annotations

import re

from taboot_pipelines.documents.secrets.scanner import BLOCK_SCALAR, Scanner, indent_at

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
