"""The secrets of a JSON text by its structure: what stands below a name that announces one, however deep and
in however many lines, and spans of secrets kept to strings and numbers, so that JSON stays JSON.

What is read are the tokens, not the grammar, so HuJSON, a value for each line and JSON that breaks off are
read as well. Nothing recurses, and each text is passed over once for each of the two tasks.

What a UniFi controller calls its secrets by, whose names alone give away only some.

A controller marks what it must not show by names that begin with ``x_`` (``x_iapp_key``, ``x_vwirekey``);
what lets a guest in or a VPN up stands under names of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from taboot_pipelines.documents.secrets.scanner import NAME_FIELD, VALUE_FIELD, Scanner
from taboot_pipelines.documents.secrets.values import Span, is_webhook, merged, strength

_PRIVATE = re.compile(r"x_[a-z0-9_]{1,80}")
_NAMED = frozenset(
    (
        "syslog_key",
        "voucher_code",
        "mgmt_key",
        "lte_sim_pin",
        "sso_app_sec",
        "openvpn_configuration",
        "wireguard_client_configuration_file",
    )
)
#: Members by which a text is one of a controller: any name that begins with ``x_`` counts there.
_OF_A_CONTROLLER = ('"site_id"', '"_id"', '"inform_url"', '"networkgroup"', '"cfgversion"')
#: Elsewhere such a name must hold one of these.
_SECRET_WORDS = re.compile(r"key|pass|psk|secret|token|auth|wep|crt|cert|private|shared|fingerprint")
#: Members that are secrets in the company of others: names of these, or what stands in them.
_COMPANY = {
    "code": re.compile(
        r"(?:admin_name|for_hotspot|qos_overwrite|status_expires|authorizedGuestLimit|timeLimitMinutes"
        r"|(?:VALID|USED)_(?:ONE|MULTI|MULTIPLE))\Z"
    ),
    "community": re.compile(r"snmp|(?:username|enabledV3)\Z"),
}
#: Already masked, or nothing.
_EMPTY = re.compile(r"[*\s]*+(?:[A-Z]*[*]+)?")


class Controller:
    """Judges the names of one JSON text."""

    def __init__(self, text: str) -> None:
        self._of_a_controller = '"x_' in text and any(mark in text for mark in _OF_A_CONTROLLER)
        self._company = {name: mark for name, mark in _COMPANY.items() if f'"{name}"' in text}

    def hides(self, name: str) -> bool:
        """Whether all below this name is a secret."""
        if name.startswith("x_"):
            known = self._of_a_controller or _SECRET_WORDS.search(name) is not None
            return known and _PRIVATE.fullmatch(name) is not None
        return name in _NAMED

    def needs_company(self, name: str) -> bool:
        """Whether a member of this name is a secret if :meth:`company` of its object says so."""
        return name in self._company

    def company(self, said: str) -> frozenset[str]:
        """The names of members that a name or a text in the same object makes secrets of."""
        if not self._company:
            return frozenset()
        return frozenset(name for name, mark in self._company.items() if mark.match(said))

    @staticmethod
    def is_empty(value: str) -> bool:
        """Whether a value is masked already, or nothing."""
        return _EMPTY.fullmatch(value) is not None


#: A string (to the line's end where it does not close), a comment, a sign, or a word such as a number.
_TOKEN = re.compile(
    r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
    r"|//[^\n]*+|/\*(?:[^*]|\*(?!/)|)*+(?:\*/)?"
    r"|[{}\[\]:,]"
    r'|[^\s{}\[\]:,"/]++|/'
)
_NUMBER = re.compile(r"-?[0-9]++(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = ("true", "false", "null")
#: Of a name of any length the end says what it names.
_MAX_NAME = 100
#: A shorter number counts something.
_MIN_DIGITS = 4
#: The longest escape, ``\u0041``, without its backslash.
_MAX_ESCAPE = 5
_AN_ID = re.compile(r"(?:\A|[^A-Za-z])[iI][dD]s?\Z|[a-z]I[dD]s?\Z")
_NAMES_A_FIELD = re.compile(rf"(?i)(?:{NAME_FIELD})\Z")
_HOLDS_A_VALUE = re.compile(rf"(?i)(?:{VALUE_FIELD})\Z")


def in_json(mime: str) -> bool:
    """Whether a text of this type is read as JSON."""
    return mime == "application/json" or mime.endswith("+json")


@dataclass(slots=True)
class _Holder:
    """An object or a list that is open. ``announced``: the name that all in it belongs to, or empty;
    ``private``: that all in it is a secret whatever it looks like. Of an object, ``named``: how surely it
    names a secret in one of its values; ``values``, ``codes`` and ``company``: members that are judged when
    all of them are known."""

    is_object: bool
    announced: str = ""
    private: bool = False
    named: str = ""
    values: list[Span] | None = None
    codes: list[tuple[str, Span]] | None = None
    company: frozenset[str] = frozenset()


def find_in_json(scan: Scanner) -> None:
    """Add the secrets below names that announce them, and those of a UniFi controller."""
    if in_json(scan.mime):
        _Walk(scan)()


class _Walk:
    """One pass over the tokens of a text."""

    def __init__(self, scan: Scanner) -> None:
        self._scan = scan
        self._text = scan.text
        self._controller = Controller(scan.text)
        self._stack = [_Holder(is_object=True)]

    def __call__(self) -> None:
        text = self._text
        stack = self._stack
        #: A string that may turn out to be a name, and the name whose value comes next.
        unclear: Span | None = None
        name: str | None = None
        for token in _TOKEN.finditer(text):
            start, end = token.span()
            mark = text[start]
            if mark == '"':
                if name is None and stack[-1].is_object:
                    unclear = start, end
                else:
                    self._string(name, start, end)
                    name = None
            elif mark == ":":
                if unclear is not None:
                    name, unclear = _content(text, *unclear), None
                    stack[-1].company |= self._controller.company(name)
            elif mark in "{[":
                stack.append(self._opened(name, mark == "{"))
                name = unclear = None
            elif mark in "}]":
                self._close()
                name = unclear = None
            elif mark == ",":
                name = unclear = None
            elif mark != "/":
                if _NUMBER.fullmatch(text, start, end):
                    self._number(name, start, end)
                name = None
        while len(stack) > 1:
            self._close()

    def _opened(self, name: str | None, is_object: bool) -> _Holder:
        """What begins as the value of ``name``, or as an item of the list that is open."""
        outer = self._stack[-1]
        if name is None:
            return _Holder(is_object, outer.announced, outer.private)
        private = outer.private or self._controller.hides(name)
        if strength(name) is not None:
            return _Holder(is_object, name, private)
        within = outer.announced and strength(f"{outer.announced}_{name}") is not None
        return _Holder(is_object, outer.announced if within else "", private)

    def _close(self) -> None:
        """Judge what an object's members say of each other."""
        if len(self._stack) == 1:
            return
        closed = self._stack.pop()
        for start, end in (closed.values or ()) if closed.named else ():
            self._scan.add_value(start, end, closed.named == "strong", literal=True)
        for company, span in closed.codes or ():
            if company in closed.company:
                self._scan.add(*span)

    def _kind(self, name: str | None) -> str | None:
        """How surely the value of ``name``, or an item of the list that is open, is a secret."""
        announced = self._stack[-1].announced
        if name is None:
            return strength(announced) if announced else None
        # What has the id of something beside its secret says what the secret is for.
        joined = announced and not _AN_ID.search(name)
        return strength(f"{announced}_{name}" if joined else name)

    def _string(self, name: str | None, start: int, end: int) -> None:
        text, holder = self._text, self._stack[-1]
        inner = start + 1, end - 1 if end - start > 1 and text[end - 1] == '"' else end
        if name is not None:
            self._member(name, inner)
        if holder.private or (name is not None and self._controller.hides(name)):
            if not self._controller.is_empty(text[inner[0] : inner[1]]):
                self._scan.add(*inner)
            return
        kind = self._kind(name)
        if kind is not None:
            webhook = is_webhook(name or holder.announced)
            self._scan.add_value(*inner, kind == "strong", literal=True, webhook=webhook)

    def _member(self, name: str, value: Span) -> None:
        """Note what a member says of the others of its object."""
        holder = self._stack[-1]
        if _NAMES_A_FIELD.match(name):
            field_name = self._text[value[0] : min(value[1], value[0] + _MAX_NAME)]
            holder.named = strength(field_name) or holder.named
        elif _HOLDS_A_VALUE.match(name):
            holder.values = holder.values or []
            holder.values.append(value)
        holder.company |= self._controller.company(self._text[value[0] : min(value[1], value[0] + _MAX_NAME)])
        self._code(name, value)

    def _code(self, name: str, value: Span) -> None:
        if self._controller.needs_company(name):
            holder = self._stack[-1]
            holder.codes = holder.codes or []
            holder.codes.append((name, value))

    def _number(self, name: str | None, start: int, end: int) -> None:
        if end - start < _MIN_DIGITS:
            return
        holder = self._stack[-1]
        if name is not None:
            self._code(name, (start, end))
        hidden = holder.private or (name is not None and self._controller.hides(name))
        if hidden or self._kind(name) == "strong":
            self._scan.add(start, end)


