"""``models``: how often the configured chat model is right, and in what its facts are served."""

from __future__ import annotations

from functools import partial

import click

from taboot_pipelines.cli.admin import existing_workspace
from taboot_pipelines.cli.output import console, emit_json, json_option, namespace_option, table, text
from taboot_pipelines.cli.progress import display


@click.group()
def models() -> None:
    """Measure the chat model that reads along."""


@models.command("try")
@namespace_option
@json_option
def try_(namespace: str | None, as_json: bool) -> None:
    """Ask the chat model about labelled passages, measure by relation how often it is right, and keep that.

    The passages are those of the package and those of TABOOT_EXTRACTION__GOLD. Its facts are served in the
    relations in which it is right often enough (TABOOT_EXTRACTION__MIN_PRECISION). Asked again, it costs
    nothing; another model, or a release with another prompt, is to be measured anew.
    """
    from taboot_pipelines.extraction.quality import ALL, Score
    from taboot_pipelines.stages import model_trials, tier_c_triples

    with existing_workspace() as workspace:
        tenant = namespace or workspace.settings.namespace
        asking = tier_c_triples.trial_of(workspace, tenant)
        with display(as_json) as shown:
            shown.begin(asking.model)
            trial = model_trials.try_model(workspace, tenant, asking, partial(shown.progress, "windows"))
    rows = {
        relation: {
            "right": score.matched,
            "said": score.found,
            "labelled": score.labelled,
            "precision": _share(score.matched, score.found),
            "recall": _share(score.matched, score.labelled),
            "agreement": _share(trial.agreement.get(relation, Score()).matched, score.found),
            "facts": "" if relation == ALL else "served" if relation in trial.served else "candidates",
        }
        for relation, score in trial.scores.items()
    }
    if as_json:
        emit_json(
            {
                "model": trial.model,
                "passages": trial.passages,
                "own_passages": trial.own_passages,
                "relations": rows,
                "failed": trial.failed,
                "asked": trial.account.asked,
                "cached": trial.account.cached,
                "tokens": trial.account.input_tokens + trial.account.output_tokens,
                "min_precision": trial.min_precision,
                "file": str(trial.file),
            }
        )
        return
    out = console()
    own = f" and {trial.own_passages} of yours" if trial.own_passages else ""
    asked = f"{trial.account.asked} windows asked about, {trial.account.cached} known"
    out.print(text(f"{trial.model} on {trial.passages} passages of the package{own}: {asked}."))
    numbers = ("right", "said", "labelled", "precision", "recall", "agreement")
    rows_shown = table("relation", *numbers, "facts", right=numbers)
    for relation, row in rows.items():
        rows_shown.add_row(relation, *("–" if value is None else text(value) for value in row.values()))
    out.print(rows_shown)
    if trial.failed:
        out.print(text(f"{trial.failed} windows have no answer that can be used."), style="yellow")
    out.print(text(f"Agreement: the share of it that Tiers A and B say too. Kept in {trial.file}."))


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None
