"""A tailnet (type ``tailscale``): devices, policy and DNS by the API of Tailscale or Headscale, or a folder
of exported files.

By the API a device is ``devices/<its id>.json``, the policy ``policy.hujson`` as people wrote it, and DNS
``dns/<what>.json``. What is read of the graph is decided by ``extraction.tier_a.tailscale``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from taboot_pipelines.connectors.access import Access, SecretReference, VariableName, header_value, secret_of
from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.api.resources import item
from taboot_pipelines.connectors.api.tokens import AccessToken, Grant
from taboot_pipelines.connectors.entries import LimitedSource, RecordedSource
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.connectors.recorded import Part, RecordedFile, RecordedFiles
from taboot_pipelines.errors import TabootError
from taboot_pipelines.http.answers import Answer
from taboot_pipelines.model.ids import sha256_hex
from taboot_pipelines.model.json_text import Value, parse
from taboot_pipelines.model.records import (
    Enumerated,
    Event,
    Failed,
    Fetched,
    Gone,
    Known,
    NotModified,
    Skipped,
)
from taboot_pipelines.model.tailnets import form_of

API = "https://api.tailscale.com"
_MIME = "application/json"
_POLICY = "policy.hujson"
#: Members that change by themselves while nothing is done to a device.
_VOLATILE = frozenset(
    (
        "lastSeen",
        "latency",
        "connectedToControl",
        "online",
        "updateAvailable",
        "currentlyConnected",
        "updatedAt",
    )
)
#: What the API tells of DNS, by the last part of its path.
_DNS = ("nameservers", "preferences", "searchpaths", "split-dns")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
#: What Tailscale's secrets are, by their beginnings.
_KINDS = {
    "tskey-api-": "an API access token",
    "tskey-client-": "the secret of an OAuth client",
    "tskey-auth-": "a key that devices join a tailnet with",
}


class TailscaleSource(RecordedSource, LimitedSource):
    """Devices, policy and DNS of a tailnet: by the API of Tailscale or Headscale, or a folder of exported
    files (answers of these APIs, `tailscale status --json`, netmaps, policy files)."""

    type: Literal["tailscale"]
    flavor: Literal["tailscale", "headscale"] = Field("tailscale", description="Whose API it is.")
    base_url: str | None = Field(
        None, description="Where the API is; required for Headscale, default https://api.tailscale.com."
    )
    tailnet: str = Field(
        "-",
        pattern=r"^[A-Za-z0-9@._-]{1,253}$",
        description="The tailnet's name; `-` is the one that the credentials belong to.",
    )
    token: SecretReference | None = Field(
        None, description="`${NAME}`: the variable that holds an API access token or Headscale's API key."
    )
    token_env: VariableName | None = Field(None, description="The same by the variable's name alone.")
    client_id: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_-]{1,200}$", description="The id of an OAuth client, in place of a token."
    )
    client_secret: SecretReference | None = Field(
        None, description="`${NAME}`: the variable that holds the OAuth client's secret."
    )
    client_secret_env: VariableName | None = Field(None, description="The same by the variable's name alone.")
    users: bool = Field(
        False, description="Also read users and their roles, which `autogroup:admin` and its like stand for."
    )

    @model_validator(mode="after")
    def _one_way_to_ask(self) -> TailscaleSource:
        """Refuse fields that contradict each other, and an API without credentials."""
        tokens = [f for f in (self.token, self.token_env) if f is not None]
        secrets = [f for f in (self.client_secret, self.client_secret_env) if f is not None]
        if self.path is not None:
            if tokens or secrets or self.client_id or self.base_url:
                raise ValueError("has a `path`, so that no API is asked: leave out what the API needs")
            return self
        if self.include or self.exclude:
            raise ValueError("`include` and `exclude` choose files; they need a `path`")
        if len(tokens) + len(secrets) != 1 or (self.client_id is None) != (not secrets):
            raise ValueError(
                "needs a `path`, one of `token` and `token_env`, or a `client_id` with its secret"
            )
        if self.flavor == "headscale" and (self.base_url is None or secrets or self.users):
            raise ValueError("of Headscale needs `base_url` and a token, and has no OAuth clients and roles")
        return self


class TailnetReader:
    """Takes files that hold a tailnet in one of the forms of ``model.tailnets``, each as one item."""

    version = "1"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        """The file as it is. Raises ``E_MIME`` for what is of no tailnet, ``E_PARSE`` for JSON that breaks
        off, ``E_ENCODING``, ``E_TOO_LARGE``, ``E_EMPTY``."""
        data = file.read()
        if not data.strip():
            raise TabootError("E_EMPTY", f"{file.path} is empty.", path=file.path)
        try:
            text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError:
            raise TabootError("E_MIME", f"{file.path} is no text in Unicode.", path=file.path) from None
        root = parsed(text, file.path)
        if form_of(root) is None:
            message = f"{file.path} is JSON, but holds no devices, policy or DNS of a tailnet."
            raise TabootError("E_MIME", message, path=file.path)
        yield Part(data, mime=_MIME)


def parsed(text: str, path: str) -> Value:
    """The HuJSON of a text. Raises ``E_PARSE``, or ``E_MIME`` where it does not even begin as an object or a
    list."""
    try:
        root = parse(text, hujson=True)
    except TabootError as error:
        if re.match(r"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*[{\[]", text) is None:
            raise TabootError("E_MIME", f"{path} is neither JSON nor HuJSON.", path=path) from None
        raise TabootError(error.code, f"{path}: {error.message}", path=path, **error.details) from None
    if not isinstance(root.data, dict | list):
        raise TabootError("E_MIME", f"{path} is neither JSON nor HuJSON.", path=path)
    return root


class TailnetConnector:
    """Asks the API of Tailscale or Headscale."""

    def __init__(self, entry: TailscaleSource, access: Access) -> None:
        self._entry = entry
        self._access = access
        self._headscale = entry.flavor == "headscale"
        self._service = "Headscale" if self._headscale else "Tailscale"

    def plan(self) -> Iterator[Planned]:
        """The requests of a run. Nothing is asked; raises ``E_CONFIG`` where a secret is not set, or is of
        another kind."""
        _check_kinds(self._entry, self._access)
        _authority(self._entry, self._access, API, Limits())
        yield Planned("devices", requests=1, note="one answer with all of them")
        yield Planned("policy", requests=1, items=1)
        if not self._headscale:
            yield Planned("DNS", requests=len(_DNS), items=len(_DNS))
            if self._entry.users:
                yield Planned("users", requests=1, items=1)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises what :meth:`ApiClient.ask` raises, before the first event, if the devices cannot be
        enumerated, and ``E_CONFIG`` where a secret is not set, or is of another kind. Anything else that
        fails is one item."""
        entry = self._entry
        _check_kinds(entry, self._access)
        limits = Limits(max_requests=entry.max_requests, max_wait_seconds=entry.max_wait_seconds)
        base = re.sub(r"/api/v[12]/?$", "", (entry.base_url or API).rstrip("/"))
        base_url = f"{base}/api/{'v1' if self._headscale else 'v2'}"
        with ApiClient(
            self._service,
            base_url,
            authorize=_authority(entry, self._access, base_url, limits),
            limits=limits,
            absent=_has_no_policy,
        ) as client:
            run = _Run(client, entry, known, tombstoned, self._access.max_blob_bytes)
            yield from run.headscale() if self._headscale else run.tailscale()


