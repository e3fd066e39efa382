"""Header fields of a mail message, and what they say: text, addresses, dates, parameters, message ids.

Nothing here raises for what a stranger wrote: a field that breaks its grammar is read as far as it goes.
Structured fields are read by the standard library's parsers, which know RFC 2045, 2231 and 5322; encoded
words (RFC 2047) by an own decoder, since the library's raises for broken ones and joins no character that
two of them share.

The charsets of mail, repaired: names that mean nothing, bytes that are not what they are said to be.
"""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from email.message import Message
from email.utils import collapse_rfc2231_value, getaddresses, parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple

from taboot_pipelines.documents.encoding import decode
from taboot_pipelines.errors import TabootError

#: Names in use which Python does not know, by those it does.
_ALIASES = {
    "ansi_x3.110-1983": "latin-1",
    "cp-850": "cp850",
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-8-e": "iso-8859-8",
    "iso-8859-6-i": "iso-8859-6",
    "ks_c_5601-1987": "cp949",
    "x-euc-jp": "euc_jp",
    "x-gbk": "gbk",
    "x-mac-roman": "mac_roman",
    "x-sjis": "cp932",
    "unicode-1-1-utf-7": "utf-7",
    "utf8mb4": "utf-8",
}
#: Widened to what writers of that name use.
_WIDER = {"shift_jis": "cp932", "gb2312": "gbk", "euc_kr": "cp949", "iso2022_jp": "iso2022_jp_ext"}

#: A shorter text says too little for statistics.
_MIN_STATISTICS = 400


@lru_cache(maxsize=512)
def codec_of(name: str | None) -> str | None:
    """Python's name of a charset, or None for one that means nothing (``X-UNKNOWN``, ``default``)."""
    label = (name or "").strip().strip("\"'").lower()
    try:
        info = codecs.lookup(_ALIASES.get(label, label))
    except (LookupError, ValueError, UnicodeError):
        return None
    if not getattr(info, "_is_text_encoding", True) or info.name in (
        "idna",
        "punycode",
        "undefined",
        "unicode_escape",
        "raw_unicode_escape",
        "unicode-escape",
        "raw-unicode-escape",
        "mbcs",
        "oem",
    ):
        return None
    return _WIDER.get(info.name, info.name)


def charset_of(data: bytes, declared: str | None) -> tuple[str, bool]:
    """(codec, whether every line of ``data`` has it): what bytes are written in that are said to be in
    ``declared``.

    Bytes that are said to be ASCII, or in nothing known, and are not, are in whatever reads them. Where
    nothing reads them all, the charset that is declared, else UTF-8, is the best there is.
    """
    codec = codec_of(declared)
    if codec in (None, "ascii") and data.isascii() and b"\x1b" not in data:
        return "ascii", True
    if codec is not None and codec.startswith(("iso2022", "utf-7", "hz")):
        return codec, False
    if codec in (None, "ascii", "utf-8"):
        text = data.decode("utf-8", "replace")
        bad = text.count("\ufffd")
        if bad == 0 or sum(letter > "\x7f" for letter in text) > 2 * bad:
            # A few bytes are damaged, or were cut off.
            return "utf-8", bad == 0
    if codec in (None, "ascii") and len(data) < _MIN_STATISTICS:
        return _western(data), True
    try:
        _, found, _ = decode(data, None if codec == "ascii" else codec)
    except TabootError:
        return codec if codec not in (None, "ascii") else "utf-8", False
    return found, True


def _western(data: bytes) -> str:
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def decoded(data: bytes, declared: str | None) -> str:
    """The text in ``data``; what nothing reads becomes U+FFFD."""
    codec, _ = charset_of(data, declared)
    try:
        return data.decode(codec, "replace")
    except (UnicodeError, ValueError):
        return data.decode("utf-8", "replace")


#: The header section of a message or part; mailing list software writes a hundredth of it.
MAX_HEADER_BYTES = 1_048_576
MAX_FIELDS = 5_000
#: How much of a field is parsed by its grammar: the library's parsers take quadratic time.
_MAX_STRUCTURED = 65_536
_MAX_PARAMETERS = 8_192
_MAX_IDS = 1_000
#: A junk line among the fields is passed over if fields go on behind it.
_FIELD = re.compile(rb"([\x21-\x39\x3b-\x7e]+)[ \t]*:")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?")
_FOLD = re.compile(r"(?:\r\n|\r|\n)[ \t]*")
_WORD = re.compile(r"=\?([^?\s]{1,100})\?([bBqQ])\?([^?]*)\?=")
_SPECIAL = re.compile(r'[,;:()<>@"\\.\[\]]')
_Q_ESCAPE = re.compile(rb"=([0-9A-Fa-f]{2})")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")
_ID = re.compile(r"<\s*([^<>\s]{1,998})\s*>")
_BARE_ID = re.compile(r"[^<>\s,;\"]{1,998}@[^<>\s,;\"]{1,998}")
_SPACES = re.compile(r"\s+")


