"""A Caddyfile as directives: words, imports put in their place, and lines with the blocks that they open.

Words are split as Caddy's lexer does it (its "Caddyfile Concepts"), each with its place: they are parted by
blanks; ``"…"`` and backquotes hold blanks and line breaks, ``\\`` before a line break joins lines, ``#`` at
the beginning of a word begins a comment, ``<<WORD`` a text up to a line that begins with that word.
``{$NAME}`` and ``{$NAME:default}`` are replaced before words are split; without a default the variable stays
as written, since the files do not tell it. Snippets and files are put where they are imported while there are
words only, as Caddy does; a word that is an argument keeps the place where the argument stands.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.proxying import beside
from taboot_pipelines.extraction.tier_a.texts import UNKNOWN, UnitTexts, untemplated
from taboot_pipelines.model.records import Evidence

#: Words of one unit, with everything that is imported.
MAX_TOKENS = 200_000

_BLANK = re.compile(r"(?:[ \t\r\ufeff]|\\\r?\n)+")
_VARIABLE = re.compile(r"\{\$([^}:\s]*)(?::([^}]*))?\}")
_BARE = re.compile(r"[^\s{\\]+")
_BAD_HEREDOC = re.compile(r"<<(?=[^\s<]*[^\sA-Za-z0-9_<-])[^\s<]+[ \t]*\r?\n")
_HEREDOC = re.compile(r"<<([A-Za-z0-9_-]+)[ \t]*\r?\n")


@dataclass(frozen=True, slots=True)
class Token:
    """A word at code points ``[start, end)`` of the file ``path``. ``line``: what is the same for the words
    of one line; ``first``: where that line's directive begins."""

    text: str
    path: str
    start: int
    end: int
    line: tuple[int, int]
    quoted: bool = False


def tokens(path: str, text: str, group: int) -> list[Token]:
    """The words of a file; ``group`` tells apart where it is put in place. Raises ``E_PARSE`` for a quote or
    a text that nothing closes, ``E_TOO_LARGE``."""
    found: list[Token] = []
    at, line, size = 0, 0, len(text)
    while at < size:
        c = text[at]
        if c == "\n":
            line += 1
            at += 1
            continue
        if (blank := _BLANK.match(text, at)) is not None:
            at = blank.end()
            continue
        if c.isspace():
            at += 1
            continue
        if c == "#":
            end = text.find("\n", at)
            at = size if end < 0 else end
            continue
        if len(found) >= MAX_TOKENS:
            raise TabootError("E_TOO_LARGE", f"{path} has more than {MAX_TOKENS} words.", path=path)
        start = at
        if c in '"`':
            word, at = _quoted(path, text, at, line)
            found.append(Token(_replaced(word) if c == '"' else word, path, start, at, (group, line), True))
            line += text.count("\n", start, at)
        elif text.startswith("<<<", at) or _BAD_HEREDOC.match(text, at) is not None:
            raise _fail(path, line, "the marker of a text (heredoc) is not a word")
        elif text.startswith("<<", at) and (heredoc := _HEREDOC.match(text, at)) is not None:
            word, at = _heredoc(path, text, heredoc, line)
            found.append(Token(word, path, start, at, (group, line), True))
            line += text.count("\n", start, at)
        else:
            word, at = _bare(text, at)
            for piece in word.split() or [word]:
                found.append(Token(piece, path, start, at, (group, line)))
    return found


def _fail(path: str, line: int, what: str) -> TabootError:
    return TabootError("E_PARSE", f"{path}, line {line + 1}: {what}.", path=path)


def _quoted(path: str, text: str, start: int, line: int) -> tuple[str, int]:
    quote = text[start]
    pieces: list[str] = []
    at = start + 1
    while True:
        end = text.find(quote, at)
        if end < 0:
            raise _fail(path, line, "a quote is not closed")
        if quote == '"' and text[end - 1] == "\\" and end - 1 >= at:
            pieces.append(text[at : end - 1] + quote)
            at = end + 1
            continue
        pieces.append(text[at:end])
        return "".join(pieces), end + 1


