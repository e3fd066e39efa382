"""Whom to tell what: the endpoints of ``notifications`` in the sources file, and the kinds of events."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class EventKind(StrEnum):
    """What is told of."""

    COMPLETED = "completed"
    FAILED = "failed"
    HELD = "held"
    DEAD_LETTER = "dead_letter"
    EXPIRY = "expiry"
    QUOTA = "quota"
    DRIFT = "drift"
    CONTENT_CHANGE = "content_change"


class DeliveryState(StrEnum):
    """How far a delivery is; ``failed`` is tried no more but by a replay."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,199})\}")
_URL = re.compile(r"(?i)https?://[^\s/?#@]{1,253}(?:[/?][^\s#]{0,2000})?")


def _url(value: str) -> str:
    if not VARIABLE.fullmatch(value) and not (value.isascii() and _URL.fullmatch(value)):
        raise ValueError("is neither an http(s) URL (RFC 3986) nor ${NAME}, the variable that holds it")
    return value


def _variable(value: str) -> str:
    if not VARIABLE.fullmatch(value):
        raise ValueError("is not ${NAME}, the environment variable that holds the secret")
    return value


def _by_default() -> list[EventKind]:
    often = {EventKind.COMPLETED, EventKind.CONTENT_CHANGE}
    return [kind for kind in EventKind if kind not in often]


_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
#: What a delivery says itself, in lower case.
_OWN = re.compile(r"(?i)x-taboot-.*|content-.*|host|transfer-encoding|expect|connection")


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not _TOKEN.fullmatch(name) or _OWN.fullmatch(name):
            raise ValueError(f"holds {name[:40]!r}, which is no header that can be set")
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"holds a value of {name} that a header cannot carry")
    return value


class Endpoint(BaseModel):
    """Somebody who is told of events, over HTTP."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, AfterValidator(_url)] = Field(
        description="Where it is posted to, or `${NAME}` for the environment variable that holds it."
    )
    secret: Annotated[str, AfterValidator(_variable)] | None = Field(
        None, description="`${NAME}`: the environment variable with the key that deliveries are signed by."
    )
    headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(
        default_factory=dict,
        description="Headers of every delivery, such as `Authorization: ${NAME}`; `${NAME}` alone stands for"
        " the environment variable that holds the value.",
    )
    form: Literal["json", "slack", "ntfy"] = Field(
        "json", description="The body: JSON, or what Slack (Mattermost, Discord's `/slack`) or ntfy takes."
    )
    events: Annotated[list[EventKind], Field(min_length=1)] = Field(
        default_factory=_by_default,
        description="Which kinds of events; default: all but `completed` and `content_change`.",
    )
    sources: list[str] = Field(
        default_factory=list,
        description="Of which sources alone; default: all, and what concerns no single one, as a quota does.",
    )
    namespaces: list[str] = Field(default_factory=list, description="Of which namespaces; default: all.")
    allow_private: bool = Field(
        False, description="Whether its address may be one of the own network, as of an ntfy at home."
    )
