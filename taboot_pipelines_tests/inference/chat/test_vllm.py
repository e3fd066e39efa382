"""vLLM in this process. The model is tiny and writes noise; held to a schema, its noise is an answer."""

from __future__ import annotations

import importlib.util

import pytest

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.chat import open_chat
from taboot_pipelines.inference.chat.protocol import ChatRequest, Message
from taboot_pipelines.inference.chat.vllm import VllmChat
from taboot_pipelines.settings import LlmSettings, Settings
from taboot_pipelines_tests.inference import tiny

needs_vllm = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="the extra vllm is not installed (several GB)"
)
SCHEMA = {
    "type": "object",
    "properties": {"verb": {"enum": ["uses", "runs"]}, "certain": {"type": "boolean"}},
    "required": ["verb", "certain"],
    "additionalProperties": False,
}


def ask(text: str, schema=SCHEMA, **more) -> ChatRequest:
    return ChatRequest([Message("user", text)], schema, **more)


def test_the_setting_chooses_it_and_nothing_is_loaded():
    assert isinstance(open_chat(Settings(llm=LlmSettings(vllm_model="org/model"))), VllmChat)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="the extra vllm is installed")
def test_without_the_extra_it_is_named():
    chat = VllmChat(LlmSettings(vllm_model="org/model"))
    results = chat.complete([ask("a"), ask("b")])
    assert [r.error.code for r in results if r.error] == ["E_EXTRA", "E_EXTRA"]
    assert "taboot-pipelines[vllm]" in chat.health().message


@needs_vllm
def test_a_batch_is_held_to_its_schemas_and_one_bad_window_fails_alone(tmp_path):
    folder = tiny.chat_model(tmp_path / "tiny")
    chat = VllmChat(
        LlmSettings(vllm_model=str(folder), max_output_tokens=100, max_retries=1),
        enforce_eager=True,
        dtype="float32",
        max_model_len=512,
    )
    try:
        good, again, long, surrogate, text, cut = chat.complete(
            [
                ask("nginx"),
                ask("nginx"),
                ask("word " * 3000),
                ask("\ud800"),
                ask("hello", None, max_output_tokens=5),
                ask("x", max_output_tokens=2),
            ]
        )
        assert good.answer().value["verb"] in ("uses", "runs") and good.value == again.answer().value
        assert good.usage.prompt_tokens > 5 and good.usage.completion_tokens > 5 and good.model == str(folder)
        assert [r.error.code for r in (long, surrogate, cut) if r.error] == [
            "E_TOKEN_LIMIT",
            "E_ENCODING",
            "E_LLM_MALFORMED",
        ]
        assert text.answer().finish_reason == "length" and text.usage.completion_tokens == 5
        assert cut.attempts == 2 and chat.totals()[str(folder)].requests == 6
        assert chat.health().ok
    finally:
        chat.close()


@needs_vllm
def test_what_is_no_model_is_a_typed_error(tmp_path):
    with pytest.raises(TabootError, match="E_MODEL"):
        VllmChat(LlmSettings(vllm_model=str(tmp_path))).complete([ask("a")])[0].answer()
