"""Chat models: batches of independent prompts in, answers or typed errors out.

The protocol and its value types are in ``protocol``. The backends are ``openai`` (a server with OpenAI's API,
such as vLLM's) and ``vllm`` (vLLM in this process). What both do alike lies beside them: ``judging`` decides
what of a model's words is an answer. Prompts and schemas belong to those who ask: answers to
questions (``retrieval.answering.model_answers``), and Tier C (``extraction.tier_c``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings

if TYPE_CHECKING:
    from taboot_pipelines.inference.chat.protocol import ChatModel
    from taboot_pipelines.stores.state.circuit import Circuit


def open_chat(settings: Settings, circuit: Circuit | None = None) -> ChatModel | None:
    """Open the chat model that the settings name; None where they name none. Nothing is loaded or asked yet.

    Raises ``E_CONFIG`` where they name two.
    """
    given = settings.llm
    if given.url and given.vllm_model:
        raise TabootError(
            "E_CONFIG",
            "TABOOT_LLM__URL and TABOOT_LLM__VLLM_MODEL are both set.",
            remedy="Unset one of them.",
            settings=["TABOOT_LLM__URL", "TABOOT_LLM__VLLM_MODEL"],
        )
    if given.url:
        from taboot_pipelines.inference.chat.openai import OpenAiChat

        return OpenAiChat(given, circuit=circuit)
    if given.vllm_model:
        from taboot_pipelines.inference.chat.vllm import VllmChat

        return VllmChat(given)
    return None
