"""How the files of AI chat sessions look, told from their content alone: what reads them, what cuts them and
what renders them agree here.

The formats are those of Claude Code, Codex, ChatGPT, Claude, Gemini (CLI, Takeout, AI Studio), OpenClaw and
aider. None of them but the last has a specification; the shapes are those that their programs write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson

#: The media type of a session, or of a part of one. Its blob is a piece of the file that it stands in.
CHAT = "application/vnd.taboot.chat"
#: The same, of which what the model thought is wanted too.
CHAT_WITH_THINKING = "application/vnd.taboot.chat-thinking"

#: So many bytes of a file tell what it is.
HEAD_BYTES = 256 * 1024
#: Of so many lines one is a record of a chat, if the file is one.
_MAX_LINES = 50
#: In so many bytes the first object of an array shows its names.
_FIRST_KEYS = 4096

_AIDER = re.compile(rb"^#[ \t]+aider chat started at ", re.M)
#: What Takeout says of every activity with Gemini, whatever the language.
_ACTIVITY = rb'"header"[ \t\r\n]*:[ \t\r\n]*"[^"]{0,40}(?:Gemini|Bard)'
_CONVERSATION = re.compile(rb'"(?:mapping|chat_messages)"[ \t\r\n]*:|' + _ACTIVITY)
_DOCUMENT = re.compile(
    rb'"(?:mapping|chat_messages|loglines|messages|chunkedPrompt|history|items)"[ \t\r\n]*:|' + _ACTIVITY
)
_MESSAGES = re.compile(rb'"(?:role|message|parts|content)"[ \t\r\n]*:')


class FileKind(StrEnum):
    """How a file holds chats: a record a line, many conversations in an array, one session in JSON, or the
    Markdown that aider writes."""

    LINES = "lines"
    CONVERSATIONS = "conversations"
    DOCUMENT = "document"
    MARKDOWN = "markdown"


class Shape(StrEnum):
    """A format, by what one record or one session of it looks like."""

    AIDER = "aider"
    AI_STUDIO = "ai-studio"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CODEX_EVENTS = "codex-events"
    GEMINI_CLI = "gemini-cli"
    GEMINI_TAKEOUT = "gemini-takeout"
    MESSAGES = "messages"
    OPENCLAW = "openclaw"
    PROMPTS = "prompts"


def kind_of(head: bytes) -> FileKind | None:
    """How the file that begins with ``head`` (:data:`HEAD_BYTES` of it, or all) holds chats; None if it holds
    none that is known."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        if _CONVERSATION.search(text) or _DOCUMENT.search(text[:_FIRST_KEYS]):
            return FileKind.CONVERSATIONS
        return FileKind.DOCUMENT if _MESSAGES.search(text) else None
    if _AIDER.search(head):
        return FileKind.MARKDOWN
    lines = [line for line in text.split(b"\n", _MAX_LINES)[:_MAX_LINES] if line.strip()]
    records = [record for line in lines if (record := parsed(line)) is not None]
    shaped = sum(record_shape(record) is not None for record in records)
    if not text.startswith(b"{"):
        # Damage at the beginning, or a text that quotes a record here and there.
        return FileKind.LINES if shaped and 4 * shaped >= len(lines) else None
    if len(lines) == 1 and records:
        whole = session_shape(records[0]) is not None
        return FileKind.DOCUMENT if whole else FileKind.LINES if shaped else None
    if not records or not lines[0].strip(b"{ \t\r"):
        # An object over many lines, or a line that is longer than the head.
        if _DOCUMENT.search(text):
            return FileKind.DOCUMENT
        return FileKind.LINES if len(lines) == 1 and _MESSAGES.search(text) else None
    return FileKind.LINES if shaped else None


