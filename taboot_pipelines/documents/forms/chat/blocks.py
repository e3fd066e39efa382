"""The content of a message: a text, or blocks of text, thinking, calls, results and attachments, as the APIs
of Anthropic, OpenAI and Google write them and all programs keep them."""

from __future__ import annotations

from collections.abc import Sequence

from taboot_pipelines.documents.forms.chat.turns import Part, Session, Turn, fields_of, short_name
from taboot_pipelines.model.json_text import Run, Value

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
