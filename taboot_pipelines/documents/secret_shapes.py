"""Credentials that show by their shape (``ghp_…``, a private key) or by their place in a URL, a header or a
command.

Every pattern has bounded repetition, so that a search is linear in the text; plain substrings say first
whether to try.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from taboot_pipelines.documents.secret_names import is_no_secret, looks_secret

Span = tuple[int, int]

#: What a reference with a default begins with: the default is the secret.
DEFAULTED = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]{0,100}:?[-+=]")

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_.-]{16,255}"
    r"|sk-[A-Za-z0-9_-]{16,255}|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{16,255}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{8,255}|xapp-[A-Za-z0-9-]{8,255}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])|AIza[A-Za-z0-9_-]{30,100}|ya29\.[A-Za-z0-9_-]{20,512}"
    r"|eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,8192}(?:\.[A-Za-z0-9_-]{0,8192})?"
    r"|tskey-[A-Za-z0-9-]{8,255}|npm_[A-Za-z0-9]{30,100}|pypi-[A-Za-z0-9_-]{30,512}|do[opr]_v1_[a-f0-9]{40,100}|SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"
    r"|hf_[A-Za-z0-9]{30,100}|hv[sbr]\.[A-Za-z0-9_-]{20,512}|dckr_pat_[A-Za-z0-9_-]{20,100}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|AGE-SECRET-KEY-1[A-Z0-9]{50,70}"
    r"|lin_api_[A-Za-z0-9]{30,60}|sq0[a-z]{3}-[A-Za-z0-9_-]{22,60}|[0-9]{8,10}:AA[A-Za-z0-9_-]{32,40}|glsa_[A-Za-z0-9_]{30,60}|ops_eyJ[A-Za-z0-9_-]{40,4096}"
    r")"
    r"|\$\$?2[abxy]?\$\$?[0-9]{2}\$\$?[./A-Za-z0-9]{53}|\$\$?apr1\$\$?[./A-Za-z0-9]{1,16}\$\$?[./A-Za-z0-9]{22}"
    r"|\$\$?[156y]\$\$?(?:rounds=[0-9]{1,9}\$\$?)?[./A-Za-z0-9$]{1,60}\$[./A-Za-z0-9]{22,128}|\$\$?argon2(?:id|i|d)\$\$?v=[0-9]{1,4}\$\$?[A-Za-z0-9,=]{1,60}\$\$?[A-Za-z0-9+/]{8,128}\$\$?[A-Za-z0-9+/]{16,256}"
    r"|\{SSHA(?:256|512)?\}[A-Za-z0-9+/=]{20,200}|\{SHA\}[A-Za-z0-9+/=]{20,100}"
)
_WEBHOOK = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/[0-9]{1,30}/|webhook\.office\.com/webhookb2/|api\.telegram\.org/bot"
    r"|chat\.googleapis\.com/v1/spaces/|maker\.ifttt\.com/trigger/[\w-]{1,80}/with/key/|hc-ping\.com/|outlook\.office\.com/webhook/)([A-Za-z0-9_/:@.%-]{6,512})"
)
_USERINFO = re.compile(r"://([^\s/:@\"'<>`?#\[\]]{0,128}):([^\s/\"'<>`?#]{1,256})@")
_SOLE_USERINFO = re.compile(r"://([A-Za-z0-9_~.%-]{16,256})@")
_BEARER = re.compile(r"(?i)(?<![A-Za-z])(bearer|basic|token)[ \t]{1,4}([A-Za-z0-9._~+/=:-]{8,4096})")
_CURL_USER = re.compile(
    r"(?<=\s)(?:-u|--user|--proxy-user)[ \t=]{1,3}[\"']?([^\s:\"'$(]{1,100}):([^\s\"']{1,200})"
)
_ATTACHED = re.compile(
    r"\b(?:mysql|mysqladmin|mysqldump|mariadb|mariadb-admin|mariadb-dump|sshpass)\b[^\n|;]{0,200}?[ \t\"']-p"
    r"[ \t]?([^\s\"'-][^\s\"']{0,200})"
)
# A command's words may stand in a list, each in its quotes.
_REDIS_AUTH = re.compile(
    r"\bredis-cli\b[^\n|;]{0,200}?[ \t\"'](?:-a|--pass)(?:[ \t]{1,3}|[\"'],[ \t]{0,3})[\"']?([^\s\"']{1,200})"
)
_DOCKER_LOGIN = re.compile(r"\blogin\b[^\n|;]{0,200}?[ \t]-p[ \t]{1,3}([^\s\"']{1,200})")
_HTPASSWD = re.compile(
    r"\bhtpasswd[ \t]{1,3}(?:-[A-Za-z]{1,6}[ \t]{1,3}){0,4}-[A-Za-z]{0,5}b[A-Za-z]{0,5}"
    r"[ \t]{1,3}(?:-[A-Za-z]{1,6}[ \t]{1,3}){0,4}[^\s|;]{1,200}[ \t]{1,3}[^\s|;]{1,100}"
    r"[ \t]{1,3}([^\s|;\"']{1,200})"
)
_PEM = re.compile(r"-----BEGIN ((?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----")
_PEM_BODY = re.compile(r"(?:\\r)?(?:\\n|[ \t\r\n\"'+,\\])*[A-Za-z0-9+/=:\-]{1,128}")
_QUERY_NAME = re.compile(
    r"[?&;](?:amp;)?(key|sig|signature|code|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|auth|sas|sid|session)=([^\s&\"'<>`)#\]]{6,2048})",
    re.I,
)

#: What a shape begins with or must hold; without any of them the pattern is not tried.
_SHAPE_MARKS = (
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "glcbt-",
    "glptt-",
    "glft-",
    "glsoat-",
    "sk-",
    "_live_",
    "_test_",
    "whsec_",
    "xox",
    "xapp-",
    "AKIA",
    "ASIA",
    "ABIA",
    "ACCA",
    "AIza",
    "ya29.",
    "eyJ",
    "tskey-",
    "npm_",
    "pypi-",
    "_v1_",
    "SG.",
    "hf_",
    "hvs.",
    "hvb.",
    "hvr.",
    "dckr_pat_",
    "shp",
    "AGE-SECRET",
    "lin_api_",
    "sq0",
    ":AA",
    "glsa_",
    "$2",
    "$apr1",
    "$1$",
    "$5$",
    "$6$",
    "$y$",
    "$argon2",
    "{SSHA",
    "{SHA}",
)
_COMMANDS = (
    (
        _WEBHOOK,
        (
            "hooks.slack",
            "api/webhooks",
            "webhook.office",
            "api.telegram",
            "chat.googleapis",
            "maker.ifttt",
            "hc-ping",
            "office.com/webhook",
        ),
    ),
    (_ATTACHED, ("mysql", "mariadb", "sshpass")),
    (_REDIS_AUTH, ("redis-cli",)),
    (_DOCKER_LOGIN, ("login",)),
    (_HTPASSWD, ("htpasswd",)),
)


def shaped(text: str, lower: str) -> list[Span]:
    """Spans of such credentials in ``text``, in no order; ``lower`` is the text in lower case, of equal
    length.
    """
    found: list[Span] = []
    if any(mark in text for mark in _SHAPE_MARKS):
        for m in _SHAPES.finditer(text):
            found.append(m.span())
    for pattern, marks in _COMMANDS:
        if any(mark in lower for mark in marks):
            for m in pattern.finditer(text):
                if not is_no_secret(m[1], literal=True):
                    found.append(m.span(1))
    for m in _USERINFO.finditer(text):
        if not is_no_secret(m[2], literal=True):
            default = DEFAULTED.match(m[2])
            found.append((m.start(2) + (default.end() if default else 0), m.end(2) - bool(default)))
    for m in _SOLE_USERINFO.finditer(text):
        if looks_secret(m[1]):
            found.append(m.span(1))
    for m in _CURL_USER.finditer(text):
        if not is_no_secret(m[2], literal=True) and not (m[1].isdigit() and m[2].isdigit()):  # ids
            found.append(m.span(2))
    for m in _QUERY_NAME.finditer(text):
        if not is_no_secret(m[2], literal=True):
            found.append(m.span(2))
    for m in _BEARER.finditer(text) if "bearer" in lower or "basic " in lower or "token " in lower else ():
        value = m[2]
        if m[1].lower() == "basic":
            secret = _is_basic(value)
        else:
            secret = (
                any(c.isdigit() for c in value) and len(value) >= 12 and not is_no_secret(value, True)
            ) or len(value) >= 32
        if secret:
            found.append(m.span(2))
    found.extend(_private_keys(text))
    return found


def _private_keys(text: str) -> Iterator[Span]:
    """The bodies of private keys in PEM, line by line; one that never ends, as far as it looks like a key."""
    at = 0
    while m := _PEM.search(text, at):
        label = m[1]
        stop = text.find(f"-----END {label}-----", m.end(), m.end() + 65536)
        if stop >= 0:
            body = text[m.end() : stop]
            # In a string literal the line ends are written as `\n`, and are masked with the rest.
            for line in re.finditer(r"[^\r\n]+", body):
                content = line[0].strip(" \t")
                lead = len(line[0]) - len(line[0].lstrip(" \t"))
                yield m.end() + line.start() + lead, m.end() + line.start() + lead + len(content)
            at = stop
            continue
        at = m.end()
        while (body_line := _PEM_BODY.match(text, at)) and at - m.end() < 65536:
            token = re.search(r"[A-Za-z0-9+/=:\-]{1,128}\Z", body_line[0])
            if token is None or text.startswith("-----", body_line.end() - len(token[0])):
                break
            yield body_line.end() - len(token[0]), body_line.end()
            at = body_line.end()


def _is_basic(value: str) -> bool:
    """Whether it is the ``user:password`` of HTTP basic authentication in base64."""
    try:
        return b":" in base64.b64decode(value[:512] + "=" * (-len(value[:512]) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