def is_session(data: bytes) -> bool:
    """Whether a JSON text is a session of a known format. What is no JSON passes for one: whoever reads it
    says what is wrong with it."""
    try:
        value = orjson.loads(data)
    except ValueError:
        return True
    if isinstance(value, dict):
        return session_shape(value) is not None
    records = value if isinstance(value, list) else []
    return any(isinstance(record, dict) and record_shape(record) for record in records[:_MAX_LINES])


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object that a line is, though some of its bytes be no UTF-8; None for anything else."""
    try:
        value = orjson.loads(line)
    except ValueError:
        text = line.decode("utf-8", "replace")
        if "\ufffd" not in text:
            return None
        try:
            value = orjson.loads(text)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def session_shape(members: Mapping[str, Any]) -> Shape | None:
    """The format of which one JSON object with these members is a whole session; None if it is none."""
    if isinstance(members.get("mapping"), dict):
        return Shape.CHATGPT
    if isinstance(members.get("chat_messages"), list):
        return Shape.CLAUDE
    if isinstance(members.get("loglines"), list):
        return Shape.CLAUDE_CODE
    if isinstance(members.get("chunkedPrompt"), dict):
        return Shape.AI_STUDIO
    if isinstance(members.get("messages"), list):
        return Shape.GEMINI_CLI if {"sessionId", "projectHash"} & members.keys() else Shape.MESSAGES
    if isinstance(members.get("history"), list):
        return Shape.MESSAGES
    if isinstance(members.get("session"), dict) and isinstance(members.get("items"), list):
        return Shape.CODEX
    header = members.get("header")
    if {"title", "time"} <= members.keys() and isinstance(header, str) and re.search("Gemini|Bard", header):
        return Shape.GEMINI_TAKEOUT
    return None


def record_shape(members: Mapping[str, Any]) -> Shape | None:
    """The format of which an object with these members is one record; None if it is of none."""
    kind, role, message = (members.get(name) for name in ("type", "role", "message"))
    if not isinstance(kind, str):
        kind = ""
    if kind and isinstance(members.get("payload"), dict):
        return Shape.CODEX
    if kind.startswith(("thread.", "turn.", "item.")):
        return Shape.CODEX_EVENTS
    if isinstance(message, dict):
        if kind == "message" or "parentId" in members:
            return Shape.OPENCLAW
        return Shape.CLAUDE_CODE if kind or "role" in message else None
    if kind in ("system", "result") and "session_id" in members:
        return Shape.CLAUDE_CODE
    if kind in _OPENCLAW and "id" in members and "uuid" not in members:
        return Shape.OPENCLAW
    if kind in _CODEX_ITEMS or members.get("record_type") == "state":
        return Shape.CODEX
    if not kind and "id" in members and "timestamp" in members and {"instructions", "git"} & members.keys():
        return Shape.CODEX
    if kind in ("user", "gemini", "info", "error", "warning") and "content" in members:
        return Shape.GEMINI_CLI
    if {"projectHash", "$set", "$rewindTo"} & members.keys():
        return Shape.GEMINI_CLI
    if isinstance(role, str) and {"content", "parts", "tool_calls"} & members.keys():
        return Shape.MESSAGES
    if kind and {"sessionId", "uuid", "leafUuid", "messageId", "parentUuid"} & members.keys():
        return Shape.CLAUDE_CODE if "message" not in members or kind != "user" else Shape.PROMPTS
    if isinstance(members.get("display"), str) or ({"session_id", "text", "ts"} <= members.keys()):
        return Shape.PROMPTS
    return None


_OPENCLAW = frozenset(
    {
        "session",
        "model_change",
        "thinking_level_change",
        "compaction",
        "branch_summary",
        "custom",
        "custom_message",
        "label",
        "session_info",
    }
)
_CODEX_ITEMS = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "web_search_call",
    }
)


def begins_turn(members: Mapping[str, Any]) -> bool:
    """Whether a person begins to speak with this record: the place to cut a long session."""
    said: Mapping[str, Any] = members
    for name in ("payload", "message"):
        if isinstance(members.get(name), dict):
            said = members[name]
    role = said.get("role") or members.get("type")
    if role not in ("user", "human") or members.get("isMeta") or members.get("isSidechain"):
        return False
    content = said.get("content")
    if isinstance(content, list):
        return any(
            not isinstance(block, dict) or block.get("type") not in ("tool_result", "toolResult")
            for block in content
        )
    return bool(content)
