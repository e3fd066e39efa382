"""nginx configuration text to a tree of directives with exact offsets.

The grammar is that of nginx's own reader (``ngx_conf_read_token``): words end at blanks, ``;`` or ``{``;
``${`` does not open a block; a backslash escapes the next character; quotes count only where a word begins;
``#`` comments run to the end of the line. Blocks of lua-nginx-module (``*_by_lua_block``) are skipped by
Lua's own lexical rules.

nginx refuses a file at its first error. Here each error is a note with its line, and what can still be read
stands.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

#: Blocks nested deeper than this are read past, not kept, because the walk over the tree recurses.
MAX_DEPTH = 64
#: Further errors of a file are counted only.
MAX_ERRORS = 100

_TOKEN = re.compile(
    r"""(?:[ \t\r\n\ufeff]++|\#[^\n]*+)*+
    (?:(?P<word>(?:[^ \t\r\n;{}\\$"'\#\ufeff]|\$\{?|\\.|\\\Z)(?:[^ \t\r\n;{\\$]+|\$\{?|\\.|\\\Z)*+)
      |(?P<quoted>"(?:[^"\\]+|\\.)*+"|'(?:[^'\\]+|\\.)*+')
      |(?P<mark>[;{}])
      |(?P<open>["'])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([\"'\\trn])")
_CONTROL = {"t": "\t", "r": "\r", "n": "\n"}
_LUA = re.compile(
    r"""--(?:\[(?P<comment>=*)\[)?|\[(?P<long>=*)\[|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|[{}]""",
    re.DOTALL,
)

#: Directives that begin a statement. One of them at the start of a line, among the arguments of another
#: directive, is what a missing semicolon looks like.
_STATEMENT_NAMES = (
    "access_log add_header alias allow auth_basic auth_basic_user_file auth_request auth_request_set"
    " autoindex charset client_body_buffer_size client_max_body_size default_type deny error_log error_page"
    " etag events expires fastcgi_index fastcgi_param fastcgi_pass geo grpc_pass gzip http http2 if include"
    " index keepalive_timeout limit_except limit_req listen location log_format map more_set_headers"
    " proxy_buffering proxy_buffers proxy_cache proxy_connect_timeout proxy_cookie_path proxy_hide_header"
    " proxy_http_version proxy_pass proxy_read_timeout proxy_redirect proxy_send_timeout proxy_set_header"
    " proxy_ssl_verify resolver return rewrite root satisfy scgi_pass send_timeout sendfile server"
    " server_name set ssl ssl_certificate ssl_certificate_key ssl_protocols stream sub_filter tcp_nodelay"
    " try_files types upstream uwsgi_pass"
)
_STATEMENTS = frozenset(_STATEMENT_NAMES.split())


@dataclass(slots=True)
class Directive:
    """``name args…;`` or ``name args… {children}``. ``[start, end)`` in code points, from the name to the
    ``;`` or ``}``.

    ``args`` are unescaped and without quotes. ``children`` is None for a simple directive and for a Lua
    block.
    """

    name: str
    args: list[str]
    start: int
    end: int
    children: list[Directive] | None = None


@dataclass(frozen=True, slots=True)
class SyntaxNote:
    """An error and the line (from 1) it is on; the message quotes nothing of the file."""

    line: int
    message: str


class Lines:
    """Line numbers (from 1) of offsets, in O(log n) each."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks: list[int] | None = None

    def of(self, offset: int) -> int:
        if self._breaks is None:
            self._breaks = [m.start() for m in re.finditer("\n", self._text)]
        return bisect_left(self._breaks, offset) + 1


@dataclass(slots=True)
class _Word:
    text: str
    start: int
    end: int
    quoted: bool


def parse(text: str) -> tuple[list[Directive], list[SyntaxNote]]:
    """The directives of a whole file or fragment, and the errors in it. Linear in the text; never raises."""
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        self.notes: list[SyntaxNote] = []
        self.surplus = 0
        self.root: list[Directive] = []
        #: Open blocks, outermost first; a None stands for a block beyond MAX_DEPTH.
        self.stack: list[Directive | None] = []
        self.words: list[_Word] = []
        #: Quote characters known to have no partner further on, so that looking for one stays linear.
        self.unpaired: set[str] = set()

    def note(self, offset: int, message: str) -> None:
        if len(self.notes) < MAX_ERRORS:
            self.notes.append(SyntaxNote(self.lines.of(offset), message))
        else:
            self.surplus += 1

    def run(self) -> tuple[list[Directive], list[SyntaxNote]]:
        text, match = self.text, _TOKEN.match
        position = 0
        while (m := match(text, position)) is not None:
            kind = m.lastgroup
            position = m.end()
            if kind == "word":
                start = m.start("word")
                self.words.append(_Word(text[start:position], start, position, False))
            elif kind == "quoted":
                start = m.start("quoted")
                if text[start] in self.unpaired:
                    position = self._unclosed_quote(start)
                else:
                    self.words.append(_Word(text[start + 1 : position - 1], start, position, True))
                    if text[position : position + 1] not in ("", " ", "\t", "\r", "\n", ";", "{", ")"):
                        self.note(position, "a blank, ';' or '{' is missing after a closing quote")
            elif kind == "open":
                start = m.start("open")
                self.unpaired.add(text[start])
                position = self._unclosed_quote(start)
            else:
                mark = text[position - 1]
                if mark == ";":
                    self._end(position)
                elif mark == "{":
                    position = self._open(position)
                else:
                    self._close(position)
        self._finish()
        return self.root, self.notes

    def _unclosed_quote(self, start: int) -> int:
        """Drop the rest of the line with an unclosed quote, and the statement it stands in."""
        self.note(start, "a quote is never closed")
        self.words.clear()
        line_end = self.text.find("\n", start)
        return len(self.text) if line_end < 0 else line_end

    def _level(self) -> list[Directive]:
        if not self.stack:
            return self.root
        top = self.stack[-1]
        # Statements inside a block that is too deep are read into a list nobody keeps.
        return [] if top is None or top.children is None else top.children

    def _add(self, words: list[_Word], end: int, block: bool) -> Directive:
        directive = Directive(
            _value(words[0]), [_value(w) for w in words[1:]], words[0].start, end, [] if block else None
        )
        self._level().append(directive)
        return directive

    def _take(self) -> list[_Word]:
        """The words of the statement that ends here, after adding those before it that lack a semicolon."""
        words, self.words = self.words, []
        cut = 0
        for i in range(1, len(words)):
            word = words[i]
            if (
                word.text in _STATEMENTS
                and not word.quoted
                and "\n" in self.text[words[i - 1].end : word.start]
            ):
                self.note(words[cut].start, "the directive is not ended by ';'")
                self._add(words[cut:i], words[i - 1].end, block=False)
                cut = i
        return words[cut:] if cut else words

    def _end(self, position: int) -> None:
        if self.words:
            self._add(self._take(), position, block=False)
        else:
            self.note(position - 1, "unexpected ';'")

    def _open(self, position: int) -> int:
        words = self._take()
        if not words:
            self.note(position - 1, "unexpected '{'")
            words = [_Word("", position - 1, position - 1, True)]
        elif words[0].text.endswith("_by_lua_block"):
            end = _lua_end(self.text, position)
            if end is None:
                self.note(words[0].start, "the Lua block is never closed")
                end = len(self.text)
            self._add(words, end, block=False)
            return end
        if len(self.stack) < MAX_DEPTH:
            self.stack.append(self._add(words, position, block=True))
        else:
            if len(self.stack) == MAX_DEPTH:
                self.note(position - 1, f"blocks are nested deeper than {MAX_DEPTH}")
            self.stack.append(None)
        return position

    def _close(self, position: int) -> None:
        if self.words:
            self._unended()
        if not self.stack:
            self.note(position - 1, "unexpected '}'")
            return
        block = self.stack.pop()
        if block is not None:
            block.end = position

    def _unended(self) -> None:
        words = self._take()
        self.note(words[0].start, "the directive is not ended by ';'")
        self._add(words, words[-1].end, block=False)

    def _finish(self) -> None:
        if self.words:
            self._unended()
        for block in self.stack:
            if block is not None:
                block.end = len(self.text)
                self.note(block.start, "the block is never closed")
        if self.surplus:
            self.notes.append(SyntaxNote(self.lines.of(len(self.text)), f"{self.surplus} further errors"))


def _value(word: _Word) -> str:
    if "\\" not in word.text:
        return word.text
    return _ESCAPE.sub(lambda m: _CONTROL.get(m[1], m[1]), word.text)


def _lua_end(text: str, position: int) -> int | None:
    """Just behind the ``}`` that closes the Lua block whose text begins at ``position``, or None."""
    depth, absent = 1, set[str]()
    while (m := _LUA.search(text, position)) is not None:
        position = m.end()
        token = m[0]
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                return position
        elif token[0] not in "\"'":
            level = m["comment"] if m["comment"] is not None else m["long"]
            closing = None if level is None else f"]{level}]"
            end = -1
            if closing is not None and closing not in absent:
                end = text.find(closing, position)
                if end < 0:
                    absent.add(closing)
            if end >= 0 and closing is not None:
                position = end + len(closing)
            elif token.startswith("--"):
                line_end = text.find("\n", position)
                if line_end < 0:
                    return None
                position = line_end
    return None
