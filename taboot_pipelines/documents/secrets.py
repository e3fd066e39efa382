"""Secret values stop here (DESIGN rule 18): they are replaced by as many asterisks, so that every offset
holds.

Three ways lead to a secret: a name that announces it (``POSTGRES_PASSWORD=…``, in any of the usual
notations), a shape that only credentials have (``ghp_…``, a private key), and the place in a URL or header
where credentials stand. Each search is linear: every pattern has bounded repetition, and what is looked for
ahead is looked for once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from taboot_pipelines.documents.mime import HTML, MARKDOWN, PLAIN
from taboot_pipelines.documents.secret_names import (
    KEYWORDS,
    is_kind,
    is_no_secret,
    is_webhook,
    looks_secret,
    strength,
)
from taboot_pipelines.documents.secret_shapes import DEFAULTED, Span, shaped

#: Part of the parser's fingerprint: raise it when the same text would be masked otherwise.
MASK_VERSION = "2"

_OWNER = re.compile(
    r"(?i)(?<![A-Za-z])(api|access|private|public|secret|encryption|preshared|auth|account)[ ]\Z"
)
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_MAX_NAME = 80
_MAX_LINE = 4096
_MAX_TOKEN = 1024

# Names and what follows them --------------------------------------------------------------------------------

_SEPARATOR = re.compile(
    r"(?P<close>\\?[\"']|[`*]{1,3}|\\?[\"']?\])?(?P<gap>"
    r"[ \t]{0,40})(?P<sep>=>|:=|\?=|\+=|=(?!=)|:(?![:/]))(?P<bold>\*{1,2}(?=[ \t]))?(?P<space>[ \t]{0,80})"
)
_TO_VALUE = re.compile(
    r"[\"'`*)\]]{0,3}[ \t]{1,3}(?:(?:is|to|as|be|with|of|was|value|set|defaults|equal|equals)"
    r"[ \t]{1,3}){1,3}(?P<quote>[`\"'])(?P<value>[^`\"'\n]{1,200})(?P=quote)"
)
_TABLE_VALUE = re.compile(
    r"(?:=)?[\"'`*]{0,3}[ \t]{0,80}\|[ \t]{0,80}(?P<quote>[`\"']?)(?P<value>[^\s|`\"']{1,200})(?P=quote)"
    r"[ \t]{0,200}\|"
)
_SPACED = re.compile(r"[\"']?,?[ \t]{1,20}|[\"'],[ \t]{0,20}|[\"']?[ \t]{0,20}\r?\n[ \t]{0,80}-[ \t]{1,4}")
_WORD_DIRECTIVES = frozenset(
    (
        "requirepass",
        "masterauth",
        "password",
        "passwd",
        "psk",
        "secure_link_secret",
        "auth-pass",
        "auth_pass",
        "authkey",
    )
)
_SPACED_PREFIX = re.compile(
    r"(?i)[ \t]*(?:set[ \t]+\$"
    r"|(?:proxy_set_header|grpc_set_header|add_header|more_set_headers|more_set_input_headers|fastcgi_param"
    r"|uwsgi_param|scgi_param|request_header|header_up|env|arg|setenv|set)[ \t]+[\"'+]?"
    r"|(?:machine|login|user|default)[ \t]+\S{1,100}[ \t]+(?:login[ \t]+\S{1,100}[ \t]+)?)"
)
_DQ = re.compile(r'"((?:[^"\\\n]|\\.){0,4096})"')
_SQ = re.compile(r"'((?:[^'\n]|''){0,4096})'")
_BQ = re.compile(r"`([^`\n]{0,1024})`")
_ESCAPED_DQ = re.compile(r'\\"([^"\\\n]{0,2048})\\"')
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]{0,2}[ \t]{0,40}(?:#[^\n]{0,400})?\r?(?=\n|\Z)")
_DEFAULT = re.compile(r":?[-+=]([^{}\n]{1,1024})\}")
_SCHEME = re.compile(r"(?i)(?:basic|bearer|token|digest|apikey|negotiate|bot)[ \t]+")
_ITEM = re.compile(
    r"[ \t]{0,200}-[ \t]{1,20}(?:\"([^\"\n]{1,400})\"|'([^'\n]{1,400})'|([^\s:{\[\"'#&*!|>][^\s:]{0,400}))"
    r"[ \t]{0,40}\r?(?=\n|\Z)"
)
_FENCE_LINE = re.compile(r"^[ \t>]{0,12}(?:[-*+][ \t]+)?(`{3,}|~{3,})", re.M)
_NAMED_VALUE = re.compile(
    r"(?:\"name\"[ \t]*:[ \t]*\"|(?<![\w\"])name[ \t]*:[ \t]*[\"']?)([A-Za-z_][\w.-]{0,80})[\"']?[ \t]*,?"
    r"[ \t]*\r?\n?[ \t]{0,80}\"?value\"?[ \t]*:[ \t]*"
)
_SECRET_KIND = re.compile(r"^([ \t]{0,40})\"?kind\"?[ \t]*:[ \t]*\"?Secret\"?[ \t]*,?\r?$", re.M)
_DATA_MAP = re.compile(r"^([ \t]{0,40})(?:data|stringData)[ \t]*:[ \t]*\r?\n", re.M)
_DATA_ENTRY = re.compile(r"([ \t]{1,80})([\"']?[\w./-]{1,200}[\"']?)[ \t]*:[ \t]*")
_COMMENT = re.compile(r"[ \t]+#")
_XML_VALUE = re.compile(r">([^<>\n]{1,1000})</")
_COMMON = frozenset(
    [
        "the",
        "a",
        "an",
        "your",
        "my",
        "our",
        "this",
        "that",
        "it",
        "of",
        "for",
        "to",
        "in",
        "is",
        "are",
        "see",
        "use",
        "and",
        "or",
        "not",
        "be",
        "as",
        "see:",
        "if",
        "when",
        "with",
        "must",
        "should",
        "can",
        "will",
        "at",
        "from",
        "on",
        "set",
        "get",
    ]
)

_PROSE = (MARKDOWN, PLAIN, HTML, "text/x-rst", "text/asciidoc")
_NO_DIRECTIVES = ("application/yaml", "application/json", "text/x-python", "text/html", "text/xml")
_KEY_VALUE_LINES = ("text/x-dotenv", "text/x-ini")


@lru_cache(maxsize=32)
def _token(stops: str) -> re.Pattern[str]:
    return re.compile(rf"(?:\$\{{[^}}\n]{{0,400}}\}}|[^\s{re.escape(stops)}]){{0,{_MAX_TOKEN}}}+")


def _ascii_lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


class _Finder:
    def __init__(self, text: str, mime: str) -> None:
        self.text = text
        self.prose = mime in _PROSE
        self.mime = mime
        self.spans: list[Span] = []
        lower = text.lower()
        # A few letters grow when lowered (İ): positions must hold.
        self.lower = lower if len(lower) == len(text) else _ascii_lower(text)
        self.fences = self._fences() if mime == MARKDOWN else []
        self._fence = 0

    def _fences(self) -> list[Span]:
        """The fenced code of a Markdown text."""
        found: list[Span] = []
        opened: tuple[int, str] | None = None
        for m in _FENCE_LINE.finditer(self.text):
            if opened is None:
                opened = m.end(), m[1]
            elif m[1].startswith(opened[1]):
                found.append((opened[0], m.start()))
                opened = None
        if opened is not None:
            found.append((opened[0], len(self.text)))
        return found

    def in_code(self, at: int) -> bool:
        """Whether ``at`` stands in configuration or code. Positions must be asked for in ascending order."""
        if not self.prose:
            return True
        while self._fence < len(self.fences) and self.fences[self._fence][1] < at:
            self._fence += 1
        return self._fence < len(self.fences) and self.fences[self._fence][0] <= at

    def add(self, start: int, end: int) -> None:
        if start < end:
            self.spans.append((start, end))

    def add_value(self, start: int, end: int, strong: bool, literal: bool, webhook: bool = False) -> None:
        """Mask ``[start, end)`` if it is a secret; of ``${VAR:-default}`` only the default."""
        value = self.text[start:end]
        stripped = value.lstrip()
        start += len(value) - len(stripped)
        value = stripped.rstrip()
        end = start + len(value)
        if (scheme := _SCHEME.match(value)) and scheme.end() < len(value):
            start += scheme.end()
            value = value[scheme.end() :]
        if m := DEFAULTED.match(value):
            stop = value.find("}", m.end())
            stop = stop if stop >= 0 else len(value)
            if not is_no_secret(value[m.end() : stop], True) and (
                strong or looks_secret(value[m.end() : stop])
            ):
                self.add(start + m.end(), start + stop)
            return
        if webhook and (url := re.match(r"[a-z]{2,10}://[^/\s]{1,255}/", value)):
            self.add(start + url.end(), end)
            return
        if is_no_secret(value, literal) or not (strong or looks_secret(value)):
            return
        self.add(start, end)

    # Names --------------------------------------------------------------------------------------------------

    def _keywords(self) -> list[Span]:
        """Where a secret's name may be, in order."""
        found: list[Span] = []
        for word in KEYWORDS:
            at = self.lower.find(word)
            while at >= 0:
                found.append((at, at + len(word)))
                at = self.lower.find(word, at + len(word))
        found.sort()
        return found

    def names(self) -> None:
        text = self.text
        n = len(text)
        done = 0
        for a, b in self._keywords():
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
            if (lead := _OWNER.search(text, max(0, a - 14), a)) is not None:  # "Private Key", "API key"
                name = f"{lead[1]}_{name}"
            kind = strength(name)
            if kind is not None:
                known = len(self.spans)
                self._named(a, b, name, kind == "strong")
                # What is masked needs no second look.
                done = max(done, max((e for _, e in self.spans[known:]), default=done))

    def _named(self, a: int, b: int, name: str, strong: bool) -> None:
        text = self.text
        before = text[a - 1] if a else ""
        if (
            before == "{" and text[a - 2 : a - 1] == "$"
        ):  # `${NAME}` is no secret, the default in `${NAME:-default}` is
            if m := _DEFAULT.match(text, b):
                self.add_value(m.start(1), m.end(1), strong, True)
            return
        separator = _SEPARATOR.match(text, b)
        webhook = is_webhook(name)
        if separator is not None:
            self._assigned(a, separator, before, strong, webhook)
            return
        if before == "<" and (m := _XML_VALUE.match(text, b)):
            self.add_value(m.start(1), m.end(1), strong, True, webhook)
            return
        begin = self._line_start(a)
        prefix = text[begin:a]
        flag = name.startswith("-")
        directive = (
            name.lower() in _WORD_DIRECTIVES
            and self.mime not in _NO_DIRECTIVES
            and self.in_code(a)
            and not prefix.strip(" \t\"'")
        )
        lead = _SPACED_PREFIX.fullmatch(prefix)
        if (flag or directive or (lead and self.in_code(a))) and (gap := _SPACED.match(text, b)):
            at = gap.end()
            value = self._quoted(at)
            if value is not None:
                self.add_value(*value, strong or flag, True, webhook)
            elif at < len(text) and text[at] not in "-|<>#(&;\n\r":
                end = self._token_end(at, "\"'`,;)]}")
                if not (
                    flag and self.prose and not self.in_code(a) and text[at:end].lower().strip(".") in _COMMON
                ):
                    self.add_value(at, end, strong, False, webhook)
            return
        if not strong or not self.prose:
            return
        if m := _TO_VALUE.match(text, b):
            self.add_value(m.start("value"), m.end("value"), True, True)
        elif m := _TABLE_VALUE.match(text, b):
            quoted = bool(m["quote"])
            if (
                (quoted or _unwordly(m["value"]))
                and not is_no_secret(m["value"], True)
                and not is_kind(m["value"])
                and strength(m["value"]) is None
            ):
                self.add(*m.span("value"))

    def _line_start(self, at: int) -> int:
        """The start of the line, or of its last 400 characters: lines may be megabytes long."""
        floor = max(0, at - 400)
        return max(self.text.rfind("\n", floor, at) + 1, floor)

    def _line_end(self, at: int) -> int:
        ceiling = min(len(self.text), at + _MAX_LINE)
        end = self.text.find("\n", at, ceiling)
        end = end if end >= 0 else ceiling
        return end - 1 if end > at and self.text[end - 1] == "\r" else end

    def _token_end(self, at: int, stops: str) -> int:
        """The end of the run of visible characters at ``at`` without any of ``stops``; a ``${…}`` is taken
        whole.
        """
        found = _token(stops).match(self.text, at)
        return found.end() if found else at

    def _quoted(self, at: int) -> Span | None:
        """The inside of the quoted string that begins at ``at``; up to the line's end if it never closes."""
        text = self.text
        mark = text[at : at + 1]
        pattern = {'"': _DQ, "'": _SQ, "`": _BQ}.get(mark)
        if pattern is None:
            if mark == "\\" and (m := _ESCAPED_DQ.match(text, at)):
                return m.span(1)
            return None
        if m := pattern.match(text, at):
            return m.span(1)
        return at + 1, self._line_end(at)

    def _assigned(self, a: int, separator: re.Match[str], before: str, strong: bool, webhook: bool) -> None:
        text = self.text
        at = separator.end()
        sep = separator["sep"]
        begin = self._line_start(a)
        lead = text[begin:a]
        item = lead.strip(" \t\"'>|*") in (
            "",
            "-",
            "+",
            "export",
            "- export",
            "set",
            "declare -x",
            "-e",
            "- -e",
            "ENV",
            "ARG",
            "#",
            ";",
            "//",
            "--",
        )
        code = self.in_code(a)
        # An anchor or a tag stands before the value itself.
        while skip := re.compile(r"&[\w-]{1,60}[ \t]+|!!str[ \t]+|!vault[ \t]+").match(text, at):
            at = skip.end()
        mark = text[at : at + 1]
        if sep == ":" and mark in ("|", ">") and (scalar := _BLOCK_SCALAR.match(text, at)):
            self._block_scalar(begin, scalar.end(), strong)
            return
        if sep == ":" and mark in ("", "\n", "\r", "#"):
            if strong and code and item:
                self._items(at, begin)
            return
        if mark == "[" and code:
            self._flow_list(at, strong)
            return
        if "=" in sep and separator["space"] and not separator["gap"] and self.mime not in _KEY_VALUE_LINES:
            return  # `-e NAME= \` and `NAME= #comment` say that it is empty
        if mark == "<" and text.find(">", at, at + 80) > 0:
            return
        if mark in ("{", "(", "!", "\n", "\r", "") or (
            mark == "*" and sep == ":" and text[at + 1 : at + 2] not in (" ", "*")
        ):
            return
        enclosing = (
            before if before in ('"', "'", "`") and not (separator["close"] or "").endswith(before) else ""
        )
        if not enclosing and (value := self._quoted(at)) is not None:
            self.add_value(*value, strong, True, webhook)
            return
        if enclosing:
            end = text.find(enclosing, at, self._line_end(at))
            end = end if end >= 0 else self._line_end(at)
        elif before in ("?", "&", ";") or lead.endswith("&amp;"):
            end = self._token_end(at, "&\"'<>`)]#,;")
        elif sep == ":" and code and not item:
            end = self._token_end(at, ",}]\"'`")
        elif sep == ":" and code:
            if self.mime == "application/json":
                end = self._token_end(at, ",}]")
            else:
                end = self._line_end(at)
                if comment := _COMMENT.search(text, at, end):
                    end = comment.start()
        elif sep == ":":
            self._prose_value(at, strong, webhook)
            return
        else:
            spaced = bool(separator["gap"]) or bool(separator["space"])
            whole_line = (
                item
                and code
                and (
                    self.mime in _KEY_VALUE_LINES
                    or (self.mime == "application/yaml" and "-" in lead)
                    or (spaced and bool(separator["gap"]))
                )
            )
            if spaced and not code:
                self._prose_value(at, strong, webhook)
                return
            if whole_line:
                end = self._line_end(at)
                if comment := _COMMENT.search(text, at, end):
                    end = comment.start()
            else:
                end = self._token_end(at, "\"'`;,)<|" if not item else "\"'`;|")
        self.add_value(at, end, strong, False, webhook)

    def _prose_value(self, at: int, strong: bool, webhook: bool) -> None:
        """``password: hunter2`` in running text: a single word at the line's end, or one that no sentence
        holds.
        """
        text = self.text
        end = self._token_end(at, "\"'`|<>")
        while end > at and text[end - 1] in ".,;:!?)*":
            end -= 1
        value = text[at:end]
        rest = text[end : self._line_end(end)].strip(" \t.,;:!?)*|`\"'")
        if value.lower() in _COMMON or is_kind(value) or value.startswith("["):
            return
        if not rest or _unwordly(value):
            self.add_value(at, end, strong, False, webhook)

    def _block_scalar(self, key_line: int, at: int, strong: bool) -> None:
        """The lines of a YAML block scalar: those indented more than the line of its key."""
        text = self.text
        indent = _indent(text, key_line)
        pos = at + 1
        while pos < len(text):
            end = text.find("\n", pos)
            end = end if end >= 0 else len(text)
            own = _indent(text, pos)
            content = text[pos + own : end].rstrip("\r \t")
            if content:
                if own <= indent:
                    return
                self.add_value(pos + own, pos + own + len(content), strong, True)
            pos = end + 1

    def _items(self, at: int, key_line: int) -> None:
        """A YAML list of scalars below a key such as ``api_keys:``."""
        text = self.text
        key = text[key_line:at].strip(" \t-:\"'")
        if key in ("secrets", "secret"):  # Compose lists the names of secrets here
            return
        pos = text.find("\n", at) + 1
        indent = _indent(text, key_line)
        while pos and (m := _ITEM.match(text, pos)) and _indent(text, pos) >= indent:
            group = 1 if m[1] else 2 if m[2] else 3
            self.add_value(*m.span(group), True, True)
            pos = m.end() + 1

    def _flow_list(self, at: int, strong: bool) -> None:
        text = self.text
        end = text.find("]", at, self._line_end(at))
        if end < 0:
            return
        for m in re.finditer(
            r"\"([^\"]{1,400})\"|'([^']{1,400})'|([^\s,\[\]\"']{1,400})", text[at + 1 : end]
        ):
            group = 1 if m[1] else 2 if m[2] else 3
            self.add_value(at + 1 + m.start(group), at + 1 + m.end(group), strong, True)

    # Kubernetes ---------------------------------------------------------------------------------------------

    def manifests(self) -> None:
        """``env`` entries of the form name and value, and the data of Secret objects."""
        text = self.text
        for m in _NAMED_VALUE.finditer(text) if "value:" in text or '"value"' in text else ():
            kind = strength(m[1])
            if kind is None:
                continue
            value = self._quoted(m.end())
            end = self._line_end(m.end())
            if value is None and (comment := _COMMENT.search(text, m.end(), end)):
                end = comment.start()
            self.add_value(*(value or (m.end(), end)), kind == "strong", value is not None)
        ceiling = 0
        for kind_line in _SECRET_KIND.finditer(text):
            if kind_line.start() < ceiling:
                continue
            # The object reaches from one document mark to the next.
            floor = max(
                text.rfind("\n---", max(ceiling, kind_line.start() - 20000), kind_line.start()), ceiling
            )
            ceiling = text.find("\n---", kind_line.end(), kind_line.end() + 65536)
            ceiling = ceiling if ceiling >= 0 else min(len(text), kind_line.end() + 65536)
            for data in _DATA_MAP.finditer(text, floor, ceiling):
                pos = data.end()
                while (entry := _DATA_ENTRY.match(text, pos)) and len(entry[1]) > len(data[1]):
                    end = self._line_end(entry.end())
                    if scalar := _BLOCK_SCALAR.match(text, entry.end()):
                        self._block_scalar(pos, scalar.end(), True)
                        pos = scalar.end() + 1
                        while pos < ceiling and _indent(text, pos) > len(entry[1]):
                            pos = (text.find("\n", pos) + 1) or len(text)
                        continue
                    value = self._quoted(entry.end())
                    self.add_value(*(value or (entry.end(), end)), True, True)
                    pos = (text.find("\n", end) + 1) or len(text)


