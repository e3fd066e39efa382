"""``metrics``: what a home can be watched by, for Prometheus."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import plain
from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from taboot_pipelines.settings import Settings

HOST = "127.0.0.1"


@click.command()
@click.option("--parts", is_flag=True, help="Ask every part too (part_up); that may take seconds.")
@click.option(
    "--textfile",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write FILE, as node_exporter's textfile collector reads it (…/taboot.prom).",
)
@click.option(
    "--listen",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"Answer Prometheus on http://{HOST}:PORT/metrics until interrupted, and whether it runs on /health;"
    " 0: a free port.",
)
def metrics(parts: bool, textfile: Path | None, listen: int | None) -> None:
    """Print the metrics of the home in Prometheus' text format, write them to a file, or serve them.

    They name sources and codes, and nothing of what documents say.
    """
    if textfile is not None and listen is not None:
        raise click.UsageError("Say either --textfile or --listen.")
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages.metrics import exposition
    from taboot_pipelines.stores.disk import on_disk, replace_file

    settings = load_settings()
    if listen is not None:
        _serve(settings, listen, parts)
    elif textfile is not None:
        with on_disk("The metrics cannot be written", textfile):
            # Its reader is another user, and may come at any moment.
            replace_file(textfile, exposition(settings, parts=parts).encode(), mode=0o644)
    else:
        sys.stdout.write(exposition(settings, parts=parts))


def _serve(settings: Settings, port: int, parts: bool) -> None:
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from prometheus_client import make_wsgi_app
    from prometheus_client.exposition import ThreadingWSGIServer

    from taboot_pipelines.model.health import HEALTH
    from taboot_pipelines.stages.metrics import registry

    exposed = make_wsgi_app(registry(settings, parts=parts))

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == HEALTH:
            start("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"ok\n"]
        served: Iterable[bytes] = exposed(environ, start)
        return served

    class Silent(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    try:
        server = make_server(HOST, port, answer, ThreadingWSGIServer, Silent)
    except OSError as error:
        raise TabootError(
            "E_PORT", f"Port {port} of {HOST} cannot be used: {error.strerror}.", port=port
        ) from error
    plain(f"http://{HOST}:{server.server_port}/metrics")
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
