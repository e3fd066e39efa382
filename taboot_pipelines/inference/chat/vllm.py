"""The chat model in this process, by vLLM (extra ``vllm``): whole batches at once, without a server.

``LLM.chat`` with ``StructuredOutputsParams`` (vLLM from 0.12). Its answers are judged as those of a server
are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.batching import is_unicode
from taboot_pipelines.inference.chat.judging import WORTH_ASKING_AGAIN, judge, temperature
from taboot_pipelines.inference.chat.protocol import (
    Accounts,
    ChatRequest,
    ChatResult,
    ToolCall,
    Totals,
    Usage,
)
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.settings import LlmSettings

_SETTING = "TABOOT_LLM__VLLM_MODEL"


class VllmChat:
    """The model is loaded with the first batch and keeps its GPU until :meth:`close`. Safe to share by
    threads: batches queue. ``options`` go to ``vllm.LLM``. There is no deadline: a batch ends by its
    ``max_output_tokens``."""

    def __init__(self, settings: LlmSettings, **options: Any) -> None:
        self._settings = settings
        self._options = options
        self._accounts = Accounts()
        self._lock = threading.RLock()
        #: vLLM's ``LLM``; None before the first batch and after :meth:`close`.
        self._llm: Any = None

    @property
    def model(self) -> str:
        return str(self._settings.vllm_model)

    def complete(self, requests: Sequence[ChatRequest]) -> list[ChatResult]:
        """As :meth:`ChatModel.complete`; what is worth asking again is asked again together."""
        results = [ChatResult(model=self.model)] * len(requests)
        with self._lock:
            waiting = list(range(len(requests)))
            for attempt in range(self._settings.max_retries + 1):
                if not waiting:
                    break
                for index, result in zip(
                    waiting, self._ask([requests[i] for i in waiting], attempt), strict=True
                ):
                    results[index] = _joined(results[index], result)
                waiting = [
                    i
                    for i in waiting
                    if (error := results[i].error) is not None
                    and error.code in WORTH_ASKING_AGAIN
                    and attempt + 1 in requests[i].attempts(self._settings.max_retries)
                ]
        for result in results:
            self._accounts.add(result)
        return results

    def stream(self, request: ChatRequest) -> Iterator[str | ToolCall]:
        """As :meth:`ChatModel.stream`, in one piece; it calls no tools."""
        yield self.complete([request])[0].answer().text

    def totals(self) -> dict[str, Totals]:
        return self._accounts.totals()

    def health(self) -> Health:
        """Loads the model."""

        def ask() -> tuple[str | None, str]:
            with self._lock:
                self._loaded()
            import vllm

            return f"{vllm.__version__} {self.model}", ""

        return probe("llm", "vllm", ask)

    def close(self) -> None:
        """Lets go of the model; the next batch loads it again."""
        with self._lock:
            self._llm = None

    def _ask(self, requests: Sequence[ChatRequest], attempt: int) -> list[ChatResult]:
        """One result a request. A batch that vLLM refuses is halved until the prompt that it minds stands
        alone.
        """
        begin = time.monotonic()
        for index, request in enumerate(requests):
            if not all(isinstance(m.content, str) and is_unicode(m.content) for m in request.messages):
                error = TabootError("E_ENCODING", "A message holds a lone surrogate and has no UTF-8.")
                rest = self._ask([*requests[:index], *requests[index + 1 :]], attempt)
                return [*rest[:index], ChatResult(model=self.model, error=error), *rest[index:]]
        if not requests:
            return []
        try:
            outputs = self._loaded().chat(
                [[{"role": m.role, "content": m.content} for m in request.messages] for request in requests],
                [self._parameters(request, attempt) for request in requests],
                use_tqdm=False,
            )
        except TabootError as error:
            return [ChatResult(model=self.model, seconds=time.monotonic() - begin, error=error)] * len(
                requests
            )
        except Exception as error:  # noqa: BLE001 - vLLM raises its own, PyTorch's and its validators' kinds
            if len(requests) > 1 and _refused(error):
                half = len(requests) // 2
                return [*self._ask(requests[:half], attempt), *self._ask(requests[half:], attempt)]
            return [
                ChatResult(model=self.model, seconds=time.monotonic() - begin, error=_failure(error))
            ] * len(requests)
        seconds = time.monotonic() - begin
        return [
            self._result(request, output, seconds) for request, output in zip(requests, outputs, strict=True)
        ]

    def _parameters(self, request: ChatRequest, attempt: int) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        attempt = attempt if request.attempt is None else request.attempt
        return SamplingParams(
            temperature=temperature(self._settings, attempt),
            seed=request.seed + attempt,
            max_tokens=request.max_output_tokens or self._settings.max_output_tokens,
            # Where any whitespace is allowed, a model may write nothing else until its tokens are used up.
            structured_outputs=(
                StructuredOutputsParams(json=dict(request.schema), disable_any_whitespace=True)
                if request.schema is not None
                else None
            ),
        )

    def _result(self, request: ChatRequest, output: Any, seconds: float) -> ChatResult:
        written = output.outputs[0]
        usage = Usage(len(output.prompt_token_ids or ()), len(written.token_ids))
        finish = str(written.finish_reason)
        value, error = None, None
        try:
            value = judge(request, written.text, finish)
        except TabootError as failure:
            error = failure
        return ChatResult(
            text=written.text if error is None else "",
            value=value,
            usage=usage,
            seconds=seconds,
            finish_reason=finish,
            model=self.model,
            attempts=1,
            error=error,
        )

    def _loaded(self) -> Any:
        """vLLM's ``LLM``, loaded when first asked for; called under the lock."""
        if self._llm is None:
            self._llm = self._load()
        return self._llm

    def _load(self) -> Any:
        if find_spec("vllm") is None:
            raise TabootError(
                "E_EXTRA",
                f"{_SETTING} needs the extra vllm.",
                remedy="pip install 'taboot-pipelines[vllm]'",
                settings=[_SETTING],
            )
        try:
            from vllm import LLM

            return LLM(model=self.model, seed=0, **self._options)
        except Exception as error:  # noqa: BLE001 - as above
            if "OutOfMemory" in type(error).__name__:
                raise TabootError(
                    "E_GPU_OOM", "The GPU's memory does not hold the model.", settings=[_SETTING]
                ) from None
            raise TabootError(
                "E_MODEL",
                f"{_SETTING}: vLLM cannot load the model ({type(error).__name__}).",
                remedy="Run vLLM by hand with the same model to see why.",
                settings=[_SETTING],
            ) from None


def _refused(error: Exception) -> bool:
    """Whether vLLM minds a prompt, which is a ValueError of Python's or, in later versions, an error of the
    client's.
    """
    return isinstance(error, ValueError) or any(
        kind.__name__ == "VLLMClientError" for kind in type(error).__mro__
    )


def _failure(error: Exception) -> TabootError:
    if "OutOfMemory" in type(error).__name__:
        return TabootError("E_GPU_OOM", "The GPU's memory did not suffice for the batch.")
    # vLLM's own words tell which; they are matched, never repeated.
    if _refused(error) and any(
        words in str(error) for words in ("maximum model length", "max_model_len", "context length")
    ):
        return TabootError(
            "E_TOKEN_LIMIT",
            "The prompt is longer than the model reads.",
            remedy="Send smaller windows, or use a model with a longer context.",
        )
    return TabootError(
        "E_LLM", f"vLLM failed on a prompt ({type(error).__name__}).", remedy="Look at vLLM's own log."
    )


def _joined(before: ChatResult, after: ChatResult) -> ChatResult:
    """``after`` with what the attempts before it cost."""
    return replace(
        after,
        usage=before.usage + after.usage,
        seconds=before.seconds + after.seconds,
        attempts=before.attempts + after.attempts,
    )