def _heredoc(path: str, text: str, opened: re.Match[str], line: int) -> tuple[str, int]:
    closed = re.compile(rf"^[ \t]*{re.escape(opened[1])}(?=\s|\Z)", re.MULTILINE).search(text, opened.end())
    if closed is None:
        raise _fail(path, line, "the end of a text (heredoc) is missing")
    return text[opened.end() : closed.start()].rstrip("\n"), closed.end()


def _bare(text: str, start: int) -> tuple[str, int]:
    """A word without quotes, its variables replaced by their defaults."""
    pieces: list[str] = []
    at, size = start, len(text)
    while at < size and not text[at].isspace():
        if text[at] == "\\" and text[at + 1 : at + 2] in ("\n", "\r"):
            break
        if (variable := _VARIABLE.match(text, at)) is not None:
            pieces.append(_value(variable))
            at = variable.end()
            continue
        plain = _BARE.match(text, at)
        end = plain.end() if plain is not None else at + 1
        pieces.append(text[at:end])
        at = end
    return "".join(pieces), at


def _value(variable: re.Match[str]) -> str:
    return variable[0] if variable[2] is None else variable[2]


def _replaced(text: str) -> str:
    return _VARIABLE.sub(_value, text) if "{$" in text else text


#: Blocks inside blocks.
MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Directive:
    """``words`` without the brace that opens ``block`` (None: there is none)."""

    words: tuple[Token, ...]
    block: tuple[Directive, ...] | None

    @property
    def name(self) -> str:
        return self.words[0].text if self.words and not self.words[0].quoted else ""

    @property
    def args(self) -> tuple[Token, ...]:
        return self.words[1:]

    def where(self, word: Token) -> Evidence:
        """The smallest directive that says ``word``: this line, or the word alone where it was imported."""
        first, last = self.words[0], self.words[-1]
        if first.path == word.path == last.path and first.start <= word.start and word.end <= last.end:
            return Evidence(first.path, first.start, last.end)
        return Evidence(word.path, word.start, word.end)


def directives(words: Sequence[Token], path: str) -> list[Directive]:
    """The directives of a file. Raises ``E_PARSE`` for braces that do not match, ``E_TOO_LARGE`` for blocks
    nested deeper than :data:`MAX_DEPTH`."""
    open_: list[tuple[tuple[Token, ...], list[Directive]]] = []
    current: list[Directive] = []
    at = 0
    while at < len(words):
        end = at
        while end < len(words) and words[end].line == words[at].line:
            end += 1
        line = list(words[at:end])
        at = end
        while line and line[0].text == "}" and not line[0].quoted:
            if not open_:
                raise TabootError("E_PARSE", f"{path}: a brace closes nothing.", path=path)
            opener, outer = open_.pop()
            outer.append(Directive(opener, tuple(current)))
            current = outer
            line.pop(0)
        if not line:
            continue
        if line[-1].text == "{" and not line[-1].quoted:
            if len(open_) >= MAX_DEPTH:
                raise TabootError(
                    "E_TOO_LARGE", f"{path}: blocks are nested deeper than {MAX_DEPTH}.", path=path
                )
            open_.append((tuple(line[:-1]), current))
            current = []
        else:
            current.append(Directive(tuple(line), None))
    if open_:
        raise TabootError("E_PARSE", f"{path}: a block is not closed.", path=path)
    return current


#: Imports inside imports.
MAX_IMPORTS = 24

_ARGUMENT = re.compile(r"\{args(?:\[(-?\d+)\]|\.(\d+))\}")
_ARGUMENTS = re.compile(r"\{args\[(\d*):(\d*)\]\}")
_BLOCK = re.compile(r"\{blocks?(?:\.([^}]+))?\}")
#: Where Caddy keeps its configuration in a container or a package.
_HOME = "/etc/caddy/"


