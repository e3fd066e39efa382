"""The chat client over real HTTP against the fake server, and once against a real model."""

from __future__ import annotations

import logging
import subprocess
import sys
import time

import pytest
from pydantic import SecretStr

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.chat import open_chat
from taboot_pipelines.inference.chat.openai import OpenAiChat
from taboot_pipelines.inference.chat.protocol import ChatRequest, ChatResult, Message, Totals, Usage
from taboot_pipelines.settings import LlmSettings, Settings
from taboot_pipelines_tests.fakes.openai import FakeOpenAi
from taboot_pipelines_tests.inference import llama

SCHEMA = {
    "type": "object",
    "properties": {"subject": {"type": "string", "maxLength": 40}, "certain": {"type": "boolean"}},
    "required": ["subject", "certain"],
    "additionalProperties": False,
}


@pytest.fixture
def server():
    with FakeOpenAi() as fake:
        yield fake


def client(fake: FakeOpenAi, **settings) -> OpenAiChat:
    return OpenAiChat(
        LlmSettings(url=fake.url, **{"max_retries": 2, "timeout_seconds": 5, **settings}),
        backoff_seconds=0.01,
    )


def ask(text: str, schema=SCHEMA, **more) -> ChatRequest:
    return ChatRequest([Message("system", "Extract."), Message("user", text)], schema, **more)


def one(chat: OpenAiChat, request: ChatRequest | None = None) -> ChatResult:
    return chat.complete([request or ask("nginx")])[0]


def failed(result: ChatResult, code: str) -> TabootError:
    assert result.error is not None and result.error.code == code, result
    assert result.value is None and result.text == ""
    with pytest.raises(TabootError):
        result.answer()
    return result.error


def test_answers_come_in_order_parsed_and_counted(server):
    chat = client(server)
    words = [f"service-{i}" for i in range(30)]
    results = chat.complete([ask(w) for w in words])
    assert [r.answer().value for r in results] == [{"subject": w, "certain": True} for w in words]
    assert all(
        r.model == "fake/llm" and r.finish_reason == "stop" and r.attempts == 1 and r.seconds > 0
        for r in results
    )
    assert results[0].usage == Usage(2, 1)
    assert chat.totals() == {"fake/llm": Totals(requests=30, failed=0, attempts=30, usage=Usage(60, 30))}
    assert chat.complete([]) == []


def test_the_question_is_deterministic_and_holds_the_model_to_the_schema(server):
    chat = client(server, max_output_tokens=77)
    one(chat, ask("a", seed=5))
    one(chat, ask("b", None, max_output_tokens=9))
    first, second = server.bodies
    assert first["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
    }
    assert (first["temperature"], first["seed"], first["max_tokens"], first["model"]) == (
        0.0,
        5,
        77,
        "fake/llm",
    )
    assert first["messages"] == [{"role": "system", "content": "Extract."}, {"role": "user", "content": "a"}]
    assert "response_format" not in second and second["max_tokens"] == 9


def test_without_a_schema_the_text_is_the_answer_even_cut_off(server):
    result = one(client(server), ask("one two three four", None, max_output_tokens=2)).answer()
    assert (result.text, result.value, result.finish_reason) == ("one two", None, "length")


def test_concurrency_is_used_and_bounded_over_threads(server):
    from concurrent.futures import ThreadPoolExecutor

    server.delay = 0.03
    chat = client(server, max_concurrency=3)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: chat.complete([ask(f"{n} {i}") for i in range(6)]), range(4)))
    assert 2 <= server.max_in_flight <= 3 and server.requests == 24


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(server, status):
    server.fail(status, times=2, retry_after="0")
    assert one(client(server)).answer().value
    assert server.requests == 3


def test_retry_after_is_honoured_within_the_deadline_only(server):
    chat = client(server)
    server.fail(429, retry_after="1")
    begin = time.monotonic()
    assert one(chat).answer()
    assert time.monotonic() - begin >= 1
    server.fail(429, retry_after="30")
    error = failed(one(chat), "E_LLM")
    assert error.details["status"] == 429 and time.monotonic() - begin < 30


def test_one_bad_window_never_fails_its_batch(server):
    chat = client(server, max_retries=0, max_concurrency=1)
    server.say("not json")
    server.fail(500)
    server.say('{"subject": "x"}')
    server.drop()
    results = chat.complete([ask(w) for w in "abcdef"] + [ask("\ud800"), ask("word " * 3000)])
    codes = [r.error.code if r.error else None for r in results]
    assert codes == [
        "E_LLM_MALFORMED",
        "E_LLM",
        "E_SCHEMA_INVALID",
        "E_LLM",
        None,
        None,
        "E_ENCODING",
        "E_TOKEN_LIMIT",
    ]
    assert results[5].value == {"subject": "f", "certain": True}


