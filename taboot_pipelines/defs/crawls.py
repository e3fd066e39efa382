"""The job that lets more processes work at a crawl: each helper is a step, wherever steps are carried out."""

from collections.abc import Iterator

import dagster as dg

from taboot_pipelines.defs.materialize import failures
from taboot_pipelines.defs.metadata import metadata_of
from taboot_pipelines.defs.pools import INGEST
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.errors import TabootError
from taboot_pipelines.stages.shared_crawls import await_crawl, join_crawl


class JoinConfig(dg.Config):
    """``source``: whose crawl it is. ``helpers``: how many steps work at it beside the run that leads it.
    ``wait_seconds``: how long it is waited for the crawl to begin.
    """

    source: str
    helpers: int = 1
    wait_seconds: float = 60.0


@dg.op(out=dg.DynamicOut(str), description="Waits for the crawl; one output for each helper.")
def helpers(
    context: dg.OpExecutionContext, config: JoinConfig, workspace: WorkspaceResource
) -> Iterator[dg.DynamicOutput[str]]:
    with failures(workspace.runtime, "crawl"):
        await_crawl(workspace.open(), config.source, config.wait_seconds)
    for n in range(max(config.helpers, 1)):
        yield dg.DynamicOutput(config.source, mapping_key=f"helper_{n + 1}")


@dg.op(
    pool=INGEST,
    description="Reads pages of the crawl until none is left; the run that leads it takes them in.",
)
def read_pages(context: dg.OpExecutionContext, workspace: WorkspaceResource, source: str) -> None:
    with failures(workspace.runtime, "crawl", context.retry_number):
        try:
            report = join_crawl(workspace.open(), source)
        except TabootError as error:
            if error.code != "E_NOT_FOUND":
                raise
            context.log.info(f"{source}: the crawl had ended when this helper began.")
            return
    context.add_output_metadata(metadata_of([report]))
    context.log.info(f"{source}: nothing is left of the crawl; read here: {dict(report.counts)}")


@dg.job(
    description=(
        "More processes for a crawl that is going on. Launch it beside the run of the source, with the source"
        " and how many helpers it is to have. Each is a step; they work at once where steps do"
        " (TABOOT_EXECUTOR)."
    )
)
def join_crawls() -> None:
    helpers().map(read_pages)


JOBS = [join_crawls]
