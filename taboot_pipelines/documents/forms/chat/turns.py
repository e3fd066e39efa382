"""What all formats of chats have in common: a session is a sequence of turns, a turn a sequence of parts, and
each part knows where it stands.

The content of a message: a text, or blocks of text, thinking, calls, results and attachments, as the APIs
of Anthropic, OpenAI and Google write them and all programs keep them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from taboot_pipelines.documents.forms.writing import pieces, text_of
from taboot_pipelines.documents.metadata import parse_date
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import Shape
from taboot_pipelines.model.json_text import Run, Value, parse

Role = Literal["user", "assistant", "system", "tool", "note"]
PartKind = Literal["text", "code", "call", "result", "thinking", "attachment"]

_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "gemini": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "toolResult": "tool",
    "bashExecution": "tool",
    "info": "note",
    "warning": "note",
    "error": "note",
}
#: Times of the epoch beyond this are in milliseconds: as seconds it is the year 5138.
_MILLISECONDS = 100_000_000_000
_MAX_NAME = 100


class Field(NamedTuple):
    """An argument of a call; its name is empty where the whole call is one text."""

    name: str
    runs: list[Run]


@dataclass(slots=True)
class Part:
    """One piece of a turn: its text in pieces of the source. ``name``: the tool of a call or result, the
    language of code, what an attachment is called. A call's text is in ``fields``."""

    kind: PartKind
    runs: list[Run] = field(default_factory=list)
    name: str = ""
    failed: bool = False
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """What somebody says at once. ``mark``: in which way it is no part of the conversation as it went on,
    such as another branch of it. ``key``: the message that it is; records of one message are one turn."""

    role: Role
    time: Value | None = None
    moment: datetime | None = None
    key: str = ""
    mark: str = ""
    parts: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """A session in the making, read from ``source``. ``corrupt``: how many of its records could not be read.
    ``unknown``: how often a type of record came that no reader knows."""

    source: str
    shape: Shape | None = None
    id: str = ""
    project: str = ""
    title: list[Run] = field(default_factory=list)
    models: dict[str, None] = field(default_factory=dict)
    corrupt: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    turns: list[Turn] = field(default_factory=list)
    #: The marks of records that are no part of the session as it went on, by the records' ids.
    marks: dict[str, str] = field(default_factory=dict)
    #: The tools that calls name, by the calls' ids.
    tools: dict[str, str] = field(default_factory=dict)

    def turn(self, role: Role, time: Value | None = None, *, key: str = "", mark: str = "") -> Turn:
        """The turn that goes on with what ``role`` says, or a new one. What a tool answers belongs to the
        turn that called it."""
        last = self.turns[-1] if self.turns else None
        if last is not None and last.mark == mark and last.role == "assistant":
            if role == "tool":
                return last
            answered = bool(last.parts) and last.parts[-1].kind == "result"
            if role == "assistant" and key == last.key and (key or not answered):
                return last
        new = Turn(role, time, moment(time), key, mark)
        self.turns.append(new)
        return new

    def named(self, name: str, *values: str) -> None:
        """Keep the first of ``values`` that is there as the session's ``id`` or ``project``, unless it has
        one."""
        if not getattr(self, name):
            setattr(self, name, next(filter(None, values), ""))

    def runs(self, value: Value | None) -> list[Run]:
        """The text that a value is: of a string its content with line breaks as ``\\n``, of anything else its
        JSON."""
        if value is None or value.data is None:
            return []
        if not isinstance(value.data, str):
            return [Run(self.source[value.start : value.end], value.start, value.end, True)]
        return pieces(value, self.source)


def role_of(name: str) -> Role | None:
    """The role that a format calls ``name``."""
    return _ROLES.get(name)


def short_name(name: str) -> str:
    """A name as it may stand in a line of Markdown."""
    return " ".join(name.replace("`", "'").split())[:_MAX_NAME]


