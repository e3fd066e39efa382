"""Chat sessions with AI models, of every known format, as Markdown.

``turns`` says what all formats have in common, and what a message holds; ``lines``, ``chatgpt`` and
``gemini`` read theirs, and here are read exports of Claude, files of programs that write a session anew each
time, and the Markdown that aider keeps: ``# aider chat started at`` a time, ``####`` before what the user
says, ``>`` before what aider itself says, and the model's answers as they are. ``markdown`` writes. How a
file is told to be a chat is in ``model.chats``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from datetime import UTC

from taboot_pipelines.documents.forms.chat.chatgpt import Branch, branches, read_conversation
from taboot_pipelines.documents.forms.chat.gemini import read_activity, read_cli, read_studio
from taboot_pipelines.documents.forms.chat.lines import read_lines, read_records
from taboot_pipelines.documents.forms.chat.markdown import write
from taboot_pipelines.documents.forms.chat.turns import (
    Part,
    Role,
    Session,
    add_content,
    add_text,
    moment,
    role_of,
    short_name,
)
from taboot_pipelines.documents.forms.writing import Formed, Given, JsonWriter, text_of
from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import (
    CHAT_WITH_THINKING,
    HEAD_BYTES,
    FileKind,
    Shape,
    kind_of,
    session_shape,
)
from taboot_pipelines.model.json_text import Run, Value, parse

_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_STARTED = re.compile(r"#[ \t]+aider chat started at (?P<time>[^\r\n]*)")
_USER = re.compile(r"####(?:[ \t]+|$)")
_TOOL = re.compile(r">[ \t]?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_MODEL = re.compile(r"> (?:Main model|Model|Models): (?P<model>[^\s,]+)")


def read_aider(session: Session) -> None:
    """Read ``session.source``. Each chat in it begins with a time, which its turns bear."""
    session.shape = Shape.AIDER
    time: Value | None = None
    for role, runs in _passages(session):
        if role is None:
            (run,) = runs
            time = Value(run.text, run.start, run.end)
            continue
        text = "".join(run.text for run in runs)
        if text.strip():
            session.turn(role, time).parts.append(Part("result" if role == "tool" else "text", runs))


def _passages(session: Session) -> Iterator[tuple[Role | None, list[Run]]]:
    """What one speaker says in lines that follow one another; no role: when a chat began."""
    speaker: Role = "tool"
    held: list[Run] = []
    fence = ""
    for line in _LINE.finditer(session.source):
        text, at = line[0], line.start()
        role: Role = "assistant"
        skip = 0
        if found := _FENCE.match(text):
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence):
                fence = ""
        elif not fence:
            if started := _STARTED.match(text):
                if held:
                    yield speaker, held
                held = []
                begin, end = started.span("time")
                yield None, [Run(started["time"], at + begin, at + end, True)]
                continue
            if model := _MODEL.match(text):
                session.models[model["model"]] = None
            if said := _USER.match(text):
                role, skip = "user", said.end()
            elif said := _TOOL.match(text):
                role, skip = "tool", said.end()
            elif not text.strip():
                role = speaker
        if role != speaker and held:
            yield speaker, held
            held = []
        speaker = role
        held.append(Run(text[skip:], at + skip, line.end(), True))
    if held:
        yield speaker, held


def read_session(session: Session) -> None:
    """Read ``session.source`` as one JSON text. Raises ``E_PARSE``; ``E_MIME`` if it is no chat."""
    root = parse(session.source)
    if isinstance(root.data, list):
        session.shape = Shape.MESSAGES
        read_records(session, root.data)
        return
    shape = session_shape({name: value.data for name, value in root.members().items()})
    session.shape = shape
    match shape:
        case Shape.CHATGPT:
            read_conversation(session, root)
        case Shape.CLAUDE:
            _claude(session, root)
        case Shape.CLAUDE_CODE:
            read_records(session, root.items("loglines"))
        case Shape.CODEX:
            read_records(session, [*filter(None, [root.at("session")]), *root.items("items")])
        case Shape.GEMINI_CLI:
            read_cli(session, root)
        case Shape.AI_STUDIO:
            read_studio(session, root)
        case Shape.GEMINI_TAKEOUT:
            read_activity(session, root)
        case Shape.MESSAGES:
            session.named("id", root.string("id"), root.string("session_id"))
            if (title := root.at("title")) is not None:
                session.title = session.runs(title)
            read_records(session, root.items("messages") or root.items("history"))
        case _:
            raise TabootError("E_MIME", "The JSON is no chat session of a known format.")


def _claude(session: Session, root: Value) -> None:
    """A conversation of an export of Claude. Where its messages name their parents they are a tree."""
    session.named("id", root.string("uuid"))
    session.named("project", root.string("project", "name"))
    session.title = session.runs(root.at("name"))
    if model := root.string("model"):
        session.models[model] = None
    messages = root.items("chat_messages")
    nodes = {
        m.string("uuid") or f"#{n}": Branch(m.string("parent_message_uuid"), moment(m.at("created_at")))
        for n, m in enumerate(messages)
    }
    by_id = {m.string("uuid") or f"#{n}": m for n, m in enumerate(messages)}
    if len(by_id) < len(messages) or not any(node.parent in by_id for node in nodes.values()):
        for message in messages:
            _claude_message(session, message, "")
        return
    for key, mark in branches(nodes, root.string("current_leaf_message_uuid")):
        _claude_message(session, by_id[key], mark)


def _claude_message(session: Session, message: Value, mark: str) -> None:
    role = role_of(message.string("sender"))
    if role is None:
        session.unknown[f"sender {message.string('sender')}"] += 1
        role = "note"
    key = message.string("uuid") if role == "assistant" else ""
    turn = session.turn(role, message.at("created_at"), key=key, mark=mark)
    add_content(session, turn, message.at("content"))
    if not turn.parts:
        add_text(session, turn, message.at("text"))
    named: set[str] = set()
    for file in (*message.items("attachments"), *message.items("files")):
        name = short_name(file.string("file_name")) or "file"
        runs = session.runs(file.at("extracted_content"))
        if runs or name not in named:  # a file whose text was read stands in both lists
            turn.parts.append(Part("attachment", runs, name=name))
        named.add(name)


_MAX_TITLE = 100
#: Bytes that are no UTF-8, as ``surrogateescape`` has them.
_SURROGATES = re.compile("[\ud800-\udfff]")
_MAX_UNKNOWN = 20


def chat(data: bytes, given: Given) -> Formed:
    """The session, or the part of one, in ``data``. What it is is told from the bytes alone.

    Bytes that are not UTF-8 become U+FFFD; lines that are no records are counted. Metadata: ``format``,
    ``session``, ``project`` (the working directory where the format knows it), ``models``, ``first_time``,
    ``last_time``, ``turns``, ``corrupt_lines``, ``unknown_types``. Raises ``E_PARSE``, ``E_EMPTY`` for a
    session in which nothing is said, ``E_MIME`` for bytes that are no chat, ``E_TOO_LARGE``.
    """
    bom = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    source = data[bom:].decode("utf-8", "surrogateescape")
    session = Session(_SURROGATES.sub("\ufffd", source))
    match kind_of(data[:HEAD_BYTES]):
        case FileKind.LINES:
            read_lines(session)
        case FileKind.MARKDOWN:
            read_aider(session)
        case FileKind.DOCUMENT:
            read_session(session)
        case FileKind.CONVERSATIONS:
            raise TabootError("E_MIME", "The file holds many conversations, of which each is a document.")
        case None:
            raise TabootError("E_MIME", "The file is no chat session of a known format.")
    writer = JsonWriter(source, given.max_chars, bom=bom)
    turns = write(session, writer, thinking=given.mime == CHAT_WITH_THINKING)
    if not turns:
        raise TabootError("E_EMPTY", "Nothing is said in the session.")
    return Formed(writer.text, writer.offsets(), _facts(session, turns))


def _facts(session: Session, turns: int) -> Facts:
    title = text_of(session.title).partition("\n")[0] or _first_words(session)
    facts = Facts(title=" ".join(title.lstrip("#").split())[:_MAX_TITLE])
    times = sorted(turn.moment.astimezone(UTC) for turn in session.turns if turn.moment is not None)
    facts.put("format", session.shape or "")
    facts.put("session", session.id)
    facts.put("project", session.project)
    if session.models:
        facts.metadata["models"] = sorted(session.models)
    if times:
        facts.put("first_time", times[0].isoformat())
        facts.put("last_time", times[-1].isoformat())
        facts.date = times[-1]
    facts.put("turns", str(turns))
    facts.put("corrupt_lines", str(session.corrupt))
    if session.unknown:
        facts.metadata["unknown_types"] = sorted(name[:100] for name in session.unknown)[:_MAX_UNKNOWN]
    return facts


def _first_words(session: Session) -> str:
    """The first line that a user says."""
    lines: Iterable[str] = (
        line
        for turn in session.turns
        if turn.role == "user"
        for part in turn.parts
        if part.kind == "text"
        for line in text_of(part.runs).split("\n")
    )
    return next((line for line in lines if line.strip()), "")


__all__ = ["chat"]
