"""URLs of the schemes of the model, as endpoints; of other schemes, the host and port they name."""

from __future__ import annotations

import re

import ada_url

from taboot_pipelines.extraction.tier_a.endpoints import DEFAULT_PORTS, endpoint, normal_host
from taboot_pipelines.extraction.tier_a.prose.scan import PLACEHOLDER, Scan
from taboot_pipelines.model.graph import SCHEMES
from taboot_pipelines.model.records import NodeRef

#: Longer candidates are no addresses that people write.
_MAX_URL = 4096
_MAX_SCHEME = 24

_URL_BODY = re.compile(rf"[^\s<>\"`|\\^{{}}\x00-\x1f\x7f]{{1,{_MAX_URL}}}")
_HTML_TAG = re.compile(
    r"<(?:/|br\b|a\b|p\b|b\b|i\b|em\b|li\b|td\b|ul\b|code\b|span\b|strong\b|div\b|hr\b|img\b|!--)",
    re.IGNORECASE,
)
_SCHEME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-")
_SCHEME_NAMES = {"grpcs": "grpc+tls", **{s: s for s in SCHEMES}}
_AUTHORITY = re.compile(r"(?:[^\s/?#@]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})(?![\w.:-])")
#: An explicit port 80, which a parser of http drops.
_PORT_80 = re.compile(r"(?:[^/?#@]*@)?[^/?#@]*:80(?:[/?#]|\Z)")
#: Schemes of image references, which are looked for by themselves.
_IMAGE_SCHEMES = ("docker", "oci")


def find_urls(scan: Scan) -> None:
    """Find the URLs of ``scan``; what stands in one is blocked even where it is no mention."""
    text = scan.text
    at = text.find("://")
    while at >= 0:
        resume = at + 3
        start, scheme = _scheme(text, at)
        body = _URL_BODY.match(text, resume)
        if body is not None and scheme:
            end = _trimmed(text, resume, body.end())
            _find_url(scan, scheme, start, end, body.end())
            resume = max(resume, end)
        at = text.find("://", resume)


def _scheme(text: str, at: int) -> tuple[int, str]:
    """The start of the scheme that ends at ``at``, and the scheme in lower case; empty if there is none."""
    start = at
    while start and at - start < _MAX_SCHEME and text[start - 1] in _SCHEME_CHARS:
        start -= 1
    while start < at and not text[start].isalpha():
        start += 1
    scheme = text[start:at].lower()
    if scheme not in _SCHEME_NAMES:
        # "1.https://", "git+https://": the scheme is the last word.
        for mark in ".-+":
            cut = scheme.rfind(mark)
            if cut >= 0 and scheme[cut + 1 :] in _SCHEME_NAMES:
                return start + cut + 1, scheme[cut + 1 :]
    return start, scheme


def _trimmed(text: str, start: int, end: int) -> int:
    """Where a URL's body ends: before the bracket that closes what it stands in, and before the punctuation
    of a sentence."""
    link = text.find("](", start, end)
    if link >= 0:
        end = link
    depth = {")": 0, "]": 0}
    for i in range(start, end):
        c = text[i]
        if c == "(":
            depth[")"] += 1
        elif c == "[":
            depth["]"] += 1
        elif c in depth:
            depth[c] -= 1
            if depth[c] < 0:
                end = i
                break
    while end > start and text[end - 1] in ".,;:!?'*_~([…’”":
        end -= 1
    return end


def _find_url(scan: Scan, scheme: str, start: int, end: int, body_end: int) -> None:
    text = scan.text
    body_start = text.index("://", start) + 3
    body = text[body_start:end]
    if not body:
        return
    following = scan.after(body_end)
    cut_short = end == body_end and (
        following in "{$" or (following == "<" and not _HTML_TAG.match(text, body_end))
    )
    known = _SCHEME_NAMES.get(scheme)
    node: NodeRef | None = None
    if not cut_short:
        if known is None:
            if _find_authority(scan, body, start, body_start) or scheme in _IMAGE_SCHEMES:
                return
        elif "$" not in body.partition("/")[0]:
            node = _url_node(known, body)
    if node is not None and scan.take(start, end):
        scan.add("url", node, start, end)
    else:
        scan.block(start, end)


def _find_authority(scan: Scan, body: str, start: int, body_start: int) -> bool:
    """Find the host and port of another protocol's URL (redis://, postgres://), which are an address all the
    same; False if it names none."""
    m = _AUTHORITY.match(body)
    if m is None:
        return False
    host, port = normal_host(m[1]), int(m[2])
    if host is None or not 1 <= port <= 65535 or PLACEHOLDER.search(host):
        return False
    begin, end = body_start + m.start(1), body_start + m.end(2)
    if scan.take(begin, end):
        scan.add("host_port", endpoint("tcp", host, port), begin, end)
    scan.block(start, body_start)
    return True


def _url_node(scheme: str, body: str) -> NodeRef | None:
    """The endpoint of a URL of a scheme of the model; None if it is none, or a placeholder."""
    special = scheme in ("http", "https", "ws", "wss")
    try:
        # Other schemes have an opaque host for WHATWG: parsed as http, their host is checked like any other.
        url = ada_url.URL(f"{scheme if special else 'http'}://{body}")
        host = normal_host(url.hostname)
        port = int(url.port) if url.port else None
        if port is None and not special and _PORT_80.match(body):
            port = 80
        path = url.pathname
    except ValueError:
        return None
    if host is None or PLACEHOLDER.search(host):
        return None
    if port is None:
        port = DEFAULT_PORTS.get(scheme)
    if port is None or not 1 <= port <= 65535 or not path.startswith("/"):
        return None
    return endpoint(scheme, host, port, path)