class Field(NamedTuple):
    """A header field: its name in lower case, and its value on one line, which stands at bytes ``[start,
    end)`` of the blob."""

    name: str
    value: str
    start: int
    end: int


class Address(NamedTuple):
    """A mailbox; ``name`` may be empty."""

    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.name} <{self.address}>" if self.name else self.address


class Fields:
    """The fields of a message or part, in their order."""

    __slots__ = ("_first", "all")

    def __init__(self, fields: Iterable[Field]) -> None:
        self.all = list(fields)
        self._first: dict[str, Field] = {}
        for field in self.all:
            self._first.setdefault(field.name, field)

    def __bool__(self) -> bool:
        return bool(self.all)

    def get(self, name: str) -> Field | None:
        """The first field of that name."""
        return self._first.get(name)

    def value(self, name: str) -> str:
        """The value of the first field of that name, encoded words decoded; empty where there is none."""
        field = self._first.get(name)
        return words(field.value) if field is not None else ""

    def named(self, name: str) -> Iterator[Field]:
        """All fields of that name."""
        return (field for field in self.all if field.name == name)


def read_fields(data: bytes, start: int) -> tuple[Fields, int]:
    """The fields of a header section that begins at ``start``, and where the body behind it begins.

    A line that is no field ends the section, as in the standard library's parser, unless fields follow it.
    Raises ``E_TOO_LARGE`` beyond :data:`MAX_HEADER_BYTES` or :data:`MAX_FIELDS`.
    """
    spans: list[tuple[bytes, int, int]] = []
    at, size = start, len(data)
    while at < size:
        line = _next_line(data, at)
        if at + len(line) - start > MAX_HEADER_BYTES or len(spans) > MAX_FIELDS:
            raise TabootError(
                "E_TOO_LARGE",
                f"The header section at byte {start} has more than {MAX_HEADER_BYTES} bytes or {MAX_FIELDS}"
                " fields.",
                remedy="Exclude the message.",
            )
        if line[:1] in b"\r\n":
            at += len(line)
            break
        if line[:1] in b" \t":
            if spans:
                name, begin, _ = spans[-1]
                spans[-1] = (name, begin, at + len(line))
            at += len(line)
            continue
        found = _FIELD.match(line)
        if found is not None:
            spans.append((found[1], at + found.end(), at + len(line)))
        elif not (at == start and line.startswith((b"From ", b">From "))) and not _goes_on(
            data, at + len(line), line
        ):
            break
        at += len(line)
    return Fields(_field(data, *span) for span in spans), at


def _next_line(data: bytes, at: int) -> bytes:
    match = _LINE.match(data, at, at + MAX_HEADER_BYTES + 1)
    assert match is not None
    return match[0]


def _goes_on(data: bytes, after: int, line: bytes) -> bool:
    """Whether fields go on behind a line that is none."""
    return not line.startswith(b"--") and _FIELD.match(data, after) is not None


def _field(data: bytes, name: bytes, start: int, end: int) -> Field:
    raw = data[start:end]
    start += len(raw) - len(raw.lstrip())
    raw = raw.strip()
    try:
        # Unlabelled Japanese is known by its escapes.
        value = raw.decode("iso2022_jp_ext" if b"\x1b$" in raw else "utf-8")
    except UnicodeDecodeError:
        value = decoded(raw, None)
    return Field(name.decode("ascii").lower(), unfolded(value), start, start + len(raw))


def unfolded(value: str) -> str:
    """A value on one line (RFC 5322, 2.2.3)."""
    return _FOLD.sub(" ", value) if "\n" in value or "\r" in value else value


def words(value: str) -> str:
    """The text of an unstructured field: encoded words decoded, white space between two of them left out."""
    value = value[:_MAX_STRUCTURED]
    if "=?" not in value:
        return _SPACES.sub(" ", value).strip()
    out: list[str] = []
    at = 0
    # A character may be parted by two words of one charset, so their bytes are joined first.
    held, charset = b"", ""
    for word in _WORD.finditer(value):
        between = value[at : word.start()]
        name = word[1].partition("*")[0].lower()
        joined = held != b"" and not between.strip()
        if not (joined and name == charset):
            if held:
                out.append(decoded(held, charset))
                held = b""
            if not joined:
                out.append(between)
        held += _word_bytes(word[2], word[3])
        charset = name
        at = word.end()
    if held:
        out.append(decoded(held, charset))
    out.append(value[at:])
    return _SPACES.sub(" ", "".join(out)).strip()


def _word_bytes(encoding: str, content: str) -> bytes:
    raw = content.encode("utf-8", "replace")
    if encoding in "qQ":
        return _Q_ESCAPE.sub(lambda m: bytes.fromhex(m[1].decode()), raw.replace(b"_", b" "))
    return base64_bytes(raw)


