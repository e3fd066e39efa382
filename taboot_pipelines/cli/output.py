"""How commands write: results to stdout, all else to stderr; ``--json`` makes a result one JSON document."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def namespace_option(function: F) -> F:
    return click.option(
        "--namespace", metavar="NAME", default=None, help="The tenant; default: TABOOT_NAMESPACE."
    )(function)


def wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in arguments


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal:
        # A pipe has no width; rich would fold every line at 80 characters.
        out.width = 200
    return out


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        result.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return result


def text(value: object) -> Any:
    """A value as rich prints it unchanged: names of files are no markup, control characters are replaced."""
    from rich.text import Text

    return Text(_printable(value))


def plain(value: object, **style: bool) -> None:
    """Print a value as lines of text, control characters replaced, without waiting for rich to load.
    ``style``: as of ``click.style``, where the output is a terminal.
    """
    click.echo(click.style(_printable(value), **style))


def _printable(value: object) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in str(value))


def emit_json(value: Any) -> None:
    click.echo(
        json.dumps(value, ensure_ascii=False, indent=2, default=str).encode("utf-8", "backslashreplace")
    )


def show_error(error: TabootError, as_json: bool) -> None:
    """Print an error's code, message and remedy; for programs the error response of seed 000."""
    if as_json:
        emit_json(error.to_response())
    else:
        click.echo(
            f"{click.style(error.code, fg='red', bold=True)}: {error.message}\n  {error.remedy}", err=True
        )


def moment(micros: int | None) -> str | None:
    """Microseconds since the epoch as ISO 8601, UTC."""
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="seconds")
