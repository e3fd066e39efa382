"""Dagster's own storage: ``$DAGSTER_HOME``, else ``{TABOOT_HOME}/dagster``, made at the first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster import DagsterError
from sqlalchemy.exc import SQLAlchemyError

from taboot_pipelines.defs.pools import LIMITS
from taboot_pipelines.errors import TabootError
from taboot_pipelines.settings import Settings
from taboot_pipelines.stores.disk import private_folder, replace_file
from taboot_pipelines.stores.leases.files import FileLeases

#: The same as ``deploy/local/dagster.yaml``, where each line is explained.
DAGSTER_YAML = """\
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 4
  pools:
    granularity: op
    default_limit: 1
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
run_monitoring:
  enabled: true
  start_timeout_seconds: 300
  free_slots_after_run_end_seconds: 30
retention:
  schedule:
    purge_after_days:
      skipped: 1
      failure: 30
      success: 30
  sensor:
    purge_after_days:
      skipped: 1
      failure: 30
      success: 30
"""


@contextmanager
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Open the persistent instance of Dagster.

    Raises ``E_STORAGE`` if it cannot be opened, ``E_EXTRA`` if its storage is not installed, and ``E_BUSY``
    while another process creates it.
    """
    home = settings.dagster_home
    try:
        opened = _open(home, settings)
    except TabootError:
        raise
    # The storage that the file names may raise anything, and its message may quote its URL.
    except Exception as error:  # noqa: BLE001
        absent = error.__cause__ or error.__context__ or error
        if isinstance(absent, ModuleNotFoundError):
            extra = str(absent.name).partition(".")[0].replace("_", "-")
            raise TabootError(
                "E_EXTRA", f"{home / 'dagster.yaml'} names {extra}, which is not installed.", extra=extra
            ) from None
        raise _unusable(home, error) from None
    try:
        with opened as instance:
            yield instance
    except (OSError, SQLAlchemyError, DagsterError) as error:
        raise _unusable(home, error) from error
    except Exception as error:
        if type(error).__name__ == "DagsterPostgresException":
            # Its retries are used up. The class is outside Dagster's own hierarchy, and only
            # the extra knows it.
            raise _unusable(home, error) from None
        raise


def _unusable(home: Path, error: BaseException) -> TabootError:
    return TabootError(
        "E_STORAGE",
        f"Dagster's storage in {home} cannot be used ({type(error).__name__}).",
        path=str(home),
        remedy=(
            f"Check that the disk can be written, or that the database that {home / 'dagster.yaml'} names"
            " answers."
        ),
    )


def _open(home: Path, settings: Settings) -> dg.DagsterInstance:
    # Two processes that create the databases at once would collide over each other's tables.
    with FileLeases(settings.home_dir, settings.limits.lease_wait_seconds).exclusive("dagster"):
        if settings.home_dir in home.parents:
            private_folder(home)
        else:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = home / "dagster.yaml"
        if not config.exists():
            # Written in one step: a file that is cut short or empty would be taken for the operator's own
            # settings from then on.
            replace_file(config, DAGSTER_YAML.encode())
        instance = dg.DagsterInstance.from_config(str(home))
        if config.read_text(encoding="utf-8") == DAGSTER_YAML:
            # Limits are set wherever they are missing: the process that wrote the file may have been killed
            # before it set them.
            known = instance.event_log_storage.get_concurrency_keys()
            for pool in LIMITS.keys() - known:
                instance.event_log_storage.set_concurrency_slots(pool, LIMITS[pool])
    return instance
