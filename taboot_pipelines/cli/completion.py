"""``completion``: what a shell needs to complete commands, options, source ids, relations and queries."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion of SHELL: commands, options, source ids, relations and queries.

    \b
    bash: eval "$(taboot completion bash)"       in ~/.bashrc
    zsh:  eval "$(taboot completion zsh)"        in ~/.zshrc, after compinit
    fish: taboot completion fish > ~/.config/fish/completions/taboot.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    # Not checked by running the shell: the script may be printed on another machine than it is for.
    script = found(context.find_root().command, {}, "taboot", "_TABOOT_COMPLETE")
    click.echo(script.source_template % script.source_vars())


def source_ids(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The ids of the sources file that begin so; none where it cannot be read.

    It is not checked: a person who has pressed a key does not wait for all connectors to load.
    """
    import yaml

    from taboot_pipelines.settings import load_leniently

    settings, _ = load_leniently()
    try:
        content = yaml.safe_load(settings.sources_file.read_bytes())
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return []
    entries = content.get("sources") if isinstance(content, dict) else None
    found = [e.get("id") for e in entries or () if isinstance(e, dict)] if isinstance(entries, list) else []
    return [source for source in found if isinstance(source, str) and source.startswith(incomplete)]


def relations(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The types of edges that begin so, in any case."""
    from taboot_pipelines.model.graph import EDGES

    return [type_ for type_ in EDGES if type_.startswith(incomplete.upper())]


def query_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The typed queries that begin so."""
    from taboot_pipelines.retrieval.queries.catalog import QUERIES

    return [name for name in QUERIES if name.startswith(incomplete)]


def rule_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The rules of the house that begin so."""
    from taboot_pipelines.retrieval.rules.catalog import RULES

    return [name for name in RULES if name.startswith(incomplete)]
