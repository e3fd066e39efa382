"""Chats of every format: who said what when, where it stands in the bytes, and what does not get through."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taboot_pipelines.documents.forms import Formed, Given
from taboot_pipelines.documents.parse import parse_document
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.chats import CHAT, CHAT_WITH_THINKING
from taboot_pipelines.model.records import ParsedDocument
from taboot_pipelines.sources import document_forms
from taboot_pipelines_tests.world import DATA

SAMPLES = DATA / "ai-chats"
HEADING = re.compile(r"^## (\w+)(?: · ([0-9: -]+) UTC)?(?: · (.+))?$", re.M)


def lines(*records: Any) -> bytes:
    """JSONL; what is bytes stands as it is."""
    return b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records)


def formed(data: bytes, mime: str = CHAT, max_chars: int = 50_000_000) -> Formed:
    return document_forms()[mime](data, Given("x", mime, None, max_chars))


def read(data: bytes, mime: str = CHAT) -> ParsedDocument:
    """The document, any language."""
    return parse_document(
        data, path="x", mime=mime, charset=None, languages=[], max_chars=50_000_000, forms=document_forms()
    )


def turns(text: str) -> list[tuple[str, str]]:
    """(role, mark) of each heading."""
    return [(m[1], m[3] or "") for m in HEADING.finditer(text)]


def said(document: ParsedDocument, data: bytes, words: str) -> bytes:
    """The bytes that say ``words``, which stand once in the document."""
    assert document.text.count(words) == 1, document.text
    at = document.text.index(words)
    return data[slice(*document.offsets.to_bytes(at, at + len(words)))]


def user(text: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "timestamp": "2026-01-02T10:00:00Z",
        "sessionId": "s-1",
        "cwd": "/srv",
        "message": {"role": "user", "content": text},
        **fields,
    }


def assistant(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "type": "assistant",
        "timestamp": "2026-01-02T10:00:05Z",
        "sessionId": "s-1",
        "message": {"role": "assistant", "model": "claude-x", "content": list(blocks), **fields},
    }


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# The samples ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format_", "count", "words"),
    [
        ("claude-code/sample_session.jsonl", "claude-code", 5, "Done! The hello function is ready."),
        ("claude-code/sample_session.json", "claude-code", 21, "Added multiply function!"),
        ("ctxray/gemini_session.json", "gemini-cli", 8, "Failed to apply edit"),
        ("ctxray/openclaw_session.jsonl", "messages", 6, "write integration tests for the checkout"),
        ("ctxray/aider_chat_history.md", "aider", 11, "async def __aenter__(self):"),
    ],
)
def test_each_sample(name: str, format_: str, count: int, words: str) -> None:
    data = (SAMPLES / name).read_bytes()
    document = read(data)
    assert document.metadata["format"] == format_
    assert int(document.metadata["turns"]) == len(turns(document.text)) == count
    assert said(document, data, words) == words.encode()
    assert document.metadata["corrupt_lines"] == "0" and "unknown_types" not in document.metadata
    assert document.date is not None and document.metadata["last_time"] == document.date.isoformat()


@pytest.mark.parametrize("name", ["chatgpt_conversations", "claude_chat_export"])
def test_each_conversation_of_the_exports(name: str) -> None:
    for conversation in json.loads((SAMPLES / f"ctxray/{name}.json").read_bytes()):
        data = json.dumps(conversation).encode()
        document = read(data)
        assert document.title == (conversation.get("title") or conversation["name"])
        assert [role for role, _ in turns(document.text) if role != "System"] == ["User", "Assistant", "User"]
        assert "Let me plan" not in document.text
        whole = (SAMPLES / f"ctxray/{name}.json").read_bytes()
        with pytest.raises(TabootError, match="many conversations"):
            formed(whole)


# Formats ----------------------------------------------------------------------------------------------------


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-02T10:00:00.5Z", "type": kind, "payload": payload}


def test_codex_says_each_thing_once() -> None:
    arguments = json.dumps({"command": ["bash", "-lc", 'echo "héllo"\nls'], "workdir": "/srv"})
    data = lines(
        codex("session_meta", id="c-1", cwd="/srv/app", cli_version="0.46.0", instructions=None),
        codex("turn_context", cwd="/srv/app", model="gpt-5-codex"),
        codex(
            "response_item",
            type="message",
            role="user",
            content=[{"type": "input_text", "text": "<environment_context>x</environment_context>"}],
        ),
        codex(
            "response_item",
            type="message",
            role="user",
            content=[{"type": "input_text", "text": "Restart the proxy"}],
        ),
        codex("event_msg", type="user_message", message="Restart the proxy"),
        codex("event_msg", type="token_count", info={}),
        codex("response_item", type="reasoning", summary=[{"type": "summary_text", "text": "Hmm, proxies"}]),
        codex("response_item", type="function_call", name="shell", arguments=arguments, call_id="1"),
        codex(
            "response_item",
            type="function_call_output",
            call_id="1",
            output=json.dumps({"output": "a\nb", "metadata": {"exit_code": 0}}),
        ),
        codex(
            "response_item",
            type="message",
            role="assistant",
            content=[{"type": "output_text", "text": "It runs again."}],
        ),
        codex("event_msg", type="agent_message", message="It runs again."),
        codex("brand_new", type="x"),
    )
    document = read(data)
    assert [r for r, _ in turns(document.text)] == ["System", "User", "Assistant", "Assistant"]
    assert document.text.count("Restart the proxy") == document.text.count("It runs again.") == 1
    assert 'command:\nbash -lc echo "héllo"\nls\nworkdir: /srv\n' in document.text
    assert "Result of `shell`:\n\n```\na\nb\n```" in document.text
    assert "Hmm" not in document.text and "Hmm, proxies" in read(data, CHAT_WITH_THINKING).text
    assert json.loads(b'"' + said(document, data, "workdir: /srv")[-7:].strip(b'\\"}') + b'"')
    assert document.title == "Restart the proxy"
    kept = {k: document.metadata[k] for k in ("format", "session", "project", "models", "unknown_types")}
    assert kept == {
        "format": "codex",
        "session": "c-1",
        "project": "/srv/app",
        "models": ["gpt-5-codex"],
        "unknown_types": ["brand_new"],
    }


def test_codex_in_its_older_form_and_with_nothing_but_events() -> None:
    older = lines(
        {"id": "c-0", "timestamp": "2025-05-01T08:00:00Z", "instructions": "Be brief", "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which port?"}]},
        {"type": "local_shell_call", "call_id": "9", "action": {"type": "exec", "command": ["ss", "-tln"]}},
        {"type": "local_shell_call_output", "call_id": "9", "output": "LISTEN 8080"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "8080."}]},
    )
    document = read(older)
    assert [r for r, _ in turns(document.text)] == ["System", "User", "Assistant", "Assistant"]
    assert document.metadata["session"] == "c-0" and "LISTEN 8080" in document.text
    events = read(lines(codex("event_msg", type="user_message", message="Only shown")))
    assert turns(events.text) == [("User", "")] and "Only shown" in events.text
    stream = lines(
        {"type": "thread.started", "thread_id": "t"},
        {
            "type": "item.completed",
            "item": {"type": "command_execution", "command": "ls", "aggregated_output": "x"},
        },
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Listed."}},
    )
    assert "Result of `shell`:\n\n```\nx\n```" in read(stream).text


def test_openclaw_with_calls_and_results() -> None:
    data = lines(
        {
            "type": "session",
            "version": 3,
            "id": "o-1",
            "timestamp": "2026-02-06T07:00:00Z",
            "cwd": "/home/me",
        },
        {"type": "model_change", "id": "a", "provider": "x", "modelId": "gpt-5.2"},
        {
            "type": "message",
            "id": "b",
            "timestamp": "2026-02-06T07:49:03Z",
            "message": {
                "role": "user",
                "content": [text_block("Look at the disk")],
                "timestamp": 1770364143489,
            },
        },
        {
            "type": "message",
            "id": "c",
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "toolCall", "id": "k", "name": "exec", "arguments": {"command": "df -h"}}
                ],
                "timestamp": 1770364144489,
            },
        },
        {
            "type": "message",
            "id": "d",
            "message": {"role": "toolResult", "toolCallId": "k", "content": [text_block("/dev/sda1 93%")]},
        },
        {"type": "custom", "customType": "x", "data": {}, "id": "e"},
    )
    document = read(data)
    assert [r for r, _ in turns(document.text)] == ["User", "Assistant"]
    assert "Call of `exec`:\n\n```\ncommand: df -h\n```" in document.text
    assert "Result of `exec`:\n\n```\n/dev/sda1 93%\n```" in document.text
    assert "2026-02-06 07:49:04 UTC" in document.text, "milliseconds of the epoch"
    assert document.metadata["project"] == "/home/me" and "unknown_types" not in document.metadata


def test_gemini_with_thoughts_calls_and_takeout() -> None:
    call = {
        "name": "list_directory",
        "args": {"path": "/etc"},
        "status": "success",
        "result": [{"functionResponse": {"response": {"output": "hosts"}}}],
    }
    message = {
        "id": "2",
        "type": "gemini",
        "content": "Done",
        "model": "gemini-2.5-pro",
        "timestamp": "2026-01-01T00:00:01Z",
        "thoughts": [{"subject": "Listing", "description": "I list"}],
        "toolCalls": [call],
    }
    session = {"sessionId": "g", "projectHash": "p", "messages": [{"type": "user", "content": "Go"}, message]}
    document = read(json.dumps(session).encode())
    assert "Result of `list_directory`:\n\n```\nhosts\n```" in document.text
    assert "I list" not in document.text
    assert (
        read(lines({"sessionId": "g", "projectHash": "p"}, {**message, "type": "user"}, message)).title
        == "Done"
    )
    activity = {
        "header": "Gemini Apps",
        "title": "Prompted How do I renew it?",
        "time": "2025-01-01T10:00:00.000Z",
        "products": ["Gemini Apps"],
        "safeHtmlItem": [{"html": "<p>Run <code>certbot renew</code>.</p>"}],
    }
    data = json.dumps(activity).encode()
    answer = read(data)
    assert answer.title == "How do I renew it?" and "Run `certbot renew`." in answer.text
    assert said(answer, data, "How do I renew it?\n\n## A"[:18]) == b"How do I renew it?"


def node(key: str, parent: str | None, role: str = "user", text: str | None = None, **content: Any) -> Any:
    return {
        "id": key,
        "parent": parent,
        "children": [],
        "message": text
        and {
            "author": {"role": role},
            "create_time": 1710000000.0,
            "content": {"content_type": "text", "parts": [text], **content},
        },
    }


def conversation(*nodes: Any, **fields: Any) -> bytes:
    return json.dumps({"title": "T", "mapping": {n["id"]: n for n in nodes}, **fields}).encode()


def test_the_current_branch_comes_first_and_the_others_are_marked() -> None:
    nodes = [
        node("root", None),
        node("q", "root", "user", "question"),
        node("old", "q", "assistant", "first answer"),
        node("oldq", "old", "user", "thanks for the first"),
        node("oldq2", "old", "user", "no thanks"),
        node("new", "q", "assistant", "second answer"),
        node("deep", "oldq", "assistant", "you are welcome"),
    ]
    text = read(conversation(*nodes, current_node="new")).text
    order = [text.index(x) for x in ("question", "second answer", "first answer", "thanks for the first")]
    assert order == sorted(order) and text.index("you are welcome") < text.index("no thanks")
    assert turns(text) == [
        ("User", ""),
        ("Assistant", ""),
        ("Assistant", "variant 1"),
        ("User", "variant 1"),
        ("Assistant", "variant 1"),
        ("User", "variant 2"),
    ]
    longest = read(conversation(*nodes)).text
    assert turns(longest)[:4] == [("User", ""), ("Assistant", ""), ("User", ""), ("Assistant", "")]
    assert (
        turns(longest)[4:] == [("Assistant", "variant 1"), ("User", "variant 2")]
        or "second answer" in longest
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-1, 12), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(-1, 12)),
)
def test_every_message_is_told_once_whatever_the_mapping(parents: list[int], current: int | None) -> None:
    """Trees, forests, circles, parents that are not there."""
    nodes = [node(f"n{i}", f"n{p}" if p >= 0 else None, "user", f"word{i}.") for i, p in enumerate(parents)]
    text = read(conversation(*nodes, **({} if current is None else {"current_node": f"n{current}"}))).text
    for i in range(len(parents)):
        assert text.count(f"word{i}.") == 1
    marks = [mark for _, mark in turns(text)]
    assert marks == sorted(marks, key=lambda m: int(m.rpartition(" ")[2] or 0)) and "" in marks


def test_parts_of_chatgpt_that_are_no_text() -> None:
    def message(role: str, content: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return {"author": {"role": role, "name": "python"}, "content": content, **fields}

    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    contents: list[dict[str, Any]] = [
        message("user", {"content_type": "multimodal_text", "parts": [image, "What is it?"]}),
        message(
            "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "Sum", "content": "Inner"}]}
        ),
        message("assistant", {"content_type": "code", "text": "print(6)"}, recipient="python"),
        message("tool", {"content_type": "execution_output", "text": "6"}),
        message("assistant", {"content_type": "text", "parts": ["Six."]}, metadata={"model_slug": "gpt-4o"}),
        message("assistant", {"content_type": "holograph", "parts": ["Shown"]}),
    ]
    nodes = [{"id": str(i), "parent": str(i - 1), "message": m} for i, m in enumerate(contents)]
    document = read(conversation(*nodes))
    assert "Attachment: image asset pointer" in document.text and "file-service" not in document.text
    assert "Call of `python`:\n\n```\nprint(6)\n```" in document.text
    assert "Result of `python`:\n\n```\n6\n```" in document.text
    assert "Inner" not in document.text and "Shown" in document.text
    assert document.metadata["models"] == ["gpt-4o"]
    assert document.metadata["unknown_types"] == ["content holograph"]


# Markdown ---------------------------------------------------------------------------------------------------


def test_what_is_said_does_not_break_out_of_its_turn() -> None:
    document = read(
        lines(
            user("# Big title\n\n###### small\n\n```\n# comment\n\nnever closed"),
            assistant(
                text_block("~~~yaml\na: 1\n~~~\n# Other"), {"type": "image", "source": {"data": "AAAA"}}
            ),
            user([{"type": "tool_result", "tool_use_id": "?", "content": "```\nfenced\n````\n"}]),
        )
    )
    assert turns(document.text) == [("User", ""), ("Assistant", "")]
    assert "### Big title" in document.text and "\n###### small" in document.text
    assert "\n# comment" in document.text and "never closed\n```\n" in document.text
    assert "\n### Other" in document.text and "Attachment: image\n" in document.text
    assert "\n`````\n```\nfenced\n````\n`````\n" in document.text and "AAAA" not in document.text


texts = st.text(alphabet=st.sampled_from("ab \n\r\t\"\\é€😀`#~\x1b[m0/'<"), max_size=60)


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), st.integers(0, 5), st.booleans(), st.booleans())
def test_each_code_point_leads_to_the_bytes_that_say_it(
    said: list[str], first: int, ascii_: bool, bom: bool
) -> None:
    makers: list[Callable[[str], dict[str, Any]]] = [
        user,
        lambda x: assistant(text_block(x)),
        lambda x: user([{"type": "tool_result", "content": x}]),
        lambda x: {"type": "system", "content": x, "uuid": "1"},
        lambda x: assistant({"type": "thinking", "thinking": x}),
        lambda x: assistant({"type": "tool_use", "name": "n", "input": {"a": x, "b": [x, x]}}),
    ]
    records = [makers[(n + first) % len(makers)](x) for n, x in enumerate(said)]
    data = "\n".join(json.dumps(r, ensure_ascii=ascii_) for r in records).encode()
    data = b"\xef\xbb\xbf" * bom + data
    try:
        made = formed(data, CHAT_WITH_THINKING)
    except TabootError as error:
        assert error.code == "E_EMPTY" and not any(x.strip() for x in said)
        return
    assert len(made.offsets) == 0 or int(made.offsets.doc_end[-1]) <= len(made.text)
    for start, end, low, high, width in zip(
        *(
            getattr(made.offsets, c).tolist()
            for c in ("doc_start", "doc_end", "byte_start", "byte_end", "width")
        ),
        strict=True,
    ):
        written, stands = made.text[start:end], data[low:high].decode()
        if width:
            assert (
                stands == written.replace("\ufffd", stands if len(stands) == 1 else "\ufffd")
                or "\ufffd" in written
            )
        elif "UTC" not in written and "\ufffd" not in written:
            assert json.loads(f'"{stands}"').replace("\r\n", "\n").replace("\r", "\n") == written


def test_a_long_result_is_shortened_and_keeps_no_secret_of_its_middle() -> None:
    """What makes values secret may stand in what is left out."""
    data = "\n".join(f"  name{i}: c2VjcmV0LXZhbHVl{i:04}" for i in range(400))
    manifest = f"apiVersion: v1\ndata:\n{data}\nkind: Secret\nmetadata:\n" + "  note: x\n" * 600
    source = lines(
        user("show it"),
        assistant(
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "kubectl get -o yaml"}}
        ),
        user([{"type": "tool_result", "tool_use_id": "t", "content": manifest}]),
    )
    document = read(source)
    assert "c2VjcmV0" not in document.text
    assert "characters are left out …]" in document.text and len(document.text) < 6000
    left_out = int(re.findall(r"\[… (\d+) characters", document.text)[0])
    kept = document.text[document.text.index("apiVersion") :].rstrip("`\n")
    assert left_out + len(kept.replace(f"[… {left_out} characters are left out …]\n", "")) == len(
        manifest.rstrip()
    )


def test_secrets_that_are_pasted_into_chats() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    pem = (
        "-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 8
        + "-----END PRIVATE KEY-----"
    )
    secrets = ["hunter2-very-long", "correct-horse-battery", token, "MIIEvQIBADANBgkq", "s3cr3tPassw0rd"]
    records = [
        user(f"export DB_PASSWORD={secrets[0]}\nmy key is {token}"),
        assistant(
            text_block(f"Use `postgres://app:{secrets[1]}@db:5432/app`."),
            {
                "type": "tool_use",
                "id": "1",
                "name": "Write",
                "input": {"content": pem, "password": secrets[4]},
            },
            {"type": "thinking", "thinking": f"The token is {token}."},
        ),
        user([{"type": "tool_result", "tool_use_id": "1", "content": f"Authorization: Bearer {token}"}]),
    ]
    chatgpt = conversation(node("a", None, "user", records[0]["message"]["content"]))
    arguments = json.dumps({"command": ["bash", "-lc", f"curl -H 'Authorization: Bearer {token}' x"]})
    call = codex("response_item", type="function_call", name="shell", arguments=arguments, call_id="1")
    aider = (
        f"# aider chat started at 2026-01-01 10:00:00\n\n#### use password={secrets[0]} and {token}\n\nok\n"
    )
    for data in (lines(*records), chatgpt, lines(call), aider.encode()):
        document = read(data, CHAT_WITH_THINKING)
        everything = document.text + document.title + repr(document.metadata)
        assert not [s for s in secrets if s in everything], everything
        assert "*****" in everything


def test_what_claude_code_says_in_the_name_of_a_person() -> None:
    data = lines(
        {"type": "system", "subtype": "init", "session_id": "s-9", "cwd": "/srv", "model": "claude-y"},
        user("<command-name>/review</command-name>\n <command-args>PR\r\n12</command-args>"),
        user("<local-command-stdout></local-command-stdout>"),
        user([text_block("<system-reminder>Mind the list.</system-reminder>"), text_block("Why 502?")]),
        user("<bash-input>uptime -p</bash-input>"),
        user("<bash-stdout>up 3 days</bash-stdout><bash-stderr>no tty</bash-stderr>"),
        user("Use <command-name> in a sentence."),
        {"type": "result", "subtype": "success", "result": "Twice.", "session_id": "s-9"},
    )
    document = read(data)
    assert document.title == "/review PR" and document.metadata["session"] == "s-9"
    assert document.metadata["models"] == ["claude-y"] and "unknown_types" not in document.metadata
    roles = [role for role, _ in turns(document.text)]
    assert roles == ["User", "System", "User", "User", "Tool", "User"]
    assert "command-args" not in document.text and "Twice." not in document.text
    assert said(document, data, "12") == b"12" and said(document, data, "no tty") == b"no tty"
    assert "Call of `shell`:\n\n```\nuptime -p\n```" in document.text


def test_prompts_that_a_person_went_back_before_are_variants() -> None:
    def at(uuid: str, parent: str | None, record: dict[str, Any]) -> dict[str, Any]:
        return {**record, "uuid": uuid, "parentUuid": parent}

    result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
    call = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "ls"}}
    first = at("1", None, user("First."))
    data = lines(
        first,
        at("2", "1", assistant(text_block("Answer."), call, id="m1")),
        at("3", "2", user([result])),
        at("4", "2", user([result])),  # of calls at once each result follows its call
        at("5", "4", user("Second, at first.")),
        at("6", "5", assistant(text_block("To the first second."), id="m2")),
        first,
        at("7", "4", user("Second, then.")),
        at("8", "7", assistant(text_block("To the other."), id="m3")),
    )
    document = read(data)
    marks = [(role, mark) for role, mark in turns(document.text)]
    assert marks == [
        ("User", ""),
        ("Assistant", ""),
        ("User", "variant 1"),
        ("Assistant", "variant 1"),
        ("User", ""),
        ("Assistant", ""),
    ]
    assert document.text.count("First.") == 1


def test_the_json_of_older_codex_and_chunks_of_ai_studio() -> None:
    items = [
        codex("response_item")["payload"] | item
        for item in (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello?"}]},
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "1"},
        )
    ]
    session = {"session": {"id": "old", "timestamp": "2026-01-02T10:00:00Z", "instructions": "Be kind."}}
    document = read(json.dumps({**session, "items": items}, indent=1).encode())
    assert document.metadata["format"] == "codex" and document.metadata["session"] == "old"
    assert [role for role, _ in turns(document.text)] == ["System", "User", "Assistant"]
    chunks = [
        {"role": "user", "text": "Compute."},
        {"role": "model", "executableCode": {"language": "PYTHON", "code": "print(7 * 6)"}},
        {"role": "model", "inlineImage": {"mimeType": "image/png", "data": "AAAA"}},
    ]
    document = read(json.dumps({"chunkedPrompt": {"chunks": chunks}}).encode())
    assert "```python\nprint(7 * 6)\n```" in document.text and "Attachment: image" in document.text
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "42"}}}]}
    document = read(json.dumps([{"role": "user", "parts": [{"text": "Go."}]}, answer]).encode())
    assert [role for role, _ in turns(document.text)] == ["User", "Tool"]


def test_what_was_found_in_the_web_keeps_its_address_and_references_go() -> None:
    quote = {"content_type": "tether_quote", "title": "Docs", "url": "https://e.org/x", "text": "As quoted."}
    mapping = {
        "a": {"parent": None, "message": {"author": {"role": "tool", "name": "browser"}, "content": quote}},
        "b": {
            "parent": "a",
            "message": {
                "author": {"role": "assistant"},
                "content": {"content_type": "text", "parts": ["It is so\ue200cite\ue202turn0\ue201.\n# End"]},
            },
        },
    }
    document = read(json.dumps({"mapping": mapping}).encode())
    assert "Docs\nhttps://e.org/x\nAs quoted." in document.text
    assert "It is so.\n### End" in document.text
    found = {"type": "knowledge", "title": "Page", "url": "https://e.org/y", "text": "The snippet."}
    message = {"sender": "assistant", "content": [{"type": "tool_result", "content": [found]}]}
    files = {
        "attachments": [{"file_name": "a.py", "extracted_content": "x = 1"}],
        "files": [{"file_name": "a.py"}],
    }
    document = read(json.dumps({"chat_messages": [{**message, **files}]}).encode())
    assert "Page\nhttps://e.org/y\nThe snippet." in document.text
    assert document.text.count("Attachment: a.py") == 1


def test_bytes_in_another_charset_cost_no_session() -> None:
    data = lines(
        b'{"role":"user","content":"h\xe9 `x` | y"}', b'{"role":"assistant","model":"m\xff","content":"ok"}'
    )
    document = read(data)
    assert document.title == "h\ufffd `x` | y" and document.metadata["models"] == ["m\ufffd"]
    assert said(document, data, "ok") == b"ok"


# Bad input --------------------------------------------------------------------------------------------------


def test_corrupt_lines_are_counted_and_unknown_types_listed() -> None:
    data = lines(
        b"\x00\x00\x00",
        user("One"),
        b'{"type":"user","message":',
        b"[1, 2]",
        b"",
        {"type": "hologram", "sessionId": "s"},
        {"nothing": "known"},
        user("Two \ud800"),
        b'{"type":"user","message":{"role":"user","content":"bad \xff byte"}}',
        assistant({"type": "tea"}),
        b"[" * 501 + b"]" * 501,
        b'{"a":' * 100_000,
    )
    document = read(data)
    assert document.metadata["corrupt_lines"] == "5"
    assert document.metadata["unknown_types"] == ["block tea", "hologram", "record"]
    assert "One" in document.text and "Two \ufffd" in document.text and "bad \ufffd byte" in document.text


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"type":"summary","summary":"x","leafUuid":"1"}\n', "E_EMPTY"),
        (b'{"name": "package", "version": "1.0"}', "E_MIME"),
        (b"# A handbook\n\nWith text.\n", "E_MIME"),
        (b'[{"uuid": "x", "full_name": "Me"}]', "E_MIME"),
        (b'{"mapping": {}}', "E_EMPTY"),
        (b'{\n"mapping": {"a": \n', "E_PARSE"),
        (b'{"chat_messages": 7}', "E_MIME"),
        (b"\xff\xfe\x00\x01" * 50, "E_MIME"),
    ],
)
def test_what_is_no_chat_is_said_to_be_none(data: bytes, code: str) -> None:
    with pytest.raises(TabootError) as caught:
        formed(data)
    assert caught.value.code == code


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "role",
                    "message",
                    "content",
                    "payload",
                    "text",
                    "parts",
                    "mapping",
                    "author",
                    "parent",
                    "id",
                    "input",
                    "name",
                    "output",
                    "timestamp",
                    "messages",
                    "chat_messages",
                    "sender",
                    "thoughts",
                    "toolCalls",
                    "result",
                    "args",
                    "item",
                    "title",
                    "time",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
RECORDS = [
    user("x"),
    assistant(text_block("y"), {"type": "tool_use", "id": "1", "name": "n", "input": {"a": 1}}),
    codex("response_item", type="message", role="user", content=[{"type": "input_text", "text": "z"}]),
    {"type": "message", "id": "b", "message": {"role": "toolResult", "content": [text_block("r")]}},
    {"id": "1", "type": "gemini", "content": "c", "toolCalls": [{"name": "n", "result": []}]},
    json.loads(conversation(node("a", None, "user", "hi"))),
    {"uuid": "u", "name": "n", "chat_messages": [{"sender": "human", "text": "t", "content": []}]},
]


def _changed(value: Any, path: list[int], new: Any) -> Any:
    """``value`` with the member that ``path`` leads to replaced."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    if isinstance(value, dict):
        key = sorted(value)[path[0] % len(value)]
        return {**value, key: _changed(value[key], path[1:], new)}
    at = path[0] % len(value)
    return [*value[:at], _changed(value[at], path[1:], new), *value[at + 1 :]]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(RECORDS), st.lists(st.integers(0, 20), min_size=1, max_size=6), junk, st.booleans())
