"""How commands write: results to stdout, all else to stderr; ``--json`` makes a result one JSON document."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from taboot_pipelines.errors import TabootError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from taboot_pipelines.retrieval import KnowledgeBase
    from taboot_pipelines.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def namespace_option(function: F) -> F:
    return click.option(
        "--namespace", metavar="NAME", default=None, help="The tenant; default: TABOOT_NAMESPACE."
    )(function)


def as_of_option(function: F) -> F:
    return click.option(
        "--as-of",
        metavar="DATE",
        default=None,
        help="As it was published on this day, or at this moment; default: as it is.",
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


def table(*columns: str, right: Sequence[str] = (), short: bool = False) -> Table:
    """A table; ``short``: each row is one line, and what is too long for it ends in an ellipsis."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        result.add_column(name, justify=justify, overflow="ellipsis" if short else "fold", no_wrap=short)
    return result


def fitted(value: object, width: int) -> str:
    """A text of at most ``width`` columns: of a longer one its end, which tells paths apart."""
    shown = printable(value)
    return shown if len(shown) <= width else f"…{shown[len(shown) - width + 1 :]}"


def cut(value: object, width: int) -> str:
    """A text of at most ``width`` columns: of a longer one its beginning."""
    shown = printable(value)
    return shown if len(shown) <= width else f"{shown[: max(0, width - 1)]}…"


def listing(
    out: Console, indent: str, lines: Sequence[str], *, style: str = "", most: int | None = None
) -> None:
    """Print lines at the console's width, broken between words only; the first begins with ``indent`` and
    what follows stands below it. ``most``: so many lines are shown.
    """
    width = max(20, out.width - len(indent))
    shown = [
        fitted(part, width)
        for line in lines
        for part in textwrap.wrap(printable(line), width, break_long_words=False, break_on_hyphens=False)
    ]
    if most is not None and len(shown) > most:
        shown = [*shown[: most - 1], f"{shown[most - 1][: width - 2]} …"]
    for number, line in enumerate(shown):
        out.print(text(f"{indent if number == 0 else ' ' * len(indent)}{line}"), style=style, soft_wrap=True)


def text(value: object) -> Any:
    """A value as rich prints it unchanged: names of files are no markup, control characters are replaced."""
    from rich.text import Text

    return Text(printable(value))


def plain(value: object, **style: Any) -> None:
    """Print a value as lines of text, control characters replaced, without waiting for rich to load.
    ``style``: as of ``click.style``, where the output is a terminal.
    """
    click.echo(click.style(printable(value), **style))


def printable(value: object) -> str:
    """The text with control characters replaced: what a file is called must not drive a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in str(value))


def open_kb(namespace: str | None, *, embedding: bool = False, as_of: str | None = None) -> KnowledgeBase:
    """The knowledge base, or as it was on a date. ``embedding``: the query will be embedded, so the bundled
    model is loaded while this thread still imports what reads the shards.
    """
    from taboot_pipelines.settings import load_settings

    settings = load_settings()
    # One query multiplies no matrices, and numpy's threads spin for a while when they are made.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if embedding:
        _load_model(settings)
    from taboot_pipelines.retrieval import KnowledgeBase

    kb = KnowledgeBase.open(namespace=namespace, settings=settings)
    return kb if as_of is None else kb.as_of(as_of)


def _load_model(settings: Settings) -> None:
    # What is wrong with the model is said by the search that needs it.
    with contextlib.suppress(TabootError):
        from taboot_pipelines.embedding import open_embedder
        from taboot_pipelines.embedding.minilm import MiniLmEmbedder

        embedder = open_embedder(settings)
        if isinstance(embedder, MiniLmEmbedder):
            embedder.load_meanwhile()


def emit_json(value: Any) -> None:
    click.echo(
        json.dumps(value, ensure_ascii=False, indent=2, default=str).encode("utf-8", "backslashreplace")
    )


def warn(message: str) -> None:
    """Print a warning to stderr, in a terminal broken between words."""
    line = f"warning: {printable(message)}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = "\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False))
    click.echo(click.style(line, fg="yellow"), err=True)


def show_error(error: TabootError, as_json: bool) -> None:
    """Print an error's code, message and remedy; for programs its ``to_response()``."""
    if as_json:
        emit_json(error.to_response())
    else:
        click.echo(
            f"{click.style(error.code, fg='red', bold=True)}: {error.message}\n  {error.remedy}", err=True
        )


def moment(micros: int | None) -> str | None:
    """Microseconds since the epoch as ISO 8601, UTC."""
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="seconds")
