"""Which names announce a secret."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from taboot_pipelines.packaged import word_list

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
