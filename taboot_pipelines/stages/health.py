"""Checks how every configured part is, for ``taboot status`` and the readiness check.

All are asked at once, each with a deadline. Asking creates nothing. A part that is down, hangs or was set up
wrongly gives a row that says so, never an exception.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING

from taboot_pipelines import logs
from taboot_pipelines.errors import TabootError
from taboot_pipelines.extraction.tier_a import formats
from taboot_pipelines.model.health import PROBE_THREAD, Health, PartClient, probe
from taboot_pipelines.settings import Settings
from taboot_pipelines.sources import registry

if TYPE_CHECKING:
    from taboot_pipelines.stages.stage import Target

#: A part that has not answered by then is unwell, whatever its own time-outs are. The time to load its
#: library is included.
DEADLINE_SECONDS = 8.0
#: The same for the bundled model, which no network can keep away: a busy machine loads its library late.
BUNDLED_SECONDS = 60.0
#: Parts without which the chain stands still. Without one of the others something is left out or waits, and
#: is made up for later.
NEEDED = frozenset({"catalog", "state", "blobs", "tables", "shards", "embedder", "dagster", "broker"})


@dataclass(frozen=True)
class _Part:
    """A configured part and how to ask it.

    ``backend`` and ``setting`` are shown if the part itself cannot say more.
    """

    name: str
    backend: str
    setting: str
    ask: Callable[[], Health]
    bundled: bool = False


def check(settings: Settings, *, load: bool = True, deadline: float = DEADLINE_SECONDS) -> list[Health]:
    """Return the state of each configured part, in a fixed order, within ``deadline`` seconds (the bundled
    model, within :data:`BUNDLED_SECONDS` at least).

    Raises nothing. ``load`` also tries the bundled model, which takes half a second. A model of
    PyTorch or vLLM in this process, which takes minutes and a GPU, is never loaded: it is well if its
    library is installed.
    """
    parts = _parts(settings, load)
    answers: dict[str, Health] = {}

    def ask(part: _Part) -> None:
        try:
            answers[part.name] = part.ask()
        except TabootError as error:
            answers[part.name] = _unwell(part, f"{error.code}: {error.message} {error.remedy}")
        # An exception of a library counts as the part's failure; its message may quote a secret.
        except Exception as error:  # noqa: BLE001
            answers[part.name] = _unwell(part, f"E_INTERNAL: Asking it failed with {type(error).__name__}.")

    # Daemon threads: one that hangs in a connection must not keep the process from ending.
    threads = [
        threading.Thread(target=ask, args=(part,), name=f"{PROBE_THREAD}{part.name}", daemon=True)
        for part in parts
    ]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    for part, thread in zip(parts, threads, strict=True):
        allowed = max(deadline, BUNDLED_SECONDS) if part.bundled else deadline
        thread.join(max(0.0, begun + allowed - time.monotonic()))
    mask = logs.Redaction(settings)
    late = (
        f"E_TIMEOUT: It did not answer within {deadline:g} s. Check that it is up and can be reached: {{}}."
    )
    found = [answers.get(part.name) or _unwell(part, late.format(part.setting)) for part in parts]
    return [
        replace(h, message=mask(h.message), version=None if h.version is None else mask(h.version))
        for h in found
    ]


def _unwell(part: _Part, message: str) -> Health:
    return Health(part.name, part.backend, False, None, None, message)


def _parts(settings: Settings, load: bool) -> list[_Part]:
    # Who only asks whether there is a catalog needs no stage.
    from taboot_pipelines.stages.chain import CHAIN

    parts = [
        _Part(
            "catalog",
            "postgresql" if settings.catalog_url else "sqlite",
            "TABOOT_CATALOG_URL",
            lambda: _catalog(settings),
        ),
        _Part(
            "state",
            "redis" if settings.redis.url else "catalog",
            "TABOOT_REDIS__URL",
            lambda: _state(settings),
        ),
        _Part(
            "blobs",
            "directory",
            "TABOOT_BLOB_URL",
            lambda: _place(settings, "blobs", "TABOOT_BLOB_URL", settings.blob_url, "blobs"),
        ),
        _Part(
            "tables",
            "directory",
            "TABOOT_TABLE_URL",
            lambda: _place(settings, "tables", "TABOOT_TABLE_URL", settings.table_url, "tables"),
        ),
        _Part(
            "shards",
            "directory",
            "TABOOT_SHARD_URL",
            lambda: _place(settings, "shards", "TABOOT_SHARD_URL", settings.shard_url, "kb"),
        ),
        _Part(
            "embedder",
            _embedder_backend(settings),
            "TABOOT_EMBEDDING__OPENAI__URL" if settings.embedding.openai.url else "TABOOT_TEI__URL",
            lambda: _embedder(settings, load),
            bundled=not (settings.embedding_server or settings.embedding.torch.model),
        ),
        _Part("dagster", "directory", "DAGSTER_HOME", lambda: _dagster(settings)),
    ]
    if settings.reranker.url or settings.reranker.torch.model:
        parts.append(
            _Part(
                "reranker",
                "tei" if settings.reranker.url else "torch",
                "TABOOT_RERANKER__URL",
                lambda: _reranker(settings),
            )
        )
    if settings.llm.url or settings.llm.vllm_model:
        parts.append(
            _Part("llm", "openai" if settings.llm.url else "vllm", "TABOOT_LLM__URL", lambda: _llm(settings))
        )
    parts += [
        _Part(target.part, target.store, target.setting, partial(_target, target, settings))
        for target in CHAIN.targets.values()
        if target.url(settings)
    ]
    if settings.executor == "celery":
        parts.append(_Part("broker", "celery", "TABOOT_CELERY__BROKER", lambda: _broker(settings)))
    if registry.PLUGINS.names or formats.PLUGINS.names:
        parts.append(_Part("plugins", "entry points", "the installed packages", _plugins))
    return parts


def _plugins() -> Health:
    """Whether what installed packages add can be used; as version, the packages."""
    groups = (registry.PLUGINS, formats.PLUGINS)

    def ask() -> tuple[str, str]:
        packages = {package for group in groups for name in group.names for package in group.packages(name)}
        broken = [found for group in groups for _, found in group.each() if isinstance(found, TabootError)]
        return ", ".join(sorted(packages)), " ".join(f"{e.code}: {e.message} {e.remedy}" for e in broken)

    return probe("plugins", "entry points", ask)


def _asked(part: PartClient) -> Health:
    try:
        return part.health()
    finally:
        with contextlib.suppress(TabootError):
            part.close()


def catalog_exists(settings: Settings) -> bool:
    """Whether there is a catalog to open; the default one is made by the first ingest, not by looking."""
    return settings.catalog_url is not None or (settings.home_dir / "catalog.db").exists()


def _catalog(settings: Settings) -> Health:
    from taboot_pipelines.stores.catalog import open_catalog
    from taboot_pipelines.stores.leases import open_leases
    from taboot_pipelines.stores.objects import directory_health

    if not catalog_exists(settings):
        return replace(directory_health("catalog", settings.home_dir), backend="sqlite")
    # The parts are asked at once: of two that find a migration pending, one waits for the other.
    return _asked(open_catalog(settings, open_leases(settings, DEADLINE_SECONDS / 2)))


def _state(settings: Settings) -> Health:
    if settings.redis.url is not None:
        from taboot_pipelines.stores.state.redis import RedisState

        return _asked(RedisState(settings.redis))
    return replace(_catalog(settings), part="state", backend="catalog")


def _place(settings: Settings, part: str, setting: str, url: str | None, folder: str) -> Health:
    """Check the place of a part's data without opening its store, which would make the directory."""
    from taboot_pipelines.stores.objects import directory_health, place

    if url is None:
        return directory_health(part, settings.home_dir / folder)
    at = place(setting, url, settings.storage)
    return at.health(part) if at.directory is None else directory_health(part, at.directory)


