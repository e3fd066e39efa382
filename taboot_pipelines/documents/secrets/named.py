"""Names that announce a secret, and what the value behind them is, by the notation around it:
``name = value`` and ``name: value``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from taboot_pipelines.documents.mime import MARKDOWN
from taboot_pipelines.documents.secrets.places import Positions
from taboot_pipelines.documents.secrets.scanner import (
    BLOCK_SCALAR,
    Scanner,
    find_sibling,
    indent_at,
    names_a_field,
)
from taboot_pipelines.documents.secrets.values import (
    COMMON_WORDS,
    KEYWORDS,
    TECHNICAL,
    is_kind,
    is_no_secret,
    is_reference,
    is_unwordly,
    is_webhook,
    strength,
)
from taboot_pipelines.packaged import word_list

#: Formats in which a value is the rest of its line.
_KEY_VALUE_LINES = ("text/x-dotenv", "text/x-ini")
#: What stands before a name that begins its line but for a marker or a keyword.
_LINE_MARKERS = frozenset(("", "-", "+", "#", ";", "//", "--", "-e", "- -e", "?", "- ?")) | frozenset(
    ("export", "- export", "set", "declare -x", "ENV", "ARG")
)
#: An anchor or a tag before the value itself.
_ANCHOR_OR_TAG = re.compile(r"&[\w-]{1,60}[ \t]+|!!str[ \t]+|!vault[ \t]+")
_ITEM = re.compile(
    r"[ \t]{0,200}-[ \t]{1,20}"
    r"(?:\"([^\"\n]{1,400})\"|'([^'\n]{1,400})'|([^\s:{\[\"'#&*!|>][^\s:]{0,400}))"
    r"[ \t]{0,40}\r?(?=\n|\Z)"
)
#: A line that begins with a key, as no line of a plain scalar does.
_KEY_LINE = re.compile(r"[ \t]{0,200}[\"']?[\w./-]{1,80}[\"']?[ \t]{0,20}:(?:[ \t]|\r?$)", re.M)
_MAX_SCALAR_LINES = 50
#: The field beside the key of a secret in an ExternalSecret.
_REMOTE = re.compile(r"\r?\n[ \t]{1,200}remoteRef:")
_REMOTE_BEFORE = re.compile(
    r"^([ \t]{0,100})(?:-[ \t])?remoteRef:[ \t]{0,10}\r?\n(?:\1[ \t]{1,20}[^\n]{1,200}\n){1,8}\Z", re.M
)
_MAX_REMOTE = 600
_WORD_BEFORE = re.compile(r"(?<![\w-])([A-Za-z0-9]{2,20})[ ]\Z")
_COOKIE = re.compile(r";?[ \t]{0,4}([\w.-]{1,80})=([^;,\s\"'<>]{1,4096})")
_FLOW_ITEM = re.compile(r"\"([^\"]{1,400})\"|'([^']{1,400})'|([^\s,\[\]\"']{1,400})")
_PACKAGE = "taboot_pipelines.documents.secrets"
_MAX_NAME = 80
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
#: The word before a name that belongs to it: "Private Key", "API key".
_OWNER = re.compile(
    r"(?i)(?<![A-Za-z])(api|access|private|public|secret|encryption|preshared|auth|account)[ ]\Z"
)
_MAX_OWNER = 14
_SEPARATOR = re.compile(
    r"(?P<close>\\?[\"']|[`*]{1,3}|\\?[\"']?\])?"
    r"(?P<gap>[ \t]{0,40})"
    r"(?P<sep>=>|:=|\?=|\+=|=(?!=)|:(?![:/])|[：＝])"
    r"(?P<bold>\*{1,2}(?=[ \t]))?"
    r"(?P<space>[ \t]{0,80})"
)
#: In a sentence: "the password is set to `…`".
_TO_VALUE = re.compile(
    r"[\"'`*)\]]{0,3}[ \t]{1,3}"
    r"(?:(?:is|to|as|be|with|of|was|value|set|defaults|equal|equals)[ \t]{1,3}){1,3}"
    r"(?P<quote>[`\"'])(?P<value>[^`\"'\n]{1,200})(?P=quote)"
)
#: The same, emphasised: "the password is **…**".
_TO_EMPHASISED = re.compile(
    r"[\"'`*)\]]{0,3}[ \t]{1,3}"
    r"(?:(?:is|to|as|be|with|was|set|defaults)[ \t]{1,3}){1,3}"
    r"(?P<mark>\*{1,3}|_{1,3})(?P<value>[^\s*`_][^\s*`]{0,199}?)(?P=mark)(?![\w*])"
)
#: The same, bare: only what is no word of a sentence is one.
_TO_BARE = re.compile(
    r"[\"'`*)\]]{0,3}[ \t]{1,3}"
    r"(?:(?:is|now|to|as|be|was|set)[ \t]{1,3}){1,3}"
    r"(?P<value>[^\s\"'`<>()\[\]]{6,200})"
)
#: In the next cell of a Markdown table.
_TABLE_VALUE = re.compile(
    r"(?:=)?[\"'`*]{0,3}[ \t]{0,80}\|[ \t]{0,80}"
    r"(?P<quote>[`\"']?)(?P<value>[^\s|`\"']{1,200})(?P=quote)"
    r"[ \t]{0,200}\|"
)
#: After a flag or a directive, on the same line or as the next item of a list.
_SPACED = re.compile(r"[\"']?,?[ \t]{1,20}|[\"'],[ \t]{0,20}|[\"']?[ \t]{0,20}\r?\n[ \t]{0,80}-[ \t]{1,4}")
#: What a text names of a secret and is none: the rights of a token ("a token with `write:packages`"), and the
#: variable that holds one ("the password is `DB_ADMIN_PASSWORD`"; POSIX.1-2017, 8.1).
_SCOPE = re.compile(r"[A-Za-z]+(?::[A-Za-z*_-]+)+|[A-Z]+(?:_[A-Z]+)+")
_DEFAULT = re.compile(r":?[-+=]([^{}\n]{1,1024})\}")
#: After the name of an element: its attributes, and all that it holds.
_XML_VALUE = re.compile(
    r"(?:\s[^<>]{0,300})?(?<!/)>\s{0,200}(?:<!\[CDATA\[)?([^<>\s][^<>]{0,1000})(?:\]\]>)?\s{0,200}"
    r"</([\w.:-]{1,120})\s{0,20}>"
)
_XML_PREFIX = re.compile(r"<[\w.-]{1,40}:\Z")
#: The value of a YAML key after `?`, on the next line.
_EXPLICIT_VALUE = re.compile(r"[\"']?[ \t]{0,40}\r?\n[ \t]{0,200}:[ \t]{1,40}")
#: Kubernetes annotations hold the names of Secret objects, not secrets.
_ANNOTATION = re.compile(r"(?:kubernetes|k8s)\.io/\Z")
#: Directives whose argument is the secret.
_WORD_DIRECTIVES = word_list(_PACKAGE, "directives.txt")
#: What stands on a line before the name that a directive or command sets.
_SPACED_PREFIX = re.compile(
    r"(?i)[ \t]*(?:set[ \t]+\$"
    r"|(?:proxy_set_header|grpc_set_header|add_header|more_set_headers|more_set_input_headers"
    r"|fastcgi_param|uwsgi_param|scgi_param|request_header|header_up|env|arg|setenv|set)[ \t]+[\"'+]?"
    r"|(?:machine|login|user|default)[ \t]+\S{1,100}[ \t]+(?:login[ \t]+\S{1,100}[ \t]+)?)"
)
_NO_DIRECTIVES = ("application/yaml", "application/json", "text/x-python", "text/html", "text/xml")
#: What the help of a command calls the values of its flags.
_VALUE_TYPES = frozenset(
    (
        "string",
        "strings",
        "stringarray",
        "str",
        "int",
        "uint",
        "duration",
        "file",
        "path",
        "value",
        "bool",
        "boolean",
    )
)


@dataclass(slots=True)
class Name:
    """A name that announces a secret, at ``[start, end)``. ``text`` has its owner joined to it
    (``API_key``); ``before`` is the character before it; ``strong`` means that any value is a secret."""

    start: int
    end: int
    text: str
    before: str
    strong: bool
    webhook: bool


class Assignment:
    """``name = value``, with what stands around it."""

    def __init__(self, scan: Scanner, name: Name, separator: re.Match[str]) -> None:
        self.scan = scan
        self.name = name
        self.separator = separator
        self.sign = {"：": ":", "＝": "="}.get(separator["sep"], separator["sep"])
        #: Where the line of the name begins, and what stands on it before the name.
        self.line = scan.line_start(name.start)
        self.lead = scan.text[self.line : name.start]
        #: Whether the name begins its line, but for a marker.
        self.leads = self.lead.strip(" \t\"'>|*") in _LINE_MARKERS
        self.code = scan.in_code(name.start)
        #: Where the value begins, and its first character.
        self.at = separator.end()
        while skip := _ANCHOR_OR_TAG.match(scan.text, self.at):
            self.at = skip.end()
        self.mark = scan.text[self.at : self.at + 1]

    def find_value(self) -> None:
        """Add the value if it is a secret."""
        scan, name = self.scan, self.name
        if self.sign == ":" and name.text.lower() in ("cookie", "set-cookie"):
            scan.read_to = self._find_cookies()
            return
        if self._find_collection() or self._has_no_value() or self._is_referred_to():
            return
        quote = self._enclosing_quote()
        if not quote and (value := scan.quoted(self.at)) is not None:
            scan.add_value(*value, name.strong, literal=True, webhook=name.webhook)
            if scan.text[value[1] : value[1] + 1] not in ("'", '"', "`", "\\"):
                self._add_lines_below(value[1])  # it has not closed on its line
            return
        end = self._plain_end(quote)
        if end is None:
            self._find_in_sentence()
        else:
            scan.add_value(self.at, end, name.strong, literal=False, webhook=name.webhook)
            if end == scan.line_end(self.at):
                self._add_continued(end)

    # Values of several parts --------------------------------------------------------------------------------

    def _find_collection(self) -> bool:
        """Add the parts of a YAML block scalar, of a list below its key, or of a list in brackets; False if
        the value is none of these."""
        if self.sign == ":":
            if self.mark in ("|", ">") and (scalar := BLOCK_SCALAR.match(self.scan.text, self.at)):
                self.scan.add_block_scalar(self.line, scalar.end(), self.name.strong)
                return True
            if self.mark in ("", "\n", "\r", "#"):
                if self.name.strong and self.code and self.leads:
                    self._find_items()
                    self._find_below()
                return True
        if self.mark == "[" and self.code:
            # Lists of JSON are read by its structure.
            if self.scan.mime != "application/json" or self.separator["close"] != '"':
                self._find_flow_list()
            return True
        return False

    def _find_items(self) -> None:
        """Add the scalars of a YAML list below a key such as ``api_keys:``."""
        text = self.scan.text
        key = text[self.line : self.at].strip(" \t-:\"'")
        if key in ("secrets", "secret"):  # Compose lists the names of secrets here
            return
        pos = text.find("\n", self.at) + 1
        indent = indent_at(text, self.line)
        while pos and (m := _ITEM.match(text, pos)) and indent_at(text, pos) >= indent:
            self.scan.add_value(*m.span(_group(m)), strong=True, literal=True)
            pos = m.end() + 1

    def _find_below(self) -> None:
        """Add the YAML scalar that begins on the line below its key."""
        scan = self.scan
        text = scan.text
        pos = text.find("\n", self.at) + 1
        if not pos or indent_at(text, pos) <= self._column() or _KEY_LINE.match(text, pos):
            return
        at = pos + indent_at(text, pos)
        if text[at : at + 1] in ("-", "#", "{", "[", "?", "\r", "\n", "<", "&", "*", ""):
            return
        value = scan.quoted(at)
        end = scan.line_end(at)
        scan.add_value(*(value or (at, scan.comment_or_line_end(at))), strong=True, literal=True)
        if value is None or value[1] == end:
            self._add_lines_below(end)

    def _column(self) -> int:
        """How far the key is indented, behind the marks of its item."""
        return len(self.lead.rstrip("\"'")) if self.lead.strip(" \t\"'") in ("", "-", "?", "- ?") else 0

    def _add_lines_below(self, end: int) -> None:
        """Add the further lines of a YAML scalar whose line ends at ``end``: those indented more than its
        key."""
        scan = self.scan
        text = scan.text
        if scan.mime != "application/yaml" or not self.leads or not self.name.strong:
            return
        pos = (text.find("\n", end) + 1) or len(text)
        for _ in range(_MAX_SCALAR_LINES):
            if pos >= len(text) or (indent := indent_at(text, pos)) <= self._column():
                return
            if text[pos + indent] in "-#" or _KEY_LINE.match(text, pos):
                return
            end = scan.line_end(pos)
            scan.add_value(pos + indent, end, strong=True, literal=True)
            pos = (text.find("\n", end) + 1) or len(text)

    def _add_continued(self, end: int) -> None:
        """Add the lines that a value goes on in: after a backslash, in an ini file also those that are
        indented."""
        scan = self.scan
        text = scan.text
        if not self.name.strong or not self.leads:
            return
        if self.sign == ":" and scan.mime == "application/yaml":
            self._add_lines_below(end)
            return
        for _ in range(_MAX_SCALAR_LINES):
            pos = text.find("\n", end) + 1
            indented = scan.mime == "text/x-ini" and not self.lead and text[pos : pos + 1] in (" ", "\t")
            if not pos or not (indented or (text[end - 1] == "\\" and scan.mime in _KEY_VALUE_LINES)):
                return
            begin, end = pos + indent_at(text, pos), scan.line_end(pos)
            scan.add_value(begin, end, strong=True, literal=True)

    def _find_cookies(self) -> int:
        """Add the values of a header of cookies that look like secrets; where the header ends."""
        at = self.at
        while m := _COOKIE.match(self.scan.text, at):
            self.scan.add_value(m.start(2), m.end(2), strong=False, literal=True)
            at = m.end()
            if self.scan.text[at : at + 1] != ";":
                break
        return at

    def _find_flow_list(self) -> None:
        """Add the scalars of a list in brackets that closes on its line."""
        scan = self.scan
        end = scan.text.find("]", self.at, scan.line_end(self.at))
        if end < 0:
            return
        begin = self.at + 1
        for m in _FLOW_ITEM.finditer(scan.text[begin:end]):
            start, stop = m.span(_group(m))
            scan.add_value(begin + start, begin + stop, self.name.strong, literal=True)

    # Values of one part -------------------------------------------------------------------------------------

    def _has_no_value(self) -> bool:
        """Whether it says that the value is empty, or what follows is structure or a placeholder."""
        text, at, mark = self.scan.text, self.at, self.mark
        if (
            "=" in self.sign
            and self.separator["space"]
            and not self.separator["gap"]
            and self.scan.mime not in _KEY_VALUE_LINES
        ):
            return True  # `-e NAME= \` and `NAME= #comment` say that it is empty
        if mark == "<" and text.find(">", at, at + 80) > 0:
            return True
        if mark == "*" and self.sign == ":":
            return text[at + 1 : at + 2] not in (" ", "*")
        return mark in ("{", "(", "!", "\n", "\r", "")

    def _is_referred_to(self) -> bool:
        """Whether the value is the name of a secret, or of a key of one: an ExternalSecret says beside it
        where that is kept (``remoteRef``)."""
        scan, text = self.scan, self.scan.text
        value = scan.quoted(self.at) or (self.at, scan.token_end(self.at, "\"'`;|)]}"))
        if is_reference(self._whole_name(), text[slice(*value)]):
            return True
        return self.sign == ":" and (
            _REMOTE.match(text, scan.line_end(self.at)) is not None
            or _REMOTE_BEFORE.search(text, max(0, self.line - _MAX_REMOTE), self.line) is not None
        )

    def _whole_name(self) -> str:
        """The name with the word before it in a sentence: "Podman secret"."""
        before = _WORD_BEFORE.search(self.lead)
        return self.name.text if before is None else f"{before[1]}_{self.name.text}"

    def _enclosing_quote(self) -> str:
        """The quote that stands before the name and is not closed after it (``"NAME=value"``), or ''."""
        before = self.name.before
        if before in ('"', "'", "`") and not (self.separator["close"] or "").endswith(before):
            return before
        return ""

    def _plain_end(self, quote: str) -> int | None:
        """Where a value without quotes of its own ends; None in running text, where it may be a sentence."""
        scan, at = self.scan, self.at
        if quote:
            end = scan.text.find(quote, at, scan.line_end(at))
            return end if end >= 0 else scan.line_end(at)
        if self.name.before in ("?", "&", ";") or self.lead.endswith("&amp;"):
            return scan.token_end(at, "&\"'<>`)]#,;")
        if self.sign == ":":
            return self._end_after_colon()
        return self._end_after_equals()

    def _end_after_colon(self) -> int | None:
        scan, at = self.scan, self.at
        if not self.code:
            return None
        if not self.leads:
            return scan.token_end(at, ",}]\"'`")
        if scan.mime == "application/json":
            return scan.token_end(at, ",}]")
        return scan.comment_or_line_end(at)

    def _end_after_equals(self) -> int | None:
        scan, at = self.scan, self.at
        gap = bool(self.separator["gap"])
        if not self.code and (gap or self.separator["space"]):
            return None
        if not self.leads:
            return scan.token_end(at, "\"'`;,)<|")
        in_yaml_list = (scan.mime == "application/yaml" and "-" in self.lead) or (
            scan.mime == MARKDOWN and self.lead.strip(" \t\"'") == "-"
        )
        if self.code and (scan.mime in _KEY_VALUE_LINES or in_yaml_list or gap):
            return scan.comment_or_line_end(at)
        return scan.token_end(at, "\"'`;|")

    def _find_in_sentence(self) -> None:
        """Add ``hunter2`` of ``password: hunter2`` in running text if it is the line's last word, or no word
        of a sentence."""
        scan, text = self.scan, self.scan.text
        end = scan.token_end(self.at, "\"'`|<>")
        while end > self.at and text[end - 1] in ".,;:!?)*":
            end -= 1
        if scan.is_nest(self.at, end):
            scan.add(self.at, end)
            return
        value = text[self.at : end]
        if value.lower() in COMMON_WORDS or is_kind(value) or value.startswith("["):
            return
        if TECHNICAL.fullmatch(value):
            return
        rest = text[end : scan.line_end(end)].strip(" \t.,;:!?)*|`\"'")
        if not rest or is_unwordly(value):
            scan.add_value(self.at, end, self.name.strong, literal=False, webhook=self.name.webhook)


def _group(item: re.Match[str]) -> int:
    """Which group of an item holds it: in double quotes, in single quotes, or bare."""
    return 1 if item[1] else 2 if item[2] else 3


# What leads from a name to its value ------------------------------------------------------------------------


def find_named(scan: Scanner, positions: Positions) -> None:
    """Add the secrets of ``scan`` that a name announces. ``positions``: where its keywords stand."""
    text = scan.text
    n = len(text)
    done = 0
    for a, b in sorted(
        (at, at + len(word)) for word in KEYWORDS & positions.keys() for at in positions[word]
    ):
        if a < done:
            continue
        floor = max(done, a - _MAX_NAME)
        while a > floor and text[a - 1] in _NAME_CHARS:
            a -= 1
        ceiling = min(n, b + _MAX_NAME)
        while b < ceiling and text[b] in _NAME_CHARS:
            b += 1
        done = b
        while b > a and text[b - 1] in ".-":  # the end of a sentence
            b -= 1
        name = text[a:b]
        if (owner := _OWNER.search(text, max(0, a - _MAX_OWNER), a)) is not None:
            name = f"{owner[1]}_{name}"
        kind = strength(name)
        if kind is not None:
            known = len(scan.spans)
            before = text[a - 1] if a else ""
            _find_value(scan, Name(a, b, name, before, kind == "strong", is_webhook(name)))
            # What is masked needs no second look.
            done = max(done, scan.read_to, max((end for _, end in scan.spans[known:]), default=done))


def _find_value(scan: Scanner, name: Name) -> None:
    """Add the value that ``name`` leads to, if there is one and it is a secret."""
    text = scan.text
    if name.before == "{" and text[name.start - 2 : name.start - 1] == "$":
        # `${NAME}` is no secret, the default in `${NAME:-default}` is.
        if m := _DEFAULT.match(text, name.end):
            scan.add_value(m.start(1), m.end(1), name.strong, literal=True)
        return
    if name.before == "/" and _ANNOTATION.search(text, max(0, name.start - 16), name.start):
        return
    separator = _SEPARATOR.match(text, name.end)
    if separator is not None:
        Assignment(scan, name, separator).find_value()
    elif (
        name.before == "<"
        or (name.before == ":" and _XML_PREFIX.search(text, max(0, name.start - 44), name.start))
    ) and (m := _XML_VALUE.match(text, name.end)):
        # What another element closes, or none, is a placeholder in angle brackets and no element.
        if m[2].rpartition(":")[2].lower() == text[name.start : name.end].lower():
            scan.add_value(m.start(1), m.end(1), name.strong, literal=True, webhook=name.webhook)
    elif names_a_field(text, name.start):
        find_sibling(scan, name.start, name.end, name.strong, name.webhook)
    elif _explicit(scan, name):
        pass
    elif not _argument(scan, name) and name.strong and scan.prose:
        _described(scan, name)


def _explicit(scan: Scanner, name: Name) -> bool:
    """Add the value of a YAML key after ``?``; False if it is none."""
    line = scan.line_start(name.start)
    if scan.text[line : name.start].strip(" \t-\"'") != "?":
        return False
    value = _EXPLICIT_VALUE.match(scan.text, name.end)
    if value is None:
        return False
    at = value.end()
    if scalar := BLOCK_SCALAR.match(scan.text, at):
        scan.add_block_scalar(line, scalar.end(), name.strong)
    else:
        quoted = scan.quoted(at)
        span = quoted or (at, scan.comment_or_line_end(at))
        scan.add_value(*span, name.strong, literal=quoted is not None, webhook=name.webhook)
    return True


def _argument(scan: Scanner, name: Name) -> bool:
    """Add the value of a flag or directive (``--password …``, ``requirepass …``); False if it is neither."""
    text = scan.text
    prefix = text[scan.line_start(name.start) : name.start]
    flag = name.text.startswith("-")
    takes_argument = (
        flag
        or _is_directive(scan, name, prefix)
        # A property may be parted from its value by blanks.
        or (scan.mime == "text/x-ini" and name.strong and not prefix.strip())
        or (_SPACED_PREFIX.fullmatch(prefix) is not None and scan.in_code(name.start))
    )
    if not takes_argument or (gap := _SPACED.match(text, name.end)) is None:
        return False
    at = gap.end()
    value = scan.quoted(at)
    if value is not None:
        scan.add_value(*value, name.strong or flag, literal=True, webhook=name.webhook)
    elif at < len(text) and text[at] not in "-|<>#(&;\n\r":
        end = scan.token_end(at, "\"'`,;)]}")
        in_sentence = (
            flag
            and scan.prose
            and not scan.in_code(name.start)
            and text[at:end].lower().strip(".") in COMMON_WORDS
        )
        is_type = flag and text[at:end].lower() in _VALUE_TYPES
        if not in_sentence and not is_type:
            scan.add_value(at, end, name.strong, literal=False, webhook=name.webhook)
    return True


def _is_directive(scan: Scanner, name: Name, prefix: str) -> bool:
    return (
        name.text.lower() in _WORD_DIRECTIVES
        and scan.mime not in _NO_DIRECTIVES
        and scan.in_code(name.start)
        and not prefix.strip(" \t\"'")
    )


def _described(scan: Scanner, name: Name) -> None:
    """Add the value that a sentence or the next cell of a table gives."""
    text = scan.text
    if m := _TO_VALUE.match(text, name.end):
        if is_reference(name.text, m["value"]) or _SCOPE.fullmatch(m["value"]):
            return
        scan.add_value(m.start("value"), m.end("value"), strong=True, literal=True)
    elif m := _TO_EMPHASISED.match(text, name.end):
        if _is_told(scan, m["value"], m.end()):
            scan.add_value(m.start("value"), m.end("value"), strong=True, literal=True)
    elif (m := _TO_BARE.match(text, name.end)) and is_unwordly(value := m["value"].rstrip(".,;:!?*_")):
        if not TECHNICAL.fullmatch(value):
            scan.add_value(m.start("value"), m.start("value") + len(value), strong=True, literal=False)
    elif m := _TABLE_VALUE.match(text, name.end):
        value = m["value"]
        if (
            (m["quote"] or is_unwordly(value))
            and not is_no_secret(value, literal=True)
            and not is_kind(value)
            and not _SCOPE.fullmatch(value)
            and strength(value) is None
        ):
            scan.add(*m.span("value"))


def _is_told(scan: Scanner, value: str, end: int) -> bool:
    """Whether an emphasised word before ``end`` is a value, and no word that the sentence stresses."""
    if value.lower() in COMMON_WORDS or is_kind(value):
        return False
    return is_unwordly(value) or not scan.text[end : scan.line_end(end)].strip(" \t.,;:!?)")