def base64_bytes(raw: bytes) -> bytes:
    """What base64 says, whatever else stands in between and however its end is cut."""
    end = raw.find(b"=")
    try:
        # As a rule it is what it should be.
        return binascii.a2b_base64(raw) if end < 0 or end >= len(raw.rstrip()) - 2 else _spliced(raw)
    except binascii.Error:
        return _spliced(raw)


def _spliced(raw: bytes) -> bytes:
    """Base64 in several runs, each with its own padding, as some programs join them."""
    parts: list[bytes] = []
    for run in re.split(rb"=+", raw):
        letters = _NOT_BASE64.sub(b"", run)
        letters = letters[: len(letters) - (len(letters) % 4 == 1)]
        parts.append(binascii.a2b_base64(letters + b"=" * (-len(letters) % 4)))
    return b"".join(parts)


def addresses(fields: Iterable[Field]) -> list[Address]:
    """The mailboxes that fields name; a group gives its members."""
    found: list[Address] = []
    for field in fields:
        if "@" not in field.value and "<" not in field.value:
            # Names without an address, which RFC 5322 does not know: none of their words is one.
            named = re.split(r"[,;]", field.value[:_MAX_STRUCTURED].rstrip(" \t:;"))
            found += [Address("", words(name).strip()) for name in named if name.strip()]
            continue
        try:
            pairs = getaddresses([_closed(field.value[:_MAX_STRUCTURED])])
        except (RecursionError, ValueError, IndexError, TypeError):
            pairs = [("", match[0]) for match in _BARE_ID.finditer(field.value[:_MAX_STRUCTURED])]
        found += [
            Address(words(name), address.strip())
            for name, address in pairs
            if address.strip() and "\n" not in address
        ]
    return found


def _closed(value: str) -> str:
    """A field of addresses in which no encoded word holds what parts them, which some programs write."""

    def escaped(match: re.Match[str]) -> str:
        text = _SPECIAL.sub(lambda special: f"={ord(special[0]):02X}", match[3])
        return f"=?{match[1]}?Q?{text}?="

    return _WORD.sub(lambda m: escaped(m) if m[2] in "qQ" else m[0], value) if "=?" in value else value


def date_of(fields: Fields) -> tuple[datetime, Field] | None:
    """When the message was sent, by its ``Date``, else by the first ``Received`` that says a time."""
    for field in (*fields.named("date"), *fields.named("received"), *fields.named("delivery-date")):
        text = field.value[:2_000]
        if field.name == "received":
            text = text.rpartition(";")[2]
        found = parse_date(text)
        if found is not None:
            return found, field
    return None


def parse_date(text: str) -> datetime | None:
    """A date of RFC 5322, also its obsolete forms; UTC where it names no zone. None for anything else."""
    try:
        found = parsedate_to_datetime(text.strip())
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        found.astimezone(UTC)  # the first and last days of the calendar have no UTC time in other zones
    except (ValueError, TypeError, IndexError, OverflowError, AttributeError):
        return None
    return found if found.year >= 1900 else None


def message_ids(fields: Iterable[Field]) -> list[str]:
    """The message ids that fields name, without angle brackets, in order and each once."""
    found: dict[str, None] = {}
    for field in fields:
        value = words(field.value[:_MAX_STRUCTURED])
        for match in _ID.finditer(value) if "<" in value else _BARE_ID.finditer(value):
            if len(found) >= _MAX_IDS:
                break
            found[match[match.lastindex or 0]] = None
    return list(found)


def parameters(value: str, default: str) -> tuple[str, dict[str, str]]:
    """What ``Content-Type`` and ``Content-Disposition`` say: the word before the parameters in lower case
    (``default`` where none stands), and the parameters, RFC 2231 and encoded words decoded."""
    head = value.partition(";")[0]
    kind = head.strip().strip('"').partition(" ")[0].lower() or default
    if ";" not in value:
        return kind, {}
    holder = Message()
    found: dict[str, str] = {}
    try:
        holder["content-type"] = value[:_MAX_PARAMETERS]
        pairs: Sequence[tuple[str, object]] = holder.get_params(failobj=[], header="content-type")
        for name, said in pairs[1:]:
            text = collapse_rfc2231_value(said) if isinstance(said, tuple) else str(said)
            found.setdefault(name.strip().lower(), words(text))
    except (ValueError, LookupError, TypeError, UnicodeError, AttributeError):
        for match in re.finditer(
            r';\s*([A-Za-z0-9-]+)\s*=\s*(?:"([^"]*)"|([^;\s]*))', value[:_MAX_PARAMETERS]
        ):
            found.setdefault(match[1].lower(), words(match[2] if match[2] is not None else match[3]))
    return kind, found
