"""Checks Dagster's own storage without loading Dagster, which takes seconds.

What its ``dagster.yaml`` names is asked directly.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from taboot_pipelines.errors import TabootError
from taboot_pipelines.model.health import Health, probe
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.objects import directory_health

_CONNECT_SECONDS = 3
#: The statuses of a run that has not ended.
_OPEN = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")


def health(settings: Settings) -> Health:
    """Check Dagster's storage: SQLite beside ``dagster.yaml``, or the database that the file names.

    SQLite databases that do not exist yet are well if they can be made.
    """
    home = settings.dagster_home
    postgres = _postgres(home / "dagster.yaml")
    version = f"dagster {metadata.version('dagster')}"
    if postgres is None:
        local = directory_health("dagster", home)
        return Health("dagster", "sqlite", local.ok, version, local.latency_ms, local.message)

    def ask() -> tuple[str | None, str]:
        try:
            engine = sa.create_engine(_url(postgres), connect_args={"connect_timeout": _CONNECT_SECONDS})
            try:
                with engine.connect() as connection:
                    server = connection.execute(sa.text("SHOW server_version")).scalar_one()
            finally:
                engine.dispose()
        # The driver may be missing, the URL broken or the server down; the message may quote the URL.
        except Exception as error:  # noqa: BLE001
            raise TabootError(
                "E_STORAGE",
                f"Dagster's database cannot be used ({type(error).__name__}).",
                remedy=f"Check `storage` in {home / 'dagster.yaml'} and its server.",
            ) from None
        return f"{version}, postgresql {server}", ""

    return probe("dagster", "postgresql", ask)


def runs(settings: Settings) -> dict[str, int]:
    """Return {status: how many} of the runs that wait or go on, such as ``QUEUED``; none where Dagster's
    storage is not there or does not answer.

    Source: Dagster's table ``runs`` (dagster._core.storage.runs.schema).
    """
    home = settings.dagster_home
    try:
        postgres = _postgres(home / "dagster.yaml")
        file = home / "history" / "runs.db"
        if postgres is None and not file.exists():
            return {}
        waits = {} if postgres is None else {"connect_timeout": _CONNECT_SECONDS}
        url = f"sqlite:///{file}" if postgres is None else _url(postgres)
        engine = sa.create_engine(url, connect_args=waits)
        try:
            with engine.connect() as connection:
                query = "SELECT status, count(*) FROM runs WHERE status IN :open GROUP BY status"
                bound = sa.text(query).bindparams(sa.bindparam("open", _OPEN, expanding=True))
                return {status: int(count) for status, count in connection.execute(bound)}
        finally:
            engine.dispose()
    # `health` tells what is the matter with it.
    except Exception:  # noqa: BLE001
        return {}


def _postgres(path: Path) -> dict[str, Any] | None:
    """Return the section ``storage.postgres`` of the file; None if Dagster uses SQLite.

    Raises ``E_STORAGE`` for a file that Dagster could not read either.
    """
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise TabootError(
            "E_STORAGE",
            f"{path} cannot be read ({type(error).__name__}).",
            remedy="Correct the file.",
            path=str(path),
        ) from None
    storage = told.get("storage") if isinstance(told, dict) else None
    postgres = storage.get("postgres") if isinstance(storage, dict) else None
    return postgres if isinstance(postgres, dict) else None


def _url(postgres: dict[str, Any]) -> str | sa.URL:
    named = _value(postgres.get("postgres_url"))
    if named:
        # The scheme of Dagster's URL may name a driver, or none.
        return sa.make_url(named).set(drivername="postgresql+psycopg")
    told = {k: _value(v) for k, v in postgres["postgres_db"].items() if k != "params"}
    return sa.URL.create(
        "postgresql+psycopg",
        username=told["username"],
        password=told.get("password") or None,
        host=told.get("hostname"),
        port=int(told.get("port") or 5432),
        database=told.get("db_name"),
    )


def _value(told: Any) -> str:
    """Return a value, or that of the variable named by ``{env: NAME}``."""
    if isinstance(told, dict) and "env" in told:
        return os.environ[str(told["env"])]
    return "" if told is None else str(told)
