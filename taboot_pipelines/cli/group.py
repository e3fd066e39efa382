"""The group of all commands, and what holds for each of them: exit codes and how errors look.

Exit code 0: done; 1: something failed; 2: the command line itself is wrong; 130: interrupted.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

import click

from taboot_pipelines.cli import (
    admin,
    alert,
    backup,
    browse,
    capture,
    changes,
    check,
    completion,
    config,
    crawls,
    decide,
    discover,
    documents,
    domains,
    export,
    graph,
    handbook,
    impact,
    ingest,
    letters,
    mcp,
    metrics,
    models,
    notifications,
    plan,
    query,
    retention,
    rules,
    runs,
    sources,
    status,
    uploads,
    usage,
)
from taboot_pipelines.cli.output import show_error, wants_json, warn
from taboot_pipelines.errors import TabootError, raised_at
from taboot_pipelines.model.health import PROBE_THREAD

#: New objects after which Python looks for garbage. Importing makes very many and hardly any garbage: at the
#: default of 700 the looking takes a tenth of a search.
_OBJECTS = 50_000
#: Commands that say themselves which variables are no settings.
_TELL_THEMSELVES = ("status", "config")


class _Commands(click.Group):
    """Refuses arguments that are no text, for every command: a byte that is no UTF-8 comes as half
    of a surrogate pair, which no store takes.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(not text.isascii() and text.encode("utf-8", "replace").decode() != text for text in args):
            raise click.UsageError("An argument is not UTF-8.", ctx)
        return super().parse_args(ctx, args)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="taboot-pipelines", prog_name="taboot")
@click.pass_context
def cli(context: click.Context) -> None:
    """Infrastructure knowledge in one place, each fact traced to the bytes it came from."""
    from taboot_pipelines import logs
    from taboot_pipelines.settings import load_leniently, unknown_variables

    # A wrong setting is reported by the command that needs the settings; `schema` needs none.
    settings, _ = load_leniently()
    context.with_resource(logs.writing(settings, quiet=True))
    if context.invoked_subcommand not in _TELL_THEMSELVES:
        for unknown in unknown_variables(settings.sources_file):
            warn(unknown.message)


for command in (
    ingest.ingest,
    plan.plan,
    plan.held,
    crawls.crawls,
    query.search,
    query.ask,
    query.query,
    query.evaluate,
    query.feedback,
    graph.explain,
    graph.neighbors,
    graph.path,
    graph.links,
    graph.drift,
    impact.impact,
    check.check,
    rules.rules,
    alert.alert,
    handbook.handbook,
    query.cache,
    browse.browse,
    browse.serve,
    mcp.mcp,
    decide.correct,
    decide.retract,
    decide.add,
    decide.merge,
    decide.undo,
    decide.assertions,
    decide.supports,
    status.status,
    metrics.metrics,
    notifications.notifications,
    config.config,
    sources.init,
    sources.sources,
    documents.documents,
    documents.document,
    documents.collections,
    changes.changes,
    export.export,
    usage.usage,
    usage.jobs,
    usage.spaces,
    uploads.upload,
    uploads.tag,
    admin.audit,
    letters.letters,
    models.models,
    capture.capture,
    domains.domains,
    domains.proxies,
    discover.discover,
    runs.runs,
    runs.reinterpret,
    runs.reindex,
    admin.schema,
    admin.delete,
    admin.restore,
    backup.backup,
    retention.retention,
    retention.retain,
    admin.purge,
    admin.ui,
    completion.completion,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the console script with ``arguments`` (default: the process's own), and end the process."""
    end = SystemExit()
    if arguments is None:
        gc.set_threshold(_OBJECTS)
        # What is registered first is called last: no library has been loaded yet that registers anything.
        atexit.register(lambda: _leave(end))
    try:
        _run(sys.argv[1:] if arguments is None else list(arguments))
    except SystemExit as ended:
        end = ended
    if arguments is None and any(thread.name.startswith(PROBE_THREAD) for thread in threading.enumerate()):
        # A part that has still not answered is waited for by nothing.
        _leave(end)
    if end.code is not None:
        raise end


def _leave(end: SystemExit) -> NoReturn:
    """End the process without having Python taken down beneath its libraries.

    A library written in C++ aborts the process when one of its threads needs Python at that moment: one of
    pyarrow that still lets go of what it read from an object store (arrow issue 34314), or a part that was
    asked how it is and has still not answered. The command's work is done then, and its exit code must say
    so. Taking down the model and what else a search loaded would also take a tenth of a second. Python has
    awaited its threads by now and called what else was to be called at the end.
    """
    # A reader that has gone away wants nothing more.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(end.code if isinstance(end.code, int) else 0 if end.code is None else 1)


def _run(arguments: Sequence[str]) -> None:
    try:
        cli.main(args=list(arguments), prog_name="taboot", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted; run the same command again to go on.", err=True)
        sys.exit(130)
    except TabootError as error:
        show_error(error, wants_json(arguments))
        sys.exit(1)
    except BrokenPipeError:
        # The reader of a pipe has read enough (`taboot search … | head`).
        sys.stderr.close()
        sys.exit(0)
    # A defect's message may quote a document; the type and place do not.
    except Exception as error:  # noqa: BLE001
        show_error(
            TabootError(
                "E_INTERNAL", f"The command failed with {type(error).__name__} at {raised_at(error)}."
            ),
            wants_json(arguments),
        )
        sys.exit(1)
