"""Group ingest: the bytes that a connector fetched, and the graph of each crawl."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.checking import checked, sources_of
from taboot_pipelines.defs.described import described
from taboot_pipelines.defs.materialize import OWNERS, materialize
from taboot_pipelines.defs.partitions import BACKFILL, sources_partitions
from taboot_pipelines.defs.pools import INGEST
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.model.crawls import CrawlState
from taboot_pipelines.stages import crawl_graph as crawl_stage
from taboot_pipelines.stages.chain import CHAIN
from taboot_pipelines.stages.crawl_graph import CrawlGraph, wrong_ledger

GROUP = "ingest"


class FetchConfig(dg.Config):
    """What a person may decide for one run."""

    confirm_deletes: bool = Field(False, description="Carry out deletions that were held as E_MASS_DELETE.")


@dg.asset(
    group_name=GROUP,
    partitions_def=sources_partitions,
    pool=INGEST,
    kinds={"python", "sqlite"},
    owners=OWNERS,
    code_version="1",
    description=CHAIN.first.holds,
    metadata=described(CHAIN.first),
    backfill_policy=BACKFILL,
)
def raw_blobs(
    context: dg.AssetExecutionContext, config: FetchConfig, workspace: WorkspaceResource
) -> Iterator[Any]:
    yield from materialize(context, workspace, confirm_deletes=config.confirm_deletes)


@dg.asset_check(
    asset=raw_blobs,
    description="discovered = fetched + not modified + skipped + failed, for the last fetch.",
)
def ledger_adds_up(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    with checked(workspace, "raw_blobs") as opened:
        wrong = []
        for namespace, source_id in sources_of(context, opened):
            job = next(
                (
                    j
                    for j in opened.catalog.jobs.find(namespace, source_id, limit=5)
                    if j["state"] == "succeeded"
                ),
                None,
            )
            if job is not None and job["discovered"] != sum(
                job[k] for k in ("fetched", "not_modified", "skipped", "failed")
            ):
                wrong.append(
                    {
                        "source": source_id,
                        **{
                            k: job[k]
                            for k in ("job_id", "discovered", "fetched", "not_modified", "skipped", "failed")
                        },
                    }
                )
    return dg.AssetCheckResult(passed=not wrong, metadata={"wrong": dg.MetadataValue.json(wrong)})


@dg.asset_check(
    asset=raw_blobs,
    description="No deletions wait for a person (E_MASS_DELETE). Adds and edits went on.",
)
def no_deletes_held(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    with checked(workspace, "raw_blobs") as opened:
        held = {}
        for namespace, source_id in sources_of(context, opened):
            job = next(iter(opened.catalog.jobs.find(namespace, source_id, limit=1)), None)
            if job is not None and job["held"]:
                held[source_id] = job["held"]
    remedy = (
        {
            "remedy": (
                f"Look at what would go, then run `taboot ingest {' '.join(sorted(held))} --confirm-deletes`"
                " if it is right."
            )
        }
        if held
        else {}
    )
    return dg.AssetCheckResult(
        passed=not held,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"code": "E_MASS_DELETE", "held": dg.MetadataValue.json(held), **remedy} if held else {},
    )


crawl_graph = stage_asset(
    crawl_stage.STAGE,
    group=GROUP,
    pool=INGEST,
    kinds={"python", "sqlite"},
    code_version=crawl_stage.VERSION,
)


@dg.multi_asset_check(
    # One step for both: each step of a run costs its events.
    name="crawl_checks",
    specs=[
        dg.AssetCheckSpec(
            "crawl_ledgers_add_up",
            asset=crawl_graph,
            description=(
                "Of every crawl: discovered = fetched + not modified + skipped + failed, each with a reason."
            ),
        ),
        dg.AssetCheckSpec(
            "crawl_completed",
            asset=crawl_graph,
            description="The last crawl of each source came to its end, and every page it knows answered.",
        ),
    ],
    can_subset=False,
)
def crawl_checks(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> Iterator[dg.AssetCheckResult]:
    wrong: dict[str, str] = {}
    unfinished: dict[str, str] = {}
    looked = 0
    with checked(workspace, crawl_stage.STAGE) as opened:
        for namespace, source_id in sources_of(context, opened):
            graph = CrawlGraph(opened.catalog, namespace)
            held = graph.held()
            for number, crawl in enumerate(graph.crawls(source_id)):
                looked += 1
                why = wrong_ledger(crawl, graph.ledger_rows(crawl), held.get(crawl.crawl_id, 0))
                if why is not None:
                    wrong[crawl.crawl_id] = why
                if number == 0 and not crawl.complete:
                    running = crawl.state is CrawlState.RUNNING
                    unfinished[source_id] = "it has not come to its end" if running else crawl.reason
    # Of a source that does not crawl nothing is kept: most runs are of such.
    found: dict[str, Any] = {"crawls": looked, "wrong": dg.MetadataValue.json(wrong)} if looked else {}
    yield dg.AssetCheckResult(check_name="crawl_ledgers_add_up", passed=not wrong, metadata=found)
    remedy = (
        "The source's next run goes on with it, or crawls anew; `taboot crawls show SOURCE` has the pages."
    )
    left: dict[str, Any] = (
        {"unfinished": dg.MetadataValue.json(unfinished), "remedy": remedy} if unfinished else {}
    )
    yield dg.AssetCheckResult(
        check_name="crawl_completed",
        passed=not unfinished,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=left,
    )


ASSETS = [raw_blobs, crawl_graph]
CHECKS = [ledger_adds_up, no_deletes_held, crawl_checks]
