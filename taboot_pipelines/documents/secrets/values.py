"""Which names announce a secret, which values can be none whatever the name, and which look like one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from taboot_pipelines.packaged import word_list

#: Code points ``[start, end)``.
Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same code points as ascending spans that neither overlap nor touch."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


#: Words that follow ``password:`` in a sentence and are no value.
COMMON_WORDS = word_list("taboot_pipelines.documents.secrets", "common_words.txt")
#: What a reference with a default begins with: the default is the secret.
DEFAULTED = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]{0,100}:?[-+=]")

_NO_VALUE = re.compile(r"(?i)(?:true|false|yes|no|on|off|null|none|nil|~|undefined),?|(?:[*•x.…_\\-])+")
#: Terms with digits that say how a secret is made or written.
TECHNICAL = re.compile(
    r"(?i)(?:base(?:32|58|64)|oauth2?|oauth1|sha-?[0-9]+|md5|utf-?8|ipv[46]|x\.?509|ed25519|rsa-?[0-9]*"
    r"|aes-?[0-9]*"
    r"|[ehpr]s(?:256|384|512)|p-?(?:256|384|521)|pkcs#?[0-9]+|argon2(?:id?)?|pbkdf2|ntlmv?2|v[0-9.]+"
    r"|http/?[0-9.]*"
    r"|s3|ec2|k8s|[0-9]+-?(?:bits?|bytes?|chars?|characters|hours?|days?|digits?|months?|years?|minutes?))"
    r"(?:[-/_'’](?:\w|-)*)?"
)
#: A count with its unit, a range of versions, the digest of a package (Subresource Integrity): each is
#: written as no secret is.
_MEASURE = re.compile(
    r"(?i)[0-9]+[ -](?:random[ ])?(?:bits?|bytes?|chars?|characters?|digits?|words?"
    r"|seconds?|minutes?|hours?|days?|weeks?|months?|years?)"
    r"|[~^><=]{1,2}[ ]?v?[0-9]+(?:\.[0-9x*]+){1,2}(?:-[a-z0-9.]+)?"
    r"|sha(?:1|256|384|512)-[A-Za-z0-9+/]{20,90}={0,2}"
)
#: In prose and tables these say what a value is for.
_KINDS = re.compile(
    r"(?i)required|optional|enabled?|disabled?|string|str|int|text|bool(?:ean)?|object|secret"
    r"|basic|bearer|digest|plain|any|empty|default|n/a|external"
)
#: A variable, also behind a word that says how its value is written or whose it is (``base64:${KEY}``).
_VARIABLE = re.compile(
    r"\$\$?[A-Za-z_][A-Za-z0-9_]*|\$__[a-z]+\{[^{}]*\}|\$\$?\{[^{}]*\}|\$\$?\(.*\)?|\$\{\{.*\}\}"
    r"|[a-z][a-z0-9]{1,15}:\$\{[A-Za-z_][A-Za-z0-9_]*\}"
    r"|%[A-Za-z_][A-Za-z0-9_]*%|%\([^()]*\)s|@[A-Z_]+@|__[A-Z_]+__"
)
_TEMPLATE = re.compile(
    r"[\w.-]{0,80}\{\{.*\}\}(?:[-_.]?[A-Za-z]+)*|\{%.*%\}|(?:Authorization:[ ]*)?(?:[A-Za-z]+[ ])?<[^<>]*>"
    r"|\[[^\[\]]*\]\([^()]*\)|\[[A-Z _-]+\]|#\{[^{}]*\}|\{[A-Za-z_][\w.-]*\}"
)
_EXPRESSION = re.compile(
    r"(?:[A-Za-z_][\w.]*)?\(.*"
    r"|(?:var|local|data|module|self|this|process|os|config|settings|options|args|env|params|props)"
    r"\.[A-Za-z_][\w.\[\]\"']*"
    r"|[A-Za-z_]\w*\[.*\]"
)
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[^\s]*|[A-Za-z]:\\[^\s]*"
    r"|(?:[\w.-]+/)+[\w-]+\.[a-z]{2,8}"
    r"|[\w./-]*\.(?:pem|key|crt|cer|txt|ya?ml|json|conf|htpasswd|env|asc|gpg|p12|pfx|jks)"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://\S*")
_OPAQUE = re.compile(r"[A-Za-z0-9+/=_.~$:!@%^*-]{12,4096}")
_PUBLIC_HASH = re.compile(r"(?i)sha(?:1|256|384|512)[:-].*|ssh-(?:rsa|ed25519).*|age1.*")
_HEX = re.compile(r"[0-9a-fA-F]{16,}")


def is_no_secret(value: str, literal: bool = False) -> bool:
    """Whether a value cannot be a secret: it is empty, a switch, a reference to a variable, a placeholder, a
    path or a URL.

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
        or _MEASURE.fullmatch(value)
    ):
        return True
    if not literal and _EXPRESSION.fullmatch(value):
        return True
    # Base64 may begin with a slash, but a path has no long random part, nor digits all over its letters.
    return (
        _PATH.fullmatch(value) is not None
        and not any(_random_segment(p) for p in re.split(r"[/\\.]", value))
        and not (len(value) >= 40 and len(_SCATTERED.findall(value)) >= 5)
    )


def _random_segment(part: str) -> bool:
    return len(part) >= 16 and _kinds_of_character(part) == 3