def _content(text: str, start: int, end: int) -> str:
    """A name without its quotes and escapes; of a long one the end."""
    name = text[max(start + 1, end - 1 - _MAX_NAME) : end].removesuffix('"')
    if "\\" not in name:
        return name
    try:
        return str(json.loads(f'"{name}"'))
    except ValueError:
        return name


def fitted(text: str, spans: Sequence[Span]) -> list[Span]:
    """Ascending, disjoint spans without quotes, signs and blanks of the JSON around its values: of a string
    they have whole escapes, a number is taken whole, and ``true``, ``false``, ``null`` and single digits are
    none."""
    return merged(_fitted(text, spans))


def _fitted(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    for start, end, held in _tokens_at(text, spans):
        mark = text[start]
        if mark in "{}[]:,":
            continue
        if mark == '"':
            floor, ceiling = start + 1, end - 1 if end - start > 1 and text[end - 1] == '"' else end
            for a, b in held:
                first = _escape_around(text, floor, max(a, floor))[0]
                last = _escape_around(text, floor, min(b, ceiling))[1]
                if first < last:
                    yield first, min(last, ceiling)
        elif _NUMBER.fullmatch(text, start, end):
            if end - start > 1:
                yield start, end
        elif text[start:end] not in _WORDS:
            yield from ((max(a, start), min(b, end)) for a, b in held)


def _tokens_at(text: str, spans: Sequence[Span]) -> Iterator[tuple[int, int, list[Span]]]:
    """The tokens that spans touch, each with these spans."""
    at = 0
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        if at == len(spans):
            return
        if spans[at][0] >= end:
            continue
        stop = at
        while stop < len(spans) and spans[stop][0] < end:
            stop += 1
        yield start, end, list(spans[at:stop])


def _escape_around(text: str, floor: int, at: int) -> Span:
    """Where the escape begins and ends that ``at`` stands in the middle of; else ``at`` and ``at``."""
    for begin in range(max(floor, at - _MAX_ESCAPE), at):
        if text[begin] != "\\":
            continue
        run = begin
        while run > floor and text[run - 1] == "\\":
            run -= 1
        if (begin - run) % 2:
            continue  # the second half of an escaped backslash
        end = begin + (6 if text[begin + 1 : begin + 2] == "u" else 2)
        if end > at:
            return begin, end
    return at, at


def numbers(text: str, spans: Iterable[Span]) -> frozenset[Span]:
    """Those of fitted spans that are numbers of the JSON, which no asterisk can stand for."""
    maybe = [span for span in spans if _NUMBER.fullmatch(text, *span)]
    return (
        frozenset((a, b) for a, b, _ in _tokens_at(text, maybe) if (a, b) in maybe) if maybe else frozenset()
    )
