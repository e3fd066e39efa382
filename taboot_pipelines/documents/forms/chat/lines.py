"""Sessions of one record a line: Claude Code, Codex, OpenClaw, Gemini CLI, messages as chat APIs have them,
and histories of prompts. Each record tells its format by itself, so that a session can be read from any line
on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from taboot_pipelines.documents.forms.chat.gemini import add_message
from taboot_pipelines.documents.forms.chat.turns import (
    Field,
    Part,
    Role,
    Session,
    Turn,
    add_call,
    add_content,
    add_result,
    add_text,
    add_thinking,
    fields_of,
    role_of,
)
from taboot_pipelines.documents.forms.writing import cut, text_of
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import Shape, record_shape
from taboot_pipelines.model.json_text import Run, Value, parse

_LINE = re.compile(r"[^\n]+")
#: Records of Claude Code that say nothing of what was said.
_CLAUDE_CODE_SILENT = frozenset(
    {
        "agent-name",
        "agent-setting",
        "attachment",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "result",
        "tag",
        "worktree-state",
    }
)
#: What begins a message that Claude Code says in the user's name.
_TAGGED = re.compile(
    r"\s*<(?:command-(?:name|message|args)|local-command-(?:stdout|stderr|caveat)|bash-(?:input|stdout"
    r"|stderr)"
    r"|system-reminder|task-notification|user-prompt-submit-hook|ide_(?:opened_file|selection|diagnostics))\b"
)
#: Of these what is between them counts.
_TAGS = (
    "command-name",
    "command-args",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "local-command-stdout",
    "local-command-stderr",
)
_CODEX_SILENT = frozenset(
    {"compaction", "ghost_snapshot", "reasoning", "web_search_call", "image_generation_call", "other"}
)
_OPENCLAW_SILENT = frozenset({"thinking_level_change", "custom", "label", "session_info"})
#: What begins a message that a program says in the user's name.
_CONTEXT = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|permissions|INSTRUCTIONS|turn_aborted|skills?)\b"
    r"|# AGENTS\.md instructions)"
)


def read_lines(session: Session) -> None:
    """Read all records of ``session.source``. A line that is none is counted; what follows goes on."""
    records = list(_records(session))
    # Codex tells most of what is said twice, for the model and for its own screen.
    spoken = any(
        shape is Shape.CODEX and record.string("payload", "type") == "message" for record, shape in records
    )
    session.marks = _variants([record for record, shape in records if shape is Shape.CLAUDE_CODE])
    told: set[str] = set()
    for record, shape in records:
        if session.shape is None:
            session.shape = shape
        if shape is Shape.CLAUDE_CODE and record.at("uuid") is not None:
            # A session that is resumed may have what it began with once more.
            text = session.source[record.start : record.end]
            if text in told:
                continue
            told.add(text)
        if shape is Shape.CODEX and record.string("type") == "event_msg":
            if not spoken:
                _codex_event(session, record)
        else:
            _READERS[shape](session, record)


def _records(session: Session) -> Iterator[tuple[Value, Shape]]:
    for line in _LINE.finditer(session.source):
        if line[0].isspace():
            continue
        try:
            record = parse(session.source, start=line.start(), end=line.end())
        except TabootError:
            session.corrupt += 1
            continue
        if not isinstance(record.data, dict):
            session.corrupt += 1
            continue
        shape = record_shape({name: value.data for name, value in record.data.items()})
        if shape is None:
            session.unknown[record.string("type") or "record"] += 1
        else:
            yield record, shape


def _variants(records: list[Value]) -> dict[str, str]:
    """The marks of the records of Claude Code that a person went back before: of several prompts that follow
    one record the last counts. By the records' ids."""
    prompts: dict[str, dict[str, None]] = {}
    for record in records:
        content = record.at("message", "content")
        if (
            (parent := record.string("parentUuid"))
            and record.string("type") == "user"
            and content is not None
            and not (_only_results(content) or record.true("isMeta") or record.true("isSidechain"))
        ):
            prompts.setdefault(parent, {})[record.string("uuid")] = None
    left = [uuid for uuids in prompts.values() for uuid in list(uuids)[:-1]]
    if not left:
        return {}
    marks = {uuid: f"variant {number}" for number, uuid in enumerate(left, start=1)}
    for record in records:
        if (mark := marks.get(record.string("parentUuid"))) is not None:
            marks.setdefault(record.string("uuid"), mark)
    return marks


