"""Jobs for dead letters: list and inspect them, and let them be tried again."""

from typing import Any

import dagster as dg
from pydantic import Field

from taboot_pipelines.defs.metadata import records, shown_name, text_rows
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.stages import dead_letters
from taboot_pipelines.stages.dead_letters import Letter, letters, places

#: Letters that one run shows; ``taboot letters list`` shows all.
_MAX_SHOWN = 200


class LettersConfig(dg.Config):
    """Which letters are meant: all, or those of some sources or items."""

    namespace: str = Field("", description="The tenant; default TABOOT_NAMESPACE.")
    sources: list[str] = Field([], description="Ids of sources; none: all.")
    items: list[str] = Field([], description="Items as `taboot letters list` names them; none: all.")


@dg.op(description="The dead letters with their states; of named windows also where they stand.")
def list_letters(
    context: dg.OpExecutionContext, config: LettersConfig, workspace: WorkspaceResource
) -> dg.Output[int]:
    opened = workspace.open()
    found = letters(opened, config.namespace or opened.settings.namespace, config.sources, config.items)
    names = opened.settings.metadata_text
    metadata: dict[str, Any] = {"letters": len(found)}
    if found:
        metadata["shown"] = records([_row(x, names) for x in found[:_MAX_SHOWN]])
    at = [
        {
            "item": letter.item,
            "doc_id": place.doc_id,
            "start": place.start,
            "end": place.end,
            "line": place.line,
            "tokens": place.tokens,
            # An erasure does not reach Dagster's storage: the text is shown only where a setting allows it.
            **({"text": place.text} if names else {}),
        }
        for letter in (found if config.items else ())
        for place in places(opened, letter)
    ]
    if at:
        metadata["places"] = text_rows(at)
    context.log.info(f"{len(found)} dead letters.")
    return dg.Output(len(found), metadata=metadata)


@dg.op(description="Lets letters be due as after their first failure; the sensor runs their sources.")
def replay_letters(
    context: dg.OpExecutionContext, config: LettersConfig, workspace: WorkspaceResource
) -> dg.Output[int]:
    opened = workspace.open()
    namespace = config.namespace or opened.settings.namespace
    chosen = dead_letters.replay(opened, namespace, config.sources or None, config.items or None)
    by_source = sorted({x["source_id"] for x in chosen})
    context.log.info(f"{len(chosen)} letters are due, of {', '.join(by_source) or 'no source'}.")
    return dg.Output(
        len(chosen), metadata={"replayed": len(chosen), "sources": dg.MetadataValue.json(by_source)}
    )


@dg.job(
    name="dead_letters",
    description="Lists the dead letters; with `items` it shows where a window stands.",
    executor_def=dg.in_process_executor,
)
def dead_letters_job() -> None:
    list_letters()


@dg.job(
    name="replay_dead_letters",
    description="Tries dead letters again that a retry may mend: all, or those of some sources or items.",
    executor_def=dg.in_process_executor,
)
def replay_job() -> None:
    replay_letters()


def _row(letter: Letter, names: bool) -> dict[str, Any]:
    return {
        "source": letter.source,
        "stage": letter.stage,
        "item": shown_name(letter.namespace, letter.source, letter.stage, letter.item, names),
        "state": letter.state.value,
        "code": letter.code,
        "attempts": letter.attempts,
        "tried again": "" if letter.retry_at is None else letter.retry_at // 1_000_000,
    }


JOBS = [dead_letters_job, replay_job]
