"""Reading the evidence again: the blob's bytes, verified, decoded, quoted through the mask (DESIGN rules 2,
11, 18).
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.offsets import OffsetMap
from taboot_pipelines.retrieval.results import End, Quote
from taboot_pipelines.shards.lines import covers_file


class Blobs(Protocol):
    """``stores.blobs.BlobStore``: the bytes of that name, their hash verified (``E_BLOB_CORRUPT``,
    ``E_BLOB_MISSING``).
    """

    def get(self, namespace: str, sha256: str) -> bytes: ...


@dataclass(frozen=True)
class Source:
    """A blob as a text file. ``url``: where people find it; ``mime``/``charset``: as its document has
    them.
    """

    data: bytes
    sha256: str
    url: str
    mime: str
    charset: str

    @cached_property
    def _codec(self) -> str:
        for mark, codec in (
            (codecs.BOM_UTF32_LE, "utf-32-le"),
            (codecs.BOM_UTF32_BE, "utf-32-be"),
            (codecs.BOM_UTF16_LE, "utf-16-le"),
            (codecs.BOM_UTF16_BE, "utf-16-be"),
        ):
            if self.data.startswith(mark):
                return codec
        try:
            return codecs.lookup(self.charset.removesuffix("-sig")).name
        except LookupError:
            return "utf-8"

    @cached_property
    def text(self) -> str:
        """All of it, one code point per undecodable byte, a byte order mark included."""
        return self._decode(self.data)

    @cached_property
    def masked(self) -> str:
        from taboot_pipelines.documents.secrets import mask

        return mask(self.text, self.mime)

    def _decode(self, data: bytes) -> str:
        return data.decode(self._codec, "replace")

    def span(self, byte_start: int, byte_end: int) -> tuple[int, int]:
        """Code points of a byte range; ``E_EVIDENCE`` if the blob does not have it."""
        if not 0 <= byte_start <= byte_end <= len(self.data):
            raise TabootError(
                "E_EVIDENCE",
                f"Bytes {byte_start}-{byte_end} lie outside the blob of {self.url}.",
                blob=self.sha256,
                url=self.url,
            )
        start = len(self._decode(self.data[:byte_start]))
        return start, start + len(self._decode(self.data[byte_start:byte_end]))

    def line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def quote(self, byte_start: int, byte_end: int) -> tuple[Quote, str]:
        """The masked quote, and the same span unmasked, for checks only."""
        start, end = self.span(byte_start, byte_end)
        return (
            Quote(
                text=self.masked[start:end],
                url=self.url,
                line=self.line(start),
                line_end=self.line(max(start, end - 1)),
                blob_sha256=self.sha256,
                byte_start=byte_start,
                byte_end=byte_end,
            ),
            self.text[start:end],
        )


def check_ends(row: Mapping[str, Any], quoted: str, quote: Quote) -> tuple[End, End]:
    """Both ends of an edge with the rule behind each; ``E_EVIDENCE`` if a name that should stand in the quote
    does not.
    """
    ends = []
    for role in ("start", "end"):
        observed, basis = row[f"{role}_observed"], row[f"{role}_basis"]
        if basis == "bytes" and observed not in quoted:
            raise TabootError(
                "E_EVIDENCE",
                f"The {role} of edge {row['edge_id'][:16]}… does not stand at {quote.url}:{quote.line}.",
                edge_id=row["edge_id"],
                role=role,
                url=quote.url,
                line=quote.line,
                blob=quote.blob_sha256,
            )
        ends.append(
            End(
                role=role,
                label=row[f"{role}_label"],
                key=row[f"{role}_key"],
                name=row[f"{role}_name"],
                observed=observed,
                basis=basis,
                rule=_rule(row[f"{role}_label"], basis, observed, row[f"{role}_name"]),
            )
        )
    return ends[0], ends[1]


_NORMALIZED = {
    "Image": "the image reference with the registry, repository and tag that it leaves out",
    "Host": "the host name in lower case, without a trailing dot",
    "IP": "the address as RFC 5952 writes it",
    "Network": "the network's name or range as it is known on its host",
    "Endpoint": "the URL split into scheme, host, port (the scheme's default where none is given) and path",
}
_DERIVED = {
    "Document": "the document that holds the statement",
    "Service": "the service whose definition holds the statement",
    "Container": (
        "the container that a declared service gets: its id is the hash of project, service and index"
    ),
    "Network": "the project's default network, or the real name of the network that the key stands for",
    "IP": "a port published without an address binds 0.0.0.0",
    "Image": "the name that Compose gives to what a service builds",
    "VPNTunnel": "the tunnel that a VPN service declares: its id is the hash of scope and service",
}
_SOURCE = {
    "Host": "the `host` of the sources file",
    "ReverseProxy": "the `proxy` of the sources file, or the source's id",
}


def _rule(label: str, basis: str, observed: str, name: str) -> str:
    if basis == "bytes":
        rule = "stands in the quote"
    elif basis == "normalized":
        rule = _NORMALIZED.get(label, "the quoted text in its normal form")
    elif basis == "source":
        rule = _SOURCE.get(label, "a field of the sources file")
    else:
        rule = _DERIVED.get(label, "follows from the structure around the quote")
    return rule if observed == name else f"{rule}; {observed!r} is known to be {name!r}"


def check_chunk(text: str, quoted: str, offsets: OffsetMap, length: int, source: Source, line: int) -> None:
    """``E_EVIDENCE`` unless a chunk of a document that is its file's text stands there; masked places agree
    with anything.
    """
    if not covers_file(offsets, length):
        return
    found = quoted.replace("\r\n", "\n").replace("\r", "\n") if "\r" not in text else quoted
    if len(found) != len(text) or any(a != b and "*" not in (a, b) for a, b in zip(found, text, strict=True)):
        raise TabootError(
            "E_EVIDENCE",
            f"The chunk does not stand at {source.url}:{line}.",
            url=source.url,
            line=line,
            blob=source.sha256,
        )