def _claude_code(session: Session, record: Value) -> None:
    kind = record.string("type")
    session.named("id", record.string("sessionId"), record.string("session_id"))
    session.named("project", record.string("cwd"))
    for name in ("customTitle", "aiTitle", "summary"):
        if kind in ("summary", "custom-title", "ai-title") and (title := record.at(name)) is not None:
            session.title = session.runs(title)
    if kind in ("summary", "custom-title", "ai-title"):
        return
    message = record.at("message")
    time = record.at("timestamp")
    mark = "subagent" if record.true("isSidechain") else session.marks.get(record.string("uuid"), "")
    if message is not None and isinstance(message.data, dict) and (kind in ("user", "assistant") or not kind):
        role = role_of(message.string("role") or kind)
        content = message.at("content")
        if role == "user" and content is not None and _only_results(content):
            role = "tool"
        elif record.true("isMeta") or record.true("isCompactSummary"):
            role = "system"
        if role is not None:
            # A program writes "<synthetic>" where no model answered.
            if (model := message.string("model")) and not model.startswith("<"):
                session.models[model] = None
            if role == "user":
                _prompt(session, content, time, mark)
                return
            key = message.string("id") if role == "assistant" else ""
            add_content(session, session.turn(role, time, key=key, mark=mark), content)
            return
    if kind == "system":
        if model := record.string("model"):
            session.models[model] = None
        add_text(session, session.turn("system", time, mark=mark), record.at("content"))
    elif kind not in _CLAUDE_CODE_SILENT:
        session.unknown[kind or "record"] += 1


def _prompt(session: Session, content: Value | None, time: Value | None, mark: str) -> None:
    """What a person says to Claude Code, and what the program says in the same way: commands that the person
    gave, what they printed, and hints to the model."""
    if content is None:
        return
    turn: Turn | None = None
    for block in content.items() or [content]:
        text = block if isinstance(block.data, str) else block.at("text")
        runs = session.runs(text) if text is not None and isinstance(text.data, str) else []
        said = text_of(runs)
        tagged = _TAGGED.match(said)
        if tagged is None:
            if turn is None or session.turns[-1] is not turn:
                turn = session.turn("user", time, mark=mark)
            add_content(session, turn, block)
            continue
        held = {name: span for name in _TAGS if (span := _between(said, name)) is not None}
        if "command-name" in held:
            command = cut(runs, *held["command-name"])
            if given := cut(runs, *held.get("command-args", (0, 0))):
                command += [Run(" ", given[0].start, given[0].start, False), *given]
            session.turn("user", time, mark=mark).parts.append(Part("text", command))
        elif "bash-input" in held:
            fields = [Field("", cut(runs, *held["bash-input"]))]
            session.turn("user", time, mark=mark).parts.append(Part("call", name="shell", fields=fields))
        elif held:
            printed = [part for span in held.values() if (part := cut(runs, *span))]
            if printed:
                session.turn("tool", time, mark=mark).parts += [Part("result", part) for part in printed]
        else:
            session.turn("system", time, mark=mark).parts.append(Part("text", runs))


def _between(text: str, name: str) -> tuple[int, int] | None:
    """What stands between the first tags of a name."""
    start = text.find(f"<{name}>")
    end = text.find(f"</{name}>", start)
    return None if start < 0 or end < 0 else (start + len(name) + 2, end)


def _only_results(content: Value) -> bool:
    kinds = [block.string("type") for block in content.items()]
    return bool(kinds) and all(kind == "tool_result" for kind in kinds)