def _authority(
    entry: TailscaleSource, access: Access, base_url: str, limits: Limits
) -> Callable[[bool], Mapping[str, str]]:
    """Gives the header that carries a token, or one that an OAuth client gets by its secret. Raises
    ``E_CONFIG``."""
    secret = secret_of(access, entry.token, entry.token_env)
    if secret is not None:
        header = {"authorization": f"Bearer {header_value(secret, 'token')}"}
        return lambda _: header
    client_secret = secret_of(access, entry.client_secret, entry.client_secret_env)
    assert client_secret is not None
    form = {
        "grant_type": "client_credentials",
        "client_id": entry.client_id or "",
        "client_secret": client_secret.get_secret_value().strip(),
    }
    return AccessToken(
        "Tailscale's token endpoint", f"{base_url}/oauth/token", lambda: Grant(form), limits=limits
    )


class _Run:
    """One enumeration."""

    def __init__(
        self,
        client: ApiClient,
        entry: TailscaleSource,
        known: Mapping[str, Known],
        tombstoned: Callable[[str], bool],
        limit: int,
    ) -> None:
        self._client = client
        self._entry = entry
        self._known = known
        self._tombstoned = tombstoned
        self._limit = limit

    def tailscale(self) -> Iterator[Event]:
        tailnet = f"tailnet/{self._entry.tailnet}"
        answer = self._client.get(f"{tailnet}/devices", {"fields": "all"})
        reason = yield from self._devices(self._list(answer, "devices"), "nodeId", "id")
        yield from self._hujson(f"{tailnet}/acl")
        for what in _DNS:
            yield from self._resource(f"{tailnet}/dns/{what}", f"dns/{what}.json")
        if self._entry.users:
            yield from self._resource(f"{tailnet}/users", "users.json")
        yield Enumerated(not reason, reason)

    def headscale(self) -> Iterator[Event]:
        name = "nodes"
        answer = self._client.get("node")
        if answer.gone:
            # Before 0.23 nodes were called machines.
            name, answer = "machines", self._client.get("machine")
        nodes = self._list(answer, name)
        reason = yield from self._devices(nodes, "id")
        if nodes and not any("approvedRoutes" in node for node in nodes if isinstance(node, dict)):
            # Before 0.26 routes stood apart.
            yield from self._resource("routes", "routes.json")
        yield from self._policy_text()
        yield Enumerated(not reason, reason)

    # --- what is listed -------------------------------------------------------------------------------------

    def _list(self, answer: Answer, name: str) -> list[Any]:
        if answer.gone:
            raise TabootError(
                "E_API",
                f"{answer.service} has no list of {name} at {urlsplit(answer.url).path}.",
                remedy="Check `base_url` and `flavor`."
                if self._entry.tailnet == "-"
                else "Check `tailnet`; without it the tailnet that the credentials belong to is read.",
                name=name,
            )
        said = answer.json()
        listed = said.get(name) if isinstance(said, dict) else None
        if not isinstance(listed, list):
            raise TabootError("E_API", f"{answer.service} answers without a list of {name}.", name=name)
        return listed

    def _devices(self, listed: list[Any], *ids: str) -> Generator[Event, None, str]:
        """The event of each device; returns why the list is not all of them, or nothing."""
        seen: set[str] = set()
        for number, device in enumerate(listed):
            if self._entry.max_items is not None and number >= self._entry.max_items:
                return f"the run ends after {self._entry.max_items} devices"
            found = [str(device[i]) for i in ids if device.get(i)] if isinstance(device, dict) else []
            path = f"devices/{found[0]}.json" if found and _ID.fullmatch(found[0]) else ""
            if not path or path in seen:
                what = "two devices of one id" if path else "a device without an id"
                yield Failed(path or "devices", TabootError("E_API", f"{self._client.service} lists {what}."))
                continue
            seen.add(path)
            yield self._item(path, device, _page(device) if self._at_home else None)
        return "" if listed else "the list of devices is empty"

    @property
    def _at_home(self) -> bool:
        return self._entry.flavor == "tailscale" and self._entry.base_url is None

    def _item(self, path: str, resource: object, url: str | None = None) -> Event:
        if self._tombstoned(path):
            return Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
        event = item(self._known, path, resource, volatile=_VOLATILE, mime=_MIME, url=url)
        return self._bounded(event) if isinstance(event, Fetched) else event

    def _bounded(self, event: Fetched) -> Event:
        size = len(event.data)
        if size <= self._limit:
            return event
        return Skipped(event.path, "E_TOO_LARGE", f"{event.path} has {size} bytes, more than {self._limit}.")

    # --- single things --------------------------------------------------------------------------------------

    def _resource(self, path: str, item_path: str) -> Iterator[Event]:
        try:
            answer = self._client.get(path)
            if answer.gone:
                yield from self._gone(item_path)
            else:
                yield self._item(item_path, answer.json())
        except TabootError as error:
            yield Failed(item_path, error)

    def _hujson(self, path: str) -> Iterator[Event]:
        """The policy as its authors wrote it, comments and all."""
        before = self._known.get(_POLICY)
        etag = before.etag if before is not None and before.whole else None
        try:
            answer = self._client.get(path, headers={"accept": "application/hujson"}, etag=etag)
            if answer.not_modified and before is not None:
                yield NotModified(_POLICY)
            elif answer.gone:
                yield from self._gone(_POLICY)
            else:
                yield self._policy(answer.text(), answer.body, answer.etag, before)
        except TabootError as error:
            yield Failed(_POLICY, error)

    def _policy_text(self) -> Iterator[Event]:
        """The policy that Headscale gives as a string of its answer."""
        before = self._known.get(_POLICY)
        try:
            answer = self._client.get("policy")
            text = "" if answer.gone else answer.value().string("policy")
            if not text.strip():
                yield from self._gone(_POLICY)
            else:
                yield self._policy(text, text.encode(errors="backslashreplace"), None, before)
        except TabootError as error:
            yield Failed(_POLICY, error)

    def _policy(self, text: str, data: bytes, etag: str | None, before: Known | None) -> Event:
        if self._tombstoned(_POLICY):
            return Skipped(_POLICY, "E_TOMBSTONED", f"{_POLICY} was deleted on purpose.")
        try:
            parsed(text, _POLICY)
        except TabootError:
            service = self._client.service
            raise TabootError("E_API", f"{service} gives a policy that is neither JSON nor HuJSON.") from None
        if before is not None and before.whole and before.sha256 == sha256_hex(data):
            return NotModified(_POLICY)
        return self._bounded(Fetched(_POLICY, data, mime=_MIME, charset="utf-8", etag=etag))

    def _gone(self, path: str) -> Iterator[Event]:
        """A thing that the service never had is no event."""
        if path in self._known:
            yield Gone(path, "E_NOT_FOUND", f"{self._client.service} has no {path} any more.")


