"""``upload`` and ``tag``: documents beside the sources file, and labels of single documents."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from taboot_pipelines.cli import progress
from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, plain, text

if TYPE_CHECKING:
    from taboot_pipelines.settings import Settings

_MAX_SHOWN = 20


@click.command()
@click.argument("documents", metavar="DOCUMENT...", nargs=-1, required=True)
@click.option("--as", "name", metavar="NAME", help="What one document is called, such as manuals/router.pdf.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A label to filter by.")
@click.option(
    "--allow", "allowed", metavar="CIDR", multiple=True, help="Private addresses that a page may be at."
)
@click.option("--render", is_flag=True, help="Read pages as a browser shows them.")
@namespace_option
@json_option
def upload(
    documents: tuple[str, ...],
    name: str | None,
    tags: tuple[str, ...],
    allowed: tuple[str, ...],
    render: bool,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Take in documents beside the sources file: files, folders, pages by URL.

    A DOCUMENT of `-` is what is piped in. They stay until they are deleted, and need no sources file.
    Uploading a name again replaces what it had. Exit code 1 if a document failed.
    """
    if name is None and "-" in documents:
        raise click.UsageError("What is piped in needs a name: --as NAME.")
    if name is not None and len(documents) > 1:
        raise click.UsageError("--as is for one document.")
    from taboot_pipelines.settings import load_settings
    from taboot_pipelines.stages import uploads
    from taboot_pipelines.stages.workspace import Workspace

    settings = load_settings()
    workspace = Workspace(settings)
    try:
        with progress.display(as_json) as display:
            done = uploads.take(
                workspace,
                namespace or settings.namespace,
                (_piped(settings) if what == "-" else what for what in documents),
                name,
                tags=tags,
                allow_cidrs=allowed,
                render=render,
                progress=display.progress,
            )
    finally:
        workspace.close()
    if as_json:
        emit_json({"documents": [asdict(x) for x in done]})
    else:
        for x in [x for x in done if x.code is None][:_MAX_SHOWN]:
            plain(f"{x.doc_id[:8]}  {x.state:<9}  {x.path}")
        for x in [x for x in done if x.code is not None]:
            console().print(text(f"{x.path}: {x.code}: {x.message}"), style="yellow")
        plain(f"{len(done):,} document{'' if len(done) == 1 else 's'}.", dim=True)
    sys.exit(1 if any(x.code for x in done) else 0)


def _piped(settings: Settings) -> bytes:
    """What standard input holds, one byte more than is allowed at most."""
    return sys.stdin.buffer.read(settings.limits.max_blob_bytes + 1)


@click.command()
@click.argument("documents", metavar="DOCUMENT...", nargs=-1, required=True)
@click.option("--add", "new", metavar="TAG", multiple=True, help="A label to give.")
@click.option("--remove", "gone", metavar="TAG", multiple=True, help="A label to take away.")
@namespace_option
@json_option
def tag(
    documents: tuple[str, ...],
    new: tuple[str, ...],
    gone: tuple[str, ...],
    namespace: str | None,
    as_json: bool,
) -> None:
    """Give documents labels to filter by (`taboot search --tag`), or take them away.

    A DOCUMENT is named as for `taboot delete`. Labels of a whole source stand in the sources file.
    """
    if not new and not gone:
        raise click.UsageError("Say --add TAG or --remove TAG.")
    from taboot_pipelines.stages import tags
    from taboot_pipelines.stages.document_lookup import documents_called

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        doc_ids = documents_called(workspace, tenant, documents)
        followed = tags.tag(workspace, tenant, doc_ids, add=new, remove=gone)
        held = workspace.catalog.tags.all(tenant)
    told = {doc_id: list(held.get(doc_id, ())) for doc_id in doc_ids}
    if as_json:
        emit_json({"documents": told, "pending": followed.pending})
    else:
        for doc_id, own in told.items():
            plain(f"{doc_id[:8]}  {', '.join(own) or 'no labels of its own'}")
    if followed.failure is not None:
        raise followed.failure
    sys.exit(1 if followed.pending else 0)
