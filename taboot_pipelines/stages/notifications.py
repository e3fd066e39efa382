"""Notifications: what a person should hear of, posted to the endpoints of the sources file.

Events are read from the catalog's state, so that none is lost with a process, and each has a key of its own:
a delivery is made once for an event and endpoint, and tried until it is taken (at least once; its id tells a
receiver of a second one). Nothing older than an endpoint is told to it.

A body is signed by HMAC-SHA256 (RFC 2104) over its time and its bytes, as GitHub and Stripe do::

    X-Taboot-Timestamp: 1767225600
    X-Taboot-Signature: sha256=<hex of HMAC(secret, "1767225600." + body)>

An address is resolved, checked and pinned as a crawled page's is: none of the own network unless the endpoint
allows it, and no redirect is followed. Payloads have ids, counts and codes; no path, name or text of a
document, so that an erasure has nothing to look for here.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import orjson

from taboot_pipelines.crawl.addresses import Network, reachable
from taboot_pipelines.crawl.authorities import authorities
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import JobState, Lifecycle
from taboot_pipelines.model.notifications import VARIABLE, DeliveryState, Endpoint, EventKind
from taboot_pipelines.stages.dead_letters import retry_at
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.jobs import is_idle
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.catalog.writing import now_micros
from taboot_pipelines.stores.tables import NAMESPACE

_SECOND = 1_000_000
#: Seconds to wait after each failed try; after the last one a delivery is `failed`.
RETRY_SECONDS = (60, 300, 1800, 7200, 43_200)
#: So often one try posts it where the answer is one of these, or 500 and more.
_QUICK_TRIES, _BUSY = 3, frozenset({408, 425})
#: Seconds that an endpoint has for one answer, and a pass for all endpoints: the daemon gives up a tick that
#: takes a minute.
TIMEOUT_SECONDS, PASS_SECONDS = 10.0, 30.0
#: What was delivered, or failed for good, is kept so long.
KEPT_SECONDS = 30 * 24 * 3600
#: Jobs of a source that are looked at: what ended before them was told of before.
_JOBS = 10
#: The share of a quota at which it is told of, beside all of it.
_ALMOST = 0.9
_EVERYWHERE: tuple[Network, ...] = (ip_network("0.0.0.0/0"), ip_network("::/0"))
#: So much of an answer is read.
_MAX_ANSWER = 1 << 16


@dataclass(frozen=True)
class Event:
    """Something that happened: its key within the namespace, its kind and source (None: of the namespace),
    when (microseconds since the epoch), a sentence about it, what to do, and numbers and codes."""

    key: str
    kind: EventKind
    source: str | None
    at: int
    says: str
    remedy: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NotificationPass:
    """What one pass did: how many deliveries were new, were taken, failed and are tried again, and failed for
    good."""

    new: int = 0
    delivered: int = 0
    again: int = 0
    failed: int = 0


def events(workspace: Workspace, namespace: str) -> Iterator[Event]:
    """Yield what there is to tell of a namespace at present."""
    catalog = workspace.catalog
    for row in catalog.sources.find(namespace):
        yield from _of_jobs(workspace, namespace, row["source_id"])
    for letter in catalog.dead_letters.find(namespace):
        if letter["kind"] == "failed" and retry_at(letter) is None:
            source = letter["source_id"]
            yield Event(
                ids.digest(
                    "letter", source, letter["stage"], letter["item"], letter["code"], letter["first_at"]
                ),
                EventKind.DEAD_LETTER,
                source,
                letter["last_at"],
                f"An item of {source} failed for good at {letter['stage']} ({letter['code']}).",
                f"`taboot letters list --source {source}` names it with what to do.",
                {"stage": letter["stage"], "code": letter["code"], "attempts": letter["attempts"]},
            )
    yield from _of_expiry(workspace, namespace)
    yield from _of_quota(workspace, namespace)


def _of_jobs(workspace: Workspace, namespace: str, source: str) -> Iterator[Event]:
    jobs = workspace.catalog.jobs.find(namespace, source, limit=_JOBS)
    for number, job in enumerate(jobs):
        if job["ended_at"] is None:
            continue
        at, key = job["ended_at"], job["job_id"]
        if job["state"] in {JobState.FAILED.value, JobState.CANCELED.value}:
            error = orjson.loads(job["error"] or "{}").get("error", {})
            code = error.get("code")
            what = f"failed ({code})" if code else "was interrupted"
            yield Event(
                ids.digest("job", key),
                EventKind.FAILED,
                source,
                at,
                f"The run of {source} {what}.",
                f"`taboot status` says why; `taboot ingest {source}` tries again.",
                {"job": key, "code": code, "state": job["state"]},
            )
        elif job["held"]:
            if number > 0:
                continue  # what was held then is held still, or was decided
            yield Event(
                ids.digest("held", source, job["configuration"], job["held"]),
                EventKind.HELD,
                source,
                at,
                f"{job['held']:,} deletions of {source} wait for a person.",
                f"`taboot held` lists them; `taboot ingest {source} --confirm-deletes` confirms them.",
                {"job": key, "deletions": job["held"]},
            )
        elif not is_idle(job):
            facts = {k: job[k] for k in ("fetched", "removed", "skipped", "failed")}
            said = ", ".join(f"{count:,} {name}" for name, count in facts.items() if count)
            yield Event(
                ids.digest("job", key),
                EventKind.COMPLETED,
                source,
                at,
                f"{source} was read{f': {said}' if said else ''}.",
                "Nothing is to be done.",
                {"job": key, **facts},
            )


def _of_expiry(workspace: Workspace, namespace: str) -> Iterator[Event]:
    by_source: dict[str, list[tuple[str, int]]] = {}
    for source, x in workspace.catalog.locators.in_lifecycle(namespace, Lifecycle.EXPIRING):
        by_source.setdefault(source, []).append((x.doc_id, x.since))
    for source, documents in sorted(by_source.items()):
        yield Event(
            ids.digest("expiry", source, sorted(documents)),
            EventKind.EXPIRY,
            source,
            now_micros(),
            f"{len(documents):,} documents of {source} expire within 7 days.",
            "`taboot retention` lists them; `taboot retain DOCUMENT --forever` keeps one.",
            {"documents": len(documents)},
        )


def _of_quota(workspace: Workspace, namespace: str) -> Iterator[Event]:
    quota = workspace.catalog.quotas.of(namespace, workspace.settings.extraction.questions_per_month)
    if quota.limit:
        for share, said in ((_ALMOST, "Nine tenths of"), (1.0, "All of")):
            if quota.asked >= share * quota.limit:
                yield Event(
                    ids.digest("quota", quota.month, share, quota.limit),
                    EventKind.QUOTA,
                    None,
                    now_micros(),
                    f"{said} this month's questions to the chat model are asked.",
                    "Raise TABOOT_EXTRACTION__QUESTIONS_PER_MONTH, or wait for the next month.",
                    {"asked": quota.asked, "limit": quota.limit},
                )


# --- from events to deliveries ------------------------------------------------------------------------------


def run(workspace: Workspace, endpoints: Mapping[str, Endpoint]) -> NotificationPass:
    """Note what is new for each endpoint, and try what is due, for at most :data:`PASS_SECONDS`.

    An endpoint that does not answer is left alone for the rest of the pass, so that it slows no other. Raises
    what the catalog raises, and nothing of an endpoint.
    """
    done = NotificationPass()
    until = time.monotonic() + PASS_SECONDS
    for namespace in workspace.namespaces():
        new = _note(workspace, namespace, endpoints)
        workspace.catalog.notifications.forget_old(namespace, now_micros() - KEPT_SECONDS * _SECOND)
        sent = _deliver(workspace, namespace, endpoints, until)
        done = NotificationPass(
            done.new + new,
            done.delivered + sent.delivered,
            done.again + sent.again,
            done.failed + sent.failed,
        )
    return done


def _note(workspace: Workspace, namespace: str, endpoints: Mapping[str, Endpoint]) -> int:
    if not endpoints:
        return 0
    since = _known_since(workspace, namespace, endpoints)
    found: dict[str, dict[str, Any]] = {}
    for event in events(workspace, namespace):
        for name, endpoint in endpoints.items():
            wanted = event.kind in endpoint.events and event.at >= since[name]
            if wanted and (not endpoint.sources or event.source in endpoint.sources):
                delivery_id = ids.digest(name, event.key)[:32]
                found[delivery_id] = {
                    "id": delivery_id,
                    "endpoint": name,
                    "kind": event.kind.value,
                    "payload": orjson.dumps(_payload(delivery_id, namespace, event)).decode(),
                }
    known = workspace.catalog.notifications.known(namespace, found)
    return workspace.catalog.notifications.add(
        namespace, [delivery for delivery_id, delivery in found.items() if delivery_id not in known]
    )


def _known_since(workspace: Workspace, namespace: str, endpoints: Mapping[str, Endpoint]) -> dict[str, int]:
    """Since when each endpoint has been declared (microseconds): what was before is not told to it."""
    now, stage = now_micros(), "notifications"
    old = workspace.catalog.pointers.get(namespace, NAMESPACE, stage)
    kept: dict[str, int] = {} if old is None else old.applied["since"]
    since = {name: kept.get(name, now) for name in endpoints}
    if since != kept:
        pointer = Pointer(stage=stage, tables={}, inputs="", txn="", applied={"since": since})
        workspace.catalog.pointers.publish(namespace, NAMESPACE, pointer)
    return since


def _payload(delivery_id: str, namespace: str, event: Event) -> dict[str, Any]:
    return {
        "id": delivery_id,
        "event": event.kind.value,
        "namespace": namespace,
        "source": event.source,
        "at": event.at // _SECOND,
        "summary": event.says,
        "remedy": event.remedy,
        "facts": dict(event.facts),
    }


def _deliver(
    workspace: Workspace, namespace: str, endpoints: Mapping[str, Endpoint], until: float
) -> NotificationPass:
    notifications = workspace.catalog.notifications
    silent: set[str] = set()
    delivered = again = failed = 0
    for row in notifications.due(namespace, now_micros()):
        name = row["endpoint"]
        if name in silent or time.monotonic() > until:
            continue
        attempts = row["attempts"] + 1
        endpoint = endpoints.get(name)
        code = "gone" if endpoint is None else _tried(endpoint, row["payload"].encode())
        if code.startswith("2"):
            delivered += 1
            notifications.tried(namespace, row["id"], DeliveryState.DELIVERED, attempts, 0, code)
            continue
        if not code.isdigit():
            silent.add(name)
        if endpoint is None or attempts > len(RETRY_SECONDS):
            failed += 1
            notifications.tried(namespace, row["id"], DeliveryState.FAILED, attempts, 0, code)
        else:
            again += 1
            wait = RETRY_SECONDS[attempts - 1] * _SECOND
            notifications.tried(
                namespace, row["id"], DeliveryState.PENDING, attempts, now_micros() + wait, code
            )
    return NotificationPass(0, delivered, again, failed)


def _tried(endpoint: Endpoint, payload: bytes) -> str:
    """Post a delivery, more than once in a moment where the endpoint answers that it is unwell."""
    code = post(endpoint, payload)
    for _ in range(_QUICK_TRIES - 1):
        if not code.isdigit() or not (int(code) >= 500 or int(code) in _BUSY):
            break
        code = post(endpoint, payload)
    return code


def replay(workspace: Workspace, namespace: str, delivery_ids: Sequence[str]) -> None:
    """Let deliveries be tried again, those that were taken too. Raises ``E_NOT_FOUND``."""
    known = workspace.catalog.notifications.known(namespace, delivery_ids)
    missing = sorted(set(delivery_ids) - known)
    if missing:
        raise TabootError("E_NOT_FOUND", f"There is no delivery {missing[0]}.", ids=missing[:10])
    workspace.catalog.notifications.start_over(namespace, delivery_ids)


def example() -> bytes:
    """The body of a delivery that says nothing but that it arrives."""
    event = Event(
        "test", EventKind.COMPLETED, None, now_micros(), "This is a test.", "Nothing is to be done."
    )
    return orjson.dumps(_payload(ids.digest("test", event.at)[:32], "default", event))


# --- over HTTP ----------------------------------------------------------------------------------------------


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The value of ``X-Taboot-Signature``: HMAC-SHA256 over the time and the body."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"


def post(endpoint: Endpoint, payload: bytes) -> str:
    """Post one delivery; return the status that was answered, or why there was none (a code ``E_…``).

    Raises nothing: what is wrong with an endpoint is told by its deliveries.
    """
    try:
        url = _value(endpoint.url)
        secret = None if endpoint.secret is None else _value(endpoint.secret)
        headers, body = _formed(endpoint, orjson.loads(payload), payload)
        if secret is not None:
            now = int(time.time())
            headers |= {"X-Taboot-Timestamp": str(now), "X-Taboot-Signature": signature(secret, now, body)}
        return str(_post(url, headers, body, allow_private=endpoint.allow_private))
    except TabootError as error:
        return error.code


def _formed(endpoint: Endpoint, told: Mapping[str, Any], payload: bytes) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a delivery in the form that the endpoint takes."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "taboot-pipelines",
        "X-Taboot-Event": told["event"],
        "X-Taboot-Delivery": told["id"],
    }
    title = f"taboot: {told['summary']}"
    match endpoint.form:
        case "slack":
            return headers, orjson.dumps({"text": f"*{title}*\n{told['remedy']}"})
        case "ntfy":
            urgent = told["event"] in {EventKind.FAILED, EventKind.HELD}
            headers |= {
                "Content-Type": "text/plain; charset=utf-8",
                "Title": f"taboot: {told['event']} {told['source'] or told['namespace']}",
                "Priority": "high" if urgent else "default",
                "Tags": "warning" if urgent else "information_source",
            }
            return headers, f"{told['summary']} {told['remedy']}".encode()
    return headers, payload


def _value(text: str) -> str:
    """The text, or what the environment variable that it names holds. Raises ``E_CONFIG``."""
    named = VARIABLE.fullmatch(text)
    if named is None:
        return text
    value = os.environ.get(named[1])
    if not value:
        raise TabootError("E_CONFIG", f"The environment variable {named[1]} is not set.")
    return value


def _post(url: str, headers: Mapping[str, str], body: bytes, *, allow_private: bool) -> int:
    """The status of the answer. Raises ``E_URL_BAD``, ``E_URL_BLOCKED``, ``E_TIMEOUT``, ``E_NETWORK``."""
    import pycurl

    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
    except (ValueError, UnicodeError):
        host, port = "", 0
    if not host or parts.scheme.lower() not in {"http", "https"} or parts.username:
        raise TabootError("E_URL_BAD", "The endpoint's URL is none.")
    try:
        address = reachable(host, port, _EVERYWHERE if allow_private else ())[0]
    except OSError:
        raise TabootError("E_NETWORK", f"The host {host} has no address.") from None
    pinned = f"[{address}]" if address.version == 6 else str(address)
    read = bytearray()

    def on_body(data: bytes) -> int:
        read.extend(data[: _MAX_ANSWER - len(read)])
        return len(data) if len(read) < _MAX_ANSWER else 0

    curl = pycurl.Curl()
    try:
        for option, value in (
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.NETRC, pycurl.NETRC_IGNORED),
            (pycurl.PROXY, ""),
            (pycurl.CAINFO, authorities()),
            (pycurl.TIMEOUT_MS, int(TIMEOUT_SECONDS * 1000)),
            (pycurl.URL, url),
            (pycurl.RESOLVE, [f"{host}:{port}:{pinned}"]),
            (pycurl.HTTPHEADER, [*(f"{k}: {v}" for k, v in headers.items()), "Expect:"]),
            (pycurl.POSTFIELDS, body),
            (pycurl.WRITEFUNCTION, on_body),
        ):
            curl.setopt(option, value)
        try:
            curl.perform()
        except pycurl.error as error:
            status = int(curl.getinfo(pycurl.RESPONSE_CODE))
            if error.args[0] == pycurl.E_WRITE_ERROR and status:
                return status  # its answer was longer than is read
            code = "E_TIMEOUT" if error.args[0] == pycurl.E_OPERATION_TIMEDOUT else "E_NETWORK"
            raise TabootError(code, f"The endpoint at {host} did not answer.") from None
        return int(curl.getinfo(pycurl.RESPONSE_CODE))
    finally:
        curl.close()
