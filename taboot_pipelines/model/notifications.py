"""Whom to tell what: the endpoints of ``notifications`` in the sources file, and the kinds of events."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


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
_URL = re.compile(r"(?i)(?:https?://[^\s/?#@]{1,253}(?:[/?][^\s#]{0,2000})?|smtps?://[^\s/?#@]{1,253}/?)")
#: A mail address that every server takes: no quotes, no comments, ASCII.
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,189}")


def _url(value: str) -> str:
    if not VARIABLE.fullmatch(value) and not (value.isascii() and _URL.fullmatch(value)):
        raise ValueError(
            "is neither an http(s) or smtp(s) URL (RFC 3986) nor ${NAME}, the variable that holds it"
        )
    return value


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError("is no mail address such as me@example.org")
    return value


Address = Annotated[str, AfterValidator(_address)]


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
    """Somebody who is told of events, over HTTP or by mail."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True)

    url: Annotated[str, AfterValidator(_url)] = Field(
        description="Where it is posted to, or `${NAME}` for the environment variable that holds it. Of mail"
        " its server: `smtp://host:587` (STARTTLS where it is offered) or `smtps://host`."
    )
    secret: Annotated[str, AfterValidator(_variable)] | None = Field(
        None,
        description="`${NAME}`: the environment variable with the key that deliveries are signed by; of mail"
        " the password of `user`.",
    )
    user: Annotated[str, Field(min_length=1, max_length=254)] | None = Field(
        None, description="Of mail: the name to log in by, which is done over TLS only."
    )
    sender: Address | None = Field(None, alias="from", description="Of mail: the address that it is from.")
    to: list[Address] = Field(
        default_factory=list,
        description="Of mail: the addresses that it is for; a refusal of one stops it.",
    )
    headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(
        default_factory=dict,
        description="Headers of every delivery, such as `Authorization: ${NAME}`; `${NAME}` alone stands for"
        " the environment variable that holds the value.",
    )
    form: Literal["json", "slack", "ntfy", "mail"] = Field(
        "json",
        description="The body: JSON, what Slack (Mattermost, Discord's `/slack`) or ntfy takes, or a mail.",
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

    @model_validator(mode="after")
    def _is_whole(self) -> Endpoint:
        mail = self.form == "mail"
        if not VARIABLE.fullmatch(self.url) and self.url[:4].lower().startswith("smtp") != mail:
            raise ValueError("has a URL that is not of its form: smtp(s) is that of mail alone")
        if mail and (not self.to or self.sender is None or (self.user is None) != (self.secret is None)):
            raise ValueError("is mail and needs `from`, `to`, and both `user` and `secret` or none of them")
        if (mail and self.headers) or (not mail and (self.to or self.sender or self.user)):
            raise ValueError(
                "has `headers`, which no mail has, or `from`, `to` or `user`, which mail alone has"
            )
        return self
