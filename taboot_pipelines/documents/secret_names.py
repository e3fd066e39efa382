"""Which names announce a secret, and which values are none although the name does."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from taboot_pipelines.packaged import word_list

Strength = Literal["strong", "weak"]

#: Every secret name holds one of these, in any case; found first, the rest of the name is read around it.
KEYWORDS = (
    "pass",
    "pwd",
    "pw",
    "secret",
    "token",
    "credential",
    "key",
    "auth",
    "psk",
    "salt",
    "dsn",
    "webhook",
    "cookie",
)

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SPLIT = re.compile(r"[^A-Za-z0-9]+")

_STRONG = word_list("taboot_pipelines.documents", "secret_names.txt")
#: Words that make ``key`` one that must stay secret.
_KEY_OWNERS = word_list("taboot_pipelines.documents", "secret_key_owners.txt")
_WEAK = frozenset(
    [
        "key",
        "keys",
        "auth",
        "salt",
        "dsn",
        "webhook",
        "webhooks",
        "cookie",
        "cookies",
        "authorization",
        "authentication",
    ]
)
#: After these last words the value describes the secret, or says where it is.
_DESCRIBES = word_list("taboot_pipelines.documents", "secret_descriptions.txt")
_NOT_PASS = frozenset(
    [
        "proxy",
        "fastcgi",
        "grpc",
        "uwsgi",
        "scgi",
        "memcached",
        "by",
        "com",
        "first",
        "second",
        "single",
        "one",
        "multi",
        "js",
    ]
)


@lru_cache(maxsize=8192)
def strength(name: str) -> Strength | None:
    """``strong``: the value is a secret unless it is plainly none; ``weak``: only if it also looks like
    one.
    """
    words = [w.lower() for w in _SPLIT.split(_CAMEL.sub("_", name)) if w]
    if not words or (words[0] == "file" and len(words) > 1):  # FILE__PASSWORD names a file
        return None
    last = words[-1]
    hook = "webhook" in words or "webhooks" in words
    if last in _DESCRIBES and not (hook and last in ("url", "uri")):
        return None
    if hook:
        return "weak"
    if "public" in words or "pub" in words:
        return None
    if words == ["pwd"] and name.isupper():  # the working directory
        return "weak"
    for i, word in enumerate(words):
        if word == "pass" and i and words[i - 1] in _NOT_PASS:
            continue
        if word in _STRONG:
            # `token_id` and `secret_id` may be either: the value decides.
            return (
                "weak" if last in ("id", "ids") or word in ("secrets", "credentials", "tokens") else "strong"
            )
        if word in ("key", "keys") and i and words[i - 1] in _KEY_OWNERS:
            return "weak" if last in ("id", "ids") else "strong"
        # Names run together, as in MYSQLROOTPASSWORD.
        if len(word) > 8 and word.endswith(
            ("password", "passwd", "passphrase", "secret", "apikey", "secretkey", "privatekey")
        ):
            return "strong"
    if last in _WEAK or any(w in ("authorization", "dsn", "salt", "cookie") for w in words):
        return "weak"
    return None


def is_webhook(name: str) -> bool:
    return "webhook" in name.lower()


_NO_VALUE = re.compile(r"(?i)true|false|yes|no|on|off|null|none|nil|~|undefined|(?:[*•x.…_\\-])+")
#: In prose and tables these say what a value is for.
_KINDS = re.compile(
    r"(?i)required|optional|enabled?|disabled?|string|str|int|text|bool(?:ean)?|object|secret|basic|bearer|digest|plain|any|empty|default|n/a|external"
)
_VARIABLE = re.compile(
    r"\$\$?[A-Za-z_][A-Za-z0-9_]*|\$\$?\{[^{}]*\}|\$\$?\(.*\)?|\$\{\{.*\}\}|%[A-Za-z_][A-Za-z0-9_]*%|%\([^()]*\)s|@[A-Z_]+@|__[A-Z_]+__"
)
_TEMPLATE = re.compile(
    r"\{\{.*\}\}|\{%.*%\}|<[^<>]*>|\[[^\[\]]*\]\([^()]*\)|\[[A-Z _-]+\]|#\{[^{}]*\}|\{[A-Za-z_][\w.-]*\}"
)
_EXPRESSION = re.compile(
    r"(?:[A-Za-z_][\w.]*)?\(.*|(?:var|local|data|module|self|this|process|os|config|settings|options|args|env|params|props)\.[A-Za-z_][\w.\[\]\"']*|[A-Za-z_]\w*\[.*\]"
)
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[^\s]*|[A-Za-z]:\\[^\s]*|[\w./-]*\.(?:pem|key|crt|cer|txt|ya?ml|json|conf|htpasswd|env|asc|gpg|p12|pfx|jks)"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://\S*")


def _random_segment(part: str) -> bool:
    kinds = (
        (any(c.islower() for c in part)) + (any(c.isupper() for c in part)) + (any(c.isdigit() for c in part))
    )
    return len(part) >= 16 and kinds == 3


def is_no_secret(value: str, literal: bool = False) -> bool:
    """Whether a value cannot be a secret: empty, a switch, a reference to a variable, a placeholder, a path,
    a URL.

    ``literal``: it stood in quotes, so it is no expression of a program.
    """
    value = value.strip()
    if not value or len(value) > 100_000:
        return not value
    if len(value) > 4096:
        return False
    if (
        _NO_VALUE.fullmatch(value)
        or _VARIABLE.fullmatch(value)
        or _TEMPLATE.fullmatch(value)
        or _URL.fullmatch(value)
    ):
        return True
    if not literal and _EXPRESSION.fullmatch(value):
        return True
    # Base64 may begin with a slash: a path has no long random part.
    return _PATH.fullmatch(value) is not None and not any(
        _random_segment(p) for p in re.split(r"[/\\.]", value)
    )


def is_kind(value: str) -> bool:
    """Whether a value in running text or a table is the word for a kind of value (``string``,
    ``required``).
    """
    return _KINDS.fullmatch(value.strip()) is not None


_OPAQUE = re.compile(r"[A-Za-z0-9+/=_.~$:!@%^*-]{12,4096}")
_PUBLIC_HASH = re.compile(r"(?i)sha(?:1|256|384|512)[:-].*|ssh-(?:rsa|ed25519).*|age1.*")
_HEX = re.compile(r"[0-9a-fA-F]{16,}")


def looks_secret(value: str) -> bool:
    """Whether a value looks drawn at random: of one piece, with letters of both cases and digits, or long
    hexadecimal.
    """
    value = value.strip()
    if not _OPAQUE.fullmatch(value) or _PUBLIC_HASH.fullmatch(value) or is_no_secret(value, literal=True):
        return False
    if _HEX.fullmatch(value):
        return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    kinds = (
        any(c.islower() for c in value) + any(c.isupper() for c in value) + any(c.isdigit() for c in value)
    )
    return (
        kinds == 3 and len(set(value)) >= 8 and not re.fullmatch(r"[\w.-]+\.(?:[a-z]{2,10})(?::\d+)?", value)
    )
