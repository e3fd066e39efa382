"""What the package logs: records of ``taboot_pipelines.*`` with their context, one a line, without secrets.

Code logs by ``logging.getLogger(__name__)`` and names the thing at hand by ``extra={"document": doc_id, …}``.
What holds for a whole run or stage (run, partition, source, namespace, stage) is bound once by :func:`bind`
and joins every record made inside. Nothing is written until a process asks for it by :func:`writing`; a
program that only uses the library gets the records through Python's own logging.

The settings' secrets are masked wherever a record holds one: in the message, its arguments, what a server
said, or a traceback.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import BaseModel, SecretStr

from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings

ROOT = "taboot_pipelines"
#: Libraries that talk to servers for us; they log where these are and what they said.
FOREIGN = ("neo4j", "qdrant_client", "httpx", "httpcore", "redis", "sqlalchemy", "urllib3", "opentelemetry")
MASK = "***"
#: Keys that come first in a line, in this order; others follow as they were given.
CONTEXT = ("run", "partition", "namespace", "source", "stage", "document")

# Never mutated.
_context: ContextVar[Mapping[str, str]] = ContextVar("taboot_log_context", default={})  # noqa: B039
#: Attributes that every record has; all others were given by ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: The name and password in any URL, whether or not it is one of the settings'.
_USERINFO = re.compile(r"(?<=://)[^/?#\s'\"@]+(?:@[^/?#\s'\"@]+)*(?=@)")
#: Shorter values would mask pieces of ordinary words.
_SHORTEST = 4


@contextlib.contextmanager
def bind(**fields: str | None) -> Iterator[None]:
    """Add fields to every record made in the block, by this thread or task; None leaves what is bound."""
    token = _context.set({**_context.get(), **{k: v for k, v in fields.items() if v is not None}})
    try:
        yield
    finally:
        _context.reset(token)


class _Writing:
    """The handler in force, how many blocks rely on it, and the loggers' level and propagation before."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks = 0
        self.before: dict[str, tuple[int, bool]] = {}
        self.handler: logging.Handler | None = None

    def start(self, settings: Settings, level: int | str) -> None:
        self.handler = _ToStderr()
        self.handler.setFormatter(Formatter(settings))
        for name in (ROOT, *FOREIGN):
            logger = logging.getLogger(name)
            self.before[name] = (logger.level, logger.propagate)
            logger.addHandler(self.handler)
            logger.propagate = False
            logger.setLevel(level if name == ROOT else max(logging.getLogger(ROOT).level, logging.WARNING))

    def stop(self) -> None:
        for name, (level, propagate) in self.before.items():
            logger = logging.getLogger(name)
            logger.propagate = propagate
            logger.setLevel(level)
            if self.handler is not None:
                logger.removeHandler(self.handler)
        self.handler = None


_writing = _Writing()


@contextlib.contextmanager
def writing(settings: Settings, *, quiet: bool = False) -> Iterator[None]:
    """Write records to stderr while the block runs, as ``TABOOT_LOG__FORMAT`` and ``TABOOT_LOG__LEVEL`` say;
    of the client libraries only warnings and worse.

    ``quiet`` is for a terminal that shows by other means what goes on: nothing is written unless one of the
    two settings was set. Of several blocks at once the first decides for the process. Python's root logger,
    which masks nothing, gets no record meanwhile.
    """
    with _writing.lock:
        if _writing.blocks == 0:
            _writing.start(
                settings,
                logging.CRITICAL if quiet and not settings.log.model_fields_set else settings.log.level,
            )
        _writing.blocks += 1
    try:
        yield
    finally:
        with _writing.lock:
            _writing.blocks -= 1
            if _writing.blocks == 0:
                _writing.stop()


class Formatter(logging.Formatter):
    """``text``: time, level, message and ``key=value``; ``json``: one object with ``time`` (ISO 8601, UTC),
    ``level``, ``logger``, ``message``, the context and ``exception``."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._json = settings.log.format == "json"
        self.redact = Redaction(settings)

    def format(self, record: logging.LogRecord) -> str:
        given = {k: v for k, v in vars(record).items() if k not in _STANDARD}
        fields = {**_context.get(), **given}
        ordered = {
            k: fields[k]
            for k in (*(c for c in CONTEXT if c in fields), *(k for k in fields if k not in CONTEXT))
        }
        shown = {k: self.redact.value(v) for k, v in ordered.items()}
        message = self.redact(_message(record))
        exception = (
            self.redact(self.formatException(record.exc_info))
            if record.exc_info and record.exc_info[0] is not None
            else None
        )
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        if self._json:
            line = {
                "time": when,
                "level": record.levelname,
                "logger": record.name,
                "message": message,
                **shown,
            }
            return json.dumps(
                line if exception is None else {**line, "exception": exception}, ensure_ascii=False
            )
        text = " ".join(
            [
                when,
                record.levelname,
                message,
                *(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in shown.items()),
            ]
        )
        # One record a line: what is named may hold anything.
        text = "".join(c if c.isprintable() else "�" for c in text)
        return text if exception is None else f"{text}\n{exception}"


class Redaction:
    """Masks the values of all secret settings and the user part of every URL, however it is quoted."""

    def __init__(self, settings: Settings) -> None:
        values: set[str] = set()
        for secret in _strings(settings):
            values |= _spellings(secret)
        # The longest first: a password may be part of the URL that holds it.
        known = sorted((v for v in values if len(v) >= _SHORTEST), key=lambda v: (-len(v), v))
        self._values = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        if self._values is not None:
            text = self._values.sub(MASK, text)
        return _USERINFO.sub(MASK, text)

    def value(self, value: Any) -> Any:
        """The same for whatever JSON can hold; anything else as its text."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, Mapping):
            return {self(str(k)): self.value(v) for k, v in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.value(v) for v in value]
        return self(str(value))


def redacted(error: TabootError, settings: Settings) -> TabootError:
    """The same error for places that keep what they are told: without secrets, and without its cause."""
    mask = Redaction(settings)
    return TabootError(
        error.code, mask(error.message), remedy=mask(error.remedy), **mask.value(error.details)
    )


def _strings(model: BaseModel) -> Iterator[str]:
    """What must not be shown: values of ``SecretStr``, the passwords in them, and those in plain URLs."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _strings(value)
        elif isinstance(value, SecretStr):
            yield value.get_secret_value()
            yield from _userinfo(value.get_secret_value())
        elif isinstance(value, str) and "://" in value:
            yield from _userinfo(value)


def _userinfo(url: str) -> Iterator[str]:
    # Then without a parser, because for one a bare slash or hash in a password ends the host.
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if parts.password:
            yield parts.password
    found = re.search(r"://(?P<user>.*)@", url)
    if found is not None and ":" in found["user"]:
        password = found["user"].partition(":")[2]
        yield password
        # The message of a parser that stops at such a character quotes the piece before it.
        yield from re.split(r"[/?#@:]", password)


def _spellings(secret: str) -> set[str]:
    return {
        secret,
        unquote(secret),
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
    }


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 a record whose arguments do not fit must not stop the work
        return str(record.msg)


class _ToStderr(logging.StreamHandler[Any]):
    """Writes to what ``sys.stderr`` is at the moment: progress bars and tests put their own there."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _value: Any) -> None: ...
