"""Group vectors: one vector for each distinct chunk text."""

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from taboot_pipelines.defs.assets import stage_asset
from taboot_pipelines.defs.checking import Looked, checked, looking, sources_of, verdict
from taboot_pipelines.defs.documents import chunks
from taboot_pipelines.defs.pools import EMBED
from taboot_pipelines.defs.published import read_published
from taboot_pipelines.defs.resources import WorkspaceResource

GROUP = "vectors"


embeddings = stage_asset(
    "embeddings",
    group=GROUP,
    pool=EMBED,
    kinds={"deltalake", "openvino"},
)


@dg.asset_check(
    asset=embeddings,
    blocking=True,
    additional_deps=[chunks],
    description="Every chunk's text has a vector of the space in force.",
)
def every_chunk_embedded(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    looked = Looked()
    with checked(workspace, "embeddings") as opened:
        for namespace, source_id in sources_of(context, opened):
            pointer = opened.catalog.pointers.get(namespace, source_id, "embeddings")
            # In another space every chunk has to be looked at again.
            check = f"every_chunk_embedded.{pointer.applied['space'] if pointer else ''}"
            with looking(context, opened, namespace, source_id, check, ["chunks"], looked) as scope:
                found = read_published(
                    opened,
                    namespace,
                    source_id,
                    "chunks",
                    columns=["chunk_id", "sha256"],
                    buckets=scope.buckets("chunks"),
                )
                vectors = read_published(opened, namespace, source_id, "embeddings", columns=["sha256"])
                missing = found.filter(
                    pc.invert(
                        pc.is_in(
                            found.column("sha256"),
                            value_set=vectors.column("sha256").combine_chunks().cast(pa.string()),
                        )
                    )
                )
                looked.rows += found.num_rows
                looked.broken += missing.column("chunk_id").to_pylist()
    return verdict(looked)


ASSETS = [embeddings]
CHECKS = [every_chunk_embedded]
