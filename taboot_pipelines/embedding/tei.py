"""The client of a Text Embeddings Inference server (huggingface/text-embeddings-inference, ``/info`` and ``/embed``).

Batches are as large as the server says it takes and several are in flight at once. What may pass (429, 5xx, time-outs,
broken connections) is tried again with full jitter, not before a ``Retry-After``; a batch that is refused as too large
(413) is split. The server's own words are never repeated in an error: they may quote the text.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson

from taboot_pipelines.embedding.protocol import Space, Vectors
from taboot_pipelines.embedding.validate import unit_vectors
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import TeiSettings

#: Answers that may be different a moment later.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
#: No wait between two attempts is longer, unless the server asks for it.
_MAX_BACKOFF = 30.0
#: A server that asks for a longer rest than this is reported rather than waited for.
_MAX_RETRY_AFTER = 300.0
#: An answer with more bytes is no answer to a batch of texts.
_MAX_ANSWER = 256 * 1024 * 1024
#: A server may be redeployed with another model while a knowledge base is open: ask again after this many seconds.
_SPACE_TTL = 60.0
#: The special tokens that TEI's max_input_length includes.
_SPECIAL_TOKENS = 2


@dataclass(frozen=True, slots=True)
class _Info:
    model: str
    revision: str
    max_input_length: int
    max_batch: int


class TeiEmbedder:
    """Embeds by HTTP. Made without a request: the space is asked for when it is first needed. Safe to share by threads.

    ``backoff_seconds`` is the longest first wait between attempts; it doubles with each. ``memory`` is a file that keeps
    the dimension of each model met. Raises ``E_CONFIG`` for a URL or
    key that no request could carry.
    """

    def __init__(self, settings: TeiSettings, *, backoff_seconds: float = 0.5, memory: Path | None = None) -> None:
        self._settings = settings
        self._memory = memory
        self._backoff = backoff_seconds
        self._url, auth = _base_url(settings.url or "")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        if key:
            if not re.fullmatch(r"[\x21-\x7e]+", key):
                raise TabootError(
                    "E_CONFIG", "TABOOT_TEI__API_KEY: holds characters that an HTTP header cannot carry.", settings=["TABOOT_TEI__API_KEY"]
                )
            headers["Authorization"], auth = f"Bearer {key}", None
        self._client = httpx.Client(
            headers=headers, auth=auth, timeout=settings.timeout_seconds,
            limits=httpx.Limits(max_connections=settings.max_concurrency + 1, max_keepalive_connections=settings.max_concurrency + 1),
        )
        self._lock = threading.Lock()
        self._info: _Info | None = None
        self._space: Space | None = None
        self._asked = 0.0

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> TeiEmbedder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def healthy(self) -> bool:
        """Whether ``/health`` answers 200 now; no retries."""
        try:
            return self._send("GET", "/health", None)[0] == 200
        except TabootError:
            return False

    @property
    def space(self) -> Space:
        return self._discover()[0]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of shape (len(texts), dimension). Raises ``E_EMBEDDER``, ``E_VECTOR``, ``E_TOKEN_LIMIT`` (with the index
        of the text), ``E_ENCODING`` for text that has no UTF-8."""
        space, info = self._discover()
        out = np.empty((len(texts), space.dimension), np.float32)
        starts = range(0, len(texts), info.max_batch)
        stop = threading.Event()

        def work(start: int) -> None:
            end = min(start + info.max_batch, len(texts))
            out[start:end] = self._batch(texts[start:end], start, space.dimension, stop)

        if len(starts) <= 1 or self._settings.max_concurrency == 1:
            for start in starts:
                work(start)
            return out
        pool = ThreadPoolExecutor(self._settings.max_concurrency, "tei")
        try:
            futures = [pool.submit(work, start) for start in starts]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future in done:
                    future.result()
        finally:
            # After a failure the others stop at their next wait; after success there is nothing left to stop.
            stop.set()
            pool.shutdown(cancel_futures=True)
        return out

    def embed_query(self, text: str) -> Vectors:
        """One unit vector of shape (dimension,), with ``TABOOT_TEI__PREFIX_QUERY`` before the text."""
        vector: Vectors = self.embed([self._settings.prefix_query + text])[0]
        return vector

    # --- the space ---------------------------------------------------------------------------------------------

    def _discover(self) -> tuple[Space, _Info]:
        """The space and the server's limits, asked again when they are old. A changed model is ``E_EMBEDDER``: its vectors
        would mix with those of the first (rule 20)."""
        with self._lock:
            if self._space is not None and self._info is not None and time.monotonic() - self._asked < _SPACE_TTL:
                return self._space, self._info
            info = self._ask()
            if self._space is None:
                self._space = Space(info.model, info.revision, self._dimension(info), info.max_input_length - _SPECIAL_TOKENS)
            elif (info.model, info.revision) != (self._space.model, self._space.revision):
                raise TabootError(
                    "E_EMBEDDER", "The embedding server serves another model than before.",
                    remedy="Open the knowledge base again; a new model needs a new ingest.",
                    was=self._space.model, now=info.model,
                )
            self._info, self._asked = info, time.monotonic()
            return self._space, info

    def _dimension(self, info: _Info) -> int:
        """``/info`` does not tell the dimension: one embedding does, once per model and home, so that an unchanged ingest
        embeds nothing. A wrong memory is noticed by the first batch (``E_VECTOR``)."""
        name = f"{info.model}@{info.revision}"
        known: dict[str, int] = {}
        if self._memory is not None and self._memory.exists():
            try:
                known = {str(k): int(v) for k, v in json.loads(self._memory.read_text("utf-8")).items()}
            except (ValueError, OSError, AttributeError, TypeError):
                known = {}
        if name not in known:
            known[name] = self._batch(["dimension"], 0, None, threading.Event()).shape[1]
            if self._memory is not None and self._memory.parent.is_dir():
                part = self._memory.with_name(f"{self._memory.name}.{os.getpid()}")
                part.write_text(json.dumps(known), "utf-8")
                part.replace(self._memory)
        return known[name]

    def _ask(self) -> _Info:
        status, body, _ = self._call("GET", "/info", None, threading.Event())
        if status != 200:
            raise self._refusal(status, "/info")
        try:
            answer = orjson.loads(body)
            model, revision = answer["model_id"], answer.get("model_sha")
            length, batch = answer["max_input_length"], answer.get("max_client_batch_size", 32)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise TabootError("E_EMBEDDER", "The embedding server's /info is not that of a TEI server.") from None
        usable = isinstance(model, str) and model.strip("/") and isinstance(revision, str | None)
        if not usable or not all(type(n) is int and n > 0 for n in (length, batch)) or length <= _SPECIAL_TOKENS:
            raise TabootError("E_EMBEDDER", "The embedding server's /info is not that of a TEI server.")
        return _Info(model.rstrip("/"), _revision(revision), length, batch)

    # --- requests ----------------------------------------------------------------------------------------------

    def _batch(self, texts: Sequence[str], first: int, dimension: int | None, stop: threading.Event) -> Vectors:
        """The vectors of one request; ``first`` is the index of ``texts[0]`` in the caller's list, for messages."""
        try:
            body = orjson.dumps({"inputs": list(texts), "normalize": True, "truncate": False})
        except TypeError:
            index = first + next(i for i, text in enumerate(texts) if not _is_unicode(text))
            raise TabootError("E_ENCODING", f"Text {index} holds a lone surrogate and has no UTF-8.", index=index) from None
        status, answer, _ = self._call("POST", "/embed", body, stop)
        if status == 413 and len(texts) > 1:
            half = len(texts) // 2
            parts = [(texts[:half], first), (texts[half:], first + half)]
            return np.concatenate([self._batch(part, at, dimension, stop) for part, at in parts])
        if status == 413:
            raise TabootError(
                "E_TOKEN_LIMIT", f"Text {first} is longer than the embedding server reads.", index=first, characters=len(texts[0])
            )
        if status != 200:
            raise self._refusal(status, "/embed")
        try:
            raw = orjson.loads(answer)
        except ValueError:
            raise TabootError("E_EMBEDDER", "The embedding server's answer is not JSON.") from None
        return unit_vectors(raw, len(texts), dimension, first=first)

    def _call(self, method: str, path: str, body: bytes | None, stop: threading.Event) -> tuple[int, bytes, httpx.Headers]:
        """Send until something that will not pass comes back. Raises ``E_EMBEDDER`` when the attempts are used up."""
        attempt = 0
        while True:
            retry_after = 0.0
            try:
                answer = self._send(method, path, body)
                if answer[0] not in _PASSING:
                    return answer
                failure = self._refusal(answer[0], path, attempts=attempt + 1)
                retry_after = _seconds(answer[2].get("Retry-After"))
            except TabootError as error:
                failure = error
            if attempt >= self._settings.max_retries or retry_after > _MAX_RETRY_AFTER:
                raise failure
            pause = random.uniform(0, min(_MAX_BACKOFF, self._backoff * 2.0**min(attempt, 16)))
            if stop.wait(max(pause, retry_after)):
                raise failure
            attempt += 1

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes, httpx.Headers]:
        """One attempt: status, body, headers. Raises ``E_EMBEDDER`` if none came."""
        try:
            with self._client.stream(method, self._url + path, content=body) as response:
                parts: list[bytes] = []
                size = 0
                for part in response.iter_bytes():
                    size += len(part)
                    if size > _MAX_ANSWER:
                        raise TabootError("E_EMBEDDER", f"The embedding server's answer exceeds {_MAX_ANSWER} bytes.", path=path)
                    parts.append(part)
                return response.status_code, b"".join(parts), response.headers
        except httpx.TimeoutException:
            seconds = self._settings.timeout_seconds
            raise TabootError("E_EMBEDDER", f"The embedding server did not answer within {seconds:g} s.", path=path) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, RuntimeError) as error:
            # RuntimeError: the client was closed. The cause is named by its type only: its text may hold the URL's userinfo.
            raise TabootError("E_EMBEDDER", f"The embedding server could not be reached ({type(error).__name__}).", path=path) from None

    def _refusal(self, status: int, path: str, **details: Any) -> TabootError:
        remedy = "Check TABOOT_TEI__API_KEY." if status in (401, 403) else None
        return TabootError(
            "E_EMBEDDER", f"The embedding server answered {path} with HTTP {status}.", remedy=remedy, path=path, status=status, **details
        )


