"""Sessions that are one JSON text: exports of ChatGPT and Claude, and files of programs that write a session
anew each time."""

from __future__ import annotations

from taboot_pipelines.documents.forms.chat.blocks import add_content, add_text
from taboot_pipelines.documents.forms.chat.chatgpt import read_conversation
from taboot_pipelines.documents.forms.chat.gemini import read_activity, read_cli, read_studio
from taboot_pipelines.documents.forms.chat.lines import read_records
from taboot_pipelines.documents.forms.chat.tree import Branch, branches
from taboot_pipelines.documents.forms.chat.turns import Part, Session, moment, role_of, short_name
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import Shape, session_shape
from taboot_pipelines.model.json_text import Value, parse


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
