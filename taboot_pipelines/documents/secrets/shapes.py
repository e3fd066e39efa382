"""Credentials that show by their shape (``ghp_…``, a private key), or by their place in a URL, a header or a
command.

Plain substrings say first whether a pattern is worth a try.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from taboot_pipelines.documents.secrets.spans import Span
from taboot_pipelines.documents.secrets.values import DEFAULTED, is_no_secret, looks_secret
from taboot_pipelines.packaged import word_list

#: Tokens of services, by their prefixes; then hashes of passwords.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"gh[pousr]_[A-Za-z0-9]{20,255}"
    r"|github_pat_[A-Za-z0-9_]{20,255}"
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_.-]{16,255}"
    r"|sk-[A-Za-z0-9_-]{16,255}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}"
    r"|whsec_[A-Za-z0-9+/=]{16,255}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{8,255}"
    r"|xapp-[A-Za-z0-9-]{8,255}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])"
    r"|AIza[A-Za-z0-9_-]{30,100}"
    r"|ya29\.[A-Za-z0-9_-]{20,512}"
    r"|eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,8192}(?:\.[A-Za-z0-9_-]{0,8192})?"
    r"|tskey-[A-Za-z0-9-]{8,255}"
    r"|npm_[A-Za-z0-9]{30,100}"
    r"|pypi-[A-Za-z0-9_-]{30,512}"
    r"|do[opr]_v1_[a-f0-9]{40,100}"
    r"|SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"
    r"|hf_[A-Za-z0-9]{30,100}"
    r"|hv[sbr]\.[A-Za-z0-9_-]{20,512}"
    r"|dckr_pat_[A-Za-z0-9_-]{20,100}"
    r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,70}"
    r"|lin_api_[A-Za-z0-9]{30,60}"
    r"|sq0[a-z]{3}-[A-Za-z0-9_-]{22,60}"
    r"|[0-9]{8,10}:AA[A-Za-z0-9_-]{32,40}"
    r"|glsa_[A-Za-z0-9_]{30,60}"
    r"|ops_eyJ[A-Za-z0-9_-]{40,4096}"
    r")"
    r"|\$\$?2[abxy]?\$\$?[0-9]{2}\$\$?[./A-Za-z0-9]{53}"
    r"|\$\$?apr1\$\$?[./A-Za-z0-9]{1,16}\$\$?[./A-Za-z0-9]{22}"
    r"|\$\$?[156y]\$\$?(?:rounds=[0-9]{1,9}\$\$?)?[./A-Za-z0-9$]{1,60}\$[./A-Za-z0-9]{22,128}"
    r"|\$\$?argon2(?:id|i|d)\$\$?v=[0-9]{1,4}\$\$?[A-Za-z0-9,=]{1,60}"
    r"\$\$?[A-Za-z0-9+/]{8,128}\$\$?[A-Za-z0-9+/]{16,256}"
    r"|\{SSHA(?:256|512)?\}[A-Za-z0-9+/=]{20,200}"
    r"|\{SHA\}[A-Za-z0-9+/=]{20,100}"
)
#: What a shape begins with or must hold; without any of them the pattern is not tried.
_SHAPE_MARKS = tuple(sorted(word_list("taboot_pipelines.documents.secrets", "shape_marks.txt")))

_USERINFO = re.compile(r"://([^\s/:@\"'<>`?#\[\]]{0,128}):([^\s/\"'<>`?#]{1,256})@")
_SOLE_USERINFO = re.compile(r"://([A-Za-z0-9_~.%-]{16,256})@")
_QUERY_NAME = re.compile(
    r"[?&;](?:amp;)?"
    r"(key|sig|signature|code|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature"
    r"|auth|sas|sid|session)"
    r"=([^\s&\"'<>`)#\]]{6,2048})",
    re.I,
)
_WEBHOOK = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/webhooks/[0-9]{1,30}/"
    r"|webhook\.office\.com/webhookb2/"
    r"|api\.telegram\.org/bot"
    r"|chat\.googleapis\.com/v1/spaces/"
    r"|maker\.ifttt\.com/trigger/[\w-]{1,80}/with/key/"
    r"|hc-ping\.com/"
    r"|outlook\.office\.com/webhook/)"
    r"([A-Za-z0-9_/:@.%-]{6,512})"
)
_WEBHOOK_MARKS = (
    "hooks.slack",
    "api/webhooks",
    "webhook.office",
    "api.telegram",
    "chat.googleapis",
    "maker.ifttt",
    "hc-ping",
    "office.com/webhook",
)
_BEARER = re.compile(r"(?i)(?<![A-Za-z])(bearer|basic|token)[ \t]{1,4}([A-Za-z0-9._~+/=:-]{8,4096})")

_CURL_USER = re.compile(
    r"(?<=\s)(?:-u|--user|--proxy-user)[ \t=]{1,3}[\"']?([^\s:\"'$(]{1,100}):([^\s\"']{1,200})"
)
_ATTACHED = re.compile(
    r"\b(?:mysql|mysqladmin|mysqldump|mariadb|mariadb-admin|mariadb-dump|sshpass)\b"
    r"[^\n|;]{0,200}?[ \t\"']-p[ \t]?([^\s\"'-][^\s\"']{0,200})"
)
# A command's words may stand in a list, each in its quotes.
_REDIS_AUTH = re.compile(
    r"\bredis-cli\b[^\n|;]{0,200}?[ \t\"'](?:-a|--pass)(?:[ \t]{1,3}|[\"'],[ \t]{0,3})[\"']?([^\s\"']{1,200})"
)
_DOCKER_LOGIN = re.compile(r"\blogin\b[^\n|;]{0,200}?[ \t]-p[ \t]{1,3}([^\s\"']{1,200})")
_HTPASSWD = re.compile(
    r"\bhtpasswd[ \t]{1,3}(?:-[A-Za-z]{1,6}[ \t]{1,3}){0,4}-[A-Za-z]{0,5}b[A-Za-z]{0,5}[ \t]{1,3}"
    r"(?:-[A-Za-z]{1,6}[ \t]{1,3}){0,4}[^\s|;]{1,200}[ \t]{1,3}[^\s|;]{1,100}[ \t]{1,3}"
    r"([^\s|;\"']{1,200})"
)
#: (pattern whose first group is the secret, one of what a text in lower case must hold for it)
_PLACES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (_WEBHOOK, _WEBHOOK_MARKS),
    (_ATTACHED, ("mysql", "mariadb", "sshpass")),
    (_REDIS_AUTH, ("redis-cli",)),
    (_DOCKER_LOGIN, ("login",)),
    (_HTPASSWD, ("htpasswd",)),
)

_PEM = re.compile(r"-----BEGIN ((?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----")
_PEM_BODY = re.compile(r"(?:\\r)?(?:\\n|[ \t\r\n\"'+,\\])*[A-Za-z0-9+/=:\-]{1,128}")
_PEM_TOKEN = re.compile(r"[A-Za-z0-9+/=:\-]{1,128}\Z")
_MAX_PEM = 65536


def shaped(text: str, lower: str) -> list[Span]:
    """Spans of such credentials in ``text``, in no order. ``lower`` is the text in lower case."""
    found: list[Span] = []
    if any(mark in text for mark in _SHAPE_MARKS):
        found.extend(m.span() for m in _SHAPES.finditer(text))
    for pattern, marks in _PLACES:
        if any(mark in lower for mark in marks):
            found.extend(m.span(1) for m in pattern.finditer(text) if not is_no_secret(m[1], literal=True))
    found.extend(_in_urls(text))
    for m in _CURL_USER.finditer(text):
        if not is_no_secret(m[2], literal=True) and not (m[1].isdigit() and m[2].isdigit()):  # ids
            found.append(m.span(2))
    if "bearer" in lower or "basic " in lower or "token " in lower:
        found.extend(m.span(2) for m in _BEARER.finditer(text) if _is_credential(m[1], m[2]))
    found.extend(_private_keys(text))
    return found


def _in_urls(text: str) -> Iterator[Span]:
    """Passwords, tokens in place of a user, and signatures and keys in the query."""
    for m in _USERINFO.finditer(text):
        if not is_no_secret(m[2], literal=True):
            default = DEFAULTED.match(m[2])
            yield m.start(2) + (default.end() if default else 0), m.end(2) - bool(default)
    for m in _SOLE_USERINFO.finditer(text):
        if looks_secret(m[1]):
            yield m.span(1)
    for m in _QUERY_NAME.finditer(text):
        if not is_no_secret(m[2], literal=True):
            yield m.span(2)


def _is_credential(scheme: str, value: str) -> bool:
    """Whether the word after an authentication scheme is a credential, not the next word of a sentence."""
    if scheme.lower() == "basic":
        return _is_basic(value)
    if len(value) >= 32:
        return True
    return len(value) >= 12 and any(c.isdigit() for c in value) and not is_no_secret(value, literal=True)


def _is_basic(value: str) -> bool:
    """Whether it is the ``user:password`` of HTTP basic authentication in base64."""
    try:
        return b":" in base64.b64decode(value[:512] + "=" * (-len(value[:512]) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _private_keys(text: str) -> Iterator[Span]:
    """The bodies of private keys in PEM, line by line; one that never ends, as far as it looks like a key."""
    at = 0
    while m := _PEM.search(text, at):
        stop = text.find(f"-----END {m[1]}-----", m.end(), m.end() + _MAX_PEM)
        if stop >= 0:
            # In a string literal the line ends are written as `\n`, and are masked with the rest.
            for line in re.finditer(r"[^\r\n]+", text[m.end() : stop]):
                content = line[0].strip(" \t")
                begin = m.end() + line.start() + len(line[0]) - len(line[0].lstrip(" \t"))
                yield begin, begin + len(content)
            at = stop
            continue
        at = m.end()
        while (body := _PEM_BODY.match(text, at)) and at - m.end() < _MAX_PEM:
            token = _PEM_TOKEN.search(body[0])
            if token is None or text.startswith("-----", body.end() - len(token[0])):
                break
            yield body.end() - len(token[0]), body.end()
            at = body.end()
