"""Conversations of an export of ChatGPT: a mapping of nodes that name their parents."""

from __future__ import annotations

from taboot_pipelines.documents.forms.chat.blocks import add_call, add_result, add_text, add_thinking
from taboot_pipelines.documents.forms.chat.tree import Branch, branches
from taboot_pipelines.documents.forms.chat.turns import Part, Session, Turn, moment, role_of, short_name
from taboot_pipelines.model.json_text import Value

_TEXTS = frozenset({"text", "multimodal_text"})
#: What ChatGPT keeps of itself: what a user told it to heed, and its own notes on that.
_CONTEXT = frozenset({"user_editable_context", "model_editable_context"})


def read_conversation(session: Session, root: Value) -> None:
    """A conversation: the current branch, then the others."""
    session.named("id", root.string("conversation_id"), root.string("id"))
    session.named("project", root.string("gizmo_id"))
    session.title = session.runs(root.at("title"))
    nodes = root.members("mapping")
    parents = {
        key: Branch(node.string("parent"), moment(node.at("message", "create_time")))
        for key, node in nodes.items()
    }
    for key, mark in branches(parents, root.string("current_node")):
        message = nodes[key].at("message")
        if message is not None and isinstance(message.data, dict):
            _message(session, message, mark)


def _message(session: Session, message: Value, mark: str) -> None:
    author = message.string("author", "role")
    role = role_of(author)
    if role is None:
        session.unknown[f"author {author}"] += 1
        role = "note"
    kind = message.string("content", "content_type") or "text"
    if kind in _CONTEXT:
        role = "system"
    if model := message.string("metadata", "model_slug"):
        session.models[model] = None
    time = message.at("create_time")
    before = len(session.turns)
    # Calls, thoughts and the answer of a model are messages of their own; together they are its turn.
    turn = session.turn(role, time, mark=mark)
    if role == "tool":
        if texts := [text for text in _texts(message) if text.data]:
            add_result(session, turn, texts, name=message.string("author", "name"))
    elif (recipient := message.string("recipient")) not in ("", "all") and role == "assistant":
        for text in _texts(message):
            add_call(session, turn, recipient, text)
    elif kind == "code":
        language = short_name(message.string("content", "language"))
        code = session.runs(message.at("content", "text"))
        turn.parts.append(Part("code", code, name="" if language == "unknown" else language))
    elif kind in ("thoughts", "reasoning_recap"):
        for thought in message.items("content", "thoughts"):
            add_thinking(session, turn, thought.at("summary"))
            add_thinking(session, turn, thought.at("content"))
        add_thinking(session, turn, message.at("content", "content"))
    else:
        if kind not in _TEXTS and kind not in _CONTEXT:
            session.unknown[f"content {kind}"] += 1
        for text in _texts(message):
            add_text(session, turn, text)
    _attachments(message, turn)
    if len(session.turns) > before and not turn.parts:
        session.turns.pop()  # the empty messages at a conversation's root


def _texts(message: Value) -> list[Value]:
    """The texts of a message's content, whatever its type calls them."""
    content = message.at("content")
    if content is None:
        return []
    found: list[Value] = []
    for part in content.items("parts"):
        if isinstance(part.data, dict):
            found += [text for name in ("text", "content") if (text := part.at(name)) is not None]
        else:
            found.append(part)
    for name in ("title", "url", "text", "result", "user_profile", "user_instructions", "model_set_context"):
        if (text := content.at(name)) is not None:
            found.append(text)
    return [text for text in found if isinstance(text.data, str)]


def _attachments(message: Value, turn: Turn) -> None:
    for part in message.items("content", "parts"):
        kind = part.string("content_type")
        if part.at("asset_pointer") is not None or "asset" in kind:
            turn.parts.append(
                Part(
                    "attachment",
                    name=short_name(kind.replace("_", " ")) or "asset",
                )
            )
    for file in message.items("metadata", "attachments"):
        turn.parts.append(Part("attachment", name=short_name(file.string("name")) or "file"))
