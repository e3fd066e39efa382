"""How far a dead letter is on its way, and when its item is tried again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

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
