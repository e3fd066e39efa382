"""``config``: the settings in force and where each came from."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from taboot_pipelines.cli.output import emit_json, json_option, plain

if TYPE_CHECKING:
    from taboot_pipelines.settings import Settings


@click.command()
@click.argument("words", metavar="[WORD]...", nargs=-1)
@click.option("--set", "only_set", is_flag=True, help="Only those that are set, and what is wrong.")
@json_option
def config(words: tuple[str, ...], only_set: bool, as_json: bool) -> None:
    """Show the settings in force and where each came from: all, or those whose name has every WORD.

    Secrets are asterisks. What is wrong is named and left out; exit code 1 then.
    """
    from taboot_pipelines.settings import load_leniently, unknown_variables

    settings, problems = load_leniently()
    wrong = {p.variable: p.message for p in problems}
    rows = [
        {"name": name, "value": value, "from": _origin(name)}
        for name, value in settings_in_force(settings).items()
        if all(w.upper() in name for w in words)
    ]
    unknown = unknown_variables(settings.sources_file)
    if as_json:
        emit_json(
            {
                "settings": rows,
                "wrong": [{"setting": n, "message": m} for n, m in wrong.items()],
                "unknown": [{"variable": u.variable, "nearest": u.nearest} for u in unknown],
            }
        )
    else:
        for row in rows:
            origin = row["from"]
            if origin != "default" or not only_set:
                value = "" if row["value"] is None else row["value"]
                plain(
                    f"{row['name']}={value}" + ("" if origin == "default" else f"  ({origin})"),
                    bold=origin != "default",
                )
        for name, message in wrong.items():
            plain(f"{name} is wrong: {message}. It is left out; other commands refuse to start.", fg="red")
        for u in unknown:
            plain(u.message, fg="yellow")
    sys.exit(1 if wrong else 0)


def _origin(name: str) -> str:
    """``environment``, with the group's variable where that sets it as JSON, or ``default``."""
    given = {v.upper() for v, value in os.environ.items() if value}
    if name in given:
        return "environment"
    parts = name.split("__")
    groups = ["__".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]
    group = next((g for g in groups if g in given), None)
    return "default" if group is None else f"environment, {group}"


def settings_in_force(settings: Settings) -> dict[str, Any]:
    """The settings by the names of their environment variables; secrets are asterisks."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, dict):
                walk(f"{prefix}{name.upper()}__", value)
            else:
                flat[prefix + name.upper()] = no_credentials(value) if isinstance(value, str) else value

    walk("TABOOT_", settings.model_dump(mode="json"))
    return flat


def no_credentials(url: str) -> str:
    return re.sub(r"(?<=//)[^/@]*@", "***@", url).split("?", 1)[0] if "://" in url else url
