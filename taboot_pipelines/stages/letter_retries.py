"""When the item of a dead letter is tried again; and the letters of windows, which a chat model failed on.

The item of such a letter is ``window:`` and the window's key, a hash; where it stands is in the catalog's
windows. A window that fails is asked again after 1, 5 and 25 s by whatever run comes then, and after that no
more until its text, the model or the prompt changes, a person replays the letter, or it is 90 days old.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

from taboot_pipelines.errors import TabootError
from taboot_pipelines.knowledge.window_requests import OF_WINDOW, WindowRequest
from taboot_pipelines.knowledge.window_units import WindowRow
from taboot_pipelines.stores.catalog.catalog import Catalog

#: Seconds from a failure to the next retry. Once the last retry fails, the letter has failed for good.
BACKOFF_SECONDS = (1.0, 5.0, 25.0)
#: A circuit stays open for so long; until then a retry is refused without a request.
_CIRCUIT_REST_SECONDS = 300.0
_DAY = 24 * 3600.0
#: How long the letter of a window is kept since its last failure: while it is retried, and after that.
_KEPT_RETRIED, _KEPT_FAILED = 30 * _DAY, 90 * _DAY


class LetterState(StrEnum):
    """The states of a dead letter; before the first failure there is none."""

    RETRY_1 = "RETRY_1"
    RETRY_2 = "RETRY_2"
    RETRY_3 = "RETRY_3"
    PERMANENTLY_FAILED = "PERMANENTLY_FAILED"
    #: Passed by on purpose, so that there is nothing to try again.
    SKIPPED = "SKIPPED"


def state_of(letter: Mapping[str, Any], transient: Collection[str]) -> LetterState:
    """Return the state of a letter; failures whose codes are not ``transient`` are never tried again."""
    if letter["kind"] != "failed":
        return LetterState.SKIPPED
    if letter["code"] not in transient or letter["attempts"] > len(BACKOFF_SECONDS):
        return LetterState.PERMANENTLY_FAILED
    return LetterState(f"RETRY_{max(1, letter['attempts'])}")


def next_try(letter: Mapping[str, Any], transient: Collection[str]) -> float | None:
    """Return when a letter's item is tried again (Unix time); None if it is not."""
    if state_of(letter, transient) in (LetterState.SKIPPED, LetterState.PERMANENTLY_FAILED):
        return None
    wait = BACKOFF_SECONDS[max(1, letter["attempts"]) - 1]
    rest = _CIRCUIT_REST_SECONDS if letter["code"] == "E_CIRCUIT_OPEN" else 0.0
    return float(letter["last_at"] / 1_000_000 + max(wait, rest))


def has_expired(letter: Mapping[str, Any], transient: Collection[str], now: float) -> bool:
    """Whether the letter of a window is old enough to be forgotten: the window is then asked about anew."""
    failed = state_of(letter, transient) is LetterState.PERMANENTLY_FAILED
    kept = _KEPT_FAILED if failed else _KEPT_RETRIED
    return now > int(letter["last_at"]) / 1_000_000 + kept


#: Under this name the letters of windows are kept, beside those of the stage's units.
STAGE = "tier_c_windows"
#: The item of the letter that stands for the model's server.
SERVER = "server:llm"
#: Before the key in the item of a window's letter.
_KIND = "window:"
#: Failures that another asking may cure: a window over the limit stays over it.
TRANSIENT = (OF_WINDOW - {"E_TOKEN_LIMIT", "E_ENCODING"}) | {"E_LLM", "E_CIRCUIT_OPEN", "E_GPU_OOM"}


def key_of(item: str) -> str | None:
    """Return the key of the window that a letter's item names; None if it names no window."""
    return item.removeprefix(_KIND) if item.startswith(_KIND) else None


class WindowLetters:
    """The letters of one source."""

    def __init__(self, catalog: Catalog, namespace: str, source_id: str, now: float | None = None) -> None:
        self._catalog = catalog
        self._place = (namespace, source_id, STAGE)
        self._now = time.time() if now is None else now

    @cached_property
    def letters(self) -> dict[str, Mapping[str, Any]]:
        """Return the letters that were there at the first look and have not expired, by item."""
        return {
            letter["item"]: letter
            for letter in self._catalog.dead_letters.find(*self._place)
            if not has_expired(letter, TRANSIENT, self._now)
        }

    def attempt(self, key: str) -> int | None:
        """How often a window failed before; None: it is not to be asked about now."""
        letter = self.letters.get(_KIND + key)
        if letter is None:
            return 0
        at = next_try(letter, TRANSIENT)
        return None if at is None or at > self._now else int(letter["attempts"])

    def failed(self, question: WindowRequest, error: TabootError) -> None:
        """Record that a window failed, at once: a kill must not let it be asked more often than it may."""
        self._record(_KIND + question.key, error)

    def over(self, cut: WindowRow) -> None:
        if _KIND + cut.key not in self.letters:
            error = TabootError(
                "E_TOKEN_LIMIT",
                f"One sentence makes a window of {cut.window.tokens:,} tokens, which is over the limit.",
            )
            self._record(_KIND + cut.key, error)

    def server(self, error: TabootError | None) -> None:
        """Record that the model's server failed, or (None) that it did not."""
        if error is not None:
            self._record(SERVER, error)
        elif SERVER in self.letters:
            self._clear({SERVER})

    def keep(self, keys: Collection[str]) -> list[Mapping[str, Any]]:
        """Drop the letters of all other windows, which were answered or are gone; return those that stay."""
        found = self._catalog.dead_letters.find(*self._place)
        self._clear({letter["item"] for letter in found} - {SERVER, *(_KIND + key for key in keys)})
        return self._catalog.dead_letters.find(*self._place)

    def _record(self, item: str, error: TabootError) -> None:
        letter = {
            "item": item,
            "code": error.code,
            "message": error.message,
            "fingerprint": item,
            "kind": "failed",
        }
        if item not in self.letters:
            # One that has expired starts over.
            self._clear({item})
        self._catalog.dead_letters.record(*self._place, [letter], ())
        before = self.letters.get(item)
        same = before is not None and before["code"] == error.code
        attempts = before["attempts"] + 1 if before is not None and same else 1
        # In this run it is not asked about again.
        self.letters[item] = {**letter, "attempts": attempts, "last_at": int(self._now * 1_000_000)}

    def _clear(self, items: Collection[str]) -> None:
        self._catalog.dead_letters.record(*self._place, [], items)
