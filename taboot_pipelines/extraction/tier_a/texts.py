"""The files that one unit reads, and what is wrong with them: quotes, positions, and problems, each once."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Evidence, FileView, Problem

#: What is wrong with a file's own bytes or text; a store that fails must stop the run.
BAD_TEXT = frozenset({"E_ENCODING", "E_BINARY", "E_PARSE", "E_TOO_LARGE", "E_EMPTY", "E_CYCLE"})
#: Problems that are listed of one unit.
MAX_PROBLEMS = 200


#: Stands in a text for a value that is put in before a program reads the file.
UNKNOWN = "\ufffd"
_DESCRIPTION = re.compile(r"(?i)(?:^|[./_-])description$")
#: Actions of Go templates, Jinja and Helm: a value ends on its line, a statement or a comment of Jinja may
#: go over several.
_ACTIONS = r"\{\{[^{}\n]*\}\}|\{%[^%]{0,4000}%\}|\{#[^#]{0,4000}#\}"
_ACTION = re.compile(_ACTIONS)
_NOT_BREAK = re.compile(r"[^\n]")
#: A line of nothing but actions, which says what is put in where.
_ACTION_LINE = re.compile(rf"^[ \t]*(?:(?:{_ACTIONS})[ \t]*)+$", re.MULTILINE)


#: Characters that a description has at most.
_MAX_DESCRIPTION = 500


def description(text: str) -> str | None:
    """A text as a node's description: on one line, and no longer than a paragraph; None for nothing, and for
    what holds the variables of a template."""
    line = " ".join(text.split())
    if not line or any(mark in line for mark in (UNKNOWN, "${", "{{")):
        return None
    return line if len(line) <= _MAX_DESCRIPTION else f"{line[: _MAX_DESCRIPTION - 1].rstrip()}…"


def described(labels: Iterable[tuple[str, str]]) -> str | None:
    """What labels or annotations say that something is: the first whose name ends with ``description``
    (``homepage.description``, ``org.opencontainers.image.description``, ``kubernetes.io/description``)."""
    said = (text for name, text in labels if _DESCRIPTION.search(name) is not None)
    return next((found for text in said if (found := description(text)) is not None), None)


def untemplated(text: str, unknown: str = UNKNOWN) -> str:
    """A text of equal length in which each value of a template is ``unknown`` characters, without the blanks
    in it; lines that hold only actions, and actions that give no value, are blank."""
    return _with_values(text, lambda action: unknown * len(action))


def with_variables(text: str) -> str:
    """A text of equal length in which each value of a template is a variable called after it
    (``{{ domain }}`` as ``${domain___}``), for formats that know these; other actions are blank."""
    return _with_values(text, _variable)


def actions(text: str) -> dict[str, str]:
    """The values of a template as they are written, by the variables that :func:`with_variables` makes of
    them."""
    return {_variable(m[0]): m[0] for m in _ACTION.finditer(text) if m[0].startswith("{{")}


def variable_called(name: str) -> str:
    """What a variable of :func:`with_variables` is called without what makes it as long as what it stands
    for."""
    return name.rstrip("_") or name


def _with_values(text: str, value: Callable[[str], str]) -> str:
    """A text with what ``value`` makes, at equal length, of each action that gives one; others are blank."""
    if "{{" not in text and "{%" not in text:
        return text
    lines = _ACTION_LINE.sub(lambda m: _blank(m[0]), text)
    return _ACTION.sub(lambda m: value(m[0]) if m[0].startswith("{{") else _blank(m[0]), lines)


def _blank(action: str) -> str:
    return _NOT_BREAK.sub(" ", action)


def _variable(action: str) -> str:
    length = len(action) - len("${}")
    name = re.sub(r"\W+", "_", action[2:-2], flags=re.ASCII).strip("_")
    name = f"_{name}" if name[:1].isdigit() else name
    return "${" + name[:length].ljust(length, "_") + "}"


def position(text: str, offset: int) -> str:
    """``line L, column C`` of a code point, counted from 1."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - (text.rfind(chr(10), 0, offset) + 1) + 1}"


class Problems:
    """The problems of a unit, each once, in the order found.

    Of more than :data:`MAX_PROBLEMS` it is only said that there are more, and that something was left out
    (``E_TOO_LARGE``).
    """

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}
        self._full = False

    @property
    def full(self) -> bool:
        """Whether no further problem of the common kind is kept; finding a position reads the text."""
        return self._full

    def add(self, problem: Problem) -> None:
        if problem in self._found:
            return
        count = len(self._found)
        if count >= MAX_PROBLEMS and (problem.code != "E_TOO_LARGE" or count >= 2 * MAX_PROBLEMS):
            if self._full:
                return
            self._full = True
            message = f"{problem.path}: there are more than {MAX_PROBLEMS} problems; the rest is not listed."
            problem = Problem(problem.path, "E_PARSE", message)
        self._found[problem] = None

    def extend(self, other: Problems) -> None:
        for problem in other._found:
            self.add(problem)

    def listed(self) -> tuple[Problem, ...]:
        return tuple(self._found)


class UnitTexts:
    """The texts of the files that a unit reads through its ``view``."""

    def __init__(self, view: FileView) -> None:
        self.view = view
        self.problems = Problems()
        self._texts: dict[str, str | None] = {}
        self._lines: dict[str, list[int]] = {}

    def text(self, path: str) -> str | None:
        """The text of a file; None if it is absent or its bytes are no text (which is a problem)."""
        if path not in self._texts:
            self._texts[path] = None
            try:
                self._texts[path] = self.view.read(path)
            except TabootError as error:
                if error.code not in BAD_TEXT:
                    raise
                self.problem(path, error.code, error.message)
        return self._texts[path]

    def quote(self, evidence: Evidence) -> str:
        """What stands at a place of a file that was read; nothing of any other."""
        return (self._texts.get(evidence.path) or "")[evidence.start : evidence.end]

    def problem(self, path: str, code: str, message: str) -> None:
        """A problem of a whole file; ``message`` names it, and must not quote it."""
        self.problems.add(Problem(path, code, message))

    def note_template(self, path: str) -> None:
        """Note that a file is a template, which cannot be read as what it becomes."""
        said = "a template, which says nothing until its values are put in; what it gives can be read"
        self.problem(path, "E_UNRESOLVED", f"{path}: {said}.")

    def problem_at(self, where: Evidence, code: str, what: str) -> None:
        """``what``, a sentence that does not quote the file, with the file and the line of ``where``."""
        if self.problems.full and code != "E_TOO_LARGE":
            return
        lines = self._lines.get(where.path)
        if lines is None:
            text = self._texts.get(where.path) or ""
            lines = self._lines[where.path] = [m.start() for m in re.finditer("\n", text)]
        line = bisect_right(lines, where.start - 1) + 1
        self.problem(where.path, code, f"{where.path}, line {line}: {what}")
