"""The data of Secret objects in Kubernetes manifests."""

from __future__ import annotations

import re

from taboot_pipelines.documents.secrets.scanner import BLOCK_SCALAR, Scanner, indent_at

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
