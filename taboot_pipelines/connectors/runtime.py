"""What runs (type ``runtime``): a folder of dumps that an operator made, or what an engine or a cluster says
when asked by its API.

By Docker's or Podman's socket a container is ``containers/<its name>.json``, by the API of Kubernetes pods
and workloads are ``<kind>/<namespace>/<name>.json``. What is read of the graph is decided by
``extraction.tier_a.runtime``.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from taboot_pipelines.connectors.access import Access, SecretReference, VariableName, header_value, secret_of
from taboot_pipelines.connectors.api.client import ApiClient, Limits
from taboot_pipelines.connectors.api.resources import item, without
from taboot_pipelines.connectors.entries import HostName, LimitedSource, PathText, RecordedSource
from taboot_pipelines.connectors.files import source_directory
from taboot_pipelines.connectors.protocol import Planned
from taboot_pipelines.connectors.recorded import Part, RecordedFile
from taboot_pipelines.connectors.unifi.client import tls_context
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.records import Enumerated, Event, Failed, Fetched, Known, Skipped
from taboot_pipelines.model.runtime import Form, form_of

#: Members that change by themselves while nothing is done to a container.
_VOLATILE = frozenset(
    (
        *(
            "Log",
            "FailingStreak",
            "Pid",
            "ConmonPid",
            "StartedAt",
            "FinishedAt",
            "RestartCount",
            "ExecIDs",
            "SizeRw",
        ),
        *("SandboxID", "SandboxKey", "EndpointID", "lockNumber", "CgroupPath", "OciVersion", "GraphDriver"),
        *("resourceVersion", "managedFields", "lastProbeTime", "lastTransitionTime", "lastUpdateTime"),
    )
)
#: What the API of Kubernetes is asked for, by the kind of what it lists.
_LISTS = {
    "Pod": "api/v1/pods",
    "Deployment": "apis/apps/v1/deployments",
    "StatefulSet": "apis/apps/v1/statefulsets",
    "DaemonSet": "apis/apps/v1/daemonsets",
}
_PAGE = 500
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")


class RuntimeSource(RecordedSource, LimitedSource):
    """What runs on a machine or in a cluster, to be compared with what is declared: a folder of dumps
    (`docker inspect`, `docker ps --format json`, `podman inspect`, `ss -tlnp`, `kubectl get -o json`,
    `nginx -T`, `systemctl show`), the socket of Docker or Podman, or the API of Kubernetes."""

    type: Literal["runtime"]
    socket: PathText | None = Field(
        None,
        description="The socket of Docker or Podman, such as `/var/run/docker.sock`; it is asked by GET.",
    )
    base_url: str | None = Field(None, description="Where the API of Kubernetes is.")
    token: SecretReference | None = Field(
        None, description="`${NAME}`: the variable that holds a token for the API of Kubernetes."
    )
    token_env: VariableName | None = Field(None, description="The same by the variable's name alone.")
    ca_file: PathText | None = Field(
        None, description="The certificate of the authority of Kubernetes' API, relative to the sources file."
    )
    host: HostName | None = Field(
        None, description="The machine that it runs on, called as the sources of what is declared call it."
    )

    @model_validator(mode="after")
    def _one_way_to_ask(self) -> RuntimeSource:
        """Refuse fields that contradict each other."""
        if sum(way is not None for way in (self.path, self.socket, self.base_url)) != 1:
            raise ValueError("needs one of `path`, `socket` and `base_url`")
        if self.path is None and (self.include or self.exclude):
            raise ValueError("`include` and `exclude` choose files; they need a `path`")
        tokens = [field for field in (self.token, self.token_env) if field is not None]
        if len(tokens) != (self.base_url is not None) or (self.ca_file is not None and not tokens):
            raise ValueError("with a `base_url` needs one of `token` and `token_env`, which nothing else has")
        return self


class RuntimeReader:
    """Takes files that hold a dump in one of the forms of ``model.runtime``, each as one item."""

    version = "1"

    def __call__(self, file: RecordedFile) -> Iterator[Part]:
        """The file as it is. Raises ``E_MIME`` for what is no dump, ``E_PARSE`` for JSON that breaks off,
        ``E_ENCODING``, ``E_TOO_LARGE``, ``E_EMPTY``."""
        data = file.read()
        try:
            text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError:
            raise TabootError("E_MIME", f"{file.path} is no text in Unicode.", path=file.path) from None
        if text.strip() in ("", "[]"):
            raise TabootError("E_EMPTY", f"{file.path} holds nothing that runs.", path=file.path)
        try:
            form = form_of(text)
        except TabootError as error:
            raise TabootError(error.code, f"{file.path}: {error.message}", path=file.path) from None
        if form is None:
            message = f"{file.path} is no dump of what runs in a form that is known."
            raise TabootError(
                "E_MIME",
                message,
                remedy="docs/sources.md has a line for each form that makes one.",
                path=file.path,
            )
        yield Part(data, mime=form.mime)


def engine_connector(entry: RuntimeSource, access: Access) -> _Api:
    """Asks Docker or Podman by its socket."""
    assert entry.socket is not None
    socket = str(access.root / Path(entry.socket).expanduser())
    return _Api(entry, access, "The engine", "http://localhost", _engine, socket=socket)


def cluster_connector(entry: RuntimeSource, access: Access) -> _Api:
    """Asks the API of Kubernetes."""
    assert entry.base_url is not None
    return _Api(entry, access, "Kubernetes", entry.base_url, _cluster)


class _Api:
    """One way to ask what runs."""

    def __init__(
        self,
        entry: RuntimeSource,
        access: Access,
        service: str,
        base_url: str,
        listed: Callable[[ApiClient], Iterator[tuple[str, object] | TabootError]],
        *,
        socket: str | None = None,
    ) -> None:
        self._entry = entry
        self._access = access
        self._service = service
        self._base_url = base_url
        self._listed = listed
        self._socket = socket

    def plan(self) -> Iterator[Planned]:
        """The requests of a run. Nothing is asked; raises ``E_CONFIG`` where a token is not set."""
        self._headers()
        note = "one for each container, and one for their list" if self._socket else ""
        yield Planned("what runs", requests=None if self._socket else len(_LISTS), note=note)

    def events(self, known: Mapping[str, Known], tombstoned: Callable[[str], bool]) -> Iterator[Event]:
        """Raises what :meth:`ApiClient.ask` raises, before the first event, if nothing can be enumerated, and
        ``E_PATH`` where there is no socket."""
        if self._socket is not None and not Path(self._socket).is_socket():
            raise TabootError(
                "E_PATH",
                f"{self._entry.socket} is no socket that can be reached.",
                remedy="Start the engine, and let this user reach its socket.",
                path=self._entry.socket,
            )
        limits = Limits(max_requests=self._entry.max_requests, max_wait_seconds=self._entry.max_wait_seconds)
        seen: set[str] = set()
        reason = ""
        with ApiClient(
            self._service,
            self._base_url,
            headers=self._headers(),
            limits=limits,
            tls=self._tls(),
            socket=self._socket,
        ) as client:
            for found in self._listed(client):
                if isinstance(found, TabootError):
                    yield Failed(str(found.details.get("path", "")), found)
                    continue
                path, resource = found
                if self._entry.max_items is not None and len(seen) >= self._entry.max_items:
                    reason = f"the run ends after {self._entry.max_items} items"
                    break
                if path in seen:
                    yield Failed(path, TabootError("E_API", f"{self._service} lists {path} twice."))
                    continue
                seen.add(path)
                if tombstoned(path):
                    yield Skipped(path, "E_TOMBSTONED", f"{path} was deleted on purpose.")
                    continue
                event = item(known, path, resource, volatile=_VOLATILE, mime=Form.INSPECT.mime)
                if isinstance(event, Fetched) and len(event.data) > self._access.max_blob_bytes:
                    message = f"{path} has {len(event.data)} bytes, more than {self._access.max_blob_bytes}."
                    yield Skipped(path, "E_TOO_LARGE", message)
                else:
                    yield event
        yield Enumerated(not reason, reason)

    def _headers(self) -> dict[str, str]:
        secret = secret_of(self._access, self._entry.token, self._entry.token_env)
        return {} if secret is None else {"authorization": f"Bearer {header_value(secret, 'token')}"}

    def _tls(self) -> ssl.SSLContext | None:
        if self._entry.ca_file is None:
            return None
        return tls_context(True, source_directory(self._entry.ca_file, self._access.root))


def _engine(client: ApiClient) -> Iterator[tuple[str, object] | TabootError]:
    """(path, what the engine says) of each container, running or not."""
    listed = client.get("containers/json", {"all": "true"}).json()
    if not isinstance(listed, list):
        raise TabootError("E_API", "The engine answers without a list of containers.")
    for entry in listed:
        number = str(entry.get("Id", "")) if isinstance(entry, dict) else ""
        if re.fullmatch(r"[0-9a-f]{12,64}", number) is None:
            yield TabootError("E_API", "The engine lists a container without an id.", path="containers")
            continue
        # A link gives a further name, with the container's that has it before it.
        names = (str(name).lstrip("/") for name in entry.get("Names") or ())
        path = f"containers/{next(filter(_NAME.fullmatch, names), number[:12])}.json"
        try:
            answer = client.get(f"containers/{number}/json")
            if not answer.gone:  # it may be removed meanwhile
                yield path, answer.json()
        except TabootError as error:
            if error.code in ("E_REQUESTS", "E_CIRCUIT_OPEN"):
                raise
            yield TabootError(error.code, error.message, path=path)


def _cluster(client: ApiClient) -> Iterator[tuple[str, object] | TabootError]:
    """(path, what the API says) of each pod and workload."""
    for kind, path in _LISTS.items():
        after = ""
        while True:
            said = client.get(path, {"limit": _PAGE, **({"continue": after} if after else {})}).json()
            listed = said.get("items") if isinstance(said, dict) else None
            if not isinstance(listed, list):
                raise TabootError("E_API", f"Kubernetes answers without a list of {kind}s.", name=kind)
            for entry in listed:
                named = entry.get("metadata", {}) if isinstance(entry, dict) else {}
                name, namespace = str(named.get("name", "")), str(named.get("namespace", ""))
                if not (_NAME.fullmatch(name) and _NAME.fullmatch(namespace)):
                    yield TabootError("E_API", f"Kubernetes lists a {kind} without a name.", path=kind)
                    continue
                whole = {"apiVersion": "v1" if kind == "Pod" else "apps/v1", "kind": kind, **entry}
                yield f"{kind.lower()}/{namespace}/{name}.json", without(whole, ("managedFields",))
            after = str((said.get("metadata") or {}).get("continue") or "")
            if not after:
                break