def test_records_of_any_shape_are_read_or_refused(
    record: Any, path: list[int], new: Any, alone: bool
) -> None:
    changed = _changed(record, path, new)
    data = json.dumps(changed).encode() if alone else lines(user("before"), changed, user("after"))
    try:
        document = formed(data)
    except TabootError as error:
        assert error.code in ("E_EMPTY", "E_MIME", "E_PARSE")
        assert alone
    else:
        assert alone or ("before" in document.text and "after" in document.text)


def _seconds(data: bytes) -> float:
    begun = time.process_time()
    try:
        formed(data)
    except TabootError:
        pass
    return time.process_time() - begun


def test_time_is_in_proportion_to_hostile_input() -> None:
    """10,000 branches of one message, a long chain, a circle; a line of 4 MB."""
    branches = [node(f"n{i}", "root", "user", "x") for i in range(10_000)]
    chain = [node(f"n{i}", f"n{i - 1}", "user", "x") for i in range(10_000)]
    circle = [node(f"n{i}", f"n{(i + 1) % 10_000}", "user", "x") for i in range(10_000)]
    for nodes in (branches, chain, circle):
        # Guards against quadratic work, which takes minutes.
        assert _seconds(conversation(node("root", None), *nodes)) < 15
    line = lines(user("x" * 4_000_000))
    with pytest.raises(TabootError, match="E_TOO_LARGE"):
        formed(line, max_chars=2_000_000)
    assert _seconds(lines(user("`#\n" * 100_000))) < 60


def test_a_document_of_many_formats_needs_no_name(tmp_path: Path) -> None:
    data = (SAMPLES / "claude-code/sample_session.jsonl").read_bytes()
    for path in ("a.md", "x", "b.json"):
        document = parse_document(
            data,
            path=path,
            mime=CHAT,
            charset=None,
            languages=["en"],
            max_chars=1_000_000,
            forms=document_forms(),
        )
        assert document.metadata["format"] == "claude-code" and document.lang == "en"
