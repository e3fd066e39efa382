"""Hashes of passwords, private keys and the keys of WireGuard's peers, which show by their form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.documents.secrets.places import Positions
from taboot_pipelines.documents.secrets.spans import Span
from taboot_pipelines.documents.secrets.values import is_no_secret

#: In Compose files each dollar of a hash is doubled.
_D = r"\$\$?"
_HASH = re.compile(
    rf"{_D}2[abxy]?{_D}[0-9]{{2}}{_D}[./A-Za-z0-9]{{53}}"
    rf"|{_D}(?:apr1|sha1){_D}[./A-Za-z0-9]{{1,16}}{_D}[./A-Za-z0-9$]{{22,64}}"
    rf"|{_D}[1567y]{_D}(?:rounds=[0-9]{{1,9}}{_D})?[./A-Za-z0-9$]{{1,60}}\$[./A-Za-z0-9]{{22,128}}"
    rf"|{_D}argon2(?:id|i|d){_D}v=[0-9]{{1,4}}{_D}[A-Za-z0-9,=]{{1,60}}"
    rf"{_D}[A-Za-z0-9+/]{{8,128}}{_D}[A-Za-z0-9+/]{{16,256}}"
    rf"|{_D}(?:scrypt|pbkdf2)[a-z0-9-]{{0,12}}{_D}[A-Za-z0-9,=./+$]{{20,512}}"
    r"|pbkdf2[_:]sha(?:1|256|512)[$:][0-9]{1,9}\$[A-Za-z0-9+/=]{1,128}\$[A-Za-z0-9+/=]{20,256}"
    r"|scrypt:[0-9]{1,9}:[0-9]{1,4}:[0-9]{1,4}\$[A-Za-z0-9+/=]{1,128}\$[A-Za-z0-9+/=]{20,512}"
    r"|(?i:scram-sha-)(?:1|256|512)\$[0-9]{1,9}:[A-Za-z0-9+/=]{4,128}\$[A-Za-z0-9+/=:]{20,512}"
    r"|\{(?i:ssha|sha|smd5|md5|crypt|pbkdf2|argon2)[0-9a-zA-Z-]{0,12}\}[A-Za-z0-9+/=$.]{20,512}"
)
_HASH_MARKS = (
    *(f"${scheme}$" for scheme in ("2", "2a", "2b", "2x", "2y", "apr1", "sha1", "1", "5", "6", "7", "y")),
    "$argon2",
    "$scrypt",
    "$pbkdf2",
    "pbkdf2_sha",
    "pbkdf2:sha",
    "scrypt:",
    "scram-sha-",
    "{ssha",
    "{sha",
    "{smd5",
    "{md5",
    "{crypt",
    "{pbkdf2",
    "{argon2",
)

_PEM = re.compile(r"-----BEGIN([A-Z0-9 _-]{0,100}PRIVATE KEY(?: BLOCK)?| OpenVPN Static key V1)-----")
_PEM_LINE = re.compile(r"[^\r\n]+")
_PEM_BODY = re.compile(r"(?:\\r)?(?:\\n|[ \t\r\n\"'+,\\])*[A-Za-z0-9+/=:\-]{1,128}")
_PEM_TOKEN = re.compile(r"[A-Za-z0-9+/=:\-]{1,128}\Z")
_MAX_PEM = 65536
_PEM_MARK = "-----begin"
#: A key of PuTTY: how many lines of base64 follow.
_PUTTY = re.compile(
    r"Private-Lines:[ \t]{0,4}([0-9]{1,3})[ \t]{0,4}\r?\n((?:[A-Za-z0-9+/=]{1,80}\r?\n?){1,200})", re.I
)
_PUTTY_MARK = "private-lines:"
#: No secret by itself, but it tells one person's devices from all others wherever they are.
_PEER = re.compile(r"PublicKey[ \t]{0,20}=[ \t]{0,20}([A-Za-z0-9+/]{43}=)(?![A-Za-z0-9+/=])", re.I)
_PEER_MARK = "publickey"

MARKS = (*_HASH_MARKS, _PEM_MARK, _PUTTY_MARK, _PEER_MARK)


def shaped(text: str, positions: Positions) -> Iterator[Span]:
    """Spans of such credentials in ``text``, in no order."""
    for mark in _HASH_MARKS:
        for at in positions.get(mark, ()):
            if m := _HASH.match(text, at - (mark[0] == text[at - 1 : at] == "$")):
                yield m.span()
    for at in positions.get(_PUTTY_MARK, ()):
        if m := _PUTTY.match(text, at):
            yield from (
                (m.start(2) + line.start(), m.start(2) + line.end()) for line in _PEM_LINE.finditer(m[2])
            )
    for at in positions.get(_PEER_MARK, ()):
        if m := _PEER.match(text, at):
            yield m.span(1)
    if positions.get(_PEM_MARK):
        yield from _private_keys(text)


def _private_keys(text: str) -> Iterator[Span]:
    """The bodies of private keys in PEM, line by line; one that never ends, as far as it looks like a key."""
    at = 0
    closing = 0
    while m := _PEM.search(text, at):
        if closing < m.end():  # each end mark is looked for once
            closing = text.find("-----END", m.end())
            closing = closing if closing >= 0 else len(text)
        if closing - m.end() <= _MAX_PEM and text.startswith(f"{m[1]}-----", closing + len("-----END")):
            # In a string literal the line ends are written as `\n`, and are masked with the rest.
            for line in _PEM_LINE.finditer(text, m.end(), closing):
                content = line[0].strip(" \t")
                begin = line.start() + len(line[0]) - len(line[0].lstrip(" \t"))
                if not is_no_secret(content, literal=True):  # `<redacted>`
                    yield begin, begin + len(content)
            at = closing
            continue
        at = m.end()
        while (body := _PEM_BODY.match(text, at)) and at - m.end() < _MAX_PEM:
            token = _PEM_TOKEN.search(body[0])
            if token is None or text.startswith("-----", body.end() - len(token[0])):
                break
            yield body.end() - len(token[0]), body.end()
            at = body.end()
