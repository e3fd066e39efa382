"""``browse`` and ``serve``: the knowledge base in a browser, and over HTTP for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import click

from taboot_pipelines.cli.output import as_of_option, namespace_option

_port = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="The port of 127.0.0.1; default: a free one.",
)


@click.command()
@_port
@click.option(
    "--open/--no-open",
    "open_",
    default=None,
    help="Open it in the default browser; by default if this is a terminal with a screen.",
)
@as_of_option
@namespace_option
def browse(port: int, open_: bool | None, as_of: str | None, namespace: str | None) -> None:
    """Look around in a browser: search, ask, read what is cited, walk the graph.

    Nothing can be changed there. It listens on 127.0.0.1 alone and opens to whoever has the address that it
    prints, until Ctrl-C ends it.
    """

    def ready(address: str, once: str) -> None:
        click.echo(address)
        if _has_screen() if open_ is None else open_:
            import threading
            import webbrowser

            # One that runs in the terminal returns when it ends.
            threading.Thread(target=webbrowser.open, args=(once,), daemon=True).start()

    _serve(port, namespace, ready, as_of=as_of)


@click.command()
@_port
@namespace_option
def serve(port: int, namespace: str | None) -> None:
    """Serve programs: search, ask, query, graph, documents and alerts as JSON below /api, and the pages of
    `browse`.

    Nothing can be changed there. /api/openapi.json describes it. It listens on 127.0.0.1 alone; each request
    needs the token that is printed, or that of TABOOT_SERVE__TOKEN.
    """

    from taboot_pipelines.settings import load_settings

    set_ = load_settings().serve.token

    def ready(address: str, _once: str) -> None:
        base, _, token = address.partition("/?token=")
        click.echo(f"{base}/api")
        if set_ is None:
            click.echo(f"Authorization: Bearer {token}")

    _serve(port, namespace, ready, None if set_ is None else set_.get_secret_value())


def _serve(
    port: int,
    namespace: str | None,
    ready: Callable[[str, str], None],
    token: str | None = None,
    as_of: str | None = None,
) -> None:
    """Serve until the process is interrupted; ``ready`` and ``token`` as of ``browse.app.serve``."""
    from taboot_pipelines.browse.app import serve as run
    from taboot_pipelines.browse.app import take_port
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    # A port that another process has is told before anything is loaded.
    taken = take_port(port)
    # One query multiplies no matrices, and numpy's threads spin for a while when they are made.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from taboot_pipelines.retrieval import KnowledgeBase

    # One that nothing was published for yet is served too: its page says so, until something is.
    kb = KnowledgeBase(settings, settings.namespace if namespace is None else namespace, read_only=True)
    kb = kb if as_of is None else kb.as_of(as_of)

    def told(address: str, once: str) -> None:
        ready(address, once)
        click.echo("Ctrl-C ends it.", err=True)

    run(kb, taken, told, token)


def _has_screen() -> bool:
    """Whether a person at this terminal would see a browser that is opened here."""
    if not sys.stdout.isatty() or os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