def moment(time: Value | None) -> datetime | None:
    """The time that a value states: ISO 8601, or seconds or milliseconds since 1970; None for anything
    else."""
    if time is None or isinstance(time.data, bool):
        return None
    if isinstance(time.data, str):
        return parse_date(time.data)
    if not isinstance(time.data, int | float) or time.data <= 0:
        return None
    try:
        return datetime.fromtimestamp(time.data / (1000 if time.data > _MILLISECONDS else 1), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def fields_of(session: Session, arguments: Value | None) -> list[Field]:
    """The arguments of a call: an object, or the JSON of one in a string, as some APIs have it."""
    if arguments is None or arguments.data is None:
        return []
    if isinstance(arguments.data, dict):
        return [Field(short_name(name), _argument(session, value)) for name, value in arguments.data.items()]
    runs = session.runs(arguments)
    text = text_of(runs)
    if isinstance(arguments.data, str) and text.lstrip().startswith("{"):
        try:
            members = parse(text).members()
        except TabootError:
            members = {}
        if members:
            return _fields_within(runs, text, members)
    return [Field("", runs)] if runs else []


def _argument(session: Session, value: Value) -> list[Run]:
    """The text of an argument; words of a command line stand beside one another."""
    if not _are_words(value):
        return session.runs(value)
    runs: list[Run] = []
    for word in value.items():
        if runs:
            runs.append(Run(" ", word.start, word.start, False))
        runs += session.runs(word)
    return runs


def _are_words(value: Value) -> bool:
    words = value.items()
    return bool(words) and all(isinstance(word.data, str) for word in words)


def _fields_within(runs: Sequence[Run], text: str, members: Mapping[str, Value]) -> list[Field]:
    """The arguments that stand in ``text``, the JSON that the pieces make together."""
    starts = [0]
    for run in runs:
        starts.append(starts[-1] + len(run.text))
    fields = []
    for name, value in members.items():
        if isinstance(value.data, str):
            said = value.data.replace("\r\n", "\n").replace("\r", "\n")
        elif _are_words(value):
            said = " ".join(word.data for word in value.items())
        else:
            said = text[value.start : value.end]
        first, last = (bisect_right(starts, at) - 1 for at in (value.start, value.end - 1))
        begin, end = runs[first], runs[last]
        fields.append(
            Field(
                short_name(name),
                [
                    Run(
                        said,
                        begin.start + (value.start - starts[first] if begin.verbatim else 0),
                        end.start + value.end - starts[last] if end.verbatim else end.end,
                        False,
                    )
                ],
            )
        )
    return fields


_TEXTS = frozenset(
    {"text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal", "voice_note"}
)
_THINKING = frozenset({"thinking", "reasoning", "redacted_thinking", "thought", "thoughts"})
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "toolCall", "tool_call", "function"})
_RESULTS = frozenset({"tool_result", "toolResult", "mcp_tool_result", "web_search_tool_result"})
_ATTACHED = frozenset(
    {
        "image",
        "input_image",
        "image_url",
        "document",
        "file",
        "input_file",
        "audio",
        "input_audio",
        "video",
        "container_upload",
    }
)
#: Bookkeeping of a program, which says nothing.
_SILENT = frozenset({"token_budget", "flag", "step-start", "cache_control"})


def add_content(session: Session, turn: Turn, content: Value | None) -> None:
    """Add what ``content`` says to ``turn``: a string, a block, or a list of both."""
    if content is None:
        return
    if isinstance(content.data, list):
        for block in content.data:
            _add_block(session, turn, block)
    else:
        _add_block(session, turn, content)


def add_text(session: Session, turn: Turn, value: Value | None) -> None:
    """Add a text, unless it is blank."""
    if value is not None and isinstance(value.data, str) and value.data.strip():
        turn.parts.append(Part("text", session.runs(value)))


def add_call(session: Session, turn: Turn, name: str, arguments: Value | None, key: str = "") -> None:
    """Add a call of a tool; ``key``: the id by which its result names it."""
    name = short_name(name)
    if key:
        session.tools[key] = name
    turn.parts.append(Part("call", name=name, fields=fields_of(session, arguments)))


