"""The Markdown that aider keeps of its chats: ``# aider chat started at`` a time, ``####`` before what the
user says, ``>`` before what aider itself says, and the model's answers as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taboot_pipelines.documents.forms.chat.turns import Part, Role, Session
from taboot_pipelines.model.chats import Shape
from taboot_pipelines.model.json_text import Run, Value

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
