"""How well sentences are read: the asset whose metadata is the plot over time, and the check for a drop."""

from pathlib import Path

import dagster as dg

from taboot_pipelines.defs.materialize import OWNERS, failures
from taboot_pipelines.defs.pools import KNOWLEDGE
from taboot_pipelines.defs.resources import WorkspaceResource
from taboot_pipelines.extraction import quality, tier_b

#: What F1 may lose from one materialization to the next, of 1.
MAX_DROP = 0.02
_COLUMNS = ("precision", "recall", "f1", "matched", "found", "labelled")


@dg.asset(
    group_name="knowledge",
    pool=KNOWLEDGE,
    kinds={"python"},
    owners=OWNERS,
    code_version=f"{tier_b.VERSION}.{tier_b.grammar_version()}",
    description=(
        "Precision, recall and F1 of reading sentences, of each relation, on the passages that you labelled:"
        " those of TABOOT_EXTRACTION__GOLD; nothing where that is not set."
    ),
)
def extraction_quality(workspace: WorkspaceResource) -> dg.MaterializeResult[None]:
    with failures(workspace.runtime, "extraction_quality"):
        gold = workspace.runtime.settings.extraction.gold
        if gold is None:
            return dg.MaterializeResult(metadata={"skipped": "skipped: TABOOT_EXTRACTION__GOLD"})
        passages = quality.read_passages(Path(gold))
        scores = quality.score(quality.found_by_rules(passages), passages)
    whole = scores[quality.ALL]
    metadata: dict[str, dg.MetadataValue] = {
        "gold_precision": dg.MetadataValue.float(whole.precision),
        "gold_recall": dg.MetadataValue.float(whole.recall),
        "gold_f1": dg.MetadataValue.float(whole.f1),
        "gold_relations": dg.MetadataValue.table(
            records=[dg.TableRecord(_row(relation, score)) for relation, score in scores.items()]
        ),
    }
    return dg.MaterializeResult(metadata=metadata)


def _row(relation: str, score: quality.Score) -> dict[str, str | float]:
    return {
        "relation": relation,
        **{column: round(float(getattr(score, column)), 3) for column in _COLUMNS},
    }


@dg.asset_check(
    asset=extraction_quality,
    blocking=False,
    description=f"F1 did not fall by more than {MAX_DROP:.2f} since the materialization before.",
)
def no_drop(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    records = context.instance.fetch_materializations(extraction_quality.key, limit=2).records
    values = [_f1(record.asset_materialization) for record in records]
    now, before = values[0] if values else {}, values[1] if len(values) > 1 else {}
    fell = {
        name: round(before[name] - value, 3)
        for name, value in now.items()
        if name in before and before[name] - value > MAX_DROP
    }
    return dg.AssetCheckResult(
        passed=not fell,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "fell": dg.MetadataValue.json(fell),
            **{name: dg.MetadataValue.float(value) for name, value in now.items()},
        },
    )


def _f1(made: dg.AssetMaterialization | None) -> dict[str, float]:
    if made is None:
        return {}
    return {
        name: float(value.value)
        for name, value in made.metadata.items()
        if name.endswith("_f1") and isinstance(value, dg.FloatMetadataValue) and value.value is not None
    }


ASSETS = [extraction_quality]
JOBS = [
    dg.define_asset_job(
        "measure_extraction",
        selection=dg.AssetSelection.assets(extraction_quality),
        description="Reads the labelled passages and says how well, of each relation.",
    )
]
CHECKS = [no_drop]
