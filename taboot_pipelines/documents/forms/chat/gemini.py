"""Sessions with Gemini: of its CLI, of AI Studio, and what Takeout says of its apps."""

from __future__ import annotations

import re

from taboot_pipelines.documents.forms.chat.turns import (
    Part,
    Session,
    add_call,
    add_content,
    add_result,
    add_text,
    add_thinking,
    role_of,
    short_name,
)
from taboot_pipelines.documents.forms.writing import cut, text_of
from taboot_pipelines.documents.html_content import page_content
from taboot_pipelines.documents.html_markdown import join
from taboot_pipelines.documents.html_tree import parse as parse_html
from taboot_pipelines.model.json_text import Run, Value

#: What Takeout puts before a prompt, in English.
#: The names of what AI Studio has beside or in place of a text.
_ATTACHED = re.compile(r"(?:drive|inline|youtube)([A-Z][A-Za-z]*)")
_PROMPTED = re.compile(r"Prompted[\s\u00a0]+")


def add_message(session: Session, message: Value) -> None:
    """A message of the CLI."""
    kind = message.string("type")
    role = role_of(kind)
    if role is None:
        session.unknown[kind or "message"] += 1
        return
    if model := message.string("model"):
        session.models[model] = None
    turn = session.turn(
        role, message.at("timestamp"), key=message.string("id") if role == "assistant" else ""
    )
    for thought in message.items("thoughts"):
        add_thinking(session, turn, thought.at("subject"))
        add_thinking(session, turn, thought.at("description"))
    add_content(session, turn, message.at("content"))
    for call in message.items("toolCalls"):
        name = call.string("name")
        add_call(session, turn, name, call.at("args"))
        failed = call.string("status") in ("error", "cancelled")
        answers = call.items("result")
        for answer in answers:
            response = answer.at("functionResponse", "response")
            output = None if response is None else response.at("output") or response.at("error") or response
            add_result(session, turn, output or answer, name=name, failed=failed)
        if not answers and (shown := call.at("resultDisplay")) is not None:
            add_result(session, turn, shown, name=name, failed=failed)


def read_cli(session: Session, root: Value) -> None:
    """A session of the CLI."""
    session.named("id", root.string("sessionId"))
    session.named("project", root.string("projectHash"))
    if (summary := root.at("summary")) is not None:
        session.title = session.runs(summary)
    for message in root.items("messages"):
        add_message(session, message)


def read_studio(session: Session, root: Value) -> None:
    """A prompt of AI Studio as it is kept in Drive."""
    if model := root.string("runSettings", "model"):
        session.models[model.removeprefix("models/")] = None
    system = root.at("systemInstruction")
    if system is not None and system.data:
        add_content(session, session.turn("system"), system.at("parts") or system)
    for chunk in root.items("chunkedPrompt", "chunks"):
        turn = session.turn(role_of(chunk.string("role")) or "note", chunk.at("createTime"))
        attached = [match[1] for name in chunk.members() if (match := _ATTACHED.fullmatch(name))]
        if (text := chunk.at("text")) is not None:
            (add_thinking if chunk.true("isThought") else add_text)(session, turn, text)
        elif not attached:
            add_content(session, turn, chunk)
        turn.parts += [Part("attachment", name=short_name(name.lower())) for name in attached]


def read_activity(session: Session, root: Value) -> None:
    """An activity of Takeout: a prompt, and the answer as HTML."""
    time, title = root.at("time"), root.at("title")
    user = session.turn("user", time)
    if title is not None and isinstance(title.data, str):
        runs = session.runs(title)
        if prompted := _PROMPTED.match(text_of(runs)):
            runs = cut(runs, prompted.end(), len(title.data))
        user.parts.append(Part("text", runs))
    for name in ("attachedFiles", "imageFile"):
        for file in root.items(name) or filter(None, [root.at(name)]):
            called = short_name(file.string()) or "file"
            user.parts.append(Part("attachment", name=called))
    answers = [html for item in root.items("safeHtmlItem") if (html := item.at("html")) is not None]
    if not answers:
        return
    turn = session.turn("assistant", time)
    for html in answers:
        page = html.string()
        text, _ = join(page_content(page, parse_html(page)).blocks)
        if text.strip():
            turn.parts.append(Part("text", [Run(text, html.start, html.end, False)]))
