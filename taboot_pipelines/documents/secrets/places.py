"""Credentials that show by their place in a URL, a header or a command.

Each place has a mark, a plain string in lower case; the text around one is read only where a mark stands.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence

from taboot_pipelines.documents.secrets.values import DEFAULTED, Span, is_no_secret, looks_secret

#: Where each mark stands in a text, ascending.
Positions = Mapping[str, Sequence[int]]

# URLs -------------------------------------------------------------------------------------------------------

_USERINFO = re.compile(
    r"://(?:([^\s/:@\"'<>`?#\[\]]{0,128}):([^\s/\"'<>`?#]{1,256})|([A-Za-z0-9_~.%-]{16,256}))@"
)
#: Parameters of a query that hold a key or a signature, without the prefix of their cloud.
_QUERY_NAMES = (
    *(f"{name}=" for name in ("key", "sig", "signature", "code", "credential", "auth", "sas", "sid")),
    "session=",
    "security-token=",
)
_BEFORE_QUERY_NAME = re.compile(r"(?i)[?&;](?:amp;)?(?:x-(?:amz|goog)-)?\Z")
_QUERY_VALUE = re.compile(r"[^\s&\"'<>`)#\]]{6,2048}")
#: What the URL of a webhook begins with; whoever knows what follows may call it.
_WEBHOOKS = (
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/webhookb2/",
    "outlook.office.com/webhook/",
    "api.telegram.org/bot",
    "chat.googleapis.com/v1/spaces/",
    "maker.ifttt.com/trigger/",
    "hooks.zapier.com/hooks/catch/",
    "hooks.airtable.com/workflows/",
    "hook.eu1.make.com/",
    "hook.eu2.make.com/",
    "hook.us1.make.com/",
    "hook.us2.make.com/",
    "hc-ping.com/",
    "betterstack.com/api/v1/heartbeat/",
    "feishu.cn/open-apis/bot/v2/hook/",
    "larksuite.com/open-apis/bot/v2/hook/",
    "login.tailscale.com/a/",
)
_WEBHOOK_PATH = re.compile(r"[A-Za-z0-9_/:@.%-]{6,512}")
_WEBHOOK_PATHS = {
    "discord.com/api/webhooks/": re.compile(r"[0-9]{1,30}/([A-Za-z0-9_-]{6,512})"),
    "discordapp.com/api/webhooks/": re.compile(r"[0-9]{1,30}/([A-Za-z0-9_-]{6,512})"),
    "maker.ifttt.com/trigger/": re.compile(r"[\w-]{1,80}/(?:json/)?with/key/([\w-]{6,512})"),
}

# Headers and commands ---------------------------------------------------------------------------------------

_BEARER = re.compile(r"(?i)(bearer|basic|token)[ \t]{1,4}([A-Za-z0-9._~+/=:-]{8,4096})")
#: Between a flag and its value, which may be the next item of a list.
_GAP = r"(?:[ \t=]{1,3}|[\"'],[ \t]{0,3})"
#: Not a URL, whose own credentials are masked as such.
_USER_FLAG = re.compile(
    rf"(?:-u|--user|--proxy-user){_GAP}[\"']?([^\s:\"'$(<>&]{{1,100}}):(?!//)"
    r"((?:[^\s\"'<>&]|&(?!(?:#39|#34|quot|lt|gt);)){1,200})"
)


def _flag(names: str, flag: str, value: str = r"([^\s\"'-][^\s\"']{0,200})") -> re.Pattern[str]:
    """A command and the first of its flags that takes the password."""
    return re.compile(rf"(?:{names})\b[^\n|;]{{0,200}}?[ \t\"'](?:{flag})[\"']?{value}")


_ATTACHED = _flag(r"mysql|mysqladmin|mysqldump|mysqlimport|mariadb(?:-admin|-dump)?|sshpass", "-p[ \t]?")
_AFTER_P = _flag(r"mongo(?:sh|dump|restore|export|import)?|docker|podman|helm|az|login", f"-p{_GAP}")
_AFTER_W = _flag(r"ldap(?:search|add|modify|delete|whoami|passwd)", f"-w{_GAP}")
_AFTER_BIG_P = _flag(r"mosquitto_(?:pub|sub|rr)|sqlcmd|bcp|unzip|zip", f"-P{_GAP}?")
_REDIS = _flag(r"redis-cli", f"(?:-a|--pass){_GAP}", r"([^\s\"']{1,200})")
_SAMBA = _flag(r"smbclient|rpcclient|smbmap|net", rf"-U{_GAP}[\"']?[^\s%\"']{{1,100}}%", r"([^\s\"']{1,200})")
_HTPASSWD = re.compile(
    r"htpasswd[ \t]{1,3}(?:-[A-Za-z]{1,6}[ \t]{1,3}){0,4}-[A-Za-z]{0,5}b[A-Za-z]{0,5}[ \t]{1,3}"
    r"(?:-[A-Za-z]{1,6}[ \t]{1,3}){0,4}[^\s|;`]{1,200}[ \t]{1,3}[^\s|;`]{1,100}[ \t]{1,3}"
    r"([^\s|;\"'`]{1,200})"
)
_HTPASSWD_PRINT = re.compile(
    r"htpasswd[ \t]{1,3}(?:-[A-Za-z]{1,6}[ \t]{1,3}){0,4}"
    r"-(?=[A-Za-z]{0,5}n)[A-Za-z]{0,5}b[A-Za-z]{0,5}[ \t]{1,3}"
    r"[\"']?[^\s|;\"']{1,100}[\"']?[ \t]{1,3}[\"']?([^\s|;\"'`]{1,200})"
)
_CHPASSWD = re.compile(
    r"echo[ \t]{1,3}(?:-e[ \t]{1,3})?[\"']?[\w.-]{1,60}:([^\s\"'|]{1,200})[\"']?[ \t]{0,3}\|"
)
#: Commands by the mark that they begin with.
_COMMANDS: dict[str, tuple[re.Pattern[str], ...]] = {
    "mysql": (_ATTACHED,),
    "mariadb": (_ATTACHED,),
    "sshpass": (_ATTACHED,),
    "mongo": (_AFTER_P,),
    "login": (_AFTER_P,),
    "ldap": (_AFTER_W,),
    "mosquitto_": (_AFTER_BIG_P,),
    "sqlcmd": (_AFTER_BIG_P,),
    "unzip": (_AFTER_BIG_P,),
    "redis-cli": (_REDIS,),
    "smbclient": (_SAMBA,),
    "rpcclient": (_SAMBA,),
    "htpasswd": (_HTPASSWD, _HTPASSWD_PRINT),
    "echo": (_CHPASSWD,),
}

# Users of a proxy -------------------------------------------------------------------------------------------

_USERS = re.compile(r"[\"']?\]?[:.\s]{0,200}users[\"']?[ \t]{0,10}[=:]")
_USER = re.compile(r"[\s,\[\"'`-]{0,200}(?<![\w.@+])[\w.@+-]{1,80}:((?:[^\s\"',`:\]]|:(?=\S)){1,300})[\"'`]?")

_SCHEMES = ("bearer", "basic", "token")
_USER_FLAGS = ("-u", "--user", "--proxy-user")
_PROXY_USERS = ("basicauth", "digestauth")
MARKS = ("://", *_QUERY_NAMES, *_WEBHOOKS, *_SCHEMES, *_USER_FLAGS, *_COMMANDS, *_PROXY_USERS)


def in_places(text: str, positions: Positions) -> Iterator[Span]:
    """Spans of such credentials in ``text``, in no order."""
    for at in positions.get("://", ()):
        yield from _in_authority(text, at)
    for mark in _QUERY_NAMES:
        done = 0
        for at in positions.get(mark, ()):
            if at < done or not _BEFORE_QUERY_NAME.search(text, max(0, at - 12), at):
                continue
            if value := _QUERY_VALUE.match(text, at + len(mark)):
                done = value.end()
                yield from _unless_none(text, value, 0)
    for mark in _WEBHOOKS:
        pattern = _WEBHOOK_PATHS.get(mark, _WEBHOOK_PATH)
        for at in positions.get(mark, ()):
            yield from _unless_none(text, pattern.match(text, at + len(mark)), pattern.groups)
    for mark in _SCHEMES:
        for at in positions.get(mark, ()):
            m = None if at and text[at - 1].isalpha() else _BEARER.match(text, at)
            if m is not None and _is_credential(m[1], m[2]):
                yield m.span(2)
    for mark in _USER_FLAGS:
        for at in positions.get(mark, ()):
            if not at or text[at - 1] in " \t\n\r\"'":
                m = _USER_FLAG.match(text, at)
                if m and not (m[1].isdigit() and m[2].isdigit()):  # ids
                    yield from _unless_none(text, m, 2)
    for mark, patterns in _COMMANDS.items():
        for at in positions.get(mark, ()):
            if not at or not text[at - 1].isalnum():
                for pattern in patterns:
                    yield from _unless_none(text, pattern.match(text, at), 1)
    for mark in _PROXY_USERS:
        for at in positions.get(mark, ()):
            yield from _proxy_users(text, at + len(mark))


def _unless_none(text: str, match: re.Match[str] | None, group: int) -> Iterator[Span]:
    """The span of a group, unless what stands there can be no secret."""
    if match is not None and not is_no_secret(match[group], literal=True):
        yield match.span(group)


def _in_authority(text: str, at: int) -> Iterator[Span]:
    """The password of a URL, or the token in place of its user."""
    m = _USERINFO.match(text, at)
    if m is None:
        return
    if m[3] is not None:
        if looks_secret(m[3]):
            yield m.span(3)
    elif not is_no_secret(m[2], literal=True):
        default = DEFAULTED.match(m[2])
        yield m.start(2) + (default.end() if default else 0), m.end(2) - bool(default)


def _proxy_users(text: str, at: int) -> Iterator[Span]:
    """What follows the names in ``basicauth.users=name:…`` and in the lists of such users."""
    users = _USERS.match(text, at)
    if users is None:
        return
    at = users.end()
    while m := _USER.match(text, at):
        if is_no_secret(m[1], literal=True):
            return
        yield m.span(1)
        at = m.end()


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
