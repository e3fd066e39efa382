"""What of a model's words is an answer, and how it is asked again where there is none.

Judged here whoever served the model: an answer is complete, is JSON, and is what the schema asks. A server
that is told to keep to a schema may ignore it in silence (vLLM from 0.12 does so with ``guided_json``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.inference.batching import is_unicode
from taboot_pipelines.inference.chat.protocol import ChatRequest
from taboot_pipelines.settings import LlmSettings

#: A value nested deeper answers no schema of ours, and recursion over it would fail elsewhere.
_MAX_DEPTH = 64
#: No number of a real answer has more digits; converting many is slow.
_MAX_DIGITS = 400
#: Errors that asking again may cure.
WORTH_ASKING_AGAIN = frozenset({"E_LLM_MALFORMED", "E_SCHEMA_INVALID"})
#: The least temperature of a question that is asked again.
_MIN_TEMPERATURE_AGAIN = 0.3


def temperature(settings: LlmSettings, attempt: int) -> float:
    """The temperature of an attempt, counted from 0: as set at first, then at least a little warm, since
    repeating the question unchanged would repeat the answer.
    """
    return settings.temperature if attempt == 0 else max(settings.temperature, _MIN_TEMPERATURE_AGAIN)


def judge(request: ChatRequest, text: str, finish_reason: str) -> Any:
    """Return the value of an answer; None where no schema was asked for.

    Raises ``E_LLM`` for an answer that was withheld, ``E_LLM_MALFORMED`` for one that was cut off or is not
    JSON (or holds a key twice, NaN, a lone surrogate), ``E_SCHEMA_INVALID`` naming the part of the schema.
    The answer is never quoted.
    """
    if finish_reason not in ("stop", "length"):
        known = (
            finish_reason
            if finish_reason in ("content_filter", "tool_calls", "function_call", "abort", "error")
            else "unknown"
        )
        raise TabootError(
            "E_LLM",
            f"The model gave no answer (finish reason {known}).",
            remedy="Look at the window; its content may have been refused.",
        )
    if request.schema is None:
        if not is_unicode(text):
            raise TabootError(
                "E_LLM_MALFORMED", "The model's answer holds a lone surrogate and has no UTF-8."
            )
        return None
    if finish_reason == "length":
        raise TabootError(
            "E_LLM_MALFORMED",
            "The model's answer was cut off before its JSON was complete.",
            remedy="Raise TABOOT_LLM__MAX_OUTPUT_TOKENS, or send smaller windows.",
            characters=len(text),
        )
    value = parse(text)
    validate(value, request.schema)
    return value


def parse(text: str) -> Any:
    """Parse strict JSON (RFC 8259) in which no key stands twice. Raises ``E_LLM_MALFORMED``."""
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_refuse, parse_int=_integer, parse_float=_number
        )
    except (ValueError, RecursionError):
        raise TabootError(
            "E_LLM_MALFORMED", "The model's answer is not JSON.", characters=len(text)
        ) from None
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise TabootError(
                "E_LLM_MALFORMED", f"The model's answer is nested deeper than {_MAX_DEPTH} levels."
            )
        if any(isinstance(v, str) and not is_unicode(v) for v in level):
            raise TabootError(
                "E_LLM_MALFORMED", "The model's answer holds a lone surrogate and has no UTF-8."
            )
        inner: list[Any] = []
        for v in level:
            if isinstance(v, dict):
                inner.extend((*v.keys(), *v.values()))
            elif isinstance(v, list):
                inner.extend(v)
        level = inner
    return value


def validate(value: Any, schema: Mapping[str, Any]) -> None:
    """Check a value against a schema. Raises ``E_SCHEMA_INVALID`` naming the place in the schema that it does
    not satisfy.
    """
    try:
        error = next(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value), None)
    except TabootError:
        raise
    # A schema with a reference that leads nowhere fails in the library's own ways.
    except Exception as failure:  # noqa: BLE001
        raise TabootError(
            "E_SCHEMA_INVALID", f"The request's schema cannot be applied ({type(failure).__name__})."
        ) from None
    if error is not None:
        # The place in the schema is ours to name; the place in the answer may be made of its own words.
        place = "/".join(str(part) for part in error.absolute_schema_path)
        raise TabootError(
            "E_SCHEMA_INVALID", f"The model's answer does not satisfy the schema at {place}.", place=place
        )


@lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    import jsonschema
    from referencing import Registry

    loaded = json.loads(schema)
    try:
        jsonschema.Draft202012Validator.check_schema(loaded)
    except jsonschema.SchemaError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        raise TabootError(
            "E_SCHEMA_INVALID", f"The request's schema is no JSON Schema at /{place}."
        ) from None
    # An empty registry fetches nothing, whatever a schema refers to.
    return jsonschema.Draft202012Validator(loaded, registry=Registry())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _refuse(_constant: str) -> Any:
    raise ValueError


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError
    return int(digits)


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError
    return value