@dataclass(frozen=True, slots=True)
class _Passed:
    """What an import hands on: its arguments, its block, and the parts of that by name."""

    args: Sequence[Token]
    block: Sequence[Token]
    parts: dict[str, Sequence[Token]]


class Imports:
    """Reads a file with all that it imports into :meth:`words`."""

    def __init__(self, main: str, texts: UnitTexts) -> None:
        self._main = main
        self._texts = texts
        self._snippets: dict[str, list[Token]] = {}
        self._groups = 0
        self._count = 0
        self.subordinates: set[str] = set()

    def words(self) -> list[Token]:
        """The words of the main file. Raises ``E_PARSE``, ``E_TOO_LARGE``."""
        text = self._texts.text(self._main)
        return [] if text is None else self._placed(self._lexed(self._main, text), (self._main,))

    def _lexed(self, path: str, text: str) -> list[Token]:
        self._groups += 1
        found = tokens(path, untemplated(text), self._groups)
        self._spend(len(found))
        return found

    def _spend(self, words: int) -> None:
        self._count += words
        if self._count > MAX_TOKENS:
            raise TabootError(
                "E_TOO_LARGE",
                f"{self._main} and its imports hold more than {MAX_TOKENS} words.",
                path=self._main,
            )

    def _placed(self, words: Sequence[Token], chain: tuple[str, ...]) -> list[Token]:
        found: list[Token] = []
        at, depth = 0, 0
        while at < len(words):
            word = words[at]
            if not _begins(words, at) or word.quoted:
                depth += _nesting(words, at)
                found.append(word)
                at += 1
                continue
            if depth == 0 and word.text.startswith("(") and word.text.endswith(")") and len(word.text) > 2:
                body, end = _block(words, at + 1)
                if end > at + 1:
                    self._snippets[word.text[1:-1]] = body
                    at = end
                    continue
            if word.text == "import":
                end = at + 1
                while end < len(words) and words[end].line == word.line and not _opens(words, end):
                    end += 1
                passed = words[at + 1 : end]
                block, end = _block(words, end) if end < len(words) and _opens(words, end) else ([], end)
                found += self._imported(word, passed, block, chain)
                at = end
                continue
            depth += _nesting(words, at)
            found.append(word)
            at += 1
        return found

    def _imported(
        self, word: Token, arguments: Sequence[Token], block: Sequence[Token], chain: tuple[str, ...]
    ) -> list[Token]:
        where = Evidence(word.path, word.start, arguments[-1].end if arguments else word.end)
        if where.end < where.start or any(a.path != word.path for a in arguments):
            where = Evidence(word.path, word.start, word.end)
        if not arguments:
            self._texts.problem_at(where, "E_PARSE", "an import names nothing.")
            return []
        if any(_opens(block, n) and _begins(block, n) for n in range(len(block))):
            self._texts.problem_at(where, "E_PARSE", "the block of an import holds one without a name.")
            return []
        name, passed = arguments[0].text, _Passed(arguments[1:], block, _parts(block))
        if len(chain) > MAX_IMPORTS:
            self._texts.problem_at(where, "E_TOO_LARGE", f"imports are nested deeper than {MAX_IMPORTS}.")
            return []
        if name in self._snippets:
            if f"({name})" in chain:
                self._texts.problem_at(where, "E_CYCLE", "the import leads back to the snippet it stands in.")
                return []
            return self._inserted(self._snippets[name], passed, (*chain, f"({name})"))
        found: list[Token] = []
        for path in self._files(name, word.path, where):
            if path in chain:
                self._texts.problem_at(where, "E_CYCLE", f"the import leads back to {path}.")
                continue
            text = self._texts.text(path)
            self.subordinates.add(path)
            if text is not None:
                found += self._inserted(self._lexed(path, text), passed, (*chain, path))
        return found

    def _files(self, name: str, importer: str, where: Evidence) -> Sequence[str]:
        view = self._texts.view
        if "{" in name or UNKNOWN in name:
            self._texts.problem_at(where, "E_UNRESOLVED", "what is imported depends on a variable.")
            return ()
        if name.startswith("/"):
            # The directory of the main file stands for that of the machine it belongs to.
            inside = name.removeprefix(_HOME) if name.startswith(_HOME) else name[1:]
            path = posixpath.normpath(posixpath.join(posixpath.dirname(self._main), inside))
        else:
            path = beside(importer, name)
        if path.startswith("../") or path == "..":
            self._texts.problem_at(where, "E_NOT_FOUND", "the import leads out of the source.")
            return ()
        if any(c in path for c in "*?["):
            return [p for p in view.glob(path) if p != importer]
        if path not in view.paths:
            view.read(path)
            self._texts.problem_at(where, "E_NOT_FOUND", "what is imported is neither a snippet nor a file.")
            return ()
        return (path,)

    def _inserted(self, body: Sequence[Token], passed: _Passed, chain: tuple[str, ...]) -> list[Token]:
        """A body with its arguments, in lines of its own, and with its own imports put in place."""
        self._groups += 1
        group = self._groups
        found: list[Token] = []
        for word in body:
            line = (group, _flat(word.line))
            if word.text.startswith("{") and (match := _BLOCK.fullmatch(word.text)) is not None:
                block = passed.block if match[1] is None else passed.parts.get(match[1], ())
                found += [replace(w, line=(-group, _flat(w.line))) for w in block]
            elif word.text.startswith("{") and (several := _ARGUMENTS.fullmatch(word.text)) is not None:
                first = int(several[1] or 0)
                last = int(several[2]) if several[2] else len(passed.args)
                found += [replace(w, line=line) for w in passed.args[first:last]]
            elif "{args" in word.text:
                found.append(replace(_filled(word, passed.args), line=line))
            else:
                found.append(replace(word, line=line))
        self._spend(len(found))
        return self._placed(found, chain)


