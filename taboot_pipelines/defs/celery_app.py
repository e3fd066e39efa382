"""The Celery app of the workers, configured by the same settings as the runs that give them work.

Start a worker with ``celery -A taboot_pipelines.defs.celery_app worker -Q default --pool=solo
--concurrency=1 --prefetch-multiplier=1``, and with ``-Q gpu`` on a machine with a GPU. A worker needs the
environment of the code location (``TABOOT_…``) and the same stores. It is a single process, so the embedder
is loaded once and stays.
"""

from __future__ import annotations

from dagster_celery.config import dict_wrapper
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_task

from taboot_pipelines.defs.executors import celery_app_arguments
from taboot_pipelines.settings import load_settings

_arguments = celery_app_arguments(load_settings().celery)
_source = dict_wrapper(_arguments["config_source"])  # type: ignore[no-untyped-call]
app = make_app({**_arguments, "config_source": _source})  # type: ignore[no-untyped-call]
# The project writes its own log lines to stderr; a worker that wrapped them in lines of its own would make
# them unreadable for log collectors.
app.conf.worker_redirect_stdouts = False

execute_plan = create_task(app)  # type: ignore[no-untyped-call]