def _indent(text: str, at: int) -> int:
    end = at
    while end < len(text) and text[end] in " \t" and end - at < 400:
        end += 1
    return end - at


def _unwordly(value: str) -> bool:
    """Whether no sentence holds it: digits and letters mixed, or signs within."""
    return (len(value) >= 4 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)) or bool(
        re.search(r"\w[!@#$%^&+=~]+\w", value)
    )


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def find_secrets(text: str, mime: str) -> list[Span]:
    """Spans of secret values in code points, ascending and disjoint. In HTML also across its tags and in
    attributes.
    """
    finder = _Finder(text, mime)
    finder.spans = shaped(text, finder.lower)
    finder.names()
    finder.manifests()
    spans = finder.spans
    if mime == HTML:
        spans = spans + list(_through_markup(text)) + list(_as_document(text))
    return _merged(spans)


def _through_markup(source: str) -> Iterator[Span]:
    """Secrets in the text that a page shows, mapped back: highlighted code has tags between a key and its
    value.
    """
    from taboot_pipelines.documents.html_tree import BLOCK, RAW, Text, parse, pieces

    parts: list[str] = []
    starts: list[int] = []  # the position of each piece in the shown text
    sources: list[Span] = []
    at = 0

    def put(text: str, start: int, end: int) -> None:
        nonlocal at
        parts.append(text)
        starts.append(at)
        sources.append((start, end))
        at += len(text)

    stack: list[object] = [parse(source)]
    while stack:
        node = stack.pop()
        if isinstance(node, Text):
            for piece in pieces(source, node.start, node.end):
                put(*piece)
        elif isinstance(node, str):
            put(node, -1, -1)
        elif (tag := getattr(node, "tag", "")) not in RAW:
            around = (
                "\n" if tag in BLOCK or tag == "br" else "`" if tag in ("code", "kbd", "samp", "tt") else ""
            )
            stack.extend([around, *reversed(getattr(node, "children", [])), around])
    shown = "".join(parts)
    i = 0
    # As a configuration, then as prose: the page does not say which it is.
    for start, end in _merged(find_secrets(shown, PLAIN) + _code_secrets(source, shown, starts, sources)):
        while i + 1 < len(starts) and starts[i + 1] <= start:
            i += 1
        j = i
        while j < len(starts) and starts[j] < end:
            a, b = sources[j]
            if a >= 0:
                if len(parts[j]) == b - a:
                    yield a + max(0, start - starts[j]), min(b, a + end - starts[j])
                else:
                    yield a, b
            j += 1


