"""Ids come from content, never from a counter or a clock (rule ``ids-from-content``).

A composite id is the SHA-256 (or the text itself) of a compact UTF-8 JSON array of its parts, so that
``null`` and ``""`` stay apart and no separator can be forged.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import uuid
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

import orjson

from taboot_pipelines.errors import TabootError

#: Python's own encoder decides how a value is written. One for all: `json.dumps` builds one for each call.
_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
_FAST = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
#: A number with an exponent, as orjson may write it otherwise, within a list or an object.
_EXPONENT = re.compile(rb"[\[,:]-?\d[\d.]*e")
NAME_PATTERN = re.compile(r"^[a-z0-9][a-z0-9_-]{0,62}$")
#: The id of the source of what was uploaded to the namespace ``default``; other namespaces' begin with it.
UPLOADS = "uploads"
#: Buckets of every Delta table: a change rewrites only the buckets its keys fall in.
BUCKETS = 32


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    try:
        made = orjson.dumps(value, option=_FAST)
    except TypeError:  # keys that are no text, numbers beyond 64 bits, halves of surrogate pairs
        return _written(value)
    # Small numbers, and those that are none, are written otherwise as well. Plain searches come before the
    # pattern: this is asked for every key and every row.
    if isinstance(value, float) or b"null" in made or b"0.0000" in made or _EXPONENT.search(made):
        return _written(value)
    return made.decode()


def composite(*parts: object) -> str:
    """The parts as a compact JSON array: the text form of a composite key."""
    return canonical_json(parts)


def sha256_hex(data: bytes | str) -> str:
    return hashlib.sha256(
        data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    ).hexdigest()


def altered(texts: Iterable[str], hashes: Iterable[str]) -> bool:
    """Whether a text is not the one that its hash (hex) was made of."""
    return any(sha256_hex(text) != sha256 for text, sha256 in zip(texts, hashes, strict=True))


def digest(*parts: object) -> str:
    """SHA-256 (64 hex digits) of :func:`composite` of the parts."""
    return sha256_hex(composite(*parts))


def position(key: str) -> int:
    """Where an entity stands in the order by which shards are cut: the first 64 bits of its key's SHA-256, as
    a signed number in the same order.
    """
    hashed = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(hashed[:8], "big") - (1 << 63)


def domain_of(url: str) -> str:
    """The host of a web document's URL in lower case, else ""."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""


def locator(source_id: str, path: str) -> str:
    """Where a document lives: its source and its path there (of a file: from the root, NFC, ``/``)."""
    return composite(source_id, unicodedata.normalize("NFC", path))


def doc_id(namespace: str, loc: str) -> str:
    """SHA-256 of (namespace, locator) in the form of a UUID version 4 (RFC 9562 version and variant bits)."""
    raw = bytearray(hashlib.sha256(composite(namespace, loc).encode("utf-8", "surrogatepass")).digest()[:16])
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def chunk_id(document: str, index: int) -> str:
    return f"{document}:{index}"


def bucket(key: str, buckets: int = BUCKETS) -> int:
    """The bucket of a table row: a hash of the table's own key, equal everywhere and always."""
    return int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:4], "big") % buckets


def doc_bucket(document: str) -> int:
    """The bucket of a document's rows: the leading bits of its id, which is a hash. A shard of document ids,
    which is a range of them, thus lies in few buckets."""
    return int(document[:8], 16) * BUCKETS >> 32


def node_key(parts: Sequence[object]) -> str:
    """The key of a node as one string: the part itself if there is one, else the JSON array of the parts."""
    return str(parts[0]) if len(parts) == 1 else composite(*parts)


@lru_cache(maxsize=65536)
def host_id(host: str) -> str:
    """By what a name that a setting holds is compared with those of hosts: it may be no name but a secret,
    which nothing may hold but its blob."""
    return digest("host", host.lower().rstrip("."))[:24]


def open_host(place: str, host: str) -> str:
    """A host with a variable that has no value: what it is called differs from machine to machine."""
    return f"{place}/{host}"


def container_id(namespace: str, scope: str, service: str, index: int) -> str:
    """The id of a container that is known from the declaration of its service only; ``index`` from 1."""
    return digest(namespace, scope, service, index)


def bare_key(label: str, name: str) -> tuple[str, ...]:
    """The key of a Service, Container, Network or VPNTunnel of which only the name is known: that of an empty
    scope, which none that is declared has."""
    match label:
        case "Container":
            return (container_id("", "", name, 0),)
        case "Network":
            return (f"/{name}",)
        case "VPNTunnel":
            return (f":{name}",)
        case _:
            return ("", name)


def edge_id(
    namespace: str,
    type_: str,
    start_label: str,
    start_key: str,
    end_label: str,
    end_key: str,
    discriminator: str,
    document: str,
) -> str:
    """Identity of an edge: (namespace, type, start, end, what makes it another fact, docId).

    ``discriminator`` is the text of a composite, see ``model.graph.EDGES``.
    """
    return digest(namespace, type_, start_label, start_key, end_label, end_key, discriminator, document)


def run_id(unit: str, tier: str, input_fingerprint: str, n: int = 0) -> str:
    """Identity of an interpretation run; ``n`` counts reinterpretations that a person asked for (rule
    ``versioned-runs``).
    """
    return digest(unit, tier, input_fingerprint, n)


def uploads_source(namespace: str) -> str:
    """Return the id of the source that holds what was uploaded to a namespace."""
    if namespace == "default":
        return UPLOADS
    named = f"{UPLOADS}-{namespace}"
    # Ids of sources have a longest length, and two namespaces never have one source.
    return named if NAME_PATTERN.fullmatch(named) else f"{UPLOADS}-{sha256_hex(namespace)[:32]}"


def check_namespace(namespace: str) -> str:
    """Return the namespace, or raise ``E_NAMESPACE`` if it could not be one.

    Namespaces become part of paths, keys and queries, so every store checks before it uses one. Its value is
    not quoted: it may be content that strayed.
    """
    if not isinstance(namespace, str) or not NAME_PATTERN.fullmatch(namespace):
        raise TabootError(
            "E_NAMESPACE",
            "The namespace is not a valid name.",
            remedy="Use 1-63 of a-z, 0-9, '_', '-', starting with a letter or digit.",
        )
    return namespace
