"""Secrets of Kubernetes manifests: ``env`` entries (a name and a value), and the data of Secret objects."""

from __future__ import annotations

import re

from taboot_pipelines.documents.secrets.names import strength
from taboot_pipelines.documents.secrets.scanner import BLOCK_SCALAR, Scanner, indent_at

_NAMED_VALUE = re.compile(
    r"(?:\"name\"[ \t]*:[ \t]*\"|(?<![\w\"])name[ \t]*:[ \t]*[\"']?)"
    r"([A-Za-z_][\w.-]{0,80})[\"']?[ \t]*,?[ \t]*\r?\n?[ \t]{0,80}"
    r"\"?value\"?[ \t]*:[ \t]*"
)
_SECRET_KIND = re.compile(r"^([ \t]{0,40})\"?kind\"?[ \t]*:[ \t]*\"?Secret\"?[ \t]*,?\r?$", re.M)
_DATA_MAP = re.compile(r"^([ \t]{0,40})(?:data|stringData)[ \t]*:[ \t]*\r?\n", re.M)
_DATA_ENTRY = re.compile(r"([ \t]{1,80})([\"']?[\w./-]{1,200}[\"']?)[ \t]*:[ \t]*")
#: How far an object may reach before and after its ``kind``.
_MAX_BEFORE = 20000
_MAX_AFTER = 65536


def find_in_manifests(scan: Scanner) -> None:
    """Add the secrets of the manifests in ``scan``."""
    _find_env_entries(scan)
    _find_secret_objects(scan)


def _find_env_entries(scan: Scanner) -> None:
    text = scan.text
    if "value:" not in text and '"value"' not in text:
        return
    for m in _NAMED_VALUE.finditer(text):
        kind = strength(m[1])
        if kind is None:
            continue
        value = scan.quoted(m.end())
        span = value or (m.end(), scan.comment_or_line_end(m.end()))
        scan.add_value(*span, kind == "strong", literal=value is not None)


def _find_secret_objects(scan: Scanner) -> None:
    text = scan.text
    ceiling = 0
    for kind in _SECRET_KIND.finditer(text):
        if kind.start() < ceiling:
            continue
        # The object reaches from one document mark to the next.
        floor = max(text.rfind("\n---", max(ceiling, kind.start() - _MAX_BEFORE), kind.start()), ceiling)
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