def _check_kinds(entry: TailscaleSource, access: Access) -> None:
    """Raise ``E_CONFIG`` for a secret of Tailscale's that is not what its field is for, by how it begins."""
    given = (
        ("token", secret_of(access, entry.token, entry.token_env), "tskey-api-"),
        (
            "client_secret",
            secret_of(access, entry.client_secret, entry.client_secret_env),
            "tskey-client-",
        ),
    )
    for field, secret, beginning in given:
        said = secret.get_secret_value().strip() if secret is not None else ""
        found = next((kind for start, kind in _KINDS.items() if said.startswith(start)), None)
        if found is not None and not said.startswith(beginning):
            raise TabootError(
                "E_CONFIG",
                f"The `{field}` of source {entry.id!r} is {found}, and not {_KINDS[beginning]}.",
                remedy="Set its variable to one, or name it by the field that it is for"
                " (`token`, or `client_id` with `client_secret`).",
                source=entry.id,
            )


def _has_no_policy(answer: Answer) -> bool:
    """Whether Headscale says, with status 500, that no policy was ever set."""
    return b"acl policy not found" in answer.body[:4096]


def _page(device: Mapping[str, Any]) -> str | None:
    """Where people see a device: the admin console knows it by its first address."""
    addresses = device.get("addresses")
    first = addresses[0] if isinstance(addresses, list) and addresses else None
    if not isinstance(first, str) or not re.fullmatch(r"[0-9a-fA-F.:]{2,45}", first):
        return None
    return f"https://login.tailscale.com/admin/machines/{first}"


def tailnet_connector(entry: TailscaleSource, access: Access) -> RecordedFiles | TailnetConnector:
    """Read files where the entry has a ``path``, else ask the API."""
    if entry.path is not None:
        include = ("*.json", "*.hujson", "*.jsonc", "*.json5")
        return RecordedFiles(entry, access, TailnetReader(), default_include=include)
    return TailnetConnector(entry, access)
