"""The form of chats: bytes of a session of any known format to Markdown."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from datetime import UTC

from taboot_pipelines.documents.forms.chat.aider import read_aider
from taboot_pipelines.documents.forms.chat.lines import read_lines
from taboot_pipelines.documents.forms.chat.markdown import write
from taboot_pipelines.documents.forms.chat.sessions import read_session
from taboot_pipelines.documents.forms.chat.turns import Session
from taboot_pipelines.documents.forms.form import Formed, Given
from taboot_pipelines.documents.forms.writing import JsonWriter, text_of
from taboot_pipelines.documents.metadata import Facts
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import CHAT_WITH_THINKING, HEAD_BYTES, FileKind, kind_of

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