def _codex(session: Session, record: Value) -> None:
    payload, kind = record.at("payload"), record.string("type")
    if payload is None or not isinstance(payload.data, dict):
        # The older form has the items themselves, and what is said of the session in the first record.
        payload, kind = record, "response_item" if kind else "session_meta"
        if record.string("record_type") == "state":
            return
    time = record.at("timestamp")
    if kind == "session_meta":
        session.named("id", payload.string("id"))
        session.named("project", payload.string("cwd"), payload.string("git", "repository_url"))
        instructions = payload.at("instructions")
        if instructions is not None and instructions.data:
            add_text(session, session.turn("system", payload.at("timestamp") or time), instructions)
    elif kind == "turn_context":
        session.named("project", payload.string("cwd"))
        if model := payload.string("model"):
            session.models[model] = None
    elif kind == "compacted":
        add_text(session, session.turn("system", time), payload.at("message"))
    elif kind == "response_item":
        _codex_item(session, payload, time)
    else:
        session.unknown[kind] += 1


def _codex_item(session: Session, item: Value, time: Value | None) -> None:
    kind = item.string("type")
    if kind == "message":
        role = role_of(item.string("role"))
        content = item.at("content")
        if role == "user" and content is not None and _CONTEXT.match(_first_text(content)):
            role = "system"
        if role is not None:
            add_content(session, session.turn(role, time), content)
        return
    if kind == "reasoning":
        turn = session.turn("assistant", time)
        for name in ("summary", "content"):
            for block in item.items(name):
                add_thinking(session, turn, block.at("text"))
    elif kind in ("function_call", "custom_tool_call"):
        given = item.at("arguments") or item.at("input")
        add_call(session, session.turn("assistant", time), item.string("name"), given, item.string("call_id"))
    elif kind == "local_shell_call":
        key = item.string("call_id") or item.string("id")
        add_call(session, session.turn("assistant", time), "shell", item.at("action"), key)
    elif kind == "web_search_call":
        add_call(session, session.turn("assistant", time), "web_search", item.at("action"))
    elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
        output = item.at("output")
        if output is not None and isinstance(output.data, dict):
            output = output.at("content") or output
        add_result(session, session.turn("tool", time), output, key=item.string("call_id"))
        # The output of a command may come with its exit code and duration, as JSON in the string.
        part = session.turns[-1].parts[-1]
        said = {field.name: field.runs for field in fields_of(session, output)}
        if part.kind == "result" and "output" in said:
            part.runs = said["output"]
    elif kind not in _CODEX_SILENT:
        session.unknown[kind or "response_item"] += 1


def _first_text(content: Value) -> str:
    return content.string(0, "text") if isinstance(content.data, list) else content.string()


def _codex_event(session: Session, record: Value) -> None:
    """What Codex shows, where a file has nothing else."""
    kind, time = record.string("payload", "type"), record.at("timestamp")
    roles: Mapping[str, Role] = {"user_message": "user", "agent_message": "assistant"}
    if kind in roles:
        add_text(session, session.turn(roles[kind], time), record.at("payload", "message"))
    elif kind == "agent_reasoning":
        add_thinking(session, session.turn("assistant", time), record.at("payload", "text"))


def _codex_stream(session: Session, record: Value) -> None:
    """A line of what ``codex exec --json`` prints."""
    session.named("id", record.string("thread_id"))
    item = record.at("item")
    if item is None or record.string("type") != "item.completed":
        return
    kind = item.string("type") or item.string("item_type")
    turn = session.turn("assistant")
    if kind in ("agent_message", "assistant_message"):
        add_text(session, turn, item.at("text"))
    elif kind == "reasoning":
        add_thinking(session, turn, item.at("text"))
    elif kind == "command_execution":
        add_call(session, turn, "shell", item.at("command"))
        add_result(session, turn, item.at("aggregated_output"), name="shell")
    elif kind in ("file_change", "mcp_tool_call", "web_search", "todo_list"):
        add_call(session, turn, item.string("tool") or kind, item)
    else:
        session.unknown[kind or "item"] += 1


