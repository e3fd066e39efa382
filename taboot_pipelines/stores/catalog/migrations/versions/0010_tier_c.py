"""What a chat model answered about windows of text, and which documents hold them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLES = ("llm_answer", "llm_window")
#: As in revision 0002, written out here too: a migration means the same for ever.
POLICIES = (
    ("taboot_namespace", "PUBLIC", "namespace = current_setting('taboot.namespace', true)"),
    ("taboot_maintenance", "PUBLIC", "current_user = 'taboot_maintenance'"),
    ("taboot_owner", "CURRENT_USER", "current_setting('taboot.maintenance', true) = 'on'"),
)


def upgrade() -> None:
    op.create_table(
        "llm_answer",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_version", sa.Text(), nullable=False),
        sa.Column("schema_version", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "key"),
    )
    op.create_table(
        "llm_window",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("doc_id", sa.Text(), nullable=False),
        sa.Column("blob_sha256", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("span_start", sa.Integer(), nullable=False),
        sa.Column("span_end", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "source_id", "doc_id", "blob_sha256", "key"),
    )
    op.create_index("ix_llm_window_key", "llm_window", ["namespace", "key"], unique=False)
    op.create_index(
        "ix_llm_window_open",
        "llm_window",
        ["namespace", "source_id"],
        unique=False,
        sqlite_where=sa.text("open"),
        postgresql_where=sa.text("open"),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            op.execute(f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY')
            op.execute(f'ALTER TABLE "{table}" FORCE ROW LEVEL SECURITY')
            for policy, who, grounds in POLICIES:
                op.execute(
                    f'CREATE POLICY {policy} ON "{table}" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
                )


def downgrade() -> None:
    op.drop_index("ix_llm_window_open", table_name="llm_window")
    op.drop_index("ix_llm_window_key", table_name="llm_window")
    op.drop_table("llm_window")
    op.drop_table("llm_answer")
