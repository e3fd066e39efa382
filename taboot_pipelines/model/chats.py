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

_AIDER = re.compile(rb"^#[ \t]+aider chat started at ", re.M)
_CONVERSATION = re.compile(rb'"(?:mapping|chat_messages|safeHtmlItem)"[ \t\r\n]*:')
_DOCUMENT = re.compile(rb'"(?:mapping|chat_messages|loglines|messages|chunkedPrompt|history)"[ \t\r\n]*:')
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
        return _kind_of_array(text)
    if _AIDER.search(head):
        return FileKind.MARKDOWN
    if not text:
        return None
    lines = text.split(b"\n", _MAX_LINES)
    records = [record for line in lines[:_MAX_LINES] if (record := parsed(line)) is not None]
    if text.startswith(b"{") and not records:
        # Nothing on a line of its own is an object: one that goes over many lines, or a very long one.
        if _DOCUMENT.search(text):
            return FileKind.DOCUMENT
        return FileKind.LINES if len(lines) == 1 and _MESSAGES.search(text) else None
    if text.startswith(b"{") and len(records) == 1 and len([x for x in lines if x.strip()]) == 1:
        return (
            FileKind.DOCUMENT
            if session_shape(records[0])
            else FileKind.LINES
            if record_shape(records[0])
            else None
        )
    if text.startswith(b"{\n") or text.startswith(b"{\r"):
        return FileKind.DOCUMENT if _DOCUMENT.search(text) else None
    return FileKind.LINES if any(map(record_shape, records)) else None


def _kind_of_array(text: bytes) -> FileKind | None:
    if _CONVERSATION.search(text):
        return FileKind.CONVERSATIONS
    if _DOCUMENT.search(text[:4096]):
        return FileKind.CONVERSATIONS
    return FileKind.DOCUMENT if _MESSAGES.search(text) else None


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object that a line is; None for anything else."""
    try:
        value = orjson.loads(line)
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
    if {"title", "time"} <= members.keys() and {"safeHtmlItem", "products", "header"} & members.keys():
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


_OPENCLAW = frozenset({"session", "model_change", "thinking_level_change", "compaction", "branch_summary"})
_CODEX_ITEMS = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
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
