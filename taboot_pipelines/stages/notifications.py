"""Notifications: what a person should hear of, posted to the endpoints of the sources file.

Events are read from the catalog's state, so that none is lost with a process, and each has a key of its own:
a delivery is made once for an event and endpoint, and tried until it is taken (at least once; its id tells a
receiver of a second one). Nothing older than an endpoint is told to it.

A body is signed by HMAC-SHA256 (RFC 2104) over its time and its bytes, as GitHub and Stripe do::

    X-Taboot-Timestamp: 1767225600
    X-Taboot-Signature: sha256=<hex of HMAC(secret, "1767225600." + body)>

A mail has the delivery's id as its Message-ID, so that a second one is known by it too.

An address is resolved, checked and pinned as a crawled page's is: none of the own network unless the endpoint
allows it, and no redirect is followed. Payloads have ids, counts and codes; no path, name or text of a
document, so that an erasure has nothing to look for here.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from taboot_pipelines.crawl.addresses import ANYWHERE, reachable
from taboot_pipelines.crawl.authorities import authorities
from taboot_pipelines.errors import TabootError
from taboot_pipelines.model import ids
from taboot_pipelines.model.jobs import JobState, Lifecycle
from taboot_pipelines.model.notifications import VARIABLE, DeliveryState, Endpoint, EventKind
from taboot_pipelines.model.retention import DAY
from taboot_pipelines.stages import documents
from taboot_pipelines.stages.dead_letters import retry_at
from taboot_pipelines.stages.quotas import ALMOST, usage
from taboot_pipelines.stages.workspace import Workspace
from taboot_pipelines.stores.catalog.pointers import Pointer
from taboot_pipelines.stores.catalog.writing import Row, now_micros
from taboot_pipelines.stores.tables import NAMESPACE

_STAGE, _DRIFT = "notifications", "drift"
_SECOND = 1_000_000
#: Seconds to wait after each failed try; after the last one a delivery is `failed`.
RETRY_SECONDS = (60, 300, 1800, 7200, 43_200)
#: So often one try posts it where the answer is one of these, or 500 and more, and came within these seconds.
_QUICK_TRIES, _BUSY, _QUICK_SECONDS = 3, frozenset({408, 425}), 1.0
#: Seconds that an endpoint has for one answer, and a pass for all endpoints: the daemon gives up a tick that
#: takes a minute.
TIMEOUT_SECONDS, PASS_SECONDS = 10.0, 30.0
#: What was delivered, or failed for good, is kept so long.
KEPT_SECONDS = 30 * 24 * 3600
#: Seconds before the last look from which jobs are looked at again: two machines may differ by so much.
_OVERLAP_SECONDS = 3600
#: Kinds that are looked for from there on; of all others what is so at present is told.
_OF_RUNS = frozenset({EventKind.COMPLETED, EventKind.FAILED, EventKind.HELD, EventKind.CONTENT_CHANGE})


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


def events(workspace: Workspace, namespace: str, since: int) -> Iterator[Event]:
    """Yield what there is to tell of a namespace at present, and of the runs ``since`` then
    (microseconds since the epoch)."""
    for job in workspace.catalog.jobs.ended_since(namespace, since):
        yield from _of_job(job)
    yield from _of_letters(workspace, namespace)
    yield from _of_expiry(workspace, namespace)
    yield from _of_quota(workspace, namespace)
    yield from _of_drift(workspace, namespace)
    yield from _of_changes(workspace, namespace, since)


def _of_job(job: Row) -> Iterator[Event]:
    source, at, key = job["source_id"], job["ended_at"], job["job_id"]
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
        yield Event(
            ids.digest("held", source, job["configuration"], job["held"]),
            EventKind.HELD,
            source,
            at,
            f"{job['held']:,} deletions of {source} wait for a person.",
            f"`taboot held` lists them; `taboot ingest {source} --confirm-deletes` confirms them.",
            {"job": key, "deletions": job["held"]},
        )
    elif job["fetched"] or job["removed"]:
        facts = {k: job[k] for k in ("fetched", "removed", "skipped", "failed")}
        said = ", ".join(f"{count:,} {name}" for name, count in facts.items() if count)
        yield Event(
            ids.digest("job", key),
            EventKind.COMPLETED,
            source,
            at,
            f"{source} was read: {said}.",
            "Nothing is to be done.",
            {"job": key, **facts},
        )


def _of_letters(workspace: Workspace, namespace: str) -> Iterator[Event]:
    """One for all letters of a source, stage and code whose last failure was on one day (UTC)."""
    groups: dict[tuple[str, str, str, int], list[Row]] = {}
    for letter in workspace.catalog.dead_letters.find(namespace):
        if letter["kind"] == "failed" and retry_at(letter) is None:
            day = letter["last_at"] // DAY
            groups.setdefault((letter["source_id"], letter["stage"], letter["code"], day), []).append(letter)
    for (source, stage, code, day), letters in sorted(groups.items()):
        count = len(letters)
        yield Event(
            ids.digest("letters", source, stage, code, day),
            EventKind.DEAD_LETTER,
            source,
            max(letter["last_at"] for letter in letters),
            f"{count:,} item{'' if count == 1 else 's'} of {source} failed for good at {stage} ({code}).",
            f"`taboot letters list --source {source}` names each with what to do.",
            {"stage": stage, "code": code, "items": count},
        )


def _of_expiry(workspace: Workspace, namespace: str) -> Iterator[Event]:
    """One for all documents of a source that were announced at once."""
    groups: dict[tuple[str, int], int] = {}
    for source, x in workspace.catalog.locators.in_lifecycle(namespace, Lifecycle.EXPIRING):
        key = (source, x.announced_at or 0)
        groups[key] = groups.get(key, 0) + 1
    for (source, announced), count in sorted(groups.items()):
        yield Event(
            ids.digest("expiry", source, announced),
            EventKind.EXPIRY,
            source,
            announced,
            f"{count:,} of the documents of {source} expire within 7 days.",
            "`taboot retention` lists them; `taboot retain DOCUMENT --forever` keeps one.",
            {"documents": count},
        )


def _of_quota(workspace: Workspace, namespace: str) -> Iterator[Event]:
    held = usage(workspace, namespace)
    for what, (used, limit) in held.shares().items():
        for share, said in ((ALMOST, "Nine tenths of"), (1.0, "All of")):
            if limit and used >= share * limit:
                once = held.questions.month if what == "questions" else ""
                yield Event(
                    ids.digest("quota", what, once, share, limit),
                    EventKind.QUOTA,
                    None,
                    now_micros(),
                    f"{said} the quota of {what} is used up.",
                    "`taboot usage` shows it; `quotas` of the sources file, or TABOOT_QUOTA__…, raise it.",
                    {"what": what, "used": used, "limit": limit},
                )


def _of_drift(workspace: Workspace, namespace: str) -> Iterator[Event]:
    """One for all drifts that the check `no_drift` came upon at once."""
    groups: dict[int, int] = {}
    for at in _noted_drift(workspace, namespace).values():
        groups[at] = groups.get(at, 0) + 1
    for at, count in sorted(groups.items()):
        yield Event(
            ids.digest("drift", at),
            EventKind.DRIFT,
            None,
            at,
            f"{count:,} statement{'s do' if count > 1 else ' does'} not agree with the configuration.",
            "`taboot drift` shows each with both sides.",
            {"drifts": count},
        )


def _noted_drift(workspace: Workspace, namespace: str) -> Mapping[str, int]:
    noted = workspace.catalog.pointers.get(namespace, NAMESPACE, _DRIFT)
    return {} if noted is None else noted.applied


def note_drift(workspace: Workspace, namespace: str, drifts: Collection[str]) -> None:
    """Note which drifts there are, by ids that stay the same while they last; new ones are told of."""
    known, now = _noted_drift(workspace, namespace), now_micros()
    applied = {drift: known.get(drift, now) for drift in sorted(drifts)}
    if applied != known:
        pointer = Pointer(stage=_DRIFT, tables={}, inputs="", txn="", applied=applied)
        workspace.catalog.pointers.publish(namespace, NAMESPACE, pointer)


def _of_changes(workspace: Workspace, namespace: str, since: int) -> Iterator[Event]:
    """One for each run since then that found documents which say otherwise than before, are new or gone."""
    for (source, _), pointer in workspace.catalog.pointers.of_stages(namespace, {documents.STAGE}).items():
        for change in pointer.applied.get(documents.CHANGES, ()):
            if change["at"] < since:
                continue
            counts = {name: change[name] for name in ("changed", "new", "gone")}
            said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
            yield Event(
                ids.digest("content", source, change["at"]),
                EventKind.CONTENT_CHANGE,
                source,
                change["at"],
                f"Documents of {source} say otherwise than before: {said}.",
                f"`taboot changes {source}` shows the passages.",
                counts,
            )


# --- from events to deliveries ------------------------------------------------------------------------------


def run(workspace: Workspace, endpoints: Mapping[str, Endpoint]) -> NotificationPass:
    """Note what is new for each endpoint, and try what is due, for at most :data:`PASS_SECONDS`.

    Each endpoint has its share of that time, and one that does not answer is left alone for the rest of the
    pass, so that it slows no other. Raises what the catalog raises, and nothing of an endpoint.
    """
    done = NotificationPass()
    until = time.monotonic() + PASS_SECONDS
    for namespace in workspace.namespaces():
        seen, new = _note(workspace, namespace, endpoints)
        before = now_micros() - KEPT_SECONDS * _SECOND
        workspace.catalog.notifications.forget_old(namespace, before, seen, endpoints)
        done = _sum(done, NotificationPass(new=new))
    silent = set[str]()
    for number, (name, endpoint) in enumerate(endpoints.items()):
        share = time.monotonic() + (until - time.monotonic()) / (len(endpoints) - number)
        for namespace in workspace.namespaces():
            done = _sum(done, _deliver(workspace, namespace, name, endpoint, share, silent))
    return done


def _sum(one: NotificationPass, other: NotificationPass) -> NotificationPass:
    return NotificationPass(*(getattr(one, f.name) + getattr(other, f.name) for f in fields(one)))


def _note(workspace: Workspace, namespace: str, endpoints: Mapping[str, Endpoint]) -> tuple[set[str], int]:
    """Keep a delivery for each event and endpoint that has none; return all of them, and how many are new."""
    if not endpoints:
        return set(), 0
    now, told = now_micros(), _told(workspace, namespace)
    since = {name: told[name].since if name in told else now for name in endpoints}
    runs_from = {
        name: (min(told[name].looked, now) if name in told else now) - _OVERLAP_SECONDS * _SECOND
        for name in endpoints
    }
    found: dict[str, dict[str, Any]] = {}
    for event in events(workspace, namespace, min(runs_from.values())):
        for name, endpoint in endpoints.items():
            wanted = event.kind in endpoint.events and event.at >= since[name]
            wanted &= event.kind not in _OF_RUNS or event.at >= runs_from[name]
            wanted &= not endpoint.namespaces or namespace in endpoint.namespaces
            if wanted and (not endpoint.sources or event.source in endpoint.sources):
                delivery_id = ids.digest(name, event.key)[:32]
                found[delivery_id] = {
                    "id": delivery_id,
                    "endpoint": name,
                    "kind": event.kind.value,
                    "payload": orjson.dumps(_payload(delivery_id, namespace, event)).decode(),
                }
    known = workspace.catalog.notifications.known(namespace, found)
    new = workspace.catalog.notifications.add(
        namespace, [delivery for delivery_id, delivery in found.items() if delivery_id not in known]
    )
    # Last: a pass that is killed before is as if it had not been.
    applied = {name: at._asdict() for name, at in told.items()}
    applied |= {name: _Told(since[name], now)._asdict() for name in endpoints}
    pointer = Pointer(stage=_STAGE, tables={}, inputs="", txn="", applied=applied)
    workspace.catalog.pointers.publish(namespace, NAMESPACE, pointer)
    return set(found), new


class _Told(NamedTuple):
    """Since when an endpoint has been declared, what was before is not told to it; and when somebody looked
    for it last (microseconds since the epoch)."""

    since: int
    looked: int


def _told(workspace: Workspace, namespace: str) -> dict[str, _Told]:
    """By endpoint; one that another sources file does not name is remembered."""
    old = workspace.catalog.pointers.get(namespace, NAMESPACE, _STAGE)
    return {} if old is None else {name: _Told(**at) for name, at in old.applied.items()}


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
    workspace: Workspace, namespace: str, name: str, endpoint: Endpoint, until: float, silent: set[str]
) -> NotificationPass:
    """Try what is due for an endpoint, until then (monotonic) or until it is silent."""
    notifications = workspace.catalog.notifications
    delivered = again = failed = 0
    for row in notifications.due(namespace, name, now_micros()):
        if name in silent or time.monotonic() > until:
            break
        attempts = row["attempts"] + 1
        code = _tried(endpoint, row["payload"].encode(), until)
        if code.startswith("2"):
            delivered += 1
            notifications.tried(namespace, row["id"], DeliveryState.DELIVERED, attempts, 0, code)
            continue
        if not code.isdigit():
            silent.add(name)
        if attempts > len(RETRY_SECONDS):
            failed += 1
            notifications.tried(namespace, row["id"], DeliveryState.FAILED, attempts, 0, code)
        else:
            again += 1
            wait = RETRY_SECONDS[attempts - 1] * _SECOND
            notifications.tried(
                namespace, row["id"], DeliveryState.PENDING, attempts, now_micros() + wait, code
            )
    return NotificationPass(0, delivered, again, failed)


def _tried(endpoint: Endpoint, payload: bytes, until: float) -> str:
    """Post a delivery, more than once in a moment where the endpoint answers at once that it is unwell; a
    mail server that refuses means it."""
    for _ in range(1 if endpoint.form == "mail" else _QUICK_TRIES):
        began = time.monotonic()
        code = post(endpoint, payload)
        now = time.monotonic()
        unwell = code.isdigit() and (int(code) >= 500 or int(code) in _BUSY)
        if not unwell or now - began > _QUICK_SECONDS or now > until:
            break
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


# --- over HTTP and by mail ----------------------------------------------------------------------------------


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
        if endpoint.form == "mail":
            return str(_mail(endpoint, url, secret, orjson.loads(payload)))
        headers, body = _formed(endpoint, orjson.loads(payload), payload)
        headers |= {name: _carried(name, _value(value)) for name, value in endpoint.headers.items()}
        if secret is not None:
            now = int(time.time())
            headers |= {"X-Taboot-Timestamp": str(now), "X-Taboot-Signature": signature(secret, now, body)}
        return str(_post(url, headers, body, allow_private=endpoint.allow_private))
    except TabootError as error:
        return error.code
    except Exception:  # noqa: BLE001  # of a library, about one endpoint: the others are told all the same
        return "E_INTERNAL"


def _formed(endpoint: Endpoint, told: Mapping[str, Any], payload: bytes) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a delivery in the form that the endpoint takes."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "taboot-pipelines",
        "X-Taboot-Event": told["event"],
        "X-Taboot-Delivery": told["id"],
    }
    match endpoint.form:
        case "slack":
            return headers, orjson.dumps({"text": f"*{_title(told)}*\n{told['remedy']}"})
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


def _title(told: Mapping[str, Any]) -> str:
    return f"taboot: {told['summary']}"


def _message(endpoint: Endpoint, told: Mapping[str, Any]) -> bytes:
    """A delivery as a mail (RFC 5322). Whatever an event says, it adds no header and no line to one."""
    from email import policy
    from email.message import EmailMessage
    from email.utils import format_datetime

    # Lines of 7 bits: a server need not take any other.
    message = EmailMessage(policy.SMTP.clone(cte_type="7bit"))
    shown = "".join(letter if letter.isprintable() else " " for letter in _title(told))
    at = datetime.fromtimestamp(told["at"], UTC)
    sender = endpoint.sender or ""
    for name, value in (
        ("From", sender),
        ("To", ", ".join(endpoint.to)),
        ("Subject", shown),
        ("Date", format_datetime(at)),
        ("Message-ID", f"<{told['id']}@{sender.rpartition('@')[2]}>"),
        ("Auto-Submitted", "auto-generated"),
        ("X-Taboot-Event", told["event"]),
        ("X-Taboot-Delivery", told["id"]),
    ):
        message[name] = value
    message.set_content(f"{told['summary']}\n\n{told['remedy']}\n")
    return message.as_bytes()


def _carried(name: str, value: str) -> str:
    """The value of a header. Raises ``E_CONFIG`` for one that a header cannot carry."""
    if not (value.isascii() and value.isprintable()):
        raise TabootError("E_CONFIG", f"The value of the header {name} holds what a header cannot carry.")
    return value


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
    """The status of the answer. Raises as :func:`_asked`."""
    import pycurl

    def is_answer(_status: int) -> bool:
        return True  # it answered, whatever became of the rest

    options = (
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.FOLLOWLOCATION, 0),
        (pycurl.HTTPHEADER, [*(f"{k}: {v}" for k, v in headers.items()), "Expect:"]),
        (pycurl.POSTFIELDS, body),
        # What an answer says does not matter: it is given up with its first byte.
        (pycurl.WRITEFUNCTION, lambda _: 0),
    )
    return _asked(url, {"http": 80, "https": 443}, options, is_answer, allow_private=allow_private)


def _mail(endpoint: Endpoint, url: str, secret: str | None, told: Mapping[str, Any]) -> int:
    """The status (RFC 5321) with which the server took the mail, or refused it. Raises as :func:`_asked`."""
    import pycurl

    body = _message(endpoint, told)

    def is_answer(status: int) -> bool:
        # One that is well is that of the last step that went well, and not of the mail.
        return status >= 400

    options: list[tuple[int, Any]] = [
        (pycurl.PROTOCOLS, pycurl.PROTO_SMTP | pycurl.PROTO_SMTPS),
        # A password goes over TLS or not at all.
        (pycurl.USE_SSL, pycurl.USESSL_TRY if secret is None else pycurl.USESSL_ALL),
        (pycurl.MAIL_FROM, f"<{endpoint.sender}>"),
        (pycurl.MAIL_RCPT, [f"<{address}>" for address in endpoint.to]),
        (pycurl.UPLOAD, 1),
        (pycurl.INFILESIZE, len(body)),
        (pycurl.READDATA, io.BytesIO(body)),
    ]
    if endpoint.user is not None and secret is not None:
        options += [(pycurl.USERNAME, endpoint.user), (pycurl.PASSWORD, secret)]
    allow_private = endpoint.allow_private
    return _asked(url, {"smtp": 25, "smtps": 465}, options, is_answer, allow_private=allow_private)


def _asked(
    url: str,
    ports: Mapping[str, int],
    options: Iterable[tuple[int, Any]],
    is_answer: Callable[[int], bool],
    *,
    allow_private: bool,
) -> int:
    """The status that a server answers. ``ports``: of each scheme that may be; ``is_answer`` says of a status
    that came before an error whether it is the answer all the same.

    Raises ``E_URL_BAD``, ``E_URL_BLOCKED``, ``E_TIMEOUT``, ``E_NETWORK``.
    """
    import pycurl

    try:
        parts = urlsplit(url)
        port = parts.port or ports.get(parts.scheme.lower(), 0)
        host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
    except (ValueError, UnicodeError):
        host, port = "", 0
    if not host or parts.scheme.lower() not in ports or parts.username:
        raise TabootError("E_URL_BAD", "The endpoint's URL is none.")
    try:
        address = reachable(host, port, ANYWHERE if allow_private else ())[0]
    except OSError:
        raise TabootError("E_NETWORK", f"The host {host} has no address.") from None
    pinned = f"[{address}]" if address.version == 6 else str(address)
    curl = pycurl.Curl()
    try:
        for option, value in (
            (pycurl.NOSIGNAL, 1),
            (pycurl.NETRC, pycurl.NETRC_IGNORED),
            (pycurl.PROXY, ""),
            (pycurl.CAINFO, authorities()),
            (pycurl.TIMEOUT_MS, int(TIMEOUT_SECONDS * 1000)),
            (pycurl.URL, url),
            (pycurl.RESOLVE, [f"{host}:{port}:{pinned}"]),
            *options,
        ):
            curl.setopt(option, value)
        try:
            curl.perform()
        except pycurl.error as error:
            status = int(curl.getinfo(pycurl.RESPONSE_CODE))
            if status and is_answer(status):
                return status
            code = "E_TIMEOUT" if error.args[0] == pycurl.E_OPERATION_TIMEDOUT else "E_NETWORK"
            raise TabootError(code, f"The endpoint at {host} did not answer.") from None
        return int(curl.getinfo(pycurl.RESPONSE_CODE))
    finally:
        curl.close()