def _embedder(settings: Settings, load: bool) -> Health:
    from taboot_pipelines.embedding import open_embedder

    embedder = open_embedder(settings)
    if settings.embedding.torch.model:
        return _in_process("embedder", "torch", settings.embedding.torch.model)
    if settings.embedding_server or load:
        return _asked(embedder)
    return Health("embedder", _embedder_backend(settings), True, embedder.space.model)


def _embedder_backend(settings: Settings) -> str:
    from taboot_pipelines.embedding.minilm import runtime_of

    if settings.embedding.torch.model:
        return "torch"
    if settings.embedding.openai.url:
        return "openai"
    return "tei" if settings.tei.url else runtime_of(settings.embedding)


def _reranker(settings: Settings) -> Health:
    from taboot_pipelines.inference.rerank import open_reranker

    reranker = open_reranker(settings)
    assert reranker is not None
    return (
        _asked(reranker)
        if settings.reranker.url
        else _in_process("reranker", "torch", settings.reranker.torch.model)
    )


def _llm(settings: Settings) -> Health:
    from taboot_pipelines.inference.chat import open_chat

    model = open_chat(settings)
    assert model is not None
    return _asked(model) if settings.llm.url else _in_process("llm", "vllm", settings.llm.vllm_model)


def _in_process(part: str, extra: str, model: str | None) -> Health:
    def ask() -> tuple[str | None, str]:
        try:
            return f"{extra} {metadata.version(extra)} {model}", ""
        except metadata.PackageNotFoundError:
            raise TabootError("E_EXTRA", f"The {part} needs the extra {extra}.", extra=extra) from None

    return probe(part, extra, ask)


def _target(target: Target, settings: Settings) -> Health:
    server = target.open(settings)
    assert server is not None
    return _asked(server)


def _dagster(settings: Settings) -> Health:
    from taboot_pipelines.stages.dagster_storage import health

    return health(settings)


def _broker(settings: Settings) -> Health:
    def ask() -> tuple[str | None, str]:
        if settings.celery.broker is None:
            raise TabootError(
                "E_CONFIG",
                "TABOOT_CELERY__BROKER: the Celery executor needs a broker.",
                settings=["TABOOT_CELERY__BROKER"],
            )
        try:
            from kombu import Connection  # type: ignore[attr-defined]
        except ImportError:
            raise TabootError(
                "E_EXTRA", "TABOOT_EXECUTOR=celery needs the extra celery.", extra="celery"
            ) from None
        try:
            broker = settings.celery.broker.get_secret_value()
            with Connection(broker, connect_timeout=2) as connection:  # type: ignore[no-untyped-call]
                connection.ensure_connection(max_retries=1, interval_start=0.2, timeout=3)
        except Exception as error:  # noqa: BLE001 - every transport has its own family of errors
            raise TabootError(
                "E_NETWORK",
                f"Celery's broker cannot be used ({type(error).__name__}).",
                remedy="Check that TABOOT_CELERY__BROKER is right and answers.",
            ) from None
        return None, ""

    return probe("broker", "celery", ask)