def _base_url(url: str) -> tuple[str, tuple[str, str] | None]:
    """The URL without a trailing slash and without its userinfo, which becomes basic authentication."""
    try:
        parsed = httpx.URL(url)
        good = parsed.scheme in ("http", "https") and bool(parsed.host) and not parsed.query and (parsed.port or 1) < 65536
    except (httpx.InvalidURL, ValueError, TypeError):
        good = False
    if not good:
        raise TabootError("E_CONFIG", "TABOOT_TEI__URL: is not an http:// or https:// URL of a server.", settings=["TABOOT_TEI__URL"])
    auth = (parsed.username, parsed.password) if parsed.userinfo else None
    return str(parsed.copy_with(username=None, password=None, fragment=None)).rstrip("/"), auth


def _revision(revision: str | None) -> str:
    """A revision that can stand in a path: the commit's hash as a rule, otherwise a hash of what the server says."""
    if not revision:
        return "unversioned"
    return revision if re.fullmatch(r"[0-9A-Za-z_-]{1,64}", revision) else sha256(revision.encode("utf-8", "replace")).hexdigest()


def _seconds(value: str | None) -> float:
    """``Retry-After`` (RFC 9110 §10.2.3: seconds or a date) in seconds from now; 0 where it says nothing."""
    if not value:
        return 0.0
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
