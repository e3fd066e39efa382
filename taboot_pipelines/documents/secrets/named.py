"""Names that announce secrets, and how each leads to its value: by a separator, as a flag or directive, as an
element of XML, as the value of a field, or in a sentence or table.

Names are found by the few words that every such name holds; the text around one is read then.
"""

from __future__ import annotations

import re

from taboot_pipelines.documents.secrets.assignments import Assignment, Name
from taboot_pipelines.documents.secrets.places import Positions
from taboot_pipelines.documents.secrets.scanner import BLOCK_SCALAR, Scanner, find_sibling, names_a_field
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

_PACKAGE = "taboot_pipelines.documents.secrets"

_MAX_NAME = 80
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
#: The word before a name that belongs to it: "Private Key", "API key".
_OWNER = re.compile(
    r"(?i)(?<![A-Za-z])(api|access|private|public|secret|encryption|preshared|auth|account)[ ]\Z"
)
_MAX_OWNER = 14

# What leads from a name to its value ------------------------------------------------------------------------

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
#: Rights that a token has, as "a token with `write:packages`" says them.
_SCOPE = re.compile(r"[A-Za-z]+(?::[A-Za-z*_-]+)+")
_DEFAULT = re.compile(r":?[-+=]([^{}\n]{1,1024})\}")
#: After the name of an element: its attributes, and all that it holds.
_XML_VALUE = re.compile(
    r"(?:\s[^<>]{0,300})?(?<!/)>\s{0,200}(?:<!\[CDATA\[)?([^<>\s][^<>]{0,1000})(?:\]\]>)?\s{0,200}</([\w.:-]{1,120})\s{0,20}>"
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
            and strength(value) is None
        ):
            scan.add(*m.span("value"))


def _is_told(scan: Scanner, value: str, end: int) -> bool:
    """Whether an emphasised word before ``end`` is a value, and no word that the sentence stresses."""
    if value.lower() in COMMON_WORDS or is_kind(value):
        return False
    return is_unwordly(value) or not scan.text[end : scan.line_end(end)].strip(" \t.,;:!?)")