def _openclaw(session: Session, record: Value) -> None:
    kind, time = record.string("type"), record.at("timestamp")
    message = record.at("message")
    if kind == "session":
        session.named("id", record.string("id"))
        session.named("project", record.string("cwd"))
    elif kind == "model_change":
        if model := record.string("modelId"):
            session.models[model] = None
    elif kind == "custom_message":
        add_content(session, session.turn("system", time), record.at("content"))
    elif kind in ("compaction", "branch_summary"):
        add_text(session, session.turn("system", time), record.at("summary"))
    elif message is not None:
        _message(session, message, time or message.at("timestamp"))
    elif kind not in _OPENCLAW_SILENT:
        session.unknown[kind or "record"] += 1


def _messages(session: Session, record: Value) -> None:
    session.named("id", record.string("session_id"), record.string("sessionId"))
    session.named("project", record.string("cwd"))
    _message(session, record, _time_of(record))


def _time_of(message: Value) -> Value | None:
    names = ("timestamp", "created_at", "create_time", "time", "date")
    return next((time for name in names if (time := message.at(name)) is not None), None)


def _message(session: Session, message: Value, time: Value | None) -> None:
    """A message as chat APIs have it: a role and its content, or parts."""
    role = role_of(message.string("role"))
    if role is None:
        session.unknown[f"role {message.string('role')}"] += 1
        role = "note"
    if model := message.string("model"):
        session.models[model] = None
    content = message.at("content")
    if content is None or content.data is None:
        content = message.at("parts")
        if content is not None and role == "user" and _only_responses(content):
            add_content(session, session.turn("tool", time), content)
            return
    turn = session.turn(role, time)
    if role == "tool":
        key = message.string("toolCallId") or message.string("tool_call_id")
        name = message.string("toolName") or message.string("name") or message.string("command")
        output = content if content is not None else message.at("output")
        add_result(session, turn, output, key=key, name=name, failed=message.true("isError"))
        return
    add_thinking(session, turn, message.at("reasoning_content"))
    add_content(session, turn, content)
    for call in message.items("tool_calls"):
        name = call.string("function", "name") or call.string("name")
        add_call(session, turn, name, call.at("function", "arguments") or call.at("args"), call.string("id"))


def _only_responses(content: Value) -> bool:
    """Whether what Gemini's API calls a user's turn is what tools answered."""
    parts = content.items()
    return bool(parts) and all("functionResponse" in part.members() for part in parts)


def _gemini(session: Session, record: Value) -> None:
    session.named("id", record.string("sessionId"))
    session.named("project", record.string("projectHash"))
    if record.string("type"):
        add_message(session, record)


def _prompts(session: Session, record: Value) -> None:
    """A line of a history of prompts, of any session."""
    turn: Turn = session.turn("user", _time_of(record) or record.at("ts"))
    session.named("project", record.string("project"))
    for name in ("display", "text", "message"):
        text = record.at(name)
        if text is not None and isinstance(text.data, str):
            turn.parts.append(Part("text", session.runs(text)))
            return


_READERS: Mapping[Shape, Callable[[Session, Value], None]] = MappingProxyType(
    {
        Shape.CLAUDE_CODE: _claude_code,
        Shape.CODEX: _codex,
        Shape.CODEX_EVENTS: _codex_stream,
        Shape.GEMINI_CLI: _gemini,
        Shape.MESSAGES: _messages,
        Shape.OPENCLAW: _openclaw,
        Shape.PROMPTS: _prompts,
    }
)


def read_records(session: Session, values: list[Value]) -> None:
    """Read records that stand in an array rather than on lines."""
    for record in values:
        shape = record_shape({name: value.data for name, value in record.members().items()})
        if shape is None:
            session.unknown[record.string("type") or "record"] += 1
        else:
            _READERS[shape](session, record)