#: A digit between two letters.
_SCATTERED = re.compile(r"(?<=[A-Za-z])[0-9]+(?=[A-Za-z])")
#: Words before ``secret`` by which a name refers to a secret that is kept elsewhere, by Podman, Docker or
#: Kubernetes.
_KEEPERS = frozenset(
    ("existing", "from", "podman", "docker", "swarm", "kube", "kubernetes", "k8s", "pull", "tls")
)
#: A name as these keepers allow it: words, numbers, and signs between them.
_KEPT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*")
#: The options that Podman and Docker take behind a secret's name.
_OPTIONS = re.compile(r"(?:,(?:type|target|source|src|id|uid|gid|mode|env)=[^,\s]*)+")


def is_reference(name: str, value: str) -> bool:
    """Whether the value is the name of a secret and not one: it has the options of one, the name says that
    somebody keeps it, or a name that is nothing but "secret" has a value that names a secret."""
    value = value.strip()
    bare = _OPTIONS.sub("", value)
    if not _KEPT_NAME.fullmatch(bare) or looks_secret(bare):
        return False
    words = [w.lower() for w in _SPLIT.split(_CAMEL.sub("_", name)) if w]
    if not words or words[-1] not in ("secret", "secrets"):
        return False
    if bare != value or (len(words) > 1 and words[-2] in _KEEPERS):
        return True
    alone = len(words) == 1 or name[: -len(words[-1])].endswith(".")
    return alone and len(_SPLIT.split(bare)) > 1 and strength(bare) is not None


_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_SIGN_INSIDE = re.compile(r"\w[!@#$%^&+=~]{1,100}\w")
_KINDS_OF_CHARACTER = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))


def _kinds_of_character(value: str) -> int:
    """How many of lower case, upper case and digits it has."""
    return sum(kind.search(value) is not None for kind in _KINDS_OF_CHARACTER)


def is_kind(value: str) -> bool:
    """Whether a value in running text or a table is a word for a kind of value (``string``, ``required``)."""
    return _KINDS.fullmatch(value.strip()) is not None


def looks_secret(value: str) -> bool:
    """Whether a value looks drawn at random: it is of one piece, and has letters of both cases and digits, or
    is long hexadecimal."""
    value = value.strip()
    if not _OPAQUE.fullmatch(value) or _PUBLIC_HASH.fullmatch(value) or is_no_secret(value, literal=True):
        return False
    if _HEX.fullmatch(value):
        return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return (
        _kinds_of_character(value) == 3
        and len(set(value)) >= 8
        and not re.fullmatch(r"[\w.-]+\.(?:[a-z]{2,10})(?::\d+)?", value)
    )


def is_unwordly(value: str) -> bool:
    """Whether it is no word of a sentence: it mixes digits and letters, or has signs inside."""
    if len(value) >= 4 and _DIGIT.search(value) and _LETTER.search(value):
        return True
    return _SIGN_INSIDE.search(value) is not None


_PACKAGE = "taboot_pipelines.documents.secrets"

#: ``strong``: the value is a secret unless it is plainly none. ``weak``: only if it also looks like one.
Strength = Literal["strong", "weak"]

#: Every secret name holds one of these, in any case; found first, the rest of the name is read around it.
KEYWORDS = word_list(_PACKAGE, "keywords.txt")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SPLIT = re.compile(r"[^A-Za-z0-9]+")

_STRONG = word_list(_PACKAGE, "names.txt")
#: Words of :data:`_STRONG` that often name where the secrets are.
_PLURALS = ("secrets", "credentials", "tokens")
#: Ends of names that were run together, as in MYSQLROOTPASSWORD.
_STRONG_ENDS = ("password", "passwd", "passphrase", "secret", "apikey", "secretkey", "privatekey")
#: Words that make ``key`` one that must stay secret.
_KEY_OWNERS = word_list(_PACKAGE, "key_owners.txt")
#: Last words of weak names, and words that make one weak wherever they stand in it.
_WEAK = word_list(_PACKAGE, "weak_names.txt")
_WEAK_ANYWHERE = ("authorization", "dsn", "salt", "cookie")
#: After these last words the value describes the secret, or says where it is.
_DESCRIBES = word_list(_PACKAGE, "descriptions.txt")
#: Words before ``pass`` that make it another word: ``proxy_pass``, ``first_pass``.
_NOT_PASS = word_list(_PACKAGE, "not_passwords.txt")


@lru_cache(maxsize=8192)
def strength(name: str) -> Strength | None:
    """How surely the name is one of a secret; None if it is not."""
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
    if last == "jwt":
        return "strong"
    if words == ["pwd"] and name.isupper():  # the working directory
        return "weak"
    for before, word in pairwise(("", *words)):
        if found := _strength_of_word(word, before, last):
            return found
    if last in _WEAK or any(w in _WEAK_ANYWHERE for w in words):
        return "weak"
    return None


def _strength_of_word(word: str, before: str, last: str) -> Strength | None:
    """What one word of a name says, given the word before it and the name's last word."""
    if word == "pass" and before in _NOT_PASS:
        return None
    # `token_id` and `secret_id` may be either: the value decides.
    decided_by_value = last in ("id", "ids")
    if word in _STRONG:
        return "weak" if decided_by_value or word in _PLURALS else "strong"
    if word in ("key", "keys") and before in _KEY_OWNERS:
        return "weak" if decided_by_value else "strong"
    if len(word) > 8 and word.endswith(_STRONG_ENDS):
        return "strong"
    return None


def is_webhook(name: str) -> bool:
    return "webhook" in name.lower()
