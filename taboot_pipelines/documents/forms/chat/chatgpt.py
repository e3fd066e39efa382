"""Conversations of an export of ChatGPT: a mapping of nodes that name their parents.

Messages that name their parents: the branch that is current, and what else was said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from taboot_pipelines.documents.forms.chat.turns import (
    Part,
    Session,
    Turn,
    add_call,
    add_result,
    add_text,
    add_thinking,
    moment,
    role_of,
    short_name,
)
from taboot_pipelines.model.json_text import Value

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


class Branch(NamedTuple):
    """A message in a tree: the id of the one before it, and when it was said."""

    parent: str
    time: datetime | None


def branches(nodes: Mapping[str, Branch], current: str) -> Iterator[tuple[str, str]]:
    """The ids of all messages, each with its mark: first the branch that ends in ``current`` (where that is
    not there: in the message with the most before it, of equals the latest), unmarked; then each other branch
    from where it leaves what was told, marked ``variant 1`` and so on. What goes in circles is told once.

    Takes time in proportion to the messages.
    """
    leaf = current if current in nodes else _deepest(nodes)
    path: list[str] = []
    told: set[str] = set()
    while leaf in nodes and leaf not in told:
        told.add(leaf)
        path.append(leaf)
        leaf = nodes[leaf].parent
    path.reverse()
    yield from ((key, "") for key in path)
    children: dict[str, list[str]] = {}
    for key, node in nodes.items():
        children.setdefault(node.parent, []).append(key)
    number = 0
    # Branches leave the current one in its order; what hangs on nothing comes last.
    starts = [child for key in path for child in children.get(key, ())]
    starts += [key for key, node in nodes.items() if node.parent not in nodes]
    for start in (*starts, *nodes):
        # Of several answers each begins a variant; the first goes on with the one it follows.
        waiting = [start]
        while waiting:
            following = [waiting.pop()]
            if following[0] in told:
                continue
            number += 1
            while following:
                told.add(following[0])
                yield following[0], f"variant {number}"
                following = [child for child in children.get(following[0], ()) if child not in told]
                waiting += reversed(following[1:])


def _deepest(nodes: Mapping[str, Branch]) -> str:
    """The message with the most before it, of equals the latest, of these the last."""
    depths: dict[str, int] = {}
    for start in nodes:
        chain: list[str] = []
        seen: set[str] = set()
        key = start
        while key in nodes and key not in depths and key not in seen:
            seen.add(key)
            chain.append(key)
            key = nodes[key].parent
        # A circle hangs on nothing.
        depth = depths.get(key, 0)
        for member in reversed(chain):
            depth += 1
            depths[member] = depth
    order = {key: number for number, key in enumerate(nodes)}
    return max(depths, key=lambda key: (depths[key], nodes[key].time or _NEVER, order[key]), default="")


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
