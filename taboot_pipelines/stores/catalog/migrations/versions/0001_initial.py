"""The first schema: inputs, fetch log, pointers, runs, dead letters, deletions (rule ``watermark``)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_event",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_namespace", "audit_event", ["namespace", "id"], unique=False)
    op.create_table(
        "blob",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("storage_url", sa.Text(), nullable=False),
        sa.Column("storage_status", sa.Text(), nullable=False),
        sa.Column("mime_type", sa.Text(), nullable=True),
        sa.Column("file_name", sa.Text(), nullable=True),
        sa.Column("byte_size", sa.BigInteger(), nullable=False),
        sa.Column("source_type", sa.Text(), nullable=False),
        sa.Column("source_agent_id", sa.Text(), nullable=True),
        sa.Column("source_metadata", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "content_hash"),
    )
    op.create_table(
        "confirmation",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("deletions", sa.Integer(), nullable=False),
        sa.Column("confirmed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "dead_letter",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "source_id", "stage", "item"),
    )
    op.create_table(
        "deletion",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("receipt_id", sa.Text(), nullable=False),
        sa.Column("doc_ids", sa.Text(), nullable=False),
        sa.Column("erase", sa.Boolean(), nullable=False),
        sa.Column("stores", sa.Text(), nullable=False),
        sa.Column("blobs", sa.Text(), nullable=False),
        sa.Column("final", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "receipt_id"),
    )
    op.create_table(
        "fetch",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("attributes", sa.Text(), nullable=True),
        sa.Column("fetched_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_fetch_source", "fetch", ["namespace", "source_id", "id"], unique=False)
    op.create_table(
        "interpretation_run",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("interpretation_config", sa.Text(), nullable=False),
        sa.Column("input_fingerprint", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("extracted_nodes", sa.Integer(), nullable=False),
        sa.Column("extracted_edges", sa.Integer(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=True),
        sa.Column("unknown_field_count", sa.Integer(), nullable=False),
        sa.Column("extraction_completeness", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=True),
        sa.Column("timeout_at", sa.BigInteger(), nullable=True),
        sa.Column("archived_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "run_id"),
    )
    op.create_index(
        "ix_run_unit", "interpretation_run", ["namespace", "source_id", "tier", "unit_id"], unique=False
    )
    op.create_table(
        "job",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("process_started_at", sa.Float(), nullable=True),
        sa.Column("complete", sa.Boolean(), nullable=True),
        sa.Column("discovered", sa.Integer(), nullable=True),
        sa.Column("fetched", sa.Integer(), nullable=True),
        sa.Column("not_modified", sa.Integer(), nullable=True),
        sa.Column("skipped", sa.Integer(), nullable=True),
        sa.Column("failed", sa.Integer(), nullable=True),
        sa.Column("removed", sa.Integer(), nullable=True),
        sa.Column("held", sa.Integer(), nullable=True),
        sa.Column("listing", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("ix_job_source", "job", ["namespace", "source_id", "started_at"], unique=False)
    op.create_table(
        "locator",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("doc_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("byte_size", sa.BigInteger(), nullable=False),
        sa.Column("mime", sa.Text(), nullable=True),
        sa.Column("charset", sa.Text(), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("final_url", sa.Text(), nullable=True),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("lifecycle", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "source_id", "path"),
    )
    op.create_index("ix_locator_blob", "locator", ["namespace", "sha256"], unique=False)
    op.create_index("ix_locator_doc", "locator", ["namespace", "doc_id"], unique=False)
    op.create_table(
        "pointer",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("tables", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("txn", sa.Text(), nullable=False),
        sa.Column("applied", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "owner", "stage"),
    )
    op.create_table(
        "source_entry",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("root", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "source_id"),
    )
    op.create_table(
        "storage_usage",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("total_sources", sa.Integer(), nullable=False),
        sa.Column("last_calculated", sa.BigInteger(), nullable=False),
        sa.Column("interpretation_count_month", sa.Integer(), nullable=False),
        sa.Column("interpretation_limit_month", sa.Integer(), nullable=True),
        sa.Column("billing_month", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace"),
    )
    op.create_table(
        "tombstone",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("doc_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "doc_id"),
    )
    op.create_table(
        "unit_state",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("reads", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("subordinates", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("problems", sa.Text(), nullable=False),
        sa.Column("suppressed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "source_id", "tier", "unit_id"),
    )
    op.create_table(
        "upload_queue",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("temp_file_path", sa.Text(), nullable=False),
        sa.Column("byte_size", sa.BigInteger(), nullable=False),
        sa.Column("retry_count", sa.Integer(), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("next_retry_at", sa.BigInteger(), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "content_hash"),
    )


def downgrade() -> None:
    op.drop_table("upload_queue")
    op.drop_table("unit_state")
    op.drop_table("tombstone")
    op.drop_table("storage_usage")
    op.drop_table("source_entry")
    op.drop_table("pointer")
    op.drop_index("ix_locator_doc", table_name="locator")
    op.drop_index("ix_locator_blob", table_name="locator")
    op.drop_table("locator")
    op.drop_index("ix_job_source", table_name="job")
    op.drop_table("job")
    op.drop_index("ix_run_unit", table_name="interpretation_run")
    op.drop_table("interpretation_run")
    op.drop_index("ix_fetch_source", table_name="fetch")
    op.drop_table("fetch")
    op.drop_table("deletion")
    op.drop_table("dead_letter")
    op.drop_table("confirmation")
    op.drop_table("blob")
    op.drop_index("ix_audit_namespace", table_name="audit_event")
    op.drop_table("audit_event")
