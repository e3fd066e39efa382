"""A UniFi controller over HTTP: sessions, the envelopes of its answers, and which of its interfaces answers.

Three ways in: the classic controller (a session by ``/api/login``), UniFi OS (a session by
``/api/auth/login``, the Network application behind ``/proxy/network``), and an API key of UniFi OS, which the
integration API takes, and on newer versions the classic one too. No specification of the classic interface is
published; its forms are those that aiounifi, UniFi-API-client and the controller's own interface use.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from taboot_pipelines.connectors.access import header_value
from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer

Flavor = Literal["unifi_os", "classic"]

#: Where the Network application lies on UniFi OS.
NETWORK = "/proxy/network"
INTEGRATION = f"{NETWORK}/integration/v1"
SERVICE = "The UniFi controller"
#: The most that the integration API gives at a time.
_PAGE = 200
_MAX_PAGES = 5_000
#: What a controller calls an error: a code, which holds no secret.
_CODE = re.compile(r"api\.err\.[A-Za-z0-9]{1,60}")
_EXPIRED = "api.err.LoginRequired"
_FORBIDDEN = ("api.err.NoPermission", "api.err.Forbidden")
#: Statuses by which a login is refused, and the one that asks for a second factor.
_REFUSED = (400, 401, 403, 404, 499)
_SECOND_FACTOR = 499
#: Where the pages of a controller lie, which people copy the address of, and its interfaces.
_PAGES = re.compile(
    r"/(?:network|manage|login|dashboard|proxy|protect|api|v2|integration|status|inform|setup)(?:[/?#].*)?\Z"
)


def tls_context(verify: bool, ca_file: Path | None) -> ssl.SSLContext | None:
    """Whom to trust: by default the usual authorities (None); ``ca_file`` alone; or, unless ``verify``,
    anybody. Raises ``E_CONFIG``."""
    if not verify:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise TabootError(
            "E_CONFIG",
            f"The ca_file {ca_file} cannot be read as PEM certificates ({type(error).__name__}).",
            path=str(ca_file),
        ) from None


class Controller:
    """One controller in one run. Made without touching the network."""

    def __init__(
        self,
        base_url: str,
        *,
        key: SecretStr | None = None,
        account: tuple[str, SecretStr] | None = None,
        flavor: Flavor | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        """``key`` or ``account`` (a name and a password). ``flavor``: asked of the controller if None."""
        base_url = _PAGES.sub("", base_url)
        self._key = header_value(key, "API key of UniFi") if key is not None else None
        self._account = account
        self._flavor: Flavor | None = "unifi_os" if key is not None else flavor
        self._token: str | None = None
        self._open = False
        self._refused: TabootError | None = None
        self.client = ApiClient(
            SERVICE, base_url, authorize=self._credentials, limits=limits, cookies=True, tls=tls
        )

    @property
    def by_key(self) -> bool:
        return self._key is not None

    # --- sessions -------------------------------------------------------------------------------------------

    def _credentials(self, renew: bool) -> Mapping[str, str]:
        if self._key is not None:
            return {"x-api-key": self._key}
        if renew or not self._open:
            self._log_in()
        return {"x-csrf-token": self._token} if self._token else {}

    def _log_in(self) -> None:
        """Open a session. A refusal is final for the run: asking again would lock the account."""
        if self._refused is not None:
            raise self._refused
        assert self._account is not None
        name, password = self._account
        self._open, self._token = False, None
        status: Any
        try:
            answer = self.client.ask(
                "POST",
                "/api/auth/login" if self.flavor == "unifi_os" else "/api/login",
                json={"username": name, "password": password.get_secret_value(), "rememberMe": True},
                authorized=False,
            )
            refused, status = answer.gone, answer.status
        except TabootError as error:
            status = error.details.get("status", 0)
            if error.code not in ("E_CREDENTIALS", "E_FORBIDDEN") and status not in _REFUSED:
                raise
            refused = True
        if refused:
            why = " without a second factor" if status == _SECOND_FACTOR else ""
            self._refused = TabootError(
                "E_CREDENTIALS",
                f"{SERVICE} does not let the account in{why}.",
                remedy="Name a local account without a second factor, and set its password's variable.",
                service=SERVICE,
            )
            raise self._refused
        self._token = answer.headers.get("x-updated-csrf-token") or answer.headers.get("x-csrf-token")
        self._open = True

    @property
    def flavor(self) -> Flavor:
        """Whether it is UniFi OS. The classic controller alone says at ``/status`` who it is."""
        if self._flavor is None:
            answer = self.client.ask("GET", "/status", authorized=False)
            try:
                said = None if answer.gone else answer.json()
            except TabootError:
                said = None  # the page of UniFi OS
            meta = said.get("meta") if isinstance(said, dict) else None
            classic = isinstance(meta, dict) and "server_version" in meta
            self._flavor = "classic" if classic else "unifi_os"
        return self._flavor

    @property
    def prefix(self) -> str:
        """What stands before the paths of the Network application."""
        return NETWORK if self.flavor == "unifi_os" else ""

    # --- answers --------------------------------------------------------------------------------------------

    def listed(self, path: str) -> list[Any] | None:
        """The objects at a path of the classic interface or its version 2, below :attr:`prefix`; None where
        there is no such path. Raises what ``ApiClient.ask`` raises, and ``E_API`` for an answer in no
        envelope."""
        url = f"{self.prefix}{path}"
        answer = self.client.get(url)
        if _code(answer) == _EXPIRED and self._key is None:
            self._log_in()
            answer = self.client.get(url)
        if answer.gone:
            return None
        said = answer.json()
        if isinstance(said, list):
            return said
        if isinstance(said, dict):
            if code := _code(answer):
                raise _error(code, path)
            if isinstance(said.get("data"), list):
                data: list[Any] = said["data"]
                return data
        raise TabootError("E_API", f"{SERVICE} answers at {path} with no list of objects.", service=SERVICE)

    def pages(self, path: str, *, required: bool = False) -> Iterator[dict[str, Any]]:
        """The objects of a list of the integration API, whatever their number; none where there is no such
        list and it is not ``required``. Raises ``E_API`` for one that does not come to its end."""
        offset, total = 0, None
        for _ in range(_MAX_PAGES):
            answer = self.client.get(f"{INTEGRATION}{path}", {"offset": offset, "limit": _PAGE})
            if answer.gone and offset == 0:
                if required:
                    raise TabootError(
                        "E_API",
                        f"{SERVICE} has no integration API at {INTEGRATION}{path}.",
                        remedy="A key needs UniFi OS with Network 9 or newer; else name a local account.",
                        service=SERVICE,
                    )
                return
            if code := _code(answer):
                raise _error(code, path)
            said = None if answer.gone else answer.json()
            data = said.get("data") if isinstance(said, dict) else None
            if said is None or not isinstance(data, list):
                raise TabootError("E_API", f"{SERVICE} answers at {path} with no page.", service=SERVICE)
            now = said.get("totalCount")
            if total is not None and now != total:
                raise TabootError(
                    "E_API",
                    f"{SERVICE} changed the list at {path} while it was read.",
                    remedy="Run again.",
                    service=SERVICE,
                )
            total = now if isinstance(now, int) else None
            yield from (one for one in data if isinstance(one, dict))
            offset += len(data)
            if not data or (offset >= total if total is not None else len(data) < _PAGE):
                if total is not None and offset < total:
                    raise TabootError(
                        "E_API", f"{SERVICE} ends the list at {path} before its {total} objects."
                    )
                return
        raise TabootError("E_API", f"{SERVICE} answers at {path} with a list that does not end.")

    def one(self, path: str) -> dict[str, Any] | None:
        """One object of the integration API; None where it is not there any more."""
        answer = self.client.get(f"{INTEGRATION}{path}")
        if answer.gone:
            return None
        said = answer.json()
        return said if isinstance(said, dict) else None

    def close(self) -> None:
        self.client.close()


def _code(answer: Answer) -> str:
    """The code of an answer that is an error whatever its status; empty for any other."""
    if b'"error"' not in answer.body[:4096]:
        return ""
    try:
        said = answer.json()
    except TabootError:
        return ""
    meta = said.get("meta") if isinstance(said, dict) else None
    if not isinstance(meta, dict) or meta.get("rc") != "error":
        return ""
    found = _CODE.fullmatch(str(meta.get("msg")))
    return found[0] if found else "an error without a code"


def _error(code: str, path: str) -> TabootError:
    if code in _FORBIDDEN:
        return TabootError(
            "E_FORBIDDEN",
            f"{SERVICE} does not let this account read {path}.",
            remedy="Give the account the role of a viewer of the site.",
            service=SERVICE,
        )
    if code == _EXPIRED:
        return TabootError("E_CREDENTIALS", f"{SERVICE} ends its sessions at once.", service=SERVICE)
    return TabootError("E_API", f"{SERVICE} answers at {path} with {code}.", service=SERVICE)
