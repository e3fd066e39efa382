"""URLs as the WHATWG standard parses them, and their canonical keys.

One parser (ada) gives the host that is checked and the bytes that are sent, so that no two readings of one
URL can differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_plus

from ada_url import join_url, normalize_url

from taboot_pipelines.errors import TabootError

#: Version of :func:`canonical_key`. Locators are made of keys, so a change of the algorithm is a new version.
KEY_VERSION = "2"
#: A longer URL is refused: sitemaps may not list one. Measured once it is parsed, since escapes are longer
#: than what they stand for.
MAX_LENGTH = 2048
#: Text longer than this is not parsed at all.
_MAX_TEXT = 8192
_PORTS = {"http": 80, "https": 443}
#: Parameters that say where a reader came from, or who it is, and never which page is meant. Names are
#: compared without regard to case. What might choose a page (``ref``, ``source``, ``sid``, ``id``) is not
#: here.
TRACKING_PARAMETERS = frozenset(
    {
        # advertising and its clicks
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "gad_source", "gad_campaignid"),
        *("fbclid", "msclkid", "yclid", "ysclid", "ymclid", "twclid", "ttclid", "igshid", "igsh"),
        *("li_fat_id", "epik", "rb_clickid", "wickedid", "_openstat", "irclickid", "irgwc", "scid", "sccid"),
        # newsletters
        *(
            "mc_cid",
            "mc_eid",
            "mkt_tok",
            "oly_anon_id",
            "oly_enc_id",
            "vero_id",
            "vero_conv",
            "ml_subscriber",
        ),
        *("ml_subscriber_hash", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking"),
        # measurement
        *("_ga", "_gl", "_gac", "_branch_match_id", "_branch_referrer", "_bta_c", "_bta_tid", "_ke"),
        # sessions that a server writes into its links
        *("jsessionid", "phpsessid"),
    }
)
#: Beginnings of such names: Urchin and Google, Piwik and Matomo (three spellings), HubSpot, IIS sessions.
TRACKING_PREFIXES = ("utm_", "pk_", "piwik_", "mtm_", "matomo_", "hsa_", "aspsessionid")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_SESSION = re.compile(r"(?i);jsessionid=[^/;?]*")


@dataclass(frozen=True, slots=True)
class WebUrl:
    """A parsed ``http`` or ``https`` URL without credentials. ``text`` is its normal form without fragment;
    ``host`` as in the Host header without port (an IPv6 address in brackets); ``target`` is path and
    query."""

    text: str
    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme and authority: what robots rules, cookies and credentials belong to (RFC 6454)."""
        return f"{self.scheme}://{self.authority}"


def parse_url(text: str, base: str | None = None) -> WebUrl:
    """Raises ``E_URL_BAD`` for what is no URL, or one of more than :data:`MAX_LENGTH` characters; its message
    never holds the URL, which may carry credentials."""
    if len(text) > _MAX_TEXT:
        raise _too_long()
    try:
        href = normalize_url(text) if base is None else join_url(base, text)
        scheme, mark, rest = href.partition("://")
        if scheme not in _PORTS or not mark:
            raise TabootError("E_URL_BAD", "The URL's scheme is not http or https.")
        # In the normal form of an http(s) URL the authority ends at the first slash, and always has one.
        authority, _, target = rest.partition("#")[0].partition("/")
        if "@" in authority:
            raise TabootError(
                "E_URL_BAD", "The URL holds a user name or password; it would be stored with every document."
            )
        if not authority:
            raise TabootError("E_URL_BAD", "The URL has no host.")
    except ValueError:  # also text that is not Unicode
        raise TabootError("E_URL_BAD", "The URL cannot be parsed (WHATWG URL standard).") from None
    host, port = authority, ""
    if authority[-1] != "]":
        before, colon, number = authority.rpartition(":")
        if colon:
            host, port = before, number
    # The normal form keeps the ``?`` of an empty query, which is not sent.
    target = (
        "/" + target.removesuffix("?") if target.endswith("?") and target.count("?") == 1 else f"/{target}"
    )
    normal = f"{scheme}://{authority}{target}"
    if len(normal) > MAX_LENGTH:
        raise _too_long()
    return WebUrl(normal, scheme, host, int(port) if port else _PORTS[scheme], target)


def _too_long() -> TabootError:
    return TabootError("E_URL_BAD", f"The URL is longer than {MAX_LENGTH} characters.")


def canonical_key(url: WebUrl) -> str:
    """What deduplicates pages (rule ``fetch-url-is-not-the-key``), version :data:`KEY_VERSION`.

    The WHATWG normal form (scheme and host in lower case and ASCII, default port, ``.`` and ``..`` gone)
    without fragment; escapes of unreserved characters undone and the others in capitals (RFC 3986 §6.2.2);
    the query without :data:`TRACKING_PARAMETERS`, :data:`TRACKING_PREFIXES` and empty parts, sorted by the
    parameters' names, those of one name in the order they had; no empty query. A trailing slash stays, as
    does a page's own ``rel=canonical`` out of the key: what a page says of itself is recorded and never
    believed for another host. The key of a key is itself.

    Two URLs that some servers treat as one keep two keys on purpose (other canonicalizers join them): values
    of one name in another order, ``a`` and ``a=``, ``+`` and ``%20``, an escaped reserved character and the
    character, a host with a dot at its end, doubled slashes, ``www.``, ``index.html``, forms of Unicode.
    """
    text = url.text
    if "%" in text or ";" in text:
        text = _plain(text)
    base, mark, query = text.partition("?")
    if not mark:
        return base
    kept = [p for p in query.split("&") if p]
    if len(kept) == 1 and "=" not in kept[0]:
        # A query of one word is often a page's name; it needs no sorting.
        return base if _is_tracking(kept[0]) else f"{base}?{kept[0]}"
    named = [(_name(p), p) for p in kept]
    named = [(name, p) for name, p in named if not _is_tracking_name(name)]
    named.sort(key=lambda pair: pair[0])
    return f"{base}?{'&'.join(p for _, p in named)}" if named else base


def _name(parameter: str) -> str:
    name = parameter.partition("=")[0]
    return unquote_plus(name) if "%" in name or "+" in name else name


def _is_tracking(parameter: str) -> bool:
    return _is_tracking_name(_name(parameter))


def _is_tracking_name(name: str) -> bool:
    name = name.lower()
    return name in TRACKING_PARAMETERS or name.startswith(TRACKING_PREFIXES)


def _plain(text: str) -> str:
    """Escapes undone and in capitals, sessions out of the path, until nothing changes: what ``%%41`` stands
    for must not depend on how often it is asked for, and what is left may hold ``..`` again."""
    while True:
        base, mark, query = _ESCAPE.sub(_escape, text).partition("?")
        after = f"{_SESSION.sub('', base)}{mark}{query}"
        if after == text:
            return text
        text = normalize_url(after)


def _escape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    if character.isascii() and (character.isalnum() or character in "-._~"):
        return character
    return match[0].upper()
