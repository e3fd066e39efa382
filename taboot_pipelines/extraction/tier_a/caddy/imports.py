"""``import``: snippets and files put where they are imported, with their arguments and blocks.

Caddy does this with words, before there are statements, and so does this module. A word that is an argument
keeps the place where the argument stands.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a.caddy.tokens import MAX_TOKENS, Token, tokens
from taboot_pipelines.extraction.tier_a.proxying import beside
from taboot_pipelines.extraction.tier_a.texts import UnitTexts
from taboot_pipelines.model.records import Evidence

#: Imports inside imports.
MAX_DEPTH = 24

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
        found = tokens(path, text, self._groups)
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
        if len(chain) > MAX_DEPTH:
            self._texts.problem_at(where, "E_TOO_LARGE", f"imports are nested deeper than {MAX_DEPTH}.")
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
        if "{" in name:
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