def test_an_answer_that_is_not_json_is_asked_for_again_a_little_warmer(server):
    server.say("certainly! here is", times=2)
    result = one(client(server), ask("nginx", seed=7)).answer()
    assert result.value["subject"] == "nginx" and result.attempts == 3 and result.usage == Usage(8, 7)
    assert [(b["seed"], b["temperature"]) for b in server.bodies] == [(7, 0.0), (8, 0.3), (9, 0.3)]
    server.say("hunter2 {", times=9)
    error = failed(one(client(server)), "E_LLM_MALFORMED")
    assert error.details["attempts"] == 3 and "hunter2" not in str(error) + repr(error.details)


def test_a_server_that_ignores_the_schema_is_found_out(server):
    server.say('{"subject": "s3cr3t", "certain": "yes"}', times=9)
    error = failed(one(client(server)), "E_SCHEMA_INVALID")
    assert error.details["place"] == "properties/certain/type" and "s3cr3t" not in str(error)
    assert server.requests == 3


def test_json_that_is_cut_off_is_malformed_and_says_what_to_raise(server):
    server.say('{"subject": "a', finish="length", times=9)
    assert "TABOOT_LLM__MAX_OUTPUT_TOKENS" in failed(one(client(server)), "E_LLM_MALFORMED").remedy


@pytest.mark.parametrize("finish", ["content_filter", "tool_calls", "whatever <script>"])
def test_an_answer_that_was_withheld_is_not_asked_for_again(server, finish):
    server.say('{"subject": "a", "certain": true}', finish=finish)
    error = failed(one(client(server)), "E_LLM")
    assert "script" not in str(error) and server.requests == 1


def test_a_refusal_is_not_an_answer(server):
    server.say("", refusal="I will not repeat hunter2")
    assert "hunter2" not in str(failed(one(client(server)), "E_LLM"))


def test_a_prompt_that_is_too_long_is_not_tried_again_nor_quoted(server):
    error = failed(one(client(server), ask("secret " * 3000)), "E_TOKEN_LIMIT")
    assert server.requests == 1 and "secret" not in str(error)


def test_a_server_that_hangs_meets_the_deadline(server):
    server.hang(60, times=9)
    begin = time.monotonic()
    result = one(client(server, timeout_seconds=0.5, max_retries=5))
    failed(result, "E_LLM_TIMEOUT")
    assert time.monotonic() - begin < 50


def test_the_deadline_holds_for_all_attempts_together(server):
    server.hang(0.3, times=99)
    server.react = lambda _body: "not json"
    result = one(client(server, timeout_seconds=3, max_retries=98))
    # The last asking ran out of time: what is reported is what was wrong with the answers.
    failed(result, "E_LLM_MALFORMED")
    assert 2 <= result.attempts <= 10 and result.seconds < 0.3 * 90


def test_an_answer_that_is_too_large_is_refused_once(server):
    server.raw(b" " * (17 * 1024 * 1024))
    assert "exceeds" in failed(one(client(server)), "E_LLM").message
    assert server.requests == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": null, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": ["x"]}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": "x"}, "finish_reason": {}}]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_completion_is_a_typed_error(server, body):
    server.raw(body)
    failed(one(client(server)), "E_LLM")


@pytest.mark.parametrize(
    "usage", [b"null", b"[]", b'{"prompt_tokens": -1, "completion_tokens": "9"}', b'{"prompt_tokens": 1e9}']
)
def test_usage_that_is_none_counts_nothing(server, usage):
    server.raw(
        b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": ' + usage + b"}"
    )
    assert one(client(server), ask("a", None)).answer().usage == Usage()


def test_the_model_is_the_settings_or_the_first_listed(server):
    server.models = ("one", "two")
    assert client(server).model == "one" and client(server, model="two").model == "two"
    assert one(client(server, model="two")).answer().model == "two"
    assert "TABOOT_LLM__MODEL" in failed(one(client(server, model="three")), "E_LLM").remedy
    server.models = ()
    assert "TABOOT_LLM__MODEL" in failed(one(client(server)), "E_LLM").remedy


