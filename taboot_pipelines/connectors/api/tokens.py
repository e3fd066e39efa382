"""An OAuth access token (RFC 6749), got when it is first needed and renewed before it ends."""

from __future__ import annotations

import base64
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.http.throttling import seconds_to_wait
from taboot_pipelines.model.json_text import Value

#: A token is renewed so long before it ends.
_MARGIN_SECONDS = 60.0
#: How long one lives of which the service does not say.
_DEFAULT_SECONDS = 3600.0
_MAX_SECONDS = 86_400.0
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
#: What the codes of RFC 6749, 5.2 mean for whoever wrote the entry: what is wrong, and the remedy.
_REFUSALS = {
    "invalid_grant": (
        "the grant that the source names: it expired or was revoked",
        "Let the account grant access again, and set the new token's variable.",
    ),
    "invalid_client": ("the OAuth client: its id or its secret is wrong", "Correct the client's variables."),
    "unauthorized_client": (
        "this way to a token for the OAuth client",
        "Register a client of the kind that the documentation of this source names.",
    ),
    "invalid_scope": ("the scopes of the grant", "Grant the scopes that the documentation names."),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """What is exchanged for a token: the fields of the request, and the client's id and secret where they go
    into its header and not into its fields."""

    form: Mapping[str, str]
    basic: tuple[str, str] | None = None


class AccessToken:
    """Keeps the token of one run, by several threads if need be. Made without touching the network.

    ``service`` opens the sentences of messages. ``grant`` is asked for whenever a token is, and raises
    ``E_CONFIG`` where a secret is not set. It is what :class:`ApiClient` takes to authorize requests.
    """

    def __init__(
        self,
        service: str,
        url: str,
        grant: Callable[[], Grant],
        *,
        limits: Limits,
        headers: Mapping[str, str] | None = None,
        throttled: Callable[[int, Mapping[str, str]], float | None] = seconds_to_wait,
    ) -> None:
        self._service = service
        self._url = url
        self._grant = grant
        self._limits = limits
        self._headers = headers
        self._throttled = throttled
        self._lock = threading.Lock()
        self._token = ""
        self._until = -math.inf
        self._given = threading.local()

    def __call__(self, renew: bool) -> Mapping[str, str]:
        """The header with the token. ``renew``: the one that this thread was given was refused."""
        return {"authorization": f"Bearer {self.token(renew)}"}

    def token(self, renew: bool = False) -> str:
        """The token. Raises ``E_CREDENTIALS`` where the service gives none, and as :meth:`ApiClient.ask`."""
        with self._lock:
            # Threads whose requests were refused together are given one new token.
            refused = renew and getattr(self._given, "token", self._token) == self._token
            if refused or time.monotonic() >= self._until:
                self._renew()
            self._given.token = self._token
            return self._token

    def _renew(self) -> None:
        self._token, self._until = "", -math.inf
        grant = self._grant()
        headers: dict[str, str] = {}
        if grant.basic is not None:
            pair = base64.b64encode(":".join(grant.basic).encode()).decode()
            headers["authorization"] = f"Basic {pair}"
        with _TokenClient(
            self._service, self._url, headers=self._headers, limits=self._limits, throttled=self._throttled
        ) as client:
            answer = client.ask("POST", self._url, form=grant.form, headers=headers)
        if answer.gone:
            raise TabootError(
                "E_CREDENTIALS", f"{self._service} is not at this address.", remedy="Correct its URL."
            )
        said = answer.value() if answer.status < 400 else _refusal(answer)
        token = said.string("access_token") if said is not None else ""
        if answer.status >= 400 or not _TOKEN.fullmatch(token):
            what, remedy = _REFUSALS.get(
                said.string("error") if said is not None else "",
                ("the credentials of the source", "Correct the variables that the entry names."),
            )
            raise TabootError("E_CREDENTIALS", f"{self._service} refuses {what}.", remedy=remedy)
        assert said is not None
        self._token = token
        self._until = time.monotonic() + max(0.0, _seconds(said) - _MARGIN_SECONDS)


class _TokenClient(ApiClient):
    """Leaves refusals, which say what is wrong (RFC 6749, 5.2), to the keeper."""

    def _judged(self, answer: Answer) -> Answer:
        return answer if answer.status in (400, 401) else super()._judged(answer)


def _refusal(answer: Answer) -> Value | None:
    try:
        return answer.value()
    except TabootError:
        return None


def _seconds(said: Value) -> float:
    """How long a token lives; some services write a fraction."""
    stated = said.at("expires_in")
    data = said.integer("expires_in") if stated is None or not isinstance(stated.data, float) else stated.data
    return _DEFAULT_SECONDS if data is None else float(max(0.0, min(data, _MAX_SECONDS)))
