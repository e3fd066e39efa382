"""The check of what is served for drift: statements that cannot both be so."""

from __future__ import annotations

import dagster as dg

from taboot_pipelines.defs.checking import checked, namespaces_of
from taboot_pipelines.defs.kb import kb_shards
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.errors import TabootError

#: Drifts that a check shows.
_SHOWN = 20


@dg.asset_check(
    asset=kb_shards,
    blocking=False,
    description=(
        "Text and configuration, and configurations among themselves, agree on ports, images, addresses and"
        " upstreams. Mails, chats and reports of a day are not counted."
    ),
)
def no_drift(context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource) -> dg.AssetCheckResult:
    from taboot_pipelines.retrieval import KnowledgeBase

    found: list[tuple[str, str, str]] = []
    looked = 0
    with checked(workspace, "kb_shards") as opened:
        for namespace in namespaces_of(context, opened):
            try:
                kb = KnowledgeBase.open(namespace=namespace, settings=opened.settings)
            except TabootError as error:
                if error.code != "E_KB_UNINITIALIZED":
                    raise
                continue
            looked += 1
            for item in kb.drift(limit=1_000).items:
                if not item.record:
                    places = " | ".join(f"{s.url}:{s.line}" for s in item.sides)
                    found.append((item.kind, item.statement, places))
    return dg.AssetCheckResult(
        passed=not found,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"namespaces": looked, "drifts": len(found), **({"drift": _table(found)} if found else {})},
    )


def _table(found: list[tuple[str, str, str]]) -> dg.MarkdownMetadataValue:
    rows = [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
        for row in found[:_SHOWN]
    ]
    return dg.MetadataValue.md("\n".join(["| kind | what | where |", "|---|---|---|", *rows]))


CHECKS = [no_drift]