def _flat(line: tuple[int, int]) -> int:
    """One number for a line of any group."""
    return line[0] * 1_000_003 + line[1]


def _filled(word: Token, args: Sequence[Token]) -> Token:
    whole = _ARGUMENT.fullmatch(word.text)
    if whole is not None:
        index = int(whole[1] or whole[2])
        return args[index] if -len(args) <= index < len(args) else word

    def value(match: re.Match[str]) -> str:
        index = int(match[1] or match[2])
        return args[index].text if -len(args) <= index < len(args) else match[0]

    return replace(word, text=_ARGUMENT.sub(value, word.text))


def _begins(words: Sequence[Token], at: int) -> bool:
    """Whether the word at ``at`` is the first of its line."""
    return at == 0 or words[at - 1].line != words[at].line


def _opens(words: Sequence[Token], at: int) -> bool:
    """Whether the word at ``at`` opens a block: a brace at the end of its line."""
    word = words[at]
    return word.text == "{" and not word.quoted and (at + 1 == len(words) or words[at + 1].line != word.line)


def _nesting(words: Sequence[Token], at: int) -> int:
    word = words[at]
    if _opens(words, at):
        return 1
    return -1 if word.text == "}" and not word.quoted else 0


def _block(words: Sequence[Token], at: int) -> tuple[list[Token], int]:
    """The words of the block that opens at ``at``, and where what follows it begins."""
    if at >= len(words) or not _opens(words, at):
        return [], at
    depth = 1
    for end in range(at + 1, len(words)):
        depth += _nesting(words, end)
        if depth == 0:
            return list(words[at + 1 : end]), end + 1
    raise TabootError("E_PARSE", f"{words[at].path}: a block is not closed.", path=words[at].path)


def _parts(block: Sequence[Token]) -> dict[str, Sequence[Token]]:
    """The named parts of an import's block: ``name { … }``."""
    found: dict[str, Sequence[Token]] = {}
    at = 0
    while at + 1 < len(block):
        if _opens(block, at + 1) and _begins(block, at):
            found[block[at].text], at = _block(block, at + 1)
        else:
            at += 1
    return found
