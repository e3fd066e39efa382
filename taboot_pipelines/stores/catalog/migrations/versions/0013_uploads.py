"""Documents that people uploaded, the tags that they gave documents, and when an expiry was announced."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

#: As in revision 0002, written out here too: a migration means the same for ever.
POLICIES = (
    ("taboot_namespace", "PUBLIC", "namespace = current_setting('taboot.namespace', true)"),
    ("taboot_maintenance", "PUBLIC", "current_user = 'taboot_maintenance'"),
    ("taboot_owner", "CURRENT_USER", "current_setting('taboot.maintenance', true) = 'on'"),
)


def upgrade() -> None:
    op.create_table(
        "uploaded",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("byte_size", sa.BigInteger(), nullable=False),
        sa.Column("mime", sa.Text()),
        sa.Column("charset", sa.Text()),
        sa.Column("url", sa.Text()),
        sa.Column("final_url", sa.Text()),
        sa.Column("uploaded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "path"),
    )
    op.create_table(
        "document_tag",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("doc_id", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "doc_id", "tag"),
    )
    op.add_column("locator", sa.Column("announced_at", sa.BigInteger()))
    counted = ["namespace", "state", "role", "source_id", "lifecycle"]
    op.create_index("ix_locator_state", "locator", counted)
    # What is EXPIRING already has its notice from now on.
    now = time.time_ns() // 1000
    op.execute(f"UPDATE locator SET announced_at = {now} WHERE lifecycle = 'EXPIRING'")
    if op.get_bind().dialect.name == "postgresql":
        for table in ("uploaded", "document_tag"):
            op.execute(f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY')
            op.execute(f'ALTER TABLE "{table}" FORCE ROW LEVEL SECURITY')
            for policy, who, grounds in POLICIES:
                op.execute(
                    f'CREATE POLICY {policy} ON "{table}" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
                )


def downgrade() -> None:
    op.drop_index("ix_locator_state", "locator")
    op.drop_column("locator", "announced_at")
    op.drop_table("document_tag")
    op.drop_table("uploaded")