def test_health_names_version_and_model_and_what_is_wrong(server):
    health = client(server).health()
    assert (
        health.ok
        and health.version == "0.12.0 fake/llm"
        and health.latency_ms is not None
        and server.requests == 0
    )
    assert "TABOOT_LLM__MODEL" in client(server, model="gone").health().message
    server.version = None
    assert client(server).health().version == "fake/llm"
    server.api_key = "s3cr3t-key"
    assert "TABOOT_LLM__API_KEY" in client(server, api_key=SecretStr("wrong-key")).health().message


def test_a_bare_address_means_the_usual_place(server):
    chat = OpenAiChat(LlmSettings(url=server.root, timeout_seconds=5))
    assert one(chat).answer() and chat.health().version == "0.12.0 fake/llm"


def test_the_key_is_sent_and_never_shown(server, caplog):
    caplog.set_level(logging.DEBUG)
    server.api_key = "s3cr3t-key"
    assert one(client(server, api_key=SecretStr("s3cr3t-key"))).answer()
    error = failed(one(client(server, api_key=SecretStr("wr0ng-key"))), "E_LLM")
    assert "TABOOT_LLM__API_KEY" in error.remedy
    shown = caplog.text + str(error) + repr(error.details)
    assert "s3cr3t-key" not in shown and "wr0ng-key" not in shown


def test_settings_choose_and_two_are_refused(server, tmp_path):
    assert open_chat(Settings(home=tmp_path)) is None
    chosen = open_chat(Settings(home=tmp_path, llm=LlmSettings(url=server.url)))
    assert isinstance(chosen, OpenAiChat)
    with pytest.raises(TabootError, match="TABOOT_LLM__URL and TABOOT_LLM__VLLM_MODEL"):
        open_chat(Settings(home=tmp_path, llm=LlmSettings(url=server.url, vllm_model="m")))
    with pytest.raises(TabootError, match="TABOOT_LLM__URL"):
        open_chat(Settings(home=tmp_path, llm=LlmSettings(url="ftp://h")))


@pytest.mark.skipif(bool(llama.missing()), reason=f"a real model on a real server: {llama.missing()}")
def test_a_real_server_holds_a_real_model_to_the_schema():
    schema = {
        **SCHEMA,
        "properties": {**SCHEMA["properties"], "verb": {"enum": ["uses", "runs", "stores"]}},
        "required": ["subject", "verb"],
    }
    with subprocess.Popen(
        [sys.executable, "-m", llama.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            chat = OpenAiChat(
                LlmSettings(url=process.stdout.readline().strip(), timeout_seconds=120, max_output_tokens=100)
            )
            assert chat.health().ok
            question = ask("The nginx container stores its logs in a volume.", schema)
            first, again, long = chat.complete([question, question, ask("word " * 3000, schema)])
            assert first.answer().value["verb"] in ("uses", "runs", "stores") and isinstance(
                first.value["subject"], str
            )
            assert (
                first.value == again.value
                and first.usage.prompt_tokens > 10
                and first.usage.completion_tokens > 5
            )
            failed(long, "E_TOKEN_LIMIT")
            text = chat.complete([ask("Say hello.", None, max_output_tokens=3)])[0].answer()
            assert text.finish_reason == "length" and text.usage.completion_tokens == 3
        finally:
            process.stdin.close()
            process.wait(120)


def test_a_stream_gives_the_text_in_pieces(server):
    text = "nginx läuft [1]. Restic auch [2].\nEnde."
    server.react = lambda body: text
    pieces = list(client(server).stream(ask("nginx", None)))
    assert "".join(pieces) == text and len([p for p in pieces if p]) > 3
    assert server.bodies[-1]["stream"] is True


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (lambda s: s.fail(500), "E_LLM"),
        (lambda s: s.fail(401), "E_LLM"),
        (lambda s: s.drop(), "E_LLM"),
        (lambda s: s.hang(60), "E_LLM_TIMEOUT"),
        (lambda s: s.raw(b'data: {"choices": 5}\n\n'), "E_LLM"),
        (lambda s: s.raw(b"data: nonsense\n\n"), "E_LLM"),
    ],
)
def test_a_stream_that_fails_says_so(server, fault, code):
    fault(server)
    with pytest.raises(TabootError) as caught:
        list(client(server, timeout_seconds=1).stream(ask("nginx", None)))
    assert caught.value.code == code


def test_a_stream_that_is_left_early_gives_its_slot_back(server):
    server.react = lambda body: "word " * 100
    chat = client(server, max_concurrency=1)
    for _ in range(3):
        pieces = chat.stream(ask("nginx", None))
        assert next(p for p in pieces if p)
        pieces.close()
    assert one(chat, ask("nginx", None)).answer().text