def add_result(
    session: Session,
    turn: Turn,
    content: Value | Sequence[Value] | None,
    *,
    key: str = "",
    name: str = "",
    failed: bool = False,
) -> None:
    """Add what a tool answered: the texts in ``content``, one beneath the other, then what is attached. Of
    what was found in the web the title and address are part."""
    part = Part("result", name=short_name(name) or session.tools.get(key, ""), failed=failed)
    turn.parts.append(part)
    if isinstance(content, Value):
        content = content.data if isinstance(content.data, list) else [content]
    for block in content or ():
        if isinstance(block.data, dict) and block.string("type") in _ATTACHED:
            turn.parts.append(Part("attachment", name=_attached(block)))
            continue
        named = (block.at(name) for name in ("title", "url", "text"))
        texts = [text for text in named if text is not None and isinstance(text.data, str) and text.data]
        for text in texts or [block]:
            runs = session.runs(text)
            if runs and part.runs:
                part.runs.append(Run("\n", runs[0].start, runs[0].start, False))
            part.runs += runs


def add_thinking(session: Session, turn: Turn, value: Value | None) -> None:
    """Add what a model thought, unless it is blank."""
    if value is not None and isinstance(value.data, str) and value.data.strip():
        turn.parts.append(Part("thinking", session.runs(value)))


def _add_block(session: Session, turn: Turn, block: Value) -> None:
    if isinstance(block.data, str):
        add_text(session, turn, block)
        return
    if not isinstance(block.data, dict):
        return
    kind = block.string("type")
    key = block.string("tool_use_id") or block.string("toolCallId") or block.string("tool_call_id")
    if kind in _TEXTS or (not kind and "text" in block.data):
        thought = block.true("thought")
        (add_thinking if thought else add_text)(session, turn, block.at("text") or block.at("refusal"))
    elif kind in _THINKING:
        add_thinking(session, turn, block.at("thinking") or block.at("text") or block.at("reasoning"))
    elif kind in _CALLS:
        name = block.string("name") or block.string("function", "name")
        given = next(
            filter(None, (block.at(n) for n in ("input", "arguments", "args"))),
            block.at("function", "arguments"),
        )
        add_call(session, turn, name, given, block.string("id"))
    elif kind in _RESULTS:
        failed = block.true("is_error") or block.true("isError")
        add_result(session, turn, block.at("content"), key=key, name=block.string("name"), failed=failed)
    elif kind in _ATTACHED or "inlineData" in block.data or "fileData" in block.data:
        turn.parts.append(Part("attachment", name=_attached(block)))
    elif "functionCall" in block.data:
        add_call(session, turn, block.string("functionCall", "name"), block.at("functionCall", "args"))
    elif "functionResponse" in block.data:
        answer = block.at("functionResponse", "response")
        output = answer.at("output") if answer is not None else None
        add_result(session, turn, output or answer, name=block.string("functionResponse", "name"))
    elif "executableCode" in block.data:
        language = block.string("executableCode", "language").lower()
        turn.parts.append(Part("code", session.runs(block.at("executableCode", "code")), name=language))
    elif "codeExecutionResult" in block.data:
        add_result(session, turn, block.at("codeExecutionResult", "output"), name="code")
    elif kind not in _SILENT:
        session.unknown[f"block {kind}" if kind else "block"] += 1
        add_text(session, turn, block.at("text") or block.at("content"))


def _attached(block: Value) -> str:
    """What an attachment is called: its name, else its kind and media type."""
    for path in (("name",), ("file_name",), ("filename",), ("title",), ("file", "filename")):
        if name := short_name(block.string(*path)):
            return name
    mimes = (
        block.string(*path)
        for path in (
            ("source", "media_type"),
            ("mimeType",),
            ("inlineData", "mimeType"),
            ("fileData", "mimeType"),
        )
    )
    mime = short_name(next(filter(None, mimes), ""))
    kind = short_name(block.string("type")).removeprefix("input_") or "file"
    return f"{kind} ({mime})" if mime else kind