def _as_document(source: str) -> Iterator[Span]:
    """What is masked in the document that a page becomes (in the cells of a table, say), wherever the page
    has it.
    """
    from html import escape

    from taboot_pipelines.documents.html_content import main_content
    from taboot_pipelines.documents.html_markdown import join
    from taboot_pipelines.documents.html_tree import parse

    document, _ = join(main_content(source, parse(source)))
    values = {
        line.strip().replace("\\|", "|")
        for start, end in find_secrets(document, MARKDOWN)
        for line in document[start:end].splitlines()
    }
    forms = {
        form
        for value in values
        if len(value) >= 3
        for form in (value, escape(value), escape(value, quote=False))
    }
    if forms:
        wanted = "|".join(re.escape(f) for f in sorted(forms, key=lambda f: (-len(f), f)))
        for m in re.finditer(rf"(?<!\w)(?:{wanted})(?!\w)", source):
            yield m.span()


def _code_secrets(source: str, shown: str, starts: list[int], sources: list[Span]) -> list[Span]:
    """Secrets in the ``pre`` elements, read as YAML: the strictest reading of key and value."""
    if "<pre" not in source and "<PRE" not in source:
        return []
    from bisect import bisect_left

    from taboot_pipelines.documents.html_tree import parse

    found: list[Span] = []
    # Pieces that stand in text, in source order, which is the order of the page.
    indexes = [i for i, (a, _) in enumerate(sources) if a >= 0]
    places = [sources[i][0] for i in indexes]
    last = -1
    for element in parse(source).walk():
        if element.tag != "pre" or element.start < last:
            continue
        last = element.end
        lo, hi = bisect_left(places, element.content_start), bisect_left(places, element.content_end)
        if lo == hi:
            continue
        begin = starts[indexes[lo]]
        stop = starts[indexes[hi]] if hi < len(indexes) else len(shown)
        found.extend((begin + a, begin + b) for a, b in find_secrets(shown[begin:stop], "application/yaml"))
    return found


def mask(text: str, mime: str) -> str:
    """``text`` with every secret value replaced by asterisks: the same number of code points, the same
    lines.
    """
    spans = find_secrets(text, mime)
    if not spans:
        return text
    parts = []
    at = 0
    for start, end in spans:
        parts.append(text[at:start])
        hidden = text[start:end]
        parts.append(
            "*" * len(hidden)
            if "\n" not in hidden and "\r" not in hidden
            else re.sub(r"[^\r\n]", "*", hidden)
        )
        at = end
    parts.append(text[at:])
    return "".join(parts)


def mask_value(name: str, value: str) -> str:
    """The value of a setting or field called ``name``, masked if the name or its shape says that it is
    secret.
    """
    kind = strength(name) if name else None
    if (
        kind is not None
        and not is_no_secret(value, literal=True)
        and (kind == "strong" or looks_secret(value))
    ):
        return re.sub(r"[^\r\n]", "*", value)
    return mask(value, PLAIN)
